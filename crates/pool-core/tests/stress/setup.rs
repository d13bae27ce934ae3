//! The settings of a round's pool, and the gate that refuses threads.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::thread;
use std::time::Duration;

use pool_core::{BuildError, DropPolicy, QueueDepth, WithinWorker, WorkerPool};
use testkit::Rng;

use crate::census::Census;
use crate::subject::Kind;

#[derive(Clone, Copy, Debug)]
#[expect(clippy::struct_excessive_bools, reason = "each is drawn independently")]
pub(crate) struct Setup {
    pub(crate) typed: bool,
    pub(crate) capacity: Option<usize>,
    pub(crate) depth: Option<usize>,
    max_waiting: Option<usize>,
    nonblocking: bool,
    keep_alive: Option<Duration>,
    min_workers: usize,
    prestart: usize,
    preallocate: bool,
    pub(crate) priorities: bool,
    within_worker: WithinWorker,
    nesting_limit: u32,
    pub(crate) drop_policy: DropPolicy,
    pub(crate) end: End,
}

/// How a round ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum End {
    Release,
    ReleaseNow,
    /// Waits until nothing is in flight first.
    RestThenRelease,
    /// The last handle is dropped.
    Drop,
}

impl Setup {
    pub(crate) fn random(rng: &mut Rng) -> Self {
        let capacity = match rng.below(8) {
            0 => None,
            1 => Some(1),
            2 => Some(1 + rng.below(64)),
            _ => Some(1 + rng.below(4)),
        };
        let most = capacity.unwrap_or(8);
        Self {
            typed: rng.chance(2),
            capacity,
            depth: match rng.below(6) {
                0 => None,
                1 | 2 => Some(1 + rng.below(20)),
                _ => Some(0),
            },
            max_waiting: rng.chance(5).then(|| rng.below(4)),
            nonblocking: rng.chance(8),
            keep_alive: match rng.below(4) {
                0 => None,
                1 => Some(Duration::from_micros(rng.below(500) as u64)),
                _ => Some(Duration::ZERO),
            },
            min_workers: if rng.chance(3) {
                rng.below(most + 1)
            } else {
                0
            },
            prestart: if rng.chance(4) {
                rng.below(most + 1)
            } else {
                0
            },
            preallocate: capacity.is_some() && rng.chance(3),
            priorities: rng.chance(4),
            within_worker: match rng.below(4) {
                0 => WithinWorker::Refuse,
                1 => WithinWorker::Block,
                _ => WithinWorker::RunInPlace,
            },
            nesting_limit: [0, 1, 64][rng.below(3)],
            drop_policy: [DropPolicy::Drain, DropPolicy::Join, DropPolicy::Discard][rng.below(3)],
            end: [
                End::Release,
                End::ReleaseNow,
                End::RestThenRelease,
                End::Drop,
            ][rng.below(4)],
        }
    }

    /// Whether a task may wait for room without keeping all other tasks from ending.
    pub(crate) fn may_wait_within(&self) -> bool {
        self.within_worker != WithinWorker::Block
    }

    pub(crate) fn build<K: Kind>(
        &self,
        name: &str,
        census: &Arc<Census>,
        gate: &Arc<Threads>,
    ) -> Result<WorkerPool<K>, BuildError> {
        let [at_start, at_stop, at_panic] = [(); 3].map(|()| Arc::clone(census));
        let gate = Arc::clone(gate);
        let mut builder = K::builder()
            .name(name)
            .nonblocking(self.nonblocking)
            .keep_alive(self.keep_alive)
            .min_workers(self.min_workers)
            .prestart(self.prestart)
            .preallocate(self.preallocate)
            .priorities(self.priorities)
            .within_worker(self.within_worker)
            .nesting_limit(self.nesting_limit)
            .drop_policy(self.drop_policy)
            .start_hook(move || at_start.start())
            .stop_hook(move || at_stop.stop())
            .panic_hook(move |_| at_panic.maybe_panic())
            .thread_gate(move || gate.ask());
        builder = match self.capacity {
            Some(capacity) => builder.capacity(capacity),
            None => builder.unlimited(),
        };
        builder = match self.depth {
            Some(depth) => builder.queue_depth(depth),
            None => builder.queue_depth(QueueDepth::Unlimited),
        };
        if let Some(most) = self.max_waiting {
            builder = builder.max_waiting(most);
        }
        builder.build()
    }
}

/// One in this many answers of the gate is slow, and yields this often.
const SLOW: u64 = 3;
const SLOWNESS: u32 = 50;

/// Refuses thread starts: every n-th, several in a row, or all for a while.
#[derive(Debug, Default)]
pub(crate) struct Threads {
    asked: AtomicU64,
    /// Every n-th start is refused; 0: none.
    each: AtomicU64,
    /// The number of next starts to refuse.
    burst: AtomicU64,
    pub(crate) given: AtomicU64,
    pub(crate) refused: AtomicU64,
}

// `Relaxed`: independent numbers, compared when every thread is gone.
impl Threads {
    fn ask(&self) -> io::Result<()> {
        let asked = self.asked.fetch_add(1, Relaxed);
        if asked.is_multiple_of(SLOW) {
            (0..SLOWNESS).for_each(|_| thread::yield_now());
        }
        let each = self.each.load(Relaxed);
        let one_less = |left: u64| left.checked_sub(1);
        let in_burst = self.burst.fetch_update(Relaxed, Relaxed, one_less).is_ok();
        if in_burst || (each > 0 && asked.is_multiple_of(each)) {
            self.refused.fetch_add(1, Relaxed);
            return Err(io::ErrorKind::WouldBlock.into());
        }
        self.given.fetch_add(1, Relaxed);
        Ok(())
    }

    pub(crate) fn change(&self, rng: &mut Rng) {
        match rng.below(4) {
            0 => self.each.store(1 + rng.below(4) as u64, Relaxed),
            1 => self.burst.store(rng.below(20) as u64, Relaxed),
            2 => self.each.store(1, Relaxed),
            _ => self.give_all(),
        }
    }

    pub(crate) fn give_all(&self) {
        self.each.store(0, Relaxed);
        self.burst.store(0, Relaxed);
    }
}
