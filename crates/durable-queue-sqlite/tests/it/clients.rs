//! Pushes in transactions of each client.

use durable_queue::store::{Act, Keep, Settle};
use durable_queue::{ErrorKind, Push, Put, Store as _, When};
use durable_queue_sqlite::SqliteStore;
use durable_queue_tests::alike::{claim_of, count};
use durable_queue_tests::call_in;
use durable_queue_tests::clients::{self, Call, Client, Outcome, Queue, REFUSED, Value};
use durable_queue_tests::support::Folder;
use rusqlite::{Connection, TransactionBehavior};
use sqlx::{Connection as _, SqliteConnection};
use tokio::runtime::Runtime;

struct Rusqlite(Connection);

impl Client<SqliteStore> for Rusqlite {
    fn transact(
        &mut self,
        queue: &Queue<SqliteStore>,
        calls: Vec<Call>,
        commit: bool,
    ) -> Vec<Outcome> {
        let behavior = TransactionBehavior::Immediate;
        let mut tx = self.0.transaction_with_behavior(behavior).unwrap();
        let outcomes = calls.into_iter().map(|call| call_in!(queue, &mut tx, call));
        let outcomes = outcomes.collect();
        if commit {
            tx.commit().unwrap();
        } else {
            tx.rollback().unwrap();
        }
        outcomes
    }
}

struct Sqlx {
    runtime: Runtime,
    connection: SqliteConnection,
    /// Whether pushes get the connection instead of the transaction.
    by_connection: bool,
}

impl Client<SqliteStore> for Sqlx {
    fn transact(
        &mut self,
        queue: &Queue<SqliteStore>,
        calls: Vec<Call>,
        commit: bool,
    ) -> Vec<Outcome> {
        let work = async {
            let mut tx = self.connection.begin_with("BEGIN IMMEDIATE").await.unwrap();
            let mut outcomes = Vec::new();
            for call in calls {
                outcomes.push(if self.by_connection {
                    call_in!(queue, &mut *tx, call, await)
                } else {
                    call_in!(queue, &mut tx, call, await)
                });
            }
            if commit {
                tx.commit().await.unwrap();
            } else {
                tx.rollback().await.unwrap();
            }
            outcomes
        };
        self.runtime.block_on(work)
    }
}

fn sqlx(path: &std::path::Path, by_connection: bool) -> Sqlx {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .build()
        .unwrap();
    let options = sqlx::sqlite::SqliteConnectOptions::new().filename(path);
    let connection = runtime.block_on(SqliteConnection::connect_with(&options));
    Sqlx {
        connection: connection.unwrap(),
        runtime,
        by_connection,
    }
}

/// Runs a test for each client, each with files of its own: one that is not a store's, and the store's.
fn for_each_client(
    test: impl Fn(&mut dyn Client<SqliteStore>, SqliteStore, &mut dyn Client<SqliteStore>),
) {
    for kind in 0..3 {
        let folder = Folder::new();
        let path = folder.file("jobs");
        let store = SqliteStore::open(&path).unwrap();
        let other = folder.file("other");
        drop(
            Connection::open(&other)
                .unwrap()
                .execute_batch("CREATE TABLE t (a)"),
        );
        let open = |path: &std::path::Path| -> Box<dyn Client<SqliteStore>> {
            match kind {
                0 => Box::new(Rusqlite(Connection::open(path).unwrap())),
                _ => Box::new(sqlx(path, kind == 2)),
            }
        };
        test(&mut *open(&other), store, &mut *open(&path));
    }
}

durable_queue_tests::client_tests!(for_each_client);

#[test]
fn a_database_without_the_tables_is_reported() {
    for_each_client(|other, store, _| {
        clients::a_database_without_the_tables_is_reported(store, other);
    });
}

#[test]
fn a_batch_is_pushed_completely_or_not_at_all() {
    let refused = str::from_utf8(REFUSED).unwrap();
    for kind in 0..3 {
        let folder = Folder::new();
        let path = folder.file("jobs");
        let store = SqliteStore::open(&path).unwrap();
        let own = Connection::open(&path).unwrap();
        for when in ["INSERT", "UPDATE"] {
            own.execute_batch(&format!(
                "CREATE TRIGGER refuse_{when} BEFORE {when} ON durable_job
                WHEN NEW.payload = CAST('{refused}' AS BLOB)
                BEGIN SELECT RAISE(ABORT, 'refused'); END"
            ))
            .unwrap();
        }
        let client: &mut dyn Client<SqliteStore> = match kind {
            0 => &mut Rusqlite(own),
            _ => &mut sqlx(&path, kind == 2),
        };
        clients::a_batch_is_pushed_completely_or_not_at_all(store, client);
    }
}

