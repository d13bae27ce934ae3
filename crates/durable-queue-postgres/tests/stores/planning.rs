//! Rows are found by indexes, without scans.

use std::time::Duration;

use ::postgres::{Client, NoTls};
use durable_queue::store::{Act, COUNT_LIMIT, Claim, Claimed, KindRoom, Settle};
use durable_queue::{Limit, NewJob, Store};
use durable_queue_postgres::PostgresStore;
use testkit::LIMIT;

use super::Database;
use crate::alike::{JOB, all_calls, claim_of, claimed};

const DELAYED: usize = 20_000;

/// By the server's counters, with plans made when there was one job.
#[test]
fn no_call_reads_delayed_jobs() {
    let Some(database) = Database::new() else {
        return;
    };
    let name = format!("{}_reads", database.schema);
    let store = named_store(&database, &name);
    let hour = Duration::from_secs(3_600);
    let delayed = NewJob {
        when: hour.into(),
        ..JOB
    };
    // Makes the planner believe that the table is small: without statistics it assumes growth. They are never
    // updated.
    database.sql("ALTER TABLE SCHEMA.job SET (autovacuum_enabled = off)");
    store.enqueue("queue", &[delayed]).unwrap();
    database.sql("VACUUM ANALYZE SCHEMA.job");
    // More often than plans are renewed.
    for round in 0..20 {
        let is_set = round % 2 == 0;
        store.limit("queue", &Limit::fair(), is_set).unwrap();
        all_calls(&store, 1);
    }
    let others = format!("{}_others", database.schema);
    let other = named_store(&database, &others);
    other.enqueue("queue", &vec![delayed; DELAYED]).unwrap();
    drop(other);
    let before = read_by(&database, &others);
    for is_set in [false, true] {
        store.limit("queue", &Limit::fair(), is_set).unwrap();
        all_calls(&store, 60);
    }
    drop(store);
    let after = read_by(&database, &name);
    let (rows, blocks) = (after.0 - before.0, after.1 - before.1);
    assert!(rows > 1_000, "{rows} is not what was read");

    assert!(rows < 3_000, "{rows} rows were read");
    assert!(blocks < 8_000, "{blocks} blocks were read");
}

pub(super) fn named_store(database: &Database, name: &str) -> PostgresStore {
    database.options().open(&named(database, name)).unwrap()
}

fn named(database: &Database, name: &str) -> String {
    format!("{}?application_name={name}", database.address)
}

/// Returns the rows of jobs and the blocks of their indexes read by sessions with this name, which are about
/// to end, and by earlier ones.
pub(super) fn read_by(database: &Database, name: &str) -> (i64, i64) {
    wait_for(database, name);
    let rows = database.get(
        "SELECT coalesce(seq_tup_read, 0) + coalesce(idx_tup_fetch, 0)
        FROM pg_stat_user_tables WHERE schemaname = 'SCHEMA' AND relname = 'job'",
    );
    let blocks = database.get(
        "SELECT (sum(idx_blks_hit) + sum(idx_blks_read))::bigint
        FROM pg_statio_user_indexes WHERE schemaname = 'SCHEMA' AND relname = 'job'",
    );
    (rows, blocks)
}

/// Like `read_by`, for entries of those indexes.
pub(super) fn entries_read(database: &Database, name: &str) -> i64 {
    wait_for(database, name);
    database.get(
        "SELECT sum(idx_tup_read)::bigint FROM pg_stat_user_indexes
        WHERE schemaname = 'SCHEMA' AND relname = 'job'",
    )
}

/// A session has reported its counts when it has disappeared.
fn wait_for(database: &Database, name: &str) {
    let left = format!("SELECT count(*) FROM pg_stat_activity WHERE application_name = '{name}'");
    testkit::watchdog(testkit::LIMIT, || while database.get::<i64>(&left) != 0 {});
}

