//! Containers of idle workers, in order of age: who is reused next, and who has idled too long.
//!
//! An elastic pool asks two things of its idle workers: one to reuse, at every turn, and from
//! time to time all those unused since some moment, to let them go. Both containers answer the
//! first in constant time and find the second by binary search; they differ in whom they reuse.
//!
//! | | [`Stack`] | [`LoopQueue`] |
//! |---|---|---|
//! | reuses | the newest (LIFO) | the oldest (FIFO) |
//! | memory | grows on demand | slots allocated once |
//! | full | never | when every slot is taken |
//! | under light traffic | a few workers stay hot, the others expire | every worker stays young, so few expire |
//!
//! Both are [`IdleQueue`] with the end that is reused fixed in the type; `IdleQueue` alone is either
//! of them, chosen at run time, and has the methods of all.
//!
//! Not for: sharing between threads as it is (methods take `&mut self`; put the container under
//! the lock that guards the rest of your bookkeeping), tasks (nothing here waits or wakes), and
//! timers (entries expire in the order they came, not by a time each has of its own).
//!
//! # What always holds
//! 1. From the oldest entry to the newest, stamps never decrease: [`push`](IdleQueue::push)
//!    raises a stamp that would.
//! 2. No lock, thread or clock is touched. A stamp is whatever the caller measures time in.
//! 3. Entries leave by being handed out, or dropped where the documentation says so. A caller
//!    under a lock can carry every entry out of it and drop it there.
//! 4. A [`LoopQueue`] allocates in `new` and `resize` only.
//!
//! # Ancestry
//! The pair of containers, and their search, come from Go's
//! [ants](https://github.com/panjf2000/ants) (`worker_stack`, `worker_loop_queue`).

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
