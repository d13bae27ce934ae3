//! Queues in a forked child: no call waits for threads of the parent.

use std::num::NonZeroUsize;
use std::time::Instant;

use delay_queue::{
    DelayQueue, Expired, ManualClock, PushError, PushFuture, TakeError, TakeFuture, TakeManyFuture,
    WaitIdleFuture,
};
use testkit::{block_on, check_in_forks, fork_cases, in_child, in_fork, ready};

use crate::support::{NOW, SECOND, poll, taker, wait_asleep};

type Queue = DelayQueue<u32, ManualClock>;
/// The result of a push.
type Refused = Result<delay_queue::EntryId, PushError<u32>>;

/// The queues that a child inherits. None of their entries is ever due.
struct Inherited {
    /// A full queue, with a leader that waits in the parent.
    full: Queue,
    later: Instant,
    push: PushFuture<u32, ManualClock>,
    take: TakeFuture<u32, ManualClock>,
    idle: WaitIdleFuture<u32, ManualClock>,
    #[cfg(feature = "stream")]
    stream: delay_queue::TakeStream<u32, ManualClock>,
    /// A queue whose one entry is held by a feeder that waits for a receiver.
    #[cfg(feature = "channel")]
    fed: Queue,
    #[cfg(feature = "channel")]
    feeder: Option<delay_queue::Feeder>,
}

fn stayed<T>(taken: &Result<T, TakeError>) -> bool {
    matches!(taken, Err(TakeError::Forked))
}

fn refused(pushed: &Refused) -> bool {
    matches!(pushed, Err(PushError::Forked(9)))
}

fn batch(
    take: impl FnOnce(&mut Vec<Expired<u32>>, NonZeroUsize) -> Result<usize, TakeError>,
) -> bool {
    let mut into = Vec::new();
    stayed(&take(&mut into, NonZeroUsize::MIN)) && into.is_empty()
}

const CASES: &[testkit::ForkCase<Inherited>] = fork_cases! { it: Inherited;
    "DelayQueue::push" => refused(&it.full.push(9, NOW));
    "DelayQueue::push_at" => refused(&it.full.push_at(9, it.later));
    "DelayQueue::push_timeout" => {
        refused(&it.full.push_timeout(9, NOW, SECOND)) && refused(&it.full.push_timeout(9, NOW, it.later))
    };
    "DelayQueue::push_at_timeout" => refused(&it.full.push_at_timeout(9, it.later, SECOND));
    "DelayQueue::push_async" => refused(&ready(it.full.push_async(9, NOW)));
    "DelayQueue::push_at_async" => refused(&ready(it.full.push_at_async(9, it.later)));
    "PushFuture::poll" => refused(&ready(&mut it.push));
    "PushFuture::drop" => { drop(std::mem::replace(&mut it.push, it.full.push_async(9, NOW))); true };
    "DelayQueue::take" => stayed(&it.full.take());
    "DelayQueue::take_timeout" => stayed(&it.full.take_timeout(SECOND)) && stayed(&it.full.take_timeout(it.later));
    "DelayQueue::take_async" => stayed(&ready(it.full.take_async()));
    "TakeFuture::poll" => stayed(&ready(&mut it.take));
    "TakeFuture::drop" => { drop(std::mem::replace(&mut it.take, it.full.take_async())); true };
    "DelayQueue::take_many" => batch(|into, most| it.full.take_many(into, most));
    "DelayQueue::take_many_timeout" => {
        batch(|into, most| it.full.take_many_timeout(into, most, SECOND))
            && batch(|into, most| it.full.take_many_timeout(into, most, it.later))
    };
    "DelayQueue::take_many_async" | "TakeManyFuture::poll" | "TakeManyFuture::drop" => {
        batch(|into, most| {
            let future: TakeManyFuture<'_, _, _> = it.full.take_many_async(into, most);
            ready(future)
        })
    };
    "DelayQueue::wait_idle" => !it.full.wait_idle();
    "DelayQueue::wait_idle_timeout" => !it.full.wait_idle_timeout(SECOND) && !it.full.wait_idle_timeout(it.later);
    "DelayQueue::wait_idle_async" => !ready(it.full.wait_idle_async());
    "WaitIdleFuture::poll" => !ready(&mut it.idle);
    "WaitIdleFuture::drop" => { drop(std::mem::replace(&mut it.idle, it.full.wait_idle_async())); true };
    // These calls never wait.
    "DelayQueue::try_push" => matches!(it.full.try_push(9, NOW), Err(PushError::Full(9)));
    "DelayQueue::try_push_at" => matches!(it.full.try_push_at(9, it.later), Err(PushError::Full(9)));
    "DelayQueue::try_take" => matches!(it.full.try_take(), Err(TakeError::NotDue));
    "DelayQueue::try_take_many" => {
        matches!(it.full.try_take_many(&mut Vec::new(), NonZeroUsize::MIN), Err(TakeError::NotDue))
    };
    "DelayQueue::drain_ready" => it.full.drain_ready(9).is_empty();
    "DelayQueue::close" => it.full.close() && matches!(it.full.take(), Err(TakeError::Forked));
    "DelayQueue::close_now" => it.full.close_now().len() == 1;
};

