//! The line: who waits for room, first come, first served.
//!
//! A waiter leaves its task at its seat; the line never holds promises of room. Whoever frees
//! room takes the head's task at once and wakes the owner afterwards, so an owner that sleeps,
//! or a future that is never polled again, holds nobody up.
//!
//! # Invariants
//! 1. A seat's task leaves it exactly once: claimed for a queue, given back by a release, or
//!    withdrawn by its owner. The seat's own lock decides which.
//! 2. `settled` is stored after the stage has left `Waiting`, by the one who changed it. It only
//!    ends a spin: how the wait ended is read under the seat's lock.
//! 3. A claim and a release take the seat's waiter with the task, to be woken once no lock is held.
//!    Wakers are called and dropped with no lock held.
//!
//! A seat may stand in several lines (a waiter of several pools); the first claim wins and the
//! other lines find the seat empty. Such seats count themselves in their [`Crowd`], for no line
//! knows how many of its seats are empty.

use std::collections::VecDeque;
use std::sync::Arc;
use std::task::Waker;
use std::time::Instant;

use sync_shim::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use sync_shim::{Clock, Mutex, Parker};

use crate::error::Reason;
use crate::foreign::drop_quietly;
use crate::sched::spin::{SUBMIT, spin_until};
use crate::sched::waiter::Waiter;

/// One waiter's place, shared by its owner and the lines it stands in.
pub(crate) struct Seat<J> {
    settled: AtomicBool,
    inner: Mutex<Inner<J>>,
    /// Of a seat of several lines: where it is counted while its task waits.
    crowd: Option<Arc<Crowd>>,
    /// Of a scheduler's task: it stands in the line however many may wait.
    uncounted: bool,
}

/// How many seats of several lines hold a task.
///
/// Relaxed throughout: a seat counts itself out under its own lock, so whoever has learnt there
/// how the wait ended finds it counted out.
#[derive(Debug)]
pub struct Crowd(AtomicUsize);

impl Crowd {
    /// Nobody yet.
    pub fn new() -> Arc<Self> {
        Arc::new(Self(AtomicUsize::new(0)))
    }

    /// How many hold a task.
    #[expect(clippy::len_without_is_empty, reason = "nobody asks")]
    pub fn len(&self) -> usize {
        self.0.load(Relaxed)
    }
}

struct Inner<J> {
    stage: Stage<J>,
    /// Who is woken when the task leaves. None of a scheduler's task, nor of a future that has not
    /// been polled since it took the seat.
    waiter: Option<Waiter>,
}

enum Stage<J> {
    Waiting(J),
    /// The task was accepted, by the pool of this number.
    Served(usize),
    /// The pool was released; here is the task.
    Returned(J),
    /// The owner has the task again.
    Withdrawn,
}

/// How a wait ended. `A` says more about the acceptance: of a seat, which pool it was.
pub(crate) type Settled<J, A = ()> = Result<A, (Reason, J)>;

impl<J> Seat<J> {
    /// A seat whose owner sleeps on `parker`.
    pub(crate) fn of_thread(job: J, parker: Parker) -> Arc<Self> {
        Self::new(job, Some(Waiter::Thread(parker)), None, false)
    }

    /// A seat whose owner is polled; [`poll`](Seat::poll) says how to wake it.
    pub(crate) fn of_future(job: J) -> Arc<Self> {
        Self::new(job, None, None, false)
    }

    /// A seat whose owner is not woken, and which does not count as one that waits.
    pub(crate) fn of_errand(job: J) -> Arc<Self> {
        Self::new(job, None, None, true)
    }

    /// A seat that may stand in several lines.
    pub(crate) fn in_crowd(job: J, sleeper: Option<Parker>, crowd: Arc<Crowd>) -> Arc<Self> {
        crowd.0.fetch_add(1, Relaxed);
        Self::new(job, sleeper.map(Waiter::Thread), Some(crowd), false)
    }

    fn new(
        job: J,
        waiter: Option<Waiter>,
        crowd: Option<Arc<Crowd>>,
        uncounted: bool,
    ) -> Arc<Self> {
        Arc::new(Self {
            settled: AtomicBool::new(false),
            inner: Mutex::new(Inner {
                stage: Stage::Waiting(job),
                waiter,
            }),
            crowd,
            uncounted,
        })
    }

    /// Whether a scheduler's task waits here.
    pub(crate) fn is_of_errand(&self) -> bool {
        self.uncounted
    }

    /// Takes the task for the queue of the pool of this number, and who is to be woken. `None` if
    /// the task has left the seat.
    pub(crate) fn claim(&self, pool: usize) -> Option<(J, Option<Waiter>)> {
        self.take(|job, waiter| (Stage::Served(pool), (job, waiter.take())))
    }

