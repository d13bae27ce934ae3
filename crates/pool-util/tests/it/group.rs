//! Groups: tasks that are awaited, taken as they end, or cancelled together.

use std::future::Future;
use std::pin::pin;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::SeqCst;
use std::sync::{Arc, mpsc};
use std::task::{Context, Poll, Wake, Waker};
use std::thread;
use std::time::Duration;

use pool_core::{
    CancelToken, Clock, JoinError, ManualClock, Pool, QueueDepth, SubmitError, WaitError,
    WithinWorker, current,
};
use pool_util::{MapError, PoolExt, TaskGroup};
use testkit::{CountingWaker, DropCounter, Gate};

fn pool(capacity: usize) -> Pool {
    let pool = Pool::builder()
        .capacity(capacity)
        .queue_depth(QueueDepth::Unlimited);
    pool.build().expect("it has a capacity")
}

/// A pool whose only worker waits for the gate.
fn held() -> (Pool, Gate) {
    let (pool, gate) = (pool(1), Gate::new());
    let wait = gate.clone();
    pool.submit(move || wait.wait()).expect("there is room");
    gate.wait_for_arrivals(1);
    (pool, gate)
}

#[testkit::test]
fn a_group_returns_values_in_the_order_of_their_ends_and_then_none() {
    let pool = pool(2);
    let (group, gate) = (pool.group(), Gate::new());
    let held = gate.clone();
    group.spawn(move || held.wait()).expect("there is room");
    let (group_of_values, first) = (pool.group(), Gate::new());
    let wait = first.clone();
    group_of_values
        .spawn(move || {
            wait.wait();
            1
        })
        .expect("there is room");
    gate.wait_for_arrivals(1);
    first.wait_for_arrivals(1);
    gate.open();
    assert!(matches!(group.next(), Some(Ok(()))));
    group_of_values.spawn(|| 2).expect("there is room");
    assert_eq!(group_of_values.next().and_then(Result::ok), Some(2));
    first.open();
    assert_eq!(group_of_values.next().and_then(Result::ok), Some(1));
    assert!(group_of_values.next().is_none() && group_of_values.is_empty());
}

#[testkit::test]
fn sixteen_threads_spawn_into_a_group_while_four_take_values() {
    let (pool, taken, left) = (pool(2), AtomicUsize::new(0), AtomicUsize::new(0));
    let group: TaskGroup<usize> = pool.group();
    thread::scope(|threads| {
        for _ in 0..16 {
            threads.spawn(|| {
                for n in 0..200 {
                    left.fetch_add(1, SeqCst);
                    group.spawn(move || n).expect("there is room");
                }
            });
        }
        for _ in 0..4 {
            threads.spawn(|| {
                while taken.load(SeqCst) < 16 * 200 {
                    match group.next() {
                        Some(value) => _ = value.map(|_| taken.fetch_add(1, SeqCst)),
                        None => thread::yield_now(),
                    }
                }
            });
        }
    });
    assert_eq!((taken.into_inner(), group.len()), (3_200, 0));
}

#[testkit::test]
fn a_groups_wait_returns_the_first_error_after_all_tasks_have_ended() {
    let (pool, ended) = (pool(2), Arc::new(AtomicUsize::new(0)));
    let group = pool.group();
    for n in 0..20 {
        let ended = Arc::clone(&ended);
        let task = move || {
            ended.fetch_add(1, SeqCst);
            assert!(n != 3, "three");
        };
        group.spawn(task).expect("there is room");
    }
    let failed = group.wait();
    assert!(matches!(failed, Err(JoinError::Panicked(it)) if it.message() == Some("three")));
    assert_eq!(ended.load(SeqCst), 20);
    assert!(group.wait().is_ok(), "nothing is left");
}

#[testkit::test]
fn cancelling_a_group_removes_unstarted_tasks_and_frees_their_room() {
    let (pool, gate) = held();
    let group = pool.group();
    for n in 0..10 {
        group.spawn(move || n).expect("there is room");
    }
    assert_eq!((group.cancel(), pool.queued()), (10, 0));
    assert_eq!(group.cancel(), 0);
    for _ in 0..10 {
        assert!(matches!(group.next(), Some(Err(JoinError::Cancelled))));
    }
    assert!(group.next().is_none());
    gate.open();
}

