//! The life of a worker: start, search, run, park, end.

use std::mem::{self, ManuallyDrop};
use std::sync::Arc;
use std::task::Waker;

use sync_shim::atomic::{AtomicBool, Ordering::Relaxed};
use sync_shim::thread::{JoinHandle, Tag};

use crate::engine::core::Core;
use crate::foreign::{drop_quietly, wake};
use crate::sched::effects::Effects;
use crate::sched::shared::Whole;
use crate::sched::state::{Next, Rest, State};
use crate::sched::workers::{AdaptiveSpin, Exit, WakeReason, WorkerCell};
use crate::task::current::{self, Worker};
use crate::task::erased::Task;
use crate::task::handle::PoolRef;
use crate::task::run::TaskResult;

/// The body of a worker's thread.
pub(crate) fn main(core: Arc<Core>, cell: &Arc<WorkerCell>) {
    begin(&core, cell);
    (core.installed.live)(&core, cell);
    // Perhaps the last reference to the pool: its hooks and their captures are user code, which must not unwind here.
    drop_quietly(core);
}

/// Marks the thread as the pool's and waits until the worker is counted.
#[inline(never)]
fn begin(core: &Arc<Core>, cell: &Arc<WorkerCell>) {
    Tag {
        group: core.group,
        depth: 0,
    }
    .set();
    current::set_worker(Some(Arc::new(Worker {
        pool: Arc::clone(&core.context.name),
        stop: Arc::clone(&core.context.stop),
        slot: cell.slot,
        compensates: core.compensating(),
        blocks: AtomicBool::new(false),
    })));
    // The starter counts the worker and then wakes it. Before that the worker must not take a task.
    cell.parker.park();
}

/// Like [`live`], inside the user's wrapper.
pub(crate) fn live_wrapped(core: &Arc<Core>, cell: &Arc<WorkerCell>) {
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
    // Unless the wrapper has called it: a wrapper that returns early or panics must not cost the pool a counted worker.
    life();
}

