//! Lines to stdout, or their SHA-256, and messages to stderr, in the order of the reports.

use crate::line::{message, push_line};
use crate::progress::Progress;
use crate::report::Report;
use sha2::{Digest as _, Sha256};
use std::io::{self, Write};
use std::path::Path;

/// Writes reports, counts, and remembers whether one of them was a failure.
pub(crate) struct Printer {
    progress: Progress,
    /// Lines for stdout, or for `total`.
    lines: Vec<u8>,
    /// The hash of all lines, if it is written in their place.
    total: Option<Sha256>,
    files: u64,
    bytes: u64,
    failed: bool,
}

impl Printer {
    /// Nothing is printed yet.
    pub(crate) fn new(progress: Progress, total: bool) -> Self {
        Self {
            progress,
            lines: Vec::new(),
            total: total.then(Sha256::new),
            files: 0,
            bytes: 0,
            failed: false,
        }
    }

    /// True if a message was written.
    pub(crate) fn failed(&self) -> bool {
        self.failed
    }

    /// Files of all reports.
    pub(crate) fn files(&self) -> u64 {
        self.files
    }

    /// Bytes that were read for the lines.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Takes the line of a report, to be written by a [`flush`](Self::flush), or writes its message.
    ///
    /// # Errors
    /// If stdout does not take the lines before it. What stderr does not take is lost.
    pub(crate) fn print(&mut self, Report { name, result }: Report) -> io::Result<()> {
        self.files += 1;
        match result {
            Ok(content) => {
                self.bytes += content.bytes;
                push_line(&mut self.lines, &name, &content.digest);
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
        match &mut self.total {
            Some(total) => total.update(&self.lines),
            None if self.lines.is_empty() => {}
            None => self.progress.beside_stdout(|| write(&self.lines))?,
        }
        self.lines.clear();
        self.progress.done(self.files);
        Ok(())
    }

    /// Writes the total, if it was asked for: the line that `sha256sum` would print for all lines.
    ///
    /// # Errors
    /// If stdout does not take it.
    pub(crate) fn finish(&mut self) -> io::Result<()> {
        self.flush()?;
        let Some(total) = self.total.take() else {
            return Ok(());
        };
        let mut line = Vec::new();
        push_line(&mut line, Path::new("-"), &total.finalize().into());
        write(&line)
    }
}

fn write(bytes: &[u8]) -> io::Result<()> {
    let mut stdout = io::stdout().lock();
    stdout.write_all(bytes)?;
    stdout.flush()
}

/// Writes a message to stderr. A failure of that cannot be reported anywhere.
pub(crate) fn complain(message: &str) {
    io::stderr().write_all(message.as_bytes()).ok();
}
