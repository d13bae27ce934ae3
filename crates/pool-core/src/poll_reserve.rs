//! Permits for what polls: it waits for one, holds it, and hands it out.

use std::fmt;
use std::mem;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use crate::error::SubmitError;
use crate::permit::Permit;
use crate::traits::Reserve;

/// Polls for a permit and holds it until it is taken: what a `Service` keeps between its
/// `poll_ready` and its `call`.
///
/// It has no permit, waits for one, or holds one; dropping it gives back what it has. A clone starts
/// without.
///
/// ```
/// use pool_core::{JoinHandle, Pool, PollReserve, SubmitError};
/// use std::task::{Context, Poll, Waker};
///
/// /// What `tower::Service` asks for, over requests that block.
/// #[derive(Clone)]
/// struct Lengths {
///     slot: PollReserve<Pool>,
/// }
///
/// impl Lengths {
///     fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), SubmitError>> {
///         self.slot.poll_reserve(context)
///     }
///
///     fn call(&mut self, request: String) -> JoinHandle<usize> {
///         let permit = self.slot.take().expect("`poll_ready` comes first");
///         permit.spawn(move || request.len()) // The handle is the future.
///     }
/// }
///
/// let pool = Pool::builder().capacity(1).build()?;
/// let mut service = Lengths { slot: PollReserve::new(pool) };
/// let mut context = Context::from_waker(Waker::noop());
/// assert!(service.poll_ready(&mut context).is_ready());
/// let mut other = service.clone();
/// assert!(other.poll_ready(&mut context).is_pending(), "the room is taken");
/// assert_eq!(service.call("four".into()).join()?, 4);
/// assert!(other.poll_ready(&mut context).is_ready());
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct PollReserve<P: Reserve> {
    pool: P,
    slot: Slot<P>,
}

enum Slot<P: Reserve> {
    Empty,
    Waiting(P::ReserveFuture),
    Held(Permit<P::Runner>),
}

impl<P: Reserve> PollReserve<P> {
    /// One without a permit.
    pub fn new(pool: P) -> Self {
        Self {
            pool,
            slot: Slot::Empty,
        }
    }

    /// The pool.
    pub fn pool(&self) -> &P {
        &self.pool
    }

    /// Ready once it holds a permit, which stays so until that is [taken](Self::take). The waker of
    /// the last poll is called.
    ///
    /// # Errors
    /// Why there is no permit; a later poll asks again.
    pub fn poll_reserve(&mut self, context: &mut Context<'_>) -> Poll<Result<(), SubmitError>> {
        if let Slot::Empty = self.slot {
            self.slot = Slot::Waiting(self.pool.reserve_async());
        }
        if let Slot::Waiting(future) = &mut self.slot {
            let answer = ready!(Pin::new(future).poll(context));
            self.slot = Slot::Empty;
            self.slot = Slot::Held(answer?);
        }
        Poll::Ready(Ok(()))
    }

    /// The permit, if it holds one. The next poll asks for another.
    pub fn take(&mut self) -> Option<Permit<P::Runner>> {
        match mem::replace(&mut self.slot, Slot::Empty) {
            Slot::Held(permit) => Some(permit),
            other => {
                self.slot = other;
                None
            }
        }
    }
}

impl<P: Reserve> Clone for PollReserve<P> {
    fn clone(&self) -> Self {
        Self::new(self.pool.clone())
    }
}

impl<P: Reserve> fmt::Debug for PollReserve<P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let slot = match self.slot {
            Slot::Empty => "Empty",
            Slot::Waiting(_) => "Waiting",
            Slot::Held(_) => "Held",
        };
        f.debug_struct("PollReserve")
            .field("pool", &self.pool.name())
            .field("slot", &format_args!("{slot}"))
            .finish()
    }
}
