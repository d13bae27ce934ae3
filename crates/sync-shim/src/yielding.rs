//! Adaptive yields: yield where yields are cheap, back off where other processes use the processor.
//!
//! A yield is the cheapest way to wait for a thread that is ready but has no core, as long as the
//! threads that run instead have little to do. If other processes compute, each yield lets one of
//! their threads run for a whole time slice of some milliseconds, while a sleeping thread is woken
//! within microseconds.
//!
//! So each yield is timed. After a long yield the thread skips its next few: a thread that meets
//! busy threads on every core, as a caller of a busy pool does, soon sleeps at once, while threads
//! that wait for each other go on yielding. If long yields follow each other, the process's share
//! of processor time tells whether other processes ran in the meantime. If so, all threads of the
//! process skip their yields for a while: for a multiple of the duration of the last yield, with a
//! factor that doubles each time. A core that was idle is mistaken for another process's once.
//!
//! Not for: semantic time. This module measures the machine, so it reads the machine's clocks, and
//! a process has one shared policy.

use std::cell::Cell;
use std::ops::RangeInclusive;
use std::time::{Duration, Instant};

use crate::atomic::{AtomicU32, Ordering::Relaxed};
use crate::{Mutex, PerProcess};

/// Longer than threads that yield to each other take; shorter than a slice of Linux's scheduler.
const LONG: Duration = Duration::from_millis(1);

/// Number of yields to skip after a long one: at first, and at most after many long ones in a row.
const SKIPS: [u32; 2] = [8, 2048];

/// Long yields whose ends are this far apart count as consecutive. A shorter interval does not show
/// which threads ran.
const CONSECUTIVE: RangeInclusive<Duration> = Duration::from_millis(4)..=Duration::from_millis(20);

/// Duration of the back-off after a yield that let other processes run, in multiples of the
/// duration of that yield: at first, and at most.
const BACK_OFF: [u32; 2] = [2, 128];

/// The longest back-off. Bounds the effect of a yield during which the process was stopped.
const LONGEST_BACK_OFF: Duration = Duration::from_secs(2);

static POLICY: YieldPolicy = YieldPolicy::new();

thread_local! {
    static OWN: OwnYields = const { OwnYields::new() };
}

/// Experience of one thread with its yields.
struct OwnYields {
    /// Yields that are still to be skipped.
    to_skip: Cell<u32>,
    /// Yields skipped after the last long one; 0 if a short one followed.
    last_skipped: Cell<u32>,
}

impl OwnYields {
    const fn new() -> Self {
        Self {
            to_skip: Cell::new(0),
            last_skipped: Cell::new(0),
        }
    }

    #[inline]
    fn allow(&self) -> bool {
        let to_skip = self.to_skip.get();
        self.to_skip.set(to_skip.saturating_sub(1));
        to_skip == 0
    }

    #[inline]
    fn record_short(&self) {
        self.last_skipped.set(0);
    }

    fn record_long(&self) {
        let doubled = double(self.last_skipped.get(), SKIPS);
        self.last_skipped.set(doubled);
        self.to_skip.set(doubled);
    }
}

/// Process-wide policy. All accesses are relaxed, and concurrent updates may be lost: the numbers
/// are heuristics.
struct YieldPolicy {
    /// End of the back-off, in milliseconds of the process; 0 if there is none.
    until: AtomicU32,
    /// Factor of the last back-off; 0 if none has been needed since.
    last_factor: AtomicU32,
    /// End of the last long yield, or of one shortly before it.
    last: Mutex<Option<Reading>>,
}

#[derive(Clone, Copy)]
struct Reading {
    /// Time since the process's first yield.
    wall: Duration,
    used: Duration,
}

impl YieldPolicy {
    const fn new() -> Self {
        Self {
            until: AtomicU32::new(0),
            last_factor: AtomicU32::new(0),
            last: Mutex::new(None),
        }
    }

