//! Time-outs, leases, and other values that become due later.
//!
//! | to get | use |
//! |---|---|
//! | values ordered by time, in your own loop | [`DelayHeap`](crate::delay_queue::DelayHeap) |
//! | values delivered to threads or futures when they are due | [`DelayQueue`](crate::delay_queue::DelayQueue) |
//! | closures that run when they are due, once or periodically | [`ScheduledPool`](crate::scheduled_pool::ScheduledPool) |
//! | a task that is retried until it succeeds | [`spawn_retrying`](super::retrying) of a `ScheduledPool` |
//! | jobs that survive the process | [`DurableQueue`](super::durable) |
//! | keys that are retried after a failure | [`DedupQueue`](super::controllers) |
//!
//! # Cancelling
//! Most time-outs are cancelled. `cancel` takes the id that the push returned; it costs O(log n) and frees the
//! memory at once. Ids are not reused, so a late cancel never removes another entry.
//!
//! ```
//! use anthill::delay_queue::{DelayQueue, ManualClock};
//! use std::time::Duration;
//!
//! let clock = ManualClock::new(); // For the example. `DelayQueue::new()` uses the system's clock.
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
//! If `cancel` and `take` race, exactly one of them returns the entry.
//!
//! # Extending a lease
//! `reset` moves an entry to a new time and keeps its id. Use it for heartbeats, caches and debounced events.
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
//! An entry is never delivered early. The operating system wakes a waiting thread some tens of microseconds late;
//! a waiting future is woken through one more thread. With `spin_window` the thread wakes earlier and spins, which
//! is precise to a microsecond and takes a processor for that time. With `coalesce` the thread wakes once for
//! several entries.
//!
//! # Closing
//! After `close`, pushes are refused and the queued entries are still delivered when due. `close_now` returns the
//! queued entries. Dropping the last handle drops them.
