//! Handlers on a pool.

use std::error::Error;
use std::fmt;
use std::num::NonZeroUsize;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::mpsc::channel;
use std::sync::{Arc, Barrier, Mutex};
use std::thread;
use std::time::Duration;

use durable_queue::internals::SHORTEST_PATIENCE;
use durable_queue::{Claimed, DurableQueue, Limit, ShutDown, Store, When, Worker};
use durable_queue_testing::{Call, Fault, SimStore};
use testkit::Gate;

use crate::support::{LONG, SECOND, Time, job};

#[testkit::test]
fn each_job_is_handled_and_acknowledged() {
    const JOBS: usize = 100;
    let time = Time::new();
    let queue = time.queue(time.sim());
    let (done, handled) = channel();
    let done = Mutex::new(done);
    let worker = Worker::builder(queue.clone())
        .concurrency(4)
        .start(move |job| {
            done.lock()
                .unwrap()
                .send(job.as_str().to_owned())
                .map_err(|error| error.to_string())
        })
        .unwrap();
    let jobs = (0..JOBS)
        .map(|index| (index.to_string(), When::NOW))
        .collect();
    queue.push_batch(jobs).unwrap();
    let mut all: Vec<usize> = (0..JOBS)
        .map(|_| handled.recv().unwrap().parse().unwrap())
        .collect();
    all.sort_unstable();
    assert!(all.into_iter().eq(0..JOBS));
    assert_eq!(worker.shutdown(LONG), ShutDown::Finished);
    assert_eq!(queue.store_stats().unwrap().jobs, 0);
}

#[testkit::test]
fn a_failed_or_panicked_handler_is_retried_and_buried_with_its_error() {
    let time = Time::new();
    let queue = time.builder(time.sim()).max_attempts(2).build().unwrap();
    let (tried, attempts) = channel();
    let tried = Mutex::new(tried);
    let worker = Worker::builder(queue.clone()).start(move |job| {
        tried.lock().unwrap().send(job.attempt()).unwrap();
        assert!(job.as_str() != "panic", "as it was asked to");
        Err(format!("no {}", job.as_str()))
    });
    let worker = worker.unwrap();
    for (name, error) in [("luck", "no luck"), ("panic", "the handler panicked")] {
        let id = queue.push(job(name), When::NOW).unwrap();
        assert_eq!(attempts.recv().unwrap(), 1);
        // After the failure the pump sleeps until the end of the back-off.
        while queue.store_stats().unwrap().jobs > 0 {
            time.clock.advance(SECOND);
            thread::yield_now();
        }
        assert_eq!(attempts.recv().unwrap(), 2);
        let dead = queue.dead(None, 10).unwrap();
        let dead = dead.iter().find(|dead| dead.id == id).unwrap();
        assert!(dead.error.contains(error), "{}", dead.error);
    }
    assert_eq!(worker.shutdown(LONG), ShutDown::Finished);
}

#[testkit::test]
fn a_dead_letter_contains_each_cause_of_a_handlers_error_once() {
    #[derive(Debug)]
    struct Failed(&'static str, Option<Box<Failed>>);

    impl fmt::Display for Failed {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str(self.0)
        }
    }

    impl Error for Failed {
        fn source(&self) -> Option<&(dyn Error + 'static)> {
            self.1.as_deref().map(|source| source as _)
        }
    }

    let time = Time::new();
    let queue = time.builder(time.sim()).max_attempts(1).build().unwrap();
    let worker = Worker::builder(queue.clone()).start(|_| {
        let refused = Failed("connection refused", None);
        // A text that ends with its cause's text, as is common.
        let sent = Failed("not sent: connection refused", Some(Box::new(refused)));
        Err(Failed("order 7", Some(Box::new(sent))))
    });
    let worker = worker.unwrap();
    queue.push(job("a"), When::NOW).unwrap();
    let dead = loop {
        if let Some(dead) = queue.dead(None, 1).unwrap().pop() {
            break dead;
        }
        thread::yield_now();
    };
    assert_eq!(dead.error, "order 7: not sent: connection refused");
    assert_eq!(worker.shutdown(LONG), ShutDown::Finished);
}

