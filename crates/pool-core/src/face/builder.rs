//! The builder of pools.

use std::fmt;
use std::io;
use std::marker::PhantomData;
use std::sync::Arc;
use std::time::Duration;

use sync_shim::atomic::AtomicU64;
use sync_shim::{Clock, unique_id};

use crate::config::{
    Capacity, Config, DiscardHook, DiscardedTask, DropPolicy, Hook, OnFull, QueueDepth, ThreadGate,
    ThreadName, UNLIMITED, WithinWorker, WorkerWrap, default_clock,
};
use crate::engine::core::{Core, Installed, levels};
use crate::engine::life::Discarding;
use crate::engine::runner::Runner;
use crate::engine::worker;
use crate::engine::worker_state::WorkerState;
use crate::error::BuildError;
use crate::face::pool::WorkerPool;
use crate::sched::load::LoadStats;
use crate::sister::pool_handle::PoolHandle;
use crate::task::current::StopRequest;
use crate::task::erased::Task;
use crate::task::hook::TaskHook;
use crate::task::options::{TaskOptions, TaskRecord};
use crate::task::run::{
    Around, ErasedFunction, Hooked, PanicHook, Recorder, TaskContext, TaskPanic,
};

/// Default idle time after which a worker ends.
pub const DEFAULT_KEEP_ALIVE: Duration = Duration::from_secs(10);
/// Default maximum number of tasks that run in place inside one another.
pub const DEFAULT_NESTING_LIMIT: u32 = 64;
/// Default maximum number of workers that replace tasks inside [`blocking`](crate::blocking).
pub const DEFAULT_MAX_COMPENSATION: usize = 16;
/// Default name of a pool.
pub const DEFAULT_NAME: &str = "pool";

/// Builder of a pool. Made by `Pool::builder` and `FuncPool::builder`.
///
/// | setting | default |
/// |---|---|
/// | `capacity` | none: either `capacity` or `unlimited` is required |
/// | `queue_depth` | 0: a task is accepted only if a worker is free for it or may be started |
/// | `max_waiting` | no limit |
/// | `on_full` | `Wait` |
/// | `nonblocking` | `false` |
/// | `keep_alive` | 10 seconds |
/// | `min_workers`, `prestart` | 0 |
/// | `max_compensation` | 16 |
/// | `preallocate`, `start_paused`, `priorities` | `false` |
/// | `within_worker` | `RunInPlace` |
/// | `nesting_limit` | 64 |
/// | `drop_policy` | `Drain` |
/// | `name` | `pool` |
/// | `stack_size` | the platform's |
/// | hooks, `thread_gate`, `worker_wrap` | none; a `discard_hook` is required if `on_full` discards |
/// | `thread_name` | the pool's name, with a number |
/// | `clock` | the monotonic clock |
///
/// ```
/// use pool_core::{DropPolicy, Pool};
/// use std::time::Duration;
///
/// let pool = Pool::builder()
///     .name("thumbnails")
///     .capacity(8)
///     .queue_depth(64)
///     .keep_alive(Duration::from_secs(30))
///     .drop_policy(DropPolicy::Join)
///     .build()?;
/// assert_eq!(pool.name(), "thumbnails");
/// # Ok::<(), Box<dyn std::error::Error + Send + Sync>>(())
/// ```
#[must_use = "a builder does nothing until `build` is called"]
#[derive(Clone)]
pub struct Builder<R> {
    /// The function of a typed pool.
    function: Option<ErasedFunction>,
    runs: PhantomData<fn() -> R>,
    name: String,
    capacity: Option<Capacity>,
    max_compensation: usize,
    depth: QueueDepth,
    max_waiting: Option<usize>,
    on_full: OnFull,
    discard_hook: Option<Arc<DiscardHook>>,
    keep_alive: Option<Duration>,
    min_workers: usize,
    prestart: usize,
    preallocate: bool,
    start_paused: bool,
    within_worker: WithinWorker,
    nesting_limit: u32,
    stack_size: Option<usize>,
    installed: Installed,
    panic_hook: Option<Arc<PanicHook>>,
    task_hook: Option<Arc<dyn Around>>,
    recorder: Option<Recorder>,
    #[cfg(feature = "tracing")]
    carries_span: bool,
    thread_name: Option<Arc<ThreadName>>,
    worker_wrap: Option<Arc<WorkerWrap>>,
    start_hook: Option<Arc<Hook>>,
    stop_hook: Option<Arc<Hook>>,
    thread_gate: Option<Arc<ThreadGate>>,
    clock: Option<Arc<dyn Clock>>,
}

