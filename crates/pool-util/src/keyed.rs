//! Tasks with keys: tasks of one key run in order and one at a time; different keys run
//! concurrently.
//!
//! A key with an unfinished task has a *lane*. The lane's *turn* is a task of the pool, in its
//! queue or on a worker, and holds the room of the task that it runs next. Later tasks wait in the lane and hold a permit
//! each, so that an accepted task takes up room in the pool from its acceptance to its end. When
//! the turn has run its task, the worker takes all tasks waiting in the lane and continues with the
//! first of them: it replaces the ended task in flight, and its permit's room becomes free. The
//! tasks that the worker has taken travel with the turn. No thread waits for a key.
//!
//! With a limit above one, a lane has up to that many turns. An additional turn carries no task: it
//! takes the lane's first when it runs. Its task needs no permit, because the turn holds the room.
//!
//! On a multi-pool, each key belongs to one member, because the turns of a key are tasks of one pool.
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

use std::any::Any;
use std::fmt;
use std::future::{Future, poll_fn};
use std::hash::{BuildHasher, Hash, RandomState};
use std::pin::Pin;
use std::sync::Arc;
use std::task::Poll;
use std::time::Instant;

use pool_core::internals::{
    Admit, AwaitWithOptions, OptionsHost, PoolHandle, RawHandle, SpawnWithOptions,
    SubmitWithOptions, TaskOptions, WaitLimits, closure_of, is_large, refuse,
};
use pool_core::{Cancelled, Closures, JoinHandle, OnFull, SubmitError, TaskBuilder, WorkerPool};
use sync_shim::Timeout;

use crate::PoolExt;
use crate::keyed::lanes::KeyHash;
use crate::keyed::shard::{Job, Plain, Shard, Waits};

mod lanes;
mod shard;

/// Number of shards of each pool, each with its own lock.
const SHARDS: usize = if cfg!(anthill_loom) { 1 } else { 8 };

/// Runs the tasks of one key in order and one at a time, or up to a [limit](Self::limit) at a time.
/// Tasks of different keys run concurrently.
///
/// Returned by [`PoolExt::keyed`]. A replacement for a lock per customer, or for an actor's mailbox:
/// a task has exclusive access to the data of its key, and sees all writes of the key's earlier
/// tasks.
///
/// ```
/// use pool_core::Pool;
/// use pool_util::PoolExt;
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
///   behind its key ([`Stats::reserved`](pool_core::Stats::reserved)). So the pool's limits bound the
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
/// | any submit at a full pool, on one of its own workers, also as a future | refused, because the task may have to wait behind the submitting one (with [`WithinWorker::Block`](pool_core::WithinWorker::Block) it waits) |
/// | [`JoinHandle::cancel`] | drops the captures immediately; the room is free when the turn comes |
/// | [`JoinHandle::join`], or a poll of the handle, on an own worker | does not run the task in place: refused with [`WouldDeadlock`](pool_core::JoinError::WouldDeadlock) if it has not started |
/// | `release` | accepted tasks run |
/// | `release_now` | also drops tasks that wait behind a key, at the latest when the key's running task has ended; its result counts one task per key in the queue (with a [limit](Self::limit), up to the limit). A `reboot` before that lets them run |
/// | `wait_idle` | waits for all of them |
/// | a refused submit | the error returns both key and task |
///
/// The tasks of a key run on one member of a multi-pool, which the key's hash selects; the strategy is not used. A call
/// waits for room in that member even while another one has room, because the tasks of a key have to stay in order.
///
/// Only for pools of closures: the queue of a [`FuncPool`](pool_core::FuncPool) holds plain arguments,
/// and has no place for a turn with several tasks. Use a closure that calls the function instead.
///
/// The `Eq` of keys runs under the lock of a shard of the keys: wrap keys that are expensive to
/// compare in an `Arc`.
#[doc(alias = "strand")]
#[doc(alias = "actor")]
#[doc(alias = "SerialExecutor")]
#[doc(alias = "StripedExecutor")]
pub struct Keyed<K, S = RandomState, P: PoolExt = WorkerPool<Closures>> {
    pool: Arc<P>,
    /// Of each pool the same number, one after the other.
    // Each in an allocation of its own: turns refer to their shard only.
    shards: Arc<[Arc<Shard<K>>]>,
    hasher: S,
}

