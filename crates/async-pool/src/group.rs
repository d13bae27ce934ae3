//! Groups of tasks that are awaited or cancelled together.
//!
//! A member is an ordinary task whose future carries a [`Report`]. The group learns of its end when the report is
//! dropped on the worker, right after the future. So a member costs no waker and no further allocation, and the owner of
//! the group polls no member.
//!
//! # Invariants
//! 1. The slot of a member is freed by the later of two parties: the report, and the call that spawned the task, which
//!    stores the handle or gives up. So a key is not used again while a report has it.
//! 2. No user code runs under the group's lock: it moves handles, and cancels tasks, which only schedules them.

use std::any::Any;
use std::collections::VecDeque;
use std::fmt;
use std::future::Future;
use std::mem::{replace, take};
use std::panic::{RefUnwindSafe, UnwindSafe};
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};
use std::time::Instant;

use pool_core::internals::{EventFuture, EventWait, Events, WakeList};
use pool_core::{CancelToken, JoinError, SubmitError, Timeout, WaitError};
use slab::Slab;
use sync_shim::Mutex;
use sync_shim::atomic::{AtomicBool, Ordering::Relaxed};
use sync_shim::foreign::{discard, drop_quietly, guarded};

use crate::family::Want;
use crate::task::{Futures, Starts};
use crate::waits::Patience;
use crate::worker::Shared;
use crate::{AsyncWorkerPool, JoinHandle, Permit};

type Joined<V> = Result<V, JoinError>;
/// Whether a value of the group's type is a failure.
type IsFailure = fn(&dyn Any) -> bool;

/// Group of tasks of one pool that are awaited as they end, waited for, or cancelled together. Returned by
/// [`AsyncWorkerPool::group`].
///
/// Any thread can add tasks. Values are returned in the order in which the tasks end. The tasks run on the pool's
/// workers, whether or not the group is polled. Dropping the group cancels them.
///
/// ```
/// use async_pool::AsyncPool;
///
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// let pool = AsyncPool::builder().capacity(4).build()?;
/// let group = pool.group();
/// for n in 1..=10_u64 {
///     group.spawn(async move { n * n })?;
/// }
/// let mut sum = 0;
/// while let Some(square) = group.next() { // In a future: `group.next_async().await`.
///     sum += square?;
/// }
/// assert_eq!(sum, 385);
/// # Ok(())
/// # }
/// ```
#[doc(alias = "JoinSet")]
#[doc(alias = "FuturesUnordered")]
pub struct TaskGroup<V: Send + 'static, R = Futures> {
    pool: AsyncWorkerPool<Members<R>>,
    group: Arc<Group<V>>,
}

struct Group<V> {
    state: Mutex<State<V>>,
    pool: Arc<Shared>,
    /// Ends the waits for room of calls that add a task. Cancelled after the state, without its lock.
    token: CancelToken,
    /// Whether a call in a forked child has returned `Forked`.
    is_forked: AtomicBool,
}

struct State<V> {
    running: Slab<Slot<V>>,
    /// Handles of the members that have ended and were not taken, in the order of their ends.
    ended: VecDeque<JoinHandle<V>>,
    /// Keys and tickets of members that were accepted and may not have started. Stale ones leave at the front.
    queued: VecDeque<(usize, u64)>,
    /// How many of these the task of the pool that waits for them has noted, and its family.
    noted: usize,
    noted_by: Option<u64>,
    /// Whether a task of the pool has waited for a member: it is to note those that are queued meanwhile.
    has_own_waiter: bool,
    /// Number of members that were not taken.
    left: usize,
    on_end: Events,
    /// Whether the first member that fails cancels the group.
    cancels: bool,
    is_cancelled: bool,
    /// The first failure that a wait for all tasks has taken, and the first error if that is a value. The wait may be given up.
    failure: Option<Joined<V>>,
    error: Option<JoinError>,
}

struct Slot<V> {
    party: Party<V>,
    /// Whether the member has failed, once its report was dropped.
    failed: Option<bool>,
}

/// The call that has spawned a member.
enum Party<V> {
    /// It has not returned.
    Spawning,
    Holds(JoinHandle<V>),
    /// The task was refused, or is no longer a member.
    Gone,
}