impl<R: Runner> Builder<R> {
    pub(crate) fn new(function: Option<ErasedFunction>) -> Self {
        Self {
            function,
            runs: PhantomData,
            name: DEFAULT_NAME.to_owned(),
            capacity: None,
            max_compensation: DEFAULT_MAX_COMPENSATION,
            depth: QueueDepth::Limited(0),
            max_waiting: None,
            on_full: OnFull::Wait(None),
            discard_hook: None,
            keep_alive: Some(DEFAULT_KEEP_ALIVE),
            min_workers: 0,
            prestart: 0,
            preallocate: false,
            start_paused: false,
            within_worker: WithinWorker::default(),
            nesting_limit: DEFAULT_NESTING_LIMIT,
            stack_size: None,
            installed: Installed::new(),
            panic_hook: None,
            task_hook: None,
            recorder: None,
            #[cfg(feature = "tracing")]
            carries_span: false,
            thread_name: None,
            worker_wrap: None,
            start_hook: None,
            stop_hook: None,
            thread_gate: None,
            clock: None,
        }
    }

    pub(crate) fn worker_state(mut self, states: Arc<dyn WorkerState>) -> Self {
        self.installed.worker_state = Some(states);
        self
    }

    /// Sets the maximum number of live workers. Required, unless the pool is
    /// [`unlimited`](Self::unlimited).
    ///
    /// ```
    /// use pool_core::{Capacity, Pool};
    ///
    /// let pool = Pool::builder().capacity(4).build()?;
    /// assert_eq!(pool.capacity(), Capacity::Limited(4.try_into()?));
    /// # Ok::<(), Box<dyn std::error::Error + Send + Sync>>(())
    /// ```
    #[doc(alias = "max_blocking_threads")]
    #[doc(alias = "num_threads")]
    #[doc(alias = "NewPool")]
    pub fn capacity(mut self, capacity: impl Into<Capacity>) -> Self {
        self.capacity = Some(capacity.into());
        self
    }

    /// Allows as many workers as there are tasks: the pool is never full.
    #[doc(alias = "NewPool")]
    pub fn unlimited(self) -> Self {
        self.capacity(Capacity::Unlimited)
    }

    /// Sets how many accepted tasks may wait for a worker beyond the capacity.
    ///
    /// ```
    /// use pool_core::Pool;
    ///
    /// let pool = Pool::builder().capacity(1).queue_depth(2).start_paused(true).build()?;
    /// for number in 0..3 { // One for the worker, two behind it.
    ///     pool.try_submit(move || println!("{number}"))?;
    /// }
    /// assert!(pool.try_submit(|| ()).is_err_and(|refused| refused.is_full()));
    /// # Ok::<(), Box<dyn std::error::Error + Send + Sync>>(())
    /// ```
    #[doc(alias = "backpressure")]
    pub fn queue_depth(mut self, depth: impl Into<QueueDepth>) -> Self {
        self.depth = depth.into();
        self
    }

    /// Sets how many additional workers may replace tasks inside [`blocking`](crate::blocking); 16 by
    /// default. The pool then has at most capacity plus this number of threads that run tasks, and
    /// room for that many more tasks. Costs nothing while no task is inside `blocking`. With 0 the
    /// capacity is a strict limit, and `blocking` has no effect.
    pub fn max_compensation(mut self, workers: usize) -> Self {
        self.max_compensation = workers;
        self
    }

    /// Sets how many threads and futures may wait for room; further ones are refused. With zero no
    /// call waits. Due tasks of a scheduled pool, mappings and scopes also stand in the wait queue but do not count.
    ///
    /// ```
    /// use pool_core::Pool;
    ///
    /// let pool = Pool::builder().capacity(1).max_waiting(0).build()?; // No caller ever waits.
    /// let permit = pool.reserve()?;
    /// assert!(pool.submit(|| ()).is_err_and(|refused| refused.is_full()));
    /// drop(permit);
    /// # Ok::<(), Box<dyn std::error::Error + Send + Sync>>(())
    /// ```
    #[doc(alias = "WithMaxBlockingTasks")]
    pub fn max_waiting(mut self, most: usize) -> Self {
        self.max_waiting = Some(most);
        self
    }

