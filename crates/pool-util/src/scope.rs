//! Scopes: tasks that borrow from the caller's stack.
//!
//! The scope's tasks lie in a sub-queue (`subqueue.rs`), and its owner does not return before the
//! last of them has ended. While it waits it runs those that have not started, and no others.
//!
//! # Why it is sound
//! A task's closure lives as long as `'scope`, and is handed to threads that know of no `'scope`.
//! So no copy of it, nor anything that it holds, may be left when [`scope()`] returns.
//!
//! 1. A closure is in the sub-queue, or it is being called: the box is moved, and there is one.
//! 2. A call consumes the box. Its captures are gone when the call has ended, by return or panic;
//!    its value went to its handle's promise, which lives no longer than `'scope`, and the call has
//!    given up its own reference to that.
//! 3. Only after the call a task is [settled](Backlog::settle), and `unfinished` counts it until
//!    then. A call that unwinds is settled, too (`SubQueue::run_one`).
//! 4. [`scope()`] returns, or unwinds, only after a section that found `unfinished` 0
//!    ([`Scope::wait`]). It is a plain function: there is no guard that a caller could forget.
//! 5. What the pool may keep for longer, a drain task that has not run, refers to the sub-queue, by
//!    then empty, and to a function without captures.
//! 6. In a forked child the lock may be held by a thread that is not there, so closures may stay.
//!    They are leaked there, as the pool is (`Core::end`), whose queue refers to them.
//!
//! # User code while a task is unfinished
//! | code | where it is called | its panic |
//! |---|---|---|
//! | the closure, its captures' and its value's destructors | inside of the call | is the task's |
//! | task hooks, the panic hook, a logger | inside of the call | is counted |
//! | the pool's clock | for hooks and `start_before`, inside of the call; between pieces, by a drain task | is the task's; is counted |
//! | the submitter's span and subscriber | inside of the call | is the task's |
//! | the body | by the owner, before it waits | goes on when the tasks have ended |
//! | sources of mappings | by the body | as above |
//! | a thread gate, the name of a thread | as a drain task is submitted | is an error of that submit |
//!
//! No lock is held meanwhile, so each may call back into the scope or its pool.

use std::any::type_name;
use std::marker::PhantomData;
use std::panic::resume_unwind;
use std::sync::Arc;
use std::{fmt, mem};

use pool_core::JoinError;
use pool_core::internals::{Joined, Promise, Promised, Recorded, TaskContext, TaskOptions, join};
use sync_shim::Mutex;
use sync_shim::foreign::{Payload, discard, drop_quietly, guarded, wake};
use sync_shim::waiter::Waiter;

use crate::PoolExt;
use crate::subqueue::{Backlog, Helps, Site, SubQueue};

mod body;
mod map;
mod pending;
mod task_builder;

use body::{Body, Ended};
pub use map::ScopedMap;
use pending::Pending;

/// A task of a scope. What comes back is what it panicked with, if there is no handle to tell.
type Call<'scope> = Box<dyn FnOnce(&TaskContext) -> Option<Payload> + Send + 'scope>;

/// What a scope has in its sub-queue.
struct Scoped {
    pending: Pending<Call<'static>>,
    /// Pending, or being called.
    unfinished: usize,
    /// The first panic of a task without a handle.
    panic: Option<Payload>,
}

impl Scoped {
    fn start_that(&mut self, number: u64) -> Option<((), Call<'static>)> {
        self.pending.remove(number).map(|call| ((), call))
    }
}

impl Backlog for Scoped {
    type Piece = Call<'static>;
    type Number = ();
    type Done = Option<Payload>;
    type Garbage = Option<Payload>;

    fn pending(&self) -> usize {
        self.pending.len()
    }

    fn start(&mut self) -> Option<((), Call<'static>)> {
        self.pending.pop_front().map(|call| ((), call))
    }

    fn panicked(payload: Payload, _: &TaskContext) -> Option<Payload> {
        Some(payload)
    }

