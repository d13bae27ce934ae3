//! The words for jobs: what is put in, how it is named, and what became of a call.

use std::fmt;
use std::hash::{BuildHasher, RandomState};

use sync_shim::atomic::{AtomicU64, Ordering::Relaxed};

use crate::time::{StoreTime, When};

/// The name of a job. A store never gives one away twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct JobId(u64);

impl JobId {
    /// The id that was written down as this number.
    pub const fn from_u64(id: u64) -> Self {
        Self(id)
    }

    /// To be written down.
    pub const fn as_u64(self) -> u64 {
        self.0
    }
}

impl fmt::Display for JobId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// A fencing token: names one claim, and is stored with each job of that claim.
///
/// It is random. A counter would go back with the row when a store that need not keep claims through
/// a crash has lost one, and the token of the former holder would be valid again.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[doc(alias = "nonce")]
pub struct Token([u8; 16]);

impl Token {
    /// One that no other call of this makes, in this process or elsewhere.
    pub fn random() -> Self {
        Tokens::new().next()
    }

    /// The same, as that of a holder which hands out at its time what it has claimed ahead, and asks no
    /// store first. See [`Builder::confirm`](crate::Builder::confirm).
    #[must_use = "the token is a new one"]
    pub const fn without_confirmation(self) -> Self {
        let mut bytes = self.0;
        bytes[15] |= UNCONFIRMED;
        Self(bytes)
    }

    /// Whether its holder hands jobs out without asking first. For stores.
    pub const fn is_unconfirmed(&self) -> bool {
        self.0[15] & UNCONFIRMED != 0
    }

    /// To be stored.
    pub const fn as_bytes(&self) -> &[u8; 16] {
        &self.0
    }

    /// What was stored.
    pub const fn from_bytes(bytes: [u8; 16]) -> Self {
        Self(bytes)
    }
}

/// It is no secret, but who has it may settle the job: logs show its beginning only.
impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Token({:02x}{:02x}..)", self.0[0], self.0[1])
    }
}

/// The bit of a token's last byte that says that its holder does not confirm starts. So a store knows
/// what it has to, and keeps nothing more for it.
const UNCONFIRMED: u8 = 1;

/// Makes tokens of holders that confirm.
#[derive(Debug)]
pub(crate) struct Tokens {
    halves: [RandomState; 2],
    next: AtomicU64,
}

impl Tokens {
    pub(crate) fn new() -> Self {
        Self {
            // The hasher's keys are the randomness that std gives away.
            halves: [RandomState::new(), RandomState::new()],
            next: AtomicU64::new(0),
        }
    }

    pub(crate) fn next(&self) -> Token {
        // Relaxed: each call gets a number of its own, and nothing else is read because of it. The
        // process is hashed too, for a forked one has the keys and the number of its parent.
        let seed = (self.next.fetch_add(1, Relaxed), std::process::id());
        let mut bytes = [0; 16];
        for (half, keys) in bytes.chunks_exact_mut(8).zip(&self.halves) {
            half.copy_from_slice(&keys.hash_one(seed).to_le_bytes());
        }
        bytes[15] &= !UNCONFIRMED;
        Token(bytes)
    }
}

/// What happens to a push whose key has an open job already: which time counts, and which payload. The id stays in
/// any case.
///
/// A job is open until it is started, and again when it comes back, unless another one of its key is open then. So
/// a push beside a job that runs is a job of its own, and neither of the two ends in the other.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Merge {
    /// The pending job stays as it is.
    #[default]
    Keep,
    /// The earlier time, the newer payload.
    Earliest,
    /// The later time, the newer payload.
    Latest,
    /// The newer time, earlier or later, and the newer payload: quiet must last that long.
    Debounce,
    /// As `Debounce`, but no later than this point, which the first push of the key says.
    DebounceUntil(When),
}

impl Merge {
    /// The time of the pending job after a push of its key; `None` if it stays as it is. `most` is
    /// the bound that the first push has set. For stores.
    pub fn merged(self, at: StoreTime, most: StoreTime, new: StoreTime) -> Option<StoreTime> {
        match self {
            Self::Keep => None,
            Self::Earliest => Some(at.min(new)),
            Self::Latest => Some(at.max(new)),
            Self::Debounce | Self::DebounceUntil(_) => Some(new.min(most)),
        }
    }

    /// The bound that a first push with this policy sets. For stores.
    pub fn most(self, now: StoreTime) -> StoreTime {
        match self {
            Self::DebounceUntil(most) => most.resolve(now),
            _ => StoreTime::NEVER,
        }
    }
}

