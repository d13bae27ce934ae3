use std::future::poll_fn;
use std::task::Poll;
use std::thread;

use testkit::{CountingWaker, DropCounter, block_on, waker_fn};

#[test]
fn wakes_and_wakers_are_counted() {
    let counter = CountingWaker::new();
    let waker = counter.waker();
    let clone = waker.clone();
    assert_eq!(counter.wakers(), 2);
    waker.wake_by_ref();
    clone.wake();
    counter.wait_for_wakes(2);
    assert_eq!((counter.wakes(), counter.wakers()), (2, 1));
}

#[test]
fn waker_fn_calls_and_drops_its_function() {
    let (counter, drops) = (CountingWaker::new(), DropCounter::new());
    let (inner, token) = (counter.waker(), drops.token());
    let waker = waker_fn(move || {
        let _ = &token;
        inner.wake_by_ref();
    });
    waker.wake_by_ref();
    assert_eq!((counter.wakes(), drops.dropped()), (1, 0));
    drop(waker);
    assert_eq!(drops.dropped(), 1);
}

#[test]
fn a_blocked_thread_is_woken_when_the_future_is_ready() {
    let mut waiting = None;
    let output = block_on(poll_fn(|cx| {
        if waiting.is_some() {
            return Poll::Ready(5);
        }
        let waker = cx.waker().clone();
        waiting = Some(thread::spawn(move || waker.wake()));
        Poll::Pending
    }));
    assert_eq!(output, 5);
}
