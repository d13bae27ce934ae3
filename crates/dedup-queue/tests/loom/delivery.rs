//! Adding, taking and releasing keys.

use loom::future::block_on;
use sync_shim::model::spawn;

use super::{Desk, beside, is_at_rest, plain};

/// The second worker gets the key once, after the first one has released it.
#[testkit::model(preemptions = 3)]
fn done_racing_an_add_and_a_second_worker_neither_shares_nor_loses_the_key() {
    let (queue, desk) = (plain(), Desk::new());
    queue.add(1).unwrap();
    let held = queue.get().unwrap();
    let second = {
        let (queue, desk) = (queue.clone(), desk.clone());
        spawn(move || desk.work(&queue))
    };
    let adder = beside(&queue, |queue| _ = queue.add(1).unwrap());
    desk.0.fetch_add(1, sync_shim::atomic::Ordering::Relaxed);
    desk.0.fetch_sub(1, sync_shim::atomic::Ordering::Relaxed);
    drop(held);
    adder.join().unwrap();
    second.join().unwrap();
    is_at_rest(&queue);
}

#[testkit::model(preemptions = 3)]
fn adds_racing_two_getters_wake_both() {
    let queue = plain();
    let getters = [(); 2].map(|()| {
        let queue = queue.clone();
        spawn(move || *queue.get().unwrap())
    });
    queue.add(1).unwrap();
    queue.add(2).unwrap();
    let keys = getters.map(|getter| getter.join().unwrap());
    assert_eq!(keys.iter().sum::<u32>(), 3);
    is_at_rest(&queue);
}

#[testkit::model(preemptions = 2)]
fn adds_racing_a_future_and_a_thread_wake_both() {
    let queue = plain();
    let thread = beside(&queue, |queue| *queue.get().unwrap());
    let future = beside(&queue, |queue| *block_on(queue.get_async()).unwrap());
    queue.add(1).unwrap();
    queue.add(2).unwrap();
    assert_eq!(thread.join().unwrap() + future.join().unwrap(), 3);
    is_at_rest(&queue);
}

/// The future may have been notified. The other waiter gets the key.
#[testkit::model(preemptions = 3)]
fn a_dropped_future_racing_an_add_leaves_the_key_to_the_other_waiter() {
    let queue = plain();
    let mut future = queue.get_async();
    let waker = std::task::Waker::noop();
    let context = &mut std::task::Context::from_waker(waker);
    assert!(std::future::Future::poll(std::pin::Pin::new(&mut future), context).is_pending());
    let other = beside(&queue, |queue| *block_on(queue.get_async()).unwrap());
    let adder = beside(&queue, |queue| _ = queue.add(1).unwrap());
    drop(future);
    adder.join().unwrap();
    assert_eq!(other.join().unwrap(), 1);
    is_at_rest(&queue);
}

/// The key is delivered once more or not at all, as the call reports.
#[testkit::model(preemptions = 3)]
fn a_removal_racing_done_cancels_the_delivery_or_returns_that_it_is_made() {
    let queue = plain();
    queue.add(1).unwrap();
    let held = queue.get().unwrap();
    queue.add(1).unwrap();
    let remover = beside(&queue, |queue| queue.remove(&1).is_some());
    drop(held);
    let delivered = queue.try_get().is_ok();
    let took_back = remover.join().unwrap();
    assert!(delivered != took_back);
    is_at_rest(&queue);
}

/// Each future gets one key. No future counts as notified after it has a key.
#[testkit::model(preemptions = 2)]
fn adds_racing_two_futures_wake_both() {
    let queue = plain();
    let getters = [(); 2].map(|()| {
        let queue = queue.clone();
        spawn(move || *block_on(queue.get_async()).unwrap())
    });
    queue.add(1).unwrap();
    queue.add(2).unwrap();
    let keys = getters.map(|getter| getter.join().unwrap());
    assert_eq!(keys.iter().sum::<u32>(), 3);
    is_at_rest(&queue);
}
