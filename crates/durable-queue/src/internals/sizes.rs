//! Size limits of pushes, for servers that would fail on larger ones, or report an ambiguous error.

use crate::error::{ErrorKind, StoreError};
use crate::job::NewJob;
use crate::store::Result;

/// Maximum sizes in bytes.
#[derive(Clone, Copy, Debug)]
pub struct Sizes {
    /// Limit of a payload.
    pub payload: usize,
    /// Limit of a key, a schedule, a kind, the options or a queue's name.
    pub key: usize,
    /// Limit of all jobs pushed together.
    pub push: usize,
}

impl Sizes {
    /// Checks the jobs of a push.
    ///
    /// # Errors
    /// [`ErrorKind::TooLarge`].
    pub fn check(&self, queue: &str, jobs: &[NewJob<'_>]) -> Result<()> {
        let mut all = 0_usize;
        let is_small = jobs.iter().all(|job| {
            let texts = [job.schedule, job.kind, job.options].map(|text| text.map(str::as_bytes));
            let parts = texts.into_iter().chain([job.key]);
            let is_short = parts.flatten().all(|part| {
                all = all.saturating_add(part.len());
                part.len() <= self.key
            });
            all = all.saturating_add(job.payload.len());
            job.payload.len() <= self.payload && is_short
        });
        if is_small && all <= self.push && queue.len() <= self.key {
            Ok(())
        } else {
            Err(StoreError::new(ErrorKind::TooLarge))
        }
    }
}
