//! Pushes in the caller's own transaction: the statements, and their implementation for `postgres` and
//! `tokio_postgres`.

use bytes::BytesMut;
use durable_queue::store::Result;
use durable_queue::{
    Answer, Async, Blocking, ErrorKind, Merge, NewJob, Parameter, PushIn, PushStatement, Put,
    SqlStore, StoreError, StoreTime,
};
use postgres::Row;
use postgres::types::{IsNull, ToSql, Type, to_sql_checked};

use super::failure::failure;
use super::schema::{Schema, soon};
use super::values::{Failure, check_jobs, is_plain, merge, put_of, time};
use super::{PostgresStore, unreadable};

/// A statement that pushes jobs, to be run by a client of the application.
#[derive(Debug)]
#[must_use = "a push does nothing until it is run"]
pub struct Prepared {
    pub(super) statement: PushStatement,
    queue: String,
    jobs: usize,
    /// Whether the statement notifies other processes.
    notifies: bool,
}

/// The columns of a statement's row: id, outcome, due time, whether that is soon, number of the transaction.
pub(super) type PutRow = (i64, i16, i64, bool, i64);

/// The server's clock when it received the statement: the same value in each column.
const NOW: &str = "(extract(epoch FROM statement_timestamp()) * 1000000)::bigint";

/// Number of the transaction, for the outbox.
const TRANSACTION: &str = "pg_current_xact_id()::text::bigint";

impl Prepared {
    pub(super) fn is_empty(&self) -> bool {
        self.jobs == 0
    }
}

impl SqlStore for PostgresStore {
    type Prepared = Prepared;

