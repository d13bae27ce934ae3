//! The calls that wait for jobs, in the order in which they came, what they were given, and spare jobs.
//!
//! Not for: waking. A section dequeues waiters into its wake list, which is worked off after it.
//!
//! # What always holds
//! 1. A call waits, or is served, or is gone. It is served once, with at least one job.
//! 2. `demand` is the number of jobs that the waiting calls want.
//! 3. No call waits while there are spare jobs.

use std::collections::{BTreeMap, VecDeque};
use std::mem;
use std::time::{Duration, Instant};

use sync_shim::waiter::{Waiter, WakeList};

use crate::command::Ready;

/// A call waits for so many jobs at most: the demand of all calls stays a number.
const MOST_WANTED: usize = 1 << 20;

/// How many jobs a call waits for.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Wanted {
    /// Up to so many, for itself.
    Own(usize),
    /// One for itself. The others are spare: for whichever call comes next. After `patience` they are given back, if
    /// it is said.
    Spare {
        most: usize,
        patience: Option<Duration>,
    },
}

impl Wanted {
    /// Jobs to claim.
    fn most(self) -> usize {
        let (Self::Own(most) | Self::Spare { most, .. }) = self;
        most.min(MOST_WANTED)
    }

    /// Jobs for the call itself.
    fn own(self) -> usize {
        match self {
            Self::Own(most) => most,
            Self::Spare { .. } => 1,
        }
    }
}

/// Names a call. A later one is greater.
pub(crate) type Ticket = u64;

#[derive(Debug, Default)]
pub(crate) struct Calls {
    waiting: BTreeMap<Ticket, Waiting>,
    served: BTreeMap<Ticket, Vec<Ready>>,
    next: Ticket,
    demand: usize,
    spares: VecDeque<Spare>,
    /// When the spares are to be looked at.
    look_at: Option<Instant>,
}

/// A started job that no call has yet.
#[derive(Debug)]
struct Spare {
    job: Ready,
    /// When it is given back.
    until: Option<Instant>,
}

#[derive(Debug)]
struct Waiting {
    wanted: Wanted,
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

    /// A call comes: it waits, or is served with spare jobs at once.
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

    /// The spare job that has waited longest.
    pub(crate) fn take_spare(&mut self) -> Option<Ready> {
        Some(self.spares.pop_front()?.job)
    }

    /// When [`late`](Self::late) is to be called.
    pub(crate) fn look_at(&self) -> Option<Instant> {
        self.look_at
    }

    /// The spare jobs whose time is over, or all.
    pub(crate) fn late(&mut self, now: Instant, all: bool) -> Vec<Ready> {
        let spares = mem::take(&mut self.spares).into_iter();
        let is_late = |spare: &Spare| all || spare.until.is_some_and(|until| until <= now);
        let (late, kept) = spares.partition::<VecDeque<_>, _>(is_late);
        self.spares = kept;
        self.look_at = self.spares.iter().filter_map(|spare| spare.until).min();
        late.into_iter().map(|spare| spare.job).collect()
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
            self.demand -= call.wanted.most();
            call.waiter
        });
        (jobs, waiter)
    }

    /// Gives jobs to the calls that have waited longest, each as many as it wants for itself, and keeps as many spare
    /// jobs as they want besides. What is left over was wanted by calls that are gone.
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
                room += wanted.most() - 1;
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

    /// No call waits any more. What was served stays to be fetched.
    pub(crate) fn close(&mut self, wakes: &mut WakeList) {
        self.demand = 0;
        for call in mem::take(&mut self.waiting).into_values() {
            wakes.push(call.waiter);
        }
    }
}