/// A job to be entered.
#[derive(Clone, Copy)]
pub struct NewJob<'a> {
    /// What it is about; any bytes.
    pub payload: &'a [u8],
    /// When it falls due.
    pub when: When,
    /// At most one job of a key is open, and takes in what is pushed. Any bytes.
    pub key: Option<&'a [u8]>,
    /// What happens if the key is pending already.
    pub merge: Merge,
    /// When it comes again once it is done, as text that only takers read. A merge that has one
    /// replaces that of the pending job, unless it comes [too late](Self::policy).
    pub schedule: Option<&'a str>,
    /// Once it is due it is claimed before those that are not. Merged with a pending job, that one is urgent
    /// if either was; one that is [kept](Put::Kept) stays as it is.
    pub urgent: bool,
}

impl<'a> NewJob<'a> {
    /// Without a key and a schedule, and not urgent.
    pub(crate) fn plain(payload: &'a [u8], when: When) -> Self {
        Self {
            payload,
            when,
            key: None,
            merge: Merge::Keep,
            schedule: None,
            urgent: false,
        }
    }

    /// The policy of its merge, for a store whose clock shows `now`: [`Merge::Keep`] if it repeats and its point in
    /// time has passed. That time may have been worked off meanwhile, and a merge would bring it a second time. For
    /// stores.
    pub fn policy(&self, now: StoreTime) -> Merge {
        match self.when {
            When::At(at) if self.schedule.is_some() && at <= now => Merge::Keep,
            _ => self.merge,
        }
    }
}

/// Payloads and keys are not shown: they may be what a log must not hold.
impl fmt::Debug for NewJob<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("NewJob")
            .field("bytes", &self.payload.len())
            .field("when", &self.when)
            .field("keyed", &self.key.is_some())
            .field("merge", &self.merge)
            .field("schedule", &self.schedule)
            .field("urgent", &self.urgent)
            .finish()
    }
}

/// What became of a job that was put in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Put {
    /// It is a job of its own.
    New(JobId),
    /// Its key was pending: that job has its payload now, and the time that the policy says.
    Merged(JobId),
    /// Its key was pending, and that job stays as it is.
    Kept(JobId),
}

impl Put {
    /// The job that stands for the push now.
    pub fn id(self) -> JobId {
        match self {
            Self::New(id) | Self::Merged(id) | Self::Kept(id) => id,
        }
    }
}

/// A job, by its name.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Which<'a> {
    /// By its id.
    Id(JobId),
    /// The open one of this key; or else one that waits for its next try; or else one that runs.
    Key(&'a [u8]),
}

impl From<JobId> for Which<'_> {
    fn from(id: JobId) -> Self {
        Self::Id(id)
    }
}

impl<'a> From<&'a str> for Which<'a> {
    fn from(key: &'a str) -> Self {
        Self::Key(key.as_bytes())
    }
}

/// Keys are not shown.
impl fmt::Debug for Which<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Id(id) => id.fmt(f),
            Self::Key(_) => f.write_str("Key(..)"),
        }
    }
}

/// Whether a cancel won.
#[derive(Clone, PartialEq, Eq)]
#[must_use = "only `Gone` says that the job will not run"]
pub enum Cancelled<T = Vec<u8>> {
    /// It won: the job is not handed out any more.
    Gone {
        /// What the job was about.
        payload: T,
        /// How many attempts were begun before. A first one may have done part of its work.
        attempts: u32,
    },
    /// A handler has it; or may have it, if its holder does not [confirm](crate::Builder::confirm). One that
    /// repeats does not come again when it is done.
    Taken,
    /// There is no such job: it is done, or buried, or never was.
    Never,
}

impl<T> Cancelled<T> {
    /// Whether the cancel won.
    pub fn is_gone(&self) -> bool {
        matches!(self, Self::Gone { .. })
    }
}

impl<T> fmt::Debug for Cancelled<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Gone { attempts, .. } => write!(f, "Gone {{ attempts: {attempts}, .. }}"),
            Self::Taken => f.write_str("Taken"),
            Self::Never => f.write_str("Never"),
        }
    }
}

/// Whether a job has another time now.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use = "only `Moved` says that the job has another time"]
pub enum Reset {
    /// It has.
    Moved,
    /// A handler has it; or may have it, if its holder does not [confirm](crate::Builder::confirm).
    Taken,
    /// There is no such job: it is done, or buried, or never was.
    Never,
}