/// A refusal, with the key and the task.
type Refused<K, F> = SubmitError<(K, F)>;

impl<K: Hash + Eq + Send + 'static, S: BuildHasher, P: PoolExt> Keyed<K, S, P> {
    /// Like [`PoolExt::keyed`], with a custom hasher.
    pub fn with_hasher(pool: &P, hasher: S) -> Self {
        Self {
            pool: Arc::new(pool.clone()),
            shards: shards(pool, 1),
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
    /// use pool_util::PoolExt;
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
        let shards = shards(&*self.pool, tasks.max(1));
        Self { shards, ..self }
    }

    /// Returns the pool that runs the tasks.
    pub fn pool(&self) -> &P {
        &self.pool
    }

    /// Returns the number of keys with an unfinished task.
    pub fn keys(&self) -> usize {
        self.shards.iter().map(|shard| shard.keys()).sum()
    }

    /// Returns the index of the member to which a key of a multi-pool belongs, for its figures (`MultiPoolExt::stats_of`). 0 for
    /// a single pool.
    pub fn member_of(&self, key: &K) -> usize {
        self.shard_of(KeyHash::new(self.hasher.hash_one(key))) / SHARDS
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
        self.submit_with(key, task, self.usual())
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
        self.submit_with(key, task, OnFull::Wait(self.deadline(timeout)))
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
    ) -> impl Future<Output = Result<(), SubmitError<(K, F)>>> + Send + use<F, T, K, S, P>
    where
        F: FnOnce() -> T + Send + 'static,
        T: Send + 'static,
    {
        self.submit_as_future(key, task, None)
    }

    /// Submits a task, which starts after the earlier tasks of its key, and returns a handle to its
    /// value. Waits as [`submit`](Self::submit) does.
    ///
    /// ```
    /// # use pool_core::Pool;
    /// # use pool_util::PoolExt;
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
        self.spawn_with(key, task, None, self.usual())
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
        self.spawn_with(key, task, None, OnFull::Refuse)
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
        self.spawn_with(key, task, None, OnFull::Wait(self.deadline(timeout)))
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
    ) -> impl Future<Output = Result<JoinHandle<T>, SubmitError<(K, F)>>> + Send + use<F, T, K, S, P>
    where
        F: FnOnce() -> T + Send + 'static,
        T: Send + 'static,
    {
        self.spawn_as_future(key, task, None)
    }

    /// Returns a builder that sets the options of a single task: name, cancel tokens, start deadline. The task is
    /// handed over with its key. It has no priority, because the tasks of a key run in order.
    ///
    /// ```
    /// use pool_core::{CancelToken, Pool};
    /// use pool_util::PoolExt;
    ///
    /// let pool = Pool::builder().capacity(2).build()?;
    /// let (accounts, shutdown) = (pool.keyed(), CancelToken::new());
    /// let debit = accounts.task().name("debit").cancelled_by(&shutdown);
    /// assert_eq!(debit.spawn(("ann", || 6 * 7))?.join()?, 42);
    /// # Ok::<(), Box<dyn std::error::Error + Send + Sync>>(())
    /// ```
    pub fn task(&self) -> TaskBuilder<'_, Self> {
        TaskBuilder::of(self)
    }

    fn submit_with<F, T>(&self, key: K, task: F, on_full: OnFull) -> Result<(), Refused<K, F>>
    where
        F: FnOnce() -> T + Send + 'static,
        T: Send + 'static,
    {
        // All shards are alike.
        if is_large::<F>() || self.shards[0].pool.records_all() {
            self.submit_job(key, task, None, on_full)
        } else {
            self.submit_plain(key, task, on_full)
        }
    }

    fn submit_plain<F, T>(&self, key: K, task: F, on_full: OnFull) -> Result<(), Refused<K, F>>
    where
        F: FnOnce() -> T + Send + 'static,
        T: Send + 'static,
    {
        let (hash, shard) = self.place_of(&key);
        let admit = shard.pool.admit();
        // Before any lock is taken, because a thread that does not exist in a forked child may hold it.
        if let Err(refused) = admit.refuses(on_full) {
            return Err(refused.map(|()| (key, task)));
        }
        let placed = self.place(shard, hash, key, Plain(task), on_full, None);
        placed.map_err(|refused| refused.map(|(key, Plain(task))| (key, task)))
    }

    /// Submits a task whose captures are boxed, or that has a record.
    fn submit_job<F, T>(
        &self,
        key: K,
        task: F,
        options: Option<TaskOptions>,
        on_full: OnFull,
    ) -> Result<(), Refused<K, F>>
    where
        F: FnOnce() -> T + Send + 'static,
        T: Send + 'static,
    {
        let (hash, shard) = self.place_of(&key);
        if let Err(refused) = shard.pool.admit().refuses_with(options.as_ref(), on_full) {
            return refuse_key(refused, key, task);
        }
        let (job, limits) = shard.pool.job(task, options);
        match self.place(shard, hash, key, job, on_full, limits.as_ref()) {
            Ok(()) => Ok(()),
            Err(refused) => refuse_job::<K, F, T>(refused),
        }
    }

    fn spawn_with<F, T>(
        &self,
        key: K,
        task: F,
        options: Option<TaskOptions>,
        on_full: OnFull,
    ) -> Result<JoinHandle<T>, Refused<K, F>>
    where
        F: FnOnce() -> T + Send + 'static,
        T: Send + 'static,
    {
        let (hash, shard) = self.place_of(&key);
        let admit = shard.pool.admit();
        // As in `submit_plain`.
        if let Err(refused) = admit.refuses_with(options.as_ref(), on_full) {
            return refuse_key(refused, key, task);
        }
        let handle = shard.pool.spawned(task, options).keep_place();
        let limits = handle.cell().limits();
        match self.place(shard, hash, key, handle.job(), on_full, limits.as_ref()) {
            Ok(()) => Ok(JoinHandle::of(handle)),
            Err(refused) => refuse_spawned::<K, F, T>(refused, handle),
        }
    }

    fn submit_as_future<F, T>(
        &self,
        key: K,
        task: F,
        options: Option<TaskOptions>,
    ) -> impl Future<Output = Result<(), Refused<K, F>>> + Send + use<F, T, K, S, P>
    where
        F: FnOnce() -> T + Send + 'static,
        T: Send + 'static,
    {
        let (hash, shard) = self.place_of(&key);
        let (shard, open) = (Arc::clone(shard), self.keep_open());
        let (job, limits) = shard.pool.job(task, options);
        let cancelled = limits.and_then(WaitLimits::cancelled);
        async move {
            let placed = place_async(&shard, hash, key, job, cancelled, open).await;
            placed.map_err(|refused| refused.map(|(key, job)| (key, closure_of(job))))
        }
    }

    fn spawn_as_future<F, T>(
        &self,
        key: K,
        task: F,
        options: Option<TaskOptions>,
    ) -> impl Future<Output = Result<JoinHandle<T>, Refused<K, F>>> + Send + use<F, T, K, S, P>
    where
        F: FnOnce() -> T + Send + 'static,
        T: Send + 'static,
    {
        let (hash, shard) = self.place_of(&key);
        let (shard, open) = (Arc::clone(shard), self.keep_open());
        let handle = shard.pool.spawned(task, options).keep_place();
        let job = handle.job();
        let cancelled = handle.cell().limits().and_then(WaitLimits::cancelled);
        async move {
            match place_async(&shard, hash, key, job, cancelled, open).await {
                Ok(()) => Ok(JoinHandle::of(handle)),
                Err(refused) => {
                    Err(refused.map(|(key, _)| (key, handle.into_refused::<Closures, F>())))
                }
            }
        }
    }

    /// The place of a key: its shard, and its hash there.
    #[inline]
    fn place_of(&self, key: &K) -> (KeyHash, &Arc<Shard<K>>) {
        let hash = KeyHash::new(self.hasher.hash_one(key));
        (hash, &self.shards[self.shard_of(hash)])
    }

    #[inline]
    fn shard_of(&self, hash: KeyHash) -> usize {
        hash.shard(self.shards.len())
    }

    /// Accepts a task, or waits for room as `on_full` and `limits` say.
    #[inline]
    fn place<W: Waits<K>>(
        &self,
        shard: &Arc<Shard<K>>,
        hash: KeyHash,
        key: K,
        task: W,
        on_full: OnFull,
        limits: Option<&WaitLimits<'_>>,
    ) -> Result<(), Refused<K, W>> {
        match shard.place(hash, key, task) {
            Ok(()) => Ok(()),
            Err((key, task)) => self.place_in_room(shard, hash, key, task, on_full, limits),
        }
    }

    /// The same, with a decision of the pool.
    fn place_in_room<W: Waits<K>>(
        &self,
        shard: &Arc<Shard<K>>,
        hash: KeyHash,
        key: K,
        task: W,
        on_full: OnFull,
        limits: Option<&WaitLimits<'_>>,
    ) -> Result<(), Refused<K, W>> {
        // The key's lane may have changed until there is room, so `place_reserved` looks it up again: a
        // caller that waits must not hold the lanes' lock.
        match shard.pool.reserve_room(on_full, limits) {
            Ok(()) => {
                let permit = shard.pool.permit(self.keep_open());
                shard.place_reserved(hash, key, task, permit);
                Ok(())
            }
            Err(refused) => Err(refused.map(|()| (key, task))),
        }
    }

    fn deadline(&self, timeout: impl Into<Timeout>) -> Option<Instant> {
        self.after(timeout.into())
    }

    /// A reference that keeps the pool open.
    fn keep_open(&self) -> Arc<dyn Any + Send + Sync> {
        Arc::clone(&self.pool) as _
    }
}

