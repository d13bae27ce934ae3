//! User code that waits, panics or calls the queue, wherever the queue calls it. No key, result or
//! wake-up may be lost.

use std::cell::Cell;
use std::fmt::Debug;
use std::hash::{Hash, Hasher};
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::ptr;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::sync::{Arc, OnceLock, mpsc};
use std::task::{RawWaker, RawWakerVTable, Waker};
use std::thread;
use std::time::{Duration, Instant};

use dedup_queue::{
    Clock, DedupDelayQueue, DedupQueue, DedupRetryQueue, FastSlow, Held, KeyQueue, ManualClock,
    Metrics, Outcome, Retried, Retrying,
};
use delay_queue::DelayQueue;
use sync_shim::{Alarm, Parker};
use testkit::{CountingWaker, Gate, PanicOnDrop, waker_fn};

use crate::support::{MS, delaying, figures, plain, poll, poll_with, take_all, until};

/// The function of a fragile waker or clock that panics next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Part {
    Nothing,
    Clone,
    Wake,
    Drop,
}

thread_local! {
    static BROKEN: Cell<Part> = const { Cell::new(Part::Nothing) };
}

/// Panics once if this function is the broken one.
fn maybe_break(part: Part) {
    if BROKEN.get() == part {
        BROKEN.set(Part::Nothing);
        panic!("broken on purpose");
    }
}

/// A waker without data, whose clone, wake and drop may each panic.
fn fragile() -> Waker {
    const VTABLE: RawWakerVTable = RawWakerVTable::new(
        |_| {
            maybe_break(Part::Clone);
            RawWaker::new(ptr::null(), &VTABLE)
        },
        |_| maybe_break(Part::Wake),
        |_| maybe_break(Part::Wake),
        |_| maybe_break(Part::Drop),
    );
    // SAFETY: the functions do not use the data, and may be called from any thread.
    unsafe { Waker::new(ptr::null(), &VTABLE) }
}

/// Runs the closure while this function is broken. Returns an error if it panicked.
fn with_broken<R>(part: Part, run: impl FnOnce() -> R) -> Result<R, ()> {
    BROKEN.set(part);
    let ran = catch_unwind(AssertUnwindSafe(run));
    BROKEN.set(Part::Nothing);
    ran.map_err(drop)
}

const PARTS: [Part; 3] = [Part::Clone, Part::Wake, Part::Drop];

/// A getter in each of its states is polled while a key is ready. No key is lost, whichever
/// function panics.
#[test]
fn a_panicking_waker_loses_no_key_of_a_getter() {
    for part in PARTS {
        // Waiting, notified, or not polled before.
        for state in 0..3 {
            let queue = plain();
            let mut first = queue.get_async();
            let mut future = queue.get_async();
            if state == 0 {
                assert!(poll(&mut first).is_pending()); // It is notified instead of the other getter.
            }
            if state < 2 {
                assert!(poll_with(&mut future, &fragile()).is_pending());
            }
            with_broken(part, || queue.add("a").unwrap()).expect("wakers' panics are caught");
            let waker = fragile();
            let polled = with_broken(part, || poll_with(&mut future, &waker));
            if let Ok(polled) = polled {
                assert!(matches!(polled, std::task::Poll::Ready(Ok(held)) if *held == "a"));
            } else {
                assert_eq!(part, Part::Clone, "the panic comes first");
                assert_eq!(queue.len(), 1);
                assert!(poll_with(&mut future, &waker).is_ready());
            }
            with_broken(part, || drop((first, future))).expect("as above");
            assert_eq!(queue.stats().waiting, 0);
            assert_eq!(figures(queue.stats()), [0; 5], "{part:?} {state}");
        }
    }
}

