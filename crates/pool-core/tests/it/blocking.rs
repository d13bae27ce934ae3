//! Tasks that call `blocking`: another worker replaces them meanwhile, and leaves afterwards.

use std::sync::mpsc;
use std::time::Duration;

use pool_core::{
    Builder, Closures, DEFAULT_MAX_COMPENSATION, ManualClock, Pool, SubmitError, blocking, current,
};
use testkit::Gate;

use crate::support::{Journal, end, enter_line, until};

/// One worker, and up to `most` extra workers while tasks block. None of them expires.
fn compensating(most: usize) -> Builder<Closures> {
    Pool::builder()
        .capacity(1)
        .max_compensation(most)
        .keep_alive(None)
}

fn blocks_at(gate: &Gate) -> impl FnOnce() + Send + 'static + use<> {
    let gate = gate.clone();
    move || blocking(|| gate.wait())
}

#[testkit::test]
fn an_extra_worker_runs_a_queued_task_that_a_blocked_task_waits_for() {
    let pool = compensating(1).queue_depth(1).build().unwrap();
    let (sender, receiver) = mpsc::channel();
    let waits = pool.spawn(move || blocking(|| receiver.recv())).unwrap();
    pool.submit(move || sender.send(7)).unwrap();
    assert_eq!(waits.join().unwrap(), Ok(7));
    until(|| pool.running() == 1);
    assert_eq!(pool.stats().peak_live, 2);
}

#[testkit::test]
fn a_pool_with_default_settings_replaces_a_fixed_number_of_tasks_that_block() {
    const MOST: usize = DEFAULT_MAX_COMPENSATION;
    let pool = Pool::builder().capacity(1).queue_depth(1).build().unwrap();
    let gate = Gate::new();
    for _ in 0..=MOST {
        pool.submit(blocks_at(&gate)).unwrap();
    }
    gate.wait_for_arrivals(1 + MOST);
    assert_eq!((pool.running(), pool.queued()), (1 + MOST, 0));
    pool.submit(|| ()).unwrap();
    assert_eq!((pool.running(), pool.queued()), (1 + MOST, 1));
    gate.open();
    pool.wait_idle().unwrap();
    until(|| pool.running() <= 1);
}

#[testkit::test]
fn a_task_that_blocks_frees_room_for_a_waiter() {
    let pool = compensating(1).build().unwrap();
    let (gate, blocked) = (Gate::new(), Gate::new());
    let (first, held) = (gate.clone(), blocked.clone());
    pool.submit(move || {
        first.wait();
        blocking(|| held.wait());
    })
    .unwrap();
    gate.wait_for_arrivals(1);
    assert!(matches!(pool.try_submit(|| ()), Err(SubmitError::Full(_))));
    let (sender, receiver) = mpsc::channel();
    let waiter = enter_line(&pool, move |pool| {
        pool.submit(move || sender.send(())).is_ok()
    });
    gate.open();
    receiver.recv().unwrap(); // The first task still blocks.
    assert!(waiter.join().unwrap());
    assert_eq!(
        (pool.stats().capacity.limit(), pool.free()),
        (Some(1), Some(0))
    );
    blocked.open();
    until(|| pool.running() == 1 && pool.in_flight() == 0);
    // The extra worker is gone, and so is its room.
    let gate = Gate::new();
    let holds = gate.clone();
    pool.submit(move || holds.wait()).unwrap();
    assert!(matches!(pool.try_submit(|| ()), Err(SubmitError::Full(_))));
    gate.open();
}

#[testkit::test]
fn an_idle_extra_worker_ends_when_the_blocked_task_continues() {
    let clock = ManualClock::new();
    let pool = compensating(1)
        .keep_alive(Duration::from_secs(1))
        .clock(clock.clone());
    let pool = pool.build().unwrap();
    let gate = Gate::new();
    let after = Gate::new();
    let (held, then) = (gate.clone(), after.clone());
    pool.submit(move || {
        blocking(|| held.wait());
        then.wait();
    })
    .unwrap();
    gate.wait_for_arrivals(1);
    pool.submit(|| ()).unwrap();
    until(|| pool.stats().completed == 1);
    clock.wait_for_sleepers(1); // It has parked and cannot expire, because the clock stands still.
    gate.open();
    after.wait_for_arrivals(1);
    // The task that blocked still runs, so the worker that left is the extra one.
    until(|| pool.running() == 1);
    assert_eq!(pool.busy(), 1);
    after.open();
}

#[testkit::test]
fn the_limit_bounds_the_extra_workers() {
    let pool = compensating(1).capacity(2).queue_depth(2).build().unwrap();
    let gate = Gate::new();
    pool.submit(blocks_at(&gate)).unwrap();
    pool.submit(blocks_at(&gate)).unwrap();
    gate.wait_for_arrivals(2);
    pool.submit(blocks_at(&gate)).unwrap(); // Runs on the extra worker.
    gate.wait_for_arrivals(3);
    pool.submit(|| ()).unwrap();
    assert_eq!((pool.running(), pool.queued()), (3, 1));
    gate.open();
    pool.wait_idle().unwrap();
    until(|| pool.running() <= 2);
    assert_eq!(pool.stats().threads_started, 3);
}

