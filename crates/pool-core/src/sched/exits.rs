//! Threads of ended workers, until they have been joined.
//!
//! Another worker may take a worker's place as soon as it has run its last task and its stop hook. The thread
//! itself lives until the destructors of its thread-locals have run, which are user code and may take their
//! time. The number of such threads is limited: a worker that would exceed the limit waits at its place until
//! another thread has ended.
//!
//! The wait for the end of all threads is in `life.rs`.
//!
//! # Invariants, under the pool's lock
//! 1. `count` is the number of ended threads that have not been joined. Each of their handles is in `threads`, or
//!    held by one thread that joins it and counts it out afterwards.
//! 2. A handle outside `threads` is held by a live worker that waits at its place, by a wait for the pool's end, or
//!    by an ended thread that was counted after the one it joins. So when no worker is live, joining all of
//!    `threads` joins every thread, directly or through another one.
//! 3. Only a wait for the end joins a thread that has not reported that it is gone. So a thread-local whose
//!    destructor does not return blocks its own thread and the pool's end, and nothing else.

use std::collections::BTreeMap;
use std::sync::Arc;

use sync_shim::Mutex;
use sync_shim::thread::{JoinHandle, thread_number};
use sync_shim::waiter::WakeList;

use crate::sched::event::{EventWait, Events};

/// Number of threads that may always be ending at the same time. Above it the limit is the largest number of
/// workers that were live at once.
// So that workers ended by a release do not wait for each other. A model has too few threads to exceed more than 1.
const SPARE: usize = if cfg!(anthill_loom) { 1 } else { 8 };

/// Maximum number of threads that an ending thread joins.
// More than one, so that the number of ended threads shrinks; few, so that no thread joins for long.
const MOST_JOINED: usize = 2;

#[derive(Default)]
pub(crate) struct Ending {
    /// By thread number.
    threads: BTreeMap<usize, JoinHandle>,
    count: usize,
    gone: Arc<Gone>,
}

/// Reports of threads that are gone. The lock is taken under the pool's lock, and by threads that hold no lock.
pub(crate) struct Gone(Mutex<Reports>);

struct Reports {
    /// Thread numbers. Some of these threads may have been joined meanwhile.
    gone: Vec<usize>,
    /// Workers that wait at their place until a thread is gone.
    on_room: Events,
}

/// Next step of a worker that gives up its place.
pub(crate) enum Exit {
    /// End, and join these threads, which are gone.
    Gone(Vec<JoinHandle>),
    /// Join this thread, which is gone, then ask again.
    Join(JoinHandle),
    /// Wait until a thread is gone or has been joined, then ask again.
    Wait(EventWait),
}

impl Ending {
    pub(crate) fn len(&self) -> usize {
        self.count
    }

    /// Where a worker's thread [reports](Gone::report) that it is gone.
    pub(crate) fn gone(&self) -> Arc<Gone> {
        Arc::clone(&self.gone)
    }

    /// Whether the limit is reached.
    pub(crate) fn is_full(&self, peak_live: usize) -> bool {
        self.count >= peak_live.max(SPARE)
    }

    /// Returns how the calling worker waits until the number is below the limit.
    pub(crate) fn make_room(&mut self) -> Exit {
        let mut reports = self.gone.0.lock();
        if let Some(thread) = reports.take_one(&mut self.threads) {
            return Exit::Join(thread);
        }
        // In the section that found no report, so that the next report comes after it and sets this event.
        let mut room = EventWait::of_thread();
        room.enter(&mut reports.on_room);
        Exit::Wait(room)
    }

    /// Counts the calling worker's thread as ending.
    pub(crate) fn enter(&mut self, thread: Option<JoinHandle>) {
        self.count += usize::from(thread.is_some());
        // By number, so that a report, which may arrive before or after this, finds the handle.
        self.threads
            .extend(thread.map(|thread| (thread_number(), thread)));
    }

    /// Takes a few threads that are gone.
    pub(crate) fn take_gone(&mut self) -> Vec<JoinHandle> {
        let mut reports = self.gone.0.lock();
        let gone = std::iter::from_fn(|| reports.take_one(&mut self.threads));
        gone.take(MOST_JOINED).collect()
    }

    /// Takes all threads that no other thread is joining.
    pub(crate) fn take_all(&mut self) -> Vec<JoinHandle> {
        // Reports of these threads would pile up, because nobody looks for them after a wait for the end.
        self.gone.0.lock().gone = Vec::new();
        std::mem::take(&mut self.threads).into_values().collect()
    }

    /// Counts joined threads out and wakes the workers that wait for that.
    pub(crate) fn leave(&mut self, threads: usize, wakes: &mut WakeList) {
        self.count -= threads;
        // Also without a report: a thread that was joined by a wait for the end has made room as well.
        self.gone.0.lock().on_room.set_all(wakes);
    }
}

impl Gone {
    /// Reports the calling thread as gone, after its thread-locals have been dropped. Takes no lock of the pool and
    /// runs no user code.
    pub(crate) fn report(&self) {
        let mut wakes = WakeList::new();
        let mut reports = self.0.lock();
        reports.gone.push(thread_number());
        reports.on_room.set_all(&mut wakes);
        drop(reports);
        // All waiting workers, because the first one may find that another thread has joined the reported one.
        wakes.wake_all();
    }
}

impl Reports {
    fn take_one(&mut self, threads: &mut BTreeMap<usize, JoinHandle>) -> Option<JoinHandle> {
        loop {
            let number = self.gone.pop()?;
            if let Some(thread) = threads.remove(&number) {
                return Some(thread);
            }
        }
    }
}

impl Default for Gone {
    fn default() -> Self {
        Self(Mutex::new(Reports {
            gone: Vec::new(),
            on_room: Events::new(),
        }))
    }
}

#[cfg(all(test, not(anthill_loom)))]
mod tests {
    use crate::Pool;

    /// Each thread reports that it is gone, also one that the wait for the end has in hand to join.
    #[testkit::test]
    fn reports_of_threads_that_were_joined_do_not_pile_up() {
        let built = Pool::builder().capacity(2).prestart(2).build();
        let pool = built.expect("it has a capacity");
        for _ in 0..100 {
            pool.release();
            pool.wait_released().expect("it is no worker");
            let state = pool.core().state.lock();
            let reports = state.ending.gone.0.lock();
            assert!(state.ending.threads.is_empty() && reports.gone.len() <= 2);
            drop(reports);
            drop(state);
            assert!(pool.reboot());
            let tasks = [(); 2].map(|()| pool.spawn(|| ()).expect("there is room"));
            for task in tasks {
                task.join().expect("it runs");
            }
        }
    }
}
