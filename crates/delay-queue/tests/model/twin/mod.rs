//! A queue, its waiters, and a plain model of its contents.
//!
//! All run on one thread, so each step includes all of its consequences: wakers poll in place,
//! panic, drop futures or push within the step. After it, these invariants hold:
//!
//! 1. A taken entry was due and in the queue, and no entry present during the whole step precedes
//!    it.
//! 2. If a waiter is not notified, at most as many entries are ready as notifications are
//!    pending. A notification is pending until its future is polled, or until no entry is ready
//!    for it: if there are more futures than entries, the notifications of those polled first are
//!    pending.
//! 3. If a waiter is not notified and an entry will fall due, an alarm is set for that time or
//!    earlier.
//! 4. The queue's statistics are correct, and there is no room while a pusher waits.
//! 5. There are at most as many notifications as entries that were given a time, plus
//!    notifications without effect.

pub(crate) mod clock;
pub(crate) mod program;
pub(crate) mod takers;

use std::collections::{BTreeMap, VecDeque};
use std::mem;
use std::num::NonZeroUsize;
use std::sync::Arc;
use std::task::Poll;
use std::time::Duration;

use delay_queue::{DelayQueue, Due, EntryId, Expired, PushError, TakeError};

use clock::TestClock;
use program::{Conduct, Op, Settings};
use takers::{Call, Event, Log, Pusher, Queue, Taker};

const SECOND: Duration = Duration::from_secs(1);

/// The time since a hundred seconds before the clock's start, and the number of the push.
type Key = (Duration, u64);
const BEFORE: Duration = Duration::from_secs(100);
const NEVER: Duration = Duration::MAX;

struct World {
    clock: TestClock,
    queue: Queue,
    bound: usize,
    log: Arc<Log>,
    takers: Vec<Arc<Taker>>,
    pushers: Vec<Pusher>,
    /// The ids of all entries that have ever been pushed.
    ids: Vec<EntryId>,
    twin: BTreeMap<Key, (u32, Option<EntryId>)>,
    /// The values of the waiting pushers, with their times.
    line: VecDeque<(u32, Duration)>,
    order: u64,
    next_value: u32,
    is_closed: bool,
    /// Entries that were given a time, and notifications that found no entry.
    calls_allowed: u64,
    /// All futures that were notified and have not looked, after the last step.
    called: Vec<Call>,
    /// The notified futures whose notification is pending.
    standing: Vec<Call>,
    /// Whether futures were notified for other reasons too: no alarm, or the end.
    called_otherwise: bool,
}

pub(crate) fn walk(settings: Settings, ops: &[Op]) {
    let mut world = World::new(settings.bound);
    for &op in ops {
        world.step(op);
        world.check();
    }
    world.end();
}

impl World {
    fn new(bound: usize) -> Self {
        let clock = TestClock::new();
        let queue = DelayQueue::builder().clock(clock.clone()).bound(bound);
        Self {
            queue: queue.build().expect("there is room for one"),
            clock,
            bound,
            log: Arc::default(),
            takers: Vec::new(),
            pushers: Vec::new(),
            ids: Vec::new(),
            twin: BTreeMap::new(),
            line: VecDeque::new(),
            order: 0,
            next_value: 0,
            is_closed: false,
            calls_allowed: 0,
            called: Vec::new(),
            standing: Vec::new(),
            called_otherwise: false,
        }
    }

    fn now(&self) -> Duration {
        BEFORE + self.clock.since_start()
    }

