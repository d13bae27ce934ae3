//! Waiters in the wait queues of all pools.
//!
//! A waiter in the queue of one pool would be stuck behind that pool's long tasks while another pool has
//! room. So a waiter has one *ticket*, which holds its task or its request for a permit, and a *place* in
//! every pool's wait queue. The first pool that frees room takes the request from the ticket. The other
//! places are then empty, and pools skip them.
//!
//! # The steps
//! 1. **Enqueue**: the waiter takes a place in each pool, in one section of that pool's lock per pool, all
//!    under `enqueue_lock`. A pool that has room by then takes the request at once.
//! 2. **Sleep**: the waiter sleeps until the ticket is settled, the deadline has passed, or the task's token
//!    is cancelled.
//! 3. **Transfer**: the section in which a pool frees room takes the request of its queue's head, if the
//!    ticket still holds it, and settles the ticket.
//! 4. **Shutdown**: the section in which a pool is released settles all tickets in its queue.
//! 5. **Withdraw**: at the deadline, after a cancellation, or when the future is dropped, the waiter takes
//!    its request back, if the ticket still holds it.
//! 6. **Dequeue**: the waiter gives up its places.
//!
//! # Races that look fatal
//! - *A pool frees room just before the waiter takes its place there.* The queue of that pool was empty, so
//!   the room stays free, and step 1 finds it in the section that would have enqueued the waiter.
//! - *Two pools free room at once.* Only one of them gets the request, under the ticket's lock. The other
//!   goes to its next place and keeps no room reserved.
//! - *A pool is released during step 1.* Either the waiter meets the released pool and withdraws, or it took
//!   its place there before the release, which settles the ticket (step 4).
//! - *Step 5 races step 3.* Both take the request under the ticket's lock. The second one finds none, and
//!   the waiter returns the outcome of the first.
//! - *A pool has room, but the operating system refuses to start its first worker.* The waiter waits for the
//!   pools that have workers, and has a place in this pool's queue, too. The section that counts a first
//!   worker serves the queue before the task of the submitter that started the worker ("The first worker is
//!   refused to a multi-pool's waiter" in pool-core's `PROTOCOL.md`). If no pool has a worker, the task is
//!   returned.
//! - *Two waiters have places in different orders in two pools.* This cannot happen, because step 1 holds
//!   `enqueue_lock`.

use std::time::Instant;

use pool_core::internals::{Enqueued, PoolHandle, Request, Ticket, WaitLimits, WhenFull};
use pool_core::{CancelToken, OnFull, SubmitError, Task};
use sync_shim::Parker;

use crate::shared::{NoRoom, RequestAnswer, Shared};

/// A waiter: its ticket, and its place in each pool's wait queue.
pub(crate) struct GroupWaiter {
    pub(crate) ticket: Ticket<Task>,
    places: Vec<u64>,
}

/// Outcome of [`Shared::enqueue`].
pub(crate) enum GroupWait {
    Waiting(GroupWaiter),
    /// The request was accepted or refused at once.
    Answered(RequestAnswer),
}

impl Shared {
    /// Does what `on_full` and `limits` say for a request that all pools have refused as full.
    #[cold]
    pub(crate) fn wait_if_full(
        &self,
        request: Request<Task>,
        starved: bool,
        on_full: OnFull,
        limits: Option<&WaitLimits<'_>>,
    ) -> RequestAnswer {
        let asked = self.first().asked(on_full, &request);
        let request = match (asked, request) {
            (WhenFull::Refuse, request) => {
                return Err(self.count_refusal(SubmitError::Full(request)));
            }
            (WhenFull::Enqueue, request) => request,
            (WhenFull::RunInPlace, Request::Task(job)) => {
                WaitLimits::begin_in_place(limits);
                self.first().run_in_place(job);
                return Ok(0);
            }
            (WhenFull::RunInCaller, Request::Task(job)) => {
                WaitLimits::begin_in_place(limits);
                self.first().run_in_caller(job);
                return Ok(0);
            }
            (WhenFull::DiscardOldest, Request::Task(job)) => return Ok(self.replace_oldest(job)),
            (WhenFull::DiscardNewest, Request::Task(job)) => {
                self.first().discard_newest(job);
                return Ok(0);
            }
            (
                WhenFull::RunInPlace
                | WhenFull::RunInCaller
                | WhenFull::DiscardOldest
                | WhenFull::DiscardNewest,
                Request::Permit,
            ) => unreachable!("a permit has no task yet to be run or discarded"),
        };
        let parker = Parker::of_thread();
        let deadline = WaitLimits::deadline(limits, on_full);
        match self.enqueue(request, starved, Some(&parker)) {
            GroupWait::Waiting(waiter) => {
                waiter.wait(self, &parker, deadline, WaitLimits::token(limits))
            }
            GroupWait::Answered(answer) => answer,
        }
    }

