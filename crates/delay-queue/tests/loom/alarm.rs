//! Futures that wait for a time: the clock's alarm keeps it, or a thread does.

use std::io;
use std::task::Waker;
use std::time::Instant;

use delay_queue::{DelayQueue, ManualClock, TakeError};
use sync_shim::model::spawn;
use sync_shim::{Alarm, Clock, Parker};

use super::{NOW, beside, block_on, poll_once, queue, steps, value};

/// Setting an alarm is not under the lock: it may fire before the party that set it has reported it.
#[testkit::model(preemptions = 3)]
fn an_alarm_that_rings_while_it_is_set_is_heard() {
    let (queue, clock) = queue();
    queue.push("entry", steps(1)).unwrap();
    let taker = beside(&queue, |queue| value(block_on(queue.take_async())));
    clock.advance(steps(1));
    assert_eq!(taker.join().unwrap().unwrap(), "entry");
}

/// An alarm rings while it is set, and the next must be set for what follows.
#[testkit::model(preemptions = 3)]
fn an_alarm_that_rings_while_it_is_set_is_followed_by_the_next() {
    let (queue, clock) = queue();
    queue.push("one", steps(1)).unwrap();
    queue.push("two", steps(2)).unwrap();
    let taker = beside(&queue, move |queue| {
        let one = value(block_on(queue.take_async())).unwrap();
        (one, value(block_on(queue.take_async())).unwrap())
    });
    clock.advance(steps(1));
    clock.advance(steps(1));
    assert_eq!(taker.join().unwrap(), ("one", "two"));
}

/// An alarm for a later time is being set as an earlier entry comes.
#[testkit::model(preemptions = 3)]
fn an_earlier_push_racing_the_arming_sets_an_earlier_alarm() {
    let (queue, clock) = queue();
    queue.push("later", steps(9)).unwrap();
    let taker = beside(&queue, |queue| value(block_on(queue.take_async())));
    queue.push("earlier", steps(1)).unwrap();
    clock.advance(steps(1));
    assert_eq!(taker.join().unwrap().unwrap(), "earlier");
    // Nothing is left set but what some waiting future needs.
    assert!(clock.sleepers() <= 1);
}

/// A thread has the watch, and gives up; a future stays.
#[testkit::model(preemptions = 2)]
fn the_last_thread_that_leaves_hands_the_watch_to_the_alarm() {
    let (queue, clock) = queue();
    queue.push("entry", steps(2)).unwrap();
    let deadline = clock.now() + steps(1);
    let future = beside(&queue, |queue| value(block_on(queue.take_async())));
    let mover = {
        let clock = clock.clone();
        spawn(move || {
            clock.advance(steps(1));
            clock.advance(steps(1));
        })
    };
    if queue.take_deadline(deadline).is_ok() {
        // It began so late that the entry was due.
        queue.push("entry", NOW).unwrap();
    }
    assert_eq!(future.join().unwrap().unwrap(), "entry");
    mover.join().unwrap();
}

/// A thread has the watch, and is called for an entry that is ready before its time.
#[testkit::model(preemptions = 3)]
fn a_called_watch_that_leaves_hands_the_watch_on() {
    let (queue, clock) = queue();
    queue.push("later", steps(2)).unwrap();
    let future = beside(&queue, |queue| value(block_on(queue.take_async())).unwrap());
    let thread = beside(&queue, |queue| value(queue.take()).unwrap());
    queue.push("now", NOW).unwrap();
    clock.advance(steps(2));
    assert_ne!(future.join().unwrap(), thread.join().unwrap());
}

/// A future waits by the alarm as a thread comes, takes the watch, and an entry each is due.
#[testkit::model(preemptions = 3)]
fn an_alarm_racing_an_arriving_thread_loses_no_entry() {
    let (queue, clock) = queue();
    queue.push("one", steps(1)).unwrap();
    queue.push("two", steps(1)).unwrap();
    let future = beside(&queue, |queue| value(block_on(queue.take_async())).unwrap());
    let thread = beside(&queue, |queue| value(queue.take()).unwrap());
    clock.advance(steps(1));
    let mut taken = [future.join().unwrap(), thread.join().unwrap()];
    taken.sort_unstable();
    assert_eq!(taken, ["one", "two"]);
}

/// A waiting future is dropped as the alarm rings for it: another has to be called.
#[testkit::model(preemptions = 3)]
fn an_alarm_racing_a_dropped_future_calls_the_other() {
    let (queue, clock) = queue();
    queue.push("entry", steps(1)).unwrap();
    let mut first = queue.take_async();
    assert!(poll_once(&mut first).is_pending());
    let other = beside(&queue, |queue| value(block_on(queue.take_async())));
    let mover = spawn(move || clock.advance(steps(1)));
    drop(first);
    assert_eq!(other.join().unwrap().unwrap(), "entry");
    mover.join().unwrap();
}

/// A clock that has no alarms.
#[derive(Clone, Debug)]
struct Mute(ManualClock);

impl Clock for Mute {
    fn now(&self) -> Instant {
        self.0.now()
    }
    fn park_until(&self, parker: &Parker, when: Instant) -> bool {
        self.0.park_until(parker, when)
    }
    fn wake_at(&self, _: Instant, _: Waker) -> io::Result<Alarm> {
        Err(io::Error::other("mute"))
    }
}

/// There is no alarm, but a thread that has the watch for a while: the future must not be left
/// without either.
#[testkit::model(preemptions = 2)]
fn an_alarm_that_fails_racing_a_thread_that_leaves_is_told() {
    let clock = ManualClock::new();
    let queue = DelayQueue::with_clock(Mute(clock.clone()));
    queue.push("far", steps(9)).unwrap();
    let deadline = clock.now() + steps(1);
    let future = beside(&queue, |queue| value(block_on(queue.take_async())));
    let mover = {
        let clock = clock.clone();
        spawn(move || clock.advance(steps(1)))
    };
    assert!(matches!(
        queue.take_deadline(deadline),
        Err(TakeError::TimedOut)
    ));
    assert!(matches!(future.join().unwrap(), Err(TakeError::NoAlarm(_))));
    mover.join().unwrap();
}
