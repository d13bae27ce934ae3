//! What the models of all pools share.

use std::sync::Arc;

use pool_core::{Builder, Closures, Pool};
use sync_shim::atomic::{AtomicUsize, Ordering::Relaxed};
use sync_shim::model;

/// Explores a model on one lock in the place of the pool's two, and then on the two, with one
/// pre-emption fewer: the executions have more steps there, and by `lock.rs` no other outcomes.
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

/// A pool without a keep-alive: nothing in it is woken by time.
pub(crate) fn untimed(capacity: usize) -> Builder<Closures> {
    Pool::builder().capacity(capacity).keep_alive(None)
}

/// Counts how often something ran. Relaxed: read after the pool's own synchronization.
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

/// Ends the pool; by now the model has waited for its work.
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
