//! Error types. A [`SubmitError`] contains the refused task.

use std::any::Any;
use std::borrow::Cow;
use std::collections::TryReserveError;
use std::convert::Infallible;
use std::sync::Arc;
use std::{error, fmt, io};

use sync_shim::Mutex;

use crate::cancel::CancelToken;
use crate::foreign::Payload;

/// Error of a submit: the task was not accepted. It is returned, not run.
///
/// The error contains the task, so it is `Sync` only if all captures of the task are. A boxed error that is
/// `Send + Sync`, such as `anyhow::Error`, requires that: `?` does not compile if a capture is not `Sync` (a
/// `Cell`, a `Receiver`, most database connections). [`without_task`](Self::without_task) drops the task and
/// returns the reason as a `SubmitError<()>`, which is always `Send`, `Sync` and `'static`.
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
    /// The pool is full, and the call may not wait: it is a `try_` call, too many callers wait, or it is made by a worker of the
    /// pool whose tasks nest as deep as they may ([`nesting_limit`](crate::Builder::nesting_limit)).
    Full(T),
    /// The pool is released.
    Released(T),
    /// The call timed out before there was room.
    TimedOut(T),
    /// A token of the task was cancelled before there was room (see
    /// [`TaskBuilder::cancelled_by`](crate::TaskBuilder::cancelled_by)), or the task was added to a group
    /// that was cancelled, has failed, or whose deadline has passed.
    Cancelled(T),
    /// The pool has no worker, and the operating system refused to start the first one.
    NoThread(T, io::Error),
    /// This process is a fork of the one that built the pool, and has no workers.
    Forked(T),
    /// The call [discards](crate::OnFull) a task if the pool is full, and the pool has no [discard
    /// hook](crate::Builder::discard_hook).
    NoDiscardHook(T),
    /// The task has a [priority](crate::TaskBuilder::priority), and the pool was built without
    /// [`priorities`](crate::Builder::priorities).
    NoPriorities(T),
}

/// A [`SubmitError`] without the task.
#[derive(Debug)]
pub enum Reason {
    Full,
    Released,
    TimedOut,
    Cancelled,
    NoThread(io::Error),
    Forked,
    NoDiscardHook,
    NoPriorities,
}

impl Reason {
    /// The reason of a wait for room that ended without room.
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
            Self::NoPriorities => SubmitError::NoPriorities(task),
        }
    }
}

/// Why a job was not accepted. `L` is the error of a caller that timed out while another thread
/// started the first worker; uninhabited for callers without a timeout.
pub(crate) enum Closed<L = Infallible> {
    Full,
    Released,
    /// The pool has room but no worker, and the operating system refused to start the first.
    NoThread(io::Error),
    /// The pool has room but no worker, and the start of one takes too long.
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
    /// Adds the task. Not written with [`map`](SubmitError::map): a closure's captures go through
    /// memory, which would cost each submit.
    #[inline]
    pub(crate) fn with_task<T>(self, task: T) -> SubmitError<T> {
        self.split().0.with(task)
    }
}

impl<T> SubmitError<T> {
    /// Returns the task.
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

    /// Returns the reason and drops the task.
    pub fn without_task(self) -> SubmitError {
        self.into_parts().0
    }

    /// Splits the error into the reason and the task.
    pub fn into_parts(self) -> (SubmitError, T) {
        let (reason, task) = self.split();
        (reason.with(()), task)
    }

    /// Returns whether a retry can succeed: the pool had no room.
    pub fn is_full(&self) -> bool {
        matches!(self, Self::Full(_) | Self::TimedOut(_))
    }

    /// Returns whether the pool is released.
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
            Self::NoPriorities(task) => (Reason::NoPriorities, task),
        }
    }

    /// Changes the task in the error.
    pub fn map<U>(self, change: impl FnOnce(T) -> U) -> SubmitError<U> {
        let (reason, task) = self.split();
        reason.with(change(task))
    }
}

// Written by hand, so that tasks need not implement `Debug`.
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
            Self::NoPriorities(_) => f.write_str("NoPriorities(..)"),
        }
    }
}