#[testkit::test]
fn the_first_error_cancels_unstarted_tasks_and_returns_later_ones_if_configured() {
    let (pool, gate) = held();
    let group = pool.group().cancel_on_error();
    group.spawn(|| panic!("one")).expect("there is room");
    let ran = Arc::new(AtomicUsize::new(0));
    for _ in 0..9 {
        let ran = Arc::clone(&ran);
        group
            .spawn(move || _ = ran.fetch_add(1, SeqCst))
            .expect("there is room");
    }
    gate.open();
    assert!(matches!(group.next(), Some(Err(JoinError::Panicked(_)))));
    let later = Arc::clone(&ran);
    let refused = group.spawn(move || _ = later.fetch_add(1, SeqCst));
    assert!(matches!(refused, Err(SubmitError::Cancelled(_))));
    pool.wait_idle().expect("the caller is not a worker");
    let mut cancelled = 0;
    while let Some(ended) = group.next() {
        cancelled += usize::from(matches!(ended, Err(JoinError::Cancelled)));
    }
    // The worker may have popped one more task before the first error was reported.
    assert_eq!(cancelled + ran.load(SeqCst), 9);
    assert!(cancelled >= 8, "{cancelled}");
}

#[testkit::test]
fn dropping_a_group_cancels_unstarted_tasks_and_detaches_running_ones() {
    let (pool, gate) = (pool(1), Gate::new());
    let (sender, receiver) = mpsc::channel();
    let group = pool.group();
    let (held, sent) = (gate.clone(), sender.clone());
    group
        .spawn(move || {
            held.wait();
            _ = sent.send("ran");
        })
        .expect("there is room");
    group
        .spawn(move || _ = sender.send("never"))
        .expect("there is room");
    gate.wait_for_arrivals(1);
    drop(group);
    assert_eq!(pool.queued(), 0);
    gate.open();
    assert_eq!(receiver.iter().collect::<Vec<_>>(), ["ran"]);
}

#[testkit::test]
fn the_drop_of_a_cancelled_capture_may_call_its_group_which_refuses_its_task() {
    struct Spawns(Arc<TaskGroup<u32>>);
    impl Drop for Spawns {
        fn drop(&mut self) {
            let refused = self.0.spawn(|| 7);
            assert!(matches!(refused, Err(SubmitError::Cancelled(_))));
        }
    }
    let (pool, gate) = held();
    let group = Arc::new(pool.group());
    let spawns = Spawns(Arc::clone(&group));
    group
        .spawn(move || {
            drop(spawns);
            1
        })
        .expect("there is room");
    assert_eq!(group.cancel(), 1);
    gate.open();
    assert!(matches!(group.next(), Some(Err(JoinError::Cancelled))));
    assert!(group.is_empty());
}

#[testkit::test]
fn the_only_worker_runs_the_tasks_of_its_group_in_place() {
    for policy in [
        WithinWorker::RunInPlace,
        WithinWorker::Block,
        WithinWorker::Refuse,
    ] {
        let pool = Pool::builder()
            .capacity(1)
            .queue_depth(QueueDepth::Unlimited);
        let pool = pool
            .within_worker(policy)
            .build()
            .expect("it has a capacity");
        let inner = pool.clone();
        let outer = pool.spawn(move || {
            let group = inner.group();
            for n in 0..10_u32 {
                group.spawn(move || n).expect("there is room");
            }
            std::iter::from_fn(|| group.next())
                .map(|value| value.expect("it runs"))
                .sum::<u32>()
        });
        assert_eq!(outer.expect("there is room").join().expect("it ends"), 45);
    }
}

#[testkit::test]
fn at_the_nesting_limit_an_unstarted_task_of_a_group_is_cancelled() {
    let pool = Pool::builder()
        .capacity(1)
        .queue_depth(QueueDepth::Unlimited);
    let pool = pool.nesting_limit(0).build().expect("it has a capacity");
    let inner = pool.clone();
    let outer = pool.spawn(move || {
        let group = inner.group();
        group.spawn(|| 1).expect("there is room");
        (group.next(), group.next().is_none())
    });
    let (refused, over) = outer.expect("there is room").join().expect("it ends");
    assert!(matches!(refused, Some(Err(JoinError::WouldDeadlock))) && over);
}

#[testkit::test]
fn a_timed_wait_of_a_group_uses_the_pools_clock_and_keeps_the_tasks() {
    let clock = ManualClock::new();
    let pool = Pool::builder().capacity(1).clock(clock.clone()).build();
    let pool = pool.expect("it has a capacity");
    let (group, gate) = (pool.group(), Gate::new());
    let held = gate.clone();
    group.spawn(move || held.wait()).expect("there is room");
    let now = pool_core::Clock::now(&clock);
    assert!(matches!(group.next_timeout(now), Err(WaitError::TimedOut)));
    assert!(matches!(group.wait_timeout(now), Err(WaitError::TimedOut)));
    assert_eq!(group.len(), 1);
    gate.open();
    assert!(group.wait().is_ok());
    assert!(matches!(group.next_timeout(now), Ok(None)));
}

