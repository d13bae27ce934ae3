//! Delayed keys and their waiters.

use std::future::Future;
use std::io;
use std::num::NonZeroUsize;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::pin::Pin;
use std::task::{Context, Poll, Waker};
use std::time::Instant;

use loom::future::block_on;
use sync_shim::model::spawn;

use dedup_queue::{Clock, Delaying, GetError, KeyQueue, ManualClock, Outcome};
use sync_shim::{Alarm, Parker};

use super::{Fixed, SECOND, beside, delaying, is_at_rest};

#[testkit::model(preemptions = 3)]
fn a_key_falling_due_racing_an_arriving_getter_is_taken() {
    let (queue, clock) = delaying();
    queue.add_after(1, SECOND).unwrap();
    let time = spawn(move || clock.advance(SECOND));
    assert_eq!(*queue.get().unwrap(), 1);
    time.join().unwrap();
    is_at_rest(&queue);
}

/// The same for a future: its alarm must be set in time.
#[testkit::model(preemptions = 3)]
fn a_key_falling_due_racing_an_arriving_future_is_taken() {
    let (queue, clock) = delaying();
    queue.add_after(1, SECOND).unwrap();
    let time = spawn(move || clock.advance(SECOND));
    assert_eq!(*block_on(queue.get_async()).unwrap(), 1);
    time.join().unwrap();
    is_at_rest(&queue);
}

/// The second key's alarm is set once the first one has rung.
#[testkit::model(preemptions = 2)]
fn an_alarm_that_rings_racing_a_poll_leads_to_the_next() {
    let (queue, clock) = delaying();
    queue.add_after(1, SECOND).unwrap();
    queue.add_after(2, 2 * SECOND).unwrap();
    let time = spawn(move || {
        clock.advance(SECOND);
        clock.advance(SECOND);
    });
    assert_eq!(*block_on(queue.get_async()).unwrap(), 1);
    assert_eq!(*block_on(queue.get_async()).unwrap(), 2);
    time.join().unwrap();
    is_at_rest(&queue);
}

#[testkit::model(preemptions = 3)]
fn an_earlier_key_racing_a_sleeping_getter_is_taken_first() {
    let (queue, clock) = delaying();
    queue.add_after(2, 2 * SECOND).unwrap();
    let adder = beside(&queue, move |queue| {
        queue.add_after(1, SECOND).unwrap();
        clock.advance(SECOND);
    });
    assert_eq!(*queue.get().unwrap(), 1);
    adder.join().unwrap();
    assert_eq!(queue.stats().delayed, 1);
}

#[testkit::model(preemptions = 3)]
fn an_add_racing_the_keys_own_due_time_is_one_delivery() {
    let (queue, clock) = delaying();
    queue.add_after(1, SECOND).unwrap();
    let adder = beside(&queue, |queue| _ = queue.add(1).unwrap());
    let time = spawn(move || clock.advance(SECOND));
    time.join().unwrap();
    adder.join().unwrap();
    assert_eq!(*queue.get().unwrap(), 1);
    assert!(matches!(queue.try_get(), Err(GetError::Empty)));
    is_at_rest(&queue);
}

/// The getter returns the key, or the key is still ready.
#[testkit::model(preemptions = 3)]
fn a_timeout_racing_an_add_loses_no_key() {
    let (queue, clock) = delaying();
    let adder = beside(&queue, |queue| _ = queue.add(1).unwrap());
    let deadline = clock.now() + SECOND;
    let time = spawn(move || clock.advance(SECOND));
    let got = queue.get_timeout(deadline).is_ok();
    time.join().unwrap();
    adder.join().unwrap();
    assert_eq!(queue.try_get().is_ok(), !got);
    is_at_rest(&queue);
}

/// The leader times out while another getter sleeps without a time limit: that getter becomes the
/// leader.
#[testkit::model(preemptions = 2)]
fn a_leader_that_times_out_racing_a_sleeper_passes_the_lead_on() {
    let (queue, clock) = delaying();
    queue.add_after(1, 2 * SECOND).unwrap();
    let sleeper = beside(&queue, |queue| *queue.get().unwrap());
    let keeper = {
        let (queue, deadline) = (queue.clone(), clock.now() + SECOND);
        spawn(move || assert!(queue.get_timeout(deadline).is_err()))
    };
    clock.advance(SECOND);
    keeper.join().unwrap();
    clock.advance(SECOND);
    assert_eq!(sleeper.join().unwrap(), 1);
    is_at_rest(&queue);
}

/// A clock on which no thread may sleep and no alarm may ring.
#[derive(Clone, Debug)]
struct Sleepless(ManualClock);

