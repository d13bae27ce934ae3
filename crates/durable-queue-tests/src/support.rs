//! What several modules need.

use std::path::{Path, PathBuf};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use durable_queue::testing::{ManualStoreClock, SimStore};
use durable_queue::{Builder, DurableQueue, FastSlow, Store};
use sync_shim::ManualClock;
use tempfile::TempDir;

/// A folder of one test's own, removed at its end.
pub struct Folder(TempDir);

impl Folder {
    pub fn new() -> Self {
        Self(TempDir::with_prefix("durable-").unwrap())
    }

    pub fn path(&self) -> &Path {
        self.0.path()
    }

    pub fn file(&self, name: &str) -> PathBuf {
        self.path().join(name)
    }
}

/// A clock for a queue and its store, both moved by hand.
pub struct Time {
    pub clock: ManualClock,
    pub store: ManualStoreClock,
}

impl Time {
    pub fn new() -> Self {
        let clock = ManualClock::new();
        Self {
            store: ManualStoreClock::new(&clock),
            clock,
        }
    }

    pub fn sim(&self) -> SimStore {
        SimStore::new(self.store.clone())
    }

    /// A queue over `store`, whose failed attempts come again after a second.
    pub fn queue<S: Store>(&self, store: S) -> DurableQueue<String, S> {
        self.builder(store).build().unwrap()
    }

    pub fn builder<S: Store>(&self, store: S) -> Builder<String, S> {
        DurableQueue::builder("queue", store)
            .clock(self.clock.clone())
            .back_off(FastSlow::new(SECOND, SECOND, 1))
    }

    /// Lets the pump go to sleep, then moves time.
    pub fn advance(&self, by: Duration) {
        self.clock.wait_for_sleepers(1);
        self.clock.advance(by);
    }
}

/// Another thread with a handle of the queue, e.g. one that waits for a job.
pub fn beside<T, S, R>(
    queue: &DurableQueue<T, S>,
    work: impl FnOnce(&DurableQueue<T, S>) -> R + Send + 'static,
) -> JoinHandle<R>
where
    T: Send + 'static,
    S: Store,
    R: Send + 'static,
{
    let queue = queue.clone();
    thread::spawn(move || work(&queue))
}

/// No test gets there: its end is by other means.
pub const LONG: Duration = Duration::from_secs(1_000_000);
pub const SECOND: Duration = Duration::from_secs(1);

/// A test that hangs fails.
pub fn bounded<R>(test: impl FnOnce() -> R) -> R {
    testkit::watchdog(testkit::LIMIT, test)
}

pub fn job(text: &str) -> String {
    text.to_owned()
}
