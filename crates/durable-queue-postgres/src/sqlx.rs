//! Pushes in transactions of `sqlx`.

use durable_queue::store::Result;
use durable_queue::{Answer, Async, ErrorKind, Parameter, PushIn, Put, StoreError};
use sqlx::postgres::{PgArguments, PgDatabaseError, PgSeverity};
use sqlx::query::QueryAs;
use sqlx::{PgConnection, Postgres, Transaction};

use super::PostgresStore;
use super::failure::{by_connection, by_server};
use super::push_in::{Prepared, PutRow};

/// ```no_run
/// use std::time::Duration;
/// use durable_queue::DurableQueue;
/// use durable_queue_postgres::PostgresStore;
///
/// # async fn sign_up(
/// #     pool: sqlx::PgPool, mails: DurableQueue<String, PostgresStore>,
/// # ) -> Result<(), Box<dyn std::error::Error>> {
/// let mut tx = pool.begin().await?;
/// sqlx::query("INSERT INTO users VALUES ('ann')").execute(&mut *tx).await?;
/// mails.push_in(&mut tx, "welcome, ann".to_owned(), Duration::from_secs(60)).await?;
/// tx.commit().await?; // The user and the mail, or neither.
/// # Ok(())
/// # }
/// ```
///
/// Like the implementation for `postgres::Transaction`. The statement is prepared once per connection.
impl PushIn<Transaction<'_, Postgres>> for PostgresStore {
    type Mode = Async;

    fn run<'a, R: Send + 'a>(
        &'a self,
        transaction: &'a mut Transaction<'_, Postgres>,
        push: Prepared,
        then: impl FnOnce(Result<Vec<Put>>) -> R + Send + 'a,
    ) -> Answer<'a, Async, R> {
        let connection: &mut PgConnection = transaction;
        self.run(connection, push, then)
    }
}

/// For functions that get the connection of a transaction.
impl PushIn<PgConnection> for PostgresStore {
    type Mode = Async;

    fn run<'a, R: Send + 'a>(
        &'a self,
        connection: &'a mut PgConnection,
        mut push: Prepared,
        then: impl FnOnce(Result<Vec<Put>>) -> R + Send + 'a,
    ) -> Answer<'a, Async, R> {
        Box::pin(async move {
            if push.is_empty() {
                return then(Ok(Vec::new()));
            }
            let parameters = std::mem::take(&mut push.statement.parameters);
            let query = sqlx::query_as(&push.statement.sql);
            let query = parameters.into_iter().fold(query, bind);
            let rows = query.fetch_all(connection).await;
            let rows = rows.map_err(|error| failure(&error));
            then(rows.and_then(|rows| self.finish(&push, &rows)))
        })
    }
}

type Query<'q> = QueryAs<'q, Postgres, PutRow, PgArguments>;

fn bind(query: Query<'_>, parameter: Parameter) -> Query<'_> {
    match parameter {
        Parameter::Text(value) => query.bind(value),
        Parameter::Bytes(value) => query.bind(value),
        Parameter::Integer(value) => query.bind(value),
        Parameter::Bool(value) => query.bind(value),
        Parameter::TextArray(value) => query.bind(value),
        Parameter::BytesArray(value) => query.bind(value),
        Parameter::IntegerArray(value) => query.bind(value),
        Parameter::BoolArray(value) => query.bind(value),
        _ => query.bind(None::<Vec<u8>>),
    }
}

fn failure(error: &sqlx::Error) -> StoreError {
    match error {
        sqlx::Error::Database(said) => {
            let said = said.downcast_ref::<PgDatabaseError>();
            let is_fatal = matches!(said.severity(), PgSeverity::Fatal | PgSeverity::Panic);
            by_server(said.code(), said.message(), is_fatal)
        }
        sqlx::Error::Io(_) | sqlx::Error::WorkerCrashed | sqlx::Error::PoolClosed => {
            by_connection(ErrorKind::Unavailable)
        }
        _ => by_connection(ErrorKind::Other),
    }
}
