//! A job that a handler has.

use std::fmt;
use std::mem;
use std::ops::Deref;
use std::sync::Arc;
use std::time::Duration;

use sync_shim::Clock;
use sync_shim::foreign::{discard, drop_quietly, guarded};

use crate::command::{Command, Held, LostFlag, Ready, Wish};
use crate::config::{FIRST_BACK_OFF, LONGEST_LEASE, Policy};
use crate::control::Control;
use crate::error::{SettleError, storable};
use crate::job::JobId;
use crate::payload::{Payload, decoded};
use crate::reply::{Reply, SettleFuture};
use crate::store::Lease;
use crate::time::{StoreTime, When};

/// Error of a job whose handler panicked.
pub(crate) const PANICKED: &str = "the handler panicked";
/// Error of a job that was dropped and not settled.
const DROPPED: &str = "the job was dropped without being settled";

/// A job that was due and was started here, and its lease, which is renewed while this lives.
///
/// Dropping a job without settling it is a failed attempt, as by [`retry`](Claimed::retry): an early return with
/// `?`, a cancelled future, an aborted task and a panic all count. So a handler that never settles its job is not
/// called again without a pause, and the job is buried after its last attempt. Once the queue is closed in this
/// process (a shutdown), a dropped job is given back instead, as by [`release`](Claimed::release). The drop does not
/// wait for the store's answer.
///
/// If the value's own destructor panics as the job is settled, that panic ends there: the job is settled as it was
/// asked for.
///
/// A holder that lost its lease (the process slept, or the store was out of reach for too long) is fenced
/// off: it cannot settle the job, and each call here says so.
#[must_use = "dropping it without settling it is a failed attempt"]
pub struct Claimed<T> {
    value: T,
    guard: Guard,
}

struct Guard {
    lease: Lease,
    lost: LostFlag,
    control: Arc<Control>,
    policy: Arc<Policy>,
    settled: bool,
}

/// What a failed attempt came to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Retried {
    /// The job comes again then.
    Again(When),
    /// No attempt was left: it is a dead letter.
    Buried,
    /// No attempt was left for this time: the job, which repeats, comes at its next one.
    NextTime,
}

impl<T: Payload> Claimed<T> {
    /// Decodes the jobs of a call. Those that cannot be decoded have failed this attempt, and are left out.
    pub(crate) fn all_of(
        given: Vec<Ready>,
        control: &Arc<Control>,
        policy: &Arc<Policy>,
    ) -> Vec<Self> {
        let jobs = given.into_iter();
        jobs.filter_map(|job| Self::of(job, control, policy))
            .collect()
    }

    pub(crate) fn of(given: Ready, control: &Arc<Control>, policy: &Arc<Policy>) -> Option<Self> {
        let Ready { lease, lost } = given;
        let mut guard = Guard {
            lease,
            lost,
            control: Arc::clone(control),
            policy: Arc::clone(policy),
            settled: false,
        };
        match decoded(mem::take(&mut guard.lease.payload)) {
            Ok(value) => Some(Self { value, guard }),
            Err(error) => {
                guard.fail(Some(&error.to_string()));
                None
            }
        }
    }
}

impl<T> Claimed<T> {
    /// The job.
    pub fn id(&self) -> JobId {
        self.guard.lease.id
    }

    /// Its key.
    pub fn key(&self) -> Option<&[u8]> {
        self.guard.lease.key.as_deref()
    }

    /// When it was to be due, by the store's clock.
    pub fn due(&self) -> StoreTime {
        self.guard.lease.due
    }

    /// When it comes again once it is acknowledged, if it repeats.
    pub fn schedule(&self) -> Option<&str> {
        self.guard.lease.schedule.as_deref()
    }

    /// Whether it was pushed, or merged, as an [urgent](crate::DurableQueue::urgent) one.
    pub fn is_urgent(&self) -> bool {
        self.guard.lease.urgent
    }

    /// The number of this attempt, from 1.
    pub fn attempt(&self) -> u32 {
        self.guard.lease.attempts
    }

    /// Whether the lease is known to be lost, or has ended after the
    /// [attempt's timeout](crate::Builder::attempt_timeout): a handler may end early then.
    pub fn is_lost(&self) -> bool {
        self.guard.lost.is_set()
    }

