//! The feeder: a thread that takes due entries and offers them to a receiver, which may never come.
//!
//! It waits as every consumer does, and the entry that it has taken is leased until its receiver
//! has it. If that never happens (the feeder is stopped, the queue is closed by `close_now`, or all
//! receivers are gone), the entry returns to its place.
//!
//! The offer itself is a parameter, so that models can replace the channel.

use std::sync::Arc;
use std::task::Waker;

use sync_shim::atomic::{AtomicBool, Ordering::Relaxed};
use sync_shim::foreign::drop_quietly;
use sync_shim::{Clock, Parker};

use crate::state::{Effects, Leased, State};
use crate::wait::{Driver, Unavailable};
use crate::{DelayQueue, Entry, Expired};

/// Error of an offer: the value was not received, and is returned.
#[derive(Debug)]
pub struct Unsent<T> {
    /// The offered entry.
    pub value: Expired<T>,
    /// Whether no receiver will ever come.
    pub is_final: bool,
}

/// Handle to stop a feeder.
#[derive(Clone, Debug)]
pub struct Control(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    is_stopped: AtomicBool,
    /// The feeder sleeps here while no entry is due.
    parker: Parker,
    /// Interrupts the current offer, or the next one.
    interrupt: Waker,
}

impl Control {
    /// Creates the handle of a feeder whose offers `interrupt` interrupts. `interrupt` is cloned
    /// under a lock.
    pub fn new(interrupt: Waker) -> Self {
        Self(Arc::new(Inner {
            is_stopped: AtomicBool::new(false),
            parker: Parker::new(),
            interrupt,
        }))
    }

    /// Makes the feeder return its entry and end.
    pub fn stop(&self) {
        // Relaxed: the two wake-ups make the feeder look, and publish the store.
        self.0.is_stopped.store(true, Relaxed);
        self.0.parker.unpark();
        self.0.interrupt.wake_by_ref();
    }
}

/// Offers due entries, one after another, until the feeder is stopped, until an offer fails for
/// good, or until the queue is closed and empty.
///
/// `offer` blocks until the entry is received, or until it is interrupted.
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
            continue; // `close_now` has taken the entry back.
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
