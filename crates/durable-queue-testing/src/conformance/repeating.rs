//! A job with a schedule is due again when it is acknowledged, under its id, until it is cancelled.

use durable_queue::store::{Act, JobState, ListedJob, Store, Verdict};
use durable_queue::{Cancelled, JobId, Merge, NewJob, Put, When};

use super::contents::Heard;
use super::{
    Fixture, LEASE, QUEUE, SECOND, claim_ahead, claim_of, claimed, job, keyed, put, put_one,
    settle, start, start_one, turn,
};

const HOURLY: Option<&str> = Some("hourly");

fn repeating(key: &str, when: impl Into<When>) -> NewJob<'_> {
    NewJob {
        schedule: HOURLY,
        ..keyed(key, b"job", when, Merge::Earliest)
    }
}

fn again<'a>(when: impl Into<When>) -> Act<'a> {
    Act::Again { when: when.into() }
}

fn listed<S: Store>(store: &S) -> Vec<ListedJob> {
    store.list(QUEUE, None, 10).expect("a list")
}

/// Unchanged, without previous attempts.
pub fn a_repeating_job_keeps_its_id(fixture: &impl Fixture) {
    let store = fixture.store();
    let id = put_one(store, repeating("key", When::NOW));
    let first = start_one(store);
    assert_eq!(first.schedule.as_deref(), HOURLY);
    assert_eq!(settle(store, &first, Act::retry(When::NOW)), Verdict::Done);
    for _ in 0..3 {
        let lease = start_one(store);
        assert_eq!((lease.id, &lease.payload[..]), (id, &b"job"[..]));
        assert_eq!(
            (lease.key.as_deref(), lease.schedule.as_deref()),
            (Some(&b"key"[..]), HOURLY)
        );
        assert_eq!(settle(store, &lease, again(SECOND)), Verdict::Done);
        assert_eq!(settle(store, &lease, again(SECOND)), Verdict::Stale, "once");
        let [waiting] = &listed(store)[..] else {
            panic!("the job exists once");
        };
        assert_eq!((waiting.id, waiting.attempts), (id, 0));
        assert_eq!(waiting.schedule.as_deref(), HOURLY);
        let kept = keyed("key", b"", When::NOW, Merge::Keep);
        assert_eq!(put(store, &[kept]), [Put::Kept(id)], "its key is pending");
        assert!(start(store).is_empty(), "not before its time");
        fixture.advance(SECOND);
    }
}

/// Also by a holder whose lease has ended.
pub fn only_the_holder_can_repeat_a_job(fixture: &impl Fixture) {
    let store = fixture.store();
    put_one(store, repeating("key", When::NOW));
    let ahead = claimed(store, 1, 0).leases.remove(0);
    assert_eq!(
        settle(store, &ahead, again(SECOND)),
        Verdict::Stale,
        "it was not started"
    );
    fixture.advance(LEASE);
    let lost = start_one(store);
    fixture.advance(LEASE);
    let lease = start_one(store);
    assert_eq!(settle(store, &lost, again(SECOND)), Verdict::Stale);
    assert_eq!(settle(store, &lease, again(SECOND)), Verdict::Done);
    assert_eq!(listed(store).len(), 1);
}

/// A holder may not know that the schedule was cancelled.
pub fn a_job_without_a_schedule_does_not_repeat(fixture: &impl Fixture) {
    let store = fixture.store();
    put_one(store, job(b"job", When::NOW));
    let lease = start_one(store);
    assert_eq!(settle(store, &lease, again(SECOND)), Verdict::Done);
    assert!(listed(store).is_empty());
}

/// The cancel reports that a handler has the job; that run is the last.
pub fn a_cancel_ends_a_repeating_job(fixture: &impl Fixture) {
    let store = fixture.store();
    for by_key in [true, false] {
        let cancel = |id: JobId| {
            let which = if by_key { "key".into() } else { id.into() };
            store.cancel(QUEUE, which).expect("an answer")
        };
        let id = put_one(store, repeating("key", When::NOW));
        assert!(cancel(id).is_gone());
        let id = put_one(store, repeating("key", When::NOW));
        let lease = start_one(store);
        assert_eq!(cancel(id), Cancelled::Taken);
        assert_eq!(settle(store, &lease, again(SECOND)), Verdict::Done);
        assert!(listed(store).is_empty());
        assert_eq!(cancel(id), Cancelled::Never);
    }
}

