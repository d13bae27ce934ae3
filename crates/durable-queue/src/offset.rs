//! What the store's clock shows, as far as this process can know.
//!
//! # What always holds
//! 1. While the store's clock is not set back, [`Offset::store_time`] is no later than what the store
//!    shows. So nothing that is timed by it is early; it is late by no more than one answer took to
//!    come.
//! 2. An answer that contradicts it, because the store's clock was set back or runs slower than
//!    ours, replaces it.

use std::time::Instant;

use crate::time::StoreTime;

/// At `local`, the store showed `store` or later.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Offset {
    local: Instant,
    store: StoreTime,
}

impl Offset {
    /// From an answer that says `now`, which the store read before the answer came.
    pub(crate) fn new(received: Instant, now: StoreTime) -> Self {
        Self {
            local: received,
            store: now,
        }
    }

    /// Takes one more answer into account, to a call that was sent at `sent`.
    pub(crate) fn learn(&mut self, sent: Instant, received: Instant, now: StoreTime) {
        // A quicker answer than those before says that the store is further than we thought. One
        // that was read after `sent` and shows less than we thought then says that we were wrong.
        if now >= self.store_time(received) || now < self.store_time(sent) {
            *self = Self::new(received, now);
        }
    }

    /// What the store shows at least, at this moment of ours.
    pub(crate) fn store_time(&self, at: Instant) -> StoreTime {
        match at.checked_duration_since(self.local) {
            // Whole microseconds that have passed.
            Some(passed) => self.store.after(floor(passed)),
            None => self.store.before(self.local - at),
        }
    }

    /// When the store will show `time`; `None` for never. A time that has passed is in our past.
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

/// [`StoreTime::after`] rounds up.
fn floor(passed: std::time::Duration) -> std::time::Duration {
    std::time::Duration::new(passed.as_secs(), passed.subsec_micros() * 1_000)
}

#[cfg(all(test, not(anthill_loom)))]
mod tests {
    use std::time::Duration;

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
        // The first answer took long: the store was at 50 ms when it came, and said 0.
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
