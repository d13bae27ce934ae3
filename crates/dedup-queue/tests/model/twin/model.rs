//! The queue as sets and maps, with time in milliseconds.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use dedup_queue::{Added, Pending, Policy, Retried};

use super::lanes::Lanes;
use super::program::Settings;

pub(crate) struct Model {
    settings: Settings,
    now: u64,
    is_open: bool,
    ready: Lanes,
    held: BTreeSet<u8>,
    /// Held, and owed another delivery.
    dirty: BTreeSet<u8>,
    delayed: BTreeMap<u8, Later>,
    failures: BTreeMap<u8, u32>,
    /// The end of the delay after the last counted failure.
    backoff: BTreeMap<u8, u64>,
    /// Owed only a try after a failure, and no delivery for an add.
    retries: BTreeSet<u8>,
    /// Held and owed a delivery by yielding adds alone; or delayed, with such adds among its
    /// causes.
    yielding: BTreeSet<u8>,
    /// The failures of held keys when they were taken.
    taken: BTreeMap<u8, u32>,
    /// Neither held nor owed a delivery, but with failures: the time since then.
    resting: BTreeMap<u8, u64>,
    /// Held keys that were returned as leftovers: only their holder knows them.
    detached: BTreeSet<u8>,
    /// Numbers the pushes, so that equal times keep their order.
    order: u64,
}

#[derive(Clone, Copy)]
struct Later {
    due: u64,
    order: u64,
    first: u64,
}

pub(crate) struct Rest {
    pub(crate) ready: Vec<u8>,
    pub(crate) delayed: Vec<(u8, u64)>,
    pub(crate) held: Vec<(u8, Option<Pending>, Option<u64>)>,
}

impl Model {
    pub(crate) fn new(settings: Settings) -> Self {
        Self {
            settings,
            now: 0,
            is_open: true,
            ready: Lanes::default(),
            held: BTreeSet::new(),
            dirty: BTreeSet::new(),
            delayed: BTreeMap::new(),
            failures: BTreeMap::new(),
            backoff: BTreeMap::new(),
            retries: BTreeSet::new(),
            yielding: BTreeSet::new(),
            taken: BTreeMap::new(),
            resting: BTreeMap::new(),
            detached: BTreeSet::new(),
            order: 0,
        }
    }

    pub(crate) fn figures(&self) -> [usize; 5] {
        [
            self.ready.len(),
            self.held.len(),
            self.dirty.len(),
            self.delayed.len(),
            self.resting.len(),
        ]
    }

    pub(crate) fn low(&self) -> usize {
        self.ready.low()
    }

    /// Whether the key is held, its pending delivery, and whether that is low. `None` if the queue
    /// does not know the key, or only its failures.
    pub(crate) fn state(&self, key: u8) -> Option<(bool, Option<Pending>, bool)> {
        if self.detached.contains(&key) {
            return None;
        }
        let pending = if self.ready.contains(key) {
            Some(Pending::Ready)
        } else if self.dirty.contains(&key) {
            Some(Pending::Dirty)
        } else {
            self.delayed.contains_key(&key).then_some(Pending::Delayed)
        };
        let held = self.held.contains(&key);
        let low = pending.is_some() && self.ready.is_low(key);
        (held || pending.is_some()).then_some((held, pending, low))
    }

    pub(crate) fn is_closed(&self) -> bool {
        !self.is_open && self.ready.len() == 0 && self.dirty.is_empty()
    }

    pub(crate) fn failures(&self, key: u8) -> u32 {
        if self.detached.contains(&key) {
            return 0;
        }
        self.failures_of_held(key)
    }

    pub(crate) fn failures_of_held(&self, key: u8) -> u32 {
        self.failures.get(&key).copied().unwrap_or(0)
    }

    fn is_owed_now(&self, key: u8) -> bool {
        self.ready.contains(key) || self.dirty.contains(&key)
    }

    fn owe(&mut self, key: u8) {
        self.resting.remove(&key);
        if self.held.contains(&key) {
            self.dirty.insert(key);
        } else {
            self.ready.push(key);
        }
    }

