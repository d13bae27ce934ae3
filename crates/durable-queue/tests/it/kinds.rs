//! Kinds of jobs, their handlers and their policies.

use std::borrow::Cow;
use std::num::NonZeroUsize;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::task::Waker;
use std::thread;
use std::time::{Duration, Instant};

use async_pool::AsyncPool;
use durable_queue::store::JobState;
use durable_queue::{
    Claimed, DecodeError, DurableQueue, EncodeError, HORIZON, Job, JobPolicy, Json, Kind,
    KindOptions, Merge, Payload, Push, Retried, ShutDown, Store, StoreClock, TakeError, When,
    Worker,
};
use durable_queue_sqlite::SqliteStore;
use durable_queue_testing::SimStore;
use sync_shim::{Alarm, Clock, ManualClock, Parker};
use testkit::{Gate, block_on};

use crate::latch::Latch;
use crate::support::{LONG, SECOND, Time, on_thread};

type Queue<S = SimStore> = DurableQueue<Vec<u8>, S>;

/// A text, of kind `mail`.
struct Mail(String);

/// A number, of kind `report`. Another kind's payloads cannot be decoded.
struct Report(u32);

impl Payload for Mail {
    fn encode(&self) -> Result<Cow<'_, [u8]>, EncodeError> {
        self.0.encode()
    }

    fn decode(bytes: Vec<u8>) -> Result<Self, DecodeError> {
        String::decode(bytes).map(Self)
    }
}

impl Payload for Report {
    fn encode(&self) -> Result<Cow<'_, [u8]>, EncodeError> {
        Ok(Cow::Owned(self.0.to_le_bytes().to_vec()))
    }

    fn decode(bytes: Vec<u8>) -> Result<Self, DecodeError> {
        let bytes = bytes.try_into();
        let bytes = bytes.map_err(|_| DecodeError::new("it has not four bytes"))?;
        Ok(Self(u32::from_le_bytes(bytes)))
    }
}

impl Kind for Mail {
    const NAME: &'static str = "mail";
}

impl Kind for Report {
    const NAME: &'static str = "report";
}

/// Of a kind without a handler.
struct Other;

/// Of kind `report`, by a program that encodes it differently.
struct Newer;

macro_rules! is_constant {
    ($type:ty, $name:literal, $bytes:literal) => {
        impl Payload for $type {
            fn encode(&self) -> Result<Cow<'_, [u8]>, EncodeError> {
                Ok(Cow::Borrowed($bytes))
            }

            fn decode(_: Vec<u8>) -> Result<Self, DecodeError> {
                Err(DecodeError::new("it is not taken"))
            }
        }

        impl Kind for $type {
            const NAME: &'static str = $name;
        }
    };
}

is_constant!(Other, "other", b"o");
is_constant!(Newer, "report", b"newer");

fn mail(text: &str) -> Mail {
    Mail(text.to_owned())
}

fn queue<S: Store>(time: &Time, store: S) -> Queue<S> {
    Queue::builder("queue", store)
        .clock(time.clock.clone())
        .back_off(durable_queue::FastSlow::new(SECOND, SECOND, 1))
        .build()
        .unwrap()
}

/// Handlers that report, and that can be held up.
#[derive(Clone)]
struct Handlers {
    handled: Sender<String>,
    /// Reports wait for it.
    gate: Latch,
    running: Arc<AtomicUsize>,
    most: Arc<AtomicUsize>,
}

impl Handlers {
    fn new() -> (Self, Receiver<String>) {
        let (handled, all) = channel();
        let handlers = Self {
            handled,
            gate: Latch::new(),
            running: Arc::default(),
            most: Arc::default(),
        };
        (handlers, all)
    }

    fn mail(&self, text: &str) -> Result<(), String> {
        if text == "fail" {
            return Err("as it was asked to".to_owned());
        }
        self.handled.send(format!("mail {text}")).unwrap();
        Ok(())
    }

    async fn report(&self, number: u32) -> Result<(), String> {
        if number == u32::MAX {
            return Err("as it was asked to".to_owned());
        }
        let running = self.running.fetch_add(1, SeqCst) + 1;
        self.most.fetch_max(running, SeqCst);
        self.gate.wait().await;
        self.running.fetch_sub(1, SeqCst);
        self.handled.send(format!("report {number}")).unwrap();
        Ok(())
    }
}

/// A way to run handlers of both kinds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    Threads,
    Run,
    Pool,
}

const WAYS: [Way; 3] = [Way::Threads, Way::Run, Way::Pool];

/// A worker that is shut down by a call.
type Stop = Box<dyn FnOnce() -> ShutDown>;

fn start<S: Store>(
    way: Way,
    queue: &Queue<S>,
    concurrency: usize,
    [of_mails, of_reports]: [KindOptions; 2],
    handlers: &Handlers,
) -> Stop {
    let builder = Worker::builder(queue.clone()).concurrency(concurrency);
    let (mails, reports) = (handlers.clone(), handlers.clone());
    if way == Way::Threads {
        let worker = builder
            .on_with(of_mails, move |job: &Claimed<Mail>| mails.mail(&job.0))
            .on_with(of_reports, move |job: &Claimed<Report>| {
                block_on(reports.report(job.0))
            })
            .start()
            .unwrap();
        return Box::new(move || worker.shutdown(LONG));
    }
    let builder = builder
        .on_async_with(of_mails, move |job: Job<Mail>| {
            let mails = mails.clone();
            async move { mails.mail(&job.0) }
        })
        .on_async_with(of_reports, move |job: Job<Report>| {
            let reports = reports.clone();
            async move { reports.report(job.0).await }
        });
    if way == Way::Run {
        let stop = Latch::new();
        let signal = stop.clone();
        let run = builder.run_async();
        let thread = thread::spawn(move || {
            let signal = async move { signal.wait().await };
            block_on(run.until(signal)).unwrap()
        });
        return Box::new(move || {
            stop.open();
            thread.join().unwrap()
        });
    }
    let pool = AsyncPool::builder().workers(2).build().unwrap();
    let worker = builder.start_async(&pool).unwrap();
    Box::new(move || {
        let ended = worker.shutdown(LONG);
        pool.wait_idle().unwrap();
        ended
    })
}

