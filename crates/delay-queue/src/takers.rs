//! Who waits for something to take, who has been called, and who keeps the time.
//!
//! Threads and futures wait on one queue. A thread can wait for a time by itself; a future cannot,
//! so where only futures wait the clock's alarm does it for them. This is the arithmetic of that,
//! to be held under the lock of a queue: it calls nobody and reads no clock. What it says about
//! others goes into [`Calls`] and [`Arming`], to be done when the lock is free. `PROTOCOL.md`
//! beside it has the steps of each party and the races.
//!
//! # Words
//! - *Ready*: can be taken now. *Due*: will be ready at a time.
//! - *Called*: taken out of the waiting ones and told to look. A called thread does look; a called
//!   future may never be polled, so its call stands only as long as there is something ready for
//!   it: when somebody else has taken that, the next thing ready is another one's call.
//! - *The watch*: the duty to wake when the next falls due.
//!
//! # Invariants, whenever the lock is free
//! While somebody waits who is not called:
//! 1. as many are called, or come by themselves, as are ready, or all are;
//! 2. if something will fall due, then a thread has been called, or a waiting thread has the watch
//!    and sleeps no longer than until then, or no thread waits and the alarm is set, or being set,
//!    for no later.
//!
//! Time that is read makes entries ready. That breaks neither: by the second, whoever keeps the
//! time is about to come by himself, and settles.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::sync::Arc;
use std::task::Waker;

use sync_shim::{Alarm, Parker};

use crate::NEVER;
use crate::calls::{Bell, Calls};

/// What a queue has, as far as those who wait for it must know.
pub trait Stock {
    /// The latest time the queue knows of.
    fn now(&self) -> u64;

    /// How many are ready at that time. Counting stops at `limit`.
    fn ready(&mut self, limit: usize) -> usize;

    /// When the next that is not ready falls due; [`NEVER`] if none does.
    fn next_due(&mut self) -> u64;
}

/// Stands for one who waits, from its enrolment until it leaves.
pub type Ticket = u64;

/// The takers of one queue that found nothing to take.
#[derive(Debug)]
pub struct Takers {
    /// Waiting, not called.
    threads: BTreeMap<Ticket, Parker>,
    /// Waiting, not called.
    futures: BTreeMap<Ticket, Waker>,
    /// Called to learn that nobody keeps the time for them.
    failed: BTreeMap<Ticket, Arc<io::Error>>,
    next_ticket: Ticket,
    /// Called, and not back yet.
    called_threads: usize,
    /// Called for something that is ready, and not back yet.
    called_futures: BTreeSet<Ticket>,
    watch: Option<Watch>,
    alarm: AlarmState,
    turn: u64,
    counts: CallCounts,
}

/// A waiting thread that sleeps no longer than until then.
#[derive(Clone, Copy, Debug)]
struct Watch {
    ticket: Ticket,
    until: u64,
}

#[derive(Debug)]
enum AlarmState {
    Unset,
    /// Whoever was given this turn is setting it.
    Setting {
        at: u64,
        turn: u64,
        /// Something has rung meanwhile: perhaps this one.
        rang: bool,
    },
    Set {
        at: u64,
        alarm: Alarm,
    },
}

impl AlarmState {
    fn at(&self) -> u64 {
        match self {
            Self::Unset => NEVER,
            Self::Setting { at, .. } | Self::Set { at, .. } => *at,
        }
    }

    /// The alarm, if it is set, which it is not from now on. To be dropped when the lock is free.
    fn unset_if_set(&mut self) -> Option<Alarm> {
        match std::mem::replace(self, Self::Unset) {
            Self::Set { alarm, .. } => Some(alarm),
            other => {
                *self = other;
                None
            }
        }
    }
}

/// An alarm to be set when the lock is free.
#[derive(Debug)]
#[must_use = "futures wait for this alarm"]
pub struct Arming {
    /// When.
    pub at: u64,
    turn: u64,
    #[expect(dead_code, reason = "held to be dropped when the lock is free")]
    replaced: Option<Alarm>,
}

/// What is left of an alarm that is of no use any more. To be dropped when the lock is free.
#[derive(Debug, Default)]
#[must_use = "it is the clock's code, to be dropped when the lock is free"]
pub struct Spent {
    #[expect(dead_code, reason = "held to be dropped when the lock is free")]
    alarm: Option<Alarm>,
    #[expect(dead_code, reason = "as above")]
    error: Option<Arc<io::Error>>,
}

impl Spent {
    fn of(alarm: io::Result<Alarm>) -> Self {
        match alarm {
            Ok(alarm) => Self {
                alarm: Some(alarm),
                error: None,
            },
            Err(error) => Self {
                alarm: None,
                error: Some(Arc::new(error)),
            },
        }
    }
}

