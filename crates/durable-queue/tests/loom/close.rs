//! Closing a queue, and the end of the pump.

use std::num::NonZeroUsize;
use std::time::Duration;

use durable_queue::{LEASE, SettleError, ShutDown, TakeError, When};

use super::{steal, world};

/// The queue closes while the pump makes a claim.
#[testkit::model(preemptions = 3)]
fn a_shutdown_racing_a_claim_leaves_the_job_to_others() {
    let world = world();
    world.push(1, When::NOW);
    let taker = world.on_thread(|queue| match queue.take() {
        Ok(taken) => {
            taken.ack().unwrap();
            true
        }
        Err(TakeError::ShutDown) => false,
        Err(other) => panic!("{other}"),
    });
    assert_eq!(world.queue.shutdown(LEASE), ShutDown::Finished);
    let is_done = taker.join().unwrap();
    // The closed queue holds no lease: the job is free at once.
    assert_eq!(steal(world.queue.store()), usize::from(!is_done));
}

/// The pump runs as long as a job is held: the call must not wait for its end.
#[testkit::model(preemptions = 3)]
fn a_close_racing_a_call_ends_it_while_a_handler_runs() {
    let world = world();
    world.push(1, When::NOW);
    let taken = world.queue.take().unwrap();
    let taker = world.on_thread(|queue| queue.take().unwrap_err().is_shut_down());
    world.queue.close();
    assert!(taker.join().unwrap());
    taken.ack().unwrap();
    assert_eq!(world.left(), 0);
    world.end();
}

/// The pump's deadline passes while a handler settles: the handler gets an answer in either case.
#[testkit::model(preemptions = 3)]
fn an_ack_racing_the_end_of_the_pump_is_answered() {
    let world = world();
    world.push(1, When::NOW);
    let taken = world.queue.take().unwrap();
    let ender = world.on_thread(|queue| queue.shutdown(Duration::ZERO));
    let acked = taken.ack();
    let ended = ender.join().unwrap();
    match acked {
        Ok(()) => assert_eq!(world.left(), 0),
        Err(SettleError::ShutDown) => {
            assert_eq!((ended, world.left()), (ShutDown::TimedOut, 1));
        }
        Err(other) => panic!("{other}"),
    }
}

/// The queue closes while a call acknowledges one job and requests the next: the pump finds both, or only the
/// acknowledgement.
#[testkit::model(preemptions = 2)]
fn an_ack_with_a_take_racing_a_shutdown_is_carried_out() {
    let world = world();
    world.push(1, When::NOW);
    world.push(2, When::NOW);
    let done = world.queue.take_many(NonZeroUsize::MIN).unwrap();
    let ender = world.on_thread(|queue| queue.shutdown(LEASE));
    let taken = world.queue.ack_and_take_many(done, NonZeroUsize::MIN);
    let expected = match taken {
        Ok(taken) => {
            let acked = taken.into_iter().map(|job| job.ack().is_ok());
            assert!(acked.eq([true]));
            0
        }
        Err(error) => {
            assert!(error.is_shut_down());
            1
        }
    };
    assert_eq!(ender.join().unwrap(), ShutDown::Finished);
    assert_eq!(world.left(), expected);
}

/// A later shutdown sets an earlier deadline while the pump goes to sleep until the end of its job: both shutdowns end.
#[testkit::model(preemptions = 2)]
fn a_deadline_racing_the_pumps_sleep_ends_the_pump() {
    let world = world();
    world.push(1, When::NOW);
    let taken = world.queue.take().unwrap();
    let patient = world.on_thread(|queue| queue.shutdown(Duration::MAX));
    assert_eq!(world.queue.shutdown(Duration::ZERO), ShutDown::TimedOut);
    assert_eq!(patient.join().unwrap(), ShutDown::TimedOut);
    drop(taken);
}
