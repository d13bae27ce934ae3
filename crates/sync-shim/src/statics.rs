//! What is one per process or one per thread: identifiers, the fork count, the thread's number,
//! its tag and its parker.
//!
//! None of it takes part in a protocol: identifiers need only differ, a tag and a parker are
//! read by their own thread alone. So std's atomics serve under the cfg too, and the models'
//! state spaces stay small.

use std::cell::Cell;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};

use crate::Parker;

/// A number that no other call in this process returns.
pub fn unique_id() -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    NEXT.fetch_add(1, Relaxed) // Only its being one modification order matters.
}

static FORKS: AtomicUsize = AtomicUsize::new(0);

/// How many forks lie between this process and the one that called this first.
///
/// Threads do not survive a fork: the threads of an object that was made at another count are gone.
/// Always 0 where there is no `fork`. Costs one load once called.
#[inline]
pub fn fork_count() -> usize {
    watch_forks();
    FORKS.load(Relaxed) // Written only in a child that has one thread.
}

#[cfg(all(unix, not(anthill_loom)))]
#[inline]
fn watch_forks() {
    extern "C" fn in_child() {
        FORKS.fetch_add(1, Relaxed);
    }
    static WATCH: std::sync::Once = std::sync::Once::new();
    // SAFETY: the handler touches one lock-free atomic, which is allowed in a forked child.
    WATCH.call_once(|| unsafe {
        // A failure (no memory) leaves the count at 0: forks then go unnoticed, nothing breaks.
        libc::pthread_atfork(None, None, Some(in_child));
    });
}

#[cfg(not(all(unix, not(anthill_loom))))]
fn watch_forks() {}

#[cfg(not(anthill_loom))]
std::thread_local! {
    // Const and without `Drop`, so that it can be read in the destructors of other
    // thread-locals.
    static TAG: Cell<Tag> = const { Cell::new(Tag::NONE) };
    static NUMBER: Cell<usize> = const { Cell::new(0) };
    static STARTER: Cell<usize> = const { Cell::new(0) };
    static PARKER: Cell<Option<Parker>> = const { Cell::new(None) };
    static LAST_ACT: LastAct = const { LastAct(Cell::new(None)) };
}

/// What the thread does as this is dropped.
#[cfg(not(anthill_loom))]
struct LastAct(Cell<Option<Box<dyn FnOnce()>>>);

#[cfg(not(anthill_loom))]
impl Drop for LastAct {
    fn drop(&mut self) {
        if let Some(act) = self.0.take() {
            act();
        }
    }
}

/// Has `act` called as the thread drops its thread-locals, after those that it makes from now on.
#[cfg(not(anthill_loom))]
pub(crate) fn set_last_act(act: Box<dyn FnOnce()>) {
    LAST_ACT.with(|last| last.0.set(Some(act)));
}

#[cfg(anthill_loom)]
crate::runtime::thread_local! {
    static TAG: Cell<Tag> = Cell::new(Tag::NONE);
    static STARTER: Cell<usize> = Cell::new(0);
    static NUMBER: Cell<usize> = Cell::new(0);
    static PARKER: Cell<Option<Parker>> = Cell::new(None);
}

/// The calling thread's number: from 1, in the order in which threads ask first.
#[cfg(not(anthill_loom))]
#[inline]
pub fn thread_number() -> usize {
    static NEXT: AtomicUsize = AtomicUsize::new(1);
    let number = NUMBER.get();
    if number > 0 {
        return number;
    }
    let number = NEXT.fetch_add(1, Relaxed);
    NUMBER.set(number);
    number
}

/// The calling thread's number. In a model only whether two are equal means anything: the numbers
/// go on from one execution to the next.
#[cfg(anthill_loom)]
pub fn thread_number() -> usize {
    static NEXT: AtomicUsize = AtomicUsize::new(1);
    NUMBER.with(|number| {
        if number.get() == 0 {
            number.set(NEXT.fetch_add(1, Relaxed));
        }
        number.get()
    })
}

/// Which group of workers the calling thread belongs to, and how deep it is in tasks that run
/// inside one another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tag {
    /// A [`unique_id`](crate::unique_id), or 0 for a thread that is no worker.
    pub group: u64,
    /// Tasks run in place inside one another on this thread, the outermost not counted.
    pub depth: u32,
}

impl Tag {
    /// The tag of a thread that is no worker.
    pub const NONE: Self = Self { group: 0, depth: 0 };

    /// The calling thread's tag. Readable in the destructors of thread-locals too.
    #[inline]
    pub fn get() -> Self {
        TAG.with(Cell::get)
    }

    /// Makes this the calling thread's tag.
    pub fn set(self) {
        TAG.with(|cell| cell.set(self));
    }
}

pub(crate) fn starter() -> usize {
    STARTER.with(Cell::get)
}

pub(crate) fn set_starter(of: usize) {
    STARTER.with(|cell| cell.set(of));
}

/// Takes the thread's cached parker, if no wait of this thread has it.
pub(crate) fn take_thread_parker() -> Option<Parker> {
    // In the destructors of other thread-locals this one may be gone: a fresh one serves.
    PARKER.try_with(Cell::take).ok().flatten()
}

/// Caches a parker for the thread's next wait. One that is there already (of a nested wait) goes.
pub(crate) fn put_thread_parker(parker: &Parker) {
    let _gone = PARKER.try_with(|cell| cell.replace(Some(parker.clone())));
}

#[cfg(all(test, not(anthill_loom)))]
mod tests {
    use super::*;

    #[testkit::test]
    fn each_thread_has_a_unique_number_that_stays() {
        let numbers = || [thread_number(), thread_number()];
        let (ours, theirs) = (numbers(), std::thread::spawn(numbers).join());
        let theirs = theirs.expect("it does not panic");
        assert!(ours[0] > 0 && ours[0] == ours[1] && theirs[0] == theirs[1]);
        assert_ne!(ours[0], theirs[0]);
    }
}
