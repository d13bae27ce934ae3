//! Workers: they take jobs and run handlers, as threads or as futures.

pub(crate) mod handler;
pub(crate) mod kinds;
pub(crate) mod pace;
pub(crate) mod run;
pub(crate) mod set;
pub(crate) mod worker;
