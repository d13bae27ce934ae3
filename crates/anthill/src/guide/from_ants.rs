//! Coming from [ants](https://github.com/panjf2000/ants) (Go).
//!
//! | ants | here |
//! |---|---|
//! | `NewPool(n, ..)`, `NewPool(-1, ..)` | `Pool::builder().capacity(n)`, `.unlimited()` |
//! | `NewPoolWithFunc`, `NewPoolWithFuncGeneric` | [`FuncPool::builder(f)`](crate::FuncPool) |
//! | `NewMultiPool`, `NewMultiPoolWithFunc` | `MultiPool::builder(pool_builder).pools(n)`, `MultiFuncPool` ([`several`](super::several)) |
//! | `RoundRobin`, `LeastTasks` | the strategies of these names, or one of yours |
//! | `Submit`, `Invoke` | [`submit`](crate::Pool::submit) |
//! | `Running`, `Free`, `Waiting`, `Cap` | `running`, `free`, `waiting`, `capacity` |
//! | -1 for "unlimited" | `None` from `free`, [`Capacity::Unlimited`](crate::Capacity) |
//! | `RunningByIndex`, `FreeByIndex`, `WaitingByIndex` | `running_of`, `free_of`, `waiting_of` |
//! | `Tune` | [`tune`](crate::WorkerPool::tune) |
//! | `IsClosed` | `is_released` |
//! | `Release`, `ReleaseTimeout`, `ReleaseContext` | `release`, `release_timeout`, `release_timeout` |
//! | `Reboot` | [`reboot`](crate::WorkerPool::reboot) |
//! | `ants.Submit`, `ants.Release`, .. | [`anthill::submit`](crate::submit), .. |
//! | `WithExpiryDuration`, `WithDisablePurge` | `keep_alive(d)`, `keep_alive(None)` |
//! | `WithPreAlloc` | `preallocate` |
//! | `WithMaxBlockingTasks(n)` | `max_waiting(n)`; 0 refuses the first waiter |
//! | `WithNonblocking` | `nonblocking`, or `try_submit` call by call |
//! | `WithPanicHandler` | `panic_hook` |
//! | `WithLogger` | the features `log` and `tracing` |
//! | `ErrPoolClosed` | `SubmitError::Released(task)` |
//! | `ErrPoolOverload` | `SubmitError::Full(task)` |
//! | `ErrTimeout` | `WaitError::TimedOut` |
//! | `ErrInvalidPreAllocSize` | `BuildError::PreallocateUnlimited` |
//! | `ErrLackPoolFunc`, `ErrInvalidPoolExpiry` | cannot be written |
//!
//! The names of ants are search aliases in these pages.
//!
//! ```
//! // p, _ := ants.NewPool(10, ants.WithNonblocking(true)); defer p.Release()
//! // _ = p.Submit(func() { .. })
//! use anthill::Pool;
//!
//! let p = Pool::builder().capacity(10).nonblocking(true).build()?;
//! p.submit(|| ())?;
//! p.wait_idle()?; // ants leaves this to a WaitGroup of yours.
//! assert_eq!((p.running(), p.free(), p.capacity().limit()), (1, Some(9), Some(10)));
//! assert!(p.release());
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Differences
//! - **Workers are threads.** Fifty thousand tasks that sleep at once are cheap as goroutines and
//!   are fifty thousand threads here.
//! - **Capacity is exact.** Never one worker more, `free` never negative, also while tuning.
//! - **A task may be queued** beyond the capacity, if a queue depth is given. With 0, the default,
//!   it is as in ants.
//! - **The error contains a refused task.** The handle of `spawn` returns values and panics.
//! - **Submitting to a full pool from its own task** runs the task in place instead of locking up:
//!   [`nesting`](super::nesting).
//! - **A panic does not end the worker**, and the panic handler may panic.
//! - **`Release` can be waited for**, as often as you like, also after a time-out: there is no
//!   "already closed" error. `reboot` is safe at any time.
//! - **`Tune` acts at once**: waiters are accepted, idle excess workers end. It works on
//!   preallocated pools.
//! - **No background threads**: no purging goroutine, no ticking clock, no pool created at import.
//!   The default pool is finite (512, or eight per core) where that of ants is not, in effect.
//! - **Keep-alive is 10 seconds** where ants has one.
