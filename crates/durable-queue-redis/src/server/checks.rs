//! Checks of a server: its version, and whether it may delete jobs.

use durable_queue::store::Result;
use redis::{Connection, RedisError, RedisResult};

use crate::failure::{evicts, no_session, too_old};

/// The oldest server version that supports the scripts' first lines.
const OLDEST: u32 = 7;

/// Checks that the server is supported.
pub(crate) fn check(connection: &mut Connection) -> Result<()> {
    let failed = |error: RedisError| no_session(&error);
    let info = info(connection, "server").map_err(failed)?;
    // Valkey reports a compatible version of Redis here.
    let version = field(&info, "redis_version");
    let major = version.split('.').next().and_then(|it| it.parse().ok());
    if major.is_some_and(|major: u32| major < OLDEST) {
        return Err(too_old(version));
    }
    if may_evict(connection).map_err(failed)? {
        return Err(evicts());
    }
    Ok(())
}

/// Returns whether the server may delete jobs to free memory.
pub(crate) fn may_evict(connection: &mut Connection) -> RedisResult<bool> {
    let info = info(connection, "memory")?;
    // `volatile` policies delete only keys that expire, and the store's keys do not.
    Ok(field(&info, "maxmemory_policy").starts_with("allkeys"))
}

pub(crate) fn info(connection: &mut Connection, section: &str) -> RedisResult<String> {
    redis::cmd("INFO").arg(section).query(connection)
}

pub(crate) fn field<'a>(info: &'a str, name: &str) -> &'a str {
    let mut lines = info.lines();
    let value = lines.find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
    value.unwrap_or_default()
}
