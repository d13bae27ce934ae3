//! The queue, as the program sees it.

use std::borrow::Cow;
use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;
use std::time::{Duration, Instant};

use sync_shim::{Clock, Mutex};

use crate::clock::SharedClock;
use crate::combine::Combiner;
use crate::config::{Config, Policy};
use crate::control::Control;
use crate::error::{ErrorKind, PushError, StoreError};
use crate::job::{Cancelled, JobId, Merge, NewJob, Put, Reset, Which};
use crate::notify::ANYTHING;
use crate::payload::{DecodeError, Payload, decoded};
use crate::shared::Shared;
use crate::stats::Stats;
use crate::store::{DeadJob, EnqueueIn, ListedJob, Result, Store, StoreStats};
use crate::time::{StoreTime, When};

/// A delay queue whose jobs are in a [`Store`], shared by all processes that use the store.
///
/// Clones are the same queue. The first call to take starts the pump, one thread; a process that
/// only pushes has none. Dropping the last clone is [`close`](Self::close).
pub struct DurableQueue<T, S: Store> {
    pub(crate) owner: Arc<Owner<S>>,
    /// What this handle pushes is urgent.
    pub(crate) urgent: bool,
    values: PhantomData<fn() -> T>,
}

/// Its drop is that of the last handle. Guards and futures do not keep it.
pub(crate) struct Owner<S: Store>(pub(crate) Arc<Shared<S>>);

/// How a [shutdown](DurableQueue::shutdown) went.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use = "it says whether handlers were left"]
pub enum ShutDown {
    /// All that was claimed is settled or given back.
    Finished,
    /// The time was up. What is held still comes again when its lease ends.
    TimedOut,
    /// The queue was made before a fork: it is the parent's, and nothing was done.
    Forked,
}

impl<T: Payload, S: Store> DurableQueue<T, S> {
    pub(crate) fn from_parts(
        name: String,
        store: S,
        config: Config,
        policy: Policy,
        clock: SharedClock,
    ) -> Self {
        let shared = Shared {
            store,
            name,
            control: Arc::new(Control::new(clock)),
            policy: Arc::new(policy),
            config,
            pushes: Combiner::new(),
            pump: Mutex::new(None),
        };
        Self {
            owner: Arc::new(Owner(Arc::new(shared))),
            urgent: false,
            values: PhantomData,
        }
    }

    /// A handle of the same queue whose pushes are urgent, each of them, its clones' as well. In all else it is
    /// as any other clone.
    ///
    /// Of what is due, urgent jobs are claimed first, among themselves by time, then by id. None is claimed
    /// earlier than it would be. So that the others are not starved, each eighth claim of a process goes by time
    /// alone. What a process has claimed already, up to its [`prefetch`](crate::Builder::prefetch) and the
    /// [batches](crate::WorkerBuilder::batch) of its workers, goes before an urgent job that comes later. A pending job that is merged with an urgent push is urgent, too.
    ///
    /// There are two levels. What must not wait for urgent jobs either is a queue of its own, with a worker of
    /// its own.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use durable_queue::{DurableQueue, PushError, Store, When};
    /// # fn resets<S: Store>(mails: &DurableQueue<String, S>) -> Result<(), PushError<String>> {
    /// mails.push("the newsletter".to_owned(), When::NOW)?;
    /// mails.urgent().push("a new password".to_owned(), When::NOW)?; // Goes out first.
    /// # Ok(())
    /// # }
    /// ```
    #[must_use = "it is this handle whose pushes are urgent"]
    #[doc(alias = "priority")]
    pub fn urgent(&self) -> Self {
        Self {
            urgent: true,
            ..self.clone()
        }
    }

    /// Puts a job in, to be due `when` it says: after a [`Duration`], or at a point of time. Blocks
    /// until the store has it. While other threads push, several jobs go with one call of the store: many
    /// threads that push have more done than one call each would.
    ///
    /// # Errors
    /// What the store met, with the value.
    pub fn push(&self, value: T, when: impl Into<When>) -> Result<JobId, PushError<T>> {
        match self.enter(&value, when.into(), None, Merge::Keep, None) {
            Ok(put) => Ok(put.id()),
            Err(error) => Err(PushError { value, error }),
        }
    }

