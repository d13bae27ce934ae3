//! The timer over any sink, for models, which put a simple twin in the pool's place.
//!
//! Not part of the documented interface: it changes without notice.

use std::sync::Arc;

use crate::body::{Many, Once};
use crate::plan::Plan;
use crate::series::OnPanic;

pub use pool_core::internals::{Joined, Promised, Waiter};

pub use crate::cell::Joinable;
pub use crate::sink::{Offer, Place, Sink};
pub use crate::state::{Keep, Kept, Spare};
pub use crate::timer::{Config, Core};

impl<S: Sink> Core<S> {
    /// Enters a task with one run. `None` if it is refused.
    pub fn once<F, R>(self: &Arc<Self>, due: u64, task: F) -> Option<Arc<dyn Joinable<R>>>
    where
        F: FnOnce() -> R + Send + 'static,
        R: Send + 'static,
    {
        let cell = self.schedule(Once(Some(task)), Plan::Once, due);
        cell.ok().map(|cell| cell as _)
    }

    /// Enters a series that rests for `delay` between its runs. `None` if it is refused.
    pub fn series<F>(
        self: &Arc<Self>,
        due: u64,
        delay: u64,
        runs: Option<u64>,
        task: F,
    ) -> Option<Arc<dyn Joinable<()>>>
    where
        F: FnMut() + Send + 'static,
    {
        let body = Many {
            task,
            left: runs,
            on_panic: OnPanic::Stop,
        };
        let cell = self.schedule(body, Plan::Rest { delay }, due);
        cell.ok().map(|cell| cell as _)
    }
}
