//! Serial keys: at most one job of each key runs at a time.

use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::thread;

use durable_queue::internals::SharedClock;
use durable_queue::store::{Act, Claim, Lease, Store, Verdict};
use durable_queue::{JobId, Merge, NewJob, Reset, StoreTime, When, Which};
use sync_shim::Clock as _;

use super::contents::{Heard, PATIENCE};
use super::{
    Fixture, HORIZON, LEASE, QUEUE, SECOND, claim_ahead, claim_of, claimed, ids, job, keyed, put,
    put_one, settle, start, start_one, turn,
};

fn push(store: &impl Store, key: &str, payload: &[u8]) -> JobId {
    put_one(store, keyed(key, payload, When::NOW, Merge::Keep))
}

/// Makes keys serial. Returns a running job of a key, and the id of another that is due.
fn one_runs_and_one_waits(store: &impl Store) -> (Lease, JobId) {
    store
        .serialize_keys(QUEUE, true)
        .expect("the store takes it");
    push(store, "key", b"first");
    let lease = start_one(store);
    let id = push(store, "key", b"second");
    assert!(start(store).is_empty(), "its key is held");
    (lease, id)
}

/// Starts two jobs of a key while keys are not serial.
fn two_that_run(store: &impl Store) -> [Lease; 2] {
    [&b"first"[..], b"second"].map(|payload| {
        push(store, "key", payload);
        start_one(store)
    })
}

/// Other jobs do not wait. The same key in another queue is a different key.
pub fn a_job_whose_key_is_held_waits(fixture: &impl Fixture) {
    let store = fixture.store();
    let elsewhere = keyed("key", b"elsewhere", When::NOW, Merge::Keep);
    store.enqueue("elsewhere", &[elsewhere]).expect("an answer");
    let (first, second) = one_runs_and_one_waits(store);
    let others = put(
        store,
        &[
            job(b"no key", When::NOW),
            keyed("another key", b"job", When::NOW, Merge::Keep),
        ],
    );
    fixture.advance(SECOND);
    let others: Vec<JobId> = others.iter().map(|put| put.id()).collect();
    assert_eq!(ids(&start(store)), others);
    assert_eq!(settle(store, &first, Act::Ack), Verdict::Done);
    assert_eq!(start_one(store).id, second);
}

/// A claim may postpone it, but its due time does not change.
pub fn a_job_that_waited_for_its_key_keeps_its_due_time(fixture: &impl Fixture) {
    let store = fixture.store();
    let (first, second) = one_runs_and_one_waits(store);
    let listed = store.list(QUEUE, None, 10).expect("a list");
    let listed = listed.iter().find(|job| job.id == second);
    let before = listed.expect("the job exists").clone();
    assert!(before.due > before.at);
    fixture.advance(SECOND);
    assert_eq!(settle(store, &first, Act::Ack), Verdict::Done);
    let listed = store.list(QUEUE, None, 10).expect("a list").remove(0);
    assert_eq!((listed.due, listed.at), (before.at, before.at));
    let lease = start_one(store);
    assert_eq!(
        (lease.id, lease.due, lease.attempts),
        (second, before.at, 1)
    );
}

/// Permanently.
pub fn each_end_of_a_job_frees_its_key(fixture: &impl Fixture) {
    let store = fixture.store();
    for act in [Act::Ack, Act::bury("no")] {
        let (first, second) = one_runs_and_one_waits(store);
        assert_eq!(settle(store, &first, act), Verdict::Done, "{act:?}");
        let lease = start_one(store);
        assert_eq!(lease.id, second, "{act:?}");
        assert_eq!(settle(store, &lease, Act::Ack), Verdict::Done);
        assert!(start(store).is_empty(), "{act:?}");
    }
}

