//! A job held by a handler.

use std::fmt;
use std::mem;
use std::ops::Deref;
use std::sync::Arc;
use std::time::Duration;

use sync_shim::foreign::{Payload as Panic, discard, drop_quietly};
use sync_shim::{Clock, Timeout};

use crate::engine::command::{Command, Held, Ready, Wish};
use crate::engine::config::{LONGEST_LEASE, Policy};
use crate::engine::control::Control;
use crate::engine::hooks::{self, HandedOut, Observed, Outcome};
use crate::engine::kept::{Kept, SetResultError};
use crate::engine::policy::JobPolicy;
use crate::engine::signals::{Events, SignalFuture, Signals};
use crate::engine::time_limit::TimeLimit;
use crate::engine::unread::Unread;
use crate::error::SettleError;
use crate::store::Lease;
use crate::store::failures::{self, Failed, Failure};
use crate::store::job::{JobId, Retried};
use crate::store::payload::{Payload, decoded};
use crate::store::time::{StoreTime, When};
use crate::threads::reply::{Reply, SettleFuture};

/// Error of a job whose handler panicked.
const PANICKED: &str = "the handler panicked";
/// Error of a job that was dropped and not settled.
const DROPPED: &str = "the job was dropped without being settled";

/// A due job that was started in this process, with its lease, which is renewed while this value exists.
///
/// Dropping a job without settling it is a failed attempt, like [`retry`](Claimed::retry): an early return
/// with `?`, a dropped future, an aborted task and a panic all count. So a handler that never settles its
/// job is called again only after a back-off, and the job is buried after its last attempt. After the queue
/// is closed in this process (a shutdown), a dropped job is released instead, like
/// [`release`](Claimed::release). The drop does not wait for the store.
///
/// If the value's destructor panics as the job is settled, the panic is caught, and the job is settled as
/// requested.
///
/// A holder that has lost its lease (the process slept, or the store was unreachable for too long) is fenced
/// off: it cannot settle the job, and each call returns an error.
///
/// A [cancel](crate::DurableQueue::cancel) of a running job is a request to its handler, which may stop early
/// ([`is_cancelled`](Claimed::is_cancelled)) or ignore the request. If the handler acknowledges the job, it is
/// done, as usual. If the attempt fails, or the job is dropped or released, the job ends: it is not retried, and
/// becomes no dead letter. (The store ends it. If the last attempt fails before this process has learned of the
/// request, the job becomes a dead letter.)
#[must_use = "dropping it without settling it is a failed attempt"]
pub struct Claimed<T> {
    // USER CODE: the drop of a value whose job was not settled. `guard` is dropped after it, also if it panics.
    value: T,
    key: Option<Vec<u8>>,
    schedule: Option<String>,
    kind: Option<String>,
    urgent: bool,
    guard: Guard,
}

/// The duty to settle a job, which its drop fulfils.
pub(crate) struct Guard {
    held: Held,
    attempts: u32,
    due: StoreTime,
    repeats: bool,
    /// The text of the attempts that have failed.
    failures: Option<Arc<str>>,
    signals: Signals,
    control: Arc<Control>,
    policy: Arc<Policy>,
    /// Precedes the queue's.
    own: Option<Arc<JobPolicy>>,
    /// `None` if no hook observes the attempt.
    observed: Option<Box<Observed>>,
    /// `None` if done jobs are not kept.
    kept: Option<Arc<Kept>>,
    limit: Option<TimeLimit>,
    settled: bool,
}

impl<T: Payload> Claimed<T> {
    /// Decodes the jobs of a call. Unreadable ones are given back, cancelled ones end, and both are left out.
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
        let Ready {
            mut lease,
            lane: _,
            signals,
            policy: own,
            limit,
            handed_out,
        } = given;
        let mut guard = Guard::new(&mut lease, signals, control, policy, own);
        if guard.has(Events::CANCELLED) {
            guard.send(Wish::Release, None);
            return None;
        }
        if let Some(limit) = &limit {
            limit.begin(control.clock.now());
        }
        guard.limit = limit;
        guard.start(handed_out, &lease);
        let payload = mem::take(&mut lease.payload);
        let value = decoded(payload).map_err(|error| match lease.kind.as_deref() {
            Some(kind) => format!("{error} (a job of kind `{kind}`)"),
            None => error.to_string(),
        });
        match value {
            Ok(value) => Some(Self {
                value,
                key: lease.key,
                schedule: lease.schedule,
                kind: lease.kind,
                urgent: lease.urgent,
                guard,
            }),
            Err(error) => {
                guard.give_back(error);
                None
            }
        }
    }
}

