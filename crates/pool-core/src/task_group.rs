//! Groups: tasks that are waited for, or cancelled, together.
//!
//! A group's tasks are the pool's like any other, in its one queue. A task that was submitted yields
//! `None` where a spawned one yields its value, and of its good end nothing is kept. A task's value goes to the group
//! as its end is shown ([`Listener`]), on the thread that ended it, and lies there for the group's
//! owner. That runs no user code: what is some (owners' wakers, the cancelling of the rest) is left
//! to be called as a handle's waker is.
//!
//! Its own lock is held neither while a handle is cancelled nor while a waker is called: both may run
//! user code.
//!
//! # Invariants, whenever the lock is free
//! 1. A task of the group has a place in `handles` until its value is in `ended`, or it has none, or it
//!    was given up; `left` counts all that are in either.
//! 2. While the owner sleeps, `ended` is empty and `left` is not 0.

use std::collections::{BTreeMap, VecDeque};
use std::fmt;
use std::future::{Future, poll_fn};
use std::mem;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::time::{Duration, Instant};

use sync_shim::atomic::{AtomicBool, Ordering::Relaxed};
use sync_shim::waiter::Waiter;
use sync_shim::{Mutex, MutexGuard, Parker};

use crate::accept::Accepts;
use crate::config::OnFull;
use crate::error::{JoinError, MapError, SubmitError, WaitError};
use crate::foreign::{drop_quietly, wake};
use crate::handle::{PoolRef, RawHandle};
use crate::map::Host;
use crate::pool::WorkerPool;
use crate::sched::spin::{JOIN_SPIN, spin_until};
use crate::task::cell::{SpawnCell, Stored};
use crate::task::closures::{Closures, Ignored};
use crate::task::options::TaskOptions;
use crate::task::promise::{Joined, Listener};
use crate::task_builder::{OptionsHost, SpawnWithOptions, SubmitWithOptions, TaskBuilder};
use crate::wait_async::Deadline;

/// Tasks of one pool that belong together: waited for, taken as they end, or cancelled.
///
/// Made by [`WorkerPool::group`]. Tasks may be handed over from anywhere; results are taken in the
/// order of their ends. Dropping it cancels what has not started, and detaches the rest.
///
/// ```
/// use pool_core::Pool;
///
/// let pool = Pool::builder().capacity(4).build()?;
/// let group = pool.group();
/// for n in 1..=10_u64 {
///     group.spawn(move || n * n)?;
/// }
/// let mut sum = 0;
/// while let Some(square) = group.next() {
///     sum += square?;
/// }
/// assert_eq!(sum, 385);
/// # Ok::<(), Box<dyn std::error::Error + Send + Sync>>(())
/// ```
///
/// From tokio's `JoinSet`, and Java's `ExecutorCompletionService`.
#[doc(alias = "join_all")]
#[doc(alias = "JoinSet")]
#[doc(alias = "WaitGroup")]
#[doc(alias = "ExecutorCompletionService")]
pub struct TaskGroup<T: Send + 'static, P: Host = WorkerPool<Closures>> {
    host: P,
    shared: Arc<Shared<T>>,
    /// When a wait cancels the group; without a time once it has come. Of owners that are futures the last that
    /// was polled is woken. Under its lock runs what a poll may run anywhere, the clock's code and the clone of a
    /// waker, and nothing of the group.
    end: Option<Mutex<Deadline>>,
}

struct Shared<T> {
    state: Mutex<State<T>>,
    /// A hint to an owner that spins: there is something to take, or nothing left to wait for.
    ready: AtomicBool,
}

struct State<T> {
    /// By the order in which they were handed over. `None`: the handle is out, to be cancelled or
    /// run.
    handles: BTreeMap<u64, Option<RawHandle>>,
    next: u64,
    /// What was handed over before this one has started, as far as owners that help know.
    unstarted: u64,
    ended: VecDeque<Joined<T>>,
    /// Tasks that have not ended, or whose values were not taken.
    left: usize,
    owners: Vec<Waiter>,
    /// The first value of which this is true cancels the rest, and what is handed over later. No user code.
    fails: fn(&Joined<T>) -> bool,
    failed: bool,
}

/// User code that a task's end brings: called where wakers may be.
struct AfterEnd<T: Send + 'static> {
    owners: Mutex<Vec<Waker>>,
    /// The rest of this group is to be cancelled.
    cancels: Option<Arc<Shared<T>>>,
}

