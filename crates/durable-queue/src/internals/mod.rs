//! What the stores of this workspace share, beyond the public interface.
//!
//! **Exempt from semantic versioning.** The store crates are released together with this one and ask for it in
//! exactly one version; this module changes with them, in any release and without notice. A [`Store`](crate::Store)
//! of your own needs none of it.
//!
//! | items | what they are for |
//! |---|---|
//! | [`Own`] | a resource that a forked child neither uses nor drops |
//! | [`Version`] | the version that is written in a store, and the oldest one that may work on it |
//! | [`Slots`], [`Caller`] | the sessions with a server |
//! | [`Hub`], [`watch`], [`Server`], [`Session`], [`Messages`], [`Timing`] | the thread that listens for announcements of other processes |
//! | [`Sizes`] | limits on the size of a job, checked before the server is asked |
//! | [`SharedClock`], [`ANYTHING`], [`NO_TLS`], [`called`] | smaller parts |

mod listen;
mod own;
mod sizes;
mod slots;
mod version;

pub use self::listen::{
    Hub, Lost, Messages, PROBE_ANSWER, PROBE_EVERY, Probe, Received, Server, Session, Timing, watch,
};
pub use self::own::Own;
pub use self::sizes::Sizes;
pub use self::slots::{Caller, Slots};
pub use self::version::Version;
pub use crate::clock::SharedClock;
pub use crate::notify::ANYTHING;

use crate::store::Result;

/// Makes a call of user code, such as a notifier.
///
/// # Errors
/// If it panics, that it may have been carried out.
pub fn called<R>(call: impl FnOnce() -> Result<R>) -> Result<R> {
    crate::pump::called(call)
}

/// The text of an error of both clients, which do not tell the two causes apart.
pub const NO_TLS: &str =
    "there is no TLS with this server: it does not speak it, or its certificate is not trusted";