    fn step(&mut self, op: Op) {
        // The futures that waited before the step. The step may notify no later one before them.
        let before: Vec<Key> = self.twin.keys().copied().collect();
        let mut found = Vec::new();
        match op {
            Op::Push(delay) => {
                let delay = u32::from(delay) * SECOND;
                let due = self.now() + delay;
                self.push(due, |queue, value| queue.try_push(value, delay));
            }
            Op::PushPast(by) => {
                let by = u32::from(by) * SECOND;
                let due = BEFORE - by;
                let at = self.clock.start() - by;
                self.push(due, |queue, value| queue.try_push_at(value, at));
            }
            Op::PushNever => self.push(NEVER, |queue, value| queue.try_push(value, NEVER)),
            Op::PushAsync(delay) => {
                let value = self.value();
                let delay = u32::from(delay) * SECOND;
                self.pushers.push(Pusher::new(&self.queue, value, delay));
                self.poll_pusher(self.pushers.len() - 1);
            }
            Op::PollPush(pick) if !self.pushers.is_empty() => {
                self.poll_pusher(usize::from(pick) % self.pushers.len());
            }
            Op::DropPush(pick) if !self.pushers.is_empty() => {
                let at = usize::from(pick) % self.pushers.len();
                let pusher = self.pushers.swap_remove(at);
                if !pusher.is_woken() {
                    self.line.retain(|&(value, _)| value != pusher.value);
                }
            }
            Op::Wait(conduct) if self.takers.len() < 12 => self.wait(None, conduct),
            Op::WaitMany(most, conduct) if self.takers.len() < 12 => {
                self.wait(Some(nonzero(most)), conduct);
            }
            Op::Poll(pick) if !self.takers.is_empty() => {
                self.takers[usize::from(pick) % self.takers.len()].poll();
            }
            Op::Drop(pick) if !self.takers.is_empty() => {
                let at = usize::from(pick) % self.takers.len();
                self.takers.remove(at).drop_future();
            }
            Op::TryTake => match self.queue.try_take() {
                Ok(expired) => found.push(expired),
                Err(nothing) => self.check_nothing(&nothing),
            },
            Op::TryTakeMany(most) => {
                let most = nonzero(most);
                // Entries pushed during the call are not taken, because it is one critical section.
                let expected = self.ready().min(most.get());
                match self.queue.try_take_many(&mut found, most) {
                    Ok(count) => assert!(count == found.len() && count == expected),
                    Err(nothing) => self.check_nothing(&nothing),
                }
            }
            Op::Drain(max) => found = self.queue.drain_ready(usize::from(max)),
            Op::Cancel(pick) => self.cancel(pick),
            Op::Reset(pick, delay) => self.reset(pick, u32::from(delay) * SECOND),
            Op::ResetNever(pick) => self.reset(pick, NEVER),
            Op::Advance(by) => self.clock.advance(u32::from(by) * SECOND),
            Op::Clear => {
                self.twin.clear();
                self.queue.clear();
            }
            Op::Shrink => self.queue.shrink_to(0),
            Op::Reserve(additional) => {
                self.queue.reserve(additional.into());
                let room = self.bound.saturating_sub(self.twin.len());
                let reserved = self.twin.len() + room.min(additional.into());
                assert!(self.queue.capacity() >= reserved);
            }
            Op::Close => {
                assert_eq!(self.queue.close(), !mem::replace(&mut self.is_closed, true));
                self.line.clear();
            }
            Op::CloseNow => self.close_now(),
            Op::Fail(fails) => self.clock.fail(fails),
            Op::RingAtOnce(alarms) => self.clock.ring_at_once(u32::from(alarms)),
            Op::RingAll => self.clock.ring_all(),
            _ => {}
        }
        self.settle(&before, found);
    }

    fn wait(&mut self, batch: Option<NonZeroUsize>, conduct: Conduct) {
        let other = self.takers.last().cloned();
        let number = self.value();
        let taker = Taker::new(&self.queue, &self.log, number, batch, conduct, other);
        self.takers.push(Arc::clone(&taker));
        taker.poll();
    }

    /// Checks the reason why no entry could be taken at once.
    fn check_nothing(&self, nothing: &TakeError) {
        match nothing {
            TakeError::Empty => assert!(self.twin.is_empty() && !self.is_closed),
            TakeError::NotDue => assert!(self.ready() == 0 && !self.twin.is_empty()),
            TakeError::Closed => assert!(self.is_at_its_end()),
            other => panic!("{other:?} is no answer to a lookup"),
        }
    }

    fn value(&mut self) -> u32 {
        self.next_value += 1;
        self.next_value
    }

    fn key(&mut self, due: Duration) -> Key {
        self.order += 1;
        self.calls_allowed += 1;
        (due, self.order)
    }

    fn push(
        &mut self,
        due: Duration,
        push: impl FnOnce(&Queue, u32) -> Result<EntryId, PushError<u32>>,
    ) {
        let value = self.value();
        let has_room = self.twin.len() < self.bound;
        match push(&self.queue, value) {
            Ok(id) => {
                assert!(has_room && !self.is_closed);
                self.ids.push(id);
                let key = self.key(due);
                self.twin.insert(key, (value, Some(id)));
            }
            Err(PushError::Full(back)) => assert!(back == value && !has_room && !self.is_closed),
            Err(PushError::Closed(back)) => assert!(back == value && self.is_closed),
            Err(other) => panic!("{other:?} is no answer to a call that does not wait"),
        }
    }

