//! Workers: they take jobs and run handlers, as threads or as futures.

#[cfg(feature = "async")]
pub(crate) mod handler;
pub(crate) mod kinds;
pub(crate) mod lanes;
pub(crate) mod pace;
#[cfg(feature = "async")]
pub(crate) mod run;
#[cfg(feature = "async")]
pub(crate) mod set;
pub(crate) mod worker;
