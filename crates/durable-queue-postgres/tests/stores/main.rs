//! `PostgreSQL`: the contract and store-specific tests, on a real server.
//!
//! `cargo xtask stores up` starts one, and `target/stores/env` contains its address. Without the variable a
//! test passes, and the binary reports on the terminal what was skipped.
#![cfg(not(anthill_loom))]
#![expect(
    clippy::unwrap_used,
    reason = "a helper that fails is a test that fails"
)]

mod announcing;
mod clients;
mod crashing;
mod encrypting;
mod failing;
mod limiting;
mod open_transactions;
mod opening;
mod outbox;
mod pairs;
mod planning;
mod pooling;
mod racing;
mod refusing;
mod repeating;
mod rights;
mod sharing;
mod sizes;
mod snapshots;
mod transactions;

use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::time::Duration;

use ::postgres::{Client, NoTls};
use durable_queue::{Cancelled, NewJob, Store as _, Which};
use durable_queue_postgres::PostgresOptions;
use durable_queue_postgres::PostgresStore;
use durable_queue_testing::conformance::Fixture;
use durable_queue_testing::{ManualStoreClock, SimStore};

use durable_queue_tests::address::{POSTGRES, address};
use durable_queue_tests::anywhere::works_on_any_thread;
use durable_queue_tests::cancelling::handlers_learn_of_cancels_and_jobs_keep_their_failures;
use durable_queue_tests::grouped::groups_do_what_users_expect;
use durable_queue_tests::programs::{self, ProgramClock, Watched};
use durable_queue_tests::rules::Fence;
#[cfg(target_os = "linux")]
use durable_queue_tests::threads::two_hundred_queues_have_few_threads;
use durable_queue_tests::{alike, disturbed, proxy, tls};

/// A separate schema per test, removed at its end.
struct Database {
    store: PostgresStore,
    admin: std::sync::Mutex<Client>,
    schema: String,
    address: String,
}

impl Database {
    /// Uses the server's clock.
    fn new() -> Option<Self> {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let address = address(POSTGRES)?;
        // Relaxed: only a unique number is needed.
        let number = NEXT.fetch_add(1, Relaxed);
        let schema = format!("test_{}_{number}", std::process::id());
        let mut admin = Client::connect(&address, NoTls).unwrap();
        let quiet = "SET client_min_messages = error";
        admin.batch_execute(quiet).unwrap();
        admin
            .batch_execute(&format!("DROP SCHEMA IF EXISTS {schema} CASCADE"))
            .unwrap();
        let store = options(&schema).open(&address).unwrap();
        Some(Self {
            store,
            admin: std::sync::Mutex::new(admin),
            schema,
            address,
        })
    }

    /// Uses a clock that the test moves: the schema's clock is a function.
    fn with_manual_clock() -> Option<Self> {
        let database = Self::new()?;
        database.use_manual_clock();
        Some(database)
    }

    fn use_manual_clock(&self) {
        let start = ManualStoreClock::START.as_micros();
        self.sql(&format!(
            "CREATE TABLE SCHEMA.test_clock AS SELECT {start}::bigint AS time;
            CREATE OR REPLACE FUNCTION SCHEMA.clock() RETURNS bigint LANGUAGE sql VOLATILE
            AS 'SELECT time FROM SCHEMA.test_clock'"
        ));
    }

    /// Runs statements in the test's own session, on its schema.
    fn sql(&self, text: &str) {
        let text = text.replace("SCHEMA", &self.schema);
        self.admin.lock().unwrap().batch_execute(&text).unwrap();
    }

    /// Returns the single value of a query.
    fn get<T: for<'r> ::postgres::types::FromSql<'r>>(&self, text: &str) -> T {
        let text = text.replace("SCHEMA", &self.schema);
        self.admin
            .lock()
            .unwrap()
            .query_one(&text, &[])
            .unwrap()
            .get(0)
    }

    /// Returns how many sessions with this application name wait for a lock.
    fn waiting_for_locks(&self, name: &str) -> i64 {
        self.get(&format!(
            "SELECT count(*) FROM pg_stat_activity
            WHERE application_name = '{name}' AND wait_event_type = 'Lock'"
        ))
    }

    fn session(&self) -> Client {
        Client::connect(&self.address, NoTls).unwrap()
    }

    /// Returns a function that opens further stores, on any thread.
    fn opener(&self) -> impl Fn() -> PostgresStore + Clone + Send + 'static {
        let (options, address) = (self.options(), self.address.clone());
        move || options.clone().open(&address).unwrap()
    }

    fn another_store(&self) -> PostgresStore {
        self.options().open(&self.address).unwrap()
    }

    fn options(&self) -> PostgresOptions {
        options(&self.schema)
    }
}

impl Drop for Database {
    fn drop(&mut self) {
        let mut admin = Client::connect(&self.address, NoTls);
        if let Ok(admin) = &mut admin {
            admin.batch_execute("SET client_min_messages = error").ok();
            let dropped = admin.batch_execute(&format!("DROP SCHEMA {} CASCADE", self.schema));
            assert!(dropped.is_ok() || std::thread::panicking(), "{dropped:?}");
        }
    }
}