impl<T> fmt::Display for SubmitError<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Full(_) => f.write_str("the pool is full"),
            Self::Released(_) => f.write_str("the pool is released"),
            Self::TimedOut(_) => f.write_str("timed out waiting for room in the pool"),
            Self::Cancelled(_) => f.write_str("the task or its group was cancelled"),
            Self::NoThread(_, refused) => {
                write!(
                    f,
                    "the pool has no worker and could not start one: {refused}"
                )
            }
            Self::Forked(_) => {
                f.write_str("the pool belongs to the parent process (this one was forked)")
            }
            Self::NoDiscardHook(_) => {
                f.write_str("the pool has no discard hook, so it cannot discard tasks")
            }
            Self::NoPriorities(_) => {
                f.write_str("the pool was built without priorities, and the task has one")
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

/// Error of waiting for a pool.
///
/// ```
/// use pool_core::Pool;
///
/// let pool = Pool::builder().capacity(2).build()?;
/// use pool_core::WaitError;
///
/// let inner = pool.clone();
/// let within = pool.spawn(move || inner.wait_idle())?.join()?; // The task would wait for itself.
/// assert_eq!(within, Err(WaitError::WouldDeadlock));
/// # Ok::<(), Box<dyn std::error::Error + Send + Sync>>(())
/// ```
#[doc(alias = "ErrTimeout")]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum WaitError {
    /// The wait timed out.
    TimedOut,
    /// The caller would wait for itself: it is one of the pool's own workers, or the destructor of
    /// a task's captures, run by the cancel or the `release_now` that removed the task.
    WouldDeadlock,
    /// The pool was rebooted before its workers had ended.
    Rebooted,
    /// This process is a fork of the one that built the pool, and has no workers.
    Forked,
}

impl fmt::Display for WaitError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::TimedOut => "timed out waiting for the pool",
            Self::WouldDeadlock => "deadlock: the caller would wait for itself",
            Self::Rebooted => "the pool was rebooted during the wait",
            Self::Forked => "the pool belongs to the parent process (this one was forked)",
        })
    }
}

impl error::Error for WaitError {}

/// Error of joining a task: it has no value.
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
    /// The task was cancelled, by its handle, its group or a token: before it started, unless it is a future, which is dropped
    /// at a suspension.
    Cancelled,
    /// No worker started the task in time; see
    /// [`TaskBuilder::start_before`](crate::TaskBuilder::start_before).
    Expired,
    /// The pool was released with `release_now` (or dropped under `DropPolicy::Discard`) before the
    /// task started, or while a future was suspended.
    Released,
    /// The full pool discarded the task, see [`OnFull`](crate::OnFull).
    Discarded,
    /// The value has already been returned by polling the handle.
    Taken,
    /// This process is a fork of the one that built the pool; the task exists only there.
    Forked,
    /// The caller is one of the pool's own workers, and cannot run the unstarted task in place:
    /// either the [nesting limit](crate::Builder::nesting_limit) is reached, or it is a scheduled
    /// task, which would hold the worker until it is due. The task still runs later. In a pool of futures: the caller
    /// would block a worker until a task of the same pool has ended.
    WouldDeadlock,
}

/// Panic of a task: its payload, its message and the pool's name.
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
// Boxed, so that the result of every join stays small.
pub struct Panicked(Box<Panic>);

struct Panic {
    /// A payload is `Send` but not `Sync`; the lock makes this type `Sync`. It is never locked,
    /// because the payload is only accessible to an owner.
    payload: Mutex<Payload>,
    message: Option<Cow<'static, str>>,
    pool: Arc<str>,
}