impl<V> State<V> {
    /// Records the handle of the spawning call, or that the call gave up.
    fn settle(&mut self, key: usize, party: Party<V>, wakes: &mut WakeList) {
        let ticket = match &party {
            Party::Holds(handle) => {
                self.left += 1;
                if self.is_cancelled {
                    handle.cancel();
                }
                handle.ticket()
            }
            Party::Spawning | Party::Gone => None,
        };
        self.running[key].party = party;
        if let Some(failed) = self.running[key].failed {
            self.free(key, failed, wakes);
        } else if let Some(ticket) = ticket {
            self.forget_started();
            self.queued.push_back((key, ticket));
            if self.has_own_waiter {
                self.on_end.set_all(wakes);
            }
        }
    }

    /// Records the end of a member's future.
    fn end(&mut self, key: usize, failed: bool, wakes: &mut WakeList) {
        match self.running[key].party {
            Party::Spawning => self.running[key].failed = Some(failed),
            Party::Holds(_) | Party::Gone => self.free(key, failed, wakes),
        }
    }

    fn free(&mut self, key: usize, failed: bool, wakes: &mut WakeList) {
        let Party::Holds(handle) = self.running.remove(key).party else {
            return;
        };
        self.ended.push_back(handle);
        self.on_end.set_all(wakes);
        if failed && self.cancels && !self.is_cancelled {
            self.cancel();
        }
    }

    fn cancel(&mut self) {
        self.is_cancelled = true;
        for (_, slot) in &self.running {
            if let Party::Holds(handle) = &slot.party {
                handle.cancel();
            }
        }
    }

    /// Makes a running task leave the group. `None` if there is none with a handle.
    fn detach(&mut self, key: usize) -> Option<JoinHandle<V>> {
        let slot = self.running.get_mut(key)?;
        match replace(&mut slot.party, Party::Gone) {
            Party::Holds(handle) => {
                self.left -= 1;
                Some(handle)
            }
            other => {
                slot.party = other;
                None
            }
        }
    }

    /// Removes members that have started from the front of the queued ones.
    fn forget_started(&mut self) {
        while let Some(&(key, ticket)) = self.queued.front()
            && self.ticket(key) != Some(ticket)
        {
            self.queued.pop_front();
            self.noted = self.noted.saturating_sub(1);
        }
    }

    /// Returns the queued members that the task with this family has not noted.
    fn note_queued(&mut self, family: u64) -> Vec<Want> {
        if self.noted_by.replace(family) != Some(family) {
            self.noted = 0;
        }
        let new = self.queued.iter().skip(self.noted);
        let new = new.map(|&(_, ticket)| Want::Pending(ticket)).collect();
        self.noted = self.queued.len();
        new
    }

    fn ticket(&self, key: usize) -> Option<u64> {
        match &self.running.get(key)?.party {
            Party::Holds(handle) => handle.ticket(),
            Party::Spawning | Party::Gone => None,
        }
    }
}

enum Taken<V> {
    /// A member that has ended. Its worker may be about to show the value. The caller [counts](Group::count_taken) the member
    /// once it has that.
    Ended(JoinHandle<V>),
    NoneYet,
    NoneLeft,
}

impl<V> Group<V> {
    /// Takes the handle of the next member that has ended. If there are only running ones, `wait` enters the event of an
    /// end.
    fn take(&self, wait: impl FnOnce(&mut Events)) -> Taken<V> {
        let mut state = self.state.lock();
        if let Some(handle) = state.ended.pop_front() {
            return Taken::Ended(handle);
        }
        if state.left == 0 {
            return Taken::NoneLeft;
        }
        // In the section that found no end, so that the next one is not missed.
        wait(&mut state.on_end);
        Taken::NoneYet
    }

    /// `Err` in a forked child: with an error at first, then with the end of the group.
    fn check_fork(&self) -> Result<(), Option<JoinError>> {
        let forked = self.pool.process.check(JoinError::Forked);
        forked.map_err(|forked| (!self.is_forked.swap(true, Relaxed)).then_some(forked))
    }

    /// Counts a member whose value was taken. Waits return if it was the last one.
    fn count_taken(&self) {
        self.change(|state| state.left -= 1);
    }

    /// Puts back the handle of a member whose value was not taken.
    fn put_back(&self, handle: JoinHandle<V>) {
        self.change(|state| state.ended.push_front(handle));
    }

    fn change(&self, change: impl FnOnce(&mut State<V>)) {
        self.section(|state, wakes| {
            change(state);
            state.on_end.set_all(wakes);
        });
    }

