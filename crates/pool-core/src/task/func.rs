//! One function, many arguments: the runner of a `FuncPool`.

use std::any::type_name;
use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;

use crate::accept::{Accepts, Promise, Sealed};
use crate::runner::Runner;
use crate::sched::ready::Priority;
use crate::task::cell::{Body, SpawnCell};
use crate::task::pack::Packed;
use crate::task::record::{Record, TaskRecord};
use crate::task::run::{Outcome, TaskContext, TaskResult, Unrun};

type Function<T, R> = dyn Fn(T) -> R + Send + Sync;

/// Runs one function: the runner of a [`FuncPool`](crate::FuncPool).
pub struct Func<T, R> {
    pub(crate) function: Arc<Function<T, R>>,
}

/// An argument in the queue.
pub struct FuncJob<T: Send + 'static, R: Send + 'static>(Kind<T, R>);

enum Kind<T: Send + 'static, R: Send + 'static> {
    Plain(Packed<T>),
    Spawned(Arc<SpawnCell<Call<T, R, ()>>>),
    Recorded(Arc<SpawnCell<Call<T, R, TaskRecord>>>),
}

/// An argument in a cell; with an `N`, what it was given.
struct Call<T, R, N> {
    argument: Packed<T>,
    function: Arc<Function<T, R>>,
    record: PhantomData<N>,
}

impl<T: Send + 'static, R: Send + 'static, N: Record> Body for Call<T, R, N> {
    type Out = R;
    type Record = N;

    fn call(self) -> R {
        (self.function)(self.argument.into_inner())
    }

    fn name() -> &'static str {
        type_name::<T>()
    }
}

impl<T: Send + 'static, R: Send + 'static> Runner for Func<T, R> {
    type Job = FuncJob<T, R>;
    type Item = T;

    fn run(&self, job: FuncJob<T, R>, context: &TaskContext) -> TaskResult {
        match job.0 {
            Kind::Plain(argument) => context
                .execute_detached(type_name::<T>(), || (self.function)(argument.into_inner())),
            Kind::Spawned(cell) => cell.run(context),
            Kind::Recorded(cell) => cell.run(context),
        }
    }

    fn release(&self, job: FuncJob<T, R>) -> (TaskResult, Option<T>) {
        match job.0 {
            Kind::Plain(argument) => {
                let result = TaskResult::without_handle(Outcome::Released);
                (result, Some(argument.into_inner()))
            }
            Kind::Spawned(cell) => released(cell),
            Kind::Recorded(cell) => released(cell),
        }
    }

    fn seize(&self, job: &FuncJob<T, R>, why: Unrun) -> bool {
        match &job.0 {
            Kind::Plain(_) => true,
            Kind::Spawned(cell) => cell.seize(why),
            Kind::Recorded(cell) => cell.seize(why),
        }
    }

    fn priority_of(job: &FuncJob<T, R>) -> Priority {
        match &job.0 {
            Kind::Plain(_) | Kind::Spawned(_) => Priority::Normal,
            Kind::Recorded(cell) => cell.priority(),
        }
    }

    fn name_of(&self, _job: &FuncJob<T, R>) -> Option<&'static str> {
        Some(type_name::<T>())
    }

    fn given_name_of<'a>(&self, job: &'a FuncJob<T, R>) -> Option<&'a str> {
        match &job.0 {
            Kind::Plain(_) | Kind::Spawned(_) => None,
            Kind::Recorded(cell) => cell.given_name(),
        }
    }

    fn is_tombstone(&self, job: &FuncJob<T, R>) -> bool {
        match &job.0 {
            Kind::Plain(_) => false,
            Kind::Spawned(cell) => cell.is_tombstone(),
            Kind::Recorded(cell) => cell.is_tombstone(),
        }
    }
}

impl<T: Send + 'static, R: Send + 'static> Accepts<T> for Func<T, R> {
    type Value = R;

    #[inline]
    fn plain(argument: T) -> FuncJob<T, R> {
        FuncJob(Kind::Plain(Packed::new(argument)))
    }

    #[inline]
    fn spawned(&self, argument: T) -> (FuncJob<T, R>, Promise<R>) {
        let cell = self.in_cell(argument, ());
        (FuncJob(Kind::Spawned(Arc::clone(&cell))), Promise(cell))
    }

    fn recorded(&self, argument: T, record: TaskRecord) -> (FuncJob<T, R>, Promise<R>) {
        let cell = self.in_cell(argument, record);
        (FuncJob(Kind::Recorded(Arc::clone(&cell))), Promise(cell))
    }

    fn task_of(job: FuncJob<T, R>) -> T {
        match job.0 {
            Kind::Plain(argument) => argument.into_inner(),
            Kind::Spawned(cell) => cell.take_back().argument.into_inner(),
            Kind::Recorded(cell) => cell.take_back().argument.into_inner(),
        }
    }
}

impl<T: Send + 'static, R: Send + 'static> Func<T, R> {
    #[inline]
    fn in_cell<N: Record>(&self, argument: T, record: N) -> Arc<SpawnCell<Call<T, R, N>>> {
        let call = Call {
            argument: Packed::new(argument),
            function: Arc::clone(&self.function),
            record: PhantomData,
        };
        SpawnCell::new(call, record)
    }
}

/// Ends a task that was taken out to be released: what its handle sees, and its argument.
fn released<T, R, N>(cell: Arc<SpawnCell<Call<T, R, N>>>) -> (TaskResult, Option<T>)
where
    T: Send + 'static,
    R: Send + 'static,
    N: Record,
{
    let (result, body) = cell.release();
    (result, body.map(|call| call.argument.into_inner()))
}

impl<T: Send + 'static, R: Send + 'static> Sealed<T> for Func<T, R> {}

impl<T, R> Clone for Func<T, R> {
    fn clone(&self) -> Self {
        Self {
            function: Arc::clone(&self.function),
        }
    }
}

impl<T, R> fmt::Debug for Func<T, R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Func(..)")
    }
}

impl<T: Send + 'static, R: Send + 'static> fmt::Debug for FuncJob<T, R> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("FuncJob(..)")
    }
}
