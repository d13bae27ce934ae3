//! Stores keep what only workers read: a job's kind, its options, and the history of its failed attempts.

use durable_queue::store::{Act, Lease, Store, Verdict};
use durable_queue::{CarriedOut, ErrorKind, Merge, NewJob, Put, When};

use super::{
    Fixture, LEASE, QUEUE, SECOND, claim_ahead, job, keyed, put, put_one, settle, start_one,
};

const KIND: Option<&str> = Some("mail");
const OPTIONS: Option<&str> = Some("{\"attempts\": 3}");

fn of_kind<'a>(kind: Option<&'a str>, options: Option<&'a str>, job: NewJob<'a>) -> NewJob<'a> {
    NewJob {
        kind,
        options,
        ..job
    }
}

fn texts(lease: &Lease) -> (Option<&str>, Option<&str>) {
    (lease.kind.as_deref(), lease.options.as_deref())
}

/// Through retries, repetitions, releases, resets, burials, redrives and the ends of leases. Jobs without
/// them have none.
pub fn kind_and_options_are_kept_until_the_job_ends(fixture: &impl Fixture) {
    let store = fixture.store();
    let repeating = NewJob {
        schedule: Some("hourly"),
        ..keyed("key", b"job", When::NOW, Merge::Keep)
    };
    let keyless = of_kind(KIND, OPTIONS, job(b"job", When::NOW));
    for new in [of_kind(KIND, OPTIONS, repeating), keyless] {
        let id = put_one(store, new);
        let is_kept = |lease: Lease| {
            assert_eq!((lease.id, texts(&lease)), (id, (KIND, OPTIONS)));
            let held = store.held_by(QUEUE, lease.token, LEASE).expect("an answer");
            assert_eq!((held.len(), texts(&held[0])), (1, (KIND, OPTIONS)));
            let listed = store.list(QUEUE, None, 10).expect("a list");
            assert_eq!((listed.len(), listed[0].kind.as_deref()), (1, KIND));
            lease
        };
        let retry = Act::retry(When::NOW);
        let again = Act::Again { when: When::NOW };
        for act in [retry, Act::Release, again] {
            if !matches!(act, Act::Again { .. }) || new.schedule.is_some() {
                let lease = is_kept(start_one(store));
                assert_eq!(settle(store, &lease, act), Verdict::Done, "{act:?}");
            }
        }
        is_kept(claim_ahead(store));
        fixture.advance(LEASE);
        is_kept(start_one(store));
        fixture.advance(LEASE);
        let reset = store.reset(QUEUE, id.into(), When::NOW);
        assert_eq!(reset.expect("an answer"), durable_queue::Reset::Moved);
        let lease = is_kept(start_one(store));
        assert_eq!(settle(store, &lease, Act::bury("no")), Verdict::Done);
        let dead = store.dead(QUEUE, None, 10).expect("dead letters");
        let dead = (dead[0].kind.as_deref(), dead[0].options.as_deref());
        assert_eq!(dead, (KIND, OPTIONS));
        assert_eq!(store.redrive(QUEUE, &[id]).expect("an answer"), 1);
        let lease = is_kept(start_one(store));
        assert_eq!(settle(store, &lease, Act::Ack), Verdict::Done);
    }
    put_one(store, job(b"job", When::NOW));
    assert_eq!(texts(&start_one(store)), (None, None));
    assert!(
        store.list(QUEUE, None, 1).expect("a list")[0]
            .kind
            .is_none()
    );
}

/// Each job of a batch has its own.
pub fn jobs_of_several_kinds_are_pushed_together(fixture: &impl Fixture) {
    let store = fixture.store();
    let plain = job(b"job", When::NOW);
    let jobs = [
        plain,
        of_kind(KIND, None, plain),
        plain,
        of_kind(None, OPTIONS, plain),
        of_kind(Some("report"), OPTIONS, plain),
    ];
    put(store, &jobs);
    for job in jobs {
        assert_eq!(texts(&start_one(store)), (job.kind, job.options));
    }
    // The same without a job that has any.
    put(store, &[plain; 2]);
    assert_eq!(texts(&start_one(store)), (None, None));
}

/// Together with the payload, also by none. A job that is kept keeps them.
pub fn a_merge_replaces_kind_and_options(fixture: &impl Fixture) {
    let store = fixture.store();
    let push = |kind, options, merge| {
        let new = keyed("key", b"job", SECOND, merge);
        put(store, &[of_kind(kind, options, new)])[0]
    };
    let listed = || store.list(QUEUE, None, 1).expect("a list").remove(0).kind;
    push(None, OPTIONS, Merge::Keep);
    assert_eq!(listed(), None);
    assert!(matches!(push(KIND, None, Merge::Latest), Put::Merged(_)));
    assert_eq!(listed().as_deref(), KIND);
    assert!(matches!(push(None, OPTIONS, Merge::Keep), Put::Kept(_)));
    assert_eq!(listed().as_deref(), KIND);
    for (kind, options) in [(None, OPTIONS), (KIND, OPTIONS), (KIND, None), (None, None)] {
        assert!(matches!(
            push(kind, options, Merge::Debounce),
            Put::Merged(_)
        ));
        fixture.advance(SECOND);
        let lease = start_one(store);
        assert_eq!(texts(&lease), (kind, options));
        assert_eq!(settle(store, &lease, Act::Release), Verdict::Done);
    }
}

