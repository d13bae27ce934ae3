//! Where jobs lie: the names of the keys, and the version of what they hold.
//!
//! All keys of a queue have one hash tag, `{queue}`, so that a script finds them in one slot. What each
//! holds, `lua/common.lua` says.
//!
//! # What always holds
//! 1. No two queues have a key in common, whatever their names: within the braces there is no brace, and
//!    something.
//! 2. Of what a caller gives, only the prefix is text of a script, and it has passed [`Layout::new`].

use redis::{Cmd, Connection, ToRedisArgs};

use super::failure::{bad_prefix, no_session};
use crate::error::{ErrorKind, StoreError};
use crate::store::Result;

/// The version of the keys and records that this crate writes.
pub(super) const VERSION: u32 = 1;

/// The keys of a queue, in the order in which `lua/common.lua` takes them.
pub(super) const KEYS: [&str; 9] = [
    "due", "lease", "job", "payload", "pending", "running", "dead", "letter", "state",
];

/// What all keys begin with.
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

    /// The keys of a queue, as arguments of a call.
    pub(super) fn add_keys(&self, queue: &str, call: &mut Cmd) {
        let mut key = format!("{}:{{{}}}:", self.0, Tag(queue));
        let common = key.len();
        for name in KEYS {
            key.truncate(common);
            key.push_str(name);
            call.arg(&key);
        }
    }

    /// The last of them.
    pub(super) fn state(&self, queue: &str) -> String {
        format!("{}:{{{}}}:state", self.0, Tag(queue))
    }

    /// Where it is said that something falls due earlier, of all queues.
    pub(super) fn channel(&self) -> String {
        format!("{}:earlier", self.0)
    }

    /// A test's clock.
    #[cfg(feature = "testing")]
    pub(super) fn clock(&self) -> String {
        format!("{}:clock", self.0)
    }

    /// Writes down the version, or compares it.
    pub(super) fn check(&self, connection: &mut Connection) -> Result<()> {
        let key = format!("{}:version", self.0);
        let mut get = || {
            let found = call(connection, "GET", &key);
            found.map_err(|error| no_session(&error))
        };
        let found: Option<String> = match get()? {
            None => {
                let mut set = redis::cmd("SET");
                set.arg(&key).arg(VERSION).arg("NX");
                set.exec(connection).map_err(|error| no_session(&error))?;
                let found = call(connection, "GET", &key);
                found.map_err(|error| no_session(&error))?
            }
            found => found,
        };
        match found.and_then(|text| text.parse().ok()) {
            Some(VERSION) => Ok(()),
            Some(found) if found > VERSION => Err(StoreError::new(ErrorKind::Newer {
                found,
                known: VERSION,
            })),
            _ => Err(StoreError::new(ErrorKind::Corrupt)),
        }
    }
}

fn call(
    connection: &mut Connection,
    name: &str,
    key: impl ToRedisArgs,
) -> redis::RedisResult<Option<String>> {
    redis::cmd(name).arg(key).query(connection)
}

/// A queue's name without braces, which would end the hash tag; an empty tag would be none.
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
