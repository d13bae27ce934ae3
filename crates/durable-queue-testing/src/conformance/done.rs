//! Done jobs are kept for a while, if their holder asks for it.

use std::time::Duration;

use durable_queue::store::{Act, Fate, Keep, Lease, Store, Verdict};
use durable_queue::{Cancelled, JobId, LONGEST_RESULT, Merge, NewJob, Token, When};

use super::{
    Fixture, QUEUE, SECOND, claim_ahead, job, keyed, put, put_one, settle, start, start_one, turn,
};

const TOOK: Duration = Duration::from_micros(1_234_567);
const SPAN: Duration = Duration::from_secs(3_600);

fn keep(result: Option<&[u8]>) -> Act<'_> {
    keep_for(SPAN, result)
}

fn keep_for(span: Duration, result: Option<&[u8]>) -> Act<'_> {
    Act::Keep(Keep {
        span,
        took: TOOK,
        result,
    })
}

fn fate<S: Store>(store: &S, id: JobId) -> Fate {
    store.fate(QUEUE, id).expect("an answer")
}

fn is_done<S: Store>(store: &S, id: JobId) -> bool {
    matches!(fate(store, id), Fate::Done(_))
}

fn delete<S: Store>(store: &S, most: u32) -> usize {
    store.delete_done(QUEUE, most).expect("an answer")
}

/// In its own queue, for all clients.
pub fn a_kept_job_is_done_with_its_result(fixture: &impl Fixture) {
    let store = fixture.store();
    assert_eq!(fate(store, JobId::from_u64(1)), Fate::Gone, "no such queue");
    assert_eq!(delete(store, 10), 0);
    let new = NewJob {
        kind: Some("mail"),
        ..keyed("key", b"job", When::NOW, Merge::Keep)
    };
    let id = put_one(store, new);
    assert_eq!(fate(store, id), Fate::Open);
    let first = start_one(store);
    assert_eq!(settle(store, &first, Act::retry(When::NOW)), Verdict::Done);
    let lease = start_one(store);
    assert_eq!(fate(store, id), Fate::Open);
    assert_eq!(settle(store, &lease, keep(Some(b"result"))), Verdict::Done);
    let now = turn(store, &[], None).now;
    let another = fixture.another();
    let (Fate::Done(here), Fate::Done(there)) = (fate(store, id), fate(&another, id)) else {
        panic!("it is done");
    };
    assert_eq!(here, there);
    assert_eq!((here.id, here.attempts), (id, 2));
    assert_eq!(here.key.as_deref(), Some(&b"key"[..]));
    assert_eq!(here.kind.as_deref(), Some("mail"));
    assert_eq!((here.took, here.result), (TOOK, Some(b"result".to_vec())));
    assert_eq!(here.until, here.finished.after(SPAN));
    assert!(here.finished <= now && now.since(here.finished) < SECOND * 60);
    assert_eq!(store.stats(QUEUE).expect("figures").jobs, 0);
    assert_eq!(start(store).len(), 0);
    let elsewhere = store.fate("elsewhere", id).expect("an answer");
    assert_eq!(elsewhere, Fate::Gone);
}

/// Or a dead letter.
pub fn a_job_that_is_not_kept_is_gone(fixture: &impl Fixture) {
    let store = fixture.store();
    let acked = put_one(store, job(b"job", When::NOW));
    assert_eq!(settle(store, &start_one(store), Act::Ack), Verdict::Done);
    let cancelled = put_one(store, job(b"job", When::NOW));
    let answer = store.cancel(QUEUE, cancelled.into()).expect("an answer");
    assert!(matches!(answer, Cancelled::Gone { .. }));
    for id in [acked, cancelled] {
        assert_eq!(fate(store, id), Fate::Gone);
    }
    let buried = put_one(store, job(b"job", When::NOW));
    assert_eq!(
        settle(store, &start_one(store), Act::bury("why")),
        Verdict::Done
    );
    let error = "why".to_owned();
    assert_eq!(fate(store, buried), Fate::Dead { error });
    assert_eq!(store.redrive(QUEUE, &[buried]).expect("an answer"), 1);
    assert_eq!(fate(store, buried), Fate::Open);
    assert_eq!(settle(store, &start_one(store), keep(None)), Verdict::Done);
    assert!(is_done(store, buried));
}

