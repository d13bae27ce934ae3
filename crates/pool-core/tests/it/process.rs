//! Pools at the end of the process.

use std::sync::OnceLock;

use pool_core::Pool;
use testkit::in_child;

use crate::support::{hold, pool};

#[testkit::test]
fn a_process_with_a_pool_in_a_static_ends() {
    static POOL: OnceLock<Pool> = OnceLock::new();
    let test = "process::a_process_with_a_pool_in_a_static_ends";
    let ended = in_child(test, || {
        let pool = POOL.get_or_init(|| pool(2));
        pool.spawn(|| ()).unwrap().join().unwrap();
        hold(pool, 1); // One worker is busy, the other is idle.
    });
    ended.unwrap();
}

#[cfg(unix)]
#[testkit::test]
fn a_worker_that_overflows_its_stack_ends_the_process_and_does_not_hang() {
    fn deeper(depth: u64) -> u64 {
        let frame = std::hint::black_box([depth; 512]);
        if frame[0] == u64::MAX {
            return 0;
        }
        deeper(depth + 1) + frame[511]
    }
    let test = "process::a_worker_that_overflows_its_stack_ends_the_process_and_does_not_hang";
    let ended = in_child(test, || {
        let handle = pool(1).spawn(|| deeper(0)).unwrap();
        let _ = handle.join();
    });
    let output = ended.unwrap_err();
    assert!(output.status.code().is_none(), "by a signal: {output:?}");
}
