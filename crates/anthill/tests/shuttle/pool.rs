//! One pool: all submitting calls, all outcomes, and user code wherever the pool calls it.

use std::sync::{Arc, OnceLock};

use anthill::PoolExt;
use anthill::{Capacity, JoinError, ManualClock, Pool, SubmitError, WaitError, WeakPool};
use sync_shim::Mutex;
use sync_shim::model::{random_below, spawn};

use super::{InPlace, Latch, Ledger, SECOND, Ticket, block_on, join_all, poll_once, raise};

/// A capture or an untaken value that submits in its destructor.
struct SubmitsOnDrop(WeakPool, Ledger);

impl Drop for SubmitsOnDrop {
    fn drop(&mut self) {
        if let Some(pool) = self.0.upgrade() {
            drop(pool.try_submit(self.1.task()));
        }
    }
}

/// Waits in its destructor for a task that it submits. A worker runs this user code between two
/// sections, and must not be counted on for anything else.
struct WaitsOnDrop(Pool, Ledger);

impl Drop for WaitsOnDrop {
    fn drop(&mut self) {
        if let Ok(handle) = self.0.spawn(self.1.task()) {
            handle.join().unwrap();
        }
    }
}

/// The handle by which hooks and tasks reach their pool once it is built.
#[derive(Clone, Default)]
struct Here(Arc<OnceLock<WeakPool>>);

impl Here {
    fn upgrade(&self) -> Option<Pool> {
        self.0.get().and_then(WeakPool::upgrade)
    }
}

fn ends_at_rest(pool: &Pool, ledger: &Ledger) {
    pool.wait_idle().unwrap();
    pool.release();
    pool.wait_released().unwrap();
    let stats = pool.stats();
    assert_eq!(
        (stats.live, stats.busy, stats.idle, stats.waiting),
        (0, 0, 0, 0)
    );
    assert_eq!((stats.in_flight, stats.queued), (0, 0));
    assert_eq!(
        stats.submitted,
        stats.completed + stats.panicked + stats.cancelled + stats.released
    );
    ledger.is_settled();
}

/// One step of a client: one of all calls, and all outcomes of its task.
fn step(pool: &Pool, ledger: &Ledger) {
    let (weak, inner) = (pool.downgrade(), ledger.clone());
    match random_below(15) {
        0 => drop(pool.submit(ledger.task())),
        1 => drop(pool.try_submit(ledger.task())),
        2 => drop(pool.submit_timeout(ledger.task(), SECOND)),
        3 => {
            if let Ok(handle) = pool.spawn(ledger.task()) {
                ended(&handle.join());
            }
        }
        4 => {
            if let Ok(handle) = pool.spawn(ledger.task()) {
                let cancelled = handle.cancel();
                let joined = handle.join();
                assert_eq!(cancelled, matches!(joined, Err(JoinError::Cancelled)));
            }
        }
        5 => {
            let ticket = ledger.ticket();
            let task = move || {
                ticket.spend();
                raise()
            };
            let task: Box<dyn FnOnce() + Send> = Box::new(task);
            if let Ok(handle) = pool.spawn(task) {
                assert!(handle.join().is_err());
            }
        }
        6 => {
            // A task that submits another one and joins one that it spawned.
            let ticket = ledger.ticket();
            drop(pool.submit(move || {
                ticket.spend();
                let Some(pool) = weak.upgrade() else { return };
                drop(pool.submit(inner.task()));
                if let Ok(child) = pool.spawn(inner.task()) {
                    ended(&child.join());
                }
            }));
        }
        7 => {
            // A capture and a value whose destructors submit.
            let (ticket, capture) = (ledger.ticket(), SubmitsOnDrop(weak.clone(), inner.clone()));
            if let Ok(handle) = pool.spawn(move || {
                let _capture = capture;
                ticket.spend();
                SubmitsOnDrop(weak, inner)
            }) {
                drop(handle);
            }
        }
        8 => {
            if let Ok(handle) = block_on(pool.spawn_async(ledger.task())) {
                ended(&block_on(handle));
            }
        }
        9 => {
            // A submit future that is dropped after a poll.
            let mut submit = Box::pin(pool.submit_async(ledger.task()));
            drop(poll_once(&mut submit));
        }
        10 => drop(pool.submit_batch((0..3).map(|_| ledger.task()))),
        11 => {
            // A permit that is used or dropped.
            if let Ok(permit) = pool.reserve()
                && random_below(2) == 0
            {
                ended(&permit.spawn(ledger.task()).join());
            }
        }
        12 => {
            let group = pool.group();
            for _ in 0..2 {
                drop(group.spawn(ledger.task()));
            }
            let cancelled = if random_below(2) == 0 {
                group.cancel()
            } else {
                0
            };
            let took = std::iter::from_fn(|| group.next()).filter(|joined| {
                let is_cancelled = matches!(joined, Err(JoinError::Cancelled));
                if !is_cancelled {
                    ended(joined);
                }
                is_cancelled
            });
            assert_eq!(took.count(), cancelled);
        }
        13 => pool.scope(|scope| {
            scope.submit(ledger.task());
            let joined = scope.spawn(ledger.task()).join();
            assert!(joined.is_ok());
            let mut mapped = scope.map([ledger.task(), ledger.task()], |task| task());
            assert!(mapped.next().is_some_and(|result| result.is_ok()));
        }),
        _ => match pool.wait_idle_timeout(SECOND) {
            Ok(()) | Err(WaitError::TimedOut) => {}
            Err(other) => panic!("{other:?}"),
        },
    }
}