impl<T: Send + 'static> Wake for AfterEnd<T> {
    fn wake(self: Arc<Self>) {
        let owners = mem::take(&mut *self.owners.lock());
        owners.into_iter().for_each(wake);
        if let Some(group) = &self.cancels {
            group.cancel();
        }
    }
}

impl<T: Send + 'static> Listener for Shared<T> {
    fn ended(
        self: Arc<Self>,
        number: u64,
        outcome: Joined<Stored>,
        cell: &SpawnCell,
    ) -> Option<Waker> {
        let value = value_in(cell, outcome);
        let mut state = self.state.lock();
        let Some(handle) = state.handles.remove(&number) else {
            drop(state);
            // It was given up meanwhile. A value's destructor is user code.
            let value = value.transpose()?;
            return Some(Waker::from(Arc::new(GivenUp(Mutex::new(Some(value))))));
        };
        let user_code = self.keep(state, value);
        drop(handle); // The value was taken: this runs no user code.
        user_code
    }
}

/// What a task of the group has come to. A submitted one has no value.
fn value_in<T: 'static>(cell: &SpawnCell, outcome: Joined<Stored>) -> Joined<Option<T>> {
    outcome.map(|stored| cell.take_value(stored))
}

/// A value that no owner takes.
struct GivenUp<T>(Mutex<Option<Joined<T>>>);

impl<T: Send + 'static> Wake for GivenUp<T> {
    fn wake(self: Arc<Self>) {
        let value = self.0.lock().take();
        drop_quietly(value);
    }
}

impl<T> State<T> {
    /// Whether there is something to take, or nothing left to wait for.
    fn is_ready(&self) -> bool {
        !self.ended.is_empty() || self.left == 0
    }
}

impl<T: Send + 'static> Shared<T> {
    /// Once the group has failed, what is handed over has ended, cancelled: no worker comes to see it, which
    /// might start it before it is.
    fn ends_at_once(self: &Arc<Self>) -> bool {
        let mut state = self.state.lock();
        if !state.failed {
            return false;
        }
        state.left += 1;
        let user_code = self.keep(state, Err(JoinError::Cancelled));
        user_code.into_iter().for_each(wake);
        true
    }

    /// A task was accepted.
    fn adopt(self: &Arc<Self>, handle: RawHandle) {
        let listener: Arc<dyn Listener> = Arc::clone(self) as _;
        let mut state = self.state.lock();
        let number = state.next;
        state.next += 1;
        state.left += 1;
        let failed = state.failed;
        // Under the lock, so that the end finds the handle.
        match handle.listen(listener, number) {
            None => {
                state.handles.insert(number, Some(handle));
                self.show(&state);
            }
            Some(outcome) => {
                let value = value_in(handle.cell(), outcome);
                return self.keep(state, value).into_iter().for_each(wake);
            }
        }
        drop(state);
        if failed {
            self.with_handle(number, RawHandle::cancel);
        }
    }

    fn show(&self, state: &State<T>) {
        // Relaxed: a hint; an owner takes the lock to see.
        self.ready.store(state.is_ready(), Relaxed);
    }

    /// A task has ended: wakes threads. What is user code comes back.
    fn keep(
        self: &Arc<Self>,
        mut state: MutexGuard<'_, State<T>>,
        value: Joined<Option<T>>,
    ) -> Option<Waker> {
        let mut fails = false;
        if let Some(value) = value.transpose() {
            fails = !state.failed && (state.fails)(&value);
            state.failed |= fails;
            state.ended.push_back(value);
        } else {
            state.left -= 1; // It was submitted, and there is nothing to take.
        }
        self.show(&state);
        if !state.is_ready() {
            return None; // Owners sleep on: there is more to come.
        }
        let owners = mem::take(&mut state.owners);
        drop(state);
        let mut wakers = Vec::new();
        for owner in owners {
            match owner {
                Waiter::Thread(parker) => parker.unpark(),
                Waiter::Task(waker) => wakers.push(waker),
            }
        }
        if wakers.len() < 2 && !fails {
            return wakers.pop();
        }
        Some(Waker::from(Arc::new(AfterEnd {
            owners: Mutex::new(wakers),
            cancels: fails.then(|| Arc::clone(self)),
        })))
    }

    /// Has `call` look at a handle, which is out of the group meanwhile: it may run user code.
    fn with_handle<R>(&self, number: u64, call: impl FnOnce(&RawHandle) -> R) -> Option<R> {
        let handle = self.state.lock().handles.get_mut(&number)?.take()?;
        let result = call(&handle);
        let mut state = self.state.lock();
        let unneeded = match state.handles.get_mut(&number) {
            Some(place) => place.replace(handle),
            None => Some(handle), // It has ended meanwhile.
        };
        drop(state);
        drop(unneeded);
        Some(result)
    }

    /// Cancels what has not started, the last ones first: how many.
    fn cancel(&self) -> usize {
        let numbers: Vec<_> = self.state.lock().handles.keys().copied().collect();
        let cancels = |&number: &u64| self.with_handle(number, RawHandle::cancel) == Some(true);
        numbers
            .iter()
            .rev()
            .filter(|number| cancels(number))
            .count()
    }

    /// Takes a value, `None` if there is none and none comes; or leaves a waiter.
    fn take_or_wait(&self, waiter: impl FnOnce() -> Option<Waiter>) -> Poll<Option<Joined<T>>> {
        // A waker's clone is user code: before the lock.
        let waiter = waiter();
        let mut state = self.state.lock();
        if let Some(value) = state.ended.pop_front() {
            state.left -= 1;
            self.show(&state);
            return Poll::Ready(Some(value));
        }
        if state.left == 0 {
            return Poll::Ready(None);
        }
        let known = |one: &Waiter, other: &Waiter| match (one, other) {
            (Waiter::Task(one), Waiter::Task(other)) => one.will_wake(other),
            _ => false,
        };
        let mut unneeded = None;
        if let Some(waiter) = waiter {
            if state.owners.iter().any(|owner| known(owner, &waiter)) {
                unneeded = Some(waiter);
            } else {
                state.owners.push(waiter);
            }
        }
        drop(state);
        drop_quietly(unneeded);
        Poll::Pending
    }
}

