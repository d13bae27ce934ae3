//! Tasks that wait for tasks of their own full pool: the bound holds, they end, and every task runs or is returned.
#![expect(clippy::unwrap_used, reason = "a test that fails is to panic")]

use std::future::{Future, pending, poll_fn};
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex, mpsc};
use std::task::{Poll, Waker};
use std::time::Duration;

use async_pool::yield_now;
use async_pool::{AsyncPool, JoinError, JoinHandle, ManualClock, SubmitError, WaitError};
use futures_lite::future::{block_on, poll_once, zip};
use futures_util::stream::FuturesUnordered;

use super::{Live, STEP, join_as_time_passes};

fn pool(workers: usize, capacity: usize, depth: usize) -> AsyncPool {
    let pool = AsyncPool::builder().workers(workers).capacity(capacity);
    pool.queue_depth(depth).build().unwrap()
}

/// Counts futures that have started and were not dropped.
#[derive(Clone, Default)]
struct Started {
    now: Arc<AtomicUsize>,
    peak: Arc<AtomicUsize>,
}

struct Counted(Started);

impl Started {
    fn one(&self) -> Counted {
        self.peak
            .fetch_max(self.now.fetch_add(1, SeqCst) + 1, SeqCst);
        Counted(self.clone())
    }

    fn peak(&self) -> usize {
        self.peak.load(SeqCst)
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        self.0.now.fetch_sub(1, SeqCst);
    }
}

/// Awaits all futures, each polled only when it was woken.
async fn all<F: Future>(futures: Vec<F>) -> Vec<F::Output> {
    use futures_lite::StreamExt as _;
    let mut unordered: FuturesUnordered<F> = futures.into_iter().collect();
    let mut values = Vec::new();
    while let Some(value) = unordered.next().await {
        values.push(value);
    }
    values
}

#[testkit::test]
fn a_task_with_a_thousand_children_exceeds_no_capacity() {
    for (capacity, depth, most) in [(1, 0, 2), (1, 7, 2), (2, 0, 2), (2, 2_000, 2), (4, 3, 4)] {
        let pool = pool(2, capacity, depth);
        let (inner, started) = (pool.clone(), Started::default());
        let counts = started.clone();
        let parent = pool.spawn(async move {
            let _counted = counts.one();
            let children = (0..1_000).map(|n| {
                let counts = counts.clone();
                inner.spawn_async(async move {
                    let _counted = counts.one();
                    yield_now().await;
                    n
                })
            });
            let handles = all(children.collect()).await;
            let values = all(handles.into_iter().map(Result::unwrap).collect()).await;
            values.into_iter().map(Result::unwrap).sum::<u32>()
        });
        assert_eq!(parent.unwrap().join().unwrap(), 499_500);
        // The child that has the parent's room is one more, and only if there is no other room.
        assert!(started.peak() <= most, "{capacity}: {}", started.peak());
        let stats = pool.stats();
        assert!(stats.peak_live <= capacity);
        assert_eq!((stats.lending, stats.in_flight), (0, 0));
        assert_eq!((stats.submitted, stats.completed), (1_001, 1_001));
    }
}

#[testkit::test]
fn parents_that_fill_the_pool_have_one_child_each() {
    let pool = pool(2, 3, 0);
    let (started, parents) = (Started::default(), pool.group());
    for _ in 0..3 {
        let (inner, counts) = (pool.clone(), started.clone());
        let parent = async move {
            let children = (0..100).map(|_| {
                let counts = counts.clone();
                inner.spawn_async(async move {
                    let _counted = counts.one();
                    yield_now().await;
                })
            });
            all(children.collect()).await.len()
        };
        parents.spawn(parent).unwrap();
    }
    while let Some(children) = parents.next() {
        assert_eq!(children.unwrap(), 100);
    }
    pool.wait_idle().unwrap();
    assert!(started.peak() <= 3, "{}", started.peak());
}

fn chain(pool: AsyncPool, links: u32) -> Pin<Box<dyn Future<Output = u32> + Send>> {
    Box::pin(async move {
        if links == 0 {
            return 0;
        }
        let next = pool.spawn_async(chain(pool.clone(), links - 1)).await;
        next.unwrap().await.unwrap() + 1
    })
}

#[testkit::test]
fn a_chain_of_tasks_that_await_each_other_ends_in_a_pool_of_one() {
    for depth in [0, 3] {
        let pool = pool(1, 1, depth);
        let first = pool.spawn(chain(pool.clone(), 100_000)).unwrap();
        assert_eq!(first.join().unwrap(), 100_000);
        assert_eq!(pool.stats().peak_live, 1);
    }
}

