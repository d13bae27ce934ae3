//! Pushes jobs in transactions of diesel: a client for which the stores have no implementation of
//! [`PushIn`](durable_queue::PushIn).
//!
//! [`push_in`] is all that is needed: it binds the parameters of the statement that the queue returns. Programs
//! can copy it.

use std::{error, fmt};

use diesel::RunQueryDsl as _;
use diesel::query_builder::BoxedSqlQuery;
use diesel::sql_query;
use diesel::sql_types::{BigInt, Binary, Bool, Nullable, Text};
use diesel::sqlite::{Sqlite, SqliteConnection};
use durable_queue::{DurableQueue, Parameter, Payload, Push, SqlStore, StoreError};

/// Error of a push, or of the application's own statements.
#[derive(Debug)]
pub enum Failure {
    /// The job could not be encoded, for example. The database was not called.
    Push(StoreError),
    /// The database failed.
    Database(diesel::result::Error),
}

impl From<diesel::result::Error> for Failure {
    fn from(error: diesel::result::Error) -> Self {
        Self::Database(error)
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Push(error) => error.fmt(f),
            Self::Database(error) => error.fmt(f),
        }
    }
}

impl error::Error for Failure {}

/// Pushes a job on the connection: in its transaction, if there is one.
///
/// # Errors
/// Those of the push and of the database.
pub fn push_in<T: Payload, S: SqlStore>(
    connection: &mut SqliteConnection,
    queue: &DurableQueue<T, S>,
    job: &Push<T>,
) -> Result<(), Failure> {
    let push = queue.push_statement(job).map_err(Failure::Push)?;
    let query = push.parameters.into_iter().fold(
        sql_query(push.sql).into_boxed::<Sqlite>(),
        |query: BoxedSqlQuery<'_, _, _>, parameter| match parameter {
            Parameter::Text(value) => query.bind::<Nullable<Text>, _>(value),
            Parameter::Integer(value) => query.bind::<Nullable<BigInt>, _>(value),
            Parameter::Bytes(value) => query.bind::<Nullable<Binary>, _>(value),
            Parameter::Bool(value) => query.bind::<Bool, _>(value),
            _ => query.bind::<Nullable<Binary>, _>(None::<Vec<u8>>), // Arrays, on PostgreSQL.
        },
    );
    query.execute(connection)?;
    Ok(())
}
