//! Schedules that `release_now` removed. The caller can run them or schedule them elsewhere.
//!
//! # Invariants
//! 1. The schedule has ended with `Released` before its task is returned, so the task's value goes to no
//!    handle.
//! 2. A task that the caller does not take is dropped with its [`UnstartedSchedule`]; a panic of that drop
//!    is caught.

use std::borrow::Cow;
use std::fmt;
use std::ops::ControlFlow;
use std::time::{Duration, Instant};
use std::vec::IntoIter;

use sync_shim::foreign::drop_quietly;

use crate::series::Series;

/// Result of [`ScheduledPool::release_now`](crate::ScheduledPool::release_now): the schedules that it
/// removed, and the number of unstarted tasks that were the pool's own.
///
/// ```
/// use std::time::Duration;
/// use pool_core::Pool;
/// use scheduled_pool::{ScheduledPool, TaskBuilderExt, UnstartedTask};
///
/// let scheduled = ScheduledPool::new(Pool::builder().capacity(1).build()?);
/// let hour = Duration::from_secs(3600);
/// let (bill, sent) = std::sync::mpsc::channel();
/// scheduled.task().name("bill").spawn_after(hour, move || bill.send(42))?;
/// let unstarted = scheduled.release_now();
/// assert_eq!(unstarted.len(), 1);
/// for schedule in unstarted {
///     assert_eq!(schedule.name(), Some("bill"));
///     match schedule.into_task() {
///         UnstartedTask::Once(task) => task(), // On this thread.
///         other => println!("{other:?} is dropped"),
///     }
/// }
/// assert_eq!(sent.recv()?, 42);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug, Default)]
pub struct Unstarted {
    schedules: Vec<UnstartedSchedule>,
    tasks: usize,
}

impl Unstarted {
    pub(crate) fn new(schedules: Vec<UnstartedSchedule>, tasks: usize) -> Self {
        Self { schedules, tasks }
    }

    /// Returns the number of removed schedules and of the pool's own unstarted tasks.
    pub fn len(&self) -> usize {
        self.schedules.len() + self.tasks
    }

    /// Returns whether nothing was removed.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Returns the number of the pool's own tasks, submitted or spawned, that its `release_now` dropped.
    pub fn tasks(&self) -> usize {
        self.tasks
    }

    /// Returns the schedules, in no particular order.
    pub fn schedules(&self) -> &[UnstartedSchedule] {
        &self.schedules
    }
}

/// Iterates over the schedules, in no particular order.
impl IntoIterator for Unstarted {
    type Item = UnstartedSchedule;
    type IntoIter = IntoIter<UnstartedSchedule>;

    fn into_iter(self) -> Self::IntoIter {
        self.schedules.into_iter()
    }
}

/// A schedule that a release removed before its task started, or between two runs of a series.
///
/// Its handle has ended with [`Released`](pool_core::JoinError::Released). Dropping the schedule drops
/// the task and its captures.
pub struct UnstartedSchedule {
    name: Option<Cow<'static, str>>,
    type_name: &'static str,
    due: Option<Instant>,
    /// `None` after `into_task`.
    task: Option<UnstartedTask>,
}

impl UnstartedSchedule {
    pub(crate) fn new(
        name: Option<Cow<'static, str>>,
        type_name: &'static str,
        due: Option<Instant>,
        task: UnstartedTask,
    ) -> Self {
        Self {
            name,
            type_name,
            due,
            task: Some(task),
        }
    }

    /// Returns the task's [name](pool_core::TaskBuilder::name), if it has one.
    pub fn name(&self) -> Option<&str> {
        self.name.as_deref()
    }

    /// Returns the type name of the closure.
    pub fn task(&self) -> &'static str {
        self.type_name
    }

    /// Returns the due time, in the past if the task waited for room or for a worker. `None` for a time too
    /// far away to express.
    pub fn due(&self) -> Option<Instant> {
        self.due
    }

    /// Returns whether the schedule was a series.
    pub fn is_series(&self) -> bool {
        !matches!(self.task, Some(UnstartedTask::Once(_)))
    }

    /// Returns the task.
    ///
    /// # Panics
    /// Never: the call consumes the schedule, so the task is there.
    pub fn into_task(mut self) -> UnstartedTask {
        let task = self.task.take();
        task.expect("only this call takes the task")
    }
}

impl Drop for UnstartedSchedule {
    fn drop(&mut self) {
        // USER CODE: the captures of a schedule that `release_now` returned. A panic ends here.
        drop_quietly(self.task.take());
    }
}

impl fmt::Debug for UnstartedSchedule {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("UnstartedSchedule")
            .field("name", &self.name)
            .field("task", &self.type_name)
            .field("due", &self.due)
            .field("is_series", &self.is_series())
            .finish_non_exhaustive()
    }
}

/// The task of a removed schedule, in the form that the calls of another scheduled pool accept. Its
/// values are dropped, since its handle has ended.
///
/// ```
/// use std::time::Duration;
/// use pool_core::Pool;
/// use scheduled_pool::{ScheduledPool, Series, UnstartedTask};
///
/// let old = ScheduledPool::new(Pool::builder().capacity(1).build()?);
/// let new = ScheduledPool::new(Pool::builder().capacity(1).build()?);
/// let hour = Duration::from_secs(3600);
/// old.spawn_series(hour, &Series::at_fixed_rate(hour), || println!("cuckoo"))?;
/// for schedule in old.release_now() {
///     match schedule.into_task() {
///         UnstartedTask::Once(task) => _ = new.spawn_after(hour, task)?,
///         UnstartedTask::Series(task, series) => _ = new.spawn_series_until(hour, &series, task)?,
///         UnstartedTask::SelfPaced(task) => _ = new.spawn_self_paced(hour, task)?,
///     }
/// }
/// assert_eq!(new.pending(), 1);
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub enum UnstartedTask {
    /// A task with one run: see [`spawn_after`](crate::ScheduledPool::spawn_after).
    Once(Box<dyn FnOnce() + Send>),
    /// A series with the runs that were left: see
    /// [`spawn_series_until`](crate::ScheduledPool::spawn_series_until).
    Series(Box<dyn FnMut() -> ControlFlow<()> + Send>, Series),
    /// A task that paces itself: see [`spawn_self_paced`](crate::ScheduledPool::spawn_self_paced).
    SelfPaced(Box<dyn FnMut() -> ControlFlow<(), Duration> + Send>),
}

impl fmt::Debug for UnstartedTask {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Once(_) => f.write_str("Once(..)"),
            Self::Series(_, series) => write!(f, "Series(.., {series:?})"),
            Self::SelfPaced(_) => f.write_str("SelfPaced(..)"),
        }
    }
}
