//! Waiting for the end of the work, and what is left of it.
//!
//! # What always holds
//! 1. Drains end together: when nothing is ready and nothing held, when the first of their
//!    deadlines passes, or when the queue is shut down meanwhile.
//! 2. What is left goes to the drainer that came first, once.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};
use std::{fmt, mem};

use delay_queue::calls::Bell;
use sync_shim::{Clock, Mutex, Parker};

use crate::builder::DefaultClock;
use crate::core::{Core, Hasher, Key};
use crate::keys::Rest;
use crate::layer::{Layer, Plain};
use crate::policy::Pending;
use crate::queue::KeyQueue;
use crate::state::DrainsEnd;

/// How a drain ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Outcome {
    /// Nothing was ready and nothing held any more.
    Finished,
    /// The deadline of a drain passed first. Nothing is delivered from then on.
    TimedOut,
    /// `shut_down` was called meanwhile. What was ready is still delivered.
    ShutDown,
}

/// What a drain found.
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
    /// Whether another delivery was owed to it: `Pending::Dirty` or `Pending::Delayed`.
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

    /// Puts those that were left by an earlier drain, and not fetched, in front.
    fn behind(self, earlier: Option<Self>) -> Self {
        let Some(mut all) = earlier else { return self };
        all.ready.extend(self.ready);
        all.delayed.extend(self.delayed);
        all.held.extend(self.held);
        all
    }
}

/// Where one drainer waits for its answer.
pub(crate) struct Seat<K>(Mutex<Inside<K>>);

enum Inside<K> {
    Waiting(Bell),
    Told(Drained<K>),
    Empty,
}

impl<K> Seat<K> {
    fn new(bell: Bell) -> Arc<Self> {
        Arc::new(Self(Mutex::new(Inside::Waiting(bell))))
    }

    fn tell(&self, drained: Drained<K>) {
        let was = mem::replace(&mut *self.0.lock(), Inside::Told(drained));
        if let Inside::Waiting(bell) = was {
            bell.ring(); // May be a foreign waker: the lock is free.
        }
    }

    /// The answer, once. If there is none yet, `bell` is rung when there is.
    fn ask(&self, bell: Option<Bell>) -> Option<Drained<K>> {
        let mut inside = self.0.lock();
        let was = mem::replace(&mut *inside, Inside::Empty);
        let (answer, old) = match was {
            Inside::Told(drained) => (Some(drained), None),
            Inside::Waiting(old) => {
                let (stays, goes) = match bell {
                    Some(bell) => (bell, Some(old)),
                    None => (old, None),
                };
                *inside = Inside::Waiting(stays);
                (None, goes)
            }
            Inside::Empty => (None, None),
        };
        drop(inside);
        drop(old); // A foreign waker: the lock is free.
        answer
    }
}

impl<K: Key, S: Hasher, C: Clock, L: Layer> KeyQueue<K, S, C, L> {
    /// Refuses adds from now on, and waits until nothing is ready and nothing is held.
    ///
    /// Workers go on getting what is ready, and what they hold may become ready again. Delayed keys
    /// are not waited for: they are left over, and so are keys that are retried from now on. Any
    /// number may drain at a time; the first to come gets what is left. Blocks; a worker must not
    /// wait for itself, so do not call it while holding a key.
    #[doc(alias = "ShutDownWithDrain")]
    pub fn drain(&self) -> Drained<K> {
        self.core().drain_until(None)
    }

    /// As [`drain`](KeyQueue::drain), for at most this long.
    pub fn drain_timeout(&self, timeout: Duration) -> Drained<K> {
        self.core().drain_until(self.core().clock.after(timeout))
    }

    /// As [`drain`](KeyQueue::drain), until this time at most. Then delivery stops, for all: `get`
    /// says that the queue is closed, every drain ends, and what is left is returned. With a time
    /// that has passed it does not block.
    pub fn drain_deadline(&self, deadline: Instant) -> Drained<K> {
        self.core().drain_until(Some(deadline))
    }

