//! Priorities: which queued task starts next.

use pool_core::{
    Builder, Closures, FuncPool, JoinError, OnFull, Pool, Priority, QueueDepth, SubmitError,
};
use testkit::block_on;

use crate::support::{Journal, end, enter_line};

const ALL: [Priority; 3] = [Priority::Low, Priority::Normal, Priority::High];

/// A paused pool with one worker.
fn paused(build: impl FnOnce(Builder<Closures>) -> Builder<Closures>) -> Pool {
    let builder = Pool::builder()
        .capacity(1)
        .queue_depth(QueueDepth::Unlimited);
    let builder = builder.priorities(true).start_paused(true);
    build(builder).build().unwrap()
}

/// Resumes the pool, waits until it is idle, and returns the journal.
fn run<T: Clone + Send + 'static>(pool: &Pool, journal: &Journal<T>) -> Vec<T> {
    pool.resume();
    pool.wait_idle().unwrap();
    end(pool);
    journal.entries()
}

#[testkit::test]
fn tasks_start_by_priority_and_then_in_order() {
    let (pool, journal) = (paused(|it| it), Journal::new());
    for n in 0..3 {
        for priority in ALL {
            let task = journal.writer((priority, n));
            pool.task().priority(priority).submit(task).unwrap();
        }
        // Tasks without a priority are normal, alone or in a batch.
        pool.submit(journal.writer((Priority::Normal, 10 + n)))
            .unwrap();
        let batch = [20, 30].map(|more| journal.writer((Priority::Normal, more + n)));
        assert_eq!(pool.submit_batch(batch).unwrap(), 2);
    }
    assert_eq!(pool.queued(), 18);
    let entries = run(&pool, &journal);
    let of = |priority| {
        let entries = entries.iter().filter(move |entry| entry.0 == priority);
        entries.map(|entry| entry.1).collect::<Vec<_>>()
    };
    assert_eq!(of(Priority::High), [0, 1, 2]);
    let normal = [0, 10, 20, 30, 1, 11, 21, 31, 2, 12, 22, 32];
    assert_eq!(of(Priority::Normal), normal);
    assert_eq!(of(Priority::Low), [0, 1, 2]);
    let first: Vec<_> = entries[..3].iter().map(|entry| entry.0).collect();
    assert_eq!(first, [Priority::High; 3]);
}

/// A busy pool takes the fast path, which appends tasks to the inbox without a decision. Priorities
/// must still apply.
#[testkit::test]
fn a_high_task_submitted_to_a_busy_pool_starts_next() {
    const BACKLOG: usize = 1000;
    let (pool, journal) = (paused(|it| it), Journal::new());
    for n in 0..BACKLOG {
        if n % 10 != 0 {
            pool.submit(journal.writer((Priority::Normal, n))).unwrap();
            continue;
        }
        // While each tenth task runs, a high one is submitted.
        let (busy, journal) = (pool.clone(), journal.clone());
        let task = move || {
            journal.write((Priority::Normal, n));
            let high = busy.task().priority(Priority::High);
            high.submit(journal.writer((Priority::High, n))).unwrap();
        };
        pool.submit(task).unwrap();
    }
    let entries = run(&pool, &journal);
    assert_eq!(entries.len(), BACKLOG + BACKLOG / 10);
    for (at, (priority, n)) in entries.iter().enumerate() {
        if *priority == Priority::High {
            assert_eq!(entries[at - 1], (Priority::Normal, *n), "at {at}");
        }
    }
}

#[testkit::test]
fn a_low_task_starts_after_at_most_eight_higher_ones() {
    let (pool, journal) = (paused(|it| it), Journal::new());
    for n in 0..3 {
        let low = journal.writer((Priority::Low, n));
        pool.task().priority(Priority::Low).submit(low).unwrap();
    }
    for n in 0..100 {
        let high = journal.writer((Priority::High, n));
        pool.task().priority(Priority::High).submit(high).unwrap();
    }
    let entries = run(&pool, &journal);
    let low: Vec<_> = entries
        .iter()
        .enumerate()
        .filter(|(_, entry)| entry.0 == Priority::Low)
        .map(|(at, _)| at)
        .collect();
    assert_eq!(low, [8, 17, 26]);
}

