//! Limits of kinds, for all processes together.

use std::sync::atomic::{AtomicU32, Ordering::SeqCst};
use std::thread;

use durable_queue::internals::SharedClock;
use durable_queue::store::{
    Act, Claim, JobState, Keep, Lease, ListedJob, PARK_LIMIT, Store, Verdict,
};
use durable_queue::{JobId, Limit, Merge, NewJob, Reset, StoreTime, When, Which};
use sync_shim::Clock as _;

use super::contents::{Heard, PATIENCE};
use super::{
    Fixture, HORIZON, LEASE, QUEUE, REJECT, SECOND, claim_ahead, claim_of, claimed, ids, job,
    keyed, put, put_one, settle, start, start_one, turn,
};

const KIND: &str = "mail";

fn mail(when: impl Into<When>) -> NewJob<'static> {
    NewJob {
        kind: Some(KIND),
        ..job(b"mail", when)
    }
}

fn keyed_mail(key: &'static str, when: impl Into<When>) -> NewJob<'static> {
    NewJob {
        kind: Some(KIND),
        ..keyed(key, b"mail", when, Merge::Latest)
    }
}

pub(super) fn set(store: &impl Store, limit: &Limit) {
    store.limit(QUEUE, limit, true).expect("it is set");
}

pub(super) fn remove(store: &impl Store, limit: &Limit) {
    store.limit(QUEUE, limit, false).expect("it is removed");
}

fn extend(store: &impl Store, lease: &Lease) -> Verdict {
    settle(store, lease, Act::Extend { lease: LEASE })
}

pub(super) fn listed(store: &impl Store, id: JobId) -> ListedJob {
    let mut jobs = store.list(QUEUE, None, 10).expect("a list").into_iter();
    jobs.find(|job| job.id == id).expect("the job exists")
}

/// With a limit of one job of the kind: returns a running one, and the id of another that waits.
fn one_runs_and_one_waits(store: &impl Store) -> (Lease, JobId) {
    set(store, &Limit::per_kind(KIND, 1));
    put_one(store, mail(When::NOW));
    let lease = start_one(store);
    let id = put_one(store, mail(When::NOW));
    assert!(start(store).is_empty(), "its kind is full");
    (lease, id)
}

/// Others do not wait: jobs of other kinds, without a kind, and of the same kind in another queue.
pub fn at_most_the_maximum_of_a_kind_is_held(fixture: &impl Fixture) {
    let store = fixture.store();
    set(store, &Limit::per_kind(KIND, 2));
    let puts = put(store, &[mail(When::NOW); 4]);
    let other = NewJob {
        kind: Some("report"),
        ..job(b"report", When::NOW)
    };
    let others = put(store, &[other, other, other, job(b"none", When::NOW)]);
    store
        .enqueue("elsewhere", &[mail(When::NOW); 3])
        .expect("an answer");
    let leases = start(store);
    let all = [&puts[..2], &others].concat();
    let all: Vec<JobId> = all.iter().map(|put| put.id()).collect();
    assert_eq!(ids(&leases), all);
    let elsewhere = store.turn("elsewhere", &[], Some(claim_of(10, 10)));
    let elsewhere = elsewhere.expect("an answer").claimed.expect("a claim");
    assert_eq!(elsewhere.leases.len(), 3);
    for (done, next) in leases.iter().zip(&puts[2..]) {
        assert_eq!(settle(store, done, Act::Ack), Verdict::Done);
        assert_eq!(ids(&start(store)), [next.id()]);
    }
}

/// Of a kind without room, however many there are.
pub fn parked_jobs_hide_no_others(fixture: &impl Fixture) {
    let store = fixture.store();
    let (first, second) = one_runs_and_one_waits(store);
    let many = PARK_LIMIT as usize + 10;
    put(store, &vec![mail(When::NOW); many]);
    let other = put_one(store, job(b"other", When::NOW));
    // The first claim may park no more than its limit. The answer tells that there are more due jobs.
    let answer = turn(store, &[], Some(claim_of(10, 10)));
    let answered = answer.claimed.expect("a claim was asked for");
    assert!(answered.leases.is_empty() && answered.first <= answer.now);
    assert_eq!(ids(&start(store)), [other]);
    assert_eq!(store.stats(QUEUE).expect("figures").due, 0);
    assert_eq!(settle(store, &first, Act::Ack), Verdict::Done);
    assert_eq!(store.stats(QUEUE).expect("figures").due, 1, "one is called");
    assert!(start_one(store).id == second);
}

/// Its due time does not change, and it counts as waiting.
pub fn a_parked_job_keeps_its_due_time(fixture: &impl Fixture) {
    let store = fixture.store();
    let (first, second) = one_runs_and_one_waits(store);
    let parked = listed(store, second);
    assert_eq!(
        (parked.due, parked.state, parked.attempts),
        (StoreTime::NEVER, JobState::Waiting, 0)
    );
    assert_eq!(settle(store, &first, Act::Ack), Verdict::Done);
    let called = listed(store, second);
    assert_eq!((called.due, called.at), (parked.at, parked.at));
    let lease = start_one(store);
    assert_eq!(
        (lease.id, lease.due, lease.attempts),
        (second, parked.at, 1)
    );
}

/// Also within the turn that settles.
pub fn each_end_of_a_lease_makes_room_for_a_job_of_its_kind(fixture: &impl Fixture) {
    let store = fixture.store();
    let later = When::After(SECOND * 100);
    let acts = [
        Act::Ack,
        Act::Keep(Keep {
            span: SECOND,
            took: SECOND,
            result: None,
        }),
        Act::retry(later),
        Act::Again { when: later },
        Act::bury("no"),
        REJECT,
    ];
    for act in acts {
        set(store, &Limit::per_kind(KIND, 1));
        let repeats = matches!(act, Act::Again { .. });
        let first = NewJob {
            schedule: repeats.then_some("hourly"),
            ..mail(When::NOW)
        };
        put_one(store, first);
        let first = start_one(store);
        let second = put_one(store, mail(When::NOW));
        assert!(start(store).is_empty(), "its kind is full");
        let answer = turn(store, &[first.settle(act)], Some(claim_of(10, 10)));
        let leases = answer.claimed.expect("a claim was asked for").leases;
        assert_eq!(ids(&leases), [second], "{act:?}");
        assert_eq!(settle(store, &leases[0], Act::Ack), Verdict::Done);
        _ = store.cancel(QUEUE, Which::Id(first.id)).expect("an answer");
    }
}

/// It is due before the parked one.
pub fn a_released_job_of_a_full_kind_is_the_next_one(fixture: &impl Fixture) {
    let store = fixture.store();
    let (first, second) = one_runs_and_one_waits(store);
    assert_eq!(settle(store, &first, Act::Release), Verdict::Done);
    let leases = start(store);
    assert_eq!(ids(&leases), [first.id]);
    assert_eq!(settle(store, &leases[0], Act::Ack), Verdict::Done);
    assert_eq!(start_one(store).id, second);
}

/// The ways in which a job is taken from its holder. `push` is merged into the job.
pub(super) fn takings<'a>(
    store: &'a impl Store,
    push: impl Fn(When) -> JobId + 'a,
) -> [Box<dyn Fn(JobId) + 'a>; 3] {
    let later = When::After(SECOND * 100);
    [
        Box::new(|id| {
            let cancelled = store.cancel(QUEUE, Which::Id(id)).expect("an answer");
            assert!(cancelled.is_gone());
        }),
        Box::new(move |id| {
            let reset = store.reset(QUEUE, Which::Id(id), later);
            assert_eq!(reset.expect("a reset"), Reset::Moved);
        }),
        Box::new(move |id| assert_eq!(push(later), id)),
    ]
}