impl<T: Send + 'static, P: Host> TaskGroup<T, P> {
    /// An empty group of that pool's tasks; see [`WorkerPool::group`].
    pub fn of(host: &P) -> Self {
        let state = State {
            handles: BTreeMap::new(),
            next: 0,
            unstarted: 0,
            ended: VecDeque::new(),
            left: 0,
            owners: Vec::new(),
            fails: |_| false,
            failed: false,
        };
        Self {
            host: host.clone(),
            shared: Arc::new(Shared {
                state: Mutex::new(state),
                ready: AtomicBool::new(true),
            }),
            end: None,
        }
    }

    /// From now on the first task that ends without a value (it panicked, or was cancelled) cancels those
    /// that have not started. Those that are handed over later end at once, cancelled, and the pool does not
    /// count them. A task's own `Err` is a value:
    /// [`cancel_on_failure`](Self::cancel_on_failure).
    ///
    /// ```
    /// use pool_core::{JoinError, Pool};
    ///
    /// let pool = Pool::builder().capacity(1).queue_depth(1).build()?;
    /// let group = pool.group().cancel_on_error();
    /// group.spawn(|| panic!("out of ink"))?;
    /// _ = group.spawn(|| println!("perhaps not"));
    /// assert!(matches!(group.wait(), Err(JoinError::Panicked(_))));
    /// # Ok::<(), Box<dyn std::error::Error + Send + Sync>>(())
    /// ```
    pub fn cancel_on_error(self) -> Self {
        self.cancel_if(Result::is_err)
    }

    fn cancel_if(self, fails: fn(&Joined<T>) -> bool) -> Self {
        self.shared.state.lock().fails = fails;
        self
    }

    /// Until then, by the pool's clock, the tasks may take: what has not started by that time is
    /// [cancelled](Self::cancel), and what runs is asked to stop, once. It is done by the waits
    /// ([`next`](Self::next), [`wait`](Self::wait) and their futures), which then go on: without one at that time,
    /// by the first that comes later.
    ///
    /// ```
    /// use pool_core::{JoinError, Pool, current};
    /// use std::time::{Duration, Instant};
    ///
    /// let pool = Pool::builder().capacity(1).build()?;
    /// let soon = Instant::now() + Duration::from_millis(1);
    /// let group = pool.group().cancel_at(soon);
    /// group.spawn(|| while !current().is_cancelled() { std::thread::yield_now() })?;
    /// // It was asked to stop, and did; or it had not started.
    /// assert!(matches!(group.wait(), Ok(()) | Err(JoinError::Cancelled)));
    /// # Ok::<(), Box<dyn std::error::Error + Send + Sync>>(())
    /// ```
    #[doc(alias = "timeout")]
    pub fn cancel_at(mut self, deadline: Instant) -> Self {
        self.end = Some(Mutex::new(Deadline::new(Some(deadline))));
        self
    }

    /// Cancels the group, if its time has come: that, while it has not.
    fn cancel_in_time(&self) -> Option<Instant> {
        let mut end = self.end.as_ref()?.lock();
        let at = end.at()?;
        if self.host.pool_handle().clock().now() < at {
            return Some(at);
        }
        let passed = mem::replace(&mut *end, Deadline::new(None));
        drop(end);
        drop_quietly(passed); // Its alarm: the clock's code, and the runtime's.
        self.cancel();
        None
    }

    /// Hands a task over, as the pool's [`spawn`](WorkerPool::spawn) does.
    ///
    /// ```
    /// use pool_core::Pool;
    ///
    /// let pool = Pool::builder().capacity(2).build()?;
    /// let group = pool.group();
    /// for word in ["one", "three"] {
    ///     group.spawn(move || word.len())?;
    /// }
    /// group.wait()?;
    /// # Ok::<(), Box<dyn std::error::Error + Send + Sync>>(())
    /// ```
    ///
    /// # Errors
    /// The task comes back unrun: see [`SubmitError`].
    pub fn spawn<F>(&self, task: F) -> Result<(), SubmitError<F>>
    where
        F: FnOnce() -> T + Send + 'static,
    {
        self.spawn_with(task, self.host.on_full())
    }

    /// As [`spawn`](Self::spawn), but refuses at a full pool.
    ///
    /// # Errors
    /// The task comes back unrun: see [`SubmitError`].
    pub fn try_spawn<F>(&self, task: F) -> Result<(), SubmitError<F>>
    where
        F: FnOnce() -> T + Send + 'static,
    {
        self.spawn_with(task, OnFull::Refuse)
    }

    /// As [`spawn`](Self::spawn), as a future that waits for room: of the group once it is ready. Dropped
    /// before that, it takes the task back, or leaves it to run as none of the group's if it was just
    /// accepted.
    ///
    /// # Errors
    /// The task comes back unrun: see [`SubmitError`].
    pub fn spawn_async<F>(&self, task: F) -> impl Future<Output = Result<(), SubmitError<F>>> + Send
    where
        F: FnOnce() -> T + Send + 'static,
    {
        self.adopt_async(task)
    }

    pub(crate) fn spawn_with<F>(&self, task: F, on_full: OnFull) -> Result<(), SubmitError<F>>
    where
        F: FnOnce() -> T + Send + 'static,
    {
        self.adopt(task, None, on_full)
    }

    /// Hands a task over that yields no value: what it returns is dropped on the worker, as a part of
    /// the task. Waits as the pool's [`submit`](WorkerPool::submit) does.
    ///
    /// It is one of the group's like any other: [`wait`](Self::wait) waits for it, [`len`](Self::len)
    /// counts it until it has ended, a [`cancel`](Self::cancel), a deadline and the group's drop take it
    /// back, and if it panics or is cancelled that is an error of the group. But
    /// [`next`](Self::next) has nothing to say of its good end, and nothing of it is kept. An `Err` that
    /// it returns is dropped as well: [`spawn`](Self::spawn) what may fail.
    ///
    /// ```
    /// use pool_core::Pool;
    /// use std::sync::Arc;
    /// use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
    ///
    /// let pool = Pool::builder().capacity(4).build()?;
    /// let (group, sum) = (pool.group::<()>(), Arc::new(AtomicU32::new(0)));
    /// for n in 1..=100 {
    ///     let sum = Arc::clone(&sum);
    ///     group.submit(move || sum.fetch_add(n, Relaxed))?;
    /// }
    /// group.wait()?;
    /// assert_eq!(sum.load(Relaxed), 5050);
    /// # Ok::<(), Box<dyn std::error::Error + Send + Sync>>(())
    /// ```
    ///
    /// Costs one allocation, as a spawned task does: it can be cancelled.
    ///
    /// # Errors
    /// The task comes back unrun: see [`SubmitError`].
    pub fn submit<F, V>(&self, task: F) -> Result<(), SubmitError<F>>
    where
        F: FnOnce() -> V + Send + 'static,
    {
        self.submit_with(task, None, self.host.on_full())
    }

    /// As [`submit`](Self::submit), but refuses at a full pool.
    ///
    /// # Errors
    /// The task comes back unrun: see [`SubmitError`].
    pub fn try_submit<F, V>(&self, task: F) -> Result<(), SubmitError<F>>
    where
        F: FnOnce() -> V + Send + 'static,
    {
        self.submit_with(task, None, OnFull::Refuse)
    }

    /// As [`submit`](Self::submit), as a future that waits for room: of the group once it is ready, as
    /// [`spawn_async`](Self::spawn_async) says.
    ///
    /// # Errors
    /// The task comes back unrun: see [`SubmitError`].
    pub fn submit_async<F, V>(
        &self,
        task: F,
    ) -> impl Future<Output = Result<(), SubmitError<F>>> + Send
    where
        F: FnOnce() -> V + Send + 'static,
    {
        let submitted = self.adopt_async(Ignored(task));
        async move { submitted.await.map_err(|refused| refused.map(|it| it.0)) }
    }

    fn submit_with<F, V>(
        &self,
        task: F,
        options: Option<TaskOptions>,
        on_full: OnFull,
    ) -> Result<(), SubmitError<F>>
    where
        F: FnOnce() -> V + Send + 'static,
    {
        let submitted = self.adopt(Ignored(task), options, on_full);
        submitted.map_err(|refused| refused.map(|it| it.0))
    }

    /// Hands a task over, and takes it into the group.
    fn adopt<C>(
        &self,
        task: C,
        options: Option<TaskOptions>,
        on_full: OnFull,
    ) -> Result<(), SubmitError<C>>
    where
        Closures: Accepts<C>,
    {
        if self.shared.ends_at_once() {
            drop_quietly(task);
            return Ok(());
        }
        let accepted = match options {
            None => self.host.spawn_on(task, on_full),
            Some(options) => self.host.spawn_with_options_on(task, options, on_full),
        };
        self.shared.adopt(accepted?.into_raw());
        Ok(())
    }

    /// As [`adopt`](Self::adopt), as a future that waits for room.
    fn adopt_async<C>(
        &self,
        task: C,
    ) -> impl Future<Output = Result<(), SubmitError<C>>> + Send + use<'_, C, T, P>
    where
        Closures: Accepts<C>,
    {
        let accepted = self.host.spawn_async_on(task);
        async move {
            if self.shared.ends_at_once() {
                drop_quietly(accepted);
                return Ok(());
            }
            self.shared.adopt(accepted.await?.into_raw());
            Ok(())
        }
    }

    /// Sets a single task of the group up: its name, a token that cancels it, a time by which it is
    /// to be started. See [`TaskBuilder`], whose `spawn` and its kin a group has.
    pub fn task(&self) -> TaskBuilder<'_, Self> {
        TaskBuilder::of(self)
    }

    /// Tasks that have not ended, and those whose values were not taken.
    pub fn len(&self) -> usize {
        self.shared.state.lock().left
    }

    /// Whether every task has ended, and its value was taken.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Cancels the tasks that have not started: how many. They end with
    /// [`JoinError::Cancelled`]. Those that run are asked to stop; see
    /// [`current`](crate::current).
    ///
    /// ```
    /// use pool_core::Pool;
    ///
    /// let pool = Pool::builder().capacity(1).queue_depth(2).start_paused(true).build()?;
    /// let group = pool.group();
    /// group.spawn(|| ())?;
    /// group.spawn(|| ())?;
    /// assert_eq!(group.cancel(), 2); // Neither had started.
    /// # Ok::<(), Box<dyn std::error::Error + Send + Sync>>(())
    /// ```
    #[doc(alias = "abort_all")]
    #[doc(alias = "shutdown")]
    pub fn cancel(&self) -> usize {
        self.shared.cancel()
    }

    /// Blocks until a task has ended, and takes its value. `None` if there is no task left. A
    /// [submitted](Self::submit) one's end is passed over, unless it is an error.
    ///
    /// On a worker of the same pool it runs tasks of the group that have not started, as
    /// [`JoinHandle::join`](crate::JoinHandle::join) does; one that may not be run there is given up with
    /// [`JoinError::WouldDeadlock`].
    ///
    /// ```
    /// use pool_core::Pool;
    ///
    /// let pool = Pool::builder().capacity(2).build()?;
    /// let group = pool.group();
    /// group.spawn(|| "one".len())?;
    /// group.spawn(|| "three".len())?;
    /// let mut sum = 0;
    /// while let Some(length) = group.next() { // As they end.
    ///     sum += length?;
    /// }
    /// assert_eq!(sum, 8);
    /// # Ok::<(), Box<dyn std::error::Error + Send + Sync>>(())
    /// ```
    pub fn next(&self) -> Option<Result<T, JoinError>> {
        let next = self.next_until(None);
        next.unwrap_or_else(|_| unreachable!("a wait without a limit has an outcome"))
    }

    /// A value that is there.
    pub(crate) fn try_next(&self) -> Option<Joined<T>> {
        match self.shared.take_or_wait(|| None) {
            Poll::Ready(next) => next,
            Poll::Pending => None,
        }
    }

    /// As [`next`](Self::next), but waits at most until then by the pool's clock, and runs nothing
    /// in place.
    ///
    /// # Errors
    /// [`WaitError::TimedOut`].
    pub fn next_deadline(
        &self,
        deadline: Instant,
    ) -> Result<Option<Result<T, JoinError>>, WaitError> {
        self.next_until(Some(deadline))
    }

    fn next_until(&self, deadline: Option<Instant>) -> Result<Option<Joined<T>>, WaitError> {
        let pool = self.host.pool_handle();
        if pool.is_forked() {
            return Ok(Some(Err(JoinError::Forked)));
        }
        let helps = deadline.is_none() && pool.0.is_own_worker();
        if !helps {
            spin_until(JOIN_SPIN, || self.shared.ready.load(Relaxed));
        }
        let parker = Parker::of_thread();
        loop {
            let end = self.cancel_in_time();
            let waiter = || Some(Waiter::Thread(parker.clone()));
            if let Poll::Ready(next) = self.shared.take_or_wait(waiter) {
                return Ok(next);
            }
            if helps && self.help() {
                continue;
            }
            match deadline.into_iter().chain(end).min() {
                None => parker.park(),
                Some(when) if pool.clock().park_until(&parker, when) => {}
                Some(when) if Some(when) != deadline => {}
                Some(_) => {
                    return match self.shared.take_or_wait(|| None) {
                        Poll::Ready(next) => Ok(next),
                        Poll::Pending => Err(WaitError::TimedOut),
                    };
                }
            }
        }
    }

    /// Runs a task of the group that has not started, or gives it up. `false` if there is none.
    fn help(&self) -> bool {
        loop {
            let mut state = self.shared.state.lock();
            let from = state.unstarted;
            let Some(number) = state
                .handles
                .range(from..)
                .next()
                .map(|(&number, _)| number)
            else {
                return false;
            };
            state.unstarted = number + 1;
            drop(state);
            match self.shared.with_handle(number, RawHandle::help) {
                Some(Some(true)) => return true,
                Some(Some(false)) => return self.give_up(number),
                Some(None) | None => {}
            }
        }
    }

    /// A task that may not be run here: it runs all the same, and its value is dropped.
    fn give_up(&self, number: u64) -> bool {
        let mut state = self.shared.state.lock();
        // None: it has ended meanwhile.
        if let Some(handle) = state.handles.remove(&number) {
            let refused = Err(JoinError::WouldDeadlock);
            let user_code = self.shared.keep(state, refused);
            drop(handle);
            user_code.into_iter().for_each(wake);
        }
        true
    }

    /// Blocks until every task has ended, those that are handed over meanwhile too. Their values are
    /// dropped here, a task's own `Err` among them: [`try_wait`](TaskGroup::try_wait).
    ///
    /// ```
    /// use pool_core::Pool;
    ///
    /// let pool = Pool::builder().capacity(2).build()?;
    /// let group = pool.group::<()>();
    /// for number in 0..10 {
    ///     group.submit(move || println!("{number}"))?;
    /// }
    /// group.wait()?; // For these ten, not for the pool's other tasks.
    /// # Ok::<(), Box<dyn std::error::Error + Send + Sync>>(())
    /// ```
    ///
    /// # Errors
    /// The first error, once all have ended.
    #[doc(alias = "join_all")]
    pub fn wait(&self) -> Result<(), JoinError> {
        let mut first = Ok(());
        while let Some(ended) = self.next() {
            first = first.and(ended.map(drop));
        }
        first
    }

    /// As [`wait`](Self::wait), but at most until then by the pool's clock. What has ended by then
    /// was taken.
    ///
    /// # Errors
    /// [`WaitError::TimedOut`]; tasks are left. Inside, the first error.
    pub fn wait_deadline(&self, deadline: Instant) -> Result<Result<(), JoinError>, WaitError> {
        let mut first = Ok(());
        while let Some(ended) = self.next_deadline(deadline)? {
            first = first.and(ended.map(drop));
        }
        Ok(first)
    }

    /// As [`next`](Self::next), for a future's `poll`. Runs nothing in place.
    pub fn poll_next(&self, context: &mut Context<'_>) -> Poll<Option<Result<T, JoinError>>> {
        if self.host.pool_handle().is_forked() {
            return Poll::Ready(Some(Err(JoinError::Forked)));
        }
        if self.cancel_in_time().is_some()
            && let Some(end) = &self.end
        {
            let pool = self.host.pool_handle();
            let has_passed = end.lock().has_passed(&**pool.clock(), context.waker());
            if has_passed {
                self.cancel_in_time(); // Or the clock has no thread for alarms: the next poll looks.
            }
        }
        let waiter = || Some(Waiter::Task(context.waker().clone()));
        self.shared.take_or_wait(waiter)
    }

    /// As [`next`](Self::next), as a future. Dropped, it has taken nothing.
    ///
    /// ```
    /// # futures_lite::future::block_on(async {
    /// # use pool_core::Pool;
    /// # let pool = Pool::builder().capacity(2).build()?;
    /// let group = pool.group();
    /// group.spawn_async(|| 42).await?;
    /// assert_eq!(group.next_async().await.transpose()?, Some(42));
    /// assert!(group.next_async().await.is_none());
    /// # Ok::<(), Box<dyn std::error::Error + Send + Sync>>(())
    /// # })?;
    /// # Ok::<(), Box<dyn std::error::Error + Send + Sync>>(())
    /// ```
    pub fn next_async(&self) -> impl Future<Output = Option<Result<T, JoinError>>> + Send + '_ {
        poll_fn(|context| self.poll_next(context))
    }

    /// As [`wait`](Self::wait), as a future.
    ///
    /// # Errors
    /// The first error, once all have ended.
    pub async fn wait_async(&self) -> Result<(), JoinError> {
        let mut first = Ok(());
        while let Some(ended) = self.next_async().await {
            first = first.and(ended.map(drop));
        }
        first
    }
}

