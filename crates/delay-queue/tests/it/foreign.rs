//! User code, wakers and drops, that calls the queue and panics. None of it runs under the lock,
//! and no taker loses an entry.

use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::task::{Poll, RawWaker, RawWakerVTable, Wake, Waker};
use std::time::{Duration, Instant};

use delay_queue::{Alarm, Clock, DelayQueue, ManualClock, Parker, PushError};
use testkit::DropCounter;

use crate::support::{NOW, SECOND, poll, poll_with, queue};

type Numbers = DelayQueue<u32, ManualClock>;

/// A waker each of whose functions calls its queue. It would hang if the lock were held.
struct Nosy {
    queue: Numbers,
    looks: Arc<AtomicUsize>,
}

impl Nosy {
    fn waker(queue: &Numbers) -> (Waker, Arc<AtomicUsize>) {
        let looks = Arc::new(AtomicUsize::new(0));
        let nosy = Arc::new(Self {
            queue: queue.clone(),
            looks: Arc::clone(&looks),
        });
        // SAFETY: the functions of the table cast the data to an `Arc<Nosy>`, as created here.
        let waker = unsafe { Waker::from_raw(raw(nosy)) };
        (waker, looks)
    }

    fn look(&self) {
        self.looks.fetch_add(1, SeqCst);
        self.queue.stats();
        self.queue.push(0, Duration::MAX).unwrap();
    }
}

fn raw(nosy: Arc<Nosy>) -> RawWaker {
    unsafe fn take(data: *const ()) -> Arc<Nosy> {
        // SAFETY: the caller owns one count of the `Arc` from which the data was created.
        unsafe { Arc::from_raw(data.cast()) }
    }
    static TABLE: RawWakerVTable = RawWakerVTable::new(
        |data| {
            // SAFETY: the waker is borrowed, so its count must stay. `ManuallyDrop` keeps it.
            let ours = std::mem::ManuallyDrop::new(unsafe { take(data) });
            ours.look();
            raw(Arc::clone(&ours))
        },
        // SAFETY: `wake` consumes the waker and its count.
        |data| unsafe { take(data) }.look(),
        // SAFETY: as in `clone`.
        |data| std::mem::ManuallyDrop::new(unsafe { take(data) }).look(),
        // SAFETY: as in `wake`.
        |data| unsafe { take(data) }.look(),
    );
    RawWaker::new(Arc::into_raw(nosy).cast(), &TABLE)
}

#[testkit::test]
fn a_waker_may_call_its_queue_when_it_is_cloned_woken_and_dropped() {
    let (queue, clock) = queue();
    let (waker, looks) = Nosy::waker(&queue);
    let grew = |what| assert!(looks.swap(0, SeqCst) > 0, "{what}");

    let mut future = queue.take_async();
    assert!(poll_with(&mut future, &waker).is_pending());
    grew("cloned");
    assert!(poll_with(&mut future, &waker).is_pending());
    grew("replaced");
    queue.push(1, NOW).unwrap();
    grew("woken by a push");
    assert!(poll_with(&mut future, &waker).is_ready());
    grew("not needed any more");

    let mut future = queue.take_async();
    queue.push(2, SECOND).unwrap();
    assert!(poll_with(&mut future, &waker).is_pending());
    looks.store(0, SeqCst);
    clock.advance(SECOND);
    grew("woken by an alarm");
    assert!(poll(&mut future).is_ready());

    let mut future = queue.take_async();
    assert!(poll_with(&mut future, &waker).is_pending());
    looks.store(0, SeqCst);
    drop(future);
    grew("dropped with its future");
}

#[testkit::test]
fn the_waker_of_a_pusher_may_call_a_queue() {
    let clock = ManualClock::new();
    let builder = DelayQueue::builder().clock(clock.clone()).bound(1);
    let full: DelayQueue<u32, _> = builder.build().unwrap();
    // The waker calls `outer`, and would hang if its lock were held.
    let (outer, _clock) = queue();
    let (waker, looks) = Nosy::waker(&outer);
    full.push(1, NOW).unwrap();
    let mut future = full.push_async(2, NOW);
    assert!(poll_with(&mut future, &waker).is_pending());
    assert!(poll_with(&mut future, &waker).is_pending());
    looks.store(0, SeqCst);
    full.clear();
    assert!(looks.load(SeqCst) > 0);
    let waker = testkit::waker_fn({
        let full = full.clone();
        move || _ = full.stats()
    });
    let mut future = full.push_async(3, NOW);
    assert!(poll_with(&mut future, &waker).is_pending());
    full.close_now();
    assert!(matches!(
        testkit::block_on(future),
        Err(PushError::Closed(3))
    ));
}

/// Calls the queue that contains it in its destructor.
struct Recursive(DelayQueue<Recursive, ManualClock>, Arc<AtomicUsize>);

impl Drop for Recursive {
    fn drop(&mut self) {
        self.0.len();
        self.0.drain_ready(1);
        self.1.fetch_add(1, SeqCst);
    }
}

#[testkit::test]
fn a_value_may_call_its_queue_when_it_is_dropped() {
    let (queue, clock) = queue();
    let drops = Arc::new(AtomicUsize::new(0));
    let value = || Recursive(queue.clone(), Arc::clone(&drops));
    for _ in 0..10 {
        queue.push(value(), SECOND).unwrap();
    }
    queue.clear();
    assert_eq!(drops.swap(0, SeqCst), 10);
    let id = queue.push(value(), SECOND).unwrap();
    drop(queue.cancel(id));
    queue.push(value(), SECOND).unwrap();
    drop(queue.close_now());
    drop(queue.push(value(), NOW));
    assert_eq!(drops.load(SeqCst), 3);
    clock.advance(SECOND);
}