impl<T> Claimed<T> {
    /// Returns the job's id.
    pub fn id(&self) -> JobId {
        self.guard.held.id
    }

    /// Returns the job's key.
    pub fn key(&self) -> Option<&[u8]> {
        self.key.as_deref()
    }

    /// Returns the job's due time, by the store's clock.
    pub fn due(&self) -> StoreTime {
        self.guard.due
    }

    /// Returns the schedule of a repeating job.
    pub fn schedule(&self) -> Option<&str> {
        self.schedule.as_deref()
    }

    /// Returns the name of the job's [kind](crate::Kind).
    pub fn kind(&self) -> Option<&str> {
        self.kind.as_deref()
    }

    /// Returns whether the job was pushed or merged as an [urgent](crate::DurableQueue::urgent) one.
    pub fn is_urgent(&self) -> bool {
        self.urgent
    }

    /// Returns the number of this attempt, from 1.
    pub fn attempt(&self) -> u32 {
        self.guard.attempts
    }

    /// Returns whether the lease is known to be lost, or has expired after the [attempt's
    /// timeout](crate::Builder::attempt_timeout), or was ended by its [time limit](crate::JobPolicy::time_limit), or is no
    /// longer renewed because a [shutdown](crate::DurableQueue::shutdown) has timed out: a handler may then stop early.
    pub fn is_lost(&self) -> bool {
        self.guard.has(Events::LOST)
    }

    /// Returns a future that completes when [`is_lost`](Self::is_lost) becomes true, for a handler that waits for
    /// something else at the same time. It does not borrow the job. If the job is settled first, the future stays
    /// pending. In a forked child it is ready.
    pub fn lost(&self) -> SignalFuture {
        self.guard.signal(Events::LOST)
    }

    /// Returns whether a [cancel](crate::DurableQueue::cancel) of the job was requested, by any process: the handler
    /// should then stop. How soon a process learns of a request: see [`cancelled`](Self::cancelled).
    pub fn is_cancelled(&self) -> bool {
        self.guard.has(Events::CANCELLED)
    }

    /// Returns a future that completes when [`is_cancelled`](Self::is_cancelled) becomes true. It does not borrow the
    /// job. If the job is settled first, the future stays pending. In a forked child it is ready.
    ///
    /// The store announces a request like a push, and the process asks for the requests of its queue at most once in
    /// [`CANCEL_PAUSE`](crate::internals::CANCEL_PAUSE). If the announcement is lost, the process asks when it renews a lease:
    /// after a third of the [lease](crate::Builder::lease), unless [heartbeats](crate::Builder::heartbeat) are off and
    /// no handler [extends](Self::extend) a lease.
    ///
    /// ```
    /// # use durable_queue::Job;
    /// # async fn render(_: &str) -> std::io::Result<()> { Ok(()) }
    /// # async fn remove_parts(_: &str) {}
    /// async fn handler(video: Job<String>) -> Result<(), Box<dyn std::error::Error + Send + Sync>> {
    ///     let cancelled = video.cancelled();
    ///     tokio::select! {
    ///         rendered = render(&video) => Ok(rendered?),
    ///         () = cancelled => {
    ///             remove_parts(&video).await;
    ///             Err("cancelled".into()) // The job has ended, and is not retried.
    ///         }
    ///     }
    /// }
    /// ```
    pub fn cancelled(&self) -> SignalFuture {
        self.guard.signal(Events::CANCELLED)
    }

