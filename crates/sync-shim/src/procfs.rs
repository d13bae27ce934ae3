//! States of threads, from procfs.

use std::fs::File;
use std::io::Read;

/// Bytes that hold the beginning of any thread's line up to the state: the thread's identifier, and its name of at most
/// 64 bytes in parentheses.
const ENOUGH: usize = 128;

/// Returns whether the thread of this process has a core or waits for one.
pub(crate) fn is_runnable(thread: libc::pid_t) -> bool {
    state_of(thread) == Some(b'R')
}

/// Returns the letter of the thread's state; `None` without procfs, or if the thread has ended.
fn state_of(thread: libc::pid_t) -> Option<u8> {
    let mut begin = [0; ENOUGH];
    let mut file = File::open(format!("/proc/self/task/{thread}/stat")).ok()?;
    let count = file.read(&mut begin).ok()?;
    letter(&begin[..count])
}

/// Returns the state in the line of a thread: the field after the name, which may contain any character.
fn letter(line: &[u8]) -> Option<u8> {
    let name_end = line.iter().rposition(|&byte| byte == b')')?;
    line.get(name_end + 2).copied()
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;
    use std::thread;

    use super::*;
    use crate::thread::SystemThread;

    #[test]
    fn the_state_follows_the_last_parenthesis() {
        assert_eq!(letter(b"12 (a) S) R 1 2"), Some(b'R'));
        assert_eq!(letter(b"12 (worker"), None);
        assert_eq!(letter(b"12 (worker)"), None);
        assert_eq!(letter(b""), None);
    }

    #[testkit::test]
    fn a_thread_that_runs_is_runnable_and_one_that_waits_or_has_ended_is_not() {
        assert!(SystemThread::current().is_runnable());
        let (ask, asked) = mpsc::channel::<()>();
        let (tell, told) = mpsc::channel();
        let other = thread::spawn(move || {
            tell.send(SystemThread::current()).unwrap();
            asked.recv().unwrap_err();
        });
        let system = told.recv().unwrap();
        let wait_until_it_rests = || {
            while system.is_runnable() {
                thread::yield_now();
            }
        };
        wait_until_it_rests();
        drop(ask);
        other.join().unwrap();
        wait_until_it_rests(); // A join may return shortly before the system's thread has ended.
    }
}