fn options(schema: &str) -> PostgresOptions {
    PostgresStore::options().schema(schema).sessions(2)
}

impl Fixture for Database {
    type Store = PostgresStore;

    fn store(&self) -> &PostgresStore {
        &self.store
    }

    fn advance(&self, by: Duration) {
        let by = i64::try_from(by.as_micros()).unwrap();
        self.sql(&format!("UPDATE SCHEMA.test_clock SET time = time + {by}"));
    }

    fn another(&self) -> PostgresStore {
        self.another_store()
    }
}

mod conformance {
    use super::Database;

    durable_queue_testing::conformance_tests!(if Database::with_manual_clock());
    durable_queue_testing::conformance_tests!(limits if Database::with_manual_clock());
}

#[test]
fn a_postgres_store_works_on_any_thread() {
    if let Some(database) = Database::new() {
        works_on_any_thread(database.opener());
    }
}

#[cfg(target_os = "linux")]
#[test]
fn two_hundred_queues_cost_at_most_eight_threads() {
    let ended = testkit::in_child("two_hundred_queues_cost_at_most_eight_threads", || {
        let before = testkit::thread_names().len();
        if let Some(database) = Database::new() {
            two_hundred_queues_have_few_threads(before, &database.store);
        }
    });
    assert!(ended.is_ok(), "{ended:?}");
}

#[test]
fn groups_do_what_users_expect_of_postgres() {
    if let Some(database) = Database::new() {
        groups_do_what_users_expect(database.opener());
    }
}

#[test]
fn handlers_learn_of_cancels_on_postgres_and_jobs_keep_their_failures() {
    if let Some(database) = Database::new() {
        handlers_learn_of_cancels_and_jobs_keep_their_failures(database.opener());
    }
}

#[test]
fn setting_the_servers_clock_moves_jobs_and_leases() {
    let Some(database) = Database::with_manual_clock() else {
        return;
    };
    alike::setting_the_clock_moves_jobs_and_leases(database.store(), |by| {
        database.sql(&format!("UPDATE SCHEMA.test_clock SET time = time + {by}"));
    });
}

/// Set by a configuration file or by `ALTER ROLE`.
#[test]
fn session_settings_do_not_change_times_and_jobs() {
    let Some(database) = Database::new() else {
        return;
    };
    let mut config: ::postgres::Config = database.address.parse().unwrap();
    config.options(
        "-c TimeZone=Pacific/Apia -c DateStyle=German -c IntervalStyle=sql_standard -c extra_float_digits=0
        -c default_transaction_isolation=serializable -c default_transaction_deferrable=on
        -c standard_conforming_strings=off -c bytea_output=escape -c search_path= -c synchronous_commit=off
        -c enable_seqscan=off -c jit=on -c lock_timeout=1 -c statement_timeout=0",
    );
    let other = database.options().open_config(config).unwrap();
    let now = |store: &PostgresStore| store.turn("queue", &[], None).unwrap().now;
    for (here, there) in [(database.store(), &other), (&other, database.store())] {
        let key = Some(&b"key"[..]);
        let clocks = [here, there, here].map(now);
        assert!(clocks.is_sorted(), "{clocks:?}");
        let at = clocks[0].after(Duration::from_micros(3_600_000_001));
        let job = NewJob {
            payload: b"\\x00 it's \0",
            when: at.into(),
            key,
            ..alike::JOB
        };
        let id = here.enqueue("queue", &[job]).unwrap()[0].id();
        let [found] = &there.list("queue", None, 10).unwrap()[..] else {
            panic!("it is there");
        };
        assert_eq!((found.id, found.at, found.key.as_deref()), (id, at, key));
        let gone = there.cancel("queue", Which::Key(b"key")).unwrap();
        assert!(matches!(gone, Cancelled::Gone { payload, .. } if payload == job.payload));
    }
}

const PROGRAMS: usize = 8;

#[test]
fn random_programs_get_the_same_results_from_postgres_and_the_simulation() {
    let Some(database) = Database::with_manual_clock() else {
        return;
    };
    let other = database.another_store();
    programs::each(PROGRAMS, |rng| {
        let start = ManualStoreClock::START.as_micros();
        database.sql(&format!(
            "TRUNCATE SCHEMA.job, SCHEMA.dead, SCHEMA.done, SCHEMA.queue, SCHEMA.kind_limit, SCHEMA.group_left RESTART IDENTITY;
            UPDATE SCHEMA.test_clock SET time = {start}"
        ));
        let clock = ProgramClock::default();
        let sim = SimStore::new(clock.clone());
        let fence = Fence::new(&other, &database.store);
        let watched = Watched {
            stores: &[&other],
            fence: &|| fence.wait(),
        };
        programs::run(rng, &[&database.store, &sim], &watched, |by| {
            clock.shift(by);
            database.sql(&format!("UPDATE SCHEMA.test_clock SET time = time + {by}"));
        });
    });
}
