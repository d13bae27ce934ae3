//! The runner of a `FuncPool`: one function, called with many arguments.

use std::any::type_name;
use std::fmt;
use std::marker::PhantomData;
use std::mem::ManuallyDrop;
use std::sync::Arc;

use crate::engine::runner::{Accepts, Runner, SealedFor};
use crate::sched::load::Outcome;
use crate::sched::ready::Priority;
use crate::task::cell::{Body, SpawnCell};
use crate::task::closures::RecordedJob;
use crate::task::erased::{Packed, Space, look, put, take};
use crate::task::options::TaskRecord;
use crate::task::run::{TaskContext, TaskResult, Unrun};

type Function<T, R> = dyn Fn(T) -> R + Send + Sync;

/// A runner that calls one function: that of a [`FuncPool`](crate::FuncPool).
pub struct Func<T, R> {
    function: Arc<Function<T, R>>,
}

/// A queued argument, or a cell that holds one.
///
/// # Invariants
/// 1. `space` was created by `put` for the type that `kind` names: a `T` (`PLAIN`), the `Arc` of a cell (`SPAWNED`), or
///    the `Arc` of an argument with a record (`RECORDED`).
/// 2. A call that takes it out takes the job by value and forgets it, so its `Drop` does not run.
#[repr(align(64))]
pub struct FuncJob<T: Send + 'static, R: Send + 'static> {
    /// Names the type in `space`.
    // A number, because an enum has a niche: an `Option` of a job would use it and be moved in two parts, number and space,
    // which stalls the processor.
    kind: usize,
    space: Space,
    of: PhantomData<Kind<T>>,
    value: PhantomData<fn() -> R>,
}

const PLAIN: usize = 0;
const SPAWNED: usize = 1;
const RECORDED: usize = 2;

type Record<T> = RecordedJob<Packed<T>>;

/// The content of a job. A large argument stays in its box until the function is called.
enum Kind<T: Send + 'static> {
    Plain(Packed<T>),
    Spawned(Arc<SpawnCell>),
    Recorded(Arc<Record<T>>),
}

/// The content of a job, borrowed in place.
enum Seen<'a, T: Send + 'static> {
    Plain,
    Spawned(&'a SpawnCell),
    Recorded(&'a Record<T>),
}

impl<T: Send + 'static, R: Send + 'static> FuncJob<T, R> {
    /// Creates a job of the type that `kind` names (invariant 1).
    #[inline]
    fn new<W>(kind: usize, work: W) -> Self {
        Self {
            kind,
            space: put(work),
            of: PhantomData,
            value: PhantomData,
        }
    }

    #[inline]
    fn into_kind(self) -> Kind<T> {
        let mut job = ManuallyDrop::new(self);
        // SAFETY: invariant 2, through `ManuallyDrop`.
        unsafe { job.take() }
    }

    /// Takes the content out.
    ///
    /// # Safety
    /// The job must not be used or dropped afterwards.
    #[inline]
    unsafe fn take(&mut self) -> Kind<T> {
        let space = &raw mut self.space;
        match self.kind {
            // SAFETY: invariant 1 gives the type, and the caller promises that this is the last use.
            PLAIN => Kind::Plain(unsafe { Packed::of(space) }),
            // SAFETY: the same.
            SPAWNED => Kind::Spawned(unsafe { take(space) }),
            // SAFETY: the same.
            _ => Kind::Recorded(unsafe { take(space) }),
        }
    }

    #[inline]
    fn seen(&self) -> Seen<'_, T> {
        match self.kind {
            PLAIN => Seen::Plain,
            // SAFETY: invariant 1.
            SPAWNED => Seen::Spawned(unsafe { look::<Arc<SpawnCell>>(&self.space) }),
            // SAFETY: invariant 1.
            _ => Seen::Recorded(unsafe { look::<Arc<Record<T>>>(&self.space) }),
        }
    }
}

impl<T: Send + 'static, R: Send + 'static> Drop for FuncJob<T, R> {
    fn drop(&mut self) {
        // SAFETY: the job is being dropped; if its content had been taken out it would have been forgotten (invariant 2).
        drop(unsafe { self.take() });
    }
}

/// The body of a spawned argument.
struct Call<T, R> {
    argument: Packed<T>,
    function: Arc<Function<T, R>>,
}

impl<T: Send + 'static, R: Send + 'static> Body for Call<T, R> {
    type Out = R;

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