/// It keeps its schedule; the open job has none.
pub fn a_repeating_job_repeats_while_its_key_has_an_open_job(fixture: &impl Fixture) {
    let store = fixture.store();
    for act in [again(SECOND), Act::retry(When::NOW), Act::Release] {
        let id = put_one(store, repeating("key", When::NOW));
        let running = start_one(store);
        let other = put_one(store, keyed("key", b"other", When::NOW, Merge::Keep));
        assert_ne!(id, other);
        assert_eq!(settle(store, &running, act), Verdict::Done);
        let mut jobs = listed(store);
        jobs.sort_by_key(|job| job.id);
        let found: Vec<_> = jobs
            .iter()
            .map(|job| (job.id, job.schedule.as_deref()))
            .collect();
        assert_eq!(found, [(id, HOURLY), (other, None)], "{act:?}");
        for id in [id, other] {
            assert!(store.cancel(QUEUE, id.into()).expect("an answer").is_gone());
        }
    }
}

/// As when a program starts while another process runs the job.
pub fn a_repeating_push_changes_the_running_job_and_creates_none(fixture: &impl Fixture) {
    let store = fixture.store();
    let id = put_one(store, repeating("key", When::NOW));
    let running = start_one(store);
    let push = |merge| {
        let job = NewJob {
            schedule: Some("daily"),
            ..keyed("key", b"new", SECOND, merge)
        };
        put(store, &[job])[0]
    };
    assert_eq!(push(Merge::Keep), Put::Kept(id));
    assert_eq!(listed(store)[0].schedule.as_deref(), HOURLY);
    assert_eq!(push(Merge::Earliest), Put::Merged(id));
    // The run is not lost: it is retried, and then the job is due at the time of the push.
    assert_eq!(
        settle(store, &running, Act::retry(When::NOW)),
        Verdict::Done
    );
    let lease = start_one(store);
    assert_eq!((lease.id, lease.attempts), (id, 2));
    assert_eq!(
        (&lease.payload[..], lease.schedule.as_deref()),
        (&b"new"[..], Some("daily"))
    );
    assert_eq!(settle(store, &lease, again(SECOND * 100)), Verdict::Done);
    assert!(start(store).is_empty());
    fixture.advance(SECOND);
    let lease = start_one(store);
    assert_eq!((lease.id, lease.attempts), (id, 1));
    // Only once.
    assert_eq!(settle(store, &lease, again(SECOND * 100)), Verdict::Done);
    fixture.advance(SECOND * 99);
    assert!(start(store).is_empty());
    fixture.advance(SECOND);
    assert_eq!(start_one(store).id, id);
}

/// Processes that sleep do not know of it, nor does the holder.
pub fn the_time_of_a_repeating_push_during_a_run_is_announced(fixture: &impl Fixture) {
    let store = fixture.store();
    let id = put_one(store, repeating("key", When::NOW));
    let running = start_one(store);
    let heard = Heard::new();
    let watch = store.watch(QUEUE, heard.notifier()).expect("a watch");
    assert_eq!(put(store, &[repeating("key", SECOND)]), [Put::Merged(id)]);
    heard.earliest();
    let answer = turn(store, &[running.settle(again(SECOND * 100))], None);
    assert_eq!(answer.verdicts, [Verdict::Done]);
    let earliest = heard.earliest().expect("an announcement");
    assert!(earliest <= answer.now.after(SECOND));
    drop(watch);
}

/// It waits for its next time as a separate job, because its key has an open job.
pub fn a_repeating_push_makes_a_waiting_job_due_earlier(fixture: &impl Fixture) {
    let store = fixture.store();
    let id = put_one(store, repeating("key", When::NOW));
    let lease = start_one(store);
    let open = put_one(store, keyed("key", b"open", SECOND * 1_000, Merge::Keep));
    assert_eq!(settle(store, &lease, again(SECOND * 100)), Verdict::Done);
    let push = |when: When, merge| {
        let job = NewJob {
            schedule: Some("daily"),
            ..keyed("key", b"new", when, merge)
        };
        put(store, &[job])[0]
    };
    let earlier = When::After(SECOND * 10);
    assert_eq!(push(earlier, Merge::Keep), Put::Kept(id));
    assert_eq!(push(earlier, Merge::Earliest), Put::Merged(id));
    assert_eq!(
        push(When::After(SECOND * 50), Merge::Earliest),
        Put::Merged(id)
    );
    fixture.advance(SECOND * 10);
    let lease = start_one(store);
    assert_eq!((lease.id, &lease.payload[..]), (id, &b"new"[..]));
    // Only once.
    assert_eq!(settle(store, &lease, again(SECOND * 100)), Verdict::Done);
    fixture.advance(SECOND * 99);
    assert!(start(store).is_empty());
    fixture.advance(SECOND);
    assert_eq!(start_one(store).id, id);
    assert!(
        store
            .cancel(QUEUE, open.into())
            .expect("an answer")
            .is_gone()
    );
}

