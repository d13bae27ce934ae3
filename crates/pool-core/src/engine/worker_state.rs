//! Per-worker state, which the function of a `FuncPool` receives with its argument.
//!
//! A worker creates its state when it starts and drops it before it ends, so the state never leaves its thread and
//! need not be `Send`. It is kept in a thread-local and taken out for each call, so that user code runs while nothing
//! is borrowed. A call that finds none creates one: a call inside another call, on a thread that is not a worker of the
//! pool, or after a panic.
//!
//! # Invariants
//! 1. A kept state was created on its thread by the pool whose number is kept with it.
//! 2. A state whose call has panicked is not kept.
//! 3. A worker that has left keeps nothing: no state is dropped with the thread's other thread-locals.

use std::any::Any;
use std::cell::RefCell;
use std::marker::PhantomData;
use std::mem;
use std::panic::resume_unwind;
use std::sync::Arc;

use sync_shim::unique_id;

use crate::foreign::{drop_quietly, guarded};
use crate::task::run::TaskContext;

/// The states of a pool's workers.
pub(crate) trait WorkerState: Send + Sync {
    /// Prepares the calling thread as a worker, and creates its first state.
    fn enter(&self, context: &TaskContext);
    /// Drops the states of the calling worker.
    fn leave(&self, context: &TaskContext) {
        leave(context);
    }
}

/// A function and the constructor of its states.
pub(crate) struct Stateful<S, M, F> {
    number: u64,
    make: M,
    function: F,
    of: PhantomData<fn() -> S>,
}

/// The states of one thread.
struct Kept {
    /// The pool that the states belong to. `None` on a thread without a worker that has a state.
    number: Option<u64>,
    /// Unused states. There is more than one if calls were nested.
    free: Vec<Box<dyn Any>>,
}

sync_shim::thread_locals! {
    static KEPT: RefCell<Kept> = RefCell::new(Kept { number: None, free: Vec::new() });
}

/// Drops the states of a worker that ends. Later calls on the thread create their own.
fn leave(context: &TaskContext) {
    let free = KEPT.with(|kept| {
        let mut kept = kept.borrow_mut();
        // First, so that a call made by a state's destructor keeps nothing here.
        kept.number = None;
        mem::take(&mut kept.free)
    });
    // With nothing borrowed, because a destructor may submit and thereby call for a state.
    for state in free {
        context.call_hook(|| drop(state)); // One by one, so that a panicking destructor does not affect the others.
    }
}

/// Takes an unused state of that pool, if this thread keeps one.
fn take(number: u64) -> Option<Box<dyn Any>> {
    let take = |kept: &RefCell<Kept>| {
        let mut kept = kept.borrow_mut();
        let is_ours = kept.number == Some(number);
        is_ours.then(|| kept.free.pop()).flatten()
    };
    KEPT.try_with(take).ok().flatten()
}

/// Keeps a state for the next call. Returns it if it is not to be kept.
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

    /// Calls the function, as part of a task.
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
                drop(put_back(self.number, state)); // Otherwise its destructor runs as part of the task.
                value
            }
            Err(payload) => {
                // It may be inconsistent after the panic. A second panic must not replace the task's.
                drop_quietly(state);
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
    fn enter(&self, context: &TaskContext) {
        KEPT.with(|kept| kept.borrow_mut().number = Some(self.number));
        // USER CODE: the constructor of a state.
        context.call_hook(|| {
            let state = (self.make)();
            drop(put_back(self.number, Box::new(state))); // Returns `None`, because the number was set before.
        });
    }
}
