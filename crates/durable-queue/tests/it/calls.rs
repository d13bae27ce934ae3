//! Async calls: they return what the blocking calls return, are withdrawn if they are dropped in time, and share
//! calls of the store.

use std::future::Future;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::task::{Context, Poll, Waker};
use std::thread;

use durable_queue::internals::{CALL_KEEP_ALIVE, CALL_THREADS};
use durable_queue::{
    CallFuture, Cancelled, CarriedOut, DurableQueue, ErrorKind, Merge, Push, PushError, Put, Reset,
    ShutDown, When,
};
use durable_queue_testing::{Call, Fault, SimStore};
use testkit::{CountingWaker, Gate, block_on, waker_fn, waker_whose_clone_panics};

use crate::support::{LONG, SECOND, Time, job, on_thread};

type Queue = DurableQueue<String, SimStore>;

/// A queue whose pushes wait at the gate while it is closed, and the number of their calls.
struct Gated {
    time: Time,
    queue: Queue,
    gate: Gate,
    pushes: Arc<AtomicUsize>,
}

fn gated() -> Gated {
    let (time, gate, pushes) = (Time::new(), Gate::new(), Arc::new(AtomicUsize::new(0)));
    let store = {
        let (gate, pushes) = (gate.clone(), Arc::clone(&pushes));
        SimStore::with_faults(time.store.clone(), move |call| {
            if call == Call::Enqueue {
                pushes.fetch_add(1, SeqCst);
                gate.wait();
            }
            Fault::None
        })
    };
    Gated {
        queue: time.queue(store),
        time,
        gate,
        pushes,
    }
}

impl Gated {
    /// Makes as many calls of the store as there may be at a time. They wait at the gate.
    fn keep_leaders_busy(&self) {
        for index in 1..=CALL_THREADS {
            let mut push = self.queue.push_async(format!("leader {index}"), LONG);
            assert!(poll_once(&mut push).is_pending());
            self.gate.wait_for_arrivals(index);
            // Its call is in progress, so the drop of the future has no effect.
        }
    }

    fn payloads(&self) -> Vec<String> {
        let listed = self.queue.list(None, 2_000).unwrap();
        let mut payloads: Vec<_> = listed
            .into_iter()
            .map(|job| match self.queue.cancel(job.id).unwrap() {
                Cancelled::Gone { payload, .. } => payload,
                other => panic!("{other:?}"),
            })
            .collect();
        payloads.sort();
        payloads
    }
}

fn poll_once<F: Future + Unpin>(future: &mut F) -> Poll<F::Output> {
    Pin::new(future).poll(&mut Context::from_waker(Waker::noop()))
}

/// Waits for all futures, which one task polls.
fn join<T>(futures: Vec<CallFuture<T>>) -> Vec<T> {
    let mut futures: Vec<_> = futures.into_iter().map(|it| (it, None)).collect();
    block_on(std::future::poll_fn(|context| {
        for (future, done) in &mut futures {
            if done.is_none()
                && let Poll::Ready(value) = Pin::new(future).poll(context)
            {
                *done = Some(value);
            }
        }
        if futures.iter().all(|(_, done)| done.is_some()) {
            Poll::Ready(())
        } else {
            Poll::Pending
        }
    }));
    futures.into_iter().map(|(_, done)| done.unwrap()).collect()
}

