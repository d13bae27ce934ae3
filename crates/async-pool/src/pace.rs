//! When a busy worker reads the clock, and when its round is over.
//!
//! A round is bounded in time, because polls differ by a factor of a million. To read the clock after each poll would cost
//! more than the shortest polls, so a worker that runs short ones reads it after several. How many depends on the lane: the polls
//! of tasks that a timer has woken may be short while those of others are long.

/// Number of lanes of a run queue.
pub(crate) const LANES: usize = 3;

/// The time after which a round ends, in nanoseconds.
const SLICE: u64 = 200_000;
/// Most polls between two looks at the clock.
const MOST_UNTIMED: u32 = 16;

pub(crate) struct Pace {
    /// Number of polls after which the worker looks, if the last one was of this lane.
    every: [u32; LANES],
    /// Number of polls since the last look.
    polls: u32,
    /// Time of the last look since the worker slept.
    looked: Option<u64>,
    /// Time of the first look of the round.
    began: Option<u64>,
}

impl Pace {
    pub(crate) fn new() -> Self {
        Self {
            every: [1; LANES],
            polls: 0,
            looked: None,
            began: None,
        }
    }

    /// The worker has slept, so the time since the last look was not spent on polls.
    pub(crate) fn slept(&mut self) {
        (self.looked, self.began) = (None, None);
    }

    /// A round begins. `now` is the time, if the worker knows it.
    pub(crate) fn begin(&mut self, now: Option<u64>) {
        if now.is_some() {
            self.looked = now;
            self.polls = 0;
        }
        self.began = self.looked;
    }

    /// Time of the last look since the worker slept.
    pub(crate) fn last_look(&self) -> Option<u64> {
        self.looked
    }

    /// Counts a poll. Returns whether the worker has to look at the clock.
    pub(crate) fn polled(&mut self, lane: usize) -> bool {
        self.polls += 1;
        self.polls >= self.every[lane]
    }

    /// The worker has looked at the clock. Returns whether the round is over.
    pub(crate) fn looked(&mut self, lane: usize, now: u64) -> bool {
        let spent = self.looked.map_or(0, |then| now.saturating_sub(then));
        let every = &mut self.every[lane];
        *every = match spent {
            SLICE.. => 1,
            _ if spent < SLICE / 8 => (2 * *every).min(MOST_UNTIMED),
            _ => *every,
        };
        self.polls = 0;
        self.looked = Some(now);
        let began = *self.began.get_or_insert(now);
        now.saturating_sub(began) >= SLICE || spent >= SLICE
    }
}

#[cfg(all(test, not(anthill_loom)))]
mod tests {
    use super::{MOST_UNTIMED, Pace, SLICE};

    /// Runs polls of the same time. Returns the number of polls of each round, and of looks.
    fn rounds(pace: &mut Pace, now: &mut u64, poll: u64, rounds: usize) -> (Vec<u32>, u32) {
        rounds_of(0, pace, now, poll, rounds)
    }

    fn rounds_of(
        lane: usize,
        pace: &mut Pace,
        now: &mut u64,
        poll: u64,
        rounds: usize,
    ) -> (Vec<u32>, u32) {
        let mut looks = 0;
        let lengths = (0..rounds).map(|_| {
            pace.begin(None);
            for length in 1..=128 {
                *now += poll;
                if pace.polled(lane) {
                    looks += 1;
                    if pace.looked(lane, *now) {
                        return length;
                    }
                }
            }
            128
        });
        (lengths.collect(), looks)
    }

    #[test]
    fn a_round_of_long_polls_ends_after_each() {
        let (mut pace, mut now) = (Pace::new(), 0);
        pace.begin(Some(now));
        let (lengths, _) = rounds(&mut pace, &mut now, 5 * SLICE, 20);
        assert_eq!(lengths, [1; 20]);
    }

    #[test]
    fn short_polls_share_a_look_at_the_clock() {
        let (mut pace, mut now) = (Pace::new(), 0);
        pace.begin(Some(now));
        rounds(&mut pace, &mut now, 100, 1);
        let (lengths, looks) = rounds(&mut pace, &mut now, 100, 20);
        assert_eq!(lengths, [128; 20]);
        assert_eq!(looks, 20 * 128 / MOST_UNTIMED);
    }

    #[test]
    fn polls_that_become_long_are_noticed_within_a_few() {
        let (mut pace, mut now) = (Pace::new(), 0);
        pace.begin(Some(now));
        rounds(&mut pace, &mut now, 100, 3);
        let (lengths, _) = rounds(&mut pace, &mut now, 5 * SLICE, 3);
        assert!(lengths[0] <= MOST_UNTIMED, "{lengths:?}");
        assert_eq!(lengths[1..], [1, 1]);
    }

    #[test]
    fn short_polls_of_one_lane_hide_no_long_ones_of_another() {
        let (mut pace, mut now) = (Pace::new(), 0);
        pace.begin(Some(now));
        for _ in 0..3 {
            rounds_of(0, &mut pace, &mut now, 100, 3);
            let (lengths, _) = rounds_of(1, &mut pace, &mut now, 5 * SLICE, 3);
            assert_eq!(lengths, [1; 3]);
        }
    }

    #[test]
    fn sleep_counts_as_no_poll() {
        let (mut pace, mut now) = (Pace::new(), 0);
        pace.begin(Some(now));
        rounds(&mut pace, &mut now, 100, 3);
        now += 1_000 * SLICE;
        pace.slept();
        let (lengths, _) = rounds(&mut pace, &mut now, 100, 3);
        assert_eq!(lengths, [128; 3]);
    }
}
