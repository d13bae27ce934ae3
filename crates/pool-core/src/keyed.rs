//! Tasks with keys: those of one key run in order and one at a time, keys side by side.
//!
//! A key with a task has a *lane*. Its first task is the pool's like any other: the lane's *turn*,
//! in the queue or on a worker. What comes meanwhile waits in the lane and holds a permit, so that
//! each accepted task takes up room in the pool from its acceptance to its end, wherever it waits.
//! When the turn's task has ended, its worker takes out all that waits in the lane, and goes on to
//! the first of it, which takes the ended one's place in flight, and its permit's room is free. What
//! the worker has taken goes with the turn. No thread waits for a key.
//!
//! With a limit above one a lane has up to so many turns. A further turn has no task with it: it takes
//! the lane's first when it runs, and its task needs no permit, as the turn holds the room.
//!
//! The steps (K1, ..) stand in `PROTOCOL.md`.
//!
//! # What always holds
//! 1. While a lane is open, it has a turn, or up to the limit: a task in the pool's queue, or one that
//!    runs. A lane without one is closed, and what waits in a lane or with its turn holds a permit, but for
//!    one task for each turn that is to take its task out of the lane. So a lane is opened only by a
//!    task that has been accepted: none waits behind one that waits for room.
//! 2. A lane's order is that of its section, which is the one of acceptance. So calls that come one
//!    after the other keep their order.
//! 3. Locks are taken in this order: the lanes', then the pool's. No section of the pool touches
//!    lanes. User code runs under neither, but for the key's `Eq`, under the lanes'.

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

/// Sets of lanes, each with a lock of its own.
const SHARDS: u32 = if cfg!(anthill_loom) { 1 } else { 8 };

/// Runs the tasks of one key in their order and one at a time, or up to a [limit](Self::limit) at a
/// time; those of other keys beside them.
///
/// Made by [`WorkerPool::keyed`]. What a lock per customer, or an actor's mailbox, is used for: a
/// task has what belongs to its key for itself, and sees all that the ones before it wrote.
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
///     accounts.submit("bob", || { /* beside those of `ann` */ })?;
/// }
/// assert_eq!(accounts.spawn("ann", move || lines.lock().unwrap().len())?.join()?, 10);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
///
/// A handle: clones have the same keys. Each `Keyed` has keys of its own: equal ones of two have
/// nothing to do with each other. It keeps the pool open.
///
/// # What it holds to
/// - **Order**: tasks of a key run in the order of their acceptance. Calls that come one after the
///   other are accepted in that order. With a [limit](Self::limit) above one, tasks start in that order.
/// - **Threads**: a key that waits holds none.
/// - **Room**: an accepted task holds room in the pool until it has ended, also while it waits behind
///   its key; there it counts in [`Stats::reserved`](crate::Stats::reserved). So the pool's bound is
///   the bound of this, too, and a full pool refuses, or makes the caller wait, in the one line of
///   all submits.
/// - **Fairness**: while other tasks are queued, a key's turn goes to the end of the queue after a
///   few tasks.
/// - **Panics**: a task that panics does not stop its key.
/// - **Memory**: a key whose last task has ended is forgotten.
///
/// # With everything else
/// | what | here |
/// |---|---|
/// | a full pool, on one of its own workers | refuses: the task may have to wait behind the very one that submits it (with [`WithinWorker::Block`](crate::WithinWorker::Block) it waits) |
/// | [`JoinHandle::cancel`] | drops the captures at once; the room is free when the turn comes |
/// | [`JoinHandle::join`] on an own worker | does not run the task in place: refused with [`WouldDeadlock`](crate::JoinError::WouldDeadlock) if it has not started |
/// | `release` | accepted tasks run |
/// | `release_now` | drops what waits behind a key, too, at the latest when the task that runs has ended; its number counts one for each key in the queue (with a [limit](Self::limit), up to the limit). A `reboot` before that lets them run |
/// | `wait_idle` | waits for all of them |
/// | a refusal | gives key and task back |
///
/// Of closures only: a [`FuncPool`](crate::FuncPool)'s queue holds arguments as they are, and has no place
/// for a turn of several. A closure that calls the function does the same.
///
/// `Eq` of a key runs under the lock of some of the keys: put an `Arc` around one that is dear to
/// compare.
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

