//! The workers: run queues, rounds, stealing, and sleep.
//!
//! Each worker has a run queue and a heap of timers. A wake-up on a worker goes to its own queue; one from elsewhere goes
//! to the inbox, which all workers share. A worker without work takes some from the others, and fires their overdue
//! timers, so a poll that does not return delays neither for longer than [`WATCH`].
//!
//! # Invariants
//! 1. A task in a run queue is found: a worker parks only after it has entered the set of idle workers and has then seen
//!    all queues empty. A push to a queue looks at that set afterwards, and wakes an idle worker unless another one is
//!    searching. The push is its own worker's, which is awake, or in the inbox, whose lock protects the set.
//! 2. `searching` is the number of workers that were woken and have not found work or parked again since. One that finds
//!    work wakes the next if more is queued.
//! 3. While a worker runs a task, has timers or other tasks, and workers are idle, one of these is the watcher, which
//!    sleeps for at most [`WATCH`], or is on its way to become it.

use std::collections::VecDeque;
use std::panic::AssertUnwindSafe;
use std::sync::Arc;
use std::task::Waker;
use std::time::{Duration, Instant};

use crossbeam_utils::CachePadded;
use pool_core::Clock;
use pool_core::internals::TaskContext;
use sync_shim::atomic::{
    AtomicBool, AtomicUsize,
    Ordering::{Acquire, Release, SeqCst},
};
use sync_shim::foreign::{discard, drop_quietly, guarded};
use sync_shim::thread::Tag;
use sync_shim::{Mutex, Parker, Process};

use crate::admission::{Admission, Effects, Job, State};
use crate::task::Ended;
use crate::timers::{NEVER, Timers};

/// Most tasks that a worker takes from the inbox in a round.
const MOST_NEW: usize = 64;
/// Most tasks of its own queue that a worker runs in a round.
const MOST_LOCAL: usize = 128;
/// How long timers and queued tasks of a worker that is stuck in a poll may wait for an idle one.
pub(crate) const WATCH: Duration = Duration::from_millis(5);
/// How often a worker without work looks again before it parks.
const LOOKS: u32 = if cfg!(anthill_loom) { 0 } else { 64 };

/// The part of a pool that workers, tasks and handles share.
pub(crate) struct Shared {
    pub(crate) admission: Admission,
    pub(crate) context: TaskContext,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) process: Process,
    /// Due times in heaps count from here.
    epoch: Instant,
    inbox: CachePadded<Mutex<Inbox>>,
    /// Number of idle workers, for a look without the inbox's lock.
    idle: CachePadded<AtomicUsize>,
    /// Whether one of them is the watcher.
    is_watched: AtomicBool,
    workers: Box<[CachePadded<Worker>]>,
    discarding: AtomicBool,
    /// Whether a released pool may have come to its end. A worker decides that under the admission's lock.
    over: AtomicBool,
    /// Tag of the pool's worker threads.
    id: u64,
}

struct Inbox {
    queue: VecDeque<Job>,
    /// Workers that are parked or about to park.
    idle: Vec<usize>,
    watcher: Option<usize>,
    searching: usize,
}

struct Worker {
    queue: Mutex<VecDeque<Job>>,
    timers: Timers,
    parker: Parker,
}

sync_shim::thread_locals! {
    static CURRENT: std::cell::RefCell<Option<(Arc<Shared>, u32)>> = std::cell::RefCell::new(None);
    static NOW: std::cell::Cell<u64> = std::cell::Cell::new(0);
}

/// Time of the worker's last look at the clock, as in heaps. It may lie back, so a timer that is due by it is due.
pub(crate) fn last_now() -> u64 {
    NOW.with(std::cell::Cell::get)
}

/// Calls `look` with the pool whose worker the calling thread is, and its number.
pub(crate) fn with_current<T>(look: impl FnOnce(Option<(&Arc<Shared>, u32)>) -> T) -> T {
    let mut look = Some(look);
    let looked = CURRENT.try_with(|current| {
        let current = current.borrow();
        let look = look.take().expect("it is called once");
        look(current.as_ref().map(|(shared, number)| (shared, *number)))
    });
    // A thread whose thread-locals are being dropped is no worker any more.
    looked.unwrap_or_else(|_| look.take().expect("it was not called")(None))
}

