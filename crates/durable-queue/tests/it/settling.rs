//! Settles by handlers, and jobs that handlers do not settle.

use std::borrow::Cow;
use std::num::NonZeroUsize;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::task::{Context, Waker};
use std::time::Duration;

use durable_queue::internals::LONGEST_BACK_OFF;
use durable_queue::store::{JobState, ListedJob};
use durable_queue::{
    CarriedOut, DecodeError, DurableQueue, EncodeError, ErrorKind, FIRST_BACK_OFF, Json,
    MAX_ATTEMPTS, Payload, Retried, ShutDown, TakeError, TakeFuture, When,
};
use durable_queue_testing::{Call, Fault, SimStore};
use testkit::block_on;

use crate::support::{LONG, SECOND, Time, job, on_thread};

#[testkit::test]
fn a_dropped_job_has_failed_and_is_retried_after_the_back_off() {
    let time = Time::new();
    let queue = time.builder(time.sim()).max_attempts(2).build().unwrap();
    queue.push(job("job"), When::NOW).unwrap();
    for attempt in 1..=2 {
        let taken = queue.take().unwrap();
        assert_eq!(taken.attempt(), attempt);
        drop(taken);
        // Until the pump has settled it.
        let is_held = |job: &ListedJob| job.state.is_held();
        while queue.list(None, 1).unwrap().iter().any(is_held) {
            std::thread::yield_now();
        }
        assert_eq!(
            queue.store_stats().unwrap().due,
            0,
            "no handler is called at once"
        );
        time.clock.advance(SECOND);
    }
    let dead = queue.dead(None, 10).unwrap();
    assert!(dead[0].error.contains("dropped"), "{}", dead[0].error);
}

#[testkit::test]
fn a_released_job_is_due_at_once_and_its_attempt_is_not_counted() {
    let time = Time::new();
    let queue = time.queue(time.sim());
    queue.push(job("job"), When::NOW).unwrap();
    for _ in 0..3 {
        let taken = queue.take().unwrap();
        assert_eq!(taken.attempt(), 1);
        taken.release().unwrap();
    }
    drop(queue.take().unwrap().release_async());
    assert_eq!(queue.take().unwrap().attempt(), 1);
}

#[testkit::test]
fn a_job_dropped_after_a_close_is_released() {
    let time = Time::new();
    let queue = time.queue(time.sim());
    queue.push(job("job"), When::NOW).unwrap();
    let taken = queue.take().unwrap();
    queue.close();
    drop(taken);
    assert_eq!(queue.shutdown(LONG), ShutDown::Finished);
    let left = queue.list(None, 1).unwrap();
    assert_eq!((left[0].state.is_held(), left[0].attempts), (false, 0));
    assert_eq!(queue.store_stats().unwrap().due, 1);
}

#[testkit::test]
fn a_job_dropped_by_a_panic_has_failed() {
    let time = Time::new();
    let queue = time.queue(time.sim());
    queue.push(job("job"), When::NOW).unwrap();
    let taken = queue.take().unwrap();
    let unwound = catch_unwind(AssertUnwindSafe(|| {
        let _taken = taken;
        resume_unwind(Box::new(()));
    }));
    assert!(unwound.is_err());
    // The next attempt follows after the back-off.
    let taker = on_thread(&queue, |queue| queue.take().unwrap().attempt());
    time.clock.wait_for_sleepers(1);
    while !taker.is_finished() {
        // The taker's request may reach the pump before the failure does.
        time.clock.advance(SECOND);
        std::thread::yield_now();
    }
    assert_eq!(taker.join().unwrap(), 2);
}

#[testkit::test]
fn a_failed_job_is_retried_after_the_back_off_and_buried_after_the_last_attempt() {
    let time = Time::new();
    let queue = time.builder(time.sim()).max_attempts(2).build().unwrap();
    let id = queue.push(job("job"), When::NOW).unwrap();
    assert_eq!(
        queue.take().unwrap().retry("no").unwrap(),
        Retried::Again(SECOND.into())
    );
    assert_eq!(queue.store_stats().unwrap().due, 0);
    time.clock.advance(SECOND);
    let taken = queue.take().unwrap();
    assert_eq!((taken.id(), taken.attempt()), (id, 2));
    assert_eq!(taken.retry("no luck").unwrap(), Retried::Buried);
    let dead = queue.dead(None, 10).unwrap();
    assert_eq!((dead.len(), dead[0].id, dead[0].attempts), (1, id, 2));
    assert_eq!(dead[0].error, "no luck");
    assert_eq!(queue.redrive(&[id]).unwrap(), 1);
    assert_eq!(queue.take().unwrap().attempt(), 1);
}

