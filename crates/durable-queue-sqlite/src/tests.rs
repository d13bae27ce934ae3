//! Rows read by the statements.

use durable_queue::Groups;
use durable_queue::store::{Act, KindRoom};
use durable_queue_testing::ManualStoreClock;
use durable_queue_tests::alike::JOB;
use sync_shim::ManualClock;

use super::*;

/// The statements that read jobs by their kinds.
const BY_KIND: [&str; 6] = [
    sql::NEXT_KIND,
    sql::NEXT_PART,
    sql::OF_PART,
    sql::COUNT_DUE_OF_PART,
    sql::PLACE_HELD,
    sql::SEAT_HELD,
];

/// The statements that read jobs by their groups.
const BY_GROUP: [&str; 5] = [
    sql::FREE_WAITING,
    sql::FREE_SEATED,
    sql::COUNT_SEATED,
    sql::NEXT_WAITING,
    sql::FIRST_FRESH,
];

/// Counted in virtual machine instructions.
#[test]
fn other_due_jobs_do_not_slow_the_lookup_of_urgent_ones() {
    const IN_FRONT: usize = 10_000;
    let store = SqliteStore::open(":memory:").expect("memory");
    let job = JOB;
    let look = || {
        let link = store.0.link().expect("no fork");
        let mut statement = link.connection.prepare(sql::DUE_URGENT).expect("it");
        let values = params![1, i64::MAX, 100];
        let found = statement
            .query_map(values, |_| Ok(()))
            .expect("rows")
            .count();
        (
            found,
            statement.get_status(rusqlite::StatementStatus::VmStep),
        )
    };
    store.enqueue("queue", &vec![job; IN_FRONT]).expect("room");
    let (found, steps) = look();
    assert!(found == 0 && (1..50).contains(&steps), "{found} {steps}");
    let urgent = NewJob {
        urgent: true,
        ..job
    };
    store.enqueue("queue", &[urgent; 2]).expect("room");
    let (found, steps) = look();
    assert!(found == 2 && (1..100).contains(&steps), "{found} {steps}");
}

/// The hot path finds its rows by indexes. Counts steps of `SQLite`'s virtual machine, for the statements
/// that once read every leased job.
#[test]
fn a_claim_does_not_step_over_leased_jobs() {
    let steps = |held: u32| {
        let store = SqliteStore::open(":memory:").expect("memory");
        let jobs = vec![JOB; held as usize];
        store.enqueue("queue", &jobs).expect("jobs");
        let claim = |max| Claim {
            token: Token::random(),
            kinds: None,
            max,
            start: max / 2,
            ahead: max - max / 2,
            horizon: Duration::from_secs(60),
            lease: Duration::from_secs(30),
            urgent_first: true,
        };
        let claimed = |max| {
            store
                .turn("queue", &[], Some(claim(max)))
                .expect("a turn")
                .claimed
        };
        assert_eq!(claimed(held).expect("a claim").leases.len(), held as usize);
        let free = NewJob {
            payload: b"free",
            when: When::After(Duration::from_secs(40)),
            ..JOB
        };
        store.enqueue("queue", &[free]).expect("a job");
        let link = store.0.link().expect("no fork");
        let mut all = 0;
        for text in [sql::DUE, sql::SOON, sql::FIRST] {
            let mut statement = link.connection.prepare(text).expect("a statement");
            let now = WallClock.now();
            let end = now.after(Duration::from_secs(60)).as_micros();
            // The queue, a time, a limit and the current time, as far as the statement has them.
            let until = if text == sql::SOON {
                end
            } else {
                now.as_micros()
            };
            let values = [1, until, 10, now.as_micros()];
            let values = rusqlite::params_from_iter(&values[..statement.parameter_count()]);
            let mut rows = statement.query(values).expect("rows");
            while rows.next().expect("a row").is_some() {}
            drop(rows);
            all += statement.get_status(rusqlite::StatementStatus::VmStep);
        }
        drop(link);
        assert_eq!(
            claimed(10).expect("a claim").leases.len(),
            1,
            "the free one"
        );
        all
    };
    let (few, many) = (steps(10), steps(10_000));
    assert!(
        many <= few + 50,
        "{few} steps next to ten, {many} next to 10,000"
    );
}

