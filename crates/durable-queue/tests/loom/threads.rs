//! Two queues with the same threads: a pump's sleep, its next pass on another thread, and the end of the threads.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Waker};

use durable_queue::{DurableQueue, LEASE, ShutDown, TakeFuture, Threads, When};
use durable_queue_testing::{ManualStoreClock, SimStore};
use sync_shim::ManualClock;
use sync_shim::model::spawn;

use super::{Queue, block_on};

/// Each in a store of its own, with a job.
fn queues() -> [Queue; 2] {
    let clock = ManualClock::new();
    let threads = Threads::with_clock(clock.clone());
    ["first", "second"].map(|name| {
        let store = SimStore::new(ManualStoreClock::new(&clock));
        let builder = DurableQueue::builder(name, store).threads(threads.clone());
        builder.heartbeat(false).build().unwrap()
    })
}

fn push(queue: &Queue) {
    queue.push(vec![1], When::NOW).unwrap();
}

/// Requests a job without waiting for it.
fn request(queue: &Queue) -> Pin<Box<TakeFuture<Vec<u8>, SimStore>>> {
    let mut take = Box::pin(queue.take_async());
    let mut context = Context::from_waker(Waker::noop());
    assert!(take.as_mut().poll(&mut context).is_pending());
    take
}

/// A thread goes to sleep after a pass of the one pump, while the other pump is woken: a thread runs it.
#[testkit::model(preemptions = 2)]
fn a_push_racing_the_sleep_of_the_thread_of_another_queue_is_handed_out() {
    let [first, second] = queues();
    let _waits = request(&first);
    let taking = request(&second);
    push(&second);
    drop(block_on(taking).unwrap());
}

/// Both pumps are ready, and each of two threads may take each: no pass is lost.
#[testkit::model(preemptions = 2)]
fn two_threads_racing_for_two_pumps_run_both() {
    let [first, second] = queues();
    push(&first);
    push(&second);
    let (one, other) = (request(&first), request(&second));
    drop(block_on(one).unwrap());
    drop(block_on(other).unwrap());
}

/// The threads end with the last pump, while another queue's first call needs one.
#[testkit::model(preemptions = 2)]
fn the_end_of_the_last_pump_racing_the_start_of_another_leaves_it_a_thread() {
    let [first, second] = queues();
    push(&second);
    let waits = request(&first);
    let ender = spawn(move || first.shutdown(LEASE));
    drop(second.take().unwrap());
    assert_eq!(ender.join().unwrap(), ShutDown::Finished);
    drop(waits);
}
