//! Waiting for room, as a thread and as a future. Only a bounded queue is ever full.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use sync_shim::foreign::{discard, drop_quietly, guarded};
use sync_shim::{Clock, Parker, Timeout};

use crate::builder::DefaultClock;
use crate::error::PushError;
use crate::idle::sleep;
use crate::queue::Shared;
use crate::state::{Effects, State};
use crate::wait::Waiter;
use crate::wait::{Driver, WaiterId};
use crate::wait_queue::{Pusher, Wait};
use crate::{DelayQueue, EntryId};

impl<T, C: Clock> DelayQueue<T, C> {
    /// Adds `value`, due `delay` from now. Blocks while a bounded queue is full.
    ///
    /// The due time is fixed when the method is called, however long it waits. Waiting pushers are
    /// served first come, first served.
    ///
    /// ```
    /// use std::time::Duration;
    /// use delay_queue::DelayQueue;
    ///
    /// let sessions = DelayQueue::new();
    /// let id = sessions.push("alice", Duration::from_secs(1_800))?;
    /// assert!(sessions.contains(id)); // The id cancels the entry, or changes its time.
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// [`PushError::Closed`], with the value. In a forked child, every call that would wait returns
    /// [`PushError::Forked`] instead.
    #[doc(alias = "put")]
    #[doc(alias = "send")]
    #[doc(alias = "schedule")]
    #[doc(alias = "delay")]
    #[doc(alias = "insert")]
    pub fn push(&self, value: T, delay: Duration) -> Result<EntryId, PushError<T>> {
        let (due, now) = self.0.due_after(delay);
        self.0.push(value, due, now, None)
    }

    /// Like [`push`](DelayQueue::push), due at `due`. A time in the past is due at once.
    ///
    /// ```
    /// use std::time::Instant;
    /// use delay_queue::DelayQueue;
    ///
    /// let queue = DelayQueue::new();
    /// queue.push_at("tea", Instant::now())?;
    /// assert_eq!(queue.take()?.value, "tea");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// [`PushError::Closed`], with the value.
    pub fn push_at(&self, value: T, due: Instant) -> Result<EntryId, PushError<T>> {
        self.0.push(value, self.0.epoch.nanos(due), 0, None)
    }

    /// Like [`push`](DelayQueue::push), but waits for room for at most `timeout`.
    ///
    /// # Errors
    /// [`PushError::TimedOut`] and [`PushError::Closed`], with the value.
    pub fn push_timeout(
        &self,
        value: T,
        delay: Duration,
        timeout: impl Into<Timeout>,
    ) -> Result<EntryId, PushError<T>> {
        let (due, now) = self.0.due_after(delay);
        self.0.push(
            value,
            due,
            now,
            timeout.into().deadline(&self.0.config.clock),
        )
    }

    /// Like [`push_at`](DelayQueue::push_at), but waits for room for at most `timeout`.
    ///
    /// # Errors
    /// [`PushError::TimedOut`] and [`PushError::Closed`], with the value.
    pub fn push_at_timeout(
        &self,
        value: T,
        due: Instant,
        timeout: impl Into<Timeout>,
    ) -> Result<EntryId, PushError<T>> {
        let due = self.0.epoch.nanos(due);
        self.0
            .push(value, due, 0, timeout.into().deadline(&self.0.config.clock))
    }

