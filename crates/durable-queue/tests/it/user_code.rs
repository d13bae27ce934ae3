//! User code that panics, does not end, or returns absurd values: no thread is lost, and a job whose attempt
//! it ends has failed that attempt.

use std::borrow::Cow;
use std::convert::Infallible;
use std::error::Error;
use std::fmt;
use std::future::Future;
use std::num::NonZeroUsize;
use std::panic::{AssertUnwindSafe, catch_unwind, panic_any, resume_unwind};
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::task::{Context, Waker};
use std::time::Duration;

use durable_queue::{
    BuildError, Builder, CancelError, DecodeError, DurableQueue, EncodeError, LONGEST_ERROR,
    LONGEST_LEASE, Payload, Reset, Retried, SettleError, ShutDown, StoreTime, TakeError, When,
    Worker,
};
use durable_queue_testing::SimStore;
use sync_shim::Clock;
use testkit::block_on;

use crate::support::{ClockTrap, LONG, SECOND, Time, job};

/// Its text selects the behaviour of its code.
#[derive(Debug)]
struct Hostile(String);

impl Payload for Hostile {
    fn encode(&self) -> Result<Cow<'_, [u8]>, EncodeError> {
        assert!(self.0 != "encode", "as it was asked to");
        Ok(Cow::Borrowed(self.0.as_bytes()))
    }

    fn decode(bytes: Vec<u8>) -> Result<Self, DecodeError> {
        let text = String::from_utf8(bytes).unwrap();
        if text == "decode with a payload" {
            panic_any(PanicsAsItIsDropped);
        }
        assert!(!text.starts_with("decode"), "as it was asked to");
        Ok(Self(text))
    }
}

impl Drop for Hostile {
    fn drop(&mut self) {
        if self.0.starts_with("drop") && !std::thread::panicking() {
            resume_unwind(Box::new("a value that panics as it is dropped"));
        }
    }
}

struct PanicsAsItIsDropped;

impl Drop for PanicsAsItIsDropped {
    fn drop(&mut self) {
        if !std::thread::panicking() {
            resume_unwind(Box::new("a panic's payload that panics as it is dropped"));
        }
    }
}

/// Each word makes one of its methods misbehave.
#[derive(Debug)]
struct HostileError(String);

impl fmt::Display for HostileError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &*self.0 {
            "error: display panics" => resume_unwind(Box::new("as it was asked to")),
            "error: display fails" => Err(fmt::Error),
            "error: empty, without an end" => Ok(()),
            // In pieces, like a formatter.
            "error: long" => (0..LONGEST_ERROR).try_for_each(|_| f.write_str("\u{e4}\u{20ac}")),
            text => f.write_str(text),
        }
    }
}

impl Error for HostileError {
    fn source(&self) -> Option<&(dyn Error + 'static)> {
        match &*self.0 {
            "error: source panics" => resume_unwind(Box::new("as it was asked to")),
            text if text.ends_with("without an end") => Some(self),
            _ => None,
        }
    }
}

impl Drop for HostileError {
    fn drop(&mut self) {
        if self.0 == "error: drop panics" && !std::thread::panicking() {
            resume_unwind(Box::new("as it was asked to"));
        }
    }
}

fn builder(time: &Time, sim: SimStore) -> Builder<Hostile, SimStore> {
    DurableQueue::builder("queue", sim)
        .clock(time.clock.clone())
        .back_off(dedup_queue::FastSlow::new(SECOND, SECOND, 1))
}

fn push(queue: &DurableQueue<Hostile, SimStore>, text: &str) {
    let bytes = DurableQueue::<String, _>::new("queue", queue.store().clone());
    bytes.push(text.to_owned(), When::NOW).unwrap();
}

fn wait_until(is_so: impl Fn() -> bool) {
    while !is_so() {
        std::thread::yield_now();
    }
}

