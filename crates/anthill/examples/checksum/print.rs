//! Lines to stdout and messages to stderr, in the order of the reports.

use crate::line::{message, push_line};
use crate::progress::Progress;
use crate::report::Report;
use std::io::{self, Write};

/// Writes reports, and remembers whether one of them was a failure.
pub(crate) struct Printer {
    progress: Progress,
    files: u64,
    failed: bool,
}

impl Printer {
    /// Nothing is printed yet.
    pub(crate) fn new(progress: Progress) -> Self {
        Self {
            progress,
            files: 0,
            failed: false,
        }
    }

    /// True if a message was written.
    pub(crate) fn failed(&self) -> bool {
        self.failed
    }

    /// Writes `reports` and flushes, so that a reader at the other end has them before the next wait.
    ///
    /// # Errors
    /// If stdout does not take them. What stderr does not take is lost.
    pub(crate) fn print(&mut self, reports: Vec<Report>) -> io::Result<()> {
        self.files += reports.len() as u64;
        let mut lines = Vec::new();
        for Report { name, result } in reports {
            match result {
                Ok(digest) => push_line(&mut lines, &name, &digest),
                Err(error) => {
                    // The lines before it go first, so that one screen shows one order.
                    self.put(&lines)?;
                    lines.clear();
                    self.progress
                        .beside_stderr(|| complain(&message(&name, &error)));
                    self.failed = true;
                }
            }
        }
        self.put(&lines)?;
        self.progress.done(self.files);
        Ok(())
    }

    fn put(&self, lines: &[u8]) -> io::Result<()> {
        if lines.is_empty() {
            return Ok(());
        }
        self.progress.beside_stdout(|| {
            let mut stdout = io::stdout().lock();
            stdout.write_all(lines)?;
            stdout.flush()
        })
    }
}

/// Writes a message to stderr. A failure of that cannot be reported anywhere.
pub(crate) fn complain(message: &str) {
    io::stderr().write_all(message.as_bytes()).ok();
}
