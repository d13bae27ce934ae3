//! A release with grace: what was accepted goes on for so long, then the rest is given up.

use std::pin::pin;
use std::task::Poll;
use std::thread;
use std::time::Duration;

use pool_core::{FuncPool, GraceEnd, JoinError, ManualClock, Pool, WaitError, Workers, current};
use testkit::{CountingWaker, DropCounter, Gate, block_on};

use crate::support::{Journal, WithoutAlarms, end, hold, poll, poll_with, pool, until};

const GRACE: Duration = Duration::from_secs(5);
const TICK: Duration = Duration::from_nanos(1);
/// The grace, less one tick.
const BUT_A_TICK: Duration = Duration::from_nanos(4_999_999_999);

/// One worker on a clock that is moved by hand, and room behind it.
fn timed() -> (Pool, ManualClock) {
    let clock = ManualClock::new();
    let builder = Pool::builder().capacity(1).queue_depth(9);
    let builder = builder.keep_alive(None).clock(clock.clone());
    (builder.build().unwrap(), clock)
}

#[testkit::test]
fn a_pool_that_ends_within_the_grace_has_run_all_of_it_and_asked_nothing_to_stop() {
    let (pool, clock) = timed();
    let (gate, asked) = (Gate::new(), Journal::new());
    for _ in 0..3 {
        let (held, asked) = (gate.clone(), asked.clone());
        let task = move || {
            held.wait();
            asked.write(current().is_cancelled());
        };
        pool.submit(task).unwrap();
    }
    let releases = {
        let pool = pool.clone();
        thread::spawn(move || pool.release_with_grace(GRACE))
    };
    clock.wait_for_sleepers(1);
    assert!(pool.is_released());
    clock.advance(BUT_A_TICK);
    assert_eq!(pool.queued(), 2);
    gate.open();
    assert_eq!(releases.join().unwrap(), Ok(GraceEnd::Ended));
    assert_eq!(asked.entries(), [false; 3]);
    assert_eq!((pool.stats().completed, pool.running()), (3, 0));
    let again = pool.release_with_grace(GRACE);
    assert_eq!(again, Ok(GraceEnd::Ended), "it has ended");
}

#[testkit::test]
fn what_is_left_at_the_end_of_the_grace_is_dropped_and_what_runs_is_asked_and_not_awaited() {
    let (pool, clock) = timed();
    let (gate, drops) = (Gate::new(), DropCounter::new());
    let held = gate.clone();
    let runs = pool.spawn(move || {
        held.wait();
        current().is_cancelled()
    });
    gate.wait_for_arrivals(1);
    let tokens = [drops.token(), drops.token()];
    let queued = tokens.map(|token| pool.spawn(move || drop(token)).unwrap());
    let releases = {
        let pool = pool.clone();
        thread::spawn(move || pool.release_with_grace(GRACE))
    };
    clock.wait_for_sleepers(1);
    clock.advance(BUT_A_TICK);
    assert_eq!((pool.queued(), drops.alive()), (2, 2));
    clock.advance(TICK);
    assert_eq!(releases.join().unwrap(), Ok(GraceEnd::CutShort(2)));
    assert_eq!((drops.alive(), pool.in_flight()), (0, 1));
    for handle in queued {
        assert!(matches!(handle.join(), Err(JoinError::Released)));
    }
    gate.open();
    assert!(runs.unwrap().join().unwrap(), "it was asked");
    pool.wait_released().unwrap();
    assert_eq!(pool.stats().released, 2);
}

#[testkit::test]
fn a_typed_pool_gives_the_arguments_back_that_the_grace_was_too_short_for() {
    let gate = Gate::new();
    let held = gate.clone();
    let pool = FuncPool::builder(move |_: String| held.wait());
    let pool = pool.capacity(1).queue_depth(2).build().unwrap();
    for text in ["runs", "first", "second"] {
        pool.submit(text.to_owned()).unwrap();
    }
    gate.wait_for_arrivals(1);
    let back = vec!["first".to_owned(), "second".to_owned()];
    let end = pool.release_with_grace(Duration::ZERO);
    assert_eq!(end, Ok(GraceEnd::CutShort(back)));
    gate.open();
    let end = block_on(pool.release_with_grace_async(GRACE));
    assert_eq!(end, Ok(GraceEnd::Ended));
}