    /// Async version of [`push`](DelayQueue::push).
    ///
    /// The due time is fixed when this method is called. A waiting future need not be polled: the
    /// call that frees a place adds the value. A future that is dropped before that withdraws its
    /// value and drops it.
    ///
    /// # Panics
    /// The future panics if it is polled after completion.
    ///
    /// ```
    /// use std::time::Duration;
    /// use delay_queue::{DelayQueue, PushError};
    ///
    /// async fn fill(queue: &DelayQueue<u32>) -> Result<(), PushError> {
    ///     for n in 0..3 {
    ///         let pushed = queue.push_async(n, Duration::from_secs(1)).await;
    ///         pushed.map_err(PushError::without_value)?;
    ///     }
    ///     Ok(())
    /// }
    /// # let queue = DelayQueue::new();
    /// # tokio::runtime::Builder::new_current_thread().build()?.block_on(fill(&queue))?;
    /// # assert_eq!(queue.len(), 3);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    pub fn push_async(&self, value: T, delay: Duration) -> PushFuture<T, C> {
        let (due, _) = self.0.due_after(delay);
        self.push_later(value, due)
    }

    /// Async version of [`push_at`](DelayQueue::push_at). The future behaves as that of
    /// [`push_async`](DelayQueue::push_async).
    pub fn push_at_async(&self, value: T, due: Instant) -> PushFuture<T, C> {
        self.push_later(value, self.0.epoch.nanos(due))
    }

    fn push_later(&self, value: T, due: u64) -> PushFuture<T, C> {
        PushFuture {
            shared: Arc::clone(&self.0),
            stage: Stage::Outside(value, due),
        }
    }
}

/// State of a push after a section: finished, or waiting under this id.
enum Entered<T> {
    Over(Result<EntryId, PushError<T>>),
    Waits(WaiterId),
}

impl<T> State<T> {
    /// Adds the value, or enqueues it together with the waiter that `waiter` returns. In a forked
    /// child the value is rejected instead of enqueued.
    fn enter(
        &mut self,
        value: T,
        due: u64,
        waiter: impl FnOnce() -> Waiter,
        effects: &mut Effects,
    ) -> Entered<T> {
        if !self.is_open() {
            Entered::Over(Err(PushError::Closed(value)))
        } else if self.has_room() {
            Entered::Over(Ok(self.push_at_last(value, due, effects)))
        } else {
            let waiter = waiter();
            Entered::Waits(self.pushers.enqueue(Pusher { value, due, waiter }))
        }
    }
}

impl<T, C: Clock> Shared<T, C> {
    #[inline]
    fn push(
        &self,
        value: T,
        due: u64,
        now: u64,
        deadline: Option<Instant>,
    ) -> Result<EntryId, PushError<T>> {
        match self.try_push(value, due, now) {
            Err(PushError::Full(value)) => self.push_in_turn(value, due, deadline),
            done => done,
        }
    }

    #[cold]
    fn push_in_turn(
        &self,
        value: T,
        due: u64,
        deadline: Option<Instant>,
    ) -> Result<EntryId, PushError<T>> {
        let parker = Parker::of_thread();
        let waiter = || Waiter::Thread(parker.clone());
        if !self.process().is_current() {
            return Err(PushError::Forked(value));
        }
        let entered = self.section(|state, effects| state.enter(value, due, waiter, effects));
        let id = match entered {
            Entered::Over(done) => return done,
            Entered::Waits(id) => id,
        };
        let mut place = Place {
            shared: self,
            id: Some(id),
        };
        loop {
            let timed_out = !sleep(&self.config.clock, &parker, deadline);
            // The rejected waiter is this thread's parker, so no user code is dropped under the
            // lock.
            let wait = self.section(|state, _| match state.pushers.look(id) {
                Wait::Waiting if timed_out => Err(state.pushers.leave(id)),
                wait => Ok(wait),
            });
            let result = match wait {
                Ok(Wait::Entered(id)) => Ok(id),
                Ok(Wait::Refused(value)) => Err(PushError::Closed(value)),
                Ok(Wait::Waiting) | Err(None) => continue,
                Err(Some(pusher)) => Err(PushError::TimedOut(pusher.value)),
            };
            place.id = None;
            return result;
        }
    }

    /// Removes the pusher and its value if it still waits; otherwise discards its result.
    fn withdraw(&self, id: WaiterId) {
        let (pusher, answer) =
            self.section(|state, _| (state.pushers.leave(id), state.pushers.look(id)));
        // The values and the waker are user code: the lock is free. Two panics at once would abort
        // the process.
        if let Some(Pusher { value, waiter, .. }) = pusher {
            // USER CODE: the drop of the waker; the values' drops follow, whose panic is the caller's.
            drop_quietly(waiter);
            drop(value);
        }
        drop(answer);
    }
}

