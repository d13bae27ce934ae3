//! Coming from tokio-util's `DelayQueue`.
//!
//! | tokio-util | here |
//! |---|---|
//! | `DelayQueue::new`, `with_capacity` | [`DelayQueue::new`](crate::DelayQueue::new), `builder().capacity(n)` |
//! | `insert(value, d)`, `insert_at` | `push(value, d)`, `push_at`; with a `bound`, `push_async` or `try_push` |
//! | `Key` | `EntryId` |
//! | `poll_expired`, `StreamExt::next` | `take_async().await`, or `stream()` with the feature `stream` |
//! | `Expired::into_inner`, `deadline`, `key` | `value`, `due`, `id` |
//! | `try_remove(&key)` | `cancel(id)` |
//! | `remove(&key)`, which panics if it is gone | `cancel(id).expect(..)` |
//! | `reset(&key, d)`, `reset_at`, which panic if it is gone | `reset(id, d)`, `reset_at`: `false` if it is gone |
//! | `deadline(&key)`, `peek` | `due(id)`, `peek` |
//! | `clear`, `len`, `is_empty`, `reserve`, `shrink_to_fit` | the same; `shrink_to(0)` |
//! | `compact` | not needed: an id stays good, and memory is given back all the same |
//! | `tokio::time::pause`, `advance` | a `ManualClock` |
//!
//! ```
//! use anthill::delay_queue::{DelayQueue, ManualClock};
//! use std::time::Duration;
//!
//! #[tokio::main(flavor = "current_thread")] // Any executor: it needs no runtime's timer.
//! async fn main() -> Result<(), Box<dyn std::error::Error>> {
//!     let clock = ManualClock::new(); // `DelayQueue::new()` goes by the machine's.
//!     let sessions = DelayQueue::with_clock(clock.clone());
//!     let second = Duration::from_secs(1);
//!
//!     let anna = sessions.push("anna", 30 * second)?;
//!     let ben = sessions.push("ben", 30 * second)?;
//!     clock.advance(20 * second);
//!     assert!(sessions.reset(anna, 30 * second)); // She has clicked.
//!     clock.advance(10 * second);
//!     assert_eq!(sessions.take_async().await?.value, "ben");
//!     assert!(!sessions.reset(ben, 30 * second)); // Too late, and no panic.
//!     assert_eq!(sessions.cancel(anna), Some("anna")); // Logged out.
//!
//!     sessions.close(); // Without this the next take would wait.
//!     assert!(sessions.take_async().await.is_err());
//!     Ok(())
//! }
//! ```
//!
//! # Differences
//! - **An empty queue waits.** There the stream ends (`None`) when the queue is empty, and a loop has to
//!   guard against it. Here a take waits for the next push, and only [`close`](crate::DelayQueue::close)
//!   ends it. A queue does not close by itself.
//! - **A handle, not a value.** All calls take `&self`, clones are the same queue, and a thread may push
//!   while a task waits: there is no `Mutex` around it, no command channel, no `select!` in a task that
//!   owns it.
//! - **Ids are for one entry.** A key of tokio-util may come to mean another entry; an id here finds
//!   nothing once its entry is gone.
//! - **No rounding.** tokio-util rounds up to a millisecond and panics at about two years. Here times are
//!   nanoseconds, and what is too far away is never.
//! - **Its own wake-ups.** A future is woken by a helper thread of the clock, at the price of one more
//!   wake-up. With the feature `tokio` a `TokioClock` uses the runtime's timer.
//! - **Equal times come in the order of their pushes.**
