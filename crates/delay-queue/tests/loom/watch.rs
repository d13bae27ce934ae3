//! Threads that wait for a time: which one is the leader, and which one is notified.

use sync_shim::Clock;
use sync_shim::model::spawn;

use super::{NOW, Tally, beside, queue, steps, value};

/// The leader starts to sleep for the later entry, or is notified of the earlier one.
#[testkit::model(preemptions = 3)]
fn an_earlier_push_racing_the_leaders_sleep_is_taken_in_time() {
    let (queue, clock) = queue();
    queue.push("later", steps(9)).unwrap();
    let taker = beside(&queue, |queue| value(queue.take()));
    queue.push("earlier", steps(1)).unwrap();
    clock.advance(steps(1));
    assert_eq!(taker.join().unwrap().unwrap(), "earlier");
}

/// As above, with a reset instead of the push.
#[testkit::model(preemptions = 3)]
fn an_earlier_reset_racing_the_leaders_sleep_is_taken_in_time() {
    let (queue, clock) = queue();
    let id = queue.push("moved", steps(9)).unwrap();
    let taker = beside(&queue, |queue| value(queue.take()));
    assert!(queue.reset(id, steps(1)));
    clock.advance(steps(1));
    assert_eq!(taker.join().unwrap().unwrap(), "moved");
}

#[testkit::model(preemptions = 3)]
fn a_push_racing_a_taker_of_an_empty_queue_is_taken_in_time() {
    let (queue, clock) = queue();
    let taker = beside(&queue, |queue| value(queue.take()));
    queue.push("only", steps(1)).unwrap();
    clock.advance(steps(1));
    assert_eq!(taker.join().unwrap().unwrap(), "only");
}

/// One of two takers has a timeout shorter than the entry's delay.
#[testkit::model(preemptions = 2)]
fn a_leader_that_times_out_racing_a_taker_passes_the_lead_on() {
    let (queue, clock) = queue();
    queue.push("entry", steps(2)).unwrap();
    let deadline = clock.now() + steps(1);
    let follower = beside(&queue, |queue| value(queue.take()));
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
    assert_eq!(follower.join().unwrap().unwrap(), "entry");
    mover.join().unwrap();
}

/// Two entries, two takers: the taker of the first entry was the leader.
#[testkit::model(preemptions = 3)]
fn a_leader_that_leaves_with_its_entry_passes_the_lead_on() {
    let (queue, clock) = queue();
    queue.push("one", steps(1)).unwrap();
    queue.push("two", steps(2)).unwrap();
    let takers = [queue.clone(), queue.clone()].map(|queue| spawn(move || value(queue.take())));
    clock.advance(steps(1));
    clock.advance(steps(1));
    let mut taken = takers.map(|taker| taker.join().unwrap().unwrap());
    taken.sort_unstable();
    assert_eq!(taken, ["one", "two"]);
}

/// A thread is notified of an entry that another thread takes first, while an entry earlier than
/// the leader's is pushed.
#[testkit::model(preemptions = 2)]
fn a_notified_thread_that_comes_too_late_leads_for_an_earlier_entry() {
    let (queue, clock) = queue();
    queue.push("far", steps(9)).unwrap();
    let seen = Tally::new();
    let takers = [queue.clone(), queue.clone()].map(|queue| {
        let seen = seen.clone();
        spawn(move || {
            if value(queue.take()).is_ok_and(|value| value == "near") {
                seen.add();
            }
        })
    });
    queue.push("now", NOW).unwrap();
    queue.push("near", steps(1)).unwrap();
    // Ignored: another taker may have the entry, and then none is left.
    let _ = queue.try_take();
    clock.advance(steps(1));
    seen.wait_for(1);
    queue.close_now();
    for taker in takers {
        taker.join().unwrap();
    }
}

#[testkit::model(preemptions = 2)]
fn two_takers_racing_for_one_entry_take_it_once() {
    let (queue, clock) = queue();
    queue.push("only", steps(1)).unwrap();
    let seen = Tally::new();
    let takers = [queue.clone(), queue.clone()].map(|queue| {
        let seen = seen.clone();
        spawn(move || {
            let taken = value(queue.take());
            seen.add();
            taken.is_ok()
        })
    });
    clock.advance(steps(1));
    seen.wait_for(1);
    assert_eq!(queue.stats().taken, 1);
    queue.close();
    let taken = takers.map(|taker| taker.join().unwrap());
    assert_eq!(taken.iter().filter(|&&taken| taken).count(), 1);
}
