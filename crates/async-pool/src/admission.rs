//! Admission: room, permits, the wait queue, and the registry of started tasks, all under one lock.
//!
//! The arithmetic is that of `pool-core`, and so is the wait queue. Nothing here polls, wakes or drops a task: the
//! caller does that with the [`Effects`] of a section, with no lock held.
//!
//! # Invariants, whenever the lock is free
//! 1. Tasks that hold room are started (`live`) or not (`pending`). `live.len() <= capacity` unless `tune` has lowered
//!    it, and tasks are pending only while `live` is at the capacity.
//! 2. `live + pending + reserved` is at most `capacity + depth`, with the same exception. Callers wait only while it is
//!    at that limit, so a call that finds room overtakes none of them.
//! 3. A task is in `live` from the section that starts it to the one after its future was dropped.

use std::sync::Arc;

use pool_core::internals::{Events, Request, TicketList, WaitQueue, WaiterEntry, WakeList};
use slab::Slab;
use sync_shim::Mutex;

use crate::task::{Ended, Place, Run};
use crate::worker::Inbox;

/// A task of any type.
pub(crate) type Job = Arc<dyn Run>;

/// Work that a section defers until the lock is free.
#[derive(Default)]
#[must_use]
pub(crate) struct Effects {
    /// The first task to schedule. Apart, because most sections start one at most, and need no memory then.
    pub(crate) start: Option<Job>,
    pub(crate) more: Vec<Job>,
    pub(crate) wakes: WakeList,
    /// The worker to wake.
    pub(crate) woken: Option<usize>,
    /// Whether the workers may end.
    pub(crate) over: bool,
}

impl Effects {
    fn start(&mut self, job: Job) {
        if self.start.is_none() {
            self.start = Some(job);
        } else {
            self.more.push(job);
        }
    }
}

/// Answer to a task that asks for room.
pub(crate) enum Admitted {
    Accepted,
    Full,
    Released,
}

/// Totals since the pool was built.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Counts {
    pub(crate) submitted: u64,
    pub(crate) completed: u64,
    pub(crate) panicked: u64,
    pub(crate) cancelled: u64,
    pub(crate) released: u64,
    pub(crate) refused: u64,
}

pub(crate) struct State {
    pub(crate) capacity: usize,
    depth: usize,
    max_waiting: usize,
    pub(crate) open: bool,
    live: Slab<Job>,
    /// Tasks by ticket, so that one can be taken out.
    pending: TicketList<Job>,
    /// Number of tasks that a cancellation or a `release_now` took out of `pending`, and whose futures have not been dropped yet.
    dropping: usize,
    pub(crate) reserved: usize,
    waiting: WaitQueue<Job>,
    pub(crate) counts: Counts,
    pub(crate) peak: usize,
    pub(crate) on_idle: Events,
    pub(crate) on_end: Events,
    /// Workers that have not ended.
    pub(crate) workers: usize,
    /// Which workers have not decided to end.
    staying: Vec<bool>,
    /// Number of reboots that are starting workers.
    reboots: usize,
    pub(crate) inbox: Inbox,
}

pub(crate) struct Admission(Mutex<State>);

impl Admission {
    pub(crate) fn new(capacity: usize, depth: usize, max_waiting: usize, workers: usize) -> Self {
        Self(Mutex::new(State {
            capacity,
            depth,
            max_waiting,
            open: true,
            live: Slab::new(),
            pending: TicketList::new(),
            dropping: 0,
            reserved: 0,
            waiting: WaitQueue::new(),
            counts: Counts::default(),
            peak: 0,
            on_idle: Events::new(),
            on_end: Events::new(),
            workers: 0,
            staying: vec![false; workers],
            reboots: 0,
            inbox: Inbox::new(workers),
        }))
    }

    pub(crate) fn change<T>(&self, change: impl FnOnce(&mut State) -> T) -> T {
        change(&mut self.0.lock())
    }

    pub(crate) fn look<T>(&self, look: impl FnOnce(&State) -> T) -> T {
        look(&self.0.lock())
    }
}

impl State {
    pub(crate) fn live(&self) -> usize {
        self.live.len()
    }

    pub(crate) fn pending(&self) -> usize {
        self.pending.len() + self.dropping
    }

