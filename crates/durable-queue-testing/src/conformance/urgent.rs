//! Urgent jobs come before other due jobs, and are otherwise ordinary.

use durable_queue::store::{Act, Claim, Claimed, DeadJob, Lease, ListedJob, Store, Verdict};
use durable_queue::{JobId, Merge, NewJob, Put, Reset, When};

use super::{
    Fixture, HORIZON, LEASE, QUEUE, SECOND, claim_ahead, claim_of, claimed, ids, job, keyed, put,
    put_one, settle, start, start_one, turn,
};

fn urgent(job: NewJob<'_>) -> NewJob<'_> {
    NewJob {
        urgent: true,
        ..job
    }
}

fn claim<S: Store>(store: &S, claim: Claim) -> Claimed {
    let claimed = turn(store, &[], Some(claim)).claimed;
    claimed.expect("a claim was asked for")
}

fn listed<S: Store>(store: &S) -> Vec<ListedJob> {
    store.list(QUEUE, None, 100).expect("a list")
}

fn dead<S: Store>(store: &S) -> Vec<DeadJob> {
    store.dead(QUEUE, None, 10).expect("dead letters")
}

fn started(leases: &[Lease]) -> Vec<JobId> {
    let started = leases.iter().filter(|lease| lease.started);
    started.map(|lease| lease.id).collect()
}

/// Urgent jobs are ordered by time, then by id. They precede jobs within the horizon.
pub fn a_due_urgent_job_is_claimed_before_others(fixture: &impl Fixture) {
    let store = fixture.store();
    put(store, &vec![job(b"before", When::NOW); 30]);
    fixture.advance(SECOND);
    let later = put_one(store, urgent(job(b"later", SECOND * 2)));
    let first = put(
        store,
        &[
            urgent(job(b"a", SECOND)),
            job(b"no", SECOND),
            urgent(job(b"b", SECOND)),
        ],
    );
    let now = put_one(store, urgent(job(b"now", When::NOW)));
    fixture.advance(SECOND * 2);
    assert_eq!(start_one(store).id, now);
    let next = claim_ahead(store);
    assert!(next.urgent && !next.started);
    assert_eq!(next.id, first[0].id());
    // One is started, and one is claimed in addition.
    let both = claimed(store, 2, 1).leases;
    assert_eq!(ids(&both), [first[2].id(), later]);
    assert_eq!(started(&both), [first[2].id()]);
    assert!(both.iter().all(|lease| lease.urgent));
    let rest = claimed(store, 100, 100).leases;
    assert_eq!(rest.len(), 31);
    assert!(rest.iter().all(|lease| lease.started && !lease.urgent));
}

/// The limits for started jobs and for jobs claimed ahead include urgent ones.
pub fn a_claim_takes_no_more_urgent_jobs_than_it_asks_for(fixture: &impl Fixture) {
    let store = fixture.store();
    for (max, start, ahead) in [
        (4, 1, 1),
        (2, 3, 3),
        (5, 2, 9),
        (6, 0, 3),
        (0, 3, 3),
        (9, 4, 0),
    ] {
        put(store, &[job(b"no", When::NOW); 5]);
        put(store, &[urgent(job(b"yes", When::NOW)); 3]);
        let claim = Claim {
            ahead,
            ..claim_of(max, start)
        };
        let leases = self::claim(store, claim).leases;
        let begun = max.min(start) as usize;
        let all = max.min(start + ahead) as usize;
        assert_eq!((leases.len(), started(&leases).len()), (all, begun));
        let urgent = |lease: &&Lease| lease.urgent;
        assert_eq!(leases.iter().filter(urgent).count(), all.min(3));
        // Started jobs are urgent as long as there are urgent ones.
        let begun_urgent = leases.iter().filter(|lease| lease.started && lease.urgent);
        assert_eq!(begun_urgent.count(), begun.min(3));
        for job in listed(store) {
            fixture.advance(LEASE);
            assert!(store.cancel(QUEUE, job.id.into()).expect("it").is_gone());
        }
    }
    // Each job is claimed once, even if it also comes first by its time.
    let both = [urgent(job(b"yes", When::NOW)), job(b"no", When::NOW)];
    let both: Vec<JobId> = put(store, &both).iter().map(|put| put.id()).collect();
    assert_eq!(ids(&claimed(store, 9, 9).leases), both);
}

/// It is neither started nor claimed early: within the horizon, urgency is ignored.
pub fn urgency_does_not_make_a_claim_earlier(fixture: &impl Fixture) {
    let store = fixture.store();
    let id = put_one(store, urgent(job(b"urgent", HORIZON * 2 + SECOND)));
    assert!(claimed(store, 10, 10).leases.is_empty());
    fixture.advance(SECOND);
    let before = put_one(store, job(b"before", HORIZON));
    assert_eq!(ids(&claimed(store, 1, 1).leases), [before]);
    fixture.advance(HORIZON / 2);
    let soon = put_one(store, job(b"soon", HORIZON));
    fixture.advance(HORIZON / 2);
    assert_eq!(
        claim_ahead(store).id,
        soon,
        "neither is due, and it is earlier"
    );
    let lease = claim_ahead(store);
    assert_eq!((lease.id, lease.urgent), (id, true));
    let begin = Act::Start { lease: LEASE };
    assert_eq!(settle(store, &lease, begin), Verdict::NotDue);
}

/// So every eighth claim serves the other jobs.
pub fn a_claim_by_time_ignores_urgency(fixture: &impl Fixture) {
    let store = fixture.store();
    let mut expected = Vec::new();
    for number in 0..6 {
        let new = job(b"job", When::NOW);
        let new = if number % 2 == 1 { urgent(new) } else { new };
        expected.push(put_one(store, new));
        fixture.advance(SECOND);
    }
    for pair in expected.chunks(2) {
        let claim = Claim {
            urgent_first: false,
            ..claim_of(2, 1)
        };
        let leases = self::claim(store, claim).leases;
        assert_eq!(
            (ids(&leases), started(&leases)),
            (pair.to_vec(), vec![pair[0]])
        );
    }
}

/// Whichever of the two was urgent. A job that is kept does not change.
pub fn a_merge_makes_the_pending_job_urgent(fixture: &impl Fixture) {
    let store = fixture.store();
    let pending = |merge| keyed("key", b"job", SECOND, merge);
    let is_urgent = || listed(store)[0].urgent;
    let id = put_one(store, pending(Merge::Keep));
    assert_eq!(put(store, &[urgent(pending(Merge::Keep))]), [Put::Kept(id)]);
    assert!(!is_urgent());
    for merge in [Merge::Earliest, Merge::Latest, Merge::Debounce] {
        assert_eq!(put(store, &[pending(merge)]), [Put::Merged(id)]);
        assert!(!is_urgent());
    }
    put_one(store, job(b"before", When::NOW));
    assert_eq!(
        put(store, &[urgent(pending(Merge::Latest))]),
        [Put::Merged(id)]
    );
    // It stays urgent, kept or merged.
    for merge in [Merge::Keep, Merge::Earliest, Merge::Latest, Merge::Debounce] {
        assert_eq!(put(store, &[pending(merge)])[0].id(), id);
    }
    fixture.advance(SECOND);
    let lease = start_one(store);
    assert_eq!((lease.id, lease.urgent), (id, true));
}

/// A later push of its key is a new job.
pub fn a_finished_urgent_job_does_not_affect_the_next_of_its_key(fixture: &impl Fixture) {
    let store = fixture.store();
    for act in [Act::Ack, Act::Again { when: When::NOW }] {
        let new = keyed("key", b"job", When::NOW, Merge::Keep);
        put_one(store, urgent(new));
        let running = start_one(store);
        let id = put_one(store, new);
        assert_eq!(settle(store, &running, act), Verdict::Done);
        let next = start_one(store);
        assert_eq!((next.id, next.urgent), (id, false), "{act:?}");
        assert_eq!(settle(store, &next, Act::Ack), Verdict::Done);
    }
}

/// It is claimed first each time.
pub fn an_urgent_job_stays_urgent(fixture: &impl Fixture) {
    let store = fixture.store();
    let new = NewJob {
        schedule: Some("hourly"),
        ..keyed("key", b"urgent", When::NOW, Merge::Keep)
    };
    put(store, &vec![job(b"before", When::NOW); 30]);
    fixture.advance(SECOND);
    let id = put_one(store, urgent(new));
    let first = || {
        let lease = start_one(store);
        assert_eq!((lease.id, lease.urgent), (id, true));
        assert_eq!(&lease.payload[..], b"urgent");
        lease
    };
    let retry = Act::retry(When::NOW);
    let again = Act::Again { when: When::NOW };
    for act in [retry, Act::Release, again] {
        assert_eq!(settle(store, &first(), act), Verdict::Done, "{act:?}");
    }
    let bury = Act::bury("no");
    assert_eq!(settle(store, &first(), bury), Verdict::Done);
    assert!(dead(store)[0].urgent);
    assert_eq!(store.redrive(QUEUE, &[id]).expect("an answer"), 1);
    // The lease of a started job and that of a claimed one have expired.
    let lost = first();
    fixture.advance(LEASE);
    let ahead = claim_ahead(store);
    assert_eq!((ahead.id, ahead.token == lost.token), (id, false));
    fixture.advance(LEASE);
    let lost = first();
    let held = store.held_by(QUEUE, lost.token, LEASE).expect("an answer");
    assert!(held[0].urgent);
    fixture.advance(LEASE);
    assert!(listed(store).iter().any(|job| job.urgent && job.id == id));
    // After a reset it is still urgent when it is due.
    let reset = store.reset(QUEUE, id.into(), When::After(SECOND));
    assert_eq!(reset.expect("an answer"), Reset::Moved);
    assert!(!start_one(store).urgent, "it is not due");
    fixture.advance(SECOND);
    let running = first();
    let extend = Act::Extend { lease: LEASE * 2 };
    assert_eq!(settle(store, &running, extend), Verdict::Done);
    fixture.advance(LEASE);
    assert!(!start_one(store).urgent, "its lease lives");
    assert_eq!(settle(store, &running, Act::Ack), Verdict::Done);
    assert!(!listed(store).iter().any(|job| job.urgent));
    assert!(start(store).iter().all(|lease| !lease.urgent));
}
