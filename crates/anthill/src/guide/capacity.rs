//! Choosing the capacity and the queue depth.
//!
//! # Capacity
//! The capacity is the most tasks that run at once. Choose it for the resource behind the tasks:
//!
//! - **Tasks that block** (files, a database, DNS): the number of calls that the resource serves well at
//!   once. By Little's law, arrival rate times duration is the number of running tasks: 200 requests per
//!   second of 50 ms each keep 10 workers busy. Add some reserve.
//! - **Tasks that compute**: the number of cores.
//! - **Both kinds**: two pools, so that a long computation does not delay the requests.
//!
//! A large capacity costs little until it is used: a worker is started when there is work, and ends when it
//! has been idle for the keep-alive. Each live worker costs a thread with its stack.
//!
//! [`unlimited`](crate::Builder::unlimited) pools are never full and exert no backpressure. Use them if the
//! number of tasks is bounded elsewhere.
//!
//! # Queue depth
//! With a depth of 0, a task is accepted only if a worker is free or may be started. With a depth of n, n
//! more tasks are accepted and wait in the queue. A deeper queue accepts bursts without blocking submitters,
//! and workers find the next task without a wake-up. It costs latency that submitters do not notice, memory
//! (one cache line per task plus the task's captures), and more tasks are lost if the process is killed.
//!
//! Choose the depth by the longest acceptable time in the queue. If a task takes 10 ms, 4 workers end 400
//! tasks per second, so a depth of 20 means at most 50 ms. Tasks of a microsecond need a depth of hundreds,
//! so that submitters sleep rarely.
//!
//! # The limit is exact
//! At most capacity plus depth tasks are in flight, and no submit is refused below that. Each task in
//! [`blocking`](super::nesting#tasks-that-block) raises the limit by one meanwhile.
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
//! Beyond the limit, calls of [`submit`](crate::Pool::submit) wait, first come, first served.
//! [`max_waiting`](crate::Builder::max_waiting) limits their number.