/// For looks that find an urgent job, and for looks that find none.
#[test]
fn claims_of_urgent_jobs_do_not_read_other_due_jobs() {
    const CLAIMS: usize = 20;
    let Some(database) = Database::new() else {
        return;
    };
    let name = format!("{}_urgent", database.schema);
    let store = named_store(&database, &name);
    for _ in 0..10 {
        all_calls(&store, 1);
    }
    store.enqueue("queue", &vec![JOB; DELAYED]).unwrap();
    drop(store);
    let (before, _) = read_by(&database, &name);
    let store = named_store(&database, &name);
    for is_there in [[true, false]; CLAIMS].concat() {
        if is_there {
            let urgent = NewJob {
                urgent: true,
                ..JOB
            };
            store.enqueue("queue", &[urgent]).unwrap();
        }
        let turn = store.turn("queue", &[], Some(claim_of(1))).unwrap();
        let leases = turn.claimed.unwrap().leases;
        assert_eq!((leases.len(), leases[0].urgent), (1, is_there));
    }
    drop(store);
    let read = read_by(&database, &name).0 - before;
    assert!(read > 40, "{read} is not what was read");
    assert!(read < 2_000, "{read} rows were read");
}

/// Rows, and blocks of indexes, with a horizon beyond the ends of those leases.
#[test]
fn claims_do_not_read_leased_jobs() {
    const CLAIMS: usize = 20;
    let reads = |held: u32, rule: Option<Limit>| {
        let database = Database::new()?;
        database.sql("ALTER TABLE SCHEMA.job SET (autovacuum_enabled = off)");
        if let Some(rule) = rule {
            database.store.limit("queue", &rule, true).unwrap();
            trusts_limits(&database, || _ = claimed(&database.store, 1));
        }
        let free = NewJob {
            when: Duration::from_secs(900).into(),
            ..JOB
        };
        database.store.enqueue("queue", &[free]).unwrap();
        let name = format!("{}_reads", database.schema);
        let mut holder = Client::connect(&named(&database, &name), NoTls).unwrap();
        // As after claims, but without dead index entries.
        let held = format!(
            "INSERT INTO SCHEMA.job (queue, due, at, token, started, payload)
            SELECT q.id, SCHEMA.clock() + 600000000, SCHEMA.clock(), gen_random_uuid(), true, 'held'
            FROM SCHEMA.queue q, generate_series(1, {held}); ANALYZE SCHEMA.job"
        );
        holder
            .batch_execute(&held.replace("SCHEMA", &database.schema))
            .unwrap();
        drop(holder);
        let before = read_by(&database, &name);
        let store = named_store(&database, &name);
        for _ in 0..CLAIMS {
            let claim = Claim {
                ahead: 5,
                horizon: Duration::from_secs(1_200),
                ..claim_of(10)
            };
            let turn = store.turn("queue", &[], Some(claim)).unwrap();
            let leases = turn.claimed.unwrap().leases;
            assert_eq!(leases.len(), 1, "the free one");
            let release = Settle {
                id: leases[0].id,
                token: leases[0].token,
                act: Act::Release,
            };
            store.turn("queue", &[release], None).unwrap();
        }
        drop(store);
        let after = read_by(&database, &name);
        Some((after.0 - before.0, after.1 - before.1))
    };
    for rule in [None, Some(Limit::ordered()), Some(Limit::fair())] {
        let reads = |held| reads(held, rule.clone());
        let (Some(few), Some(many)) = (reads(1_000), reads(100_000)) else {
            return;
        };
        assert!(few.0 > 40 && few.1 > 40, "{few:?} is not what was read");
        // An index of a hundred times as many jobs is one block higher.
        let most = (few.0 + 20, few.1 * 2);
        assert!(
            many.0 < most.0 && many.1 < most.1,
            "{few:?} rows and blocks next to 1,000, {many:?} next to 100,000, with {rule:?}"
        );
    }
}

