//! Claims: at least once, never early, in order, and in batches.

use std::time::Duration;

use durable_queue::store::{Act, Claim, Claimed, Store, Verdict};
use durable_queue::{Merge, StoreTime, Token, When};

use super::{
    Fixture, HORIZON, LEASE, QUEUE, SECOND, claim_ahead, claim_of, claimed, ids, job, keyed, put,
    put_one, settle, start, start_one, turn,
};

const MICRO: Duration = Duration::from_micros(1);

/// Until then it is handed out again whenever its lease expires.
pub fn a_job_is_claimed_until_it_is_acknowledged(fixture: &impl Fixture) {
    let store = fixture.store();
    let id = put_one(store, job(b"job", When::NOW));
    for attempt in 1..=3 {
        let lease = start_one(store);
        assert_eq!((lease.id, lease.attempts), (id, attempt));
        assert_eq!(lease.payload, b"job");
        assert!(start(store).is_empty(), "it is held");
        fixture.advance(LEASE);
    }
    let lease = start_one(store);
    assert_eq!(settle(store, &lease, Act::Ack), Verdict::Done);
    fixture.advance(LEASE);
    assert!(start(store).is_empty());
    assert_eq!(settle(store, &lease, Act::Ack), Verdict::Stale);
}

/// Leases end by time alone.
pub fn a_job_of_a_dead_holder_is_claimed_again_when_the_lease_ends(fixture: &impl Fixture) {
    let store = fixture.store();
    let id = put_one(store, job(b"job", When::NOW));
    let dead = start_one(store);
    fixture.advance(LEASE - SECOND);
    assert!(start(store).is_empty(), "the lease lives");
    fixture.advance(SECOND);
    let next = start_one(&fixture.another());
    assert_eq!((next.id, next.attempts), (id, 2));
    assert_ne!(next.token, dead.token);
}

/// A claim without a start does not count as an attempt.
pub fn a_job_claimed_ahead_by_a_dead_holder_is_claimed_again(fixture: &impl Fixture) {
    let store = fixture.store();
    let id = put_one(store, job(b"job", HORIZON));
    assert_eq!(claim_ahead(store).id, id);
    fixture.advance(LEASE - SECOND);
    assert!(start(store).is_empty(), "the lease lives");
    fixture.advance(SECOND);
    let next = start_one(store);
    assert_eq!((next.id, next.attempts), (id, 1));
}

/// With any lease duration. Otherwise the job could be started twice.
pub fn a_claim_ahead_lasts_at_least_until_the_due_time(fixture: &impl Fixture) {
    let store = fixture.store();
    let id = put_one(store, keyed("key", b"job", HORIZON, Merge::Keep));
    let claim = Claim {
        lease: MICRO,
        ..claim_of(1, 0)
    };
    let ahead = turn(store, &[], Some(claim)).claimed.expect("a claim");
    assert_eq!(ids(&ahead.leases), [id]);
    fixture.advance(HORIZON / 2);
    assert!(claimed(store, 10, 10).leases.is_empty(), "it is held");
    fixture.advance(HORIZON / 2);
    let lease = start_one(store);
    assert_eq!(lease.id, id);
    assert_eq!(settle(store, &lease, Act::Ack), Verdict::Done);
}

/// By the claim's token.
pub fn held_by_finds_the_jobs_of_a_claim_whose_response_was_lost(fixture: &impl Fixture) {
    let store = fixture.store();
    put(
        store,
        &[
            job(b"now", When::NOW),
            job(b"soon", HORIZON),
            job(b"later", LEASE),
        ],
    );
    let claim = claim_of(10, 10);
    let answered = turn(store, &[], Some(claim))
        .claimed
        .expect("a claim")
        .leases;
    assert_eq!(answered.len(), 2);
    let held = || store.held_by(QUEUE, claim.token, LEASE).expect("an answer");
    let by_id = |mut leases: Vec<_>| {
        leases.sort_by_key(|lease: &durable_queue::store::Lease| lease.id);
        leases
    };
    assert_eq!(by_id(held()), by_id(answered.clone()));
    assert_eq!(settle(store, &answered[0], Act::Ack), Verdict::Done);
    assert_eq!(ids(&held()), [answered[1].id]);
    let other = store
        .held_by(QUEUE, Token::random(), LEASE)
        .expect("an answer");
    assert!(other.is_empty());
    let elsewhere = store
        .held_by("elsewhere", claim.token, LEASE)
        .expect("an answer");
    assert!(elsewhere.is_empty());
}

