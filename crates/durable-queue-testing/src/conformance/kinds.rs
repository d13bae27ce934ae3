//! Claims that list the kinds which their caller can run.

use std::time::Duration;

use durable_queue::store::{Act, COUNT_LIMIT, Claim, Claimed, KindRoom, Lease, Store, Verdict};
use durable_queue::{JobId, Limit, Merge, NewJob, Reset, StoreTime, When};

use super::{
    Fixture, HORIZON, LEASE, QUEUE, SECOND, claim_of, ids, job, keyed, of_kind, put, put_one,
    settle, start, turn,
};

/// Claims and starts up to `max` jobs of these kinds.
fn claimed_of<S: Store>(store: &S, max: u32, kinds: &[(&str, u32)]) -> Claimed {
    let kinds = kinds.iter().map(|&(kind, room)| KindRoom { kind, room });
    let kinds: Vec<_> = kinds.collect();
    let claim = Claim {
        kinds: Some(&kinds),
        ..claim_of(max, max)
    };
    let turn = turn(store, &[], Some(claim));
    turn.claimed.expect("a claim was asked for")
}

/// The kinds of the leases.
fn kinds_of(leases: &[Lease]) -> Vec<&str> {
    let kinds = leases.iter().map(|lease| lease.kind.as_deref());
    kinds.map(|kind| kind.unwrap_or("none")).collect()
}

