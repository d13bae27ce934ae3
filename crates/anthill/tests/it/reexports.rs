//! One dependency is enough: what the layers below offer is here under the same names.

use anthill::{FuncPool, JoinHandle, ManualClock, Pool, QueueDepth, SubmitError};

#[test]
fn a_pool_and_all_that_its_calls_need_can_be_named_through_the_umbrella_alone() {
    let pool: Pool = Pool::builder()
        .capacity(1)
        .queue_depth(QueueDepth::Unlimited)
        .clock(ManualClock::new())
        .build()
        .unwrap();
    let handle: JoinHandle<u32> = pool.spawn(|| 1).unwrap();
    assert_eq!(handle.join().unwrap(), 1);

    let doubles: FuncPool<u32, u32> = FuncPool::builder(|n| 2 * n).capacity(1).build().unwrap();
    doubles.release();
    assert!(matches!(doubles.submit(7), Err(SubmitError::Released(7))));
}
