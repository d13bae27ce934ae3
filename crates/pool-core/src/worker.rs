//! A worker's life: search, run, park, leave.

use std::sync::Arc;
use std::task::Waker;
use std::time::Instant;

use sync_shim::atomic::Ordering::Relaxed;
use sync_shim::thread::{JoinHandle, Tag};

use crate::after::After;
use crate::core::{Core, Guard, Runner};
use crate::foreign::drop_quietly;
use crate::handle::Home;
use crate::idle::{Call, WorkerCell};
use crate::run::{Ran, wake};
use crate::state::{Found, Next};
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
    let predecessor = loop {
        if let Some(hook) = &core.config.start_hook {
            core.env.call_hook(|| hook());
        }
        serve(&core, cell);
        if let Some(hook) = &core.config.stop_hook {
            core.env.call_hook(|| hook());
        }
        if let Departure::Gone { predecessor } = depart(&core, cell) {
            break predecessor;
        }
    };
    // Perhaps the last reference: hooks and their captures are foreign.
    drop_quietly(core);
    if let Some(thread) = predecessor {
        // A worker's body does not unwind; were it to, that is no reason for ours to.
        let _ = thread.join();
    }
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
        let keep_until = |since| core.config.keep_until(since);
        let found = guard.find(cell, now, keep_until, &mut after);
        let garbage = matches!(found, Found::Park(_)).then(|| guard.trim());
        drop(guard);
        drop(garbage);
        core.pay(&mut after);
        let started = core.start_owed(&after);
        let called = match found {
            Found::Park(until) => search.watch(|| park(core, cell, until)),
            Found::Next(next) => match run_until_idle(core, next, started) {
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

/// Does what is next, as long as there is a next.
fn run_until_idle<R: Runner>(
    core: &Arc<Core<R>>,
    mut next: Next<R::Job>,
    started: bool,
) -> AfterRun {
    if let Next::CallOut = next {
        next = go_on(core, started);
    }
    loop {
        next = match next {
            Next::Run(job) => run(core, job),
            Next::Search => return AfterRun::Search,
            Next::Leave => return AfterRun::Leave,
            Next::CallOut => unreachable!("user code has been run"),
        };
    }
}

/// Runs a task. What comes next has been decided, and everything that its end brings, is done.
#[inline]
fn run<R: Runner>(core: &Arc<Core<R>>, job: R::Job) -> Next<R::Job> {
    let ran = core.runner.run(job, &core.env);
    if ran.calls_out {
        return finish(core, core.state.lock(), ran);
    }
    let next = match core.state.next(ran.outcome) {
        Ok(next) => Next::Run(next),
        Err(guard) => return finish(core, guard, ran),
    };
    // Room and figures show the end: now the handle may.
    match ran.resolve.and_then(|handle| handle.settle()) {
        None => next,
        Some(waker) => call_waker(core, next, waker),
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
    let started = core.start_owed(&after);
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
        return go_on(core, started);
    }
    next
}

/// User code has been run. `may_start`: no thread was refused on the way.
#[cold]
fn go_on<R: Runner>(core: &Arc<Core<R>>, mut may_start: bool) -> Next<R::Job> {
    loop {
        let mut after = After::new();
        let mut guard = core.state.lock();
        let next = guard.go(may_start, &mut after);
        if matches!(next, Next::Search) {
            core.work.store(false, Relaxed); // A hint, as in `serve`.
        }
        drop(guard);
        core.pay(&mut after);
        may_start = core.start_owed(&after); // Asking the gate is all that `go` may leave owed.
        let Next::CallOut = next else { return next };
    }
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
    let started = core.start_owed(&after);
    wake(waker);
    go_on(core, started)
}

/// Sleeps until called for work (the caller has counted us as searching) or retired (as leaving).
fn park<R: Runner>(
    core: &Arc<Core<R>>,
    cell: &Arc<WorkerCell>,
    mut until: Option<Instant>,
) -> Call {
    loop {
        let expired = match until {
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
            Call::Retire if guard.recall() => {
                cell.set_call(Call::Work);
                Call::Work
            }
            // Its time was up, but the pool keeps as many as these: no time-out any more.
            Call::Parked => {
                if expired {
                    until = None;
                }
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
    /// The worker has no place any more; whoever ended before it is to be joined.
    Gone { predecessor: Option<JoinHandle> },
}

/// Gives the worker's place up, unless there is work it would leave behind.
fn depart<R: Runner>(core: &Arc<Core<R>>, cell: &Arc<WorkerCell>) -> Departure {
    let own = cell.thread.lock().take();
    let mut after = After::new();
    let mut guard = core.state.lock();
    if guard.recall() {
        drop(guard);
        *cell.thread.lock() = own;
        return Departure::Stays;
    }
    let predecessor = guard.depart(own, &mut after);
    drop(guard);
    core.perform(&mut after);
    Departure::Gone { predecessor }
}
