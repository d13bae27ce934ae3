//! Pushers of a full queue.

use std::num::NonZeroUsize;
use std::time::Duration;

use delay_queue::{DelayQueue, ManualClock, PushError};
use sync_shim::Clock;
use sync_shim::model::spawn;

use super::{NOW, Queue, beside, block_on, poll_once, steps, value};

/// A full queue with a bound of one entry.
pub(crate) fn full() -> (Queue, ManualClock) {
    let clock = ManualClock::new();
    let queue = DelayQueue::builder()
        .clock(clock.clone())
        .bound(1)
        .build()
        .unwrap();
    queue.push("first", NOW).unwrap();
    (queue, clock)
}

#[testkit::model(preemptions = 3)]
fn a_take_racing_a_waiting_push_admits_it() {
    let (queue, _clock) = full();
    let pusher = beside(&queue, |queue| queue.push("second", NOW).is_ok());
    assert_eq!(queue.try_take().unwrap().value, "first");
    assert!(pusher.join().unwrap());
    assert_eq!(queue.try_take().unwrap().value, "second");
}

#[testkit::model(preemptions = 3)]
fn a_take_racing_a_waiting_push_future_admits_it() {
    let (queue, _clock) = full();
    let pusher = beside(&queue, |queue| {
        block_on(queue.push_async("second", NOW)).is_ok()
    });
    assert_eq!(queue.try_take().unwrap().value, "first");
    assert!(pusher.join().unwrap());
    assert_eq!(queue.try_take().unwrap().value, "second");
}

#[testkit::model(preemptions = 3)]
fn a_dropped_push_future_racing_a_freed_place_blocks_no_push() {
    let (queue, _clock) = full();
    let mut future = queue.push_async("dropped", NOW);
    assert!(poll_once(&mut future).is_pending());
    let pusher = beside(&queue, |queue| queue.push("second", NOW).unwrap());
    let dropper = beside(&queue, move |queue| {
        drop(future);
        assert!(queue.stats().waiting_pushers <= 1, "it has left the line");
    });
    assert_eq!(queue.try_take().unwrap().value, "first");
    dropper.join().unwrap();
    // The push was admitted before the future was dropped, or it never will be.
    loop {
        match queue.take().unwrap().value {
            "dropped" => {}
            second => {
                assert_eq!(second, "second");
                break;
            }
        }
    }
    pusher.join().unwrap();
}

#[testkit::model(preemptions = 3)]
fn a_push_that_times_out_racing_a_freed_place_is_admitted_or_returned() {
    let (queue, clock) = full();
    let deadline = clock.now() + steps(1);
    let pusher = beside(&queue, move |queue| {
        queue.push_timeout("second", NOW, deadline)
    });
    let mover = spawn(move || clock.advance(steps(1)));
    assert_eq!(queue.try_take().unwrap().value, "first");
    match pusher.join().unwrap() {
        Ok(_) => assert_eq!(queue.try_take().unwrap().value, "second"),
        Err(PushError::TimedOut(value)) => {
            assert_eq!(value, "second");
            assert!(queue.is_empty());
        }
        Err(other) => panic!("{other:?}"),
    }
    mover.join().unwrap();
}

/// The pusher waits or is about to wait.
#[testkit::model(preemptions = 3)]
fn a_close_racing_a_waiting_push_returns_the_value() {
    let (queue, _clock) = full();
    let pusher = beside(&queue, |queue| queue.push("second", NOW));
    queue.close();
    let refused = pusher.join().unwrap();
    assert_eq!(refused, Err(PushError::Closed("second")));
    assert_eq!(queue.len(), 1);
}

/// Places that `close_now` frees admit no pusher.
#[testkit::model(preemptions = 3)]
fn a_close_now_racing_a_waiting_push_returns_the_value() {
    let (queue, _clock) = full();
    let pusher = beside(&queue, |queue| {
        queue.push_timeout("second", NOW, Duration::MAX)
    });
    assert_eq!(queue.close_now().len(), 1);
    assert_eq!(pusher.join().unwrap(), Err(PushError::Closed("second")));
    assert!(queue.is_empty());
}

/// The place of a later entry is given to a due one, while a taker waits for the later one.
#[testkit::model(preemptions = 3)]
fn a_cancel_that_admits_a_due_push_racing_a_taker_wakes_it() {
    let builder = DelayQueue::builder().clock(ManualClock::new());
    let queue: Queue = builder.bound(1).build().unwrap();
    let far = queue.push("far", steps(9)).unwrap();
    let taker = beside(&queue, |queue| value(queue.take()));
    let pusher = beside(&queue, |queue| queue.push("due", NOW).is_ok());
    assert_eq!(queue.cancel(far), Some("far"));
    assert_eq!(taker.join().unwrap().unwrap(), "due");
    assert!(pusher.join().unwrap());
}

#[testkit::model(preemptions = 2)]
fn a_batch_racing_two_waiting_pushes_admits_both() {
    let builder = DelayQueue::builder().clock(ManualClock::new());
    let queue: Queue = builder.bound(2).build().unwrap();
    queue.push("first", NOW).unwrap();
    queue.push("second", NOW).unwrap();
    let pushers = ["third", "fourth"]
        .map(|value| beside(&queue, move |queue| queue.push(value, NOW).is_ok()));
    let mut batch = Vec::new();
    let two = NonZeroUsize::new(2).unwrap();
    assert_eq!(queue.try_take_many(&mut batch, two).unwrap(), 2);
    assert!(pushers.into_iter().all(|pusher| pusher.join().unwrap()));
    assert_eq!(queue.len(), 2);
}
