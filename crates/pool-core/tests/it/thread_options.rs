//! Worker threads: their names, stack sizes and thread-locals.

use std::thread;

use pool_core::{BuildError, Pool, SubmitError};

use crate::support::pool;

#[testkit::test]
fn threads_are_named_after_their_pool() {
    for name in [
        "",
        "short",
        "a name of more than fifteen bytes, with ünïcode",
    ] {
        let pool = Pool::builder().capacity(2).name(name).build().unwrap();
        let whose = || thread::current().name().map(str::to_owned);
        let called = pool.spawn(whose).unwrap().join().unwrap();
        assert_eq!(called, Some(format!("{name}-0")));
        assert_eq!(pool.name(), name);
    }
    let nul = Pool::builder().capacity(1).name("nul\0inside").build();
    assert!(matches!(nul, Err(BuildError::NulInName)));
}

#[testkit::test]
fn stacks_have_the_configured_size_or_the_start_is_refused() {
    fn touch(bytes: usize) -> u8 {
        let frame = [1_u8; 4096];
        let seen = std::hint::black_box(&frame)[0];
        if bytes <= 4096 {
            seen
        } else {
            touch(bytes - 4096)
        }
    }
    let large = Pool::builder()
        .capacity(1)
        .stack_size(64 << 20)
        .build()
        .unwrap();
    assert_eq!(large.spawn(|| touch(16 << 20)).unwrap().join().unwrap(), 1);
    for bytes in [usize::MAX, usize::MAX / 2, 1 << 60] {
        let huge = Pool::builder()
            .capacity(1)
            .stack_size(bytes)
            .build()
            .unwrap();
        let refused = huge.submit(|| ());
        assert!(
            matches!(refused, Err(SubmitError::NoThread(..))),
            "{bytes}: {refused:?}"
        );
    }
    let tiny = Pool::builder().capacity(1).stack_size(0).build().unwrap();
    assert_eq!(tiny.spawn(|| 1).unwrap().join().unwrap(), 1);
}

#[testkit::test]
fn tasks_on_one_worker_share_its_thread_locals() {
    thread_local!(static LEFT: std::cell::Cell<u32> = const { std::cell::Cell::new(0) });
    let pool = pool(1);
    pool.spawn(|| LEFT.set(5)).unwrap().join().unwrap();
    assert_eq!(pool.spawn(|| LEFT.get()).unwrap().join().unwrap(), 5);
}
