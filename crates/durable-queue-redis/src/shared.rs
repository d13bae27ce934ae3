//! What the clones of a store share.

use durable_queue::Threads;
use durable_queue::internals::Hub;

use crate::server::session::Sessions;

#[derive(Debug)]
pub(crate) struct Shared {
    pub(crate) sessions: Sessions,
    pub(crate) hub: Hub,
    /// The channel of announcements.
    pub(crate) channel: String,
    pub(crate) threads: Threads,
}