/// Runs a worker until its end. Does not unwind.
pub(crate) fn live(core: &Arc<Core>, cell: &Arc<WorkerCell>) {
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

/// Runs the start hook and creates the state of a new worker, which is counted as busy meanwhile.
#[inline(never)]
fn enter(core: &Arc<Core>) -> Next<Task> {
    if let Some(hook) = &core.config.start_hook {
        core.context.call_hook(|| hook());
    }
    if let Some(states) = &core.installed.worker_state {
        states.enter(&core.context);
    }
    let (next, reserved) = resume(core, State::entered, true);
    start_if_reserved(core, next, reserved)
}

/// Drops the worker's state and runs its stop hook.
#[inline(never)]
fn run_exit_code(core: &Arc<Core>) {
    if let Some(states) = &core.installed.worker_state {
        states.leave(&core.context);
    }
    if let Some(hook) = &core.config.stop_hook {
        core.context.call_hook(|| hook());
    }
}

/// Joins ended threads and counts them out.
#[inline(never)]
fn join(core: &Arc<Core>, threads: Vec<JoinHandle>) {
    let count = threads.len();
    for thread in threads {
        // An error is ignored: a worker's body does not unwind, and if one did, this worker would not be at fault.
        let _ = thread.join();
    }
    core.section(|state, effects| state.joined(count, effects));
}

/// Runs tasks until the worker has to leave. On entry it is counted as searching, or as busy if it runs code first; on
/// return it is counted as leaving.
///
/// Each task begins below this frame, and an idle worker keeps the stack pages that it has ever touched
/// (`docs/decisions/idle-memory.md`). So everything except the step from one task to the next has frames of its own,
/// and a job passes through as few places as the compiler allows. `tests/stack.rs` measures the frame.
fn serve(core: &Arc<Core>, cell: &Arc<WorkerCell>) {
    let timed = core.config.keep_alive.is_some();
    let mut search = AdaptiveSpin::new();
    // Relaxed, because a look in vain is followed by a check under the lock.
    let has_work = || core.work.load(Relaxed);
    // Taken on the first round only. A worker that is called back after its stop hook serves anew, and runs its hooks again.
    let mut starts = core.config.has_entry_code;
    loop {
        let job = {
            let next = if mem::take(&mut starts) {
                enter(core)
            } else {
                find(core, cell, timed, search.lingers())
            };
            match next {
                Next::Run(job) => job,
                Next::Search => {
                    search.go_on(has_work);
                    continue;
                }
                Next::Park(rest) => {
                    search.sleeps();
                    if park(core, cell, &rest) == WakeReason::Retire {
                        return;
                    }
                    search.woke(cell.parker.woken_at());
                    continue;
                }
                Next::Leave => return,
                Next::RunUserCode => unreachable!("user code has been run"),
            }
        };
        if run_until_idle(core, job) == AfterRun::Leave {
            return;
        }
        search.look(has_work);
    }
}

#[derive(PartialEq, Eq)]
enum AfterRun {
    Search,
    Leave,
}

/// Runs tasks until the queue is empty.
#[inline]
fn run_until_idle(core: &Arc<Core>, mut job: Task) -> AfterRun {
    loop {
        // Step W5.
        let mut result = Task::run(ManuallyDrop::new(job), &core.context);
        let next = if result.runs_user_code {
            finish(core, core.state.lock(), &mut result)
        } else {
            // Step W6; or W7, under the lock that was taken to find out.
            let next = core.state.next(result.outcome);
            // After the task is counted: a caller who sees the handle resolved finds its room free.
            let mut waker = None;
            if next.is_ok() {
                waker = resolve(&mut result);
            }
            match next {
                // Assigned here, because an earlier move would need another place for the job in this frame.
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

/// Steps W1 and W2: checks the queue for a searching worker, and carries out the effects.
#[inline(never)]
fn find(core: &Arc<Core>, cell: &Arc<WorkerCell>, timed: bool, lingers: bool) -> Next<Task> {
    // Before the section, because the clock is user code and must not run under the lock.
    let now = if timed { core.context.now() } else { None };
    let mut effects = Effects::new();
    let mut garbage = None;
    let next = core.state.lock().section(|state, inbox| {
        // Relaxed: only a hint. A task that is queued later sets it again, and earlier ones are found under this lock.
        core.work.store(false, Relaxed);
        let next = state.find(cell, now, lingers, &mut effects);
        if matches!(next, Next::Park(_)) {
            garbage = Some((state.queue.trim(), inbox.trim()));
        }
        next
    });
    if garbage.is_some() {
        core.state.trim_lanes();
    }
    drop(garbage); // After the section, because freeing memory takes time.
    // Before a thread start, which takes longer than waking a parked worker.
    core.wake_threads(&mut effects);
    start_if_reserved(core, next, effects.start)
}

/// Starts a worker if the section has `reserved` a start. Its only user code is the thread gate; if there is one, the
/// section left the task to other workers (`RunUserCode`).
#[inline]
fn start_if_reserved(core: &Arc<Core>, next: Next<Task>, reserved: bool) -> Next<Task> {
    if reserved {
        return start_reserved(core, next);
    }
    next
}

#[cold]
fn start_reserved(core: &Arc<Core>, mut next: Next<Task>) -> Next<Task> {
    let mut reserved = true;
    while let Next::RunUserCode = next {
        // With no task in hand, because the gate is user code and may take its time.
        let may_start = core.start_and_search();
        (next, reserved) = resume(core, |state| state.searching -= 1, may_start);
    }
    core.start_if_reserved(reserved);
    next
}

/// Resolves a task's handle, if it has one. The caller must call the returned waker.
#[inline]
fn resolve(result: &mut TaskResult) -> Option<Waker> {
    match result.resolve {
        None => None,
        Some(_) => resolve_handle(result),
    }
}

// A function of its own, because most tasks have no handle.
#[inline(never)]
fn resolve_handle(result: &mut TaskResult) -> Option<Waker> {
    let handle = result.resolve.take();
    handle.and_then(|handle| handle.resolve_and_take_waker())
}

/// Calls the waker, if there is one, before the worker runs its next task.
#[cold]
#[inline(never)]
fn put_off(core: &Arc<Core>, job: Task, waker: Option<Waker>) -> Next<Task> {
    match waker {
        None => Next::Run(job),
        Some(waker) => call_waker(core, Next::Run(job), waker),
    }
}

/// Runs the section in which a busy worker finds its next step, and wakes threads. The caller starts the reserved
/// worker and runs the user code.
#[inline]
fn decide(
    core: &Arc<Core>,
    mut whole: Whole<'_, Task>,
    effects: &mut Effects<Task>,
    change: impl FnOnce(&mut State<Task>, &mut Effects<Task>) -> Next<Task>,
) -> Next<Task> {
    let next = change(whole.state_mut(), effects);
    if matches!(next, Next::Search) {
        core.work.store(false, Relaxed); // Relaxed, as in `find`.
    }
    whole.unlock();
    core.wake_threads(effects);
    next
}

/// Ends a task whose worker's next step has to be decided.
#[inline(never)]
fn finish(core: &Arc<Core>, whole: Whole<'_, Task>, result: &mut TaskResult) -> Next<Task> {
    let mut effects = Effects::new();
    // Step W7.
    let next = decide(core, whole, &mut effects, |state, effects| {
        state.finish(result.outcome, result.runs_user_code, effects)
    });
    // After the task is counted, as in `run_until_idle`; before a start and other wakers, which may take their time,
    // unless the handle's waker itself may.
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

/// The part of [`finish`] that runs user code.
#[cold]
#[inline(never)]
fn finish_with_user_code(
    core: &Arc<Core>,
    next: Next<Task>,
    effects: &mut Effects<Task>,
    waker: Option<Waker>,
    result: &mut TaskResult,
) -> Next<Task> {
    // Before user code, so that queued tasks need not wait for it.
    let started = core.start_if_reserved(effects.start);
    match (next, waker.or_else(|| resolve(result))) {
        (Next::RunUserCode, waker) => {
            // Step W8.
            waker.into_iter().for_each(wake);
            effects.run_user_code();
            go_on(core, started)
        }
        // The next step was decided before the waker was known, so it has to be undone.
        (next, Some(waker)) => call_waker(core, next, waker),
        (next, None) => next,
    }
}

/// Continues after user code, during which the worker was counted as busy.
#[cold]
fn go_on(core: &Arc<Core>, may_start: bool) -> Next<Task> {
    let (next, reserved) = resume(core, |_| {}, may_start);
    start_if_reserved(core, next, reserved)
}

/// Finds the next step of a worker without a task, and whether a start is reserved. `back` counts the worker as busy.
/// Another one may not be started after the system has refused one.
fn resume(core: &Arc<Core>, back: fn(&mut State<Task>), may_start: bool) -> (Next<Task>, bool) {
    let mut effects = Effects::new();
    let next = decide(core, core.state.lock(), &mut effects, |state, effects| {
        back(state);
        state.go(may_start, effects)
    });
    (next, effects.start)
}

/// Calls a waker that no section knew of when the task ended. A future registered it after the task had left its value
/// and before the handle was resolved, or it belongs to the owner of a group. The worker is counted as busy meanwhile.
#[cold]
fn call_waker(core: &Arc<Core>, next: Next<Task>, waker: Waker) -> Next<Task> {
    // Step W9: the waker may take its time, so the worker's task must be left to others first.
    let mut effects = Effects::new();
    core.state
        .section(|state| state.put_off(next, &mut effects));
    core.wake_threads(&mut effects);
    let started = core.start_if_reserved(effects.start);
    // Last, since other workers have been given this worker's task by now.
    wake(waker);
    go_on(core, started)
}

/// Step W3: sleeps until notified of work or retired. The notifying section has counted this worker as searching or leaving.
#[inline(never)]
fn park(core: &Arc<Core>, cell: &Arc<WorkerCell>, rest: &Rest) -> WakeReason {
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
                    until = None; // The clock has panicked, so it is not used again during this park.
                }
                woken == Some(false)
            }
        };
        // `park_until` returns no time, so the clock is read again, before the lock is taken.
        let now = if expired { core.context.now() } else { None };
        // Step W4.
        let reason = core.section(|state, effects| {
            if let Some(now) = now
                && let Some(limit) = core.config.stale_since(now)
            {
                state.expire(limit, effects);
            }
            match cell.wake_reason() {
                // Retirement can be revoked: work may have been queued since, which must not be left behind.
                WakeReason::Retire if state.recall(effects) => {
                    cell.set_wake_reason(WakeReason::Work);
                    WakeReason::Work
                }
                // Its time is up but the pool keeps this many workers: it waits without a timeout. Or more workers than
                // are kept were live when it was woken: with a timeout again.
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
    /// Work was queued, so the worker stays.
    Stays,
    /// The worker has ended and joins these threads, which ended before it.
    Gone(Vec<JoinHandle>),
}

/// Step W10: ends the worker, unless it would leave work behind.
#[inline(never)]
fn depart(core: &Arc<Core>, cell: &Arc<WorkerCell>) -> Departure {
    // Taken out of the cell, so that the section can pass the handle on with the departing worker.
    let mut own = cell.thread.lock().take();
    loop {
        // Both questions in one section: work that is queued in between would otherwise be left behind.
        let exit = core.section(|state, effects| {
            if state.stay(effects) {
                return None;
            }
            Some(state.depart(cell, &mut own, effects))
        });
        match exit {
            None => {
                // Put back, because the worker lives on and needs its handle when it ends later.
                *cell.thread.lock() = own;
                return Departure::Stays;
            }
            Some(Exit::Gone(finished)) => return Departure::Gone(finished),
            Some(Exit::Join(thread)) => join(core, vec![thread]),
            Some(Exit::Wait(room)) => room.wait(),
        }
    }
}
