//! A worker's life: search, run, park, leave.

use std::sync::Arc;
use std::task::Waker;

use sync_shim::atomic::Ordering::Relaxed;
use sync_shim::thread::{JoinHandle, Tag};

use crate::after::{After, NoticeWait};
use crate::core::{Core, Guard, Runner};
use crate::ending::Exit;
use crate::foreign::drop_quietly;
use crate::handle::Home;
use crate::idle::{Call, WorkerCell};
use crate::run::{Ran, wake};
use crate::state::{Found, Next, Rest, State};
use crate::wait::Search;

/// The body of a worker's thread.
pub(crate) fn main<R: Runner>(core: Arc<Core<R>>, cell: &Arc<WorkerCell>) {
    Tag {
        family: core.family,
        depth: 0,
    }
    .set();
    // Whoever started us counts us, then lets us look.
    cell.parker.park();
    let finished = loop {
        if enter(&core) == AfterRun::Search {
            serve(&core, cell);
        }
        if let Some(hook) = &core.config.stop_hook {
            core.env.call_hook(|| hook());
        }
        if let Departure::Gone(finished) = depart(&core, cell) {
            break finished;
        }
    };
    if !finished.is_empty() {
        join(&core, finished);
    }
    // Perhaps the last reference: hooks and their captures are foreign.
    drop_quietly(core);
}

/// A worker begins. It is counted as searching; or as busy, if it has a hook to run first.
fn enter<R: Runner>(core: &Arc<Core<R>>) -> AfterRun {
    let Some(hook) = &core.config.start_hook else {
        return AfterRun::Search;
    };
    core.env.call_hook(|| hook());
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
    let mut after = After::new();
    let mut guard = core.state.lock();
    guard.joined(count, &mut after);
    drop(guard);
    core.perform(&mut after);
}

/// Runs tasks until the worker is to leave. It arrives counted as searching, and returns counted
/// as leaving.
fn serve<R: Runner>(core: &Arc<Core<R>>, cell: &Arc<WorkerCell>) {
    let timed = core.config.keep_alive.is_some();
    let mut search = Search::default();
    loop {
        let now = timed.then(|| core.clock().now());
        let mut after = After::new();
        let mut guard = core.state.lock();
        core.work.store(false, Relaxed); // A hint; the lock is held and we look ourselves.
        let found = guard.find(cell, now, &mut after);
        let garbage = matches!(found, Found::Park(_)).then(|| guard.trim());
        drop(guard);
        drop(garbage);
        core.pay(&mut after);
        let called = match found {
            Found::Park(rest) => search.watch(|| park(core, cell, &rest)),
            Found::Next(next) => match run_until_idle(core, start_owed(core, next, after.start)) {
                AfterRun::Search => {
                    search.look(|| core.work.load(Relaxed));
                    Call::Work
                }
                AfterRun::Leave => Call::Retire,
            },
        };
        if called == Call::Retire {
            return;
        }
    }
}

#[derive(PartialEq, Eq)]
enum AfterRun {
    Search,
    Leave,
}

/// A section has decided what is `next`, and owes no user code but the gate of the thread to be
/// started, if one is `owed`. Where a gate is to be asked, it left the task to others (`CallOut`).
fn start_owed<R: Runner>(
    core: &Arc<Core<R>>,
    mut next: Next<R::Job>,
    mut owed: bool,
) -> Next<R::Job> {
    while let Next::CallOut = next {
        let may_start = core.start_and_search();
        (next, owed) = decide(core, |state| {
            state.searching -= 1;
            may_start
        });
    }
    core.start_owed(owed);
    next
}

/// Does what is next, as long as there is a next.
fn run_until_idle<R: Runner>(core: &Arc<Core<R>>, mut next: Next<R::Job>) -> AfterRun {
    loop {
        next = match next {
            Next::Run(job) => run_while_calm(core, job),
            Next::Search => return AfterRun::Search,
            Next::Leave => return AfterRun::Leave,
            Next::CallOut => unreachable!("user code has been run"),
        };
    }
}

/// Runs a task, and the next, until something is to be decided. That has been done then, and what
/// the last end brings with it.
fn run_while_calm<R: Runner>(core: &Arc<Core<R>>, mut job: R::Job) -> Next<R::Job> {
    loop {
        let ran = core.runner.run(job, &core.env);
        if ran.calls_out {
            return finish(core, core.state.lock(), ran);
        }
        job = match core.state.next(ran.outcome) {
            Ok(next) => next,
            Err(guard) => return finish(core, guard, ran),
        };
        // Room and figures show the end: now the handle may.
        if let Some(handle) = ran.resolve
            && let Some(waker) = handle.settle()
        {
            return call_waker(core, Next::Run(job), waker);
        }
    }
}

