//! Programs of steps for the timer, decoded from arbitrary bytes.

/// The settings of a timer.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Settings {
    /// Tasks that the pool accepts. Further tasks wait in its wait queue.
    pub(crate) room: usize,
    /// Series outlive the release.
    pub(crate) continue_series: bool,
    /// Pending schedules outlive the release.
    pub(crate) run_pending: bool,
}

/// Action of a task, a waker or a destructor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Deed {
    Nothing,
    Panic,
    /// Cancels a schedule, possibly its own.
    Cancel(usize),
    /// Schedules another task.
    Schedule,
    Release,
}

/// A step. A `usize` selects one of the existing schedules, modulo their number.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Op {
    Once {
        delay: u64,
        deed: Deed,
    },
    Series {
        delay: u64,
        rest: u64,
        runs: Option<u64>,
        deed: Deed,
    },
    Cancel {
        handle: usize,
    },
    Reset {
        handle: usize,
        delay: u64,
    },
    /// Registers a waker with this action.
    Poll {
        handle: usize,
        panics: bool,
    },
    TryJoin {
        handle: usize,
    },
    Drop {
        handle: usize,
    },
    Advance {
        by: u64,
    },
    /// The pool runs its next task.
    Run,
    Release,
    ReleaseNow,
    /// Another handle releases the pool.
    ReleaseElsewhere,
}

pub(crate) const HEAD: usize = 1;
pub(crate) const STEP: usize = 3;
pub(crate) const LONGEST: usize = 60;

/// Decodes arbitrary bytes.
pub(crate) fn decode(bytes: &[u8]) -> (Settings, Vec<Op>) {
    let head = bytes.first().copied().unwrap_or(0);
    let settings = Settings {
        room: usize::from(head % 4),
        continue_series: head & 4 != 0,
        run_pending: head & 8 == 0,
    };
    let steps = bytes.get(HEAD..).unwrap_or(&[]).chunks_exact(STEP);
    (
        settings,
        steps
            .take(LONGEST)
            .map(|step| op(step[0], step[1], step[2]))
            .collect(),
    )
}

fn op(kind: u8, a: u8, b: u8) -> Op {
    let delay = match a % 8 {
        7 => u64::MAX,
        delay => u64::from(delay),
    };
    let deed = match b % 16 {
        0..=7 => Deed::Nothing,
        8 | 9 => Deed::Panic,
        10 | 11 => Deed::Cancel(usize::from(a)),
        12..=14 => Deed::Schedule,
        _ => Deed::Release,
    };
    let handle = usize::from(a);
    match kind % 24 {
        0..=4 => Op::Once { delay, deed },
        5..=7 => Op::Series {
            delay,
            rest: 1 + u64::from(a / 8 % 4),
            runs: (b & 16 != 0).then_some(2),
            deed,
        },
        8..=9 => Op::Cancel { handle },
        10..=11 => Op::Poll {
            handle,
            panics: b & 1 != 0,
        },
        12 => Op::TryJoin { handle },
        13 => Op::Drop { handle },
        14 => Op::Reset {
            handle,
            delay: [0, 1, 3, u64::MAX][usize::from(b % 4)],
        },
        15..=16 => Op::Advance {
            by: u64::from(b % 5),
        },
        17..=22 => Op::Run,
        _ => match b % 8 {
            0 => Op::ReleaseNow,
            1 => Op::ReleaseElsewhere,
            2 => Op::Release,
            _ => Op::Run,
        },
    }
}
