//! How long a thread looks before it sleeps.
//!
//! Spinning wins where the other side runs on another core this instant, yielding where it is
//! ready but has no core, sleeping everywhere else. `docs/decisions/waiting.md` has the tables.

use sync_shim::thread::{spin_loop, yield_briefly};

/// Looks to take: first `spins` in a row, then `yields` with other threads let in between.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Effort {
    pub(crate) spins: u32,
    pub(crate) yields: u32,
}

/// Looks in a row in place of yields that would let strangers in: about as long as a wake-up takes.
const INSTEAD: u32 = 200;

/// A worker that has run out of work.
const SEARCH: Effort = Effort {
    spins: 16,
    yields: 16,
};

/// One that has lately looked in vain.
const SHORT_SEARCH: Effort = Effort {
    spins: 48,
    yields: 0,
};

/// Short searches in a row, at most.
const MOST_SHORT: u32 = 8;

/// A submitter at a full pool.
pub(crate) const SUBMIT: Effort = Effort {
    spins: 8,
    yields: 16,
};

/// A thread that joins a task.
pub(crate) const JOIN_SPIN: Effort = Effort {
    spins: 64,
    yields: 4,
};

/// How hard a worker searches, by what came of it before.
///
/// Where work comes now and then, yields are processor time lost, and in the way of threads that have
/// work. So after a search in vain the next is a short one; after another in vain the next two, and
/// so on up to [`MOST_SHORT`], until one finds work again. It never searches for longer: a pool that
/// gets a task each 100 us sleeps in between.
#[derive(Default)]
pub(crate) struct Search {
    /// Short ones before the next whole one.
    short: u32,
    /// How many there were after the last whole one.
    last: u32,
}

impl Search {
    /// Looks until `ready` says so, or for long enough.
    pub(crate) fn look(&mut self, ready: impl Fn() -> bool) {
        let whole = self.short == 0;
        let effort = if whole { SEARCH } else { SHORT_SEARCH };
        let found = spin_until(effort, ready);
        self.learn(whole, found);
    }

    fn learn(&mut self, whole: bool, found: bool) {
        if found {
            (self.short, self.last) = (0, 0);
        } else if whole {
            self.last = (self.last * 2).clamp(1, MOST_SHORT);
            self.short = self.last;
        } else {
            self.short -= 1;
        }
    }
}

/// Looks until `ready` says so or the effort is spent; the answer is `ready`'s last.
///
/// A model takes no effort: looking again without a wake-up adds executions and no outcomes.
pub(crate) fn spin_until(effort: Effort, ready: impl Fn() -> bool) -> bool {
    if cfg!(anthill_loom) {
        return ready();
    }
    if looks(effort.spins, &ready) {
        return true;
    }
    for _ in 0..effort.yields {
        if ready() {
            return true;
        }
        if !yield_briefly(1) {
            return looks(INSTEAD, ready);
        }
    }
    ready()
}

/// Looks so often in a row, and once more.
fn looks(times: u32, ready: impl Fn() -> bool) -> bool {
    for _ in 0..times {
        if ready() {
            return true;
        }
        spin_loop();
    }
    ready()
}

#[cfg(all(test, not(anthill_loom)))]
mod tests {
    use super::*;

    /// How many short searches follow a whole one in vain.
    fn short_ones(search: &mut Search) -> u32 {
        search.learn(true, false);
        let mut short = 0;
        while search.short > 0 {
            search.learn(false, false);
            short += 1;
        }
        short
    }

    #[test]
    fn searches_in_vain_get_shorter_and_one_that_finds_work_makes_them_whole_again() {
        let mut search = Search::default();
        for expected in [1, 2, 4, 8, 8] {
            assert_eq!(short_ones(&mut search), expected);
        }
        search.learn(true, true);
        assert_eq!(short_ones(&mut search), 1);
        search.learn(true, false);
        search.learn(false, true);
        assert_eq!(short_ones(&mut search), 1, "a short one found work");
    }

    #[test]
    fn a_look_says_what_came_of_it() {
        let mut search = Search::default();
        search.look(|| false);
        assert_eq!(search.short, 1);
        search.look(|| true);
        assert_eq!((search.short, search.last), (0, 0));
    }
}
