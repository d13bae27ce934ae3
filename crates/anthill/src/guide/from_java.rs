//! Coming from Java's executors.
//!
//! # `ThreadPoolExecutor`
//! | Java | here |
//! |---|---|
//! | `maximumPoolSize`, `corePoolSize` | `capacity(n)`; `min_workers(n)` are kept |
//! | a bounded `workQueue`; `SynchronousQueue` | `queue_depth(n)`; `queue_depth(0)` |
//! | `keepAliveTime`, `prestartAllCoreThreads` | `keep_alive(d)`, `prestart(n)` |
//! | `setMaximumPoolSize` | [`tune`](crate::WorkerPool::tune) |
//! | `execute`, `submit` | `try_submit`, `try_spawn`, which refuse at a full pool too; or wait with `submit`, `spawn` |
//! | `AbortPolicy` | `on_full(OnFull::Refuse)`, or `try_submit`: the refused task is in the error |
//! | `CallerRunsPolicy`, `DiscardOldestPolicy`, `DiscardPolicy` | [`on_full`](crate::Builder::on_full) with `RunInCaller`, `DiscardOldest`, `DiscardNewest`; a `discard_hook`, which the last two need, sees what goes |
//! | `Future.get`, `cancel(false)` | `join`, [`cancel`](crate::JoinHandle::cancel); nothing is interrupted |
//! | `invokeAll`, `invokeAny`, `ExecutorCompletionService` | a [group](super::groups): `wait`, [`invoke_any`](crate::PoolExt::invoke_any), `next` |
//! | `CompletableFuture.supplyAsync(f, pool)` | `spawn_async(f).await?`, and `await` in place of `thenApply` |
//! | `shutdown`, `awaitTermination` | `release`, `wait_released`; `release_timeout` is both |
//! | `shutdownNow` | `release_now`, which interrupts nothing; a scheduled pool's gives the schedules back |
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
//! | Java | here |
//! |---|---|
//! | `schedule(task, delay)` | [`spawn_after`](crate::ScheduledPool::spawn_after), `spawn_at` |
//! | `scheduleAtFixedRate`, `scheduleWithFixedDelay` | `spawn_at_fixed_rate`, `spawn_with_fixed_delay` |
//! | a task that cancels its own future | `spawn_series_until`, `spawn_self_paced` |
//! | `cancel`, with `setRemoveOnCancelPolicy(true)` | `cancel`: it always removes |
//! | cancel, and schedule anew | `reset_after` of the handle |
//! | `setExecuteExistingDelayedTasksAfterShutdownPolicy`, `setContinueExistingPeriodicTasks..` | `run_pending`, `continue_series` of the builder |
//! | `getDelay` | `due`, `next_due` |
//!
//! # `DelayQueue`
//! | Java | here |
//! |---|---|
//! | elements implement `Delayed` | `push(value, delay)`: the time is beside the value |
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
//! - **Threads first, then the queue.** Java queues first, and starts threads beyond `corePoolSize` only
//!   when the queue is full: with an unbounded queue, never. A pool here starts threads up to its
//!   capacity, and queues what comes beyond.
//! - **Nothing is interrupted.** There is no `Thread.interrupt`: a task that is to end early looks at
//!   [`current()`](crate::current) or a [`CancelToken`](crate::CancelToken), or its socket is closed.
//! - **`submit` waits at a full pool**, where Java's throws. What throws is `try_submit`.
//! - **A pool that is dropped is released**: its last handle's drop lets accepted tasks run and does not
//!   wait for them. At the end of `main` wait yourself.
//! - **A fixed rate that is late skips ticks**, where Java makes up for all of them: `Missed::Burst` is
//!   Java's way.
//! - **A task's exception** is in the `Future` or lost, in Java; a panic here is at the join, and counted,
//!   and shown to the panic hook, too.
//! - **`get` on a pool's own thread can hang** in Java. A join on an own worker runs the task in place or
//!   is refused, and so is a wait for the pool's end.
