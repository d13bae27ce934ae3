//! Futures on several async runtimes, dropped at every stage, along with threads.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::task::Poll;
use std::thread;
use std::time::Duration;

use async_executor::Executor;
use delay_queue::{DelayQueue, TakeError};
use testkit::{CountingWaker, Rng, block_on};

use crate::support::{NOW, SECOND, poll, poll_with, queue};

const MILLISECOND: Duration = Duration::from_millis(1);

/// Takes until the queue ends. Returns the sum and the number of the values.
async fn take_all(queue: DelayQueue<u64>) -> (u64, u64) {
    let (mut count, mut sum) = (0, 0);
    while let Ok(taken) = queue.take_async().await {
        (count, sum) = (count + 1, sum + taken.value);
    }
    (count, sum)
}

fn fill(queue: &DelayQueue<u64>) {
    for n in 0..1_000 {
        queue.push(n, Duration::from_micros(n * 7 % 3_000)).unwrap();
    }
    queue.close();
}

fn check(taken: impl IntoIterator<Item = (u64, u64)>) {
    let (count, sum) = taken
        .into_iter()
        .fold((0, 0), |all, one| (all.0 + one.0, all.1 + one.1));
    assert_eq!((count, sum), (1_000, 499_500));
}

#[testkit::test]
fn a_future_takes_under_tokio() {
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .build(); // Without its timer: the clock's alarm suffices.
    let runtime = runtime.unwrap();
    let queue = DelayQueue::new();
    let tasks: Vec<_> = (0..8)
        .map(|_| runtime.spawn(take_all(queue.clone())))
        .collect();
    fill(&queue);
    check(
        tasks
            .into_iter()
            .map(|task| runtime.block_on(task).unwrap()),
    );
}

#[testkit::test]
fn a_future_takes_under_smol() {
    let executor = Executor::new();
    let queue = DelayQueue::new();
    let tasks: Vec<_> = (0..8)
        .map(|_| executor.spawn(take_all(queue.clone())))
        .collect();
    fill(&queue);
    let taken = futures_lite::future::block_on(executor.run(async {
        let mut taken = Vec::new();
        for task in tasks {
            taken.push(task.await);
        }
        taken
    }));
    check(taken);
}

#[testkit::test]
fn a_future_takes_without_a_runtime() {
    let queue = DelayQueue::new();
    fill(&queue);
    check([block_on(take_all(queue))]);
}

#[testkit::test]
fn threads_and_futures_share_a_queue() {
    let queue = DelayQueue::new();
    let takers: Vec<_> = (0..6)
        .map(|n| {
            let queue = queue.clone();
            thread::spawn(move || {
                if n % 2 == 0 {
                    return block_on(take_all(queue));
                }
                let taken = std::iter::from_fn(|| queue.take().ok());
                taken.fold((0, 0), |all, one| (all.0 + 1, all.1 + one.value))
            })
        })
        .collect();
    fill(&queue);
    check(takers.into_iter().map(|taker| taker.join().unwrap()));
}

#[test]
fn a_future_that_is_never_polled_neither_takes_nor_waits() {
    let (queue, _clock) = queue();
    queue.push(1, NOW).unwrap();
    drop(queue.take_async());
    assert_eq!(queue.stats().waiting_takers, 0);
    assert_eq!(queue.len(), 1);
}

#[test]
fn a_future_dropped_at_any_stage_loses_no_entry() {
    let (queue, clock) = queue();
    // Waiting.
    let mut future = queue.take_async();
    assert!(poll(&mut future).is_pending());
    assert_eq!(queue.stats().waiting_takers, 1);
    drop(future);
    assert_eq!(queue.stats().waiting_takers, 0);
    // Waiting, with the alarm set.
    queue.push(1, SECOND).unwrap();
    let mut future = queue.take_async();
    assert!(poll(&mut future).is_pending());
    drop(future);
    // Woken.
    let mut future = queue.take_async();
    assert!(poll(&mut future).is_pending());
    clock.advance(SECOND);
    drop(future);
    // Ready.
    let mut future = queue.take_async();
    let Poll::Ready(Ok(taken)) = poll(&mut future) else {
        panic!("it is due");
    };
    drop(future);
    assert_eq!((taken.value, queue.len()), (1, 0));
}

#[test]
fn a_completed_future_takes_the_next_entry_when_polled_again() {
    let (queue, _clock) = queue();
    queue.push(1, NOW).unwrap();
    queue.push(2, NOW).unwrap();
    let mut future = queue.take_async();
    assert!(matches!(poll(&mut future), Poll::Ready(Ok(taken)) if taken.value == 1));
    assert!(matches!(poll(&mut future), Poll::Ready(Ok(taken)) if taken.value == 2));
    assert!(poll(&mut future).is_pending());
    queue.close();
    assert!(matches!(
        poll(&mut future),
        Poll::Ready(Err(TakeError::Closed))
    ));
    assert!(matches!(
        poll(&mut future),
        Poll::Ready(Err(TakeError::Closed))
    ));
}

