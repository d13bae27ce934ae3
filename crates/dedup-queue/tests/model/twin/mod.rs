//! A queue and its model, compared step by step.
//!
//! Shared with the fuzz target of the same name.

mod lanes;
mod model;
pub(crate) mod program;

use std::collections::BTreeMap;
use std::hash::RandomState;
use std::time::{Duration, Instant};

use dedup_queue::{
    Clock, DedupRetryQueue, Exponential, GetError, Held, ManualClock, Outcome, Retrying,
};

use model::Model;
use program::{KEYS, Op, Settings};

type Queue = DedupRetryQueue<u8, RandomState, ManualClock>;

/// Carries out each step on both, and compares their answers and states.
pub(crate) fn walk(settings: Settings, ops: &[Op]) {
    let clock = ManualClock::new();
    let limiter = Exponential::new(millis(settings.base), millis(settings.max));
    let mut builder = DedupRetryQueue::<u8>::builder()
        .clock(clock.clone())
        .policy(settings.policy)
        .limiter(limiter)
        .failure_expiry(settings.expiry.map(millis));
    if let Some(most) = settings.max_attempts {
        builder = builder.max_attempts(most);
    }
    let mut pair = Pair {
        queue: builder.build(),
        start: clock.now(),
        clock,
        model: Model::new(settings),
        held: Vec::new(),
    };
    for op in ops {
        pair.step(*op);
        pair.compare();
    }
    pair.finish();
}

struct Pair {
    queue: Queue,
    clock: ManualClock,
    start: Instant,
    model: Model,
    held: Vec<Held<'static, u8, Retrying>>,
}

impl Pair {
    fn step(&mut self, op: Op) {
        let (queue, model) = (&self.queue, &mut self.model);
        match op {
            Op::Add(key, low) => {
                let added = if low {
                    queue.low_priority().add(key)
                } else {
                    queue.add(key)
                };
                assert_eq!(added.ok(), model.add(key, low));
            }
            Op::AddAfter(key, delay, low) => {
                let after = millis(delay);
                let added = if low {
                    queue.low_priority().add_after(key, after)
                } else {
                    queue.add_after(key, after)
                };
                assert_eq!(added.ok(), model.add_after(key, delay, low));
            }
            Op::AddAfterBackoff(key, low) => {
                let added = if low {
                    queue.low_priority().add_after_backoff(key)
                } else {
                    queue.add_after_backoff(key)
                };
                assert_eq!(added.ok(), model.add_after_backoff(key, low));
            }
            Op::AddRateLimited(key) => {
                assert_eq!(
                    queue.add_rate_limited(key).ok(),
                    model.add_rate_limited(key)
                );
            }
            Op::Get => self.get(),
            Op::GetBatch(most) => self.get_batch(most),
            Op::Done(which) => {
                if let Some(held) = self.pick(which) {
                    self.model.done(*held);
                    held.done();
                }
            }
            Op::Succeed(which) => {
                if let Some(held) = self.pick(which) {
                    self.model.succeed(*held);
                    held.succeed();
                }
            }
            Op::Retry(which) => {
                if let Some(held) = self.pick(which) {
                    let expected = self.model.retry(*held, None);
                    assert_eq!(held.retry(), expected);
                }
            }
            Op::RetryFailedAfter(which, delay) => {
                if let Some(held) = self.pick(which) {
                    let expected = self.model.retry(*held, Some(delay));
                    assert_eq!(held.retry_failed_after(millis(delay)), expected);
                }
            }
            Op::RetryAfter(which, delay) => {
                if let Some(held) = self.pick(which) {
                    let expected = self.model.retry_after(*held, delay);
                    assert_eq!(held.retry_after(millis(delay)), expected);
                }
            }
            Op::ForgetHeld(which) => {
                if let Some(held) = self.pick(which) {
                    assert_eq!(held.failures(), self.model.failures_of_held(*held));
                    self.model.forget_held(*held);
                    held.forget();
                    self.held.push(held);
                }
            }
            Op::Forget(key) => {
                model.forget(key);
                queue.forget(&key);
            }
            Op::Remove(key) => assert_eq!(queue.remove(&key), model.remove(key, false)),
            Op::RemoveDelayed(key) => {
                assert_eq!(
                    queue.remove_delayed(&key),
                    model.remove(key, true).is_some()
                );
            }
            Op::Advance(by) => {
                self.clock.advance(millis(by));
                model.advance(by);
            }
            Op::ShutDown => assert_eq!(queue.shut_down(), model.shut_down()),
            Op::Drain => self.drain(),
            Op::Shrink => queue.shrink_to_fit(),
        }
    }

