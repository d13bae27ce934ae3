//! What the handles and the waiting futures share: the pools, and how a task finds its way to one.
//!
//! # Invariants
//! 1. A task has one owner at a time: the caller, a pool, or a ticket (`waiter.rs`), which gives it
//!    away once.
//! 2. Pools are released, rebooted and tuned all in a row under `lifecycle_lock`, so a section under
//!    it finds all of them in the same state.
//! 3. No user code runs under `enqueue_lock` or `lifecycle_lock`. A pool's own lock may be taken
//!    under them, never the other way round.

use std::sync::Arc;

use pool_core::internals::{
    self as group, LoadStats, PoolHandle, Request, WaitLimits, WaiterCount,
};
use pool_core::{OnFull, Runner, SubmitError};
use sync_shim::Mutex;
use sync_shim::atomic::{AtomicU64, Ordering::Relaxed};

use crate::strategy::{Loads, Strategy};

/// What all handles of a multi-pool share.
#[expect(missing_debug_implementations, reason = "never leaves the crate")]
pub struct Shared<R: Runner> {
    pub(crate) name: String,
    /// At least one.
    pub(crate) members: Box<[PoolHandle<R>]>,
    /// Theirs, side by side.
    loads: Box<[Arc<LoadStats>]>,
    pub(crate) strategy: Box<dyn Strategy>,
    /// Counts the waiters.
    pub(crate) waiter_count: Arc<WaiterCount>,
    /// Held while a waiter takes its places, so that all wait queues have the same order.
    pub(crate) enqueue_lock: Mutex<()>,
    /// Held while all pools are released, rebooted or tuned.
    pub(crate) lifecycle_lock: Mutex<()>,
    /// Refusals that no pool counted. A statistic: no other memory is read because of it.
    refused: AtomicU64,
}

/// Why no pool has accepted a job, or reserved room (then `Q` is no job).
pub(crate) enum NoRoom<Q> {
    /// Those in which a worker lives are full. `starved`: another has room, but the operating system
    /// refused to start its first worker.
    Full { asked: Q, starved: bool },
    /// To wait would not help.
    Refused(SubmitError<Q>),
}

/// What came of a submit: a pool accepted the task, or it comes back.
pub(crate) type Answer<R> = group::Answer<<R as Runner>::Job>;

/// What came of a request that may have waited.
pub(crate) type RequestAnswer<R> = group::Answer<Request<<R as Runner>::Job>>;

impl<R: Runner> Shared<R> {
    pub(crate) fn new(
        name: String,
        members: Box<[PoolHandle<R>]>,
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

    /// The pool that is asked where all give the same answer, and that counts what runs in place.
    pub(crate) fn first(&self) -> &PoolHandle<R> {
        &self.members[0]
    }

    pub(crate) fn refused(&self) -> u64 {
        self.refused.load(Relaxed)
    }

    /// Counts a refusal. A task that a pool gave back in its release is counted by that pool.
    pub(crate) fn count_refusal<T>(&self, refusal: SubmitError<T>) -> SubmitError<T> {
        self.refused.fetch_add(1, Relaxed);
        refusal
    }

    /// Hands the job to a pool, waits for room as long as `on_full` says and `token` is not
    /// cancelled, or gives it back.
    pub(crate) fn submit(
        &self,
        job: R::Job,
        on_full: OnFull,
        limits: Option<&WaitLimits>,
    ) -> Answer<R> {
        match self.offer(job, PoolHandle::accept) {
            Ok(pool) => Ok(pool),
            Err(NoRoom::Full { asked, starved }) => {
                let answer = self.wait_if_full(Request::Task(asked), starved, on_full, limits);
                answer.map_err(|refusal| refusal.map(Request::into_task))
            }
            Err(NoRoom::Refused(refusal)) => Err(self.count_refusal(refusal)),
        }
    }

    /// Reserves room in a pool, waits for some as long as `on_full` says, or says why there is none.
    pub(crate) fn reserve(&self, on_full: OnFull) -> Result<usize, SubmitError> {
        match self.offer((), |member, ()| member.reserve()) {
            Ok(pool) => Ok(pool),
            Err(NoRoom::Full { starved, .. }) => {
                let answer = self.wait_if_full(Request::Permit, starved, on_full, None);
                answer.map_err(|refusal| refusal.map(drop))
            }
            Err(NoRoom::Refused(refusal)) => Err(self.count_refusal(refusal)),
        }
    }

    /// Has the pool that the strategy chooses `ask`ed, then the others. Waits for nothing but the
    /// start of a first worker.
    pub(crate) fn offer<Q>(
        &self,
        asked: Q,
        ask: impl Fn(&PoolHandle<R>, Q) -> Result<(), SubmitError<Q>>,
    ) -> Result<usize, NoRoom<Q>> {
        if !self.first().process().is_current() {
            return Err(NoRoom::Refused(SubmitError::Forked(asked)));
        }
        // User code: no lock is held, and if it panics nothing has changed.
        let choice = self
            .strategy
            // USER CODE: `Strategy::choose`. A panic is the caller's, and nothing has changed.
            .choose(&Loads::of_pools(&self.loads, &self.waiter_count));
        let pools = self.members.len();
        let choice = if choice < pools {
            choice
        } else {
            choice % pools
        };
        match ask(&self.members[choice], asked) {
            Ok(()) => Ok(choice),
            Err(refusal) => self.offer_others(choice, refusal, ask),
        }
    }

    /// First the pools that seem to have a worker free, then every one: only a section of a pool's
    /// lock can refuse. A pool that had room and could start no worker is asked twice, which does no
    /// harm.
    #[cold]
    fn offer_others<Q>(
        &self,
        choice: usize,
        refusal: SubmitError<Q>,
        ask: impl Fn(&PoolHandle<R>, Q) -> Result<(), SubmitError<Q>>,
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
                // While some pool has a worker, a refused thread is no error.
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
