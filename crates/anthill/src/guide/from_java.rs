//! Migrating from Java's executors.
//!
//! # `ThreadPoolExecutor`
//! | Java | anthill |
//! |---|---|
//! | `maximumPoolSize`, `corePoolSize` | `capacity(n)`, `min_workers(n)` |
//! | a bounded `workQueue`; `SynchronousQueue` | `queue_depth(n)`; `queue_depth(0)` |
//! | `keepAliveTime`, `prestartAllCoreThreads` | `keep_alive(d)`, `prestart(n)` |
//! | `setMaximumPoolSize` | [`tune`](crate::WorkerPool::tune) |
//! | `execute`, `submit` | `try_submit`, `try_spawn`, which return an error at a full pool; or `submit`, `spawn`, which wait |
//! | `AbortPolicy` | `on_full(OnFull::Refuse)`, or `try_submit`: the error contains the task |
//! | `CallerRunsPolicy`, `DiscardOldestPolicy`, `DiscardPolicy` | [`on_full`](crate::Builder::on_full) with `RunInCaller`, `DiscardOldest`, `DiscardNewest`; the last two require a `discard_hook` |
//! | `Future.get`, `cancel(false)` | `join`, [`cancel`](crate::JoinHandle::cancel); nothing is interrupted |
//! | `invokeAll`, `invokeAny`, `ExecutorCompletionService` | a [group](super::groups): `wait`, [`invoke_any`](crate::PoolExt::invoke_any), `next` |
//! | `CompletableFuture.supplyAsync(f, pool)` | `spawn_async(f).await?`, and `.await` instead of `thenApply` |
//! | `shutdown`, `awaitTermination` | `release`, `wait_released`; or `release_timeout` for both |
//! | `shutdownNow` | `release_now`, which interrupts no task; on a scheduled pool it returns the schedules |
//! | `shutdown`, `awaitTermination`, then `shutdownNow` | [a shutdown with a grace period](super::shutdown) |
//! | `ForkJoinPool.managedBlock` | [`blocking`](crate::blocking), within the builder's `max_compensation` |
//! | `ThreadLocal` in a pool's threads | [`FuncPool::builder_with_state`](crate::FuncPool::builder_with_state) |
//! | `ThreadFactory` | `thread_name`, `stack_size`, `start_hook`, [`worker_wrap`](crate::Builder::worker_wrap) |
//! | `beforeExecute`, `afterExecute` | [`task_hook`](crate::Builder::task_hook) |
//! | `getActiveCount`, `getLargestPoolSize` | `busy`, `stats().peak_live` |
//! | `newWorkStealingPool`, `ForkJoinPool`, parallel streams | rayon |
//! | virtual threads | an async runtime |
//!
//! # `ScheduledThreadPoolExecutor`, `Timer`
//! | Java | anthill |
//! |---|---|
//! | `schedule(task, delay)` | [`spawn_after`](crate::ScheduledPool::spawn_after), `spawn_at` |
//! | `scheduleAtFixedRate`, `scheduleWithFixedDelay` | `spawn_at_fixed_rate`, `spawn_with_fixed_delay` |
//! | a task that cancels its own future | `spawn_series_until`, `spawn_self_paced` |
//! | `cancel`, with `setRemoveOnCancelPolicy(true)` | `cancel`, which always removes the task |
//! | cancel, and schedule again | `reset_after` of the handle |
//! | `setExecuteExistingDelayedTasksAfterShutdownPolicy`, `setContinueExistingPeriodicTasks..` | `run_pending`, `continue_series` of the builder |
//! | `getDelay` | `due`, `next_due` |
//!
//! # `DelayQueue`
//! | Java | anthill |
//! |---|---|
//! | elements implement `Delayed` | `push(value, delay)`: values of any type |
//! | `put`, `offer` | [`push`](crate::DelayQueue::push), `try_push` |
//! | `take`, `poll`, `poll(time)` | `take`, `try_take`, `take_timeout` |
//! | `remove(Object)`, O(n) | `cancel(id)`, O(log n) |
//! | `drainTo` | `drain_ready` |
//!
//! ```
//! // var pool = new ThreadPoolExecutor(0, 4, 10, SECONDS, new SynchronousQueue<>(), CallerRunsPolicy);
//! // var size = pool.submit(() -> Files.size(path)); .. size.get(); pool.shutdown(); ..
//! use anthill::{OnFull, Pool, ScheduledPool};
//! use std::time::Duration;
//!
//! let pool = Pool::builder().capacity(4).keep_alive(Duration::from_secs(10));
//! let pool = pool.on_full(OnFull::RunInCaller).build()?;
//! let size = pool.spawn(|| std::fs::metadata("Cargo.toml").map(|file| file.len()))?;
//! assert!(size.join()?? > 0);
//!
//! let timer = ScheduledPool::new(pool);
//! let late = timer.spawn_after(Duration::from_millis(1), || "late")?;
//! assert_eq!(late.join()?, "late");
//! timer.release(); // shutdown(), of the timer and of its pool,
//! timer.wait_released()?; // awaitTermination().
//! # Ok::<(), Box<dyn std::error::Error + Send + Sync>>(())
//! ```
//!
//! # Differences
//! - **Threads start before tasks are queued.** Java queues tasks first, and starts threads beyond
//!   `corePoolSize` only when the queue is full, so never with an unbounded queue. An anthill pool starts threads
//!   up to its capacity, and queues tasks only then.
//! - **Tasks are not interrupted.** There is no `Thread.interrupt`. A task that should end early checks
//!   [`current()`](crate::current) or a [`CancelToken`](crate::CancelToken).
//! - **`submit` waits at a full pool.** Java's `submit` throws; the equivalent is `try_submit`.
//! - **Dropping the last handle releases the pool.** Accepted tasks still run, but the drop does not wait for
//!   them. Call `wait_idle` at the end of `main`.
//! - **A late fixed rate skips ticks.** Java makes up for all of them, like `Missed::Burst`.
//! - **A panic is never lost**: it is returned by the join, counted, and passed to the panic hook. In Java, an
//!   exception is lost if nobody calls `get`.
//! - **A join on one of the pool's own workers does not hang**: it runs the task in place or returns an error. A
//!   wait for the pool's end returns an error there. In Java, both can hang.
