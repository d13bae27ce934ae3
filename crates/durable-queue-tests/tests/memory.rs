//! Memory used by a batch on its way from a store to the program. A separate binary, because it has its own
//! allocator. Servers without an address are skipped, with a message.
#![cfg(not(anthill_loom))]
#![expect(
    clippy::unwrap_used,
    reason = "a helper that fails is a test that fails"
)]

use std::num::NonZeroUsize;
use std::sync::atomic::Ordering::SeqCst;

use durable_queue::{DurableQueue, Store, When};
use durable_queue_postgres::PostgresStore;
use durable_queue_redis::RedisStore;
use durable_queue_sqlite::SqliteStore;
use durable_queue_tests::databases::{Postgres, Redis};
use durable_queue_tests::support::Folder;
use testkit::{BYTES, CountingAllocator, PEAK};

#[global_allocator]
static ALLOCATOR: CountingAllocator = CountingAllocator;

const JOBS: usize = 20;
const PAYLOAD: usize = 1 << 20;

/// The peak of memory while a batch is taken is at most twice the batch's size.
fn a_batch_uses_at_most_twice_its_size<S: Store>(name: &str, store: S) {
    let queue: DurableQueue<Vec<u8>, S> = DurableQueue::new("queue", store);
    for _ in 0..JOBS {
        queue.push(vec![7; PAYLOAD], When::NOW).unwrap();
    }
    let before = BYTES.load(SeqCst);
    PEAK.store(before, SeqCst);
    let jobs = queue.take_many(NonZeroUsize::new(JOBS).unwrap()).unwrap();
    assert_eq!(jobs.len(), JOBS);
    let peak = PEAK.load(SeqCst) - before;
    for job in jobs {
        assert_eq!(job.len(), PAYLOAD);
        job.ack().unwrap();
    }
    let peak = peak * 100 / (JOBS * PAYLOAD);
    println!("{name}: {peak} hundredths of the batch");
    assert!(peak <= 200, "{name}: {peak}");
}

/// A single test, because the counters include all threads.
#[test]
fn memory() {
    let folder = Folder::new();
    let store = SqliteStore::open(folder.file("jobs")).unwrap();
    a_batch_uses_at_most_twice_its_size("SQLite", store);
    if let Some(database) = Postgres::new("memory") {
        let store = PostgresStore::open(&database.address).unwrap();
        a_batch_uses_at_most_twice_its_size("PostgreSQL", store);
    }
    if let Some(database) = Redis::new(12) {
        let store = RedisStore::open(&database.address).unwrap();
        a_batch_uses_at_most_twice_its_size("Redis", store);
    }
}
