//! Rounds are bounded in time, and each kind of task has its turn. Time passes only as the polls say.
#![expect(clippy::unwrap_used, reason = "a test that fails is to panic")]

use std::future::Future;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, mpsc};
use std::time::{Duration, Instant};

use async_pool::{AsyncPool, Clock, ManualClock, yield_now};
use testkit::Gate;

const POLL: Duration = Duration::from_millis(1);

fn pool(workers: usize, capacity: usize, clock: &ManualClock) -> AsyncPool {
    let pool = AsyncPool::builder().workers(workers).capacity(capacity);
    pool.clock(clock.clone()).build().unwrap()
}

/// Polls of tasks that each take the worker for [`POLL`] and yield, until they are told to stop.
#[derive(Clone)]
struct Burners {
    clock: ManualClock,
    polls: Arc<AtomicUsize>,
    stops: Arc<AtomicBool>,
}

impl Burners {
    /// Starts `tasks` on a pool of one worker, and waits until each was polled a few times.
    fn start(pool: &AsyncPool, tasks: usize, clock: &ManualClock) -> Self {
        let burners = Self {
            clock: clock.clone(),
            polls: Arc::default(),
            stops: Arc::default(),
        };
        for _ in 0..tasks {
            let own = burners.clone();
            pool.submit(async move {
                while !own.stops.load(SeqCst) {
                    own.clock.advance(POLL);
                    own.polls.fetch_add(1, SeqCst);
                    yield_now().await;
                }
            })
            .unwrap();
        }
        while burners.polls() < 5 * tasks {
            std::thread::yield_now();
        }
        burners
    }

    fn polls(&self) -> usize {
        self.polls.load(SeqCst)
    }

    /// Stops the tasks, and waits for the end of all tasks of the pool.
    fn end(&self, pool: &AsyncPool) {
        self.stops.store(true, SeqCst);
        pool.wait_idle().unwrap();
    }
}

/// Runs `test` in a task that is polled between those of the burners, so that they stand still meanwhile.
fn between_polls<T: Send + 'static>(
    pool: &AsyncPool,
    test: impl FnOnce() -> T + Send + 'static,
) -> T {
    pool.spawn(async move { test() }).unwrap().join().unwrap()
}

#[testkit::test]
fn a_new_task_waits_for_one_long_poll() {
    let clock = ManualClock::new();
    let pool = pool(1, 1_000, &clock);
    let burners = Burners::start(&pool, 100, &clock);
    for _ in 0..20 {
        let (other, counts) = (pool.clone(), burners.clone());
        let (before, task) = between_polls(&pool, move || {
            let before = counts.polls();
            (before, other.try_spawn(async move { counts.polls() }))
        });
        let waited = task.unwrap().join().unwrap() - before;
        assert!(waited <= 2, "{waited} polls");
    }
    burners.end(&pool);
}

#[testkit::test]
fn a_task_of_another_thread_waits_for_one_long_poll_of_its_worker() {
    let clock = ManualClock::new();
    let pool = pool(1, 1_000, &clock);
    let burners = Burners::start(&pool, 100, &clock);
    for _ in 0..20 {
        let (gate, held) = (Gate::new(), Gate::new());
        let (opens, holds) = (gate.clone(), held.clone());
        let blocks = pool.spawn(async move {
            opens.wait();
            holds.wait();
        });
        gate.wait_for_arrivals(1);
        gate.open();
        // The worker is in that poll.
        let (before, counts) = (burners.polls(), burners.clone());
        let task = pool.spawn(async move { counts.polls() }).unwrap();
        held.open();
        let waited = task.join().unwrap() - before;
        assert!(waited <= 2, "{waited} polls");
        blocks.unwrap().join().unwrap();
    }
    burners.end(&pool);
}

#[testkit::test]
fn due_timers_wait_for_one_long_poll() {
    let clock = ManualClock::new();
    let pool = pool(1, 1_000, &clock);
    let burners = Burners::start(&pool, 100, &clock);
    let sleepers: Vec<_> = (0..50)
        .map(|n| {
            let clock = clock.clone();
            let nap = Duration::from_millis(10 + n);
            pool.spawn(async move {
                let due = clock.now() + nap;
                async_pool::sleep_until(due).await;
                clock.now().saturating_duration_since(due)
            })
            .unwrap()
        })
        .collect();
    for sleeper in sleepers {
        let late = sleeper.join().unwrap();
        assert!(late <= 3 * POLL, "{late:?}");
    }
    burners.end(&pool);
}

