//! Models of the timer's protocol: each names the racing parties and the harm they must not do.
//!
//! A simple twin stands in the pool's place. Every model waits for its work *before* it releases,
//! so that no closing broadcast rescues a lost wake-up, and time stands still unless a model moves
//! it, so that no time-out does.
//!
//! Run with `cargo xtask loom`.
#![cfg(anthill_loom)]
#![expect(clippy::unwrap_used, reason = "a model that fails is to panic")]

use std::collections::VecDeque;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use pool_core::JoinError;
use pool_core::internals::{ScheduledTask, TaskContext};
use scheduled_pool::internals::{
    Config, Core, Executor, Joinable, Joined, Kept, Many, Offer, Plan, QueueTicket, Waiter,
};
use scheduled_pool::{OnPanic, ResetError};
use sync_shim::atomic::{AtomicUsize, Ordering::Relaxed};
use sync_shim::model::{JoinHandle, check, spawn};
use sync_shim::{ManualClock, Mutex, Parker};

/// Due at once.
const NOW: Duration = Duration::ZERO;
/// Far beyond what any model's clock comes to.
const LATE: Duration = Duration::from_secs(3600);

/// A pool of at most one worker, reduced to what the timer knows of a pool.
#[derive(Clone)]
struct Twin(Arc<Shared>);

struct Shared {
    state: Mutex<Pool>,
    worker: Parker,
}

struct Pool {
    open: bool,
    /// Whether offers are accepted, or have to stand in the wait queue.
    room: bool,
    /// Offers to be refused for want of a thread.
    refusals: usize,
    queue: VecDeque<Arc<dyn ScheduledTask>>,
    line: Vec<(u64, Arc<dyn ScheduledTask>)>,
    next: u64,
    stopped: bool,
}

struct Ticket(Twin, u64);

impl Executor for Twin {
    type Ticket = Ticket;

    fn offer(&self, task: Arc<dyn ScheduledTask>) -> Offer<Ticket> {
        let mut pool = self.0.state.lock();
        if pool.refusals > 0 {
            pool.refusals -= 1;
            return Offer::NoThread;
        }
        if !pool.open {
            return Offer::Released;
        }
        if pool.room {
            pool.queue.push_back(task);
            drop(pool);
            self.0.worker.unpark();
            return Offer::Accepted;
        }
        let number = pool.next;
        pool.next += 1;
        pool.line.push((number, task));
        Offer::Queued(Ticket(self.clone(), number))
    }
}

impl QueueTicket for Ticket {
    fn is_returned(&self) -> bool {
        let pool = self.0.0.state.lock();
        !pool.open && pool.line.iter().any(|&(number, _)| number == self.1)
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        let mut pool = self.0.0.state.lock();
        let at = pool.line.iter().position(|&(number, _)| number == self.1);
        let left = at.map(|at| pool.line.remove(at));
        drop(pool);
        drop(left);
    }
}

impl Twin {
    fn new(room: bool) -> Self {
        Self(Arc::new(Shared {
            state: Mutex::new(Pool {
                open: true,
                room,
                refusals: 0,
                queue: VecDeque::new(),
                line: Vec::new(),
                next: 0,
                stopped: false,
            }),
            worker: Parker::new(),
        }))
    }

    /// Runs what comes until it is stopped.
    fn work(&self) {
        let env = TaskContext::bare();
        loop {
            let mut pool = self.0.state.lock();
            let Some(task) = pool.queue.pop_front() else {
                if pool.stopped {
                    return;
                }
                drop(pool);
                self.0.worker.park();
                continue;
            };
            drop(pool);
            task.run(&env).resolve();
        }
    }

    fn worker(&self) -> JoinHandle<()> {
        let twin = self.clone();
        spawn(move || twin.work())
    }

    fn stop(&self) {
        self.0.state.lock().stopped = true;
        self.0.worker.unpark();
    }

    /// Runs one scheduled task on this thread, which waits for it.
    fn run_one(&self) {
        let env = TaskContext::bare();
        loop {
            let next = self.0.state.lock().queue.pop_front();
            if let Some(task) = next {
                task.run(&env).resolve();
                return;
            }
            self.0.worker.park();
        }
    }

