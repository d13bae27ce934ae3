//! Groups of tasks.

use std::future::{pending, ready};
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, mpsc};
use std::task::{Context, Poll, Waker};
use std::thread;
use std::time::Duration;

use async_pool::{AsyncFuncPool, AsyncPool, JoinError, ManualClock, SubmitError, WaitError};
use futures_lite::future::block_on;
use testkit::{Gate, waker_fn};

use crate::{Live, pool};

fn poll_once<F: Future + Unpin>(future: &mut F) -> Poll<F::Output> {
    Pin::new(future).poll(&mut Context::from_waker(Waker::noop()))
}

#[testkit::test]
fn values_come_in_the_order_in_which_tasks_end() {
    let pool = pool(1, 8);
    let group = pool.group();
    let (first, first_is_open) = async_channel();
    group.spawn(first_is_open).unwrap();
    group.spawn(async { 2 }).unwrap();
    assert_eq!(group.len(), 2);
    assert_eq!(group.next().unwrap().unwrap(), 2);
    first.send(1).unwrap();
    assert_eq!(block_on(group.next_async()).unwrap().unwrap(), 1);
    assert!(group.next().is_none());
    assert!(block_on(group.next_async()).is_none());
    assert!(group.is_empty());
}

/// A channel of one value, whose receiver is a future.
fn async_channel() -> (mpsc::Sender<u32>, impl Future<Output = u32> + Send) {
    let (send, receive) = mpsc::channel();
    let future = async move {
        loop {
            if let Ok(value) = receive.try_recv() {
                return value;
            }
            async_pool::yield_now().await;
        }
    };
    (send, future)
}

#[testkit::test]
fn members_run_while_nobody_polls_the_group() {
    let pool = pool(2, 8);
    let group = pool.group();
    for n in 0..8 {
        group.spawn(async move { n }).unwrap();
    }
    pool.wait_idle().unwrap();
    assert_eq!(pool.stats().completed, 8);
    assert_eq!(group.len(), 8);
    let mut sum = 0;
    while let Some(n) = group.next() {
        sum += n.unwrap();
    }
    assert_eq!(sum, 28);
}

#[testkit::test]
fn a_refused_task_is_returned_and_is_no_member() {
    let pool = pool(1, 1);
    let group = pool.group();
    let live = Live::new();
    let guard = live.one();
    group
        .spawn(async move {
            let _guard = guard;
            pending::<()>().await;
        })
        .unwrap();
    let Err(SubmitError::Full(task)) = group.try_spawn(ready(())) else {
        panic!("the pool is full");
    };
    block_on(task);
    assert!(matches!(
        group.spawn_timeout(ready(()), Duration::ZERO),
        Err(SubmitError::TimedOut(_))
    ));
    let mut wait = Box::pin(group.spawn_async(ready(())));
    assert!(poll_once(&mut wait).is_pending());
    drop(wait);
    assert_eq!((group.len(), pool.stats().waiting), (1, 0));
    group.cancel();
    assert!(matches!(group.next(), Some(Err(JoinError::Cancelled))));
    assert_eq!((live.count(), pool.stats().live), (0, 0));
    assert!(matches!(
        block_on(group.spawn_async(ready(()))),
        Err(SubmitError::Cancelled(_))
    ));
    assert!(group.is_empty());
}

#[testkit::test]
fn dropping_a_group_cancels_its_tasks() {
    let pool = pool(2, 8);
    let live = Live::new();
    let group = pool.group();
    for _ in 0..8 {
        let guard = live.one();
        group
            .spawn(async move {
                let _guard = guard;
                pending::<()>().await;
            })
            .unwrap();
    }
    drop(group);
    pool.wait_idle().unwrap();
    assert_eq!((live.count(), pool.stats().cancelled), (0, 8));
}

#[testkit::test]
fn a_failure_cancels_the_others_without_a_consumer() {
    let pool = pool(2, 8);
    let live = Live::new();
    let group = pool.group().cancel_on_failure();
    for _ in 0..3 {
        let guard = live.one();
        let member = async move {
            let _guard = guard;
            pending().await
        };
        group.spawn(member).unwrap();
    }
    group.spawn(ready(Err::<(), _>("no"))).unwrap();
    pool.wait_idle().unwrap();
    assert_eq!((live.count(), pool.stats().cancelled), (0, 3));
    assert!(matches!(
        group.spawn(ready(Ok(()))),
        Err(SubmitError::Cancelled(_))
    ));
    assert_eq!(pool.stats().submitted, 4);
    assert_eq!(group.len(), 4);
    assert!(matches!(group.wait_ok(), Ok(Err("no"))));
}

