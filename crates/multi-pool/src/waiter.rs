//! Waiting in the wait queues of all pools at once.
//!
//! A waiter in one pool's queue only would stay behind that pool's long tasks while another pool has
//! room. So it waits with one *ticket*, which holds its task (or that it wants a permit, which goes
//! the same way), and with a *place* in every pool's wait
//! queue. The first pool that frees room takes the task from the ticket. The other places are then
//! empty: a pool that comes to one goes on to the next.
//!
//! # The steps
//! 1. **Enqueue**: the waiter takes its places, pool after pool, each in one section of that pool's
//!    lock, all under `enqueue_lock`. A pool that has room by then takes the task at once.
//! 2. **Sleep**: until the ticket is settled, the deadline has passed, or the task's token is
//!    cancelled.
//! 3. **Transfer**: the section in which a pool frees room takes the task of its queue's head, if the
//!    ticket still holds one, and settles the ticket.
//! 4. **Shutdown**: the section in which a pool is released settles every ticket in its queue.
//! 5. **Withdraw**: at the deadline, after a cancelling, or as the future is dropped, the waiter
//!    takes its task back, if the ticket still holds it.
//! 6. **Dequeue**: the waiter gives its places up.
//!
//! # Races that look fatal
//! - *A pool frees room just before the waiter takes its place there.* That pool's queue was empty,
//!   so the room stays free, and step 1 finds it in the section that would have enqueued the waiter.
//! - *Two pools free room at once.* The ticket's own lock lets one of them have the task. The other
//!   goes on to its next place, and keeps no room reserved.
//! - *A pool is released during step 1.* Either the waiter meets a released pool and withdraws, or it
//!   took each of its places before the release of that pool, which settles the ticket (step 4).
//! - *Step 5 against step 3.* Both take the task under the ticket's lock. The second finds none, and
//!   the waiter's answer is what the first did.
//! - *A pool has room, and the operating system refuses to start its first worker.* The waiter waits
//!   for the pools that have workers, and has a place in that pool's queue too: the section that
//!   counts a first worker serves the queue before the task of the submitter that started it
//!   ("The first worker is refused to a multi-pool's waiter" in pool-core's `PROTOCOL.md`). If no
//!   pool has a worker, the task comes back.
//! - *Two waiters have their places in different orders in two pools.* They cannot: step 1 holds
//!   `enqueue_lock`.

use std::time::Instant;

use pool_core::internals::{Enqueued, PoolHandle, Request, Ticket, WaitLimits, WhenFull};
use pool_core::{CancelToken, OnFull, Runner, SubmitError};
use sync_shim::Parker;

use crate::shared::{NoRoom, RequestAnswer, Shared};

/// One waiter in the wait queues of a group: a ticket and its places, pool by pool.
pub(crate) struct GroupWaiter<R: Runner> {
    pub(crate) ticket: Ticket<R::Job>,
    places: Vec<u64>,
}

/// What came of the attempt to wait.
pub(crate) enum GroupWait<R: Runner> {
    /// The task waits.
    Waiting(GroupWaiter<R>),
    /// It need not, or must not.
    Answered(RequestAnswer<R>),
}

