//! User code (wakers, clocks, errors) that calls the queue on the thread on which it runs, and
//! waits there.

use std::cell::Cell;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::task::Waker;
use std::time::Instant;

use delay_queue::{Alarm, Clock, DelayQueue, ManualClock, Parker, TakeError};
use testkit::CountingWaker;

use crate::support::{NOW, SECOND, poll, poll_with, taker, until, wait_asleep};

thread_local! {
    static DEPTH: Cell<usize> = const { Cell::new(0) };
}

/// Each alarm advances time to its own and rings before the call that sets it returns, like a timer
/// that is polled when it is made.
#[derive(Clone, Debug)]
struct Hasty {
    clock: ManualClock,
    hurries: Arc<AtomicBool>,
    deepest: Arc<AtomicUsize>,
}

impl Clock for Hasty {
    fn now(&self) -> Instant {
        self.clock.now()
    }
    fn park_until(&self, parker: &Parker, when: Instant) -> bool {
        self.clock.park_until(parker, when)
    }
    fn wake_at(&self, when: Instant, waker: Waker) -> io::Result<Alarm> {
        if !self.hurries.load(SeqCst) {
            return self.clock.wake_at(when, waker);
        }
        DEPTH.set(DEPTH.get() + 1);
        self.deepest.fetch_max(DEPTH.get(), SeqCst);
        let wait = when.saturating_duration_since(self.clock.now());
        self.clock.advance(wait);
        waker.wake();
        DEPTH.set(DEPTH.get() - 1);
        Ok(Alarm::new(()))
    }
}

/// A thousand entries, each of which falls due as its alarm is set.
#[test]
fn alarms_that_ring_as_they_are_set_do_not_nest() {
    const COUNT: u32 = 1_000;
    let clock = Hasty {
        clock: ManualClock::new(),
        hurries: Arc::default(),
        deepest: Arc::default(),
    };
    let queue = DelayQueue::with_clock(clock.clone());
    let woken = CountingWaker::new();
    let mut futures: Vec<_> = (0..COUNT).map(|_| queue.take_async()).collect();
    for future in &mut futures {
        assert!(poll_with(future, &woken.waker()).is_pending());
    }
    for n in 2..=COUNT {
        queue.push(n, n * SECOND).unwrap();
    }
    clock.hurries.store(true, SeqCst);
    queue.push(1, SECOND).unwrap(); // Its alarm starts the chain of all others.
    assert_eq!(woken.wakes(), COUNT as usize);
    let deepest = clock.deepest.load(SeqCst);
    assert!(deepest <= 1, "{deepest} calls deep");
    assert!(futures.iter_mut().all(|future| poll(future).is_ready()));
}

type Hook = Box<dyn FnOnce() + Send>;

/// Its alarms fail, after a callback.
#[derive(Clone)]
struct Failing {
    clock: ManualClock,
    hook: Arc<Mutex<Option<Hook>>>,
    error: Arc<dyn Fn() -> io::Error + Send + Sync>,
}

impl std::fmt::Debug for Failing {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Failing")
    }
}

impl Failing {
    fn new() -> Self {
        Self {
            clock: ManualClock::new(),
            hook: Arc::default(),
            error: Arc::new(|| io::Error::other("no alarm today")),
        }
    }

    fn before_the_next_fails(&self, hook: impl FnOnce() + Send + 'static) {
        *self.hook.lock().unwrap() = Some(Box::new(hook));
    }
}

impl Clock for Failing {
    fn now(&self) -> Instant {
        self.clock.now()
    }
    fn park_until(&self, parker: &Parker, when: Instant) -> bool {
        self.clock.park_until(parker, when)
    }
    fn wake_at(&self, _: Instant, _: Waker) -> io::Result<Alarm> {
        let hook = self.hook.lock().unwrap().take();
        if let Some(hook) = hook {
            hook();
        }
        Err((self.error)())
    }
}

/// A thread is the leader, so the futures do not depend on the alarm.
#[testkit::test]
fn a_failed_alarm_is_no_error_while_a_thread_leads() {
    let clock = Failing::new();
    let queue = DelayQueue::with_clock(clock.clone());
    queue.push(1, SECOND).unwrap();
    queue.push(2, SECOND).unwrap();
    let thread = Arc::new(Mutex::new(None));
    clock.before_the_next_fails({
        let (queue, thread) = (queue.clone(), Arc::clone(&thread));
        move || {
            *thread.lock().unwrap() = Some(taker(&queue));
            wait_asleep(&queue, 2);
        }
    });
    let waker = CountingWaker::new();
    let mut future = queue.take_async();
    assert!(poll_with(&mut future, &waker.waker()).is_pending());
    assert_eq!(queue.stats().waiting_takers, 2);
    assert_eq!(waker.wakes(), 0, "a thread keeps the time for it");
    clock.clock.wait_for_sleepers(1);
    clock.clock.advance(SECOND);
    let thread = thread.lock().unwrap().take().unwrap();
    thread.join().unwrap().unwrap();
    waker.wait_for_wakes(1);
    assert!(matches!(poll(&mut future), std::task::Poll::Ready(Ok(_))));
}

