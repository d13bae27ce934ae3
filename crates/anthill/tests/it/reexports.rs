//! Every public item of the lower crates that a user needs is re-exported under the same name.

use std::time::Duration;

use anthill::{
    DedupQueue, DelayHeap, DelayQueue, FuncPool, JoinHandle, ManualClock, Pool, QueueDepth,
    ScheduledPool, SubmitError,
};

#[testkit::test]
fn every_type_of_pools_is_reexported() {
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

#[testkit::test]
fn every_type_of_delay_queues_and_schedules_is_reexported() {
    let mut heap = DelayHeap::new();
    heap.push("due", 5);
    assert_eq!(heap.pop_ready(5).map(|entry| entry.value), Some("due"));

    let clock = ManualClock::new();
    let queue = DelayQueue::with_clock(clock.clone());
    queue.push("later", Duration::from_secs(1)).unwrap();
    assert!(matches!(
        queue.try_take(),
        Err(anthill::delay_queue::TakeError::NotDue)
    ));
    clock.advance(Duration::from_secs(1));
    assert_eq!(queue.try_take().unwrap().value, "later");

    let keys = DedupQueue::<&str>::new();
    keys.add("key").unwrap();
    keys.add("key").unwrap();
    assert_eq!(keys.try_get().unwrap().key(), &"key");
    assert!(keys.try_get().is_err(), "two adds, one delivery");

    let pool = Pool::builder().capacity(1).clock(clock.clone()).build();
    let scheduled = ScheduledPool::new(pool.unwrap());
    let handle = scheduled.spawn_after(Duration::from_secs(1), || 7).unwrap();
    clock.wait_for_sleepers(1);
    clock.advance(Duration::from_secs(1));
    assert_eq!(handle.join().unwrap(), 7);
}
