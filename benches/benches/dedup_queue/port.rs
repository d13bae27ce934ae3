//! A direct port of client-go's queue without its metrics.
//!
//! It has a list of ready items, a set of dirty ones and a set of those being processed, one mutex,
//! and one condition variable. Delayed items go through a channel of a thousand places to a thread
//! with a heap and a map, which adds them when they are due. The limiter has its own map under its
//! own lock.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap, HashSet, VecDeque};
use std::hash::Hash;
use std::sync::Arc;
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, sync_channel};
use std::thread::{self, JoinHandle};
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};

pub struct Queue<T> {
    state: Mutex<State<T>>,
    ready: Condvar,
}

struct State<T> {
    queue: VecDeque<T>,
    dirty: HashSet<T>,
    processing: HashSet<T>,
    is_shut_down: bool,
}

impl<T: Clone + Eq + Hash> Queue<T> {
    pub fn new() -> Self {
        Self {
            state: Mutex::new(State {
                queue: VecDeque::new(),
                dirty: HashSet::new(),
                processing: HashSet::new(),
                is_shut_down: false,
            }),
            ready: Condvar::new(),
        }
    }

    pub fn add(&self, item: T) {
        let mut state = self.state.lock();
        if state.is_shut_down || state.dirty.contains(&item) {
            return;
        }
        state.dirty.insert(item.clone());
        if state.processing.contains(&item) {
            return;
        }
        state.queue.push_back(item);
        self.ready.notify_one();
    }

    pub fn get(&self) -> Option<T> {
        let mut state = self.state.lock();
        while state.queue.is_empty() && !state.is_shut_down {
            self.ready.wait(&mut state);
        }
        let item = state.queue.pop_front()?;
        state.processing.insert(item.clone());
        state.dirty.remove(&item);
        Some(item)
    }

    pub fn done(&self, item: &T) {
        let mut state = self.state.lock();
        state.processing.remove(item);
        if state.dirty.contains(item) {
            state.queue.push_back(item.clone());
            self.ready.notify_one();
        } else if state.processing.is_empty() {
            self.ready.notify_one(); // Wakes a drain.
        }
    }

    pub fn shut_down(&self) {
        self.state.lock().is_shut_down = true;
        self.ready.notify_all();
    }
}

/// The queue with its delaying and rate-limiting layers.
pub struct Limited<T> {
    pub queue: Arc<Queue<T>>,
    failures: Mutex<HashMap<T, u32>>,
    base: Duration,
    max: Duration,
    channel: Option<SyncSender<(T, Instant)>>,
    mover: Option<JoinHandle<()>>,
}

impl<T: Clone + Ord + Hash + Send + 'static> Limited<T> {
    pub fn new(base: Duration, max: Duration) -> Self {
        let queue = Arc::new(Queue::new());
        let (channel, arrivals) = sync_channel(1000);
        let mover = {
            let queue = Arc::clone(&queue);
            thread::spawn(move || Mover::new(&queue).run(&arrivals))
        };
        Self {
            queue,
            failures: Mutex::default(),
            base,
            max,
            channel: Some(channel),
            mover: Some(mover),
        }
    }

    pub fn add_rate_limited(&self, item: T) {
        let failures = {
            let mut counts = self.failures.lock();
            let count = counts.entry(item.clone()).or_default();
            *count += 1;
            *count
        };
        let grown = 1u32
            .checked_shl(failures - 1)
            .and_then(|factor| self.base.checked_mul(factor));
        self.add_after(item, grown.map_or(self.max, |grown| grown.min(self.max)));
    }

    pub fn add_after(&self, item: T, delay: Duration) {
        if delay.is_zero() {
            return self.queue.add(item);
        }
        let channel = self.channel.as_ref().expect("it is open");
        channel
            .send((item, Instant::now() + delay))
            .expect("the mover runs");
    }
}

impl<T> Drop for Limited<T> {
    fn drop(&mut self) {
        self.channel = None;
        if let Some(mover) = self.mover.take() {
            mover.join().expect("the mover does not panic");
        }
    }
}

/// The thread that waits for delayed items.
struct Mover<'a, T> {
    queue: &'a Queue<T>,
    heap: BinaryHeap<Reverse<(Instant, T)>>,
    /// The due time of each waiting item. A heap entry with another time is outdated.
    known: HashMap<T, Instant>,
}

impl<'a, T: Clone + Ord + Hash> Mover<'a, T> {
    fn new(queue: &'a Queue<T>) -> Self {
        Self {
            queue,
            heap: BinaryHeap::new(),
            known: HashMap::new(),
        }
    }

    fn run(mut self, arrivals: &Receiver<(T, Instant)>) {
        loop {
            self.move_due();
            let arrived = match self.heap.peek() {
                None => arrivals.recv().map_err(|_| RecvTimeoutError::Disconnected),
                Some(Reverse((due, _))) => {
                    arrivals.recv_timeout(due.saturating_duration_since(Instant::now()))
                }
            };
            match arrived {
                Ok(item) => {
                    self.insert(item);
                    while let Ok(item) = arrivals.try_recv() {
                        self.insert(item);
                    }
                }
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => return,
            }
        }
    }

    fn move_due(&mut self) {
        let now = Instant::now();
        while let Some(Reverse((due, _))) = self.heap.peek()
            && *due <= now
        {
            let Some(Reverse((due, item))) = self.heap.pop() else {
                return;
            };
            if self.known.get(&item) == Some(&due) {
                self.known.remove(&item);
                self.queue.add(item);
            }
        }
    }

    fn insert(&mut self, (item, due): (T, Instant)) {
        if due <= Instant::now() {
            return self.queue.add(item);
        }
        let known = self.known.entry(item.clone()).or_insert(due);
        if due < *known {
            *known = due;
        } else if due > *known {
            return;
        }
        self.heap.push(Reverse((due, item)));
    }
}