impl Panicked {
    pub(crate) fn new(payload: Payload, pool: Arc<str>) -> Self {
        // A static message is borrowed, so that it costs no allocation.
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

    /// Returns the panic's payload.
    ///
    /// Takes `&mut self` because a payload need not be `Sync`, and this error is.
    pub fn payload_mut(&mut self) -> &mut (dyn Any + Send) {
        &mut **self.0.payload.get_mut()
    }

    /// Returns the panic's payload, for example for [`std::panic::resume_unwind`].
    pub fn into_payload(self) -> Box<dyn Any + Send> {
        self.0.payload.into_inner()
    }

    /// Returns the panic's message, if the payload is a string.
    pub fn message(&self) -> Option<&str> {
        self.0.message.as_deref()
    }

    /// Returns the name of the pool that ran the task.
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
    /// Returns the panic's payload if the task panicked.
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

// Written by hand, because a derived one would show `Panicked(Panicked { .. })`.
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
            Self::Cancelled => f.write_str("the task was cancelled before it ended"),
            Self::Expired => f.write_str("the task did not start in time"),
            Self::Released => f.write_str("the pool was released before the task ended"),
            Self::Discarded => f.write_str("the full pool discarded the task"),
            Self::Taken => f.write_str("the task's value has already been taken"),
            Self::Forked => {
                f.write_str("the task belongs to the parent process (this one was forked)")
            }
            Self::WouldDeadlock => {
                f.write_str("deadlock: a worker cannot wait here for a task of its own pool")
            }
        }
    }
}

impl error::Error for JoinError {}

/// Error of building a pool.
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
    /// The builder was given neither a capacity nor `unlimited`.
    NoCapacity,
    /// The capacity is zero.
    ZeroCapacity,
    /// `min_workers` or `prestart` exceeds the capacity.
    WorkersAboveCapacity {
        /// Requested number of workers.
        workers: usize,
        /// Maximum number of workers.
        capacity: usize,
    },
    /// The number of workers of a pool of futures is out of range.
    Workers {
        /// Requested number of workers.
        workers: usize,
        /// Maximum number of workers. The minimum is 1.
        most: usize,
    },
    /// The ring of idle workers cannot be preallocated for an unlimited pool.
    PreallocateUnlimited,
    /// The ring of idle workers could not be allocated.
    OutOfMemory(TryReserveError),
    /// The pool's name contains a NUL, so threads cannot be named after it.
    NulInName,
    /// The pool [discards](crate::OnFull) tasks if it is full, and has no [discard
    /// hook](crate::Builder::discard_hook).
    NoDiscardHook,
    /// The operating system refused to start a worker. Workers started before it have been ended.
    NoThread(io::Error),
}

impl fmt::Display for BuildError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoCapacity => f.write_str("a pool needs a capacity, or `unlimited`"),
            Self::ZeroCapacity => f.write_str("the capacity must be at least 1"),
            Self::WorkersAboveCapacity { workers, capacity } => {
                write!(f, "{workers} workers exceed the capacity of {capacity}")
            }
            Self::Workers { workers, most } => {
                write!(
                    f,
                    "a pool of futures has from 1 to {most} workers, not {workers}"
                )
            }
            Self::PreallocateUnlimited => f.write_str("an unlimited pool cannot be preallocated"),
            Self::OutOfMemory(refused) => write!(
                f,
                "the ring of idle workers could not be allocated: {refused}"
            ),
            Self::NulInName => f.write_str("the pool's name contains a NUL"),
            Self::NoDiscardHook => f.write_str("a pool that discards tasks needs a discard hook"),
            Self::NoThread(refused) => write!(f, "could not start a worker: {refused}"),
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

/// Error of changing the capacity. The pool is unchanged.
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
    /// The capacity is zero.
    ZeroCapacity,
    /// The ring of idle workers is preallocated, so the pool cannot be unlimited.
    PreallocateUnlimited,
    /// A larger ring of idle workers could not be allocated.
    OutOfMemory(TryReserveError),
}

impl fmt::Display for TuneError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::ZeroCapacity => f.write_str("the capacity must be at least 1"),
            Self::PreallocateUnlimited => f.write_str("a preallocated pool cannot be unlimited"),
            Self::OutOfMemory(refused) => write!(
                f,
                "the ring of idle workers could not be allocated: {refused}"
            ),
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
