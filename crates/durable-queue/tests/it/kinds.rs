//! Kinds of jobs, their handlers and their policies.

use std::borrow::Cow;
use std::num::NonZeroUsize;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread;
use std::time::Duration;

use async_pool::AsyncPool;
use durable_queue::internals::LINE;
use durable_queue::store::JobState;
use durable_queue::{
    AttemptHook, AttemptStart, Claimed, DecodeError, DurableQueue, EncodeError, HORIZON, Hooks,
    Job, JobPolicy, Json, Kind, KindOptions, Merge, Payload, Push, Retried, ShutDown, Store,
    TakeError, When, Worker,
};
use durable_queue_sqlite::SqliteStore;
use durable_queue_testing::SimStore;
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
fn an_unknown_kind_is_retried_until_a_worker_that_knows_it_gets_it() {
    for way in WAYS {
        let time = Time::new();
        let queue = queue(&time, time.sim());
        let (handlers, handled) = Handlers::new();
        handlers.gate.open();
        queue.kind().push(Report(7), When::NOW).unwrap();
        let old = Queue::builder("queue", queue.store().clone())
            .clock(time.clock.clone())
            .back_off(durable_queue::FastSlow::new(SECOND, SECOND, 1))
            .build()
            .unwrap();
        let older = Worker::builder(old)
            .on(|_: &Claimed<Mail>| Ok::<_, String>(()))
            .start()
            .unwrap();
        while queue.list(None, 1).unwrap()[0].attempts < 1 {
            thread::yield_now();
        }
        assert_eq!(older.shutdown(LONG), ShutDown::Finished);
        let stop = start(way, &queue, 2, PLAIN, &handlers);
        pass_until(&time, || jobs(&queue) == 0);
        assert_eq!(next(&handled), "report 7", "{way:?}");
        assert_eq!(stop(), ShutDown::Finished);
    }
}

#[testkit::test]
fn jobs_of_an_unknown_kind_or_without_a_kind_are_buried_with_an_error_that_names_it() {
    for way in WAYS {
        let time = Time::new();
        let queue = queue(&time, time.sim());
        let (handlers, _handled) = Handlers::new();
        let stop = start(way, &queue, 2, PLAIN, &handlers);
        let once = queue.with_policy(JobPolicy::new().max_attempts(1));
        let errors = [
            "no handler of this worker takes jobs of kind `other`",
            "no handler of this worker takes jobs without a kind",
            "the payload cannot be decoded: it has not four bytes (a job of kind `report`)",
        ];
        once.kind().push(Other, When::NOW).unwrap();
        once.push(b"none".to_vec(), When::NOW).unwrap();
        once.kind().push(Newer, When::NOW).unwrap();
        while jobs(&queue) > 0 {
            thread::yield_now();
        }
        let dead = queue.dead(None, 10).unwrap();
        let found: Vec<&str> = dead.iter().map(|dead| &*dead.error).collect();
        assert_eq!(found, errors, "{way:?}");
        assert_eq!(stop(), ShutDown::Finished);
    }
}