    /// Makes `submit` and `spawn` refuse at a full pool instead of waiting. Shorthand for
    /// [`on_full`](Self::on_full).
    #[doc(alias = "WithNonblocking")]
    pub fn nonblocking(self, nonblocking: bool) -> Self {
        self.on_full(if nonblocking {
            OnFull::Refuse
        } else {
            OnFull::Wait(None)
        })
    }

    /// Sets what `submit` and `spawn` do at a full pool, and other calls that do not choose it
    /// themselves: see the table of [`OnFull`].
    ///
    /// ```
    /// use pool_core::{JoinError, OnFull, Pool};
    /// use std::sync::mpsc;
    ///
    /// let (sender, receiver) = mpsc::channel();
    /// let (starts, started) = mpsc::channel();
    /// let pool = Pool::builder().capacity(1).queue_depth(1).on_full(OnFull::DiscardOldest);
    /// let pool = pool.discard_hook(|task| println!("discarded: {}", task.task())).build()?;
    /// pool.submit(move || (starts.send(()), receiver.recv()))?;
    /// started.recv()?; // No longer queued.
    /// let stale = pool.spawn(|| 1)?;
    /// let fresh = pool.spawn(|| 2)?; // No room while `stale` is queued.
    /// assert!(matches!(stale.join(), Err(JoinError::Discarded)));
    /// sender.send(())?;
    /// assert_eq!(fresh.join()?, 2);
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    #[doc(alias = "load_shed")]
    #[doc(alias = "RejectedExecutionHandler")]
    #[doc(alias = "setRejectedExecutionHandler")]
    pub fn on_full(mut self, policy: OnFull) -> Self {
        self.on_full = policy;
        self
    }