#[testkit::test]
fn a_retry_with_a_time_does_not_use_the_back_off() {
    let time = Time::new();
    let queue = time.builder(time.sim()).max_attempts(2).build().unwrap();
    queue.push(job("job"), When::NOW).unwrap();
    let retried = queue.take().unwrap().retry_after(When::NOW, "no").unwrap();
    assert_eq!(retried, Retried::Again(When::NOW));
    let taken = queue.take().unwrap();
    assert_eq!(taken.attempt(), 2);
    assert_eq!(taken.retry_after(When::NOW, "no").unwrap(), Retried::Buried);
    assert_eq!(queue.store_stats().unwrap().dead, 1);
}

#[testkit::test]
fn a_handler_can_bury_a_job_with_an_error() {
    let time = Time::new();
    let queue = time.queue(time.sim());
    queue.push(job("job"), When::NOW).unwrap();
    queue.take().unwrap().bury("no use").unwrap();
    assert_eq!(queue.dead(None, 10).unwrap()[0].error, "no use");
}

#[testkit::test]
fn a_job_whose_holders_die_is_buried_after_the_last_attempt() {
    let time = Time::new();
    let sim = time.sim();
    let lease = SECOND * 10;
    let deadly = time
        .builder(sim.clone())
        .max_attempts(2)
        .heartbeat(false)
        .build()
        .unwrap();
    deadly.push(job("deadly"), When::NOW).unwrap();
    for attempt in 1..=2 {
        let taken = deadly.take().unwrap();
        assert_eq!(taken.attempt(), attempt);
        std::mem::forget(taken);
        time.clock.advance(lease);
    }
    deadly.push(job("harmless"), When::NOW).unwrap();
    let taken = deadly.take().unwrap();
    assert_eq!(**taken, *"harmless");
    taken.ack().unwrap();
    let dead = deadly.dead(None, 10).unwrap();
    assert_eq!((dead.len(), dead[0].attempts), (1, 2));
}

/// As in a rolling deployment: the older version cannot decode payloads of the newer one.
#[testkit::test]
fn an_undecodable_payload_costs_no_attempt_and_a_process_that_can_decode_it_gets_it() {
    let time = Time::new();
    let sim = time.sim();
    let builder = || DurableQueue::<Vec<u8>, _>::builder("queue", sim.clone());
    let newer = builder().clock(time.clock.clone()).build().unwrap();
    let id = newer.push(b"\xff\xff".to_vec(), When::NOW).unwrap();
    let older = time.queue(sim.clone());
    older.push(job("text"), When::NOW).unwrap();
    let taken = older.take().unwrap();
    assert_eq!(**taken, *"text");
    taken.ack().unwrap();
    assert_eq!(newer.store_stats().unwrap().dead, 0);
    time.clock.advance(SECOND);
    let taken = newer.take().unwrap();
    assert_eq!((taken.id(), taken.attempt()), (id, 1));
    taken.ack().unwrap();
}

#[testkit::test]
fn a_payload_that_no_process_can_decode_is_buried_after_its_time() {
    let time = Time::new();
    let sim = time.sim();
    let builder = DurableQueue::<Vec<u8>, _>::builder("queue", sim.clone());
    let bytes = builder.clock(time.clock.clone()).build().unwrap();
    bytes.push(b"\xff\xff".to_vec(), When::NOW).unwrap();
    let builder = time.builder(sim).max_attempts(1);
    let queue = builder.unreadable_for(SECOND * 2).build().unwrap();
    for _ in 0..3 {
        assert!(queue.dead(None, 1).unwrap().is_empty());
        queue.push(job("text"), When::NOW).unwrap();
        let taken = queue.take().unwrap();
        assert_eq!(**taken, *"text");
        taken.ack().unwrap();
        time.clock.advance(SECOND);
    }
    let dead = queue.dead(None, 10).unwrap();
    assert_eq!((dead.len(), &dead[0].payload[..]), (1, &b"\xff\xff"[..]));
    assert!(dead[0].error.contains("utf-8"), "{}", dead[0].error);
    assert_eq!(dead[0].attempts, 0);
}

/// The value of a [`Touchy`] that cannot be encoded.
const UNENCODABLE: u8 = 99;

