//! How long a thread polls before it sleeps.
//!
//! Spinning wins if the other thread is running on another core, yielding if it is ready but has no core, sleeping
//! in all other cases. `docs/decisions/waiting.md` has the measurements.

use std::cell::Cell;
use std::ops::RangeInclusive;

use sync_shim::thread::{are_yields_refused, nanos, spin_loop, yield_briefly};

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

/// After `free` failures in a row, each further failure skips the next 1, 2, 4, .. efforts, up to `most`. A success
/// starts over.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Backoff {
    /// Failures in a row that skip nothing.
    free: u32,
    /// Maximum number of efforts skipped in a row. A power of two.
    most: u32,
    failures: u32,
    left_out: u32,
}

impl Backoff {
    pub(crate) const fn new(free: u32, most: u32) -> Self {
        Self {
            free,
            most,
            failures: 0,
            left_out: 0,
        }
    }

    /// Whether to make the effort this time.
    pub(crate) fn is_due(&mut self) -> bool {
        let is_due = self.left_out == 0;
        self.left_out = self.left_out.saturating_sub(1);
        is_due
    }

    /// Whether the next effort is skipped.
    #[cfg(all(test, not(anthill_loom)))]
    pub(crate) fn is_left_out(&self) -> bool {
        self.left_out > 0
    }

    /// Records the outcome of an effort.
    pub(crate) fn learn(&mut self, paid: bool) {
        if paid {
            // From the start, because one success shows that the effort pays again.
            *self = Self::new(self.free, self.most);
            return;
        }
        self.failures = self.failures.saturating_add(1);
        if let Some(doublings) = self.failures.checked_sub(self.free + 1) {
            // After 32 doublings the shift would overflow, so the limit takes over.
            let left_out = 1_u32.checked_shl(doublings).unwrap_or(self.most);
            self.left_out = left_out.min(self.most);
        }
    }
}

/// Maximum number of polls that a joining thread skips in a row.
const MOST_LEFT_OUT: u32 = 64;

sync_shim::thread_locals! {
    // One free failure, so that a thread that joins long and short tasks in turn still polls for the short ones.
    static JOINS: Cell<Backoff> = Cell::new(Backoff::new(1, MOST_LEFT_OUT));
}

/// Polls `ready` a few times before a join sleeps, unless the last polls of the thread were in vain.
pub fn look_before_join(ready: impl Fn() -> bool) {
    if cfg!(anthill_loom) {
        ready(); // As in `spin_until`.
        return;
    }
    JOINS.with(|joins| {
        let mut backoff = joins.get();
        if backoff.is_due() {
            backoff.learn(spin_until(JOIN_SPIN, ready));
        }
        joins.set(backoff);
    });
}

/// A worker's choice between polling on and sleeping after a search in vain, by the lengths of its last idle periods and
/// by what a wake-up takes on this machine.
///
/// Whoever submits one task after another may have been woken by the last task, by means that the pool does not know: a
/// channel, a condition variable, a file. The next task comes about a wake-up later then, and if the worker sleeps by
/// that time, each round trip has a second wake-up. So a worker polls on for up to two wake-ups, which is what its own
/// sleep costs (Karlin et al., 1991: at most twice as much as the better choice), if that would have paid lately.
/// `docs/decisions/waiting.md` has the measurements.
#[derive(Debug)]
pub(crate) struct Linger {
    /// Nanoseconds from the call that wakes the worker until it runs: a running median.
    wake_up: u64,
    /// Nanoseconds per idle period that polling on would have saved: a running mean.
    saving: i64,
    /// Start of this idle period, once its search was in vain.
    began: Option<u64>,
}

/// Bounds of `wake_up`. If a wake-up takes longer, the worker waited for a core, which it would occupy by polling.
// The upper one also bounds a poll to 40 us, so that a pool with a task each 50 us or more does not occupy a core.
const WAKE_UPS: RangeInclusive<u64> = 1_000..=20_000;

