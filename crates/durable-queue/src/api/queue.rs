//! The queue's handle.

use std::borrow::Cow;
use std::fmt;
use std::marker::PhantomData;
use std::panic::{RefUnwindSafe, UnwindSafe};
use std::sync::Arc;
use std::time::Instant;

use sync_shim::{Mutex, Timeout};

use crate::api::kind::Kind;
use crate::engine::combine::Combiner;
use crate::engine::config::{Config, Policy};
use crate::engine::control::Control;
use crate::engine::hooks;
use crate::engine::policy::JobPolicy;
use crate::engine::shared::Shared;
use crate::engine::stats::Stats;
use crate::error::{ErrorKind, PushError, StoreError};
use crate::store::job::{Cancelled, JobId, Merge, NewJob, Put, Reset, Which};
use crate::store::limit::Limit;
use crate::store::notify::ANYTHING;
use crate::store::payload::{DecodeError, Payload, decoded};
use crate::store::time::{StoreTime, When};
use crate::store::{DeadJob, ListedJob, Result, Store, StoreStats};
use crate::threads::Threads;

/// A delay queue whose jobs are in a [`Store`], shared by all processes that use the store.
///
/// Clones are the same queue. The first call that takes jobs starts the pump, which a thread of the queue's
/// [`Threads`] runs. A process that only pushes has no pump. Dropping the last clone [closes](Self::close) the queue.
pub struct DurableQueue<T, S: Store> {
    pub(crate) owner: Arc<Owner<S>>,
    pub(crate) marks: Marks,
    values: PhantomData<fn() -> T>,
}

/// Additions of a handle to the jobs that are pushed through it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Marks {
    urgent: bool,
    pub(crate) kind: Option<&'static str>,
    group: Option<Arc<str>>,
    /// The text of a policy.
    options: Option<Arc<str>>,
}

impl Marks {
    pub(crate) fn mark<'a>(&'a self, job: NewJob<'a>) -> NewJob<'a> {
        NewJob {
            urgent: job.urgent || self.urgent,
            kind: self.kind,
            group: job.group.or(self.group.as_deref()),
            options: self.options.as_deref(),
            ..job
        }
    }
}

/// Its drop is that of the last handle. Guards and futures do not keep it.
pub(crate) struct Owner<S: Store>(pub(crate) Arc<Shared<S>>);

/// Result of a [shutdown](DurableQueue::shutdown).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use = "handlers may still be running"]
pub enum ShutDown {
    /// All claimed jobs are settled or released.
    Finished,
    /// The deadline has passed. Jobs that are still held are handed out again when their leases expire.
    TimedOut,
    /// The queue belongs to the parent of this forked process. The call had no effect.
    Forked,
}

impl<T: Payload, S: Store> DurableQueue<T, S> {
    pub(crate) fn from_parts(
        name: String,
        store: S,
        config: Config,
        policy: Policy,
        threads: Threads,
    ) -> Self {
        let shared = Shared {
            store,
            name,
            control: Arc::new(Control::new(&threads)),
            calls: threads.calls,
            policy: Arc::new(policy),
            config,
            pushes: Combiner::new(),
            starting: Mutex::new(()),
        };
        Self {
            owner: Arc::new(Owner(Arc::new(shared))),
            marks: Marks::default(),
            values: PhantomData,
        }
    }

    fn marked<K>(&self, marks: Marks) -> DurableQueue<K, S> {
        DurableQueue {
            owner: Arc::clone(&self.owner),
            marks,
            values: PhantomData,
        }
    }

