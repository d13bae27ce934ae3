//! Pushes in the caller's own transaction: the statement, and its implementation for `rusqlite`.

use durable_queue::store::Result;
use durable_queue::{
    Blocking, ErrorKind, Merge, NewJob, Parameter, PushIn, PushStatement, Put, SqlStore,
    StoreError, StoreTime,
};
use rusqlite::types::{ToSqlOutput, Value, ValueRef};
use rusqlite::{Connection, Row, ToSql, Transaction, params_from_iter};

use super::statements::{all, execute, failure, id_of};
use super::{SqliteStore, sql};

/// Parameters of a push, to be run by a client of the application.
#[derive(Debug)]
#[must_use = "a push does nothing until it is run"]
pub struct Prepared(pub(super) Vec<Job>);

#[derive(Debug)]
pub(super) struct Job {
    /// Of [`sql::PUSH`].
    pub(super) parameters: Vec<Parameter>,
    /// Whether [`sql::PUSH_PLAIN`] pushes it, if the queue exists.
    is_plain: bool,
}

impl Job {
    /// Parameters of [`sql::PUSH_PLAIN`], if it can be used.
    pub(super) fn plain(&self) -> Option<&[Parameter]> {
        self.is_plain.then(|| &self.parameters[..PLAIN_PARAMETERS])
    }
}

/// Number of parameters of [`sql::PUSH_PLAIN`]: the first ones of [`sql::PUSH`].
const PLAIN_PARAMETERS: usize = 7;

impl SqlStore for SqliteStore {
    type Prepared = Prepared;

    fn prepare(&self, queue: &str, jobs: &[NewJob<'_>]) -> Result<Prepared> {
        self.0.link.get()?; // Fails in a forked child.
        let now = self.0.clock.now();
        let prepared = |job: &NewJob<'_>| {
            let most = job.merge.most(now);
            let merge = match job.merge {
                Merge::Keep => 0,
                Merge::KeepUntilDone => -1,
                Merge::KeepDone => -2,
                Merge::Earliest => 1,
                Merge::Latest => 2,
                Merge::Debounce | Merge::DebounceUntil(_) => 3,
            };
            let parameters = vec![
                Parameter::Text(Some(queue.to_owned())),
                Parameter::Bytes(Some(job.payload.to_owned())),
                Parameter::Integer(Some(job.when.resolve(now).as_micros())),
                Parameter::Bool(job.urgent),
                Parameter::Text(job.kind.map(str::to_owned)),
                Parameter::Text(job.options.map(str::to_owned)),
                Parameter::Text(job.group.map(str::to_owned)),
                Parameter::Bytes(job.key.map(<[u8]>::to_owned)),
                Parameter::Integer(Some(merge)),
                Parameter::Integer(Some(most.as_micros())),
                Parameter::Integer(Some(now.as_micros())),
            ];
            let is_plain = job.key.is_none() && most == StoreTime::NEVER;
            Job {
                parameters,
                is_plain,
            }
        };
        Ok(Prepared(jobs.iter().map(prepared).collect()))
    }

    fn push_statement(&self, queue: &str, job: &NewJob<'_>) -> Result<PushStatement> {
        let parameters = self.prepare(queue, &[*job])?.0.remove(0).parameters;
        Ok(PushStatement::new(sql::PUSH, parameters))
    }
}

/// The outcome, as returned by [`sql::PUSH`].
pub(super) fn put(id: i64, put: i64) -> Put {
    let id = id_of(id);
    match put {
        0 => Put::New(id),
        1 => Put::Merged(id),
        _ => Put::Kept(id),
    }
}

/// Begin the transaction as IMMEDIATE: a deferred one that reads first may fail at its first write.
impl PushIn<Transaction<'_>> for SqliteStore {
    type Mode = Blocking;

    fn run<'a, R: Send + 'a>(
        &'a self,
        transaction: &'a mut Transaction<'_>,
        push: Prepared,
        then: impl FnOnce(Result<Vec<Put>>) -> R + Send + 'a,
    ) -> R {
        then(run_all(transaction, &push))
    }
}

fn run_all(transaction: &mut Transaction<'_>, Prepared(jobs): &Prepared) -> Result<Vec<Put>> {
    if let [job] = &jobs[..] {
        return Ok(vec![run(transaction, job)?]);
    }
    // All jobs or none, even if the caller continues after an error.
    let savepoint = transaction.savepoint().map_err(failure)?;
    let puts = jobs.iter().map(|job| run(&savepoint, job));
    let puts = puts.collect::<Result<_>>()?;
    savepoint.commit().map_err(failure)?;
    Ok(puts)
}

fn run(connection: &Connection, job: &Job) -> Result<Put> {
    if let Some(plain) = job.plain()
        && execute(connection, sql::PUSH_PLAIN, bound(plain))? == 1
    {
        return Ok(put(connection.last_insert_rowid(), 0));
    }
    let read = |row: &Row<'_>| Ok(put(row.get(0)?, row.get(1)?));
    // To the end, because the changes belong to the first step.
    let found = all(connection, sql::PUSH, bound(&job.parameters), read)?;
    let put = found.last().copied();
    put.ok_or_else(|| StoreError::new(ErrorKind::Corrupt))
}

fn bound(parameters: &[Parameter]) -> impl rusqlite::Params {
    params_from_iter(parameters.iter().map(Bound))
}

struct Bound<'a>(&'a Parameter);

impl ToSql for Bound<'_> {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        Ok(match self.0 {
            Parameter::Text(Some(text)) => ToSqlOutput::Borrowed(ValueRef::Text(text.as_bytes())),
            Parameter::Bytes(Some(bytes)) => ToSqlOutput::Borrowed(ValueRef::Blob(bytes)),
            Parameter::Integer(Some(number)) => ToSqlOutput::Owned(Value::Integer(*number)),
            Parameter::Bool(value) => ToSqlOutput::Owned(Value::Integer(i64::from(*value))),
            _ => ToSqlOutput::Owned(Value::Null), // There are no arrays here.
        })
    }
}