/// The future is polled without a ready key, polled again, and dropped.
#[test]
fn a_panicking_waker_leaves_a_future_waiting_or_dropped() {
    for part in PARTS {
        let queue = plain();
        let mut future = queue.get_async();
        let waker = fragile();
        let first = with_broken(part, || poll_with(&mut future, &waker).is_pending());
        assert_eq!(first.is_err(), part == Part::Clone);
        assert_eq!(queue.stats().waiting, usize::from(first.is_ok()));
        assert!(poll_with(&mut future, &waker).is_pending());
        let again = with_broken(part, || poll_with(&mut future, &waker).is_pending());
        assert_eq!(again.is_err(), part == Part::Clone);
        assert_eq!(
            queue.stats().waiting,
            1,
            "the old waker stays if the new one fails"
        );
        with_broken(part, || drop(future)).expect("wakers' panics are caught");
        assert_eq!(queue.stats().waiting, 0);
        queue.add("a").unwrap();
        assert_eq!(take_all(&queue), ["a"]);
    }
}

/// The same for a drain: polled at its start, while it waits and when it has its answer; and
/// dropped.
#[test]
fn a_panicking_waker_loses_no_leftovers_of_a_drain() {
    for part in PARTS {
        for state in 0..5 {
            let (queue, _clock) = delaying();
            queue.add("a").unwrap();
            queue.add_after("later", MS).unwrap();
            let held = queue.get().unwrap();
            let mut drain = queue.drain_async();
            let waker = fragile();
            if state > 0 {
                assert!(poll_with(&mut drain, &waker).is_pending());
            }
            let panics = part == Part::Clone;
            if state < 2 {
                let polled = with_broken(part, || poll_with(&mut drain, &waker).is_pending());
                assert_eq!(polled.is_err(), panics);
                assert_eq!(queue.stats().draining, usize::from(state > 0 || !panics));
            }
            let mut held = Some(held);
            if state != 2 {
                with_broken(part, || drop(held.take())).expect("wakers' panics are caught");
            }
            let left = if state == 3 || state == 0 {
                let polled = with_broken(part, || poll_with(&mut drain, &waker));
                match polled {
                    Ok(std::task::Poll::Ready(drained)) => drained.leftovers,
                    Ok(std::task::Poll::Pending) => unreachable!("it was answered"),
                    Err(()) => {
                        assert!(panics);
                        None
                    }
                }
            } else {
                None
            };
            with_broken(part, || drop(drain)).expect("as above");
            drop(held);
            let left = left.or_else(|| queue.drain().leftovers);
            let keys: Vec<_> = left.unwrap().delayed.iter().map(|left| left.key).collect();
            assert_eq!(keys, ["later"], "{part:?} {state}");
            assert_eq!(queue.stats().draining, 0);
        }
    }
}

#[test]
#[should_panic(expected = "polled after completion")]
fn a_drain_future_polled_after_completion_panics() {
    let queue = plain();
    let mut drain = queue.drain_async();
    assert!(poll(&mut drain).is_ready());
    _ = poll(&mut drain);
}

#[test]
fn a_completed_getter_takes_the_next_key_when_polled_again() {
    let queue = plain();
    let mut future = queue.get_async();
    for key in ["a", "b"] {
        queue.add(key).unwrap();
        assert!(matches!(poll(&mut future), std::task::Poll::Ready(Ok(held)) if *held == key));
    }
    assert!(poll(&mut future).is_pending());
    queue.shut_down();
    for _ in 0..2 {
        assert!(
            matches!(poll(&mut future), std::task::Poll::Ready(Err(error)) if error.is_closed())
        );
    }
}

/// The drain is dropped in each state (not polled, waiting, notified, answered) or polled to the
/// end. The rest stays in the queue.
#[test]
fn a_drain_dropped_in_any_state_leaves_the_rest_to_the_next() {
    for state in 0..4 {
        let (queue, clock) = delaying();
        queue.add("a").unwrap();
        queue.add_after("later", MS).unwrap();
        let held = queue.get().unwrap();
        let waker = CountingWaker::new();
        let mut drain = queue.drain_async();
        if state > 0 {
            assert!(poll_with(&mut drain, &waker.waker()).is_pending());
        }
        let mut held = Some(held);
        match state {
            2 => drop(held.take()),
            3 => {
                // At the deadline of another drain: this drain is the first one, so the answer is
                // its own.
                let other = queue.drain_timeout(clock.now());
                assert_eq!((other.outcome, other.leftovers), (Outcome::TimedOut, None));
            }
            _ => {}
        }
        assert_eq!(waker.wakes(), usize::from(state >= 2));
        drop(drain);
        assert_eq!((queue.stats().draining, waker.wakers()), (0, 0));
        drop(held);
        if state == 0 {
            assert!(queue.add("b").is_ok(), "it had not begun");
            drop(queue.get());
        }
        let left = queue.drain().leftovers.unwrap();
        assert_eq!(left.delayed[0].key, "later", "in state {state}");
        assert_eq!(left.held.len(), usize::from(state == 3));
    }
}

