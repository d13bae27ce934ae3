//! Helpers of several test modules.

use std::borrow::Cow;
use std::panic::resume_unwind;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::task::Waker;
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use durable_queue::store::{Claim, Lease};
use durable_queue::{
    Builder, DecodeError, DurableQueue, EncodeError, FastSlow, Kind, LEASE, Payload, Store,
};
use durable_queue_testing::{ManualStoreClock, SimStore};
use sync_shim::{Alarm, Clock, ManualClock, Parker};
use tempfile::TempDir;

use crate::alike::claim_of;

/// A temporary folder of one test.
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

/// A manual clock of a queue and its store.
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

    /// Returns a queue over `store` that retries failed attempts after a second.
    pub fn queue<S: Store>(&self, store: S) -> DurableQueue<String, S> {
        self.builder(store).build().unwrap()
    }

    pub fn builder<S: Store>(&self, store: S) -> Builder<String, S> {
        DurableQueue::builder("queue", store)
            .clock(self.clock.clone())
            .back_off(FastSlow::new(SECOND, SECOND, 1))
    }

    /// Waits until the pump sleeps, then moves the clock.
    pub fn advance(&self, by: Duration) {
        self.clock.wait_for_sleepers(1);
        self.clock.advance(by);
    }
}

/// Runs `task` on another thread with a handle of the queue.
pub fn on_thread<T, S, R>(
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

/// A clock that panics on threads of pumps, or on all others, `left` times more.
#[derive(Clone, Debug)]
pub struct ClockTrap {
    clock: ManualClock,
    for_pumps: bool,
    pub left: Arc<AtomicUsize>,
}

impl ClockTrap {
    /// Creates one that does not panic.
    fn new(clock: &ManualClock, for_pumps: bool) -> Self {
        Self {
            clock: clock.clone(),
            for_pumps,
            left: Arc::default(),
        }
    }

    pub fn for_pumps(clock: &ManualClock) -> Self {
        Self::new(clock, true)
    }

    pub fn for_callers(clock: &ManualClock) -> Self {
        Self::new(clock, false)
    }

    fn check(&self) {
        let is_pump = thread::current().name() == Some("durable-queue");
        let less = |left: usize| left.checked_sub(1);
        if is_pump == self.for_pumps && self.left.fetch_update(SeqCst, SeqCst, less).is_ok() {
            resume_unwind(Box::new("as it was asked to"));
        }
    }
}

impl Clock for ClockTrap {
    fn now(&self) -> Instant {
        self.check();
        self.clock.now()
    }

    fn park_until(&self, parker: &Parker, when: Instant) -> bool {
        self.check();
        self.clock.park_until(parker, when)
    }

    fn wake_at(&self, when: Instant, waker: Waker) -> std::io::Result<Alarm> {
        self.clock.wake_at(when, waker)
    }
}

/// A text of a kind, for handles that take no others.
#[derive(Debug)]
pub struct Text(pub String);

impl Payload for Text {
    fn encode(&self) -> Result<Cow<'_, [u8]>, EncodeError> {
        self.0.encode()
    }

    fn decode(bytes: Vec<u8>) -> Result<Self, DecodeError> {
        String::decode(bytes).map(Self)
    }
}

impl Kind for Text {
    const NAME: &'static str = "text";
}

impl AsRef<str> for Text {
    fn as_ref(&self) -> &str {
        &self.0
    }
}

/// Claims and starts up to ten due jobs of the queue `queue`, as another process would.
pub fn steal(store: &impl Store) -> Vec<Lease> {
    let claim = Claim {
        lease: LEASE,
        ..claim_of(10)
    };
    let turn = store.turn("queue", &[], Some(claim)).unwrap();
    turn.claimed.unwrap().leases
}

/// Longer than any test.
pub const LONG: Duration = Duration::from_secs(1_000_000);
pub const SECOND: Duration = Duration::from_secs(1);

/// Fails if the test hangs.
pub fn bounded<R>(test: impl FnOnce() -> R) -> R {
    testkit::watchdog(testkit::LIMIT, test)
}

pub fn job(text: &str) -> String {
    text.to_owned()
}

/// Lets other processes run.
#[expect(
    clippy::disallowed_methods,
    reason = "it is how long a handler works, and how often a server is asked; it orders nothing"
)]
pub fn pause(millis: usize) {
    thread::sleep(Duration::from_millis(millis as u64));
}
