//! The rule of a queue's groups, for all processes together.

use std::sync::atomic::{AtomicU32, Ordering::SeqCst};
use std::thread;

use durable_queue::internals::SharedClock;
use durable_queue::store::{
    Act, Claim, JobState, Keep, KindRoom, Lease, PARK_LIMIT, Settle, Store, Verdict,
};
use durable_queue::{JobId, Limit, Merge, NewJob, Reset, StoreTime, Token, When, Which};
use sync_shim::Clock as _;

use super::contents::{Heard, PATIENCE};
use super::limits::{listed, remove, set, takings};
use super::{
    Fixture, HORIZON, LEASE, QUEUE, REJECT, SECOND, claim_ahead, claim_of, claimed, ids, job, put,
    put_one, settle, start, start_one, turn,
};

const GROUP: &str = "account 7";

fn of_group(group: &str, when: impl Into<When>) -> NewJob<'_> {
    NewJob {
        group: Some(group),
        ..job(group.as_bytes(), when)
    }
}

/// Pushes jobs of the group that are due now.
fn push<const N: usize>(store: &impl Store) -> [JobId; N] {
    [(); N].map(|()| put_one(store, of_group(GROUP, When::NOW)))
}

fn done(store: &impl Store, lease: &Lease) {
    assert_eq!(settle(store, lease, Act::Ack), Verdict::Done);
}

/// With ordered groups: returns a running job, and the id of another that waits.
fn one_runs_and_one_waits(store: &impl Store) -> (Lease, JobId) {
    set(store, &Limit::ordered());
    let [first, second] = push(store);
    let lease = start_one(store);
    assert_eq!(lease.id, first);
    assert!(start(store).is_empty(), "its group has no seat");
    (lease, second)
}

/// Any number of them waits. Jobs of other groups, without a group, and of the same group in another queue do not.
pub fn an_ordered_group_runs_its_jobs_one_after_another(fixture: &impl Fixture) {
    let store = fixture.store();
    set(store, &Limit::ordered());
    let elsewhere = [of_group(GROUP, When::NOW); 2];
    store.enqueue("elsewhere", &elsewhere).expect("an answer");
    let jobs = push::<4>(store);
    let others = [
        put_one(store, of_group("another", When::NOW)),
        put_one(store, job(b"none", When::NOW)),
    ];
    let mut leases = start(store);
    assert_eq!(ids(&leases), [jobs[0], others[0], others[1]]);
    let free = store.turn("elsewhere", &[], Some(claim_of(10, 10)));
    let free = free.expect("an answer").claimed.expect("a claim");
    assert_eq!(free.leases.len(), 2, "a queue without a rule");
    let mut running = leases.remove(0);
    for next in &jobs[1..] {
        assert!(start(store).is_empty());
        let settles = [running.settle(Act::Ack)];
        let claimed = turn(store, &settles, Some(claim_of(10, 10))).claimed;
        let mut leases = claimed.expect("a claim was asked for").leases;
        assert_eq!(
            ids(&leases),
            [*next],
            "in the turn that ends the one before"
        );
        running = leases.remove(0);
    }
    done(store, &running);
}

/// Nor while it waits for its next attempt, nor after its holder has given it back.
pub fn a_failed_job_of_an_ordered_group_is_not_overtaken(fixture: &impl Fixture) {
    let store = fixture.store();
    let (first, second) = one_runs_and_one_waits(store);
    let later = Act::retry(SECOND.into());
    assert_eq!(settle(store, &first, later), Verdict::Done);
    push::<1>(store);
    assert!(start(store).is_empty());
    assert_eq!(listed(store, first.id).state, JobState::Retryable);
    fixture.advance(SECOND);
    let again = start_one(store);
    assert_eq!((again.id, again.attempts), (first.id, 2));
    assert_eq!(settle(store, &again, Act::Release), Verdict::Done);
    let leases = start(store);
    assert_eq!(ids(&leases), [first.id]);
    assert_eq!(settle(store, &leases[0], Act::bury("lost")), Verdict::Done);
    assert_eq!(start_one(store).id, second);
}