    fn poll_pusher(&mut self, at: usize) {
        let has_room = self.twin.len() < self.bound;
        let pusher = &mut self.pushers[at];
        let (waited, was_woken) = (pusher.waits, pusher.is_woken());
        let (value, due) = (pusher.value, BEFORE + pusher.due);
        match pusher.poll() {
            Poll::Pending => {
                assert!(!was_woken, "it was woken for an answer");
                if !waited {
                    assert!(!has_room && !self.is_closed);
                    self.line.push_back((value, due));
                }
                return;
            }
            Poll::Ready(Ok(id)) => {
                self.ids.push(id);
                if waited {
                    let entry = self.twin.values_mut().find(|entry| entry.0 == value);
                    if let Some(entry) = entry {
                        entry.1 = Some(id);
                    }
                } else {
                    assert!(has_room && !self.is_closed);
                    let key = self.key(due);
                    self.twin.insert(key, (value, Some(id)));
                }
            }
            Poll::Ready(Err(error)) => {
                assert!(error.is_closed() && self.is_closed);
                assert_eq!(error.into_value(), value);
            }
        }
        self.pushers.swap_remove(at);
    }

    fn cancel(&mut self, pick: u8) {
        let Some(&id) = self.ids.get(usize::from(pick) % self.ids.len().max(1)) else {
            return;
        };
        // Removed before the call, because wakers may take other entries.
        let found = self.find(id);
        let value = found.and_then(|key| self.twin.remove(&key));
        assert_eq!(self.queue.cancel(id), value.map(|(value, _)| value));
    }

    fn reset(&mut self, pick: u8, delay: Duration) {
        let Some(&id) = self.ids.get(usize::from(pick) % self.ids.len().max(1)) else {
            return;
        };
        let found = self.find(id);
        if let Some(entry) = found.and_then(|key| self.twin.remove(&key)) {
            let due = self.now().checked_add(delay).unwrap_or(NEVER);
            let key = self.key(due);
            self.twin.insert(key, entry);
        }
        assert_eq!(self.queue.reset(id, delay), found.is_some());
    }

    fn find(&self, id: EntryId) -> Option<Key> {
        let mut entries = self.twin.iter();
        entries.find_map(|(key, entry)| (entry.1 == Some(id)).then_some(*key))
    }

    fn close_now(&mut self) {
        self.is_closed = true;
        self.line.clear();
        let expected: Vec<_> = mem::take(&mut self.twin).into_values().collect();
        let left = self.queue.close_now();
        assert!(
            left.iter()
                .map(|left| left.value)
                .eq(expected.iter().map(|entry| entry.0))
        );
    }

    /// Accounts for the consequences of the step.
    fn settle(&mut self, before: &[Key], taken: Vec<Expired<u32>>) {
        let events = mem::take(&mut *self.log.lock().expect("nothing panics with it"));
        let mut out: VecDeque<_> = taken.into();
        for event in events {
            match event {
                Event::Took(expired) => out.push_back(expired),
                Event::Pushed(value, id, due) => {
                    self.ids.push(id);
                    let key = self.key(BEFORE + due);
                    self.twin.insert(key, (value, Some(id)));
                }
                Event::Closed => assert!(self.is_closed),
                Event::NoAlarm => {}
                Event::Returned => self.calls_allowed += 1,
            }
        }
        let now = self.now();
        let mut last = None;
        let mut waited = 0;
        while let Some(expired) = out.pop_front() {
            self.admit();
            let found = self.twin.iter().find(|(_, entry)| {
                entry.0 == expired.value && entry.1.is_none_or(|id| id == expired.id)
            });
            let Some((&key, _)) = found else {
                // It was admitted in the place of an entry that was taken in the same step. Another
                // entry, pushed by a waker, may have taken its own place.
                out.push_back(expired);
                let front = self.line.front().map(|front| front.0);
                if out.iter().any(|out| Some(out.value) == front) {
                    self.admit_first();
                    continue;
                }
                waited += 1;
                assert!(waited <= out.len(), "{expired:?} was not there");
                continue;
            };
            waited = 0;
            assert!(key.0 <= now, "{expired:?} is early");
            assert_eq!(
                expired.due - self.clock.start(),
                key.0.saturating_sub(BEFORE)
            );
            self.twin.remove(&key);
            last = last.max(Some(key));
        }
        self.admit();
        let overtaken = before
            .iter()
            .find(|key| Some(**key) < last && self.twin.contains_key(key));
        assert!(overtaken.is_none(), "{overtaken:?} was overtaken");
    }

