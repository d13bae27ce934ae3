//! Thread starts that the operating system refuses.

use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::task::Poll;
use std::thread;
use std::time::Duration;

use pool_core::{BuildError, Builder, Closures, ManualClock, Pool, SubmitError};
use testkit::{Gate, block_on};

use crate::support::{Journal, end, hold, poll, until};

/// A thread gate that allows starts while the switch is on.
#[derive(Clone)]
struct Switch(Arc<AtomicBool>);

impl Switch {
    fn new(on: bool) -> Self {
        Self(Arc::new(AtomicBool::new(on)))
    }

    fn set(&self, on: bool) {
        self.0.store(on, SeqCst);
    }

    fn gate(&self) -> impl Fn() -> io::Result<()> + Send + Sync + 'static {
        let switch = self.clone();
        move || {
            if switch.0.load(SeqCst) {
                Ok(())
            } else {
                Err(io::Error::other("switched off"))
            }
        }
    }
}

fn switched(on: bool, capacity: usize) -> (Switch, Builder<Closures>) {
    let switch = Switch::new(on);
    let builder = Pool::builder()
        .capacity(capacity)
        .thread_gate(switch.gate());
    (switch, builder.keep_alive(None))
}

#[testkit::test]
fn a_task_is_returned_if_the_first_worker_cannot_be_started() {
    let (switch, builder) = switched(false, 4);
    let pool = builder.queue_depth(4).build().unwrap();
    let journal = Journal::new();
    let refused = [
        pool.submit(journal.writer(0)).unwrap_err(),
        pool.try_submit(journal.writer(1)).unwrap_err(),
        pool.submit_timeout(journal.writer(2), Duration::MAX)
            .unwrap_err(),
        block_on(pool.submit_async(journal.writer(3))).unwrap_err(),
        pool.spawn(journal.writer(4)).map(drop).unwrap_err(),
    ];
    for (n, error) in refused.into_iter().enumerate() {
        let SubmitError::NoThread(task, reason) = error else {
            panic!("{error}");
        };
        assert_eq!(reason.to_string(), "switched off");
        task();
        assert_eq!(journal.entries().last(), Some(&n));
    }
    let stats = pool.stats();
    assert_eq!(
        (stats.submitted, stats.refused, stats.thread_failures),
        (0, 5, 5)
    );
    assert_eq!((stats.live, stats.in_flight), (0, 0));
    switch.set(true);
    pool.spawn(journal.writer(5)).unwrap().join().unwrap();
    assert_eq!(journal.len(), 6);
}

#[testkit::test]
fn a_gate_that_panics_counts_as_a_refusal() {
    let pool = Pool::builder()
        .capacity(1)
        .thread_gate(|| panic!("the gate"));
    let pool = pool.build().unwrap();
    assert!(matches!(pool.submit(|| ()), Err(SubmitError::NoThread(..))));
    assert!(matches!(pool.submit(|| ()), Err(SubmitError::NoThread(..))));
    end(&pool);
}

#[testkit::test]
fn submitters_that_wait_for_the_first_worker_each_try_when_its_start_fails() {
    let (gate, calls) = (Gate::new(), Arc::new(AtomicUsize::new(0)));
    let (held, count) = (gate.clone(), Arc::clone(&calls));
    let pool = Pool::builder()
        .capacity(1)
        .queue_depth(10)
        .thread_gate(move || {
            held.wait();
            if count.fetch_add(1, SeqCst) == 0 {
                return Err(io::Error::other("the first of all"));
            }
            Ok(())
        });
    let pool = pool.build().unwrap();
    let submitters: Vec<_> = (0..5)
        .map(|_| {
            let pool = pool.clone();
            thread::spawn(move || pool.submit(|| ()).is_ok())
        })
        .collect();
    gate.wait_for_arrivals(1);
    gate.open();
    let accepted = submitters
        .into_iter()
        .filter(|_| true)
        .map(|s| s.join().unwrap());
    assert_eq!(accepted.filter(|&accepted| accepted).count(), 4);
    pool.wait_idle().unwrap();
    let stats = pool.stats();
    assert_eq!(
        (stats.completed, stats.refused, stats.thread_failures),
        (4, 1, 1)
    );
    assert_eq!((stats.threads_started, calls.load(SeqCst)), (1, 2));
}

