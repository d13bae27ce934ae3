//! Delay queues behind a common trait, on a manual clock.
//!
//! Several threads could share each of them, for which the plain containers need a lock.
//! tokio-util's wheel has none: it belongs to one task.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};
use std::{fmt, io};

use delay_queue::{Clock, EntryId};
use delay_queue_02::Delay;
use priority_queue::PriorityQueue;
use sync_shim::{Alarm, Parker};
use tokio::runtime::{EnterGuard, Runtime};
use tokio_util::time::delay_queue::Key;

use crate::tails;

/// Values are unique numbers.
pub trait Peer {
    const NAME: &'static str;
    /// The id by which the caller can cancel an entry.
    type Id: Copy;
    fn new() -> Self;
    /// `due` is in nanoseconds since the beginning.
    fn push(&mut self, number: u64, due: u64) -> Self::Id;
    /// Removes the earliest entry if it is due. Returns its number.
    fn take(&mut self) -> Option<u64>;
    fn advance(&mut self, to: u64);
}

/// Queues that can find an entry by its id.
pub trait Cancel: Peer {
    fn cancel(&mut self, id: Self::Id) -> Option<u64>;
    fn reset(&mut self, id: &mut Self::Id, due: u64);
}

impl<P: Peer> tails::Subject for P {
    type Id = P::Id;

    fn new() -> Self {
        P::new()
    }

    fn push(&mut self, value: u64, due: u64) -> P::Id {
        Peer::push(self, value, due)
    }

    fn pop(&mut self) -> Option<u64> {
        self.take()
    }

    fn advance(&mut self, now: u64) {
        Peer::advance(self, now);
    }
}

impl<P: Cancel> tails::Cancel for P {
    fn cancel(&mut self, id: P::Id) -> Option<u64> {
        Cancel::cancel(self, id)
    }

    fn reset(&mut self, id: &mut P::Id, due: u64) {
        Cancel::reset(self, id, due);
    }
}

/// A manual clock that is as fast to read as the system clock.
#[derive(Clone)]
pub struct Stepped(Instant, Arc<AtomicU64>);

impl Stepped {
    fn new() -> Self {
        Self(Instant::now(), Arc::new(AtomicU64::new(0)))
    }

    fn at(&self, nanos: u64) -> Instant {
        self.0 + Duration::from_nanos(nanos)
    }

    fn advance(&self, to: u64) {
        self.1.store(to, Relaxed);
    }
}

impl fmt::Debug for Stepped {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Stepped")
    }
}

impl Clock for Stepped {
    fn now(&self) -> Instant {
        self.at(self.1.load(Relaxed))
    }

    fn park_until(&self, _: &Parker, _: Instant) -> bool {
        unreachable!("this program never waits")
    }

    fn wake_at(&self, _: Instant, _: Waker) -> io::Result<Alarm> {
        Err(io::ErrorKind::Unsupported.into())
    }
}

pub struct Ours {
    queue: delay_queue::DelayQueue<u64, Stepped>,
    clock: Stepped,
}

impl Peer for Ours {
    const NAME: &'static str = "ours";
    type Id = EntryId;

    fn new() -> Self {
        let clock = Stepped::new();
        Self {
            queue: delay_queue::DelayQueue::with_clock(clock.clone()),
            clock,
        }
    }

    fn push(&mut self, number: u64, due: u64) -> EntryId {
        let pushed = self.queue.push_at(number, self.clock.at(due));
        pushed.expect("it is open")
    }

    fn take(&mut self) -> Option<u64> {
        self.queue.try_take().ok().map(|expired| expired.value)
    }

    fn advance(&mut self, to: u64) {
        self.clock.advance(to);
    }
}

impl Cancel for Ours {
    fn cancel(&mut self, id: EntryId) -> Option<u64> {
        self.queue.cancel(id)
    }

    fn reset(&mut self, id: &mut EntryId, due: u64) {
        assert!(self.queue.reset_at(*id, self.clock.at(due)));
    }
}

/// A binary heap under a mutex, about ten lines.
pub struct MutexHeap {
    heap: Mutex<BinaryHeap<Reverse<(Instant, u64)>>>,
    clock: Stepped,
}

impl Peer for MutexHeap {
    const NAME: &'static str = "BinaryHeap";
    type Id = ();

    fn new() -> Self {
        Self {
            heap: Mutex::new(BinaryHeap::new()),
            clock: Stepped::new(),
        }
    }

    fn push(&mut self, number: u64, due: u64) {
        let due = self.clock.at(due);
        lock(&self.heap).push(Reverse((due, number)));
    }

    fn take(&mut self) -> Option<u64> {
        let mut heap = lock(&self.heap);
        let Reverse((due, number)) = *heap.peek()?;
        if due > self.clock.now() {
            return None;
        }
        heap.pop();
        Some(number)
    }

    fn advance(&mut self, to: u64) {
        self.clock.advance(to);
    }
}

/// The same with a `BTreeMap`, which can also cancel.
pub struct MutexTree {
    tree: Mutex<BTreeMap<(Instant, u64), u64>>,
    clock: Stepped,
    next: u64,
}

impl Peer for MutexTree {
    const NAME: &'static str = "BTreeMap";
    type Id = (Instant, u64);

    fn new() -> Self {
        Self {
            tree: Mutex::new(BTreeMap::new()),
            clock: Stepped::new(),
            next: 0,
        }
    }

