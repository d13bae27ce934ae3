//! Why nothing was scheduled. The task comes back in the error, unrun.

use std::{error, fmt, io};

/// The task was not scheduled. It comes back unrun.
///
/// [`without_task`](Self::without_task) is the reason alone, for `?` after tasks whose captures are `Send`
/// and not `Sync`.
#[non_exhaustive]
pub enum ScheduleError<F = ()> {
    /// The scheduled pool, or the pool under it, is released.
    Released(F),
    /// A series with a period or a delay of 0 would always be due.
    ZeroPeriod(F),
    /// The timer thread could not be started.
    NoThread(F, io::Error),
    /// This process is a fork of the one that made the pool; its threads stayed there.
    Forked(F),
    /// As many schedules have not ended as there are ids for them: more than four thousand million.
    TooMany(F),
}

/// Why a schedule is refused, without the task.
#[derive(Debug)]
pub enum Reason {
    /// No more schedules are accepted.
    Released,
    /// The timer thread could not be started.
    NoThread(io::Error),
    /// The heap has no id left.
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
    /// The task.
    pub fn into_task(self) -> F {
        match self {
            Self::Released(task)
            | Self::ZeroPeriod(task)
            | Self::NoThread(task, _)
            | Self::Forked(task)
            | Self::TooMany(task) => task,
        }
    }

    /// The reason alone: `Send`, `Sync` and `'static`, whatever the task captures. Drops the task, here.
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

    /// Whether the scheduled pool, or the pool under it, is released.
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
            Self::ZeroPeriod(_) => f.write_str("a series needs a period longer than 0"),
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

/// A run was not given another time.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum ResetError {
    /// Its time has come: it waits for room in the pool, or runs.
    Due,
    /// The schedule has ended, or is about to.
    Ended,
    /// The scheduled pool, or the pool under it, is released.
    Released,
    /// This process is a fork of the one that made the pool.
    Forked,
}

impl fmt::Display for ResetError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Due => "the run's time has come",
            Self::Ended => "the schedule has ended",
            Self::Released => "the scheduled pool is released",
            Self::Forked => "the pool belongs to the parent process (this one was forked)",
        })
    }
}

impl error::Error for ResetError {}