#[derive(Debug)]
struct Touchy(u8);

impl Payload for Touchy {
    fn encode(&self) -> Result<Cow<'_, [u8]>, EncodeError> {
        if self.0 == UNENCODABLE {
            return Err(EncodeError::new("it is too touchy"));
        }
        Ok(Cow::Owned(vec![self.0]))
    }

    fn decode(bytes: Vec<u8>) -> Result<Self, DecodeError> {
        Ok(Self(bytes[0]))
    }
}

#[testkit::test]
fn ack_later_is_part_of_the_next_turn() {
    let time = Time::new();
    let queue = time.queue(time.sim());
    queue.push(job("one"), When::NOW).unwrap();
    queue.push(job("two"), When::NOW).unwrap();
    queue.take().unwrap().ack_later();
    let two = queue.take().unwrap();
    block_on(two.ack_async()).unwrap();
    assert_eq!(queue.store_stats().unwrap().jobs, 0);
}

#[testkit::test]
fn each_settle_has_an_async_version_with_the_same_result() {
    let time = Time::new();
    let queue = time.queue(time.sim());
    queue.push(job("one"), When::NOW).unwrap();
    let taken = queue.take().unwrap();
    block_on(taken.extend_async(SECOND * 60)).unwrap();
    // The queue's default lease would have expired.
    time.clock.advance(SECOND * 30);
    let retried = block_on(taken.retry_after_async(When::NOW, "no")).unwrap();
    assert_eq!(retried, Retried::Again(When::NOW));
    let retried = block_on(queue.take().unwrap().retry_async("no")).unwrap();
    let Retried::Again(When::After(back_off)) = retried else {
        panic!("{retried:?}");
    };
    time.clock.advance(back_off);
    let taken = queue.take().unwrap();
    assert_eq!(taken.attempt(), 3);
    block_on(taken.bury_async("why")).unwrap();
    assert_eq!(queue.dead(None, 2).unwrap()[0].error, "why");
    assert_eq!(queue.store_stats().unwrap().jobs, 0);
}

#[testkit::test]
fn dropping_the_future_of_a_settle_does_not_cancel_it() {
    let time = Time::new();
    let queue = time.queue(time.sim());
    queue.push(job("one"), When::NOW).unwrap();
    drop(queue.take().unwrap().bury_async("why"));
    while queue.store_stats().unwrap().dead == 0 {
        std::thread::yield_now();
    }
}

#[testkit::test]
fn a_back_off_that_panics_does_not_lose_the_job() {
    struct Broken;
    impl<K> dedup_queue::RateLimiter<K> for Broken {
        fn delay(&self, _: &K, _: u32, _: std::time::Instant) -> std::time::Duration {
            resume_unwind(Box::new(()))
        }
    }
    let time = Time::new();
    let queue = time.builder(time.sim()).back_off(Broken).build().unwrap();
    queue.push(job("job"), When::NOW).unwrap();
    let retried = queue.take().unwrap().retry("no").unwrap();
    assert_eq!(retried, Retried::Again(FIRST_BACK_OFF.into()));
    time.clock.advance(FIRST_BACK_OFF);
    assert_eq!(queue.take().unwrap().attempt(), 2);
}

#[test]
fn an_unencodable_value_is_returned_with_its_batch() {
    let time = Time::new();
    let queue = DurableQueue::<Touchy, _>::builder("queue", time.sim())
        .clock(time.clock.clone())
        .build()
        .unwrap();
    let refused = queue.push(Touchy(UNENCODABLE), When::NOW).unwrap_err();
    assert_eq!(refused.error.kind(), ErrorKind::Unencodable);
    assert_eq!(refused.error.carried_out(), CarriedOut::No);
    assert_eq!(refused.value.0, UNENCODABLE);
    let batch = vec![(Touchy(1), When::NOW), (Touchy(UNENCODABLE), When::NOW)];
    assert_eq!(queue.push_batch(batch).unwrap_err().value.len(), 2);
    assert_eq!(queue.store_stats().unwrap().jobs, 0);
}

