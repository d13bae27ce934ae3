//! What can be built, and what an attempt that fails leaves behind.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::thread;

use multi_pool::{LeastTasks, MultiBuildError, MultiFuncPool, MultiPool, MultiPoolExt, RoundRobin};
use pool_core::{BuildError, FuncPool, Pool};

use crate::support::{end, multi};

#[testkit::test]
fn no_pools_is_an_error_that_is_looked_at_first() {
    let no_capacity = Pool::builder();
    let asked_for_none = MultiPool::builder(no_capacity.clone()).pools(0).build();
    assert!(matches!(asked_for_none, Err(MultiBuildError::NoPools)));
    let unsaid = MultiPool::builder(no_capacity).build();
    assert!(matches!(unsaid, Err(MultiBuildError::NoPools)));
}

#[testkit::test]
fn a_pools_own_errors_come_through_whatever_the_strategy() {
    let refused = |each| {
        let least = MultiPool::builder(each).pools(10).strategy(LeastTasks);
        match least.build().unwrap_err() {
            MultiBuildError::Pool(error) => error,
            other => panic!("{other:?}"),
        }
    };
    let each = Pool::builder;
    assert!(matches!(refused(each()), BuildError::NoCapacity));
    assert!(matches!(
        refused(each().capacity(0)),
        BuildError::ZeroCapacity
    ));
    assert!(matches!(
        refused(each().capacity(1).min_workers(2)),
        BuildError::WorkersAboveCapacity {
            workers: 2,
            capacity: 1
        }
    ));
    assert!(matches!(
        refused(each().unlimited().preallocate(true)),
        BuildError::PreallocateUnlimited
    ));
    assert!(matches!(
        refused(each().capacity(1).name("a\0b")),
        BuildError::NulInName
    ));
    let typed = MultiFuncPool::builder(FuncPool::builder(|_: u8| ()));
    let error = typed.pools(2).build().unwrap_err();
    assert_eq!(error.to_string(), BuildError::NoCapacity.to_string());
}

#[testkit::test]
fn pools_built_before_one_that_fails_have_ended_with_their_workers() {
    let (started, stopped) = (AtomicUsize::new(0), Arc::new(AtomicUsize::new(0)));
    let stops = Arc::clone(&stopped);
    let each = Pool::builder()
        .capacity(2)
        .prestart(2)
        .thread_gate(move || match started.fetch_add(1, SeqCst) {
            5 => Err(io::Error::from(io::ErrorKind::WouldBlock)),
            _ => Ok(()),
        })
        .stop_hook(move || _ = stops.fetch_add(1, SeqCst));
    let refused = MultiPool::builder(each).pools(4).build();
    assert!(matches!(
        refused,
        Err(MultiBuildError::Pool(BuildError::NoThread(_)))
    ));
    assert_eq!(stopped.load(SeqCst), 5);
}

#[testkit::test]
fn threads_are_called_after_their_pool_and_pools_after_the_multi_pool() {
    let each = Pool::builder().name("ants").capacity(1);
    let pool = MultiPool::builder(each).pools(2).build().unwrap();
    assert_eq!((pool.name(), pool.pools()), ("ants", 2));
    let name = || thread::current().name().unwrap().to_owned();
    assert_eq!(pool.spawn(name).unwrap().join().unwrap(), "ants-0-0");
    assert_eq!(pool.spawn(name).unwrap().join().unwrap(), "ants-1-0");
    end(&pool);
}

#[testkit::test]
fn nothing_runs_before_the_first_task_unless_it_was_asked_for() {
    assert_eq!(multi(3, 2).running(), 0);
    let each = Pool::builder().capacity(2).min_workers(1);
    let rounds = MultiPool::builder(each)
        .pools(3)
        .strategy(RoundRobin::new());
    assert_eq!(rounds.build().unwrap().running(), 3);
}
