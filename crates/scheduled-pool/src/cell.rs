//! One schedule: closure, outcome, and who waits for it, in one shared allocation.
//!
//! The heap, the pool's queue and the handle each hold a reference. Whoever claims the body ends
//! the schedule or puts the body back; everybody else finds it claimed.
//!
//! # Invariants
//! 1. The body leaves the slot only by `claim`, under the slot's lock, which is taken last: under
//!    the timer's lock or alone.
//! 2. The stage goes `Idle`, `Claimed`, then (after a run) `Rested` or `Over`, then `Idle` again or
//!    `Gone`; or, if the body is not to run (again), `Unwanted` and then `Gone`. Only who has
//!    claimed moves it on.
//! 3. The promise is fulfilled after the pool's figures show the end, and in the section of the
//!    timer's lock in which ours do.
//! 4. User code (the body, destructors, wakers) runs with no lock held, and for an end after
//!    everything that the end owes to the timer, to waiting threads and to the pool: `pay`.

use std::sync::Arc;

use delay_queue::EntryId;
use pool_core::JoinError;
use pool_core::internals::{
    Joined, Outcome, Promise, Promised, Resolve, ScheduledTask, TaskContext, TaskResult, Waiter,
};
use sync_shim::foreign::{Payload, discard, drop_quietly};
use sync_shim::{Mutex, MutexGuard};

use crate::body::{AfterPanic, Body};
use crate::plan::Plan;
use crate::sink::Sink;
use crate::state::{Effects, Ending, Entry, Report, Tally, Vain, Why};
use crate::timer::Core;

/// A schedule as its handle sees it.
pub trait Joinable<R>: Promised<R> + Send + Sync {
    /// Whether it has ended.
    fn is_ended(&self) -> bool;
    /// Whether its last run has begun, so that nothing more is needed for its end.
    fn is_last_run(&self) -> bool;
    /// Ends it, or has it end after the present run: `false` if it runs its only run, has ended,
    /// or is about to.
    fn cancel(&self) -> bool;
    /// The handle is gone.
    fn detach(&self);
    /// Runs that have ended.
    fn runs(&self) -> u64;
    /// Ticks missed.
    fn missed(&self) -> u64;
    /// When the next run is due, as the heap counts; `None` while one runs and after the end.
    fn next_due(&self) -> Option<u64>;
}

pub(crate) struct Cell<B: Body, S: Sink> {
    core: Arc<Core<S>>,
    plan: Plan,
    slot: Mutex<Slot<B>>,
}

struct Slot<B: Body> {
    /// Set in the section that enters the schedule into the heap.
    id: Option<EntryId>,
    stage: Stage<B>,
    promise: Promise<B::Out>,
    /// Of the next run, or the present one.
    due: u64,
    runs: u64,
    missed: u64,
    /// A series is to end after the present run.
    stop: Option<Why>,
    /// It is settled that the schedule ends.
    ending: bool,
}

enum Stage<B: Body> {
    /// Nobody has claimed the body.
    Idle(B),
    /// Somebody has.
    Claimed,
    /// A run has ended at that time, and the series goes on.
    Rested(B, u64, Report),
    /// A run has ended, and the schedule with it.
    Over(Joined<B::Out>, Report),
    /// It has ended, and the body is still to be dropped.
    Unwanted(B),
    /// It has ended.
    Gone,
}

/// Whether a body comes with the end.
enum End<B: Body> {
    /// It has run for the last time.
    Ran(Joined<B::Out>, Tally),
    /// It is not to run, or not again.
    Unrun(B, Why),
}

const ENTERED: &str = "a schedule is in the heap before anybody else knows of it";

