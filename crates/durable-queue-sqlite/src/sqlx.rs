//! Pushes in transactions of `sqlx`.

use durable_queue::store::Result;
use durable_queue::{Answer, Async, ErrorKind, Parameter, PushIn, Put, StoreError};
use sqlx::query::QueryAs;
use sqlx::sqlite::SqliteArguments;
use sqlx::{Connection, Sqlite, SqliteConnection, Transaction};

use super::push_in::{Prepared, put};
use super::{SqliteStore, is_missing_table, sql};

/// ```
/// use durable_queue::{DurableQueue, When};
/// use durable_queue_sqlite::SqliteStore;
/// use sqlx::Connection;
///
/// # let folder = std::env::temp_dir().join(format!("sqlx-push-in-{}", std::process::id()));
/// # std::fs::create_dir_all(&folder)?;
/// # let path = folder.join("shop");
/// # let runtime = tokio::runtime::Builder::new_current_thread().build()?;
/// # runtime.block_on(async {
/// let mails = DurableQueue::new("mails", SqliteStore::open(&path)?);
/// let options = sqlx::sqlite::SqliteConnectOptions::new().filename(&path);
/// let mut own = sqlx::SqliteConnection::connect_with(&options).await?; // The application's.
///
/// let mut tx = own.begin_with("BEGIN IMMEDIATE").await?;
/// sqlx::query("CREATE TABLE users (name TEXT)").execute(&mut *tx).await?;
/// sqlx::query("INSERT INTO users VALUES ('ann')").execute(&mut *tx).await?;
/// mails.push_in(&mut tx, "welcome, ann".to_owned(), When::NOW).await?;
/// tx.commit().await?; // The user and the mail, or neither.
/// # assert_eq!(mails.store_stats()?.jobs, 1);
/// # std::fs::remove_dir_all(&folder)?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// # })?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// In a transaction that was begun by [`Connection::begin_with`]`("BEGIN IMMEDIATE")`: a deferred one that reads
/// first may fail at its first write.
impl PushIn<Transaction<'_, Sqlite>> for SqliteStore {
    type Mode = Async;

    fn run<'a, R: Send + 'a>(
        &'a self,
        transaction: &'a mut Transaction<'_, Sqlite>,
        push: Prepared,
        then: impl FnOnce(Result<Vec<Put>>) -> R + Send + 'a,
    ) -> Answer<'a, Async, R> {
        let connection: &mut SqliteConnection = transaction;
        self.run(connection, push, then)
    }
}

/// For functions that get the connection of a transaction. Batches need a transaction begun by `sqlx` itself,
/// not by a `BEGIN` of the application, because they begin a nested one.
impl PushIn<SqliteConnection> for SqliteStore {
    type Mode = Async;

    fn run<'a, R: Send + 'a>(
        &'a self,
        connection: &'a mut SqliteConnection,
        push: Prepared,
        then: impl FnOnce(Result<Vec<Put>>) -> R + Send + 'a,
    ) -> Answer<'a, Async, R> {
        Box::pin(async move { then(run_all(connection, push).await.map_err(failure)) })
    }
}

async fn run_all(connection: &mut SqliteConnection, push: Prepared) -> sqlx::Result<Vec<Put>> {
    let mut jobs = push.0;
    if jobs.len() == 1 {
        return Ok(vec![run(connection, jobs.remove(0)).await?]);
    }
    // All jobs or none, even if the caller continues after an error.
    let mut nested = connection.begin().await?;
    let mut puts = Vec::with_capacity(jobs.len());
    for job in jobs {
        puts.push(run(&mut nested, job).await?);
    }
    nested.commit().await?;
    Ok(puts)
}

async fn run(connection: &mut SqliteConnection, job: Vec<Parameter>) -> sqlx::Result<Put> {
    type Query<'q> = QueryAs<'q, Sqlite, (i64, i64), SqliteArguments<'q>>;
    let bind = |query: Query<'static>, parameter| match parameter {
        Parameter::Text(text) => query.bind(text),
        Parameter::Bytes(bytes) => query.bind(bytes),
        Parameter::Integer(number) => query.bind(number),
        Parameter::Bool(value) => query.bind(value),
        _ => query.bind(None::<i64>), // There are no arrays here.
    };
    let query = job.into_iter().fold(sqlx::query_as(sql::PUSH), bind);
    let (id, outcome) = query.fetch_one(connection).await?;
    Ok(put(id, outcome))
}

fn failure(error: sqlx::Error) -> StoreError {
    let kind = match &error {
        sqlx::Error::Database(said) => {
            let code = said.code().and_then(|code| code.parse::<u32>().ok());
            // Primary result codes: https://www.sqlite.org/rescode.html
            match code.map(|extended| extended & 0xff) {
                Some(5 | 6) => ErrorKind::Busy,
                Some(8) => ErrorKind::ReadOnly,
                Some(10) => ErrorKind::Unavailable,
                Some(11 | 26) => ErrorKind::Corrupt,
                Some(13) => ErrorKind::Full,
                Some(18) => ErrorKind::TooLarge,
                _ if is_missing_table(said.message()) => ErrorKind::NotInstalled,
                _ => ErrorKind::Other,
            }
        }
        sqlx::Error::WorkerCrashed => ErrorKind::Unavailable,
        _ => ErrorKind::Other,
    };
    StoreError::new(kind).with_source(error)
}
