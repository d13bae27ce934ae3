//! Jobs are handed out at their due times, never early, also to calls that come later.

use std::num::NonZeroUsize;
use std::pin::pin;
use std::task::{Context, Poll};
use std::time::Duration;

use durable_queue::internals::SAFETY_LOOK;
use durable_queue::store::JobState;
use durable_queue::{Cancelled, HORIZON, Merge, Put, Reset, TakeError, When};
use durable_queue_testing::{Call, Fault, SimStore};
use testkit::{CountingWaker, block_on};

use crate::support::{SECOND, Time, job, on_thread};

#[testkit::test]
fn a_job_is_handed_out_at_its_due_time_and_not_before() {
    let time = Time::new();
    let queue = time.queue(time.sim());
    queue.push(job("later"), SECOND * 10).unwrap();
    let taker = on_thread(&queue, |queue| queue.take().unwrap());
    time.advance(SECOND * 10 - HORIZON);
    time.advance(HORIZON - Duration::from_micros(1));
    time.clock.wait_for_sleepers(1);
    assert!(!taker.is_finished());
    assert_eq!(queue.stats().taken, 0, "it is claimed, and not started");
    assert_eq!(queue.store_stats().unwrap().due, 0);
    time.advance(Duration::from_micros(1));
    let taken = taker.join().unwrap();
    assert_eq!((&**taken, taken.attempt()), ("later", 1));
    taken.ack().unwrap();
    assert_eq!(queue.store_stats().unwrap().jobs, 0);
}

#[testkit::test]
fn a_push_reaches_a_waiting_call() {
    let time = Time::new();
    let queue = time.queue(time.sim());
    let taker = on_thread(&queue, |queue| queue.take().unwrap().clone());
    time.clock.wait_for_sleepers(1); // The pump has found no job.
    queue.push(job("now"), When::NOW).unwrap();
    assert_eq!(taker.join().unwrap(), "now");
}

#[testkit::test]
fn an_earlier_push_overtakes_a_claim_ahead() {
    let time = Time::new();
    let queue = time.queue(time.sim());
    queue.push(job("ahead"), HORIZON).unwrap();
    let taker = on_thread(&queue, |queue| {
        let taken = queue.take().unwrap();
        let text = taken.clone();
        taken.ack().unwrap();
        text
    });
    time.clock.wait_for_sleepers(1); // It is claimed.
    queue.push(job("now"), When::NOW).unwrap();
    assert_eq!(taker.join().unwrap(), "now");
    // A job claimed ahead is released if no call wants it at its due time.
    time.advance(HORIZON);
    let other = time.queue(queue.store().clone());
    assert_eq!(**other.take().unwrap(), *"ahead");
}

#[testkit::test]
fn a_cancel_beats_a_claim_ahead() {
    let time = Time::new();
    let queue = time.queue(time.sim());
    let id = queue.push(job("cancelled"), HORIZON).unwrap();
    queue.push(job("kept"), HORIZON).unwrap();
    let taker = on_thread(&queue, |queue| {
        let most = NonZeroUsize::new(2).unwrap();
        let taken = queue.take_many(most).unwrap();
        taken.iter().map(|job| job.to_string()).collect::<Vec<_>>()
    });
    time.clock.wait_for_sleepers(1); // Both are claimed.
    let Cancelled::Gone {
        payload,
        attempts: 0,
    } = queue.cancel(id).unwrap()
    else {
        panic!("no handler has it");
    };
    assert_eq!(payload, "cancelled");
    time.advance(HORIZON);
    assert_eq!(taker.join().unwrap(), ["kept"]);
    assert_eq!(queue.cancel(id).unwrap(), Cancelled::Never);
}

#[testkit::test]
fn a_reset_to_an_earlier_time_reaches_a_waiting_call() {
    let time = Time::new();
    let queue = time.queue(time.sim());
    let id = queue.push(job("moved"), SECOND * 60).unwrap();
    let taker = on_thread(&queue, |queue| queue.take().unwrap().id());
    time.clock.wait_for_sleepers(1);
    assert_eq!(queue.reset(id, When::NOW).unwrap(), Reset::Moved);
    assert_eq!(taker.join().unwrap(), id);
}

