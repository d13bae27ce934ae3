//! Time limits of futures, with and without alarms.

use std::io;
use std::task::{Poll, Waker};
use std::time::{Duration, Instant};

use sync_shim::{Alarm, Clock, Deadline, ManualClock, Parker, Time};
use testkit::{CountingWaker, block_on_counted, in_child};

const SECOND: Duration = Duration::from_secs(1);

/// A clock that has no alarms until it is allowed to.
#[derive(Clone, Debug, Default)]
struct Refusing(ManualClock, std::sync::Arc<std::sync::atomic::AtomicBool>);

impl Refusing {
    fn allow(&self) {
        self.1.store(true, std::sync::atomic::Ordering::SeqCst);
    }
}

impl Clock for Refusing {
    fn now(&self) -> Instant {
        self.0.now()
    }

    fn park_until(&self, parker: &Parker, when: Instant) -> bool {
        self.0.park_until(parker, when)
    }

    fn wake_at(&self, when: Instant, waker: Waker) -> io::Result<Alarm> {
        if self.1.load(std::sync::atomic::Ordering::SeqCst) {
            self.0.wake_at(when, waker)
        } else {
            Err(io::ErrorKind::WouldBlock.into())
        }
    }
}

#[testkit::test]
fn a_deadline_has_one_alarm_for_its_last_waker() {
    let clock = ManualClock::new();
    let wakers = [CountingWaker::new(), CountingWaker::new()];
    let mut deadline = Deadline::new(Some(clock.now() + SECOND));
    for waker in &wakers {
        let waker = waker.waker();
        for _ in 0..2 {
            assert!(deadline.poll(&clock, &waker).is_pending());
        }
    }
    assert_eq!(clock.sleepers(), 1);
    clock.advance(SECOND);
    assert_eq!(wakers.each_ref().map(CountingWaker::wakes), [0, 1]);
    assert!(deadline.poll(&clock, Waker::noop()).is_ready());
    drop(deadline);
    assert_eq!(wakers.each_ref().map(CountingWaker::wakers), [0, 0]);
    assert!(Deadline::new(None).poll(&clock, Waker::noop()).is_pending());
}

#[testkit::test]
fn without_alarms_a_deadline_ends_when_its_time_has_come_and_not_before() {
    let clock = Refusing::default();
    let at = clock.now() + SECOND;
    let (mut deadline, waker) = (Deadline::new(Some(at)), CountingWaker::new());
    for polls in 1..4 {
        let time = deadline.arm(&clock, &waker.waker());
        assert_eq!(time, Time::LeftWithoutAlarm(at));
        assert!(deadline.poll(&clock, &waker.waker()).is_pending());
        assert_eq!(waker.wakes(), polls, "the poll is repeated");
    }
    clock.0.advance(SECOND);
    assert_eq!(deadline.poll(&clock, &waker.waker()), Poll::Ready(()));
    assert_eq!(waker.wakes(), 3);
}

#[testkit::test]
fn a_poll_after_a_refused_alarm_sets_one_if_it_can() {
    let clock = Refusing::default();
    let (waker, at) = (CountingWaker::new(), clock.now() + SECOND);
    let mut deadline = Deadline::new(Some(at));
    assert!(deadline.poll(&clock, &waker.waker()).is_pending());
    clock.allow();
    assert!(deadline.poll(&clock, &waker.waker()).is_pending());
    assert_eq!((waker.wakes(), clock.0.sleepers()), (1, 1));
    clock.0.advance(SECOND);
    assert_eq!(waker.wakes(), 2);
}

#[cfg(target_os = "linux")]
#[testkit::test]
fn without_an_alarm_thread_a_deadline_does_not_keep_the_processor_busy() {
    let test = "deadline::without_an_alarm_thread_a_deadline_does_not_keep_the_processor_busy";
    let end = in_child(test, || {
        let clock = sync_shim::MonotonicClock;
        let begin = Instant::now();
        let at = begin + Duration::from_millis(50);
        let mut deadline = Deadline::new(Some(at));
        let ((), polls) = testkit::without_threads(|| {
            block_on_counted(std::future::poll_fn(|context| {
                deadline.poll(&clock, context.waker())
            }))
        });
        assert!(Instant::now() >= at);
        // Each poll but the last blocks for that long, except the one that blocks until the deadline.
        let paces = begin.elapsed().as_millis() / sync_shim::LONGEST_PACE.as_millis();
        assert!(u128::from(polls) <= paces + 2, "{polls} polls");
    });
    assert!(end.is_ok(), "{end:?}");
}
