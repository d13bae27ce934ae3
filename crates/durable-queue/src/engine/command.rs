//! Jobs that this process holds, and the commands that settle them.

use std::sync::Arc;
use std::time::Duration;

use crate::engine::hooks::HandedOut;
use crate::engine::kept::KeepWish;
use crate::engine::policy::JobPolicy;
use crate::engine::signals::Signals;
use crate::engine::time_limit::TimeLimit;
use crate::engine::unread::Unread;
use crate::error::SettleError;
use crate::store::failures::Failed;
use crate::store::job::{JobId, Token};
use crate::store::time::When;
use crate::store::{Act, Lease, Settle};
use crate::threads::reply::{Answer, Reply};

#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Held {
    pub(crate) id: JobId,
    pub(crate) token: Token,
}

impl Held {
    pub(crate) fn of(lease: &Lease) -> Self {
        Self {
            id: lease.id,
            token: lease.token,
        }
    }

    pub(crate) fn settle(self, act: Act<'_>) -> Settle<'_> {
        let Self { id, token } = self;
        Settle { id, token, act }
    }
}

/// A settle that a guard requests from the pump.
#[derive(Debug)]
pub(crate) struct Command {
    pub(crate) held: Held,
    pub(crate) wish: Wish,
    /// `None` if no party waits for the answer.
    pub(crate) reply: Option<Arc<Reply>>,
    /// It was sent before, and the response was lost.
    pub(crate) perhaps_done: bool,
    /// No party waits for it, so it may be part of a later turn.
    pub(crate) can_wait: bool,
}

#[derive(Debug)]
pub(crate) enum Wish {
    /// The job was handed out without confirmation; the lease lasts this long from now.
    Start(Duration),
    Ack,
    /// Acknowledges a job that is kept.
    Keep(Box<KeepWish>),
    /// Acknowledges a run of a repeating job.
    Again(When),
    Retry(When, Failed),
    Bury(Failed),
    Reject(String),
    Extend(Duration),
    /// This process cannot read the job, but another one may.
    Unreadable(Box<Unread>),
    Release,
}

impl Wish {
    pub(crate) fn act(&self) -> Act<'_> {
        match self {
            Self::Start(lease) => Act::Start { lease: *lease },
            Self::Ack => Act::Ack,
            Self::Keep(keep) => Act::Keep(keep.as_keep()),
            Self::Again(when) => Act::Again { when: *when },
            Self::Retry(when, failed) => Act::Retry {
                when: *when,
                failures: Some(failed.text()),
                counts: true,
            },
            Self::Bury(failed) => Act::Bury {
                error: failed.error(),
                failures: Some(failed.text()),
                counts: true,
            },
            Self::Reject(error) => Act::Bury {
                error,
                failures: None,
                counts: false,
            },
            Self::Extend(lease) => Act::Extend { lease: *lease },
            Self::Unreadable(unread) => unread.act(),
            Self::Release => Act::Release,
        }
    }
}

impl Command {
    pub(crate) fn new(held: Held, wish: Wish, reply: Option<Arc<Reply>>) -> Self {
        Self {
            held,
            wish,
            reply,
            perhaps_done: false,
            can_wait: false,
        }
    }

    /// Releases a job that no handler of this process has.
    pub(crate) fn release(lease: &Lease) -> Self {
        Self::new(Held::of(lease), Wish::Release, None)
    }

    /// An acknowledgement without a waiter.
    pub(crate) fn later(held: Held, ack: Wish) -> Self {
        let mut command = Self::new(held, ack, None);
        command.can_wait = true;
        command
    }

    /// Passes on the store's answer. Wakes the waiter, which may be user code.
    pub(crate) fn answer(mut self, answer: Answer) {
        if let Some(reply) = self.reply.take() {
            reply.give(answer);
        }
    }
}

/// Answers a command that ends without a response of the store, so that its waiter does not hang. May run
/// user code.
impl Drop for Command {
    fn drop(&mut self) {
        if let Some(reply) = self.reply.take() {
            reply.give(Err(SettleError::ShutDown));
        }
    }
}

/// A started job on its way from the pump to a call that takes it.
#[derive(Debug)]
pub(crate) struct Ready {
    pub(crate) lease: Lease,
    /// The lane in which its call runs it.
    pub(crate) lane: usize,
    pub(crate) signals: Signals,
    /// The policy that precedes the queue's.
    pub(crate) policy: Option<Arc<JobPolicy>>,
    pub(crate) limit: Option<TimeLimit>,
    /// `None` if the queue has no hooks.
    pub(crate) handed_out: Option<HandedOut>,
}