#[test]
fn no_statement_scans_the_jobs_or_sorts_them() {
    let store = SqliteStore::open(":memory:").expect("memory");
    let link = store.0.link().expect("no fork");
    for text in sql::READS {
        let explained = format!("EXPLAIN QUERY PLAN {text}");
        let mut statement = link.connection.prepare(&explained).expect("a plan");
        let unbound =
            rusqlite::params_from_iter(std::iter::repeat_n(0, statement.parameter_count()));
        let steps = statement
            .query_map(unbound, |row| row.get(3))
            .expect("a plan");
        let steps: Vec<String> = steps.map(|step| step.expect("a step")).collect();
        let is_bad = |step: &String| {
            let of_jobs = ["durable_job", "durable_done", "other", "own"]
                .iter()
                .any(|it| step.contains(it));
            (step.contains("SCAN") && of_jobs) || step.contains("TEMP B-TREE")
        };
        assert!(!steps.iter().any(is_bad), "{text}\n{steps:#?}");
        let by_urgency = steps.iter().any(|step| step.contains("durable_job_urgent"));
        assert_eq!(by_urgency, text == sql::DUE_URGENT, "{text}\n{steps:#?}");
        let by_lease = steps.iter().any(|step| step.contains("durable_job_free"));
        let is_free = [sql::SOON, sql::FIRST].contains(&text);
        assert_eq!(by_lease, is_free, "{text}\n{steps:#?}");
        let by_kind = steps.iter().any(|step| step.contains("durable_job_kind"));
        assert_eq!(by_kind, BY_KIND.contains(&text), "{text}\n{steps:#?}");
        let by_part = steps.iter().any(|step| step.contains("kind=? AND <expr>"));
        let reads_parts = by_kind && text != sql::NEXT_KIND;
        assert_eq!(by_part, reads_parts, "{text}\n{steps:#?}");
        let by_group = steps.iter().any(|step| step.contains("durable_job_group"));
        assert_eq!(by_group, BY_GROUP.contains(&text), "{text}\n{steps:#?}");
        let by_key = ["durable_job_key", "durable_done_key"];
        let by_key = steps
            .iter()
            .any(|step| by_key.iter().any(|it| step.contains(it)));
        assert!(by_key || !text.contains("key = "), "{text}\n{steps:#?}");
    }
    let scan = "EXPLAIN QUERY PLAN SELECT id FROM durable_job WHERE payload = x'00'";
    let plan: String = link
        .connection
        .query_row(scan, [], |row| row.get(3))
        .expect("a plan");
    assert!(
        plan.contains("SCAN durable_job"),
        "the check would not see {plan}"
    );
}

/// Counted in virtual machine instructions of all statements that a claim makes because of limits.
#[test]
fn parked_jobs_do_not_slow_claims() {
    let steps = |parked: usize| {
        let store = SqliteStore::open(":memory:").expect("memory");
        let limit = Limit::per_kind("mail", 1);
        store.limit("queue", &limit, true).expect("a limit");
        let mail = NewJob {
            kind: Some("mail"),
            ..JOB
        };
        store.enqueue("queue", &vec![mail; parked]).expect("room");
        let claim = || Claim {
            token: Token::random(),
            kinds: None,
            max: 9,
            start: 9,
            ahead: 0,
            horizon: Duration::ZERO,
            lease: Duration::from_secs(9),
            urgent_first: false,
        };
        // A claim parks a limited number.
        for _ in 0..=parked / durable_queue::store::PARK_LIMIT as usize {
            store.turn("queue", &[], Some(claim())).expect("a turn");
        }
        let link = store.0.link().expect("no fork");
        let mut all = 0;
        let texts = [
            sql::DUE,
            sql::FIRST,
            sql::LEASES,
            sql::CALLED,
            sql::IS_PARKED,
            sql::CALL,
        ];
        for text in texts {
            let mut statement = link.connection.prepare(text).expect("a statement");
            let limit = if [sql::IS_PARKED, sql::CALL].contains(&text) {
                -1
            } else {
                1
            };
            let values = [limit, 1, 9];
            let values = rusqlite::params_from_iter(&values[..statement.parameter_count()]);
            let mut rows = statement.query(values).expect("rows");
            while rows.next().expect("a row").is_some() {}
            drop(rows);
            all += statement.get_status(rusqlite::StatementStatus::VmStep);
        }
        all
    };
    let (few, many) = (steps(10), steps(5_000));
    assert!(many <= few + 50, "{few} with ten, {many} with 5,000");
}

