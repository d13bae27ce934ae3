//! A schedule: body, outcome and the outcome's waiter, in one allocation shared by the heap, the pool's
//! queue and the handle.
//!
//! The party that claims the body ends the schedule or puts the body back. Comments refer to the steps and
//! races of `PROTOCOL.md`.
//!
//! # Invariants
//! 1. The body leaves the slot only by `claim`, under the slot's lock, which is taken last: under
//!    the timer's lock or alone.
//! 2. The stage goes `Idle`, `Claimed`, then (after a run) `Rested` or `Over`, then `Idle` again or
//!    `Gone`; or `Unwanted` and then `Gone` if the body does not run (again). While it is `Claimed`, only
//!    the party that claimed the body changes it.
//! 3. The promise is fulfilled after the pool's statistics include the end, in the section of the timer's
//!    lock that updates the scheduled pool's statistics.
//! 4. User code (the body, destructors, wakers) runs with no lock held. When a schedule ends it runs last
//!    (`run_user_code`), after the timer thread and the waiting threads were woken and the pool was released.

use std::sync::Arc;

use delay_queue::EntryId;
use pool_core::JoinError;
use pool_core::internals::{
    Joined, Outcome, Promise, Promised, Recorded, Resolve, ScheduledTask, TaskContext, TaskResult,
    Waiter,
};
use sync_shim::foreign::{Payload, discard, drop_quietly};
use sync_shim::{Mutex, MutexGuard};

use crate::body::{AfterPanic, Body, Once};
use crate::error::{Reason, ResetError};
use crate::executor::Executor;
use crate::plan::Plan;
use crate::state::{Effects, EndKind, Ending, Entry, NoNextRun, Report, Why};
use crate::timer::Core;
use crate::unstarted::UnstartedSchedule;

/// A schedule as its handle sees it.
pub trait Joinable<R>: Promised<R> + Send + Sync {
    /// Returns whether the schedule has ended.
    fn is_ended(&self) -> bool;
    /// Returns whether the last run has started, so that the schedule ends without another worker.
    fn is_last_run(&self) -> bool;
    /// Ends the schedule, now or after the current run. Returns `false` if the only run has started, or if
    /// the schedule has ended or is ending.
    fn cancel(&self) -> bool;
    /// Called when the handle is dropped: drops the outcome, now or when there is one.
    fn detach(&self);
    /// Returns the number of ended runs.
    fn runs(&self) -> u64;
    /// Returns the number of missed ticks.
    fn missed(&self) -> u64;
    /// Moves a pending run to another time.
    ///
    /// # Errors
    /// The reason why the run keeps its time.
    fn reset(&self, due: u64) -> Result<(), ResetError>;
    /// Returns when the next run is due, in the heap's nanoseconds; `None` during a run and after the end.
    fn next_due(&self) -> Option<u64>;
}

pub(crate) struct Schedule<B: Body, S: Executor> {
    core: Arc<Core<S>>,
    plan: Plan,
    /// The task's options and record.
    recorded: Option<Arc<Recorded>>,
    slot: Mutex<Slot<B>>,
}

struct Slot<B: Body> {
    /// Set in the section that pushes the schedule.
    id: Option<EntryId>,
    stage: Stage<B>,
    promise: Promise<B::Out>,
    /// Due time of the next run, or of the current one.
    due: u64,
    runs: u64,
    missed: u64,
    /// Set by a cancel or a release during a run: the series ends after the run.
    stop: Option<Why>,
    /// The schedule is ending, so a cancel is too late.
    ending: bool,
}

enum Stage<B: Body> {
    /// The body can be claimed.
    Idle(B),
    /// A party has claimed the body.
    Claimed,
    /// A run has ended at this time, and the series continues.
    Rested(B, u64, Report),
    /// The last run has ended.
    Over(Joined<B::Out>, Report),
    /// The schedule has ended, and its body must still be dropped.
    Unwanted(B),
    /// The schedule has ended.
    Gone,
}

/// How a schedule ends.
enum End<B: Body> {
    /// A worker has run or dropped the body.
    Ran(Joined<B::Out>, EndKind),
    /// Before a run; the body must still be dropped.
    Unrun(B, Why),
}

const INSERTED: &str = "a schedule is in the heap before it is shared";

impl<B: Body, S: Executor> Schedule<B, S> {
    fn new(
        core: Arc<Core<S>>,
        body: B,
        plan: Plan,
        due: u64,
        recorded: Option<Arc<Recorded>>,
    ) -> Arc<Self> {
        Arc::new(Self {
            core,
            plan,
            recorded,
            slot: Mutex::new(Slot {
                id: None,
                stage: Stage::Idle(body),
                promise: Promise::new(),
                due,
                runs: 0,
                missed: 0,
                stop: None,
                ending: false,
            }),
        })
    }