/// By the store's clock. The earliest are deleted first, and no more than asked for.
pub fn a_done_job_is_gone_when_its_time_is_over(fixture: &impl Fixture) {
    let store = fixture.store();
    let spans = [SECOND * 300, SECOND * 100, SECOND * 200, SPAN];
    let ids = spans.map(|span| {
        let id = put_one(store, job(b"job", When::NOW));
        let lease = start_one(store);
        assert_eq!(settle(store, &lease, keep_for(span, None)), Verdict::Done);
        id
    });
    let are_done = |store| ids.map(|id| is_done(store, id));
    assert_eq!(delete(store, 10), 0);
    assert_eq!(are_done(store), [true; 4]);
    fixture.advance(SECOND * 150);
    assert_eq!(are_done(store), [true, false, true, true]);
    fixture.advance(SECOND * 200);
    assert_eq!(are_done(store), [false, false, false, true]);
    assert_eq!(fate(store, ids[0]), Fate::Gone);
    assert_eq!(store.delete_done("elsewhere", 10).expect("an answer"), 0);
    assert_eq!(delete(store, 2), 2);
    assert_eq!(delete(store, 2), 1);
    assert_eq!(delete(store, 2), 0);
    assert_eq!(are_done(store), [false, false, false, true]);
}

/// And only a started one, once.
pub fn only_the_holder_can_keep_a_job(fixture: &impl Fixture) {
    let store = fixture.store();
    let id = put_one(store, job(b"job", When::NOW));
    let ahead = claim_ahead(store);
    assert_eq!(settle(store, &ahead, keep(None)), Verdict::Stale);
    assert_eq!(settle(store, &ahead, Act::Release), Verdict::Done);
    let lease = start_one(store);
    let other = Lease {
        token: Token::random(),
        ..lease.clone()
    };
    assert_eq!(settle(store, &other, keep(Some(b"stale"))), Verdict::Stale);
    assert_eq!(fate(store, id), Fate::Open);
    assert_eq!(settle(store, &lease, keep(Some(b"held"))), Verdict::Done);
    assert_eq!(settle(store, &lease, keep(Some(b"late"))), Verdict::Stale);
    let Fate::Done(done) = fate(store, id) else {
        panic!("it is done");
    };
    assert_eq!(done.result.as_deref(), Some(&b"held"[..]));
}

/// Also none and an empty one, and all of a turn with other settles.
pub fn results_are_kept_byte_for_byte(fixture: &impl Fixture) {
    let store = fixture.store();
    let all: Vec<u8> = (0..=255).collect();
    let longest = vec![7; LONGEST_RESULT];
    let results: [Option<&[u8]>; 6] = [
        None,
        Some(b""),
        Some(b"\0"),
        Some(b" =\n"),
        Some(&all),
        Some(&longest),
    ];
    put(store, &[job(b"job", When::NOW); 8]);
    let leases = start(store);
    assert_eq!(leases.len(), 8);
    let mut settles: Vec<_> = leases.iter().map(|lease| lease.settle(Act::Ack)).collect();
    for (settle, result) in settles.iter_mut().zip(results) {
        settle.act = keep(result);
    }
    settles[7].act = Act::retry(When::NOW);
    assert_eq!(turn(store, &settles, None).verdicts, [Verdict::Done; 8]);
    for (lease, result) in leases.iter().zip(results) {
        let Fate::Done(done) = fate(store, lease.id) else {
            panic!("it is done");
        };
        assert_eq!(done.result.as_deref(), result);
        assert_eq!((done.key, done.kind), (None, None));
    }
    assert_eq!(fate(store, leases[6].id), Fate::Gone);
    assert_eq!(fate(store, leases[7].id), Fate::Open);
}

/// The handler has ignored the request.
pub fn a_marked_job_can_be_kept(fixture: &impl Fixture) {
    let store = fixture.store();
    let id = put_one(store, keyed("key", b"job", When::NOW, Merge::Keep));
    let lease = start_one(store);
    let answer = store.cancel(QUEUE, id.into()).expect("an answer");
    assert_eq!(answer, Cancelled::Taken);
    assert_eq!(settle(store, &lease, keep(None)), Verdict::Done);
    assert!(is_done(store, id));
    assert!(store.cancel_requests(QUEUE).expect("an answer").is_empty());
}
