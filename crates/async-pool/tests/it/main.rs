//! Behaviour of pools of futures.

mod adapters;
mod cycles;
mod deadlocks;
mod fairness;
#[cfg(unix)]
mod forks;
mod group;
mod large;
mod loans;
mod map;
mod runtimes;
mod stress;
mod user_code;

use std::future::{Future, pending, poll_fn, ready};
use std::pin::pin;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, mpsc};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use async_pool::{
    AsyncFuncPool, AsyncPool, DropPolicy, JoinError, JoinHandle, ManualClock, SubmitError,
    WaitError,
};
use futures_lite::future::block_on;

fn pool(workers: usize, capacity: usize) -> AsyncPool {
    AsyncPool::builder()
        .workers(workers)
        .capacity(capacity)
        .build()
        .expect("threads can be started")
}

/// A short time beside the second after which a pool that stands still is relieved.
const STEP: Duration = Duration::from_millis(100);

/// Joins a task, and advances the clock by steps until it has ended.
fn join_as_time_passes<T>(mut task: JoinHandle<T>, clock: &ManualClock, step: Duration) -> T {
    loop {
        match task.join_timeout(Duration::ZERO) {
            Ok(ended) => break ended.expect("it returns a value"),
            Err(waits) => task = waits,
        }
        clock.advance(step);
        std::thread::yield_now();
    }
}

/// Counts live values of a type.
#[derive(Clone)]
struct Live(Arc<AtomicUsize>);

impl Live {
    fn new() -> Self {
        Self(Arc::default())
    }

    fn one(&self) -> Guard {
        self.0.fetch_add(1, SeqCst);
        Guard(Arc::clone(&self.0))
    }

    fn count(&self) -> usize {
        self.0.load(SeqCst)
    }
}

struct Guard(Arc<AtomicUsize>);

impl Drop for Guard {
    fn drop(&mut self) {
        self.0.fetch_sub(1, SeqCst);
    }
}

#[testkit::test]
fn a_handle_returns_the_value_to_a_thread_and_to_a_future() {
    let pool = pool(2, 8);
    assert_eq!(pool.spawn(async { 1 }).unwrap().join().unwrap(), 1);
    assert_eq!(block_on(pool.spawn(async { 2 }).unwrap()).unwrap(), 2);
    assert_eq!(
        block_on(pool.spawn_async(async { 3 }))
            .map(|handle| block_on(handle).unwrap())
            .unwrap(),
        3
    );
}

#[testkit::test]
fn capacity_is_never_exceeded_and_every_task_runs() {
    let pool = pool(2, 3);
    let (now, peak) = (Arc::new(AtomicUsize::new(0)), Arc::new(AtomicUsize::new(0)));
    for _ in 0..1_000 {
        let (now, peak) = (Arc::clone(&now), Arc::clone(&peak));
        pool.submit(async move {
            peak.fetch_max(now.fetch_add(1, SeqCst) + 1, SeqCst);
            async_pool::yield_now().await;
            now.fetch_sub(1, SeqCst);
        })
        .unwrap();
    }
    pool.wait_idle().unwrap();
    assert!(peak.load(SeqCst) <= 3);
    let stats = pool.stats();
    assert_eq!(
        (stats.completed, stats.submitted, stats.live),
        (1_000, 1_000, 0)
    );
    assert!(stats.peak_live <= 3);
}

#[testkit::test]
fn a_full_pool_refuses_returns_the_future_and_waits_as_asked() {
    let pool = pool(1, 1);
    let stuck = pool.spawn(pending::<()>()).unwrap();
    let refused = pool.try_submit(ready(7)).unwrap_err();
    let SubmitError::Full(future) = refused else {
        panic!("the pool is full")
    };
    assert_eq!(block_on(future), 7);
    let late = pool
        .submit_timeout(ready(()), Duration::from_millis(1))
        .unwrap_err();
    assert!(matches!(late, SubmitError::TimedOut(_)));
    let mut waiting = pin!(pool.submit_async(ready(())));
    assert!(
        waiting
            .as_mut()
            .poll(&mut Context::from_waker(Waker::noop()))
            .is_pending()
    );
    assert_eq!(pool.stats().waiting, 1);
    stuck.cancel();
    assert!(matches!(stuck.join(), Err(JoinError::Cancelled)));
    block_on(waiting).unwrap();
    pool.wait_idle().unwrap();
    assert_eq!(pool.stats().refused, 2);
}

