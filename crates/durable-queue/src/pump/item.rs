//! What the settles of a turn are for.

use std::time::Duration;

use super::Ahead;
use crate::control::{Command, Held, Wish};
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

impl Wish {
    pub(super) fn act(&self) -> Act<'_> {
        match self {
            Self::Start(lease) => Act::Start { lease: *lease },
            Self::Ack => Act::Ack,
            Self::Again(when) => Act::Again { when: *when },
            Self::Retry(when) => Act::Retry { when: *when },
            Self::Bury(error) => Act::Bury { error },
            Self::Reject(error) => Act::Reject { error },
            Self::Extend(lease) => Act::Extend { lease: *lease },
            Self::Release => Act::Release,
        }
    }
}
