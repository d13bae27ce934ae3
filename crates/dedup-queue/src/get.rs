//! Waiting for a key: as a thread, and as a future.
//!
//! Who is woken for what is decided by [`Takers`](delay_queue::takers::Takers), whose protocol
//! stands with it; here are the steps of those who wait.

use std::fmt;
use std::future::Future;
use std::num::NonZeroUsize;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use delay_queue::takers::{Left, Ticket};
use sync_shim::foreign::drop_quietly;
use sync_shim::{Clock, Parker};

use crate::builder::DefaultClock;
use crate::core::{Core, Hasher, Key, Nothing};
use crate::error::GetError;
use crate::held::{Held, Place};
use crate::keys::{Keys, Taken};
use crate::layer::{Layer, Plain};
use crate::queue::KeyQueue;

impl<K: Key, S: Hasher, C: Clock, L: Layer> KeyQueue<K, S, C, L> {
    /// Takes the key that has been ready longest. Blocks until there is one.
    ///
    /// # Errors
    /// [`GetError::Closed`] once the queue is shut down and nothing will be delivered any more.
    #[inline]
    pub fn get(&self) -> Result<Held<'_, K, L>, GetError> {
        match self.core().take() {
            Ok(taken) => Ok(self.held(taken)),
            Err(_) => Ok(self.held(self.core().take_late(None)?)),
        }
    }

    /// As [`get`](KeyQueue::get), for at most this long.
    ///
    /// # Errors
    /// [`GetError::TimedOut`] and [`GetError::Closed`].
    pub fn get_timeout(&self, timeout: Duration) -> Result<Held<'_, K, L>, GetError> {
        let deadline = self.core().clock.after(timeout);
        match self.core().take() {
            Ok(taken) => Ok(self.held(taken)),
            Err(_) => Ok(self.held(self.core().take_late(deadline)?)),
        }
    }

    /// As [`get`](KeyQueue::get), until this time at most.
    ///
    /// # Errors
    /// [`GetError::TimedOut`] and [`GetError::Closed`].
    pub fn get_deadline(&self, deadline: Instant) -> Result<Held<'_, K, L>, GetError> {
        match self.core().take() {
            Ok(taken) => Ok(self.held(taken)),
            Err(_) => Ok(self.held(self.core().take_late(Some(deadline))?)),
        }
    }

    /// Takes the key that has been ready longest, if there is one. Never blocks.
    ///
    /// # Errors
    /// [`GetError::Empty`] and [`GetError::Closed`].
    pub fn try_get(&self) -> Result<Held<'_, K, L>, GetError> {
        match self.core().take() {
            Ok(taken) => Ok(self.held(taken)),
            Err(Nothing::Yet) => Err(GetError::Empty),
            Err(Nothing::Ever) => Err(GetError::Closed),
        }
    }

    /// Takes up to `most` keys at once, in their order. Blocks until there is one.
    ///
    /// # Errors
    /// As [`get`](KeyQueue::get).
    pub fn get_batch(&self, most: NonZeroUsize) -> Result<Vec<Held<'_, K, L>>, GetError> {
        let batch = self.core().wait(None, up_to(most))?;
        Ok(self.held_all(batch))
    }

    /// As [`get_batch`](KeyQueue::get_batch), for at most this long.
    ///
    /// # Errors
    /// As [`get_timeout`](KeyQueue::get_timeout).
    pub fn get_batch_timeout(
        &self,
        most: NonZeroUsize,
        timeout: Duration,
    ) -> Result<Vec<Held<'_, K, L>>, GetError> {
        let deadline = self.core().clock.after(timeout);
        let batch = self.core().wait(deadline, up_to(most))?;
        Ok(self.held_all(batch))
    }

    /// Takes up to `most` keys, if there are any. Never blocks.
    ///
    /// # Errors
    /// As [`try_get`](KeyQueue::try_get).
    pub fn try_get_batch(&self, most: NonZeroUsize) -> Result<Vec<Held<'_, K, L>>, GetError> {
        let batch = self.core().try_get(up_to(most))?;
        Ok(self.held_all(batch))
    }

    /// Takes the key that has been ready longest, when there is one, as a future. It needs no
    /// runtime of its own: the clock wakes it.
    ///
    /// A future that is dropped before it is ready takes nothing with it, woken or not. Polled again
    /// once it was ready, it takes another key. Its output is an error as in
    /// [`get`](KeyQueue::get), or [`GetError::NoAlarm`].
    ///
    /// It never yields while a key is ready: there is nothing to wait for. So a task that takes and
    /// finishes key after key without awaiting anything else keeps its executor's thread for as long
    /// as there are any. If others are to run meanwhile, let it yield now and then
    /// (`tokio::task::yield_now().await`, `futures_lite::future::yield_now().await`).
    pub fn get_async(&self) -> GetFuture<K, S, C, L> {
        GetFuture {
            queue: self.clone(),
            ticket: None,
        }
    }

    #[inline]
    fn held(&self, (key, place): (K, Place)) -> Held<'_, K, L> {
        Held::new(self.core(), key, place)
    }

    /// The same, of one that was taken in a section that noted the time.
    fn held_noted(&self, taken: Taken<K>) -> Held<'_, K, L> {
        let held = self.held((taken.key, taken.place));
        self.core().note_taken(taken.waited);
        held
    }

    fn held_all(&self, batch: Vec<Taken<K>>) -> Vec<Held<'_, K, L>> {
        batch
            .into_iter()
            .map(|taken| self.held_noted(taken))
            .collect()
    }
}

