//! A line on stderr that says how far the work is, if stderr is a terminal; else nothing.

use indicatif::{ProgressBar, ProgressStyle};
use std::io::{self, IsTerminal};
use std::time::Duration;

/// A handle to the bar; clones show the same one.
#[derive(Clone)]
pub(crate) struct Progress {
    bar: Option<ProgressBar>,
    /// Stdout is a terminal, too. Two different ones are taken for the same: that costs a
    /// redraw, the other way round would cost a line.
    stdout_is_terminal: bool,
}

impl Progress {
    /// Draws from now on, if stderr is a terminal.
    pub(crate) fn new() -> Self {
        Self {
            bar: io::stderr().is_terminal().then(start),
            stdout_is_terminal: io::stdout().is_terminal(),
        }
    }

    /// Counts bytes that were read.
    pub(crate) fn read(&self, bytes: usize) {
        if let Some(bar) = &self.bar {
            bar.inc(bytes as u64);
        }
    }

    /// Shows that so many files are done.
    pub(crate) fn done(&self, files: u64) {
        if let Some(bar) = &self.bar {
            bar.set_message(files.to_string());
        }
    }

    /// Writes to stdout; the bar is out of the way meanwhile if both are on one screen.
    pub(crate) fn beside_stdout<R>(&self, write: impl FnOnce() -> R) -> R {
        if self.stdout_is_terminal {
            self.beside_stderr(write)
        } else {
            write()
        }
    }

    /// Writes to stderr; the bar is out of the way meanwhile.
    pub(crate) fn beside_stderr<R>(&self, write: impl FnOnce() -> R) -> R {
        match &self.bar {
            Some(bar) => bar.suspend(write),
            None => write(),
        }
    }

    /// Takes the bar away for good.
    pub(crate) fn clear(&self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}

/// The whole is unknown while the walk goes on, so this is a spinner and not a fraction.
fn start() -> ProgressBar {
    let style =
        ProgressStyle::with_template("{spinner} files: {msg}, read: {bytes} ({bytes_per_sec})")
            .expect("the template is a constant and well formed");
    let bar = ProgressBar::new_spinner()
        .with_style(style)
        .with_message("0");
    bar.enable_steady_tick(Duration::from_millis(100));
    bar
}
