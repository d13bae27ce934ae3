//! The builder of a queue.

use std::collections::BTreeMap;
use std::fmt;
use std::marker::PhantomData;
use std::num::NonZeroU32;
use std::sync::Arc;
use std::time::Duration;

use dedup_queue::{Exponential, Jitter, Jittered, RateLimiter};
use sync_shim::{Clock, Mutex};

use crate::api::queue::DurableQueue;
use crate::engine::config::{
    Config, FIRST_BACK_OFF, LEASE, LONGEST_BACK_OFF, LONGEST_LEASE, MAX_ATTEMPTS, Policy, Rate,
    SCATTER,
};
use crate::engine::hooks::{Hooks, Observer};
#[cfg(doc)]
use crate::engine::horizon::{HORIZON, LONGEST_HORIZON};
use crate::engine::unread::UNREADABLE;
use crate::error::StoreError;
use crate::store::Store;
use crate::store::job::JobId;
use crate::store::payload::Payload;
use crate::threads::Threads;

/// Configures a [`DurableQueue`]. Created by [`DurableQueue::builder`].
#[must_use = "a builder does nothing until `build` is called"]
#[derive(Debug)]
pub struct Builder<T, S> {
    name: String,
    store: S,
    config: Config,
    policy: Policy,
    /// The store's, unless others are set.
    threads: Option<Threads>,
    values: PhantomData<fn() -> T>,
}

impl<T: Payload, S: Store> DurableQueue<T, S> {
    /// Creates the queue `name` in `store` with default options.
    pub fn new(name: impl Into<String>, store: S) -> Self {
        // No horizon is said, so none is longer than the lease.
        Builder::new(name.into(), store).make()
    }

