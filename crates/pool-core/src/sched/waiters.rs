//! The wait queue: submitters that wait for room, first come, first served.
//!
//! A waiter leaves its request in its entry: its task, or that it wants a permit. The section that
//! frees room takes the head's request at once, and the owner is woken after it. So an owner that
//! sleeps, or a future that is never polled again, holds up no other waiter, as long as it waits;
//! one that was given a permit holds that room from then on.
//!
//! # Invariants
//! 1. An entry's request leaves it exactly once: claimed by a pool, given back by a release, or
//!    withdrawn by its owner. The entry's own lock decides which.
//! 2. `done` is stored after the stage has left `Waiting`, by the same thread. It only
//!    ends a spin: how the wait ended is read under the entry's lock.
//! 3. A claim and a release take the entry's waiter with the request, to be woken once no lock is
//!    held. Wakers are called and dropped with no lock held.
//!
//! A waiter entry may stand in several wait queues (a waiter of several pools); the first claim
//! wins and the other wait queues find the entry empty. Such entries count themselves in their
//! [`WaiterCount`], for no wait queue knows how many of its entries are empty.

use std::sync::Arc;
use std::task::Waker;
use std::time::Instant;

use sync_shim::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use sync_shim::waiter::Waiter;
use sync_shim::{Clock, Mutex, Parker};

use crate::error::Reason;
use crate::foreign::drop_quietly;
use crate::sched::spin::{SUBMIT, spin_until};
use crate::sched::ticket_list::TicketList;
use crate::task::cancel::CancelToken;

/// What a waiter wants room for.
#[derive(Debug)]
pub enum Request<J> {
    /// This task, which enters the queue with the room.
    Task(J),
    /// A permit: the room alone.
    Permit,
}

impl<J> Request<J> {
    /// The task of a waiter that came with one.
    ///
    /// # Panics
    /// If it wants a permit.
    pub fn into_task(self) -> J {
        match self {
            Self::Task(job) => job,
            Self::Permit => unreachable!("a request comes back as it was made"),
        }
    }
}

/// One waiter's place, shared by its owner and the wait queues it stands in.
pub(crate) struct WaiterEntry<J> {
    done: AtomicBool,
    inner: Mutex<Inner<J>>,
    /// Of a waiter entry of several wait queues: where it is counted while its request waits.
    waiter_count: Option<Arc<WaiterCount>>,
    /// Of a scheduler's task: it stands in the wait queue however many may wait.
    uncounted: bool,
}

/// How many waiter entries of several wait queues hold a request.
///
/// Relaxed throughout: an entry counts itself out under its own lock, so a thread that has read
/// there how the wait ended finds it counted out.
#[derive(Debug)]
pub struct WaiterCount(AtomicUsize);

impl WaiterCount {
    /// No entry yet.
    pub fn new() -> Arc<Self> {
        Arc::new(Self(AtomicUsize::new(0)))
    }

    /// How many hold a request.
    #[expect(clippy::len_without_is_empty, reason = "no caller asks")]
    pub fn len(&self) -> usize {
        self.0.load(Relaxed)
    }
}

struct Inner<J> {
    stage: Stage<J>,
    /// Who is woken when the request leaves. None of a scheduler's task, nor of a future that has not
    /// been polled since it entered the queue.
    waiter: Option<Waiter>,
}

enum Stage<J> {
    Waiting(Request<J>),
    /// The task was accepted, or room reserved, by the pool of this number.
    Served(usize),
    /// The pool was released; here is the request.
    Returned(Request<J>),
    /// The owner has the request again.
    Withdrawn,
}

/// How a wait ended. `A` says more about the acceptance: of a waiter entry, which pool it was.
pub(crate) type WaitResult<J, A = ()> = Result<A, (Reason, J)>;

/// How an entry's wait ended.
type Served<J> = WaitResult<Request<J>, usize>;

impl<J> WaiterEntry<J> {
    /// An entry whose owner sleeps on `parker`.
    pub(crate) fn of_thread(request: Request<J>, parker: Parker) -> Arc<Self> {
        Self::new(request, Some(Waiter::Thread(parker)), None, false)
    }

