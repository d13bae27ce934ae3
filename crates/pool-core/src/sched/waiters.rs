//! The wait queue: submitters that wait for room, first come, first served.
//!
//! A waiting submitter leaves its request, a task or the wish for a permit, in an entry. The section that frees room
//! serves the head's request at once and wakes the owner afterwards. So a sleeping owner, or a future that is not
//! polled again, delays no other waiter. A served permit request holds its room from then on.
//!
//! # Invariants
//! 1. A request leaves its entry exactly once: claimed by a pool, returned by a release, or withdrawn by its owner.
//!    The entry's own lock decides which.
//! 2. `done` is stored after the stage has left `Waiting`, by the same thread. It only ends a spin: the outcome of
//!    the wait is read under the entry's lock.
//! 3. A claim and a release take the waiter together with the request, and wake it once no lock is held. Wakers are
//!    called and dropped with no lock held.
//!
//! A waiter of several pools puts one entry into several wait queues. The first claim wins, and the other wait queues
//! find the entry empty. Such entries are counted in their [`WaiterCount`], because no wait queue knows how many of
//! its entries are empty.

use std::collections::VecDeque;
use std::sync::Arc;
use std::task::Waker;
use std::time::Instant;

use sync_shim::atomic::Ordering::Relaxed;
use sync_shim::atomic::{AtomicBool, AtomicUsize};
use sync_shim::waiter::Waiter;
use sync_shim::{Clock, Mutex, Parker};

use crate::cancel::CancelToken;
use crate::error::Reason;
use crate::foreign::drop_quietly;
use crate::sched::spin::{SUBMIT, spin_until};

/// The request of a waiting submitter.
#[derive(Debug)]
pub enum Request<J> {
    /// Admission of this task.
    Task(J),
    /// A permit: room without a task.
    Permit,
}

impl<J> Request<J> {
    /// Returns the task of a request that came with one.
    ///
    /// # Panics
    /// If the request is for a permit.
    pub fn into_task(self) -> J {
        match self {
            Self::Task(job) => job,
            Self::Permit => unreachable!("a request comes back as it was made"),
        }
    }
}

/// One waiter's entry, shared by its owner and the wait queues.
#[expect(missing_debug_implementations, reason = "never leaves a sister crate")]
pub struct WaiterEntry<J> {
    // Outside of the lock, so that a spinning owner does not delay the section that serves it.
    done: AtomicBool,
    // A lock of its own, because a waiter of several pools is in wait queues under different locks, which must agree
    // on one claim.
    inner: Mutex<Inner<J>>,
    /// For an entry in several wait queues: where its waiting request is counted.
    waiter_count: Option<Arc<WaiterCount>>,
    kind: Kind,
}

/// Who entered a request.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// A call, which waits for the outcome.
    Call,
    /// Nobody waits. It does not count towards the maximum number of waiters.
    Task,
    /// The same, and the task continues one that the pool runs. So a release accepts it.
    Continuation,
}

/// Number of entries in several wait queues that hold a request.
// Relaxed throughout: an entry is subtracted under its own lock, so a thread that has read the outcome of the wait
// there finds the entry subtracted.
#[derive(Debug)]
pub struct WaiterCount(AtomicUsize);

impl WaiterCount {
    /// Creates a count of 0.
    pub fn new() -> Arc<Self> {
        Arc::new(Self(AtomicUsize::new(0)))
    }

    /// Returns the number of entries that hold a request.
    #[expect(clippy::len_without_is_empty, reason = "no caller asks")]
    pub fn len(&self) -> usize {
        self.0.load(Relaxed)
    }
}

struct Inner<J> {
    stage: Stage<J>,
    /// The waiter to wake when the request leaves. `None` for a task that nobody waits with, and for a future that has not been
    /// polled since it entered the queue.
    waiter: Option<Waiter>,
}

enum Stage<J> {
    Waiting(Request<J>),
    /// The pool of this number accepted the task or reserved the room.
    Served(usize),
    /// The pool was released. The owner has not fetched the request yet.
    Returned(Request<J>),
    /// The owner has its request back.
    Withdrawn,
}

