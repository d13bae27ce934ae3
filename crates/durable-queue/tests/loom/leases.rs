//! The end of a lease, racing a settle, an extension and a renewal.

use durable_queue::internals::FIRST_PAUSE;
use durable_queue::{LEASE, SettleError, When};
use durable_queue_testing::{Call, Fault};
use sync_shim::model::check;

use super::{FAULTS, fails, is_error, steal, world, world_built, world_with};

/// Another process claims the job when its lease expires, and the holder settles it: one of them succeeds.
#[testkit::model(preemptions = 2)]
fn an_ack_racing_the_end_of_the_lease_has_one_winner() {
    let world = world();
    world.push(1, When::NOW);
    let taken = world.queue.take().unwrap();
    world.clock.advance(LEASE);
    let thief = world.on_thread(|queue| steal(queue.store()));
    let acked = taken.ack();
    let stolen = thief.join().unwrap();
    match acked {
        Ok(()) => assert_eq!((stolen, world.left()), (0, 0)),
        Err(SettleError::Stale) => assert_eq!((stolen, world.left()), (1, 1)),
        Err(other) => panic!("{other}"),
    }
    world.end();
}

/// The same for an extension: the party whose response says that it has the lease has it.
#[testkit::model(preemptions = 2)]
fn an_extension_racing_the_end_of_the_lease_has_one_winner() {
    let world = world();
    world.push(1, When::NOW);
    let taken = world.queue.take().unwrap();
    world.clock.advance(LEASE);
    let thief = world.on_thread(|queue| steal(queue.store()));
    let extended = taken.extend(LEASE).is_ok();
    let stolen = thief.join().unwrap();
    assert_eq!(stolen, usize::from(!extended));
    assert_eq!(taken.is_lost(), !extended);
    assert_eq!(taken.ack().is_ok(), extended);
    world.end();
}

/// The pump renews the lease when it expires: it has the lease, or the handler is told.
#[testkit::model(preemptions = 2)]
fn a_renewal_racing_the_end_of_the_lease_has_one_winner() {
    let world = world_built(|_| Fault::None, |queue| queue);
    world.push(1, When::NOW);
    let taken = world.queue.take().unwrap();
    world.clock.wait_for_sleepers(1); // Until the renewal.
    let thief = {
        let clock = world.clock.clone();
        world.on_thread(move |queue| {
            clock.advance(LEASE);
            steal(queue.store())
        })
    };
    let stolen = thief.join().unwrap();
    let acked = taken.ack();
    match stolen {
        0 => assert!(acked.is_ok() && world.left() == 0),
        _ => assert!(acked.unwrap_err().is_stale() && world.left() == 1),
    }
    world.end();
}

/// Explores a model once per fault.
fn each_fault(name: &str, bound: Option<usize>, body: fn(Fault)) {
    for fault in FAULTS {
        check(&format!("{name} ({fault:?})"), bound, move || body(fault));
    }
}

/// The turn that extends an expiring lease fails. A cancel then takes the job from its holder.
#[testkit::model(preemptions = 2, check = each_fault)]
fn an_extension_that_fails_racing_the_end_of_the_lease_has_one_winner(fault: Fault) {
    let world = world_with(fails(Call::Turn, 1, fault));
    let id = world.push(1, When::NOW);
    let taken = world.queue.take().unwrap();
    world.clock.advance(LEASE);
    let canceller = {
        let clock = world.clock.clone();
        world.on_thread(move |queue| {
            let cancelled = queue.cancel(id).unwrap();
            if is_error(fault) {
                clock.wait_for_sleepers(1); // The pump, after the error.
                clock.advance(FIRST_PAUSE);
            }
            cancelled
        })
    };
    let extended = taken.extend(LEASE).is_ok();
    let is_gone = canceller.join().unwrap().is_gone();
    assert_eq!(is_gone, !extended);
    assert_eq!(taken.is_lost(), !extended);
    assert_eq!(taken.ack().is_ok(), extended);
    world.end();
}