/// Another writer has the file.
#[test]
fn a_locked_file_is_busy() {
    let folder = Folder::new();
    let path = folder.file("jobs");
    let queue: Queue<SqliteStore> = Queue::new("queue", SqliteStore::open(&path).unwrap());
    let mut holder = Connection::open(&path).unwrap();
    let _held = holder
        .transaction_with_behavior(TransactionBehavior::Immediate)
        .unwrap();
    let mut own = Connection::open(&path).unwrap();
    own.busy_timeout(std::time::Duration::ZERO).unwrap();
    let mut tx = own.transaction().unwrap();
    let failed = queue
        .push_in(&mut tx, Value(b"one".to_vec()), When::NOW)
        .unwrap_err();
    assert_eq!(failed.error.kind(), ErrorKind::Busy);
    let runtime = tokio::runtime::Builder::new_current_thread()
        .build()
        .unwrap();
    runtime.block_on(async {
        let options = sqlx::sqlite::SqliteConnectOptions::new().filename(&path);
        let options = options.busy_timeout(std::time::Duration::ZERO);
        let mut own = SqliteConnection::connect_with(&options).await.unwrap();
        let mut tx = own.begin().await.unwrap();
        let pushed = queue
            .push_in(&mut tx, Value(b"one".to_vec()), When::NOW)
            .await;
        let failed = pushed.unwrap_err();
        assert_eq!(
            (failed.error.kind(), failed.value.0),
            (ErrorKind::Busy, b"one".to_vec())
        );
    });
}

/// Its trigger would make the statement a quarter slower.
#[test]
fn a_push_without_a_key_into_an_existing_queue_does_not_use_the_view() {
    for kind in 0..3 {
        let folder = Folder::new();
        let path = folder.file("jobs");
        let queue: Queue<SqliteStore> = Queue::new("queue", SqliteStore::open(&path).unwrap());
        queue.push(Value(b"first".to_vec()), When::NOW).unwrap();
        let own = Connection::open(&path).unwrap();
        own.execute_batch("DROP VIEW durable_push").unwrap();
        let client: &mut dyn Client<SqliteStore> = match kind {
            0 => &mut Rusqlite(own),
            _ => &mut sqlx(&path, kind == 2),
        };
        let second = Call::One(Value(b"second".to_vec()), When::NOW);
        let puts = client
            .transact(&queue, vec![second], true)
            .remove(0)
            .unwrap();
        let ids: Vec<_> = queue
            .list(None, 10)
            .unwrap()
            .iter()
            .map(|job| job.id)
            .collect();
        assert_eq!(puts, [Put::New(ids[1])]);
    }
}

/// The view, for clients in any language: text and bytes, with defaults, and under any conflict clause.
#[test]
fn an_insert_into_the_view_pushes_a_job() {
    let folder = Folder::new();
    let path = folder.file("jobs");
    let queue: Queue<SqliteStore> = Queue::new("queue", SqliteStore::open(&path).unwrap());
    let own = Connection::open(&path).unwrap();
    own.execute_batch(
        "INSERT INTO durable_push (queue, payload) VALUES ('queue', 'text ü');
        INSERT INTO durable_push (queue, payload, due, key) VALUES ('queue', x'00ff', 5, 'key');
        INSERT OR REPLACE INTO durable_push (queue, payload, due, key) VALUES ('queue', 'kept', 4, 'key');
        INSERT OR IGNORE INTO durable_push (queue, payload, key, merge, urgent, due)
            VALUES ('queue', 'merged', 'key', 1, 1, 3);",
    )
    .unwrap();
    let queues: u32 = own
        .query_row("SELECT count(*) FROM durable_queue", [], |row| row.get(0))
        .unwrap();
    assert_eq!(queues, 1);
    let now = || queue.store().turn("queue", &[], None).unwrap().now;
    let listed = queue.list(None, 10).unwrap();
    let [keyed, text] = &listed[..] else {
        panic!("{listed:?}")
    };
    assert_eq!((keyed.due.as_micros(), keyed.urgent), (3, true));
    // SQLite's clock is rounded to a millisecond.
    let age = now().as_micros() - text.due.as_micros();
    assert!((-1_000..60_000_000).contains(&age), "{age}");
    testkit::watchdog(testkit::LIMIT, || {
        for expected in ["merged", "text ü"] {
            let job = queue.take().unwrap();
            assert_eq!(job.0, expected.as_bytes());
            job.ack().unwrap();
        }
    });
    for incomplete in ["(queue) VALUES ('queue')", "(payload) VALUES ('text')"] {
        let text = format!("INSERT INTO durable_push {incomplete}");
        own.execute_batch(&text).unwrap_err();
    }
}

