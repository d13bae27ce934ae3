//! The pool's state in two halves, each under its own lock.
//!
//! *The lock* of the protocol means both: the state's and the inbox's, taken in this order. Nearly every section
//! holds both. Two need only one, because they change only one half: a task that [enters](Credit::enter) a busy
//! pool, and a worker that takes its [next](Shared::next) task. So submitters and workers of a busy pool contend
//! only when the workers' half of the queue is empty and the inbox is drained. (Two locks for the two ends of a
//! queue: Michael and Scott, 1996. Two lists that are swapped are older than that.)
//!
//! Decisions are made in `decide.rs`: whether tasks may enter and workers may continue without both locks is
//! decided when the lock is released, and stays valid until it is taken again.
//!
//! # Invariants
//! 1. While the lock is held the inbox is empty: taking the lock moves its tasks to the end of the queue and
//!    counts them, and counts the room that was reserved there.
//! 2. While the inbox has `n` credits, `n` tasks could be accepted one by one in whole sections, and none of these
//!    would start a worker or notify any but spinning ones.
//! 3. While the state is on the fast path and its queue holds a task, a whole section that ends a task would count
//!    it, free its room, take the next task and defer no effect. In a pool with priorities this also needs an
//!    inbox without tasks of a higher level.
//! 4. While the full flag is set, the pool is open and has no room. A whole section sets the flag. It is cleared
//!    under the state's lock before the freed room can be observed.
//! 5. While a task in the queue or the inbox waits for a worker and no worker is on its way to it, the wanted flag
//!    is set, or the thread that brought the task is about to set it. Workers that take tasks without a decision
//!    do not clear it: the flag is a hint.

use std::mem::MaybeUninit;
use std::ops::Deref;
use std::ptr::NonNull;
use std::sync::Arc;

use crossbeam_utils::CachePadded;
use sync_shim::atomic::{AtomicBool, Ordering::Relaxed};

use crate::sched::lanes::Lanes;
use crate::sched::load::{LoadStats, Outcome};
use crate::sched::lock::{Both, First, Pair, Second};
use crate::sched::queue::TaskQueue;
use crate::sched::ready::Inlet;
use crate::sched::state::State;

pub(crate) struct Shared<J> {
    halves: Pair<State<J>, Inbox<J>>,
    flags: CachePadded<Flags>,
    /// Further inboxes, for a while in which the first one's lock is held.
    lanes: CachePadded<Lanes<Inbox<J>>>,
}

/// Hints that are readable without the lock.
// On a cache line of their own: they are read by every submitter, while the locks' lines change with each task.
struct Flags {
    /// Whether a call that does not wait is refused. Written under the state's lock.
    full: AtomicBool,
    /// Whether the pool needs a busy worker for another task.
    wanted: AtomicBool,
    /// Whether a `release_now` drops unstarted tasks. Written under the state's lock, by the few sections that change it.
    discards: AtomicBool,
}

impl Flags {
    /// Clears the full flag for a task that ends without a decision. Called before its end can be observed
    /// (invariant 4).
    #[inline]
    fn show_room(&self) {
        store_if_changed(&self.full, false);
    }
}

/// The half of the state in which tasks enter a busy pool.
pub(crate) struct Inbox<J> {
    /// Whether this is the first lane.
    is_first: bool,
    /// Whether [`Lanes`] have more credits. In the first lane while another one may be open, in the others always.
    has_more: bool,
    /// Number of tasks that may still enter without a decision.
    credits: usize,
    /// Number of permits that may be reserved without a decision, beyond the credits.
    more_room: usize,
    /// Number of permits reserved without a decision, not yet counted by the state.
    reserved: usize,
    /// Whether a worker is spinning for work.
    searchers: bool,
    queue: TaskQueue<J>,
    /// Queues of the other priorities, in a pool with priorities.
    inlet: Option<Box<Inlet<J>>>,
    load_stats: Option<Arc<LoadStats>>,
    /// In a pool with load statistics: how many more tasks can enter until no worker is free.
    free: usize,
}