    /// Sets a hook for each task that a full pool discards. It is called on the thread whose call
    /// discards the task, before the captures are dropped, with no lock held. A panic of the hook
    /// is counted and ignored.
    ///
    /// A hook that submits to its own full pool discards again, recursively. At the [nesting
    /// limit](Self::nesting_limit) the submit is refused with
    /// [`SubmitError::Full`](crate::SubmitError::Full).
    ///
    /// Required if [`on_full`](Self::on_full) discards: no task is lost silently.
    #[doc(alias = "rejectedExecution")]
    pub fn discard_hook(
        mut self,
        hook: impl Fn(&DiscardedTask<'_>) + Send + Sync + 'static,
    ) -> Self {
        self.discard_hook = Some(Arc::new(hook));
        self.installed.discarding = Some(Discarding::ALL);
        self
    }

    /// Sets how long a worker may idle before it ends; `None` for no limit (ants' `DisablePurge`).
    ///
    /// ```
    /// use pool_core::Pool;
    /// use std::time::Duration;
    ///
    /// let bursts = Pool::builder().capacity(64).keep_alive(Duration::from_millis(100)).build()?;
    /// let steady = Pool::builder().capacity(4).keep_alive(None).build()?; // Workers stay.
    /// # drop((bursts, steady));
    /// # Ok::<(), Box<dyn std::error::Error + Send + Sync>>(())
    /// ```
    #[doc(alias = "thread_keep_alive")]
    #[doc(alias = "WithExpiryDuration")]
    #[doc(alias = "WithDisablePurge")]
    pub fn keep_alive(mut self, keep_alive: impl Into<Option<Duration>>) -> Self {
        self.keep_alive = keep_alive.into();
        self
    }

    /// Starts this many workers immediately; they never expire.
    pub fn min_workers(mut self, workers: usize) -> Self {
        self.min_workers = workers;
        self.installed.start_ahead = Core::start_ahead;
        self
    }

    /// Starts this many workers immediately. Unlike `min_workers`, they can expire.
    ///
    /// ```
    /// use pool_core::Pool;
    ///
    /// let pool = Pool::builder().capacity(4).min_workers(2).prestart(2).build()?;
    /// assert_eq!(pool.running(), 2); // Before the first task, and for as long as the pool is open.
    /// # Ok::<(), Box<dyn std::error::Error + Send + Sync>>(())
    /// ```
    pub fn prestart(mut self, workers: usize) -> Self {
        self.prestart = workers;
        self.installed.start_ahead = Core::start_ahead;
        self
    }

    /// Preallocates a ring for the idle workers; tasks go to the worker that has idled longest.
    ///
    /// Under steady light load no worker then idles long enough to expire, so a large pool hardly
    /// shrinks. Without this setting, recently used workers are reused and the others expire.
    #[doc(alias = "WithPreAlloc")]
    pub fn preallocate(mut self, preallocate: bool) -> Self {
        self.preallocate = preallocate;
        self
    }

    /// Builds the pool [paused](WorkerPool::pause): it accepts tasks but starts none until it is
    /// [resumed](WorkerPool::resume).
    pub fn start_paused(mut self, paused: bool) -> Self {
        self.start_paused = paused;
        self
    }

    /// Starts queued tasks by [priority](crate::TaskBuilder::priority), and in order of acceptance
    /// within one priority. Without this setting, tasks with a priority are refused.
    ///
    /// Priorities apply to accepted tasks only. Waiting callers get room first come, first served,
    /// and running tasks are not interrupted. A full pool that [discards the
    /// oldest](OnFull::DiscardOldest) discards the oldest task of the lowest priority. In a
    /// multi-pool each member applies priorities separately.
    ///
    /// Tasks of lower priority do not starve: see [`Priority`](crate::Priority).
    #[doc(alias = "PriorityBlockingQueue")]
    pub fn priorities(mut self, priorities: bool) -> Self {
        self.installed.levels = priorities.then_some(levels);
        self
    }

    /// Sets what a blocking submit on one of the pool's own workers does if the pool is full.
    pub fn within_worker(mut self, policy: WithinWorker) -> Self {
        self.within_worker = policy;
        self
    }

    /// Sets how many tasks may run in place inside one another. Beyond this limit a submit, or the
    /// join of an unstarted task, is refused. Each level takes [stack](Self::stack_size). Does not
    /// apply to mappings and scopes.
    pub fn nesting_limit(mut self, tasks: u32) -> Self {
        self.nesting_limit = tasks;
        self
    }

    /// Sets the pool's name. Threads are named after it, with a number.
    pub fn name(mut self, name: impl Into<String>) -> Self {
        self.name = name.into();
        self
    }

    /// Names each worker's thread by its [slot](crate::Current::worker): the lowest number, from 0,
    /// that no other live worker of the pool has. The closure is called on the thread that starts
    /// the worker and waits for it. A panic, or a name with a NUL, counts as the operating system's
    /// refusal.
    ///
    /// ```
    /// use pool_core::Pool;
    ///
    /// let pool = Pool::builder().capacity(2).thread_name(|slot| format!("io/{slot}")).build()?;
    /// let name = pool.spawn(|| std::thread::current().name().map(str::to_owned))?.join()?;
    /// assert_eq!(name.as_deref(), Some("io/0"));
    /// # Ok::<(), Box<dyn std::error::Error + Send + Sync>>(())
    /// ```
    pub fn thread_name(mut self, name: impl Fn(usize) -> String + Send + Sync + 'static) -> Self {
        self.thread_name = Some(Arc::new(name));
        self
    }

    /// Wraps the whole run of each worker, including its hooks. The wrap is called on the worker's
    /// thread with the run as its argument. For entering the context of a runtime, setting an
    /// affinity, or holding a guard.
    ///
    /// A worker inherits the processors, the priority and the signal mask of the thread whose call
    /// started it: a submitter, another worker, or the builder. It keeps them for as long as it
    /// lives. If submitters differ, set them here, before `run`, with the calls of the operating
    /// system (`sched_setaffinity`, `setpriority`, `pthread_sigmask` of the crate `libc`):
    ///
    /// ```
    /// # #[cfg(target_os = "linux")] {
    /// use pool_core::Pool;
    /// use std::mem::{size_of, zeroed};
    ///
    /// // Here, where the pool is built: the processors of this thread.
    /// let mut processors: libc::cpu_set_t = unsafe { zeroed() };
    /// let bytes = size_of::<libc::cpu_set_t>();
    /// unsafe { libc::sched_getaffinity(0, bytes, &mut processors) };
    ///
    /// let pool = Pool::builder().capacity(8).worker_wrap(move |run| {
    ///     unsafe { libc::sched_setaffinity(0, bytes, &processors) };
    ///     unsafe { libc::setpriority(libc::PRIO_PROCESS, 0, 5) }; // Without privileges, only upwards.
    ///     run();
    /// });
    /// # assert_eq!(pool.build()?.spawn(|| 7)?.join()?, 7);
    /// # }
    /// # Ok::<(), Box<dyn std::error::Error + Send + Sync>>(())
    /// ```
    ///
    /// Other uses, such as entering a runtime:
    ///
    /// ```
    /// use pool_core::Pool;
    ///
    /// let pool = Pool::builder().capacity(1).worker_wrap(|run| {
    ///     let _guard = (); // E.g. `handle.enter()` of a runtime.
    ///     run();
    /// });
    /// assert_eq!(pool.build()?.spawn(|| 7)?.join()?, 7);
    /// # Ok::<(), Box<dyn std::error::Error + Send + Sync>>(())
    /// ```
    ///
    /// The worker runs once, whatever the wrap does: if the wrap did not call its argument, the
    /// worker runs after it; further calls return immediately. Code after the call counts as
    /// [ending](crate::Stats::ending). A panic of the wrap is counted.
    #[doc(alias = "affinity")]
    #[doc(alias = "nice")]
    #[doc(alias = "priority of threads")]
    #[doc(alias = "signal mask")]
    pub fn worker_wrap(mut self, wrap: impl Fn(&mut dyn FnMut()) + Send + Sync + 'static) -> Self {
        self.worker_wrap = Some(Arc::new(wrap));
        self.installed.live = worker::live_wrapped;
        self
    }

    /// Sets the stack size of each worker, in bytes.
    pub fn stack_size(mut self, bytes: usize) -> Self {
        self.stack_size = Some(bytes);
        self
    }

    /// Sets what happens when the last handle is dropped.
    pub fn drop_policy(mut self, policy: DropPolicy) -> Self {
        self.installed.end = Core::end_by(policy);
        self
    }

    /// Sets a hook for panics of tasks. It is called on the worker before the task's handle
    /// resolves.
    ///
    /// ```
    /// use pool_core::Pool;
    /// use std::sync::mpsc::channel;
    ///
    /// let (send, panics) = channel();
    /// let pool = Pool::builder()
    ///     .capacity(1)
    ///     .panic_hook(move |panic| _ = send.send(panic.message().map(str::to_owned)))
    ///     .build()?;
    /// pool.submit(|| panic!("out of ink"))?;
    /// assert_eq!(panics.recv()?.as_deref(), Some("out of ink"));
    /// # Ok::<(), Box<dyn std::error::Error + Send + Sync>>(())
    /// ```
    #[doc(alias = "WithLogger")]
    #[doc(alias = "WithPanicHandler")]
    pub fn panic_hook(mut self, hook: impl Fn(&TaskPanic<'_>) + Send + Sync + 'static) -> Self {
        self.panic_hook = Some(Arc::new(hook));
        self
    }

    fn record_all(&mut self) {
        self.recorder = Some(|context| TaskRecord::new(TaskOptions::default(), context));
        self.installed.add_record = Some(Task::with_record);
    }

    /// Sets a hook around each task, called on the thread that runs the task: see [`TaskHook`].
    ///
    /// With a task hook each task costs an allocation more, to store the time of its submission: see
    /// [`TaskBuilder`](crate::TaskBuilder).
    pub fn task_hook(mut self, hook: impl TaskHook) -> Self {
        self.task_hook = Some(Arc::new(Hooked(Box::new(hook))));
        self.record_all();
        self
    }

    /// Runs each task, and each call of a mapping, inside the `tracing` span and subscriber that
    /// were current when it was submitted or the mapping was made. A task then costs an allocation
    /// more: see [`TaskBuilder`](crate::TaskBuilder).
    #[cfg(feature = "tracing")]
    pub fn carry_span(mut self, carry: bool) -> Self {
        self.carries_span = carry;
        if carry {
            self.record_all();
        }
        self
    }

    /// Sets a hook that each worker calls before it looks for its first task. A panic of the hook
    /// is counted, and the worker serves tasks anyway.
    ///
    /// The worker is busy during the hook: a task submitted meanwhile, for example by the hook
    /// itself, gets another worker if the capacity allows.
    ///
    /// ```
    /// use pool_core::Pool;
    /// use std::sync::mpsc::channel;
    ///
    /// let (send, started) = channel();
    /// let hook = move || _ = send.send(std::thread::current().name().map(str::to_owned));
    /// let pool = Pool::builder().name("io").capacity(1).start_hook(hook).build()?;
    /// pool.submit(|| ())?;
    /// assert_eq!(started.recv()?.as_deref(), Some("io-0"));
    /// # Ok::<(), Box<dyn std::error::Error + Send + Sync>>(())
    /// ```
    pub fn start_hook(mut self, hook: impl Fn() + Send + Sync + 'static) -> Self {
        self.start_hook = Some(Arc::new(hook));
        self
    }

    /// Sets a hook that each worker calls before it ends. If work has arrived meanwhile, the worker
    /// stays and calls its start hook again. The worker occupies its place during the hook; a task
    /// that arrives meanwhile gets another worker if the capacity allows.
    pub fn stop_hook(mut self, hook: impl Fn() + Send + Sync + 'static) -> Self {
        self.stop_hook = Some(Arc::new(hook));
        self
    }

    /// Sets a gate that is asked before each thread is started. An error counts as the operating
    /// system's refusal. For a thread budget across several pools, and for tests.
    ///
    /// The gate is called on the thread that starts another, a submitter or a worker, which waits
    /// for the answer even in a call that never waits for room. While there is no worker, other
    /// submitters wait for it too. A submit to the same pool inside the gate is then refused with
    /// [`NoThread`](crate::SubmitError::NoThread) and [`io::ErrorKind::Deadlock`].
    ///
    /// ```
    /// use pool_core::{Pool, SubmitError};
    /// use std::io::ErrorKind;
    ///
    /// let gate = || Err(ErrorKind::QuotaExceeded.into()); // A budget that is used up.
    /// let pool = Pool::builder().capacity(1).thread_gate(gate).build()?;
    /// assert!(matches!(pool.submit(|| ()), Err(SubmitError::NoThread(..))));
    /// # Ok::<(), Box<dyn std::error::Error + Send + Sync>>(())
    /// ```
    pub fn thread_gate(
        mut self,
        gate: impl Fn() -> io::Result<()> + Send + Sync + 'static,
    ) -> Self {
        self.thread_gate = Some(Arc::new(gate));
        self
    }

    /// Sets the clock of all timeouts and of the keep-alive.
    ///
    /// ```
    /// use pool_core::{ManualClock, Pool, SubmitError};
    /// use std::time::Duration;
    ///
    /// let clock = ManualClock::new();
    /// let pool = Pool::builder().capacity(1).keep_alive(None).clock(clock.clone()).build()?;
    /// let permit = pool.reserve()?; // The pool is full.
    /// let waiter = pool.clone();
    /// let waits = std::thread::spawn(move || waiter.submit_timeout(|| (), Duration::from_secs(60)));
    /// clock.wait_for_sleepers(1);
    /// clock.advance(Duration::from_secs(60)); // A test need not sleep.
    /// assert!(matches!(waits.join(), Ok(Err(SubmitError::TimedOut(_)))));
    /// drop(permit);
    /// # Ok::<(), Box<dyn std::error::Error + Send + Sync>>(())
    /// ```
    pub fn clock(mut self, clock: impl Clock) -> Self {
        self.clock = Some(Arc::new(clock));
        self
    }

    /// Builds the pool and starts the requested workers.
    ///
    /// # Errors
    /// If the capacity is missing, the settings contradict each other, or the operating system
    /// refuses to start a worker.
    pub fn build(self) -> Result<WorkerPool<R>, BuildError> {
        self.build_in(unique_id(), None).map(WorkerPool::of)
    }

    /// Like [`build`](Self::build), but workers that the settings start ahead start with the first tasks.
    pub(crate) fn build_unstaffed(mut self) -> Result<WorkerPool<R>, BuildError> {
        self.installed.start_ahead = |_, _| Ok(());
        self.build()
    }

    /// Returns the name, which a group numbers for its members.
    pub(crate) fn name_as_set(&self) -> &str {
        &self.name
    }

    /// Builds `count` pools that treat each other's workers as own workers. After an error, those
    /// already built have ended.
    pub(crate) fn build_group(self, count: usize) -> Result<Vec<PoolHandle>, BuildError>
    where
        R: Clone,
    {
        let group = unique_id();
        let mut pools: Vec<PoolHandle> = Vec::new();
        for number in 0..count {
            let name = format!("{}-{number}", self.name);
            match self.clone().name(name).build_in(group, Some(number)) {
                Ok(core) => pools.push(PoolHandle(core)),
                Err(refused) => {
                    for pool in pools {
                        // There is no other handle that could reboot the pool, and no fork can come
                        // in between.
                        let _ = pool.0.release_and_wait(None);
                    }
                    return Err(refused);
                }
            }
        }
        Ok(pools)
    }

    /// `member` is the pool's index in its group.
    fn build_in(self, group: u64, member: Option<usize>) -> Result<Arc<Core>, BuildError> {
        let ahead = self.min_workers.max(self.prestart);
        let installed = self.installed.clone();
        let (context, config) = self.check()?;
        let load_stats = || Arc::new(LoadStats::new(config.capacity, config.depth));
        let member = member.map(|number| (number, load_stats()));
        let core = Core::new(context, config, installed, group, member)?;
        (core.installed.start_ahead)(&core, ahead).map_err(BuildError::NoThread)?;
        Ok(core)
    }

    fn check(self) -> Result<(TaskContext, Config), BuildError> {
        let capacity = self.capacity.ok_or(BuildError::NoCapacity)?.bound();
        if capacity == 0 {
            return Err(BuildError::ZeroCapacity);
        }
        let workers = self.min_workers.max(self.prestart);
        if workers > capacity {
            return Err(BuildError::WorkersAboveCapacity { workers, capacity });
        }
        if self.preallocate && capacity == UNLIMITED {
            return Err(BuildError::PreallocateUnlimited);
        }
        // Checked here, because otherwise every thread's start would fail.
        if self.name.contains('\0') {
            return Err(BuildError::NulInName);
        }
        // Without the hook, tasks would be lost silently.
        if self.on_full.discards() && self.discard_hook.is_none() {
            return Err(BuildError::NoDiscardHook);
        }
        let clock = self.clock.unwrap_or_else(default_clock);
        let context = TaskContext {
            function: self.function,
            name: self.name.into(),
            panic_hook: self.panic_hook,
            task_hook: self.task_hook,
            recorder: self.recorder,
            #[cfg(feature = "tracing")]
            carries_span: self.carries_span,
            hook_panics: AtomicU64::new(0),
            piece_panics: AtomicU64::new(0),
            clock: Arc::clone(&clock),
            stop: Arc::new(StopRequest::new()),
        };
        let config = Config {
            capacity,
            max_compensation: self.max_compensation,
            depth: self.depth.bound(),
            max_waiting: self.max_waiting.unwrap_or(usize::MAX),
            min_workers: self.min_workers,
            keep_alive: self.keep_alive,
            preallocate: self.preallocate,
            start_paused: self.start_paused,
            on_full: self.on_full,
            discard_hook: self.discard_hook,
            within_worker: self.within_worker,
            nesting_limit: self.nesting_limit,
            stack_size: self.stack_size,
            thread_name: self.thread_name,
            worker_wrap: self.worker_wrap,
            has_entry_code: self.start_hook.is_some() || self.installed.worker_state.is_some(),
            start_hook: self.start_hook,
            stop_hook: self.stop_hook,
            thread_gate: self.thread_gate,
            clock,
        };
        Ok((context, config))
    }
}

impl<R> fmt::Debug for Builder<R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Builder")
            .field("name", &self.name)
            .field("capacity", &self.capacity)
            .field("queue_depth", &self.depth)
            .field("keep_alive", &self.keep_alive)
            .finish_non_exhaustive()
    }
}
