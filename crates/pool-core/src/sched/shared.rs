//! The pool's state in two halves, each under a lock of its own.
//!
//! Every section holds *the lock*, which is both: the state's and the inbox's, in this order. Two
//! do with one of them, because only their own half can change by them: that of a task that
//! [enters](Credit::enter) a busy pool, and that of a worker which goes on to the
//! [next](Shared::next) task. So a busy pool's submitters and workers do not meet, but when the
//! workers' half of the queue is empty and the inbox is drained. (Two locks for the two ends of
//! a queue: Michael and Scott, 1996. Two lists that change places are older than that.)
//!
//! Not for: deciding. Whether tasks may enter and workers go on so is decided by `decide.rs` when
//! the lock is given back, and stays true until it is taken again.
//!
//! # Invariants
//! 1. While the lock is held the inbox is empty: taking it moves what lies there to the end of the
//!    queue, and counts it; room that was reserved there is counted, too.
//! 2. While the inbox has room for `n` more, `n` tasks could be accepted one by one in whole
//!    sections, and none of these would wake or start a worker, or notify any but spinning ones.
//! 3. While the state is on the fast path and a task lies in its queue, a whole section in which a
//!    task ends would count it, free its room, take that task, and defer no effect; unless, in a
//!    pool with priorities, one of a higher level lies in the inbox.
//! 4. While it says that the pool is full, the pool is open and has no room. The flag is set by a
//!    whole section, and cleared under the state's lock before the freed room is observable.
//! 5. While a task in the queue or the inbox waits for a worker and none is on its way to it, the
//!    wanted flag is set, or is about to be by the thread that brought the task. Workers that take
//!    tasks undecided leave it set: it is a hint.

use std::mem::MaybeUninit;
use std::ops::Deref;
use std::ptr::NonNull;
use std::sync::Arc;

use crossbeam_utils::CachePadded;
use sync_shim::atomic::{AtomicBool, Ordering::Relaxed};

use crate::sched::load::LoadStats;
use crate::sched::lock::{Both, First, Pair, Second};
use crate::sched::queue::TaskQueue;
use crate::sched::ready::Inlet;
use crate::sched::state::State;
use crate::task::run::Outcome;

pub(crate) struct Shared<J> {
    halves: Pair<State<J>, Inbox<J>>,
    flags: CachePadded<Flags>,
}

/// What threads see without the lock.
struct Flags {
    /// Whether a call that does not wait is refused. Written under the state's lock.
    full: AtomicBool,
    /// Whether a worker is wanted for other tasks than the one it runs.
    wanted: AtomicBool,
}

impl Flags {
    /// A task ends undecided, and frees its room. Called before its end can be observed (invariant 4).
    #[inline]
    fn show_room(&self) {
        store_if_changed(&self.full, false);
    }
}

/// Where tasks enter a busy pool.
pub(crate) struct Inbox<J> {
    /// Fast-path credits: how many more tasks may enter without a decision.
    credits: usize,
    /// Room that was reserved undecided.
    reserved: usize,
    /// A worker spins for work.
    searchers: bool,
    queue: TaskQueue<J>,
    /// In a pool with priorities.
    inlet: Option<Box<Inlet<J>>>,
    load_stats: Option<Arc<LoadStats>>,
    /// With load statistics: how many more until no worker is free.
    free: usize,
}

/// The lock is held, and the inbox empty. The state may be looked at; it is changed by the one
/// [`section`](Whole::section). Dropped without one, it has changed nothing that has to be settled:
/// a task drained from the inbox takes as much room in the queue as it took there.
pub(crate) struct Whole<'a, J> {
    both: Both<'a, State<J>, Inbox<J>>,
    flags: &'a Flags,
}

/// Room in the inbox.
pub(crate) struct Credit<'a, J>(Second<'a, State<J>, Inbox<J>>);

impl<J> Shared<J> {
    pub(crate) fn new(state: State<J>) -> Self {
        let inbox = Inbox {
            credits: 0,
            reserved: 0,
            searchers: false,
            queue: TaskQueue::new(),
            inlet: state.queue.inlet(),
            load_stats: state.load_stats.clone(),
            free: 0,
        };
        Self {
            halves: Pair::new(state, inbox),
            flags: CachePadded::new(Flags {
                full: AtomicBool::new(false),
                wanted: AtomicBool::new(false),
            }),
        }
    }

