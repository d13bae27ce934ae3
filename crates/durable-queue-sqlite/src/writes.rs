//! File notifications of the operating system: writes to the log next to the file.
//!
//! A write means that a commit may have happened or is about to: the log is written before the commit becomes
//! visible, with a disk sync in between. So a write is followed by looks at increasing intervals. A commit
//! that becomes visible `t` after the write is found within `(GROWTH + 1) * t`, or within [`FIRST_LOOK`].
//!
//! # Invariants
//! 1. The last write is followed by a complete series of looks, whatever earlier looks have found.
//! 2. During continuous writes, also of this process, looks are [`BUSY`] apart.
//! 3. Without writes the thread does nothing.

use std::io;
use std::mem::MaybeUninit;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fd::OwnedFd;
use rustix::fs::inotify::{self, CreateFlags, WatchFlags};
use rustix::io::Errno;
use sync_shim::Process;
use sync_shim::atomic::{AtomicBool, Ordering::Relaxed};
use sync_shim::thread::{ThreadOptions, spawn_service};

/// Time from the first write after a pause to the first look. Most commits are visible by then.
const FIRST_LOOK: Duration = Duration::from_millis(1);
/// Interval between looks during continuous writes.
const BUSY: Duration = Duration::from_millis(5);
/// Growth factor of the intervals after a write.
const GROWTH: u32 = 4;
/// A series of looks ends with an interval longer than this, the interval of the pump's own safety net.
const LONGEST: Duration = durable_queue::internals::SAFETY_LOOK;

/// Listens until dropped. A look in progress may still happen.
#[derive(Debug)]
pub(super) struct Listening(Arc<Listener>);

#[derive(Debug)]
struct Listener {
    /// Runs the thread.
    process: Process,
    events: OwnedFd,
    watch: i32,
    ended: AtomicBool,
}

impl Listening {
    /// Calls `look` after writes to the file `log`, on its own thread, until `look` returns false.
    ///
    /// # Errors
    /// If the system has no more watches or threads, or the file does not exist.
    pub(super) fn start(
        log: &Path,
        mut look: impl FnMut() -> bool + Send + 'static,
    ) -> io::Result<Self> {
        let events = inotify::init(CreateFlags::CLOEXEC | CreateFlags::NONBLOCK)?;
        let watch = inotify::add_watch(&events, log, WatchFlags::MODIFY)?;
        let listener = Arc::new(Listener {
            process: Process::current(),
            events,
            watch,
            ended: AtomicBool::new(false),
        });
        let listening = Self(Arc::clone(&listener));
        let options = ThreadOptions {
            name: Some("durable-writes"),
            ..ThreadOptions::default()
        };
        drop(spawn_service(options, move || listener.run(&mut look))?);
        Ok(listening)
    }
}

impl Drop for Listening {
    fn drop(&mut self) {
        if !self.0.process.is_current() {
            return; // The watch belongs to the parent.
        }
        // Relaxed: the system calls here and in the thread order it.
        self.0.ended.store(true, Relaxed);
        // Removal is an event, which wakes the thread. If the file is gone, removal fails, but that was an
        // event, too.
        inotify::remove_watch(&self.0.events, self.0.watch).ok();
    }
}

/// The thread's next action.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Pace {
    /// Waits for a write.
    Quiet,
    /// Looks after this interval, or [`BUSY`] after a write.
    After(Duration),
}

impl Pace {
    /// Returns whether to look now, and the next action, after an interval has ended or a write has ended it.
    fn next(self, is_written: bool) -> (bool, Self) {
        match self {
            // The first write after a pause is not committed yet.
            Self::Quiet => (false, Self::After(FIRST_LOOK)),
            Self::After(pause) if is_written && pause > BUSY => (false, Self::After(FIRST_LOOK)),
            // The series restarts: this write may become visible later.
            Self::After(_) if is_written => (true, Self::After(BUSY)),
            Self::After(pause) if pause * GROWTH > LONGEST => (true, Self::Quiet),
            Self::After(pause) => (true, Self::After(pause * GROWTH)),
        }
    }
}

impl Listener {
    fn run(&self, look: &mut dyn FnMut() -> bool) {
        // Earlier writes may not be visible yet.
        let mut pace = Pace::After(FIRST_LOOK);
        loop {
            let waited = match pace {
                Pace::Quiet => self.wait(None),
                Pace::After(pause) => {
                    sleep(pause.min(BUSY));
                    self.wait(Some(pause.saturating_sub(BUSY)))
                }
            };
            // Read before the look, so that a later write is another event.
            let is_written = self.take_events();
            if self.ended.load(Relaxed) || waited.is_err() {
                return;
            }
            let (is_due, next) = pace.next(is_written);
            if is_due && !look() {
                return;
            }
            pace = next;
        }
    }

    /// Waits for an event, for at most `time`.
    fn wait(&self, time: Option<Duration>) -> rustix::io::Result<()> {
        if time == Some(Duration::ZERO) {
            return Ok(());
        }
        let mut events = [PollFd::new(&self.events, PollFlags::IN)];
        interrupted(poll(&mut events, timespec(time).as_ref()))
    }

    fn take_events(&self) -> bool {
        let mut buffer = [MaybeUninit::<u8>::uninit(); 1024];
        let mut found = false;
        while rustix::io::read(&self.events, &mut buffer).is_ok_and(|(read, _)| !read.is_empty()) {
            found = true;
        }
        found
    }
}

/// Sleeps without reacting to writes, so that a burst counts as one.
fn sleep(time: Duration) {
    interrupted(poll(&mut [], timespec(Some(time)).as_ref())).ok();
}

fn timespec(time: Option<Duration>) -> Option<Timespec> {
    time.and_then(|time| Timespec::try_from(time).ok())
}

/// A signal ends a wait early, which is harmless.
fn interrupted(ended: rustix::io::Result<usize>) -> rustix::io::Result<()> {
    match ended {
        Ok(_) | Err(Errno::INTR) => Ok(()),
        Err(error) => Err(error),
    }
}

#[cfg(all(test, not(anthill_loom)))]
mod tests {
    use super::*;

    /// The intervals of the looks after a write that ended a pause.
    fn row() -> Vec<Duration> {
        let (mut intervals, mut pace) = (Vec::new(), Pace::Quiet.next(true).1);
        while let Pace::After(pause) = pace {
            intervals.push(pause);
            let (is_due, next) = pace.next(false);
            assert!(is_due);
            pace = next;
        }
        intervals
    }

    #[test]
    fn a_commit_is_found_however_long_its_sync_takes() {
        let mut looked = Duration::ZERO;
        for interval in row() {
            // A commit that became visible just after the previous look is found by this one.
            let found = looked + interval;
            assert!(found <= (looked * (GROWTH + 1)).max(FIRST_LOOK));
            looked = found;
        }
        assert!(looked * GROWTH > LONGEST, "the pump's own look comes then");
    }

    #[test]
    fn a_write_among_the_looks_begins_them_anew() {
        assert_eq!(Pace::Quiet.next(true), (false, Pace::After(FIRST_LOOK)));
        for interval in row() {
            let (is_due, next) = Pace::After(interval).next(true);
            // Either there is a look at once, or the first look follows soon.
            let expected = if is_due { BUSY } else { FIRST_LOOK };
            assert_eq!(next, Pace::After(expected));
        }
    }

    #[test]
    fn a_silence_after_the_last_look_is_waited_out_without_looking() {
        let last = row().pop().expect("there are looks");
        assert_eq!(Pace::After(last).next(false), (true, Pace::Quiet));
    }
}