/// A task has ended, and what comes next has to be decided.
#[inline(never)]
fn finish<R: Runner>(core: &Arc<Core<R>>, mut guard: Guard<'_, R>, ran: Ran) -> Next<R::Job> {
    let mut after = After::new();
    let next = guard.finish(ran.outcome, ran.calls_out, &mut after);
    if matches!(next, Next::Search) {
        core.work.store(false, Relaxed); // A hint, as in `serve`.
    }
    drop(guard);
    core.pay(&mut after);
    // Room and figures show the end: now the handle may. Before what may take its time, unless
    // it may itself.
    let mut handle = ran.resolve;
    let mut waker = None;
    if !ran.calls_out {
        waker = handle.take().and_then(|handle| handle.settle());
    }
    if !ran.calls_out && !after.calls_out() && waker.is_none() {
        return start_owed(core, next, after.start);
    }
    let started = core.start_owed(after.start);
    if ran.calls_out {
        waker = handle.take().and_then(|handle| handle.settle());
    }
    let next = match (next, waker) {
        (next, None) => next,
        (Next::CallOut, Some(waker)) => {
            wake(waker);
            Next::CallOut
        }
        (next, Some(waker)) => return call_waker(core, next, waker),
    };
    if let Next::CallOut = next {
        after.call_out();
        return go_on(core, |_| started);
    }
    next
}

/// User code has been run: the worker was busy with that, and goes on. `back` is the start of its
/// section.
#[cold]
fn go_on<R: Runner>(
    core: &Arc<Core<R>>,
    back: impl FnOnce(&mut State<R::Job>) -> bool,
) -> Next<R::Job> {
    let (next, owed) = decide(core, back);
    start_owed(core, next, owed)
}

/// The section in which a worker without a task decides what comes next, and whether a start is
/// owed. `back` counts it as busy, and says whether another worker may be started: not if a thread
/// was refused on the way.
fn decide<R: Runner>(
    core: &Arc<Core<R>>,
    back: impl FnOnce(&mut State<R::Job>) -> bool,
) -> (Next<R::Job>, bool) {
    let mut after = After::new();
    let mut guard = core.state.lock();
    let may_start = back(&mut guard);
    let next = guard.go(may_start, &mut after);
    if matches!(next, Next::Search) {
        core.work.store(false, Relaxed); // A hint, as in `serve`.
    }
    drop(guard);
    core.pay(&mut after);
    (next, after.start)
}

/// A future registered its waker after the task had left its value, and before the handle was
/// told: it is called by a worker that is busy with nothing else.
#[cold]
fn call_waker<R: Runner>(core: &Arc<Core<R>>, next: Next<R::Job>, waker: Waker) -> Next<R::Job> {
    let mut after = After::new();
    let mut guard = core.state.lock();
    guard.put_off(next, &mut after);
    drop(guard);
    core.pay(&mut after);
    let started = core.start_owed(after.start);
    wake(waker);
    go_on(core, |_| started)
}

/// Sleeps until called for work (the caller has counted us as searching) or retired (as leaving).
fn park<R: Runner>(core: &Arc<Core<R>>, cell: &Arc<WorkerCell>, rest: &Rest) -> Call {
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
        let mut after = After::new();
        let mut guard = core.state.lock();
        if let Some(now) = now
            && let Some(limit) = core.config.stale_since(now)
        {
            guard.expire(limit, &mut after);
        }
        let called = match cell.call() {
            // Retiring is a request: work may have come since.
            Call::Retire if guard.recall(&mut after) => {
                cell.set_call(Call::Work);
                Call::Work
            }
            // Its time was up, but the pool keeps as many as these: no time-out any more. Or there
            // are more than are kept now: a time-out again.
            Call::Parked => {
                timed = guard.is_timed(cell, rest.since);
                Call::Parked
            }
            Call::Work => {
                guard.arrive();
                Call::Work
            }
            Call::Retire => Call::Retire,
        };
        drop(guard);
        core.perform(&mut after);
        if called != Call::Parked {
            return called;
        }
    }
}

enum Departure {
    /// There is work again.
    Stays,
    /// The worker has no place any more; these have ended before it, and are to be joined.
    Gone(Vec<JoinHandle>),
}

/// Gives the worker's place up, unless there is work it would leave behind.
fn depart<R: Runner>(core: &Arc<Core<R>>, cell: &Arc<WorkerCell>) -> Departure {
    let mut own = cell.thread.lock().take();
    loop {
        let mut after = After::new();
        let mut guard = core.state.lock();
        if guard.stay(&mut after) {
            drop(guard);
            core.perform(&mut after);
            *cell.thread.lock() = own;
            return Departure::Stays;
        }
        let exit = guard.depart(cell, &mut own, &mut after);
        let notice = matches!(exit, Exit::Wait).then(NoticeWait::new);
        if let Some(notice) = &notice {
            guard.ending.on_room.push(notice.notice());
        }
        drop(guard);
        core.perform(&mut after);
        match exit {
            Exit::Gone(finished) => return Departure::Gone(finished),
            Exit::Join(thread) => join(core, vec![thread]),
            Exit::Wait => notice.iter().for_each(NoticeWait::wait),
        }
    }
}