const PLAIN: [KindOptions; 2] = [KindOptions::new(); 2];

fn of_reports(options: KindOptions) -> [KindOptions; 2] {
    [KindOptions::new(), options]
}

fn next(handled: &Receiver<String>) -> String {
    handled.recv().unwrap()
}

fn jobs<S: Store>(queue: &Queue<S>) -> u32 {
    queue.store_stats().unwrap().jobs
}

/// Moves the clock until `reached`.
fn pass_until(time: &Time, reached: impl Fn() -> bool) {
    pass_with(time, 1, reached);
}

/// Lets time pass with so many pumps, none of which is busy at a step: it would lose its leases.
fn pass_with(time: &Time, pumps: usize, reached: impl Fn() -> bool) {
    while !reached() {
        time.clock.wait_for_sleepers(pumps);
        time.clock.advance(SECOND / 10);
    }
}

fn error_of_dead<S: Store>(queue: &Queue<S>) -> String {
    let dead = queue.dead(None, 10).unwrap();
    assert_eq!(dead.len(), 1);
    dead[0].error.clone()
}

#[testkit::test]
fn each_kind_has_its_own_type_and_handler() {
    for way in WAYS {
        let time = Time::new();
        let queue = queue(&time, time.sim());
        let (handlers, handled) = Handlers::new();
        handlers.gate.open();
        let stop = start(way, &queue, 4, PLAIN, &handlers);
        queue.kind().push(mail("a"), When::NOW).unwrap();
        queue.kind().push(Report(7), When::NOW).unwrap();
        let mut both = [next(&handled), next(&handled)];
        both.sort();
        assert_eq!(both, ["mail a", "report 7"], "{way:?}");
        assert_eq!(stop(), ShutDown::Finished);
        assert_eq!(jobs(&queue), 0, "{way:?}: both are acknowledged");
    }
}

#[testkit::test]
fn kinds_and_policies_are_kept_by_sqlite() {
    for way in WAYS {
        let time = Time::new();
        let queue = queue(&time, SqliteStore::open(":memory:").unwrap());
        let (handlers, handled) = Handlers::new();
        handlers.gate.open();
        queue.kind().push(Report(7), When::NOW).unwrap();
        let once = queue.with_policy(JobPolicy::new().max_attempts(1));
        once.kind().push(mail("fail"), When::NOW).unwrap();
        let stop = start(way, &queue, 4, PLAIN, &handlers);
        assert_eq!(next(&handled), "report 7");
        while jobs(&queue) > 0 {
            thread::yield_now();
        }
        assert_eq!(stop(), ShutDown::Finished);
        assert_eq!(error_of_dead(&queue), "as it was asked to", "{way:?}");
    }
}

#[testkit::test]
fn every_push_of_a_kinds_handle_has_its_kind_and_policy() {
    let time = Time::new();
    let queue = queue(&time, time.sim());
    let reports: DurableQueue<Report, _> = queue
        .urgent()
        .with_policy(JobPolicy::new().max_attempts(1))
        .kind();
    let keyed = |key: &str| Push::new(Report(2), When::NOW).keyed(key, Merge::Keep);
    reports.push(Report(1), When::NOW).unwrap();
    reports
        .push_keyed("a", Report(1), When::NOW, Merge::Keep)
        .unwrap();
    reports
        .push_many(vec![keyed("b"), Push::new(Report(3), When::NOW)])
        .unwrap();
    reports.push_batch(vec![(Report(4), When::NOW)]).unwrap();
    block_on(reports.push_async(Report(5), When::NOW)).unwrap();
    block_on(reports.push_keyed_async("c", Report(1), When::NOW, Merge::Keep)).unwrap();
    block_on(reports.push_many_async(vec![keyed("d")])).unwrap();
    let each = "* * * * *".parse().unwrap();
    reports.push_repeating("e", &each, Report(6)).unwrap();
    block_on(reports.push_repeating_async("f", &each, Report(7))).unwrap();
    let listed = queue.list(None, 100).unwrap();
    assert_eq!(listed.len(), 10);
    for job in &listed {
        assert_eq!((job.kind.as_deref(), job.urgent), (Some("report"), true));
    }
    time.clock.advance(SECOND * 60);
    for _ in 0..listed.len() {
        let taken = reports.take().unwrap();
        assert_eq!(taken.kind(), Some("report"));
        let retried = taken.retry("no").unwrap();
        assert!(matches!(retried, Retried::Buried | Retried::NextTime));
    }
}