    /// The head of the wait queue gets room.
    fn make_room(&self) {
        let mut pool = self.0.state.lock();
        pool.room = true;
        let line = std::mem::take(&mut pool.line);
        pool.queue.extend(line.into_iter().map(|(_, task)| task));
        drop(pool);
        self.0.worker.unpark();
    }

    fn waiting(&self) -> usize {
        self.0.state.lock().line.len()
    }

    /// As a pool's release does: gives back what waits for room, then notifies the watch.
    fn release(&self, core: &Core<Self>) {
        self.0.state.lock().open = false;
        core.executor_released();
    }
}

/// Counts how often something happened. Relaxed: read after the model's own synchronization.
#[derive(Clone)]
struct Count(Arc<AtomicUsize>);

impl Count {
    fn new() -> Self {
        Self(Arc::new(AtomicUsize::new(0)))
    }

    fn up(&self) {
        self.0.fetch_add(1, Relaxed);
    }

    fn get(&self) -> usize {
        self.0.load(Relaxed)
    }
}

/// The parties of a model.
struct Rig {
    twin: Twin,
    core: Arc<Core<Twin>>,
    clock: ManualClock,
    runs: Count,
    kept: Count,
    captured: Arc<()>,
}

impl Rig {
    fn new(room: bool) -> Self {
        Self::with(room, false)
    }

    /// Whether there is room, and whether series go on after the release.
    fn with(room: bool, continue_series: bool) -> Self {
        Self::letting_go(room, continue_series, || {})
    }

    /// With user code that runs as the pool is let go.
    fn letting_go(
        room: bool,
        continue_series: bool,
        user_code: impl FnOnce() + Send + 'static,
    ) -> Self {
        let (twin, clock, kept) = (Twin::new(room), ManualClock::new(), Count::new());
        let let_go = kept.clone();
        let keep = Box::new(move |_| {
            user_code();
            let_go.up();
            Box::new(()) as Kept
        });
        let mut config = Config::default();
        config.release_policy.continue_series = continue_series;
        let core = Core::new(twin.clone(), Arc::new(clock.clone()), config, keep);
        Self {
            twin,
            core,
            clock,
            runs: Count::new(),
            kept,
            captured: Arc::new(()),
        }
    }

    /// A task that counts its runs and holds something.
    fn task(&self) -> impl FnMut() + Send + 'static {
        let (runs, captured) = (self.runs.clone(), Arc::clone(&self.captured));
        move || {
            let _ = &captured;
            runs.up();
        }
    }

    fn once(&self, delay: Duration) -> Option<Arc<dyn Joinable<()>>> {
        self.core.once(self.core.after(delay), self.task()).ok()
    }

    /// A series that begins now and rests for `delay`.
    fn series(&self, delay: Duration, runs: Option<u64>) -> Option<Arc<dyn Joinable<()>>> {
        let plan = Plan::FixedDelay {
            delay: delay.as_nanos().try_into().unwrap(),
        };
        let body = Many {
            task: self.task(),
            left: runs,
            on_panic: OnPanic::Stop,
        };
        self.core.series(self.core.after(NOW), plan, body).ok()
    }

    /// Everything has ended: the timer goes, the pool is let go once, nothing is held.
    fn end(&self) {
        self.core.release(true);
        assert!(self.core.wait_released(None));
        self.is_over();
    }

    /// The same, beside a worker, who may be the one that lets the pool go.
    fn end_beside(&self, worker: JoinHandle<()>) {
        self.core.release(true);
        assert!(self.core.wait_released(None));
        self.twin.stop();
        worker.join().unwrap();
        self.is_over();
    }

    fn is_over(&self) {
        assert_eq!(self.core.stats().unended, 0);
        assert_eq!(self.kept.get(), 1);
        assert_eq!(Arc::strong_count(&self.captured), 1);
        assert_eq!(Arc::strong_count(&self.twin.0), 2, "a ticket was kept");
    }
}

