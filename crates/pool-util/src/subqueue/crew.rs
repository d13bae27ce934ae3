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

/// Length of a scout's nap. Other tasks wait at most this long for its worker.
pub(super) const NAP: Duration = Duration::from_millis(1);
/// Longest time between two looks at threads of which none has to begin or to end.
const LONGEST_PAUSE: Duration = Duration::from_millis(8);
/// Number of such looks in a row after which the crew becomes smaller. Threads that sleep for short times run together now and
/// then.
const CROWDED: u32 = 4;
/// Least ratio of the time between two looks to the time that a look takes.
const SHARE: u32 = 32;

/// The threads that run pieces, to look at without the lock.
pub(super) struct Look(Vec<SystemThread>);

/// Result of a look.
pub(super) struct Seen {
    /// Number of threads that do not sleep.
    runnable: usize,
    took: Duration,
}

impl Look {
    pub(super) fn count(&self) -> Seen {
        let began = now();
        let runnable = self.0.iter().filter(|thread| thread.is_runnable()).count();
        let times = now().zip(began);
        let took = times.map(|(now, began)| now.saturating_duration_since(began));
        Seen {
            runnable,
            took: took.unwrap_or_default(),
        }
    }
}

/// Real time, because a manual clock of the pool may stand still. In a model there is none.
#[cfg_attr(
    not(anthill_loom),
    expect(clippy::unnecessary_wraps, reason = "models have no time")
)]
fn now() -> Option<Instant> {
    #[cfg(not(anthill_loom))]
    return Some(MonotonicClock.now());
    #[cfg(anthill_loom)]
    return None;
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
    /// Number of looks in a row that saw more threads run than there are cores.
    crowded: u32,
    /// Time of the next look. `None` before the first one.
    due: Option<Instant>,
    /// Time from the last look to the next.
    pause: Duration,
    /// A drain task is looking.
    is_looking: bool,
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
            crowded: 0,
            due: None,
            pause: NAP,
            is_looking: false,
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

    /// Adds a thread beyond those that may run pieces.
    #[cfg(all(test, not(anthill_loom)))]
    pub(super) fn join_surplus(&mut self, thread: SystemThread) {
        self.threads.push(thread);
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

    /// Begins a look if one is due, and may make the crew grow or shrink. The caller looks without the lock.
    pub(super) fn begin_look(&mut self) -> Option<Look> {
        let has_use = self.scout.is_some() || self.threads.len() > self.cores;
        let is_early = now().zip(self.due).is_some_and(|(now, due)| now < due);
        if !has_use || self.is_looking || is_early {
            return None;
        }
        self.is_looking = true;
        Some(Look(self.threads.clone()))
    }

    /// Decides how many drain tasks may run pieces.
    pub(super) fn end_look(&mut self, seen: &Seen) {
        let before = self.allowed;
        self.adapt(seen.runnable);
        let pause = if self.allowed == before {
            (self.pause * 2).min(LONGEST_PAUSE)
        } else {
            NAP
        };
        // A look may have taken so long because its thread waited for a core.
        self.pause = pause.max(seen.took.saturating_mul(SHARE).min(LONGEST_PATIENCE));
        self.due = now().and_then(|now| now.checked_add(self.pause));
        self.is_looking = false;
    }

    fn adapt(&mut self, runnable: usize) {
        let (now, progress) = (self.threads.len(), &mut self.progress);
        if progress.is_made {
            *progress = Progress::NONE;
        }
        let is_crowded = runnable > self.cores;
        self.crowded = if is_crowded { self.crowded + 1 } else { 0 };
        let allowed = if runnable < self.cores {
            // As many as would keep the cores busy, if the others sleep as much as these. At most twice as many.
            let free = self.cores - runnable;
            now + (now * free / runnable.max(1)).clamp(1, now.max(1))
        } else if !within(progress.patience, &mut progress.since) {
            progress.since = None;
            progress.patience *= 2;
            now + 1
        } else if self.crowded == CROWDED {
            self.crowded = 0;
            now.saturating_sub(runnable - self.cores)
        } else {
            now
        };
        self.allowed = allowed.max(self.cores);
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
    fn a_crew_grows_as_its_threads_sleep_and_at_most_doubles() {
        for (running, runnable, allowed) in [
            (4, 4, 4),
            (4, 3, 5),
            (4, 2, 8),
            (8, 1, 16),
            (9, 3, 12),
            (9, 0, 18),
        ] {
            let mut crew = crew(4, running);
            crew.allowed = crew.threads.len();
            crew.adapt(runnable);
            assert_eq!(crew.allowed, allowed, "{runnable} of {running} run");
        }
    }

    #[test]
    fn a_crew_shrinks_by_the_threads_that_wait_for_a_core_in_several_looks() {
        let mut crew = crew(2, 10);
        let shrinks_by = |crew: &mut Crew, runnable| {
            (1..CROWDED).for_each(|_| crew.adapt(runnable));
            assert_eq!(crew.allowed, 10);
            crew.adapt(runnable);
            10 - crew.allowed
        };
        assert_eq!(shrinks_by(&mut crew, 5), 3);
        assert!(crew.has_too_many() && !crew.has_room());
        crew.allowed = 10;
        crew.adapt(10);
        crew.adapt(2); // Not all the time.
        assert_eq!(shrinks_by(&mut crew, 10), 8);
    }

    #[test]
    fn a_crew_without_progress_grows_by_one_and_waits_twice_as_long_for_the_next() {
        let mut crew = crew(2, 2);
        crew.progress.patience = Duration::ZERO; // Any time is too long.
        crew.adapt(2);
        assert_eq!(crew.allowed, 3);
        crew.progress.patience = LONGEST_PATIENCE;
        crew.progress.since = Instant::now().checked_sub(2 * LONGEST_PATIENCE);
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

    /// A look that saw this many threads run.
    fn seen(runnable: usize) -> Seen {
        let took = Duration::ZERO;
        Seen { runnable, took }
    }

    #[test]
    fn a_crew_with_a_scout_or_more_threads_than_cores_is_looked_at_by_one_at_a_time() {
        let parker = Parker::of_thread();
        let mut idle = crew(2, 2);
        assert!(idle.begin_look().is_none());
        assert!(idle.begin_to_scout(&parker) && idle.begin_look().is_some());
        assert!(idle.begin_look().is_none(), "somebody looks");
        let mut large = crew(2, 3);
        let look = large.begin_look().expect("one is too many");
        assert_eq!(look.count().runnable, 3);
        (0..CROWDED).for_each(|_| large.end_look(&seen(3)));
        assert!(large.has_too_many());
        assert!(large.begin_look().is_none(), "not yet");
        large.due = Some(Instant::now());
        assert!(large.begin_look().is_some());
    }

    #[test]
    fn looks_become_rarer_while_nothing_changes_and_cost_a_small_share_of_the_time() {
        let mut crew = crew(2, 2);
        for pause in [2, 4, 8, 8] {
            crew.end_look(&seen(2));
            assert_eq!(crew.pause, Duration::from_millis(pause));
        }
        crew.end_look(&seen(1));
        assert_eq!(crew.pause, NAP, "it has become larger");
        let slow = |millis| Seen {
            runnable: 1,
            took: Duration::from_millis(millis),
        };
        crew.end_look(&slow(1));
        assert_eq!(crew.pause, Duration::from_millis(SHARE.into()));
        crew.end_look(&slow(100));
        assert_eq!(crew.pause, LONGEST_PATIENCE, "it waited for a core");
    }

    #[test]
    fn a_crew_smaller_than_the_cores_may_grow_to_them() {
        let mut crew = crew(4, 1);
        crew.adapt(3); // Others have left since the look.
        assert_eq!(crew.allowed, 4);
    }
}