/// Guard of the whole lock; the inbox is empty. The state is readable, and is changed in one
/// [`section`](Whole::section).
///
/// Dropping the guard without a section is harmless: a drained task takes as much room in the queue as it took
/// in the inbox, so the credits and flags are still right.
pub(crate) struct Whole<'a, J> {
    both: Both<'a, State<J>, Inbox<J>>,
    shared: &'a Shared<J>,
}

/// Guard of the inbox, with room for a task.
pub(crate) struct Credit<'a, J>(Second<'a, State<J>, Inbox<J>>);

impl<J> Shared<J> {
    pub(crate) fn new(state: State<J>) -> Self {
        let inbox = |is_first| Inbox {
            is_first,
            has_more: !is_first,
            // None until a section has settled them, so that the first submit decides.
            credits: 0,
            more_room: 0,
            reserved: 0,
            // In other lanes nobody knows, and a worker that does not spin ignores the hint.
            searchers: !is_first,
            queue: TaskQueue::new(),
            inlet: state.queue.inlet(),
            load_stats: state.load_stats.clone(),
            free: 0,
        };
        let (first, lanes) = (inbox(true), Lanes::new(|| inbox(false)));
        Self {
            halves: Pair::new(state, first),
            lanes: CachePadded::new(lanes),
            flags: CachePadded::new(Flags {
                full: AtomicBool::new(false),
                wanted: AtomicBool::new(false),
                discards: AtomicBool::new(false),
            }),
        }
    }

