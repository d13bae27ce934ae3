//! The tasks of some keys, and the turns that run them.
//!
//! A turn is a task of the pool. It runs the tasks of one lane in order, and holds room for one of them at a time. With
//! a limit above one, a lane has several turns.
//!
//! The steps (K1, ..) are in `PROTOCOL.md`.

use std::any::type_name;
use std::collections::VecDeque;
use std::mem;
use std::sync::Arc;
use std::task::Waker;

use pool_core::internals::{
    Outcome, PoolHandle, TaskContext, TaskResult, Work, job_of, plain_job, work_of,
};
use pool_core::{Closures, Permit, Task};
use sync_shim::foreign::{drop_quietly, wake};
use sync_shim::{Mutex, MutexGuard};

use super::lanes::{Found, KeyHash, LaneId, Lanes};

/// Number of tasks that a turn runs before it yields to other queued tasks. One in models, so that
/// a turn yields while tasks wait in its lane.
const TURN: usize = if cfg!(anthill_loom) { 1 } else { 8 };

/// The job of a task that waits in a lane.
pub(super) type Job = Task;

/// The lanes of some keys, all on one pool.
pub(super) struct Shard<K> {
    pub(super) pool: PoolHandle,
    lanes: Mutex<Lanes<K, Job>>,
}

/// The turn of an open lane, and the task it runs first.
struct Turn<K: Eq + Send + 'static, W> {
    // One reference count per shard, because it is on the line of the lock, which its user has just taken.
    shard: Arc<Shard<K>>,
    lane: LaneId,
    first: W,
}

/// A task that can wait in a lane.
pub(super) trait Waits<K>: Sized {
    /// The task as it waits in a lane.
    fn into_job(self) -> Job;
    /// Opens the key's lane, and creates the lane's turn with this task.
    fn open(
        self,
        shard: &Arc<Shard<K>>,
        lanes: &mut Lanes<K, Job>,
        hash: KeyHash,
        key: K,
    ) -> (LaneId, Job);
    /// Takes the task back out of that turn, or of the closed lane.
    fn take_back(turn: Job, waiting: VecDeque<Job>) -> Self;
}

/// A closure without a record. It travels in its turn, so that a key with one task costs no place in a lane.
pub(super) struct Plain<F>(pub(super) F);

impl<K, F, T> Waits<K> for Plain<F>
where
    K: Eq + Send + 'static,
    F: FnOnce() -> T + Send + 'static,
    T: Send + 'static,
{
    #[inline]
    fn into_job(self) -> Job {
        plain_job(self.0)
    }

    #[inline]
    fn open(
        self,
        shard: &Arc<Shard<K>>,
        lanes: &mut Lanes<K, Job>,
        hash: KeyHash,
        key: K,
    ) -> (LaneId, Job) {
        let lane = lanes.open(hash, key);
        let turn = job_of(Turn {
            shard: Arc::clone(shard),
            lane,
            first: self,
        });
        (lane, turn)
    }

    fn take_back(turn: Job, _waiting: VecDeque<Job>) -> Self {
        let turn = work_of::<Turn<K, Self>>(turn);
        turn.expect("it was made of this").first
    }
}

impl<K: Eq + Send + 'static> Waits<K> for Job {
    fn into_job(self) -> Job {
        self
    }

    fn open(
        self,
        shard: &Arc<Shard<K>>,
        lanes: &mut Lanes<K, Job>,
        hash: KeyHash,
        key: K,
    ) -> (LaneId, Job) {
        let lane = lanes.open_with(hash, key, self);
        (lane, shard.turn(lane, VecDeque::new()))
    }

    fn take_back(_turn: Job, mut waiting: VecDeque<Job>) -> Self {
        waiting.pop_front().expect("it was opened with a job")
    }
}

/// Tasks that a turn carries. With none, the turn takes the lane's first task when it runs.
struct Taken(VecDeque<Job>);

