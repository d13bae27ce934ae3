//! One face for every kind of pool.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::time::{Duration, Instant};

use multi_pool::{MultiFuncPool, MultiPool};
use pool_core::{Capacity, FuncPool, Pool, Spawn, Submit, WaitError, Workers};
use testkit::block_on;

use crate::support::bounded;

type Closure = Box<dyn FnOnce() + Send>;

/// Submits in every way, lives twice, and looks at everything: ten tasks have run.
fn exercise<T>(pool: &dyn Submit<T>, task: impl Fn() -> T) {
    let later = Instant::now() + Duration::from_secs(24 * 3600);
    for _ in 0..2 {
        pool.submit(task()).unwrap();
        pool.wait_idle_timeout(Duration::MAX).unwrap();
        pool.try_submit(task()).unwrap();
        pool.wait_idle_deadline(later).unwrap();
        pool.submit_timeout(task(), Duration::MAX).unwrap();
        pool.submit_deadline(task(), later).unwrap();
        block_on(pool.submit_async(task())).unwrap();
        pool.wait_idle().unwrap();
        assert!((1..=4).contains(&pool.running()));
        assert!(pool.release() && pool.is_released() && !pool.is_own_worker());
        assert!(pool.submit(task()).unwrap_err().is_released());
        pool.wait_released().unwrap();
        pool.wait_released_timeout(Duration::ZERO).unwrap();
        pool.wait_released_deadline(later).unwrap();
        pool.release_timeout(Duration::ZERO).unwrap();
        pool.release_deadline(later).unwrap();
        assert_eq!((pool.running(), pool.waiting(), pool.queued()), (0, 0, 0));
        assert!(pool.reboot());
    }
    assert_eq!((pool.in_flight(), pool.stats().completed), (0, 10));
    assert_eq!(
        (pool.capacity(), pool.free()),
        (Capacity::Limited(4), Some(4))
    );
    pool.tune(Capacity::Unlimited).unwrap();
    assert_eq!((pool.free(), pool.name()), (None, "pool"));
    assert_eq!(pool.release_now(), 0);
    assert_eq!(pool.wait_released(), Ok(()));
}

#[test]
fn a_caller_need_not_know_which_kind_of_pool_it_has() {
    bounded(|| {
        let ran = Arc::new(AtomicUsize::new(0));
        let task = || -> Closure {
            let ran = Arc::clone(&ran);
            Box::new(move || _ = ran.fetch_add(1, SeqCst))
        };
        exercise(&Pool::builder().capacity(4).build().unwrap(), task);
        let each = Pool::builder().capacity(2);
        exercise(&MultiPool::builder(each).pools(2).build().unwrap(), task);

        let counter = Arc::clone(&ran);
        let each = FuncPool::builder(move |by: usize| counter.fetch_add(by, SeqCst));
        exercise(&each.clone().capacity(4).build().unwrap(), || 1);
        let pools = MultiFuncPool::builder(each.capacity(2)).pools(2);
        exercise(&pools.build().unwrap(), || 1);
        assert_eq!(ran.load(SeqCst), 40);
    });
}

/// Spawns in every way.
fn spawn_all<T, V: Send + 'static>(pool: &dyn Spawn<T, Value = V>, task: impl Fn() -> T) -> Vec<V> {
    let later = Instant::now() + Duration::from_secs(24 * 3600);
    let handles = [
        pool.spawn(task()),
        pool.try_spawn(task()),
        pool.spawn_timeout(task(), Duration::MAX),
        pool.spawn_deadline(task(), later),
        block_on(pool.spawn_async(task())),
    ];
    let values = handles.map(|handle| handle.unwrap().join().unwrap());
    pool.release();
    pool.wait_released().unwrap();
    assert!(pool.spawn(task()).is_err());
    values.into()
}

#[test]
fn handles_come_from_every_kind_of_pool() {
    bounded(|| {
        let each = Pool::builder().capacity(5);
        let task = || || 7;
        assert_eq!(spawn_all(&each.clone().build().unwrap(), task), [7; 5]);
        let pools = MultiPool::builder(each).pools(3);
        assert_eq!(spawn_all(&pools.build().unwrap(), task), [7; 5]);
        let each = FuncPool::builder(|number: u32| u64::from(number) + 1).capacity(5);
        assert_eq!(spawn_all(&each.clone().build().unwrap(), || 6), [7; 5]);
        let pools = MultiFuncPool::builder(each).pools(3);
        assert_eq!(spawn_all(&pools.build().unwrap(), || 6), [7; 5]);
    });
}

#[test]
fn one_answer_stands_for_all_pools_where_the_face_has_room_for_one() {
    bounded(|| {
        let each = Pool::builder().capacity(1);
        let pool = MultiPool::builder(each).pools(2).build().unwrap();
        let inner = pool.clone();
        let answer = pool.spawn(move || Workers::wait_idle(&inner)).unwrap();
        assert_eq!(answer.join().unwrap(), Err(WaitError::WouldDeadlock));
    });
}