/// Calls the queue in its destructor. It would hang if the lock were held.
#[derive(Debug)]
struct Asks(DelayQueue<u32, Failing>, Arc<AtomicUsize>);

impl Drop for Asks {
    fn drop(&mut self) {
        self.0.len();
        self.1.fetch_add(1, SeqCst);
    }
}

impl std::fmt::Display for Asks {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("no alarm today")
    }
}

impl std::error::Error for Asks {}

#[testkit::test]
fn an_error_of_the_clock_is_dropped_with_the_lock_free() {
    let mut clock = Failing::new();
    let (made, drops) = (Arc::new(Mutex::new(None)), Arc::new(AtomicUsize::new(0)));
    clock.error = {
        let (made, drops) = (Arc::clone(&made), Arc::clone(&drops));
        Arc::new(move || {
            let queue: Option<DelayQueue<u32, Failing>> = made.lock().unwrap().clone();
            io::Error::other(Asks(queue.unwrap(), Arc::clone(&drops)))
        })
    };
    let queue = DelayQueue::with_clock(clock.clone());
    *made.lock().unwrap() = Some(queue.clone());
    queue.push(1, 2 * SECOND).unwrap();

    // No future is left that could be woken.
    let future = Arc::new(Mutex::new(Some(queue.take_async())));
    clock.before_the_next_fails({
        let (queue, future) = (queue.clone(), Arc::clone(&future));
        move || {
            let mut other = queue.take_async();
            assert!(poll(&mut other).is_pending());
            drop((other, future));
        }
    });
    let mut waits = queue.take_async();
    assert!(poll(&mut waits).is_pending());
    drop(waits);
    drop(future);

    // An earlier alarm was set meanwhile.
    clock.before_the_next_fails({
        let queue = queue.clone();
        move || _ = queue.push(2, SECOND).unwrap()
    });
    let mut waits = queue.take_async();
    assert!(poll(&mut waits).is_pending());
    let told = poll(&mut waits);
    assert!(matches!(
        told,
        std::task::Poll::Ready(Err(TakeError::NoAlarm(_)))
    ));
    drop(told);

    // A thread is the leader.
    let thread = Arc::new(Mutex::new(None));
    clock.before_the_next_fails({
        let (queue, thread) = (queue.clone(), Arc::clone(&thread));
        move || {
            *thread.lock().unwrap() = Some(taker(&queue));
            wait_asleep(&queue, 2);
        }
    });
    let mut waits = queue.take_async();
    assert!(poll(&mut waits).is_pending());
    assert!(drops.load(SeqCst) >= 3);
    clock.clock.wait_for_sleepers(1);
    clock.clock.advance(SECOND);
    let thread = thread.lock().unwrap().take().unwrap();
    thread.join().unwrap().unwrap();
    drop(waits);
    *made.lock().unwrap() = None;
}

/// The feeder takes an entry and, in the same critical section, notifies a future of the last one.
/// The waker that runs on the feeder's thread must not wait for the feeder forever.
#[cfg(feature = "channel")]
#[testkit::test]
fn a_waker_on_the_feeders_thread_may_call_close_now() {
    let (queue, clock) = crate::support::queue();
    let (_receiver, _feeder) = queue.channel(0).unwrap();
    queue.push(1, SECOND).unwrap();
    queue.push(2, SECOND).unwrap();
    clock.wait_for_sleepers(1); // The feeder is the leader.
    let left = Arc::new(Mutex::new(Vec::new()));
    let closed = testkit::Gate::new();
    let waker = testkit::waker_fn({
        let (queue, left, closed) = (queue.clone(), Arc::clone(&left), closed.clone());
        move || {
            let leftovers = queue.close_now().into_iter().map(|left| left.value);
            left.lock().unwrap().extend(leftovers);
            closed.open();
        }
    });
    let mut future = queue.take_async();
    assert!(poll_with(&mut future, &waker).is_pending());
    clock.advance(SECOND);
    closed.wait();
    assert_eq!(*left.lock().unwrap(), [1, 2]);
    assert!(queue.close_now().is_empty(), "nor does a later one wait");
}