#[testkit::test]
fn a_chain_that_was_queued_from_outside_ends_in_a_pool_of_one() {
    let pool = pool(2, 1, 100_000);
    let room = pool.reserve().unwrap();
    let mut last: Option<JoinHandle<u32>> = None;
    for _ in 0..100_000 {
        let before = last.take();
        let link = async {
            match before {
                Some(before) => before.await.unwrap() + 1,
                None => 1,
            }
        };
        last = Some(pool.spawn(link).unwrap());
    }
    drop(room);
    assert_eq!(last.unwrap().join().unwrap(), 100_000);
}

#[testkit::test]
fn a_cancelled_child_in_its_parents_room_is_dropped() {
    let pool = pool(1, 1, 1);
    let (inner, live) = (pool.clone(), Live::new());
    let guard = live.one();
    let parent = pool.spawn(async move {
        let group = inner.group();
        group
            .spawn(async move {
                let _guard = guard;
                pending::<()>().await;
            })
            .unwrap();
        let mut next = group.next_async();
        assert!(
            poll_once(&mut next).await.is_none(),
            "the child has started"
        );
        yield_now().await;
        group.cancel();
        next.await
    });
    let ended = parent.unwrap().join().unwrap();
    assert!(matches!(ended, Some(Err(JoinError::Cancelled))));
    assert_eq!(live.count(), 0);
    pool.wait_idle().unwrap();
    assert_eq!(pool.stats().cancelled, 1);
}

#[testkit::test]
fn a_child_that_cancels_its_own_group_is_dropped() {
    let pool = pool(1, 1, 1);
    let inner = pool.clone();
    let parent = pool.spawn(async move {
        let group = Arc::new(inner.group::<()>());
        let same = Arc::downgrade(&group);
        group
            .spawn(async move {
                if let Some(group) = same.upgrade() {
                    group.cancel();
                }
                pending::<()>().await;
            })
            .unwrap();
        group.wait_async().await
    });
    assert!(matches!(
        parent.unwrap().join().unwrap(),
        Err(JoinError::Cancelled)
    ));
}

#[testkit::test]
fn a_release_now_drops_a_child_in_its_parents_room_before_a_reboot() {
    let pool = pool(1, 1, 0);
    let (inner, live) = (pool.clone(), Live::new());
    let guard = live.one();
    let (started, child_started) = mpsc::channel();
    let parent = pool.spawn(async move {
        let child = inner.spawn_async(async move {
            let _guard = guard;
            started.send(()).unwrap();
            pending::<()>().await;
        });
        child.await.unwrap().await
    });
    child_started.recv().unwrap();
    pool.release_now();
    pool.wait_released().unwrap();
    assert!(matches!(parent.unwrap().join(), Err(JoinError::Released)));
    assert_eq!(live.count(), 0);
    assert!(pool.reboot().unwrap());
    assert_eq!(
        pool.spawn(chain(pool.clone(), 5)).unwrap().join().unwrap(),
        5
    );
    let stats = pool.stats();
    assert_eq!((stats.in_flight, stats.released), (0, 2));
}

#[testkit::test]
fn a_submit_that_gives_up_in_its_own_full_pool_returns_its_future_unpolled() {
    let pool = pool(1, 2, 0);
    let (inner, polls) = (pool.clone(), Arc::new(AtomicUsize::new(0)));
    let counts = Arc::clone(&polls);
    let parent = pool.spawn(async move {
        let child = inner.spawn_async(pending::<()>()).await.unwrap();
        // The pool is full, and the parent has a live child, so this waits.
        let mut submit = inner.submit_async(poll_fn(move |context| {
            counts.fetch_add(1, SeqCst);
            context.waker().wake_by_ref();
            Poll::<()>::Pending
        }));
        assert!(poll_once(&mut submit).await.is_none());
        drop(submit); // As by a time limit.
        inner.release();
        let refused = inner.submit_async(async { 5 }).await;
        let Err(SubmitError::Released(future)) = refused else {
            panic!("the pool is released")
        };
        child.cancel();
        future.await
    });
    assert_eq!(parent.unwrap().join().unwrap(), 5);
    assert_eq!(polls.load(SeqCst), 0);
}

