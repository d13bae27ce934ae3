//! Scopes: tasks that borrow.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::AtomicUsize;
use std::sync::atomic::Ordering::SeqCst;
use std::sync::{Arc, Mutex, mpsc};
use std::thread;

use pool_core::{CancelToken, Clock, JoinError, ManualClock, Pool, QueueDepth, WithinWorker};
use pool_util::{MapError, PoolExt, Scope};
use testkit::Gate;

fn pool(capacity: usize) -> Pool {
    let built = Pool::builder().capacity(capacity).build();
    built.expect("a capacity is all that is needed")
}

#[testkit::test]
fn tasks_borrow_data_that_outlives_the_scope() {
    let pool = pool(4);
    let mut numbers = vec![0_u64; 1_000];
    let count = AtomicUsize::new(0);
    let answer = pool.scope(|scope| {
        for (n, chunk) in (0_u64..).zip(numbers.chunks_mut(7)) {
            let count = &count;
            scope.submit(move || {
                chunk.fill(n);
                count.fetch_add(1, SeqCst)
            });
        }
        "the value of the body"
    });
    assert_eq!(answer, "the value of the body");
    assert_eq!(count.into_inner(), 1_000_usize.div_ceil(7));
    assert!(
        (0_u64..)
            .zip(numbers.chunks(7))
            .all(|(n, chunk)| chunk.iter().all(|&m| m == n))
    );
}

#[testkit::test]
fn tasks_are_dropped_before_the_scope_returns() {
    let pool = pool(3);
    let kept = Arc::new(());
    for round in 0..200 {
        pool.scope(|scope| {
            for n in 0..round % 7 {
                let (submitted, spawned, held) =
                    (Arc::clone(&kept), Arc::clone(&kept), Arc::clone(&kept));
                scope.submit(move || drop(submitted));
                let handle = scope.spawn(move || spawned);
                let detached = scope.spawn(move || held);
                if n % 2 == 0 {
                    drop(handle.join().expect("it runs"));
                }
                drop(detached);
            }
        });
        assert_eq!(Arc::strong_count(&kept), 1, "round {round}");
    }
}

#[testkit::test]
fn the_owner_runs_tasks_without_room_in_the_pool() {
    let built = Pool::builder().capacity(1).queue_depth(0).build();
    let pool = built.expect("it has a capacity");
    let gate = Gate::new();
    let held = gate.clone();
    pool.submit(move || held.wait()).expect("there is room");
    gate.wait_for_arrivals(1);
    let us = thread::current().id();
    let ran_on = Mutex::new(Vec::new());
    pool.scope(|scope| {
        for _ in 0..10 {
            scope.submit(|| {
                ran_on
                    .lock()
                    .expect("no panic")
                    .push(thread::current().id());
            });
        }
    });
    assert_eq!(ran_on.into_inner().expect("no panic"), [us; 10]);
    gate.open();
}

#[testkit::test]
fn a_scope_of_a_released_pool_runs_its_tasks_on_its_owner() {
    let pool = pool(2);
    pool.release();
    pool.wait_released().expect("it ends");
    let mut sum = 0;
    pool.scope(|scope| {
        let spawned = scope.spawn(|| 7);
        sum = spawned.join().expect("it runs");
        scope.submit(|| ());
    });
    assert_eq!(sum, 7);
}

#[testkit::test]
fn only_tasks_of_the_scope_run_on_its_owner() {
    let built = Pool::builder()
        .capacity(1)
        .queue_depth(QueueDepth::Unlimited)
        .build();
    let pool = built.expect("it has a capacity");
    let (gate, us) = (Gate::new(), thread::current().id());
    let held = gate.clone();
    pool.submit(move || held.wait()).expect("there is room");
    gate.wait_for_arrivals(1);
    let (sender, strangers) = mpsc::channel();
    for _ in 0..10 {
        let sender = sender.clone();
        let stranger = move || sender.send(thread::current().id()).expect("it is received");
        pool.submit(stranger).expect("there is room");
    }
    drop(sender);
    // The only worker is held: the owner runs its own tasks, and returns.
    pool.scope(|scope| (0..10).for_each(|_| scope.submit(|| ())));
    gate.open();
    assert!(strangers.iter().all(|stranger| stranger != us));
}

