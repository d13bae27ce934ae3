//! Yields that pay.
//!
//! A yield is the cheapest way to wait for a thread that is ready and has no core, as long as those
//! who are let in have little to do. Where others compute, each yield lets one of them run for a
//! whole slice of some milliseconds, while a thread that sleeps is woken within microseconds. So
//! each yield is timed, and after one that took long the next few are left out. Where long ones
//! follow each other, the process looks whose threads have run meanwhile, and if they were
//! strangers nobody yields for a while: twice as long as the last one took, and each time that shows
//! it again for twice as long as before. A core that was idle looks like a stranger's, once.
//!
//! Not for: semantic time. This is about the machine, so it reads the machine's clocks, and one
//! process has one such memory.

use std::ops::RangeInclusive;
use std::sync::OnceLock;
use std::time::{Duration, Instant};

use parking_lot::Mutex;

use crate::atomic::{AtomicU32, Ordering::Relaxed};

/// Longer than threads that yield to each other take; shorter than a slice of Linux's scheduler.
const LONG: Duration = Duration::from_millis(1);

/// How many yields are left out after a long one, and at most after many in a row.
const LEFT_OUT: [u32; 2] = [8, 2048];

/// Long yields whose ends lie so far apart follow each other. Nearer ones say too little of who ran.
const SOON: RangeInclusive<Duration> = Duration::from_millis(4)..=Duration::from_millis(20);

/// For how many times as long as it took nobody yields after one that let strangers run: at first,
/// and at most.
const REST: [u32; 2] = [2, 128];

/// And for how long at most: a process that was stopped meanwhile has learned nothing by it.
const LONGEST_REST: Duration = Duration::from_secs(2);

static CROWD: Crowd = Crowd::new();

/// Its numbers are relaxed, and changed without care: they are guesses.
struct Crowd {
    /// How many yields are still to be left out.
    left_out: AtomicU32,
    /// How many were, after the last long one; 0 if a short one has come since.
    last_left_out: AtomicU32,
    /// Milliseconds of the process when yields are taken up again; 0 where there are no strangers.
    until: AtomicU32,
    /// For how many times as long as a yield the last rest was; 0 if none was needed since.
    last_rest: AtomicU32,
    /// The end of the last long yield, or of one shortly before it.
    last: Mutex<Option<Reading>>,
}

/// Both clocks at one instant.
#[derive(Clone, Copy)]
struct Reading {
    /// Since the process began to look.
    wall: Duration,
    /// What the process's threads have used of the processors.
    used: Duration,
}

impl Crowd {
    const fn new() -> Self {
        Self {
            left_out: AtomicU32::new(0),
            last_left_out: AtomicU32::new(0),
            until: AtomicU32::new(0),
            last_rest: AtomicU32::new(0),
            last: Mutex::new(None),
        }
    }

    /// Whether to yield. The time is asked for only where it matters.
    #[inline]
    fn allows(&self, now: impl FnOnce() -> Duration) -> bool {
        let left_out = self.left_out.load(Relaxed);
        if left_out > 0 {
            self.left_out.store(left_out - 1, Relaxed);
        }
        left_out == 0 && !self.has_strangers(now)
    }

    #[inline]
    fn has_strangers(&self, now: impl FnOnce() -> Duration) -> bool {
        let until = self.until.load(Relaxed);
        if until == 0 {
            return false;
        }
        // Milliseconds begin anew after 49 days; no rest is that long.
        let left = until.wrapping_sub(millis(now()));
        let rests = left > 0 && left <= millis(LONGEST_REST);
        if !rests {
            self.until.store(0, Relaxed);
        }
        rests
    }

    /// A short yield has ended.
    #[inline]
    fn took_little(&self) {
        if self.last_left_out.load(Relaxed) > 0 {
            self.last_left_out.store(0, Relaxed);
        }
    }

    /// A long yield has ended. Some take long wherever threads exceed cores, and if our own threads
    /// had the `cores` then little was lost.
    #[cold]
    fn took_long(&self, time: Duration, end: Reading, cores: u32) {
        self.left_out
            .store(double(&self.last_left_out, LEFT_OUT), Relaxed);
        self.look_for_strangers(time, end, cores);
    }

