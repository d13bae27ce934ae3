//! User code that panics, blocks, or calls back: clocks, wakers, destructors, wrappers of workers.

use std::future::{Future, pending, poll_fn};
use std::panic::{AssertUnwindSafe, catch_unwind, panic_any};
use std::pin::{Pin, pin};
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex, mpsc};
use std::task::{Context, Poll, Wake, Waker};
use std::time::{Duration, Instant};

use async_pool::{
    AsyncFuncPool, AsyncPool, Clock, DropPolicy, JoinError, JoinHandle, ManualClock, SubmitError,
};
use futures_lite::future::block_on;
use sync_shim::{Alarm, Parker};
use testkit::{Gate, PanicOnDrop};

use super::{Live, pool};

/// Panics with a payload whose destructor panics.
fn panic_badly() -> ! {
    panic_any(PanicOnDrop::nested(2))
}

/// A manual clock whose calls panic as told.
#[derive(Debug, Clone)]
struct BadClock {
    clock: ManualClock,
    now_panics: Arc<AtomicBool>,
    park_panics: Arc<AtomicBool>,
    /// Woken by the next call of `park_until`.
    wakes: Arc<Mutex<Option<Waker>>>,
}

impl BadClock {
    fn new() -> Self {
        Self {
            clock: ManualClock::new(),
            now_panics: Arc::default(),
            park_panics: Arc::default(),
            wakes: Arc::default(),
        }
    }
}

impl Clock for BadClock {
    fn now(&self) -> Instant {
        if self.now_panics.swap(false, SeqCst) {
            panic_badly();
        }
        self.clock.now()
    }

    fn park_until(&self, parker: &Parker, when: Instant) -> bool {
        if self.park_panics.swap(false, SeqCst) {
            panic_badly();
        }
        let waker = self
            .wakes
            .lock()
            .expect("no waker panics under the lock")
            .take();
        if let Some(waker) = waker {
            waker.wake();
        }
        self.clock.park_until(parker, when)
    }

    fn wake_at(&self, when: Instant, waker: Waker) -> std::io::Result<Alarm> {
        self.clock.wake_at(when, waker)
    }
}

fn pool_with_clock(workers: usize) -> (AsyncPool, ManualClock) {
    let clock = ManualClock::new();
    let builder = AsyncPool::builder().workers(workers);
    let pool = builder.clock(clock.clone()).build();
    (pool.expect("threads can be started"), clock)
}

fn poll_once(future: &mut (impl Future + Unpin)) -> bool {
    std::pin::Pin::new(future)
        .poll(&mut Context::from_waker(Waker::noop()))
        .is_ready()
}

#[testkit::test]
fn a_worker_survives_a_clock_that_panics_with_a_payload_that_panics() {
    let clock = BadClock::new();
    let pool = AsyncPool::builder()
        .workers(1)
        .capacity(4)
        .clock(clock.clone())
        .build()
        .unwrap();
    let sleeper = pool.spawn(async { async_pool::sleep(Duration::from_secs(1)).await });
    clock.clock.wait_for_sleepers(1);
    clock.now_panics.store(true, SeqCst);
    assert_eq!(pool.spawn(async { 1 }).unwrap().join().unwrap(), 1);
    clock.park_panics.store(true, SeqCst);
    assert_eq!(pool.spawn(async { 2 }).unwrap().join().unwrap(), 2);
    clock.now_panics.store(false, SeqCst);
    assert_eq!(pool.spawn(async { 3 }).unwrap().join().unwrap(), 3);
    clock.clock.wait_for_sleepers(1);
    clock.clock.advance(Duration::from_secs(1));
    sleeper.unwrap().join().unwrap();
    pool.release();
    pool.wait_released().unwrap();
}

#[testkit::test]
fn a_worker_survives_a_wrapper_that_panics_with_a_payload_that_panics() {
    for runs_first in [false, true] {
        let pool = AsyncPool::builder()
            .workers(2)
            .around_worker(move |run| {
                if runs_first {
                    run();
                }
                panic_badly();
            })
            .build()
            .unwrap();
        assert_eq!(pool.spawn(async { 1 }).unwrap().join().unwrap(), 1);
        pool.release();
        pool.wait_released().unwrap();
    }
}

