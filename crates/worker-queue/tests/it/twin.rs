//! The twin of the containers: a plain `Vec`, oldest entry first, with the shortest correct code for every
//! operation; and the programs that run on both.
//!
//! It does not depend on the source of the programs, so the fuzz targets include this file too.

use worker_queue::{IdleQueue, Reuse};

/// An entry carries the time of its push, so all entries differ.
type Id = u32;
/// Advances by one with each operation.
type Stamp = u32;
pub(crate) type Queue = IdleQueue<Id, Stamp>;

/// One call. Small numbers, so that programs reach the ends of their ranges.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Op {
    /// Pushes an entry with an age: it is often older than the newest one.
    Push {
        age: Stamp,
    },
    Pop,
    /// Drains the entries of at least this age.
    DrainExpired {
        age: Stamp,
        max: usize,
    },
    DrainOldest {
        count: usize,
    },
    /// Takes some entries from a drain of `count`, then drops it.
    DropDrain {
        count: usize,
        taken: usize,
    },
    /// Removes the first entry whose number modulo four is `rest`.
    Remove {
        rest: Id,
    },
    Clear,
    /// Only for the ring.
    Resize {
        slots: usize,
    },
}

impl Op {
    /// Every operation has its bytes. Pushes have more than the others, to keep queues long.
    pub(crate) fn from_bytes([kind, a, b]: [u8; 3]) -> Self {
        let age = Stamp::from(a % 16);
        let (count, taken) = (usize::from(a % 16), usize::from(b % 16));
        match kind % 16 {
            0..=6 => Self::Push { age },
            7 | 8 => Self::Pop,
            9 => Self::DrainExpired { age, max: taken },
            10 => Self::DrainExpired {
                age,
                max: usize::MAX,
            },
            11 => Self::DrainOldest { count },
            12 => Self::DropDrain { count, taken },
            13 => Self::Remove {
                rest: Id::from(a % 4),
            },
            14 if b % 4 == 0 => Self::Clear,
            _ => Self::Resize { slots: count },
        }
    }
}

/// Runs the program on the queue and on its twin.
///
/// # Panics
///
/// If an answer or a state differs.
pub(crate) fn walk(mut queue: Queue, ops: impl IntoIterator<Item = Op>) {
    let mut twin = Twin {
        entries: Vec::new(),
        slots: queue.capacity(),
        newest_first: queue.reuse() == Reuse::Newest,
    };
    for (now, op) in (0..).zip(ops) {
        step(&mut queue, &mut twin, op, now);
        compare(&queue, &twin);
    }
    assert!(queue.drain_oldest(usize::MAX).eq(twin.drain(usize::MAX)));
}

struct Twin {
    entries: Vec<(Id, Stamp)>,
    slots: Option<usize>,
    newest_first: bool,
}

impl Twin {
    fn push(&mut self, id: Id, last_used: Stamp) -> Result<Stamp, Id> {
        if Some(self.entries.len()) == self.slots {
            return Err(id);
        }
        let stamps = self.entries.iter().map(|&(_, stamp)| stamp);
        let last_used = stamps.fold(last_used, Stamp::max);
        self.entries.push((id, last_used));
        Ok(last_used)
    }

    fn pop(&mut self) -> Option<Id> {
        if self.newest_first {
            return Some(self.entries.pop()?.0);
        }
        self.drain(1).pop()
    }

    fn drain(&mut self, count: usize) -> Vec<Id> {
        let count = count.min(self.entries.len());
        self.entries.drain(..count).map(|(id, _)| id).collect()
    }

    fn drain_expired(&mut self, limit: Stamp, max: usize) -> Vec<Id> {
        let is_expired = |&&(_, stamp): &&(Id, Stamp)| stamp <= limit;
        let expired = self.entries.iter().filter(is_expired).count();
        self.drain(expired.min(max))
    }

    fn remove(&mut self, matches: impl Fn(&Id) -> bool) -> Option<Id> {
        let index = self.entries.iter().position(|(id, _)| matches(id))?;
        Some(self.entries.remove(index).0)
    }

    fn resize(&mut self, slots: usize) -> Vec<Id> {
        self.slots = Some(slots);
        self.drain(self.entries.len().saturating_sub(slots))
    }
}

fn step(queue: &mut Queue, twin: &mut Twin, op: Op, now: Stamp) {
    match op {
        Op::Push { age } => {
            let (id, last_used) = (now, now.saturating_sub(age));
            let pushed = queue.push(id, last_used).map_err(|full| full.0);
            assert_eq!(pushed, twin.push(id, last_used));
        }
        Op::Pop => assert_eq!(queue.pop(), twin.pop()),
        Op::DrainExpired { age, max } => {
            let limit = now.saturating_sub(age);
            let expired = queue.drain_expired(limit, max);
            assert!(expired.eq(twin.drain_expired(limit, max)));
        }
        Op::DrainOldest { count } => {
            assert!(queue.drain_oldest(count).eq(twin.drain(count)));
        }
        Op::DropDrain { count, taken } => {
            let begun = queue.drain_oldest(count).take(taken);
            assert!(begun.eq(twin.drain(count).into_iter().take(taken)));
        }
        Op::Remove { rest } => {
            let matches = |id: &Id| id % 4 == rest;
            assert_eq!(queue.remove(matches), twin.remove(matches));
        }
        Op::Clear => {
            queue.clear();
            twin.entries.clear();
        }
        Op::Resize { slots } => {
            let surplus = queue.resize(slots);
            if queue.reuse() == Reuse::Oldest {
                assert_eq!(surplus, Ok(twin.resize(slots)));
            } else {
                assert_eq!(surplus, Ok(vec![])); // Growth: `compare` does not see a bound.
            }
        }
    }
}

fn compare(queue: &Queue, twin: &Twin) {
    let expected = twin.entries.iter().map(|(id, stamp)| (id, *stamp));
    assert!(queue.iter().eq(expected.clone()));
    assert!(queue.iter().rev().eq(expected.clone().rev()));
    assert_eq!(queue.oldest(), expected.clone().next());
    assert_eq!(queue.newest(), expected.clone().next_back());
    assert_eq!(queue.len(), twin.entries.len());
    assert_eq!(queue.is_empty(), twin.entries.is_empty());
    assert_eq!(queue.is_full(), Some(twin.entries.len()) == twin.slots);
    assert_eq!(queue.capacity(), twin.slots);
}
