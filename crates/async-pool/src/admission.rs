//! Admission: room, permits, the wait queue, and the registry of started tasks, all under one lock.
//!
//! The arithmetic is that of `pool-core`, and so is the wait queue. Nothing here polls, wakes or drops a task: the
//! caller does that with the [`Effects`] of a section, with no lock held.
//!
//! A task that waits for its own full pool lends its room: see `family.rs`. Loans are rooms with two holders, the parent
//! and its child, so they are subtracted wherever room is counted.
//!
//! # Invariants, whenever the lock is free
//! 1. Accepted tasks are started (`live`) or not (`pending`). `live - loans <= capacity` unless `tune` has lowered it or
//!    the pool stood still ([`relieve`](State::relieve)), and tasks are pending only while it is at the capacity.
//! 2. `live + pending + reserved - loans` is at most `capacity + depth`, with the same exceptions. Callers wait only
//!    while it is at that limit, so a call that finds room overtakes none of them.
//! 3. A task is in `live` from the section that starts it to the one after its future was dropped.
//! 4. A parent without live children has no want that is still queued: it has lent its room to the first one.

use std::sync::Arc;

use pool_core::internals::{Events, Request, TicketList, WaitQueue, WaiterEntry, WakeList};
use slab::Slab;
use sync_shim::Mutex;

use crate::family::{ChildOf, Families, FamilyId, FamilyIndex, Want};
use crate::task::{Ended, Place, Run};
use crate::worker::Inbox;

/// Number of entries for which a list keeps memory while it is empty.
const FEW: usize = 1_024;

/// Whether a list has far more memory than it needs.
pub(crate) fn has_slack(capacity: usize, len: usize) -> bool {
    capacity > 2 * FEW.max(len)
}

/// A task of any type.
pub(crate) type Job = Arc<dyn Run>;

/// A task that has not started, and the family of the task that submitted it.
pub(crate) struct Candidate {
    pub(crate) job: Job,
    pub(crate) family: Option<FamilyId>,
}

/// A started task.
struct Live {
    job: Job,
    /// The parent's family in which the task is counted, and whether the task is in the parent's room.
    child_of: ChildOf,
    /// The family whose parent the task is.
    heads: Option<FamilyIndex>,
}

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

/// Answer to a task, or a permit, that asks for room.
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
    live: Slab<Live>,
    families: Families,
    /// Tasks by ticket, so that one can be taken out.
    pending: TicketList<Candidate>,
    /// Number of tasks that a cancellation or a `release_now` took out of `pending`, and whose futures have not been dropped yet.
    dropping: usize,
    pub(crate) reserved: usize,
    waiting: WaitQueue<Candidate>,
    pub(crate) counts: Counts,
    pub(crate) peak: usize,
    pub(crate) on_idle: Events,
    pub(crate) on_end: Events,
    /// Workers that have not ended.
    pub(crate) workers: usize,
    /// How often all workers have ended.
    pub(crate) ends: u64,
    /// Which workers have not decided to end.
    staying: Vec<bool>,
    /// Number of reboots that are starting workers.
    reboots: usize,
    /// Time of the next look of [`relieve`](State::relieve), and the time since which no task was polled.
    relief: u64,
    still: Option<u64>,
    /// Capacity of `live` that could not be freed.
    unshrinkable: usize,
    pub(crate) inbox: Inbox,
}

/// How long a live task waits in vain for a queued one before [`State::relieve`] lends room to that, in nanoseconds.
pub(crate) const PATIENCE: u64 = 1_000_000_000;

pub(crate) struct Admission(Mutex<State>);

