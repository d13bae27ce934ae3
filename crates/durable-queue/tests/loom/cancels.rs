//! Cancels of running jobs, racing the pump's sleep, the hand-over of the job, and its end.

use super::{Queue, World, block_on, world, world_without_confirmation};
use std::future::{Future as _, poll_fn};
use std::pin::Pin;
use std::task::Poll;

use durable_queue::{Cancelled, HORIZON, When};

/// Takes the job 2. If the job 1 is handed out before, waits until it is told that its job is cancelled.
fn take_next(queue: &Queue) -> Vec<u8> {
    let mut names = Vec::new();
    while !names.contains(&2) {
        let taken = queue.take().unwrap();
        names.push(taken[0]);
        if taken[0] == 1 {
            block_on(taken.cancelled());
        } else {
            taken.ack().unwrap();
        }
    }
    names
}

/// After the end, no job is left, and none has become a dead letter.
fn end(world: World) {
    let queue = world.queue.clone();
    world.end();
    let stats = queue.store_stats().unwrap();
    assert_eq!((stats.jobs, stats.dead), (0, 0));
}

/// The cancel is announced while the pump goes to sleep: the handler is told.
#[testkit::model(preemptions = 2)]
fn a_cancel_racing_the_pumps_sleep_tells_the_handler() {
    let world = world();
    let id = world.push(1, When::NOW);
    let taken = world.queue.take().unwrap();
    let canceller = world.on_thread(move |queue| queue.cancel(id).unwrap());
    block_on(taken.cancelled());
    assert!(taken.is_cancelled() && canceller.join().unwrap() == Cancelled::Taken);
    taken.ack().unwrap();
    end(world);
}

/// The handler succeeds while its job is cancelled: the job is done.
#[testkit::model(preemptions = 2)]
fn a_cancel_racing_the_acknowledgement_of_its_job_leaves_no_job() {
    let world = world();
    let id = world.push(1, When::NOW);
    let taken = world.queue.take().unwrap();
    let canceller = world.on_thread(move |queue| queue.cancel(id).unwrap());
    taken.ack().unwrap();
    assert!(!canceller.join().unwrap().is_gone());
    end(world);
}

/// The handler fails while its job is cancelled: the job ends, whether or not the handler was told.
#[testkit::model(preemptions = 2)]
fn a_cancel_racing_a_failed_attempt_leaves_no_job() {
    let world = world();
    let id = world.push(1, When::NOW);
    let taken = world.queue.take().unwrap();
    let canceller = world.on_thread(move |queue| queue.cancel(id).unwrap());
    taken.retry("no").unwrap();
    assert_ne!(canceller.join().unwrap(), Cancelled::Never);
    end(world);
}

/// A job is cancelled while it is claimed, started and handed out: it is removed, ends unrun, or its handler is
/// told.
#[testkit::model(preemptions = 2)]
fn a_cancel_racing_the_hand_over_of_its_job_ends_it_or_tells_the_handler() {
    let world = world();
    let id = world.push(1, When::NOW);
    let taker = world.on_thread(take_next);
    let cancelled = world.queue.cancel(id).unwrap();
    world.push(2, When::NOW);
    let names = taker.join().unwrap();
    assert!(!cancelled.is_gone() || names == [2]);
    end(world);
}

/// The same when a job claimed ahead falls due, and no response confirms its start.
#[testkit::model(preemptions = 2)]
fn a_cancel_racing_the_hand_over_without_confirmation_ends_it_or_tells_the_handler() {
    let world = world_without_confirmation();
    let id = world.push(1, HORIZON);
    world.push(2, HORIZON);
    let taker = world.on_thread(|queue| {
        let taken = queue.take().unwrap();
        if taken[0] == 2 {
            return taken.ack().unwrap();
        }
        // Its lease is lost if the cancel came before the due time.
        let (mut lost, mut cancelled) = (taken.lost(), taken.cancelled());
        block_on(poll_fn(|context| {
            if Pin::new(&mut lost).poll(context).is_ready() {
                return Poll::Ready(());
            }
            Pin::new(&mut cancelled).poll(context)
        }));
        drop(taken);
        queue.take().unwrap().ack().unwrap();
    });
    world.clock.wait_for_sleepers(1); // It is claimed, and the pump waits for the due time.
    let canceller = world.on_thread(move |queue| queue.cancel(id).unwrap());
    world.clock.advance(HORIZON);
    taker.join().unwrap();
    assert_ne!(canceller.join().unwrap(), Cancelled::Never);
    end(world);
}
