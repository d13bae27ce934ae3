//! Tasks with keys: tasks of one key run in order and one at a time; different keys run
//! concurrently.
//!
//! A key with an unfinished task has a *lane*. The lane's *turn* is a task of the pool, in its
//! queue or on a worker; it carries the first task. Later tasks wait in the lane and hold a permit
//! each, so that an accepted task takes up room in the pool from its acceptance to its end. When
//! the turn has run its task, the worker takes all tasks waiting in the lane and continues with the
//! first of them: it replaces the ended task in flight, and its permit's room becomes free. The
//! tasks that the worker has taken travel with the turn. No thread waits for a key.
//!
//! With a limit above one, a lane has up to that many turns. An additional turn carries no task: it
//! takes the lane's first when it runs. Its task needs no permit, because the turn holds the room.
//!
//! The steps (K1, ..) are in `PROTOCOL.md`.
//!
//! # Invariants
//! 1. An open lane has at least one turn and at most the limit, each a task in the pool's queue or
//!    running. A lane without a turn is closed. Tasks in a lane or carried by its turn hold a
//!    permit, except for one task per empty turn. So only an accepted task opens a lane, and no
//!    task waits behind a task that waits for room.
//! 2. Tasks enter a lane in the order of their acceptance, because both happen in the lane's
//!    section. So successive calls keep their order.
//! 3. The lanes' lock is taken before the pool's. No section of the pool accesses lanes. No user
//!    code runs under either lock, except for the key's `Eq` under the lanes' lock.

use std::collections::VecDeque;
use std::fmt;
use std::future::Future;
use std::hash::{BuildHasher, Hash, RandomState};
use std::sync::Arc;

use crossbeam_utils::CachePadded;
use sync_shim::{Mutex, MutexGuard, Timeout};

use crate::config::OnFull;
use crate::engine::admit::Admit;
use crate::engine::core::Core;
use crate::error::SubmitError;
use crate::face::pool::WorkerPool;
use crate::foreign::drop_quietly;
use crate::keyed::lanes::{KeyHash, LaneId, Lanes};
use crate::keyed::turn::Turn;
use crate::permit::Permit;
use crate::task::cell::SpawnCell;
use crate::task::closures::{Closures, Plain, Recorded};
use crate::task::erased::{Task, Work};
use crate::task::handle::JoinHandle;

mod handle;
mod lanes;
mod turn;

/// Number of shards of the lanes, each with its own lock.
const SHARDS: u32 = if cfg!(anthill_loom) { 1 } else { 8 };

/// Runs the tasks of one key in order and one at a time, or up to a [limit](Self::limit) at a time.
/// Tasks of different keys run concurrently.
///
/// Made by [`WorkerPool::keyed`]. A replacement for a lock per customer, or for an actor's mailbox:
/// a task has exclusive access to the data of its key, and sees all writes of the key's earlier
/// tasks.
///
/// ```
/// use pool_core::Pool;
/// use std::sync::{Arc, Mutex};
///
/// let pool = Pool::builder().capacity(4).queue_depth(100).build()?;
/// let accounts = pool.keyed();
/// let lines = Arc::new(Mutex::new(Vec::new()));
/// for line in 0..10 {
///     let lines = Arc::clone(&lines);
///     accounts.submit("ann", move || lines.lock().unwrap().push(line))?; // One after the other.
///     accounts.submit("bob", || { /* concurrent with those of `ann` */ })?;
/// }
/// assert_eq!(accounts.spawn("ann", move || lines.lock().unwrap().len())?.join()?, 10);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// This is a handle: clones share their keys. Equal keys of separate `Keyed`s
/// are independent. A `Keyed` keeps the pool open.
///
/// # Guarantees
/// - **Order**: tasks of a key start in the order of their acceptance. Successive calls are
///   accepted in that order. Without a higher [limit](Self::limit), a task starts after the
///   previous one has ended.
/// - **Threads**: a waiting key holds no thread.
/// - **Room**: an accepted task holds room in the pool until it has ended, also while it waits
///   behind its key ([`Stats::reserved`](crate::Stats::reserved)). So the pool's limits bound the
///   waiting tasks too, and at a full pool the caller is refused, or waits in the same wait queue
///   as all submits.
/// - **Fairness**: while other tasks are queued, a key's turn moves to the end of the queue after a
///   few tasks.
/// - **Panics**: a panic of a task does not stop its key.
/// - **Memory**: a key is forgotten when its last task has ended.
///
/// # Interaction with other calls
/// | call | effect |
/// |---|---|
/// | any submit at a full pool, on one of its own workers | refused, because the task may have to wait behind the submitting one (with [`WithinWorker::Block`](crate::WithinWorker::Block) it waits) |
/// | [`JoinHandle::cancel`] | drops the captures immediately; the room is free when the turn comes |
/// | [`JoinHandle::join`] on an own worker | does not run the task in place: refused with [`WouldDeadlock`](crate::JoinError::WouldDeadlock) if it has not started |
/// | `release` | accepted tasks run |
/// | `release_now` | also drops tasks that wait behind a key, at the latest when the key's running task has ended; its result counts one task per key in the queue (with a [limit](Self::limit), up to the limit). A `reboot` before that lets them run |
/// | `wait_idle` | waits for all of them |
/// | a refused submit | the error returns both key and task |
///
/// Only for pools of closures: the queue of a [`FuncPool`](crate::FuncPool) holds plain arguments,
/// and has no place for a turn with several tasks. Use a closure that calls the function instead.
///
/// The `Eq` of keys runs under the lock of a shard of the keys: wrap keys that are expensive to
/// compare in an `Arc`.
#[doc(alias = "strand")]
#[doc(alias = "actor")]
#[doc(alias = "SerialExecutor")]
#[doc(alias = "StripedExecutor")]
pub struct Keyed<K, S = RandomState> {
    pool: WorkerPool<Closures>,
    shared: Arc<Shared<K>>,
    hasher: S,
}

