//! Conversion of errors of the server and the client.
//!
//! # Invariants
//! 1. A call whose response may have been lost is never reported as not carried out.
//! 2. No error text contains a user, a database, an address, a payload or a key. Of the server's error only
//!    the code is shown, and the message if it cannot contain any of these.

use std::{error, fmt};

use durable_queue::internals::NO_TLS;
use durable_queue::{ErrorKind, StoreError};
use postgres::error::{DbError, Severity, SqlState};

/// Source of an error: the server's or the connection's failure.
struct Said {
    code: Option<String>,
    message: Option<String>,
}

impl Said {
    /// Classes of error codes whose messages contain names of tables and settings, but no values or roles:
    /// transactions, names, limits, locks, operator intervention.
    const HARMLESS: [&'static str; 6] = ["25", "40", "42", "54", "55", "57"];

    fn by_server(code: &str, message: &str) -> Self {
        let is_harmless = Self::HARMLESS.iter().any(|class| code.starts_with(class));
        Self {
            // Messages of these codes may name a database or a file.
            message: match code {
                "42501" => Some("the role lacks a privilege".to_owned()),
                "53100" => Some("the server's disk is full".to_owned()),
                "53200" => Some("the server has no memory left".to_owned()),
                _ => is_harmless.then(|| message.to_owned()),
            },
            code: Some(code.to_owned()),
        }
    }
}

impl fmt::Display for Said {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (&self.code, &self.message) {
            (Some(code), Some(message)) => write!(f, "SQLSTATE {code}: {message}"),
            (Some(code), None) => write!(f, "SQLSTATE {code}"),
            (None, Some(message)) => f.write_str(message),
            (None, None) => f.write_str("the connection failed"),
        }
    }
}

