//! Panics in tasks and destructors: the counts stay exact, and the workers survive.

use std::panic::{panic_any, resume_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};

use pool_core::{DropPolicy, FuncPool, JoinError, Pool};
use testkit::{Counted, DropCounter, Gate, PanicOnDrop};

use crate::support::{Journal, end, hold, poll, pool, until};

/// Checks that the pool still works, on its first and only thread.
fn lives(pool: &Pool) {
    assert_eq!(pool.spawn(|| 1).unwrap().join().unwrap(), 1);
    let stats = pool.stats();
    assert_eq!((stats.threads_started, stats.live), (1, 1));
    assert_eq!((stats.in_flight, stats.hook_panics), (0, 0));
}

#[testkit::test]
fn workers_survive_ten_thousand_panics() {
    let pool = Pool::builder()
        .capacity(2)
        .min_workers(2)
        .queue_depth(100)
        .build()
        .unwrap();
    for n in 0..10_000 {
        pool.submit(move || resume_unwind(Box::new(n))).unwrap();
    }
    pool.wait_idle().unwrap();
    let stats = pool.stats();
    assert_eq!((stats.panicked, stats.completed), (10_000, 0));
    assert_eq!(
        (stats.live, stats.threads_started, stats.threads_retired),
        (2, 2, 0)
    );
}

#[testkit::test]
fn the_panic_hook_gets_payload_pool_and_task_once_before_the_handle() {
    fn fails() {
        panic!("{}", "seven ".to_owned() + "7"); // The payload is a `String`.
    }
    let journal = Journal::new();
    let log = journal.clone();
    let pool = Pool::builder()
        .capacity(1)
        .name("hooked")
        .panic_hook(move |panic| {
            let message = panic.message().map(str::to_owned);
            let code = panic.payload().downcast_ref::<u8>().copied();
            log.write((message, code, panic.pool().to_owned(), panic.task()));
        });
    let pool = pool.build().unwrap();
    let payload = pool
        .spawn(fails)
        .unwrap()
        .join()
        .unwrap_err()
        .into_panic()
        .unwrap();
    assert_eq!(*payload.downcast::<String>().unwrap(), "seven 7");
    assert_eq!(
        journal.len(),
        1,
        "the hook has returned when the handle shows the end"
    );
    pool.submit(|| panic_any(9_u8)).unwrap();
    pool.wait_idle().unwrap();
    let entries = journal.entries();
    assert_eq!(entries.len(), 2);
    let (message, code, name, task) = &entries[0];
    assert_eq!(
        (message.as_deref(), *code, &**name),
        (Some("seven 7"), None, "hooked")
    );
    assert!(task.ends_with("fails"), "{task}");
    assert_eq!((entries[1].0.as_deref(), entries[1].1), (None, Some(9)));
    assert!(
        entries[1].3.contains("the_panic_hook_gets"),
        "{}",
        entries[1].3
    );
    lives(&pool);
}

#[testkit::test]
fn panic_reports_of_a_typed_pool_name_the_argument_type() {
    let journal = Journal::new();
    let log = journal.clone();
    let pool = FuncPool::builder(|n: u16| 100 / n).capacity(1);
    let pool = pool
        .panic_hook(move |panic| log.write(panic.task()))
        .build()
        .unwrap();
    assert!(
        pool.spawn(0)
            .unwrap()
            .join()
            .unwrap_err()
            .into_panic()
            .is_some()
    );
    pool.submit(0).unwrap();
    assert_eq!(pool.spawn(4).unwrap().join().unwrap(), 25);
    pool.wait_idle().unwrap();
    assert_eq!(journal.entries(), ["u16", "u16"]);
    assert_eq!(
        (pool.stats().panicked, pool.stats().threads_started),
        (2, 1)
    );
}

#[testkit::test]
fn a_panic_drops_the_captures_before_the_end_is_visible() {
    let (pool, drops) = (pool(1), DropCounter::new());
    for round in 1..=100 {
        let token = drops.token();
        let task = move || {
            let _token = token;
            resume_unwind(Box::new(()));
        };
        assert!(pool.spawn(task).unwrap().join().is_err());
        assert_eq!((drops.alive(), drops.dropped()), (0, round));
    }
}

#[testkit::test]
fn a_panic_in_a_captures_drop_counts_as_a_panic_of_the_task() {
    let pool = pool(1);
    let bomb = PanicOnDrop::new();
    pool.submit(move || drop(bomb)).unwrap();
    let bomb = PanicOnDrop::new();
    let handle = pool.spawn(move || _ = &bomb).unwrap(); // Dropped at the end of the closure.
    let Err(JoinError::Panicked(panicked)) = handle.join() else {
        panic!("its drop panicked");
    };
    assert_eq!(panicked.message(), Some("dropped a PanicOnDrop"));
    lives(&pool);
    assert_eq!((pool.stats().panicked, pool.stats().completed), (2, 1));
}

#[testkit::test]
fn a_panic_in_a_cancelled_captures_drop_is_ignored() {
    let pool = Pool::builder().capacity(1).queue_depth(1).build().unwrap();
    let gate = hold(&pool, 1);
    let bomb = PanicOnDrop::new();
    let handle = pool.try_spawn(move || drop(bomb)).unwrap();
    assert!(handle.cancel());
    assert!(matches!(handle.join(), Err(JoinError::Cancelled)));
    gate.open();
    pool.wait_idle().unwrap();
    lives(&pool);
    assert_eq!((pool.stats().cancelled, pool.stats().panicked), (1, 0));
}

