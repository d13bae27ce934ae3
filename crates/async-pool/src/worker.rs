//! The workers: run queues, rounds, stealing, and sleep.
//!
//! Each worker has a run queue and a heap of timers. A wake-up on a worker goes to its own queue; one from elsewhere goes
//! to the inbox, which all workers share. A worker without work takes some from the others, and fires their overdue
//! timers, so a poll that does not return delays neither for longer than [`WATCH`].
//!
//! A worker takes the admission's lock once in a round: for new tasks, and for the ends of all tasks that have ended in the
//! last round. Whoever would notice that an end is not counted yet counts it ([`Shared::end_for_workers`]).
//!
//! # Invariants
//! 1. A task in a run queue is found: a worker parks only after it has entered the set of idle workers and has then seen
//!    all queues empty. A push to a queue looks at that set afterwards, and wakes an idle worker unless another one is
//!    searching. The push is its own worker's, which is awake, or in the inbox, whose lock, the admission's, protects the
//!    set.
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
use pool_core::internals::{AdaptiveSpin, TaskContext};
use sync_shim::atomic::{
    AtomicBool, AtomicUsize,
    Ordering::{Acquire, Relaxed, Release, SeqCst},
};
use sync_shim::foreign::{discard, drop_quietly, guarded};
use sync_shim::thread::Tag;
use sync_shim::{Mutex, Parker, Process};

use crate::admission::{Admission, Effects, Job, State};
use crate::task::{Ended, Ran};
use crate::timers::{NEVER, Timers};

/// Most tasks that a worker takes from the inbox in a round.
const MOST_NEW: usize = 64;
/// Most tasks of its own queue that a worker runs in a round.
const MOST_LOCAL: usize = 128;
/// How long timers and queued tasks of a worker that is stuck in a poll may wait for an idle one.
pub(crate) const WATCH: Duration = Duration::from_millis(5);

/// The part of a pool that workers, tasks and handles share.
pub(crate) struct Shared {
    pub(crate) admission: Admission,
    pub(crate) context: TaskContext,
    pub(crate) clock: Arc<dyn Clock>,
    pub(crate) process: Process,
    /// Due times in heaps count from here.
    epoch: Instant,
    /// Whether the inbox has tasks, for a look without the lock.
    has_new: CachePadded<AtomicBool>,
    /// Number of idle workers, for the same.
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

/// Tasks that no worker has taken yet, and the workers to wake for them.
// Under the admission's lock, so that a submit takes one lock, and so does a round.
pub(crate) struct Inbox {
    queue: VecDeque<Job>,
    /// Workers that are parked or about to park.
    idle: Vec<usize>,
    watcher: Option<usize>,
    searching: usize,
}

impl Inbox {
    pub(crate) fn new(workers: usize) -> Self {
        Self {
            queue: VecDeque::new(),
            idle: Vec::with_capacity(workers),
            watcher: None,
            searching: 0,
        }
    }
}

struct Worker {
    queue: CachePadded<Mutex<RunQueue>>,
    timers: Timers,
    parker: Parker,
}

#[derive(Default)]
struct RunQueue {
    jobs: VecDeque<Job>,
    ended: Batch,
}

/// Tasks that have ended, and whose ends are not counted yet, so they hold room.
pub(crate) type Batch = Vec<(Job, Ended)>;

sync_shim::thread_locals! {
    static CURRENT: std::cell::RefCell<Option<Arc<WorkerRef>>> = std::cell::RefCell::new(None);
    static NOW: std::cell::Cell<u64> = std::cell::Cell::new(0);
}

/// Time of the worker's last look at the clock, as in heaps. It may lie back, so a timer that is due by it is due.
pub(crate) fn last_now() -> u64 {
    NOW.with(std::cell::Cell::get)
}

/// A worker, and its pool. Tasks and timers refer to the pool by the reference of the worker that has them: a reference
/// count that all workers and submitting threads change would be the most contended word of the pool.
pub(crate) struct WorkerRef {
    pub(crate) shared: Arc<Shared>,
    number: u32,
    /// Address of the data of the waker of the task that is being polled. Only this worker uses it.
    polled: AtomicUsize,
}

impl WorkerRef {
    pub(crate) fn timers(&self) -> &Timers {
        &self.shared.workers[self.number as usize].timers
    }

    /// Notes the waker of the task that this worker polls next.
    pub(crate) fn polls(&self, waker: &Waker) {
        self.polled.store(waker.data().addr(), Relaxed);
    }

