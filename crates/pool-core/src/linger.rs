//! A submitter that had to wait stays away until half the queue is free.
//!
//! Its task was accepted as soon as one task ended. Back at once, it would find the pool full again
//! and wait for each of its tasks; so it waits once for hundreds. Where many linger, the first two
//! are told when half the queue is free, the others when it is empty or their time is up. It pays
//! for that with its own time alone, and is back before its task starts, which stands at the end of
//! the queue. It waits on a timer, so nobody has to remember it, and it holds nothing.
//!
//! Not for: submitters with a deadline, which have said how long they may be kept; futures, whose
//! thread has other things to do; workers, whose place is with their task. Models leave it out: it
//! ends by itself.

use std::sync::Arc;
use std::time::Duration;

use sync_shim::{Clock, MonotonicClock};

use crate::after::{Notice, NoticeWait};
use crate::core::{Core, Runner};
use crate::handle::Home;
use crate::state::State;
use crate::wait::{SUBMIT, spin_until};

/// How long it stays away at most, in real time: tasks of some microseconds free half of a queue of
/// hundreds by then (`docs/decisions/full-queues.md`).
const MOST: Duration = Duration::from_millis(2);

/// With less queue than this there are not many tasks to wait for.
const LEAST_DEPTH: usize = 16;

impl<R: Runner> Core<R> {
    /// The caller's task was accepted after a wait.
    pub(crate) fn linger(&self) {
        if self.config.depth < LEAST_DEPTH || self.is_own_worker() {
            return;
        }
        let notice = NoticeWait::new();
        if !self.state.lock().linger(notice.notice()) {
            return;
        }
        // Small tasks free half a queue in no time.
        let given = spin_until(SUBMIT, || notice.is_given()) || {
            let until = MonotonicClock.now() + MOST;
            notice.wait_until(&MonotonicClock, Some(until))
        };
        if !given {
            let mut guard = self.state.lock();
            notice.leave(&mut guard.lingering);
        }
    }
}

impl<J> State<J> {
    /// A submitter stays away until half the queue is free; not if it is already.
    pub(crate) fn linger(&mut self, notice: Arc<Notice>) -> bool {
        let lingers = self.open && !self.is_half_free();
        if lingers {
            self.invited = false;
            self.lingering.push(notice);
        }
        lingers
    }
}
