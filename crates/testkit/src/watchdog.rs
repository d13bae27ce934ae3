//! A safety net under tests that may hang.

use std::env;
use std::io::Write;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::{self, JoinHandle};
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
    let _watchdog = Watchdog::start(thread::current().name().unwrap_or("unnamed"), limit);
    test()
}

/// Aborts the process unless it is dropped in time: what [`test`](macro@crate::test) puts around a test.
#[derive(Debug)]
pub struct Watchdog {
    /// Dropped to call the thread off, by a test that returns and by one that panics.
    running: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Watchdog {
    /// Starts a thread that aborts the process after `limit`, in the name of the test `name`. The limit is longer
    /// where the environment variable `TESTKIT_SLOWDOWN` says how many times.
    ///
    /// # Panics
    /// If the machine has no thread left.
    pub fn start(name: &str, limit: Duration) -> Self {
        let slowdown = env::var(SLOWDOWN).ok().and_then(|it| it.parse().ok());
        let limit = limit.saturating_mul(slowdown.unwrap_or(1));
        let (running, ended) = channel::<()>();
        let farewell = format!("watchdog: `{name}` has not ended after {limit:?}; aborting");
        let thread = thread::Builder::new()
            .name("watchdog".to_owned())
            .spawn(move || {
                if ended.recv_timeout(limit) == Err(RecvTimeoutError::Timeout) {
                    // Straight to the stream: the test harness captures what the macros print, and the
                    // abort would swallow it. If it cannot be written, the abort still speaks.
                    let _ = writeln!(std::io::stderr(), "{farewell}");
                    std::process::abort();
                }
            });
        Self {
            running: Some(running),
            thread: Some(thread.expect("the machine has a thread left")),
        }
    }
}

impl Drop for Watchdog {
    fn drop(&mut self) {
        drop(self.running.take());
        // A thread that is still ending as the process exits would count as a leak.
        let _ = self.thread.take().map(JoinHandle::join);
    }
}
