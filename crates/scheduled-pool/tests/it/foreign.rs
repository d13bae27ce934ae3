//! User code in every place where a scheduled pool calls it.

use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::Context;
use std::thread;

use pool_core::{DropPolicy, JoinError, ManualClock};
use scheduled_pool::{ScheduledHandle, ScheduledPool};
use testkit::{DropCounter, Gate, PanicOnDrop, waker_fn};

use crate::support::{Rig, SECOND, every_second, hold, secs, until, untimed};

/// Calls a closure in its destructor.
struct OnDrop<F: Fn()>(F);

impl<F: Fn()> Drop for OnDrop<F> {
    fn drop(&mut self) {
        (self.0)();
    }
}

#[testkit::test]
fn a_panic_in_the_drop_of_captures_is_caught_at_every_end_of_a_schedule() {
    let rig = Rig::new(1);
    let bomb = || {
        let bomb = PanicOnDrop::nested(3);
        move || _ = &bomb
    };
    let cancelled = rig.scheduled.spawn_after(SECOND, bomb()).unwrap();
    assert!(cancelled.cancel());
    assert!(matches!(cancelled.join(), Err(JoinError::Cancelled)));

    let ran = rig.scheduled.spawn_after(SECOND, bomb()).unwrap();
    rig.clock.advance(SECOND);
    let joined = ran.join();
    assert!(matches!(joined, Err(JoinError::Panicked(_))));
    std::mem::forget(joined); // The payload panics when dropped, and the test owns it now.

    let value = rig.scheduled.spawn_after(SECOND, || PanicOnDrop::nested(3));
    drop(value); // The handle is detached, so the worker drops the value.
    let series = rig.scheduled.spawn_series(SECOND, &every_second(), bomb());
    rig.clock.advance(SECOND);
    until(|| rig.scheduled.stats().runs == 3);

    let pending = rig.scheduled.spawn_after(SECOND, bomb()).unwrap();
    rig.pool.release();
    assert!(matches!(pending.join(), Err(JoinError::Released)));
    assert!(matches!(series.unwrap().join(), Err(JoinError::Released)));
    rig.end();
}

#[testkit::test]
fn the_drop_of_captures_may_call_the_scheduled_pool() {
    let rig = Rig::new(1);
    let looks = || {
        let (scheduled, pool) = (rig.scheduled.downgrade(), rig.pool.downgrade());
        OnDrop(move || {
            if let (Some(scheduled), Some(pool)) = (scheduled.upgrade(), pool.upgrade()) {
                let _ = (scheduled.stats(), pool.stats());
                drop(scheduled.spawn_after(SECOND, || ()));
            }
        })
    };
    let look = looks();
    let cancelled = rig
        .scheduled
        .spawn_after(SECOND, move || drop(look))
        .unwrap();
    assert!(cancelled.cancel());
    assert_eq!(rig.scheduled.pending(), 1);
    let look = looks();
    let series = rig
        .scheduled
        .spawn_series(SECOND, &every_second(), move || _ = &look)
        .unwrap();
    rig.clock.advance(SECOND);
    until(|| series.runs() == 1);
    let look = looks();
    let released = rig
        .scheduled
        .spawn_after(SECOND, move || drop(look))
        .unwrap();
    rig.scheduled.release_now();
    assert!(matches!(released.join(), Err(JoinError::Released)));
    rig.end();
}

#[testkit::test]
fn wakers_may_call_back_and_panic() {
    let rig = Rig::new(1);
    let poll = |handle: &mut scheduled_pool::ScheduledHandle<()>| {
        let scheduled = rig.scheduled.clone();
        let waker = waker_fn(move || {
            let _ = (scheduled.stats(), scheduled.pool().stats());
            panic!("a waker's own affair");
        });
        let polled = Pin::new(handle).poll(&mut Context::from_waker(&waker));
        assert!(polled.is_pending());
    };
    let mut ran = rig.scheduled.spawn_after(SECOND, || ()).unwrap();
    let mut cancelled = rig.scheduled.spawn_after(secs(2), || ()).unwrap();
    let mut released = rig.scheduled.spawn_after(secs(3), || ()).unwrap();
    poll(&mut ran);
    poll(&mut cancelled);
    poll(&mut released);
    rig.clock.advance(SECOND);
    ran.join().unwrap();
    assert!(cancelled.cancel());
    rig.pool.release();
    assert!(matches!(released.join(), Err(JoinError::Released)));
    rig.end();
}

