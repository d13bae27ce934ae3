//! Number of jobs that a worker claims at a time, from the time that its handlers take for them.

use std::num::NonZeroUsize;
use std::time::Duration;
use std::time::Instant;

use crate::engine::calls::{Refill, Wanted};
use crate::engine::config::{MOST_JOBS, SHORTEST_PATIENCE};
use crate::engine::shared::Shared;

/// Maximum size of the payloads that are claimed at a time, if the worker chooses the number of jobs.
const MOST_BYTES: usize = 1 << 20;

pub(crate) struct Pace {
    fixed: Option<NonZeroUsize>,
    last: usize,
    /// Recent time per job, in nanoseconds. `None` before the first has ended.
    took: Option<u64>,
    /// Recent maximum size of a payload, in bytes.
    size: usize,
}

impl Pace {
    pub(crate) fn new(fixed: Option<NonZeroUsize>) -> Self {
        Self {
            fixed,
            last: 0,
            took: None,
            size: 0,
        }
    }

    /// A job of a handler that runs one at a time. A slow job counts by an eighth, so that it takes several to
    /// make the batches short.
    pub(crate) fn learn(&mut self, took: Duration, size: usize) {
        let took = u64::try_from(took.as_nanos()).unwrap_or(u64::MAX / 8);
        self.took = Some(match self.took {
            None => took,
            Some(before) => before - before / 8 + took / 8,
        });
        self.learn_size(size);
    }

    /// A large payload counts at once.
    pub(crate) fn learn_size(&mut self, size: usize) {
        self.size = size.max(self.size - self.size / 8);
    }

    /// Number of jobs to claim, of which `own` start at once.
    pub(crate) fn wanted<S>(&mut self, own: usize, shared: &Shared<S>) -> Wanted {
        let round_trip = shared.control.round_trip();
        let (more, patience) = if let Some(fixed) = self.fixed {
            (fixed.get(), None)
        } else {
            let patience = patience(round_trip);
            let is_limited = shared.config.rate.is_some();
            (self.adapt(round_trip, is_limited), Some(patience))
        };
        Wanted::Spare {
            own,
            most: more.max(own),
            patience,
        }
    }

    /// The spare jobs that end in a turn are left when those of two turns are claimed, by this many handlers with the same
    /// pace. `None`: nothing is claimed in advance.
    pub(crate) fn refill<S>(&mut self, handlers: usize, shared: &Shared<S>) -> Option<Refill> {
        if self.fixed.is_some() || self.last == 0 {
            return None;
        }
        let round_trip = shared.control.round_trip();
        let each = self.adapt(round_trip, shared.config.rate.is_some());
        let more = each.saturating_mul(handlers).min(MOST_JOBS);
        let low = more / 2;
        (low > 0).then(|| Refill {
            low,
            more: more.min(self.most_by_size().saturating_mul(handlers) - low),
            patience: patience(round_trip),
        })
    }

    /// Maximum number of jobs that are claimed for a handler.
    fn most_by_size(&self) -> usize {
        (MOST_BYTES / self.size.max(1)).max(1)
    }

    /// Number of jobs that end in about two turns.
    fn adapt(&mut self, round_trip: Duration, is_limited: bool) -> usize {
        let span = u64::try_from(2 * round_trip.as_nanos()).unwrap_or(u64::MAX);
        let in_time = self.took.map_or(0, |took| span / took.max(1));
        self.last = usize::try_from(in_time)
            .unwrap_or(usize::MAX)
            .min(self.most_by_size())
            .min(self.last * 2)
            .clamp(1, if is_limited { 1 } else { MOST_JOBS });
        self.last
    }
}

/// How long spare jobs wait.
fn patience(round_trip: Duration) -> Duration {
    (round_trip * 4).max(SHORTEST_PATIENCE)
}

/// Time per job of handlers that run at the same time: the time with handlers, by the number of jobs that have ended
/// in it.
#[derive(Debug)]
pub(crate) struct Flow {
    /// Recent time with handlers.
    busy: Duration,
    /// Until when `busy` counts, or when it goes on.
    at: Option<Instant>,
    /// Number of jobs that have ended in `busy`.
    ended: u32,
    /// Maximum of `ended`: twice the handlers, which may all end at the same time.
    window: u32,
}