// The errors of large tasks: functions of their own, so that the calls that move a task have no second place for it.

#[cold]
fn refuse_key<K, F, V>(refused: SubmitError, key: K, task: F) -> Result<V, Refused<K, F>> {
    refuse(refused, (key, task))
}

#[cold]
fn refuse_job<K, F, T>(refused: Refused<K, Job>) -> Result<(), Refused<K, F>>
where
    F: FnOnce() -> T + Send + 'static,
    T: Send + 'static,
{
    Err(refused.map(|(key, job)| (key, closure_of(job))))
}

#[cold]
fn refuse_spawned<K, F, T>(
    refused: Refused<K, Job>,
    handle: RawHandle,
) -> Result<JoinHandle<T>, Refused<K, F>>
where
    F: FnOnce() -> T + Send + 'static,
    T: Send + 'static,
{
    Err(refused.map(|(key, _)| (key, handle.into_refused::<Closures, F>())))
}

/// The shards of each of the pools.
fn shards<K: Eq + Send + 'static>(pool: &impl PoolExt, limit: u32) -> Arc<[Arc<Shard<K>>]> {
    let admit = pool.admit();
    let one = [admit.pool_handle()];
    let pools = match admit.members() {
        [] => &one,
        members => members,
    };
    let shards =
        |pool: &PoolHandle| [(); SHARDS].map(|()| Arc::new(Shard::new(pool.clone(), limit)));
    pools.iter().flat_map(shards).collect()
}

