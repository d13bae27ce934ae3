//! Interface for `pool-util`, `multi-pool`, `scheduled-pool` and `async-pool`, in addition to the public one.
//!
//! **Exempt from semantic versioning.** These crates are released together and depend on each other
//! with exact versions. Items of this module can change in any release without notice. They are
//! documented for authors of another kind of pool.
//!
//! | used by | items | purpose |
//! |---|---|---|
//! | all but `async-pool` | [`PoolHandle`], [`Admit`], [`AdmitHandle`], [`TaskOptions`] | a pool, or several pools behind one handle, without keeping them open |
//! | `multi-pool` | [`Awaited`], [`Disposal`], [`Target`], [`WaitLimits`], [`WhenFull`] | implementing [`Admit`] for several pools |
//! | `multi-pool` | [`build_group`], [`name_of_group`], [`are_at_rest`], [`LoadStats`] | members: building them, and reading their figures without a lock (`scheduled-pool` uses [`are_at_rest`] too) |
//! | `multi-pool` | [`Ticket`], [`Request`], [`Answer`], [`Enqueued`], [`WaiterCount`], [`Deferred`] | waiting in several wait queues at once, and sections under a lock of the group |
//! | `anthill` | [`build_unstaffed`] | the default pool of a forked child |
//! | `pool-util` | [`TaskRef`], [`SpawnCell`], [`Listener`] | joining and cancelling the tasks of a group or scope |
//! | `pool-util`, `scheduled-pool` | [`is_large`], [`Packed`], [`refuse`] | moving large captures few times |
//! | `pool-util` | [`Work`], [`job_of`], [`work_of`], [`plain_job`], [`closure_of`], [`Ignored`], [`execute_unseen`], [`CarriedSpan`] | tasks that drain a queue of pieces |
//! | `pool-util` | [`Demand`], [`Search`], [`Searches`], [`TicketList`], [`JOIN_SPIN`], [`spin_until`], [`look_before_join`] | searching, spinning and joining as the pool's workers do |
//! | `pool-util` | [`OptionsHost`], [`PriorityHost`], [`SpawnWithOptions`], [`SubmitWithOptions`], [`AwaitWithOptions`] | a `TaskBuilder` for groups and scopes |
//! | `pool-util` | [`WaitLimits`], and the calls of [`PoolHandle`] for reserved room | tasks that wait outside the queue with a permit each |
//! | `multi-pool`, `pool-util` | [`RawHandle`] | the handle of a task without its value's type |
//! | `pool-util`, `scheduled-pool`, `async-pool` | [`Promise`], [`Promised`], [`Joined`], [`join`], [`poll`] | the result of a task, and waiting for it |
//! | `pool-util`, `scheduled-pool` | [`TaskContext`], [`TaskResult`], [`Outcome`], [`Recorded`] | running a task and reporting its outcome (`async-pool` uses [`TaskContext`] too) |
//! | `scheduled-pool` | [`ScheduledTask`], [`Resolve`], [`Entered`], [`Queued`], [`ReleaseListener`] | tasks that the scheduler can take back at any time, and a callback at the release |
//! | `scheduled-pool`, `async-pool` | [`Waiter`], [`WakeList`], [`Events`], [`EventWait`], [`EventFuture`] | waking threads and futures after the lock is unlocked |
//! | `async-pool` | [`WaitQueue`], [`WaiterEntry`], [`Request`], [`TicketList`] | its own admission, with the same wait queue |

pub use crate::engine::admit::{Admit, AdmitHandle, refuse};
pub use crate::engine::core::Target;
pub use crate::engine::life::Disposal;
pub use crate::engine::wait::Awaited;
pub use crate::face::task_builder::{
    AwaitWithOptions, OptionsHost, PriorityHost, SpawnWithOptions, SubmitWithOptions,
};
pub use crate::sched::decide::{Demand, WhenFull};
pub use crate::sched::effects::ReleaseListener;
pub use crate::sched::event::{EventFuture, EventWait, Events};
pub use crate::sched::load::LoadStats;
pub use crate::sched::load::Outcome;
pub use crate::sched::spin::{JOIN_SPIN, look_before_join, spin_until};
pub use crate::sched::waiters::TicketList;
pub use crate::sched::waiters::{Request, WaitQueue, WaiterCount, WaiterEntry};
pub use crate::sched::workers::{AdaptiveSpin, Search, Searches};
pub use crate::sister::group::{
    Answer, Deferred, Enqueued, Ticket, are_at_rest, build_group, build_unstaffed, name_of_group,
};
pub use crate::sister::pool_handle::PoolHandle;
pub use crate::sister::pool_handle::{Entered, Queued, ScheduledTask};
pub use crate::task::cell::SpawnCell;
pub use crate::task::closures::Ignored;
pub use crate::task::erased::{Packed, Work, closure_of, job_of, plain_job, work_of};
pub use crate::task::handle::{RawHandle, TaskRef};
pub use crate::task::large::is_large;
pub use crate::task::options::CarriedSpan;
pub use crate::task::options::Recorded;
pub use crate::task::options::{TaskOptions, WaitLimits};
pub use crate::task::promise::{Joined, Listener, Promise, Promised, join, poll};
pub use crate::task::run::{PanicHook, Resolve, TaskContext, TaskResult, execute_unseen};
pub use sync_shim::waiter::{Waiter, WakeList};