fn join<R>(handle: &Arc<dyn Joinable<R>>) -> Joined<R> {
    let parker = Parker::of_thread();
    loop {
        if let Some(joined) = handle.take_or_wait(Some(Waiter::Thread(parker.clone()))) {
            return joined;
        }
        parker.park();
    }
}

/// Cancel against fire: exactly one wins, and the captures are dropped once.
#[test]
fn a_cancel_racing_the_fire_has_one_winner() {
    check("a_cancel_racing_the_fire_has_one_winner", Some(3), || {
        let rig = Rig::new(true);
        let worker = rig.twin.worker();
        let handle = rig.once(NOW).unwrap();
        let cancelled = handle.cancel();
        if cancelled {
            assert_eq!(Arc::strong_count(&rig.captured), 1, "freed at once");
        }
        match join(&handle) {
            Ok(()) => assert!(!cancelled),
            Err(JoinError::Cancelled) => assert!(cancelled),
            Err(other) => panic!("{other:?}"),
        }
        assert_eq!(rig.runs.get(), usize::from(!cancelled));
        rig.end_beside(worker);
        assert_eq!(rig.runs.get(), usize::from(!cancelled));
    });
}

/// Cancel against the timer that puts the task into the wait queue: no place is left behind.
#[test]
fn a_cancel_racing_the_line_leaves_no_place_behind() {
    check(
        "a_cancel_racing_the_line_leaves_no_place_behind",
        Some(3),
        || {
            let rig = Rig::new(false);
            let handle = rig.once(NOW).unwrap();
            assert!(handle.cancel());
            assert!(matches!(join(&handle), Err(JoinError::Cancelled)));
            rig.end();
            assert_eq!(rig.twin.waiting(), 0);
        },
    );
}

/// Cancel against the hand-over of room: the task runs, or it is cancelled and its place is free.
#[test]
fn a_cancel_racing_the_hand_over_of_room_has_one_winner() {
    check(
        "a_cancel_racing_the_hand_over_of_room_has_one_winner",
        Some(2),
        || {
            let rig = Rig::new(false);
            let handle = rig.once(NOW).unwrap();
            let canceller = {
                let handle = Arc::clone(&handle);
                spawn(move || handle.cancel())
            };
            rig.twin.make_room();
            rig.twin.stop();
            let joined = join_or_work(&rig.twin, &handle);
            assert_eq!(canceller.join().unwrap(), joined.is_err());
            assert_eq!(rig.runs.get(), usize::from(joined.is_ok()));
            rig.end();
            assert_eq!(rig.twin.waiting(), 0);
        },
    );
}

/// Release against schedule: the task runs or is refused, never neither.
#[test]
fn a_release_racing_a_schedule_strands_no_task() {
    check(
        "a_release_racing_a_schedule_strands_no_task",
        Some(3),
        || {
            let rig = Rig::new(true);
            // The timer thread is there, and about to go.
            assert!(rig.once(LATE).unwrap().cancel());
            let task = {
                let (core, task) = (Arc::clone(&rig.core), rig.task());
                spawn(move || core.once(core.after(NOW), task).ok())
            };
            rig.core.release(true);
            let handle = task.join().unwrap();
            if let Some(handle) = &handle {
                rig.twin.run_one();
                join(handle).unwrap();
            }
            assert_eq!(rig.runs.get(), usize::from(handle.is_some()));
            rig.end();
        },
    );
}

/// An earlier schedule against the timer that goes to sleep for a later one.
#[test]
fn an_earlier_schedule_racing_the_timers_sleep_is_not_slept_over() {
    check(
        "an_earlier_schedule_racing_the_timers_sleep_is_not_slept_over",
        Some(3),
        || {
            let rig = Rig::new(true);
            let late = rig.once(LATE).unwrap();
            let early = rig.once(NOW).unwrap();
            rig.twin.run_one();
            join(&early).unwrap();
            assert!(late.cancel());
            assert_eq!(rig.runs.get(), 1);
            rig.end();
        },
    );
}

