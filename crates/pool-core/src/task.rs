//! Tasks: how a task is stored in the queue, runs, and passes its value to a handle.
//!
//! Nothing here knows a pool or decides where and when a task runs. Most of the crate's `unsafe` code is here;
//! `UNSAFE.md` lists it with the user code that runs while an invariant is suspended.

pub(crate) mod accept;
pub(crate) mod cancel;
pub(crate) mod cell;
pub(crate) mod closures;
pub(crate) mod current;
pub(crate) mod discarded;
pub(crate) mod erased;
pub(crate) mod func;
pub(crate) mod handle;
pub(crate) mod hook;
pub(crate) mod label;
pub(crate) mod options;
pub(crate) mod pack;
pub(crate) mod promise;
pub(crate) mod record;
pub(crate) mod recorded;
pub(crate) mod recorded_job;
pub(crate) mod run;
pub(crate) mod span;
