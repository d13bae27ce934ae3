//! Conversion of errors of the server and the client.
//!
//! # Invariants
//! 1. A call whose response may have been lost is never reported as not carried out, nor is a script that
//!    failed after its start.
//! 2. No error text contains a user, a password, an address, a payload or a key. Of the server's error only
//!    the code is shown.

use std::sync::Arc;
use std::{error, fmt};

use durable_queue::internals::NO_TLS;
use durable_queue::{ErrorKind, StoreError};
use redis::RedisError;

/// Source of an error: the server's or the connection's failure.
struct Said(String);

impl fmt::Display for Said {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl fmt::Debug for Said {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl error::Error for Said {}

/// Converts an error of a call that was sent.
pub(crate) fn failure(error: &RedisError) -> StoreError {
    match error.code() {
        Some(code) => by_server(code, error.detail().unwrap_or_default()),
        None => by_client(error, StoreError::lost_answer),
    }
}

/// Converts an error of connecting: nothing was requested yet.
pub(crate) fn no_session(error: &RedisError) -> StoreError {
    match error.code() {
        Some(code) => by_server(code, error.detail().unwrap_or_default()),
        None => by_client(error, StoreError::new),
    }
}

fn by_server(code: &str, detail: &str) -> StoreError {
    // An error of a running script contains its position. The script may have written before.
    let within = detail.contains("user_script");
    let lacks_rights = ["The user executing the script", "ACL failure in script"];
    let code = if lacks_rights.iter().any(|text| detail.starts_with(text)) {
        "NOPERM" // The code outside of scripts.
    } else {
        code
    };
    let (kind, meaning) = match code {
        "OOM" => (ErrorKind::Full, "maxmemory is reached"),
        "MISCONF" if detail.contains("No space left") => (ErrorKind::Full, "its disk is full"),
        "MISCONF" => (ErrorKind::Unavailable, "it cannot write to its disk"),
        "READONLY" => (ErrorKind::ReadOnly, "it is a replica"),
        "LOADING" => (ErrorKind::Unavailable, "it is loading its data"),
        "MASTERDOWN" | "CLUSTERDOWN" | "TRYAGAIN" => {
            (ErrorKind::Unavailable, "part of the cluster is down")
        }
        "NOREPLICAS" => (
            ErrorKind::Unavailable,
            "it has fewer replicas than it requires",
        ),
        "BUSY" => (ErrorKind::Busy, "it is running another script"),
        "NOAUTH" => (ErrorKind::Other, "it requires a password"),
        "WRONGPASS" => (ErrorKind::Other, "wrong user or password"),
        "NOPERM" => (ErrorKind::Other, "the user lacks a permission"),
        "MOVED" | "ASK" | "CROSSSLOT" => (
            ErrorKind::Other,
            "the queue is on another node of its cluster: use `open_cluster`",
        ),
        "ERR" if detail.contains("max number of clients") => {
            (ErrorKind::Unavailable, "it has too many connections")
        }
        "WRONGTYPE" => (ErrorKind::Corrupt, "the keys contain other data"),
        "ERR" if within => (ErrorKind::Corrupt, "the data of the keys cannot be parsed"),
        _ => (ErrorKind::Other, "the call was rejected"),
    };
    let error = if within {
        StoreError::lost_answer(kind)
    } else {
        StoreError::new(kind)
    };
    error.with_source(Said(format!("the server says {code}: {meaning}")))
}

fn by_client(error: &RedisError, make: impl FnOnce(ErrorKind) -> StoreError) -> StoreError {
    // The client wraps the cause in a pointer.
    let source = error::Error::source(error)
        .and_then(|source| source.downcast_ref::<Arc<dyn error::Error + Send + Sync>>());
    let io = source.and_then(|source| source.downcast_ref::<std::io::Error>());
    let (kind, text) = match error.kind() {
        _ if error.is_timeout() => (ErrorKind::Unavailable, "no response in time".to_owned()),
        // A TLS error of the client: its text about a certificate may name a host.
        redis::ErrorKind::Io
            if io.is_some_and(|io| io.kind() == std::io::ErrorKind::InvalidData) =>
        {
            (ErrorKind::Other, NO_TLS.to_owned())
        }
        redis::ErrorKind::Io => (
            ErrorKind::Unavailable,
            io.map_or("the connection failed".to_owned(), |io| {
                io.kind().to_string()
            }),
        ),
        redis::ErrorKind::AuthenticationFailed => {
            (ErrorKind::Other, "wrong user or password".to_owned())
        }
        // For example TLS errors, whose texts may name a host.
        _ => (ErrorKind::Other, format!("client: {}", error.category())),
    };
    make(kind).with_source(Said(text))
}

/// Returns whether the session is unusable: a response to an earlier call may still arrive, or the server no
/// longer accepts writes.
pub(crate) fn is_over(error: &RedisError) -> bool {
    match error.code() {
        None => true,
        Some(code) => matches!(code, "READONLY" | "MASTERDOWN" | "NOAUTH"),
    }
}

/// Returns whether the server has lost its scripts. No script was started.
pub(crate) fn is_unknown_script(error: &RedisError) -> bool {
    error.code() == Some("NOSCRIPT")
}

fn other(text: impl Into<String>) -> StoreError {
    StoreError::new(ErrorKind::Other).with_source(Said(text.into()))
}

/// Error of an address, without its contents.
pub(crate) fn unreadable_address() -> StoreError {
    other("the address is invalid, or requires TLS, which the client was built without")
}

/// Error of a prefix.
pub(crate) fn bad_prefix() -> StoreError {
    other("a prefix must consist of 1 to 40 of a-z, A-Z, 0-9, `_`, `-`, `.` and `:`")
}

/// Error of a server that does not support this crate's scripts.
pub(crate) fn too_old(version: &str) -> StoreError {
    // The server's text is shown only if it is a version.
    let is_version = |byte: u8| byte.is_ascii_digit() || byte == b'.';
    let shown = version.bytes().all(is_version).then_some(version);
    other(format!(
        "the server has version {}, but at least 7 is required",
        shown.unwrap_or("?")
    ))
}

/// Error of a call whose session took too long to start.
pub(crate) fn no_time() -> StoreError {
    let text = "no session could be started in time";
    StoreError::new(ErrorKind::Unavailable).with_source(Said(text.to_owned()))
}

fn unavailable(text: &'static str) -> StoreError {
    StoreError::new(ErrorKind::Unavailable).with_source(Said(text.to_owned()))
}

/// Error of a call that was redirected for too long.
pub(crate) fn moving() -> StoreError {
    unavailable("the queue is moving to another node of its cluster")
}

/// Error of a call if no node is known to have the queue, or if no node sees the others.
pub(crate) fn no_owner() -> StoreError {
    unavailable("part of the cluster is down")
}

/// Error of a call that was carried out, but that too few replicas have confirmed.
pub(crate) fn unconfirmed() -> StoreError {
    let text = "too few replicas have confirmed the call in time";
    StoreError::lost_answer(ErrorKind::Unavailable).with_source(Said(text.to_owned()))
}

/// Error of a sentinel that does not monitor the master.
pub(crate) fn unknown_master() -> StoreError {
    other("the sentinels monitor no master of this name")
}

/// Error of a server that a sentinel takes for the master.
pub(crate) fn not_a_master() -> StoreError {
    unavailable("the server is not the master yet, or no longer")
}

/// Error of a server that was started without cluster support.
pub(crate) fn no_cluster() -> StoreError {
    other("the server is not a node of a cluster: use `open`")
}

/// Error of missing addresses.
pub(crate) fn no_address() -> StoreError {
    other("at least one address is required")
}

/// Error of a master's address without its name.
pub(crate) fn no_name() -> StoreError {
    other("the host of the address must be the name of the master")
}

/// Error of a cluster's address with a database.
pub(crate) fn has_database() -> StoreError {
    other("a cluster has only the database 0")
}

/// Error of a server that would delete jobs to free memory.
pub(crate) fn evicts() -> StoreError {
    let text = "its maxmemory-policy deletes keys: set noeviction";
    StoreError::new(ErrorKind::Evicting).with_source(Said(text.to_owned()))
}

/// Error of a thread that could not be started.
pub(crate) fn no_thread(error: &std::io::Error) -> StoreError {
    other(format!("no thread could be started: {error}"))
}

#[cfg(all(test, not(anthill_loom)))]
mod tests {
    use std::error::Error as _;

