//! A delay queue whose entries survive.
#![forbid(unsafe_code)]

#[cfg(feature = "testing")]
pub mod conformance;
mod error;
mod job;
mod notify;
mod payload;
#[cfg(feature = "sqlite")]
pub mod sqlite;
pub mod store;
#[cfg(feature = "testing")]
pub mod testing;
mod time;

#[cfg(feature = "sqlite")]
pub use self::sqlite::SqliteStore;
pub use self::{
    error::{CarriedOut, ErrorKind, PushError, SettleError, StoreError, TakeError},
    job::{Cancelled, JobId, Merge, NewJob, Put, Reset, Token, Which},
    notify::{Notifier, Notifiers, Registration},
    payload::{DecodeError, Payload},
    store::{EnqueueIn, Store},
    time::{StoreClock, StoreTime, WallClock, When},
};