/// Claims until they trust the places and seats of held jobs.
fn trusts_limits(database: &Database, claim: impl Fn()) {
    let late = "SELECT (SELECT count(*) FROM SCHEMA.kind_limit WHERE counted IS NOT NULL)
        + (SELECT count(*) FROM SCHEMA.queue WHERE group_counted IS NOT NULL)";
    testkit::watchdog(LIMIT, || {
        while database.get::<i64>(late) != 0 {
            claim();
        }
    });
}

fn of_kind(kind: &str) -> NewJob<'_> {
    NewJob {
        kind: Some(kind),
        ..JOB
    }
}

fn with_room<'a>(kinds: &[&'a str], room: u32) -> Vec<KindRoom<'a>> {
    let kinds = kinds.iter().map(|kind| KindRoom { kind, room });
    kinds.collect()
}

/// Claims and starts jobs of these kinds, and those that fall due within a long time.
fn claimed_of(store: &PostgresStore, kinds: &[KindRoom<'_>], jobs: u32) -> Claimed {
    let claim = Claim {
        kinds: Some(kinds),
        ahead: jobs,
        horizon: LIMIT * 1_000,
        ..claim_of(jobs)
    };
    let turn = store.turn("queue", &[], Some(claim)).unwrap();
    turn.claimed.unwrap()
}

fn release(store: &PostgresStore, claimed: &Claimed) {
    let releases = claimed
        .leases
        .iter()
        .map(|lease| lease.settle(Act::Release));
    let releases: Vec<_> = releases.collect();
    store.turn("queue", &releases, None).unwrap();
}

/// Neither due, delayed, urgent nor held ones, nor those without a kind. With plans made when there were two jobs, without
/// limits and with each sort of them.
#[test]
fn claims_that_list_kinds_do_not_read_jobs_of_others() {
    const CLAIMS: u32 = 20;
    let listed = with_room(&["mail", "report", "unknown"], 2);
    let claim = |store: &PostgresStore| {
        let claimed = claimed_of(store, &listed, 10);
        assert_eq!(claimed.leases.len(), 2);
        release(store, &claimed);
    };
    let read = |limit: Option<Limit>| {
        let database = Database::new()?;
        let name = format!("{}_listed", database.schema);
        let store = named_store(&database, &name);
        database.sql("ALTER TABLE SCHEMA.job SET (autovacuum_enabled = off)");
        store
            .enqueue("queue", &[of_kind("mail"), of_kind("report")])
            .unwrap();
        if let Some(limit) = limit {
            store.limit("queue", &limit, true).unwrap();
        }
        database.sql("VACUUM ANALYZE SCHEMA.job");
        // More often than plans are renewed, and until the claims trust the limit.
        testkit::watchdog(LIMIT, || (0..10).for_each(|_| claim(&store)));
        trusts_limits(&database, || claim(&store));
        drop(store);
        let others = format!(
            "INSERT INTO SCHEMA.job (queue, due, at, token, started, urgent, payload, kind)
            SELECT q.id, o.due, o.due, o.token, o.token IS NOT NULL, o.urgent, 'other', k.kind
            FROM SCHEMA.queue q, generate_series(1, {DELAYED} / 10) i, unnest('{{other, NULL}}'::text[]) AS k(kind),
                LATERAL (VALUES (i, NULL, false), (i, NULL, true), (i, gen_random_uuid(), false),
                    (i, gen_random_uuid(), true), (i + SCHEMA.clock(), NULL, false)
                ) AS o(due, token, urgent)"
        );
        // By a session of the name, for whose end the figures wait.
        let mut holder = Client::connect(&named(&database, &name), NoTls).unwrap();
        let others = others.replace("SCHEMA", &database.schema);
        holder.batch_execute(&others).unwrap();
        drop(holder);
        let (before, blocks_before) = read_by(&database, &name);
        let store = named_store(&database, &name);
        (0..CLAIMS).for_each(|_| claim(&store));
        drop(store);
        let (after, blocks_after) = read_by(&database, &name);
        Some((after - before, blocks_after - blocks_before))
    };
    for limit in [
        None,
        Some(Limit::ordered()),
        Some(Limit::per_kind("mail", 9)),
        Some(Limit::rate_of_kind("mail", 1_000_000, LIMIT)),
    ] {
        let Some((rows, blocks)) = read(limit.clone()) else {
            return;
        };
        let turns = i64::from(2 * CLAIMS);
        assert!(rows > 2 * turns, "{rows} is not what was read");
        // A claim looks at 30 jobs of other kinds for the time of the next job, and without limits at 31 before.
        let others = if limit.is_none() { 61 } else { 30 };
        assert!(
            rows < (20 + others) * turns && blocks < 150 * turns,
            "{rows} rows and {blocks} blocks were read in {turns} turns, {limit:?}"
        );
    }
}

/// If the next ones are of all kinds, and if they are of one.
#[test]
fn claims_read_few_more_jobs_than_they_return_however_many_kinds_they_list() {
    const KINDS: usize = 20;
    const EACH: usize = 200;
    const CLAIMS: i64 = 5;
    let names: Vec<String> = (0..KINDS).map(|number| format!("kind {number}")).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    let read = |jobs: u32, are_mixed: bool| {
        let database = Database::new()?;
        let number = |job: usize| if are_mixed { job % KINDS } else { job / EACH };
        let pushed: Vec<_> = (0..KINDS * EACH)
            .map(|job| of_kind(names[number(job)]))
            .collect();
        let name = format!("{}_listed", database.schema);
        let store = named_store(&database, &name);
        store.enqueue("queue", &pushed).unwrap();
        drop(store);
        let (before, _) = read_by(&database, &name);
        let store = named_store(&database, &name);
        let listed = with_room(&names, jobs);
        for _ in 0..CLAIMS {
            let claimed = claimed_of(&store, &listed, jobs);
            assert_eq!(claimed.leases.len(), jobs as usize);
            release(&store, &claimed);
        }
        drop(store);
        Some((read_by(&database, &name).0 - before) / CLAIMS)
    };
    for (jobs, are_mixed) in [(1, true), (1, false), (100, true), (100, false)] {
        let Some(read) = read(jobs, are_mixed) else {
            return;
        };
        let (jobs, kinds) = (i64::from(jobs), i64::try_from(KINDS).unwrap());
        assert!(read >= 2 * jobs, "{read} is not what was read");
        // They are looked for, locked and released.
        assert!(
            read < 8 * jobs + 5 * kinds,
            "{read} rows for {jobs} jobs; the next ones are of all kinds: {are_mixed}"
        );
    }
}

/// One row for each kind, whose jobs are not counted.
#[test]
fn the_numbers_of_due_jobs_are_found_without_reading_others() {
    const KINDS: usize = 30;
    let Some(database) = Database::new() else {
        return;
    };
    let name = format!("{}_counts", database.schema);
    database.sql("ALTER TABLE SCHEMA.job SET (autovacuum_enabled = off)");
    let store = named_store(&database, &name);
    store
        .enqueue("queue", &[of_kind("mail"), of_kind("report")])
        .unwrap();
    database.sql("ANALYZE SCHEMA.job");
    let many = format!(
        "INSERT INTO SCHEMA.job (queue, due, at, payload, kind)
        SELECT q.id, SCHEMA.clock() + 3600000000, 0, 'later', 'kind ' || i % {KINDS}
        FROM SCHEMA.queue q, generate_series(1, 2 * {COUNT_LIMIT}) i"
    );
    database.sql(&many);
    for _ in 0..10 {
        store.stats("queue").unwrap();
    }
    drop(store);
    let (before, _) = read_by(&database, &name);
    let store = named_store(&database, &name);
    let stats = store.stats("queue").unwrap();
    let expected = ["mail", "report"].map(|kind| (kind.to_owned(), 1));
    assert_eq!(stats.due_of_kinds, expected);
    drop(store);
    let read = read_by(&database, &name).0 - before;
    let all = i64::from(COUNT_LIMIT); // The number of all jobs.
    assert!(read >= all, "{read} is not what was read");
    assert!(read < all + 100, "{read} rows were read");
}