#[test]
fn only_the_waker_of_the_last_poll_is_woken() {
    let (queue, _clock) = queue();
    let (old, new) = (CountingWaker::new(), CountingWaker::new());
    let mut future = queue.take_async();
    assert!(poll_with(&mut future, &old.waker()).is_pending());
    assert!(poll_with(&mut future, &new.waker()).is_pending());
    assert_eq!(old.wakers(), 0);
    queue.push(1, NOW).unwrap();
    assert_eq!((old.wakes(), new.wakes()), (0, 1));
    assert!(poll(&mut future).is_ready());
    assert_eq!(new.wakers(), 0);
}

#[testkit::test]
fn a_pending_future_can_move_to_another_thread_and_runtime() {
    let queue = DelayQueue::new();
    let mut future = queue.take_async();
    assert!(poll(&mut future).is_pending());
    let elsewhere = thread::spawn(move || block_on(future));
    queue.push(1, MILLISECOND).unwrap();
    assert_eq!(elsewhere.join().unwrap().unwrap().value, 1);
}

#[testkit::test]
fn a_future_outlives_the_handle_that_made_it() {
    let queue = DelayQueue::new();
    queue.push(1, MILLISECOND).unwrap();
    let future = queue.take_async();
    drop(queue);
    assert_eq!(block_on(future).unwrap().value, 1);
}

/// Futures are polled, dropped and made at random, while a thread takes now and then: every entry
/// is taken once.
#[testkit::test]
fn futures_dropped_at_random_lose_no_entry() {
    let mut rng = Rng::from_env();
    for _ in 0..50 {
        let (queue, clock) = queue();
        let mut futures = Vec::new();
        let mut taken = Vec::new();
        for value in 0..200_u64 {
            match rng.below(6) {
                0 | 1 => {
                    let delay = Duration::from_secs(rng.below(4) as u64);
                    queue.push(value, delay).unwrap();
                }
                2 => futures.push(queue.take_async()),
                3 if !futures.is_empty() => {
                    let future = rng.below(futures.len());
                    if let Poll::Ready(Ok(got)) = poll(&mut futures[future]) {
                        taken.push(got.value);
                    }
                }
                4 if !futures.is_empty() => {
                    let future = rng.below(futures.len());
                    drop(futures.swap_remove(future));
                }
                _ => clock.advance(SECOND),
            }
        }
        drop(futures);
        assert_eq!(queue.stats().waiting_takers, 0);
        let left = queue.close_now();
        assert_eq!(queue.stats().pushed, (taken.len() + left.len()) as u64);
        taken.extend(left.into_iter().map(|left| left.value));
        taken.sort_unstable();
        taken.dedup();
        assert_eq!(taken.len() as u64, queue.stats().pushed);
    }
}

/// Some woken futures are polled and some are not, at random: the polled ones get an entry.
#[testkit::test]
fn a_woken_future_that_is_polled_first_finds_an_entry() {
    let found = Arc::new(AtomicU64::new(0));
    let (queue, clock) = queue();
    let wakers: Vec<_> = (0..8).map(|_| CountingWaker::new()).collect();
    let mut futures: Vec<_> = wakers.iter().map(|_| queue.take_async()).collect();
    for (future, waker) in futures.iter_mut().zip(&wakers) {
        assert!(poll_with(future, &waker.waker()).is_pending());
    }
    for n in 0..5 {
        queue.push(n, SECOND).unwrap();
    }
    clock.advance(SECOND);
    for (future, waker) in futures.iter_mut().zip(&wakers) {
        if waker.wakes() > 0 {
            assert!(poll(future).is_ready());
            found.fetch_add(1, SeqCst);
        }
    }
    assert_eq!(found.load(SeqCst), 5);
}

/// As in a `select` whose other branches wake the task.
#[test]
fn a_future_polled_without_a_wake_up_keeps_its_place() {
    let (queue, _clock) = queue();
    let wakers = [CountingWaker::new(), CountingWaker::new()];
    let mut futures = [queue.take_async(), queue.take_async()];
    for (future, waker) in futures.iter_mut().zip(&wakers) {
        assert!(poll_with(future, &waker.waker()).is_pending());
    }
    let other = CountingWaker::new();
    assert!(poll_with(&mut futures[0], &other.waker()).is_pending());
    queue.push(1, NOW).unwrap();
    assert_eq!(
        (other.wakes(), wakers[1].wakes()),
        (1, 0),
        "by its latest waker"
    );
    assert_eq!(wakers[0].wakes(), 0);
    // Even a future that was woken but whose entry another taker has.
    queue.try_take().unwrap();
    assert!(poll_with(&mut futures[0], &other.waker()).is_pending());
    queue.push(2, NOW).unwrap();
    assert_eq!((other.wakes(), wakers[1].wakes()), (2, 0));
}
