//! Delayed keys, and those who wait for them.

use loom::future::block_on;
use sync_shim::model::{check, spawn};

use dedup_queue::{Clock, GetError};

use super::{SECOND, delaying, is_at_rest};

/// A key that falls due against a getter that arrives: it gets the key.
#[test]
fn a_key_falling_due_racing_an_arriving_getter_is_taken() {
    check(
        "a_key_falling_due_racing_an_arriving_getter_is_taken",
        Some(3),
        || {
            let (queue, clock) = delaying();
            queue.add_after(1, SECOND).unwrap();
            let time = spawn(move || clock.advance(SECOND));
            assert_eq!(*queue.get().unwrap(), 1);
            time.join().unwrap();
            is_at_rest(&queue);
        },
    );
}

/// The same, of a future: the clock's alarm must be set, and set in time.
#[test]
fn a_key_falling_due_racing_an_arriving_future_is_taken() {
    check(
        "a_key_falling_due_racing_an_arriving_future_is_taken",
        Some(3),
        || {
            let (queue, clock) = delaying();
            queue.add_after(1, SECOND).unwrap();
            let time = spawn(move || clock.advance(SECOND));
            assert_eq!(*block_on(queue.get_async()).unwrap(), 1);
            time.join().unwrap();
            is_at_rest(&queue);
        },
    );
}

/// One alarm after another: the second key's is set once the first has rung.
#[test]
fn an_alarm_that_rings_racing_a_poll_leads_to_the_next() {
    check(
        "an_alarm_that_rings_racing_a_poll_leads_to_the_next",
        Some(2),
        || {
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
        },
    );
}

/// An earlier key against a getter that sleeps until a later one: it does not sleep on.
#[test]
fn an_earlier_key_racing_a_sleeping_getter_is_taken_first() {
    check(
        "an_earlier_key_racing_a_sleeping_getter_is_taken_first",
        Some(3),
        || {
            let (queue, clock) = delaying();
            queue.add_after(2, 2 * SECOND).unwrap();
            let adder = {
                let queue = queue.clone();
                spawn(move || {
                    queue.add_after(1, SECOND).unwrap();
                    clock.advance(SECOND);
                })
            };
            assert_eq!(*queue.get().unwrap(), 1);
            adder.join().unwrap();
            assert_eq!(queue.stats().delayed, 1);
        },
    );
}

/// An `add` against the same key's falling due against a getter: one delivery, not two.
#[test]
fn an_add_racing_the_keys_own_due_time_is_one_delivery() {
    check(
        "an_add_racing_the_keys_own_due_time_is_one_delivery",
        Some(3),
        || {
            let (queue, clock) = delaying();
            queue.add_after(1, SECOND).unwrap();
            let adder = {
                let queue = queue.clone();
                spawn(move || _ = queue.add(1).unwrap())
            };
            let time = spawn(move || clock.advance(SECOND));
            time.join().unwrap();
            adder.join().unwrap();
            assert_eq!(*queue.get().unwrap(), 1);
            assert!(matches!(queue.try_get(), Err(GetError::Empty)));
            is_at_rest(&queue);
        },
    );
}

/// A time-out against an add: the getter has the key, or the key is still there.
#[test]
fn a_time_out_racing_an_add_loses_no_key() {
    check("a_time_out_racing_an_add_loses_no_key", Some(3), || {
        let (queue, clock) = delaying();
        let adder = {
            let queue = queue.clone();
            spawn(move || _ = queue.add(1).unwrap())
        };
        let deadline = clock.now() + SECOND;
        let time = spawn(move || clock.advance(SECOND));
        let got = queue.get_deadline(deadline).is_ok();
        time.join().unwrap();
        adder.join().unwrap();
        assert_eq!(queue.try_get().is_ok(), !got);
        is_at_rest(&queue);
    });
}

/// A getter that keeps the time and gives up, against one that sleeps without: the time is kept.
#[test]
fn a_time_keeper_giving_up_racing_a_sleeper_hands_the_time_on() {
    check(
        "a_time_keeper_giving_up_racing_a_sleeper_hands_the_time_on",
        Some(2),
        || {
            let (queue, clock) = delaying();
            queue.add_after(1, 2 * SECOND).unwrap();
            let sleeper = {
                let queue = queue.clone();
                spawn(move || *queue.get().unwrap())
            };
            let keeper = {
                let (queue, deadline) = (queue.clone(), clock.now() + SECOND);
                spawn(move || assert!(queue.get_deadline(deadline).is_err()))
            };
            clock.advance(SECOND);
            keeper.join().unwrap();
            clock.advance(SECOND);
            assert_eq!(sleeper.join().unwrap(), 1);
            is_at_rest(&queue);
        },
    );
}
