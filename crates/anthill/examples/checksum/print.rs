//! Lines to stdout and messages to stderr, in the order of the reports.

use crate::line::{message, push_line};
use crate::progress::Progress;
use crate::report::Report;
use std::io::{self, Write};

/// Writes reports, and remembers whether one of them was a failure.
pub(crate) struct Printer {
    progress: Progress,
    /// What stdout is to have.
    lines: Vec<u8>,
    files: u64,
    failed: bool,
}

impl Printer {
    /// Nothing is printed yet.
    pub(crate) fn new(progress: Progress) -> Self {
        Self {
            progress,
            lines: Vec::new(),
            files: 0,
            failed: false,
        }
    }

    /// True if a message was written.
    pub(crate) fn failed(&self) -> bool {
        self.failed
    }

    /// Takes the line of a report, to be written by a [`flush`](Self::flush), or writes its message.
    ///
    /// # Errors
    /// If stdout does not take the lines before it. What stderr does not take is lost.
    pub(crate) fn print(&mut self, Report { name, result }: Report) -> io::Result<()> {
        self.files += 1;
        match result {
            Ok(digest) => {
                push_line(&mut self.lines, &name, &digest);
                Ok(())
            }
            Err(error) => self.fail(&message(&name, &error)),
        }
    }

    /// Writes a message.
    ///
    /// # Errors
    /// As those of [`print`](Self::print).
    pub(crate) fn fail(&mut self, message: &str) -> io::Result<()> {
        // The lines before it go first, so that one screen shows one order.
        self.flush()?;
        self.progress.beside_stderr(|| complain(message));
        self.failed = true;
        Ok(())
    }

    /// Writes the lines, for a reader at the other end.
    ///
    /// # Errors
    /// If stdout does not take them.
    pub(crate) fn flush(&mut self) -> io::Result<()> {
        if !self.lines.is_empty() {
            self.progress.beside_stdout(|| {
                let mut stdout = io::stdout().lock();
                stdout.write_all(&self.lines)?;
                stdout.flush()
            })?;
            self.lines.clear();
        }
        self.progress.done(self.files);
        Ok(())
    }
}

/// Writes a message to stderr. A failure of that cannot be reported anywhere.
pub(crate) fn complain(message: &str) {
    io::stderr().write_all(message.as_bytes()).ok();
}
