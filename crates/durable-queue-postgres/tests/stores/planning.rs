//! Rows are found by indexes, without scans.

use std::time::Duration;

use ::postgres::{Client, NoTls};
use durable_queue::store::{Act, Claim, Settle};
use durable_queue::{NewJob, Store};
use durable_queue_postgres::PostgresStore;

use super::Database;
use crate::alike::{JOB, all_calls, claim_of};

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
        store.serialize_keys("queue", round % 2 == 0).unwrap();
        all_calls(&store, 1);
    }
    let others = format!("{}_others", database.schema);
    let other = named_store(&database, &others);
    other.enqueue("queue", &vec![delayed; DELAYED]).unwrap();
    drop(other);
    let before = read_by(&database, &others);
    for serial in [false, true] {
        store.serialize_keys("queue", serial).unwrap();
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
    let reads = |held: u32| {
        let database = Database::new()?;
        database.sql("ALTER TABLE SCHEMA.job SET (autovacuum_enabled = off)");
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
        for serial in [false, true] {
            store.serialize_keys("queue", serial).unwrap();
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
        }
        drop(store);
        let after = read_by(&database, &name);
        Some((after.0 - before.0, after.1 - before.1))
    };
    let (Some(few), Some(many)) = (reads(1_000), reads(100_000)) else {
        return;
    };
    assert!(few.0 > 80 && few.1 > 80, "{few:?} is not what was read");
    // An index of a hundred times as many jobs is one block higher.
    let most = (few.0 + 20, few.1 * 2);
    assert!(
        many.0 < most.0 && many.1 < most.1,
        "{few:?} rows and blocks next to 1,000, {many:?} next to 100,000"
    );
}
