//! The jobs that are claimed and not started, by their times.

use std::time::Instant;

use delay_queue::DelayHeap;

use crate::store::Lease;
use crate::time::StoreTime;

pub(super) struct Ahead {
    pub(super) lease: Lease,
    /// When the lease ends.
    pub(super) until: Instant,
    /// Recalls that were heard before it was claimed. After a further one the store is asked in any case.
    pub(super) recalls: u64,
    /// How often its start was refused, though its time had come.
    pub(super) refused: u32,
}

#[derive(Default)]
pub(super) struct AheadJobs(DelayHeap<Ahead>);

impl AheadJobs {
    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    pub(super) fn push(&mut self, job: Ahead, at: StoreTime) {
        self.0.push(job, key(at));
    }

    pub(super) fn count_due(&mut self, now: StoreTime) -> usize {
        self.0.count_ready(key(now), usize::MAX)
    }

    pub(super) fn next_after(&mut self, now: StoreTime) -> Option<StoreTime> {
        let next = self.0.next_after(key(now))?;
        Some(StoreTime::from_micros((next ^ SIGN).cast_signed()))
    }

    /// Removes the first jobs, so many.
    pub(super) fn take(&mut self, count: usize) -> impl Iterator<Item = Ahead> {
        (0..count).map_while(|_| Some(self.0.pop()?.value))
    }

    /// The same, but for jobs whose lease has ended: they are free for any process.
    pub(super) fn take_held(&mut self, count: usize, now: Instant) -> Vec<Ahead> {
        self.take(count).filter(|job| now < job.until).collect()
    }
}

/// Set, it orders negative times before the others. Never stays never.
const SIGN: u64 = 1 << 63;

fn key(time: StoreTime) -> u64 {
    time.as_micros().cast_unsigned() ^ SIGN
}