    /// As [`push`](Self::push), with a key: at most one job of a key is open, and `merge` says what a further push
    /// makes of it. See [`Merge`] for when a job is open.
    ///
    /// # Errors
    /// What the store met, with the value.
    pub fn push_keyed(
        &self,
        key: impl AsRef<[u8]>,
        value: T,
        when: impl Into<When>,
        merge: Merge,
    ) -> Result<Put, PushError<T>> {
        let entered = self.enter(&value, when.into(), Some(key.as_ref()), merge, None);
        entered.map_err(|error| PushError { value, error })
    }

    /// Puts a job in that repeats: it is due at the next time of `schedule`, and each time when it is
    /// acknowledged it is due again, at the next time that is still to come. The same commit does
    /// both, so it is neither lost nor doubled by whatever kills a process, and times that pass
    /// while all are down are made up for by one run.
    ///
    /// It may be put in at each start of the program: the job of the key has the new schedule then and the new
    /// value, and comes at the earlier one of its time and the schedule's. A run that is in progress goes on, and is
    /// tried again if it fails; the change is for the next one. The job ends when it is cancelled by its key; if a
    /// handler has it at that moment, this run is the last.
    /// A run whose attempts have all failed is given up, and the next one comes; a
    /// [buried](crate::Claimed::bury) job does not, until it is driven again.
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
    /// What the store met, with the value. A schedule without a time to come is
    /// [`ErrorKind::Unencodable`].
    #[cfg(feature = "cron")]
    #[doc(alias = "cron")]
    pub fn push_repeating(
        &self,
        key: impl AsRef<[u8]>,
        schedule: &crate::Schedule,
        value: T,
    ) -> Result<Put, PushError<T>> {
        let Shared { store, name, .. } = &**self.shared();
        let (key, text) = (Some(key.as_ref()), Some(schedule.as_str()));
        let mut margin = Duration::ZERO;
        let entered = loop {
            // By the store's clock, which says when the job is due.
            let first = store.turn(name, &[], None).and_then(|turn| {
                let first = schedule.next_after(turn.now.after(margin));
                first.ok_or_else(|| StoreError::new(ErrorKind::Unencodable))
            });
            let entered = first
                .and_then(|first| self.enter(&value, first.into(), key, Merge::Earliest, text));
            match entered {
                // That time has passed on the way, and may have been worked off. A store that is slower than the
                // schedule would be asked without end.
                Ok(Put::Kept(_)) => margin = margin.saturating_mul(2).max(crate::pump::FIRST_PAUSE),
                entered => break entered,
            }
        };
        entered.map_err(|error| PushError { value, error })
    }