fn ended(joined: &Result<(), JoinError>) {
    assert!(matches!(joined, Ok(()) | Err(JoinError::Released)));
}

/// Three clients make random calls, a fourth thread advances time and tunes, and hooks submit too.
#[testkit::scenario]
fn clients_that_make_random_calls_lose_no_task() {
    let (clock, ledger, here) = (ManualClock::new(), Ledger::default(), Here::default());
    let mut builder = Pool::builder()
        .capacity(1 + random_below(2))
        .queue_depth(random_below(3))
        .clock(clock.clone())
        .panic_hook(|_| {})
        .keep_alive((random_below(2) == 0).then_some(SECOND));
    if random_below(2) == 0 {
        let (here, ledger) = (here.clone(), ledger.clone());
        builder = builder.start_hook(move || {
            if let Some(pool) = here.upgrade() {
                drop(pool.try_submit(ledger.task()));
            }
        });
    }
    let pool = builder.build().unwrap();
    here.0.set(pool.downgrade()).unwrap();
    let mut threads = Vec::new();
    for _ in 0..2 {
        let (pool, ledger) = (pool.clone(), ledger.clone());
        threads.push(spawn(move || (0..3).for_each(|_| step(&pool, &ledger))));
    }
    let tuner = {
        let pool = pool.clone();
        spawn(move || {
            pool.tune(1 + random_below(3)).unwrap();
            clock.advance(SECOND);
            pool.tune(1).unwrap();
            clock.advance(SECOND);
        })
    };
    (0..2).for_each(|_| step(&pool, &ledger));
    join_all(threads);
    tuner.join().unwrap();
    ends_at_rest(&pool, &ledger);
}

/// A release and a reboot while clients submit: each task runs or is returned.
#[testkit::scenario]
fn a_release_and_a_reboot_during_submits_lose_no_task() {
    let (clock, ledger) = (ManualClock::new(), Ledger::default());
    let pool = Pool::builder()
        .capacity(1 + random_below(2))
        .queue_depth(random_below(3))
        .clock(clock.clone())
        .panic_hook(|_| {})
        .keep_alive(None)
        .build()
        .unwrap();
    let mut threads = Vec::new();
    for _ in 0..2 {
        let (pool, ledger) = (pool.clone(), ledger.clone());
        threads.push(spawn(move || {
            for _ in 0..3 {
                step_until_released(&pool, &ledger);
            }
        }));
    }
    let time = spawn(move || (0..3).for_each(|_| clock.advance(SECOND)));
    if random_below(2) == 0 {
        pool.release();
    } else {
        pool.release_now();
    }
    if random_below(2) == 0 {
        assert!(pool.reboot());
    }
    join_all(threads);
    time.join().unwrap();
    ends_at_rest(&pool, &ledger);
}