#[testkit::test]
fn a_panic_is_an_error_of_the_group_and_cancels_it_if_asked() {
    let pool = pool(1, 8);
    let group = pool.group::<()>();
    group.spawn(async { panic!("out of ink") }).unwrap();
    group.spawn(ready(())).unwrap();
    assert!(matches!(group.wait(), Err(JoinError::Panicked(_))));
    assert!(group.is_empty());
    let group = pool.group::<()>().cancel_on_error();
    group.spawn(pending()).unwrap();
    group.spawn(async { panic!("out of ink") }).unwrap();
    assert!(matches!(
        block_on(group.wait_async()),
        Err(JoinError::Panicked(_))
    ));
    assert_eq!(pool.stats().cancelled, 1);
}

#[testkit::test]
fn a_wait_for_all_tasks_that_is_dropped_leaves_the_first_failure_to_the_next_wait() {
    type Group = async_pool::TaskGroup<Result<u32, &'static str>>;
    /// Drops a wait that has taken one task of two.
    fn wait_for(
        group: &Group,
        task: impl Future<Output = Result<u32, &'static str>> + Send + 'static,
    ) {
        group.spawn(task).unwrap();
        let left = group.len();
        group.spawn(pending()).unwrap();
        let mut wait = Box::pin(group.wait_ok_async());
        while group.len() > left {
            assert!(poll_once(&mut wait).is_pending());
        }
    }
    let pool = pool(1, 8);
    let failed = || {
        let group = pool.group();
        wait_for(&group, ready(Err("no")));
        wait_for(&group, async { panic!("out of ink") });
        group.cancel();
        group
    };
    let group: Group = failed();
    assert!(
        matches!(group.wait_ok(), Ok(Err("no"))),
        "not the later ones"
    );
    assert!(matches!(group.wait_ok(), Ok(Ok(()))), "it is returned once");
    let error = failed().wait();
    assert!(
        matches!(error, Err(JoinError::Panicked(_))),
        "a value is no error of this wait"
    );
    let group = pool.group::<()>();
    group.spawn(async { panic!("out of ink") }).unwrap();
    group.spawn(pending()).unwrap();
    let mut wait = Box::pin(group.wait_async());
    while group.len() == 2 {
        assert!(poll_once(&mut wait).is_pending());
    }
    drop(wait);
    group.cancel();
    assert!(matches!(group.wait(), Err(JoinError::Panicked(_))));
}

#[testkit::test]
fn a_spawn_that_waits_for_room_returns_its_task_when_the_group_is_cancelled() {
    let pool = pool(1, 1);
    let other = pool.spawn(pending::<()>()).unwrap();
    let group = Arc::new(pool.group());
    let blocked: Vec<_> = [None, Some(Duration::MAX)]
        .into_iter()
        .map(|limit| {
            let group = Arc::clone(&group);
            thread::spawn(move || match limit {
                None => group.spawn(ready(1)),
                Some(limit) => group.spawn_timeout(ready(1), limit),
            })
        })
        .collect();
    let mut waits: Pin<Box<dyn Future<Output = _>>> = Box::pin(group.spawn_async(ready(1)));
    let mut unpolled = Box::pin(group.spawn_async(ready(1)));
    let woken = Arc::new(AtomicUsize::new(0));
    let counter = Arc::clone(&woken);
    let waker = waker_fn(move || _ = counter.fetch_add(1, SeqCst));
    let poll = |future: &mut Pin<Box<dyn Future<Output = _>>>| {
        future.as_mut().poll(&mut Context::from_waker(&waker))
    };
    assert!(poll(&mut waits).is_pending());
    while pool.stats().waiting < 3 {
        thread::yield_now();
    }
    group.cancel();
    for blocked in blocked {
        assert!(matches!(
            blocked.join().unwrap(),
            Err(SubmitError::Cancelled(_))
        ));
    }
    assert_eq!(woken.load(SeqCst), 1);
    assert!(matches!(
        poll(&mut waits),
        Poll::Ready(Err(SubmitError::Cancelled(_)))
    ));
    assert!(matches!(
        poll_once(&mut unpolled),
        Poll::Ready(Err(SubmitError::Cancelled(_)))
    ));
    assert_eq!((pool.stats().waiting, pool.stats().refused), (0, 4));
    other.cancel();
    pool.wait_idle().unwrap();
    assert!(group.is_empty());
}

