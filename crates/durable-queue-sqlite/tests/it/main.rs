//! `SQLite`: the contract and tests of files.
#![cfg(not(anthill_loom))]
#![expect(
    clippy::unwrap_used,
    reason = "a helper that fails is a test that fails"
)]

mod clients;
mod disk;
#[cfg(unix)]
mod process;
mod processes;
mod twin;

use std::fs;
use std::time::Duration;

use durable_queue::{
    Cancelled, CarriedOut, DurableQueue, ErrorKind, Merge, NewJob, PushIn, Store, StoreError, When,
};
use durable_queue_sqlite::SqliteOptions;
use durable_queue_sqlite::SqliteStore;
use durable_queue_testing::ManualStoreClock;
use durable_queue_testing::conformance::Fixture;
use rusqlite::{Connection, TransactionBehavior};
use sync_shim::ManualClock;

use durable_queue_tests::anywhere::works_on_any_thread;
use durable_queue_tests::cancelling::handlers_learn_of_cancels_and_jobs_keep_their_failures;
use durable_queue_tests::grouped::groups_do_what_users_expect;
use durable_queue_tests::programs;
use durable_queue_tests::support::{self, Folder};

struct File {
    store: SqliteStore,
    clock: ManualStoreClock,
    folder: Folder,
}

fn file() -> File {
    let clock = ManualStoreClock::new(&ManualClock::new());
    let folder = Folder::new();
    let store = options(&clock).open(folder.file("jobs")).unwrap();
    File {
        store,
        clock,
        folder,
    }
}

fn options(clock: &ManualStoreClock) -> SqliteOptions {
    SqliteStore::options().clock(clock.clone())
}

impl Fixture for File {
    type Store = SqliteStore;

    fn store(&self) -> &SqliteStore {
        &self.store
    }

    fn advance(&self, by: Duration) {
        self.clock.advance(by);
    }

    fn another(&self) -> SqliteStore {
        options(&self.clock).open(self.folder.file("jobs")).unwrap()
    }
}

durable_queue_testing::conformance_tests!(file);
durable_queue_testing::conformance_tests!(limits file);

const JOB: NewJob<'_> = NewJob {
    payload: b"job",
    when: When::NOW,
    key: None,
    group: None,
    merge: Merge::Keep,
    schedule: None,
    urgent: false,
    kind: None,
    options: None,
};

fn count(store: &SqliteStore) -> u32 {
    store.stats("queue").unwrap().jobs
}

#[test]
fn pushed_jobs_exist_after_the_file_is_reopened() {
    let File {
        store,
        clock,
        folder,
    } = file();
    store.enqueue("queue", &[JOB; 3]).unwrap();
    drop(store);
    let store = options(&clock).open(folder.file("jobs")).unwrap();
    assert_eq!(count(&store), 3);
}

#[test]
fn jobs_of_the_callers_transaction_exist_only_if_it_commits() {
    let file = file();
    let mut own = Connection::open(file.folder.file("jobs")).unwrap();
    own.execute_batch("CREATE TABLE orders (id INTEGER PRIMARY KEY)")
        .unwrap();
    for commit in [false, true] {
        let mut transaction = own
            .transaction_with_behavior(TransactionBehavior::Immediate)
            .unwrap();
        transaction
            .execute("INSERT INTO orders DEFAULT VALUES", [])
            .unwrap();
        let put = file
            .store
            .enqueue_in(&mut transaction, "queue", &[JOB])
            .unwrap();
        assert_eq!(put.len(), 1);
        assert_eq!(count(&file.store), 0, "it is not committed");
        if commit {
            transaction.commit().unwrap();
        } else {
            transaction.rollback().unwrap();
        }
        assert_eq!(count(&file.store), u32::from(commit));
    }
}