    fn enter(
        &self,
        value: &T,
        when: When,
        key: Option<&[u8]>,
        merge: Merge,
        schedule: Option<&str>,
    ) -> Result<Put, StoreError> {
        let Shared {
            store,
            name,
            control,
            pushes,
            ..
        } = &**self.shared();
        let enter = |jobs: &[NewJob<'_>]| store.enqueue(name, jobs);
        let payload = encoded(value)?;
        let job = NewJob {
            payload: &payload,
            when,
            key,
            merge,
            schedule,
            urgent: self.urgent,
        };
        // A forked process has neither the parent's threads nor, perhaps, its locks free.
        if key.is_some() || schedule.is_some() || control.is_forked() {
            enter(&[job]).map(|puts| puts[0])
        } else {
            pushes.push(job, &enter)
        }
    }

    /// Puts a job in as part of the caller's own transaction: it is there when that commits, and
    /// only then. After the commit, [`announce`](Self::announce) spares this process a look.
    ///
    /// # Errors
    /// What the store met, with the value. The transaction may have to be rolled back.
    pub fn push_in_transaction(
        &self,
        transaction: &mut S::Transaction<'_>,
        value: T,
        when: impl Into<When>,
    ) -> Result<JobId, PushError<T>>
    where
        S: EnqueueIn,
    {
        let entered = self.enter_in(transaction, value, when.into(), None, Merge::Keep);
        entered.map(Put::id)
    }

    /// As [`push_in_transaction`](Self::push_in_transaction), with a key, as
    /// [`push_keyed`](Self::push_keyed).
    ///
    /// # Errors
    /// What the store met, with the value. The transaction may have to be rolled back.
    pub fn push_keyed_in_transaction(
        &self,
        transaction: &mut S::Transaction<'_>,
        key: impl AsRef<[u8]>,
        value: T,
        when: impl Into<When>,
        merge: Merge,
    ) -> Result<Put, PushError<T>>
    where
        S: EnqueueIn,
    {
        self.enter_in(transaction, value, when.into(), Some(key.as_ref()), merge)
    }

    fn enter_in(
        &self,
        transaction: &mut S::Transaction<'_>,
        value: T,
        when: When,
        key: Option<&[u8]>,
        merge: Merge,
    ) -> Result<Put, PushError<T>>
    where
        S: EnqueueIn,
    {
        let Shared { store, name, .. } = &**self.shared();
        let entered = encoded(&value).and_then(|payload| {
            let job = NewJob {
                payload: &payload,
                when,
                key,
                merge,
                schedule: None,
                urgent: self.urgent,
            };
            store.enqueue_in(transaction, name, &[job])
        });
        entered
            .map(|puts| puts[0])
            .map_err(|error| PushError { value, error })
    }

    /// Says that jobs may be there that the store has not announced: after the commit of a
    /// transaction that has put some in.
    pub fn announce(&self) {
        self.shared().control.announce(ANYTHING);
    }

    /// Takes a job out, by its id or key, unless a handler has it. If it says
    /// [`Gone`](Cancelled::Gone), the job is not handed out any more, by any process; but by one that takes
    /// without [confirmation](crate::Builder::confirm), if the recall reaches it too late.
    ///
    /// # Errors
    /// What the store met, or that the payload is none of this type: then the job is gone too.
    pub fn cancel<'a>(&self, which: impl Into<Which<'a>>) -> Result<Cancelled<T>, CancelError> {
        let Shared { store, name, .. } = &**self.shared();
        Ok(
            match store
                .cancel(name, which.into())
                .map_err(CancelError::Store)?
            {
                Cancelled::Gone { payload, attempts } => Cancelled::Gone {
                    payload: decoded(payload).map_err(CancelError::Unreadable)?,
                    attempts,
                },
                Cancelled::Taken => Cancelled::Taken,
                Cancelled::Never => Cancelled::Never,
            },
        )
    }