    /// Returns a handle of the same queue whose pushes are urgent, as are those of its clones.
    ///
    /// Urgent due jobs are claimed before other due jobs; among themselves they are ordered by time, then by
    /// id. No job is claimed earlier because it is urgent. To avoid starving other jobs, every eighth claim
    /// of a process ignores urgency. Jobs that a process has already claimed, up to its
    /// [`prefetch`](crate::Builder::prefetch) and the [batches](crate::WorkerBuilder::batch) of its workers, are not
    /// overtaken by an urgent job that is pushed later. A pending job that is merged with an urgent push
    /// becomes urgent.
    ///
    /// There are two levels. Jobs that must not wait for urgent jobs need a queue and a worker of their own.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use durable_queue::{DurableQueue, PushError, Store, When};
    /// # fn resets<S: Store>(mails: &DurableQueue<String, S>) -> Result<(), PushError<String>> {
    /// mails.push("the newsletter".to_owned(), When::NOW)?;
    /// mails.urgent().push("a new password".to_owned(), When::NOW)?; // Sent first.
    /// # Ok(())
    /// # }
    /// ```
    #[must_use = "only pushes through the returned handle are urgent"]
    #[doc(alias = "priority")]
    pub fn urgent(&self) -> Self {
        self.marked(Marks {
            urgent: true,
            ..self.marks.clone()
        })
    }

    /// Returns a handle of the same queue for jobs of one kind, whose pushes are of this kind. It keeps the urgency, the group
    /// and the policy of this handle. [`Kind`] has an example.
    ///
    /// A worker that has handlers of [kinds](crate::WorkerBuilder::on) finds the handler of a job by its kind, and a
    /// [`take`](Self::take) of this handle takes jobs of its kind only. Handles that are not of a kind take jobs of all kinds
    /// and decode each as their own type; [`Claimed::kind`] tells the kind.
    ///
    /// [`Claimed::kind`]: crate::Claimed::kind
    #[must_use = "only pushes through the returned handle are of this kind"]
    pub fn kind<K: Kind + Payload>(&self) -> DurableQueue<K, S> {
        self.marked(Marks {
            kind: Some(K::NAME),
            ..self.marks.clone()
        })
    }

    /// Returns a handle of the same queue whose pushes are of this group: a tenant, an account, or whatever else must have its
    /// jobs in order, or not too many of them at a time. Any number of a group's jobs may wait. What a group means is the
    /// queue's [rule](Self::limit), one of [`Groups`](crate::Groups); without one it has no effect. Calls that take jobs take
    /// those of all groups.
    ///
    /// ```
    /// use durable_queue::{DurableQueue, Limit, When};
    /// use durable_queue_sqlite::SqliteStore;
    ///
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let payments = DurableQueue::new("payments", SqliteStore::open(":memory:")?);
    /// payments.limit(&Limit::ordered())?;
    /// let account = payments.group("account 7");
    /// account.push("pay 10".to_owned(), When::NOW)?;
    /// account.push("pay 20".to_owned(), When::NOW)?;
    /// let first = payments.take()?;
    /// assert!(payments.take_timeout(std::time::Duration::ZERO).is_err()); // The second one waits.
    /// first.ack()?;
    /// assert_eq!(*payments.take()?, "pay 20");
    /// # Ok(())
    /// # }
    /// ```
    #[must_use = "only pushes through the returned handle are of this group"]
    #[doc(alias = "exclusive")]
    #[doc(alias = "serial")]
    pub fn group(&self, group: impl Into<Arc<str>>) -> Self {
        self.marked(Marks {
            group: Some(group.into()),
            ..self.marks.clone()
        })
    }

    /// Returns a handle of the same queue whose jobs have this policy, instead of that of this handle.
    /// [`JobPolicy`] has an example.
    #[must_use = "only jobs pushed through the returned handle have the policy"]
    pub fn with_policy(&self, policy: JobPolicy) -> Self {
        let options = Some(policy.to_text()).filter(|text| !text.is_empty());
        self.marked(Marks {
            options: options.map(Arc::from),
            ..self.marks.clone()
        })
    }

    /// Pushes a job that is due at `when`: after a [`Duration`](std::time::Duration), or at a point in time. Blocks until the
    /// store has committed it. Concurrent pushes of several threads share calls of the store, which increases
    /// their throughput.
    ///
    /// # Errors
    /// The store's error, with the value.
    pub fn push(&self, value: T, when: impl Into<When>) -> Result<JobId, PushError<T>> {
        let job = NewJob::plain(&[], when.into());
        match self.with_payload(&value, job, |job| self.shared().enter(job)) {
            Ok(put) => Ok(put.id()),
            Err(error) => Err(PushError { value, error }),
        }
    }

