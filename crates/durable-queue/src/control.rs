//! What the pump and all others share: commands, the calls that wait, and the pump's sleep, under one
//! lock.
//!
//! Not for: jobs on their way to a call, which the pump has to itself, and the store, which is called
//! with the lock free. The steps are those of `PROTOCOL.md`.
//!
//! # What always holds
//! 1. No user code and no store runs in a section.
//! 2. While `sleep` is there, the pump sleeps or is about to, and nothing that concerns it has come
//!    since it looked.
//! 3. While there are `quiet` commands, the pump looks at the spare jobs at a time that it knows, or is closing.

use std::mem;
use std::time::{Duration, Instant};

use sync_shim::atomic::{AtomicU64, Ordering::Relaxed};
use sync_shim::foreign::drop_quietly;
use sync_shim::waiter::{Waiter, WakeList};
use sync_shim::{Clock, Mutex, Parker, fork_count};

use crate::calls::{Calls, Look, Ticket, Wanted};
use crate::clock::SharedClock;
use crate::command::{Command, Ready};
use crate::error::{ErrorKind, SettleError, StoreError, TakeError};
use crate::stats::Counters;
use crate::time::StoreTime;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Open,
    /// Nothing is taken any more. The pump ends when nothing is held, or at this time.
    Closing(Option<Instant>),
    /// The pump has ended, or never was.
    Over,
}

#[derive(Debug)]
struct State {
    phase: Phase,
    calls: Calls,
    commands: Vec<Command>,
    /// Commands that wait for the next call that asks, or for the pump's look at the spare jobs: they wake nobody.
    quiet: Vec<Command>,
    /// The earliest time that a store has announced since the pump last looked here.
    announced: StoreTime,
    /// While the pump sleeps: only what is announced to be earlier concerns it.
    sleep: Option<StoreTime>,
    has_pump: bool,
    at_end: Vec<Waiter>,
    /// The pump ended with something held.
    cut_short: bool,
    last_error: Option<StoreError>,
}

/// See the module.
#[derive(Debug)]
pub(crate) struct Control {
    /// `fork_count()` where the pump is.
    forks: usize,
    state: Mutex<State>,
    /// The pump's place to sleep.
    parker: Parker,
    pub(crate) clock: SharedClock,
    pub(crate) counters: Counters,
    /// How long a turn takes, of late, in nanoseconds.
    round_trip: AtomicU64,
}

/// What the pump finds when it looks.
#[derive(Debug)]
pub(crate) struct Orders {
    pub(crate) commands: Vec<Command>,
    /// Spare jobs that are to be given back.
    pub(crate) late: Vec<Ready>,
    /// When the spare jobs are to be looked at again.
    pub(crate) look_at: Option<Instant>,
    pub(crate) announced: StoreTime,
    pub(crate) demand: usize,
    /// The pump ends when nothing is held, or at the deadline.
    pub(crate) closing: bool,
    pub(crate) deadline: Option<Instant>,
}

impl Control {
    pub(crate) fn new(clock: SharedClock) -> Self {
        Self {
            forks: fork_count(),
            state: Mutex::new(State {
                phase: Phase::Open,
                calls: Calls::default(),
                commands: Vec::new(),
                quiet: Vec::new(),
                announced: StoreTime::NEVER,
                sleep: None,
                has_pump: false,
                at_end: Vec::new(),
                cut_short: false,
                last_error: None,
            }),
            parker: Parker::new(),
            clock,
            counters: Counters::default(),
            round_trip: AtomicU64::new(0),
        }
    }

    /// This is a child of the process that has the pump: there is none here, and the fork may have
    /// left the lock held. What concerns the lock is asked for only if this says `false`.
    pub(crate) fn is_forked(&self) -> bool {
        fork_count() != self.forks
    }

    /// One hold of the lock, after which the pump is woken if it was taken out of its sleep, and then
    /// the waiters that the section has dequeued.
    fn section<R>(&self, change: impl FnOnce(&mut State, &mut WakeList) -> R) -> R {
        let mut wakes = WakeList::new();
        let (result, wake) = {
            let mut state = self.state.lock();
            let slept = state.sleep.is_some();
            let result = change(&mut state, &mut wakes);
            (result, slept && state.sleep.is_none())
        };
        if wake {
            self.parker.unpark();
        }
        // USER CODE: wakers of futures. Last, after the pump and threads are awake. Panics end there.
        wakes.wake_all();
        result
    }

    // Step 1, of the parties other than the pump.

