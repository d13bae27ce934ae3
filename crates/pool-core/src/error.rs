//! Why a call was refused. A refused task comes back in the error, unrun.

use std::any::Any;
use std::borrow::Cow;
use std::collections::TryReserveError;
use std::convert::Infallible;
use std::sync::Arc;
use std::{error, fmt, io};

use sync_shim::Mutex;

use crate::foreign::Payload;
use crate::task::cancel::CancelToken;

/// The task was not taken. It comes back unrun.
///
/// It contains the task, so it can be shared between threads only if everything the task captures can.
/// A boxed error that is `Send + Sync`, such as `anyhow::Error`, requires that: `?` does not compile if a
/// capture is `Send` but not `Sync` (a `Cell`, a `Receiver`, most database connections).
/// [`without_task`](Self::without_task) drops the task and leaves the reason, which is always `Send`,
/// `Sync` and `'static`. That is the type `SubmitError` without a parameter.
///
/// ```
/// use pool_core::{Pool, SubmitError};
/// use std::error::Error;
/// use std::sync::mpsc::Receiver;
///
/// fn print_all(pool: &Pool, lines: Receiver<String>) -> Result<(), Box<dyn Error + Send + Sync>> {
///     pool.submit(move || lines.iter().for_each(|line| println!("{line}")))
///         .map_err(SubmitError::without_task)?; // `Receiver` is not `Sync`.
///     Ok(())
/// }
/// # let pool = Pool::builder().capacity(1).build()?;
/// # print_all(&pool, std::sync::mpsc::channel().1)?;
/// # pool.wait_idle()?;
/// # Ok::<(), Box<dyn Error + Send + Sync>>(())
/// ```
#[doc(alias = "ErrPoolClosed")]
#[doc(alias = "ErrPoolOverload")]
#[non_exhaustive]
pub enum SubmitError<T = ()> {
    /// As many tasks are in flight as there may be, and the call may not wait.
    Full(T),
    /// The pool is released.
    Released(T),
    /// The time was up before there was room.
    TimedOut(T),
    /// A token that the task was given was cancelled before there was room; see
    /// [`TaskBuilder::cancelled_by`](crate::TaskBuilder::cancelled_by).
    Cancelled(T),
    /// There is no worker, and the operating system refused to start the first one.
    NoThread(T, io::Error),
    /// This process is a fork of the one that made the pool; the workers stayed there.
    Forked(T),
    /// The call is to [discard](crate::OnFull) a task if the pool is full, and the pool has no
    /// [discard hook](crate::Builder::discard_hook) that would see it.
    NoDiscardHook(T),
}

/// What a refusal is about, without the task.
#[derive(Debug)]
pub(crate) enum Reason {
    Full,
    Released,
    TimedOut,
    Cancelled,
    NoThread(io::Error),
    Forked,
    NoDiscardHook,
}

impl Reason {
    /// A wait for room has ended without any: the token was cancelled, or the time was up.
    pub(crate) fn gave_up(token: Option<&CancelToken>) -> Self {
        if token.is_some_and(CancelToken::is_cancelled) {
            Self::Cancelled
        } else {
            Self::TimedOut
        }
    }

    pub(crate) fn with<T>(self, task: T) -> SubmitError<T> {
        match self {
            Self::Full => SubmitError::Full(task),
            Self::Released => SubmitError::Released(task),
            Self::TimedOut => SubmitError::TimedOut(task),
            Self::Cancelled => SubmitError::Cancelled(task),
            Self::NoThread(refused) => SubmitError::NoThread(task, refused),
            Self::Forked => SubmitError::Forked(task),
            Self::NoDiscardHook => SubmitError::NoDiscardHook(task),
        }
    }
}

/// Why a job is not accepted. `L` says how the caller may be late for the start of the first worker
/// that another thread makes: not at all, unless it has a time limit.
pub(crate) enum Closed<L = Infallible> {
    Full,
    Released,
    /// There is room, but no worker, and the operating system refused to start the first.
    NoThread(io::Error),
    /// There is room, but no worker yet, and the start of one takes too long.
    TimedOut(L),
}

impl<L> Closed<L> {
    pub(crate) fn reason(self) -> Reason {
        match self {
            Self::Full => Reason::Full,
            Self::Released => Reason::Released,
            Self::NoThread(refused) => Reason::NoThread(refused),
            Self::TimedOut(_) => Reason::TimedOut,
        }
    }
}

impl SubmitError {
    /// The same error about that task. (Not by [`map`](SubmitError::map): what a closure takes is
    /// written to memory first, which each submit would pay for.)
    #[inline]
    pub(crate) fn with_task<T>(self, task: T) -> SubmitError<T> {
        self.split().0.with(task)
    }
}