/// Two schedulers against the timer's sleep: the earlier one is not taken for covered by the
/// later one's wake-up.
#[test]
fn two_schedules_racing_the_timers_sleep_are_both_run() {
    check(
        "two_schedules_racing_the_timers_sleep_are_both_run",
        Some(2),
        || {
            let rig = Rig::new(true);
            let late = rig.once(LATE).unwrap();
            let other = {
                let (core, task) = (Arc::clone(&rig.core), rig.task());
                spawn(move || core.once(core.after(NOW), task).ok().unwrap())
            };
            let mine = rig.once(NOW).unwrap();
            rig.twin.run_one();
            rig.twin.run_one();
            join(&mine).unwrap();
            join(&other.join().unwrap()).unwrap();
            assert!(late.cancel());
            rig.end();
            assert_eq!(rig.runs.get(), 2);
        },
    );
}

/// Time that passes against the timer's sleep: the task comes, and not early.
#[test]
fn time_that_passes_racing_the_timers_sleep_brings_the_task() {
    check(
        "time_that_passes_racing_the_timers_sleep_brings_the_task",
        Some(3),
        || {
            let rig = Rig::new(true);
            let due = rig.core.after(Duration::from_nanos(5));
            let clock = rig.clock.clone();
            let time = spawn(move || clock.advance(Duration::from_nanos(5)));
            let handle = rig.core.once(due, rig.task()).ok().unwrap();
            rig.twin.run_one();
            join(&handle).unwrap();
            time.join().unwrap();
            rig.end();
        },
    );
}

/// A release of the pool elsewhere against a task on its way into the wait queue: its handle ends.
#[test]
fn a_pool_released_elsewhere_racing_a_ticket_ends_its_handle() {
    check(
        "a_pool_released_elsewhere_racing_a_ticket_ends_its_handle",
        Some(3),
        || {
            let rig = Rig::new(false);
            let handle = rig.once(NOW).unwrap();
            let releaser = {
                let (twin, core) = (rig.twin.clone(), Arc::clone(&rig.core));
                spawn(move || twin.release(&core))
            };
            assert!(matches!(join(&handle), Err(JoinError::Released)));
            releaser.join().unwrap();
            rig.end();
            assert_eq!((rig.runs.get(), rig.twin.waiting()), (0, 0));
        },
    );
}

/// The same at a pool with room: the task runs, or its handle says that it was released.
#[test]
fn a_pool_released_elsewhere_racing_a_fire_strands_no_task() {
    check(
        "a_pool_released_elsewhere_racing_a_fire_strands_no_task",
        Some(3),
        || {
            let rig = Rig::new(true);
            let worker = rig.twin.worker();
            let handle = rig.once(NOW).unwrap();
            rig.twin.release(&rig.core);
            let ran = match join(&handle) {
                Ok(()) => 1,
                Err(JoinError::Released) => 0,
                Err(other) => panic!("{other:?}"),
            };
            rig.end_beside(worker);
            assert_eq!(rig.runs.get(), ran);
        },
    );
}

/// An earlier time against the timer that goes to sleep until the old one: it is woken.
#[test]
fn a_reset_to_an_earlier_time_racing_the_timers_sleep_is_not_slept_over() {
    check(
        "a_reset_to_an_earlier_time_racing_the_timers_sleep_is_not_slept_over",
        Some(3),
        || {
            let rig = Rig::new(true);
            let worker = rig.twin.worker();
            let handle = rig.once(LATE).unwrap();
            assert_eq!(handle.reset(rig.core.after(NOW)), Ok(()));
            assert!(join(&handle).is_ok());
            rig.end_beside(worker);
        },
    );
}

/// A later time against the fire: it runs at the old time and says so, or not before the new one.
#[test]
fn a_reset_to_a_later_time_racing_the_fire_has_one_winner() {
    check(
        "a_reset_to_a_later_time_racing_the_fire_has_one_winner",
        Some(3),
        || {
            let rig = Rig::new(true);
            let worker = rig.twin.worker();
            let handle = rig.once(NOW).unwrap();
            match handle.reset(rig.core.after(LATE)) {
                Ok(()) => {
                    assert_eq!(handle.next_due(), Some(rig.core.after(LATE)));
                    assert_eq!(rig.core.stats().pending, 1);
                    assert!(handle.cancel());
                    assert_eq!(rig.runs.get(), 0);
                }
                Err(ResetError::Due | ResetError::Ended) => assert!(join(&handle).is_ok()),
                Err(other) => panic!("{other}"),
            }
            rig.end_beside(worker);
        },
    );
}