    fn look_for_strangers(&self, time: Duration, end: Reading, cores: u32) {
        let Some(mut last) = self.last.try_lock() else {
            return; // Somebody else looks.
        };
        let before = *last.get_or_insert(end);
        let wall = end.wall.saturating_sub(before.wall);
        if wall < *SOON.start() {
            return;
        }
        *last = Some(end);
        drop(last);
        if wall > *SOON.end() {
            return;
        }
        let used = end.used.saturating_sub(before.used);
        // Three quarters: neighbours that compute take half.
        if used >= wall * cores / 4 * 3 {
            self.last_rest.store(0, Relaxed);
        } else {
            let times = double(&self.last_rest, REST);
            let rest = time.saturating_mul(times).min(LONGEST_REST);
            self.until.store(millis(end.wall + rest).max(1), Relaxed);
        }
    }
}

/// Makes it twice as much, within these bounds.
fn double(number: &AtomicU32, [least, most]: [u32; 2]) -> u32 {
    let doubled = (number.load(Relaxed) * 2).clamp(least, most);
    number.store(doubled, Relaxed);
    doubled
}

#[expect(
    clippy::cast_possible_truncation,
    reason = "it is compared with others nearby, and begins anew after 49 days"
)]
fn millis(time: Duration) -> u32 {
    time.as_millis() as u32
}

/// Lets other threads run, so often, if any are ready. `false`, and nothing else, if yields have
/// lately let in threads that kept the core: then it is better to look on for as long as a wake-up
/// takes, and to sleep.
#[inline]
pub fn yield_briefly(times: u32) -> bool {
    if !CROWD.allows(|| since_first(Instant::now())) {
        return false;
    }
    let before = Instant::now();
    (0..times).for_each(|_| std::thread::yield_now());
    let time = before.elapsed();
    if time > LONG {
        let end = Reading {
            wall: since_first(before) + time,
            used: processor_time(),
        };
        CROWD.took_long(time, end, cores());
    } else {
        CROWD.took_little();
    }
    true
}

/// Since this was asked first.
fn since_first(now: Instant) -> Duration {
    static FIRST: OnceLock<Instant> = OnceLock::new();
    now.saturating_duration_since(*FIRST.get_or_init(|| now))
}

fn cores() -> u32 {
    static CORES: OnceLock<u32> = OnceLock::new();
    *CORES.get_or_init(|| {
        let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
        u32::try_from(cores).unwrap_or(u32::MAX)
    })
}

/// Of all threads of this process.
#[cfg(unix)]
fn processor_time() -> Duration {
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: the call writes one `timespec`, to which it is given the only reference.
    unsafe { libc::clock_gettime(libc::CLOCK_PROCESS_CPUTIME_ID, &raw mut time) };
    let seconds = u64::try_from(time.tv_sec).unwrap_or(0);
    Duration::from_secs(seconds) + Duration::from_nanos(u64::try_from(time.tv_nsec).unwrap_or(0))
}

/// Not known: then long yields in a row are taken for strangers'.
#[cfg(not(unix))]
fn processor_time() -> Duration {
    Duration::ZERO
}

#[cfg(test)]
mod tests {
    use super::*;

    const YIELD: Duration = Duration::from_millis(4);

    fn at(wall: u64, used: u64) -> Reading {
        Reading {
            wall: Duration::from_millis(wall),
            used: Duration::from_millis(used),
        }
    }

    fn has_strangers(crowd: &Crowd, wall: u64) -> bool {
        crowd.has_strangers(|| Duration::from_millis(wall))
    }

    /// How often it forbids a yield until it allows one.
    fn left_out(crowd: &Crowd) -> u32 {
        let mut count = 0;
        while !crowd.allows(|| Duration::ZERO) {
            count += 1;
        }
        count
    }

    #[test]
    fn after_long_yields_in_a_row_more_and_more_are_left_out() {
        let crowd = Crowd::new();
        assert_eq!(left_out(&crowd), 0);
        for expected in [8, 16, 32, 64, 128, 256, 512, 1024, 2048, 2048] {
            crowd.took_long(YIELD, at(0, 0), 2);
            assert_eq!(left_out(&crowd), expected);
        }
        crowd.took_little();
        assert_eq!(left_out(&crowd), 0);
        crowd.took_long(YIELD, at(0, 0), 2);
        assert_eq!(left_out(&crowd), 8, "a short one has come between");
    }

