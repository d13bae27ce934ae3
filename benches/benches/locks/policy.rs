//! The lock of `backoff-spinlock` with its waiting policy as parameters, so that rejected policies
//! can be measured again. That crate documents the protocol.

use std::sync::atomic::Ordering::{Acquire, Relaxed, Release};

use lock_api::{GuardNoSend, RawMutex};
use sync_shim::Futex;
use sync_shim::thread::{spin_loop, yield_now};

const FREE: u32 = 0;
const HELD: u32 = 1;
const CONTENDED: u32 = 2;
const RESERVED: u32 = 3;

/// More yields than any run makes, so such a lock never sleeps.
pub(crate) const FOR_EVER: u32 = u32::MAX / 2;

/// `SPINS` doubling rounds of spin hints, `YIELDS` doubling rounds of up to `MOST` yields, then
/// sleep. `AGAIN` rounds of yields after a sleep. The last parameter selects whether turns are
/// reserved.
pub(crate) struct Policy<
    const SPINS: u32,
    const YIELDS: u32,
    const MOST: u32,
    const AGAIN: u32,
    const TURNS: bool,
>(Futex);

// SAFETY: one thread at a time exchanges the word from free or reserved to held or contended.
unsafe impl<const S: u32, const Y: u32, const M: u32, const A: u32, const T: bool> RawMutex
    for Policy<S, Y, M, A, T>
{
    const INIT: Self = Self(Futex::new(FREE));
    type GuardMarker = GuardNoSend;

    #[inline]
    fn lock(&self) {
        let word = &self.0;
        if word
            .compare_exchange_weak(FREE, HELD, Acquire, Relaxed)
            .is_err()
        {
            self.lock_slow();
        }
    }

    fn try_lock(&self) -> bool {
        let word = &self.0;
        word.compare_exchange(FREE, HELD, Acquire, Relaxed).is_ok()
    }

    #[inline]
    unsafe fn unlock(&self) {
        if self.0.swap(FREE, Release) == CONTENDED {
            self.wake();
        }
    }
}

impl<const S: u32, const Y: u32, const M: u32, const A: u32, const T: bool> Policy<S, Y, M, A, T> {
    #[cold]
    fn wake(&self) {
        if T {
            self.0.wake_one_fairly(FREE, RESERVED);
        } else {
            self.0.wake_one();
        }
    }

    #[cold]
    fn lock_slow(&self) {
        let (mut round, mut yields, mut ours) = (0, Y, HELD);
        loop {
            let word = self.0.load(Relaxed);
            if word == FREE || (word == RESERVED && ours == CONTENDED) {
                if self
                    .0
                    .compare_exchange(word, ours, Acquire, Relaxed)
                    .is_ok()
                {
                    return;
                }
            } else if round < S {
                (0..1 << round).for_each(|_| spin_loop());
                round += 1;
            } else if round < S + yields {
                (0..M.min(1 << (round - S).min(16))).for_each(|_| yield_now());
                round += 1;
            } else if word != HELD
                || self
                    .0
                    .compare_exchange(HELD, CONTENDED, Relaxed, Relaxed)
                    .is_ok()
            {
                self.0
                    .wait(if word == HELD { CONTENDED } else { word }, None);
                (round, yields, ours) = (0, A, CONTENDED);
            }
        }
    }
}
