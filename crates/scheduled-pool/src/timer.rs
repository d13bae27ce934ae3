//! The timer: one lock, one thread, and an executor of due tasks.
//!
//! Not for: schedules (`schedule.rs`) and the public calls (`pool.rs`). `PROTOCOL.md` defines the numbered
//! steps and explains why no due schedule is missed.
//!
//! # Invariants
//! 1. The only user code on the timer thread is the clock, and the pool's thread gate when the timer
//!    starts a worker. The timer thread ends no schedule, so it drops no captures and calls no wakers.
//! 2. It sleeps until the earliest due time, or for ever, and is woken only for an earlier due time and
//!    for the end.

use std::collections::VecDeque;
use std::io;
use std::sync::Arc;
use std::time::Duration;

use delay_queue::EntryId;
use delay_queue::epoch::Epoch;
use sync_shim::thread::{ThreadOptions, set_precise_timers, spawn_service};
use sync_shim::{Clock, Mutex, Parker};

use crate::error::{Reason, ResetError};
use crate::executor::{Executor, Offer};
use crate::state::{
    At, Due, Effects, EndKind, Entry, Keep, Kept, NoNextRun, Record, ReleasePolicy, Report, State,
};
use crate::stats::Stats;

/// Default name of the timer thread.
pub const DEFAULT_THREAD_NAME: &str = "anthill-timer";
/// Maximum number of due tasks that one section takes from the heap.
const BATCH: usize = 32;
/// First delay before the timer retries a task for which no worker could be started. The delay doubles with
/// each failure.
pub(crate) const FIRST_RETRY: Duration = Duration::from_millis(1);
/// Longest of these delays.
pub(crate) const LAST_RETRY: Duration = Duration::from_secs(1);

/// Settings of a scheduled pool.
#[derive(Clone, Debug)]
pub struct Config {
    /// Which schedules continue after a release.
    pub release_policy: ReleasePolicy,
    /// The timer thread's name.
    pub thread_name: String,
    /// Stack size of the timer thread in bytes; `None` for the platform's default.
    pub stack_size: Option<usize>,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            release_policy: ReleasePolicy {
                run_pending: true,
                continue_series: false,
            },
            thread_name: DEFAULT_THREAD_NAME.to_owned(),
            stack_size: None,
        }
    }
}

/// State shared by the handles of a scheduled pool, its schedules and its timer thread.
#[expect(
    missing_debug_implementations,
    reason = "the handles print its figures"
)]
pub struct Core<S: Executor> {
    pub(crate) state: Mutex<State<S>>,
    /// Parker of the timer thread.
    parker: Parker,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) epoch: Epoch,
    executor: S,
    pub(crate) config: Config,
}

impl<S: Executor> Core<S> {
    /// Creates a timer without schedules; the first schedule starts its thread. `keep` keeps the executor
    /// open.
    pub fn new(executor: S, clock: Arc<dyn Clock>, config: Config, keep: Keep) -> Arc<Self> {
        Arc::new(Self {
            state: Mutex::new(State::new(keep)),
            parker: Parker::new(),
            epoch: Epoch::new(clock.now()),
            clock,
            executor,
            config,
        })
    }

    pub(crate) fn now(&self) -> u64 {
        // USER CODE: `Clock::now`, on the timer thread and on callers': it must be quick and not panic.
        self.epoch.nanos(self.clock.now())
    }

    /// Returns the due time `delay` from now.
    pub fn after(&self, delay: Duration) -> u64 {
        self.epoch.after(self.clock.now(), delay)
    }

    /// Step 1, preceded by the start of the timer thread if there is none. Calls `set_id` with the
    /// schedule's id in the section that makes the schedule visible to the timer thread.
    pub(crate) fn push(
        self: &Arc<Self>,
        entry: Arc<dyn Entry>,
        series: bool,
        due: u64,
        set_id: impl FnOnce(EntryId),
    ) -> Result<(), Reason> {
        let mut effects = Effects::new();
        let mut state = self.state.lock();
        // "Schedule against release": checked in the section that pushes, so that a release finds every
        // schedule accepted before it.
        if !state.is_open() {
            return Err(Reason::Released);
        }
        if state.thread.is_none() {
            // Under the lock, so that only one thread is ever started. The start runs no user code.
            state.thread = Some(self.start().map_err(Reason::NoThread)?);
        }
        let id = state
            .push(entry, series, due, &mut effects)
            .ok_or(Reason::TooMany)?;
        set_id(id);
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
        spawn_service(options, move || {
            set_precise_timers();
            serve(&core);
        })
    }

