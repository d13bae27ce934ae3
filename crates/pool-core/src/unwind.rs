//! Unwind safety of the handles: each may be used after a panic was caught.
//!
//! State that a handle shares is accessed under a lock only, and no user code runs under a lock. So a panic leaves it
//! consistent.

use std::panic::{RefUnwindSafe, UnwindSafe};

use crate::engine::admit::Admit;
use crate::engine::runner::Runner;
use crate::{
    CancelOnDrop, CancelToken, Cancelled, JoinHandle, Permit, ReserveFuture, WeakWorkerPool,
    WorkerPool,
};

impl<R: Runner, A: Admit> UnwindSafe for WorkerPool<R, A> {}
impl<R: Runner, A: Admit> RefUnwindSafe for WorkerPool<R, A> {}
impl<R: Runner, A: Admit> UnwindSafe for WeakWorkerPool<R, A> {}
impl<R: Runner, A: Admit> RefUnwindSafe for WeakWorkerPool<R, A> {}
impl<R: Runner, A: Admit> UnwindSafe for ReserveFuture<R, A> {}
impl<R: Runner, A: Admit> RefUnwindSafe for ReserveFuture<R, A> {}
impl<R: Runner> UnwindSafe for Permit<R> {}
impl<R: Runner> RefUnwindSafe for Permit<R> {}
impl<R> UnwindSafe for JoinHandle<R> {}
impl<R> RefUnwindSafe for JoinHandle<R> {}
impl UnwindSafe for CancelToken {}
impl RefUnwindSafe for CancelToken {}
impl UnwindSafe for CancelOnDrop {}
impl RefUnwindSafe for CancelOnDrop {}
impl UnwindSafe for Cancelled {}
impl RefUnwindSafe for Cancelled {}