impl fmt::Debug for Said {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl error::Error for Said {}

/// Converts an error of a call that was sent.
pub(super) fn failure(error: &postgres::Error) -> StoreError {
    let Some(db) = error.as_db_error() else {
        return not_by_server(error, StoreError::lost_answer);
    };
    let is_fatal = matches!(
        db.parsed_severity(),
        Some(Severity::Fatal | Severity::Panic)
    );
    by_server(db.code().code(), db.message(), is_fatal)
}

/// Converts an error of the server, for any client.
pub(super) fn by_server(code: &str, message: &str, is_fatal: bool) -> StoreError {
    let kind = kind(code);
    let is_unclear = code == SqlState::T_R_STATEMENT_COMPLETION_UNKNOWN.code();
    // After a fatal error, the server closes the session, without saying whether before or after a commit.
    let error = if is_fatal || is_unclear {
        StoreError::lost_answer(kind)
    } else {
        StoreError::new(kind)
    };
    error.with_source(Said::by_server(code, message))
}

/// Converts an error of another client's connection, without its text.
#[cfg(feature = "sqlx")]
pub(super) fn by_connection(kind: ErrorKind) -> StoreError {
    StoreError::lost_answer(kind).with_source(Said {
        code: None,
        message: None,
    })
}

/// Converts an error of a call that commits before it ends: a cancellation may have come after the commit.
pub(super) fn failure_of_commit(error: &postgres::Error) -> StoreError {
    let is_cancelled = |db: &&DbError| *db.code() == SqlState::QUERY_CANCELED;
    match error.as_db_error().filter(is_cancelled) {
        Some(db) => StoreError::lost_answer(kind(db.code().code())).with_source(said(db)),
        None => failure(error),
    }
}

/// Converts an error of connecting: nothing was requested yet.
pub(super) fn no_session(error: &postgres::Error) -> StoreError {
    match error.as_db_error() {
        Some(db) => StoreError::new(kind(db.code().code())).with_source(said(db)),
        None => not_by_server(error, StoreError::new),
    }
}

fn not_by_server(
    error: &postgres::Error,
    make: impl FnOnce(ErrorKind) -> StoreError,
) -> StoreError {
    let source = error::Error::source(error);
    let io = source.and_then(|source| source.downcast_ref::<std::io::Error>());
    // A connector's message about a certificate may name a host.
    let has_no_tls = io.is_some_and(|io| io.kind() == std::io::ErrorKind::InvalidData);
    let kind = if !has_no_tls && (io.is_some() || error.is_closed() || source.is_none()) {
        ErrorKind::Unavailable
    } else {
        ErrorKind::Other // TLS, or a value that the client cannot encode.
    };
    let message = match io {
        _ if has_no_tls => Some(NO_TLS.to_owned()),
        Some(io) => Some(io.kind().to_string()),
        None if error.is_closed() => Some("the connection is closed".to_owned()),
        None => Some(error.to_string()),
    };
    make(kind).with_source(Said {
        code: None,
        message,
    })
}

/// Error of a connection string, without its contents.
pub(super) fn unreadable_address() -> StoreError {
    StoreError::new(ErrorKind::Other).with_source(Said {
        code: None,
        message: Some("the connection string is invalid".to_owned()),
    })
}

/// Error of a pooler in transaction mode.
pub(super) fn pooled() -> StoreError {
    StoreError::new(ErrorKind::Pooled).with_source(Said {
        code: None,
        message: Some(
            "the pooler is in transaction mode: set the option `pooler`, connect to the server directly, or \
            use session mode"
                .to_owned(),
        ),
    })
}

/// Error of a server that starts transactions with another isolation, through a pooler.
pub(super) fn bad_isolation() -> StoreError {
    StoreError::new(ErrorKind::Other).with_source(Said {
        code: None,
        message: Some(
            "through a pooler, default_transaction_isolation must be 'read committed' for the role"
                .to_owned(),
        ),
    })
}

/// Error of a schema's name.
pub(super) fn bad_name() -> StoreError {
    StoreError::new(ErrorKind::Other).with_source(Said {
        code: None,
        message: Some(
            "a schema's name must consist of up to 40 of a-z, 0-9 and _, and must not begin with a digit".to_owned(),
        ),
    })
}

/// Error of a thread that could not be started.
pub(super) fn no_thread(error: &std::io::Error) -> StoreError {
    StoreError::new(ErrorKind::Other).with_source(Said {
        code: None,
        message: Some(format!("no thread could be started: {error}")),
    })
}

fn said(error: &DbError) -> Said {
    Said::by_server(error.code().code(), error.message())
}

fn kind(code: &str) -> ErrorKind {
    match code {
        // A lock or conflict with another transaction, or the server's statement timeout.
        "55P03" | "57014" | "40001" | "40P01" | "23505" => ErrorKind::Busy,
        // Out of disk space or memory.
        "53100" | "53200" => ErrorKind::Full,
        "25006" => ErrorKind::ReadOnly,
        // No such schema, table or function.
        "3F000" | "42P01" | "42883" => ErrorKind::NotInstalled,
        "XX001" | "XX002" => ErrorKind::Corrupt,
        // The prepared statement is not there, or another client's is.
        "26000" | "42P05" => ErrorKind::Pooled,
        code if code.starts_with("54") => ErrorKind::TooLarge,
        // Connections, resources, and a server that shuts down or starts.
        code if ["08", "53", "57"]
            .iter()
            .any(|class| code.starts_with(class)) =>
        {
            ErrorKind::Unavailable
        }
        _ => ErrorKind::Other,
    }
}

/// Returns whether the call was undone because of a concurrent one, so that it can be repeated: a deadlock,
/// or a key inserted in the meantime.
pub(super) fn is_conflict(error: &postgres::Error) -> bool {
    let conflicts = [
        SqlState::T_R_DEADLOCK_DETECTED,
        SqlState::T_R_SERIALIZATION_FAILURE,
        SqlState::UNIQUE_VIOLATION,
    ];
    error.code().is_some_and(|code| conflicts.contains(code))
}

/// Returns whether the session is unusable: it is closed, or its prepared statements are outdated.
pub(super) fn is_over(error: &postgres::Error) -> bool {
    let Some(db) = error.as_db_error() else {
        return true;
    };
    let is_fatal = matches!(
        db.parsed_severity(),
        Some(Severity::Fatal | Severity::Panic)
    );
    let class = &db.code().code()[..2];
    is_fatal || is_read_only(error) || matches!(class, "08" | "0A" | "26" | "42" | "XX")
}

/// Returns whether the database is read-only, temporarily or because this server is no longer the primary.
pub(super) fn is_read_only(error: &postgres::Error) -> bool {
    error.code() == Some(&SqlState::READ_ONLY_SQL_TRANSACTION)
}