    /// An entry whose owner is polled; [`poll`](WaiterEntry::poll) says how to wake it.
    pub(crate) fn of_future(request: Request<J>) -> Arc<Self> {
        Self::new(request, None, None, false)
    }

    /// An entry whose owner is not woken, and which does not count as one that waits.
    pub(crate) fn of_scheduled_task(job: J) -> Arc<Self> {
        Self::new(Request::Task(job), None, None, true)
    }

    /// An entry that may stand in several wait queues.
    pub(crate) fn counted_in(
        request: Request<J>,
        sleeper: Option<Parker>,
        waiter_count: Arc<WaiterCount>,
    ) -> Arc<Self> {
        waiter_count.0.fetch_add(1, Relaxed);
        Self::new(
            request,
            sleeper.map(Waiter::Thread),
            Some(waiter_count),
            false,
        )
    }

    fn new(
        request: Request<J>,
        waiter: Option<Waiter>,
        waiter_count: Option<Arc<WaiterCount>>,
        uncounted: bool,
    ) -> Arc<Self> {
        Arc::new(Self {
            done: AtomicBool::new(false),
            inner: Mutex::new(Inner {
                stage: Stage::Waiting(request),
                waiter,
            }),
            waiter_count,
            uncounted,
        })
    }

    /// Whether a scheduler's task waits here.
    pub(crate) fn is_scheduled_task(&self) -> bool {
        self.uncounted
    }

    /// Step Q2: takes the request for the pool of this number, and the waiter to be woken. `None`
    /// if the request has left the entry.
    pub(crate) fn claim(&self, pool: usize) -> Option<(Request<J>, Option<Waiter>)> {
        self.take(|request, waiter| (Stage::Served(pool), (request, waiter.take())))
    }

    /// Step Q4: the owner wants its request back. `None` if it has left the entry.
    pub(crate) fn withdraw(&self) -> Option<Request<J>> {
        // Its waker stays: the caller may hold the pool's lock.
        self.take(|request, _| (Stage::Withdrawn, request))
    }

    /// Step R1: the pool is released; the request goes back to its owner; its waiter is to be
    /// woken. `false` if the request has left the entry.
    pub(crate) fn give_back(&self) -> (bool, Option<Waiter>) {
        let taken = self.take(|request, waiter| (Stage::Returned(request), waiter.take()));
        (taken.is_some(), taken.flatten())
    }

    /// Takes the request out of the stage `Waiting`, if that is where it is.
    fn take<T>(
        &self,
        next: impl FnOnce(Request<J>, &mut Option<Waiter>) -> (Stage<J>, T),
    ) -> Option<T> {
        let mut inner = self.inner.lock();
        match std::mem::replace(&mut inner.stage, Stage::Withdrawn) {
            Stage::Waiting(request) => {
                let (stage, taken) = next(request, &mut inner.waiter);
                inner.stage = stage;
                self.leave_count();
                drop(inner);
                self.done.store(true, Relaxed); // Invariant 2.
                Some(taken)
            }
            other => {
                inner.stage = other;
                None
            }
        }
    }

    /// Called under the entry's lock, as its request leaves.
    fn leave_count(&self) {
        if let Some(waiter_count) = &self.waiter_count {
            waiter_count.0.fetch_sub(1, Relaxed);
        }
    }

    /// Whether the request has left the entry. A hint to stop spinning for.
    pub(crate) fn is_done(&self) -> bool {
        self.done.load(Relaxed) // Invariant 2.
    }

    /// Whether a release has given the request back, and the owner has not fetched it.
    pub(crate) fn is_returned(&self) -> bool {
        matches!(self.inner.lock().stage, Stage::Returned(_))
    }

