//! Names of the keys, and the version of their contents.
//!
//! All keys of a queue have the hash tag `{queue}`, so that a script finds them in one slot. `lua/common.lua`
//! describes their contents.
//!
//! # Invariants
//! 1. No two queues share a key, whatever their names: the text in braces is not empty and contains no brace.
//! 2. Of the caller's values, only the prefix is part of a script's text, and it was checked by
//!    [`Layout::new`].

use durable_queue::internals::Version;
use durable_queue::store::Result;
use durable_queue::{ErrorKind, StoreError};
use redis::{Cmd, Connection, RedisResult, ToRedisArgs};

use super::failure::{bad_prefix, no_session};

/// The version of keys and records that this crate writes.
///
/// Version 2 added urgent jobs, in their own sorted set; version 3 added postponed jobs; version 4 added kinds,
/// options, failures and marks. Records of older versions are valid without them. A process that is running while another one raises the version continues
/// until its next session.
pub(super) const VERSION: u32 = 4;

/// The record of this version. Processes of version 3 may use the keys: they leave the keys that version 4 has
/// added as they are, so jobs and dead letters keep their kinds, options and failures, even if a merge replaces the
/// payload. They hand out jobs of all kinds to their only handler, and record no failed attempts. Their cancels mark no job;
/// they do not learn of marks, and may return a marked job to its key. Such a job may run again, unless a
/// process of version 4 claims it.
const RECORD: &str = "4:3";

/// The keys of a queue, in the order of `lua/common.lua`.
pub(super) const KEYS: [&str; 12] = [
    "due", "lease", "urgent", "job", "payload", "pending", "running", "dead", "letter", "state",
    "extra", "marked",
];

/// Only if unchanged: another process may have written a newer version in the meantime.
const RAISE: &str = "if redis.call('GET', KEYS[1]) == ARGV[1] then
  redis.call('SET', KEYS[1], ARGV[2])
end
return redis.call('GET', KEYS[1])";

/// The prefix of all keys.
#[derive(Clone, Debug)]
pub(super) struct Layout(String);

impl Layout {
    pub(super) fn new(prefix: &str) -> Result<Self> {
        const LONGEST: usize = 40;
        let is_plain =
            |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'.' | b':');
        let is_good = (1..=LONGEST).contains(&prefix.len()) && prefix.bytes().all(is_plain);
        is_good
            .then(|| Self(prefix.to_owned()))
            .ok_or_else(bad_prefix)
    }

    /// Adds the keys of a queue as arguments of a call.
    pub(super) fn add_keys(&self, queue: &str, call: &mut Cmd) {
        let mut key = format!("{}:{{{}}}:", self.0, Tag(queue));
        let common = key.len();
        for name in KEYS {
            key.truncate(common);
            key.push_str(name);
            call.arg(&key);
        }
    }

    /// Returns the key of the queue's state.
    pub(super) fn state(&self, queue: &str) -> String {
        format!("{}:{{{}}}:state", self.0, Tag(queue))
    }

    /// Returns the channel of announcements about all queues.
    pub(super) fn channel(&self) -> String {
        format!("{}:earlier", self.0)
    }

    /// Returns the key of a test's clock.
    #[cfg(feature = "testing")]
    pub(super) fn clock(&self) -> String {
        format!("{}:clock", self.0)
    }

    /// Writes the version, raises an older one, or checks it.
    pub(super) fn check(&self, connection: &mut Connection) -> Result<()> {
        let key = format!("{}:version", self.0);
        let mut get = || {
            let found = call(connection, "GET", &key);
            found.map_err(|error| no_session(&error))
        };
        let found: Option<String> = match get()? {
            None => {
                let mut set = redis::cmd("SET");
                set.arg(&key).arg(RECORD).arg("NX");
                set.exec(connection).map_err(|error| no_session(&error))?;
                let found = call(connection, "GET", &key);
                found.map_err(|error| no_session(&error))?
            }
            found => found,
        };
        let mut found = found.as_deref().and_then(version);
        if let Some(Version {
            number: older @ 1..VERSION,
            ..
        }) = found
        {
            let mut raise = redis::cmd("EVAL");
            raise.arg(RAISE).arg(1).arg(&key).arg(older).arg(RECORD);
            let raised: RedisResult<Option<String>> = raise.query(connection);
            let raised = raised.map_err(|error| no_session(&error))?;
            found = raised.as_deref().and_then(version);
        }
        let is_usable = found.map(|found| found.is_usable(VERSION)).transpose()?;
        is_usable
            .filter(|it| *it)
            .map(drop)
            .ok_or_else(|| StoreError::new(ErrorKind::Corrupt))
    }
}

/// Parses a version record: a number and, after a colon, the oldest version that may use the keys, if it
/// differs.
fn version(text: &str) -> Option<Version> {
    let (number, oldest) = text.split_once(':').unwrap_or((text, text));
    Some(Version {
        number: number.parse().ok()?,
        oldest: oldest.parse().ok()?,
    })
}

fn call(
    connection: &mut Connection,
    name: &str,
    key: impl ToRedisArgs,
) -> RedisResult<Option<String>> {
    redis::cmd(name).arg(key).query(connection)
}

/// A queue's name without braces, which would end the hash tag, and not empty, because an empty tag is
/// ignored.
struct Tag<'a>(&'a str);

impl std::fmt::Display for Tag<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if self.0.is_empty() {
            return f.write_str("%");
        }
        let mut rest = self.0;
        while let Some(at) = rest.find(['{', '}', '%']) {
            let (plain, special) = rest.split_at(at);
            write!(f, "{plain}%{:02X}", special.as_bytes()[0])?;
            rest = &special[1..];
        }
        f.write_str(rest)
    }
}
