//! How large what is pushed may be, where the server would choke on it, or say so by an error that looks like
//! others.

use crate::error::{ErrorKind, StoreError};
use crate::job::NewJob;
use crate::store::Result;

/// The most bytes of each.
#[derive(Clone, Copy, Debug)]
pub struct Sizes {
    /// Of one payload.
    pub payload: usize,
    /// Of a schedule and of a queue's name, too.
    pub key: usize,
    /// Of all jobs that are pushed together.
    pub push: usize,
}

impl Sizes {
    /// Compares the jobs of a push with the limits.
    ///
    /// # Errors
    /// [`ErrorKind::TooLarge`].
    pub fn check(&self, queue: &str, jobs: &[NewJob<'_>]) -> Result<()> {
        let mut all = 0_usize;
        let is_small = jobs.iter().all(|job| {
            let [key, schedule] =
                [job.key, job.schedule.map(str::as_bytes)].map(|part| part.map_or(0, <[u8]>::len));
            all = all.saturating_add(job.payload.len() + key + schedule);
            job.payload.len() <= self.payload && key <= self.key && schedule <= self.key
        });
        if is_small && all <= self.push && queue.len() <= self.key {
            Ok(())
        } else {
            Err(StoreError::new(ErrorKind::TooLarge))
        }
    }
}