    /// Takes the lock.
    #[inline]
    pub(crate) fn lock(&self) -> Whole<'_, J> {
        self.whole(self.halves.first())
    }

    /// One section: takes the lock, changes the state, settles what may be done without the lock,
    /// and unlocks.
    #[inline]
    pub(crate) fn section<T>(&self, change: impl FnOnce(&mut State<J>) -> T) -> T {
        self.lock().section(|state, _| change(state))
    }

    /// Room in the inbox, if a task may enter undecided (invariant 2).
    #[inline]
    pub(crate) fn credit(&self) -> Option<Credit<'_, J>> {
        let mut inbox = self.halves.second();
        (inbox.half().credits > 0).then_some(Credit(inbox))
    }

    /// A task has ended: its worker's next one, if it may go on undecided (invariant 3); else the
    /// lock, with nothing changed, for the section that decides. In a pool with priorities a task of
    /// a higher level in the inbox is drained first.
    #[inline]
    pub(crate) fn next(&self, outcome: Outcome) -> Result<J, Whole<'_, J>> {
        let mut state = self.halves.first();
        if state.half().queue.has_levels() {
            return self.next_by_level(state, outcome);
        }
        if state.half().may_go_on() {
            return Ok(self.go_on(state.half(), outcome));
        }
        let mut whole = self.whole(state);
        if whole.may_go_on() {
            // With what lay in the inbox. Nothing is settled anew: these tasks have used credits,
            // which stand for just that they change no decision.
            return Ok(self.go_on(whole.state_mut(), outcome));
        }
        Err(whole)
    }

    /// The same in a pool with priorities. Apart: where two ways to pop a task meet, it is moved once
    /// more, which a worker on the fast path feels.
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
        if whole.may_go_on_by_level() {
            self.flags.show_room();
            return Ok(popped(whole.state_mut().go_on_by_level(outcome)));
        }
        Err(whole)
    }

    /// Step W6, with a lock that is held.
    #[inline]
    fn go_on(&self, state: &mut State<J>, outcome: Outcome) -> J {
        self.flags.show_room();
        popped(state.go_on(outcome))
    }

    /// Step K3b: a task of a key has ended, and its worker goes on to the next of that key, whose
    /// permit is used up so. If not, the lock, with nothing changed. `yields`: not while others
    /// are queued.
    #[inline]
    pub(crate) fn pass_on(&self, outcome: Outcome, yields: bool) -> Result<(), Whole<'_, J>> {
        let mut state = self.halves.first();
        if !yields && state.half().pass_on(outcome) {
            self.flags.show_room();
            return Ok(());
        }
        // Permits that were reserved undecided are counted now.
        let mut whole = self.whole(state);
        let passed = (!yields || whole.queue.len() == 0) && whole.state_mut().pass_on(outcome);
        if passed {
            whole.unlock();
            return Ok(());
        }
        Err(whole)
    }

    /// Step S1: whether the pool is open and has no room (invariant 4). Not known if it says
    /// `false`.
    #[inline]
    pub(crate) fn is_full(&self) -> bool {
        // Relaxed: a thread that knows that a task has ended knows it from what followed the store.
        self.flags.full.load(Relaxed)
    }

    /// Whether a worker that runs a task is wanted for another (invariant 5).
    #[inline]
    pub(crate) fn is_wanted(&self) -> bool {
        self.flags.wanted.load(Relaxed) // A hint.
    }

    /// Step S2: a task has entered undecided, and no worker is on its way to it.
    #[inline]
    pub(crate) fn show_wanted(&self) {
        store_if_changed(&self.flags.wanted, true);
    }

    #[inline]
    fn whole<'a>(&'a self, state: First<'a, State<J>, Inbox<J>>) -> Whole<'a, J> {
        let mut both = state.and_second();
        let (state, inbox) = both.halves();
        state.reserved += std::mem::take(&mut inbox.reserved);
        if inbox.queue.len() > 0 || inbox.inlet.is_some() {
            state.drain_inbox(&mut inbox.queue, inbox.inlet.as_deref_mut());
        }
        Whole {
            both,
            flags: &self.flags,
        }
    }
}

/// What was popped of a queue that has a task.
#[inline]
fn popped<J>(job: Option<J>) -> J {
    job.unwrap_or_else(|| unreachable!("the queue is not empty"))
}

/// Writes only what changes: the line is read by others.
#[inline]
fn store_if_changed(flag: &AtomicBool, value: bool) {
    if flag.load(Relaxed) != value {
        flag.store(value, Relaxed);
    }
}

/// A place in the inbox for a task that is made where it is to lie.
#[must_use = "the task is owed"]
#[expect(missing_debug_implementations, reason = "never leaves a sister crate")]
pub struct Place<'a, J> {
    inbox: Second<'a, State<J>, Inbox<J>>,
    slot: NonNull<J>,
}