/// Outcome of a wait. `A` describes the acceptance; for a waiter entry it is the number of the pool.
pub(crate) type WaitResult<J, A = ()> = Result<A, (Reason, J)>;

/// Outcome of an entry's wait.
type Served<J> = WaitResult<Request<J>, usize>;

impl<J> WaiterEntry<J> {
    /// Creates an entry whose owner sleeps on `parker`.
    pub fn of_thread(request: Request<J>, parker: Parker) -> Arc<Self> {
        Self::new(request, Some(Waiter::Thread(parker)), None, Kind::Call)
    }

    /// Creates an entry whose owner is polled; [`poll`](WaiterEntry::poll) registers its waker.
    pub fn of_future(request: Request<J>) -> Arc<Self> {
        // No waiter before the first poll, because there is no waker yet.
        Self::new(request, None, None, Kind::Call)
    }

    /// Creates an entry that is not counted as waiting and whose owner is not woken.
    pub(crate) fn of_scheduled_task(job: J) -> Arc<Self> {
        // No waiter: the scheduler learns of the start from the task, so nobody must be woken.
        Self::new(Request::Task(job), None, None, Kind::Task)
    }

    /// The same without an owner, for a task that continues one that the pool runs.
    pub(crate) fn of_continuation(job: J) -> Arc<Self> {
        Self::new(Request::Task(job), None, None, Kind::Continuation)
    }

    /// Creates an entry for several wait queues.
    pub(crate) fn counted_in(
        request: Request<J>,
        sleeper: Option<Parker>,
        waiter_count: Arc<WaiterCount>,
    ) -> Arc<Self> {
        // Before the entry exists: a claim, which subtracts it, can only come later.
        waiter_count.0.fetch_add(1, Relaxed);
        Self::new(
            request,
            sleeper.map(Waiter::Thread),
            Some(waiter_count),
            Kind::Call,
        )
    }

    fn new(
        request: Request<J>,
        waiter: Option<Waiter>,
        waiter_count: Option<Arc<WaiterCount>>,
        kind: Kind,
    ) -> Arc<Self> {
        Arc::new(Self {
            done: AtomicBool::new(false),
            inner: Mutex::new(Inner {
                stage: Stage::Waiting(request),
                waiter,
            }),
            waiter_count,
            kind,
        })
    }

    /// Whether no call waits for the entry.
    pub(crate) fn is_task(&self) -> bool {
        self.kind != Kind::Call
    }

    /// Whether the entry's task continues one that the pool runs.
    pub(crate) fn is_continuation(&self) -> bool {
        self.kind == Kind::Continuation
    }

    /// Step Q2: takes the request for the pool of this number, and the waiter to wake. Returns `None` if the request has
    /// left the entry.
    pub fn claim(&self, pool: usize) -> Option<(Request<J>, Option<Waiter>)> {
        // With its waiter, so that the section can wake it after the unlock.
        self.take(|request, waiter| (Stage::Served(pool), (request, waiter.take())))
    }

    /// Step Q4: takes the request back for the owner. Returns `None` if it has left the entry.
    pub fn withdraw(&self) -> Option<Request<J>> {
        // The waker stays in the entry, because the caller may hold the pool's lock and must not drop it there.
        self.take(|request, _| (Stage::Withdrawn, request))
    }

    /// Step R1: returns the request to its owner because the pool is released. Returns whether the request was still
    /// there, and the waiter to wake.
    pub fn give_back(&self) -> (bool, Option<Waiter>) {
        let taken = self.take(|request, waiter| (Stage::Returned(request), waiter.take()));
        (taken.is_some(), taken.flatten())
    }