#[testkit::test]
fn a_scope_on_the_only_worker_runs_its_own_tasks_and_no_earlier_task() {
    for policy in [
        WithinWorker::RunInPlace,
        WithinWorker::Block,
        WithinWorker::Refuse,
    ] {
        let built = Pool::builder()
            .capacity(1)
            .queue_depth(QueueDepth::Unlimited)
            .within_worker(policy)
            .build();
        let pool = built.expect("it has a capacity");
        let (gate, inner) = (Gate::new(), pool.clone());
        let ran = Arc::new(Mutex::new(Vec::new()));
        let write = {
            let ran = Arc::clone(&ran);
            move |whose: &'static str| {
                let mut ran = ran.lock().expect("no panic");
                ran.push((whose, thread::current().id()));
            }
        };
        let (wait, writes) = (gate.clone(), write.clone());
        let owner = pool.spawn(move || {
            wait.wait();
            inner.scope(|scope| {
                for _ in 0..5 {
                    scope.submit(|| writes("the scope's"));
                }
                scope
                    .spawn(|| writes("the scope's"))
                    .join()
                    .expect("it runs");
                scope.submit(|| {
                    inner.scope(|nested| nested.submit(|| writes("the scope's")));
                });
                let mapped = scope.map(0..3, |_| writes("the scope's"));
                assert_eq!(mapped.count(), 3);
            });
            writes("end of the owner");
            thread::current().id()
        });
        gate.wait_for_arrivals(1);
        for _ in 0..10 {
            let write = write.clone();
            let stranger = pool.submit(move || write("a stranger"));
            stranger.expect("there is room");
        }
        gate.open();
        let worker = owner.expect("there is room").join().expect("it ends");
        pool.wait_idle().expect("the caller is not a worker");
        let mut expected = vec![("the scope's", worker); 10];
        expected.push(("end of the owner", worker));
        expected.resize(21, ("a stranger", worker));
        assert_eq!(*ran.lock().expect("no panic"), expected, "{policy:?}");
    }
}

#[testkit::test]
fn nested_scopes_on_one_worker_do_not_deadlock() {
    fn fibonacci(pool: &Pool, n: u64) -> u64 {
        if n < 2 {
            return n;
        }
        pool.scope(|scope| {
            let left = scope.spawn(|| fibonacci(pool, n - 1));
            let right = fibonacci(pool, n - 2);
            left.join().expect("it runs") + right
        })
    }
    for policy in [
        WithinWorker::RunInPlace,
        WithinWorker::Block,
        WithinWorker::Refuse,
    ] {
        for capacity in [1, 2, 4] {
            let pool = Pool::builder()
                .capacity(capacity)
                .within_worker(policy)
                .build();
            let pool = pool.expect("it has a capacity");
            assert_eq!(fibonacci(&pool, 12), 144);
            let inner = pool.clone();
            let on_worker = pool.spawn(move || fibonacci(&inner, 12));
            assert_eq!(
                on_worker.expect("there is room").join().expect("it ends"),
                144
            );
        }
    }
}

#[testkit::test]
fn sixteen_owners_share_two_workers() {
    let pool = pool(2);
    thread::scope(|threads| {
        for _ in 0..16 {
            threads.spawn(|| {
                for round in 0..50_usize {
                    let sum = AtomicUsize::new(0);
                    pool.scope(|scope| {
                        for n in 0..round {
                            let sum = &sum;
                            scope.submit(move || sum.fetch_add(n, SeqCst));
                        }
                    });
                    assert_eq!(sum.into_inner(), round * round.saturating_sub(1) / 2);
                }
            });
        }
    });
}

#[testkit::test]
fn tasks_spawn_tasks_into_their_own_scope() {
    fn grow<'scope>(scope: &'scope Scope<'scope, '_>, left: u32, count: &'scope AtomicUsize) {
        count.fetch_add(1, SeqCst);
        if left > 0 {
            scope.submit(move || grow(scope, left - 1, count));
            scope.submit(move || grow(scope, left - 1, count));
        }
    }
    let (pool, count) = (pool(3), AtomicUsize::new(0));
    pool.scope(|scope| grow(scope, 9, &count));
    assert_eq!(count.into_inner(), 1_023);
}

