use std::collections::HashSet;
use std::thread;

use sync_shim::unique_id;

#[testkit::test]
fn every_identifier_is_unique() {
    let ids: HashSet<u64> = thread::scope(|scope| {
        let threads: Vec<_> = (0..8)
            .map(|_| scope.spawn(|| (0..1000).map(|_| unique_id()).collect::<Vec<_>>()))
            .collect();
        threads
            .into_iter()
            .flat_map(|ids| ids.join().unwrap())
            .collect()
    });
    assert_eq!(ids.len(), 8000);
    assert!(!ids.contains(&0), "0 stands for none");
}

#[cfg(unix)]
mod forked {
    use std::io;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
    use std::task::Waker;
    use std::thread;
    use std::time::{Duration, Instant};

    use sync_shim::thread::{ThreadOptions, spawn_thread, with_last_act};
    use sync_shim::{Clock, MonotonicClock, PerProcess, Process, fork_count};
    use testkit::{CountingWaker, in_child};

    /// Runs `check` in a forked copy of this process and says whether it held there.
    fn in_fork(check: impl FnOnce() -> bool) -> bool {
        exit_code_of_fork(|| i32::from(!check())) == Some(0)
    }

    /// Runs `body` in a forked copy of this process, which exits with its result.
    fn exit_code_of_fork(body: impl FnOnce() -> i32) -> Option<i32> {
        // SAFETY: the copy runs `body` on its only thread and leaves without unwinding or
        // running exit handlers.
        let child = unsafe { libc::fork() };
        assert_ne!(child, -1, "no memory to fork");
        if child == 0 {
            // SAFETY: both take numbers only. The alarm signal is the copy's watchdog.
            unsafe { libc::alarm(60) };
            let code = body();
            // SAFETY: as above.
            unsafe { libc::_exit(code) };
        }
        let mut status = 0;
        // SAFETY: `status` outlives the call.
        let ended = unsafe { libc::waitpid(child, &raw mut status, 0) };
        assert_eq!(ended, child);
        libc::WIFEXITED(status).then(|| libc::WEXITSTATUS(status))
    }

    #[test]
    fn the_fork_count_grows_in_the_child_only() {
        let before = fork_count();
        assert!(in_fork(|| fork_count() == before + 1));
        assert!(!in_fork(|| false), "a check that fails is noticed");
        assert_eq!(fork_count(), before);
    }

    #[test]
    fn a_process_is_current_in_itself_and_refused_in_its_forked_child() {
        let process = Process::current();
        assert!(in_fork(
            || !process.is_current() && process.check(7) == Err(7)
        ));
        assert!(process.is_current() && process.check(7) == Ok(()));
        assert!(!Process::NONE.is_current());
    }

    /// Whether alarms fire in this process.
    fn has_alarms() -> bool {
        let counter = CountingWaker::new();
        let alarm = MonotonicClock.wake_at(Instant::now(), counter.waker());
        counter.wait_for_wakes(1);
        alarm.is_ok()
    }

    /// In a process of its own: with other threads about, a copy can do little.
    fn alone(test: &str, body: impl FnOnce()) {
        let end = in_child(&format!("process::forked::{test}"), body);
        assert!(end.is_ok(), "{end:?}");
    }

    #[testkit::test]
    fn a_forked_child_has_an_alarm_thread_of_its_own() {
        alone("a_forked_child_has_an_alarm_thread_of_its_own", || {
            let children = || assert!(in_fork(|| has_alarms() && in_fork(has_alarms)));
            children();
            // The parent's thread runs, with nothing to do.
            assert!(has_alarms());
            children();
            // It sleeps for an alarm that the child inherits and drops.
            let counter = CountingWaker::new();
            let late = Instant::now() + Duration::from_secs(3600);
            let mut late = Some(MonotonicClock.wake_at(late, counter.waker()).unwrap());
            children();
            assert!(in_fork(|| {
                drop(late.take());
                has_alarms()
            }));
            drop(late);
            assert!(has_alarms(), "the parent's alarms go on");
        });
    }

    #[testkit::test]
    fn a_fork_while_other_threads_set_alarms_leaves_the_child_its_own() {
        alone(
            "a_fork_while_other_threads_set_alarms_leaves_the_child_its_own",
            || {
                let is_over = AtomicBool::new(false);
                thread::scope(|scope| {
                    scope.spawn(|| {
                        while !is_over.load(Relaxed) {
                            drop(MonotonicClock.wake_at(Instant::now(), Waker::noop().clone()));
                        }
                    });
                    for _ in 0..50 {
                        assert!(in_fork(has_alarms));
                    }
                    is_over.store(true, Relaxed);
                });
            },
        );
    }

    #[cfg(target_os = "linux")]
    #[testkit::test]
    fn an_alarm_after_a_refused_one_starts_the_thread() {
        alone("an_alarm_after_a_refused_one_starts_the_thread", || {
            let set = || MonotonicClock.wake_at(Instant::now(), Waker::noop().clone());
            testkit::without_threads(|| {
                for _ in 0..2 {
                    let refused = set().expect_err("no thread can be started");
                    assert!(sync_shim::is_refused(&refused));
                }
            });
            assert!(has_alarms());
        });
        assert!(!sync_shim::is_refused(&io::Error::other("another")));
    }

    #[test]
    fn a_process_makes_its_value_from_that_of_its_parent() {
        static VALUE: PerProcess<u32> = PerProcess::new();
        let make = |inherited: Option<&u32>| inherited.map_or(1, |value| value + 1);
        assert_eq!((VALUE.get(), *VALUE.get_or_init(make)), (None, 1));
        assert!(in_fork(|| {
            let is_empty = VALUE.get().is_none();
            let of_child = VALUE.get_or_init(make);
            let is_kept = VALUE.set(7) == Err(7) && VALUE.get() == Some(of_child);
            let of_grandchild = in_fork(|| VALUE.set(9) == Ok(&9) && VALUE.get() == Some(&9));
            is_empty && *of_child == 2 && is_kept && of_grandchild
        }));
        assert_eq!((*VALUE.get_or_init(make), VALUE.set(8)), (1, Err(8)));
    }

    #[testkit::test]
    fn a_workers_last_act_is_not_repeated_by_a_child_that_it_forks() {
        alone(
            "a_workers_last_act_is_not_repeated_by_a_child_that_it_forks",
            || {
                const ENDED: i32 = 9;
                let acts = Arc::new(AtomicUsize::new(0));
                let last = {
                    let (acts, process) = (Arc::clone(&acts), Process::current());
                    move || {
                        if !process.is_current() {
                            // SAFETY: `_exit` has no preconditions.
                            unsafe { libc::_exit(1) };
                        }
                        acts.fetch_add(1, Relaxed);
                    }
                };
                let worker = move || {
                    let body = || {
                        let ends = || {
                            // SAFETY: the copy has one thread, whose thread-locals this call drops.
                            unsafe { libc::exit(ENDED) }
                        };
                        assert_eq!(exit_code_of_fork(ends), Some(ENDED));
                    };
                    with_last_act(body, last);
                };
                let worker = spawn_thread(ThreadOptions::default(), worker).unwrap();
                worker.join().unwrap();
                assert_eq!(acts.load(Relaxed), 1);
            },
        );
    }
}