    /// Called once, under the timer's lock, in the section that pushes the schedule.
    fn set_id(&self, id: EntryId) {
        self.slot.lock().id = Some(id);
    }

    /// Returns the body of a rejected schedule.
    fn cancel_refused(&self) -> B {
        let (_, body) = Self::claim(self.slot.lock());
        body.expect("a rejected schedule is not shared")
    }

    /// Takes the body if no other party has claimed it. Parties race for the body only here.
    fn claim(mut slot: MutexGuard<'_, Slot<B>>) -> (MutexGuard<'_, Slot<B>>, Option<B>) {
        match std::mem::replace(&mut slot.stage, Stage::Claimed) {
            Stage::Idle(body) => (slot, Some(body)),
            other => {
                slot.stage = other;
                (slot, None)
            }
        }
    }

    /// Step 8: the section that ends a schedule whose body was claimed, then the drop of its ticket and the
    /// wake-up of the joining thread. The caller then performs `effects` and calls
    /// [`run_user_code`](Entry::run_user_code).
    fn finish(&self, end: End<B>, report: Report, effects: &mut Effects) {
        let id = self.slot.lock().id.expect(INSERTED);
        let tally = match &end {
            End::Ran(_, tally) => *tally,
            End::Unrun(_, why) => why.kind(),
        };
        let mut sleeper = None;
        let publish = || {
            let mut slot = self.slot.lock();
            // In the section that shows the outcome: a join enqueues before it, and is woken, or
            // looks after it. A waker is user code, and is called later: see `run_user_code`.
            sleeper = slot.promise.take_thread();
            let outcome;
            (slot.stage, outcome) = match end {
                End::Ran(joined, _) => (Stage::Gone, joined),
                End::Unrun(body, why) => (Stage::Unwanted(body), Err(why.outcome())),
            };
            slot.promise.fulfil(outcome);
        };
        let record = self.core.remove(id, tally, report, effects, publish);
        drop(record); // Withdraws its ticket, before user code that may block.
        if let Some(sleeper) = sleeper {
            sleeper.unpark();
        }
    }

    /// Step 8 of one schedule, with its effects and its user code.
    fn finish_alone(&self, end: End<B>, report: Report) {
        let mut effects = Effects::new();
        self.finish(end, report, &mut effects);
        self.conclude(effects);
    }

    fn conclude(&self, effects: Effects) {
        let kept = self.core.perform(effects);
        self.run_user_code();
        // USER CODE: the drop of the pool's handle. Last, because it may wait for the pool's end.
        drop(kept);
    }

    fn after_panic(body: &B, payload: Payload, env: &TaskContext) -> Option<Joined<B::Out>> {
        match body.after_panic() {
            AfterPanic::Fail => Some(Err(env.panicked(payload))),
            AfterPanic::GoOn => {
                discard(payload);
                None
            }
            AfterPanic::End(value) => {
                discard(payload);
                Some(Ok(value))
            }
        }
    }
}

impl<S: Executor> Core<S> {
    /// Schedules a task with one run: see [`series`](Self::series).
    ///
    /// # Errors
    /// The reason, and the task.
    pub fn once<F, R>(
        self: &Arc<Self>,
        due: u64,
        task: F,
    ) -> Result<Arc<dyn Joinable<R>>, (Reason, F)>
    where
        F: FnOnce() -> R + Send + 'static,
        R: Send + 'static,
    {
        let scheduled = self.schedule(due, Plan::Once, None, Once(Some(task)));
        scheduled.map_err(|(reason, body)| (reason, body.into_task()))
    }

    /// Schedules a series whose first run is at `due`, which is step 1, and starts the timer thread
    /// unless it runs.
    ///
    /// # Errors
    /// The reason, and the body.
    pub fn series<B: Body>(
        self: &Arc<Self>,
        due: u64,
        plan: Plan,
        body: B,
    ) -> Result<Arc<dyn Joinable<B::Out>>, (Reason, B)> {
        self.schedule(due, plan, None, body)
    }

    pub(crate) fn schedule<B: Body>(
        self: &Arc<Self>,
        due: u64,
        plan: Plan,
        recorded: Option<Arc<Recorded>>,
        body: B,
    ) -> Result<Arc<dyn Joinable<B::Out>>, (Reason, B)> {
        let schedule = Schedule::new(Arc::clone(self), body, plan, due, recorded);
        let entry = Arc::clone(&schedule) as _;
        match self.push(entry, plan.is_series(), due, |id| schedule.set_id(id)) {
            Ok(()) => Ok(schedule),
            Err(reason) => Err((reason, schedule.cancel_refused())),
        }
    }
}

