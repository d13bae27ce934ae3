//! A channel that a thread feeds.

use std::thread;
use std::time::Duration;

use crossbeam_channel::{RecvTimeoutError, TryRecvError};
use delay_queue::DelayQueue;
use testkit::DropCounter;

use crate::support::{NOW, SECOND, queue, taker, until, wait_asleep};

#[testkit::test]
fn a_channel_receives_due_entries_and_ends_with_the_queue() {
    let (queue, clock) = queue();
    let (receiver, _feeder) = queue.channel(0).unwrap();
    queue.push(2, 2 * SECOND).unwrap();
    queue.push(1, SECOND).unwrap();
    for n in 1..=2 {
        clock.wait_for_sleepers(1);
        assert_eq!(receiver.try_recv(), Err(TryRecvError::Empty));
        clock.advance(SECOND);
        assert_eq!(receiver.recv().unwrap().value, n);
    }
    queue.push(3, SECOND).unwrap();
    queue.close();
    clock.wait_for_sleepers(1);
    clock.advance(SECOND);
    assert_eq!(receiver.recv().unwrap().value, 3);
    assert!(receiver.recv().is_err(), "the feeder has ended");
}

#[testkit::test]
fn a_received_entry_has_its_id_and_time_and_counts_as_taken() {
    let (queue, _clock) = queue();
    let id = queue.push(1, NOW).unwrap();
    let (receiver, feeder) = queue.channel(0).unwrap();
    let item = receiver.recv().unwrap();
    assert_eq!((item.value, item.id), (1, id));
    feeder.stop();
    let stats = queue.stats();
    assert_eq!((stats.len, stats.taken), (0, 1));
    assert_eq!(queue.cancel(id), None);
}

/// A receiver that polls only occasionally gets entries too.
#[testkit::test]
fn a_channel_without_a_buffer_serves_a_receiver_that_polls() {
    let (queue, _clock) = queue();
    let (receiver, _feeder) = queue.channel(0).unwrap();
    queue.push(1, NOW).unwrap();
    until(|| receiver.try_recv().is_ok());
    let waited = receiver.recv_timeout(Duration::ZERO);
    assert_eq!(waited.unwrap_err(), RecvTimeoutError::Timeout);
    queue.close();
}

/// The Go queue loses the entry that its goroutine has taken and cannot send.
#[testkit::test]
fn stopping_a_feeder_that_waits_for_a_receiver_returns_its_entry() {
    let (queue, _clock) = queue();
    let ids = [1, 2, 3].map(|n| queue.push(n, NOW).unwrap());
    let (receiver, feeder) = queue.channel(0).unwrap();
    until(|| queue.len() == 2); // The feeder holds an entry.
    assert_eq!(
        queue.cancel(ids[0]),
        None,
        "only the feeder has it meanwhile"
    );
    feeder.stop();
    assert!(receiver.try_recv().is_err());
    assert_eq!(queue.len(), 3);
    // The entry is first again, and its id is valid again.
    assert_eq!(queue.try_take().unwrap().id, ids[0]);
    assert_eq!(queue.cancel(ids[1]), Some(2));
    assert_eq!(queue.try_take().unwrap().value, 3);
}

#[testkit::test]
fn stopping_a_feeder_that_waits_for_a_due_time_ends_it() {
    let (queue, clock) = queue();
    queue.push(1, SECOND).unwrap();
    let (receiver, feeder) = queue.channel(3).unwrap();
    clock.wait_for_sleepers(1);
    feeder.stop();
    assert!(receiver.recv().is_err());
    assert_eq!((queue.len(), clock.sleepers()), (1, 0));
    let (receiver, feeder) = queue.channel(0).unwrap();
    clock.wait_for_sleepers(1);
    clock.advance(SECOND);
    assert_eq!(receiver.recv().unwrap().value, 1);
    feeder.stop();
}

#[testkit::test]
fn stopping_an_idle_feeder_ends_it() {
    let (queue, _clock) = queue::<u8>();
    let (_receiver, feeder) = queue.channel(0).unwrap();
    wait_asleep(&queue, 1);
    feeder.stop();
    assert_eq!(queue.stats().waiting_takers, 0);
}

