//! It works at all.

use std::thread;
use std::time::Duration;

use delay_queue::{DelayQueue, ManualClock, TakeError};

const SECOND: Duration = Duration::from_secs(1);

#[test]
fn smoke() {
    let clock = ManualClock::new();
    let queue = DelayQueue::with_clock(clock.clone());
    queue.push(2, 2 * SECOND).unwrap();
    queue.push(1, SECOND).unwrap();
    let taker = {
        let queue = queue.clone();
        thread::spawn(move || [queue.take().unwrap().value, queue.take().unwrap().value])
    };
    clock.wait_for_sleepers(1);
    assert!(matches!(queue.try_take(), Err(TakeError::NotDue)));
    clock.advance(SECOND);
    clock.wait_for_sleepers(1);
    clock.advance(SECOND);
    assert_eq!(taker.join().unwrap(), [1, 2]);
}

#[test]
fn smoke_of_futures() {
    let queue = DelayQueue::new();
    queue.push(5, Duration::from_millis(1)).unwrap();
    let taken = testkit::block_on(queue.take_async()).unwrap();
    assert_eq!(taken.value, 5);
}