    fn settle(&mut self, (): (), panic: Option<Payload>) -> Option<Payload> {
        self.unfinished -= 1;
        if self.panic.is_none() {
            self.panic = panic;
            return None;
        }
        panic
    }

    fn is_ready(&self) -> bool {
        self.unfinished == 0
    }
}

/// Where tasks that borrow are handed over. See [`WorkerPool::scope`].
///
/// ```
/// use pool_core::Pool;
/// use pool_util::PoolExt;
///
/// let pool = Pool::builder().capacity(2).build()?;
/// let words = ["ant", "hill"];
/// let lengths = pool.scope(|scope| {
///     let handles = words.each_ref().map(|word| scope.spawn(|| word.len())); // Borrows.
///     handles.map(|handle| handle.join().unwrap_or(0))
/// });
/// assert_eq!(lengths, [3, 4]);
/// # Ok::<(), Box<dyn std::error::Error + Send + Sync>>(())
/// ```
pub struct Scope<'scope, 'env: 'scope> {
    queue: Arc<SubQueue<Scoped>>,
    /// Both invariant, as in the standard library: neither may shrink to a shorter borrow.
    tasks: PhantomData<&'scope mut &'scope ()>,
    env: PhantomData<&'env mut &'env ()>,
}

/// Runs `body` with a scope of that pool; see [`WorkerPool::scope`].
pub(crate) fn scope<'env, H, F, T>(host: &H, body: F) -> T
where
    H: PoolExt,
    F: for<'scope> FnOnce(&'scope Scope<'scope, 'env>) -> T,
{
    let scope = Scope::open(Site::of(host.admit()));
    let (mut body, mut result) = (Some(body), None);
    let panic = scope.run(&mut || result = body.take().map(|body| body(&scope)));
    if let Some(payload) = panic {
        drop_quietly((body, result));
        resume_unwind(payload);
    }
    result.unwrap_or_else(|| unreachable!("the body has returned"))
}

impl<'scope, 'env> Scope<'scope, 'env> {
    /// Hands a task over, to be run and forgotten. Never waits, and is never refused: what the pool
    /// has no room for is run by the scope's owner at its end.
    ///
    /// Costs one allocation.
    ///
    /// ```
    /// # use pool_core::Pool;
    /// # use pool_util::PoolExt;
    /// # let pool = Pool::builder().capacity(2).build()?;
    /// let mut halves = [vec![3, 1], vec![4, 2]];
    /// pool.scope(|scope| {
    ///     for half in &mut halves {
    ///         scope.submit(|| half.sort_unstable());
    ///     }
    /// }); // All have ended.
    /// assert_eq!(halves, [[1, 3], [2, 4]]);
    /// # Ok::<(), Box<dyn std::error::Error + Send + Sync>>(())
    /// ```
    ///
    /// # Panics
    /// In a forked child, if the scope began before the fork: it does not wait there.
    pub fn submit<F, T>(&'scope self, task: F)
    where
        F: FnOnce() -> T + Send + 'scope,
    {
        self.submit_as(self.record(), task);
    }

    fn submit_as<F, T>(&self, recorded: Option<Arc<Recorded>>, task: F)
    where
        F: FnOnce() -> T + Send + 'scope,
    {
        let run = |recorded, context: &TaskContext, task| {
            let mut task = Some(task);
            body::run_detached(
                type_name::<F>(),
                recorded,
                context,
                &mut |what| match what {
                    Body::Run => _ = task.take().map(|task: F| task()), // Dropped as a part of the task.
                    Body::Drop => task = None,
                },
            )
        };
        // A closure without captures costs no allocation.
        let call: Call<'scope> = match recorded {
            None => Box::new(move |context| run(None, context, task)),
            recorded => Box::new(move |context| run(recorded, context, task)),
        };
        assert!(
            self.add(call).is_some(),
            "a scope that began before a fork takes no tasks in the child"
        );
    }

