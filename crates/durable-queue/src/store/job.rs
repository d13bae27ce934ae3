//! Jobs as callers and stores see them: what is pushed, how it is identified, and the outcomes of calls.

use std::fmt;
use std::hash::{BuildHasher, RandomState};

use sync_shim::atomic::{AtomicU64, Ordering::Relaxed};

use crate::store::time::{StoreTime, When};

/// Identifier of a job. A store never reuses one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct JobId(u64);

impl JobId {
    /// Creates an id from the number returned by [`as_u64`](Self::as_u64).
    pub const fn from_u64(id: u64) -> Self {
        Self(id)
    }

    /// Returns the id as a number, for storage.
    pub const fn as_u64(self) -> u64 {
        self.0
    }
}

impl fmt::Display for JobId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

/// A fencing token: identifies a claim, and is stored with each of its jobs.
///
/// Tokens are random. A counter would go back with its row if a store lost a claim in a crash, and the former
/// holder's token would become valid again.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[doc(alias = "nonce")]
pub struct Token([u8; 16]);

impl Token {
    /// Returns a token that differs from all others, of all processes.
    pub fn random() -> Self {
        Tokens::new().next()
    }

    /// Returns the token of a holder that does not confirm starts: it hands out jobs claimed ahead at their
    /// due times without asking the store. See [`Builder::confirm`](crate::Builder::confirm).
    #[must_use = "the token is a new one"]
    pub const fn without_confirmation(self) -> Self {
        let mut bytes = self.0;
        bytes[15] |= UNCONFIRMED;
        Self(bytes)
    }

    /// Returns whether the token's holder does not confirm starts. For stores.
    pub const fn is_unconfirmed(&self) -> bool {
        self.0[15] & UNCONFIRMED != 0
    }

    /// Returns the token's bytes, for storage.
    pub const fn as_bytes(&self) -> &[u8; 16] {
        &self.0
    }

    /// Creates a token from stored bytes.
    pub const fn from_bytes(bytes: [u8; 16]) -> Self {
        Self(bytes)
    }
}

/// Shows only the beginning: a token is not secret, but allows its owner to settle the job.
impl fmt::Debug for Token {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Token({:02x}{:02x}..)", self.0[0], self.0[1])
    }
}

/// The bit of a token's last byte that marks holders that do not confirm starts, so stores need no other
/// field for it.
const UNCONFIRMED: u8 = 1;

/// Generates the tokens of holders that confirm starts.
#[derive(Debug)]
pub(crate) struct Tokens {
    halves: [RandomState; 2],
    next: AtomicU64,
}

impl Tokens {
    pub(crate) fn new() -> Self {
        Self {
            // The hasher's keys are the only randomness that std provides.
            halves: [RandomState::new(), RandomState::new()],
            next: AtomicU64::new(0),
        }
    }

    pub(crate) fn next(&self) -> Token {
        // Relaxed: each call only needs a distinct number. The process id is hashed as well, because a forked
        // child has its parent's keys and number.
        let seed = (self.next.fetch_add(1, Relaxed), std::process::id());
        let mut bytes = [0; 16];
        for (half, keys) in bytes.chunks_exact_mut(8).zip(&self.halves) {
            half.copy_from_slice(&keys.hash_one(seed).to_le_bytes());
        }
        bytes[15] &= !UNCONFIRMED;
        Token(bytes)
    }
}

/// Policy for a push whose key already has an open job: determines the due time and the payload. The job
/// keeps its id.
///
/// A job is open until it is started. It is open again when it returns, unless another job of its key is open
/// by then. So a push during a job's run creates a separate job, and neither of them is merged into the
/// other.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Merge {
    /// The open job does not change.
    #[default]
    Keep,
    /// Like `Keep`, and a job that has been started counts as well: while it runs or waits for its next attempt, a push
    /// changes nothing.
    #[doc(alias = "unique")]
    KeepUntilDone,
    /// Like `KeepUntilDone`, and a done job of the key counts as well while it is kept: see
    /// [`JobPolicy::keep_done`](crate::JobPolicy::keep_done). Dead letters do not count.
    #[doc(alias = "unique_for")]
    KeepDone,
    /// The earlier time and the newer payload.
    Earliest,
    /// The later time and the newer payload.
    Latest,
    /// The newer time, earlier or later, and the newer payload: the job runs once no push has come for that
    /// long.
    Debounce,
    /// Like `Debounce`, but no later than this time, which the first push of the key determines.
    DebounceUntil(When),
}