    pub(crate) fn in_flight(&self) -> usize {
        self.live() + self.pending()
    }

    pub(crate) fn waiting(&self) -> usize {
        self.waiting.counted()
    }

    fn has_room(&self) -> bool {
        self.in_flight() + self.reserved < self.capacity.saturating_add(self.depth)
    }

    /// If there is room, accepts the task in `job`, or reserves room for a permit if there is none. A task that is not
    /// accepted stays in `job`.
    pub(crate) fn admit(&mut self, job: &mut Option<Job>, effects: &mut Effects) -> Admitted {
        if !self.open {
            return Admitted::Released;
        }
        if !self.has_room() {
            return Admitted::Full;
        }
        match job.take() {
            Some(job) => self.accept(job, effects),
            None => self.reserved += 1,
        }
        Admitted::Accepted
    }

    /// Enqueues a caller that found the pool full, in the same section. Returns its ticket, or `None` if too many wait.
    pub(crate) fn enqueue(&mut self, entry: &Arc<WaiterEntry<Job>>) -> Option<u64> {
        (self.waiting.counted() < self.max_waiting).then(|| self.waiting.push(Arc::clone(entry)))
    }

    /// Removes the entry of a caller that gives up.
    pub(crate) fn leave(&mut self, ticket: u64) -> Option<Arc<WaiterEntry<Job>>> {
        self.waiting.remove(ticket)
    }

    /// Uses the room of a permit for a task.
    pub(crate) fn use_permit(&mut self, job: Job, effects: &mut Effects) {
        self.reserved -= 1;
        self.accept(job, effects);
    }

    /// Returns the room of an unused permit.
    pub(crate) fn return_permit(&mut self, effects: &mut Effects) {
        self.reserved -= 1;
        self.refill(effects);
    }

    fn accept(&mut self, job: Job, effects: &mut Effects) {
        self.counts.submitted += 1;
        if self.live.len() < self.capacity {
            self.start(job, effects);
        } else {
            let ticket = self.pending.push(Arc::clone(&job));
            job.set_place(Place::Pending(ticket));
        }
    }

    fn start(&mut self, job: Job, effects: &mut Effects) {
        let key = self.live.insert(Arc::clone(&job));
        job.set_place(Place::Started(key));
        self.peak = self.peak.max(self.live.len());
        effects.start(job);
    }

    /// Takes a task that has not started out of the queue, to be polled by the task that waits for it.
    pub(crate) fn take_pending(&mut self, ticket: u64) -> Option<Job> {
        self.pending.remove(ticket)
    }

    /// Schedules a cancelled task that waits in the queue, so that a worker drops it. It counts as queued until then.
    pub(crate) fn drop_pending(&mut self, ticket: u64, effects: &mut Effects) {
        if let Some(job) = self.pending.remove(ticket) {
            self.dropping += 1;
            effects.start(job);
        }
    }

    /// Puts back such a task that is not ready.
    pub(crate) fn put_back(&mut self, job: Job, effects: &mut Effects) {
        self.counts.submitted -= 1;
        self.accept(job, effects);
    }

    /// Counts a task that was polled to its end by another task. `was_accepted` says whether it had been accepted before.
    pub(crate) fn ended_in_place(
        &mut self,
        ended: Ended,
        was_accepted: bool,
        effects: &mut Effects,
    ) {
        self.counts.submitted += u64::from(!was_accepted);
        self.count(ended);
        self.refill(effects);
    }

    /// Counts the ends of tasks, whose futures were dropped, and passes their room on.
    pub(crate) fn end_all(&mut self, batch: &[(Job, Ended)], effects: &mut Effects) {
        for (job, ended) in batch {
            self.end(job.place(), *ended);
        }
        if !batch.is_empty() {
            self.refill(effects);
        }
    }

    fn end(&mut self, place: Option<Place>, ended: Ended) {
        match place {
            Some(Place::Started(key)) => {
                // Not the last reference.
                self.live.try_remove(key);
            }
            // Taken out of the queue by `drop_pending` or `discard_all`: it has never been live.
            _ => self.dropping -= 1,
        }
        self.count(ended);
    }

