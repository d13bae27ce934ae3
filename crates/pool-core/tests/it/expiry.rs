//! Expiry: idle workers end after the keep-alive, and core workers do not wake up for it.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::task::Waker;
use std::thread;
use std::time::{Duration, Instant};

use pool_core::{Builder, Clock, Closures, ManualClock, MonotonicClock, Pool};
use sync_shim::{Alarm, Parker};
use testkit::Gate;

use crate::support::{end, hold, until};

const SECOND: Duration = Duration::from_secs(1);

/// A pool with a keep-alive of ten seconds of a manual clock.
fn timed(capacity: usize) -> (ManualClock, Builder<Closures>) {
    let clock = ManualClock::new();
    let builder = Pool::builder().capacity(capacity).clock(clock.clone());
    (clock, builder.keep_alive(10 * SECOND))
}

/// A clock that counts the timed waits.
#[derive(Clone, Debug, Default)]
struct CountingClock {
    clock: ManualClock,
    timed_waits: Arc<AtomicUsize>,
}

impl Clock for CountingClock {
    fn now(&self) -> Instant {
        self.clock.now()
    }

    fn park_until(&self, parker: &Parker, when: Instant) -> bool {
        self.timed_waits.fetch_add(1, SeqCst);
        self.clock.park_until(parker, when)
    }

    fn wake_at(&self, when: Instant, waker: Waker) -> io::Result<Alarm> {
        self.clock.wake_at(when, waker)
    }
}

#[testkit::test]
fn a_worker_ends_after_exactly_the_keep_alive() {
    let (clock, builder) = timed(1);
    let pool = builder.build().unwrap();
    for round in 1..=3 {
        pool.spawn(|| ()).unwrap().join().unwrap();
        clock.wait_for_sleepers(1);
        clock.advance(Duration::new(9, 999_999_999));
        assert_eq!((pool.running(), clock.sleepers()), (1, 1));
        clock.advance(Duration::from_nanos(1));
        until(|| pool.running() == 0);
        let stats = pool.stats();
        assert_eq!(
            (stats.threads_started, stats.threads_retired),
            (round, round)
        );
    }
    assert_eq!((clock.sleepers(), pool.free()), (0, Some(1)));
}

#[testkit::test]
fn workers_that_parked_together_expire_together() {
    for preallocate in [false, true] {
        let (clock, builder) = timed(50);
        let pool = builder.preallocate(preallocate).build().unwrap();
        hold(&pool, 50).open();
        assert_eq!(pool.running(), 50);
        clock.wait_for_sleepers(50);
        clock.advance(10 * SECOND);
        until(|| pool.running() == 0);
        // The next task still finds a worker.
        assert_eq!(pool.spawn(|| 5).unwrap().join().unwrap(), 5);
    }
}

#[testkit::test]
fn core_workers_stay_and_are_not_woken_again() {
    let (clock, builder) = timed(5);
    let pool = builder.min_workers(2).build().unwrap();
    assert_eq!(pool.running(), 2);
    hold(&pool, 5).open();
    clock.wait_for_sleepers(5);
    clock.advance(10 * SECOND);
    until(|| pool.running() == 2 && clock.sleepers() == 0);
    clock.advance(1000 * SECOND);
    assert_eq!((pool.running(), clock.next_due()), (2, None));
    end(&pool);
    assert_eq!((pool.running(), pool.stats().threads_retired), (0, 5));
}

#[testkit::test]
fn a_pool_with_only_core_workers_sleeps_without_time_limits() {
    let clock = CountingClock::default();
    let pool = Pool::builder()
        .capacity(2)
        .min_workers(2)
        .clock(clock.clone());
    let pool = pool.keep_alive(10 * SECOND).build().unwrap();
    for _ in 0..200 {
        pool.spawn(|| ()).unwrap().join().unwrap();
    }
    end(&pool);
    assert_eq!(clock.timed_waits.load(SeqCst), 0);
    assert_eq!(pool.stats().threads_started, 2);
}

#[testkit::test]
fn without_a_keep_alive_workers_sleep_without_time_limits() {
    let clock = CountingClock::default();
    let pool = Pool::builder()
        .capacity(10)
        .keep_alive(None)
        .clock(clock.clone());
    let pool = pool.build().unwrap();
    hold(&pool, 10).open();
    pool.wait_idle().unwrap();
    until(|| pool.idle() == 10);
    clock.clock.advance(Duration::from_secs(1000 * 3600));
    assert_eq!((pool.running(), pool.free()), (10, Some(0)));
    end(&pool);
    assert_eq!(clock.timed_waits.load(SeqCst), 0);
    assert_eq!((pool.running(), pool.free()), (0, Some(10)));
}

