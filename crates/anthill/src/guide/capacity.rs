//! How many workers, and how deep a queue.
//!
//! # Capacity
//! The capacity is the most tasks that run at once. Choose it for what stands behind the tasks:
//!
//! - **Tasks that block** (files, a database, DNS): as many as that thing serves well at once. If
//!   tasks arrive at some rate and hold a worker for some time, rate times time of them run at
//!   once: 200 requests a second of 50 ms each keep 10 workers busy. Leave some air above that.
//! - **Tasks that compute**: as many as there are cores. More only take turns.
//! - **Both kinds**: two pools. One long computation must not hold up the requests.
//!
//! A large capacity costs little until it is used: a worker is started when there is work and
//! ends when it has idled for the keep-alive. Each live one costs a thread with its stack.
//!
//! [`unlimited`](crate::Builder::unlimited) pools are never full and exert no back-pressure. They
//! fit where something else already bounds the number of tasks.
//!
//! # Queue depth
//! With a depth of 0, a task is accepted only when a worker is free for it or may be started. With
//! a depth of n, n more are accepted and wait in the queue. Depth buys two things: bursts are
//! accepted without a wait, and workers find the next task without a wake-up. It costs latency
//! that the submitter does not see, memory (one cache line per task, and what it owns), and tasks
//! that are lost if the process dies.
//!
//! How long may an accepted task wait? If a task takes 10 ms and 4 workers run them, 400 are done
//! per second: for a wait of at most 50 ms, a depth of 20. Tasks of a microsecond want a depth of
//! hundreds, so that a submitter sleeps rarely.
//!
//! # The limit is exact
//! In flight are at most capacity plus depth, always; below that, no submit is refused. (A task that
//! [blocks and says so](super::nesting#tasks-that-block) makes it one more for that time.)
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
//! Beyond the limit, calls of [`submit`](crate::Pool::submit) wait, first come, first served, as
//! many as [`max_waiting`](crate::Builder::max_waiting) allows.
