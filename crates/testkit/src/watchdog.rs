//! A watchdog for tests that may hang.

use std::env;
use std::io::Write;
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::{self, JoinHandle};
use std::time::Duration;

/// The default limit of a test.
pub const LIMIT: Duration = Duration::from_secs(60);

/// The environment variable with a factor for all limits, for tools that slow tests down.
const SLOWDOWN: &str = "TESTKIT_SLOWDOWN";

/// Runs `test` on this thread. If it has not ended after `limit`, prints a message and aborts the
/// process. `TESTKIT_SLOWDOWN` multiplies the limit.
///
/// A test must be able to fail without the watchdog.
pub fn watchdog<R>(limit: Duration, test: impl FnOnce() -> R) -> R {
    let _watchdog = Watchdog::start(thread::current().name().unwrap_or("unnamed"), limit);
    test()
}

/// Aborts the process unless it is dropped in time. The attribute [`test`](macro@crate::test)
/// creates one per test.
#[derive(Debug)]
pub struct Watchdog {
    /// Dropped to stop the thread, whether the test returns or panics.
    running: Option<Sender<()>>,
    thread: Option<JoinHandle<()>>,
}

impl Watchdog {
    /// Starts a thread that aborts the process after `limit` and prints the name of the test. The
    /// environment variable `TESTKIT_SLOWDOWN` multiplies the limit.
    ///
    /// # Panics
    /// If no thread can be started.
    pub fn start(name: &str, limit: Duration) -> Self {
        let slowdown = env::var(SLOWDOWN).ok().and_then(|it| it.parse().ok());
        let limit = limit.saturating_mul(slowdown.unwrap_or(1));
        let (running, ended) = channel::<()>();
        let (started, has_started) = channel::<()>();
        let farewell = format!("watchdog: `{name}` has not ended after {limit:?}; aborting");
        let thread = thread::Builder::new()
            .name("watchdog".to_owned())
            .spawn(move || {
                drop(started);
                if ended.recv_timeout(limit) == Err(RecvTimeoutError::Timeout) {
                    // Writes to the stream directly, because the test harness captures the output
                    // of the macros, and the abort would lose it. If the write fails, the abort is
                    // still visible.
                    let _ = writeln!(std::io::stderr(), "{farewell}");
                    std::process::abort();
                }
            });
        let thread = thread.expect("the machine has a thread left");
        // Until it runs: it needs memory for that, which a test may limit.
        let _ = has_started.recv();
        Self {
            running: Some(running),
            thread: Some(thread),
        }
    }
}

impl Drop for Watchdog {
    fn drop(&mut self) {
        drop(self.running.take());
        // Joined, because a thread that is still ending when the process exits would count as a
        // leak.
        let _ = self.thread.take().map(JoinHandle::join);
    }
}
