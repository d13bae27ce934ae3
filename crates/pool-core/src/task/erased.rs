//! A type-erased task in one cache line.
//!
//! A value of up to seven words is stored inline, a larger one in a box.
//!
//! The table of a closure has four functions, which is the code size of each call site of a submit. Other kinds of work
//! have a table of everything that a queue asks of its entries.
//!
//! # Invariants
//! 1. `space` was created by `put` for a `W` of the table's type, and holds it from `new` until the one call that takes
//!    it out.
//! 2. The call that takes it out forgets the `Task`, so its `Drop` does not run.
//! 3. `table` points to a `&'static Table`. `W: Send`, so a `Task` may be sent. It is never shared.

use std::any::{TypeId, type_name};
use std::cell::UnsafeCell;
use std::fmt;
use std::marker::PhantomData;
use std::mem::{ManuallyDrop, MaybeUninit};

use crate::foreign::drop_quietly;
use crate::sched::load::Outcome;
use crate::sched::ready::Priority;
use crate::task::cell::Body;
use crate::task::run::{TaskContext, TaskResult, Unrun};

/// Work that can become a [`Task`] and is not a plain closure.
pub trait Work: Send + 'static {
    /// Runs the work. Does not unwind.
    fn run(self, context: &TaskContext) -> TaskResult;
    /// Drops work that will not run. Does not unwind.
    fn release(self) -> TaskResult;
    /// See `Task::seize`. Work without a handle has no competing claim.
    fn seize(&self, _why: Unrun) -> bool {
        true
    }
    /// Takes the task of a submit away from its record.
    fn without_record(self) -> Task
    where
        Self: Sized,
    {
        Task::new(self)
    }
    /// Priority of the task, in a pool with priorities.
    fn priority(&self) -> Priority {
        Priority::Normal
    }
    /// Name of the task for hooks. `None` if the task is not the user's alone and must not be discarded.
    fn type_name(&self) -> Option<&'static str> {
        None
    }
    /// The name that the submitter gave the task.
    fn given_name(&self) -> Option<&str> {
        None
    }
    /// Whether the handle has removed the task, so that only its entry is left.
    fn is_tombstone(&self) -> bool {
        false
    }
}

/// An erased task. Dropping it drops the work without running it.
// Not aligned to a cache line: that is for the queue, and what else has a task in it may be allocated once per task.
pub struct Task {
    /// Points to a `&'static Table`.
    // A raw pointer, because a reference has a niche: an `Option<Task>` would use it and be moved in two parts, pointer and
    // space, which stalls the processor.
    table: *const Table,
    space: Space,
}

const _: () = assert!(size_of::<Task>() == 64, "a task is one cache line");

struct Table {
    type_id: fn() -> TypeId,
    name: fn() -> &'static str,
    /// Number of words of the space that are used.
    words: usize,
    /// Takes the value out of the space and drops it.
    drop: unsafe fn(*mut Space),
    kind: Kind,
}

enum Kind {
    /// A closure. The function takes it out of the space, calls it and drops its value. May unwind.
    Closure(unsafe fn(*mut Space, &TaskContext)),
    Work(&'static WorkTable),
}

struct WorkTable {
    /// This, `release` and `without_record` take the work out of the space.
    run: unsafe fn(*mut Space, &TaskContext) -> TaskResult,
    release: unsafe fn(*mut Space) -> TaskResult,
    without_record: unsafe fn(*mut Space) -> Task,
    /// These borrow the work in place.
    seize: unsafe fn(&Space, Unrun) -> bool,
    type_name: unsafe fn(&Space) -> Option<&'static str>,
    given_name: unsafe fn(&Space) -> Option<&str>,
    is_tombstone: unsafe fn(&Space) -> bool,
    priority: unsafe fn(&Space) -> Priority,
}

// SAFETY: invariant 3.
unsafe impl Send for Task {}

impl Task {
    pub(crate) fn new<W: Work>(work: W) -> Self {
        Self {
            table: const { &Table::of_work::<W>() },
            space: put(work),
        }
    }

