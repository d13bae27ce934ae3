//! The set of parked workers, and the reason for which each was woken.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, TryReserveError};
use std::sync::Arc;
use std::time::Instant;

use sync_shim::atomic::Ordering::Relaxed;
use sync_shim::atomic::{AtomicBool, AtomicU8};
use sync_shim::thread::{JoinHandle, thread_number};
use sync_shim::waiter::WakeList;
use sync_shim::{Mutex, Parker};
use worker_queue::{IdleQueue, Reuse};

use crate::sched::event::{EventWait, Events};
use crate::sched::spin::{Backoff, Linger, SEARCH, SHORT_SEARCH, spin_until};

/// The part of a worker that other threads use.
pub(crate) struct WorkerCell {
    pub(crate) slot: usize,
    pub(crate) parker: Parker,
    wake_reason: AtomicU8,
    /// Whether the worker is in the list of workers that parked without a timeout. Protected like `wake_reason`.
    untimed: AtomicBool,
    /// The worker's thread, to be joined after its end.
    // A lock of its own, because the starter stores the handle after the thread has begun to run.
    pub(crate) thread: Mutex<Option<JoinHandle>>,
}

/// Why a worker was taken out of the idle set. Read and written only under the pool's lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum WakeReason {
    /// The worker is still in the idle set.
    Parked,
    /// The worker was notified of work. The section that did it counted the worker as searching.
    Work,
    /// The worker was retired. The section that did it counted the worker as leaving.
    Retire,
}

impl WorkerCell {
    pub(crate) fn new(slot: usize) -> Arc<Self> {
        Arc::new(Self {
            slot,
            parker: Parker::new(),
            wake_reason: AtomicU8::new(WakeReason::Work as u8),
            untimed: AtomicBool::new(false),
            thread: Mutex::new(None),
        })
    }

    // Relaxed, here and below, because the pool's lock orders all accesses.
    pub(crate) fn set_wake_reason(&self, reason: WakeReason) {
        self.wake_reason.store(reason as u8, Relaxed);
    }

    /// Returns the previous value.
    pub(crate) fn set_untimed(&self, untimed: bool) -> bool {
        let was = self.untimed.load(Relaxed);
        self.untimed.store(untimed, Relaxed);
        was
    }

    pub(crate) fn wake_reason(&self) -> WakeReason {
        match self.wake_reason.load(Relaxed) {
            reason if reason == WakeReason::Parked as u8 => WakeReason::Parked,
            reason if reason == WakeReason::Work as u8 => WakeReason::Work,
            _ => WakeReason::Retire,
        }
    }
}

/// The parked workers with the time at which each became idle. Protected by the pool's lock.
// `None` where no keep-alive is set, so that the clock is not read once per park.
pub(crate) struct IdleSet(IdleQueue<Arc<WorkerCell>, Option<Instant>>);

impl IdleSet {
    /// Creates a set that reuses the most recently parked worker: its caches are warm, and the others expire.
    pub(crate) fn stack() -> Self {
        Self(IdleQueue::stack())
    }

    /// Creates a set that reuses the worker parked for the longest time. Its memory is allocated ahead.
    pub(crate) fn ring(capacity: usize) -> Result<Self, TryReserveError> {
        // All of it now, so that parking a worker under the lock allocates nothing.
        IdleQueue::ring(capacity).map(Self)
    }

    pub(crate) fn is_ring(&self) -> bool {
        self.0.reuse() == Reuse::Oldest
    }

    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }

    /// Adds a worker. Returns the time from which it counts as idle.
    // Never before the time of its neighbours, since expiry relies on the order.
    pub(crate) fn push(
        &mut self,
        cell: &Arc<WorkerCell>,
        since: Option<Instant>,
    ) -> Option<Instant> {
        cell.set_wake_reason(WakeReason::Parked);
        self.0
            .push(Arc::clone(cell), since)
            .expect("a ring has a slot for each worker of the capacity, and no excess one parks")
    }

    /// Removes the worker to be notified next.
    pub(crate) fn pop(&mut self) -> Option<Arc<WorkerCell>> {
        let cell = self.0.pop()?;
        // In the section that takes it out: a worker whose timeout ends at the same time reads the reason, not the clock.
        cell.set_wake_reason(WakeReason::Work);
        Some(cell)
    }

    /// Removes, for retirement, at most `most` of the workers idle since `limit` or earlier.
    pub(crate) fn expire(&mut self, limit: Instant, most: usize) -> Vec<Arc<WorkerCell>> {
        retire(self.0.drain_expired(Some(limit), most))
    }

    /// Removes, for retirement, the `count` workers that have been idle for the longest time.
    pub(crate) fn retire_oldest(&mut self, count: usize) -> Vec<Arc<WorkerCell>> {
        // The oldest, because the caches of the others are warmer and they are reused before these.
        retire(self.0.drain_oldest(count))
    }

    /// Resizes a ring to the maximum number of workers. The caller has retired the excess before.
    pub(crate) fn resize(&mut self, capacity: usize) -> Result<(), TryReserveError> {
        let evicted = self.0.resize(capacity)?;
        debug_assert!(
            evicted.is_empty(),
            "no more workers are parked than there may be"
        );
        Ok(())
    }
}