/// Panics in its destructor.
struct Mine;

impl Drop for Mine {
    fn drop(&mut self) {
        panic!("a value");
    }
}

#[test]
fn clear_drops_all_values_and_then_resumes_a_panic_of_their_drops() {
    let (queue, _clock) = queue();
    let values = DropCounter::new();
    for n in 0..10 {
        let bomb = (n % 3 == 0).then(|| Mine);
        queue.push((bomb, values.token()), SECOND).unwrap();
    }
    let cleared = catch_unwind(AssertUnwindSafe(|| queue.clear()));
    assert!(cleared.is_err());
    assert_eq!((values.alive(), queue.len()), (0, 0));
    queue.push((None, values.token()), NOW).unwrap();
    assert!(queue.try_take().is_ok());
}

/// A waker whose drop panics: the poll that takes an entry drops it.
#[test]
fn a_waker_whose_drop_panics_loses_no_entry() {
    struct Bomb;
    impl Wake for Bomb {
        fn wake(self: Arc<Self>) {}
    }
    impl Drop for Bomb {
        fn drop(&mut self) {
            panic!("the last of its clones");
        }
    }
    let clock = Mute(ManualClock::new());
    let queue = DelayQueue::with_clock(clock.clone());
    queue.push(1, SECOND).unwrap();
    let mut future = queue.take_async();
    let waker = Waker::from(Arc::new(Bomb));
    assert!(poll_with(&mut future, &waker).is_pending());
    drop(waker); // The future's clone is the last one.
    clock.0.advance(SECOND);
    let polled = catch_unwind(AssertUnwindSafe(|| poll(&mut future)));
    assert!(matches!(polled, Ok(Poll::Ready(Ok(taken))) if taken.value == 1));
}

/// A clock whose alarms never ring.
#[derive(Clone, Debug)]
struct Mute(ManualClock);

impl Clock for Mute {
    fn now(&self) -> Instant {
        self.0.now()
    }
    fn park_until(&self, parker: &Parker, when: Instant) -> bool {
        self.0.park_until(parker, when)
    }
    fn wake_at(&self, _: Instant, _: Waker) -> io::Result<Alarm> {
        Ok(Alarm::new(()))
    }
}

#[test]
fn a_waker_that_panics_does_not_affect_the_pusher() {
    let (queue, _clock) = queue();
    let mut futures = [queue.take_async(), queue.take_async()];
    let waker = testkit::waker_fn(|| panic!("a waker"));
    for future in &mut futures {
        assert!(poll_with(future, &waker).is_pending());
    }
    queue.push(1, NOW).unwrap();
    queue.push(2, NOW).unwrap();
    assert!(futures.iter_mut().all(|future| poll(future).is_ready()));
    assert_eq!(queue.close_now().len(), 0);
}

#[testkit::test]
fn a_waker_may_drop_the_last_handle_of_the_queue() {
    let (queue, clock) = queue();
    let values = DropCounter::new();
    queue.push(values.token(), SECOND).unwrap();
    queue.push(values.token(), 9 * SECOND).unwrap();
    let handle = std::sync::Mutex::new(Some(queue.clone()));
    let waker = testkit::waker_fn(move || drop(handle.lock().unwrap().take()));
    let mut future = queue.take_async();
    assert!(poll_with(&mut future, &waker).is_pending());
    drop(queue);
    clock.advance(SECOND);
    drop(future);
    assert_eq!(values.alive(), 0);
}

#[test]
fn the_last_handle_drops_each_value_once() {
    let (queue, _clock) = queue();
    let values = DropCounter::new();
    for n in 0..100 {
        queue.push(values.token(), n * SECOND).unwrap();
    }
    drop(queue.clone());
    assert_eq!(values.alive(), 100);
    drop(queue);
    assert_eq!((values.alive(), values.dropped()), (0, 100));
}

/// A clock whose waits panic.
#[derive(Clone, Debug)]
struct Sleepless(ManualClock);

impl Clock for Sleepless {
    fn now(&self) -> Instant {
        self.0.now()
    }
    fn park_until(&self, _: &Parker, _: Instant) -> bool {
        panic!("a clock")
    }
    fn wake_at(&self, when: Instant, waker: Waker) -> io::Result<Alarm> {
        self.0.wake_at(when, waker)
    }
}

#[testkit::test]
fn a_clock_that_panics_while_a_thread_waits_leaves_no_waiter_behind() {
    let clock = Sleepless(ManualClock::new());
    let queue = DelayQueue::builder().clock(clock).bound(1);
    let queue = queue.build().unwrap();
    let values = DropCounter::new();
    queue.push(values.token(), SECOND).unwrap();
    let panics = |call: &dyn Fn()| catch_unwind(AssertUnwindSafe(call)).is_err();

    assert!(panics(
        &|| _ = queue.push_timeout(values.token(), NOW, SECOND)
    ));
    assert!(panics(&|| _ = queue.take_timeout(SECOND)));
    assert!(panics(&|| _ = queue.wait_idle_timeout(SECOND)));
    let stats = queue.stats();
    assert_eq!((stats.waiting_pushers, stats.waiting_takers), (0, 0));
    assert_eq!(values.alive(), 1);
    queue.clear();
    assert_eq!((values.alive(), queue.len()), (0, 0));
}
