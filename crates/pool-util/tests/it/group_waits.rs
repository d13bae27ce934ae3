//! Waits of groups that end early, late, or in a forked child, and tasks that the owner runs in
//! place.

use std::future::Future;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::SeqCst;
use std::task::{Context, Poll, Waker};
use std::thread;
use std::time::{Duration, Instant};

use pool_core::{
    Alarm, Clock, JoinError, ManualClock, Parker, Pool, QueueDepth, WaitError, current,
};
use pool_util::{PoolExt, TaskGroup};
use testkit::{CountingWaker, Gate, PanicOnDrop, block_on};

use crate::support::{hold, until};

const SECOND: Duration = Duration::from_secs(1);

fn pool_with(clock: &(impl Clock + Clone), capacity: usize) -> Pool {
    let pool = Pool::builder().capacity(capacity).keep_alive(None);
    let pool = pool.queue_depth(QueueDepth::Unlimited);
    pool.clock(clock.clone()).build().unwrap()
}

#[cfg(unix)]
#[testkit::test]
fn a_group_in_a_forked_child_reports_its_lost_tasks_once() {
    use pool_core::SubmitError;
    use pool_util::MapError;

    let test = "group_waits::a_group_in_a_forked_child_reports_its_lost_tasks_once";
    let ended = testkit::in_child(test, || {
        let pool = Pool::builder()
            .capacity(1)
            .keep_alive(None)
            .build()
            .unwrap();
        let gate = Gate::new();
        let held = gate.clone();
        let groups: [TaskGroup<Result<(), u8>>; 6] = std::array::from_fn(|_| pool.group());
        groups[0]
            .spawn(move || {
                held.wait();
                Ok(())
            })
            .unwrap();
        gate.wait_for_arrivals(1);
        // SAFETY: the child uses nothing of other threads except the pool under test, whose lock is
        // free because its one worker waits at the gate. The child leaves by `_exit`.
        let child = unsafe { libc::fork() };
        assert!(child >= 0);
        if child == 0 {
            // SAFETY: `alarm` has no preconditions. It ends a child that hangs.
            unsafe { libc::alarm(30) };
            let told = catch_unwind(AssertUnwindSafe(|| {
                let soon = std::time::Instant::now() + SECOND;
                for group in &groups {
                    for _ in 0..2 {
                        assert!(matches!(group.wait(), Err(JoinError::Forked)));
                        let waited = group.wait_timeout(soon);
                        assert!(matches!(waited, Ok(Err(JoinError::Forked))));
                        let waited = block_on(group.wait_async());
                        assert!(matches!(waited, Err(JoinError::Forked)));
                    }
                }
                let [next, deadline, polled, tried, tried_async, _] = &groups;
                assert!(matches!(next.next(), Some(Err(JoinError::Forked))));
                assert!(next.next().is_none());
                let timed = || deadline.next_timeout(soon).unwrap();
                assert!(matches!(timed(), Some(Err(JoinError::Forked))));
                assert!(timed().is_none());
                let awaited = || block_on(polled.next_async());
                assert!(matches!(awaited(), Some(Err(JoinError::Forked))));
                assert!(awaited().is_none());
                let refused = |it| matches!(it, Err(MapError::Refused(SubmitError::Forked(()))));
                assert!(refused(tried.wait_ok()));
                assert!(refused(block_on(tried_async.wait_ok_async())));
                let any = pool.invoke_any([|| Ok::<_, u8>(())]);
                assert!(refused(any.map(drop)));
                let any = block_on(pool.invoke_any_async([|| Ok::<_, u8>(())]));
                assert!(refused(any.map(drop)));
                assert!(pool.group::<()>().wait().is_err());
            }));
            // SAFETY: `_exit` has no preconditions.
            unsafe { libc::_exit(i32::from(told.is_err())) };
        }
        let mut status = -1;
        // SAFETY: `status` is a valid, exclusive reference.
        let waited = unsafe { libc::waitpid(child, &raw mut status, 0) };
        assert_eq!((waited, status), (child, 0));
        gate.open();
    });
    assert!(ended.is_ok(), "{ended:?}");
}

/// Has a worker wait for a group of one task, which runs in place until it is asked to stop.
/// Returns the group once the task runs.
fn in_place(pool: &Pool, group: TaskGroup<bool>, takes_token: bool) -> Arc<TaskGroup<bool>> {
    let group = Arc::new(group);
    let (owner, gate) = (Arc::clone(&group), Gate::new());
    let arrives = gate.clone();
    pool.submit(move || {
        let task = move || {
            let token = takes_token.then(|| current().token());
            arrives.wait();
            let is_asked = || match &token {
                Some(token) => token.is_cancelled(),
                None => current().is_cancelled(),
            };
            until(is_asked);
            true
        };
        owner.spawn(task).unwrap();
        assert!(matches!(owner.next(), Some(Ok(true))));
    })
    .unwrap();
    gate.wait_for_arrivals(1);
    gate.open();
    group
}

