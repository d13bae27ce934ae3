//! Random rounds with more workers and callers than cores. Each task ends once, and nothing is left.
//!
//! `ANTHILL_SEED` sets the seed.

use std::future::{Future, poll_fn};
use std::panic::panic_any;
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};
use std::thread;
use std::time::Duration;

use async_pool::{AsyncPool, DropPolicy, JoinError, SubmitError, sleep, timeout, yield_now};
use futures_lite::future::block_on;
use testkit::{DropCounter, PanicOnDrop, Rng};

const ROUNDS: usize = 12;
const CALLERS: usize = 6;
const STEPS: usize = 60;

/// Wakers that tasks leave for one another.
type Wakers = Arc<Mutex<Vec<Waker>>>;

/// Waits until another task calls the waker, or for a short time.
async fn meet(wakers: Wakers) {
    let mut has_waited = false;
    let met = poll_fn(move |context: &mut Context<'_>| {
        if std::mem::replace(&mut has_waited, true) {
            return Poll::Ready(());
        }
        let mut wakers = wakers.lock().expect("no waker panics under the lock");
        let others = std::mem::take(&mut *wakers);
        wakers.push(context.waker().clone());
        drop(wakers);
        others.into_iter().for_each(Waker::wake);
        Poll::Pending
    });
    _ = timeout(Duration::from_micros(300), met).await;
}

/// One task of the stress run.
async fn work(pool: AsyncPool, wakers: Wakers, mut rng: Rng, depth: u32) -> u32 {
    let _hostile = rng.chance(12).then(PanicOnDrop::new);
    for _ in 0..rng.below(4) {
        match rng.below(8) {
            0 | 1 => yield_now().await,
            2 => sleep(Duration::from_micros(rng.next_u64() % 200)).await,
            3 => meet(Arc::clone(&wakers)).await,
            4 if rng.chance(6) => panic_any(rng.next_u64()),
            5 if depth < 3 => {
                let child = boxed(pool.clone(), Arc::clone(&wakers), rng.split(), depth + 1);
                if let Ok(child) = pool.spawn_async(child).await {
                    if rng.chance(2) {
                        child.cancel();
                    }
                    _ = child.await;
                }
            }
            6 => _ = pool.try_submit(async {}),
            _ => _ = pool.try_reserve(),
        }
    }
    7
}

fn boxed(
    pool: AsyncPool,
    wakers: Wakers,
    rng: Rng,
    depth: u32,
) -> Pin<Box<dyn Future<Output = u32> + Send>> {
    Box::pin(work(pool, wakers, rng, depth))
}

/// One thread that uses the pool.
fn call(pool: &AsyncPool, wakers: &Wakers, tokens: &DropCounter, made: &AtomicUsize, mut rng: Rng) {
    let mut handles = Vec::new();
    for _ in 0..STEPS {
        let token = tokens.token();
        made.fetch_add(1, SeqCst);
        let inner = work(pool.clone(), Arc::clone(wakers), rng.split(), 0);
        let task = async move {
            let _token = token;
            inner.await
        };
        let spawned = match rng.below(6) {
            0 => pool.try_spawn(task),
            1 => pool.spawn(task),
            2 => pool.spawn_timeout(task, Duration::from_micros(200)),
            3 => block_on(pool.spawn_async(task)),
            4 => match pool.reserve_timeout(Duration::from_micros(200)) {
                Ok(permit) => Ok(permit.spawn(task)),
                Err(refused) => Err(refused.map(|()| task)),
            },
            _ => {
                let mut wait = pool.spawn_async(task);
                let polled = Pin::new(&mut wait).poll(&mut Context::from_waker(Waker::noop()));
                match polled {
                    Poll::Ready(spawned) => spawned,
                    Poll::Pending => continue,
                }
            }
        };
        match spawned {
            Ok(handle) => match rng.below(5) {
                0 => drop(handle),
                1 => drop(handle.cancel_on_drop()),
                2 => {
                    handle.cancel();
                    handles.push(handle);
                }
                _ => handles.push(handle),
            },
            Err(SubmitError::Full(_) | SubmitError::TimedOut(_) | SubmitError::Released(_)) => {}
            Err(other) => panic!("{other:?}"),
        }
        match rng.below(40) {
            0 => pool.release_now(),
            1 => _ = pool.release(),
            2..=5 => _ = pool.reboot().expect("threads can be started"),
            6..=9 => pool.tune(1 + rng.below(4)).expect("it is not zero"),
            _ => {}
        }
        if rng.chance(4)
            && let Some(handle) = handles.pop()
        {
            match handle.join() {
                Ok(value) => assert_eq!(value, 7),
                Err(JoinError::Panicked(_) | JoinError::Cancelled | JoinError::Released) => {}
                Err(other) => panic!("{other}"),
            }
        }
    }
}

#[testkit::test]
fn random_rounds_lose_no_future_and_exceed_no_capacity() {
    let mut rng = Rng::from_env();
    for round in 0..ROUNDS {
        let tokens = DropCounter::new();
        let made = AtomicUsize::new(0);
        let wakers = Wakers::default();
        let pool = AsyncPool::builder()
            .workers(1 + rng.below(8))
            .capacity(1 + rng.below(4))
            .queue_depth(rng.below(4))
            .max_waiting(2 + rng.below(CALLERS))
            .drop_policy(DropPolicy::Drain)
            .build()
            .unwrap();
        thread::scope(|scope| {
            for _ in 0..CALLERS {
                let rng = rng.split();
                let (pool, wakers, tokens, made) = (&pool, &wakers, &tokens, &made);
                scope.spawn(move || call(pool, wakers, tokens, made, rng));
            }
        });
        let last = std::mem::take(&mut *wakers.lock().unwrap());
        last.into_iter().for_each(Waker::wake);
        pool.release();
        pool.wait_released().unwrap();
        let stats = pool.stats();
        let ended = stats.completed + stats.panicked + stats.cancelled + stats.released;
        assert_eq!(stats.submitted, ended, "round {round}: {stats:?}");
        assert_eq!(
            (stats.in_flight, stats.reserved, stats.waiting),
            (0, 0, 0),
            "round {round}: {stats:?}"
        );
        assert!(stats.peak_live <= 4, "round {round}: {stats:?}");
        assert_eq!(
            (tokens.alive(), tokens.dropped()),
            (0, made.into_inner()),
            "round {round}"
        );
    }
}