#[testkit::test]
fn a_function_whose_destructor_panics_ends_no_worker() {
    let guard = PanicOnDrop::nested(3);
    let gate = Gate::new();
    let held = gate.clone();
    let pool = AsyncFuncPool::builder(move |()| {
        let _guard = &guard;
        let held = held.clone();
        async move { held.wait() }
    });
    let pool = pool
        .workers(1)
        .drop_policy(DropPolicy::Drain)
        .build()
        .unwrap();
    pool.submit(()).unwrap();
    gate.wait_for_arrivals(1);
    let released = pool.wait_released_async();
    drop(pool); // The task has the last reference to the function.
    gate.open();
    block_on(released).unwrap();
}

#[testkit::test]
fn a_waker_may_join_another_task_that_has_ended() {
    struct Joins(Mutex<Option<JoinHandle<u32>>>, mpsc::Sender<u32>);
    impl Wake for Joins {
        fn wake(self: Arc<Self>) {
            if let Some(handle) = self.0.lock().unwrap().take() {
                assert!(handle.is_finished());
                self.1.send(handle.join().unwrap()).unwrap();
            }
        }
    }
    let pool = pool(1, 8);
    let (inner, (handles, spawned)) = (pool.clone(), mpsc::channel());
    let gate = Gate::new();
    let held = gate.clone();
    // Both end uncounted, before a poll that blocks.
    pool.submit(async move {
        let first = inner.spawn(async { 1 }).unwrap();
        let second = inner.spawn(async { 2 }).unwrap();
        inner.submit(async move { held.wait() }).unwrap();
        handles.send((first, second)).unwrap();
    })
    .unwrap();
    let (mut first, second) = spawned.recv().unwrap();
    gate.wait_for_arrivals(1);
    let (values, joined) = mpsc::channel();
    let waker = Waker::from(Arc::new(Joins(Mutex::new(Some(second)), values)));
    let mut context = Context::from_waker(&waker);
    while Pin::new(&mut first).poll(&mut context).is_pending() {}
    drop(waker);
    if let Ok(value) = joined.recv() {
        assert_eq!(value, 2);
    }
    gate.open();
}

#[testkit::test]
fn a_wait_that_a_clock_ends_by_a_panic_holds_no_room() {
    let clock = BadClock::new();
    let pool = AsyncPool::builder()
        .workers(1)
        .capacity(1)
        .clock(clock.clone())
        .build()
        .unwrap();
    let permit = pool.reserve().unwrap();
    clock.park_panics.store(true, SeqCst);
    let panicked = catch_unwind(AssertUnwindSafe(|| {
        pool.reserve_timeout(Duration::from_secs(1)).is_ok()
    }));
    std::mem::forget(panicked.unwrap_err()); // Its payload panics.
    assert_eq!(pool.stats().waiting, 0);
    clock.park_panics.store(true, SeqCst);
    let live = Live::new();
    let guard = live.one();
    let panicked = catch_unwind(AssertUnwindSafe(|| {
        pool.submit_timeout(async move { drop(guard) }, Duration::from_secs(1))
            .is_ok()
    }));
    std::mem::forget(panicked.unwrap_err());
    assert_eq!((pool.stats().waiting, live.count()), (0, 0));
    drop(permit);
    let stats = pool.stats();
    assert_eq!((stats.reserved, stats.live, stats.submitted), (0, 0, 0));
}

#[testkit::test]
fn a_task_that_the_clock_of_a_parking_worker_wakes_is_run() {
    let clock = BadClock::new();
    let pool = AsyncPool::builder()
        .workers(1)
        .capacity(2)
        .clock(clock.clone())
        .build()
        .unwrap();
    let sleeper = pool
        .spawn(async { async_pool::sleep(Duration::from_secs(1)).await })
        .unwrap();
    let (place, mut first) = (Arc::clone(&clock.wakes), true);
    let woken = pool.spawn(poll_fn(move |context| {
        if std::mem::take(&mut first) {
            *place.lock().unwrap() = Some(context.waker().clone());
            return Poll::Pending;
        }
        Poll::Ready(3)
    }));
    assert_eq!(woken.unwrap().join().unwrap(), 3);
    drop(sleeper.cancel_on_drop());
}

#[testkit::test]
fn a_task_waits_for_no_poll_that_blocks_while_a_worker_is_idle() {
    let pool = pool(2, 8);
    let inner = pool.clone();
    let outer = pool.spawn(async move {
        let (sender, receiver) = mpsc::channel();
        inner
            .submit(async move { sender.send(4).unwrap() })
            .unwrap();
        receiver.recv().unwrap() // Blocks its worker.
    });
    assert_eq!(outer.unwrap().join().unwrap(), 4);
}

