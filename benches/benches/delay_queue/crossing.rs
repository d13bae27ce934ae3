//! Several threads that push and several that take, with delays below a millisecond. Measures from
//! the first push to the last take.

use std::cmp::Reverse;
use std::collections::BinaryHeap;
use std::future::poll_fn;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Condvar, Mutex, PoisonError};
use std::thread;
use std::time::{Duration, Instant};

use delay_queue_02::Delay;
use scheduled_thread_pool::ScheduledThreadPool;
use testkit::Rng;
use tokio::sync::mpsc;

use crate::rounds::Rounds;

/// In nanoseconds.
const LONGEST_DELAY: u64 = 1_000_000;

/// A queue that threads share. `take` returns `None` once `end` was called and nothing is left.
pub trait Shared: Send + Sync + 'static {
    fn push(&self, value: u64, delay: Duration);
    fn take(&self) -> Option<u64>;
    /// Called once all `values` have been pushed.
    fn end(&self, values: usize);
}

pub fn all(rounds: &mut Rounds) {
    let values = match (rounds.is_test, rounds.is_quick) {
        (true, _) => 100,
        (_, true) => 40_000,
        _ => 400_000,
    };
    let threads: &[_] = match rounds.is_quick {
        true => &[(1, 1), (4, 4)],
        false => &[(1, 1), (1, 4), (4, 1), (4, 4)],
    };
    for &(producers, takers) in threads {
        let case = format!("{producers}_producers_{takers}_takers");
        let cases = [(case.clone(), "ns"), (case + "/cpu", "ns")];
        rounds.run(
            &cases,
            vec![
                (
                    "ours",
                    Box::new(move || cross(ours(), producers, takers, values)),
                ),
                (
                    "BinaryHeap",
                    Box::new(move || cross(Heap::new(), producers, takers, values)),
                ),
                (
                    "delay-queue-0.2",
                    Box::new(move || cross(Published::new(), producers, takers, values)),
                ),
                (
                    "tokio-util-actor",
                    Box::new(move || cross(Actor::new(), producers, takers, values)),
                ),
                (
                    "scheduled-thread-pool",
                    Box::new(move || cross(Jobs::new(takers), producers, takers, values)),
                ),
            ],
        );
    }
}

/// Wall time and processor time per value.
#[expect(clippy::cast_precision_loss, reason = "figures for people")]
fn cross(queue: impl Shared, producers: usize, takers: usize, values: usize) -> Vec<f64> {
    let (queue, producers_count) = (&queue, producers);
    let (start, cpu) = (Instant::now(), processor_time());
    thread::scope(|scope| {
        let takers: Vec<_> = (0..takers)
            .map(|_| scope.spawn(|| std::iter::from_fn(|| queue.take()).count()))
            .collect();
        let share = values / producers;
        let producers: Vec<_> = (0..producers as u64)
            .map(|producer| {
                scope.spawn(move || {
                    let mut rng = Rng::new(producer);
                    for value in 0..share as u64 {
                        queue.push(value, Duration::from_nanos(rng.next_u64() % LONGEST_DELAY));
                    }
                })
            })
            .collect();
        for producer in producers {
            producer.join().expect("a producer ends well");
        }
        let pushed = share * producers_count;
        queue.end(pushed);
        let taken = takers
            .into_iter()
            .map(|taker| taker.join().expect("so does a taker"));
        assert_eq!(taken.sum::<usize>(), pushed);
    });
    let (wall, cpu) = (start.elapsed(), processor_time() - cpu);
    [wall, cpu]
        .map(|time| time.as_nanos() as f64 / values as f64)
        .to_vec()
}

/// Returns the processor time of this process so far.
pub fn processor_time() -> Duration {
    let mut usage = std::mem::MaybeUninit::<libc::rusage>::zeroed();
    // SAFETY: all-zero is a valid `rusage`, and the call writes only within it.
    let usage = unsafe {
        libc::getrusage(libc::RUSAGE_SELF, usage.as_mut_ptr());
        usage.assume_init()
    };
    let time = |time: libc::timeval| {
        Duration::from_secs(time.tv_sec.unsigned_abs())
            + Duration::from_micros(time.tv_usec.unsigned_abs())
    };
    time(usage.ru_utime) + time(usage.ru_stime)
}

fn ours() -> delay_queue::DelayQueue<u64> {
    delay_queue::DelayQueue::new()
}

impl Shared for delay_queue::DelayQueue<u64> {
    fn push(&self, value: u64, delay: Duration) {
        self.push(value, delay).expect("open");
    }

    fn take(&self) -> Option<u64> {
        self.take().ok().map(|expired| expired.value)
    }

    fn end(&self, _: usize) {
        self.close();
    }
}

type Earliest = BinaryHeap<Reverse<(Instant, u64)>>;

/// A heap under a mutex with one condition variable, about thirty lines.
pub struct Heap {
    state: Mutex<(Earliest, bool)>,
    changed: Condvar,
}

impl Heap {
    pub fn new() -> Self {
        Self {
            state: Mutex::new((BinaryHeap::new(), true)),
            changed: Condvar::new(),
        }
    }

    pub fn push_at(&self, value: u64, due: Instant) {
        let mut state = lock(&self.state);
        let is_earliest = state
            .0
            .peek()
            .is_none_or(|Reverse((first, _))| due < *first);
        state.0.push(Reverse((due, value)));
        drop(state);
        if is_earliest {
            self.changed.notify_one();
        }
    }
}