    /// Pushes a job with a key: at most one job of a key is open, and `merge` decides how a further push
    /// changes it. [`Merge`] explains when a job is open.
    ///
    /// # Errors
    /// The store's error, with the value.
    pub fn push_keyed(
        &self,
        key: impl AsRef<[u8]>,
        value: T,
        when: impl Into<When>,
        merge: Merge,
    ) -> Result<Put, PushError<T>> {
        let job = NewJob {
            key: Some(key.as_ref()),
            merge,
            ..NewJob::plain(&[], when.into())
        };
        let entered = self.with_payload(&value, job, |job| self.shared().enter(job));
        entered.map_err(|error| PushError { value, error })
    }

    /// Pushes a repeating job. It is due at the next time of `schedule`. Each acknowledgement makes it due
    /// again, at the next time in the future. The same commit does both, so the job is neither lost nor
    /// duplicated when a process is killed. Times that pass while all processes are down result in a single
    /// run.
    ///
    /// A program may push the job at each start: the job with this key gets the new schedule and the new
    /// value, and is due at the earlier of its time and the schedule's. A run in progress continues, and is
    /// retried if it fails; the change applies to the next run. The job ends when it is cancelled by its key;
    /// a run in progress is then the last. A run whose attempts have all failed is given up, and the next run
    /// follows. A [buried](crate::Claimed::bury) job does not run again until it is redriven.
    ///
    /// ```
    /// # use durable_queue::{DurableQueue, PushError, Schedule, ScheduleError, Store};
    /// # fn at_start<S: Store>(queue: &DurableQueue<String, S>) -> Result<(), Box<dyn std::error::Error>> {
    /// let at_three: Schedule = "0 3 * * *".parse()?; // In UTC.
    /// queue.push_repeating("report", &at_three, "yesterday".to_owned())?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// The store's error, with the value. [`ErrorKind::Unencodable`] if the schedule has no time in the
    /// future.
    #[cfg(feature = "cron")]
    #[doc(alias = "cron")]
    pub fn push_repeating(
        &self,
        key: impl AsRef<[u8]>,
        schedule: &crate::store::schedule::Schedule,
        value: T,
    ) -> Result<Put, PushError<T>> {
        let job = NewJob::repeating(&[], key.as_ref(), schedule);
        let entered = self.with_payload(&value, job, |job| {
            self.shared().enter_repeating(schedule, job)
        });
        entered.map_err(|error| PushError { value, error })
    }