/// While `close_now` runs, the waker of a rejected pusher waits on the same thread. It must not
/// consume the notification of the closer.
#[cfg(feature = "channel")]
#[testkit::test]
fn a_waker_that_waits_consumes_no_notification_of_close_now() {
    let clock = ManualClock::new();
    let queue = DelayQueue::<u32>::builder().clock(clock.clone()).bound(1);
    let queue = queue.build().unwrap();
    queue.push(1, NOW).unwrap();
    let (_receiver, _feeder) = queue.channel(0).unwrap();
    crate::support::until(|| queue.is_empty()); // The feeder holds it and offers it.
    let other = DelayQueue::<u32, _>::with_clock(clock);
    let waker = testkit::waker_fn({
        let queue = queue.clone();
        move || {
            // The entry is returned, and the closer is notified.
            crate::support::until(|| queue.len() == 1);
            let taken = other.take_timeout(NOW);
            assert!(matches!(taken, Err(TakeError::TimedOut)));
        }
    });
    let mut refused = queue.push_async(2, NOW);
    assert!(poll_with(&mut refused, &waker).is_pending());
    let left = queue.close_now();
    assert_eq!(left.len(), 1);
    assert!(matches!(poll(&mut refused), std::task::Poll::Ready(Err(_))));
}

/// Each alarm fires in the call that sets it. A waker of the first entry waits until all are due,
/// which needs the alarms that follow: so the waker must not run before they are set.
#[testkit::test]
fn a_waker_may_wait_for_an_alarm_that_fires_while_it_is_set() {
    let clock = Hasty {
        clock: ManualClock::new(),
        hurries: Arc::default(),
        deepest: Arc::default(),
    };
    let queue = DelayQueue::with_clock(clock.clone());
    for n in 1..=3 {
        queue.push(n, n * SECOND).unwrap();
    }
    let end = clock.now() + 3 * SECOND;
    let waits = testkit::waker_fn({
        let clock = clock.clone();
        move || until(|| clock.now() >= end)
    });
    let mut futures = [queue.take_async(), queue.take_async(), queue.take_async()];
    for future in &mut futures {
        assert!(poll_with(future, &waits).is_pending());
    }
    clock.hurries.store(true, SeqCst);
    clock.clock.advance(SECOND);
    assert!(futures.iter_mut().all(|future| poll(future).is_ready()));
}

/// A clock whose waits or readings panic while its switch is on.
#[derive(Clone, Debug, Default)]
struct Fragile {
    clock: ManualClock,
    waits_panic: Arc<AtomicBool>,
    readings_panic: Arc<AtomicBool>,
}

impl Clock for Fragile {
    fn now(&self) -> Instant {
        assert!(!self.readings_panic.load(SeqCst), "broken on purpose");
        self.clock.now()
    }
    fn park_until(&self, parker: &Parker, when: Instant) -> bool {
        assert!(!self.waits_panic.load(SeqCst), "broken on purpose");
        self.clock.park_until(parker, when)
    }
    fn wake_at(&self, when: Instant, waker: Waker) -> io::Result<Alarm> {
        self.clock.wake_at(when, waker)
    }
}

/// The thread that panics was the leader. The future must be woken when the entry falls due.
#[test]
fn a_clock_whose_wait_panics_passes_the_lead_on() {
    let clock = Fragile::default();
    let queue = DelayQueue::with_clock(clock.clone());
    queue.push(1, SECOND).unwrap();
    let panics = || catch_unwind(AssertUnwindSafe(|| queue.take())).is_err();
    clock.waits_panic.store(true, SeqCst);
    assert!(panics());
    assert_eq!(queue.stats().waiting_takers, 0);
    let woken = CountingWaker::new();
    let mut future = queue.take_async();
    assert!(poll_with(&mut future, &woken.waker()).is_pending());
    assert!(panics()); // It replaces the alarm as the leader.
    clock.clock.advance(SECOND);
    assert_eq!(woken.wakes(), 1);
    assert!(poll(&mut future).is_ready());
}

#[test]
fn a_poll_whose_clock_cannot_be_read_leaves_its_future_waiting() {
    let clock = Fragile::default();
    let queue = DelayQueue::with_clock(clock.clone());
    queue.push(1, SECOND).unwrap();
    let woken = CountingWaker::new();
    let mut future = queue.take_async();
    assert!(poll_with(&mut future, &woken.waker()).is_pending());
    clock.readings_panic.store(true, SeqCst);
    assert!(catch_unwind(AssertUnwindSafe(|| poll(&mut future).is_ready())).is_err());
    clock.readings_panic.store(false, SeqCst);
    assert_eq!(queue.stats().waiting_takers, 1);
    clock.clock.advance(SECOND);
    assert_eq!(woken.wakes(), 1);
    assert!(poll(&mut future).is_ready());
}