    /// Gives a job another time, by its id or key, unless a handler has it. What it says is as final as with
    /// [`cancel`](Self::cancel).
    ///
    /// # Errors
    /// What the store met.
    pub fn reset<'a>(&self, which: impl Into<Which<'a>>, when: impl Into<When>) -> Result<Reset> {
        let Shared { store, name, .. } = &**self.shared();
        store.reset(name, which.into(), when.into())
    }

    /// Stops or resumes the queue for all processes. What runs goes on.
    ///
    /// # Errors
    /// What the store met.
    pub fn pause(&self, paused: bool) -> Result<()> {
        let Shared { store, name, .. } = &**self.shared();
        store.pause(name, paused)
    }

    /// Has one job of each key run at a time, for all processes and until it is taken back; a push beside
    /// a job that runs waits for it, and is due at its own time again when that is settled. What runs
    /// already goes on. Jobs without a key are as ever.
    ///
    /// A key is free when the lease has ended: a holder that is late then is refused once another job of
    /// the key is claimed, as by any claim. Processes of an older version of this crate do not know of it.
    ///
    /// ```
    /// use durable_queue::{DurableQueue, Merge, When};
    /// use durable_queue_sqlite::SqliteStore;
    ///
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let queue = DurableQueue::new("accounts", SqliteStore::open(":memory:")?);
    /// queue.serialize_keys(true)?;
    /// queue.push_keyed("account 7", "first".to_owned(), When::NOW, Merge::Keep)?;
    /// let first = queue.take()?;
    /// queue.push_keyed("account 7", "second".to_owned(), When::NOW, Merge::Keep)?;
    /// assert!(queue.take_timeout(std::time::Duration::ZERO).is_err());
    /// first.ack()?;
    /// assert_eq!(*queue.take()?, "second");
    /// assert!(queue.store_stats()?.serial_keys);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// What the store met.
    #[doc(alias = "exclusive")]
    pub fn serialize_keys(&self, serial: bool) -> Result<()> {
        let Shared { store, name, .. } = &**self.shared();
        store.serialize_keys(name, serial)
    }

    /// Up to `most` jobs that are not done, by the moment at which they may be claimed, then by id;
    /// those after `after`, which is the [position](ListedJob::position) of the last of the answer
    /// before. Payloads are not read.
    ///
    /// # Errors
    /// What the store met.
    pub fn list(&self, after: Option<(StoreTime, JobId)>, most: u32) -> Result<Vec<ListedJob>> {
        let Shared { store, name, .. } = &**self.shared();
        store.list(name, after, most)
    }

    /// Up to `most` dead letters whose ids are greater than `after`.
    ///
    /// # Errors
    /// What the store met.
    pub fn dead(&self, after: Option<JobId>, most: u32) -> Result<Vec<DeadJob>> {
        let Shared { store, name, .. } = &**self.shared();
        store.dead(name, after, most)
    }

    /// Makes dead letters jobs again, due at once and without attempts. Answers how many: one that
    /// is not there, or whose key is pending, is not.
    ///
    /// # Errors
    /// What the store met.
    pub fn redrive(&self, ids: &[JobId]) -> Result<usize> {
        let Shared { store, name, .. } = &**self.shared();
        store.redrive(name, ids)
    }

    /// Deletes dead letters for good. Answers how many were there.
    ///
    /// # Errors
    /// What the store met.
    #[doc(alias = "purge")]
    pub fn delete_dead(&self, ids: &[JobId]) -> Result<usize> {
        let Shared { store, name, .. } = &**self.shared();
        store.delete_dead(name, ids)
    }

    /// The store's figures of the queue, of all processes.
    ///
    /// # Errors
    /// What the store met.
    pub fn store_stats(&self) -> Result<StoreStats> {
        let Shared { store, name, .. } = &**self.shared();
        store.stats(name)
    }

    /// This process's figures of the queue.
    pub fn stats(&self) -> Stats {
        self.shared().control.counters.stats()
    }

    /// What the store failed with, as long as it has not answered since.
    pub fn last_error(&self) -> Option<StoreError> {
        self.shared().control.last_error()
    }

    /// The store.
    pub fn store(&self) -> &S {
        &self.shared().store
    }

    /// The name of the queue.
    pub fn name(&self) -> &str {
        &self.shared().name
    }

    /// Takes nothing more in this process: calls that wait end, what is claimed and not started is
    /// given back. What handlers have goes on and can be settled. Does not wait. Pushes go on.
    pub fn close(&self) {
        self.shared().control.close(None);
    }

    /// As [`close`](Self::close), and blocks until all that handlers have is settled; for at most
    /// this long. Then the pump ends in any case: a later settle is
    /// [`SettleError::ShutDown`](crate::SettleError::ShutDown).
    pub fn shutdown(&self, timeout: Duration) -> ShutDown {
        let shared = self.shared();
        if shared.control.is_forked() {
            return ShutDown::Forked;
        }
        let deadline = shared.control.clock.after(timeout);
        shared.control.close(deadline);
        shared.wait_for_end(deadline)
    }

    pub(crate) fn shared(&self) -> &Arc<Shared<S>> {
        &self.owner.0
    }
}

pub(crate) fn encoded<T: Payload>(value: &T) -> Result<Cow<'_, [u8]>> {
    let encoded = value.encode();
    encoded.map_err(|error| StoreError::new(ErrorKind::Unencodable).with_source(error))
}

impl<S: Store> Shared<S> {
    fn wait_for_end(&self, deadline: Option<Instant>) -> ShutDown {
        if !self.control.wait_for_end(deadline) {
            return ShutDown::TimedOut;
        }
        let pump = self.pump.lock().take();
        if let Some(pump) = pump {
            // It has nothing more to do. What it panicked with was shown by the panic hook.
            drop(pump.join());
        }
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

impl<T, S: Store> Clone for DurableQueue<T, S> {
    fn clone(&self) -> Self {
        Self {
            owner: Arc::clone(&self.owner),
            urgent: self.urgent,
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
            .field("urgent", &self.urgent)
            .finish_non_exhaustive()
    }
}

/// A cancel has no answer that can be given.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum CancelError {
    /// What the store met.
    Store(StoreError),
    /// The job is gone, and its payload is none of the queue's type.
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
