//! Inboxes beside the first one, for submits that find its lock held for long.
//!
//! With more threads than cores, the thread that holds an inbox's lock may have lost its core. The workers go on, on
//! their own half, so it gets the core back only after a slice of the scheduler, and a submit that has nothing to decide
//! would wait for it for milliseconds. Such a submit goes on to the next lane, and so do all later ones, until the next
//! decision: a section on the whole lock empties the lanes in their order and begins again with the first.
//!
//! # Invariants
//! 1. Between two sections on the whole lock the open lane only moves on. So a thread's tasks enter lanes in the order of
//!    their submits, and the lanes are emptied in this order.
//! 2. A section on the whole lock closes the lanes before it empties those that were open. A thread that gets the lock
//!    of a lane other than the first asks again which one is open, and gives up a lane that is not open any more, or not
//!    yet again. So no task enters a lane that was emptied, or that will not be.
//! 3. The sections on a lane take their credits from `spare`, which the whole lock's holder sets while they are closed.
//!
//! # Memory orderings
//! Whoever asks again holds the lane's lock. If a section emptied the lane before, the lock orders the closing before
//! the question. If the lane was not among those that it emptied, the answer is a number that a submit has written
//! since, and an acquiring load of it synchronizes with the opening, which releases `spare`.

use backoff_spinlock::Backoff;
use sync_shim::atomic::Ordering::{Acquire, Relaxed, Release};
use sync_shim::atomic::{AtomicBool, AtomicUsize};

use crate::sched::lock::{Pair, Second, Single};

/// Lanes besides the first. A submit waits if the holders of all have lost their cores; `docs/decisions/two-locks.md` has
/// the figures for 2, 4 and 7.
const OTHERS: usize = 7;
/// Rounds of spinning between tries of a lock. Together they take about a microsecond, as long as twenty sections.
const ROUNDS: u32 = 6;
/// Credits that a lane takes at a time.
const CHUNK: usize = 32;
/// A pool that has granted fewer credits decides soon, and has one lane.
const FEW: usize = 64;

const CLOSED: usize = 0;
const FIRST: usize = 1;

pub(crate) struct Lanes<B> {
    /// The number of the open lane, or `CLOSED`.
    open: AtomicUsize,
    /// Number of tasks that may enter other lanes than the first one until the next decision.
    spare: AtomicUsize,
    /// Whether another lane was opened since the last trim.
    used: AtomicBool,
    /// Empty in models without lanes.
    others: Box<[Single<B>]>,
}

impl<B> Lanes<B> {
    pub(crate) fn new(mut other: impl FnMut() -> B) -> Self {
        let others = if has_others() { OTHERS } else { 0 };
        Self {
            open: AtomicUsize::new(CLOSED),
            spare: AtomicUsize::new(0),
            used: AtomicBool::new(false),
            others: (0..others).map(|_| Single::new(other())).collect(),
        }
    }

    /// Whether no other lane than the first is open.
    #[inline]
    pub(crate) fn only_first(&self) -> bool {
        // In a model there is nothing to ask, so it has one step fewer.
        cfg!(anthill_loom) && self.others.is_empty() || self.open.load(Relaxed) <= FIRST
    }

    /// Takes the lock of the open lane, or of the next one if it is held for long. Waits if no lane is open, no credits are
    /// left or the last lane is held, too; and if the caller `stays`, which a worker does: it gives its core to the holder.
    #[cold]
    pub(crate) fn lock<'a, A>(&'a self, first: &'a Pair<A, B>, stays: bool) -> Second<'a, A, B> {
        loop {
            let open = self.open.load(Relaxed);
            let waits = stays || open > OTHERS || self.spare.load(Relaxed) == 0;
            let guard = match open {
                CLOSED => return first.second(),
                FIRST => lock_within(waits, || first.try_second(), || first.second()),
                _ => {
                    let lane = &self.others[open - FIRST - 1];
                    lock_within(waits, || lane.try_lock(), || lane.lock())
                }
            };
            match guard {
                // Asked with the lock held: a section that closes the lanes from now on waits for it. Every section takes
                // the first lane's.
                Some(guard) if open == FIRST || self.open.load(Acquire) >= open => return guard,
                Some(_) => {}
                None => self.go_on(open),
            }
        }
    }

    /// Opens the next lane, unless another submit or a section was faster.
    fn go_on(&self, open: usize) {
        let next = self.open.compare_exchange(open, open + 1, Relaxed, Relaxed);
        if next.is_ok() {
            self.used.store(true, Relaxed);
        }
    }