impl Shared {
    pub(crate) fn new(
        admission: Admission,
        context: TaskContext,
        clock: Arc<dyn Clock>,
        workers: usize,
    ) -> Arc<Self> {
        Arc::new(Self {
            admission,
            context,
            epoch: clock.now(),
            clock,
            process: Process::current(),
            inbox: CachePadded::new(Mutex::new(Inbox {
                queue: VecDeque::new(),
                idle: Vec::with_capacity(workers),
                watcher: None,
                searching: 0,
            })),
            idle: CachePadded::new(AtomicUsize::new(0)),
            is_watched: AtomicBool::new(false),
            workers: (0..workers)
                .map(|_| {
                    CachePadded::new(Worker {
                        queue: Mutex::new(VecDeque::new()),
                        timers: Timers::new(),
                        parker: Parker::new(),
                    })
                })
                .collect(),
            discarding: AtomicBool::new(false),
            over: AtomicBool::new(false),
            id: sync_shim::unique_id(),
        })
    }

    pub(crate) fn timers(&self, worker: u32) -> &Timers {
        &self.workers[worker as usize].timers
    }

    /// The time in heaps.
    pub(crate) fn since_epoch(&self, when: Instant) -> u64 {
        let nanos = when.saturating_duration_since(self.epoch).as_nanos();
        u64::try_from(nanos).unwrap_or(NEVER).min(NEVER - 1) // Exact: rounded down, a timer would fire early.
    }

    pub(crate) fn is_discarding(&self) -> bool {
        self.discarding.load(Acquire)
    }

    /// Has workers drop all futures. Called in the section that releases the pool.
    pub(crate) fn discard(&self) {
        self.discarding.store(true, Release);
    }

    /// Lets workers go on. Called in the section that opens the pool again.
    pub(crate) fn go_on(&self) {
        self.discarding.store(false, Release);
        self.over.store(false, Release);
    }

    /// Whether the calling thread is one of the workers, also while its thread-locals are being dropped.
    pub(crate) fn is_own_worker(&self) -> bool {
        // The tag of a task that another pool runs in place on this thread hides ours.
        Tag::get().group == self.id || self.own_number().is_some()
    }

    /// Makes the calling thread one of the workers, until it ends.
    pub(crate) fn mark_thread(&self) {
        let (group, depth) = (self.id, 0);
        Tag { group, depth }.set();
    }

    fn own_number(&self) -> Option<usize> {
        with_current(|current| {
            let (shared, number) = current?;
            std::ptr::eq(Arc::as_ptr(shared), self).then_some(number as usize)
        })
    }

    /// Puts a task into the calling worker's queue, or into the inbox.
    pub(crate) fn schedule(&self, job: Job) {
        match self.own_number() {
            Some(worker) => self.push(worker, job),
            // A forked child has no workers, and a thread of the parent may have held the lock.
            None if !self.process.is_current() => std::mem::forget(job),
            None => {
                let mut inbox = self.inbox.lock();
                inbox.queue.push_back(job);
                let woken = self.wake_one(&mut inbox);
                drop(inbox);
                self.unpark(woken);
            }
        }
    }

    fn push(&self, worker: usize, job: Job) {
        let mut queue = self.workers[worker].queue.lock();
        queue.push_back(job);
        let is_alone = queue.len() == 1;
        drop(queue);
        // After the push: a worker that parks enters the idle set before its last look at the queues. One task alone is run
        // by this worker next, unless the current poll does not return: the watcher sees that.
        if self.idle.load(SeqCst) > 0 && (!is_alone || !self.is_watched.load(SeqCst)) {
            self.call_for_help();
        }
    }

    fn call_for_help(&self) {
        let mut inbox = self.inbox.lock();
        let woken = self.wake_one(&mut inbox);
        drop(inbox);
        self.unpark(woken);
    }

    /// Takes the worker to wake for queued work out of the idle set, unless one is searching.
    fn wake_one(&self, inbox: &mut Inbox) -> Option<usize> {
        if inbox.searching > 0 {
            return None;
        }
        // The watcher last, because it would have to be replaced.
        let others = |&worker: &usize| inbox.watcher != Some(worker);
        let at = inbox
            .idle
            .iter()
            .rposition(others)
            .or(inbox.idle.len().checked_sub(1))?;
        let woken = inbox.idle[at];
        self.remove_idle(inbox, at);
        inbox.searching += 1;
        Some(woken)
    }