    /// Blocks until a cancel is requested, for at most `timeout`, by the queue's clock. Returns whether it is. For
    /// blocking handlers that would sleep for that time otherwise. In a forked child it returns true at once.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use durable_queue::Claimed;
    /// # fn is_delivered(_: &str) -> bool { true }
    /// fn handler(parcel: &Claimed<String>) -> Result<(), &'static str> {
    ///     while !is_delivered(parcel) {
    ///         if parcel.wait_cancelled_timeout(Duration::from_secs(5)) {
    ///             return Err("cancelled"); // The job has ended, and is not retried.
    ///         }
    ///     }
    ///     Ok(())
    /// }
    /// ```
    pub fn wait_cancelled_timeout(&self, timeout: impl Into<Timeout>) -> bool {
        let clock = &self.guard.control.clock;
        self.cancelled().wait(clock, timeout.into().deadline(clock))
    }

    /// Returns the failed attempts of the job, the oldest first: at most the last
    /// [`MOST_FAILURES`](crate::internals::MOST_FAILURES). Those of earlier runs of a repeating job are not kept.
    pub fn failures(&self) -> Vec<Failure> {
        failures::read(self.guard.failures.as_deref())
    }

    /// Sets the result that is kept with the job if this attempt acknowledges it: by [`ack`](Self::ack), or by a handler
    /// that returns `Ok`. Replaces an earlier one of this attempt. See [`DurableQueue::result`](crate::DurableQueue::result)
    /// for an example.
    ///
    /// # Errors
    /// [`SetResultError::TooLarge`], and [`SetResultError::NotKept`] without
    /// [`keep_done`](crate::Builder::keep_done). The job can still be settled in any way; a handler that returns the
    /// error fails the attempt.
    pub fn set_result(&self, result: impl Into<Vec<u8>>) -> Result<(), SetResultError> {
        let kept = self.guard.kept.as_ref().ok_or(SetResultError::NotKept)?;
        kept.set(result.into())
    }

    /// Marks the job as done. Blocks until the store has committed it.
    ///
    /// # Errors
    /// See [`SettleError`].
    pub fn ack(self) -> Result<(), SettleError> {
        self.ack_async().wait()
    }

    /// Async version of [`ack`](Self::ack). The acknowledgement is sent by this call, whether or not the
    /// future is polled. So a batch is settled with one commit: call this for each job, then
    /// [`wait`](SettleFuture::wait).
    pub fn ack_async(mut self) -> SettleFuture {
        self.guard.ended(Outcome::Done, None, None);
        let ack = self.guard.ack();
        self.settle(ack, ())
    }

    /// Marks the job as done without waiting: the acknowledgement is part of one of the pump's next calls, if
    /// possible between jobs that fall due. If the process crashes before that, the job is handed out again.
    /// A lost lease is only counted in [`Stats`](crate::Stats).
    pub fn ack_later(self) {
        let guard = self.into_settled();
        let ack = guard.ack();
        guard.control.command(Command::later(guard.held, ack));
    }

    /// Returns the job with a guard that settles nothing, and its own guard.
    pub(crate) fn lend(mut self) -> (Self, Guard) {
        let lent = Guard {
            failures: self.guard.failures.clone(),
            signals: self.guard.signals.clone(),
            control: Arc::clone(&self.guard.control),
            policy: Arc::clone(&self.guard.policy),
            own: None,
            observed: None,
            kept: self.guard.kept.clone(),
            limit: None,
            settled: true,
            ..self.guard
        };
        let guard = mem::replace(&mut self.guard, lent);
        (self, guard)
    }

    /// Returns the command of an acknowledgement, which the caller must submit to `control`, if the job
    /// belongs to that queue.
    pub(crate) fn ack_with(self, control: &Arc<Control>) -> Option<Command> {
        if !Arc::ptr_eq(&self.guard.control, control) {
            self.ack_later();
            return None;
        }
        let guard = self.into_settled();
        Some(Command::new(guard.held, guard.ack(), None))
    }

    fn into_settled(self) -> Guard {
        let mut guard = self.into_guard();
        guard.ended(Outcome::Done, None, None);
        guard.settled = true;
        guard
    }