#[testkit::test]
fn cancelling_a_group_stops_the_task_that_its_owner_runs_in_place() {
    for takes_token in [false, true] {
        let pool = pool_with(&ManualClock::new(), 1);
        let group = in_place(&pool, pool.group(), takes_token);
        assert_eq!(group.cancel(), 0);
        pool.wait_idle().unwrap();
        assert_eq!(pool.stats().panicked, 0);
    }
}

#[testkit::test]
fn a_groups_deadline_stops_the_task_that_its_owner_runs_in_place() {
    for takes_token in [false, true] {
        let clock = ManualClock::new();
        let pool = pool_with(&clock, 1);
        let group = pool.group().cancel_at(clock.now() + SECOND);
        let _group = in_place(&pool, group, takes_token);
        clock.advance(SECOND);
        pool.wait_idle().unwrap();
        assert_eq!(pool.stats().panicked, 0);
    }
}

#[testkit::test]
fn the_first_error_stops_the_task_that_a_groups_owner_runs_in_place() {
    let pool = pool_with(&ManualClock::new(), 2);
    let gate = hold(&pool, 1);
    let group = in_place(&pool, pool.group().cancel_on_error(), false);
    group.spawn(|| panic!("stops the other tasks")).unwrap();
    gate.open();
    pool.wait_idle().unwrap();
}

/// It has no name of its own, and is asked to stop together with the task that waits for it.
#[testkit::test]
fn a_groups_task_run_in_place_belongs_to_the_task_that_waits() {
    let pool = pool_with(&ManualClock::new(), 1);
    let (inner, gate) = (pool.clone(), Gate::new());
    let arrives = gate.clone();
    let outer = pool.task().name("outer").spawn(move || {
        let group = inner.group();
        let task = move || {
            let token = current().token();
            arrives.wait();
            until(|| current().is_cancelled());
            assert!(token.is_cancelled());
            current().name().map(str::to_owned)
        };
        group.spawn(task).unwrap();
        group.next().unwrap().unwrap()
    });
    let outer = outer.unwrap();
    gate.wait_for_arrivals(1);
    assert!(!outer.cancel(), "it runs");
    gate.open();
    assert_eq!(outer.join().unwrap().as_deref(), Some("outer"));
}

#[testkit::test]
fn a_groups_deadline_applies_after_its_last_future_is_dropped() {
    let clock = ManualClock::new();
    let pool = pool_with(&clock, 1);
    let gate = hold(&pool, 1);
    let group = pool.group().cancel_at(clock.now() + SECOND);
    group.spawn(|| unreachable!("it is cancelled")).unwrap();
    let (first, last) = (CountingWaker::new(), CountingWaker::new());
    let mut stays = pin!(group.next_async());
    let waker = first.waker();
    let mut context = Context::from_waker(&waker);
    assert!(stays.as_mut().poll(&mut context).is_pending());
    {
        let waker = last.waker();
        let mut goes = pin!(group.next_async());
        let mut context = Context::from_waker(&waker);
        assert!(goes.as_mut().poll(&mut context).is_pending());
    }
    clock.advance(SECOND);
    first.wait_for_wakes(1);
    assert_eq!(last.wakes(), 0);
    let next: Poll<Option<Result<(), _>>> = stays.poll(&mut context);
    assert!(matches!(next, Poll::Ready(Some(Err(JoinError::Cancelled)))));
    gate.open();
}

#[testkit::test]
fn a_groups_deadline_wakes_the_future_that_waits_for_it() {
    let clock = ManualClock::new();
    let pool = pool_with(&clock, 1);
    let gate = hold(&pool, 1);
    let group = pool.group::<()>().cancel_at(clock.now() + SECOND);
    group.spawn(|| unreachable!("it is cancelled")).unwrap();
    let waker = CountingWaker::new();
    let task = waker.waker();
    let mut context = Context::from_waker(&task);
    assert!(group.poll_next(&mut context).is_pending());
    clock.advance(SECOND);
    waker.wait_for_wakes(1);
    gate.open();
}

/// A clock without alarms.
#[derive(Clone, Debug)]
struct NoAlarms(ManualClock);

impl Clock for NoAlarms {
    fn now(&self) -> Instant {
        self.0.now()
    }

    fn park_until(&self, parker: &Parker, when: Instant) -> bool {
        self.0.park_until(parker, when)
    }

    fn wake_at(&self, _: Instant, _: Waker) -> io::Result<Alarm> {
        Err(io::Error::other("no thread"))
    }
}