    /// Returns whether other processes use the processor. Calls `now` only during a back-off.
    #[inline]
    fn is_backing_off(&self, now: impl FnOnce() -> Duration) -> bool {
        let until = self.until.load(Relaxed);
        if until == 0 {
            return false;
        }
        // Milliseconds wrap around after 49 days; no back-off is that long.
        let left = until.wrapping_sub(millis(now()));
        let backing_off = left > 0 && left <= millis(LONGEST_BACK_OFF);
        if !backing_off {
            self.until.store(0, Relaxed);
        }
        backing_off
    }

    /// Called after a long yield. Yields take long wherever threads exceed cores: if this process's
    /// own threads had the `cores`, little was lost.
    #[cold]
    fn check_processor_share(&self, time: Duration, end: Reading, cores: u32) {
        let Some(mut last) = self.last.try_lock() else {
            return; // Another thread is checking.
        };
        let before = *last.get_or_insert(end);
        let wall = end.wall.saturating_sub(before.wall);
        if wall < *CONSECUTIVE.start() {
            return;
        }
        *last = Some(end);
        drop(last);
        if wall > *CONSECUTIVE.end() {
            return;
        }
        let used = end.used.saturating_sub(before.used);
        // Three quarters: neighbours that compute take half of the processor time.
        if used >= wall * cores / 4 * 3 {
            self.last_factor.store(0, Relaxed);
        } else {
            let times = double(self.last_factor.load(Relaxed), BACK_OFF);
            self.last_factor.store(times, Relaxed);
            let back_off = time.saturating_mul(times).min(LONGEST_BACK_OFF);
            self.until
                .store(millis(end.wall + back_off).max(1), Relaxed);
        }
    }
}

fn double(number: u32, [least, most]: [u32; 2]) -> u32 {
    (number * 2).clamp(least, most)
}

#[expect(
    clippy::cast_possible_truncation,
    reason = "the result is compared with nearby values, and wraps around after 49 days"
)]
fn millis(time: Duration) -> u32 {
    time.as_millis() as u32
}

/// Yields `times` times. Returns `false`, without a yield, while the policy backs off because
/// recent yields let in threads that kept the core: then the caller should spin for as long as a
/// wake-up takes, and sleep.
#[inline]
pub fn yield_briefly(times: u32) -> bool {
    let is_allowed = OWN.with(OwnYields::allow);
    if !is_allowed || POLICY.is_backing_off(|| since_first(Instant::now())) {
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
        OWN.with(OwnYields::record_long);
        POLICY.check_processor_share(time, end, cores());
    } else {
        OWN.with(OwnYields::record_short);
    }
    true
}

/// Whether yields are refused because other processes use the processor.
pub fn are_yields_refused() -> bool {
    POLICY.is_backing_off(|| since_first(Instant::now()))
}

/// Returns the nanoseconds since the process's first use of this module, by the machine's clock.
pub fn nanos() -> u64 {
    u64::try_from(since_first(Instant::now()).as_nanos()).unwrap_or(u64::MAX)
}

fn since_first(now: Instant) -> Duration {
    static FIRST: PerProcess<Instant> = PerProcess::new();
    now.saturating_duration_since(*FIRST.get_or_init(|parents| parents.copied().unwrap_or(now)))
}

fn cores() -> u32 {
    u32::try_from(crate::statics::cores()).unwrap_or(u32::MAX)
}

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