    fn prepare(&self, queue: &str, jobs: &[NewJob<'_>]) -> Result<Prepared> {
        self.check(queue, jobs)?;
        // Only one push per second notifies: see `outbox`.
        let notifies = !jobs.is_empty() && self.0.outbox.notifies(&self.0);
        Ok(Prepared {
            statement: statement(self.0.sessions.schema(), queue, jobs, notifies),
            queue: queue.to_owned(),
            jobs: jobs.len(),
            notifies,
        })
    }

    fn push_statement(&self, queue: &str, job: &NewJob<'_>) -> Result<PushStatement> {
        self.check(queue, &[*job])?;
        let schema = self.0.sessions.schema();
        Ok(statement(schema, queue, &[*job], true))
    }
}

impl PostgresStore {
    fn check(&self, queue: &str, jobs: &[NewJob<'_>]) -> Result<()> {
        self.0.sessions.check_process()?;
        check_jobs(queue, jobs)
    }

    /// Called with the statement's rows.
    pub(super) fn finish(&self, push: &Prepared, rows: &[PutRow]) -> Result<Vec<Put>> {
        if rows.len() != push.jobs {
            return Err(StoreError::new(ErrorKind::Corrupt));
        }
        let soon = rows.iter().filter(|row| row.3 && !push.notifies);
        if let Some((_, _, due, _, number)) = soon.min_by_key(|row| row.2) {
            let due = StoreTime::from_micros(*due);
            self.0.outbox.add(*number, &push.queue, due);
        }
        Ok(rows.iter().map(|row| put_of(row.0, row.1)).collect())
    }
}

fn statement(schema: &Schema, queue: &str, jobs: &[NewJob<'_>], notifies: bool) -> PushStatement {
    if let ([job], false) = (jobs, notifies)
        && is_plain(job)
    {
        return plain_statement(schema, queue, job);
    }
    let integers = |value: &dyn Fn(&NewJob<'_>) -> Option<i64>| {
        Parameter::IntegerArray(jobs.iter().map(value).collect())
    };
    let bools = |value: &dyn Fn(&NewJob<'_>) -> Option<bool>| {
        Parameter::BoolArray(jobs.iter().map(value).collect())
    };
    let most = |job: &NewJob<'_>| match job.merge {
        Merge::DebounceUntil(most) => Some(time(most)),
        _ => None,
    };
    let payloads = jobs.iter().map(|job| Some(job.payload.to_owned()));
    let mut parameters = vec![
        Parameter::Text(Some(queue.to_owned())),
        integers(&|job| Some(time(job.when).0)),
        bools(&|job| Some(time(job.when).1)),
        Parameter::BytesArray(payloads.collect()),
        Parameter::Bool(notifies),
    ];
    let is_as_first = |job: &NewJob<'_>| job.urgent == jobs[0].urgent;
    let call = if jobs.iter().all(|job| is_plain(job) && is_as_first(job)) {
        parameters.push(Parameter::Bool(jobs.first().is_some_and(|job| job.urgent)));
        "enqueue_plain($1, $2, $3, $4, $6, "
    } else {
        let keys = jobs.iter().map(|job| job.key.map(<[u8]>::to_owned));
        parameters.extend([
            Parameter::BytesArray(keys.collect()),
            integers(&|job| Some(i64::from(merge(job.merge)))),
            integers(&|job| most(job).map(|most| most.0)),
            bools(&|job| most(job).map(|most| most.1)),
            bools(&|job| Some(job.urgent)),
        ]);
        "enqueue($1, $2, $3, $4, $6, $7::bigint[]::smallint[], $8, $9, '{}'::text[], $10, "
    };
    let mut texts_of = |text: fn(&NewJob<'_>) -> Option<String>| {
        let texts: Vec<_> = jobs.iter().map(text).collect();
        if texts.iter().all(Option::is_none) {
            return "NULL".to_owned();
        }
        parameters.push(Parameter::TextArray(texts));
        format!("${}", parameters.len())
    };
    let kinds = texts_of(|job| job.kind.map(str::to_owned));
    let options = texts_of(|job| job.options.map(str::to_owned));
    let groups = texts_of(|job| job.group.map(str::to_owned));
    let columns = "o_id AS id, o_put AS put, o_due, o_soon";
    let texts = format!("{kinds}, {options}, {groups}");
    let text = format!("SELECT {columns}, {TRANSACTION} FROM SCHEMA.{call}{texts}, $5)");
    PushStatement::new(schema.render(&text), parameters)
}

/// Inserts one plain job without a function, which would cost a third of the server's time. Computes only the
/// columns that `finish` reads: due time and transaction only if the job may be announced.
fn plain_statement(schema: &Schema, queue: &str, job: &NewJob<'_>) -> PushStatement {
    let (micros, is_delay) = time(job.when);
    let (micros, at, soon) = match is_delay {
        // Never, in this context: the addition must not overflow.
        true if micros > i64::MAX / 2 => (i64::MAX, "$2".to_owned(), "false".to_owned()),
        true => (micros, format!("{NOW} + $2"), (micros < soon()).to_string()),
        false => (micros, "$2".to_owned(), format!("$2 < {NOW} + SOON")),
    };
    let number = if soon == "false" {
        "0::bigint"
    } else {
        TRANSACTION
    };
    let mut parameters = vec![
        Parameter::Text(Some(queue.to_owned())),
        Parameter::Integer(Some(micros)),
        Parameter::Bytes(Some(job.payload.to_owned())),
        Parameter::Bool(job.urgent),
    ];
    let [columns, values] = if job.kind.or(job.options).or(job.group).is_some() {
        let texts = [job.kind, job.options, job.group];
        parameters.extend(texts.map(|text| Parameter::Text(text.map(str::to_owned))));
        [", kind, options, job_group", ", $5, $6, $7"]
    } else {
        ["", ""]
    };
    let text = format!(
        "INSERT INTO SCHEMA.job AS j (queue, due, at, payload, urgent{columns})
        VALUES (coalesce((SELECT q.id FROM SCHEMA.queue q WHERE q.name = $1), SCHEMA.queue_of($1)),
            {at}, {at}, $3, $4{values})
        RETURNING j.id, 0::smallint AS put, j.due, {soon}, {number}"
    );
    PushStatement::new(schema.render(&text), parameters)
}

/// The transaction must be in the store's database. After an error of the server it can only be rolled back,
/// as after any statement's error. [`TooLarge`](ErrorKind::TooLarge) is reported before the server is called.
///
/// A job that is due within two minutes is announced after the commit, by a thread of the store that polls
/// whether the transaction has ended: first after 2 ms, then at intervals of an eighth of the time that it
/// has been open. Dropping the last clone of a store announces the jobs committed by then, and takes at most
/// a second. One push per second notifies within its transaction instead, so a process that pushes rarely may
/// end at any time after its commit. If a process dies within these milliseconds, or the store is dropped
/// before the commit, other processes find the jobs by their regular looks
/// ([`SAFETY_LOOK`](durable_queue::internals::SAFETY_LOOK)).
impl PushIn<postgres::Transaction<'_>> for PostgresStore {
    type Mode = Blocking;