#[testkit::test]
fn a_future_that_waits_for_room_starts_without_another_poll_of_its_wait() {
    let pool = pool(1, 1);
    let first = pool.spawn(pending::<()>()).unwrap();
    let (sender, receiver) = mpsc::channel();
    let mut waiting = pin!(pool.submit_async(async move { sender.send(42).unwrap() }));
    assert!(
        waiting
            .as_mut()
            .poll(&mut Context::from_waker(Waker::noop()))
            .is_pending()
    );
    first.cancel();
    assert_eq!(receiver.recv(), Ok(42));
}

#[testkit::test]
fn a_dropped_wait_drops_its_future_and_a_dropped_permit_returns_its_room() {
    let pool = pool(1, 1);
    let live = Live::new();
    let permit = pool.reserve().unwrap();
    let guard = live.one();
    let mut waiting = Box::pin(pool.submit_async(async move { drop(guard) }));
    assert!(
        waiting
            .as_mut()
            .poll(&mut Context::from_waker(Waker::noop()))
            .is_pending()
    );
    drop(waiting);
    assert_eq!((live.count(), pool.stats().waiting), (0, 0));

    let mut reserving = Box::pin(pool.reserve_async());
    assert!(
        reserving
            .as_mut()
            .poll(&mut Context::from_waker(Waker::noop()))
            .is_pending()
    );
    drop(permit);
    assert_eq!(pool.stats().reserved, 1, "the wait was served");
    drop(reserving);
    assert_eq!(pool.stats().reserved, 0);
    assert_eq!(
        pool.reserve().unwrap().spawn(async { 5 }).join().unwrap(),
        5
    );
}

#[testkit::test]
fn cancelling_drops_the_future_on_a_worker_and_frees_its_room() {
    let pool = pool(2, 1);
    let live = Live::new();
    let guard = live.one();
    let sleeping = pool.spawn(async move {
        let _guard = guard;
        async_pool::sleep(Duration::MAX).await;
    });
    let sleeping = sleeping.unwrap();
    assert!(matches!(
        block_on(sleeping.cancelled()),
        Err(JoinError::Cancelled)
    ));
    assert_eq!((live.count(), pool.stats().live), (0, 0));

    let guard = live.one();
    let dropped = pool.spawn(async move {
        let _guard = guard;
        pending::<()>().await;
    });
    drop(dropped.unwrap().cancel_on_drop());
    pool.wait_idle().unwrap();
    assert_eq!((live.count(), pool.stats().cancelled), (0, 2));
}

#[testkit::test]
fn a_panic_of_a_poll_or_a_drop_is_reported_and_ends_no_worker() {
    struct PanicsInDrop;
    impl Drop for PanicsInDrop {
        fn drop(&mut self) {
            panic!("in drop");
        }
    }
    let pool = pool(1, 4);
    let panicked = pool.spawn(async { panic!("in poll") }).unwrap().join();
    assert!(matches!(panicked, Err(JoinError::Panicked(_))));
    let guard = PanicsInDrop;
    let held = pool.spawn(async move {
        let _guard = guard;
        pending::<()>().await;
    });
    let held = held.unwrap();
    held.cancel();
    assert!(held.join().is_err());
    assert_eq!(pool.spawn(async { 1 }).unwrap().join().unwrap(), 1);
    assert_eq!((pool.stats().panicked, pool.stats().live), (2, 0));
}