impl Merge {
    /// Returns the due time of the open job after a push of its key, or `None` if it does not change. `most`
    /// is the bound that the first push has set. For stores.
    pub fn merged(self, at: StoreTime, most: StoreTime, new: StoreTime) -> Option<StoreTime> {
        match self {
            Self::Keep | Self::KeepUntilDone | Self::KeepDone => None,
            Self::Earliest => Some(at.min(new)),
            Self::Latest => Some(at.max(new)),
            Self::Debounce | Self::DebounceUntil(_) => Some(new.min(most)),
        }
    }

    /// Returns whether an open job does not change. For stores.
    pub fn keeps(self) -> bool {
        matches!(self, Self::Keep | Self::KeepUntilDone | Self::KeepDone)
    }

    /// Returns the bound that a first push with this policy sets. For stores.
    pub fn most(self, now: StoreTime) -> StoreTime {
        match self {
            Self::DebounceUntil(most) => most.resolve(now),
            _ => StoreTime::NEVER,
        }
    }
}

/// A job to insert.
#[derive(Clone, Copy)]
pub struct NewJob<'a> {
    /// Its payload: any bytes.
    pub payload: &'a [u8],
    /// Its due time.
    pub when: When,
    /// Its key: any bytes. A key has at most one open job, into which further pushes are merged.
    pub key: Option<&'a [u8]>,
    /// Its group, to which [the queue's rule](crate::Groups) applies. A merge replaces it, also by none, unless the job
    /// has been started.
    pub group: Option<&'a str>,
    /// Policy for a key that has an open job.
    pub merge: Merge,
    /// Schedule of a repeating job, as text that only takers read. A merge replaces the open job's schedule,
    /// unless the push is [too late](Self::policy).
    pub schedule: Option<&'a str>,
    /// Whether the job is urgent: once due, it is claimed before others. An open job becomes urgent when it
    /// is merged with an urgent one, but not when it is [kept](Put::Kept).
    pub urgent: bool,
    /// Name of the job's kind, which only workers interpret. A merge replaces it and the options together
    /// with the payload, also by none.
    pub kind: Option<&'a str>,
    /// Options of the job, such as its retry policy, as text that only workers read.
    pub options: Option<&'a str>,
}

impl<'a> NewJob<'a> {
    pub(crate) fn plain(payload: &'a [u8], when: When) -> Self {
        Self {
            payload,
            when,
            key: None,
            group: None,
            merge: Merge::Keep,
            schedule: None,
            urgent: false,
            kind: None,
            options: None,
        }
    }

    /// Creates a repeating job without a due time.
    #[cfg(feature = "cron")]
    pub(crate) fn repeating(
        payload: &'a [u8],
        key: &'a [u8],
        schedule: &'a crate::store::schedule::Schedule,
    ) -> Self {
        Self {
            key: Some(key),
            merge: Merge::Earliest,
            schedule: Some(schedule.as_str()),
            ..Self::plain(payload, When::NOW)
        }
    }

    /// Returns the effective merge policy, for a store whose clock shows `now`: [`Merge::Keep`] for a
    /// repeating job whose point in time has passed. That run may be done already, and a merge would repeat
    /// it. For stores.
    pub fn policy(&self, now: StoreTime) -> Merge {
        match self.when {
            When::At(at) if self.schedule.is_some() && at <= now && !self.merge.keeps() => {
                Merge::Keep
            }
            _ => self.merge,
        }
    }
}

/// A [`NewJob`] that owns its contents, for a call that another thread makes.
pub(crate) struct OwnedJob {
    pub(crate) payload: Vec<u8>,
    when: When,
    key: Option<Vec<u8>>,
    group: Option<String>,
    merge: Merge,
    schedule: Option<String>,
    urgent: bool,
    kind: Option<String>,
    options: Option<String>,
}

