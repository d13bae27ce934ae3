//! The pump's sleep, racing a push, a reset, a resumption and a call.

use durable_queue::{LEASE, Reset, When};

use super::{take_and_ack, world};

/// The pump looks at the store, a job is pushed, and the pump goes to sleep: it must be notified.
#[testkit::model(preemptions = 3)]
fn a_push_racing_the_pumps_sleep_is_handed_out() {
    let world = world();
    let taker = world.taker();
    world.push(1, When::NOW);
    assert_eq!(taker.join().unwrap(), 1);
    world.end();
}

/// The job is far in the future when the pump looks, and is reset before it sleeps.
#[testkit::model(preemptions = 3)]
fn a_reset_racing_the_pumps_sleep_is_handed_out() {
    let world = world();
    let id = world.push(1, LEASE);
    let taker = world.taker();
    assert_eq!(world.queue.reset(id, When::NOW).unwrap(), Reset::Moved);
    assert_eq!(taker.join().unwrap(), 1);
    world.end();
}

/// The pump knows that the queue is paused, and must be woken when it is resumed.
#[testkit::model(preemptions = 3)]
fn a_resumption_racing_the_pumps_sleep_wakes_it() {
    let world = world();
    world.push(1, When::NOW);
    world.queue.pause(true).unwrap();
    let taker = world.taker();
    world.queue.pause(false).unwrap();
    assert_eq!(taker.join().unwrap(), 1);
    world.end();
}

/// The pump sleeps for one call when another one comes.
#[testkit::model(preemptions = 2)]
fn two_calls_racing_two_pushes_both_end() {
    let world = world();
    let taker = world.taker();
    world.push(1, When::NOW);
    world.push(2, When::NOW);
    let mut names = [take_and_ack(&world.queue), taker.join().unwrap()];
    names.sort_unstable();
    assert_eq!(names, [1, 2]);
    world.end();
}