    /// Hands a task over and returns a handle to its value.
    ///
    /// Costs two allocations.
    ///
    /// ```
    /// # use pool_core::Pool;
    /// # use pool_util::PoolExt;
    /// # let pool = Pool::builder().capacity(2).build()?;
    /// let text = String::from("borrowed");
    /// let length = pool.scope(|scope| scope.spawn(|| text.len()).join())?;
    /// assert_eq!(length, 8);
    /// # Ok::<(), Box<dyn std::error::Error + Send + Sync>>(())
    /// ```
    pub fn spawn<F, T>(&'scope self, task: F) -> ScopedJoinHandle<'scope, T>
    where
        F: FnOnce() -> T + Send + 'scope,
        T: Send + 'scope,
    {
        self.spawn_as(type_name::<F>(), self.record(), task)
    }

    /// By the name of the caller's function, where the task is made around that.
    fn spawn_as<F, T>(
        &self,
        name: &'static str,
        recorded: Option<Arc<Recorded>>,
        task: F,
    ) -> ScopedJoinHandle<'scope, T>
    where
        F: FnOnce() -> T + Send + 'scope,
        T: Send + 'scope,
    {
        let packet = Packet::new();
        let ours = Arc::clone(&packet);
        let call = move |context: &TaskContext| {
            let (mut task, mut value) = (Some(task), None);
            let ended = body::run(name, recorded, context, &mut |what| match what {
                Body::Run => value = task.take().map(|task| task()),
                Body::Drop => task = None,
            });
            ours.settle(ended, value, context);
            None
        };
        // Without a number it has not been taken, and its handle says that the process was forked.
        let number = self.add(Box::new(call)).unwrap_or(u64::MAX);
        ScopedJoinHandle {
            packet,
            number,
            queue: Arc::clone(&self.queue),
            scope: PhantomData,
        }
    }

    /// The record of a task that was given nothing, if each is to have one.
    fn record(&self) -> Option<Arc<Recorded>> {
        let pool = self.queue.pool();
        let records = pool.records_all();
        records.then(|| Recorded::new(TaskOptions::default(), pool))
    }

    /// Calls `map` with each item and gives the results in the items' order, as
    /// [`WorkerPool::map`] does: lazy, with a bounded number of items ahead. Items, function and
    /// results may borrow what outlives the scope.
    ///
    /// ```
    /// use pool_core::Pool;
    /// use pool_util::PoolExt;
    ///
    /// let pool = Pool::builder().capacity(2).build()?;
    /// let text = String::from("bounded blocking work");
    /// let lengths: Result<Vec<usize>, _> =
    ///     pool.scope(|scope| scope.map(text.split(' '), str::len).collect());
    /// assert_eq!(lengths?, [7, 8, 4]);
    /// # Ok::<(), Box<dyn std::error::Error + Send + Sync>>(())
    /// ```
    pub fn map<I, F, T>(&'scope self, items: I, map: F) -> ScopedMap<'scope, 'env, I::IntoIter, T>
    where
        I: IntoIterator<Item: Send + 'scope>,
        F: Fn(I::Item) -> T + Send + Sync + 'scope,
        T: Send + 'scope,
    {
        ScopedMap::new(self, false, items.into_iter(), move |item| Ok(map(item)))
    }

    /// As [`map`](Self::map), with a function that may fail. The first error, or panic, ends the mapping:
    /// the results before it come first, then the error, then `None`. What runs ends; items that were
    /// pulled and have not started are dropped, and the source is not pulled any more.
    ///
    /// ```
    /// use pool_core::Pool;
    /// use pool_util::PoolExt;
    ///
    /// let pool = Pool::builder().capacity(2).build()?;
    /// let text = String::from("1 2 three 4");
    /// let numbers: Result<Vec<i32>, _> =
    ///     pool.scope(|scope| scope.try_map(text.split(' '), str::parse).collect());
    /// assert!(numbers.is_err());
    /// # Ok::<(), Box<dyn std::error::Error + Send + Sync>>(())
    /// ```
    pub fn try_map<I, F, T, E>(
        &'scope self,
        items: I,
        map: F,
    ) -> ScopedMap<'scope, 'env, I::IntoIter, T, E>
    where
        I: IntoIterator<Item: Send + 'scope>,
        F: Fn(I::Item) -> Result<T, E> + Send + Sync + 'scope,
        T: Send + 'scope,
        E: Send + 'scope,
    {
        ScopedMap::new(self, true, items.into_iter(), map)
    }

    /// Hands a task over: its number. `None`, and it is dropped, in a forked child.
    fn add(&self, call: Call<'scope>) -> Option<u64> {
        // SAFETY: the two types differ in a lifetime alone. Nothing of the box is left when the
        // scope's function returns (1 to 4 of the module's reasons), which `'scope` outlives.
        let call = unsafe { mem::transmute::<Call<'scope>, Call<'static>>(call) };
        let mut call = Some(call);
        let mut number = None;
        // Released or not: its owner runs it, if no worker does.
        let _ = self.queue.offer(|scoped| {
            if let Some(call) = call.take() {
                number = Some(scoped.pending.push_back(call));
                scoped.unfinished += 1;
            }
        });
        number
    }

    /// A scope of that pool.
    fn open(site: Site) -> Self {
        let backlog = Scoped {
            pending: Pending::new(),
            unfinished: 0,
            panic: None,
        };
        Self {
            queue: SubQueue::new(site, backlog, Box::new(|call, context| call(context))),
            tasks: PhantomData,
            env: PhantomData,
        }
    }

    /// Runs the scope's body and waits for its tasks. What it is to panic with: the body's panic, or
    /// the first one of a task without a handle.
    fn run(&self, body: &mut dyn FnMut()) -> Option<Payload> {
        let result = guarded(body);
        let panic = self.wait();
        let Err(payload) = result else { return panic };
        if let Some(second) = panic {
            discard(second); // Not by the unwinding: its destructor may panic, too.
        }
        Some(payload)
    }

    /// Runs what has not started, and waits for the rest. The first panic.
    ///
    /// Returns only when no task is left, and does not unwind: `'scope` ends with it.
    fn wait(&self) -> Option<Payload> {
        let mut helps = Helps::Always;
        loop {
            let waited = guarded(|| {
                self.queue.wait(helps, None, |scoped| {
                    (scoped.unfinished == 0).then(|| scoped.panic.take())
                })
            });
            match waited {
                Ok(Ok(panic)) => return panic,
                // What ran stayed in the other process, and so did what it refers to.
                Ok(Err(_)) if !self.queue.process().is_current() => return None,
                Ok(Err(_)) => unreachable!("an owner that helps needs no drain task"),
                // Not of a piece: those are settled. So no drain task is submitted any more.
                Err(payload) => {
                    discard(payload);
                    helps = Helps::Alone;
                }
            }
        }
    }
}

/// The value of a scope's task, and its waiter.
struct Packet<T>(Mutex<Promise<T>>);

impl<T> Packet<T> {
    fn new() -> Arc<Self> {
        Arc::new(Self(Mutex::new(Promise::new())))
    }

    /// The task has ended so, and left that value if it returned.
    fn settle(&self, ended: Ended, value: Option<T>, context: &TaskContext) {
        let (joined, unneeded) = match (ended.error(context), value) {
            (None, Some(value)) => (Ok(value), None),
            (None, None) => unreachable!("it returned a value"),
            (Some(error), value) => (Err(error), value),
        };
        let mut promise = self.0.lock();
        if promise.is_detached() {
            drop(promise);
            drop_quietly((joined, unneeded)); // A part of its task.
            return;
        }
        promise.fulfil(joined);
        let waiter = promise.take_waiter();
        drop(promise);
        match waiter {
            Some(Waiter::Thread(parker)) => parker.unpark(),
            Some(Waiter::Task(waker)) => wake(waker),
            None => {}
        }
        drop_quietly(unneeded);
    }
}

impl<T> Promised<T> for Packet<T> {
    fn take_or_wait(&self, waiter: Option<Waiter>) -> Option<Joined<T>> {
        let mut promise = self.0.lock();
        let (value, unneeded) = promise.take_or_wait(waiter);
        drop(promise);
        drop_quietly(unneeded);
        value
    }
}

/// Waits for a task of a scope, and takes its value. Dropping it detaches: the scope waits for the
/// task all the same.
#[must_use = "dropping a handle detaches its task; `submit` is cheaper if nothing waits for it"]
pub struct ScopedJoinHandle<'scope, T> {
    packet: Arc<Packet<T>>,
    /// The task's, among those of the scope.
    number: u64,
    queue: Arc<SubQueue<Scoped>>,
    scope: PhantomData<&'scope ()>,
}

impl<T> ScopedJoinHandle<'_, T> {
    /// Blocks until the task has ended. If it has not started, it is run here; no other task is.
    ///
    /// # Errors
    /// [`JoinError::Panicked`]; or [`JoinError::WouldDeadlock`] on a worker of the pool, at its
    /// [nesting limit](crate::Builder::nesting_limit), if the task has not started: the scope's owner
    /// runs it. [`JoinError::Forked`] in a forked child, if the scope began before the fork.
    pub fn join(self) -> Result<T, JoinError> {
        if !self.is_finished() {
            self.queue.start(self.number)?;
        }
        self.queue.process().check(JoinError::Forked)?;
        let joined = join(&*self.packet, &**self.queue.pool().clock(), None);
        joined.unwrap_or_else(|| unreachable!("a wait without a limit has an outcome"))
    }