    #[inline]
    pub(crate) fn closure<B: Body>(body: B) -> Self {
        Self {
            table: const { &Table::of_closure::<B>() },
            space: put(body),
        }
    }

    /// The same, constructed in place.
    // Field by field, so that no byte is written twice.
    #[inline]
    pub(crate) fn closure_in<B: Body>(body: B, place: &mut MaybeUninit<Self>) {
        let task = place.as_mut_ptr();
        // SAFETY: `place` is a borrowed `Task`.
        let table = unsafe { &raw mut (*task).table };
        // SAFETY: the same.
        unsafe { table.write(const { &Table::of_closure::<B>() }) };
        // SAFETY: the same.
        let space = unsafe { &raw mut (*task).space };
        // SAFETY: the same.
        unsafe { put_in(body, space) };
    }

    fn table(&self) -> &'static Table {
        // SAFETY: `new` and `closure` set it to a `&'static Table`, and nothing changes it.
        unsafe { &*self.table }
    }

    #[inline]
    pub(crate) fn run(mut task: ManuallyDrop<Self>, context: &TaskContext) -> TaskResult {
        match task.table().kind {
            Kind::Closure(call) => context.execute_detached(task.table().name, || {
                // SAFETY: invariant 1, and 2 through `ManuallyDrop`.
                unsafe { call(&raw mut task.space, context) }
            }),
            // SAFETY: the same.
            Kind::Work(work) => unsafe { (work.run)(&raw mut task.space, context) },
        }
    }

    /// Calls a closure and drops its value. May unwind.
    pub(crate) fn call(self, context: &TaskContext) {
        let mut task = ManuallyDrop::new(self);
        match task.table().kind {
            // SAFETY: invariant 1, and 2 through `ManuallyDrop`.
            Kind::Closure(call) => unsafe { call(&raw mut task.space, context) },
            Kind::Work(_) => unreachable!("only closures are given records"),
        }
    }

    pub(crate) fn release(self) -> TaskResult {
        match self.table().kind {
            Kind::Closure(_) => {
                drop_quietly(self);
                TaskResult::without_handle(Outcome::Released)
            }
            Kind::Work(work) => {
                let mut task = ManuallyDrop::new(self);
                // SAFETY: invariant 1, and 2 through `ManuallyDrop`.
                unsafe { (work.release)(&raw mut task.space) }
            }
        }
    }

    /// Returns the body of a task that was refused.
    pub(crate) fn into_body<B: Body>(self) -> B {
        let body = self.without_record().into_inner();
        body.unwrap_or_else(|other| unreachable!("{other:?} came back in another's place"))
    }

    fn without_record(self) -> Self {
        match self.table().kind {
            Kind::Closure(_) => self,
            Kind::Work(work) => {
                let mut task = ManuallyDrop::new(self);
                // SAFETY: invariant 1, and 2 through `ManuallyDrop`.
                unsafe { (work.without_record)(&raw mut task.space) }
            }
        }
    }