/// By the store's clock, to the microsecond.
pub fn a_job_is_not_claimed_before_the_horizon(fixture: &impl Fixture) {
    let store = fixture.store();
    let id = put_one(store, job(b"job", HORIZON + SECOND));
    assert!(claimed(store, 10, 10).leases.is_empty());
    fixture.advance(SECOND);
    let leases = claimed(store, 10, 10).leases;
    assert_eq!(ids(&leases), [id]);
    assert!(!leases[0].started, "its time has not come");
}

/// Also by its holder.
pub fn a_job_is_not_started_before_its_due_time(fixture: &impl Fixture) {
    let store = fixture.store();
    put_one(store, job(b"job", HORIZON));
    let lease = claim_ahead(store);
    let begin = Act::Start { lease: LEASE };
    fixture.advance(HORIZON - MICRO * 100_000);
    assert_eq!(settle(store, &lease, begin), Verdict::NotDue);
    assert!(start(store).is_empty(), "it is held as before");
    fixture.advance(MICRO * 100_000);
    assert_eq!(settle(store, &lease, begin), Verdict::Done);
    assert_eq!(settle(store, &lease, Act::Ack), Verdict::Done);
}

/// Across batches and pushes.
pub fn jobs_are_claimed_by_time_then_by_id(fixture: &impl Fixture) {
    let store = fixture.store();
    let later = put_one(store, job(b"later", SECOND * 2));
    let first = put(store, &[job(b"a", SECOND), job(b"b", SECOND)]);
    let at_once = put_one(store, job(b"now", When::NOW));
    fixture.advance(SECOND * 2);
    let expected = [at_once, first[0].id(), first[1].id(), later];
    assert_eq!(ids(&claimed(store, 2, 2).leases), expected[..2]);
    assert_eq!(ids(&claimed(store, 2, 0).leases), expected[2..]);
}

/// The time of a job is its due time or the end of its lease.
pub fn jobs_with_expired_leases_are_claimed_in_order_with_others(fixture: &impl Fixture) {
    let store = fixture.store();
    let first = put_one(store, job(b"first", LEASE));
    let held = put_one(store, job(b"held", When::NOW));
    assert_eq!(start_one(store).id, held);
    let last = put_one(store, job(b"last", LEASE));
    fixture.advance(LEASE);
    for expected in [first, held, last] {
        assert_eq!(start_one(store).id, expected);
    }
}

/// Of due jobs and of jobs claimed ahead.
pub fn a_claim_takes_no_more_than_it_asks_for(fixture: &impl Fixture) {
    let store = fixture.store();
    put(store, &[job(b"", When::NOW); 5]);
    put(store, &[job(b"", HORIZON); 5]);
    let started = |claimed: &Claimed| {
        let leases = &claimed.leases;
        (
            leases.len(),
            leases.iter().filter(|lease| lease.started).count(),
        )
    };
    assert_eq!(started(&claimed(store, 0, 0)), (0, 0));
    assert_eq!(started(&claimed(store, 1, 3)), (1, 1));
    assert_eq!(started(&claimed(store, 3, 1)), (3, 1));
    assert_eq!(
        started(&claimed(store, 3, 3)),
        (3, 1),
        "one is due, two are not"
    );
    put(store, &[job(b"", When::NOW)]);
    let claim = Claim {
        ahead: 1,
        ..claim_of(10, 3)
    };
    let found = turn(store, &[], Some(claim)).claimed.expect("a claim");
    assert_eq!(started(&found), (2, 1), "there is room for no more ahead");
    assert_eq!(started(&claimed(store, 10, 10)), (2, 0));
}

/// Due jobs come first, and `start` and `ahead` have separate limits.
pub fn a_claim_ahead_leaves_room_for_due_jobs(fixture: &impl Fixture) {
    let store = fixture.store();
    let soon = put_one(store, job(b"soon", HORIZON));
    let due = put_one(store, job(b"due", When::NOW));
    let claim = Claim {
        ahead: 0,
        ..claim_of(2, 2)
    };
    let found = turn(store, &[], Some(claim)).claimed.expect("a claim");
    assert_eq!(ids(&found.leases), [due]);
    let claim = Claim {
        ahead: 1,
        ..claim_of(2, 2)
    };
    let found = turn(store, &[], Some(claim)).claimed.expect("a claim");
    assert_eq!(ids(&found.leases), [soon]);
}

