//! The timer over any [`Executor`], for the models and the fuzzer, which run it over a simplified pool.
//!
//! **Exempt from semantic versioning**: it changes in any release without notice.

pub use pool_core::internals::{Joined, Promised, Waiter};

pub use crate::body::{Body, Many, Paced};
pub use crate::error::{Reason, ResetError};
pub use crate::executor::{Executor, Offer, QueueTicket};
pub use crate::plan::Plan;
pub use crate::schedule::Joinable;
pub use crate::state::{Keep, Kept, ReleasePolicy};
pub use crate::timer::{Config, Core};
