//! Programs of keyed tasks, decoded from bytes.

/// The settings of a program's pool.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Settings {
    pub(crate) capacity: usize,
    /// `None`: unlimited.
    pub(crate) depth: Option<usize>,
    /// Tasks of a key that run at a time.
    pub(crate) limit: u32,
}

/// The index of the key. `None`: a plain task of the pool.
pub(crate) type Key = Option<u8>;

/// A step. A `usize` selects one of the existing objects, modulo their number. If there is none,
/// the step does nothing.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Op {
    /// Submits a task without waiting.
    Hand {
        key: Key,
        spawn: bool,
    },
    /// Submits a task as a future, which is polled at once and whenever it is woken.
    HandAsync {
        key: Key,
        spawn: bool,
    },
    /// A task at its gate submits another one.
    HandWithin {
        task: usize,
        key: Key,
        spawn: bool,
    },
    /// A task at its gate joins an unstarted task of a key, which is refused.
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
    DropFuture {
        future: usize,
    },
    Pause,
    Resume,
    Release,
    ReleaseNow,
    Reboot,
}

/// Bytes of the settings.
pub(crate) const HEAD: usize = 2;
/// Bytes of a step.
pub(crate) const STEP: usize = 2;
/// The maximum number of steps.
pub(crate) const LONGEST: usize = 100;

/// Few keys, so that several tasks have the same one.
const KEYS: u8 = 3;

impl Op {
    fn from_bytes([op, a]: [u8; STEP]) -> Self {
        let pick = usize::from(a / 8);
        let (key, spawn) = ((a / 2 % 4).checked_sub(4 - KEYS), a % 2 == 1);
        match op % 32 {
            0..10 => Self::Hand { key, spawn },
            10..13 => Self::HandAsync { key, spawn },
            13..16 => Self::HandWithin {
                task: pick,
                key,
                spawn,
            },
            16 => Self::JoinWithin {
                task: pick,
                handle: pick / 4,
            },
            17..25 => Self::Finish {
                task: pick,
                panics: a % 8 == 7,
            },
            25..27 => Self::Cancel { handle: pick },
            27 => Self::DropFuture { future: pick },
            28 if a % 2 == 0 => Self::Pause,
            28 | 29 => Self::Resume,
            30 if a % 4 == 0 => Self::ReleaseNow,
            30 if a % 4 == 1 => Self::Release,
            _ => Self::Reboot,
        }
    }
}

/// Decodes the settings and the steps from any bytes.
pub(crate) fn decode(bytes: &[u8]) -> (Settings, Vec<Op>) {
    let mut head = [0; HEAD];
    let known = bytes.len().min(HEAD);
    head[..known].copy_from_slice(&bytes[..known]);
    let (steps, _) = bytes[known..].as_chunks::<STEP>();
    let ops = steps.iter().take(LONGEST).map(|&step| Op::from_bytes(step));
    let settings = Settings {
        capacity: usize::from(head[0] % 3) + 1,
        depth: (head[1] % 8 < 6).then_some(usize::from(head[1] % 8)),
        limit: u32::from(head[1] / 8 % 3) + 1,
    };
    (settings, ops.collect())
}
