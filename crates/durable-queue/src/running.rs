//! The jobs that are started and not settled, and when their leases are to be renewed.
//!
//! # What always holds
//! 1. A time of renewal belongs to a job that is here.
//! 2. No call looks at more jobs than it returns, and one: what a pass of the pump costs does not grow with
//!    the jobs that are held.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use delay_queue::{DelayHeap, EntryId};

use crate::control::{Held, LostFlag};
use crate::schedule::{self, UnreadableSchedule};
use crate::store::Lease;
use crate::time::StoreTime;

/// A lease is renewed after this part of it, so that a renewal that fails can be tried again.
pub(crate) const RENEW_AFTER: u32 = 3;

/// Each has a guard, or is on its way to one.
pub(crate) struct RunningJobs {
    jobs: BTreeMap<Held, Running>,
    /// By the time since `epoch`, in nanoseconds.
    renewals: DelayHeap<Held>,
    epoch: Instant,
}

struct Running {
    /// Absent if the lease is not renewed, or while a renewal is under way.
    renewal: Option<EntryId>,
    lost: LostFlag,
    repeat: Option<Repeat>,
}

/// A started job comes again when it is acknowledged.
pub(crate) struct Repeat {
    schedule: String,
    /// The time that is worked off.
    due: StoreTime,
}

impl Repeat {
    pub(crate) fn of(lease: &Lease) -> Option<Self> {
        let schedule = lease.schedule.clone()?;
        let due = lease.due;
        Some(Self { schedule, due })
    }

    /// Not a time that has passed: one run makes up for all of those. Nor the one that is worked off,
    /// if the store's clock shows an earlier one now. None if there is no further one.
    pub(crate) fn next(
        &self,
        store_now: StoreTime,
    ) -> Result<Option<StoreTime>, UnreadableSchedule> {
        schedule::next_after(&self.schedule, self.due.max(store_now))
    }
}

impl RunningJobs {
    pub(crate) fn new(now: Instant) -> Self {
        Self {
            jobs: BTreeMap::new(),
            renewals: DelayHeap::new(),
            epoch: now,
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.jobs.is_empty()
    }

    pub(crate) fn contains(&self, held: &Held) -> bool {
        self.jobs.contains_key(held)
    }

    pub(crate) fn repeat(&self, held: &Held) -> Option<&Repeat> {
        self.jobs.get(held)?.repeat.as_ref()
    }

    pub(crate) fn insert(&mut self, held: Held, lost: LostFlag, repeat: Option<Repeat>) {
        let running = Running {
            renewal: None,
            lost,
            repeat,
        };
        let before = self.jobs.insert(held, running);
        if let Some(renewal) = before.and_then(|before| before.renewal) {
            self.renewals.remove(renewal); // A store has handed out the same lease twice.
        }
    }

    /// Ends the job's renewals, and returns what tells its handler that the lease is lost.
    pub(crate) fn remove(&mut self, held: &Held) -> Option<LostFlag> {
        let running = self.jobs.remove(held)?;
        if let Some(renewal) = running.renewal {
            self.renewals.remove(renewal);
        }
        Some(running.lost)
    }

    /// The lease of a job that is here is to be renewed once a part of `span` has passed since `sent`.
    pub(crate) fn renew_after(&mut self, held: Held, sent: Instant, span: Duration) {
        // What ends in the far future is renewed never.
        let at = sent.checked_add(span / RENEW_AFTER);
        let due = at.map_or(delay_queue::NEVER, |at| self.key(at));
        let Some(running) = self.jobs.get_mut(&held) else {
            return;
        };
        match running.renewal {
            Some(renewal) => _ = self.renewals.reset(renewal, due),
            None => running.renewal = Some(self.renewals.push(held, due)),
        }
    }

    /// As [`renew_after`](Self::renew_after), if the lease is renewed at all.
    pub(crate) fn extend(&mut self, held: Held, sent: Instant, span: Duration) {
        let is_renewed = |running: &Running| running.renewal.is_some();
        if self.jobs.get(&held).is_some_and(is_renewed) {
            self.renew_after(held, sent, span);
        }
    }

    /// The next job whose lease is to be renewed by `until`. It has no time of renewal until it is given one.
    pub(crate) fn pop_renewal(&mut self, until: Instant) -> Option<Held> {
        steps::count_one();
        let held = self.renewals.pop_ready(self.key(until))?.value;
        self.jobs.get_mut(&held).expect("it is here").renewal = None;
        Some(held)
    }

    /// When the next lease is to be renewed.
    pub(crate) fn next_renewal(&self) -> Option<Instant> {
        steps::count_one();
        let due = self.renewals.peek_due()?;
        (due != delay_queue::NEVER).then(|| self.epoch + Duration::from_nanos(due))
    }

    fn key(&self, at: Instant) -> u64 {
        let since = at.saturating_duration_since(self.epoch).as_nanos();
        u64::try_from(since).unwrap_or(delay_queue::NEVER)
    }
}

/// Counts the jobs that are looked at for their renewals, so that a test sees what a pass of the pump costs.
/// Outside of tests it does nothing.
pub(crate) mod steps {
    #[cfg(test)]
    std::thread_local! {
        static STEPS: std::cell::Cell<u64> = const { std::cell::Cell::new(0) };
    }

    #[inline]
    pub(crate) fn count_one() {
        #[cfg(test)]
        STEPS.set(STEPS.get() + 1);
    }

    /// How many since the last call of this, by this thread.
    #[cfg(all(test, not(anthill_loom)))]
    pub(crate) fn take() -> u64 {
        STEPS.take()
    }
}
