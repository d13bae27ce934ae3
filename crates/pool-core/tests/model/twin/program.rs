//! Programs: the settings of a pool, and the steps.
//!
//! Both are decoded from bytes, and any bytes are a program. The property test generates them, and
//! the fuzzer searches them. Small numbers stand for simple settings and steps, so that a failing
//! program shrinks to a short one.

use std::time::Duration;

use pool_core::WithinWorker;

use super::given::{Given, TOKENS};
use super::subject::How;
use super::{group, permits};

/// The settings of a program's pool.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Settings {
    /// Tasks are arguments of a typed pool instead of closures.
    pub(crate) typed: bool,
    /// `None`: unlimited.
    pub(crate) capacity: Option<usize>,
    /// `None`: unlimited.
    pub(crate) depth: Option<usize>,
    pub(crate) max_waiting: Option<usize>,
    pub(crate) on_full: Policy,
    pub(crate) keep_alive: Option<Duration>,
    pub(crate) min_workers: usize,
    pub(crate) prestart: usize,
    pub(crate) preallocate: bool,
    pub(crate) priorities: bool,
    pub(crate) within_worker: WithinWorker,
    pub(crate) nesting_limit: u32,
}

/// The behaviour of a call without a time limit at a full pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Policy {
    Wait,
    Refuse,
    RunInCaller,
    DiscardOldest,
    DiscardNewest,
}

/// A step. A `usize` selects a task at a gate, a handle or a future, modulo their number. If there
/// is none, the step does nothing.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Op {
    /// Submits a task, on its own thread if the call may block.
    Hand {
        how: How,
        spawn: bool,
        given: Given,
    },
    /// Submits a task as a future, and polls it once.
    HandAsync {
        spawn: bool,
        given: Given,
    },
    /// A task at its gate submits another one.
    HandWithin {
        task: usize,
        how: How,
        spawn: bool,
        given: Given,
    },
    /// A task at its gate joins a spawned one.
    JoinWithin {
        task: usize,
        handle: usize,
    },
    Finish {
        task: usize,
        panics: bool,
    },
    Cancel {
        handle: usize,
    },
    /// Later tasks get a new token instead.
    CancelToken {
        token: usize,
    },
    /// Submits several tasks in one call. With `waits`, by the call that follows the pool's policy
    /// if that does not wait, otherwise by the call that refuses.
    HandBatch {
        tasks: usize,
        waits: bool,
    },
    Permit(permits::Step),
    Group(group::Step),
    /// Joins the task if it has ended, otherwise checks that it has not.
    Join {
        handle: usize,
    },
    Detach {
        handle: usize,
    },
    /// Polls a waiting future again, with another waker.
    Poll {
        future: usize,
    },
    DropFuture {
        future: usize,
    },
    Tune {
        capacity: Option<usize>,
    },
    Advance {
        by: Duration,
    },
    Pause,
    Resume,
    Release,
    ReleaseNow,
    Reboot,
    /// A thread starts to wait until the pool is idle.
    WaitIdle,
    /// Waits for the end if the pool has ended, otherwise checks that it has not.
    WaitReleased,
    /// Sets whether threads are refused from now on.
    Threads {
        refused: bool,
    },
}

/// Bytes of the settings.
pub(crate) const HEAD: usize = 8;
/// Bytes of a step.
pub(crate) const STEP: usize = 3;
/// The maximum number of steps. Each may hold a thread.
pub(crate) const LONGEST: usize = 100;