/// A waiting thread's place in the wait queue. Its value is withdrawn if the clock panics.
struct Place<'s, T, C: Clock> {
    shared: &'s Shared<T, C>,
    id: Option<WaiterId>,
}

impl<T, C: Clock> Drop for Place<'_, T, C> {
    fn drop(&mut self) {
        if let Some(id) = self.id {
            // Quietly: a second panic during unwinding would abort the process.
            if let Err(payload) = guarded(|| self.shared.withdraw(id)) {
                discard(payload);
            }
        }
    }
}

/// Future of a push that waits for room. [`DelayQueue::push_async`] has an example.
///
/// # Panics
/// If it is polled after completion.
#[must_use = "a future does nothing until it is polled"]
pub struct PushFuture<T, C: Clock = DefaultClock> {
    shared: Arc<Shared<T, C>>,
    stage: Stage<T>,
}

enum Stage<T> {
    Outside(T, u64),
    Queued(WaiterId),
    Over,
}

// A value is moved, never borrowed, so nothing is pinned.
impl<T, C: Clock> Unpin for PushFuture<T, C> {}

impl<T, C: Clock> Future for PushFuture<T, C> {
    type Output = Result<EntryId, PushError<T>>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        // Cloned before the lock is taken and dropped after it is released: both are user code.
        // USER CODE: the waker's clone. A panic is the caller's, and leaves the future in the queue.
        let mut waker = Some(context.waker().clone());
        let mut waiter = || Waiter::Task(waker.take().expect("the waiter is used once"));
        let this = &mut *self;
        let is_forked = !this.shared.process().is_current();
        let polled = match std::mem::replace(&mut this.stage, Stage::Over) {
            Stage::Outside(value, _) if is_forked => Poll::Ready(Err(PushError::Forked(value))),
            Stage::Outside(value, due) => {
                let entered = |state: &mut State<T>, effects: &mut Effects| {
                    state.enter(value, due, &mut waiter, effects)
                };
                match this.shared.section(entered) {
                    Entered::Over(done) => Poll::Ready(done),
                    Entered::Waits(id) => {
                        this.stage = Stage::Queued(id);
                        Poll::Pending
                    }
                }
            }
            Stage::Queued(id) => {
                let (wait, left, old_waiter) = this.shared.section(|state, _| {
                    let wait = state.pushers.look(id);
                    match wait {
                        Wait::Waiting if is_forked => (wait, state.pushers.leave(id), None),
                        Wait::Waiting => {
                            let old = state.pushers.replace_waiter(id, waiter());
                            (wait, None, Some(old))
                        }
                        _ => (wait, None, None),
                    }
                });
                // USER CODE: the drop of the old waker. A panic must not cost the caller its answer.
                drop_quietly(old_waiter);
                if let Some(left) = left {
                    // USER CODE: the drop of a waker that was not woken.
                    drop_quietly(left.waiter);
                    return Poll::Ready(Err(PushError::Forked(left.value)));
                }
                match wait {
                    Wait::Entered(id) => Poll::Ready(Ok(id)),
                    Wait::Refused(value) => Poll::Ready(Err(PushError::Closed(value))),
                    Wait::Waiting => {
                        this.stage = Stage::Queued(id);
                        Poll::Pending
                    }
                }
            }
            Stage::Over => panic!("`PushFuture` polled after completion"),
        };
        // USER CODE: the drop of a clone that is not needed. A panic must not cost the caller the value.
        drop_quietly(waker); // A panic here must not lose the caller's value.
        polled
    }
}

impl<T, C: Clock> Drop for PushFuture<T, C> {
    fn drop(&mut self) {
        if let Stage::Queued(id) = self.stage {
            self.shared.withdraw(id);
        }
    }
}

impl<T, C: Clock> std::fmt::Debug for PushFuture<T, C> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("PushFuture").finish_non_exhaustive()
    }
}
