//! Migrating from tokio-util's `DelayQueue`.
//!
//! | tokio-util | anthill |
//! |---|---|
//! | `DelayQueue::new`, `with_capacity` | [`DelayQueue::new`](crate::DelayQueue::new), `builder().capacity(n)` |
//! | `insert(value, d)`, `insert_at` | `push(value, d)`, `push_at`; with a `bound`, `push_async` or `try_push` |
//! | `Key` | `EntryId` |
//! | `poll_expired`, `StreamExt::next` | `take_async().await`, or `stream()` with the feature `stream` |
//! | `Expired::into_inner`, `deadline`, `key` | `value`, `due`, `id` |
//! | `try_remove(&key)` | `cancel(id)` |
//! | `remove(&key)`, which panics if the entry is gone | `cancel(id).expect(..)` |
//! | `reset(&key, d)`, `reset_at`, which panic if the entry is gone | `reset(id, d)`, `reset_at`, which return `false` if the entry is gone |
//! | `deadline(&key)`, `peek` | `due(id)`, `peek` |
//! | `clear`, `len`, `is_empty`, `reserve`, `shrink_to_fit` | the same; `shrink_to(0)` |
//! | `compact` | not needed: memory is freed without invalidating ids |
//! | `tokio::time::pause`, `advance` | a `ManualClock` |
//!
//! ```
//! use anthill::delay_queue::{DelayQueue, ManualClock};
//! use std::time::Duration;
//!
//! #[tokio::main(flavor = "current_thread")] // Any executor works; no runtime timer is needed.
//! async fn main() -> Result<(), Box<dyn std::error::Error>> {
//!     let clock = ManualClock::new(); // For the example. `DelayQueue::new()` uses the system's clock.
//!     let sessions = DelayQueue::with_clock(clock.clone());
//!     let second = Duration::from_secs(1);
//!
//!     let anna = sessions.push("anna", 30 * second)?;
//!     let ben = sessions.push("ben", 30 * second)?;
//!     clock.advance(20 * second);
//!     assert!(sessions.reset(anna, 30 * second)); // Anna has clicked.
//!     clock.advance(10 * second);
//!     assert_eq!(sessions.take_async().await?.value, "ben");
//!     assert!(!sessions.reset(ben, 30 * second)); // Too late, but no panic.
//!     assert_eq!(sessions.cancel(anna), Some("anna")); // Anna has logged out.
//!
//!     sessions.close(); // Without this the next take would wait.
//!     assert!(sessions.take_async().await.is_err());
//!     Ok(())
//! }
//! ```
//!
//! # Differences
//! - **A take of an empty queue waits** for the next push, until [`close`](crate::DelayQueue::close) is called.
//!   tokio-util's stream ends (`None`) when the queue is empty.
//! - **A queue is a shared handle.** All calls take `&self`, clones refer to the same queue, and a thread may push
//!   while a task waits. tokio-util's queue needs `&mut self`, so it is often owned by one task behind a channel.
//! - **An id belongs to one entry.** A key of tokio-util may refer to another entry later.
//! - **Times are in nanoseconds.** tokio-util rounds up to a millisecond, and panics at about two years. An entry
//!   that is due later than the clock can represent never becomes due.
//! - **Futures are woken by a helper thread** of the clock, which costs an additional wake-up. With the feature
//!   `tokio`, a `TokioClock` uses the runtime's timer.
//! - **Entries that are due at the same time** are delivered in the order of their pushes.