#[testkit::test]
fn a_worker_survives_panicking_decoders_and_handles_all_other_jobs() {
    const GOOD: usize = 20;
    let time = Time::new();
    let builder = builder(&time, time.sim()).unreadable_for(SECOND * 10);
    let queue = builder.build().unwrap();
    for text in ["decode", "decode with a payload", "decode"] {
        push(&queue, text);
    }
    (0..GOOD).for_each(|_| push(&queue, "good"));
    let handled = Arc::new(AtomicUsize::new(0));
    let worker = {
        let handled = Arc::clone(&handled);
        let handle = move |_: &_| {
            handled.fetch_add(1, SeqCst);
            Ok::<_, Infallible>(())
        };
        Worker::builder(queue.clone()).concurrency(2).start(handle)
    };
    let worker = worker.unwrap();
    wait_until(|| handled.load(SeqCst) == GOOD);
    wait_until(|| {
        time.clock.advance(SECOND);
        queue.store_stats().unwrap().dead == 3
    });
    assert!(queue.last_error().is_none());
    for dead in queue.dead(None, 10).unwrap() {
        assert_eq!(dead.attempts, 0);
        assert_eq!(
            dead.error,
            "the payload cannot be decoded: its decoder panicked"
        );
    }
    assert_eq!(worker.shutdown(LONG), ShutDown::Finished);
    assert_eq!(queue.store_stats().unwrap().jobs, 0);
}

#[testkit::test]
fn a_panicking_decoder_gives_its_job_back_and_the_rest_of_the_batch_is_handed_out() {
    let time = Time::new();
    let queue = builder(&time, time.sim()).build().unwrap();
    let most = NonZeroUsize::new(3).unwrap();
    let take = |how: usize| match how {
        0 => queue.take_many(most).unwrap(),
        1 => block_on(queue.take_many_async(most)).unwrap(),
        2 => vec![queue.take().unwrap(), queue.take().unwrap()],
        _ => vec![
            block_on(queue.take_async()).unwrap(),
            block_on(queue.take_async()).unwrap(),
        ],
    };
    for how in 0..4 {
        for text in ["first", "decode", "last"] {
            push(&queue, text);
        }
        let taken = take(how);
        assert_eq!(
            taken.iter().map(|job| &*job.0).collect::<Vec<_>>(),
            ["first", "last"]
        );
        for job in taken {
            job.ack().unwrap();
        }
        wait_until(|| !queue.list(None, 1).unwrap()[0].state.is_held());
        let left = queue.list(None, 10).unwrap();
        assert_eq!((left.len(), left[0].attempts), (1, 0));
        assert_eq!(left[0].failures().len(), 1);
        assert!(matches!(
            queue.cancel(left[0].id),
            Err(CancelError::Unreadable(_))
        ));
    }
}

/// A worker with one thread gets one of each, and then a valid one.
#[testkit::test]
fn a_handlers_error_may_panic_or_be_endless_and_its_job_has_failed() {
    let cases = [
        ("error: display panics", "the handler panicked"),
        ("error: display fails", ""),
        ("error: empty, without an end", ""),
        ("error: without an end", "error: without an end"),
        ("error: source panics", "the handler panicked"),
        ("error: drop panics", "the handler panicked"),
        ("panic with a payload", "the handler panicked"),
        ("drop, and the handler fails", "drop, and the handler fails"),
    ];
    let time = Time::new();
    let queue = builder(&time, time.sim()).max_attempts(1).build().unwrap();
    for (text, _) in cases {
        push(&queue, text);
    }
    for text in ["drop", "drop", "good"] {
        push(&queue, text);
    }
    let worker = Worker::builder(queue.clone()).start(|job| match &*job.0 {
        "panic with a payload" => panic_any(PanicsAsItIsDropped),
        "drop" | "good" => Ok(()),
        text => Err(HostileError(text.to_owned())),
    });
    let worker = worker.unwrap();
    wait_until(|| queue.store_stats().unwrap().jobs == 0);
    let dead = queue.dead(None, 100).unwrap();
    let errors = dead.iter().map(|dead| &*dead.error);
    assert!(errors.eq(cases.map(|(_, error)| error)), "{dead:#?}");
    assert_eq!(worker.shutdown(LONG), ShutDown::Finished);
}

#[testkit::test]
fn values_that_panic_when_dropped_do_not_affect_settles() {
    let time = Time::new();
    let queue = builder(&time, time.sim()).build().unwrap();
    for _ in 0..6 {
        push(&queue, "drop");
    }
    let most = NonZeroUsize::new(3).unwrap();
    let batch = queue.take_many(most).unwrap();
    let mut rest = queue.ack_and_take_many(batch, most).unwrap().into_iter();
    assert_eq!(
        queue.store_stats().unwrap().jobs,
        3,
        "no job of it has failed"
    );
    rest.next().unwrap().ack().unwrap();
    let retried = rest.next().unwrap().retry("no").unwrap();
    assert_eq!(retried, Retried::Again(SECOND.into()));
    rest.next().unwrap().bury("no use").unwrap();
    let stats = queue.store_stats().unwrap();
    assert_eq!((stats.jobs, stats.dead), (1, 1));
}