impl Linger {
    pub(crate) fn new() -> Self {
        Self {
            wake_up: 5_000,
            saving: 0,
            began: None,
        }
    }

    /// Nanoseconds that the worker polls on at most.
    fn limit(&self) -> u64 {
        2 * self.wake_up
    }

    /// The worker begins to search.
    pub(crate) fn begin(&mut self) {
        self.began = None;
    }

    /// Whether polling on pays. After a poll in vain it does not, until the worker has had work again.
    #[cfg(not(anthill_loom))]
    pub(crate) fn pays(&self) -> bool {
        self.began.is_none() && self.saving > 0
    }

    // A model has no time. Some let each worker poll on.
    #[cfg(anthill_loom)]
    pub(crate) fn pays(&self) -> bool {
        self.began.is_none() && sync_shim::model::lingers()
    }

    /// Polls on.
    // Without yields: a thread that is let in now keeps the core for longer than the task may take to come.
    #[inline(never)]
    pub(crate) fn poll(&mut self, ready: impl Fn() -> bool) {
        if cfg!(anthill_loom) {
            self.began = Some(0);
            ready(); // As in `spin_until`.
            return;
        }
        let began = nanos();
        self.began = Some(began);
        loop {
            // In batches, because reading the clock costs as much as several polls.
            let found = looks(16, &ready);
            let lasted = nanos() - began;
            if found {
                self.learn(lasted, 1);
            }
            if found || lasted > self.limit() {
                return;
            }
        }
    }

    /// The worker goes to sleep.
    pub(crate) fn sleeps(&mut self) {
        self.began.get_or_insert_with(nanos);
    }

    /// The worker runs again. It was last woken at `woken`, perhaps before this idle period.
    pub(crate) fn woke(&mut self, woken: u64) {
        let began = self.began.take();
        if let Some(began) = began.filter(|&began| woken > began) {
            let took = nanos().saturating_sub(woken);
            self.slept(woken - began, took, are_yields_refused());
        }
    }

    /// Learns from an idle period of `idle` nanoseconds, after which the worker was asleep and its wake-up took `took`.
    /// `competes`: other processes use the cores.
    fn slept(&mut self, idle: u64, took: u64, competes: bool) {
        let step = self.wake_up / 16;
        let wake_up = if took > self.wake_up {
            self.wake_up + step
        } else {
            self.wake_up - step
        };
        self.wake_up = wake_up.clamp(*WAKE_UPS.start(), *WAKE_UPS.end());
        // Where cores are scarce the task may have come soon because the worker slept: it gave its core to the thread
        // that brought it. So polling on is tried again, but rarely.
        let counts = if competes && idle <= self.limit() {
            8
        } else {
            1
        };
        self.learn(idle, counts);
    }

    /// Learns from an idle period that counts as one in `weight`.
    fn learn(&mut self, idle: u64, weight: i64) {
        let limit = self.limit().cast_signed();
        let idle = idle.cast_signed();
        // A poll that ends in time saves two sleeps of that cost: the worker's, and that of the thread that would
        // otherwise wait for it.
        let saved = if idle <= limit {
            2 * limit - idle
        } else {
            -limit
        };
        self.saving += (saved - self.saving) / (8 * weight);
    }
}

#[cfg(all(test, not(anthill_loom)))]
mod backoff_tests {
    use super::*;

    /// How many efforts are left out after another failure.
    fn left_out_after_failure(backoff: &mut Backoff) -> u32 {
        assert!(backoff.is_due());
        backoff.learn(false);
        let mut left_out = 0;
        while !backoff.is_due() {
            left_out += 1;
        }
        left_out
    }

    #[test]
    fn each_failure_in_a_row_leaves_out_twice_as_many_up_to_the_limit() {
        let mut backoff = Backoff::new(0, 8);
        for expected in [1, 2, 4, 8, 8, 8] {
            assert_eq!(left_out_after_failure(&mut backoff), expected);
        }
        for _ in 0..100 {
            assert_eq!(left_out_after_failure(&mut backoff), 8, "no overflow");
        }
        backoff.learn(true);
        assert_eq!(left_out_after_failure(&mut backoff), 1);
    }

