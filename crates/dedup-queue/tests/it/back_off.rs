//! Keys that are added during their back-off, and keys that are given up.

use std::num::NonZeroU32;
use std::time::Duration;

use dedup_queue::{DedupRetryQueue, Exponential, Policy, Retried, Retrying};
use sync_shim::Clock;

use crate::support::{
    Journal, MOVED, MS, NEW, Queue, after, figures, get, is_empty, retrying, take_all,
};

/// Takes the key once it is due, and fails.
fn fails(queue: &Queue<Retrying>) -> Retried {
    get(queue).retry()
}

/// In client-go each event causes a try, which counts as a failure and doubles the delay: twenty
/// events in two seconds delay the next try by a factor of a thousand.
#[test]
fn adds_neither_wait_for_a_back_off_nor_lengthen_it() {
    let (queue, clock) = retrying();
    let start = clock.now();
    queue.add("a").unwrap();
    let (mut tries, mut counted) = (0, Vec::new());
    for millis in 0..1900 {
        if millis % 100 == 50 {
            queue.add("a").unwrap(); // An event.
            assert_eq!(queue.len(), 1, "it is tried at once");
        }
        while let Ok(held) = queue.try_get() {
            let before = held.failures();
            held.retry();
            tries += 1;
            if queue.failures(&"a") > before {
                counted.push((clock.now() - start).as_millis());
            }
        }
        clock.advance(MS);
    }
    // As without events: the delays 5, 10, 20, .. in turn.
    assert_eq!(counted, [0, 5, 15, 35, 75, 155, 315, 635, 1275]);
    assert_eq!(queue.failures(&"a"), 9);
    assert_eq!(tries, 9 + 19, "each event causes one early try");
    assert_eq!(clock.now() - start, 1900 * MS);
    clock.advance((2555 - 1900 - 1) * MS);
    assert!(
        is_empty(&queue.try_get()),
        "the next try is due as if there were no events"
    );
    clock.advance(MS);
    assert_eq!(take_all(&queue), ["a"]);
}

#[test]
fn an_early_try_that_fails_returns_to_the_time_of_its_back_off() {
    let (queue, clock) = retrying();
    queue.add("a").unwrap();
    for millis in [5, 10, 20] {
        assert_eq!(fails(&queue), after(millis));
        clock.advance(Duration::from_millis(millis));
    }
    assert_eq!(fails(&queue), after(40));
    clock.advance(10 * MS);
    assert_eq!(queue.add("a"), Ok(MOVED));
    clock.advance(10 * MS);
    let held = get(&queue);
    assert_eq!((held.failures(), held.retry()), (4, after(20)));
    assert_eq!(
        (queue.failures(&"a"), figures(queue.stats())),
        (4, [0, 0, 0, 1, 0])
    );
    clock.advance(20 * MS);
    assert_eq!(fails(&queue), after(80), "the next try that counts");
}

#[test]
fn a_failed_early_try_that_outlasts_the_back_off_is_counted() {
    let (queue, clock) = retrying();
    queue.add("a").unwrap();
    assert_eq!(fails(&queue), after(5));
    queue.add("a").unwrap();
    let held = get(&queue);
    clock.advance(5 * MS);
    assert_eq!(
        held.retry(),
        after(10),
        "the early try was under way at the end of the back-off"
    );
    assert_eq!(queue.failures(&"a"), 2);
}

#[test]
fn an_early_try_that_succeeds_ends_the_back_off() {
    let (queue, clock) = retrying();
    queue.add("a").unwrap();
    assert_eq!(fails(&queue), after(5));
    queue.add("a").unwrap();
    get(&queue).succeed();
    clock.advance(1000 * MS);
    assert_eq!(figures(queue.stats()), [0; 5]);
    queue.add("a").unwrap();
    assert_eq!(fails(&queue), after(5));
}

#[test]
fn an_add_during_a_failing_try_causes_one_early_try() {
    let (queue, clock) = retrying();
    queue.add("a").unwrap();
    let held = get(&queue);
    queue.add("a").unwrap();
    assert_eq!(held.retry(), Retried::Ready, "it was added meanwhile");
    assert_eq!(queue.failures(&"a"), 1);
    clock.advance(2 * MS);
    assert_eq!(fails(&queue), after(3), "of the first failure's five");
    assert_eq!(queue.failures(&"a"), 1);
}

#[test]
fn a_delayed_add_due_before_the_end_of_the_back_off_causes_an_early_try() {
    let (queue, clock) = retrying();
    queue.add("a").unwrap();
    assert_eq!(fails(&queue), after(5));
    queue.add_after("a", 3 * MS).unwrap();
    clock.advance(3 * MS);
    assert_eq!(fails(&queue), after(2));
    assert_eq!(queue.failures(&"a"), 1);
}

