//! Tests of cancels of running jobs, and of the failures that jobs keep, shared by all stores. Two processes use
//! each queue.

use std::sync::mpsc::channel;
use std::thread;
use std::time::Duration;

use durable_queue::internals::CANCEL_PAUSE;
use durable_queue::{
    Cancelled, Claimed, DurableQueue, Failure, LONGEST_ERROR, Merge, Retried, ShutDown, Store,
    When, Worker,
};
use testkit::block_on;

const LONG: Duration = Duration::from_secs(3_600);
/// The shortest lease of the tests, which end when it has expired.
const SHORT: Duration = Duration::from_secs(1);

/// Runs all tests. Each call of `open` returns the store of another process.
pub fn handlers_learn_of_cancels_and_jobs_keep_their_failures<S: Store>(open: impl Fn() -> S) {
    testkit::watchdog(testkit::LIMIT * 2, || {
        let queue = |name: &str| DurableQueue::<String, S>::new(name, open());
        a_handler_is_told_by_any_process(&queue("told"), &queue("told"));
        a_key_is_cancelled_in_all_its_states(&queue("keys"), &queue("keys"));
        a_worker_ends_a_cancelled_job(&queue("worked"), &queue("worked"));
        let short = || {
            let builder = DurableQueue::<String, S>::builder("short", open());
            builder.lease(SHORT).build().unwrap()
        };
        a_job_of_a_dead_process_ends(&short(), &short());
        failures_are_kept(&queue("failed"), &queue("failed"));
    });
}

fn taken<S: Store>(queue: &DurableQueue<String, S>) -> Claimed<String> {
    queue.push("job".to_owned(), When::NOW).unwrap();
    queue.take().unwrap()
}

fn is_empty<S: Store>(queue: &DurableQueue<String, S>) -> bool {
    let stats = queue.store_stats().unwrap();
    (stats.jobs, stats.dead) == (0, 0)
}

/// Repeatedly, so that the questions of the process are less frequent than the cancels.
fn a_handler_is_told_by_any_process<S: Store>(
    queue: &DurableQueue<String, S>,
    other: &DurableQueue<String, S>,
) {
    let ends: [fn(Claimed<String>); 4] = [
        |job| job.ack().unwrap(),
        |job| assert_eq!(job.retry("no").unwrap(), Retried::Cancelled),
        |job| job.release().unwrap(),
        |job| job.retry_later("no"),
    ];
    for canceller in [other, queue] {
        for end in ends {
            let job = taken(queue);
            assert!(!job.is_cancelled());
            for _ in 0..2 {
                let cancelled = canceller.cancel(job.id()).unwrap();
                assert_eq!(cancelled, Cancelled::Taken);
            }
            block_on(job.cancelled());
            end(job);
            while !is_empty(queue) {
                thread::yield_now();
            }
        }
    }
    // A blocking handler, and no request.
    let job = taken(queue);
    assert!(!job.wait_cancelled_timeout(CANCEL_PAUSE * 2));
    job.ack().unwrap();
}

fn a_key_is_cancelled_in_all_its_states<S: Store>(
    queue: &DurableQueue<String, S>,
    other: &DurableQueue<String, S>,
) {
    let push = || {
        let put = other.push_keyed("key", "job".to_owned(), When::NOW, Merge::Keep);
        put.unwrap();
    };
    let running = [(); 2].map(|()| {
        push();
        queue.take().unwrap()
    });
    push();
    assert!(other.cancel("key").unwrap().is_gone());
    for job in running {
        block_on(job.cancelled());
        assert_eq!(job.retry("no").unwrap(), Retried::Cancelled);
    }
    assert!(is_empty(other));
}

/// Its thread waits for a request, and then fails.
fn a_worker_ends_a_cancelled_job<S: Store>(
    queue: &DurableQueue<String, S>,
    other: &DurableQueue<String, S>,
) {
    let (sender, begun) = channel();
    let handler = move |job: &Claimed<String>| {
        sender.send(()).unwrap();
        assert!(job.wait_cancelled_timeout(LONG));
        Err("cancelled")
    };
    let worker = Worker::builder(queue.clone()).start(handler).unwrap();
    let id = other.push("job".to_owned(), When::NOW).unwrap();
    begun.recv().unwrap();
    assert_eq!(other.cancel(id).unwrap(), Cancelled::Taken);
    while !is_empty(other) {
        thread::yield_now();
    }
    assert_eq!(worker.shutdown(LONG), ShutDown::Finished);
}

fn a_job_of_a_dead_process_ends<S: Store>(
    queue: &DurableQueue<String, S>,
    dead: &DurableQueue<String, S>,
) {
    let job = taken(dead);
    assert_eq!(queue.cancel(job.id()).unwrap(), Cancelled::Taken);
    // It no longer renews the lease.
    assert_eq!(dead.shutdown(Duration::ZERO), ShutDown::TimedOut);
    let taker = {
        let queue = queue.clone();
        thread::spawn(move || queue.take())
    };
    while !is_empty(queue) {
        thread::yield_now();
    }
    assert_eq!(queue.shutdown(LONG), ShutDown::Finished);
    assert!(taker.join().unwrap().is_err());
    assert_eq!(queue.stats().taken, 0);
}

/// One process fails, the other shows and redrives.
fn failures_are_kept<S: Store>(queue: &DurableQueue<String, S>, other: &DurableQueue<String, S>) {
    // Quotes, line feeds and characters of several bytes, which are cut at the limit, and NUL.
    let text = |attempt: u32| format!("{attempt}'\"\\\n\0{}", "ж".repeat(LONGEST_ERROR / 2));
    let check = |failures: &[Failure], attempts: &mut dyn Iterator<Item = u32>| {
        assert!(failures.iter().map(|it| it.attempt).eq(attempts));
        for it in failures {
            let kept = it.error.strip_suffix(" [cut]").unwrap();
            assert!(text(it.attempt).replace('\0', " ").starts_with(kept));
        }
    };
    let id = other.push("job".to_owned(), When::NOW).unwrap();
    for attempt in 1..=12_u32 {
        let job = queue.take().unwrap();
        check(
            &job.failures(),
            &mut (attempt.saturating_sub(10).max(1)..attempt),
        );
        job.retry_after(When::NOW, text(attempt)).unwrap();
    }
    check(&other.list(None, 1).unwrap()[0].failures(), &mut (3..=12));
    queue.take().unwrap().bury(text(13)).unwrap();
    let dead = other.dead(None, 1).unwrap();
    check(&dead[0].failures(), &mut (4..=13));
    assert_eq!(
        Some(&dead[0].error),
        dead[0].failures().last().map(|it| &it.error)
    );
    let times: Vec<_> = dead[0].failures().iter().map(|it| it.at).collect();
    assert!(times.is_sorted() && times[9] <= dead[0].buried);
    assert_eq!(other.redrive(&[id]).unwrap(), 1);
    let job = queue.take().unwrap();
    check(&job.failures(), &mut (4..=13));
    job.ack().unwrap();
}
