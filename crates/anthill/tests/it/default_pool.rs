//! The default pool. A process has only one, so each test runs in its own process.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Barrier};
use std::thread;
use std::time::Duration;

use anthill::{BuildError, ConfigureError, MapError, Pool, SubmitError, WaitError};
use testkit::{Gate, in_child, watchdog};

/// Repetitions of a race, each in a new process.
const TRIES: usize = 8;

/// Runs `body` in a process that has no default pool yet.
fn in_fresh_process(test: &str, body: impl Fn()) {
    let test = format!("default_pool::{test}");
    let ended = in_child(&test, || watchdog(testkit::LIMIT, body));
    if let Err(output) = ended {
        panic!("{}", String::from_utf8_lossy(&output.stderr));
    }
}

/// The names of the threads of this process, except the main one and the calling one.
#[cfg(target_os = "linux")]
fn other_threads() -> Vec<String> {
    let caller = std::fs::read_link("/proc/thread-self").expect("procfs is mounted");
    let main = std::process::id().to_string();
    let tasks = std::fs::read_dir("/proc/self/task").expect("procfs is mounted");
    let others = tasks.filter_map(|task| {
        let task = task.expect("procfs can be listed");
        let id = task.file_name();
        let is_other = id != *main && Some(&*id) != caller.file_name();
        // The thread may have ended since it was listed.
        let name = std::fs::read_to_string(task.path().join("comm")).ok()?;
        is_other.then(|| name.trim().to_owned())
    });
    others.collect()
}

#[cfg(target_os = "linux")]
#[test]
fn the_first_task_starts_the_first_thread() {
    let name = "default_pool::the_first_task_starts_the_first_thread";
    // No watchdog, because its thread would be counted.
    let ended = in_child(name, || {
        assert_eq!(other_threads(), [""; 0], "at load");
        assert_eq!(anthill::default_pool().name(), "anthill");
        assert_eq!(
            (anthill::running(), anthill::stats().threads_started),
            (0, 0)
        );
        assert_eq!(other_threads(), [""; 0], "the pool is made");
        anthill::spawn(|| ()).unwrap().join().unwrap();
        assert_eq!(other_threads(), ["anthill-0"]);
    });
    ended.unwrap();
}

#[test]
fn by_default_there_are_at_least_512_workers_and_8_per_core() {
    in_fresh_process(
        "by_default_there_are_at_least_512_workers_and_8_per_core",
        || {
            let cores = thread::available_parallelism().unwrap().get();
            assert_eq!(anthill::capacity().limit(), Some(512.max(8 * cores)));
            assert_eq!(anthill::free(), anthill::capacity().limit());
        },
    );
}

#[test]
fn all_tasks_of_several_threads_are_run() {
    in_fresh_process("all_tasks_of_several_threads_are_run", || {
        let sum = Arc::new(AtomicU64::new(0));
        thread::scope(|scope| {
            for submitter in 0..4 {
                let sum = Arc::clone(&sum);
                scope.spawn(move || {
                    for number in (submitter..1000).step_by(4) {
                        let sum = Arc::clone(&sum);
                        anthill::submit(move || _ = sum.fetch_add(number, Relaxed)).unwrap();
                    }
                });
            }
        });
        anthill::wait_idle().unwrap();
        assert_eq!(sum.load(Relaxed), 499_500);
        assert_eq!(anthill::stats().completed, 1000);
    });
}

#[test]
fn at_a_full_default_pool_submit_waits_and_other_calls_refuse() {
    in_fresh_process(
        "at_a_full_default_pool_submit_waits_and_other_calls_refuse",
        || {
            anthill::tune(1).unwrap();
            let gate = Gate::new();
            let held = gate.clone();
            anthill::submit(move || held.wait()).unwrap();

            assert!(matches!(
                anthill::try_submit(|| ()),
                Err(SubmitError::Full(_))
            ));
            assert!(matches!(
                anthill::try_spawn(|| ()),
                Err(SubmitError::Full(_))
            ));
            let late = anthill::submit_timeout(|| (), Duration::from_millis(1));
            assert!(matches!(late, Err(SubmitError::TimedOut(_))));

            let waiter = thread::spawn(|| anthill::submit(|| ()));
            while anthill::waiting() == 0 {
                thread::yield_now();
            }
            gate.open();
            waiter.join().unwrap().unwrap();
            anthill::wait_idle().unwrap();
            assert_eq!(
                (anthill::stats().completed, anthill::stats().refused),
                (2, 3)
            );
        },
    );
}