/// Takes a batch, if there is anything.
fn up_to<K>(most: NonZeroUsize) -> impl FnMut(&mut Keys<K>) -> Option<Vec<Taken<K>>> {
    move |keys| {
        let first = keys.take()?;
        let more = std::iter::from_fn(|| keys.take()).take(most.get() - 1);
        Some(std::iter::once(first).chain(more).collect())
    }
}

/// What a thread does after it has looked.
enum Step<T> {
    Return(Result<T, GetError>),
    /// What it has brought about runs user code. That is over now: whoever is enrolled does nothing
    /// else before it sleeps.
    LookAgain,
    /// Sleep; with the watch, no longer than until then.
    Sleep(Option<u64>),
}

/// A waiting thread's ticket, if it has one. It is given back also if the clock panics: a thread that
/// has gone must not be called, nor keep the time.
struct Enrolled<'c, K: Key, S: Hasher, C: Clock>(&'c Core<K, S, C>, Option<Ticket>);

impl<K: Key, S: Hasher, C: Clock> Drop for Enrolled<'_, K, S, C> {
    fn drop(&mut self) {
        if let Some(ticket) = self.1.take() {
            self.0.section(|state| state.takers.leave_thread(ticket));
        }
    }
}

impl<K: Key, S: Hasher, C: Clock> Core<K, S, C> {
    fn try_get<T>(&self, mut take: impl FnMut(&mut Keys<K>) -> Option<T>) -> Result<T, GetError> {
        self.section(|state| {
            self.tick(state);
            match take(&mut state.keys) {
                Some(taken) => Ok(taken),
                None if state.keys.is_closed() => Err(GetError::Closed),
                None => Err(GetError::Empty),
            }
        })
    }

    /// Waits for a key. The guard is made by the caller, in one place with those that need no wait:
    /// so it is made of values, and not written to memory to be moved.
    #[cold]
    fn take_late(&self, deadline: Option<Instant>) -> Result<(K, Place), GetError> {
        let taken = self.wait(deadline, Keys::take)?;
        self.note_taken(taken.waited);
        Ok((taken.key, taken.place))
    }