#[testkit::test]
fn a_permit_of_the_only_task_is_its_own_room() {
    // The clock stands still: no room is lent because the pool has stood still for a second.
    let pool = AsyncPool::builder().workers(1).capacity(1);
    let pool = pool.clock(ManualClock::new()).build().unwrap();
    let inner = pool.clone();
    let parent = pool.spawn(async move {
        for n in 0..3 {
            let permit = inner.reserve_async().await.unwrap();
            // Another one has to wait for the first.
            let mut second = inner.reserve_async();
            assert!(poll_once(&mut second).await.is_none());
            if n == 1 {
                drop(permit);
                drop(second.await.unwrap());
            } else {
                drop(second);
                assert_eq!(permit.spawn(async move { n }).await.unwrap(), n);
            }
        }
        inner.reserve_async().await.unwrap()
    });
    let permit = parent.unwrap().join().unwrap();
    let stats = pool.stats();
    assert_eq!((stats.reserved, stats.in_flight), (1, 0));
    assert!(matches!(pool.try_reserve(), Err(SubmitError::Full(()))));
    assert_eq!(permit.spawn(async { 7 }).join().unwrap(), 7);
    drop(pool.try_reserve().unwrap());
}

#[testkit::test]
fn a_child_that_outlives_its_parent_keeps_the_room() {
    let pool = pool(1, 1, 0);
    let (inner, (open, opened)) = (pool.clone(), mpsc::channel::<()>());
    let parent = pool.spawn(async move {
        inner
            .submit_async(poll_fn(move |context| match opened.try_recv() {
                Err(mpsc::TryRecvError::Empty) => {
                    context.waker().wake_by_ref();
                    Poll::Pending
                }
                _ => Poll::Ready(()),
            }))
            .await
            .unwrap();
    });
    parent.unwrap().join().unwrap();
    let stats = pool.stats();
    assert_eq!((stats.live, stats.lending), (1, 0));
    assert!(matches!(
        pool.try_submit(async {}),
        Err(SubmitError::Full(_))
    ));
    drop(open);
    pool.submit(async {}).unwrap();
    pool.wait_idle().unwrap();
}

#[testkit::test]
fn a_task_that_is_awaited_by_a_task_which_did_not_submit_it_starts() {
    let pool = pool(1, 1, 2);
    let slot = Arc::new(Mutex::new(None::<JoinHandle<u32>>));
    let takes = Arc::clone(&slot);
    // Its first poll waits for the handle.
    let mut handle = slot.lock().unwrap();
    let waits = pool.spawn(async move {
        let other = takes.lock().unwrap().take().unwrap();
        other.await.unwrap() + 1
    });
    *handle = Some(pool.spawn(async { 1 }).unwrap());
    drop(handle);
    assert_eq!(waits.unwrap().join().unwrap(), 2);
}

/// A value that one task sends to another.
#[derive(Clone, Default)]
struct Message(Arc<Mutex<(Option<u32>, Option<Waker>)>>);

impl Message {
    fn send(&self, value: u32) {
        let waker = {
            let mut message = self.0.lock().unwrap();
            message.0 = Some(value);
            message.1.take()
        };
        if let Some(waker) = waker {
            waker.wake();
        }
    }

    async fn receive(&self) -> u32 {
        poll_fn(|context| {
            let mut message = self.0.lock().unwrap();
            message.1 = Some(context.waker().clone());
            message.0.map_or(Poll::Pending, Poll::Ready)
        })
        .await
    }
}

/// Two tasks of which each waits for the other.
fn siblings() -> (
    impl Future<Output = u32> + Send,
    impl Future<Output = u32> + Send,
) {
    let (question, answer) = (Message::default(), Message::default());
    let (asked, answered) = (question.clone(), answer.clone());
    let first = async move {
        question.send(1);
        answered.receive().await
    };
    let second = async move {
        let one = asked.receive().await;
        answer.send(one + 1);
        one
    };
    (first, second)
}

#[testkit::test]
fn siblings_that_need_each_other_end_in_a_pool_that_stands_still() {
    for capacity in [1, 2] {
        for in_group in [true, false] {
            let clock = ManualClock::new();
            let pool = AsyncPool::builder().workers(2).capacity(capacity);
            let pool = pool.queue_depth(4).clock(clock.clone()).build().unwrap();
            let inner = pool.clone();
            let parent = pool.spawn(async move {
                let (first, second) = siblings();
                if in_group {
                    let group = inner.group();
                    group.spawn(first).unwrap();
                    group.spawn(second).unwrap();
                    let mut sum = 0;
                    while let Some(value) = group.next_async().await {
                        sum += value.unwrap();
                    }
                    return sum;
                }
                let first = inner.spawn_async(first).await.unwrap();
                let second = inner.spawn_async(second).await.unwrap();
                let (first, second) = zip(first, second).await;
                first.unwrap() + second.unwrap()
            });
            // The workers wait for a second without a poll.
            assert_eq!(join_as_time_passes(parent.unwrap(), &clock, STEP), 3);
            assert!(pool.stats().peak_live <= capacity + 1);
        }
    }
}

