//! Threads: starting them, yielding, and the tag that says which pool a thread belongs to.

use std::{fmt, io};

pub use crate::statics::{available_parallelism, cores};

/// Options for starting a thread.
#[derive(Clone, Copy, Default)]
pub struct ThreadOptions<'a> {
    /// The thread's name; the operating system may show only its first 15 bytes.
    pub name: Option<&'a str>,
    /// Bytes of stack; the platform's default if absent.
    pub stack_size: Option<usize>,
    /// Called before the thread is started. An error counts as a refusal by the operating system.
    pub gate: Option<&'a (dyn Fn() -> io::Result<()> + Send + Sync)>,
}

impl fmt::Debug for ThreadOptions<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("ThreadOptions")
            .field("name", &self.name)
            .field("stack_size", &self.stack_size)
            .finish_non_exhaustive()
    }
}

impl ThreadOptions<'_> {
    /// Calls the gate, and checks the name.
    fn builder(self) -> io::Result<imp::Builder> {
        if let Some(gate) = self.gate {
            gate()?;
        }
        let mut builder = imp::Builder::new();
        if let Some(name) = self.name {
            if name.contains('\0') {
                return Err(io::Error::new(
                    io::ErrorKind::InvalidInput,
                    "a thread's name has no NUL inside",
                ));
            }
            builder = builder.name(name.to_owned());
        }
        if let Some(bytes) = self.stack_size {
            builder = builder.stack_size(bytes);
        }
        Ok(builder)
    }
}

/// Handle of a started thread, to be joined.
#[derive(Debug)]
pub struct JoinHandle(imp::JoinHandle<()>);

impl JoinHandle {
    /// Blocks until the thread has ended, its thread-locals dropped.
    ///
    /// # Errors
    /// The panic payload, if the thread's body panicked.
    pub fn join(self) -> std::thread::Result<()> {
        self.0.join()
    }

    /// Whether the thread has ended, its thread-locals dropped. Always `false` in a model.
    pub fn is_finished(&self) -> bool {
        #[cfg(not(anthill_loom))]
        return self.0.is_finished();
        #[cfg(anthill_loom)]
        return false;
    }
}

/// Starts a thread. If that fails, `body` is dropped without being run.
///
/// # Errors
/// The gate's refusal, a name with an inner NUL, or the operating system's refusal.
pub fn spawn_thread(
    options: ThreadOptions<'_>,
    body: impl FnOnce() + Send + 'static,
) -> io::Result<JoinHandle> {
    options.builder()?.spawn(body).map(JoinHandle)
}

/// Like [`spawn_thread`], for a thread of a library's own, such as a timer. It does not inherit the state of
/// the caller that happened to be first.
///
/// - **Signals**: all are blocked from the start, except those that report faults of the thread itself
///   (such as `SIGSEGV`). So the process's handlers run on the program's own threads, and no call of a
///   service thread is interrupted.
/// - **Processors, scheduling policy and nice value**: on Linux, those that the process's main thread has at the
///   start. On other systems, the starter's.
///
/// A process without privileges may not raise a priority again. So a service thread that a thread of nice 15
/// starts keeps that value, unless the process has `CAP_SYS_NICE` or a fitting `RLIMIT_NICE`. The same is true of
/// a starter under `SCHED_IDLE`.
///
/// # Errors
/// Those of [`spawn_thread`].
pub fn spawn_service(
    options: ThreadOptions<'_>,
    body: impl FnOnce() + Send + 'static,
) -> io::Result<JoinHandle> {
    #[cfg(not(anthill_loom))]
    let (_blocked, body) = (crate::service::Blocked::new(), move || {
        crate::service::take_scheduling_of_process();
        body();
    });
    spawn_thread(options, body)
}

/// Makes the calling thread one like those of [`spawn_service`], for a worker of a pool that serves a library. It may
/// have handled a signal before.
pub fn become_service() {
    #[cfg(not(anthill_loom))]
    {
        std::mem::forget(crate::service::Blocked::new());
        crate::service::take_scheduling_of_process();
    }
}

/// Runs `body`, which is everything the calling thread does, and calls `last` as the thread's last
/// act: after the thread-locals that `body` created have been dropped.
///
/// `last` must not unwind. Std drops thread-locals in the reverse order of their creation but does
/// not guarantee it. Where the order differs, and for destructors registered with the system's
/// thread library, `last` may run before some of them. So it is only a hint that a join will not
/// block for long. In a model the thread-locals are dropped after `last`.
pub fn with_last_act(body: impl FnOnce(), last: impl FnOnce() + 'static) {
    #[cfg(not(anthill_loom))]
    {
        // A worker that forks is the only thread of the child. Its end there, with the process, is no act of the
        // parent's worker, and the parent's locks may be held for ever.
        let process = crate::Process::current();
        crate::statics::set_last_act(Box::new(move || {
            if process.is_current() {
                last();
            }
        }));
        body();
    }
    #[cfg(anthill_loom)]
    {
        body();
        last();
    }
}

