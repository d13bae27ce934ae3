//! Code shared by the stores of this workspace, beyond the public interface.
//!
//! **Exempt from semantic versioning.** The store crates are released together with this one and require its
//! exact version. This module may change in any release, without notice. A [`Store`](crate::Store) of your
//! own does not need it.
//!
//! | items | purpose |
//! |---|---|
//! | [`Own`] | a resource that a forked child neither uses nor drops |
//! | [`Version`] | the version of a store's data, and the oldest version that may use them |
//! | [`Slots`], [`Caller`] | sessions with a server |
//! | [`Hub`], [`watch`], [`Server`], [`Session`], [`Messages`], [`Timing`] | the thread that receives announcements of other processes |
//! | [`Sizes`] | size limits of jobs, checked before the server is called |
//! | [`SAFETY_LOOK`], [`FIRST_PAUSE`], .. | intervals and bounds of the engine, for stores and tests |
//! | [`SharedClock`], [`ANYTHING`], [`NO_TLS`], [`called`] | smaller parts |

mod listen;
mod own;
mod sizes;
mod slots;
mod version;

pub use self::listen::{
    Hub, Lost, Messages, PROBE_ANSWER, PROBE_EVERY, Probe, Received, Server, Session, Timing, poll,
    watch,
};
pub use self::own::Own;
pub use self::sizes::Sizes;
pub use self::slots::{Caller, Slots};
pub use self::version::Version;
pub use crate::api::result::{FIRST_LOOK, LONGEST_LOOK};
pub use crate::engine::config::{LONGEST_BACK_OFF, MOST_JOBS, SHORTEST_PATIENCE};
pub use crate::engine::horizon::LONGEST_HORIZON;
pub use crate::engine::pump::{CANCEL_PAUSE, DONE_BATCH, FIRST_PAUSE, LONGEST_PAUSE, SAFETY_LOOK};
pub use crate::engine::unread::{FIRST_UNREAD, LONGEST_UNREAD};
pub use crate::store::failures::MOST_FAILURES;
pub use crate::store::notify::ANYTHING;
pub use crate::threads::call::{CALL_KEEP_ALIVE, CALL_THREADS};
pub use crate::threads::clock::SharedClock;
pub use crate::threads::pumps::PUMP_THREADS;

use crate::store::Result;

/// Calls user code, such as a notifier.
///
/// # Errors
/// If it panics. The error says that the call may have been carried out.
pub fn called<R>(call: impl FnOnce() -> Result<R>) -> Result<R> {
    crate::engine::pump::called(call)
}

/// Error text of both clients, which do not distinguish the two causes.
pub const NO_TLS: &str = "the server does not support TLS, or its certificate is not trusted";
