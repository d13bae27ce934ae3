//! Time-outs, leases, and other values that fall due later.
//!
//! Use the lowest part that is sufficient:
//!
//! | to get | use |
//! |---|---|
//! | values ordered by time, in your own loop | [`DelayHeap`](crate::delay_queue::DelayHeap) |
//! | values delivered to threads or futures when they are due | [`DelayQueue`](crate::delay_queue::DelayQueue) |
//! | closures that run when they are due, once or periodically | [`ScheduledPool`](crate::scheduled_pool::ScheduledPool) |
//! | a task that is retried until it succeeds | [`spawn_retrying`](crate::ScheduledPool::spawn_retrying): [another page](super::retrying) |
//! | jobs that survive the process | `DurableQueue`: [another page](super::durable) |
//! | keys that are retried after a failure | [`DedupQueue`](crate::dedup_queue::DedupQueue): [another page](super::controllers) |
//!
//! # Most time-outs are cancelled
//! Cancelling by the id that the push returned is cheap and frees the memory at once. An id belongs to one
//! entry. After that entry has left the queue, the id finds no entry.
//!
//! ```
//! use anthill::delay_queue::{DelayQueue, ManualClock};
//! use std::time::Duration;
//!
//! let clock = ManualClock::new(); // `DelayQueue::new()` goes by the machine's.
//! let unpaid = DelayQueue::with_clock(clock.clone());
//! let half_an_hour = Duration::from_secs(1800);
//!
//! let order_1 = unpaid.push("order 1", half_an_hour)?;
//! let order_2 = unpaid.push("order 2", half_an_hour)?;
//! assert_eq!(unpaid.cancel(order_1), Some("order 1")); // It was paid.
//! clock.advance(half_an_hour);
//! let lapsed = unpaid.take()?;
//! assert_eq!((lapsed.value, lapsed.id), ("order 2", order_2));
//! assert_eq!(unpaid.cancel(order_2), None, "too late");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! Exactly one of `cancel` and `take` returns an entry, so its caller owns the value.
//!
//! # Extending a lease
//! `reset` moves an entry to a new time and keeps its id: for heartbeats, caches and debounced events.
//!
//! ```
//! # use anthill::delay_queue::{DelayQueue, ManualClock, TakeError};
//! # use std::time::Duration;
//! # let clock = ManualClock::new();
//! # let leases = DelayQueue::with_clock(clock.clone());
//! const SECOND: Duration = Duration::from_secs(1);
//! let lease = leases.push("node 7", 10 * SECOND)?;
//! clock.advance(9 * SECOND);
//! assert!(leases.reset(lease, 10 * SECOND)); // A heartbeat.
//! clock.advance(9 * SECOND);
//! assert!(matches!(leases.try_take(), Err(TakeError::NotDue)));
//! clock.advance(SECOND);
//! assert_eq!(leases.try_take()?.value, "node 7");
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Precision
//! An entry is never early. The system wakes a waiting thread some tens of microseconds late, and a future
//! through one more thread. With `spin_window` the thread wakes earlier and spins, which is precise to a
//! microsecond and takes a processor for that time. With `coalesce` the thread wakes once for several
//! entries.
//!
//! # Closing
//! `close` refuses pushes and still delivers the entries at their times. `close_now` returns the entries.
//! Dropping the last handle drops the entries.