#[testkit::test]
fn jobs_of_an_unknown_kind_or_without_a_kind_wait_untouched_for_a_worker_that_knows_them() {
    for way in WAYS {
        let time = Time::new();
        let queue = queue(&time, time.sim());
        let (handlers, handled) = Handlers::new();
        handlers.gate.open();
        let once = queue.with_policy(JobPolicy::new().max_attempts(1));
        once.kind().push(Report(7), When::NOW).unwrap();
        once.push(b"none".to_vec(), When::NOW).unwrap();
        let (seen, mails) = channel();
        let older = Worker::builder(another(&time, &queue))
            .on(move |job: &Claimed<Mail>| {
                seen.send(job.0.clone()).map_err(|error| error.to_string())
            })
            .start()
            .unwrap();
        queue.kind().push(mail("a"), When::NOW).unwrap();
        assert_eq!(mails.recv().unwrap(), "a");
        assert_eq!(older.shutdown(LONG), ShutDown::Finished);
        let listed = queue.list(None, 10).unwrap();
        assert!(listed.iter().all(|job| job.attempts == 0), "{listed:?}");
        let stats = queue.store_stats().unwrap();
        assert_eq!(stats.due_of_kinds, [("report".to_owned(), 1)]);
        let stop = start(way, &queue, 2, PLAIN, &handlers);
        assert_eq!(next(&handled), "report 7", "{way:?}");
        assert_eq!(stop(), ShutDown::Finished);
        let listed = queue.list(None, 10).unwrap();
        assert_eq!((listed.len(), listed[0].attempts), (1, 0), "{way:?}");
        assert!(queue.dead(None, 1).unwrap().is_empty());
    }
}

/// Another process with the same queue.
fn another(time: &Time, queue: &Queue) -> Queue {
    Queue::builder("queue", queue.store().clone())
        .clock(time.clock.clone())
        .back_off(durable_queue::FastSlow::new(SECOND, SECOND, 1))
        .build()
        .unwrap()
}

/// The payload has a new format. The old process gives the job back, as often as it gets it.
#[testkit::test]
fn an_undecodable_job_keeps_its_attempts_until_a_process_that_can_read_it_gets_it() {
    for way in WAYS {
        let time = Time::new();
        let queue = queue(&time, time.sim());
        let (handlers, _handled) = Handlers::new();
        let stop = start(way, &queue, 2, PLAIN, &handlers);
        let once = queue.with_policy(JobPolicy::new().max_attempts(1));
        once.kind().push(Newer, When::NOW).unwrap();
        // Ten minutes.
        let begin = time.clock.now();
        pass_until(&time, || time.clock.now() - begin > SECOND * 600);
        assert_eq!(stop(), ShutDown::Finished);
        let listed = queue.list(None, 10).unwrap();
        assert_eq!((listed.len(), listed[0].attempts), (1, 0), "{way:?}");
        let failures = listed[0].failures();
        let error = "the payload cannot be decoded: it has not four bytes (a job of kind `report`)";
        assert_eq!(failures.len(), 1, "{way:?}");
        assert_eq!((failures[0].attempt, &*failures[0].error), (0, error));
        time.clock.advance(LONG);
        let taken = another(&time, &queue).take().unwrap();
        assert_eq!((taken.attempt(), &**taken), (1, &b"newer"[..]));
        taken.ack().unwrap();
    }
}

#[testkit::test]
fn a_job_that_stays_undecodable_becomes_a_dead_letter_without_an_attempt() {
    for way in WAYS {
        let time = Time::new();
        let queue = Queue::builder("queue", time.sim())
            .clock(time.clock.clone())
            .unreadable_for(SECOND * 30)
            .build()
            .unwrap();
        let (handlers, _handled) = Handlers::new();
        let stop = start(way, &queue, 2, PLAIN, &handlers);
        // The redriven job has as much time as the first.
        for _ in 0..2 {
            let begin = time.clock.now();
            if let Some(dead) = queue.dead(None, 1).unwrap().first() {
                assert_eq!(queue.redrive(&[dead.id]).unwrap(), 1);
            } else {
                queue.kind().push(Newer, When::NOW).unwrap();
            }
            pass_until(&time, || jobs(&queue) == 0);
            assert!(time.clock.now() - begin >= SECOND * 30, "{way:?}");
            let dead = queue.dead(None, 1).unwrap().remove(0);
            assert_eq!(dead.attempts, 0);
            assert!(
                dead.error.contains("it has not four bytes"),
                "{}",
                dead.error
            );
        }
        assert_eq!(stop(), ShutDown::Finished);
    }
}

#[testkit::test]
fn a_job_that_may_not_stay_undecodable_is_buried_at_once() {
    let time = Time::new();
    let queue = Queue::builder("queue", time.sim())
        .clock(time.clock.clone())
        .unreadable_for(Duration::ZERO)
        .build()
        .unwrap();
    queue.kind().push(Newer, When::NOW).unwrap();
    queue.kind().push(Report(1), When::NOW).unwrap();
    let taken = queue.kind::<Report>().take().unwrap();
    assert_eq!(taken.0, 1);
    while jobs(&queue) > 1 {
        thread::yield_now();
    }
    assert!(error_of_dead(&queue).contains("it has not four bytes"));
}

#[testkit::test]
fn a_handle_of_a_kind_takes_its_kind_and_leaves_the_others() {
    let time = Time::new();
    let queue = queue(&time, time.sim());
    let mails = queue.kind::<Mail>();
    queue.kind().push(Report(7), When::NOW).unwrap();
    queue.push(b"none".to_vec(), When::NOW).unwrap();
    mails.push(mail("a"), When::NOW).unwrap();
    let taken = mails.take().unwrap();
    assert_eq!(taken.0, "a");
    taken.ack().unwrap();
    let taken = mails.take_timeout(Duration::ZERO);
    assert!(matches!(taken, Err(TakeError::TimedOut)));
    // Neither a future nor a worker with one handler differs.
    mails.push(mail("b"), When::NOW).unwrap();
    let taken = block_on(mails.take_async()).unwrap();
    assert_eq!(taken.0, "b");
    taken.ack().unwrap();
    // A handle without a kind takes all.
    let taken = queue.take().unwrap();
    let found = (taken.kind(), taken.len(), taken.attempt());
    assert_eq!(found, (Some("report"), 4, 1));
    taken.ack().unwrap();
    let taken = queue.take().unwrap();
    assert_eq!((taken.kind(), taken.attempt()), (None, 1));
    taken.ack().unwrap();
}