    /// Returns the function that names the body of a closure.
    pub(crate) fn body_name(&self) -> fn() -> &'static str {
        self.table().name
    }

    /// Claims the task for the section that removes it unstarted. Returns `false` if it holds no room any more, because its
    /// handle has claimed it before.
    pub(crate) fn seize(&self, why: Unrun) -> bool {
        match self.table().kind {
            Kind::Closure(_) => true,
            // SAFETY: invariant 1.
            Kind::Work(work) => unsafe { (work.seize)(&self.space, why) },
        }
    }

    /// Returns the name for hooks, if this is a user's task.
    pub(crate) fn name(&self) -> Option<&'static str> {
        match self.table().kind {
            Kind::Closure(_) => Some((self.table().name)()),
            // SAFETY: invariant 1.
            Kind::Work(work) => unsafe { (work.type_name)(&self.space) },
        }
    }

    /// Returns the name that the submitter gave the task.
    pub(crate) fn given_name(&self) -> Option<&str> {
        match self.table().kind {
            Kind::Closure(_) => None,
            // SAFETY: invariant 1.
            Kind::Work(work) => unsafe { (work.given_name)(&self.space) },
        }
    }

    pub(crate) fn is_tombstone(&self) -> bool {
        match self.table().kind {
            Kind::Closure(_) => false,
            // SAFETY: invariant 1.
            Kind::Work(work) => unsafe { (work.is_tombstone)(&self.space) },
        }
    }

    pub(crate) fn priority(&self) -> Priority {
        match self.table().kind {
            Kind::Closure(_) => Priority::Normal,
            // SAFETY: invariant 1.
            Kind::Work(work) => unsafe { (work.priority)(&self.space) },
        }
    }

    /// Returns the work if it is a `W`.
    pub(crate) fn into_inner<W: 'static>(self) -> Result<W, Self> {
        if (self.table().type_id)() != TypeId::of::<W>() {
            return Err(self);
        }
        let mut task = ManuallyDrop::new(self);
        // SAFETY: invariant 1 with the type just compared, and 2 through `ManuallyDrop`.
        Ok(unsafe { take::<W>(&raw mut task.space) })
    }
}

/// Creates the job of a closure without a record.
#[inline]
pub fn plain_job<F, T>(closure: F) -> Task
where
    F: FnOnce() -> T + Send + 'static,
    T: Send + 'static,
{
    Task::closure(closure)
}

/// Takes the closure out of a job that was refused.
///
/// # Panics
/// If it is not the job of such a closure.
pub fn closure_of<F, T>(job: Task) -> F
where
    F: FnOnce() -> T + Send + 'static,
    T: Send + 'static,
{
    job.into_body()
}

/// Creates the job of a pool of closures that runs `work`.
#[inline]
pub fn job_of(work: impl Work) -> Task {
    Task::new(work)
}

/// Takes the work back out of such a job.
pub fn work_of<W: Work>(job: Task) -> Option<W> {
    job.into_inner().ok()
}

impl Drop for Task {
    fn drop(&mut self) {
        // SAFETY: invariant 1; if the work had been taken out this `Task` would have been forgotten (invariant 2).
        unsafe { (self.table().drop)(&raw mut self.space) };
    }
}

impl fmt::Debug for Task {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Task({})", (self.table().name)())
    }
}

impl Table {
    const fn of<W: 'static>(name: fn() -> &'static str, kind: Kind) -> Self {
        Self {
            type_id: TypeId::of::<W>,
            name,
            words: if fits::<W>() {
                size_of::<W>().div_ceil(size_of::<usize>())
            } else {
                1
            },
            drop: |space| {
                // SAFETY: the caller guarantees invariant 1 for this `W`.
                drop(unsafe { take::<W>(space) });
            },
            kind,
        }
    }

    const fn of_closure<B: Body>() -> Self {
        Self::of::<B>(
            B::name,
            Kind::Closure(|space, context| {
                // SAFETY: as in `of`.
                drop(unsafe { take::<B>(space) }.call(context));
            }),
        )
    }

    const fn of_work<W: Work>() -> Self {
        Self::of::<W>(type_name::<W>, Kind::Work(const { &WorkTable::of::<W>() }))
    }
}

