//! The parties of a model and their threads.

use std::sync::Arc;
use std::time::Duration;

use scheduled_pool::OnPanic;
use scheduled_pool::internals::{Config, Core, Joinable, Joined, Kept, Many, Plan, Waiter};
use sync_shim::atomic::{AtomicUsize, Ordering::Relaxed};
use sync_shim::model::{JoinHandle, spawn};
use sync_shim::{ManualClock, Parker};

use crate::NOW;
use crate::twin::Twin;

/// A counter. `Relaxed`: read after the model has synchronized the threads.
#[derive(Clone)]
pub(crate) struct Count(Arc<AtomicUsize>);

impl Count {
    pub(crate) fn new() -> Self {
        Self(Arc::new(AtomicUsize::new(0)))
    }

    pub(crate) fn up(&self) {
        self.0.fetch_add(1, Relaxed);
    }

    pub(crate) fn get(&self) -> usize {
        self.0.load(Relaxed)
    }
}

/// The parties of a model.
pub(crate) struct Rig {
    pub(crate) twin: Twin,
    pub(crate) core: Arc<Core<Twin>>,
    pub(crate) clock: ManualClock,
    pub(crate) runs: Count,
    pub(crate) kept: Count,
    pub(crate) captured: Arc<()>,
}

impl Rig {
    pub(crate) fn new(room: bool) -> Self {
        Self::with(room, false)
    }

    /// Sets whether the pool has room, and whether series outlive the release.
    pub(crate) fn with(room: bool, continue_series: bool) -> Self {
        Self::letting_go(room, continue_series, || {})
    }

    /// With user code that runs when the timer drops the pool.
    pub(crate) fn letting_go(
        room: bool,
        continue_series: bool,
        user_code: impl FnOnce() + Send + 'static,
    ) -> Self {
        let (twin, clock, kept) = (Twin::new(room), ManualClock::new(), Count::new());
        let let_go = kept.clone();
        let keep = Box::new(move |_| {
            user_code();
            let_go.up();
            Box::new(()) as Kept
        });
        let mut config = Config::default();
        config.release_policy.continue_series = continue_series;
        let core = Core::new(twin.clone(), Arc::new(clock.clone()), config, keep);
        Self {
            twin,
            core,
            clock,
            runs: Count::new(),
            kept,
            captured: Arc::new(()),
        }
    }

    /// A task that counts its runs and captures a value.
    pub(crate) fn task(&self) -> impl FnMut() + Send + 'static {
        let (runs, captured) = (self.runs.clone(), Arc::clone(&self.captured));
        move || {
            let _ = &captured;
            runs.up();
        }
    }

    pub(crate) fn once(&self, delay: Duration) -> Option<Arc<dyn Joinable<()>>> {
        self.core.once(self.core.after(delay), self.task()).ok()
    }

    /// Schedules on another thread.
    pub(crate) fn once_beside(&self, delay: Duration) -> JoinHandle<Option<Arc<dyn Joinable<()>>>> {
        let (core, task) = (Arc::clone(&self.core), self.task());
        spawn(move || core.once(core.after(delay), task).ok())
    }

    /// A series whose first run is due now, with pauses of `delay`.
    pub(crate) fn series(
        &self,
        delay: Duration,
        runs: Option<u64>,
    ) -> Option<Arc<dyn Joinable<()>>> {
        let plan = Plan::FixedDelay {
            delay: delay.as_nanos().try_into().unwrap(),
        };
        let body = Many {
            task: self.task(),
            left: runs,
            on_panic: OnPanic::Stop,
        };
        self.core.series(self.core.after(NOW), plan, body).ok()
    }

    /// Advances the clock on another thread.
    pub(crate) fn advance_beside(&self, time: Duration) -> JoinHandle<()> {
        let clock = self.clock.clone();
        spawn(move || clock.advance(time))
    }

    /// Releases the timer's pool on another thread.
    pub(crate) fn release_elsewhere(&self) -> JoinHandle<()> {
        let (twin, core) = (self.twin.clone(), Arc::clone(&self.core));
        spawn(move || twin.release(&core))
    }

    /// Waits for the timer's end on another thread.
    pub(crate) fn wait_beside(&self) -> JoinHandle<()> {
        let core = Arc::clone(&self.core);
        spawn(move || assert!(core.wait_released(None)))
    }

    /// Checks that the timer has ended, has dropped the pool once, and holds nothing.
    pub(crate) fn end(&self) {
        self.core.release(true);
        assert!(self.core.wait_released(None));
        self.is_over();
    }

    /// The same with a worker that may be the one that drops the pool.
    pub(crate) fn end_beside(&self, worker: JoinHandle<()>) {
        self.core.release(true);
        assert!(self.core.wait_released(None));
        self.twin.stop();
        worker.join().unwrap();
        self.is_over();
    }

    fn is_over(&self) {
        assert_eq!(self.core.stats().unended, 0);
        assert_eq!(self.kept.get(), 1);
        assert_eq!(Arc::strong_count(&self.captured), 1);
        assert_eq!(self.twin.references(), 2, "a ticket was kept");
    }
}

/// Cancels on another thread. Returns whether that cancel won.
pub(crate) fn cancel_beside(handle: &Arc<dyn Joinable<()>>) -> JoinHandle<bool> {
    let handle = Arc::clone(handle);
    spawn(move || handle.cancel())
}

pub(crate) fn join<R>(handle: &Arc<dyn Joinable<R>>) -> Joined<R> {
    let parker = Parker::of_thread();
    loop {
        if let Some(joined) = handle.take_or_wait(Some(Waiter::Thread(parker.clone()))) {
            return joined;
        }
        parker.park();
    }
}
