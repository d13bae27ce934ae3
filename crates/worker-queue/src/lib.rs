//! Containers of idle workers in order of age, for elastic pools: they find the worker to reuse
//! next and the workers that have been idle too long.
//!
//! An elastic pool needs two operations on its idle workers: taking one to reuse, and removing all
//! workers unused since a given time. The containers do the first in constant time and the second
//! by binary search. They differ in the worker that they reuse.
//!
//! | | [`Stack`] | [`LoopQueue`] |
//! |---|---|---|
//! | reuses | the newest (LIFO) | the oldest (FIFO) |
//! | memory | grows on demand | slots allocated once |
//! | full | never | when every slot is taken |
//! | under light traffic | a few workers stay hot, the others expire | workers are used in turn, so few expire |
//!
//! Both are aliases of [`IdleQueue`] with the reused end fixed in the type. `IdleQueue` can also
//! choose the end at run time, and has the methods of both.
//!
//! # When not to use it
//! - From several threads without a lock: methods take `&mut self`. Keep the container under the
//!   lock that protects the rest of the pool's state.
//! - For queues of tasks: no method waits or wakes.
//! - For timers: entries expire in the order in which they were added, not at individual times.
//!
//! # Guarantees
//! 1. Stamps never decrease from the oldest entry to the newest: [`push`](IdleQueue::push) raises a
//!    stamp that is too old.
//! 2. No lock, thread or clock is used. The caller chooses the unit of its stamps.
//! 3. Entries are returned, or dropped where the documentation says so. A caller that holds a lock
//!    can move every entry out of the container and drop it after unlocking.
//! 4. A [`LoopQueue`] allocates in `new` and `resize` only.
//!
//! # Origin
//! The two containers and their search come from Go's [ants](https://github.com/panjf2000/ants)
//! (`worker_stack`, `worker_loop_queue`).

#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

mod full;
mod idle_queue;
mod loop_queue;
mod reuse;
mod stack;

pub use full::Full;
pub use idle_queue::IdleQueue;
pub use loop_queue::LoopQueue;
pub use reuse::{Newest, Oldest, Reuse};
pub use stack::Stack;

/// The README's example is compiled and run.
#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;