impl Admission {
    pub(crate) fn new(capacity: usize, depth: usize, max_waiting: usize, workers: usize) -> Self {
        Self(Mutex::new(State {
            capacity,
            depth,
            max_waiting,
            open: true,
            live: Slab::new(),
            families: Families::new(),
            pending: TicketList::new(),
            dropping: 0,
            reserved: 0,
            waiting: WaitQueue::new(),
            counts: Counts::default(),
            peak: 0,
            on_idle: Events::new(),
            on_end: Events::new(),
            workers: 0,
            ends: 0,
            staying: vec![false; workers],
            reboots: 0,
            relief: 0,
            still: None,
            unshrinkable: 0,
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
    /// Number of started tasks, without the parents that have lent their room.
    pub(crate) fn live(&self) -> usize {
        self.live.len() - self.lending()
    }

    /// Number of started tasks that have lent their room to a child.
    pub(crate) fn lending(&self) -> usize {
        self.families.lenders()
    }

    pub(crate) fn pending(&self) -> usize {
        self.pending.len() + self.dropping
    }

    pub(crate) fn in_flight(&self) -> usize {
        self.live.len() + self.pending()
    }

    pub(crate) fn waiting(&self) -> usize {
        self.waiting.counted()
    }

    fn has_room(&self) -> bool {
        let held = self.in_flight() + self.reserved - self.families.loans();
        held < self.capacity.saturating_add(self.depth)
    }

    fn may_start(&self) -> bool {
        self.live.len() - self.families.lent_tasks() < self.capacity
    }

    /// If there is room, accepts the task in `job`, or reserves room for a permit if there is none. A task that is not
    /// accepted stays in `job`. `parent` is the key of the live task that calls.
    pub(crate) fn admit(
        &mut self,
        job: &mut Option<Job>,
        parent: Option<usize>,
        effects: &mut Effects,
    ) -> Admitted {
        if !self.open {
            return Admitted::Released;
        }
        if !self.has_room() {
            return Admitted::Full;
        }
        match job.take() {
            Some(job) => {
                let family = parent.map(|parent| self.family(parent));
                self.accept(Candidate { job, family }, effects);
            }
            None => self.reserved += 1,
        }
        Admitted::Accepted
    }

    /// Makes a call that found the pool full wait, in the same section: enqueues its entry, or accepts its request at once
    /// in the room of the `parent` that calls. Returns the ticket of the entry, or `None` if too many callers wait.
    pub(crate) fn enqueue(
        &mut self,
        entry: &Arc<WaiterEntry<Candidate>>,
        parent: Option<usize>,
        effects: &mut Effects,
    ) -> Option<u64> {
        // A caller that lends its room does not wait.
        let lends = parent.is_some_and(|parent| {
            let family = self.family(parent);
            self.families.may_lend(family)
        });
        if self.waiting.counted() >= self.max_waiting && !lends {
            return None;
        }
        let ticket = self.waiting.push(Arc::clone(entry));
        if let Some(parent) = parent {
            self.want(parent, [Want::Waiting(ticket)], effects);
        }
        Some(ticket)
    }

    /// Removes the entry of a caller that gives up.
    pub(crate) fn leave(&mut self, ticket: u64) -> Option<Arc<WaiterEntry<Candidate>>> {
        self.waiting.remove(ticket)
    }

    /// Uses the room of a permit for a task.
    pub(crate) fn use_permit(
        &mut self,
        job: Job,
        loan: ChildOf,
        parent: Option<usize>,
        effects: &mut Effects,
    ) {
        self.reserved -= 1;
        if let Some(lender) = self.families.return_permit(loan) {
            self.counts.submitted += 1;
            let child_of = self.families.lend_to_task(lender);
            self.start(job, child_of, effects);
        } else {
            let family = parent.map(|parent| self.family(parent));
            self.accept(Candidate { job, family }, effects);
        }
    }

    /// Returns the room of an unused permit.
    pub(crate) fn return_permit(&mut self, loan: ChildOf, effects: &mut Effects) {
        self.reserved -= 1;
        let parent = self.families.return_permit(loan);
        self.refill(effects);
        if let Some(family) = parent {
            self.lend_if_childless(family, effects);
        }
    }

    fn accept(&mut self, Candidate { job, family }: Candidate, effects: &mut Effects) {
        self.counts.submitted += 1;
        if self.may_start() {
            let child_of = self.families.count_child(family);
            self.start(job, child_of, effects);
        } else {
            let ticket = self.pending.push(Candidate {
                job: Arc::clone(&job),
                family,
            });
            job.set_place(Place::Pending(ticket));
        }
    }

    fn start(&mut self, job: Job, child_of: ChildOf, effects: &mut Effects) {
        let key = self.live.insert(Live {
            job: Arc::clone(&job),
            child_of,
            heads: None,
        });
        job.set_place(Place::Started(key));
        self.peak = self.peak.max(self.live());
        effects.start(job);
    }

    /// The family of a live task, which asks for room or waits for a queued task.
    pub(crate) fn family(&mut self, parent: usize) -> FamilyId {
        let parent = &mut self.live[parent];
        let headed = *parent.heads.get_or_insert_with(|| self.families.create());
        self.families.family(headed)
    }

    /// Notes that a live task waits for queued tasks or requests. Starts the first one at once in the room of the parent if that
    /// has no live child.
    pub(crate) fn want(
        &mut self,
        parent: usize,
        wants: impl IntoIterator<Item = Want>,
        effects: &mut Effects,
    ) {
        let family = self.family(parent);
        for want in wants {
            let count = self.families.want(family, want);
            // Half of them are stale, so the time of the search is that of the additions since the last one.
            if count > 2 * (self.pending.len() + self.waiting.len()) + FEW {
                self.families.forget(family, |want| match want {
                    Want::Pending(ticket) => self.pending.contains(ticket),
                    Want::Waiting(ticket) => self.waiting.contains(ticket),
                });
            }
        }
        self.lend_if_childless(family, effects);
    }

    /// Lends the room of a parent without live children to the first queued task that it waits for.
    fn lend_if_childless(&mut self, family: FamilyId, effects: &mut Effects) {
        if self.families.may_lend(family) {
            self.lend(family, effects);
        }
    }

    /// Lends room of a parent to the first queued task or request that it waits for.
    fn lend(&mut self, family: FamilyId, effects: &mut Effects) {
        while let Some(want) = self.families.next_want(family) {
            match want {
                Want::Pending(ticket) => {
                    if let Some(candidate) = self.pending.remove(ticket) {
                        let child_of = self.families.lend_to_task(family);
                        return self.start(candidate.job, child_of, effects);
                    }
                }
                Want::Waiting(ticket) => {
                    // `None` if it was served, or its caller has taken the request back.
                    let Some(entry) = self.waiting.remove(ticket) else {
                        continue;
                    };
                    if let Some((request, waiter)) =
                        entry.claim(ChildOf::borrower(family).into_raw())
                    {
                        match request {
                            Request::Task(candidate) => {
                                self.counts.submitted += 1;
                                let child_of = self.families.lend_to_task(family);
                                self.start(candidate.job, child_of, effects);
                            }
                            Request::Permit => {
                                self.reserved += 1;
                                self.families.lend_to_permit(family);
                            }
                        }
                        if let Some(waiter) = waiter {
                            effects.wakes.push(waiter);
                        }
                        return;
                    }
                }
            }
        }
    }
    /// Schedules a cancelled task that waits in the queue, so that a worker drops it. It counts as queued until then.
    pub(crate) fn drop_pending(&mut self, ticket: u64, effects: &mut Effects) {
        if let Some(candidate) = self.pending.remove(ticket) {
            self.dropping += 1;
            effects.start(candidate.job);
        }
    }

    /// Counts the ends of tasks, whose futures were dropped, and passes their room on.
    pub(crate) fn end_all(&mut self, batch: &[(Job, Ended)], effects: &mut Effects) {
        if batch.is_empty() {
            return;
        }
        let mut parents = Vec::new();
        for (job, ended) in batch {
            parents.extend(self.end(job.place(), *ended));
        }
        if self.live.is_empty() {
            self.unshrinkable = 0;
        }
        self.refill(effects);
        // After the refill, so that a task that has found room needs no loan.
        for family in parents {
            self.lend_if_childless(family, effects);
        }
    }

    /// Counts an end. Returns the family of a live parent that waits for further tasks.
    fn end(&mut self, place: Option<Place>, ended: Ended) -> Option<FamilyId> {
        self.count(ended);
        let Some(Place::Started(key)) = place else {
            // Taken out of the queue by `drop_pending` or `discard_all`: it has never been live.
            self.dropping -= 1;
            return None;
        };
        // `job` is not the last reference.
        let live = self.live.try_remove(key)?;
        if let Some(headed) = live.heads {
            self.families.end_parent(headed, live.child_of);
        }
        let parent = self.families.end_child(live.child_of);
        parent.filter(|_| self.families.is_wanting())
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
        while self.may_start()
            && let Some(Candidate { job, family }) = self.pending.pop()
        {
            let child_of = self.families.count_child(family);
            self.start(job, child_of, effects);
        }
        while self.has_room()
            && let Some(entry) = self.waiting.pop()
        {
            // `None` if the caller has taken its request back: it holds no room.
            if let Some((request, waiter)) = entry.claim(0) {
                match request {
                    Request::Task(candidate) => self.accept(candidate, effects),
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
            self.ends += 1;
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
        entries: &mut Vec<Arc<WaiterEntry<Candidate>>>,
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
        let pending = self.pending.take_all();
        unstarted.extend(pending.map(|candidate| candidate.job));
        self.dropping += unstarted.len();
        started.extend(self.live.iter().map(|(_, live)| Arc::clone(&live.job)));
    }

    /// Whether lists have more memory than they need.
    pub(crate) fn has_slack(&self) -> bool {
        let capacity = self.live.capacity();
        capacity > self.unshrinkable && has_slack(capacity, self.live.len())
            || self.inbox.has_slack()
    }

    /// Frees the memory of a peak. A live task keeps its place, so a list becomes as short as its last one allows.
    pub(crate) fn shrink(&mut self) {
        self.live.shrink_to_fit();
        self.unshrinkable = self.live.capacity();
        self.families.shrink();
        self.inbox.shrink();
    }

    /// Whether a live task waits for a task that may still be queued, and has a live child.
    pub(crate) fn is_wanting(&self) -> bool {
        self.families.is_wanting()
    }

    /// Notes that a task is about to be polled: the pool does not stand still.
    pub(crate) fn stir(&mut self) {
        self.still = None;
    }

    /// Lends room to queued tasks that live ones have waited for in vain for [`PATIENCE`]: a parent that has lent no room lends
    /// once none of its children has started or ended for so long; another one lends again if, in addition, no task of the pool
    /// was polled for so long. `is_idle`: all workers are idle, and no timer is set.
    ///
    /// The first rule is for a live child that does not end (it serves for as long as the pool exists), the second for
    /// children that wait for each other. Nobody can tell these from slow ones.
    pub(crate) fn relieve(&mut self, now: u64, is_idle: bool, effects: &mut Effects) {
        if !is_idle {
            self.still = None;
        }
        if !self.is_wanting() || now < self.relief {
            return;
        }
        // Rarely, because it looks at all families.
        self.relief = now.saturating_add(PATIENCE / 4);
        let is_still = is_idle && now.saturating_sub(*self.still.get_or_insert(now)) >= PATIENCE;
        for (family, has_lent) in self.families.sample(now, PATIENCE) {
            if !has_lent || is_still {
                self.lend(family, effects);
            }
        }
    }
}
