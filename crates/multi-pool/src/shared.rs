//! State shared by the handles and futures of a multi-pool, and the offer of a task to its pools.
//!
//! # Invariants
//! 1. A task has one owner at a time: the caller, a pool, or a ticket (`waiter.rs`), from which it is taken
//!    once.
//! 2. All pools are released, rebooted and tuned under `lifecycle_lock`, so a section under that lock finds
//!    all of them in the same state.
//! 3. No user code runs under `enqueue_lock` or `lifecycle_lock`. A pool's lock may be taken under them,
//!    never the other way round.

use std::sync::Arc;

use pool_core::internals::{
    self as group, LoadStats, PoolHandle, Request, WaitLimits, WaiterCount, WhenFull,
};
use pool_core::{OnFull, SubmitError, Task};
use sync_shim::Mutex;
use sync_shim::atomic::{AtomicU64, Ordering::Relaxed};

use crate::strategy::{Loads, Strategy};

#[expect(missing_debug_implementations, reason = "never leaves the crate")]
pub struct Shared {
    pub(crate) name: String,
    /// At least one.
    pub(crate) members: Box<[PoolHandle]>,
    /// The load figures of `members`.
    loads: Box<[Arc<LoadStats>]>,
    pub(crate) strategy: Box<dyn Strategy>,
    pub(crate) waiter_count: Arc<WaiterCount>,
    /// Held while a waiter enters the wait queues, so that all have the same order.
    pub(crate) enqueue_lock: Mutex<()>,
    /// Held while all pools are released, rebooted or tuned.
    pub(crate) lifecycle_lock: Mutex<()>,
    /// Refusals that no pool counted. Relaxed, because no other memory is read because of it.
    refused: AtomicU64,
}

/// Reason why no pool has accepted a job or reserved room. `Q` is the job, or `()` for room.
pub(crate) enum NoRoom<Q> {
    /// All pools with a live worker are full. If `starved`, another pool has room, but the operating system
    /// refused to start its first worker.
    Full { asked: Q, starved: bool },
    /// Waiting would not help.
    Refused(SubmitError<Q>),
}

/// Outcome of a submit: the index of the pool that accepted the job, or an error with the job.
pub(crate) type Answer = group::Answer<Task>;

/// Outcome of a request that may have waited.
pub(crate) type RequestAnswer = group::Answer<Request<Task>>;

impl Shared {
    pub(crate) fn new(
        name: String,
        members: Box<[PoolHandle]>,
        strategy: Box<dyn Strategy>,
    ) -> Self {
        Self {
            name,
            loads: members
                .iter()
                .map(|member| Arc::clone(member.load_stats()))
                .collect(),
            members,
            strategy,
            waiter_count: WaiterCount::new(),
            enqueue_lock: Mutex::new(()),
            lifecycle_lock: Mutex::new(()),
            refused: AtomicU64::new(0),
        }
    }

    /// The pool to ask where all pools give the same answer. It also counts tasks that run in place.
    pub(crate) fn first(&self) -> &PoolHandle {
        &self.members[0]
    }

    pub(crate) fn refused(&self) -> u64 {
        self.refused.load(Relaxed)
    }

    /// Counts a refusal. Waiters that a pool refuses in its release are counted by the pool.
    pub(crate) fn count_refusal<T>(&self, refusal: SubmitError<T>) -> SubmitError<T> {
        self.refused.fetch_add(1, Relaxed);
        refusal
    }

    /// Submits the job to a pool. If all pools are full, does what `on_full` and `limits` say.
    pub(crate) fn submit(
        &self,
        choice: Option<usize>,
        job: Task,
        on_full: OnFull,
        limits: Option<&WaitLimits<'_>>,
    ) -> Answer {
        match self.offer(choice, job, PoolHandle::accept) {
            Ok(pool) => Ok(pool),
            Err(NoRoom::Full { asked, starved }) => {
                let answer = self.wait_if_full(Request::Task(asked), starved, on_full, limits);
                answer.map_err(|refusal| refusal.map(Request::into_task))
            }
            // A pool whose policy runs tasks in their callers needs no thread.
            Err(NoRoom::Refused(SubmitError::NoThread(asked, error))) => {
                let asked = Request::Task(asked);
                if self.first().asked(on_full, &asked) == WhenFull::RunInCaller {
                    let answer = self.wait_if_full(asked, true, on_full, limits);
                    answer.map_err(|refusal| refusal.map(Request::into_task))
                } else {
                    let refusal = SubmitError::NoThread(asked.into_task(), error);
                    Err(self.count_refusal(refusal))
                }
            }
            Err(NoRoom::Refused(refusal)) => Err(self.count_refusal(refusal)),
        }
    }