#[testkit::test]
fn a_panic_of_an_encoder_reaches_the_caller_and_the_queue_keeps_working() {
    let time = Time::new();
    let queue = builder(&time, time.sim()).build().unwrap();
    for _ in 0..2 {
        let value = Hostile("encode".to_owned());
        let pushed = catch_unwind(AssertUnwindSafe(|| queue.push(value, When::NOW)));
        assert!(pushed.is_err());
    }
    queue.push(Hostile("good".to_owned()), When::NOW).unwrap();
    assert_eq!(queue.take().unwrap().0, "good");
    assert_eq!(queue.store_stats().unwrap().jobs, 1);
}

#[testkit::test]
fn a_back_off_may_panic_or_be_infinite() {
    struct Absurd(AtomicUsize);

    impl<K> dedup_queue::RateLimiter<K> for Absurd {
        fn delay(&self, _: &K, _: u32, _: std::time::Instant) -> Duration {
            match self.0.fetch_add(1, SeqCst) {
                0 => resume_unwind(Box::new(PanicsAsItIsDropped)),
                1 => Duration::ZERO,
                _ => Duration::MAX,
            }
        }
    }

    let time = Time::new();
    let absurd = Absurd(AtomicUsize::new(0));
    let queue = time.builder(time.sim()).back_off(absurd).build().unwrap();
    let (tried, attempts) = std::sync::mpsc::channel();
    let tried = Mutex::new(tried);
    let worker = Worker::builder(queue.clone()).start(move |job| {
        tried.lock().unwrap().send(job.attempt()).unwrap();
        if job.attempt() < 4 {
            Err("no luck")
        } else {
            Ok(())
        }
    });
    let worker = worker.unwrap();
    let id = queue.push(job("job"), When::NOW).unwrap();
    assert_eq!(attempts.recv().unwrap(), 1);
    let listed = || queue.list(None, 1).unwrap()[0].clone();
    // It is handed out neither at once nor never.
    wait_until(|| !listed().state.is_held());
    time.clock.advance(durable_queue::FIRST_BACK_OFF);
    assert_eq!(attempts.recv().unwrap(), 2);
    assert_eq!(attempts.recv().unwrap(), 3);
    wait_until(|| !listed().state.is_held());
    assert_eq!(listed().due, StoreTime::NEVER, "as it was said");
    assert_eq!(queue.reset(id, When::NOW).unwrap(), Reset::Moved);
    assert_eq!(attempts.recv().unwrap(), 4);
    assert_eq!(worker.shutdown(LONG), ShutDown::Finished);
}

#[testkit::test]
fn an_infinite_lease_is_rejected_and_infinite_durations_end_no_thread() {
    let time = Time::new();
    let refused = |lease| time.builder(time.sim()).lease(lease).build().err();
    assert_eq!(refused(Duration::MAX), Some(BuildError::LongLease));
    assert_eq!(refused(Duration::ZERO), Some(BuildError::ShortLease));
    assert_eq!(refused(LONGEST_LEASE), None);
    let queue = time
        .builder(time.sim())
        .attempt_timeout(Duration::MAX)
        .build()
        .unwrap();
    for index in 0..3 {
        queue.push(index.to_string(), When::NOW).unwrap();
    }
    let first = queue.take().unwrap();
    first.extend(Duration::MAX).unwrap();
    let listed = queue.list(None, 10).unwrap();
    let held = listed.iter().find(|job| job.id == first.id()).unwrap();
    assert!(
        held.due < StoreTime::NEVER,
        "its lease ends, once its process is gone"
    );
    let retried = first.retry_after(Duration::MAX, "no").unwrap();
    assert_eq!(retried, Retried::Again(Duration::MAX.into()));
    queue.take().unwrap().ack().unwrap();
    queue.take().unwrap().ack().unwrap();
}

#[testkit::test]
fn several_calls_may_wait_for_the_maximum_number_of_jobs() {
    let time = Time::new();
    let queue = time.queue(time.sim());
    let mut context = Context::from_waker(Waker::noop());
    let calls = [(); 3].map(|()| {
        let mut call = Box::pin(queue.take_many_async(NonZeroUsize::MAX));
        assert!(call.as_mut().poll(&mut context).is_pending());
        call
    });
    for call in calls {
        queue.push(job("job"), When::NOW).unwrap();
        assert_eq!(block_on(call).unwrap().len(), 1);
    }
}

