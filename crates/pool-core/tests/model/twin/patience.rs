//! Waits for expected states. They fail after a long time, and the outcome does not depend on
//! durations otherwise.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

/// After this time without the expected state, the pool is considered to differ from the model. A
/// passing test never waits so long.
const PATIENCE: Duration = Duration::from_secs(20);

/// Whether a wait that began at `began` has failed.
pub(crate) fn is_over(began: Instant) -> bool {
    began.elapsed() > PATIENCE
}

/// A call on its own thread, because it may block.
pub(crate) struct Call<T>(JoinHandle<T>);

impl<T: Send + 'static> Call<T> {
    pub(crate) fn new(call: impl FnOnce() -> T + Send + 'static) -> Self {
        Self(thread::spawn(call))
    }

    /// The result of the call, which must return.
    pub(crate) fn soon(self, what: &str) -> T {
        poll(|| self.0.is_finished().then_some(()))
            .unwrap_or_else(|| panic!("{what} did not occur"));
        self.0.join().expect("calls do not panic")
    }
}

/// Polls until there is an answer, or until the wait has failed.
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