    /// Encodes the value, and calls `enter` with the whole job.
    pub(crate) fn with_payload<R>(
        &self,
        value: &T,
        job: NewJob<'_>,
        enter: impl FnOnce(NewJob<'_>) -> Result<R>,
    ) -> Result<R> {
        let payload = encoded(value)?;
        let job = self.marks.mark(NewJob {
            payload: &payload,
            ..job
        });
        let options = self.options(job.options);
        enter(NewJob {
            options: options.as_deref(),
            ..job
        })
    }

    /// Returns the options of a job that is pushed now, with the text of the hooks.
    pub(crate) fn options<'a>(&self, options: Option<&'a str>) -> Option<Cow<'a, str>> {
        hooks::options(self.shared().config.observer.as_ref(), options)
    }

    /// Announces jobs that the store may not have announced: after the commit of a transaction that has
    /// pushed some.
    pub fn announce(&self) {
        self.shared().control.announce(ANYTHING);
    }

    /// Removes a job, by its id or key, unless a handler has it. After [`Gone`](Cancelled::Gone), no process
    /// hands out the job, except a process without [confirmation](crate::Builder::confirm) that the recall reaches
    /// too late.
    ///
    /// If a handler has the job, the result is [`Taken`](Cancelled::Taken), and its process is asked to stop it, in
    /// whatever process it is: see [`Claimed::cancelled`](crate::Claimed::cancelled). The job is not retried, and if
    /// its process dies, it ends. By a key, all running jobs of the key are asked to stop, also if a pending one was
    /// removed. Repeating the call changes nothing.
    ///
    /// # Errors
    /// The store's error, or an error that the payload cannot be decoded: the job is removed in that case
    /// too.
    pub fn cancel<'a>(&self, which: impl Into<Which<'a>>) -> Result<Cancelled<T>, CancelError> {
        let Shared { store, name, .. } = &**self.shared();
        cancelled(store.cancel(name, which.into()))
    }

    /// Changes a job's due time, by its id or key, unless a handler has it. The result is as reliable as that
    /// of [`cancel`](Self::cancel).
    ///
    /// # Errors
    /// The store's error.
    pub fn reset<'a>(&self, which: impl Into<Which<'a>>, when: impl Into<When>) -> Result<Reset> {
        let Shared { store, name, .. } = &**self.shared();
        store.reset(name, which.into(), when.into())
    }

    /// Pauses or resumes the queue for all processes. Running jobs continue.
    ///
    /// # Errors
    /// The store's error.
    pub fn pause(&self, paused: bool) -> Result<()> {
        let Shared { store, name, .. } = &**self.shared();
        store.pause(name, paused)
    }

    /// Sets a limit for all processes, which the store keeps. It replaces the limit of the same sort and kind,
    /// and may be changed while jobs run: they continue, and count.
    ///
    /// Jobs over the limit wait without hiding others: jobs of other groups and kinds go on, and the next job
    /// becomes due as soon as there is room, also after the holder of another one has died. A job that is
    /// claimed ahead counts, so no process starts a job beyond the limit. The place of a killed process is free
    /// when its leases expire, except that a job of a group keeps its seat for its next holder. A holder that is late is
    /// rejected once its place has been given away.
    ///
    /// ```
    /// use std::time::Duration;
    /// use durable_queue::{DurableQueue, Limit};
    /// use durable_queue_sqlite::SqliteStore;
    ///
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let queue: DurableQueue<String, _> = DurableQueue::new("jobs", SqliteStore::open(":memory:")?);
    /// queue.limit(&Limit::per_group(2))?;
    /// queue.limit(&Limit::per_kind("report", 4))?;
    /// queue.limit(&Limit::rate_of_kind("mail", 100, Duration::from_secs(60)))?;
    /// assert_eq!(queue.limits()?.len(), 3);
    /// queue.remove_limit(&Limit::per_kind("report", 4))?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`ErrorKind::Unsupported`](crate::ErrorKind::Unsupported) if the store supports no limits; and the store's error.
    ///
    /// # Cost
    /// The first limit reads the held jobs of the queue once. Afterwards each claim of the queue reads the
    /// limits, and the leases of kinds that have a maximum. Queues without limits pay nothing.
    #[doc(alias = "concurrency")]
    #[doc(alias = "throttle")]
    pub fn limit(&self, limit: &Limit) -> Result<()> {
        let Shared { store, name, .. } = &**self.shared();
        store.limit(name, limit, true)
    }

    /// Removes the limit of the same sort and kind, if there is one. Its figures do not matter.
    ///
    /// # Errors
    /// As for [`limit`](Self::limit).
    pub fn remove_limit(&self, limit: &Limit) -> Result<()> {
        let Shared { store, name, .. } = &**self.shared();
        store.limit(name, limit, false)
    }

    /// Returns the limits of the queue: the rule of the groups first, then by kind.
    ///
    /// # Errors
    /// The store's error.
    pub fn limits(&self) -> Result<Vec<Limit>> {
        let Shared { store, name, .. } = &**self.shared();
        store.limits(name)
    }

    /// Returns up to `most` jobs that are not done, ordered by the time from which they can be claimed, then
    /// by id. Starts after `after`, the [position](ListedJob::position) of the last job of the previous page.
    /// Payloads are not read.
    ///
    /// # Errors
    /// The store's error.
    pub fn list(&self, after: Option<(StoreTime, JobId)>, most: u32) -> Result<Vec<ListedJob>> {
        let Shared { store, name, .. } = &**self.shared();
        store.list(name, after, most)
    }

    /// Returns up to `most` dead letters with ids greater than `after`.
    ///
    /// # Errors
    /// The store's error.
    pub fn dead(&self, after: Option<JobId>, most: u32) -> Result<Vec<DeadJob>> {
        let Shared { store, name, .. } = &**self.shared();
        store.dead(name, after, most)
    }

    /// Makes dead letters jobs again, due at once and without previous attempts. Returns their number,
    /// without those that do not exist or whose key has an open job, and without repeating ones whose key has a
    /// repeating job.
    ///
    /// # Errors
    /// The store's error.
    pub fn redrive(&self, ids: &[JobId]) -> Result<usize> {
        let Shared { store, name, .. } = &**self.shared();
        store.redrive(name, ids)
    }

    /// Deletes dead letters permanently. Returns the number of dead letters that existed.
    ///
    /// # Errors
    /// The store's error.
    #[doc(alias = "purge")]
    pub fn delete_dead(&self, ids: &[JobId]) -> Result<usize> {
        let Shared { store, name, .. } = &**self.shared();
        store.delete_dead(name, ids)
    }

    /// Returns the store's figures of the queue, for all processes.
    ///
    /// # Errors
    /// The store's error.
    pub fn store_stats(&self) -> Result<StoreStats> {
        let Shared { store, name, .. } = &**self.shared();
        store.stats(name)
    }

    /// Returns this process's figures of the queue.
    pub fn stats(&self) -> Stats {
        self.shared().control.counters.stats()
    }

    /// Returns the last error of the store, or `None` if it has answered since.
    pub fn last_error(&self) -> Option<StoreError> {
        self.shared().control.last_error()
    }

    /// Returns the store.
    pub fn store(&self) -> &S {
        &self.shared().store
    }

    /// Returns the name of the queue.
    pub fn name(&self) -> &str {
        &self.shared().name
    }

    /// Stops taking jobs in this process: waiting calls end, and jobs that are claimed but not started are
    /// released. Handlers continue, and can settle their jobs. Does not wait. Pushes still work.
    pub fn close(&self) {
        self.shared().control.close(None);
    }

    /// [Closes](Self::close) the queue, and blocks until handlers have settled all their jobs, for at most
    /// `timeout`. Then the pump ends: later settles return
    /// [`SettleError::ShutDown`](crate::SettleError::ShutDown). A caller that holds a job itself waits until `timeout`.
    pub fn shutdown(&self, timeout: impl Into<Timeout>) -> ShutDown {
        let shared = self.shared();
        shared.shutdown(timeout.into().deadline(&shared.control.clock))
    }

    pub(crate) fn shared(&self) -> &Arc<Shared<S>> {
        &self.owner.0
    }
}