    /// Reports a failed attempt. The job is retried after its back-off, or buried if no attempt is left
    /// ([all cases](Retried)). `reason` is the error of the attempt, which the job [keeps](Self::failures). Blocks until
    /// the store has committed it.
    ///
    /// # Errors
    /// See [`SettleError`].
    pub fn retry(self, reason: impl Into<String>) -> Result<Retried, SettleError> {
        self.retry_async(reason).wait()
    }

    /// Async version of [`retry`](Self::retry). The command is sent by this call: see
    /// [`ack_async`](Self::ack_async).
    pub fn retry_async(mut self, reason: impl Into<String>) -> SettleFuture<Retried> {
        let (wish, retried) = self.guard.failed_by(Outcome::Failed, None, reason.into());
        self.settle(wish, retried)
    }

    /// Like [`retry`](Self::retry), without waiting.
    pub fn retry_later(self, reason: impl Into<String>) {
        self.into_guard().fail(Outcome::Failed, reason.into());
    }

    /// Like [`retry`](Self::retry), but retries the job at `when` instead of after the back-off.
    ///
    /// # Errors
    /// See [`SettleError`].
    pub fn retry_after(
        self,
        when: impl Into<When>,
        reason: impl Into<String>,
    ) -> Result<Retried, SettleError> {
        self.retry_after_async(when, reason).wait()
    }

    /// Async version of [`retry_after`](Self::retry_after): see [`retry_async`](Self::retry_async).
    pub fn retry_after_async(
        mut self,
        when: impl Into<When>,
        reason: impl Into<String>,
    ) -> SettleFuture<Retried> {
        let when = Some(when.into());
        let (wish, retried) = self.guard.failed_by(Outcome::Failed, when, reason.into());
        self.settle(wish, retried)
    }

    /// Returns the job to the queue as if it had never been claimed: it is due as before, for any process,
    /// and the attempt is not counted. For a handler that cannot run the job here and now. Blocks until the
    /// store has committed it.
    ///
    /// ```
    /// # use durable_queue::{Claimed, SettleError};
    /// # fn mail(_: &str) {}
    /// fn handle(job: Claimed<String>, may_send: bool) -> Result<(), SettleError> {
    ///     if !may_send {
    ///         return job.release(); // Another process may send it.
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

    /// Async version of [`release`](Self::release): see [`ack_async`](Self::ack_async).
    pub fn release_async(mut self) -> SettleFuture {
        self.guard.ended(Outcome::Released, None, None);
        self.settle(Wish::Release, ())
    }

    /// Gives the job up: it becomes a dead letter with the text `error`, of which
    /// [`LONGEST_ERROR`](crate::LONGEST_ERROR) bytes are kept. Blocks until the store has committed it.
    ///
    /// # Errors
    /// See [`SettleError`].
    pub fn bury(self, error: impl Into<String>) -> Result<(), SettleError> {
        self.bury_async(error).wait()
    }

    /// Async version of [`bury`](Self::bury): see [`ack_async`](Self::ack_async).
    pub fn bury_async(mut self, error: impl Into<String>) -> SettleFuture {
        let error = error.into();
        self.guard
            .ended(Outcome::Failed, Some(Retried::Buried), Some(&error));
        let wish = self.guard.burial(error);
        self.settle(wish, ())
    }

    /// Extends the lease: it expires after `lease` from now, at most [`LONGEST_LEASE`](crate::LONGEST_LEASE),
    /// unless it is renewed. Blocks until the store has committed it.
    ///
    /// # Errors
    /// See [`SettleError`].
    pub fn extend(&self, lease: Duration) -> Result<(), SettleError> {
        self.extend_async(lease).wait()
    }

