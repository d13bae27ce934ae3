//! Waiting for something to take: as a thread, and as a future.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use sync_shim::atomic::Ordering::Relaxed;
use sync_shim::foreign::drop_quietly;
use sync_shim::thread::spin_loop;
use sync_shim::{Clock, Parker};

use crate::builder::DefaultClock;
use crate::expired::Expired;
use crate::queue::Shared;
use crate::state::{Lack, Owed, State};
use crate::takers::{Left, Ticket};
use crate::{DelayQueue, TakeError};

impl From<Lack> for TakeError {
    fn from(lack: Lack) -> Self {
        match lack {
            Lack::Closed => Self::Closed,
            Lack::Empty => Self::Empty,
            Lack::NotDue => Self::NotDue,
        }
    }
}

impl<T: Send + 'static, C: Clock> DelayQueue<T, C> {
    /// Takes the earliest entry. Blocks until one is due.
    ///
    /// # Errors
    /// [`TakeError::Closed`] once the queue is closed and nothing in it can fall due.
    pub fn take(&self) -> Result<Expired<T>, TakeError> {
        self.0.take(None)
    }

    /// As [`take`](DelayQueue::take), for at most this long.
    ///
    /// # Errors
    /// [`TakeError::TimedOut`] and [`TakeError::Closed`].
    pub fn take_timeout(&self, timeout: Duration) -> Result<Expired<T>, TakeError> {
        self.0.take(self.0.config.clock.after(timeout))
    }

    /// As [`take`](DelayQueue::take), until this time at most.
    ///
    /// # Errors
    /// [`TakeError::TimedOut`] and [`TakeError::Closed`].
    pub fn take_deadline(&self, deadline: Instant) -> Result<Expired<T>, TakeError> {
        self.0.take(Some(deadline))
    }

    /// Takes the earliest entry, when one is due, as a future. It needs no runtime of its own: the
    /// clock wakes it.
    ///
    /// A future that is dropped before it is ready takes nothing with it, woken or not. Its output
    /// is an error as in [`take`](DelayQueue::take), or [`TakeError::NoAlarm`].
    pub fn take_async(&self) -> TakeFuture<T, C> {
        TakeFuture {
            shared: Arc::clone(&self.0),
            ticket: None,
        }
    }
}

/// What a thread does after it has looked.
enum Step<R> {
    Return(Result<R, TakeError>),
    /// Sleep; with the watch, no longer than until then.
    Sleep(Ticket, Option<u64>),
}