/// From its holder: by a cancel, a reset or a merge. Watches are notified.
pub fn a_claim_ahead_that_is_taken_makes_room(fixture: &impl Fixture) {
    let store = fixture.store();
    set(store, &Limit::per_kind(KIND, 1));
    for take in takings(store, |later| put_one(store, keyed_mail("key", later))) {
        put_one(store, keyed_mail("key", HORIZON));
        let ahead = claim_ahead(store);
        let waiting = put_one(store, mail(When::NOW));
        assert!(start(store).is_empty(), "the place is taken");
        let heard = Heard::new();
        let mut watch = store.watch(QUEUE, heard.notifier()).expect("a watch");
        heard.earliest();
        take(ahead.id);
        heard.is_announced(&mut *watch, "the place");
        let lease = start_one(store);
        assert_eq!(lease.id, waiting);
        assert_eq!(settle(store, &lease, Act::Ack), Verdict::Done);
        _ = store.cancel(QUEUE, Which::Id(ahead.id)).expect("an answer");
    }
}

/// So that it cannot be started beyond the limit.
pub fn a_job_claimed_ahead_holds_a_place_of_its_kind(fixture: &impl Fixture) {
    let store = fixture.store();
    set(store, &Limit::per_kind(KIND, 1));
    put_one(store, mail(HORIZON));
    let ahead = claim_ahead(store);
    let second = put_one(store, mail(When::NOW));
    fixture.advance(SECOND);
    assert!(claimed(store, 10, 10).leases.is_empty());
    let started = settle(store, &ahead, Act::Start { lease: LEASE });
    assert_eq!(started, Verdict::Done);
    assert!(claimed(store, 10, 10).leases.is_empty());
    assert_eq!(settle(store, &ahead, Act::Ack), Verdict::Done);
    assert_eq!(start_one(store).id, second);
}