/// Also if its next attempt is later than the other job's due time.
pub fn a_returning_job_is_not_overtaken_by_the_next_of_its_key(fixture: &impl Fixture) {
    let store = fixture.store();
    let back_off = SECOND * 100;
    let when = When::After(back_off);
    // The last job is reset after its holder has died.
    let acts = [Act::retry(when), Act::Release];
    for act in acts.map(Some).into_iter().chain([None]) {
        store
            .serialize_keys(QUEUE, true)
            .expect("the store takes it");
        // A repeating job that has not done its run is no exception.
        let first = NewJob {
            schedule: Some("hourly"),
            ..keyed("key", b"first", When::NOW, Merge::Keep)
        };
        let first = put_one(store, first);
        let lease = start_one(store);
        let second = push(store, "key", b"second");
        assert!(start(store).is_empty(), "its key is held");
        if let Some(act) = act {
            assert_eq!(settle(store, &lease, act), Verdict::Done);
        } else {
            fixture.advance(LEASE);
            let reset = store.reset(QUEUE, Which::Id(first), when);
            assert_eq!(reset.expect("a reset"), Reset::Moved);
        }
        if !matches!(act, Some(Act::Release)) {
            assert!(start(store).is_empty(), "{act:?}");
            fixture.advance(back_off);
        }
        let begun = start(store);
        assert_eq!(ids(&begun), [first], "{act:?}");
        assert_eq!(settle(store, &begun[0], Act::Ack), Verdict::Done);
        let lease = start_one(store);
        assert_eq!((lease.id, &lease.payload[..]), (second, &b"second"[..]));
        assert_eq!(settle(store, &lease, Act::Ack), Verdict::Done);
    }
}

/// Otherwise it would wait forever, because a repeating job does not end. A repeating job whose time has come is next.
pub fn a_job_runs_between_the_runs_of_the_repeating_job_of_its_key(fixture: &impl Fixture) {
    let store = fixture.store();
    let when = When::After(SECOND * 100);
    store
        .serialize_keys(QUEUE, true)
        .expect("the store takes it");
    let repeating = NewJob {
        schedule: Some("hourly"),
        ..keyed("key", b"repeating", When::NOW, Merge::Keep)
    };
    let repeating = put_one(store, repeating);
    let run = start_one(store);
    let second = push(store, "key", b"second");
    assert!(start(store).is_empty(), "its key is held");
    assert_eq!(settle(store, &run, Act::Again { when }), Verdict::Done);
    let lease = start_one(store);
    assert_eq!(lease.id, second);
    let third = push(store, "key", b"third");
    assert!(start(store).is_empty(), "its key is held");
    fixture.advance(SECOND * 100);
    let extend = Act::Extend { lease: LEASE };
    assert_eq!(settle(store, &lease, extend), Verdict::Done);
    assert_eq!(settle(store, &lease, Act::Ack), Verdict::Done);
    let past = StoreTime::from_micros(0);
    let reset = store.reset(QUEUE, Which::Id(third), past.into());
    assert_eq!(reset.expect("a reset"), Reset::Moved);
    let run = start_one(store);
    assert_eq!(run.id, repeating);
    assert!(start(store).is_empty(), "its key is held");
    // Also if the next time is set by a reset.
    assert_eq!(settle(store, &run, Act::Release), Verdict::Done);
    let reset = store.reset(QUEUE, Which::Id(repeating), (SECOND * 200).into());
    assert_eq!(reset.expect("a reset"), Reset::Moved);
    assert_eq!(start_one(store).id, third);
}

/// And notifies watches.
pub fn a_cancel_of_a_waiting_job_frees_its_key(fixture: &impl Fixture) {
    let store = fixture.store();
    let (first, second) = one_runs_and_one_waits(store);
    let retry = Act::retry((SECOND * 100).into());
    assert_eq!(settle(store, &first, retry), Verdict::Done);
    assert!(start(store).is_empty());
    let heard = Heard::new();
    let mut watch = store.watch(QUEUE, heard.notifier()).expect("a watch");
    heard.earliest();
    let cancelled = store.cancel(QUEUE, Which::Id(first.id)).expect("an answer");
    assert!(cancelled.is_gone());
    heard.is_announced(&mut *watch, "the key");
    assert_eq!(start_one(store).id, second);
}

/// A running job keeps its lease.
pub fn a_cancel_of_another_job_of_the_key_keeps_the_running_jobs_lease(fixture: &impl Fixture) {
    let store = fixture.store();
    let (first, second) = one_runs_and_one_waits(store);
    let cancelled = store.cancel(QUEUE, Which::Id(second)).expect("an answer");
    assert!(cancelled.is_gone());
    fixture.advance(LEASE - SECOND);
    assert!(start(store).is_empty(), "the lease lives");
    assert_eq!(settle(store, &first, Act::Ack), Verdict::Done);
}

/// Also within the same turn.
pub fn a_turn_that_frees_a_key_claims_the_waiting_job(fixture: &impl Fixture) {
    let store = fixture.store();
    let (first, second) = one_runs_and_one_waits(store);
    let ack = first.settle(Act::Ack);
    let answer = turn(store, &[ack], Some(claim_of(1, 1)));
    let leases = answer.claimed.expect("a claim was asked for").leases;
    assert_eq!(ids(&leases), [second]);
}

