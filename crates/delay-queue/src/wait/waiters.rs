//! The waiters of one queue, as arithmetic under its lock: which waiters to notify for ready
//! entries, and which thread leads.
//!
//! This module wakes nothing and reads no clock. Waiters to wake go into a [`WakeList`], and the
//! alarm to set into an [`AlarmRequest`]; the [driver](super::Driver) acts on both after the lock
//! is released.
//!
//! # Terms
//! - *Ready*: can be taken now. *Due at a time*: will be ready then.
//! - *Notified*: dequeued and woken, to look. A notified thread is sure to look. A notified future
//!   may never be polled, so its notification counts only while an entry is ready for it: when that
//!   entry has been taken, the next ready entry is for another waiter.
//! - *The leader*: the waiting thread that sleeps at most until the next entry falls due. The other
//!   threads sleep without a time-out (the leader-follower pattern of Java's `DelayQueue`).
//!
//! # Invariants, whenever the lock is free
//! While a waiter is queued, that is, waiting and not notified:
//! 1. the number of waiters that are notified or about to wake by themselves is at least the number
//!    of ready entries, or includes all waiters;
//! 2. if an entry will fall due, then a thread has been notified, or the leader sleeps at most
//!    until then, or no thread waits and the alarm is set, or being set, for that time or earlier.
//!
//! A reading of the clock makes entries ready. That breaks neither invariant: by the second, the
//! leader or the alarm is about to wake, and settles.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::sync::Arc;
use std::task::Waker;

use sync_shim::waiter::{Waiter, WakeList};
use sync_shim::{Alarm, Parker};

use super::alarm::{AlarmRequest, Discarded, QueueAlarm};
use crate::NEVER;
use crate::heap::steps;

/// A queue as seen by its waiters.
pub trait ReadySource {
    /// Returns the latest reading of the clock.
    fn now(&self) -> u64;

    /// Returns the number of entries that are ready at that time. Counting stops at `limit`.
    fn ready(&mut self, limit: usize) -> usize;

    /// Returns when the next entry that is not ready falls due; [`NEVER`] if none does.
    fn next_due(&mut self) -> u64;
}

/// Identifies a waiter, from the section that enqueues it until the one that dequeues it.
pub type WaiterId = u64;

/// The consumers of one queue that found no entry to take.
#[derive(Debug, Default)]
#[doc(alias = "Waitlist")]
pub struct Waiters {
    /// Queued: waiting and not notified.
    threads: BTreeMap<WaiterId, Parker>,
    /// Queued: waiting and not notified.
    futures: BTreeMap<WaiterId, Waker>,
    /// Notified of the error that no alarm could be set for them.
    failed: BTreeMap<WaiterId, Arc<io::Error>>,
    next_id: WaiterId,
    /// Notified, but not yet dequeued.
    notified_threads: usize,
    /// Notified for a ready entry, but not yet dequeued.
    notified_futures: BTreeSet<WaiterId>,
    leader: Option<Leader>,
    alarm: QueueAlarm,
    counts: WakeCounts,
}

/// A queued thread that sleeps at most until `until`.
#[derive(Clone, Copy, Debug)]
struct Leader {
    id: WaiterId,
    until: u64,
}

/// Number of notifications, by reason.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WakeCounts {
    /// Because an entry was ready: at most one for each ready entry, and one more if the notified
    /// future leaves without taking it.
    pub wakes: u64,
    /// To lead, or to lead for an earlier time.
    pub rearms: u64,
}

/// State of a future's wait when it was dequeued.
#[derive(Debug)]
pub enum Left {
    /// It had been notified.
    Notified,
    /// It had not been notified. The waker must be dropped after the lock is released.
    Waiting(Waker),
    /// It was notified because the alarm could not be set.
    NoAlarm(Arc<io::Error>),
}

impl Waiters {
    /// Creates an empty wait queue.
    pub fn new() -> Self {
        Self::default()
    }

    /// Returns the number of queued waiters. Notified ones are not counted.
    #[inline]
    pub fn waiting(&self) -> usize {
        self.threads.len() + self.futures.len()
    }

