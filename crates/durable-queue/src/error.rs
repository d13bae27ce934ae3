//! Why a call failed, and whether it may have been carried out all the same.
//!
//! # What always holds
//! 1. A value that was not put in comes back.
//! 2. No text here holds a payload, a key, or what a store was opened with.

use std::sync::Arc;
use std::{error, fmt};

/// What kind of failure a store met.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ErrorKind {
    /// Another party held the store's lock for longer than the store waits.
    Busy,
    /// There is no space left.
    Full,
    /// The store may be read only.
    ReadOnly,
    /// A payload has no bytes to be stored; the source says why. The store was not asked.
    Unencodable,
    /// A payload or a key is larger than the store takes.
    TooLarge,
    /// The queue's name contains a NUL character, which the store cannot hold. The store was not asked.
    BadName,
    /// The store was written by a newer version of this crate.
    Newer {
        /// The version of what is stored.
        found: u32,
        /// The newest that this crate knows.
        known: u32,
    },
    /// The server may delete jobs when it is short of memory.
    Evicting,
    /// What is stored cannot be right.
    Corrupt,
    /// The store does not answer, or its answer was lost.
    Unavailable,
    /// The store was opened before a fork, by the parent of this process, and is the parent's alone.
    Forked,
    /// Something else; the source says what.
    Other,
}

/// Whether a call that failed was carried out.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CarriedOut {
    /// It was not.
    No,
    /// It may have been: the answer was lost.
    Perhaps,
}

const FORKED: &str = "the queue is that of the process that forked this one";

type Source = Arc<dyn error::Error + Send + Sync>;

/// A store did not do what it was asked for.
#[derive(Clone)]
pub struct StoreError {
    kind: ErrorKind,
    carried_out: CarriedOut,
    source: Option<Source>,
}

impl StoreError {
    /// An error of a call that was not carried out.
    pub fn new(kind: ErrorKind) -> Self {
        Self {
            kind,
            carried_out: CarriedOut::No,
            source: None,
        }
    }

    /// An error of a call whose answer was lost.
    pub fn lost_answer(kind: ErrorKind) -> Self {
        Self {
            kind,
            carried_out: CarriedOut::Perhaps,
            source: None,
        }
    }

    /// Says what was met below. It must not show secrets.
    pub fn with_source(mut self, source: impl error::Error + Send + Sync + 'static) -> Self {
        self.source = Some(Arc::new(source));
        self
    }

    /// What kind of failure it was.
    pub fn kind(&self) -> ErrorKind {
        self.kind
    }

    /// Whether the call was carried out.
    pub fn carried_out(&self) -> CarriedOut {
        self.carried_out
    }

    /// Whether the same call may succeed later, without anything being done about it here.
    pub fn is_transient(&self) -> bool {
        matches!(
            self.kind,
            ErrorKind::Busy | ErrorKind::Full | ErrorKind::Unavailable
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
            ErrorKind::Unencodable => f.write_str("the payload cannot be written"),
            ErrorKind::TooLarge => f.write_str("the payload or the key is too large for the store"),
            ErrorKind::BadName => f.write_str("the queue's name contains a NUL character"),
            ErrorKind::Newer { found, known } => {
                write!(
                    f,
                    "the store has version {found}, and {known} is the newest known here"
                )
            }
            ErrorKind::Evicting => f.write_str("the store may delete jobs to have memory"),
            ErrorKind::Corrupt => f.write_str("the store is corrupt"),
            ErrorKind::Unavailable => f.write_str("the store does not answer"),
            ErrorKind::Forked => {
                f.write_str("the store is that of the process that forked this one")
            }
            ErrorKind::Other => f.write_str("the store failed"),
        }?;
        if self.carried_out == CarriedOut::Perhaps {
            f.write_str(", and may have done what it was asked for")?;
        }
        Ok(())
    }
}

impl error::Error for StoreError {
    fn source(&self) -> Option<&(dyn error::Error + 'static)> {
        self.source.as_deref().map(|source| source as _)
    }
}

/// What was pushed is not known to be in the store. It comes back.
pub struct PushError<T> {
    /// What was pushed.
    pub value: T,
    /// Why. If it [may have been carried out](StoreError::carried_out), pushing again may enter it
    /// twice, unless it has a key.
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

/// Nothing was taken.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum TakeError {
    /// The queue is shut down.
    ShutDown,
    /// The time was up before anything fell due.
    TimedOut,
    /// The queue was made before a fork: its pump is the parent's.
    Forked,
    /// The pump's thread could not be started.
    NoThread(Arc<std::io::Error>),
}

impl TakeError {
    /// Whether nothing will come any more.
    pub fn is_shut_down(&self) -> bool {
        matches!(self, Self::ShutDown)
    }
}

impl fmt::Display for TakeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::ShutDown => f.write_str("the queue is shut down"),
            Self::TimedOut => f.write_str("nothing fell due until the time was up"),
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

/// A job was not settled as it was asked for.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum SettleError {
    /// The lease was lost: the job is, or was, handed out again. What was asked for is not done.
    Stale,
    /// An answer of the store was lost, and the job was not held any more when it was asked again.
    /// Most likely the first call was carried out.
    Unknown,
    /// The store refuses this settle whenever it is asked, and carries out others. The lease is not renewed any
    /// more, so the job comes again when it ends; after a refused [`extend`](crate::Claimed::extend) the holder
    /// has the job as before.
    Refused(StoreError),
    /// The queue's shutdown did not wait for the answer any longer. The lease ends by itself.
    ShutDown,
    /// The job was taken before a fork: it is the parent's, which still has it.
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

/// The longest error text that is kept with a dead letter, in bytes. A longer one is cut, and ends with `[cut]`.
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
    // An error of the user's own formatting leaves what was written until then.
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