/// As `step`, but a release may return any task.
fn step_until_released(pool: &Pool, ledger: &Ledger) {
    match random_below(4) {
        0 => drop(pool.submit(ledger.task())),
        1 => {
            if let Err(error) = pool.submit_timeout(ledger.task(), SECOND) {
                assert!(matches!(
                    error,
                    SubmitError::Released(_) | SubmitError::TimedOut(_)
                ));
            }
        }
        2 => {
            if let Ok(handle) = pool.spawn(ledger.task()) {
                ended(&handle.join());
            }
        }
        _ => {
            if let Ok(handle) = block_on(pool.spawn_async(ledger.task())) {
                ended(&block_on(handle));
            }
        }
    }
}

/// The waker of a joiner runs a continuation on the worker that ended the task. The continuation
/// submits, and waits for a task that it spawns.
#[testkit::scenario]
fn continuations_that_wait_in_a_waker_delay_no_task() {
    let ledger = Ledger::default();
    let pool = Pool::builder()
        .capacity(2)
        .queue_depth(2)
        .keep_alive(None)
        .build()
        .unwrap();
    let other = {
        let (pool, ledger) = (pool.clone(), ledger.clone());
        spawn(move || {
            for _ in 0..2 {
                pool.submit(ledger.task()).unwrap();
            }
        })
    };
    let over: Vec<Latch> = (0..2)
        .map(|_| {
            let handle = pool.spawn(ledger.task()).unwrap();
            let (pool, ledger) = (pool.clone(), ledger.clone());
            InPlace::start(async move {
                handle.await.unwrap();
                pool.submit(ledger.task()).unwrap();
                pool.spawn(ledger.task()).unwrap().join().unwrap();
            })
        })
        .collect();
    over.iter().for_each(Latch::wait);
    other.join().unwrap();
    ends_at_rest(&pool, &ledger);
    assert_eq!(ledger.used(), 8);
}

/// The destructor of a detached value waits for another task. Another worker runs it, or this one
/// in place.
#[testkit::scenario]
fn a_value_whose_drop_waits_for_a_task_delays_nothing_else() {
    let ledger = Ledger::default();
    let pool = Pool::builder()
        .capacity(2)
        .queue_depth(2)
        .keep_alive(None)
        .build()
        .unwrap();
    let threads = (0..2)
        .map(|_| {
            let (pool, ledger) = (pool.clone(), ledger.clone());
            spawn(move || {
                let (here, book, ticket) = (pool.clone(), ledger.clone(), ledger.ticket());
                let task = move || {
                    ticket.spend();
                    WaitsOnDrop(here, book)
                };
                drop(pool.spawn(task).map_err(|_| ()).unwrap());
                pool.submit(ledger.task()).unwrap();
            })
        })
        .collect();
    join_all(threads);
    ends_at_rest(&pool, &ledger);
    assert_eq!(ledger.used(), 6);
}

/// The user code that waits for a task of another thread.
#[derive(Clone, Copy)]
enum Seam {
    StartHook,
    DetachedValue,
    JoinersWaker,
}

