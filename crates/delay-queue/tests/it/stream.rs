//! Due entries as a stream.

use std::pin::pin;
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use delay_queue::{DelayQueue, TakeError};
use futures_lite::StreamExt;
use testkit::block_on;

use crate::support::{NOW, SECOND, Witness, queue};

#[testkit::test]
fn a_stream_yields_due_entries_and_ends_with_the_queue() {
    let queue = DelayQueue::new();
    for n in [3, 1, 2] {
        queue.push(n, Duration::from_millis(n)).unwrap();
    }
    queue.close();
    let values: Vec<_> = block_on(queue.stream().map(|item| item.unwrap().value).collect());
    assert_eq!(values.len(), 3);
    assert!(block_on(queue.stream().next()).is_none());
}

#[testkit::test]
fn an_ended_stream_stays_ended() {
    let (queue, _clock) = queue();
    let mut stream = queue.stream();
    let id = queue.push(1, Duration::MAX).unwrap();
    queue.close();
    assert!(block_on(stream.next()).is_none());
    // The entry gets a time after the end: other takers receive it.
    queue.reset(id, NOW);
    assert!(block_on(stream.next()).is_none());
    assert_eq!(queue.try_take().unwrap().value, 1);
}

#[test]
fn a_stream_yields_in_the_order_of_due_times() {
    let (queue, clock) = queue();
    let mut stream = pin!(queue.stream());
    let mut next = || {
        stream
            .as_mut()
            .poll_next(&mut Context::from_waker(Waker::noop()))
    };
    queue.push(2, 2 * SECOND).unwrap();
    queue.push(1, SECOND).unwrap();
    assert!(next().is_pending());
    for n in 1..=2 {
        clock.advance(SECOND);
        assert!(matches!(next(), Poll::Ready(Some(Ok(item))) if item.value == n));
        assert!(next().is_pending());
    }
}

#[test]
fn a_dropped_stream_takes_no_entry() {
    let (queue, clock) = queue();
    queue.push(1, SECOND).unwrap();
    {
        let mut stream = pin!(queue.stream());
        let polled = stream
            .as_mut()
            .poll_next(&mut Context::from_waker(Waker::noop()));
        assert!(polled.is_pending());
        clock.advance(SECOND);
    }
    assert_eq!(queue.try_take().unwrap().value, 1);
    assert_eq!(queue.stats().waiting_takers, 0);
}

#[testkit::test]
fn two_streams_share_the_entries() {
    let queue = DelayQueue::new();
    let takers: Vec<_> = (0..2)
        .map(|_| {
            let stream = queue.stream();
            std::thread::spawn(move || block_on(stream.map(|item| item.unwrap()).count()))
        })
        .collect();
    for n in 0..100 {
        queue.push(n, Duration::from_micros(n)).unwrap();
    }
    queue.close();
    let taken: usize = takers.into_iter().map(|taker| taker.join().unwrap()).sum();
    assert_eq!(taken, 100);
}

#[testkit::test]
fn a_stream_without_an_alarm_yields_the_error_and_can_be_polled_again() {
    let (queue, clock) = Witness::queue();
    clock.fail(true);
    queue.push(1, SECOND).unwrap();
    let mut stream = queue.stream();
    let item = block_on(stream.next()).unwrap();
    assert!(matches!(item, Err(TakeError::NoAlarm(_))));
    clock.advance(SECOND);
    assert_eq!(block_on(stream.next()).unwrap().unwrap().value, 1);
}