/// The rest of a dropped drain and the keys added since are returned together.
#[test]
fn the_rest_of_several_dropped_drains_is_returned_in_order() {
    let (queue, clock) = delaying();
    for key in ["a", "b"] {
        queue.add(key).unwrap();
    }
    let (a, b) = (queue.get().unwrap(), queue.get().unwrap());
    for held in [a, b] {
        let mut drain = queue.drain_async();
        assert!(poll(&mut drain).is_pending());
        assert_eq!(queue.drain_timeout(clock.now()).leftovers, None);
        drop(drain);
        assert_eq!(held.retry_after(MS), Retried::Left);
    }
    let left = queue.drain().leftovers.unwrap();
    let keys = |keys: &[dedup_queue::Delayed<&'static str>]| -> Vec<_> {
        keys.iter().map(|left| left.key).collect()
    };
    let held: Vec<_> = left.held.iter().map(|left| left.key).collect();
    assert_eq!(held, ["a", "b"], "as it was at the first drain's end");
    assert_eq!(keys(&left.delayed), ["a", "b"], "and as they came back");
}

/// A clock each part of which may panic: `Clone` stands for reading it, `Wake` for its waits,
/// `Drop` for the drop of an alarm.
#[derive(Clone, Debug)]
struct FragileClock(ManualClock);

