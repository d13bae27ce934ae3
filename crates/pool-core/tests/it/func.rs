//! Typed pools: arguments of any type, and the return of arguments whose call was refused.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::thread;

use pool_core::{FuncPool, JoinError, SubmitError};
use testkit::{Gate, block_on};

use crate::support::{Journal, end, until};

/// A pool of one worker and depth ten. Its function waits at the gate if the argument is `None`.
fn gated(gate: &Gate) -> FuncPool<Option<u32>, Option<u32>> {
    let gate = gate.clone();
    let function = move |argument: Option<u32>| {
        if argument.is_none() {
            gate.wait();
        }
        argument
    };
    FuncPool::builder(function)
        .capacity(1)
        .queue_depth(10)
        .build()
        .unwrap()
}

#[testkit::test]
fn no_argument_value_ends_a_worker() {
    let zeros = FuncPool::builder(|n: u32| n).capacity(1).build().unwrap();
    assert_eq!(zeros.spawn(0).unwrap().join().unwrap(), 0);
    let nothings = FuncPool::builder(|nothing: Option<Box<u8>>| nothing.is_none());
    let nothings = nothings.capacity(1).build().unwrap();
    for _ in 0..100 {
        assert!(nothings.spawn(None).unwrap().join().unwrap());
    }
    let units = FuncPool::builder(|(): ()| ()).capacity(1).build().unwrap();
    for _ in 0..100 {
        units.submit(()).unwrap();
    }
    units.wait_idle().unwrap();
    for (completed, started) in [
        (zeros.stats().completed, zeros.stats().threads_started),
        (nothings.stats().completed, nothings.stats().threads_started),
        (units.stats().completed, units.stats().threads_started),
    ] {
        assert!(completed > 0 && started == 1, "no argument ends its worker");
    }
}

#[testkit::test]
fn a_thousand_arguments_are_summed_by_every_call() {
    let sum = Arc::new(AtomicU64::new(0));
    let adder = {
        let sum = Arc::clone(&sum);
        move |n: u64| sum.fetch_add(n, SeqCst)
    };
    let pool = FuncPool::builder(adder).capacity(10).build().unwrap();
    for n in 0..1000 {
        match n % 5 {
            0 => pool.submit(n).unwrap(),
            1 => block_on(pool.submit_async(n)).unwrap(),
            2 => drop(pool.spawn(n).unwrap()),
            3 => drop(block_on(pool.spawn_async(n)).unwrap()),
            _ => {
                let mut back = n;
                while let Err(refused) = pool.try_submit(back) {
                    assert!(refused.is_full());
                    back = refused.into_task();
                    std::thread::yield_now();
                }
            }
        }
    }
    pool.wait_idle().unwrap();
    assert_eq!(sum.load(SeqCst), 499_500);
}

#[testkit::test]
fn a_refused_argument_is_returned() {
    let gate = Gate::new();
    let pool = gated(&gate);
    pool.submit(None).unwrap();
    gate.wait_for_arrivals(1);
    for n in 0..10 {
        pool.try_submit(Some(n)).unwrap();
    }
    assert!(matches!(
        pool.try_submit(Some(11)),
        Err(SubmitError::Full(Some(11)))
    ));
    assert!(matches!(
        pool.try_spawn(Some(12)),
        Err(SubmitError::Full(Some(12)))
    ));
    pool.release();
    assert!(matches!(
        pool.submit(None),
        Err(SubmitError::Released(None))
    ));
    assert!(matches!(
        pool.spawn(Some(14)),
        Err(SubmitError::Released(Some(14)))
    ));
    let refused = block_on(pool.spawn_async(Some(15)));
    assert!(matches!(refused, Err(SubmitError::Released(Some(15)))));
    gate.open();
    end(&pool);
    assert_eq!(pool.stats().completed, 11);
}

#[testkit::test]
fn release_now_returns_unstarted_arguments_in_order() {
    let gate = Gate::new();
    let pool = gated(&gate);
    let running = pool.spawn(None).unwrap();
    gate.wait_for_arrivals(1);
    pool.try_submit(Some(1)).unwrap();
    let spawned = pool.try_spawn(Some(2)).unwrap();
    let cancelled = pool.try_spawn(Some(3)).unwrap();
    pool.try_submit(Some(4)).unwrap();
    assert!(cancelled.cancel());
    assert_eq!(pool.release_now(), [Some(1), Some(2), Some(4)]);
    assert_eq!(pool.release_now(), []);
    assert!(matches!(spawned.join(), Err(JoinError::Released)));
    assert_eq!((pool.queued(), pool.in_flight()), (0, 1));
    gate.open();
    assert_eq!(running.join().unwrap(), None);
    pool.wait_released().unwrap();
    let stats = pool.stats();
    assert_eq!(
        (stats.completed, stats.released, stats.cancelled),
        (1, 3, 1)
    );
}

#[testkit::test]
fn an_unclaimed_value_is_dropped_on_its_worker() {
    struct Tells(Journal<Option<String>>);
    impl Drop for Tells {
        fn drop(&mut self) {
            self.0
                .write(std::thread::current().name().map(str::to_owned));
        }
    }
    let journal = Journal::new();
    let log = journal.clone();
    let pool = FuncPool::builder(move |()| Tells(log.clone()));
    let pool = pool.capacity(1).name("dropper").build().unwrap();
    pool.submit(()).unwrap();
    until(|| journal.len() == 1);
    assert_eq!(journal.entries(), [Some("dropper-0".to_owned())]);
}

/// Runs the test on a thread whose stack holds the arguments that the caller passes by value.
fn on_a_large_stack(test: impl FnOnce() + Send + 'static) {
    let thread = thread::Builder::new().stack_size(64 << 20).spawn(test);
    thread.unwrap().join().unwrap();
}

#[testkit::test]
#[expect(
    clippy::large_stack_arrays,
    reason = "the test is about values on the stack"
)]
fn an_argument_of_256_kib_fits_on_a_workers_stack() {
    type Large = [u8; 256 << 10];
    on_a_large_stack(|| {
        let pool = FuncPool::builder(|bytes: Large| bytes[bytes.len() - 1]);
        let pool = pool.capacity(1).queue_depth(2).build().unwrap();
        pool.submit([1; 256 << 10]).unwrap();
        assert_eq!(pool.spawn([7; 256 << 10]).unwrap().join().unwrap(), 7);
        pool.wait_idle().unwrap();
        assert_eq!(pool.stats().completed, 2);
    });
}

#[testkit::test]
#[expect(
    clippy::large_stack_arrays,
    reason = "the test is about values on the stack"
)]
fn an_argument_of_one_mib_fits_on_a_stack_of_a_few_mib() {
    on_a_large_stack(|| {
        let pool = FuncPool::builder(|bytes: [u8; 1 << 20]| bytes[bytes.len() - 1]);
        let pool = pool.capacity(1).queue_depth(2).stack_size(8 << 20);
        let pool = pool.build().unwrap();
        pool.submit([1; 1 << 20]).unwrap();
        assert_eq!(pool.spawn([7; 1 << 20]).unwrap().join().unwrap(), 7);
        pool.wait_idle().unwrap();
        assert_eq!(pool.stats().completed, 2);
    });
}
