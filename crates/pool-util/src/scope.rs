//! Scopes: tasks that borrow from the caller's stack.
//!
//! The scope's tasks are in a sub-queue (`subqueue.rs`). The scope's owner does not return before the
//! last task has ended. While the owner waits, it runs tasks that have not started, and no other tasks.
//!
//! # Why it is sound
//! A task's closure lives as long as `'scope`, but the threads that run it do not know that lifetime. So
//! neither the closure nor its captures may exist after [`scope()`] has returned.
//!
//! 1. A closure is in the sub-queue, on its way to the thread that calls it, or being called. Its box is
//!    moved, never copied.
//! 2. The call consumes the box. The captures are dropped by the end of the call, whether it returns or
//!    panics. The value is in the handle's promise, which lives no longer than `'scope`, and the call has
//!    dropped its own reference to the promise.
//! 3. A task is [settled](Backlog::settle) only after the call, and `unfinished` counts it until then. A
//!    call that unwinds is settled as well (`SubQueue::run_one`).
//! 4. [`scope()`] returns or unwinds only after a section that found `unfinished` to be 0
//!    ([`Scope::wait`]). It is a plain function: there is no guard that a caller could leak.
//! 5. The pool may keep a drain task longer than the scope. The drain task refers to the sub-queue, which
//!    is empty by then, and to a function without captures.
//! 6. In a forked child a thread of the parent may hold the lock, so closures may remain. They are leaked
//!    there together with the pool (`Core::end`), whose queue refers to them.
//!
//! # User code while a task is unfinished
//! | code | called | a panic |
//! |---|---|---|
//! | the closure, the destructors of its captures and its value | during the call | is the task's |
//! | task hooks, the panic hook, a logger | during the call | is counted |
//! | the pool's clock | for hooks and `start_before`, during the call; between pieces, by a drain task | is the task's; is counted |
//! | the submitter's span and subscriber | during the call | is the task's |
//! | the body | by the owner, before it waits | continues after all tasks have ended |
//! | sources of mappings | by the body | continues after all tasks have ended |
//! | the thread gate, the thread name | when a drain task is submitted | is an error of that submit |
//!
//! No lock is held during these calls, so they may call back into the scope or its pool.

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

/// A task of a scope. Returns its panic unless a handle does.
type Call<'scope> = Box<dyn FnOnce(&TaskContext) -> Option<Payload> + Send + 'scope>;

/// The backlog of a scope's sub-queue.
struct Scoped {
    pending: Pending<Call<'static>>,
    /// Number of tasks that are pending or being called.
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

    fn panicked(payload: Payload, context: &TaskContext) -> Option<Payload> {
        context.count_panicked_piece();
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

/// A scope for tasks that borrow from the caller. Passed to the body of [`PoolExt::scope`].
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
    /// Both lifetimes are invariant, as in `std::thread::scope`: neither may shrink.
    tasks: PhantomData<&'scope mut &'scope ()>,
    env: PhantomData<&'env mut &'env ()>,
}

/// See [`PoolExt::scope`].
pub(crate) fn scope<'env, H, F, T>(host: &H, body: F) -> T
where
    H: PoolExt,
    F: for<'scope> FnOnce(&'scope Scope<'scope, 'env>) -> T,
{
    let scope = Scope::open(Site::of(host.admit()));
    let (mut body, mut result) = (Some(body), None);
    let panic = scope.run(&mut || result = body.take().map(|body| body(&scope)));
    if let Some(payload) = panic {
        // USER CODE: the drop of the body's value. It must not panic during the unwinding.
        drop_quietly((body, result));
        resume_unwind(payload);
    }
    result.unwrap_or_else(|| unreachable!("the body has returned"))
}

impl<'scope, 'env> Scope<'scope, 'env> {
    /// Submits a task without a handle. Never waits and is never refused: if the pool has no room, the
    /// scope's owner runs the task.
    ///
    /// # Cost
    /// One allocation.
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
    /// In a forked child, if the scope was entered before the fork.
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
                    Body::Run => _ = task.take().map(|task: F| task()), // A destructor's panic is the task's.
                    Body::Drop => task = None,
                },
            )
        };
        // Boxes a task without captures without an allocation.
        let call: Call<'scope> = match recorded {
            None => Box::new(move |context| run(None, context, task)),
            recorded => Box::new(move |context| run(recorded, context, task)),
        };
        assert!(
            self.add(call).is_some(),
            "a scope that began before a fork takes no tasks in the child"
        );
    }

    /// Submits a task and returns a handle to its value.
    ///
    /// # Cost
    /// Two allocations.
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

    /// `name` is the type name of the caller's function, which `task` may wrap.
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
        // Without a number the task was not accepted, and the handle's join returns `Forked`.
        let number = self.add(Box::new(call)).unwrap_or(u64::MAX);
        ScopedJoinHandle {
            packet,
            number,
            queue: Arc::clone(&self.queue),
            scope: PhantomData,
        }
    }

    /// The record of a task without options, if the pool records all tasks.
    fn record(&self) -> Option<Arc<Recorded>> {
        let pool = self.queue.pool();
        let records = pool.records_all();
        records.then(|| Recorded::new(TaskOptions::default(), pool.context()))
    }

    /// Maps an iterator on the pool's workers, like [`PoolExt::map`]: lazily, in the order of the items,
    /// with a bounded window. Items, function and results may borrow data that outlives the scope.
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

    /// Like [`map`](Self::map), for a function that returns a `Result`. The first error or panic stops the
    /// mapping.
    ///
    /// The iterator returns the results of the items before the failed one, then the error, then `None`.
    /// Running calls finish. Items that were pulled and have not started are dropped, and the source is
    /// not pulled again.
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

    /// Adds a task and returns its number. In a forked child drops the task and returns `None`.
    fn add(&self, call: Call<'scope>) -> Option<u64> {
        // SAFETY: the two types differ only in a lifetime. The box and its contents are gone when the
        // scope's function returns (points 1 to 4 at the top of the file), and `'scope` outlives that.
        let call = unsafe { mem::transmute::<Call<'scope>, Call<'static>>(call) };
        let mut call = Some(call);
        let mut number = None;
        // A refusal is no error: the owner runs the task if no worker does.
        let _ = self.queue.offer(|scoped| {
            if let Some(call) = call.take() {
                number = Some(scoped.pending.push_back(call));
                scoped.unfinished += 1;
            }
        });
        number
    }

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

    /// Runs the scope's body and waits for its tasks. Returns the payload for the scope to panic with: the
    /// body's, or else the first one of a task without a handle.
    fn run(&self, body: &mut dyn FnMut()) -> Option<Payload> {
        // USER CODE: the scope's body. A panic continues after all tasks have ended.
        let result = guarded(body);
        let panic = self.wait();
        let Err(payload) = result else { return panic };
        if let Some(second) = panic {
            // USER CODE: the drop of a payload. Not during the unwinding, because it may panic.
            discard(second);
        }
        Some(payload)
    }

    /// Runs the tasks that have not started and waits for the others. Returns the first panic.
    ///
    /// Returns only when no task is unfinished, and does not unwind, because `'scope` ends after it.
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
                // The running tasks, and the data they borrow, are in the parent process.
                Ok(Err(_)) if !self.queue.process().is_current() => return None,
                Ok(Err(_)) => unreachable!("an owner that helps needs no drain task"),
                // Pieces do not unwind, so submitting a drain task did: submit no more of them.
                Err(payload) => {
                    discard(payload);
                    helps = Helps::Alone;
                }
            }
        }
    }
}

