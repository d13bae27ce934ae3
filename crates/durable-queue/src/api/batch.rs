//! Batched pushes: one call of the store and one commit, all jobs or none.
//!
//! Not for repeating jobs, because their first due time requires a call of the store before the push.

use std::fmt;

use crate::api::queue::{DurableQueue, encoded};
use crate::error::PushError;
use crate::store::job::{JobId, Merge, NewJob, Put};
use crate::store::payload::Payload;
use crate::store::time::When;
use crate::store::{Result, Store};

/// A job of a batch: see [`DurableQueue::push_many`].
#[derive(Clone, PartialEq, Eq)]
#[must_use = "it is pushed by `push_many`"]
pub struct Push<T> {
    value: T,
    when: When,
    key: Option<Vec<u8>>,
    group: Option<String>,
    merge: Merge,
    urgent: bool,
}

impl<T> Push<T> {
    /// Creates a job without a key that is not urgent.
    pub fn new(value: T, when: impl Into<When>) -> Self {
        Self {
            value,
            when: when.into(),
            key: None,
            group: None,
            merge: Merge::Keep,
            urgent: false,
        }
    }

    /// Sets the key and the policy for an open job of that key: see [`push_keyed`](DurableQueue::push_keyed).
    pub fn keyed(mut self, key: impl Into<Vec<u8>>, merge: Merge) -> Self {
        self.key = Some(key.into());
        self.merge = merge;
        self
    }

    /// Sets the [group](DurableQueue::group), instead of that of the handle.
    pub fn group(mut self, group: impl Into<String>) -> Self {
        self.group = Some(group.into());
        self
    }

    /// Makes the job [urgent](DurableQueue::urgent).
    pub fn urgent(mut self) -> Self {
        self.urgent = true;
        self
    }

    /// Returns the value.
    pub fn value(&self) -> &T {
        &self.value
    }

    /// Returns the value, for example after a failed push.
    pub fn into_value(self) -> T {
        self.value
    }

    /// Returns the value, and the job with an empty payload.
    pub(crate) fn parts(&self) -> (&T, NewJob<'_>) {
        let job = NewJob {
            key: self.key.as_deref(),
            group: self.group.as_deref(),
            merge: self.merge,
            urgent: self.urgent,
            ..NewJob::plain(&[], self.when)
        };
        (&self.value, job)
    }
}

/// Omits values, keys and groups, which may be confidential.
impl<T> fmt::Debug for Push<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Push")
            .field("when", &self.when)
            .field("keyed", &self.key.is_some())
            .field("grouped", &self.group.is_some())
            .field("merge", &self.merge)
            .field("urgent", &self.urgent)
            .finish_non_exhaustive()
    }
}

impl<T: Payload, S: Store> DurableQueue<T, S> {
    /// Pushes many jobs, all or none, with one commit. Each may have a key and a merge policy, and a group, and may be urgent;
    /// kind and [`JobPolicy`](crate::JobPolicy) are those of the handle, for all of them.
    /// They are inserted in order, so the second of two jobs with the same key is merged into the first.
    /// Returns the outcome of each job, in order.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use durable_queue::{DurableQueue, Merge, Push, PushError, Store, When};
    /// # fn ordered<S: Store>(jobs: &DurableQueue<String, S>) -> Result<(), PushError<Vec<Push<String>>>> {
    /// let half_an_hour = Duration::from_secs(1_800);
    /// jobs.push_many(vec![
    ///     Push::new("confirm order 7".to_owned(), When::NOW).urgent(),
    ///     Push::new("expire order 7".to_owned(), half_an_hour).keyed("order-7", Merge::Keep),
    ///     Push::new("count the stock".to_owned(), half_an_hour).keyed("stock", Merge::Debounce),
    /// ])?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// The store's error, with the jobs.
    pub fn push_many(&self, jobs: Vec<Push<T>>) -> Result<Vec<Put>, PushError<Vec<Push<T>>>> {
        let all = jobs.iter().map(Push::parts);
        let entered = self.enter_all(all, |jobs| self.shared().enter_many(jobs));
        entered.map_err(|error| PushError { value: jobs, error })
    }

    /// [`push_many`](Self::push_many) for jobs that have only a value and a due time.
    ///
    /// # Errors
    /// The store's error, with the values.
    pub fn push_batch(
        &self,
        values: Vec<(T, When)>,
    ) -> Result<Vec<JobId>, PushError<Vec<(T, When)>>> {
        let job = |when: &When| NewJob::plain(&[], *when);
        let jobs = values.iter().map(|(value, when)| (value, job(when)));
        match self.enter_all(jobs, |jobs| self.shared().enter_many(jobs)) {
            Ok(puts) => Ok(puts.into_iter().map(Put::id).collect()),
            Err(error) => Err(PushError {
                value: values,
                error,
            }),
        }
    }

    /// Encodes all jobs before it passes them to `enter`.
    pub(crate) fn enter_all<'a, R>(
        &self,
        jobs: impl Iterator<Item = (&'a T, NewJob<'a>)>,
        enter: impl FnOnce(&[NewJob<'_>]) -> Result<R>,
    ) -> Result<R> {
        let encoded = jobs.map(|(value, job)| {
            let job = self.marks.mark(job);
            Ok((encoded(value)?, self.options(job.options), job))
        });
        let encoded: Vec<_> = encoded.collect::<Result<_>>()?;
        let jobs = encoded.iter().map(|(payload, options, job)| NewJob {
            payload,
            options: options.as_deref(),
            ..*job
        });
        enter(&jobs.collect::<Vec<_>>())
    }
}