/// That run may be done already. The caller pushes again with the next time.
pub fn a_repeating_push_after_its_time_changes_no_job(fixture: &impl Fixture) {
    let store = fixture.store();
    let passed = turn(store, &[], None).now;
    let push = |key, schedule| {
        let job = NewJob {
            schedule,
            ..keyed(key, b"new", passed, Merge::Earliest)
        };
        put(store, &[job])[0]
    };
    let id = put_one(store, repeating("key", SECOND * 10));
    assert_eq!(push("key", Some("daily")), Put::Kept(id));
    assert!(start(store).is_empty());
    assert_eq!(listed(store)[0].schedule.as_deref(), HOURLY);
    fixture.advance(SECOND * 10);
    let lease = start_one(store);
    assert_eq!(&lease.payload[..], b"job");
    assert_eq!(
        push("key", Some("daily")),
        Put::Kept(id),
        "its run is in progress"
    );
    assert_eq!(settle(store, &lease, again(SECOND * 10)), Verdict::Done);
    assert!(start(store).is_empty());
    // If there is no job, the push creates one.
    assert!(matches!(push("other", HOURLY), Put::New(_)));
    assert_eq!(&start_one(store).payload[..], b"new");
    // A push without a schedule is not affected.
    let id = put_one(store, keyed("third", b"job", SECOND, Merge::Earliest));
    assert_eq!(push("third", None), Put::Merged(id));
    assert_eq!(start_one(store).id, id);
}

/// The running job does not get the schedule.
pub fn a_repeating_push_creates_a_job_next_to_a_running_one_without_a_schedule(
    fixture: &impl Fixture,
) {
    let store = fixture.store();
    let once = put_one(store, keyed("key", b"once", When::NOW, Merge::Keep));
    let running = start_one(store);
    let id = put_one(store, repeating("key", SECOND));
    assert_ne!(id, once);
    assert_eq!(settle(store, &running, again(When::NOW)), Verdict::Done);
    let [waiting] = &listed(store)[..] else {
        panic!("the other one is done");
    };
    assert_eq!((waiting.id, waiting.schedule.as_deref()), (id, HOURLY));
}

/// Including that of a running job and of open ones, but not of other queues.
pub fn a_cancel_by_key_ends_all_schedules_of_the_key(fixture: &impl Fixture) {
    let store = fixture.store();
    store
        .enqueue("elsewhere", &[repeating("key", When::NOW)])
        .expect("the store takes jobs");
    store
        .turn("elsewhere", &[], Some(claim_of(1, 1)))
        .expect("the store takes turns");
    put_one(store, repeating("key", When::NOW));
    let lease = start_one(store);
    put_one(store, keyed("key", b"other", SECOND, Merge::Keep));
    let cancelled = store.cancel(QUEUE, "key".into()).expect("an answer");
    assert!(cancelled.is_gone());
    assert_eq!(settle(store, &lease, again(SECOND)), Verdict::Done);
    assert!(listed(store).is_empty());
    let elsewhere = store.list("elsewhere", None, 10).expect("a list");
    assert_eq!(elsewhere[0].schedule.as_deref(), HOURLY);
    // Of a job that waits for its next attempt.
    let id = put_one(store, repeating("key", When::NOW));
    let lease = start_one(store);
    put_one(store, keyed("key", b"other", SECOND, Merge::Keep));
    let retry = Act::retry(When::NOW);
    assert_eq!(settle(store, &lease, retry), Verdict::Done);
    let cancelled = store.cancel(QUEUE, "key".into()).expect("an answer");
    assert!(cancelled.is_gone());
    let rest = listed(store);
    assert_eq!((rest[0].id, rest[0].schedule.as_deref()), (id, None));
}

