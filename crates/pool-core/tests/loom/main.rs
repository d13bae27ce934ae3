//! Models of the pool's protocols: each names the racing parties and the harm they must not do.
//!
//! Every model waits for its work *before* it releases, so that no closing broadcast rescues a
//! lost wake-up, and no model has a keep-alive whose time passes unless its subject is expiry, so
//! that no timer does. A bound is the number of pre-emptions per execution: two find the known
//! bugs of this family in seconds; a third multiplies the executions by twenty to thirty, and is
//! used where it stays under half a minute. Switches at blocking points are not pre-emptions and
//! are all explored.
//!
//! Run with `cargo xtask loom`.
#![cfg(anthill_loom)]
#![expect(clippy::unwrap_used, reason = "a model that fails is to panic")]

mod admission;
mod blocking;
mod cancel;
mod dispatch;
mod futures;
mod group;
mod handle;
mod keyed;
mod life;
mod map;
mod on_full;
mod pause;
mod permits;

use std::sync::Arc;

use pool_core::{Builder, Closures, Pool};
use sync_shim::atomic::{AtomicUsize, Ordering::Relaxed};
use sync_shim::model;

/// Explores a model on one lock in the place of the pool's two, and then on the two, with one
/// pre-emption fewer: the executions have more steps there, and by `lock.rs` no other outcomes.
fn check(name: &str, bound: Option<usize>, body: impl Fn() + Send + Sync + 'static) {
    let body = Arc::new(body);
    for two in [false, true] {
        let body = Arc::clone(&body);
        let run = move || {
            model::set_two_locks(two);
            body();
        };
        if two {
            let fewer = bound.map_or(2, |bound| bound.saturating_sub(1).max(1));
            model::check(&format!("{name} (two locks)"), Some(fewer), run);
        } else {
            model::check(name, bound, run);
        }
    }
}

/// A pool without a keep-alive: nothing in it is woken by time.
fn untimed(capacity: usize) -> Builder<Closures> {
    Pool::builder().capacity(capacity).keep_alive(None)
}

/// Counts how often something ran. Relaxed: read after the pool's own synchronization.
#[derive(Clone)]
struct Runs(Arc<AtomicUsize>);

impl Runs {
    fn new() -> Self {
        Self(Arc::new(AtomicUsize::new(0)))
    }

    fn task(&self) -> impl FnOnce() + Send + 'static {
        let runs = self.clone();
        move || _ = runs.0.fetch_add(1, Relaxed)
    }

    fn count(&self) -> usize {
        self.0.load(Relaxed)
    }
}

/// Ends the pool; by now the model has waited for its work.
fn end(pool: &Pool) {
    pool.release();
    pool.wait_released().unwrap();
    let stats = pool.stats();
    assert_eq!((stats.live, stats.in_flight, stats.queued), (0, 0, 0));
    let outcomes =
        stats.completed + stats.panicked + stats.cancelled + stats.expired + stats.released;
    assert_eq!(stats.submitted, outcomes);
    assert_eq!(stats.threads_started, stats.threads_retired);
}
