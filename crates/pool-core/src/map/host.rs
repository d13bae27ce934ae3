//! What mappings, scopes and groups need of a pool of closures, or of several.

use std::future::Future;
use std::sync::Arc;

use crate::accept::Accepts;
use crate::config::OnFull;
use crate::pool_handle::PoolHandle;
use crate::submit::{Admit, AdmitHandle, Spawned};
use crate::subqueue::Site;
use crate::task::closures::Closures;
use crate::task::options::TaskOptions;

/// A pool of closures, or several, that a mapping or a scope runs on.
pub trait Host: Clone + Send + Sync + 'static {
    /// Where drain tasks run.
    fn site(&self) -> Site;
    /// Whose clock, panic hook and nesting limit hold.
    fn pool_handle(&self) -> PoolHandle;
    /// What a submit without a time limit does at a full pool, as built.
    fn on_full(&self) -> OnFull;
    /// Hands a task over.
    ///
    /// # Errors
    /// The task comes back unrun.
    fn spawn_on<F>(&self, task: F, on_full: OnFull) -> SpawnedOn<F>
    where
        Closures: Accepts<F>;
    /// Hands a task over, with options.
    ///
    /// # Errors
    /// The task comes back unrun.
    fn spawn_with_options_on<F>(
        &self,
        task: F,
        options: TaskOptions,
        on_full: OnFull,
    ) -> SpawnedOn<F>
    where
        Closures: Accepts<F>;
    /// Hands a task over as a future that waits for room.
    ///
    /// # Errors
    /// The task comes back unrun.
    fn spawn_async_on<F>(
        &self,
        task: F,
    ) -> impl Future<Output = SpawnedOn<F>> + Send + use<Self, F>
    where
        Closures: Accepts<F>;
}

/// The handle of a task that a [`Host`] has accepted, or the task.
pub type SpawnedOn<F> = Spawned<<Closures as Accepts<F>>::Value, F>;

impl<P> Host for P
where
    P: AdmitHandle<Runner = Closures> + Clone + Send + Sync + 'static,
{
    fn site(&self) -> Site {
        Site::of(self.admit())
    }

    fn pool_handle(&self) -> PoolHandle {
        self.admit().pool_handle()
    }

    fn on_full(&self) -> OnFull {
        self.pool_handle().on_full()
    }

    fn spawn_on<F>(&self, task: F, on_full: OnFull) -> SpawnedOn<F>
    where
        Closures: Accepts<F>,
    {
        self.admit().spawn_task(task, None, on_full)
    }

    fn spawn_with_options_on<F>(
        &self,
        task: F,
        options: TaskOptions,
        on_full: OnFull,
    ) -> SpawnedOn<F>
    where
        Closures: Accepts<F>,
    {
        self.admit().spawn_task(task, Some(options), on_full)
    }

    fn spawn_async_on<F>(&self, task: F) -> impl Future<Output = SpawnedOn<F>> + Send + use<P, F>
    where
        Closures: Accepts<F>,
    {
        Arc::clone(self.admit()).spawn_task_async(task, None)
    }
}