/// The value of a scope's task, and the waiter of its handle.
struct Packet<T>(Mutex<Promise<T>>);

impl<T> Packet<T> {
    fn new() -> Arc<Self> {
        Arc::new(Self(Mutex::new(Promise::new())))
    }

    /// Publishes the outcome. `value` is that of a task that returned.
    fn settle(&self, ended: Ended, value: Option<T>, context: &TaskContext) {
        let (joined, unneeded) = match (ended.error(context), value) {
            (None, Some(value)) => (Ok(value), None),
            (None, None) => unreachable!("it returned a value"),
            (Some(error), value) => (Err(error), value),
        };
        let mut promise = self.0.lock();
        if promise.is_detached() {
            drop(promise);
            // USER CODE: the drop of a detached value. Before the task is settled, because the value may borrow.
            drop_quietly((joined, unneeded));
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
        // USER CODE: the drop of a value that no handle gets. Before the task is settled, as above.
        drop_quietly(unneeded);
    }
}

impl<T> Promised<T> for Packet<T> {
    fn take_or_wait(&self, waiter: Option<Waiter>) -> Option<Joined<T>> {
        let mut promise = self.0.lock();
        let (value, unneeded) = promise.take_or_wait(waiter);
        drop(promise);
        // USER CODE: the drop of a waker. After the unlock.
        drop_quietly(unneeded);
        value
    }
}

/// Handle to the value of a scope's task. Dropping it detaches the task; the scope still waits for it.
#[must_use = "dropping a handle detaches its task; `submit` is cheaper if nothing waits for it"]
pub struct ScopedJoinHandle<'scope, T> {
    packet: Arc<Packet<T>>,
    /// Number of the task in the sub-queue.
    number: u64,
    queue: Arc<SubQueue<Scoped>>,
    scope: PhantomData<&'scope ()>,
}

impl<T> ScopedJoinHandle<'_, T> {
    /// Blocks until the task has ended, and returns its value. Runs the task on the calling thread if it
    /// has not started; runs no other task.
    ///
    /// So joins nest as calls do, on every thread, and the pool's
    /// [nesting limit](pool_core::Builder::nesting_limit) does not apply. A join inside 128 others on one stack
    /// runs its task on the stack of another thread, which is started for it and is no worker. A recursion
    /// overflows the stack after more than 4,000 levels.
    ///
    /// # Errors
    /// [`JoinError::Panicked`] if the task panicked. [`JoinError::Cancelled`] and [`JoinError::Expired`] for
    /// tasks with [options](Scope::task). [`JoinError::Forked`] in a forked child, if the scope was entered
    /// before the fork.
    pub fn join(self) -> Result<T, JoinError> {
        if !self.is_finished() {
            self.queue.start(self.number);
        }
        self.queue.process().check(JoinError::Forked)?;
        let joined = join(&*self.packet, &**self.queue.pool().clock(), None);
        joined.unwrap_or_else(|| unreachable!("a wait without a limit has an outcome"))
    }

    /// Returns whether [`join`](Self::join) returns without waiting: the task has ended, or the process
    /// was forked.
    pub fn is_finished(&self) -> bool {
        !self.queue.process().is_current() || self.packet.0.lock().is_kept()
    }
}

impl SubQueue<Scoped> {
    /// Runs the task on this thread if it has not started.
    fn start(self: &Arc<Self>, number: u64) {
        if !self.help(|scoped| scoped.start_that(number)) {
            // This thread is about to sleep, and a full pool may have refused a drain task before.
            let _ = self.offer(|_| ());
        }
    }
}

impl<T> Drop for ScopedJoinHandle<'_, T> {
    fn drop(&mut self) {
        if self.queue.process().is_current() {
            let unneeded = self.packet.0.lock().detach();
            // USER CODE: the drop of the value or of a waker. After the unlock.
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