    /// Replaces the oldest task of the first pool that has a task to discard. If no pool has one, discards
    /// the new task. Returns the pool that has accepted it.
    fn replace_oldest(&self, mut job: Task) -> usize {
        for (pool, member) in self.members.iter().enumerate() {
            match member.replace_oldest(job) {
                Ok(()) => return pool,
                Err(back) => job = back,
            }
        }
        self.first().discard_newest(job);
        0
    }

    /// Step 1, repeated while a pool has room but no worker. `sleeper` is the parker of a thread; a future
    /// leaves its waker with the next poll. `starved` means that a pool with room has just failed to start a
    /// worker.
    pub(crate) fn enqueue(
        &self,
        mut request: Request<Task>,
        mut starved: bool,
        sleeper: Option<&Parker>,
    ) -> GroupWait {
        loop {
            let back = match GroupWaiter::enqueue(self, request, sleeper.cloned(), starved) {
                Ok(enqueued) => return enqueued,
                Err(back) => back,
            };
            // A pool has room and no worker. Starting one calls the thread gate, which is user code, so it
            // is done here without a lock.
            match self.offer(None, back, PoolHandle::accept_request) {
                Ok(pool) => return GroupWait::Answered(Ok(pool)),
                Err(NoRoom::Full {
                    asked: back,
                    starved: again,
                }) => (request, starved) = (back, again),
                Err(NoRoom::Refused(refusal)) => {
                    return GroupWait::Answered(Err(self.count_refusal(refusal)));
                }
            }
        }
    }
}

impl Shared {
    /// Answers a poll on an own worker, which must not wait for room, as `wait_if_full` does.
    ///
    /// # Errors
    /// The request: the caller may wait.
    pub(crate) fn answer_worker(
        &self,
        request: Request<Task>,
    ) -> Result<RequestAnswer, Request<Task>> {
        match (self.first().asked(OnFull::Wait(None), &request), request) {
            (WhenFull::Enqueue, request) => Err(request),
            (WhenFull::RunInPlace, Request::Task(job)) => {
                self.first().run_in_place(job);
                Ok(Ok(0))
            }
            (_, request) => Ok(Err(self.count_refusal(SubmitError::Full(request)))),
        }
    }
}

impl GroupWaiter {
    /// Answers a poll on an own worker that the waiter is enqueued for: steps 5 and 6, unless step 3 was faster.
    pub(crate) fn answer_worker(&self, shared: &Shared) -> Option<RequestAnswer> {
        let asked = shared.first().asked(OnFull::Wait(None), &Request::Permit);
        if asked == WhenFull::Enqueue {
            return None; // It is no own worker, or may wait.
        }
        match self.ticket.withdraw() {
            Some(request) => shared.answer_worker(request).ok(),
            None => self.ticket.outcome(),
        }
    }