    /// Admits waiting pushers while there is room.
    fn admit(&mut self) {
        while !self.is_closed && self.twin.len() < self.bound {
            if !self.admit_first() {
                return;
            }
        }
    }

    fn admit_first(&mut self) -> bool {
        let Some((value, due)) = self.line.pop_front() else {
            return false;
        };
        let key = self.key(due);
        self.twin.insert(key, (value, None));
        true
    }

    fn ready(&self) -> usize {
        let now = self.now();
        self.twin.keys().take_while(|key| key.0 <= now).count()
    }

    fn next_due(&self) -> Option<Duration> {
        let now = self.now();
        let mut later = self.twin.keys().filter(|key| key.0 > now && key.0 != NEVER);
        later.next().map(|key| key.0)
    }

    fn due(&self, key: Key) -> Due {
        if key.0 == NEVER {
            return Due::Never;
        }
        Due::At(self.clock.start() - BEFORE + key.0)
    }

    /// Closed, and no entry can fall due.
    fn is_at_its_end(&self) -> bool {
        self.is_closed && self.twin.keys().all(|key| key.0 == NEVER)
    }

    /// The invariants after every step.
    fn check(&mut self) {
        let stats = self.queue.stats();
        assert_eq!(stats.len, self.twin.len());
        assert_eq!(stats.waiting_pushers, self.line.len());
        let first = self.twin.first_key_value();
        let next = self.queue.peek();
        assert_eq!(self.queue.peek_due(), next.map(|next| next.due));
        assert_eq!(
            next.map(|next| next.due),
            first.map(|(key, _)| self.due(*key))
        );
        // The ids of pushers that have not been polled since are unknown.
        if let Some(id) = first.and_then(|(_, entry)| entry.1) {
            assert_eq!(next.map(|next| next.id), Some(id));
        }
        // One of all ids, in turn.
        let pick = self.next_value as usize % self.ids.len().max(1);
        if let Some(&id) = self.ids.get(pick) {
            let key = self.find(id);
            assert_eq!(self.queue.due(id), key.map(|key| self.due(key)));
            assert_eq!(self.queue.contains(id), key.is_some());
        }

        let waiting = self
            .takers
            .iter()
            .filter(|taker| taker.is_waiting())
            .count();
        let called = self.takers.iter().filter(|taker| taker.is_called());
        let called: Vec<Call> = called.map(|taker| taker.call()).collect();
        let ready = self.ready();
        let is_new = |call: &Call| !self.called.contains(call);
        let stands = |call: &Call| self.standing.contains(call) || is_new(call);
        let standing: Vec<_> = called.iter().copied().filter(stands).collect();
        self.called_otherwise |= self.is_closed || self.clock.fails();
        let count = if self.called_otherwise {
            called.len()
        } else {
            standing.len()
        };
        assert_eq!(stats.waiting_takers, waiting);
        assert!(
            waiting == 0 || ready <= count,
            "{ready} entries are ready, {waiting} takers wait"
        );
        self.standing = standing[standing.len().saturating_sub(ready)..].to_vec();
        self.called = called;
        assert!(
            waiting == 0 || !self.is_at_its_end(),
            "{waiting} takers wait for nothing"
        );
        if waiting > 0
            && let Some(next) = self.next_due()
        {
            let alarm = self.clock.next_alarm().map(|alarm| BEFORE + alarm);
            assert!(
                alarm.is_some_and(|alarm| alarm <= next),
                "{alarm:?}, due {next:?}"
            );
        }
        assert!(stats.wakes <= self.calls_allowed, "{} calls", stats.wakes);
        self.takers.retain(|taker| !taker.is_over());
    }

    /// Checks that no entry is lost and nothing is left.
    fn end(mut self) {
        self.close_now();
        self.settle(&[], Vec::new());
        self.check();
        for taker in mem::take(&mut self.takers) {
            taker.poll();
            assert!(taker.is_over(), "it has its answer");
        }
        for mut pusher in mem::take(&mut self.pushers) {
            assert!(pusher.poll().is_ready(), "it has its answer");
        }
        assert_eq!(self.queue.len(), 0);
    }
}

fn nonzero(most: u8) -> NonZeroUsize {
    NonZeroUsize::new(most.into()).expect("a batch has room")
}
