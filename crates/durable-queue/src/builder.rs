//! How a queue is made.

use std::fmt;
use std::marker::PhantomData;
use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::Duration;

use dedup_queue::{Exponential, Jitter, Jittered, RateLimiter};
use sync_shim::Clock;

use crate::clock::SharedClock;
use crate::config::{
    Config, FIRST_BACK_OFF, LEASE, LONGEST_BACK_OFF, LONGEST_LEASE, MAX_ATTEMPTS, Policy, Rate,
    SCATTER,
};
use crate::error::StoreError;
#[cfg(doc)]
use crate::horizon::{HORIZON, LONGEST_HORIZON};
use crate::job::JobId;
use crate::payload::Payload;
use crate::queue::DurableQueue;
use crate::store::Store;

/// Says how a [`DurableQueue`] is to be. [`DurableQueue::builder`] begins one.
#[must_use = "a builder does nothing until `build` is called"]
#[derive(Debug)]
pub struct Builder<T, S> {
    name: String,
    store: S,
    config: Config,
    policy: Policy,
    clock: SharedClock,
    values: PhantomData<fn() -> T>,
}

impl<T: Payload, S: Store> DurableQueue<T, S> {
    /// The queue of this name in `store`, with all options as they are.
    pub fn new(name: impl Into<String>, store: S) -> Self {
        // No horizon is said, so none is longer than the lease.
        Builder::new(name.into(), store).make()
    }

    /// Begins to say how a queue is to be.
    pub fn builder(name: impl Into<String>, store: S) -> Builder<T, S> {
        Builder::new(name.into(), store)
    }
}

impl<T: Payload, S: Store> Builder<T, S> {
    fn new(name: String, store: S) -> Self {
        let limiter = Exponential::new(FIRST_BACK_OFF, LONGEST_BACK_OFF);
        Self {
            name,
            store,
            config: Config {
                horizon: None,
                lease: LEASE,
                prefetch: 0,
                heartbeat: true,
                attempt_timeout: None,
                confirm: true,
                rate: None,
                on_error: None,
            },
            policy: Policy {
                limiter: Box::new(Jittered::new(limiter, Jitter::Percent(SCATTER))),
                max_attempts: MAX_ATTEMPTS,
            },
            clock: SharedClock::default(),
            values: PhantomData,
        }
    }

    /// How long before their times jobs may be claimed, so that they are handed out on the tick. With none, a
    /// job is claimed when it is due.
    ///
    /// If not said, it is [`HORIZON`], and four times as long as turns of the store take of late if that is
    /// more, up to [`LONGEST_HORIZON`] or half of the [`lease`](Self::lease): so a claim is answered before its
    /// jobs are due, also behind a turn that is under way. However long it is, no more jobs are claimed than
    /// calls wait for, and the [`prefetch`](Self::prefetch).
    pub fn horizon(mut self, horizon: Duration) -> Self {
        self.config.horizon = Some(horizon);
        self
    }

    /// How long a lease is: [`LEASE`] if not said, at most [`LONGEST_LEASE`]. The jobs of a process that is killed
    /// come again within that time. It is renewed after a third of it.
    pub fn lease(mut self, lease: Duration) -> Self {
        self.config.lease = lease;
        self
    }

    /// So many jobs may be claimed beyond those that calls wait for. None if not said: what is
    /// claimed here and waits cannot be taken elsewhere.
    pub fn prefetch(mut self, jobs: usize) -> Self {
        self.config.prefetch = jobs;
        self
    }

    /// Starts no more jobs than one per `interval`, and `burst` at once after a pause: in any span of time
    /// at most `burst`, and one for each `interval` in it. Unlimited, if not said.
    ///
    /// It counts what is handed out in this process, to whatever calls and [`Worker`](crate::Worker)s, by
    /// its [`clock`](Self::clock); other processes have rates of their own. Only what may start at once
    /// is claimed, [`prefetch`](Self::prefetch) included, so the rest is there for others. Its
    /// price: a job for which no token was there is claimed when one is, and so starts a round trip later.
    ///
    /// ```
    /// # use std::num::NonZeroU32;
    /// # use std::time::Duration;
    /// # use durable_queue::{BuildError, DurableQueue, Store};
    /// # fn limited<S: Store>(store: S) -> Result<DurableQueue<String, S>, BuildError> {
    /// // Ten a second, and never more than three at once.
    /// let three = NonZeroU32::new(3).expect("not zero");
    /// DurableQueue::builder("mails", store).rate(Duration::from_millis(100), three).build()
    /// # }
    /// ```
    #[doc(alias = "throttle")]
    #[doc(alias = "rate_limit")]
    #[doc(alias = "limit")]
    pub fn rate(mut self, interval: Duration, burst: NonZeroU32) -> Self {
        self.config.rate = Some(Rate { interval, burst });
        self
    }

    /// Whether the leases of what handlers have are renewed for them: they are, if not said. Without
    /// it, a handler that takes long [extends](crate::Claimed::extend) its lease itself.
    pub fn heartbeat(mut self, heartbeat: bool) -> Self {
        self.config.heartbeat = heartbeat;
        self
    }

