//! Done jobs that are kept, their results, and waits for them.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::thread;
use std::time::Duration;

use durable_queue::internals::{DONE_BATCH, FIRST_LOOK, LONGEST_LOOK, SAFETY_LOOK};
use durable_queue::{
    Cancelled, Claimed, DoneJob, DurableQueue, ErrorKind, Fate, JobId, LONGEST_RESULT, ResultError,
    SetResultError, ShutDown, Store, When, Worker,
};
use durable_queue_testing::{Call, Fault, SimStore};
use sync_shim::Clock;
use testkit::block_on;

use crate::support::{LONG, SECOND, Time, job, on_thread};

type Queue = DurableQueue<String, SimStore>;

const SPAN: Duration = Duration::from_secs(3_600);

fn keeping(time: &Time) -> Queue {
    let builder = time.builder(time.sim()).keep_done(SPAN);
    builder.max_attempts(1).build().unwrap()
}

fn done<S: Store>(queue: &DurableQueue<String, S>, id: JobId) -> DoneJob {
    match queue.fate(id).unwrap() {
        Fate::Done(done) => done,
        fate => panic!("{fate:?}"),
    }
}

/// Does not sleep until the next look, by a clock that stands still.
fn result(queue: &Queue, id: JobId) -> Result<DoneJob, ResultError> {
    while queue.fate(id).unwrap() == Fate::Open {
        thread::yield_now();
    }
    queue.result(id)
}

#[testkit::test]
fn each_acknowledgement_keeps_the_job_with_its_duration_and_result() {
    let acks: [fn(&Queue, Claimed<String>); 4] = [
        |_, job| job.ack().unwrap(),
        |_, job| block_on(job.ack_async()).unwrap(),
        |queue, job| {
            job.ack_later();
            assert_eq!(queue.shutdown(LONG), ShutDown::Finished);
        },
        |queue, job| {
            let none = queue.ack_and_take_many_timeout(vec![job], ONE, Duration::ZERO);
            drop(none);
            assert_eq!(queue.shutdown(LONG), ShutDown::Finished);
        },
    ];
    for ack in acks {
        let time = Time::new();
        let queue = keeping(&time);
        let id = queue.push(job("a"), When::NOW).unwrap();
        let taken = queue.take().unwrap();
        taken.set_result("first").unwrap();
        taken.set_result("result").unwrap();
        time.clock.advance(SECOND);
        ack(&queue, taken);
        let done = done(&queue, id);
        assert_eq!(done.result.as_deref(), Some(&b"result"[..]));
        assert_eq!((done.took, done.attempts), (SECOND, 1));
        assert_eq!(done.until, done.finished.after(SPAN));
    }
}

const ONE: std::num::NonZeroUsize = std::num::NonZeroUsize::MIN;

#[testkit::test]
fn a_handler_sets_the_result_on_a_thread_and_as_a_future() {
    let time = Time::new();
    let queue = keeping(&time);
    let ids = [0, 1].map(|_| queue.push(job("a"), When::NOW).unwrap());
    let worker = Worker::builder(queue.clone())
        .start(|job: &Claimed<String>| job.set_result(format!("{} is done", **job)));
    for id in ids {
        let done = result(&queue, id).unwrap();
        assert_eq!(done.result.as_deref(), Some(&b"a is done"[..]));
    }
    assert_eq!(worker.unwrap().shutdown(LONG), ShutDown::Finished);

    {
        let queue = keeping(&time);
        let id = queue.push(job("a"), When::NOW).unwrap();
        let run = Worker::builder(queue.clone())
            .run_async(|job| async move { job.set_result("done as a future") });
        let run = thread::spawn(move || block_on(run));
        let done = result(&queue, id).unwrap();
        assert_eq!(done.result.as_deref(), Some(&b"done as a future"[..]));
        queue.close();
        assert_eq!(run.join().unwrap().unwrap(), ShutDown::Finished);
    }
}

#[testkit::test]
fn a_result_that_is_too_large_is_an_error_of_the_handler() {
    let time = Time::new();
    let queue = keeping(&time);
    let id = queue.push(job("a"), When::NOW).unwrap();
    let taken = queue.take().unwrap();
    taken.set_result(vec![7; LONGEST_RESULT]).unwrap();
    let refused = taken.set_result(vec![8; LONGEST_RESULT + 1]);
    assert_eq!(refused, Err(SetResultError::TooLarge));
    taken.ack().unwrap();
    assert_eq!(done(&queue, id).result, Some(vec![7; LONGEST_RESULT]));

    let id = queue.push(job("a"), When::NOW).unwrap();
    let worker = Worker::builder(queue.clone())
        .start(|job: &Claimed<String>| job.set_result(vec![0; LONGEST_RESULT + 1]));
    let failed = result(&queue, id).unwrap_err();
    assert!(matches!(failed, ResultError::Dead(error) if error.contains("64 KiB")));
    drop(worker);
}

