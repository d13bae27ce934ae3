//! The timer: one lock, one thread, and a sink for what falls due.
//!
//! Not for: what a schedule is (`cell.rs`), or who may call (`pool.rs`). The steps of each party,
//! and why nothing is forgotten: `PROTOCOL.md`.
//!
//! # What always holds
//! 1. No user code runs on the timer thread, but for a clock's, and the pool's thread gate when
//!    the pool's first worker is started there. It ends no schedule, so it drops no captures and
//!    calls no wakers.
//! 2. It sleeps until the earliest time or for ever, and is woken for an earlier one and for the
//!    end, for nothing else.

use std::collections::VecDeque;
use std::io;
use std::sync::Arc;
use std::time::{Duration, Instant};

use delay_queue::EntryId;
use delay_queue::epoch::Epoch;
use sync_shim::thread::{ThreadOptions, set_precise_timers, spawn_thread};
use sync_shim::{Clock, Mutex, Parker};

use crate::body::Body;
use crate::cell::Cell;
use crate::error::Reason;
use crate::plan::Plan;
use crate::sink::{Offer, Sink};
use crate::state::{At, Due, Effects, Keep, Kept, Record, Report, Spare, State, Tally, Vain};
use crate::stats::Stats;

/// The timer thread's name, unless the builder says otherwise.
pub const DEFAULT_THREAD_NAME: &str = "anthill-timer";
/// How many due tasks are taken out of the heap in one section.
const BATCH: usize = 32;
/// How long the timer waits before it offers a task again that the pool had no thread for; twice
/// as long after each refusal.
pub(crate) const FIRST_RETRY: Duration = Duration::from_millis(1);
/// And no longer than that.
pub(crate) const LAST_RETRY: Duration = Duration::from_secs(1);

/// What is fixed when a scheduled pool is made.
#[derive(Clone, Debug)]
pub struct Config {
    /// What a release lets live.
    pub spare: Spare,
    /// The timer thread's name.
    pub thread_name: String,
    /// Bytes of its stack; the platform's default if absent.
    pub stack_size: Option<usize>,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            spare: Spare {
                pending: true,
                series: false,
            },
            thread_name: DEFAULT_THREAD_NAME.to_owned(),
            stack_size: None,
        }
    }
}

/// Everything that the handles of one scheduled pool, its schedules and its timer thread share.
#[expect(
    missing_debug_implementations,
    reason = "never leaves the crate but for models"
)]
pub struct Core<S: Sink> {
    pub(crate) state: Mutex<State<S>>,
    /// The timer thread's.
    parker: Parker,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) epoch: Epoch,
    sink: S,
    pub(crate) config: Config,
}

impl<S: Sink> Core<S> {
    /// A timer that nobody has used. `keep` keeps the sink open.
    pub fn new(sink: S, clock: Arc<dyn Clock>, config: Config, keep: Keep) -> Arc<Self> {
        Arc::new(Self {
            state: Mutex::new(State::new(keep)),
            parker: Parker::new(),
            epoch: Epoch::new(clock.now()),
            clock,
            sink,
            config,
        })
    }

    pub(crate) fn now(&self) -> u64 {
        self.epoch.nanos(self.clock.now())
    }

    /// The time `delay` from now.
    pub fn after(&self, delay: Duration) -> u64 {
        self.epoch.after(self.clock.now(), delay)
    }

    /// That time. One that has passed is due, before those that passed after it.
    pub(crate) fn at(&self, when: Instant) -> u64 {
        self.epoch.nanos(when)
    }

    /// Enters a schedule, and starts the timer thread if there is none yet.
    pub(crate) fn schedule<B: Body>(
        self: &Arc<Self>,
        body: B,
        plan: Plan,
        due: u64,
    ) -> Result<Arc<Cell<B, S>>, (Reason, B)> {
        let cell = Cell::new(Arc::clone(self), body, plan, due);
        match self.enter(&cell, plan, due) {
            Ok(()) => Ok(cell),
            Err(refused) => Err((refused, cell.take_back())),
        }
    }