impl WorkTable {
    const fn of<W: Work>() -> Self {
        Self {
            run: |space, context| {
                // SAFETY: the caller guarantees invariant 1 for this `W`.
                unsafe { take::<W>(space) }.run(context)
            },
            release: |space| {
                // SAFETY: as in `run`.
                unsafe { take::<W>(space) }.release()
            },
            without_record: |space| {
                // SAFETY: as in `run`.
                unsafe { take::<W>(space) }.without_record()
            },
            // SAFETY: as in `run`; the work stays in the space.
            seize: |space, why| unsafe { look::<W>(space) }.seize(why),
            // SAFETY: as in `seize`.
            type_name: |space| unsafe { look::<W>(space) }.type_name(),
            // SAFETY: as in `seize`.
            given_name: |space| unsafe { look::<W>(space) }.given_name(),
            // SAFETY: as in `seize`.
            is_tombstone: |space| unsafe { look::<W>(space) }.is_tombstone(),
            // SAFETY: as in `seize`.
            priority: |space| unsafe { look::<W>(space) }.priority(),
        }
    }
}

/// A task in six words, so that a pointer fits beside it into the space of another one.
pub(crate) enum SmallTask {
    Inline(Inline),
    Boxed(Box<Task>),
}

const SMALL_WORDS: usize = 5;
type SmallSpace = [MaybeUninit<usize>; SMALL_WORDS];
const _: () = assert!(size_of::<SmallTask>() == 48, "a word of a space is left");

/// The table of a task, and the words of its space that are used.
pub(crate) struct Inline {
    table: &'static Table,
    words: SmallSpace,
}

// SAFETY: as for `Task`, of which this has the parts.
unsafe impl Send for Inline {}

impl SmallTask {
    pub(crate) fn new(task: Task) -> Self {
        let table = task.table();
        if table.words > SMALL_WORDS {
            return Self::Boxed(Box::new(task));
        }
        let task = ManuallyDrop::new(task);
        // SAFETY: a space is larger. Its value is moved out (invariant 2).
        let words = unsafe { task.space.get().cast::<SmallSpace>().read() };
        Self::Inline(Inline { table, words })
    }

    /// Returns the function that names the body of a closure.
    pub(crate) fn body_name(&self) -> fn() -> &'static str {
        match self {
            Self::Boxed(task) => task.body_name(),
            Self::Inline(inline) => inline.table.name,
        }
    }

    pub(crate) fn into_task(self) -> Task {
        match self {
            Self::Boxed(task) => *task,
            // SAFETY: `ManuallyDrop` prevents another call.
            Self::Inline(inline) => unsafe { ManuallyDrop::new(inline).task() },
        }
    }
}

impl Inline {
    /// Puts the parts together again.
    ///
    /// # Safety
    /// It may be called once.
    unsafe fn task(&self) -> Task {
        let mut space = Space::new(MaybeUninit::uninit());
        // SAFETY: a space is larger.
        unsafe { (&raw mut space).cast::<SmallSpace>().write(self.words) };
        Task {
            table: self.table,
            space,
        }
    }
}

impl Drop for Inline {
    fn drop(&mut self) {
        // SAFETY: `into_task` has not been called, or this would not run.
        drop(unsafe { self.task() });
    }
}

// Storage for a value of any size in a space of fixed size.
//
// A queue entry is moved several times, some of these under the pool's lock and most of them over a worker's stack. So a
// value of up to seven words is stored in the space itself and a larger one in a box. Boxing every value would cost an
// allocation per task.
//
// # Invariants
// 1. A [`Space`] that [`put`] created for a `W` holds that `W`, or a pointer from `Box::<W>::into_raw`, until the one
//    [`take`] of it.
// 2. The space is not used after that `take`.

const WORDS: usize = 7;
/// In an `UnsafeCell`, because a value with interior mutability may change while it is only borrowed.
pub(crate) type Space = UnsafeCell<MaybeUninit<[usize; WORDS]>>;

pub(crate) const fn fits<W>() -> bool {
    size_of::<W>() <= size_of::<Space>() && align_of::<W>() <= align_of::<Space>()
}

/// Moves a value into a space.
#[inline]
pub(crate) fn put<W>(value: W) -> Space {
    let mut space = Space::new(MaybeUninit::uninit());
    // SAFETY: the pointer is that of a local space.
    unsafe { put_in(value, &raw mut space) };
    space
}

