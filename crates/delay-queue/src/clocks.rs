//! Clocks whose alarms are timers of a runtime, so that the runtime's own driver wakes the futures.

#[cfg(feature = "async-io")]
mod async_io;
#[cfg(feature = "tokio")]
mod tokio;

#[cfg(feature = "async-io")]
pub use async_io::AsyncIoClock;
#[cfg(feature = "tokio")]
pub use tokio::TokioClock;