    /// Records that no delivery of the key is pending and no worker holds it.
    fn rest(&mut self, key: u8) {
        if self.failures_of_held(key) > 0 {
            self.resting.insert(key, self.now);
        } else {
            self.failures.remove(&key);
        }
    }

    pub(crate) fn advance(&mut self, by: u64) {
        self.now += by;
        if self.is_open {
            let due = |later: &Later| later.due <= self.now;
            let mut falling: Vec<_> = self
                .delayed
                .iter()
                .filter(|(_, later)| due(later))
                .collect();
            falling.sort_by_key(|(_, later)| (later.due, later.order));
            let falling: Vec<u8> = falling.into_iter().map(|(&key, _)| key).collect();
            for key in falling {
                self.delayed.remove(&key);
                self.yielding.remove(&key);
                self.owe(key);
            }
        }
        self.expire();
    }

    pub(crate) fn expire(&mut self) {
        let Some(expiry) = self.settings.expiry else {
            return;
        };
        let (now, failures) = (self.now, &mut self.failures);
        self.resting.retain(|key, since| {
            let stays = *since + expiry > now;
            if !stays {
                failures.remove(key);
            }
            stays
        });
    }

    /// Requests a delivery in this lane.
    fn ask(&mut self, key: u8, low: bool) -> bool {
        let is_owed = self.is_owed(key);
        self.ready.ask(key, low, is_owed)
    }

    pub(crate) fn add(&mut self, key: u8, low: bool) -> Option<Added> {
        self.expire();
        if !self.is_open {
            return None;
        }
        let moved_up = self.ask(key, low);
        self.retries.remove(&key);
        self.yielding.remove(&key);
        Some(if moved_up {
            Added::Moved
        } else if self.is_owed_now(key) {
            Added::Merged
        } else {
            let added = self
                .delayed
                .remove(&key)
                .map_or(Added::New, |_| Added::Moved);
            self.owe(key);
            added
        })
    }

    pub(crate) fn add_after(&mut self, key: u8, delay: u64, low: bool) -> Option<Added> {
        self.expire();
        self.is_open.then(|| {
            let moved_up = self.ask(key, low);
            self.retries.remove(&key);
            if self.is_owed_now(key) {
                self.yielding.remove(&key);
            }
            let added = self.owe_later(key, self.now + delay, self.settings.policy);
            if moved_up { Added::Moved } else { added }
        })
    }

    fn backoff(&self, key: u8) -> u64 {
        match self.failures_of_held(key) {
            0 => 0,
            _ => self.backoff.get(&key).copied().unwrap_or(0),
        }
    }

    pub(crate) fn add_after_backoff(&mut self, key: u8, low: bool) -> Option<Added> {
        self.expire();
        if !self.is_open {
            return None;
        }
        if !self.held.contains(&key) {
            let due = self.backoff(key);
            if due <= self.now {
                return self.add(key, low);
            }
            self.retries.remove(&key);
            let moved_up = self.ask(key, low);
            let added = self.owe_later(key, due, Policy::Earliest);
            return Some(if moved_up { Added::Moved } else { added });
        }
        self.ask(key, low);
        if self.dirty.contains(&key) {
            return Some(Added::Merged);
        }
        self.retries.remove(&key);
        let is_first = self.yielding.insert(key);
        Some(if !self.delayed.contains_key(&key) {
            self.dirty.insert(key);
            Added::New
        } else if is_first {
            Added::Moved
        } else {
            Added::Merged
        })
    }

    /// Releases the key, which is still owed its deliveries.
    fn yield_to_backoff(&mut self, key: u8) {
        if !self.yielding.remove(&key) || !self.is_owed(key) {
            return;
        }
        let due = self.backoff(key);
        if due > self.now {
            self.dirty.remove(&key);
            self.owe_later(key, due, Policy::Earliest);
        } else if self.is_open && self.delayed.remove(&key).is_some() {
            self.dirty.insert(key);
        }
    }

    fn is_owed(&self, key: u8) -> bool {
        self.is_owed_now(key) || self.delayed.contains_key(&key)
    }

