//! The traits `Submit`, `Spawn` and `Workers`, for every kind of pool.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use multi_pool::MultiBuilder;
use pool_core::TimeoutExt;
use pool_core::{Capacity, FuncPool, Pool, Spawn, Submit, SubmitError, WaitError, Workers};
use testkit::{Gate, block_on};

type Closure = Box<dyn FnOnce() + Send>;

/// Makes every call of `Submit`, in two lives of the pool, and reads all statistics. Ten tasks run.
fn exercise<T>(pool: &dyn Submit<T>, task: impl Fn() -> T) {
    let later = Instant::now() + Duration::from_secs(24 * 3600);
    for _ in 0..2 {
        pool.submit(task()).unwrap();
        pool.wait_idle_timeout(Duration::MAX).unwrap();
        pool.try_submit(task()).unwrap();
        pool.wait_idle_timeout(later).unwrap();
        pool.submit_timeout(task(), Duration::MAX).unwrap();
        pool.submit_timeout(task(), later).unwrap();
        block_on(pool.submit_async(task())).unwrap();
        pool.wait_idle().unwrap();
        assert!((1..=4).contains(&pool.running()));
        assert!(pool.release() && pool.is_released() && !pool.is_own_worker());
        assert!(pool.submit(task()).unwrap_err().is_released());
        pool.wait_released().unwrap();
        pool.wait_released_timeout(Duration::ZERO).unwrap();
        pool.wait_released_timeout(later).unwrap();
        pool.release_timeout(Duration::ZERO).unwrap();
        pool.release_timeout(later).unwrap();
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

#[testkit::test]
fn the_submit_trait_works_for_every_kind_of_pool() {
    let ran = Arc::new(AtomicUsize::new(0));
    let task = || -> Closure {
        let ran = Arc::clone(&ran);
        Box::new(move || _ = ran.fetch_add(1, SeqCst))
    };
    exercise(&Pool::builder().capacity(4).build().unwrap(), task);
    let each = Pool::builder().capacity(2);
    exercise(&MultiBuilder::new(each).pools(2).build().unwrap(), task);

    let counter = Arc::clone(&ran);
    let each = FuncPool::builder(move |by: usize| counter.fetch_add(by, SeqCst));
    exercise(&each.clone().capacity(4).build().unwrap(), || 1);
    let pools = MultiBuilder::new(each.capacity(2)).pools(2);
    exercise(&pools.build().unwrap(), || 1);
    assert_eq!(ran.load(SeqCst), 40);
}

/// Makes every call of `Spawn`.
fn spawn_all<T, V: Send + 'static>(pool: &dyn Spawn<T, Value = V>, task: impl Fn() -> T) -> Vec<V> {
    let later = Instant::now() + Duration::from_secs(24 * 3600);
    let handles = [
        pool.spawn(task()),
        pool.try_spawn(task()),
        pool.spawn_timeout(task(), Duration::MAX),
        pool.spawn_timeout(task(), later),
        block_on(pool.spawn_async(task())),
    ];
    let values = handles.map(|handle| handle.unwrap().join().unwrap());
    pool.release();
    pool.wait_released().unwrap();
    assert!(pool.spawn(task()).is_err());
    values.into()
}

#[testkit::test]
fn the_spawn_trait_works_for_every_kind_of_pool() {
    let each = Pool::builder().capacity(5);
    let task = || || 7;
    assert_eq!(spawn_all(&each.clone().build().unwrap(), task), [7; 5]);
    let pools = MultiBuilder::new(each).pools(3);
    assert_eq!(spawn_all(&pools.build().unwrap(), task), [7; 5]);
    let each = FuncPool::builder(|number: u32| u64::from(number) + 1).capacity(5);
    assert_eq!(spawn_all(&each.clone().build().unwrap(), || 6), [7; 5]);
    let pools = MultiBuilder::new(each).pools(3);
    assert_eq!(spawn_all(&pools.build().unwrap(), || 6), [7; 5]);
}

/// Makes each call at a full pool.
fn refused_by_all<T>(
    pool: &(impl Submit<T> + Spawn<T> + ?Sized),
    task: impl Fn() -> T,
    is_nonblocking: bool,
) {
    use SubmitError::{Full, TimedOut};
    let now = Instant::now();
    if is_nonblocking {
        assert!(matches!(pool.submit(task()), Err(Full(_))));
        assert!(matches!(pool.spawn(task()), Err(Full(_))));
    }
    assert!(matches!(pool.try_submit(task()), Err(Full(_))));
    assert!(matches!(pool.try_spawn(task()), Err(Full(_))));
    let late = pool.submit_timeout(task(), Duration::ZERO);
    assert!(matches!(late, Err(TimedOut(_))));
    assert!(matches!(pool.submit_timeout(task(), now), Err(TimedOut(_))));
    let late = pool.spawn_timeout(task(), Duration::ZERO);
    assert!(matches!(late, Err(TimedOut(_))));
    assert!(matches!(pool.spawn_timeout(task(), now), Err(TimedOut(_))));
    let entering = pool.spawn_async(task());
    assert!(polled(entering).is_none(), "it waits in the line");
    let late = pool.wait_idle_timeout(Duration::ZERO);
    assert_eq!(late, Err(WaitError::TimedOut));
    assert_eq!(pool.wait_idle_timeout(now), Err(WaitError::TimedOut));
    assert_eq!((pool.in_flight(), pool.free()), (2, Some(0)));
}

/// The result of a future's first poll.
fn polled<T>(mut future: impl Future<Output = T> + Unpin) -> Option<T> {
    match Pin::new(&mut future).poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(answer) => Some(answer),
        Poll::Pending => None,
    }
}

#[testkit::test]
fn each_call_of_the_traits_follows_its_name_at_a_full_pool() {
    for is_nonblocking in [false, true] {
        let gate = Gate::new();
        let each = Pool::builder().nonblocking(is_nonblocking);
        let one = each.clone().capacity(2).build().unwrap();
        let many = MultiBuilder::new(each.capacity(1)).pools(2);
        let many = many.build().unwrap();
        let held = gate.clone();
        let each = FuncPool::builder(move |()| held.wait()).nonblocking(is_nonblocking);
        let typed = each.clone().capacity(2).build().unwrap();
        let several = MultiBuilder::new(each.capacity(1)).pools(2);
        let several = several.build().unwrap();
        for _ in 0..2 {
            let [first, second] = [gate.clone(), gate.clone()];
            one.submit(move || first.wait()).unwrap();
            many.submit(move || second.wait()).unwrap();
            typed.submit(()).unwrap();
            several.submit(()).unwrap();
        }
        gate.wait_for_arrivals(8);
        refused_by_all(&one, || || (), is_nonblocking);
        refused_by_all(&many, || || (), is_nonblocking);
        refused_by_all(&typed, || (), is_nonblocking);
        refused_by_all(&several, || (), is_nonblocking);
        gate.open();
    }
}

#[testkit::test]
fn the_workers_trait_returns_one_error_for_all_pools() {
    let each = Pool::builder().capacity(1);
    let pool = MultiBuilder::new(each).pools(2).build().unwrap();
    let inner = pool.clone();
    let answer = pool.spawn(move || Workers::wait_idle(&inner)).unwrap();
    assert_eq!(answer.join().unwrap(), Err(WaitError::WouldDeadlock));
}