/// Then another job gets it, and the previous holder is fenced off.
pub fn a_dead_holder_keeps_its_place_until_its_lease_ends(fixture: &impl Fixture) {
    let store = fixture.store();
    let (first, second) = one_runs_and_one_waits(store);
    let answer = turn(store, &[], Some(claim_of(10, 10)));
    let answered = answer.claimed.expect("a claim was asked for");
    assert!(answer.now < answered.first && answered.first <= answer.now.after(LEASE));
    fixture.advance(LEASE - SECOND);
    assert!(start(store).is_empty(), "the lease lives");
    fixture.advance(SECOND);
    let leases = start(store);
    assert_eq!(
        ids(&leases),
        [second],
        "one may run, and this is due earlier"
    );
    assert_eq!(extend(store, &first), Verdict::Stale);
    assert!(start(store).is_empty());
    assert_eq!(settle(store, &leases[0], Act::Ack), Verdict::Done);
    let lease = start_one(store);
    assert_eq!((lease.id, lease.attempts), (first.id, 2));
}

/// The holder is late, but no other job needed its place.
pub fn an_expired_lease_is_valid_until_its_place_is_needed(fixture: &impl Fixture) {
    let store = fixture.store();
    set(store, &Limit::per_kind(KIND, 2));
    put(store, &[mail(When::NOW); 3]);
    let running = start(store);
    assert_eq!(running.len(), 2);
    fixture.advance(LEASE);
    let third = start_one(store);
    assert!(!ids(&running).contains(&third.id));
    let verdicts = [0, 1].map(|at| extend(store, &running[at]));
    assert_eq!(verdicts, [Verdict::Stale, Verdict::Done]);
    assert!(start(store).is_empty(), "two run");
}

/// It counts from the limit's first claim.
pub fn jobs_that_run_when_a_limit_is_set_count(fixture: &impl Fixture) {
    let store = fixture.store();
    put(store, &[mail(When::NOW); 3]);
    let running = claimed(store, 2, 2).leases;
    set(store, &Limit::per_kind(KIND, 1));
    for lease in &running {
        assert!(start(store).is_empty());
        assert_eq!(extend(store, lease), Verdict::Done);
        assert_eq!(settle(store, lease, Act::Ack), Verdict::Done);
    }
    start_one(store);
}

/// Running jobs continue. Watches are notified of the greater maximum.
pub fn a_maximum_can_be_changed_while_jobs_run(fixture: &impl Fixture) {
    let store = fixture.store();
    let (first, second) = one_runs_and_one_waits(store);
    put_one(store, mail(When::NOW));
    let heard = Heard::new();
    let mut watch = store.watch(QUEUE, heard.notifier()).expect("a watch");
    heard.earliest();
    set(store, &Limit::per_kind(KIND, 2));
    heard.is_announced(&mut *watch, "the place");
    let leases = start(store);
    assert_eq!(ids(&leases), [second]);
    set(store, &Limit::per_kind(KIND, 1));
    for lease in [&first, &leases[0]] {
        assert!(start(store).is_empty());
        assert_eq!(extend(store, lease), Verdict::Done);
        assert_eq!(settle(store, lease, Act::Ack), Verdict::Done);
    }
    start_one(store);
}

