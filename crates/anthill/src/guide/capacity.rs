//! Choosing the capacity and the queue depth.
//!
//! # Capacity
//! The capacity is the maximum number of tasks that run at once. Choose it for the resource that the tasks use:
//!
//! - **Tasks that block** (files, a database, DNS): the number of calls that the resource serves well at
//!   once. By Little's law, arrival rate times duration is the number of running tasks: 200 requests per
//!   second of 50 ms each keep 10 workers busy. Add some reserve.
//! - **Tasks that compute**: the number of cores.
//! - **Both kinds**: use two pools, so that long computations do not delay the requests.
//!
//! An unused capacity costs almost nothing: workers start when there is work, and end after the keep-alive. Each
//! live worker costs a thread with its stack.
//!
//! [`unlimited`](crate::Builder::unlimited) pools are never full and apply no backpressure. Use them only if the
//! number of tasks is bounded elsewhere.
//!
//! # Queue depth
//! With a depth of 0, a task is accepted only if a worker is free or can be started. With a depth of n, n more
//! tasks wait in the queue. A deeper queue absorbs bursts, and its workers find the next task without a wake-up.
//! It also hides latency from submitters, takes memory (a cache line per task plus the task's captures), and
//! loses more tasks if the process is killed.
//!
//! Choose the depth by the longest acceptable time in the queue. If a task takes 10 ms, 4 workers complete 400
//! tasks per second, so the last of 20 queued tasks waits 50 ms. Tasks of a microsecond need a depth of some
//! hundreds, so that submitters rarely sleep.
//!
//! # The limit is exact
//! At most capacity plus depth tasks are in flight, and no submit is refused below that. Each task that is in
//! [`blocking`](super::nesting#tasks-that-block) raises the limit by one.
//!
//! ```
//! use anthill::{Pool, SubmitError};
//! use std::sync::{Arc, Barrier};
//!
//! let pool = Pool::builder().capacity(4).queue_depth(1).build()?;
//! let gate = Arc::new(Barrier::new(5)); // Four tasks, and this thread.
//! for _ in 0..4 {
//!     let gate = Arc::clone(&gate);
//!     pool.try_submit(move || gate.wait())?; // Runs, and waits at the gate.
//! }
//! pool.try_submit(|| ())?; // Queued.
//! assert!(matches!(pool.try_submit(|| ()), Err(SubmitError::Full(_))));
//! assert_eq!(pool.in_flight(), 5);
//! gate.wait();
//! pool.wait_idle()?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! At the limit, callers of [`submit`](crate::Pool::submit) wait, first come, first served.
//! [`max_waiting`](crate::Builder::max_waiting) limits their number.