impl Flow {
    pub(crate) fn new(handlers: usize) -> Self {
        let handlers = u32::try_from(handlers).unwrap_or(u32::MAX);
        Self {
            busy: Duration::ZERO,
            at: None,
            ended: 0,
            window: handlers.clamp(16, u32::MAX / 4) * 2,
        }
    }

    /// Until now there was no handler.
    pub(crate) fn restart(&mut self, now: Instant) {
        self.at = Some(now);
    }

    pub(crate) fn end(&mut self) {
        self.ended = self.ended.saturating_add(1);
    }

    /// There were handlers until now.
    pub(crate) fn pass(&mut self, now: Instant, pace: &mut Pace) {
        if let Some(before) = self.at.replace(now) {
            self.busy += now.saturating_duration_since(before);
        }
        if self.ended > 0 {
            let took = (self.busy / self.ended).as_nanos();
            pace.took = Some(u64::try_from(took).unwrap_or(u64::MAX));
        }
        while self.ended > self.window {
            self.ended /= 2;
            self.busy /= 2;
        }
    }
}

#[cfg(all(test, not(anthill_loom)))]
mod tests {
    use super::*;

    const TURN: Duration = Duration::from_millis(1);
    const SMALL: usize = 100;

    /// The numbers of the next claims.
    fn claims(pace: &mut Pace) -> Vec<usize> {
        (0..16).map(|_| pace.adapt(TURN, false)).collect()
    }

    #[test]
    fn claims_grow_to_what_a_handler_finishes_in_two_turns() {
        let mut pace = Pace::new(None);
        assert_eq!(claims(&mut pace), [1; 16]);
        pace.learn(TURN / 5, SMALL);
        assert_eq!(claims(&mut pace)[..5], [2, 4, 8, 10, 10]);
    }

    #[test]
    fn large_payloads_and_a_rate_keep_claims_small() {
        let mut pace = Pace::new(None);
        pace.learn(Duration::ZERO, MOST_BYTES / 2);
        assert_eq!(claims(&mut pace)[4..], [2; 12]);
        let mut pace = Pace::new(None);
        pace.learn(Duration::ZERO, SMALL);
        assert_eq!(claims(&mut pace)[15], MOST_JOBS);
        assert_eq!(pace.adapt(TURN, true), 1);
    }

    #[test]
    fn extreme_times_and_sizes_are_finite() {
        let mut pace = Pace::new(None);
        pace.learn(Duration::MAX, usize::MAX);
        assert_eq!(pace.adapt(Duration::MAX, false), 1);
    }

    #[test]
    fn handlers_that_wait_at_the_same_time_get_what_they_end_together() {
        let (mut pace, mut flow) = (Pace::new(None), Flow::new(100));
        let mut now = Instant::now();
        let mut pass = |pace: &mut Pace, time, ended| {
            now += time;
            (0..ended).for_each(|_| flow.end());
            flow.pass(now, pace);
        };
        pass(&mut pace, TURN, 0);
        // A hundred handlers sleep for a second, and end in a few polls.
        pass(&mut pace, Duration::from_secs(1), 30);
        pass(&mut pace, Duration::ZERO, 70);
        assert_eq!(claims(&mut pace), [1; 16], "one ends in 10 ms");
        // Now they end at once.
        for _ in 0..100 {
            pass(&mut pace, TURN, 100);
        }
        assert_eq!(claims(&mut pace)[12..], [199; 4], "a job in 10 us");
    }

    #[test]
    fn time_without_handlers_does_not_count() {
        let (mut pace, mut flow) = (Pace::new(None), Flow::new(usize::MAX));
        let begin = Instant::now();
        flow.restart(begin);
        flow.restart(begin + TURN * 1_000);
        flow.end();
        flow.pass(begin + TURN * 1_001, &mut pace);
        assert_eq!(claims(&mut pace)[1..], [2; 15]);
    }
}
