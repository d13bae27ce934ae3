//! The steps of a program of waiters, and how they are read from bytes.

use std::num::NonZeroU32;

/// The number of different keys: few, so that they meet.
pub(crate) const KEYS: u8 = 4;
/// The most getters, and the most drains, at a time.
pub(crate) const GETTERS: usize = 4;
pub(crate) const DRAINS: usize = 2;
/// Bytes of settings.
pub(crate) const HEAD: usize = 2;
/// Bytes of a step.
pub(crate) const STEP: usize = 3;

/// Times are in milliseconds.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Settings {
    pub(crate) delay: u64,
    pub(crate) expiry: Option<u64>,
    pub(crate) max_attempts: Option<NonZeroU32>,
}

/// The action of a waker, in addition to scheduling its future.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Act {
    Nothing,
    /// Polls its own future at once, as an executor without a queue does.
    Poll,
    /// Takes a key and holds it.
    Take,
    /// Takes a key and releases it.
    Work,
    Add(u8),
    /// Drops another getter, or a drain.
    DropGetter(usize),
    DropDrain(usize),
    ShutDown,
    Panic,
    /// Panics when it is dropped.
    PanicOnDrop,
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum Op {
    Add(u8),
    AddAfter(u8, u64),
    AddRateLimited(u8),
    Remove(u8),
    TryGet,
    Done(u8),
    Succeed(u8),
    Retry(u8),
    RetryAfter(u8, u64),
    /// Polls the getter in this slot; makes it first if there is none.
    Get(usize, Act),
    /// The same for a drain.
    Drain(usize, Act),
    DropGetter(usize),
    DropDrain(usize),
    /// Polls all woken futures, with wakers that do this.
    RunWoken(Act),
    DrainNow,
    ShutDown,
    Advance(u64),
}

pub(crate) fn decode(bytes: &[u8]) -> (Settings, Vec<Op>) {
    let mut head = [0; HEAD];
    for (to, from) in head.iter_mut().zip(bytes) {
        *to = *from;
    }
    let settings = Settings {
        delay: u64::from(head[0] % 4),
        expiry: (head[0] >= 64).then_some(u64::from(head[0] / 16)),
        max_attempts: NonZeroU32::new(u32::from(head[1] % 4)),
    };
    let (steps, _) = bytes.get(HEAD..).unwrap_or_default().as_chunks::<STEP>();
    let ops = steps.iter().copied().map(Op::from_bytes).collect();
    (settings, ops)
}

impl Act {
    fn from_byte(byte: u8) -> Self {
        let place = usize::from(byte / 16);
        match byte % 16 {
            0..=3 => Self::Nothing,
            4..=6 => Self::Poll,
            7 => Self::Take,
            8 => Self::Work,
            9..=10 => Self::Add(byte / 16 % KEYS),
            11 => Self::DropGetter(place % GETTERS),
            12 => Self::DropDrain(place % DRAINS),
            13 => Self::Panic,
            14 => Self::PanicOnDrop,
            _ if place == 0 => Self::ShutDown,
            _ => Self::Nothing,
        }
    }
}

impl Op {
    fn from_bytes([kind, which, arg]: [u8; STEP]) -> Self {
        let (key, span, act) = (which % KEYS, u64::from(arg % 8), Act::from_byte(arg));
        let (getter, drain) = (usize::from(which) % GETTERS, usize::from(which) % DRAINS);
        let is_rare = arg < 64; // Otherwise programs would end early.
        match kind % 64 {
            10..=13 => Self::AddAfter(key, span),
            14..=15 => Self::AddRateLimited(key),
            16 => Self::Remove(key),
            17..=19 => Self::TryGet,
            20..=22 => Self::Done(which),
            23..=24 => Self::Succeed(which),
            25..=27 => Self::Retry(which),
            28 => Self::RetryAfter(which, span),
            29..=41 => Self::Get(getter, act),
            42..=43 => Self::DropGetter(getter),
            44..=52 => Self::RunWoken(act),
            53..=60 => Self::Advance(span),
            61 if is_rare => Self::Drain(drain, Act::from_byte(arg.wrapping_mul(17))),
            62 if is_rare => Self::DropDrain(drain),
            63 if arg < 8 => Self::ShutDown,
            63 if arg < 16 => Self::DrainNow,
            _ => Self::Add(key),
        }
    }
}