impl<T: Send + 'static, C: Clock> Shared<T, C> {
    fn take(&self, deadline: Option<Instant>) -> Result<Expired<T>, TakeError> {
        let look = |state: &mut State<T>, owed: &mut Owed| state.take(|| self.now(), owed);
        let entry = match self.section(look) {
            Ok(entry) => entry,
            Err(_) => self.wait(&Parker::of_thread(), deadline, look)?,
        };
        Ok(self.expired(entry))
    }

    /// Waits until `look` finds something, or that nothing will come; or until the deadline.
    pub(crate) fn wait<R>(
        &self,
        parker: &Parker,
        deadline: Option<Instant>,
        mut look: impl FnMut(&mut State<T>, &mut Owed) -> Result<R, Lack>,
    ) -> Result<R, TakeError> {
        let mut ticket = None;
        let mut time_is_up = false;
        loop {
            let step = self.section(|state, owed| {
                if let Some(ticket) = ticket.take() {
                    state.takers.leave_thread(ticket);
                }
                let lack = match look(state, owed) {
                    Ok(found) => return Step::Return(Ok(found)),
                    Err(lack) => lack,
                };
                if lack != Lack::Closed && !time_is_up {
                    let next_due = state.earliest();
                    let (ticket, until) = state.takers.enrol_thread(parker.clone(), next_due);
                    return Step::Sleep(ticket, until);
                }
                state.settle(owed); // The watch may have been ours.
                Step::Return(Err(match lack {
                    Lack::Closed => TakeError::Closed,
                    Lack::Empty | Lack::NotDue => TakeError::TimedOut,
                }))
            });
            match step {
                Step::Return(found) => return found,
                Step::Sleep(enrolled, until) => {
                    ticket = Some(enrolled);
                    time_is_up = !self.sleep(parker, until, deadline);
                }
            }
        }
    }

    /// Sleeps until called (or for no reason), until the watch's time, or until the deadline:
    /// then the answer is `false`.
    fn sleep(&self, parker: &Parker, until: Option<u64>, deadline: Option<Instant>) -> bool {
        let clock = &self.config.clock;
        let due = until.and_then(|due| Some((due, self.epoch.instant(due)?)));
        let Some((due, at)) = due else {
            return match deadline {
                None => {
                    parker.park();
                    true
                }
                Some(deadline) => clock.park_until(parker, deadline),
            };
        };
        let spin = self.config.spin;
        let wake = if spin.is_zero() {
            self.wake_time(due)
        } else {
            // A window that begins before all time has begun.
            at.checked_sub(spin).or(self.epoch.instant(0))
        };
        let wake = wake.unwrap_or(at);
        if let Some(deadline) = deadline
            && deadline <= wake
        {
            return clock.park_until(parker, deadline);
        }
        if clock.park_until(parker, wake) || spin.is_zero() {
            return true; // Whether the deadline has passed too is seen on the next sleep.
        }
        self.spin_until(due, parker, deadline)
    }

    /// Spins until the entry is due, or is no longer the earliest, or until called; or until the
    /// deadline: then the answer is `false`.
    fn spin_until(&self, due: u64, parker: &Parker, deadline: Option<Instant>) -> bool {
        loop {
            let now = self.config.clock.now();
            if self.epoch.nanos(now) >= due
                // Relaxed: it only ends the spin. The lock shows what has changed.
                || self.earliest.load(Relaxed) != due
                || parker.take_token()
            {
                return true;
            }
            if deadline.is_some_and(|deadline| now >= deadline) {
                return false;
            }
            spin_loop();
        }
    }
}

/// See [`DelayQueue::take_async`].
#[must_use = "a future does nothing until it is polled"]
pub struct TakeFuture<T: Send + 'static, C: Clock = DefaultClock> {
    shared: Arc<Shared<T, C>>,
    ticket: Option<Ticket>,
}

impl<T: Send + 'static, C: Clock> Future for TakeFuture<T, C> {
    type Output = Result<Expired<T>, TakeError>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        // Cloned before the lock is taken and dropped after, for both are foreign code.
        let mut waker = Some(context.waker().clone());
        let this = &mut *self;
        let shared = &*this.shared;
        let (left, polled) = shared.section(|state, owed| {
            let old_ticket = this.ticket.take();
            let left = old_ticket.map(|ticket| state.takers.leave_future(ticket));
            let polled = match (state.take(|| shared.now(), owed), &left) {
                (Ok(entry), _) => Poll::Ready(Ok(entry)),
                (Err(Lack::Closed), _) => Poll::Ready(Err(TakeError::Closed)),
                (Err(_), Some(Left::NoAlarm(error))) => {
                    Poll::Ready(Err(TakeError::NoAlarm(Arc::clone(error))))
                }
                (Err(_), _) => {
                    let waker = waker.take().expect("it is asked for once");
                    this.ticket = Some(match old_ticket {
                        None => state.takers.enrol_future(waker),
                        Some(ticket) => {
                            state.takers.enrol_again(ticket, waker);
                            ticket
                        }
                    });
                    Poll::Pending
                }
            };
            state.settle(owed);
            (left, polled)
        });
        // Foreign code, and the lock is free. If it panics, what was taken must not be lost; and
        // one by one, for two that panic at once would end the process.
        drop_quietly(left);
        drop_quietly(waker);
        polled.map_ok(|entry| shared.expired(entry))
    }
}

impl<T: Send + 'static, C: Clock> Drop for TakeFuture<T, C> {
    fn drop(&mut self) {
        let Some(ticket) = self.ticket.take() else {
            return;
        };
        let left = self.shared.section(|state, owed| {
            let left = state.takers.leave_future(ticket);
            state.settle(owed);
            left
        });
        drop(left); // As above.
    }
}

impl<T: Send + 'static, C: Clock> std::fmt::Debug for TakeFuture<T, C> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("TakeFuture").finish_non_exhaustive()
    }
}