struct Counts(AtomicUsize);

impl Wake for Counts {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, SeqCst);
    }
}

#[testkit::test]
fn a_groups_future_is_woken_once_per_wait() {
    let (pool, gate) = held();
    let group = pool.group();
    group.spawn(|| 1).expect("there is room");
    let counts = Arc::new(Counts(AtomicUsize::new(0)));
    let waker = Waker::from(Arc::clone(&counts));
    let mut context = Context::from_waker(&waker);
    let mut next = pin!(group.next_async());
    for _ in 0..100 {
        assert!(next.as_mut().poll(&mut context).is_pending());
    }
    gate.open();
    // The task ends before its waker is called, and the worker does not.
    pool.release();
    pool.wait_released().expect("the caller is not a worker");
    assert_eq!(counts.0.load(SeqCst), 1);
    assert!(matches!(next.poll(&mut context), Poll::Ready(Some(Ok(1)))));
    assert!(matches!(
        pin!(group.wait_async()).poll(&mut context),
        Poll::Ready(Ok(()))
    ));
}

#[testkit::test]
fn dropping_a_group_drops_its_wakers_at_once() {
    let (pool, gate) = (pool(1), Gate::new());
    let group = pool.group();
    let held = gate.clone();
    group.spawn(move || held.wait()).expect("there is room");
    gate.wait_for_arrivals(1);
    let counts = Arc::new(Counts(AtomicUsize::new(0)));
    let waker = Waker::from(Arc::clone(&counts));
    assert!(
        group
            .poll_next(&mut Context::from_waker(&waker))
            .is_pending()
    );
    drop(waker);
    drop(group);
    assert_eq!(Arc::strong_count(&counts), 1, "no worker has it");
    gate.open();
    pool.wait_idle().expect("the caller is not a worker");
    assert_eq!(counts.0.load(SeqCst), 0);
}

#[testkit::test]
fn two_futures_of_a_group_are_both_woken_by_an_end() {
    let (pool, gate) = held();
    let group = pool.group();
    group.spawn(|| 1).expect("there is room");
    let both = [(); 2].map(|()| Arc::new(Counts(AtomicUsize::new(0))));
    for counts in &both {
        let waker = Waker::from(Arc::clone(counts));
        assert!(
            group
                .poll_next(&mut Context::from_waker(&waker))
                .is_pending()
        );
    }
    gate.open();
    pool.release();
    pool.wait_released().expect("the caller is not a worker");
    assert_eq!(both.map(|counts| counts.0.load(SeqCst)), [1, 1]);
}

#[testkit::test]
fn a_refused_task_is_returned_and_not_part_of_the_group() {
    let pool = pool(1);
    pool.release();
    let group = pool.group();
    let refused = group.spawn(|| 7).map_err(SubmitError::into_task);
    assert_eq!(refused.err().map(|task| task()), Some(7));
    let group: TaskGroup<()> = group_of_a_full_pool().group();
    assert!(matches!(group.try_spawn(|| ()), Err(SubmitError::Full(_))));
    assert!(group.is_empty() && group.next().is_none());
}

fn group_of_a_full_pool() -> Pool {
    let pool = Pool::builder()
        .capacity(1)
        .queue_depth(0)
        .build()
        .expect("it has a capacity");
    let gate = Gate::new();
    let held = gate.clone();
    pool.submit(move || held.wait()).expect("there is room");
    gate.wait_for_arrivals(1);
    // Opened when the pool is dropped. By then the test has checked the refusal.
    thread::spawn({
        let pool = pool.downgrade();
        move || {
            while pool.upgrade().is_some() {
                thread::yield_now();
            }
            gate.open();
        }
    });
    pool
}