impl<R: Runner> Shared<R> {
    /// Every pool is full: waits for room as `on_full` and `limits` say, or gives the request back.
    #[cold]
    pub(crate) fn wait_if_full(
        &self,
        request: Request<R::Job>,
        starved: bool,
        on_full: OnFull,
        limits: Option<&WaitLimits>,
    ) -> RequestAnswer<R> {
        let asked = self.first().asked(on_full, &request);
        let request = match (asked, request) {
            (WhenFull::Refuse, request) => {
                return Err(self.count_refusal(SubmitError::Full(request)));
            }
            (WhenFull::Enqueue, request) => request,
            (WhenFull::RunInPlace, Request::Task(job)) => {
                self.first().run_in_place(job);
                return Ok(0);
            }
            (WhenFull::RunInCaller, Request::Task(job)) => {
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

    /// The first pool that has a task to give up takes this one for it, or else it is discarded
    /// itself: which pool has accepted it.
    fn replace_oldest(&self, mut job: R::Job) -> usize {
        for (pool, member) in self.members.iter().enumerate() {
            match member.replace_oldest(job) {
                Ok(()) => return pool,
                Err(back) => job = back,
            }
        }
        self.first().discard_newest(job);
        0
    }

    /// Step 1, repeated until no pool has room and no worker: enqueues the request for a thread that
    /// sleeps on `sleeper`, or for a future, whose waker comes with its next poll. `starved`: a pool
    /// that has room could start no worker just now.
    pub(crate) fn enqueue(
        &self,
        mut request: Request<R::Job>,
        mut starved: bool,
        sleeper: Option<&Parker>,
    ) -> GroupWait<R> {
        loop {
            let back = match GroupWaiter::enqueue(self, request, sleeper.cloned(), starved) {
                Ok(enqueued) => return enqueued,
                Err(back) => back,
            };
            // A pool has room and no worker. To start one calls the thread gate, which is user code,
            // so it is done here, where no lock is held.
            match self.offer(back, PoolHandle::accept_request) {
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

impl<R: Runner> GroupWaiter<R> {
    /// Step 1. With `starved` it takes a place also where there is room and no worker, so that a
    /// submitter that starts one there does not pass this waiter; as long as some pool has a worker.
    ///
    /// # Errors
    /// The request, if it is to be offered again: there is a pool with room and without a worker.
    fn enqueue(
        shared: &Shared<R>,
        request: Request<R::Job>,
        sleeper: Option<Parker>,
        starved: bool,
    ) -> Result<GroupWait<R>, Request<R::Job>> {
        let (mut stopped, mut staffed) = (None, false);
        // Until all places are taken: so two waiters have the same order in every pool's queue.
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
            // One section of that pool: room that it frees later finds this place (step 3).
            match member.enqueue_waiter(&waiter.ticket, starved) {
                Enqueued::Waiting(place) => {
                    waiter.places.push(place);
                    staffed = true; // Its workers run tasks, and each end frees room for step 3.
                }
                // Step 3 is then the section that counts that pool's first worker.
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
            // No pool would come to step 3: to wait on would be for ever.
            None | Some(Enqueued::NoWorker) => waiter.withdraw(shared, Err),
            // The pools before this one may have been released since: it must not wait on.
            Some(Enqueued::Released) => waiter.withdraw(shared, |request| {
                let refusal = shared.count_refusal(SubmitError::Released(request));
                Ok(GroupWait::Answered(Err(refusal)))
            }),
            // There was room: this pool has the task, or one that was asked before it.
            Some(taken) => {
                if let Enqueued::Taken(effects) = taken {
                    effects.run();
                }
                Ok(GroupWait::Answered(waiter.into_answer(shared)))
            }
        }
    }

    /// Step 5, before it has slept: passes the request on, unless a pool was faster (step 3).
    fn withdraw(
        self,
        shared: &Shared<R>,
        then: impl FnOnce(Request<R::Job>) -> Result<GroupWait<R>, Request<R::Job>>,
    ) -> Result<GroupWait<R>, Request<R::Job>> {
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
        shared: &Shared<R>,
        parker: &Parker,
        deadline: Option<Instant>,
        token: Option<&CancelToken>,
    ) -> RequestAnswer<R> {
        let clock = shared.first().clock();
        let answer = match self.ticket.wait(parker, &**clock, deadline, token) {
            Some(answer) => answer,
            // Step 5: the time is up, and step 3 may have come meanwhile.
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

    /// The answer of a ticket that is known to be settled.
    fn into_answer(self, shared: &Shared<R>) -> RequestAnswer<R> {
        self.dequeue(shared);
        let answer = self.ticket.outcome();
        answer.expect("the section that took the task has settled the ticket")
    }

    /// Step 6. A place that stayed would hold nothing up; it would only take memory until its queue
    /// comes to it.
    pub(crate) fn dequeue(&self, shared: &Shared<R>) {
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
    use crate::{MultiPool, MultiPoolExt};

    /// It meets the first pool released; before it comes to the second, both may be released and
    /// rebooted, and the first have room then, whose freeing it would not hear of.
    #[testkit::test]
    fn a_waiter_that_meets_a_released_pool_does_not_wait_in_those_that_are_not() {
        let each = Pool::builder().capacity(1).queue_depth(0);
        let pool = MultiPool::builder(each).pools(2).build();
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
