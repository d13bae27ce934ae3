//! Urgent jobs: before other due jobs, not early, and without starving others.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::time::Duration;

use durable_queue::internals::FIRST_PAUSE;
use durable_queue::{DurableQueue, HORIZON, Merge, Store, When};
use durable_queue_sqlite::SqliteStore;
use durable_queue_testing::{Call, Fault, SimStore};
use rusqlite::{Connection, TransactionBehavior};

use crate::support::{Folder, SECOND, Time, job, on_thread};

/// One of this many claims ignores urgency. The README says so, too.
const FAIR: usize = 8;

fn push_now<S: Store>(queue: &DurableQueue<String, S>, names: &[&str]) {
    let jobs = names.iter().map(|name| (job(name), When::NOW));
    queue.push_batch(jobs.collect()).unwrap();
}

/// Takes `count` jobs, one by one.
fn take<S: Store>(queue: &DurableQueue<String, S>, count: usize) -> Vec<String> {
    let take = || {
        let taken = queue.take().unwrap();
        let name = taken.clone();
        taken.ack().unwrap();
        name
    };
    (0..count).map(|_| take()).collect()
}

#[testkit::test]
fn an_urgent_job_overtakes_a_backlog() {
    let time = Time::new();
    let queue = time.queue(time.sim());
    push_now(&queue, &["a", "b", "c"]);
    assert_eq!(take(&queue, 1), ["a"]);
    time.clock.advance(SECOND);
    push_now(&queue.urgent(), &["first", "second"]);
    push_now(&queue, &["d"]);
    assert_eq!(take(&queue, 5), ["first", "second", "b", "c", "d"]);
}

/// Jobs already claimed are not overtaken, at most the prefetch.
#[testkit::test]
fn an_urgent_job_overtakes_a_backlog_that_is_partly_in_memory() {
    let time = Time::new();
    let queue = time.builder(time.sim()).prefetch(2).build().unwrap();
    push_now(&queue, &["a", "b", "c", "d", "e"]);
    assert_eq!(take(&queue, 1), ["a"]);
    push_now(&queue.urgent(), &["urgent"]);
    assert_eq!(take(&queue, 5), ["b", "c", "urgent", "d", "e"]);
    // Another process has none of them in memory.
    push_now(&queue, &["f", "g", "h", "i"]);
    assert_eq!(take(&queue, 1), ["f"]);
    push_now(&queue.urgent(), &["urgent"]);
    let other = time.queue(queue.store().clone());
    assert_eq!(take(&other, 2), ["urgent", "i"]);
}

#[testkit::test]
fn jobs_claimed_as_urgent_and_due_start_first() {
    for confirm in [true, false] {
        let time = Time::new();
        let builder = time.builder(time.sim()).prefetch(10).confirm(confirm);
        let queue = builder.build().unwrap();
        push_now(&queue, &["a", "b"]);
        time.clock.advance(SECOND);
        push_now(&queue.urgent(), &["first", "second", "third"]);
        assert_eq!(take(&queue, 1), ["first"]);
        assert_eq!(
            queue.store_stats().unwrap().due,
            0,
            "all of it is in memory"
        );
        assert_eq!(take(&queue, 4), ["second", "third", "a", "b"]);
    }
}

/// It is neither handed out early, nor requested from the store repeatedly.
#[testkit::test]
fn an_urgent_job_claimed_ahead_waits_without_turns() {
    const MICRO: Duration = Duration::from_micros(1);
    for confirm in [true, false] {
        let time = Time::new();
        let queue = time.builder(time.sim()).confirm(confirm).build().unwrap();
        queue.urgent().push(job("urgent"), HORIZON).unwrap();
        let taker = on_thread(&queue, |queue| queue.take().unwrap().clone());
        time.clock.wait_for_sleepers(1);
        let turns = queue.stats().turns;
        time.advance(HORIZON - MICRO);
        time.clock.wait_for_sleepers(1);
        assert!(!taker.is_finished());
        assert_eq!(queue.stats().turns, turns);
        time.advance(MICRO);
        assert_eq!(taker.join().unwrap(), "urgent");
    }
}

