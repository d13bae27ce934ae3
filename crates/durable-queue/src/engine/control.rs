//! State shared by the pump and all other parties: commands, waiting calls, and the pump's sleep, under one
//! lock.
//!
//! The pump alone owns the jobs that it has claimed but not handed out. Stores are called outside the lock.
//! `PROTOCOL.md` defines the numbered steps.
//!
//! # Invariants
//! 1. No user code and no call of a store runs in a section.
//! 2. While `sleep` is set, the pump sleeps or is about to, and no event that concerns it has happened since
//!    it looked.
//! 3. While there are `quiet` commands, the pump will look at the spare jobs at a known time, or is closing.

use std::io;
use std::mem;
use std::sync::Arc;
use std::time::{Duration, Instant};

use sync_shim::atomic::{AtomicU64, Ordering::Relaxed};
use sync_shim::foreign::drop_quietly;
use sync_shim::waiter::{Waiter, WakeList};
use sync_shim::{Clock, Mutex, Parker, Process};

use crate::engine::calls::{Calls, Demand, Look, Refill, Ticket, Wanted};
use crate::engine::command::{Command, Ready};
use crate::engine::lanes::{ANY, Lanes, LanesId};
use crate::engine::stats::Counters;
use crate::error::{ErrorKind, SettleError, StoreError, TakeError};
use crate::store::time::StoreTime;
use crate::threads::Threads;
use crate::threads::clock::SharedClock;
use crate::threads::pumps::{Pass, PumpId, Pumps};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Phase {
    Open,
    /// No more jobs are taken. The pump ends when no job is held, or at this time.
    Closing(Option<Instant>),
    /// The pump has ended, or was never started.
    Over,
}

impl Phase {
    fn deadline(self) -> Option<Instant> {
        match self {
            Self::Closing(deadline) => deadline,
            Self::Open | Self::Over => None,
        }
    }
}

#[derive(Debug)]
struct State {
    phase: Phase,
    calls: Calls,
    commands: Vec<Command>,
    /// Commands that do not wake the pump. They wait for the next request, or for the pump's look at the
    /// spare jobs.
    quiet: Vec<Command>,
    /// The earliest time announced by a store since the pump last looked.
    announced: StoreTime,
    /// Set while the pump sleeps: announcements of later times do not wake it.
    sleep: Option<StoreTime>,
    has_pump: bool,
    at_close: Vec<Waiter>,
    at_end: Vec<Waiter>,
    /// The pump ended while it held jobs.
    cut_short: bool,
    last_error: Option<StoreError>,
}

pub(crate) struct Control {
    /// Runs the pump.
    process: Process,
    state: Mutex<State>,
    /// Run the pump, which has this number.
    pumps: Arc<Pumps>,
    pump: PumpId,
    pub(crate) clock: SharedClock,
    pub(crate) counters: Counters,
    /// Recent duration of a turn, in nanoseconds.
    round_trip: AtomicU64,
}

/// The pump's work, as found in one section.
#[derive(Debug)]
pub(crate) struct Orders {
    pub(crate) commands: Vec<Command>,
    /// Spare jobs to release.
    pub(crate) late: Vec<Ready>,
    /// When to look at the spare jobs again.
    pub(crate) look_at: Option<Instant>,
    pub(crate) announced: StoreTime,
    pub(crate) demand: Demand,
    pub(crate) seen: Seen,
    /// The pump ends when no job is held, or at the deadline.
    pub(crate) closing: bool,
    pub(crate) deadline: Option<Instant>,
}

impl State {
    /// Adds the settles of a call, and the quiet commands with them, unless the pump has ended.
    fn add(&mut self, settled: &mut Vec<Command>) {
        if self.phase != Phase::Over {
            self.commands.append(&mut self.quiet);
            self.commands.append(settled);
        }
    }

    fn seen(&self) -> Seen {
        Seen {
            changes: self.calls.changes(),
            phase: self.phase,
        }
    }
}