    /// Changes the state, then wakes waiters without the lock.
    fn section<T>(&self, change: impl FnOnce(&mut State<V>, &mut WakeList) -> T) -> T {
        let mut wakes = WakeList::default();
        let mut state = self.state.lock();
        let changed = change(&mut state, &mut wakes);
        let is_cancelled = state.is_cancelled;
        drop(state);
        // USER CODE: wakers. Panics are caught.
        wakes.wake_all();
        if is_cancelled {
            // USER CODE: wakers. A panic must not cost the caller what has changed.
            _ = guarded(|| self.token.cancel()).map_err(discard);
        }
        changed
    }
}

/// Reports the end of a member to its group when dropped.
struct Report<V> {
    group: Arc<Group<V>>,
    key: usize,
    failed: bool,
}

impl<V> Report<V> {
    /// Whether the group was cancelled, and cancels the member: at the latest when the call that has spawned it settles.
    fn will_be_cancelled(&self) -> bool {
        let Group { state, token, .. } = &*self.group;
        token.is_cancelled() && !matches!(state.lock().running[self.key].party, Party::Gone)
    }
}

impl<V> Drop for Report<V> {
    fn drop(&mut self) {
        if !self.group.pool.process.is_current() {
            return;
        }
        let (key, failed) = (self.key, self.failed);
        self.group
            .section(|state, wakes| state.end(key, failed, wakes));
    }
}

/// A call that is spawning a member. Dropped without a handle, it gives up.
struct Spawning<V> {
    group: Arc<Group<V>>,
    key: usize,
    handle: Option<JoinHandle<V>>,
}

impl<V> Spawning<V> {
    fn succeed(mut self, handle: JoinHandle<V>) {
        self.handle = Some(handle);
    }
}

impl<V> Drop for Spawning<V> {
    fn drop(&mut self) {
        if !self.group.pool.process.is_current() {
            return;
        }
        let party = self.handle.take().map_or(Party::Gone, Party::Holds);
        let key = self.key;
        self.group
            .section(|state, wakes| state.settle(key, party, wakes));
    }
}

/// A task of a group.
struct Member<T, V> {
    task: T,
    report: Report<V>,
}

type NewMember<T, V> = (Member<T, V>, Spawning<V>);

/// The future of a member. The fields are dropped in this order.
struct MemberFuture<F, V> {
    future: F,
    report: Report<V>,
    is_failure: Option<IsFailure>,
    has_started: bool,
}

impl<F, V> Future for MemberFuture<F, V>
where
    F: Future<Output = V>,
    V: 'static,
{
    type Output = V;

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<V> {
        // SAFETY: `future` stays in its place until it is dropped there, and the other fields are never pinned.
        let this = unsafe { self.get_unchecked_mut() };
        if !this.has_started && this.report.will_be_cancelled() {
            return Poll::Pending;
        }
        this.has_started = true;
        // SAFETY: as above.
        let future = unsafe { Pin::new_unchecked(&mut this.future) };
        let value = ready!(future.poll(context));
        this.report.failed = this.is_failure.is_some_and(|is_failure| is_failure(&value));
        Poll::Ready(value)
    }
}

/// The tasks of a group, in a pool with the tasks of `R`.
#[derive(Clone)]
struct Members<R> {
    runner: R,
    is_failure: Option<IsFailure>,
}

impl<T, R> Starts<Member<T, R::Value>> for Members<R>
where
    R: Starts<T>,
{
    type Value = R::Value;
    type Future = MemberFuture<R::Future, R::Value>;

    fn start(&self, member: Member<T, R::Value>) -> Self::Future {
        MemberFuture {
            future: self.runner.start(member.task),
            report: member.report,
            is_failure: self.is_failure,
            has_started: false,
        }
    }
}

impl<R: Clone> AsyncWorkerPool<R> {
    /// Creates an empty group of tasks of this pool.
    pub fn group<V: Send + 'static>(&self) -> TaskGroup<V, R> {
        TaskGroup {
            pool: self.with_runner(|runner| Members {
                runner: runner.clone(),
                is_failure: None,
            }),
            group: Arc::new(Group {
                state: Mutex::new(State {
                    running: Slab::new(),
                    ended: VecDeque::new(),
                    queued: VecDeque::new(),
                    noted: 0,
                    noted_by: None,
                    has_own_waiter: false,
                    left: 0,
                    on_end: Events::new(),
                    cancels: false,
                    is_cancelled: false,
                    failure: None,
                    error: None,
                }),
                pool: Arc::clone(self.shared()),
                token: CancelToken::new(),
                is_forked: AtomicBool::new(false),
            }),
        }
    }
}