#[testkit::test]
fn a_child_that_never_ends_does_not_keep_its_parent_waiting() {
    (1..=2).for_each(a_child_that_never_ends);
}

fn a_child_that_never_ends(workers: usize) {
    let clock = ManualClock::new();
    let pool = AsyncPool::builder().workers(workers).capacity(2);
    let pool = pool.queue_depth(4).clock(clock.clone()).build().unwrap();
    let inner = pool.clone();
    let parent = pool.spawn(async move {
        inner
            .submit(async {
                loop {
                    yield_now().await;
                }
            })
            .unwrap();
        inner.spawn(async { 5 }).unwrap().await.unwrap()
    });
    assert_eq!(join_as_time_passes(parent.unwrap(), &clock, STEP), 5);
    pool.release_now();
}

#[testkit::test]
fn a_wait_for_its_own_pool_is_refused_in_a_task() {
    let pool = pool(1, 1, 0);
    let inner = pool.clone();
    let answers = pool.spawn(async move {
        let idle = inner.wait_idle_async().await;
        inner.release();
        (idle, inner.wait_released_async().await)
    });
    let answers = answers.unwrap().join().unwrap();
    let refused = || Err(WaitError::WouldDeadlock);
    assert_eq!(answers, (refused(), refused()));
    // Elsewhere they wait.
    block_on(pool.wait_released_async()).unwrap();
}

#[testkit::test]
fn a_cancelled_group_returns_tasks_that_are_added_later() {
    let pool = pool(1, 4, 4);
    let group = pool.group::<Result<u32, &str>>().cancel_on_failure();
    group.spawn(async { Err("stop") }).unwrap();
    pool.wait_idle().unwrap();
    let refused = [
        group.spawn(std::future::ready(Ok(1))),
        group.try_spawn(std::future::ready(Ok(1))),
        group.spawn_timeout(std::future::ready(Ok(1)), Duration::ZERO),
        block_on(group.spawn_async(std::future::ready(Ok(1)))),
    ];
    for answer in refused {
        assert!(matches!(answer, Err(SubmitError::Cancelled(_))));
    }
    assert_eq!(group.wait_ok().unwrap(), Err("stop"));
    let group = pool.group();
    group.cancel();
    assert!(matches!(
        group.spawn(std::future::ready(())),
        Err(SubmitError::Cancelled(_))
    ));
    assert_eq!(group.len(), 0);
}

#[testkit::test]
fn an_async_spawn_into_a_group_that_is_dropped_after_room_came_cancels_its_task() {
    let pool = pool(1, 1, 0);
    let (live, group) = (Live::new(), pool.group());
    let (room, guard) = (pool.reserve().unwrap(), live.one());
    let mut spawn = Box::pin(group.spawn_async(async move {
        let _guard = guard;
        pending::<()>().await;
    }));
    assert!(block_on(poll_once(&mut spawn)).is_none());
    drop(room); // The task has room, and its spawn is not polled again.
    drop(spawn);
    drop(group);
    pool.wait_idle().unwrap();
    assert_eq!(live.count(), 0);
}

#[testkit::test]
fn a_parent_in_the_middle_of_a_chain_passes_its_loan_on() {
    let pool = pool(1, 1, 4);
    let inner = pool.clone();
    let parent = pool.spawn(async move {
        let mut leaves = Vec::new();
        for _ in 0..20 {
            let pool = inner.clone();
            let middle = inner.spawn(async move {
                let mut leaf = pool.spawn(pending::<()>()).unwrap();
                // Waits once, so that the leaf starts in its room.
                assert!(poll_once(&mut leaf).await.is_none());
                [leaf]
            });
            // The room is that of the leaf of the round before, so the middle starts after that.
            leaves.extend(middle.unwrap().await.unwrap());
            let stats = inner.stats();
            assert_eq!((stats.live, stats.lending), (1, 1));
            let leaf = leaves.pop().unwrap();
            assert!(leaf.cancelled().await.is_err());
            let stats = inner.stats();
            assert_eq!((stats.live, stats.lending), (1, 0));
        }
    });
    parent.unwrap().join().unwrap();
    let stats = pool.stats();
    assert_eq!((stats.live, stats.lending, stats.peak_live), (0, 0, 1));
}

