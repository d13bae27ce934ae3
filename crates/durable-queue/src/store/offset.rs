//! Estimate of the store's clock.
//!
//! # Invariants
//! 1. While the store's clock is not set back and runs no slower than the local one, [`Offset::store_time`]
//!    is no later than the store's time. So no job is started early; it is late by at most the time that one
//!    response took. If the store's clock is slower, the estimate is ahead by the drift since the last
//!    response, plus the drift during a response.
//! 2. A response that contradicts the estimate, because the store's clock was set back or is slower, replaces
//!    it.

use std::time::{Duration, Instant};

use crate::store::time::StoreTime;

/// At the local time `local`, the store's clock showed `store` or later.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Offset {
    local: Instant,
    store: StoreTime,
}

impl Offset {
    /// Creates an estimate from a response with the store's time `now`.
    pub(crate) fn new(received: Instant, now: StoreTime) -> Self {
        Self {
            local: received,
            store: now,
        }
    }

    /// Updates the estimate with the response to a call sent at `sent`. Returns how much less than the
    /// estimate the store's clock shows: it was set back by at least that.
    pub(crate) fn learn(&mut self, sent: Instant, received: Instant, now: StoreTime) -> Duration {
        let back = self.store_time(sent).since(now);
        // A faster response than all before shows that the store's clock is ahead of the estimate. A response
        // that was read after `sent` and shows less than the estimate then proves the estimate wrong.
        if now >= self.store_time(received) || back > Duration::ZERO {
            *self = Self::new(received, now);
        }
        back
    }

    /// Returns a lower bound of the store's time at `at`.
    pub(crate) fn store_time(&self, at: Instant) -> StoreTime {
        match at.checked_duration_since(self.local) {
            // Whole microseconds that have elapsed.
            Some(passed) => self.store.after(floor(passed)),
            None => self.store.before(self.local - at),
        }
    }

    /// Returns the local time at which the store will show `time`, or `None` for never. A past time gives a
    /// past local time.
    pub(crate) fn local(&self, time: StoreTime) -> Option<Instant> {
        if time == StoreTime::NEVER {
            return None;
        }
        if time <= self.store {
            return Some(self.local);
        }
        self.local.checked_add(time.since(self.store))
    }
}

/// Rounds down, because [`StoreTime::after`] rounds up.
fn floor(passed: Duration) -> Duration {
    Duration::new(passed.as_secs(), passed.subsec_micros() * 1_000)
}

#[cfg(all(test, not(anthill_loom)))]
mod tests {
    use super::*;

    const MILLI: Duration = Duration::from_millis(1);
    const START: StoreTime = StoreTime::from_micros(1_000_000);

    fn begin() -> (Offset, Instant) {
        let local = Instant::now();
        (Offset::new(local, START), local)
    }

    #[test]
    fn a_quick_answer_improves_the_estimate_and_a_slow_one_does_not() {
        let (mut offset, local) = begin();
        // The first response took long: the store's clock was at 50 ms when it arrived, but the response said
        // 0.
        let truth = |at: Instant| START.after(at - local + MILLI * 50);
        let quick = local + MILLI * 100;
        offset.learn(quick, quick, truth(quick));
        assert_eq!(offset.store_time(quick), truth(quick));
        let slow = quick + MILLI * 40;
        offset.learn(quick, slow, truth(quick));
        assert_eq!(offset.store_time(slow), truth(slow));
    }

    #[test]
    fn an_answer_that_contradicts_the_estimate_replaces_it() {
        let (mut offset, local) = begin();
        let later = local + MILLI * 100;
        offset.learn(later, later, START); // Set back by 100 ms.
        assert_eq!(offset.store_time(later), START);
        assert_eq!(offset.local(START.after(MILLI)), Some(later + MILLI));
    }

    #[test]
    fn it_says_by_how_much_the_clock_was_set_back() {
        let (mut offset, local) = begin();
        let later = local + MILLI * 100;
        let earlier = StoreTime::from_micros(0);
        assert_eq!(offset.learn(later, later, earlier), MILLI * 1_100);
        // The first response could not reveal it.
        assert_eq!(offset.learn(later, later, earlier), Duration::ZERO);
        let forward = START.after(MILLI * 5_000);
        assert_eq!(offset.learn(later, later, forward), Duration::ZERO);
        assert_eq!(offset.store_time(later), forward);
    }

    /// Drift of a thousandth, more than real clocks have, with responses that take a millisecond each, every
    /// 100 ms.
    #[test]
    fn a_clock_that_drifts_is_followed_to_within_what_an_answer_takes_and_the_drift_between_two() {
        const EACH: u32 = 100;
        for speed in [999, 1_001] {
            let (mut offset, local) = begin();
            let truth = |at: Instant| START.after((at - local) * speed / 1_000);
            let mut sent = local;
            for _ in 0..1_000 {
                let (seen, received) = (sent + MILLI / 2, sent + MILLI);
                offset.learn(sent, received, truth(seen));
                for millis in [1, EACH / 2, EACH] {
                    let at = sent + MILLI * millis;
                    let (shown, actual) = (offset.store_time(at), truth(at));
                    let drift = MILLI * EACH / 1_000;
                    // Early by the drift alone, or late by one response.
                    let most_early = if speed < 1_000 {
                        MILLI + drift
                    } else {
                        Duration::ZERO
                    };
                    assert!(
                        shown.since(actual) <= most_early,
                        "{speed}: {shown:?}, {actual:?}"
                    );
                    assert!(
                        actual.since(shown) <= MILLI + drift * 2,
                        "{speed}: {shown:?}, {actual:?}"
                    );
                }
                sent += MILLI * EACH;
            }
        }
    }

    #[test]
    fn the_estimate_reaches_a_time_when_it_says_so_and_not_before() {
        let (offset, local) = begin();
        let time = START.after(Duration::from_micros(3));
        let when = offset.local(time).expect("it comes");
        assert_eq!(offset.store_time(when), time);
        assert!(offset.store_time(local + Duration::from_nanos(2_999)) < time);
        assert_eq!(offset.local(StoreTime::NEVER), None);
        assert_eq!(offset.local(StoreTime::from_micros(i64::MIN)), Some(local));
    }
}