#[testkit::test]
fn a_take_by_a_handle_of_a_kind_fails_attempts_of_other_kinds() {
    let time = Time::new();
    let queue = queue(&time, time.sim());
    let once = queue.with_policy(JobPolicy::new().max_attempts(1));
    let mails = once.kind::<Mail>();
    once.kind().push(Report(7), When::NOW).unwrap();
    once.push(b"none".to_vec(), When::NOW).unwrap();
    mails.push(mail("a"), When::NOW).unwrap();
    let taken = mails.take().unwrap();
    assert_eq!(taken.0, "a");
    taken.ack().unwrap();
    let taken = mails.take_timeout(Duration::ZERO);
    assert!(matches!(taken, Err(TakeError::TimedOut)));
    let dead = queue.dead(None, 10).unwrap();
    let errors: Vec<&str> = dead.iter().map(|dead| &*dead.error).collect();
    let expected = [
        "a job of kind `report` was taken as one of kind `mail`",
        "a job without a kind was taken as one of kind `mail`",
    ];
    assert_eq!(errors, expected);
    // Neither a future nor a worker with one handler differs.
    once.kind().push(Report(8), When::NOW).unwrap();
    mails.push(mail("b"), When::NOW).unwrap();
    let taken = block_on(mails.take_async()).unwrap();
    assert_eq!(taken.0, "b");
    taken.ack().unwrap();
    // A handle without a kind takes all.
    once.kind().push(Report(9), When::NOW).unwrap();
    let taken = queue.take().unwrap();
    assert_eq!((taken.kind(), taken.len()), (Some("report"), 4));
    taken.ack().unwrap();
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
    let once = queue.with_policy(JobPolicy::new().max_attempts(1));
    let (seen, mails) = channel();
    let worker = Worker::builder(queue.kind::<Mail>())
        .start(move |job| seen.send(job.0.clone()).map_err(|error| error.to_string()))
        .unwrap();
    once.kind().push(Report(7), When::NOW).unwrap();
    once.kind().push(mail("a"), When::NOW).unwrap();
    assert_eq!(mails.recv().unwrap(), "a");
    assert_eq!(worker.shutdown(LONG), ShutDown::Finished);
    let error = "a job of kind `report` was taken as one of kind `mail`";
    assert_eq!(error_of_dead(&queue), error);
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

#[testkit::test]
fn a_worker_gets_past_ten_thousand_jobs_of_a_full_kind_in_few_turns() {
    const REPORTS: u32 = 10_000;
    const TURNS: u64 = 120;
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
        let turns = queue.stats().turns;
        assert!(turns < TURNS, "{way:?}: {turns} turns");
        // Two run, and as many wait in the process. The store has the others.
        let held = || {
            let listed = queue.list(None, REPORTS + 1).unwrap();
            let held = listed.iter().filter(|job| job.state != JobState::Waiting);
            held.count()
        };
        while held() > 4 {
            thread::yield_now();
        }
        // Time stands still, so the pump has nothing to do.
        time.clock.wait_for_sleepers(1);
        let listed = queue.list(None, REPORTS + 1).unwrap();
        assert!(listed.iter().all(|job| job.attempts <= 1));
        let begun = listed.iter().filter(|job| job.attempts == 1);
        assert_eq!(begun.count(), 4, "postponed jobs have no attempt");
        queue.close();
        while held() > 2 {
            thread::yield_now(); // The waiting ones are released while the others run.
        }
        handlers.gate.open();
        assert_eq!(stop(), ShutDown::Finished);
        assert_eq!(
            jobs(&queue),
            REPORTS - 2,
            "{way:?}: the waiting ones are released"
        );
        let listed = queue.list(None, REPORTS).unwrap();
        assert!(listed.iter().all(|job| job.attempts == 0), "{way:?}");
    }
}

#[testkit::test]
fn postponed_jobs_can_be_run_by_other_processes_and_come_back() {
    for way in WAYS {
        let time = Time::new();
        let queue = queue(&time, time.sim());
        let (handlers, handled) = Handlers::new();
        let one = of_reports(KindOptions::new().concurrency(1));
        let reports = (0..5).map(|number| (Report(number), When::NOW));
        queue.kind().push_batch(reports.collect()).unwrap();
        let stop = start(way, &queue, 2, one, &handlers);
        let postponed = || {
            let listed = queue.list(None, 10).unwrap();
            listed
                .iter()
                .filter(|job| job.due > job.at && job.state == JobState::Waiting)
                .count()
        };
        // One runs, and one waits.
        while postponed() < 3 {
            thread::yield_now();
        }
        // Its claim comes first: the worker, which wants more jobs, would claim all of them, and postpone them again.
        let other = Queue::builder("queue", queue.store().clone())
            .clock(time.clock.clone())
            .horizon(LINE - SECOND / 10)
            .build()
            .unwrap();
        let reports = other.kind::<Report>();
        let taken = on_thread(&reports, |reports| reports.take().unwrap());
        pass_with(&time, 2, || other.stats().taken == 1);
        taken.join().unwrap().ack().unwrap();
        assert_eq!(jobs(&queue), 4);
        other.close();
        handlers.gate.open();
        pass_until(&time, || jobs(&queue) == 0);
        assert_eq!(handled.iter().take(4).count(), 4, "{way:?}");
        assert_eq!(stop(), ShutDown::Finished);
    }
}

/// Also not ahead of its time, however long the horizon is.
#[testkit::test]
fn a_postponed_job_is_not_claimed_again_before_it_comes_back() {
    for horizon in [HORIZON, LINE * 3] {
        let time = Time::new();
        let queue = Queue::builder("queue", time.sim())
            .clock(time.clock.clone())
            .horizon(horizon)
            .build()
            .unwrap();
        let (handlers, _handled) = Handlers::new();
        let one = of_reports(KindOptions::new().concurrency(1));
        let reports = (0..5).map(|number| (Report(number), When::NOW));
        queue.kind().push_batch(reports.collect()).unwrap();
        let stop = start(Way::Run, &queue, 2, one, &handlers);
        let postponed = || {
            let listed = queue.list(None, 10).unwrap().into_iter();
            let waiting = listed.filter(|job| job.state == JobState::Waiting);
            waiting.filter(|job| job.due > job.at).count()
        };
        let turns = || queue.stats().turns;
        while time.clock.sleepers() == 0 || postponed() < 3 {
            assert!(turns() < 100, "it goes round and round");
            thread::yield_now();
        }
        let before = turns();
        time.advance(LINE);
        time.clock.wait_for_sleepers(1);
        assert_eq!((turns(), postponed()), (before, 3), "{horizon:?}");
        queue.close();
        handlers.gate.open();
        assert_eq!(stop(), ShutDown::Finished);
    }
}

