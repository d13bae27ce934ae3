//! The statistics of a run, as one line.

use indicatif::HumanBytes;
use std::fmt;
use std::time::Duration;

/// The statistics of a run, each with its bound if there is one.
pub(crate) struct Summary {
    pub(crate) files: u64,
    pub(crate) bytes: u64,
    pub(crate) time: Duration,
    pub(crate) peak_threads: usize,
    pub(crate) most_threads: usize,
    /// The peak of files that were found and whose line was not written yet.
    pub(crate) peak_waiting: usize,
    pub(crate) most_waiting: usize,
}

impl fmt::Display for Summary {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} files, {} in {:.3} s; at its peak {} of {} threads, and {} of {} files in the queue",
            self.files,
            HumanBytes(self.bytes),
            self.time.as_secs_f64(),
            self.peak_threads,
            self.most_threads,
            self.peak_waiting,
            self.most_waiting,
        )
    }
}
