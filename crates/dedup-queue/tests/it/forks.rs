//! Queues in a forked child: no call waits for threads of the parent.

use std::num::NonZeroUsize;
use std::time::Instant;

use dedup_queue::{
    DedupDelayQueue, Delaying, DrainFuture, Drained, GetError, GetFuture, Held, MonotonicClock,
    Outcome, Pending, parallelize_chunks, parallelize_until,
};
use testkit::{ForkCase, check_in_forks, fork_cases, in_child, ready};

use crate::support::{MS, poll};

type State = std::hash::RandomState;

/// The queues that a child inherits.
struct Inherited {
    /// Key 1 is held in the parent, key 2 delayed for long, and no key is ready.
    queue: DedupDelayQueue<u32>,
    held: Option<Held<'static, u32, Delaying>>,
    later: Instant,
    get: GetFuture<u32, State, MonotonicClock, Delaying>,
    #[cfg(feature = "stream")]
    stream: dedup_queue::GetStream<u32, State, MonotonicClock, Delaying>,
    /// One of its workers is busy.
    #[cfg(feature = "pool")]
    pool: pool_core::Pool,
}

const THREE: NonZeroUsize = NonZeroUsize::new(3).unwrap();

fn stayed<T>(got: &Result<T, GetError>) -> bool {
    matches!(got, Err(GetError::Forked))
}

/// The keys that were not delivered are returned, once.
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
        // Ready keys are taken.
        it.queue.add(3).expect("it is open");
        it.queue.get().is_ok() && stayed(&it.queue.get())
    };
    "KeyQueue::get_timeout" => stayed(&it.queue.get_timeout(MS));
    "KeyQueue::get_deadline" => stayed(&it.queue.get_deadline(it.later));
    "KeyQueue::get_batch" => stayed(&it.queue.get_batch(THREE));
    "KeyQueue::get_batch_timeout" => stayed(&it.queue.get_batch_timeout(THREE, MS));
    "KeyQueue::get_async" => stayed(&ready(it.queue.get_async()));
    "GetFuture::poll" => stayed(&ready(&mut it.get));
    "GetFuture::drop" => { drop(std::mem::replace(&mut it.get, it.queue.get_async())); true };
    "KeyQueue::drain" => {
        let queue = dirty(it);
        left_over(&queue.drain()) && queue.drain().outcome == Outcome::Forked
    };
    "KeyQueue::drain_timeout" => left_over(&dirty(it).drain_timeout(MS));
    "KeyQueue::drain_deadline" => left_over(&dirty(it).drain_deadline(it.later));
    "KeyQueue::drain_async" | "DrainFuture::poll" | "DrainFuture::drop" => {
        let drain: DrainFuture<_, _, _, _> = dirty(it).drain_async();
        left_over(&ready(drain))
    };
    "KeyQueue::wait_idle" => !it.queue.wait_idle();
    "KeyQueue::wait_idle_timeout" => !it.queue.wait_idle_timeout(MS);
    "KeyQueue::wait_idle_deadline" => !it.queue.wait_idle_deadline(it.later);
    "KeyQueue::wait_idle_async" => !ready(it.queue.wait_idle_async());
    "parallelize_until" => parallelize_until(THREE, 100, || false, |_| {}).done == 100;
    "parallelize_chunks" => parallelize_chunks(THREE, 100, THREE, || false, |_| {}).done == 100;
    // These calls never wait.
    "KeyQueue::try_get" => matches!(it.queue.try_get(), Err(GetError::Empty));
    "KeyQueue::try_get_batch" => matches!(it.queue.try_get_batch(THREE), Err(GetError::Empty));
    "KeyQueue::shut_down" => it.queue.shut_down() && matches!(it.queue.get(), Err(GetError::Closed));
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

/// The caller does all pieces.
#[cfg(feature = "pool")]
const ON_POOLS: &[ForkCase<Inherited>] = fork_cases! { it: Inherited;
    "parallelize_until_on" => {
        let failed = dedup_queue::parallelize_until_on(&it.pool, THREE, 100, || false, |piece| {
            assert_ne!(piece, 7, "this one");
        });
        failed.panics.len() == 1
    };
    "parallelize_chunks_on" => {
        dedup_queue::parallelize_chunks_on(&it.pool, THREE, 100, THREE, || false, |_| {}).done == 100
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
        #[cfg(feature = "pool")]
        let (pool, gate) = {
            let pool = pool_core::Pool::builder().capacity(2).build().unwrap();
            let gate = testkit::Gate::new();
            let at_gate = gate.clone();
            pool.submit(move || at_gate.wait()).unwrap();
            gate.wait_for_arrivals(1);
            (pool, gate)
        };
        let mut inherited = Inherited {
            held: Some(held),
            later: Instant::now() + MS,
            get,
            #[cfg(feature = "stream")]
            stream: queue.stream(),
            #[cfg(feature = "pool")]
            pool,
            queue,
        };
        check_in_forks(&mut inherited, CASES);
        #[cfg(feature = "stream")]
        check_in_forks(&mut inherited, OF_STREAMS);
        #[cfg(feature = "pool")]
        {
            check_in_forks(&mut inherited, ON_POOLS);
            gate.open();
        }
    });
    assert!(ended.is_ok(), "{ended:?}");
}