impl Settings {
    pub(crate) fn from_bytes(bytes: [u8; HEAD]) -> Self {
        let [
            kind,
            capacity,
            depth,
            waiting,
            keep_alive,
            workers,
            within,
            nesting,
        ] = bytes;
        let limited = capacity % 8 < 7;
        let capacity = limited.then_some(usize::from(capacity % 8 % 4) + 1);
        let most = capacity.unwrap_or(4);
        let min_workers = usize::from(workers / 4 % 4).saturating_sub(1).min(most);
        Self {
            typed: kind & 1 != 0,
            capacity,
            depth: (depth % 8 < 7).then_some(usize::from(depth % 8 / 2)),
            max_waiting: (waiting % 4 == 3).then_some(usize::from(waiting / 4 % 4)),
            on_full: match (within / 4 % 8, kind % 16) {
                (5, _) => Policy::RunInCaller,
                (6, _) => Policy::DiscardOldest,
                (7, _) => Policy::DiscardNewest,
                (_, 14..) => Policy::Refuse,
                _ => Policy::Wait,
            },
            keep_alive: match keep_alive % 4 {
                0 => None,
                1 => Some(Duration::ZERO),
                more => Some(Duration::from_secs(5 * u64::from(more))),
            },
            min_workers,
            prestart: usize::from(workers % 4).saturating_sub(2).min(most),
            preallocate: limited && kind & 2 != 0,
            priorities: kind & 64 != 0,
            within_worker: match within % 4 {
                2 => WithinWorker::Refuse,
                3 => WithinWorker::Block,
                _ => WithinWorker::RunInPlace,
            },
            nesting_limit: u32::from(nesting % 4),
        }
    }
}

impl Op {
    pub(crate) fn from_bytes([op, a, b]: [u8; STEP]) -> Self {
        let (pick, other) = (usize::from(a), usize::from(b));
        let spawn = b & 1 != 0;
        let how = match b / 2 % 4 {
            0 | 1 => How::Wait,
            2 => How::Try,
            _ => How::Timeout(Duration::from_secs(u64::from(a % 16))),
        };
        let given = Given::from_bits(b / 8);
        match op % 88 {
            0..13 => Self::Hand { how, spawn, given },
            13..18 => Self::HandAsync { spawn, given },
            18..23 => Self::HandWithin {
                task: pick,
                how,
                spawn,
                given,
            },
            23..26 => Self::JoinWithin {
                task: pick,
                handle: other,
            },
            26..40 => Self::Finish {
                task: pick,
                panics: b % 4 == 3,
            },
            40..43 => Self::Cancel { handle: pick },
            43 => Self::CancelToken {
                token: pick % TOKENS,
            },
            44..46 => Self::Join { handle: pick },
            46 => Self::Detach { handle: pick },
            47 => Self::Poll { future: pick },
            48..50 => Self::DropFuture { future: pick },
            50..53 => Self::Tune {
                capacity: (a % 16 < 15).then_some(pick % 16 % 6),
            },
            53..56 => Self::Advance {
                by: Duration::from_secs(u64::from(a % 16) + 1),
            },
            56 => Self::Release,
            57 => Self::ReleaseNow,
            58..61 => Self::Reboot,
            61 if b % 4 < 2 => Self::Pause,
            61 => Self::Resume,
            62 => Self::WaitIdle,
            64..68 => Self::Permit(permits::Step::Reserve { how }),
            68..70 => Self::Permit(permits::Step::ReserveAsync),
            70..74 => Self::Permit(permits::Step::Use {
                permit: pick,
                spawn,
            }),
            74..76 => Self::Permit(permits::Step::Drop { permit: pick }),
            76..79 => Self::HandBatch {
                tasks: pick % 6,
                waits: spawn,
            },
            79..84 => Self::Group(group::Step::Spawn { waits: spawn }),
            84..86 => Self::Group(group::Step::Next),
            86 => Self::Group(group::Step::Cancel),
            87 => Self::Group(group::Step::Drop),
            _ => match b % 4 {
                0 | 1 => Self::WaitReleased,
                2 => Self::Threads { refused: true },
                _ => Self::Threads { refused: false },
            },
        }
    }
}

/// Decodes the settings and the steps from any bytes.
pub(crate) fn decode(bytes: &[u8]) -> (Settings, Vec<Op>) {
    let mut head = [0; HEAD];
    let known = bytes.len().min(HEAD);
    head[..known].copy_from_slice(&bytes[..known]);
    let (steps, _) = bytes[known..].as_chunks::<STEP>();
    let steps = steps.iter().copied().take(LONGEST);
    let ops = steps.map(Op::from_bytes).collect();
    (Settings::from_bytes(head), ops)
}
