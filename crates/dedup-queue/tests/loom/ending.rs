//! Shutting down and draining.

use loom::future::block_on;
use sync_shim::model::spawn;

use dedup_queue::{Clock, GetError, KeyQueue, Outcome};

use super::{SECOND, beside, delaying, is_at_rest, plain};

/// Both drains end, and one of them returns the rest.
#[testkit::model(preemptions = 3)]
fn the_last_done_racing_two_drains_ends_both() {
    let queue = plain();
    queue.add(1).unwrap();
    let held = queue.get().unwrap();
    let drains = [(); 2].map(|()| {
        let queue = queue.clone();
        spawn(move || queue.drain())
    });
    drop(held);
    let drained = drains.map(|drain| drain.join().unwrap());
    assert!(
        drained
            .iter()
            .all(|drained| drained.outcome == Outcome::Finished)
    );
    // A second drain that begins after the end reports that no key is left.
    assert!(drained.iter().any(|drained| drained.leftovers.is_some()));
    is_at_rest(&queue);
}

/// A thread and a future wait for the queue to be idle; both waits end, although a key is added
/// right after.
#[testkit::model(preemptions = 3)]
fn the_last_done_racing_waits_for_idleness_ends_both() {
    let queue = plain();
    queue.add(1).unwrap();
    let held = queue.get().unwrap();
    let thread = beside(&queue, KeyQueue::wait_idle);
    let future = beside(&queue, |queue| block_on(queue.wait_idle_async()));
    drop(held);
    thread.join().unwrap();
    future.join().unwrap();
    is_at_rest(&queue);
}

/// Either result is right, but the wait must end.
#[testkit::model(preemptions = 3)]
fn the_last_done_racing_the_deadline_of_a_wait_for_idleness_ends_it() {
    let (queue, clock) = delaying();
    queue.add(1).unwrap();
    let held = queue.get().unwrap();
    let waiter = beside(&queue, |queue| queue.wait_idle_timeout(SECOND));
    let clock = spawn(move || clock.advance(SECOND));
    drop(held);
    _ = waiter.join().unwrap(); // It ends.
    clock.join().unwrap();
    assert!(queue.wait_idle_timeout(SECOND));
}

#[testkit::model(preemptions = 3)]
fn the_last_done_racing_a_drain_future_wakes_it() {
    let queue = plain();
    queue.add(1).unwrap();
    let held = queue.get().unwrap();
    let drain = beside(&queue, |queue| block_on(queue.drain_async()).outcome);
    drop(held);
    assert_eq!(drain.join().unwrap(), Outcome::Finished);
}

/// The key is already dirty.
#[testkit::model(preemptions = 3)]
fn a_worker_racing_a_drain_handles_all_owed_deliveries() {
    let queue = plain();
    queue.add(1).unwrap();
    let held = queue.get().unwrap().into_owned();
    queue.add(1).unwrap();
    let worker = beside(&queue, move |queue| {
        drop(held);
        let mut deliveries = 0;
        while let Ok(held) = queue.get() {
            drop(held);
            deliveries += 1;
        }
        deliveries
    });
    assert_eq!(queue.drain().outcome, Outcome::Finished);
    assert_eq!(worker.join().unwrap(), 1);
    is_at_rest(&queue);
}

/// The drain ends with no key left, or times out and returns the key as held.
#[testkit::model(preemptions = 3)]
fn a_drains_deadline_racing_the_last_done_returns_the_held_key_or_none() {
    let (queue, clock) = delaying();
    queue.add(1).unwrap();
    let held = queue.get().unwrap().into_owned();
    let worker = spawn(move || drop(held));
    let deadline = clock.now() + SECOND;
    let time = spawn(move || clock.advance(SECOND));
    let drained = queue.drain_timeout(deadline);
    let left = drained.leftovers.unwrap();
    match drained.outcome {
        Outcome::Finished => assert!(left.is_empty()),
        Outcome::TimedOut => assert_eq!(left.held.len(), 1),
        other => unreachable!("nothing shuts it down: {other:?}"),
    }
    worker.join().unwrap();
    time.join().unwrap();
    is_at_rest(&queue);
}

#[testkit::model(preemptions = 2)]
fn a_drains_deadline_ends_the_other_drain_too() {
    let (queue, clock) = delaying();
    queue.add(1).unwrap();
    let held = queue.get().unwrap();
    let other = beside(&queue, |queue| queue.drain().outcome);
    let timed = {
        let queue = queue.clone();
        let deadline = clock.now() + SECOND;
        spawn(move || queue.drain_timeout(deadline).outcome)
    };
    clock.advance(SECOND);
    timed.join().unwrap();
    // A drain that starts after the other's end waits for the key.
    drop(held);
    other.join().unwrap();
    is_at_rest(&queue);
}