    /// Returns whether the wait queue has no trace of any waiter.
    #[cfg(all(test, not(anthill_loom)))]
    pub(crate) fn is_forgotten(&self) -> bool {
        self.waiting() == 0
            && self.failed.is_empty()
            && self.notified_threads == 0
            && self.notified_futures.is_empty()
            && self.leader.is_none()
    }

    /// Returns the number of notifications so far.
    pub fn counts(&self) -> WakeCounts {
        self.counts
    }

    /// Returns whether a new entry due at `due` is a reason to [`settle`](Waiters::settle).
    #[inline]
    pub fn concerns(&self, due: u64, now: u64) -> bool {
        self.waiting() > 0 && (due <= now || due < self.kept_until())
    }

    /// Returns the time from which on a new entry changes nothing for the waiters.
    fn kept_until(&self) -> u64 {
        match self.leader {
            // A notified thread is about to look, and leads for the new time itself.
            _ if self.notified_threads > 0 => 0,
            Some(leader) => leader.until,
            None if self.threads.is_empty() => self.alarm.at(),
            None => NEVER,
        }
    }

    /// Enqueues a thread that found no ready entry and is about to sleep. If a time is returned,
    /// the thread leads and sleeps at most until then. The section must settle, which revokes
    /// notifications beyond the number of ready entries.
    pub fn enqueue_thread(&mut self, parker: Parker, next_due: u64) -> (WaiterId, Option<u64>) {
        let id = self.new_id();
        self.threads.insert(id, parker);
        let until = next_due;
        // If the current leader sleeps past `until`, an earlier push relied on this thread, which
        // had been notified, to take over.
        if next_due == NEVER || self.leader.is_some_and(|leader| leader.until <= until) {
            return (id, None);
        }
        self.leader = Some(Leader { id, until });
        (id, Some(until))
    }

    /// Dequeues a thread that is awake, notified or not. The section must settle: the thread may
    /// have been the leader.
    pub fn dequeue_thread(&mut self, id: WaiterId) {
        if self.threads.remove(&id).is_none() {
            self.notified_threads -= 1;
        } else if self.leader.is_some_and(|leader| leader.id == id) {
            self.leader = None;
        }
    }

    /// Enqueues a future that found no ready entry. With the id it had `before`, it gets its old
    /// place back, before all later ones. The section must settle, as for a thread.
    pub fn enqueue_future(&mut self, waker: Waker, before: Option<WaiterId>) -> WaiterId {
        let id = before.unwrap_or_else(|| self.new_id());
        self.futures.insert(id, waker);
        id
    }

    /// Dequeues a future that is polled again or dropped. The section must settle: the entry that
    /// the future was notified of is for the next waiter.
    pub fn dequeue_future(&mut self, id: WaiterId) -> Left {
        if let Some(waker) = self.futures.remove(&id) {
            return Left::Waiting(waker);
        }
        if let Some(error) = self.failed.remove(&id) {
            return Left::NoAlarm(error);
        }
        self.notified_futures.remove(&id);
        Left::Notified
    }

    fn new_id(&mut self) -> WaiterId {
        self.next_id += 1;
        self.next_id
    }

    /// Restores the invariants after any change. Notified waiters are appended to `wakes`, an alarm
    /// to be set is stored in `request`. Compiled once for all queues.
    pub fn settle(
        &mut self,
        source: &mut dyn ReadySource,
        wakes: &mut WakeList,
        request: &mut Option<AlarmRequest>,
    ) {
        if self.waiting() == 0 {
            return;
        }
        // A leader whose time has come is awake, or wakes without a notification.
        let leader_comes = self
            .leader
            .is_some_and(|leader| leader.until <= source.now());
        let threads_coming = self.notified_threads + usize::from(leader_comes);
        let queued = self.waiting() - usize::from(leader_comes);
        let ready = source.ready(threads_coming + self.notified_futures.len() + queued);
        // The entry that a future was notified of has been taken: the next ready entry is for
        // another waiter.
        while threads_coming + self.notified_futures.len() > ready {
            steps::count_one();
            if self.notified_futures.pop_first().is_none() {
                break;
            }
        }
        // Invariant 1.
        for _ in threads_coming + self.notified_futures.len()..ready {
            steps::count_one();
            self.notify_one(leader_comes, wakes);
            self.counts.wakes += 1;
        }
        if leader_comes || self.notified_threads > 0 {
            return; // Invariant 2: the notified thread settles after it has looked.
        }
        self.keep_time(source, wakes, request);
    }

