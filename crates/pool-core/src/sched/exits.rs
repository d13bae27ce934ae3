//! The threads of workers that have ended.
//!
//! A worker's place is free for another as soon as it has run its last task and its stop hook. Its
//! thread lives on until the destructors of its thread-locals have run, which are user code and may
//! take their time. These threads are counted, and there are only so many of them: a worker that
//! would make them more waits at its place until one is gone.
//!
//! Not for: waiting for the end of all, which is `life.rs`.
//!
//! # Invariants, under the pool's lock
//! 1. `count` is the number of ended threads that have not been joined. Each of their handles lies
//!    in `threads`, or in the hands of one thread that joins it and counts it out after that.
//! 2. A handle is in the hands of a live worker that waits at its place, of a wait for the pool's
//!    end, or of a thread that has ended and was counted after the one that it joins. So joining
//!    all that lie here when no worker is live joins, through them, every thread.
//! 3. Only a wait for the end joins a thread that has not reported that it is gone. So a thread-local
//!    whose destructor does not end holds its own thread, and the pool's end, and nothing else.

use std::collections::BTreeMap;
use std::sync::Arc;

use sync_shim::Mutex;
use sync_shim::thread::{JoinHandle, thread_number};
use sync_shim::waiter::WakeList;

use crate::sched::event::{EventWait, Events};

/// Threads that may be ending at the same time in any case. With more than these, no more than
/// there have been workers at once: so those that a release ends need not wait for each other.
///
/// A model has too few threads to get there.
const SPARE: usize = if cfg!(anthill_loom) { 1 } else { 8 };

/// Threads that one that ends joins at most. More than one, so that they become fewer.
const MOST_JOINED: usize = 2;

#[derive(Default)]
pub(crate) struct Ending {
    /// By the threads' numbers.
    threads: BTreeMap<usize, JoinHandle>,
    count: usize,
    gone: Arc<Gone>,
}

/// The threads that are gone, by their own report, and have not been joined. Its lock is taken under
/// the pool's, and by threads that hold none.
pub(crate) struct Gone(Mutex<Reports>);

struct Reports {
    /// Numbers of threads. Some may have been joined meanwhile.
    gone: Vec<usize>,
    /// Workers that wait at their place for a thread to be gone.
    on_room: Events,
}

/// What a worker does that gives its place up.
pub(crate) enum Exit {
    /// It is gone, and joins these, which are gone, too.
    Gone(Vec<JoinHandle>),
    /// It joins this one, which is gone, at its place, then asks again.
    Join(JoinHandle),
    /// It waits at its place until a thread is gone or has been joined, then asks again.
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

    /// Whether one more would be too many.
    pub(crate) fn is_full(&self, peak_live: usize) -> bool {
        self.count >= peak_live.max(SPARE)
    }

    /// What the calling worker does before there may be one more.
    pub(crate) fn make_room(&mut self) -> Exit {
        let mut reports = self.gone.0.lock();
        if let Some(thread) = reports.take_one(&mut self.threads) {
            return Exit::Join(thread);
        }
        // In the section that found none: the next report comes after it, and finds this event.
        let mut room = EventWait::of_thread();
        room.enter(&mut reports.on_room);
        Exit::Wait(room)
    }

    /// The calling worker's thread is ending.
    pub(crate) fn enter(&mut self, thread: Option<JoinHandle>) {
        self.count += usize::from(thread.is_some());
        self.threads
            .extend(thread.map(|thread| (thread_number(), thread)));
    }

    /// Some that are gone.
    pub(crate) fn take_gone(&mut self) -> Vec<JoinHandle> {
        let mut reports = self.gone.0.lock();
        let gone = std::iter::from_fn(|| reports.take_one(&mut self.threads));
        gone.take(MOST_JOINED).collect()
    }

    /// All that no other thread has in hand.
    pub(crate) fn take_all(&mut self) -> Vec<JoinHandle> {
        self.gone.0.lock().gone = Vec::new();
        std::mem::take(&mut self.threads).into_values().collect()
    }

    /// So many have been joined, and there is room: also if the thread that joined them does not end.
    pub(crate) fn leave(&mut self, threads: usize, wakes: &mut WakeList) {
        self.count -= threads;
        self.gone.0.lock().on_room.set_all(wakes);
    }
}

impl Gone {
    /// The last act of a worker's thread: its thread-locals have been dropped. Takes no lock of the
    /// pool, and runs no user code.
    pub(crate) fn report(&self) {
        let mut wakes = WakeList::new();
        let mut reports = self.0.lock();
        reports.gone.push(thread_number());
        reports.on_room.set_all(&mut wakes);
        drop(reports);
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
