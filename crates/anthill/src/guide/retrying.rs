//! Retrying after a failure: a call, a key, or a value.
//!
//! | to retry | use | back-off | gives up | result |
//! |---|---|---|---|---|
//! | one call with a value | [`spawn_retrying`](crate::ScheduledPool::spawn_retrying) of a `ScheduledPool` | exponential with jitter, in the policy | after `max_attempts` | in the handle: the value, or the last error |
//! | the work on a key, for which many events come | [`DedupRetryQueue`](crate::DedupRetryQueue): `retry` of a key that was taken | per key and over all keys, a `RateLimiter` | after `max_attempts`; the key goes to `dead_letter` | none |
//! | a value with its own count and time | [`DelayQueue`](crate::DelayQueue): push it again | yours | when you no longer push it | yours |
//!
//! All three are in memory. Jobs whose retries survive the process are in a [`DurableQueue`](super::durable).
//! None of them holds a worker between two attempts, unlike a loop that sleeps.
//!
//! # A call
//! ```
//! use anthill::scheduled_pool::Retry;
//! use anthill::{ManualClock, Pool, ScheduledPool};
//! use std::time::Duration;
//!
//! # fn fetch(attempt: u32) -> std::io::Result<String> {
//! #     if attempt < 3 { Err(std::io::ErrorKind::ConnectionReset.into()) } else { Ok("page".to_owned()) }
//! # }
//! let clock = ManualClock::new(); // A program has none: the machine's is the default.
//! let pool = Pool::builder().capacity(4).clock(clock.clone()).build()?;
//! let scheduled = ScheduledPool::new(pool);
//!
//! let policy = Retry::exponential(Duration::from_millis(100)) // About 0.1, 0.2, 0.4, ... seconds,
//!     .max_delay(Duration::from_secs(10))                     // at most ten,
//!     .max_attempts(8.try_into()?);                           // seven delays.
//! let mut attempt = 0;
//! let page = scheduled.spawn_retrying(&policy, move || {
//!     attempt += 1;
//!     fetch(attempt)
//! })?;
//! while !page.is_finished() {
//!     clock.advance(Duration::from_secs(1)); // The back-off passes.
//!     std::thread::yield_now();
//! }
//! assert_eq!(page.join()??, "page"); // First whether it ended, then what the last attempt returned.
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! - **A permanent error** is a value: return `Ok(Err(..))`, and join with `???`.
//! - **To cancel**: the handle's `cancel`, or a token, `scheduled.task().cancelled_by(&token)` with
//!   [`TaskBuilderExt`](crate::scheduled_pool::TaskBuilderExt). A running attempt is asked to stop, and is the last.
//! - **A release** ends the task between two attempts, like a series, unless the builder sets
//!   `continue_series(true)`. [`release_now`](crate::ScheduledPool::release_now) returns it.
//! - **A panic** ends the task without a retry, and the handle returns it.
//!
//! # A key
//! A failed key is retried after its back-off, or at once when a new event adds it. Two workers never hold the same
//! key, and events that come meanwhile are not lost. [`controllers`](super::controllers) shows the loop. There is
//! no value and no payload: the worker looks at the object that the key names.
//!
//! # A value
//! A [`DelayQueue`](crate::DelayQueue) hands a value out when its time has come. Pushing it again is the retry,
//! and the count belongs to the value:
//!
//! ```
//! use anthill::DelayQueue;
//! use anthill::delay_queue::ManualClock;
//! use std::time::Duration;
//!
//! struct Mail { to: &'static str, failures: u32 }
//! let clock = ManualClock::new();
//! let outbox = DelayQueue::with_clock(clock.clone());
//! outbox.push(Mail { to: "ant", failures: 0 }, Duration::ZERO)?;
//! # let send = |mail: &Mail| mail.failures == 2;
//! let mut given_up = None;
//! while !outbox.is_empty() {
//!     let mut mail = outbox.take()?.value;
//!     if send(&mail) {
//!         break;
//!     }
//!     mail.failures += 1;
//!     let delay = Duration::from_secs(1 << mail.failures);
//!     match mail.failures {
//!         5 => given_up = Some(mail.to),
//!         _ => _ = outbox.push(mail, delay)?,
//!     }
//!     clock.advance(delay);
//! }
//! assert_eq!(given_up, None); // The third attempt succeeded.
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
