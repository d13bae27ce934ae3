//! A value that one thread or future waits for: the answer to a settle, a queued push or an async call.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake};

use sync_shim::foreign::drop_quietly;
use sync_shim::waiter::Waiter;
use sync_shim::{Mutex, Parker, Process};

use crate::error::SettleError;

pub(crate) type Answer = Result<(), SettleError>;

/// A slot for one answer, which is given once.
#[derive(Debug)]
pub(crate) struct Reply<A = Answer>(Mutex<Stage<A>>);

#[derive(Debug)]
enum Stage<A> {
    Open(Option<Waiter>),
    Given(A),
}

impl<A: Clone> Reply<A> {
    pub(crate) fn new() -> Arc<Self> {
        Arc::new(Self(Mutex::new(Stage::Open(None))))
    }

    /// Gives the answer and wakes the waiter. No lock may be held.
    pub(crate) fn give(&self, answer: A) {
        let before = std::mem::replace(&mut *self.0.lock(), Stage::Given(answer));
        if let Stage::Open(Some(waiter)) = before {
            // USER CODE: the future's waker. A panic ends there.
            waiter.wake();
        }
    }

    /// Blocks until there is an answer.
    pub(crate) fn wait(&self) -> A {
        let parker = Parker::of_thread();
        loop {
            if let Poll::Ready(answer) = self.look(Waiter::Thread(parker.clone())) {
                return answer;
            }
            parker.park();
        }
    }

    /// Takes the answer, or replaces the waiter and drops the previous one.
    pub(crate) fn look(&self, waiter: Waiter) -> Poll<A> {
        let mut waiter = Some(waiter);
        let found = match &mut *self.0.lock() {
            Stage::Given(answer) => Poll::Ready(answer.clone()),
            Stage::Open(place) => {
                std::mem::swap(place, &mut waiter);
                Poll::Pending
            }
        };
        // USER CODE: the drop of a waker that is stale or not needed. A panic must not cost the answer.
        drop_quietly(waiter);
        found
    }
}

/// As a waker, it gives the answer.
impl Wake for Reply<()> {
    fn wake(self: Arc<Self>) {
        self.give(());
    }
}

/// Future of a settle's result. Dropping it does not cancel the settle.
#[derive(Debug)]
#[must_use = "the answer says whether the lease was lost"]
pub struct SettleFuture<R = ()> {
    reply: Arc<Reply>,
    settled: R,
    /// Its pump gives the answer.
    process: Process,
}

impl<R: Copy> SettleFuture<R> {
    pub(crate) fn new(reply: Arc<Reply>, settled: R) -> Self {
        Self {
            reply,
            settled,
            process: Process::current(),
        }
    }

    /// Blocks until the store has answered. Useful after several settles were sent together.
    ///
    /// # Errors
    /// See [`SettleError`].
    pub fn wait(self) -> Result<R, SettleError> {
        self.check_process()?;
        self.reply.wait().map(|()| self.settled)
    }

    /// In a forked child no answer comes, and the fork may have left the lock held.
    fn check_process(&self) -> Answer {
        self.process.check(SettleError::Forked)
    }
}

impl<R: Copy + Unpin> Future for SettleFuture<R> {
    type Output = Result<R, SettleError>;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        self.check_process()?;
        // USER CODE: the waker's clone. Before the lock is taken. A panic is the poller's, and changes nothing.
        let answer = self.reply.look(Waiter::Task(context.waker().clone()));
        answer.map_ok(|()| self.settled)
    }
}