    /// Takes the request and moves on to the `next` stage, if the stage is `Waiting`.
    fn take<T>(
        &self,
        next: impl FnOnce(Request<J>, &mut Option<Waiter>) -> (Stage<J>, T),
    ) -> Option<T> {
        // Claim, release and withdrawal compete for the request. The first one to take this lock has it (invariant 1).
        let mut inner = self.inner.lock();
        match std::mem::replace(&mut inner.stage, Stage::Withdrawn) {
            Stage::Waiting(request) => {
                let (stage, taken) = next(request, &mut inner.waiter);
                inner.stage = stage;
                self.leave_count();
                drop(inner);
                // Relaxed by invariant 2. After the unlock, so that an owner that stops spinning finds the lock free.
                self.done.store(true, Relaxed);
                Some(taken)
            }
            other => {
                inner.stage = other;
                None
            }
        }
    }

    /// Subtracts the entry from its count. Called under the entry's lock, as its request leaves.
    fn leave_count(&self) {
        if let Some(waiter_count) = &self.waiter_count {
            // Under the entry's lock, so that an owner who reads the outcome there finds the count lowered.
            waiter_count.0.fetch_sub(1, Relaxed);
        }
    }

    /// Whether the request has left the entry. A hint that ends a spin.
    pub(crate) fn is_done(&self) -> bool {
        self.done.load(Relaxed) // Invariant 2.
    }

    /// Whether a release has returned the request and the owner has not fetched it.
    pub(crate) fn is_returned(&self) -> bool {
        matches!(self.inner.lock().stage, Stage::Returned(_))
    }

    /// Sleeps until the wait is over. Returns `None` if the deadline passes first or the token is cancelled.
    pub fn wait(
        &self,
        parker: &Parker,
        clock: &dyn Clock,
        deadline: Option<Instant>,
        token: Option<&CancelToken>,
    ) -> Option<Served<J>> {
        // Before it sleeps, because room is often freed within the time that a sleep and a wake-up would take.
        spin_until(SUBMIT, || self.is_done());
        // Step Q6: before the first look at the token. A cancellation between the two would wake nobody otherwise.
        let _listening = token.map(|token| token.notify(Waiter::Thread(parker.clone())));
        loop {
            // Before the token and the deadline: a served request must be reported as served.
            if let Some(result) = self.outcome() {
                return Some(result);
            }
            if token.is_some_and(CancelToken::is_cancelled) {
                return None;
            }
            match deadline {
                None => parker.park(),
                Some(when) => {
                    // USER CODE: `Clock::park_until`, by an enqueued submitter.
                    if !clock.park_until(parker, when) {
                        return None;
                    }
                }
            }
        }
    }

    /// Step Q5: returns the outcome of the wait, if it is over.
    pub fn outcome(&self) -> Option<Served<J>> {
        Self::outcome_of(&mut self.inner.lock().stage)
    }

    fn outcome_of(stage: &mut Stage<J>) -> Option<Served<J>> {
        match std::mem::replace(stage, Stage::Withdrawn) {
            Stage::Waiting(request) => {
                *stage = Stage::Waiting(request);
                None
            }
            Stage::Returned(request) => Some(Err((Reason::Released, request))),
            Stage::Served(pool) => {
                // Kept, because a future that is dropped after it was served asks again, to return a permit's room.
                *stage = Stage::Served(pool);
                Some(Ok(pool))
            }
            // The owner has taken its request and does not ask again, so the number is never used.
            Stage::Withdrawn => Some(Ok(0)),
        }
    }

    /// Like [`outcome`](WaiterEntry::outcome). If the wait is not over, registers `waker`.
    pub fn poll(&self, waker: &Waker) -> Option<Served<J>> {
        // USER CODE: the waker's clone. Before the lock is taken, and a panic leaves the future in the wait queue.
        let fresh = waker.clone();
        let mut inner = self.inner.lock();
        let outcome = Self::outcome_of(&mut inner.stage);
        // Replaced on each poll, because a future may move to another task in between.
        let unneeded = if outcome.is_none() {
            inner.waiter.replace(Waiter::Task(fresh))
        } else {
            Some(Waiter::Task(fresh))
        };
        drop(inner);
        // USER CODE: the drop of a waker, after the unlock. A panic must not cost the caller the answer.
        drop_quietly(unneeded);
        outcome
    }

