//! What a release took out before it started: it goes back to the caller, who may run it, or schedule it
//! elsewhere.
//!
//! # What always holds
//! 1. The schedule has ended with `Released` before its task is here: what the task returns goes to no
//!    handle.
//! 2. A task that is not taken is dropped with its place here, and a panic of that ends there.

use std::borrow::Cow;
use std::fmt;
use std::ops::ControlFlow;
use std::time::{Duration, Instant};
use std::vec::IntoIter;

use sync_shim::foreign::drop_quietly;

use crate::series::Series;

/// What [`ScheduledPool::release_now`](crate::ScheduledPool::release_now) took out: the schedules, which
/// it gives back, and how many tasks were the pool's own.
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
///         UnstartedTask::Once(task) => task(), // Here and now, rather than not at all.
///         other => println!("{other:?} goes on elsewhere, or not"),
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

    /// How many tasks and series never started, or not again, those that were the pool's own included.
    pub fn len(&self) -> usize {
        self.schedules.len() + self.tasks
    }

    /// Whether everything had started.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// How many of them were the pool's own: submitted or spawned, and dropped by its `release_now`.
    pub fn tasks(&self) -> usize {
        self.tasks
    }

    /// The schedules, in no particular order.
    pub fn schedules(&self) -> &[UnstartedSchedule] {
        &self.schedules
    }
}

/// The schedules, in no particular order.
impl IntoIterator for Unstarted {
    type Item = UnstartedSchedule;
    type IntoIter = IntoIter<UnstartedSchedule>;

    fn into_iter(self) -> Self::IntoIter {
        self.schedules.into_iter()
    }
}

/// A schedule that a release ended before its task started, or between two runs of it.
///
/// Its handle says [`Released`](pool_core::JoinError::Released). Dropped, it drops the task with what
/// that captured.
pub struct UnstartedSchedule {
    name: Option<Cow<'static, str>>,
    type_name: &'static str,
    due: Option<Instant>,
    /// `None` once it was taken.
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

    /// The task's [name](pool_core::TaskBuilder::name), if it has one.
    pub fn name(&self) -> Option<&str> {
        self.name.as_deref()
    }

    /// The type name of its closure.
    pub fn task(&self) -> &'static str {
        self.type_name
    }

    /// When it was due; past if it waited for room, or for a worker. `None` if it was never.
    pub fn due(&self) -> Option<Instant> {
        self.due
    }

    /// Whether it was a series.
    pub fn is_series(&self) -> bool {
        !matches!(self.task, Some(UnstartedTask::Once(_)))
    }

    /// What it was to run.
    ///
    /// # Panics
    /// Never: it is taken once, with the schedule.
    pub fn into_task(mut self) -> UnstartedTask {
        let task = self.task.take();
        task.expect("only this takes it, and it takes all")
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

/// What a schedule was to run, in the form of the call that schedules it again, in another scheduled
/// pool. Values are dropped: there is no handle any more.
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
    /// To run once.
    Once(Box<dyn FnOnce() + Send>),
    /// To run as the series says, with the runs that were left, until it breaks.
    Series(Box<dyn FnMut() -> ControlFlow<()> + Send>, Series),
    /// To run when it says, until it breaks.
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