    /// Reserves room in a pool. If all pools are full, does what `on_full` says.
    pub(crate) fn reserve(&self, on_full: OnFull) -> Result<usize, SubmitError> {
        match self.offer(None, (), |member, ()| member.reserve()) {
            Ok(pool) => Ok(pool),
            Err(NoRoom::Full { starved, .. }) => {
                let answer = self.wait_if_full(Request::Permit, starved, on_full, None);
                answer.map_err(|refusal| refusal.map(drop))
            }
            Err(NoRoom::Refused(refusal)) => Err(self.count_refusal(refusal)),
        }
    }

    /// Asks the strategy, unless there is only one pool.
    #[inline]
    pub(crate) fn choose(&self) -> usize {
        if self.members.len() == 1 {
            return 0; // As on a machine with few cores. The usual strategy would take as long as the submit.
        }
        let choice = self
            .strategy
            // USER CODE: `Strategy::choose`. A panic is the caller's, and nothing has changed.
            .choose(&Loads::of_pools(&self.loads, &self.waiter_count));
        let pools = self.members.len();
        if choice < pools {
            choice
        } else {
            choice % pools
        }
    }

    /// Calls `ask` with the pool of the `choice`, or the one that the strategy chooses, then with the others, until one
    /// accepts. Blocks only while the first worker of a pool is started.
    pub(crate) fn offer<Q>(
        &self,
        choice: Option<usize>,
        asked: Q,
        ask: impl Fn(&PoolHandle, Q) -> Result<(), SubmitError<Q>>,
    ) -> Result<usize, NoRoom<Q>> {
        if !self.first().process().is_current() {
            return Err(NoRoom::Refused(SubmitError::Forked(asked)));
        }
        let choice = choice.unwrap_or_else(|| self.choose());
        match ask(&self.members[choice], asked) {
            Ok(()) => Ok(choice),
            Err(refusal) => self.offer_others(choice, refusal, ask),
        }
    }

    /// Calls `ask` with the pools that seem to have a free worker, then with all others, because only a
    /// section of a pool's lock can refuse. A pool may be asked twice, which does no harm.
    #[cold]
    fn offer_others<Q>(
        &self,
        choice: usize,
        refusal: SubmitError<Q>,
        ask: impl Fn(&PoolHandle, Q) -> Result<(), SubmitError<Q>>,
    ) -> Result<usize, NoRoom<Q>> {
        let pools = self.members.len();
        let loads = Loads::of_pools(&self.loads, &self.waiter_count);
        let seems_free = |&index: &usize| loads.has_worker(index);
        let others = (choice + 1..pools).chain(0..choice);
        let mut offers = others.clone().filter(seems_free).chain(others);
        let (mut refusal, mut full, mut no_thread) = (refusal, false, None);
        loop {
            let asked = match refusal {
                SubmitError::Full(asked) => {
                    full = true;
                    asked
                }
                SubmitError::NoThread(asked, error) => {
                    no_thread = Some(error);
                    asked
                }
                released => return Err(NoRoom::Refused(released)),
            };
            let Some(index) = offers.next() else {
                // A refused thread is no error while some pool has a worker.
                return Err(match no_thread {
                    Some(error) if !full => NoRoom::Refused(SubmitError::NoThread(asked, error)),
                    refused => NoRoom::Full {
                        asked,
                        starved: refused.is_some(),
                    },
                });
            };
            match ask(&self.members[index], asked) {
                Ok(()) => return Ok(index),
                Err(other) => refusal = other,
            }
        }
    }
}
