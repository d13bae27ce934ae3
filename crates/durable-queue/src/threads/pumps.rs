//! The threads that run pumps, shared by the queues of a [`Threads`](crate::Threads).
//!
//! `pumps/roster.rs` decides, in one section each, which thread runs which pump; this module carries it out.
//! `PROTOCOL.md` describes both.
//!
//! # Invariants
//! 1. A pass runs without the lock, on the one thread that has taken the pump from the roster.
//! 2. No user code runs in a section. A panic of user code ends its pump, and no thread.
//! 3. A pump is dropped before it is removed from the roster, so a joined pump has been dropped.

mod roster;

use std::collections::BTreeMap;
use std::io;
use std::mem;
use std::sync::Arc;
use std::time::Instant;

use sync_shim::foreign::{discard, drop_quietly, guarded};
use sync_shim::thread::{JoinHandle, ThreadOptions, set_precise_timers, spawn_service};
use sync_shim::{Clock, Condvar, Mutex, Parker};

use crate::threads::clock::SharedClock;

use self::roster::{After, Done, Next, Roster, Rouse, ThreadId};

pub use self::roster::PUMP_THREADS;
pub(crate) use self::roster::PumpId;

/// A pump, as its thread sees it.
pub(crate) trait Pass: Send {
    /// Makes one pass, at most a few calls of the store.
    fn pass(&mut self, now: Instant) -> Step;

    /// Ends the pump, without further calls of the store.
    fn end(&mut self, cut_short: bool);
}

/// Result of a pass.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Step {
    Again,
    /// There is nothing to do until that time, or until the pump is [woken](Pumps::wake).
    Sleep(Option<Instant>),
    End {
        cut_short: bool,
    },
}

type Pump = Box<dyn Pass>;

/// The pumps of a number of queues, and their threads.
pub(crate) struct Pumps {
    clock: SharedClock,
    state: Mutex<State>,
    /// Notified when a pump is removed.
    removed: Condvar,
    #[cfg(test)]
    refuses: sync_shim::atomic::AtomicBool,
}

struct State {
    roster: Roster<Pump, Parker>,
    handles: BTreeMap<ThreadId, JoinHandle>,
    /// Threads that have been told to end with the last pump.
    ending: Vec<JoinHandle>,
}

impl Pumps {
    pub(crate) fn new(clock: SharedClock) -> Arc<Self> {
        Arc::new(Self {
            clock,
            state: Mutex::new(State {
                roster: Roster::new(),
                handles: BTreeMap::new(),
                ending: Vec::new(),
            }),
            removed: Condvar::new(),
            #[cfg(test)]
            refuses: sync_shim::atomic::AtomicBool::new(false),
        })
    }

    pub(crate) fn new_id(&self) -> PumpId {
        self.state.lock().roster.new_id()
    }

    /// Adds a pump, and starts a thread if none can run it.
    ///
    /// # Errors
    /// The refusal of the operating system, if there is no thread at all. The pump is dropped.
    pub(crate) fn add(self: &Arc<Self>, id: PumpId, pump: Pump) -> io::Result<()> {
        let mut state = self.state.lock();
        let rouse = state.roster.add(id, pump);
        let started = self.start_if(&rouse, &mut state, None);
        let refused = match started {
            Err(error) if state.roster.live() == 0 => Some((state.roster.remove(id), error)),
            Ok(()) | Err(_) => None,
        };
        drop(state);
        unpark(rouse);
        refused.map_or(Ok(()), |(_pump, error)| Err(error)) // Dropped after the unlock.
    }

    /// An event concerns a pump that sleeps or is about to: it gets another pass.
    pub(crate) fn wake(&self, id: PumpId) {
        let mut state = self.state.lock();
        let rouse = state.roster.wake(id);
        drop(state);
        unpark(rouse);
    }

    /// Blocks until the pump has been dropped, and, if it was the last one, its threads have ended.
    pub(crate) fn join(&self, id: PumpId) {
        let mut state = self.state.lock();
        while state.roster.has(id) {
            self.removed.wait(&mut state);
        }
        let ending = mem::take(&mut state.ending);
        drop(state);
        for thread in ending {
            // Its body catches all panics.
            drop(thread.join());
        }
    }