/// Another time against a cancel: what is cancelled is not said to come.
#[test]
fn a_reset_racing_a_cancel_does_not_bring_the_task_back() {
    check(
        "a_reset_racing_a_cancel_does_not_bring_the_task_back",
        Some(3),
        || {
            let rig = Rig::new(true);
            let handle = rig.once(LATE).unwrap();
            let canceller = {
                let handle = Arc::clone(&handle);
                spawn(move || assert!(handle.cancel()))
            };
            let is_gone = handle.next_due().is_none();
            let reset = handle.reset(rig.core.after(2 * LATE));
            assert!(!is_gone || reset.is_err());
            if reset.is_err() {
                assert_eq!(reset, Err(ResetError::Ended));
                assert_eq!(handle.next_due(), None);
            }
            canceller.join().unwrap();
            assert!(matches!(join(&handle), Err(JoinError::Cancelled)));
            rig.end();
        },
    );
}

/// Cancel against the end of a run: the series ends once, and its closure is dropped.
#[test]
fn a_cancel_racing_a_runs_end_ends_the_series_once() {
    check(
        "a_cancel_racing_a_runs_end_ends_the_series_once",
        Some(3),
        || {
            let rig = Rig::new(true);
            let worker = rig.twin.worker();
            let series = rig.series(LATE, None).unwrap();
            assert!(series.cancel());
            assert!(!series.cancel());
            assert!(matches!(join(&series), Err(JoinError::Cancelled)));
            assert!(rig.runs.get() <= 1);
            rig.end_beside(worker);
        },
    );
}

/// A release against the end of a run: the series ends, and the pool is let go.
#[test]
fn a_release_racing_a_runs_end_ends_the_series() {
    check(
        "a_release_racing_a_runs_end_ends_the_series",
        Some(2),
        || {
            let rig = Rig::new(true);
            let worker = rig.twin.worker();
            let series = rig.series(LATE, None).unwrap();
            rig.core.release(true);
            assert!(matches!(join(&series), Err(JoinError::Released)));
            assert!(rig.core.wait_released(None));
            rig.end_beside(worker);
        },
    );
}

/// A release of the pool elsewhere against the end of a run: the series does not go on in vain.
#[test]
fn a_pool_released_elsewhere_racing_a_runs_end_ends_the_series() {
    check(
        "a_pool_released_elsewhere_racing_a_runs_end_ends_the_series",
        Some(2),
        || {
            let rig = Rig::new(true);
            let series = rig.series(LATE, None).unwrap();
            let releaser = {
                let (twin, core) = (rig.twin.clone(), Arc::clone(&rig.core));
                spawn(move || twin.release(&core))
            };
            rig.twin.stop();
            rig.twin.work();
            let joined = join_or_work(&rig.twin, &series);
            assert!(matches!(joined, Err(JoinError::Released)));
            releaser.join().unwrap();
            rig.end();
        },
    );
}

/// The worker and the joiner in one thread: runs what there is until the handle has ended.
fn join_or_work<R>(twin: &Twin, handle: &Arc<dyn Joinable<R>>) -> Joined<R> {
    loop {
        let waiter = Some(Waiter::Thread(twin.0.worker.clone()));
        if let Some(joined) = handle.take_or_wait(waiter) {
            return joined;
        }
        twin.work();
        twin.0.worker.park();
    }
}

/// The end of a run against the timer's sleep: the next run comes.
#[test]
fn a_series_racing_the_timers_sleep_has_its_next_run() {
    check(
        "a_series_racing_the_timers_sleep_has_its_next_run",
        Some(3),
        || {
            let rig = Rig::new(true);
            let series = rig.series(NOW, Some(2)).unwrap();
            rig.twin.run_one();
            rig.twin.run_one();
            join(&series).unwrap();
            assert_eq!(rig.runs.get(), 2);
            rig.end();
        },
    );
}