    /// The job is done. Blocks until the store has it.
    ///
    /// # Errors
    /// See [`SettleError`].
    pub fn ack(self) -> Result<(), SettleError> {
        self.ack_async().wait()
    }

    /// As [`ack`](Self::ack), as a future. The job is on its way to be settled from this call on,
    /// polled or not. So a batch is settled with one commit: first this for each, then
    /// [`wait`](SettleFuture::wait).
    pub fn ack_async(self) -> SettleFuture {
        self.settle(Wish::Ack, ())
    }

    /// As [`ack`](Self::ack), without waiting: it goes with one of the pump's next turns, in a gap
    /// between jobs that fall due if there is one soon. A crash before that hands the job out again;
    /// a lost lease is counted in [`Stats`](crate::Stats) alone.
    pub fn ack_later(self) {
        let guard = self.into_settled();
        guard.control.command(Command::ack_later(guard.held()));
    }

    /// As [`ack_later`](Self::ack_later), but the command is the caller's to hand in.
    pub(crate) fn later_ack(self) -> Command {
        Command::ack_later(self.into_settled().held())
    }

    /// An acknowledgement that is the caller's to hand to `control`, if this job is of that queue.
    pub(crate) fn ack_with(self, control: &Arc<Control>) -> Option<Command> {
        if !Arc::ptr_eq(&self.guard.control, control) {
            self.ack_later();
            return None;
        }
        let held = self.into_settled().held();
        Some(Command::new(held, Wish::Ack, None))
    }

    fn into_settled(self) -> Guard {
        let mut guard = self.into_guard();
        guard.settled = true;
        guard
    }

    /// The attempt failed. The job comes again after the queue's back-off, or is buried if no
    /// attempt is left. Blocks until the store has it.
    ///
    /// # Errors
    /// See [`SettleError`].
    pub fn retry(self) -> Result<Retried, SettleError> {
        self.retry_async().wait()
    }

    /// As [`retry`](Self::retry), as a future. As with [`ack_async`](Self::ack_async), the job is on its way from
    /// this call on.
    pub fn retry_async(self) -> SettleFuture<Retried> {
        let (wish, retried) = self.guard.failure(None, None);
        self.settle(wish, retried)
    }

    /// As [`retry`](Self::retry), without waiting.
    pub fn retry_later(self) {
        self.into_guard().fail(None);
    }

    /// As [`retry_later`](Self::retry_later), for this reason.
    pub(crate) fn fail(self, error: &str) {
        self.into_guard().fail(Some(error));
    }

    /// As [`retry`](Self::retry), but the job comes again when it is said, whatever the back-off.
    ///
    /// # Errors
    /// See [`SettleError`].
    pub fn retry_after(self, when: impl Into<When>) -> Result<Retried, SettleError> {
        self.retry_after_async(when).wait()
    }

    /// As [`retry_after`](Self::retry_after), as a future: see [`retry_async`](Self::retry_async).
    pub fn retry_after_async(self, when: impl Into<When>) -> SettleFuture<Retried> {
        let (wish, retried) = self.guard.failure(Some(when.into()), None);
        self.settle(wish, retried)
    }

    /// Gives the job back as if it had never been claimed: it is due as before, for whichever process claims it
    /// first, and the attempt is not counted. For a handler that cannot run the job here and now. Blocks until the
    /// store has it.
    ///
    /// ```
    /// # use durable_queue::{Claimed, SettleError};
    /// # fn mail(_: &str) {}
    /// fn handle(job: Claimed<String>, may_send: bool) -> Result<(), SettleError> {
    ///     if !may_send {
    ///         return job.release(); // Another process may.
    ///     }
    ///     mail(&job);
    ///     job.ack()
    /// }
    /// ```
    ///
    /// # Errors
    /// See [`SettleError`].
    #[doc(alias = "nack")]
    pub fn release(self) -> Result<(), SettleError> {
        self.release_async().wait()
    }

    /// As [`release`](Self::release), as a future: see [`ack_async`](Self::ack_async).
    pub fn release_async(self) -> SettleFuture {
        self.settle(Wish::Release, ())
    }

