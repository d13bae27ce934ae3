use std::mem;

use backoff_spinlock::{RawSpinLock, SpinGuard, SpinLock, SpinMutex};

static COUNT: SpinLock<u32> = SpinLock::new(0);
static MUTEX: SpinMutex<u32> = SpinMutex::new(0);

const fn sendable<T: Send>() {}
const fn shareable<T: Sync>() {}

/// The types that may cross threads, for values that may; the docs of the lock show the opposite.
const _: () = {
    sendable::<SpinLock<std::cell::Cell<u32>>>();
    shareable::<SpinLock<std::cell::Cell<u32>>>();
    shareable::<SpinGuard<'_, u32>>();
    sendable::<RawSpinLock>();
    shareable::<RawSpinLock>();
};

#[test]
fn a_lock_can_be_a_static() {
    *COUNT.lock() += 1;
    *MUTEX.lock() += 1;
    assert_eq!((*COUNT.lock(), *MUTEX.lock()), (1, 1));
}

#[test]
fn try_lock_and_debug_show_that_the_lock_is_held() {
    let lock = SpinLock::from(5);
    let guard = lock.lock();
    assert!(lock.try_lock().is_none());
    assert_eq!(format!("{lock:?}"), "SpinLock { value: <locked> }");
    assert_eq!(format!("{guard:?} {guard}"), "5 5");
    drop(guard);
    assert_eq!(lock.try_lock().map(|value| *value), Some(5));
    assert_eq!(format!("{lock:?}"), "SpinLock { value: 5 }");
}

#[test]
fn exclusive_access_needs_no_lock() {
    let mut lock = SpinLock::<u32>::default();
    *lock.get_mut() = 4;
    assert_eq!(lock.with(|value| mem::replace(value, 6)), 4);
    assert_eq!(lock.into_inner(), 6);
}

#[test]
fn an_unsized_value_can_be_locked() {
    let lock = SpinLock::new([1, 2, 3]);
    let slice: &SpinLock<[u32]> = &lock;
    slice.lock()[1] = 9;
    assert_eq!(lock.into_inner(), [1, 9, 3]);
}

#[test]
fn a_forgotten_guard_leaves_the_lock_held() {
    let mut lock = SpinLock::new(3);
    mem::forget(lock.lock());
    assert!(lock.try_lock().is_none());
    assert_eq!(*lock.get_mut(), 3, "exclusive access needs no lock");
    assert_eq!(lock.into_inner(), 3);
}

#[test]
fn the_raw_lock_shows_whether_it_is_held() {
    let raw = RawSpinLock::default();
    assert!(raw.try_lock());
    assert!(raw.is_locked() && !raw.try_lock());
    assert_eq!(format!("{raw:?}"), "RawSpinLock { locked: true }");
    // SAFETY: the lock was taken above and protects nothing.
    unsafe { raw.unlock() };
    assert!(!raw.is_locked());
}

/// A value whose `Debug` uses the lock that guards it.
struct Shown<'a>(std::cell::Cell<Option<&'a SpinLock<Shown<'a>>>>);

impl std::fmt::Debug for Shown<'_> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.0.take() {
            Some(own) => write!(f, "{own:?}"),
            None => panic!("a value's Debug"),
        }
    }
}

#[test]
fn a_debug_that_uses_its_own_lock_or_panics_leaves_the_lock_free() {
    let lock = SpinLock::new(Shown(std::cell::Cell::new(None)));
    lock.lock().0.set(Some(&lock));
    let inner = "SpinLock { value: <locked> }";
    assert_eq!(
        format!("{lock:?}"),
        format!("SpinLock {{ value: {inner} }}")
    );
    let panicked = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| format!("{lock:?}")));
    assert!(panicked.is_err() && lock.try_lock().is_some());
}
