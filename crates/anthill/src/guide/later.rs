//! What falls due later: time-outs, leases, orders that lapse.
//!
//! Three crates serve that, one above the other; take the lowest that is enough.
//!
//! | you want | take |
//! |---|---|
//! | values ordered by a time, in a loop of your own | [`DelayHeap`](crate::delay_queue::DelayHeap) |
//! | values handed out when they are due, to threads or futures | [`DelayQueue`](crate::delay_queue::DelayQueue) |
//! | closures run when they are due, once or again and again | [`ScheduledPool`](crate::scheduled_pool::ScheduledPool) |
//! | a task tried again until it succeeds | [`spawn_retrying`](crate::ScheduledPool::spawn_retrying): [another page](super::retrying) |
//! | jobs that survive the process | `DurableQueue`: [another page](super::durable) |
//! | keys worked on again after a failure | [`DedupQueue`](crate::dedup_queue::DedupQueue): [another page](super::controllers) |
//!
//! # A time-out is mostly cancelled
//! Most are taken back before they are due. So cancelling must be cheap and must give the
//! memory back at once: it does both here, by the id that the push returned. An id is good for its
//! own entry only: when that is gone, it finds nothing, however many others came since.
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
//! Exactly one of `cancel` and `take` returns an entry, and the caller it is returned to owns what
//! comes next. There is no third state to ask about.
//!
//! # A lease is reset
//! `reset` moves an entry to a new time under its old id: a heartbeat, a cache entry that was used,
//! a debounced event.
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
//! # How late
//! Never early. The system wakes a thread that waits for a time some tens of microseconds after it;
//! a future is woken through one more thread. Where that is too late, `spin_window` has the waiting
//! thread wake earlier and spin: within a microsecond, at the price of a processor for that long.
//! Where a later wake-up will do, `coalesce` has the thread wake once for several entries.
//!
//! # How it ends
//! `close` refuses pushes and lets what is left come at its time. `close_now` returns it. A queue
//! does not close by itself: the drop of its last handle drops what is in it.