    /// A call begins to wait for up to so many jobs. What it settles before is entered in the same
    /// section, so that the pump finds both and makes one turn of them; also if the call is refused.
    pub(crate) fn ask(
        &self,
        mut settled: Vec<Command>,
        wanted: Wanted,
        waiter: Waiter,
    ) -> Result<Ticket, TakeError> {
        let asked = self.section(|state, wakes| {
            if state.phase != Phase::Over {
                state.commands.append(&mut state.quiet);
                state.commands.append(&mut settled);
            }
            state.sleep = None;
            if state.phase != Phase::Open {
                wakes.push(waiter); // Dropped with the lock free, by being woken for nothing.
                return Err(TakeError::ShutDown);
            }
            Ok(state.calls.enqueue(wanted, waiter, wakes))
        });
        drop(settled); // As in `command`.
        asked
    }

    /// A spare job, unless the queue is closed. What is settled goes with it, if the pump will look at the spare jobs
    /// without being woken.
    pub(crate) fn next_spare(&self, settled: &mut Vec<Command>) -> Option<Ready> {
        self.section(|state, _| {
            if state.phase != Phase::Open {
                return None;
            }
            let job = state.calls.take_spare()?;
            if state.calls.look_at().is_some() {
                state.quiet.append(settled);
            }
            Some(job)
        })
    }

    /// How long a turn takes, of late.
    pub(crate) fn round_trip(&self) -> Duration {
        Duration::from_nanos(self.round_trip.load(Relaxed)) // A measurement: no other memory is read because of it.
    }

    /// Counts by an eighth.
    pub(crate) fn learn_round_trip(&self, took: Duration) {
        let took = u64::try_from(took.as_nanos()).unwrap_or(u64::MAX / 8);
        let before = self.round_trip.load(Relaxed); // As above; the pump alone writes it.
        let mean = if before == 0 {
            took
        } else {
            before - before / 8 + took / 8
        };
        self.round_trip.store(mean, Relaxed);
    }

    /// What a call has been given; or it waits on, by this waiter.
    pub(crate) fn look(
        &self,
        ticket: Ticket,
        waiter: Waiter,
    ) -> Option<Result<Vec<Ready>, TakeError>> {
        let mut waiter = Some(waiter);
        let look = self.section(|state, _| state.calls.look(ticket, &mut waiter));
        // USER CODE: the drop of a waker that is not needed. A panic must not cost the call its jobs.
        drop_quietly(waiter);
        match look {
            Look::Waits(before) => {
                // USER CODE: the drop of the stale waker.
                drop_quietly(before);
                None
            }
            Look::Served(jobs) => Some(Ok(jobs)),
            Look::Gone => Some(Err(TakeError::ShutDown)),
        }
    }

    /// A call ends without having looked again: what it was given meanwhile.
    pub(crate) fn leave(&self, ticket: Ticket) -> Vec<Ready> {
        let (jobs, waiter) = self.section(|state, _| state.calls.leave(ticket));
        // USER CODE: the drop of a waker that was not called. A panic must not cost the call its jobs.
        drop_quietly(waiter);
        jobs
    }

    /// Hands a command to the pump. If there is none any more, the answer is that.
    pub(crate) fn command(&self, command: Command) {
        if self.is_forked() {
            return command.answer(Err(SettleError::Forked));
        }
        let refused = self.section(|state, _| {
            if state.phase == Phase::Over {
                return Some(command);
            }
            state.commands.push(command);
            state.sleep = None;
            None
        });
        // USER CODE: the waker of its reply. After the unlock.
        drop(refused);
    }

    /// A store says that a job may be due at `due` that was not before.
    pub(crate) fn announce(&self, due: StoreTime) {
        if self.is_forked() {
            return;
        }
        self.section(|state, _| {
            state.announced = state.announced.min(due);
            if state.sleep.is_some_and(|threshold| due < threshold) {
                state.sleep = None;
            }
        });
    }

    /// Takes no more; the pump ends once nothing is held, or at `deadline`.
    pub(crate) fn close(&self, deadline: Option<Instant>) {
        if self.is_forked() {
            return;
        }
        self.section(|state, wakes| {
            match state.phase {
                Phase::Open | Phase::Closing(_) if !state.has_pump => {
                    state.phase = Phase::Over;
                    state.at_end.drain(..).for_each(|waiter| wakes.push(waiter));
                }
                Phase::Open => state.phase = Phase::Closing(deadline),
                // The last word counts: it may be an earlier deadline, or the first.
                Phase::Closing(_) if deadline.is_some() => state.phase = Phase::Closing(deadline),
                Phase::Closing(_) | Phase::Over => {}
            }
            state.calls.close(wakes);
            state.sleep = None;
        });
    }

    /// A pump is about to be started: `false` if there is one, or none may be.
    pub(crate) fn reserve_pump(&self) -> bool {
        self.section(|state, _| {
            let may = state.phase == Phase::Open && !state.has_pump;
            state.has_pump |= may;
            may
        })
    }

