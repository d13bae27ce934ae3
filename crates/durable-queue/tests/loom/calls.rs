//! Calls that race a worker, their own end, or other pushes.

use std::convert::Infallible;
use std::num::NonZeroUsize;
use std::pin::Pin;
use std::task::{Context, Waker};

use durable_queue::{Cancelled, HORIZON, LEASE, ShutDown, TakeError, When, Worker};
use sync_shim::Parker;

use super::{block_on, steal, world};

/// The handler waits for the call, and the call wants a job of the handler's batch: neither waits for ever.
#[testkit::model(preemptions = 2)]
fn a_call_racing_a_worker_with_a_batch_gets_the_rest_of_it_or_does_not_wait_for_it() {
    let world = world();
    world.push(1, When::NOW);
    world.push(2, When::NOW);
    let is_taken = Parker::new();
    let waits = is_taken.clone();
    let worker = Worker::builder(world.queue.clone())
        .batch(NonZeroUsize::new(2).unwrap())
        .start(move |_| {
            waits.park();
            Ok::<_, Infallible>(())
        })
        .unwrap();
    world.queue.take().unwrap().ack().unwrap();
    is_taken.unpark();
    assert_eq!(worker.shutdown(LEASE), ShutDown::Finished);
    // Jobs that the handler had not started are released, so they are free at once.
    let left = usize::try_from(world.left()).unwrap();
    assert_eq!(steal(world.queue.store()), left);
}

/// The call gives up while the pump serves it: the job goes to this call or to the next one.
#[testkit::model(preemptions = 2)]
fn a_call_that_times_out_racing_its_job_loses_nothing() {
    let world = world();
    let taker = world.on_thread(|queue| match queue.take_timeout(HORIZON) {
        Ok(taken) => {
            taken.ack().unwrap();
            true
        }
        Err(TakeError::TimedOut) => false,
        Err(other) => panic!("{other}"),
    });
    world.push(1, When::NOW);
    world.clock.advance(HORIZON);
    if !taker.join().unwrap() {
        let taken = world.queue.take().unwrap();
        assert_eq!(taken.attempt(), 1);
        taken.ack().unwrap();
    }
    assert_eq!(world.left(), 0);
    world.end();
}

/// The same for a future that is dropped.
#[testkit::model(preemptions = 3)]
fn a_dropped_future_racing_its_job_loses_nothing() {
    let world = world();
    world.push(1, When::NOW);
    {
        let mut future = world.queue.take_async();
        let mut context = Context::from_waker(Waker::noop());
        assert!(Pin::new(&mut future).poll(&mut context).is_pending());
    }
    let taken = block_on(world.queue.take_async()).unwrap();
    assert_eq!(taken.attempt(), 1);
    block_on(taken.ack_async()).unwrap();
    assert_eq!(world.left(), 0);
    world.end();
}

/// Two calls of the store are in progress, and a third push waits in the queue: a leader sends it, or it
/// becomes the leader.
#[testkit::model(preemptions = 3)]
fn combined_pushes_are_all_inserted_and_each_gets_its_own_result() {
    let world = world();
    let push = |name| world.on_thread(move |queue| queue.push(vec![name], LEASE).unwrap());
    let others = [push(1), push(2)];
    let own = (3, world.push(3, LEASE));
    let [one, two] = others.map(|other| other.join().unwrap());
    for (name, id) in [(1, one), (2, two), own] {
        let cancelled = world.queue.cancel(id).unwrap();
        assert!(
            matches!(&cancelled, Cancelled::Gone { payload, .. } if *payload == [name]),
            "{name}: {cancelled:?}"
        );
    }
    assert_eq!(world.left(), 0);
    world.end();
}