    /// Schedules another try.
    fn owe_retry(&mut self, key: u8, due: u64) {
        if !self.is_owed(key) {
            self.retries.insert(key);
        }
        self.owe_later(key, due, Policy::Earliest);
    }

    /// Removes a try that is owed only for failures, and forgets the failures.
    fn give_up(&mut self, key: u8) {
        if self.is_owed(key) && self.retries.remove(&key) {
            self.delayed.remove(&key);
            self.dirty.remove(&key);
            self.ready.remove(key);
        }
        self.failures.remove(&key);
        self.resting.remove(&key);
    }

    fn owe_later(&mut self, key: u8, due: u64, policy: Policy) -> Added {
        if self.is_owed_now(key) {
            return Added::Merged;
        }
        let before = self.delayed.get(&key).copied();
        let first = before.map_or(self.now, |before| before.first);
        let due = match (policy, before) {
            (Policy::Earliest, Some(before)) => due.min(before.due),
            (Policy::Latest, Some(before)) => due.max(before.due),
            (Policy::DebounceMaxWait(wait), _) => {
                due.min(first + u64::try_from(wait.as_millis()).unwrap_or(u64::MAX))
            }
            _ => due,
        };
        if before.is_some_and(|before| before.due == due) {
            return Added::Merged;
        }
        self.delayed.remove(&key);
        if self.is_open && due <= self.now {
            self.owe(key);
        } else {
            self.order += 1;
            let order = self.order;
            self.delayed.insert(key, Later { due, order, first });
            self.resting.remove(&key);
        }
        before.map_or(Added::New, |_| Added::Moved)
    }

    /// The delay after the next failure, and the number of failures then. `None`: the key is given
    /// up.
    fn plan(&self, failures: u32) -> (Option<u64>, u32) {
        let failures = failures + 1;
        if self
            .settings
            .max_attempts
            .is_some_and(|most| failures >= most.get())
        {
            return (None, failures);
        }
        let factor = 1u64.checked_shl(failures - 1).unwrap_or(u64::MAX);
        let delay = self
            .settings
            .base
            .saturating_mul(factor)
            .min(self.settings.max);
        (Some(delay), failures)
    }

    pub(crate) fn add_rate_limited(&mut self, key: u8) -> Option<Retried> {
        self.expire();
        if !self.is_open {
            return None;
        }
        if !self.held.contains(&key) {
            let backs_off = self.backoff(key) > self.now;
            if self.ready.contains(key) {
                return Some(Retried::Ready);
            }
            if let (true, Some(later)) = (backs_off, self.delayed.get(&key)) {
                return Some(Retried::After(Duration::from_millis(later.due - self.now)));
            }
        }
        let (delay, failures) = self.plan(self.failures(key));
        let Some(delay) = delay else {
            if !self.detached.contains(&key) {
                self.give_up(key);
            }
            return Some(Retried::GivenUp);
        };
        self.failures.insert(key, failures);
        self.backoff.insert(key, self.now + delay);
        self.ask(key, false);
        self.owe_retry(key, self.now + delay);
        Some(if self.is_owed_now(key) {
            Retried::Ready
        } else {
            Retried::After(Duration::from_millis(delay))
        })
    }

    pub(crate) fn get(&mut self) -> Option<u8> {
        let key = self.ready.take()?;
        self.held.insert(key);
        self.taken.insert(key, self.failures_of_held(key));
        Some(key)
    }

    /// Releases the key, to be tried again at that time or not. Returns whether it is ready at
    /// once.
    fn let_go(&mut self, key: u8, again: Option<u64>, is_retry: bool) -> bool {
        self.expire();
        self.held.remove(&key);
        self.detached.remove(&key);
        let low = self.ready.let_go(key);
        if again.is_some() {
            self.ask(key, low);
        }
        self.yield_to_backoff(key);
        if again.is_some() && !is_retry {
            // The worker requests it, in addition to deliveries that are already owed.
            self.retries.remove(&key);
        }
        if self.dirty.remove(&key) {
            self.ready.push(key);
        } else if let (Some(due), true) = (again, is_retry) {
            self.owe_retry(key, due);
        } else if let Some(due) = again {
            self.owe_later(key, due, Policy::Earliest);
        } else if !self.delayed.contains_key(&key) {
            self.rest(key);
        }
        self.ready.contains(key)
    }

