//! Resources used by this process: processor time, memory, switches, threads.
//!
//! The figures of `/proc` exist on Linux only. Elsewhere, the metrics based on them are left out.

use std::fs;
use std::time::{Duration, Instant};

use rustix::time::{ClockId, clock_gettime};

/// The resources used in a section.
#[derive(Clone, Copy)]
pub struct Spent {
    pub wall: Duration,
    /// User and system time of all threads of this process.
    pub cpu: Duration,
}

/// The start of a section.
#[derive(Clone, Copy)]
pub struct Meter {
    start: Instant,
    cpu: Duration,
}

impl Meter {
    pub fn start() -> Self {
        Self {
            cpu: processor_time(),
            start: Instant::now(),
        }
    }

    pub fn stop(self) -> Spent {
        Spent {
            wall: self.start.elapsed(),
            cpu: processor_time().saturating_sub(self.cpu),
        }
    }
}

fn processor_time() -> Duration {
    time_of(ClockId::ProcessCPUTime)
}

/// User and system time of the calling thread.
pub fn own_time() -> Duration {
    time_of(ClockId::ThreadCPUTime)
}

fn time_of(clock: ClockId) -> Duration {
    let time = clock_gettime(clock);
    let seconds = time.tv_sec.try_into().expect("time used is positive");
    let nanos = time.tv_nsec.try_into().expect("below 10^9");
    Duration::new(seconds, nanos)
}

/// The peak of the resident memory, in bytes. Not from `getrusage`, whose peak survives an exec and
/// so may be that of the parent process.
pub fn peak_memory() -> Option<f64> {
    status_of("/proc/self/status", "VmHWM:").map(|kib| kib * 1024.0)
}

/// The resident memory now, in bytes.
pub fn resident_memory() -> Option<f64> {
    status_of("/proc/self/status", "VmRSS:").map(|kib| kib * 1024.0)
}

/// Live threads of this process.
pub fn threads() -> Option<f64> {
    status_of("/proc/self/status", "Threads:")
}

/// How often the live threads of this process have gone to sleep so far.
pub fn sleeps() -> Option<f64> {
    let threads = fs::read_dir("/proc/self/task").ok()?;
    let each = threads.flatten().filter_map(|thread| {
        status_of(
            thread.path().join("status").to_str()?,
            "voluntary_ctxt_switches:",
        )
    });
    Some(each.sum())
}

fn status_of(path: &str, key: &str) -> Option<f64> {
    value_of(&fs::read_to_string(path).ok()?, key)
}

/// The number behind `key` in a table of lines like `VmRSS:  1234 kB`.
fn value_of(table: &str, key: &str) -> Option<f64> {
    let line = table.lines().find_map(|line| line.strip_prefix(key))?;
    line.split_whitespace().next()?.parse().ok()
}

/// Logical processors that this process may use.
pub fn cores() -> u32 {
    std::thread::available_parallelism().map_or(1, |cores| {
        u32::try_from(cores.get()).expect("fewer cores than that")
    })
}

/// Makes the sleeps of this thread end on time. By default the kernel adds some 50 microseconds to
/// each, which is as long as the pauses used here.
pub fn sleep_exactly() {
    #[cfg(target_os = "linux")]
    let _ = rustix::thread::set_current_timer_slack(std::num::NonZeroU64::new(1));
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_table_of_the_kernel_is_read_by_key() {
        let table = "Name:\tx\nVmHWM:\t    4321 kB\nThreads:\t7\n";
        assert_eq!(value_of(table, "VmHWM:"), Some(4321.0));
        assert_eq!(value_of(table, "Threads:"), Some(7.0));
        assert_eq!(value_of(table, "VmRSS:"), None);
    }

    #[test]
    fn own_time_is_that_of_one_thread() {
        let before = own_time();
        let other = std::thread::spawn(|| {
            while own_time() < Duration::from_millis(20) {
                std::hint::spin_loop();
            }
        });
        other.join().expect("it does not panic");
        assert!(own_time().saturating_sub(before) < Duration::from_millis(20));
    }

    #[test]
    fn a_sleep_takes_wall_time_and_hardly_any_processor_time() {
        let meter = Meter::start();
        std::thread::sleep(Duration::from_millis(20));
        let spent = meter.stop();
        assert!(spent.wall >= Duration::from_millis(20));
        assert!(spent.cpu < spent.wall + Duration::from_secs(1));
    }
}