/// Time stands still, so jobs that wait for their group are called by its holder.
#[testkit::test]
fn handlers_of_an_ordered_group_run_one_at_a_time_and_others_concurrently() {
    const GROUPS: usize = 3;
    const ROUNDS: usize = 20;
    let time = Time::new();
    let queue = time.queue(time.sim());
    queue.limit(&Limit::ordered()).unwrap();
    let push = |group: usize| {
        let name = group.to_string();
        let value = job(&name);
        queue.group(name).push(value, When::NOW).unwrap();
    };
    let running: Arc<[AtomicUsize; GROUPS]> = Arc::default();
    let (all, done) = (
        Arc::new(Barrier::new(GROUPS)),
        Arc::new(AtomicUsize::new(0)),
    );
    (0..GROUPS).for_each(push);
    let worker = Worker::builder(queue.clone())
        .concurrency(GROUPS * 2)
        .start({
            let (running, all, done) = (Arc::clone(&running), Arc::clone(&all), Arc::clone(&done));
            move |job| {
                let group: usize = job.as_str().parse().unwrap();
                let others = running[group].fetch_add(1, SeqCst);
                assert_eq!(others, 0, "two of one group");
                if done.load(SeqCst) < GROUPS {
                    all.wait(); // The first jobs of all groups run at the same time; otherwise this hangs.
                }
                running[group].fetch_sub(1, SeqCst);
                done.fetch_add(1, SeqCst);
                Ok::<_, String>(())
            }
        })
        .unwrap();
    while done.load(SeqCst) < GROUPS {
        thread::yield_now();
    }
    for _ in 0..ROUNDS {
        (0..GROUPS).for_each(push);
        thread::yield_now();
    }
    wait_until_done(&queue);
    assert_eq!(done.load(SeqCst), GROUPS * (ROUNDS + 1));
    assert_eq!(worker.shutdown(LONG), ShutDown::Finished);
}

#[testkit::test]
fn a_shutdown_waits_for_the_running_handler_and_starts_no_other() {
    let time = Time::new();
    let queue = time.queue(time.sim());
    let gate = Gate::new();
    let worker = {
        let gate = gate.clone();
        Worker::builder(queue.clone()).start(move |_| {
            gate.wait();
            Ok::<_, String>(())
        })
    };
    let worker = worker.unwrap();
    queue.push(job("runs"), When::NOW).unwrap();
    queue.push(job("waits"), When::NOW).unwrap();
    gate.wait_for_arrivals(1);
    assert_eq!(worker.shutdown(Duration::ZERO), ShutDown::TimedOut);
    gate.open();
    assert_eq!(queue.store_stats().unwrap().due, 1, "it was never begun");
    drop(worker);
}

#[testkit::test]
fn a_shutdown_during_a_batch_releases_the_rest_of_it() {
    let time = Time::new();
    let queue = time.queue(time.sim());
    let jobs = (0..5).map(|index| (index.to_string(), When::NOW)).collect();
    queue.push_batch(jobs).unwrap();
    let gate = Gate::new();
    let worker = {
        let gate = gate.clone();
        let builder = Worker::builder(queue.clone()).batch(NonZeroUsize::new(4).unwrap());
        builder.start(move |job| {
            if job.as_str() == "1" {
                gate.wait();
            }
            Ok::<_, String>(())
        })
    };
    let worker = worker.unwrap();
    gate.wait_for_arrivals(1);
    queue.close();
    gate.open();
    assert_eq!(worker.shutdown(LONG), ShutDown::Finished);
    let left = queue.list(None, 10).unwrap();
    assert_eq!(left.len(), 3, "two were handled, and acknowledged");
    assert!(left.iter().all(|job| job.attempts == 0), "{left:?}");
}