#[testkit::test]
fn a_member_that_gets_the_room_of_the_one_that_failed_does_not_start() {
    for _ in 0..20 {
        let pool = pool(2, 1);
        let group = pool.group().cancel_on_failure();
        let (send, receive) = async_channel();
        group
            .spawn(Box::pin(async {
                receive.await;
                Err("no")
            })
                as Pin<Box<dyn Future<Output = Result<(), _>> + Send>>)
            .unwrap();
        let started = Arc::new(AtomicUsize::new(0));
        let starts = Arc::clone(&started);
        thread::scope(|scope| {
            let spawn = scope.spawn(|| {
                let next = async move {
                    starts.fetch_add(1, SeqCst);
                    Ok(())
                };
                group
                    .spawn(Box::pin(next))
                    .map_err(SubmitError::without_task)
            });
            while pool.stats().waiting == 0 {
                thread::yield_now();
            }
            send.send(1).unwrap();
            let spawned = spawn.join().unwrap();
            assert!(matches!(spawned, Ok(()) | Err(SubmitError::Cancelled(()))));
        });
        assert!(matches!(group.wait_ok(), Ok(Err("no"))));
        assert_eq!(started.load(SeqCst), 0);
    }
}

#[testkit::test]
fn a_wait_ends_at_its_limit_and_leaves_the_task() {
    let clock = ManualClock::new();
    let pool = AsyncPool::builder().clock(clock.clone()).build().unwrap();
    let group = pool.group::<u32>();
    let (send, receive) = async_channel();
    group.spawn(receive).unwrap();
    assert!(group.try_next().is_none());
    assert!(matches!(
        group.next_timeout(Duration::ZERO),
        Err(WaitError::TimedOut)
    ));
    send.send(3).unwrap();
    assert_eq!(group.next().unwrap().unwrap(), 3);
}

/// The waker is called when the member's future was dropped and its value is not shown yet. A wait takes the member then,
/// and is dropped.
#[testkit::test]
fn a_dropped_wait_loses_no_value() {
    let pool = pool(1, 8);
    let group = Arc::new(pool.group());
    let (send, receive) = async_channel();
    group.spawn(receive).unwrap();
    let woken = Arc::new(AtomicUsize::new(0));
    let waker = waker_fn({
        let (group, woken) = (Arc::downgrade(&group), Arc::clone(&woken));
        move || {
            let group = group.upgrade().expect("the test has it");
            let mut wait = group.next_async();
            assert!(poll_once(&mut wait).is_pending());
            assert!(
                poll_once(&mut group.next_async()).is_pending(),
                "a value is left"
            );
            assert_eq!(group.len(), 1);
            drop(wait);
            woken.fetch_add(1, SeqCst);
        }
    });
    let mut wait = group.next_async();
    let polled = Pin::new(&mut wait).poll(&mut Context::from_waker(&waker));
    assert!(polled.is_pending());
    send.send(3).unwrap();
    pool.wait_idle().unwrap();
    assert!(matches!(group.next(), Some(Ok(3))));
    assert!(group.next().is_none());
    drop(wait);
    assert_eq!(woken.load(SeqCst), 1);
}

/// A member has ended, and its worker is in the next poll of the same round (no time passes) and has not counted the end. Who
/// takes the value counts it, and wakes the caller that waits for its room.
#[testkit::test]
fn a_waker_that_is_called_as_a_value_is_taken_may_call_the_group() {
    let pool = AsyncPool::builder().workers(1).capacity(2);
    let pool = pool.clock(ManualClock::new()).build().unwrap();
    let group = Arc::new(pool.group());
    let (first, second, has_run) = (Gate::new(), Gate::new(), Gate::new());
    let (before, after, other) = (first.clone(), second.clone(), has_run.clone());
    pool.submit(async move {
        before.wait();
        while !other.is_open() {
            async_pool::yield_now().await;
        }
        after.wait();
    })
    .unwrap();
    let member = async move {
        has_run.open();
        3
    };
    group.spawn(member).unwrap();
    let woken = Arc::new(AtomicUsize::new(0));
    let waker = waker_fn({
        let (group, woken) = (Arc::downgrade(&group), Arc::clone(&woken));
        move || {
            let group = group.upgrade().expect("the test has it");
            assert!(group.try_next().is_none(), "the caller has the only value");
            woken.fetch_add(group.len(), SeqCst);
        }
    });
    let mut waits = pool.spawn_async(ready(()));
    let polled = Pin::new(&mut waits).poll(&mut Context::from_waker(&waker));
    assert!(polled.is_pending());
    first.open();
    second.wait_for_arrivals(1);
    assert_eq!(group.try_next().unwrap().unwrap(), 3);
    assert_eq!(woken.load(SeqCst), 1);
    second.open();
    block_on(waits).unwrap().join().unwrap();
}

