//! A worker's life: search, run, park, leave.

use std::mem::{self, ManuallyDrop};
use std::sync::{Arc, Weak};
use std::task::Waker;

use sync_shim::atomic::{AtomicBool, Ordering::Relaxed};
use sync_shim::thread::{JoinHandle, Tag};

use crate::engine::core::Core;
use crate::engine::runner::Runner;
use crate::engine::worker_state;
use crate::foreign::{drop_quietly, wake};
use crate::sched::effects::Effects;
use crate::sched::exits::Exit;
use crate::sched::idle::{WakeReason, WorkerCell};
use crate::sched::search::AdaptiveSpin;
use crate::sched::shared::Whole;
use crate::sched::state::{Next, Rest, State};
use crate::task::current::{self, Compensate, Worker};
use crate::task::handle::PoolRef;
use crate::task::run::TaskResult;

/// The body of a worker's thread.
pub(crate) fn main<R: Runner>(core: Arc<Core<R>>, cell: &Arc<WorkerCell>) {
    begin(&core, cell);
    if core.config.worker_wrap.is_some() {
        live_wrapped(&core, cell);
    } else {
        live(&core, cell);
    }
    // Perhaps the last reference: hooks and their captures are user code.
    drop_quietly(core);
}

/// The thread is the pool's, and waits until it is counted.
#[inline(never)]
fn begin<R: Runner>(core: &Arc<Core<R>>, cell: &Arc<WorkerCell>) {
    Tag {
        group: core.group,
        depth: 0,
    }
    .set();
    current::set_worker(Some(Arc::new(Worker {
        pool: Arc::clone(&core.context.name),
        stop: Arc::clone(&core.context.stop),
        slot: cell.slot,
        compensates: compensates(core),
        blocks: AtomicBool::new(false),
    })));
    // The starter counts the worker, then wakes it.
    cell.parker.park();
}

/// As [`live`], in what the user has put around it.
#[inline(never)]
fn live_wrapped<R: Runner>(core: &Arc<Core<R>>, cell: &Arc<WorkerCell>) {
    let mut lived = false;
    let mut life = || {
        if !lived {
            lived = true;
            live(core, cell);
        }
    };
    if let Some(wrap) = &core.config.worker_wrap {
        core.context.call_hook(|| wrap(&mut life));
    }
    life();
}

fn compensates<R: Runner>(core: &Arc<Core<R>>) -> Option<Weak<dyn Compensate>> {
    let may = core.config.max_compensation > 0;
    may.then(|| Arc::downgrade(core) as _)
}

/// From a worker's first look at the queue to its end. Does not unwind.
fn live<R: Runner>(core: &Arc<Core<R>>, cell: &Arc<WorkerCell>) {
    let finished = loop {
        serve(core, cell);
        run_exit_code(core);
        if let Departure::Gone(finished) = depart(core, cell) {
            break finished;
        }
    };
    if !finished.is_empty() {
        join(core, finished);
    }
}

/// A worker begins that has a hook to run first, or a state to make: it is counted as busy.
#[inline(never)]
fn enter<R: Runner>(core: &Arc<Core<R>>) -> Next<R::Job> {
    if let Some(hook) = &core.config.start_hook {
        core.context.call_hook(|| hook());
    }
    if let Some(states) = &core.config.worker_state {
        worker_state::enter(states, &core.context);
    }
    go_on(core, |state| {
        state.entered();
        true
    })
}

/// A worker serves no more: its state is dropped, and its stop hook is run.
#[inline(never)]
fn run_exit_code<R: Runner>(core: &Arc<Core<R>>) {
    if core.config.worker_state.is_some() {
        worker_state::leave(&core.context);
    }
    if let Some(hook) = &core.config.stop_hook {
        core.context.call_hook(|| hook());
    }
}

/// Joins threads that have ended, with nothing else to do.
#[inline(never)]
fn join<R: Runner>(core: &Arc<Core<R>>, threads: Vec<JoinHandle>) {
    let count = threads.len();
    for thread in threads {
        // A worker's body does not unwind; were it to, that is no reason for ours to.
        let _ = thread.join();
    }
    core.section(|state, effects| state.joined(count, effects));
}

/// Runs tasks until the worker is to leave. It arrives counted as searching, or as busy if it has
/// code to run first, and returns counted as leaving.
///
/// Each task begins below this frame, and an idle worker keeps the pages that its stack has ever
/// reached (`docs/decisions/idle-memory.md`). So all but the step from one task to the next has
/// frames of its own, and the places that a job passes through are as few as the compiler lets them be:
/// `tests/stack.rs` measures that.
fn serve<R: Runner>(core: &Arc<Core<R>>, cell: &Arc<WorkerCell>) {
    let timed = core.config.keep_alive.is_some();
    let mut search = AdaptiveSpin::new();
    let mut starts = core.config.has_entry_code();
    loop {
        let job = {
            let next = if mem::take(&mut starts) {
                enter(core)
            } else {
                find(core, cell, timed)
            };
            match next {
                Next::Run(job) => job,
                Next::Search => {
                    search.look(|| core.work.load(Relaxed));
                    continue;
                }
                Next::Park(rest) => {
                    let reason = park(core, cell, &rest);
                    search.woke();
                    if reason == WakeReason::Retire {
                        return;
                    }
                    continue;
                }
                Next::Leave => return,
                Next::RunUserCode => unreachable!("user code has been run"),
            }
        };
        if run_until_idle(core, job) == AfterRun::Leave {
            return;
        }
        search.look(|| core.work.load(Relaxed));
    }
}