#[testkit::test]
fn a_panic_of_the_body_waits_for_the_tasks_and_propagates() {
    let (pool, ended) = (pool(2), AtomicUsize::new(0));
    let unwound = catch_unwind(AssertUnwindSafe(|| {
        pool.scope(|scope| {
            for _ in 0..20 {
                scope.submit(|| {
                    thread::yield_now();
                    ended.fetch_add(1, SeqCst)
                });
            }
            panic!("the body");
        })
    }));
    let payload = unwound
        .err()
        .and_then(|payload| payload.downcast::<&str>().ok());
    assert_eq!(payload.as_deref(), Some(&"the body"));
    assert_eq!(ended.into_inner(), 20);
}

/// A payload whose destructor panics, which would abort the process during another unwind.
struct Bomb;

impl Drop for Bomb {
    fn drop(&mut self) {
        panic!("a destructor");
    }
}

#[testkit::test]
fn a_panic_of_the_body_propagates_although_a_tasks_payload_panics_in_its_drop() {
    let pool = pool(1);
    let unwound = catch_unwind(AssertUnwindSafe(|| {
        pool.scope(|scope| {
            scope.submit(|| std::panic::panic_any(Bomb));
            panic!("the body");
        })
    }));
    let payload = unwound
        .err()
        .and_then(|payload| payload.downcast::<&str>().ok());
    assert_eq!(payload.as_deref(), Some(&"the body"));
}

#[testkit::test]
fn a_panic_of_a_task_propagates_although_the_bodys_value_panics_in_its_drop() {
    let pool = pool(1);
    let unwound = catch_unwind(AssertUnwindSafe(|| {
        pool.scope(|scope| {
            scope.submit(|| panic!("submitted"));
            Bomb
        })
    }));
    let payload = unwound
        .err()
        .and_then(|payload| payload.downcast::<&str>().ok());
    assert_eq!(payload.as_deref(), Some(&"submitted"));
}

#[testkit::test]
fn a_panic_of_a_task_is_returned_by_its_handle_or_propagates_from_the_scope() {
    let pool = pool(2);
    pool.scope(|scope| {
        let joined = scope.spawn(|| panic!("spawned")).join();
        assert!(matches!(joined, Err::<(), _>(JoinError::Panicked(it)) if it.message() == Some("spawned")));
        drop(scope.spawn(|| panic!("detached")));
    });
    let unwound = catch_unwind(AssertUnwindSafe(|| {
        pool.scope(|scope| {
            for _ in 0..3 {
                scope.submit(|| panic!("submitted"));
            }
        });
    }));
    let payload = unwound
        .err()
        .and_then(|payload| payload.downcast::<&str>().ok());
    assert_eq!(payload.as_deref(), Some(&"submitted"));
    assert_eq!(pool.scope(|_| 1), 1, "the pool is whole");
}

#[testkit::test]
fn a_scope_propagates_the_first_of_several_panics() {
    let pool = pool(1);
    pool.pause(); // All tasks run here, one after the other.
    for first in 0..3_usize {
        let unwound = catch_unwind(AssertUnwindSafe(|| {
            pool.scope(|scope| {
                for n in 0..5 {
                    scope.submit(move || {
                        if n >= first {
                            std::panic::panic_any(n);
                        }
                    });
                }
            });
        }));
        let payload = unwound
            .err()
            .and_then(|payload| payload.downcast::<usize>().ok());
        assert_eq!(payload.as_deref(), Some(&first));
    }
}

#[testkit::test]
fn a_leaked_handle_leaks_only_its_value() {
    let (pool, kept) = (pool(2), Arc::new(()));
    pool.scope(|scope| {
        let held = Arc::clone(&kept);
        std::mem::forget(scope.spawn(move || held));
    });
    assert_eq!(Arc::strong_count(&kept), 2);
}

#[testkit::test]
fn a_scoped_mapping_borrows_and_returns_results_in_order() {
    let pool = pool(3);
    let words: Vec<String> = (0..500).map(|n| n.to_string()).collect();
    let longest = pool.scope(|scope| {
        let lengths = scope.map(&words, |word| (word.as_str(), word.len()));
        let lengths: Vec<_> = lengths.map(|result| result.expect("it runs")).collect();
        assert!(lengths.iter().map(|(word, _)| *word).eq(words.iter()));
        lengths.into_iter().map(|(_, length)| length).max()
    });
    assert_eq!(longest, Some(3));
}