    /// Takes the lock.
    #[inline]
    pub(crate) fn lock(&self) -> Whole<'_, J> {
        self.whole(self.halves.first())
    }

    /// Runs one section: takes the lock, changes the state, settles what may happen without the lock, and unlocks.
    #[inline]
    pub(crate) fn section<T>(&self, change: impl FnOnce(&mut State<J>) -> T) -> T {
        self.lock().section(|state, _| change(state))
    }

    /// Locks the inbox if a task may enter it without a decision (invariant 2).
    #[inline]
    pub(crate) fn credit(&self, is_worker: impl FnOnce() -> bool) -> Option<Credit<'_, J>> {
        let mut inbox = self.inbox(is_worker);
        // A full or idle pool grants no credits, so that its submits take the lock and decide.
        (inbox.half().credits > 0).then_some(Credit(inbox))
    }

    /// Locks the lane that is open for tasks. `is_worker` is asked if another thread holds the lock.
    #[inline]
    fn inbox(&self, is_worker: impl FnOnce() -> bool) -> Second<'_, State<J>, Inbox<J>> {
        let at_once = if self.lanes.only_first() {
            self.halves.try_second()
        } else {
            None
        };
        let mut inbox = at_once.unwrap_or_else(|| self.free_inbox(is_worker()));
        let half = inbox.half();
        if half.credits == 0 && half.has_more {
            half.credits = self.lanes.take();
        }
        inbox
    }

    #[cold]
    #[inline(never)]
    fn free_inbox(&self, is_worker: bool) -> Second<'_, State<J>, Inbox<J>> {
        let mut inbox = self.lanes.lock(&self.halves, is_worker);
        if !inbox.half().is_first {
            // Before the task enters, which is as good under the lane's lock: a section that clears the flag empties the
            // lane before.
            self.show_wanted();
        }
        inbox
    }

    /// Frees spare memory of the other lanes, for a worker that goes to sleep.
    pub(crate) fn trim_lanes(&self) {
        for lane in self.lanes.used() {
            let garbage = lane.lock::<State<J>>().half().trim();
            drop(garbage); // After the lock's release, because freeing memory takes time.
        }
    }

    /// Step P1: reserves room for a permit, if that needs no decision. Leaves the credits alone where it can, because a
    /// permit notifies no worker.
    #[inline]
    pub(crate) fn try_reserve(&self, is_worker: impl FnOnce() -> bool) -> bool {
        let mut inbox = self.inbox(is_worker);
        let inbox = inbox.half();
        let from = if inbox.more_room > 0 {
            &mut inbox.more_room
        } else {
            &mut inbox.credits
        };
        if *from == 0 {
            return false;
        }
        // Room that needs no decision guarantees what a permit needs: some worker is live, and a whole section, which
        // counts the permit, comes before any worker leaves.
        *from -= 1;
        inbox.reserved += 1;
        inbox.show_taken();
        true
    }

    /// Ends a task and returns its worker's next one, if no decision is needed (invariant 3). Otherwise returns the
    /// lock, with nothing changed, for the section that decides. In a pool with priorities, tasks of a higher level
    /// are drained from the inbox first.
    #[inline]
    pub(crate) fn next(&self, outcome: Outcome) -> Result<J, Whole<'_, J>> {
        let mut state = self.halves.first();
        // Decided here once, so that a pool without priorities does not look at levels for each task.
        if state.half().queue.has_levels() {
            return self.next_by_level(state, outcome);
        }
        // Without the inbox's lock, so that workers and submitters of a busy pool do not contend.
        if state.half().may_go_on() {
            return Ok(self.go_on(state.half(), outcome));
        }
        let mut whole = self.whole(state);
        if whole.may_go_on() {
            // With the tasks of the inbox. Nothing is settled anew, because these tasks have used credits: it
            // was decided before that they change no decision.
            return Ok(self.go_on(whole.state_mut(), outcome));
        }
        Err(whole)
    }

    /// The same in a pool with priorities.
    // A function of its own: where two ways to pop a task meet, the compiler moves it once more, which costs every
    // worker on the fast path.
    #[cold]
    #[inline(never)]
    fn next_by_level<'a>(
        &'a self,
        mut state: First<'a, State<J>, Inbox<J>>,
        outcome: Outcome,
    ) -> Result<J, Whole<'a, J>> {
        if state.half().may_go_on_by_level() {
            self.flags.show_room();
            return Ok(popped(state.half().go_on_by_level(outcome)));
        }
        let mut whole = self.whole(state);
        // Asked again, because the inbox may have brought a task of a higher level.
        if whole.may_go_on_by_level() {
            self.flags.show_room();
            return Ok(popped(whole.state_mut().go_on_by_level(outcome)));
        }
        Err(whole)
    }

    /// Step W6, with the lock held.
    #[inline]
    fn go_on(&self, state: &mut State<J>, outcome: Outcome) -> J {
        self.flags.show_room();
        popped(state.go_on(outcome))
    }

    /// Step P5: ends a task that ran with a permit's room inside another task, if no decision is needed. Otherwise
    /// changes nothing and returns `false`. Does that, too, if the other task `yields` and tasks are queued.
    #[inline]
    pub(crate) fn try_end_permitted(&self, outcome: Outcome, yields: bool) -> bool {
        let mut state = self.halves.first();
        let half = state.half();
        // Asked first, because a refusal must leave the outcome uncounted.
        if !half.may_end_permitted() {
            return false;
        }
        if !yields && half.try_end_permitted(outcome) {
            self.flags.show_room();
            return true;
        }
        // The permit may have been reserved in the inbox, and is counted only after a drain.
        let mut whole = self.whole(state);
        let ended =
            (!yields || whole.queue.len() == 0) && whole.state_mut().try_end_permitted(outcome);
        // Settled, because the drain may have counted permits, which changes how many credits remain.
        whole.unlock();
        ended
    }

    /// Step S1: whether the pool is open and has no room (invariant 4). `false` means unknown.
    #[inline]
    pub(crate) fn is_full(&self) -> bool {
        // Relaxed: a thread that knows that a task has ended was told so by a write that came after the flag's,
        // so it sees the flag cleared.
        self.flags.full.load(Relaxed)
    }

    /// Whether a busy worker is needed for another task (invariant 5).
    #[inline]
    pub(crate) fn is_wanted(&self) -> bool {
        self.flags.wanted.load(Relaxed) // A hint, so a stale answer is safe.
    }

    /// Whether a `release_now` drops tasks that have not started.
    #[inline]
    pub(crate) fn discards(&self) -> bool {
        // Relaxed: exact for a task that was queued after the `release_now`, because its pop is ordered by the lock.
        self.flags.discards.load(Relaxed)
    }

    /// Sets that flag, in a section.
    pub(crate) fn show_discards(&self, discards: bool) {
        // By a section, so that a turn that is queued after it finds the flag set.
        self.flags.discards.store(discards, Relaxed);
    }

    /// Step S2: sets the wanted flag for a task that entered without a decision and has no worker on its way.
    #[inline]
    pub(crate) fn show_wanted(&self) {
        store_if_changed(&self.flags.wanted, true);
    }

    #[inline]
    fn whole<'a>(&'a self, state: First<'a, State<J>, Inbox<J>>) -> Whole<'a, J> {
        let mut both = state.and_second();
        let (state, inbox) = both.halves();
        inbox.drain(state);
        if inbox.has_more {
            // After the first one, whose tasks are older.
            for lane in self.lanes.close() {
                let mut lane = lane.lock::<State<J>>();
                lane.half().drain(state);
                self.lanes
                    .give_back(std::mem::take(&mut lane.half().credits));
            }
        }
        Whole { both, shared: self }
    }
}

