//! How long workers and drain tasks look for work before they sleep or end.

use crate::sched::backoff::Backoff;
use crate::sched::join_spin::JoinerSpin;
use crate::sched::spin::{SEARCH, SHORT_SEARCH, spin_until};

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

/// A worker's searches. The longest one is [`Search::Whole`], except [for joiners](JoinerSpin) that the worker
/// has woken.
// So a worker of a pool that gets a task every 100 us sleeps in between: a longer search would burn its core.
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

    /// Polls `ready` until it is true or the effort is spent.
    pub(crate) fn look(&mut self, ready: impl Fn() -> bool) {
        // Before an ordinary search, because the joiner's next task is likelier than a stranger's. A poll in vain counts as
        // a short search, so that it does not make the next one short.
        if let Some(found) = self.joiners.look(&ready) {
            self.searches.learn(Search::Short, found);
            return;
        }
        let search = self.searches.begin();
        self.searches.learn(search, search.look(ready));
    }

    /// Records that the worker has slept and was woken.
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
