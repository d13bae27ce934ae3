//! A fence in two halves, of which one is free.
//!
//! Two threads that each store one word and then load the other's need a fence in between, or both
//! may miss what the other stored (Dekker's problem). Where one of them does so a thousand times as
//! often as the other, the fences can be unequal: [`light`] only holds the compiler, and [`heavy`]
//! makes every running thread of the process pass a full fence.
//!
//! On Linux [`heavy`] is the system call `membarrier` (private expedited, since 4.14): half a
//! microsecond, and an interrupt for each core that runs a thread of ours. Elsewhere, and where the
//! kernel does not know it, both are full fences. The idea is that of user-space RCU (Desnoyers and
//! others, 2012).
//!
//! Not for: publishing data. What a load sees is ordered by its own acquire and release.
//!
//! # What always holds
//! If [`light`] came between a store and a load of one thread, and [`heavy`] returned `true`
//! between a store and a load of another, at least one of them sees what the other stored.
//!
//! # Why
//! [`light`] is light only after the process has been registered, and then [`heavy`] asks the
//! kernel. A thread that has not heard of it yet passes a full fence of its own, which serves as
//! well.

pub use sides::{heavy, light};

#[cfg(all(target_os = "linux", not(anthill_loom)))]
mod sides {
    use std::sync::OnceLock;
    use std::sync::atomic::{
        AtomicBool,
        Ordering::{Relaxed, SeqCst},
        compiler_fence, fence,
    };

    use libc::{
        MEMBARRIER_CMD_PRIVATE_EXPEDITED as EXPEDITED,
        MEMBARRIER_CMD_REGISTER_PRIVATE_EXPEDITED as REGISTER,
    };

    /// Whether the process is registered.
    static LIGHT: AtomicBool = AtomicBool::new(false);

    /// The half that is free.
    #[inline]
    pub fn light() {
        // Relaxed: a thread that does not see it yet is only slower.
        if LIGHT.load(Relaxed) {
            compiler_fence(SeqCst);
        } else {
            full();
        }
    }

    #[cold]
    fn full() {
        register();
        fence(SeqCst);
    }

    /// The half that pays. `false` if the kernel has changed its mind (a sandbox entered later):
    /// then it orders nothing.
    #[must_use]
    pub fn heavy() -> bool {
        fence(SeqCst);
        !register() || membarrier(EXPEDITED)
    }

    /// Registers the process, once. Whether the kernel can.
    fn register() -> bool {
        static KNOWN: OnceLock<bool> = OnceLock::new();
        *KNOWN.get_or_init(|| {
            let known = membarrier(REGISTER);
            LIGHT.store(known, Relaxed);
            known
        })
    }

    fn membarrier(command: libc::c_int) -> bool {
        // SAFETY: the call takes numbers only, and does nothing to memory but order accesses.
        unsafe { libc::syscall(libc::SYS_membarrier, command, 0, 0) == 0 }
    }
}

#[cfg(any(not(target_os = "linux"), anthill_loom))]
mod sides {
    use crate::atomic::{Ordering::SeqCst, fence};

    /// The half that is free where it can be.
    #[inline]
    pub fn light() {
        fence(SeqCst);
    }

    /// The half that pays. Always `true` here.
    #[must_use]
    pub fn heavy() -> bool {
        fence(SeqCst);
        true
    }
}
