//! A state per worker: what a `FuncPool`'s function gets beside its argument.
//!
//! A worker makes its state as it starts and drops it before it ends, so a state never leaves its
//! thread and need not be `Send`. It lies in a thread-local and is taken out for each call: user code
//! runs while nothing is borrowed. A call that finds none (it runs inside another, on a thread that is
//! no worker of the pool, or after a panic) makes one.
//!
//! # Invariants
//! 1. What a thread keeps was made by the pool whose number it keeps, on that thread.
//! 2. A state whose call has panicked is not kept.
//! 3. A worker that has left keeps nothing: no state is dropped with the thread's other thread-locals.

use std::any::Any;
use std::cell::RefCell;
use std::marker::PhantomData;
use std::mem;
use std::panic::resume_unwind;
use std::sync::Arc;

use sync_shim::unique_id;

use crate::config::WorkerState;
use crate::foreign::{drop_quietly, guarded};
use crate::task::run::TaskContext;

/// A function, and what makes the states that it is called with.
pub(crate) struct Stateful<S, M, F> {
    number: u64,
    make: M,
    function: F,
    of: PhantomData<fn() -> S>,
}

/// What a worker's thread keeps.
struct Kept {
    /// Of which pool; `None` where no worker with a state lives.
    number: Option<u64>,
    /// Not in use. More than one where calls have run inside one another.
    free: Vec<Box<dyn Any>>,
}

sync_shim::thread_locals! {
    static KEPT: RefCell<Kept> = RefCell::new(Kept { number: None, free: Vec::new() });
}

/// The calling thread is a worker of a pool with states, and makes its own.
pub(crate) fn enter(states: &Arc<dyn WorkerState>, context: &TaskContext) {
    KEPT.with(|kept| kept.borrow_mut().number = Some(states.number()));
    context.call_hook(|| {
        let state = states.make();
        drop(put_back(states.number(), state)); // It is kept.
    });
}

/// The worker serves no more: drops what it has. What runs here from now on makes states of its own.
pub(crate) fn leave(context: &TaskContext) {
    let free = KEPT.with(|kept| {
        let mut kept = kept.borrow_mut();
        kept.number = None;
        mem::take(&mut kept.free)
    });
    for state in free {
        context.call_hook(|| drop(state)); // Each by itself: one that panics spares the others.
    }
}

/// A free state of that pool, if this thread keeps one.
fn take(number: u64) -> Option<Box<dyn Any>> {
    let take = |kept: &RefCell<Kept>| {
        let mut kept = kept.borrow_mut();
        let is_ours = kept.number == Some(number);
        is_ours.then(|| kept.free.pop()).flatten()
    };
    KEPT.try_with(take).ok().flatten()
}

/// Keeps a state for the next call; it comes back where it is not to be kept.
fn put_back(number: u64, state: Box<dyn Any>) -> Option<Box<dyn Any>> {
    let mut state = Some(state);
    let _gone = KEPT.try_with(|kept| {
        let mut kept = kept.borrow_mut();
        if kept.number == Some(number) {
            kept.free.extend(state.take());
        }
    });
    state
}

impl<S: 'static, M, F> Stateful<S, M, F> {
    pub(crate) fn new<T, R>(make: M, function: F) -> Arc<Self>
    where
        M: Fn() -> S + Send + Sync,
        F: Fn(&mut S, T) -> R + Send + Sync,
    {
        Arc::new(Self {
            number: unique_id(),
            make,
            function,
            of: PhantomData,
        })
    }

    /// Calls the function, as a task.
    pub(crate) fn call<T, R>(&self, argument: T) -> R
    where
        M: Fn() -> S,
        F: Fn(&mut S, T) -> R,
    {
        let kept = take(self.number).map(<Box<dyn Any>>::downcast::<S>);
        let mut state = match kept {
            Some(Ok(state)) => state,
            Some(Err(_)) => unreachable!("a pool's number has one type of state"),
            None => Box::new((self.make)()),
        };
        match guarded(|| (self.function)(&mut state, argument)) {
            Ok(value) => {
                drop(put_back(self.number, state)); // A part of the task where it is not kept.
                value
            }
            Err(payload) => {
                drop_quietly(state); // It may be half changed. The first panic is the task's.
                resume_unwind(payload)
            }
        }
    }
}

impl<S, M, F> WorkerState for Stateful<S, M, F>
where
    S: 'static,
    M: Fn() -> S + Send + Sync,
    F: Send + Sync,
{
    fn number(&self) -> u64 {
        self.number
    }

    fn make(&self) -> Box<dyn Any> {
        Box::new((self.make)())
    }
}