impl<V: Send + 'static, R> TaskGroup<V, R> {
    /// Makes the first task that panics or is cancelled [cancel](Self::cancel) the group.
    pub fn cancel_on_error(self) -> Self {
        self.group.state.lock().cancels = true;
        self
    }

    /// Adds a task. Blocks while the pool is full, until the group is cancelled.
    ///
    /// # Errors
    /// Returns the task: [`Cancelled`](SubmitError::Cancelled) if the group was cancelled, also by a failure; otherwise see
    /// [`AsyncWorkerPool::spawn`]. A call that gets room as the group is cancelled may return `Ok`; its task is cancelled and does
    /// not start.
    pub fn spawn<T: Send + 'static>(&self, task: T) -> Result<(), SubmitError<T>>
    where
        R: Starts<T, Value = V>,
    {
        self.adopt(task, Patience::Until(None, Some(&self.group.token)))
    }

    /// Adds a task. Never blocks.
    ///
    /// # Errors
    /// Returns the task, as [`spawn`](Self::spawn) does: see [`AsyncWorkerPool::try_spawn`].
    pub fn try_spawn<T: Send + 'static>(&self, task: T) -> Result<(), SubmitError<T>>
    where
        R: Starts<T, Value = V>,
    {
        self.adopt(task, Patience::None)
    }

    /// Adds a task. Blocks while the pool is full, for a `Duration` or until an `Instant`.
    ///
    /// # Errors
    /// Returns the task, as [`spawn`](Self::spawn) does: see [`AsyncWorkerPool::spawn_timeout`].
    pub fn spawn_timeout<T: Send + 'static>(
        &self,
        task: T,
        timeout: impl Into<Timeout>,
    ) -> Result<(), SubmitError<T>>
    where
        R: Starts<T, Value = V>,
    {
        let deadline = timeout.into().deadline(&*self.group.pool.clock);
        self.adopt(task, Patience::Until(deadline, Some(&self.group.token)))
    }

    /// Async version of [`spawn`](Self::spawn). The task belongs to the group once the future is ready.
    ///
    /// Dropping the future before that drops the task, which is cancelled if the pool has just accepted it.
    ///
    /// # Errors
    /// Returns the task, as [`spawn`](Self::spawn) does: see [`AsyncWorkerPool::spawn_async`].
    pub fn spawn_async<T: Send + 'static>(
        &self,
        task: T,
    ) -> impl Future<Output = Result<(), SubmitError<T>>> + Send + use<V, R, T>
    where
        R: Starts<T, Value = V>,
    {
        let member = self.member(task);
        let accepted = member.map(|(member, spawning)| {
            let accepted = self.pool.spawn_async_owned(member, &self.group.token);
            (accepted, spawning)
        });
        async move {
            let (accepted, spawning) = accepted?;
            spawning.succeed(accepted.await.map_err(task_of)?);
            Ok(())
        }
    }

    fn adopt<T: Send + 'static>(
        &self,
        task: T,
        patience: Patience<'_>,
    ) -> Result<(), SubmitError<T>>
    where
        R: Starts<T, Value = V>,
    {
        let (member, spawning) = self.member(task)?;
        let accepted = self.pool.put_joinable(member, patience);
        spawning.succeed(accepted.map_err(task_of)?);
        Ok(())
    }

    /// Adds a task that uses the room of a permit.
    pub(crate) fn spawn_with<T: Send + 'static>(&self, permit: Permit<R>, task: T)
    where
        R: Starts<T, Value = V>,
    {
        match self.member(task) {
            Ok((member, spawning)) => {
                let permit = permit.with_pool(&self.pool);
                spawning.succeed(permit.spawn(member));
            }
            // USER CODE: the drop of a task. A panic is caught.
            Err(refused) => _ = drop_quietly(refused),
        }
    }

    /// Makes a task a member, unless the group was cancelled.
    fn member<T>(&self, task: T) -> Result<NewMember<T, V>, SubmitError<T>> {
        if !self.group.pool.process.is_current() {
            return Err(SubmitError::Forked(task));
        }
        let mut state = self.group.state.lock();
        if state.is_cancelled {
            return Err(SubmitError::Cancelled(task));
        }
        let key = state.running.insert(Slot {
            party: Party::Spawning,
            failed: None,
        });
        drop(state);
        let group = Arc::clone(&self.group);
        let report = Report {
            group: Arc::clone(&group),
            key,
            failed: true,
        };
        let handle = None;
        Ok((Member { task, report }, Spawning { group, key, handle }))
    }

    /// Returns the number of tasks that have not ended, plus the number of ended tasks that were not taken.
    pub fn len(&self) -> usize {
        self.group.state.lock().left
    }

    /// Returns whether all tasks have ended and were taken.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// [Cancels](JoinHandle::cancel) all tasks of the group, which end with [`JoinError::Cancelled`]. Tasks added later are
    /// returned.
    pub fn cancel(&self) {
        if self.group.pool.process.is_current() {
            self.group.section(|state, _| state.cancel());
        }
    }

    /// Blocks until a task has ended, and returns its value or error. Returns `None` if no task is left.
    ///
    /// On a worker of the same pool it does not block: a task that has not ended is detached, and
    /// [`JoinError::WouldDeadlock`] is returned for it. Await [`next_async`](Self::next_async) there.
    ///
    /// In a forked child the first call returns [`JoinError::Forked`], and later calls return `None`.
    pub fn next(&self) -> Option<Result<V, JoinError>> {
        self.next_until(None).unwrap_or(None)
    }

    /// Like [`next`](Self::next), for a `Duration` or until an `Instant`.
    ///
    /// # Errors
    /// [`WaitError::TimedOut`].
    pub fn next_timeout(
        &self,
        timeout: impl Into<Timeout>,
    ) -> Result<Option<Result<V, JoinError>>, WaitError> {
        let deadline = timeout.into().deadline(&*self.group.pool.clock);
        self.next_until(deadline)
    }

    fn next_until(&self, deadline: Option<Instant>) -> Result<Option<Joined<V>>, WaitError> {
        if let Err(forked) = self.group.check_fork() {
            return Ok(forked.map(Err));
        }
        loop {
            let mut event = None;
            let taken = self.group.take(|events| {
                event.insert(EventWait::of_thread()).enter(events);
            });
            match taken {
                Taken::Ended(handle) => {
                    let value = handle.join();
                    self.group.count_taken();
                    return Ok(Some(value));
                }
                Taken::NoneLeft => return Ok(None),
                Taken::NoneYet => {}
            }
            let event = event.expect("the event was entered");
            let is_own_worker = self.group.pool.is_own_worker();
            if !is_own_worker && event.wait_until(&*self.group.pool.clock, deadline) {
                continue;
            }
            let mut state = self.group.state.lock();
            if event.leave(&mut state.on_end) {
                continue;
            }
            if !is_own_worker {
                return Err(WaitError::TimedOut);
            }
            let key = state
                .running
                .iter()
                .map(|(key, _)| key)
                .find(|key| matches!(state.running[*key].party, Party::Holds(_)));
            let detached = key.and_then(|key| state.detach(key));
            drop(state);
            return Ok(detached.map(|_| Err(JoinError::WouldDeadlock)));
        }
    }

    /// Returns the value or error of a task that has ended, if there is one. Never waits.
    pub fn try_next(&self) -> Option<Result<V, JoinError>> {
        if let Err(forked) = self.group.check_fork() {
            return forked.map(Err);
        }
        match self.group.take(|_| {}) {
            Taken::Ended(handle) if handle.is_finished() => {
                // After the unlock: it counts ends that no worker has counted yet, which wakes callers.
                let value = handle.join();
                self.group.count_taken();
                Some(value)
            }
            Taken::Ended(handle) => {
                self.group.put_back(handle);
                None
            }
            Taken::NoneYet | Taken::NoneLeft => None,
        }
    }

    /// Async version of [`next`](Self::next). Dropping the future loses no value.
    ///
    /// In a task of the same pool, a member that has not started may start in the room of the calling task: see
    /// [the crate's page](crate#tasks-that-wait-for-tasks-of-their-own-pool).
    pub fn next_async(
        &self,
    ) -> impl Future<Output = Option<Result<V, JoinError>>> + Send + Unpin + '_ {
        self.next_end()
    }

    pub(crate) fn next_end(&self) -> Next<V> {
        Next {
            group: Arc::clone(&self.group),
            event: None,
            ended: None,
        }
    }

    /// Blocks until all tasks have ended, including those added meanwhile. Drops their values.
    ///
    /// # Errors
    /// The first error, after all tasks have ended. See [`next`](Self::next) for own workers and forked children.
    pub fn wait(&self) -> Result<(), JoinError> {
        while let Some(ended) = self.next() {
            self.keep_failure(ended, |_| false)?;
        }
        self.take_error()
    }

    /// Async version of [`wait`](Self::wait). If the future is dropped, the next `wait` or `wait_async` returns the
    /// first error that it has taken. An `Err` that a task returned is a value here.
    ///
    /// # Errors
    /// Those of [`wait`](Self::wait).
    pub async fn wait_async(&self) -> Result<(), JoinError> {
        while let Some(ended) = self.next_async().await {
            self.keep_failure(ended, |_| false)?;
        }
        self.take_error()
    }

    /// Keeps the result of a task that has ended, if it is the first failure.
    ///
    /// # Errors
    /// [`JoinError::Forked`] in a forked child, where a thread of the parent may hold the lock.
    fn keep_failure(&self, ended: Joined<V>, is_failure: fn(&V) -> bool) -> Result<(), JoinError> {
        self.group.pool.process.check(JoinError::Forked)?;
        if ended.as_ref().map_or(true, is_failure) {
            let mut state = self.group.state.lock();
            let unneeded = match (&state.failure, ended) {
                (None, ended) => state.failure.replace(ended),
                (Some(Ok(_)), Err(error)) if state.error.is_none() => {
                    state.error.replace(error).map(Err)
                }
                (Some(_), ended) => Some(ended),
            };
            drop(state);
            drop(unneeded); // USER CODE: the drop of a value, after the unlock.
        }
        Ok(())
    }

    /// Takes the first error of the failures that were kept.
    fn take_error(&self) -> Result<(), JoinError> {
        match self.take_failure() {
            (Some(Err(error)), _) | (_, Some(error)) => Err(error),
            _ => Ok(()),
        }
    }

    /// Takes the first failure that was kept, and the first error if that is a value.
    fn take_failure(&self) -> (Option<Joined<V>>, Option<JoinError>) {
        if !self.group.pool.process.is_current() {
            return (None, None); // A thread of the parent may hold the lock.
        }
        let state = &mut *self.group.state.lock();
        (state.failure.take(), state.error.take())
    }
}

