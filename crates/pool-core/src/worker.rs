//! A worker's life: search, run, park, leave.

use std::sync::{Arc, Weak};
use std::task::Waker;

use sync_shim::atomic::{AtomicBool, Ordering::Relaxed};
use sync_shim::thread::{JoinHandle, Tag};

use crate::core::Core;
use crate::current::{self, Compensate, Worker};
use crate::foreign::{drop_quietly, wake};
use crate::handle::PoolRef;
use crate::runner::Runner;
use crate::sched::effects::Effects;
use crate::sched::exits::Exit;
use crate::sched::idle::{WakeReason, WorkerCell};
use crate::sched::search::AdaptiveSpin;
use crate::sched::shared::Whole;
use crate::sched::state::{Found, Next, Rest, State};
use crate::task::run::{Resolver, TaskResult};
use crate::worker_state;

/// The body of a worker's thread.
pub(crate) fn main<R: Runner>(core: Arc<Core<R>>, cell: &Arc<WorkerCell>) {
    Tag {
        group: core.group,
        depth: 0,
    }
    .set();
    current::set_worker(Some(Arc::new(Worker {
        pool: Arc::clone(&core.context.name),
        stop: Arc::clone(&core.context.stop),
        slot: cell.slot,
        compensates: compensates(&core),
        blocks: AtomicBool::new(false),
    })));
    // The starter counts the worker, then wakes it.
    cell.parker.park();
    if let Some(wrap) = &core.config.worker_wrap {
        let mut lived = false;
        let mut life = || {
            if !lived {
                lived = true;
                live(&core, cell);
            }
        };
        core.context.call_hook(|| wrap(&mut life));
        life();
    } else {
        live(&core, cell);
    }
    // Perhaps the last reference: hooks and their captures are user code.
    drop_quietly(core);
}

fn compensates<R: Runner>(core: &Arc<Core<R>>) -> Option<Weak<dyn Compensate>> {
    let may = core.config.max_compensation > 0;
    may.then(|| Arc::downgrade(core) as _)
}

/// From a worker's first look at the queue to its end. Does not unwind.
fn live<R: Runner>(core: &Arc<Core<R>>, cell: &Arc<WorkerCell>) {
    let finished = loop {
        if enter(core) == AfterRun::Search {
            serve(core, cell);
        }
        if core.config.worker_state.is_some() {
            worker_state::leave(&core.context);
        }
        if let Some(hook) = &core.config.stop_hook {
            core.context.call_hook(|| hook());
        }
        if let Departure::Gone(finished) = depart(core, cell) {
            break finished;
        }
    };
    if !finished.is_empty() {
        join(core, finished);
    }
}

/// A worker begins. It is counted as searching; or as busy, if it has a hook to run first, or a
/// state to make.
fn enter<R: Runner>(core: &Arc<Core<R>>) -> AfterRun {
    if !core.config.has_entry_code() {
        return AfterRun::Search;
    }
    if let Some(hook) = &core.config.start_hook {
        core.context.call_hook(|| hook());
    }
    if let Some(states) = &core.config.worker_state {
        worker_state::enter(states, &core.context);
    }
    let next = go_on(core, |state| {
        state.entered();
        true
    });
    run_until_idle(core, next)
}

/// Joins threads that have ended, with nothing else to do.
fn join<R: Runner>(core: &Arc<Core<R>>, threads: Vec<JoinHandle>) {
    let count = threads.len();
    for thread in threads {
        // A worker's body does not unwind; were it to, that is no reason for ours to.
        let _ = thread.join();
    }
    core.section(|state, effects| state.joined(count, effects));
}

/// Runs tasks until the worker is to leave. It arrives counted as searching, and returns counted
/// as leaving.
fn serve<R: Runner>(core: &Arc<Core<R>>, cell: &Arc<WorkerCell>) {
    let timed = core.config.keep_alive.is_some();
    let mut search = AdaptiveSpin::new();
    loop {
        let now = timed.then(|| core.clock().now());
        let mut effects = Effects::new();
        let (found, garbage) = core.state.lock().section(|state, inbox| {
            core.work.store(false, Relaxed); // A hint; the lock is held and we look ourselves.
            // Steps W1, W2.
            let found = state.find(cell, now, &mut effects);
            let parks = matches!(found, Found::Park(_));
            (found, parks.then(|| (state.queue.trim(), inbox.trim())))
        });
        drop(garbage); // The lock is free.
        core.wake_threads(&mut effects);
        let reason = match found {
            Found::Park(rest) => {
                let reason = park(core, cell, &rest);
                search.woke();
                reason
            }
            Found::Next(next) => {
                match run_until_idle(core, start_if_reserved(core, next, effects.start)) {
                    AfterRun::Search => {
                        search.look(|| core.work.load(Relaxed));
                        WakeReason::Work
                    }
                    AfterRun::Leave => WakeReason::Retire,
                }
            }
        };
        if reason == WakeReason::Retire {
            return;
        }
    }
}