    /// As [`drain`](KeyQueue::drain), as a future. It begins with the first poll. One that is
    /// dropped waits no longer; adds stay refused.
    pub fn drain_async(&self) -> DrainFuture<K, S, C, L> {
        DrainFuture {
            queue: self.clone(),
            seat: None,
        }
    }
}

impl<K: Key, S: Hasher, C: Clock> Core<K, S, C> {
    fn drain_until(&self, deadline: Option<Instant>) -> Drained<K> {
        let parker = Parker::of_thread();
        let seat = self.begin_drain(Bell::Thread(parker.clone()));
        let mut deadline = deadline;
        loop {
            if let Some(drained) = seat.ask(None) {
                return drained;
            }
            match deadline {
                None => parker.park(),
                Some(when) => {
                    if !self.clock.park_until(&parker, when) {
                        self.stop_drain(&seat);
                        deadline = None; // The answer is there, or on its way.
                    }
                }
            }
        }
    }

    /// Takes a seat. If there is nothing to wait for, it is answered at once.
    fn begin_drain(&self, bell: Bell) -> Arc<Seat<K>> {
        let seat = Seat::new(bell);
        self.section(|state| {
            self.tick(state);
            state.begin_drain(Arc::clone(&seat));
        });
        seat
    }

    /// The time is up: delivery stops and all drains end, unless they have.
    fn stop_drain(&self, seat: &Arc<Seat<K>>) {
        let ended = self.section(|state| {
            self.tick(state);
            let waits = state.drainers.iter().any(|other| Arc::ptr_eq(other, seat));
            waits.then(|| state.end_drains(Outcome::TimedOut))
        });
        if let Some(ended) = ended {
            self.tell_drainers(ended);
        }
    }

    /// Answers everybody whose drain has ended. May run foreign code, so no lock may be held.
    pub(crate) fn tell_drainers(&self, ended: DrainsEnd<K>) {
        let leftovers = ended.rest.map(|rest| self.leftovers(rest));
        let mut leftovers = leftovers.map(|left| left.behind(ended.unclaimed));
        for seat in ended.seats {
            seat.tell(Drained {
                outcome: ended.outcome,
                leftovers: leftovers.take(),
            });
        }
    }

    fn leftovers(&self, rest: Rest<K>) -> Leftovers<K> {
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

/// See [`KeyQueue::drain_async`].
#[must_use = "a future does nothing until it is polled"]
pub struct DrainFuture<K: Key, S: Hasher, C: Clock = DefaultClock, L: Layer = Plain> {
    queue: KeyQueue<K, S, C, L>,
    seat: Option<Arc<Seat<K>>>,
}

impl<K: Key, S: Hasher, C: Clock, L: Layer> Future for DrainFuture<K, S, C, L> {
    type Output = Drained<K>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Drained<K>> {
        let bell = Bell::Future(context.waker().clone());
        let answer = if let Some(seat) = &self.seat {
            seat.ask(Some(bell))
        } else {
            let seat = self.queue.core().begin_drain(bell);
            let answer = seat.ask(None);
            self.seat = Some(seat);
            answer
        };
        answer.map_or(Poll::Pending, Poll::Ready)
    }
}

impl<K: Key, S: Hasher, C: Clock, L: Layer> Drop for DrainFuture<K, S, C, L> {
    fn drop(&mut self) {
        let Some(seat) = self.seat.take() else {
            return;
        };
        self.queue.core().section(|state| {
            state.drainers.retain(|other| !Arc::ptr_eq(other, &seat));
        });
        // Told, and not polled since: the next drain gets what was left.
        if let Some(left) = seat.ask(None).and_then(|drained| drained.leftovers) {
            self.queue.core().section(|state| {
                let earlier = state.unclaimed.take();
                state.unclaimed = Some(left.behind(earlier));
            });
        }
    }
}

impl<K: Key, S: Hasher, C: Clock, L: Layer> fmt::Debug for DrainFuture<K, S, C, L> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DrainFuture").finish_non_exhaustive()
    }
}