/// Submits two tasks that do the same, until enough have been submitted.
fn flood(pool: AsyncPool, left: Arc<AtomicUsize>) -> Pin<Box<dyn Future<Output = ()> + Send>> {
    Box::pin(async move {
        for _ in 0..2 {
            if left.fetch_sub(1, SeqCst) > 1 {
                pool.submit(flood(pool.clone(), Arc::clone(&left))).unwrap();
            } else {
                left.fetch_add(1, SeqCst);
            }
        }
    })
}

#[testkit::test]
fn tasks_that_yield_have_their_turn_next_to_a_flood_of_new_ones() {
    let clock = ManualClock::new();
    let pool = pool(1, 1_000_000, &clock);
    let (inner, turns) = (pool.clone(), Arc::new(AtomicUsize::new(0)));
    let counts = Arc::clone(&turns);
    let yields = pool.spawn(async move {
        for _ in 0..100 {
            counts.fetch_add(1, SeqCst);
            yield_now().await;
        }
    });
    let left = Arc::new(AtomicUsize::new(200_000));
    inner
        .submit(flood(inner.clone(), Arc::clone(&left)))
        .unwrap();
    yields.unwrap().join().unwrap();
    assert_eq!(turns.load(SeqCst), 100);
    assert!(left.load(SeqCst) > 1, "the flood had not ended");
    pool.wait_idle().unwrap();
}

/// Fills a pool with `burning` tasks that burn and `quick` ones that end together. Returns the number of polls that burn
/// from the first end until the task of a caller that waits for room has started: the most of several rounds.
fn wait_for_room(burning: usize, quick: usize) -> usize {
    let clock = ManualClock::new();
    let pool = pool(1, burning + quick, &clock);
    let burners = Burners::start(&pool, burning, &clock);
    let rounds = (0..20).map(|_| {
        let ends = Arc::new(AtomicBool::new(false));
        let first = Arc::new(AtomicUsize::new(usize::MAX));
        for _ in 0..quick {
            let (ends, first, counts) = (Arc::clone(&ends), Arc::clone(&first), burners.clone());
            let yields = async move {
                while !ends.load(SeqCst) {
                    yield_now().await;
                }
                first.fetch_min(counts.polls(), SeqCst);
            };
            pool.submit(yields).unwrap();
        }
        let (other, counts) = (pool.clone(), burners.clone());
        let waits = std::thread::spawn(move || {
            let task = other.spawn(async move { counts.polls() }).unwrap();
            task.join().unwrap()
        });
        while pool.stats().waiting == 0 {
            std::thread::yield_now();
        }
        ends.store(true, SeqCst);
        waits.join().unwrap() - first.load(SeqCst)
    });
    let most = rounds.max().unwrap();
    burners.end(&pool);
    most
}

#[testkit::test]
fn a_waiting_caller_gets_room_after_at_most_one_long_poll() {
    let waited = wait_for_room(100, 1);
    assert!(waited <= 2, "{waited} polls");
}

#[testkit::test]
fn a_caller_that_waits_for_room_gets_it_after_one_long_poll_even_after_short_ones() {
    // So many short polls that the worker rarely looks at the clock.
    let waited = wait_for_room(80, 20);
    assert!(waited <= 2, "{waited} polls");
}

/// Occupies both workers, one of them with a poll that does not return, and the other one with short polls that move the
/// clock. Returns the sender that ends the first.
fn stuck_and_busy(pool: &AsyncPool, clock: &ManualClock) -> (mpsc::Sender<()>, Burners) {
    let (release, held) = mpsc::channel::<()>();
    let stuck = Gate::new();
    let arrives = stuck.clone();
    pool.submit(async move {
        arrives.wait();
        _ = held.recv();
    })
    .unwrap();
    stuck.wait_for_arrivals(1);
    let burners = Burners {
        clock: clock.clone(),
        polls: Arc::default(),
        stops: Arc::default(),
    };
    let own = burners.clone();
    pool.submit(async move {
        while !own.stops.load(SeqCst) {
            own.clock.advance(POLL / 10);
            own.polls.fetch_add(1, SeqCst);
            yield_now().await;
        }
    })
    .unwrap();
    while burners.polls() < 10 {
        std::thread::yield_now();
    }
    stuck.open();
    (release, burners)
}

#[testkit::test]
fn timers_of_a_stuck_worker_are_fired_by_a_busy_one() {
    let clock = ManualClock::new();
    let pool = pool(2, 1_000, &clock);
    // Timers on both workers, whichever gets stuck.
    let sleepers: Vec<_> = (0..64)
        .map(|n| {
            let clock = clock.clone();
            let nap = Duration::from_millis(300 + 7 * n);
            pool.spawn(async move {
                let due = clock.now() + nap;
                async_pool::sleep_until(due).await;
                clock.now().saturating_duration_since(due)
            })
            .unwrap()
        })
        .collect();
    let (release, burners) = stuck_and_busy(&pool, &clock);
    for sleeper in sleepers {
        let late = sleeper.join().unwrap();
        assert!(late <= Duration::from_millis(15), "{late:?}");
    }
    drop(release);
    burners.end(&pool);
}