/// How often takers were called, and for what.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CallCounts {
    /// Because something was ready for them. Of those that stand, at most one for each that is
    /// ready: a call is made anew if the future that was called leaves without taking anything.
    pub wakes: u64,
    /// To take the watch over, or to keep it for an earlier time.
    pub rearms: u64,
}

/// How a future's wait stood when it left.
#[derive(Debug)]
pub enum Left {
    /// It had been called.
    Called,
    /// It had not. The waker is to be dropped when the lock is free.
    Waiting(Waker),
    /// Nobody could keep the time for it.
    NoAlarm(Arc<io::Error>),
}

impl Takers {
    /// Nobody waits.
    pub fn new() -> Self {
        Self {
            threads: BTreeMap::new(),
            futures: BTreeMap::new(),
            failed: BTreeMap::new(),
            next_ticket: 0,
            called_threads: 0,
            called_futures: BTreeSet::new(),
            watch: None,
            alarm: AlarmState::Unset,
            turn: 0,
            counts: CallCounts::default(),
        }
    }

    /// How many wait, called ones not counted.
    #[inline]
    pub fn waiting(&self) -> usize {
        self.threads.len() + self.futures.len()
    }

    /// How often somebody was called.
    pub fn counts(&self) -> CallCounts {
        self.counts
    }

    /// Whether something new that falls due then is a reason to [`settle`](Takers::settle).
    #[inline]
    pub fn concerns(&self, due: u64, now: u64) -> bool {
        self.waiting() > 0 && (due <= now || due < self.kept_until())
    }

    /// Until when nobody need be told of something new. 0: someone looks anyway.
    fn kept_until(&self) -> u64 {
        match self.watch {
            _ if self.called_threads > 0 => 0,
            Some(watch) => watch.until,
            None if self.threads.is_empty() => self.alarm.at(),
            None => NEVER,
        }
    }

    /// A thread that found nothing ready is about to sleep. It has the watch if a time comes with
    /// the answer: then it sleeps no longer than until that.
    pub fn enrol_thread(&mut self, parker: Parker, next_due: u64) -> (Ticket, Option<u64>) {
        self.called_futures.clear(); // Nothing is ready for them.
        let ticket = self.ticket();
        self.threads.insert(ticket, parker);
        let until = next_due;
        // One that sleeps for longer has missed an entry, which a called thread had to see to:
        // this one.
        if next_due == NEVER || self.watch.is_some_and(|watch| watch.until <= until) {
            return (ticket, None);
        }
        self.watch = Some(Watch { ticket, until });
        (ticket, Some(until))
    }

    /// The thread is awake, called or not. Unless it enrols again it must settle.
    pub fn leave_thread(&mut self, ticket: Ticket) {
        if self.threads.remove(&ticket).is_none() {
            self.called_threads -= 1;
        } else if self.watch.is_some_and(|watch| watch.ticket == ticket) {
            self.watch = None;
        }
    }

    /// A future that found nothing ready returns `Pending`. It must settle.
    pub fn enrol_future(&mut self, waker: Waker) -> Ticket {
        self.called_futures.clear(); // Nothing is ready for them.
        let ticket = self.ticket();
        self.futures.insert(ticket, waker);
        ticket
    }

    /// A future that has left found nothing ready again: it has its old place back, before all
    /// that came after it. It must settle.
    pub fn enrol_again(&mut self, ticket: Ticket, waker: Waker) {
        self.called_futures.clear(); // As above.
        self.futures.insert(ticket, waker);
    }

    /// The future is polled again, or dropped. It must settle.
    pub fn leave_future(&mut self, ticket: Ticket) -> Left {
        if let Some(waker) = self.futures.remove(&ticket) {
            return Left::Waiting(waker);
        }
        if let Some(error) = self.failed.remove(&ticket) {
            return Left::NoAlarm(error);
        }
        self.called_futures.remove(&ticket);
        Left::Called
    }

    fn ticket(&mut self) -> Ticket {
        self.next_ticket += 1;
        self.next_ticket
    }

    /// Restores the invariants after anything has changed.
    pub fn settle(&mut self, stock: &mut impl Stock, calls: &mut Calls) -> Option<Arming> {
        if self.waiting() == 0 {
            return None;
        }
        // A watch whose time has come is awake, or wakes without being called.
        let watch_comes = self.watch.is_some_and(|watch| watch.until <= stock.now());
        let threads_coming = self.called_threads + usize::from(watch_comes);
        let callable = self.waiting() - usize::from(watch_comes);
        let ready = stock.ready(threads_coming + self.called_futures.len() + callable);
        while threads_coming + self.called_futures.len() > ready {
            if self.called_futures.pop_first().is_none() {
                break;
            }
        }
        for _ in threads_coming + self.called_futures.len()..ready {
            self.call_next(watch_comes, calls);
            self.counts.wakes += 1;
        }
        if watch_comes || self.called_threads > 0 {
            return None; // That thread settles when it has looked.
        }
        self.keep_time(stock, calls)
    }