#[testkit::test]
fn each_async_call_returns_what_the_blocking_call_returns() {
    let (time, other) = (Time::new(), Time::new());
    let (ours, theirs) = (time.queue(time.sim()), other.queue(other.sim()));
    for round in 0..2 {
        let text = || format!("job {round}");
        let id = block_on(ours.push_async(text(), SECOND)).unwrap();
        assert_eq!(id, theirs.push(text(), SECOND).unwrap());
        for merge in [Merge::Keep, Merge::Latest] {
            let put = block_on(ours.push_keyed_async("key", text(), LONG, merge)).unwrap();
            assert_eq!(put, theirs.push_keyed("key", text(), LONG, merge).unwrap());
        }
        let many = || {
            vec![
                Push::new(text(), LONG).keyed("key", Merge::Debounce),
                Push::new(text(), When::NOW).urgent(),
            ]
        };
        let puts = block_on(ours.push_many_async(many())).unwrap();
        assert_eq!(puts, theirs.push_many(many()).unwrap());
        assert!(matches!(puts[..], [Put::Merged(_), Put::New(_)]));
        #[cfg(feature = "cron")]
        {
            let schedule = "0 3 * * *".parse().unwrap();
            let put = block_on(ours.push_repeating_async("report", &schedule, text())).unwrap();
            let same = theirs.push_repeating("report", &schedule, text()).unwrap();
            assert_eq!(put, same);
        }
        block_on(ours.urgent().push_async(text(), LONG)).unwrap();
        theirs.urgent().push(text(), LONG).unwrap();
        let list = block_on(ours.list_async(None, 100)).unwrap();
        assert_eq!(list, theirs.list(None, 100).unwrap());
        assert!(list.iter().filter(|job| job.urgent).count() > round + 1);
        let after = Some(list[0].position());
        let rest = block_on(ours.list_async(after, 2)).unwrap();
        assert_eq!(rest, theirs.list(after, 2).unwrap());

        assert_eq!(block_on(ours.reset_async(id, LONG)).unwrap(), Reset::Moved);
        assert_eq!(theirs.reset(id, LONG).unwrap(), Reset::Moved);
        let cancelled = block_on(ours.cancel_async("key")).unwrap();
        assert_eq!(cancelled, theirs.cancel("key").unwrap());
        assert!(cancelled.is_gone());
        for never in [0, 1] {
            let cancelled = block_on(ours.cancel_async(id)).unwrap();
            assert_eq!(cancelled, theirs.cancel(id).unwrap());
            assert_eq!(cancelled.is_gone(), never == 0);
        }
        for queue in [&ours, &theirs] {
            queue.take().unwrap().bury("it is bad").unwrap();
        }
        let dead = block_on(ours.dead_async(None, 10)).unwrap();
        assert_eq!(dead, theirs.dead(None, 10).unwrap());
        let ids: Vec<_> = dead.iter().map(|dead| dead.id).collect();
        if round == 0 {
            assert_eq!(block_on(ours.redrive_async(&ids)).unwrap(), 1);
            assert_eq!(theirs.redrive(&ids).unwrap(), 1);
        } else {
            assert_eq!(block_on(ours.delete_dead_async(&ids)).unwrap(), 1);
            assert_eq!(theirs.delete_dead(&ids).unwrap(), 1);
        }
        for on in [true, false] {
            block_on(ours.pause_async(on)).unwrap();
            theirs.pause(on).unwrap();
            let stats = block_on(ours.store_stats_async()).unwrap();
            assert_eq!(stats, theirs.store_stats().unwrap());
            assert_eq!(stats.paused, on);
        }
    }
}

#[testkit::test]
fn a_future_that_is_never_polled_does_nothing() {
    let time = Time::new();
    let queue = time.queue(time.sim());
    drop(queue.push_async(job("job"), When::NOW));
    drop(queue.push_keyed_async("key", job("job"), When::NOW, Merge::Keep));
    drop(queue.pause_async(true));
    drop(queue.shutdown_async(LONG));
    assert_eq!(
        queue.store_stats().unwrap(),
        block_on(queue.store_stats_async()).unwrap()
    );
    let stats = queue.store_stats().unwrap();
    assert_eq!((stats.jobs, stats.paused), (0, false));
    queue.push(job("job"), When::NOW).unwrap();
    queue.take().unwrap().ack().unwrap(); // It is not closed.
}

#[testkit::test]
fn a_future_dropped_before_its_call_starts_withdraws_it_and_later_it_does_not() {
    let gated = gated();
    gated.keep_leaders_busy();
    let mut kept = gated.queue.push_async(job("kept"), LONG);
    let mut keyed = gated
        .queue
        .push_keyed_async("key", job("keyed"), LONG, Merge::Keep);
    {
        let mut dropped = gated.queue.push_async(job("dropped"), LONG);
        let mut dropped_keyed =
            gated
                .queue
                .push_keyed_async("other", job("dropped"), LONG, Merge::Keep);
        assert!(poll_once(&mut dropped).is_pending());
        assert!(poll_once(&mut dropped_keyed).is_pending());
        assert!(poll_once(&mut kept).is_pending());
        assert!(poll_once(&mut keyed).is_pending());
    }
    gated.gate.open();
    block_on(kept).unwrap();
    block_on(keyed).unwrap();
    let expected = ["kept", "keyed", "leader 1", "leader 2"];
    while gated.queue.store_stats().unwrap().jobs < 4 {
        thread::yield_now(); // The leaders' futures are gone.
    }
    assert_eq!(gated.payloads(), expected);
}

