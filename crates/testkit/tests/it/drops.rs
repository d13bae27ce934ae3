use std::panic::{AssertUnwindSafe, catch_unwind};

use testkit::{DropCounter, PanicOnDrop};

#[test]
fn a_counter_counts_dropped_and_live_values() {
    let drops = DropCounter::new();
    let (first, second) = (drops.token(), drops.token());
    assert_eq!((drops.dropped(), drops.alive()), (0, 2));
    drop(first);
    assert_eq!((drops.dropped(), drops.alive()), (1, 1));
    drop(second);
    assert_eq!((drops.dropped(), drops.alive()), (2, 0));
}

#[test]
fn a_nested_bomb_panics_once_per_level() {
    let mut payload = catch_unwind(|| drop(PanicOnDrop::nested(3))).expect_err("level 3");
    for level in [2, 1] {
        payload = catch_unwind(AssertUnwindSafe(|| drop(payload)))
            .expect_err(&format!("the payload of level {level} is a bomb"));
    }
    drop(payload);
    drop(PanicOnDrop::nested(0));
}

#[test]
fn a_bomb_does_not_panic_while_its_thread_unwinds() {
    let caught = catch_unwind(|| {
        let _bomb = PanicOnDrop::new();
        panic!("first");
    });
    let payload = caught.expect_err("the first panic propagates");
    assert_eq!(payload.downcast_ref(), Some(&"first"));
}
