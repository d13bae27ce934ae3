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

    use sync_shim::{Clock, MonotonicClock, fork_count};
    use testkit::{CountingWaker, in_child};

    /// Runs `check` in a fork of this process and returns whether it held there.
    fn in_fork(check: impl FnOnce() -> bool) -> bool {
        // SAFETY: the child runs `check` on its only thread and exits without unwinding or running exit
        // handlers.
        let child = unsafe { libc::fork() };
        assert_ne!(child, -1, "the process can fork");
        if child == 0 {
            // SAFETY: both calls take numbers only. The alarm signal ends a child that hangs.
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
        assert!(!in_fork(|| false), "a failed check is reported");
        assert_eq!(fork_count(), before);
    }

    #[testkit::test]
    fn a_forked_child_of_a_process_with_an_alarm_thread_gets_no_alarm() {
        // In a process of its own: a fork of a process with other threads can hardly do anything.
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