#[testkit::test]
fn a_thousand_tasks_share_calls_of_the_store() {
    const TASKS: usize = 1_000;
    let gated = gated();
    let push = |index: usize| gated.queue.push_async(format!("{index:03}"), LONG);
    let mut pushes: Vec<_> = (0..TASKS).map(push).collect();
    for push in &mut pushes {
        assert!(poll_once(push).is_pending());
    }
    gated.gate.wait_for_arrivals(CALL_THREADS);
    gated.gate.open();
    for (index, id) in join(pushes).into_iter().enumerate() {
        let Cancelled::Gone { payload, .. } = gated.queue.cancel(id.unwrap()).unwrap() else {
            panic!("{index} was pushed");
        };
        assert_eq!(payload, format!("{index:03}"));
    }
    // The first call of each leader had few jobs, all others a hundred.
    let calls = gated.pushes.load(SeqCst);
    assert!(calls <= TASKS / 100 + CALL_THREADS, "{calls}");
}

#[testkit::test]
fn pushes_of_threads_and_futures_share_calls() {
    let gated = gated();
    gated.keep_leaders_busy();
    let mut futures: Vec<_> = (0..5)
        .map(|index| gated.queue.push_async(format!("future {index}"), LONG))
        .collect();
    for future in &mut futures {
        assert!(poll_once(future).is_pending());
    }
    let threads = [0, 1].map(|index| {
        on_thread(&gated.queue, move |queue| {
            queue.push(format!("thread {index}"), LONG).unwrap()
        })
    });
    gated.gate.open();
    assert!(join(futures).into_iter().all(|pushed| pushed.is_ok()));
    for thread in threads {
        thread.join().unwrap();
    }
    while gated.queue.store_stats().unwrap().jobs < 9 {
        thread::yield_now();
    }
    assert_eq!(gated.payloads().len(), 9);
}

#[testkit::test]
fn a_waker_that_panics_or_calls_the_queue_costs_no_other_push() {
    let gated = gated();
    gated.keep_leaders_busy();
    let again = gated.queue.clone();
    let wakers = [
        waker_fn(|| panic!("as it was asked to")),
        waker_fn(move || {
            // From within a wake-up, on the leader's thread.
            again.push(job("again"), LONG).unwrap();
            block_on(again.push_async(job("again"), LONG)).unwrap();
        }),
    ];
    let polled = wakers.map(|waker| {
        let mut push = gated.queue.push_async(job("polled"), LONG);
        let mut context = Context::from_waker(&waker);
        assert!(Pin::new(&mut push).poll(&mut context).is_pending());
        push
    });
    let mut last = gated.queue.push_async(job("last"), LONG);
    assert!(poll_once(&mut last).is_pending());
    gated.gate.open();
    block_on(last).unwrap();
    for push in polled {
        block_on(push).unwrap();
    }
    while gated.queue.store_stats().unwrap().jobs < 7 {
        thread::yield_now();
    }
    assert_eq!(gated.payloads().len(), 7);
}

#[testkit::test]
fn a_waker_whose_clone_panics_withdraws_the_push() {
    let gated = gated();
    gated.keep_leaders_busy();
    let mut push = gated.queue.push_async(job("push"), LONG);
    let polled = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| {
        let waker = waker_whose_clone_panics();
        let waker = std::mem::ManuallyDrop::new(waker);
        let mut context = Context::from_waker(&waker);
        Pin::new(&mut push).poll(&mut context).is_ready()
    }));
    assert!(polled.is_err());
    gated.gate.open();
    block_on(gated.queue.push_async(job("other"), LONG)).unwrap();
    while gated.queue.store_stats().unwrap().jobs < 3 {
        thread::yield_now();
    }
    assert_eq!(gated.payloads(), ["leader 1", "leader 2", "other"]);
}