fn retire(cells: impl Iterator<Item = Arc<WorkerCell>>) -> Vec<Arc<WorkerCell>> {
    cells
        // As in `pop`, so that the retired worker learns of it even if it wakes up by itself.
        .inspect(|cell| cell.set_wake_reason(WakeReason::Retire))
        .collect()
}

/// Maximum number of short searches in a row.
const MOST_SHORT: u32 = 8;

/// Chooses between whole and short searches, by the outcome of earlier ones.
///
/// After a whole search in vain the next one is short; after another one in vain the next two, and so on up to
/// `MOST_SHORT`. A search that finds work makes the next one whole.
// If work comes rarely, yields waste processor time and delay threads that have work.
#[expect(missing_debug_implementations, reason = "never leaves a sister crate")]
pub struct Searches(Backoff);

/// The effort of one search.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Search {
    /// Spin, then yield.
    Whole,
    /// Spin only.
    Short,
}

impl Search {
    /// Polls `ready` until it is true or the effort is spent. Returns the last answer.
    pub fn look(self, ready: impl Fn() -> bool) -> bool {
        let policy = match self {
            Self::Whole => SEARCH,
            Self::Short => SHORT_SEARCH,
        };
        spin_until(policy, ready)
    }
}

impl Searches {
    /// Creates a history whose first search is whole.
    #[expect(clippy::new_without_default, reason = "called in two places")]
    pub fn new() -> Self {
        Self(Backoff::new(0, MOST_SHORT))
    }

    /// Begins a search and returns how hard it looks.
    pub fn begin(&mut self) -> Search {
        if self.0.is_due() {
            Search::Whole
        } else {
            Search::Short
        }
    }

    /// Records the outcome of a search.
    pub fn learn(&mut self, search: Search, found: bool) {
        // A short search in vain proves nothing: the work may have come during the yields it left out.
        if found || search == Search::Whole {
            self.0.learn(found);
        }
    }
}

/// How a worker without work waits for it: a search, then perhaps further polls, then sleep.
#[expect(missing_debug_implementations, reason = "never leaves a sister crate")]
pub struct AdaptiveSpin {
    searches: Searches,
    linger: Linger,
}

impl AdaptiveSpin {
    /// Creates a history whose first search is whole.
    #[expect(clippy::new_without_default, reason = "called in two places")]
    pub fn new() -> Self {
        Self {
            searches: Searches::new(),
            linger: Linger::new(),
        }
    }

    /// Searches: polls `ready` until it is true or the effort is spent.
    pub fn look(&mut self, ready: impl Fn() -> bool) {
        self.linger.begin();
        let search = self.searches.begin();
        self.searches.learn(search, search.look(ready));
    }

    /// Whether the worker, if no other one is searching, should [poll on](Self::go_on) after a search in vain.
    pub fn lingers(&self) -> bool {
        self.linger.pays()
    }

    /// Goes on searching: polls on if that pays, once in an idle period.
    pub fn go_on(&mut self, ready: impl Fn() -> bool) {
        if self.lingers() {
            self.linger.poll(ready);
        } else {
            self.look(ready);
        }
    }

    /// Records that the worker goes to sleep.
    pub fn sleeps(&mut self) {
        self.linger.sleeps();
    }

    /// Records that the worker runs again, and when it was last woken ([`Parker::woken_at`]).
    pub fn woke(&mut self, woken_at: u64) {
        self.linger.woke(woken_at);
    }
}

// Threads of ended workers, until they have been joined.
//
// Another worker may take a worker's place as soon as it has run its last task and its stop hook. The thread
// itself lives until the destructors of its thread-locals have run, which are user code and may take their
// time. The number of such threads is limited: a worker that would exceed the limit waits at its place until
// another thread has ended.
//
// The wait for the end of all threads is in `life.rs`.
//
// # Invariants, under the pool's lock
// 1. `count` is the number of ended threads that have not been joined. Each of their handles is in `threads`, or
//    held by one thread that joins it and counts it out afterwards.
// 2. A handle outside `threads` is held by a live worker that waits at its place, by a wait for the pool's end, or
//    by an ended thread that was counted after the one it joins. So when no worker is live, joining all of
//    `threads` joins every thread, directly or through another one.
// 3. Only a wait for the end joins a thread that has not reported that it is gone. So a thread-local whose
//    destructor does not return blocks its own thread and the pool's end, and nothing else.