#[testkit::test]
fn tasks_behind_a_stuck_poll_are_run_by_a_busy_worker() {
    let clock = ManualClock::new();
    let pool = pool(2, 1_000, &clock);
    let (release, burners) = stuck_and_busy(&pool, &clock);
    drop(release);
    for _ in 0..10 {
        let (inner, (ran, has_run)) = (pool.clone(), mpsc::channel());
        let stuck = pool.spawn(async move {
            inner.submit(async move { ran.send(()).unwrap() }).unwrap();
            has_run.recv() // Blocks its worker.
        });
        stuck.unwrap().join().unwrap().unwrap();
    }
    burners.end(&pool);
}

#[testkit::test]
fn a_round_of_short_polls_ends_although_no_time_passes() {
    let clock = ManualClock::new();
    let pool = pool(1, 2, &clock);
    let (polls, stops) = (
        Arc::new(AtomicUsize::new(0)),
        Arc::new(AtomicBool::new(false)),
    );
    let (counts, looks) = (Arc::clone(&polls), Arc::clone(&stops));
    pool.submit(async move {
        while !looks.load(SeqCst) {
            counts.fetch_add(1, SeqCst);
            yield_now().await;
        }
    })
    .unwrap();
    for _ in 0..10 {
        let task = pool.spawn(async { 7 }).unwrap();
        assert_eq!(task.join().unwrap(), 7);
    }
    stops.store(true, SeqCst);
    pool.wait_idle().unwrap();
}

#[testkit::test]
fn a_busy_worker_reads_the_clock_after_several_short_polls() {
    /// Counts looks.
    #[derive(Clone, Debug)]
    struct Looks(ManualClock, Arc<AtomicUsize>);
    impl Clock for Looks {
        fn now(&self) -> Instant {
            self.1.fetch_add(1, SeqCst);
            self.0.now()
        }
        fn park_until(&self, parker: &async_pool::Parker, when: Instant) -> bool {
            self.0.park_until(parker, when)
        }
        fn wake_at(
            &self,
            when: Instant,
            waker: std::task::Waker,
        ) -> std::io::Result<async_pool::Alarm> {
            self.0.wake_at(when, waker)
        }
    }
    let looks = Arc::new(AtomicUsize::new(0));
    let clock = Looks(ManualClock::new(), Arc::clone(&looks));
    let pool = AsyncPool::builder()
        .workers(1)
        .clock(clock)
        .build()
        .unwrap();
    let task = pool.spawn(async {
        for _ in 0..16_000 {
            yield_now().await;
        }
    });
    task.unwrap().join().unwrap();
    let looks = looks.load(SeqCst);
    assert!((500..2_500).contains(&looks), "{looks}");
}

/// No worker is idle, so none takes tasks from another's queue, and no time passes, so none watches over the other.
#[testkit::test]
fn a_worker_takes_its_share_of_the_new_tasks_and_leaves_the_rest_to_a_busy_one() {
    const TASKS: usize = 40;
    let clock = ManualClock::new();
    let pool = pool(2, 2 * TASKS, &clock);
    let (first, second, blocks) = (Gate::new(), Gate::new(), Gate::new());
    let (stops, ended) = (
        Arc::new(AtomicBool::new(false)),
        Arc::new(AtomicUsize::new(0)),
    );
    for gate in [&first, &second] {
        let (gate, stops) = (gate.clone(), Arc::clone(&stops));
        let task = async move {
            gate.wait();
            while !stops.load(SeqCst) {
                yield_now().await;
            }
        };
        pool.submit(task).unwrap();
    }
    first.wait_for_arrivals(1);
    second.wait_for_arrivals(1);
    for n in 0..TASKS {
        let (ended, blocks) = (Arc::clone(&ended), blocks.clone());
        let task = async move {
            if n == 0 {
                blocks.wait();
            }
            ended.fetch_add(1, SeqCst);
        };
        pool.submit(task).unwrap();
    }
    first.open();
    blocks.wait_for_arrivals(1);
    second.open();
    while ended.load(SeqCst) < TASKS / 2 {
        std::thread::yield_now();
    }
    blocks.open();
    stops.store(true, SeqCst);
    pool.wait_idle().unwrap();
    assert_eq!(ended.load(SeqCst), TASKS);
}