/// Why a task of a key was not taken, with both.
type Refused<K, F> = SubmitError<(K, F)>;

impl WorkerPool<Closures> {
    /// Tasks with keys: see [`Keyed`].
    ///
    /// ```
    /// use pool_core::Pool;
    ///
    /// let pool = Pool::builder().capacity(2).build()?;
    /// let accounts = pool.keyed::<u32>();
    /// let first = accounts.spawn(7, || "debit")?;
    /// let second = accounts.spawn(7, || "credit")?; // Not before the first has ended.
    /// accounts.submit(8, || ())?; // Another key, at the same time if need be.
    /// assert_eq!((first.join()?, second.join()?), ("debit", "credit"));
    /// # Ok::<(), Box<dyn std::error::Error + Send + Sync>>(())
    /// ```
    pub fn keyed<K: Hash + Eq + Send + 'static>(&self) -> Keyed<K> {
        Keyed::with_hasher(self, RandomState::new())
    }
}

impl<K: Hash + Eq + Send + 'static, S: BuildHasher> Keyed<K, S> {
    /// As [`WorkerPool::keyed`], with another hasher.
    pub fn with_hasher(pool: &WorkerPool<Closures>, hasher: S) -> Self {
        Self {
            pool: pool.clone(),
            shared: Shared::new(pool, 1),
            hasher,
        }
    }

    /// Lets up to this many tasks of a key run at the same time, 1 by default (0 counts as 1).
    ///
    /// The tasks of a key still start in the order of their acceptance, and the ones over the limit
    /// wait without a worker. A limit above one is for keys that stand for a host or a tenant: tasks
    /// no longer have what belongs to their key for themselves.
    ///
    /// The returned `Keyed` has keys of its own, also if this one has tasks already.
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

    /// The pool that runs the tasks.
    pub fn pool(&self) -> &WorkerPool<Closures> {
        &self.pool
    }

    /// Keys with a task that has not ended.
    pub fn keys(&self) -> usize {
        self.shared
            .shards
            .iter()
            .map(|lanes| lanes.lock().len())
            .sum()
    }

    /// Hands a task over, to be run and forgotten, after those of its key. Waits while the pool is
    /// full, as [`WorkerPool::submit`] does.
    ///
    /// # Errors
    /// Key and task come back: see [`SubmitError`].
    pub fn submit<F, T>(&self, key: K, task: F) -> Result<(), SubmitError<(K, F)>>
    where
        F: FnOnce() -> T + Send + 'static,
        T: Send + 'static,
    {
        self.submit_with(key, task, self.pool.on_full())
    }

    /// As [`submit`](Self::submit), but refuses at a full pool.
    ///
    /// # Errors
    /// Key and task come back: see [`SubmitError`].
    pub fn try_submit<F, T>(&self, key: K, task: F) -> Result<(), SubmitError<(K, F)>>
    where
        F: FnOnce() -> T + Send + 'static,
        T: Send + 'static,
    {
        self.submit_with(key, task, OnFull::Refuse)
    }

    /// As [`submit`](Self::submit), but waits at most that long, or until that instant.
    ///
    /// # Errors
    /// Key and task come back: see [`SubmitError`].
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

    /// As [`submit`](Self::submit), as a future. It waits for room first and brings its task then:
    /// dropped before it is ready, it takes the task with it.
    ///
    /// # Errors
    /// Key and task come back: see [`SubmitError`].
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

    /// Hands a task over, after those of its key, and returns a handle to its value. Waits as
    /// [`submit`](Self::submit) does.
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
    /// Key and task come back: see [`SubmitError`].
    pub fn spawn<F, T>(&self, key: K, task: F) -> Result<JoinHandle<T>, SubmitError<(K, F)>>
    where
        F: FnOnce() -> T + Send + 'static,
        T: Send + 'static,
    {
        self.spawn_with(key, task, self.pool.on_full())
    }

    /// As [`spawn`](Self::spawn), but refuses at a full pool.
    ///
    /// # Errors
    /// Key and task come back: see [`SubmitError`].
    pub fn try_spawn<F, T>(&self, key: K, task: F) -> Result<JoinHandle<T>, SubmitError<(K, F)>>
    where
        F: FnOnce() -> T + Send + 'static,
        T: Send + 'static,
    {
        self.spawn_with(key, task, OnFull::Refuse)
    }

    /// As [`spawn`](Self::spawn), but waits at most that long, or until that instant.
    ///
    /// # Errors
    /// Key and task come back: see [`SubmitError`].
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

    /// As [`spawn`](Self::spawn), as a future that resolves to the handle; see
    /// [`submit_async`](Self::submit_async).
    ///
    /// # Errors
    /// Key and task come back: see [`SubmitError`].
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
        if let Err(refused) = self.shared.core.refuses(on_full) {
            return Err(refused.with_task((key, work)));
        }
        let hash = self.hash(&key);
        let Err((key, work)) = self.shared.place(hash, key, work) else {
            return Ok(());
        };
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
        let lanes = || CachePadded::new(Mutex::new(Lanes::new(limit)));
        let shards = [(); SHARDS as usize].map(|()| lanes());
        let core = Arc::clone(pool.core());
        Arc::new(Self { core, shards })
    }

    fn shard(&self, hash: KeyHash) -> &Mutex<Lanes<K, Task>> {
        &self.shards[hash.shard(SHARDS)]
    }

    /// Steps K1 and K2: takes the task, if it may enter undecided.
    #[inline]
    fn place<W: Work>(self: &Arc<Self>, hash: KeyHash, key: K, work: W) -> Result<(), (K, W)> {
        let mut lanes = self.shard(hash).lock();
        if let Some(lane) = lanes.find(hash, &key) {
            if lane.is_below_limit() {
                return self.place_with_turn(lanes, hash, key, work);
            }
            let Some(credit) = self.core.state.credit() else {
                drop(lanes);
                return Err((key, work));
            };
            credit.reserve();
            lane.push(|| Task::new(work));
            drop(lanes);
            // USER CODE: the drop of a key that has a lane already. The task is accepted by then.
            drop_quietly(key);
            return Ok(());
        }
        let lane = lanes.open(hash, key);
        let job = self.turn(lane, work);
        if let Some(credit) = self.core.state.credit() {
            let searchers = credit.enter(job);
            drop(lanes);
            self.core.entered(searchers);
            return Ok(());
        }
        // As it was.
        let closed = lanes.close(lane);
        drop(lanes);
        let (key, _) = closed.expect("it was opened above");
        let turn = job.into_inner::<Turn<K, W>>().expect("it was made of this");
        Err((key, turn.first))
    }

    /// Step K2b: takes the task, whose room is reserved.
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
                let turn = Arc::clone(self).again(lane.id(), VecDeque::new());
                lane.push_with_turn(|| Task::new(work));
                drop(lanes);
                permit.use_for(turn);
            } else {
                lane.push(|| Task::new(work));
                // Before its turn may come, which uses it up.
                permit.keep();
                drop(lanes);
            }
            // USER CODE: the drop of a key that has a lane already. The task is accepted by then.
            drop_quietly(key);
        } else {
            let lane = lanes.open(hash, key);
            drop(lanes);
            permit.use_for(self.turn(lane, work));
        }
    }

    /// Step K2a: takes the task of an open lane with fewer turns than the limit.
    #[cold]
    #[inline(never)]
    fn place_with_turn<W: Work>(
        self: &Arc<Self>,
        mut lanes: MutexGuard<'_, Lanes<K, Task>>,
        hash: KeyHash,
        key: K,
        work: W,
    ) -> Result<(), (K, W)> {
        // Before the credit, which is a section: the key's `Eq` is the user's.
        let Some(lane) = lanes.find(hash, &key) else {
            drop(lanes);
            return Err((key, work)); // By an `Eq` that has changed its mind.
        };
        let turn = Arc::clone(self).again(lane.id(), VecDeque::new());
        let Some(credit) = self.core.state.credit() else {
            drop(lanes);
            return Err((key, work));
        };
        let searchers = credit.enter(turn);
        lane.push_with_turn(|| Task::new(work));
        drop(lanes);
        self.core.entered(searchers);
        // USER CODE: the drop of a key that has a lane already. The task is accepted by then.
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