#[testkit::test]
fn a_keep_alive_that_overflows_the_clock_is_no_time_limit() {
    let clock = CountingClock::default();
    let pool = Pool::builder()
        .capacity(2)
        .keep_alive(Duration::MAX)
        .clock(clock.clone());
    let pool = pool.build().unwrap();
    hold(&pool, 2).open();
    pool.wait_idle().unwrap();
    end(&pool);
    assert_eq!(clock.timed_waits.load(SeqCst), 0);
}

#[testkit::test]
fn a_zero_keep_alive_ends_each_worker_at_once_and_strands_no_task() {
    let pool = Pool::builder()
        .capacity(2)
        .queue_depth(2)
        .keep_alive(Duration::ZERO);
    let pool = pool.build().unwrap();
    for round in 0..3000 {
        assert_eq!(pool.spawn(move || round).unwrap().join().unwrap(), round);
    }
    until(|| pool.running() == 0);
    assert_eq!((pool.stats().completed, pool.in_flight()), (3000, 0));
}

#[testkit::test]
fn prestarted_workers_expire_unless_they_are_core_workers() {
    let (clock, builder) = timed(8);
    let pool = builder.prestart(8).min_workers(3).build().unwrap();
    assert_eq!(pool.running(), 8);
    // The last worker to park may be a core worker, which sleeps without a time limit.
    clock.wait_for_sleepers(5);
    until(|| {
        clock.advance(10 * SECOND);
        pool.running() == 3
    });
    assert_eq!(pool.stats().threads_started, 8);
}

#[testkit::test]
fn a_pool_whose_prestarted_workers_expire_at_once_can_be_built() {
    for _ in 0..20 {
        let pool = Pool::builder()
            .capacity(32)
            .prestart(32)
            .keep_alive(Duration::ZERO);
        let pool = pool.build().unwrap();
        assert_eq!(
            pool.stats().threads_started,
            32,
            "no more than were asked for"
        );
    }
}

#[testkit::test]
fn the_newest_idle_worker_is_reused_while_older_ones_expire() {
    let (clock, builder) = timed(3);
    let pool = builder.build().unwrap();
    hold(&pool, 3).open();
    clock.wait_for_sleepers(3);
    for _ in 0..3 {
        clock.advance(3 * SECOND);
        pool.spawn(|| ()).unwrap().join().unwrap();
        clock.wait_for_sleepers(3);
    }
    clock.advance(3 * SECOND);
    until(|| pool.running() == 1);
}

#[testkit::test]
fn a_preallocated_pool_uses_its_workers_in_turn_so_none_expires_under_light_load() {
    let (clock, builder) = timed(3);
    let pool = builder.preallocate(true).build().unwrap();
    hold(&pool, 3).open();
    clock.wait_for_sleepers(3);
    for _ in 0..12 {
        clock.advance(3 * SECOND);
        pool.spawn(|| ()).unwrap().join().unwrap();
        clock.wait_for_sleepers(3);
        assert_eq!(pool.running(), 3);
    }
    clock.advance(10 * SECOND);
    until(|| pool.running() == 0);
}

/// Parks two workers, one after the other, and runs a task. Returns whether the first one ran it.
fn first_parked_is_reused(preallocate: bool) -> bool {
    let (clock, builder) = timed(2);
    let pool = builder.preallocate(preallocate).build().unwrap();
    let gates = [Gate::new(), Gate::new()];
    let workers = gates.clone().map(|gate| {
        pool.try_spawn(move || {
            gate.wait();
            thread::current().id()
        })
        .unwrap()
    });
    for gate in &gates {
        gate.wait_for_arrivals(1);
    }
    for (parked, gate) in gates.iter().enumerate() {
        gate.open();
        clock.wait_for_sleepers(parked + 1);
    }
    let [first, second] = workers.map(|worker| worker.join().unwrap());
    let reused = pool
        .spawn(|| thread::current().id())
        .unwrap()
        .join()
        .unwrap();
    assert!(reused == first || reused == second);
    reused == first
}

#[testkit::test]
fn the_worker_that_parked_last_is_reused_first_or_last_under_preallocate() {
    assert!(!first_parked_is_reused(false));
    assert!(first_parked_is_reused(true));
}