    /// Has somebody look after a timer that this worker has just set for `waker`, if its poll may wait for that: in a
    /// `block_on`, which has a waker of its own. Any other timer is looked after once the poll has returned.
    pub(crate) fn armed(&self, waker: &Waker) {
        if self.polled.load(Relaxed) != waker.data().addr() {
            self.shared.call_watcher();
        }
    }
}

/// Calls `look` with the worker that the calling thread is.
pub(crate) fn with_current<T>(look: impl FnOnce(Option<&Arc<WorkerRef>>) -> T) -> T {
    let mut look = Some(look);
    let looked = CURRENT.try_with(|current| {
        let current = current.borrow();
        let look = look.take().expect("it is called once");
        look(current.as_ref())
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
            has_new: CachePadded::new(AtomicBool::new(false)),
            idle: CachePadded::new(AtomicUsize::new(0)),
            is_watched: AtomicBool::new(false),
            workers: (0..workers)
                .map(|_| {
                    CachePadded::new(Worker {
                        queue: CachePadded::new(Mutex::new(RunQueue::default())),
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

    /// The time in heaps.
    pub(crate) fn since_epoch(&self, when: Instant) -> u64 {
        let nanos = when.saturating_duration_since(self.epoch).as_nanos();
        u64::try_from(nanos).unwrap_or(NEVER).min(NEVER - 1) // Exact: rounded down, a timer would fire early.
    }

    /// The reverse. `None` if it is never.
    pub(crate) fn instant_of(&self, time: u64) -> Option<Instant> {
        let is_ever = time < NEVER - 1;
        is_ever
            .then(|| self.epoch.checked_add(Duration::from_nanos(time)))
            .flatten()
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
            let worker = current?;
            std::ptr::eq(Arc::as_ptr(&worker.shared), self).then_some(worker.number as usize)
        })
    }

    /// Puts a task into the calling worker's queue, or into the inbox.
    pub(crate) fn schedule(&self, job: Job) {
        match self.own_number() {
            Some(worker) => self.push(worker, job),
            // A forked child has no workers, and a thread of the parent may have held the lock.
            None if !self.process.is_current() => std::mem::forget(job),
            None => {
                let woken = self.admission.change(|state| {
                    self.deliver(&mut state.inbox, job);
                    self.wake_one(&mut state.inbox)
                });
                self.unpark(woken);
            }
        }
    }

    fn push(&self, worker: usize, job: Job) {
        let mut queue = self.workers[worker].queue.lock();
        queue.jobs.push_back(job);
        let is_alone = queue.jobs.len() == 1;
        drop(queue);
        // After the push: a worker that parks enters the idle set before its last look at the queues. One task alone is run
        // by this worker next, unless the current poll does not return: the watcher sees that.
        if self.idle.load(SeqCst) > 0 && (!is_alone || !self.is_watched.load(SeqCst)) {
            self.call_for_help();
        }
    }

    /// Has an idle worker become the watcher, unless one is.
    fn call_watcher(&self) {
        if self.idle.load(SeqCst) > 0 && !self.is_watched.load(SeqCst) {
            self.call_for_help();
        }
    }

    fn call_for_help(&self) {
        let woken = self
            .admission
            .change(|state| self.wake_one(&mut state.inbox));
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
        let own = self.own_number();
        let mut effects = Effects::default();
        let result = self.admission.change(|state| {
            let result = change(state, &mut effects);
            if own.is_none()
                && let Some(job) = effects.start.take()
            {
                let inbox = &mut state.inbox;
                self.deliver(inbox, job);
                effects
                    .more
                    .drain(..)
                    .for_each(|job| self.deliver(inbox, job));
                effects.woken = self.wake_one(inbox);
            }
            result
        });
        self.carry_out(effects, own);
        result
    }

    /// Puts a new task into the inbox. The caller wakes a worker.
    fn deliver(&self, inbox: &mut Inbox, job: Job) {
        if inbox.queue.is_empty() {
            self.has_new.store(true, Release);
        }
        inbox.queue.push_back(job);
    }

    fn carry_out(&self, mut effects: Effects, own: Option<usize>) {
        self.unpark(effects.woken);
        if let (Some(worker), Some(job)) = (own, effects.start.take()) {
            self.push(worker, job);
            effects
                .more
                .drain(..)
                .for_each(|job| self.push(worker, job));
        }
        // USER CODE: wakers. Panics are caught.
        effects.wakes.wake_all();
        if effects.over {
            self.end_workers();
        }
    }

    /// Counts the ends of tasks, and passes their room on.
    pub(crate) fn end(&self, batch: &mut Batch) {
        if !batch.is_empty() {
            self.section(|state, effects| state.end_all(batch, effects));
            Self::show(batch);
        }
    }

    /// Counts the ends that workers have left for the ends of their rounds. Does nothing in a forked child, where a thread
    /// of the parent may have held a lock.
    pub(crate) fn end_for_workers(&self) {
        if !self.process.is_current() {
            return;
        }
        for worker in &self.workers {
            let mut queue = worker.queue.lock();
            if queue.ended.is_empty() {
                continue;
            }
            let mut batch = std::mem::take(&mut queue.ended);
            drop(queue);
            self.end(&mut batch);
            let mut queue = worker.queue.lock();
            // So that the worker need not allocate again.
            if queue.ended.capacity() == 0 {
                queue.ended = batch;
            }
        }
    }

    /// Shows the outcomes of tasks whose ends are counted.
    fn show(batch: &mut Batch) {
        for (job, _) in batch.drain(..) {
            // After the count: room and statistics show the end before the handle does.
            job.resolve();
            // USER CODE: the drop of a task, whose future and value are gone: of its function. A panic is caught.
            drop_quietly(job);
        }
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
        let entered = Entered::new(self, number);
        let (mut due, mut batch) = (Vec::new(), Vec::new());
        let mut spin = AdaptiveSpin::new();
        loop {
            while self.round(&entered.0, &mut due, &mut batch) || self.search(number, &mut due) {}
            spin.look(|| self.has_new.load(Acquire));
            if self.rest(number) {
                return;
            }
            spin.woke();
        }
    }

    /// Fires due timers, takes new tasks and runs local ones, each up to a bound. Returns whether there was any work.
    fn round(
        self: &Arc<Self>,
        worker: &Arc<WorkerRef>,
        due: &mut Vec<Waker>,
        batch: &mut Batch,
    ) -> bool {
        let own = &self.workers[worker.number as usize];
        let fired = own.timers.next() != NEVER && own.timers.fire(self.now(), due);
        std::mem::swap(batch, &mut own.queue.lock().ended);
        self.section(|state, effects| {
            state.end_all(batch, effects);
            let inbox = &mut state.inbox;
            let new = inbox.queue.len().min(MOST_NEW);
            let share = new.div_ceil(self.workers.len());
            if share > 0 {
                // To the back, so that neither new tasks nor local ones wait for a whole round of the other. No task is
                // kept where the other workers do not see it: a poll may not return.
                own.queue.lock().jobs.extend(inbox.queue.drain(..share));
                if inbox.queue.is_empty() {
                    self.has_new.store(false, Release);
                }
            }
            // Each worker that finds work wakes the next, so that a burst wakes as many as it needs.
            if !inbox.queue.is_empty() {
                effects.woken = self.wake_one(inbox);
            }
        });
        Self::show(batch);
        let (mut last, mut ran) = (Ran::Pending, 0);
        loop {
            let mut queue = own.queue.lock();
            match std::mem::replace(&mut last, Ran::Pending) {
                Ran::Pending => {}
                // At the back, so that a task that wakes itself does not starve others.
                Ran::Woken(job) => queue.jobs.push_back(job),
                // Under the lock: a waiter that comes later finds the task in the batch.
                Ran::Ended(job, ended) if job.is_awaited() => {
                    std::mem::swap(batch, &mut queue.ended);
                    batch.push((job, ended));
                }
                Ran::Ended(job, ended) => queue.ended.push((job, ended)),
            }
            if !batch.is_empty() {
                drop(queue);
                self.end(batch);
                continue;
            }
            if ran == MOST_LOCAL {
                return true;
            }
            let Some(job) = queue.jobs.pop_front() else {
                return fired || ran > 0;
            };
            let has_more = !queue.jobs.is_empty();
            drop(queue);
            // The poll may not return. Other tasks are for any idle worker, timers for the watcher.
            if self.idle.load(SeqCst) > 0
                && (has_more || own.timers.next() != NEVER && !self.is_watched.load(SeqCst))
            {
                self.call_for_help();
            }
            last = job.run(worker);
            ran += 1;
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
        if self.steal(number) {
            return true;
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
            let half = from.jobs.len().div_ceil(2);
            if half > 0 {
                let stolen: Vec<Job> = from.jobs.drain(..half).collect();
                drop(from);
                self.workers[number].queue.lock().jobs.extend(stolen);
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
                .any(|worker| !worker.queue.lock().jobs.is_empty())
    }

    /// Parks until there is work. Returns `true` if the pool has ended.
    fn rest(self: &Arc<Self>, number: usize) -> bool {
        if self.over.load(Acquire) {
            let ends = self.section(|state, _| state.may_end(number));
            if ends {
                return true;
            }
        }
        let watches = self.admission.change(|state| {
            let inbox = &mut state.inbox;
            inbox.idle.push(number);
            self.idle.store(inbox.idle.len(), SeqCst);
            // After it has entered the set, so that a push that this look misses finds the worker there.
            if self.has_work(inbox) {
                self.leave_idle(inbox, number);
                return None;
            }
            let watches = inbox.watcher.is_none() && inbox.idle.len() < self.workers.len();
            if watches {
                inbox.watcher = Some(number);
                self.is_watched.store(true, SeqCst);
            }
            Some(watches)
        });
        let Some(watches) = watches else {
            return false;
        };
        self.park(number, watches);
        self.admission
            .change(|state| self.leave_idle(&mut state.inbox, number));
        if watches {
            self.end_for_workers();
        }
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
        let timer = self.instant_of(next);
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
struct Entered(Arc<WorkerRef>);

impl Entered {
    fn new(shared: &Arc<Shared>, number: usize) -> Self {
        let worker = Arc::new(WorkerRef {
            shared: Arc::clone(shared),
            // There are fewer workers than that.
            number: u32::try_from(number).unwrap_or(u32::MAX),
            polled: AtomicUsize::new(0),
        });
        CURRENT.with(|current| current.replace(Some(Arc::clone(&worker))));
        Self(worker)
    }
}

impl Drop for Entered {
    fn drop(&mut self) {
        let _shared = CURRENT.try_with(std::cell::RefCell::take);
    }
}