    #[test]
    fn nobody_yields_for_longer_and_longer_after_long_yields_that_let_strangers_run() {
        let crowd = Crowd::new();
        crowd.look_for_strangers(YIELD, at(10, 10), 2);
        assert!(!has_strangers(&crowd, 10), "one alone shows nothing");
        let mut end = 10;
        for times in [2, 4, 8, 16, 32, 64, 128, 128] {
            end += 10;
            crowd.look_for_strangers(YIELD, at(end, end), 2);
            assert!(has_strangers(&crowd, end));
            assert!(has_strangers(&crowd, end + 4 * times - 1));
            let over = end + 4 * times;
            assert!(!has_strangers(&crowd, over), "{times} times as long");
            assert!(!has_strangers(&crowd, over - 1), "and then it is forgotten");
        }
    }

    #[test]
    fn a_look_that_finds_our_own_threads_makes_the_next_rest_short_again() {
        let crowd = Crowd::new();
        for end in [10, 20, 30] {
            crowd.look_for_strangers(YIELD, at(end, 0), 2);
        }
        assert_eq!(crowd.last_rest.load(Relaxed), 4);
        crowd.look_for_strangers(YIELD, at(40, 20), 2);
        crowd.look_for_strangers(YIELD, at(50, 20), 2);
        assert_eq!(crowd.last_rest.load(Relaxed), 2);
    }

    #[test]
    fn long_yields_cost_nothing_where_our_own_threads_run() {
        let crowd = Crowd::new();
        crowd.look_for_strangers(YIELD, at(10, 100), 2);
        crowd.look_for_strangers(YIELD, at(20, 115), 2);
        assert!(!has_strangers(&crowd, 20));
        crowd.look_for_strangers(YIELD, at(24, 120), 2);
        assert!(
            has_strangers(&crowd, 24),
            "less than three quarters of two cores"
        );
    }

    #[test]
    fn long_yields_far_apart_are_no_loss() {
        let crowd = Crowd::new();
        crowd.look_for_strangers(YIELD, at(10, 0), 2);
        crowd.look_for_strangers(YIELD, at(31, 0), 2);
        assert!(!has_strangers(&crowd, 31));
        crowd.look_for_strangers(YIELD, at(51, 0), 2);
        assert!(has_strangers(&crowd, 51));
    }

    #[test]
    fn long_yields_that_end_together_count_as_one() {
        let crowd = Crowd::new();
        crowd.look_for_strangers(YIELD, at(10, 0), 2);
        crowd.look_for_strangers(YIELD, at(11, 0), 2);
        assert!(!has_strangers(&crowd, 11));
        crowd.look_for_strangers(YIELD, at(14, 8), 2);
        assert!(!has_strangers(&crowd, 14), "both cores since the first");
        crowd.look_for_strangers(YIELD, at(17, 8), 2);
        assert!(!has_strangers(&crowd, 17));
        crowd.look_for_strangers(YIELD, at(18, 8), 2);
        assert!(has_strangers(&crowd, 18));
    }

    #[test]
    fn no_rest_is_endless_however_long_a_yield_took_and_when_milliseconds_begin_anew() {
        let crowd = Crowd::new();
        let end = 1_u64 << 32;
        crowd.look_for_strangers(Duration::MAX, at(end - 10, 0), 1);
        crowd.look_for_strangers(Duration::MAX, at(end - 1, 0), 1);
        assert!(has_strangers(&crowd, end - 1));
        assert!(has_strangers(&crowd, end + 1_998));
        assert!(!has_strangers(&crowd, end + 1_999));
        crowd.look_for_strangers(Duration::MAX, at(end + 2_000, 0), 1);
        crowd.look_for_strangers(Duration::MAX, at(end + 2_010, 0), 1);
        assert!(!has_strangers(&crowd, end + 1_000_000), "asked long after");
    }

    #[test]
    fn a_processor_that_was_used_shows_in_the_process_time() {
        let before = processor_time();
        while cfg!(unix) && processor_time() == before {
            std::hint::spin_loop();
        }
    }
}