    fn get(&mut self) {
        match self.queue.try_get() {
            Ok(held) => {
                assert_eq!(Some(*held), self.model.get());
                self.held.push(held.into_owned());
            }
            Err(GetError::Empty) => {
                assert_eq!((None, false), (self.model.get(), self.model.is_closed()));
            }
            Err(GetError::Closed) => assert!(self.model.is_closed()),
            Err(other) => unreachable!("{other}"),
        }
    }

    fn get_batch(&mut self, most: std::num::NonZeroUsize) {
        let batch = self.queue.try_get_batch(most).unwrap_or_default();
        for held in &batch {
            assert_eq!(Some(**held), self.model.get());
        }
        if batch.len() < most.get() {
            assert_eq!(self.model.get(), None);
        }
        self.held.extend(batch.into_iter().map(Held::into_owned));
    }

    fn pick(&mut self, which: u8) -> Option<Held<'static, u8, Retrying>> {
        let index = usize::from(which).checked_rem(self.held.len())?;
        Some(self.held.swap_remove(index))
    }

    fn drain(&mut self) {
        let drained = self.queue.drain_timeout(self.clock.now());
        let left = drained.leftovers.expect("no drain came before");
        let (finished, expected) = self.model.drain();
        assert_eq!(drained.outcome == Outcome::Finished, finished);
        assert_eq!(left.ready, expected.ready);
        let since = |due: Option<Instant>| due.map(|due| due - self.start);
        let delayed: Vec<_> = left
            .delayed
            .iter()
            .map(|it| (it.key, since(it.due)))
            .collect();
        let expected_delayed = expected
            .delayed
            .into_iter()
            .map(|(key, due)| (key, Some(millis(due))));
        assert_eq!(delayed, expected_delayed.collect::<Vec<_>>());
        let mut held: Vec<_> = left
            .held
            .iter()
            .map(|it| (it.key, it.pending, since(it.due)))
            .collect();
        held.sort_by_key(|held| held.0);
        let expected_held = expected
            .held
            .into_iter()
            .map(|(key, pending, due)| (key, pending, due.map(millis)));
        assert_eq!(held, expected_held.collect::<Vec<_>>());
    }

    fn compare(&mut self) {
        self.model.expire(); // As each call does.
        let stats = self.queue.stats();
        let here = [
            stats.ready,
            stats.held,
            stats.dirty,
            stats.delayed,
            stats.resting,
        ];
        assert_eq!(
            here,
            self.model.figures(),
            "ready, held, dirty, delayed, resting"
        );
        assert_eq!(stats.low, self.model.low(), "ready, and low");
        let mut listed = BTreeMap::new();
        for entry in self.queue.entries() {
            if entry.held || entry.pending.is_some() {
                listed.insert(entry.key, (entry.held, entry.pending, entry.low));
            }
        }
        let expected = (0..KEYS).filter_map(|key| Some((key, self.model.state(key)?)));
        assert_eq!(listed, expected.collect());
        for key in 0..KEYS {
            assert_eq!(
                self.queue.failures(&key),
                self.model.failures(key),
                "of {key}"
            );
        }
    }

    /// Every key is delivered or left over, and no finished key is remembered.
    fn finish(mut self) {
        while let Some(held) = self.pick(0) {
            self.model.succeed(*held);
            held.succeed();
        }
        self.compare();
        self.drain();
        for key in 0..KEYS {
            self.queue.forget(&key);
        }
        let stats = self.queue.stats();
        let here = [
            stats.ready,
            stats.held,
            stats.dirty,
            stats.delayed,
            stats.resting,
        ];
        assert_eq!(here, [0; 5]);
        self.queue.shrink_to_fit();
        assert_eq!(self.queue.capacity(), 0);
    }
}

fn millis(n: u64) -> Duration {
    Duration::from_millis(n)
}