    /// Returns a builder of the queue `name` in `store`.
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
                observer: None,
            },
            policy: Policy {
                limiter: Box::new(Jittered::new(limiter, Jitter::Percent(SCATTER))),
                max_attempts: MAX_ATTEMPTS,
                kinds: Mutex::new(BTreeMap::new()),
                keep_done: None,
                unreadable: UNREADABLE,
            },
            threads: None,
            values: PhantomData,
        }
    }

    /// Sets how long before their due times jobs may be claimed, so that they are handed out exactly on time.
    /// With zero, a job is claimed when it is due.
    ///
    /// Default: [`HORIZON`], or four times the duration of recent turns of the store if that is longer, up to
    /// [`LONGEST_HORIZON`] or half of the [`lease`](Self::lease). So a claim is answered before its jobs are
    /// due, even if it waits for another turn. The horizon does not increase the number of claimed jobs,
    /// which is limited by the number of waiting calls and the [`prefetch`](Self::prefetch).
    pub fn horizon(mut self, horizon: Duration) -> Self {
        self.config.horizon = Some(horizon);
        self
    }

    /// Sets the duration of a lease. Default: [`LEASE`]. Maximum: [`LONGEST_LEASE`]. The jobs of a killed
    /// process are handed out again within this time. A lease is renewed after a third of it.
    pub fn lease(mut self, lease: Duration) -> Self {
        self.config.lease = lease;
        self
    }

    /// Sets the number of jobs that may be claimed in addition to those for waiting calls. Default: zero,
    /// because other processes cannot take jobs that wait in this one.
    pub fn prefetch(mut self, jobs: usize) -> Self {
        self.config.prefetch = jobs;
        self
    }

    /// Limits the rate of job starts to one per `interval`, with up to `burst` at once after a pause: in any
    /// span of time at most `burst`, plus one for each `interval` in it. Default: unlimited.
    ///
    /// The limit applies to all jobs handed out in this process, to all calls and [`Worker`](crate::Worker)s,
    /// by its [`clock`](Self::clock); other processes have rates of their own. Jobs over the limit are not
    /// claimed, not even for the [`prefetch`](Self::prefetch), so other processes can claim them. The cost: a
    /// job that has to wait for a token is claimed only then, and starts a round trip later.
    ///
    /// ```
    /// # use std::num::NonZeroU32;
    /// # use std::time::Duration;
    /// # use durable_queue::{BuildError, DurableQueue, Store};
    /// # fn limited<S: Store>(store: S) -> Result<DurableQueue<String, S>, BuildError> {
    /// // Ten per second, and never more than three at once.
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

    /// Sets whether leases of started jobs are renewed automatically. Default: `true`. Without it, a slow
    /// handler must [extend](crate::Claimed::extend) its lease itself.
    pub fn heartbeat(mut self, heartbeat: bool) -> Self {
        self.config.heartbeat = heartbeat;
        self
    }

    /// Sets how long the lease of a started job is renewed. Default: as long as the handler has the job.
    /// After `timeout` the lease is no longer renewed and expires within one [`lease`](Self::lease), and
    /// another process gets the job: so a handler that hangs does not keep its job for ever. The handler
    /// itself continues; its [`is_lost`](crate::Claimed::is_lost) returns true once the lease has expired,
    /// and its settle is rejected once the job has been claimed again. The attempt counts, so a job whose
    /// handlers always hang is buried after its last one. [`Stats::timed_out`](crate::Stats::timed_out)
    /// counts such attempts.
    ///
    /// The time starts when the job is handed out, so it includes waiting in a batch. A handler that is alive
    /// and needs longer can [extend](crate::Claimed::extend) its lease. There is no default, because only the
    /// program knows how long its handlers may take, and a second run concurrent with a slow first one would
    /// be a worse surprise than waiting.
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

    /// Sets whether the store must confirm, at the due time, that a job claimed ahead may start. Default:
    /// `true`, with one round trip for all due jobs. A successful [`cancel`](DurableQueue::cancel) is then
    /// final, and a job starts late by that round trip.
    ///
    /// Without confirmation such a job is handed out exactly at its time, and the store learns of it in the
    /// following turn. This is for maximum speed, where running a job that was cancelled in the last instant
    /// does no harm. Within the [`horizon`](Self::horizon), a cancel, a reset or a merge reaches this process
    /// by a message (a *recall*), which makes it ask for confirmation; but a message that arrives after the
    /// job's due time comes too late. So:
    /// - Before the due time, a successful call is final if its message arrives in time. Messages take the
    ///   same path as those about pushes. A handler that has the job nevertheless has lost its lease:
    ///   [`is_lost`](crate::Claimed::is_lost) returns true, and each settle is stale.
    /// - From the due time on, a cancel or a reset reports that a handler has the job, even if none has it
    ///   yet. A merge moves the job, and the handler has lost its lease, as above.
    /// - A pause in that instant is noticed in the following turn: the handler has lost its lease, and the
    ///   job is handed out again.
    /// - An attempt that kills its process at once may not be counted.
    ///
    /// All other guarantees are the same: at least once, never early (by the known time of the store's clock,
    /// if that is not set back), one holder.
    ///
    /// Processes with and without confirmation may take from the same queue. Processes with confirmation pay
    /// nothing for the others.
    #[doc(alias = "recall")]
    pub fn confirm(mut self, confirm: bool) -> Self {
        self.config.confirm = confirm;
        self
    }

    /// Sets the number of attempts before a job is buried. Default: [`MAX_ATTEMPTS`]. Minimum: one. A
    /// [policy](crate::JobPolicy) of the job or its kind precedes it.
    pub fn max_attempts(mut self, attempts: u32) -> Self {
        self.policy.max_attempts = attempts.max(1);
        self
    }

    /// Sets how long a job waits after a failed attempt. Default: exponential, from [`FIRST_BACK_OFF`] to
    /// [`LONGEST_BACK_OFF`], plus a random part of up to a quarter. If the limiter panics, the delay is
    /// [`FIRST_BACK_OFF`]. A [policy](crate::JobPolicy) of the job or its kind precedes it.
    pub fn back_off(mut self, limiter: impl RateLimiter<JobId> + 'static) -> Self {
        self.policy.limiter = Box::new(limiter);
        self
    }

    /// Keeps jobs that handlers of this process have acknowledged, for `span` by the store's clock, with the duration of
    /// the last attempt and the [result](crate::Claimed::set_result). [`result`](DurableQueue::result) waits for them,
    /// in any process. Default: done jobs are deleted at once, as if they had never existed.
    ///
    /// The process that acknowledges a job decides whether and how long it is kept: use the same value in all processes
    /// with handlers. A process that only waits needs none. Runs of a repeating job are not kept, except the last one of a
    /// schedule that ends.
    ///
    /// # Cost
    /// The acknowledgement writes a row and an index entry more, in the same commit. After a turn, the queue's pump
    /// deletes rows whose time is over, at most [`DONE_BATCH`](crate::internals::DONE_BATCH) in a call of the store. It looks for
    /// them once a minute, or once per `span` if that is shorter; while there are more than a batch, every 100 ms. If no
    /// process of a queue keeps done jobs any more, the rest remains until [`Store::delete_done`] is called.
    #[doc(alias = "retention")]
    pub fn keep_done(mut self, span: Duration) -> Self {
        self.policy.keep_done = Some(span);
        self
    }

    /// Sets how long a job that a process cannot read stays before it becomes a dead letter. Default:
    /// [`UNREADABLE`](crate::UNREADABLE), a day.
    ///
    /// A process cannot read a payload that it cannot [decode](Payload::decode), which may have been written by a newer
    /// version, nor a schedule for which it lacks the feature `cron` or the time zone. It gives the job back without
    /// counting the attempt, to be claimed by another process first: it may claim the job again after
    /// [`FIRST_UNREAD`](crate::internals::FIRST_UNREAD), and after a quarter of the time since the first try, up to
    /// [`LONGEST_UNREAD`](crate::internals::LONGEST_UNREAD). The job keeps the error, as an entry of its
    /// [failures](crate::Failure) that counts no attempt. Zero: it becomes a dead letter at once.
    pub fn unreadable_for(mut self, span: Duration) -> Self {
        self.policy.unreadable = span;
        self
    }

    /// Sets a hook that the pump calls for each error. The hook must not block, because due jobs wait for it, also
    /// those of other queues with the same [threads](Self::threads).
    /// The pump retries in any case.
    pub fn on_error(mut self, hook: impl Fn(&StoreError) + Send + Sync + 'static) -> Self {
        self.config.on_error = Some(Arc::new(hook));
        self
    }

    /// Sets functions that are called around pushes and attempts, for metrics and traces. Default: none. Replaces
    /// earlier ones.
    #[doc(alias = "metrics")]
    #[doc(alias = "tracing")]
    pub fn hooks(mut self, hooks: impl Hooks) -> Self {
        self.config.observer = Some(Arc::new(Observer::new(hooks, &self.name)));
        self
    }

    /// Sets the clock by which this process waits, not the store's clock. If it panics in the queue's own
    /// thread, the queue shuts down, and its leases expire.
    ///
    /// The queue gets [threads](Self::threads) of its own, which wait by this clock. Queues with the same
    /// [`Threads::with_clock`] share theirs.
    pub fn clock(self, clock: impl Clock) -> Self {
        self.threads(Threads::with_clock(clock))
    }

    /// Sets the threads that claim and settle the queue's jobs and make its async calls, and the clock by which they
    /// wait. Default: those of the [store](Store::threads), which its clones share. [`Threads`] states what their
    /// queues share. In a child of the process that has created them, they are replaced by new ones.
    pub fn threads(mut self, threads: Threads) -> Self {
        self.threads = Some(threads);
        self
    }

    /// Creates the queue.
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
            threads,
            ..
        } = self;
        let threads = threads.or_else(|| store.threads()).unwrap_or_default();
        let threads = threads.of_this_process();
        DurableQueue::from_parts(name, store, config, policy, threads)
    }
}

/// Error of [`Builder::build`]: the configuration is invalid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum BuildError {
    /// The lease is zero or not longer than the horizon, so it could expire before its job is due.
    ShortLease,
    /// The lease is longer than [`LONGEST_LEASE`].
    LongLease,
}

impl fmt::Display for BuildError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::ShortLease => f.write_str("the lease must be longer than the horizon"),
            Self::LongLease => f.write_str("the lease must not be longer than a year"),
        }
    }
}

impl std::error::Error for BuildError {}