#[testkit::test]
fn a_blocking_call_on_an_own_worker_is_refused() {
    let pool = pool(1, 1);
    let inner = pool.clone();
    let answers = pool.spawn(async move {
        let full = inner
            .submit(async {})
            .is_err_and(|refused| refused.is_full());
        (full, inner.wait_idle())
    });
    assert_eq!(
        answers.unwrap().join().unwrap(),
        (true, Err(WaitError::WouldDeadlock))
    );
}

#[testkit::test]
fn a_block_on_of_another_task_in_a_task_ends_if_there_is_another_worker() {
    let pool = pool(2, 4);
    let inner = pool.clone();
    let waits = pool.spawn(async move {
        let child = inner.spawn(async_pool::yield_now()).unwrap();
        block_on(async { child.await.unwrap() });
        2
    });
    assert_eq!(waits.unwrap().join().unwrap(), 2);
}

#[testkit::test]
fn a_block_on_of_a_sleep_in_a_task_ends_if_there_is_another_worker() {
    let clock = ManualClock::new();
    let pool = AsyncPool::builder()
        .workers(2)
        .capacity(4)
        .clock(clock.clone())
        .build()
        .unwrap();
    let step = || {
        clock.advance(Duration::from_millis(5));
        std::thread::yield_now();
    };
    for _ in 0..100 {
        let waits = pool.spawn(async {
            block_on(async_pool::sleep(Duration::from_millis(1)));
            // Set after the round's look at the clock.
            block_on(async_pool::sleep(Duration::from_millis(1)));
        });
        let waits = waits.unwrap();
        while !waits.is_finished() {
            step();
        }
        waits.join().unwrap();
        // The other worker stops watching if both are idle now. Then the next sleep has to call it.
        (0..5).for_each(|_| step());
    }
}

#[testkit::test]
fn sleeps_end_in_the_order_of_their_times_by_the_pools_clock() {
    let clock = ManualClock::new();
    let pool = AsyncPool::builder()
        .workers(1)
        .capacity(10)
        .clock(clock.clone())
        .build()
        .unwrap();
    let (sender, receiver) = mpsc::channel();
    let (begins, begun) = mpsc::channel();
    for seconds in [3, 1, 2] {
        let (sender, begins) = (sender.clone(), begins.clone());
        pool.submit(async move {
            begins.send(()).unwrap();
            async_pool::sleep(Duration::from_secs(seconds)).await;
            sender.send(seconds).unwrap();
        })
        .unwrap();
    }
    begun.iter().take(3).for_each(drop); // The worker parks only after it has all three timers.
    for expected in 1..=3 {
        clock.wait_for_sleepers(1);
        assert!(receiver.try_recv().is_err(), "nothing ends early");
        clock.advance(Duration::from_secs(1));
        assert_eq!(receiver.recv(), Ok(expected));
    }
}

#[testkit::test]
fn an_interval_keeps_its_rate_and_a_dropped_tick_is_not_lost() {
    let clock = ManualClock::new();
    let pool = AsyncPool::builder().workers(1).clock(clock.clone());
    let pool = pool.build().unwrap();
    let (sender, receiver) = mpsc::channel();
    let ticks = pool.spawn(async move {
        let mut interval = async_pool::interval(Duration::from_secs(10));
        sender.send(interval.tick().await).unwrap();
        for _ in 0..3 {
            let mut dropped = Box::pin(interval.tick());
            assert!(
                poll_fn(|context| Poll::Ready(dropped.as_mut().poll(context).is_pending())).await
            );
            drop(dropped);
            sender.send(interval.tick().await).unwrap();
        }
    });
    let start = receiver.recv().unwrap();
    clock.wait_for_sleepers(1);
    clock.advance(Duration::from_secs(9));
    assert!(receiver.try_recv().is_err(), "nothing ends early");
    clock.advance(Duration::from_secs(5)); // Late: 14 s, and the next tick is due at 20 s.
    assert_eq!(receiver.recv(), Ok(start + Duration::from_secs(10)));
    for number in 2..4 {
        clock.wait_for_sleepers(1);
        clock.advance(Duration::from_secs(6));
        assert_eq!(
            receiver.recv(),
            Ok(start + number * Duration::from_secs(10))
        );
        clock.advance(Duration::from_secs(4));
    }
    ticks.unwrap().join().unwrap();
}

