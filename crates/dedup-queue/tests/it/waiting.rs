//! The forms of `get` on threads.

use std::num::NonZeroUsize;
use std::thread;
use std::time::Duration;

use sync_shim::Clock;

use crate::support::{MS, delaying, get, is_closed, is_empty, plain, timed_out, until};

fn non_zero(n: usize) -> NonZeroUsize {
    NonZeroUsize::new(n).unwrap()
}

#[testkit::test]
fn get_waits_for_an_add() {
    let queue = plain();
    thread::scope(|scope| {
        let worker = scope.spawn(|| *queue.get().unwrap());
        until(|| queue.stats().waiting == 1);
        queue.add("a").unwrap();
        assert_eq!(worker.join().unwrap(), "a");
    });
}

#[testkit::test]
fn each_add_of_a_new_key_wakes_one_worker() {
    let queue = plain();
    thread::scope(|scope| {
        let workers: Vec<_> = (0..3)
            .map(|_| scope.spawn(|| queue.get().unwrap()))
            .collect();
        until(|| queue.stats().waiting == 3);
        queue.add("a").unwrap();
        queue.add("a").unwrap(); // Merged or dirty, so no getter could take it.
        until(|| queue.stats().held == 1);
        assert_eq!((queue.stats().wakes, queue.stats().waiting), (1, 2));
        queue.add("b").unwrap();
        queue.add("c").unwrap();
        let held: Vec<_> = workers
            .into_iter()
            .map(|worker| worker.join().unwrap())
            .collect();
        assert_eq!(queue.stats().wakes, 3);
        drop(held);
    });
}

#[testkit::test]
fn a_second_worker_waits_until_the_key_is_released() {
    let queue = plain();
    queue.add("a").unwrap();
    let held = get(&queue);
    queue.add("a").unwrap();
    queue.add("a").unwrap();
    thread::scope(|scope| {
        let second = scope.spawn(|| *queue.get().unwrap());
        until(|| queue.stats().waiting == 1);
        assert_eq!(queue.stats().wakes, 0);
        drop(held);
        assert_eq!(second.join().unwrap(), "a");
    });
    assert!(is_empty(&queue.try_get()), "two adds, one delivery");
}

#[testkit::test]
fn a_get_ends_at_its_timeout_and_not_before() {
    let (queue, clock) = delaying();
    let deadline = clock.now() + 10 * MS;
    thread::scope(|scope| {
        let timeout = scope.spawn(|| timed_out(&queue.get_timeout(10 * MS)));
        let until_then = scope.spawn(|| timed_out(&queue.get_timeout(deadline)));
        let batch = scope.spawn(|| timed_out(&queue.get_batch_timeout(non_zero(2), 10 * MS)));
        clock.wait_for_sleepers(3);
        assert_eq!(clock.next_due(), Some(deadline));
        clock.advance(9 * MS);
        assert_eq!(clock.sleepers(), 3);
        clock.advance(MS);
        assert!(timeout.join().unwrap() && until_then.join().unwrap() && batch.join().unwrap());
    });
    assert_eq!(queue.stats().waiting, 0);
    queue.add("a").unwrap();
    assert_eq!(*get(&queue), "a", "it took nothing with it");
}

#[test]
fn a_ready_key_is_taken_although_the_deadline_has_passed() {
    let (queue, clock) = delaying();
    queue.add("a").unwrap();
    assert_eq!(*queue.get_timeout(clock.now()).unwrap(), "a");
    assert!(timed_out(&queue.get_timeout(clock.now())));
    assert!(timed_out(&queue.get_timeout(Duration::ZERO)));
    queue.shut_down();
    assert!(is_closed(&queue.get_timeout(MS)));
}

#[testkit::test]
fn a_timeout_beyond_the_clocks_range_never_ends() {
    let queue = plain();
    thread::scope(|scope| {
        let worker = scope.spawn(|| *queue.get_timeout(Duration::MAX).unwrap());
        until(|| queue.stats().waiting == 1);
        queue.add("a").unwrap();
        assert_eq!(worker.join().unwrap(), "a");
    });
}

#[testkit::test]
fn a_batch_takes_ready_keys_in_order_up_to_its_limit() {
    let queue = plain();
    for key in ["a", "b", "c"] {
        queue.add(key).unwrap();
    }
    let keys = |held: Vec<dedup_queue::Held<&'static str>>| -> Vec<_> {
        held.iter().map(|held| **held).collect()
    };
    let two = queue.get_batch(non_zero(2)).unwrap();
    assert_eq!(queue.stats().held, 2);
    assert_eq!(keys(two), ["a", "b"]);
    assert_eq!(keys(queue.try_get_batch(non_zero(9)).unwrap()), ["c"]);
    assert!(is_empty(&queue.try_get_batch(non_zero(1))));
    thread::scope(|scope| {
        let worker = scope.spawn(|| queue.get_batch(non_zero(5)).unwrap().len());
        until(|| queue.stats().waiting == 1);
        queue.add("a").unwrap();
        assert_eq!(worker.join().unwrap(), 1, "it waits for one, not for all");
    });
    queue.shut_down();
    assert!(is_closed(&queue.get_batch(non_zero(1))));
}

#[testkit::test]
fn one_waiting_thread_leads_and_the_others_sleep_without_a_deadline() {
    let (queue, clock) = delaying();
    queue.add_after("a", 10 * MS).unwrap();
    queue.add_after("b", 20 * MS).unwrap();
    thread::scope(|scope| {
        let workers: Vec<_> = (0..3)
            .map(|_| scope.spawn(|| queue.get().map(|held| *held)))
            .collect();
        until(|| queue.stats().waiting == 3);
        clock.wait_for_sleepers(1);
        assert_eq!(clock.sleepers(), 1);
        clock.advance(10 * MS);
        // The getter that took the key has passed the lead on.
        until(|| queue.stats().waiting == 2 && clock.sleepers() == 1);
        assert_eq!(clock.next_due(), Some(clock.now() + 10 * MS));
        clock.advance(10 * MS);
        until(|| queue.stats().waiting == 1);
        queue.shut_down();
        let got: Vec<_> = workers
            .into_iter()
            .map(|worker| worker.join().unwrap())
            .collect();
        let mut keys: Vec<_> = got.into_iter().flatten().collect();
        keys.sort_unstable();
        assert_eq!(keys, ["a", "b"]);
    });
}

#[testkit::test]
fn a_leader_that_times_out_passes_the_lead_to_another_getter() {
    let (queue, clock) = delaying();
    queue.add_after("a", 20 * MS).unwrap();
    thread::scope(|scope| {
        let keeper = scope.spawn(|| timed_out(&queue.get_timeout(10 * MS)));
        clock.wait_for_sleepers(1);
        let other = scope.spawn(|| *queue.get().unwrap());
        until(|| queue.stats().waiting == 2);
        clock.advance(10 * MS);
        assert!(keeper.join().unwrap());
        clock.wait_for_sleepers(1);
        clock.advance(10 * MS);
        assert_eq!(other.join().unwrap(), "a");
    });
}