#[derive(PartialEq, Eq)]
enum AfterRun {
    Search,
    Leave,
}

/// Runs a task, and the next, until there is none.
#[inline]
fn run_until_idle<R: Runner>(core: &Arc<Core<R>>, mut job: R::Job) -> AfterRun {
    loop {
        // Step W5.
        let mut result = core.runner.run(ManuallyDrop::new(job), &core.context);
        let next = if result.runs_user_code {
            finish(core, core.state.lock(), &mut result)
        } else {
            // Step W6; or W7, with the lock that was taken to find that out.
            let next = core.state.next(result.outcome);
            // Room and figures show the end: now the handle may.
            let mut waker = None;
            if next.is_ok() {
                waker = resolve(&mut result);
            }
            match next {
                // Not moved before: that would be one more place for it in the frame.
                Ok(next) if waker.is_none() => {
                    job = next;
                    continue;
                }
                Ok(next) => put_off(core, next, waker),
                Err(whole) => finish(core, whole, &mut result),
            }
        };
        job = match next {
            Next::Run(job) => job,
            Next::Search => return AfterRun::Search,
            Next::Leave => return AfterRun::Leave,
            Next::Park(_) | Next::RunUserCode => unreachable!("user code has been run"),
        };
    }
}

/// Steps W1, W2: a searching worker looks at the queue. A start and user code have been run then.
#[inline(never)]
fn find<R: Runner>(core: &Arc<Core<R>>, cell: &Arc<WorkerCell>, timed: bool) -> Next<R::Job> {
    let now = if timed { core.context.now() } else { None };
    let mut effects = Effects::new();
    let mut garbage = None;
    let next = core.state.lock().section(|state, inbox| {
        core.work.store(false, Relaxed); // A hint; the lock is held and we look ourselves.
        let next = state.find(cell, now, &mut effects);
        if matches!(next, Next::Park(_)) {
            garbage = Some((state.queue.trim(), inbox.trim()));
        }
        next
    });
    drop(garbage); // The lock is free.
    core.wake_threads(&mut effects);
    start_if_reserved(core, next, effects.start)
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

/// Shows a task's end to its handle, if it has one. A waker is left to the caller.
#[inline]
fn resolve(result: &mut TaskResult) -> Option<Waker> {
    match result.resolve {
        None => None,
        Some(_) => resolve_handle(result),
    }
}

/// Apart: most tasks have no handle.
#[inline(never)]
fn resolve_handle(result: &mut TaskResult) -> Option<Waker> {
    let handle = result.resolve.take();
    handle.and_then(|handle| handle.resolve_and_take_waker())
}

/// A worker with its next task in hand, which waits until the waker has been called, if there is one.
#[cold]
#[inline(never)]
fn put_off<R: Runner>(core: &Arc<Core<R>>, job: R::Job, waker: Option<Waker>) -> Next<R::Job> {
    match waker {
        None => Next::Run(job),
        Some(waker) => call_waker(core, Next::Run(job), waker),
    }
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
    result: &mut TaskResult,
) -> Next<R::Job> {
    let mut effects = Effects::new();
    // Step W7.
    let next = decide(core, whole, &mut effects, |state, effects| {
        state.finish(result.outcome, result.runs_user_code, effects)
    });
    // Room and figures show the end: now the handle may. Before what may take its time, unless
    // it may itself.
    let waker = if result.runs_user_code {
        None
    } else {
        resolve(result)
    };
    if waker.is_none() && result.resolve.is_none() && !effects.has_user_code() {
        return start_if_reserved(core, next, effects.start);
    }
    finish_with_user_code(core, next, &mut effects, waker, result)
}

/// The rest of [`finish`], where user code is to be run.
#[cold]
#[inline(never)]
fn finish_with_user_code<R: Runner>(
    core: &Arc<Core<R>>,
    next: Next<R::Job>,
    effects: &mut Effects<R::Job>,
    waker: Option<Waker>,
    result: &mut TaskResult,
) -> Next<R::Job> {
    let started = core.start_if_reserved(effects.start);
    match (next, waker.or_else(|| resolve(result))) {
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
#[inline(never)]
fn park<R: Runner>(core: &Arc<Core<R>>, cell: &Arc<WorkerCell>, rest: &Rest) -> WakeReason {
    let mut until = rest.since.and_then(|since| core.config.keep_until(since));
    let mut timed = rest.timed;
    loop {
        let expired = match until.filter(|_| timed) {
            None => {
                cell.parker.park();
                false
            }
            Some(when) => {
                let mut woken = None;
                core.context
                    .call_hook(|| woken = Some(core.clock().park_until(&cell.parker, when)));
                if woken.is_none() {
                    until = None; // The clock has panicked: it is not asked again in this rest.
                }
                woken == Some(false)
            }
        };
        let now = if expired { core.context.now() } else { None };
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
#[inline(never)]
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