    use super::*;
    use durable_queue::CarriedOut;

    /// Parses an error as sent by the server.
    fn of_answer(answer: &str) -> StoreError {
        let answer = redis::parse_redis_value(format!("-{answer}\r\n").as_bytes());
        let answer = answer.and_then(redis::Value::extract_error);
        failure(&answer.expect_err("it is an error"))
    }

    #[test]
    fn a_server_without_space_on_its_disk_is_full_and_one_that_cannot_write_for_another_reason_is_not()
     {
        let aof = "MISCONF Errors writing to the AOF file:";
        for (answer, kind, meaning) in [
            (format!("{aof} No space left on device"), ErrorKind::Full, "its disk is full"),
            (
                format!("{aof} Input/output error"),
                ErrorKind::Unavailable,
                "it cannot write to its disk",
            ),
            (
                "MISCONF Redis is configured to save RDB snapshots, but it's currently unable to persist \
                to disk."
                    .to_owned(),
                ErrorKind::Unavailable,
                "it cannot write to its disk",
            ),
        ] {
            let error = of_answer(&answer);
            assert_eq!((error.kind(), error.carried_out()), (kind, CarriedOut::No), "{answer}");
            assert!(error.is_transient());
            let source = error.source().map(ToString::to_string).unwrap_or_default();
            assert!(source.contains(meaning), "{source}");
        }
    }

    /// Scripts are not rolled back, so it may have written before.
    #[test]
    fn a_script_that_fails_in_its_midst_for_lack_of_space_may_have_been_carried_out() {
        let error = of_answer(
            "MISCONF Errors writing to the AOF file: No space left on device script: 0, on \
            @user_script:7.",
        );
        assert_eq!(
            (error.kind(), error.carried_out()),
            (ErrorKind::Full, CarriedOut::Perhaps)
        );
    }
}