#[testkit::test]
fn a_full_kind_costs_at_most_a_hundred_postponements_per_second() {
    const REPORTS: u32 = 1_000;
    let time = Time::new();
    let queue = queue(&time, time.sim());
    let (handlers, _handled) = Handlers::new();
    let reports = (0..REPORTS).map(|number| (Report(number), When::NOW));
    queue.kind().push_batch(reports.collect()).unwrap();
    let one = of_reports(KindOptions::new().concurrency(1));
    let stop = start(Way::Run, &queue, 2, one, &handlers);
    let postponed = || {
        let listed = queue.list(None, REPORTS).unwrap().into_iter();
        let postponed = listed.filter(|job| job.due > job.at && job.state == JobState::Waiting);
        let mut due: Vec<_> = postponed.map(|job| job.due).collect();
        due.sort_unstable();
        due
    };
    let due = loop {
        let due = postponed();
        if due.len() >= REPORTS as usize - 2 {
            break due;
        }
        thread::yield_now();
    };
    let is_spread = due
        .windows(101)
        .all(|hundred| hundred[100].since(hundred[0]) >= SECOND);
    assert!(is_spread, "{due:?}");
    queue.close();
    handlers.gate.open();
    assert_eq!(stop(), ShutDown::Finished);
}

#[testkit::test]
fn a_free_place_of_a_kind_goes_to_the_job_that_waits_in_the_process() {
    for way in WAYS {
        let time = Time::new();
        let queue = queue(&time, time.sim());
        let (handlers, handled) = Handlers::new();
        let one = of_reports(KindOptions::new().concurrency(1));
        let stop = start(way, &queue, 3, one, &handlers);
        queue.kind().push(Report(1), When::NOW).unwrap();
        handlers.gate.wait_for_arrivals(1);
        queue.kind().push(Report(2), When::NOW).unwrap();
        let begun = || {
            let listed = queue.list(None, 10).unwrap();
            listed.iter().filter(|job| job.attempts == 1).count()
        };
        while begun() < 2 {
            thread::yield_now();
        }
        // Time stands still, so the second has not been postponed.
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
        queue.push(b"without a kind".to_vec(), When::NOW).unwrap();
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

#[testkit::test]
fn the_time_limit_of_a_job_that_waits_for_its_kind_starts_with_its_handler() {
    for way in WAYS {
        let time = Time::new();
        let queue = queue(&time, time.sim());
        let (handlers, handled) = Handlers::new();
        let one = of_reports(KindOptions::new().concurrency(1));
        let stop = start(way, &queue, 3, one, &handlers);
        queue.kind().push(Report(1), When::NOW).unwrap();
        handlers.gate.wait_for_arrivals(1);
        let limited = queue.with_policy(JobPolicy::new().time_limit(SECOND));
        limited.kind().push(Report(2), When::NOW).unwrap();
        let begun = || {
            let listed = queue.list(None, 10).unwrap();
            listed.iter().filter(|job| job.attempts == 1).count()
        };
        while begun() < 2 {
            thread::yield_now();
        }
        for _ in 0..50 {
            time.clock.wait_for_sleepers(1);
            time.clock.advance(SECOND / 10);
        }
        assert_eq!(queue.stats().timed_out, 0, "{way:?}");
        handlers.gate.open();
        assert_eq!(
            [next(&handled), next(&handled)],
            ["report 1", "report 2"],
            "{way:?}"
        );
        assert_eq!(stop(), ShutDown::Finished);
        assert_eq!(jobs(&queue), 0);
    }
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

/// Holds up the party that meets a job of an unknown kind.
struct HeldUp(Gate);

impl Hooks for HeldUp {
    fn started(&self, attempt: &AttemptStart<'_>) -> Option<Box<dyn AttemptHook>> {
        if attempt.kind == Some(Other::NAME) {
            self.0.wait();
        }
        None
    }
}

/// A worker of the pool drops the handler's future while another polls the run.
#[testkit::test]
fn a_pool_that_is_released_drops_handlers_before_their_run_and_their_jobs_are_released() {
    let time = Time::new();
    let gate = Gate::new();
    let queue = Queue::builder("queue", time.sim())
        .clock(time.clock.clone())
        .hooks(HeldUp(gate.clone()))
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
    queue.kind().push(Other, When::NOW).unwrap();
    gate.wait_for_arrivals(1);
    pool.release_now();
    let report = || {
        let listed = queue.list(None, 10).unwrap();
        let mut reports = listed
            .into_iter()
            .filter(|job| job.kind.as_deref() == Some("report"));
        reports.next().unwrap()
    };
    while report().state != JobState::Waiting {
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

#[testkit::test]
fn the_longest_line_and_delay_are_stated() {
    assert_eq!(LINE, SECOND);
}
