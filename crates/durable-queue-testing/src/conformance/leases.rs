//! Leases, fencing, and races of other calls with a holder.

use durable_queue::store::{Act, Claim, Lease, Store, Verdict};
use durable_queue::{Cancelled, JobId, Merge, Reset, When};

use super::{
    Fixture, HORIZON, LEASE, QUEUE, REJECT, SECOND, claim_ahead, claim_of, claim_unconfirmed,
    claimed, job, keyed, put_one, settle, start, start_one, turn,
};

const ALL: [Act<'static>; 7] = [
    Act::Start { lease: LEASE },
    Act::Extend { lease: LEASE },
    Act::Ack,
    Act::Again { when: When::NOW },
    Act::retry(When::NOW),
    Act::bury("no"),
    Act::Release,
];

fn cancel(store: &impl Store, id: JobId) -> Cancelled {
    store.cancel(QUEUE, id.into()).expect("an answer")
}

fn reset(store: &impl Store, id: JobId, when: impl Into<When>) -> Reset {
    store
        .reset(QUEUE, id.into(), when.into())
        .expect("an answer")
}

fn is_fenced_off(store: &impl Store, lease: &Lease) {
    for act in ALL {
        assert_eq!(settle(store, lease, act), Verdict::Stale, "{act:?}");
    }
}

/// By any settle.
pub fn a_stale_holder_changes_nothing(fixture: &impl Fixture) {
    let store = fixture.store();
    put_one(store, job(b"job", When::NOW));
    let zombie = start_one(store);
    fixture.advance(LEASE);
    let holder = start_one(store);
    is_fenced_off(store, &zombie);
    assert!(start(store).is_empty(), "the holder has it still");
    assert_eq!(settle(store, &holder, Act::Ack), Verdict::Done);
    assert_eq!(store.stats(QUEUE).expect("figures").dead, 0);
}

/// Until the job is claimed again, its holder may continue.
pub fn an_expired_lease_is_valid_until_the_job_is_claimed(fixture: &impl Fixture) {
    let store = fixture.store();
    put_one(store, job(b"job", When::NOW));
    let lease = start_one(store);
    fixture.advance(LEASE * 2);
    assert_eq!(
        settle(store, &lease, Act::Extend { lease: LEASE }),
        Verdict::Done
    );
    assert!(start(store).is_empty(), "it is held again");
    assert_eq!(settle(store, &lease, Act::Ack), Verdict::Done);
}

/// Claims ahead take only jobs without a lease, not those whose leases will end within the horizon.
pub fn a_live_lease_is_not_claimed_ahead(fixture: &impl Fixture) {
    let store = fixture.store();
    put_one(store, job(b"job", When::NOW));
    let lease = start_one(store);
    fixture.advance(LEASE - HORIZON / 2);
    assert!(claimed(store, 10, 10).leases.is_empty());
    assert_eq!(settle(store, &lease, Act::Ack), Verdict::Done);
}

/// Counted from the extension.
pub fn an_extended_lease_ends_later(fixture: &impl Fixture) {
    let store = fixture.store();
    let id = put_one(store, job(b"job", When::NOW));
    let lease = start_one(store);
    for _ in 0..3 {
        fixture.advance(LEASE - SECOND);
        assert!(start(store).is_empty());
        assert_eq!(
            settle(store, &lease, Act::Extend { lease: LEASE }),
            Verdict::Done
        );
    }
    fixture.advance(LEASE);
    assert_eq!(start_one(store).id, id);
}

/// Its first response may have been lost.
pub fn a_repeated_start_counts_once(fixture: &impl Fixture) {
    let store = fixture.store();
    put_one(store, job(b"job", HORIZON));
    let lease = claim_ahead(store);
    fixture.advance(HORIZON);
    for _ in 0..2 {
        assert_eq!(
            settle(store, &lease, Act::Start { lease: LEASE }),
            Verdict::Done
        );
    }
    assert_eq!(settle(store, &lease, Act::retry(When::NOW)), Verdict::Done);
    assert_eq!(start_one(store).attempts, 2);
}

/// It can only be started or released.
pub fn a_job_that_was_not_started_cannot_be_settled(fixture: &impl Fixture) {
    let store = fixture.store();
    put_one(store, job(b"job", HORIZON));
    let lease = claim_ahead(store);
    for act in &ALL[1..6] {
        assert_eq!(settle(store, &lease, *act), Verdict::Stale, "{act:?}");
    }
    fixture.advance(HORIZON);
    assert_eq!(
        settle(store, &lease, Act::Start { lease: LEASE }),
        Verdict::Done
    );
    assert_eq!(settle(store, &lease, Act::Ack), Verdict::Done);
}

