//! Processor time of one thread, which other programs do not affect. Shared with the benchmark of
//! the heap.

use std::time::Duration;

/// The processor time that this thread has used.
pub struct Stopwatch(Duration);

impl Stopwatch {
    pub fn start() -> Self {
        Self(now())
    }

    pub fn elapsed(&self) -> Duration {
        now() - self.0
    }
}

/// Returns nanoseconds per operation.
#[expect(clippy::cast_precision_loss, reason = "a figure for people")]
pub fn per(spent: Duration, operations: usize) -> f64 {
    spent.as_nanos() as f64 / operations as f64
}

fn now() -> Duration {
    let mut time = libc::timespec {
        tv_sec: 0,
        tv_nsec: 0,
    };
    // SAFETY: `time` is a valid, exclusive reference.
    let failed = unsafe { libc::clock_gettime(libc::CLOCK_THREAD_CPUTIME_ID, &raw mut time) };
    assert_eq!(failed, 0, "every thread has this clock");
    let seconds = u64::try_from(time.tv_sec).expect("it has not run backwards");
    let nanos = u32::try_from(time.tv_nsec).expect("less than a second");
    Duration::new(seconds, nanos)
}
