//! Pushes in transactions of each client.

use durable_queue::{ErrorKind, Merge, Parameter, Push, When};
use durable_queue_postgres::{PostgresStore, tokio_postgres};
use durable_queue_tests::call_in;
use durable_queue_tests::clients::{self, Call, Client, Outcome, Queue, REFUSED, Value};
use sqlx::postgres::PgArguments;
use sqlx::{Connection as _, PgConnection};
use tokio::runtime::Runtime;

use super::Database;

struct Blocking(::postgres::Client);

impl Client<PostgresStore> for Blocking {
    fn transact(
        &mut self,
        queue: &Queue<PostgresStore>,
        calls: Vec<Call>,
        commit: bool,
    ) -> Vec<Outcome> {
        let mut tx = self.0.transaction().unwrap();
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

struct Tokio(Runtime, tokio_postgres::Client);

impl Client<PostgresStore> for Tokio {
    fn transact(
        &mut self,
        queue: &Queue<PostgresStore>,
        calls: Vec<Call>,
        commit: bool,
    ) -> Vec<Outcome> {
        let Self(runtime, client) = self;
        runtime.block_on(async {
            let mut tx = client.transaction().await.unwrap();
            let mut outcomes = Vec::new();
            for call in calls {
                outcomes.push(call_in!(queue, &mut tx, call, await));
            }
            if commit {
                tx.commit().await.unwrap();
            } else {
                tx.rollback().await.unwrap();
            }
            outcomes
        })
    }
}

struct Sqlx {
    runtime: Runtime,
    connection: PgConnection,
    /// Whether pushes get the connection instead of the transaction.
    by_connection: bool,
}

impl Client<PostgresStore> for Sqlx {
    fn transact(
        &mut self,
        queue: &Queue<PostgresStore>,
        calls: Vec<Call>,
        commit: bool,
    ) -> Vec<Outcome> {
        self.runtime.block_on(async {
            let mut tx = self.connection.begin().await.unwrap();
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
        })
    }
}

fn runtime() -> Runtime {
    let mut builder = tokio::runtime::Builder::new_multi_thread();
    builder.worker_threads(1).enable_all().build().unwrap()
}

fn tokio_client(database: &Database) -> Tokio {
    let runtime = runtime();
    let client = runtime.block_on(async {
        let connected = tokio_postgres::connect(&database.address, tokio_postgres::NoTls).await;
        let (client, connection) = connected.unwrap();
        tokio::spawn(connection);
        client
    });
    Tokio(runtime, client)
}

fn sqlx_client(database: &Database, by_connection: bool) -> Sqlx {
    let runtime = runtime();
    let connection = runtime.block_on(PgConnection::connect(&database.address));
    Sqlx {
        connection: connection.unwrap(),
        runtime,
        by_connection,
    }
}

/// Runs a test for each client, each with a schema of its own. The first push of a store notifies in its
/// transaction, so it takes another statement than the later ones.
fn for_each_client(test: impl Fn(&Database, PostgresStore, &mut dyn Client<PostgresStore>)) {
    for kind in 0..4 {
        let Some(database) = Database::new() else {
            return;
        };
        let mut client: Box<dyn Client<PostgresStore>> = match kind {
            0 => Box::new(Blocking(database.session())),
            1 => Box::new(tokio_client(&database)),
            _ => Box::new(sqlx_client(&database, kind == 2)),
        };
        let store = database.another_store();
        test(&database, store, &mut *client);
    }
}

durable_queue_tests::client_tests!(for_each_client);

#[test]
fn a_batch_is_pushed_completely_or_not_at_all() {
    let refused = str::from_utf8(REFUSED).unwrap();
    for_each_client(|database, store, client| {
        database.sql(&format!(
            "ALTER TABLE SCHEMA.job ADD CHECK (payload <> '{refused}')"
        ));
        clients::a_batch_is_pushed_completely_or_not_at_all(store, client);
    });
}

#[test]
fn a_database_without_the_tables_is_reported() {
    for_each_client(|database, store, client| {
        database.sql("ALTER schema SCHEMA RENAME TO SCHEMA_hidden");
        clients::a_database_without_the_tables_is_reported(store, client);
        database.sql("ALTER schema SCHEMA_hidden RENAME TO SCHEMA");
    });
}

/// Before the server is called, so the transaction goes on.
#[test]
fn a_name_with_nul_is_rejected_without_a_call_of_the_server() {
    for_each_client(|_, store, client| {
        let queue = Queue::new("nul \0", store);
        let value = Value(b"one".to_vec());
        let calls = vec![
            Call::One(value.clone(), When::NOW),
            Call::Many(vec![Push::new(value.clone(), When::NOW)]),
        ];
        for outcome in client.transact(&queue, calls, true) {
            let (error, values) = outcome.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::BadName);
            assert_eq!(values, std::slice::from_ref(&value));
        }
    });
}

/// The first push creates the queue, within the transaction.
#[test]
fn a_queue_that_does_not_exist_is_created_by_the_push() {
    for_each_client(|database, store, client| {
        database.sql("DELETE FROM SCHEMA.queue");
        let queue = Queue::new("created", store);
        let call = Call::One(Value(b"one".to_vec()), When::NOW);
        for commit in [false, true] {
            let outcomes = client.transact(&queue, vec![call.clone(); 2], commit);
            assert!(outcomes.iter().all(Result::is_ok));
            let queues: i64 = database.get("SELECT count(*) FROM SCHEMA.queue");
            assert_eq!(queues, i64::from(commit));
        }
        assert_eq!(queue.store_stats().unwrap().jobs, 2);
    });
}

type Statement<'q> = sqlx::query::QueryAs<'q, sqlx::Postgres, (i64, i16), PgArguments>;

fn bind(query: Statement<'_>, parameter: Parameter) -> Statement<'_> {
    match parameter {
        Parameter::Text(value) => query.bind(value),
        Parameter::Bool(value) => query.bind(value),
        Parameter::BytesArray(value) => query.bind(value),
        Parameter::IntegerArray(value) => query.bind(value),
        Parameter::BoolArray(value) => query.bind(value),
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_push_statement_runs_in_any_client_and_shows_no_values() {
    let Some(database) = Database::new() else {
        return;
    };
    let queue: Queue<PostgresStore> = Queue::new("queue", database.another_store());
    let plain = Push::new(Value(b"hunter2".to_vec()), When::NOW);
    let keyed = plain.clone().keyed("hunter2", Merge::Debounce).urgent();
    let runtime = runtime();
    runtime.block_on(async {
        let mut own = PgConnection::connect(&database.address).await.unwrap();
        let mut found = Vec::new();
        for push in [&plain, &keyed, &keyed] {
            let push = queue.push_statement(push).unwrap();
            let shown = format!("{push:?} {:?}", push.parameters);
            assert!(!shown.contains("hunter2"));
            let query = push
                .parameters
                .into_iter()
                .fold(sqlx::query_as(&push.sql), bind);
            let (id, put) = query.fetch_one(&mut own).await.unwrap();
            found.push((id.cast_unsigned(), put));
        }
        let mut ids: Vec<_> = queue
            .list(None, 10)
            .unwrap()
            .iter()
            .map(|job| job.id.as_u64())
            .collect();
        ids.sort_unstable();
        assert_eq!(found, [(ids[0], 0), (ids[1], 0), (ids[1], 1)]);
    });
}