#[testkit::test]
fn new_tasks_wait_for_no_poll_that_blocks_while_a_worker_is_idle() {
    let pool = pool(2, 16);
    let gate = Gate::new();
    for _ in 0..2 {
        let gate = gate.clone();
        pool.submit(async move { gate.wait() }).unwrap();
    }
    gate.wait_for_arrivals(2);
    // All are in the inbox before a worker looks. One worker takes the first two, and blocks in the first.
    let (sender, receiver) = mpsc::channel();
    pool.submit(async move { receiver.recv().unwrap() })
        .unwrap();
    pool.submit(async move { sender.send(()).unwrap() })
        .unwrap();
    pool.submit(async {}).unwrap();
    pool.submit(async {}).unwrap();
    gate.open();
    pool.wait_idle().unwrap();
}

#[testkit::test]
fn an_unwatched_worker_whose_poll_blocks_delays_no_timer() {
    let (pool, clock) = pool_with_clock(2);
    let [gate, slept] = [(); 2].map(|()| Gate::new());
    slept.open();
    let passes = gate.clone();
    let other = pool
        .spawn(async move {
            passes.wait();
            async_pool::sleep(Duration::from_secs(3_600)).await;
        })
        .unwrap();
    gate.wait_for_arrivals(1);
    // One worker is blocked, so the other has this timer, and is the watcher.
    let sleeps = slept.clone();
    let sleeper = pool
        .spawn(async move {
            let mut sleep = async_pool::sleep(Duration::from_millis(100));
            assert!(!poll_once(&mut sleep));
            sleeps.wait();
            sleep.await;
        })
        .unwrap();
    slept.wait_for_arrivals(1);
    clock.wait_for_sleepers(1);
    gate.open();
    clock.wait_for_sleepers(2);
    // The watcher looks, and parks again. As both are idle now, neither watches.
    clock.advance(Duration::from_millis(5));
    clock.wait_for_sleepers(2);
    // As the last to park it gets this task.
    let (sender, receiver) = mpsc::channel::<()>();
    let begun = Gate::new();
    begun.open();
    let begins = begun.clone();
    pool.submit(async move {
        begins.wait();
        assert!(receiver.recv().is_err());
    })
    .unwrap();
    begun.wait_for_arrivals(1);
    // The other worker looks now, or has begun to watch, which delays the timer for 5 ms.
    clock.advance(Duration::from_millis(95));
    clock.wait_for_sleepers(1);
    clock.advance(Duration::from_millis(5));
    sleeper.join().unwrap();
    drop(sender);
    other.cancel();
}

#[testkit::test]
fn a_task_that_yields_before_a_poll_that_blocks_is_run_by_an_idle_worker() {
    let (pool, clock) = pool_with_clock(2);
    let inner = pool.clone();
    let yields = async move {
        // The other worker is the watcher, and the time at which it would look does not come.
        clock.wait_for_sleepers(1);
        let (sender, receiver) = mpsc::channel();
        inner
            .submit(async move { receiver.recv().unwrap() })
            .unwrap();
        async_pool::yield_now().await;
        sender.send(()).unwrap();
    };
    pool.spawn(yields).unwrap().join().unwrap();
    pool.wait_idle().unwrap();
}

#[testkit::test]
fn a_caller_gets_the_room_of_an_ended_task_while_its_worker_is_blocked() {
    let pool = pool(2, 4);
    let [busy, holds, blocks] = [(); 3].map(|()| Gate::new());
    let occupies = busy.clone();
    pool.submit(async move { occupies.wait() }).unwrap();
    busy.wait_for_arrivals(1);
    // On the other worker: two tasks end, and the next one blocks.
    let (inner, waits, passes) = (pool.clone(), holds.clone(), blocks.clone());
    pool.submit(async move {
        inner.submit(async {}).unwrap();
        inner.submit(async move { passes.wait() }).unwrap();
        waits.wait();
    })
    .unwrap();
    holds.wait_for_arrivals(1);
    std::thread::scope(|scope| {
        let callers = [(); 3].map(|()| scope.spawn(|| pool.spawn(pending::<()>()).unwrap()));
        while pool.stats().waiting < 3 {
            std::thread::yield_now();
        }
        holds.open();
        blocks.wait_for_arrivals(1);
        // The worker that is free now ends its own task, which is room for one caller.
        busy.open();
        let tasks = callers.map(|caller| caller.join().unwrap());
        blocks.open();
        tasks.iter().for_each(async_pool::JoinHandle::cancel);
    });
    pool.wait_idle().unwrap();
}