/// Groups of tasks that return a `Result`.
impl<T: Send + 'static, E: Send + 'static, R: Clone> TaskGroup<Result<T, E>, R> {
    /// Like [`cancel_on_error`](Self::cancel_on_error), and a task that returns `Err` cancels the group as well. Tasks
    /// that were added before this call may return any value.
    ///
    /// ```
    /// use async_pool::AsyncPool;
    ///
    /// # fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// let pool = AsyncPool::builder().capacity(10).build()?;
    /// let group = pool.group().cancel_on_failure();
    /// group.spawn(async { Ok(std::future::pending().await) })?;
    /// group.spawn(async { "no".parse::<u32>() })?;
    /// assert!(group.wait_ok()?.is_err()); // The first one was cancelled.
    /// # Ok(())
    /// # }
    /// ```
    #[doc(alias = "errgroup")]
    pub fn cancel_on_failure(mut self) -> Self {
        self.pool = self.pool.with_runner(|members| Members {
            is_failure: Some(|value| {
                let result = value.downcast_ref::<Result<T, E>>();
                result.is_some_and(Result::is_err)
            }),
            ..members.clone()
        });
        self.cancel_on_error()
    }

    /// Blocks until all tasks have ended, and returns the first failure: the outer error is that of
    /// [`wait`](Self::wait), the inner one was returned by a task.
    ///
    /// # Errors
    /// The error of a task that has panicked, or was cancelled before any other failed.
    pub fn wait_ok(&self) -> Result<Result<(), E>, JoinError> {
        while let Some(ended) = self.next() {
            self.keep_failure(ended, Result::is_err)?;
        }
        let (failure, _) = self.take_failure();
        failure.map_or(Ok(Ok(())), |failed| failed.map(|result| result.map(drop)))
    }

