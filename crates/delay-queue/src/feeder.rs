//! Feeding: a thread takes what falls due and offers it to a receiver, which may never come.
//!
//! It waits as every taking thread does, and what it has taken is reserved until its receiver
//! has it: if that never happens, because the feeder is stopped, the queue is closed for good, or
//! there is no receiver any more, the entry goes back to where it was.
//!
//! What "offering" is stays open here, so that models can put their own in place of a channel.

use std::sync::Arc;
use std::task::Waker;

use sync_shim::atomic::{AtomicBool, Ordering::Relaxed};
use sync_shim::foreign::drop_quietly;
use sync_shim::{Clock, Parker};

use crate::state::{Effects, Leased, State};
use crate::wait::{Driver, Unavailable};
use crate::{DelayQueue, Entry, Expired};

/// Why something was not received. It comes back.
#[derive(Debug)]
pub struct Unsent<T> {
    /// What was offered.
    pub value: Expired<T>,
    /// Whether there will never be a receiver.
    pub is_final: bool,
}

/// Stops a feeder from outside.
#[derive(Clone, Debug)]
pub struct Control(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    is_stopped: AtomicBool,
    /// Where the feeder sleeps while nothing is due.
    parker: Parker,
    /// Ends an offer that is under way, or the next one.
    interrupt: Waker,
}

impl Control {
    /// Of a feeder whose offers `interrupt` ends. It is cloned under a lock.
    pub fn new(interrupt: Waker) -> Self {
        Self(Arc::new(Inner {
            is_stopped: AtomicBool::new(false),
            parker: Parker::new(),
            interrupt,
        }))
    }

    /// Makes the feeder end, with nothing in its hands.
    pub fn stop(&self) {
        // Relaxed: the two wake-ups make the feeder look, and publish it.
        self.0.is_stopped.store(true, Relaxed);
        self.0.parker.unpark();
        self.0.interrupt.wake_by_ref();
    }
}

/// Offers what falls due, one entry after the other, until stopped, until an offer says that there
/// will never be a receiver, or until the queue is closed and nothing is left in it.
///
/// `offer` blocks until there is a receiver, or until it is interrupted.
pub fn feed<T: Send + 'static, C: Clock>(
    queue: &DelayQueue<T, C>,
    control: &Control,
    mut offer: impl FnMut(Expired<T>) -> Result<(), Unsent<T>>,
) {
    let Control(inner) = control;
    let shared = &*queue.0;
    let look = |state: &mut State<T>, effects: &mut Effects| {
        // Relaxed: `stop` sets it, then wakes this thread.
        if inner.is_stopped.load(Relaxed) {
            return Err(Unavailable::Closed);
        }
        state.check_out(&inner.interrupt, effects)
    };
    while let Ok(leased) = shared.wait(&inner.parker, None, look) {
        let collected = match leased {
            Leased::Now(out) => Some(out),
            Leased::Later(id) => shared.section(|state, _| state.collect(id)),
        };
        let Some(out) = collected else {
            continue; // The queue was closed for good, which took it back.
        };
        let (value, out) = out.split();
        let entry = Entry {
            id: out.id(),
            due: out.due(),
            value,
        };
        let Err(unsent) = offer(shared.expired(entry)) else {
            shared.section(|state, effects| state.gone(out, effects));
            continue;
        };
        let out = out.with(unsent.value.value);
        let cleared = shared.section(|state, effects| state.check_in(out, effects));
        // USER CODE: the drop of a value that was cleared while it was offered.
        drop_quietly(cleared);
        if unsent.is_final {
            return;
        }
    }
}
