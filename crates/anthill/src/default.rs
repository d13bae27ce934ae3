//! The default pool of each process. Created at its first use, never dropped.
//!
//! Libraries should build their own pool, because the whole process shares the configuration, tuning and
//! release of this one.
//!
//! # Invariants
//! 1. A process has at most one default pool. All calls use the same one, even if they race to create it.
//! 2. Creating it starts no thread, unless the builder given to [`configure`] asks for one.
//! 3. User code (a builder's hooks and gate) runs without a lock.
//! 4. A forked child has a pool of its own, with the settings of its parent's.

use std::{error, fmt};

use pool_core::internals::build_unstaffed;
use pool_core::{BuildError, Builder, Closures, Pool};
use sync_shim::PerProcess;

/// Name of the default pool, unless [`configure`] sets another.
pub const DEFAULT_POOL_NAME: &str = "anthill";

/// Many more workers than cores, because the tasks are expected to block.
const LEAST_CAPACITY: usize = 512;
const CAPACITY_PER_CORE: usize = 8;

#[cfg(not(anthill_loom))]
static POOL: PerProcess<Made> = PerProcess::new();
// The cells of a model cannot be made by a constant. No model uses the default pool.
#[cfg(anthill_loom)]
static POOL: std::sync::LazyLock<PerProcess<Made>> = std::sync::LazyLock::new(PerProcess::new);

/// The default pool of one process.
struct Made {
    pool: Pool,
    /// Builds the pools of forked children.
    settings: Builder<Closures>,
}

/// Returns the default pool, which the functions of this crate use. The first call creates it.
///
/// Without [`configure`], its capacity is 512 or eight per core, whichever is more, and its threads are named
/// `anthill-N`. The other settings are the [defaults](crate::guide#the-defaults) of [`Builder`].
///
/// The pool is never dropped, and the process does not wait for its tasks when `main` returns: call
/// [`wait_idle`](crate::wait_idle) first.
///
/// A forked child has a default pool of its own, with the same settings, and without the tasks and the workers of
/// its parent's: see [`guide::forking`](crate::guide::forking). So a reference that was returned before the fork is
/// that of the parent's pool.
///
/// This call starts no thread, and never blocks.
pub fn default_pool() -> &'static Pool {
    &POOL
        .get_or_init(|parents| Made::of(parents.map(|it| &it.settings)))
        .pool
}

/// Creates the default pool from `builder`. Programs call this once, before the first use of the pool.
/// Libraries should not call it. A forked child may call it before its own first use, to replace the inherited
/// settings.
///
/// ```
/// use anthill::Pool;
///
/// let blocking = Pool::builder().name("blocking").capacity(64).queue_depth(256);
/// let pool = anthill::configure(blocking)?;
/// assert_eq!(pool.name(), "blocking");
/// assert_eq!(anthill::capacity().limit(), Some(64));
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// # Errors
/// [`AlreadyMade`](ConfigureError::AlreadyMade), with the builder, if this process's pool already exists.
/// [`Build`](ConfigureError::Build) if the builder fails; the pool can then still be configured. If another
/// thread creates the pool during the call, workers that the builder starts ahead may run for a moment.
pub fn configure(builder: Builder<Closures>) -> Result<&'static Pool, ConfigureError> {
    let too_late = |builder| Err(ConfigureError::AlreadyMade(Box::new(builder)));
    if POOL.get().is_some() {
        return too_late(builder);
    }
    // Before it is set, because a builder may call user code, which may use the default pool.
    let pool = builder.clone().build().map_err(ConfigureError::Build)?;
    let settings = builder;
    match POOL.set(Made { pool, settings }) {
        Ok(made) => Ok(&made.pool),
        Err(late) => too_late(late.settings), // Dropping the new pool releases it.
    }
}

/// Error of [`configure`].
#[non_exhaustive]
pub enum ConfigureError {
    /// The default pool was used or configured before, and is unchanged. Contains the builder.
    AlreadyMade(Box<Builder<Closures>>),
    /// The builder failed. The pool was not created.
    Build(BuildError),
}

impl fmt::Debug for ConfigureError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::AlreadyMade(_) => f.write_str("AlreadyMade(..)"),
            Self::Build(reason) => f.debug_tuple("Build").field(reason).finish(),
        }
    }
}

impl fmt::Display for ConfigureError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::AlreadyMade(_) => "the default pool already exists",
            Self::Build(_) => "the default pool could not be built",
        })
    }
}

impl error::Error for ConfigureError {
    fn source(&self) -> Option<&(dyn error::Error + 'static)> {
        match self {
            Self::AlreadyMade(_) => None,
            Self::Build(reason) => Some(reason),
        }
    }
}

impl Made {
    /// Builds the pool from the `settings` of the parent process, or from those of a program that does not call
    /// [`configure`].
    fn of(settings: Option<&Builder<Closures>>) -> Self {
        let settings = settings.cloned().unwrap_or_else(usual);
        // No worker starts ahead, because no caller could be told that it was refused.
        let pool = build_unstaffed(settings.clone());
        let pool = pool.expect("the settings are valid, and no thread is started ahead");
        Self { pool, settings }
    }
}

/// Settings of a program that does not call [`configure`].
fn usual() -> Builder<Closures> {
    let cores = sync_shim::thread::available_parallelism();
    Pool::builder()
        .name(DEFAULT_POOL_NAME)
        .capacity(LEAST_CAPACITY.max(CAPACITY_PER_CORE * cores))
}