impl Control {
    pub(crate) fn new(threads: &Threads) -> Self {
        Self {
            process: Process::current(),
            state: Mutex::new(State {
                phase: Phase::Open,
                calls: Calls::new(),
                commands: Vec::new(),
                quiet: Vec::new(),
                announced: StoreTime::NEVER,
                sleep: None,
                has_pump: false,
                at_close: Vec::new(),
                at_end: Vec::new(),
                cut_short: false,
                last_error: None,
            }),
            pump: threads.pumps.new_id(),
            pumps: Arc::clone(&threads.pumps),
            clock: threads.clock.clone(),
            counters: Counters::default(),
            round_trip: AtomicU64::new(0),
        }
    }

    /// Returns whether this process is a forked child of the pump's process. The fork may have left the lock
    /// held, so check this before locking.
    pub(crate) fn is_forked(&self) -> bool {
        !self.process.is_current()
    }

    pub(crate) fn process(&self) -> Process {
        self.process
    }

    /// Runs `change` under the lock. Then wakes the pump, if `change` ended its sleep, and the dequeued
    /// waiters, which may be user code.
    fn section<R>(&self, change: impl FnOnce(&mut State, &mut WakeList) -> R) -> R {
        let mut wakes = WakeList::new();
        let (result, wake) = {
            let mut state = self.state.lock();
            let slept = state.sleep.is_some();
            let result = change(&mut state, &mut wakes);
            (result, slept && state.sleep.is_none())
        };
        if wake {
            self.pumps.wake(self.pump);
        }
        // USER CODE: wakers of futures. Last, after the pump and threads are awake. Panics end there.
        wakes.wake_all();
        result
    }

    // Step 1: parties other than the pump.

    /// Registers a call that waits for jobs. Its settles are added in the same section, so that the pump
    /// sends both in one turn. They are added even if the call is refused.
    pub(crate) fn ask(
        &self,
        mut settled: Vec<Command>,
        lanes: LanesId,
        wanted: Wanted,
        waiter: Waiter,
    ) -> Result<Ticket, TakeError> {
        let asked = self.section(|state, wakes| {
            state.add(&mut settled);
            state.sleep = None;
            if state.phase != Phase::Open {
                wakes.push(waiter); // Woken, and so dropped, after the section.
                return Err(TakeError::ShutDown);
            }
            Ok(state.calls.enqueue(lanes, wanted, waiter, wakes))
        });
        drop(settled); // As in `command`.
        asked
    }

    /// Adds the lanes of a worker.
    pub(crate) fn add_lanes(&self, lanes: Lanes) -> LanesId {
        self.section(|state, _| state.calls.add_lanes(lanes))
    }

    /// Returns the lanes of handles: of any jobs, or of those of a kind.
    pub(crate) fn lanes_of(&self, kind: Option<&'static str>) -> LanesId {
        kind.map_or(ANY, |kind| {
            self.section(|state, _| state.calls.lanes_of(kind))
        })
    }

    /// A job of a worker has ended, after `took`: another one of its kind may run.
    pub(crate) fn ended(&self, lanes: LanesId, lane: usize, took: Duration) {
        if lanes == ANY {
            return;
        }
        self.section(|state, wakes| {
            if state.calls.ended(lanes, lane, took, wakes) {
                state.sleep = None;
            }
        });
    }

    /// Takes a spare job of the lanes, unless the queue is closed. Also adds `settled`, if the pump will look at the spare
    /// jobs without being woken, or is woken because of `refill`.
    pub(crate) fn next_spare(
        &self,
        lanes: LanesId,
        settled: &mut Vec<Command>,
        refill: Option<Refill>,
    ) -> Option<Ready> {
        self.section(|state, _| {
            if state.phase != Phase::Open {
                return None;
            }
            let job = state.calls.take_spare(lanes)?;
            if refill.is_some_and(|refill| state.calls.refill(lanes, refill)) {
                state.add(settled);
                state.sleep = None;
            } else if state.calls.look_at().is_some() {
                state.quiet.append(settled);
            }
            Some(job)
        })
    }

