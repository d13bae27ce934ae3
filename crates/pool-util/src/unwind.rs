//! Unwind safety of the handles: each may be used after a panic was caught.
//!
//! State that a handle shares is accessed under a lock only, and no user code runs under a lock. So a panic leaves it
//! consistent.

use std::panic::{RefUnwindSafe, UnwindSafe};

use crate::{Keyed, MapCanceller, PoolExt, TaskGroup};

impl<T: Send + 'static, P: PoolExt> UnwindSafe for TaskGroup<T, P> {}
impl<T: Send + 'static, P: PoolExt> RefUnwindSafe for TaskGroup<T, P> {}
impl<K, S: RefUnwindSafe, P: PoolExt> UnwindSafe for Keyed<K, S, P> {}
impl<K, S: RefUnwindSafe, P: PoolExt> RefUnwindSafe for Keyed<K, S, P> {}
impl UnwindSafe for MapCanceller {}
impl RefUnwindSafe for MapCanceller {}