/// The next run is of the new kind.
pub fn a_repeating_push_replaces_kind_and_options_of_the_running_job(fixture: &impl Fixture) {
    let store = fixture.store();
    let push = |kind, options, merge| {
        let new = NewJob {
            schedule: Some("hourly"),
            ..keyed("key", b"job", When::NOW, merge)
        };
        put(store, &[of_kind(kind, options, new)])[0]
    };
    let again = Act::Again { when: When::NOW };
    push(KIND, OPTIONS, Merge::Keep);
    let lease = start_one(store);
    assert!(matches!(push(None, None, Merge::Keep), Put::Kept(_)));
    assert_eq!(settle(store, &lease, again), Verdict::Done);
    let lease = start_one(store);
    assert_eq!(texts(&lease), (KIND, OPTIONS));
    assert!(matches!(
        push(Some("report"), None, Merge::Latest),
        Put::Merged(_)
    ));
    assert_eq!(settle(store, &lease, again), Verdict::Done);
    assert_eq!(texts(&start_one(store)), (Some("report"), None));
}

/// The empty text differs from none. A text with NUL is kept, or the push is rejected.
pub fn kinds_and_options_may_be_any_text(fixture: &impl Fixture) {
    let store = fixture.store();
    for text in ["", "=", "it's \"a\\\u{1}\n%s", "\u{1F41C}"] {
        put_one(store, of_kind(Some(text), None, job(b"", When::NOW)));
        assert_eq!(texts(&start_one(store)), (Some(text), None));
        put_one(store, of_kind(None, Some(text), job(b"", When::NOW)));
        assert_eq!(texts(&start_one(store)), (None, Some(text)));
    }
    for (kind, options) in [(Some("\0"), None), (None, Some("\0"))] {
        let new = of_kind(kind, options, job(b"", When::NOW));
        match store.enqueue(QUEUE, &[new]) {
            Ok(_) => assert_eq!(texts(&start_one(store)), (kind, options)),
            Err(error) => {
                let what = (error.kind(), error.carried_out());
                assert_eq!(what, (ErrorKind::BadName, CarriedOut::No));
            }
        }
    }
}

/// A retry or a burial replaces it, unless it has none. A repetition clears it.
pub fn a_job_keeps_the_history_of_its_failed_attempts(fixture: &impl Fixture) {
    let store = fixture.store();
    let new = NewJob {
        schedule: Some("hourly"),
        ..keyed("key", b"job", When::NOW, Merge::Keep)
    };
    let id = put_one(store, new);
    let retry = |failures| Act::Retry {
        when: When::NOW,
        failures,
        counts: true,
    };
    let failed = |lease: &Lease, failures: Option<&str>| {
        assert_eq!((lease.id, lease.failures.as_deref()), (id, failures));
        let held = store.held_by(QUEUE, lease.token, LEASE).expect("an answer");
        assert_eq!(held[0].failures.as_deref(), failures);
        let listed = store.list(QUEUE, None, 1).expect("a list");
        assert_eq!(listed[0].failures.as_deref(), failures);
    };
    let (one, two) = (Some("[\"one\"]"), Some("it's \"two\" \u{1}\u{1F41C}"));
    for (before, act) in [
        (None, retry(one)),
        (one, retry(None)),
        (one, Act::Release),
        (one, retry(two)),
    ] {
        let lease = start_one(store);
        failed(&lease, before);
        assert_eq!(settle(store, &lease, act), Verdict::Done, "{act:?}");
    }
    let merge = keyed("key", b"new", When::NOW, Merge::Latest);
    assert_eq!(put(store, &[merge]), [Put::Merged(id)]);
    let ahead = claim_ahead(store);
    failed(&ahead, two);
    // It has no attempt that could fail.
    assert_eq!(settle(store, &ahead, retry(one)), Verdict::Stale);
    fixture.advance(LEASE);
    let lease = start_one(store);
    failed(&lease, two);
    assert_eq!(settle(store, &ahead, retry(one)), Verdict::Stale);
    failed(&lease, two);
    let again = Act::Again { when: When::NOW };
    assert_eq!(settle(store, &lease, again), Verdict::Done);
    failed(&start_one(store), None);
}

/// Also when it is redriven.
pub fn a_dead_letter_keeps_the_history_of_its_failed_attempts(fixture: &impl Fixture) {
    let store = fixture.store();
    let id = put_one(store, job(b"job", When::NOW));
    let (one, two) = (Some("one"), Some("two"));
    let ended = |failures, counts| Act::Bury {
        error: "no",
        failures,
        counts,
    };
    let bury = |failures| ended(failures, true);
    let reject = |failures| ended(failures, false);
    for (act, failures) in [
        (bury(None), None),
        (bury(one), one),
        (reject(None), one),
        (reject(two), two),
        (bury(None), two),
    ] {
        let lease = start_one(store);
        assert_eq!(settle(store, &lease, act), Verdict::Done, "{act:?}");
        let dead = store.dead(QUEUE, None, 1).expect("dead letters").remove(0);
        assert_eq!((&*dead.error, dead.failures.as_deref()), ("no", failures));
        assert_eq!(store.redrive(QUEUE, &[id]).expect("an answer"), 1);
        let listed = store.list(QUEUE, None, 1).expect("a list");
        assert_eq!(listed[0].failures.as_deref(), failures, "{act:?}");
    }
}