    #[test]
    fn free_failures_leave_nothing_out_and_are_free_again_after_a_success() {
        let mut backoff = Backoff::new(1, 64);
        for expected in [0, 1, 2] {
            assert_eq!(left_out_after_failure(&mut backoff), expected);
        }
        backoff.learn(true);
        for _ in 0..10 {
            assert_eq!(left_out_after_failure(&mut backoff), 0);
            backoff.learn(true);
        }
    }
}

#[cfg(all(test, not(anthill_loom)))]
mod join_tests {
    use std::thread;

    use super::*;

    #[test]
    fn a_joiner_whose_last_two_looks_were_in_vain_sleeps_at_once() {
        let looks = |ready: bool| {
            let count = Cell::new(0);
            look_before_join(|| {
                count.set(count.get() + 1);
                ready
            });
            count.get() > 0
        };
        let ends = [false, false, true, true, false, false, true];
        // On a thread that has joined nothing.
        let looked = thread::scope(|scope| {
            let joiner = scope.spawn(|| ends.map(looks));
            joiner.join().expect("it does not panic")
        });
        assert_eq!(looked, [true, true, false, true, true, true, false]);
    }
}

#[cfg(all(test, not(anthill_loom)))]
mod linger_tests {
    use super::*;

    /// A worker on a machine whose wake-ups take 10 us, which polls on for 20 us at most.
    fn worker() -> Linger {
        let mut worker = Linger::new();
        for _ in 0..100 {
            worker.slept(1_000_000, 10_000, false);
        }
        assert!(worker.wake_up.abs_diff(10_000) < 1_000, "{worker:?}");
        worker
    }

    #[test]
    fn a_new_worker_sleeps() {
        assert!(!Linger::new().pays());
    }

    #[test]
    fn a_worker_polls_on_once_tasks_come_within_two_wake_ups_and_stops_once_they_do_not() {
        let mut worker = worker();
        assert!(!worker.pays());
        (0..20).for_each(|_| worker.slept(15_000, 10_000, false));
        assert!(worker.pays());
        (0..20).for_each(|_| worker.slept(30_000, 10_000, false));
        assert!(!worker.pays());
    }

    #[test]
    fn a_long_idle_period_in_between_changes_nothing() {
        let mut worker = worker();
        (0..20).for_each(|_| worker.learn(5_000, 1));
        for _ in 0..20 {
            worker.slept(1_000_000_000_000, 10_000, false);
            assert!(worker.pays());
            (0..3).for_each(|_| worker.learn(5_000, 1));
        }
    }

    #[test]
    fn short_sleeps_count_less_while_other_processes_use_the_cores() {
        let mut worker = worker();
        let sleeps = |worker: &mut Linger, competes| {
            let mut count = 0;
            while !worker.pays() {
                worker.slept(3_000, 10_000, competes);
                count += 1;
            }
            count
        };
        let alone = sleeps(&mut worker, false);
        worker = self::worker();
        let beside = sleeps(&mut worker, true);
        assert!(beside >= 6 * alone, "{beside}, {alone}");
    }

    #[test]
    fn a_worker_never_polls_on_for_more_than_40_us() {
        let mut worker = worker();
        (0..1_000).for_each(|_| worker.slept(1_000, u64::MAX, false));
        assert_eq!(worker.limit(), 40_000);
        (0..1_000).for_each(|_| worker.slept(u64::MAX, 0, false));
        assert_eq!(worker.limit(), 2_000);
    }

    #[test]
    fn a_worker_polls_on_once_in_an_idle_period() {
        let mut worker = worker();
        (0..20).for_each(|_| worker.learn(5_000, 1));
        assert!(worker.pays());
        worker.poll(|| false);
        assert!(!worker.pays());
        worker.begin();
        assert!(worker.pays());
        worker.sleeps();
        assert!(!worker.pays(), "it slept");
    }
}
