//! The basic use of each kind of pool.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use pool_core::{FuncPool, Pool};

#[testkit::test]
fn a_thousand_numbers_are_summed_before_and_after_a_reboot() {
    let pool = Pool::builder().capacity(10).build().unwrap();
    for _ in 0..2 {
        let sum = Arc::new(AtomicU64::new(0));
        for number in 0..1000 {
            let sum = Arc::clone(&sum);
            pool.submit(move || _ = sum.fetch_add(number, Ordering::Relaxed))
                .unwrap();
        }
        pool.release();
        pool.wait_released().unwrap();
        assert_eq!(sum.load(Ordering::Relaxed), 499_500);
        assert_eq!((pool.running(), pool.free()), (0, Some(10)));
        assert!(pool.reboot());
    }
}

#[testkit::test]
fn handles_of_a_typed_pool_return_values() {
    let pool = FuncPool::builder(|n: u64| n * n)
        .capacity(2)
        .build()
        .unwrap();
    let handles: Vec<_> = (0..100).map(|n| pool.spawn(n).unwrap()).collect();
    let sum: u64 = handles
        .into_iter()
        .map(|handle| handle.join().unwrap())
        .sum();
    assert_eq!(sum, 328_350);
}
