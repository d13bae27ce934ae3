//! The errors of failed attempts, which a job keeps.

use std::borrow::Cow;
use std::thread;

use durable_queue::internals::{FIRST_PAUSE, MOST_FAILURES};
use durable_queue::store::Act;
use durable_queue::{
    Claimed, DecodeError, DurableQueue, EncodeError, Failure, LONGEST_ERROR, Payload, Retried,
    ShutDown, Store, StoreClock as _, When, Worker,
};
use durable_queue_testing::{Call, Fault, SimStore};
use testkit::block_on;

use crate::support::{LONG, SECOND, Time, job, on_thread, steal};

type Queue = DurableQueue<String, SimStore>;

fn errors(failures: &[Failure]) -> Vec<(u32, &str)> {
    let failures = failures.iter();
    failures.map(|it| (it.attempt, &*it.error)).collect()
}

/// The failures of the only job.
fn listed(queue: &Queue) -> Vec<Failure> {
    let listed = queue.list(None, 2).unwrap();
    assert_eq!(listed.len(), 1);
    listed[0].failures()
}

#[testkit::test]
fn each_way_to_fail_leaves_its_text_and_releases_leave_none() {
    type Fails = fn(Claimed<String>);
    let time = Time::new();
    let queue = time.queue(time.sim());
    queue.push(job("job"), When::NOW).unwrap();
    let ways: [(&str, Fails); 7] = [
        ("a", |job| _ = job.retry("a").unwrap()),
        ("b", |job| _ = block_on(job.retry_async("b")).unwrap()),
        ("c", |job| job.retry_later("c")),
        ("d", |job| _ = job.retry_after(SECOND, "d").unwrap()),
        ("e", |job| {
            _ = block_on(job.retry_after_async(SECOND, "e")).unwrap();
        }),
        ("the job was dropped without being settled", drop),
        ("the handler panicked", |job| {
            let panics = thread::spawn(move || {
                let _job = job;
                panic!("as it was asked to");
            });
            assert!(panics.join().is_err());
        }),
    ];
    let mut expected: Vec<(u32, &str)> = Vec::new();
    for (attempt, (text, fail)) in (1..).zip(ways) {
        queue.take().unwrap().release().unwrap();
        let taken = queue.take().unwrap();
        assert_eq!(errors(&taken.failures()), expected);
        let at = time.store.now();
        fail(taken);
        expected.push((attempt, text));
        while listed(&queue).len() < expected.len() {
            thread::yield_now();
        }
        assert_eq!(listed(&queue).last().unwrap().at, at);
        time.clock.advance(SECOND);
    }
    assert_eq!(errors(&listed(&queue)), expected);
}

struct Unreadable(Vec<u8>);

impl Payload for Unreadable {
    fn encode(&self) -> Result<Cow<'_, [u8]>, EncodeError> {
        Ok((&self.0).into())
    }

    fn decode(_: Vec<u8>) -> Result<Self, DecodeError> {
        Err(DecodeError::new("of another version"))
    }
}

#[testkit::test]
fn a_payload_that_cannot_be_decoded_leaves_the_reason() {
    let time = Time::new();
    let store = time.sim();
    let queue = DurableQueue::<Unreadable, _>::builder("queue", store.clone());
    let queue = queue.clock(time.clock.clone()).build().unwrap();
    queue.push(Unreadable(Vec::new()), When::NOW).unwrap();
    let other = time.queue(store);
    let taker = on_thread(&queue, |queue| queue.take().map(drop));
    while listed(&other).is_empty() {
        thread::yield_now();
    }
    let kept = listed(&other);
    assert!(
        kept[0].error.contains("of another version"),
        "{}",
        kept[0].error
    );
    queue.close();
    assert!(taker.join().unwrap().is_err());
}

/// Blocking and async handlers.
#[testkit::test]
fn the_errors_and_panics_of_handlers_are_kept_with_their_causes() {
    #[derive(Debug)]
    struct Caused(std::num::ParseIntError);

    impl std::fmt::Display for Caused {
        fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
            f.write_str("no number")
        }
    }

    impl std::error::Error for Caused {
        fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
            Some(&self.0)
        }
    }

    fn fail(attempt: u32) -> Result<(), Caused> {
        assert_eq!(attempt, 1, "as it was asked to");
        Err(Caused("x".parse::<u8>().unwrap_err()))
    }

    fn check(time: &Time, queue: &Queue) {
        queue.push(job("job"), When::NOW).unwrap();
        while queue.store_stats().unwrap().dead == 0 {
            time.clock.advance(SECOND);
            thread::yield_now();
        }
        let dead = queue.dead(None, 2).unwrap();
        let expected = [
            (1, "no number: invalid digit found in string"),
            (2, "the handler panicked"),
        ];
        assert_eq!(errors(&dead[0].failures()), expected);
        assert_eq!(dead[0].error, "the handler panicked");
    }

    let time = Time::new();
    let queue = time.builder(time.sim()).max_attempts(2).build().unwrap();
    let worker = Worker::builder(queue.clone()).start(|job: &Claimed<String>| fail(job.attempt()));
    check(&time, &queue);
    assert_eq!(worker.unwrap().shutdown(LONG), ShutDown::Finished);
    {
        let queue = time.builder(time.sim()).max_attempts(2).build().unwrap();
        let builder = Worker::builder(queue.clone());
        let run = thread::spawn(move || {
            block_on(builder.run_async(|job| async move { fail(job.attempt()) }))
        });
        check(&time, &queue);
        queue.close();
        assert_eq!(run.join().unwrap().unwrap(), ShutDown::Finished);
    }
}

