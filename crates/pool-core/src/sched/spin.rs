//! How long a thread looks before it sleeps.
//!
//! Spinning wins where the other side runs on another core this instant, yielding where it is
//! ready but has no core, sleeping everywhere else. `docs/decisions/waiting.md` has the tables.

use sync_shim::thread::{spin_loop, yield_briefly};

/// Looks to take: first `spins` in a row, then `yields` with other threads let in between.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SpinPolicy {
    pub(crate) spins: u32,
    pub(crate) yields: u32,
}

/// Looks in a row in place of yields that would let strangers in: about as long as a wake-up takes.
const INSTEAD: u32 = 200;

/// A worker that has run out of work.
const SEARCH: SpinPolicy = SpinPolicy {
    spins: 16,
    yields: 16,
};

/// One that has lately looked in vain.
const SHORT_SEARCH: SpinPolicy = SpinPolicy {
    spins: 48,
    yields: 0,
};

/// Short searches in a row, at most.
const MOST_SHORT: u32 = 8;

/// A submitter at a full pool.
pub(crate) const SUBMIT: SpinPolicy = SpinPolicy {
    spins: 8,
    yields: 16,
};

/// A thread that joins a task.
pub(crate) const JOIN_SPIN: SpinPolicy = SpinPolicy {
    spins: 64,
    yields: 4,
};

/// How hard a worker searches, by what came of it before.
///
/// Where work comes now and then, yields are processor time lost, and in the way of threads that
/// have work. So after a search in vain the next is a short one; after another in vain the next
/// two, and so on up to [`MOST_SHORT`], until one finds work again. It never searches for longer: a
/// pool that gets a task each 100 us sleeps in between.
#[derive(Default)]
pub(crate) struct AdaptiveSpin {
    /// Short ones before the next whole one.
    short: u32,
    /// How many there were after the last whole one.
    last: u32,
}

impl AdaptiveSpin {
    /// Looks until `ready` says so, or for long enough.
    pub(crate) fn look(&mut self, ready: impl Fn() -> bool) {
        let found = spin_until(self.policy(), ready);
        self.learn(found);
    }

    /// How to look next.
    pub(crate) fn policy(&self) -> SpinPolicy {
        if self.short == 0 {
            SEARCH
        } else {
            SHORT_SEARCH
        }
    }

    /// Whether that found something.
    pub(crate) fn learn(&mut self, found: bool) {
        if found {
            (self.short, self.last) = (0, 0);
        } else if self.short == 0 {
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
pub(crate) fn spin_until(policy: SpinPolicy, ready: impl Fn() -> bool) -> bool {
    if cfg!(anthill_loom) {
        return ready();
    }
    if looks(policy.spins, &ready) {
        return true;
    }
    for _ in 0..policy.yields {
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
    fn short_ones(spin: &mut AdaptiveSpin) -> u32 {
        spin.learn(false);
        let mut short = 0;
        while spin.short > 0 {
            spin.learn(false);
            short += 1;
        }
        short
    }

    #[test]
    fn searches_in_vain_get_shorter_and_one_that_finds_work_makes_them_whole_again() {
        let mut spin = AdaptiveSpin::default();
        for expected in [1, 2, 4, 8, 8] {
            assert_eq!(short_ones(&mut spin), expected);
        }
        spin.learn(true);
        assert_eq!(short_ones(&mut spin), 1);
        spin.learn(false);
        spin.learn(true);
        assert_eq!(short_ones(&mut spin), 1, "a short one found work");
    }

    #[test]
    fn a_look_says_what_came_of_it() {
        let mut spin = AdaptiveSpin::default();
        spin.look(|| false);
        assert_eq!(spin.short, 1);
        spin.look(|| true);
        assert_eq!((spin.short, spin.last), (0, 0));
    }
}
