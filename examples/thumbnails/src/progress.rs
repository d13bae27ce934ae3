//! A line on stderr that says how far the work is, if stderr is a terminal; else nothing.

use indicatif::{ProgressBar, ProgressStyle};
use std::io::{self, IsTerminal};
use std::time::Duration;

/// A handle to the line; clones show the same one.
#[derive(Clone)]
pub(crate) struct Progress(Option<ProgressBar>);

impl Progress {
    /// Draws from now on, if stderr is a terminal.
    pub(crate) fn new() -> Self {
        Self(io::stderr().is_terminal().then(start))
    }

    /// So many are made.
    pub(crate) fn made(&self, pictures: u64) {
        if let Some(bar) = &self.0 {
            bar.set_position(pictures);
        }
    }

    /// Says something on stderr.
    pub(crate) fn message(&self, text: &str) {
        self.beside(|| eprintln!("{text}"));
    }

    /// Writes; the line is out of the way meanwhile.
    pub(crate) fn beside<R>(&self, write: impl FnOnce() -> R) -> R {
        match &self.0 {
            Some(bar) => bar.suspend(write),
            None => write(),
        }
    }

    /// Takes the line away for good.
    pub(crate) fn clear(&self) {
        if let Some(bar) = &self.0 {
            bar.finish_and_clear();
        }
    }
}

/// The whole is unknown while the walk goes on, so this is a spinner and not a fraction.
fn start() -> ProgressBar {
    let style = ProgressStyle::with_template("{spinner} {pos} made ({per_sec})")
        .expect("the template is a constant and well formed");
    let bar = ProgressBar::new_spinner().with_style(style);
    bar.enable_steady_tick(Duration::from_millis(100));
    bar
}
