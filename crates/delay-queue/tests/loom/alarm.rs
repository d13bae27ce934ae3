//! Futures that wait for a time: the clock's alarm or a thread is the leader for them.

use std::io;
use std::task::Waker;
use std::time::Instant;

use delay_queue::{DelayQueue, ManualClock, TakeError};
use sync_shim::model::spawn;
use sync_shim::{Alarm, Clock, Parker};

use super::{NOW, beside, block_on, poll_once, queue, steps, value};

/// Alarms are set without the lock, so one may ring before the thread that sets it has recorded it.
#[testkit::model(preemptions = 3)]
fn an_alarm_that_rings_while_it_is_set_wakes_its_future() {
    let (queue, clock) = queue();
    queue.push("entry", steps(1)).unwrap();
    let taker = beside(&queue, |queue| value(block_on(queue.take_async())));
    clock.advance(steps(1));
    assert_eq!(taker.join().unwrap().unwrap(), "entry");
}

/// An alarm rings while it is set, and the next alarm must be set for the entries that follow.
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

/// An alarm for a later time is being set as an earlier entry is pushed.
#[testkit::model(preemptions = 3)]
fn an_earlier_push_racing_the_setting_of_an_alarm_sets_an_earlier_one() {
    let (queue, clock) = queue();
    queue.push("later", steps(9)).unwrap();
    let taker = beside(&queue, |queue| value(block_on(queue.take_async())));
    queue.push("earlier", steps(1)).unwrap();
    clock.advance(steps(1));
    assert_eq!(taker.join().unwrap().unwrap(), "earlier");
    // No alarm is set unless a waiting future needs it.
    assert!(clock.sleepers() <= 1);
}

/// The leader is a thread that times out, and a future still waits.
#[testkit::model(preemptions = 2)]
fn the_last_thread_that_leaves_racing_a_future_passes_the_lead_to_the_alarm() {
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
    if queue.take_timeout(deadline).is_ok() {
        // It started so late that the entry was already due.
        queue.push("entry", NOW).unwrap();
    }
    assert_eq!(future.join().unwrap().unwrap(), "entry");
    mover.join().unwrap();
}

/// The leader is a thread and is notified of an entry that is due before its time.
#[testkit::model(preemptions = 3)]
fn a_notified_leader_that_leaves_passes_the_lead_on() {
    let (queue, clock) = queue();
    queue.push("later", steps(2)).unwrap();
    let future = beside(&queue, |queue| value(block_on(queue.take_async())).unwrap());
    let thread = beside(&queue, |queue| value(queue.take()).unwrap());
    queue.push("now", NOW).unwrap();
    clock.advance(steps(2));
    assert_ne!(future.join().unwrap(), thread.join().unwrap());
}

/// A future waits for the alarm while a thread arrives and becomes the leader; two entries fall
/// due.
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

/// A waiting future is dropped as the alarm rings for it: another one must be notified.
#[testkit::model(preemptions = 3)]
fn an_alarm_racing_a_dropped_future_notifies_the_other_future() {
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

/// A clock without alarms.
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

/// No alarm can be set, but a thread is the leader for a while: when it leaves, the future must get
/// the error.
#[testkit::model(preemptions = 2)]
fn a_failed_alarm_racing_a_leaving_thread_is_reported() {
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
        queue.take_timeout(deadline),
        Err(TakeError::TimedOut)
    ));
    assert!(matches!(future.join().unwrap(), Err(TakeError::NoAlarm(_))));
    mover.join().unwrap();
}