/// Accepts a task when there is room, unless a token is cancelled before.
async fn place_async<K: Eq + Send + 'static>(
    shard: &Arc<Shard<K>>,
    hash: KeyHash,
    key: K,
    job: Job,
    mut cancelled: Option<Cancelled>,
    open: Arc<dyn Any + Send + Sync>,
) -> Result<(), Refused<K, Job>> {
    let admit = shard.pool.admit();
    let mut room = Arc::clone(admit).reserve_room_async();
    let mut waits = false;
    let reserved = poll_fn(|context| {
        // Before the look for room, so that a later cancellation wakes the future again.
        let is_cancelled = cancelled
            .as_mut()
            .is_some_and(|cancelled| Pin::new(cancelled).poll(context) == Poll::Ready(true));
        if is_cancelled && !waits {
            admit.count_unoffered();
            return Poll::Ready(Err(SubmitError::Cancelled(())));
        }
        waits = true;
        match Pin::new(&mut room).poll(context) {
            // The drop of `room` leaves the wait queue.
            Poll::Pending if is_cancelled => Poll::Ready(Err(SubmitError::Cancelled(()))),
            polled => polled,
        }
    });
    match reserved.await {
        Ok(pool) => {
            shard.place_reserved(hash, key, job, pool.permit(open));
            Ok(())
        }
        Err(refused) => Err(refused.map(|()| (key, job))),
    }
}