/// Unwraps a pop from a queue that has a task.
#[inline]
fn popped<J>(job: Option<J>) -> J {
    job.unwrap_or_else(|| unreachable!("the queue is not empty"))
}

/// Stores a flag if it changes.
// A store takes the cache line away from its readers, so it must not happen once per task.
#[inline]
fn store_if_changed(flag: &AtomicBool, value: bool) {
    if flag.load(Relaxed) != value {
        flag.store(value, Relaxed);
    }
}

/// A slot in the inbox for a task that is constructed in place.
#[must_use = "the task is owed"]
pub(crate) struct Place<'a, J> {
    inbox: Second<'a, State<J>, Inbox<J>>,
    slot: NonNull<J>,
}

impl<J> Place<'_, J> {
    /// Returns the memory for the task.
    #[inline]
    pub(crate) fn slot(&mut self) -> &mut MaybeUninit<J> {
        // SAFETY: the inbox's memory stays where it is while its lock is held.
        unsafe { self.slot.cast().as_mut() }
    }

    /// Ends the insertion. Returns whether a worker is spinning and needs the hint.
    ///
    /// # Safety
    /// The task must have been written.
    #[inline]
    pub(crate) unsafe fn filled(mut self) -> bool {
        let inbox = self.inbox.half();
        // Under the inbox's lock, because the figure has one writer at a time.
        inbox.show_taken();
        if inbox.inlet.is_some() {
            inbox.sort_last();
        }
        inbox.searchers
    }
}

impl<'a, J> Credit<'a, J> {
    /// Step S2: accepts a task that the caller writes next.
    ///
    /// # Safety
    /// The caller must write the task and then call [`Place::filled`].
    #[inline]
    pub(crate) unsafe fn place(mut self) -> Place<'a, J> {
        let inbox = self.0.half();
        inbox.credits -= 1;
        // SAFETY: the caller writes the task before it gives the lock back with `filled`.
        let slot = unsafe { inbox.queue.place() };
        let inbox = self.0;
        Place { inbox, slot }
    }

    /// Step S2: accepts a task. Returns whether a worker is spinning and needs the hint.
    #[inline]
    pub(crate) fn enter(self, job: J) -> bool {
        // SAFETY: the task is written next.
        let mut place = unsafe { self.place() };
        place.slot().write(job);
        // SAFETY: it was just written.
        unsafe { place.filled() }
    }
}

impl<J> Credit<'_, J> {
    /// Step S2 for several tasks: accepts as many from the front as there are credits. Returns whether a worker is
    /// spinning and needs the hint.
    pub(crate) fn enter_all(mut self, jobs: &mut TaskQueue<J>) -> bool {
        let inbox = self.0.half();
        // At most the credits, since each task beyond them must be decided about.
        let count = jobs.len().min(inbox.credits);
        inbox.credits -= count;
        if count == jobs.len() && inbox.inlet.is_none() {
            // Blocks change hands as they are, so that a large batch is not copied under the lock.
            inbox.queue.append_chunk(jobs);
        } else {
            // One by one, because tasks with priorities must be sorted and a partial batch must be split.
            for job in std::iter::from_fn(|| jobs.pop()).take(count) {
                inbox.queue.push(job);
                inbox.sort_last();
            }
        }
        (0..count).for_each(|_| inbox.show_taken());
        inbox.searchers
    }
}