/// `SQLITE_MAX_LENGTH`. Pages of zeros that are never read use no memory.
#[test]
fn a_job_larger_than_a_row_is_rejected_with_its_batch() {
    let file = file();
    let zeros = vec![0; 1_000_000_001];
    let large = NewJob {
        payload: &zeros,
        ..JOB
    };
    let long = NewJob {
        key: Some(&zeros),
        ..JOB
    };
    let mut own = Connection::open(file.folder.file("jobs")).unwrap();
    for refused in [large, long] {
        let error = file.store.enqueue("queue", &[JOB, refused]).unwrap_err();
        assert_eq!(
            (error.kind(), error.carried_out()),
            (ErrorKind::TooLarge, CarriedOut::No)
        );
        assert!(!error.is_transient());
        assert_eq!(count(&file.store), 0);
        let transaction = own.transaction_with_behavior(TransactionBehavior::Immediate);
        let mut transaction = transaction.unwrap();
        let jobs = [JOB, refused];
        let refused = file.store.enqueue_in(&mut transaction, "queue", &jobs);
        assert_eq!(refused.unwrap_err().kind(), ErrorKind::TooLarge);
        transaction.commit().unwrap();
        assert_eq!(count(&file.store), 0, "the transaction goes on without it");
    }
}

/// With a lower limit of the connection, as an application may set.
#[test]
fn a_job_of_the_maximum_size_is_returned_and_rejected_with_a_key_in_addition() {
    const LIMIT: usize = 100_000;
    /// Size of the other columns.
    const REST: usize = 100;
    let folder = Folder::new();
    let connection = Connection::open(folder.file("jobs")).unwrap();
    let limit = i32::try_from(LIMIT).unwrap();
    let limited = rusqlite::limits::Limit::SQLITE_LIMIT_LENGTH;
    // Returns a number in old versions of rusqlite, a `Result` in new ones. If the call failed, no push would
    // be rejected below.
    let _ = connection.set_limit(limited, limit);
    let store = SqliteStore::options().adopt(connection).unwrap();
    let payload = vec![7; LIMIT - REST];
    let large = NewJob {
        payload: &payload,
        ..JOB
    };
    let put = store.enqueue("queue", &[large]).unwrap()[0];
    let cancelled = store.cancel("queue", put.id().into()).unwrap();
    assert!(matches!(cancelled, Cancelled::Gone { payload: it, .. } if it == payload));
    let key = Some(&payload[..REST]);
    let error = store.enqueue("queue", &[NewJob { key, ..large }]);
    assert_eq!(error.unwrap_err().kind(), ErrorKind::TooLarge);
    store.enqueue("queue", &[NewJob { key, ..JOB }]).unwrap();
    assert_eq!(count(&store), 1);
}

#[test]
fn a_read_only_file_is_reported_as_read_only() {
    let File {
        store,
        clock,
        folder,
    } = file();
    drop(store);
    let path = folder.file("jobs");
    let connection =
        Connection::open_with_flags(&path, rusqlite::OpenFlags::SQLITE_OPEN_READ_ONLY).unwrap();
    let store = options(&clock).adopt(connection).unwrap();
    let error = store.enqueue("queue", &[JOB]).unwrap_err();
    assert_eq!(
        (error.kind(), error.carried_out()),
        (ErrorKind::ReadOnly, CarriedOut::No)
    );
    assert!(!error.is_transient());
}

/// `SQLite` would continue in a file without a name, whose contents would be lost with the process.
#[cfg(unix)]
#[test]
fn each_call_fails_after_the_file_was_deleted_moved_or_replaced() {
    for is_replaced in [false, true] {
        let File {
            store,
            clock,
            folder,
        } = file();
        let [path, away] = ["jobs", "away"].map(|name| folder.file(name));
        store.enqueue("queue", &[JOB]).unwrap();
        fs::rename(&path, &away).unwrap();
        if is_replaced {
            // By another process's file, with its log.
            for log in ["jobs-wal", "jobs-shm"] {
                fs::remove_file(folder.file(log)).unwrap();
            }
            let other = options(&clock).open(&path).unwrap();
            other.enqueue("queue", &[JOB; 2]).unwrap();
        }
        let queue = DurableQueue::<String, _>::new("queue", store.clone());
        for error in [
            store.enqueue("queue", &[JOB]).unwrap_err(),
            store.turn("queue", &[], None).unwrap_err(),
            store.list("queue", None, 1).unwrap_err(),
            store.stats("queue").unwrap_err(),
            queue.push("job".to_owned(), When::NOW).unwrap_err().error,
        ] {
            assert_eq!(
                (error.kind(), error.carried_out()),
                (ErrorKind::Unavailable, CarriedOut::No)
            );
            let source = std::error::Error::source(&error).unwrap().to_string();
            assert!(
                source.contains("moved") && !source.contains("jobs"),
                "{source}"
            );
        }
        if is_replaced {
            assert_eq!(count(&options(&clock).open(&path).unwrap()), 2);
        } else {
            fs::rename(&away, &path).unwrap();
            store.enqueue("queue", &[JOB]).unwrap();
            assert_eq!(count(&store), 2, "it is back, and goes on");
        }
    }
}

