//! The steps of a program, and how they are read from bytes.

/// Bytes of settings.
pub(crate) const HEAD: usize = 2;
/// Bytes of a step.
pub(crate) const STEP: usize = 3;

#[derive(Clone, Copy, Debug)]
pub(crate) struct Settings {
    /// The queue's bound; `usize::MAX` for none.
    pub(crate) bound: usize,
}

/// The reaction of a taker to its wake-up.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Conduct {
    /// It is polled some time later, or never.
    Later,
    /// The waker polls it.
    InPlace,
    /// The waker panics.
    Panics,
    /// The waker drops the future.
    Drops,
    /// The waker drops the future that was made before this one.
    DropsOther,
    /// The waker pushes.
    Pushes,
}

/// Times are in seconds. A `u8` selects one of the existing ones.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Op {
    Push(u8),
    /// At a time before now.
    PushPast(u8),
    PushNever,
    /// By a future, which waits if the queue is full.
    PushAsync(u8),
    PollPush(u8),
    DropPush(u8),
    Wait(Conduct),
    /// For a batch of up to this many.
    WaitMany(u8, Conduct),
    Poll(u8),
    Drop(u8),
    TryTake,
    Drain(u8),
    TryTakeMany(u8),
    Cancel(u8),
    Reset(u8, u8),
    ResetNever(u8),
    Advance(u8),
    Clear,
    Shrink,
    Reserve(u8),
    Close,
    CloseNow,
    /// Whether alarms fail from now on.
    Fail(bool),
    /// This many alarms ring as they are set, before their time.
    RingAtOnce(u8),
    /// All alarms that were ever set ring.
    RingAll,
}

pub(crate) fn decode(bytes: &[u8]) -> (Settings, Vec<Op>) {
    let bound = match bytes.first() {
        Some(bound) if bound % 4 == 0 => 1 + usize::from(bound / 4 % 8),
        _ => usize::MAX,
    };
    let (steps, _) = bytes.get(HEAD..).unwrap_or_default().as_chunks::<STEP>();
    let steps = steps.iter().copied().map(Op::from_bytes);
    (Settings { bound }, steps.collect())
}

impl Conduct {
    fn from_byte(byte: u8) -> Self {
        match byte % 16 {
            0..=6 => Self::Later,
            7..=10 => Self::InPlace,
            11 => Self::Panics,
            12..=13 => Self::Drops,
            14 => Self::DropsOther,
            _ => Self::Pushes,
        }
    }
}

impl Op {
    fn from_bytes([kind, which, arg]: [u8; STEP]) -> Self {
        let delay = arg % 8;
        match kind % 64 {
            0..=8 => Self::Push(delay),
            9 => Self::PushPast(delay),
            10 => Self::PushNever,
            11..=14 => Self::PushAsync(delay),
            15..=16 => Self::PollPush(which),
            17 => Self::DropPush(which),
            18..=26 => Self::Wait(Conduct::from_byte(arg)),
            27..=29 => Self::WaitMany(1 + which % 4, Conduct::from_byte(arg)),
            30..=37 => Self::Poll(which),
            38..=40 => Self::Drop(which),
            41..=42 => Self::TryTake,
            43 if which < 128 => Self::Drain(delay),
            43 => Self::TryTakeMany(1 + delay),
            44..=46 => Self::Cancel(which),
            47..=49 => Self::Reset(which, delay),
            50 => Self::ResetNever(which),
            51..=58 => Self::Advance(1 + arg % 4),
            59 if arg < 64 => Self::Clear,
            59 if arg < 160 => Self::Shrink,
            59 => Self::Reserve(which),
            60 => Self::Fail(arg < 64),
            61 => Self::RingAtOnce(arg % 4),
            62 => Self::RingAll,
            // Rarer than one in sixty-four, because programs would end early otherwise.
            _ if arg < 24 => Self::Close,
            _ if arg < 32 => Self::CloseNow,
            _ => Self::Advance(1),
        }
    }
}
