//! What `multi-pool` and `scheduled-pool` need of a pool, beyond its public interface.
//!
//! **Exempt from semantic versioning.** These crates are released together and ask for each other
//! in exactly one version; what stands here changes with them, in any release and without notice.
//! It is documented because another kind of pool would be built on it.
//!
//! | items | what they are for |
//! |---|---|
//! | [`PoolHandle`] | a pool, for both of the next |
//! | [`Deferred`], [`Ticket`], [`Request`], [`Enqueued`], [`Answer`], [`WaiterCount`], [`LoadStats`], [`build_group`], [`are_at_rest`], [`Admit`], [`AdmitHandle`], [`WaitLimits`] | several pools as one: sections under a lock of the group, waiting in several wait queues at once, and figures that are read without a lock |
//! | [`map`], [`for_each`], [`scope`], [`invoke_any`], [`invoke_any_async`], [`submit_batch`], [`Chunk`], [`Host`], [`SpawnedOn`], [`Order`], [`Site`], [`Submitter`], [`DrainTask`], [`Submission`] | mapping iterators, and scopes, on any kind of pool of closures |
//! | [`ScheduledTask`], [`Entered`], [`Queued`], [`ReleaseListener`] | a scheduler: tasks that their owner may take back at any time, a way into the wait queue that neither waits nor is refused for want of room, and a call at the release |
//! | [`Promise`], [`Promised`], [`join`], [`poll`], [`Joined`] | a value, its waiter, and a handle that may be gone |
//! | [`TaskOptions`], [`OptionsHost`], [`SpawnWithOptions`], [`SubmitWithOptions`], [`AwaitWithOptions`], [`Recorded`] | what a `TaskBuilder` gives its task, and to whom |
//! | [`Waiter`], [`WakeList`], [`Events`], [`EventWait`], [`EventFuture`], [`Deadline`] | waking threads and tasks once no lock is held |
//! | [`TaskContext`], [`TaskResult`], [`Outcome`], [`Unrun`], [`Resolve`] | running a task, and what came of it |

pub use crate::engine::admit::{Admit, AdmitHandle, Admitted, Spawned};
pub use crate::engine::wait::Awaited;
pub use crate::engine::wait::Deadline;
pub use crate::face::batch::submit_batch;
pub use crate::face::task_builder::{
    AwaitWithOptions, OptionsHost, SpawnWithOptions, SubmitWithOptions,
};
pub use crate::sched::decide::{Demand, WhenFull};
pub use crate::sched::effects::ReleaseListener;
pub use crate::sched::event::{EventFuture, EventWait, Events};
pub use crate::sched::join_spin::{has_unparked_joiner, look_before_join, take_woken_joiner};
pub use crate::sched::load::LoadStats;
pub use crate::sched::queue::Chunk;
pub use crate::sched::search::{Search, Searches};
pub use crate::sched::spin::{JOIN_SPIN, SpinPolicy, spin_until};
pub use crate::sched::ticket_list::TicketList;
pub use crate::sched::waiters::{Request, WaiterCount};
pub use crate::sister::group::{
    Answer, Deferred, Enqueued, Ticket, are_at_rest, build_group, name_of_group,
};
pub use crate::sister::pool_handle::PoolHandle;
pub use crate::sister::scheduler::{Entered, Queued, ScheduledTask};
pub use crate::task::cell::SpawnCell;
pub use crate::task::closures::Ignored;
pub use crate::task::erased::{Work, job_of};
pub use crate::task::handle::{RawHandle, TaskRef};
pub use crate::task::options::{TaskOptions, WaitLimits};
pub use crate::task::promise::{Joined, Listener, Look, Promise, Promised, join, poll};
pub use crate::task::recorded::Recorded;
pub use crate::task::run::{Outcome, Resolve, TaskContext, TaskResult, Unrun, execute_unseen};
pub use crate::task::span::CarriedSpan;
pub use sync_shim::waiter::{Waiter, WakeList};
