//! The jobs that are started and not settled, and when their leases are to be renewed.
//!
//! # What always holds
//! 1. A time of renewal belongs to a job that is here.
//! 2. No call looks at more jobs than those whose times are near: what a pass of the pump costs does not grow
//!    with the jobs that are held.

use std::collections::BTreeMap;
use std::mem;
use std::time::{Duration, Instant};

use delay_queue::{DelayHeap, EntryId};

use crate::command::{Held, LostFlag};
use crate::schedule::{self, UnreadableSchedule};
use crate::stats::Counters;
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
    /// When the lease is to be renewed; or ends, after the attempt's timeout. Absent if neither is of interest, or
    /// while a renewal is under way.
    renewal: Option<EntryId>,
    ends_at: Instant,
    /// From then on the lease is not renewed.
    timeout_at: Option<Instant>,
    is_timed_out: bool,
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

    pub(crate) fn repeat(&self, held: &Held) -> Option<&Repeat> {
        self.jobs.get(held)?.repeat.as_ref()
    }

    pub(crate) fn insert(
        &mut self,
        held: Held,
        lost: LostFlag,
        repeat: Option<Repeat>,
        ends_at: Instant,
        timeout_at: Option<Instant>,
    ) {
        let running = Running {
            renewal: None,
            ends_at,
            timeout_at,
            is_timed_out: false,
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
        self.look_at(held, sent + span / RENEW_AFTER);
    }

    /// The lease is so long from `sent`: it was renewed.
    pub(crate) fn renewed(&mut self, held: Held, sent: Instant, span: Duration) {
        if let Some(running) = self.jobs.get_mut(&held) {
            running.ends_at = sent + span;
        }
        self.renew_after(held, sent, span);
    }

    /// As [`renewed`](Self::renewed), by the job's holder. The lease may be one that is not renewed from here.
    pub(crate) fn extended(&mut self, held: Held, sent: Instant, span: Duration) {
        let Some(running) = self.jobs.get_mut(&held) else {
            return;
        };
        running.ends_at = sent + span;
        if running.renewal.is_some() {
            self.renew_after(held, sent, span);
        }
    }

    fn look_at(&mut self, held: Held, at: Instant) {
        let due = self.key(at);
        let Some(running) = self.jobs.get_mut(&held) else {
            return;
        };
        match running.renewal {
            Some(renewal) => _ = self.renewals.reset(renewal, due),
            None => running.renewal = Some(self.renewals.push(held, due)),
        }
    }

    /// The jobs whose leases are to be renewed by `near`. They have no time of renewal until they are given one.
    ///
    /// After the attempt's timeout a lease is not renewed, and the guard learns of its end.
    pub(crate) fn take_renewals(
        &mut self,
        now: Instant,
        near: Instant,
        counters: &Counters,
    ) -> Vec<Held> {
        let (mut renewed, mut not_renewed) = (Vec::new(), Vec::new());
        while let Some(entry) = self.renewals.pop_ready(self.key(near)) {
            steps::count_one();
            let held = entry.value;
            let running = self.jobs.get_mut(&held).expect("it is here");
            running.renewal = None;
            if running.timeout_at.is_none_or(|at| now < at) {
                renewed.push(held);
                continue;
            }
            if !mem::replace(&mut running.is_timed_out, true) {
                Counters::count(&counters.timed_out, 1);
            }
            if running.ends_at <= now {
                running.lost.set();
            } else {
                not_renewed.push((held, running.ends_at));
            }
        }
        for (held, ends_at) in not_renewed {
            self.look_at(held, ends_at);
        }
        renewed
    }

    /// When the next lease is to be renewed.
    pub(crate) fn next_renewal(&self) -> Option<Instant> {
        steps::count_one();
        let due = self.renewals.peek_due()?;
        Some(self.epoch + Duration::from_nanos(due))
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

#[cfg(all(test, not(anthill_loom)))]
mod tests {
    use super::*;
    use crate::job::{JobId, Token};

    const SPAN: Duration = Duration::from_secs(60);

    #[test]
    fn a_lease_that_is_not_renewed_from_here_is_not_renewed_after_an_extension_either() {
        let now = Instant::now();
        let mut jobs = RunningJobs::new(now);
        let held = Held {
            id: JobId::from_u64(1),
            token: Token::random(),
        };
        jobs.insert(held, LostFlag::new(), None, now + SPAN, None);
        jobs.extended(held, now, SPAN * 2);
        assert_eq!(jobs.next_renewal(), None);
    }

    #[test]
    fn jobs_that_are_gone_leave_no_times_of_renewals_behind() {
        let now = Instant::now();
        let counters = Counters::default();
        let mut jobs = RunningJobs::new(now);
        let held: Vec<Held> = (0..9)
            .map(|id| Held {
                id: JobId::from_u64(id),
                token: Token::random(),
            })
            .collect();
        for _ in 0..3 {
            for held in &held {
                // As by a store that hands out the same lease again: the later one counts.
                for _ in 0..2 {
                    jobs.insert(*held, LostFlag::new(), None, now + SPAN, None);
                    jobs.renewed(*held, now, SPAN);
                }
                jobs.extended(*held, now, SPAN * 2);
            }
            assert_eq!((jobs.jobs.len(), jobs.renewals.len()), (9, 9));
            // Some leave while their renewal is under way.
            assert_eq!(jobs.take_renewals(now, now + SPAN, &counters).len(), 9);
            for held in &held[..5] {
                jobs.renewed(*held, now, SPAN);
            }
            assert_eq!(jobs.renewals.len(), 5);
            for held in &held {
                assert!(jobs.remove(held).is_some());
                jobs.renewed(*held, now, SPAN);
            }
            assert!(jobs.is_empty() && jobs.renewals.is_empty());
            assert_eq!(jobs.next_renewal(), None);
        }
    }
}
