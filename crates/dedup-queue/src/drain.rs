//! Waiting for the end of the work, and the leftovers.
//!
//! # Guarantees
//! 1. Drains end together: when no key is ready or held, when the first of their deadlines passes,
//!    or when the queue is shut down in the meantime.
//! 2. The leftovers go to the drain that came first, once. If that drain is abandoned before it has
//!    returned (its future is dropped, notified or not, or its clock panics), they go to the next
//!    drain that comes: they stay in the queue until they are fetched.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Instant;

use delay_queue::wait::{Driver as _, Waiter};
use sync_shim::foreign::drop_quietly;
use sync_shim::{Clock, Parker, Timeout};

use crate::core::{Core, DefaultClock, Hasher, Key};
use crate::drain_waiters::DrainId;
use crate::keys::Remaining;
use crate::layer::{Layer, Plain};
use crate::policy::{Outcome, Pending};
use crate::queue::KeyQueue;

/// Result of a drain.
///
/// ```
/// use dedup_queue::DedupQueue;
///
/// let queue = DedupQueue::<&str>::new();
/// let drained = queue.drain();
/// assert!(drained.leftovers.is_some_and(|left| left.is_empty()));
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Drained<K> {
    /// Reason for the end of the drain.
    pub outcome: Outcome,
    /// The leftovers, for the drain that came first. `None` for the others, and after a
    /// `shut_down`: then the leftovers are still in the queue, and another drain may take them.
    pub leftovers: Option<Leftovers<K>>,
}

/// The keys that were not, or not yet, processed. Each is in one of the lists.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Leftovers<K> {
    /// Keys that were ready, in the order in which they became ready.
    pub ready: Vec<K>,
    /// Keys that were delayed, the earliest first.
    pub delayed: Vec<Delayed<K>>,
    /// Keys held by workers at that moment, in arbitrary order. Their guards stay valid.
    pub held: Vec<StillHeld<K>>,
}

/// A key that would have been delivered later.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Delayed<K> {
    /// The key.
    pub key: K,
    /// The due time. `None` for never.
    pub due: Option<Instant>,
}

/// A key that a worker holds.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct StillHeld<K> {
    /// The key.
    pub key: K,
    /// The kind of the pending delivery, if there is one: `Pending::Dirty` or `Pending::Delayed`.
    pub pending: Option<Pending>,
    /// The due time, if the pending delivery is delayed. `None` for never.
    pub due: Option<Instant>,
}

impl<K> Default for Leftovers<K> {
    fn default() -> Self {
        Self {
            ready: Vec::new(),
            delayed: Vec::new(),
            held: Vec::new(),
        }
    }
}

impl<K> Leftovers<K> {
    /// Returns whether there are no leftovers.
    pub fn is_empty(&self) -> bool {
        self.ready.is_empty() && self.delayed.is_empty() && self.held.is_empty()
    }
}

impl<K: Key, S: Hasher, C: Clock, L: Layer> KeyQueue<K, S, C, L> {
    /// Rejects adds from now on, and waits until no key is ready or held.
    ///
    /// Workers continue to get ready keys, and keys that they hold may become ready again. Delayed
    /// keys are not waited for: they become leftovers, and so do keys that are retried from now on.
    /// Any number of drains may run at a time; the first one gets the leftovers. Blocks. A worker
    /// that calls this method while it holds a key waits for itself.
    ///
    /// ```
    /// use dedup_queue::DedupQueue;
    ///
    /// let queue = DedupQueue::<&str>::new();
    /// queue.add("a")?;
    /// std::thread::scope(|scope| {
    ///     scope.spawn(|| while let Ok(key) = queue.get() { key.done() });
    ///     assert_eq!(queue.drain().outcome, dedup_queue::Outcome::Finished);
    /// });
    /// assert!(queue.add("b").is_err());
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[doc(alias = "ShutDownWithDrain")]
    pub fn drain(&self) -> Drained<K> {
        self.core().drain_until(None)
    }

    /// Like [`drain`](KeyQueue::drain), but waits for at most `timeout`. Delivery then stops for
    /// all: `get` returns [`GetError::Closed`](crate::GetError::Closed), every drain ends, and the
    /// leftovers are returned. With an instant in the past, the call does not block.
    ///
    /// ```
    /// use dedup_queue::DedupQueue;
    ///
    /// let queue = DedupQueue::<&str>::new();
    /// queue.add("a")?; // No worker takes it.
    /// let drained = queue.drain_timeout(std::time::Duration::from_millis(1));
    /// assert_eq!(drained.leftovers.map(|left| left.ready), Some(vec!["a"]));
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn drain_timeout(&self, timeout: impl Into<Timeout>) -> Drained<K> {
        self.core()
            .drain_until(timeout.into().deadline(self.clock()))
    }

    /// Async version of [`drain`](KeyQueue::drain). Starts with the first poll.
    ///
    /// A future that is dropped stops waiting; adds are still rejected. It may be dropped at any
    /// moment, for example by a runtime's time-out: its leftovers stay in the queue for the next
    /// drain, and `drain_timeout(Duration::ZERO)` fetches them at once.
    ///
    /// ```
    /// use dedup_queue::DedupQueue;
    ///
    /// let queue = DedupQueue::<&str>::new();
    /// # futures_lite::future::block_on(async {
    /// let drained = queue.drain_async().await;
    /// assert_eq!(drained.outcome, dedup_queue::Outcome::Finished);
    /// # });
    /// ```
    pub fn drain_async(&self) -> DrainFuture<K, S, C, L> {
        DrainFuture {
            queue: self.clone(),
            progress: Progress::New,
        }
    }
}