#[test]
fn a_released_default_pool_returns_tasks_until_it_is_rebooted() {
    in_fresh_process(
        "a_released_default_pool_returns_tasks_until_it_is_rebooted",
        || {
            anthill::submit(|| ()).unwrap();
            assert!(anthill::release());
            assert!(!anthill::release(), "it is released already");
            let Err(SubmitError::Released(task)) = anthill::spawn(|| 5) else {
                panic!("a released pool took a task")
            };
            assert_eq!(task(), 5);
            anthill::wait_released().unwrap();
            anthill::release_timeout(Duration::ZERO).unwrap();
            assert_eq!(anthill::running(), 0);

            assert!(anthill::reboot());
            assert!(!anthill::reboot(), "it is open already");
            assert_eq!(anthill::spawn(|| 6).unwrap().join().unwrap(), 6);
        },
    );
}

#[test]
fn waiting_for_the_default_pool_on_one_of_its_workers_is_refused() {
    in_fresh_process(
        "waiting_for_the_default_pool_on_one_of_its_workers_is_refused",
        || {
            let waited = anthill::spawn(anthill::wait_idle).unwrap().join().unwrap();
            assert_eq!(waited, Err(WaitError::WouldDeadlock));
        },
    );
}

#[test]
fn the_default_pool_is_configured_once_and_a_second_builder_is_returned() {
    in_fresh_process(
        "the_default_pool_is_configured_once_and_a_second_builder_is_returned",
        || {
            let pool = anthill::configure(Pool::builder().capacity(3).name("mine")).unwrap();
            assert!(std::ptr::eq(pool, anthill::default_pool()));
            assert_eq!((pool.name(), anthill::free()), ("mine", Some(3)));

            let again = anthill::configure(Pool::builder().capacity(4).name("other"));
            let Err(ConfigureError::AlreadyMade(builder)) = again else {
                panic!("{again:?}")
            };
            assert_eq!(anthill::default_pool().name(), "mine");
            let other = builder.build().unwrap();
            assert_eq!((other.name(), other.free()), ("other", Some(4)));
        },
    );
}

#[test]
fn configuring_after_the_first_use_changes_nothing() {
    in_fresh_process("configuring_after_the_first_use_changes_nothing", || {
        anthill::spawn(|| ()).unwrap().join().unwrap();
        let built = Arc::new(AtomicU64::new(0));
        let counted = Arc::clone(&built);
        let builder = Pool::builder()
            .capacity(1)
            .prestart(1)
            .thread_gate(move || {
                counted.fetch_add(1, Relaxed);
                Ok(())
            });
        let late = anthill::configure(builder);
        assert!(matches!(late, Err(ConfigureError::AlreadyMade(_))));
        assert_eq!(anthill::default_pool().name(), "anthill");
        assert_eq!(built.load(Relaxed), 0, "no thread was started");
    });
}

#[test]
fn a_failed_configure_can_be_repeated() {
    in_fresh_process("a_failed_configure_can_be_repeated", || {
        let failed = anthill::configure(Pool::builder().name("no capacity"));
        let Err(ConfigureError::Build(BuildError::NoCapacity)) = failed else {
            panic!("{failed:?}")
        };
        anthill::configure(Pool::builder().capacity(1).name("second")).unwrap();
        assert_eq!(anthill::default_pool().name(), "second");
    });
}

#[test]
fn a_builder_whose_gate_uses_the_default_pool_does_not_deadlock() {
    in_fresh_process(
        "a_builder_whose_gate_uses_the_default_pool_does_not_deadlock",
        || {
            let builder = Pool::builder().capacity(1).prestart(1).thread_gate(|| {
                anthill::default_pool();
                Ok(())
            });
            // The gate has used the default pool first, so the pool was not built by this builder.
            let late = anthill::configure(builder);
            assert!(matches!(late, Err(ConfigureError::AlreadyMade(_))));
            assert_eq!(anthill::default_pool().name(), "anthill");
        },
    );
}

#[test]
fn threads_that_race_for_the_first_use_get_one_pool() {
    for _ in 0..TRIES {
        in_fresh_process("threads_that_race_for_the_first_use_get_one_pool", || {
            let start = Barrier::new(2);
            thread::scope(|scope| {
                let first_use = || {
                    start.wait();
                    anthill::submit(|| ()).unwrap();
                    std::ptr::from_ref(anthill::default_pool()).addr()
                };
                let [one, two] = [scope.spawn(first_use), scope.spawn(first_use)];
                assert_eq!(one.join().unwrap(), two.join().unwrap());
            });
            anthill::wait_idle().unwrap();
            assert_eq!(anthill::stats().completed, 2);
        });
    }
}