    fn run(&self, job: ManuallyDrop<FuncJob<T, R>>, context: &TaskContext) -> TaskResult {
        let function = |argument: Packed<T>| drop((self.function)(argument.into_inner()));
        match ManuallyDrop::into_inner(job).into_kind() {
            Kind::Plain(argument) => {
                context.execute_detached(type_name::<T>, || function(argument))
            }
            Kind::Spawned(cell) => cell.run(context),
            Kind::Recorded(job) => job.run(type_name::<T>(), context, function),
        }
    }

    fn release(&self, job: FuncJob<T, R>) -> (TaskResult, Option<T>) {
        let released = |argument: Packed<T>| {
            let result = TaskResult::without_handle(Outcome::Released);
            (result, Some(argument.into_inner()))
        };
        match job.into_kind() {
            Kind::Plain(argument) => released(argument),
            Kind::Spawned(cell) => {
                let mut body: Option<Call<T, R>> = None;
                let result = cell.release(Some(&mut body));
                (result, body.map(|body| body.argument.into_inner()))
            }
            Kind::Recorded(job) => released(job.take()),
        }
    }

    fn seize(&self, job: &FuncJob<T, R>, why: Unrun) -> bool {
        match job.seen() {
            Seen::Plain | Seen::Recorded(_) => true,
            Seen::Spawned(cell) => cell.seize(why),
        }
    }

    fn priority_of(job: &FuncJob<T, R>) -> Priority {
        match job.seen() {
            Seen::Plain => Priority::Normal,
            Seen::Spawned(cell) => cell.priority(),
            Seen::Recorded(job) => job.record.priority,
        }
    }

    fn name_of(&self, _job: &FuncJob<T, R>) -> Option<&'static str> {
        Some(type_name::<T>())
    }

    fn given_name_of<'a>(&self, job: &'a FuncJob<T, R>) -> Option<&'a str> {
        match job.seen() {
            Seen::Plain => None,
            Seen::Spawned(cell) => cell.given_name(),
            Seen::Recorded(job) => job.record.name.as_deref(),
        }
    }

    fn is_tombstone(job: &FuncJob<T, R>) -> bool {
        match job.seen() {
            Seen::Plain | Seen::Recorded(_) => false,
            Seen::Spawned(cell) => cell.is_tombstone(),
        }
    }

    fn spawned(cell: Arc<SpawnCell>) -> FuncJob<T, R> {
        FuncJob::new(SPAWNED, cell)
    }

    fn recorded(job: FuncJob<T, R>, record: TaskRecord) -> FuncJob<T, R> {
        match job.into_kind() {
            Kind::Plain(argument) => FuncJob::new(RECORDED, RecordedJob::new(argument, record)),
            Kind::Spawned(_) | Kind::Recorded(_) => {
                unreachable!("only arguments are given records")
            }
        }
    }

    fn unrecorded(job: FuncJob<T, R>) -> FuncJob<T, R> {
        if job.kind != RECORDED {
            return job;
        }
        match job.into_kind() {
            Kind::Recorded(job) => FuncJob::new(PLAIN, job.take().into_inner()),
            _ => unreachable!("its kind was just looked at"),
        }
    }
}

impl<T: Send + 'static, R: Send + 'static> Accepts<T> for Func<T, R> {
    type Value = R;

    #[inline]
    fn plain(argument: T) -> FuncJob<T, R> {
        FuncJob::new(PLAIN, argument)
    }

    fn task_of(job: FuncJob<T, R>) -> T {
        match job.into_kind() {
            Kind::Plain(argument) => argument.into_inner(),
            Kind::Spawned(_) | Kind::Recorded(_) => unreachable!("a refused job is a plain one"),
        }
    }

    #[inline]
    fn in_cell(&self, argument: T, record: Option<Box<TaskRecord>>) -> Arc<SpawnCell> {
        let call = Call {
            argument: Packed::new(argument),
            function: Arc::clone(&self.function),
        };
        SpawnCell::new(call, record)
    }

    fn task_in(cell: &SpawnCell) -> T {
        let body: Call<T, R> = cell.take_back();
        body.argument.into_inner()
    }
}

impl<T, R> Func<T, R> {
    pub(crate) fn new(function: impl Fn(T) -> R + Send + Sync + 'static) -> Self {
        Self {
            function: Arc::new(function),
        }
    }
}

impl<T, R> crate::engine::runner::Sealed for Func<T, R> {}

impl<T: Send + 'static, R: Send + 'static> SealedFor<T> for Func<T, R> {}

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
