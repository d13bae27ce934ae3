//! Containers of timed entries behind a common trait.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap};
use std::task::{Context, Poll, Waker};
use std::time::Duration;

use delay_queue::{DelayHeap, EntryId};
use priority_queue::PriorityQueue;
use tokio::runtime::{Builder, Runtime};
use tokio::time::Instant;
use tokio_util::time::{DelayQueue, delay_queue::Key};

use crate::tails;

/// Values are unique numbers. Times are in nanoseconds.
pub trait Peer {
    const NAME: &'static str;
    const HAS_CLOCK: bool = false;
    type Id: Copy;
    fn new() -> Self;
    fn push(&mut self, value: u64, due: u64) -> Self::Id;
    /// Removes the earliest entry if it is due at `now`.
    fn pop(&mut self, now: u64) -> Option<u64>;
    /// For peers with a clock of their own.
    fn advance(&mut self, _now: u64) {}
}

/// Containers that can find an entry by its id.
pub trait Cancel: Peer {
    fn cancel(&mut self, id: Self::Id) -> Option<u64>;
    fn reset(&mut self, id: &mut Self::Id, due: u64);
}

/// A peer and the current time, which its pops get as their argument.
pub struct Timed<P> {
    peer: P,
    now: u64,
}

impl<P: Peer> tails::Subject for Timed<P> {
    type Id = P::Id;

    fn new() -> Self {
        Self {
            peer: P::new(),
            now: 0,
        }
    }

    fn push(&mut self, value: u64, due: u64) -> P::Id {
        self.peer.push(value, due)
    }

    fn pop(&mut self) -> Option<u64> {
        self.peer.pop(self.now)
    }

    fn advance(&mut self, now: u64) {
        self.now = now;
        self.peer.advance(now);
    }
}

impl<P: Cancel> tails::Cancel for Timed<P> {
    fn cancel(&mut self, id: P::Id) -> Option<u64> {
        self.peer.cancel(id)
    }

    fn reset(&mut self, id: &mut P::Id, due: u64) {
        self.peer.reset(id, due);
    }
}

pub struct Ours(DelayHeap<u64>);

impl Peer for Ours {
    const NAME: &'static str = "ours";
    type Id = EntryId;

    fn new() -> Self {
        Self(DelayHeap::new())
    }

    fn push(&mut self, value: u64, due: u64) -> EntryId {
        self.0.push(value, due)
    }

    fn pop(&mut self, now: u64) -> Option<u64> {
        self.0.pop_ready(now).map(|entry| entry.value)
    }
}

impl Cancel for Ours {
    fn cancel(&mut self, id: EntryId) -> Option<u64> {
        self.0.remove(id).map(|entry| entry.value)
    }

    fn reset(&mut self, id: &mut EntryId, due: u64) {
        self.0.reset(*id, due).expect("it is there");
    }
}

/// Includes the number of the push, so that its order equals ours.
pub struct Heap {
    heap: BinaryHeap<Reverse<(u64, u64, u64)>>,
    pushes: u64,
}

impl Peer for Heap {
    const NAME: &'static str = "BinaryHeap";
    type Id = ();

    fn new() -> Self {
        Self {
            heap: BinaryHeap::new(),
            pushes: 0,
        }
    }

    fn push(&mut self, value: u64, due: u64) {
        self.pushes += 1;
        self.heap.push(Reverse((due, self.pushes, value)));
    }

    fn pop(&mut self, now: u64) -> Option<u64> {
        if self.heap.peek()?.0.0 > now {
            return None;
        }
        self.heap.pop().map(|Reverse((_, _, value))| value)
    }
}

pub struct Tree {
    map: BTreeMap<(u64, u64), u64>,
    pushes: u64,
}

impl Peer for Tree {
    const NAME: &'static str = "BTreeMap";
    type Id = (u64, u64);

    fn new() -> Self {
        Self {
            map: BTreeMap::new(),
            pushes: 0,
        }
    }

    fn push(&mut self, value: u64, due: u64) -> (u64, u64) {
        self.pushes += 1;
        self.map.insert((due, self.pushes), value);
        (due, self.pushes)
    }

    fn pop(&mut self, now: u64) -> Option<u64> {
        let first = self.map.first_entry()?;
        (first.key().0 <= now).then(|| first.remove())
    }
}

impl Cancel for Tree {
    fn cancel(&mut self, id: (u64, u64)) -> Option<u64> {
        self.map.remove(&id)
    }

    fn reset(&mut self, id: &mut (u64, u64), due: u64) {
        let value = self.map.remove(id).expect("it is there");
        *id = self.push(value, due);
    }
}

pub struct Priority {
    queue: PriorityQueue<u64, Reverse<(u64, u64)>>,
    pushes: u64,
}

impl Peer for Priority {
    const NAME: &'static str = "priority-queue";
    type Id = u64;

    fn new() -> Self {
        Self {
            queue: PriorityQueue::new(),
            pushes: 0,
        }
    }

    fn push(&mut self, value: u64, due: u64) -> u64 {
        self.pushes += 1;
        self.queue.push(value, Reverse((due, self.pushes)));
        value
    }

    fn pop(&mut self, now: u64) -> Option<u64> {
        if self.queue.peek()?.1.0.0 > now {
            return None;
        }
        self.queue.pop().map(|(value, _)| value)
    }
}

impl Cancel for Priority {
    fn cancel(&mut self, id: u64) -> Option<u64> {
        self.queue.remove(&id).map(|(value, _)| value)
    }

    fn reset(&mut self, id: &mut u64, due: u64) {
        self.pushes += 1;
        let old = self.queue.change_priority(id, Reverse((due, self.pushes)));
        old.expect("it is there");
    }
}

/// tokio-util's wheel: counts milliseconds, and does not order entries of the same millisecond.
pub struct Wheel {
    queue: DelayQueue<u64>,
    runtime: Runtime,
    start: Instant,
}

impl Wheel {
    fn at(&self, nanos: u64) -> Instant {
        self.start + Duration::from_nanos(nanos)
    }
}

impl Peer for Wheel {
    const NAME: &'static str = "tokio-util";
    const HAS_CLOCK: bool = true;
    type Id = Key;

    fn new() -> Self {
        let mut builder = Builder::new_current_thread();
        let runtime = builder.enable_time().start_paused(true).build();
        let runtime = runtime.expect("a runtime without threads can be built");
        let (queue, start) = {
            let _inside = runtime.enter();
            (DelayQueue::new(), Instant::now())
        };
        Self {
            queue,
            runtime,
            start,
        }
    }

    fn push(&mut self, value: u64, due: u64) -> Key {
        let due = self.at(due);
        let _inside = self.runtime.enter();
        self.queue.insert_at(value, due)
    }

    fn pop(&mut self, _: u64) -> Option<u64> {
        let _inside = self.runtime.enter();
        let mut context = Context::from_waker(Waker::noop());
        match self.queue.poll_expired(&mut context) {
            Poll::Ready(Some(expired)) => Some(expired.into_inner()),
            Poll::Ready(None) | Poll::Pending => None,
        }
    }

    fn advance(&mut self, now: u64) {
        let to = self.at(now);
        self.runtime.block_on(async {
            tokio::time::advance(to - Instant::now()).await;
        });
    }
}

impl Cancel for Wheel {
    fn cancel(&mut self, id: Key) -> Option<u64> {
        self.queue
            .try_remove(&id)
            .map(|expired| expired.into_inner())
    }

    fn reset(&mut self, id: &mut Key, due: u64) {
        let due = self.at(due);
        let _inside = self.runtime.enter();
        self.queue.reset_at(id, due);
    }
}