    pub(crate) fn done(&mut self, key: u8) {
        self.let_go(key, None, false);
    }

    pub(crate) fn succeed(&mut self, key: u8) {
        self.failures.remove(&key);
        self.let_go(key, None, false);
    }

    pub(crate) fn retry(&mut self, key: u8, said: Option<u64>) -> Retried {
        let failures = self.failures_of_held(key);
        let backoff = self.backoff.get(&key).copied().unwrap_or(0);
        if failures > 0 && self.taken.get(&key) == Some(&failures) && backoff > self.now {
            // An early try: the key returns to its back-off, or to a later time that its worker
            // requests.
            let backoff = backoff.max(self.now + said.unwrap_or(0));
            self.backoff.insert(key, backoff);
            return self.again(key, backoff - self.now, true);
        }
        let (delay, failures) = self.plan(self.failures_of_held(key));
        let Some(delay) = delay else {
            self.give_up(key);
            self.succeed(key);
            return Retried::GivenUp;
        };
        let delay = said.unwrap_or(delay);
        self.failures.insert(key, failures);
        self.backoff.insert(key, self.now + delay);
        self.again(key, delay, true)
    }

    pub(crate) fn retry_after(&mut self, key: u8, delay: u64) -> Retried {
        self.again(key, delay, false)
    }

    fn again(&mut self, key: u8, delay: u64, is_retry: bool) -> Retried {
        if self.let_go(key, Some(self.now + delay), is_retry) {
            Retried::Ready
        } else if self.is_open {
            Retried::After(Duration::from_millis(delay))
        } else {
            Retried::Left
        }
    }

    pub(crate) fn forget_held(&mut self, key: u8) {
        self.failures.remove(&key);
    }

    pub(crate) fn forget(&mut self, key: u8) {
        if !self.detached.contains(&key) {
            self.failures.remove(&key);
            self.resting.remove(&key);
        }
    }

    pub(crate) fn remove(&mut self, key: u8, delayed_only: bool) -> Option<Pending> {
        self.expire();
        if self.detached.contains(&key) {
            return None;
        }
        let pending = if self.delayed.remove(&key).is_some() {
            self.yielding.remove(&key);
            Pending::Delayed
        } else if delayed_only {
            return None;
        } else if self.dirty.remove(&key) {
            self.yielding.remove(&key);
            Pending::Dirty
        } else {
            if !self.ready.remove(key) {
                return None;
            }
            Pending::Ready
        };
        if !self.held.contains(&key) {
            self.rest(key);
        }
        Some(pending)
    }

    pub(crate) fn shut_down(&mut self) -> bool {
        std::mem::replace(&mut self.is_open, false)
    }

    /// Whether no key was ready or held, and the remaining keys.
    pub(crate) fn drain(&mut self) -> (bool, Rest) {
        self.expire();
        let finished = self.ready.len() == 0 && self.held.is_empty();
        self.is_open = false;
        let mut delayed = std::mem::take(&mut self.delayed);
        let known = self.held.difference(&self.detached).copied();
        let held = known.collect::<Vec<_>>().into_iter().map(|key| {
            let due = delayed.remove(&key).map(|later| later.due);
            let dirty = self.dirty.remove(&key).then_some(Pending::Dirty);
            (key, dirty.or(due.map(|_| Pending::Delayed)), due)
        });
        let held = held.collect();
        self.detached.clone_from(&self.held);
        self.yielding.clear();
        let ready = self.ready.take_all();
        let mut delayed: Vec<_> = delayed.into_iter().collect();
        delayed.sort_by_key(|(_, later)| (later.due, later.order));
        let delayed: Vec<_> = delayed
            .into_iter()
            .map(|(key, later)| (key, later.due))
            .collect();
        for key in ready.iter().chain(delayed.iter().map(|(key, _)| key)) {
            self.failures.remove(key);
        }
        (
            finished,
            Rest {
                ready,
                delayed,
                held,
            },
        )
    }
}
