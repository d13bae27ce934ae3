//! A delay queue whose entries survive.
#![forbid(unsafe_code)]

mod builder;
mod calls;
mod claimed;
mod clock;
#[cfg(feature = "testing")]
pub mod conformance;
mod control;
mod error;
mod job;
mod notify;
mod offset;
mod payload;
mod pump;
mod queue;
mod reply;
#[cfg(feature = "sqlite")]
pub mod sqlite;
mod stats;
pub mod store;
mod take;
#[cfg(feature = "testing")]
pub mod testing;
mod time;
mod worker;

#[cfg(feature = "sqlite")]
pub use self::sqlite::SqliteStore;
pub use self::{
    builder::{
        BuildError, Builder, FIRST_BACK_OFF, HORIZON, LEASE, LONGEST_BACK_OFF, MAX_ATTEMPTS,
    },
    claimed::{Claimed, Retried},
    error::{CarriedOut, ErrorKind, PushError, SettleError, StoreError, TakeError},
    job::{Cancelled, JobId, Merge, NewJob, Put, Reset, Token, Which},
    notify::{Notifier, Notifiers, Registration},
    payload::{DecodeError, Payload},
    pump::{FIRST_PAUSE, LONGEST_PAUSE, SAFETY_LOOK},
    queue::{CancelError, DurableQueue, ShutDown},
    reply::SettleFuture,
    stats::Stats,
    store::{EnqueueIn, Store},
    take::TakeFuture,
    time::{StoreClock, StoreTime, WallClock, When},
    worker::{StartError, Worker, WorkerBuilder},
};
