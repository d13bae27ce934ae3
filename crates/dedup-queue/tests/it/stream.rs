//! Guards as a stream.

use std::pin::pin;
use std::task::{Context, Poll, Waker};

use dedup_queue::{Held, Plain};
use futures_lite::{Stream, StreamExt};
use testkit::{CountingWaker, block_on};

use crate::support::{MS, delaying, figures, plain, poll, poll_with, retrying};

/// The next item, if it is ready.
fn next<S: Stream + Unpin>(stream: &mut S) -> Poll<Option<S::Item>> {
    std::pin::Pin::new(stream).poll_next(&mut Context::from_waker(Waker::noop()))
}

#[test]
fn a_stream_yields_each_key_as_it_becomes_ready_and_ends_with_the_queue() {
    let (queue, clock) = delaying();
    let mut stream = pin!(queue.stream());
    queue.add("a").unwrap();
    queue.add_after("b", MS).unwrap();
    assert!(matches!(next(&mut stream), Poll::Ready(Some(Ok(held))) if *held == "a"));
    assert!(next(&mut stream).is_pending());
    clock.advance(MS);
    assert!(matches!(next(&mut stream), Poll::Ready(Some(Ok(held))) if *held == "b"));
    queue.shut_down();
    assert!(matches!(next(&mut stream), Poll::Ready(None)));
    assert!(matches!(next(&mut stream), Poll::Ready(None)));
    assert_eq!(queue.stats().waiting, 0);
}

#[test]
fn a_stream_yields_further_keys_while_guards_are_held_but_no_held_key() {
    let queue = plain();
    let mut stream = queue.stream();
    for key in ["a", "b"] {
        queue.add(key).unwrap();
    }
    let mut held: Vec<Held<'static, &str, Plain>> = Vec::new();
    while let Poll::Ready(Some(Ok(one))) = next(&mut stream) {
        queue.add(*one).unwrap();
        held.push(one);
    }
    assert_eq!(
        figures(queue.stats()),
        [0, 2, 2, 0, 0],
        "both were added while held"
    );
    drop(held.pop());
    assert!(matches!(next(&mut stream), Poll::Ready(Some(Ok(held))) if *held == "b"));
}

#[test]
fn a_stream_that_is_closed_while_a_guard_is_dirty_yields_that_key_once_more() {
    let (queue, _clock) = retrying();
    let mut stream = queue.stream();
    queue.add("a").unwrap();
    let Poll::Ready(Some(Ok(held))) = next(&mut stream) else {
        panic!("it is ready");
    };
    queue.add("a").unwrap();
    queue.shut_down();
    assert!(next(&mut stream).is_pending(), "it is to come once more");
    held.succeed();
    assert!(matches!(next(&mut stream), Poll::Ready(Some(Ok(_)))));
    assert!(matches!(next(&mut stream), Poll::Ready(None)));
}

#[test]
fn a_dropped_stream_takes_no_key_and_passes_its_wake_up_on() {
    let queue = plain();
    let waker = CountingWaker::new();
    let mut stream = queue.stream();
    assert!(next(&mut stream).is_pending());
    let mut future = queue.get_async();
    assert!(poll_with(&mut future, &waker.waker()).is_pending());
    queue.add("a").unwrap();
    assert_eq!(waker.wakes(), 0);
    drop(stream);
    assert_eq!(waker.wakes(), 1);
    assert!(poll(&mut future).is_ready());
}

#[testkit::test]
fn two_streams_of_a_queue_share_its_keys() {
    const COUNT: u32 = 1_000;
    let queue = dedup_queue::DedupQueue::<u32>::new();
    let workers: Vec<_> = (0..2)
        .map(|_| {
            let queue = queue.clone();
            std::thread::spawn(move || {
                block_on(
                    queue
                        .stream()
                        .map(|held| *held.unwrap())
                        .collect::<Vec<_>>(),
                )
            })
        })
        .collect();
    for key in 0..COUNT {
        queue.add(key).unwrap();
    }
    queue.shut_down();
    let keys = workers.into_iter().map(|worker| worker.join().unwrap());
    let mut keys: Vec<_> = keys.flatten().collect();
    keys.sort_unstable();
    assert!(keys.into_iter().eq(0..COUNT));
}