impl<T> SubmitError<T> {
    /// The task.
    ///
    /// ```
    /// use pool_core::Pool;
    ///
    /// let pool = Pool::builder().capacity(1).build()?;
    /// pool.release();
    /// let refused = pool.submit(|| println!("here, then")).unwrap_err();
    /// (refused.into_task())();
    /// # Ok::<(), Box<dyn std::error::Error + Send + Sync>>(())
    /// ```
    pub fn into_task(self) -> T {
        self.split().1
    }

    /// The reason alone. Drops the task, here.
    pub fn without_task(self) -> SubmitError {
        self.into_parts().0
    }

    /// The reason, and the task.
    pub fn into_parts(self) -> (SubmitError, T) {
        let (reason, task) = self.split();
        (reason.with(()), task)
    }

    /// Whether a later try may succeed without anything else changing first.
    pub fn is_full(&self) -> bool {
        matches!(self, Self::Full(_) | Self::TimedOut(_))
    }

    /// Whether the pool is released.
    pub fn is_released(&self) -> bool {
        matches!(self, Self::Released(_))
    }

    pub(crate) fn split(self) -> (Reason, T) {
        match self {
            Self::Full(task) => (Reason::Full, task),
            Self::Released(task) => (Reason::Released, task),
            Self::TimedOut(task) => (Reason::TimedOut, task),
            Self::Cancelled(task) => (Reason::Cancelled, task),
            Self::NoThread(task, refused) => (Reason::NoThread(refused), task),
            Self::Forked(task) => (Reason::Forked, task),
            Self::NoDiscardHook(task) => (Reason::NoDiscardHook, task),
        }
    }

    /// The same error about another form of the task.
    pub fn map<U>(self, change: impl FnOnce(T) -> U) -> SubmitError<U> {
        let (reason, task) = self.split();
        reason.with(change(task))
    }
}

impl<T> fmt::Debug for SubmitError<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Full(_) => f.write_str("Full(..)"),
            Self::Released(_) => f.write_str("Released(..)"),
            Self::TimedOut(_) => f.write_str("TimedOut(..)"),
            Self::Cancelled(_) => f.write_str("Cancelled(..)"),
            Self::NoThread(_, refused) => write!(f, "NoThread(.., {refused:?})"),
            Self::Forked(_) => f.write_str("Forked(..)"),
            Self::NoDiscardHook(_) => f.write_str("NoDiscardHook(..)"),
        }
    }
}

impl<T> fmt::Display for SubmitError<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Full(_) => f.write_str("the pool is full"),
            Self::Released(_) => f.write_str("the pool is released"),
            Self::TimedOut(_) => f.write_str("the pool stayed full until the time was up"),
            Self::Cancelled(_) => f.write_str("the task was cancelled before there was room"),
            Self::NoThread(_, refused) => {
                write!(
                    f,
                    "the pool has no worker and none could be started: {refused}"
                )
            }
            Self::Forked(_) => {
                f.write_str("the pool belongs to the parent process (this one was forked)")
            }
            Self::NoDiscardHook(_) => {
                f.write_str("a full pool would discard a task, and has no discard hook")
            }
        }
    }
}

impl<T> error::Error for SubmitError<T> {
    fn source(&self) -> Option<&(dyn error::Error + 'static)> {
        match self {
            Self::NoThread(_, refused) => Some(refused),
            _ => None,
        }
    }
}

/// A wait ended without what was waited for.
///
/// ```
/// use pool_core::Pool;
///
/// let pool = Pool::builder().capacity(2).build()?;
/// use pool_core::WaitError;
///
/// let inner = pool.clone();
/// let within = pool.spawn(move || inner.wait_idle())?.join()?; // It would wait for itself.
/// assert_eq!(within, Err(WaitError::WouldDeadlock));
/// # Ok::<(), Box<dyn std::error::Error + Send + Sync>>(())
/// ```
#[doc(alias = "ErrTimeout")]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum WaitError {
    /// The time was up first.
    TimedOut,
    /// The caller would wait for itself: it is one of the pool's own workers, or a destructor of
    /// what a task captured, run by the cancel or the `release_now` that took the task out.
    WouldDeadlock,
    /// The pool was rebooted before its workers had ended.
    Rebooted,
    /// This process is a fork of the one that made the pool; the workers stayed there.
    Forked,
}

impl fmt::Display for WaitError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::TimedOut => "the time was up",
            Self::WouldDeadlock => "the caller would wait for itself",
            Self::Rebooted => "the pool was rebooted meanwhile",
            Self::Forked => "the pool belongs to the parent process (this one was forked)",
        })
    }
}

impl error::Error for WaitError {}

