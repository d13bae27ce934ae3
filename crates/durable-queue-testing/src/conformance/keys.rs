//! Each key has at most one open job, into which pushes are merged.

use durable_queue::store::{Act, Keep, Store, Verdict};
use durable_queue::{Cancelled, Merge, NewJob, Put, Reset, When, Which};

use super::{
    Fixture, HORIZON, LEASE, QUEUE, SECOND, claim_ahead, ids, keyed, put, put_one, settle, start,
    start_one,
};

/// The default policy keeps the open job.
pub fn a_key_has_one_pending_job(fixture: &impl Fixture) {
    let store = fixture.store();
    let jobs = [
        keyed("key", b"first", SECOND, Merge::Keep),
        keyed("key", b"second", When::NOW, Merge::Keep),
        keyed("other", b"third", SECOND, Merge::Keep),
    ];
    let puts = put(store, &jobs);
    let id = puts[0].id();
    assert_eq!(puts[..2], [Put::New(id), Put::Kept(id)]);
    assert!(matches!(puts[2], Put::New(other) if other != id));
    assert!(start(store).is_empty());
    fixture.advance(SECOND);
    let leases = start(store);
    assert_eq!(leases.len(), 2);
    assert_eq!((leases[0].id, &leases[0].payload[..]), (id, &b"first"[..]));
    assert_eq!(leases[0].key.as_deref(), Some(&b"key"[..]));
}

/// A merge also replaces the payload.
pub fn merge_policies_determine_the_due_time(fixture: &impl Fixture) {
    let store = fixture.store();
    for (merge, times, expected) in [
        (Merge::Earliest, [10, 20, 15], 10),
        (Merge::Earliest, [20, 10, 15], 10),
        (Merge::Latest, [10, 20, 15], 20),
        (Merge::Latest, [20, 10, 15], 20),
        (Merge::Debounce, [10, 20, 15], 15),
        (Merge::Debounce, [20, 10, 15], 15),
    ] {
        let mut id = None;
        for (index, time) in times.into_iter().enumerate() {
            let payload = [u8::try_from(index).expect("there are three")];
            let put = put(store, &[keyed("key", &payload, SECOND * time, merge)])[0];
            let first = *id.get_or_insert(put.id());
            assert_eq!(put.id(), first);
            assert_eq!(matches!(put, Put::New(_)), index == 0);
        }
        fixture.advance(SECOND * (expected - 1));
        assert!(start(store).is_empty(), "{merge:?} {times:?}");
        fixture.advance(SECOND);
        let lease = start_one(store);
        assert_eq!((Some(lease.id), &lease.payload[..]), (id, &[2][..]));
        assert_eq!(settle(store, &lease, Act::Ack), Verdict::Done);
    }
}

/// The first push of the key sets the bound.
pub fn a_debounce_is_not_postponed_beyond_its_bound(fixture: &impl Fixture) {
    let store = fixture.store();
    let push = || {
        let merge = Merge::DebounceUntil((SECOND * 25).into());
        put_one(store, keyed("key", b"job", SECOND * 10, merge))
    };
    let id = push();
    for _ in 0..4 {
        fixture.advance(SECOND * 6);
        assert!(start(store).is_empty());
        assert_eq!(push(), id);
    }
    fixture.advance(SECOND);
    assert_eq!(start_one(store).id, id);
    // Also for the first push, and for a job without a key.
    let merge = Merge::DebounceUntil(SECOND.into());
    let first = keyed("other", b"job", SECOND * 10, merge);
    for first in [first, NewJob { key: None, ..first }] {
        let id = put_one(store, first);
        fixture.advance(SECOND);
        assert_eq!(start_one(store).id, id);
    }
}

/// A job that is only released keeps its bound.
pub fn an_explicit_time_moves_the_bound_of_a_debounce(fixture: &impl Fixture) {
    let store = fixture.store();
    let push = |time, merge| put_one(store, keyed("key", b"job", SECOND * time, merge));
    let debounce = || push(100, Merge::Debounce);
    let goes_off_after = |time: u32| {
        fixture.advance(SECOND * (time - 1));
        assert!(start(store).is_empty());
        fixture.advance(SECOND);
        start_one(store)
    };
    let id = push(5, Merge::DebounceUntil((SECOND * 10).into()));
    push(20, Merge::Latest);
    assert_eq!(
        settle(store, &goes_off_after(20), Act::Release),
        Verdict::Done
    );
    debounce(); // To the bound, which has passed.
    let lease = start_one(store);
    let when = When::After(SECOND * 30);
    assert_eq!(settle(store, &lease, Act::retry(when)), Verdict::Done);
    debounce();
    assert_eq!(
        settle(store, &goes_off_after(30), Act::Release),
        Verdict::Done
    );
    let reset = store.reset(QUEUE, Which::Id(id), when).expect("a reset");
    assert_eq!(reset, Reset::Moved);
    debounce();
    assert_eq!(goes_off_after(30).id, id);
}