impl Why {
    fn outcome(self) -> JoinError {
        match self {
            Self::Cancelled => JoinError::Cancelled,
            Self::Released => JoinError::Released,
        }
    }

    fn kind(self) -> EndKind {
        match self {
            Self::Cancelled => EndKind::Cancelled,
            Self::Released => EndKind::Released,
        }
    }
}

impl<B: Body, S: Executor> ScheduledTask for Schedule<B, S> {
    /// Step 6.
    fn run(self: Arc<Self>, env: &TaskContext) -> TaskResult {
        let (slot, body) = Self::claim(self.slot.lock());
        let due = slot.due;
        drop(slot);
        let Some(mut body) = body else {
            return TaskResult::new(Outcome::Cancelled, None); // "Cancel against fire": the schedule has ended.
        };
        if let Some(recorded) = &self.recorded {
            match recorded.drop_unrun(B::name(), env, body) {
                Err(back) => body = back,
                Ok(_) => return self.end_unrun(JoinError::Cancelled, Outcome::Cancelled),
            }
        }
        let lateness = self.core.now().saturating_sub(due);
        let result = match &self.recorded {
            // USER CODE: the task. A panic is the handle's; a join of an unstarted schedule is refused.
            None => env.execute(B::name(), || body.call()),
            // USER CODE: the task, between its hooks.
            Some(recorded) => recorded.execute(B::name(), env, || body.call()),
        };
        let ended = if self.plan.is_series() {
            self.core.now()
        } else {
            due // Unused: there is no next run.
        };
        let panicked = result.is_err();
        let joined = match result {
            Ok(value) => value.map(Ok),
            Err(payload) => Self::after_panic(&body, payload, env),
        };
        let report = Report {
            runs: 1,
            panicked: panicked.into(),
            missed: 0,
            lateness,
        };
        let mut slot = self.slot.lock();
        // "Cancel against the end of a run": cancelled or released during the run. The captures are
        // dropped as a part of the run.
        let cancelled = self.recorded.as_ref().is_some_and(|it| it.is_cancelled());
        let stop = slot.stop.or_else(|| cancelled.then_some(Why::Cancelled));
        let stopped = || stop.map(|why| Err(why.outcome()));
        if let Some(joined) = joined.or_else(stopped) {
            slot.ending = true;
            drop(slot);
            drop_quietly(body);
            self.slot.lock().stage = Stage::Over(joined, report);
        } else {
            slot.stage = Stage::Rested(body, ended, report);
            drop(slot);
        }
        let outcome = if panicked {
            Outcome::Panicked
        } else {
            Outcome::Completed
        };
        TaskResult::new(outcome, Some(self))
    }

    fn release(self: Arc<Self>) -> TaskResult {
        let mut slot = self.slot.lock();
        let body;
        (slot, body) = Self::claim(slot);
        slot.ending |= body.is_some();
        drop(slot);
        let Some(body) = body else {
            return TaskResult::new(Outcome::Cancelled, None);
        };
        drop_quietly(body);
        self.end_unrun(JoinError::Released, Outcome::Released)
    }
}

impl<B: Body, S: Executor> Schedule<B, S> {
    /// Ends a schedule whose body a worker has claimed and dropped, as the end of a run does.
    fn end_unrun(self: Arc<Self>, why: JoinError, outcome: Outcome) -> TaskResult {
        let mut slot = self.slot.lock();
        slot.ending = true;
        slot.stage = Stage::Over(Err(why), Report::default());
        drop(slot);
        TaskResult::new(outcome, Some(self))
    }
}

impl<B: Body, S: Executor> Resolve for Schedule<B, S> {
    /// Step 7 or 8, after the pool's statistics include the end of the run.
    fn resolve(&self) {
        let mut slot = self.slot.lock();
        match std::mem::replace(&mut slot.stage, Stage::Claimed) {
            Stage::Over(joined, report) => {
                slot.runs += report.runs;
                drop(slot);
                let tally = match joined {
                    Err(JoinError::Released) => EndKind::Released,
                    Err(JoinError::Cancelled) => EndKind::Cancelled,
                    _ => EndKind::Ended,
                };
                self.finish_alone(End::Ran(joined, tally), report);
            }
            // "Cancel against the end of a run": `stop` was set after the run checked it.
            Stage::Rested(body, _, report) if slot.stop.is_some() => {
                let why = slot.stop.unwrap_or(Why::Cancelled);
                slot.runs += report.runs;
                slot.ending = true;
                drop(slot);
                self.finish_alone(End::Unrun(body, why), report);
            }
            Stage::Rested(body, ended, mut report) => {
                let next = body.plan(self.plan).next(slot.due, ended);
                report.missed = next.missed;
                // Step 7, in one section: a caller that sees the run counted also sees when the next run is
                // due.
                slot.runs += report.runs;
                slot.missed = slot.missed.saturating_add(next.missed);
                slot.due = next.due;
                slot.stage = Stage::Idle(body);
                let id = slot.id.expect(INSERTED);
                drop(slot);
                // From here on a cancel may claim the body and remove the entry; then `reschedule` does
                // nothing. If no further run is possible, the series ends here.
                if self.core.reschedule(id, next.due, report) == Err(NoNextRun) {
                    self.end_alone(Why::Released);
                }
            }
            other => slot.stage = other,
        }
    }
}