#[testkit::test]
fn the_result_of_a_failed_attempt_is_not_kept() {
    let time = Time::new();
    let queue = time.builder(time.sim()).keep_done(SPAN).build().unwrap();
    let id = queue.push(job("a"), When::NOW).unwrap();
    let taken = queue.take().unwrap();
    taken.set_result("failed").unwrap();
    taken.retry_after(When::NOW, "no").unwrap();
    queue.take().unwrap().ack().unwrap();
    assert_eq!(
        (done(&queue, id).result, done(&queue, id).attempts),
        (None, 2)
    );
}

#[cfg(feature = "cron")]
#[testkit::test]
fn the_runs_of_a_repeating_job_are_not_kept() {
    let time = Time::new();
    let queue = keeping(&time);
    let schedule = "* * * * *".parse().unwrap();
    let id = queue.push_repeating("k", &schedule, job("a")).unwrap().id();
    time.clock.advance(SECOND * 60);
    let run = queue.take().unwrap();
    run.set_result("of a run").unwrap();
    run.ack().unwrap();
    assert_eq!(queue.fate(id).unwrap(), Fate::Open);
    time.clock.advance(SECOND * 60);
    let last = queue.take().unwrap();
    assert_eq!(last.id(), id);
    assert!(matches!(queue.cancel("k").unwrap(), Cancelled::Taken));
    last.set_result("of the last run").unwrap();
    assert_eq!(last.attempt(), 1);
    last.ack().unwrap();
    assert_eq!(queue.fate(id).unwrap(), Fate::Gone);
}

/// No other act, and no call of the store.
#[testkit::test]
fn a_queue_that_keeps_no_done_jobs_makes_the_calls_of_before() {
    let time = Time::new();
    let deletes = Arc::new(AtomicBool::new(false));
    let seen = Arc::clone(&deletes);
    let store = SimStore::with_faults(time.store.clone(), move |call| {
        seen.fetch_or(call == Call::DeleteDone, SeqCst);
        Fault::None
    });
    let queue = time.queue(store);
    let id = queue.push(job("a"), When::NOW).unwrap();
    let taken = queue.take().unwrap();
    assert_eq!(taken.set_result("a"), Err(SetResultError::NotKept));
    taken.ack().unwrap();
    assert_eq!(queue.fate(id).unwrap(), Fate::Gone);
    assert!(matches!(queue.result(id), Err(ResultError::Gone)));
    time.clock.advance(SAFETY_LOOK);
    queue.push(job("a"), When::NOW).unwrap();
    queue.take().unwrap().ack().unwrap();
    assert!(!deletes.load(SeqCst));
}

/// Both ways to wait. Each look is later than the one before by twice as much, up to a maximum.
#[testkit::test]
fn a_wait_looks_again_until_the_job_is_done() {
    for is_async in [false, true] {
        let time = Time::new();
        let looks = Arc::new(AtomicUsize::new(0));
        let seen = Arc::clone(&looks);
        let store = SimStore::with_faults(time.store.clone(), move |call| {
            seen.fetch_add(usize::from(call == Call::Other), SeqCst);
            Fault::None
        });
        // The worker is another process's, so no sleeper of this clock is the pump's.
        let worker = DurableQueue::<String, _>::builder("queue", store.clone());
        let worker = worker.clock(time.clock.clone()).keep_done(SPAN);
        let worker = worker.build().unwrap();
        let queue = time.queue(store);
        let id = queue.push(job("a"), When::NOW).unwrap();
        let waiting = on_thread(&queue, move |queue| {
            if is_async {
                block_on(queue.result_async(id))
            } else {
                queue.result(id)
            }
        });
        let mut delay = FIRST_LOOK;
        let looks_next = |look, delay| {
            while looks.load(SeqCst) < look || time.clock.next_due() != time.clock.after(delay) {
                thread::yield_now();
            }
        };
        for look in 1..=10 {
            looks_next(look, delay);
            time.clock.advance(delay);
            delay = (delay * 2).min(LONGEST_LOOK);
        }
        assert_eq!(delay, LONGEST_LOOK);
        looks_next(11, delay);
        let taken = worker.take().unwrap();
        taken.set_result("done").unwrap();
        taken.ack().unwrap();
        time.clock.advance(delay);
        let done = waiting.join().unwrap().unwrap();
        assert_eq!(done.result.as_deref(), Some(&b"done"[..]));
    }
}

