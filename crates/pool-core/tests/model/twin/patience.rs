//! Waiting for what must come: without an order of events that depends on time, and without hanging.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

/// After this long without the expected state, the pool is taken to have gone elsewhere. Nothing
/// that holds depends on it.
const PATIENCE: Duration = Duration::from_secs(20);

/// Whether a wait that began then has lost all prospect.
pub(crate) fn is_over(began: Instant) -> bool {
    began.elapsed() > PATIENCE
}

/// Something that is done on a thread of its own, because it may block.
pub(crate) struct Call<T>(JoinHandle<T>);

impl<T: Send + 'static> Call<T> {
    pub(crate) fn new(call: impl FnOnce() -> T + Send + 'static) -> Self {
        Self(thread::spawn(call))
    }

    /// What it says. It must come.
    pub(crate) fn soon(self, what: &str) -> T {
        poll(|| self.0.is_finished().then_some(()))
            .unwrap_or_else(|| panic!("{what} does not come"));
        self.0.join().expect("calls assert nothing")
    }
}

/// Asks until there is an answer, as long as that has any prospect.
pub(crate) fn poll<T>(mut ask: impl FnMut() -> Option<T>) -> Option<T> {
    let began = Instant::now();
    loop {
        let answer = ask();
        if answer.is_some() || is_over(began) {
            return answer;
        }
        thread::yield_now();
    }
}

pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
