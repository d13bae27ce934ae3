//! Threads that the operating system refuses.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};

use multi_pool::MultiPool;
use pool_core::{Pool, SubmitError};

use crate::support::{bounded, end, hold, poll};

/// Two pools of one worker; only as many threads can be started as there are permits.
fn scarce(permits: usize) -> (MultiPool, Arc<AtomicUsize>) {
    let permits = Arc::new(AtomicUsize::new(permits));
    let left = Arc::clone(&permits);
    let each = Pool::builder().capacity(1).thread_gate(move || {
        let taken = left.fetch_update(SeqCst, SeqCst, |left| left.checked_sub(1));
        match taken {
            Ok(_) => Ok(()),
            Err(_) => Err(io::Error::from(io::ErrorKind::WouldBlock)),
        }
    });
    (MultiPool::builder(each).pools(2).build().unwrap(), permits)
}

#[test]
fn a_pool_whose_first_worker_is_refused_leaves_the_task_to_another() {
    bounded(|| {
        let (pool, _) = scarce(1);
        for _ in 0..4 {
            // Every other turn is that of the pool without a worker.
            pool.spawn(|| ()).unwrap().join().unwrap();
        }
        assert_eq!((pool.running(), pool.stats().completed), (1, 4));
        assert_eq!(pool.stats().refused, 0);
        end(&pool);
    });
}

#[test]
fn a_task_comes_back_if_no_pool_can_start_a_worker_for_it() {
    bounded(|| {
        let (pool, permits) = scarce(0);
        let refused = pool.submit(|| ());
        assert!(matches!(refused, Err(SubmitError::NoThread(..))));
        let refused = poll(&mut pool.submit_async(|| ()));
        assert!(matches!(
            refused,
            std::task::Poll::Ready(Err(SubmitError::NoThread(..)))
        ));
        assert_eq!(pool.stats().refused, 2);
        assert!(
            pool.stats().thread_failures >= 4,
            "both pools have tried for both"
        );
        permits.store(1, SeqCst);
        // The other pool has room and no worker: to wait for the one that has would be wrong.
        let gate = hold(&pool);
        assert!(matches!(pool.submit(|| ()), Err(SubmitError::NoThread(..))));
        assert_eq!(pool.waiting(), 0);
        permits.store(1, SeqCst);
        pool.submit(|| ()).unwrap();
        gate.open();
        end(&pool);
        assert_eq!(pool.stats().completed, 2);
    });
}
