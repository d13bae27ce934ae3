//! A worker's searches before it sleeps.

use crate::sched::backoff::Backoff;
use crate::sched::join_spin::JoinerSpin;
use crate::sched::spin::{SEARCH, SHORT_SEARCH, spin_until};

/// Short searches in a row, at most.
const MOST_SHORT: u32 = 8;

/// How hard a worker searches, by what came of it before.
///
/// Where work comes now and then, yields are processor time lost, and in the way of threads that
/// have work. So after a search in vain the next is a short one; after another in vain the next
/// two, and so on up to [`MOST_SHORT`], until one finds work again. It never searches for longer,
/// but [for joiners](JoinerSpin) it has woken: a pool that gets a task each 100 us sleeps in between.
pub(crate) struct AdaptiveSpin {
    whole: Backoff,
    joiners: JoinerSpin,
}

impl AdaptiveSpin {
    pub(crate) fn new() -> Self {
        Self {
            whole: Backoff::new(0, MOST_SHORT),
            joiners: JoinerSpin::new(),
        }
    }

    /// Looks until `ready` says so, or for long enough.
    pub(crate) fn look(&mut self, ready: impl Fn() -> bool) {
        let looked = self.joiners.look(&ready);
        let found = looked.unwrap_or_else(|| self.search(&ready));
        if found {
            self.whole.learn(true);
        }
    }

    fn search(&mut self, ready: impl Fn() -> bool) -> bool {
        if !self.whole.is_due() {
            return spin_until(SHORT_SEARCH, ready);
        }
        let found = spin_until(SEARCH, ready);
        self.whole.learn(found);
        found
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
        while spin.whole.is_left_out() {
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
