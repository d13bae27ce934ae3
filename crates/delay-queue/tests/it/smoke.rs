//! The basic calls.

use std::time::Duration;

use delay_queue::{DelayQueue, TakeError};

use crate::support::{SECOND, queue, taker, wait_asleep};

#[testkit::test]
fn smoke() {
    let (queue, clock) = queue();
    queue.push(2, 2 * SECOND).unwrap();
    queue.push(1, SECOND).unwrap();
    let taker = {
        let queue = queue.clone();
        std::thread::spawn(move || [queue.take().unwrap().value, queue.take().unwrap().value])
    };
    clock.wait_for_sleepers(1);
    assert!(matches!(queue.try_take(), Err(TakeError::NotDue)));
    clock.advance(SECOND);
    clock.wait_for_sleepers(1);
    clock.advance(SECOND);
    assert_eq!(taker.join().unwrap(), [1, 2]);
}

#[testkit::test]
fn smoke_async() {
    let queue = DelayQueue::new();
    queue.push(5, Duration::from_millis(1)).unwrap();
    let taken = testkit::block_on(queue.take_async()).unwrap();
    assert_eq!(taken.value, 5);
}

#[testkit::test]
fn clones_of_a_handle_share_the_queue() {
    let (queue, _clock) = queue();
    let other = queue.clone();
    let taker = taker(&other);
    wait_asleep(&queue, 1);
    drop(other);
    queue.push(1, Duration::ZERO).unwrap();
    assert_eq!(taker.join().unwrap().unwrap().value, 1);
    assert_eq!(
        format!("{queue:?}"),
        "DelayQueue { len: 0, closed: false, .. }"
    );
}