#[testkit::test]
fn handles_of_several_kinds_wait_at_the_same_time_and_get_their_own() {
    let time = Time::new();
    let queue = queue(&time, time.sim());
    let mails = on_thread(&queue.kind::<Mail>(), |mails| {
        let taken = mails.take().unwrap();
        let text = taken.0.clone();
        taken.ack().unwrap();
        text
    });
    let reports = on_thread(&queue.kind::<Report>(), |reports| {
        let taken = reports.take().unwrap();
        let number = taken.0;
        taken.ack().unwrap();
        number
    });
    queue.kind().push(Other, When::NOW).unwrap();
    queue.kind().push(Report(7), When::NOW).unwrap();
    assert_eq!(reports.join().unwrap(), 7);
    // A call for any jobs does not keep them from a handle that has waited longer.
    let any = on_thread(&queue, |queue| {
        let taken = queue.take().unwrap();
        let kind = taken.kind().map(str::to_owned);
        taken.ack().unwrap();
        kind
    });
    assert_eq!(any.join().unwrap().as_deref(), Some("other"));
    queue.kind().push(mail("a"), When::NOW).unwrap();
    assert_eq!(mails.join().unwrap(), "a");
    assert_eq!(jobs(&queue), 0);
}

/// For example threads for one kind, and futures for another.
#[testkit::test]
fn workers_of_different_kinds_share_a_queue_in_one_process() {
    let time = Time::new();
    let queue = queue(&time, time.sim());
    let (seen, all) = channel();
    let texts = seen.clone();
    let threads = Worker::builder(queue.clone())
        .concurrency(2)
        .on(move |job: &Claimed<Mail>| texts.send(job.0.clone()).map_err(|it| it.to_string()))
        .start()
        .unwrap();
    let pool = AsyncPool::builder().workers(2).build().unwrap();
    let futures = Worker::builder(queue.clone())
        .concurrency(2)
        .on_async(move |job: Job<Report>| {
            let seen = seen.clone();
            async move { seen.send(job.0.to_string()).map_err(|it| it.to_string()) }
        })
        .start_async(&pool)
        .unwrap();
    for number in 0..20 {
        queue.kind().push(Report(number), When::NOW).unwrap();
        queue.kind().push(mail("a"), When::NOW).unwrap();
    }
    let mut handled: Vec<String> = all.iter().take(40).collect();
    handled.sort();
    assert_eq!(handled.iter().filter(|text| **text == "a").count(), 20);
    assert_eq!(handled[0], "0");
    assert_eq!(threads.shutdown(LONG), ShutDown::Finished);
    assert_eq!(futures.shutdown(LONG), ShutDown::Finished);
    assert_eq!(jobs(&queue), 0);
    assert!(queue.dead(None, 1).unwrap().is_empty());
}

#[testkit::test]
fn a_worker_with_one_handler_takes_all_kinds_or_only_that_of_its_handle() {
    let time = Time::new();
    let queue = queue(&time, time.sim());
    let (seen, kinds) = channel();
    let worker = Worker::builder(queue.clone()).start(move |job| {
        seen.send(job.kind().map(str::to_owned))
            .map_err(|error| error.to_string())
    });
    let worker = worker.unwrap();
    queue.kind().push(Report(7), When::NOW).unwrap();
    assert_eq!(kinds.recv().unwrap().as_deref(), Some("report"));
    queue.push(b"none".to_vec(), When::NOW).unwrap();
    assert_eq!(kinds.recv().unwrap(), None);
    assert_eq!(worker.shutdown(LONG), ShutDown::Finished);

    let queue = self::queue(&time, time.sim());
    let (seen, mails) = channel();
    let worker = Worker::builder(queue.kind::<Mail>())
        .start(move |job| seen.send(job.0.clone()).map_err(|error| error.to_string()))
        .unwrap();
    queue.kind().push(Report(7), When::NOW).unwrap();
    queue.kind().push(mail("a"), When::NOW).unwrap();
    assert_eq!(mails.recv().unwrap(), "a");
    assert_eq!(worker.shutdown(LONG), ShutDown::Finished);
    let listed = queue.list(None, 10).unwrap();
    assert_eq!((listed.len(), listed[0].attempts), (1, 0));
}

#[testkit::test]
fn json_of_a_kind_is_a_kind() {
    #[derive(serde::Serialize, serde::Deserialize)]
    struct Order(u32);
    impl Kind for Order {
        const NAME: &'static str = "order";
    }
    let time = Time::new();
    let queue = queue(&time, time.sim());
    queue.kind().push(Json(Order(5)), When::NOW).unwrap();
    let taken = queue.kind::<Json<Order>>().take().unwrap();
    assert_eq!((taken.0.0, taken.kind()), (5, Some("order")));
    taken.ack().unwrap();
}

#[testkit::test]
fn handlers_of_kinds_get_the_context() {
    let time = Time::new();
    let queue = queue(&time, time.sim());
    let (seen, all) = channel();
    let pool = AsyncPool::builder().workers(2).build().unwrap();
    let worker = Worker::builder(queue.clone())
        .context(seen)
        .on_async(|job: Job<Mail>, seen: Sender<String>| async move { seen.send(job.0.clone()) })
        .on_async_with(
            KindOptions::new(),
            |job: Job<Report>, seen: Sender<String>| async move { seen.send(job.0.to_string()) },
        )
        .start_async(&pool)
        .unwrap();
    queue.kind().push(mail("a"), When::NOW).unwrap();
    assert_eq!(all.recv().unwrap(), "a");
    queue.kind().push(Report(7), When::NOW).unwrap();
    assert_eq!(all.recv().unwrap(), "7");
    assert_eq!(worker.shutdown(LONG), ShutDown::Finished);
}

