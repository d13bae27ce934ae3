//! A progress line on stderr, if stderr is a terminal.

use indicatif::{ProgressBar, ProgressStyle};
use std::io::{self, IsTerminal};
use std::time::Duration;

/// A handle of the line. Clones share it.
#[derive(Clone)]
pub(crate) struct Progress(Option<ProgressBar>);

impl Progress {
    /// Creates a line, which is drawn if stderr is a terminal.
    pub(crate) fn new() -> Self {
        Self(io::stderr().is_terminal().then(start))
    }

    /// Shows the number of finished pictures.
    pub(crate) fn made(&self, pictures: u64) {
        if let Some(bar) = &self.0 {
            bar.set_position(pictures);
        }
    }

    /// Prints a message on stderr.
    pub(crate) fn message(&self, text: &str) {
        self.beside(|| eprintln!("{text}"));
    }

    /// Writes while the line is hidden.
    pub(crate) fn beside<R>(&self, write: impl FnOnce() -> R) -> R {
        match &self.0 {
            Some(bar) => bar.suspend(write),
            None => write(),
        }
    }

    /// Removes the line for good.
    pub(crate) fn clear(&self) {
        if let Some(bar) = &self.0 {
            bar.finish_and_clear();
        }
    }
}

/// A spinner instead of a fraction, because the total is unknown during the walk.
fn start() -> ProgressBar {
    let style = ProgressStyle::with_template("{spinner} {pos} made ({per_sec})")
        .expect("the template is a constant and well formed");
    let bar = ProgressBar::new_spinner().with_style(style);
    bar.enable_steady_tick(Duration::from_millis(100));
    bar
}
