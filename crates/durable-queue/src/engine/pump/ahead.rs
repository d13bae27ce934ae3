//! Jobs claimed but not started, by due time.

use std::collections::BTreeMap;
use std::time::Instant;

use delay_queue::DelayHeap;

use crate::store::Lease;
use crate::store::time::StoreTime;

pub(super) struct Ahead {
    pub(super) lease: Lease,
    /// End of the lease.
    pub(super) until: Instant,
    /// Number of recalls received before the claim. After a further one, the store must confirm the start.
    pub(super) recalls: u64,
    /// Number of starts that were refused although the job was due.
    pub(super) refused: u32,
}

#[derive(Default)]
pub(super) struct AheadJobs {
    jobs: DelayHeap<Ahead>,
    /// Number of jobs of each kind.
    of_kinds: BTreeMap<String, usize>,
}

impl AheadJobs {
    pub(super) fn len(&self) -> usize {
        self.jobs.len()
    }

    pub(super) fn push(&mut self, job: Ahead, at: StoreTime) {
        if let Some(kind) = &job.lease.kind {
            *self.of_kinds.entry(kind.clone()).or_default() += 1;
        }
        self.jobs.push(job, key(at));
    }

    pub(super) fn of_kind(&self, kind: &str) -> usize {
        self.of_kinds.get(kind).copied().unwrap_or(0)
    }

    fn pop(&mut self) -> Option<Ahead> {
        let job = self.jobs.pop()?.value;
        if let Some(kind) = &job.lease.kind
            && let Some(count) = self.of_kinds.get_mut(kind)
        {
            *count -= 1;
        }
        Some(job)
    }

    pub(super) fn count_due(&mut self, now: StoreTime) -> usize {
        self.jobs.count_ready(key(now), usize::MAX)
    }

    pub(super) fn next_after(&mut self, now: StoreTime) -> Option<StoreTime> {
        let next = self.jobs.next_after(key(now))?;
        Some(StoreTime::from_micros((next ^ SIGN).cast_signed()))
    }

    /// Removes the first `count` jobs.
    pub(super) fn take(&mut self, count: usize) -> impl Iterator<Item = Ahead> {
        (0..count).map_while(|_| self.pop())
    }

    /// Removes the first `count` jobs, and returns those whose leases are live. Any process can claim the
    /// others.
    pub(super) fn take_held(&mut self, count: usize, now: Instant) -> Vec<Ahead> {
        self.take(count).filter(|job| now < job.until).collect()
    }
}

/// Flipping it orders negative times before others.
const SIGN: u64 = 1 << 63;

fn key(time: StoreTime) -> u64 {
    time.as_micros().cast_unsigned() ^ SIGN
}