#[testkit::test]
fn a_dropped_scoped_mapping_drops_unstarted_items() {
    let (pool, gate) = (pool(1), Gate::new());
    let (begun, kept) = (AtomicUsize::new(0), Arc::new(()));
    pool.scope(|scope| {
        let items = (0..4).map(|n| {
            if n == 3 {
                gate.wait_for_arrivals(1); // The pool's only worker is held by the second item.
            }
            (n, Arc::clone(&kept))
        });
        let mut results = scope.map(items, |(n, _)| {
            begun.fetch_add(1, SeqCst);
            if n == 1 {
                gate.wait();
            }
            n
        });
        assert_eq!(results.next().and_then(Result::ok), Some(0));
        assert_eq!(Arc::strong_count(&kept), 4, "the others were pulled");
        drop(results);
        gate.open();
    });
    assert_eq!(begun.into_inner(), 2);
    assert_eq!(Arc::strong_count(&kept), 1);
}

#[testkit::test]
fn a_scoped_mapping_pulls_no_further_than_its_window() {
    let pool = pool(2);
    for (window, most) in [(0, 1), (1, 1), (3, 3), (50, 10)] {
        let pulls = || {
            let (pulled, fetched) = (AtomicUsize::new(0), AtomicUsize::new(0));
            let mut at_first = 0;
            pool.scope(|scope| {
                let items = (0..10).inspect(|_| {
                    let ahead = pulled.fetch_add(1, SeqCst) + 1 - fetched.load(SeqCst);
                    assert!(ahead <= most, "{ahead} of {most}");
                });
                let mut results = scope.map(items, |n| n).window(window);
                for n in 0..10 {
                    assert_eq!(results.next().and_then(Result::ok), Some(n));
                    if n == 0 {
                        at_first = pulled.load(SeqCst);
                    }
                    fetched.fetch_add(1, SeqCst);
                }
                assert!(results.next().is_none());
            });
            at_first
        };
        // The owner runs items before it has pulled all of them while no worker is idle, and one may be on its way to that.
        while pulls() < most {}
    }
}

/// Recursion: each level is a scope whose only task is the next level.
fn depth(pool: &Pool, levels: u32) -> Result<u32, JoinError> {
    if levels == 0 {
        return Ok(0);
    }
    pool.scope(|scope| scope.spawn(|| depth(pool, levels - 1)).join())?
        .map(|below| below + 1)
}

#[testkit::test]
fn the_nesting_limit_refuses_no_join_of_a_scope_on_any_thread() {
    for capacity in [1, 2] {
        let built = Pool::builder().capacity(capacity).nesting_limit(0).build();
        let pool = built.expect("it has a capacity");
        assert!(matches!(depth(&pool, 100), Ok(100)), "from another thread");
        let inner = pool.clone();
        let task = pool.spawn(move || depth(&inner, 100));
        let reached = task.expect("there is room").join().expect("it ends");
        assert!(matches!(reached, Ok(100)), "on an own worker");
    }
}

#[testkit::test]
fn a_recursion_of_scopes_is_deeper_than_the_stack_of_a_worker() {
    for capacity in [1, 2] {
        let built = Pool::builder().capacity(capacity).stack_size(1 << 20);
        let pool = built.build().expect("it has a capacity");
        let inner = pool.clone();
        // Each level takes some kilobytes without optimization.
        let task = pool.spawn(move || depth(&inner, 1_000));
        let reached = task.expect("there is room").join().expect("it ends");
        assert!(matches!(reached, Ok(1_000)));
        let live = pool.stats().peak_live;
        assert!(live <= capacity, "the other stacks are no workers: {live}");
    }
}