/// Moves a value into a space in place.
///
/// # Safety
/// `space` must be valid for writes.
#[inline]
pub(crate) unsafe fn put_in<W>(value: W, space: *mut Space) {
    if fits::<W>() {
        // SAFETY: `fits` says that the space is large and aligned enough for a `W`.
        unsafe { space.cast::<W>().write(value) };
    } else {
        let boxed = Box::into_raw(Box::new(value));
        // SAFETY: a thin pointer fits into a word of the space.
        unsafe { space.cast::<*mut W>().write(boxed) };
    }
}

/// Moves the value out of the space.
///
/// # Safety
/// The space must hold a `W` from `put`, and must not be used afterwards.
pub(crate) unsafe fn take<W>(space: *mut Space) -> W {
    if fits::<W>() {
        // SAFETY: the caller guarantees the type and that this is the last use.
        unsafe { space.cast::<W>().read() }
    } else {
        // SAFETY: the caller guarantees the type, which `put` has boxed.
        let boxed = unsafe { space.cast::<*mut W>().read() };
        // SAFETY: the pointer came from `Box::into_raw` and is used once.
        *unsafe { Box::from_raw(boxed) }
    }
}

/// Borrows the value in place.
///
/// # Safety
/// The space must hold a `W` from `put`.
pub(crate) unsafe fn look<W>(space: &Space) -> &W {
    let space = space.get().cast_const();
    if fits::<W>() {
        // SAFETY: the caller guarantees the type; the value is borrowed for as long as the space.
        unsafe { &*space.cast::<W>() }
    } else {
        // SAFETY: the caller guarantees the type, which `put` has boxed.
        let boxed = unsafe { space.cast::<*const W>().read() };
        // SAFETY: the box belongs to the space, which is borrowed.
        unsafe { &*boxed }
    }
}

/// A value in seven words, or in a box if it is larger.
#[expect(missing_debug_implementations, reason = "never leaves a sister crate")]
pub struct Packed<T> {
    space: Space,
    of: PhantomData<T>,
}

impl<T> Packed<T> {
    /// Moves a value into the space.
    pub fn new(value: T) -> Self {
        Self {
            space: put(value),
            of: PhantomData,
        }
    }

    /// Moves the value out.
    #[inline]
    pub fn into_inner(self) -> T {
        let mut packed = ManuallyDrop::new(self);
        // SAFETY: `new` put a `T` there, and `ManuallyDrop` prevents a second drop of it.
        unsafe { take(&raw mut packed.space) }
    }
}

