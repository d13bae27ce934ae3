//! The steps of a program, and how they are read from bytes.

use std::num::{NonZeroU32, NonZeroUsize};

use dedup_queue::Policy;

/// The number of different keys: few, so that they meet.
pub(crate) const KEYS: u8 = 6;
/// Bytes of settings.
pub(crate) const HEAD: usize = 4;
/// Bytes of a step.
pub(crate) const STEP: usize = 3;

/// Times are in milliseconds.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Settings {
    pub(crate) policy: Policy,
    pub(crate) base: u64,
    pub(crate) max: u64,
    pub(crate) max_attempts: Option<NonZeroU32>,
    pub(crate) expiry: Option<u64>,
}

#[derive(Clone, Copy, Debug)]
pub(crate) enum Op {
    /// The flag selects the low priority, also in the next two.
    Add(u8, bool),
    AddAfter(u8, u64, bool),
    AddAfterBackoff(u8, bool),
    AddRateLimited(u8),
    Get,
    GetBatch(NonZeroUsize),
    Done(u8),
    Succeed(u8),
    Retry(u8),
    RetryAfter(u8, u64),
    RetryFailedAfter(u8, u64),
    ForgetHeld(u8),
    Forget(u8),
    Remove(u8),
    RemoveDelayed(u8),
    Advance(u64),
    ShutDown,
    Drain,
    Shrink,
}

pub(crate) fn decode(bytes: &[u8]) -> (Settings, Vec<Op>) {
    let mut head = [0; HEAD];
    for (to, from) in head.iter_mut().zip(bytes) {
        *to = *from;
    }
    let [policy, limiter, attempts, expiry] = head;
    let settings = Settings {
        policy: match policy % 4 {
            0 => Policy::Earliest,
            1 => Policy::Latest,
            2 => Policy::Debounce,
            _ => Policy::DebounceMaxWait(std::time::Duration::from_millis(u64::from(policy / 16))),
        },
        base: u64::from(limiter % 4),
        max: u64::from(limiter / 4),
        max_attempts: NonZeroU32::new(u32::from(attempts % 6)),
        expiry: (expiry % 4 != 0).then_some(u64::from(expiry / 4)),
    };
    let (steps, _) = bytes.get(HEAD..).unwrap_or_default().as_chunks::<STEP>();
    (
        settings,
        steps.iter().copied().map(Op::from_bytes).collect(),
    )
}

impl Op {
    fn from_bytes([kind, key, arg]: [u8; STEP]) -> Self {
        let low = arg >= 128;
        let (which, key, arg) = (key, key % KEYS, u64::from(arg % 16));
        match kind % 64 {
            0..=6 => Self::Add(key, low),
            7..=9 => Self::AddAfterBackoff(key, low),
            10..=17 => Self::AddAfter(key, arg, low),
            18..=21 => Self::AddRateLimited(key),
            22..=31 => Self::Get,
            32 => Self::GetBatch(NonZeroUsize::MIN.saturating_add(usize::from(key))),
            33..=37 => Self::Done(which),
            38..=40 => Self::Succeed(which),
            41..=44 => Self::Retry(which),
            45..=46 => Self::RetryFailedAfter(which, arg),
            47..=48 => Self::RetryAfter(which, arg),
            49 => Self::ForgetHeld(which),
            50 => Self::Forget(key),
            51..=52 => Self::Remove(key),
            53 => Self::RemoveDelayed(key),
            54..=61 => Self::Advance(arg),
            62 => Self::Shrink,
            // Rarer than one in sixty-four, because programs would end early otherwise.
            _ if arg == 0 => Self::Drain,
            _ if arg < 3 => Self::ShutDown,
            _ => Self::Advance(arg),
        }
    }
}