#[testkit::test]
fn a_recursion_of_scopes_without_another_thread_goes_on_on_its_own_stack() {
    let asked = Arc::new(AtomicUsize::new(0));
    let gate = move || match asked.fetch_add(1, SeqCst) {
        0 => Ok(()), // The worker.
        1 => panic!("a gate that panics refuses"),
        _ => Err(std::io::ErrorKind::Unsupported.into()),
    };
    let built = Pool::builder().capacity(1).thread_gate(gate).build();
    let pool = built.expect("it has a capacity");
    let inner = pool.clone();
    let task = pool.spawn(move || (depth(&inner, 200), depth(&inner, 200)));
    let reached = task.expect("there is room").join().expect("it ends");
    assert!(matches!(reached, (Ok(200), Ok(200))));
}

#[testkit::test]
fn the_nesting_limit_refuses_no_result_of_a_mapping_in_a_scope() {
    let built = Pool::builder().capacity(1).nesting_limit(0).build();
    let pool = built.expect("it has a capacity");
    let inner = pool.clone();
    let task = pool.spawn(move || {
        let sum = inner.scope(|scope| {
            let rows = scope.map(0..10_u32, |n| {
                inner.scope(|scope| scope.map(0..n, |m| m).flatten().count())
            });
            rows.map(|row| row.expect("it runs")).sum::<usize>()
        });
        assert_eq!(sum, 45);
    });
    task.expect("there is room").join().expect("it ends");
}

#[testkit::test]
fn pieces_that_their_owner_runs_leave_the_nesting_limit_to_submits_and_joins() {
    let built = Pool::builder().capacity(1).nesting_limit(1).build();
    let pool = built.expect("it has a capacity");
    let inner = pool.clone();
    let task = pool.spawn(move || {
        inner.scope(|scope| {
            let joined = scope.spawn(|| inner.spawn(|| 7).expect("it runs in place").join());
            joined.join().expect("it runs")
        })
    });
    let value = task.expect("there is room").join().expect("it ends");
    assert_eq!(value.expect("it has run"), 7);
}

#[testkit::test]
fn a_scoped_join_runs_only_the_joined_task() {
    let pool = pool(1);
    pool.pause();
    let ran = Mutex::new(Vec::new());
    pool.scope(|scope| {
        let run = |n| ran.lock().expect("no panic").push(n);
        let handles: Vec<_> = (0..4).map(|n| scope.spawn(move || run(n))).collect();
        for handle in handles.into_iter().rev() {
            handle.join().expect("it runs");
        }
    });
    assert_eq!(ran.into_inner().expect("no panic"), [3, 2, 1, 0]);
}

#[testkit::test]
fn a_scoped_join_of_a_started_task_waits_and_runs_no_other() {
    let (pool, gate, begun) = (pool(1), Gate::new(), AtomicUsize::new(0));
    pool.scope(|scope| {
        let held = gate.clone();
        let handle = scope.spawn(move || held.wait());
        gate.wait_for_arrivals(1);
        for _ in 0..10 {
            scope.submit(|| begun.fetch_add(1, SeqCst));
        }
        let opener = gate.clone();
        let opens = thread::spawn(move || opener.open());
        handle.join().expect("it ends");
        opens.join().expect("no panic");
    });
    assert_eq!(begun.into_inner(), 10);
}

/// Runs this many tasks, each of which spawns and joins a child. Returns how many joins were
/// refused.
fn refused_joins(pool: &Pool, tasks: usize) -> usize {
    let refused = AtomicUsize::new(0);
    pool.scope(|scope| {
        for _ in 0..tasks {
            scope.submit(|| {
                let joined = scope.spawn(|| ()).join();
                refused.fetch_add(usize::from(joined.is_err()), SeqCst);
            });
        }
    });
    refused.into_inner()
}

#[testkit::test]
fn a_thousand_tasks_on_one_worker_join_a_child_each() {
    let pool = pool(1);
    let inner = pool.clone();
    let task = pool.spawn(move || refused_joins(&inner, 1_000));
    assert_eq!(task.expect("there is room").join().expect("it ends"), 0);
}

#[testkit::test]
fn joins_of_children_do_not_nest_on_one_stack() {
    let pool = pool(1);
    pool.pause(); // All tasks run here.
    assert_eq!(refused_joins(&pool, 100_000), 0);
}