#[derive(PartialEq, Eq)]
enum AfterRun {
    Search,
    Leave,
}

/// A section has decided what is `next`, and deferred no user code but the gate of the thread to be
/// started, if one is `reserved`. Where a gate is to be asked, it left the task to others
/// (`RunUserCode`).
#[inline]
fn start_if_reserved<R: Runner>(
    core: &Arc<Core<R>>,
    next: Next<R::Job>,
    reserved: bool,
) -> Next<R::Job> {
    if reserved {
        return start_reserved(core, next);
    }
    next
}

#[cold]
fn start_reserved<R: Runner>(core: &Arc<Core<R>>, mut next: Next<R::Job>) -> Next<R::Job> {
    let mut reserved = true;
    while let Next::RunUserCode = next {
        let may_start = core.start_and_search();
        (next, reserved) = resume(core, |state| {
            state.searching -= 1;
            may_start
        });
    }
    core.start_if_reserved(reserved);
    next
}

/// Does what is next, as long as there is a next.
fn run_until_idle<R: Runner>(core: &Arc<Core<R>>, mut next: Next<R::Job>) -> AfterRun {
    loop {
        next = match next {
            Next::Run(job) => run_fast_path(core, job),
            Next::Search => return AfterRun::Search,
            Next::Leave => return AfterRun::Leave,
            Next::RunUserCode => unreachable!("user code has been run"),
        };
    }
}

/// Runs a task, and the next, until something is to be decided. That has been done then, and what
/// the last end brings with it.
fn run_fast_path<R: Runner>(core: &Arc<Core<R>>, mut job: R::Job) -> Next<R::Job> {
    loop {
        // Step W5.
        let result = core.runner.run(job, &core.context);
        if result.runs_user_code {
            return finish(core, core.state.lock(), result);
        }
        // Step W6; or W7, with the lock that was taken to find that out.
        job = match core.state.next(result.outcome) {
            Ok(next) => next,
            Err(whole) => return finish(core, whole, result),
        };
        // Room and figures show the end: now the handle may.
        if let Some(waker) = resolve(result.resolve) {
            return call_waker(core, Next::Run(job), waker);
        }
    }
}

/// Shows a task's end to its handle, if it has one. A waker is left to the caller.
#[inline]
fn resolve(handle: Option<Resolver>) -> Option<Waker> {
    handle.and_then(|handle| handle.resolve_and_take_waker())
}

/// The section in which a worker that has ended a task, or run deferred user code, finds out what
/// comes next. It wakes threads; a start and user code are still to be run after it.
#[inline]
fn decide<R: Runner>(
    core: &Arc<Core<R>>,
    mut whole: Whole<'_, R::Job>,
    effects: &mut Effects<R::Job>,
    change: impl FnOnce(&mut State<R::Job>, &mut Effects<R::Job>) -> Next<R::Job>,
) -> Next<R::Job> {
    let next = change(whole.state_mut(), effects);
    if matches!(next, Next::Search) {
        core.work.store(false, Relaxed); // A hint, as in `serve`.
    }
    whole.unlock();
    core.wake_threads(effects);
    next
}

/// A task has ended, and what comes next has to be decided.
#[inline(never)]
fn finish<R: Runner>(
    core: &Arc<Core<R>>,
    whole: Whole<'_, R::Job>,
    result: TaskResult,
) -> Next<R::Job> {
    let mut effects = Effects::new();
    // Step W7.
    let next = decide(core, whole, &mut effects, |state, effects| {
        state.finish(result.outcome, result.runs_user_code, effects)
    });
    // Room and figures show the end: now the handle may. Before what may take its time, unless
    // it may itself.
    let (first, last) = if result.runs_user_code {
        (None, result.resolve)
    } else {
        (result.resolve, None)
    };
    let waker = resolve(first);
    if waker.is_none() && last.is_none() && !effects.has_user_code() {
        return start_if_reserved(core, next, effects.start);
    }
    let started = core.start_if_reserved(effects.start);
    match (next, waker.or_else(|| resolve(last))) {
        (Next::RunUserCode, waker) => {
            // Step W8.
            waker.into_iter().for_each(wake);
            effects.run_user_code();
            go_on(core, |_| started)
        }
        // It was decided without the waker.
        (next, Some(waker)) => call_waker(core, next, waker),
        (next, None) => next,
    }
}