#[testkit::test]
fn invoke_any_returns_the_first_success_and_cancels_the_rest() {
    let (pool, gate) = (pool(1), Gate::new());
    let ran = Arc::new(AtomicUsize::new(0));
    let tasks = (0..100_u32).map(|n| {
        let (ran, gate) = (Arc::clone(&ran), gate.clone());
        move || {
            ran.fetch_add(1, SeqCst);
            if n == 3 {
                gate.wait();
            }
            if n == 2 { Ok(n) } else { Err(n) }
        }
    });
    assert!(matches!(pool.invoke_any(tasks), Ok(Some(2))));
    gate.open();
    pool.wait_idle().expect("the caller is not a worker");
    assert!(ran.load(SeqCst) <= 4, "the first four may have started");
    let none = pool.invoke_any((0..3).map(|n| move || Err::<(), u32>(n)));
    assert!(matches!(none, Err(MapError::Failed(2))));
    let empty = pool.invoke_any(Vec::<fn() -> Result<(), ()>>::new());
    assert!(matches!(empty, Ok(None)));
    let panics = pool.invoke_any([|| -> Result<(), ()> { panic!("one") }]);
    assert!(matches!(panics, Err(MapError::Panicked(_))));
    pool.release();
    let refused = pool.invoke_any([|| Ok::<(), ()>(())]);
    assert!(matches!(
        refused,
        Err(MapError::Refused(SubmitError::Released(())))
    ));
}

#[testkit::test]
fn a_submitted_task_is_counted_and_awaited_and_has_no_value() {
    let (pool, gate) = held();
    let (group, ran) = (pool.group(), Arc::new(AtomicUsize::new(0)));
    for _ in 0..3 {
        let ran = Arc::clone(&ran);
        group
            .submit(move || ran.fetch_add(1, SeqCst))
            .expect("there is room");
    }
    group.spawn(|| "a value").expect("there is room");
    assert_eq!((group.len(), group.is_empty()), (4, false));
    gate.open();
    assert_eq!(group.next().and_then(Result::ok), Some("a value"));
    assert!(group.next().is_none() && group.is_empty());
    assert_eq!(ran.load(SeqCst), 3);
    let later = Arc::clone(&ran);
    group
        .submit(move || later.store(0, SeqCst))
        .expect("there is room");
    group.wait().expect("it ends well");
    assert_eq!(ran.load(SeqCst), 0, "it was waited for");
}

#[testkit::test]
fn the_value_of_a_submitted_task_is_dropped_and_an_err_is_no_error() {
    let (pool, drops) = (pool(1), DropCounter::new());
    let group = pool.group::<Result<(), String>>().cancel_on_failure();
    let token = drops.token();
    group.submit(move || token).expect("there is room");
    group
        .submit(|| Err::<u8, _>("ignored"))
        .expect("there is room");
    pool.wait_idle().expect("the caller is not a worker");
    assert_eq!(drops.alive(), 0);
    assert!(group.next().is_none() && group.is_empty());
    group.spawn(|| Ok(())).expect("there is room");
    assert!(group.wait_ok().is_ok());
}

#[testkit::test]
fn a_panicking_submitted_task_fails_the_group_and_cancels_the_rest_if_configured() {
    let (pool, gate) = held();
    let group = pool.group::<u8>().cancel_on_error();
    group.submit(|| panic!("at once")).expect("there is room");
    group.submit(|| 1).expect("there is room");
    group.spawn(|| 2).expect("there is room");
    gate.open();
    let mut texts = Vec::new();
    while let Some(ended) = group.next() {
        texts.push(ended.expect_err("none has a value").to_string());
    }
    texts.sort();
    let cancelled = JoinError::Cancelled.to_string();
    assert_eq!(texts[1..], [cancelled.clone(), cancelled]);
    assert!(texts[0].contains("at once"), "{texts:?}");

    let group = pool.group::<u8>();
    group.submit(|| panic!("again")).expect("there is room");
    group.submit(|| ()).expect("there is room");
    let first = group.wait().expect_err("one has panicked");
    assert!(matches!(first, JoinError::Panicked(_)), "{first}");
}

#[testkit::test]
fn cancel_deadline_and_drop_of_a_group_cancel_submitted_tasks() {
    let clock = ManualClock::new();
    let pool = Pool::builder().capacity(1).queue_depth(9);
    let pool = pool.clock(clock.clone()).keep_alive(None).build();
    let (pool, gate) = (pool.expect("the settings are valid"), Gate::new());
    let held = gate.clone();
    pool.submit(move || held.wait()).expect("there is room");
    gate.wait_for_arrivals(1);
    let never = || unreachable!("it was taken back");
    let group = pool.group::<()>();
    group.submit(never).expect("there is room");
    assert_eq!((group.cancel(), pool.queued()), (1, 0));
    assert!(matches!(group.wait(), Err(JoinError::Cancelled)));

    let group = pool
        .group::<()>()
        .cancel_at(clock.now() + Duration::from_secs(1));
    group.submit(never).expect("there is room");
    clock.advance(Duration::from_secs(1));
    assert!(matches!(group.wait(), Err(JoinError::Cancelled)));

    let group = pool.group::<()>();
    group.submit(never).expect("there is room");
    drop(group);
    assert_eq!((pool.queued(), pool.stats().cancelled), (0, 3));
    gate.open();
}