/// A stale settle must not affect a job that waits for its key, or that another holder has.
pub fn a_stale_settle_does_not_affect_other_jobs_of_its_key(fixture: &impl Fixture) {
    let store = fixture.store();
    let acked = |leases: &[&Lease]| {
        let settles: Vec<_> = leases.iter().map(|lease| lease.settle(Act::Ack)).collect();
        let answer = turn(store, &settles, Some(claim_of(1, 1)));
        let leases = answer.claimed.expect("a claim was asked for").leases;
        (answer.verdicts, leases)
    };
    let [given_back, last] = two_that_run(store);
    store
        .serialize_keys(QUEUE, true)
        .expect("the store takes it");
    assert_eq!(settle(store, &given_back, Act::Release), Verdict::Done);
    assert!(start(store).is_empty(), "its key is held");
    let (verdicts, leases) = acked(&[&given_back, &last]);
    assert_eq!(verdicts, [Verdict::Stale, Verdict::Done]);
    assert_eq!(ids(&leases), [given_back.id]);
    assert_eq!(settle(store, &leases[0], Act::Ack), Verdict::Done);

    let (dead, waiting) = one_runs_and_one_waits(store);
    fixture.advance(LEASE);
    assert_eq!(start_one(store).id, dead.id);
    let reset = store.reset(QUEUE, Which::Id(waiting), When::NOW);
    assert_eq!(reset.expect("a reset"), Reset::Moved);
    let (verdicts, leases) = acked(&[&dead]);
    assert_eq!((verdicts, leases), (vec![Verdict::Stale], vec![]));
}

/// It is as stale as one of another holder.
pub fn an_ack_of_a_job_that_was_not_started_frees_no_key(fixture: &impl Fixture) {
    let store = fixture.store();
    let both = two_that_run(store);
    store
        .serialize_keys(QUEUE, true)
        .expect("the store takes it");
    for lease in &both {
        let retried = settle(store, lease, Act::retry(When::NOW));
        assert_eq!(retried, Verdict::Done);
    }
    let held = claim_ahead(store);
    fixture.advance(SECOND);
    assert!(start(store).is_empty(), "its key is held");
    let waits_until = || {
        let jobs = store.list(QUEUE, None, 2).expect("a list");
        let other = jobs.iter().find(|job| job.id != held.id);
        other.expect("two jobs").due
    };
    let until = waits_until();
    assert!(until > held.due.after(LEASE / 2), "it was postponed");
    assert_eq!(settle(store, &held, Act::Ack), Verdict::Stale);
    assert_eq!(waits_until(), until);
}

/// But no longer.
pub fn an_extended_lease_keeps_its_key(fixture: &impl Fixture) {
    let store = fixture.store();
    let (first, second) = one_runs_and_one_waits(store);
    fixture.advance(LEASE - SECOND);
    let extend = Act::Extend { lease: LEASE };
    assert_eq!(settle(store, &first, extend), Verdict::Done);
    for _ in 0..2 {
        fixture.advance(LEASE / 2 - SECOND);
        assert!(claimed(store, 10, 10).leases.is_empty());
    }
    fixture.advance(SECOND * 2 + HORIZON);
    let leases = start(store);
    assert_eq!(leases.len(), 1, "both are due, and one may run");
    assert!([first.id, second].contains(&leases[0].id));
}

/// Then its job is the next one of the key, and the previous holder is fenced off.
pub fn a_dead_holder_keeps_its_key_until_its_lease_ends(fixture: &impl Fixture) {
    let store = fixture.store();
    let (first, second) = one_runs_and_one_waits(store);
    fixture.advance(LEASE + HORIZON);
    let past = StoreTime::from_micros(0);
    let reset = store.reset(QUEUE, Which::Id(second), past.into());
    assert_eq!(reset.expect("a reset"), Reset::Moved);
    let lease = start_one(store);
    // The attempt of a dead holder counts.
    assert_eq!((lease.id, lease.attempts), (first.id, 2));
    let act = Act::Extend { lease: LEASE };
    assert_eq!(settle(store, &first, act), Verdict::Stale);
    assert!(start(store).is_empty(), "both are due, and one may run");
    assert_eq!(settle(store, &lease, Act::Ack), Verdict::Done);
    let lease = start_one(store);
    assert_eq!((lease.id, lease.attempts), (second, 1));
    assert_eq!(settle(store, &lease, Act::Ack), Verdict::Done);
}

