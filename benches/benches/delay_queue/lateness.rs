//! Lateness of entries taken by one thread or task: the median, the 99th percentile, and the
//! maximum, in microseconds.
//!
//! The bare peers have no queue: a thread that waits on a condition variable with a timeout, and
//! tokio's sleep.

use std::pin::Pin;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use delay_queue::DelayQueue;
use delay_queue_02::Delay;
use scheduled_thread_pool::ScheduledThreadPool;
use testkit::Rng;

use crate::crossing::{Heap, Shared, processor_time};
use crate::rounds::Rounds;

/// The delay of the first entry. All are pushed by then.
const LEAD: Duration = Duration::from_millis(200);

pub fn all(rounds: &mut Rounds) {
    let sizes: &[(usize, u64)] = match (rounds.is_test, rounds.is_quick) {
        (true, _) => &[(100, 10)],
        (_, true) => &[(2_000, 200)],
        _ => &[(20_000, 2_000), (100_000, 2_000)],
    };
    for &(timers, millis) in sizes {
        let span = Duration::from_millis(millis);
        let run = |kind: &str, peers| {
            let name = |figure| (format!("lateness_{kind}_{timers}/{figure}"), "us");
            rounds.run(
                &[
                    name("p50"),
                    name("p99"),
                    name("max"),
                    (format!("lateness_{kind}_{timers}/cpu"), "ms"),
                ],
                peers,
            );
        };
        run(
            "threads",
            vec![
                (
                    "ours",
                    Box::new(move || ours_thread(timers, span, Duration::ZERO)),
                ),
                (
                    "ours-spinning",
                    Box::new(move || ours_thread(timers, span, Duration::from_micros(150))),
                ),
                ("condvar", Box::new(move || condvar(timers, span))),
                ("BinaryHeap", Box::new(move || binary_heap(timers, span))),
                ("delay-queue-0.2", Box::new(move || published(timers, span))),
                (
                    "scheduled-thread-pool",
                    Box::new(move || jobs(timers, span)),
                ),
            ],
        );
        run(
            "futures",
            vec![
                ("ours", Box::new(move || ours_future(timers, span))),
                ("tokio-sleep", Box::new(move || tokio_sleep(timers, span))),
                ("tokio-util", Box::new(move || wheel(timers, span))),
                (
                    "futures-delay-queue",
                    Box::new(move || futures_queue(timers, span)),
                ),
            ],
        );
    }
}

/// Returns points in time in random order.
fn dues(timers: usize, span: Duration) -> Vec<Instant> {
    let start = Instant::now() + LEAD;
    let mut rng = Rng::new(11);
    let nanos = u64::try_from(span.as_nanos()).expect("seconds");
    let due = |_| start + Duration::from_nanos(rng.next_u64() % nanos);
    (0..timers).map(due).collect()
}

/// The lateness of each entry, and the resources used.
struct Log {
    micros: Vec<f64>,
    cpu: Duration,
}

impl Log {
    fn new(timers: usize) -> Self {
        Self {
            micros: Vec::with_capacity(timers),
            cpu: processor_time(),
        }
    }

    fn note(&mut self, due: Instant) {
        let late = Instant::now().checked_duration_since(due);
        let late = late.expect("nothing is early");
        self.micros.push(late.as_secs_f64() * 1e6);
    }

    fn figures(mut self) -> Vec<f64> {
        self.micros.sort_by(f64::total_cmp);
        let at = |percent: usize| self.micros[(self.micros.len() - 1) * percent / 100];
        let cpu = processor_time() - self.cpu;
        vec![at(50), at(99), at(100), cpu.as_secs_f64() * 1e3]
    }
}

fn ours_thread(timers: usize, span: Duration, spin: Duration) -> Vec<f64> {
    let queue = DelayQueue::<Instant>::builder().spin_window(spin).build();
    let queue = queue.expect("valid settings");
    let mut log = Log::new(timers);
    for due in dues(timers, span) {
        queue.push_at(due, due).expect("open");
    }
    for _ in 0..timers {
        log.note(queue.take().expect("open").value);
    }
    log.figures()
}

