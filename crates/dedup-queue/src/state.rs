//! The state that the queue's lock protects: the keys, the waiters for a key, and the drains.
//!
//! A section changes the keys; [`State::settle`] then determines the waiters that the change
//! concerns.
//!
//! # Invariants, whenever the lock is free
//! 1. Those of `keys/mod.rs`, and those of [`Waiters`].
//! 2. If the queue is closed, no waiter is queued.
//! 3. While a drain waits, a key is ready or held; while a `wait_idle` waits, a key is ready, held
//!    or delayed.

use delay_queue::wait::{self, AlarmRequest, Unavailable, Waiter, Waiters, WakeList};

use crate::drain_waiters::{Answers, DrainId, DrainWaiters};
use crate::keys::{Keys, MetricChanges, Phase, Settings};
use crate::policy::Outcome;
use crate::records::Garbage;

pub(crate) struct State<K> {
    pub(crate) keys: Keys<K>,
    pub(crate) waiters: Waiters,
    pub(crate) drain_waiters: DrainWaiters<K>,
    /// Waiters for the moment when no key is pending or held.
    pub(crate) idle_waiters: Answers,
    answered: Vec<Waiter>,
}

/// The deferred effects of a section.
///
/// Not behind a pointer, unlike the delay queue's: a section of a busy queue creates none of these,
/// because it has nothing to settle.
#[must_use = "waiters sleep until the effects are run"]
pub(crate) struct Effects<K> {
    pub(crate) wakes: WakeList,
    alarm: Option<AlarmRequest>,
    pub(crate) metric_changes: MetricChanges,
    pub(crate) garbage: Vec<Garbage<K>>,
}

impl<K> Effects<K> {
    /// Moves the metric changes and keys to drop out of `keys`.
    fn take_user_code(&mut self, keys: &mut Keys<K>) {
        self.metric_changes += std::mem::take(&mut keys.metric_changes);
        let garbage = std::mem::take(&mut keys.garbage); // Takes the allocation too.
        if self.garbage.is_empty() {
            self.garbage = garbage;
        } else {
            self.garbage.extend(garbage);
        }
    }
}

impl<K> Default for Effects<K> {
    #[inline]
    fn default() -> Self {
        Self {
            wakes: WakeList::new(),
            alarm: None,
            metric_changes: MetricChanges::default(),
            garbage: Vec::new(),
        }
    }
}

impl<K> wait::Effects for Effects<K> {
    #[inline]
    fn is_empty(&self) -> bool {
        self.wakes.is_empty()
            && self.alarm.is_none()
            && self.garbage.is_empty()
            && self.metric_changes == MetricChanges::default()
    }

    fn wakes(&mut self) -> &mut WakeList {
        &mut self.wakes
    }

    fn take_alarm_request(&mut self) -> Option<AlarmRequest> {
        self.alarm.take()
    }

    fn append(&mut self, later: Self) {
        self.wakes.append(later.wakes);
        self.metric_changes += later.metric_changes;
        self.garbage.extend(later.garbage);
    }
}

impl<K> State<K> {
    pub(crate) fn new(settings: Settings) -> Self {
        Self {
            keys: Keys::new(settings),
            waiters: Waiters::new(),
            drain_waiters: DrainWaiters::new(),
            idle_waiters: Answers::default(),
            answered: Vec::new(),
        }
    }

    /// Returns whether there is nothing to settle. One word, because each section of a busy queue
    /// ends with this check.
    #[inline]
    pub(crate) fn is_settled(&self) -> bool {
        self.keys.is_settled()
    }

    /// Takes keys by `take`, or returns why it found none.
    pub(crate) fn look<T>(
        &mut self,
        mut take: impl FnMut(&mut Keys<K>) -> Option<T>,
    ) -> Result<T, Unavailable> {
        match take(&mut self.keys) {
            Some(taken) => Ok(taken),
            None if self.keys.is_closed() => Err(Unavailable::Closed),
            None => Err(Unavailable::Empty),
        }
    }

    pub(crate) fn refuse_adds(&mut self) {
        self.keys.mark_unsettled();
        self.keys.shut_down();
    }

    pub(crate) fn begin_drain(&mut self, waiter: Waiter) -> DrainId {
        self.refuse_adds();
        self.drain_waiters.enter(waiter)
    }

    /// Enqueues a wait until no key is pending or held.
    pub(crate) fn begin_idle_wait(&mut self, waiter: Waiter) -> DrainId {
        self.keys.mark_unsettled();
        self.idle_waiters.enter(waiter)
    }

    /// Determines the effects of a section: waiters to wake, metrics to report, keys to drop.
    pub(crate) fn settle(&mut self, effects: &mut Effects<K>) {
        if self.drain_waiters.len() > 0 && self.keys.is_drained() {
            self.end_drains(Outcome::Finished);
        }
        if self.idle_waiters.waiting() > 0 && self.keys.is_idle() {
            let (_, mut waiters) = self.idle_waiters.end(Outcome::Finished);
            self.answered.append(&mut waiters);
        }
        if self.waiters.waiting() > 0 {
            if self.keys.is_closed() {
                self.waiters.notify_all(&mut effects.wakes);
            } else {
                let mut view = self.keys.waiters_view();
                self.waiters
                    .settle(&mut view, &mut effects.wakes, &mut effects.alarm);
            }
        }
        for waiter in std::mem::take(&mut self.answered) {
            effects.wakes.push(waiter);
        }
        let watched = self.waiters.waiting() > 0
            || self.drain_waiters.len() > 0
            || self.idle_waiters.waiting() > 0;
        self.keys.settled(watched);
        if self.keys.has_user_code() {
            effects.take_user_code(&mut self.keys);
        }
    }

    pub(crate) fn shut_down(&mut self) {
        self.refuse_adds();
        self.end_drains(Outcome::ShutDown);
    }

    /// Ends all drains. Unless the reason is a shut-down, also stops delivery.
    pub(crate) fn end_drains(&mut self, outcome: Outcome) {
        self.keys.mark_unsettled();
        let rest = (outcome != Outcome::ShutDown).then(|| self.keys.stop());
        self.answered
            .append(&mut self.drain_waiters.end(outcome, rest));
    }

    pub(crate) fn is_open(&self) -> bool {
        self.keys.phase() == Phase::Open
    }
}