/// Within the horizon urgency is ignored: the job that is due earlier comes first.
#[testkit::test]
fn an_urgent_job_does_not_overtake_a_job_that_is_due_before_it() {
    let time = Time::new();
    let queue = time.builder(time.sim()).prefetch(10).build().unwrap();
    queue.urgent().push(job("urgent"), HORIZON).unwrap();
    queue.push(job("before"), HORIZON / 2).unwrap();
    let taker = on_thread(&queue, |queue| take(queue, 2));
    time.advance(HORIZON / 2);
    time.advance(HORIZON / 2);
    assert_eq!(taker.join().unwrap(), ["before", "urgent"]);
}

#[testkit::test]
fn a_stream_of_urgent_jobs_does_not_starve_the_others() {
    const ROUNDS: usize = 5;
    let time = Time::new();
    let queue = time.queue(time.sim());
    push_now(&queue, &["other"; 10]);
    let mut taken = Vec::new();
    for _ in 0..ROUNDS * FAIR {
        push_now(&queue.urgent(), &["urgent"; 2]);
        taken.extend(take(&queue, 1));
    }
    let others = |window: &[String]| window.iter().filter(|name| *name == "other").count();
    assert!(taken.windows(FAIR).all(|window| others(window) == 1));
}

/// Only answered claims count.
#[testkit::test]
fn a_failed_claim_by_time_is_repeated() {
    let time = Time::new();
    let fails = Arc::new(AtomicBool::new(false));
    let is_set = Arc::clone(&fails);
    let store = SimStore::with_faults(time.store.clone(), move |call| {
        if call == Call::Turn && is_set.swap(false, SeqCst) {
            Fault::Before
        } else {
            Fault::None
        }
    });
    let queue = time.queue(store);
    push_now(&queue, &["other"; 2]);
    push_now(&queue.urgent(), &["urgent"; FAIR]);
    assert_eq!(take(&queue, FAIR - 1), ["urgent"; FAIR - 1]);
    fails.store(true, SeqCst);
    let taker = on_thread(&queue, |queue| take(queue, 2));
    time.advance(FIRST_PAUSE);
    assert_eq!(taker.join().unwrap(), ["other", "urgent"]);
}

/// Otherwise each push behaves as without urgency.
#[test]
fn all_pushes_of_an_urgent_handle_are_urgent_and_no_others() {
    let folder = Folder::new();
    let store = SqliteStore::open(folder.file("jobs")).unwrap();
    let calm: DurableQueue<String, _> = DurableQueue::new("queue", store);
    let mut own = Connection::open(folder.file("jobs")).unwrap();
    let handles = [calm.clone(), calm.urgent(), calm.urgent().clone().urgent()];
    for (number, queue) in handles.iter().enumerate() {
        let key = |name: &str| format!("{name} {number}");
        queue.push(job("job"), SECOND).unwrap();
        push_now(queue, &["batch", "batch"]);
        let keep = Merge::Keep;
        queue
            .push_keyed(key("a"), job("keyed"), SECOND, keep)
            .unwrap();
        let mut transaction = own
            .transaction_with_behavior(TransactionBehavior::Immediate)
            .unwrap();
        let within = &mut transaction;
        queue.push_in(within, job("in"), SECOND).unwrap();
        queue
            .push_keyed_in(within, key("b"), job("in"), SECOND, keep)
            .unwrap();
        transaction.commit().unwrap();
        let mut pushed = 6;
        #[cfg(feature = "cron")]
        {
            let hourly = "0 * * * *".parse().unwrap();
            queue
                .push_repeating(key("c"), &hourly, job("again"))
                .unwrap();
            pushed += 1;
        }
        let listed = queue.list(None, 100).unwrap();
        assert_eq!(listed.len(), pushed);
        let is_urgent = number > 0;
        assert!(listed.iter().all(|job| job.urgent == is_urgent));
        for job in listed {
            assert!(calm.cancel(job.id).unwrap().is_gone());
        }
        let shown = format!("{queue:?}");
        assert!(shown.contains(&format!("urgent: {is_urgent}")), "{shown}");
    }
}

#[test]
fn the_readme_contains_the_share_of_claims_that_ignore_urgency() {
    let readme = include_str!("../../README.md");
    assert!(readme.contains("Every eighth claim of a process ignores urgency"));
}
