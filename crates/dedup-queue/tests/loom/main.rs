//! Models of the queue's protocols. Each names the racing parties and the harm that must not
//! happen.
//!
//! Every model waits for its work before it shuts anything down, so that the broadcast of the
//! shut-down cannot hide a lost wake-up. Only the models advance time. The models of `delay-queue`
//! cover the choice of the takers to notify and the leader. These models cover this queue's own
//! parts: held and dirty keys, drains, and the notifications that each critical section owes.
//!
//! Run with `cargo xtask loom`.
#![cfg(anthill_loom)]
#![expect(clippy::unwrap_used, reason = "a failing model must panic")]

mod delivery;
mod dropping;
mod ending;
mod failing;
mod lanes;
mod timing;
mod user_code;

use std::collections::hash_map::DefaultHasher;
use std::hash::BuildHasherDefault;
use std::sync::Arc;
use std::time::Duration;

use dedup_queue::{Clock, Delaying, KeyQueue, Layer, ManualClock, Plain, Retrying};
use sync_shim::atomic::{AtomicUsize, Ordering::Relaxed};
use sync_shim::model::{JoinHandle, check, spawn};

/// Hashes equally in every execution.
type Fixed = BuildHasherDefault<DefaultHasher>;
type Queue<L = Plain> = KeyQueue<u32, Fixed, ManualClock, L>;

const SECOND: Duration = Duration::from_secs(1);

fn plain() -> Queue {
    let builder = KeyQueue::<u32, _, _, Plain>::builder();
    builder
        .hasher(Fixed::default())
        .clock(ManualClock::new())
        .build()
}

fn delaying() -> (Queue<Delaying>, ManualClock) {
    timed(KeyQueue::<u32, _, _, Delaying>::builder())
}

fn retrying() -> (Queue<Retrying>, ManualClock) {
    timed(KeyQueue::<u32, _, _, Retrying>::builder())
}

fn timed<L: Layer>(
    builder: dedup_queue::Builder<u32, std::hash::RandomState, ManualClock, L>,
) -> (Queue<L>, ManualClock) {
    let clock = ManualClock::new();
    (
        builder
            .hasher(Fixed::default())
            .clock(clock.clone())
            .build(),
        clock,
    )
}

/// Spawns a thread with a handle of the queue.
fn beside<C: Clock, L: Layer, R: Send + 'static>(
    queue: &KeyQueue<u32, Fixed, C, L>,
    work: impl FnOnce(&KeyQueue<u32, Fixed, C, L>) -> R + Send + 'static,
) -> JoinHandle<R> {
    let queue = queue.clone();
    spawn(move || work(&queue))
}

/// Asserts that no two workers hold one key.
#[derive(Clone)]
struct Desk(Arc<AtomicUsize>);

impl Desk {
    fn new() -> Self {
        Self(Arc::new(AtomicUsize::new(0)))
    }

    /// `Relaxed`: the queue must order the two workers.
    fn work<L: Layer>(&self, queue: &Queue<L>) {
        let held = queue.get().unwrap();
        assert_eq!(self.0.fetch_add(1, Relaxed), 0, "two workers on one key");
        self.0.fetch_sub(1, Relaxed);
        drop(held);
    }
}

/// Asserts that no work is left.
fn is_at_rest<L: Layer>(queue: &Queue<L>) {
    let stats = queue.stats();
    assert_eq!(
        (stats.ready, stats.held, stats.dirty, stats.waiting),
        (0, 0, 0, 0)
    );
}