#[testkit::test]
fn a_submit_retries_a_refused_thread_start() {
    let (switch, builder) = switched(true, 3);
    let pool = builder.build().unwrap();
    let gate = hold(&pool, 1);
    switch.set(false);
    let second = Gate::new();
    let task = second.clone();
    pool.submit(move || task.wait()).unwrap();
    assert_eq!(
        (pool.queued(), pool.running(), pool.stats().thread_failures),
        (1, 1, 1)
    );
    switch.set(true);
    pool.try_submit(|| ()).unwrap(); // One worker for this task, and one for the task that waited.
    second.wait_for_arrivals(1);
    assert!(!gate.is_open());
    second.open();
    gate.open();
    pool.wait_idle().unwrap();
    assert_eq!(pool.stats().completed, 3);
}

#[testkit::test]
fn the_end_of_a_task_retries_a_refused_thread_start() {
    let (switch, builder) = switched(true, 3);
    let pool = builder.build().unwrap();
    let gate = hold(&pool, 1);
    switch.set(false);
    let gates = [Gate::new(), Gate::new()];
    for gate in gates.clone() {
        pool.try_submit(move || gate.wait()).unwrap();
    }
    assert_eq!((pool.queued(), pool.running()), (2, 1));
    switch.set(true);
    gate.open(); // The only worker takes one task and starts another worker for the second one.
    for gate in &gates {
        gate.wait_for_arrivals(1);
    }
    assert_eq!(pool.running(), 2);
    gates.iter().for_each(Gate::open);
}

#[testkit::test]
fn one_worker_runs_the_whole_queue_if_no_other_can_be_started() {
    let (switch, builder) = switched(true, 8);
    let pool = builder.queue_depth(1000).build().unwrap();
    let gate = hold(&pool, 1);
    switch.set(false);
    for _ in 0..1007 {
        pool.try_submit(|| ()).unwrap();
    }
    assert!(matches!(pool.try_submit(|| ()), Err(SubmitError::Full(_))));
    gate.open();
    pool.wait_idle().unwrap();
    let stats = pool.stats();
    assert_eq!(
        (stats.completed, stats.peak_live, stats.threads_started),
        (1008, 1, 1)
    );
    assert!(stats.thread_failures >= 1007);
}

#[testkit::test]
fn a_parked_worker_runs_the_task_of_a_failed_thread_start() {
    let (clock, starting) = (ManualClock::new(), Gate::new());
    let (held, calls) = (starting.clone(), AtomicUsize::new(0));
    let pool = Pool::builder()
        .capacity(3)
        .clock(clock.clone())
        .thread_gate(move || {
            if calls.fetch_add(1, SeqCst) == 0 {
                return Ok(());
            }
            held.wait();
            Err(io::Error::other("no second thread"))
        });
    let pool = pool.build().unwrap();
    let gate = hold(&pool, 1);
    let growing = pool.clone();
    let submitter = thread::spawn(move || growing.try_submit(|| ()).is_ok());
    starting.wait_for_arrivals(1);
    gate.open(); // The worker runs the second task too, and parks.
    clock.wait_for_sleepers(1);
    let handle = pool.try_spawn(|| 3).unwrap();
    starting.open();
    assert_eq!(handle.join().unwrap(), 3);
    assert!(submitter.join().unwrap());
    assert_eq!(
        (pool.stats().completed, pool.stats().threads_started),
        (3, 1)
    );
}

