//! What `multi-pool` and `scheduled-pool` need of a pool, beyond what everybody may call.
//!
//! **Exempt from semantic versioning.** These crates are released together and ask for each other in
//! exactly one version; what stands here changes with them, in any release and without notice. It is
//! documented, because it is how one would put another kind of pool on top of these.
//!
//! | items | what they are for |
//! |---|---|
//! | [`Child`], [`Deferred`], [`Ticket`], [`Enrolled`], [`Answer`], [`Crowd`], [`Gauge`], [`build_group`], [`Admit`] | several pools as one: sections under a lock of the group, waiting in several lines at once, and figures that are read without a lock |
//! | [`Door`], [`Errand`], [`Entered`], [`Queued`], [`Watch`] | a scheduler: tasks that their owner may take back at any time, a way into the line that neither waits nor is refused for want of room, and word of the release |
//! | [`Promise`], [`Promised`], [`join`], [`poll`], [`Joined`] | a value, who waits for it, and a handle that may be gone |
//! | [`Waiter`], [`WakeList`], [`Event`], [`EventWait`] | waking threads and tasks once no lock is held |
//! | [`Env`], [`Ran`], [`Outcome`], [`Resolve`] | running a task, and what came of it |

pub use crate::group::{Answer, Child, Deferred, Enrolled, Ticket, build_group, name_of_group};
pub use crate::sched::decide::OwnWorker;
pub use crate::sched::effects::Watch;
pub use crate::sched::load::Gauge;
pub use crate::sched::waiter::{Event, EventWait, Waiter, WakeList};
pub use crate::sched::waiters::Crowd;
pub use crate::scheduler::{Door, Entered, Errand, Queued};
pub use crate::submit::{Admit, Admitted};
pub use crate::task::promise::{Joined, Look, Promise, Promised, join, poll};
pub use crate::task::run::{Env, Outcome, Ran, Resolve};