/// Without a queue: waits for each due time in order.
fn condvar(timers: usize, span: Duration) -> Vec<f64> {
    let (mutex, condvar) = (Mutex::new(()), Condvar::new());
    let mut log = Log::new(timers);
    let mut dues = dues(timers, span);
    dues.sort();
    for due in dues {
        let mut guard = mutex.lock().unwrap_or_else(PoisonError::into_inner);
        loop {
            let left = due.saturating_duration_since(Instant::now());
            if left.is_zero() {
                break;
            }
            let waited = condvar.wait_timeout(guard, left);
            guard = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        log.note(due);
    }
    log.figures()
}

fn binary_heap(timers: usize, span: Duration) -> Vec<f64> {
    let queue = Heap::new();
    let mut log = Log::new(timers);
    let dues = dues(timers, span);
    for (number, due) in (0..).zip(&dues) {
        queue.push_at(number, *due);
    }
    for _ in 0..timers {
        let number = queue.take().expect("not ended");
        log.note(dues[usize::try_from(number).expect("an index")]);
    }
    log.figures()
}

fn published(timers: usize, span: Duration) -> Vec<f64> {
    let mut queue = delay_queue_02::DelayQueue::new();
    let mut log = Log::new(timers);
    for due in dues(timers, span) {
        queue.push(Delay::until_instant(due, due));
    }
    for _ in 0..timers {
        log.note(queue.pop().value);
    }
    log.figures()
}

fn jobs(timers: usize, span: Duration) -> Vec<f64> {
    let pool = ScheduledThreadPool::new(1);
    let log = Arc::new(Mutex::new(Log::new(timers)));
    let (done, all_done) = crossbeam_channel::bounded(1);
    for due in dues(timers, span) {
        let (log, done) = (Arc::clone(&log), done.clone());
        pool.execute_after(due - Instant::now(), move || {
            let mut log = log.lock().unwrap_or_else(PoisonError::into_inner);
            log.note(due);
            if log.micros.len() == timers {
                done.send(()).expect("the receiver waits");
            }
        });
    }
    all_done.recv().expect("the last one sends");
    drop(pool);
    let mut log = log.lock().unwrap_or_else(PoisonError::into_inner);
    std::mem::replace(&mut *log, Log::new(0)).figures()
}

fn ours_future(timers: usize, span: Duration) -> Vec<f64> {
    let queue = DelayQueue::new();
    let mut log = Log::new(timers);
    for due in dues(timers, span) {
        queue.push_at(due, due).expect("open");
    }
    block_on(async {
        for _ in 0..timers {
            log.note(queue.take_async().await.expect("open").value);
        }
    });
    log.figures()
}

fn tokio_sleep(timers: usize, span: Duration) -> Vec<f64> {
    let mut log = Log::new(timers);
    let mut dues = dues(timers, span);
    dues.sort();
    tokio_runtime().block_on(async {
        for due in dues {
            tokio::time::sleep_until(due.into()).await;
            log.note(due);
        }
    });
    log.figures()
}

fn wheel(timers: usize, span: Duration) -> Vec<f64> {
    let mut log = Log::new(timers);
    let dues = dues(timers, span);
    tokio_runtime().block_on(async {
        let mut wheel = tokio_util::time::DelayQueue::new();
        for due in dues {
            wheel.insert_at(due, due.into());
        }
        while let Some(expired) = std::future::poll_fn(|context| wheel.poll_expired(context)).await
        {
            log.note(expired.into_inner());
        }
    });
    log.figures()
}

/// On the executor of the caller's choice.
fn futures_queue(timers: usize, span: Duration) -> Vec<f64> {
    let mut log = Log::new(timers);
    let (queue, outlet) = futures_delay_queue::delay_queue();
    for due in dues(timers, span) {
        queue.insert_at(due, due);
    }
    block_on(async {
        for _ in 0..timers {
            log.note(outlet.receive().await.expect("the queue lives"));
        }
    });
    log.figures()
}

fn tokio_runtime() -> tokio::runtime::Runtime {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .build();
    runtime.expect("a runtime without threads can be made")
}

/// Runs a future on this thread, which parks meanwhile.
fn block_on<F: Future>(future: F) -> F::Output {
    struct Unpark(thread::Thread);
    impl std::task::Wake for Unpark {
        fn wake(self: Arc<Self>) {
            self.0.unpark();
        }
    }
    let waker = Arc::new(Unpark(thread::current())).into();
    let mut context = std::task::Context::from_waker(&waker);
    let mut future = std::pin::pin!(future);
    loop {
        if let std::task::Poll::Ready(output) = Pin::as_mut(&mut future).poll(&mut context) {
            return output;
        }
        thread::park();
    }
}