#[testkit::test]
fn several_consumers_take_each_value_once() {
    const TASKS: u64 = 2_000;
    let pool = pool(2, 64);
    let group = pool.group();
    let sum = AtomicU64::new(0);
    std::thread::scope(|scope| {
        let consume = || {
            while let Some(n) = group.next() {
                sum.fetch_add(n.unwrap(), SeqCst);
            }
        };
        for n in 0..TASKS {
            group
                .spawn(async move {
                    async_pool::yield_now().await;
                    n
                })
                .unwrap();
            if n == 10 {
                scope.spawn(consume);
                scope.spawn(|| {
                    block_on(async {
                        while let Some(n) = group.next_async().await {
                            sum.fetch_add(n.unwrap(), SeqCst);
                        }
                    });
                });
            }
        }
    });
    while let Some(n) = group.next() {
        sum.fetch_add(n.unwrap(), SeqCst);
    }
    assert_eq!(sum.into_inner(), TASKS * (TASKS - 1) / 2);
}

#[testkit::test]
fn an_own_worker_does_not_block_on_a_group() {
    let pool = pool(1, 4);
    let inner = pool.clone();
    let answer = pool.spawn(async move {
        let group = inner.group::<()>();
        group.spawn(pending()).unwrap();
        let answer = group.next();
        (
            matches!(answer, Some(Err(JoinError::WouldDeadlock))),
            group.next().is_none(),
        )
    });
    assert_eq!(answer.unwrap().join().unwrap(), (true, true));
    pool.release_now();
}

#[testkit::test]
fn tasks_that_await_groups_in_their_own_full_pool_end() {
    let pool = AsyncPool::builder()
        .workers(2)
        .capacity(2)
        .queue_depth(16)
        .build()
        .unwrap();
    let outer = pool.group();
    for _ in 0..2 {
        let inner = pool.clone();
        outer
            .spawn(async move {
                let group = inner.group();
                for n in 0..8 {
                    let member = async move {
                        async_pool::yield_now().await;
                        n
                    };
                    group.spawn_async(member).await.unwrap();
                }
                let mut sum = 0;
                while let Some(n) = group.next_async().await {
                    sum += n.unwrap();
                }
                sum
            })
            .unwrap();
    }
    assert_eq!(outer.next().unwrap().unwrap(), 28);
    assert_eq!(outer.next().unwrap().unwrap(), 28);
}

#[testkit::test]
fn a_group_in_a_pool_of_one_function_takes_arguments() {
    let pool = AsyncFuncPool::new(|n: u32| async move { 2 * n }).unwrap();
    let group = pool.group();
    group.spawn(21).unwrap();
    assert_eq!(group.next().unwrap().unwrap(), 42);
}

#[testkit::test]
fn a_group_outlives_a_release_and_reports_what_it_dropped() {
    let pool = AsyncPool::builder()
        .workers(1)
        .capacity(1)
        .queue_depth(1)
        .build()
        .unwrap();
    let live = Arc::new(());
    let group = pool.group::<()>();
    for _ in 0..2 {
        let live = Arc::clone(&live);
        group
            .spawn(async move {
                pending::<()>().await;
                drop(live);
            })
            .unwrap();
    }
    pool.release_now();
    for _ in 0..2 {
        assert!(matches!(group.next(), Some(Err(JoinError::Released))));
    }
    assert_eq!(Arc::strong_count(&live), 1);
    assert!(matches!(
        group.spawn(ready(())),
        Err(SubmitError::Released(_))
    ));
    group.wait().unwrap();
}