impl<J> Place<'_, J> {
    /// Where the task is to be written.
    #[inline]
    pub(crate) fn slot(&mut self) -> &mut MaybeUninit<J> {
        // SAFETY: the inbox's memory stays where it is while its lock is held.
        unsafe { self.slot.cast().as_mut() }
    }

    /// Whether a worker spins for work and needs the hint.
    ///
    /// # Safety
    /// The task was written.
    #[inline]
    pub(crate) unsafe fn filled(mut self) -> bool {
        let inbox = self.inbox.half();
        inbox.show_taken();
        if inbox.inlet.is_some() {
            inbox.sort_last();
        }
        inbox.searchers
    }
}

impl<'a, J> Credit<'a, J> {
    /// Step S2: accepts a task, which is to be written next.
    ///
    /// # Safety
    /// The caller writes the task, and says so by [`Place::filled`].
    #[inline]
    pub(crate) unsafe fn place(mut self) -> Place<'a, J> {
        let inbox = self.0.half();
        inbox.credits -= 1;
        // SAFETY: the caller's; the lock is held until then.
        let slot = unsafe { inbox.queue.place() };
        let inbox = self.0;
        Place { inbox, slot }
    }

    /// Step S2: accepts the task. Whether a worker spins for work and needs the hint.
    #[inline]
    pub(crate) fn enter(self, job: J) -> bool {
        // SAFETY: the task is written next.
        let mut place = unsafe { self.place() };
        place.slot().write(job);
        // SAFETY: it was just written.
        unsafe { place.filled() }
    }

    /// Step K2: reserves the room. A credit is worth a permit: some worker lives, and none leaves
    /// before a whole section has counted it.
    #[inline]
    pub(crate) fn reserve(mut self) {
        let inbox = self.0.half();
        inbox.credits -= 1;
        inbox.reserved += 1;
        inbox.show_taken();
    }
}

impl<J> Credit<'_, J> {
    /// Step S2, for the first of these tasks: as many as there are credits. Whether a worker spins
    /// for work and needs the hint.
    pub(crate) fn enter_all(mut self, jobs: &mut TaskQueue<J>) -> bool {
        let inbox = self.0.half();
        let count = jobs.len().min(inbox.credits);
        inbox.credits -= count;
        if count == jobs.len() && inbox.inlet.is_none() {
            inbox.queue.append_chunk(jobs);
        } else {
            for job in std::iter::from_fn(|| jobs.pop()).take(count) {
                inbox.queue.push(job);
                inbox.sort_last();
            }
        }
        if let Some(load_stats) = &inbox.load_stats {
            (0..count).for_each(|_| load_stats.enter());
            inbox.free = inbox.free.saturating_sub(count);
            load_stats.show_free(inbox.free > 0);
        }
        inbox.searchers
    }
}

impl<J> Inbox<J> {
    /// A task or a permit has taken room.
    #[inline]
    fn show_taken(&mut self) {
        if let Some(load_stats) = &self.load_stats {
            load_stats.enter();
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

    /// A worker goes to sleep: memory to be dropped when the lock is free.
    pub(crate) fn trim(&mut self) -> impl Sized + use<J> {
        (
            self.queue.trim(),
            self.inlet.as_mut().map(|inlet| inlet.trim()),
        )
    }
}

impl<J> Whole<'_, J> {
    /// Changes the state, and ends the section.
    #[inline]
    pub(crate) fn section<T>(
        mut self,
        change: impl FnOnce(&mut State<J>, &mut Inbox<J>) -> T,
    ) -> T {
        let (state, inbox) = self.both.halves();
        let result = change(state, inbox);
        self.unlock();
        result
    }

    /// The state, for a section that its owner [ends](Whole::unlock): a task that comes out of a
    /// closure is moved once more for each frame, which a worker feels.
    #[inline]
    pub(crate) fn state_mut(&mut self) -> &mut State<J> {
        self.both.halves().0
    }

    /// Settles, from the counters as they are now, how many tasks may enter undecided (invariant
    /// 2), whether workers go on undecided (3), which calls are refused without the lock (4), and
    /// whether workers are wanted (5); then unlocks. The most important write of the protocol: all that is done without the lock
    /// rests on it.
    #[inline]
    pub(crate) fn unlock(mut self) {
        let (state, inbox) = self.both.halves();
        // Steps U1, U2.
        inbox.credits = state.grant_credits();
        inbox.searchers = state.searching > 0;
        if let Some(load_stats) = &inbox.load_stats {
            let taken = state.in_flight + state.reserved;
            inbox.free = state.workers().saturating_sub(taken);
            load_stats.show_free(inbox.free > 0);
        }
        // Steps U3, U4.
        store_if_changed(&self.flags.full, state.is_full());
        store_if_changed(&self.flags.wanted, state.is_wanted());
    }
}

impl<J> Deref for Whole<'_, J> {
    type Target = State<J>;

    #[inline]
    fn deref(&self) -> &State<J> {
        &self.both
    }
}