    fn push(&mut self, number: u64, due: u64) -> (Instant, u64) {
        let key = (self.clock.at(due), self.next);
        self.next += 1;
        lock(&self.tree).insert(key, number);
        key
    }

    fn take(&mut self) -> Option<u64> {
        let mut tree = lock(&self.tree);
        let first = tree.first_entry()?;
        (first.key().0 <= self.clock.now()).then(|| first.remove())
    }

    fn advance(&mut self, to: u64) {
        self.clock.advance(to);
    }
}

impl Cancel for MutexTree {
    fn cancel(&mut self, id: (Instant, u64)) -> Option<u64> {
        lock(&self.tree).remove(&id)
    }

    fn reset(&mut self, id: &mut (Instant, u64), due: u64) {
        let number = self.cancel(*id).expect("it is there");
        *id = self.push(number, due);
    }
}

/// A heap indexed by a hash map.
pub struct MutexPriority {
    queue: Mutex<PriorityQueue<u64, Reverse<(Instant, u64)>>>,
    clock: Stepped,
    next: u64,
}

impl MutexPriority {
    fn priority(&mut self, due: u64) -> Reverse<(Instant, u64)> {
        self.next += 1;
        Reverse((self.clock.at(due), self.next))
    }
}

impl Peer for MutexPriority {
    const NAME: &'static str = "priority-queue";
    type Id = u64;

    fn new() -> Self {
        Self {
            queue: Mutex::new(PriorityQueue::new()),
            clock: Stepped::new(),
            next: 0,
        }
    }

    fn push(&mut self, number: u64, due: u64) -> u64 {
        let priority = self.priority(due);
        lock(&self.queue).push(number, priority);
        number
    }

    fn take(&mut self) -> Option<u64> {
        let mut queue = lock(&self.queue);
        let (_, Reverse((due, _))) = queue.peek()?;
        if *due > self.clock.now() {
            return None;
        }
        queue.pop().map(|(number, _)| number)
    }

    fn advance(&mut self, to: u64) {
        self.clock.advance(to);
    }
}

impl Cancel for MutexPriority {
    fn cancel(&mut self, id: u64) -> Option<u64> {
        lock(&self.queue).remove(&id).map(|(number, _)| number)
    }

    fn reset(&mut self, id: &mut u64, due: u64) {
        let priority = self.priority(due);
        let old = lock(&self.queue).change_priority(id, priority);
        old.expect("it is there");
    }
}

/// The wheel of tokio-util, driven directly with tokio's paused clock, without a task.
pub struct Wheel {
    wheel: tokio_util::time::DelayQueue<u64>,
    start: tokio::time::Instant,
    runtime: &'static Runtime,
    _entered: EnterGuard<'static>,
}

impl Wheel {
    fn at(&self, due: u64) -> tokio::time::Instant {
        self.start + Duration::from_nanos(due)
    }
}

impl Peer for Wheel {
    const NAME: &'static str = "tokio-util";
    type Id = Key;

    fn new() -> Self {
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_time()
            .start_paused(true)
            .build()
            .expect("a runtime without threads can be made");
        let runtime: &'static Runtime = Box::leak(Box::new(runtime));
        let _entered = runtime.enter();
        Self {
            wheel: tokio_util::time::DelayQueue::new(),
            start: tokio::time::Instant::now(),
            runtime,
            _entered,
        }
    }

    fn push(&mut self, number: u64, due: u64) -> Key {
        let due = self.at(due);
        self.wheel.insert_at(number, due)
    }

    fn take(&mut self) -> Option<u64> {
        match self
            .wheel
            .poll_expired(&mut Context::from_waker(Waker::noop()))
        {
            Poll::Ready(Some(expired)) => Some(expired.into_inner()),
            _ => None,
        }
    }

    fn advance(&mut self, to: u64) {
        let by = self.at(to) - tokio::time::Instant::now();
        self.runtime.block_on(tokio::time::advance(by));
    }
}

impl Cancel for Wheel {
    fn cancel(&mut self, id: Key) -> Option<u64> {
        let removed = self.wheel.try_remove(&id);
        removed.map(tokio_util::time::delay_queue::Expired::into_inner)
    }

    fn reset(&mut self, id: &mut Key, due: u64) {
        let due = self.at(due);
        self.wheel.reset_at(id, due);
    }
}

/// About four minutes.
const PAST: u64 = 1 << 38;

/// The published crate of that name. It reads the system clock, so all times are in the past and
/// every entry is always due.
pub struct Published(delay_queue_02::DelayQueue<Delay<u64>>, Instant);

impl Peer for Published {
    const NAME: &'static str = "delay-queue-0.2";
    type Id = ();

    fn new() -> Self {
        let now = Instant::now();
        let past = now.checked_sub(Duration::from_nanos(PAST)).unwrap_or(now);
        Self(delay_queue_02::DelayQueue::new(), past)
    }

    fn push(&mut self, number: u64, due: u64) {
        // The past is limited. When times wrap, only the order is lost, which does not affect the
        // cost.
        let until = self.1 + Duration::from_nanos(due % PAST);
        self.0.push(Delay::until_instant(number, until));
    }

    fn take(&mut self) -> Option<u64> {
        let taken = self.0.try_pop_for(Duration::ZERO);
        taken.map(|delay| delay.value)
    }

    fn advance(&mut self, _: u64) {}
}

fn lock<T>(mutex: &Mutex<T>) -> std::sync::MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}
