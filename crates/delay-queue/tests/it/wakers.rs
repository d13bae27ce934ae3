//! Wakers whose clone, wake or drop panics, in every future of the queue. At most the caller sees
//! the panic of its own waker. The queue and the other waiters are unaffected.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::task::{Poll, RawWaker, RawWakerVTable, Waker};

use delay_queue::{DelayQueue, ManualClock, PushError};
use testkit::{CountingWaker, DropCounter};

use crate::support::{NOW, SECOND, poll, poll_with, queue};

/// The behaviour of a waker in each of its functions. Wakers with the same conduct are clones of
/// one another.
#[derive(Default)]
struct Conduct {
    /// The number of the clone that panics; 0: none.
    bad_clone: usize,
    bad_drop: bool,
    clones: AtomicUsize,
    drops: AtomicUsize,
}

impl Conduct {
    fn waker(self) -> (Waker, Arc<Self>) {
        let conduct = Arc::new(self);
        // SAFETY: the functions of the table cast the data to an `Arc<Conduct>`, as created here.
        let waker = unsafe { Waker::from_raw(raw(Arc::clone(&conduct))) };
        (waker, conduct)
    }

    fn cloned(&self) {
        let number = 1 + self.clones.fetch_add(1, SeqCst);
        assert!(number != self.bad_clone, "a waker's clone");
    }

    fn dropped(&self) {
        self.drops.fetch_add(1, SeqCst);
        assert!(!self.bad_drop, "a waker's drop");
    }
}

fn raw(conduct: Arc<Conduct>) -> RawWaker {
    unsafe fn take(data: *const ()) -> Arc<Conduct> {
        // SAFETY: the caller owns one count of the `Arc` from which the data was created.
        unsafe { Arc::from_raw(data.cast()) }
    }
    static TABLE: RawWakerVTable = RawWakerVTable::new(
        |data| {
            // SAFETY: the waker is borrowed, so its count must stay. `ManuallyDrop` keeps it.
            let ours = std::mem::ManuallyDrop::new(unsafe { take(data) });
            ours.cloned();
            raw(Arc::clone(&ours))
        },
        // SAFETY: `wake` consumes the waker and its count.
        |data| unsafe { take(data) }.dropped(),
        |_| (),
        // SAFETY: as in `wake`.
        |data| unsafe { take(data) }.dropped(),
    );
    RawWaker::new(Arc::into_raw(conduct).cast(), &TABLE)
}

fn is_panic<R>(call: impl FnOnce() -> R) -> bool {
    catch_unwind(AssertUnwindSafe(call)).is_err()
}

/// Forgets a waker whose drop would panic here.
fn forget(waker: Waker) {
    std::mem::forget(waker);
}

fn full() -> (DelayQueue<u32, ManualClock>, ManualClock) {
    let clock = ManualClock::new();
    let queue = DelayQueue::<u32>::builder().clock(clock.clone()).bound(1);
    let queue = queue.build().unwrap();
    queue.push(0, SECOND).unwrap();
    (queue, clock)
}

#[test]
fn a_waker_clone_that_panics_leaves_a_take_future_unchanged() {
    let (queue, _clock) = queue();
    let (waker, _) = Conduct {
        bad_clone: 2,
        ..Conduct::default()
    }
    .waker();
    let mut future = queue.take_async();
    assert!(poll_with(&mut future, &waker).is_pending());
    assert!(is_panic(|| poll_with(&mut future, &waker)));
    assert_eq!(
        queue.stats().waiting_takers,
        1,
        "it waits with the first clone"
    );
    let other = CountingWaker::new();
    let mut next = queue.take_async();
    assert!(poll_with(&mut next, &other.waker()).is_pending());
    queue.push(1, NOW).unwrap(); // Notifies it, and its executor drops it.
    drop(future);
    assert_eq!(other.wakes(), 1);
    assert!(poll(&mut next).is_ready());
}

#[test]
fn a_panic_in_the_first_waker_clone_leaves_no_waiter_behind() {
    let (queue, _clock) = queue::<u32>();
    let (waker, _) = Conduct {
        bad_clone: 1,
        ..Conduct::default()
    }
    .waker();
    let mut future = queue.take_async();
    assert!(is_panic(|| poll_with(&mut future, &waker)));
    assert_eq!(queue.stats().waiting_takers, 0);
    let (full, _clock) = full();
    let (waker, _) = Conduct {
        bad_clone: 1,
        ..Conduct::default()
    }
    .waker();
    let mut push = full.push_async(1, NOW);
    assert!(is_panic(|| poll_with(&mut push, &waker)));
    assert_eq!(full.stats().waiting_pushers, 0);
    full.clear();
    assert!(
        matches!(poll(&mut push), Poll::Ready(Ok(_))),
        "the value is still its own"
    );
}