/// The key is never done: the drain ends, whether it started first or not.
#[testkit::model(preemptions = 3)]
fn a_shut_down_racing_a_drain_ends_it() {
    let queue = plain();
    queue.add(1).unwrap();
    let held = queue.get().unwrap();
    let drain = beside(&queue, |queue| queue.drain().outcome);
    while queue.stats().draining == 0 {
        loom::thread::yield_now();
    }
    queue.shut_down();
    assert_eq!(drain.join().unwrap(), Outcome::ShutDown);
    drop(held);
}

/// The ready key is delivered or returned, whether the shut-down or the deadline ended the drain.
#[testkit::model(preemptions = 3)]
fn a_shut_down_racing_a_drains_deadline_keeps_or_returns_the_ready_key() {
    let (queue, clock) = delaying();
    queue.add(1).unwrap();
    let deadline = clock.now() + SECOND;
    let closer = beside(&queue, move |queue| {
        while queue.stats().draining == 0 && !queue.is_shut_down() {
            loom::thread::yield_now();
        }
        queue.shut_down();
    });
    let time = spawn(move || clock.advance(SECOND));
    let drained = queue.drain_timeout(deadline);
    closer.join().unwrap();
    time.join().unwrap();
    let left = drained.leftovers.is_some_and(|left| left.ready == [1]);
    assert!(left != queue.try_get().is_ok());
}

#[testkit::model(preemptions = 3)]
fn a_shut_down_racing_two_getters_ends_both() {
    let queue = plain();
    let thread = beside(&queue, |queue| {
        assert!(matches!(queue.get(), Err(GetError::Closed)));
    });
    let future = beside(&queue, |queue| {
        assert!(block_on(queue.get_async()).is_err());
    });
    queue.shut_down();
    thread.join().unwrap();
    future.join().unwrap();
}

#[testkit::model(preemptions = 3)]
fn a_shut_down_racing_an_add_delivers_or_refuses_the_key() {
    let queue = plain();
    let adder = beside(&queue, |queue| queue.add(1).is_ok());
    let getter = beside(&queue, |queue| queue.get().is_ok());
    queue.shut_down();
    let (accepted, got) = (adder.join().unwrap(), getter.join().unwrap());
    assert_eq!(accepted, got);
    is_at_rest(&queue);
}

/// No getter may end while the dirty key is owed a delivery, because closed is final.
#[testkit::model(preemptions = 3)]
fn a_shut_down_racing_the_done_of_a_dirty_key_ends_no_getter_too_early() {
    let queue = plain();
    queue.add(1).unwrap();
    let held = queue.get().unwrap().into_owned();
    queue.add(1).unwrap();
    let getter = beside(&queue, |queue| *queue.get().unwrap());
    let worker = spawn(move || drop(held));
    queue.shut_down();
    worker.join().unwrap();
    assert_eq!(getter.join().unwrap(), 1);
    assert!(matches!(queue.get(), Err(GetError::Closed)));
}

/// A `try_get` takes the last key after a future, which is never polled, was notified of it: the
/// other waiters end.
#[testkit::model(preemptions = 3)]
fn a_last_key_taken_before_a_notified_future_is_polled_ends_the_other_waiters() {
    let queue = plain();
    queue.add(1).unwrap();
    let held = queue.get().unwrap();
    queue.add(1).unwrap();
    queue.shut_down();
    let mut never_polled_again = queue.get_async();
    let context = &mut std::task::Context::from_waker(std::task::Waker::noop());
    let first = std::future::Future::poll(std::pin::Pin::new(&mut never_polled_again), context);
    assert!(first.is_pending());
    let other = beside(&queue, |queue| block_on(queue.get_async()).map(drop));
    drop(held);
    let taken = queue.get();
    let other = other.join().unwrap();
    assert!(taken.is_ok() != other.is_ok());
}

/// The shut-down comes first, and one of two getters takes the last key.
#[testkit::model(preemptions = 3)]
fn the_last_key_taken_racing_another_getter_ends_that_getter() {
    let queue = plain();
    queue.add(1).unwrap();
    let held = queue.get().unwrap();
    queue.add(1).unwrap();
    queue.shut_down();
    let getters = [(); 2].map(|()| {
        let queue = queue.clone();
        spawn(move || queue.get().is_ok())
    });
    drop(held);
    let got = getters.map(|getter| getter.join().unwrap());
    assert_eq!(got.iter().filter(|&&got| got).count(), 1);
    is_at_rest(&queue);
}