#[testkit::test]
fn a_timed_wait_until_the_groups_deadline_cancels_its_tasks() {
    let clock = ManualClock::new();
    // An alarm would cancel them, too.
    let pool = pool_with(&NoAlarms(clock.clone()), 1);
    let gate = hold(&pool, 1);
    let end = clock.now() + SECOND;
    let group = pool.group::<()>().cancel_at(end);
    group.spawn(|| unreachable!("it is cancelled")).unwrap();
    thread::scope(|threads| {
        let waits = threads.spawn(|| group.wait_timeout(end));
        clock.wait_for_sleepers(1);
        clock.advance(SECOND);
        let waited = waits.join().unwrap();
        assert!(
            matches!(waited, Ok(Err(JoinError::Cancelled))),
            "{waited:?}"
        );
    });
    gate.open();
}

#[testkit::test]
fn a_task_that_finds_room_after_its_group_has_failed_is_cancelled() {
    let pool = Pool::builder().capacity(1).queue_depth(1).build().unwrap();
    let group = pool.group().cancel_on_error();
    let gates = [Gate::new(), Gate::new()];
    let held = gates.clone();
    let [fails, holds] = held;
    group
        .spawn(move || {
            fails.wait();
            panic!("the group has failed")
        })
        .unwrap();
    gates[0].wait_for_arrivals(1);
    pool.submit(move || holds.wait()).unwrap();
    let mut late = pin!(group.spawn_async(|| unreachable!("it is cancelled")));
    let mut context = Context::from_waker(Waker::noop());
    assert!(
        late.as_mut().poll(&mut context).is_pending(),
        "the pool is full"
    );
    gates[0].open();
    assert!(matches!(group.next(), Some(Err(JoinError::Panicked(_)))));
    gates[1].wait_for_arrivals(1);
    assert!(matches!(late.poll(&mut context), Poll::Ready(Ok(()))));
    assert_eq!((pool.queued(), pool.stats().cancelled), (0, 1));
    let next: Option<Result<(), _>> = group.next();
    assert!(matches!(next, Some(Err(JoinError::Cancelled))));
    gates[1].open();
}

#[testkit::test]
fn dropping_a_groups_future_drops_its_waker() {
    let pool = pool_with(&ManualClock::new(), 1);
    let gate = hold(&pool, 1);
    let group = pool.group();
    group.spawn(|| ()).unwrap();
    let waker = CountingWaker::new();
    let task = waker.waker();
    let mut context = Context::from_waker(&task);
    for _ in 0..100 {
        assert!(pin!(group.next_async()).poll(&mut context).is_pending());
        assert!(pin!(group.wait_async()).poll(&mut context).is_pending());
    }
    assert_eq!(waker.wakers(), 1, "its own");
    gate.open();
    pool.wait_idle().unwrap();
    assert_eq!(waker.wakes(), 0);
}

#[testkit::test]
fn a_groups_wait_waits_for_all_tasks_although_a_values_drop_panics() {
    type Waits = fn(&TaskGroup<Result<PanicOnDrop, ()>>);
    let waits: [Waits; 5] = [
        |group| _ = group.wait(),
        |group| _ = group.wait_timeout(std::time::Instant::now() + 60 * SECOND),
        |group| _ = block_on(group.wait_async()),
        |group| _ = group.wait_ok(),
        |group| _ = block_on(group.wait_ok_async()),
    ];
    for wait in waits {
        let pool = Pool::builder().capacity(1).queue_depth(9).build().unwrap();
        let group = pool.group();
        let ended = Arc::new(AtomicUsize::new(0));
        for _ in 0..3 {
            let ended = Arc::clone(&ended);
            let task = move || {
                ended.fetch_add(1, SeqCst);
                Ok(PanicOnDrop::new())
            };
            group.spawn(task).unwrap();
        }
        let waited = catch_unwind(AssertUnwindSafe(|| wait(&group)));
        assert!(waited.is_err(), "the first panic propagates");
        assert_eq!((ended.load(SeqCst), group.len()), (3, 0));
    }
}

/// An owner that drops the values must not wait for the end of all tasks first.
#[testkit::test]
fn a_groups_wait_drops_values_while_other_tasks_run() {
    struct Opens(Gate);
    impl Drop for Opens {
        fn drop(&mut self) {
            self.0.open();
        }
    }
    let pool = pool_with(&ManualClock::new(), 2);
    let (group, gate) = (pool.group(), Gate::new());
    let held = gate.clone();
    group
        .spawn(move || {
            held.wait();
            None
        })
        .unwrap();
    group.spawn(move || Some(Opens(gate))).unwrap();
    group.wait().unwrap();
}

#[testkit::test]
fn a_groups_wait_that_times_out_leaves_values_to_the_next() {
    let clock = ManualClock::new();
    let pool = pool_with(&clock, 1);
    let (group, gate) = (pool.group(), Gate::new());
    let held = gate.clone();
    group.spawn(|| 1).unwrap();
    group
        .spawn(move || {
            held.wait();
            2
        })
        .unwrap();
    gate.wait_for_arrivals(1);
    let now = clock.now();
    assert!(matches!(group.wait_timeout(now), Err(WaitError::TimedOut)));
    assert_eq!(group.len(), 1);
    gate.open();
    assert_eq!(group.next().unwrap().unwrap(), 2);
}
