//! Pushes in transactions of `sqlx`.

use durable_queue::store::Result;
use durable_queue::{Answer, Async, ErrorKind, Parameter, PushIn, Put, StoreError};
use sqlx::sqlite::SqliteArguments;
use sqlx::{Arguments, Connection, Sqlite, SqliteConnection, Transaction};

use super::push_in::{Job, Prepared, put};
use super::statements::is_missing_table;
use super::{SqliteStore, sql};

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
    let Prepared(jobs) = push;
    if let [job] = &jobs[..] {
        return Ok(vec![run(connection, job).await?]);
    }
    // All jobs or none, even if the caller continues after an error.
    let mut nested = connection.begin().await?;
    let mut puts = Vec::with_capacity(jobs.len());
    for job in &jobs {
        puts.push(run(&mut nested, job).await?);
    }
    nested.commit().await?;
    Ok(puts)
}

async fn run(connection: &mut SqliteConnection, job: &Job) -> sqlx::Result<Put> {
    if let Some(plain) = job.plain() {
        let plain = sqlx::query_with(sql::PUSH_PLAIN, bound(plain)?);
        let done = plain.execute(&mut *connection).await?;
        if done.rows_affected() == 1 {
            return Ok(put(done.last_insert_rowid(), 0));
        }
    }
    let query = sqlx::query_as_with(sql::PUSH, bound(&job.parameters)?);
    let (id, outcome) = query.fetch_one(connection).await?;
    Ok(put(id, outcome))
}

fn bound(parameters: &[Parameter]) -> sqlx::Result<SqliteArguments<'_>> {
    let mut bound = SqliteArguments::default();
    for parameter in parameters {
        match parameter {
            Parameter::Text(text) => bound.add(text.as_deref()),
            Parameter::Bytes(bytes) => bound.add(bytes.as_deref()),
            Parameter::Integer(number) => bound.add(*number),
            Parameter::Bool(value) => bound.add(*value),
            _ => bound.add(None::<i64>), // There are no arrays here.
        }
        .map_err(sqlx::Error::Encode)?;
    }
    Ok(bound)
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
