//! How far below the top of a worker's stack a task begins.
//!
//! An idle worker keeps every page that its stack has ever used. The thread's start and a short
//! task need two pages. `docs/decisions/idle-memory.md` has the measurements.
//!
//! A separate binary, because it measures optimized frames: `cargo xtask ci --only stack` builds
//! it.
#![cfg(all(target_os = "linux", target_arch = "x86_64", not(anthill_loom)))]
#![expect(clippy::unwrap_used, reason = "a failing helper fails its test")]

use std::hint::black_box;
use std::mem::MaybeUninit;
use std::ptr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::thread;

use pool_core::{FuncPool, Pool};

/// Bytes of stack between a thread's first function and a task. That function begins about 5,080
/// bytes below the top, so a task begins about 6 KiB below it. A frame that contains a job grows in
/// steps of 64 bytes.
const MOST: usize = 1_200;

/// The distance from the top of the calling thread's stack to the caller's frame.
#[inline(never)]
fn depth() -> usize {
    let here = 0_u8;
    top() - black_box(&raw const here).addr()
}

/// The address after the calling thread's stack.
fn top() -> usize {
    // SAFETY: `pthread_self` has no preconditions.
    let this = unsafe { libc::pthread_self() };
    let mut attributes = MaybeUninit::uninit();
    // SAFETY: `this` is the calling thread, which is alive. `attributes` is valid for writes.
    let got = unsafe { libc::pthread_getattr_np(this, attributes.as_mut_ptr()) };
    assert_eq!(got, 0);
    // SAFETY: the call above succeeded and has initialized `attributes`.
    let mut attributes = unsafe { attributes.assume_init() };
    let (mut lowest, mut size) = (ptr::null_mut(), 0);
    let (to_lowest, to_size) = (&raw mut lowest, &raw mut size);
    // SAFETY: all three pointers are valid during the call.
    let got = unsafe { libc::pthread_attr_getstack(&raw const attributes, to_lowest, to_size) };
    assert_eq!(got, 0);
    // SAFETY: `attributes` is initialized and not used again.
    unsafe { libc::pthread_attr_destroy(&raw mut attributes) };
    lowest.addr() + size
}

/// How far below a thread's first function a task begins that has stored its [`depth`].
fn below_the_thread(task: usize) -> usize {
    let thread = thread::Builder::new().name("alone".to_owned());
    let thread = thread.spawn(depth).unwrap().join().unwrap();
    task - thread
}

#[test]
#[ignore = "unoptimized frames are larger: `cargo xtask ci --only stack` runs it optimized"]
fn a_task_begins_near_the_top_of_its_workers_stack() {
    let pool = Pool::builder().capacity(1).build().unwrap();
    let stored = Arc::new(AtomicUsize::new(0));
    let store = Arc::clone(&stored);
    pool.submit(move || store.store(depth(), SeqCst)).unwrap();
    pool.wait_idle().unwrap();
    let submitted = stored.load(SeqCst);
    let spawned = pool.spawn(depth).unwrap().join().unwrap();

    let store = Arc::clone(&stored);
    let function = move |(): ()| store.store(depth(), SeqCst);
    let pool = FuncPool::builder(function).capacity(1).build().unwrap();
    pool.submit(()).unwrap();
    pool.wait_idle().unwrap();
    let called = stored.load(SeqCst);

    for (kind, depth) in [
        ("submitted", submitted),
        ("spawned", spawned),
        ("an argument", called),
    ] {
        let below = below_the_thread(depth);
        println!("{kind}: {depth} bytes below the top, {below} below the thread's first function");
        assert!(below <= MOST, "{kind}: {below} bytes, at most {MOST}");
    }
}
