//! A cancel marks a job that a handler has. Its holder learns of that, and the job does not run again.

use durable_queue::store::{Act, CANCEL_REQUEST_LIMIT, JobState, Lease, RECALL, Store, Verdict};
use durable_queue::{Cancelled, JobId, Merge, NewJob, Put, Reset, Token, When, Which};

use super::contents::Heard;
use super::{
    Fixture, HORIZON, LEASE, QUEUE, SECOND, claim_ahead, claim_unconfirmed, claimed, ids, job,
    keyed, put, put_one, settle, start, start_one,
};

fn cancel<'a, S: Store>(store: &S, which: impl Into<Which<'a>>) -> Cancelled {
    store.cancel(QUEUE, which.into()).expect("an answer")
}

fn requests<S: Store>(store: &S) -> Vec<(JobId, Token)> {
    store.cancel_requests(QUEUE).expect("the marked jobs")
}

fn request(lease: &Lease) -> (JobId, Token) {
    (lease.id, lease.token)
}

fn jobs<S: Store>(store: &S) -> u32 {
    store.stats(QUEUE).expect("figures").jobs
}

/// Not other jobs, nor other queues. Until it ends, whichever way.
pub fn a_cancel_marks_a_running_job(fixture: &impl Fixture) {
    let store = fixture.store();
    assert!(requests(store).is_empty(), "there is no such queue");
    let elsewhere = [job(b"", When::NOW)];
    store.enqueue("elsewhere", &elsewhere).expect("an answer");
    for act in [Act::Ack, Act::bury("")] {
        let id = put_one(store, job(b"job", When::NOW));
        put_one(store, job(b"other", When::NOW));
        let leases = start(store);
        assert!(requests(store).is_empty());
        assert!(!leases[0].cancelled);
        for _ in 0..2 {
            assert_eq!(cancel(store, id), Cancelled::Taken);
            assert_eq!(requests(store), [request(&leases[0])]);
        }
        let mut listed = store.list(QUEUE, None, 2).expect("a list");
        listed.sort_by_key(|job| job.id);
        assert_eq!(listed[0].state, JobState::Running);
        assert!(listed[0].cancelled && !listed[1].cancelled);
        let none = store.cancel_requests("elsewhere").expect("an answer");
        assert!(none.is_empty());
        let extend = Act::Extend { lease: LEASE };
        assert_eq!(settle(store, &leases[0], extend), Verdict::Done);
        assert_eq!(requests(store), [request(&leases[0])]);
        assert_eq!(settle(store, &leases[0], act), Verdict::Done);
        assert!(requests(store).is_empty());
        assert_eq!(settle(store, &leases[1], Act::Ack), Verdict::Done);
    }
}

/// As if it were acknowledged.
pub fn a_marked_job_ends_when_its_holder_returns_it(fixture: &impl Fixture) {
    let store = fixture.store();
    let again = Act::Again { when: When::NOW };
    let failed = Act::Retry {
        when: SECOND.into(),
        failures: Some("why"),
        counts: true,
    };
    let repeating = NewJob {
        schedule: Some("hourly"),
        ..keyed("key", b"job", When::NOW, Merge::Keep)
    };
    for act in [again, failed, Act::retry(When::NOW), Act::Release] {
        for new in [repeating, job(b"job", When::NOW)] {
            let id = put_one(store, new);
            let lease = start_one(store);
            assert_eq!(cancel(store, id), Cancelled::Taken);
            let other = Lease {
                token: Token::random(),
                ..lease.clone()
            };
            assert_eq!(settle(store, &other, act), Verdict::Stale, "{act:?}");
            assert_eq!(settle(store, &lease, act), Verdict::Done, "{act:?}");
            assert_eq!((jobs(store), requests(store).len()), (0, 0), "{act:?}");
            assert_eq!(settle(store, &lease, act), Verdict::Stale, "{act:?}");
            assert_eq!(cancel(store, id), Cancelled::Never);
        }
    }
}

