//! The scheduler: it assigns tasks to workers, queues submitters and decides which thread to wake.
//!
//! [`decide`] holds the decisions as pure functions, [`state`] applies them in sections under the lock, and
//! [`effects`] carries out what a section deferred. The scheduler starts no thread and runs no task.

pub(crate) mod backoff;
pub(crate) mod counts;
pub(crate) mod decide;
pub(crate) mod effects;
pub(crate) mod event;
pub(crate) mod exits;
pub(crate) mod idle;
pub(crate) mod join_spin;
pub(crate) mod load;
pub(crate) mod lock;
pub(crate) mod queue;
pub(crate) mod ready;
pub(crate) mod search;
pub(crate) mod shared;
pub(crate) mod slots;
pub(crate) mod spin;
pub(crate) mod state;
pub(crate) mod striped;
pub(crate) mod ticket_list;
pub(crate) mod waiters;
