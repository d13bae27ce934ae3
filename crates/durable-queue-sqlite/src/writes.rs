//! Hears of what other processes commit, from the system: a write to the log beside the file.
//!
//! Not for: what was committed. A write says that something may have been, or is about to be: the
//! log is written before the commit can be seen, and a sync of the disk may lie in between. So a write
//! is followed by looks at longer and longer intervals, and what becomes visible `t` after the write
//! is found within `(GROWTH + 1) * t`, or [`FIRST_LOOK`].
//!
//! # What always holds
//! 1. The last write is followed by a whole row of looks, whatever was found before it.
//! 2. Looks are [`BUSY`] apart while writes go on, which may be those of this process.
//! 3. Nothing is done while nothing is written.

use std::io;
use std::mem::MaybeUninit;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fd::OwnedFd;
use rustix::fs::inotify::{self, CreateFlags, WatchFlags};
use rustix::io::Errno;
use sync_shim::atomic::{AtomicBool, Ordering::Relaxed};
use sync_shim::fork_count;
use sync_shim::thread::{ThreadOptions, spawn_thread};

/// From the first write after a silence to the look that follows. Most commits are visible then.
const FIRST_LOOK: Duration = Duration::from_millis(1);
/// From look to look while writes go on.
const BUSY: Duration = Duration::from_millis(5);
/// The factor between the intervals of looks after a write.
const GROWTH: u32 = 4;
/// A row of looks ends with an interval longer than this: the pump's own safety net is as wide.
const LONGEST: Duration = durable_queue::SAFETY_LOOK;

/// Listens until it is dropped; a look that is under way then may still come.
#[derive(Debug)]
pub(super) struct Listening(Arc<Listener>);

#[derive(Debug)]
struct Listener {
    /// `fork_count()` where the thread is.
    forks: usize,
    events: OwnedFd,
    watch: i32,
    ended: AtomicBool,
}

impl Listening {
    /// Calls `look` after writes to the file `log`, on a thread of its own, until that says `false`.
    ///
    /// # Errors
    /// If the system has no more watches or threads, or no such file.
    pub(super) fn start(
        log: &Path,
        mut look: impl FnMut() -> bool + Send + 'static,
    ) -> io::Result<Self> {
        let events = inotify::init(CreateFlags::CLOEXEC | CreateFlags::NONBLOCK)?;
        let watch = inotify::add_watch(&events, log, WatchFlags::MODIFY)?;
        let listener = Arc::new(Listener {
            forks: fork_count(),
            events,
            watch,
            ended: AtomicBool::new(false),
        });
        let listening = Self(Arc::clone(&listener));
        let options = ThreadOptions {
            name: Some("durable-writes"),
            ..ThreadOptions::default()
        };
        drop(spawn_thread(options, move || listener.run(&mut look))?);
        Ok(listening)
    }
}

impl Drop for Listening {
    fn drop(&mut self) {
        if fork_count() != self.0.forks {
            return; // The watch is the parent's as well.
        }
        // Relaxed: the system calls below and in the thread order it.
        self.0.ended.store(true, Relaxed);
        // Which is an event, and wakes the thread. It can fail for a file that is gone: that was one.
        inotify::remove_watch(&self.0.events, self.0.watch).ok();
    }
}

/// What the thread does next.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Pace {
    /// Waits for a write.
    Quiet,
    /// Looks after this interval, or [`BUSY`] after a write.
    After(Duration),
}

impl Pace {
    /// Whether to look now, and what comes then: an interval has ended, or a write has ended it.
    fn next(self, is_written: bool) -> (bool, Self) {
        match self {
            // A write that ends a silence. It is not committed yet.
            Self::Quiet => (false, Self::After(FIRST_LOOK)),
            Self::After(pause) if is_written && pause > BUSY => (false, Self::After(FIRST_LOOK)),
            // The row begins anew: what is written now may become visible later.
            Self::After(_) if is_written => (true, Self::After(BUSY)),
            Self::After(pause) if pause * GROWTH > LONGEST => (true, Self::Quiet),
            Self::After(pause) => (true, Self::After(pause * GROWTH)),
        }
    }
}

impl Listener {
    fn run(&self, look: &mut dyn FnMut() -> bool) {
        // What was written before there was a watch may not be visible yet.
        let mut pace = Pace::After(FIRST_LOOK);
        loop {
            let waited = match pace {
                Pace::Quiet => self.wait(None),
                Pace::After(pause) => {
                    sleep(pause.min(BUSY));
                    self.wait(Some(pause.saturating_sub(BUSY)))
                }
            };
            // Taken before the look: a write that comes after is another event.
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

    /// Until there is an event, or the time is up.
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

/// Deaf to writes, so that a burst of them is one.
fn sleep(time: Duration) {
    interrupted(poll(&mut [], timespec(Some(time)).as_ref())).ok();
}

fn timespec(time: Option<Duration>) -> Option<Timespec> {
    time.and_then(|time| Timespec::try_from(time).ok())
}

/// A signal ends a wait early, which harms nothing.
fn interrupted(ended: rustix::io::Result<usize>) -> rustix::io::Result<()> {
    match ended {
        Ok(_) | Err(Errno::INTR) => Ok(()),
        Err(error) => Err(error),
    }
}

#[cfg(all(test, not(anthill_loom)))]
mod tests {
    use super::*;

    /// The intervals at which looks follow a write that ended a silence.
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
            // What became visible just after the look before is found by this one.
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
            // Either it is looked at once, or the first look comes soon.
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
