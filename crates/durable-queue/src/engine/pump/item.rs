//! The items of a turn.

use std::time::Duration;

use super::ahead::Ahead;
use crate::engine::command::{Command, Held, Wish};
use crate::store::{Act, Settle};

/// A settle of a turn, and its purpose.
pub(super) enum Item {
    Command(Command),
    Renew(Held),
    Start(Ahead),
}

impl Item {
    pub(super) fn is_synced(&self) -> bool {
        match self {
            Self::Command(command) => command.wish.act().is_durable(),
            Self::Renew(_) | Self::Start(_) => false,
        }
    }

    pub(super) fn is_extension(&self) -> bool {
        match self {
            Self::Command(command) => matches!(command.wish, Wish::Extend(_)),
            Self::Renew(_) => true,
            Self::Start(_) => false,
        }
    }

    pub(super) fn settle(&self, lease: Duration) -> Settle<'_> {
        match self {
            Self::Command(command) => command.held.settle(command.wish.act()),
            Self::Renew(held) => held.settle(Act::Extend { lease }),
            Self::Start(job) => job.lease.settle(Act::Start { lease }),
        }
    }
}
