//! The error type of each call, and how the errors work with `?` and anyhow.
//!
//! | call | error | contents |
//! |---|---|---|
//! | `build` | [`BuildError`](crate::BuildError) | the invalid setting |
//! | `submit`, `spawn`, and their variants | [`SubmitError<T>`](crate::SubmitError) | the reason of the refusal, and the task |
//! | `join` of a handle | [`JoinError`](crate::JoinError) | the reason why there is no value: a panic, a cancellation, a release |
//! | `wait_idle`, `wait_released`, `release_timeout` | [`WaitError`](crate::WaitError) | the reason why the wait ended early |
//! | items of a mapping | [`MapError<E>`](crate::MapError) | the function's error, a panic, or a refusal |
//! | `tune` | [`TuneError`](crate::TuneError) | the reason why the capacity is unchanged |
//! | `ScheduledPool` | `ScheduleError<F>`, `ResetError` | the reason of the refusal, and the task; the reason why a run was not rescheduled |
//! | `DelayQueue` | `PushError<T>`, `TakeError` | the reason of the refusal, and the value; the reason why a take returned no value |
//! | `DedupQueue` | `ShutDown<K>`, `GetError` | the refused key; the reason why a get returned no key |
//!
//! All are `Send`, `Sync` and `'static` if their contents are. `Display` prints one line in lower case.
//!
//! # `?`, with anyhow or a boxed error
//! An error that contains a task is as large as the task. It converts to a boxed error only if all captures are
//! `Sync`. `without_task` drops the task and keeps the reason, which always converts.
//!
//! ```
//! use anthill::{Pool, SubmitError};
//! use anyhow::{Context, Result};
//!
//! fn count_lines(pool: &Pool, path: &'static str) -> Result<usize> {
//!     let reading = pool
//!         .spawn(move || std::fs::read_to_string(path))
//!         .map_err(SubmitError::without_task)
//!         .context("no worker for the file")?;
//!     // The first `?` is for the join, the second for the task's own error.
//!     let text = reading.join().context("the reader panicked")?.with_context(|| path)?;
//!     Ok(text.lines().count())
//! }
//!
//! let pool = Pool::builder().capacity(1).build()?;
//! assert!(count_lines(&pool, "Cargo.toml")? > 0);
//! let missing = count_lines(&pool, "no such file").unwrap_err();
//! assert!(missing.downcast_ref::<std::io::Error>().is_some());
//! pool.release();
//! let refused = count_lines(&pool, "Cargo.toml").unwrap_err();
//! assert!(refused.downcast_ref::<SubmitError>().is_some());
//! # Ok::<(), anyhow::Error>(())
//! ```
//!
//! A task may itself return `anyhow::Error` or a boxed error. These types do not implement `Error`, so neither
//! does a `MapError` that contains them. [`into_error`](crate::MapError::into_error) returns the task's error, or
//! converts a panic or a refusal to its type. It works for mappings, `wait_ok` of a group, and `invoke_any`:
//!
//! ```
//! use anthill::{MapError, Pool};
//! use anthill::prelude::*;
//! use anyhow::{Context, Result};
//!
//! fn size(path: &str) -> Result<u64> {
//!     Ok(std::fs::metadata(path).with_context(|| format!("cannot look at {path}"))?.len())
//! }
//!
//! fn sizes(pool: &Pool) -> Result<u64> {
//!     let mut sum = 0;
//!     for bytes in pool.try_map(["Cargo.toml"], size) {
//!         sum += bytes.map_err(MapError::into_error)?;
//!     }
//!     pool.try_for_each(["src"], |path| size(path).map(drop)).map_err(MapError::into_error)?;
//!
//!     let group = pool.group();
//!     group.spawn(|| size("Cargo.toml"))?;
//!     group.wait_ok().map_err(MapError::into_error)?;
//!
//!     let mirrors = ["nowhere", "Cargo.toml"].map(|path| move || size(path));
//!     pool.invoke_any(mirrors).map_err(MapError::into_error)?.context("there is a mirror")?;
//!     pool.try_for_each(["nowhere"], |path| size(path).map(drop)).map_err(MapError::into_error)?;
//!     Ok(sum)
//! }
//!
//! let pool = Pool::builder().capacity(2).build()?;
//! let missing = sizes(&pool).unwrap_err();
//! assert_eq!(missing.to_string(), "cannot look at nowhere");
//! assert!(missing.downcast_ref::<std::io::Error>().is_some()); // Its cause is still there.
//! # anyhow::Ok(())
//! ```
//!
//! # Using a returned task
//! ```
//! use anthill::{Pool, SubmitError};
//!
//! let pool = Pool::builder().capacity(1).build()?;
//! # let (hold, held) = std::sync::mpsc::channel::<()>();
//! # pool.submit(move || _ = held.recv()).map_err(SubmitError::without_task)?;
//! match pool.try_submit(|| println!("a report")) {
//!     Ok(()) => {}
//!     Err(SubmitError::Full(task)) => task(), // Runs it on this thread.
//!     Err(other) => return Err(other.without_task().into()),
//! }
//! # drop(hold);
//! # Ok::<(), Box<dyn std::error::Error + Send + Sync>>(())
//! ```
//!
//! # Pitfalls
//! - **`submit` drops the `Result` that a task returns.** To see a task's error, use a handle (`spawn`, then
//!   `join()??`), a group's [`wait_ok`](crate::TaskGroup::wait_ok), or [`try_map`](crate::PoolExt::try_map).
//! - **Without a handle, a panic is only printed to stderr** and passed to your [hook](super::panics).
//! - **Retry only after `Full` and `TimedOut`** ([`is_full`](crate::SubmitError::is_full)). A released pool
//!   ([`is_released`](crate::SubmitError::is_released)) refuses all tasks until it is rebooted.