#[testkit::test]
fn a_key_is_merged_by_its_policy() {
    let time = Time::new();
    let queue = time.queue(time.sim());
    let push = |text, merge| {
        queue
            .push_keyed("key", job(text), When::NOW, merge)
            .unwrap()
    };
    let Put::New(id) = push("first", Merge::Keep) else {
        panic!("the key is free");
    };
    assert_eq!(push("second", Merge::Earliest), Put::Merged(id));
    let taken = queue.take().unwrap();
    assert_eq!((&**taken, taken.key()), ("second", Some(&b"key"[..])));
    assert_eq!(queue.cancel("key").unwrap(), Cancelled::Taken);
    taken.ack().unwrap();
}

#[testkit::test]
fn take_many_takes_due_jobs_and_does_not_wait_for_more() {
    let time = Time::new();
    let queue = time.queue(time.sim());
    let jobs = (0..5).map(|index| (index.to_string(), When::NOW)).collect();
    assert_eq!(queue.push_batch(jobs).unwrap().len(), 5);
    let most = |most| NonZeroUsize::new(most).unwrap();
    let first = queue.take_many(most(3)).unwrap();
    let rest = queue.take_many(most(10)).unwrap();
    let texts: Vec<&str> = first.iter().chain(&rest).map(|job| &***job).collect();
    assert_eq!(texts, ["0", "1", "2", "3", "4"]);
    assert!(
        queue.stats().turns <= 3,
        "a batch is claimed and started in one turn"
    );
}

#[testkit::test]
fn a_call_that_times_out_leaves_nothing_behind() {
    let time = Time::new();
    let queue = time.queue(time.sim());
    queue.push(job("job"), HORIZON).unwrap();
    let taker = on_thread(&queue, |queue| queue.take_timeout(HORIZON / 2).unwrap_err());
    time.clock.wait_for_sleepers(2); // The pump, which has claimed it, and the call.
    time.clock.advance(HORIZON / 2);
    assert!(matches!(taker.join().unwrap(), TakeError::TimedOut));
    time.advance(HORIZON / 2);
    let other = time.queue(queue.store().clone());
    assert_eq!(**other.take().unwrap(), *"job");
}

#[testkit::test]
fn a_future_is_woken_when_its_job_is_due() {
    let time = Time::new();
    let queue = time.queue(time.sim());
    queue.push(job("later"), SECOND * 10).unwrap();
    let mut future = pin!(queue.take_async());
    let counter = CountingWaker::new();
    let waker = counter.waker();
    let mut context = Context::from_waker(&waker);
    assert!(future.as_mut().poll(&mut context).is_pending());
    time.advance(SECOND * 10 - HORIZON);
    time.advance(HORIZON);
    counter.wait_for_wakes(1);
    let Poll::Ready(taken) = future.as_mut().poll(&mut context) else {
        panic!("it was woken for this");
    };
    let acked = taken.unwrap().ack_async();
    block_on(acked).unwrap();
    assert_eq!(queue.store_stats().unwrap().jobs, 0);
}

#[testkit::test]
fn a_future_dropped_before_it_is_ready_releases_its_job() {
    let time = Time::new();
    let queue = time.queue(time.sim());
    {
        let mut future = pin!(queue.take_async());
        let counter = CountingWaker::new();
        let waker = counter.waker();
        assert!(
            future
                .as_mut()
                .poll(&mut Context::from_waker(&waker))
                .is_pending()
        );
        queue.push(job("job"), When::NOW).unwrap();
        counter.wait_for_wakes(1);
    }
    let other = time.queue(queue.store().clone());
    let taken = other.take().unwrap();
    assert_eq!(
        (&**taken, taken.attempt()),
        ("job", 1),
        "an attempt that never began"
    );
}