#[testkit::test]
fn tasks_being_released_hold_no_room_at_a_pool_without_workers() {
    struct Slow(Gate);
    impl Drop for Slow {
        fn drop(&mut self) {
            self.0.wait();
        }
    }
    let (switch, builder) = switched(true, 3);
    let pool = builder.build().unwrap();
    let running = hold(&pool, 1);
    switch.set(false);
    let dropping = Gate::new();
    for _ in 0..2 {
        let slow = Slow(dropping.clone());
        pool.try_submit(move || drop(slow)).unwrap();
    }
    // The two released tasks are in flight until they are dropped.
    let releasing = pool.clone();
    let releaser = thread::spawn(move || releasing.release_now());
    dropping.wait_for_arrivals(1);
    pool.tune(2).unwrap();
    running.open();
    until(|| pool.running() == 0);
    assert!(pool.reboot());
    // If they held room, a submitter might wait for it here and then get room without a worker.
    let mut future = pool.submit_async(|| ());
    let answer = poll(&mut future);
    assert!(
        matches!(answer, Poll::Ready(Err(SubmitError::NoThread(..)))),
        "{answer:?}"
    );
    assert_eq!((pool.in_flight(), pool.waiting()), (2, 0));
    switch.set(true);
    hold(&pool, 2).open();
    dropping.open();
    assert_eq!(releaser.join().unwrap(), 2);
    pool.wait_idle().unwrap();
    assert_eq!((pool.stats().completed, pool.stats().released), (3, 2));
}

#[testkit::test]
fn a_pool_whose_workers_cannot_be_prestarted_is_not_built_and_leaves_no_thread() {
    for failing in 0..4 {
        let (starts, stops) = (Journal::new(), Journal::new());
        let (started, stopped) = (starts.clone(), stops.clone());
        let calls = AtomicUsize::new(0);
        let pool = Pool::builder().capacity(4).min_workers(4);
        let pool = pool
            .start_hook(move || started.write(()))
            .stop_hook(move || stopped.write(()))
            .thread_gate(move || {
                if calls.fetch_add(1, SeqCst) == failing {
                    return Err(io::Error::other("one of them"));
                }
                Ok(())
            });
        assert!(matches!(pool.build(), Err(BuildError::NoThread(_))));
        assert_eq!((starts.len(), stops.len()), (failing, failing));
    }
}

#[testkit::test]
fn a_thread_gate_of_the_first_worker_that_submits_to_its_pool_is_refused() {
    let own = Arc::new(std::sync::OnceLock::<pool_core::WeakPool>::new());
    let (weak, journal) = (Arc::clone(&own), Journal::new());
    let log = journal.clone();
    let pool = Pool::builder().capacity(1).thread_gate(move || {
        let pool = weak.get().unwrap().upgrade().unwrap();
        match pool.submit(|| ()) {
            Err(SubmitError::NoThread(_, why)) => log.write(why.kind()),
            other => panic!("it would wait for itself: {other:?}"),
        }
        Ok(())
    });
    let pool = pool.build().unwrap();
    own.set(pool.downgrade()).unwrap();
    assert_eq!(pool.spawn(|| 7).unwrap().join().unwrap(), 7);
    assert_eq!(journal.entries(), [io::ErrorKind::Deadlock]);
    let stats = pool.stats();
    assert_eq!((stats.submitted, stats.refused), (1, 1));
    end(&pool);
}

#[testkit::test]
fn a_timed_submit_limits_its_wait_for_another_submits_thread_start() {
    let (clock, asked) = (ManualClock::new(), Gate::new());
    let asks = asked.clone();
    let pool = Pool::builder().capacity(2).clock(clock.clone());
    let pool = pool.thread_gate(move || {
        asks.wait();
        Ok(())
    });
    let pool = pool.build().unwrap();
    let journal = Journal::new();
    let starter = {
        let (pool, task) = (pool.clone(), journal.writer("starter's"));
        thread::spawn(move || pool.submit(task).unwrap())
    };
    asked.wait_for_arrivals(1);
    let waiter = {
        let (pool, task) = (pool.clone(), journal.writer("waiter's"));
        thread::spawn(move || pool.submit_timeout(task, Duration::from_secs(1)))
    };
    clock.wait_for_sleepers(1);
    clock.advance(Duration::from_secs(1));
    let refused = waiter.join().unwrap().unwrap_err();
    assert!(matches!(refused, SubmitError::TimedOut(_)), "{refused:?}");
    assert!(!asked.is_open());
    asked.open();
    starter.join().unwrap();
    end(&pool);
    assert_eq!(journal.entries(), ["starter's"]);
    assert_eq!(pool.stats().refused, 1);
}