    fn enter<B: Body>(
        self: &Arc<Self>,
        cell: &Arc<Cell<B, S>>,
        plan: Plan,
        due: u64,
    ) -> Result<(), Reason> {
        let entry = Arc::clone(cell) as _;
        let mut effects = Effects::new();
        let mut state = self.state.lock();
        if !state.is_open() {
            return Err(Reason::Released);
        }
        if state.thread.is_none() {
            // Under the lock, so that there is never a second one; it runs no user code.
            state.thread = Some(self.start().map_err(Reason::NoThread)?);
        }
        let id = state
            .schedule(entry, plan.is_series(), due, &mut effects)
            .ok_or(Reason::TooMany)?;
        cell.enter(id);
        drop(state);
        drop(self.perform(effects));
        Ok(())
    }

    fn start(self: &Arc<Self>) -> io::Result<sync_shim::thread::JoinHandle> {
        let options = ThreadOptions {
            name: Some(&self.config.thread_name),
            stack_size: self.config.stack_size,
            gate: None,
        };
        let core = Arc::clone(self);
        spawn_thread(options, move || {
            set_precise_timers();
            serve(&core);
        })
    }

    /// A series goes on.
    pub(crate) fn again(&self, id: EntryId, due: u64, report: Report) -> Result<(), Vain> {
        let mut effects = Effects::new();
        let was = self.state.lock().again(id, due, report, &mut effects);
        drop(self.perform(effects));
        was.map(drop) // A ticket takes the pool's lock: ours is free.
    }

    /// A schedule has ended; `publish` makes that visible to its handle, in the section in which
    /// the figures show it. What comes back is to be dropped, what is owed performed.
    pub(crate) fn remove(
        &self,
        id: EntryId,
        tally: Tally,
        report: Report,
        effects: &mut Effects,
        publish: impl FnOnce(),
    ) -> Option<Record<S>> {
        let mut state = self.state.lock();
        state.remove(id, tally, report, effects, publish)
    }

    /// Pays what a section owes. May release the pool, which is user code. What comes back is to
    /// be dropped last.
    pub(crate) fn perform(&self, mut effects: Effects) -> Option<Kept> {
        if effects.wake_timer {
            self.parker.unpark();
        }
        effects.wakes.wake_threads();
        effects.keep.map(|(keep, releases)| keep(releases))
    }

    /// All figures.
    pub fn stats(&self) -> Stats {
        self.state.lock().stats()
    }

    fn sleep(&self, until: u64) {
        match self.epoch.instant(until) {
            Some(when) => _ = self.clock.park_until(&self.parker, when),
            None => self.parker.park(),
        }
    }
}

/// When the timer offers a task again that the pool had no thread for.
struct Retry {
    /// Not before then.
    at: u64,
    wait: Duration,
}

impl Retry {
    fn new() -> Self {
        Self {
            at: 0,
            wait: FIRST_RETRY,
        }
    }

    fn refused(&mut self, at: u64) {
        self.at = at;
        self.wait = LAST_RETRY.min(self.wait * 2);
    }
}

/// The timer thread.
fn serve<S: Sink>(core: &Core<S>) {
    let mut due = VecDeque::with_capacity(BATCH);
    let mut retry = Retry::new();
    loop {
        let now = core.now();
        let mut state = core.state.lock();
        state.awake();
        // Those that were ended while they were held.
        due.retain(|due: &Due| state.is_offered(due.id));
        if due.is_empty() {
            state.take_due(now, BATCH, &mut due);
        }
        if due.is_empty() {
            if state.is_over() {
                return;
            }
            let until = state.sleep();
            drop(state);
            core.sleep(until);
        } else {
            drop(state);
            if now < retry.at {
                core.sleep(retry.at);
            } else {
                offer_all(core, &mut due, &mut retry);
            }
        }
    }
}

/// Offers what is due, until the pool has no thread for one, which then waits with those after it.
fn offer_all<S: Sink>(core: &Core<S>, due: &mut VecDeque<Due>, retry: &mut Retry) {
    while let Some(next) = due.front() {
        let at = match core.sink.offer(Arc::clone(&next.entry) as _) {
            Offer::Accepted => Some(At::Accepted),
            Offer::Waiting(ticket) => Some(At::Waiting(ticket)),
            // Whoever releases the pool ends it, or has ended it by now.
            Offer::Released => None,
            Offer::NoThread => {
                core.state.lock().stats.thread_failures += 1;
                retry.refused(core.after(retry.wait));
                return;
            }
        };
        *retry = Retry::new();
        if let Some(at) = at {
            let unneeded = core.state.lock().placed(next.id, at);
            drop(unneeded); // A ticket takes the pool's lock: ours is free.
        }
        due.pop_front();
    }
}