#[testkit::test]
fn json_of_another_shape_fails_without_being_quoted() {
    let time = Time::new();
    let sim = time.sim();
    let text = DurableQueue::<Json<String>, _>::builder("queue", sim.clone());
    let text = text.clock(time.clock.clone()).build().unwrap();
    text.push(Json(job("hunter2")), When::NOW).unwrap();
    let numbers = DurableQueue::<Json<u32>, _>::builder("queue", sim);
    let numbers = numbers.clock(time.clock.clone());
    let numbers = numbers.unreadable_for(Duration::ZERO).build().unwrap();
    numbers.push(Json(7), When::NOW).unwrap();
    let taken = numbers.take().unwrap();
    assert_eq!(*taken, Json(7));
    taken.ack().unwrap();
    let dead = numbers.dead(None, 10).unwrap();
    assert!(dead[0].error.contains("line 1"), "{}", dead[0].error);
    assert!(!dead[0].error.contains("hunter2"), "{}", dead[0].error);
}

fn some(jobs: usize) -> NonZeroUsize {
    NonZeroUsize::new(jobs).unwrap()
}

#[testkit::test]
fn a_batch_is_acknowledged_by_the_turn_that_takes_the_next() {
    let time = Time::new();
    let queue = time.queue(time.sim());
    let jobs = (0..7).map(|index| (index.to_string(), When::NOW)).collect();
    queue.push_batch(jobs).unwrap();
    let mut done = queue.take_many(some(3)).unwrap();
    let turns = queue.stats().turns;
    let mut rounds = 0;
    while queue.store_stats().unwrap().jobs > 1 {
        let batch = queue.ack_and_take_many(done, some(3)).unwrap();
        rounds += 1;
        let left = 7 - 3 * rounds;
        assert_eq!(queue.store_stats().unwrap().jobs, left);
        assert_eq!(batch.len(), 3.min(left as usize));
        done = batch;
    }
    assert_eq!(queue.stats().turns - turns, u64::from(rounds));
    let end = queue.ack_and_take_many_timeout(done, some(3), Duration::ZERO);
    assert!(matches!(end, Err(TakeError::TimedOut)));
    assert_eq!(queue.shutdown(LONG), ShutDown::Finished);
    assert_eq!(queue.store_stats().unwrap().jobs, 0);
}

#[testkit::test]
fn the_acknowledgements_of_a_refused_take_are_carried_out() {
    let time = Time::new();
    let queue = time.queue(time.sim());
    queue.push(job("job"), When::NOW).unwrap();
    let done = queue.take_many(some(1)).unwrap();
    queue.close();
    let refused = queue.ack_and_take_many(done, some(1)).unwrap_err();
    assert!(refused.is_shut_down());
    assert_eq!(queue.shutdown(LONG), ShutDown::Finished);
    assert_eq!(queue.store_stats().unwrap().jobs, 0);
}

#[testkit::test]
fn a_job_of_another_queue_is_acknowledged_by_that_queue() {
    let time = Time::new();
    let (queue, other) = (time.queue(time.sim()), time.queue(time.sim()));
    for queue in [&queue, &other] {
        queue.push(job("job"), When::NOW).unwrap();
    }
    let done = other.take_many(some(1)).unwrap();
    let taken = queue.ack_and_take_many(done, some(1)).unwrap();
    assert_eq!(other.shutdown(LONG), ShutDown::Finished);
    assert_eq!(other.store_stats().unwrap().jobs, 0);
    assert_eq!(queue.store_stats().unwrap().jobs, 1);
    drop(taken);
}

/// Duration of synced turns in the next two tests.
const SYNC: Duration = Duration::from_millis(5);
/// How long before their due times the jobs of the next two tests are pushed.
const AHEAD: Duration = Duration::from_millis(100);
/// Maximum delay of acknowledgements, in synced turns (`PROTOCOL.md`).
const HOLD: u32 = 4;

/// Returns a queue that has measured synced turns of `SYNC`. Later turns take no time.
fn queue_on_a_slow_disk(time: &Time) -> DurableQueue<String, SimStore> {
    let is_slow = Arc::new(AtomicBool::new(true));
    let (clock, slow) = (time.clock.clone(), Arc::clone(&is_slow));
    let store = SimStore::with_faults(time.store.clone(), move |call| {
        if call == Call::Turn && slow.load(Relaxed) {
            clock.advance(SYNC);
        }
        Fault::None
    });
    let queue = time.queue(store);
    queue.push(job("first"), When::NOW).unwrap();
    queue.take().unwrap().ack().unwrap();
    is_slow.store(false, Relaxed);
    queue
}

