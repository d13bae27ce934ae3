//! The started jobs that are not settled, and the renewal of their leases.
//!
//! # Invariants
//! 1. Each renewal time, and each entry of a time limit, belongs to a job in the map.
//! 2. A call looks only at jobs whose renewal is near, so the cost of a pass of the pump does not grow with
//!    the number of held jobs.

use std::collections::BTreeMap;
use std::mem;
use std::sync::Arc;
use std::time::{Duration, Instant};

use delay_queue::{DelayHeap, EntryId};

use crate::engine::command::Held;
use crate::engine::policy::JobPolicy;
use crate::engine::signals::{Events, Signals};
use crate::engine::stats::Counters;
use crate::engine::time_limit::TimeLimit;
use crate::store::Lease;
use crate::store::schedule::{self, UnreadableSchedule};
use crate::store::time::StoreTime;

/// A lease is renewed after this fraction of its duration, which leaves time for retries.
pub(crate) const RENEW_AFTER: u32 = 3;

/// Each has a guard, or is on its way to one.
pub(crate) struct RunningJobs {
    jobs: BTreeMap<Held, Running>,
    /// Ordered by the time since `epoch`, in nanoseconds.
    renewals: DelayHeap<Held>,
    /// Jobs with a time limit, by the next look at it. Ordered as `renewals`.
    limits: DelayHeap<Held>,
    epoch: Instant,
}

/// Small: there is one per running job. Few jobs have the parts in boxes.
struct Running {
    /// When to renew the lease, or when it expires after the attempt's timeout. `None` while a renewal is in
    /// progress, or if neither applies.
    renewal: Option<EntryId>,
    ends_at: Instant,
    /// The lease is not renewed after this.
    timeout_at: Option<Instant>,
    is_timed_out: bool,
    signals: Signals,
    repeat: Option<Box<Repeat>>,
    /// While it is not over.
    limit: Option<Box<(EntryId, Limited)>>,
}

/// A started job with a time limit.
pub(crate) struct Limited {
    pub(crate) limit: TimeLimit,
    /// Without payload and key.
    pub(crate) lease: Lease,
    pub(crate) policy: Option<Arc<JobPolicy>>,
}

/// Schedule of a started job, which is due again when it is acknowledged.
pub(crate) struct Repeat {
    schedule: String,
    /// The due time of this run.
    due: StoreTime,
}

impl Repeat {
    pub(crate) fn of(lease: &Lease) -> Option<Self> {
        let schedule = lease.schedule.clone()?;
        let due = lease.due;
        Some(Self { schedule, due })
    }

