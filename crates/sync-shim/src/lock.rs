//! `Mutex` and `Condvar` with `parking_lot`'s interface: no poison, `wait` borrows the guard.
//!
//! On the machine they are std's. `parking_lot`'s have a table of waiting threads in a static, which a forked
//! child inherits with the entries of threads that do not exist there, and whose memory its own threads reuse.

pub use twin::{Condvar, Mutex, MutexGuard};

#[expect(clippy::missing_panics_doc, reason = "a guard is never seen empty")]
mod twin {
    use std::fmt;
    use std::ops::{Deref, DerefMut};
    use std::sync::{PoisonError, TryLockError};
    #[cfg(not(anthill_loom))]
    use std::time::Instant;

    #[cfg(anthill_loom)]
    use crate::runtime;
    #[cfg(not(anthill_loom))]
    use std as runtime;

    /// A lock without poison. In a model, the model's runtime schedules it.
    pub struct Mutex<T>(runtime::sync::Mutex<T>);

    /// Exclusive access to the value of a [`Mutex`].
    pub struct MutexGuard<'a, T>(Option<runtime::sync::MutexGuard<'a, T>>);

    /// A condition variable. In a model it has no spurious wake-ups and never times out: a model that
    /// needs either uses a thread for it.
    #[derive(Debug)]
    pub struct Condvar(runtime::sync::Condvar);

    /// Looks at a held lock before its waiter sleeps: the first ones after a spin, the others after a yield.
    #[cfg(not(anthill_loom))]
    const ROUNDS: u32 = 10;
    #[cfg(not(anthill_loom))]
    const SPINS: u32 = 3;

    const HELD: &str = "a guard is empty only inside `Condvar::wait`";

    impl<T> Mutex<T> {
        /// Creates a free lock that protects `value`.
        #[cfg(not(anthill_loom))]
        pub const fn new(value: T) -> Self {
            Self(runtime::sync::Mutex::new(value))
        }

        /// Creates a free lock that protects `value`.
        #[cfg(anthill_loom)]
        pub fn new(value: T) -> Self {
            Self(runtime::sync::Mutex::new(value))
        }

        /// Blocks until the calling thread has the lock.
        #[inline]
        pub fn lock(&self) -> MutexGuard<'_, T> {
            #[cfg(not(anthill_loom))]
            return self.try_lock().unwrap_or_else(|| self.lock_slow());
            #[cfg(anthill_loom)]
            return self.lock_slow();
        }

        #[cold]
        fn lock_slow(&self) -> MutexGuard<'_, T> {
            // Std's lock sleeps after a microsecond, and then each unlock is a system call. On few cores the holder is
            // often displaced, so the processor is yielded to it first, as `parking_lot` does.
            #[cfg(not(anthill_loom))]
            for round in 0..ROUNDS {
                if round < SPINS {
                    (0..2 << round).for_each(|_| std::hint::spin_loop());
                } else {
                    std::thread::yield_now();
                }
                if let Some(guard) = self.try_lock() {
                    return guard;
                }
            }
            MutexGuard(Some(self.0.lock().unwrap_or_else(PoisonError::into_inner)))
        }

        /// Takes the lock if it is free.
        #[inline]
        pub fn try_lock(&self) -> Option<MutexGuard<'_, T>> {
            match self.0.try_lock() {
                Ok(guard) => Some(MutexGuard(Some(guard))),
                Err(TryLockError::Poisoned(held)) => Some(MutexGuard(Some(held.into_inner()))),
                Err(TryLockError::WouldBlock) => None,
            }
        }

        /// Returns the value; `&mut` proves that no other thread can take the lock.
        pub fn get_mut(&mut self) -> &mut T {
            self.0.get_mut().unwrap_or_else(PoisonError::into_inner)
        }

        /// Returns the value.
        pub fn into_inner(self) -> T {
            self.0.into_inner().unwrap_or_else(PoisonError::into_inner)
        }
    }

    impl<T> fmt::Debug for Mutex<T> {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            f.write_str("Mutex(..)")
        }
    }

    impl<T> Deref for MutexGuard<'_, T> {
        type Target = T;
        #[inline]
        fn deref(&self) -> &T {
            self.0.as_ref().expect(HELD)
        }
    }

    impl<T> DerefMut for MutexGuard<'_, T> {
        #[inline]
        fn deref_mut(&mut self) -> &mut T {
            self.0.as_mut().expect(HELD)
        }
    }

    impl<T: fmt::Debug> fmt::Debug for MutexGuard<'_, T> {
        fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
            (**self).fmt(f)
        }
    }

    impl Default for Condvar {
        fn default() -> Self {
            Self::new()
        }
    }

    impl Condvar {
        /// Creates a condition variable without waiters.
        #[cfg(not(anthill_loom))]
        pub const fn new() -> Self {
            Self(runtime::sync::Condvar::new())
        }

        /// Creates a condition variable without waiters.
        #[cfg(anthill_loom)]
        pub fn new() -> Self {
            Self(runtime::sync::Condvar::new())
        }

        /// Releases the lock, waits for a notification, and takes the lock again.
        pub fn wait<T>(&self, guard: &mut MutexGuard<'_, T>) {
            let held = guard.0.take().expect(HELD);
            let held = self.0.wait(held).unwrap_or_else(PoisonError::into_inner);
            guard.0 = Some(held);
        }

        /// Like [`wait`](Self::wait), but until `when` at the latest. May return early without a reason.
        #[cfg(not(anthill_loom))]
        pub fn wait_until<T>(&self, guard: &mut MutexGuard<'_, T>, when: Instant) {
            let held = guard.0.take().expect(HELD);
            let left = when.saturating_duration_since(Instant::now());
            let waited = self.0.wait_timeout(held, left);
            let (held, _) = waited.unwrap_or_else(PoisonError::into_inner);
            guard.0 = Some(held);
        }

        /// Wakes one waiter, if there is one.
        pub fn notify_one(&self) {
            self.0.notify_one();
        }

        /// Wakes every waiter.
        pub fn notify_all(&self) {
            self.0.notify_all();
        }
    }
}
