//! Models of user code that blocks: threads are woken before it runs, and it does not consume the
//! wake-ups of its caller.

use std::sync::Arc;

use pool_core::JoinError;
use scheduled_pool::internals::Waiter;
use sync_shim::Mutex;
use sync_shim::model::{JoinHandle, spawn};

use crate::LATE;
use crate::rig::{Rig, join};

/// User code in the pool's release waits for a thread that waits for the end, or for a schedule
/// that the release ends: threads are woken before it runs.
#[testkit::model(preemptions = 2)]
fn a_wait_racing_a_release_whose_user_code_waits_for_that_thread_returns() {
    wait_beside_user_code(|rig| {
        let core = Arc::clone(&rig.core);
        Box::new(move || assert!(core.wait_released(None)))
    });
}

#[testkit::model(preemptions = 2)]
fn a_join_racing_a_release_whose_user_code_waits_for_that_thread_returns() {
    wait_beside_user_code(|rig| {
        let handle = rig.once(LATE).unwrap();
        Box::new(move || assert!(matches!(join(&handle), Err(JoinError::Released))))
    });
}

fn wait_beside_user_code(wait: impl FnOnce(&Rig) -> Box<dyn FnOnce() + Send>) {
    let waiter = Arc::new(Mutex::new(None::<JoinHandle<()>>));
    let awaited = Arc::clone(&waiter);
    let rig = Rig::letting_go(true, false, move || {
        let thread = awaited.lock().take().expect("it was spawned first");
        thread.join().unwrap();
    });
    let wait = wait(&rig);
    *waiter.lock() = Some(spawn(wait));
    rig.core.release_now();
    rig.end();
}

/// Runs a closure when the last clone of the waker is dropped.
struct OnDrop<F: Fn()>(F);

impl<F: Fn()> Drop for OnDrop<F> {
    fn drop(&mut self) {
        (self.0)();
    }
}

/// A join against the waker that it replaces, whose drop waits for another schedule: the inner wait
/// does not consume the unpark token of the outer one.
#[testkit::model(preemptions = 3)]
fn a_stale_waker_that_waits_racing_the_end_strands_no_join() {
    let rig = Rig::new(true);
    let (handle, inner) = (rig.once(LATE).unwrap(), rig.once(LATE).unwrap());
    let canceller = {
        let (handle, inner) = (Arc::clone(&handle), Arc::clone(&inner));
        spawn(move || {
            assert!(inner.cancel());
            assert!(handle.cancel());
        })
    };
    let waits = OnDrop(move || assert!(join(&inner).is_err()));
    let waker = testkit::waker_fn(move || _ = &waits);
    let joined = handle.take_or_wait(Some(Waiter::Task(waker)));
    // Replaces the waker, whose drop waits.
    let joined = joined.unwrap_or_else(|| join(&handle));
    assert!(matches!(joined, Err(JoinError::Cancelled)));
    canceller.join().unwrap();
    rig.end();
}
