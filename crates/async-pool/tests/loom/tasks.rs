//! Run queues and the state of a task: pushes, wake-ups, cancels, polls on several workers.

use std::future::{Future, poll_fn};
use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::time::{Duration, Instant};

use async_pool::{AsyncPool, Clock, DropPolicy, JoinError, ManualClock, sleep_until, yield_now};
use sync_shim::atomic::{AtomicBool, Ordering::Relaxed};
use sync_shim::model::spawn;
use sync_shim::{Alarm, Condvar, Mutex, Parker};

use super::{Count, Signal, end, pool};

/// A thread or a poll blocks at it until it is open.
#[derive(Clone)]
struct Gate(Arc<(Mutex<bool>, Condvar)>);

impl Gate {
    fn new() -> Self {
        Self(Arc::new((Mutex::new(false), Condvar::new())))
    }

    fn open(&self) {
        *self.0.0.lock() = true;
        self.0.1.notify_all();
    }

    fn wait(&self) {
        let mut is_open = self.0.0.lock();
        while !*is_open {
            self.0.1.wait(&mut is_open);
        }
    }
}

/// Step W3 against S1: a worker that finds nothing and parks, and a task that arrives.
#[testkit::model(preemptions = 3)]
fn a_submit_racing_a_parking_worker_of_futures_is_run() {
    let pool = pool(1, 2);
    assert_eq!(pool.spawn(async { 1 }).unwrap().join().unwrap(), 1);
    assert_eq!(pool.spawn(async { 2 }).unwrap().join().unwrap(), 2);
    end(&pool);
}

/// Two workers park: one task from elsewhere, and one that it wakes from a worker, both run.
#[testkit::model(preemptions = 2)]
fn a_submit_racing_two_parking_workers_is_run() {
    let pool = pool(2, 2);
    assert_eq!(pool.spawn(async { 1 }).unwrap().join().unwrap(), 1);
    pool.wait_idle().unwrap();
    end(&pool);
}

/// Step T2 against T3: a wake-up during a poll, at its end, and after it. The task is polled again.
#[testkit::model(preemptions = 2)]
fn a_wake_up_racing_the_end_of_a_poll_is_not_lost() {
    let (pool, signal) = (pool(1, 1), Signal::new());
    let task = pool.spawn(Arc::clone(&signal).wait()).unwrap();
    let waker = spawn(move || signal.set());
    task.join().unwrap();
    waker.join().unwrap();
    end(&pool);
}

/// The same with two workers: the second one does not poll while the first still does. The cell of the future checks that.
#[testkit::model(preemptions = 2)]
fn a_task_that_is_woken_during_a_poll_is_polled_by_one_worker_at_a_time() {
    let (pool, signal, drops) = (pool(2, 1), Signal::new(), Count::new());
    let waits = Arc::clone(&signal).wait();
    let guard = drops.on_drop();
    let task = pool.spawn(async move {
        let _guard = guard;
        waits.await;
    });
    signal.set();
    task.unwrap().join().unwrap();
    assert_eq!(drops.get(), 1);
    end(&pool);
}

/// Two wake-ups by a waker of an earlier poll, so that only the task's state orders the polls of two workers. The cell of
/// the future checks that it does.
#[testkit::model(preemptions = 2)]
fn the_second_of_two_wake_ups_racing_a_poll_is_polled_after_it() {
    let (pool, slot) = (pool(2, 1), Arc::new((Mutex::new(None), Condvar::new())));
    let is_set = Arc::new(AtomicBool::new(false));
    let (leaves, looks) = (Arc::clone(&slot), Arc::clone(&is_set));
    let mut polls = 0;
    let task = pool.spawn(poll_fn(move |context| {
        polls += 1;
        if polls == 1 {
            *leaves.0.lock() = Some(context.waker().clone());
            leaves.1.notify_all();
        }
        if looks.load(Relaxed) {
            Poll::Ready(polls)
        } else {
            Poll::Pending
        }
    }));
    let waker: Waker = {
        let mut slot_of = slot.0.lock();
        loop {
            match slot_of.take() {
                Some(waker) => break waker,
                None => slot.1.wait(&mut slot_of),
            }
        }
    };
    waker.wake_by_ref();
    is_set.store(true, Relaxed);
    waker.wake();
    assert!(task.unwrap().join().unwrap() <= 3);
    end(&pool);
}