#[testkit::test]
fn a_store_that_panics_is_an_error_with_the_value() {
    let time = Time::new();
    let panics = Arc::new(AtomicBool::new(true));
    let store = {
        let panics = Arc::clone(&panics);
        SimStore::with_faults(time.store.clone(), move |_| {
            assert!(!panics.load(SeqCst), "as it was asked to");
            Fault::None
        })
    };
    let queue = time.queue(store);
    let failed = block_on(queue.push_async(job("a"), LONG)).unwrap_err();
    assert_eq!(
        (&*failed.value, failed.error.kind()),
        ("a", ErrorKind::Other)
    );
    assert_eq!(failed.error.carried_out(), CarriedOut::Perhaps);
    let failed = block_on(queue.push_keyed_async("key", job("b"), LONG, Merge::Keep));
    assert_eq!(failed.unwrap_err().value, "b");
    let failed = block_on(queue.push_many_async(vec![Push::new(job("c"), LONG)]));
    assert_eq!(failed.unwrap_err().value[0].value(), "c");
    assert_eq!(
        block_on(queue.list_async(None, 1)).unwrap_err().kind(),
        ErrorKind::Other
    );
    panics.store(false, SeqCst);
    block_on(queue.push_async(job("d"), LONG)).unwrap();
    assert_eq!(block_on(queue.store_stats_async()).unwrap().jobs, 1);
}

#[testkit::test]
fn a_push_larger_than_a_shared_call_is_sent_alone() {
    let gated = gated();
    gated.gate.open();
    let large = "x".repeat((1 << 20) + 1);
    block_on(gated.queue.push_async(large.clone(), LONG)).unwrap();
    assert_eq!(gated.payloads(), [large]);
}

#[testkit::test]
fn a_pending_call_does_not_keep_the_queue_open() {
    let gated = gated();
    gated.keep_leaders_busy();
    let mut push = gated.queue.push_async(job("push"), LONG);
    assert!(poll_once(&mut push).is_pending());
    let mut take = gated.queue.take_async();
    assert!(poll_once(&mut take).is_pending());
    let Gated {
        time, queue, gate, ..
    } = gated;
    let other = time.queue(queue.store().clone());
    drop(queue);
    assert!(block_on(take).unwrap_err().is_shut_down());
    gate.open();
    block_on(push).unwrap();
    while other.store_stats().unwrap().jobs < 3 {
        thread::yield_now();
    }
}

#[testkit::test]
fn shutdown_async_ends_as_shutdown_does() {
    let time = Time::new();
    let queue = time.queue(time.sim());
    assert_eq!(block_on(queue.shutdown_async(SECOND)), ShutDown::Finished);
    assert!(queue.take().unwrap_err().is_shut_down());

    // It waits for handlers, without a thread: pushes go on.
    let queue = time.queue(time.sim());
    queue.push(job("job"), When::NOW).unwrap();
    let taken = queue.take().unwrap();
    let counter = CountingWaker::new();
    let waker = counter.waker();
    let mut ends: Vec<_> = (0..=CALL_THREADS)
        .map(|_| queue.shutdown_async(LONG))
        .collect();
    for end in &mut ends {
        let mut context = Context::from_waker(&waker);
        assert!(Pin::new(end).poll(&mut context).is_pending());
    }
    assert!(queue.take().unwrap_err().is_shut_down());
    block_on(queue.push_async(job("later"), LONG)).unwrap();
    assert_eq!(counter.wakes(), 0);
    taken.ack().unwrap();
    for end in join(ends) {
        assert_eq!(end, ShutDown::Finished);
    }
    assert_eq!(queue.store_stats().unwrap().jobs, 1);
}

