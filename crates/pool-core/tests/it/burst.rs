//! Several tasks submitted at once while all workers sleep.

use std::io;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::sync::{Arc, Barrier};
use std::task::Waker;
use std::time::{Duration, Instant};

use pool_core::{Builder, Clock, Closures, ManualClock, Pool};
use sync_shim::{Alarm, Parker};
use testkit::Gate;

use crate::support::end;

/// A pool whose prestarted workers sleep on a clock that counts its sleepers.
fn asleep(workers: usize) -> Builder<Closures> {
    let builder = Pool::builder().capacity(workers).prestart(workers);
    builder.keep_alive(Duration::from_secs(10))
}

#[testkit::test]
fn each_task_of_a_burst_wakes_a_parked_worker() {
    const WORKERS: usize = 16;
    let clock = ManualClock::new();
    let pool = asleep(WORKERS).clock(clock.clone()).build().unwrap();
    for burst in [WORKERS, 1, 2, 3, 5, 8, WORKERS] {
        clock.wait_for_sleepers(WORKERS);
        let all_there = Arc::new(Barrier::new(burst));
        for _ in 0..burst {
            let all_there = Arc::clone(&all_there);
            pool.submit(move || _ = all_there.wait()).unwrap();
        }
        pool.wait_idle().unwrap();
    }
    assert_eq!(pool.stats().threads_started, WORKERS as u64);
    end(&pool);
}

/// A clock on which the first worker that is woken stays at a gate.
#[derive(Clone, Debug, Default)]
struct SlowToWake {
    clock: ManualClock,
    one_has_been_slow: Arc<AtomicBool>,
    held: Gate,
}

impl Clock for SlowToWake {
    fn now(&self) -> Instant {
        self.clock.now()
    }

    fn park_until(&self, parker: &Parker, when: Instant) -> bool {
        let woken = self.clock.park_until(parker, when);
        if !self.one_has_been_slow.swap(true, SeqCst) {
            self.held.wait();
        }
        woken
    }

    fn wake_at(&self, when: Instant, waker: Waker) -> io::Result<Alarm> {
        self.clock.wake_at(when, waker)
    }
}

#[testkit::test]
fn a_burst_does_not_wait_for_a_worker_that_is_slow_to_wake() {
    let clock = SlowToWake::default();
    let pool = asleep(2).clock(clock.clone()).build().unwrap();
    clock.clock.wait_for_sleepers(2);
    let first = pool.spawn(|| 1).unwrap();
    clock.held.wait_for_arrivals(1);
    // The other worker is woken for the second task, and runs the first one too.
    let second = pool.spawn(|| 2).unwrap();
    assert_eq!((first.join().unwrap(), second.join().unwrap()), (1, 2));
    assert!(!clock.held.is_open());
    clock.held.open();
    // The slow worker is awake now, so the next task needs another wake-up.
    clock.clock.wait_for_sleepers(2);
    assert_eq!(pool.spawn(|| 3).unwrap().join().unwrap(), 3);
    end(&pool);
}
