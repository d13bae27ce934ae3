//! How long a thread polls before it sleeps.
//!
//! Spinning wins if the other thread is running on another core, yielding if it is ready but has no core, sleeping
//! in all other cases. `docs/decisions/waiting.md` has the measurements.

use std::time::{Duration, Instant};

use sync_shim::thread::{spin_loop, yield_briefly};
#[cfg(not(anthill_loom))]
use sync_shim::{Clock, MonotonicClock};

/// An effort: `spins` polls in a row, then `yields` polls with other threads let in between.
#[derive(Clone, Copy, Debug)]
pub struct SpinPolicy {
    pub(crate) spins: u32,
    pub(crate) yields: u32,
}

/// Number of polls that replace the yields where yielding would let threads of other programs in. They take about
/// as long as a wake-up.
const INSTEAD: u32 = 200;

/// For a worker without work.
pub(crate) const SEARCH: SpinPolicy = SpinPolicy {
    spins: 16,
    yields: 16,
};

/// For a worker whose last searches were in vain.
pub(crate) const SHORT_SEARCH: SpinPolicy = SpinPolicy {
    spins: 48,
    yields: 0,
};

/// For a submitter at a full pool.
pub(crate) const SUBMIT: SpinPolicy = SpinPolicy {
    spins: 8,
    yields: 16,
};

/// For a thread that joins a task.
pub const JOIN_SPIN: SpinPolicy = SpinPolicy {
    spins: 64,
    yields: 4,
};

/// Polls `ready` until it is true or the effort is spent. Returns the last answer.
pub fn spin_until(policy: SpinPolicy, ready: impl Fn() -> bool) -> bool {
    // A model polls once: further polls without a wake-up would add executions but no outcomes.
    if cfg!(anthill_loom) {
        return ready();
    }
    // Spins first, because a yield is a system call, which does not pay if the wait ends within a few spins.
    if looks(policy.spins, &ready) {
        return true;
    }
    for _ in 0..policy.yields {
        if ready() {
            return true;
        }
        // The rest of the time is spun away, since a yield to another program may take a whole time slice.
        if !yield_briefly(1) {
            return looks(INSTEAD, ready);
        }
    }
    // Once more, because the other thread may have run during the last yield.
    ready()
}

/// Polls `ready` until it is true or `time` has passed on the machine's clock. Returns the start time if it was in
/// vain.
#[cfg(not(anthill_loom))]
pub(crate) fn spin_for(time: Duration, ready: impl Fn() -> bool) -> Option<Instant> {
    let began = MonotonicClock.now();
    loop {
        // In batches, because reading the clock costs as much as several polls.
        if looks(16, &ready) || !yield_briefly(1) && looks(32, &ready) {
            return None;
        }
        if began.elapsed() > time {
            return Some(began);
        }
    }
}

// A model polls once, as in `spin_until`: time must not decide what it explores.
#[cfg(anthill_loom)]
pub(crate) fn spin_for(_: Duration, ready: impl Fn() -> bool) -> Option<Instant> {
    ready();
    None
}

/// Polls `times` times in a row, and once more.
fn looks(times: u32, ready: impl Fn() -> bool) -> bool {
    for _ in 0..times {
        if ready() {
            return true;
        }
        spin_loop();
    }
    ready()
}
