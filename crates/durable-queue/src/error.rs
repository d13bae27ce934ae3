//! Errors of calls, and whether a failed call may have been carried out nevertheless.
//!
//! # Guarantees
//! 1. An error of a push contains the value.
//! 2. No error text contains a payload, a key, or the address that a store was opened with.

use std::sync::Arc;
use std::{error, fmt};

/// Result of a store's calls.
pub type Result<T, E = StoreError> = std::result::Result<T, E>;

/// Kind of a store's failure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ErrorKind {
    /// Another party held the store's lock for longer than the store waits.
    Busy,
    /// There is no space left.
    Full,
    /// The store can only be read.
    ReadOnly,
    /// The payload cannot be encoded; the source has the reason. The store was not called.
    Unencodable,
    /// The payload, the key, the kind, the queue's name or the whole push is larger than the store allows.
    TooLarge,
    /// The queue's name, or a job's kind or options, contains a NUL character, which the store cannot represent.
    /// The store was not called.
    BadName,
    /// The store was written by a newer version of this crate.
    Newer {
        /// The version of the stored data.
        found: u32,
        /// The newest version that this crate supports.
        known: u32,
    },
    /// The database of the caller's transaction does not contain the store's tables: it is not the database
    /// that the store has opened.
    NotInstalled,
    /// The server is configured to delete jobs when it runs out of memory.
    Evicting,
    /// There is a connection pooler in transaction mode between the store and its server, and the store was
    /// opened without the option for one.
    Pooled,
    /// The stored data are invalid.
    Corrupt,
    /// The store does not respond, or its response was lost.
    Unavailable,
    /// The store belongs to the parent of this forked process.
    Forked,
    /// No thread could be started for an async call; the source has the reason. The store was not called.
    NoThread,
    /// The store does not have this feature.
    Unsupported,
    /// Something else; the source says what.
    Other,
}

/// Whether a failed call was carried out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CarriedOut {
    /// It was not.
    No,
    /// It may have been: the response was lost.
    Perhaps,
}

const FORKED: &str = "the queue belongs to the parent of this forked process";

type Source = Arc<dyn error::Error + Send + Sync>;

/// Error of a store.
#[derive(Clone)]
pub struct StoreError {
    kind: ErrorKind,
    carried_out: CarriedOut,
    source: Option<Source>,
}

impl StoreError {
    /// Creates an error of a call that was not carried out.
    pub fn new(kind: ErrorKind) -> Self {
        Self {
            kind,
            carried_out: CarriedOut::No,
            source: None,
        }
    }

    /// Creates an error of a call whose response was lost.
    pub fn lost_answer(kind: ErrorKind) -> Self {
        Self {
            kind,
            carried_out: CarriedOut::Perhaps,
            source: None,
        }
    }

    /// Adds the underlying error, which must not contain secrets.
    pub fn with_source(mut self, source: impl error::Error + Send + Sync + 'static) -> Self {
        self.source = Some(Arc::new(source));
        self
    }

    /// Returns the kind of failure.
    pub fn kind(&self) -> ErrorKind {
        self.kind
    }

    /// Returns whether the call was carried out.
    pub fn carried_out(&self) -> CarriedOut {
        self.carried_out
    }

    /// Returns whether the same call may succeed later without intervention.
    pub fn is_transient(&self) -> bool {
        matches!(
            self.kind,
            ErrorKind::Busy | ErrorKind::Full | ErrorKind::Unavailable | ErrorKind::NoThread
        )
    }
}

impl fmt::Debug for StoreError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StoreError")
            .field("kind", &self.kind)
            .field("carried_out", &self.carried_out)
            .field("source", &self.source)
            .finish()
    }
}

impl fmt::Display for StoreError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.kind {
            ErrorKind::Busy => f.write_str("the store is busy"),
            ErrorKind::Full => f.write_str("the store has no space left"),
            ErrorKind::ReadOnly => f.write_str("the store is read-only"),
            ErrorKind::Unencodable => f.write_str("the payload cannot be encoded"),
            ErrorKind::TooLarge => f.write_str("the payload or the key is too large for the store"),
            ErrorKind::BadName => f.write_str("a name or an option contains a NUL character"),
            ErrorKind::Newer { found, known } => {
                write!(
                    f,
                    "the store has version {found}, and {known} is the newest known here"
                )
            }
            ErrorKind::NotInstalled => {
                f.write_str("the transaction's database does not contain the store's tables")
            }
            ErrorKind::Pooled => f.write_str("the store was not opened for a connection pooler"),
            ErrorKind::Evicting => f.write_str("the store may delete jobs to free memory"),
            ErrorKind::Corrupt => f.write_str("the store is corrupt"),
            ErrorKind::Unavailable => f.write_str("the store does not answer"),
            ErrorKind::Forked => {
                f.write_str("the store belongs to the parent of this forked process")
            }
            ErrorKind::NoThread => f.write_str("no thread could be started for the call"),
            ErrorKind::Unsupported => f.write_str("the store does not have this feature"),
            ErrorKind::Other => f.write_str("the store failed"),
        }?;
        if self.carried_out == CarriedOut::Perhaps {
            f.write_str(", but the call may have been carried out")?;
        }
        Ok(())
    }
}

impl error::Error for StoreError {
    fn source(&self) -> Option<&(dyn error::Error + 'static)> {
        self.source.as_deref().map(|source| source as _)
    }
}