/// So that the caller can sleep until then.
pub fn a_claim_returns_when_the_next_one_would_find_a_job(fixture: &impl Fixture) {
    let store = fixture.store();
    let ask = |max| {
        let turn = turn(store, &[], Some(claim_of(max, max)));
        let Claimed {
            first, first_free, ..
        } = turn.claimed.expect("a claim");
        let from_now = |time: StoreTime| (time != StoreTime::NEVER).then(|| time.since(turn.now));
        (from_now(first), from_now(first_free))
    };
    // A clock that runs has advanced a little.
    let at = |seconds: u32| {
        move |found: Option<Duration>| {
            found
                .is_some_and(|found| found <= SECOND * seconds && SECOND * seconds - found < SECOND)
        }
    };
    let check = |(first, free): (Option<Duration>, Option<Duration>), expected: [u32; 2]| {
        assert!(
            at(expected[0])(first) && at(expected[1])(free),
            "{first:?}, {free:?}"
        );
    };
    assert_eq!(ask(1), (None, None), "there is nothing");
    put_one(store, job(b"never", StoreTime::NEVER));
    assert_eq!(ask(1), (None, None), "there is nothing that ever comes");
    put_one(store, job(b"far", SECOND * 60));
    check(ask(1), [60, 60]);
    put(store, &[job(b"now", When::NOW); 2]);
    check(ask(1), [0, 0]);
    assert_eq!(claim_of(1, 1).lease, SECOND * 30);
    check(ask(1), [30, 60]);
}

/// In one call, without a visible intermediate state.
pub fn a_turn_settles_the_last_batch_and_claims_the_next(fixture: &impl Fixture) {
    let store = fixture.store();
    put(
        store,
        &[
            job(b"1", When::NOW),
            job(b"2", When::NOW),
            job(b"3", When::NOW),
        ],
    );
    let first = claimed(store, 2, 2).leases;
    let settles = [
        first[0].settle(Act::Ack),
        first[1].settle(Act::retry(When::NOW)),
    ];
    let turn = turn(store, &settles, Some(claim_of(10, 10)));
    assert_eq!(turn.verdicts, [Verdict::Done; 2]);
    let mut next = ids(&turn.claimed.expect("a claim").leases);
    next.sort_unstable();
    assert_eq!(next[0], first[1].id, "what was retried is there again");
    assert_eq!(next.len(), 2);
}

/// Correctness only: the cost is checked by the query plans of each store.
pub fn delayed_jobs_do_not_hide_due_ones(fixture: &impl Fixture) {
    const DELAYED: usize = 200_000;
    let store = fixture.store();
    let batch = vec![job(b"delayed", SECOND * 3_600); DELAYED / 20];
    for _ in 0..20 {
        put(store, &batch);
    }
    let id = put_one(store, job(b"now", When::NOW));
    let claimed = claimed(store, 100, 100);
    assert_eq!(ids(&claimed.leases), [id]);
    assert_eq!(settle(store, &claimed.leases[0], Act::Ack), Verdict::Done);
}

/// Neither by claims nor by ids or keys.
pub fn queues_are_independent(fixture: &impl Fixture) {
    let store = fixture.store();
    let id = put_one(
        store,
        super::keyed("key", b"job", When::NOW, durable_queue::Merge::Keep),
    );
    let elsewhere = |claim: Claim| {
        let turn = store.turn("elsewhere", &[], Some(claim)).expect("a turn");
        turn.claimed.expect("a claim").leases
    };
    assert!(elsewhere(claim_of(10, 10)).is_empty());
    for which in [id.into(), "key".into()] {
        let cancelled = store.cancel("elsewhere", which).expect("an answer");
        assert_eq!(cancelled, durable_queue::Cancelled::Never);
        let reset = store
            .reset("elsewhere", which, When::NOW)
            .expect("an answer");
        assert_eq!(reset, durable_queue::Reset::Never);
    }
    assert_eq!(start_one(store).id, id);
}
