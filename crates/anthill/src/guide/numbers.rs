//! The statistics of a pool, and how to interpret them.
//!
//! [`stats`](crate::WorkerPool::stats) returns a consistent snapshot, [`Stats`](crate::Stats), in one short
//! critical section.
//!
//! | field | meaning |
//! |---|---|
//! | `live` (method `running`) | worker threads, including idle ones |
//! | `busy`, `idle` | live = busy + idle; a worker that searches for a task, or is ending, is idle |
//! | (method `free`) | workers that could still be started; 0 does *not* mean that all are busy |
//! | `in_flight` | accepted tasks that have not ended; the limit is capacity + depth |
//! | `queued` | accepted tasks that have not started |
//! | `reserved` | permits held, and tasks that wait behind their key |
//! | `waiting` | threads and futures that wait for room, due tasks of a scheduled pool, mappings and scopes |
//! | `submitted` | all accepted tasks. A mapping or a scope counts the few tasks that run its items, not the items; the last of them may end after it has returned |
//! | `completed`, `panicked`, `cancelled`, `expired`, `released`, `discarded` | ended tasks by outcome |
//! | `refused` | calls that returned their task |
//! | `threads_started`, `threads_retired` | threads started and ended since the pool was built |
//! | `thread_failures` | threads that the operating system refused to start |
//! | `peak_live` | peak number of live workers |
//! | `hook_panics` | panics of hooks |
//!
//! When no task is in flight, every accepted task has ended with exactly one outcome:
//!
//! ```
//! use anthill::Pool;
//!
//! let pool = Pool::builder().capacity(2).build()?;
//! for n in 0..10 {
//!     pool.submit(move || assert!(n != 7, "seven is bad luck"))?;
//! }
//! pool.wait_idle()?;
//! let stats = pool.stats();
//! assert_eq!((stats.submitted, stats.completed, stats.panicked), (10, 9, 1));
//! assert_eq!(
//!     stats.submitted,
//!     stats.completed + stats.panicked + stats.cancelled + stats.expired + stats.released
//!         + stats.discarded
//! );
//! assert_eq!(stats.live, stats.busy + stats.idle);
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! # Interpretation
//! | observation | meaning |
//! |---|---|
//! | `waiting` stays above 0 | the pool is the bottleneck: increase the capacity if the resource behind the tasks allows it |
//! | `queued` stays near the queue depth | tasks wait as long as the queue allows: with a smaller depth, submitters notice the overload earlier |
//! | `refused` increases | load is shed |
//! | `threads_started` increases steadily | the keep-alive is shorter than the pauses between bursts |
//! | `busy` equals the capacity, and `completed` does not increase | tasks are stuck |
