//! Shared helpers. None of them waits for a duration.

use std::future::Future;
use std::hash::RandomState;
use std::pin::Pin;
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};
use std::thread;
use std::time::Duration;

use dedup_queue::{
    Added, Delaying, GetError, Held, Key, KeyQueue, Layer, ManualClock, Plain, Retried, Retrying,
    Stats,
};

pub(crate) type Queue<L = Plain, K = &'static str> = KeyQueue<K, RandomState, ManualClock, L>;

pub(crate) const MS: Duration = Duration::from_millis(1);

/// Yields until the condition holds. Only the watchdog limits the wait.
pub(crate) fn until(condition: impl Fn() -> bool) {
    while !condition() {
        thread::yield_now();
    }
}

/// A queue with default settings and a manual clock.
pub(crate) fn plain() -> Queue {
    Queue::<Plain>::on(ManualClock::new())
}

/// The same, with `add_after`, and its clock.
pub(crate) fn delaying() -> (Queue<Delaying>, ManualClock) {
    let clock = ManualClock::new();
    (Queue::<Delaying>::on(clock.clone()), clock)
}

/// The same, with back-off.
pub(crate) fn retrying() -> (Queue<Retrying>, ManualClock) {
    let clock = ManualClock::new();
    (Queue::<Retrying>::on(clock.clone()), clock)
}

pub(crate) trait On {
    fn on(clock: ManualClock) -> Self;
}

impl<L: Layer, K: Key> On for Queue<L, K> {
    fn on(clock: ManualClock) -> Self {
        KeyQueue::<K, _, _, L>::builder().clock(clock).build()
    }
}

/// A get that finds a key at once.
pub(crate) fn get<K: Key, L: Layer>(queue: &Queue<L, K>) -> Held<'_, K, L> {
    queue.try_get().unwrap()
}

/// Takes all ready keys, releases them, and returns them.
pub(crate) fn take_all<K: Key, L: Layer>(queue: &Queue<L, K>) -> Vec<K> {
    let mut keys = Vec::new();
    while let Ok(held) = queue.try_get() {
        keys.push(held.key().clone());
    }
    keys
}

/// The queue's statistics except for waiters: ready, held, dirty, delayed, resting.
pub(crate) fn figures(stats: Stats) -> [usize; 5] {
    [
        stats.ready,
        stats.held,
        stats.dirty,
        stats.delayed,
        stats.resting,
    ]
}

pub(crate) fn is_empty<T>(got: &Result<T, GetError>) -> bool {
    matches!(got, Err(GetError::Empty))
}

pub(crate) fn is_closed<T>(got: &Result<T, GetError>) -> bool {
    matches!(got, Err(GetError::Closed))
}

pub(crate) fn timed_out<T>(got: &Result<T, GetError>) -> bool {
    matches!(got, Err(GetError::TimedOut))
}

/// The results of an add, abbreviated for comparisons.
pub(crate) const NEW: Added = Added::New;
pub(crate) const MOVED: Added = Added::Moved;
pub(crate) const MERGED: Added = Added::Merged;

pub(crate) fn after(millis: u64) -> Retried {
    Retried::After(Duration::from_millis(millis))
}

/// Polls once, with a waker that does nothing.
pub(crate) fn poll<F: Future + Unpin>(future: &mut F) -> Poll<F::Output> {
    poll_with(future, Waker::noop())
}

pub(crate) fn poll_with<F: Future + Unpin>(future: &mut F, waker: &Waker) -> Poll<F::Output> {
    Pin::new(future).poll(&mut Context::from_waker(waker))
}

/// A list of events in order. Clones share the list.
#[derive(Clone, Debug, Default)]
pub(crate) struct Journal<T>(Arc<Mutex<Vec<T>>>);

impl<T: Clone> Journal<T> {
    pub(crate) fn new() -> Self {
        Self(Arc::new(Mutex::new(Vec::new())))
    }

    pub(crate) fn write(&self, entry: T) {
        self.0.lock().unwrap().push(entry);
    }

    pub(crate) fn entries(&self) -> Vec<T> {
        self.0.lock().unwrap().clone()
    }
}
