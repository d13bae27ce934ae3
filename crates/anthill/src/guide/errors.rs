//! Errors: what each call can say, and `?`.
//!
//! | call | error | says |
//! |---|---|---|
//! | `build` | [`BuildError`](crate::BuildError) | what cannot be built as asked |
//! | `submit`, `spawn`, and all their kin | [`SubmitError<T>`](crate::SubmitError) | why the task was not taken, with the task |
//! | `join` of a handle | [`JoinError`](crate::JoinError) | why there is no value: a panic, a cancel, a release |
//! | `wait_idle`, `wait_released`, `release_timeout` | [`WaitError`](crate::WaitError) | why the wait ended before |
//! | a mapping's items | [`MapError<E>`](crate::MapError) | your error, a panic, or a refusal |
//! | `tune` | [`TuneError`](crate::TuneError) | why nothing has changed |
//! | `ScheduledPool` | `ScheduleError<F>`, `ResetError` | as `SubmitError`; why a run keeps its time |
//! | `DelayQueue` | `PushError<T>`, `TakeError` | why a value was not taken, with the value; why none came |
//! | `DedupQueue` | `ShutDown<K>`, `GetError` | the same of keys |
//!
//! All are `Send`, `Sync` and `'static` as far as what they bring back is, and `Display` is one line in
//! lower case.
//!
//! # `?`, with anyhow or a boxed error
//! An error that brings a task back is as large as the task, and of its type. A boxed error takes it only
//! if all captures are `Sync`. Where nothing is done with the task, say so: `without_task` leaves the bare
//! reason, which any boxed error takes, whatever the task captures.
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
//!     // First whether it ran, then what it returned.
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
//! A task's own error may be `anyhow::Error`, or boxed, too. Those types do not implement `Error`, so neither
//! does a `MapError` of them. [`into_error`](crate::MapError::into_error) returns the task's own error, or a
//! panic or refusal converted to its type. This applies to mappings, to `try_wait` of a group, and to
//! `invoke_any`:
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
//!     group.try_wait().map_err(MapError::into_error)?;
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
//! # Using what comes back
//! ```
//! use anthill::{Pool, SubmitError};
//!
//! let pool = Pool::builder().capacity(1).build()?;
//! # let (hold, held) = std::sync::mpsc::channel::<()>();
//! # pool.submit(move || _ = held.recv()).map_err(SubmitError::without_task)?;
//! match pool.try_submit(|| println!("a report")) {
//!     Ok(()) => {}
//!     Err(SubmitError::Full(task)) => task(), // Here, then.
//!     Err(other) => return Err(other.without_task().into()),
//! }
//! # drop(hold);
//! # Ok::<(), Box<dyn std::error::Error + Send + Sync>>(())
//! ```
//!
//! # What bites
//! - **A task's own `Result` is a value.** `submit` drops it. An error that matters goes through a
//!   handle (`spawn`, then `join()??`), a group's
//!   [`try_wait`](crate::TaskGroup::try_wait) (and [`cancel_on_failure`](crate::TaskGroup::cancel_on_failure)), or [`try_map`](crate::PoolExt::try_map).
//! - **A panic is an error at the join**, and without a handle a line on stderr, or your
//!   [hook](super::panics).
//! - **`Full` and `TimedOut` may pass, `Released` does not**: [`is_full`](crate::SubmitError::is_full)
//!   and [`is_released`](crate::SubmitError::is_released) say which.