/// All jobs are due, and handlers wait for the test.
#[testkit::test]
fn concurrency_is_reached_and_never_exceeded() {
    const MOST: usize = 3;
    const ROUNDS: usize = 20;
    for batch in [1, 4] {
        let time = Time::new();
        let queue = time.builder(time.sim()).prefetch(MOST).build().unwrap();
        // The rest may be in one handler's batch, while the others have no jobs.
        let jobs = (0..MOST * (ROUNDS + batch)).map(|index| (index.to_string(), When::NOW));
        queue.push_batch(jobs.collect()).unwrap();
        let [calls, running, most] = [(); 3].map(|()| Arc::new(AtomicUsize::new(0)));
        // All jobs of a round run at the same time: with fewer handlers this would hang.
        let together = Barrier::new(MOST);
        let worker = {
            let most = Arc::clone(&most);
            Worker::builder(queue.clone())
                .concurrency(MOST)
                .batch(NonZeroUsize::new(batch).unwrap())
                .start(move |_| {
                    most.fetch_max(running.fetch_add(1, SeqCst) + 1, SeqCst);
                    if calls.fetch_add(1, SeqCst) < MOST * ROUNDS {
                        together.wait();
                    }
                    running.fetch_sub(1, SeqCst);
                    Ok::<_, String>(())
                })
        };
        let worker = worker.unwrap();
        wait_until_done(&queue);
        assert_eq!(worker.shutdown(LONG), ShutDown::Finished);
        assert_eq!(most.load(SeqCst), MOST);
    }
}

pub(crate) const MILLI: Duration = Duration::from_millis(1);

/// A queue whose turns take a millisecond.
pub(crate) fn queue_with_slow_turns(time: &Time) -> DurableQueue<String, SimStore> {
    let clock = time.clock.clone();
    let store = SimStore::with_faults(time.store.clone(), move |call| {
        if call == Call::Turn {
            clock.advance(MILLI);
        }
        Fault::None
    });
    time.queue(store)
}

pub(crate) fn push_all<S: Store>(queue: &DurableQueue<String, S>, jobs: usize) {
    let jobs = (0..jobs).map(|index| (index.to_string(), When::NOW));
    queue.push_batch(jobs.collect()).unwrap();
}

pub(crate) fn wait_until_done<S: Store>(queue: &DurableQueue<String, S>) {
    while queue.store_stats().unwrap().jobs > 0 {
        thread::yield_now();
    }
}

pub(crate) fn held(queue: &DurableQueue<String, SimStore>) -> usize {
    let listed = queue.list(None, 1_000).unwrap();
    let held = listed.iter().filter(|job| job.state.is_held());
    held.count()
}

#[testkit::test]
fn short_jobs_share_turns_without_a_configured_batch() {
    const JOBS: usize = 2_000;
    for handlers in [1, 3] {
        let time = Time::new();
        let queue = queue_with_slow_turns(&time);
        push_all(&queue, JOBS);
        let builder = Worker::builder(queue.clone()).concurrency(handlers);
        let worker = builder.start(|_| Ok::<_, String>(())).unwrap();
        wait_until_done(&queue);
        let turns = usize::try_from(queue.stats().turns).unwrap();
        assert!(turns < JOBS / 20, "{turns} turns with {handlers} handlers");
        assert_eq!(worker.shutdown(LONG), ShutDown::Finished);
    }
}

#[testkit::test]
fn slow_jobs_are_claimed_one_at_a_time() {
    const JOBS: usize = 30;
    let time = Time::new();
    let queue = queue_with_slow_turns(&time);
    push_all(&queue, JOBS);
    let (all, clock) = (queue.clone(), time.clock.clone());
    let most = Arc::new(AtomicUsize::new(0));
    let worker = {
        let most = Arc::clone(&most);
        Worker::builder(queue.clone()).start(move |_| {
            most.fetch_max(held(&all), SeqCst);
            clock.advance(MILLI * 100);
            Ok::<_, String>(())
        })
    };
    let worker = worker.unwrap();
    wait_until_done(&queue);
    assert_eq!(worker.shutdown(LONG), ShutDown::Finished);
    assert_eq!(most.load(SeqCst), 1);
}

