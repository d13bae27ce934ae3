//! A safety net under tests that may hang.

use std::env;
use std::io::Write;
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::thread;
use std::time::Duration;

/// The limit for a test that has no reason for another one.
pub const LIMIT: Duration = Duration::from_secs(60);

/// By how much a tool that watches each access makes tests slower: limits are this many times as long.
const SLOWDOWN: &str = "TESTKIT_SLOWDOWN";

/// Runs `test` on this thread; if it has not ended after `limit`, says so and aborts the process.
/// The limit is longer where the environment names a `SLOWDOWN`.
///
/// Only a net: a test must be able to fail without it.
pub fn watchdog<R>(limit: Duration, test: impl FnOnce() -> R) -> R {
    let name = thread::current().name().unwrap_or("unnamed").to_owned();
    watchdog_of(&name, limit, test)
}

/// As [`watchdog`], of what bears that name.
pub fn watchdog_of<R>(name: &str, limit: Duration, test: impl FnOnce() -> R) -> R {
    let slowdown = env::var(SLOWDOWN).ok().and_then(|it| it.parse().ok());
    let limit = limit.saturating_mul(slowdown.unwrap_or(1));
    let (running, ended) = channel::<()>();
    let farewell = format!("watchdog: `{name}` has not ended after {limit:?}; aborting");
    let watching = thread::spawn(move || {
        if ended.recv_timeout(limit) == Err(RecvTimeoutError::Timeout) {
            // Straight to the stream: the test harness captures what the macros print, and the
            // abort would swallow it. If it cannot be written, the abort still speaks.
            let _ = writeln!(std::io::stderr(), "{farewell}");
            std::process::abort();
        }
    });
    let result = test();
    drop(running); // A panic drops it as well: either end calls the dog off.
    // A thread that is ending as the process exits would count as a leak.
    let _ = watching.join();
    result
}