/// Error of a push. Contains the value, which may not be in the store.
pub struct PushError<T> {
    /// The pushed value.
    pub value: T,
    /// The store's error. If the push [may have been carried out](StoreError::carried_out), pushing again may
    /// create a second job, unless it has a key.
    pub error: StoreError,
}

impl<T> fmt::Debug for PushError<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PushError")
            .field("error", &self.error)
            .finish_non_exhaustive()
    }
}

impl<T> fmt::Display for PushError<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.error.fmt(f)
    }
}

impl<T> error::Error for PushError<T> {
    fn source(&self) -> Option<&(dyn error::Error + 'static)> {
        self.error.source()
    }
}

/// Error of a take: no job was taken.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum TakeError {
    /// The queue is shut down.
    ShutDown,
    /// No job fell due before the deadline.
    TimedOut,
    /// The queue belongs to the parent of this forked process, as does its pump.
    Forked,
    /// The pump's thread could not be started.
    NoThread(Arc<std::io::Error>),
}

impl TakeError {
    /// Returns whether no job will ever come.
    pub fn is_shut_down(&self) -> bool {
        matches!(self, Self::ShutDown)
    }
}

impl fmt::Display for TakeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::ShutDown => f.write_str("the queue is shut down"),
            Self::TimedOut => f.write_str("no job fell due before the deadline"),
            Self::Forked => f.write_str(FORKED),
            Self::NoThread(error) => write!(f, "no thread could be started: {error}"),
        }
    }
}

impl error::Error for TakeError {
    fn source(&self) -> Option<&(dyn error::Error + 'static)> {
        match self {
            Self::NoThread(error) => Some(error),
            _ => None,
        }
    }
}

/// Error of a settle: the job was not settled as requested.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum SettleError {
    /// The lease was lost: the job is being, or has been, handed out again. The settle was not carried out.
    Stale,
    /// A response of the store was lost, and the job was no longer held when the call was repeated. Most
    /// likely the first call was carried out.
    Unknown,
    /// The store rejects this settle permanently, but carries out others. The lease is no longer renewed, so
    /// the job is handed out again when it expires. After a rejected [`extend`](crate::Claimed::extend) the
    /// holder still has the job.
    Refused(StoreError),
    /// The queue's shutdown did not wait for the response any longer. The lease expires by itself.
    ShutDown,
    /// The job belongs to the parent of this forked process, which still has it.
    Forked,
}

impl SettleError {
    /// Whether the lease was lost.
    pub fn is_stale(&self) -> bool {
        matches!(self, Self::Stale)
    }
}

impl fmt::Display for SettleError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Refused(_) => "the store refused the settle for good",
            Self::Stale => "the lease was lost",
            Self::Unknown => "the store's answer was lost, and the job is not held any more",
            Self::ShutDown => "the queue shut down before the store had answered",
            Self::Forked => FORKED,
        })
    }
}

impl error::Error for SettleError {
    fn source(&self) -> Option<&(dyn error::Error + 'static)> {
        match self {
            Self::Refused(error) => Some(error),
            _ => None,
        }
    }
}

/// Maximum length of the error text of a dead letter, in bytes. A longer text is cut, and ends with `[cut]`.
pub const LONGEST_ERROR: usize = 64 << 10;
/// Ends a text that was cut.
const CUT: &str = " [cut]";
/// Sources of an error that are read, so that a chain without an end does not hold a thread.
const MOST_CAUSES: usize = 64;

/// The text as every store takes it: of bounded length, and without NUL, which `PostgreSQL` refuses.
pub(crate) fn storable(mut text: String) -> String {
    if text.len() > LONGEST_ERROR {
        text.truncate(boundary(&text, LONGEST_ERROR - CUT.len()));
        text.push_str(CUT);
    }
    if text.contains('\0') {
        text = text.replace('\0', " ");
    }
    text
}

/// The last boundary of a character that is at most `at`.
fn boundary(text: &str, at: usize) -> usize {
    (0..=at)
        .rev()
        .find(|at| text.is_char_boundary(*at))
        .unwrap_or(0)
}

/// Takes text until it is too long to be kept whole; the rest is not even formatted.
struct Bounded(String);

impl fmt::Write for Bounded {
    fn write_str(&mut self, part: &str) -> fmt::Result {
        let room = (LONGEST_ERROR + CUT.len()).saturating_sub(self.0.len());
        if part.len() <= room {
            self.0.push_str(part);
            return Ok(());
        }
        self.0.push_str(&part[..boundary(part, room)]);
        Err(fmt::Error)
    }
}

/// The error's text and those of its sources, with `: ` between them, cut where they are too long. A text that
/// the one before ends with is left out: many errors repeat their source.
pub(crate) fn with_causes(error: &dyn error::Error) -> String {
    // USER CODE: `Display` and `source` of a handler's error; the handler's `guarded` catches a panic. A formatting
    // error leaves the text written until then.
    let text_of = |error: &dyn error::Error| {
        let mut text = Bounded(String::new());
        fmt::write(&mut text, format_args!("{error}")).ok();
        text.0
    };
    let mut text = text_of(error);
    let mut next = error.source();
    for _ in 0..MOST_CAUSES {
        let Some(cause) = next.filter(|_| text.len() <= LONGEST_ERROR) else {
            break;
        };
        let cause_text = text_of(cause);
        if !text.ends_with(&cause_text) {
            text.push_str(": ");
            text.push_str(&cause_text);
        }
        next = cause.source();
    }
    storable(text)
}