impl Shared for Heap {
    fn push(&self, value: u64, delay: Duration) {
        self.push_at(value, Instant::now() + delay);
    }

    fn take(&self) -> Option<u64> {
        let mut state = lock(&self.state);
        loop {
            let Some(&Reverse((due, value))) = state.0.peek() else {
                if !state.1 {
                    return None;
                }
                state = self
                    .changed
                    .wait(state)
                    .unwrap_or_else(PoisonError::into_inner);
                continue;
            };
            let now = Instant::now();
            if due <= now {
                state.0.pop();
                return Some(value);
            }
            let waited = self.changed.wait_timeout(state, due - now);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    fn end(&self, _: usize) {
        lock(&self.state).1 = false;
        self.changed.notify_all();
    }
}

/// Tells the consumers of a queue that cannot be closed when they have taken all values.
struct Countdown {
    taken: AtomicUsize,
    pushed: AtomicUsize,
}

impl Countdown {
    fn new() -> Self {
        Self {
            taken: AtomicUsize::new(0),
            pushed: AtomicUsize::new(usize::MAX),
        }
    }

    fn take(&self) {
        self.taken.fetch_add(1, Relaxed);
    }

    fn end(&self, pushed: usize) {
        self.pushed.store(pushed, Relaxed);
    }

    fn is_over(&self) -> bool {
        self.taken.load(Relaxed) >= self.pushed.load(Relaxed)
    }
}

/// The published crate. Its methods take `&mut self`, so each call clones the handle.
struct Published(delay_queue_02::DelayQueue<Delay<u64>>, Countdown);

impl Published {
    fn new() -> Self {
        Self(delay_queue_02::DelayQueue::new(), Countdown::new())
    }
}

impl Shared for Published {
    fn push(&self, value: u64, delay: Duration) {
        self.0.clone().push(Delay::for_duration(value, delay));
    }

    fn take(&self) -> Option<u64> {
        let mut queue = self.0.clone();
        while !self.1.is_over() {
            // It cannot be closed, so a consumer of an empty queue polls from time to time.
            if let Some(delay) = queue.try_pop_for(Duration::from_millis(5)) {
                self.1.take();
                return Some(delay.value);
            }
        }
        None
    }

    fn end(&self, values: usize) {
        self.1.end(values);
    }
}

/// tokio-util's wheel in a task of its own. Values are sent to it and received from it through
/// channels.
struct Actor {
    inlet: Mutex<Option<mpsc::UnboundedSender<(u64, Duration)>>>,
    outlet: crossbeam_channel::Receiver<u64>,
}

thread_local! {
    /// Each producer has its own sender, as it would in a program.
    static INLET: std::cell::RefCell<Option<mpsc::UnboundedSender<(u64, Duration)>>> =
        const { std::cell::RefCell::new(None) };
}

impl Actor {
    fn new() -> Self {
        let (inlet, mut values) = mpsc::unbounded_channel::<(u64, Duration)>();
        let (sender, outlet) = crossbeam_channel::unbounded();
        thread::spawn(move || {
            let runtime = tokio::runtime::Builder::new_current_thread()
                .enable_time()
                .build();
            runtime.expect("a runtime can be made").block_on(async {
                let mut wheel = tokio_util::time::DelayQueue::new();
                let mut is_open = true;
                while is_open || !wheel.is_empty() {
                    tokio::select! {
                        value = values.recv(), if is_open => match value {
                            Some((value, delay)) => _ = wheel.insert(value, delay),
                            None => is_open = false,
                        },
                        Some(expired) = poll_fn(|context| wheel.poll_expired(context)), if !wheel.is_empty() => {
                            sender.send(expired.into_inner()).expect("consumers live");
                        }
                    }
                }
            });
        });
        let inlet = Mutex::new(Some(inlet));
        Self { inlet, outlet }
    }
}

impl Shared for Actor {
    fn push(&self, value: u64, delay: Duration) {
        INLET.with_borrow_mut(|inlet| {
            let inlet = inlet.get_or_insert_with(|| lock(&self.inlet).clone().expect("not ended"));
            inlet.send((value, delay)).expect("the actor lives");
        });
    }

    fn take(&self) -> Option<u64> {
        self.outlet.recv().ok()
    }

    fn end(&self, _: usize) {
        *lock(&self.inlet) = None; // The producers' senders were dropped with their threads.
    }
}

/// A pool that runs delayed closures: its threads are the consumers.
struct Jobs {
    pool: ScheduledThreadPool,
    sender: crossbeam_channel::Sender<u64>,
    outlet: crossbeam_channel::Receiver<u64>,
    count: Countdown,
}

impl Jobs {
    fn new(threads: usize) -> Self {
        let (sender, outlet) = crossbeam_channel::unbounded();
        Self {
            pool: ScheduledThreadPool::new(threads),
            sender,
            outlet,
            count: Countdown::new(),
        }
    }
}

impl Shared for Jobs {
    fn push(&self, value: u64, delay: Duration) {
        let sender = self.sender.clone();
        self.pool
            .execute_after(delay, move || _ = sender.send(value));
    }

    fn take(&self) -> Option<u64> {
        while !self.count.is_over() {
            if let Ok(value) = self.outlet.recv_timeout(Duration::from_millis(5)) {
                self.count.take();
                return Some(value);
            }
        }
        None
    }

    fn end(&self, values: usize) {
        self.count.end(values);
    }
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