#[test]
fn a_file_locked_by_another_connection_is_busy_until_it_is_unlocked() {
    let file = file();
    let store = options(&file.clock)
        .busy_timeout(Duration::ZERO)
        .open(file.folder.file("jobs"))
        .unwrap();
    let mut other = Connection::open(file.folder.file("jobs")).unwrap();
    let held = other
        .transaction_with_behavior(TransactionBehavior::Immediate)
        .unwrap();
    let error = store.enqueue("queue", &[JOB]).unwrap_err();
    assert_eq!(
        (error.kind(), error.carried_out()),
        (ErrorKind::Busy, CarriedOut::No)
    );
    held.rollback().unwrap();
    store.enqueue("queue", &[JOB]).unwrap();
    assert_eq!(count(&store), 1);
}

#[test]
fn a_file_that_is_no_database_is_rejected_and_unchanged() {
    let folder = Folder::new();
    let path = folder.file("notes");
    let text = "not a database, but long enough to look like one\n".repeat(100);
    fs::write(&path, &text).unwrap();
    let error = SqliteStore::open(&path).unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Corrupt);
    assert_eq!(fs::read_to_string(&path).unwrap(), text);
    assert!(
        !format!("{error} {error:?}").contains("notes"),
        "a path may be a secret"
    );
}

#[test]
fn a_file_of_a_newer_version_is_rejected() {
    let File {
        store,
        clock,
        folder,
    } = file();
    drop(store);
    let path = folder.file("jobs");
    let newer = Connection::open(&path).unwrap();
    newer
        .execute(
            "UPDATE durable_version SET version = version + 1, oldest = version + 1",
            [],
        )
        .unwrap();
    let error = options(&clock).open(&path).unwrap_err();
    let ErrorKind::Newer { found, known } = error.kind() else {
        panic!("{error}");
    };
    assert_eq!(found, known + 1);
    assert!(error.to_string().contains(&found.to_string()));
}

#[test]
fn errors_and_jobs_show_no_payload_and_no_key() {
    let file = file();
    let secret = NewJob {
        payload: b"hunter2",
        key: Some(b"hunter2"),
        ..JOB
    };
    let shown = format!("{secret:?} {:?}", durable_queue::Which::from("hunter2"));
    assert!(
        !shown.contains("hunter2") && !shown.contains("104, 117"),
        "{shown}"
    );
    file.store.enqueue("queue", &[secret]).unwrap();
    let leases = file
        .store
        .held_by("queue", durable_queue::Token::random(), Duration::MAX);
    assert!(!format!("{leases:?} {:?}", file.store).contains("hunter2"));
    let error = StoreError::new(ErrorKind::Busy);
    assert_eq!(error.to_string(), "the store is busy");
}

#[test]
fn a_sqlite_store_works_on_any_thread() {
    works_on_any_thread(|| SqliteStore::open(":memory:").unwrap());
}

#[test]
fn groups_do_what_users_expect_of_sqlite() {
    let folder = Folder::new();
    groups_do_what_users_expect(|| SqliteStore::open(folder.file("jobs")).unwrap());
}

/// Whether the system announces writes, or the file is polled.
#[test]
fn handlers_learn_of_cancels_on_sqlite_and_jobs_keep_their_failures() {
    for polls in [false, true] {
        let folder = Folder::new();
        handlers_learn_of_cancels_and_jobs_keep_their_failures(|| {
            let options = SqliteStore::options();
            let options = if polls {
                options.watch_every(Some(Duration::from_millis(1)))
            } else {
                options
            };
            options.open(folder.file("jobs")).unwrap()
        });
    }
}

#[test]
fn the_readme_contains_the_numbers_of_the_store() {
    let readme = include_str!("../../README.md");
    assert!(readme.contains("polls a number in shared memory every 25 ms"));
    assert_eq!(durable_queue_sqlite::WATCH_EVERY, Duration::from_millis(25));
    assert!(readme.contains("`BUSY_TIMEOUT`, 5 s"));
    assert_eq!(durable_queue_sqlite::BUSY_TIMEOUT, Duration::from_secs(5));
}