#[testkit::test]
fn any_queued_task_of_a_scope_can_be_joined() {
    let pool = pool(1);
    pool.pause();
    for stride in [1, 3, 7, 64, 99] {
        let ran = AtomicUsize::new(0);
        pool.scope(|scope| {
            let spawn = |n: usize| {
                let ran = &ran;
                scope.spawn(move || ran.fetch_add(n, SeqCst))
            };
            let mut handles: Vec<_> = (0..100).map(|n| Some(spawn(n))).collect();
            for n in 0..90 {
                let handle = handles[n * stride % 100].take();
                handle.map(|handle| handle.join().expect("it runs"));
            }
        });
        assert_eq!(ran.into_inner(), 99 * 100 / 2, "{stride}");
    }
}

#[testkit::test]
fn a_scoped_mapping_of_an_unlimited_pool_pulls_an_endless_source_no_further_than_its_window() {
    let built = Pool::builder()
        .capacity(1 << 20)
        .queue_depth(QueueDepth::Unlimited)
        .build();
    let pool = built.expect("it has a capacity");
    pool.pause(); // No thread is started, so all tasks run here.
    let pulled = AtomicUsize::new(0);
    pool.scope(|scope| {
        let endless = (0..100_000).inspect(|_| _ = pulled.fetch_add(1, SeqCst));
        let results = scope.map(endless, |n| n);
        assert_eq!(results.take(3).flatten().sum::<i32>(), 3);
    });
    assert!(pulled.load(SeqCst) <= 1_026, "{}", pulled.load(SeqCst));
}

#[testkit::test]
fn the_owner_of_a_scoped_mapping_runs_items_while_a_worker_runs_another() {
    let (pool, gate) = (pool(1), Gate::new());
    let values = pool.scope(|scope| {
        // The worker has the first item when the second one is pulled. The last item opens its
        // gate.
        let source = (0..4).inspect(|&n| {
            if n == 1 {
                gate.wait_for_arrivals(1);
            }
        });
        let mapped = scope.map(source, |n| {
            match n {
                0 => gate.wait(),
                3 => gate.open(),
                _ => {}
            }
            (n, thread::current().id())
        });
        mapped.flatten().collect::<Vec<_>>()
    });
    let us = thread::current().id();
    let here: Vec<_> = values.into_iter().map(|(n, on)| (n, on == us)).collect();
    assert_eq!(here, [(0, false), (1, true), (2, true), (3, true)]);
}

#[cfg(unix)]
#[testkit::test]
fn a_scope_that_begins_in_a_forked_child_runs_on_its_owner() {
    let test = "scope::a_scope_that_begins_in_a_forked_child_runs_on_its_owner";
    let ended = testkit::in_child(test, || {
        let pool = pool(1);
        let told = testkit::in_fork(|| {
            let ran = AtomicUsize::new(0);
            let joined = pool.scope(|scope| {
                (0..3).for_each(|_| scope.submit(|| ran.fetch_add(1, SeqCst)));
                let mapped = scope.map(0..10, |n| n).flatten().sum::<i32>();
                (scope.spawn(|| 7).join().ok(), mapped)
            });
            assert_eq!((joined, ran.into_inner()), ((Some(7), 45), 3));
        });
        assert_eq!(told, Ok(()));
        assert_eq!(pool.scope(|scope| scope.spawn(|| 7).join().ok()), Some(7));
    });
    ended.expect("the child exits by itself");
}

#[cfg(unix)]
#[testkit::test]
fn a_task_that_forks_ends_its_scope_in_the_child_too() {
    let test = "scope::a_task_that_forks_ends_its_scope_in_the_child_too";
    let ended = testkit::in_child(test, || {
        let (pool, parent) = (pool(1), std::process::id());
        pool.pause(); // All tasks run here.
        let pid = AtomicUsize::new(0);
        pool.scope(|scope| {
            scope.submit(|| ());
            scope.submit(|| {
                // SAFETY: the child runs only the code below, and leaves by `_exit`.
                let child = unsafe { libc::fork() };
                pid.store(usize::try_from(child).expect("it forks"), SeqCst);
            });
            scope.submit(|| ());
        });

        let pid = pid.into_inner();
        if std::process::id() != parent {
            // SAFETY: `_exit` has no preconditions.
            unsafe { libc::_exit(i32::from(pid != 0)) };
        }
        let mut status = -1;
        let pid = libc::pid_t::try_from(pid).expect("the text is a process id");
        // SAFETY: `status` is a valid, exclusive reference.
        let waited = unsafe { libc::waitpid(pid, &raw mut status, 0) };
        assert_eq!((waited, status), (pid, 0));
    });
    ended.expect("the child exits by itself");
}