#[testkit::test]
fn the_timer_thread_drops_no_captures_and_calls_no_wakers() {
    for round in 0..200 {
        let clock = ManualClock::new();
        let pool = untimed(1, &clock).build().unwrap();
        let scheduled = ScheduledPool::builder(pool.clone())
            .thread_name("the-timer")
            .build()
            .unwrap();
        let rig = Rig::of(scheduled, clock);
        let gate = hold(&rig.pool, 1);
        let seen = Arc::new(Mutex::new(Vec::new()));
        let watch = || {
            let seen = Arc::clone(&seen);
            move || {
                let name = thread::current().name().map(str::to_owned);
                seen.lock().unwrap().push(name);
            }
        };
        let mut handles: Vec<_> = (0..6)
            .map(|_| {
                let on_drop = OnDrop(watch());
                rig.scheduled
                    .spawn_after(SECOND, move || drop(on_drop))
                    .unwrap()
            })
            .collect();
        for handle in &mut handles {
            let waker = waker_fn(watch());
            let _ = Pin::new(handle).poll(&mut Context::from_waker(&waker));
        }
        rig.clock.advance(SECOND);
        for _ in 0..round % 20 {
            thread::yield_now();
        }
        handles[0].cancel();
        if round % 2 == 0 {
            rig.pool.release();
        } else {
            rig.scheduled.release_now();
        }
        gate.open();
        rig.scheduled.wait_released().unwrap();
        drop(handles);
        let seen = seen.lock().unwrap();
        assert_eq!(seen.len(), 12);
        let timer = Some("the-timer".to_owned());
        assert!(!seen.contains(&timer), "{seen:?}");
    }
}

#[testkit::test]
fn a_release_by_a_run_of_a_series_ends_the_series() {
    let rig = Rig::new(1);
    let drops = DropCounter::new();
    let (token, scheduled) = (drops.token(), rig.scheduled.clone());
    let series = rig
        .scheduled
        .spawn_series(SECOND, &every_second(), move || {
            let _ = &token;
            scheduled.release();
        })
        .unwrap();
    rig.clock.advance(SECOND);
    assert!(matches!(series.join(), Err(JoinError::Released)));
    rig.scheduled.wait_released().unwrap();
    assert_eq!((drops.alive(), rig.scheduled.stats().runs), (0, 1));
    rig.end();
}

/// The pool is closed, but its releasing thread has not notified the timer yet. The pool refuses
/// the timer's offers of that moment, and the releasing thread ends them.
#[testkit::test]
fn the_releasing_thread_ends_tasks_that_the_released_pool_rejects() {
    let rig = Rig::new(1);
    let (held, gate) = (hold(&rig.pool, 1), Gate::new());
    let mut waits = rig.pool.submit_async(|| ());
    let (blocks, names) = (gate.clone(), Arc::new(Mutex::new(Vec::new())));
    let waker = waker_fn(move || blocks.wait());
    let polled = Pin::new(&mut waits).poll(&mut Context::from_waker(&waker));
    assert!(polled.is_pending());
    let log = Arc::clone(&names);
    let on_drop = OnDrop(move || {
        let name = thread::current().name().map(str::to_owned);
        log.lock().unwrap().push(name);
    });
    let due = rig
        .scheduled
        .spawn_after(SECOND, move || drop(on_drop))
        .unwrap();
    let pool = rig.pool.clone();
    let releaser = thread::Builder::new().name("the-releaser".to_owned());
    let releaser = releaser.spawn(move || pool.release()).unwrap();
    gate.wait_for_arrivals(1);
    rig.clock.advance(SECOND);
    until(|| rig.pool.stats().refused == 2); // The future's task, and the due one.
    gate.open();
    assert!(matches!(due.join(), Err(JoinError::Released)));
    releaser.join().unwrap();
    assert_eq!(*names.lock().unwrap(), [Some("the-releaser".to_owned())]);
    held.open();
    rig.end();
}

