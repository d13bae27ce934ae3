//! What several modules need.

use std::fs;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::thread::{self, JoinHandle};
use std::time::Duration;

use dedup_queue::FastSlow;
use durable_queue::testing::{ManualStoreClock, SimStore};
use durable_queue::{Builder, DurableQueue, Store};
use sync_shim::ManualClock;

/// A folder of one test's own, removed at its end.
pub(crate) struct Folder(PathBuf);

impl Folder {
    pub(crate) fn new() -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        // Relaxed: a number of its own is all that is wanted.
        let number = NEXT.fetch_add(1, Relaxed);
        let path = Path::new(env!("CARGO_TARGET_TMPDIR"))
            .join(format!("durable-{}-{number}", std::process::id()));
        fs::remove_dir_all(&path).ok(); // Of a run that was killed.
        fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    pub(crate) fn file(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        fs::remove_dir_all(&self.0).ok();
    }
}

/// A clock for a queue and its store, both moved by hand.
pub(crate) struct Time {
    pub(crate) clock: ManualClock,
    pub(crate) store: ManualStoreClock,
}

impl Time {
    pub(crate) fn new() -> Self {
        let clock = ManualClock::new();
        Self {
            store: ManualStoreClock::new(&clock),
            clock,
        }
    }

    pub(crate) fn sim(&self) -> SimStore {
        SimStore::new(self.store.clone())
    }

    /// A queue over `store`, whose failed attempts come again after a second.
    pub(crate) fn queue<S: Store>(&self, store: S) -> DurableQueue<String, S> {
        self.builder(store).build().unwrap()
    }

    pub(crate) fn builder<S: Store>(&self, store: S) -> Builder<String, S> {
        DurableQueue::builder("queue", store)
            .clock(self.clock.clone())
            .back_off(FastSlow::new(SECOND, SECOND, 1))
    }

    /// Lets the pump go to sleep, then moves time.
    pub(crate) fn advance(&self, by: Duration) {
        self.clock.wait_for_sleepers(1);
        self.clock.advance(by);
    }
}

/// Another thread with a handle of the queue, e.g. one that waits for a job.
pub(crate) fn beside<T, S, R>(
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
pub(crate) const LONG: Duration = Duration::from_secs(1_000_000);
pub(crate) const SECOND: Duration = Duration::from_secs(1);

pub(crate) fn job(text: &str) -> String {
    text.to_owned()
}