/// And holds no job back.
pub fn a_removed_limit_has_no_effect(fixture: &impl Fixture) {
    let store = fixture.store();
    let (first, second) = one_runs_and_one_waits(store);
    let third = put_one(store, mail(When::NOW));
    remove(store, &Limit::per_kind("another", 1));
    assert!(start(store).is_empty());
    remove(store, &Limit::per_kind(KIND, 7));
    assert_eq!(store.limits(QUEUE).expect("a list"), []);
    assert_eq!(ids(&start(store)), [second, third]);
    assert_eq!(settle(store, &first, Act::Ack), Verdict::Done);
    // Set again, it counts the jobs that run.
    set(store, &Limit::per_kind(KIND, 2));
    put_one(store, mail(When::NOW));
    assert!(start(store).is_empty());
}

/// That of groups comes first, then by kind.
pub fn limits_are_listed_as_they_were_set(fixture: &impl Fixture) {
    let store = fixture.store();
    assert_eq!(store.limits(QUEUE).expect("a list"), []);
    let rate = Limit::rate_of_kind("b", 3, SECOND);
    let limits = [
        Limit::per_group(3),
        Limit::per_kind("a", 7),
        Limit::per_kind("b", 1),
        rate.clone(),
    ];
    for limit in limits.iter().rev() {
        set(store, limit);
    }
    assert_eq!(store.limits(QUEUE).expect("a list"), limits);
    assert_eq!(store.limits("another").expect("a list"), []);
    set(store, &Limit::per_kind("b", 5));
    remove(store, &limits[1]);
    remove(store, &limits[0]);
    let limits = [Limit::per_kind("b", 5), rate.clone()];
    assert_eq!(store.limits(QUEUE).expect("a list"), limits);
    remove(store, &limits[0]);
    assert_eq!(store.limits(QUEUE).expect("a list"), [rate]);
    for rule in [Limit::ordered(), Limit::fair()] {
        set(store, &rule);
        assert_eq!(store.limits(QUEUE).expect("a list").remove(0), rule);
    }
}

/// Urgent ones first, then by due time.
pub fn urgent_parked_jobs_are_called_first(fixture: &impl Fixture) {
    let store = fixture.store();
    let (mut running, second) = one_runs_and_one_waits(store);
    let urgent = NewJob {
        urgent: true,
        ..mail(When::NOW)
    };
    let urgent = put_one(store, urgent);
    assert!(start(store).is_empty());
    for next in [urgent, second] {
        assert_eq!(settle(store, &running, Act::Ack), Verdict::Done);
        let mut leases = start(store);
        assert_eq!(ids(&leases), [next]);
        running = leases.remove(0);
    }
}

/// Turns that claim nothing call no more than there is room for.
pub fn a_called_job_is_called_once(fixture: &impl Fixture) {
    let store = fixture.store();
    let (first, _) = one_runs_and_one_waits(store);
    put(store, &[mail(When::NOW); 3]);
    assert!(start(store).is_empty());
    assert_eq!(settle(store, &first, Act::Ack), Verdict::Done);
    for _ in 0..3 {
        assert!(claimed(store, 0, 0).leases.is_empty());
        assert_eq!(store.stats(QUEUE).expect("figures").due, 1);
    }
    assert_eq!(start(store).len(), 1);
}

/// As any other job that waits.
pub fn a_parked_job_can_be_cancelled_reset_and_merged(fixture: &impl Fixture) {
    let store = fixture.store();
    let (running, cancelled) = one_runs_and_one_waits(store);
    let reset = put_one(store, mail(When::NOW));
    let merged = put_one(store, keyed_mail("key", When::NOW));
    assert!(start(store).is_empty());
    let answer = store.cancel(QUEUE, Which::Id(cancelled));
    assert!(answer.expect("an answer").is_gone());
    let when = When::After(SECOND);
    let moved = store.reset(QUEUE, Which::Id(reset), when);
    assert_eq!(moved.expect("a reset"), Reset::Moved);
    assert_eq!(put_one(store, keyed_mail("key", when)), merged);
    assert_ne!(listed(store, reset).due, StoreTime::NEVER);
    assert_ne!(listed(store, merged).due, StoreTime::NEVER);
    assert_eq!(settle(store, &running, Act::Ack), Verdict::Done);
    assert!(start(store).is_empty());
    fixture.advance(SECOND);
    for next in [reset, merged] {
        let leases = start(store);
        assert_eq!(ids(&leases), [next]);
        assert_eq!(settle(store, &leases[0], Act::Ack), Verdict::Done);
    }
}

