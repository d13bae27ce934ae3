//! Rows read by the statements.

use durable_queue_tests::alike::JOB;

use super::*;

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
        for text in [sql::DUE, sql::DUE_AHEAD, sql::SOON, sql::FIRST] {
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
        let by_key = steps.iter().any(|step| step.contains("durable_job_key"));
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

/// They are in neither index of limits, so these cost no write.
#[test]
fn jobs_of_queues_without_limits_have_no_place() {
    let store = SqliteStore::open(":memory:").expect("memory");
    let mail = NewJob {
        kind: Some("mail"),
        ..JOB
    };
    store.enqueue("queue", &[mail; 3]).expect("room");
    let limit = Limit::per_kind("mail", 1);
    store.limit("another", &limit, true).expect("a limit");
    let claim = Claim {
        token: Token::random(),
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
    let count = "SELECT count(place) FROM durable_job";
    let placed: u32 = link
        .connection
        .query_row(count, [], |row| row.get(0))
        .expect("a count");
    assert_eq!(placed, 0);
}
