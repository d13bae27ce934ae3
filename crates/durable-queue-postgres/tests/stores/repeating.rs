//! A repeating job that ends its run while a concurrent transaction has changed it, or the open job of its
//! key. A push with a schedule waits for such a transaction.

use std::thread;
use std::time::Duration;

use durable_queue::store::{Act, Claim, Settle};
use durable_queue::{JobId, Merge, NewJob, Put, Store, Token, When};
use durable_queue_testing::ManualStoreClock;
use durable_queue_testing::conformance::Fixture as _;
use testkit::{LIMIT, watchdog};

use super::Database;
use super::racing::during;
use crate::alike::JOB;

const KEYED: NewJob<'_> = NewJob {
    key: Some(b"key"),
    ..JOB
};

/// Settles the running job while `change` is uncommitted, and returns the jobs that have a schedule
/// afterwards. `waits`: whether the settle waits for the commit. `change` may refer to the jobs `RUNNING` and
/// `OPEN`.
fn settled_during(change: &str, waits: bool) -> Option<Vec<&'static str>> {
    let database = Database::new()?;
    let name = format!("{}_settles", database.schema);
    let address = format!("{}?application_name={name}", database.address);
    let store = database.options().open(&address).unwrap();
    let repeating = NewJob {
        schedule: Some("hourly"),
        ..KEYED
    };
    let running = store.enqueue("queue", &[repeating]).unwrap()[0].id();
    let token = Token::random();
    let claim = Claim {
        token,
        kinds: None,
        max: 1,
        start: 1,
        ahead: 0,
        horizon: LIMIT,
        lease: LIMIT * 10,
        urgent_first: true,
    };
    store.turn("queue", &[], Some(claim)).unwrap();
    let open = store.enqueue("queue", &[KEYED]).unwrap()[0].id();
    let named = |text: &str| {
        let number = |id: JobId| id.as_u64().to_string();
        text.replace("SCHEMA", &database.schema)
            .replace("RUNNING", &number(running))
            .replace("OPEN", &number(open))
    };

    let mut other = database.session();
    other.batch_execute("BEGIN").unwrap();
    other.batch_execute(&named(change)).unwrap();
    thread::scope(|scope| {
        let settled = scope.spawn(|| {
            let settle = Settle {
                id: running,
                token,
                act: Act::retry(When::NOW),
            };
            store.turn("queue", &[settle], None).unwrap()
        });
        watchdog(LIMIT, || {
            while waits && database.waiting_for_locks(&name) == 0
                || !waits && !settled.is_finished()
            {
                thread::yield_now();
            }
        });
        other.batch_execute("COMMIT").unwrap();
        settled.join().unwrap();
    });
    let jobs = store.list("queue", None, 10).unwrap();
    let repeating = jobs.iter().filter(|job| job.schedule.is_some());
    let which = repeating.map(|job| if job.id == running { "running" } else { "open" });
    Some(which.collect())
}

#[test]
fn an_uncommitted_cancel_ends_the_schedule_of_a_run_settled_meanwhile() {
    let cancel = "SELECT SCHEMA.cancel('queue', RUNNING, NULL)";
    if let Some(repeating) = settled_during(cancel, true) {
        assert!(repeating.is_empty(), "{repeating:?}");
    }
}

#[test]
fn a_settle_does_not_wait_for_a_lock_on_the_open_job_of_its_key() {
    let change = "SELECT FROM SCHEMA.job WHERE id = OPEN FOR UPDATE";
    if let Some(repeating) = settled_during(change, false) {
        assert_eq!(repeating, ["running"]);
    }
}

/// The run may have been done by the transaction that it has waited for.
#[test]
fn a_repeating_push_reads_the_clock_after_it_has_locked_the_job_of_its_key() {
    let Some(database) = Database::with_manual_clock() else {
        return;
    };
    let repeating = |when, merge| NewJob {
        schedule: Some("hourly"),
        when,
        merge,
        ..KEYED
    };
    let second = Duration::from_secs(1);
    let first = ManualStoreClock::START.after(second);
    let later = repeating((second * 10).into(), Merge::Keep);
    let id = database.store.enqueue("queue", &[later]).unwrap()[0].id();
    let push = [repeating(first.into(), Merge::Earliest)];
    let puts = during(
        &database,
        "SELECT FROM SCHEMA.job FOR UPDATE",
        || database.advance(second),
        |store| store.enqueue("queue", &push).unwrap(),
    );
    assert_eq!(puts, [Put::Kept(id)]);
}