/// The holder has the old payload.
pub fn a_merge_takes_a_claim_ahead_from_its_holder(fixture: &impl Fixture) {
    let store = fixture.store();
    let id = put_one(store, keyed("key", b"old", HORIZON, Merge::Keep));
    let lease = claim_ahead(store);
    assert_eq!(
        put(store, &[keyed("key", b"", When::NOW, Merge::Keep)]),
        [Put::Kept(id)]
    );
    assert_eq!(
        put(store, &[keyed("key", b"new", HORIZON, Merge::Latest)]),
        [Put::Merged(id)]
    );
    fixture.advance(HORIZON);
    assert_eq!(
        settle(store, &lease, Act::Start { lease: LEASE }),
        Verdict::Stale
    );
    let again = start_one(store);
    assert_eq!((again.id, &again.payload[..]), (id, &b"new"[..]));
}

/// Otherwise a push during a run would be lost.
pub fn a_key_may_have_a_pending_job_during_a_run(fixture: &impl Fixture) {
    let store = fixture.store();
    let first = put_one(store, keyed("key", b"first", When::NOW, Merge::Keep));
    let running = start_one(store);
    let second = put(store, &[keyed("key", b"second", When::NOW, Merge::Keep)])[0];
    assert!(matches!(second, Put::New(id) if id != first));
    assert_eq!(start_one(store).id, second.id());
    assert_eq!(settle(store, &running, Act::Ack), Verdict::Done);
    // A job whose holder has died still counts as running for its key.
    let third = put_one(store, keyed("key", b"third", SECOND * 60, Merge::Keep));
    fixture.advance(LEASE);
    let again = start_one(store);
    assert_eq!(again.id, second.id());
    assert_ne!(third, again.id);
}

/// Each ends separately, whatever the reason for the return, and whatever the policy of the second push.
pub fn a_job_that_returns_while_its_key_has_an_open_job_stays_separate(fixture: &impl Fixture) {
    let store = fixture.store();
    let when = When::NOW;
    let until = Merge::DebounceUntil(SECOND.into());
    let policies = [
        Merge::Keep,
        Merge::Earliest,
        Merge::Latest,
        Merge::Debounce,
        until,
    ];
    let acts = [Some(Act::retry(when)), Some(Act::Release), None];
    let cases = policies
        .into_iter()
        .flat_map(|merge| acts.map(|act| (merge, act)));
    for (merge, act) in cases {
        let first = put_one(store, keyed("key", b"first", when, merge));
        let running = start_one(store);
        let second = put_one(store, keyed("key", b"second", when, merge));
        assert_ne!(first, second);
        if let Some(act) = act {
            assert_eq!(settle(store, &running, act), Verdict::Done);
        } else {
            // Its holder has died.
            fixture.advance(LEASE);
            let reset = store.reset(QUEUE, Which::Id(first), when);
            assert_eq!(reset.expect("a reset"), Reset::Moved);
        }
        // Only the second job is open.
        let third = put(store, &[keyed("key", b"third", when, merge)])[0];
        assert_eq!(third.id(), second, "{merge:?}");
        let both = start(store);
        let mut found = ids(&both);
        found.sort_unstable();
        assert_eq!(found, [first, second], "{merge:?}");
        let of_first = both.iter().find(|lease| lease.id == first);
        assert_eq!(of_first.expect("the job exists").payload, b"first");
        for lease in &both {
            assert_eq!(settle(store, lease, Act::Ack), Verdict::Done);
        }
        assert_eq!(store.stats(QUEUE).expect("figures").jobs, 0);
    }
}

/// A later push is merged into it.
pub fn a_job_that_returns_is_open_if_no_other_of_its_key_is(fixture: &impl Fixture) {
    let store = fixture.store();
    // A job of another queue does not share the key.
    let elsewhere = keyed("key", b"elsewhere", When::NOW, Merge::Keep);
    store.enqueue("elsewhere", &[elsewhere]).expect("an answer");
    for act in [Act::retry(When::NOW), Act::Release] {
        let id = put_one(store, keyed("key", b"first", When::NOW, Merge::Keep));
        assert_eq!(settle(store, &start_one(store), act), Verdict::Done);
        let merged = put(store, &[keyed("key", b"second", When::NOW, Merge::Latest)]);
        assert_eq!(merged, [Put::Merged(id)]);
        let lease = start_one(store);
        assert_eq!((lease.id, &lease.payload[..]), (id, &b"second"[..]));
        assert_eq!(settle(store, &lease, Act::Ack), Verdict::Done);
    }
    let id = put_one(store, keyed("key", b"first", When::NOW, Merge::Keep));
    start_one(store);
    fixture.advance(LEASE);
    let reset = store.reset(QUEUE, Which::Id(id), When::NOW);
    assert_eq!(reset.expect("a reset"), Reset::Moved);
    let kept = put(store, &[keyed("key", b"second", When::NOW, Merge::Keep)]);
    assert_eq!(kept, [Put::Kept(id)]);
}

