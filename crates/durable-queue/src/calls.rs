//! The calls that wait for jobs, in the order in which they came, and what they were given.
//!
//! Not for: waking. A section dequeues waiters into its wake list, which is worked off after it.
//!
//! # What always holds
//! 1. A call waits, or is served, or is gone. It is served once, with at least one job.
//! 2. `demand` is the number of jobs that the waiting calls want.

use std::collections::BTreeMap;
use std::mem;

use sync_shim::waiter::{Waiter, WakeList};

use crate::claimed::Ready;

/// A call waits for so many jobs at most: the demand of all calls stays a number.
const MOST_WANTED: usize = 1 << 20;

/// Names a call. A later one is greater.
pub(crate) type Ticket = u64;

#[derive(Debug, Default)]
pub(crate) struct Calls {
    waiting: BTreeMap<Ticket, Waiting>,
    served: BTreeMap<Ticket, Vec<Ready>>,
    next: Ticket,
    demand: usize,
}

#[derive(Debug)]
struct Waiting {
    wanted: usize,
    waiter: Waiter,
}

/// How a call stands.
#[derive(Debug)]
pub(crate) enum Look {
    /// It waits. This is the waiter that it had before, which is to be dropped with the lock free.
    Waits(Waiter),
    /// It has these, and is gone.
    Served(Vec<Ready>),
    /// It is gone: the queue was closed.
    Gone,
}

impl Calls {
    pub(crate) fn demand(&self) -> usize {
        self.demand
    }

    pub(crate) fn enqueue(&mut self, wanted: usize, waiter: Waiter) -> Ticket {
        let wanted = wanted.min(MOST_WANTED);
        let ticket = self.next;
        self.next += 1;
        self.demand += wanted;
        self.waiting.insert(ticket, Waiting { wanted, waiter });
        ticket
    }

    /// `waiter` takes the place of the one before, if the call still waits.
    pub(crate) fn look(&mut self, ticket: Ticket, waiter: &mut Option<Waiter>) -> Look {
        if let Some(jobs) = self.served.remove(&ticket) {
            return Look::Served(jobs);
        }
        match self.waiting.get_mut(&ticket) {
            None => Look::Gone,
            Some(call) => {
                let new = waiter.take().expect("it is made for this look");
                Look::Waits(mem::replace(&mut call.waiter, new))
            }
        }
    }

    /// The call ends: what it had been given, and its waiter.
    pub(crate) fn leave(&mut self, ticket: Ticket) -> (Vec<Ready>, Option<Waiter>) {
        let jobs = self.served.remove(&ticket).unwrap_or_default();
        let waiter = self.waiting.remove(&ticket).map(|call| {
            self.demand -= call.wanted;
            call.waiter
        });
        (jobs, waiter)
    }

    /// Gives jobs to the calls that have waited longest, each as many as it wants. What is left over
    /// was wanted by calls that are gone.
    pub(crate) fn serve(&mut self, mut jobs: Vec<Ready>, wakes: &mut WakeList) -> Vec<Ready> {
        while !jobs.is_empty() {
            let Some((ticket, call)) = self.waiting.pop_first() else {
                break;
            };
            self.demand -= call.wanted;
            let rest = jobs.split_off(call.wanted.min(jobs.len()));
            self.served.insert(ticket, mem::replace(&mut jobs, rest));
            wakes.push(call.waiter);
        }
        jobs
    }

    /// No call waits any more. What was served stays to be fetched.
    pub(crate) fn close(&mut self, wakes: &mut WakeList) {
        self.demand = 0;
        for call in mem::take(&mut self.waiting).into_values() {
            wakes.push(call.waiter);
        }
    }
}
