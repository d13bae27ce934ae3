use std::collections::HashSet;
use std::thread;

use sync_shim::unique_id;

#[testkit::test]
fn every_identifier_is_unique() {
    let ids: HashSet<u64> = thread::scope(|scope| {
        let threads: Vec<_> = (0..8)
            .map(|_| scope.spawn(|| (0..1000).map(|_| unique_id()).collect::<Vec<_>>()))
            .collect();
        threads
            .into_iter()
            .flat_map(|ids| ids.join().unwrap())
            .collect()
    });
    assert_eq!(ids.len(), 8000);
    assert!(!ids.contains(&0), "0 stands for none");
}

#[cfg(unix)]
mod forked {
    use std::time::{Duration, Instant};

    use sync_shim::{Clock, MonotonicClock, Process, fork_count};
    use testkit::{CountingWaker, in_child};

    /// Runs `check` in a forked copy of this process and says whether it held there.
    fn in_fork(check: impl FnOnce() -> bool) -> bool {
        // SAFETY: the copy runs `check` on its only thread and leaves without unwinding or
        // running exit handlers.
        let child = unsafe { libc::fork() };
        assert_ne!(child, -1, "no memory to fork");
        if child == 0 {
            // SAFETY: both take numbers only. The alarm signal is the copy's watchdog.
            unsafe { libc::alarm(60) };
            let code = i32::from(!check());
            // SAFETY: as above.
            unsafe { libc::_exit(code) };
        }
        let mut status = 0;
        // SAFETY: `status` outlives the call.
        let ended = unsafe { libc::waitpid(child, &raw mut status, 0) };
        assert_eq!(ended, child);
        libc::WIFEXITED(status) && libc::WEXITSTATUS(status) == 0
    }

    #[test]
    fn the_fork_count_grows_in_the_child_only() {
        let before = fork_count();
        assert!(in_fork(|| fork_count() == before + 1));
        assert!(!in_fork(|| false), "a check that fails is noticed");
        assert_eq!(fork_count(), before);
    }

    #[test]
    fn a_process_is_current_in_itself_and_refused_in_its_forked_child() {
        let process = Process::current();
        assert!(in_fork(
            || !process.is_current() && process.check(7) == Err(7)
        ));
        assert!(process.is_current() && process.check(7) == Ok(()));
        assert!(!Process::NONE.is_current());
    }

    #[testkit::test]
    fn a_forked_child_of_a_process_with_an_alarm_thread_gets_no_alarm() {
        // In a process of its own: with other threads about, a copy can do little.
        let test =
            "process::forked::a_forked_child_of_a_process_with_an_alarm_thread_gets_no_alarm";
        let end = in_child(test, || {
            let counter = CountingWaker::new();
            let alarm = MonotonicClock.wake_at(Instant::now(), counter.waker());
            counter.wait_for_wakes(1);
            drop(alarm);
            let when = Instant::now() + Duration::from_secs(3600);
            let late = MonotonicClock.wake_at(when, counter.waker()).unwrap();
            assert!(in_fork(|| {
                MonotonicClock.wake_at(when, counter.waker()).is_err()
            }));
            drop(late);
        });
        assert!(end.is_ok(), "{end:?}");
    }
}
