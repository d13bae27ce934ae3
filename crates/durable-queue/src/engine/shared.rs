//! State shared by a queue's handles and its pump.

use std::sync::Arc;

use pool_core::Pool;
use sync_shim::Mutex;

use crate::engine::combine::Combiner;
use crate::engine::config::{Config, Policy};
use crate::engine::control::Control;

pub(crate) struct Shared<S> {
    // USER CODE: each call of the store. No lock is held. The pump and call threads call it through `pump::called`,
    // which catches panics. On other threads a panic is the caller's. Its drop is on the thread that drops the last handle.
    pub(crate) store: S,
    pub(crate) name: String,
    pub(crate) control: Arc<Control>,
    pub(crate) policy: Arc<Policy>,
    pub(crate) config: Config,
    pub(crate) pushes: Combiner,
    /// The call threads.
    pub(crate) calls: Pool,
    /// Held while the pump is started: other calls wait for the outcome.
    pub(crate) starting: Mutex<()>,
}