    pub(crate) fn round_trip(&self) -> Duration {
        Duration::from_nanos(self.round_trip.load(Relaxed)) // A measurement: no other memory is read because of it.
    }

    /// Updates the mean: each turn has a weight of one eighth.
    pub(crate) fn learn_round_trip(&self, took: Duration) {
        let took = u64::try_from(took.as_nanos()).unwrap_or(u64::MAX / 8);
        let before = self.round_trip.load(Relaxed); // As above. Only the pump writes it.
        let mean = if before == 0 {
            took
        } else {
            before - before / 8 + took / 8
        };
        self.round_trip.store(mean, Relaxed);
    }

    /// Returns the jobs that a call was given, or `None` if it keeps waiting, now with `waiter`.
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

    /// Ends a call. Returns jobs that it was given since its last look.
    pub(crate) fn leave(&self, ticket: Ticket) -> Vec<Ready> {
        let (jobs, waiter) = self.section(|state, _| state.calls.leave(ticket));
        // USER CODE: the drop of a waker that was not called. A panic must not cost the call its jobs.
        drop_quietly(waiter);
        jobs
    }

    /// Hands a command to the pump. If the pump has ended, the command is answered with an error.
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

    /// Announces that a job may be due at `due`, earlier than known.
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

    /// Closes the queue: no more jobs are taken. The pump ends once no job is held, or at `deadline`.
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
                // The last deadline applies: it may be earlier, or the first.
                Phase::Closing(_) if deadline.is_some() => state.phase = Phase::Closing(deadline),
                Phase::Closing(_) | Phase::Over => {}
            }
            state.calls.close(wakes);
            state
                .at_close
                .drain(..)
                .for_each(|waiter| wakes.push(waiter));
            state.sleep = None;
        });
    }

    /// Reserves the start of the pump. Returns false if there is one, or the queue is closed.
    pub(crate) fn reserve_pump(&self) -> bool {
        self.section(|state, _| {
            let may = state.phase == Phase::Open && !state.has_pump;
            state.has_pump |= may;
            may
        })
    }

    /// Undoes `reserve_pump`: the thread could not be started.
    pub(crate) fn no_pump(&self) {
        let closing = self.section(|state, _| {
            state.has_pump = false;
            state.phase != Phase::Open
        });
        if closing {
            self.close(None); // `close` relied on the pump to end.
        }
    }

    /// Wakes `waiter` when the pump has ended.
    pub(crate) fn wake_at_end(&self, waiter: Waiter) {
        self.section(|state, wakes| match state.phase {
            Phase::Over => wakes.push(waiter),
            Phase::Open | Phase::Closing(_) => state.at_end.push(waiter),
        });
    }

    /// Adds the pump, whose start was reserved.
    ///
    /// # Errors
    /// No thread could be started.
    pub(crate) fn add_pump(&self, pump: impl Pass + 'static) -> io::Result<()> {
        self.pumps.add(self.pump, Box::new(pump))
    }

    /// Blocks until the pump, which has ended, has been dropped.
    pub(crate) fn join_pump(&self) {
        self.pumps.join(self.pump);
    }

    /// Returns whether the pump has ended.
    pub(crate) fn is_over(&self) -> bool {
        self.state.lock().phase == Phase::Over
    }

    /// Blocks until the pump has ended. Returns false if `deadline` passes first.
    pub(crate) fn wait_for_end(&self, deadline: Option<Instant>) -> bool {
        let parker = Parker::of_thread();
        self.wake_at_end(Waiter::Thread(parker.clone()));
        while !self.is_over() {
            match deadline {
                None => parker.park(),
                Some(when) => {
                    if !self.clock.park_until(&parker, when) {
                        return self.is_over();
                    }
                }
            }
        }
        true
    }

    /// Returns whether jobs can still be taken.
    pub(crate) fn is_open(&self) -> bool {
        self.state.lock().phase == Phase::Open
    }

    /// Returns whether the pump ended while it held jobs.
    pub(crate) fn was_cut_short(&self) -> bool {
        self.state.lock().cut_short
    }

    pub(crate) fn last_error(&self) -> Option<StoreError> {
        if self.is_forked() {
            return Some(StoreError::new(ErrorKind::Forked));
        }
        self.state.lock().last_error.clone()
    }

    // Steps of the pump.

    /// Step 2: returns what there is to do. Called before the pump looks at the store, so that later
    /// announcements are found by the next call.
    pub(crate) fn collect(&self, now: Instant) -> Orders {
        // Not a `section`, which would wake the pump itself, so that its next sleep ended at once.
        let mut state = self.state.lock();
        state.sleep = None; // It looks again before it sleeps.
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
            seen: state.seen(),
            closing,
            deadline: state.phase.deadline(),
        }
    }

    /// Step 5: gives started jobs to waiting calls. Returns the rest, whose calls have ended.
    pub(crate) fn serve(&self, jobs: Vec<Ready>, refill: Option<Refill>) -> Vec<Ready> {
        if jobs.is_empty() {
            return jobs;
        }
        let now = self.clock.now(); // Before the section: the clock is user code.
        self.section(|state, wakes| state.calls.serve(jobs, refill, now, wakes))
    }

    /// Step 6: publishes a sleep that ends when an event concerns the pump: a command, a request, a close, an
    /// announcement before `threshold`. Returns false if there has been one since the pump has `seen` the state that it
    /// has acted on.
    pub(crate) fn falls_asleep(&self, seen: Seen, threshold: StoreTime) -> bool {
        self.section(|state, _| {
            let concerns =
                !state.commands.is_empty() || state.announced < threshold || state.seen() != seen;
            // Set in the section that looked, so that later events find the pump asleep and wake it.
            if !concerns {
                state.sleep = Some(threshold);
            }
            !concerns
        })
    }

    pub(crate) fn failed(&self, error: Option<StoreError>) {
        let before = mem::replace(&mut self.state.lock().last_error, error);
        // USER CODE: the drop of an error's source, which is the store's. After the unlock.
        drop_quietly(before);
    }

    /// Step 7: ends the pump. Pending commands are answered with an error.
    pub(crate) fn end(&self, cut_short: bool) {
        let commands = self.section(|state, wakes| {
            state.phase = Phase::Over;
            state.cut_short = cut_short;
            state.calls.close(wakes);
            state
                .at_close
                .drain(..)
                .for_each(|waiter| wakes.push(waiter));
            state.at_end.drain(..).for_each(|waiter| wakes.push(waiter));
            (mem::take(&mut state.commands), mem::take(&mut state.quiet))
        });
        // USER CODE: the wakers of their replies. After the unlock.
        drop(commands);
    }
}

/// Steps of a [`Run`](crate::Run).
impl Control {
    /// Changes the number of jobs that a call waits for, and adds acknowledgements as [`ask`](Self::ask) does. A call
    /// that was served or ended meanwhile is left alone.
    pub(crate) fn ask_again(&self, ticket: Ticket, mut settled: Vec<Command>, wanted: Wanted) {
        self.section(|state, _| {
            state.add(&mut settled);
            state.calls.change(ticket, wanted);
            state.sleep = None;
        });
        drop(settled); // As in `command`.
    }

    /// Wakes `waiter` when the queue is closed.
    pub(crate) fn wake_at_close(&self, waiter: Waiter) {
        self.section(|state, wakes| match state.phase {
            Phase::Open => state.at_close.push(waiter),
            Phase::Closing(_) | Phase::Over => wakes.push(waiter),
        });
    }
}

/// The state that the pump has acted on before it sleeps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Seen {
    /// See [`Calls::changes`].
    changes: u64,
    phase: Phase,
}