#[testkit::test]
fn destructors_of_released_captures_may_wait_for_each_other() {
    for elsewhere in [false, true] {
        let rig = Rig::new(1);
        let drops = DropCounter::new();
        let handles: [Arc<Mutex<Option<ScheduledHandle<()>>>>; 2] = Default::default();
        for (own, other) in [(0, 1), (1, 0)] {
            let (token, other) = (drops.token(), Arc::clone(&handles[other]));
            let waits = OnDrop(move || {
                let _ = &token;
                let Some(other) = other.lock().unwrap().take() else {
                    return;
                };
                assert!(matches!(other.join(), Err(JoinError::Released)));
            });
            let handle = rig.scheduled.spawn_after(SECOND, move || drop(waits));
            *handles[own].lock().unwrap() = Some(handle.unwrap());
        }
        if elsewhere {
            rig.pool.release();
        } else {
            rig.scheduled.release_now();
        }
        assert_eq!(drops.alive(), 0);
        assert!(
            handles
                .iter()
                .all(|handle| handle.lock().unwrap().is_none())
        );
        rig.end();
    }
}

#[testkit::test]
fn destructors_of_captures_may_wait_for_the_end() {
    for cancels in [false, true] {
        let rig = Rig::new(1);
        let (scheduled, waited) = (rig.scheduled.downgrade(), Arc::new(Mutex::new(None)));
        let noted = Arc::clone(&waited);
        let waits = OnDrop(move || {
            let ended = scheduled.upgrade().unwrap().wait_released();
            *noted.lock().unwrap() = Some(ended);
        });
        let task = rig.scheduled.spawn_after(SECOND, move || drop(waits));
        let task = task.unwrap();
        if cancels {
            rig.scheduled.release();
            assert!(task.cancel());
        } else {
            rig.scheduled.release_now();
        }
        // So has the pool, whose release does not wait for the destructor.
        assert_eq!(*waited.lock().unwrap(), Some(Ok(())));
        rig.end();
    }
}

#[testkit::test]
fn a_waker_may_wait_for_the_end_and_for_other_schedules() {
    let rig = Rig::new(1);
    let mut first = rig.scheduled.spawn_after(SECOND, || ()).unwrap();
    let second = rig.scheduled.spawn_after(SECOND, || ()).unwrap();
    let second = Mutex::new(Some(second));
    let (scheduled, gate) = (rig.scheduled.clone(), Gate::new());
    gate.open();
    let woken = gate.clone();
    // Runs its continuation in place.
    let waker = waker_fn(move || {
        let second = second.lock().unwrap().take().unwrap();
        assert!(matches!(second.join(), Err(JoinError::Released)));
        scheduled.wait_released().unwrap();
        woken.wait();
    });
    let polled = Pin::new(&mut first).poll(&mut Context::from_waker(&waker));
    assert!(polled.is_pending());
    rig.scheduled.release_now();
    assert_eq!(gate.arrivals(), 1, "no earlier panic");
    assert!(first.is_finished());
    rig.end();
}

#[testkit::test]
fn a_blocking_destructor_delays_neither_the_timer_nor_the_handle_nor_the_end() {
    let rig = Rig::new(1);
    let gate = Gate::new();
    let blocks = gate.clone();
    let blocks = OnDrop(move || blocks.wait());
    let task = rig.scheduled.spawn_after(SECOND, move || drop(blocks));
    let task = Arc::new(task.unwrap());
    let other = rig.scheduled.spawn_after(SECOND, || 5).unwrap();
    let canceller = {
        let task = Arc::clone(&task);
        thread::spawn(move || task.cancel())
    };
    gate.wait_for_arrivals(1);
    assert!(task.is_finished());
    rig.clock.advance(SECOND);
    assert_eq!(other.join().unwrap(), 5);
    rig.end(); // Waits for the end.
    gate.open();
    assert!(canceller.join().unwrap());
}

#[testkit::test]
fn schedules_end_before_the_drop_of_a_joining_pools_last_handle() {
    let clock = ManualClock::new();
    let pool = untimed(1, &clock).drop_policy(DropPolicy::Join);
    let pool = pool.build().unwrap();
    let gate = Gate::new();
    let holds = gate.clone();
    pool.submit(move || holds.wait()).unwrap();
    gate.wait_for_arrivals(1);
    let scheduled = ScheduledPool::new(pool);
    let mut task = scheduled.spawn_after(SECOND, || ()).unwrap();
    drop(scheduled);
    // Lets the pool's task end. The drop of the pool's last handle waits for it.
    let opens = gate.clone();
    let waker = waker_fn(move || opens.open());
    let polled = Pin::new(&mut task).poll(&mut Context::from_waker(&waker));
    assert!(polled.is_pending());
    assert!(task.cancel());
    assert!(gate.is_open());
}
