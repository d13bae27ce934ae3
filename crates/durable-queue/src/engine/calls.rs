//! Calls that wait for jobs, first come, first served, and spare jobs.
//!
//! Waiters are not woken here: a section moves them into its wake list, and wakes them afterwards.
//!
//! # Invariants
//! 1. A call waits, is served, or is gone. It is served once, with at least one job.
//! 2. `demand` is the number of jobs that the waiting calls want.
//! 3. No call waits while there are spare jobs.

use std::collections::{BTreeMap, VecDeque};
use std::mem;
use std::time::{Duration, Instant};

use sync_shim::waiter::{Waiter, WakeList};

use crate::engine::command::Ready;

/// Maximum demand of a call, so that the sum of all demands cannot overflow.
const MOST_WANTED: usize = 1 << 20;

/// Number of jobs that a call waits for.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Wanted {
    /// Up to this many, all for the call itself.
    Own(usize),
    /// Up to `own` for the call itself. The others, up to `most` in all, are spare jobs for any later call. If
    /// `patience` is set, they are released after it.
    Spare {
        own: usize,
        most: usize,
        patience: Option<Duration>,
    },
}

impl Wanted {
    /// Number of jobs to claim.
    fn most(self) -> usize {
        let (Self::Own(most) | Self::Spare { most, .. }) = self;
        most.min(MOST_WANTED)
    }

    /// Maximum number of jobs for the call itself.
    fn own(self) -> usize {
        let (Self::Own(own) | Self::Spare { own, .. }) = self;
        own.min(MOST_WANTED)
    }
}

/// Identifies a call. Later calls have greater tickets.
pub(crate) type Ticket = u64;

#[derive(Debug, Default)]
pub(crate) struct Calls {
    waiting: BTreeMap<Ticket, Waiting>,
    served: BTreeMap<Ticket, Vec<Ready>>,
    next: Ticket,
    demand: usize,
    spares: VecDeque<Spare>,
    /// When to look at the spare jobs.
    look_at: Option<Instant>,
}

/// A started job without a call.
#[derive(Debug)]
struct Spare {
    job: Ready,
    /// When it is released.
    until: Option<Instant>,
}

#[derive(Debug)]
struct Waiting {
    wanted: Wanted,
    waiter: Waiter,
}

/// State of a call.
#[derive(Debug)]
pub(crate) enum Look {
    /// It waits. Contains its previous waiter, to be dropped after the section.
    Waits(Waiter),
    /// It was served with these jobs, and is gone.
    Served(Vec<Ready>),
    /// It is gone, because the queue was closed.
    Gone,
}

impl Calls {
    pub(crate) fn demand(&self) -> usize {
        self.demand
    }

    /// Adds a call. If there are spare jobs, it is served at once.
    pub(crate) fn enqueue(
        &mut self,
        wanted: Wanted,
        waiter: Waiter,
        wakes: &mut WakeList,
    ) -> Ticket {
        let ticket = self.next;
        self.next += 1;
        if self.spares.is_empty() {
            self.demand += wanted.most();
            self.waiting.insert(ticket, Waiting { wanted, waiter });
        } else {
            let own = wanted.own().min(self.spares.len());
            let jobs = self.spares.drain(..own).map(|spare| spare.job);
            self.served.insert(ticket, jobs.collect());
            wakes.push(waiter);
        }
        ticket
    }

    /// Takes the spare job that has waited longest.
    pub(crate) fn take_spare(&mut self) -> Option<Ready> {
        Some(self.spares.pop_front()?.job)
    }

    /// When to call [`late`](Self::late).
    pub(crate) fn look_at(&self) -> Option<Instant> {
        self.look_at
    }

    /// Removes the spare jobs whose time has passed, or all.
    pub(crate) fn late(&mut self, now: Instant, all: bool) -> Vec<Ready> {
        let spares = mem::take(&mut self.spares).into_iter();
        let is_late = |spare: &Spare| all || spare.until.is_some_and(|until| until <= now);
        let (late, kept) = spares.partition::<VecDeque<_>, _>(is_late);
        self.spares = kept;
        self.look_at = self.spares.iter().filter_map(|spare| spare.until).min();
        late.into_iter().map(|spare| spare.job).collect()
    }

    /// Returns the state of a call. If it still waits, its waiter is replaced.
    pub(crate) fn look(&mut self, ticket: Ticket, waiter: &mut Option<Waiter>) -> Look {
        if let Some(jobs) = self.served.remove(&ticket) {
            return Look::Served(jobs);
        }
        match self.waiting.get_mut(&ticket) {
            None => Look::Gone,
            Some(call) => {
                let new = waiter.take().expect("the caller passes a waiter");
                Look::Waits(mem::replace(&mut call.waiter, new))
            }
        }
    }

    /// Changes the number of jobs that a call waits for, if it still waits.
    pub(crate) fn change(&mut self, ticket: Ticket, wanted: Wanted) {
        if let Some(call) = self.waiting.get_mut(&ticket) {
            self.demand = self.demand - call.wanted.most() + wanted.most();
            call.wanted = wanted;
        }
    }

    /// Removes a call. Returns the jobs that it was given, and its waiter.
    pub(crate) fn leave(&mut self, ticket: Ticket) -> (Vec<Ready>, Option<Waiter>) {
        let jobs = self.served.remove(&ticket).unwrap_or_default();
        let waiter = self.waiting.remove(&ticket).map(|call| {
            self.demand -= call.wanted.most();
            call.waiter
        });
        (jobs, waiter)
    }

    /// Gives jobs to the calls that have waited longest, as many as each wants for itself, and keeps the
    /// spare jobs that they want in addition. Returns the rest, whose calls are gone.
    pub(crate) fn serve(
        &mut self,
        jobs: Vec<Ready>,
        now: Instant,
        wakes: &mut WakeList,
    ) -> Vec<Ready> {
        let mut jobs = jobs.into_iter();
        let (mut room, mut until) = (0, None);
        while !jobs.as_slice().is_empty() {
            let Some((ticket, call)) = self.waiting.pop_first() else {
                break;
            };
            let wanted = call.wanted;
            self.demand -= wanted.most();
            if let Wanted::Spare { patience, .. } = wanted {
                room += wanted.most() - wanted.own();
                let ends = patience.and_then(|patience| now.checked_add(patience));
                until = until.into_iter().chain(ends).min();
            }
            let own = jobs.by_ref().take(wanted.own()).collect();
            self.served.insert(ticket, own);
            wakes.push(call.waiter);
        }
        let spare = |job| Spare { job, until };
        self.spares.extend(jobs.by_ref().take(room).map(spare));
        if !self.spares.is_empty() {
            self.look_at = self.look_at.or(until);
        }
        jobs.collect()
    }

    /// Ends all waiting calls. Served calls can still fetch their jobs.
    pub(crate) fn close(&mut self, wakes: &mut WakeList) {
        self.demand = 0;
        for call in mem::take(&mut self.waiting).into_values() {
            wakes.push(call.waiter);
        }
    }
}