    /// The owner wants its task back. `None` if it has left the seat.
    pub(crate) fn withdraw(&self) -> Option<J> {
        // Its waker stays: the caller may hold the pool's lock.
        self.take(|job, _| (Stage::Withdrawn, job))
    }

    /// The pool is released: the task goes back to its owner, who is to be woken. `false` if the
    /// task has left the seat.
    pub(crate) fn give_back(&self) -> (bool, Option<Waiter>) {
        let taken = self.take(|job, waiter| (Stage::Returned(job), waiter.take()));
        (taken.is_some(), taken.flatten())
    }

    /// Takes the task out of the stage `Waiting`, if that is where it is.
    fn take<T>(&self, next: impl FnOnce(J, &mut Option<Waiter>) -> (Stage<J>, T)) -> Option<T> {
        let mut inner = self.inner.lock();
        match std::mem::replace(&mut inner.stage, Stage::Withdrawn) {
            Stage::Waiting(job) => {
                let (stage, taken) = next(job, &mut inner.waiter);
                inner.stage = stage;
                self.leave_crowd();
                drop(inner);
                self.settled.store(true, Relaxed); // Invariant 2.
                Some(taken)
            }
            other => {
                inner.stage = other;
                None
            }
        }
    }

    /// Called under the seat's lock, as its task leaves.
    fn leave_crowd(&self) {
        if let Some(crowd) = &self.crowd {
            crowd.0.fetch_sub(1, Relaxed);
        }
    }

    /// Whether the task has left the seat. A hint to stop spinning for.
    pub(crate) fn is_settled(&self) -> bool {
        self.settled.load(Relaxed) // Invariant 2.
    }

    /// Whether a release has given the task back, and nobody has fetched it.
    pub(crate) fn is_returned(&self) -> bool {
        matches!(self.inner.lock().stage, Stage::Returned(_))
    }

    /// Sleeps until the seat is settled. `None` if the time is up first.
    pub(crate) fn wait(
        &self,
        parker: &Parker,
        clock: &dyn Clock,
        deadline: Option<Instant>,
    ) -> Option<Settled<J, usize>> {
        spin_until(SUBMIT, || self.is_settled());
        loop {
            if let Some(settled) = self.outcome() {
                return Some(settled);
            }
            match deadline {
                None => parker.park(),
                Some(when) => {
                    if !clock.park_until(parker, when) {
                        return None;
                    }
                }
            }
        }
    }

    /// How the wait ended, if it has.
    pub(crate) fn outcome(&self) -> Option<Settled<J, usize>> {
        Self::outcome_of(&mut self.inner.lock().stage)
    }

    fn outcome_of(stage: &mut Stage<J>) -> Option<Settled<J, usize>> {
        match std::mem::replace(stage, Stage::Withdrawn) {
            Stage::Waiting(job) => {
                *stage = Stage::Waiting(job);
                None
            }
            Stage::Returned(job) => Some(Err((Reason::Released, job))),
            Stage::Served(pool) => {
                *stage = Stage::Served(pool);
                Some(Ok(pool))
            }
            // The owner has its task, and asks no more.
            Stage::Withdrawn => Some(Ok(0)),
        }
    }

    /// As [`outcome`](Seat::outcome); if it has not ended, `waker` is called when it does.
    pub(crate) fn poll(&self, waker: &Waker) -> Option<Settled<J, usize>> {
        // Cloned first: a waker's clone is foreign code.
        let fresh = waker.clone();
        let mut inner = self.inner.lock();
        let outcome = Self::outcome_of(&mut inner.stage);
        let unneeded = if outcome.is_none() {
            inner.waiter.replace(Waiter::Task(fresh))
        } else {
            Some(Waiter::Task(fresh))
        };
        drop(inner);
        drop_quietly(unneeded); // Foreign code, and the answer is not to be lost by its panic.
        outcome
    }

    /// The owner asks in a forked child, where a thread that is not there may hold the lock. Then
    /// the task was just leaving the line, there.
    pub(crate) fn abandon(&self) -> Settled<J> {
        let Some(mut inner) = self.inner.try_lock() else {
            return Ok(());
        };
        match std::mem::replace(&mut inner.stage, Stage::Withdrawn) {
            Stage::Waiting(job) => Err((Reason::Forked, job)),
            Stage::Returned(job) => Err((Reason::Released, job)),
            Stage::Served(_) | Stage::Withdrawn => Ok(()),
        }
    }
}

