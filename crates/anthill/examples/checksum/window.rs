//! The bounded window in which reports wait until it is their turn to be printed.
//!
//! The pool bounds what is read at a time; it does not bound what *has been* read. Behind
//! one huge file, a million small ones would be finished and wait for their lines. So the
//! walker takes a [`Ticket`] here for each file before it submits anything, and waits while
//! the window is full.
//!
//! Three parties: one walker reserves and closes, any thread fills, one printer takes.
//!
//! # Invariants
//! 1. Each ticket fills its place exactly once, even if its task panics or never runs.
//! 2. After [`Window::stop`] no ticket is given and no place is filled: what can still be
//!    taken is what was complete when it was called.

use crate::order::Order;
use crate::report::{Digest, Report};
use std::io;
use std::mem;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

/// What the printer does next.
pub(crate) enum Turn {
    /// Print these, in this order. Never empty.
    Print(Vec<Report>),
    /// The walk is over and everything is printed.
    Finished,
    /// This signal stopped the work; what was complete in order is printed.
    Stopped(i32),
}

enum Life {
    Open,
    Closed,
    Stopped(i32),
}

struct State {
    order: Order<Report>,
    life: Life,
}

/// See the module's documentation.
pub(crate) struct Window {
    state: Mutex<State>,
    /// The walker waits here for room.
    room: Condvar,
    /// The printer waits here for the oldest report, or for the end.
    ready: Condvar,
}

impl Window {
    /// A window of at most `bound` files that are reserved and not yet taken.
    pub(crate) fn new(bound: usize) -> Self {
        Self {
            state: Mutex::new(State {
                order: Order::new(bound),
                life: Life::Open,
            }),
            room: Condvar::new(),
            ready: Condvar::new(),
        }
    }

    /// Reserves the next place for `name`; waits while the window is full.
    ///
    /// `None` means that the work was stopped.
    pub(crate) fn reserve(self: &Arc<Self>, name: PathBuf) -> Option<Ticket> {
        let mut state = self.lock();
        loop {
            if let Life::Stopped(_) = state.life {
                return None;
            }
            if let Some(place) = state.order.reserve() {
                return Some(Ticket {
                    window: Arc::clone(self),
                    place,
                    name,
                    result: None,
                });
            }
            state = self
                .room
                .wait(state)
                .unwrap_or_else(PoisonError::into_inner);
        }
    }

    /// Says that nothing more will be reserved.
    pub(crate) fn close(&self) {
        let mut state = self.lock();
        if let Life::Open = state.life {
            state.life = Life::Closed;
        }
        self.ready.notify_one();
    }

    /// Stops the work because `signal` came. The first signal stands.
    pub(crate) fn stop(&self, signal: i32) {
        let mut state = self.lock();
        if !matches!(state.life, Life::Stopped(_)) {
            state.life = Life::Stopped(signal);
        }
        self.room.notify_one();
        self.ready.notify_one();
    }

    /// Waits until there is something to print, or nothing ever will be.
    pub(crate) fn next(&self) -> Turn {
        let mut state = self.lock();
        loop {
            let reports = state.order.take_ready();
            if !reports.is_empty() {
                self.room.notify_one();
                return Turn::Print(reports);
            }
            match state.life {
                Life::Stopped(signal) => return Turn::Stopped(signal),
                Life::Closed if state.order.is_empty() => return Turn::Finished,
                Life::Closed | Life::Open => {}
            }
            state = self
                .ready
                .wait(state)
                .unwrap_or_else(PoisonError::into_inner);
        }
    }

    fn fill(&self, place: u64, report: Report) {
        let mut state = self.lock();
        if !matches!(state.life, Life::Stopped(_)) && state.order.fill(place, report) {
            self.ready.notify_one();
        }
    }

    /// Nothing under this lock leaves the state half changed, so poison says nothing.
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// One file's place in the window. Dropped without a result, it reports a failure.
pub(crate) struct Ticket {
    window: Arc<Window>,
    place: u64,
    name: PathBuf,
    result: Option<io::Result<Digest>>,
}

impl Ticket {
    /// The file's name, as it will be printed.
    pub(crate) fn name(&self) -> &Path {
        &self.name
    }

    /// Reports what became of the file.
    pub(crate) fn fill(mut self, result: io::Result<Digest>) {
        self.result = Some(result);
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        let unread = || Err(io::Error::other("its task did not run to the end"));
        let report = Report {
            name: mem::take(&mut self.name),
            result: self.result.take().unwrap_or_else(unread),
        };
        self.window.fill(self.place, report);
    }
}
