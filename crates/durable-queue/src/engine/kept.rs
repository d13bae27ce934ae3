//! State of an attempt whose job is kept when it is done.

use std::error;
use std::fmt;
use std::sync::Arc;
use std::time::{Duration, Instant};

use sync_shim::Mutex;

use crate::store::Keep;

/// Maximum size of the result of a job, in bytes.
pub const LONGEST_RESULT: usize = 64 << 10;

/// State of such an attempt.
pub(crate) struct Kept {
    span: Duration,
    started: Instant,
    result: Mutex<Option<Vec<u8>>>,
}

/// The contents of an acknowledgement that keeps the job.
#[derive(Debug)]
pub(crate) struct KeepWish {
    span: Duration,
    took: Duration,
    result: Option<Vec<u8>>,
}

impl KeepWish {
    pub(crate) fn as_keep(&self) -> Keep<'_> {
        Keep {
            span: self.span,
            took: self.took,
            result: self.result.as_deref(),
        }
    }
}

impl Kept {
    pub(crate) fn new(span: Duration, started: Instant) -> Arc<Self> {
        Arc::new(Self {
            span,
            started,
            result: Mutex::new(None),
        })
    }

    pub(crate) fn set(&self, result: Vec<u8>) -> Result<(), SetResultError> {
        if result.len() > LONGEST_RESULT {
            return Err(SetResultError::TooLarge);
        }
        *self.result.lock() = Some(result);
        Ok(())
    }

    /// Returns the contents of the job's acknowledgement.
    pub(crate) fn wish(&self, now: Instant) -> KeepWish {
        KeepWish {
            span: self.span,
            took: now.saturating_duration_since(self.started),
            result: self.result.lock().take(),
        }
    }
}

/// Error of [`Claimed::set_result`](crate::Claimed::set_result): the result was not set.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum SetResultError {
    /// It is longer than [`LONGEST_RESULT`].
    TooLarge,
    /// The queue does not [keep](crate::Builder::keep_done) done jobs in this process.
    NotKept,
}

impl fmt::Display for SetResultError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::TooLarge => "the result is longer than 64 KiB",
            Self::NotKept => "the queue does not keep done jobs",
        })
    }
}

impl error::Error for SetResultError {}