    /// Ends the wait of an owner in a forked child. `Ok` if the request was served, or is just leaving the entry.
    ///
    /// # Errors
    /// The request, if it was still waiting or was returned by a release.
    pub fn abandon(&self) -> WaitResult<Request<J>> {
        // A thread of the parent may have held the lock during the fork and does not exist here, so blocking on it would
        // never end. If it did, the request was just leaving the wait queue there.
        let Some(mut inner) = self.inner.try_lock() else {
            return Ok(());
        };
        match std::mem::replace(&mut inner.stage, Stage::Withdrawn) {
            Stage::Waiting(request) => Err((Reason::Forked, request)),
            Stage::Returned(request) => Err((Reason::Released, request)),
            Stage::Served(_) | Stage::Withdrawn => Ok(()),
        }
    }
}

/// The wait queue of one pool. Protected by the pool's lock.
#[expect(missing_debug_implementations, reason = "never leaves a sister crate")]
pub struct WaitQueue<J> {
    entries: TicketList<Arc<WaiterEntry<J>>>,
    /// Number of entries that do not count as waiting.
    uncounted: usize,
}

impl<J> WaitQueue<J> {
    /// Creates an empty queue.
    #[expect(clippy::new_without_default, reason = "called in two places")]
    pub fn new() -> Self {
        Self {
            entries: TicketList::new(),
            uncounted: 0,
        }
    }

    /// Number of entries.
    #[inline]
    #[expect(clippy::len_without_is_empty, reason = "no caller asks")]
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Number of entries that `max_waiting` limits.
    #[inline]
    pub fn counted(&self) -> usize {
        self.len() - self.uncounted
    }

    /// Appends an entry. Returns the ticket for [`remove`](WaitQueue::remove).
    pub fn push(&mut self, entry: Arc<WaiterEntry<J>>) -> u64 {
        // A task that nobody waits with must not be refused, and must not use up the places of callers either.
        self.uncounted += usize::from(entry.is_task());
        self.entries.push(entry)
    }

    /// Removes and returns the head.
    pub fn pop(&mut self) -> Option<Arc<WaiterEntry<J>>> {
        let entry = self.entries.pop()?;
        self.uncounted -= usize::from(entry.is_task());
        Some(entry)
    }

    /// Removes and returns the entry with this ticket, if it is still there. O(log n) amortised.
    pub fn remove(&mut self, ticket: u64) -> Option<Arc<WaiterEntry<J>>> {
        let entry = self.entries.remove(ticket)?;
        self.uncounted -= usize::from(entry.is_task());
        Some(entry)
    }

    /// Whether the entry with this ticket is still there. O(log n).
    pub fn contains(&self, ticket: u64) -> bool {
        self.entries.contains(ticket)
    }

    /// Removes all entries, oldest first.
    pub fn take_all(&mut self) -> impl Iterator<Item = Arc<WaiterEntry<J>>> + use<J> {
        self.uncounted = 0;
        self.entries.take_all()
    }
}

// A list in order of arrival whose entries can be removed from anywhere by ticket. It holds the waiters of a pool,
// which may give up.
//
// # Invariants
// 1. Tickets ascend and are never reused. So a binary search finds an entry, and the ticket of a removed entry finds
//    nothing.
// 2. Removing an entry from the middle leaves a hole. There are at most [`FEW`] more holes than entries, so a
//    removal takes O(log n) steps and an amortised O(1) moves.
// 3. The memory is at most that of twice the entries plus [`FEW`].

/// Number of holes and unused places that are tolerated regardless of the length.
// So that short lists, which are the common case, are neither compacted nor reallocated.
const FEW: usize = 32;

/// Entries in order of arrival; each is removed by its ticket, in any order, at a constant cost.
#[derive(Debug)]
pub struct TicketList<T> {
    entries: VecDeque<(u64, Option<T>)>,
    next_ticket: u64,
    len: usize,
}

impl<T> TicketList<T> {
    /// An empty list.
    #[expect(clippy::new_without_default, reason = "never made by default")]
    pub const fn new() -> Self {
        Self {
            entries: VecDeque::new(),
            next_ticket: 0,
            len: 0,
        }
    }

