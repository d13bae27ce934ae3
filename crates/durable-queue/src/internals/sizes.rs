//! Size limits of pushes, for servers that would fail on larger ones, or report an ambiguous error.

use crate::error::{ErrorKind, StoreError};
use crate::store::Result;
use crate::store::job::NewJob;

/// Maximum sizes in bytes.
#[derive(Clone, Copy, Debug)]
pub struct Sizes {
    /// Limit of a payload.
    pub payload: usize,
    /// Limit of a key, a group, a schedule, a kind, the options or a queue's name.
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
            let texts = [job.group, job.schedule, job.kind, job.options];
            let texts = texts.map(|text| text.map(str::as_bytes));
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::store::time::When;

    #[test]
    fn each_part_of_a_push_has_a_limit() {
        let sizes = Sizes {
            payload: 9,
            key: 3,
            push: 15,
        };
        let check = |queue: &str, jobs: &[NewJob<'_>]| {
            sizes.check(queue, jobs).map_err(|error| error.kind())
        };
        let plain = NewJob::plain(&[0; 9], When::NOW);
        let largest = NewJob {
            key: Some(&[0; 3]),
            kind: Some("abc"),
            ..plain
        };
        assert_eq!(check("abc", &[largest]), Ok(()));
        let long = Some("abcd");
        for job in [
            NewJob::plain(&[0; 10], When::NOW),
            NewJob {
                key: Some(&[0; 4]),
                ..plain
            },
            NewJob {
                kind: long,
                ..plain
            },
            NewJob {
                group: long,
                ..plain
            },
            NewJob {
                options: long,
                ..plain
            },
            NewJob {
                schedule: long,
                ..plain
            },
            NewJob {
                options: Some("a"),
                ..largest
            },
        ] {
            assert_eq!(check("abc", &[job]), Err(ErrorKind::TooLarge), "{job:?}");
        }
        assert_eq!(check("abcd", &[plain]), Err(ErrorKind::TooLarge));
        assert_eq!(check("abc", &[plain; 2]), Err(ErrorKind::TooLarge));
    }
}
