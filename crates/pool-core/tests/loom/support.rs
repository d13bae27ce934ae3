//! Helpers of all models of pools.

use std::sync::Arc;

use pool_core::{Builder, Closures, Pool};
use sync_shim::atomic::{AtomicUsize, Ordering::Relaxed};
use sync_shim::model;

/// Explores a model with one lock instead of the pool's two, and then with both and one pre-emption
/// fewer. With two locks, executions have more steps. According to `lock.rs`, they have no other
/// outcomes.
pub(crate) fn check(name: &str, bound: Option<usize>, body: impl Fn() + Send + Sync + 'static) {
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

/// A pool without a keep-alive, so that no timer wakes a worker.
pub(crate) fn untimed(capacity: usize) -> Builder<Closures> {
    Pool::builder().capacity(capacity).keep_alive(None)
}

/// Counts runs. `Relaxed`: read after the pool has synchronized the threads.
#[derive(Clone)]
pub(crate) struct Runs(Arc<AtomicUsize>);

impl Runs {
    pub(crate) fn new() -> Self {
        Self(Arc::new(AtomicUsize::new(0)))
    }

    pub(crate) fn task(&self) -> impl FnOnce() + Send + 'static {
        let runs = self.clone();
        move || _ = runs.0.fetch_add(1, Relaxed)
    }

    pub(crate) fn count(&self) -> usize {
        self.0.load(Relaxed)
    }
}

/// Ends the pool. The model has already waited for its work.
pub(crate) fn end(pool: &Pool) {
    pool.release();
    pool.wait_released().unwrap();
    let stats = pool.stats();
    assert_eq!((stats.live, stats.in_flight, stats.queued), (0, 0, 0));
    let outcomes =
        stats.completed + stats.panicked + stats.cancelled + stats.expired + stats.released;
    assert_eq!(stats.submitted, outcomes);
    assert_eq!(stats.threads_started, stats.threads_retired);
}
