//! Rows are found, never looked for.

use std::time::Duration;

use durable_queue::{NewJob, Store};

use super::Database;
use crate::alike::{JOB, all_calls, claim_of};

const DELAYED: usize = 20_000;

/// By the server's own count of the rows that were read, for plans that were made when the tables were
/// empty.
#[test]
fn delayed_jobs_are_not_read_by_any_call() {
    let Some(database) = Database::new() else {
        return;
    };
    let name = format!("{}_reads", database.schema);
    let address = format!("{}?application_name={name}", database.address);
    let store = database.options().open(&address).unwrap();
    // More often than a plan is made anew.
    for _ in 0..10 {
        all_calls(&store, 1);
    }
    let hour = Duration::from_secs(3_600);
    let delayed = NewJob {
        when: hour.into(),
        ..JOB
    };
    store.enqueue("queue", &vec![delayed; DELAYED]).unwrap();
    all_calls(&store, 60);
    drop(store);
    let read = read_by(&database, &name);
    assert!(read > 500, "{read} is not what was read");
    assert!(read < 5_000, "{read} rows were read");
}

/// How many rows of jobs were read by the sessions of this name, which are about to end, and all before.
fn read_by(database: &Database, name: &str) -> i64 {
    // A session has reported what it read when it is no more to be seen.
    let left = format!("SELECT count(*) FROM pg_stat_activity WHERE application_name = '{name}'");
    testkit::watchdog(testkit::LIMIT, || while database.get::<i64>(&left) != 0 {});
    database.get(
        "SELECT coalesce(seq_tup_read, 0) + coalesce(idx_tup_fetch, 0)
        FROM pg_stat_user_tables WHERE schemaname = 'SCHEMA' AND relname = 'job'",
    )
}

/// For looks that find an urgent job, and for those that find none.
#[test]
fn jobs_that_are_due_in_front_are_not_read_by_claims_of_urgent_ones() {
    const CLAIMS: usize = 20;
    let Some(database) = Database::new() else {
        return;
    };
    let name = format!("{}_urgent", database.schema);
    let address = format!("{}?application_name={name}", database.address);
    let store = database.options().open(&address).unwrap();
    for _ in 0..10 {
        all_calls(&store, 1);
    }
    store.enqueue("queue", &vec![JOB; DELAYED]).unwrap();
    drop(store);
    let before = read_by(&database, &name);
    let store = database.options().open(&address).unwrap();
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
    let read = read_by(&database, &name) - before;
    assert!(read > 40, "{read} is not what was read");
    assert!(read < 2_000, "{read} rows were read");
}
