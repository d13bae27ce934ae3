//! Errors of scheduling and of resetting.

use std::{error, fmt, io};

/// Error of scheduling a task. Contains the unrun task.
///
/// [`without_task`](Self::without_task) drops the task and returns the reason, for `?` with tasks whose
/// captures are not `Sync`.
#[non_exhaustive]
pub enum ScheduleError<F = ()> {
    /// The scheduled pool, or the pool under it, is released.
    Released(F),
    /// The series has a period or a delay of 0, so it would always be due.
    ZeroPeriod(F),
    /// The timer thread could not be started.
    NoThread(F, io::Error),
    /// This process is a fork of the one that built the pool, and has no workers.
    Forked(F),
    /// About 2^32 schedules have not ended, so no id is left.
    TooMany(F),
}

/// Why a schedule is rejected, without the task.
#[derive(Debug)]
pub enum Reason {
    /// No more schedules are accepted.
    Released,
    /// The timer thread could not be started.
    NoThread(io::Error),
    /// No id is left in the heap.
    TooMany,
}

impl Reason {
    pub(crate) fn with<F>(self, task: F) -> ScheduleError<F> {
        match self {
            Self::Released => ScheduleError::Released(task),
            Self::NoThread(refused) => ScheduleError::NoThread(task, refused),
            Self::TooMany => ScheduleError::TooMany(task),
        }
    }
}

impl<F> ScheduleError<F> {
    /// Returns the task.
    pub fn into_task(self) -> F {
        match self {
            Self::Released(task)
            | Self::ZeroPeriod(task)
            | Self::NoThread(task, _)
            | Self::Forked(task)
            | Self::TooMany(task) => task,
        }
    }

    /// Drops the task on this thread and returns the reason, which is always `Send`, `Sync` and `'static`.
    ///
    /// ```
    /// use std::time::Duration;
    /// use pool_core::Pool;
    /// use scheduled_pool::{ScheduleError, ScheduledPool};
    ///
    /// let scheduled = ScheduledPool::new(Pool::builder().capacity(1).build()?);
    /// let lines = std::sync::mpsc::channel::<String>().1; // A `Receiver` is not `Sync`.
    /// let print = move || lines.iter().for_each(|line| println!("{line}"));
    /// let printed = scheduled.spawn_after(Duration::ZERO, print).map_err(ScheduleError::without_task)?;
    /// printed.join()?;
    /// # Ok::<(), Box<dyn std::error::Error + Send + Sync>>(())
    /// ```
    pub fn without_task(self) -> ScheduleError {
        match self {
            Self::Released(_) => ScheduleError::Released(()),
            Self::ZeroPeriod(_) => ScheduleError::ZeroPeriod(()),
            Self::NoThread(_, refused) => ScheduleError::NoThread((), refused),
            Self::Forked(_) => ScheduleError::Forked(()),
            Self::TooMany(_) => ScheduleError::TooMany(()),
        }
    }

    /// Returns whether the scheduled pool, or the pool under it, is released.
    pub fn is_released(&self) -> bool {
        matches!(self, Self::Released(_))
    }
}

impl<F> fmt::Debug for ScheduleError<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Released(_) => f.write_str("Released(..)"),
            Self::ZeroPeriod(_) => f.write_str("ZeroPeriod(..)"),
            Self::NoThread(_, refused) => write!(f, "NoThread(.., {refused:?})"),
            Self::Forked(_) => f.write_str("Forked(..)"),
            Self::TooMany(_) => f.write_str("TooMany(..)"),
        }
    }
}

impl<F> fmt::Display for ScheduleError<F> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Released(_) => f.write_str("the scheduled pool is released"),
            Self::ZeroPeriod(_) => f.write_str("the period of a series must be longer than zero"),
            Self::NoThread(_, refused) => {
                write!(f, "the timer thread could not be started: {refused}")
            }
            Self::Forked(_) => {
                f.write_str("the pool belongs to the parent process (this one was forked)")
            }
            Self::TooMany(_) => f.write_str("too many schedules are pending"),
        }
    }
}

impl<F> error::Error for ScheduleError<F> {
    fn source(&self) -> Option<&(dyn error::Error + 'static)> {
        match self {
            Self::NoThread(_, refused) => Some(refused),
            _ => None,
        }
    }
}

/// Error of moving a run to another time. The schedule is unchanged.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ResetError {
    /// The run is due: it waits for room in the pool, or runs.
    Due,
    /// The schedule has ended, or is ending.
    Ended,
    /// The scheduled pool, or the pool under it, is released.
    Released,
    /// This process is a fork of the one that built the pool, and has no workers.
    Forked,
}

impl fmt::Display for ResetError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Due => "the run is already due",
            Self::Ended => "the schedule has ended",
            Self::Released => "the scheduled pool is released",
            Self::Forked => "the pool belongs to the parent process (this one was forked)",
        })
    }
}

impl error::Error for ResetError {}