    /// Number of entries.
    #[inline]
    #[expect(clippy::len_without_is_empty, reason = "nobody asks")]
    pub fn len(&self) -> usize {
        self.len
    }

    /// Appends an entry. The ticket is for [`remove`](Self::remove).
    pub fn push(&mut self, entry: T) -> u64 {
        // Never used again, so that the ticket of an entry that has left finds nothing.
        let ticket = self.next_ticket;
        self.next_ticket += 1;
        self.entries.push_back((ticket, Some(entry)));
        self.len += 1;
        ticket
    }

    /// Removes and returns the oldest entry.
    pub fn pop(&mut self) -> Option<T> {
        // Skips holes. Each hole is skipped once, so that a pop takes O(1) steps on average.
        let popped = loop {
            steps::count();
            if let (_, Some(entry)) = self.entries.pop_front()? {
                break entry;
            }
        };
        self.len -= 1;
        self.tidy();
        Some(popped)
    }

    /// Removes and returns the entry with this ticket, if it is still there.
    pub fn remove(&mut self, ticket: u64) -> Option<T> {
        let by_ticket = |&(other, _): &(u64, _)| {
            steps::count();
            other
        };
        let at = self.entries.binary_search_by_key(&ticket, by_ticket).ok()?;
        // Left as a hole, because closing the gap would move up to half of the list under the pool's lock.
        let removed = self.entries[at].1.take()?;
        self.len -= 1;
        self.tidy();
        Some(removed)
    }

    /// Whether the entry with this ticket is still there.
    pub fn contains(&self, ticket: u64) -> bool {
        let at = self.entries.binary_search_by_key(&ticket, |entry| entry.0);
        at.is_ok_and(|at| self.entries[at].1.is_some())
    }

    /// Removes all entries and frees the memory.
    pub fn take_all(&mut self) -> impl Iterator<Item = T> + use<T> {
        self.len = 0;
        // The entries are dropped by the caller, because some of them own wakers and a lock is held here.
        let entries = std::mem::take(&mut self.entries);
        entries.into_iter().filter_map(|(_, entry)| entry)
    }

    /// Restores invariants 2 and 3 after a removal.
    #[inline]
    fn tidy(&mut self) {
        // Proportional to the entries, so that the moves of a sweep are paid for by the removals since the last one.
        let most = 2 * self.len + FEW;
        if self.entries.len() > most || self.entries.capacity() > 2 * most {
            self.sweep(most);
        }
    }

    #[cold]
    fn sweep(&mut self, most: usize) {
        let mut kept = VecDeque::with_capacity(most);
        while let Some(entry) = self.entries.pop_front() {
            steps::count();
            if entry.1.is_some() {
                kept.push_back(entry);
            }
        }
        self.entries = kept;
    }
}

/// Number of steps and moves of this thread's lists. Counted in unit tests only.
#[cfg(test)]
pub(crate) mod steps {
    use std::cell::Cell;

    thread_local! {
        static COUNT: Cell<u64> = const { Cell::new(0) };
    }

    pub(crate) fn count() {
        COUNT.set(COUNT.get() + 1);
    }

    /// The steps that `call` takes.
    pub(crate) fn of(call: impl FnOnce()) -> u64 {
        let before = COUNT.get();
        call();
        COUNT.get() - before
    }
}

#[cfg(not(test))]
mod steps {
    #[inline]
    pub(super) fn count() {}
}

#[cfg(all(test, not(anthill_loom)))]
mod tests {
    use super::*;

    fn wait_queue_of(count: u64) -> WaitQueue<u64> {
        let mut wait_queue = WaitQueue::new();
        for job in 0..count {
            wait_queue.push(WaiterEntry::of_thread(Request::Task(job), Parker::new()));
        }
        wait_queue
    }

    fn jobs(wait_queue: &mut WaitQueue<u64>) -> Vec<u64> {
        std::iter::from_fn(|| wait_queue.pop())
            .filter_map(|entry| entry.claim(3))
            .map(|(request, _)| request.into_task())
            .collect()
    }

