//! Leases are renewed while handlers run, and stale holders are fenced off.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::thread;
use std::time::Duration;

use sync_shim::Clock as _;

use durable_queue::internals::FIRST_PAUSE;
use durable_queue::store::{Act, Lease, Settle};
use durable_queue::{ErrorKind, LEASE, SettleError, Store, StoreClock as _, When};
use durable_queue_testing::{Call, Fault, SimStore};

use crate::support::{SECOND, Time, job, on_thread, steal};

/// Whether or not a call waits for another job.
#[testkit::test]
fn a_lease_is_renewed_while_its_handler_runs() {
    for is_wanted in [false, true] {
        let time = Time::new();
        let queue = time.queue(time.sim());
        queue.push(job("job"), When::NOW).unwrap();
        let taken = queue.take().unwrap();
        let taker = is_wanted.then(|| on_thread(&queue, |queue| queue.take().unwrap()));
        for _ in 0..20 {
            time.advance(LEASE / 3 + Duration::from_millis(1));
            time.clock.wait_for_sleepers(1);
            assert!(steal(queue.store()).is_empty());
            // Long before its end, which leaves time for retries.
            let listed = queue.list(None, 1).unwrap();
            assert!(listed[0].due.since(time.store.now()) >= LEASE / 2);
        }
        assert!(!taken.is_lost());
        taken.ack().unwrap();
        if let Some(taker) = taker {
            queue.push(job("other"), When::NOW).unwrap();
            taker.join().unwrap().ack().unwrap();
        }
    }
}

/// The handler hangs: its lease is renewed after thirds of a lease until the timeout, and then expires.
#[testkit::test]
fn a_lease_is_renewed_until_the_attempts_timeout_and_another_process_gets_the_job() {
    let time = Time::new();
    let queue = time.builder(time.sim()).attempt_timeout(LEASE).build();
    let queue = queue.unwrap();
    queue.push(job("job"), When::NOW).unwrap();
    let taken = queue.take().unwrap();
    let mut passed = Duration::ZERO;
    while !taken.is_lost() {
        assert!(steal(queue.store()).is_empty(), "after {passed:?}");
        // Steps are shorter than the time to a renewal, and are made only while the pump sleeps.
        time.advance(SECOND);
        passed += SECOND;
        assert!(passed <= LEASE * 2, "it is renewed for ever");
        // The pump sleeps again, or has no reason to wake.
        while !taken.is_lost()
            && time
                .clock
                .next_due()
                .is_none_or(|at| at <= time.clock.now())
        {
            std::thread::yield_now();
        }
    }
    assert!(
        passed > LEASE,
        "it was renewed until the timeout: {passed:?}"
    );
    assert_eq!(queue.stats().timed_out, 1);
    assert_eq!(steal(queue.store()).len(), 1);
    assert!(taken.ack().unwrap_err().is_stale());
    assert_eq!(queue.stats().timed_out, 1);
}

#[testkit::test]
fn a_handler_can_extend_its_lease_after_the_attempts_timeout() {
    let time = Time::new();
    let queue = time.builder(time.sim()).attempt_timeout(SECOND).build();
    let queue = queue.unwrap();
    queue.push(job("job"), When::NOW).unwrap();
    let taken = queue.take().unwrap();
    time.advance(LEASE / 2);
    time.clock.wait_for_sleepers(1);
    assert_eq!(queue.stats().timed_out, 1);
    taken.extend(LEASE * 2).unwrap();
    time.advance(LEASE * 2 - SECOND);
    time.clock.wait_for_sleepers(1);
    assert!(!taken.is_lost() && steal(queue.store()).is_empty());
    time.advance(SECOND);
    while !taken.is_lost() {
        std::thread::yield_now();
    }
    // Other processes can have the job. Until one does, the late handler can still settle it.
    taken.ack().unwrap();
    assert_eq!(queue.store_stats().unwrap().jobs, 0);
}

