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

/// A worker that has run out of work.
pub(crate) const SEARCH: Effort = Effort {
    spins: 16,
    yields: 16,
};

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

/// Looks until `ready` says so or the effort is spent; the answer is `ready`'s last.
///
/// A model takes no effort: looking again without a wake-up adds executions and no outcomes.
pub(crate) fn spin_until(effort: Effort, ready: impl Fn() -> bool) -> bool {
    if cfg!(anthill_loom) {
        return ready();
    }
    for _ in 0..effort.spins {
        if ready() {
            return true;
        }
        spin_loop();
    }
    for _ in 0..effort.yields {
        if ready() {
            return true;
        }
        if !yield_briefly(1) {
            break;
        }
    }
    ready()
}
