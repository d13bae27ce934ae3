//! The threads of workers that have ended.
//!
//! A worker's place is free for another as soon as it has run its last task and its stop hook. Its
//! thread lives on until the destructors of its thread-locals have run, which are user code and may
//! take their time. These threads are counted, and there are only so many of them: a worker that
//! would make them more waits at its place until one is gone.
//!
//! Not for: waiting for the end of all, which is `life.rs`.
//!
//! # Invariants, under the pool's lock
//! 1. `count` is the number of ended threads that have not been joined. Each of their handles lies
//!    in `threads`, or in the hands of one thread that joins it and counts it out after that.
//! 2. A handle is in the hands of a live worker that waits at its place, of a wait for the pool's
//!    end, or of a thread that has ended and was counted after the one that it joins. So joining
//!    all that lie here when no worker is live joins, through them, every thread.

use std::collections::VecDeque;

use sync_shim::thread::JoinHandle;

use crate::sched::event::Events;

/// Threads that may be ending at the same time in any case. With more than these, no more than
/// there have been workers at once: so those that a release ends need not wait for each other.
///
/// A model has too few threads to get there.
const SPARE: usize = if cfg!(anthill_loom) { 1 } else { 8 };

/// Threads that mostly are gone are joined by those that end after them once there are more than
/// these, and not before: destructors that take their time do so beside one another.
const LEFT_ALONE: usize = if cfg!(anthill_loom) { 0 } else { SPARE / 2 };

/// Threads that one that ends joins at most. More than one, so that they become fewer.
const MOST_JOINED: usize = 2;

#[derive(Default)]
pub(crate) struct Ending {
    /// The oldest first.
    threads: VecDeque<JoinHandle>,
    count: usize,
    /// Workers that wait at their place for one to be gone.
    pub(crate) on_room: Events,
}

/// What a worker does that gives its place up.
pub(crate) enum Exit {
    /// It is gone, and joins these, whose bodies have ended.
    Gone(Vec<JoinHandle>),
    /// It joins this one at its place, then asks again.
    Join(JoinHandle),
    /// It waits at its place until one has been joined, then asks again.
    Wait,
}

impl Ending {
    pub(crate) fn len(&self) -> usize {
        self.count
    }

    /// Whether one more would be too many.
    pub(crate) fn is_full(&self, peak_live: usize) -> bool {
        self.count >= peak_live.max(SPARE)
    }

    /// What is to be done before there may be one more.
    pub(crate) fn make_room(&mut self) -> Exit {
        self.threads.pop_front().map_or(Exit::Wait, Exit::Join)
    }

    /// A worker's thread is ending.
    pub(crate) fn enter(&mut self, thread: Option<JoinHandle>) {
        self.count += usize::from(thread.is_some());
        self.threads.extend(thread);
    }

    /// Some of the oldest, if there are many and their bodies have ended: mostly they are gone.
    pub(crate) fn take_finished(&mut self) -> Vec<JoinHandle> {
        let many = self.threads.len().saturating_sub(LEFT_ALONE);
        let oldest = self.threads.iter().take(many.min(MOST_JOINED));
        let finished = oldest.take_while(|thread| thread.is_finished()).count();
        self.threads.drain(..finished).collect()
    }

    /// All that no other thread has in hand.
    pub(crate) fn take_all(&mut self) -> VecDeque<JoinHandle> {
        std::mem::take(&mut self.threads)
    }

    /// So many have been joined.
    pub(crate) fn leave(&mut self, threads: usize) {
        self.count -= threads;
    }
}
