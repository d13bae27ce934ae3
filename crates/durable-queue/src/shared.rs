//! State shared by a queue's handles and its pump.

use std::sync::Arc;

use sync_shim::Mutex;
use sync_shim::thread::JoinHandle;

use crate::combine::Combiner;
use crate::config::{Config, Policy};
use crate::control::Control;

pub(crate) struct Shared<S> {
    pub(crate) store: S,
    pub(crate) name: String,
    pub(crate) control: Arc<Control>,
    pub(crate) policy: Arc<Policy>,
    pub(crate) config: Config,
    pub(crate) pushes: Combiner,
    /// The pump's thread, once started.
    pub(crate) pump: Mutex<Option<JoinHandle>>,
}