#[testkit::test]
fn a_waker_that_submits_and_cancels_meets_no_lock() {
    struct CallsBack(AsyncPool, AtomicUsize);
    impl std::task::Wake for CallsBack {
        fn wake(self: Arc<Self>) {
            self.1.fetch_add(1, SeqCst);
            let _stats = self.0.stats();
            _ = self.0.try_submit(async {});
            self.0.tune(1).unwrap();
            drop(self.0.try_reserve());
        }
    }
    impl Drop for CallsBack {
        fn drop(&mut self) {
            let _stats = self.0.stats();
            _ = self.0.try_submit(async {});
        }
    }
    let pool = pool(1, 1);
    let back = || Arc::new(CallsBack(pool.clone(), AtomicUsize::new(0)));
    let permit = pool.reserve().unwrap();
    let mut submit = pool.submit_async(async {});
    let mut reserve = pool.reserve_async();
    let mut idle = pool.wait_idle_async();
    let poll = |future: std::pin::Pin<&mut dyn Future<Output = ()>>| {
        let waker = Waker::from(back());
        future.poll(&mut Context::from_waker(&waker)).is_ready()
    };
    for _ in 0..2 {
        // Twice: the second poll drops the waker of the first.
        assert!(!poll(pin!(async { _ = (&mut submit).await })));
        assert!(!poll(pin!(async { _ = (&mut reserve).await })));
    }
    drop(permit);
    block_on(submit).unwrap();
    drop(reserve);
    block_on(&mut idle).unwrap();
    let handle = pool.spawn(pending::<()>()).unwrap();
    let mut handle = Box::pin(handle);
    for _ in 0..2 {
        let waker = Waker::from(back());
        assert!(
            handle
                .as_mut()
                .poll(&mut Context::from_waker(&waker))
                .is_pending()
        );
    }
    handle.cancel();
    assert!(matches!(block_on(handle), Err(JoinError::Cancelled)));
    pool.wait_idle().unwrap();
}

#[testkit::test]
fn a_future_whose_drop_submits_cancels_and_wakes_itself_ends_once() {
    struct Hostile {
        pool: AsyncPool,
        waker: Option<Waker>,
        drops: Arc<AtomicUsize>,
    }
    impl Future for Hostile {
        type Output = ();
        fn poll(mut self: std::pin::Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
            self.waker = Some(context.waker().clone());
            Poll::Pending
        }
    }
    impl Drop for Hostile {
        fn drop(&mut self) {
            self.drops.fetch_add(1, SeqCst);
            if let Some(waker) = self.waker.take() {
                waker.wake_by_ref();
                waker.wake();
            }
            _ = self.pool.try_submit(async {});
            panic_badly();
        }
    }
    for queue in [0, 2] {
        let pool = AsyncPool::builder()
            .workers(2)
            .capacity(2)
            .queue_depth(queue)
            .build()
            .unwrap();
        let drops = Arc::new(AtomicUsize::new(0));
        let handles: Vec<_> = (0..2 + queue)
            .map(|_| {
                let pool = pool.clone();
                let drops = Arc::clone(&drops);
                let hostile = Hostile {
                    pool: pool.clone(),
                    waker: None,
                    drops,
                };
                pool.spawn(hostile).unwrap()
            })
            .collect();
        handles[0].cancel();
        pool.release_now();
        for handle in handles {
            assert!(handle.join().is_err());
        }
        pool.wait_released().unwrap();
        assert_eq!(drops.load(SeqCst), 2 + queue);
        let stats = pool.stats();
        let ended = stats.completed + stats.panicked + stats.cancelled + stats.released;
        assert_eq!((stats.submitted, stats.in_flight), (ended, 0));
    }
}

#[testkit::test]
fn a_waker_that_outlives_its_pool_does_nothing() {
    let (sender, receiver) = mpsc::channel();
    let pool = pool(1, 1);
    pool.submit(poll_fn(move |context| {
        sender.send(context.waker().clone()).unwrap();
        Poll::<()>::Pending
    }))
    .unwrap();
    let waker = receiver.recv().unwrap();
    pool.release_now();
    pool.wait_released().unwrap();
    drop(pool);
    waker.wake_by_ref();
    waker.wake_by_ref();
    drop(waker);
}