    /// How long the lease of a started job is renewed: as long as its handler has it, if not said. After `timeout`
    /// it is renewed no more, ends within one [`lease`](Self::lease), and another process gets the job: so a handler
    /// that hangs does not keep its job for ever. The handler itself runs on; its
    /// [`is_lost`](crate::Claimed::is_lost) is true from the end of the lease on, and its settle is refused once the
    /// job was claimed again. The attempt counts, so a job whose handlers always hang is buried after its last one.
    /// [`Stats::timed_out`](crate::Stats::timed_out) counts such attempts.
    ///
    /// The time counts from the hand-out, so it includes the wait within a batch. A handler that is alive and needs
    /// longer [extends](crate::Claimed::extend) its lease. There is no default, because a second run next to a slow
    /// first one is a worse surprise than a wait, and only the program knows how long its handlers may take.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use durable_queue::{BuildError, DurableQueue, Store};
    /// # fn bounded<S: Store>(store: S) -> Result<DurableQueue<String, S>, BuildError> {
    /// DurableQueue::builder("mails", store).attempt_timeout(Duration::from_secs(300)).build()
    /// # }
    /// ```
    #[doc(alias = "timeout")]
    #[doc(alias = "deadline")]
    pub fn attempt_timeout(mut self, timeout: Duration) -> Self {
        self.config.attempt_timeout = Some(timeout);
        self
    }

    /// Whether the store is asked, at its time, if a job that was claimed ahead may start: it is, if not
    /// said, with one round trip for all that is due. So a [`cancel`](DurableQueue::cancel) that says it won is
    /// final, and a job is late by that round trip.
    ///
    /// Without it such a job is handed out at its time at once, and the store learns of it by the turn that
    /// follows. That is for pure speed, where a run that was cancelled in the last instant does no harm:
    /// within the [`horizon`](Self::horizon) a cancel, a reset and a merge reach this process by a message (a
    /// *recall*), which makes it ask as it does otherwise; but one that comes later than the job's time comes too
    /// late. So:
    /// - Before the job's time, one that says it won is final if its message comes in time, which goes the way
    ///   of those about pushes. A handler that has the job all the same has lost its lease:
    ///   [`is_lost`](crate::Claimed::is_lost), and each settle is stale.
    /// - From the job's time on, a cancel or a reset says that a handler has it, even if none has it yet. A
    ///   merge moves the job, and the handler has lost its lease, as above.
    /// - A pause that comes in that instant is found out by the turn that follows: the handler
    ///   has lost its lease, and the job comes again.
    /// - An attempt that takes its process with it at once may not be counted.
    ///
    /// All else holds as it does otherwise: at least once, never early (by what is known of the store's
    /// clock, if that is not set back), one holder.
    ///
    /// Processes of both sorts may take from one queue. Those that confirm pay nothing for the others.
    #[doc(alias = "recall")]
    pub fn confirm(mut self, confirm: bool) -> Self {
        self.config.confirm = confirm;
        self
    }

    /// How many attempts a job has before it is buried: [`MAX_ATTEMPTS`] if not said, at least one.
    pub fn max_attempts(mut self, attempts: u32) -> Self {
        self.policy.max_attempts = attempts.max(1);
        self
    }

    /// How long a job whose attempt has failed waits for the next: scattered and exponential, if not
    /// said. A limiter that panics has said [`FIRST_BACK_OFF`].
    pub fn back_off(mut self, limiter: impl RateLimiter<JobId> + 'static) -> Self {
        self.policy.limiter = Box::new(limiter);
        self
    }

    /// Is called by the pump for each error that it meets, and must not block: what is due waits
    /// for it. The pump tries again in any case.
    pub fn on_error(mut self, hook: impl Fn(&StoreError) + Send + Sync + 'static) -> Self {
        self.config.on_error = Some(Arc::new(hook));
        self
    }

    /// The clock by which this process waits. Not that of the store. If it panics in the queue's own thread, the queue
    /// shuts down, and its leases end by themselves.
    pub fn clock(mut self, clock: impl Clock) -> Self {
        self.clock = SharedClock::new(clock);
        self
    }

    /// Makes the queue.
    ///
    /// # Errors
    /// See [`BuildError`].
    pub fn build(self) -> Result<DurableQueue<T, S>, BuildError> {
        let Config { horizon, lease, .. } = self.config;
        if lease <= horizon.unwrap_or(Duration::ZERO) {
            return Err(BuildError::ShortLease);
        }
        if lease > LONGEST_LEASE {
            return Err(BuildError::LongLease);
        }
        Ok(self.make())
    }

    fn make(self) -> DurableQueue<T, S> {
        let Self {
            name,
            store,
            config,
            policy,
            clock,
            ..
        } = self;
        DurableQueue::from_parts(name, store, config, policy, clock)
    }
}

/// A queue cannot be built this way.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum BuildError {
    /// A lease that is no longer than the horizon, or is zero, may end before its job is due.
    ShortLease,
    /// The lease is longer than [`LONGEST_LEASE`].
    LongLease,
}

impl fmt::Display for BuildError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::ShortLease => f.write_str("a lease is longer than the horizon"),
            Self::LongLease => f.write_str("a lease is a year at most"),
        }
    }
}

impl std::error::Error for BuildError {}