/// It runs like any other job after a redrive, but does not repeat.
pub fn a_redriven_job_is_not_marked(fixture: &impl Fixture) {
    let store = fixture.store();
    for by_key in [true, false] {
        let new = NewJob {
            schedule: Some("hourly"),
            ..keyed("key", b"job", When::NOW, Merge::Keep)
        };
        let id = put_one(store, new);
        let lease = start_one(store);
        let which: Which<'_> = if by_key { "key".into() } else { id.into() };
        assert_eq!(cancel(store, which), Cancelled::Taken);
        assert_eq!(settle(store, &lease, Act::bury("")), Verdict::Done);
        assert_eq!(store.redrive(QUEUE, &[id]).expect("an answer"), 1);
        let lease = start_one(store);
        assert!(!lease.cancelled && lease.schedule.is_none());
        assert!(requests(store).is_empty());
        assert_eq!(settle(store, &lease, Act::Release), Verdict::Done);
        let lease = start_one(store);
        assert_eq!(lease.id, id);
        assert_eq!(settle(store, &lease, Act::Ack), Verdict::Done);
    }
}

/// Whichever job the cancel removes. Jobs that wait for their next attempt are not marked.
pub fn a_cancel_by_key_marks_all_running_jobs_of_the_key(fixture: &impl Fixture) {
    let store = fixture.store();
    let new = || keyed("key", b"job", When::NOW, Merge::Keep);
    let mut running = Vec::new();
    for _ in 0..3 {
        put_one(store, new());
        running.push(start_one(store));
    }
    let other = put_one(store, keyed("other", b"job", When::NOW, Merge::Keep));
    assert_eq!(start_one(store).id, other);
    let retried = running.remove(1);
    put_one(store, new());
    let retry = Act::retry(When::NOW);
    assert_eq!(settle(store, &retried, retry), Verdict::Done);
    assert!(cancel(store, "key").is_gone(), "the open one");
    let marked: Vec<_> = running.iter().map(request).collect();
    assert_eq!(requests(store), marked);
    let waiting = start_one(store);
    assert_eq!((waiting.id, waiting.cancelled), (retried.id, false));
    for lease in running {
        assert_eq!(settle(store, &lease, Act::Release), Verdict::Done);
    }
    assert_eq!(jobs(store), 2);
}

/// A push after the cancel is not represented by the job that was cancelled.
pub fn a_push_after_a_cancel_is_a_separate_job(fixture: &impl Fixture) {
    let store = fixture.store();
    let repeating = NewJob {
        schedule: Some("hourly"),
        ..keyed("key", b"new", When::NOW, Merge::Earliest)
    };
    let keep = keyed("key", b"new", When::NOW, Merge::Keep);
    for new in [keep, repeating] {
        put_one(store, keyed("key", b"job", When::NOW, Merge::Keep));
        let running = start_one(store);
        assert_eq!(cancel(store, "key"), Cancelled::Taken);
        let Put::New(id) = put(store, &[new])[0] else {
            panic!("the key has no open job");
        };
        let retry = Act::retry(When::NOW);
        assert_eq!(settle(store, &running, retry), Verdict::Done);
        let lease = start_one(store);
        assert_eq!((lease.id, &lease.payload[..]), (id, &b"new"[..]));
        assert!(!lease.cancelled);
        assert_eq!(settle(store, &lease, Act::Ack), Verdict::Done);
    }
}

/// It may have been handed out, so it is no longer open.
pub fn a_cancel_marks_an_unconfirmed_claim_ahead_from_its_due_time(fixture: &impl Fixture) {
    let store = fixture.store();
    let keys = ["a", "b", "c"];
    for key in keys {
        put_one(store, keyed(key, b"job", HORIZON, Merge::Keep));
    }
    let leases = claim_unconfirmed(store, 3);
    assert_eq!(leases.len(), 3);
    assert!(cancel(store, "a").is_gone(), "its time has not come");
    assert!(requests(store).is_empty());
    fixture.advance(HORIZON);
    for key in ["b", "c"] {
        assert_eq!(cancel(store, key), Cancelled::Taken);
    }
    assert_eq!(requests(store), [request(&leases[1]), request(&leases[2])]);
    // It was not handed out.
    assert_eq!(settle(store, &leases[1], Act::Release), Verdict::Done);
    let new = keyed("c", b"new", When::NOW, Merge::Latest);
    let id = put_one(store, new);
    assert_ne!(id, leases[2].id, "it was handed out");
    let begin = Act::Start { lease: LEASE };
    assert_eq!(settle(store, &leases[2], begin), Verdict::Done);
    assert_eq!(requests(store), [request(&leases[2])]);
    assert_eq!(
        settle(store, &leases[2], Act::retry(When::NOW)),
        Verdict::Done
    );
    assert_eq!(ids(&start(store)), [id]);
}

