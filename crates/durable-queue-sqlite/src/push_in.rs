//! Pushes in the caller's own transaction: the statement, and its implementation for `rusqlite`.

use durable_queue::store::Result;
use durable_queue::{
    Blocking, ErrorKind, Merge, NewJob, Parameter, PushIn, PushStatement, Put, SqlStore, StoreError,
};
use rusqlite::types::{ToSqlOutput, Value, ValueRef};
use rusqlite::{CachedStatement, ToSql, Transaction, params_from_iter};

use super::{SqliteStore, failure, id_of, sql, statement};

/// Parameters of a push, to be run by a client of the application.
#[derive(Debug)]
#[must_use = "a push does nothing until it is run"]
pub struct Prepared(pub(super) Vec<Vec<Parameter>>);

impl SqlStore for SqliteStore {
    type Prepared = Prepared;

    fn prepare(&self, queue: &str, jobs: &[NewJob<'_>]) -> Result<Prepared> {
        self.0.link.get()?; // Fails in a forked child.
        let now = self.0.clock.now();
        let parameters = |job: &NewJob<'_>| {
            let merge = match job.merge {
                Merge::Keep => 0,
                Merge::Earliest => 1,
                Merge::Latest => 2,
                Merge::Debounce | Merge::DebounceUntil(_) => 3,
            };
            vec![
                Parameter::Text(Some(queue.to_owned())),
                Parameter::Bytes(Some(job.payload.to_owned())),
                Parameter::Integer(Some(job.when.resolve(now).as_micros())),
                Parameter::Bytes(job.key.map(<[u8]>::to_owned)),
                Parameter::Bool(job.urgent),
                Parameter::Integer(Some(merge)),
                Parameter::Integer(Some(job.merge.most(now).as_micros())),
                Parameter::Text(job.kind.map(str::to_owned)),
                Parameter::Text(job.options.map(str::to_owned)),
            ]
        };
        Ok(Prepared(jobs.iter().map(parameters).collect()))
    }

    fn push_statement(&self, queue: &str, job: &NewJob<'_>) -> Result<PushStatement> {
        let parameters = self.prepare(queue, &[*job])?.0.remove(0);
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
        return Ok(vec![run(&mut statement(transaction, sql::PUSH)?, job)?]);
    }
    // All jobs or none, even if the caller continues after an error.
    let savepoint = transaction.savepoint().map_err(failure)?;
    let puts = {
        let mut statement = statement(&savepoint, sql::PUSH)?;
        let puts = jobs.iter().map(|job| run(&mut statement, job));
        puts.collect::<Result<_>>()?
    };
    savepoint.commit().map_err(failure)?;
    Ok(puts)
}

fn run(statement: &mut CachedStatement<'_>, job: &[Parameter]) -> Result<Put> {
    // To the end, because the changes belong to the first step.
    let mut rows = statement
        .query(params_from_iter(job.iter().map(Bound)))
        .map_err(failure)?;
    let mut found = Vec::new();
    while let Some(row) = rows.next().map_err(failure)? {
        found.push(put(
            row.get(0).map_err(failure)?,
            row.get(1).map_err(failure)?,
        ));
    }
    found
        .pop()
        .ok_or_else(|| StoreError::new(ErrorKind::Corrupt))
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