#[testkit::test]
fn a_released_pool_has_not_ended_while_a_discarded_future_is_being_dropped() {
    struct DropsAt(Gate);
    impl Drop for DropsAt {
        fn drop(&mut self) {
            self.0.wait();
        }
    }
    let pool = AsyncPool::builder()
        .workers(1)
        .capacity(1)
        .queue_depth(1)
        .build()
        .unwrap();
    let (running, dropping) = (Gate::new(), Gate::new());
    let runs = running.clone();
    pool.submit(async move { runs.wait() }).unwrap();
    running.wait_for_arrivals(1);
    let held = DropsAt(dropping.clone());
    let handle = pool.spawn(async move { drop(held) }).unwrap();
    std::thread::scope(|scope| {
        scope.spawn(|| pool.release_now());
        dropping.wait_for_arrivals(1);
        running.open();
        let mut ended = pool.wait_released_async();
        let mut idle = pool.wait_idle_async();
        // The running task has ended once the other one is the only one.
        while pool.stats().live > 0 {
            std::thread::yield_now();
        }
        assert!(!poll_once(&mut idle), "a future is being dropped");
        assert!(!poll_once(&mut ended));
        assert!(!handle.is_finished());
        dropping.open();
        block_on(idle).unwrap();
        block_on(ended).unwrap();
    });
    assert!(matches!(handle.join(), Err(JoinError::Released)));
    assert_eq!(pool.stats().released, 1);
}

#[testkit::test]
fn a_reboot_keeps_no_future_that_a_release_now_has_to_drop() {
    let pool = pool(1, 2);
    let gate = Gate::new();
    let (live, held) = (Live::new(), gate.clone());
    let guard = live.one();
    let doomed = pool.spawn(async move {
        let _guard = guard;
        pending::<()>().await;
    });
    pool.submit(async move { held.wait() }).unwrap();
    gate.wait_for_arrivals(1);
    pool.release_now();
    assert!(pool.reboot().unwrap());
    gate.open();
    assert!(matches!(doomed.unwrap().join(), Err(JoinError::Released)));
    assert_eq!(live.count(), 0);
    assert_eq!(pool.spawn(async { 1 }).unwrap().join().unwrap(), 1);
}

#[testkit::test]
fn the_last_handle_may_be_dropped_by_a_thread_local_of_a_worker() {
    std::thread_local! {
        static KEPT: std::cell::RefCell<Option<(AsyncPool, mpsc::Sender<()>)>> =
            const { std::cell::RefCell::new(None) };
    }
    let pool = AsyncPool::builder()
        .workers(2)
        .drop_policy(DropPolicy::Join)
        .build()
        .unwrap();
    let (sender, receiver) = mpsc::channel();
    let kept = (pool.clone(), sender);
    pool.spawn(async { KEPT.set(Some(kept)) })
        .unwrap()
        .join()
        .unwrap();
    let gate = Gate::new();
    let held = gate.clone();
    pool.submit(async move { held.wait() }).unwrap();
    pool.release();
    drop(pool); // The thread-local has the last handle.
    gate.open();
    assert!(receiver.recv().is_err(), "the drop of the handle returns");
}

#[testkit::test]
fn a_submit_refused_by_the_wait_queues_bound_returns_its_future() {
    let pool = AsyncPool::builder()
        .workers(1)
        .capacity(1)
        .max_waiting(0)
        .build()
        .unwrap();
    let _permit = pool.reserve().unwrap();
    let refused = block_on(pool.submit_async(async { 3 })).unwrap_err();
    let SubmitError::Full(future) = refused else {
        panic!("the pool is full")
    };
    assert_eq!(block_on(future), 3);
}

#[testkit::test]
fn a_dropped_sleep_leaves_nothing_of_its_task() {
    let kept = Arc::new(());
    let held = Arc::clone(&kept);
    let pool = AsyncFuncPool::builder(move |begins: mpsc::Sender<()>| {
        let held = Arc::clone(&held);
        async move {
            begins.send(()).unwrap();
            async_pool::sleep(Duration::from_secs(3_600)).await;
            drop(held);
        }
    });
    let pool = pool.workers(1).build().unwrap();
    let (begins, begun) = mpsc::channel();
    let task = pool.spawn(begins).unwrap();
    begun.recv().unwrap(); // The same poll sets the timer.
    task.cancel();
    assert!(task.join().is_err());
    pool.release();
    pool.wait_released().unwrap();
    drop(pool);
    assert_eq!(Arc::strong_count(&kept), 1, "a timer keeps the task");
}
