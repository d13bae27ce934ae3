//! Retrying calls, keys and values after a failure.
//!
//! | to retry | use | back-off | gives up | result |
//! |---|---|---|---|---|
//! | a function that returns a value | [`spawn_retrying`](crate::ScheduledPool::spawn_retrying) of a `ScheduledPool` | exponential with jitter, by the policy | after `max_attempts` | in the handle: the value, or the last error |
//! | a future | a loop in it: [below](#a-future) | `sleep` | as the loop says | the future's |
//! | the work on a key that receives many events | [`DedupRetryQueue`](crate::DedupRetryQueue): `retry` of a held key | per key and over all keys, by a `RateLimiter` | after `max_attempts`; the key is passed to `dead_letter` | none |
//! | a value with its own count and delay | [`DelayQueue`](crate::DelayQueue): push it again | chosen by the program | decided by the program | none |
//!
//! All are in memory. For retries that survive the process, use a [`DurableQueue`](super::durable).
//! None of them holds a worker between two attempts, as a blocking loop that sleeps would.
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
//! let clock = ManualClock::new(); // For the example. By default, the pool uses the system's clock.
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
//! assert_eq!(page.join()??, "page"); // The first `?` is for the join, the second for the last attempt.
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! - **Permanent errors**: return `Ok(Err(..))`, which is not retried, and join with `???`.
//! - **Cancelling**: call `cancel` of the handle, or use a token: `scheduled.task().cancelled_by(&token)` with
//!   [`TaskBuilderExt`](crate::scheduled_pool::TaskBuilderExt). A running attempt is asked to stop, and no other
//!   attempt follows.
//! - **Release**: a release of the pool ends the task between two attempts, unless the builder sets
//!   `continue_series(true)`. [`release_now`](crate::ScheduledPool::release_now) returns the task.
//! - **Panics**: a panic ends the task without a retry, and the handle returns the panic.
//!
//! # A future
//! A future retries in a loop. It keeps its room in the pool during the back-off, as any task that sleeps.
//!
//! ```
//! # #[cfg(feature = "async-pool")] {
//! use anthill::AsyncPool;
//! use anthill::async_pool::{sleep, timeout};
//! use std::time::Duration;
//!
//! # async fn fetch(attempt: u32) -> Result<&'static str, u32> { if attempt < 3 { Err(attempt) } else { Ok("page") } }
//! let pool = AsyncPool::builder().capacity(100).build()?;
//! let page = pool.spawn(async {
//!     let mut back_off = Duration::from_millis(1);
//!     for attempt in 1..8 {
//!         // A time limit for each attempt.
//!         if let Ok(Ok(page)) = timeout(Duration::from_secs(10), fetch(attempt)).await {
//!             return Ok(page);
//!         }
//!         sleep(back_off).await;
//!         back_off = (2 * back_off).min(Duration::from_secs(10));
//!     }
//!     timeout(Duration::from_secs(10), fetch(8)).await.unwrap_or(Err(8))
//! })?;
//! assert_eq!(page.join()?, Ok("page"));
//! # }
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # A key
//! A failed key is retried after its back-off, or at once when a new event adds it. Two workers never hold the same
//! key, and events that arrive while a worker holds the key are not lost. The queue stores no payload: the worker
//! reads the object that the key names. [`controllers`](super::controllers) shows the loop.
//!
//! # A value
//! A [`DelayQueue`](crate::DelayQueue) delivers a value when it is due. To retry, push the value again. The value
//! contains its own failure count:
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