#[testkit::test]
fn a_pool_of_any_kind_says_how_many_tasks_the_grace_was_too_short_for() {
    fn cut(pool: &dyn Workers) -> Result<GraceEnd<usize>, WaitError> {
        pool.release_with_grace(Duration::ZERO)
    }
    let closures = Pool::builder().capacity(1).queue_depth(1).build().unwrap();
    let gate = hold(&closures, 1);
    closures.submit(|| ()).unwrap();
    assert_eq!(cut(&closures), Ok(GraceEnd::CutShort(1)));
    gate.open();
    let typed = FuncPool::builder(drop::<u8>).capacity(2).start_paused(true);
    let typed = typed.build().unwrap();
    let room = typed.reserve().unwrap(); // It holds the end up.
    typed.pause();
    typed.submit(7).unwrap();
    assert!(matches!(cut(&typed), Ok(GraceEnd::CutShort(_))));
    drop(room);
    end(&closures);
    end(&typed);
}

#[testkit::test]
fn a_release_with_grace_on_an_own_worker_is_refused_and_the_pool_released_all_the_same() {
    let pool = pool(1);
    let ours = pool.clone();
    let task = pool.spawn(move || (ours.release_with_grace(GRACE), current().is_cancelled()));
    let refused = task.unwrap().join().unwrap();
    assert_eq!(refused, (Err(WaitError::WouldDeadlock), false));
    assert!(pool.is_released());
    pool.wait_released().unwrap();
}

#[testkit::test]
fn a_reboot_within_the_grace_saves_what_was_accepted() {
    let (pool, clock) = timed();
    let gate = hold(&pool, 1);
    let queued = pool.spawn(|| current().is_cancelled()).unwrap();
    let releases = {
        let pool = pool.clone();
        thread::spawn(move || pool.release_with_grace(GRACE))
    };
    clock.wait_for_sleepers(1);
    pool.reboot();
    assert_eq!(releases.join().unwrap(), Err(WaitError::Rebooted));
    clock.advance(GRACE);
    gate.open();
    assert!(!queued.join().unwrap());
    end(&pool);
}

#[testkit::test]
fn as_a_future_it_releases_at_its_first_poll_and_cuts_short_when_the_clock_says_so() {
    let (pool, clock) = timed();
    let gate = hold(&pool, 1);
    let queued = pool.spawn(|| ()).unwrap();
    let waker = CountingWaker::new();
    let mut future = pin!(pool.release_with_grace_async(GRACE));
    clock.advance(GRACE); // It does not count yet.
    assert!(!pool.is_released());
    assert!(poll_with(&mut future, &waker.waker()).is_pending());
    assert!(pool.is_released());
    clock.advance(BUT_A_TICK);
    assert!(poll_with(&mut future, &waker.waker()).is_pending());
    assert_eq!((waker.wakes(), pool.queued()), (0, 1));
    clock.advance(TICK);
    assert_eq!((waker.wakes(), pool.queued()), (1, 1));
    assert_eq!(poll(&mut future), Poll::Ready(Ok(GraceEnd::CutShort(1))));
    assert!(matches!(queued.join(), Err(JoinError::Released)));
    gate.open();
    let end = block_on(pool.release_with_grace_async(GRACE));
    assert_eq!(end, Ok(GraceEnd::Ended));
}

#[testkit::test]
fn a_future_that_is_dropped_within_the_grace_gives_nothing_up() {
    let (pool, clock) = timed();
    let gate = hold(&pool, 1);
    let queued = pool.spawn(|| current().is_cancelled()).unwrap();
    let mut future = Box::pin(pool.release_with_grace_async(GRACE));
    assert!(poll(&mut future).is_pending());
    drop(future);
    clock.advance(GRACE);
    assert_eq!((clock.sleepers(), pool.queued()), (0, 1));
    gate.open();
    assert!(!queued.join().unwrap());
    pool.wait_released().unwrap();
}

#[testkit::test]
fn a_clock_that_wakes_no_future_gives_no_grace_and_so_nothing_is_given_up() {
    let builder = Pool::builder().capacity(1).queue_depth(1);
    let builder = builder.keep_alive(None).clock(WithoutAlarms::default());
    let pool = builder.build().unwrap();
    let gate = hold(&pool, 1);
    let queued = pool.spawn(|| 7).unwrap();
    let end = block_on(pool.release_with_grace_async(GRACE));
    assert_eq!(end, Err(WaitError::TimedOut));
    assert!(pool.is_released());
    gate.open();
    assert_eq!(queued.join().unwrap(), 7);
    until(|| pool.running() == 0);
    let end = block_on(pool.release_with_grace_async(GRACE));
    assert_eq!(end, Ok(GraceEnd::Ended));
}
