//! A gate that holds threads until a test opens it.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};

/// Closed at first, and opened once. Clones are the same gate.
///
/// A test holds tasks at [`wait`](Gate::wait), waits for them by
/// [`wait_for_arrivals`](Gate::wait_for_arrivals), makes its assertions, and opens the gate. So it
/// orders events without sleeping.
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
    /// Creates a closed gate.
    pub fn new() -> Self {
        Self::default()
    }

    /// Counts an arrival, then blocks until the gate is open.
    pub fn wait(&self) {
        let mut state = self.lock();
        state.arrivals += 1;
        self.0.changed.notify_all();
        while !state.open {
            state = self.sleep(state);
        }
    }

    /// Opens the gate. All current and later waits return.
    pub fn open(&self) {
        self.lock().open = true;
        self.0.changed.notify_all();
    }

    /// Whether the gate is open.
    pub fn is_open(&self) -> bool {
        self.lock().open
    }

    /// Returns the number of arrivals, including those that have passed.
    pub fn arrivals(&self) -> usize {
        self.lock().arrivals
    }

    /// Blocks until there are `count` arrivals.
    pub fn wait_for_arrivals(&self, count: usize) {
        let mut state = self.lock();
        while state.arrivals < count {
            state = self.sleep(state);
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // Nothing panics under the lock. If another test failed, poisoning would only hide that
        // failure.
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn sleep<'a>(&'a self, state: MutexGuard<'a, State>) -> MutexGuard<'a, State> {
        let woken = self.0.changed.wait(state);
        woken.unwrap_or_else(PoisonError::into_inner)
    }
}