#[testkit::test]
fn dropping_a_feeder_detaches_its_thread() {
    let (queue, clock) = queue();
    let (receiver, feeder) = queue.channel(0).unwrap();
    drop(feeder);
    queue.push(1, SECOND).unwrap();
    clock.wait_for_sleepers(1);
    clock.advance(SECOND);
    assert_eq!(receiver.recv().unwrap().value, 1);
    queue.close();
    assert!(receiver.recv().is_err());
}

#[testkit::test]
fn a_feeder_without_receivers_returns_its_entry_and_ends() {
    let (queue, _clock) = queue();
    let id = queue.push(1, NOW).unwrap();
    let (receiver, feeder) = queue.channel(0).unwrap();
    until(|| queue.is_empty()); // The feeder holds the entry.
    drop(receiver);
    assert_eq!(
        queue.take().unwrap().id,
        id,
        "the waiting taker gets it too"
    );
    feeder.stop();
}

#[testkit::test]
fn a_feeder_notices_a_dropped_receiver_with_the_next_entry() {
    let (queue, clock) = queue();
    let (receiver, _feeder) = queue.channel(0).unwrap();
    drop(receiver);
    queue.push(1, SECOND).unwrap();
    clock.wait_for_sleepers(1);
    let waiting = taker(&queue);
    wait_asleep(&queue, 2);
    clock.advance(SECOND);
    assert_eq!(waiting.join().unwrap().unwrap().value, 1);
    until(|| queue.stats().waiting_takers == 0);
}

#[testkit::test]
fn a_feeder_sends_the_remaining_entries_after_close() {
    let (queue, _clock) = queue();
    (0..10).for_each(|n| _ = queue.push(n, NOW).unwrap());
    let (receiver, _feeder) = queue.channel(0).unwrap();
    queue.close();
    assert!(receiver.iter().map(|item| item.value).eq(0..10));
}

#[testkit::test]
fn close_now_returns_the_feeders_entry_in_order() {
    let (queue, _clock) = queue();
    (0..3).for_each(|n| _ = queue.push(n, NOW).unwrap());
    let (receiver, _feeder) = queue.channel(0).unwrap();
    until(|| queue.len() == 2);
    let left: Vec<_> = queue
        .close_now()
        .into_iter()
        .map(|left| left.value)
        .collect();
    assert_eq!(left, [0, 1, 2]);
    assert!(receiver.recv().is_err());
    assert!(queue.is_empty());
}

#[testkit::test]
fn a_taker_waits_while_a_feeder_holds_the_last_entry() {
    let (queue, _clock) = queue();
    queue.push(1, NOW).unwrap();
    let (_receiver, feeder) = queue.channel(0).unwrap();
    until(|| queue.is_empty());
    let waiting = taker(&queue);
    wait_asleep(&queue, 1);
    queue.close();
    assert_eq!(queue.stats().waiting_takers, 1);
    feeder.stop();
    assert_eq!(waiting.join().unwrap().unwrap().value, 1);
}

#[testkit::test]
fn an_entry_cleared_while_a_feeder_holds_it_does_not_return() {
    let (queue, _clock) = queue();
    let values = DropCounter::new();
    queue.push(values.token(), NOW).unwrap();
    let (_receiver, feeder) = queue.channel(0).unwrap();
    until(|| queue.is_empty());
    queue.clear();
    assert_eq!(values.alive(), 1);
    feeder.stop();
    assert_eq!((values.alive(), queue.len()), (0, 0));
}

#[testkit::test]
fn the_feeders_entry_counts_towards_the_bound() {
    let queue = DelayQueue::<u8>::builder().bound(1).build().unwrap();
    queue.push(1, NOW).unwrap();
    let (receiver, feeder) = queue.channel(0).unwrap();
    until(|| queue.is_empty());
    assert!(queue.try_push(2, NOW).unwrap_err().is_full());
    assert_eq!(receiver.recv().unwrap().value, 1);
    until(|| queue.try_push(2, NOW).is_ok());
    feeder.stop();
}

