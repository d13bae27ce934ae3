//! The workers: run queues, rounds, stealing, and sleep.
//!
//! Each worker has a run queue and a heap of timers. A wake-up on a worker goes to its own queue; one from elsewhere goes
//! to the inbox, which all workers share. A worker without work takes some from the others, and fires their overdue
//! timers, so a poll that does not return delays neither for longer than [`WATCH`].
//!
//! A worker takes the admission's lock once in a round: for new tasks, and for the ends of all tasks that have ended in the
//! last round. A round ends after [`MOST_LOCAL`] polls, or after the time that [`Pace`] allows. A caller that could observe
//! the delay of an end counts the pending ends first ([`Shared::end_for_workers`]).
//!
//! # Invariants
//! 1. A task in a run queue is found: a worker parks only after it has entered the set of idle workers and has then seen
//!    all queues empty. A push to a queue looks at that set afterwards, and wakes an idle worker unless another one is
//!    searching. The push is its own worker's, which is awake, or in the inbox, whose lock, the admission's, protects the
//!    set.
//! 2. `searching` is the number of workers that poll on, or were woken and have not found work or parked again since.
//!    One that finds work wakes the next if more is queued.
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

use crate::admission::{Admission, Effects, Job, State, has_slack};
use crate::pace::{LANES, Pace};
use crate::task::{Ended, Place, Ran, notify};
use crate::timers::{NEVER, Timers, outside};

/// Most tasks that a worker takes from the inbox in a round.
const MOST_NEW: usize = 64;
/// Most tasks that a worker runs in a round: as many as it fires and takes, so that none stay behind.
const MOST_LOCAL: usize = 192;
/// How long timers and queued tasks of a worker that is stuck in a poll may wait until another worker looks.
pub(crate) const WATCH: Duration = Duration::from_millis(5);
const WATCH_NANOS: u64 = 5_000_000;
/// How long an idle worker sleeps at most if it has memory to free or tasks to relieve, in nanoseconds.
const REST: u64 = 500_000_000;

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
    /// Whether callers wait for room.
    // Relaxed: a worker that misses it passes the room on at the end of its round.
    has_waiters: AtomicBool,
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

    /// Counts the calling worker as searching, unless another one is: one takes a core already.
    fn begin_search(&mut self) -> bool {
        let begins = self.searching == 0;
        self.searching += usize::from(begins);
        begins
    }

    pub(crate) fn has_slack(&self) -> bool {
        has_slack(self.queue.capacity(), self.queue.len())
    }

    /// Frees the memory of a peak.
    pub(crate) fn shrink(&mut self) {
        self.queue.shrink_to_fit();
    }
}

struct Worker {
    queue: CachePadded<Mutex<RunQueue>>,
    timers: Timers,
    parker: Parker,
    /// Number of rounds. One that stands still shows the other workers that a poll does not return.
    // Relaxed: a hint.
    rounds: AtomicUsize,
}

/// How a task came to a run queue. Each lane has its turn, a round long, so that many tasks of one kind, or long polls, do not
/// delay those of another.
#[derive(Clone, Copy)]
enum Lane {
    /// It has just started, or was woken by another thread.
    New,
    /// A timer has woken it.
    Timer,
    /// A task of this worker has woken it.
    Local,
}

#[derive(Default)]
struct RunQueue {
    lanes: [VecDeque<Job>; LANES],
    /// The lane whose turn it is.
    turn: usize,
    ended: Batch,
}

impl RunQueue {
    fn push(&mut self, lane: Lane, job: Job) {
        self.lanes[lane as usize].push_back(job);
    }

    /// Takes the next task of the lane whose turn it is, or of the next one that has any.
    fn pop(&mut self) -> Option<(usize, Job)> {
        (self.turn..self.turn + LANES).find_map(|lane| {
            let job = self.lanes[lane % LANES].pop_front()?;
            self.turn = lane % LANES;
            Some((self.turn, job))
        })
    }

