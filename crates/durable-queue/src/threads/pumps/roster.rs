//! The assignment of threads to pumps, as pure functions of the state.
//!
//! This module takes no locks, reads no clock and runs no pump: `pumps.rs` does, and acts on the results. The tests
//! run random programs.
//!
//! # Invariants
//! 1. A pump is in the roster, or taken by one thread until that thread returns it.
//! 2. If a pump is ready, a thread is roused, or all threads are busy.
//! 3. Some idle thread waits at most until the earliest time of the sleeping pumps, or a thread is roused, or all
//!    threads are busy.
//! 4. While there are pumps, there is a thread, unless the first one could not be started.
//!
//! 2 and 3 hold after the [`Rouse`] of the section has been carried out, unless a start was refused.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::{Duration, Instant};

/// Maximum number of threads for the pumps of a [`Threads`](crate::Threads). More than one, so that a store call
/// that hangs does not stop all others.
pub const PUMP_THREADS: usize = 2;

/// Pause before a thread is started again after the system has refused one.
const START_AGAIN: Duration = Duration::from_secs(1);

/// Identifies a pump. Never used again.
pub(crate) type PumpId = u64;

/// Identifies a thread. Never used again.
pub(super) type ThreadId = u64;

/// `P` is a pump, `K` what unparks a thread.
pub(super) struct Roster<P, K> {
    pumps: BTreeMap<PumpId, State<P>>,
    /// Ready pumps, first come, first served.
    ready: VecDeque<PumpId>,
    /// Times of the sleeping pumps that have one.
    times: BTreeSet<(Instant, PumpId)>,
    /// Threads without a pump.
    idle: Vec<Idle<K>>,
    busy: usize,
    next: u64,
    /// No further thread is started before.
    refused_until: Option<Instant>,
}

enum State<P> {
    Ready(P),
    Running { woken: bool },
    Asleep { pump: P, until: Option<Instant> },
}

struct Idle<K> {
    thread: ThreadId,
    parker: K,
    until: Option<Instant>,
    /// It has a token, or has just been started.
    roused: bool,
}

/// A pass has ended.
pub(super) struct Done<P> {
    pub(super) id: PumpId,
    pub(super) after: After<P>,
}

pub(super) enum After<P> {
    /// The pump wants another pass.
    Again(P),
    Sleep(P, Option<Instant>),
    Ended,
}

/// The next step of a thread.
#[derive(Debug)]
pub(super) enum Next<P> {
    Run(PumpId, P),
    /// Waits for a token, or until that time.
    Park(Option<Instant>),
    End,
}

/// Wake-up or start of a thread, after a section.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Rouse<K> {
    Nothing,
    Unpark(K),
    Start,
}

impl<P, K: Clone> Roster<P, K> {
    pub(super) fn new() -> Self {
        Self {
            pumps: BTreeMap::new(),
            ready: VecDeque::new(),
            times: BTreeSet::new(),
            idle: Vec::new(),
            busy: 0,
            next: 0,
            refused_until: None,
        }
    }

    pub(super) fn new_id(&mut self) -> u64 {
        self.next += 1;
        self.next
    }

    pub(super) fn has(&self, id: PumpId) -> bool {
        self.pumps.contains_key(&id)
    }

    pub(super) fn live(&self) -> usize {
        self.idle.len() + self.busy
    }

    /// Adds a pump, ready for its first pass.
    pub(super) fn add(&mut self, id: PumpId, pump: P) -> Rouse<K> {
        self.pumps.insert(id, State::Ready(pump));
        self.ready.push_back(id);
        match self.rouse(None) {
            Rouse::Nothing if self.idle.is_empty() && self.live() < PUMP_THREADS => Rouse::Start,
            rouse => rouse,
        }
    }

    /// Removes a pump that no thread will run.
    pub(super) fn remove(&mut self, id: PumpId) -> Option<P> {
        self.ready.retain(|ready| *ready != id);
        match self.pumps.remove(&id)? {
            State::Ready(pump) => Some(pump),
            State::Running { .. } | State::Asleep { .. } => None,
        }
    }

    /// An event concerns the pump: it gets another pass.
    pub(super) fn wake(&mut self, id: PumpId) -> Rouse<K> {
        match self.pumps.get_mut(&id) {
            Some(State::Running { woken }) => *woken = true,
            Some(State::Asleep { .. }) => {
                self.make_ready(id);
                return self.rouse(None);
            }
            Some(State::Ready(_)) | None => {}
        }
        Rouse::Nothing
    }

    fn make_ready(&mut self, id: PumpId) {
        let Some(State::Asleep { pump, until }) = self.pumps.remove(&id) else {
            unreachable!("the caller has found it asleep");
        };
        if let Some(until) = until {
            self.times.remove(&(until, id));
        }
        self.pumps.insert(id, State::Ready(pump));
        self.ready.push_back(id);
    }

