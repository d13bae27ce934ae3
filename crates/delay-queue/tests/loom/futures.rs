//! Futures among takers: a notification is a hint, and a dropped future passes it on.

use std::num::NonZeroUsize;

use sync_shim::model::spawn;

use super::{NOW, Tally, beside, block_on, poll_once, queue, steps, value};

const TWO: NonZeroUsize = NonZeroUsize::MIN.saturating_add(1);

#[testkit::model(preemptions = 3)]
fn a_notified_future_that_is_dropped_passes_its_notification_on() {
    let (queue, _clock) = queue();
    let mut first = queue.take_async();
    assert!(poll_once(&mut first).is_pending());
    let other = beside(&queue, |queue| value(block_on(queue.take_async())));
    let dropper = spawn(move || drop(first));
    queue.push("entry", NOW).unwrap();
    assert_eq!(other.join().unwrap().unwrap(), "entry");
    dropper.join().unwrap();
}

/// The thread waits before or after the notification.
#[testkit::model(preemptions = 3)]
fn a_dropped_future_racing_a_waiting_thread_leaves_it_the_entry() {
    let (queue, clock) = queue();
    queue.push("entry", steps(1)).unwrap();
    let mut future = queue.take_async();
    assert!(poll_once(&mut future).is_pending());
    let thread = beside(&queue, |queue| value(queue.take()));
    let dropper = spawn(move || drop(future));
    clock.advance(steps(1));
    assert_eq!(thread.join().unwrap().unwrap(), "entry");
    dropper.join().unwrap();
}

/// A notified future is never polled, and its entry is taken by another taker. The next entry must
/// not wait for the future.
#[testkit::model(preemptions = 3)]
fn a_notified_future_that_is_never_polled_blocks_no_thread() {
    let (queue, _clock) = queue();
    let mut future = queue.take_async();
    assert!(poll_once(&mut future).is_pending());
    queue.push("first", NOW).unwrap(); // Notifies the future.
    assert_eq!(queue.try_take().unwrap().value, "first");
    let thread = beside(&queue, |queue| value(queue.take()));
    queue.push("second", NOW).unwrap();
    assert_eq!(thread.join().unwrap().unwrap(), "second");
    drop(future);
}

/// As above, while another future already waits.
#[testkit::model(preemptions = 3)]
fn a_notified_future_that_is_never_polled_blocks_no_future() {
    let (queue, _clock) = queue();
    let mut future = queue.take_async();
    assert!(poll_once(&mut future).is_pending());
    let other = beside(&queue, |queue| value(block_on(queue.take_async())));
    queue.push("first", NOW).unwrap(); // Notifies one of them, or the other one takes it.
    let taken = queue.try_take().is_ok();
    if taken {
        queue.push("second", NOW).unwrap(); // Notifies the other one, which may wait already.
    }
    let expected = if taken { "second" } else { "first" };
    assert_eq!(other.join().unwrap().unwrap(), expected);
    drop(future);
}

#[testkit::model(preemptions = 3)]
fn a_future_and_a_thread_racing_for_two_entries_take_one_each() {
    let (queue, _clock) = queue();
    let future = beside(&queue, |queue| value(block_on(queue.take_async())).unwrap());
    let thread = beside(&queue, |queue| value(queue.take()).unwrap());
    queue.push("one", NOW).unwrap();
    queue.push("two", NOW).unwrap();
    let mut taken = [future.join().unwrap(), thread.join().unwrap()];
    taken.sort_unstable();
    assert_eq!(taken, ["one", "two"]);
}

#[testkit::model(preemptions = 2)]
fn a_future_racing_a_thread_for_one_entry_takes_it_or_waits() {
    let (queue, _clock) = queue();
    let seen = Tally::new();
    let future = {
        let (queue, seen) = (queue.clone(), seen.clone());
        spawn(move || {
            let taken = value(block_on(queue.take_async()));
            seen.add();
            taken.is_ok()
        })
    };
    let thread = {
        let (queue, seen) = (queue.clone(), seen.clone());
        spawn(move || {
            let taken = value(queue.take());
            seen.add();
            taken.is_ok()
        })
    };
    queue.push("only", NOW).unwrap();
    seen.wait_for(1);
    queue.close();
    assert_ne!(future.join().unwrap(), thread.join().unwrap());
}

