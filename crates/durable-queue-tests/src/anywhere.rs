//! Stores and queues can be used and dropped on any thread, also on one that runs an async task or is about
//! to end.

use std::borrow::Cow;
use std::cell::RefCell;
use std::collections::BTreeSet;
use std::num::NonZeroUsize;
use std::sync::mpsc::channel;
use std::thread;
use std::time::Duration;

use durable_queue::{
    Cancelled, Claimed, DecodeError, DurableQueue, EncodeError, JobId, JobPolicy, Kind, Limit,
    Merge, Notifier, Payload, Push, ShutDown, Store, StoreTime, When, Worker,
};
use testkit::block_on;
use tokio::runtime::Builder;

use crate::alike::all_calls;

/// More than the budget of a tokio task.
const MANY: usize = 300;

const TWO: NonZeroUsize = NonZeroUsize::new(2).unwrap();
const LONG: Duration = Duration::from_secs(3_600);

type Body = Box<dyn FnOnce() + Send>;

struct Text(String);

impl Payload for Text {
    fn encode(&self) -> Result<Cow<'_, [u8]>, EncodeError> {
        self.0.encode()
    }

    fn decode(bytes: Vec<u8>) -> Result<Self, DecodeError> {
        String::decode(bytes).map(Self)
    }
}

impl Kind for Text {
    const NAME: &'static str = "text";
}

/// Names of calls, with their types.
type Called = BTreeSet<String>;

fn name(called: &mut Called, of: &str, calls: &[&str]) {
    called.extend(calls.iter().map(|call| format!("{of}::{call}")));
}

fn on_a_current_thread_runtime(body: Body) {
    let runtime = Builder::new_current_thread().build().unwrap();
    runtime.block_on(async move { tokio::spawn(async move { body() }).await.unwrap() });
}

fn on_a_multi_thread_runtime(body: Body) {
    let runtime = Builder::new_multi_thread()
        .worker_threads(1)
        .build()
        .unwrap();
    let task = runtime.spawn(async move { body() });
    runtime.block_on(task).unwrap();
}

fn on_a_thread_that_lets_tasks_block(body: Body) {
    let runtime = Builder::new_current_thread().build().unwrap();
    runtime.block_on(async move { tokio::task::spawn_blocking(body).await.unwrap() });
}

/// Runs in the destructor of a thread-local, after tokio's destructors.
fn on_a_thread_that_ends(body: Body) {
    struct Last(Option<Body>);
    impl Drop for Last {
        fn drop(&mut self) {
            self.0.take().unwrap()();
        }
    }
    thread_local!(static LAST: RefCell<Option<Last>> = const { RefCell::new(None) });
    thread::spawn(move || {
        LAST.set(Some(Last(Some(body))));
        on_a_current_thread_runtime(Box::new(|| ()));
    })
    .join()
    .unwrap();
}

const PLACES: [fn(Body); 4] = [
    on_a_current_thread_runtime,
    on_a_multi_thread_runtime,
    on_a_thread_that_lets_tasks_block,
    on_a_thread_that_ends,
];

/// In each place: opens a store, makes every call, and drops everything.
pub fn works_on_any_thread<S: Store>(open: impl Fn() -> S + Clone + Send + 'static) {
    for place in PLACES {
        let open = open.clone();
        testkit::watchdog(testkit::LIMIT, || {
            let (sender, done) = channel();
            place(Box::new(move || {
                let called = every_call(&open);
                sender.send(called).unwrap();
            }));
            // A panic on the ending thread is not a panic of this one.
            let called = done.recv().expect("the calls came to their end");
            assert_eq!(called, public_calls());
        });
    }
}

/// Returns the calls listed in docs/api, except those in a transaction of the caller, whose connection is the
/// caller's.
fn public_calls() -> BTreeSet<String> {
    let list = include_str!("../../../docs/api/durable-queue.txt");
    let types = ["DurableQueue<T, S>::", "Claimed<T>::", "Worker<T, S>::"];
    let calls = list.lines().flat_map(|line| {
        types.iter().filter_map(move |of| {
            let call = line.strip_prefix(&format!("pub fn durable_queue::{of}"))?;
            let name = call.split(['(', '<']).next()?;
            Some(format!("{of}{name}"))
        })
    });
    let ours = |call: &String| {
        !["_in", "::push_statement", "::fmt", "::drop"]
            .iter()
            .any(|not| call.ends_with(not))
    };
    calls.filter(ours).collect()
}

