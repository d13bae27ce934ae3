//! The start of a job claimed ahead, racing a cancel, a reset and a merge.

use durable_queue::{Cancelled, HORIZON, LEASE, Put, Reset};
use durable_queue_testing::{Call, Fault};
use sync_shim::model::check;

use super::{
    FAULTS, World, fails, is_error, push_keyed, world, world_with, world_without_confirmation,
};

/// When a job claimed ahead falls due, it is cancelled: either it was started, or the cancel succeeds. A started
/// job ends unrun if its cancel is found before it is handed out.
#[testkit::model(preemptions = 2)]
fn a_cancel_racing_the_start_of_a_claim_ahead_has_one_winner() {
    let world = world();
    let id = world.push(1, HORIZON);
    world.push(2, HORIZON);
    let taker = world.taker();
    world.clock.wait_for_sleepers(1); // Both are claimed, and the pump waits for the due time.
    let canceller = world.on_thread(move |queue| queue.cancel(id).unwrap());
    world.clock.advance(HORIZON);
    let name = taker.join().unwrap();
    end_with_one_winner(world, name, &canceller.join().unwrap());
}

/// `name` is the job that was handed out: the first, or the other one.
fn end_with_one_winner(world: World, name: u8, cancelled: &Cancelled) {
    match cancelled {
        Cancelled::Gone { .. } => assert_eq!(name, 2),
        Cancelled::Taken => {}
        Cancelled::Never => assert_eq!(name, 1),
    }
    end_with_the_other(world, name);
}

/// The first job is done or has ended, unrun. The other one is left, unless it was handed out instead.
fn end_with_the_other(world: World, name: u8) {
    let queue = world.queue.clone();
    world.end();
    let left = queue.store_stats().unwrap().jobs;
    assert_eq!(left, u32::from(name == 1));
}

/// The same for a reset, which makes the job due later.
#[testkit::model(preemptions = 2)]
fn a_reset_racing_the_start_of_a_claim_ahead_has_one_winner() {
    let world = world();
    let id = world.push(1, HORIZON);
    world.push(2, HORIZON);
    let taker = world.taker();
    world.clock.wait_for_sleepers(1); // One is claimed, and the pump waits for the due time.
    let resetter = world.on_thread(move |queue| queue.reset(id, LEASE).unwrap());
    world.clock.advance(HORIZON);
    let name = taker.join().unwrap();
    match resetter.join().unwrap() {
        Reset::Moved => assert_eq!(name, 2),
        Reset::Taken | Reset::Never => assert_eq!(name, 1),
    }
    assert_eq!(world.left(), 1);
    world.end();
}

/// And for a push, which is merged into the job, or creates a separate one because a handler has the job.
#[testkit::model(preemptions = 2)]
fn a_merge_racing_the_start_of_a_claim_ahead_has_one_winner() {
    let world = world();
    world.push_keyed(1, HORIZON);
    world.push(2, HORIZON);
    let taker = world.taker();
    world.clock.wait_for_sleepers(1);
    let pusher = world.on_thread(|queue| push_keyed(queue, 3, LEASE));
    world.clock.advance(HORIZON);
    let name = taker.join().unwrap();
    match pusher.join().unwrap() {
        Put::Merged(_) => assert_eq!((name, world.left()), (2, 1)),
        Put::New(_) => assert_eq!((name, world.left()), (1, 2)),
        Put::Kept(_) => panic!("the later one counts"),
    }
    world.end();
}

/// The holder does not confirm, and receives the recall before or after the due time. No other job is lost,
/// and a handler that has the job nevertheless has lost its lease.
#[testkit::model(preemptions = 2)]
fn a_cancel_racing_a_start_without_confirmation_loses_nothing() {
    let world = world_without_confirmation();
    let id = world.push(1, HORIZON);
    world.push(2, HORIZON);
    let taker = world.on_thread(|queue| {
        let taken = queue.take().unwrap();
        (taken[0], taken.ack())
    });
    world.clock.wait_for_sleepers(1); // It is claimed, and the pump waits for the due time.
    let canceller = world.on_thread(move |queue| queue.cancel(id).unwrap());
    world.clock.advance(HORIZON);
    let (name, acked) = taker.join().unwrap();
    let cancelled = canceller.join().unwrap();
    match (cancelled.is_gone(), name) {
        (true, 2) => assert!(acked.is_ok() && world.left() == 0),
        (true, _) => assert!(acked.unwrap_err().is_stale() && world.left() == 1),
        (false, 1) => assert!(acked.is_ok() && world.left() == 1),
        (false, _) => assert!(acked.is_ok(), "the job has ended unrun"),
    }
    end_with_the_other(world, name);
}

