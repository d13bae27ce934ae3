//! Several processes that share a store, simulated by separate stores and queues.

use std::sync::Barrier;
use std::sync::mpsc::channel;
use std::thread;

use durable_queue::{Cancelled, DurableQueue, Merge, Put, Store as _, When};
use durable_queue_sqlite::SqliteStore;
use durable_queue_sqlite::{SqliteOptions, WATCH_EVERY};
use rusqlite::{Connection, TransactionBehavior};

use crate::support::{Folder, Time, job, on_thread};

fn open(time: &Time, folder: &Folder) -> SqliteStore {
    options(time).open(folder.file("jobs")).unwrap()
}

fn options(time: &Time) -> SqliteOptions {
    SqliteStore::options().clock(time.store.clone())
}

#[testkit::test]
fn each_job_is_taken_by_one_of_two_processes() {
    const JOBS: usize = 200;
    let (time, folder) = (Time::new(), Folder::new());
    let producer = time.queue(open(&time, &folder));
    let jobs = (0..JOBS)
        .map(|index| (index.to_string(), When::NOW))
        .collect();
    producer.push_batch(jobs).unwrap();
    let (done, taken) = channel();
    let queues: Vec<_> = (0..2).map(|_| time.queue(open(&time, &folder))).collect();
    let takers: Vec<_> = queues
        .iter()
        .cloned()
        .map(|queue| {
            let done = done.clone();
            thread::spawn(move || {
                while let Ok(job) = queue.take() {
                    done.send(job.clone()).unwrap();
                    job.ack().unwrap();
                }
            })
        })
        .collect();
    let mut all: Vec<usize> = (0..JOBS)
        .map(|_| taken.recv().unwrap().parse().unwrap())
        .collect();
    all.sort_unstable();
    assert!(
        all.into_iter().eq(0..JOBS),
        "each once, and none is missing"
    );
    for queue in queues {
        queue.close();
    }
    for taker in takers {
        taker.join().unwrap();
    }
}

/// The clock that a poll would wait for does not move.
#[cfg(target_os = "linux")]
#[testkit::test]
fn a_push_of_another_process_is_announced_by_the_system() {
    let (time, folder) = (Time::new(), Folder::new());
    // Two queues share a connection, and so the listener.
    let store = open(&time, &folder);
    let queues = ["queue", "other"].map(|name| {
        let builder = DurableQueue::<String, _>::builder(name, store.clone());
        builder.clock(time.clock.clone()).build().unwrap()
    });
    let elsewhere = open(&time, &folder);
    for round in 0..3 {
        let takers = queues.clone().map(|queue| {
            thread::spawn(move || {
                let taken = queue.take().unwrap();
                let name = taken.clone();
                taken.ack().unwrap();
                name
            })
        });
        time.clock.wait_for_sleepers(2);
        for (taker, queue) in takers.into_iter().zip(&queues) {
            let producer: DurableQueue<String, _> =
                DurableQueue::new(queue.name(), elsewhere.clone());
            producer.push(job("from afar"), When::NOW).unwrap();
            assert_eq!(taker.join().unwrap(), "from afar", "{round}");
        }
    }
}

#[testkit::test]
fn a_push_of_another_process_is_found_by_the_next_poll() {
    let (time, folder) = (Time::new(), Folder::new());
    let store = options(&time).watch_every(Some(WATCH_EVERY));
    let queue = time.queue(store.open(folder.file("jobs")).unwrap());
    let producer = time.queue(open(&time, &folder));
    let taker = on_thread(&queue, |queue| queue.take().unwrap().clone());
    time.clock.wait_for_sleepers(1);
    producer.push(job("from afar"), When::NOW).unwrap();
    time.clock.advance(WATCH_EVERY);
    assert_eq!(taker.join().unwrap(), "from afar");
}

#[testkit::test]
fn a_job_of_the_callers_transaction_is_handed_out_after_its_commit() {
    let (time, folder) = (Time::new(), Folder::new());
    let queue = time.queue(open(&time, &folder));
    let taker = on_thread(&queue, |queue| queue.take().unwrap().clone());
    time.clock.wait_for_sleepers(1);
    let mut own = Connection::open(folder.file("jobs")).unwrap();
    let mut transaction = own
        .transaction_with_behavior(TransactionBehavior::Immediate)
        .unwrap();
    queue
        .push_in(&mut transaction, job("own"), When::NOW)
        .unwrap();
    transaction.commit().unwrap();
    queue.announce();
    assert_eq!(taker.join().unwrap(), "own");
}

#[test]
fn a_pending_key_is_merged_in_the_callers_transaction_too() {
    let (time, folder) = (Time::new(), Folder::new());
    let queue = time.queue(open(&time, &folder));
    let first = queue
        .push_keyed("key", job("first"), When::NOW, Merge::Keep)
        .unwrap();
    let mut own = Connection::open(folder.file("jobs")).unwrap();
    for commit in [false, true] {
        let mut transaction = own
            .transaction_with_behavior(TransactionBehavior::Immediate)
            .unwrap();
        let put = queue
            .push_keyed_in(
                &mut transaction,
                "key",
                job("second"),
                When::NOW,
                Merge::Latest,
            )
            .unwrap();
        assert_eq!(put, Put::Merged(first.id()));
        if commit {
            transaction.commit().unwrap();
        }
    }
    let Cancelled::Gone { payload, .. } = queue.cancel("key").unwrap() else {
        panic!("no handler has it");
    };
    assert_eq!(payload, "second");
}

/// `SQLite` does not wait for the lock that enabling write-ahead mode takes.
#[testkit::test]
fn a_new_file_can_be_opened_concurrently() {
    const PARTIES: usize = 8;
    for _ in 0..20 {
        let folder = Folder::new();
        let all_there = Barrier::new(PARTIES);
        thread::scope(|threads| {
            for _ in 0..PARTIES {
                threads.spawn(|| {
                    all_there.wait();
                    let store = SqliteStore::options().busy_timeout(testkit::LIMIT);
                    let store = store.open(folder.file("jobs")).unwrap();
                    store.enqueue("queue", &[]).unwrap();
                });
            }
        });
    }
}
