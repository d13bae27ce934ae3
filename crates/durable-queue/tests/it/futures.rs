//! Batches taken by futures behave like those taken by threads.

use std::future::Future as _;
use std::num::NonZeroUsize;
use std::pin::pin;
use std::task::{Context, Poll, Waker};
use std::thread;

use durable_queue::{Claimed, DurableQueue, HORIZON, ShutDown, Store, When};
use testkit::{CountingWaker, block_on};

use crate::support::{LONG, SECOND, Time, job};

fn some(count: usize) -> NonZeroUsize {
    NonZeroUsize::new(count).unwrap()
}

fn push_now<S: Store>(queue: &DurableQueue<String, S>, jobs: u32) {
    let jobs = (0..jobs).map(|index| (index.to_string(), When::NOW));
    queue.push_batch(jobs.collect()).unwrap();
}

fn names(batch: &[Claimed<String>]) -> Vec<&str> {
    batch.iter().map(|job| job.as_str()).collect()
}

#[testkit::test]
fn take_many_async_takes_due_jobs_and_does_not_wait_for_more() {
    let time = Time::new();
    let queue = time.queue(time.sim());
    push_now(&queue, 5);
    queue.push(job("later"), SECOND * 10).unwrap();
    let three = block_on(queue.take_many_async(some(3))).unwrap();
    assert_eq!(names(&three), ["0", "1", "2"]);
    let mut two = block_on(queue.take_many_async(some(3))).unwrap();
    assert_eq!(names(&two), ["3", "4"]);

    // A future that finds no job waits.
    let mut future = pin!(queue.take_many_async(some(3)));
    let counter = CountingWaker::new();
    let waker = counter.waker();
    let mut context = Context::from_waker(&waker);
    assert!(future.as_mut().poll(&mut context).is_pending());
    time.advance(SECOND * 10 - HORIZON);
    time.advance(HORIZON);
    counter.wait_for_wakes(1);
    let Poll::Ready(taken) = future.as_mut().poll(&mut context) else {
        panic!("it was woken for this");
    };
    let taken = taken.unwrap();
    assert_eq!(names(&taken), ["later"]);
    for job in three.into_iter().chain(two.drain(..)).chain(taken) {
        job.ack().unwrap();
    }
    assert_eq!(queue.store_stats().unwrap().jobs, 0);
}

#[testkit::test]
fn ack_and_take_many_async_makes_one_turn() {
    let time = Time::new();
    let queue = time.queue(time.sim());
    push_now(&queue, 7);
    let mut done = block_on(queue.take_many_async(some(3))).unwrap();
    let turns = queue.stats().turns;
    for (round, left) in [(1, 4), (2, 1)] {
        done = block_on(queue.ack_and_take_many_async(done, some(3))).unwrap();
        assert_eq!(queue.store_stats().unwrap().jobs, left);
        assert_eq!(queue.stats().turns - turns, round);
    }
    assert_eq!(names(&done), ["6"]);
    // A future that finds no job sends its acknowledgements, and is dropped.
    let mut future = pin!(queue.ack_and_take_many_async(done, some(3)));
    let mut context = Context::from_waker(Waker::noop());
    assert!(future.as_mut().poll(&mut context).is_pending());
    while queue.store_stats().unwrap().jobs > 0 {
        thread::yield_now();
    }
}

#[testkit::test]
fn a_dropped_future_of_a_batch_releases_its_jobs_and_its_acknowledgements_stay() {
    let time = Time::new();
    let queue = time.queue(time.sim());
    push_now(&queue, 1);
    let done = block_on(queue.take_many_async(some(1))).unwrap();
    {
        let mut future = pin!(queue.ack_and_take_many_async(done, some(2)));
        let counter = CountingWaker::new();
        let waker = counter.waker();
        let mut context = Context::from_waker(&waker);
        assert!(future.as_mut().poll(&mut context).is_pending());
        push_now(&queue, 2);
        counter.wait_for_wakes(1);
    }
    let other = time.queue(queue.store().clone());
    for _ in 0..2 {
        let taken = other.take().unwrap();
        assert_eq!(taken.attempt(), 1, "an attempt that never began");
        taken.ack().unwrap();
    }
    assert_eq!(queue.store_stats().unwrap().jobs, 0);
}

#[testkit::test]
fn a_futures_acknowledgements_are_sent_even_if_it_is_never_polled_or_refused() {
    let time = Time::new();
    for is_polled in [false, true] {
        let queue = time.queue(time.sim());
        push_now(&queue, 2);
        let done = block_on(queue.take_many_async(some(2))).unwrap();
        if is_polled {
            queue.close();
            let refused = block_on(queue.ack_and_take_many_async(done, some(1)));
            assert!(refused.unwrap_err().is_shut_down());
        } else {
            drop(queue.ack_and_take_many_async(done, some(1)));
        }
        assert_eq!(queue.shutdown(LONG), ShutDown::Finished);
        assert_eq!(queue.store_stats().unwrap().jobs, 0);
    }
}
