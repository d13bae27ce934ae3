//! Futures among takers: a call is a hint, and a dropped future passes it on.

use std::num::NonZeroUsize;

use sync_shim::model::spawn;

use super::{NOW, Tally, beside, block_on, poll_once, queue, steps, value};

const TWO: NonZeroUsize = NonZeroUsize::MIN.saturating_add(1);

/// Two futures wait, one is called, and dropped.
#[testkit::model(preemptions = 3)]
fn a_called_future_that_is_dropped_passes_its_call_on() {
    let (queue, _clock) = queue();
    let mut first = queue.take_async();
    assert!(poll_once(&mut first).is_pending());
    let other = beside(&queue, |queue| value(block_on(queue.take_async())));
    let dropper = spawn(move || drop(first));
    queue.push("entry", NOW).unwrap();
    assert_eq!(other.join().unwrap().unwrap(), "entry");
    dropper.join().unwrap();
}

/// As above, to a waiting thread: it comes after the call, or was there before.
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

/// A future is called and never polled; its entry is taken by another. The next entry must
/// not wait for it.
#[testkit::model(preemptions = 3)]
fn a_called_future_that_is_never_polled_holds_up_no_thread() {
    let (queue, _clock) = queue();
    let mut future = queue.take_async();
    assert!(poll_once(&mut future).is_pending());
    queue.push("first", NOW).unwrap(); // Calls the future.
    assert_eq!(queue.try_take().unwrap().value, "first");
    let thread = beside(&queue, |queue| value(queue.take()));
    queue.push("second", NOW).unwrap();
    assert_eq!(thread.join().unwrap().unwrap(), "second");
    drop(future);
}

/// As above, and another future waits already.
#[testkit::model(preemptions = 3)]
fn a_called_future_that_is_never_polled_holds_up_no_future() {
    let (queue, _clock) = queue();
    let mut future = queue.take_async();
    assert!(poll_once(&mut future).is_pending());
    let other = beside(&queue, |queue| value(block_on(queue.take_async())));
    queue.push("first", NOW).unwrap(); // Calls one of them, or is taken by the other.
    let taken = queue.try_take().is_ok();
    if taken {
        queue.push("second", NOW).unwrap(); // Calls the other, which may wait by now.
    }
    let expected = if taken { "second" } else { "first" };
    assert_eq!(other.join().unwrap().unwrap(), expected);
    drop(future);
}

/// A future and a thread, an entry each.
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

/// A future and a thread, one entry: one has it, the other goes on waiting.
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

/// A future that has not been called is dropped as the alarm rings: the entry is the other's.
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

/// A future is polled again, by another executor's waker, as an entry comes.
#[testkit::model(preemptions = 3)]
fn a_future_polled_again_racing_a_push_is_called_by_its_latest_waker() {
    let (queue, _clock) = queue();
    let mut future = queue.take_async();
    assert!(poll_once(&mut future).is_pending());
    let taker = spawn(move || value(block_on(future)));
    queue.push("entry", NOW).unwrap();
    assert_eq!(taker.join().unwrap().unwrap(), "entry");
}

/// As above, and its entry is taken by another: it must be there for the next.
#[testkit::model(preemptions = 3)]
fn a_called_future_polled_again_in_vain_is_called_for_the_next_entry() {
    let (queue, _clock) = queue();
    let mut future = queue.take_async();
    assert!(poll_once(&mut future).is_pending());
    queue.push("first", NOW).unwrap(); // Calls it.
    let taker = spawn(move || value(block_on(future)));
    let taken = queue.try_take().is_ok();
    if taken {
        queue.push("second", NOW).unwrap();
    }
    let expected = if taken { "second" } else { "first" };
    assert_eq!(taker.join().unwrap().unwrap(), expected);
}

/// A future is called for an entry that is put off, and never polled. The next entry is another's.
#[testkit::model(preemptions = 3)]
fn an_entry_put_off_racing_a_waiting_future_takes_its_call_with_it() {
    let (queue, _clock) = queue();
    queue.push("far", steps(5)).unwrap(); // An alarm is set, for no later than is put off.
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

/// A thread takes a batch with the entry of another, which was notified: that one waits for the next.
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

/// A future that waits for a batch is called and dropped: the entry is the other's.
#[testkit::model(preemptions = 3)]
fn a_called_batch_future_that_is_dropped_passes_its_call_on() {
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