    /// Async version of [`wait_ok`](Self::wait_ok). If the future is dropped, the next `wait_ok` or `wait_ok_async`
    /// returns the first failure that it has taken.
    ///
    /// # Errors
    /// Those of [`wait_ok`](Self::wait_ok).
    pub async fn wait_ok_async(&self) -> Result<Result<(), E>, JoinError> {
        while let Some(ended) = self.next_async().await {
            self.keep_failure(ended, Result::is_err)?;
        }
        let (failure, _) = self.take_failure();
        failure.map_or(Ok(Ok(())), |failed| failed.map(|result| result.map(drop)))
    }
}

fn task_of<T, V>(refused: SubmitError<Member<T, V>>) -> SubmitError<T> {
    refused.map(|member| member.task)
}

impl<V: Send + 'static, R> Drop for TaskGroup<V, R> {
    fn drop(&mut self) {
        if !self.group.pool.process.is_current() {
            return;
        }
        let left = self.group.section(|state, _| {
            state.cancel();
            let keys: Vec<_> = state.running.iter().map(|(key, _)| key).collect();
            let running: Vec<_> = keys
                .into_iter()
                .filter_map(|key| state.detach(key))
                .collect();
            (running, take(&mut state.ended), state.failure.take())
        });
        // USER CODE: the drops of values and errors. A panic is caught.
        drop_quietly(left);
    }
}