impl<T> Drop for Packed<T> {
    fn drop(&mut self) {
        // SAFETY: `new` put a `T` there; if `into_inner` had taken it, this would not run.
        drop(unsafe { take::<T>(&raw mut self.space) });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::Arc;

    const RELEASED: TaskResult = TaskResult {
        outcome: Outcome::Released,
        resolve: None,
        runs_user_code: false,
    };

    /// Holds one reference and `N` bytes.
    #[derive(Debug)]
    struct Load<const N: usize>(
        #[expect(dead_code, reason = "held for its reference")] Arc<()>,
        [u8; N],
    );

    impl<const N: usize> Work for Load<N> {
        fn run(self, _: &TaskContext) -> TaskResult {
            unreachable!("never run here")
        }
        fn release(self) -> TaskResult {
            assert!(self.1.iter().all(|&byte| byte == 7));
            RELEASED
        }
    }

    fn comes_back_and_is_dropped_once<const N: usize>() {
        let token = Arc::new(());
        let load = || Load(Arc::clone(&token), [7; N]);

        drop(Task::new(load()));
        assert_eq!(Arc::strong_count(&token), 1);

        assert_eq!(Task::new(load()).release().outcome, Outcome::Released);
        assert_eq!(Arc::strong_count(&token), 1);

        let task = Task::new(load()).into_inner::<Load<9999>>();
        let back = task.expect_err("another type").into_inner::<Load<N>>();
        assert_eq!(Arc::strong_count(&token), 2);
        assert!(back.is_ok_and(|load| load.1 == [7; N]));
        assert_eq!(Arc::strong_count(&token), 1);
    }

    #[test]
    fn work_of_any_size_comes_back_whole_and_is_dropped_once() {
        comes_back_and_is_dropped_once::<0>();
        comes_back_and_is_dropped_once::<1>();
        comes_back_and_is_dropped_once::<48>();
        comes_back_and_is_dropped_once::<49>();
        comes_back_and_is_dropped_once::<4096>();
    }

    #[test]
    fn a_small_task_of_any_size_comes_back_whole_and_is_dropped_once() {
        fn comes_back<const N: usize>(is_inline: bool) {
            let token = Arc::new(());
            let small = || SmallTask::new(Task::new(Load(Arc::clone(&token), [7; N])));
            assert_eq!(matches!(small(), SmallTask::Inline(_)), is_inline);
            assert_eq!(Arc::strong_count(&token), 1);
            let back = small().into_task();
            assert_eq!(Arc::strong_count(&token), 2);
            assert_eq!(back.release().outcome, Outcome::Released);
            assert_eq!(Arc::strong_count(&token), 1);
        }
        comes_back::<0>(true);
        comes_back::<32>(true);
        comes_back::<33>(false);
        comes_back::<48>(false);
        comes_back::<49>(true); // In a box of its own.
    }

    #[test]
    fn work_that_asks_for_more_alignment_than_the_space_has_is_boxed() {
        #[repr(align(128))]
        struct Aligned(u8);
        impl Work for Aligned {
            fn run(self, _: &TaskContext) -> TaskResult {
                unreachable!("never run here")
            }
            fn release(self) -> TaskResult {
                assert_eq!((&raw const self).addr() % 128, 0);
                assert_eq!(self.0, 3);
                RELEASED
            }
        }
        assert!(!crate::task::erased::fits::<Aligned>());
        assert_eq!(Task::new(Aligned(3)).release().outcome, Outcome::Released);
    }
}

#[cfg(test)]
mod pack_tests {
    use super::*;
    use std::cell::Cell;
    use std::sync::Arc;

    fn comes_back_and_is_dropped_once<const N: usize>() {
        let token = Arc::new(());
        let value = || (Arc::clone(&token), [7_u8; N]);

        drop(Packed::new(value()));
        assert_eq!(Arc::strong_count(&token), 1);

        let (held, bytes) = Packed::new(value()).into_inner();
        assert_eq!((Arc::strong_count(&token), bytes), (2, [7; N]));
        drop(held);
        assert_eq!(Arc::strong_count(&token), 1);
    }

    #[test]
    fn a_packed_value_of_any_size_comes_back_whole_and_is_dropped_once() {
        comes_back_and_is_dropped_once::<0>();
        comes_back_and_is_dropped_once::<48>();
        comes_back_and_is_dropped_once::<49>();
        comes_back_and_is_dropped_once::<4096>();
    }

    /// Sees only that there is a space: were its bytes taken for unchangeable, the change would get lost
    /// (in an optimized build; Miri says so in any).
    #[inline(never)]
    fn change(space: &Space) {
        // SAFETY: the only caller has put it there.
        unsafe { look::<Cell<usize>>(space) }.set(5);
    }

    #[test]
    fn a_value_may_change_itself_where_it_lies() {
        let mut space = put(Cell::new(1_usize));
        change(&space);
        // SAFETY: it was put there, and the space is not used again.
        assert_eq!(unsafe { take::<Cell<usize>>(&raw mut space) }.get(), 5);
    }

    #[test]
    fn a_packed_value_takes_a_cache_line_less_a_word_whatever_its_size() {
        assert_eq!(size_of::<Packed<u8>>(), 56);
        assert_eq!(size_of::<Packed<[u8; 4096]>>(), 56);
    }
}
