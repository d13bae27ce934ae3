//! Ends: takers learn that no entry will fall due, and no entry is lost or taken twice.

use sync_shim::model::spawn;

use super::{NOW, beside, block_on, queue, steps, value};

#[testkit::model(preemptions = 3)]
fn a_cancel_of_the_last_entry_after_close_ends_a_waiting_taker() {
    let (queue, _clock) = queue();
    let id = queue.push("last", steps(9)).unwrap();
    queue.close();
    let taker = beside(&queue, |queue| value(queue.take()));
    assert_eq!(queue.cancel(id), Some("last"));
    assert!(taker.join().unwrap().unwrap_err().is_closed());
}

#[testkit::model(preemptions = 3)]
fn a_cancel_of_the_last_entry_after_close_ends_a_waiting_future() {
    let (queue, _clock) = queue();
    let id = queue.push("last", steps(9)).unwrap();
    queue.close();
    let taker = beside(&queue, |queue| value(block_on(queue.take_async())));
    assert_eq!(queue.cancel(id), Some("last"));
    assert!(taker.join().unwrap().unwrap_err().is_closed());
}

#[testkit::model(preemptions = 3)]
fn a_reset_to_never_after_close_ends_a_waiting_taker() {
    let (queue, _clock) = queue();
    let id = queue.push("last", steps(9)).unwrap();
    queue.close();
    let taker = beside(&queue, |queue| value(queue.take()));
    assert!(queue.reset(id, std::time::Duration::MAX));
    assert!(taker.join().unwrap().unwrap_err().is_closed());
    assert_eq!(queue.len(), 1);
}

#[testkit::model(preemptions = 3)]
fn a_take_of_the_last_entry_after_close_ends_the_other_taker() {
    let (queue, clock) = queue();
    queue.push("last", steps(1)).unwrap();
    queue.close();
    let takers = [queue.clone(), queue.clone()].map(|queue| spawn(move || value(queue.take())));
    clock.advance(steps(1));
    let taken = takers.map(|taker| taker.join().unwrap().is_ok());
    assert_eq!(taken.iter().filter(|&&taken| taken).count(), 1);
}

#[testkit::model(preemptions = 3)]
fn a_close_racing_a_take_ends_it() {
    let (queue, _clock) = queue();
    let taker = beside(&queue, |queue| value(queue.take()));
    queue.close();
    assert!(taker.join().unwrap().unwrap_err().is_closed());
}

/// One critical section notifies all waiters.
#[testkit::model(preemptions = 2)]
fn a_close_ends_all_takers() {
    let (queue, _clock) = queue();
    let thread = beside(&queue, |queue| value(queue.take()));
    let future = beside(&queue, |queue| value(block_on(queue.take_async())));
    let other = beside(&queue, |queue| value(queue.take()));
    queue.close();
    for taker in [thread, future, other] {
        assert!(taker.join().unwrap().unwrap_err().is_closed());
    }
}

#[testkit::model(preemptions = 3)]
fn a_close_racing_a_take_keeps_the_last_entry() {
    let (queue, clock) = queue();
    queue.push("entry", steps(1)).unwrap();
    let taker = beside(&queue, |queue| value(queue.take()));
    queue.close();
    clock.advance(steps(1));
    assert_eq!(taker.join().unwrap().unwrap(), "entry");
}

#[testkit::model(preemptions = 3)]
fn a_close_now_racing_a_take_has_one_winner() {
    let (queue, _clock) = queue();
    queue.push("entry", NOW).unwrap();
    let taker = beside(&queue, |queue| value(queue.take()));
    let left = queue.close_now().len();
    let taken = usize::from(taker.join().unwrap().is_ok());
    assert_eq!(left + taken, 1);
}

#[testkit::model(preemptions = 3)]
fn a_close_racing_a_push_accepts_or_returns_the_value() {
    let (queue, _clock) = queue();
    let pusher = beside(&queue, |queue| queue.push("entry", NOW).is_ok());
    let left = queue.close_now().len();
    let accepted = pusher.join().unwrap();
    assert_eq!(left, usize::from(accepted));
    assert!(queue.is_empty());
}

#[testkit::model(preemptions = 3)]
fn a_cancel_racing_a_take_has_one_winner() {
    let (queue, clock) = queue();
    let id = queue.push("entry", steps(1)).unwrap();
    let taker = beside(&queue, |queue| value(queue.take()));
    clock.advance(steps(1));
    let cancelled = queue.cancel(id).is_some();
    if cancelled {
        queue.push("instead", NOW).unwrap();
    }
    let taken = taker.join().unwrap().unwrap();
    assert_eq!(taken == "instead", cancelled);
    assert!(queue.is_empty());
}

/// No entry can fall due, so takers end. Then a reset gives the last entry a time again. The former
/// leader is no longer the leader.
#[testkit::model(preemptions = 3)]
fn a_taker_after_an_end_revoked_by_a_reset_leads() {
    let (queue, clock) = queue();
    let id = queue.push("last", steps(1)).unwrap();
    let first = beside(&queue, |queue| value(queue.take()));
    queue.close();
    assert!(queue.reset(id, std::time::Duration::MAX));
    assert!(first.join().unwrap().unwrap_err().is_closed());
    assert!(queue.reset(id, steps(1)));
    let second = beside(&queue, |queue| value(queue.take()));
    clock.advance(steps(1));
    assert_eq!(second.join().unwrap().unwrap(), "last");
}
