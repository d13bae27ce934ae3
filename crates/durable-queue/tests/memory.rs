//! Memory and threads of many suspended handlers. A separate binary, because it counts all of the process.
#![cfg(not(anthill_loom))]
#![expect(
    clippy::unwrap_used,
    reason = "a helper that fails is a test that fails"
)]

use std::convert::Infallible;
use std::fs;
use std::future::{Future, poll_fn};
use std::pin::pin;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};
use std::thread;

use durable_queue::{DurableQueue, When, Worker};
use durable_queue_testing::{ManualStoreClock, SimStore};
use sync_shim::ManualClock;
use testkit::{BYTES, CountingAllocator};

#[global_allocator]
static ALLOCATOR: CountingAllocator = CountingAllocator;

const HANDLERS: usize = 10_000;
/// Bytes per suspended handler, for the handler, its job, and the renewal of its lease.
const MOST_BYTES: usize = 1_000;

fn threads() -> usize {
    fs::read_dir("/proc/self/task").unwrap().count()
}

/// A single test, because the counters include all threads.
#[testkit::test]
fn ten_thousand_handlers_need_one_thread_and_bounded_memory() {
    let clock = ManualClock::new();
    let store = SimStore::new(ManualStoreClock::new(&clock));
    let queue = DurableQueue::<String, _>::builder("queue", store);
    let queue = queue.clock(clock.clone()).build().unwrap();
    let begun = Arc::new(AtomicUsize::new(0));
    let is_open = Arc::new(AtomicBool::new(false));
    let asleep = Arc::new(Mutex::new(Vec::<Waker>::with_capacity(HANDLERS)));
    let builder = Worker::builder(queue.clone()).concurrency(HANDLERS);
    let mut run = pin!(builder.run_async(|job| {
        let (begun, is_open, asleep) = (begun.clone(), is_open.clone(), asleep.clone());
        async move {
            begun.fetch_add(1, SeqCst);
            poll_fn(|context| {
                if is_open.load(SeqCst) {
                    return Poll::Ready(());
                }
                asleep.lock().unwrap().push(context.waker().clone());
                Poll::Pending
            })
            .await;
            assert!(job.parse::<usize>().is_ok());
            Ok::<_, Infallible>(())
        }
    }));
    let mut context = Context::from_waker(Waker::noop());
    let (before, mut peak) = (threads(), Vec::new());
    for _ in 0..3 {
        let jobs = (0..HANDLERS).map(|index| (index.to_string(), When::NOW));
        queue.push_batch(jobs.collect()).unwrap();
        let stored = BYTES.load(SeqCst);
        begun.store(0, SeqCst);
        is_open.store(false, SeqCst);
        while begun.load(SeqCst) < HANDLERS {
            assert!(run.as_mut().poll(&mut context).is_pending());
            thread::yield_now();
        }
        clock.wait_for_sleepers(1); // The pump, which has freed the contents of its last turn.
        let bytes = BYTES.load(SeqCst).saturating_sub(stored) / HANDLERS;
        println!("{bytes} bytes per suspended handler");
        assert!(bytes <= MOST_BYTES, "{bytes} bytes per suspended handler");
        assert_eq!(threads(), before + 1, "the pump, and nothing else");
        is_open.store(true, SeqCst);
        let woken = std::mem::take(&mut *asleep.lock().unwrap());
        woken.into_iter().for_each(Waker::wake);
        while queue.store_stats().unwrap().jobs > 0 {
            assert!(run.as_mut().poll(&mut context).is_pending());
            thread::yield_now();
        }
        clock.wait_for_sleepers(1); // The pump, which has freed the contents of its last turn.
        peak.push(BYTES.load(SeqCst));
    }
    println!("bytes after each round: {peak:?}");
    // Places are reused. Buffers may grow a little, because the sizes of turns differ.
    assert!(peak[2] <= peak[1] + HANDLERS * 100, "{peak:?}");
}