fn every_call<S: Store>(open: &impl Fn() -> S) -> Called {
    let mut called = Called::new();
    let store = open();
    all_calls(&store, 3);
    store.watch("queue", Notifier::new(|_| ())).unwrap();
    for _ in 0..MANY {
        store.stats("queue").unwrap();
    }
    drop(store);

    name(
        &mut called,
        "DurableQueue<T, S>",
        &[
            "builder",
            "new",
            "clone",
            "urgent",
            "kind",
            "group",
            "with_policy",
        ],
    );
    drop(DurableQueue::<String, S>::builder("dropped", open()));
    drop(DurableQueue::<String, S>::new("dropped", open()));
    let queue = DurableQueue::<String, S>::new("calls", open());
    drop(queue.clone());
    drop(queue.urgent());
    drop(queue.group("group"));
    drop(queue.with_policy(JobPolicy::new()).kind::<Text>());
    push_calls(&queue, &mut called);
    operating_calls(&queue, &mut called);
    taking_calls(&queue, &mut called);
    let claimed = || {
        queue.push(String::new(), When::NOW).unwrap();
        queue.take().unwrap()
    };
    every_settle(&claimed, &queue, &mut called);

    let worker = Worker::builder(DurableQueue::<String, S>::new("worked", open()));
    drop(worker);
    let queue = DurableQueue::<String, S>::new("worked", open());
    queue.push(String::new(), When::NOW).unwrap();
    let (sender, ran) = channel();
    let worker =
        Worker::builder(queue)
            .concurrency(1)
            .batch(TWO)
            .start(move |job: &Claimed<String>| {
                sender.send(job.id()).ok();
                Ok::<_, std::io::Error>(())
            });
    let worker = worker.unwrap();
    ran.recv().unwrap();
    worker.queue().stats();
    assert_eq!(worker.shutdown(LONG), ShutDown::Finished);
    name(
        &mut called,
        "Worker<T, S>",
        &["builder", "queue", "shutdown"],
    );
    called
}

fn push_calls<S: Store>(queue: &DurableQueue<String, S>, called: &mut Called) {
    name(
        called,
        "DurableQueue<T, S>",
        &[
            "push",
            "reset",
            "cancel",
            "push_keyed",
            "push_repeating",
            "push_batch",
            "push_many",
            "push_async",
            "push_keyed_async",
            "push_repeating_async",
            "push_many_async",
            "reset_async",
            "cancel_async",
        ],
    );
    let text = String::new;
    let id = queue.push(text(), LONG).unwrap();
    _ = queue.reset(id, LONG).unwrap();
    _ = queue.cancel(id).unwrap();
    queue.push_keyed("key", text(), LONG, Merge::Keep).unwrap();
    _ = queue.cancel("key").unwrap();
    let schedule = "0 3 * * *".parse().unwrap();
    queue.push_repeating("key", &schedule, text()).unwrap();
    _ = queue.cancel("key").unwrap();
    for id in queue.push_batch(vec![(text(), LONG.into())]).unwrap() {
        _ = queue.cancel(id).unwrap();
    }
    for put in queue.push_many(vec![Push::new(text(), LONG)]).unwrap() {
        _ = queue.cancel(put.id()).unwrap();
    }

    let id = block_on(queue.push_async(text(), LONG)).unwrap();
    _ = block_on(queue.reset_async(id, LONG)).unwrap();
    _ = block_on(queue.cancel_async(id)).unwrap();
    let keyed = queue.push_keyed_async("key", text(), LONG, Merge::Keep);
    block_on(keyed).unwrap();
    _ = block_on(queue.cancel_async("key")).unwrap();
    block_on(queue.push_repeating_async("key", &schedule, text())).unwrap();
    _ = queue.cancel("key").unwrap();
    let many = queue.push_many_async(vec![Push::new(text(), LONG)]);
    for put in block_on(many).unwrap() {
        _ = queue.cancel(put.id()).unwrap();
    }
}

fn operating_calls<S: Store>(queue: &DurableQueue<String, S>, called: &mut Called) {
    name(
        called,
        "DurableQueue<T, S>",
        &[
            "pause",
            "limit",
            "remove_limit",
            "limits",
            "list",
            "dead",
            "redrive",
            "delete_dead",
            "store_stats",
            "fate",
            "result",
            "result_timeout",
            "fate_async",
            "result_async",
            "pause_async",
            "limit_async",
            "remove_limit_async",
            "limits_async",
            "list_async",
            "dead_async",
            "redrive_async",
            "delete_dead_async",
            "store_stats_async",
            "stats",
            "last_error",
            "store",
            "name",
            "announce",
        ],
    );
    let none = JobId::from_u64(1 << 40);
    queue.pause(true).unwrap();
    queue.pause(false).unwrap();
    let limit = Limit::ordered();
    queue.limit(&limit).unwrap();
    assert_eq!(queue.limits().unwrap(), std::slice::from_ref(&limit));
    queue.remove_limit(&limit).unwrap();
    queue.list(None, 1).unwrap();
    queue.dead(None, 1).unwrap();
    queue.redrive(&[none]).unwrap();
    queue.delete_dead(&[none]).unwrap();
    queue.store_stats().unwrap();
    queue.fate(none).unwrap();
    queue.result(none).unwrap_err();
    queue.result_timeout(none, LONG).unwrap_err();
    block_on(queue.fate_async(none)).unwrap();
    block_on(queue.result_async(none)).unwrap_err();
    block_on(queue.pause_async(true)).unwrap();
    block_on(queue.pause_async(false)).unwrap();
    block_on(queue.limit_async(limit.clone())).unwrap();
    assert_eq!(
        block_on(queue.limits_async()).unwrap(),
        std::slice::from_ref(&limit)
    );
    block_on(queue.remove_limit_async(limit)).unwrap();
    block_on(queue.list_async(None, 1)).unwrap();
    block_on(queue.dead_async(None, 1)).unwrap();
    block_on(queue.redrive_async(&[none])).unwrap();
    block_on(queue.delete_dead_async(&[none])).unwrap();
    block_on(queue.store_stats_async()).unwrap();
    queue.stats();
    assert!(queue.last_error().is_none());
    queue.store().stats("calls").unwrap();
    assert_eq!(queue.name(), "calls");
    queue.announce();
}