/// They are not in the index of places, and stay where they are in that of groups, so these cost no write.
#[test]
fn jobs_of_queues_without_limits_have_neither_place_nor_seat() {
    let store = SqliteStore::open(":memory:").expect("memory");
    let mail = NewJob {
        kind: Some("mail"),
        ..JOB
    };
    let mail = NewJob {
        group: Some("group"),
        ..mail
    };
    store.enqueue("queue", &[mail; 3]).expect("room");
    for limit in [Limit::per_kind("mail", 1), Limit::ordered()] {
        store.limit("another", &limit, true).expect("a limit");
    }
    let claim = Claim {
        token: Token::random(),
        kinds: None,
        max: 2,
        start: 1,
        ahead: 1,
        horizon: Duration::ZERO,
        lease: Duration::from_secs(9),
        urgent_first: false,
    };
    let turn = store.turn("queue", &[], Some(claim)).expect("a turn");
    assert_eq!(turn.claimed.expect("a claim").leases.len(), 2);
    let link = store.0.link().expect("no fork");
    let count = "SELECT count(*) FROM durable_job WHERE place IS NOT NULL OR seat <> 0";
    let placed: u32 = link
        .connection
        .query_row(count, [], |row| row.get(0))
        .expect("a count");
    assert_eq!(placed, 0);
}

/// A store, and its clock.
fn timed() -> (SqliteStore, ManualStoreClock) {
    let clock = ManualStoreClock::new(&ManualClock::new());
    let options = SqliteStore::options().clock(clock.clone());
    (options.open(":memory:").expect("memory"), clock)
}

/// Virtual machine instructions of these statements since the store was opened. Statements keep their counts in the
/// connection's cache, which is large enough for all.
fn steps_of(store: &SqliteStore, texts: &[&str]) -> i32 {
    let link = store.0.link().expect("no fork");
    let steps = |text: &&str| {
        let statement = link.connection.prepare_cached(text).expect("a statement");
        statement.get_status(rusqlite::StatementStatus::VmStep)
    };
    texts.iter().map(steps).sum()
}

const LEASE: Duration = Duration::from_secs(10);
const HORIZON: Duration = Duration::from_secs(60);

/// Claims jobs of these kinds, or of any.
fn claimed(store: &SqliteStore, kinds: Option<&[(&str, u32)]>, max: u32) -> Vec<Lease> {
    let room = |&(kind, room): &(_, _)| KindRoom { kind, room };
    let kinds: Option<Vec<_>> = kinds.map(|kinds| kinds.iter().map(room).collect());
    let claim = Claim {
        token: Token::random(),
        kinds: kinds.as_deref(),
        max,
        start: max,
        ahead: max,
        horizon: HORIZON,
        lease: LEASE,
        urgent_first: true,
    };
    let turn = store.turn("queue", &[], Some(claim)).expect("a turn");
    turn.claimed.expect("a claim").leases
}

fn of_kind(kind: &str) -> NewJob<'_> {
    NewJob {
        kind: Some(kind),
        ..JOB
    }
}

/// Nor do jobs of the listed kinds that are held, due later, or more than there is room for. Counted in all statements
/// of the claim that read jobs.
#[test]
fn other_jobs_do_not_slow_a_claim_of_listed_kinds() {
    let steps = |others: usize| {
        let (store, clock) = timed();
        let push = |job: NewJob<'_>| store.enqueue("queue", &vec![job; others]).expect("room");
        let urgent = |kind| NewJob {
            urgent: true,
            ..of_kind(kind)
        };
        let later = |kind| NewJob {
            when: (HORIZON * 2).into(),
            ..of_kind(kind)
        };
        // Leases that expire, in front of all, and others that do not.
        push(of_kind("other"));
        push(urgent("other"));
        assert_eq!(claimed(&store, None, u32::MAX).len(), others * 2);
        clock.advance(LEASE);
        push(of_kind("mail"));
        push(urgent("mail"));
        let held = claimed(&store, Some(&[("mail", u32::MAX)]), u32::MAX);
        assert_eq!(held.len(), others * 2);
        for job in [of_kind("other"), urgent("other"), JOB, of_kind("busy")] {
            push(job);
        }
        for kind in ["mail", "other"] {
            push(later(kind));
        }
        let soon = NewJob {
            when: HORIZON.into(),
            ..of_kind("mail")
        };
        let jobs = [of_kind("mail"), urgent("mail"), soon];
        store.enqueue("queue", &jobs).expect("room");
        let before = steps_of(&store, &sql::READS);
        let leases = claimed(&store, Some(&[("mail", 9), ("busy", 1), ("none", 9)]), 9);
        let kinds: Vec<_> = leases.iter().map(|it| it.kind.as_deref()).collect();
        assert_eq!(kinds, ["busy", "mail", "mail", "mail"].map(Some));
        steps_of(&store, &sql::READS) - before
    };
    let (few, many) = (steps(10), steps(5_000));
    assert!(
        (100..=few + 50).contains(&many),
        "{few} with ten, {many} with 5,000"
    );
}

