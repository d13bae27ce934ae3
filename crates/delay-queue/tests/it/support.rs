//! Shared helpers. None of them waits for a duration.

use std::future::Future;
use std::io;
use std::pin::Pin;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use delay_queue::{Alarm, Clock, DelayQueue, Expired, ManualClock, Parker, TakeError};

pub(crate) const NOW: Duration = Duration::ZERO;
pub(crate) const SECOND: Duration = Duration::from_secs(1);

/// Yields until the condition holds. Only the watchdog limits the wait.
pub(crate) fn until(condition: impl Fn() -> bool) {
    while !condition() {
        thread::yield_now();
    }
}

/// An unbounded queue, and its clock.
pub(crate) fn queue<T: Send + 'static>() -> (DelayQueue<T, ManualClock>, ManualClock) {
    let clock = ManualClock::new();
    (DelayQueue::with_clock(clock.clone()), clock)
}

pub(crate) type Taken<T> = Result<Expired<T>, TakeError>;

/// A thread that takes one entry.
pub(crate) fn taker<T: Send + 'static, C: Clock>(queue: &DelayQueue<T, C>) -> JoinHandle<Taken<T>> {
    let queue = queue.clone();
    thread::spawn(move || queue.take())
}

/// Waits until this many takers wait.
pub(crate) fn wait_asleep<T: Send + 'static, C: Clock>(queue: &DelayQueue<T, C>, count: usize) {
    until(|| queue.stats().waiting_takers == count);
}

pub(crate) fn poll_with<F: Future + Unpin>(future: &mut F, waker: &Waker) -> Poll<F::Output> {
    Pin::new(future).poll(&mut Context::from_waker(waker))
}

/// Polls with a waker that does nothing.
pub(crate) fn poll<F: Future + Unpin>(future: &mut F) -> Poll<F::Output> {
    poll_with(future, Waker::noop())
}

/// Returns the number of ready futures.
pub(crate) fn count_ready<F: Future + Unpin>(futures: &mut [F]) -> usize {
    let polled = futures.iter_mut().map(|future| poll(future).is_ready());
    polled.filter(|&is_ready| is_ready).count()
}

/// Takes all values that `queue` yields without waiting.
pub(crate) fn drain<T: Send + 'static, C: Clock>(queue: &DelayQueue<T, C>) -> Vec<T> {
    let ready = queue.drain_ready(usize::MAX);
    ready.into_iter().map(|expired| expired.value).collect()
}

/// A manual clock that records its calls and whose alarms can be made to fail.
#[derive(Clone, Debug)]
pub(crate) struct Witness(Arc<Seen>);

#[derive(Debug)]
pub(crate) struct Seen {
    pub(crate) clock: ManualClock,
    start: Instant,
    looks: AtomicUsize,
    parks: Mutex<Vec<Duration>>,
    alarms: Mutex<Vec<Duration>>,
    fails: AtomicBool,
    hasty: AtomicUsize,
    wakers: Mutex<Vec<Waker>>,
}

impl Witness {
    pub(crate) fn new() -> Self {
        let clock = ManualClock::new();
        Self(Arc::new(Seen {
            start: clock.now(),
            clock,
            looks: AtomicUsize::new(0),
            parks: Mutex::new(Vec::new()),
            alarms: Mutex::new(Vec::new()),
            fails: AtomicBool::new(false),
            hasty: AtomicUsize::new(0),
            wakers: Mutex::new(Vec::new()),
        }))
    }

    pub(crate) fn queue<T: Send + 'static>() -> (DelayQueue<T, Self>, Self) {
        let clock = Self::new();
        (DelayQueue::with_clock(clock.clone()), clock)
    }

    /// Returns the number of readings since the last call.
    pub(crate) fn looks(&self) -> usize {
        self.0.looks.swap(0, SeqCst)
    }

    /// Returns the times until which threads have slept, since the clock's start.
    pub(crate) fn parks(&self) -> Vec<Duration> {
        self.0.parks.lock().unwrap().clone()
    }

    /// Returns the times for which alarms were set, since the clock's start.
    pub(crate) fn alarms(&self) -> Vec<Duration> {
        self.0.alarms.lock().unwrap().clone()
    }

    /// Sets whether alarms fail from now on.
    pub(crate) fn fail(&self, fails: bool) {
        self.0.fails.store(fails, SeqCst);
    }

    /// Makes the next `count` alarms ring while they are set, and never again.
    pub(crate) fn ring_at_once(&self, alarms: usize) {
        self.0.hasty.store(alarms, SeqCst);
    }

    /// Rings all alarms that were ever set, due or not.
    pub(crate) fn ring_all(&self) {
        let wakers = self.0.wakers.lock().unwrap().clone();
        wakers.into_iter().for_each(Waker::wake);
    }

    pub(crate) fn start(&self) -> Instant {
        self.0.start
    }
}

impl std::ops::Deref for Witness {
    type Target = ManualClock;
    fn deref(&self) -> &ManualClock {
        &self.0.clock
    }
}

impl Clock for Witness {
    fn now(&self) -> Instant {
        self.0.looks.fetch_add(1, SeqCst);
        self.0.clock.now()
    }

    fn park_until(&self, parker: &Parker, when: Instant) -> bool {
        self.0.parks.lock().unwrap().push(when - self.0.start);
        self.0.clock.park_until(parker, when)
    }

    fn wake_at(&self, when: Instant, waker: Waker) -> io::Result<Alarm> {
        self.0.alarms.lock().unwrap().push(when - self.0.start);
        if self.0.fails.load(SeqCst) {
            return Err(io::Error::other("no alarm today"));
        }
        if self.0.hasty.load(SeqCst) > 0 {
            self.0.hasty.fetch_sub(1, SeqCst);
            waker.wake();
            return Ok(Alarm::new(()));
        }
        self.0.wakers.lock().unwrap().push(waker.clone());
        self.0.clock.wake_at(when, waker)
    }
}