#[test]
fn a_waker_clone_that_panics_leaves_a_push_future_waiting() {
    let (queue, _clock) = full();
    let (waker, _) = Conduct {
        bad_clone: 2,
        ..Conduct::default()
    }
    .waker();
    let mut future = queue.push_async(1, NOW);
    assert!(poll_with(&mut future, &waker).is_pending());
    assert!(is_panic(|| poll_with(&mut future, &waker)));
    assert_eq!(queue.stats().waiting_pushers, 1);
    queue.clear();
    assert_eq!(queue.len(), 1, "it has been let in");
    assert!(matches!(poll(&mut future), Poll::Ready(Ok(_))));
}

#[test]
fn a_take_future_keeps_its_place_and_entry_if_wakers_panic_in_their_drops() {
    let (queue, _clock) = queue();
    let (bad, conduct) = Conduct {
        bad_drop: true,
        ..Conduct::default()
    }
    .waker();
    let mut future = queue.take_async();
    assert!(poll_with(&mut future, &bad).is_pending());
    assert!(poll_with(&mut future, &bad).is_pending());
    assert_eq!(conduct.drops.load(SeqCst), 1, "the old one panicked");
    assert_eq!(queue.stats().waiting_takers, 1);
    queue.push(2, NOW).unwrap(); // Its wake panics.
    assert!(matches!(poll_with(&mut future, &bad), Poll::Ready(Ok(taken)) if taken.value == 2));
    assert_eq!(conduct.drops.load(SeqCst), 3, "so did the one it came with");
    forget(bad);
}

/// Another future is notified of the entry, and this one is polled first: its old waker and its new
/// one are dropped together.
#[test]
fn the_old_and_the_new_waker_may_both_panic_as_an_entry_is_taken() {
    let (queue, _clock) = queue();
    let (bad, conduct) = Conduct {
        bad_drop: true,
        ..Conduct::default()
    }
    .waker();
    let mut called = queue.take_async();
    assert!(poll(&mut called).is_pending());
    let mut first = queue.take_async();
    assert!(poll_with(&mut first, &bad).is_pending());
    queue.push(1, NOW).unwrap();
    assert!(matches!(poll_with(&mut first, &bad), Poll::Ready(Ok(taken)) if taken.value == 1));
    assert_eq!(conduct.drops.load(SeqCst), 2, "both panicked");
    forget(bad);
}

#[test]
fn a_push_future_keeps_its_place_and_result_if_wakers_panic_in_their_drops() {
    let (queue, _clock) = full();
    let (bad, _) = Conduct {
        bad_drop: true,
        ..Conduct::default()
    }
    .waker();
    let mut future = queue.push_async(1, NOW);
    assert!(poll_with(&mut future, &bad).is_pending());
    assert!(poll_with(&mut future, &bad).is_pending());
    assert_eq!(queue.stats().waiting_pushers, 1);
    queue.clear();
    assert!(matches!(poll_with(&mut future, &bad), Poll::Ready(Ok(_))));
    let mut refused = queue.push_async(2, NOW);
    queue.close();
    let polled = poll_with(&mut refused, &bad);
    assert!(matches!(polled, Poll::Ready(Err(PushError::Closed(2)))));
    forget(bad);
}

/// The value and the waker wait in the queue together: the caller sees the value's panic.
#[test]
fn a_push_future_may_be_dropped_with_a_value_and_a_waker_that_both_panic() {
    let queue = DelayQueue::<(Option<testkit::PanicOnDrop>, testkit::Counted)>::builder();
    let queue = queue.clock(ManualClock::new()).bound(1).build().unwrap();
    let values = DropCounter::new();
    queue.push((None, values.token()), NOW).unwrap();
    let (bad, _) = Conduct {
        bad_drop: true,
        ..Conduct::default()
    }
    .waker();
    let bomb = Some(testkit::PanicOnDrop::new());
    let mut future = queue.push_async((bomb, values.token()), NOW);
    assert!(poll_with(&mut future, &bad).is_pending());
    assert!(is_panic(|| drop(future)));
    assert_eq!((values.alive(), queue.stats().waiting_pushers), (1, 0));
    forget(bad);
}

#[cfg(feature = "stream")]
#[test]
fn a_stream_whose_waker_panics_yields_every_entry() {
    use futures_core::Stream;
    use std::pin::Pin;
    use std::task::Context;

    let (queue, _clock) = queue();
    let mut stream = queue.stream();
    let mut next = |waker: &Waker| {
        let mut context = Context::from_waker(waker);
        Pin::new(&mut stream).poll_next(&mut context)
    };
    let (bad, _) = Conduct {
        bad_drop: true,
        ..Conduct::default()
    }
    .waker();
    for n in 0..3 {
        assert!(next(&bad).is_pending());
        queue.push(n, NOW).unwrap();
        assert!(matches!(next(&bad), Poll::Ready(Some(Ok(taken))) if taken.value == n));
    }
    let (worse, _) = Conduct {
        bad_clone: 1,
        ..Conduct::default()
    }
    .waker();
    queue.push(3, NOW).unwrap();
    assert!(is_panic(|| next(&worse)));
    assert!(matches!(next(Waker::noop()), Poll::Ready(Some(Ok(taken))) if taken.value == 3));
    forget(bad);
}