    /// Takes credits for an open lane, whose lock is held.
    #[cold]
    pub(crate) fn take(&self) -> usize {
        let take = |spare: usize| (spare > 0).then(|| spare.saturating_sub(CHUNK));
        let before = self.spare.fetch_update(Relaxed, Relaxed, take);
        before.map_or(0, |before| before.min(CHUNK))
    }

    /// Closes the lanes. Returns those besides the first that were open, which may have tasks and unused credits. The
    /// whole lock is held.
    pub(crate) fn close(&self) -> &[Single<B>] {
        let open = self.open.swap(CLOSED, Relaxed);
        &self.others[..open.saturating_sub(FIRST)]
    }

    /// Takes back credits of a lane. The lanes are closed, and the whole lock is held.
    pub(crate) fn give_back(&self, credits: usize) {
        if credits > 0 {
            self.spare.fetch_add(credits, Relaxed);
        }
    }

    /// Sets how many tasks may enter other lanes than the first, and returns that number. The lanes are closed, and the
    /// whole lock is held.
    #[inline]
    pub(crate) fn grant(&self, credits: usize) -> usize {
        // Half of them, because nobody can tell who will need them; whoever runs out decides, which grants new ones.
        let few = if cfg!(anthill_loom) { 2 } else { FEW };
        if credits < few || self.others.is_empty() {
            return 0;
        }
        self.spare.store(credits / 2, Relaxed);
        credits / 2
    }

    /// Opens the first lane. The whole lock is held, and its holder changes nothing any more.
    #[inline]
    pub(crate) fn open(&self) {
        self.open.store(FIRST, Release); // Pairs with the Acquire in `lock`.
    }

    /// Returns the other lanes if tasks have entered any since the last call. They may be open.
    pub(crate) fn used(&self) -> &[Single<B>] {
        let had_some = !self.others.is_empty();
        let used = had_some && self.used.load(Relaxed) && self.used.swap(false, Relaxed);
        if used { &self.others } else { &[] }
    }
}

/// Whether this execution has lanes besides the first. Most models have none, which saves them steps.
fn has_others() -> bool {
    #[cfg(anthill_loom)]
    return sync_shim::model::lanes();
    #[cfg(not(anthill_loom))]
    true
}

/// Takes a lock by `lock` if the caller `waits`; otherwise tries for about a microsecond.
fn lock_within<T>(
    waits: bool,
    mut attempt: impl FnMut() -> Option<T>,
    lock: impl FnOnce() -> T,
) -> Option<T> {
    if waits {
        return Some(lock());
    }
    // A model tries once, since another time has no other outcomes.
    let rounds = if cfg!(anthill_loom) { 0 } else { ROUNDS };
    attempt().or_else(|| {
        let mut backoff = Backoff::new();
        (0..rounds).find_map(|_| {
            backoff.spin();
            attempt()
        })
    })
}

#[cfg(all(test, not(anthill_loom)))]
mod tests {
    use super::*;

    type Both = (Pair<(), u32>, Lanes<u32>);

    fn opened(credits: usize) -> Both {
        let (pair, lanes) = (Pair::new((), 0), Lanes::new(|| 0));
        assert_eq!(lanes.grant(credits), credits / 2);
        lanes.open();
        (pair, lanes)
    }

    #[test]
    fn a_submit_goes_on_to_the_next_lane_while_one_is_held_and_not_back() {
        let (pair, lanes) = opened(FEW);
        assert!(lanes.only_first());
        let held = pair.second();
        {
            let mut second = lanes.lock(&pair, false);
            *second.half() = 2;
            *lanes.lock(&pair, false).half() = 3;
        }
        drop(held);
        *lanes.lock(&pair, false).half() += 30;
        assert!(!lanes.only_first());
        let of = |lane: &Single<u32>| *lane.lock::<()>().half();
        assert_eq!(lanes.close().iter().map(of).collect::<Vec<_>>(), [2, 33]);
        assert_eq!((*pair.second().half(), lanes.close().len()), (0, 0));
    }

    #[test]
    fn each_credit_is_taken_once_and_few_are_not_shared() {
        let (_, lanes) = opened(FEW);
        assert_eq!((lanes.take(), lanes.take()), (CHUNK, 0));
        lanes.close();
        lanes.give_back(3);
        assert_eq!((lanes.take(), lanes.take()), (3, 0));
        assert_eq!(lanes.grant(FEW - 1), 0);
    }

    #[test]
    fn lanes_that_were_used_are_trimmed_once() {
        let (pair, lanes) = opened(FEW);
        assert!(lanes.used().is_empty());
        let held = pair.second();
        drop(lanes.lock(&pair, false));
        drop(held);
        assert_eq!((lanes.used().len(), lanes.used().len()), (OTHERS, 0));
    }
}
