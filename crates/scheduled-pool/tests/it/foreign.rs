//! Code that is not ours, in every place where it may run.

use std::future::Future;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::Context;
use std::thread;

use pool_core::{JoinError, ManualClock};
use scheduled_pool::ScheduledPool;
use testkit::{DropCounter, Gate, PanicOnDrop, waker_fn};

use crate::support::{Rig, SECOND, bounded, every_second, hold, secs, until, untimed};

/// A value that does something when it is dropped.
struct OnDrop<F: Fn()>(F);

impl<F: Fn()> Drop for OnDrop<F> {
    fn drop(&mut self) {
        (self.0)();
    }
}

#[test]
fn captures_whose_drop_panics_harm_nobody_however_their_schedule_ends() {
    bounded(|| {
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
        std::mem::forget(joined); // Its payload is a bomb as well, and ours by now.

        let value = rig.scheduled.spawn_after(SECOND, || PanicOnDrop::nested(3));
        drop(value); // Detached: the value is dropped by the worker.
        let series = rig.scheduled.spawn_series(SECOND, &every_second(), bomb());
        rig.clock.advance(SECOND);
        until(|| rig.scheduled.stats().runs == 3);

        let pending = rig.scheduled.spawn_after(SECOND, bomb()).unwrap();
        rig.pool.release();
        assert!(matches!(pending.join(), Err(JoinError::Released)));
        assert!(matches!(series.unwrap().join(), Err(JoinError::Released)));
        rig.end();
    });
}

#[test]
fn captures_may_call_back_into_the_scheduled_pool_as_they_are_dropped() {
    bounded(|| {
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
    });
}

#[test]
fn wakers_may_call_back_and_panic() {
    bounded(|| {
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
    });
}

#[test]
fn no_captures_are_dropped_and_no_wakers_called_by_the_timer_thread() {
    bounded(|| {
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
    });
}

#[test]
fn a_release_from_within_a_task_of_a_series_ends_it() {
    bounded(|| {
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
    });
}

/// The pool is closed, but its releasing thread has not come to say so: what the timer offers in
/// that moment is refused, and left to be ended by the releasing thread.
#[test]
fn what_a_released_pool_refuses_is_ended_by_who_released_it() {
    bounded(|| {
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
    });
}