/// Payloads are read once there is room for a job.
#[test]
fn a_claim_reads_no_more_jobs_than_it_takes() {
    let (store, _) = timed();
    for kind in ["a", "b", "c"] {
        store.enqueue("queue", &[of_kind(kind); 100]).expect("room");
    }
    let listed = ["a", "b", "c"].map(|kind| (kind, 50));
    let before = steps_of(&store, &[sql::FOUND]);
    assert_eq!(claimed(&store, Some(&listed), 1).len(), 1);
    let one = steps_of(&store, &[sql::FOUND]) - before;
    assert_eq!(claimed(&store, Some(&listed), 60).len(), 60);
    assert_eq!(steps_of(&store, &[sql::FOUND]), before + 61 * one);
}

/// Counted in the statements for kinds, because the others count all jobs.
#[test]
fn delayed_and_held_jobs_do_not_slow_the_counts_of_kinds() {
    let steps = |others: usize| {
        let (store, _) = timed();
        let later = NewJob {
            when: HORIZON.into(),
            ..of_kind("later")
        };
        store
            .enqueue("queue", &vec![of_kind("held"); others])
            .expect("room");
        assert_eq!(claimed(&store, None, u32::MAX).len(), others);
        store.enqueue("queue", &vec![later; others]).expect("room");
        store.enqueue("queue", &vec![JOB; others]).expect("room");
        store.enqueue("queue", &[of_kind("mail"); 3]).expect("room");
        let counts = store.stats("queue").expect("figures").due_of_kinds;
        assert_eq!(counts, [("mail".to_owned(), 3)]);
        steps_of(&store, &BY_KIND)
    };
    let (few, many) = (steps(10), steps(5_000));
    assert!(
        (50..=few).contains(&many),
        "{few} with ten, {many} with 5,000"
    );
}

#[test]
fn waiting_jobs_do_not_slow_a_new_limit() {
    let steps = |waiting: usize| {
        let (store, _) = timed();
        store.enqueue("queue", &[of_kind("mail"); 3]).expect("room");
        assert_eq!(claimed(&store, None, 3).len(), 3);
        store
            .enqueue("queue", &vec![of_kind("mail"); waiting])
            .expect("room");
        store.enqueue("queue", &vec![JOB; waiting]).expect("room");
        let limit = Limit::per_kind("mail", 3);
        store.limit("queue", &limit, true).expect("a limit");
        assert!(
            claimed(&store, Some(&[("mail", 9)]), 9).is_empty(),
            "three are held"
        );
        steps_of(&store, &[sql::PLACE_HELD])
    };
    let (few, many) = (steps(10), steps(5_000));
    assert!(
        (50..=few).contains(&many),
        "{few} with ten, {many} with 5,000"
    );
}

/// An application's file may be in it. `SQLite` compares its texts as they are stored.
#[test]
fn kinds_are_counted_in_the_order_of_utf8_in_a_file_in_utf16() {
    let connection = Connection::open_in_memory().expect("memory");
    let encoding = "PRAGMA encoding = 'UTF-16le'";
    connection.execute_batch(encoding).expect("an empty file");
    let store = SqliteStore::options().adopt(connection).expect("a store");
    let kinds = ["", "a", "a\0", "b", "\u{101}", "\u{ff5e}", "\u{10000}"];
    store.enqueue("queue", &kinds.map(of_kind)).expect("room");
    let counts = store.stats("queue").expect("figures").due_of_kinds;
    assert_eq!(counts, kinds.map(|kind| (kind.to_owned(), 1)));
    let leases = claimed(&store, Some(&kinds.map(|kind| (kind, 1))), 9);
    assert_eq!(leases.len(), kinds.len());
}

/// Clients of any language insert them.
#[test]
fn a_job_of_any_number_for_urgent_is_found_by_its_kind() {
    let (store, _) = timed();
    let push = "INSERT INTO durable_push (queue, payload, kind, urgent, due) VALUES ('queue', 'job', 'mail', ?1, 0)";
    for urgent in [-1, 0, 1, 2] {
        let link = store.0.link().expect("no fork");
        link.connection.execute(push, [urgent]).expect("a push");
    }
    assert_eq!(claimed(&store, Some(&[("mail", 9)]), 9).len(), 4);
}

const RULES: [Limit; 3] = [
    Limit::ordered(),
    Limit::Groups(Groups::Concurrency(2)),
    Limit::fair(),
];

