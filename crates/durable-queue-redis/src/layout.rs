//! Names of the keys, and the version of their contents.
//!
//! All keys of a queue have the hash tag `{queue}`, so that a script finds them in one slot. `lua/base.lua`
//! describes their contents.
//!
//! # Invariants
//! 1. No two queues share a key, whatever their names: the text in braces is not empty and contains no brace.
//! 2. Of the caller's values, only the prefix is part of a script's text, and it was checked by
//!    [`Layout::new`].

use std::fmt::{self, Write};

use durable_queue::internals::Version;
use durable_queue::store::Result;
use durable_queue::{ErrorKind, StoreError};
use redis::{Cmd, Connection, RedisResult};

use crate::failure::bad_prefix;
use crate::script::Way;

/// The version of keys and records that this crate writes.
pub(crate) const VERSION: u32 = 1;

/// The oldest version that may use them.
const OLDEST: u32 = 1;

/// The keys of a queue, in the order of `lua/base.lua`.
pub(crate) const KEYS: [&str; 18] = [
    "due", "lease", "urgent", "job", "payload", "pending", "running", "dead", "letter", "state",
    "extra", "marked", "done", "until", "limit", "place", "kind", "group",
];

/// The number of slots of a cluster.
pub(crate) const SLOTS: u16 = 16_384;

/// The prefix of all keys.
#[derive(Clone, Debug)]
pub(crate) struct Layout(String);

impl Layout {
    pub(crate) fn new(prefix: &str) -> Result<Self> {
        const LONGEST: usize = 40;
        let is_plain =
            |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'_' | b'-' | b'.' | b':');
        let is_good = (1..=LONGEST).contains(&prefix.len()) && prefix.bytes().all(is_plain);
        is_good
            .then(|| Self(prefix.to_owned()))
            .ok_or_else(bad_prefix)
    }

    /// Adds the keys of a queue as arguments of a call.
    pub(crate) fn add_keys(&self, queue: &str, call: &mut Cmd) {
        let mut key = format!("{}:{{{}}}:", self.0, Tag(queue));
        let common = key.len();
        for name in KEYS {
            key.truncate(common);
            key.push_str(name);
            call.arg(&key);
        }
    }

    /// Returns the key of the queue's state.
    pub(crate) fn state(&self, queue: &str) -> String {
        format!("{}:{{{}}}:state", self.0, Tag(queue))
    }

    /// Returns the channel of announcements about all queues.
    pub(crate) fn channel(&self) -> String {
        format!("{}:earlier", self.0)
    }

    /// Returns the key of a test's clock.
    #[cfg(feature = "testing")]
    pub(crate) fn clock(&self) -> String {
        format!("{}:clock", self.0)
    }

    /// Returns the slot of a queue's keys in a cluster.
    pub(crate) fn slot(queue: &str) -> u16 {
        let mut sum = Crc::default();
        // The sum accepts any text.
        write!(sum, "{}", Tag(queue)).ok();
        sum.slot()
    }

    /// Returns the slot of a key without a hash tag.
    pub(crate) fn slot_of(key: &str) -> u16 {
        let mut sum = Crc::default();
        sum.write_str(key).ok(); // As above.
        sum.slot()
    }

    /// Returns a key without data that all scripts on a cluster declare. As it never exists, no node starts a
    /// script while the queue's slot is being moved, even if all other keys are there. Otherwise the old owner
    /// would stop a script that removes the last entry of a key midway. `clock` is a test's time.
    pub(crate) fn guard(&self, queue: &str, clock: Option<i64>) -> String {
        let mut key = format!("{}:{{{}}}:moving", self.0, Tag(queue));
        if let Some(clock) = clock {
            write!(key, ":{clock}").ok();
        }
        key
    }

    /// Returns the key of the version.
    pub(crate) fn version(&self) -> String {
        format!("{}:version", self.0)
    }

    /// Returns the version record, after writing a missing one.
    pub(crate) fn read(
        &self,
        connection: &mut Connection,
        way: Way,
    ) -> RedisResult<Option<String>> {
        let key = self.version();
        let mut call = |command: &Cmd| -> RedisResult<Option<String>> {
            way.prepare(connection)?;
            command.query(connection)
        };
        let mut get = redis::cmd("GET");
        get.arg(&key);
        let mut found = call(&get)?;
        if found.is_none() {
            let mut set = redis::cmd("SET");
            let record = format!("{VERSION}:{OLDEST}");
            call(set.arg(&key).arg(record).arg("NX"))?;
            found = call(&get)?;
        }
        Ok(found)
    }

    /// Checks a version record.
    pub(crate) fn check(found: Option<&str>) -> Result<()> {
        let found = found.and_then(version);
        let is_usable = found.map(|found| found.is_usable(VERSION)).transpose()?;
        is_usable
            .filter(|it| *it)
            .map(drop)
            .ok_or_else(|| StoreError::new(ErrorKind::Corrupt))
    }
}

/// Parses a version record: the number, a colon, and the oldest version that may use the keys.
fn version(text: &str) -> Option<Version> {
    let (number, oldest) = text.split_once(':')?;
    Some(Version {
        number: number.parse().ok()?,
        oldest: oldest.parse().ok()?,
    })
}

/// The checksum of which a cluster's slots are parts: CRC-16/XMODEM.
#[derive(Default)]
struct Crc(u16);

impl Crc {
    const POLYNOMIAL: u16 = 0x1021;

    /// Returns the slot of what was written, which is a key's hash tag, or a key without one.
    fn slot(&self) -> u16 {
        self.0 % SLOTS
    }
}

impl Write for Crc {
    fn write_str(&mut self, text: &str) -> fmt::Result {
        for byte in text.bytes() {
            self.0 ^= u16::from(byte) << 8;
            for _ in 0..8 {
                let is_carried = self.0 & 0x8000 != 0;
                self.0 = (self.0 << 1) ^ if is_carried { Self::POLYNOMIAL } else { 0 };
            }
        }
        Ok(())
    }
}

/// A queue's name without braces, which would end the hash tag, and not empty, because an empty tag is
/// ignored.
struct Tag<'a>(&'a str);

impl fmt::Display for Tag<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
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

#[cfg(all(test, not(anthill_loom)))]
mod tests {
    use super::*;

    /// Values of `CLUSTER KEYSLOT`.
    #[test]
    fn slots_are_those_of_the_server() {
        assert_eq!(
            ["123456789", "", "durable:version", "mails"].map(Layout::slot_of),
            [0x31C3, 0, SLOT_OF_VERSION, SLOT_OF_MAILS]
        );
        assert_eq!(Layout::slot("mails"), SLOT_OF_MAILS);
        // The tag of an empty name is `%`, and that of a brace its code.
        assert_eq!(Layout::slot(""), Layout::slot_of("%"));
        assert_eq!(Layout::slot("a{b"), Layout::slot_of("a%7Bb"));
    }

    const SLOT_OF_VERSION: u16 = 4_600;
    const SLOT_OF_MAILS: u16 = 4_745;
}