/// A push without a schedule keeps the job's schedule.
pub fn a_merge_replaces_the_schedule(fixture: &impl Fixture) {
    let store = fixture.store();
    put_one(store, repeating("key", SECOND));
    let push = |schedule| {
        let merge = NewJob {
            schedule,
            ..keyed("key", b"new", SECOND, Merge::Latest)
        };
        put_one(store, merge);
        listed(store)[0].schedule.clone()
    };
    assert_eq!(push(None).as_deref(), HOURLY);
    assert_eq!(push(Some("daily")).as_deref(), Some("daily"));
}

/// The bound applied to a single run.
pub fn a_merge_with_a_schedule_ends_the_bound_of_a_debounce(fixture: &impl Fixture) {
    let store = fixture.store();
    let until = Merge::DebounceUntil(SECOND.into());
    put_one(store, keyed("key", b"once", SECOND, until));
    let id = put_one(store, repeating("key", When::NOW));
    let lease = start_one(store);
    assert_eq!(settle(store, &lease, again(SECOND * 100)), Verdict::Done);
    fixture.advance(SECOND * 99);
    assert!(start(store).is_empty());
    fixture.advance(SECOND);
    assert_eq!(start_one(store).id, id);
}

/// Settles are carried out in order: the key is free for the first job, which is open again.
pub fn a_job_returns_to_its_key_after_an_earlier_start_of_the_same_turn(fixture: &impl Fixture) {
    let store = fixture.store();
    for act in [again(SECOND), Act::retry(When::NOW), Act::Release] {
        let id = put_one(store, repeating("key", When::NOW));
        let running = start_one(store);
        let other = put_one(store, keyed("key", b"other", When::NOW, Merge::Keep));
        let ahead = claim_ahead(store);
        let lease = LEASE;
        let settles =
            [(&ahead, Act::Start { lease }), (&running, act)].map(|(lease, act)| lease.settle(act));
        assert_eq!(turn(store, &settles, None).verdicts, [Verdict::Done; 2]);
        let state = |id| {
            let found = listed(store).into_iter().find(|job| job.id == id);
            found.expect("the job exists").state
        };
        assert_eq!(
            (state(id).is_held(), state(other)),
            (false, JobState::Running)
        );
        let kept = keyed("key", b"", When::NOW, Merge::Keep);
        assert_eq!(put(store, &[kept]), [Put::Kept(id)], "{act:?}");
        assert_eq!(settle(store, &ahead, Act::Ack), Verdict::Done);
        assert!(store.cancel(QUEUE, id.into()).expect("an answer").is_gone());
    }
}

/// It repeats again once it is redriven.
pub fn a_dead_letter_keeps_its_schedule(fixture: &impl Fixture) {
    let store = fixture.store();
    let id: JobId = put_one(store, repeating("key", When::NOW));
    let lease = start_one(store);
    assert_eq!(settle(store, &lease, Act::bury("")), Verdict::Done);
    let dead = store.dead(QUEUE, None, 10).expect("dead letters");
    assert_eq!(dead[0].schedule.as_deref(), HOURLY);
    assert_eq!(store.redrive(QUEUE, &[id]).expect("an answer"), 1);
    let lease = start_one(store);
    assert_eq!(settle(store, &lease, again(SECOND)), Verdict::Done);
    assert_eq!(listed(store).len(), 1);
}

/// Otherwise each of its times would come twice.
pub fn a_redrive_of_a_repeating_job_is_rejected_while_another_of_its_key_runs(
    fixture: &impl Fixture,
) {
    let store = fixture.store();
    let buried = put_one(store, repeating("key", When::NOW));
    let lease = start_one(store);
    assert_eq!(settle(store, &lease, Act::bury("")), Verdict::Done);
    put_one(store, repeating("key", When::NOW));
    let running = start_one(store);
    let redriven = || store.redrive(QUEUE, &[buried]).expect("an answer");
    assert_eq!(redriven(), 0);
    assert_eq!(settle(store, &running, again(SECOND)), Verdict::Done);
    assert_eq!(redriven(), 0);
    assert_eq!(listed(store).len(), 1);
    let cancelled = store.cancel(QUEUE, running.id.into());
    assert!(cancelled.expect("an answer").is_gone());
    // A running job without a schedule is no reason.
    put_one(store, keyed("key", b"once", When::NOW, Merge::Keep));
    start_one(store);
    assert_eq!(redriven(), 1);
    assert_eq!(start_one(store).id, buried);
}
