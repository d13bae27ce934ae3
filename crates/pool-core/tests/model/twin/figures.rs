//! The vocabulary shared by the model and the walk: statistics, answers, patience.

use std::time::Duration;

use super::job::Id;
use super::subject::{Answer, Why};

/// The expected answer of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Expected {
    /// With a handle, if the call was a spawn.
    Accepted {
        spawn: bool,
    },
    Reserved,
    Refused(Why, Id),
}

impl PartialEq<Expected> for Answer {
    fn eq(&self, expected: &Expected) -> bool {
        match (self, expected) {
            (Self::Accepted(handle), Expected::Accepted { spawn }) => handle.is_some() == *spawn,
            // The caller keeps the permit, because the answer's type is the same for all pools.
            (Self::Accepted(handle), Expected::Reserved) => handle.is_none(),
            (Self::Refused(why, back), Expected::Refused(expected, id)) => {
                (why, back) == (expected, id)
            }
            _ => false,
        }
    }
}

/// The result of a join.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    Value,
    Panicked,
    Cancelled,
    Released,
    Discarded,
    /// The task's start deadline has passed.
    Expired,
    /// The task would have to run in place, beyond the nesting limit.
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

/// All observable state of a pool at rest.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Figures {
    pub(crate) open: bool,
    pub(crate) paused: bool,
    pub(crate) capacity: usize,
    pub(crate) live: usize,
    pub(crate) busy: usize,
    pub(crate) in_flight: usize,
    /// Permits in use.
    pub(crate) reserved: usize,
    pub(crate) queued: usize,
    pub(crate) waiting: usize,
    pub(crate) counts: Counts,
    pub(crate) retired: u64,
    pub(crate) at_gates: Vec<Id>,
    /// Threads that wait on the clock. `None` if the model cannot know.
    pub(crate) sleepers: Option<usize>,
}

/// How long a call waits at a full pool.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Patience {
    None,
    /// The caller runs the task itself.
    RunInCaller,
    /// The oldest queued task is discarded, or the new one if none is queued.
    DiscardOldest,
    DiscardNewest,
    Thread(Option<Duration>),
    Future,
}
