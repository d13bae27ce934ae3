//! Calls of user code: its panics are caught.

use std::panic::panic_any;

use sync_shim::foreign::{discard, drop_quietly, guarded, wake};
use testkit::{CountingWaker, PanicOnDrop, waker_fn};

#[test]
fn a_panic_becomes_a_value() {
    assert_eq!(guarded(|| 5).ok(), Some(5));
    let payload = guarded(|| panic_any(7_u8)).expect_err("it panicked");
    assert_eq!(payload.downcast_ref::<u8>(), Some(&7));
}

#[test]
fn a_panic_in_a_drop_is_caught_and_reported() {
    assert!(!drop_quietly(5));
    for levels in [1, 3, 20] {
        assert!(drop_quietly(PanicOnDrop::nested(levels)), "{levels} levels");
    }
}

#[test]
fn a_waker_is_called_once_and_dropped() {
    let counter = CountingWaker::new();
    wake(counter.waker());
    assert_eq!((counter.wakes(), counter.wakers()), (1, 0));
}

#[test]
fn a_waker_that_panics_with_a_payload_that_panics_is_contained() {
    for levels in [0, 1, 3] {
        wake(waker_fn(move || panic_any(PanicOnDrop::nested(levels))));
    }
}

#[test]
fn a_payload_whose_drop_panics_with_another_is_discarded() {
    for levels in [0, 1, 3, 20] {
        discard(Box::new(PanicOnDrop::nested(levels)));
    }
}

#[cfg(debug_assertions)]
#[test]
#[should_panic(expected = "user code runs under a lock")]
fn a_debug_build_refuses_to_run_user_code_under_a_lock() {
    use sync_shim::foreign::Held;

    drop(guarded(Held::new)); // A mark counts until it is dropped.
    let _held = Held::new();
    let _ = guarded(|| ());
}