#[testkit::test]
fn ten_of_twelve_failures_are_kept_through_a_burial_and_a_redrive() {
    let time = Time::new();
    let queue = time.builder(time.sim()).max_attempts(12).build().unwrap();
    let id = queue.push(job("job"), When::NOW).unwrap();
    for attempt in 1..=12 {
        let retried = queue
            .take()
            .unwrap()
            .retry_after(When::NOW, format!("{attempt}"));
        let is_last = attempt == 12;
        assert_eq!(retried.unwrap() == Retried::Buried, is_last);
        time.clock.advance(SECOND);
    }
    let attempts = |failures: &[Failure]| -> Vec<u32> {
        assert!(failures.iter().all(|it| it.error == it.attempt.to_string()));
        failures.iter().map(|it| it.attempt).collect()
    };
    let dead = queue.dead(None, 2).unwrap();
    assert_eq!(attempts(&dead[0].failures()), (3..=12).collect::<Vec<_>>());
    assert_eq!(queue.redrive(&[id]).unwrap(), 1);
    let taken = queue.take().unwrap();
    assert_eq!(
        (taken.attempt(), taken.failures().len()),
        (1, MOST_FAILURES)
    );
    taken.bury("1").unwrap();
    let dead = queue.dead(None, 2).unwrap();
    let expected: Vec<u32> = (4..=12).chain([1]).collect();
    assert_eq!(attempts(&dead[0].failures()), expected);
}

#[cfg(feature = "cron")]
#[testkit::test]
fn a_run_of_a_repeating_job_begins_without_the_failures_of_the_last_one() {
    let time = Time::new();
    let queue = time.builder(time.sim()).max_attempts(2).build().unwrap();
    let daily = "0 0 * * *".parse().unwrap();
    queue.push_repeating("key", &daily, job("job")).unwrap();
    for succeeds in [true, false] {
        assert_eq!(
            queue.reset("key", When::NOW).unwrap(),
            durable_queue::Reset::Moved
        );
        queue.take().unwrap().retry_after(When::NOW, "no").unwrap();
        let taken = queue.take().unwrap();
        assert_eq!(errors(&taken.failures()), [(1, "no")]);
        if succeeds {
            taken.ack().unwrap();
        } else {
            assert_eq!(taken.retry("no").unwrap(), Retried::NextTime);
        }
        assert_eq!(listed(&queue), []);
    }
}

#[testkit::test]
fn a_retry_whose_response_is_lost_is_kept_once() {
    for fault in [Fault::Before, Fault::After, Fault::Twice] {
        let time = Time::new();
        let turns = std::sync::atomic::AtomicUsize::new(0);
        let plan = move |call| match call {
            // The claim is the first.
            Call::Turn if turns.fetch_add(1, std::sync::atomic::Ordering::SeqCst) == 1 => fault,
            _ => Fault::None,
        };
        let queue = time.queue(SimStore::with_faults(time.store.clone(), plan));
        queue.push(job("job"), When::NOW).unwrap();
        let taken = queue.take().unwrap();
        let at = time.store.now();
        let retrying = taken.retry_after_async(When::NOW, "no");
        if fault != Fault::Twice {
            while queue.stats().errors == 0 {
                thread::yield_now();
            }
            time.advance(FIRST_PAUSE);
        }
        _ = retrying.wait(); // Unknown, if it was carried out.
        let kept = listed(&queue);
        assert_eq!(errors(&kept), [(1, "no")], "{fault:?}");
        assert_eq!(kept[0].at, at, "the time of the failure, not of the call");
    }
}

#[testkit::test]
fn a_text_that_cannot_be_read_is_shown_as_no_failure() {
    let time = Time::new();
    let queue = time.queue(time.sim());
    queue.push(job("job"), When::NOW).unwrap();
    let stolen = steal(queue.store());
    let act = Act::Retry {
        when: When::NOW,
        failures: Some("of a later version"),
        counts: true,
    };
    let settle = stolen[0].settle(act);
    queue.store().turn("queue", &[settle], None).unwrap();
    assert_eq!(listed(&queue), []);
    let taken = queue.take().unwrap();
    assert_eq!(taken.failures(), []);
    taken.retry_after(When::NOW, "no").unwrap();
    assert_eq!(errors(&listed(&queue)), [(2, "no")]);
}

#[testkit::test]
fn a_long_text_is_cut_between_characters_and_says_so() {
    let time = Time::new();
    let queue = time.queue(time.sim());
    queue.push(job("job"), When::NOW).unwrap();
    let long = format!("x{}", "ж".repeat(LONGEST_ERROR));
    queue.take().unwrap().retry_after(When::NOW, &long).unwrap();
    let kept = listed(&queue);
    let error = &*kept[0].error;
    assert!(error.len() <= LONGEST_ERROR && error.len() > LONGEST_ERROR - 8);
    assert!(long.starts_with(error.strip_suffix(" [cut]").unwrap()));
}

#[testkit::test]
fn no_debug_text_contains_an_error() {
    let time = Time::new();
    let queue = time.builder(time.sim()).max_attempts(2).build().unwrap();
    queue.push(job("job"), When::NOW).unwrap();
    queue
        .take()
        .unwrap()
        .retry_after(When::NOW, "secret")
        .unwrap();
    let listed = queue.list(None, 1).unwrap();
    let taken = queue.take().unwrap();
    let job = format!("{listed:?} {taken:?} {:?}", taken.failures());
    assert_eq!(taken.retry("secret").unwrap(), Retried::Buried);
    let dead = queue.dead(None, 1).unwrap();
    let shown = format!("{job} {dead:?} {:?}", dead[0].failures());
    assert!(!shown.contains("secret"), "{shown}");
}