    /// Step 1. With `starved`, takes a place even in a pool with room and no worker, so that a submitter that
    /// starts a worker there does not overtake this waiter. Some pool must have a worker.
    ///
    /// # Errors
    /// Returns the request to be offered again: a pool has room and no worker.
    fn enqueue(
        shared: &Shared,
        request: Request<Task>,
        sleeper: Option<Parker>,
        starved: bool,
    ) -> Result<GroupWait, Request<Task>> {
        let (mut stopped, mut staffed) = (None, false);
        // Held until all places are taken, so that two waiters have the same order in every queue.
        let order = shared.enqueue_lock.lock();
        // Under the same lock, so that two waiters cannot both take the last of `max_waiting`.
        if shared.waiter_count.len() >= shared.first().max_waiting() {
            drop(order);
            let refusal = shared.count_refusal(SubmitError::Full(request));
            return Ok(GroupWait::Answered(Err(refusal)));
        }
        let mut waiter = Self {
            ticket: Ticket::new(request, sleeper, &shared.waiter_count),
            places: Vec::with_capacity(shared.members.len()),
        };
        for member in &shared.members {
            // One section of that pool, so that room freed later finds this place (step 3).
            match member.enqueue_waiter(&waiter.ticket, starved) {
                Enqueued::Waiting(place) => {
                    waiter.places.push(place);
                    staffed = true; // Each task that its workers end frees room for step 3.
                }
                // For this place, step 3 is the section that counts the pool's first worker.
                Enqueued::Unstaffed(place) => waiter.places.push(place),
                other => {
                    stopped = Some(other);
                    break;
                }
            }
        }
        drop(order);
        match stopped {
            None if staffed => Ok(GroupWait::Waiting(waiter)),
            // No pool has a worker that would do step 3: the wait would never end.
            None | Some(Enqueued::NoWorker) => waiter.withdraw(shared, Err),
            // The pools before this one may have been released and rebooted since, so it must not wait.
            Some(Enqueued::Released) => waiter.withdraw(shared, |request| {
                let refusal = shared.count_refusal(SubmitError::Released(request));
                Ok(GroupWait::Answered(Err(refusal)))
            }),
            // There was room: this pool, or one before it, has taken the request.
            Some(taken) => {
                if let Enqueued::Taken(effects) = taken {
                    effects.run();
                }
                Ok(GroupWait::Answered(waiter.into_answer(shared)))
            }
        }
    }

    /// Step 5 before step 2: passes the request to `then`, unless a pool was faster (step 3).
    fn withdraw(
        self,
        shared: &Shared,
        then: impl FnOnce(Request<Task>) -> Result<GroupWait, Request<Task>>,
    ) -> Result<GroupWait, Request<Task>> {
        match self.ticket.withdraw() {
            Some(request) => {
                self.dequeue(shared);
                then(request)
            }
            None => Ok(GroupWait::Answered(self.into_answer(shared))),
        }
    }

    /// Step 2: sleeps until the ticket is settled, the deadline passes or the token is cancelled.
    pub(crate) fn wait(
        self,
        shared: &Shared,
        parker: &Parker,
        deadline: Option<Instant>,
        token: Option<&CancelToken>,
    ) -> RequestAnswer {
        let clock = shared.first().clock();
        let answer = match self.ticket.wait(parker, &**clock, deadline, token) {
            Some(answer) => answer,
            // Step 5, unless step 3 was faster.
            None => match self.ticket.withdraw() {
                Some(request) => {
                    let is_cancelled = token.is_some_and(CancelToken::is_cancelled);
                    Err(shared.count_refusal(if is_cancelled {
                        SubmitError::Cancelled(request)
                    } else {
                        SubmitError::TimedOut(request)
                    }))
                }
                None => return self.into_answer(shared),
            },
        };
        self.dequeue(shared);
        answer
    }

    /// Takes the outcome of a settled ticket.
    fn into_answer(self, shared: &Shared) -> RequestAnswer {
        self.dequeue(shared);
        let answer = self.ticket.outcome();
        answer.expect("the section that took the task has settled the ticket")
    }

    /// Step 6. A place that stayed would delay nobody, but take memory until its queue reaches it.
    pub(crate) fn dequeue(&self, shared: &Shared) {
        for (member, &place) in shared.members.iter().zip(&self.places) {
            member.leave(place);
        }
    }
}

#[cfg(all(test, not(anthill_loom)))]
mod tests {
    use pool_core::Pool;

    use pool_core::internals::AdmitHandle;

    use super::*;
    use crate::MultiBuilder;

    /// The waiter finds the first pool released. Before it reaches the second, both pools may be released and
    /// rebooted. A place in the second pool only would then miss the room of the first.
    #[testkit::test]
    fn a_waiter_that_meets_a_released_pool_does_not_wait_in_those_that_are_not() {
        let each = Pool::builder().capacity(1).queue_depth(0);
        let pool = MultiBuilder::new(each).pools(2).build();
        let pool = pool.expect("the settings are sound");
        let gate = testkit::Gate::new();
        for _ in 0..2 {
            let held = gate.clone();
            pool.submit(move || held.wait()).expect("there is room");
        }
        let shared = pool.admit();
        let (_, effects) = shared.members[0].release();
        effects.run();
        let answer = shared.enqueue(Request::Permit, false, None);
        gate.open();
        let GroupWait::Answered(answer) = answer else {
            panic!("it waits");
        };
        assert!(matches!(answer, Err(SubmitError::Released(_))));
    }
}
