//! Service threads: those that a library starts for itself, whose first caller must not matter.
//!
//! A new thread inherits the processors, the scheduling and the signal mask of the thread that starts it. A
//! service thread outlives its starter and serves all callers, so it takes those of the process instead.
//!
//! Not for: workers of pools, which run the users' tasks. Those inherit, and have hooks.
//!
//! # Invariants
//! 1. A service thread handles no signal of the process at any time: its starter is [`Blocked`] while it
//!    starts the thread.
//! 2. The starter's own mask is restored, also if the thread is refused.

/// Blocks signals on the calling thread until it is dropped.
#[cfg(unix)]
pub(crate) struct Blocked {
    before: Option<libc::sigset_t>,
}

#[cfg(not(unix))]
pub(crate) struct Blocked;

#[cfg(not(unix))]
impl Blocked {
    pub(crate) fn new() -> Self {
        Self
    }
}

/// Signals that the thread's own instructions cause. A thread that blocks one is ended by it without a report.
#[cfg(unix)]
const OWN_FAULTS: [libc::c_int; 7] = [
    libc::SIGSEGV,
    libc::SIGBUS,
    libc::SIGFPE,
    libc::SIGILL,
    libc::SIGTRAP,
    libc::SIGSYS,
    libc::SIGABRT,
];

#[cfg(unix)]
impl Blocked {
    #[expect(
        clippy::multiple_unsafe_ops_per_block,
        reason = "calls of the system with one invariant"
    )]
    pub(crate) fn new() -> Self {
        use std::mem::MaybeUninit;
        let (mut all, mut before) = (MaybeUninit::uninit(), MaybeUninit::uninit());
        // SAFETY: the calls write only to the given sets, and read them after they were written.
        let before = unsafe {
            libc::sigfillset(all.as_mut_ptr());
            for signal in OWN_FAULTS {
                libc::sigdelset(all.as_mut_ptr(), signal);
            }
            let set = libc::pthread_sigmask(libc::SIG_BLOCK, all.as_ptr(), before.as_mut_ptr());
            (set == 0).then(|| before.assume_init())
        };
        Self { before }
    }
}

#[cfg(unix)]
impl Drop for Blocked {
    fn drop(&mut self) {
        if let Some(before) = &self.before {
            // SAFETY: the call reads the set, and writes no other.
            unsafe { libc::pthread_sigmask(libc::SIG_SETMASK, before, std::ptr::null_mut()) };
        }
    }
}

/// Gives the calling thread the processors, the policy and the nice value of the main thread, which Linux
/// keeps per thread. Each is left as it was if the system refuses the change.
#[cfg(all(target_os = "linux", not(miri)))]
#[expect(
    clippy::multiple_unsafe_ops_per_block,
    reason = "calls of the system with one invariant"
)]
pub(crate) fn take_scheduling_of_process() {
    use std::mem::{MaybeUninit, size_of};
    const THIS_THREAD: libc::pid_t = 0;
    // SAFETY: the calls write only to the given set and parameters, which are read only if the call that writes
    // them succeeded.
    unsafe {
        let process = libc::getpid();
        let mut processors = MaybeUninit::<libc::cpu_set_t>::zeroed();
        let bytes = size_of::<libc::cpu_set_t>();
        if libc::sched_getaffinity(process, bytes, processors.as_mut_ptr()) == 0 {
            libc::sched_setaffinity(THIS_THREAD, bytes, processors.as_ptr());
        }
        let mut parameters = MaybeUninit::<libc::sched_param>::zeroed();
        let policy = libc::sched_getscheduler(process);
        if policy >= 0 && libc::sched_getparam(process, parameters.as_mut_ptr()) == 0 {
            libc::sched_setscheduler(THIS_THREAD, policy, parameters.as_ptr());
        }
        // -1 is also a nice value, so an error shows in `errno` alone. The main thread of a process exists, or the
        // calls above have failed, too.
        if policy >= 0 {
            let nice = libc::getpriority(libc::PRIO_PROCESS, process.cast_unsigned());
            if nice != libc::getpriority(libc::PRIO_PROCESS, 0) {
                libc::setpriority(libc::PRIO_PROCESS, 0, nice);
            }
        }
    }
}

#[cfg(not(all(target_os = "linux", not(miri))))]
pub(crate) fn take_scheduling_of_process() {}