    /// The job is given up: it becomes a dead letter, with `error`, of which [`LONGEST_ERROR`](crate::LONGEST_ERROR)
    /// bytes are kept. Blocks until the store has it.
    ///
    /// # Errors
    /// See [`SettleError`].
    pub fn bury(self, error: impl Into<String>) -> Result<(), SettleError> {
        self.bury_async(error).wait()
    }

    /// As [`bury`](Self::bury), as a future: see [`ack_async`](Self::ack_async).
    pub fn bury_async(self, error: impl Into<String>) -> SettleFuture {
        self.settle(Wish::Bury(storable(error.into())), ())
    }

    /// The lease ends so long from now, at most [`LONGEST_LEASE`](crate::LONGEST_LEASE), unless it is renewed.
    /// Blocks until the store has it.
    ///
    /// # Errors
    /// See [`SettleError`].
    pub fn extend(&self, lease: Duration) -> Result<(), SettleError> {
        self.extend_async(lease).wait()
    }

    /// As [`extend`](Self::extend), as a future: the extension is on its way from this call on.
    pub fn extend_async(&self, lease: Duration) -> SettleFuture {
        let reply = Reply::new();
        let command = Command::new(
            self.guard.held(),
            Wish::Extend(lease.min(LONGEST_LEASE)),
            Some(Arc::clone(&reply)),
        );
        self.guard.control.command(command);
        SettleFuture::new(reply, ())
    }

    fn settle<R: Copy>(self, wish: Wish, settled: R) -> SettleFuture<R> {
        let reply = Reply::new();
        self.into_guard().send(wish, Some(Arc::clone(&reply)));
        SettleFuture::new(reply, settled)
    }

    /// Drops the value, whose destructor is user code: its panic must not fail a job that is settled otherwise.
    fn into_guard(self) -> Guard {
        drop_quietly(self.value);
        self.guard
    }
}

impl Guard {
    fn held(&self) -> Held {
        Held::of(&self.lease)
    }

    /// The one settle of this guard.
    fn send(&mut self, wish: Wish, reply: Option<Arc<Reply>>) {
        self.settled = true;
        self.control.command(Command::new(self.held(), wish, reply));
    }

    /// What becomes of the job now that the attempt has failed; it comes again by the back-off,
    /// if not said.
    fn failure(&self, when: Option<When>, error: Option<&str>) -> (Wish, Retried) {
        let attempts = self.lease.attempts;
        if self.control.is_forked() {
            return (Wish::Release, Retried::Again(When::NOW)); // Which is answered by `Forked`.
        }
        if attempts >= self.policy.max_attempts && self.lease.schedule.is_some() {
            return (Wish::Ack, Retried::NextTime); // Which the pump makes of it.
        }
        if attempts >= self.policy.max_attempts {
            let error = error.map_or_else(
                || format!("attempt {attempts} failed, and it was the last"),
                str::to_owned,
            );
            return (Wish::Bury(storable(error)), Retried::Buried);
        }
        if let Some(when) = when {
            return (Wish::Retry(when), Retried::Again(when));
        }
        let now = self.control.clock.now();
        // User code: no lock is held. If it panics, the job neither waits for ever nor comes at once.
        let delay = guarded(|| self.policy.limiter.delay(&self.lease.id, attempts, now));
        let delay = delay.unwrap_or_else(|payload| {
            discard(payload);
            FIRST_BACK_OFF
        });
        (Wish::Retry(delay.into()), Retried::Again(delay.into()))
    }

    fn fail(&mut self, error: Option<&str>) {
        let (wish, _) = self.failure(None, error);
        self.send(wish, None);
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        if self.settled || self.control.is_forked() {
            return;
        }
        #[allow(
            clippy::disallowed_methods,
            reason = "which drop it is no model decides"
        )]
        let is_panic = std::thread::panicking();
        if is_panic {
            self.fail(Some(PANICKED));
        } else if self.control.is_open() {
            self.fail(Some(DROPPED));
        } else {
            self.send(Wish::Release, None);
        }
    }
}

impl<T> Deref for Claimed<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.value
    }
}

/// The payload and the key are not shown.
impl<T> fmt::Debug for Claimed<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Claimed").field(&self.guard.lease).finish()
    }
}