impl<K: Key, S: Hasher, C: Clock> Core<K, S, C> {
    fn drain_until(&self, deadline: Option<Instant>) -> Drained<K> {
        let parker = Parker::of_thread();
        let id = self.begin_drain(Waiter::Thread(Parker::clone(&parker)));
        // If the clock panics, the leftovers are not for this thread.
        let mut given_up = GivenUp(self, Some(id));
        let mut deadline = deadline;
        loop {
            if let Some(drained) = self.ask(id, None) {
                given_up.1 = None;
                return drained;
            }
            match deadline {
                _ if !self.process().is_current() => self.stop_drain(id, Outcome::Forked),
                None => parker.park(),
                Some(when) => {
                    // USER CODE: `Clock::park_until`. A panic removes the waiter; its leftovers are the next drain's.
                    if !self.clock.park_until(&parker, when) {
                        self.stop_drain(id, Outcome::TimedOut);
                        deadline = None; // The result is available.
                    }
                }
            }
        }
    }

    /// Rejects adds and enqueues the drain. If there is nothing to wait for, its result is
    /// available at once.
    fn begin_drain(&self, waiter: Waiter) -> DrainId {
        let mut waiter = Some(waiter); // If the clock panics, dropped when the lock is free.
        self.update(|state| {
            self.tick(state);
            let waiter = waiter.take().expect("the waiter is used once");
            state.begin_drain(waiter)
        })
    }

    /// Returns the result, once. If there is none yet, the waiter will be woken.
    fn ask(&self, id: DrainId, waiter: Option<&mut Waiter>) -> Option<Drained<K>> {
        let answer = self.update(|state| state.drain_waiters.ask(id, waiter))?;
        Some(Drained {
            outcome: answer.outcome,
            leftovers: answer.rest.map(|rest| self.leftovers(rest)),
        })
    }

    /// Stops delivery and ends all drains, because a deadline has passed or, in a forked process,
    /// no thread is left to wait for. Does nothing if the drain has already ended.
    fn stop_drain(&self, id: DrainId, outcome: Outcome) {
        self.update(|state| {
            self.tick(state);
            if state.drain_waiters.waits(id) {
                state.end_drains(outcome);
            }
        });
    }

    /// Abandons the drain. Its result goes to the next one.
    fn give_up_drain(&self, id: DrainId) {
        let waiter = self.update(|state| state.drain_waiters.leave(id));
        // USER CODE: the drop of a waker.
        drop_quietly(waiter);
    }

    fn leftovers(&self, rest: Remaining<K>) -> Leftovers<K> {
        let delayed = rest.delayed.into_iter().map(|(key, due)| Delayed {
            key,
            due: self.epoch.instant(due),
        });
        let held = rest.held.into_iter().map(|(key, pending, due)| StillHeld {
            key,
            pending,
            due: self.epoch.instant(due),
        });
        Leftovers {
            ready: rest.ready,
            delayed: delayed.collect(),
            held: held.collect(),
        }
    }
}

/// Abandons a drain when dropped, unless its result was returned.
struct GivenUp<'c, K: Key, S: Hasher, C: Clock>(&'c Core<K, S, C>, Option<DrainId>);

impl<K: Key, S: Hasher, C: Clock> Drop for GivenUp<'_, K, S, C> {
    fn drop(&mut self) {
        if let Some(id) = self.1 {
            self.0.give_up_drain(id);
        }
    }
}

/// Future of [`KeyQueue::drain_async`].
///
/// # Panics
/// If it is polled after completion.
#[must_use = "a future does nothing until it is polled"]
pub struct DrainFuture<K: Key, S: Hasher, C: Clock = DefaultClock, L: Layer = Plain> {
    queue: KeyQueue<K, S, C, L>,
    progress: Progress,
}

#[derive(Clone, Copy, Debug)]
enum Progress {
    New,
    Waits(DrainId),
    Ended,
}

impl<K: Key, S: Hasher, C: Clock, L: Layer> Future for DrainFuture<K, S, C, L> {
    type Output = Drained<K>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Drained<K>> {
        // Cloned before the lock is taken. The rest is dropped after it is released, and quietly: a
        // panicking waker must not lose a result that has been fetched.
        // USER CODE: the waker's clone. A panic comes out before anything is done.
        let mut waiter = Waiter::Task(context.waker().clone());
        let core = self.queue.core();
        let (id, answer) = match self.progress {
            Progress::New => {
                let id = core.begin_drain(waiter);
                self.progress = Progress::Waits(id);
                (id, self.queue.core().ask(id, None))
            }
            Progress::Waits(id) => {
                let answer = core.ask(id, Some(&mut waiter));
                // USER CODE: the drop of a stale waker. A panic must not cost the caller the leftovers.
                drop_quietly(waiter);
                (id, answer)
            }
            Progress::Ended => panic!("`DrainFuture` polled after completion"),
        };
        let core = self.queue.core();
        let answer = answer.or_else(|| {
            (!core.process().is_current()).then(|| core.stop_drain(id, Outcome::Forked))?;
            core.ask(id, None)
        });
        self.progress = match answer {
            None => Progress::Waits(id),
            Some(_) => Progress::Ended,
        };
        answer.map_or(Poll::Pending, Poll::Ready)
    }
}

impl<K: Key, S: Hasher, C: Clock, L: Layer> Drop for DrainFuture<K, S, C, L> {
    fn drop(&mut self) {
        if let Progress::Waits(id) = self.progress {
            self.queue.core().give_up_drain(id);
        }
    }
}

impl<K: Key, S: Hasher, C: Clock, L: Layer> fmt::Debug for DrainFuture<K, S, C, L> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DrainFuture").finish_non_exhaustive()
    }
}