/// It stays a dead letter.
pub fn a_redrive_is_rejected_while_the_key_has_a_pending_job(fixture: &impl Fixture) {
    let store = fixture.store();
    let first = put_one(store, keyed("key", b"first", When::NOW, Merge::Keep));
    let running = start_one(store);
    assert_eq!(settle(store, &running, Act::bury("")), Verdict::Done);
    let second = put_one(store, keyed("key", b"second", When::NOW, Merge::Keep));
    assert_eq!(store.redrive(QUEUE, &[first]).expect("an answer"), 0);
    assert_eq!(start_one(store).id, second);
    assert_eq!(store.redrive(QUEUE, &[first]).expect("an answer"), 1);
    let third = keyed("key", b"third", When::NOW, Merge::Keep);
    assert_eq!(put(store, &[third]), [Put::Kept(first)], "it is open");
    assert_eq!(start_one(store).id, first);
}

/// If there is none, a job that waits for its next attempt; if there is none either, a running one.
pub fn a_cancel_by_key_prefers_the_open_job(fixture: &impl Fixture) {
    let store = fixture.store();
    let cancel = || store.cancel(QUEUE, "key".into()).expect("an answer");
    put_one(store, keyed("key", b"first", When::NOW, Merge::Keep));
    let running = start_one(store);
    assert_eq!(cancel(), Cancelled::Taken);
    put_one(store, keyed("key", b"second", When::NOW, Merge::Keep));
    let expected = Cancelled::Gone {
        payload: b"second".to_vec(),
        attempts: 0,
    };
    assert_eq!(cancel(), expected);
    assert_eq!(cancel(), Cancelled::Taken);
    // A job that waits and is not the first, and an open job.
    put_one(store, keyed("key", b"third", When::NOW, Merge::Keep));
    let third = start_one(store);
    put_one(store, keyed("key", b"fourth", SECOND, Merge::Keep));
    let retry = Act::retry(SECOND.into());
    assert_eq!(settle(store, &third, retry), Verdict::Done);
    for (payload, attempts) in [(&b"fourth"[..], 0), (b"third", 1)] {
        let payload = payload.to_vec();
        assert_eq!(cancel(), Cancelled::Gone { payload, attempts });
    }
    assert_eq!(cancel(), Cancelled::Taken);
    assert_eq!(settle(store, &running, Act::Ack), Verdict::Done);
    assert_eq!(cancel(), Cancelled::Never);
}

/// Whether it is open, runs, or waits for its next attempt.
pub fn a_key_may_have_one_job_until_it_is_done(fixture: &impl Fixture) {
    let store = fixture.store();
    let new = keyed("key", b"job", When::NOW, Merge::KeepUntilDone);
    let id = put_one(store, new);
    assert_eq!(put(store, &[new; 2]), [Put::Kept(id); 2]);
    let running = start_one(store);
    let other = keyed("another", b"job", When::NOW, Merge::KeepUntilDone);
    assert!(matches!(put(store, &[new, other])[..], [Put::Kept(kept), Put::New(_)] if kept == id));
    let separate = put_one(store, keyed("key", b"open", When::NOW, Merge::Keep));
    assert_eq!(put(store, &[new]), [Put::Kept(separate)]);
    _ = store.cancel(QUEUE, Which::Id(separate)).expect("an answer");
    let later = Act::retry(SECOND.into());
    assert_eq!(settle(store, &running, later), Verdict::Done);
    assert_eq!(put(store, &[new]), [Put::Kept(id)]);
    fixture.advance(SECOND);
    let leases = start(store);
    let running = leases
        .iter()
        .find(|lease| lease.id == id)
        .expect("it is due");
    assert_eq!(settle(store, running, Act::Ack), Verdict::Done);
    assert!(
        matches!(put(store, &[new, new])[..], [Put::New(next), Put::Kept(kept)] if next == kept)
    );
}

/// Dead letters do not count.
pub fn a_key_may_have_one_job_while_it_is_kept(fixture: &impl Fixture) {
    let store = fixture.store();
    let new = keyed("key", b"job", When::NOW, Merge::KeepDone);
    let keep = Act::Keep(Keep {
        span: SECOND * 60,
        took: SECOND,
        result: None,
    });
    let until_done = keyed("key", b"job", When::NOW, Merge::KeepUntilDone);
    for _ in 0..2 {
        let id = put_one(store, new);
        let running = start_one(store);
        assert_eq!(put(store, &[new]), [Put::Kept(id)]);
        assert_eq!(settle(store, &running, keep), Verdict::Done);
        fixture.advance(SECOND * 59);
        let other = keyed("another", b"job", When::After(LEASE * 9), Merge::KeepDone);
        assert_ne!(put(store, &[other])[0].id(), id);
        assert_eq!(put(store, &[new; 2]), [Put::Kept(id); 2]);
        fixture.advance(SECOND);
        let next = put(store, &[new])[0];
        assert!(matches!(next, Put::New(_)), "its time is over");
        let running = start_one(store);
        assert_eq!(settle(store, &running, Act::bury("lost")), Verdict::Done);
    }
    let id = put_one(store, new);
    assert_eq!(settle(store, &start_one(store), keep), Verdict::Done);
    assert!(matches!(put(store, &[until_done])[..], [Put::New(_)]));
    let open = put(store, &[new])[0].id();
    assert_ne!(open, id, "the open job comes first");
}
