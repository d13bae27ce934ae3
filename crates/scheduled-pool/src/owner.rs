//! The owner of the schedules: it is dropped with the last handle.

use std::sync::Arc;

use crate::base::Members;
use crate::timer::Core;

/// Its drop releases the schedules. Only handles hold it; the timer thread holds the core.
pub(crate) struct Owner {
    pub(crate) core: Arc<Core<Members>>,
    /// With their generations, because a rebooted pool must be left alone.
    pub(crate) members: Members,
}

impl Drop for Owner {
    fn drop(&mut self) {
        if self.members.process().is_current() {
            self.core.release(false);
        }
    }
}