    /// A thread is being started.
    pub(super) fn started(&mut self, thread: ThreadId, parker: K) {
        self.idle.push(Idle {
            thread,
            parker,
            until: None,
            roused: true,
        });
    }

    /// The system has refused a thread at `now`, if that is known.
    pub(super) fn refused(&mut self, now: Option<Instant>) {
        self.refused_until = now.and_then(|now| now.checked_add(START_AGAIN));
    }

    /// The thread is awake at `now`, and has finished a pass. Without `now` the clock has failed: a ready pump is
    /// returned, or the one whose time is the earliest.
    pub(super) fn next(
        &mut self,
        thread: ThreadId,
        parker: &K,
        done: Option<Done<P>>,
        now: Option<Instant>,
    ) -> (Next<P>, Rouse<K>) {
        let mut keeps = None;
        if let Some(done) = done {
            self.busy -= 1;
            keeps = self.put_back(done);
        } else if let Some(index) = self.idle.iter().position(|idle| idle.thread == thread) {
            self.idle.swap_remove(index);
        } else {
            return (Next::End, Rouse::Nothing); // Dismissed with the last pump.
        }
        self.wake_due(now);
        let Some(id) = self.choose(keeps) else {
            if self.pumps.is_empty() {
                return (Next::End, Rouse::Nothing);
            }
            let first = self.times.first().map(|first| first.0);
            let until = first.filter(|first| !self.is_covered(*first));
            self.idle.push(Idle {
                thread,
                parker: parker.clone(),
                until,
                roused: false,
            });
            return (Next::Park(until), self.rouse(now));
        };
        let before = self.pumps.insert(id, State::Running { woken: false });
        let Some(State::Ready(pump)) = before else {
            unreachable!("a chosen pump is ready");
        };
        self.busy += 1;
        (Next::Run(id, pump), self.rouse(now))
    }

    /// Returns the pump if it is ready. It is not in the line yet.
    fn put_back(&mut self, done: Done<P>) -> Option<PumpId> {
        let Done { id, after } = done;
        let before = self.pumps.remove(&id);
        let woken = matches!(before, Some(State::Running { woken: true }));
        match after {
            After::Ended => None,
            After::Sleep(pump, until) if !woken => {
                self.times.extend(until.map(|until| (until, id)));
                self.pumps.insert(id, State::Asleep { pump, until });
                None
            }
            After::Again(pump) | After::Sleep(pump, _) => {
                self.pumps.insert(id, State::Ready(pump));
                Some(id)
            }
        }
    }

    fn wake_due(&mut self, now: Option<Instant>) {
        let Some(now) = now else {
            if self.ready.is_empty()
                && let Some(&(_, first)) = self.times.first()
            {
                self.make_ready(first);
            }
            return;
        };
        while let Some(&(when, id)) = self.times.first() {
            if when > now {
                return;
            }
            self.make_ready(id);
        }
    }

    /// Takes the next pump from the line. The thread keeps the pump that it had if idle threads can run all others.
    fn choose(&mut self, keeps: Option<PumpId>) -> Option<PumpId> {
        if let Some(kept) = keeps {
            if self.ready.len() <= self.idle.len() {
                return Some(kept);
            }
            self.ready.push_back(kept);
        }
        self.ready.pop_front()
    }

    /// Returns whether an idle thread wakes up by itself at `when` or before.
    fn is_covered(&self, when: Instant) -> bool {
        let is_in_time = |idle: &Idle<K>| idle.until.is_some_and(|until| until <= when);
        self.idle.iter().any(is_in_time)
    }

    /// Restores invariants 2 and 3 after a change. `now` is given on a thread of the roster, which may start another.
    fn rouse(&mut self, now: Option<Instant>) -> Rouse<K> {
        if self.idle.iter().any(|idle| idle.roused) {
            return Rouse::Nothing; // It will look, and do the same.
        }
        let first = self.times.first();
        let is_needed =
            !self.ready.is_empty() || first.is_some_and(|first| !self.is_covered(first.0));
        // The others keep watching the time.
        let latest = self
            .idle
            .iter_mut()
            .max_by_key(|idle| (idle.until.is_none(), idle.until));
        match latest {
            Some(idle) if is_needed => {
                idle.roused = true;
                return Rouse::Unpark(idle.parker.clone());
            }
            Some(_) => return Rouse::Nothing,
            None => {}
        }
        let may = now.is_some_and(|now| self.refused_until.is_none_or(|until| until <= now));
        // Also for a pump that sleeps without a time: its wake-up starts no thread.
        if may && self.busy < PUMP_THREADS && self.pumps.len() > self.busy {
            return Rouse::Start;
        }
        Rouse::Nothing
    }

    /// Dismisses the idle threads after the last pump.
    pub(super) fn dismissed(&mut self) -> Vec<K> {
        if !self.pumps.is_empty() {
            return Vec::new();
        }
        self.idle.drain(..).map(|idle| idle.parker).collect()
    }
}

#[cfg(all(test, not(anthill_loom)))]
mod tests;