#[testkit::test]
fn without_a_heartbeat_a_lease_ends_unless_its_handler_extends_it() {
    let time = Time::new();
    let queue = time.builder(time.sim()).heartbeat(false).build().unwrap();
    queue.push(job("job"), When::NOW).unwrap();
    let taken = queue.take().unwrap();
    taken.extend(LEASE * 3).unwrap();
    time.clock.advance(LEASE * 3 - SECOND);
    assert!(steal(queue.store()).is_empty());
    time.clock.advance(SECOND);
    let stolen = steal(queue.store());
    assert_eq!(stolen.len(), 1);
    assert_eq!(stolen[0].id, taken.id());
}

#[testkit::test]
fn a_stale_holder_is_told_and_changes_nothing() {
    let time = Time::new();
    let queue = time.builder(time.sim()).heartbeat(false).build().unwrap();
    queue.push(job("job"), When::NOW).unwrap();
    let taken = queue.take().unwrap();
    time.clock.advance(LEASE);
    let [Lease { id, token, .. }] = steal(queue.store())[..] else {
        panic!("the lease has ended");
    };
    assert_eq!(
        taken.extend(LEASE).unwrap_err().to_string(),
        SettleError::Stale.to_string()
    );
    assert!(taken.is_lost());
    assert!(taken.ack().unwrap_err().is_stale());
    assert_eq!(queue.stats().stale, 1);
    let settle = Settle {
        id,
        token,
        act: Act::Ack,
    };
    let turn = queue.store().turn("queue", &[settle], None).unwrap();
    assert_eq!(
        turn.verdicts,
        [durable_queue::store::Verdict::Done],
        "the thief has it"
    );
}

/// The process sleeps for longer than the lease, and another one has the job when it wakes.
#[testkit::test]
fn a_renewal_that_finds_the_lease_lost_tells_the_handler() {
    let time = Time::new();
    // The pump's turns fail while the lease expires, as in a process without a connection.
    let cut_off = Arc::new(AtomicBool::new(false));
    let plan = {
        let cut_off = Arc::clone(&cut_off);
        move |call| match call {
            Call::Turn if cut_off.load(Relaxed) => Fault::Refused(ErrorKind::Unavailable),
            _ => Fault::None,
        }
    };
    let queue = time.queue(SimStore::with_faults(time.store.clone(), plan));
    queue.push(job("job"), When::NOW).unwrap();
    let taken = queue.take().unwrap();
    time.clock.wait_for_sleepers(1);
    cut_off.store(true, Relaxed); // The clock's lock orders it before the pump's next turn.
    time.clock.advance(LEASE);
    time.clock.wait_for_sleepers(1); // It has failed, and pauses.
    cut_off.store(false, Relaxed);
    assert_eq!(steal(queue.store()).len(), 1);
    assert!(!taken.is_lost());
    time.clock.advance(SECOND);
    while !taken.is_lost() {
        thread::yield_now();
    }
    assert!(taken.ack().unwrap_err().is_stale());
}

/// Whether or not the first attempt was carried out, another holder has the lease now.
#[testkit::test]
fn a_repeated_extension_that_finds_the_lease_lost_tells_the_handler() {
    let time = Time::new();
    let fails = Arc::new(AtomicBool::new(false));
    let plan = {
        let fails = Arc::clone(&fails);
        move |call| {
            // Relaxed: the command's lock orders it before the pump's next turn.
            if call == Call::Turn && fails.swap(false, Relaxed) {
                Fault::Before
            } else {
                Fault::None
            }
        }
    };
    let store = SimStore::with_faults(time.store.clone(), plan);
    let queue = time.builder(store).heartbeat(false).build().unwrap();
    queue.push(job("job"), When::NOW).unwrap();
    let taken = queue.take().unwrap();
    time.clock.advance(LEASE);
    fails.store(true, Relaxed);
    let extended = thread::scope(|scope| {
        let extender = scope.spawn(|| taken.extend(LEASE));
        time.clock.wait_for_sleepers(1); // The pump, after the error.
        assert_eq!(steal(queue.store()).len(), 1);
        time.clock.advance(FIRST_PAUSE);
        extender.join().unwrap()
    });
    assert!(taken.is_lost());
    assert!(extended.unwrap_err().is_stale());
    assert_eq!(queue.stats().stale, 1);
    assert!(taken.ack().unwrap_err().is_stale());
}