fn taking_calls<S: Store>(queue: &DurableQueue<String, S>, called: &mut Called) {
    name(
        called,
        "DurableQueue<T, S>",
        &[
            "take",
            "take_timeout",
            "take_many",
            "take_many_timeout",
            "ack_and_take_many",
            "ack_and_take_many_timeout",
            "take_async",
            "take_many_async",
            "ack_and_take_many_async",
            "close",
            "shutdown",
            "shutdown_async",
        ],
    );
    let push = || queue.push(String::new(), When::NOW).unwrap();
    push();
    let job = queue.take().unwrap();
    push();
    let jobs = queue.ack_and_take_many(vec![job], TWO).unwrap();
    push();
    let jobs = queue.ack_and_take_many_timeout(jobs, TWO, LONG).unwrap();
    push();
    let jobs = block_on(queue.ack_and_take_many_async(jobs, TWO)).unwrap();
    let release = |jobs: Vec<Claimed<String>>| {
        for job in jobs {
            job.release().unwrap();
        }
    };
    release(jobs);
    release(queue.take_many(TWO).unwrap());
    release(queue.take_many_timeout(TWO, LONG).unwrap());
    release(block_on(queue.take_many_async(TWO)).unwrap());
    release(vec![block_on(queue.take_async()).unwrap()]);
    drop(queue.take_async());
    queue.take_timeout(LONG).unwrap().ack().unwrap();
}

type Made = Box<dyn Fn(Claimed<String>)>;

fn every_settle<S: Store>(
    claimed: &impl Fn() -> Claimed<String>,
    queue: &DurableQueue<String, S>,
    called: &mut Called,
) {
    let calls: Vec<(&str, Made)> = vec![
        ("ack", Box::new(|job| job.ack().unwrap())),
        (
            "ack_async",
            Box::new(|job| block_on(job.ack_async()).unwrap()),
        ),
        ("ack_later", Box::new(Claimed::ack_later)),
        ("release", Box::new(|job| job.release().unwrap())),
        (
            "release_async",
            Box::new(|job| block_on(job.release_async()).unwrap()),
        ),
        ("bury", Box::new(|job| job.bury("").unwrap())),
        (
            "bury_async",
            Box::new(|job| block_on(job.bury_async("")).unwrap()),
        ),
        ("extend", Box::new(move |job| job.extend(LONG).unwrap())),
        (
            "extend_async",
            Box::new(move |job| block_on(job.extend_async(LONG)).unwrap()),
        ),
        ("retry", Box::new(|job| _ = job.retry("").unwrap())),
        (
            "retry_async",
            Box::new(|job| _ = block_on(job.retry_async("")).unwrap()),
        ),
        ("retry_later", Box::new(|job| job.retry_later(""))),
        (
            "retry_after",
            Box::new(move |job| _ = job.retry_after(LONG, "").unwrap()),
        ),
        (
            "retry_after_async",
            Box::new(move |job| _ = block_on(job.retry_after_async(LONG, "")).unwrap()),
        ),
    ];
    let job = claimed();
    drop((job.lost(), job.cancelled()));
    assert!(!job.is_cancelled() && !job.wait_cancelled_timeout(Duration::ZERO));
    assert!(job.failures().is_empty());
    assert_eq!(
        (job.attempt(), job.is_lost(), job.is_urgent()),
        (1, false, false)
    );
    assert_eq!((job.key(), job.schedule(), job.as_str()), (None, None, ""));
    assert_eq!(job.kind(), None);
    assert!(job.set_result("").is_err(), "done jobs are not kept");
    assert!(job.due() < StoreTime::NEVER && job.id() != JobId::from_u64(0));
    name(
        called,
        "Claimed<T>",
        &[
            "attempt",
            "due",
            "id",
            "is_lost",
            "lost",
            "is_cancelled",
            "cancelled",
            "wait_cancelled_timeout",
            "failures",
            "is_urgent",
            "key",
            "kind",
            "schedule",
            "set_result",
            "deref",
        ],
    );
    // Ends jobs that would be handed out again here or in the next place.
    let ends = |id: JobId| {
        while matches!(queue.cancel(id).unwrap(), Cancelled::Taken) {
            thread::yield_now();
        }
    };
    let id = job.id();
    drop(job);
    ends(id);
    for (of, call) in calls {
        let job = claimed();
        let id = job.id();
        call(job);
        ends(id);
        name(called, "Claimed<T>", &[of]);
    }
    queue.close();
    assert_eq!(queue.shutdown(LONG), ShutDown::Finished);
    let ended = block_on(queue.shutdown_async(LONG));
    assert_eq!(ended, ShutDown::Finished);
}