#[cfg(unix)]
#[testkit::test]
fn no_borrowing_task_is_dropped_after_its_scope_ends_in_a_forked_child() {
    struct Counts<'a>(&'a AtomicUsize);
    impl Drop for Counts<'_> {
        fn drop(&mut self) {
            self.0.fetch_add(1, SeqCst);
        }
    }
    let test = "scope::no_borrowing_task_is_dropped_after_its_scope_ends_in_a_forked_child";
    let ended = testkit::in_child(test, || {
        let pool = Pool::builder().capacity(1).keep_alive(None).build();
        let pool = pool.expect("it has a capacity");
        let (gate, dropped) = (Gate::new(), AtomicUsize::new(0));
        let held = gate.clone();
        pool.submit(move || held.wait()).expect("there is room");
        gate.wait_for_arrivals(1);
        let child = pool.scope(|scope| {
            for _ in 0..3 {
                let counts = Counts(&dropped);
                scope.submit(move || drop(counts));
            }
            // SAFETY: the child uses nothing of other threads except the pool under test, whose
            // locks are free because its one worker waits at the gate. The child leaves by `_exit`.
            unsafe { libc::fork() }
        });
        if child == 0 {
            let at_return = dropped.load(SeqCst);
            drop(pool);
            let after = dropped.load(SeqCst) - at_return;
            // SAFETY: `_exit` has no preconditions.
            unsafe { libc::_exit(i32::try_from(after).unwrap_or(-1)) };
        }
        assert!(child > 0);
        assert_eq!(dropped.load(SeqCst), 3, "the owner ran them");
        let mut status = -1;
        // SAFETY: `status` is a valid, exclusive reference.
        let waited = unsafe { libc::waitpid(child, &raw mut status, 0) };
        assert_eq!((waited, status), (child, 0));
        gate.open();
    });
    ended.expect("the child exits by itself");
}

#[testkit::test]
fn a_scoped_task_has_a_name_and_a_token_and_borrows() {
    let pool = pool(2);
    let (text, stop) = (String::from("borrowed"), CancelToken::new());
    pool.scope(|scope| {
        let named = scope.task().name("named").cancelled_by(&stop).spawn(|| {
            let current = pool_core::current();
            let before = current.is_cancelled();
            stop.cancel();
            let token = current.token();
            let name = current.name().map(str::to_owned);
            (
                text.len(),
                name,
                before,
                current.is_cancelled(),
                token.is_cancelled(),
            )
        });
        let known = named.join().expect("it runs");
        assert_eq!(known, (8, Some("named".to_owned()), false, true, true));
        let plain = scope.spawn(|| pool_core::current().name().map(str::to_owned));
        assert_eq!(plain.join().expect("it runs"), None);
    });
}

#[testkit::test]
fn a_scoped_task_cancelled_or_expired_before_its_start_is_dropped_unrun() {
    let clock = ManualClock::new();
    let built = Pool::builder().capacity(1).clock(clock.clone()).build();
    let pool = built.expect("it has a capacity");
    let (stop, ran) = (CancelToken::new(), AtomicUsize::new(0));
    stop.cancel();
    let kept = Arc::new(());
    pool.scope(|scope| {
        let (first, second, third) = (Arc::clone(&kept), Arc::clone(&kept), Arc::clone(&kept));
        let run = |held: Arc<()>| {
            ran.fetch_add(1, SeqCst);
            drop(held);
        };
        scope.task().cancelled_by(&stop).submit(move || run(first));
        let cancelled = scope.task().cancelled_by(&stop).spawn(move || run(second));
        assert!(matches!(cancelled.join(), Err(JoinError::Cancelled)));
        let late = scope.task().start_before(clock.now());
        let late = late.spawn(move || run(third));
        assert!(matches!(late.join(), Err(JoinError::Expired)));
    });
    assert_eq!((ran.into_inner(), Arc::strong_count(&kept)), (0, 1));
}