/// A merge moves a job to another group, and leaves its seat.
#[test]
fn an_insert_into_the_view_sets_the_group() {
    let folder = Folder::new();
    let path = folder.file("jobs");
    let queue: Queue<SqliteStore> = Queue::new("queue", SqliteStore::open(&path).unwrap());
    queue.limit(&durable_queue::Limit::ordered()).unwrap();
    let own = Connection::open(&path).unwrap();
    let push = |values: &str| {
        let into = "INSERT OR ABORT INTO durable_push (queue, due, payload, key, job_group, merge)";
        own.execute_batch(&format!("{into} VALUES ('queue', {values})"))
            .unwrap();
    };
    push("0, 'first', NULL, 'a', 0");
    push("1, 'second', 'key', 'a', 0");
    push("2, 'third', NULL, x'61', 0");
    let start = |settles: &[Settle<'_>], payload: &[u8]| {
        let turn = queue.store().turn("queue", settles, Some(claim_of(3)));
        let leases = turn.unwrap().claimed.unwrap().leases;
        let payloads: Vec<_> = leases.iter().map(|it| &it.payload[..]).collect();
        assert_eq!(payloads, [payload]);
        leases
    };
    let first = start(&[], b"first");
    let ack = first[0].settle(Act::Ack);
    queue.store().turn("queue", &[ack], None).unwrap();
    // The second one has the seat.
    push("9000000000000000000, 'moved', 'key', NULL, 3");
    start(&[], b"third");
    let listed = queue.list(None, 10).unwrap();
    let groups: Vec<_> = listed.iter().map(|job| job.group.as_deref()).collect();
    assert_eq!(groups, [Some("a"), None]);
}

/// By a job that was started, and with -2 also by a done one.
#[test]
fn an_insert_into_the_view_is_kept() {
    let folder = Folder::new();
    let path = folder.file("jobs");
    let queue: Queue<SqliteStore> = Queue::new("queue", SqliteStore::open(&path).unwrap());
    let store = queue.store();
    let own = Connection::open(&path).unwrap();
    let push = |merge: i32| {
        let into = "INSERT INTO durable_push (queue, payload, key, merge, due) VALUES ('queue', 'job', 'key', ?1, 0)";
        own.execute(into, [merge]).unwrap();
        count(store)
    };
    for merge in [-1, -1, -2] {
        assert_eq!(push(merge), 1);
    }
    let turn = store.turn("queue", &[], Some(claim_of(1))).unwrap();
    let lease = turn.claimed.unwrap().leases.remove(0);
    for merge in [-1, -2] {
        assert_eq!(push(merge), 1);
    }
    let keep = Act::Keep(Keep {
        span: std::time::Duration::from_secs(60 * 60 * 24),
        took: std::time::Duration::ZERO,
        result: None,
    });
    store.turn("queue", &[lease.settle(keep)], None).unwrap();
    assert_eq!(push(-2), 0);
    assert_eq!(push(-1), 1);
}

#[test]
fn a_push_statement_runs_in_any_client_and_shows_no_values() {
    use durable_queue::Parameter;
    let folder = Folder::new();
    let path = folder.file("jobs");
    let queue: Queue<SqliteStore> = Queue::new("queue", SqliteStore::open(&path).unwrap());
    let push = Push::new(Value(b"hunter2".to_vec()), When::NOW);
    let push = push
        .keyed("hunter2", durable_queue::Merge::Debounce)
        .urgent();
    let own = Connection::open(&path).unwrap();
    let mut found = Vec::new();
    for _ in 0..2 {
        let push = queue.push_statement(&push).unwrap();
        let shown = format!("{push:?} {:?}", push.parameters);
        assert!(!shown.contains("hunter2"));
        let bound = push
            .parameters
            .into_iter()
            .map(|parameter| match parameter {
                Parameter::Text(Some(text)) => rusqlite::types::Value::Text(text),
                Parameter::Bytes(Some(bytes)) => rusqlite::types::Value::Blob(bytes),
                Parameter::Integer(Some(number)) => rusqlite::types::Value::Integer(number),
                Parameter::Bool(value) => rusqlite::types::Value::Integer(i64::from(value)),
                _ => rusqlite::types::Value::Null,
            });
        let mut statement = own.prepare(&push.sql).unwrap();
        let read = |row: &rusqlite::Row<'_>| Ok((row.get("id")?, row.get("put")?));
        let row: (u64, u64) = statement
            .query_row(rusqlite::params_from_iter(bound), read)
            .unwrap();
        found.push(row);
    }
    let stored = queue.list(None, 10).unwrap();
    assert_eq!(stored.len(), 1);
    let id = stored[0].id.as_u64();
    assert_eq!(found, [(id, 0), (id, 1)]);
}