#[derive(Debug)]
struct FragileAlarm(#[expect(dead_code, reason = "held for its Drop")] Alarm);

impl Drop for FragileAlarm {
    fn drop(&mut self) {
        maybe_break(Part::Drop);
    }
}

impl Clock for FragileClock {
    fn now(&self) -> Instant {
        maybe_break(Part::Clone);
        self.0.now()
    }

    fn park_until(&self, parker: &Parker, when: Instant) -> bool {
        maybe_break(Part::Wake);
        self.0.park_until(parker, when)
    }

    fn wake_at(&self, when: Instant, waker: Waker) -> io::Result<Alarm> {
        maybe_break(Part::Wake);
        Ok(Alarm::new(FragileAlarm(self.0.wake_at(when, waker)?)))
    }
}

type Fragile<L> = KeyQueue<Nosy, std::hash::RandomState, FragileClock, L>;

/// A key that calls its queue when it is dropped, which never happens under the lock.
#[derive(Clone, Debug)]
struct Nosy(&'static str, Option<Arc<OnceLock<Fragile<Retrying>>>>);

impl PartialEq for Nosy {
    fn eq(&self, other: &Self) -> bool {
        self.0 == other.0
    }
}
impl Eq for Nosy {}
impl Hash for Nosy {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.0.hash(state);
    }
}
impl Drop for Nosy {
    fn drop(&mut self) {
        if let Some(queue) = self.1.as_ref().and_then(|queue| queue.get()) {
            queue.is_shut_down();
        }
    }
}

fn fragile_queue() -> (
    Fragile<Retrying>,
    ManualClock,
    impl Fn(&'static str) -> Nosy,
) {
    let clock = ManualClock::new();
    let queue = DedupRetryQueue::<Nosy>::builder()
        .clock(FragileClock(clock.clone()))
        .build();
    let shared = Arc::new(OnceLock::new());
    assert!(shared.set(queue.clone()).is_ok());
    (queue, clock, move |name| {
        Nosy(name, Some(Arc::clone(&shared)))
    })
}

#[testkit::test]
fn a_clock_that_panics_when_read_changes_nothing_and_releases_the_key() {
    let (queue, _clock, key) = fragile_queue();
    let broken = Part::Clone;
    queue.add_after(key("later"), MS).unwrap(); // From now on each critical section reads the clock.
    queue.add(key("a")).unwrap();
    let before = queue.stats();
    assert!(with_broken(broken, || queue.add(key("b")).is_ok()).is_err());
    assert!(with_broken(broken, || queue.add_after(key("b"), MS).is_ok()).is_err());
    assert!(with_broken(broken, || queue.add_rate_limited(key("b")).is_ok()).is_err());
    assert!(with_broken(broken, || queue.remove(&key("a"))).is_err());
    assert!(
        with_broken(broken, || queue
            .try_get_batch(std::num::NonZeroUsize::MIN)
            .is_ok())
        .is_err()
    );
    assert!(with_broken(broken, || poll(&mut queue.get_async()).is_ready()).is_err());
    assert!(with_broken(broken, || poll(&mut queue.drain_async()).is_ready()).is_err());
    assert!(with_broken(broken, || queue.shut_down()).is_err());
    assert_eq!(queue.stats(), before);
    let lets_go: [fn(Held<'_, Nosy, Retrying>); 4] = [
        |held| held.done(),
        |held| held.succeed(),
        |held| _ = held.retry(),
        |held| _ = held.retry_after(MS),
    ];
    for let_go in lets_go {
        let held = queue.get().unwrap();
        _ = with_broken(broken, || let_go(held));
        assert_eq!(queue.stats().held, 0, "it was let go");
        queue.add(key("a")).unwrap();
    }
    drop(queue.get());
    let left = queue.drain().leftovers.unwrap();
    assert_eq!(left.delayed.len(), 1);
}

#[testkit::test]
fn a_clock_whose_wait_panics_leaves_no_waiter_behind() {
    let (queue, clock, key) = fragile_queue();
    let broken = Part::Wake;
    assert!(with_broken(broken, || queue.get_timeout(MS).is_ok()).is_err());
    assert_eq!(queue.stats().waiting, 0);
    let mut future = queue.get_async();
    let waker = CountingWaker::new();
    assert!(poll_with(&mut future, &waker.waker()).is_pending());
    queue.add(key("a")).unwrap();
    assert_eq!(waker.wakes(), 1, "the thread that has left is not notified");
    let std::task::Poll::Ready(Ok(held)) = poll(&mut future) else {
        panic!("it was called for a key")
    };
    // The drain's answer is not for a thread that has left.
    queue.add_after(key("later"), MS).unwrap();
    assert!(with_broken(broken, || queue.drain_timeout(MS).outcome).is_err());
    assert_eq!(queue.stats().draining, 0);
    drop(held);
    assert_eq!(
        queue
            .drain_timeout(clock.now())
            .leftovers
            .unwrap()
            .delayed
            .len(),
        1
    );
}

#[test]
fn a_panic_while_an_alarm_is_set_is_reported() {
    let (queue, _clock, key) = fragile_queue();
    queue.add_after(key("a"), MS).unwrap();
    let mut future = queue.get_async();
    let polled = with_broken(Part::Wake, || poll(&mut future).is_pending());
    assert_eq!(polled, Ok(true));
    assert!(matches!(
        poll(&mut future),
        std::task::Poll::Ready(Err(dedup_queue::GetError::NoAlarm(_)))
    ));
}

#[test]
fn an_alarm_whose_drop_panics_loses_no_key() {
    let (queue, clock, key) = fragile_queue();
    queue.add_after(key("late"), 10 * MS).unwrap();
    let (mut first, mut second) = (queue.get_async(), queue.get_async());
    assert!(poll(&mut first).is_pending() && poll(&mut second).is_pending());
    // An alarm that is replaced by an earlier one, in the critical section of an add.
    let added = with_broken(Part::Drop, || queue.add_after(key("early"), MS).is_ok());
    assert_eq!(added, Ok(true));
    // An alarm that has rung.
    _ = with_broken(Part::Drop, || clock.advance(MS));
    assert!(matches!(poll(&mut first), std::task::Poll::Ready(Ok(held)) if held.0 == "early"));
    // An alarm that is replaced while a key is taken.
    queue.add_after(key("soon"), 2 * MS).unwrap();
    queue.add(key("now")).unwrap();
    let mut third = queue.get_async();
    let taken = with_broken(Part::Drop, || match poll(&mut third) {
        std::task::Poll::Ready(Ok(held)) => held.0,
        _ => "",
    });
    assert_eq!(taken, Ok("now"));
}

/// Metrics that act once, when they receive a key that fell due.
struct Once<F>(AtomicBool, F);

impl<F: Fn() + Send + Sync + 'static> Once<F> {
    fn new(act: F) -> Arc<Self> {
        Arc::new(Self(AtomicBool::new(false), act))
    }

    fn arm(&self) {
        self.0.store(true, SeqCst);
    }
}

impl<F: Fn() + Send + Sync + 'static> Metrics for Once<F> {
    fn adds_total(&self, _: &str, _: u64) {
        if self.0.swap(false, SeqCst) {
            (self.1)();
        }
    }
}

/// A held key falls due: the getter that finds it reports it to the metrics and goes to sleep. Each
/// kind of wait in the metrics, and the end of a thread, must leave the getter its wake-up.
fn metrics_that(wait: impl Fn() + Send + Sync + 'static) {
    let clock = ManualClock::new();
    let metrics = Once::new(wait);
    let queue = DedupDelayQueue::<u32>::builder()
        .clock(clock.clone())
        .metrics(Arc::clone(&metrics))
        .build();
    queue.add(9).unwrap();
    let _held = queue.get().unwrap();
    queue.add_after(9, MS).unwrap();
    clock.advance(MS);
    metrics.arm();
    thread::scope(|scope| {
        let getter = scope.spawn(|| *queue.get().unwrap());
        until(|| !metrics.0.load(SeqCst));
        queue.add(1).unwrap();
        assert_eq!(getter.join().unwrap(), 1);
        assert_eq!(queue.stats().waiting, 0);
    });
}

#[testkit::test]
fn metrics_that_wait_on_another_queue_do_not_cost_a_getter_its_wake_up() {
    let other = DedupQueue::<u32>::new();
    metrics_that(move || {
        thread::scope(|scope| {
            scope.spawn(|| {
                until(|| other.stats().waiting == 1);
                other.add(1).unwrap();
            });
            assert_eq!(*other.get().unwrap(), 1);
        });
    });
}

#[testkit::test]
fn metrics_that_take_from_a_delay_queue_do_not_cost_a_getter_its_wake_up() {
    let other = DelayQueue::<u32>::new();
    metrics_that(move || {
        other.push(1, MS).unwrap();
        assert_eq!(other.take().unwrap().value, 1);
    });
}

#[testkit::test]
fn metrics_that_drain_another_queue_do_not_cost_a_getter_its_wake_up() {
    let other = DedupQueue::<u32>::new();
    metrics_that(move || {
        other.add(1).unwrap();
        thread::scope(|scope| {
            scope.spawn(|| {
                let held = other.get().unwrap();
                until(|| other.stats().draining == 1);
                drop(held);
            });
            until(|| other.stats().held == 1);
            assert_eq!(other.drain().outcome, Outcome::Finished);
        });
    });
}

/// The metrics wait on the same queue, for a key that another thread adds.
#[testkit::test]
fn metrics_that_get_from_the_same_queue_do_not_cost_a_getter_its_wake_up() {
    let shared = Arc::new(OnceLock::<
        KeyQueue<u32, std::hash::RandomState, ManualClock, dedup_queue::Delaying>,
    >::new());
    let inner = Arc::clone(&shared);
    let clock = ManualClock::new();
    let metrics = Once::new(move || {
        let queue = inner.get().unwrap();
        assert_eq!(*queue.get().unwrap(), 1);
    });
    let queue = DedupDelayQueue::<u32>::builder()
        .clock(clock.clone())
        .metrics(Arc::clone(&metrics))
        .build();
    assert!(shared.set(queue.clone()).is_ok());
    queue.add(9).unwrap();
    let held = queue.get().unwrap();
    queue.add_after(9, MS).unwrap();
    clock.advance(MS);
    metrics.arm();
    thread::scope(|scope| {
        let getter = scope.spawn(|| *queue.get().unwrap());
        until(|| !metrics.0.load(SeqCst)); // Otherwise this thread would report it.
        until(|| queue.stats().waiting == 1); // The inner getter; the outer one runs its metrics.
        queue.add(1).unwrap();
        until(|| queue.stats().waiting == 1 && queue.is_empty());
        queue.add(2).unwrap();
        assert_eq!(getter.join().unwrap(), 2);
    });
    drop(held);
}

/// A getter that runs user code is not notified of a key while another one sleeps.
#[testkit::test]
fn a_key_goes_to_a_sleeping_worker_while_another_is_in_its_metrics() {
    let clock = ManualClock::new();
    let gate = Gate::new();
    let metrics = Once::new({
        let gate = gate.clone();
        move || gate.wait()
    });
    let queue = DedupRetryQueue::<u32>::builder()
        .clock(clock.clone())
        .limiter(FastSlow::new(Duration::ZERO, Duration::ZERO, 1))
        .metrics(Arc::clone(&metrics))
        .build();
    queue.add(9).unwrap();
    let held = queue.get().unwrap();
    let (taken, received) = mpsc::channel();
    thread::scope(|scope| {
        for _ in 0..2 {
            let taken = taken.clone();
            let queue = &queue;
            scope.spawn(move || taken.send(*queue.get().unwrap()).unwrap());
        }
        until(|| queue.stats().waiting == 2);
        queue.add_after(9, MS).unwrap();
        // One of the two sleeps no longer than until then.
        until(|| queue.stats().waiting == 2 && queue.stats().rearms == 1);
        metrics.arm();
        clock.advance(MS);
        // That getter has looked and runs its metrics. The other one sleeps.
        gate.wait_for_arrivals(1);
        queue.add(1).unwrap();
        assert_eq!(received.recv(), Ok(1));
        gate.open();
        queue.add(2).unwrap();
        assert_eq!(received.recv(), Ok(2));
    });
    drop(held);
}

/// One critical section ends a drain and notifies a future, whose waker waits for the drain.
#[testkit::test]
fn a_waker_may_wait_for_a_drain_that_ends_in_the_same_section() {
    let queue = DedupQueue::<u32>::new();
    let drained = Gate::new();
    let waker = waker_fn({
        let drained = drained.clone();
        move || drained.wait()
    });
    let (mut called, mut other) = (queue.get_async(), queue.get_async());
    assert!(poll(&mut called).is_pending());
    assert!(poll_with(&mut other, &waker).is_pending());
    queue.add(1).unwrap();
    thread::scope(|scope| {
        scope.spawn(|| {
            assert_eq!(queue.drain().outcome, Outcome::Finished);
            drained.open();
        });
        until(|| queue.stats().draining == 1);
        queue.remove(&1); // No key is ready or held, nor will be.
    });
    assert_eq!(drained.arrivals(), 1);
}

/// An alarm rings for one future, whose waker waits until the next alarm has woken another future.
#[testkit::test]
fn a_waker_may_wait_for_the_next_alarm() {
    let (queue, clock) = delaying();
    queue.add_after("first", MS).unwrap();
    queue.add_after("second", 2 * MS).unwrap();
    let (woken, gate) = (Gate::new(), Gate::new());
    let blocks = waker_fn({
        let (woken, gate) = (woken.clone(), gate.clone());
        move || {
            woken.open();
            gate.wait();
        }
    });
    let opens = waker_fn({
        let gate = gate.clone();
        move || gate.open()
    });
    let (mut first, mut second) = (queue.get_async(), queue.get_async());
    assert!(poll_with(&mut first, &blocks).is_pending());
    assert!(poll_with(&mut second, &opens).is_pending());
    thread::scope(|scope| {
        scope.spawn(|| clock.advance(MS));
        until(|| woken.is_open());
        clock.wait_for_sleepers(1);
        // The first key is still ready: its future was notified and has not returned.
        assert!(matches!(poll(&mut first), std::task::Poll::Ready(Ok(held)) if *held == "first"));
        clock.advance(MS);
    });
    assert!(gate.is_open());
    assert!(matches!(poll(&mut second), std::task::Poll::Ready(Ok(held)) if *held == "second"));
}

/// A clock that must not wait while its flag is set: then it jumps to the time of each alarm, and
/// rings while the alarm is set.
#[derive(Clone, Debug)]
struct Jumping(ManualClock, Arc<AtomicBool>);

impl Clock for Jumping {
    fn now(&self) -> Instant {
        self.0.now()
    }

    fn park_until(&self, parker: &Parker, when: Instant) -> bool {
        self.0.park_until(parker, when)
    }

    fn wake_at(&self, when: Instant, waker: Waker) -> io::Result<Alarm> {
        if self.1.load(SeqCst) {
            self.0.advance(when.saturating_duration_since(self.0.now()));
        }
        self.0.wake_at(when, waker)
    }
}

type JumpingQueue = KeyQueue<u32, std::hash::RandomState, Jumping, dedup_queue::Delaying>;

fn jumping() -> (JumpingQueue, ManualClock, Arc<AtomicBool>) {
    let (clock, jumps) = (ManualClock::new(), Arc::new(AtomicBool::new(false)));
    let queue = DedupDelayQueue::<u32>::builder()
        .clock(Jumping(clock.clone(), Arc::clone(&jumps)))
        .build();
    (queue, clock, jumps)
}

/// Each alarm rings as it is set, for one of many futures: the stack would overflow if each were
/// set within the one before.
#[test]
fn alarms_that_ring_while_they_are_set_do_not_nest() {
    const MANY: u32 = 8_000;
    let (queue, clock, jumps) = jumping();
    for key in 0..MANY {
        queue.add_after(key, MS * (key + 1)).unwrap();
    }
    let waker = CountingWaker::new();
    let mut futures: Vec<_> = (0..MANY).map(|_| queue.get_async()).collect();
    for future in &mut futures {
        assert!(poll_with(future, &waker.waker()).is_pending());
    }
    jumps.store(true, SeqCst);
    clock.advance(MS);
    assert_eq!(waker.wakes(), futures.len());
    for future in &mut futures {
        assert!(poll(future).is_ready());
    }
}

/// The same, with wakers that wait for the alarm that follows.
#[testkit::test]
fn a_waker_may_wait_for_an_alarm_that_rings_while_it_is_set() {
    let (queue, clock, jumps) = jumping();
    queue.add_after(1, MS).unwrap();
    queue.add_after(2, 2 * MS).unwrap();
    queue.add_after(3, 3 * MS).unwrap();
    let gate = Gate::new();
    let waits = waker_fn({
        let (gate, queue) = (gate.clone(), queue.clone());
        move || {
            until(|| queue.len() == 3);
            gate.open();
        }
    });
    let mut futures = [queue.get_async(), queue.get_async(), queue.get_async()];
    for future in &mut futures {
        assert!(poll_with(future, &waits).is_pending());
    }
    jumps.store(true, SeqCst);
    clock.advance(MS);
    assert!(gate.is_open());
    assert!(futures.iter_mut().all(|future| poll(future).is_ready()));
}

/// The metrics of an add, a take and a release may wait for other workers of the queue.
#[testkit::test]
fn metrics_may_wait_for_other_workers_of_the_queue() {
    struct Waits(Gate);
    impl Metrics for Waits {
        fn adds_total(&self, _: &str, _: u64) {
            if self.0.arrivals() == 0 {
                self.0.wait();
            }
        }
    }
    let gate = Gate::new();
    let queue = DedupQueue::<u32>::builder()
        .metrics(Waits(gate.clone()))
        .build();
    thread::scope(|scope| {
        scope.spawn(|| queue.add(1).unwrap());
        gate.wait_for_arrivals(1);
        scope.spawn(|| {
            assert_eq!(*queue.get().unwrap(), 1);
            gate.open();
        });
    });
}

/// The dead-letter hook and the limiter may wait on the queue that called them.
#[testkit::test]
fn a_dead_letter_hook_and_a_limiter_may_wait_on_their_queue() {
    struct Drains(Arc<OnceLock<DedupRetryQueue<u32>>>);
    impl dedup_queue::RateLimiter<u32> for Drains {
        fn delay(&self, key: &u32, _: u32, _: Instant) -> Duration {
            let queue = self.0.get().unwrap();
            queue.add(key + 1).unwrap();
            drop(queue.get().unwrap());
            Duration::ZERO
        }
    }
    let shared = Arc::new(OnceLock::new());
    let hook = Arc::clone(&shared);
    let queue = DedupRetryQueue::<u32>::builder()
        .limiter(Drains(Arc::clone(&shared)))
        .max_attempts(std::num::NonZeroU32::new(2).unwrap())
        .dead_letter(move |_, _| {
            let queue: &DedupRetryQueue<u32> = hook.get().unwrap();
            assert_eq!(queue.drain().outcome, Outcome::Finished);
        })
        .build();
    assert!(shared.set(queue.clone()).is_ok());
    queue.add(1).unwrap();
    assert_eq!(queue.get().unwrap().retry(), Retried::Ready);
    assert_eq!(queue.get().unwrap().retry(), Retried::GivenUp);
    assert!(queue.is_shut_down());
}

/// A key that its expiry drops may panic and take from its queue.
#[test]
fn a_key_dropped_by_its_expiry_may_panic() {
    #[derive(Clone, Debug)]
    struct Bomb(
        u32,
        #[expect(dead_code, reason = "held for its Drop")] Arc<PanicOnDrop>,
    );
    impl PartialEq for Bomb {
        fn eq(&self, other: &Self) -> bool {
            self.0 == other.0
        }
    }
    impl Eq for Bomb {}
    impl Hash for Bomb {
        fn hash<H: Hasher>(&self, state: &mut H) {
            self.0.hash(state);
        }
    }
    let clock = ManualClock::new();
    let queue = DedupRetryQueue::<Bomb>::builder()
        .clock(clock.clone())
        .failure_expiry(MS)
        .build();
    let bomb = |n| Bomb(n, Arc::new(PanicOnDrop::new()));
    queue.add(bomb(1)).unwrap();
    queue.get().unwrap().retry();
    clock.advance(5 * MS);
    queue.get().unwrap().done();
    assert_eq!(queue.stats().resting, 1);
    clock.advance(MS);
    queue.add(bomb(2)).unwrap();
    assert_eq!(figures(queue.stats()), [1, 0, 0, 0, 0]);
    std::mem::forget(queue.get().unwrap());
    std::mem::forget(queue);
}

/// If a clone panics while a key is given up, the key is done, and no failure is counted.
#[test]
fn a_clone_that_panics_while_a_key_is_given_up_leaves_the_key_done() {
    #[derive(Debug, PartialEq, Eq, Hash)]
    struct Key(u32);
    impl Clone for Key {
        fn clone(&self) -> Self {
            maybe_break(Part::Clone);
            Self(self.0)
        }
    }
    let queue = DedupRetryQueue::<Key>::builder()
        .max_attempts(std::num::NonZeroU32::MIN)
        .dead_letter(|_, _| unreachable!("there is no key for it"))
        .build();
    queue.add(Key(1)).unwrap();
    let held = queue.get().unwrap();
    assert!(with_broken(Part::Clone, || held.retry()).is_err());
    assert_eq!(figures(queue.stats()), [0; 5]);
}

fn _held_is_send(held: Held<'_, u32>) -> impl Send + Debug + '_ {
    held
}