#[testkit::model(preemptions = 3)]
fn a_waiting_future_that_is_dropped_racing_the_alarm_leaves_the_other_its_entry() {
    let (queue, clock) = queue();
    queue.push("entry", steps(1)).unwrap();
    let mut first = queue.take_async();
    assert!(poll_once(&mut first).is_pending()); // Sets the alarm.
    let other = beside(&queue, |queue| value(block_on(queue.take_async())));
    let dropper = spawn(move || drop(first));
    clock.advance(steps(1));
    assert_eq!(other.join().unwrap().unwrap(), "entry");
    dropper.join().unwrap();
}

/// Another executor polls the future, with its own waker, as an entry is pushed.
#[testkit::model(preemptions = 3)]
fn a_future_polled_again_racing_a_push_is_woken_by_its_latest_waker() {
    let (queue, _clock) = queue();
    let mut future = queue.take_async();
    assert!(poll_once(&mut future).is_pending());
    let taker = spawn(move || value(block_on(future)));
    queue.push("entry", NOW).unwrap();
    assert_eq!(taker.join().unwrap().unwrap(), "entry");
}

/// As above, but another taker has the entry: the next entry must wake the future.
#[testkit::model(preemptions = 3)]
fn a_notified_future_that_finds_no_entry_is_notified_of_the_next() {
    let (queue, _clock) = queue();
    let mut future = queue.take_async();
    assert!(poll_once(&mut future).is_pending());
    queue.push("first", NOW).unwrap(); // Notifies it.
    let taker = spawn(move || value(block_on(future)));
    let taken = queue.try_take().is_ok();
    if taken {
        queue.push("second", NOW).unwrap();
    }
    let expected = if taken { "second" } else { "first" };
    assert_eq!(taker.join().unwrap().unwrap(), expected);
}

/// A future is notified of an entry that is then delayed, and is never polled. The next entry
/// belongs to another taker.
#[testkit::model(preemptions = 3)]
fn an_entry_delayed_racing_a_waiting_future_revokes_its_notification() {
    let (queue, _clock) = queue();
    queue.push("far", steps(5)).unwrap(); // Sets an alarm, for a time no later than the new one.
    let mut idle = queue.take_async();
    assert!(poll_once(&mut idle).is_pending());
    let other = beside(&queue, |queue| value(block_on(queue.take_async())));
    let id = queue.push("first", NOW).unwrap();
    if queue.reset(id, steps(9)) {
        queue.push("second", NOW).unwrap();
        assert_eq!(other.join().unwrap().unwrap(), "second");
    } else {
        assert_eq!(other.join().unwrap().unwrap(), "first");
    }
    drop(idle);
}

/// A thread takes a batch that contains the entry of a notified thread, which waits for the next
/// one.
#[testkit::model(preemptions = 2)]
fn a_batch_racing_a_thread_takes_its_entry_or_leaves_it_one() {
    let (queue, _clock) = queue();
    let batch = beside(&queue, |queue| {
        queue.take_many(&mut Vec::new(), TWO).unwrap()
    });
    let thread = beside(&queue, |queue| value(queue.take()));
    queue.push("one", NOW).unwrap();
    queue.push("two", NOW).unwrap();
    if batch.join().unwrap() == 2 {
        queue.push("three", NOW).unwrap();
    }
    assert!(thread.join().unwrap().is_ok());
    assert_eq!(queue.len(), 0);
}

#[testkit::model(preemptions = 3)]
fn a_notified_batch_future_that_is_dropped_passes_its_notification_on() {
    let (queue, _clock) = queue();
    let mut batch = Vec::new();
    let mut first = queue.take_many_async(&mut batch, TWO);
    assert!(poll_once(&mut first).is_pending());
    let other = beside(&queue, |queue| value(block_on(queue.take_async())));
    queue.push("entry", NOW).unwrap();
    drop(first);
    assert_eq!(other.join().unwrap().unwrap(), "entry");
    assert!(batch.is_empty());
}