#[testkit::test]
fn a_kinds_later_handler_replaces_its_earlier_one() {
    let time = Time::new();
    let queue = queue(&time, time.sim());
    let (seen, all) = channel();
    let worker = Worker::builder(queue.clone())
        .on(|_: &Claimed<Mail>| Err("the earlier one"))
        .on(move |job: &Claimed<Mail>| seen.send(job.0.clone()).map_err(|error| error.to_string()))
        .start()
        .unwrap();
    queue.kind().push(mail("a"), When::NOW).unwrap();
    assert_eq!(all.recv().unwrap(), "a");
    assert_eq!(worker.shutdown(LONG), ShutDown::Finished);
}

#[testkit::test]
fn a_kind_runs_no_more_jobs_than_its_concurrency_and_others_go_on() {
    const REPORTS: usize = 40;
    for way in WAYS {
        let time = Time::new();
        let queue = queue(&time, time.sim());
        let (handlers, handled) = Handlers::new();
        let reports =
            (0..REPORTS).map(|number| (Report(u32::try_from(number).unwrap()), When::NOW));
        queue.kind().push_batch(reports.collect()).unwrap();
        let two = of_reports(KindOptions::new().concurrency(2));
        let stop = start(way, &queue, 3, two, &handlers);
        handlers.gate.wait_for_arrivals(2);
        for number in 0..10 {
            let text = number.to_string();
            queue.kind().push(Mail(text.clone()), When::NOW).unwrap();
            assert_eq!(next(&handled), format!("mail {text}"), "{way:?}");
        }
        handlers.gate.open();
        let all = AtomicUsize::new(0);
        pass_until(&time, || {
            all.fetch_add(handled.try_iter().count(), SeqCst);
            all.load(SeqCst) == REPORTS
        });
        assert_eq!(handlers.most.load(SeqCst), 2, "{way:?}");
        assert_eq!(stop(), ShutDown::Finished);
        assert_eq!(jobs(&queue), 0, "{way:?}");
        assert!(queue.dead(None, 1).unwrap().is_empty());
    }
}

/// Handlers that hang hide no jobs, neither of other kinds nor of their own from other processes.
#[testkit::test]
fn ten_thousand_jobs_of_a_full_kind_stay_in_the_store_and_hide_no_others() {
    const REPORTS: u32 = 10_000;
    const TURNS: u64 = 10;
    for way in WAYS {
        let time = Time::new();
        let queue = queue(&time, time.sim());
        let (handlers, handled) = Handlers::new();
        let reports = (0..REPORTS).map(|number| (Report(number), When::NOW));
        queue.kind().push_batch(reports.collect()).unwrap();
        queue.kind().push(mail("behind"), When::NOW).unwrap();
        let two = of_reports(KindOptions::new().concurrency(2));
        let stop = start(way, &queue, 3, two, &handlers);
        assert_eq!(next(&handled), "mail behind", "{way:?}");
        handlers.gate.wait_for_arrivals(2);
        while jobs(&queue) > REPORTS {
            thread::yield_now();
        }
        // Time stands still, so the pump has nothing to do.
        time.clock.wait_for_sleepers(1);
        let turns = queue.stats().turns;
        assert!(turns < TURNS, "{way:?}: {turns} turns");
        let listed = || queue.list(None, REPORTS).unwrap();
        let held = listed();
        let held = held.iter().filter(|job| job.state.is_held());
        assert_eq!(held.count(), 2, "{way:?}");
        let begun = listed().iter().filter(|job| job.attempts > 0).count();
        assert_eq!(begun, 2, "{way:?}");
        assert!(
            listed()
                .iter()
                .all(|job| job.due <= job.at || job.attempts > 0)
        );
        // Another process gets one at once.
        let taken = another(&time, &queue).kind::<Report>().take().unwrap();
        assert_eq!(taken.0, 2);
        taken.ack().unwrap();
        // Nothing happens but renewals, once for both.
        let before = queue.stats().turns;
        pass_until(&time, || queue.stats().turns > before);
        time.clock.wait_for_sleepers(1);
        assert_eq!(queue.stats().turns, before + 1, "{way:?}");
        queue.close();
        handlers.gate.open();
        assert_eq!(stop(), ShutDown::Finished);
        assert_eq!(jobs(&queue), REPORTS - 3, "{way:?}");
        assert!(listed().iter().all(|job| job.attempts == 0), "{way:?}");
    }
}

#[testkit::test]
fn the_next_job_of_a_full_kind_is_claimed_when_one_has_ended() {
    for way in WAYS {
        let time = Time::new();
        let queue = queue(&time, time.sim());
        let (handlers, handled) = Handlers::new();
        let one = of_reports(KindOptions::new().concurrency(1));
        let stop = start(way, &queue, 3, one, &handlers);
        queue.kind().push(Report(1), When::NOW).unwrap();
        handlers.gate.wait_for_arrivals(1);
        queue.kind().push(Report(2), When::NOW).unwrap();
        queue.kind().push(mail("a"), When::NOW).unwrap();
        assert_eq!(next(&handled), "mail a", "{way:?}");
        let begun = queue.list(None, 10).unwrap();
        let begun = begun
            .iter()
            .filter(|job| job.kind.as_deref() == Some("report"));
        assert_eq!(begun.filter(|job| job.attempts > 0).count(), 1, "{way:?}");
        // Time stands still: nothing but the end of the first makes the worker look.
        handlers.gate.open();
        assert_eq!(
            [next(&handled), next(&handled)],
            ["report 1", "report 2"],
            "{way:?}"
        );
        assert_eq!(handlers.most.load(SeqCst), 1);
        assert_eq!(stop(), ShutDown::Finished);
        assert_eq!(jobs(&queue), 0);
    }
}