impl<J> Inbox<J> {
    /// Moves everything to the state, with both locks held.
    #[inline]
    fn drain(&mut self, state: &mut State<J>) {
        // Before anyone looks at the counters: credits that became permits hold room (invariant 1).
        state.reserved += std::mem::take(&mut self.reserved);
        // An empty inbox is left alone, since a drain writes to the queue's lines even if it moves nothing.
        if self.queue.len() > 0 || self.inlet.is_some() {
            state.drain_inbox(&mut self.queue, self.inlet.as_deref_mut());
        }
    }

    /// Updates the load statistics for a task or a permit that has taken room.
    #[inline]
    fn show_taken(&mut self) {
        if let Some(load_stats) = &self.load_stats {
            if !self.is_first {
                return load_stats.enter_other(); // No worker is free, or the section would have granted no credits.
            }
            load_stats.enter();
            // Counted down here, so that a strategy sees a pool fill up before its next section.
            self.free = self.free.saturating_sub(1);
            load_stats.show_free(self.free > 0);
        }
    }

    #[cold]
    #[inline(never)]
    fn sort_last(&mut self) {
        if let Some(inlet) = &mut self.inlet {
            inlet.sort_last(&mut self.queue);
        }
    }

    /// Removes spare memory, for a worker that goes to sleep. The caller drops it after unlocking.
    pub(crate) fn trim(&mut self) -> impl Sized + use<J> {
        (
            self.queue.trim(),
            self.inlet.as_mut().map(|inlet| inlet.trim()),
        )
    }
}

impl<J> Whole<'_, J> {
    /// Changes the state, settles and unlocks.
    #[inline]
    pub(crate) fn section<T>(
        mut self,
        change: impl FnOnce(&mut State<J>, &mut Inbox<J>) -> T,
    ) -> T {
        let (state, inbox) = self.both.halves();
        let result = change(state, inbox);
        // Also after a change that seems to leave the counters alone: every grant is valid only until the lock is taken.
        self.unlock();
        result
    }

    /// The state, for a section that the caller ends with [`unlock`](Whole::unlock).
    // An alternative to `section`: a task returned from a closure is moved once more per frame, which costs every
    // worker.
    #[inline]
    pub(crate) fn state_mut(&mut self) -> &mut State<J> {
        self.both.halves().0
    }

    /// Settles what may happen without the lock, and unlocks: how many tasks may enter without a decision (invariant
    /// 2), whether workers may continue without one (3), which calls are refused without the lock (4), and whether
    /// busy workers are needed (5).
    // All fast paths rely on these writes. They come last in the section, so that they follow from its final counters.
    #[inline]
    pub(crate) fn unlock(mut self) {
        let (state, inbox) = self.both.halves();
        // Steps U1, U2.
        let credits = state.grant_credits();
        let spare = self.shared.lanes.grant(credits);
        inbox.has_more = spare > 0;
        inbox.credits = credits - spare;
        inbox.more_room = state.view().room() - credits;
        inbox.searchers = state.searching > 0;
        if let Some(load_stats) = &inbox.load_stats {
            // From the final counters of the section, because members of a multi-pool are compared by this figure.
            let taken = state.in_flight + state.reserved;
            inbox.free = state.workers().saturating_sub(taken);
            load_stats.show_free(inbox.free > 0);
        }
        // Steps U3, U4.
        store_if_changed(&self.shared.flags.full, state.is_full());
        store_if_changed(&self.shared.flags.wanted, state.is_wanted());
    }
}

impl<J> Drop for Whole<'_, J> {
    #[inline]
    fn drop(&mut self) {
        // Last, because tasks may enter before the locks are released.
        if self.both.halves().1.has_more {
            self.shared.lanes.open();
        }
    }
}

impl<J> Deref for Whole<'_, J> {
    type Target = State<J>;

    #[inline]
    fn deref(&self) -> &State<J> {
        &self.both
    }
}