/// Step C1 against a poll: the future is dropped once, by the poll that finds it ready or by the cancel.
#[testkit::model(preemptions = 3)]
fn a_cancel_racing_a_poll_drops_the_future_once() {
    let (pool, drops) = (pool(1, 1), Count::new());
    let guard = drops.on_drop();
    let task = pool.spawn(async move {
        yield_now().await;
        drop(guard);
        7
    });
    let task = task.unwrap();
    task.cancel();
    match task.join() {
        Ok(value) => assert_eq!((value, drops.get()), (7, 1)),
        Err(JoinError::Cancelled) => assert_eq!(drops.get(), 1),
        Err(other) => panic!("{other}"),
    }
    end(&pool);
}

/// A cancel, a wake-up and a poll of a future that never ends by itself.
#[testkit::model(preemptions = 2)]
fn a_cancel_racing_a_wake_up_ends_the_task() {
    let (pool, signal, drops) = (pool(1, 1), Signal::new(), Count::new());
    let (waits, guard) = (Arc::clone(&signal).wait(), drops.on_drop());
    let task = pool.spawn(async move {
        let _guard = guard;
        waits.await;
        std::future::pending::<()>().await;
    });
    let waker = spawn(move || signal.set());
    let task = task.unwrap();
    task.cancel();
    assert!(matches!(task.join(), Err(JoinError::Cancelled)));
    assert_eq!(drops.get(), 1);
    waker.join().unwrap();
    end(&pool);
}

/// Step W2 against the owner's pop: each task is run once.
#[testkit::model(preemptions = 2)]
fn a_steal_racing_a_pop_runs_every_task_once() {
    let (pool, runs) = (pool(2, 4), Count::new());
    let (inner, counted) = (pool.clone(), runs.clone());
    pool.submit(async move {
        for _ in 0..2 {
            let counted = counted.clone();
            inner.submit(async move { counted.add() }).unwrap();
        }
    })
    .unwrap();
    pool.wait_idle().unwrap();
    assert_eq!(runs.get(), 2);
    end(&pool);
}

/// A clock by which every wait ends at once.
#[derive(Debug)]
struct Hasty(ManualClock);

impl Clock for Hasty {
    fn now(&self) -> Instant {
        self.0.now()
    }

    fn park_until(&self, _: &Parker, _: Instant) -> bool {
        sync_shim::thread::yield_now();
        false
    }

    fn wake_at(&self, when: Instant, waker: Waker) -> io::Result<Alarm> {
        self.0.wake_at(when, waker)
    }
}

/// Step W5: a task waits in the queue of a worker that blocks, and the other worker parks at that time. It looks again when
/// the time of a watcher is over.
#[testkit::model(preemptions = 2)]
fn a_task_behind_a_blocking_poll_racing_a_parking_worker_is_run() {
    let pool = AsyncPool::builder()
        .workers(2)
        .capacity(2)
        .clock(Hasty(ManualClock::new()))
        .drop_policy(DropPolicy::Drain)
        .build()
        .unwrap();
    let inner = pool.clone();
    let blocks = pool.spawn(async move {
        let done = Gate::new();
        let opens = done.clone();
        inner.submit(async move { opens.open() }).unwrap();
        done.wait();
    });
    blocks.unwrap().join().unwrap();
    pool.wait_idle().unwrap();
    end(&pool);
}

/// Opens a gate as the waker of a nested `block_on` does.
struct Opens(Gate);

impl Wake for Opens {
    fn wake(self: Arc<Self>) {
        self.0.open();
    }
}

/// A poll sets a timer with a waker of its own and blocks until that fires, and the other worker has parked before or parks
/// at that time. It fires the timer.
#[testkit::model(preemptions = 1)]
fn a_timer_of_a_nested_block_on_racing_a_parking_worker_fires() {
    let clock = ManualClock::new();
    let pool = AsyncPool::builder()
        .workers(2)
        .capacity(2)
        .clock(Hasty(clock.clone()))
        .drop_policy(DropPolicy::Drain)
        .build()
        .unwrap();
    pool.spawn(async {}).unwrap().join().unwrap();
    let blocks = pool.spawn(async move {
        let fired = Gate::new();
        let waker = Waker::from(Arc::new(Opens(fired.clone())));
        let mut sleep = sleep_until(clock.now() + Duration::from_secs(1));
        let polled = Pin::new(&mut sleep).poll(&mut Context::from_waker(&waker));
        assert!(polled.is_pending());
        clock.advance(Duration::from_secs(1));
        fired.wait();
    });
    blocks.unwrap().join().unwrap();
    pool.wait_idle().unwrap();
    end(&pool);
}

