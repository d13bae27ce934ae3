//! User code that waits in one crate of the workspace, called by another crate that waits itself.
#![expect(clippy::unwrap_used, reason = "a failing helper fails its test")]

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::thread;
use std::time::Duration;

use anthill::Pool;
use anthill::dedup_queue::{DedupDelayQueue, ManualClock, Metrics};

/// Metrics that submit to a busy pool, once.
struct Submits {
    pool: Pool,
    armed: AtomicBool,
    began: testkit::Gate,
}

impl Metrics for Submits {
    fn adds_total(&self, _: &str, _: u64) {
        if self.armed.swap(false, SeqCst) {
            self.began.open();
            self.pool.submit(|| {}).unwrap();
            self.pool.spawn(|| 7).unwrap().join().unwrap();
        }
    }
}

/// A worker of a queue notices that a held key is due, and calls the metrics, which wait for a busy
/// pool. The pool's wake-up must not consume the queue's.
#[testkit::test]
fn a_getter_whose_metrics_submit_to_a_busy_pool_gets_its_key() {
    let (clock, gate) = (ManualClock::new(), testkit::Gate::new());
    let pool = Pool::builder().capacity(1).build().unwrap();
    pool.submit({
        let gate = gate.clone();
        move || gate.wait()
    })
    .unwrap();
    gate.wait_for_arrivals(1);
    let metrics = Arc::new(Submits {
        pool: pool.clone(),
        armed: AtomicBool::new(false),
        began: testkit::Gate::new(),
    });
    let queue = DedupDelayQueue::<u32>::builder()
        .clock(clock.clone())
        .metrics(Arc::clone(&metrics))
        .build();
    queue.add(9).unwrap();
    let held = queue.get().unwrap();
    queue.add_after(9, Duration::from_millis(1)).unwrap();
    clock.advance(Duration::from_millis(1));
    metrics.armed.store(true, SeqCst);
    thread::scope(|scope| {
        let getter = scope.spawn(|| *queue.get().unwrap());
        while !metrics.began.is_open() || pool.stats().waiting == 0 {
            thread::yield_now();
        }
        queue.add(1).unwrap();
        gate.open();
        assert_eq!(getter.join().unwrap(), 1);
    });
    assert_eq!(queue.stats().waiting, 0);
    drop(held);
}