impl<B: Body, S: Executor> Schedule<B, S> {
    fn end_alone(&self, why: Why) -> Ending {
        let mut effects = Effects::new();
        let ending = self.end(why, &mut effects);
        if ending == Ending::Now {
            self.conclude(effects);
        }
        ending
    }
}

impl<B: Body, S: Executor> Entry for Schedule<B, S> {
    fn end(&self, why: Why, effects: &mut Effects) -> Ending {
        let (mut slot, body) = Self::claim(self.slot.lock());
        if let Some(body) = body {
            slot.ending = true;
            drop(slot);
            self.finish(End::Unrun(body, why), Report::default(), effects);
            return Ending::Now;
        }
        if self.plan.is_series() && !slot.ending && slot.stop.is_none() {
            slot.stop = Some(why); // Checked at the end of the run, under this lock.
            return Ending::AfterThisRun;
        }
        Ending::Was
    }

    fn give_back(&self) -> Option<UnstartedSchedule> {
        let mut slot = self.slot.lock();
        let (body, due) = match std::mem::replace(&mut slot.stage, Stage::Gone) {
            Stage::Unwanted(body) => (body, slot.due),
            other => {
                slot.stage = other;
                return None;
            }
        };
        drop(slot);
        let name = self.recorded.as_ref().and_then(|it| it.given_name());
        let task = body.into_unstarted(self.plan);
        let due = self.core.epoch.instant(due);
        Some(UnstartedSchedule::new(name, B::name(), due, task))
    }

    fn run_user_code(&self) {
        let mut slot = self.slot.lock();
        let waiter = slot.promise.take_waiter();
        let outcome = if slot.promise.is_detached() {
            slot.promise.take_value()
        } else {
            None
        };
        let body = match std::mem::replace(&mut slot.stage, Stage::Gone) {
            Stage::Unwanted(body) => Some(body),
            _ => None,
        };
        drop(slot);
        if let Some(waiter) = waiter {
            // USER CODE: the handle's waker. Last, since it may wait for the end. A panic is caught.
            waiter.wake();
        }
        drop_quietly(body);
        // USER CODE: the drop of a detached outcome.
        drop_quietly(outcome);
    }
}

impl<B: Body, S: Executor> Promised<B::Out> for Schedule<B, S> {
    fn take_or_wait(&self, waiter: Option<Waiter>) -> Option<Joined<B::Out>> {
        let (outcome, unneeded) = self.slot.lock().promise.take_or_wait(waiter);
        // USER CODE: the drop of a stale waker.
        drop(unneeded);
        outcome
    }
}

impl<B: Body, S: Executor> Joinable<B::Out> for Schedule<B, S> {
    fn is_ended(&self) -> bool {
        self.slot.lock().promise.is_kept()
    }

    fn is_last_run(&self) -> bool {
        let slot = self.slot.lock();
        let last = !self.plan.is_series() || slot.ending || slot.stop.is_some();
        last && !matches!(slot.stage, Stage::Idle(_))
    }

    fn cancel(&self) -> bool {
        self.end_alone(Why::Cancelled) != Ending::Was
    }

    fn detach(&self) {
        let (outcome, stale) = self.slot.lock().promise.detach();
        drop(stale);
        drop(outcome); // On the thread that drops the handle. A panic of this drop unwinds there.
    }

    fn runs(&self) -> u64 {
        self.slot.lock().runs
    }

    fn missed(&self) -> u64 {
        self.slot.lock().missed
    }

    /// Step 11.
    fn reset(&self, due: u64) -> Result<(), ResetError> {
        let id = self.slot.lock().id.expect(INSERTED);
        self.core.reset(id, due, || {
            let mut slot = self.slot.lock();
            let is_there = matches!(slot.stage, Stage::Idle(_));
            if is_there {
                slot.due = due;
            }
            is_there
        })
    }

    fn next_due(&self) -> Option<u64> {
        let slot = self.slot.lock();
        matches!(slot.stage, Stage::Idle(_)).then_some(slot.due)
    }
}
