//! A task of any type in one cache line.
//!
//! `pack.rs` says where what it holds lies: up to seven words in the entry itself.
//!
//! Not for: typed pools, whose entries have one type and need no erasure.
//!
//! # Invariants
//! 1. `space` was made by `put` for a `W` of the type the table was made for, and holds it from
//!    `new` until the one call that takes it out.
//! 2. The call that takes it out forgets the `Task`, so its `Drop` does not run.
//! 3. `table` is of a `&'static Table`. `W: Send`, so a `Task` may be sent. It is never shared.

use std::any::{TypeId, type_name};
use std::fmt;
use std::mem::ManuallyDrop;

use crate::sched::ready::Priority;
use crate::task::pack::{Space, look, put, take};
use crate::task::run::{TaskContext, TaskResult, Unrun};

/// What can become a [`Task`].
pub(crate) trait Work: Send + 'static {
    /// Runs. Does not unwind.
    fn run(self, context: &TaskContext) -> TaskResult;
    /// Will not be run: drops it. Does not unwind.
    fn release(self) -> TaskResult;
    /// See [`Runner::seize`](crate::Runner). Where there is no handle, there is no race.
    fn seize(&self, _why: Unrun) -> bool {
        true
    }
    /// See [`Runner::priority_of`](crate::Runner).
    fn priority(&self) -> Priority {
        Priority::Normal
    }
    /// See [`Runner::name_of`](crate::Runner).
    fn name() -> Option<&'static str> {
        None
    }
    /// See [`Runner::given_name_of`](crate::Runner).
    fn given_name(&self) -> Option<&str> {
        None
    }
    /// See [`Runner::is_tombstone`](crate::Runner).
    fn is_tombstone(&self) -> bool {
        false
    }
}

/// One erased task. Dropping it drops what it holds, unrun.
#[repr(align(64))]
pub struct Task {
    /// Of a `&'static Table`. A raw pointer has no value to spare for `Option`s: they would tear
    /// a task into pointer and space, and moves of the two halves stall the processor.
    table: *const Table,
    space: Space,
}

const _: () = assert!(size_of::<Task>() == 64, "a task is one cache line");

struct Table {
    type_id: fn() -> TypeId,
    name: fn() -> &'static str,
    /// What hooks call it.
    task_name: fn() -> Option<&'static str>,
    /// Each of these takes the work out of the space.
    run: unsafe fn(*mut Space, &TaskContext) -> TaskResult,
    release: unsafe fn(*mut Space) -> TaskResult,
    drop: unsafe fn(*mut Space),
    /// These look at it where it lies.
    seize: unsafe fn(&Space, Unrun) -> bool,
    given_name: unsafe fn(&Space) -> Option<&str>,
    is_tombstone: unsafe fn(&Space) -> bool,
    priority: unsafe fn(&Space) -> Priority,
}

// SAFETY: invariant 3.
unsafe impl Send for Task {}

impl Task {
    pub(crate) fn new<W: Work>(work: W) -> Self {
        Self {
            table: const { &Table::of::<W>() },
            space: put(work),
        }
    }

    fn table(&self) -> &'static Table {
        // SAFETY: `new` made it of a `&'static Table`, and nothing changes it.
        unsafe { &*self.table }
    }

    pub(crate) fn run(self, context: &TaskContext) -> TaskResult {
        let mut task = ManuallyDrop::new(self);
        let run = task.table().run;
        // SAFETY: invariant 1, and 2 through `ManuallyDrop`.
        unsafe { run(&raw mut task.space, context) }
    }

    pub(crate) fn release(self) -> TaskResult {
        let mut task = ManuallyDrop::new(self);
        let release = task.table().release;
        // SAFETY: invariant 1, and 2 through `ManuallyDrop`.
        unsafe { release(&raw mut task.space) }
    }

    pub(crate) fn seize(&self, why: Unrun) -> bool {
        // SAFETY: invariant 1.
        unsafe { (self.table().seize)(&self.space, why) }
    }

    /// What hooks call it, if it is a user's task.
    pub(crate) fn name(&self) -> Option<&'static str> {
        (self.table().task_name)()
    }

    /// What it was called by the one that handed it over.
    pub(crate) fn given_name(&self) -> Option<&str> {
        // SAFETY: invariant 1.
        unsafe { (self.table().given_name)(&self.space) }
    }

    pub(crate) fn is_tombstone(&self) -> bool {
        // SAFETY: invariant 1.
        unsafe { (self.table().is_tombstone)(&self.space) }
    }

    pub(crate) fn priority(&self) -> Priority {
        // SAFETY: invariant 1.
        unsafe { (self.table().priority)(&self.space) }
    }

    /// The work again, if it is a `W`.
    pub(crate) fn into_work<W: Work>(self) -> Result<W, Self> {
        if (self.table().type_id)() != TypeId::of::<W>() {
            return Err(self);
        }
        let mut task = ManuallyDrop::new(self);
        // SAFETY: invariant 1 with the type just compared, and 2 through `ManuallyDrop`.
        Ok(unsafe { take::<W>(&raw mut task.space) })
    }
}

impl Drop for Task {
    fn drop(&mut self) {
        // SAFETY: invariant 1; it was not taken out, or this would have been forgotten.
        unsafe { (self.table().drop)(&raw mut self.space) };
    }
}

impl fmt::Debug for Task {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Task({})", (self.table().name)())
    }
}

impl Table {
    const fn of<W: Work>() -> Self {
        Self {
            type_id: TypeId::of::<W>,
            name: type_name::<W>,
            task_name: W::name,
            run: |space, context| {
                // SAFETY: the caller vouches for invariant 1, with this very `W`.
                unsafe { take::<W>(space) }.run(context)
            },
            release: |space| {
                // SAFETY: as in `run`.
                unsafe { take::<W>(space) }.release()
            },
            drop: |space| {
                // SAFETY: as in `run`.
                drop(unsafe { take::<W>(space) });
            },
            // SAFETY: as in `run`; it stays where it is.
            seize: |space, why| unsafe { look::<W>(space) }.seize(why),
            // SAFETY: as in `seize`.
            given_name: |space| unsafe { look::<W>(space) }.given_name(),
            // SAFETY: as in `seize`.
            is_tombstone: |space| unsafe { look::<W>(space) }.is_tombstone(),
            // SAFETY: as in `seize`.
            priority: |space| unsafe { look::<W>(space) }.priority(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::task::run::Outcome;
    use std::sync::Arc;

    const RELEASED: TaskResult = TaskResult {
        outcome: Outcome::Released,
        resolve: None,
        runs_user_code: false,
    };

    /// Holds one reference beside `N` bytes.
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

        let task = Task::new(load()).into_work::<Load<9999>>();
        let back = task.expect_err("another type").into_work::<Load<N>>();
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
        assert!(!crate::task::pack::fits::<Aligned>());
        assert_eq!(Task::new(Aligned(3)).release().outcome, Outcome::Released);
    }
}