/// Its place is free when it ends.
pub fn a_cancelled_running_job_keeps_its_place(fixture: &impl Fixture) {
    let store = fixture.store();
    let (first, second) = one_runs_and_one_waits(store);
    let cancelled = store.cancel(QUEUE, Which::Id(first.id)).expect("an answer");
    assert!(!cancelled.is_gone());
    assert!(start(store).is_empty());
    assert_eq!(settle(store, &first, Act::retry(When::NOW)), Verdict::Done);
    assert_eq!(start_one(store).id, second);
}

/// So that it makes room for a job of its kind only when it ends.
pub fn a_redriven_job_is_limited_like_any_other(fixture: &impl Fixture) {
    let store = fixture.store();
    let (first, second) = one_runs_and_one_waits(store);
    assert_eq!(settle(store, &first, Act::bury("no")), Verdict::Done);
    let running = start_one(store);
    assert_eq!(running.id, second);
    assert_eq!(store.redrive(QUEUE, &[first.id]).expect("an answer"), 1);
    assert!(start(store).is_empty());
    assert_eq!(settle(store, &running, Act::Ack), Verdict::Done);
    assert_eq!(start_one(store).id, first.id);
}

/// The rest waits for tokens, and the result of a claim tells when to look.
pub fn a_rate_postpones_jobs_beyond_it(fixture: &impl Fixture) {
    let store = fixture.store();
    set(store, &Limit::rate_of_kind(KIND, 2, SECOND * 10));
    put(store, &[mail(When::NOW); 5]);
    let other = put_one(store, job(b"other", When::NOW));
    let answer = turn(store, &[], Some(claim_of(10, 10)));
    let answered = answer.claimed.expect("a claim was asked for");
    assert_eq!(answered.leases.len(), 3);
    assert_eq!(answered.leases[2].id, other);
    assert_eq!(answered.first, answer.now.after(SECOND * 5));
    for lease in &answered.leases {
        assert_eq!(settle(store, lease, Act::Ack), Verdict::Done);
    }
    assert!(start(store).is_empty(), "an end is no token");
    for _ in 0..2 {
        fixture.advance(SECOND * 4);
        assert!(start(store).is_empty());
        fixture.advance(SECOND);
        assert_eq!(start(store).len(), 1);
    }
    assert_eq!(store.stats(QUEUE).expect("figures").jobs, 3);
}

/// As each process does when it starts.
pub fn a_rate_that_is_set_again_has_no_more_tokens(fixture: &impl Fixture) {
    let store = fixture.store();
    let rate = Limit::rate_of_kind(KIND, 1, SECOND * 10);
    set(store, &rate);
    put(store, &[mail(When::NOW); 3]);
    assert_eq!(start(store).len(), 1);
    set(store, &rate);
    assert!(start(store).is_empty());
    // A token takes a second from now on.
    set(store, &Limit::rate_of_kind(KIND, 10, SECOND * 10));
    assert!(start(store).is_empty());
    fixture.advance(SECOND);
    assert_eq!(start(store).len(), 1);
}

/// Its token is one of the time at which it may start.
pub fn a_job_claimed_ahead_takes_a_token(fixture: &impl Fixture) {
    let store = fixture.store();
    set(store, &Limit::rate_of_kind(KIND, 1, SECOND * 10));
    put_one(store, mail(HORIZON));
    let ahead = claim_ahead(store);
    put_one(store, mail(When::NOW));
    assert!(start(store).is_empty());
    fixture.advance(SECOND * 10);
    assert_eq!(extend_started(store, &ahead), Verdict::Done);
    assert!(start(store).is_empty());
    fixture.advance(HORIZON);
    assert_eq!(start(store).len(), 1);
}