    /// Looks, and waits as long as it finds nothing.
    fn wait<T>(
        &self,
        deadline: Option<Instant>,
        mut take: impl FnMut(&mut Keys<K>) -> Option<T>,
    ) -> Result<T, GetError> {
        let mut enrolled = Enrolled(self, None);
        let mut time_is_up = false;
        let parker = Parker::of_thread();
        loop {
            let step = self.section(|state| {
                self.tick(state);
                if let Some(ticket) = enrolled.1.take() {
                    state.takers.leave_thread(ticket);
                }
                if let Some(taken) = take(&mut state.keys) {
                    return Step::Return(Ok(taken));
                }
                if state.keys.is_closed() {
                    return Step::Return(Err(GetError::Closed));
                }
                if time_is_up {
                    return Step::Return(Err(GetError::TimedOut));
                }
                if state.keys.owes_user_code() {
                    return Step::LookAgain;
                }
                let (ticket, until) = state.enrol_thread(Parker::clone(&parker));
                enrolled.1 = Some(ticket);
                Step::Sleep(until)
            });
            match step {
                Step::Return(taken) => return taken,
                Step::LookAgain => {}
                Step::Sleep(until) => time_is_up = !self.sleep(&parker, until, deadline),
            }
        }
    }

    /// Sleeps until called (or for no reason), until the watch's time, or until the deadline: then
    /// the answer is `false`.
    fn sleep(&self, parker: &Parker, until: Option<u64>, deadline: Option<Instant>) -> bool {
        let due = until.and_then(|due| self.epoch.instant(due));
        let (wake, is_deadline) = match (due, deadline) {
            (None, None) => {
                parker.park();
                return true;
            }
            (Some(due), Some(deadline)) if due < deadline => (due, false),
            (_, Some(deadline)) => (deadline, true),
            (Some(due), None) => (due, false),
        };
        // After the watch's time, whether the deadline has passed too is seen on the next sleep.
        self.clock.park_until(parker, wake) || !is_deadline
    }
}

/// See [`KeyQueue::get_async`].
#[must_use = "a future does nothing until it is polled"]
pub struct GetFuture<K: Key, S: Hasher, C: Clock = DefaultClock, L: Layer = Plain> {
    queue: KeyQueue<K, S, C, L>,
    ticket: Option<Ticket>,
}

impl<K: Key, S: Hasher, C: Clock, L: Layer> Future for GetFuture<K, S, C, L> {
    type Output = Result<Held<'static, K, L>, GetError>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        // Cloned before the lock is taken and dropped after, for both are user code.
        let mut waker = Some(context.waker().clone());
        let this = &mut *self;
        let core = this.queue.core();
        let (mut before, mut left) = (None, None);
        let polled = loop {
            let looked = core.section(|state| {
                core.tick(state);
                if let Some(ticket) = this.ticket.take() {
                    before = Some(ticket);
                    left = Some(state.takers.leave_future(ticket));
                }
                if let Some(taken) = state.keys.take() {
                    return Some(Poll::Ready(Ok(taken)));
                }
                if state.keys.is_closed() {
                    return Some(Poll::Ready(Err(GetError::Closed)));
                }
                if let Some(Left::NoAlarm(error)) = &left {
                    return Some(Poll::Ready(Err(GetError::NoAlarm(Arc::clone(error)))));
                }
                if state.keys.owes_user_code() {
                    return None; // It runs before this future counts as waiting.
                }
                let waker = waker.take().expect("it is asked for once");
                this.ticket = Some(state.enrol_future(waker, before));
                Some(Poll::Pending)
            });
            if let Some(polled) = looked {
                break polled;
            }
        };
        // The guard first: whatever else runs user code must not cost the key.
        let polled = polled.map_ok(|taken| this.queue.held_noted(taken).into_owned());
        drop_quietly(left); // May hold a waker: the lock is free.
        drop_quietly(waker);
        polled
    }
}

impl<K: Key, S: Hasher, C: Clock, L: Layer> Drop for GetFuture<K, S, C, L> {
    fn drop(&mut self) {
        let Some(ticket) = self.ticket.take() else {
            return;
        };
        let core = self.queue.core();
        let left = core.section(|state| state.takers.leave_future(ticket));
        drop_quietly(left); // As above.
    }
}

impl<K: Key, S: Hasher, C: Clock, L: Layer> fmt::Debug for GetFuture<K, S, C, L> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("GetFuture").finish_non_exhaustive()
    }
}