    fn count(&mut self, ended: Ended) {
        match ended {
            Ended::Completed => self.counts.completed += 1,
            Ended::Panicked => self.counts.panicked += 1,
            Ended::Cancelled => self.counts.cancelled += 1,
            Ended::Released => self.counts.released += 1,
        }
    }

    /// Starts pending tasks and admits waiting callers while there is room.
    pub(crate) fn refill(&mut self, effects: &mut Effects) {
        while self.live.len() < self.capacity
            && let Some(job) = self.pending.pop()
        {
            self.start(job, effects);
        }
        while self.has_room()
            && let Some(entry) = self.waiting.pop()
        {
            // `None` if the caller has taken its request back: it holds no room.
            if let Some((request, waiter)) = entry.claim(0) {
                match request {
                    Request::Task(job) => self.accept(job, effects),
                    Request::Permit => self.reserved += 1,
                }
                if let Some(waiter) = waiter {
                    effects.wakes.push(waiter);
                }
            }
        }
        self.settle(effects);
    }

    /// Tells waits for an idle pool, and the workers of a released one, that nothing is left.
    pub(crate) fn settle(&mut self, effects: &mut Effects) {
        if self.in_flight() == 0 {
            self.on_idle.set_all(&mut effects.wakes);
            effects.over = self.is_over();
        }
    }

    /// Whether nothing is left for the workers of a released pool.
    pub(crate) fn is_over(&self) -> bool {
        // A permit of a released pool may still bring a task.
        !self.open && self.reboots == 0 && self.in_flight() == 0 && self.reserved == 0
    }

    /// Whether this worker ends. In one section, so that a reboot either keeps a worker or replaces it.
    pub(crate) fn may_end(&mut self, worker: usize) -> bool {
        let ends = self.is_over();
        self.staying[worker] &= !ends;
        ends
    }

    /// Counts the workers that have decided to end as workers again. The caller starts them.
    pub(crate) fn replace_workers(&mut self) -> Vec<usize> {
        let gone = self.staying.iter_mut().enumerate();
        let gone =
            gone.filter_map(|(number, stays)| (!std::mem::replace(stays, true)).then_some(number));
        let gone: Vec<usize> = gone.collect();
        self.workers += gone.len();
        gone
    }

    /// Counts a worker that could not be started.
    pub(crate) fn lose_worker(&mut self, number: usize, effects: &mut Effects) {
        self.staying[number] = false;
        self.leave_worker(effects);
    }

    /// Counts a worker out.
    pub(crate) fn leave_worker(&mut self, effects: &mut Effects) {
        self.workers -= 1;
        if self.workers == 0 {
            self.on_end.set_all(&mut effects.wakes);
        }
    }

    /// Begins a reboot, unless the pool is open. Returns the workers to start.
    pub(crate) fn begin_reboot(&mut self) -> Option<Vec<usize>> {
        if self.open {
            return None;
        }
        // Workers that have not decided to end stay until the reboot has opened the pool.
        self.reboots += 1;
        Some(self.replace_workers())
    }

    /// Opens the pool if it has a worker. Returns `false` if it has none, or another reboot was faster.
    pub(crate) fn end_reboot(&mut self, effects: &mut Effects) -> bool {
        self.reboots -= 1;
        let opens = !self.open && self.staying.contains(&true);
        self.open |= opens;
        self.settle(effects);
        opens
    }

    /// Releases the pool: returns the requests of all waiting callers. Returns `false` if that was done before.
    pub(crate) fn release(
        &mut self,
        entries: &mut Vec<Arc<WaiterEntry<Job>>>,
        effects: &mut Effects,
    ) -> bool {
        let was_open = std::mem::replace(&mut self.open, false);
        for entry in self.waiting.take_all() {
            let (_, waiter) = entry.give_back();
            if let Some(waiter) = waiter {
                effects.wakes.push(waiter);
            }
            entries.push(entry);
        }
        self.settle(effects);
        was_open
    }

    /// Takes the tasks that have not started, and lists the others.
    pub(crate) fn discard_all(&mut self, unstarted: &mut Vec<Job>, started: &mut Vec<Job>) {
        unstarted.extend(self.pending.take_all());
        self.dropping += unstarted.len();
        started.extend(self.live.iter().map(|(_, job)| Arc::clone(job)));
    }
}