#[testkit::test]
fn all_released_captures_are_dropped_although_their_drops_panic() {
    let pool = Pool::builder().capacity(1).queue_depth(4).build().unwrap();
    let gate = hold(&pool, 1);
    let drops = DropCounter::new();
    let mut handles = Vec::new();
    for _ in 0..2 {
        let (bomb, token) = (PanicOnDrop::new(), drops.token());
        pool.try_submit(move || drop((bomb, token))).unwrap();
        let (bomb, token) = (PanicOnDrop::new(), drops.token());
        handles.push(pool.try_spawn(move || drop((bomb, token))).unwrap());
    }
    assert_eq!(pool.release_now(), 4);
    assert_eq!((drops.alive(), pool.in_flight()), (0, 1));
    for handle in handles {
        assert!(matches!(handle.join(), Err(JoinError::Released)));
    }
    gate.open();
    end(&pool);
    assert!(pool.reboot());
    assert_eq!(pool.spawn(|| 1).unwrap().join().unwrap(), 1);
    assert_eq!((pool.stats().released, pool.stats().panicked), (4, 0));
}

#[testkit::test]
fn panics_in_drops_of_discarded_arguments_do_not_leave_the_drop_of_the_pool() {
    let gate = Gate::new();
    let held = gate.clone();
    let drops = DropCounter::new();
    let pool = FuncPool::builder(move |_| held.wait())
        .capacity(1)
        .queue_depth(3);
    let pool = pool.drop_policy(DropPolicy::Discard).build().unwrap();
    for levels in 0..4 {
        pool.submit((PanicOnDrop::nested(levels), drops.token()))
            .unwrap();
        gate.wait_for_arrivals(1);
    }
    drop(pool);
    assert_eq!(drops.dropped(), 3);
    gate.open();
}

#[testkit::test]
fn a_panic_in_the_drop_of_a_waiting_task_leaves_the_pool_consistent() {
    let pool = pool(1);
    let gate = hold(&pool, 1);
    let bomb = PanicOnDrop::new();
    let mut future = pool.submit_async(move || drop(bomb));
    assert!(poll(&mut future).is_pending());
    let dropped = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| drop(future)));
    assert!(dropped.is_err(), "it is the owner's own panic");
    assert_eq!((pool.waiting(), pool.stats().refused), (0, 1));
    gate.open();
    pool.wait_idle().unwrap();
    lives(&pool);
}

#[testkit::test]
fn a_worker_survives_a_panic_in_a_values_drop() {
    let pool = FuncPool::builder(|()| PanicOnDrop::new())
        .capacity(1)
        .build()
        .unwrap();
    pool.submit(()).unwrap();
    pool.wait_idle().unwrap();
    assert_eq!((pool.stats().panicked, pool.stats().completed), (1, 0));
    // The value of a spawned task is dropped after the task was counted.
    drop(pool.spawn(()).unwrap());
    pool.wait_idle().unwrap();
    std::mem::forget(pool.spawn(()).unwrap().join().unwrap());
    assert_eq!(pool.stats().threads_started, 1);
}

#[testkit::test]
fn a_panic_in_the_drop_of_a_submitted_closures_value_counts_as_a_panic() {
    let pool = pool(1);
    pool.submit(PanicOnDrop::new).unwrap();
    pool.wait_idle().unwrap();
    let stats = pool.stats();
    assert_eq!((stats.panicked, stats.completed), (1, 0));
    assert_eq!(stats.threads_started, 1);
}

#[testkit::test]
fn the_drop_of_a_handle_ignores_a_panic_in_its_values_or_payloads_drop() {
    let pool = pool(1);
    let value = pool.spawn(PanicOnDrop::new).unwrap();
    let payload = pool.spawn(|| panic_any(PanicOnDrop::nested(3))).unwrap();
    pool.wait_idle().unwrap();
    until(|| value.is_finished() && payload.is_finished());
    drop(value);
    drop(payload);
    lives(&pool);
}

#[testkit::test]
fn payloads_whose_drops_panic_recursively_do_not_stop_the_worker() {
    for levels in [1, 3, 40] {
        let hooked = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&hooked);
        let pool = Pool::builder().capacity(1).panic_hook(move |_| {
            count.fetch_add(1, SeqCst);
        });
        let pool = pool.build().unwrap();
        pool.submit(move || panic_any(PanicOnDrop::nested(levels)))
            .unwrap();
        pool.wait_idle().unwrap();
        drop(
            pool.spawn(move || panic_any(PanicOnDrop::nested(levels)))
                .unwrap(),
        );
        pool.wait_idle().unwrap();
        assert_eq!((pool.stats().panicked, hooked.load(SeqCst)), (2, 2));
        lives(&pool);
    }
}

#[testkit::test]
fn payloads_whose_drops_panic_a_few_times_are_not_leaked() {
    /// Panics in its destructor, with a payload that does the same, this many levels deep.
    struct Deep(
        usize,
        DropCounter,
        #[expect(dead_code, reason = "counted")] Counted,
    );
    impl Deep {
        fn new(levels: usize, drops: &DropCounter) -> Self {
            Self(levels, drops.clone(), drops.token())
        }
    }
    impl Drop for Deep {
        fn drop(&mut self) {
            if self.0 > 0 {
                panic_any(Self::new(self.0 - 1, &self.1));
            }
        }
    }
    for levels in 0..=5 {
        let (pool, drops) = (pool(1), DropCounter::new());
        let own = drops.clone();
        pool.submit(move || panic_any(Deep::new(levels, &own)))
            .unwrap();
        end(&pool);
        assert_eq!((drops.alive(), drops.dropped()), (0, levels + 1));
    }
}
