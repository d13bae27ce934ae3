//! Waiting for what must come: without an order of events that depends on time, and without hanging.

use std::sync::mpsc::{Receiver, channel};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

/// After this long without the expected state, the pool is taken to have gone elsewhere. Nothing
/// that holds depends on it.
const PATIENCE: Duration = Duration::from_secs(20);

/// Whether a wait that began then has lost all prospect.
pub(super) fn is_over(began: Instant) -> bool {
    began.elapsed() > PATIENCE
}

/// What `call` says, once it has said it.
pub(super) fn on_a_thread<T: Send + 'static>(
    call: impl FnOnce() -> T + Send + 'static,
) -> Receiver<T> {
    let (sender, receiver) = channel();
    thread::spawn(move || {
        let _ = sender.send(call()); // Perhaps nobody asks.
    });
    receiver
}

/// Takes the answer, which must come.
pub(super) fn soon<T>(what: &str, receiver: &Receiver<T>) -> T {
    let answer = receiver.recv_timeout(PATIENCE);
    answer.unwrap_or_else(|_| panic!("{what} does not come"))
}

/// Asks until there is an answer, as long as that has any prospect.
pub(super) fn poll<T>(mut ask: impl FnMut() -> Option<T>) -> Option<T> {
    let began = Instant::now();
    loop {
        let answer = ask();
        if answer.is_some() || is_over(began) {
            return answer;
        }
        thread::yield_now();
    }
}

pub(super) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