pub(crate) fn encoded<T: Payload>(value: &T) -> Result<Cow<'_, [u8]>> {
    // USER CODE: `Payload::encode`. A panic is the caller's, and nothing is stored.
    let encoded = value.encode();
    encoded.map_err(|error| StoreError::new(ErrorKind::Unencodable).with_source(error))
}

/// Decodes the payload of a cancelled job.
pub(crate) fn cancelled<T: Payload>(
    answer: Result<Cancelled>,
) -> Result<Cancelled<T>, CancelError> {
    Ok(match answer.map_err(CancelError::Store)? {
        Cancelled::Gone { payload, attempts } => Cancelled::Gone {
            payload: decoded(payload).map_err(CancelError::Unreadable)?,
            attempts,
        },
        Cancelled::Taken => Cancelled::Taken,
        Cancelled::Never => Cancelled::Never,
    })
}

impl<S: Store> Shared<S> {
    /// Inserts a job, together with those of other threads and futures if possible.
    fn enter(self: &Arc<Self>, job: NewJob<'_>) -> Result<Put> {
        // In a forked process the parent's threads do not exist, and its locks may be held for ever.
        if self.control.is_forked() {
            return self.enter_alone(job);
        }
        self.observe_push(&[job], || self.pushes.push(job, self))
    }

