//! Builders: defaults, settings, and the auto traits of the public types.

use std::cell::Cell;
use std::future::Future;
use std::thread;

use pool_core::{
    BuildError, Capacity, Clock, Closures, DEFAULT_KEEP_ALIVE, DEFAULT_NAME, FuncPool, JoinHandle,
    ManualClock, Pool, Stats, SubmitError, WeakPool, WorkerPool,
};
use testkit::Gate;

use crate::support::{hold, pool, wait_in_line};

#[testkit::test]
fn by_default_a_pool_has_no_queue_and_any_number_of_submits_wait() {
    let pool = pool(1);
    let gate = hold(&pool, 1);
    assert!(matches!(pool.try_submit(|| ()), Err(SubmitError::Full(_))));
    let waiters: Vec<_> = (0..50).map(|_| wait_in_line(&pool, || ())).collect();
    gate.open();
    for waiter in waiters {
        waiter.join().unwrap().unwrap();
    }
}

#[testkit::test]
fn by_default_workers_have_the_documented_keep_alive_and_name() {
    let clock = ManualClock::new();
    let pool = Pool::builder()
        .capacity(1)
        .clock(clock.clone())
        .build()
        .unwrap();
    let name = pool.spawn(|| thread::current().name().map(str::to_owned));
    assert_eq!(
        name.unwrap().join().unwrap(),
        Some(format!("{DEFAULT_NAME}-0"))
    );
    clock.wait_for_sleepers(1);
    assert_eq!(clock.next_due(), Some(clock.now() + DEFAULT_KEEP_ALIVE));
}

#[testkit::test]
fn pools_handles_and_futures_are_send_and_sync_if_arguments_are_send() {
    fn sent<T: Send + 'static>(value: T) -> T {
        value
    }
    fn shared<T: Sync>(value: &T) -> &T {
        value
    }
    fn awaited<F: Future + Send + Unpin + 'static>(future: F) -> F {
        future
    }
    // An argument that is `Send` and not `Sync`.
    let cells = FuncPool::builder(Cell::into_inner)
        .capacity(1)
        .build()
        .unwrap();
    shared(&cells);
    let handle: JoinHandle<u8> = sent(cells.spawn(Cell::new(8_u8)).unwrap());
    assert_eq!(
        thread::spawn(move || handle.join().unwrap())
            .join()
            .unwrap(),
        8
    );
    let pool: WorkerPool<Closures> = sent(pool(1));
    let weak: WeakPool = sent(shared(&pool).downgrade());
    shared(&weak);
    let future = awaited(pool.submit_async(|| ()));
    testkit::block_on(future).unwrap();
    let _: Stats = sent(*shared(&pool.stats()));
    testkit::block_on(awaited(pool.spawn(|| ()).unwrap())).unwrap();
}

#[testkit::test]
fn debug_output_needs_no_bounds_on_the_task() {
    let pool = Pool::builder().capacity(1).name("shown");
    assert!(format!("{pool:?}").contains("shown"));
    let pool = pool.build().unwrap();
    let gate = hold(&pool, 1);
    let refused = pool.try_submit(|| ()).unwrap_err();
    let error: &dyn std::error::Error = &refused;
    assert_eq!(
        format!("{refused:?}, {error}"),
        "Full(..), the pool is full"
    );
    let shown = format!("{pool:?}");
    assert!(
        shown.contains("shown") && shown.contains("busy: 1"),
        "{shown}"
    );
    assert_eq!(format!("{:?}", pool.downgrade()), "WeakWorkerPool(..)");
    gate.open();
    let handle = pool.spawn(|| ()).unwrap();
    assert!(format!("{handle:?}").contains("shown"));
}

#[testkit::test]
fn the_largest_capacities_do_not_overflow_or_block() {
    for capacity in [1 << 31, 1 << 32, usize::MAX - 1] {
        let pool = Pool::builder()
            .capacity(capacity)
            .queue_depth(7)
            .build()
            .unwrap();
        assert_eq!(pool.capacity(), Capacity::Limited(capacity));
        assert_eq!(pool.free(), Some(capacity));
        assert_eq!(pool.spawn(|| 1).unwrap().join().unwrap(), 1);
        assert_eq!(pool.free(), Some(capacity - 1));
    }
    let pool = pool(usize::MAX);
    assert_eq!((pool.capacity(), pool.free()), (Capacity::Unlimited, None));
    assert_eq!(pool.spawn(|| 1).unwrap().join().unwrap(), 1);
}

#[testkit::test]
fn an_invalid_configuration_is_not_built() {
    let build = || Pool::builder().capacity(2);
    assert!(matches!(
        Pool::builder().build(),
        Err(BuildError::NoCapacity)
    ));
    assert!(matches!(
        build().capacity(0).build(),
        Err(BuildError::ZeroCapacity)
    ));
    for above in [build().min_workers(3), build().prestart(3)] {
        assert!(matches!(
            above.build(),
            Err(BuildError::WorkersAboveCapacity {
                workers: 3,
                capacity: 2
            })
        ));
    }
    assert!(matches!(
        build().unlimited().preallocate(true).build(),
        Err(BuildError::PreallocateUnlimited)
    ));
    for slots in [usize::MAX - 1, usize::MAX >> 8] {
        let error = build()
            .capacity(slots)
            .preallocate(true)
            .build()
            .unwrap_err();
        assert!(matches!(error, BuildError::OutOfMemory(_)), "{error}");
    }
}

#[testkit::test]
fn setters_are_independent_and_the_last_call_of_each_wins() {
    let pool = Pool::builder()
        .name("first")
        .capacity(9)
        .max_waiting(0)
        .name("second");
    let pool = pool.capacity(3).queue_depth(5).build().unwrap();
    assert_eq!(
        (pool.name(), pool.capacity()),
        ("second", Capacity::Limited(3))
    );
    let gate = Gate::new();
    for _ in 0..8 {
        let gate = gate.clone();
        pool.submit(move || gate.wait()).unwrap();
    }
    assert!(
        matches!(pool.submit(|| ()), Err(SubmitError::Full(_))),
        "no submitter may wait"
    );
    gate.open();
}

#[testkit::test]
fn threads_start_with_the_first_task_unless_prestarted() {
    let pool = Pool::builder()
        .capacity(8)
        .preallocate(true)
        .build()
        .unwrap();
    assert_eq!((pool.running(), pool.free()), (0, Some(8)));
    assert_eq!(pool.stats().threads_started, 0);

    let pool = Pool::builder()
        .capacity(8)
        .prestart(3)
        .min_workers(2)
        .build()
        .unwrap();
    assert_eq!((pool.running(), pool.free()), (3, Some(5)));
}
