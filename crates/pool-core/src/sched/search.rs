//! Searches for work, before a worker sleeps or a drain task ends.

use crate::sched::backoff::Backoff;
use crate::sched::join_spin::JoinerSpin;
use crate::sched::spin::{SEARCH, SHORT_SEARCH, spin_until};

/// Short searches in a row, at most.
const MOST_SHORT: u32 = 8;

/// How hard to search, by the outcome of earlier searches.
///
/// Where work comes now and then, yields are processor time lost, and in the way of threads that
/// have work. So after a search in vain the next is a short one; after another in vain the next
/// two, and so on up to [`MOST_SHORT`], until one finds work again.
#[expect(missing_debug_implementations, reason = "never leaves a sister crate")]
pub struct Searches(Backoff);

/// How hard one search looks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Search {
    /// Spins, then yields.
    Whole,
    /// Spins only.
    Short,
}

impl Search {
    /// Looks until `ready` says so, or for long enough. Whether it did.
    pub fn look(self, ready: impl Fn() -> bool) -> bool {
        let policy = match self {
            Self::Whole => SEARCH,
            Self::Short => SHORT_SEARCH,
        };
        spin_until(policy, ready)
    }
}

impl Searches {
    /// Searches of which the first is whole.
    #[expect(clippy::new_without_default, reason = "called in two places")]
    pub fn new() -> Self {
        Self(Backoff::new(0, MOST_SHORT))
    }

    /// Begins a search: how hard it looks.
    pub fn begin(&mut self) -> Search {
        if self.0.is_due() {
            Search::Whole
        } else {
            Search::Short
        }
    }

    /// Takes note of a search's outcome.
    pub fn learn(&mut self, search: Search, found: bool) {
        if found || search == Search::Whole {
            self.0.learn(found);
        }
    }
}

/// How hard a worker searches. It never searches for longer than [`Search::Whole`], but [for
/// joiners](JoinerSpin) it has woken: a pool that gets a task each 100 us sleeps in between.
pub(crate) struct AdaptiveSpin {
    searches: Searches,
    joiners: JoinerSpin,
}

impl AdaptiveSpin {
    pub(crate) fn new() -> Self {
        Self {
            searches: Searches::new(),
            joiners: JoinerSpin::new(),
        }
    }

    /// Looks until `ready` says so, or for long enough.
    pub(crate) fn look(&mut self, ready: impl Fn() -> bool) {
        if let Some(found) = self.joiners.look(&ready) {
            self.searches.learn(Search::Short, found);
            return;
        }
        let search = self.searches.begin();
        self.searches.learn(search, search.look(ready));
    }

    /// The worker has slept, and was woken.
    pub(crate) fn woke(&mut self) {
        self.joiners.woke();
    }
}

#[cfg(all(test, not(anthill_loom)))]
mod tests {
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