/// A cancel of the last schedule of a released pool against the timer's sleep: the timer goes.
#[test]
fn a_cancel_of_the_last_schedule_racing_the_timers_sleep_ends_the_timer() {
    check(
        "a_cancel_of_the_last_schedule_racing_the_timers_sleep_ends_the_timer",
        Some(3),
        || {
            let rig = Rig::new(true);
            let handle = rig.once(LATE).unwrap();
            rig.core.release(true);
            assert!(handle.cancel());
            assert!(rig.core.wait_released(None));
            rig.end();
        },
    );
}

/// Two waits for the end against the timer's end: both return.
#[test]
fn two_waits_for_a_timers_end_both_return() {
    check("two_waits_for_a_timers_end_both_return", Some(3), || {
        let rig = Rig::new(true);
        let handle = rig.once(LATE).unwrap();
        // The timer thread is gone with its reference; the schedule with its own.
        assert!(handle.cancel());
        let gone = |core: &Arc<Core<Twin>>| {
            assert!(core.wait_released(None));
            assert!(Arc::strong_count(core) <= 3, "two waiters and the schedule");
        };
        let other = {
            let core = Arc::clone(&rig.core);
            spawn(move || gone(&core))
        };
        rig.core.release(true);
        gone(&rig.core);
        other.join().unwrap();
        rig.end();
    });
}

/// Two more waits, which come before the end: all of them are woken.
#[test]
fn three_waits_for_a_timers_end_all_return() {
    check("three_waits_for_a_timers_end_all_return", Some(2), || {
        let rig = Rig::new(true);
        let others = [(); 2].map(|()| {
            let core = Arc::clone(&rig.core);
            spawn(move || assert!(core.wait_released(None)))
        });
        rig.core.release(true);
        for other in others {
            other.join().unwrap();
        }
        rig.end();
    });
}

/// A wait for the end against the release of a pool without a timer thread: it returns.
#[test]
fn a_wait_for_the_end_racing_the_release_of_an_unused_timer_returns() {
    check(
        "a_wait_for_the_end_racing_the_release_of_an_unused_timer_returns",
        Some(3),
        || {
            let rig = Rig::new(true);
            let waiter = {
                let core = Arc::clone(&rig.core);
                spawn(move || assert!(core.wait_released(None)))
            };
            rig.core.release(true);
            waiter.join().unwrap();
            rig.end();
        },
    );
}

/// User code of the pool's release waits for a thread that waits for the end, or for a schedule that the
/// release ends: threads are woken before it runs.
#[test]
fn a_wait_racing_a_release_whose_user_code_waits_for_that_thread_returns() {
    let name = "a_wait_racing_a_release_whose_user_code_waits_for_that_thread_returns";
    check(name, Some(2), || {
        wait_beside_user_code(|rig| {
            let core = Arc::clone(&rig.core);
            Box::new(move || assert!(core.wait_released(None)))
        });
    });
}

#[test]
fn a_join_racing_a_release_whose_user_code_waits_for_that_thread_returns() {
    let name = "a_join_racing_a_release_whose_user_code_waits_for_that_thread_returns";
    check(name, Some(2), || {
        wait_beside_user_code(|rig| {
            let handle = rig.once(LATE).unwrap();
            Box::new(move || assert!(matches!(join(&handle), Err(JoinError::Released))))
        });
    });
}

fn wait_beside_user_code(wait: impl FnOnce(&Rig) -> Box<dyn FnOnce() + Send>) {
    let waiter = Arc::new(Mutex::new(None::<JoinHandle<()>>));
    let awaited = Arc::clone(&waiter);
    let rig = Rig::letting_go(true, false, move || {
        let thread = awaited.lock().take().expect("it was spawned first");
        thread.join().unwrap();
    });
    let wait = wait(&rig);
    *waiter.lock() = Some(spawn(wait));
    rig.core.release_now();
    rig.end();
}

