//! The number of live threads of a pool, as counted by hooks, by thread-local destructors and by
//! the operating system.

use std::cell::RefCell;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::thread;

use testkit::Rng;

/// How often a thread yields while it ends.
const LAST_STEPS: u32 = 10;

/// Counted without a lock, and compared when every thread is gone.
#[derive(Debug, Default)]
pub(crate) struct Census {
    /// Threads between their start hook and their stop hook.
    serving: AtomicU64,
    pub(crate) most_serving: AtomicU64,
    /// Threads that have called a start hook.
    pub(crate) threads: AtomicU64,
    /// Threads of those whose thread-locals are not dropped yet.
    pub(crate) alive: AtomicU64,
    /// Calls of hooks, and how many of them panicked.
    calls: AtomicU64,
    pub(crate) panics: AtomicU64,
    /// One in this many calls panics.
    pub(crate) panics_one_in: Option<u64>,
}

/// A thread-local that counts its thread as alive.
struct Presence(Arc<Census>);

impl Drop for Presence {
    fn drop(&mut self) {
        // A thread that ends slowly must be waited for, too.
        (0..LAST_STEPS).for_each(|_| thread::yield_now());
        self.0.alive.fetch_sub(1, Relaxed);
    }
}

thread_local! {
    static PRESENCE: RefCell<Option<Presence>> = const { RefCell::new(None) };
}

impl Census {
    pub(crate) fn random(rng: &mut Rng) -> Arc<Self> {
        let panics_one_in = rng.chance(2).then(|| 2 + rng.below(6) as u64);
        Arc::new(Self {
            panics_one_in,
            ..Self::default()
        })
    }

    pub(crate) fn start(self: &Arc<Self>) {
        PRESENCE.with_borrow_mut(|presence| {
            presence.get_or_insert_with(|| {
                self.threads.fetch_add(1, Relaxed);
                self.alive.fetch_add(1, Relaxed);
                Presence(Arc::clone(self))
            });
        });
        let serving = self.serving.fetch_add(1, Relaxed) + 1;
        self.most_serving.fetch_max(serving, Relaxed);
        self.maybe_panic();
    }

    pub(crate) fn stop(&self) {
        // The longer a worker takes to leave, the more tasks arrive meanwhile.
        (0..LAST_STEPS).for_each(|_| thread::yield_now());
        self.serving.fetch_sub(1, Relaxed);
        self.maybe_panic();
    }

    pub(crate) fn maybe_panic(&self) {
        let call = self.calls.fetch_add(1, Relaxed);
        if self
            .panics_one_in
            .is_some_and(|one_in| call.is_multiple_of(one_in))
        {
            self.panics.fetch_add(1, Relaxed);
            std::panic::resume_unwind(Box::new("a hook's"));
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.alive.load(Relaxed) == 0
    }

    /// Checks that no thread is left. Only threads of this pool have names that begin with `name`.
    pub(crate) fn check(&self, name: &str) {
        assert_eq!(
            self.alive.load(Relaxed),
            0,
            "thread-locals have been dropped"
        );
        assert_eq!(
            self.serving.load(Relaxed),
            0,
            "each start hook has its stop hook"
        );
        // The system forgets a thread shortly after it has woken the joiner.
        while threads_named(name) > 0 {
            thread::yield_now();
        }
    }
}

#[cfg(target_os = "linux")]
fn threads_named(name: &str) -> usize {
    let names = testkit::thread_names();
    names.iter().filter(|comm| comm.starts_with(name)).count()
}

#[cfg(not(target_os = "linux"))]
fn threads_named(_: &str) -> usize {
    0
}