    /// Step 7.
    pub(crate) fn reschedule(
        &self,
        id: EntryId,
        due: u64,
        report: Report,
    ) -> Result<(), NoNextRun> {
        let mut effects = Effects::new();
        let was = self.state.lock().reschedule(id, due, report, &mut effects);
        drop(self.perform(effects));
        was.map(drop) // A ticket's drop takes the pool's lock: the timer's is free.
    }

    /// Step 11. `set_due` gives the schedule the new time, unless a party has claimed its body.
    pub(crate) fn reset(
        &self,
        id: EntryId,
        due: u64,
        set_due: impl FnOnce() -> bool,
    ) -> Result<(), ResetError> {
        let mut effects = Effects::new();
        let reset = self.state.lock().reset(id, due, &mut effects, set_due);
        drop(self.perform(effects));
        reset
    }

    /// Step 8. `publish` makes the end visible to the handle, in the section that counts it. The caller drops
    /// the record and performs `effects`.
    pub(crate) fn remove(
        &self,
        id: EntryId,
        kind: EndKind,
        report: Report,
        effects: &mut Effects,
        publish: impl FnOnce(),
    ) -> Option<Record<S>> {
        let mut state = self.state.lock();
        state.remove(id, kind, report, effects, publish)
    }

    /// Performs deferred effects. May release the pool, which runs user code. The caller drops the result
    /// last.
    pub(crate) fn perform(&self, mut effects: Effects) -> Option<Kept> {
        // Threads first: they run no user code, and user code may wait for them.
        if effects.wake_timer {
            self.parker.unpark(); // A token, if it does not sleep yet.
        }
        effects.wakes.wake_threads();
        let kept = effects.keep.map(|(keep, releases)| keep(releases));
        // USER CODE: wakers, by the caller. Threads are woken before; panics end here.
        effects.wakes.wake_all();
        kept
    }

    /// Returns a snapshot of the statistics.
    pub fn stats(&self) -> Stats {
        self.state.lock().stats()
    }

    fn sleep(&self, until: u64) {
        match self.epoch.instant(until) {
            // USER CODE: `Clock::park_until`, on the timer thread: it must not panic.
            Some(when) => _ = self.clock.park_until(&self.parker, when),
            None => self.parker.park(),
        }
    }
}

/// Back-off after a failure to start a worker.
struct Retry {
    /// Earliest time of the next attempt.
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
fn serve<S: Executor>(core: &Core<S>) {
    let mut due = VecDeque::with_capacity(BATCH);
    let mut retry = Retry::new();
    loop {
        let now = core.now();
        let mut state = core.state.lock();
        // Step 2. From here on no party wakes this thread, because it checks the heap before it sleeps.
        state.woke();
        // "No thread for a worker": drops tasks that ended while they were held.
        due.retain(|due: &Due| state.is_offered(due.id));
        if due.is_empty() {
            state.take_due(now, BATCH, &mut due);
        }
        if due.is_empty() {
            if state.is_over() {
                return; // Final: no schedule is accepted any more.
            }
            // Step 3, in the section that found no due schedule: a later push of an earlier time sees
            // `wakes_at` and leaves a token in the parker, which ends the sleep.
            let until = state.sleep();
            drop(state);
            core.sleep(until);
        } else {
            drop(state);
            if now < retry.at {
                // "No thread for a worker": `wakes_at` stays 0, so only the end of the last schedule wakes it.
                core.sleep(retry.at);
            } else {
                offer_all(core, &mut due, &mut retry);
            }
        }
    }
}

/// Steps 4 and 5 of each due task, until the pool can start no worker for one: that task and the tasks after
/// it stay in `due`, to be offered again.
fn offer_all<S: Executor>(core: &Core<S>, due: &mut VecDeque<Due>, retry: &mut Retry) {
    while let Some(next) = due.front() {
        let at = match core.executor.offer(Arc::clone(&next.entry) as _) {
            Offer::Accepted => Some(At::Accepted),
            Offer::Queued(ticket) => Some(At::Queued(ticket)),
            // "The pool is released elsewhere": step 10 ends the schedule, or has done so.
            Offer::Released => None,
            Offer::NoThread => {
                core.state.lock().stats.thread_failures += 1;
                retry.refused(core.after(retry.wait));
                return;
            }
        };
        *retry = Retry::new();
        if let Some(at) = at {
            // Step 5. "The note comes late": the task may have run or ended since the offer.
            let unneeded = core.state.lock().record_offer(next.id, at);
            drop(unneeded); // A ticket's drop takes the pool's lock: the timer's is free.
        }
        due.pop_front();
    }
}
