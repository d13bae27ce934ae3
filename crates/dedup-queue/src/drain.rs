//! Waiting for the end of the work, and what is left of it.
//!
//! # What always holds
//! 1. Drains end together: when nothing is ready and nothing held, when the first of their
//!    deadlines passes, or when the queue is shut down meanwhile.
//! 2. What is left goes to the drainer that came first, once. If that drain is given up before it
//!    has returned (its future is dropped, woken or not, or its clock panics), it goes to the next
//!    one that comes: it is in the queue until it is fetched.

use std::fmt;
use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use delay_queue::wait::{Driver as _, Waiter};
use sync_shim::foreign::drop_quietly;
use sync_shim::{Clock, Parker};

use crate::core::{Core, DefaultClock, Hasher, Key};
use crate::drain_waiters::DrainId;
use crate::keys::Remaining;
use crate::layer::{Layer, Plain};
use crate::policy::{Outcome, Pending};
use crate::queue::KeyQueue;

/// What a drain found.
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
    /// How it ended.
    pub outcome: Outcome,
    /// What was left, for the drainer that came first. `None` for the others, and after a
    /// `shut_down`: then it is still in the queue, and another drain may take it.
    pub leftovers: Option<Leftovers<K>>,
}

/// The keys that were not, or not yet, dealt with. Each is in one of the lists.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Leftovers<K> {
    /// Owed a delivery at once, in the order in which they became ready.
    pub ready: Vec<K>,
    /// Owed a delivery later, the earliest first.
    pub delayed: Vec<Delayed<K>>,
    /// Held by workers at that moment, in no order. Their guards are still good.
    pub held: Vec<StillHeld<K>>,
}

/// A key that would have been delivered later.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Delayed<K> {
    /// The key.
    pub key: K,
    /// When. `None` if never.
    pub due: Option<Instant>,
}

/// A key that a worker holds.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct StillHeld<K> {
    /// The key.
    pub key: K,
    /// Whether another delivery was pending: `Pending::Dirty` or `Pending::Delayed`.
    pub pending: Option<Pending>,
    /// When, if it was delayed. `None` if never.
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
    /// Whether nothing was left.
    pub fn is_empty(&self) -> bool {
        self.ready.is_empty() && self.delayed.is_empty() && self.held.is_empty()
    }
}

impl<K: Key, S: Hasher, C: Clock, L: Layer> KeyQueue<K, S, C, L> {
    /// Refuses adds from now on, and waits until nothing is ready and nothing is held.
    ///
    /// Workers go on getting what is ready, and what they hold may become ready again. Delayed keys
    /// are not waited for: they are left over, and so are keys that are retried from now on. Any
    /// number may drain at a time; the first to come gets what is left. Blocks; a worker must not
    /// wait for itself, so do not call it while holding a key.
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

    /// As [`drain`](KeyQueue::drain), for at most this long.
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
    pub fn drain_timeout(&self, timeout: Duration) -> Drained<K> {
        self.core().drain_until(self.core().clock.after(timeout))
    }

    /// As [`drain`](KeyQueue::drain), until this time at most. Then delivery stops, for all: `get`
    /// says that the queue is closed, every drain ends, and what is left is returned. With a time
    /// that has passed it does not block.
    pub fn drain_deadline(&self, deadline: Instant) -> Drained<K> {
        self.core().drain_until(Some(deadline))
    }

    /// As [`drain`](KeyQueue::drain), as a future. It begins with the first poll.
    ///
    /// One that is dropped waits no longer; adds stay refused. It may be dropped at any moment, as a
    /// time-out of a runtime does: what it would have returned stays in the queue for the next drain,
    /// and `drain_deadline` with the present time fetches it at once.
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
        // If the clock panics, what is left is not for this thread.
        let mut given_up = GivenUp(self, Some(id));
        let mut deadline = deadline;
        loop {
            if let Some(drained) = self.ask(id, None) {
                given_up.1 = None;
                return drained;
            }
            match deadline {
                _ if self.is_forked() => self.stop_drain(id, Outcome::Forked),
                None => parker.park(),
                Some(when) => {
                    // USER CODE: `Clock::park_until`. A panic removes the waiter; its leftovers are the next drain's.
                    if !self.clock.park_until(&parker, when) {
                        self.stop_drain(id, Outcome::TimedOut);
                        deadline = None; // The answer is there.
                    }
                }
            }
        }
    }

    /// Refuses adds and enqueues the drain. If there is nothing to wait for, it is answered at once.
    fn begin_drain(&self, waiter: Waiter) -> DrainId {
        let mut waiter = Some(waiter); // Dropped with the lock free if the clock panics.
        self.update(|state| {
            self.tick(state);
            let waiter = waiter.take().expect("it is asked for once");
            state.begin_drain(waiter)
        })
    }

    /// The answer, once. If there is none yet, the waiter is woken when there is.
    fn ask(&self, id: DrainId, waiter: Option<&mut Waiter>) -> Option<Drained<K>> {
        let answer = self.update(|state| state.drain_waiters.ask(id, waiter))?;
        Some(Drained {
            outcome: answer.outcome,
            leftovers: answer.rest.map(|rest| self.leftovers(rest)),
        })
    }

    /// The time is up, or nobody is left to wait for: delivery stops and all drains end, unless they have.
    fn stop_drain(&self, id: DrainId, outcome: Outcome) {
        self.update(|state| {
            self.tick(state);
            if state.drain_waiters.waits(id) {
                state.end_drains(outcome);
            }
        });
    }

    /// The drain is given up. What it was answered goes to the next.
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

/// Gives a drain up when it is dropped, unless it has been answered.
struct GivenUp<'c, K: Key, S: Hasher, C: Clock>(&'c Core<K, S, C>, Option<DrainId>);

impl<K: Key, S: Hasher, C: Clock> Drop for GivenUp<'_, K, S, C> {
    fn drop(&mut self) {
        if let Some(id) = self.1 {
            self.0.give_up_drain(id);
        }
    }
}

/// See [`KeyQueue::drain_async`].
///
/// # Panics
/// When it is polled after it has ended.
#[must_use = "a future does nothing until it is polled"]
pub struct DrainFuture<K: Key, S: Hasher, C: Clock = DefaultClock, L: Layer = Plain> {
    queue: KeyQueue<K, S, C, L>,
    progress: Progress,
}

/// How far a drain has come that is a future.
#[derive(Clone, Copy, Debug)]
enum Progress {
    /// It was not polled yet.
    New,
    Waits(DrainId),
    Ended,
}

impl<K: Key, S: Hasher, C: Clock, L: Layer> Future for DrainFuture<K, S, C, L> {
    type Output = Drained<K>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Drained<K>> {
        // Cloned before the lock is taken, and what is left here dropped after, quietly: an answer
        // that has been fetched must not be lost to a waker.
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
            Progress::Ended => panic!("a drain was polled after it had ended"),
        };
        let core = self.queue.core();
        let answer = answer.or_else(|| {
            core.is_forked()
                .then(|| core.stop_drain(id, Outcome::Forked))?;
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