    /// Whether the task has ended; or a join says at once why it does not wait for that.
    pub fn is_finished(&self) -> bool {
        !self.queue.process().is_current() || self.packet.0.lock().is_kept()
    }
}

impl SubQueue<Scoped> {
    /// Runs that task here, if it has not started. If it has, the others are left to the workers.
    ///
    /// # Errors
    /// [`JoinError::WouldDeadlock`]: it has not, and may not be run here.
    fn start(self: &Arc<Self>, number: u64) -> Result<(), JoinError> {
        let pool = &self.pool();
        if pool.is_own_worker() && !pool.may_nest() {
            let waits = self.look(|scoped| scoped.pending.contains(number));
            return if waits {
                Err(JoinError::WouldDeadlock)
            } else {
                Ok(())
            };
        }
        if !self.help(|scoped| scoped.start_that(number)) {
            // A full pool may have refused a drain task before.
            let _ = self.offer(|_| ());
        }
        Ok(())
    }
}

impl<T> Drop for ScopedJoinHandle<'_, T> {
    fn drop(&mut self) {
        if self.queue.process().is_current() {
            let unneeded = self.packet.0.lock().detach();
            drop_quietly(unneeded);
        }
    }
}

impl fmt::Debug for Scope<'_, '_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Scope(..)")
    }
}

impl<T> fmt::Debug for ScopedJoinHandle<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ScopedJoinHandle")
            .field("finished", &self.is_finished())
            .finish()
    }
}

#[cfg(all(test, not(anthill_loom)))]
mod tests {
    use std::panic::{AssertUnwindSafe, catch_unwind};
    use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};

    use super::*;
    use crate::subqueue::tests::site_that_panics;

    #[testkit::test]
    fn a_scope_runs_all_its_tasks_though_its_wait_unwinds() {
        let (scope, ran) = (Scope::open(site_that_panics()), AtomicUsize::new(0));
        let submit = || scope.submit(|| ran.fetch_add(1, SeqCst));
        let mut body = || {
            let first = catch_unwind(AssertUnwindSafe(submit));
            assert!(
                first.is_err(),
                "so does the wait, which submits a drain task as this does"
            );
            submit();
        };
        assert!(scope.run(&mut body).is_some());
        assert_eq!(ran.load(SeqCst), 2);
    }
}
