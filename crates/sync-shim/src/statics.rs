//! State that exists once per process or per thread: identifiers, the fork count, the thread's
//! number, its tag and its parker.
//!
//! None of it takes part in a protocol: identifiers only have to differ, and a tag and a parker are
//! read by their own thread only. So models use std's atomics here too, and their state spaces stay
//! small.

use std::cell::Cell;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};

use crate::Parker;

/// Returns a number that no other call in this process returns.
pub fn unique_id() -> u64 {
    static NEXT: AtomicU64 = AtomicU64::new(1);
    NEXT.fetch_add(1, Relaxed) // Relaxed: one modification order is enough for distinct numbers.
}

/// Returns the number of threads that can run at once; 1 if the system does not say. On Linux this depends on the
/// calling thread's processors.
pub fn available_parallelism() -> usize {
    std::thread::available_parallelism().map_or(1, std::num::NonZero::get)
}

/// Returns [`available_parallelism`] as it was at the first call in the process or its
/// parent. For heuristics on hot paths: the answer costs several system calls.
pub fn cores() -> usize {
    static COUNT: AtomicUsize = AtomicUsize::new(0);
    let mut count = COUNT.load(Relaxed); // Of one word: threads that race count the same cores.
    if count == 0 {
        count = available_parallelism();
        COUNT.store(count, Relaxed);
    }
    count
}

static FORKS: AtomicUsize = AtomicUsize::new(0);

/// Returns the number of forks between this process and the one that called this function first.
///
/// Threads do not survive a fork: the threads of an object that was created at another count are
/// gone. Always 0 on platforms without `fork`. Costs one load after the first call.
#[inline]
pub fn fork_count() -> usize {
    watch_forks();
    FORKS.load(Relaxed) // Written only in a child that still has a single thread.
}

/// The process that created an object.
///
/// In a forked child the threads of an inherited object are missing, and one of them may have held its
/// lock. So the object's methods check this before they take the lock.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Process(usize);

impl Process {
    /// Not equal to any process.
    pub const NONE: Self = Self(usize::MAX);

    /// Returns the calling process. Costs one load after the first call.
    #[inline]
    pub fn current() -> Self {
        Self(fork_count())
    }

    /// Returns whether this is the calling process.
    #[inline]
    pub fn is_current(self) -> bool {
        self == Self::current()
    }

    /// Returns an error in a forked child.
    ///
    /// # Errors
    /// `forked`.
    #[inline]
    pub fn check<E>(self, forked: E) -> Result<(), E> {
        if self.is_current() {
            Ok(())
        } else {
            Err(forked)
        }
    }
}

#[cfg(all(unix, not(anthill_loom)))]
#[inline]
fn watch_forks() {
    // No `Once`, which a child would inherit locked if another thread was in it. Two threads may both
    // register the handlers, which then count a fork once nevertheless. Relaxed: a thread that finds the
    // flag set has no other memory to read; the C library's lock orders handlers and forks.
    if !WATCHES.load(Relaxed) {
        start_to_watch();
    }
}

#[cfg(all(unix, not(anthill_loom)))]
static WATCHES: std::sync::atomic::AtomicBool = std::sync::atomic::AtomicBool::new(false);

#[cfg(all(unix, not(anthill_loom)))]
#[cold]
fn start_to_watch() {
    static IN_CHILD: AtomicUsize = AtomicUsize::new(0);
    extern "C" fn before() {
        IN_CHILD.store(FORKS.load(Relaxed) + 1, Relaxed);
    }
    extern "C" fn in_child() {
        FORKS.store(IN_CHILD.load(Relaxed), Relaxed);
    }
    // SAFETY: the handlers touch lock-free atomics, which is allowed in a forked child.
    unsafe {
        // If this fails (no memory), the count stays 0 and forks go unnoticed; nothing else breaks.
        libc::pthread_atfork(Some(before), None, Some(in_child));
    }
    WATCHES.store(true, Relaxed);
}

#[cfg(not(all(unix, not(anthill_loom))))]
fn watch_forks() {}

#[cfg(not(anthill_loom))]
std::thread_local! {
    // Const and without `Drop`, so that destructors of other thread-locals can read them.
    static TAG: Cell<Tag> = const { Cell::new(Tag::NONE) };
    static NUMBER: Cell<usize> = const { Cell::new(0) };
    static STARTER: Cell<usize> = const { Cell::new(0) };
    static PARKER: Cell<Option<Parker>> = const { Cell::new(None) };
    static LAST_ACT: LastAct = const { LastAct(Cell::new(None)) };
}

/// Calls its closure when it is dropped.
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

/// Registers `act` to be called when the thread drops its thread-locals, after the thread-locals
/// that it creates from now on.
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

/// Returns the calling thread's number. Threads are numbered from 1, in the order of their first
/// call.
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

/// Returns the calling thread's number. In a model the numbers only tell threads apart: they
/// continue from one execution to the next.
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

/// The group of workers that a thread belongs to, and its depth in tasks that run inside one
/// another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Tag {
    /// A [`unique_id`](crate::unique_id), or 0 for a thread that is no worker.
    pub group: u64,
    /// Number of tasks that run in place inside one another on this thread, not counting the
    /// outermost.
    pub depth: u32,
}

impl Tag {
    /// The tag of a thread that is no worker.
    pub const NONE: Self = Self { group: 0, depth: 0 };

    /// Returns the calling thread's tag. Can be called in destructors of thread-locals.
    #[inline]
    pub fn get() -> Self {
        TAG.with(Cell::get)
    }

    /// Sets the calling thread's tag.
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

/// Takes the thread's cached parker, unless a wait of this thread is using it.
pub(crate) fn take_thread_parker() -> Option<Parker> {
    // A destructor of another thread-local may run after this one's: then a fresh parker is
    // created.
    PARKER.try_with(Cell::take).ok().flatten()
}

/// Caches a parker for the thread's next wait. Drops the one already cached (by a nested wait).
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
        let theirs = theirs.expect("the thread does not panic");
        assert!(ours[0] > 0 && ours[0] == ours[1] && theirs[0] == theirs[1]);
        assert_ne!(ours[0], theirs[0]);
    }
}