#[testkit::test]
fn a_permit_of_a_child_that_has_ended_is_in_the_room_of_its_parent() {
    let pool = pool(1, 1, 0);
    let inner = pool.clone();
    let parent = pool.spawn(async move {
        for _ in 0..10 {
            let pool = inner.clone();
            let child = inner.spawn_async(async move { pool.reserve_async().await.unwrap() });
            let permit = child.await.unwrap().await.unwrap();
            // The parent waits for its room to return.
            assert!(poll_once(&mut inner.reserve_async()).await.is_none());
            assert_eq!(inner.stats().reserved, 1);
            assert_eq!(permit.spawn(async { 3 }).await.unwrap(), 3);
        }
    });
    parent.unwrap().join().unwrap();
    assert_eq!(pool.stats().peak_live, 1);
    drop(pool.try_reserve().unwrap());
    assert_eq!(pool.stats().reserved, 0);
}

#[testkit::test]
fn a_wait_for_room_that_began_elsewhere_lends_the_room_of_the_task_that_polls_it() {
    let pool = pool(1, 1, 0);
    let room = pool.reserve().unwrap();
    let mut spawn = pool.spawn_async(async { 7 });
    let mut reserve = pool.reserve_async();
    assert!(block_on(poll_once(&mut spawn)).is_none());
    assert!(block_on(poll_once(&mut reserve)).is_none());
    let parent = room.spawn(async move {
        let seven = spawn.await.unwrap().await.unwrap();
        reserve.await.unwrap().spawn(async move { seven }).await
    });
    assert_eq!(parent.join().unwrap().unwrap(), 7);
}

#[testkit::test]
fn a_member_that_is_added_while_a_task_waits_for_its_group_starts_in_the_room_of_that() {
    let pool = pool(1, 2, 4);
    let group = Arc::new(pool.group());
    let (first, second) = siblings();
    group.spawn(first).unwrap();
    let waits = Arc::clone(&group);
    let (tell, told) = mpsc::channel();
    let parent = pool.spawn(async move {
        let mut next = waits.next_async();
        let first = poll_fn(|context| {
            let polled = Pin::new(&mut next).poll(context);
            if polled.is_pending() {
                _ = tell.send(());
            }
            polled
        });
        let mut sum = first.await.unwrap().unwrap();
        while let Some(value) = waits.next_async().await {
            sum += value.unwrap();
        }
        sum
    });
    // The parent waits for the group, and nothing but the second member makes it look again.
    told.recv().unwrap();
    group.spawn(second).unwrap();
    assert_eq!(parent.unwrap().join().unwrap(), 3);
}

#[testkit::test]
fn the_loans_of_other_tasks_do_not_keep_a_parent_waiting() {
    let clock = ManualClock::new();
    let pool = AsyncPool::builder().workers(1).capacity(3);
    let pool = pool.queue_depth(8).clock(clock.clone()).build().unwrap();
    let other = pool.clone();
    // Starts and ends children in its own room all the time.
    pool.submit(async move {
        loop {
            other.spawn(yield_now()).unwrap().await.unwrap();
        }
    })
    .unwrap();
    let inner = pool.clone();
    let parent = pool.spawn(async move {
        let (first, second) = siblings();
        // The first one has the third room, and needs the second one.
        let first = inner.spawn(first).unwrap();
        let second = inner.spawn(second).unwrap();
        let (first, second) = zip(first, second).await;
        first.unwrap() + second.unwrap()
    });
    assert_eq!(join_as_time_passes(parent.unwrap(), &clock, STEP), 3);
    assert!(pool.stats().peak_live <= 3);
    pool.release_now();
}

#[testkit::test]
fn children_that_sleep_do_not_make_the_pool_stand_still() {
    let clock = ManualClock::new();
    let pool = AsyncPool::builder().workers(2).capacity(1);
    let pool = pool.queue_depth(32).clock(clock.clone()).build().unwrap();
    let inner = pool.clone();
    let parent = pool.spawn(async move {
        let group = inner.group();
        for _ in 0..10 {
            group
                .spawn(async_pool::sleep(Duration::from_secs(10)))
                .unwrap();
        }
        group.wait_async().await
    });
    join_as_time_passes(parent.unwrap(), &clock, 4 * STEP).unwrap();
    assert_eq!(pool.stats().peak_live, 1);
}

#[testkit::test]
fn a_limit_of_waiting_callers_refuses_no_loan() {
    let pool = AsyncPool::builder().workers(1).capacity(1).max_waiting(0);
    let pool = pool.build().unwrap();
    assert_eq!(
        pool.spawn(chain(pool.clone(), 10)).unwrap().join().unwrap(),
        10
    );
}