impl<B: Body, S: Sink> Cell<B, S> {
    pub(crate) fn new(core: Arc<Core<S>>, body: B, plan: Plan, due: u64) -> Arc<Self> {
        Arc::new(Self {
            core,
            plan,
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

    /// Called once, under the timer's lock, as the schedule enters the heap.
    pub(crate) fn enter(&self, id: EntryId) {
        self.slot.lock().id = Some(id);
    }

    /// The body of a schedule that was refused.
    pub(crate) fn take_back(&self) -> B {
        let (_, body) = Self::claim(self.slot.lock());
        body.expect("nobody else knows of a schedule that was refused")
    }

    /// Takes the body, if nobody has. The one place where parties race for it.
    fn claim(mut slot: MutexGuard<'_, Slot<B>>) -> (MutexGuard<'_, Slot<B>>, Option<B>) {
        match std::mem::replace(&mut slot.stage, Stage::Claimed) {
            Stage::Idle(body) => (slot, Some(body)),
            other => {
                slot.stage = other;
                (slot, None)
            }
        }
    }

    /// The section that ends a schedule whose body was claimed, and the threads that it wakes.
    /// The rest is to be paid: what `effects` says, then [`pay`](Entry::pay).
    fn finish(&self, end: End<B>, report: Report, effects: &mut Effects) {
        let id = self.slot.lock().id.expect(ENTERED);
        let tally = match &end {
            End::Ran(_, tally) => *tally,
            End::Unrun(_, why) => why.tally(),
        };
        let mut sleeper = None;
        let publish = || {
            let mut slot = self.slot.lock();
            sleeper = slot.promise.take_thread(); // A waker is called later: see `pay`.
            let outcome;
            (slot.stage, outcome) = match end {
                End::Ran(joined, _) => (Stage::Gone, joined),
                End::Unrun(body, why) => (Stage::Unwanted(body), Err(why.outcome())),
            };
            slot.promise.fulfil(outcome);
        };
        let record = self.core.remove(id, tally, report, effects, publish);
        drop(record); // Its ticket leaves the wait queue before anything foreign may dally.
        if let Some(sleeper) = sleeper {
            sleeper.unpark();
        }
    }

    /// Ends one schedule and pays all that this owes.
    fn finish_alone(&self, end: End<B>, report: Report) {
        let mut effects = Effects::new();
        self.finish(end, report, &mut effects);
        self.conclude(effects);
    }

    fn conclude(&self, effects: Effects) {
        let kept = self.core.perform(effects);
        self.pay();
        drop(kept); // May wait for the pool's end.
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

impl Why {
    fn outcome(self) -> JoinError {
        match self {
            Self::Cancelled => JoinError::Cancelled,
            Self::Released => JoinError::Released,
        }
    }

    fn tally(self) -> Tally {
        match self {
            Self::Cancelled => Tally::Cancelled,
            Self::Released => Tally::Released,
        }
    }
}

impl<B: Body, S: Sink> ScheduledTask for Cell<B, S> {
    fn run(self: Arc<Self>, env: &TaskContext) -> TaskResult {
        let (slot, body) = Self::claim(self.slot.lock());
        let due = slot.due;
        drop(slot);
        let Some(mut body) = body else {
            return TaskResult::new(Outcome::Cancelled, None); // It was ended while it waited.
        };
        let lateness = self.core.now().saturating_sub(due);
        let result = env.execute(B::name(), || body.call());
        let ended = if self.plan.is_series() {
            self.core.now()
        } else {
            due // Nobody asks.
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
        // Told to end during the run: what it captured is dropped as a part of the run.
        let stopped = || slot.stop.map(|why| Err(why.outcome()));
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
        let released = Stage::Over(Err(JoinError::Released), Report::default());
        self.slot.lock().stage = released;
        TaskResult::new(Outcome::Released, Some(self))
    }
}

impl<B: Body, S: Sink> Resolve for Cell<B, S> {
    /// The pool's figures show the end of a run.
    fn resolve(&self) {
        let mut slot = self.slot.lock();
        match std::mem::replace(&mut slot.stage, Stage::Claimed) {
            Stage::Over(joined, report) => {
                slot.runs += report.runs;
                drop(slot);
                let tally = match joined {
                    Err(JoinError::Released) => Tally::Released,
                    Err(JoinError::Cancelled) => Tally::Cancelled,
                    _ => Tally::Ended,
                };
                self.finish_alone(End::Ran(joined, tally), report);
            }
            Stage::Rested(body, _, report) if slot.stop.is_some() => {
                let why = slot.stop.unwrap_or(Why::Cancelled);
                slot.runs += report.runs;
                slot.ending = true;
                drop(slot);
                self.finish_alone(End::Unrun(body, why), report);
            }
            Stage::Rested(body, ended, mut report) => {
                let next = self.plan.next(slot.due, ended);
                report.missed = next.missed;
                // In one step: whoever sees the run sees when the next is due.
                slot.runs += report.runs;
                slot.missed = slot.missed.saturating_add(next.missed);
                slot.due = next.due;
                slot.stage = Stage::Idle(body);
                let id = slot.id.expect(ENTERED);
                drop(slot);
                if self.core.again(id, next.due, report) == Err(Vain) {
                    self.end_alone(Why::Released);
                }
            }
            other => slot.stage = other,
        }
    }
}

impl<B: Body, S: Sink> Cell<B, S> {
    fn end_alone(&self, why: Why) -> Ending {
        let mut effects = Effects::new();
        let ending = self.end(why, &mut effects);
        if ending == Ending::Now {
            self.conclude(effects);
        }
        ending
    }
}

impl<B: Body, S: Sink> Entry for Cell<B, S> {
    fn end(&self, why: Why, effects: &mut Effects) -> Ending {
        let (mut slot, body) = Self::claim(self.slot.lock());
        if let Some(body) = body {
            slot.ending = true;
            drop(slot);
            self.finish(End::Unrun(body, why), Report::default(), effects);
            return Ending::Now;
        }
        if self.plan.is_series() && !slot.ending && slot.stop.is_none() {
            slot.stop = Some(why);
            return Ending::AfterThisRun;
        }
        Ending::Was
    }

    fn pay(&self) {
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
            waiter.wake();
        }
        drop_quietly(body);
        drop_quietly(outcome);
    }
}

impl<B: Body, S: Sink> Promised<B::Out> for Cell<B, S> {
    fn take_or_wait(&self, waiter: Option<Waiter>) -> Option<Joined<B::Out>> {
        let (outcome, unneeded) = self.slot.lock().promise.take_or_wait(waiter);
        drop(unneeded); // Perhaps a waker: the lock is free.
        outcome
    }
}

impl<B: Body, S: Sink> Joinable<B::Out> for Cell<B, S> {
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
        drop(outcome); // On the handle owner's thread: its panic is its own.
    }

    fn runs(&self) -> u64 {
        self.slot.lock().runs
    }

    fn missed(&self) -> u64 {
        self.slot.lock().missed
    }

    fn next_due(&self) -> Option<u64> {
        let slot = self.slot.lock();
        matches!(slot.stage, Stage::Idle(_)).then_some(slot.due)
    }
}