    /// Sleeps until the wait is over. `None` if the time is up first, or the token is cancelled.
    pub(crate) fn wait(
        &self,
        parker: &Parker,
        clock: &dyn Clock,
        deadline: Option<Instant>,
        token: Option<&CancelToken>,
    ) -> Option<Served<J>> {
        spin_until(SUBMIT, || self.is_done());
        // Step Q6: before the first look at the token.
        let _listening = token.map(|token| token.notify(Waiter::Thread(parker.clone())));
        loop {
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

    /// Step Q5: how the wait ended, if it has.
    pub(crate) fn outcome(&self) -> Option<Served<J>> {
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
                *stage = Stage::Served(pool);
                Some(Ok(pool))
            }
            // The owner has its request, and asks no more.
            Stage::Withdrawn => Some(Ok(0)),
        }
    }

    /// As [`outcome`](WaiterEntry::outcome); if it has not ended, `waker` is called when it does.
    pub(crate) fn poll(&self, waker: &Waker) -> Option<Served<J>> {
        // Cloned first: a waker's clone is user code.
        // USER CODE: the waker's clone, before the lock. A panic leaves the future in the wait queue.
        let fresh = waker.clone();
        let mut inner = self.inner.lock();
        let outcome = Self::outcome_of(&mut inner.stage);
        let unneeded = if outcome.is_none() {
            inner.waiter.replace(Waiter::Task(fresh))
        } else {
            Some(Waiter::Task(fresh))
        };
        drop(inner);
        // USER CODE: the drop of a waker. A panic must not cost the caller the answer.
        drop_quietly(unneeded);
        outcome
    }

    /// The owner asks in a forked child, where a thread that is not there may hold the lock. Then
    /// the request was just leaving the wait queue, there.
    pub(crate) fn abandon(&self) -> WaitResult<Request<J>> {
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

/// The wait queue of one pool. Held under the pool's lock.
pub(crate) struct WaitQueue<J> {
    entries: TicketList<Arc<WaiterEntry<J>>>,
    /// Waiter entries that do not count as ones that wait.
    uncounted: usize,
}

impl<J> WaitQueue<J> {
    pub(crate) fn new() -> Self {
        Self {
            entries: TicketList::new(),
            uncounted: 0,
        }
    }

    /// Waiter entries that stand in the wait queue.
    #[inline]
    pub(crate) fn len(&self) -> usize {
        self.entries.len()
    }

    /// Waiter entries that may not be more than `max_waiting`.
    #[inline]
    pub(crate) fn counted(&self) -> usize {
        self.len() - self.uncounted
    }

    /// Joins the end. The ticket is for [`remove`](WaitQueue::remove).
    pub(crate) fn push(&mut self, entry: Arc<WaiterEntry<J>>) -> u64 {
        self.uncounted += usize::from(entry.uncounted);
        self.entries.push(entry)
    }

    /// The head leaves.
    pub(crate) fn pop(&mut self) -> Option<Arc<WaiterEntry<J>>> {
        let entry = self.entries.pop()?;
        self.uncounted -= usize::from(entry.uncounted);
        Some(entry)
    }

    /// The entry with this ticket leaves, if it stands here. O(log n) amortised.
    pub(crate) fn remove(&mut self, ticket: u64) -> Option<Arc<WaiterEntry<J>>> {
        let entry = self.entries.remove(ticket)?;
        self.uncounted -= usize::from(entry.uncounted);
        Some(entry)
    }

    /// Removes all entries, oldest first.
    pub(crate) fn take_all(&mut self) -> impl Iterator<Item = Arc<WaiterEntry<J>>> + use<J> {
        self.uncounted = 0;
        self.entries.take_all()
    }
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
    fn whoever_leaves_the_middle_keeps_the_order_of_the_others() {
        let mut wait_queue = wait_queue_of(6);
        assert!(wait_queue.remove(2).is_some());
        assert!(wait_queue.remove(2).is_none(), "only once");
        assert!(wait_queue.remove(99).is_none(), "a foreign ticket");
        assert_eq!(wait_queue.len(), 5);
        assert_eq!(jobs(&mut wait_queue), [0, 1, 3, 4, 5]);
        assert_eq!(wait_queue.len(), 0);
    }

    #[test]
    fn a_seat_is_settled_by_exactly_one_of_claim_withdraw_and_give_back() {
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
