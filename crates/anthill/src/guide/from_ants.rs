//! Migrating from [ants](https://github.com/panjf2000/ants) (Go).
//!
//! | ants | anthill |
//! |---|---|
//! | `NewPool(n, ..)`, `NewPool(-1, ..)` | `Pool::builder().capacity(n)`, `.unlimited()` |
//! | `NewPoolWithFunc`, `NewPoolWithFuncGeneric` | [`FuncPool::builder(f)`](crate::FuncPool) |
//! | `NewMultiPool`, `NewMultiPoolWithFunc` | `MultiBuilder::new(pool_builder).pools(n)`, `MultiFuncPool` ([`several`](super::several)) |
//! | `RoundRobin`, `LeastTasks` | the strategies of the same names, or your own |
//! | `Submit`, `Invoke` | [`submit`](crate::Pool::submit) |
//! | `Running`, `Free`, `Waiting`, `Cap` | `running`, `free`, `waiting`, `capacity` |
//! | -1 for "unlimited" | `None` from `free`, [`Capacity::Unlimited`](crate::Capacity) |
//! | `RunningByIndex`, `FreeByIndex`, `WaitingByIndex` | `running_of`, `free_of`, `waiting_of` |
//! | `Tune` | [`tune`](crate::WorkerPool::tune) |
//! | `IsClosed` | `is_released` |
//! | `Release`; `ReleaseTimeout`, `ReleaseContext` | `release`; `release_timeout` |
//! | `Reboot` | [`reboot`](crate::WorkerPool::reboot) |
//! | `ants.Submit`, `ants.Release`, .. | [`anthill::submit`](crate::submit), .. |
//! | `WithExpiryDuration`, `WithDisablePurge` | `keep_alive(d)`, `keep_alive(None)` |
//! | `WithPreAlloc` | `preallocate` |
//! | `WithMaxBlockingTasks(n)` | `max_waiting(n)`; 0 refuses the first waiter |
//! | `WithNonblocking` | `nonblocking`; or `try_submit` for single calls |
//! | `WithPanicHandler` | `panic_hook` |
//! | `WithLogger` | the features `log` and `tracing` |
//! | `ErrPoolClosed` | `SubmitError::Released(task)` |
//! | `ErrPoolOverload` | `SubmitError::Full(task)` |
//! | `ErrTimeout` | `WaitError::TimedOut` |
//! | `ErrInvalidPreAllocSize` | `BuildError::PreallocateUnlimited` |
//! | `ErrLackPoolFunc`, `ErrInvalidPoolExpiry` | rejected by the compiler |
//!
//! The search of this documentation also finds the names of ants.
//!
//! ```
//! // p, _ := ants.NewPool(10, ants.WithNonblocking(true)); defer p.Release()
//! // _ = p.Submit(func() { .. })
//! use anthill::Pool;
//!
//! let p = Pool::builder().capacity(10).nonblocking(true).build()?;
//! p.submit(|| ())?;
//! p.wait_idle()?; // With ants, a program uses its own WaitGroup.
//! assert_eq!((p.running(), p.free(), p.capacity().limit()), (1, Some(9), Some(10)));
//! assert!(p.release());
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Differences
//! - **Workers are threads.** Fifty thousand sleeping tasks are cheap as goroutines, but take fifty thousand
//!   threads in anthill.
//! - **The capacity is exact**, also during `tune`: never an additional worker, and `free` is never negative.
//! - **A pool may have a queue.** Its depth is 0 by default, as in ants.
//! - **The error contains the refused task.** The handle of `spawn` returns the task's value or its panic.
//! - **A task that submits to its own full pool** runs the new task [in place](super::nesting). In ants it
//!   deadlocks.
//! - **A panic does not end the worker**, even if the panic hook itself panics.
//! - **Any number of calls may wait for a release**, also after a time-out; there is no "already closed" error.
//!   `reboot` is safe at any time.
//! - **`tune` acts at once**: it accepts waiters and ends excess idle workers. It works on preallocated pools.
//! - **No background threads**: no purging goroutine, no ticking clock, no pool created at import.
//! - **The default pool is bounded**: 512 workers, or eight per core. The default pool of ants is practically
//!   unlimited.
//! - **The keep-alive is 10 seconds** by default, in ants 1 second.
