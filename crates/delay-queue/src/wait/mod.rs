//! Waiting for an entry, as a thread or as a future: one driver for all queues.
//!
//! For queues of this workspace, whose entries become ready now or at a later time: [`DelayQueue`]
//! here, and the work queue of `dedup-queue`. Not part of the crate's public promise: it may change
//! in any version.
//!
//! - [`Waiters`] is the wait queue of a queue's consumers, as arithmetic under its lock: which
//!   waiter to notify, which thread leads, when the clock's alarm replaces the leader.
//! - [`WakeList`] and [`AlarmRequest`] are its deferred effects; [`Effects`] are all effects of a
//!   section.
//! - [`Driver`] runs a section and then its effects, blocks a thread, polls a future, and sets
//!   alarms. A queue supplies its types of state and effects.
//!
//! `src/PROTOCOL.md` of this crate has the steps of each party, and the races.
//!
//! [`DelayQueue`]: crate::DelayQueue

mod alarm;
mod driver;
mod waiters;

pub use sync_shim::waiter::{Waiter, WakeList};

pub use alarm::{AlarmRequest, Discarded};
pub use driver::{Driver, Effects, Unavailable, WaitError};
pub use waiters::{Left, ReadySource, WaiterId, Waiters, WakeCounts};