    #[test]
    fn an_entry_removed_from_the_middle_leaves_the_others_in_order() {
        let mut wait_queue = wait_queue_of(6);
        assert!(wait_queue.remove(2).is_some());
        assert!(wait_queue.remove(2).is_none(), "only once");
        assert!(wait_queue.remove(99).is_none(), "a foreign ticket");
        assert_eq!(wait_queue.len(), 5);
        assert_eq!(jobs(&mut wait_queue), [0, 1, 3, 4, 5]);
        assert_eq!(wait_queue.len(), 0);
    }

    #[test]
    fn a_request_leaves_its_entry_by_exactly_one_of_claim_withdraw_and_give_back() {
        let entry = WaiterEntry::of_thread(Request::Task(5), Parker::new());
        assert!(!entry.is_done() && entry.outcome().is_none());
        assert!(matches!(entry.claim(3), Some((Request::Task(5), _))));
        assert!(entry.claim(3).is_none() && entry.withdraw().is_none());
        assert!(!entry.give_back().0);
        assert!(matches!(entry.outcome(), Some(Ok(3))));

        let entry = WaiterEntry::of_thread(Request::Task(6), Parker::new());
        assert!(matches!(entry.give_back(), (true, Some(Waiter::Thread(_)))));
        assert!(entry.claim(3).is_none() && entry.withdraw().is_none());
        assert!(matches!(
            entry.outcome(),
            Some(Err((Reason::Released, Request::Task(6))))
        ));
    }
}

#[cfg(all(test, not(anthill_loom)))]
mod ticket_list_tests {
    use super::*;

    fn list_of(count: u64) -> TicketList<u64> {
        let mut list = TicketList::new();
        (0..count).for_each(|entry| assert_eq!(list.push(entry), entry));
        list
    }

    #[test]
    fn a_removal_keeps_the_order_of_the_other_entries() {
        let mut list = list_of(6);
        assert_eq!(
            [list.remove(2), list.remove(2), list.remove(99)],
            [Some(2), None, None]
        );
        assert_eq!((list.pop(), list.len()), (Some(0), 4));
        assert_eq!((list.remove(0), list.push(6)), (None, 6));
        let left: Vec<_> = list.take_all().collect();
        assert_eq!(
            (left, list.len(), list.pop()),
            (vec![1, 3, 4, 5, 6], 0, None)
        );
        assert_eq!(
            (list.push(7), list.remove(6), list.pop()),
            (7, None, Some(7))
        );
    }

    #[test]
    fn entries_that_come_and_go_behind_an_old_one_leave_no_memory_behind() {
        let mut list = list_of(1);
        for entry in 1..100_000 {
            let ticket = list.push(entry);
            assert_eq!(list.remove(ticket), Some(entry));
            assert!(list.entries.len() <= FEW + 2 && list.entries.capacity() < 4 * FEW);
        }
        assert_eq!(list.pop(), Some(0));
    }

    #[test]
    fn memory_follows_the_entries_however_they_leave() {
        for leaves_in_front in [true, false] {
            let mut list = list_of(10_000);
            for gone in 0..10_000 {
                let left = if leaves_in_front {
                    list.pop()
                } else {
                    list.remove(9_999 - gone)
                };
                assert!(left.is_some());
                let most = 2 * list.len() + FEW;
                assert!(list.entries.len() <= most && list.entries.capacity() <= 2 * most);
            }
        }
    }

    #[test]
    fn the_steps_of_removals_in_any_order_grow_with_their_number() {
        const COUNT: u64 = 80_000;
        // 10,007 is a prime, so the last order meets each ticket once.
        let orders: [fn(u64) -> u64; 3] = [|n| n, |n| COUNT - 1 - n, |n| n * 10_007 % COUNT];
        for order in orders {
            let mut list = list_of(COUNT);
            let mut steps = 0;
            for n in 0..COUNT {
                steps += steps::of(|| assert!(list.remove(order(n)).is_some()));
                assert!(steps <= 24 * (n + 1), "{steps} for {}", n + 1);
            }
        }
    }
}