#[testkit::test]
fn a_wait_ends_when_the_job_is_dead_cancelled_or_the_time_is_over() {
    let time = Time::new();
    let queue = keeping(&time);
    let id = queue.push(job("a"), When::NOW).unwrap();
    let timed_out = queue.result_timeout(id, Duration::ZERO);
    assert!(matches!(timed_out, Err(ResultError::TimedOut)));
    let waiting = on_thread(&queue, move |queue| {
        queue.result_timeout(id, FIRST_LOOK / 2)
    });
    time.advance(FIRST_LOOK / 2);
    let timed_out = waiting.join().unwrap();
    assert!(matches!(timed_out, Err(ResultError::TimedOut)));

    queue.take().unwrap().bury("why").unwrap();
    let dead = queue.result(id);
    assert!(matches!(dead, Err(ResultError::Dead(error)) if error == "why"));
    let dead = block_on(queue.result_async(id));
    assert!(matches!(dead, Err(ResultError::Dead(error)) if error == "why"));

    let id = queue.push(job("a"), SECOND).unwrap();
    assert!(queue.cancel(id).unwrap().is_gone());
    assert!(matches!(queue.result(id), Err(ResultError::Gone)));
    let gone = block_on(queue.result_async(id));
    assert!(matches!(gone, Err(ResultError::Gone)));
    assert_eq!(block_on(queue.fate_async(id)).unwrap(), Fate::Gone);
}

#[testkit::test]
fn a_wait_ends_with_the_error_of_the_store() {
    let time = Time::new();
    let store = SimStore::with_faults(time.store.clone(), |call| match call {
        Call::Other => Fault::Refused(ErrorKind::Busy),
        _ => Fault::None,
    });
    let queue = time.queue(store);
    let id = queue.push(job("a"), When::NOW).unwrap();
    for failed in [queue.result(id), block_on(queue.result_async(id))] {
        let Err(ResultError::Store(error)) = failed else {
            panic!("{failed:?}");
        };
        assert!(error.is_transient());
    }
}

/// Between two turns, a bounded number, and not more often than necessary.
#[testkit::test]
fn the_pump_deletes_done_jobs_whose_time_is_over_in_batches() {
    let time = Time::new();
    let calls = Arc::new(AtomicUsize::new(0));
    let seen = Arc::clone(&calls);
    let store = SimStore::with_faults(time.store.clone(), move |call| {
        seen.fetch_add(usize::from(call == Call::DeleteDone), SeqCst);
        Fault::None
    });
    let queue = time.builder(store.clone()).keep_done(SPAN).build().unwrap();
    let batch = DONE_BATCH as usize;
    let jobs = vec![(job("a"), When::NOW); batch + 1];
    let ids = queue.push_batch(jobs).unwrap();
    let turns = |count: usize| {
        for _ in 0..count {
            queue.push(job("b"), When::NOW).unwrap();
            queue.take().unwrap().release().unwrap();
        }
    };
    let mut done = Vec::new();
    while done.len() <= batch {
        done.extend(queue.take_many(std::num::NonZeroUsize::MAX).unwrap());
    }
    let settled: Vec<_> = done.into_iter().map(Claimed::ack_async).collect();
    for ack in settled {
        ack.wait().unwrap();
    }
    turns(3);
    assert_eq!(calls.load(SeqCst), 1, "with the first turn");
    assert_eq!(store.delete_done("queue", 9).unwrap(), 0, "none is over");
    time.clock.advance(SPAN);
    let before = calls.load(SeqCst);
    assert_eq!(queue.fate(ids[0]).unwrap(), Fate::Gone);
    turns(3);
    assert_eq!(calls.load(SeqCst), before + 1, "one batch");
    time.clock.advance(SECOND);
    turns(3);
    assert_eq!(calls.load(SeqCst), before + 2, "the rest");
    assert_eq!(store.delete_done("queue", 9).unwrap(), 0, "none is left");
    time.clock.advance(SECOND);
    turns(3);
    assert_eq!(
        calls.load(SeqCst),
        before + 3,
        "not before a minute has passed"
    );
}