/// The lease says so, and the former holder is fenced off.
pub fn a_marked_job_of_a_dead_holder_is_claimed_again(fixture: &impl Fixture) {
    let store = fixture.store();
    let id = put_one(store, keyed("key", b"job", When::NOW, Merge::Keep));
    let mut last = start_one(store);
    assert_eq!(cancel(store, id), Cancelled::Taken);
    for is_ahead in [true, false, true] {
        fixture.advance(LEASE);
        assert_eq!(requests(store), [request(&last)], "it is held");
        let lease = if is_ahead {
            claim_ahead(store)
        } else {
            start_one(store)
        };
        assert_eq!((lease.id, lease.cancelled), (id, true));
        assert_eq!(settle(store, &last, Act::Release), Verdict::Stale);
        let held = store.held_by(QUEUE, lease.token, LEASE).expect("an answer");
        assert!(held[0].cancelled);
        assert_eq!(requests(store), [request(&lease)]);
        last = lease;
    }
    assert_eq!(settle(store, &last, Act::Release), Verdict::Done);
    assert_eq!(jobs(store), 0);
}

/// After the end of the lease, since a job that a handler has is not reset.
pub fn a_reset_removes_the_mark(fixture: &impl Fixture) {
    let store = fixture.store();
    let id = put_one(store, keyed("key", b"job", When::NOW, Merge::Keep));
    let lost = start_one(store);
    assert_eq!(cancel(store, id), Cancelled::Taken);
    let reset = |expected| {
        let reset = store.reset(QUEUE, id.into(), When::NOW);
        assert_eq!(reset.expect("an answer"), expected);
    };
    reset(Reset::Taken);
    assert_eq!(requests(store), [request(&lost)]);
    fixture.advance(LEASE);
    reset(Reset::Moved);
    assert!(requests(store).is_empty());
    let lease = start_one(store);
    assert_eq!((lease.id, lease.cancelled), (id, false));
    assert_eq!(settle(store, &lease, Act::Release), Verdict::Done);
    assert_eq!(jobs(store), 1);
}

/// So that its holder looks, whichever client has cancelled it.
pub fn marks_are_announced_to_watches(fixture: &impl Fixture) {
    let store = fixture.store();
    let heard = Heard::new();
    let mut watch = store.watch(QUEUE, heard.notifier()).expect("a watch");
    let other = fixture.another();
    let new = || keyed("key", b"job", When::NOW, Merge::Keep);
    for is_open in [false, true] {
        let id = put_one(store, new());
        let lease = start_one(store);
        if is_open {
            put_one(store, keyed("key", b"job", SECOND, Merge::Keep));
        }
        heard.earliest();
        let cancelled = cancel(store, "key");
        assert_eq!(cancelled.is_gone(), is_open);
        // Calls of this client are announced at once, or by a message from the server.
        if heard.earliest() != Some(RECALL) {
            heard.is_announced(&mut *watch, "a cancel");
        }
        assert_eq!(cancel(&other, id), Cancelled::Taken);
        heard.is_announced(&mut *watch, "a cancel by another client");
        assert_eq!(settle(store, &lease, Act::Ack), Verdict::Done);
    }
}

/// To the first ones.
pub fn cancel_requests_are_limited(fixture: &impl Fixture) {
    const MORE: u32 = CANCEL_REQUEST_LIMIT + 1;
    let store = fixture.store();
    put(store, &vec![job(b"", When::NOW); MORE as usize]);
    let leases = claimed(store, MORE, MORE).leases;
    assert_eq!(leases.len(), MORE as usize);
    for lease in leases.iter().rev() {
        assert_eq!(cancel(store, lease.id), Cancelled::Taken);
    }
    let marked: Vec<_> = leases.iter().map(request).collect();
    assert_eq!(requests(store), marked[..marked.len() - 1]);
    assert_eq!(settle(store, &leases[0], Act::Ack), Verdict::Done);
    assert_eq!(requests(store), marked[1..]);
}
