//! Failures of the simulated store.

use std::fmt;
use std::sync::Arc;

use durable_queue::store::{Claim, Result, Settle};
use durable_queue::{ErrorKind, StoreError};

/// A call of a store.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Call {
    /// [`Store::enqueue`](durable_queue::Store::enqueue).
    Enqueue,
    /// [`Store::turn`](durable_queue::Store::turn).
    Turn,
    /// [`Store::cancel`](durable_queue::Store::cancel).
    Cancel,
    /// [`Store::reset`](durable_queue::Store::reset).
    Reset,
    /// [`Store::held_by`](durable_queue::Store::held_by).
    HeldBy,
    /// [`Store::watch`](durable_queue::Store::watch).
    Watch,
    /// [`Store::pause`](durable_queue::Store::pause).
    Pause,
    /// [`Store::limit`](durable_queue::Store::limit).
    Limit,
    /// [`Store::redrive`](durable_queue::Store::redrive).
    Redrive,
    /// [`Store::delete_dead`](durable_queue::Store::delete_dead).
    DeleteDead,
    /// [`Store::cancel_requests`](durable_queue::Store::cancel_requests).
    CancelRequests,
    /// [`Store::delete_done`](durable_queue::Store::delete_done).
    DeleteDone,
    /// A call that only reads.
    Other,
}

/// Failure of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Fault {
    /// No failure.
    None,
    /// The call is lost: it is not carried out, but the caller cannot know that.
    Before,
    /// The call is carried out, and its response is lost.
    After,
    /// The call is carried out twice, as by a client that repeats a call that it believes lost, and the
    /// second response is returned.
    Twice,
    /// The call is carried out and answered, but announced to no watch, as if the message were lost.
    Unheard,
    /// The call is rejected and not carried out, and the error says so.
    Refused(ErrorKind),
}

type Says = dyn Fn(Call, &[Settle<'_>], Option<&Claim<'_>>) -> Fault + Send + Sync;

/// Chooses the failure of each call, or of each turn by its contents.
#[derive(Clone)]
pub(super) struct Plan(Arc<Says>);

impl Plan {
    pub(super) fn new(plan: impl Fn(Call) -> Fault + Send + Sync + 'static) -> Self {
        Self(Arc::new(move |call, _, _| plan(call)))
    }

    pub(super) fn of_turns(
        plan: impl Fn(&[Settle<'_>], Option<&Claim<'_>>) -> Fault + Send + Sync + 'static,
    ) -> Self {
        Self(Arc::new(move |call, settles, claim| match call {
            Call::Turn => plan(settles, claim),
            _ => Fault::None,
        }))
    }

    /// Carries out a call with its failure. The argument of `carry_out` says whether to announce the result.
    pub(super) fn run<R>(&self, call: Call, carry_out: impl FnMut(bool) -> Result<R>) -> Result<R> {
        Self::carry_out((self.0)(call, &[], None), carry_out)
    }

    pub(super) fn run_turn<R>(
        &self,
        settles: &[Settle<'_>],
        claim: Option<&Claim<'_>>,
        carry_out: impl FnMut(bool) -> Result<R>,
    ) -> Result<R> {
        Self::carry_out((self.0)(Call::Turn, settles, claim), carry_out)
    }

    fn carry_out<R>(fault: Fault, mut carry_out: impl FnMut(bool) -> Result<R>) -> Result<R> {
        let lost = || StoreError::lost_answer(ErrorKind::Unavailable);
        match fault {
            Fault::None => carry_out(true),
            Fault::Before => Err(lost()),
            Fault::After => {
                carry_out(true)?;
                Err(lost())
            }
            Fault::Twice => {
                carry_out(true)?;
                carry_out(true)
            }
            Fault::Unheard => carry_out(false),
            Fault::Refused(kind) => Err(StoreError::new(kind)),
        }
    }
}

impl fmt::Debug for Plan {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Plan(..)")
    }
}
