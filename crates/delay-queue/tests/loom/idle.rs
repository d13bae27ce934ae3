//! Waiting until the queue is idle.

use super::{NOW, beside, block_on, poll_once, queue};

#[testkit::model(preemptions = 3)]
fn a_take_racing_a_wait_for_idle_ends_it() {
    let (queue, _clock) = queue();
    queue.push("last", NOW).unwrap();
    let taker = beside(&queue, |queue| queue.try_take().unwrap().value);
    queue.wait_idle();
    assert!(queue.is_empty());
    assert_eq!(taker.join().unwrap(), "last");
}

/// As above; another future is dropped meanwhile.
#[testkit::model(preemptions = 3)]
fn a_take_racing_a_wait_for_idle_future_ends_it() {
    let (queue, _clock) = queue();
    queue.push("last", NOW).unwrap();
    let mut dropped = queue.wait_idle_async();
    assert!(poll_once(&mut dropped).is_pending());
    let taker = beside(&queue, |queue| queue.try_take().unwrap().value);
    drop(dropped);
    block_on(queue.wait_idle_async());
    assert!(queue.is_empty());
    assert_eq!(taker.join().unwrap(), "last");
}