/// Both were started before keys were serial. The open job waits for both.
pub fn a_returning_job_waits_for_a_running_job_of_its_key(fixture: &impl Fixture) {
    let store = fixture.store();
    let [first, second] = two_that_run(store);
    push(store, "key", b"open");
    store
        .serialize_keys(QUEUE, true)
        .expect("the store takes it");
    let retry = Act::retry(When::NOW);
    assert_eq!(settle(store, &first, retry), Verdict::Done);
    assert!(start(store).is_empty());
    assert_eq!(settle(store, &second, Act::Ack), Verdict::Done);
    assert_eq!(start_one(store).id, first.id);
}

/// If two jobs were started before keys were serial, a claim of one fences off the holder of the other.
pub fn a_claim_fences_off_stale_holders_of_the_key(fixture: &impl Fixture) {
    let store = fixture.store();
    let [first, second] = two_that_run(store);
    store
        .serialize_keys(QUEUE, true)
        .expect("the store takes it");
    fixture.advance(LEASE);
    let lease = start_one(store);
    let other = if lease.id == first.id {
        &second
    } else {
        &first
    };
    let act = Act::Extend { lease: LEASE };
    assert_eq!(settle(store, other, act), Verdict::Stale);
    assert!(start(store).is_empty());
    assert_eq!(settle(store, &lease, Act::Ack), Verdict::Done);
    assert_eq!(start_one(store).id, other.id);
}

/// The holder is late, but no other job of the key was claimed.
pub fn an_expired_lease_is_valid_until_its_key_is_claimed(fixture: &impl Fixture) {
    let store = fixture.store();
    let (first, second) = one_runs_and_one_waits(store);
    fixture.advance(LEASE + HORIZON);
    let extend = Act::Extend { lease: LEASE };
    assert_eq!(settle(store, &first, extend), Verdict::Done);
    assert!(start(store).is_empty());
    assert_eq!(settle(store, &first, Act::Ack), Verdict::Done);
    assert_eq!(start_one(store).id, second);
}

/// The next job of the key is not claimed at the same time.
pub fn a_job_claimed_ahead_holds_its_key(fixture: &impl Fixture) {
    let store = fixture.store();
    let (first, second) = one_runs_and_one_waits(store);
    let retry = Act::retry(HORIZON.into());
    assert_eq!(settle(store, &first, retry), Verdict::Done);
    let lease = claim_ahead(store);
    assert_eq!(lease.id, first.id);
    fixture.advance(SECOND);
    assert!(start(store).is_empty(), "the key is held");
    assert_eq!(
        settle(store, &lease, Act::Start { lease: LEASE }),
        Verdict::Done
    );
    assert!(start(store).is_empty());
    assert_eq!(settle(store, &lease, Act::Ack), Verdict::Done);
    assert_eq!(start_one(store).id, second);
}

/// A claim returns as many jobs with free keys as it asks for.
pub fn jobs_that_wait_for_their_key_hide_no_others(fixture: &impl Fixture) {
    let store = fixture.store();
    store
        .serialize_keys(QUEUE, true)
        .expect("the store takes it");
    let keys = ["a", "b", "c"];
    for key in keys {
        push(store, key, b"runs");
    }
    assert_eq!(start(store).len(), 3);
    for key in keys {
        push(store, key, b"waits");
    }
    let free = put(store, &[job(b"free", When::NOW), job(b"free", When::NOW)]);
    let free: Vec<JobId> = free.iter().map(|put| put.id()).collect();
    let claimed = claimed(store, 2, 2);
    assert_eq!(ids(&claimed.leases), free);
    assert!(claimed.leases.iter().all(|lease| lease.started));
}

/// Also a claim that finds no job: the result is the end of a lease at the latest.
pub fn a_claim_returns_when_a_key_is_free_at_the_latest(fixture: &impl Fixture) {
    let store = fixture.store();
    one_runs_and_one_waits(store);
    let answer = turn(store, &[], Some(claim_of(10, 10)));
    let claimed = answer.claimed.expect("a claim was asked for");
    assert!(answer.now < claimed.first && claimed.first <= answer.now.after(LEASE));
    assert_eq!(claimed.first_free, claimed.first.after(HORIZON));
}

/// Also if an acknowledgement frees it, which is not announced otherwise.
pub fn a_freed_key_is_announced_to_watches(fixture: &impl Fixture) {
    let store = fixture.store();
    let heard = Heard::new();
    let (first, second) = one_runs_and_one_waits(store);
    let mut watch = store.watch(QUEUE, heard.notifier()).expect("a watch");
    heard.earliest();
    assert_eq!(settle(store, &first, Act::Ack), Verdict::Done);
    heard.is_announced(&mut *watch, "the key");
    assert_eq!(start_one(store).id, second);
}