/// Why a spawned task has no value.
///
/// ```
/// use pool_core::Pool;
///
/// let pool = Pool::builder().capacity(2).build()?;
/// use pool_core::JoinError;
///
/// match pool.spawn(|| -> u32 { panic!("out of ink") })?.join() {
///     Err(JoinError::Panicked(panicked)) => assert_eq!(panicked.message(), Some("out of ink")),
///     other => println!("{other:?}"),
/// }
/// # Ok::<(), Box<dyn std::error::Error + Send + Sync>>(())
/// ```
#[doc(alias = "is_panic")]
#[non_exhaustive]
pub enum JoinError {
    /// The task panicked.
    Panicked(Panicked),
    /// It was cancelled before it started: by its handle, or by a token.
    Cancelled,
    /// No worker came to it in time; see
    /// [`TaskBuilder::start_before`](crate::TaskBuilder::start_before).
    Expired,
    /// The pool was released with `release_now` (or dropped under `DropPolicy::Discard`) before
    /// it started.
    Released,
    /// The pool was full, and discarded it for want of room, as
    /// [`OnFull`](crate::OnFull) says.
    Discarded,
    /// The value was taken before, by polling the handle.
    Taken,
    /// This process is a fork of the one that made the pool; the task stayed there.
    Forked,
    /// The task has not started, the caller is one of its pool's own workers, and may not run it
    /// in place: as many tasks as the [nesting limit](crate::Builder::nesting_limit) allows run
    /// inside one another, or it is a scheduled task, which would hold the worker until it is due.
    /// The task runs all the same.
    WouldDeadlock,
}

/// What a task panicked with, and where.
///
/// ```
/// # use pool_core::Pool;
/// # let pool = Pool::builder().capacity(2).build()?;
/// # use pool_core::JoinError;
/// let broken = pool.spawn(|| panic!("out of ink"))?.join();
/// let Err(JoinError::Panicked(panicked)) = broken else { unreachable!() };
/// println!("in {}: {:?}", panicked.pool(), panicked.message());
/// // Or passed on: `std::panic::resume_unwind(panicked.into_payload())`.
/// # Ok::<(), Box<dyn std::error::Error + Send + Sync>>(())
/// ```
pub struct Panicked(Box<Panic>);

struct Panic {
    /// A payload may be sent and not shared. In a lock it may be both; the lock is never taken,
    /// because only an owner gets at what is in it.
    payload: Mutex<Payload>,
    message: Option<Cow<'static, str>>,
    pool: Arc<str>,
}

impl Panicked {
    pub(crate) fn new(payload: Payload, pool: Arc<str>) -> Self {
        let message = payload
            .downcast_ref::<&'static str>()
            .map(|&text| Cow::Borrowed(text))
            .or_else(|| panic_message(&*payload).map(|text| Cow::Owned(text.to_owned())));
        Self(Box::new(Panic {
            payload: Mutex::new(payload),
            message,
            pool,
        }))
    }

    /// What the task panicked with.
    ///
    /// For an owner alone: a payload need not be `Sync`, and this error is.
    pub fn payload_mut(&mut self) -> &mut (dyn Any + Send) {
        &mut **self.0.payload.get_mut()
    }

    /// What the task panicked with, to be passed on, e.g. to [`std::panic::resume_unwind`].
    pub fn into_payload(self) -> Box<dyn Any + Send> {
        self.0.payload.into_inner()
    }

    /// The panic's message, if it has one.
    pub fn message(&self) -> Option<&str> {
        self.0.message.as_deref()
    }

    /// The name of the pool that ran the task.
    pub fn pool(&self) -> &str {
        &self.0.pool
    }
}

/// The text of a payload made by `panic!`.
pub(crate) fn panic_message(payload: &(dyn Any + Send)) -> Option<&str> {
    payload
        .downcast_ref::<&'static str>()
        .copied()
        .or_else(|| payload.downcast_ref::<String>().map(String::as_str))
}

impl JoinError {
    /// What the task panicked with, if it did.
    pub fn into_panic(self) -> Option<Box<dyn Any + Send>> {
        match self {
            Self::Panicked(panicked) => Some(panicked.into_payload()),
            _ => None,
        }
    }
}

impl fmt::Debug for Panicked {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Panicked")
            .field("message", &self.message())
            .field("pool", &self.pool())
            .finish_non_exhaustive()
    }
}

impl fmt::Display for Panicked {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "the task panicked in pool `{}`", self.pool())?;
        self.message().map_or(Ok(()), |text| write!(f, ": {text}"))
    }
}

impl fmt::Debug for JoinError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Panicked(panicked) => panicked.fmt(f),
            Self::Cancelled => f.write_str("Cancelled"),
            Self::Expired => f.write_str("Expired"),
            Self::Released => f.write_str("Released"),
            Self::Discarded => f.write_str("Discarded"),
            Self::Taken => f.write_str("Taken"),
            Self::Forked => f.write_str("Forked"),
            Self::WouldDeadlock => f.write_str("WouldDeadlock"),
        }
    }
}