/// Jobs that are claimed ahead take the room of their kind.
#[testkit::test]
fn a_job_that_is_due_earlier_than_one_ahead_of_its_kind_runs_first_and_few_are_claimed() {
    const REPORTS: u32 = 50;
    for way in WAYS {
        let time = Time::new();
        let queue = queue(&time, time.sim());
        let (handlers, handled) = Handlers::new();
        handlers.gate.open();
        let one = of_reports(KindOptions::new().concurrency(1));
        let soon = time.store.now().after(HORIZON / 2);
        let later = (2..REPORTS + 2).map(|number| (Report(number), When::At(soon)));
        queue.kind().push_batch(later.collect()).unwrap();
        let stop = start(way, &queue, 3, one, &handlers);
        let ahead = || {
            let listed = queue.list(None, REPORTS + 1).unwrap();
            let ahead = listed.iter().filter(|job| job.state == JobState::Claimed);
            ahead.count()
        };
        while ahead() == 0 {
            thread::yield_now();
        }
        time.clock.wait_for_sleepers(1);
        assert!(ahead() <= 3, "{way:?}: {} are ahead", ahead());
        assert!(queue.stats().turns <= 6, "{way:?}: {}", queue.stats().turns);
        queue.kind().push(Report(1), When::NOW).unwrap();
        assert_eq!(next(&handled), "report 1", "{way:?}");
        time.clock.wait_for_sleepers(1);
        assert_eq!(handled.try_iter().count(), 0, "{way:?}: it is early");
        let all = AtomicUsize::new(0);
        pass_until(&time, || {
            all.fetch_add(handled.try_iter().count(), SeqCst);
            all.load(SeqCst) == REPORTS as usize
        });
        assert_eq!(handlers.most.load(SeqCst), 1, "{way:?}");
        assert_eq!(stop(), ShutDown::Finished);
        assert_eq!(jobs(&queue), 0);
    }
}

/// The rate is for all kinds. A job that cannot run takes none of its starts.
#[testkit::test]
fn jobs_of_a_full_kind_waste_no_start_of_the_rate() {
    for way in WAYS {
        let time = Time::new();
        let queue = Queue::builder("queue", time.sim())
            .clock(time.clock.clone())
            .rate(SECOND * 1_000_000, std::num::NonZeroU32::new(4).unwrap())
            .build()
            .unwrap();
        let (handlers, handled) = Handlers::new();
        let reports = (0..50).map(|number| (Report(number), When::NOW));
        queue.kind().push_batch(reports.collect()).unwrap();
        let one = of_reports(KindOptions::new().concurrency(1));
        let stop = start(way, &queue, 3, one, &handlers);
        handlers.gate.wait_for_arrivals(1);
        for text in ["a", "b", "c"] {
            queue.kind().push(mail(text), When::NOW).unwrap();
            assert_eq!(next(&handled), format!("mail {text}"), "{way:?}");
        }
        queue.close();
        handlers.gate.open();
        assert_eq!(stop(), ShutDown::Finished);
    }
}

#[testkit::test]
fn the_policy_of_a_job_precedes_that_of_its_kind_and_that_of_the_queue() {
    for way in WAYS {
        let time = Time::new();
        let queue = Queue::builder("queue", time.sim())
            .clock(time.clock.clone())
            .max_attempts(4)
            .back_off(durable_queue::FastSlow::new(SECOND, SECOND, 1))
            .build()
            .unwrap();
        let (handlers, _handled) = Handlers::new();
        let of_mails = KindOptions::new().policy(JobPolicy::new().max_attempts(3));
        let stop = start(way, &queue, 1, [of_mails, KindOptions::new()], &handlers);
        let twice = queue.with_policy(JobPolicy::new().max_attempts(2));
        let last = |expected: u32| {
            pass_until(&time, || jobs(&queue) == 0);
            let dead = queue.dead(None, 10).unwrap();
            assert_eq!((dead.len(), dead[0].attempts), (1, expected), "{way:?}");
            assert_eq!(queue.delete_dead(&[dead[0].id]).unwrap(), 1);
        };
        twice.kind().push(mail("fail"), When::NOW).unwrap();
        last(2);
        queue.kind().push(mail("fail"), When::NOW).unwrap();
        last(3);
        queue.kind().push(Report(u32::MAX), When::NOW).unwrap();
        last(4);
        // An option that the job's policy does not set is the kind's.
        let limited = queue.with_policy(JobPolicy::new().time_limit(LONG));
        limited.kind().push(mail("fail"), When::NOW).unwrap();
        last(3);
        assert_eq!(stop(), ShutDown::Finished);
    }
}

#[testkit::test]
fn a_jobs_back_off_doubles_from_its_first_to_its_longest_delay() {
    let time = Time::new();
    let queue = queue(&time, time.sim());
    let policy = JobPolicy::new().back_off(SECOND * 100, SECOND * 300);
    queue
        .with_policy(policy)
        .push(b"job".to_vec(), When::NOW)
        .unwrap();
    for delay in [100, 200, 300, 300] {
        let Retried::Again(When::After(after)) = queue.take().unwrap().retry("no").unwrap() else {
            panic!("it is retried after a delay");
        };
        let delay = SECOND * delay;
        assert!(delay <= after && after <= delay + delay / 4, "{after:?}");
        time.clock.advance(after + SECOND);
    }
    queue.push(b"another".to_vec(), When::NOW).unwrap();
    let jobs = queue
        .take_many(std::num::NonZeroUsize::new(2).unwrap())
        .unwrap();
    let other = jobs.into_iter().find(|job| job.as_slice() == b"another");
    let retried = other.unwrap().retry("no").unwrap();
    assert_eq!(retried, Retried::Again(SECOND.into()), "the queue's");
}