/// Starts waiting calls for as many jobs claimed ahead: the first is due after `AHEAD`, each further one half
/// a synced turn later. So one is always about to fall due.
fn awaited(
    queue: &DurableQueue<String, SimStore>,
    jobs: u32,
) -> Vec<Pin<Box<TakeFuture<String, SimStore>>>> {
    let mut calls: Vec<_> = (0..jobs).map(|_| Box::pin(queue.take_async())).collect();
    let mut context = Context::from_waker(Waker::noop());
    for call in &mut calls {
        assert!(call.as_mut().poll(&mut context).is_pending());
    }
    for number in 0..jobs {
        let due = AHEAD + SYNC / 2 * number;
        queue.push(job(&number.to_string()), due).unwrap();
    }
    let are_claimed = || {
        let listed = queue.list(None, 100).unwrap();
        let claimed = listed.iter().filter(|it| it.state == JobState::Claimed);
        claimed.count() == jobs as usize
    };
    while !are_claimed() {
        std::thread::yield_now();
    }
    calls
}

#[testkit::test]
fn ack_later_does_not_delay_the_next_job() {
    let time = Time::new();
    let queue = queue_on_a_slow_disk(&time);
    queue.push(job("done"), When::NOW).unwrap();
    let done = queue.take().unwrap();
    let mut calls = awaited(&queue, 2).into_iter();
    time.advance(AHEAD - SYNC / 2);
    done.ack_later();
    time.clock.advance(SYNC / 2);
    let first = block_on(calls.next().unwrap()).unwrap();
    // Another job is about to fall due: the acknowledgement still waits.
    assert_eq!(first.as_str(), "0");
    assert_eq!(queue.store_stats().unwrap().jobs, 3);
    time.clock.advance(SYNC / 2);
    let last = block_on(calls.next().unwrap()).unwrap();
    assert_eq!(last.as_str(), "1");
    while queue.store_stats().unwrap().jobs > 2 {
        std::thread::yield_now(); // Then it is sent.
    }
}

#[testkit::test]
fn ack_later_is_held_back_for_a_limited_time_however_many_jobs_fall_due() {
    let time = Time::new();
    let queue = queue_on_a_slow_disk(&time);
    queue.push(job("done"), When::NOW).unwrap();
    let done = queue.take().unwrap();
    let jobs = 2 * HOLD + 4;
    let mut calls = awaited(&queue, jobs).into_iter();
    time.advance(AHEAD - SYNC / 2);
    done.ack_later();
    let mut taken = Vec::new();
    for number in 1..=jobs {
        time.clock.advance(SYNC / 2);
        taken.push(block_on(calls.next().unwrap()).unwrap());
        let left = queue.store_stats().unwrap().jobs;
        // The pump has seen the acknowledgement before the first job started, or at that time: two halves.
        if number < 2 * HOLD {
            assert_eq!(left, jobs + 1, "it is held back: {number}");
        } else if number > 2 * HOLD {
            assert_eq!(left, jobs, "it has gone: {number}");
        }
    }
}

/// A second at first, doubled up to an hour, with up to a quarter of jitter.
#[testkit::test]
fn the_default_back_off_doubles_up_to_a_maximum_with_at_most_a_quarter_of_jitter() {
    const JOBS: u32 = 40;
    let time = Time::new();
    let builder = DurableQueue::<String, _>::builder("queue", time.sim());
    let queue = builder.clock(time.clock.clone()).build().unwrap();
    let mut scattered = 0;
    for index in 0..JOBS {
        queue.push(index.to_string(), When::NOW).unwrap();
        for attempt in 1..MAX_ATTEMPTS {
            let taken = queue.take().unwrap();
            assert_eq!(taken.attempt(), attempt);
            let Retried::Again(When::After(delay)) = taken.retry("no").unwrap() else {
                panic!("an attempt is left");
            };
            let doubled = FIRST_BACK_OFF * 2_u32.pow((attempt - 1).min(20));
            let plain = doubled.min(LONGEST_BACK_OFF);
            // It is a lower bound.
            let bounds = plain..=plain + plain / 4;
            assert!(bounds.contains(&delay), "attempt {attempt}: {delay:?}");
            scattered += u32::from(delay != plain);
            time.clock.advance(delay + Duration::from_micros(1)); // The queue rounds up.
        }
        assert_eq!(queue.take().unwrap().retry("no").unwrap(), Retried::Buried);
    }
    assert!(scattered > JOBS, "it is scattered: {scattered}");
    assert_eq!(queue.store_stats().unwrap().dead, JOBS);
}
