//! What the settles of a turn are for.

use std::time::Duration;

use super::ahead::Ahead;
use crate::command::{Command, Held};
use crate::store::{Act, Lease, Settle};

/// One settle of a turn, and what it is for.
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

    pub(super) fn settle(&self, lease: Duration) -> Settle<'_> {
        let (held, act) = match self {
            Self::Command(Command { held, wish, .. }) => (*held, wish.act()),
            Self::Renew(held) => (*held, Act::Extend { lease }),
            Self::Start(Ahead {
                lease: Lease { id, token, .. },
                ..
            }) => (
                Held {
                    id: *id,
                    token: *token,
                },
                Act::Start { lease },
            ),
        };
        Settle {
            id: held.id,
            token: held.token,
            act,
        }
    }
}
