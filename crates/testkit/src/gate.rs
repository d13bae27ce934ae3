//! A gate that holds threads until a test lets them through.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

/// Closed at first; opened once, for good. Clones are the same gate.
///
/// A test parks tasks at [`wait`](Gate::wait), learns by
/// [`wait_for_arrivals`](Gate::wait_for_arrivals) that they are there, makes its assertions, and
/// opens. So events are ordered without sleeping.
#[derive(Clone, Debug, Default)]
pub struct Gate(Arc<Shared>);

#[derive(Debug, Default)]
struct Shared {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    open: bool,
    arrivals: usize,
}

impl Gate {
    /// A closed gate.
    pub fn new() -> Self {
        Self::default()
    }

    /// Counts as an arrival, then blocks until the gate is open.
    pub fn wait(&self) {
        let mut state = self.lock();
        state.arrivals += 1;
        self.0.changed.notify_all();
        while !state.open {
            state = self.sleep(state);
        }
    }

    /// Lets all threads through, now and later.
    pub fn open(&self) {
        self.lock().open = true;
        self.0.changed.notify_all();
    }

    /// Whether it has been opened.
    pub fn is_open(&self) -> bool {
        self.lock().open
    }

    /// How many have come so far, those let through included.
    pub fn arrivals(&self) -> usize {
        self.lock().arrivals
    }

    /// Blocks until `count` have come.
    pub fn wait_for_arrivals(&self, count: usize) {
        let mut state = self.lock();
        while state.arrivals < count {
            state = self.sleep(state);
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // Nothing panics under the lock; a poisoned gate would only hide the first failure.
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn sleep<'a>(&'a self, state: MutexGuard<'a, State>) -> MutexGuard<'a, State> {
        let woken = self.0.changed.wait(state);
        woken.unwrap_or_else(PoisonError::into_inner)
    }
}