/// Whatever the act.
pub fn each_end_of_a_job_gives_its_seat_to_the_next(fixture: &impl Fixture) {
    let store = fixture.store();
    let keep = Keep {
        span: SECOND,
        took: SECOND,
        result: None,
    };
    let again = Act::Again { when: When::NOW };
    for act in [Act::Ack, Act::Keep(keep), Act::bury("lost"), REJECT, again] {
        let (first, second) = one_runs_and_one_waits(store);
        assert_eq!(settle(store, &first, act), Verdict::Done);
        let next = start_one(store);
        assert_eq!(next.id, second, "{act:?}");
        done(store, &next);
    }
    // A marked job ends when it is returned.
    let (first, second) = one_runs_and_one_waits(store);
    _ = store.cancel(QUEUE, Which::Id(first.id)).expect("an answer");
    let retry = Act::retry(SECOND.into());
    assert_eq!(settle(store, &first, retry), Verdict::Done);
    assert_eq!(start_one(store).id, second);
}

/// Nor does one of a job that was not started.
pub fn a_stale_settle_frees_no_seat(fixture: &impl Fixture) {
    let store = fixture.store();
    let (first, second) = one_runs_and_one_waits(store);
    let another = Lease {
        token: Token::random(),
        ..first.clone()
    };
    let retry = Act::retry(When::NOW);
    for act in [Act::Ack, retry, Act::Release, Act::bury("lost")] {
        assert_eq!(settle(store, &another, act), Verdict::Stale);
        assert!(start(store).is_empty(), "{act:?}");
    }
    done(store, &first);
    let ahead = claim_ahead(store);
    assert_eq!(ahead.id, second);
    let [third] = push(store);
    assert_eq!(settle(store, &ahead, Act::Ack), Verdict::Stale);
    assert!(start(store).is_empty());
    assert_eq!(settle(store, &ahead, Act::Release), Verdict::Done);
    let again = start(store);
    assert_eq!(ids(&again), [second]);
    done(store, &again[0]);
    assert_eq!(start_one(store).id, third);
}

/// It would keep the group for ever.
pub fn a_repeating_job_of_an_ordered_group_is_overtaken_between_its_runs(fixture: &impl Fixture) {
    let store = fixture.store();
    set(store, &Limit::ordered());
    let repeating = NewJob {
        key: Some(b"key"),
        schedule: Some("hourly"),
        merge: Merge::Earliest,
        ..of_group(GROUP, When::NOW)
    };
    let repeating = put_one(store, repeating);
    let [other] = push(store);
    let run = start(store);
    assert_eq!(ids(&run), [repeating]);
    let when = SECOND.into();
    assert_eq!(settle(store, &run[0], Act::Again { when }), Verdict::Done);
    let lease = start_one(store);
    assert_eq!(lease.id, other);
    fixture.advance(SECOND);
    assert!(start(store).is_empty());
    done(store, &lease);
    assert_eq!(start_one(store).id, repeating);
}

fn grouped_of_kind(kind: &str) -> NewJob<'_> {
    NewJob {
        kind: Some(kind),
        ..of_group(GROUP, When::NOW)
    }
}