    /// Async version of [`extend`](Self::extend). The extension is sent by this call.
    pub fn extend_async(&self, lease: Duration) -> SettleFuture {
        let reply = Reply::new();
        let command = Command::new(
            self.guard.held,
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

    /// Runs the handler, which must not unwind, within the hook of the attempt if there is one.
    pub(crate) fn observe<R>(&mut self, handler: impl FnOnce(&Self) -> R) -> R {
        let mut observed = self.guard.observed.take();
        let result = hooks::around(&mut observed, || handler(self));
        self.guard.observed = observed;
        result
    }

    pub(crate) fn into_guard(self) -> Guard {
        // USER CODE: the drop of the value. Its panic must not fail a job that is being settled.
        drop_quietly(self.value);
        self.guard
    }
}

impl Guard {
    /// Takes the failures out of the lease.
    pub(crate) fn new(
        lease: &mut Lease,
        signals: Signals,
        control: &Arc<Control>,
        policy: &Arc<Policy>,
        own: Option<Arc<JobPolicy>>,
    ) -> Self {
        Self {
            held: Held::of(lease),
            attempts: lease.attempts,
            due: lease.due,
            repeats: lease.schedule.is_some(),
            failures: lease.failures.take().map(Arc::from),
            signals,
            control: Arc::clone(control),
            policy: Arc::clone(policy),
            observed: None,
            kept: own
                .as_deref()
                .and_then(|own| own.keep_done)
                .or(policy.keep_done)
                .map(|span| Kept::new(span, control.clock.now())),
            own,
            limit: None,
            settled: false,
        }
    }

    /// The attempt starts, and so does its hook if there is one.
    pub(crate) fn start(&mut self, handed_out: Option<HandedOut>, lease: &Lease) {
        self.observed = handed_out.and_then(|it| it.start(lease, &self.control.clock));
    }

    /// Returns the command that ends the attempt as failed.
    pub(crate) fn into_failure(mut self, error: String) -> Command {
        let (wish, _) = self.failed_by(Outcome::Failed, None, error);
        self.settled = true;
        Command::new(self.held, wish, None)
    }

    /// The attempt was ended by another party.
    pub(crate) fn forget(mut self) {
        self.ended(Outcome::Lost, None, None);
        self.settled = true;
    }

    /// Returns whether one of the events is set.
    pub(crate) fn has(&self, events: Events) -> bool {
        self.signals.has(events)
    }

    /// Returns a future that completes when one of the events is set.
    pub(crate) fn signal(&self, events: Events) -> SignalFuture {
        SignalFuture::new(&self.signals, events, self.control.process())
    }

    /// The same for events that end the attempt. `None` if there are none.
    pub(crate) fn end_signal(&self, events: Events) -> Option<SignalFuture> {
        (events != Events::NONE).then(|| self.signal(events))
    }

    /// Settles the job by the result of its handler: done, failed, or panicked. Returns an acknowledgement, which the
    /// caller must submit.
    pub(crate) fn end(mut self, ended: Result<Result<(), String>, Panic>) -> Option<Command> {
        match ended {
            Ok(Ok(())) => {
                self.ended(Outcome::Done, None, None);
                self.settled = true;
                return Some(Command::later(self.held, self.ack()));
            }
            Ok(Err(error)) => self.fail(Outcome::Failed, error),
            Err(payload) => {
                discard(payload); // The panic hook has shown it.
                self.fail(Outcome::Panicked, PANICKED.to_owned());
            }
        }
        None
    }

    /// Runs a part of the handler, which must not unwind, within the hook of the attempt if there is one.
    pub(crate) fn observe<R>(&mut self, part: impl FnOnce() -> R) -> R {
        hooks::around(&mut self.observed, part)
    }

    /// Returns the wish that ends the job as done.
    fn ack(&self) -> Wish {
        match &self.kept {
            None => Wish::Ack,
            Some(kept) => Wish::Keep(Box::new(kept.wish(self.control.clock.now()))),
        }
    }

    /// Returns whether the pump has ended the attempt at its time limit.
    pub(crate) fn is_overdue(&self) -> bool {
        self.limit.as_ref().is_some_and(TimeLimit::is_over)
    }

    /// The attempt has ended. Stops its time limit, and tells its hook.
    fn ended(&mut self, outcome: Outcome, retried: Option<Retried>, error: Option<&str>) {
        if self.observed.is_none() && self.limit.is_none() || self.control.is_forked() {
            return;
        }
        if let Some(limit) = self.limit.take() {
            limit.end();
        }
        if let Some(observed) = self.observed.take() {
            let outcome = match outcome {
                _ if self.has(Events::LOST) => Outcome::Lost,
                Outcome::Failed if retried == Some(Retried::Cancelled) => Outcome::Cancelled,
                Outcome::Released if self.has(Events::CANCELLED) => Outcome::Cancelled,
                outcome => outcome,
            };
            observed.end(outcome, retried, error, &self.control.clock);
        }
    }

    /// The one settle of this guard.
    fn send(&mut self, wish: Wish, reply: Option<Arc<Reply>>) {
        self.settled = true;
        self.control.command(Command::new(self.held, wish, reply));
    }

    /// Returns the failed attempt, of which the job will keep the error.
    fn failed(&self, error: String) -> Failed {
        let now = self.control.clock.now();
        Failed::new(self.failures.clone(), now, self.due, self.attempts, error)
    }

    fn burial(&self, error: String) -> Wish {
        if self.control.is_forked() {
            return Wish::Release; // The answer is `Forked`.
        }
        Wish::Bury(self.failed(error))
    }

    /// Returns the command that ends a failed attempt, and its result. The job is retried at `when`, or else
    /// after the back-off.
    fn failure(&self, when: Option<When>, error: String) -> (Wish, Retried) {
        let attempts = self.attempts;
        if self.control.is_forked() {
            return (Wish::Release, Retried::Again(When::NOW)); // The answer is `Forked`.
        }
        if self.has(Events::CANCELLED) {
            return (Wish::Release, Retried::Cancelled); // The store ends the job.
        }
        let own = self.own.as_deref();
        let is_last = attempts >= self.policy.max_attempts(own);
        if is_last && self.repeats {
            return (Wish::Ack, Retried::NextTime); // The pump turns this into the next run.
        }
        if is_last {
            return (self.burial(error), Retried::Buried);
        }
        let failed = self.failed(error);
        if let Some(when) = when {
            return (Wish::Retry(when, failed), Retried::Again(when));
        }
        let now = self.control.clock.now();
        let delay = self.policy.back_off(own, self.held.id, attempts, now);
        (
            Wish::Retry(delay.into(), failed),
            Retried::Again(delay.into()),
        )
    }

    /// Like [`failure`](Self::failure). Tells the hook of the attempt.
    fn failed_by(
        &mut self,
        outcome: Outcome,
        when: Option<When>,
        error: String,
    ) -> (Wish, Retried) {
        let shown = self.observed.is_some().then(|| error.clone());
        let (wish, retried) = self.failure(when, error);
        self.ended(outcome, Some(retried), shown.as_deref());
        (wish, retried)
    }

    /// The payload cannot be decoded here.
    fn give_back(&mut self, error: String) {
        self.ended(Outcome::Unreadable, None, Some(&error));
        let unread = Unread::new(self.failed(error));
        self.send(Wish::Unreadable(Box::new(unread)), None);
    }

    fn fail(&mut self, outcome: Outcome, error: String) {
        let (wish, _) = self.failed_by(outcome, None, error);
        self.send(wish, None);
    }

    /// Ends an attempt that nobody goes on with.
    pub(crate) fn abandon(&mut self) {
        if self.settled || self.control.is_forked() {
            return;
        }
        if self.control.is_open() {
            self.fail(Outcome::Failed, DROPPED.to_owned());
        } else {
            self.ended(Outcome::Released, None, None);
            self.send(Wish::Release, None);
        }
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        #[allow(
            clippy::disallowed_methods,
            reason = "models do not decide which drop it is"
        )]
        let is_panic = std::thread::panicking();
        if is_panic && !self.settled && !self.control.is_forked() {
            self.fail(Outcome::Panicked, PANICKED.to_owned());
        }
        self.abandon();
        if let Some(observed) = self.observed.take() {
            observed.forget(); // In a forked child.
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
        f.debug_struct("Claimed")
            .field("id", &self.id())
            .field("due", &self.due())
            .field("attempt", &self.attempt())
            .finish_non_exhaustive()
    }
}
