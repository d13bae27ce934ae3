//! A progress line on stderr, if stderr is a terminal.

use indicatif::{ProgressBar, ProgressStyle};
use std::io::{self, IsTerminal};
use std::time::Duration;

/// A handle of the bar. Clones share it.
#[derive(Clone)]
pub(crate) struct Progress {
    bar: Option<ProgressBar>,
    /// Whether stdout is a terminal, too. Two different terminals are treated as one: a superfluous
    /// redraw is harmless, a lost line is not.
    stdout_is_terminal: bool,
}

impl Progress {
    /// Creates a bar, which draws if stderr is a terminal.
    pub(crate) fn new() -> Self {
        Self {
            bar: io::stderr().is_terminal().then(start),
            stdout_is_terminal: io::stdout().is_terminal(),
        }
    }

    /// Adds the number of bytes read.
    pub(crate) fn read(&self, bytes: usize) {
        if let Some(bar) = &self.bar {
            bar.inc(bytes as u64);
        }
    }

    /// Shows the number of finished files.
    pub(crate) fn done(&self, files: u64) {
        if let Some(bar) = &self.bar {
            bar.set_message(files.to_string());
        }
    }

    /// Writes to stdout. If it is a terminal, the bar is hidden meanwhile.
    pub(crate) fn beside_stdout<R>(&self, write: impl FnOnce() -> R) -> R {
        if self.stdout_is_terminal {
            self.beside_stderr(write)
        } else {
            write()
        }
    }

    /// Writes to stderr. The bar is hidden meanwhile.
    pub(crate) fn beside_stderr<R>(&self, write: impl FnOnce() -> R) -> R {
        match &self.bar {
            Some(bar) => bar.suspend(write),
            None => write(),
        }
    }

    /// Removes the bar for good.
    pub(crate) fn clear(&self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}

/// A spinner instead of a fraction, because the total is unknown during the walk.
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