#[testkit::test]
fn a_timeout_drops_its_future_and_a_dropped_sleep_leaves_no_timer() {
    let pool = pool(1, 2);
    let timed_out =
        pool.spawn(async { async_pool::timeout(Duration::from_millis(1), pending::<()>()).await });
    assert!(timed_out.unwrap().join().unwrap().is_err());
    let in_time = pool.spawn(async { async_pool::timeout(Duration::MAX, async { 3 }).await });
    assert_eq!(in_time.unwrap().join().unwrap(), Ok(3));
}

#[testkit::test]
fn release_runs_accepted_tasks_and_refuses_others() {
    let pool = AsyncPool::builder()
        .workers(2)
        .capacity(1)
        .queue_depth(10)
        .build()
        .unwrap();
    let ran = Arc::new(AtomicUsize::new(0));
    for _ in 0..10 {
        let ran = Arc::clone(&ran);
        pool.submit(async move { _ = ran.fetch_add(1, SeqCst) })
            .unwrap();
    }
    assert!(pool.release());
    assert!(!pool.release());
    assert!(matches!(
        pool.try_submit(ready(())),
        Err(SubmitError::Released(_))
    ));
    pool.wait_released().unwrap();
    assert_eq!(ran.load(SeqCst), 10);
}

#[testkit::test]
fn release_now_drops_every_future_and_the_wait_for_the_end_returns() {
    let pool = AsyncPool::builder()
        .workers(2)
        .capacity(5)
        .queue_depth(5)
        .build()
        .unwrap();
    let live = Live::new();
    let handles: Vec<_> = (0..10)
        .map(|_| {
            let guard = live.one();
            let future = async move {
                let _guard = guard;
                pending::<()>().await;
            };
            pool.spawn(future).unwrap()
        })
        .collect();
    pool.release_now();
    pool.wait_released().unwrap();
    assert_eq!(live.count(), 0);
    for handle in handles {
        assert!(matches!(handle.join(), Err(JoinError::Released)));
    }
    assert_eq!(pool.stats().released, 10);
}

#[testkit::test]
fn a_cancelled_task_in_the_queue_is_dropped_without_waiting_for_room() {
    let pool = AsyncPool::builder()
        .workers(1)
        .capacity(1)
        .queue_depth(1)
        .build()
        .unwrap();
    let stuck = pool.spawn(pending::<()>()).unwrap();
    let live = Live::new();
    let guard = live.one();
    let queued = pool.spawn(async move { drop(guard) }).unwrap();
    assert_eq!(pool.stats().queued, 1);
    assert!(matches!(
        block_on(queued.cancelled()),
        Err(JoinError::Cancelled)
    ));
    assert_eq!(
        (live.count(), pool.stats().queued, pool.stats().live),
        (0, 0, 1)
    );
    assert_eq!(pool.stats().peak_live, 1);
    stuck.cancel();
}

#[testkit::test]
fn tune_admits_waiting_callers() {
    let pool = pool(1, 1);
    let _stuck = pool.spawn(pending::<()>()).unwrap();
    let mut second = pin!(pool.spawn_async(async { 2 }));
    assert!(
        second
            .as_mut()
            .poll(&mut Context::from_waker(Waker::noop()))
            .is_pending()
    );
    pool.tune(2).unwrap();
    assert_eq!(block_on(block_on(second).unwrap()).unwrap(), 2);
}

