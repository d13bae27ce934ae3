//! Programs: settings of a pool, and steps.

/// Bytes of the settings.
pub(crate) const HEAD: usize = 2;
/// Bytes of a step.
pub(crate) const STEP: usize = 2;
/// The most steps of a program.
pub(crate) const LONGEST: usize = 60;

#[derive(Clone, Copy, Debug)]
pub(crate) struct Settings {
    pub(crate) workers: usize,
    pub(crate) capacity: usize,
    pub(crate) depth: usize,
    pub(crate) max_waiting: usize,
}

/// How a call waits for room.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum How {
    Try,
    /// Until a deadline that has passed.
    NoTime,
    /// By a future, which is polled once.
    Async,
}

/// Next step of a task's future.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Act {
    Wait,
    Finish,
    Panic,
    /// Waits until this number of seconds after the start of the program, then is ready.
    SleepUntil(u64),
}

/// A step. An index is modulo the number of candidates.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Op {
    Put {
        how: How,
        has_handle: bool,
        panics_in_drop: bool,
    },
    Reserve(How),
    UsePermit(usize),
    DropPermit(usize),
    PollWait(usize),
    DropWait(usize),
    /// Has a task act at its next poll, and wakes it.
    Act(usize, Act),
    /// Wakes a task without a cause.
    Nudge(usize),
    Cancel(usize),
    DropHandle {
        at: usize,
        cancels: bool,
    },
    Join(usize),
    Advance(u64),
    Tune(usize),
    Release,
    ReleaseNow,
    Reboot,
}

pub(crate) fn decode(bytes: &[u8]) -> (Settings, Vec<Op>) {
    let (head, steps) = bytes.split_at(bytes.len().min(HEAD));
    let byte = |at: usize| usize::from(head.get(at).copied().unwrap_or(0));
    let settings = Settings {
        workers: 1 + byte(0) % 3,
        capacity: 1 + byte(0) / 3 % 3,
        depth: byte(1) % 3,
        max_waiting: byte(1) / 3 % 4,
    };
    let steps = steps.chunks_exact(STEP).take(LONGEST);
    (settings, steps.map(|step| op(step[0], step[1])).collect())
}

fn op(kind: u8, argument: u8) -> Op {
    let at = usize::from(argument);
    let how = [How::Try, How::NoTime, How::Async][at % 3];
    match kind % 32 {
        0..=8 => Op::Put {
            how,
            has_handle: argument & 64 == 0,
            panics_in_drop: argument >= 224,
        },
        9 | 10 => Op::Reserve(how),
        11 => Op::UsePermit(at),
        12 => Op::DropPermit(at),
        13 | 14 => Op::PollWait(at),
        15 => Op::DropWait(at),
        16..=18 => Op::Act(at, Act::Finish),
        19 => Op::Act(at, Act::Panic),
        20 => Op::Act(at / 4, Act::SleepUntil(u64::from(argument % 4))),
        21 => Op::Nudge(at),
        22 | 23 => Op::Cancel(at),
        24 => Op::DropHandle {
            at: at / 2,
            cancels: argument % 2 == 1,
        },
        25 => Op::Join(at),
        26 => Op::Advance(u64::from(argument % 3)),
        27 | 28 => Op::Tune(1 + at % 4),
        // Rare, because little happens afterwards.
        29 if argument < 64 => Op::Release,
        30 if argument < 64 => Op::ReleaseNow,
        29..=31 => Op::Reboot,
        _ => unreachable!("a remainder"),
    }
}
