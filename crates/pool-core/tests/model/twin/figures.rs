//! The vocabulary of model and walk: what there is to be seen of a pool, and to be said by it.

use std::time::Duration;

use super::job::Id;
use super::subject::{Answer, Why};

/// What a call's answer is to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Expected {
    /// With a handle, if it was a spawn.
    Accepted {
        spawn: bool,
    },
    /// With a permit.
    Reserved,
    Refused(Why, Id),
}

impl PartialEq<Expected> for Answer {
    fn eq(&self, expected: &Expected) -> bool {
        match (self, expected) {
            (Self::Accepted(handle), Expected::Accepted { spawn }) => handle.is_some() == *spawn,
            // The permit is kept apart: an answer is any kind of pool's.
            (Self::Accepted(handle), Expected::Reserved) => handle.is_none(),
            (Self::Refused(why, back), Expected::Refused(expected, id)) => {
                (why, back) == (expected, id)
            }
            _ => false,
        }
    }
}

/// What a join says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    Value,
    Panicked,
    Cancelled,
    Released,
    Discarded,
    /// Not started in time.
    Expired,
    /// It would have to be run in place, and the nesting limit forbids that.
    Refused,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Counts {
    pub(crate) submitted: u64,
    pub(crate) completed: u64,
    pub(crate) panicked: u64,
    pub(crate) cancelled: u64,
    pub(crate) released: u64,
    pub(crate) discarded: u64,
    pub(crate) expired: u64,
    pub(crate) refused: u64,
    pub(crate) started: u64,
}

/// Everything that can be seen of a pool at rest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Figures {
    pub(crate) open: bool,
    pub(crate) paused: bool,
    pub(crate) capacity: usize,
    pub(crate) live: usize,
    pub(crate) busy: usize,
    pub(crate) in_flight: usize,
    /// Permits that are out.
    pub(crate) reserved: usize,
    pub(crate) queued: usize,
    pub(crate) waiting: usize,
    pub(crate) counts: Counts,
    pub(crate) retired: u64,
    pub(crate) at_gates: Vec<Id>,
    /// Threads that wait on the clock, where that is certain.
    pub(crate) sleepers: Option<usize>,
}

/// How long a call is ready to wait.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Patience {
    None,
    /// The caller runs the task itself.
    RunInCaller,
    /// The oldest in the queue is given up for it, or it is itself.
    DiscardOldest,
    DiscardNewest,
    Thread(Option<Duration>),
    Future,
}