#[test]
fn an_early_try_does_not_call_the_limiter() {
    struct Asked(Journal<u32>);
    impl dedup_queue::RateLimiter<&'static str> for Asked {
        fn delay(&self, _: &&'static str, failures: u32, _: std::time::Instant) -> Duration {
            self.0.write(failures);
            MS * 5
        }
    }
    let clock = dedup_queue::ManualClock::new();
    let asked = Journal::new();
    let queue: Queue<Retrying> = DedupRetryQueue::<&'static str>::builder()
        .clock(clock.clone())
        .limiter(Asked(asked.clone()))
        .build();
    queue.add("a").unwrap();
    assert_eq!(fails(&queue), after(5));
    for _ in 0..4 {
        queue.add("a").unwrap();
        clock.advance(MS);
        get(&queue).retry();
    }
    assert_eq!(asked.entries(), [1]);
    clock.advance(MS);
    assert_eq!(fails(&queue), after(5));
    assert_eq!(asked.entries(), [1, 2]);
}

#[test]
fn an_early_try_keeps_a_back_off_that_never_ends() {
    let clock = dedup_queue::ManualClock::new();
    let queue: Queue<Retrying> = DedupRetryQueue::<&'static str>::builder()
        .clock(clock.clone())
        .limiter(Exponential::new(Duration::MAX, Duration::MAX))
        .build();
    queue.add("a").unwrap();
    assert_eq!(fails(&queue), Retried::After(Duration::MAX));
    queue.add("a").unwrap();
    assert_eq!(fails(&queue), Retried::After(Duration::MAX));
    assert_eq!(queue.failures(&"a"), 1);
}

fn given_up_after(
    attempts: u32,
    policy: Policy,
) -> (
    Queue<Retrying>,
    dedup_queue::ManualClock,
    Journal<(&'static str, u32)>,
) {
    let (clock, letters) = (dedup_queue::ManualClock::new(), Journal::new());
    let hook = letters.clone();
    let queue = DedupRetryQueue::<&'static str>::builder()
        .clock(clock.clone())
        .policy(policy)
        .max_attempts(NonZeroU32::new(attempts).unwrap())
        .dead_letter(move |key, failures| hook.write((key, failures)))
        .build();
    (queue, clock, letters)
}

#[test]
fn early_tries_do_not_count_towards_giving_a_key_up() {
    let (queue, clock, letters) = given_up_after(2, Policy::Earliest);
    queue.add("a").unwrap();
    assert_eq!(fails(&queue), after(5));
    for _ in 0..100 {
        queue.add("a").unwrap();
        assert_eq!(fails(&queue), after(5));
    }
    assert_eq!(letters.entries(), []);
    clock.advance(5 * MS);
    assert_eq!(fails(&queue), Retried::GivenUp);
    assert_eq!(letters.entries(), [("a", 2)]);
}

#[test]
fn a_given_up_key_is_not_delivered_for_an_earlier_failure() {
    for is_due in [false, true] {
        let (queue, clock, letters) = given_up_after(2, Policy::Earliest);
        queue.add("a").unwrap();
        let held = get(&queue);
        assert_eq!(queue.add_rate_limited("a"), Ok(after(5)));
        if is_due {
            clock.advance(5 * MS);
        }
        assert_eq!(held.retry(), Retried::GivenUp);
        assert_eq!(letters.entries(), [("a", 2)]);
        clock.advance(1000 * MS);
        assert_eq!(figures(queue.stats()), [0; 5], "due {is_due}");
        assert_eq!(queue.add("a"), Ok(NEW), "and may come again as if new");
        assert_eq!(get(&queue).failures(), 0);
    }
}

#[test]
fn a_held_key_given_up_by_an_adder_is_not_delivered_for_an_earlier_failure() {
    let (queue, clock, letters) = given_up_after(2, Policy::Earliest);
    queue.add("a").unwrap();
    let held = get(&queue);
    assert_eq!(queue.add_rate_limited("a"), Ok(after(5)));
    assert_eq!(queue.add_rate_limited("a"), Ok(Retried::GivenUp));
    assert_eq!(letters.entries(), [("a", 2)]);
    drop(held);
    clock.advance(1000 * MS);
    assert_eq!(figures(queue.stats()), [0; 5]);
}

#[test]
fn a_given_up_key_is_still_delivered_for_its_adds() {
    // Added at once or with a delay: in addition to the try that was owed, or merged into it.
    for delay in [0, 3, 5, 10] {
        let (queue, clock, letters) = given_up_after(2, Policy::Earliest);
        queue.add("a").unwrap();
        let held = get(&queue);
        assert_eq!(queue.add_rate_limited("a"), Ok(after(5)));
        queue.add_after("a", delay * MS).unwrap();
        assert_eq!(held.retry(), Retried::GivenUp);
        assert_eq!(letters.entries(), [("a", 2)]);
        clock.advance(10 * MS);
        assert_eq!(take_all(&queue), ["a"], "after {delay} ms");
    }
    let (queue, clock, letters) = given_up_after(1, Policy::Earliest);
    queue.add_after("a", MS).unwrap();
    assert_eq!(queue.add_rate_limited("a"), Ok(Retried::GivenUp));
    assert_eq!(letters.entries(), [("a", 1)]);
    clock.advance(MS);
    assert_eq!(take_all(&queue), ["a"]);
    queue.add("a").unwrap();
    get(&queue).retry_after(MS);
    assert_eq!(queue.add_rate_limited("a"), Ok(Retried::GivenUp));
    clock.advance(MS);
    assert_eq!(take_all(&queue), ["a"], "its worker has asked for it");
}
