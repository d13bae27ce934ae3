//! Statements and transactions, and the errors of both.

use durable_queue::store::Result;
use durable_queue::{ErrorKind, JobId, StoreError};
use rusqlite::{CachedStatement, Connection, ErrorCode, OptionalExtension, Row, ToSql};

use super::sql;

/// Rolls back unless it is committed. The client crate's own would parse its statements each time.
pub(super) struct Transaction<'c>(pub(super) &'c Connection);

impl<'c> Transaction<'c> {
    pub(super) fn begin(connection: &'c Connection, text: &str) -> Result<Self> {
        execute(connection, text, [])?;
        Ok(Self(connection))
    }

    pub(super) fn commit(self) -> Result<()> {
        let mut commit = statement(self.0, sql::COMMIT)?;
        commit.execute([]).map(drop).map_err(lost_commit)
    }
}

impl Drop for Transaction<'_> {
    fn drop(&mut self) {
        if !self.0.is_autocommit() {
            // `SQLite` has rolled back if this fails.
            self.0.execute_batch("ROLLBACK").ok();
        }
    }
}

/// Converts an error of `SQLite`.
pub(super) fn failure(error: rusqlite::Error) -> StoreError {
    let kind = match error.sqlite_error_code() {
        Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => ErrorKind::Busy,
        Some(ErrorCode::DiskFull) => ErrorKind::Full,
        Some(ErrorCode::ReadOnly) => ErrorKind::ReadOnly,
        Some(ErrorCode::TooBig) => ErrorKind::TooLarge,
        Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase) => ErrorKind::Corrupt,
        Some(ErrorCode::SystemIoFailure) => ErrorKind::Unavailable,
        _ if is_missing_table(&error.to_string()) => ErrorKind::NotInstalled,
        _ => ErrorKind::Other,
    };
    StoreError::new(kind).with_source(error)
}

/// Returns whether `SQLite`'s message says that the tables do not exist. It has no code for that.
pub(super) fn is_missing_table(message: &str) -> bool {
    message.contains("no such table: ") && message.contains("durable_")
}

/// A commit that failed for lack of a lock or of space was rolled back. A commit that failed to sync may have
/// reached the file.
pub(super) fn lost_commit(error: rusqlite::Error) -> StoreError {
    let error = failure(error);
    match error.kind() {
        ErrorKind::Busy | ErrorKind::Full | ErrorKind::ReadOnly => error,
        kind => StoreError::lost_answer(kind).with_source(error),
    }
}

pub(super) fn statement<'c>(connection: &'c Connection, text: &str) -> Result<CachedStatement<'c>> {
    connection.prepare_cached(text).map_err(failure)
}

pub(super) fn execute(
    connection: &Connection,
    text: &str,
    values: impl rusqlite::Params,
) -> Result<usize> {
    statement(connection, text)?
        .execute(values)
        .map_err(failure)
}

/// A statement for many jobs, which is looked up once.
pub(super) struct Repeated<'c> {
    connection: &'c Connection,
    text: &'static str,
    statement: Option<CachedStatement<'c>>,
}

impl<'c> Repeated<'c> {
    pub(super) fn new(connection: &'c Connection, text: &'static str) -> Self {
        Self {
            connection,
            text,
            statement: None,
        }
    }

    pub(super) fn statement(&mut self) -> Result<&mut CachedStatement<'c>> {
        match &mut self.statement {
            Some(statement) => Ok(statement),
            none => Ok(none.insert(statement(self.connection, self.text)?)),
        }
    }

    pub(super) fn execute(&mut self, values: &[&dyn ToSql]) -> Result<usize> {
        self.statement()?.execute(values).map_err(failure)
    }

    /// `rest`: the values of the parameters after the id. They are those of the first call, and remain bound.
    pub(super) fn execute_for(&mut self, id: JobId, rest: &[&dyn ToSql]) -> Result<usize> {
        let is_first = self.statement.is_none();
        let statement = self.statement()?;
        for (index, value) in (2..).zip(rest.iter().filter(|_| is_first)) {
            statement
                .raw_bind_parameter(index, value)
                .map_err(failure)?;
        }
        statement
            .raw_bind_parameter(1, number(id))
            .map_err(failure)?;
        statement.raw_execute().map_err(failure)
    }
}

pub(super) fn find<R>(
    connection: &Connection,
    text: &str,
    values: impl rusqlite::Params,
    read: impl FnOnce(&Row<'_>) -> rusqlite::Result<R>,
) -> Result<Option<R>> {
    let mut statement = statement(connection, text)?;
    statement
        .query_row(values, read)
        .optional()
        .map_err(failure)
}

pub(super) fn all<R>(
    connection: &Connection,
    text: &str,
    values: impl rusqlite::Params,
    read: impl FnMut(&Row<'_>) -> rusqlite::Result<R>,
) -> Result<Vec<R>> {
    let mut all = Vec::new();
    append(connection, text, values, read, &mut all)?;
    Ok(all)
}

pub(super) fn append<R>(
    connection: &Connection,
    text: &str,
    values: impl rusqlite::Params,
    read: impl FnMut(&Row<'_>) -> rusqlite::Result<R>,
    into: &mut Vec<R>,
) -> Result<()> {
    let mut statement = statement(connection, text)?;
    for row in statement.query_map(values, read).map_err(failure)? {
        into.push(row.map_err(failure)?);
    }
    Ok(())
}

pub(super) fn id_of(id: i64) -> JobId {
    JobId::from_u64(id.cast_unsigned())
}

pub(super) fn number(id: JobId) -> i64 {
    id.as_u64().cast_signed()
}
