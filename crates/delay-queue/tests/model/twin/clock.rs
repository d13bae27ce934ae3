//! A manual clock whose alarms fail or ring early on demand.

use std::io;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::task::Waker;
use std::time::{Duration, Instant};

use delay_queue::{Alarm, Clock, ManualClock, Parker};

#[derive(Clone, Debug)]
pub(crate) struct TestClock(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    clock: ManualClock,
    start: Instant,
    fails: AtomicBool,
    hasty: AtomicU32,
    wakers: Mutex<Vec<Waker>>,
}

impl TestClock {
    pub(crate) fn new() -> Self {
        let clock = ManualClock::new();
        Self(Arc::new(Inner {
            start: clock.now(),
            clock,
            fails: AtomicBool::new(false),
            hasty: AtomicU32::new(0),
            wakers: Mutex::default(),
        }))
    }

    pub(crate) fn since_start(&self) -> Duration {
        self.0.clock.now() - self.0.start
    }

    pub(crate) fn start(&self) -> Instant {
        self.0.start
    }

    pub(crate) fn advance(&self, by: Duration) {
        self.0.clock.advance(by);
    }

    /// Returns the time of the next alarm, since the start.
    pub(crate) fn next_alarm(&self) -> Option<Duration> {
        Some(self.0.clock.next_due()? - self.0.start)
    }

    pub(crate) fn fail(&self, fails: bool) {
        self.0.fails.store(fails, SeqCst);
    }

    pub(crate) fn fails(&self) -> bool {
        self.0.fails.load(SeqCst)
    }

    pub(crate) fn ring_at_once(&self, alarms: u32) {
        self.0.hasty.store(alarms, SeqCst);
    }

    pub(crate) fn ring_all(&self) {
        let wakers = std::mem::take(&mut *self.0.wakers.lock().expect("nothing panics with it"));
        wakers.into_iter().for_each(Waker::wake);
    }
}

impl Clock for TestClock {
    fn now(&self) -> Instant {
        self.0.clock.now()
    }

    fn park_until(&self, parker: &Parker, when: Instant) -> bool {
        self.0.clock.park_until(parker, when)
    }

    fn wake_at(&self, when: Instant, waker: Waker) -> io::Result<Alarm> {
        if self.fails() {
            return Err(io::Error::other("no alarm today"));
        }
        if self.0.hasty.load(SeqCst) > 0 {
            self.0.hasty.fetch_sub(1, SeqCst);
            waker.wake_by_ref();
        }
        let mut wakers = self.0.wakers.lock().expect("nothing panics with it");
        wakers.push(waker.clone());
        drop(wakers);
        self.0.clock.wake_at(when, waker)
    }
}
