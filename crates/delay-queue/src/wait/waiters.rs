//! The waiters of one queue, as arithmetic under its lock: which of them to notify for what is ready,
//! and which of them leads.
//!
//! It wakes nothing and reads no clock. The waiters to wake go into a [`WakeList`], the alarm to set
//! into an [`AlarmRequest`]; the [driver](super::Driver) acts on both when the lock is free.
//!
//! # Words
//! - *Ready*: can be taken now. *Due*: will be ready at a time.
//! - *Notified*: dequeued and woken, to look. A notified thread is sure to look. A notified future
//!   may never be polled, so its notification counts only as long as something is ready for it:
//!   when that has been taken, the next ready thing is for another waiter.
//! - *The leader*: the waiting thread that sleeps no longer than until the next thing falls due. The
//!   others sleep without a time-out (the leader-follower pattern of Java's `DelayQueue`).
//!
//! # Invariants, whenever the lock is free
//! While a waiter is queued, that is, waits and is not notified:
//! 1. as many waiters are notified, or wake by themselves, as things are ready, or all are;
//! 2. if something will fall due, then a thread has been notified, or the leader sleeps no longer
//!    than until then, or no thread waits and the alarm is set, or being set, for no later.
//!
//! Reading the time makes things ready. That breaks neither: by the second, the leader or the alarm
//! is about to wake, and settles.

use std::collections::{BTreeMap, BTreeSet};
use std::io;
use std::sync::Arc;
use std::task::Waker;

use sync_shim::waiter::{Waiter, WakeList};
use sync_shim::{Alarm, Parker};

use super::alarm::{AlarmRequest, Discarded, QueueAlarm};
use crate::NEVER;
use crate::heap::steps;

/// What a queue has to give, as far as its waiters must know.
pub trait ReadySource {
    /// The latest time the queue knows of.
    fn now(&self) -> u64;

    /// How many things are ready at that time. Counting stops at `limit`.
    fn ready(&mut self, limit: usize) -> usize;

    /// When the next that is not ready falls due; [`NEVER`] if none does.
    fn next_due(&mut self) -> u64;
}

/// Stands for one waiter, from the section that enqueues it until the one that dequeues it.
pub type WaiterId = u64;

/// The consumers of one queue that found nothing to take.
#[derive(Debug, Default)]
#[doc(alias = "Waitlist")]
pub struct Waiters {
    /// Queued: waiting, not notified.
    threads: BTreeMap<WaiterId, Parker>,
    /// Queued: waiting, not notified.
    futures: BTreeMap<WaiterId, Waker>,
    /// Notified that no alarm could be set for them.
    failed: BTreeMap<WaiterId, Arc<io::Error>>,
    next_id: WaiterId,
    /// Notified, and not back yet.
    notified_threads: usize,
    /// Notified for something that is ready, and not back yet.
    notified_futures: BTreeSet<WaiterId>,
    leader: Option<Leader>,
    alarm: QueueAlarm,
    counts: WakeCounts,
}

/// A queued thread that sleeps no longer than until `until`.
#[derive(Clone, Copy, Debug)]
struct Leader {
    id: WaiterId,
    until: u64,
}

/// How often waiters were notified, and for what.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct WakeCounts {
    /// Because something was ready for them. Of those that count, at most one for each ready thing;
    /// one is repeated if the future that was notified leaves without taking anything.
    pub wakes: u64,
    /// To lead, or to lead for an earlier time.
    pub rearms: u64,
}

/// The state of a future's wait when it was dequeued.
#[derive(Debug)]
pub enum Left {
    /// It had been notified.
    Notified,
    /// It had not. The waker is to be dropped when the lock is free.
    Waiting(Waker),
    /// It was notified because the alarm could not be set.
    NoAlarm(Arc<io::Error>),
}

impl Waiters {
    /// No waiters.
    pub fn new() -> Self {
        Self::default()
    }

    /// How many are queued. Notified ones are not.
    #[inline]
    pub fn waiting(&self) -> usize {
        self.threads.len() + self.futures.len()
    }

    /// Whether nothing of any waiter is left.
    #[cfg(all(test, not(anthill_loom)))]
    pub(crate) fn is_forgotten(&self) -> bool {
        self.waiting() == 0
            && self.failed.is_empty()
            && self.notified_threads == 0
            && self.notified_futures.is_empty()
            && self.leader.is_none()
    }

    /// How often waiters were notified so far.
    pub fn counts(&self) -> WakeCounts {
        self.counts
    }