/// A wait with a limit against the end: what it says is true.
#[test]
fn a_late_wait_racing_the_end_says_what_is_so() {
    check(
        "a_late_wait_racing_the_end_says_what_is_so",
        Some(3),
        || {
            let rig = Rig::new(true);
            let deadline = sync_shim::Clock::now(&rig.clock) + Duration::from_nanos(5);
            let clock = rig.clock.clone();
            let time = spawn(move || clock.advance(Duration::from_nanos(5)));
            let handle = rig.once(LATE).unwrap();
            rig.core.release(true);
            assert!(handle.cancel());
            // Whichever it is: no waiter is left entered, and the timer's end is not lost.
            if rig.core.wait_released(Some(deadline)) {
                assert_eq!(rig.core.stats().unended, 0, "it said so too early");
                assert!(rig.core.wait_released(Some(deadline)), "and stays so");
            } else {
                assert!(
                    sync_shim::Clock::now(&rig.clock) >= deadline,
                    "the time was not up"
                );
            }
            assert!(rig.core.wait_released(None));
            time.join().unwrap();
            rig.end();
        },
    );
}

/// A release against a task that is held for want of a thread: its handle ends, the timer goes.
#[test]
fn a_release_now_racing_a_held_task_ends_it() {
    check("a_release_now_racing_a_held_task_ends_it", Some(3), || {
        let rig = Rig::new(true);
        rig.twin.0.state.lock().refusals = usize::MAX;
        let handle = rig.once(NOW).unwrap();
        assert_eq!(rig.core.release_now(), 1);
        assert!(matches!(join(&handle), Err(JoinError::Released)));
        assert!(rig.core.wait_released(None));
        rig.end();
    });
}

/// The end of a task against a waker that is left: a poll that has to wait is woken.
#[test]
fn an_awaited_schedule_racing_its_end_is_woken() {
    check(
        "an_awaited_schedule_racing_its_end_is_woken",
        Some(2),
        || {
            let rig = Rig::new(true);
            let worker = rig.twin.worker();
            let handle = rig.once(NOW).unwrap();
            let joined = loom::future::block_on(std::future::poll_fn(|context| {
                let waiter = Some(Waiter::Task(context.waker().clone()));
                handle
                    .take_or_wait(waiter)
                    .map_or(Poll::Pending, Poll::Ready)
            }));
            joined.unwrap();
            assert_eq!(rig.runs.get(), 1);
            rig.end_beside(worker);
        },
    );
}

/// A handle that is dropped against the end of its task: the value is dropped once.
#[test]
fn a_dropped_handle_racing_the_end_drops_the_value_once() {
    check(
        "a_dropped_handle_racing_the_end_drops_the_value_once",
        Some(3),
        || {
            let rig = Rig::new(true);
            let value = Arc::clone(&rig.captured);
            let handle = rig
                .core
                .once(rig.core.after(NOW), move || value)
                .ok()
                .unwrap();
            let twin = rig.twin.clone();
            let worker = spawn(move || twin.run_one());
            handle.detach();
            worker.join().unwrap();
            rig.end();
            drop(handle); // Not what dropped the value.
        },
    );
}

/// What is done when the last waker of it is dropped.
struct OnDrop<F: Fn()>(F);

impl<F: Fn()> Drop for OnDrop<F> {
    fn drop(&mut self) {
        (self.0)();
    }
}

/// A join against the waker that it replaces, whose drop waits for another schedule: the inner
/// wait does not take the token of the outer one.
#[test]
fn a_stale_waker_that_waits_racing_the_end_strands_no_join() {
    check(
        "a_stale_waker_that_waits_racing_the_end_strands_no_join",
        Some(3),
        || {
            let rig = Rig::new(true);
            let (handle, inner) = (rig.once(LATE).unwrap(), rig.once(LATE).unwrap());
            let canceller = {
                let (handle, inner) = (Arc::clone(&handle), Arc::clone(&inner));
                spawn(move || {
                    assert!(inner.cancel());
                    assert!(handle.cancel());
                })
            };
            let waits = OnDrop(move || assert!(join(&inner).is_err()));
            let waker = testkit::waker_fn(move || _ = &waits);
            let joined = handle.take_or_wait(Some(Waiter::Task(waker)));
            // Replaces the waker, whose drop waits.
            let joined = joined.unwrap_or_else(|| join(&handle));
            assert!(matches!(joined, Err(JoinError::Cancelled)));
            canceller.join().unwrap();
            rig.end();
        },
    );
}