    /// Inserts all jobs, or none.
    pub(crate) fn enter_many(&self, jobs: &[NewJob<'_>]) -> Result<Vec<Put>> {
        self.observe_push(jobs, || self.store.enqueue(&self.name, jobs))
    }

    /// Reports a push to the hooks.
    pub(crate) fn observe_push<R>(
        &self,
        jobs: &[NewJob<'_>],
        push: impl FnOnce() -> Result<R>,
    ) -> Result<R> {
        let observer = self.config.observer.as_ref();
        hooks::around_push(observer, &self.control.clock, jobs, push)
    }

    pub(crate) fn enter_alone(&self, job: NewJob<'_>) -> Result<Put> {
        self.store.enqueue(&self.name, &[job]).map(|puts| puts[0])
    }

    /// Inserts a job that is due at the next time of the schedule.
    #[cfg(feature = "cron")]
    pub(crate) fn enter_repeating(
        &self,
        schedule: &crate::store::schedule::Schedule,
        job: NewJob<'_>,
    ) -> Result<Put> {
        self.observe_push(&[job], || self.enter_scheduled(schedule, job))
    }

    #[cfg(feature = "cron")]
    fn enter_scheduled(
        &self,
        schedule: &crate::store::schedule::Schedule,
        job: NewJob<'_>,
    ) -> Result<Put> {
        let mut margin = std::time::Duration::ZERO;
        loop {
            // By the store's clock, which decides when the job is due.
            let now = self.store.turn(&self.name, &[], None)?.now;
            let first = schedule.next_after(now.after(margin));
            let first = first.ok_or_else(|| StoreError::new(ErrorKind::Unencodable))?;
            let when = first.into();
            match self.enter_alone(NewJob { when, ..job }) {
                // That time has passed in the meantime, and may have been processed already. Without a
                // growing margin, a store slower than the schedule would be asked for ever.
                Ok(Put::Kept(_)) => {
                    margin = margin
                        .saturating_mul(2)
                        .max(crate::engine::pump::FIRST_PAUSE);
                }
                entered => return entered,
            }
        }
    }

    pub(crate) fn shutdown(&self, deadline: Option<Instant>) -> ShutDown {
        if self.control.is_forked() {
            return ShutDown::Forked;
        }
        self.control.close(deadline);
        if !self.control.wait_for_end(deadline) {
            return ShutDown::TimedOut;
        }
        self.join_pump()
    }

    /// Joins the pump, which has ended.
    pub(crate) fn join_pump(&self) -> ShutDown {
        self.control.join_pump();
        self.how_it_ended()
    }

    /// Returns the result of a shutdown, after the pump has ended.
    pub(crate) fn how_it_ended(&self) -> ShutDown {
        if self.control.was_cut_short() {
            ShutDown::TimedOut
        } else {
            ShutDown::Finished
        }
    }
}

impl<S: Store> Drop for Owner<S> {
    fn drop(&mut self) {
        self.0.control.close(None);
    }
}

// Shared state is accessed under locks only, and no code of a store, a hook or a handler runs under them: a panic leaves it
// consistent.
impl<T, S: Store> UnwindSafe for DurableQueue<T, S> {}
impl<T, S: Store> RefUnwindSafe for DurableQueue<T, S> {}

impl<T, S: Store> Clone for DurableQueue<T, S> {
    fn clone(&self) -> Self {
        Self {
            owner: Arc::clone(&self.owner),
            marks: self.marks.clone(),
            values: PhantomData,
        }
    }
}

impl<T, S: Store> fmt::Debug for DurableQueue<T, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Shared { name, config, .. } = &*self.owner.0;
        f.debug_struct("DurableQueue")
            .field("name", name)
            .field("config", config)
            .field("marks", &self.marks)
            .finish_non_exhaustive()
    }
}

/// Error of [`cancel`](DurableQueue::cancel).
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum CancelError {
    /// The store failed.
    Store(StoreError),
    /// The job was removed, but its payload cannot be decoded as the queue's type.
    Unreadable(DecodeError),
}

impl fmt::Display for CancelError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Store(error) => error.fmt(f),
            Self::Unreadable(error) => write!(f, "the job is cancelled, but {error}"),
        }
    }
}

impl std::error::Error for CancelError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Store(error) => error.source(),
            Self::Unreadable(error) => Some(error),
        }
    }
}
