//! Valid and invalid configurations, and the cleanup after a failed build.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::thread;

use multi_pool::{LeastTasks, MultiBuildError, MultiBuilder, MultiPoolExt, RoundRobin};
use pool_core::{BuildError, FuncPool, Pool};

use crate::support::{end, multi};

#[testkit::test]
fn zero_pools_is_an_error_that_is_checked_first() {
    let no_capacity = Pool::builder();
    let asked_for_none = MultiBuilder::new(no_capacity.clone()).pools(0).build();
    assert!(matches!(asked_for_none, Err(MultiBuildError::NoPools)));
    let unsaid = MultiBuilder::new(no_capacity).build();
    assert!(matches!(unsaid, Err(MultiBuildError::NoPools)));
}

#[testkit::test]
fn errors_of_a_pools_builder_are_returned_under_every_strategy() {
    let refused = |each| {
        let least = MultiBuilder::new(each).pools(10).strategy(LeastTasks);
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
    let typed = MultiBuilder::new(FuncPool::builder(|_: u8| ()));
    let error = typed.pools(2).build().unwrap_err();
    assert_eq!(error.to_string(), BuildError::NoCapacity.to_string());
}

#[testkit::test]
fn a_failed_build_ends_the_pools_that_were_built_before() {
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
    let refused = MultiBuilder::new(each).pools(4).build();
    assert!(matches!(
        refused,
        Err(MultiBuildError::Pool(BuildError::NoThread(_)))
    ));
    assert_eq!(stopped.load(SeqCst), 5);
}

#[testkit::test]
fn threads_and_pools_are_named_after_the_multi_pool() {
    let each = Pool::builder().name("ants").capacity(1);
    let pool = MultiBuilder::new(each).pools(2).build().unwrap();
    assert_eq!((pool.name(), pool.pools()), ("ants", 2));
    let name = || thread::current().name().unwrap().to_owned();
    assert_eq!(pool.spawn(name).unwrap().join().unwrap(), "ants-0-0");
    assert_eq!(pool.spawn(name).unwrap().join().unwrap(), "ants-1-0");
    end(&pool);
}

#[testkit::test]
fn no_thread_starts_before_the_first_task_unless_prestarted() {
    assert_eq!(multi(3, 2).running(), 0);
    let each = Pool::builder().capacity(2).min_workers(1);
    let rounds = MultiBuilder::new(each).pools(3).strategy(RoundRobin::new());
    assert_eq!(rounds.build().unwrap().running(), 3);
}
