//! Unwind safety of the handles: each may be used after a panic was caught.
//!
//! State that a handle shares is accessed under a lock only, and no user code runs under a lock. So a panic leaves it
//! consistent.

use std::panic::{RefUnwindSafe, UnwindSafe};

use crate::base::Base;
use crate::{ScheduledHandle, ScheduledPool, WeakScheduledPool};

impl<P: Base> UnwindSafe for ScheduledPool<P> {}
impl<P: Base> RefUnwindSafe for ScheduledPool<P> {}
impl<P: Base> UnwindSafe for WeakScheduledPool<P> {}
impl<P: Base> RefUnwindSafe for WeakScheduledPool<P> {}
impl<R> UnwindSafe for ScheduledHandle<R> {}
impl<R> RefUnwindSafe for ScheduledHandle<R> {}