/// Jobs were short, so batches are large; then one does not end.
#[testkit::test]
fn jobs_behind_a_slow_one_are_released() {
    const SLOW: usize = 500;
    const JOBS: usize = 1_000;
    let time = Time::new();
    let queue = queue_with_slow_turns(&time);
    push_all(&queue, JOBS);
    let gate = Gate::new();
    let worker = {
        let gate = gate.clone();
        Worker::builder(queue.clone()).start(move |job| {
            if *job.as_str() == SLOW.to_string() {
                gate.wait();
            }
            Ok::<_, String>(())
        })
    };
    let worker = worker.unwrap();
    gate.wait_for_arrivals(1);
    assert!(held(&queue) > 1, "several were claimed with it");
    time.advance(SHORTEST_PATIENCE); // Four turns take less.
    while held(&queue) > 1 {
        thread::yield_now();
    }
    // The acknowledgements of earlier jobs were sent along.
    let left = queue.list(None, 1_000).unwrap();
    assert_eq!(left.len(), JOBS - SLOW);
    let rest = left.iter().filter(|job| !job.state.is_held());
    assert!(
        rest.clone().all(|job| job.attempts == 0),
        "they were not begun"
    );
    let other = time.queue(queue.store().clone());
    let most = NonZeroUsize::new(JOBS).unwrap();
    let taken = other.take_many(most).unwrap();
    assert_eq!(taken.len(), JOBS - SLOW - 1);
    taken.into_iter().for_each(Claimed::ack_later);
    gate.open();
    assert_eq!(worker.shutdown(LONG), ShutDown::Finished);
    assert_eq!(other.shutdown(LONG), ShutDown::Finished);
    assert_eq!(queue.store_stats().unwrap().jobs, 0);
}

#[testkit::test]
fn few_large_jobs_are_claimed_at_a_time() {
    const SIZE: usize = 300_000;
    let time = Time::new();
    let queue = queue_with_slow_turns(&time);
    let jobs = (0..40).map(|_| ("x".repeat(SIZE), When::NOW));
    queue.push_batch(jobs.collect()).unwrap();
    let (all, most) = (queue.clone(), Arc::new(AtomicUsize::new(0)));
    let worker = {
        let most = Arc::clone(&most);
        Worker::builder(queue.clone()).start(move |_| {
            most.fetch_max(held(&all), SeqCst);
            Ok::<_, String>(())
        })
    };
    let worker = worker.unwrap();
    wait_until_done(&queue);
    assert_eq!(worker.shutdown(LONG), ShutDown::Finished);
    let most = most.load(SeqCst);
    assert!((2..=4).contains(&most), "a mebibyte: {most}");
}

/// The first job of a batch does not end before the others.
#[testkit::test]
fn idle_handlers_and_other_calls_take_the_rest_of_a_batch() {
    const JOBS: usize = 10;
    let time = Time::new();
    let queue = time.queue(time.sim());
    let done = Arc::new(AtomicUsize::new(0));
    let worker = {
        let done = Arc::clone(&done);
        Worker::builder(queue.clone())
            .concurrency(2)
            .batch(NonZeroUsize::new(JOBS).unwrap())
            .start(move |job| {
                while *job.as_str() == *"0" && done.load(SeqCst) < JOBS - 1 {
                    thread::yield_now();
                }
                done.fetch_add(1, SeqCst);
                Ok::<_, String>(())
            })
    };
    let worker = worker.unwrap();
    push_all(&queue, JOBS);
    wait_until_done(&queue);
    assert_eq!(worker.shutdown(LONG), ShutDown::Finished);

    let queue = time.queue(time.sim());
    let gate = Gate::new();
    push_all(&queue, 3);
    let worker = {
        let gate = gate.clone();
        let builder = Worker::builder(queue.clone()).batch(NonZeroUsize::new(3).unwrap());
        builder.start(move |_| {
            gate.wait();
            Ok::<_, String>(())
        })
    };
    let worker = worker.unwrap();
    gate.wait_for_arrivals(1);
    assert_eq!(queue.take().unwrap().as_str(), "1");
    assert_eq!(queue.take_many(NonZeroUsize::MAX).unwrap().len(), 1);
    gate.open();
    assert_eq!(worker.shutdown(LONG), ShutDown::Finished);
}
