//! The figures of a pool.
//!
//! [`stats`](crate::WorkerPool::stats) reads all of [`Stats`](crate::Stats) at one instant, in one
//! short critical section; the single methods read one figure each. A figure that is not read costs
//! nothing.
//!
//! | figure | meaning |
//! |---|---|
//! | `live` (`running()`) | worker threads, including idle ones, as in ants |
//! | `busy`, `idle` | live = busy + idle; a worker between two tasks, or on its way in or out, is idle |
//! | `free()` | workers that could still be started; 0 does *not* mean that all are busy |
//! | `in_flight` | accepted and not ended; compare it with capacity + depth |
//! | `queued` | accepted and not started |
//! | `waiting` | threads and futures that wait for room |
//! | `submitted` | all accepted tasks |
//! | `completed`, `panicked`, `cancelled`, `released` | ended tasks by outcome |
//! | `refused` | calls that returned their task: full, timed out, released, withdrawn |
//! | `threads_started`, `threads_retired` | how often the pool grows and shrinks |
//! | `thread_failures` | threads that the operating system refused |
//! | `peak_live` | the most live workers at once |
//! | `hook_panics` | panics of your hooks |
//!
//! When nothing is in flight, every accepted task has ended in exactly one way:
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
//! # Reading them
//! - `waiting` above 0 for long: the pool is the bottleneck. More capacity, if what stands behind
//!   the tasks can take it; if not, that is the back-pressure you wanted.
//! - `queued` always near the depth: tasks wait as long as the queue allows. A smaller depth
//!   shows it to the submitters instead.
//! - `refused` rising: load is shed. `threads_started` rising with it: the keep-alive is too short
//!   for the rhythm of the work.
//! - `busy` at capacity and `completed` standing still: tasks are stuck.