#[testkit::test]
fn shutdown_async_waits_no_longer_than_its_timeout() {
    let time = Time::new();
    let gate = Gate::new();
    let blocks = Arc::new(AtomicBool::new(false));
    let store = {
        let (gate, blocks) = (gate.clone(), Arc::clone(&blocks));
        SimStore::with_faults(time.store.clone(), move |call| {
            if call == Call::Turn && blocks.load(SeqCst) {
                gate.wait();
            }
            Fault::None
        })
    };
    let queue = time.queue(store);
    queue.push(job("job"), When::NOW).unwrap();
    let taken = queue.take().unwrap();
    // Even if the pump does not end, because the store does not answer.
    blocks.store(true, SeqCst);
    let acked = taken.ack_async();
    gate.wait_for_arrivals(1);
    let mut end = pin!(queue.shutdown_async(SECOND));
    let counter = CountingWaker::new();
    let waker = counter.waker();
    let mut context = Context::from_waker(&waker);
    assert!(end.as_mut().poll(&mut context).is_pending());
    time.clock.advance(SECOND / 2);
    assert!(end.as_mut().poll(&mut context).is_pending());
    time.clock.advance(SECOND / 2);
    counter.wait_for_wakes(1);
    assert_eq!(
        end.as_mut().poll(&mut context),
        Poll::Ready(ShutDown::TimedOut)
    );
    gate.open();
    acked.wait().unwrap();
    assert_eq!(queue.shutdown(LONG), ShutDown::Finished);
}

/// The child has none of the threads that would answer. The parent's futures are answered.
#[cfg(unix)]
#[testkit::test]
fn pending_futures_end_in_a_forked_child_and_are_answered_in_the_parent() {
    let ended = testkit::in_child(
        "calls::pending_futures_end_in_a_forked_child_and_are_answered_in_the_parent",
        || {
            let gated = gated();
            gated.keep_leaders_busy();
            let queue = &gated.queue;
            let mut push = queue.push_async(job("push"), LONG);
            let mut call = queue.push_keyed_async("key", job("call"), LONG, Merge::Keep);
            assert!(poll_once(&mut push).is_pending());
            assert!(poll_once(&mut call).is_pending());
            let dropped = queue.push_async(job("dropped"), LONG);
            let mut all = Some((push, call, dropped));
            let told = testkit::in_fork(|| {
                let (push, call, mut dropped) = all.take().unwrap();
                let is_forked = |error: PushError<String>| error.error.kind() == ErrorKind::Forked;
                assert!(is_forked(testkit::ready(push).unwrap_err()));
                assert!(is_forked(testkit::ready(call).unwrap_err()));
                assert!(poll_once(&mut dropped).is_ready());
                let later = testkit::ready(queue.push_async(job("later"), LONG));
                assert_eq!(later.unwrap_err().value, "later");
                assert_eq!(testkit::ready(queue.shutdown_async(LONG)), ShutDown::Forked);
            });
            assert_eq!(told, Ok(()));
            let (push, call, dropped) = all.take().unwrap();
            drop(dropped);
            gated.gate.open();
            block_on(push).unwrap();
            block_on(call).unwrap();
        },
    );
    assert!(ended.is_ok(), "{ended:?}");
}

/// Threads of this process for async calls.
#[cfg(target_os = "linux")]
fn call_threads() -> usize {
    let names = testkit::thread_names();
    names.iter().filter(|name| *name == "durable-calls").count()
}

#[cfg(target_os = "linux")]
#[testkit::test]
fn a_process_without_async_calls_has_no_call_thread_and_others_only_for_a_while() {
    let ended = testkit::in_child(
        "calls::a_process_without_async_calls_has_no_call_thread_and_others_only_for_a_while",
        || {
            let time = Time::new();
            let queue = time.queue(time.sim());
            for index in 0..10 {
                queue.push(index.to_string(), When::NOW).unwrap();
            }
            drop(queue.push_async(job("never polled"), LONG));
            let threads = [(); 8].map(|()| {
                on_thread(&queue, |queue| {
                    for _ in 0..100 {
                        queue.push(job("job"), LONG).unwrap();
                    }
                })
            });
            for thread in threads {
                thread.join().unwrap();
            }
            assert_eq!(call_threads(), 0);
            block_on(queue.push_async(job("job"), LONG)).unwrap();
            assert!((1..=CALL_THREADS).contains(&call_threads()));
            time.clock.wait_for_sleepers(1);
            while call_threads() > 0 {
                time.clock.advance(CALL_KEEP_ALIVE);
                thread::yield_now();
            }
            block_on(queue.push_async(job("job"), LONG)).unwrap();
            drop(queue);
            while call_threads() > 0 {
                thread::yield_now(); // Without any time passing.
            }
        },
    );
    assert!(ended.is_ok(), "{ended:?}");
}