    /// Calls one that waits: a thread first, because it is sure to look; among threads one without
    /// the watch, so that the watch need not be passed on.
    fn call_next(&mut self, watch_comes: bool, calls: &mut Calls) {
        let watch = self.watch.map(|watch| watch.ticket);
        // The latest to fall asleep is the likeliest to find its memory in the cache.
        let mut latest = self.threads.keys().rev().copied();
        let other = latest.find(|&ticket| Some(ticket) != watch);
        if let Some(ticket) = other.or(watch.filter(|_| !watch_comes)) {
            self.call_thread(ticket, calls);
        } else if let Some((ticket, waker)) = self.futures.pop_first() {
            self.called_futures.insert(ticket);
            calls.add(Bell::Future(waker));
        }
    }

    fn call_thread(&mut self, ticket: Ticket, calls: &mut Calls) {
        if let Some(parker) = self.threads.remove(&ticket) {
            self.called_threads += 1;
            calls.add(Bell::Thread(parker));
        }
        if self.watch.is_some_and(|watch| watch.ticket == ticket) {
            self.watch = None;
        }
    }

    /// Sees to the second invariant. No thread is called and the watch's time has not come.
    fn keep_time(&mut self, stock: &mut impl Stock, calls: &mut Calls) -> Option<Arming> {
        if self.waiting() == 0 {
            return None;
        }
        let next = stock.next_due();
        let thread = match self.watch {
            Some(watch) if watch.until <= next => return None,
            Some(watch) => Some(watch.ticket),
            None if next == NEVER => return None,
            None => self.threads.keys().next_back().copied(),
        };
        if let Some(ticket) = thread {
            // It looks, finds the next due time, and enrols with the watch.
            self.call_thread(ticket, calls);
            self.counts.rearms += 1;
            return None;
        }
        if self.alarm.at() <= next {
            return None;
        }
        self.turn += 1;
        let turn = self.turn;
        let replaced = self.alarm.unset_if_set();
        self.alarm = AlarmState::Setting {
            at: next,
            turn,
            rang: false,
        };
        Some(Arming {
            at: next,
            turn,
            replaced,
        })
    }

    /// What became of setting the alarm. The party that set it settles next, which may ask for
    /// another one.
    ///
    /// If there is no alarm, and no thread that would keep the time, the waiting futures are
    /// called to be told.
    pub fn armed(
        &mut self,
        arming: &Arming,
        alarm: io::Result<Alarm>,
        calls: &mut Calls,
    ) -> Spent {
        let (at, rang) = match self.alarm {
            AlarmState::Setting { at, turn, rang } if turn == arming.turn => (at, rang),
            // An earlier one has taken its place.
            _ => return Spent::of(alarm),
        };
        self.alarm = AlarmState::Unset;
        match alarm {
            Ok(alarm) if !rang => {
                self.alarm = AlarmState::Set { at, alarm };
                Spent::default()
            }
            Ok(alarm) => Spent::of(Ok(alarm)),
            Err(error) => {
                let error = Arc::new(error);
                if self.watch.is_none() && self.called_threads == 0 {
                    while let Some((ticket, waker)) = self.futures.pop_first() {
                        self.failed.insert(ticket, Arc::clone(&error));
                        calls.add(Bell::Future(waker));
                    }
                }
                Spent {
                    alarm: None,
                    error: Some(error),
                }
            }
        }
    }

    /// An alarm has rung, perhaps before its time: its clock may have come to an end, which
    /// setting the next one will tell. The party that heard it settles next.
    ///
    /// While an alarm is being set, that it rang is noted and no more: the party that sets it
    /// settles when it is done, and sets the next.
    pub fn rung(&mut self) -> Spent {
        if let AlarmState::Setting { rang, .. } = &mut self.alarm {
            *rang = true;
        }
        Spent {
            alarm: self.alarm.unset_if_set(),
            error: None,
        }
    }

    /// Nothing will ever be ready again: everybody is called.
    pub fn call_all(&mut self, calls: &mut Calls) {
        self.watch = None;
        while let Some((_, parker)) = self.threads.pop_first() {
            self.called_threads += 1;
            calls.add(Bell::Thread(parker));
        }
        while let Some((_, waker)) = self.futures.pop_first() {
            calls.add(Bell::Future(waker));
        }
    }
}

impl Default for Takers {
    fn default() -> Self {
        Self::new()
    }
}
