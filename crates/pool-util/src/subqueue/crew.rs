//! Limits the drain tasks that run pieces at a time to what the processor can run.
//!
//! Pieces that sleep (at a disk, a socket, a lock) need as many workers as the pool has. Pieces that compute need one per
//! core: more only take turns, and each costs a stack. Which of both pieces are shows only while they run. So drain tasks
//! run pieces at once while fewer than the cores do. One more, the *scout*, naps, looks whether the threads that run
//! pieces sleep, and lets as many others begin as cores are free. .NET's gate thread and the work queues of Grand Central
//! Dispatch observe their workers in the same way.
//!
//! The operating system says whether a thread sleeps, on Linux. It does not count as sleeping while it waits for a core, so
//! a loaded machine does not make the crew grow. On other systems all threads seem to sleep, so the crew grows to the
//! pool's workers within some naps.
//!
//! # Invariants
//! 1. While a piece has not started, and drain tasks run pieces on at least as many threads as there are cores, there is a
//!    scout or a drain task that has not begun; or the pool refused it.
//! 2. A drain task that leaves wakes the scout. So a crew with room has no sleeping scout.

use std::time::{Duration, Instant};

use sync_shim::Parker;
use sync_shim::thread::SystemThread;
#[cfg(not(anthill_loom))]
use sync_shim::{Clock, MonotonicClock};

use super::{LONGEST_PATIENCE, within};

/// First nap of a scout. Each further one takes twice as long, up to `LONGEST_NAP`.
const FIRST_NAP: Duration = Duration::from_millis(1);
#[cfg(not(anthill_loom))]
const LONGEST_NAP: Duration = Duration::from_millis(8);
/// Least ratio of a nap to the time of a look at the threads.
#[cfg(not(anthill_loom))]
const SHARE: u32 = 32;

/// Length of a scout's naps.
pub(super) struct Nap(Duration);

impl Nap {
    pub(super) fn new() -> Self {
        Self(FIRST_NAP)
    }

    /// Counts the threads that do not sleep, and makes the next nap longer.
    #[cfg(not(anthill_loom))]
    pub(super) fn look(&mut self, threads: &[SystemThread]) -> usize {
        let began = MonotonicClock.now();
        let runnable = threads.iter().filter(|thread| thread.is_runnable()).count();
        let took = MonotonicClock.now().saturating_duration_since(began);
        self.0 = (self.0 * 2)
            .min(LONGEST_NAP)
            .max(took.saturating_mul(SHARE));
        runnable
    }

    #[cfg(anthill_loom)]
    pub(super) fn look(&mut self, _: &[SystemThread]) -> usize {
        self.0 *= 2;
        0
    }

    pub(super) fn length(&self) -> Duration {
        self.0
    }
}

/// The drain tasks that run pieces.
pub(super) struct Crew {
    cores: usize,
    /// Most drain tasks that run pieces. More may run until their turns end, if it has become less.
    allowed: usize,
    threads: Vec<SystemThread>,
    /// Wakes the scout.
    scout: Option<Parker>,
    progress: Progress,
}

/// Detects pieces that wait for others without sleeping, such as spin loops: no piece ends.
struct Progress {
    /// A piece has ended since a scout looked last.
    is_made: bool,
    /// First look since a piece has ended.
    since: Option<Instant>,
    /// Time without an end after which another drain task begins. Each further one takes twice as long.
    patience: Duration,
}

impl Progress {
    const NONE: Self = Self {
        is_made: false,
        since: None,
        patience: LONGEST_PATIENCE,
    };
}

impl Crew {
    pub(super) fn new(cores: usize) -> Self {
        Self {
            cores,
            allowed: cores,
            threads: Vec::new(),
            scout: None,
            progress: Progress::NONE,
        }
    }

    /// Called when a piece has ended.
    pub(super) fn note_progress(&mut self) {
        self.progress.is_made = true;
    }

    /// Whether one more drain task would run pieces or be the scout. `drainers` and `starting` count as in the lanes.
    pub(super) fn has_use(&self, drainers: usize, starting: usize) -> bool {
        drainers < self.allowed || starting == 0 && self.scout.is_none()
    }

    /// Whether another drain task may run pieces.
    fn has_room(&self) -> bool {
        self.threads.len() < self.allowed
    }

    /// Whether drain tasks should end that run pieces.
    pub(super) fn has_too_many(&self) -> bool {
        self.threads.len() > self.allowed
    }

    /// Counts a drain task that begins on `thread`, if it may run pieces.
    pub(super) fn join(&mut self, thread: SystemThread) -> bool {
        let joins = self.has_room();
        if joins {
            self.threads.push(thread);
        }
        joins
    }

    /// Uncounts a drain task. The caller wakes the scout, without the lock.
    #[must_use]
    pub(super) fn leave(&mut self, thread: SystemThread) -> Option<Parker> {
        let place = self.threads.iter().position(|&other| other == thread);
        place.map(|place| self.threads.swap_remove(place));
        self.scout.clone()
    }

