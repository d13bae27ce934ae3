//! A schedule that goes from a running job to the pending one of its key, while another transaction has
//! changed one of the two and not committed.

use std::thread;

use durable_queue::store::{Act, Claim, Settle};
use durable_queue::{JobId, NewJob, Store, Token, When};
use testkit::{LIMIT, watchdog};

use super::Database;
use crate::alike::JOB;

const KEYED: NewJob<'_> = NewJob {
    key: Some(b"key"),
    ..JOB
};

/// The jobs that have a schedule, after the running one was settled while `change` was on its way.
/// `change` may name the two jobs, `RUNNING` and `PENDING`.
fn settled_beside(change: &str) -> Option<Vec<&'static str>> {
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
        max: 1,
        start: 1,
        ahead: 0,
        horizon: LIMIT,
        lease: LIMIT * 10,
        urgent_first: true,
    };
    store.turn("queue", &[], Some(claim)).unwrap();
    let pending = store.enqueue("queue", &[KEYED]).unwrap()[0].id();
    let named = |text: &str| {
        let number = |id: JobId| id.as_u64().to_string();
        text.replace("SCHEMA", &database.schema)
            .replace("RUNNING", &number(running))
            .replace("PENDING", &number(pending))
    };

    let mut other = database.session();
    other.batch_execute("BEGIN").unwrap();
    other.batch_execute(&named(change)).unwrap();
    thread::scope(|scope| {
        let settled = scope.spawn(|| {
            let settle = Settle {
                id: running,
                token,
                act: Act::Retry { when: When::NOW },
            };
            store.turn("queue", &[settle], None).unwrap()
        });
        let waiting = format!(
            "SELECT count(*) FROM pg_stat_activity
            WHERE application_name = '{name}' AND wait_event_type = 'Lock'"
        );
        watchdog(LIMIT, || while database.get::<i64>(&waiting) == 0 {});
        other.batch_execute("COMMIT").unwrap();
        settled.join().unwrap();
    });
    let jobs = store.list("queue", None, 10).unwrap();
    let repeating = jobs.iter().filter(|job| job.schedule.is_some());
    let which = repeating.map(|job| {
        if job.id == running {
            "running"
        } else {
            "pending"
        }
    });
    Some(which.collect())
}

#[test]
fn a_schedule_that_a_cancel_ends_meanwhile_is_not_handed_on() {
    let cancel = "SELECT SCHEMA.cancel('queue', RUNNING, NULL)";
    if let Some(repeating) = settled_beside(cancel) {
        assert!(repeating.is_empty(), "{repeating:?}");
    }
}

#[test]
fn a_schedule_stays_with_its_job_if_the_pending_one_is_begun_meanwhile() {
    let begin = "UPDATE SCHEMA.job SET started = true, run = id, token = gen_random_uuid(),
        due = 9223372036854775807 WHERE id = PENDING";
    if let Some(repeating) = settled_beside(begin) {
        assert_eq!(repeating, ["running"]);
    }
}