    /// There was no thread for it.
    pub(crate) fn no_pump(&self) {
        let closing = self.section(|state, _| {
            state.has_pump = false;
            state.phase != Phase::Open
        });
        if closing {
            self.close(None); // It had counted on the pump to end.
        }
    }

    /// Blocks until the pump has ended, or until `deadline`: `false`.
    pub(crate) fn wait_for_end(&self, deadline: Option<Instant>) -> bool {
        let parker = Parker::of_thread();
        let is_over = || self.state.lock().phase == Phase::Over;
        self.section(|state, wakes| {
            let waiter = Waiter::Thread(parker.clone());
            match state.phase {
                Phase::Over => wakes.push(waiter),
                _ => state.at_end.push(waiter),
            }
        });
        while !is_over() {
            match deadline {
                None => parker.park(),
                Some(when) => {
                    if !self.clock.park_until(&parker, when) {
                        return is_over();
                    }
                }
            }
        }
        true
    }

    /// Whether anything may still be taken.
    pub(crate) fn is_open(&self) -> bool {
        self.state.lock().phase == Phase::Open
    }

    /// Whether the pump ended with something held.
    pub(crate) fn was_cut_short(&self) -> bool {
        self.state.lock().cut_short
    }

    pub(crate) fn last_error(&self) -> Option<StoreError> {
        if self.is_forked() {
            return Some(StoreError::new(ErrorKind::Forked));
        }
        self.state.lock().last_error.clone()
    }

    // The pump's steps.

    /// Step 2: what there is to do. Before any look at the store, so that what is announced after
    /// that look is still there at the next.
    pub(crate) fn collect(&self, now: Instant) -> Orders {
        // Not a `section`: that would wake the pump, which is awake, and its next sleep would end at
        // once, and so on.
        let mut state = self.state.lock();
        state.sleep = None; // Awake: it looks again before it sleeps.
        let closing = state.phase != Phase::Open;
        let mut late = Vec::new();
        if closing || state.calls.look_at().is_some_and(|at| at <= now) {
            late = state.calls.late(now, closing);
            let State {
                commands, quiet, ..
            } = &mut *state;
            commands.append(quiet);
        }
        Orders {
            commands: mem::take(&mut state.commands),
            late,
            look_at: state.calls.look_at(),
            announced: mem::replace(&mut state.announced, StoreTime::NEVER),
            demand: state.calls.demand(),
            closing,
            deadline: match state.phase {
                Phase::Closing(deadline) => deadline,
                Phase::Open | Phase::Over => None,
            },
        }
    }

    /// Step 5: gives started jobs to the calls that wait. What is left over was wanted by calls that
    /// are gone.
    pub(crate) fn serve(&self, jobs: Vec<Ready>) -> Vec<Ready> {
        if jobs.is_empty() {
            return jobs;
        }
        let now = self.clock.now(); // Before the section: the clock is user code.
        self.section(|state, wakes| state.calls.serve(jobs, now, wakes))
    }

    /// Step 6: sleeps until `when`, or until something concerns the pump: a command, a call that
    /// asks, a close, an announcement before `threshold`. `seen` is what the pump has acted upon.
    pub(crate) fn sleep(&self, seen: Seen, threshold: StoreTime, when: Option<Instant>) {
        let concerns = self.section(|state, _| {
            let concerns = !state.commands.is_empty()
                || state.announced < threshold
                || state.calls.demand() != seen.demand
                || (state.phase != Phase::Open) != seen.closing;
            // In the section that looked: what comes later finds the pump asleep, and wakes it.
            if !concerns {
                state.sleep = Some(threshold);
            }
            concerns
        });
        if concerns {
            return;
        }
        match when {
            None => self.parker.park(),
            Some(when) => _ = self.clock.park_until(&self.parker, when),
        }
    }

    pub(crate) fn failed(&self, error: Option<StoreError>) {
        let before = mem::replace(&mut self.state.lock().last_error, error);
        // USER CODE: the drop of an error's source, which is the store's. After the unlock.
        drop_quietly(before);
    }

    /// Step 7: the pump ends. What is still wanted is not done.
    pub(crate) fn end(&self, cut_short: bool) {
        let commands = self.section(|state, wakes| {
            state.phase = Phase::Over;
            state.cut_short = cut_short;
            state.calls.close(wakes);
            state.at_end.drain(..).for_each(|waiter| wakes.push(waiter));
            (mem::take(&mut state.commands), mem::take(&mut state.quiet))
        });
        // USER CODE: the wakers of their replies. After the unlock.
        drop(commands);
    }
}

/// What the pump has acted upon when it wants to sleep.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Seen {
    pub(crate) demand: usize,
    pub(crate) closing: bool,
}