    /// Makes the caller the scout, unless there is one.
    pub(super) fn begin_to_scout(&mut self, parker: &Parker) -> bool {
        let begins = self.scout.is_none();
        if begins {
            self.scout = Some(parker.clone());
        }
        begins
    }

    pub(super) fn end_scouting(&mut self) {
        self.scout = None;
    }

    /// The threads that run pieces, to look at without the lock.
    pub(super) fn threads(&self) -> Vec<SystemThread> {
        self.threads.clone()
    }

    /// Decides how many drain tasks may run pieces, when `runnable` of their threads do not sleep.
    pub(super) fn adapt(&mut self, runnable: usize) {
        let (now, progress) = (self.threads.len(), &mut self.progress);
        if progress.is_made {
            *progress = Progress::NONE;
        }
        if runnable == 0 {
            self.allowed = now.saturating_mul(2).max(self.cores); // All sleep, so their number says nothing yet.
        } else if runnable < self.cores {
            self.allowed = now + (self.cores - runnable);
        } else if !within(progress.patience, &mut progress.since) {
            progress.since = None;
            progress.patience *= 2;
            self.allowed = now + 1;
        } else {
            self.allowed = now.saturating_sub(runnable - self.cores).max(self.cores);
        }
    }
}

#[cfg(all(test, not(anthill_loom)))]
mod tests {
    use super::*;

    /// A crew whose threads are all the calling one.
    fn crew(cores: usize, running: usize) -> Crew {
        let mut crew = Crew::new(cores);
        crew.allowed = crew.allowed.max(running);
        (0..running).for_each(|_| assert!(crew.join(SystemThread::current())));
        crew
    }

    #[test]
    fn a_crew_grows_by_the_free_cores_and_doubles_while_all_sleep() {
        let mut crew = crew(4, 4);
        crew.adapt(4);
        assert_eq!(crew.allowed, 4);
        crew.adapt(3);
        assert_eq!(crew.allowed, 5);
        crew.adapt(1);
        assert_eq!(crew.allowed, 7);
        crew.adapt(0);
        assert_eq!(crew.allowed, 8);
    }

    #[test]
    fn a_crew_shrinks_by_the_threads_that_wait_for_a_core() {
        let mut crew = crew(2, 10);
        crew.adapt(5);
        assert_eq!(crew.allowed, 7);
        assert!(crew.has_too_many() && !crew.has_room());
        crew.adapt(10);
        assert_eq!(crew.allowed, 2);
    }

    #[test]
    fn a_crew_without_progress_grows_by_one_and_waits_twice_as_long_for_the_next() {
        let mut crew = crew(2, 2);
        crew.progress.patience = Duration::ZERO; // Any time is too long.
        crew.adapt(2);
        assert_eq!(crew.allowed, 3);
        crew.progress.patience = LONGEST_PATIENCE;
        crew.progress.since = MonotonicClock.now().checked_sub(2 * LONGEST_PATIENCE);
        crew.adapt(2);
        assert_eq!(
            (crew.allowed, crew.progress.patience),
            (3, 2 * LONGEST_PATIENCE)
        );
        crew.note_progress();
        crew.adapt(2);
        assert_eq!(
            (crew.allowed, crew.progress.patience),
            (2, LONGEST_PATIENCE),
            "a piece has ended"
        );
    }

    #[test]
    fn a_crew_has_use_for_its_room_and_one_scout() {
        let mut crew = crew(2, 2);
        assert!(crew.has_use(2, 0));
        assert!(!crew.has_use(3, 1), "it becomes the scout");
        let parker = Parker::of_thread();
        assert!(crew.begin_to_scout(&parker) && !crew.begin_to_scout(&parker));
        assert!(!crew.has_use(3, 0));
        crew.adapt(1);
        crew.allowed = 4;
        assert!(crew.has_use(3, 0));
        crew.end_scouting();
        assert!(crew.has_use(4, 0));
    }

    #[test]
    fn a_drain_task_that_leaves_wakes_the_scout() {
        let mut crew = crew(2, 2);
        assert!(crew.leave(SystemThread::current()).is_none());
        let parker = Parker::of_thread();
        assert!(crew.begin_to_scout(&parker));
        let scout = crew.leave(SystemThread::current());
        scout.expect("there is one").unpark();
        parker.park();
        assert_eq!(crew.threads.len(), 0);
    }

    #[test]
    fn naps_become_longer_and_are_long_beside_the_looks() {
        let mut nap = Nap::new();
        assert_eq!(nap.length(), FIRST_NAP);
        for _ in 0..9 {
            nap.look(&[SystemThread::current(); 1]);
        }
        assert!(nap.length() >= LONGEST_NAP);
    }
}