fn of_group(group: &str) -> NewJob<'_> {
    NewJob {
        group: Some(group),
        ..JOB
    }
}

/// Claims until all jobs of a group wait that can. In a fair group, one is available.
fn let_all_wait(store: &SqliteStore, clock: &ManualStoreClock) {
    clock.advance(Duration::from_millis(1));
    while store.stats("queue").expect("figures").due > 1 {
        claimed(store, None, 1);
    }
    claimed(store, None, 1);
}

/// Nor do the jobs of other groups. Counted in all statements that read jobs.
#[test]
fn other_jobs_of_a_group_do_not_slow_a_claim() {
    let steps = |rule: &Limit, others: usize| {
        let (store, clock) = timed();
        store.limit("queue", rule, true).expect("a rule");
        let push = |job: NewJob<'_>| store.enqueue("queue", &vec![job; others]).expect("room");
        push(of_group("a"));
        let_all_wait(&store, &clock);
        let names: Vec<_> = (0..others)
            .map(|number| format!("other {number}"))
            .collect();
        let jobs: Vec<_> = names.iter().map(|name| of_group(name)).collect();
        store.enqueue("queue", &jobs).expect("room");
        claimed(&store, None, u32::MAX);
        // Fresh ones that are due later, and earlier ones that are urgent.
        for urgent in [true, false] {
            push(NewJob {
                when: (HORIZON * 9).into(),
                urgent,
                ..of_group("b")
            });
        }
        store.enqueue("queue", &[of_group("b"); 3]).expect("room");
        let before = steps_of(&store, &sql::READS);
        let leases = claimed(&store, None, 1);
        let settles = [leases[0].settle(Act::Ack)];
        store.turn("queue", &settles, None).expect("a turn");
        steps_of(&store, &sql::READS) - before
    };
    for rule in &RULES {
        let (few, many) = (steps(rule, 10), steps(rule, 3_000));
        assert!(
            (100..=few + 50).contains(&many),
            "{rule:?}: {few} with ten, {many} with 3,000"
        );
    }
}

/// Counted in all statements that read jobs.
#[test]
fn waiting_and_fresh_jobs_do_not_slow_a_change_of_the_rule() {
    let steps = |rule: &Limit, others: usize| {
        let (store, clock) = timed();
        store.limit("queue", rule, true).expect("a rule");
        let jobs = vec![of_group("a"); others];
        store.enqueue("queue", &jobs).expect("room");
        let_all_wait(&store, &clock);
        store.enqueue("queue", &jobs).expect("room");
        let before = steps_of(&store, &sql::READS);
        store.limit("queue", rule, false).expect("no rule");
        store.limit("queue", rule, true).expect("a rule");
        steps_of(&store, &sql::READS) - before
    };
    for rule in &RULES {
        let (few, many) = (steps(rule, 10), steps(rule, 3_000));
        assert!(
            (50..=few + 50).contains(&many),
            "{rule:?}: {few} with ten, {many} with 3,000"
        );
    }
}

/// So that no claim blocks the others for long. The claim says that there are more.
#[test]
fn a_claim_frees_a_limited_number_of_jobs_from_a_former_rule() {
    const MOST: u32 = durable_queue::store::PARK_LIMIT;
    let (store, clock) = timed();
    store
        .limit("queue", &Limit::ordered(), true)
        .expect("a rule");
    let jobs = vec![of_group("a"); MOST as usize + 10];
    store.enqueue("queue", &jobs).expect("room");
    let_all_wait(&store, &clock);
    store
        .limit("queue", &Limit::ordered(), false)
        .expect("none");
    // One is held.
    for left in [MOST, 9, 0] {
        assert_eq!(claimed(&store, None, u32::MAX).len(), left as usize);
    }
}

/// Held jobs of any kind, and without one, have seats as soon as there is a rule.
#[test]
fn held_jobs_of_each_kind_get_seats() {
    let (store, _) = timed();
    let of_kind = |kind| NewJob {
        kind,
        ..of_group("a")
    };
    let jobs = [of_kind(Some("mail")), of_kind(None), of_kind(Some(""))];
    store.enqueue("queue", &jobs).expect("room");
    assert_eq!(claimed(&store, None, 3).len(), 3);
    store.enqueue("queue", &[of_group("a")]).expect("room");
    store
        .limit("queue", &Limit::per_group(3), true)
        .expect("a rule");
    assert!(claimed(&store, None, 1).is_empty());
    store
        .limit("queue", &Limit::per_group(4), true)
        .expect("a rule");
    assert_eq!(claimed(&store, None, 1).len(), 1);
}
