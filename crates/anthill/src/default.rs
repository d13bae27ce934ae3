//! The pool of the process: made when it is first used, never at load, and never dropped.
//!
//! Not for: a library that others link. What it configures, tunes or releases is shared by the
//! whole process; a pool of its own is one line more.
//!
//! # What always holds
//! 1. There is at most one. Every call gets the same, also while it is being made.
//! 2. Making it starts no thread, unless a builder given to [`configure`] asks for one.
//! 3. User code (a builder's hooks and gate) runs with no lock held.

use std::sync::OnceLock;
use std::{error, fmt};

use pool_core::{BuildError, Builder, Closures, Pool};

/// The default pool's name, unless [`configure`] gives another.
pub const DEFAULT_POOL_NAME: &str = "anthill";

/// Its tasks are expected to block, so there may be many more workers than cores.
const LEAST_CAPACITY: usize = 512;
const CAPACITY_PER_CORE: usize = 8;

static POOL: OnceLock<Pool> = OnceLock::new();

/// The pool that the functions of this crate use, made now if this is its first use.
///
/// Unless [`configure`] said otherwise: a capacity of 512 or eight per core, whichever is more; a
/// queue depth of 0; [`submit`](crate::submit) waits at a full pool; its threads are called
/// `anthill-N`. The rest is as in [`Builder`].
///
/// It is never dropped, so a `main` that returns does not wait for it: call
/// [`wait_idle`](crate::wait_idle) first. A forked child inherits it without its workers, and its
/// calls say so: see [`guide::forking`](crate::guide::forking).
///
/// Does not block, but for a moment if several threads are the first. Starts no thread.
pub fn default_pool() -> &'static Pool {
    POOL.get_or_init(usual)
}

/// Makes the default pool from `builder`. To be called before anything uses it, once, by the
/// program and not by a library.
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
/// [`AlreadyMade`](ConfigureError::AlreadyMade), with the builder, if the pool has been used or
/// configured before; [`Build`](ConfigureError::Build) if the builder fails, and then the pool is
/// still to be made. If another thread makes the pool during the call, workers that the builder
/// starts ahead may run for a moment.
pub fn configure(builder: Builder<Closures>) -> Result<&'static Pool, ConfigureError> {
    let too_late = |builder| Err(ConfigureError::AlreadyMade(Box::new(builder)));
    if POOL.get().is_some() {
        return too_late(builder); // Nothing need be built to find that out.
    }
    // Built outside of the cell: a builder may call user code, which may ask for the pool.
    let pool = builder.clone().build().map_err(ConfigureError::Build)?;
    match POOL.set(pool) {
        Ok(()) => Ok(default_pool()),
        Err(_late) => too_late(builder), // Dropped, and so released.
    }
}

/// The default pool is not as configured.
#[non_exhaustive]
pub enum ConfigureError {
    /// The pool was used or configured before, and is as it was. Here is the builder.
    AlreadyMade(Box<Builder<Closures>>),
    /// The builder failed. The pool has not been made.
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
            Self::AlreadyMade(_) => "the default pool was used or configured before",
            Self::Build(_) => "the default pool cannot be built as asked",
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

/// The pool of a program that configures none.
fn usual() -> Pool {
    let cores = sync_shim::thread::available_parallelism();
    Pool::builder()
        .name(DEFAULT_POOL_NAME)
        .capacity(LEAST_CAPACITY.max(CAPACITY_PER_CORE * cores))
        .build()
        .expect("a name and a capacity contradict nothing, and no thread is started ahead")
}