    fn unpark(&self, worker: Option<usize>) {
        if let Some(worker) = worker {
            self.workers[worker].parker.unpark();
        }
    }

    /// Runs one section of the admission, and then what it has deferred. No lock may be held.
    pub(crate) fn section<T>(&self, change: impl FnOnce(&mut State, &mut Effects) -> T) -> T {
        let (result, effects) = self.admission.section(change);
        self.carry_out(effects);
        result
    }

    fn carry_out(&self, mut effects: Effects) {
        if let Some(job) = effects.start.take() {
            self.schedule(job);
            effects.more.drain(..).for_each(|job| self.schedule(job));
        }
        // USER CODE: wakers. Panics are caught.
        effects.wakes.wake_all();
        if effects.over {
            self.end_workers();
        }
        // USER CODE: the drop of a task, whose future and value are gone: of its function. A panic is caught.
        drop_quietly(effects.ended);
    }

    /// Counts the end of a started task and passes its room on.
    pub(crate) fn end(&self, key: usize, ended: Ended) {
        self.section(|state, effects| state.end(key, ended, effects));
    }

    /// Counts the end of a task that a worker has dropped instead of starting it.
    pub(crate) fn end_unstarted(&self, ended: Ended) {
        self.section(|state, effects| state.discarded(ended, effects));
    }

    /// Has all workers see that nothing is left.
    pub(crate) fn end_workers(&self) {
        self.over.store(true, Release);
        // The token of a worker that is about to park has it look at `over` before it sleeps.
        self.workers
            .iter()
            .for_each(|worker| worker.parker.unpark());
    }

    /// The whole life of a worker. Returns when the pool has ended.
    pub(crate) fn work(self: &Arc<Self>, number: usize) {
        let _entered = Entered::new(self, number);
        let mut due = Vec::new();
        loop {
            if self.round(number, &mut due) || self.search(number, &mut due) {
                continue;
            }
            if self.rest(number) {
                return;
            }
        }
    }

    /// Fires due timers, takes new tasks and runs local ones, each up to a bound. Returns whether there was any work.
    fn round(self: &Arc<Self>, number: usize, due: &mut Vec<Waker>) -> bool {
        let own = &self.workers[number];
        let fired = own.timers.next() != NEVER && own.timers.fire(self.now(), due);
        let mut inbox = self.inbox.lock();
        let new = inbox.queue.len().min(MOST_NEW);
        let share = new.div_ceil(self.workers.len());
        if share > 0 {
            // To the back, so that neither new tasks nor local ones wait for a whole round of the other. No task is kept
            // where the other workers do not see it: a poll may not return.
            own.queue.lock().extend(inbox.queue.drain(..share));
        }
        // Each worker that finds work wakes the next, so that a burst wakes as many as it needs.
        let woken = if inbox.queue.is_empty() {
            None
        } else {
            self.wake_one(&mut inbox)
        };
        drop(inbox);
        self.unpark(woken);
        let mut ran = 0;
        while ran < MOST_LOCAL {
            let Some(job) = own.queue.lock().pop_front() else {
                break;
            };
            self.ensure_watched(own);
            job.run(self);
            ran += 1;
        }
        fired || ran > 0
    }

    /// Wakes an idle worker to be the watcher, if this one's timers or tasks might wait for the next poll.
    fn ensure_watched(&self, own: &Worker) {
        let has_idle = self.idle.load(SeqCst) > 0 && !self.is_watched.load(SeqCst);
        // A push to the queue has seen to it itself.
        if has_idle && own.timers.next() != NEVER {
            self.call_for_help();
        }
    }

    /// The current time.
    fn now(&self) -> u64 {
        let mut now = 0;
        // USER CODE: `Clock::now`. If it panics no timer is due.
        let _outcome = guarded(AssertUnwindSafe(|| {
            now = self.since_epoch(self.clock.now());
        }))
        .map_err(discard);
        NOW.with(|last| last.set(now));
        now
    }

