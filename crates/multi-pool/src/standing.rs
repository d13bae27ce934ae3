//! Waiting in the wait queues of all pools at once.
//!
//! A waiter whose task one pool held would stay behind that pool's long tasks while another has
//! room. So it waits with one *ticket* that has a *place* in every pool's wait queue. The task lies at
//! the ticket. Whichever pool frees room first takes it from there, and the places left in the
//! other wait queues are empty: a pool that comes to one goes on to the next.
//!
//! # The steps
//! - Owner: takes the places, pool after pool, each in one section of that pool's lock. A pool
//!   that has room by then takes the task at once. Then it sleeps. In the end it leaves the places.
//! - Pool: in the section that frees room it takes the head's task, if that is still there.
//! - Release: in its section, each pool gives the tasks in its line back.
//!
//! # What looks fatal and is not
//! - *Room comes free in a pool just before the owner takes its place there.* The pool's wait queue was
//!   empty, so the room stays, and the owner finds it in the section that would enrol it.
//! - *Two pools free room at once.* The ticket's own lock lets one of them have the task. The other
//!   goes on to its next place; its room is not held for anybody.
//! - *A pool is released while the owner is still taking places.* Either the owner meets a released
//!   pool and takes the task back, or every place it took was in time for a release to see it.
//! - *The time is up, or the future dropped, as a pool takes the task.* Both ask the ticket's
//!   lock. Whoever is second finds nothing and goes by what the first did.
//! - *A pool has room, and the system starts no worker for it.* The owner waits for those that have
//!   workers, and has a place in that pool's wait queue too: who gets a worker started there lets the
//!   wait queue in before its own task. If no pool has a worker, the task comes back.
//! - *The first waiter takes its places in one pool before, and in another after the second.* It
//!   cannot: places are taken under `door`.

use std::time::Instant;

use pool_core::internals::{Enqueued, Ticket};
use pool_core::{Runner, SubmitError};
use sync_shim::Parker;

use crate::shared::{Answer, Shared};

/// A ticket and its places, pool by pool.
pub(crate) struct Standing<R: Runner> {
    pub(crate) ticket: Ticket<R::Job>,
    places: Vec<u64>,
}

/// What came of the attempt to stand.
pub(crate) enum Entered<R: Runner> {
    Standing(Standing<R>),
    Answered(Answer<R>),
}

impl<R: Runner> Standing<R> {
    /// Takes the places. With `starved`, also where there is room and no worker, so that who starts
    /// one there does not pass this waiter; as long as some pool has a worker.
    ///
    /// # Errors
    /// The job, if it is to be offered again: there is a pool with room and without a worker.
    pub(crate) fn enter(
        shared: &Shared<R>,
        job: R::Job,
        sleeper: Option<Parker>,
        starved: bool,
    ) -> Result<Entered<R>, R::Job> {
        let (mut stopped, mut staffed) = (None, false);
        let door = shared.door.lock();
        if shared.waiter_count.len() >= shared.first().max_waiting() {
            drop(door);
            let refusal = shared.refuse(SubmitError::Full(job));
            return Ok(Entered::Answered(Err(refusal)));
        }
        let mut standing = Self {
            ticket: Ticket::new(job, sleeper, &shared.waiter_count),
            places: Vec::with_capacity(shared.members.len()),
        };
        for member in &shared.members {
            match member.enqueue_waiter(&standing.ticket, starved) {
                Enqueued::Waiting(place) => {
                    standing.places.push(place);
                    staffed = true; // There somebody runs tasks, and will come to this one.
                }
                Enqueued::Unstaffed(place) => standing.places.push(place),
                other => {
                    stopped = Some(other);
                    break;
                }
            }
        }
        drop(door);
        match stopped {
            None if staffed => Ok(Entered::Standing(standing)),
            None | Some(Enqueued::NoWorker) => standing.back_out(shared, Err),
            Some(Enqueued::Released) => standing.back_out(shared, |job| {
                let refusal = shared.refuse(SubmitError::Released(job));
                Ok(Entered::Answered(Err(refusal)))
            }),
            Some(taken) => {
                if let Enqueued::Taken(effects) = taken {
                    effects.run();
                }
                Ok(Entered::Answered(standing.end(shared)))
            }
        }
    }

    /// Withdraws the job and passes it on, unless a pool was faster.
    fn back_out(
        self,
        shared: &Shared<R>,
        then: impl FnOnce(R::Job) -> Result<Entered<R>, R::Job>,
    ) -> Result<Entered<R>, R::Job> {
        match self.ticket.withdraw() {
            Some(job) => {
                self.leave(shared);
                then(job)
            }
            None => Ok(Entered::Answered(self.end(shared))),
        }
    }

    /// Sleeps until the ticket is settled or the time is up.
    pub(crate) fn wait(
        self,
        shared: &Shared<R>,
        parker: &Parker,
        deadline: Option<Instant>,
    ) -> Answer<R> {
        let clock = shared.first().clock();
        let answer = match self.ticket.wait(parker, clock, deadline) {
            Some(answer) => answer,
            None => match self.ticket.withdraw() {
                Some(job) => Err(shared.refuse(SubmitError::TimedOut(job))),
                None => return self.end(shared),
            },
        };
        self.leave(shared);
        answer
    }

    /// The answer of a ticket that is known to be settled.
    fn end(self, shared: &Shared<R>) -> Answer<R> {
        self.leave(shared);
        let answer = self.ticket.outcome();
        answer.expect("whoever took the task from the ticket has settled it")
    }

    /// Gives the places up. Nobody is held up by one that stays; it would only take memory until
    /// its line comes to it.
    pub(crate) fn leave(&self, shared: &Shared<R>) {
        for (member, &place) in shared.members.iter().zip(&self.places) {
            member.leave(place);
        }
    }
}
