//! The timer over any [`Executor`]: what [`ScheduledPool`](crate::ScheduledPool) is made of.
//!
//! **Exempt from semantic versioning**: it changes in any release and without notice. It is what the
//! models and the fuzzer run, over a simple twin of a pool.

pub use pool_core::internals::{Joined, Promised, Waiter};

pub use crate::body::{Body, Many, Paced};
pub use crate::error::{Reason, ResetError};
pub use crate::executor::{Executor, Offer, QueueTicket};
pub use crate::plan::Plan;
pub use crate::schedule::Joinable;
pub use crate::state::{Keep, Kept, ReleasePolicy};
pub use crate::timer::{Config, Core};