/// Step W3 against S2: two tasks wait in the queue of a worker that blocks until one has run, and the other worker parks at that
/// time. It sees them, or is woken: the clock stands still, so no watcher does.
#[testkit::model(preemptions = 2)]
fn two_tasks_behind_a_blocking_poll_racing_a_parking_worker_need_no_watcher() {
    let pool = pool(2, 3);
    let inner = pool.clone();
    let blocks = pool.spawn(async move {
        let done = Gate::new();
        for _ in 0..2 {
            let opens = done.clone();
            inner.submit(async move { opens.open() }).unwrap();
        }
        done.wait();
    });
    blocks.unwrap().join().unwrap();
    pool.wait_idle().unwrap();
    end(&pool);
}

/// Step W1: one section starts two tasks and wakes one worker, which wakes the other one: each task blocks until both run.
#[testkit::model(preemptions = 1)]
fn a_burst_racing_two_parking_workers_wakes_both() {
    let pool = AsyncPool::builder()
        .workers(2)
        .capacity(1)
        .queue_depth(2)
        .drop_policy(DropPolicy::Drain)
        .build()
        .unwrap();
    pool.spawn(async {}).unwrap().join().unwrap(); // Both workers run, and may have parked.
    let (signal, gates) = (Signal::new(), [Gate::new(), Gate::new()]);
    pool.submit(Arc::clone(&signal).wait()).unwrap();
    for own in 0..2 {
        let gates = gates.clone();
        let meets = async move {
            gates[own].open();
            gates[1 - own].wait();
        };
        pool.submit(meets).unwrap();
    }
    pool.tune(3).unwrap();
    gates[0].wait();
    gates[1].wait();
    signal.set();
    pool.wait_idle().unwrap();
    end(&pool);
}

/// A join against the end of a task whose worker then runs a poll that blocks until the join has returned.
#[testkit::model(preemptions = 3)]
fn a_join_racing_an_end_does_not_wait_for_the_next_poll() {
    let (pool, gate) = (pool(1, 2), Gate::new());
    let first = pool.spawn(async { 5 }).unwrap();
    let passes = gate.clone();
    pool.submit(async move { passes.wait() }).unwrap();
    assert_eq!(first.join().unwrap(), 5);
    gate.open();
    pool.wait_idle().unwrap();
    end(&pool);
}

/// A submit to a full pool after the end of a task whose worker runs a poll that blocks until the submit has returned.
#[testkit::model(preemptions = 2)]
fn a_full_pool_has_room_once_a_task_has_ended_before_a_poll_that_blocks() {
    let (pool, begun, gate) = (pool(1, 2), Gate::new(), Gate::new());
    pool.submit(async {}).unwrap();
    let (begins, passes) = (begun.clone(), gate.clone());
    let blocks = async move {
        begins.open();
        passes.wait();
    };
    pool.submit(blocks).unwrap();
    begun.wait(); // So the first task has ended.
    pool.try_submit(async {}).unwrap();
    gate.open();
    pool.wait_idle().unwrap();
    end(&pool);
}

/// The drop of a handle against the end of its task: the value is dropped once, by one of them.
#[testkit::model(preemptions = 3)]
fn a_handle_that_is_dropped_racing_its_tasks_end_drops_the_value_once() {
    let (pool, drops) = (pool(1, 1), Count::new());
    let value = drops.on_drop();
    drop(pool.spawn(async move { value }).unwrap());
    pool.wait_idle().unwrap();
    end(&pool);
    assert_eq!(drops.get(), 1);
}

/// A poll of a handle, which leaves its waker, against the end of the task.
#[testkit::model(preemptions = 3)]
fn an_await_racing_the_tasks_end_gets_the_value() {
    let pool = pool(1, 1);
    let task = pool.spawn(async { 4 }).unwrap();
    assert_eq!(loom::future::block_on(task).unwrap(), 4);
    assert_eq!(
        pool.stats().live,
        0,
        "the room is free before the value is there"
    );
    end(&pool);
}
