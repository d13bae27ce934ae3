//! Helpers shared by the tests. None of them waits for real time.

use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use pool_core::{Builder, Clock, Closures, ManualClock, Pool};
use scheduled_pool::{ScheduledPool, Series};
use testkit::Gate;

pub(crate) const SECOND: Duration = Duration::from_secs(1);
pub(crate) const TICK: Duration = Duration::from_nanos(1);
/// A second minus a nanosecond.
pub(crate) const BUT_A_TICK: Duration = Duration::from_nanos(999_999_999);

/// Yields until the condition holds. Only the watchdog limits the wait.
pub(crate) fn until(condition: impl Fn() -> bool) {
    while !condition() {
        thread::yield_now();
    }
}

pub(crate) fn secs(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

/// A pool on a manual clock, whose workers sleep without time limits.
pub(crate) fn untimed(capacity: usize, clock: &ManualClock) -> Builder<Closures> {
    Pool::builder()
        .capacity(capacity)
        .keep_alive(None)
        .clock(clock.clone())
}

/// A scheduled pool on a manual clock. Only its timer thread sleeps on the clock.
pub(crate) struct Rig {
    pub(crate) clock: ManualClock,
    pub(crate) pool: Pool,
    pub(crate) scheduled: ScheduledPool,
    pub(crate) start: Instant,
}

impl Rig {
    pub(crate) fn new(capacity: usize) -> Self {
        let clock = ManualClock::new();
        let pool = untimed(capacity, &clock).build().unwrap();
        Self::over(pool, clock)
    }

    pub(crate) fn over(pool: Pool, clock: ManualClock) -> Self {
        Self::of(ScheduledPool::new(pool), clock)
    }

    pub(crate) fn of(scheduled: ScheduledPool, clock: ManualClock) -> Self {
        Self {
            start: clock.now(),
            pool: scheduled.pool().clone(),
            scheduled,
            clock,
        }
    }

    /// The time since the start.
    pub(crate) fn elapsed(&self) -> Duration {
        self.clock.now() - self.start
    }

    /// Stamps of times since the start.
    pub(crate) fn stamps(&self) -> Stamps {
        Stamps {
            clock: self.clock.clone(),
            start: self.start,
            log: Arc::new(Mutex::new(Vec::new())),
        }
    }

    /// Waits until the timer thread sleeps until the time `since_start`.
    pub(crate) fn sleeps_until(&self, since_start: Duration) {
        let when = self.start + since_start;
        until(|| self.clock.next_due() == Some(when));
    }

    /// Advances the clock second by second, and waits after each for the run of a series with a
    /// period of a second.
    pub(crate) fn walk(&self, seconds: u64, runs: impl Fn() -> u64) {
        for _ in 0..seconds {
            let before = runs();
            self.clock.advance(SECOND);
            until(|| runs() > before);
        }
    }

    /// Releases the pools, and checks that every schedule and thread has ended.
    pub(crate) fn end(&self) {
        self.scheduled.release();
        self.scheduled.wait_released().unwrap();
        let stats = self.scheduled.stats();
        assert_eq!((stats.pending, stats.unended), (0, 0));
        let ended = stats.ended + stats.cancelled + stats.released;
        assert_eq!(stats.scheduled, ended);
        assert_eq!(self.pool.running(), 0);
    }
}

/// Times in seconds and nanoseconds since the start.
#[derive(Clone)]
pub(crate) struct Stamps {
    clock: ManualClock,
    start: Instant,
    log: Arc<Mutex<Vec<Duration>>>,
}

impl Stamps {
    pub(crate) fn stamp(&self) {
        let now = self.clock.now() - self.start;
        self.log.lock().unwrap().push(now);
    }

    pub(crate) fn len(&self) -> usize {
        self.log.lock().unwrap().len()
    }

    /// The times in whole seconds.
    pub(crate) fn seconds(&self) -> Vec<u64> {
        let log = self.log.lock().unwrap();
        log.iter()
            .map(|at| {
                assert_eq!(at.subsec_nanos(), 0, "{at:?}");
                at.as_secs()
            })
            .collect()
    }
}

/// A list of events in order. Clones share the list.
#[derive(Debug)]
pub(crate) struct Journal<T>(Arc<Mutex<Vec<T>>>);

impl<T: Clone + Send + 'static> Journal<T> {
    pub(crate) fn new() -> Self {
        Self(Arc::new(Mutex::new(Vec::new())))
    }

    pub(crate) fn write(&self, entry: T) {
        self.0.lock().unwrap().push(entry);
    }

    /// A task that appends an entry.
    pub(crate) fn writer(&self, entry: T) -> impl FnOnce() + Send + 'static + use<T> {
        let journal = self.clone();
        move || journal.write(entry)
    }

    pub(crate) fn entries(&self) -> Vec<T> {
        self.0.lock().unwrap().clone()
    }
}

impl<T> Clone for Journal<T> {
    fn clone(&self) -> Self {
        Self(Arc::clone(&self.0))
    }
}

/// Starts `count` tasks, each on its own worker, which wait until the gate is opened.
pub(crate) fn hold(pool: &Pool, count: usize) -> Gate {
    let gate = Gate::new();
    for _ in 0..count {
        let gate = gate.clone();
        pool.submit(move || gate.wait()).unwrap();
    }
    gate.wait_for_arrivals(count);
    gate
}

/// A gate for each run of a task.
#[derive(Clone)]
pub(crate) struct Gates(Arc<Vec<Gate>>);

impl Gates {
    pub(crate) fn new(count: usize) -> Self {
        Self(Arc::new((0..count).map(|_| Gate::new()).collect()))
    }

    /// A task whose n-th run waits at the n-th gate. Further runs do not wait.
    pub(crate) fn task<F>(&self, mut at_start: F) -> impl FnMut() + Send + 'static + use<F>
    where
        F: FnMut() + Send + 'static,
    {
        let gates = self.clone();
        let mut run = 0;
        move || {
            at_start();
            if let Some(gate) = gates.0.get(run) {
                gate.wait();
            }
            run += 1;
        }
    }

    /// Waits until run number `run` has reached its gate.
    pub(crate) fn reached(&self, run: usize) {
        self.0[run].wait_for_arrivals(1);
    }

    pub(crate) fn open(&self, run: usize) {
        self.0[run].open();
    }
}

/// A fixed rate with a period of a second.
pub(crate) fn every_second() -> Series {
    Series::at_fixed_rate(SECOND)
}
