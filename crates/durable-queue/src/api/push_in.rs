//! Pushes in the caller's own transaction, by any client of the store's database.
//!
//! Not for repeating jobs, because their first due time requires a call of the store before the push.
//!
//! # Invariants
//! 1. All jobs are encoded before the client is called.
//! 2. A store contributes a statement, the same for all of its clients. An implementation of [`PushIn`] binds
//!    the parameters, runs the statement and reads the rows.

use std::borrow::Cow;
use std::fmt;
use std::future::{Future, ready};
use std::pin::Pin;

use crate::api::batch::Push;
use crate::api::queue::DurableQueue;
use crate::engine::shared::Shared;
use crate::error::PushError;
use crate::store::job::{JobId, Merge, NewJob, Put};
use crate::store::payload::Payload;
use crate::store::time::When;
use crate::store::{Result, Store};

/// A store whose jobs are pushed by an SQL statement, which any client can run in its own transaction.
pub trait SqlStore: Store {
    /// Statements of a push, with their parameters, for the implementations of [`PushIn`].
    type Prepared: Send;

    /// Returns the statements that insert all jobs or none. Delays count from this call, if the store's
    /// clock is the client's. Schedules are not supported, and are ignored.
    ///
    /// # Errors
    /// The store's error, for example [`TooLarge`](crate::ErrorKind::TooLarge). The database is not called.
    fn prepare(&self, queue: &str, jobs: &[NewJob<'_>]) -> Result<Self::Prepared>;

    /// Returns a statement that inserts one job and can be run by any client: see
    /// [`DurableQueue::push_statement`].
    ///
    /// # Errors
    /// Like [`prepare`](Self::prepare).
    fn push_statement(&self, queue: &str, job: &NewJob<'_>) -> Result<PushStatement>;
}

/// A store that can push jobs in a transaction of `Client`: see [`DurableQueue::push_in`].
///
/// | store | `Client` | mode | feature |
/// |---|---|---|---|
/// | `SqliteStore` | `rusqlite::Transaction` | [`Blocking`] | none |
/// | | `sqlx::Transaction<Sqlite>`, `sqlx::SqliteConnection` | [`Async`] | `sqlx` |
/// | `PostgresStore` | `postgres::Transaction` | [`Blocking`] | none |
/// | | `tokio_postgres::Transaction` | [`Async`] | none |
/// | | `sqlx::Transaction<Postgres>`, `sqlx::PgConnection` | [`Async`] | `sqlx` |
///
/// The clients without a feature are those of the stores themselves. For other clients, there is
/// [`push_statement`](DurableQueue::push_statement).
pub trait PushIn<Client: ?Sized>: SqlStore {
    /// Whether calls of the client block, or return futures.
    type Mode: Mode;

    /// Runs the statements of a push, and passes the outcomes to `then`. No notifier is called; a watch
    /// notices the commit.
    fn run<'a, R: Send + 'a>(
        &'a self,
        client: &'a mut Client,
        push: Self::Prepared,
        then: impl FnOnce(Result<Vec<Put>>) -> R + Send + 'a,
    ) -> Answer<'a, Self::Mode, R>;

    /// [`enqueue`](Store::enqueue) in the caller's transaction: the jobs exist if and only if it commits.
    ///
    /// # Errors
    /// The store's error. The transaction may have to be rolled back, depending on the database.
    fn enqueue_in<'a>(
        &'a self,
        client: &'a mut Client,
        queue: &str,
        jobs: &[NewJob<'_>],
    ) -> Answer<'a, Self::Mode, Result<Vec<Put>>> {
        match self.prepare(queue, jobs) {
            Ok(push) => self.run(client, push, |puts| puts),
            Err(error) => Self::Mode::answer(Err(error)),
        }
    }
}

/// How a database client answers: [`Blocking`] or [`Async`].
pub trait Mode: sealed::Sealed {
    /// `R`, or a future of it.
    type Answer<'a, R: Send + 'a>;

    /// Returns an answer that is known without a call of the client.
    fn answer<'a, R: Send + 'a>(value: R) -> Self::Answer<'a, R>;
}

/// The answer of a client of mode `M`.
pub type Answer<'a, M, R> = <M as Mode>::Answer<'a, R>;

/// Mode of clients whose calls block, and return the result itself.
#[derive(Clone, Copy, Debug)]
pub enum Blocking {}

/// Mode of clients whose calls return futures.
#[derive(Clone, Copy, Debug)]
pub enum Async {}

impl Mode for Blocking {
    type Answer<'a, R: Send + 'a> = R;

    fn answer<'a, R: Send + 'a>(value: R) -> R {
        value
    }
}

impl Mode for Async {
    type Answer<'a, R: Send + 'a> = Pin<Box<dyn Future<Output = R> + Send + 'a>>;

    fn answer<'a, R: Send + 'a>(value: R) -> Self::Answer<'a, R> {
        Box::pin(ready(value))
    }
}

mod sealed {
    pub trait Sealed {}
    impl Sealed for super::Blocking {}
    impl Sealed for super::Async {}
}

/// An SQL statement that pushes a job, with the values of its parameters, in order.
///
/// Its rows begin with the columns `id` and `put`: 0 for a new job, 1 for a job that was merged with it, 2 for
/// a job that was kept (see [`Put`]).
#[derive(Clone, PartialEq, Eq)]
#[non_exhaustive]
#[must_use = "a statement does nothing until a client runs it"]
pub struct PushStatement {
    /// The text, in the dialect of the store's database.
    pub sql: Cow<'static, str>,
    /// The values of the parameters.
    pub parameters: Vec<Parameter>,
}

impl PushStatement {
    /// Creates a statement. For stores.
    pub fn new(sql: impl Into<Cow<'static, str>>, parameters: Vec<Parameter>) -> Self {
        let sql = sql.into();
        Self { sql, parameters }
    }
}

/// Omits the parameters, which may be confidential.
impl fmt::Debug for PushStatement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PushStatement")
            .field("sql", &self.sql)
            .finish_non_exhaustive()
    }
}