#[cfg(feature = "stream")]
const OF_STREAMS: &[testkit::ForkCase<Inherited>] = fork_cases! { it: Inherited;
    "DelayQueue::stream" => {
        use futures_lite::StreamExt;
        let mut stream = it.full.stream();
        let first = testkit::block_on(stream.next());
        // A loop that skips errors ends.
        matches!(first, Some(Err(TakeError::Forked))) && testkit::block_on(stream.next()).is_none()
    };
    "TakeStream::poll_next" => {
        use futures_lite::StreamExt;
        matches!(testkit::block_on(it.stream.next()), Some(Err(TakeError::Forked)))
    };
};

#[cfg(feature = "channel")]
const OF_CHANNELS: &[testkit::ForkCase<Inherited>] = fork_cases! { it: Inherited;
    "DelayQueue::channel" => it.full.channel(0).is_err();
    "Feeder::stop" => {
        it.feeder.take().expect("it is there").stop();
        it.fed.close_now().is_empty() // The feeder's entry stays in the parent.
    };
};

#[test]
fn no_call_on_a_queue_waits_in_a_forked_child() {
    let ended = in_child("forks::no_call_on_a_queue_waits_in_a_forked_child", || {
        let clock = ManualClock::new();
        let built = DelayQueue::builder().bound(1).clock(clock.clone()).build();
        let full = built.expect("it has room");
        full.push(1, 3600 * SECOND).expect("there is room");
        let leader = taker(&full);
        wait_asleep(&full, 1);
        let (mut push, mut take, mut idle) = (
            full.push_async(9, NOW),
            full.take_async(),
            full.wait_idle_async(),
        );
        assert!(poll(&mut push).is_pending());
        assert!(poll(&mut take).is_pending());
        assert!(poll(&mut idle).is_pending());
        #[cfg(feature = "channel")]
        let (fed, receiver, feeder) = {
            let fed = DelayQueue::with_clock(clock.clone());
            let (receiver, feeder) = fed.channel(0).expect("a thread starts");
            fed.push(1, NOW).expect("it is open");
            crate::support::until(|| fed.is_empty());
            (fed, receiver, feeder)
        };
        let mut inherited = Inherited {
            later: delay_queue::Clock::now(&clock) + SECOND,
            push,
            take,
            idle,
            #[cfg(feature = "stream")]
            stream: full.stream(),
            #[cfg(feature = "channel")]
            fed,
            #[cfg(feature = "channel")]
            feeder: Some(feeder),
            full,
        };
        check_in_forks(&mut inherited, CASES);
        #[cfg(feature = "stream")]
        check_in_forks(&mut inherited, OF_STREAMS);
        #[cfg(feature = "channel")]
        {
            check_in_forks(&mut inherited, OF_CHANNELS);
            assert!(receiver.recv().is_ok(), "the parent's goes on");
        }
        inherited.full.close_now();
        assert!(leader.join().expect("it does not panic").is_err());
    });
    assert!(ended.is_ok(), "{ended:?}");
}

/// Takes an entry as a future, which needs an alarm.
fn takes_in_time() {
    const DELAY: std::time::Duration = std::time::Duration::from_millis(5);
    let (queue, begin) = (DelayQueue::new(), Instant::now());
    queue.push(7, DELAY).unwrap();
    let taken = block_on(queue.take_async());
    assert!(taken.is_ok_and(|entry| entry.value == 7));
    assert!(begin.elapsed() >= DELAY);
}

#[test]
fn a_queue_made_in_a_forked_child_has_alarms_although_its_parent_had_some() {
    let test = "forks::a_queue_made_in_a_forked_child_has_alarms_although_its_parent_had_some";
    let ended = in_child(test, || {
        takes_in_time();
        assert_eq!(in_fork(takes_in_time), Ok(()));
        takes_in_time();
    });
    assert!(ended.is_ok(), "{ended:?}");
}

#[cfg(target_os = "linux")]
#[test]
fn a_future_takes_in_time_although_no_thread_can_be_started() {
    let test = "forks::a_future_takes_in_time_although_no_thread_can_be_started";
    let ended = in_child(test, || {
        testkit::without_threads(takes_in_time);
        takes_in_time();
    });
    assert!(ended.is_ok(), "{ended:?}");
}

#[cfg(all(target_os = "linux", feature = "channel"))]
#[testkit::test]
fn a_feeder_does_not_inherit_from_its_starter() {
    let queue = DelayQueue::<u32>::new();
    let (receiver, feeder) = testkit::on_special_thread(|| queue.channel(0)).unwrap();
    testkit::wait_for_service_threads("anthill-feeder");
    feeder.stop();
    drop(receiver);
}