fn extend_started(store: &impl Store, lease: &Lease) -> Verdict {
    settle(store, lease, Act::Start { lease: LEASE })
}

/// A job has to meet both.
pub fn a_rate_and_a_maximum_of_a_kind_hold_at_the_same_time(fixture: &impl Fixture) {
    let store = fixture.store();
    set(store, &Limit::per_kind(KIND, 1));
    set(store, &Limit::rate_of_kind(KIND, 2, SECOND * 10));
    put(store, &[mail(When::NOW); 4]);
    let first = start_one(store);
    assert!(start(store).is_empty(), "there is a token, but no place");
    assert_eq!(settle(store, &first, Act::Ack), Verdict::Done);
    let second = start_one(store);
    assert_eq!(settle(store, &second, Act::Ack), Verdict::Done);
    assert!(start(store).is_empty(), "there is a place, but no token");
    remove(store, &Limit::rate_of_kind(KIND, 2, SECOND));
    start_one(store);
    assert!(start(store).is_empty(), "the maximum remains");
}

/// The claim that found no place says when there is a token: the end of the job that runs is not announced before.
pub fn a_claim_of_a_full_kind_returns_the_next_token_of_its_rate(fixture: &impl Fixture) {
    let store = fixture.store();
    set(store, &Limit::rate_of_kind(KIND, 1, SECOND * 10));
    let (first, second) = one_runs_and_one_waits(store);
    let answer = turn(store, &[], Some(claim_of(10, 10)));
    let answered = answer.claimed.expect("a claim was asked for");
    assert!(answered.first <= answer.now.after(SECOND * 10));
    assert_eq!(settle(store, &first, Act::Ack), Verdict::Done);
    fixture.advance(SECOND * 10);
    assert_eq!(start_one(store).id, second);
}

/// Other processes sleep until then.
pub fn a_free_place_is_announced_to_watches(fixture: &impl Fixture) {
    let store = fixture.store();
    let (first, second) = one_runs_and_one_waits(store);
    let heard = Heard::new();
    let mut watch = store.watch(QUEUE, heard.notifier()).expect("a watch");
    heard.earliest();
    assert_eq!(settle(store, &first, Act::Ack), Verdict::Done);
    heard.is_announced(&mut *watch, "the place");
    assert_eq!(start_one(store).id, second);
}

/// And no job waits for a free place: no lease ends by itself in this test.
pub fn no_more_than_the_maximum_of_a_kind_run_across_processes(fixture: &impl Fixture) {
    const THREADS: usize = 4;
    const ROUNDS: usize = 30;
    const MOST: u32 = 2;
    let store = fixture.store();
    set(store, &Limit::per_kind(KIND, MOST));
    let clock = SharedClock::default();
    let deadline = clock.now() + PATIENCE;
    let runs = AtomicU32::new(0);
    let turn_of = |store: &_, act: Act<'_>| {
        let claim = Claim {
            ahead: 0,
            ..claim_of(10, 10)
        };
        let claimed = turn(store, &[], Some(claim)).claimed;
        let leases = claimed.expect("a claim was asked for").leases;
        let count = u32::try_from(leases.len()).expect("a few");
        assert!(runs.fetch_add(count, SeqCst) + count <= MOST);
        thread::yield_now();
        for lease in &leases {
            runs.fetch_sub(1, SeqCst);
            assert_eq!(settle(store, lease, act), Verdict::Done);
        }
    };
    let others: Vec<_> = (0..THREADS).map(|_| fixture.another()).collect();
    thread::scope(|scope| {
        for store in &others {
            let turn_of = &turn_of;
            scope.spawn(move || {
                for round in 0..ROUNDS {
                    put_one(store, mail(When::NOW));
                    let acts = [Act::Ack, Act::Release, Act::retry(When::NOW)];
                    turn_of(store, acts[round % acts.len()]);
                }
            });
        }
    });
    while store.stats(QUEUE).expect("figures").jobs > 0 {
        assert!(clock.now() < deadline, "a job waits for a free place");
        turn_of(store, Act::Ack);
    }
}