/// Value of a parameter of a [`PushStatement`]. The arrays are used on `PostgreSQL` only.
#[derive(Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Parameter {
    /// A text (`TEXT`), or null.
    Text(Option<String>),
    /// Bytes (`BLOB`, `bytea`), or null.
    Bytes(Option<Vec<u8>>),
    /// A number of 64 bits (`INTEGER`, `bigint`), or null.
    Integer(Option<i64>),
    /// A truth value (`INTEGER`, `boolean`).
    Bool(bool),
    /// `text[]`.
    TextArray(Vec<Option<String>>),
    /// `bytea[]`.
    BytesArray(Vec<Option<Vec<u8>>>),
    /// `bigint[]`.
    IntegerArray(Vec<Option<i64>>),
    /// `boolean[]`.
    BoolArray(Vec<Option<bool>>),
}

/// Shows only the type, because the value may be confidential.
impl fmt::Debug for Parameter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Text(_) => "Text(..)",
            Self::Bytes(_) => "Bytes(..)",
            Self::Integer(_) => "Integer(..)",
            Self::Bool(_) => "Bool(..)",
            Self::TextArray(_) => "TextArray(..)",
            Self::BytesArray(_) => "BytesArray(..)",
            Self::IntegerArray(_) => "IntegerArray(..)",
            Self::BoolArray(_) => "BoolArray(..)",
        })
    }
}