impl OwnedJob {
    pub(crate) fn of(job: NewJob<'_>) -> Self {
        Self::with_payload(job.payload.to_vec(), job)
    }

    /// Replaces the job's payload.
    pub(crate) fn kind(&self) -> Option<&str> {
        self.kind.as_deref()
    }

    pub(crate) fn with_payload(payload: Vec<u8>, job: NewJob<'_>) -> Self {
        Self {
            payload,
            when: job.when,
            key: job.key.map(<[u8]>::to_vec),
            group: job.group.map(str::to_owned),
            merge: job.merge,
            schedule: job.schedule.map(str::to_owned),
            urgent: job.urgent,
            kind: job.kind.map(str::to_owned),
            options: job.options.map(str::to_owned),
        }
    }

    pub(crate) fn as_new(&self) -> NewJob<'_> {
        NewJob {
            payload: &self.payload,
            when: self.when,
            key: self.key.as_deref(),
            group: self.group.as_deref(),
            merge: self.merge,
            schedule: self.schedule.as_deref(),
            urgent: self.urgent,
            kind: self.kind.as_deref(),
            options: self.options.as_deref(),
        }
    }
}

/// Omits payloads, keys and groups, which may be confidential.
impl fmt::Debug for NewJob<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("NewJob")
            .field("bytes", &self.payload.len())
            .field("when", &self.when)
            .field("keyed", &self.key.is_some())
            .field("grouped", &self.group.is_some())
            .field("merge", &self.merge)
            .field("schedule", &self.schedule)
            .field("urgent", &self.urgent)
            .field("kind", &self.kind)
            .field("options", &self.options)
            .finish()
    }
}

/// Outcome of a push.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Put {
    /// A new job was created.
    New(JobId),
    /// The key had an open job, which now has the new payload and the due time determined by the policy.
    Merged(JobId),
    /// The key had an open job, or, by the push's [policy](Merge), a started or a done one, which did not change. The new
    /// payload is dropped.
    Kept(JobId),
}

impl Put {
    /// Returns the id of the job that represents the push.
    pub fn id(self) -> JobId {
        match self {
            Self::New(id) | Self::Merged(id) | Self::Kept(id) => id,
        }
    }
}

/// Identifies a job by its id or by its key.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Which<'a> {
    /// The job with this id.
    Id(JobId),
    /// The key's open job, or else one that waits for its next attempt, or else a running one.
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

/// Omits keys.
impl fmt::Debug for Which<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Id(id) => id.fmt(f),
            Self::Key(_) => f.write_str("Key(..)"),
        }
    }
}

/// Outcome of a cancel.
#[derive(Clone, PartialEq, Eq)]
#[must_use = "only `Gone` says that the job will not run"]
pub enum Cancelled<T = Vec<u8>> {
    /// The job was removed: it is not handed out any more.
    Gone {
        /// The job's payload.
        payload: T,
        /// Number of attempts started. They may have done part of the work.
        attempts: u32,
    },
    /// A handler has the job, or may have it if its holder does not [confirm](crate::Builder::confirm)
    /// starts. Its handler is [asked to stop](crate::Claimed::cancelled), and may finish the job nevertheless. The job
    /// does not run again after this run, unless it is buried and redriven.
    Taken,
    /// The job does not exist: it is done, buried, or was never pushed.
    Never,
}

impl<T> Cancelled<T> {
    /// Returns whether the job was removed.
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

/// Outcome of a reset.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use = "only `Moved` says that the job has another time"]
pub enum Reset {
    /// The due time was changed.
    Moved,
    /// A handler has the job, or may have it if its holder does not [confirm](crate::Builder::confirm)
    /// starts.
    Taken,
    /// The job does not exist: it is done, buried, or was never pushed.
    Never,
}

/// Result of a failed attempt.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Retried {
    /// The job is handed out again at this time.
    Again(When),
    /// No attempt was left: the job is a dead letter.
    Buried,
    /// No attempt was left for this run: the repeating job is due at its next time.
    NextTime,
    /// The job was [cancelled](crate::Claimed::is_cancelled): it has ended.
    Cancelled,
}