impl<K, S, P: PoolExt> OptionsHost for Keyed<K, S, P> {
    fn usual(&self) -> OnFull {
        self.pool.admit().on_full()
    }
    fn after(&self, timeout: Timeout) -> Option<Instant> {
        timeout.deadline(self.pool.admit().clock())
    }
}

impl<K, S, P, F, T> SubmitWithOptions<(K, F)> for Keyed<K, S, P>
where
    K: Hash + Eq + Send + 'static,
    S: BuildHasher,
    P: PoolExt,
    F: FnOnce() -> T + Send + 'static,
    T: Send + 'static,
{
    type Submitted = Result<(), Refused<K, F>>;

    fn submit_with_options(
        &self,
        (key, task): (K, F),
        options: TaskOptions,
        on_full: OnFull,
    ) -> Self::Submitted {
        self.submit_job(key, task, Some(options), on_full)
    }
}

impl<K, S, P, F, T> SpawnWithOptions<(K, F)> for Keyed<K, S, P>
where
    K: Hash + Eq + Send + 'static,
    S: BuildHasher,
    P: PoolExt,
    F: FnOnce() -> T + Send + 'static,
    T: Send + 'static,
{
    type Spawned = Result<JoinHandle<T>, Refused<K, F>>;

    fn spawn_with_options(
        &self,
        (key, task): (K, F),
        options: TaskOptions,
        on_full: OnFull,
    ) -> Self::Spawned {
        self.spawn_with(key, task, Some(options), on_full)
    }
}

impl<K, S, P, F, T> AwaitWithOptions<(K, F)> for Keyed<K, S, P>
where
    K: Hash + Eq + Send + 'static,
    S: BuildHasher,
    P: PoolExt,
    F: FnOnce() -> T + Send + 'static,
    T: Send + 'static,
{
    fn submit_with_options_async(
        &self,
        (key, task): (K, F),
        options: TaskOptions,
    ) -> impl Future<Output = Self::Submitted> + Send + Unpin + use<K, S, P, F, T> {
        Box::pin(self.submit_as_future(key, task, Some(options)))
    }
    fn spawn_with_options_async(
        &self,
        (key, task): (K, F),
        options: TaskOptions,
    ) -> impl Future<Output = Self::Spawned> + Send + Unpin + use<K, S, P, F, T> {
        Box::pin(self.spawn_as_future(key, task, Some(options)))
    }
}

impl<K, S: Clone, P: PoolExt> Clone for Keyed<K, S, P> {
    fn clone(&self) -> Self {
        Self {
            pool: Arc::clone(&self.pool),
            shards: Arc::clone(&self.shards),
            hasher: self.hasher.clone(),
        }
    }
}

impl<K, S, P: PoolExt> fmt::Debug for Keyed<K, S, P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Keyed")
            .field("pool", &self.pool.admit().name())
            .finish_non_exhaustive()
    }
}