/// The payload is returned, and the job is not handed out.
pub fn a_successful_cancel_is_final(fixture: &impl Fixture) {
    let store = fixture.store();
    let id = put_one(store, job(b"job", SECOND));
    let expected = Cancelled::Gone {
        payload: b"job".to_vec(),
        attempts: 0,
    };
    assert_eq!(cancel(store, id), expected);
    assert_eq!(cancel(store, id), Cancelled::Never);
    fixture.advance(SECOND);
    assert!(start(store).is_empty());
}

/// The holder's start comes too late.
pub fn a_cancel_takes_a_claim_ahead_from_its_holder(fixture: &impl Fixture) {
    let store = fixture.store();
    let id = put_one(store, job(b"job", HORIZON));
    let lease = claim_ahead(store);
    assert!(cancel(store, id).is_gone());
    fixture.advance(HORIZON);
    is_fenced_off(store, &lease);
    assert!(start(store).is_empty());
}

/// Its holder may have handed it out by then. Not after the end of the lease.
pub fn an_unconfirmed_claim_ahead_counts_as_taken_from_its_due_time(fixture: &impl Fixture) {
    let store = fixture.store();
    let mut jobs = [0, 1, 2].map(|_| put_one(store, job(b"job", HORIZON)));
    let leases = claim_unconfirmed(store, 3);
    assert_eq!(leases.len(), 3);
    assert!(cancel(store, jobs[0]).is_gone(), "its time has not come");
    fixture.advance(HORIZON);
    jobs[0] = put_one(store, job(b"job", When::NOW));
    assert_eq!(claim_ahead(store).id, jobs[0]);
    assert!(cancel(store, jobs[0]).is_gone(), "its holder confirms");
    assert_eq!(cancel(store, jobs[1]), Cancelled::Taken);
    assert_eq!(reset(store, jobs[2], SECOND), Reset::Taken);
    let begin = Act::Start { lease: LEASE };
    assert_eq!(settle(store, &leases[1], begin), Verdict::Done, "and is");
    assert_eq!(settle(store, &leases[1], Act::Ack), Verdict::Done);
    fixture.advance(LEASE);
    assert_eq!(reset(store, jobs[2], SECOND), Reset::Moved);
    is_fenced_off(store, &leases[2]);
    assert!(cancel(store, jobs[2]).is_gone());
}

/// And changes nothing.
pub fn a_cancel_of_a_running_job_returns_taken(fixture: &impl Fixture) {
    let store = fixture.store();
    let id = put_one(store, job(b"job", When::NOW));
    let lease = start_one(store);
    assert_eq!(cancel(store, id), Cancelled::Taken);
    assert_eq!(settle(store, &lease, Act::Ack), Verdict::Done);
}

/// Because it is done or was never pushed.
pub fn a_cancel_of_a_missing_job_returns_never(fixture: &impl Fixture) {
    let store = fixture.store();
    let id = put_one(store, job(b"job", When::NOW));
    let lease = start_one(store);
    assert_eq!(settle(store, &lease, Act::Ack), Verdict::Done);
    assert_eq!(cancel(store, id), Cancelled::Never);
    assert_eq!(cancel(store, JobId::from_u64(u64::MAX)), Cancelled::Never);
    assert_eq!(reset(store, id, SECOND), Reset::Never);
    let by_key = store
        .cancel(QUEUE, "no such key".into())
        .expect("an answer");
    assert_eq!(by_key, Cancelled::Never);
}

/// The result includes the attempt.
pub fn a_cancel_after_the_lease_fences_off_the_holder(fixture: &impl Fixture) {
    let store = fixture.store();
    let id = put_one(store, job(b"job", When::NOW));
    let zombie = start_one(store);
    fixture.advance(LEASE);
    let expected = Cancelled::Gone {
        payload: b"job".to_vec(),
        attempts: 1,
    };
    assert_eq!(cancel(store, id), expected);
    is_fenced_off(store, &zombie);
}

/// To an earlier, a later and an absolute time.
pub fn a_reset_makes_a_job_due_earlier_or_later(fixture: &impl Fixture) {
    let store = fixture.store();
    let id = put_one(store, job(b"job", SECOND * 10));
    assert_eq!(reset(store, id, SECOND * 20), Reset::Moved);
    fixture.advance(SECOND * 10);
    assert!(start(store).is_empty());
    assert_eq!(reset(store, id, When::NOW), Reset::Moved);
    assert_eq!(start_one(store).id, id);
}

