//! Prints reports in order: lines, or their SHA-256, to stdout, and messages to stderr.

use crate::line::{message, push_line};
use crate::progress::Progress;
use crate::report::Report;
use sha2::{Digest as _, Sha256};
use std::io::{self, Write};
use std::path::Path;

/// Writes and counts reports, and remembers whether one was a failure.
pub(crate) struct Printer {
    progress: Progress,
    /// Lines for stdout or for `total`.
    lines: Vec<u8>,
    /// The hash of all lines, if it is printed instead of them.
    total: Option<Sha256>,
    files: u64,
    bytes: u64,
    failed: bool,
}

impl Printer {
    /// Creates a printer without output.
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

    /// Whether a message was written.
    pub(crate) fn failed(&self) -> bool {
        self.failed
    }

    /// Returns the number of files of all reports.
    pub(crate) fn files(&self) -> u64 {
        self.files
    }

    /// Returns the number of bytes read.
    pub(crate) fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Buffers the line of a report until a [`flush`](Self::flush), or writes its message.
    ///
    /// # Errors
    /// If the lines before a message cannot be written to stdout. Errors of stderr are ignored.
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
    /// As [`print`](Self::print).
    pub(crate) fn fail(&mut self, message: &str) -> io::Result<()> {
        // Flushes earlier lines first, so that a terminal shows them in order.
        self.flush()?;
        self.progress.beside_stderr(|| complain(message));
        self.failed = true;
        Ok(())
    }

    /// Writes the buffered lines.
    ///
    /// # Errors
    /// If stdout cannot be written.
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

    /// Writes the total, if it was requested: the line that `sha256sum` would print for all lines.
    ///
    /// # Errors
    /// If stdout cannot be written.
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

/// Writes a message to stderr. An error cannot be reported anywhere.
pub(crate) fn complain(message: &str) {
    io::stderr().write_all(message.as_bytes()).ok();
}