impl<V: Send + 'static, R> fmt::Debug for TaskGroup<V, R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TaskGroup")
            .field("left", &self.len())
            .finish_non_exhaustive()
    }
}

impl<V: Send + 'static, R> UnwindSafe for TaskGroup<V, R> {}
impl<V: Send + 'static, R> RefUnwindSafe for TaskGroup<V, R> {}

/// A wait for the next end. Can be polled again after each one.
pub(crate) struct Next<V> {
    group: Arc<Group<V>>,
    event: Option<EventFuture>,
    /// A member that has ended, as in [`Taken`].
    ended: Option<JoinHandle<V>>,
}

impl<V> Next<V> {
    fn leave(&mut self) {
        if let Some(event) = self.event.take() {
            event.leave(&mut self.group.state.lock().on_end);
            // USER CODE: the drop of a waker. A panic is caught.
            drop_quietly(event);
        }
    }

    /// Notes that the calling task of the pool waits for the members that have not started.
    fn want_queued(&self) {
        let Group { state, pool, .. } = &*self.group;
        let has_queued = || {
            let mut state = state.lock();
            state.has_own_waiter = true;
            state.forget_started();
            !state.queued.is_empty()
        };
        if let Some(parent) = pool.own_task()
            && has_queued()
        {
            let number = pool.family_of(parent);
            let new = state.lock().note_queued(number);
            // After the unlock, because the section may wake callers.
            pool.want(parent, new);
        }
    }
}

impl<V> Future for Next<V> {
    type Output = Option<Joined<V>>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let this = &mut *self;
        if let Err(forked) = this.group.check_fork() {
            return Poll::Ready(forked.map(Err));
        }
        this.want_queued();
        loop {
            if let Some(handle) = &mut this.ended {
                let value = ready!(Pin::new(handle).poll(context));
                this.group.count_taken();
                this.ended = None;
                return Poll::Ready(Some(value));
            }
            if let Some(event) = &this.event {
                if !event.poll(context.waker()) {
                    return Poll::Pending;
                }
                this.leave();
            }
            let event = &mut this.event;
            let taken = this.group.take(|events| {
                event.insert(EventFuture::new()).enter(events);
            });
            match taken {
                Taken::Ended(handle) => this.ended = Some(handle),
                Taken::NoneLeft => return Poll::Ready(None),
                Taken::NoneYet => {}
            }
        }
    }
}

impl<V> Drop for Next<V> {
    fn drop(&mut self) {
        if self.group.pool.process.is_current() {
            self.leave();
            if let Some(handle) = self.ended.take() {
                self.group.put_back(handle);
            }
        }
    }
}

#[cfg(all(test, not(anthill_loom)))]
mod tests {
    use std::future::ready;

    use crate::AsyncPool;

    #[test]
    fn members_that_were_taken_leave_nothing_in_their_group() {
        let pool = AsyncPool::builder().workers(1).capacity(1).queue_depth(8);
        let pool = pool.build().expect("a thread can be started");
        let group = pool.group();
        for _ in 0..1_000 {
            group.spawn(ready(())).expect("the pool is open");
            group.next().expect("a member").expect("a value");
        }
        let state = group.group.state.lock();
        assert_eq!(
            (state.running.len(), state.ended.len(), state.left),
            (0, 0, 0)
        );
        assert!(state.queued.len() <= 1 && state.on_end.is_empty());
        assert!(state.running.capacity() < 16);
    }
}
