//! Jobs locked by another transaction are skipped, and retried at increasing intervals.

use durable_queue::{DurableQueue, HORIZON, When};
use durable_queue_testing::SimStore;
use sync_shim::Clock as _;

use crate::support::{SECOND, Time, job, on_thread};

type Queue = DurableQueue<String, SimStore>;

/// Returns the number of turns during a second, of a pump that sleeps in between.
fn turns_of_a_second(time: &Time, queue: &Queue) -> u64 {
    let (begin, before) = (time.clock.now(), queue.stats().turns);
    loop {
        time.clock.wait_for_sleepers(1);
        let next = time
            .clock
            .next_due()
            .expect("the pump sleeps until some time");
        if next > begin + SECOND {
            return queue.stats().turns - before;
        }
        time.clock
            .advance(next.saturating_duration_since(time.clock.now()));
    }
}

#[testkit::test]
fn a_locked_due_job_is_retried_at_increasing_intervals_until_it_is_unlocked() {
    let time = Time::new();
    let store = time.sim();
    let queue = time.queue(store.clone());
    let id = queue.push(job("locked"), When::NOW).unwrap();
    store.lock_job("queue", id, true);
    let taken = on_thread(&queue, |queue| queue.take().unwrap().ack().unwrap());
    let turns = turns_of_a_second(&time, &queue);
    assert!((5..=20).contains(&turns), "{turns} turns");

    // Other jobs are not delayed.
    queue.push(job("free"), When::NOW).unwrap();
    taken.join().unwrap();
    let taken = on_thread(&queue, |queue| {
        let job = queue.take().unwrap();
        assert_eq!(*job, "locked");
        job.ack().unwrap();
    });
    store.lock_job("queue", id, false);
    while !taken.is_finished() {
        if let Some(next) = time.clock.next_due() {
            time.clock
                .advance(next.saturating_duration_since(time.clock.now()));
        }
        std::thread::yield_now();
    }
    taken.join().unwrap();
}

#[testkit::test]
fn a_job_ahead_that_is_locked_at_its_due_time_starts_when_it_is_unlocked() {
    let time = Time::new();
    let store = time.sim();
    let queue = time.queue(store.clone());
    let id = queue.push(job("locked"), HORIZON / 2).unwrap();
    let taken = on_thread(&queue, |queue| queue.take().unwrap().ack().unwrap());
    // Claimed but not started.
    time.clock.wait_for_sleepers(1);
    store.lock_job("queue", id, true);
    time.advance(HORIZON / 2);
    let turns = turns_of_a_second(&time, &queue);
    assert!((5..=25).contains(&turns), "{turns} turns");
    store.lock_job("queue", id, false);
    time.advance(SECOND);
    taken.join().unwrap();
}