impl<T: Payload, S: SqlStore> DurableQueue<T, S> {
    /// Pushes a job in the caller's own transaction: the job exists if and only if the transaction commits.
    /// [`PushIn`] lists the clients. The call blocks, or returns a future, as the calls of the client do.
    ///
    /// Calling [`announce`](Self::announce) after the commit lets this process find the job without a look-up
    /// of its own.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use durable_queue::{Async, DurableQueue, PushError, PushIn};
    /// # async fn sign_up<C, S: PushIn<C, Mode = Async>>(
    /// #     mails: &DurableQueue<String, S>, tx: &mut C,
    /// # ) -> Result<(), PushError<String>> {
    /// let in_a_minute = Duration::from_secs(60);
    /// // `tx` is, for example, a `sqlx::Transaction`. Without `.await` if it is of a blocking client.
    /// mails.push_in(tx, "welcome".to_owned(), in_a_minute).await?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// The store's error, with the value. [`NotInstalled`](crate::ErrorKind::NotInstalled) if the database is
    /// not the store's. On `PostgreSQL` the transaction can then only be rolled back, unless the error was
    /// reported before the server was called (`Unencodable`, `TooLarge`, `BadName`).
    ///
    /// # Cancellation
    /// The job is encoded by the call, not by its future. If the future is dropped before it has completed,
    /// the transaction may or may not contain the job: roll it back.
    pub fn push_in<'a, C: ?Sized>(
        &'a self,
        client: &'a mut C,
        value: T,
        when: impl Into<When>,
    ) -> Answer<'a, S::Mode, Result<JobId, PushError<T>>>
    where
        S: PushIn<C>,
    {
        let push = self.prepare_one(&value, when.into(), None, Merge::Keep);
        self.run_in(client, value, push, |puts| puts[0].id())
    }

    /// [`push_keyed`](Self::push_keyed) in the caller's own transaction: see [`push_in`](Self::push_in). The
    /// transaction locks the key until it ends.
    ///
    /// ```
    /// use std::time::Duration;
    /// use durable_queue::{DurableQueue, Merge};
    /// use durable_queue_sqlite::SqliteStore;
    /// use durable_queue_sqlite::rusqlite::{Connection, TransactionBehavior};
    ///
    /// # let folder = std::env::temp_dir().join(format!("push-keyed-in-{}", std::process::id()));
    /// # std::fs::create_dir_all(&folder)?;
    /// # let path = folder.join("orders");
    /// let queue: DurableQueue<String, _> = DurableQueue::new("time-outs", SqliteStore::open(&path)?);
    /// let half_an_hour = Duration::from_secs(1_800);
    ///
    /// let mut own = Connection::open(&path)?; // The application's, by `rusqlite`.
    /// let mut tx = own.transaction_with_behavior(TransactionBehavior::Immediate)?;
    /// tx.execute_batch("CREATE TABLE orders (id INTEGER); INSERT INTO orders VALUES (7)")?;
    /// queue.push_keyed_in(&mut tx, "order-7", "7".to_owned(), half_an_hour, Merge::Keep)?;
    /// tx.commit()?;
    /// # assert_eq!(queue.store_stats()?.jobs, 1);
    /// # drop((own, queue));
    /// # std::fs::remove_dir_all(&folder)?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// Like [`push_in`](Self::push_in).
    pub fn push_keyed_in<'a, C: ?Sized>(
        &'a self,
        client: &'a mut C,
        key: impl AsRef<[u8]>,
        value: T,
        when: impl Into<When>,
        merge: Merge,
    ) -> Answer<'a, S::Mode, Result<Put, PushError<T>>>
    where
        S: PushIn<C>,
    {
        let push = self.prepare_one(&value, when.into(), Some(key.as_ref()), merge);
        self.run_in(client, value, push, |puts| puts[0])
    }

    /// [`push_many`](Self::push_many) in the caller's own transaction: see [`push_in`](Self::push_in). The
    /// transaction locks the keys until it ends. Transactions that push several keys should push them in the
    /// same order; otherwise a deadlock may abort one of them.
    ///
    /// ```
    /// # use std::time::Duration;
    /// # use durable_queue::{Blocking, DurableQueue, Merge, Push, PushError, PushIn, When};
    /// # fn ordered<C, S: PushIn<C, Mode = Blocking>>(
    /// #     jobs: &DurableQueue<String, S>, tx: &mut C,
    /// # ) -> Result<(), PushError<Vec<Push<String>>>> {
    /// let half_an_hour = Duration::from_secs(1_800);
    /// let confirm = Push::new("confirm order 7".to_owned(), When::NOW).urgent();
    /// let expire = Push::new("expire order 7".to_owned(), half_an_hour);
    /// let expire = expire.keyed("order-7", Merge::Keep);
    /// jobs.push_many_in(tx, vec![confirm, expire])?; // With `.await`, if `tx` is of an async client.
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// Like [`push_in`](Self::push_in), with the jobs.
    #[expect(
        clippy::type_complexity,
        reason = "an alias would hide what the call returns"
    )]
    pub fn push_many_in<'a, C: ?Sized>(
        &'a self,
        client: &'a mut C,
        jobs: Vec<Push<T>>,
    ) -> Answer<'a, S::Mode, Result<Vec<Put>, PushError<Vec<Push<T>>>>>
    where
        S: PushIn<C>,
    {
        let Shared { store, name, .. } = &**self.shared();
        let all = jobs.iter().map(Push::parts);
        let push = self.enter_all(all, |jobs| store.prepare(name, jobs));
        self.run_in(client, jobs, push, |puts| puts)
    }

    /// Returns an SQL statement that pushes the job, for clients for which the store does not implement
    /// [`PushIn`], such as diesel. The job exists once the statement is committed.
    ///
    /// Parameters are numbered: `?1` on `SQLite`, `$1` on `PostgreSQL`. On `SQLite`, a delay counts from this
    /// call. On `PostgreSQL`, it counts from the execution, and the statement notifies waiting processes if
    /// the job is due within two minutes, which makes the commits of such transactions serial.
    ///
    /// ```
    /// use durable_queue::{DurableQueue, Parameter, Push, When};
    /// use durable_queue_sqlite::SqliteStore;
    ///
    /// let mails = DurableQueue::new("mails", SqliteStore::open(":memory:")?);
    /// let push = mails.push_statement(&Push::new("welcome".to_owned(), When::NOW))?;
    /// assert!(push.sql.starts_with("INSERT INTO durable_push"));
    /// assert_eq!(push.parameters[0], Parameter::Text(Some("mails".to_owned())));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// [`Unencodable`](crate::ErrorKind::Unencodable), [`TooLarge`](crate::ErrorKind::TooLarge),
    /// [`BadName`](crate::ErrorKind::BadName). The database is not called.
    pub fn push_statement(&self, job: &Push<T>) -> Result<PushStatement> {
        let Shared { store, name, .. } = &**self.shared();
        let one = std::iter::once(job.parts());
        self.enter_all(one, |jobs| store.push_statement(name, &jobs[0]))
    }

    fn prepare_one(
        &self,
        value: &T,
        when: When,
        key: Option<&[u8]>,
        merge: Merge,
    ) -> Result<S::Prepared> {
        let Shared { store, name, .. } = &**self.shared();
        let job = NewJob {
            key,
            merge,
            ..NewJob::plain(&[], when)
        };
        self.with_payload(value, job, |job| store.prepare(name, &[job]))
    }

    fn run_in<'a, C: ?Sized, V: Send + 'a, R: Send + 'a>(
        &'a self,
        client: &'a mut C,
        value: V,
        push: Result<S::Prepared>,
        read: impl FnOnce(Vec<Put>) -> R + Send + 'a,
    ) -> Answer<'a, S::Mode, Result<R, PushError<V>>>
    where
        S: PushIn<C>,
    {
        let then = |puts: Result<Vec<Put>>| match puts {
            Ok(puts) => Ok(read(puts)),
            Err(error) => Err(PushError { value, error }),
        };
        match push {
            Ok(push) => self.store().run(client, push, then),
            Err(error) => S::Mode::answer(then(Err(error))),
        }
    }
}