/// The documented behaviour of buffers.
#[testkit::test]
fn buffered_entries_are_dropped_with_the_last_receiver() {
    let (queue, _clock) = queue();
    let values = DropCounter::new();
    (0..5).for_each(|_| _ = queue.push(values.token(), NOW).unwrap());
    let (receiver, feeder) = queue.channel(2).unwrap();
    until(|| receiver.len() == 2 && queue.len() == 2);
    drop(receiver);
    feeder.stop();
    assert_eq!((queue.len(), values.alive()), (3, 3));
}

#[test]
fn a_buffer_larger_than_any_queue_is_an_error() {
    let (queue, _clock) = queue::<u8>();
    let error = queue.channel(usize::MAX).unwrap_err();
    assert_eq!(error.kind(), std::io::ErrorKind::InvalidInput);
}

#[testkit::test]
fn feeders_threads_and_futures_share_a_queue() {
    let queue = DelayQueue::new();
    let (one, _feeder) = queue.channel(0).unwrap();
    let (two, _feeder) = queue.channel(4).unwrap();
    let takers = [
        thread::spawn(move || one.iter().count()),
        thread::spawn(move || two.iter().count()),
        {
            let queue = queue.clone();
            thread::spawn(move || std::iter::from_fn(|| queue.take().ok()).count())
        },
    ];
    for n in 0..1_000 {
        queue.push(n, Duration::from_micros(n % 500)).unwrap();
    }
    queue.close();
    let taken: usize = takers.into_iter().map(|taker| taker.join().unwrap()).sum();
    assert_eq!(taken, 1_000);
}

/// Stops feeders at random moments, many times: no entry is lost or received twice.
#[testkit::test]
fn feeders_stopped_at_random_lose_no_entry() {
    let (queue, _clock) = queue();
    (0..500_u64).for_each(|n| _ = queue.push(n, NOW).unwrap());
    let mut values = Vec::new();
    for round in 0..50 {
        let (receiver, feeder) = queue.channel(0).unwrap();
        for _ in 0..round % 7 {
            values.push(receiver.recv().unwrap().value);
        }
        feeder.stop();
    }
    values.extend(queue.close_now().into_iter().map(|left| left.value));
    assert!(values.into_iter().eq(0..500), "in order, each once");
}

#[cfg(target_os = "linux")]
#[testkit::test]
fn the_thread_of_a_feeder_has_a_name() {
    let (queue, _clock) = queue::<u8>();
    let (_receiver, feeder) = queue.channel(0).unwrap();
    wait_asleep(&queue, 1);
    let names = testkit::thread_names();
    let named = names.iter().filter(|name| *name == "anthill-feeder");
    assert!(named.count() >= 1);
    feeder.stop();
}

/// The feeder's entry fills the queue: closing must reject the pusher without waiting for the
/// feeder.
#[testkit::test]
fn close_rejects_a_waiting_pusher_while_a_feeder_holds_the_only_entry() {
    let queue = DelayQueue::<u8>::builder().bound(1).build().unwrap();
    queue.push(1, NOW).unwrap();
    let (receiver, _feeder) = queue.channel(0).unwrap();
    until(|| queue.is_empty());
    let pusher = {
        let queue = queue.clone();
        thread::spawn(move || queue.push(2, NOW))
    };
    until(|| queue.stats().waiting_pushers == 1);
    queue.close();
    assert_eq!(pusher.join().unwrap().unwrap_err().into_value(), 2);
    assert_eq!(receiver.recv().unwrap().value, 1);
}

/// Several threads call `close_now` while the feeder holds an entry: one call returns the entry,
/// and all calls return.
#[testkit::test]
fn several_close_now_calls_all_return_and_one_has_the_entry() {
    let (queue, _clock) = queue();
    queue.push(1, NOW).unwrap();
    let (_receiver, _feeder) = queue.channel(0).unwrap();
    until(|| queue.is_empty());
    let closers: Vec<_> = (0..3)
        .map(|_| {
            let queue = queue.clone();
            thread::spawn(move || queue.close_now().len())
        })
        .collect();
    let left = closers.into_iter().map(|closer| closer.join().unwrap());
    assert_eq!(left.sum::<usize>(), 1);
}
