//! Lost responses of the store.

use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use durable_queue::internals::FIRST_PAUSE;
use durable_queue::{LEASE, SettleError, ShutDown, When};
use durable_queue_testing::{Call, Fault};
use sync_shim::Parker;
use sync_shim::model::{check, spawn};

use super::{FAULTS, fails, is_error, take_and_ack, world_with};

/// Explores a model once per fault.
fn each_fault(name: &str, bound: Option<usize>, body: fn(Fault)) {
    for fault in FAULTS {
        check(&format!("{name} ({fault:?})"), bound, move || body(fault));
    }
}

/// The response to the claim is lost, and asking for its jobs fails as well.
#[testkit::model(preemptions = 1, check = each_fault)]
fn a_failed_recovery_of_a_claim_racing_a_push_loses_nothing(fault: Fault) {
    let [claim, asked] = [
        fails(Call::Turn, 0, Fault::After),
        fails(Call::HeldBy, 0, fault),
    ];
    let world = world_with(move |call| match claim(call) {
        Fault::None => asked(call),
        fault => fault,
    });
    world.push(1, When::NOW);
    let taker = world.on_thread(|queue| [take_and_ack(queue), take_and_ack(queue)]);
    world.push(2, When::NOW);
    world.rest_after(Fault::After);
    if is_error(fault) {
        world.clock.wait_for_sleepers(1);
        world.clock.advance(FIRST_PAUSE * 2);
    }
    let mut names = taker.join().unwrap();
    names.sort_unstable();
    assert_eq!(names, [1, 2]);
    assert_eq!(world.left(), 0);
    world.end();
}

/// The response to the claim is lost: the pump finds its jobs by the token.
#[testkit::model(preemptions = 2)]
fn a_claim_whose_response_is_lost_racing_a_push_loses_nothing() {
    let turns = AtomicUsize::new(0);
    // Relaxed: only the pump makes turns.
    let plan = move |call| match call {
        Call::Turn if turns.fetch_add(1, Relaxed) == 0 => Fault::After,
        _ => Fault::None,
    };
    let world = world_with(plan);
    world.push(1, When::NOW);
    let taker = world.on_thread(|queue| [take_and_ack(queue), take_and_ack(queue)]);
    world.push(2, When::NOW);
    world.clock.wait_for_sleepers(1); // The pump pauses after the error.
    world.clock.advance(FIRST_PAUSE);
    let mut names = taker.join().unwrap();
    names.sort_unstable();
    assert_eq!(names, [1, 2]);
    assert_eq!(world.left(), 0);
    world.end();
}

/// The response to the acknowledgement is lost, and the queue shuts down: the job is done, and the result is
/// `Unknown`.
#[testkit::model(preemptions = 2)]
fn an_ack_whose_response_is_lost_racing_a_shutdown_is_not_stale() {
    let turns = AtomicUsize::new(0);
    let is_lost = Parker::new();
    let lost = is_lost.clone();
    // Relaxed: only the pump makes turns.
    let plan = move |call| match call {
        Call::Turn if turns.fetch_add(1, Relaxed) == 1 => {
            lost.unpark();
            Fault::After
        }
        _ => Fault::None,
    };
    let world = world_with(plan);
    world.push(1, When::NOW);
    let taken = world.queue.take().unwrap();
    let ender = world.on_thread(|queue| queue.shutdown(LEASE));
    let mover = {
        let clock = world.clock.clone();
        spawn(move || {
            is_lost.park();
            clock.wait_for_sleepers(2); // The pump after the error, and the shutdown.
            clock.advance(FIRST_PAUSE);
        })
    };
    assert!(matches!(taken.ack(), Err(SettleError::Unknown)));
    assert_eq!(ender.join().unwrap(), ShutDown::Finished);
    mover.join().unwrap();
    assert_eq!(world.left(), 0);
}