/// The same for a reset.
#[testkit::model(preemptions = 2)]
fn a_reset_racing_a_start_without_confirmation_loses_nothing() {
    let world = world_without_confirmation();
    let id = world.push(1, HORIZON);
    world.push(2, HORIZON);
    let taker = world.trier();
    world.clock.wait_for_sleepers(1);
    let resetter = world.on_thread(move |queue| queue.reset(id, LEASE).unwrap());
    world.clock.advance(HORIZON);
    let (name, acked) = taker.join().unwrap();
    match (resetter.join().unwrap(), name) {
        (Reset::Moved, 2) => assert!(acked.is_ok() && world.left() == 1),
        (Reset::Moved, _) => assert!(acked.unwrap_err().is_stale() && world.left() == 2),
        (_, _) => assert!(acked.is_ok() && name == 1 && world.left() == 1),
    }
    world.end();
}

/// And for a merge, which takes the job from a handler whose start is not confirmed.
#[testkit::model(preemptions = 2)]
fn a_merge_racing_a_start_without_confirmation_loses_nothing() {
    let world = world_without_confirmation();
    world.push_keyed(1, HORIZON);
    world.push(2, HORIZON);
    let taker = world.trier();
    world.clock.wait_for_sleepers(1);
    let pusher = world.on_thread(|queue| push_keyed(queue, 3, LEASE));
    world.clock.advance(HORIZON);
    let (name, acked) = taker.join().unwrap();
    match (pusher.join().unwrap(), name) {
        (Put::Merged(_), 2) => assert!(acked.is_ok() && world.left() == 1),
        (Put::Merged(_), _) => assert!(acked.unwrap_err().is_stale() && world.left() == 2),
        (_, _) => assert!(acked.is_ok() && name == 1 && world.left() == 2),
    }
    world.end();
}

/// The cancel comes during the claim, and returns before the due time.
#[testkit::model(preemptions = 2)]
fn a_cancel_racing_a_claim_without_confirmation_recalls_the_job() {
    let world = world_without_confirmation();
    let id = world.push(1, HORIZON);
    world.push(2, HORIZON);
    let taker = world.taker();
    assert!(world.queue.cancel(id).unwrap().is_gone());
    world.clock.wait_for_sleepers(1);
    world.clock.advance(HORIZON);
    assert_eq!(taker.join().unwrap(), 2);
    assert_eq!(world.left(), 0);
    world.end();
}

/// Explores a model once per fault.
fn each_fault(name: &str, bound: Option<usize>, body: fn(Fault)) {
    for fault in FAULTS {
        check(&format!("{name} ({fault:?})"), bound, move || body(fault));
    }
}

/// The turn that starts a job claimed ahead fails, racing a cancel.
#[testkit::model(preemptions = 1, check = each_fault)]
fn a_start_that_fails_racing_a_cancel_has_one_winner(fault: Fault) {
    let world = world_with(fails(Call::Turn, 1, fault));
    let id = world.push(1, HORIZON);
    world.push(2, HORIZON);
    let taker = world.taker();
    world.clock.wait_for_sleepers(1);
    let canceller = world.on_thread(move |queue| queue.cancel(id).unwrap());
    world.clock.advance(HORIZON);
    world.rest_after(fault);
    let name = taker.join().unwrap();
    end_with_one_winner(world, name, &canceller.join().unwrap());
}

/// The same for a reset.
#[testkit::model(preemptions = 1, check = each_fault)]
fn a_start_that_fails_racing_a_reset_has_one_winner(fault: Fault) {
    let world = world_with(fails(Call::Turn, 1, fault));
    let id = world.push(1, HORIZON);
    world.push(2, HORIZON);
    let taker = world.taker();
    world.clock.wait_for_sleepers(1);
    let resetter = world.on_thread(move |queue| queue.reset(id, LEASE).unwrap());
    world.clock.advance(HORIZON);
    world.rest_after(fault);
    let name = taker.join().unwrap();
    match resetter.join().unwrap() {
        Reset::Moved => assert_eq!(name, 2),
        Reset::Taken | Reset::Never => assert_eq!(name, 1),
    }
    assert_eq!(world.left(), 1);
    world.end();
}

/// The cancel fails. Its caller does not know the outcome, and the job exists or not.
#[testkit::model(preemptions = 1, check = each_fault)]
fn a_cancel_that_fails_racing_the_start_of_a_claim_ahead_has_one_winner(fault: Fault) {
    let world = world_with(fails(Call::Cancel, 0, fault));
    let id = world.push(1, HORIZON);
    world.push(2, HORIZON);
    let taker = world.taker();
    world.clock.wait_for_sleepers(1);
    let canceller = world.on_thread(move |queue| queue.cancel(id).is_err());
    world.clock.advance(HORIZON);
    let name = taker.join().unwrap();
    assert_eq!(canceller.join().unwrap(), is_error(fault));
    assert!(name == 1 || matches!(fault, Fault::After | Fault::Twice));
    end_with_the_other(world, name);
}