/// Of tasks that may fail.
impl<T: Send + 'static, E: Send + 'static, P: Host> TaskGroup<Result<T, E>, P> {
    /// As [`cancel_on_error`](Self::cancel_on_error), and a task that returns `Err` has failed, too.
    ///
    /// ```
    /// use pool_core::{MapError, Pool};
    ///
    /// let pool = Pool::builder().capacity(1).build()?;
    /// let group = pool.group().cancel_on_failure();
    /// group.spawn(|| "12".parse::<u32>())?;
    /// group.spawn(|| "no".parse::<u32>())?;
    /// group.spawn(|| unreachable!("it is cancelled, or was never taken"))
    ///     .map_err(|refused| refused.without_task())?;
    /// assert!(matches!(group.try_wait(), Err(MapError::Failed(_))));
    /// # Ok::<(), Box<dyn std::error::Error + Send + Sync>>(())
    /// ```
    ///
    /// From Go's `errgroup`.
    #[doc(alias = "errgroup")]
    pub fn cancel_on_failure(self) -> Self {
        self.cancel_if(|ended| !matches!(ended, Ok(Ok(_))))
    }

    /// As [`wait`](Self::wait), and a task's own `Err` is an error.
    ///
    /// ```
    /// use pool_core::{MapError, Pool};
    ///
    /// let pool = Pool::builder().capacity(2).build()?;
    /// let group = pool.group();
    /// group.spawn(|| anyhow::Ok(std::fs::metadata("Cargo.toml")?.len()))?;
    /// group.try_wait().map_err(MapError::into_error)?; // `anyhow::Error`, or a boxed error.
    /// # anyhow::Ok(())
    /// ```
    ///
    /// # Errors
    /// The first, once all have ended.
    pub fn try_wait(&self) -> Result<(), MapError<E>> {
        let mut first = Ok(());
        while let Some(ended) = self.next() {
            first = first.and(judge(ended).map(drop));
        }
        first
    }

