//! Programs of the pushing parties, and the fates of jobs in handlers.

use std::time::Duration;

use durable_queue::{Merge, When};
use testkit::Rng;

use crate::support::SECOND;

/// Number of keys of jobs, and of repeating jobs.
pub(super) const KEYS: usize = 3;
pub(super) const REPEATING: usize = 2;
const STEPS: usize = 30;

pub(super) struct Program(pub(super) Vec<Op>);

/// A step of a program.
#[derive(Clone, Debug)]
pub(super) enum Op {
    Push {
        delay: Duration,
        urgent: bool,
        fate: Fate,
    },
    Batch {
        delays: Vec<Duration>,
        fate: Fate,
    },
    Keyed {
        key: usize,
        delay: Duration,
        merge: Policy,
        fate: Fate,
    },
    Repeating(usize),
    CancelKey(usize),
    ResetKey(usize, Duration),
    /// One of the known jobs, by age.
    CancelSome(usize),
    ResetSome(usize, Duration),
    Pause,
    Resume,
    Redrive,
    /// Waits for this time.
    Wait(Duration),
    /// Waits until a process has most likely claimed a job ahead.
    WaitForClaim,
    /// Closes the queue in one of the processes.
    Close,
}

/// A [`Merge`] whose bound is not known yet.
#[derive(Clone, Copy, Debug)]
pub(super) enum Policy {
    Is(Merge),
    DebounceUntil(Duration),
}

/// The handler's action at the first attempt. Later attempts mostly succeed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Fate {
    Ack,
    AckLater,
    AckWithNext,
    ExtendAndAck,
    /// Takes some time before it acknowledges.
    WaitAndAck,
    Retry,
    RetryAt,
    Bury,
    Drop,
    Panic,
}

/// Names in a job's payload.
const FATES: [Fate; 10] = [
    Fate::Ack,
    Fate::AckLater,
    Fate::AckWithNext,
    Fate::ExtendAndAck,
    Fate::WaitAndAck,
    Fate::Retry,
    Fate::RetryAt,
    Fate::Bury,
    Fate::Drop,
    Fate::Panic,
];

impl Fate {
    pub(super) fn random(rng: &mut Rng) -> Self {
        FATES[rng.below(FATES.len())]
    }

    pub(super) fn name(self) -> String {
        format!("{self:?}")
    }

    pub(super) fn of(name: &str) -> Self {
        let mut fates = FATES.into_iter();
        fates.find(|it| it.name() == name).unwrap()
    }
}

impl Op {
    pub(super) fn keyed(key: usize, delay: Duration) -> Self {
        Self::Keyed {
            key,
            delay,
            merge: Policy::Is(Merge::Earliest),
            fate: Fate::Ack,
        }
    }

    /// A push to one of a few keys, some of whose jobs run.
    fn of_a_crowd(rng: &mut Rng) -> Self {
        let fate = if rng.chance(2) {
            Fate::WaitAndAck
        } else {
            Fate::random(rng)
        };
        Self::Keyed {
            key: 0,
            delay: SECOND / 10 * u32::try_from(rng.below(3)).unwrap(),
            merge: Policy::Is(Merge::Keep),
            fate,
        }
    }

    fn random(rng: &mut Rng) -> Self {
        let delay = delay(rng);
        let fate = Fate::random(rng);
        let (key, number) = (rng.below(KEYS), rng.below(6));
        match rng.below(36) {
            0..=6 => Self::Push {
                delay,
                urgent: rng.chance(3),
                fate,
            },
            7..=9 => Self::Batch {
                delays: (0..=rng.below(4)).map(|_| self::delay(rng)).collect(),
                fate,
            },
            10..=15 => Self::Keyed {
                key,
                delay,
                merge: match rng.below(5) {
                    0 => Policy::Is(Merge::Keep),
                    1 => Policy::Is(Merge::Earliest),
                    2 => Policy::Is(Merge::Latest),
                    3 => Policy::Is(Merge::Debounce),
                    _ => Policy::DebounceUntil(delay + self::delay(rng)),
                },
                fate,
            },
            16 | 17 => Self::Repeating(rng.below(REPEATING)),
            18 => Self::CancelKey(key),
            19 => Self::ResetKey(key, delay),
            20..=22 => Self::CancelSome(number),
            23..=25 => Self::ResetSome(number, delay),
            26 => Self::Pause,
            27 | 28 => Self::Resume,
            29 => Self::Redrive,
            30..=33 => Self::WaitForClaim,
            _ => Self::Wait(delay),
        }
    }
}

impl Program {
    pub(super) fn random(rng: &mut Rng) -> Self {
        let is_crowd = rng.chance(2);
        let op = |_| {
            if is_crowd && rng.chance(2) {
                Op::of_a_crowd(rng)
            } else {
                Op::random(rng)
            }
        };
        let mut ops: Vec<Op> = (0..STEPS).map(op).collect();
        if rng.chance(3) {
            ops.push(Op::Close);
        }
        Self(ops)
    }
}

impl Policy {
    /// Returns the policy. `at` records the times at which a job may be due because of it.
    pub(super) fn merge(self, at: impl Fn(Duration) -> durable_queue::StoreTime) -> Merge {
        match self {
            Self::Is(merge) => merge,
            Self::DebounceUntil(most) => Merge::DebounceUntil(When::At(at(most))),
        }
    }
}

fn delay(rng: &mut Rng) -> Duration {
    SECOND / 10 * u32::try_from(rng.below(40)).unwrap()
}