#[testkit::test]
fn a_task_submitted_while_a_worker_expires_is_run() {
    let (clock, builder) = timed(1);
    let pool = builder.build().unwrap();
    for round in 0..400 {
        pool.spawn(|| ()).unwrap().join().unwrap();
        clock.wait_for_sleepers(1);
        let (mover, start) = (clock.clone(), Arc::new(std::sync::Barrier::new(2)));
        let ready = Arc::clone(&start);
        let advancing = thread::spawn(move || {
            ready.wait();
            mover.advance(10 * SECOND);
        });
        start.wait();
        assert_eq!(pool.spawn(move || round).unwrap().join().unwrap(), round);
        advancing.join().unwrap();
    }
    assert_eq!(pool.stats().completed, 800);
}

#[testkit::test]
fn a_surplus_worker_expires_while_core_workers_are_busy() {
    let (clock, builder) = timed(2);
    // The first worker has parked, as a core worker, before the second one starts.
    let calls = AtomicUsize::new(0);
    let second_is_late = move || {
        let yields = calls.fetch_add(1, SeqCst) * 10_000;
        (0..yields).for_each(|_| thread::yield_now());
        Ok(())
    };
    let builder = builder.min_workers(1).prestart(2);
    let pool = builder.thread_gate(second_is_late).build().unwrap();
    clock.wait_for_sleepers(2);
    let gate = hold(&pool, 1);
    clock.advance(10 * SECOND);
    until(|| pool.running() == 1);
    gate.open();
    pool.wait_idle().unwrap();
    clock.advance(1000 * SECOND);
    assert_eq!((pool.running(), clock.next_due()), (1, None));
    end(&pool);
}

#[testkit::test]
fn a_core_worker_gets_a_time_limit_while_a_surplus_worker_is_idle() {
    let (clock, builder) = timed(2);
    let pool = builder.min_workers(1).build().unwrap();
    for _ in 0..3 {
        hold(&pool, 2).open();
        clock.wait_for_sleepers(2);
        clock.advance(10 * SECOND);
        until(|| pool.running() == 1 && clock.sleepers() == 0);
    }
    assert_eq!(clock.next_due(), None);
    end(&pool);
}

/// The call in which the clock panics.
#[derive(Clone, Copy, Debug, PartialEq)]
enum At {
    Asked,
    BeforeSleep,
    AfterSleep,
}

#[derive(Clone, Debug)]
struct Panics {
    at: At,
    /// How often the clock was called there.
    asked: Arc<AtomicUsize>,
}

impl Panics {
    fn reach(&self, at: At) {
        if self.at == at {
            self.asked.fetch_add(1, SeqCst);
            // After a sleep, the clock has been called once before the panic.
            assert!(at == At::AfterSleep, "a clock that panics");
        }
    }
}

impl Clock for Panics {
    fn now(&self) -> Instant {
        self.reach(At::Asked);
        MonotonicClock.now()
    }

    fn park_until(&self, parker: &Parker, when: Instant) -> bool {
        self.reach(At::BeforeSleep);
        self.reach(At::AfterSleep);
        let woken = MonotonicClock.park_until(parker, when);
        assert!(self.at != At::AfterSleep, "a clock that panics");
        woken
    }

    fn wake_at(&self, when: Instant, waker: Waker) -> io::Result<Alarm> {
        MonotonicClock.wake_at(when, waker)
    }
}

#[testkit::test]
fn a_worker_whose_clock_panics_sleeps_without_a_time_limit_and_is_woken() {
    for at in [At::Asked, At::BeforeSleep, At::AfterSleep] {
        let asked = Arc::new(AtomicUsize::new(0));
        let clock = Panics {
            at,
            asked: Arc::clone(&asked),
        };
        let builder = Pool::builder().capacity(1).clock(clock);
        let pool = builder.keep_alive(3600 * SECOND).build().unwrap();
        for n in 0..3 {
            let before = asked.load(SeqCst);
            assert_eq!(pool.spawn(move || n).unwrap().join().unwrap(), n);
            until(|| asked.load(SeqCst) > before);
        }
        let stats = pool.stats();
        assert_eq!((stats.completed, stats.threads_started), (3, 1), "{at:?}");
        assert!(stats.hook_panics >= 2, "{at:?}: {}", stats.hook_panics);
        end(&pool);
    }
}