    /// As [`try_wait`](Self::try_wait), as a future.
    ///
    /// # Errors
    /// The first, once all have ended.
    pub async fn try_wait_async(&self) -> Result<(), MapError<E>> {
        let mut first = Ok(());
        while let Some(ended) = self.next_async().await {
            first = first.and(judge(ended).map(drop));
        }
        first
    }
}

impl<T: Send + 'static, P: Host> Drop for TaskGroup<T, P> {
    fn drop(&mut self) {
        if self.host.pool_handle().is_forked() {
            // The lock may be held by a thread that is not there.
            mem::forget(Arc::clone(&self.shared));
            return;
        }
        self.cancel();
        let mut state = self.shared.state.lock();
        let handles = mem::take(&mut state.handles);
        // Values and wakers are dropped here, and not by the last task that ends.
        let rest = (mem::take(&mut state.ended), mem::take(&mut state.owners));
        drop(state);
        drop(handles);
        drop_quietly(rest);
    }
}

impl<T: Send + 'static, P: Host> fmt::Debug for TaskGroup<T, P> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("TaskGroup")
            .field("left", &self.len())
            .finish_non_exhaustive()
    }
}

impl<T: Send + 'static, P: Host> OptionsHost for TaskGroup<T, P> {
    fn usual(&self) -> OnFull {
        self.host.on_full()
    }
    fn after(&self, timeout: Duration) -> Option<Instant> {
        self.host.pool_handle().clock().after(timeout)
    }
}