#[testkit::test]
fn a_pool_without_priorities_returns_tasks_that_have_one() {
    let (pool, journal) = (paused(|it| it.priorities(false)), Journal::new());
    let nothing = || ();
    let task = |priority| pool.task().priority(priority);
    for priority in [Priority::Low, Priority::High] {
        let spawned = [
            task(priority).spawn(nothing),
            task(priority).try_spawn(nothing),
            block_on(task(priority).spawn_async(nothing)),
        ];
        let refused = spawned.map(|spawned| spawned.map(drop).unwrap_err().without_task());
        let submitted = [
            task(priority).submit(nothing),
            task(priority).try_submit(nothing),
            block_on(task(priority).submit_async(nothing)),
        ];
        let others = submitted.map(|submitted| submitted.unwrap_err().without_task());
        for refused in refused.into_iter().chain(others) {
            assert!(
                matches!(refused, SubmitError::NoPriorities(())),
                "{refused:?}"
            );
        }
    }
    assert_eq!(pool.stats().refused, 12);
    task(Priority::Normal).submit(journal.writer(0)).unwrap();
    assert_eq!(run(&pool, &journal), [0]);
}

#[testkit::test]
fn waiters_are_admitted_in_order_and_started_by_priority() {
    let pool = paused(|it| it.queue_depth(1));
    let journal = Journal::new();
    (0..2).for_each(|n| pool.submit(journal.writer(n)).unwrap());
    let waits = [(Priority::Low, 2), (Priority::High, 3)].map(|(priority, n)| {
        let task = journal.writer(n);
        enter_line(&pool, move |pool| {
            pool.task().priority(priority).submit(task)
        })
    });
    pool.resume();
    for waits in waits {
        waits.join().unwrap().unwrap();
    }
    pool.wait_idle().unwrap();
    // The low task is admitted when the first task ends, the high one when the second does.
    assert_eq!(journal.entries(), [0, 1, 3, 2]);
    end(&pool);
}

#[testkit::test]
fn a_full_pool_discards_the_oldest_of_the_lowest_priority() {
    let pool = paused(|it| {
        let it = it.queue_depth(2).on_full(OnFull::DiscardOldest);
        it.discard_hook(|_| ())
    });
    let journal = Journal::new();
    let spawn = |priority, n| {
        pool.task()
            .priority(priority)
            .spawn(journal.writer(n))
            .unwrap()
    };
    let high = spawn(Priority::High, 0);
    let low = [spawn(Priority::Low, 1), spawn(Priority::Low, 2)];
    pool.submit(journal.writer(3)).unwrap();
    let [first, second] = low;
    assert!(matches!(first.join(), Err(JoinError::Discarded)));
    assert_eq!(run(&pool, &journal), [0, 3, 2]);
    assert!(high.join().is_ok() && second.join().is_ok());
}

#[testkit::test]
fn cancel_and_release_now_remove_tasks_of_every_priority() {
    let (pool, journal) = (paused(|it| it), Journal::new());
    let handles: Vec<_> = (0..3_000)
        .map(|n| {
            let builder = pool.task().priority(ALL[n % 3]);
            builder.spawn(journal.writer(n)).unwrap()
        })
        .collect();
    let kept = handles.into_iter().enumerate().filter(|(n, handle)| {
        let keeps = n % 100 == 0;
        assert!(keeps || handle.cancel());
        keeps
    });
    let kept: Vec<_> = kept.collect();
    assert_eq!((pool.queued(), kept.len()), (30, 30));
    assert_eq!(pool.release_now(), 30);
    for (_, handle) in kept {
        assert!(matches!(handle.join(), Err(JoinError::Released)));
    }
    pool.wait_released().unwrap();
    assert_eq!((pool.in_flight(), journal.len()), (0, 0));
}

#[testkit::test]
fn arguments_have_priorities_too() {
    let journal = Journal::new();
    let entries = journal.clone();
    let pool = FuncPool::builder(move |n: u32| entries.write(n)).capacity(1);
    let pool = pool.queue_depth(9).priorities(true).start_paused(true);
    let pool = pool.build().unwrap();
    for (priority, n) in [
        (Priority::Low, 1),
        (Priority::Normal, 2),
        (Priority::High, 3),
    ] {
        pool.task().priority(priority).submit(n).unwrap();
    }
    pool.resume();
    pool.wait_idle().unwrap();
    assert_eq!(journal.entries(), [3, 2, 1]);
    end(&pool);
}
