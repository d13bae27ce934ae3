//! Futures of pushes and of other calls, which race leaders, call threads and their own end.

use std::future::Future as _;
use std::pin::pin;
use std::task::{Context, Poll, Waker};

use durable_queue::internals::CALL_KEEP_ALIVE;
use durable_queue::{Cancelled, JobId, LEASE};

use super::{Queue, World, block_on, world};

/// Each push has its own result. Removes the job.
fn check_pushed(queue: &Queue, name: u8, id: JobId) {
    let cancelled = queue.cancel(id).unwrap();
    assert!(
        matches!(&cancelled, Cancelled::Gone { payload, .. } if *payload == [name]),
        "{name}: {cancelled:?}"
    );
}

fn push(world: &World, name: u8) -> JobId {
    block_on(world.queue.push_async(vec![name], LEASE)).unwrap()
}

/// Both leaders may be threads that end while the future enqueues its push: one of them summons a call thread, or
/// the future does.
#[testkit::model(preemptions = 2)]
fn a_future_racing_the_end_of_all_leaders_is_answered() {
    let world = world();
    let pushed =
        [1, 2].map(|name| world.on_thread(move |queue| queue.push(vec![name], LEASE).unwrap()));
    let own = push(&world, 3);
    let [one, two] = pushed.map(|thread| thread.join().unwrap());
    for (name, id) in [(1, one), (2, two), (3, own)] {
        check_pushed(&world.queue, name, id);
    }
    assert_eq!(world.left(), 0);
    world.end();
}

/// A thread waits behind summoned leaders, or leads and sends the futures.
#[testkit::model(preemptions = 2)]
fn pushes_of_a_thread_and_futures_are_all_inserted() {
    let world = world();
    let thread = world.on_thread(|queue| queue.push(vec![1], LEASE).unwrap());
    let mut first = pin!(world.queue.push_async(vec![2], LEASE));
    let mut context = Context::from_waker(Waker::noop());
    let polled = first.as_mut().poll(&mut context);
    let third = push(&world, 3);
    let second = match polled {
        Poll::Ready(pushed) => pushed.unwrap(),
        Poll::Pending => block_on(first).unwrap(),
    };
    for (name, id) in [(1, thread.join().unwrap()), (2, second), (3, third)] {
        check_pushed(&world.queue, name, id);
    }
    assert_eq!(world.left(), 0);
    world.end();
}

/// The push is withdrawn or carried out, and the leader that was summoned for it is not lost.
#[testkit::model(preemptions = 3)]
fn a_dropped_push_racing_its_start_blocks_no_later_push() {
    let world = world();
    {
        let mut dropped = pin!(world.queue.push_async(vec![1], LEASE));
        let mut context = Context::from_waker(Waker::noop());
        _ = dropped.as_mut().poll(&mut context);
    }
    let id = push(&world, 2);
    check_pushed(&world.queue, 2, id);
    assert!(world.left() <= 1);
    world.end();
}

/// The same for a call that no other call joins.
#[testkit::model(preemptions = 3)]
fn a_dropped_call_racing_its_start_blocks_no_later_call() {
    let world = world();
    {
        let mut dropped = pin!(world.queue.pause_async(true));
        let mut context = Context::from_waker(Waker::noop());
        _ = dropped.as_mut().poll(&mut context);
    }
    let stats = block_on(world.queue.store_stats_async()).unwrap();
    assert_eq!(stats.jobs, 0);
    world.end();
}

/// The thread takes the call, or ends and another one is started.
#[testkit::model(preemptions = 2)]
fn a_call_racing_the_end_of_an_idle_thread_is_made() {
    let world = world();
    block_on(world.queue.store_stats_async()).unwrap();
    let clock = world.clock.clone();
    let time = sync_shim::model::spawn(move || clock.advance(CALL_KEEP_ALIVE));
    block_on(world.queue.store_stats_async()).unwrap();
    time.join().unwrap();
    world.end();
}

/// Two calls find the only thread idle, or busy, or ending.
#[testkit::model(preemptions = 2)]
fn two_calls_racing_an_idle_thread_are_both_made() {
    let world = world();
    block_on(world.queue.store_stats_async()).unwrap();
    let other = world.on_thread(|queue| block_on(queue.store_stats_async()).unwrap().jobs);
    block_on(world.queue.store_stats_async()).unwrap();
    assert_eq!(other.join().unwrap(), 0);
    world.end();
}

/// The last handle is dropped while the call is made: its thread ends, and the future is answered.
#[testkit::model(preemptions = 3)]
fn a_call_racing_the_drop_of_the_last_handle_is_answered() {
    let World { queue, .. } = world();
    let push = queue.push_async(vec![1], LEASE);
    let dropper = sync_shim::model::spawn(move || drop(queue));
    assert!(block_on(push).is_ok());
    dropper.join().unwrap();
}

/// The pump ends while the future registers for its end.
#[testkit::model(preemptions = 2)]
fn a_shutdown_by_a_future_racing_an_ack_ends() {
    let world = world();
    world.push(1, durable_queue::When::NOW);
    let taken = world.queue.take().unwrap();
    let acker = sync_shim::model::spawn(move || taken.ack().unwrap());
    let ended = block_on(world.queue.shutdown_async(LEASE));
    assert_eq!(ended, durable_queue::ShutDown::Finished);
    acker.join().unwrap();
    assert_eq!(world.left(), 0);
}