impl<F, T, P> SpawnWithOptions<F> for TaskGroup<T, P>
where
    F: FnOnce() -> T + Send + 'static,
    T: Send + 'static,
    P: Host,
{
    type Handle = ();

    fn spawn_with_options(
        &self,
        task: F,
        options: TaskOptions,
        on_full: OnFull,
    ) -> Result<(), SubmitError<F>> {
        self.adopt(task, Some(options), on_full)
    }
}

impl<F, V, T, P> SubmitWithOptions<F> for TaskGroup<T, P>
where
    F: FnOnce() -> V + Send + 'static,
    T: Send + 'static,
    P: Host,
{
    fn submit_with_options(
        &self,
        task: F,
        options: TaskOptions,
        on_full: OnFull,
    ) -> Result<(), SubmitError<F>> {
        self.submit_with(task, Some(options), on_full)
    }
}

/// What a task that may fail came to.
pub(crate) fn judge<T, E>(ended: Joined<Result<T, E>>) -> Result<T, MapError<E>> {
    match ended {
        Ok(result) => result.map_err(MapError::Failed),
        Err(JoinError::Panicked(panicked)) => Err(MapError::Panicked(panicked)),
        Err(JoinError::Forked) => Err(MapError::Refused(SubmitError::Forked(()))),
        Err(JoinError::WouldDeadlock | JoinError::Discarded) => {
            Err(MapError::Refused(SubmitError::Full(())))
        }
        Err(JoinError::Released | JoinError::Cancelled | JoinError::Expired | JoinError::Taken) => {
            Err(MapError::Refused(SubmitError::Released(())))
        }
    }
}

