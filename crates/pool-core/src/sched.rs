//! The scheduler: which task goes to which worker, which submitter waits, which thread is woken.
//!
//! [`decide`] is arithmetic, [`state`] applies it as sections under the lock, [`effects`] carries
//! out afterwards what a section decided. Nothing here starts a thread or knows what a task does.

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