    /// Ends the turn of a lane.
    fn pass(&mut self) {
        self.turn = (self.turn + 1) % LANES;
    }

    fn len(&self) -> usize {
        self.lanes.iter().map(VecDeque::len).sum()
    }

    fn is_empty(&self) -> bool {
        self.lanes.iter().all(VecDeque::is_empty)
    }

    /// Takes half of each lane, the oldest tasks.
    fn take_half(&mut self) -> [VecDeque<Job>; LANES] {
        self.lanes.each_mut().map(|lane| {
            let half = lane.len().div_ceil(2);
            lane.drain(..half).collect()
        })
    }

    fn has_slack(&self) -> bool {
        let lanes = self.lanes.iter().map(|lane| (lane.capacity(), lane.len()));
        let ended = (self.ended.capacity(), self.ended.len());
        lanes
            .chain([ended])
            .any(|(capacity, len)| has_slack(capacity, len))
    }

    /// Frees the memory of a peak.
    fn shrink(&mut self) {
        self.lanes.iter_mut().for_each(VecDeque::shrink_to_fit);
        self.ended.shrink_to_fit();
    }
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
    /// Key of that task, if it is live, plus one. Only this worker uses it.
    key: AtomicUsize,
    /// Whether the worker fires timers. Only this worker uses it.
    fires: AtomicBool,
}

impl WorkerRef {
    pub(crate) fn timers(&self) -> &Timers {
        &self.shared.workers[self.number as usize].timers
    }

    /// Notes the task that this worker polls next.
    pub(crate) fn polls(&self, waker: &Waker, place: Option<Place>) {
        self.polled.store(waker.data().addr(), Relaxed);
        let key = match place {
            Some(Place::Started(key)) => key + 1,
            // A cancelled task that has not started.
            _ => 0,
        };
        self.key.store(key, Relaxed);
    }

    /// Notes that the poll has returned.
    pub(crate) fn has_polled(&self) {
        self.key.store(0, Relaxed);
    }