#[test]
fn configuring_racing_the_first_use_succeeds_or_is_refused() {
    for _ in 0..TRIES {
        in_fresh_process(
            "configuring_racing_the_first_use_succeeds_or_is_refused",
            || {
                let start = Barrier::new(2);
                thread::scope(|scope| {
                    let user = scope.spawn(|| {
                        start.wait();
                        anthill::spawn(|| ()).unwrap().join().unwrap();
                        anthill::default_pool().name()
                    });
                    start.wait();
                    let configured = anthill::configure(Pool::builder().capacity(1).name("mine"));
                    let name = match configured {
                        Ok(pool) => {
                            assert_eq!(pool.name(), "mine");
                            "mine"
                        }
                        Err(ConfigureError::AlreadyMade(builder)) => {
                            assert_eq!(builder.build().unwrap().name(), "mine");
                            "anthill"
                        }
                        Err(other) => panic!("{other}"),
                    };
                    assert_eq!(anthill::default_pool().name(), name);
                    assert_eq!(user.join().unwrap(), name);
                });
                // The task ran in the only pool.
                assert_eq!(anthill::stats().completed, 1);
            },
        );
    }
}

#[test]
fn the_default_pool_has_async_submits() {
    in_fresh_process("the_default_pool_has_async_submits", || {
        let total = testkit::block_on(async {
            anthill::submit_async(|| ()).await.unwrap();
            let handle = anthill::spawn_async(|| 6 * 7).await.unwrap();
            handle.await.unwrap()
        });
        assert_eq!(total, 42);
        anthill::wait_idle().unwrap();
        assert_eq!(anthill::stats().completed, 2);
        anthill::release();
        let refused = testkit::block_on(anthill::submit_async(|| ()));
        assert!(refused.unwrap_err().is_released());
    });
}

#[test]
fn unordered_results_of_the_default_pool_arrive_as_items_end() {
    in_fresh_process(
        "unordered_results_of_the_default_pool_arrive_as_items_end",
        || {
            anthill::tune(2).unwrap();
            let gate = Gate::new();
            let held = gate.clone();
            let mut results = anthill::map_unordered(0..3, move |n| {
                if n == 0 {
                    held.wait();
                }
                (n, thread::current().name().map(str::to_owned))
            });
            let mut next = || results.next().unwrap().unwrap();
            let early = [next(), next()];
            assert_eq!(early.map(|(n, _)| n), [1, 2]);
            gate.open();
            let (last, worker) = next();
            assert_eq!(last, 0);
            assert!(worker.unwrap().starts_with("anthill-"));
            assert!(results.next().is_none());
        },
    );
}

#[test]
fn an_error_ends_a_mapping_on_the_default_pool_after_the_results_before_it() {
    in_fresh_process(
        "an_error_ends_a_mapping_on_the_default_pool_after_the_results_before_it",
        || {
            anthill::tune(2).unwrap();
            let lines = ["1", "2", "three", "4"];
            let mut numbers = anthill::try_map(lines, str::parse::<u32>);
            let mut next = || numbers.next();
            assert!(matches!(next(), Some(Ok(1))) && matches!(next(), Some(Ok(2))));
            let failed = next();
            let Some(Err(MapError::Failed(error))) = failed else {
                panic!("{failed:?}")
            };
            assert_eq!(error, "three".parse::<u32>().unwrap_err());
            assert!(next().is_none());
        },
    );
}

#[test]
fn for_each_on_the_default_pool_returns_when_every_call_has_ended() {
    in_fresh_process(
        "for_each_on_the_default_pool_returns_when_every_call_has_ended",
        || {
            let sum = Arc::new(AtomicU64::new(0));
            let adds = Arc::clone(&sum);
            let ours = thread::current().id();
            let call = move |n| {
                assert_ne!(thread::current().id(), ours);
                adds.fetch_add(n, Relaxed);
            };
            anthill::for_each(1..=1_000, call).unwrap();
            assert_eq!(sum.load(Relaxed), 500_500);
            let panicked = anthill::for_each([1], |_| panic!("as asked"));
            assert!(matches!(panicked, Err(MapError::Panicked(_))));
            anthill::release();
            let refused = anthill::for_each([1], drop);
            assert!(matches!(
                refused,
                Err(MapError::Refused(SubmitError::Released(())))
            ));
        },
    );
}

#[test]
fn the_first_error_stops_an_endless_try_for_each_on_the_default_pool() {
    in_fresh_process(
        "the_first_error_stops_an_endless_try_for_each_on_the_default_pool",
        || {
            let running = Arc::new(AtomicU64::new(0));
            let counts = Arc::clone(&running);
            let stopped = anthill::try_for_each(0_u64.., move |n| {
                counts.fetch_add(1, Relaxed);
                let result = if n == 7 { Err("seven") } else { Ok(()) };
                counts.fetch_sub(1, Relaxed);
                result
            });
            assert!(matches!(stopped, Err(MapError::Failed("seven"))));
            assert_eq!(running.load(Relaxed), 0, "all calls have ended");
            anthill::try_for_each(0..100, |_| Ok::<_, ()>(())).unwrap();
        },
    );
}