#[testkit::test]
fn nested_blocking_calls_start_one_extra_worker() {
    let pool = compensating(2).queue_depth(2).build().unwrap();
    let gate = Gate::new();
    let held = gate.clone();
    pool.submit(move || {
        blocking(|| blocking(|| held.wait()));
        blocking(|| held.wait());
    })
    .unwrap();
    gate.wait_for_arrivals(1);
    let holds = gate.clone();
    pool.submit(move || holds.wait()).unwrap();
    gate.wait_for_arrivals(2);
    pool.submit(|| ()).unwrap();
    assert_eq!((pool.running(), pool.queued()), (2, 1));
    gate.open();
    pool.wait_idle().unwrap();
    until(|| pool.running() <= 1);
}

#[testkit::test]
fn blocking_without_a_limit_or_outside_a_pool_only_runs_the_closure() {
    assert_eq!(blocking(|| 7), 7);
    let pool = compensating(0).queue_depth(1).build().unwrap();
    let gate = Gate::new();
    pool.submit(blocks_at(&gate)).unwrap();
    gate.wait_for_arrivals(1);
    pool.submit(|| ()).unwrap();
    assert_eq!((pool.running(), pool.queued()), (1, 1));
    gate.open();
}

#[testkit::test]
fn a_panic_in_blocking_retires_the_extra_worker_before_it_propagates() {
    let pool = compensating(1).queue_depth(1).build().unwrap();
    for _ in 0..2 {
        let (sender, receiver) = mpsc::channel();
        let panics = pool.spawn(move || {
            blocking(|| {
                receiver.recv().unwrap();
                panic!("blocked");
            });
        });
        pool.submit(move || sender.send(())).unwrap();
        assert!(panics.unwrap().join().is_err());
        until(|| pool.running() == 1);
    }
    assert_eq!(pool.stats().panicked, 2);
}

#[testkit::test]
fn a_released_pool_starts_extra_workers_and_ends() {
    let pool = compensating(1).queue_depth(1).build().unwrap();
    let (sender, receiver) = mpsc::channel();
    let gate = Gate::new();
    let held = gate.clone();
    let waits = pool
        .spawn(move || {
            held.wait();
            blocking(|| receiver.recv())
        })
        .unwrap();
    pool.submit(move || sender.send(7)).unwrap();
    pool.release();
    gate.open();
    assert_eq!(waits.join().unwrap(), Ok(7));
    end(&pool);
    assert_eq!(pool.stats().threads_started, 2);
}

/// A thread wrap that calls `blocking` for its worker's whole life allows one more parked worker.
#[testkit::test]
fn the_parked_set_has_a_slot_for_each_extra_worker_also_after_tuning() {
    let clock = ManualClock::new();
    let pool = compensating(1)
        .preallocate(true)
        .keep_alive(Duration::from_secs(1))
        .clock(clock.clone())
        .worker_wrap(|run| blocking(run));
    let pool = pool.build().unwrap();
    pool.tune(2).unwrap();
    pool.tune(1).unwrap();
    let gate = Gate::new();
    for _ in 0..2 {
        let gate = gate.clone();
        pool.submit(move || gate.wait()).unwrap();
    }
    gate.wait_for_arrivals(2);
    gate.open();
    clock.wait_for_sleepers(2); // Both workers have parked.
    assert_eq!(pool.running(), 2);
    end(&pool);
}

#[testkit::test]
fn extra_workers_have_distinct_slots() {
    let pool = compensating(1).build().unwrap();
    let gate = Gate::new();
    pool.submit(blocks_at(&gate)).unwrap();
    gate.wait_for_arrivals(1);
    let slot = pool.spawn(|| current().worker()).unwrap();
    assert_eq!(slot.join().unwrap(), Some(1));
    gate.open();
}

#[testkit::test]
fn a_task_that_blocks_calls_the_thread_gate_which_may_refuse() {
    let journal = Journal::new();
    let asked = journal.clone();
    let pool = compensating(1).queue_depth(1).thread_gate(move || {
        asked.write(current().worker());
        // In a thread gate, `blocking` only runs its closure.
        if blocking(|| current().worker()).is_some() {
            return Err(std::io::ErrorKind::Other.into());
        }
        Ok(())
    });
    let pool = pool.build().unwrap();
    let (gate, blocked) = (Gate::new(), Gate::new());
    let (first, held) = (gate.clone(), blocked.clone());
    pool.submit(move || {
        first.wait();
        blocking(|| held.wait());
    })
    .unwrap();
    gate.wait_for_arrivals(1);
    let second = pool.spawn(|| 7).unwrap();
    gate.open();
    blocked.wait_for_arrivals(1);
    assert_eq!(journal.entries(), [None, Some(0)]);
    assert_eq!((pool.running(), pool.queued()), (1, 1));
    blocked.open();
    assert_eq!(
        second
            .join_timeout(Duration::from_secs(50))
            .unwrap()
            .unwrap(),
        7
    );
}