/// User code on one of two workers waits for a task that a third party submits. The other worker
/// has to run it, so the first one must count as busy during any user code.
fn another_worker_runs_what_user_code_waits_for(seam: Seam) {
    let (ledger, latch) = (Ledger::default(), Latch::new());
    let mut builder = Pool::builder().capacity(2).queue_depth(4).keep_alive(None);
    if matches!(seam, Seam::StartHook) {
        let (first, latch) = (Mutex::new(true), latch.clone());
        builder = builder.start_hook(move || {
            let first = std::mem::take(&mut *first.lock());
            if first {
                latch.wait();
            }
        });
    }
    let pool = builder.build().unwrap();
    let opener = {
        let (pool, ledger, latch) = (pool.clone(), ledger.clone(), latch.clone());
        spawn(move || {
            pool.submit(ledger.task()).unwrap();
            pool.submit(move || latch.open()).unwrap();
        })
    };
    let over = match seam {
        Seam::StartHook => None,
        Seam::DetachedValue => {
            let ticket = ledger.ticket();
            let value = WaitsForLatch(latch);
            let task = move || {
                ticket.spend();
                value
            };
            drop(pool.spawn(task).map_err(|_| ()).unwrap());
            None
        }
        Seam::JoinersWaker => {
            let handle = pool.spawn(ledger.task()).unwrap();
            Some(InPlace::start(async move {
                handle.await.unwrap();
                latch.wait();
            }))
        }
    };
    pool.submit(ledger.task()).unwrap();
    opener.join().unwrap();
    over.as_ref().inspect(|over| over.wait());
    ends_at_rest(&pool, &ledger);
}

/// Waits for a latch in its destructor.
struct WaitsForLatch(Latch);

impl Drop for WaitsForLatch {
    fn drop(&mut self) {
        self.0.wait();
    }
}

#[testkit::scenario]
fn a_start_hook_that_waits_for_a_task_of_another_thread_gets_it() {
    another_worker_runs_what_user_code_waits_for(Seam::StartHook);
}

#[testkit::scenario]
fn a_value_whose_drop_waits_for_a_task_of_another_thread_gets_it() {
    another_worker_runs_what_user_code_waits_for(Seam::DetachedValue);
}

#[testkit::scenario]
fn a_continuation_that_waits_for_a_task_of_another_thread_gets_it() {
    another_worker_runs_what_user_code_waits_for(Seam::JoinersWaker);
}

/// A start hook waits for a task of its own pool.
#[testkit::scenario]
fn a_hook_that_waits_for_a_task_delays_no_other_task() {
    let (ledger, here) = (Ledger::default(), Here::default());
    let hook = {
        let (here, ledger) = (here.clone(), ledger.clone());
        move || {
            let Some(pool) = here.upgrade() else { return };
            if let Ok(handle) = pool.spawn(ledger.task()) {
                handle.join().unwrap();
            }
        }
    };
    let pool = Pool::builder()
        .capacity(2)
        .queue_depth(4)
        .keep_alive(None)
        .start_hook(hook)
        .build()
        .unwrap();
    here.0.set(pool.downgrade()).unwrap();
    let threads = (0..3)
        .map(|_| {
            let (pool, ledger) = (pool.clone(), ledger.clone());
            spawn(move || pool.submit(ledger.task()).unwrap())
        })
        .collect();
    join_all(threads);
    ends_at_rest(&pool, &ledger);
    assert_eq!(pool.capacity(), Capacity::from(2));
}

/// The last handle is dropped while tasks still run. Their captures submit in their destructors.
#[testkit::scenario]
fn dropping_the_last_handle_runs_or_returns_every_task() {
    let ledger = Ledger::default();
    let ended = Latch::new();
    let pool = Pool::builder()
        .capacity(2)
        .queue_depth(4)
        .keep_alive(None)
        .build()
        .unwrap();
    let stopped = Stopped(ended.clone());
    let threads = (0..3)
        .map(|_| {
            let (pool, ledger) = (pool.clone(), ledger.clone());
            spawn(move || {
                let capture = SubmitsOnDrop(pool.downgrade(), ledger.clone());
                let ticket: Ticket = ledger.ticket();
                drop(pool.submit(move || {
                    let _capture = capture;
                    ticket.spend();
                }));
            })
        })
        .collect();
    drop(pool.submit(move || drop(stopped)));
    drop(pool);
    ended.wait();
    join_all(threads);
    // The ends of the workers are not awaited, because no handle is left.
}

/// Opens a latch in its destructor.
struct Stopped(Latch);

impl Drop for Stopped {
    fn drop(&mut self) {
        self.0.open();
    }
}