    fn run<'a, R: Send + 'a>(
        &'a self,
        transaction: &'a mut postgres::Transaction<'_>,
        push: Prepared,
        then: impl FnOnce(Result<Vec<Put>>) -> R + Send + 'a,
    ) -> R {
        if push.is_empty() {
            return then(Ok(Vec::new()));
        }
        let parameters = bound(&push.statement);
        let rows = transaction.query_typed(&push.statement.sql, &typed(&parameters));
        then(self.finish_rows(&push, rows))
    }
}

/// ```no_run
/// use std::time::Duration;
/// use durable_queue::DurableQueue;
/// use durable_queue_postgres::{PostgresStore, tokio_postgres};
///
/// # async fn sign_up(
/// #     mut client: tokio_postgres::Client, mails: DurableQueue<String, PostgresStore>,
/// # ) -> Result<(), Box<dyn std::error::Error>> {
/// let mut tx = client.transaction().await?;
/// tx.execute("INSERT INTO users VALUES ('ann')", &[]).await?;
/// mails.push_in(&mut tx, "welcome, ann".to_owned(), Duration::from_secs(60)).await?;
/// tx.commit().await?; // The user and the mail, or neither.
/// # Ok(())
/// # }
/// ```
///
/// Like the implementation for `postgres::Transaction`.
impl PushIn<tokio_postgres::Transaction<'_>> for PostgresStore {
    type Mode = Async;

    fn run<'a, R: Send + 'a>(
        &'a self,
        transaction: &'a mut tokio_postgres::Transaction<'_>,
        push: Prepared,
        then: impl FnOnce(Result<Vec<Put>>) -> R + Send + 'a,
    ) -> Answer<'a, Async, R> {
        Box::pin(async move {
            if push.is_empty() {
                return then(Ok(Vec::new()));
            }
            let parameters = bound(&push.statement);
            let rows = transaction
                .query_typed(&push.statement.sql, &typed(&parameters))
                .await;
            then(self.finish_rows(&push, rows))
        })
    }
}

impl PostgresStore {
    fn finish_rows(
        &self,
        push: &Prepared,
        rows: std::result::Result<Vec<Row>, postgres::Error>,
    ) -> Result<Vec<Put>> {
        let rows = rows.map_err(|error| failure(&error))?;
        let read = |row: &Row| {
            Ok((
                row.try_get(0)?,
                row.try_get(1)?,
                row.try_get(2)?,
                row.try_get(3)?,
                row.try_get(4)?,
            ))
        };
        let rows = rows
            .iter()
            .map(read)
            .collect::<std::result::Result<Vec<PutRow>, _>>();
        self.finish(push, &rows.map_err(unreadable)?)
    }
}

fn bound(statement: &PushStatement) -> Vec<Bound<'_>> {
    statement.parameters.iter().map(Bound).collect()
}

/// One round trip, because typed parameters need no separate prepare.
fn typed<'a>(parameters: &'a [Bound<'a>]) -> Vec<(&'a (dyn ToSql + Sync), Type)> {
    let typed = |it: &'a Bound<'a>| (it as &(dyn ToSql + Sync), it.kind());
    parameters.iter().map(typed).collect()
}

/// Its `Debug`, which clients log, is the parameter's, without the value.
#[derive(Debug)]
struct Bound<'a>(&'a Parameter);

impl Bound<'_> {
    fn kind(&self) -> Type {
        match self.0 {
            Parameter::Text(_) => Type::TEXT,
            Parameter::Integer(_) => Type::INT8,
            Parameter::Bool(_) => Type::BOOL,
            Parameter::TextArray(_) => Type::TEXT_ARRAY,
            Parameter::BytesArray(_) => Type::BYTEA_ARRAY,
            Parameter::IntegerArray(_) => Type::INT8_ARRAY,
            Parameter::BoolArray(_) => Type::BOOL_ARRAY,
            _ => Type::BYTEA,
        }
    }
}

impl ToSql for Bound<'_> {
    fn to_sql(&self, kind: &Type, out: &mut BytesMut) -> std::result::Result<IsNull, Failure> {
        match self.0 {
            Parameter::Text(value) => value.to_sql(kind, out),
            Parameter::Bytes(value) => value.to_sql(kind, out),
            Parameter::Integer(value) => value.to_sql(kind, out),
            Parameter::Bool(value) => value.to_sql(kind, out),
            Parameter::TextArray(value) => value.to_sql(kind, out),
            Parameter::BytesArray(value) => value.to_sql(kind, out),
            Parameter::IntegerArray(value) => value.to_sql(kind, out),
            Parameter::BoolArray(value) => value.to_sql(kind, out),
            _ => Ok(IsNull::Yes),
        }
    }

    fn accepts(_: &Type) -> bool {
        true // The statement has the types of `kind`.
    }

    to_sql_checked!();
}