/// Jobs that ran at the same time are settled as usual.
pub fn serial_keys_can_be_disabled(fixture: &impl Fixture) {
    let store = fixture.store();
    assert!(!store.stats(QUEUE).expect("figures").serial_keys);
    let [first, second] = two_that_run(store);
    store
        .serialize_keys(QUEUE, true)
        .expect("the store takes it");
    assert!(store.stats(QUEUE).expect("figures").serial_keys);
    let third = push(store, "key", b"third");
    assert!(start(store).is_empty());
    assert_eq!(settle(store, &first, Act::Ack), Verdict::Done);
    assert!(start(store).is_empty(), "the second still runs");
    assert_eq!(settle(store, &second, Act::Ack), Verdict::Done);
    let lease = start_one(store);
    assert_eq!(lease.id, third);
    store
        .serialize_keys(QUEUE, false)
        .expect("the store takes it");
    let fourth = push(store, "key", b"fourth");
    assert_eq!(start_one(store).id, fourth);
    assert_eq!(settle(store, &lease, Act::Ack), Verdict::Done);
}

/// And no job waits for a free key: no lease ends by itself in this test.
pub fn one_job_of_a_key_runs_at_a_time_across_processes(fixture: &impl Fixture) {
    const THREADS: usize = 4;
    const ROUNDS: usize = 30;
    const KEYS: [&str; 3] = ["a", "b", "c"];
    let store = fixture.store();
    store
        .serialize_keys(QUEUE, true)
        .expect("the store takes it");
    let clock = SharedClock::default();
    let deadline = clock.now() + PATIENCE;
    let runs: [AtomicBool; KEYS.len()] = Default::default();
    let turn_of = |store: &_, act: Act<'_>| {
        // No claims ahead: a key that another claim held at their start may be free at this one's.
        let claim = Claim {
            ahead: 0,
            ..claim_of(10, 10)
        };
        let claimed = turn(store, &[], Some(claim)).claimed;
        for lease in &claimed.expect("a claim was asked for").leases {
            let key = KEYS
                .iter()
                .position(|key| lease.key.as_deref() == Some(key.as_bytes()));
            let runs = &runs[key.expect("all have one")];
            assert!(!runs.swap(true, SeqCst), "two of one key");
            thread::yield_now();
            runs.store(false, SeqCst);
            assert_eq!(settle(store, lease, act), Verdict::Done);
        }
    };
    let others: Vec<_> = (0..THREADS).map(|_| fixture.another()).collect();
    thread::scope(|scope| {
        for (number, store) in others.iter().enumerate() {
            let turn_of = &turn_of;
            scope.spawn(move || {
                for round in 0..ROUNDS {
                    push(store, KEYS[(number + round) % KEYS.len()], b"job");
                    let acts = [Act::Ack, Act::Release, Act::retry(When::NOW)];
                    turn_of(store, acts[round % acts.len()]);
                }
            });
        }
    });
    while store.stats(QUEUE).expect("figures").jobs > 0 {
        assert!(clock.now() < deadline, "a job waits for a key that is free");
        turn_of(store, Act::Ack);
    }
}

/// Other queues are unaffected.
pub fn a_pause_and_serial_keys_apply_to_one_queue(fixture: &impl Fixture) {
    const OTHER: &str = "other";
    let store = fixture.store();
    let push = || {
        for queue in [QUEUE, OTHER] {
            let job = keyed("key", b"job", When::NOW, Merge::Keep);
            store.enqueue(queue, &[job]).expect("the store takes jobs");
        }
    };
    // Starts jobs of both queues.
    let starts = || {
        [QUEUE, OTHER].map(|queue| {
            let turn = store.turn(queue, &[], Some(claim_of(10, 10)));
            let claimed = turn.expect("the store takes turns").claimed;
            claimed.expect("a claim was asked for").leases.len()
        })
    };
    push();
    store.pause(QUEUE, true).expect("an answer");
    store.serialize_keys(QUEUE, true).expect("an answer");
    let settings = |queue| {
        let figures = store.stats(queue).expect("figures");
        (figures.paused, figures.serial_keys)
    };
    assert_eq!(settings(QUEUE), (true, true));
    assert_eq!(settings(OTHER), (false, false));
    assert_eq!(starts(), [0, 1]);
    store.pause(QUEUE, false).expect("an answer");
    assert_eq!(starts(), [1, 0]);
    push();
    assert_eq!(starts(), [0, 1], "another job of its key runs");
}