    /// Starts a thread, if the section has decided so: under the lock, so that no pump waits for a thread that is
    /// refused.
    fn start_if(
        self: &Arc<Self>,
        rouse: &Rouse<Parker>,
        state: &mut State,
        now: Option<Instant>,
    ) -> io::Result<()> {
        let Rouse::Start = rouse else {
            return Ok(());
        };
        let started = self.start(state);
        if started.is_err() {
            state.roster.refused(now);
        }
        started
    }

    fn start(self: &Arc<Self>, state: &mut State) -> io::Result<()> {
        #[cfg(test)]
        if self.refuses.load(sync_shim::atomic::Ordering::SeqCst) {
            return Err(io::Error::other("the test allows no threads"));
        }
        let options = ThreadOptions {
            name: Some("durable-queue"),
            ..ThreadOptions::default()
        };
        let (thread, parker) = (state.roster.new_id(), Parker::new());
        let body = {
            let (pumps, parker) = (Arc::clone(self), parker.clone());
            move || pumps.serve(thread, &parker)
        };
        let handle = spawn_service(options, body)?;
        state.handles.insert(thread, handle);
        state.roster.started(thread, parker);
        Ok(())
    }

    /// Body of a thread.
    fn serve(self: &Arc<Self>, thread: ThreadId, parker: &Parker) {
        set_precise_timers();
        let (mut done, mut has_failed) = (None, false);
        loop {
            // USER CODE: the clock. A panic ends a pump, which cannot know its times.
            let now = if mem::take(&mut has_failed) {
                None
            } else {
                caught(|| self.clock.now())
            };
            match self.next(thread, parker, done.take(), now) {
                Next::Run(id, pump) => {
                    let after = run(pump, now);
                    done = Some(Done { id, after });
                }
                Next::Park(until) => {
                    // USER CODE: the clock, as above.
                    has_failed = caught(|| self.park(parker, until)).is_none();
                }
                Next::End => return,
            }
        }
    }

    fn park(&self, parker: &Parker, until: Option<Instant>) {
        match until {
            None => parker.park(),
            Some(when) => _ = self.clock.park_until(parker, when),
        }
    }

    fn next(
        self: &Arc<Self>,
        thread: ThreadId,
        parker: &Parker,
        done: Option<Done<Pump>>,
        now: Option<Instant>,
    ) -> Next<Pump> {
        let has_ended = matches!(&done, Some(done) if matches!(done.after, After::Ended));
        let mut dismissed = Vec::new();
        let mut state = self.state.lock();
        let (next, rouse) = state.roster.next(thread, parker, done, now);
        if matches!(next, Next::End) {
            dismissed = state.roster.dismissed();
            let State {
                handles, ending, ..
            } = &mut *state;
            if has_ended {
                *ending = mem::take(handles).into_values().collect();
            }
        }
        // A refused thread is started again later; this one runs all pumps.
        self.start_if(&rouse, &mut state, now).ok();
        drop(state);
        unpark(rouse);
        if has_ended {
            self.removed.notify_all();
        }
        for parker in dismissed {
            parker.unpark();
        }
        next
    }
}

/// Wakes the thread that a section has chosen, after the unlock.
fn unpark(rouse: Rouse<Parker>) {
    if let Rouse::Unpark(parker) = rouse {
        parker.unpark();
    }
}

/// Calls user code. Returns `None` if it panics.
fn caught<R>(call: impl FnOnce() -> R) -> Option<R> {
    guarded(call).map_err(discard).ok()
}

/// Makes a pass. Without `now`, or after a panic, the pump ends.
fn run(mut pump: Pump, now: Option<Instant>) -> After<Pump> {
    // USER CODE: stores and clocks; the pass catches the panics of stores. No lock is held.
    let step = now.and_then(|now| caught(|| pump.pass(now)));
    match step.unwrap_or(Step::End { cut_short: true }) {
        Step::Again => After::Again(pump),
        Step::Sleep(until) => After::Sleep(pump, until),
        Step::End { cut_short } => {
            // USER CODE: wakers of waiting calls, and of unanswered settles.
            caught(|| pump.end(cut_short));
            // USER CODE: the drop of the watch, and perhaps of the store's last handle.
            drop_quietly(pump);
            After::Ended
        }
    }
}

#[cfg(all(test, not(anthill_loom)))]
mod tests;