#[testkit::test]
fn a_groups_owner_is_woken_when_the_last_submitted_task_ends() {
    let (pool, waker) = (pool(1), CountingWaker::new());
    let (group, gates) = (pool.group::<()>(), [Gate::new(), Gate::new()]);
    for gate in &gates {
        let gate = gate.clone();
        group.submit(move || gate.wait()).expect("there is room");
    }
    let task = waker.waker();
    let mut context = Context::from_waker(&task);
    assert!(group.poll_next(&mut context).is_pending());
    gates[0].open();
    gates[1].wait_for_arrivals(1);
    assert_eq!((waker.wakes(), group.len()), (0, 1));
    gates[1].open();
    waker.wait_for_wakes(1);
    assert!(matches!(group.poll_next(&mut context), Poll::Ready(None)));
}

#[testkit::test]
fn a_refused_submit_into_a_group_returns_the_task() {
    let pool = Pool::builder().capacity(1).start_paused(true).build();
    let pool = pool.expect("it has a capacity");
    let group = pool.group::<()>();
    group.try_submit(|| 1).expect("there is room");
    match group.try_submit(|| 7) {
        Err(SubmitError::Full(task)) => assert_eq!(task(), 7),
        other => panic!("{other:?}"),
    }
    match group.task().name("late").try_submit(|| 8) {
        Err(SubmitError::Full(task)) => assert_eq!(task(), 8),
        other => panic!("{other:?}"),
    }
    let large = [9_u8; 2_000];
    match testkit::block_on(async {
        pool.release();
        group.submit_async(move || large[1_999]).await
    }) {
        Err(SubmitError::Released(task)) => assert_eq!(task(), 9),
        other => panic!("{other:?}"),
    }
    group.wait().expect("the one that was accepted has run");
    assert!(group.is_empty());
}

#[testkit::test]
fn a_submit_into_a_group_takes_a_name_and_a_token_and_may_await_room() {
    let (pool, gate) = held();
    let (group, token) = (pool.group::<()>(), CancelToken::new());
    let (sender, names) = mpsc::channel();
    let sends = group.task().name("named");
    sends
        .submit(move || sender.send(current().name().map(str::to_owned)))
        .expect("there is room");
    let never = group.task().cancelled_by(&token);
    never
        .submit(|| unreachable!("it is cancelled"))
        .expect("there is room");
    let later = Arc::new(AtomicUsize::new(0));
    let ran = Arc::clone(&later);
    let awaits = group.submit_async(move || ran.fetch_add(1, SeqCst));
    assert_eq!(group.len(), 2, "nothing happens before the first poll");
    testkit::block_on(awaits).expect("there is room");
    assert_eq!(group.len(), 3);
    token.cancel();
    gate.open();
    assert!(matches!(group.wait(), Err(JoinError::Cancelled)));
    assert_eq!(names.recv(), Ok(Some("named".to_owned())));
    assert_eq!(later.load(SeqCst), 1);
}

#[testkit::test]
fn a_worker_that_waits_for_its_group_runs_submitted_tasks_in_place() {
    let pool = pool(1);
    let inner = pool.clone();
    let outer = pool.spawn(move || {
        let (group, here) = (inner.group::<()>(), thread::current().id());
        let (sender, ran) = mpsc::channel();
        for _ in 0..3 {
            let sender = sender.clone();
            let task = move || sender.send(thread::current().id());
            group.submit(task).expect("there is room");
        }
        group.wait().expect("they succeed");
        assert!(ran.try_iter().take(3).all(|thread| thread == here));
        group.len()
    });
    let left = outer.expect("there is room").join();
    assert_eq!(left.expect("nothing panics there"), 0);
}

#[testkit::test]
fn a_groups_tasks_take_options() {
    let ((pool, gate), token) = (held(), CancelToken::new());
    let group = pool.group();
    let name = || current().name().map(str::to_owned);
    group.task().name("one").spawn(name).unwrap();
    group.task().cancelled_by(&token).try_spawn(name).unwrap();
    token.cancel();
    gate.open();
    assert_eq!(group.next().unwrap().unwrap().as_deref(), Some("one"));
    assert!(matches!(group.next(), Some(Err(JoinError::Cancelled))));
    assert!(group.is_empty());
}
