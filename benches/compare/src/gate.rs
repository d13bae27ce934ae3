//! Makes a pool have all its threads, before anything is measured.

use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

use crate::peer::Peer;

/// How long to wait for threads that do not come.
const PATIENCE: Duration = Duration::from_secs(3);

/// Submits so many tasks that each wait until all have begun, and returns when they have.
///
/// A pool that cannot run so many at once lets them go after some seconds: then what is measured is
/// what it has.
pub fn fill<P: Peer>(peer: &P, threads: u32) {
    let gate = Arc::new((Mutex::new(0), Condvar::new()));
    let wait = move |gate: &(Mutex<u32>, Condvar)| {
        let (arrived, changed) = gate;
        let mut guard = arrived.lock().expect("nobody panics here");
        *guard += 1;
        if *guard > threads {
            changed.notify_all();
        }
        let all = changed.wait_timeout_while(guard, PATIENCE, |arrived| *arrived <= threads);
        drop(all.expect("nobody panics here"));
    };
    for _ in 0..threads {
        let gate = Arc::clone(&gate);
        peer.submit(move || wait(&gate));
    }
    wait(&gate);
    // They may still be on their way out of the gate, or to sleep.
    std::thread::sleep(Duration::from_millis(if threads > 100 { 50 } else { 2 }));
}