#[testkit::test]
fn a_policy_survives_retries_releases_burials_and_redrives_and_a_merge_replaces_it() {
    let time = Time::new();
    let queue = queue(&time, time.sim());
    let once = queue.with_policy(JobPolicy::new().max_attempts(1));
    let twice = queue.with_policy(JobPolicy::new().max_attempts(2));
    let job = || b"job".to_vec();
    twice
        .push_keyed("key", job(), When::NOW, Merge::Keep)
        .unwrap();
    queue.take().unwrap().release().unwrap();
    for _ in 0..2 {
        let retried = queue.take().unwrap().retry("no").unwrap();
        assert_eq!(retried, Retried::Again(SECOND.into()));
        time.clock.advance(SECOND);
        assert_eq!(queue.take().unwrap().retry("no").unwrap(), Retried::Buried);
        let dead = queue.dead(None, 1).unwrap()[0].id;
        assert_eq!(queue.redrive(&[dead]).unwrap(), 1);
    }
    // A push that is kept changes nothing, another one replaces the policy, also by none.
    let again = Retried::Again(SECOND.into());
    let push = |queue: &Queue, merge| queue.push_keyed("key", job(), When::NOW, merge).unwrap();
    push(&once, Merge::Keep);
    assert_eq!(queue.take().unwrap().retry("no").unwrap(), again);
    push(&queue, Merge::Earliest);
    assert_eq!(queue.take().unwrap().retry("no").unwrap(), again);
    push(
        &queue.with_policy(JobPolicy::new().max_attempts(3)),
        Merge::Earliest,
    );
    assert_eq!(queue.take().unwrap().retry("no").unwrap(), Retried::Buried);
}

#[testkit::test]
fn a_merge_with_a_policy_whose_attempts_are_used_up_buries_the_job() {
    let time = Time::new();
    let queue = queue(&time, time.sim());
    let once = queue.with_policy(JobPolicy::new().max_attempts(1));
    let push = |queue: &Queue, merge| {
        let job = b"job".to_vec();
        queue.push_keyed("key", job, When::NOW, merge).unwrap();
    };
    push(&queue, Merge::Keep);
    queue.take().unwrap().retry("no").unwrap();
    push(&once, Merge::Earliest);
    let taker = on_thread(&queue, |queue| queue.take().map(drop));
    while jobs(&queue) > 0 {
        thread::yield_now();
    }
    queue.close();
    assert!(taker.join().unwrap().unwrap_err().is_shut_down());
    assert_eq!(queue.dead(None, 1).unwrap()[0].attempts, 1);
}

#[testkit::test]
fn an_attempt_that_takes_longer_than_its_time_limit_fails_with_an_error_that_names_it() {
    for way in WAYS {
        let time = Time::new();
        let queue = queue(&time, time.sim());
        let (handlers, handled) = Handlers::new();
        let limited = JobPolicy::new().time_limit(SECOND * 5).max_attempts(2);
        let stop = start(
            way,
            &queue,
            4,
            of_reports(KindOptions::new().policy(limited)),
            &handlers,
        );
        queue.kind().push(Report(7), When::NOW).unwrap();
        handlers.gate.wait_for_arrivals(1);
        time.clock.wait_for_sleepers(1);
        time.clock.advance(SECOND * 5 - Duration::from_nanos(1));
        time.clock.wait_for_sleepers(1);
        assert_eq!(queue.stats().timed_out, 0);
        let is_again = || queue.list(None, 1).unwrap()[0].attempts == 2;
        pass_until(&time, is_again);
        handlers.gate.wait_for_arrivals(2);
        pass_until(&time, || jobs(&queue) == 0);
        let error = "the attempt took longer than its time limit of 5s";
        assert_eq!(error_of_dead(&queue), error, "{way:?}");
        assert_eq!(queue.stats().timed_out, 2);
        // A blocking handler goes on. A future is dropped.
        handlers.gate.open();
        assert_eq!(stop(), ShutDown::Finished);
        let expected = if way == Way::Threads { 2 } else { 0 };
        assert_eq!(handled.try_iter().count(), expected, "{way:?}");
        assert_eq!(queue.dead(None, 10).unwrap().len(), 1, "{way:?}");
    }
}

#[testkit::test]
fn a_blocking_handler_learns_that_its_time_limit_is_over() {
    let time = Time::new();
    let queue = queue(&time, time.sim());
    let limited = queue.with_policy(JobPolicy::new().time_limit(SECOND));
    limited.push(b"job".to_vec(), When::NOW).unwrap();
    let job = queue.take().unwrap();
    job.extend(SECOND * 100).unwrap();
    let lost = job.lost();
    assert!(!job.is_lost());
    time.advance(SECOND);
    block_on(lost);
    assert!(job.is_lost());
    assert!(job.ack().unwrap_err().is_stale());
    time.clock.advance(SECOND);
    let again = queue.take().unwrap();
    assert_eq!(again.attempt(), 2);
    again.ack().unwrap();
}

