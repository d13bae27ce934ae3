//! Cancel tokens without a pool: parents and children, wake-ups, and memory.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::task::Poll;
use std::thread;
use std::time::Duration;

use pool_core::{CancelToken, Clock, ManualClock};
use testkit::{CountingWaker, waker_fn, waker_whose_clone_panics};

use crate::support::{poll, poll_with};

const SECOND: Duration = Duration::from_secs(1);

#[test]
fn cancelling_a_token_cancels_its_children_and_not_its_parent() {
    let parent = CancelToken::new();
    let (one, other) = (parent.child(), parent.child());
    let grandchild = one.child();
    assert!(one.cancel() && !one.cancel());
    assert!(one.is_cancelled() && grandchild.is_cancelled());
    assert!(!parent.is_cancelled() && !other.is_cancelled());
    assert!(parent.cancel());
    assert!(other.is_cancelled() && parent.child().is_cancelled());
}

#[testkit::test]
fn a_dropped_guard_cancels_its_token_and_a_disarmed_one_does_not() {
    let token = CancelToken::new();
    let child = token.child();
    assert!(!token.clone().drop_guard().disarm().is_cancelled());
    let guard = token.clone().drop_guard();
    assert!(!token.is_cancelled());
    drop(guard);
    assert!(token.is_cancelled() && child.is_cancelled());

    let token = CancelToken::new();
    let guard = token.clone().drop_guard();
    let unwound = thread::spawn(move || {
        let _guard = guard;
        std::panic::resume_unwind(Box::new("not counted, not printed"));
    });
    assert!(unwound.join().is_err() && token.is_cancelled());
}

#[test]
fn a_clone_is_the_same_token_and_dropping_one_cancels_nothing() {
    let token = CancelToken::new();
    let child = token.child();
    drop(token.clone());
    assert!(!child.is_cancelled());
    token.clone().cancel();
    assert!(token.is_cancelled());
    let orphan = CancelToken::new().child();
    assert!(!orphan.is_cancelled(), "its parent was dropped");
}

#[test]
fn a_chain_of_two_hundred_thousand_children_is_cancelled_and_dropped_without_recursion() {
    let first = CancelToken::new();
    let mut last = first.clone();
    let mut middle = None;
    for n in 0..200_000 {
        last = last.child();
        if n == 100_000 {
            middle = Some(last.clone());
        }
    }
    drop(middle);
    assert!(first.cancel() && last.is_cancelled());
    drop((first, last));

    let mut last = CancelToken::new();
    for _ in 0..200_000 {
        last = last.child();
    }
    drop(last); // Only its child refers to each token.
}

#[testkit::test]
fn cancelling_wakes_waiting_threads_and_later_waits_return_at_once() {
    let token = CancelToken::new();
    let waiting = {
        let token = token.clone();
        thread::spawn(move || token.wait())
    };
    token.cancel();
    waiting.join().unwrap();
    token.wait();
    assert!(token.wait_timeout(Duration::MAX) && token.wait_timeout(Duration::ZERO));
}

#[testkit::test]
fn a_wait_ends_at_its_deadline_on_the_given_clock_or_when_the_token_is_cancelled() {
    let (token, clock) = (CancelToken::new(), ManualClock::new());
    let wait = |seconds| {
        let (token, clock) = (token.clone(), clock.clone());
        let deadline = clock.now() + seconds * SECOND;
        thread::spawn(move || token.wait_timeout_by(&clock, deadline))
    };
    let (short, long) = (wait(5), wait(9));
    clock.wait_for_sleepers(2);
    clock.advance(5 * SECOND);
    assert!(!short.join().unwrap());
    token.cancel();
    assert!(long.join().unwrap());
    assert!(!CancelToken::new().wait_timeout(Duration::ZERO));
}

#[test]
fn a_future_calls_its_last_waker_and_keeps_none_after_its_drop() {
    let token = CancelToken::new();
    let (first, last) = (CountingWaker::new(), CountingWaker::new());
    let mut future = token.child().cancelled();
    assert_eq!(poll_with(&mut future, &first.waker()), Poll::Pending);
    assert_eq!(poll_with(&mut future, &last.waker()), Poll::Pending);
    let mut dropped = token.cancelled();
    assert_eq!(poll_with(&mut dropped, &first.waker()), Poll::Pending);
    drop(dropped);
    assert_eq!(first.wakers(), 0);
    token.cancel();
    assert_eq!((first.wakes(), last.wakes()), (0, 1));
    assert_eq!(poll(&mut future), Poll::Ready(true));
    assert_eq!(last.wakers(), 0);
}

#[testkit::test]
fn dropped_children_and_ended_waits_use_no_memory_of_their_token() {
    let token = CancelToken::new();
    let clock = ManualClock::new();
    for _ in 0..100 {
        let child = token.child();
        let (of_child, mut own) = (child.child(), token.cancelled());
        assert!(poll(&mut own).is_pending());
        assert!(!token.wait_timeout_by(&clock, clock.now()));
        drop((child, of_child));
    }
    let shown = format!("{token:?}");
    assert!(shown.contains("listeners: 0"), "{shown}");
}

#[testkit::test]
fn a_waker_may_use_and_drop_the_token_that_calls_it() {
    let token = CancelToken::new();
    let woken = Arc::new(AtomicUsize::new(0));
    let waker = {
        let (token, child, woken) = (token.clone(), token.child(), Arc::clone(&woken));
        waker_fn(move || {
            assert!(token.is_cancelled() && child.is_cancelled());
            token.wait();
            assert!(!token.cancel() && token.child().is_cancelled());
            woken.fetch_add(1, SeqCst);
        })
    };
    let mut future = token.cancelled();
    assert_eq!(poll_with(&mut future, &waker), Poll::Pending);
    drop((future, waker));
    let mut future = token.cancelled();
    let other = CountingWaker::new();
    let panics = waker_fn(|| panic!("a waker"));
    assert_eq!(poll_with(&mut future, &panics), Poll::Pending);
    let mut second = token.cancelled();
    assert_eq!(poll_with(&mut second, &other.waker()), Poll::Pending);
    assert!(token.cancel());
    assert_eq!(other.wakes(), 1, "a panic does not affect other wakers");
}

#[test]
fn a_waker_whose_clone_panics_leaves_the_token_usable() {
    let token = CancelToken::new();
    let mut future = token.cancelled();
    let waker = waker_whose_clone_panics();
    let polled = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        _ = poll_with(&mut future, &waker);
    }));
    assert!(polled.is_err());
    token.cancel();
    assert_eq!(poll(&mut future), Poll::Ready(true));
}