/// A wait for the end against the last run's end: it returns after the handle shows the end.
#[test]
fn a_wait_for_the_end_racing_the_last_run_returns_after_its_handle_was_told() {
    check(
        "a_wait_for_the_end_racing_the_last_run_returns_after_its_handle_was_told",
        Some(3),
        || {
            let rig = Rig::new(true);
            let worker = rig.twin.worker();
            let handle = rig.once(NOW).unwrap();
            rig.core.release(true);
            assert!(rig.core.wait_released(None));
            assert!(
                handle.is_ended(),
                "the end came before the handle showed it"
            );
            rig.end_beside(worker);
        },
    );
}

/// A release against the end of a run whose series would go on at a time that never comes: it ends.
#[test]
fn a_release_racing_the_end_of_a_run_without_a_next_lets_the_pool_go() {
    check(
        "a_release_racing_the_end_of_a_run_without_a_next_lets_the_pool_go",
        Some(3),
        || {
            let rig = Rig::with(true, true);
            let worker = rig.twin.worker();
            let never = Duration::from_nanos(u64::MAX);
            let series = rig.series(never, None).unwrap();
            rig.core.release(true);
            assert!(matches!(join(&series), Err(JoinError::Released)));
            rig.end_beside(worker);
        },
    );
}

/// The end of a run against the note of its place in the wait queue: its ticket is dropped.
#[test]
fn a_series_racing_its_place_in_the_line_leaves_no_ticket_behind() {
    check(
        "a_series_racing_its_place_in_the_line_leaves_no_ticket_behind",
        Some(3),
        || {
            let rig = Rig::new(false);
            let series = rig.series(NOW, Some(2)).unwrap();
            rig.twin.make_room();
            rig.twin.run_one();
            rig.twin.run_one();
            join(&series).unwrap();
            rig.end();
        },
    );
}

/// A release against the timer's sleep: what is pending still runs at its time.
#[test]
fn a_release_racing_the_timers_sleep_still_runs_what_is_pending() {
    check(
        "a_release_racing_the_timers_sleep_still_runs_what_is_pending",
        Some(3),
        || {
            let rig = Rig::new(true);
            let handle = rig.once(Duration::from_nanos(5)).unwrap();
            rig.core.release(true);
            rig.clock.advance(Duration::from_nanos(5));
            rig.twin.run_one();
            join(&handle).unwrap();
            rig.end();
        },
    );
}

/// Two takers of an outcome against the drop of the closure that it leaves: one gets it.
#[test]
fn an_outcome_taken_before_its_closure_is_dropped_is_taken_once() {
    check(
        "an_outcome_taken_before_its_closure_is_dropped_is_taken_once",
        Some(3),
        || {
            let rig = Rig::new(true);
            let handle = rig.once(LATE).unwrap();
            let canceller = {
                let handle = Arc::clone(&handle);
                spawn(move || assert!(handle.cancel()))
            };
            assert!(matches!(join(&handle), Err(JoinError::Cancelled)));
            assert!(matches!(join(&handle), Err(JoinError::Taken)));
            canceller.join().unwrap();
            assert!(matches!(join(&handle), Err(JoinError::Taken)));
            rig.end();
        },
    );
}

/// A wait whose time is up while something is left: it says so, and leaves nothing entered.
#[test]
fn a_late_wait_for_a_schedule_that_is_left_does_not_say_that_it_ended() {
    check(
        "a_late_wait_for_a_schedule_that_is_left_does_not_say_that_it_ended",
        Some(2),
        || {
            let rig = Rig::new(true);
            let deadline = sync_shim::Clock::now(&rig.clock) + Duration::from_nanos(5);
            let clock = rig.clock.clone();
            let handle = rig.once(LATE).unwrap();
            rig.core.release(true);
            let time = spawn(move || clock.advance(Duration::from_nanos(5)));
            assert!(!rig.core.wait_released(Some(deadline)));
            time.join().unwrap();
            assert!(handle.cancel());
            rig.end();
        },
    );
}