/// Behind a slow one, in the batch of the worker.
#[testkit::test]
fn the_time_limit_of_a_job_that_waits_in_a_batch_starts_with_its_handler() {
    let time = Time::new();
    let queue = queue(&time, time.sim());
    let (handlers, handled) = Handlers::new();
    let reports = handlers.clone();
    queue.kind().push(Report(1), When::NOW).unwrap();
    let limited = queue.with_policy(JobPolicy::new().time_limit(SECOND));
    limited.kind().push(Report(2), When::NOW).unwrap();
    let worker = Worker::builder(queue.clone())
        .batch(NonZeroUsize::new(2).unwrap())
        .on(move |job: &Claimed<Report>| block_on(reports.report(job.0)))
        .start()
        .unwrap();
    handlers.gate.wait_for_arrivals(1);
    let listed = queue.list(None, 10).unwrap();
    assert!(listed.iter().all(|job| job.attempts == 1));
    for _ in 0..50 {
        time.clock.wait_for_sleepers(1);
        time.clock.advance(SECOND / 10);
    }
    assert_eq!(queue.stats().timed_out, 0);
    handlers.gate.open();
    assert_eq!([next(&handled), next(&handled)], ["report 1", "report 2"]);
    assert_eq!(worker.shutdown(LONG), ShutDown::Finished);
    assert_eq!(jobs(&queue), 0);
}

/// The acknowledgements of a fixed batch are sent together.
#[testkit::test]
fn a_time_limit_ends_with_its_handler_even_if_the_acknowledgement_is_sent_later() {
    let time = Time::new();
    let queue = queue(&time, time.sim());
    let limited = queue.with_policy(JobPolicy::new().time_limit(SECOND));
    limited.push(b"limited".to_vec(), When::NOW).unwrap();
    queue.push(b"slow".to_vec(), When::NOW).unwrap();
    let gate = Gate::new();
    let worker = {
        let gate = gate.clone();
        let builder = Worker::builder(queue.clone()).batch(NonZeroUsize::new(2).unwrap());
        builder.start(move |job: &Claimed<Vec<u8>>| {
            if **job == b"slow" {
                gate.wait();
            }
            Ok::<_, String>(())
        })
    };
    let worker = worker.unwrap();
    gate.wait_for_arrivals(1);
    time.advance(SECOND * 2);
    time.clock.wait_for_sleepers(1);
    assert_eq!(queue.stats().timed_out, 0);
    assert!(
        queue
            .list(None, 10)
            .unwrap()
            .iter()
            .all(|job| job.failures.is_none())
    );
    gate.open();
    assert_eq!(worker.shutdown(LONG), ShutDown::Finished);
    assert_eq!(jobs(&queue), 0);
}

/// A clock that holds up the next party that reads it, except for pumps and one thread.
#[derive(Clone, Debug)]
struct HeldUp {
    clock: ManualClock,
    is_armed: Arc<AtomicBool>,
    gate: Gate,
    except: thread::ThreadId,
}

impl Clock for HeldUp {
    fn now(&self) -> Instant {
        let thread = thread::current();
        let is_meant = thread.id() != self.except && thread.name() != Some("durable-queue");
        if is_meant && self.is_armed.swap(false, SeqCst) {
            self.gate.wait();
        }
        self.clock.now()
    }

    fn park_until(&self, parker: &Parker, when: Instant) -> bool {
        self.clock.park_until(parker, when)
    }

    fn wake_at(&self, when: Instant, waker: Waker) -> std::io::Result<Alarm> {
        self.clock.wake_at(when, waker)
    }
}

/// A worker of the pool drops the handler's future while another polls the run.
#[testkit::test]
fn a_pool_that_is_released_drops_handlers_before_their_run_and_their_jobs_are_released() {
    let time = Time::new();
    let gate = Gate::new();
    let clock = HeldUp {
        clock: time.clock.clone(),
        is_armed: Arc::default(),
        gate: gate.clone(),
        except: thread::current().id(),
    };
    let queue = Queue::builder("queue", time.sim())
        .clock(clock.clone())
        .build()
        .unwrap();
    let pool = AsyncPool::builder().workers(2).build().unwrap();
    let (handlers, _handled) = Handlers::new();
    let worker = {
        let handlers = handlers.clone();
        Worker::builder(queue.clone())
            .concurrency(2)
            .on_async(move |job: Job<Report>| {
                let handlers = handlers.clone();
                async move { handlers.report(job.0).await }
            })
            .start_async(&pool)
            .unwrap()
    };
    queue.kind().push(Report(1), When::NOW).unwrap();
    handlers.gate.wait_for_arrivals(1);
    clock.is_armed.store(true, SeqCst);
    queue.kind().push(Report(2), When::NOW).unwrap();
    gate.wait_for_arrivals(1); // The party that polls the run, with the second job.
    pool.release_now();
    let report = || queue.list(None, 10).unwrap().remove(0);
    while report().state.is_held() {
        thread::yield_now();
    }
    gate.open();
    assert_eq!(report().attempts, 0, "{:?}", report().failures);
    pool.wait_released().unwrap();
    assert_eq!(worker.shutdown(LONG), ShutDown::Finished);
}

#[testkit::test]
fn a_time_limit_replaces_the_queues_timeout() {
    let time = Time::new();
    let queue = Queue::builder("queue", time.sim())
        .clock(time.clock.clone())
        .attempt_timeout(SECOND)
        .build()
        .unwrap();
    let limited = queue.with_policy(JobPolicy::new().time_limit(SECOND * 600));
    limited.push(b"job".to_vec(), When::NOW).unwrap();
    let job = queue.take().unwrap();
    for _ in 0..60 {
        time.advance(SECOND);
    }
    assert!(!job.is_lost());
    job.ack().unwrap();
    assert_eq!(queue.stats().timed_out, 0);
}
