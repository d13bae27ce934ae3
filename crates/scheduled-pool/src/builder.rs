//! The builder of a scheduled pool.

use std::sync::Arc;

use pool_core::internals::ReleaseListener;
use pool_core::{BuildError, Pool};

use crate::base::{Base, Members};
use crate::pool::ScheduledPool;
use crate::state::Kept;
use crate::timer::{Config, Core};

/// Configures a scheduled pool. Returned by [`ScheduledPool::builder`].
///
/// | setting | default |
/// |---|---|
/// | `run_pending` | `true`: tasks pending at the release still run |
/// | `continue_series` | `false`: the release ends the series |
/// | `thread_name` | `anthill-timer` |
/// | `thread_stack_size` | the platform's |
///
/// The scheduled pool uses the pool's clock.
///
/// ```
/// use pool_core::Pool;
/// use scheduled_pool::ScheduledPool;
/// use std::time::Duration;
///
/// let scheduled = ScheduledPool::builder(Pool::builder().capacity(1).build()?)
///     .run_pending(false) // A release drops tasks that are not due yet.
///     .thread_name("timer")
///     .build()?;
/// let reminder = scheduled.spawn_after(Duration::from_secs(3600), || ())?;
/// scheduled.release();
/// assert!(matches!(reminder.join(), Err(pool_core::JoinError::Released)));
/// # Ok::<(), Box<dyn std::error::Error + Send + Sync>>(())
/// ```
#[must_use = "a builder does nothing until `build` is called"]
#[derive(Clone, Debug)]
pub struct Builder<P = Pool> {
    pool: P,
    config: Config,
}

impl<P: Base> ScheduledPool<P> {
    /// Creates a scheduled pool over `pool` with the builder's defaults.
    pub fn new(pool: P) -> Self {
        Builder::new(pool).assemble()
    }

    /// Returns a builder of a scheduled pool over `pool`.
    pub fn builder(pool: P) -> Builder<P> {
        Builder::new(pool)
    }
}

impl<P: Base> Builder<P> {
    fn new(pool: P) -> Self {
        Self {
            pool,
            config: Config::default(),
        }
    }

    /// Sets whether tasks with one run that are pending at the release still run when they are due. If not,
    /// the release ends them with [`Released`](pool_core::JoinError::Released).
    pub fn run_pending(mut self, run: bool) -> Self {
        self.config.release_policy.run_pending = run;
        self
    }

    /// Sets whether series continue after the release, until they are cancelled or end by themselves. The
    /// pool stays open until then.
    pub fn continue_series(mut self, go_on: bool) -> Self {
        self.config.release_policy.continue_series = go_on;
        self
    }

    /// Sets the timer thread's name. The operating system may show only its first 15 bytes.
    pub fn thread_name(mut self, name: impl Into<String>) -> Self {
        self.config.thread_name = name.into();
        self
    }

    /// Sets the stack size of the timer thread in bytes. The thread runs no tasks and needs little.
    pub fn thread_stack_size(mut self, bytes: usize) -> Self {
        self.config.stack_size = Some(bytes);
        self
    }

    /// Builds the scheduled pool. The first scheduled task starts the timer thread.
    ///
    /// # Errors
    /// [`NulInName`](BuildError::NulInName) if the thread's name contains a NUL.
    pub fn build(self) -> Result<ScheduledPool<P>, BuildError> {
        if self.config.thread_name.contains('\0') {
            return Err(BuildError::NulInName);
        }
        Ok(self.assemble())
    }

    /// [`build`](Builder::build) with a valid name.
    fn assemble(self) -> ScheduledPool<P> {
        let Self { pool, config } = self;
        let members = Members::of(&pool);
        let keep = {
            let (pool, members) = (pool.clone(), members.clone());
            Box::new(move |releases: bool| {
                // "A reboot": a later generation of the pool stays open.
                if releases && members.are_the_same() {
                    pool.release_all();
                }
                Box::new(pool) as Kept
            })
        };
        let clock = Arc::clone(members.first().clock());
        let core = Core::new(members.clone(), clock, config, keep);
        let watch = Arc::clone(&core) as Arc<dyn ReleaseListener>;
        // The next release of each pool takes step 10 (`PROTOCOL.md`). A pool that is released already
        // announces nothing more, so step 10 is taken here.
        for (handle, generation) in members.each() {
            if !handle.on_release(Arc::downgrade(&watch), generation) {
                core.executor_released();
            }
        }
        ScheduledPool::new_from(core, pool, members)
    }
}

impl ReleaseListener for Core<Members> {
    fn released(&self) {
        self.executor_released();
    }
}