#[test]
fn a_process_that_only_pushes_makes_no_turns() {
    let time = Time::new();
    let queue = time.queue(time.sim());
    queue.push(job("job"), When::NOW).unwrap();
    assert_eq!(queue.stats().turns, 0);
    assert_eq!(time.clock.sleepers(), 0);
}

#[testkit::test]
fn a_paused_queue_hands_out_nothing_until_it_resumes() {
    let time = Time::new();
    let queue = time.queue(time.sim());
    queue.push(job("ahead"), HORIZON).unwrap();
    let taker = on_thread(&queue, |queue| queue.take().unwrap().clone());
    time.clock.wait_for_sleepers(1);
    queue.pause(true).unwrap();
    time.advance(SECOND);
    time.clock.wait_for_sleepers(1);
    assert!(!taker.is_finished());
    assert_eq!(queue.store_stats().unwrap().due, 1, "it was given back");
    queue.pause(false).unwrap();
    assert_eq!(taker.join().unwrap(), "ahead");
}

#[testkit::test]
fn claims_exceed_the_demand_by_at_most_the_prefetch() {
    let time = Time::new();
    let queue = time.builder(time.sim()).prefetch(2).build().unwrap();
    let jobs = (0..5).map(|index| (index.to_string(), When::NOW)).collect();
    queue.push_batch(jobs).unwrap();
    let first = queue.take().unwrap();
    assert_eq!(
        queue.store_stats().unwrap().due,
        2,
        "one is taken, two are at hand"
    );
    let second = queue.take().unwrap();
    assert_eq!((&**first, &**second), ("0", "1"));
}

/// However often it claims, and although there are more jobs.
#[testkit::test]
fn claims_ahead_do_not_exceed_the_demand_and_the_prefetch() {
    let time = Time::new();
    let queue = time.builder(time.sim()).prefetch(2).build().unwrap();
    let when = When::After(HORIZON);
    let jobs = (0..9).map(|index| (index.to_string(), when)).collect();
    queue.push_batch(jobs).unwrap();
    let taker = on_thread(&queue, |queue| queue.take().unwrap());
    time.clock.wait_for_sleepers(1);
    let listed = queue.list(None, 10).unwrap();
    let held = listed.iter().filter(|job| job.state == JobState::Claimed);
    assert_eq!(held.count(), 3);
    time.clock.advance(HORIZON);
    assert_eq!(&**taker.join().unwrap(), "0");
}

/// A push, a reset, and the end of a pause make a job due earlier.
#[testkit::test]
fn an_unannounced_job_is_found_by_the_safety_look_and_not_before() {
    for lost in [Call::Enqueue, Call::Reset, Call::Pause] {
        let time = Time::new();
        let plan = move |call| {
            if call == lost {
                Fault::Unheard
            } else {
                Fault::None
            }
        };
        let queue = time.queue(SimStore::with_faults(time.store.clone(), plan));
        let far = SAFETY_LOOK * 10;
        let put = |when| queue.push(job("job"), when).unwrap();
        let (early, is_paused) = (lost == Call::Reset, lost == Call::Pause);
        let id = early.then(|| put(far.into()));
        queue.pause(is_paused).unwrap();
        if is_paused {
            put(When::NOW);
        }
        let taker = on_thread(&queue, |queue| queue.take().unwrap());
        time.clock.wait_for_sleepers(1);
        match (id, is_paused) {
            (Some(id), _) => assert_eq!(queue.reset(id, When::NOW).unwrap(), Reset::Moved),
            (None, true) => queue.pause(false).unwrap(),
            (None, false) => _ = put(When::NOW),
        }
        let turns = queue.stats().turns;
        time.advance(SAFETY_LOOK - Duration::from_micros(1));
        time.clock.wait_for_sleepers(1);
        assert_eq!((queue.stats().turns, queue.stats().taken), (turns, 0));
        time.advance(Duration::from_micros(1));
        taker.join().unwrap().ack().unwrap();
    }
}