struct Shared<K> {
    core: Arc<Core<Closures>>,
    shards: [CachePadded<Mutex<Lanes<K, Task>>>; SHARDS as usize],
}

/// A refusal, with the key and the task.
type Refused<K, F> = SubmitError<(K, F)>;

impl WorkerPool<Closures> {
    /// Returns a handle for tasks with keys: see [`Keyed`].
    ///
    /// ```
    /// use pool_core::Pool;
    ///
    /// let pool = Pool::builder().capacity(2).build()?;
    /// let accounts = pool.keyed::<u32>();
    /// let first = accounts.spawn(7, || "debit")?;
    /// let second = accounts.spawn(7, || "credit")?; // Not before the first has ended.
    /// accounts.submit(8, || ())?; // Another key: may run concurrently.
    /// assert_eq!((first.join()?, second.join()?), ("debit", "credit"));
    /// # Ok::<(), Box<dyn std::error::Error + Send + Sync>>(())
    /// ```
    pub fn keyed<K: Hash + Eq + Send + 'static>(&self) -> Keyed<K> {
        Keyed::with_hasher(self, RandomState::new())
    }
}

impl<K: Hash + Eq + Send + 'static, S: BuildHasher> Keyed<K, S> {
    /// Like [`WorkerPool::keyed`], with a custom hasher.
    pub fn with_hasher(pool: &WorkerPool<Closures>, hasher: S) -> Self {
        Self {
            pool: pool.clone(),
            shared: Shared::new(pool, 1),
            hasher,
        }
    }

    /// Lets up to this many tasks of a key run at the same time; 1 by default (0 counts as 1).
    ///
    /// The tasks of a key still start in the order of their acceptance, and tasks over the limit
    /// wait without a worker. A limit above one is for keys that stand for a host or a tenant:
    /// tasks no longer have exclusive access to the data of their key.
    ///
    /// The returned `Keyed` has separate keys, even if this one already has tasks.
    ///
    /// ```
    /// use pool_core::Pool;
    ///
    /// let pool = Pool::builder().capacity(8).queue_depth(100).build()?;
    /// let hosts = pool.keyed().limit(2); // At most two requests to a host at a time.
    /// for page in 0..10 {
    ///     hosts.submit("example.org", move || println!("fetch page {page}"))?;
    /// }
    /// pool.wait_idle()?;
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[must_use = "returns a `Keyed` with the limit, and changes none"]
    pub fn limit(self, tasks: u32) -> Self {
        let shared = Shared::new(&self.pool, tasks.max(1));
        Self { shared, ..self }
    }

    /// Returns the pool that runs the tasks.
    pub fn pool(&self) -> &WorkerPool<Closures> {
        &self.pool
    }

    /// Returns the number of keys with an unfinished task.
    pub fn keys(&self) -> usize {
        self.shared
            .shards
            .iter()
            .map(|lanes| lanes.lock().len())
            .sum()
    }

    /// Submits a task, which starts after the earlier tasks of its key. Waits while the pool is full, as
    /// [`WorkerPool::submit`] does.
    ///
    /// # Errors
    /// [`SubmitError`], which returns the key and the task.
    pub fn submit<F, T>(&self, key: K, task: F) -> Result<(), SubmitError<(K, F)>>
    where
        F: FnOnce() -> T + Send + 'static,
        T: Send + 'static,
    {
        self.submit_with(key, task, self.pool.on_full())
    }

    /// Like [`submit`](Self::submit), but refuses at a full pool.
    ///
    /// # Errors
    /// [`SubmitError`], which returns the key and the task.
    pub fn try_submit<F, T>(&self, key: K, task: F) -> Result<(), SubmitError<(K, F)>>
    where
        F: FnOnce() -> T + Send + 'static,
        T: Send + 'static,
    {
        self.submit_with(key, task, OnFull::Refuse)
    }

    /// Like [`submit`](Self::submit), but waits for at most a duration, or until an instant.
    ///
    /// # Errors
    /// [`SubmitError`], which returns the key and the task.
    pub fn submit_timeout<F, T>(
        &self,
        key: K,
        task: F,
        timeout: impl Into<Timeout>,
    ) -> Result<(), SubmitError<(K, F)>>
    where
        F: FnOnce() -> T + Send + 'static,
        T: Send + 'static,
    {
        self.submit_with(key, task, OnFull::Wait(self.pool.deadline(timeout)))
    }

    /// Async version of [`submit`](Self::submit). The task gets its place when there is room, not
    /// when the future is created. Dropping the future before it is ready drops the task.
    ///
    /// # Errors
    /// [`SubmitError`], which returns the key and the task.
    pub fn submit_async<F, T>(
        &self,
        key: K,
        task: F,
    ) -> impl Future<Output = Result<(), SubmitError<(K, F)>>> + Send + use<F, T, K, S>
    where
        F: FnOnce() -> T + Send + 'static,
        T: Send + 'static,
    {
        let (hash, shared) = (self.hash(&key), Arc::clone(&self.shared));
        let permit = self.pool.reserve_async();
        async move {
            match permit.await {
                Ok(permit) => {
                    match shared.core.record_of_all() {
                        None => shared.place_reserved(hash, key, Plain(task), permit),
                        Some(record) => {
                            let work = Recorded::new(task, *record);
                            shared.place_reserved(hash, key, work, permit);
                        }
                    }
                    Ok(())
                }
                Err(refused) => Err(refused.with_task((key, task))),
            }
        }
    }

    /// Submits a task, which starts after the earlier tasks of its key, and returns a handle to its
    /// value. Waits as [`submit`](Self::submit) does.
    ///
    /// ```
    /// # use pool_core::Pool;
    /// # let pool = Pool::builder().capacity(2).build()?;
    /// let shards = pool.keyed::<&str>();
    /// let answer = shards.spawn("user 7", || 42)?; // After the earlier tasks of this user.
    /// assert_eq!(answer.join()?, 42);
    /// # Ok::<(), Box<dyn std::error::Error + Send + Sync>>(())
    /// ```
    ///
    /// # Errors
    /// [`SubmitError`], which returns the key and the task.
    pub fn spawn<F, T>(&self, key: K, task: F) -> Result<JoinHandle<T>, SubmitError<(K, F)>>
    where
        F: FnOnce() -> T + Send + 'static,
        T: Send + 'static,
    {
        self.spawn_with(key, task, self.pool.on_full())
    }

    /// Like [`spawn`](Self::spawn), but refuses at a full pool.
    ///
    /// # Errors
    /// [`SubmitError`], which returns the key and the task.
    pub fn try_spawn<F, T>(&self, key: K, task: F) -> Result<JoinHandle<T>, SubmitError<(K, F)>>
    where
        F: FnOnce() -> T + Send + 'static,
        T: Send + 'static,
    {
        self.spawn_with(key, task, OnFull::Refuse)
    }

    /// Like [`spawn`](Self::spawn), but waits for at most a duration, or until an instant.
    ///
    /// # Errors
    /// [`SubmitError`], which returns the key and the task.
    pub fn spawn_timeout<F, T>(
        &self,
        key: K,
        task: F,
        timeout: impl Into<Timeout>,
    ) -> Result<JoinHandle<T>, SubmitError<(K, F)>>
    where
        F: FnOnce() -> T + Send + 'static,
        T: Send + 'static,
    {
        self.spawn_with(key, task, OnFull::Wait(self.pool.deadline(timeout)))
    }

    /// Async version of [`spawn`](Self::spawn): resolves to the handle; see
    /// [`submit_async`](Self::submit_async).
    ///
    /// # Errors
    /// [`SubmitError`], which returns the key and the task.
    pub fn spawn_async<F, T>(
        &self,
        key: K,
        task: F,
    ) -> impl Future<Output = Result<JoinHandle<T>, SubmitError<(K, F)>>> + Send + use<F, T, K, S>
    where
        F: FnOnce() -> T + Send + 'static,
        T: Send + 'static,
    {
        let (hash, shared) = (self.hash(&key), Arc::clone(&self.shared));
        let permit = self.pool.reserve_async();
        async move {
            match permit.await {
                Ok(permit) => {
                    let cell = SpawnCell::new(task, shared.core.record_of_all());
                    let (work, handle) = handle::promise(&shared.core, cell);
                    shared.place_reserved(hash, key, work, permit);
                    Ok(JoinHandle::of(handle))
                }
                Err(refused) => Err(refused.with_task((key, task))),
            }
        }
    }

    fn submit_with<F, T>(&self, key: K, task: F, on_full: OnFull) -> Result<(), Refused<K, F>>
    where
        F: FnOnce() -> T + Send + 'static,
        T: Send + 'static,
    {
        let refused = match self.shared.core.record_of_all() {
            None => match self.place(key, Plain(task), on_full) {
                Ok(()) => return Ok(()),
                Err(refused) => refused.map(|(key, work)| (key, work.0)),
            },
            Some(record) => match self.place(key, Recorded::new(task, *record), on_full) {
                Ok(()) => return Ok(()),
                Err(refused) => refused.map(|(key, work)| (key, work.take_back())),
            },
        };
        Err(refused)
    }

    fn spawn_with<F, T>(
        &self,
        key: K,
        task: F,
        on_full: OnFull,
    ) -> Result<JoinHandle<T>, Refused<K, F>>
    where
        F: FnOnce() -> T + Send + 'static,
        T: Send + 'static,
    {
        let cell = SpawnCell::new(task, self.shared.core.record_of_all());
        let (work, handle) = handle::promise(&self.shared.core, cell);
        match self.place(key, work, on_full) {
            Ok(()) => Ok(JoinHandle::of(handle)),
            Err(refused) => Err(refused.map(|(key, work)| (key, work.0.take_back()))),
        }
    }

    fn hash(&self, key: &K) -> KeyHash {
        KeyHash::new(self.hasher.hash_one(key))
    }

    #[inline]
    fn place<W: Work>(&self, key: K, work: W, on_full: OnFull) -> Result<(), Refused<K, W>> {
        // Before any lock is taken, because a thread that does not exist in a forked child may hold it.
        if let Err(refused) = self.shared.core.refuses(on_full) {
            return Err(refused.with_task((key, work)));
        }
        let hash = self.hash(&key);
        let Err((key, work)) = self.shared.place(hash, key, work) else {
            return Ok(());
        };
        // The key's lane may have changed until there is room, so `place_reserved` looks it up again: a
        // caller that waits must not hold the lanes' lock.
        match self.pool.reserve_with(on_full) {
            Ok(permit) => {
                self.shared.place_reserved(hash, key, work, permit);
                Ok(())
            }
            Err(refused) => Err(refused.with_task((key, work))),
        }
    }
}

