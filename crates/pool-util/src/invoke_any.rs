//! First success of several tasks. The tasks are a group; dropping it cancels the remaining ones.

use pool_core::internals::Joined;
use pool_core::{OnFull, SubmitError};

use crate::task_group::{TaskGroup, judge};
use crate::{MapError, PoolExt};

/// See [`PoolExt::invoke_any`].
///
/// # Errors
/// The last error, if no task succeeds.
pub(crate) fn invoke_any<P, I, F, T, E>(host: &P, tasks: I) -> Result<Option<T>, MapError<E>>
where
    P: PoolExt,
    I: IntoIterator<Item = F>,
    F: FnOnce() -> Result<T, E> + Send + 'static,
    T: Send + 'static,
    E: Send + 'static,
{
    let (group, mut tries) = (TaskGroup::of(host), Tries(None));
    for task in tasks {
        let spawned = match group.spawn_with(task, OnFull::Wait(None)) {
            // This call waits for the task, so it can as well run the task.
            Err(SubmitError::NoThread(task, _)) => group.spawn_with(task, OnFull::RunInCaller),
            spawned => spawned,
        };
        if let Err(refused) = spawned {
            tries.refused(refused);
            break;
        }
        if let Some(value) = tries.success_among(&group) {
            return Ok(Some(value));
        }
    }
    while let Some(ended) = group.next() {
        if let Some(value) = tries.success(ended) {
            return Ok(Some(value));
        }
    }
    tries.outcome()
}

/// The last error so far.
struct Tries<E>(Option<MapError<E>>);

impl<E: Send + 'static> Tries<E> {
    fn refused<F>(&mut self, refused: SubmitError<F>) {
        self.0 = Some(MapError::Refused(refused.without_task()));
    }

    fn success<T>(&mut self, ended: Joined<Result<T, E>>) -> Option<T> {
        judge(ended).map_err(|error| self.0 = Some(error)).ok()
    }

    /// Looks at one ended task without waiting, so that no more tasks are submitted after a success.
    fn success_among<T, P>(&mut self, group: &TaskGroup<Result<T, E>, P>) -> Option<T>
    where
        T: Send + 'static,
        P: PoolExt,
    {
        self.success(group.try_next()?)
    }

    /// Result when no task has succeeded.
    fn outcome<T>(self) -> Result<Option<T>, MapError<E>> {
        self.0.map_or(Ok(None), Err)
    }
}

/// Async version of [`invoke_any`].
///
/// # Errors
/// Those of [`invoke_any`].
pub(crate) async fn invoke_any_async<P, I, F, T, E>(
    host: P,
    tasks: I,
) -> Result<Option<T>, MapError<E>>
where
    P: PoolExt,
    I: IntoIterator<Item = F>,
    F: FnOnce() -> Result<T, E> + Send + 'static,
    T: Send + 'static,
    E: Send + 'static,
{
    let (group, mut tries) = (TaskGroup::of(&host), Tries(None));
    for task in tasks {
        if let Err(refused) = group.spawn_async(task).await {
            tries.refused(refused);
            break;
        }
        if let Some(value) = tries.success_among(&group) {
            return Ok(Some(value));
        }
    }
    while let Some(ended) = group.next_async().await {
        if let Some(value) = tries.success(ended) {
            return Ok(Some(value));
        }
    }
    tries.outcome()
}