    /// Wakes the watcher for a timer set inside a nested `block_on`, which has a waker of its own: this worker may block until
    /// that timer fires. Any other timer is looked after once the poll has returned.
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
        // In a forked child, the thread that has forked is no worker.
        let current = current
            .as_ref()
            .filter(|worker| worker.shared.process.is_current());
        let look = look.take().expect("it is called once");
        look(current)
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
            has_waiters: AtomicBool::new(false),
            workers: (0..workers)
                .map(|_| {
                    CachePadded::new(Worker {
                        queue: CachePadded::new(Mutex::new(RunQueue::default())),
                        timers: Timers::new(),
                        parker: Parker::new(),
                        rounds: AtomicUsize::new(0),
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

    /// Calls `look` if the calling thread is one of the workers.
    fn with_own<T>(&self, look: impl FnOnce(&Arc<WorkerRef>) -> T) -> Option<T> {
        with_current(|current| {
            let worker = current.filter(|worker| std::ptr::eq(Arc::as_ptr(&worker.shared), self));
            worker.map(look)
        })
    }

    fn own_number(&self) -> Option<usize> {
        self.with_own(|worker| worker.number as usize)
    }

    /// Key of the live task of this pool that the calling thread polls.
    pub(crate) fn own_task(&self) -> Option<usize> {
        self.with_own(|worker| worker.key.load(Relaxed).checked_sub(1))?
    }

    /// Puts a task into the calling worker's queue, or into the inbox.
    pub(crate) fn schedule(&self, job: Job) {
        let own = self.with_own(|worker| {
            let lane = if worker.fires.load(Relaxed) {
                Lane::Timer
            } else {
                Lane::Local
            };
            (worker.number as usize, lane)
        });
        match own {
            Some((worker, lane)) => self.push(worker, lane, job),
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

    fn push(&self, worker: usize, lane: Lane, job: Job) {
        let mut queue = self.workers[worker].queue.lock();
        queue.push(lane, job);
        let is_alone = queue.len() == 1;
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
            let has_waiters = state.waiting() > 0;
            if self.has_waiters.load(Relaxed) != has_waiters {
                self.has_waiters.store(has_waiters, Relaxed);
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
            self.push(worker, Lane::New, job);
            effects
                .more
                .drain(..)
                .for_each(|job| self.push(worker, Lane::New, job));
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
        (0..self.workers.len()).for_each(|worker| self.end_for_worker(worker));
    }

    fn end_for_worker(&self, worker: usize) {
        let mut queue = self.workers[worker].queue.lock();
        if queue.ended.is_empty() {
            return;
        }
        let mut batch = std::mem::take(&mut queue.ended);
        drop(queue);
        self.end(&mut batch);
        let mut queue = self.workers[worker].queue.lock();
        // So that the worker need not allocate again.
        if queue.ended.capacity() == 0 {
            queue.ended = batch;
        }
    }

    /// Shows the outcomes of tasks whose ends are counted.
    fn show(batch: &mut Batch) {
        // After the count: room and statistics show the end before the handle does. All outcomes are there before the first
        // waiter is woken, because that may be user code, which joins another task of the batch.
        let mut waiters = batch.iter().filter_map(|(job, _)| job.show());
        let (first, others) = (waiters.next(), waiters.collect::<Vec<_>>());
        first.into_iter().chain(others).for_each(notify);
        for (job, _) in batch.drain(..) {
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
        let mut own = Own::new(Arc::clone(&entered.0));
        let mut spin = AdaptiveSpin::new();
        let has_new = || self.has_new.load(Acquire);
        loop {
            let mut worked = false;
            while self.round(&mut own) || self.search(&mut own) {
                worked = true;
            }
            if worked {
                spin.look(has_new);
            }
            if spin.lingers() && self.admission.change(|state| state.inbox.begin_search()) {
                spin.go_on(has_new);
                self.admission.change(|state| state.inbox.searching -= 1);
                continue; // Nobody was woken for work that came meanwhile, also in the queue of another worker.
            }
            spin.sleeps();
            if self.rest(&mut own) {
                return;
            }
            spin.woke(self.workers[number].parker.woken_at());
            own.pace.slept();
        }
    }

    /// Fires due timers, takes new tasks and runs local ones, each up to a bound. Returns whether there was any work.
    fn round(self: &Arc<Self>, own: &mut Own) -> bool {
        let Worker {
            queue,
            timers,
            rounds,
            ..
        } = &*self.workers[own.number()];
        rounds.store(rounds.load(Relaxed).wrapping_add(1), Relaxed);
        let now = (timers.next() != NEVER).then(|| self.now());
        let fired = now.is_some_and(|now| own.fire(timers, now));
        own.pace.begin(now);
        if let Some(now) = own.pace.last_look() {
            self.watch_over(own, now);
        }
        std::mem::swap(&mut own.batch, &mut queue.lock().ended);
        self.section(|state, effects| {
            state.end_all(&own.batch, effects);
            let inbox = &mut state.inbox;
            let new = inbox.queue.len().min(MOST_NEW);
            let share = new.div_ceil(self.workers.len());
            if share > 0 {
                // No task is kept where the other workers do not see it: a poll may not return.
                queue.lock().lanes[Lane::New as usize].extend(inbox.queue.drain(..share));
                if inbox.queue.is_empty() {
                    self.has_new.store(false, Release);
                }
            }
            // Each worker that finds work wakes the next, so that a burst wakes as many as it needs.
            if !inbox.queue.is_empty() {
                effects.woken = self.wake_one(inbox);
            }
            if state.is_wanting() && !queue.lock().is_empty() {
                state.stir();
                if let Some(now) = own.pace.last_look() {
                    state.relieve(now, false, effects);
                }
            }
        });
        Self::show(&mut own.batch);
        let (mut last, mut ran, mut is_over) = (Ran::Pending, 0, false);
        loop {
            let mut jobs = queue.lock();
            match std::mem::replace(&mut last, Ran::Pending) {
                Ran::Pending => {}
                // At the back, so that a task that wakes itself does not starve others.
                Ran::Woken(job) => jobs.push(Lane::Local, job),
                // Under the lock: a waiter that comes later finds the task in the batch.
                Ran::Ended(job, ended) if job.is_awaited() => {
                    std::mem::swap(&mut own.batch, &mut jobs.ended);
                    own.batch.push((job, ended));
                }
                Ran::Ended(job, ended) => jobs.ended.push((job, ended)),
            }
            if !own.batch.is_empty() {
                drop(jobs);
                self.end(&mut own.batch);
                continue;
            }
            if is_over || ran == MOST_LOCAL {
                jobs.pass();
                return true;
            }
            let Some((lane, job)) = jobs.pop() else {
                return fired || ran > 0;
            };
            let has_more = !jobs.is_empty();
            let owes_room = !jobs.ended.is_empty() && self.has_waiters.load(Relaxed);
            drop(jobs);
            // The poll may not return. Other tasks are for any idle worker, timers for the watcher.
            if self.idle.load(SeqCst) > 0
                && (has_more || timers.next() != NEVER && !self.is_watched.load(SeqCst))
            {
                self.call_for_help();
            }
            last = job.run(&own.worker);
            ran += 1;
            // Room that a caller waits for is not held back for more than one long poll.
            let looks = own.pace.polled(lane) || owes_room;
            is_over = looks && own.pace.looked(lane, self.now());
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
    fn search(self: &Arc<Self>, own: &mut Own) -> bool {
        let number = own.number();
        if self.others(number).any(|other| self.steal(number, other)) {
            return true;
        }
        let has_timers = self
            .workers
            .iter()
            .any(|worker| worker.timers.next() != NEVER);
        let now = has_timers.then(|| self.now());
        now.is_some_and(|now| {
            let mut fired = false;
            for other in self.others(number) {
                fired |= own.fire(&self.workers[other].timers, now);
            }
            fired
        })
    }

    /// Once in a while, does for the other workers what they cannot do while they are stuck in a poll: fires timers, takes queued
    /// tasks and counts ends. For a pool without idle workers, one of which would be the watcher.
    fn watch_over(self: &Arc<Self>, own: &mut Own, now: u64) {
        if now.saturating_sub(own.watched) < WATCH_NANOS {
            return;
        }
        own.watched = now;
        let number = own.number();
        for other in self.others(number) {
            let Worker { timers, rounds, .. } = &*self.workers[other];
            // A worker that gets on fires the rest itself. All of them in one lane would delay its own timers.
            own.fire(timers, now);
            let rounds = rounds.load(Relaxed);
            if std::mem::replace(&mut own.seen[other], rounds) == rounds {
                while own.fire(timers, now) {}
                self.steal(number, other);
                self.end_for_worker(other);
            }
        }
    }

    fn others(&self, number: usize) -> impl Iterator<Item = usize> + use<> {
        let count = self.workers.len();
        (1..count).map(move |step| (number + step) % count)
    }

    fn steal(&self, number: usize, other: usize) -> bool {
        let mut from = self.workers[other].queue.lock();
        if from.is_empty() {
            return false;
        }
        let stolen = from.take_half();
        drop(from);
        let mut queue = self.workers[number].queue.lock();
        for (lane, mut jobs) in queue.lanes.iter_mut().zip(stolen) {
            lane.append(&mut jobs);
        }
        true
    }

    fn has_work(&self, inbox: &Inbox) -> bool {
        !inbox.queue.is_empty()
            || self
                .workers
                .iter()
                .any(|worker| !worker.queue.lock().is_empty())
    }

    /// Parks until there is work. Returns `true` if the pool has ended.
    fn rest(self: &Arc<Self>, own: &mut Own) -> bool {
        let number = own.number();
        if self.over.load(Acquire) {
            let ends = self.section(|state, _| state.may_end(number));
            if ends {
                return true;
            }
        }
        let is_wanting = self.admission.look(State::is_wanting);
        if is_wanting && self.relieve() {
            return false;
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
        let has_slack = self.shrink(own);
        let most = match (watches, is_wanting || has_slack) {
            (true, _) => Some(WATCH),
            (false, true) => Some(Duration::from_nanos(REST)),
            (false, false) => None,
        };
        self.park(number, most);
        self.admission
            .change(|state| self.leave_idle(&mut state.inbox, number));
        if watches {
            self.end_for_workers();
        }
        false
    }

    /// Frees the memory of a peak once it has not been needed for [`REST`]. Returns whether there is some to free later.
    fn shrink(&self, own: &mut Own) -> bool {
        let Worker { queue, timers, .. } = &*self.workers[own.number()];
        let has_slack = self.admission.look(State::has_slack)
            || own.has_slack()
            || queue.lock().has_slack()
            || timers.has_slack();
        if !has_slack {
            own.slack_since = None;
            return false;
        }
        let now = self.now();
        if now.saturating_sub(*own.slack_since.get_or_insert(now)) < REST {
            return true;
        }
        self.admission.change(State::shrink);
        own.slack_since = None;
        own.shrink();
        queue.lock().shrink();
        timers.shrink();
        false
    }

    /// Lends room to tasks for which others wait in vain. Returns whether one has started. Called by a worker that is about
    /// to park.
    fn relieve(&self) -> bool {
        let now = self.now();
        let is_timed = self
            .workers
            .iter()
            .any(|worker| worker.timers.next() != NEVER);
        self.section(|state, effects| {
            let is_idle = state.inbox.idle.len() + 1 == self.workers.len() && !is_timed;
            state.relieve(now, is_idle, effects);
            effects.start.is_some()
        })
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

    /// Parks for `most` at most, and until the worker's first timer.
    fn park(&self, number: usize, most: Option<Duration>) {
        let Worker { parker, timers, .. } = &*self.workers[number];
        let next = timers.next();
        let timer = self.instant_of(next);
        let mut slept = false;
        // USER CODE: the clock.
        let outcome = guarded(AssertUnwindSafe(|| {
            let end = most.and_then(|most| self.clock.after(most));
            if let Some(when) = [timer, end].into_iter().flatten().min() {
                slept = true;
                self.clock.park_until(parker, when);
            }
        }))
        .map_err(discard);
        if outcome.is_err() {
            // Without a clock that tells the time, the worker looks again soon, but not in a loop.
            let clock = outside();
            if let Some(when) = clock.after(WATCH) {
                clock.park_until(parker, when);
            }
        } else if !slept {
            parker.park();
        }
    }
}

/// The things that only a worker itself uses.
struct Own {
    worker: Arc<WorkerRef>,
    pace: Pace,
    due: Vec<Waker>,
    batch: Batch,
    /// Time of the last look at the other workers, and their rounds at that time.
    watched: u64,
    seen: Box<[usize]>,
    /// Time since which lists had more memory than they need whenever the worker parked.
    slack_since: Option<u64>,
}

impl Own {
    fn new(worker: Arc<WorkerRef>) -> Self {
        let workers = worker.shared.workers.len();
        Self {
            worker,
            pace: Pace::new(),
            due: Vec::new(),
            batch: Vec::new(),
            watched: 0,
            seen: vec![0; workers].into(),
            slack_since: None,
        }
    }

    fn number(&self) -> usize {
        self.worker.number as usize
    }

    /// Fires due timers, a bounded number. Their tasks go to the lane of timers. Returns whether there were any.
    fn fire(&mut self, timers: &Timers, now: u64) -> bool {
        self.worker.fires.store(true, Relaxed);
        let fired = timers.fire(now, &mut self.due);
        self.worker.fires.store(false, Relaxed);
        fired
    }

    fn has_slack(&self) -> bool {
        has_slack(self.batch.capacity(), 0)
    }

    /// Frees the memory of a peak.
    fn shrink(&mut self) {
        self.batch.shrink_to_fit();
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
            key: AtomicUsize::new(0),
            fires: AtomicBool::new(false),
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