fn put_ids<S: Store>(store: &S, jobs: &[NewJob<'_>]) -> Vec<JobId> {
    put(store, jobs).iter().map(|put| put.id()).collect()
}

/// Jobs of other kinds, and without one, keep their attempts for others.
pub fn a_claim_takes_the_kinds_that_it_lists(fixture: &impl Fixture) {
    let store = fixture.store();
    let jobs = [
        of_kind("mail", When::NOW),
        of_kind("report", When::NOW),
        job(b"none", When::NOW),
        of_kind("mail", When::NOW),
        of_kind("", When::NOW),
    ];
    let all = put_ids(store, &jobs);
    let mails = claimed_of(store, 10, &[("mail", 10), ("unknown", 10)]).leases;
    assert_eq!(ids(&mails), [all[0], all[3]]);
    assert!(mails.iter().all(|lease| lease.started));
    assert!(claimed_of(store, 10, &[("mail", 10)]).leases.is_empty());
    let empty = claimed_of(store, 10, &[("", 10)]).leases;
    assert_eq!(ids(&empty), [all[4]]);
    let others = start(store);
    assert_eq!(ids(&others), [all[1], all[2]]);
    assert!(others.iter().all(|lease| lease.attempts == 1));
}

/// And no more than its maximum of all.
pub fn a_claim_takes_no_more_of_a_kind_than_it_has_room_for(fixture: &impl Fixture) {
    let store = fixture.store();
    let jobs: Vec<_> = ["mail"; 5].into_iter().chain(["report"; 5]).collect();
    let jobs: Vec<_> = jobs.iter().map(|kind| of_kind(kind, When::NOW)).collect();
    put(store, &jobs);
    let leases = claimed_of(store, 4, &[("report", 10), ("mail", 2)]).leases;
    assert_eq!(kinds_of(&leases), ["mail", "mail", "report", "report"]);
    let leases = claimed_of(store, 10, &[("mail", 1), ("report", 1)]).leases;
    assert_eq!(kinds_of(&leases), ["mail", "report"]);
    let leases = claimed_of(store, 1, &[("mail", 9), ("report", 9)]).leases;
    assert_eq!(kinds_of(&leases), ["mail"]);
    let leases = claimed_of(store, 9, &[("mail", 9), ("report", 9)]).leases;
    assert_eq!(kinds_of(&leases), ["mail", "report", "report"]);
}

/// By time, then by id, whatever the order of the list.
pub fn jobs_of_listed_kinds_are_claimed_in_the_order_of_all(fixture: &impl Fixture) {
    let store = fixture.store();
    let at = |seconds: u64| When::After(Duration::from_secs(seconds));
    let jobs = [
        of_kind("b", at(3)),
        of_kind("c", at(1)),
        of_kind("a", at(2)),
        of_kind("x", at(0)),
        of_kind("c", at(2)),
        of_kind("b", at(1)),
    ];
    let all = put_ids(store, &jobs);
    fixture.advance(SECOND * 5);
    let listed = [("c", 10), ("a", 10), ("b", 10)];
    let first = claimed_of(store, 3, &listed).leases;
    assert_eq!(ids(&first), [all[1], all[5], all[2]]);
    let second = claimed_of(store, 3, &listed).leases;
    assert_eq!(ids(&second), [all[4], all[0]]);
}

/// Unless the claim goes by time alone. They count for the room of their kinds.
pub fn urgent_jobs_of_listed_kinds_come_first(fixture: &impl Fixture) {
    let store = fixture.store();
    let urgent = |kind| NewJob {
        urgent: true,
        ..of_kind(kind, When::NOW)
    };
    let jobs = [
        of_kind("a", When::NOW),
        of_kind("b", When::NOW),
        urgent("x"),
        urgent("b"),
        urgent("a"),
        urgent("a"),
    ];
    let all = put_ids(store, &jobs);
    let kinds = [
        KindRoom { kind: "a", room: 2 },
        KindRoom { kind: "b", room: 9 },
    ];
    let claim = Claim {
        kinds: Some(&kinds),
        ..claim_of(1, 1)
    };
    let by_time = Claim {
        urgent_first: false,
        ..claim
    };
    let turn = turn(store, &[], Some(by_time));
    assert_eq!(ids(&turn.claimed.expect("a claim").leases), [all[0]]);
    let first = claimed_of(store, 2, &[("a", 1), ("b", 9)]).leases;
    assert_eq!(ids(&first), [all[3], all[4]]);
    let rest = claimed_of(store, 9, &[("a", 1), ("b", 9)]).leases;
    assert_eq!(ids(&rest), [all[1], all[5]]);
}

/// Within the horizon. Room that due jobs have taken is gone.
pub fn a_claim_ahead_takes_the_kinds_that_it_lists(fixture: &impl Fixture) {
    let store = fixture.store();
    let jobs = [
        of_kind("a", When::NOW),
        of_kind("x", HORIZON),
        of_kind("a", HORIZON),
        of_kind("b", HORIZON),
        of_kind("a", HORIZON),
        of_kind("b", HORIZON + SECOND),
    ];
    let all = put_ids(store, &jobs);
    let leases = claimed_of(store, 9, &[("a", 2), ("b", 9)]).leases;
    assert_eq!(ids(&leases), [all[0], all[2], all[3]]);
    let started: Vec<bool> = leases.iter().map(|lease| lease.started).collect();
    assert_eq!(started, [true, false, false]);
}

/// Others may claim them.
pub fn expired_leases_of_kinds_that_are_not_listed_stay(fixture: &impl Fixture) {
    let store = fixture.store();
    let all = put_ids(store, &[of_kind("a", When::NOW), of_kind("b", When::NOW)]);
    let held = start(store);
    assert_eq!(ids(&held), all);
    fixture.advance(LEASE);
    let found = claimed_of(store, 9, &[("a", 9)]);
    assert_eq!(ids(&found.leases), [all[0]]);
    assert!(
        found.first > StoreTime::from_micros(0).after(LEASE),
        "the end of the new lease: {:?}",
        found.first
    );
    assert_eq!(settle(store, &held[1], Act::Ack), Verdict::Done);
    assert_eq!(settle(store, &held[0], Act::Ack), Verdict::Stale);
}

/// Due jobs of other kinds do not count, or the caller would ask again and again.
pub fn a_claim_returns_when_the_next_job_of_its_kinds_is_due(fixture: &impl Fixture) {
    let store = fixture.store();
    let found = claimed_of(store, 9, &[("a", 9)]);
    let never = (StoreTime::NEVER, StoreTime::NEVER);
    assert_eq!((found.first, found.first_free), never);
    put(store, &[job(b"none", When::NOW), of_kind("x", When::NOW)]);
    let found = claimed_of(store, 9, &[("a", 9)]);
    assert_eq!((found.first, found.first_free), never);
    let now = turn(store, &[], None).now;
    put_one(store, of_kind("b", now.after(SECOND * 20)));
    put_one(store, of_kind("a", now.after(SECOND * 10)));
    let due = now.after(SECOND * 10);
    let found = claimed_of(store, 9, &[("a", 9), ("b", 9)]);
    assert_eq!((found.first, found.first_free), (due, due));
    fixture.advance(SECOND * 10);
    let held = claimed_of(store, 9, &[("a", 9), ("b", 9)]);
    assert_eq!(kinds_of(&held.leases), ["a"]);
    let due = now.after(SECOND * 20);
    assert_eq!((held.first, held.first_free), (due, due));
    let found = claimed_of(store, 9, &[("a", 9)]);
    assert!(found.first >= now.after(SECOND * 10 + LEASE), "its lease");
    assert_eq!(found.first_free, StoreTime::NEVER);
}

/// The caller lists it again when it has room.
pub fn a_claim_returns_no_time_of_a_kind_that_it_has_filled(fixture: &impl Fixture) {
    let store = fixture.store();
    let jobs = [of_kind("a", When::NOW); 3];
    put(store, &jobs);
    let now = turn(store, &[], None).now;
    let later = now.after(SECOND * 100);
    put_one(store, of_kind("b", later));
    let found = claimed_of(store, 9, &[("a", 2), ("b", 2)]);
    assert_eq!(found.leases.len(), 2);
    assert_eq!((found.first, found.first_free), (later, later));
    let found = claimed_of(store, 9, &[("a", 1)]);
    assert_eq!(found.leases.len(), 1);
    let never = (StoreTime::NEVER, StoreTime::NEVER);
    assert_eq!((found.first, found.first_free), never);
    // Without room for more in all, but with room for the kind, the time is that of the next job.
    put_one(store, of_kind("c", When::NOW));
    put_one(store, of_kind("c", When::NOW));
    let found = claimed_of(store, 1, &[("c", 2)]);
    assert_eq!(found.leases.len(), 1);
    assert!(found.first <= now.after(SECOND), "one is due");
}

/// Also as a released, retried, redriven or reset one.
pub fn a_merge_moves_a_job_to_its_new_kind(fixture: &impl Fixture) {
    let store = fixture.store();
    let push = |kind| NewJob {
        kind,
        ..keyed("key", b"job", When::NOW, Merge::Earliest)
    };
    let id = put_one(store, push(Some("old")));
    assert_eq!(put_one(store, push(Some("new"))), id);
    assert!(claimed_of(store, 9, &[("old", 9)]).leases.is_empty());
    let lease = claimed_of(store, 9, &[("new", 9)]).leases.remove(0);
    assert_eq!(lease.id, id);
    assert_eq!(settle(store, &lease, Act::Release), Verdict::Done);
    let lease = claimed_of(store, 9, &[("new", 9)]).leases.remove(0);
    assert_eq!(settle(store, &lease, Act::retry(When::NOW)), Verdict::Done);
    let lease = claimed_of(store, 9, &[("new", 9)]).leases.remove(0);
    assert_eq!(settle(store, &lease, Act::bury("no")), Verdict::Done);
    assert_eq!(store.redrive(QUEUE, &[id]).expect("an answer"), 1);
    let lease = claimed_of(store, 9, &[("new", 9)]).leases.remove(0);
    assert_eq!(settle(store, &lease, Act::Ack), Verdict::Done);
    let id = put_one(store, push(Some("old")));
    assert_eq!(put_one(store, push(None)), id);
    assert!(claimed_of(store, 9, &[("old", 9)]).leases.is_empty());
    let id = {
        let lease = start(store).remove(0);
        assert_eq!((lease.id, lease.kind.as_deref()), (id, None));
        assert_eq!(settle(store, &lease, Act::Ack), Verdict::Done);
        put_one(store, push(Some("late")))
    };
    let now = turn(store, &[], None).now;
    let reset = store.reset(QUEUE, id.into(), now.after(SECOND).into());
    assert_eq!(reset.expect("a reset"), Reset::Moved);
    fixture.advance(SECOND);
    let lease = claimed_of(store, 9, &[("late", 9)]).leases.remove(0);
    assert_eq!(lease.id, id);
}

/// Nor do those of its own kind beyond its room.
pub fn many_jobs_of_other_kinds_hide_none(fixture: &impl Fixture) {
    let store = fixture.store();
    put(store, &vec![of_kind("many", When::NOW); 2_000]);
    let last = put_one(store, of_kind("few", When::NOW));
    let leases = claimed_of(store, 1, &[("few", 1)]).leases;
    assert_eq!(ids(&leases), [last]);
    let last = put_one(store, of_kind("few", When::NOW));
    let leases = claimed_of(store, 9, &[("many", 1), ("few", 9)]).leases;
    assert_eq!(kinds_of(&leases), ["many", "few"]);
    assert_eq!(leases[1].id, last);
}

/// However similar.
pub fn any_name_of_a_kind_can_be_listed(fixture: &impl Fixture) {
    let store = fixture.store();
    let names = [
        "",
        " ",
        "a",
        "aa",
        "A",
        "\u{e4}",
        "a\u{308}",
        "'",
        "\"",
        "a:b",
        "{a}",
        "%",
        "\u{10ffff}",
    ];
    let jobs: Vec<_> = names.iter().map(|kind| of_kind(kind, When::NOW)).collect();
    let all = put_ids(store, &jobs);
    for (kind, id) in names.iter().zip(&all) {
        let leases = claimed_of(store, 9, &[(kind, 9)]).leases;
        assert_eq!(ids(&leases), [*id], "{kind:?}");
    }
    fixture.advance(LEASE);
    let listed = names.map(|kind| (kind, 1));
    let leases = claimed_of(store, 99, &listed).leases;
    assert_eq!(leases.len(), names.len());
}

/// Jobs without a kind are part of the sum only. Held jobs count when their leases have ended.
pub fn due_jobs_are_counted_by_kind(fixture: &impl Fixture) {
    let store = fixture.store();
    let counts = || {
        let stats = store.stats(QUEUE).expect("figures");
        (stats.due, stats.due_of_kinds)
    };
    assert_eq!(counts(), (0, Vec::new()));
    let jobs = [
        of_kind("b", When::NOW),
        of_kind("a", When::NOW),
        of_kind("b", When::NOW),
        of_kind("later", SECOND * 100),
        job(b"none", When::NOW),
    ];
    put(store, &jobs);
    store
        .enqueue("elsewhere", &[of_kind("x", When::NOW)])
        .expect("an answer");
    let count = |kind: &str, count| (kind.to_owned(), count);
    assert_eq!(counts(), (4, vec![count("a", 1), count("b", 2)]));
    let held = claimed_of(store, 9, &[("b", 9)]).leases;
    assert_eq!(held.len(), 2);
    assert_eq!(counts(), (2, vec![count("a", 1)]));
    fixture.advance(LEASE);
    assert_eq!(counts(), (4, vec![count("a", 1), count("b", 2)]));
    put(store, &vec![of_kind("b", When::NOW); COUNT_LIMIT as usize]);
    let expected = vec![count("a", 1), count("b", COUNT_LIMIT)];
    assert_eq!(counts(), (COUNT_LIMIT, expected));
}

fn limit(store: &impl Store, limit: &Limit) {
    store
        .limit(QUEUE, limit, true)
        .expect("the store takes limits");
}

/// A job that is not claimed costs no token.
pub fn a_claim_of_listed_kinds_takes_the_tokens_of_its_jobs_only(fixture: &impl Fixture) {
    let store = fixture.store();
    limit(store, &Limit::rate_of_kind("mail", 3, SECOND * 1_000));
    put(store, &[of_kind("mail", When::NOW); 5]);
    for _ in 0..3 {
        assert!(claimed_of(store, 9, &[("report", 9)]).leases.is_empty());
        assert_eq!(claimed_of(store, 9, &[("mail", 1)]).leases.len(), 1);
    }
    assert!(claimed_of(store, 9, &[("mail", 9)]).leases.is_empty());
}

/// Its jobs stay where a claim for them finds them.
pub fn a_limit_of_a_kind_that_is_not_listed_parks_nothing(fixture: &impl Fixture) {
    let store = fixture.store();
    limit(store, &Limit::per_kind("mail", 1));
    put(store, &[of_kind("mail", When::NOW); 3]);
    put_one(store, of_kind("report", When::NOW));
    assert_eq!(claimed_of(store, 9, &[("mail", 9)]).leases.len(), 1);
    let leases = claimed_of(store, 9, &[("report", 9)]).leases;
    assert_eq!(kinds_of(&leases), ["report"]);
    put(store, &[of_kind("other", When::NOW); 2]);
    limit(store, &Limit::per_kind("other", 1));
    assert!(claimed_of(store, 9, &[("report", 9)]).leases.is_empty());
    assert_eq!(store.stats(QUEUE).expect("figures").due, 2);
}