#[testkit::test]
fn a_pool_of_one_function_stores_arguments_until_they_start() {
    let calls = Arc::new(AtomicUsize::new(0));
    let counted = Arc::clone(&calls);
    let pool = AsyncFuncPool::builder(move |n: usize| {
        counted.fetch_add(1, SeqCst);
        async move {
            if n == 0 {
                pending::<()>().await;
            }
            n
        }
    });
    let pool = pool
        .workers(1)
        .capacity(1)
        .queue_depth(1)
        .drop_policy(DropPolicy::Discard)
        .build()
        .unwrap();
    let stuck = pool.spawn(0).unwrap();
    let next = pool.spawn(2).unwrap();
    let SubmitError::Full(3) = pool.try_submit(3).unwrap_err() else {
        panic!("the argument comes back")
    };
    stuck.cancel();
    assert_eq!(next.join().unwrap(), 2);
    assert!(calls.load(SeqCst) <= 2);
}

#[testkit::test]
fn timers_of_a_worker_that_is_stuck_in_a_poll_are_fired_by_another() {
    let pool = pool(2, 8);
    let (entered, wait_entered) = mpsc::channel();
    let (free, wait_free) = mpsc::channel::<()>();
    let (slept, wait_slept) = mpsc::channel();
    // Both begin on one worker: the sleeper is polled first, then its worker is stuck.
    let inner = pool.clone();
    pool.submit(async move {
        inner
            .submit(async move {
                async_pool::sleep(Duration::from_millis(1)).await;
                slept.send(()).unwrap();
            })
            .unwrap();
        inner
            .submit(async move {
                entered.send(()).unwrap();
                _ = wait_free.recv(); // Blocks its worker.
            })
            .unwrap();
    })
    .unwrap();
    wait_entered.recv().unwrap();
    wait_slept.recv().expect("another worker fires the timer");
    free.send(()).unwrap();
    pool.wait_idle().unwrap();
}

#[testkit::test]
fn a_task_that_wakes_itself_does_not_starve_others() {
    let pool = pool(1, 2);
    let stop = Arc::new(AtomicUsize::new(0));
    let stopped = Arc::clone(&stop);
    let busy = pool.spawn(poll_fn(move |context| {
        context.waker().wake_by_ref();
        if stopped.load(SeqCst) == 1 {
            Poll::Ready(())
        } else {
            Poll::Pending
        }
    }));
    pool.spawn(async {}).unwrap().join().unwrap();
    stop.store(1, SeqCst);
    busy.unwrap().join().unwrap();
}

#[testkit::test]
fn many_threads_spawn_wake_and_cancel_without_a_lost_task() {
    let pool = pool(4, 64);
    let live = Live::new();
    std::thread::scope(|scope| {
        for thread in 0..4 {
            let (pool, live) = (&pool, &live);
            scope.spawn(move || {
                for n in 0..2_000 {
                    let guard = live.one();
                    let handle = pool.spawn(async move {
                        let _guard = guard;
                        for _ in 0..n % 4 {
                            async_pool::yield_now().await;
                        }
                        if n % 3 == 0 {
                            async_pool::sleep(Duration::from_micros(50)).await;
                        }
                        n
                    });
                    let handle = handle.unwrap();
                    match (n + thread) % 4 {
                        0 => assert_eq!(handle.join().unwrap(), n),
                        1 => handle.cancel(),
                        2 => drop(handle.cancel_on_drop()),
                        _ => drop(handle),
                    }
                }
            });
        }
    });
    pool.wait_idle().unwrap();
    assert_eq!(live.count(), 0);
    let stats = pool.stats();
    assert_eq!(stats.submitted, 8_000);
    assert_eq!(stats.completed + stats.cancelled, 8_000);
}

#[testkit::test]
fn tasks_that_spawn_into_their_own_full_pool_and_await_the_child_end() {
    fn tree(pool: AsyncPool, depth: u32) -> std::pin::Pin<Box<dyn Future<Output = u32> + Send>> {
        Box::pin(async move {
            if depth == 0 {
                return 1;
            }
            let mut sum = 0;
            for _ in 0..2 {
                let child = pool
                    .spawn_async(tree(pool.clone(), depth - 1))
                    .await
                    .unwrap();
                sum += child.await.unwrap();
            }
            sum
        })
    }
    for (capacity, depth) in [(1, 0), (2, 0), (1, 3), (3, 2)] {
        let pool = AsyncPool::builder()
            .workers(2)
            .capacity(capacity)
            .queue_depth(depth)
            .build()
            .unwrap();
        assert_eq!(
            pool.spawn(tree(pool.clone(), 6)).unwrap().join().unwrap(),
            64
        );
        let stats = pool.stats();
        assert_eq!(
            (stats.submitted, stats.completed, stats.refused),
            (127, 127, 0)
        );
        assert!(stats.peak_live <= capacity);
    }
}