    /// Notifies one waiter: preferably a thread, because it is sure to look; and among threads a
    /// follower, so that the lead need not be passed on.
    fn notify_one(&mut self, leader_comes: bool, wakes: &mut WakeList) {
        let leader = self.leader.map(|leader| leader.id);
        // The thread that fell asleep last is the likeliest to find its memory in the cache.
        let mut latest = self.threads.keys().rev().copied();
        let follower = latest.find(|&id| {
            steps::count_one();
            Some(id) != leader
        });
        if let Some(id) = follower.or(leader.filter(|_| !leader_comes)) {
            self.notify_thread(id, wakes);
        } else if let Some((id, waker)) = self.futures.pop_first() {
            self.notified_futures.insert(id);
            wakes.push(Waiter::Task(waker));
        }
    }

    fn notify_thread(&mut self, id: WaiterId, wakes: &mut WakeList) {
        if let Some(parker) = self.threads.remove(&id) {
            self.notified_threads += 1;
            wakes.push(Waiter::Thread(parker));
        }
        if self.leader.is_some_and(|leader| leader.id == id) {
            self.leader = None;
        }
    }

    /// Restores invariant 2 if no thread is notified and the leader's time has not come.
    fn keep_time(
        &mut self,
        source: &mut dyn ReadySource,
        wakes: &mut WakeList,
        request: &mut Option<AlarmRequest>,
    ) {
        if self.waiting() == 0 {
            return;
        }
        let next = source.next_due();
        let thread = match self.leader {
            Some(leader) if leader.until <= next => return,
            Some(leader) => Some(leader.id),
            None if next == NEVER => return,
            None => self.threads.keys().next_back().copied(),
        };
        if let Some(id) = thread {
            // The thread looks, finds the next due time, and is enqueued as the leader.
            self.notify_thread(id, wakes);
            self.counts.rearms += 1;
        } else if self.alarm.at() > next {
            self.alarm.request(next, request);
        }
    }

    /// Returns whether an alarm is being set. The thread that sets it settles next.
    pub fn is_alarm_being_set(&self) -> bool {
        self.alarm.is_being_set()
    }

    /// Processes the outcome of setting an alarm. The section settles next, which may request
    /// another alarm.
    ///
    /// If there is no alarm and no thread that keeps the time, the queued futures are notified of
    /// the error.
    pub fn alarm_set(
        &mut self,
        request: &AlarmRequest,
        alarm: io::Result<Alarm>,
        wakes: &mut WakeList,
    ) -> Discarded {
        let error = match self.alarm.report(request, alarm) {
            Ok(discarded) => return discarded,
            Err(error) => error,
        };
        if self.leader.is_none() && self.notified_threads == 0 {
            while let Some((id, waker)) = self.futures.pop_first() {
                steps::count_one();
                self.failed.insert(id, Arc::clone(&error));
                wakes.push(Waiter::Task(waker));
            }
        }
        Discarded::error(error)
    }

    /// Called when an alarm has fired, perhaps before its time: its clock may have ended, which
    /// shows when the next alarm is set. Unless an alarm is [being set](Self::is_alarm_being_set),
    /// the section settles next.
    pub fn alarm_fired(&mut self) -> Discarded {
        self.alarm.fired()
    }

    /// Notifies all waiters: no entry will ever be ready again.
    pub fn notify_all(&mut self, wakes: &mut WakeList) {
        self.leader = None;
        while let Some((_, parker)) = self.threads.pop_first() {
            self.notified_threads += 1;
            wakes.push(Waiter::Thread(parker));
        }
        while let Some((_, waker)) = self.futures.pop_first() {
            wakes.push(Waiter::Task(waker));
        }
    }
}