impl<K: Eq + Send + 'static> Shard<K> {
    pub(super) fn new(pool: PoolHandle, limit: u32) -> Self {
        let lanes = Mutex::new(Lanes::new(limit));
        Self { pool, lanes }
    }

    /// Number of keys with an unfinished task.
    pub(super) fn keys(&self) -> usize {
        self.lanes.lock().len()
    }

    /// Accepts a task, unless the pool must decide first: it is full or closed, or has to notify a worker.
    #[inline]
    pub(super) fn place<W: Waits<K>>(
        self: &Arc<Self>,
        hash: KeyHash,
        key: K,
        task: W,
    ) -> Result<(), (K, W)> {
        let mut lanes = self.lanes.lock();
        if let Some(lane) = lanes.find(hash, &key) {
            let mut task = Some(task);
            self.join(lane, || task.take().expect("it is placed once").into_job());
            drop(lanes);
            if let Some(task) = task {
                return Err((key, task));
            }
            // USER CODE: the drop of a key that has a lane already. Last, so that the task is accepted even if it
            // panics.
            drop_quietly(key);
            return Ok(());
        }
        // Opened before the room is known, because the table may have to grow and must not do so
        // under the pool's lock.
        let (lane, turn) = task.open(self, &mut lanes, hash, key);
        // Step K1.
        let Err(turn) = self.pool.try_enter(turn) else {
            return Ok(());
        };
        // The turn was not accepted, so the lane must not stay open: no turn would close it.
        let closed = lanes.close(lane);
        drop(lanes);
        let (key, waiting) = closed.expect("it was opened above");
        Err((key, W::take_back(turn, waiting)))
    }

    /// Takes a task and adds it to an open lane, unless the pool must decide first. Under the lanes' lock: otherwise
    /// the lane could close before the task is in it.
    #[inline]
    fn join(self: &Arc<Self>, lane: Found<'_, Job>, job: impl FnOnce() -> Job) {
        if lane.is_below_limit() {
            // Step K2a.
            let turn = self.turn(lane.id(), VecDeque::new());
            if self.pool.try_enter(turn).is_ok() {
                lane.push_with_turn(job);
            }
        } else if self.pool.try_reserve() {
            // Step K2.
            lane.push(job);
        }
    }

    /// Step K2b: accepts a task whose room is reserved.
    pub(super) fn place_reserved<W: Waits<K>>(
        self: &Arc<Self>,
        hash: KeyHash,
        key: K,
        task: W,
        permit: Permit<Closures>,
    ) {
        let mut lanes = self.lanes.lock();
        let Some(lane) = lanes.find(hash, &key) else {
            let (_, turn) = task.open(self, &mut lanes, hash, key);
            drop(lanes);
            permit.use_for(turn);
            return;
        };
        if lane.is_below_limit() {
            let turn = self.turn(lane.id(), VecDeque::new());
            lane.push_with_turn(|| task.into_job());
            drop(lanes);
            permit.use_for(turn);
        } else {
            lane.push(|| task.into_job());
            // Before unlocking: the turn may run immediately after that, and uses the room.
            let open = permit.keep();
            drop(lanes);
            // USER CODE: the drop policy, if it is the pool's last handle. `DropPolicy::Join` waits for turns, which take
            // the lanes' lock.
            drop_quietly(open);
        }
        // USER CODE: as in `place`.
        drop_quietly(key);
    }

    /// Creates a turn of the lane for the queue, with the tasks that it carries, if any.
    fn turn(self: &Arc<Self>, lane: LaneId, taken: VecDeque<Job>) -> Job {
        job_of(Turn {
            shard: Arc::clone(self),
            lane,
            first: Taken(taken),
        })
    }

    /// Continues with the lane's next tasks after one has ended.
    fn go_on(
        self: &Arc<Self>,
        lane: LaneId,
        mut ended: TaskResult,
        mut taken: VecDeque<Job>,
    ) -> TaskResult {
        for done in 1.. {
            settle(&mut ended);
            if taken.is_empty() && !self.refill(lane, &mut taken) {
                return ended;
            }
            // Yields after `TURN` tasks, so that a busy key does not starve other queued tasks.
            let yields = usize::is_multiple_of(done, TURN);
            if !self.pool.try_end_permitted(ended.outcome, yields) {
                // Step K4. The next task's permit becomes the turn's room in the queue, and the worker ends this
                // task as any other.
                self.pool.redeem(self.turn(lane, taken));
                return ended;
            }
            // Only now may the handle resolve: room and figures must show the end first, because
            // its waiter may look at them.
            if let Some(waker) = ended.resolve_and_take_waker() {
                return self.put_off(lane, taken, waker);
            }
            ended = self.pool.run(self.next(lane, &mut taken));
        }
        ended
    }

    /// Step K3: takes all tasks waiting in the lane, or closes the lane if there are none.
    ///
    /// With a limit above one (K3c) it takes none yet: the turn stays empty, and takes the lane's
    /// first task when it runs. If all waiting tasks belong to other turns, this turn leaves the
    /// lane.
    #[inline]
    fn refill(&self, lane: LaneId, taken: &mut VecDeque<Job>) -> bool {
        let mut lanes = self.lanes.lock();
        if lanes.limit() > 1 {
            return claim(lanes, lane);
        }
        let closed = lanes.take_or_close(lane, taken);
        drop(lanes);
        // USER CODE: the drop of a closed lane's key.
        drop_quietly(closed);
        !taken.is_empty()
    }

    /// The turn's next task: the first one it carries, or else step K3d.
    #[inline]
    fn next(&self, lane: LaneId, taken: &mut VecDeque<Job>) -> Job {
        match taken.pop_front() {
            Some(next) => next,
            None => self.next_in_lane(lane),
        }
    }

    fn next_in_lane(&self, lane: LaneId) -> Job {
        let next = self.lanes.lock().next_of(lane);
        next.expect("an empty turn has a task in its lane")
    }

    /// As step W9 of the pool: puts the turn back before it calls the waker of an ended task, so that no task waits
    /// for this worker meanwhile.
    #[cold]
    fn put_off(self: &Arc<Self>, lane: LaneId, taken: VecDeque<Job>, waker: Waker) -> TaskResult {
        self.pool.requeue(self.turn(lane, taken));
        wake(waker);
        TaskResult::without_handle(Outcome::Requeued)
    }

    /// Step K5: discards a turn whose task is `first`. Closes the lane, unless it has other turns, and drops the tasks
    /// that this turn carries (`waiting`) or that wait in the lane and do not belong to other
    /// turns.
    #[cold]
    fn discard(&self, lane: LaneId, first: TaskResult, mut waiting: VecDeque<Job>) -> TaskResult {
        let left = self.lanes.lock().abandon(lane);
        let Some((key, mut others)) = left else {
            return first;
        };
        waiting.append(&mut others);
        for job in waiting {
            let result = self.release(job);
            self.pool.end_permitted(result.outcome);
            result.resolve();
        }
        // USER CODE: the drop of the key, after all handles have resolved: it may be slow.
        drop_quietly(key);
        first
    }

    /// Drops a task.
    fn release(&self, job: Job) -> TaskResult {
        let mut result = self.pool.drop_unrun(job);
        settle(&mut result);
        result
    }
}

