//! The threads that work for queues, and their clock.

pub(crate) mod call;
pub(crate) mod clock;
pub(crate) mod pumps;
pub(crate) mod reply;

use std::fmt;
use std::sync::Arc;

use pool_core::Pool;
use sync_shim::{Clock, Process};

use crate::threads::call::call_threads;
use crate::threads::clock::SharedClock;
use crate::threads::pumps::Pumps;

/// Threads that work for any number of queues: at most [`PUMP_THREADS`](crate::internals::PUMP_THREADS) that claim and settle
/// jobs, and at most [`CALL_THREADS`](crate::internals::CALL_THREADS) that make async calls. Clones are the same threads.
///
/// The queues of the same store share threads (see [`Store::threads`](crate::Store::threads)), so a program rarely
/// needs this type. It is for queues that need threads or a clock of their own:
/// [`Builder::threads`](crate::Builder::threads).
///
/// Threads start on demand. Pump threads end with the last queue that has taken jobs; call threads end after
/// [`CALL_KEEP_ALIVE`](crate::internals::CALL_KEEP_ALIVE) without a call, or when the last queue and the store are dropped. A process that only pushes, on its own
/// threads, has none of them.
///
/// # Limits
/// At most two pumps make calls of their stores at a time, and the others wait. That is of no consequence as long as
/// these calls take milliseconds. If the calls of two queues hang, the other queues with the same threads are late,
/// and hand out no jobs, until the store gives these calls up. The same is true of an
/// [error hook](crate::Builder::on_error) that blocks.
///
/// ```
/// use durable_queue::{DurableQueue, Threads};
/// use durable_queue_sqlite::SqliteStore;
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let store = SqliteStore::open(":memory:")?;
/// let mails: DurableQueue<String, _> = DurableQueue::new("mails", store.clone());
/// let reports: DurableQueue<String, _> = DurableQueue::new("reports", store.clone()); // The threads of `mails`.
/// // Does not wait for the calls of the others.
/// let alarms = DurableQueue::<String, _>::builder("alarms", store).threads(Threads::new()).build()?;
/// # Ok(())
/// # }
/// ```
#[derive(Clone)]
pub struct Threads {
    pub(crate) clock: SharedClock,
    pub(crate) calls: Pool,
    pub(crate) pumps: Arc<Pumps>,
    process: Process,
}

impl Threads {
    /// Creates threads that wait by the system's clock. Starts none yet.
    pub fn new() -> Self {
        Self::by(SharedClock::default())
    }

    /// Creates threads that wait by `clock`, and whose queues do. Starts none yet.
    ///
    /// A clock that panics on one of them shuts down the queue for which it was called; if it keeps panicking, each of
    /// their queues. Leases then expire by themselves.
    pub fn with_clock(clock: impl Clock) -> Self {
        Self::by(SharedClock::new(clock))
    }

    fn by(clock: SharedClock) -> Self {
        let calls = call_threads(clock.clone()).build();
        Self::of(clock, calls.expect("no worker is started ahead"))
    }

    pub(crate) fn of(clock: SharedClock, calls: Pool) -> Self {
        Self {
            calls,
            pumps: Pumps::new(clock.clone()),
            clock,
            process: Process::current(),
        }
    }

    /// Returns threads of this process. In a forked child the parent's threads do not exist, and its locks may be held
    /// for ever.
    pub(crate) fn of_this_process(self) -> Self {
        if self.process.is_current() {
            self
        } else {
            Self::by(self.clock)
        }
    }
}

impl Default for Threads {
    fn default() -> Self {
        Self::new()
    }
}

impl fmt::Debug for Threads {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Threads")
            .field("clock", &self.clock)
            .finish_non_exhaustive()
    }
}
