//! Wakers that count, call back, or unpark a thread.

use std::future::Future;
use std::mem::ManuallyDrop;
use std::pin::pin;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::task::{Context, Poll, RawWaker, RawWakerVTable, Wake, Waker};

/// Counts the wake-ups of its wakers. Clones share the count.
#[derive(Clone, Debug, Default)]
pub struct CountingWaker(Arc<Counter>);

#[derive(Debug, Default)]
struct Counter {
    wakes: Mutex<usize>,
    woken: Condvar,
}

impl CountingWaker {
    /// Creates a counter at zero.
    pub fn new() -> Self {
        Self::default()
    }

    /// Creates a waker that this counter counts.
    pub fn waker(&self) -> Waker {
        Waker::from(Arc::clone(&self.0))
    }

    /// Returns the number of wake-ups.
    pub fn wakes(&self) -> usize {
        *self.0.wakes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the number of live wakers, including clones.
    pub fn wakers(&self) -> usize {
        Arc::strong_count(&self.0) - 1
    }

    /// Blocks until there have been `count` wake-ups.
    pub fn wait_for_wakes(&self, count: usize) {
        let mut wakes = self.0.wakes.lock().unwrap_or_else(PoisonError::into_inner);
        while *wakes < count {
            let woken = self.0.woken.wait(wakes);
            wakes = woken.unwrap_or_else(PoisonError::into_inner);
        }
    }
}

impl Wake for Counter {
    fn wake(self: Arc<Self>) {
        *self.wakes.lock().unwrap_or_else(PoisonError::into_inner) += 1;
        self.woken.notify_all();
    }
}

/// Creates a waker that calls `wake`, which may call back into the code under test or panic. The
/// captures of `wake` are dropped with the last clone, so their drops can call back too.
pub fn waker_fn(wake: impl Fn() + Send + Sync + 'static) -> Waker {
    struct Call<F>(F);
    impl<F: Fn() + Send + Sync + 'static> Wake for Call<F> {
        fn wake(self: Arc<Self>) {
            (self.0)();
        }
    }
    Waker::from(Arc::new(Call(wake)))
}

/// Creates a waker whose clone panics. Its wake and drop do nothing.
pub fn waker_whose_clone_panics() -> Waker {
    const TABLE: RawWakerVTable =
        RawWakerVTable::new(|_| panic!("a waker's clone"), |_| (), |_| (), |_| ());
    // SAFETY: the functions of the table do not use the pointer.
    unsafe { Waker::from_raw(RawWaker::new(std::ptr::null(), &TABLE)) }
}

/// Creates a waker whose `clone` calls the closure, which may call back into the code under test.
/// Its wake does nothing.
pub fn waker_cloned_by(clone: impl Fn() -> Waker + Send + Sync + 'static) -> Waker {
    type Cloned = Box<dyn Fn() -> Waker + Send + Sync>;
    /// # Safety
    /// `data` belongs to the waker below, which is consumed.
    unsafe fn free(data: *const ()) {
        // SAFETY: the pointer comes from `Box::into_raw` below, and a waker is dropped once.
        drop(unsafe { Box::from_raw(data.cast::<Cloned>().cast_mut()) });
    }
    const TABLE: RawWakerVTable = RawWakerVTable::new(
        |data| {
            // SAFETY: the waker is borrowed, so the closure is alive.
            let clone = unsafe { &*data.cast::<Cloned>() };
            let clone = ManuallyDrop::new(clone());
            RawWaker::new(clone.data(), clone.vtable())
        },
        // SAFETY: `wake` consumes the waker.
        |data| unsafe { free(data) },
        |_| (),
        // SAFETY: a waker is dropped once.
        |data| unsafe { free(data) },
    );
    let clone: Cloned = Box::new(clone);
    let data = Box::into_raw(Box::new(clone));
    // SAFETY: any thread may call and drop the closure, and the table's functions expect this
    // pointer type.
    unsafe { Waker::from_raw(RawWaker::new(data.cast_const().cast(), &TABLE)) }
}

/// Runs a future to its end on this thread.
pub fn block_on<F: Future>(future: F) -> F::Output {
    block_on_counted(future).0
}

/// Runs a future to its end on this thread. Also returns the number of polls.
pub fn block_on_counted<F: Future>(future: F) -> (F::Output, u32) {
    let mut future = pin!(future);
    let counter = CountingWaker::new();
    let waker = counter.waker();
    let mut polls = 0;
    loop {
        let before = counter.wakes();
        polls += 1;
        match future.as_mut().poll(&mut Context::from_waker(&waker)) {
            Poll::Ready(output) => return (output, polls),
            Poll::Pending => counter.wait_for_wakes(before + 1),
        }
    }
}

#[cfg(test)]
mod tests {
    use std::panic::{AssertUnwindSafe, catch_unwind};

    use super::*;
    use crate::{Counted, DropCounter, PanicOnDrop};

    #[test]
    fn a_waker_whose_clone_and_drop_panic_is_dropped_once() {
        for last in [drop::<Waker>, Waker::wake] {
            let drops = DropCounter::new();
            let held = (PanicOnDrop::new(), drops.token());
            let waker = waker_cloned_by(move || panic!("{held:?}"));
            let cloned = catch_unwind(AssertUnwindSafe(|| waker.clone()));
            assert!(cloned.is_err());
            assert_eq!((drops.alive(), drops.dropped()), (1, 0));
            assert!(catch_unwind(AssertUnwindSafe(|| last(waker))).is_err());
            assert_eq!((drops.alive(), drops.dropped()), (0, 1));
        }
    }

    /// Creates a waker whose clone creates a nested waker, clones and wakes it, and returns it.
    fn nested(depth: usize, drops: &DropCounter) -> Waker {
        let (counter, held): (_, Counted) = (drops.clone(), drops.token());
        waker_cloned_by(move || {
            let _held = &held;
            let Some(depth) = depth.checked_sub(1) else {
                return Waker::noop().clone();
            };
            let other = nested(depth, &counter);
            let clone = other.clone();
            clone.wake();
            other
        })
    }

    #[test]
    fn a_clone_may_clone_wake_and_drop_wakers_of_its_own_kind() {
        let drops = DropCounter::new();
        let waker = nested(3, &drops);
        let clone = waker.clone();
        clone.wake();
        drop(waker.clone());
        waker.wake();
        assert_eq!(drops.alive(), 0);
    }
}