/// Tasks that belong together.
impl WorkerPool<Closures> {
    /// An empty group, for tasks that are waited for, taken as they end, or cancelled together.
    ///
    /// ```
    /// use pool_core::Pool;
    ///
    /// let pool = Pool::builder().capacity(2).build()?;
    /// let group = pool.group();
    /// group.spawn(|| 1)?;
    /// group.spawn(|| 2)?;
    /// assert_eq!(group.len(), 2);
    /// group.wait()?;
    /// assert!(group.is_empty());
    /// # Ok::<(), Box<dyn std::error::Error + Send + Sync>>(())
    /// ```
    #[doc(alias = "JoinSet")]
    pub fn group<T: Send + 'static>(&self) -> TaskGroup<T> {
        TaskGroup::of(self)
    }
}

#[cfg(all(test, not(anthill_loom)))]
mod tests {
    use crate::Pool;
    use testkit::Gate;

    #[test]
    fn a_task_that_ends_while_its_handle_is_out_leaves_no_handle_behind() {
        let pool = Pool::builder().capacity(1).build();
        let pool = pool.expect("it has a capacity");
        let (group, gate) = (pool.group(), Gate::new());
        let held = gate.clone();
        group.spawn(move || held.wait()).expect("there is room");
        gate.wait_for_arrivals(1);
        let has_ended = || !group.shared.state.lock().ended.is_empty();
        let out = group.shared.with_handle(0, |_| {
            gate.open();
            while !has_ended() {
                std::thread::yield_now();
            }
        });
        assert!(out.is_some() && group.shared.state.lock().handles.is_empty());
    }

    #[test]
    fn nothing_is_kept_of_a_submitted_task_that_has_ended_well() {
        testkit::watchdog(testkit::LIMIT, || {
            let pool = Pool::builder().capacity(1).build();
            let pool = pool.expect("it has a capacity");
            let group = pool.group::<()>();
            for _ in 0..100 {
                group.submit(|| [0_u8; 64]).expect("it waits for room");
            }
            while group.shared.state.lock().left > 0 {
                std::thread::yield_now();
            }
            let state = group.shared.state.lock();
            assert!(state.handles.is_empty() && state.ended.is_empty());
        });
    }
}