impl fmt::Display for JoinError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Panicked(panicked) => panicked.fmt(f),
            Self::Cancelled => f.write_str("the task was cancelled before it started"),
            Self::Expired => f.write_str("the task was not started in time"),
            Self::Released => f.write_str("the pool was released before the task started"),
            Self::Discarded => f.write_str("the full pool discarded the task before it started"),
            Self::Taken => f.write_str("the task's value was taken before"),
            Self::Forked => {
                f.write_str("the task belongs to the parent process (this one was forked)")
            }
            Self::WouldDeadlock => {
                f.write_str("a worker cannot wait for a task that has not started")
            }
        }
    }
}

impl error::Error for JoinError {}

/// A pool cannot be built as asked.
///
/// ```
/// use pool_core::{BuildError, Pool};
///
/// assert!(matches!(Pool::builder().build(), Err(BuildError::NoCapacity)));
/// let more = Pool::builder().capacity(2).min_workers(3).build();
/// assert!(matches!(more, Err(BuildError::WorkersAboveCapacity { workers: 3, capacity: 2 })));
/// ```
#[doc(alias = "ErrInvalidPreAllocSize")]
#[derive(Debug)]
#[non_exhaustive]
pub enum BuildError {
    /// Neither a capacity nor `unlimited` was said.
    NoCapacity,
    /// A capacity of zero would run nothing.
    ZeroCapacity,
    /// More workers were to be kept or started than the capacity allows.
    WorkersAboveCapacity {
        /// What was asked for.
        workers: usize,
        /// What the capacity allows.
        capacity: usize,
    },
    /// A ring for an unlimited number of idle workers cannot be allocated ahead.
    PreallocateUnlimited,
    /// There is no memory for the ring that was to be allocated ahead.
    OutOfMemory(TryReserveError),
    /// A thread's name cannot have a NUL inside.
    NulInName,
    /// The pool is to [discard](crate::OnFull) tasks if it is full, and has no
    /// [discard hook](crate::Builder::discard_hook) that would see them.
    NoDiscardHook,
    /// The operating system refused one of the threads to be started ahead. Those that were
    /// started have been ended again.
    NoThread(io::Error),
}

impl fmt::Display for BuildError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoCapacity => f.write_str("a pool needs a capacity, or `unlimited`"),
            Self::ZeroCapacity => f.write_str("a pool needs a capacity of at least 1"),
            Self::WorkersAboveCapacity { workers, capacity } => {
                write!(
                    f,
                    "{workers} workers do not fit into a capacity of {capacity}"
                )
            }
            Self::PreallocateUnlimited => f.write_str("an unlimited pool cannot be preallocated"),
            Self::OutOfMemory(refused) => write!(f, "the ring cannot be allocated: {refused}"),
            Self::NulInName => f.write_str("a pool's name has no NUL inside"),
            Self::NoDiscardHook => f.write_str("a pool that discards tasks needs a discard hook"),
            Self::NoThread(refused) => write!(f, "a worker could not be started: {refused}"),
        }
    }
}

impl error::Error for BuildError {
    fn source(&self) -> Option<&(dyn error::Error + 'static)> {
        match self {
            Self::NoThread(refused) => Some(refused),
            Self::OutOfMemory(refused) => Some(refused),
            _ => None,
        }
    }
}

/// A capacity cannot be set. Nothing has changed.
///
/// ```
/// # use pool_core::Pool;
/// # let pool = Pool::builder().capacity(2).build()?;
/// # use pool_core::TuneError;
/// assert_eq!(pool.tune(0), Err(TuneError::ZeroCapacity));
/// # Ok::<(), Box<dyn std::error::Error + Send + Sync>>(())
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum TuneError {
    /// A capacity of zero would run nothing.
    ZeroCapacity,
    /// The pool's ring of idle workers was allocated ahead and cannot be unlimited.
    PreallocateUnlimited,
    /// There is no memory for a larger ring of idle workers.
    OutOfMemory(TryReserveError),
}

impl fmt::Display for TuneError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::ZeroCapacity => f.write_str("a pool needs a capacity of at least 1"),
            Self::PreallocateUnlimited => f.write_str("a preallocated pool cannot be unlimited"),
            Self::OutOfMemory(refused) => write!(f, "the ring cannot be allocated: {refused}"),
        }
    }
}

impl error::Error for TuneError {
    fn source(&self) -> Option<&(dyn error::Error + 'static)> {
        match self {
            Self::OutOfMemory(refused) => Some(refused),
            _ => None,
        }
    }
}
