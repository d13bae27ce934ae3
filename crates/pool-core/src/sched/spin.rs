//! How long a thread looks before it sleeps.
//!
//! Spinning wins where the other side runs on another core this instant, yielding where it is
//! ready but has no core, sleeping everywhere else. `docs/decisions/waiting.md` has the tables.

use std::time::{Duration, Instant};

use sync_shim::thread::{spin_loop, yield_briefly};
#[cfg(not(anthill_loom))]
use sync_shim::{Clock, MonotonicClock};

/// Looks to take: first `spins` in a row, then `yields` with other threads let in between.
#[derive(Clone, Copy, Debug)]
pub struct SpinPolicy {
    pub(crate) spins: u32,
    pub(crate) yields: u32,
}

/// Looks in a row in place of yields that would let strangers in: about as long as a wake-up takes.
const INSTEAD: u32 = 200;

/// A worker that has run out of work.
pub(crate) const SEARCH: SpinPolicy = SpinPolicy {
    spins: 16,
    yields: 16,
};

/// One that has lately looked in vain.
pub(crate) const SHORT_SEARCH: SpinPolicy = SpinPolicy {
    spins: 48,
    yields: 0,
};

/// A submitter at a full pool.
pub(crate) const SUBMIT: SpinPolicy = SpinPolicy {
    spins: 8,
    yields: 16,
};

/// A thread that joins a task.
pub const JOIN_SPIN: SpinPolicy = SpinPolicy {
    spins: 64,
    yields: 4,
};

/// Looks until `ready` says so or the effort is spent; the answer is `ready`'s last.
///
/// A model takes no effort: looking again without a wake-up adds executions and no outcomes.
pub fn spin_until(policy: SpinPolicy, ready: impl Fn() -> bool) -> bool {
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

/// Looks until `ready` says so, for at most so long by the machine's clock. Returns when the looks began if they were
/// in vain.
#[cfg(not(anthill_loom))]
pub(crate) fn spin_for(time: Duration, ready: impl Fn() -> bool) -> Option<Instant> {
    let began = MonotonicClock.now();
    loop {
        if looks(16, &ready) || !yield_briefly(1) && looks(32, &ready) {
            return None;
        }
        if began.elapsed() > time {
            return Some(began);
        }
    }
}

/// A model takes no effort.
#[cfg(anthill_loom)]
pub(crate) fn spin_for(_: Duration, ready: impl Fn() -> bool) -> Option<Instant> {
    ready();
    None
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