/// Unknown on this platform: long yields in a row are attributed to other processes.
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

    fn is_backing_off(policy: &YieldPolicy, wall: u64) -> bool {
        policy.is_backing_off(|| Duration::from_millis(wall))
    }

    /// Returns how many yields are skipped until the next one is allowed.
    fn skipped(own: &OwnYields) -> u32 {
        let mut count = 0;
        while !own.allow() {
            count += 1;
        }
        count
    }

    #[test]
    fn consecutive_long_yields_are_skipped_more_and_more() {
        let own = OwnYields::new();
        assert_eq!(skipped(&own), 0);
        for expected in [8, 16, 32, 64, 128, 256, 512, 1024, 2048, 2048] {
            own.record_long();
            assert_eq!(skipped(&own), expected);
        }
        own.record_short();
        assert_eq!(skipped(&own), 0);
        own.record_long();
        assert_eq!(skipped(&own), 8, "a short one has come between");
    }

    #[test]
    fn the_back_off_grows_with_each_long_yield_that_let_other_processes_run() {
        let policy = YieldPolicy::new();
        policy.check_processor_share(YIELD, at(10, 10), 2);
        assert!(!is_backing_off(&policy, 10), "one alone shows nothing");
        let mut end = 10;
        for times in [2, 4, 8, 16, 32, 64, 128, 128] {
            end += 10;
            policy.check_processor_share(YIELD, at(end, end), 2);
            assert!(is_backing_off(&policy, end));
            assert!(is_backing_off(&policy, end + 4 * times - 1));
            let over = end + 4 * times;
            assert!(!is_backing_off(&policy, over), "{times} times as long");
            assert!(
                !is_backing_off(&policy, over - 1),
                "and then it is forgotten"
            );
        }
    }

    #[test]
    fn a_yield_to_our_own_threads_shortens_the_next_back_off() {
        let policy = YieldPolicy::new();
        for end in [10, 20, 30] {
            policy.check_processor_share(YIELD, at(end, 0), 2);
        }
        assert_eq!(policy.last_factor.load(Relaxed), 4);
        policy.check_processor_share(YIELD, at(40, 20), 2);
        policy.check_processor_share(YIELD, at(50, 20), 2);
        assert_eq!(policy.last_factor.load(Relaxed), 2);
    }

    #[test]
    fn long_yields_to_our_own_threads_cause_no_back_off() {
        let policy = YieldPolicy::new();
        policy.check_processor_share(YIELD, at(10, 100), 2);
        policy.check_processor_share(YIELD, at(20, 115), 2);
        assert!(!is_backing_off(&policy, 20));
        policy.check_processor_share(YIELD, at(24, 120), 2);
        assert!(
            is_backing_off(&policy, 24),
            "less than three quarters of two cores"
        );
    }

    #[test]
    fn long_yields_far_apart_cause_no_back_off() {
        let policy = YieldPolicy::new();
        policy.check_processor_share(YIELD, at(10, 0), 2);
        policy.check_processor_share(YIELD, at(31, 0), 2);
        assert!(!is_backing_off(&policy, 31));
        policy.check_processor_share(YIELD, at(51, 0), 2);
        assert!(is_backing_off(&policy, 51));
    }

    #[test]
    fn long_yields_that_end_together_count_as_one() {
        let policy = YieldPolicy::new();
        policy.check_processor_share(YIELD, at(10, 0), 2);
        policy.check_processor_share(YIELD, at(11, 0), 2);
        assert!(!is_backing_off(&policy, 11));
        policy.check_processor_share(YIELD, at(14, 8), 2);
        assert!(!is_backing_off(&policy, 14), "both cores since the first");
        policy.check_processor_share(YIELD, at(17, 8), 2);
        assert!(!is_backing_off(&policy, 17));
        policy.check_processor_share(YIELD, at(18, 8), 2);
        assert!(is_backing_off(&policy, 18));
    }

    #[test]
    fn the_back_off_is_finite_after_any_yield_and_across_a_wrap_of_the_milliseconds() {
        let policy = YieldPolicy::new();
        let end = 1_u64 << 32;
        policy.check_processor_share(Duration::MAX, at(end - 10, 0), 1);
        policy.check_processor_share(Duration::MAX, at(end - 1, 0), 1);
        assert!(is_backing_off(&policy, end - 1));
        assert!(is_backing_off(&policy, end + 1_998));
        assert!(!is_backing_off(&policy, end + 1_999));
        policy.check_processor_share(Duration::MAX, at(end + 2_000, 0), 1);
        policy.check_processor_share(Duration::MAX, at(end + 2_010, 0), 1);
        assert!(
            !is_backing_off(&policy, end + 1_000_000),
            "asked long after"
        );
    }

    #[test]
    fn used_processor_time_shows_in_the_process_time() {
        let before = processor_time();
        while cfg!(unix) && processor_time() == before {
            std::hint::spin_loop();
        }
    }
}
