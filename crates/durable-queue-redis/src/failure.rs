//! What the server and the client say, in our words.
//!
//! # What always holds
//! 1. A call whose answer may have been lost is never said to have failed; nor is a script that
//!    failed after it had begun.
//! 2. No text of ours shows a user, a password, an address, a payload or a key: of what the server
//!    says, only the code is shown.

use std::sync::Arc;
use std::{error, fmt};

use durable_queue::internals::NO_TLS;
use durable_queue::{ErrorKind, StoreError};
use redis::RedisError;

/// What a server or a connection came to.
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

/// Of a call that was sent.
pub(super) fn failure(error: &RedisError) -> StoreError {
    match error.code() {
        Some(code) => by_server(code, error.detail().unwrap_or_default()),
        None => by_client(error, StoreError::lost_answer),
    }
}

/// Of an attempt to connect: nothing was asked for yet.
pub(super) fn no_session(error: &RedisError) -> StoreError {
    match error.code() {
        Some(code) => by_server(code, error.detail().unwrap_or_default()),
        None => by_client(error, StoreError::new),
    }
}

fn by_server(code: &str, detail: &str) -> StoreError {
    // What a script fails with once it has begun says where. It may have written by then.
    let within = detail.contains("user_script");
    let lacks_rights = ["The user executing the script", "ACL failure in script"];
    let code = if lacks_rights.iter().any(|text| detail.starts_with(text)) {
        "NOPERM" // As it is called outside of scripts.
    } else {
        code
    };
    let (kind, meaning) = match code {
        "OOM" => (ErrorKind::Full, "maxmemory is reached"),
        "MISCONF" if detail.contains("No space left") => (ErrorKind::Full, "its disk is full"),
        "MISCONF" => (ErrorKind::Unavailable, "it cannot write to its disk"),
        "READONLY" => (ErrorKind::ReadOnly, "it is a replica"),
        "LOADING" => (ErrorKind::Unavailable, "it is loading what is stored"),
        "MASTERDOWN" | "CLUSTERDOWN" | "TRYAGAIN" => (ErrorKind::Unavailable, "a part is down"),
        "NOREPLICAS" => (
            ErrorKind::Unavailable,
            "it has fewer replicas than it demands",
        ),
        "BUSY" => (ErrorKind::Busy, "it is carrying out another script"),
        "NOAUTH" => (ErrorKind::Other, "it wants a password"),
        "WRONGPASS" => (ErrorKind::Other, "it knows no such user and password"),
        "NOPERM" => (ErrorKind::Other, "the user lacks a right"),
        "MOVED" | "ASK" | "CROSSSLOT" => (
            ErrorKind::Other,
            "it is one of a cluster, and another has the queue",
        ),
        "ERR" if detail.contains("max number of clients") => {
            (ErrorKind::Unavailable, "it takes no more connections")
        }
        "WRONGTYPE" => (ErrorKind::Corrupt, "the keys hold something else"),
        "ERR" if within => (ErrorKind::Corrupt, "what the keys hold cannot be read"),
        _ => (ErrorKind::Other, "it refuses"),
    };
    let error = if within {
        StoreError::lost_answer(kind)
    } else {
        StoreError::new(kind)
    };
    error.with_source(Said(format!("the server says {code}: {meaning}")))
}

fn by_client(error: &RedisError, make: impl FnOnce(ErrorKind) -> StoreError) -> StoreError {
    // The client shows the pointer that it holds its cause by.
    let source = error::Error::source(error)
        .and_then(|source| source.downcast_ref::<Arc<dyn error::Error + Send + Sync>>());
    let io = source.and_then(|source| source.downcast_ref::<std::io::Error>());
    let (kind, text) = match error.kind() {
        _ if error.is_timeout() => (
            ErrorKind::Unavailable,
            "there was no answer in time".to_owned(),
        ),
        // The client's TLS: what it says of a certificate may name a host.
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
        redis::ErrorKind::AuthenticationFailed => (
            ErrorKind::Other,
            "the server knows no such user and password".to_owned(),
        ),
        // Such as TLS: its texts may name a host.
        _ => (ErrorKind::Other, format!("client: {}", error.category())),
    };
    make(kind).with_source(Said(text))
}

/// Whether the session may be used no more: an answer to something else may still come, or the server
/// is not the one that takes writes any longer.
pub(super) fn is_over(error: &RedisError) -> bool {
    match error.code() {
        None => true,
        Some(code) => matches!(code, "READONLY" | "MASTERDOWN" | "NOAUTH"),
    }
}

/// Of the server: it has lost its scripts, and has not begun any.
pub(super) fn is_unknown_script(error: &RedisError) -> bool {
    error.code() == Some("NOSCRIPT")
}

fn other(text: impl Into<String>) -> StoreError {
    StoreError::new(ErrorKind::Other).with_source(Said(text.into()))
}

/// Of an address, which may be anything: nothing of it is shown.
pub(super) fn unreadable_address() -> StoreError {
    other("the address cannot be read, or the client was built without what it wants (TLS)")
}

/// Of the beginning of the keys.
pub(super) fn bad_prefix() -> StoreError {
    other("a prefix is 1 to 40 of a-z, A-Z, 0-9, `_`, `-`, `.` and `:`")
}

/// Of a server that this crate's scripts do not run on.
pub(super) fn too_old(version: &str) -> StoreError {
    // A version is shown only if it is one.
    let is_version = |byte: u8| byte.is_ascii_digit() || byte == b'.';
    let shown = version.bytes().all(is_version).then_some(version);
    other(format!(
        "the server has version {}, and 7 is the oldest that will do",
        shown.unwrap_or("?")
    ))
}

/// Of a call whose session took all of its time to begin.
pub(super) fn no_time() -> StoreError {
    let text = "there was no session in time";
    StoreError::new(ErrorKind::Unavailable).with_source(Said(text.to_owned()))
}

/// Of a server that would delete jobs to have memory.
pub(super) fn evicts() -> StoreError {
    let text = "its maxmemory-policy deletes keys: set noeviction";
    StoreError::new(ErrorKind::Evicting).with_source(Said(text.to_owned()))
}

/// Of a thread that could not be started.
pub(super) fn no_thread(error: &std::io::Error) -> StoreError {
    other(format!("no thread could be started: {error}"))
}

#[cfg(all(test, not(anthill_loom)))]
mod tests {
    use std::error::Error as _;

    use super::*;
    use durable_queue::CarriedOut;

    /// Of an answer, as it comes from the server.
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

    /// It may have written something before: a script is not undone.
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