/// Starts up to `max` jobs of a kind, after these settles.
fn start_kind(store: &impl Store, kind: &str, max: u32, settles: &[Settle<'_>]) -> Vec<Lease> {
    let kinds = [KindRoom { kind, room: max }];
    let claim = Claim {
        kinds: Some(&kinds),
        ..claim_of(max, max)
    };
    let claimed = turn(store, settles, Some(claim)).claimed;
    claimed.expect("a claim was asked for").leases
}

/// The one that goes first may be of a kind that the claim does not list.
pub fn an_ordered_group_keeps_its_order_across_kinds(fixture: &impl Fixture) {
    let store = fixture.store();
    set(store, &Limit::ordered());
    let [first, second] = ["a", "b"].map(|kind| put_one(store, grouped_of_kind(kind)));
    let start_kind = |kind| start_kind(store, kind, 10, &[]);
    assert!(start_kind("b").is_empty());
    assert!(start_kind("b").is_empty());
    let leases = start_kind("a");
    assert_eq!(ids(&leases), [first]);
    // While the seat is taken, claims meet the later job only.
    let [third, fourth] = ["a", "b"].map(|kind| put_one(store, grouped_of_kind(kind)));
    assert!(start_kind("b").is_empty());
    done(store, &leases[0]);
    let leases = start_kind("b");
    assert_eq!(ids(&leases), [second]);
    done(store, &leases[0]);
    assert!(start_kind("b").is_empty());
    let leases = start_kind("a");
    assert_eq!(ids(&leases), [third]);
    done(store, &leases[0]);
    assert_eq!(ids(&start_kind("b")), [fourth]);
}

/// It goes first once it is due.
pub fn an_urgent_job_that_is_due_later_takes_no_seat(fixture: &impl Fixture) {
    let store = fixture.store();
    set(store, &Limit::ordered());
    let urgent = NewJob {
        urgent: true,
        ..of_group(GROUP, HORIZON)
    };
    let urgent = put_one(store, urgent);
    let [first, second] = push(store);
    let leases = start(store);
    assert_eq!(ids(&leases), [first]);
    fixture.advance(HORIZON);
    done(store, &leases[0]);
    let leases = start(store);
    assert_eq!(ids(&leases), [urgent]);
    done(store, &leases[0]);
    assert_eq!(start_one(store).id, second);
}

/// Other processes have found nothing, and sleep.
pub fn a_job_that_a_claim_calls_for_others_is_announced_to_watches(fixture: &impl Fixture) {
    let store = fixture.store();
    set(store, &Limit::fair());
    let [first, second, other] = ["a", "a", "b"].map(|kind| put_one(store, grouped_of_kind(kind)));
    let lease = start_kind(store, "a", 1, &[]).remove(0);
    assert_eq!(lease.id, first);
    assert!(start_kind(store, "b", 1, &[]).is_empty());
    let heard = Heard::new();
    let mut watch = store.watch(QUEUE, heard.notifier()).expect("a watch");
    heard.earliest();
    let settles = [lease.settle(Act::Ack)];
    assert_eq!(ids(&start_kind(store, "a", 1, &settles)), [second]);
    heard.is_announced(&mut *watch, "the job of the other kind");
    assert_eq!(ids(&start_kind(store, "b", 1, &[])), [other]);
}

/// Without an order: a failed job leaves its seat.
pub fn at_most_the_maximum_of_a_group_is_held(fixture: &impl Fixture) {
    let store = fixture.store();
    set(store, &Limit::per_group(2));
    let jobs = push::<5>(store);
    let other = put_one(store, of_group("another", When::NOW));
    let leases = start(store);
    assert_eq!(ids(&leases), [jobs[0], jobs[1], other]);
    let retry = Act::retry((SECOND * 100).into());
    assert_eq!(settle(store, &leases[0], retry), Verdict::Done);
    assert_eq!(ids(&start(store)), [jobs[2]]);
    done(store, &leases[1]);
    let third = start(store);
    assert_eq!(ids(&third), [jobs[3]]);
    assert_eq!(settle(store, &third[0], Act::Release), Verdict::Done);
    // The next one has the seat, and it is due no earlier than the released one.
    assert_eq!(start(store).len(), 1);
}

/// A group's jobs do not precede a later one of another group.
pub fn fair_groups_take_turns(fixture: &impl Fixture) {
    let store = fixture.store();
    set(store, &Limit::fair());
    let jobs = push::<8>(store);
    fixture.advance(SECOND);
    let single = put_one(store, of_group("another", When::NOW));
    let mut order = Vec::new();
    for _ in 0..9 {
        fixture.advance(SECOND);
        let lease = start_one(store);
        order.push(lease.id);
        done(store, &lease);
    }
    let mut all = jobs.to_vec();
    all.insert(1, single);
    assert_eq!(order, all);
    let jobs = push::<20>(store);
    let single = put_one(store, of_group("another", When::NOW));
    fixture.advance(SECOND);
    let started = ids(&start(store));
    assert_eq!(started.len(), 10, "a claim goes on with the next ones");
    assert!(started.contains(&single));
    assert!(jobs[..9].iter().all(|id| started.contains(id)));
}

/// One tenant alone has all handlers, and a failed job of it holds up nothing.
pub fn jobs_of_a_fair_group_run_at_the_same_time(fixture: &impl Fixture) {
    let store = fixture.store();
    set(store, &Limit::fair());
    let jobs = push::<3>(store);
    let leases: Vec<Lease> = (0..3).map(|_| start_one(store)).collect();
    assert_eq!(ids(&leases), jobs);
    let retry = Act::retry(SECOND.into());
    assert_eq!(settle(store, &leases[0], retry), Verdict::Done);
    fixture.advance(SECOND);
    let [next] = push(store);
    assert_eq!(ids(&start(store)), [jobs[0], next]);
    // Expired leases need no seat.
    fixture.advance(LEASE);
    assert_eq!(start(store).len(), 4);
}

/// A claim parks at most as many as it may, and says that there are more.
pub fn jobs_that_wait_for_their_group_hide_no_others(fixture: &impl Fixture) {
    let store = fixture.store();
    let (first, second) = one_runs_and_one_waits(store);
    let many = vec![of_group(GROUP, When::NOW); PARK_LIMIT as usize + 10];
    put(store, &many);
    let other = put_one(store, of_group("another", When::NOW));
    let answer = turn(store, &[], Some(claim_of(10, 10)));
    let answered = answer.claimed.expect("a claim was asked for");
    assert!(answered.leases.is_empty() && answered.first <= answer.now);
    assert_eq!(ids(&start(store)), [other]);
    assert_eq!(store.stats(QUEUE).expect("figures").due, 0);
    done(store, &first);
    assert_eq!(store.stats(QUEUE).expect("figures").due, 1);
    assert_eq!(start_one(store).id, second);
}

/// And it can be changed as any other.
pub fn a_job_that_waits_for_its_group_keeps_its_due_time(fixture: &impl Fixture) {
    let store = fixture.store();
    let (first, second) = one_runs_and_one_waits(store);
    let waiting = listed(store, second);
    assert_eq!(
        (waiting.due, waiting.state, waiting.group.as_deref()),
        (StoreTime::NEVER, JobState::Waiting, Some(GROUP))
    );
    let [third, fourth, fifth] = push(store);
    assert!(start(store).is_empty());
    assert!(
        store
            .cancel(QUEUE, Which::Id(third))
            .expect("an answer")
            .is_gone()
    );
    let reset = store.reset(QUEUE, Which::Id(fourth), (SECOND * 9).into());
    assert_eq!(reset.expect("a reset"), Reset::Moved);
    done(store, &first);
    let called = listed(store, second);
    assert_eq!((called.due, called.at), (waiting.at, waiting.at));
    let lease = start_one(store);
    assert_eq!((lease.id, lease.due), (second, waiting.at));
    done(store, &lease);
    let lease = start_one(store);
    assert_eq!(lease.id, fifth);
    done(store, &lease);
    assert!(start(store).is_empty());
    fixture.advance(SECOND * 9);
    assert_eq!(start_one(store).id, fourth);
}

/// By a cancel, a reset or a merge, also before any process has it. Watches are notified.
pub fn a_job_that_is_taken_gives_its_seat_to_the_next(fixture: &impl Fixture) {
    let store = fixture.store();
    for limit in [Limit::ordered(), Limit::per_group(1)] {
        set(store, &limit);
        let keyed = |when| NewJob {
            key: Some(b"key"),
            merge: Merge::Latest,
            ..of_group(GROUP, when)
        };
        for take in takings(store, |later| put_one(store, keyed(later))) {
            let taken = put_one(store, keyed(HORIZON.into()));
            assert_eq!(claim_ahead(store).id, taken);
            let [waiting] = push(store);
            assert!(start(store).is_empty(), "the seat is taken");
            let heard = Heard::new();
            let mut watch = store.watch(QUEUE, heard.notifier()).expect("a watch");
            heard.earliest();
            take(taken);
            heard.is_announced(&mut *watch, "the seat");
            let lease = start_one(store);
            assert_eq!(lease.id, waiting);
            done(store, &lease);
            _ = store.cancel(QUEUE, Which::Id(taken)).expect("an answer");
        }
    }
    // A job that was called, and that nobody has claimed.
    let (first, second) = one_runs_and_one_waits(store);
    let [third] = push(store);
    assert!(start(store).is_empty());
    done(store, &first);
    assert!(
        store
            .cancel(QUEUE, Which::Id(second))
            .expect("an answer")
            .is_gone()
    );
    assert_eq!(start_one(store).id, third);
}

/// Its next holder has the same seat.
pub fn a_dead_holder_keeps_its_seat(fixture: &impl Fixture) {
    for limit in [Limit::ordered(), Limit::per_group(1)] {
        let store = fixture.store();
        set(store, &limit);
        let [first, second] = push(store);
        let dead = start_one(store);
        assert!(start(store).is_empty());
        fixture.advance(LEASE);
        assert_eq!(
            settle(store, &dead, Act::Extend { lease: LEASE }),
            Verdict::Done
        );
        assert!(start(store).is_empty());
        fixture.advance(LEASE);
        let heir = start(store);
        assert_eq!(ids(&heir), [first]);
        assert_eq!(settle(store, &dead, Act::Ack), Verdict::Stale);
        assert!(start(store).is_empty());
        done(store, &heir[0]);
        let next = start_one(store);
        assert_eq!(next.id, second);
        done(store, &next);
    }
}

/// Then by due time, then in the order of their pushes.
pub fn urgent_jobs_of_a_group_are_called_first(fixture: &impl Fixture) {
    let store = fixture.store();
    let (mut running, second) = one_runs_and_one_waits(store);
    let urgent = NewJob {
        urgent: true,
        ..of_group(GROUP, When::NOW)
    };
    let [third, fourth] = [0; 2].map(|_| put_one(store, urgent));
    let past = NewJob {
        when: StoreTime::from_micros(0).into(),
        ..of_group(GROUP, When::NOW)
    };
    let earliest = put_one(store, past);
    assert!(start(store).is_empty());
    for next in [third, fourth, earliest, second] {
        done(store, &running);
        running = start_one(store);
        assert_eq!(running.id, next);
    }
}

/// A job of a full kind keeps the seat of an ordered group only: elsewhere, the group's other jobs go on.
pub fn limits_of_groups_and_kinds_hold_at_the_same_time(fixture: &impl Fixture) {
    let store = fixture.store();
    let mail = NewJob {
        kind: Some("mail"),
        ..of_group(GROUP, When::NOW)
    };
    for limit in [Limit::ordered(), Limit::per_group(1), Limit::fair()] {
        set(store, &limit);
        set(store, &Limit::per_kind("mail", 0));
        let stopped = put_one(store, mail);
        let [other] = push(store);
        let mut leases = start(store);
        if limit == Limit::ordered() {
            assert!(leases.is_empty());
            remove(store, &Limit::per_kind("mail", 0));
            let first = start(store);
            assert_eq!(ids(&first), [stopped]);
            done(store, &first[0]);
            leases = start(store);
            assert_eq!(ids(&leases), [other]);
            done(store, &leases[0]);
        } else {
            assert_eq!(ids(&leases), [other], "{limit:?}");
            set(store, &Limit::per_kind("mail", 1));
            if limit == Limit::per_group(1) {
                assert!(start(store).is_empty());
            }
            done(store, &leases[0]);
            let next = start_one(store);
            assert_eq!(next.id, stopped);
            // Another group's job finds the kind full, and has its turn then.
            let rival = put_one(
                store,
                NewJob {
                    group: Some("another"),
                    ..mail
                },
            );
            assert!(start(store).is_empty());
            done(store, &next);
            let next = start_one(store);
            assert_eq!(next.id, rival);
            done(store, &next);
        }
    }
    assert_eq!(store.stats(QUEUE).expect("figures").jobs, 0);
}

/// Others go on.
pub fn a_kind_with_a_maximum_of_zero_is_stopped(fixture: &impl Fixture) {
    let store = fixture.store();
    let stop = Limit::per_kind("mail", 0);
    let mail = NewJob {
        kind: Some("mail"),
        ..job(b"mail", When::NOW)
    };
    let running = put_one(store, mail);
    let lease = start_one(store);
    assert_eq!(lease.id, running);
    set(store, &stop);
    assert_eq!(
        store.limits(QUEUE).expect("a list"),
        std::slice::from_ref(&stop)
    );
    let stopped = put_one(store, mail);
    let other = put_one(store, job(b"other", When::NOW));
    assert_eq!(ids(&start(store)), [other]);
    done(store, &lease);
    assert!(start(store).is_empty());
    remove(store, &stop);
    assert_eq!(ids(&start(store)), [stopped]);
}

/// They hold their seats, and no others are taken from them.
pub fn jobs_that_run_when_the_rule_is_set_count(fixture: &impl Fixture) {
    let store = fixture.store();
    let [_, _, third] = push(store);
    let leases = [start_one(store), start_one(store)];
    set(store, &Limit::per_group(2));
    assert!(start(store).is_empty());
    set(store, &Limit::per_group(2));
    done(store, &leases[0]);
    let last = start_one(store);
    assert_eq!(last.id, third);
    for lease in [&leases[1], &last] {
        done(store, lease);
    }
}

/// The jobs that wait do so by the new rule, or not at all.
pub fn the_rule_of_groups_can_be_changed(fixture: &impl Fixture) {
    let store = fixture.store();
    let (first, second) = one_runs_and_one_waits(store);
    let [third, fourth] = push(store);
    assert!(start(store).is_empty());
    set(store, &Limit::per_group(3));
    assert_eq!(store.limits(QUEUE).expect("a list"), [Limit::per_group(3)]);
    assert_eq!(ids(&start(store)), [second, third]);
    let many = vec![of_group(GROUP, When::NOW); PARK_LIMIT as usize + 10];
    put(store, &many);
    for _ in 0..2 {
        assert!(start(store).is_empty());
    }
    remove(store, &Limit::ordered());
    assert_eq!(store.limits(QUEUE).expect("a list"), []);
    let mut count = 0;
    loop {
        let leases = claimed(store, PARK_LIMIT, PARK_LIMIT).leases;
        count += leases.len();
        if leases.is_empty() {
            break;
        }
    }
    assert_eq!(count, many.len() + 1);
    assert_eq!(listed(store, fourth).state, JobState::Running);
    done(store, &first);
}

/// It comes back at the end of its group.
pub fn a_dead_letter_keeps_its_group(fixture: &impl Fixture) {
    let store = fixture.store();
    let (first, second) = one_runs_and_one_waits(store);
    assert_eq!(settle(store, &first, Act::bury("lost")), Verdict::Done);
    let dead = store.dead(QUEUE, None, 10).expect("a list");
    assert_eq!(dead[0].group.as_deref(), Some(GROUP));
    fixture.advance(SECOND);
    assert_eq!(store.redrive(QUEUE, &[first.id]).expect("a count"), 1);
    let running = start(store);
    assert_eq!(ids(&running), [second]);
    done(store, &running[0]);
    assert_eq!(start_one(store).id, first.id);
}

/// Unless it has been started.
pub fn a_merge_moves_a_job_to_its_new_group(fixture: &impl Fixture) {
    let store = fixture.store();
    let (first, second) = one_runs_and_one_waits(store);
    let keyed = |group| NewJob {
        key: Some(b"key"),
        merge: Merge::Earliest,
        group,
        ..job(b"job", When::NOW)
    };
    let moved = put_one(store, keyed(Some(GROUP)));
    assert!(start(store).is_empty());
    assert_eq!(put_one(store, keyed(Some("another"))), moved);
    assert_eq!(listed(store, moved).group.as_deref(), Some("another"));
    let lease = start(store);
    assert_eq!(ids(&lease), [moved]);
    done(store, &lease[0]);
    let moved = put_one(store, keyed(Some(GROUP)));
    assert!(start(store).is_empty());
    assert_eq!(put_one(store, keyed(None)), moved);
    assert_eq!(ids(&start(store)), [moved]);
    done(store, &first);
    assert_eq!(start_one(store).id, second);
}

/// Other processes sleep until then.
pub fn a_free_seat_is_announced_to_watches(fixture: &impl Fixture) {
    let store = fixture.store();
    let (first, second) = one_runs_and_one_waits(store);
    let heard = Heard::new();
    let mut watch = store.watch(QUEUE, heard.notifier()).expect("a watch");
    heard.earliest();
    done(store, &first);
    heard.is_announced(&mut *watch, "the seat");
    assert_eq!(start_one(store).id, second);
}

/// And no job waits for a free seat: no lease ends by itself in this test. `per_group(2)` and ordered groups.
pub fn no_more_than_the_seats_of_a_group_are_held_across_processes(fixture: &impl Fixture) {
    const THREADS: usize = 4;
    const ROUNDS: usize = 20;
    let store = fixture.store();
    for (limit, most) in [(Limit::ordered(), 1), (Limit::per_group(2), 2)] {
        set(store, &limit);
        let clock = SharedClock::default();
        let deadline = clock.now() + PATIENCE;
        let runs = ["a", "b"].map(|_| AtomicU32::new(0));
        let turn_of = |store: &_, act: Act<'_>| {
            let claim = Claim {
                ahead: 0,
                ..claim_of(10, 10)
            };
            let claimed = turn(store, &[], Some(claim)).claimed;
            let leases = claimed.expect("a claim was asked for").leases;
            let runs_of = |lease: &Lease| &runs[usize::from(lease.payload == b"b")];
            for lease in &leases {
                assert!(runs_of(lease).fetch_add(1, SeqCst) < most);
            }
            thread::yield_now();
            for lease in &leases {
                runs_of(lease).fetch_sub(1, SeqCst);
                assert_eq!(settle(store, lease, act), Verdict::Done);
            }
        };
        let others: Vec<_> = (0..THREADS).map(|_| fixture.another()).collect();
        thread::scope(|scope| {
            for (at, store) in others.iter().enumerate() {
                let turn_of = &turn_of;
                scope.spawn(move || {
                    for round in 0..ROUNDS {
                        put_one(store, of_group(["a", "b"][at % 2], When::NOW));
                        let acts = [Act::Ack, Act::Release, Act::retry(When::NOW)];
                        turn_of(store, acts[round % acts.len()]);
                    }
                });
            }
        });
        while store.stats(QUEUE).expect("figures").jobs > 0 {
            assert!(clock.now() < deadline, "a job waits for a free seat");
            turn_of(store, Act::Ack);
        }
    }
}