/// The holder's start comes too late.
pub fn a_reset_takes_a_claim_ahead_from_its_holder(fixture: &impl Fixture) {
    let store = fixture.store();
    let id = put_one(store, job(b"job", HORIZON));
    let lease = claim_ahead(store);
    assert_eq!(reset(store, id, SECOND * 10), Reset::Moved);
    fixture.advance(HORIZON);
    is_fenced_off(store, &lease);
    assert!(start(store).is_empty());
    fixture.advance(SECOND * 10);
    assert_eq!(start_one(store).id, id);
}

/// And changes nothing.
pub fn a_reset_of_a_running_job_returns_taken(fixture: &impl Fixture) {
    let store = fixture.store();
    let id = put_one(store, job(b"job", When::NOW));
    let lease = start_one(store);
    assert_eq!(reset(store, id, SECOND), Reset::Taken);
    assert_eq!(settle(store, &lease, Act::Ack), Verdict::Done);
}

/// With its number of attempts.
pub fn a_retried_job_is_due_at_its_new_time(fixture: &impl Fixture) {
    let store = fixture.store();
    let id = put_one(store, job(b"job", When::NOW));
    let lease = start_one(store);
    assert_eq!(
        settle(store, &lease, Act::retry(SECOND.into())),
        Verdict::Done
    );
    is_fenced_off(store, &lease);
    assert!(start(store).is_empty());
    fixture.advance(SECOND);
    let again = start_one(store);
    assert_eq!((again.id, again.attempts), (id, 2));
}

/// Of a job that no handler has had.
pub fn a_retry_that_does_not_count_takes_the_attempt_back(fixture: &impl Fixture) {
    let store = fixture.store();
    for new in [
        job(b"job", When::NOW),
        keyed("key", b"job", When::NOW, Merge::Keep),
    ] {
        let id = put_one(store, new);
        let lease = start_one(store);
        assert_eq!(settle(store, &lease, Act::retry(When::NOW)), Verdict::Done);
        let lease = start_one(store);
        assert_eq!((lease.id, lease.attempts), (id, 2));
        let back = Act::Retry {
            when: SECOND.into(),
            failures: Some("unreadable"),
            counts: false,
        };
        assert_eq!(settle(store, &lease, back), Verdict::Done);
        is_fenced_off(store, &lease);
        assert!(start(store).is_empty());
        fixture.advance(SECOND);
        let again = start_one(store);
        assert_eq!((again.id, again.attempts), (id, 2));
        assert_eq!(again.failures.as_deref(), Some("unreadable"));
        assert_eq!(settle(store, &again, Act::Ack), Verdict::Done);
    }
}

/// Started or not, with or without a key.
pub fn a_released_job_is_as_if_it_had_not_been_claimed(fixture: &impl Fixture) {
    let store = fixture.store();
    for new in [
        job(b"job", HORIZON),
        keyed("key", b"job", HORIZON, Merge::Keep),
    ] {
        let id = put_one(store, new);
        let ahead = claim_ahead(store);
        assert_eq!(settle(store, &ahead, Act::Release), Verdict::Done);
        let due = Claim {
            ahead: 0,
            ..claim_of(1, 1)
        };
        let due = turn(store, &[], Some(due)).claimed.expect("a claim");
        assert!(due.leases.is_empty(), "not before its time");
        fixture.advance(HORIZON);
        let started = start_one(store);
        assert_eq!(settle(store, &started, Act::Release), Verdict::Done);
        is_fenced_off(store, &started);
        let again = start_one(store);
        assert_eq!((again.id, again.attempts, again.due), (id, 1, ahead.due));
        assert_eq!(settle(store, &again, Act::Ack), Verdict::Done);
    }
}

/// Further settles of the same turn are stale.
pub fn a_job_is_settled_once_per_turn(fixture: &impl Fixture) {
    let store = fixture.store();
    let both = |acts: [Act<'_>; 2]| {
        put_one(store, job(b"job", When::NOW));
        let lease = start_one(store);
        let settles = acts.map(|act| lease.settle(act));
        let verdicts = turn(store, &settles, None).verdicts;
        assert_eq!(verdicts, [Verdict::Done, Verdict::Stale], "{acts:?}");
    };
    let retry = Act::retry(When::NOW);
    both([Act::Ack, retry]);
    both([Act::Ack, Act::Ack]);
    assert_eq!(store.stats(QUEUE).expect("figures").jobs, 0);
    both([Act::bury("no"), Act::Ack]);
    let dead = store.dead(QUEUE, None, 10).expect("dead letters");
    assert_eq!(dead.len(), 1);
    assert_eq!(dead[0].payload, b"job");
}