    /// Returns the next time: in the future, because one run makes up for all missed times, and later than
    /// this run's time, even if the store's clock was set back. `None` if there is none.
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
            limits: DelayHeap::new(),
            epoch: now,
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.jobs.is_empty()
    }

    pub(crate) fn repeat(&self, held: &Held) -> Option<&Repeat> {
        self.jobs.get(held)?.repeat.as_deref()
    }

    pub(crate) fn signals(&self, held: &Held) -> Option<&Signals> {
        Some(&self.jobs.get(held)?.signals)
    }

    pub(crate) fn insert(
        &mut self,
        held: Held,
        signals: Signals,
        repeat: Option<Repeat>,
        ends_at: Instant,
        timeout_at: Option<Instant>,
    ) {
        let running = Running {
            renewal: None,
            ends_at,
            timeout_at,
            is_timed_out: false,
            signals,
            repeat: repeat.map(Box::new),
            limit: None,
        };
        self.remove(&held); // The store has handed out the same lease twice.
        self.jobs.insert(held, running);
    }

    /// Sets the time limit of a job in the map, which has `left` of it.
    pub(crate) fn limit(&mut self, held: Held, limited: Limited, now: Instant, left: Duration) {
        let Some(at) = now.checked_add(left) else {
            return; // Never.
        };
        let due = self.key(at);
        if let Some(running) = self.jobs.get_mut(&held) {
            running.limit = Some(Box::new((self.limits.push(held, due), limited)));
        }
    }

    /// Removes the jobs whose time limit is over by `now`, tells their handlers, and returns them. The leases are no
    /// longer renewed.
    pub(crate) fn take_overdue(
        &mut self,
        now: Instant,
        counters: &Counters,
    ) -> Vec<(Limited, Signals)> {
        let mut overdue = Vec::new();
        while let Some(entry) = self.limits.pop_ready(self.key(now)) {
            let held = entry.value;
            let running = self.jobs.get_mut(&held);
            let running = running.expect("a job with a time limit is in the map");
            let (_, limited) = *running.limit.take().expect("its entry was in the heap");
            if let Err(left) = limited.limit.expire(now) {
                self.limit(held, limited, now, left);
                continue;
            }
            Counters::count(&counters.timed_out, 1);
            running.signals.set(Events::LOST);
            if let Some(renewal) = running.renewal.take() {
                self.renewals.remove(renewal);
            }
            overdue.push((limited, running.signals.clone()));
        }
        overdue
    }

    /// Ends the job's renewals, and returns its handler's signals.
    pub(crate) fn remove(&mut self, held: &Held) -> Option<Signals> {
        let running = self.jobs.remove(held)?;
        if let Some(renewal) = running.renewal {
            self.renewals.remove(renewal);
        }
        if let Some(limit) = running.limit {
            self.limits.remove(limit.0);
        }
        Some(running.signals)
    }

    /// Schedules the renewal of a lease of duration `span`, which started at `sent`.
    pub(crate) fn renew_after(&mut self, held: Held, sent: Instant, span: Duration) {
        self.look_at(held, sent + span / RENEW_AFTER);
    }

    /// Records a renewal: the lease lasts `span` from `sent`.
    pub(crate) fn renewed(&mut self, held: Held, sent: Instant, span: Duration) {
        if let Some(running) = self.jobs.get_mut(&held) {
            running.ends_at = sent + span;
        }
        self.renew_after(held, sent, span);
    }

    /// Like [`renewed`](Self::renewed), requested by the job's holder, also for a lease without automatic
    /// renewal.
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

    /// Removes the renewals that are due by `near`, and returns their jobs.
    ///
    /// After an attempt's timeout, the lease is not renewed, and the guard is told when it has expired.
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
            let running = self
                .jobs
                .get_mut(&held)
                .expect("a job with a renewal is in the map");
            running.renewal = None;
            if running.timeout_at.is_none_or(|at| now < at) {
                renewed.push(held);
                continue;
            }
            if !mem::replace(&mut running.is_timed_out, true) {
                Counters::count(&counters.timed_out, 1);
            }
            if running.ends_at <= now {
                running.signals.set(Events::LOST);
            } else {
                not_renewed.push((held, running.ends_at));
            }
        }
        for (held, ends_at) in not_renewed {
            self.look_at(held, ends_at);
        }
        renewed
    }

    /// Returns the time of the next renewal, or of the next look at a time limit.
    pub(crate) fn next_renewal(&self) -> Option<Instant> {
        steps::count_one();
        let heaps = [&self.renewals, &self.limits];
        let due = heaps.into_iter().filter_map(DelayHeap::peek_due).min()?;
        Some(self.epoch + Duration::from_nanos(due))
    }

    fn key(&self, at: Instant) -> u64 {
        let since = at.saturating_duration_since(self.epoch).as_nanos();
        u64::try_from(since).unwrap_or(delay_queue::NEVER)
    }
}

/// The pump has ended, so the leases of the remaining jobs are no longer renewed.
impl Drop for RunningJobs {
    fn drop(&mut self) {
        self.jobs
            .values()
            .for_each(|running| running.signals.set(Events::LOST));
    }
}

/// Counts the jobs that a pass looks at for renewal. Compiled only for tests.
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

    /// Returns the count since this thread's last call.
    #[cfg(all(test, not(anthill_loom)))]
    pub(crate) fn take() -> u64 {
        STEPS.take()
    }
}

#[cfg(all(test, not(anthill_loom)))]
mod tests {
    use super::*;
    use crate::store::job::{JobId, Token};

    const SPAN: Duration = Duration::from_secs(60);

    #[test]
    fn a_lease_that_is_not_renewed_from_here_is_not_renewed_after_an_extension_either() {
        let now = Instant::now();
        let mut jobs = RunningJobs::new(now);
        let held = Held {
            id: JobId::from_u64(1),
            token: Token::random(),
        };
        jobs.insert(held, Signals::new(), None, now + SPAN, None);
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
                // A store may hand out the same lease twice: the later one counts.
                for _ in 0..2 {
                    jobs.insert(*held, Signals::new(), None, now + SPAN, None);
                    jobs.renewed(*held, now, SPAN);
                }
                jobs.extended(*held, now, SPAN * 2);
            }
            assert_eq!((jobs.jobs.len(), jobs.renewals.len()), (9, 9));
            // Some are removed while their renewal is in progress.
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