/// Step K3c, and the drop of the key if that closed the lane.
#[cold]
fn claim<K>(mut lanes: MutexGuard<'_, Lanes<K, Job>>, lane: LaneId) -> bool {
    let (goes_on, closed) = lanes.claim_or_leave(lane);
    drop(lanes);
    // USER CODE: the drop of a closed lane's key. It must not run under the lock.
    drop_quietly(closed);
    goes_on
}

/// Counts a task that its handle took back as cancelled: unlike other such tasks it kept its place.
#[inline]
fn settle(result: &mut TaskResult) {
    if result.outcome == Outcome::Withdrawn {
        result.outcome = Outcome::Cancelled;
    }
}

impl<K, F, T> Work for Turn<K, Plain<F>>
where
    K: Eq + Send + 'static,
    F: FnOnce() -> T + Send + 'static,
{
    fn run(self, context: &TaskContext) -> TaskResult {
        let Plain(task) = self.first;
        let ran = context.execute(type_name::<F>(), || drop(task()));
        let ended = TaskResult::without_handle(Outcome::of(ran));
        self.shard.go_on(self.lane, ended, VecDeque::new())
    }

    fn release(self) -> TaskResult {
        // USER CODE: the drop of a closure that does not run.
        drop_quietly(self.first);
        let first = TaskResult::without_handle(Outcome::Released);
        self.shard.discard(self.lane, first, VecDeque::new())
    }
}

impl<K: Eq + Send + 'static> Work for Turn<K, Taken> {
    fn run(mut self, _: &TaskContext) -> TaskResult {
        // A `release_now` may have run while the turn was neither queued nor running.
        if self.shard.pool.discards() {
            return self.release();
        }
        let taken = &mut self.first.0;
        let first = self.shard.next(self.lane, taken);
        let ended = self.shard.pool.run(first);
        self.shard.go_on(self.lane, ended, mem::take(taken))
    }

    fn release(mut self) -> TaskResult {
        let first = self.shard.next(self.lane, &mut self.first.0);
        let first = self.shard.release(first);
        self.shard.discard(self.lane, first, self.first.0)
    }
}