impl<K: Eq + Send + 'static> Shared<K> {
    fn new(pool: &WorkerPool<Closures>, limit: u32) -> Arc<Self> {
        // Padded, because locks of different shards would otherwise share a cache line.
        let lanes = || CachePadded::new(Mutex::new(Lanes::new(limit)));
        let shards = [(); SHARDS as usize].map(|()| lanes());
        let core = Arc::clone(pool.core());
        Arc::new(Self { core, shards })
    }

    fn shard(&self, hash: KeyHash) -> &Mutex<Lanes<K, Task>> {
        &self.shards[hash.shard(SHARDS)]
    }

    /// Steps K1 and K2: accepts the task, unless the pool must decide first (it is full or closed).
    #[inline]
    fn place<W: Work>(self: &Arc<Self>, hash: KeyHash, key: K, work: W) -> Result<(), (K, W)> {
        let mut lanes = self.shard(hash).lock();
        if let Some(lane) = lanes.find(hash, &key) {
            if lane.is_below_limit() {
                return self.place_with_turn(lanes, hash, key, work);
            }
            // Under the lanes' lock: otherwise the lane could close before the task is in it.
            let Some(credit) = self.core.state.credit() else {
                drop(lanes);
                return Err((key, work));
            };
            credit.reserve();
            lane.push(|| Task::new(work));
            drop(lanes);
            // USER CODE: the drop of a key that has a lane already. Last, so that the task is
            // accepted even if it panics.
            drop_quietly(key);
            return Ok(());
        }
        // Opened before the credit is known, because the table may have to grow and must not do so
        // under the pool's lock.
        let lane = lanes.open(hash, key);
        let job = self.turn(lane, work);
        if let Some(credit) = self.core.state.credit() {
            let searchers = credit.enter(job);
            drop(lanes);
            self.core.entered(searchers);
            return Ok(());
        }
        // The job was not accepted, so the lane must not stay open: no turn would close it.
        let closed = lanes.close(lane);
        drop(lanes);
        let (key, _) = closed.expect("it was opened above");
        let turn = job.into_inner::<Turn<K, W>>().expect("it was made of this");
        Err((key, turn.first))
    }

    /// Step K2b: places a task whose room is reserved.
    fn place_reserved<W: Work>(
        self: &Arc<Self>,
        hash: KeyHash,
        key: K,
        work: W,
        permit: Permit<Closures>,
    ) {
        let mut lanes = self.shard(hash).lock();
        if let Some(lane) = lanes.find(hash, &key) {
            if lane.is_below_limit() {
                let turn = Arc::clone(self).queued_turn(lane.id(), VecDeque::new());
                lane.push_with_turn(|| Task::new(work));
                drop(lanes);
                permit.use_for(turn);
            } else {
                lane.push(|| Task::new(work));
                // Before unlocking: the turn may run immediately after that, and uses the room.
                permit.keep();
                drop(lanes);
            }
            // USER CODE: the drop of a key that has a lane already. Last, so that the task is
            // accepted even if it panics.
            drop_quietly(key);
        } else {
            let lane = lanes.open(hash, key);
            drop(lanes);
            permit.use_for(self.turn(lane, work));
        }
    }

    /// Step K2a: accepts a task into an open lane with fewer turns than the limit.
    #[cold]
    #[inline(never)]
    fn place_with_turn<W: Work>(
        self: &Arc<Self>,
        mut lanes: MutexGuard<'_, Lanes<K, Task>>,
        hash: KeyHash,
        key: K,
        work: W,
    ) -> Result<(), (K, W)> {
        // Before the credit, because the credit is a section and the key's `Eq` is user code.
        let Some(lane) = lanes.find(hash, &key) else {
            drop(lanes);
            // The user's `Eq` is inconsistent: it found the lane a moment ago.
            return Err((key, work));
        };
        let turn = Arc::clone(self).queued_turn(lane.id(), VecDeque::new());
        let Some(credit) = self.core.state.credit() else {
            drop(lanes);
            return Err((key, work));
        };
        let searchers = credit.enter(turn);
        lane.push_with_turn(|| Task::new(work));
        drop(lanes);
        self.core.entered(searchers);
        // USER CODE: the drop of a key that has a lane already. Last, so that the task is accepted
        // even if it panics.
        drop_quietly(key);
        Ok(())
    }

    fn turn<W: Work>(self: &Arc<Self>, lane: LaneId, first: W) -> Task {
        let shared = Arc::clone(self);
        Task::new(Turn {
            shared,
            lane,
            first,
        })
    }
}

impl<K, S: Clone> Clone for Keyed<K, S> {
    fn clone(&self) -> Self {
        Self {
            pool: self.pool.clone(),
            shared: Arc::clone(&self.shared),
            hasher: self.hasher.clone(),
        }
    }
}

impl<K, S> fmt::Debug for Keyed<K, S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Keyed")
            .field("pool", &self.pool)
            .finish_non_exhaustive()
    }
}