/// A thread of this process, for the operating system.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SystemThread(
    #[cfg(all(target_os = "linux", not(anthill_loom)))] libc::pid_t,
    #[cfg(not(all(target_os = "linux", not(anthill_loom))))] (),
);

impl SystemThread {
    /// Returns the calling thread. Costs a system call on Linux.
    pub fn current() -> Self {
        // SAFETY: the call accesses no memory, and always succeeds.
        #[cfg(all(target_os = "linux", not(anthill_loom)))]
        return Self(unsafe { libc::gettid() });
        #[cfg(not(all(target_os = "linux", not(anthill_loom))))]
        Self(())
    }

    /// Returns whether the thread has a core or waits for one. `false` if it sleeps, if it has ended, or if the system
    /// does not say. Reads a file of procfs on Linux, which takes some microseconds.
    pub fn is_runnable(self) -> bool {
        #[cfg(all(target_os = "linux", not(anthill_loom)))]
        return crate::procfs::is_runnable(self.0);
        #[cfg(not(all(target_os = "linux", not(anthill_loom))))]
        false
    }
}

/// Makes the calling thread's timed waits end as soon as the system can end them.
///
/// Linux delays the end of a wait by up to 50 µs, to wake several threads at a time. This call
/// reduces the calling thread's timer slack to the minimum. It has no effect on other systems. For
/// threads that serve timers: each of their waits may then cost a wake-up of the processor.
pub fn set_precise_timers() {
    #[cfg(all(target_os = "linux", not(anthill_loom)))]
    {
        const LEAST: libc::c_ulong = 1;
        // SAFETY: the call accesses no memory; it sets a number of the calling thread.
        unsafe { libc::prctl(libc::PR_SET_TIMERSLACK, LEAST) };
    }
}

/// Lets another thread run, if one is ready.
pub fn yield_now() {
    imp::yield_now();
}

#[cfg(not(anthill_loom))]
pub use crate::yielding::{are_yields_refused, nanos, yield_briefly};

/// In a model a yield takes no time.
#[cfg(anthill_loom)]
pub fn yield_briefly(times: u32) -> bool {
    (0..times).for_each(|_| yield_now());
    true
}

/// A model has no other processes.
#[cfg(anthill_loom)]
pub fn are_yields_refused() -> bool {
    false
}

/// Time does not pass in a model.
#[cfg(anthill_loom)]
pub fn nanos() -> u64 {
    0
}

/// A point in time by the machine's clock.
// Of std's atomics, because it is a statistic, which models ignore.
#[derive(Debug)]
pub(crate) struct Stamp(std::sync::atomic::AtomicU64);

impl Stamp {
    pub(crate) const fn new() -> Self {
        Self(std::sync::atomic::AtomicU64::new(0))
    }

    pub(crate) fn set(&self) {
        self.0.store(nanos(), std::sync::atomic::Ordering::Relaxed);
    }

    pub(crate) fn get(&self) -> u64 {
        self.0.load(std::sync::atomic::Ordering::Relaxed)
    }
}

pub use crate::statics::{Tag, thread_number};

/// A hint to the processor that this is a spin loop.
#[inline]
pub fn spin_loop() {
    imp::spin_loop();
}

/// Returns the identifier of the owner for which the calling thread is starting another thread at
/// this moment, including the user's gate; otherwise 0.
pub fn starter_of() -> usize {
    crate::statics::starter()
}

/// Runs `start`, during which [`starter_of`] returns `whose`.
pub fn as_starter_of<R>(whose: usize, start: impl FnOnce() -> R) -> R {
    /// Restores the outer starter, also after a panic.
    struct Outer(usize);
    impl Drop for Outer {
        fn drop(&mut self) {
            crate::statics::set_starter(self.0);
        }
    }
    let _outer = Outer(starter_of());
    crate::statics::set_starter(whose);
    start()
}

#[cfg(not(anthill_loom))]
mod imp {
    pub(super) use std::hint::spin_loop;
    pub(super) use std::thread::{Builder, JoinHandle, yield_now};
}

#[cfg(anthill_loom)]
mod imp {
    pub(super) use crate::runtime::thread::{Builder, JoinHandle, yield_now};
    // A spinning thread must let the other threads run, or the model never ends.
    pub(super) use crate::runtime::thread::yield_now as spin_loop;
}