#[testkit::test]
fn a_panic_of_a_named_scoped_task_is_reported_with_its_name() {
    let names = Arc::new(Mutex::new(Vec::new()));
    let seen = Arc::clone(&names);
    let built = Pool::builder()
        .capacity(1)
        .panic_hook(move |panic| {
            let name = panic.name().map(str::to_owned);
            seen.lock().expect("no panic").push(name);
        })
        .build();
    let pool = built.expect("it has a capacity");
    let ended = catch_unwind(AssertUnwindSafe(|| {
        pool.scope(|scope| scope.task().name("fatal").submit(|| panic!("as asked")));
    }));
    assert!(ended.is_err());
    let spawned = pool.scope(|scope| {
        scope
            .task()
            .name("its handle's")
            .spawn(|| panic!("so"))
            .join()
    });
    assert!(matches!(spawned, Err::<(), _>(JoinError::Panicked(_))));
    let names = names.lock().expect("no panic");
    assert_eq!(
        *names,
        [Some("fatal".to_owned()), Some("its handle's".to_owned())]
    );
}

#[testkit::test]
fn a_scoped_try_map_returns_results_before_the_first_error_and_ends() {
    let pool = pool(3);
    let (pulled, kept) = (AtomicUsize::new(0), Arc::new(()));
    pool.scope(|scope| {
        let items = (0..1_000).map(|n| {
            pulled.fetch_add(1, SeqCst);
            (n, Arc::clone(&kept))
        });
        let even = |(n, _): (i32, Arc<()>)| if n == 20 { Err("twenty") } else { Ok(n) };
        let mut results = scope.try_map(items, even);
        for n in 0..20 {
            assert!(matches!(results.next(), Some(Ok(m)) if m == n));
        }
        assert!(matches!(
            results.next(),
            Some(Err(MapError::Failed("twenty")))
        ));
        let at_the_end = pulled.load(SeqCst);
        assert!(at_the_end < 1_000);
        assert!(results.next().is_none() && results.next().is_none());
        assert_eq!(pulled.load(SeqCst), at_the_end);
    });
    assert_eq!(Arc::strong_count(&kept), 1);
}

#[testkit::test]
fn a_scoped_try_map_starts_no_item_after_it_has_returned_an_error() {
    let pool = pool(1);
    let gate = Gate::new();
    let held = gate.clone();
    pool.submit(move || held.wait()).expect("there is room");
    gate.wait_for_arrivals(1);
    let begun = AtomicUsize::new(0);
    pool.scope(|scope| {
        // All items run here, one after the other, because the pool's worker is busy.
        let mut results = scope.try_map(0..4, |n| {
            begun.fetch_add(1, SeqCst);
            assert!(n != 1, "the second");
            Ok::<_, ()>(n)
        });
        assert!(matches!(results.next(), Some(Ok(0))));
        assert!(matches!(results.next(), Some(Err(MapError::Panicked(_)))));
        assert!(results.next().is_none());
    });
    gate.open();
    assert_eq!(begun.into_inner(), 2);
}

#[testkit::test]
fn a_scoped_try_map_starts_no_item_after_an_error_while_an_earlier_item_runs() {
    struct Opens(Gate, bool);
    impl Drop for Opens {
        fn drop(&mut self) {
            if self.1 {
                self.0.open();
            }
        }
    }
    for panics in [false, true] {
        let (pool, gate, begun) = (pool(1), Gate::new(), AtomicUsize::new(0));
        pool.scope(|scope| {
            // The first item, on another thread, waits for the last item of its window.
            let items = (0..4).map(|n| (n, Opens(gate.clone(), n == 3)));
            let mut results = scope.try_map(items, |(n, _)| {
                begun.fetch_add(1, SeqCst);
                match n {
                    0 => gate.wait(),
                    1 if panics => panic!("the second"),
                    _ => return Err(n),
                }
                Ok(n)
            });
            assert!(matches!(results.next(), Some(Ok(0))));
            match results.next() {
                Some(Err(MapError::Panicked(_))) => assert!(panics),
                Some(Err(MapError::Failed(n))) => assert!(!panics && n == 1),
                other => panic!("{other:?}"),
            }
            assert!(results.next().is_none());
        });
        assert_eq!(begun.into_inner(), 2);
    }
}