    /// Whether something new that falls due at `due` is a reason to [`settle`](Waiters::settle).
    #[inline]
    pub fn concerns(&self, due: u64, now: u64) -> bool {
        self.waiting() > 0 && (due <= now || due < self.kept_until())
    }

    /// Something new that falls due at this time or later changes nothing for the waiters.
    fn kept_until(&self) -> u64 {
        match self.leader {
            // A notified thread is on its way: it looks, and leads for the new time itself.
            _ if self.notified_threads > 0 => 0,
            Some(leader) => leader.until,
            None if self.threads.is_empty() => self.alarm.at(),
            None => NEVER,
        }
    }

    /// A thread that found nothing ready is about to sleep. It leads if a time comes with the
    /// answer, and sleeps no longer than until then. The section must settle, which takes back
    /// notifications beyond what is ready.
    pub fn enqueue_thread(&mut self, parker: Parker, next_due: u64) -> (WaiterId, Option<u64>) {
        let id = self.new_id();
        self.threads.insert(id, parker);
        let until = next_due;
        // If the current leader sleeps past `until`, an earlier push relied on this thread, which
        // was notified then, to take over.
        if next_due == NEVER || self.leader.is_some_and(|leader| leader.until <= until) {
            return (id, None);
        }
        self.leader = Some(Leader { id, until });
        (id, Some(until))
    }

    /// The thread is awake, notified or not. The section must settle: the thread may have been the
    /// leader.
    pub fn dequeue_thread(&mut self, id: WaiterId) {
        if self.threads.remove(&id).is_none() {
            self.notified_threads -= 1;
        } else if self.leader.is_some_and(|leader| leader.id == id) {
            self.leader = None;
        }
    }

    /// A future that found nothing ready returns `Pending`. With the id it had `before`, it is
    /// enqueued in its old place, before all that came after it. The section must settle, as for a
    /// thread.
    pub fn enqueue_future(&mut self, waker: Waker, before: Option<WaiterId>) -> WaiterId {
        let id = before.unwrap_or_else(|| self.new_id());
        self.futures.insert(id, waker);
        id
    }

    /// The future is polled again, or dropped. The section must settle: what the future was
    /// notified of is for the next.
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

    /// Restores the invariants after anything has changed. Notified waiters go into `wakes`, an
    /// alarm to be set into `request`. Compiled once for all queues.
    pub fn settle(
        &mut self,
        source: &mut dyn ReadySource,
        wakes: &mut WakeList,
        request: &mut Option<AlarmRequest>,
    ) {
        if self.waiting() == 0 {
            return;
        }
        // A leader whose time has come is awake, or wakes without being notified.
        let leader_comes = self
            .leader
            .is_some_and(|leader| leader.until <= source.now());
        let threads_coming = self.notified_threads + usize::from(leader_comes);
        let queued = self.waiting() - usize::from(leader_comes);
        let ready = source.ready(threads_coming + self.notified_futures.len() + queued);
        // What a future was notified of has been taken: the next ready thing is for another.
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
            return; // Invariant 2: that thread settles when it has looked.
        }
        self.keep_time(source, wakes, request);
    }

    /// Notifies one: a thread first, because it is sure to look; among threads a follower, so that
    /// the lead need not be passed on.
    fn notify_one(&mut self, leader_comes: bool, wakes: &mut WakeList) {
        let leader = self.leader.map(|leader| leader.id);
        // The latest to fall asleep is the likeliest to find its memory in the cache.
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

    /// Invariant 2, where no thread is notified and the leader's time has not come.
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
            // It looks, finds the next due time, and is enqueued as the leader.
            self.notify_thread(id, wakes);
            self.counts.rearms += 1;
        } else if self.alarm.at() > next {
            self.alarm.request(next, request);
        }
    }

    /// Whether an alarm is being set. The party that sets it settles next.
    pub fn is_alarm_being_set(&self) -> bool {
        self.alarm.is_being_set()
    }

    /// The outcome of setting an alarm. The section settles next, which may ask for another one.
    ///
    /// If there is no alarm, and no thread that keeps the time, the queued futures are notified
    /// of the error.
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

    /// An alarm has fired, perhaps before its time: its clock may have come to an end, which the
    /// outcome of setting the next one will show. Unless an alarm is
    /// [being set](Self::is_alarm_being_set), the section settles next.
    pub fn alarm_fired(&mut self) -> Discarded {
        self.alarm.fired()
    }

    /// Nothing will ever be ready again: all waiters are notified.
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