#[testkit::test]
fn a_rebooted_pool_accepts_tasks_again() {
    let pool = pool(2, 2);
    for round in 0..50 {
        assert_eq!(
            pool.spawn(async move { round }).unwrap().join().unwrap(),
            round
        );
        pool.release();
        assert!(pool.try_submit(async {}).is_err());
        if round % 2 == 0 {
            pool.wait_released().unwrap();
        }
        assert!(pool.reboot().unwrap());
        assert!(!pool.reboot().unwrap());
    }
}

#[testkit::test]
fn the_panic_hook_sees_each_panic_of_a_task() {
    let (sender, receiver) = mpsc::channel();
    let sender = std::sync::Mutex::new(sender);
    let hook = move |panic: &async_pool::TaskPanic<'_>| {
        sender
            .lock()
            .unwrap()
            .send(panic.message().map(str::to_owned))
            .unwrap();
    };
    let pool = AsyncPool::builder()
        .workers(1)
        .panic_hook(hook)
        .build()
        .unwrap();
    assert!(
        pool.spawn(async { panic!("heard") })
            .unwrap()
            .join()
            .is_err()
    );
    assert_eq!(receiver.try_recv(), Ok(Some("heard".to_owned())));
}

#[testkit::test]
fn a_task_behind_a_poll_that_blocks_is_stolen() {
    for _ in 0..50 {
        let pool = pool(2, 8);
        let (ran, wait_ran) = mpsc::channel();
        let inner = pool.clone();
        pool.submit(async move {
            inner.submit(async move { ran.send(()).unwrap() }).unwrap();
            wait_ran.recv().expect("the other worker runs it"); // Blocks its worker meanwhile.
        })
        .unwrap();
        pool.wait_idle().unwrap();
    }
}

#[testkit::test]
fn a_time_limit_around_the_spawn_of_a_boxed_future_is_a_task() {
    let pool = pool(1, 2);
    let inner = pool.clone();
    let parent = pool.spawn(async move {
        let child: std::pin::Pin<Box<dyn Future<Output = u32> + Send>> = Box::pin(async { 5 });
        let spawned = async_pool::timeout(Duration::from_secs(60), inner.spawn_async(child)).await;
        spawned.unwrap().unwrap().await.unwrap()
    });
    assert_eq!(parent.unwrap().join().unwrap(), 5);
}

#[testkit::test]
fn a_time_limit_around_a_future_that_panics_drops_it_once() {
    let live = Live::new();
    let guard = live.one();
    let mut limited = Box::pin(async_pool::timeout(Duration::from_secs(60), async move {
        let _guard = guard;
        panic!("out of ink")
    }));
    let poll = std::panic::AssertUnwindSafe(|| block_on(&mut limited).is_ok());
    assert!(std::panic::catch_unwind(poll).is_err());
    drop(limited);
    assert_eq!(live.count(), 0);
}

#[testkit::test]
fn a_time_limit_that_is_up_drops_the_future_at_once() {
    let live = Live::new();
    let guard = live.one();
    let mut limited = Box::pin(async_pool::timeout(Duration::ZERO, async move {
        let _guard = guard;
        pending::<()>().await;
    }));
    assert!(block_on(&mut limited).is_err());
    assert_eq!(live.count(), 0);
}

#[testkit::test]
fn a_number_of_workers_that_is_out_of_range_is_named() {
    for workers in [0, usize::MAX] {
        let refused = AsyncPool::builder().workers(workers).build().unwrap_err();
        assert!(
            refused.to_string().contains(&workers.to_string()),
            "{refused}"
        );
    }
}