/// Number of threads that may always be ending at the same time. Above it the limit is the largest number of
/// workers that were live at once.
// So that workers ended by a release do not wait for each other. A model has too few threads to exceed more than 1.
const SPARE: usize = if cfg!(anthill_loom) { 1 } else { 8 };

/// Maximum number of threads that an ending thread joins.
// More than one, so that the number of ended threads shrinks; few, so that no thread joins for long.
const MOST_JOINED: usize = 2;

#[derive(Default)]
pub(crate) struct Ending {
    /// With their thread numbers. A list, because most threads are gone soon after they are entered.
    threads: Vec<(usize, JoinHandle)>,
    count: usize,
    gone: Arc<Gone>,
}

/// Reports of threads that are gone. The lock is taken under the pool's lock, and by threads that hold no lock.
// Shared with the threads, because one that reports may outlive the pool.
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
        // By the peak, so that workers that all end at once never wait for each other.
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
        std::mem::take(&mut self.threads)
            .into_iter()
            .map(|(_, thread)| thread)
            .collect()
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
        // Without the lock, so that a woken worker does not wait for it at once.
        // All waiting workers, because the first one may find that another thread has joined the reported one.
        wakes.wake_all();
    }
}

impl Reports {
    fn take_one(&mut self, threads: &mut Vec<(usize, JoinHandle)>) -> Option<JoinHandle> {
        loop {
            let number = self.gone.pop()?;
            // A thread without a handle here has been joined since its report, or another thread is going to join it;
            // the next report may do. Otherwise a waiting worker would miss it.
            if let Some(at) = threads.iter().position(|thread| thread.0 == number) {
                return Some(threads.swap_remove(at).1);
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

/// Worker numbers: the lowest free one is taken, starting at 0. Protected by the pool's lock.
#[derive(Debug, Default)]
pub(crate) struct Slots {
    /// Returned numbers, all below `next`.
    // A heap, so that the lowest free number comes first and the numbers stay below the largest number of live
    // workers: per-worker arrays of users would grow without end otherwise.
    free: BinaryHeap<Reverse<usize>>,
    next: usize,
}

impl Slots {
    pub(crate) fn take(&mut self) -> usize {
        if let Some(Reverse(lowest)) = self.free.pop() {
            return lowest;
        }
        self.next += 1;
        self.next - 1
    }

    pub(crate) fn give_back(&mut self, slot: usize) {
        self.free.push(Reverse(slot));
    }
}

#[cfg(all(test, not(anthill_loom)))]
mod slots_tests {
    use super::*;

    #[test]
    fn the_lowest_number_that_is_free_is_taken_first() {
        let mut slots = Slots::default();
        assert_eq!([slots.take(), slots.take(), slots.take()], [0, 1, 2]);
        slots.give_back(1);
        slots.give_back(0);
        assert_eq!([slots.take(), slots.take(), slots.take()], [0, 1, 3]);
    }

    #[test]
    fn workers_that_come_and_go_leave_no_numbers_beyond_the_most_that_lived_at_once() {
        let mut slots = Slots::default();
        for _ in 0..1000 {
            let taken = [(); 3].map(|()| slots.take());
            for slot in taken {
                slots.give_back(slot);
            }
        }
        assert_eq!((slots.free.len(), slots.next), (3, 3));
    }
}

#[cfg(all(test, not(anthill_loom)))]
mod exits_tests {
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

#[cfg(all(test, not(anthill_loom)))]
mod search_tests {
    use std::cell::Cell;

    use super::*;

    fn looks_of(search: impl FnOnce(&dyn Fn() -> bool)) -> u32 {
        let looks = Cell::new(0);
        search(&|| {
            looks.set(looks.get() + 1);
            false
        });
        looks.get()
    }

    /// How many short searches follow a whole one in vain.
    fn short_ones(spin: &mut AdaptiveSpin) -> u32 {
        let short = looks_of(|ready| _ = spin_until(SHORT_SEARCH, ready));
        let is_short = |spin: &mut AdaptiveSpin| looks_of(|ready| spin.look(ready)) == short;
        assert!(!is_short(spin));
        let mut count = 0;
        while spin.searches.0.is_left_out() {
            assert!(is_short(spin));
            count += 1;
        }
        count
    }

    #[test]
    fn searches_in_vain_get_shorter_and_one_that_finds_work_makes_them_whole_again() {
        let mut spin = AdaptiveSpin::new();
        for expected in [1, 2, 4, 8, 8] {
            assert_eq!(short_ones(&mut spin), expected);
        }
        spin.look(|| true);
        assert_eq!(short_ones(&mut spin), 1);
        spin.look(|| false);
        spin.look(|| true);
        assert_eq!(short_ones(&mut spin), 1, "a short one found work");
    }
}
