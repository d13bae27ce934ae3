//! Queues in a forked child: no call waits there for threads of the parent.

use std::num::NonZeroUsize;
use std::time::Instant;

use dedup_queue::{
    DedupDelayQueue, Delaying, DrainFuture, Drained, GetError, GetFuture, Held, MonotonicClock,
    Outcome, Pending,
};
use testkit::{ForkCase, block_on, check_in_forks, fork_cases, in_child, in_fork, ready};

use crate::support::{MS, poll};

type State = std::hash::RandomState;

/// The state that a child inherits.
struct Inherited {
    /// The parent holds key 1. Key 2 has a long delay. No key is ready.
    queue: DedupDelayQueue<u32>,
    held: Option<Held<'static, u32, Delaying>>,
    later: Instant,
    get: GetFuture<u32, State, MonotonicClock, Delaying>,
    #[cfg(feature = "stream")]
    stream: dedup_queue::GetStream<u32, State, MonotonicClock, Delaying>,
}

const THREE: NonZeroUsize = NonZeroUsize::new(3).unwrap();

fn stayed<T>(got: &Result<T, GetError>) -> bool {
    matches!(got, Err(GetError::Forked))
}

/// The undelivered key is returned once.
fn left_over(drained: &Drained<u32>) -> bool {
    let Drained {
        outcome: Outcome::Forked,
        leftovers: Some(left),
        ..
    } = drained
    else {
        return false;
    };
    let held = (left.held[0].key, left.held[0].pending);
    left.ready.is_empty() && held == (1, Some(Pending::Dirty)) && left.delayed[0].key == 2
}

fn dirty(it: &Inherited) -> &DedupDelayQueue<u32> {
    it.queue.add(1).expect("it is open");
    &it.queue
}

const CASES: &[ForkCase<Inherited>] = fork_cases! { it: Inherited;
    "KeyQueue::get" => {
        // A ready key is taken.
        it.queue.add(3).expect("it is open");
        it.queue.get().is_ok() && stayed(&it.queue.get())
    };
    "KeyQueue::get_timeout" => stayed(&it.queue.get_timeout(MS)) && stayed(&it.queue.get_timeout(it.later));
    "KeyQueue::get_batch" => stayed(&it.queue.get_batch(THREE));
    "KeyQueue::get_batch_timeout" => stayed(&it.queue.get_batch_timeout(THREE, MS));
    "KeyQueue::get_batch_async" => stayed(&ready(it.queue.get_batch_async(THREE)));
    "KeyQueue::get_async" => stayed(&ready(it.queue.get_async()));
    "GetFuture::poll" => stayed(&ready(&mut it.get));
    "GetFuture::drop" => { drop(std::mem::replace(&mut it.get, it.queue.get_async())); true };
    "KeyQueue::drain" => {
        let queue = dirty(it);
        left_over(&queue.drain()) && queue.drain().outcome == Outcome::Forked
    };
    "KeyQueue::drain_timeout" => left_over(&dirty(it).drain_timeout(MS));
    "KeyQueue::drain_timeout" => left_over(&dirty(it).drain_timeout(it.later));
    "KeyQueue::drain_async" | "DrainFuture::poll" | "DrainFuture::drop" => {
        let drain: DrainFuture<_, _, _, _> = dirty(it).drain_async();
        left_over(&ready(drain))
    };
    "KeyQueue::wait_idle" => !it.queue.wait_idle();
    "KeyQueue::wait_idle_timeout" => !it.queue.wait_idle_timeout(MS) && !it.queue.wait_idle_timeout(it.later);
    "KeyQueue::wait_idle_async" => !ready(it.queue.wait_idle_async());
    // These calls never wait.
    "KeyQueue::try_get" => matches!(it.queue.try_get(), Err(GetError::Empty));
    "KeyQueue::try_get_batch" => matches!(it.queue.try_get_batch(THREE), Err(GetError::Empty));
    "KeyQueue::shut_down" => it.queue.shut_down() && matches!(it.queue.try_get(), Err(GetError::Closed));
    "Held::drop" => { drop(it.held.take()); it.queue.is_empty() };
    "Entries::next" => it.queue.entries().count() == 2;
};

#[cfg(feature = "stream")]
const OF_STREAMS: &[ForkCase<Inherited>] = fork_cases! { it: Inherited;
    "KeyQueue::stream" => {
        use futures_lite::StreamExt;
        let mut stream = it.queue.stream();
        let first = testkit::block_on(stream.next());
        // A loop that skips errors ends.
        matches!(first, Some(Err(GetError::Forked))) && testkit::block_on(stream.next()).is_none()
    };
    "GetStream::poll_next" => {
        use futures_lite::StreamExt;
        matches!(testkit::block_on(it.stream.next()), Some(Err(GetError::Forked)))
    };
};

#[test]
fn no_call_on_a_queue_waits_in_a_forked_child() {
    let ended = in_child("forks::no_call_on_a_queue_waits_in_a_forked_child", || {
        let queue = DedupDelayQueue::<u32>::new();
        queue.add(1).unwrap();
        queue.add_after(2, 1_000_000 * MS).unwrap();
        let held = queue.get().unwrap().into_owned();
        let mut get = queue.get_async();
        assert!(poll(&mut get).is_pending());
        let mut inherited = Inherited {
            held: Some(held),
            later: Instant::now() + MS,
            get,
            #[cfg(feature = "stream")]
            stream: queue.stream(),
            queue,
        };
        check_in_forks(&mut inherited, CASES);
        #[cfg(feature = "stream")]
        check_in_forks(&mut inherited, OF_STREAMS);
    });
    assert!(ended.is_ok(), "{ended:?}");
}

/// Gets a key as a future, which needs an alarm.
fn gets_in_time() {
    let (queue, begin) = (DedupDelayQueue::new(), Instant::now());
    queue.add_after(7, 5 * MS).unwrap();
    assert!(block_on(queue.get_async()).is_ok_and(|held| *held.key() == 7));
    assert!(begin.elapsed() >= 5 * MS);
}

#[test]
fn a_queue_made_in_a_forked_child_has_alarms_although_its_parent_had_some() {
    let test = "forks::a_queue_made_in_a_forked_child_has_alarms_although_its_parent_had_some";
    let ended = in_child(test, || {
        gets_in_time();
        assert_eq!(in_fork(gets_in_time), Ok(()));
        gets_in_time();
    });
    assert!(ended.is_ok(), "{ended:?}");
}

#[cfg(target_os = "linux")]
#[test]
fn a_future_gets_in_time_although_no_thread_can_be_started() {
    let test = "forks::a_future_gets_in_time_although_no_thread_can_be_started";
    let ended = in_child(test, || {
        testkit::without_threads(gets_in_time);
        gets_in_time();
    });
    assert!(ended.is_ok(), "{ended:?}");
}
