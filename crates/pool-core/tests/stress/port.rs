//! The pool as its tasks see it: a handle that does not keep it open.

use pool_core::WeakWorkerPool;

use crate::job::Job;
use crate::subject::{Answer, How, Kind};

pub(crate) trait Port: Send + Sync {
    /// Submits a job. Returns it as the error once the pool's last handle is gone.
    fn hand(&self, job: Job, how: How, spawn: bool) -> Result<Answer, Job>;
}

impl<K: Kind> Port for WeakWorkerPool<K> {
    fn hand(&self, job: Job, how: How, spawn: bool) -> Result<Answer, Job> {
        match self.upgrade() {
            Some(pool) if spawn => Ok(K::spawn(&pool, job, how, None)),
            Some(pool) => Ok(K::submit(&pool, job, how, None)),
            None => Err(job),
        }
    }
}