/// Until it is redriven or deleted.
pub fn a_buried_job_is_a_dead_letter_with_its_error(fixture: &impl Fixture) {
    let store = fixture.store();
    let id = put_one(store, job(b"job", When::NOW));
    let lease = start_one(store);
    assert_eq!(
        settle(store, &lease, Act::bury("it's \u{1} broken")),
        Verdict::Done
    );
    is_fenced_off(store, &lease);
    fixture.advance(LEASE);
    assert!(start(store).is_empty());
    let dead = store.dead(QUEUE, None, 10).expect("dead letters");
    assert_eq!(dead.len(), 1);
    assert_eq!((dead[0].id, dead[0].attempts), (id, 1));
    assert_eq!(
        (&dead[0].payload[..], &dead[0].error[..]),
        (&b"job"[..], "it's \u{1} broken")
    );
    assert!(
        store
            .dead(QUEUE, Some(id), 10)
            .expect("dead letters")
            .is_empty()
    );
    assert!(store.dead(QUEUE, None, 0).expect("dead letters").is_empty());
    assert!(
        store
            .dead("elsewhere", None, 10)
            .expect("dead letters")
            .is_empty()
    );
}

/// No handler has had it since the claim.
pub fn a_rejected_job_is_a_dead_letter_without_the_attempt_of_its_claim(fixture: &impl Fixture) {
    let store = fixture.store();
    let id = put_one(store, job(b"job", When::NOW));
    let ahead = claim_ahead(store);
    assert_eq!(settle(store, &ahead, REJECT), Verdict::Stale, "not started");
    fixture.advance(LEASE);
    start_one(store);
    fixture.advance(LEASE);
    let lease = start_one(store);
    assert_eq!(lease.attempts, 2);
    assert_eq!(settle(store, &lease, REJECT), Verdict::Done);
    is_fenced_off(store, &lease);
    let dead = store.dead(QUEUE, None, 10).expect("dead letters");
    assert_eq!((dead[0].id, dead[0].attempts), (id, 1));
    assert_eq!(
        (&dead[0].payload[..], &dead[0].error[..]),
        (&b"job"[..], "spent")
    );
}

/// It keeps its id.
pub fn a_redriven_job_is_due_at_once_without_attempts(fixture: &impl Fixture) {
    let store = fixture.store();
    let id = put_one(store, job(b"job", When::NOW));
    let lease = start_one(store);
    assert_eq!(settle(store, &lease, Act::bury("")), Verdict::Done);
    assert_eq!(store.redrive("elsewhere", &[id]).expect("an answer"), 0);
    assert_eq!(store.redrive(QUEUE, &[id, id]).expect("an answer"), 1);
    let again = start_one(store);
    assert_eq!(
        (again.id, again.attempts, &again.payload[..]),
        (id, 1, &b"job"[..])
    );
    assert!(
        store
            .dead(QUEUE, None, 10)
            .expect("dead letters")
            .is_empty()
    );
}

/// Its id cannot be redriven.
pub fn a_deleted_dead_letter_is_gone(fixture: &impl Fixture) {
    let store = fixture.store();
    let id = put_one(store, job(b"job", When::NOW));
    let lease = start_one(store);
    assert_eq!(settle(store, &lease, Act::bury("")), Verdict::Done);
    assert_eq!(store.delete_dead("elsewhere", &[id]).expect("an answer"), 0);
    assert_eq!(store.delete_dead(QUEUE, &[id]).expect("an answer"), 1);
    assert_eq!(store.redrive(QUEUE, &[id]).expect("an answer"), 0);
}

/// Running jobs continue. Jobs claimed ahead are held until the queue resumes, or are released.
pub fn a_paused_queue_hands_out_nothing(fixture: &impl Fixture) {
    let store = fixture.store();
    put_one(store, job(b"runs", When::NOW));
    let runs = start_one(store);
    put_one(store, job(b"ahead", HORIZON));
    let ahead = claim_ahead(store);
    put_one(store, job(b"due", When::NOW));
    store.pause(QUEUE, true).expect("an answer");
    fixture.advance(HORIZON);
    let found = turn(store, &[], Some(claim_of(10, 10)));
    assert!(found.paused && found.claimed.expect("a claim").leases.is_empty());
    assert!(store.stats(QUEUE).expect("figures").paused);
    assert_eq!(
        settle(store, &ahead, Act::Start { lease: LEASE }),
        Verdict::NotDue
    );
    assert_eq!(settle(store, &ahead, Act::Release), Verdict::Done);
    assert_eq!(settle(store, &runs, Act::Ack), Verdict::Done);
    store.pause(QUEUE, false).expect("an answer");
    assert_eq!(claimed(store, 10, 10).leases.len(), 2);
}
