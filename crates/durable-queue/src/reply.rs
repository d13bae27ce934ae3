//! The answer to one settle, for the party that waits for it: a thread or a future.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use sync_shim::foreign::drop_quietly;
use sync_shim::waiter::Waiter;
use sync_shim::{Mutex, Parker, fork_count};

use crate::error::SettleError;

pub(crate) type Answer = Result<(), SettleError>;

/// Given once, by the pump; taken once.
#[derive(Debug)]
pub(crate) struct Reply {
    /// `fork_count()` where the pump is that gives it.
    forks: usize,
    stage: Mutex<Stage>,
}

#[derive(Debug)]
enum Stage {
    Open(Option<Waiter>),
    Given(Answer),
}

impl Reply {
    pub(crate) fn new() -> Arc<Self> {
        Arc::new(Self {
            forks: fork_count(),
            stage: Mutex::new(Stage::Open(None)),
        })
    }

    /// Gives the answer and wakes the waiter, which is user code: no lock may be held.
    pub(crate) fn give(&self, answer: Answer) {
        let before = std::mem::replace(&mut *self.stage.lock(), Stage::Given(answer));
        if let Stage::Open(Some(waiter)) = before {
            waiter.wake();
        }
    }

    /// Blocks until the answer is there.
    pub(crate) fn wait(&self) -> Answer {
        let parker = Parker::of_thread();
        loop {
            if let Poll::Ready(answer) = self.look(|| Waiter::Thread(parker.clone())) {
                return answer;
            }
            parker.park();
        }
    }

    /// The answer; or the waiter is left, and the one before dropped.
    fn look(&self, waiter: impl FnOnce() -> Waiter) -> Poll<Answer> {
        if fork_count() != self.forks {
            // The pump is the parent's, and the fork may have left the lock held.
            return Poll::Ready(Err(SettleError::Forked));
        }
        // The waiter is made before the lock is taken, for a waker's clone is user code.
        let mut waiter = Some(waiter());
        let found = {
            let mut stage = self.stage.lock();
            match &mut *stage {
                Stage::Given(answer) => Poll::Ready(answer.clone()),
                Stage::Open(place) => {
                    std::mem::swap(place, &mut waiter);
                    Poll::Pending
                }
            }
        };
        drop_quietly(waiter); // User code: the lock is free.
        found
    }
}

/// Waits for the store's answer, and is `R` then. Dropped before, it leaves the settle under way as it is.
#[derive(Debug)]
#[must_use = "the answer says whether the lease was lost"]
pub struct SettleFuture<R = ()> {
    reply: Arc<Reply>,
    settled: R,
}

impl<R: Copy> SettleFuture<R> {
    pub(crate) fn new(reply: Arc<Reply>, settled: R) -> Self {
        Self { reply, settled }
    }

    /// Blocks until the answer is there: after several jobs were handed in to be settled together.
    ///
    /// # Errors
    /// See [`SettleError`].
    pub fn wait(self) -> Result<R, SettleError> {
        self.reply.wait().map(|()| self.settled)
    }
}

impl<R: Copy + Unpin> Future for SettleFuture<R> {
    type Output = Result<R, SettleError>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let answer = self.reply.look(|| Waiter::Task(context.waker().clone()));
        answer.map_ok(|()| self.settled)
    }
}