    /// Takes half of another worker's queue, or fires the overdue timers of another worker.
    fn search(self: &Arc<Self>, number: usize, due: &mut Vec<Waker>) -> bool {
        for look in 0..=LOOKS {
            if look > 0 {
                sync_shim::thread::spin_loop();
            }
            if !self.inbox.lock().queue.is_empty() || self.steal(number) {
                return true;
            }
        }
        let count = self.workers.len();
        let now = (0..count)
            .any(|at| self.workers[at].timers.next() != NEVER)
            .then(|| self.now());
        now.is_some_and(|now| {
            let others = (1..count).map(|step| (number + step) % count);
            let mut fired = false;
            for other in others {
                fired |= self.workers[other].timers.fire(now, due);
            }
            fired
        })
    }

    fn steal(&self, number: usize) -> bool {
        let count = self.workers.len();
        for step in 1..count {
            let mut from = self.workers[(number + step) % count].queue.lock();
            let half = from.len().div_ceil(2);
            if half > 0 {
                let stolen: Vec<Job> = from.drain(..half).collect();
                drop(from);
                self.workers[number].queue.lock().extend(stolen);
                return true;
            }
        }
        false
    }

    fn has_work(&self, inbox: &Inbox) -> bool {
        !inbox.queue.is_empty()
            || self
                .workers
                .iter()
                .any(|worker| !worker.queue.lock().is_empty())
    }

    /// Parks until there is work. Returns `true` if the pool has ended.
    fn rest(self: &Arc<Self>, number: usize) -> bool {
        if self.over.load(Acquire) {
            let ends = self.section(|state, _| state.may_end(number));
            if ends {
                return true;
            }
        }
        let mut inbox = self.inbox.lock();
        inbox.idle.push(number);
        self.idle.store(inbox.idle.len(), SeqCst);
        // After it has entered the set, so that a push that this look misses finds the worker there.
        if self.has_work(&inbox) {
            self.leave_idle(&mut inbox, number);
            return false;
        }
        let watches = inbox.watcher.is_none() && inbox.idle.len() < self.workers.len();
        if watches {
            inbox.watcher = Some(number);
            self.is_watched.store(true, SeqCst);
        }
        drop(inbox);
        self.park(number, watches);
        self.leave_idle(&mut self.inbox.lock(), number);
        false
    }

    /// Leaves the idle set, from which another thread may have taken the worker.
    fn leave_idle(&self, inbox: &mut Inbox, number: usize) {
        match inbox.idle.iter().position(|&idle| idle == number) {
            Some(at) => self.remove_idle(inbox, at),
            None => inbox.searching -= 1,
        }
    }

    fn remove_idle(&self, inbox: &mut Inbox, at: usize) {
        let number = inbox.idle.remove(at);
        self.idle.store(inbox.idle.len(), SeqCst);
        if inbox.watcher == Some(number) {
            inbox.watcher = None;
            self.is_watched.store(false, SeqCst);
        }
    }

    fn park(&self, number: usize, watches: bool) {
        let Worker { parker, timers, .. } = &*self.workers[number];
        let next = timers.next();
        let timer = (next != NEVER)
            .then(|| self.epoch.checked_add(Duration::from_nanos(next)))
            .flatten();
        let mut slept = false;
        // USER CODE: the clock. If it panics the worker looks again.
        let _outcome = guarded(AssertUnwindSafe(|| {
            let watch = watches.then(|| self.clock.after(WATCH)).flatten();
            if let Some(when) = [timer, watch].into_iter().flatten().min() {
                slept = true;
                self.clock.park_until(parker, when);
            }
        }))
        .map_err(discard);
        if !slept {
            parker.park();
        }
    }
}

/// A thread that is a worker.
struct Entered;

impl Entered {
    fn new(shared: &Arc<Shared>, number: usize) -> Self {
        // There are fewer workers than that.
        let now = Some((
            Arc::clone(shared),
            u32::try_from(number).unwrap_or(u32::MAX),
        ));
        CURRENT.with(|current| current.replace(now));
        Self
    }
}

impl Drop for Entered {
    fn drop(&mut self) {
        let _shared = CURRENT.try_with(std::cell::RefCell::take);
    }
}