/// The line of one pool. Held under the pool's lock.
pub(crate) struct Line<J> {
    /// Tickets ascend; a seat that was withdrawn leaves a hole.
    seats: VecDeque<(u64, Option<Arc<Seat<J>>>)>,
    next_ticket: u64,
    len: usize,
    /// Seats that do not count as ones that wait.
    uncounted: usize,
}

impl<J> Line<J> {
    pub(crate) fn new() -> Self {
        Self {
            seats: VecDeque::new(),
            next_ticket: 0,
            len: 0,
            uncounted: 0,
        }
    }

    /// Seats that stand in the line.
    pub(crate) fn len(&self) -> usize {
        self.len
    }

    /// Seats that may not be more than `max_waiting`.
    #[inline]
    pub(crate) fn counted(&self) -> usize {
        self.len - self.uncounted
    }

    /// Joins the end. The ticket is for [`leave`](Line::leave).
    pub(crate) fn join(&mut self, seat: Arc<Seat<J>>) -> u64 {
        let ticket = self.next_ticket;
        self.next_ticket += 1;
        self.uncounted += usize::from(seat.uncounted);
        self.seats.push_back((ticket, Some(seat)));
        self.len += 1;
        ticket
    }

    /// The head leaves.
    pub(crate) fn pop(&mut self) -> Option<Arc<Seat<J>>> {
        loop {
            let (_, seat) = self.seats.pop_front()?;
            if let Some(seat) = seat {
                self.len -= 1;
                self.uncounted -= usize::from(seat.uncounted);
                return Some(seat);
            }
        }
    }

    /// The seat with this ticket leaves, if it stands here. O(log n) amortised.
    pub(crate) fn leave(&mut self, ticket: u64) -> Option<Arc<Seat<J>>> {
        let at = self.seats.binary_search_by_key(&ticket, |&(t, _)| t).ok()?;
        let seat = self.seats[at].1.take()?;
        self.len -= 1;
        self.uncounted -= usize::from(seat.uncounted);
        // Holes are swept out once they are the larger half, so they cost O(1) each.
        if self.seats.len() > 2 * self.len + 32 {
            self.seats.retain(|(_, seat)| seat.is_some());
        }
        Some(seat)
    }

    /// Everybody leaves, first come first.
    pub(crate) fn take_all(&mut self) -> Vec<Arc<Seat<J>>> {
        (self.len, self.uncounted) = (0, 0);
        let seats = std::mem::take(&mut self.seats);
        seats.into_iter().filter_map(|(_, seat)| seat).collect()
    }
}

#[cfg(all(test, not(anthill_loom)))]
mod tests {
    use super::*;

    fn line_of(count: u64) -> Line<u64> {
        let mut line = Line::new();
        for job in 0..count {
            line.join(Seat::of_thread(job, Parker::new()));
        }
        line
    }

    fn jobs(line: &mut Line<u64>) -> Vec<u64> {
        std::iter::from_fn(|| line.pop())
            .filter_map(|seat| seat.claim(3))
            .map(|(job, _)| job)
            .collect()
    }

    #[test]
    fn whoever_leaves_the_middle_keeps_the_order_of_the_others() {
        let mut line = line_of(6);
        assert!(line.leave(2).is_some());
        assert!(line.leave(2).is_none(), "only once");
        assert!(line.leave(99).is_none(), "a foreign ticket");
        assert_eq!(line.len(), 5);
        assert_eq!(jobs(&mut line), [0, 1, 3, 4, 5]);
        assert_eq!(line.len(), 0);
    }

    #[test]
    fn holes_behind_an_old_head_do_not_pile_up() {
        let mut line = line_of(1);
        for ticket in 1..100_000 {
            line.join(Seat::of_thread(ticket, Parker::new()));
            assert!(line.leave(ticket).is_some());
            assert!(line.seats.len() < 100);
        }
        assert_eq!(jobs(&mut line), [0]);
    }

    #[test]
    fn a_seat_is_settled_by_exactly_one_of_claim_withdraw_and_give_back() {
        let seat = Seat::of_thread(5, Parker::new());
        assert!(!seat.is_settled() && seat.outcome().is_none());
        assert_eq!(seat.claim(3).map(|(job, _)| job), Some(5));
        assert!(seat.claim(3).is_none() && seat.withdraw().is_none());
        assert!(!seat.give_back().0);
        assert!(matches!(seat.outcome(), Some(Ok(3))));

        let seat = Seat::of_thread(6, Parker::new());
        assert!(matches!(seat.give_back(), (true, Some(Waiter::Thread(_)))));
        assert!(seat.claim(3).is_none() && seat.withdraw().is_none());
        assert!(matches!(seat.outcome(), Some(Err((Reason::Released, 6)))));
    }
}