#[testkit::test]
fn a_long_error_is_cut_between_characters_and_marked() {
    let time = Time::new();
    let queue = builder(&time, time.sim()).max_attempts(1).build().unwrap();
    push(&queue, "error: long");
    let worker = Worker::builder(queue.clone())
        .start(|job| Err::<(), _>(HostileError(job.0.clone())))
        .unwrap();
    wait_until(|| queue.store_stats().unwrap().dead == 1);
    assert_eq!(worker.shutdown(LONG), ShutDown::Finished);
    let plain = time.queue(queue.store().clone());
    for text in ["\u{20ac}".repeat(LONGEST_ERROR), "x".repeat(LONGEST_ERROR)] {
        plain.push(job("job"), When::NOW).unwrap();
        plain.take().unwrap().bury(text).unwrap();
    }
    let dead = plain.dead(None, 10).unwrap();
    for cut in &dead[..2] {
        assert!(cut.error.ends_with("\u{20ac} [cut]") || cut.error.ends_with("\u{e4} [cut]"));
        let room = LONGEST_ERROR - cut.error.len();
        assert!(room < 3, "no more than needed: {room}");
    }
    assert_eq!(
        dead[2].error,
        "x".repeat(LONGEST_ERROR),
        "that is not too long"
    );
}

/// `PostgreSQL`'s texts cannot contain NUL, so the settle would be rejected permanently.
#[testkit::test]
fn nul_is_removed_from_an_error() {
    let time = Time::new();
    let queue = time.queue(time.sim());
    queue.push(job("job"), When::NOW).unwrap();
    queue.take().unwrap().bury("a\0b").unwrap();
    assert_eq!(queue.dead(None, 1).unwrap()[0].error, "a b");
}

/// Times can no longer be computed. The leases expire by themselves, so other processes get the jobs.
#[testkit::test]
fn a_clock_that_panics_in_the_pump_shuts_the_queue_down_and_no_call_hangs() {
    let time = Time::new();
    let sim = time.sim();
    let trap = ClockTrap::for_pumps(&time.clock);
    let queue: DurableQueue<String, _> = time
        .builder(sim.clone())
        .clock(trap.clone())
        .build()
        .unwrap();
    queue.push(job("one"), When::NOW).unwrap();
    let taken = queue.take().unwrap();
    std::thread::scope(|scope| {
        let waits = scope.spawn(|| queue.take().err());
        time.clock.wait_for_sleepers(1);
        trap.left.store(usize::MAX, SeqCst);
        // This wakes the pump.
        assert!(matches!(taken.ack(), Err(SettleError::ShutDown)));
        let ended = waits.join().unwrap();
        assert!(matches!(ended, Some(TakeError::ShutDown)), "{ended:?}");
    });
    assert!(matches!(queue.take(), Err(TakeError::ShutDown)));
    assert_eq!(queue.shutdown(LONG), ShutDown::TimedOut);
    // Another process.
    let other = time.queue(sim);
    time.clock.advance(durable_queue::LEASE);
    assert_eq!(*other.take().unwrap(), "one");
}

fn trapped(time: &Time) -> (DurableQueue<String, SimStore>, ClockTrap) {
    let trap = ClockTrap::for_callers(&time.clock);
    let queue = time.builder(time.sim()).clock(trap.clone());
    (queue.build().unwrap(), trap)
}

#[testkit::test]
fn a_clock_that_panics_in_the_first_call_leaves_the_queue_usable() {
    for takes in [false, true] {
        let time = Time::new();
        let (queue, trap) = trapped(&time);
        trap.left.store(1, SeqCst);
        assert!(catch_unwind(AssertUnwindSafe(|| queue.take())).is_err());
        if takes {
            queue.push(job("job"), When::NOW).unwrap();
            queue.take().unwrap().ack().unwrap();
        } else {
            // There is no pump to wait for.
            assert_eq!(queue.shutdown(Duration::ZERO), ShutDown::Finished);
        }
    }
}

#[testkit::test]
fn a_call_whose_clock_panics_takes_no_job() {
    let time = Time::new();
    let (queue, trap) = trapped(&time);
    let until = time.clock.now() + SECOND;
    queue.push(job("first"), When::NOW).unwrap();
    queue.take().unwrap().ack().unwrap();
    trap.left.store(1, SeqCst);
    assert!(catch_unwind(AssertUnwindSafe(|| queue.take_timeout(until))).is_err());
    let jobs = ["a", "b"].map(|text| (job(text), When::NOW));
    queue.push_batch(jobs.into()).unwrap();
    assert_eq!(*queue.take().unwrap(), "a");
}