impl Clock for Sleepless {
    fn now(&self) -> Instant {
        self.0.now()
    }

    fn park_until(&self, _: &Parker, _: Instant) -> bool {
        panic!("there is nothing to wait for")
    }

    fn wake_at(&self, _: Instant, _: Waker) -> io::Result<Alarm> {
        panic!("there is nothing to wait for")
    }
}

/// A getter or drain that can return at once does not sleep.
#[testkit::model(preemptions = 3)]
fn a_getter_or_drain_that_can_return_does_not_sleep() {
    let clock = ManualClock::new();
    let queue: KeyQueue<u32, Fixed, Sleepless, Delaying> =
        KeyQueue::<u32, _, _, Delaying>::builder()
            .hasher(Fixed::default())
            .clock(Sleepless(clock.clone()))
            .build();
    queue.add_after(1, SECOND).unwrap();
    let adder = beside(&queue, move |queue| {
        clock.advance(SECOND);
        queue.add(2).unwrap();
    });
    adder.join().unwrap();
    let one = NonZeroUsize::MIN;
    assert_eq!(queue.get_batch_timeout(one, SECOND).unwrap().len(), 1);
    let mut future = queue.get_async();
    let mut context = Context::from_waker(Waker::noop());
    let polled = Pin::new(&mut future).poll(&mut context);
    assert!(matches!(polled, Poll::Ready(Ok(held)) if *held == 2));
    assert_eq!(queue.drain_timeout(SECOND).outcome, Outcome::Finished);
    assert!(matches!(
        queue.get_batch_timeout(one, SECOND),
        Err(GetError::Closed)
    ));
    assert_eq!(queue.stats().wakes, 0);
}

/// A clock whose alarms cannot be set.
#[derive(Clone, Debug)]
struct NoAlarms(ManualClock);

impl Clock for NoAlarms {
    fn now(&self) -> Instant {
        self.0.now()
    }

    fn park_until(&self, parker: &Parker, when: Instant) -> bool {
        self.0.park_until(parker, when)
    }

    fn wake_at(&self, _: Instant, _: Waker) -> io::Result<Alarm> {
        Err(io::Error::other("no thread"))
    }
}

/// Time advances during the first poll of a future that no alarm can wake: it gets the key or an
/// error, but no error if the key was due before the poll.
#[testkit::model(preemptions = 3)]
fn a_due_key_is_taken_although_no_alarm_can_be_set() {
    let clock = ManualClock::new();
    let queue: KeyQueue<u32, Fixed, NoAlarms, Delaying> =
        KeyQueue::<u32, _, _, Delaying>::builder()
            .hasher(Fixed::default())
            .clock(NoAlarms(clock.clone()))
            .build();
    queue.add_after(1, SECOND).unwrap();
    let due = clock.now() + SECOND;
    let time = {
        let clock = clock.clone();
        spawn(move || clock.advance(SECOND))
    };
    let was_due = clock.now() >= due;
    let got = block_on(queue.get_async());
    match got {
        Ok(held) => assert_eq!(*held, 1),
        Err(error) => assert!(matches!(error, GetError::NoAlarm(_)) && !was_due),
    }
    time.join().unwrap();
}

/// A clock whose waits panic: other waiters take over, and no notification goes to the thread that
/// panicked.
#[testkit::model(preemptions = 3)]
fn a_wait_whose_clock_panics_leaves_neither_a_getter_nor_a_drain_waiting() {
    let queue: KeyQueue<u32, Fixed, Sleepless, Delaying> =
        KeyQueue::<u32, _, _, Delaying>::builder()
            .hasher(Fixed::default())
            .clock(Sleepless(ManualClock::new()))
            .build();
    let adder = beside(&queue, |queue| _ = queue.add(1).unwrap());
    let wait = AssertUnwindSafe(|| queue.get_timeout(SECOND).map(drop).is_ok());
    let got = catch_unwind(wait).is_ok();
    // Even before the add, because the add must not notify the thread that panicked.
    assert_eq!(queue.stats().waiting, 0);
    adder.join().unwrap();
    let held = queue.try_get();
    assert_eq!(held.is_ok(), !got);
    queue.add_after(2, SECOND).unwrap();
    if let Ok(held) = held {
        let held = held.into_owned();
        let worker = spawn(move || drop(held));
        let drain = AssertUnwindSafe(|| queue.drain_timeout(SECOND));
        let drained = catch_unwind(drain).ok();
        worker.join().unwrap();
        assert_eq!(queue.stats().draining, 0);
        let drained = drained.unwrap_or_else(|| queue.drain());
        assert_eq!(drained.leftovers.unwrap().delayed.len(), 1);
    }
}