/// User code has been run: the worker was busy with that, and goes on. `back` is the start of its
/// section.
#[cold]
fn go_on<R: Runner>(
    core: &Arc<Core<R>>,
    back: impl FnOnce(&mut State<R::Job>) -> bool,
) -> Next<R::Job> {
    let (next, reserved) = resume(core, back);
    start_if_reserved(core, next, reserved)
}

/// A worker without a task goes on, and whether a start is reserved. `back` counts it as busy, and
/// says whether another worker may be started: not if a thread was refused on the way.
fn resume<R: Runner>(
    core: &Arc<Core<R>>,
    back: impl FnOnce(&mut State<R::Job>) -> bool,
) -> (Next<R::Job>, bool) {
    let mut effects = Effects::new();
    let next = decide(core, core.state.lock(), &mut effects, |state, effects| {
        let may_start = back(state);
        state.go(may_start, effects)
    });
    (next, effects.start)
}

/// A waker that no section knew of as the task ended: a future registered it after the task had left
/// its value and before the handle showed the end, or a group's owner waits by one. It is called by a
/// worker that is busy with nothing else.
#[cold]
fn call_waker<R: Runner>(core: &Arc<Core<R>>, next: Next<R::Job>, waker: Waker) -> Next<R::Job> {
    // Step W9.
    let mut effects = Effects::new();
    core.state
        .section(|state| state.put_off(next, &mut effects));
    core.wake_threads(&mut effects);
    let started = core.start_if_reserved(effects.start);
    wake(waker);
    go_on(core, |_| started)
}

/// Step W3: sleeps until notified of work (the notifier has counted this worker as searching) or
/// retired (as leaving).
fn park<R: Runner>(core: &Arc<Core<R>>, cell: &Arc<WorkerCell>, rest: &Rest) -> WakeReason {
    let until = rest.since.and_then(|since| core.config.keep_until(since));
    let mut timed = rest.timed;
    loop {
        let expired = match until.filter(|_| timed) {
            None => {
                cell.parker.park();
                false
            }
            Some(when) => !core.clock().park_until(&cell.parker, when),
        };
        let now = expired.then(|| core.clock().now());
        // Step W4.
        let reason = core.section(|state, effects| {
            if let Some(now) = now
                && let Some(limit) = core.config.stale_since(now)
            {
                state.expire(limit, effects);
            }
            match cell.wake_reason() {
                // Retiring is a request: work may have come since.
                WakeReason::Retire if state.recall(effects) => {
                    cell.set_wake_reason(WakeReason::Work);
                    WakeReason::Work
                }
                // Its time was up, but the pool keeps as many as these: no time-out any more. Or
                // there are more than are kept now: a time-out again.
                WakeReason::Parked => {
                    timed = state.is_timed(cell, rest.since);
                    WakeReason::Parked
                }
                WakeReason::Work => {
                    state.worker_woke();
                    WakeReason::Work
                }
                WakeReason::Retire => WakeReason::Retire,
            }
        });
        if reason != WakeReason::Parked {
            return reason;
        }
    }
}

enum Departure {
    /// There is work again.
    Stays,
    /// The worker has no place any more; these have ended before it, and are to be joined.
    Gone(Vec<JoinHandle>),
}

/// Step W10: gives the worker's place up, unless there is work it would leave behind.
fn depart<R: Runner>(core: &Arc<Core<R>>, cell: &Arc<WorkerCell>) -> Departure {
    let mut own = cell.thread.lock().take();
    loop {
        let exit = core.section(|state, effects| {
            if state.stay(effects) {
                return None;
            }
            Some(state.depart(cell, &mut own, effects))
        });
        match exit {
            None => {
                *cell.thread.lock() = own;
                return Departure::Stays;
            }
            Some(Exit::Gone(finished)) => return Departure::Gone(finished),
            Some(Exit::Join(thread)) => join(core, vec![thread]),
            Some(Exit::Wait(room)) => room.wait(),
        }
    }
}
