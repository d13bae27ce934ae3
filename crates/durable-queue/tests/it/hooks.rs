//! Hooks around pushes and attempts.

use std::io;
use std::num::NonZeroUsize;
use std::sync::{Arc, Mutex};
use std::thread;

use durable_queue::{
    AttemptEnd, AttemptHook, AttemptStart, Cancelled, Claimed, DurableQueue, ErrorKind, Hooks,
    JobPolicy, LEASE, LONGEST_CONTEXT, Merge, Outcome, Push, Pushed, Retried, ShutDown, StoreTime,
    When, Worker,
};
use durable_queue_testing::{Call, Fault, SimStore};
use testkit::block_on;

use crate::support::{LONG, SECOND, Time, job};

type Queue = DurableQueue<String, SimStore>;

/// Records calls, and misbehaves as asked to.
#[derive(Clone, Default)]
struct Recorder {
    events: Arc<Mutex<Vec<String>>>,
    context: Arc<Mutex<Option<String>>>,
    does: Does,
}

#[derive(Clone, Copy, Default, PartialEq, Eq)]
enum Does {
    #[default]
    Record,
    PanicInAll,
    PanicAfterParts,
    RunPartsTwice,
    SkipParts,
}

impl Recorder {
    fn doing(does: Does) -> Self {
        Self {
            does,
            ..Self::default()
        }
    }

    fn note(&self, event: String) {
        self.events.lock().unwrap().push(event);
    }

    fn take(&self) -> Vec<String> {
        std::mem::take(&mut *self.events.lock().unwrap())
    }

    fn maybe_panic(&self) {
        assert!(self.does != Does::PanicInAll, "as it was asked to");
    }

    fn queue(&self, time: &Time) -> Queue {
        let builder = time.builder(time.sim()).hooks(self.clone());
        builder.max_attempts(2).build().unwrap()
    }
}

impl Hooks for Recorder {
    fn context(&self, queue: &str) -> Option<String> {
        assert_eq!(queue, "queue");
        self.maybe_panic();
        self.context.lock().unwrap().clone()
    }

    fn pushed(&self, push: &Pushed<'_>) {
        assert_eq!((push.queue, push.kind), ("queue", None));
        let error = push.error.map(durable_queue::StoreError::kind);
        self.note(format!(
            "pushed {} in {:?}: {error:?}",
            push.jobs, push.took
        ));
        self.maybe_panic();
    }

    fn started(&self, attempt: &AttemptStart<'_>) -> Option<Box<dyn AttemptHook>> {
        assert_eq!((attempt.queue, attempt.kind), ("queue", None));
        let AttemptStart { late, context, .. } = attempt;
        let attempt = attempt.attempt;
        self.note(format!("started {attempt}, {late:?} late, {context:?}"));
        self.maybe_panic();
        Some(Box::new(self.clone()))
    }
}

impl AttemptHook for Recorder {
    fn around(&mut self, part: &mut dyn FnMut()) {
        self.maybe_panic();
        if self.does == Does::SkipParts {
            return;
        }
        self.note("enter".to_owned());
        part();
        self.note("leave".to_owned());
        if self.does == Does::RunPartsTwice {
            part();
        }
        assert!(self.does != Does::PanicAfterParts, "as it was asked to");
    }

    fn ended(self: Box<Self>, end: &AttemptEnd<'_>) {
        let AttemptEnd {
            outcome,
            took,
            retried,
            error,
            ..
        } = end;
        self.note(format!("{outcome:?} in {took:?}, {retried:?}, {error:?}"));
        self.maybe_panic();
    }
}

#[testkit::test]
fn each_push_is_reported_with_the_number_of_its_jobs() {
    let recorder = Recorder::default();
    let queue = recorder.queue(&Time::new());
    let many = || {
        vec![
            Push::new(job("a"), When::NOW),
            Push::new(job("b"), When::NOW),
        ]
    };
    queue.push(job("a"), When::NOW).unwrap();
    queue
        .push_keyed("k", job("a"), When::NOW, Merge::Keep)
        .unwrap();
    queue.push_many(many()).unwrap();
    queue.push_batch(vec![(job("a"), When::NOW); 3]).unwrap();
    let counts = |counts: &[usize]| {
        let lines = counts
            .iter()
            .map(|jobs| format!("pushed {jobs} in 0ns: None"));
        lines.collect::<Vec<_>>()
    };
    assert_eq!(recorder.take(), counts(&[1, 1, 2, 3]));

    block_on(queue.push_async(job("a"), When::NOW)).unwrap();
    block_on(queue.push_keyed_async("k", job("a"), When::NOW, Merge::Keep)).unwrap();
    block_on(queue.push_many_async(many())).unwrap();
    assert_eq!(recorder.take(), counts(&[1, 1, 2]));
    drop(queue.push_async(job("a"), When::NOW));
    assert!(recorder.take().is_empty(), "it is not pushed");
}

#[testkit::test]
fn a_failed_push_is_reported_with_its_error() {
    let time = Time::new();
    let recorder = Recorder::default();
    let store = SimStore::with_faults(time.store.clone(), |call| match call {
        Call::Enqueue => Fault::Refused(ErrorKind::Full),
        _ => Fault::None,
    });
    let queue = time.builder(store).hooks(recorder.clone()).build().unwrap();
    queue.push(job("a"), When::NOW).unwrap_err();
    block_on(queue.push_async(job("a"), When::NOW)).unwrap_err();
    assert_eq!(recorder.take(), ["pushed 1 in 0ns: Some(Full)"; 2]);
}

#[cfg(feature = "cron")]
#[testkit::test]
fn a_repeating_push_is_reported_once() {
    let recorder = Recorder::default();
    let queue = recorder.queue(&Time::new());
    let schedule = "* * * * *".parse().unwrap();
    queue.push_repeating("k", &schedule, job("a")).unwrap();
    block_on(queue.push_repeating_async("k", &schedule, job("a"))).unwrap();
    assert_eq!(recorder.take(), ["pushed 1 in 0ns: None"; 2]);
}

#[testkit::test]
fn an_attempt_is_observed_from_its_start_to_the_settle_of_its_guard() {
    type Settles = fn(Claimed<String>);
    let cases: [(Settles, &str); 8] = [
        (|job| job.ack().unwrap(), "Done in 1s, None, None"),
        (|job| job.ack_later(), "Done in 1s, None, None"),
        (
            |job| _ = job.retry("no").unwrap(),
            "Failed in 1s, Some(Again(After(1s))), Some(\"no\")",
        ),
        (
            |job| _ = job.retry_after(SECOND * 3, "no").unwrap(),
            "Failed in 1s, Some(Again(After(3s))), Some(\"no\")",
        ),
        (
            |job| job.retry_later("no"),
            "Failed in 1s, Some(Again(After(1s))), Some(\"no\")",
        ),
        (|job| job.release().unwrap(), "Released in 1s, None, None"),
        (
            |job| job.bury("bad").unwrap(),
            "Failed in 1s, Some(Buried), Some(\"bad\")",
        ),
        (
            drop,
            "Failed in 1s, Some(Again(After(1s))), Some(\"the job was dropped without being settled\")",
        ),
    ];
    for (settle, ended) in cases {
        let (time, recorder) = (Time::new(), Recorder::default());
        let queue = recorder.queue(&time);
        queue.push(job("a"), When::NOW).unwrap();
        time.clock.advance(SECOND * 5);
        let taken = queue.take().unwrap();
        time.clock.advance(SECOND);
        settle(taken);
        let started = "started 1, 5s late, None";
        assert_eq!(recorder.take()[1..], [started, ended]);
    }
}

#[testkit::test]
fn the_batch_of_an_acknowledging_take_is_observed() {
    let (time, recorder) = (Time::new(), Recorder::default());
    let queue = recorder.queue(&time);
    queue.push_batch(vec![(job("a"), When::NOW); 2]).unwrap();
    let first = queue.take().unwrap();
    let second = queue
        .ack_and_take_many(vec![first], NonZeroUsize::MIN)
        .unwrap();
    assert_eq!(recorder.take()[2], "Done in 0ns, None, None");
    queue.close();
    drop(second);
    assert_eq!(recorder.take(), ["Released in 0ns, None, None"]);
}

#[testkit::test]
fn an_undecodable_job_is_unreadable_and_counts_no_attempt() {
    let (time, recorder) = (Time::new(), Recorder::default());
    let bytes: DurableQueue<Vec<u8>, _> = DurableQueue::new("queue", time.sim());
    bytes.push(vec![0xff], When::NOW).unwrap();
    let builder = time.builder(bytes.store().clone()).hooks(recorder.clone());
    let queue = builder.max_attempts(1).build().unwrap();
    queue.push(job("good"), When::NOW).unwrap();
    assert_eq!(*queue.take().unwrap(), "good");
    let events = recorder.take();
    assert_eq!(events[1], "started 1, 0ns late, None");
    assert!(
        events[2].starts_with("Unreadable in 0ns, None, Some"),
        "{}",
        events[2]
    );
    assert_eq!(bytes.list(None, 10).unwrap()[0].attempts, 0);
}

/// Runs a job of each kind of handler.
fn each_handler(recorder: &Recorder, text: &str) -> [Vec<String>; 2] {
    fn handled(text: &str) -> Result<(), io::Error> {
        assert!(text != "panic", "as it was asked to");
        match text {
            "done" => Ok(()),
            error => Err(io::Error::other(error.to_owned())),
        }
    }
    fn end(time: &Time, queue: &Queue) {
        while queue.store_stats().unwrap().jobs > 0 {
            time.clock.advance(SECOND);
            thread::yield_now();
        }
    }
    let time = Time::new();
    let blocking = {
        let queue = recorder.queue(&time);
        queue.push(job(text), When::NOW).unwrap();
        let worker = Worker::builder(queue.clone()).start(|job| handled(job));
        end(&time, &queue);
        assert_eq!(worker.unwrap().shutdown(LONG), ShutDown::Finished);
        recorder.take()
    };
    {
        let queue = recorder.queue(&time);
        queue.push(job(text), When::NOW).unwrap();
        let run = Worker::builder(queue.clone()).run_async(|job| async move {
            let mut is_first = true;
            std::future::poll_fn(|context| {
                context.waker().wake_by_ref();
                if std::mem::take(&mut is_first) {
                    std::task::Poll::Pending
                } else {
                    std::task::Poll::Ready(())
                }
            })
            .await;
            handled(&job)
        });
        let thread = thread::spawn(move || block_on(run));
        end(&time, &queue);
        queue.close();
        assert!(matches!(thread.join().unwrap(), Ok(ShutDown::Finished)));
        [blocking, recorder.take()]
    }
}

#[testkit::test]
fn a_handler_runs_within_the_hook_of_its_attempt() {
    for (text, outcome, error) in [
        ("done", "Done", None),
        ("bad", "Failed", Some("bad")),
        ("panic", "Panicked", Some("the handler panicked")),
    ] {
        let [blocking, futures] = each_handler(&Recorder::default(), text);
        let attempts = if outcome == "Done" { 1 } else { 2 };
        for (events, parts) in [(blocking, 1), (futures, 4)] {
            assert_eq!(events.len(), 1 + attempts * (2 + 2 * parts), "{events:?}");
            let mut events = events[1..].iter();
            for attempt in 1..=attempts {
                let started = events.next().unwrap();
                assert!(started.starts_with(&format!("started {attempt}, ")));
                // The call, two polls, and the drop of a future.
                for _ in 0..parts {
                    assert_eq!(events.next().unwrap(), "enter");
                    assert_eq!(events.next().unwrap(), "leave");
                }
                let ended = events.next().unwrap();
                assert!(ended.starts_with(outcome), "{ended}");
                assert!(ended.ends_with(&format!("{error:?}")), "{ended}");
                let is_buried = ended.contains("Some(Buried)");
                assert_eq!(is_buried, outcome != "Done" && attempt == 2);
            }
        }
    }
}

#[testkit::test]
fn hooks_that_panic_change_no_result() {
    for does in [Does::PanicInAll, Does::PanicAfterParts] {
        for text in ["done", "bad", "panic"] {
            let all = each_handler(&Recorder::doing(does), text);
            for events in all.iter().filter(|events| !events.is_empty()) {
                let started = events.iter().filter(|it| it.starts_with("started"));
                assert_eq!(started.count(), if text == "done" { 1 } else { 2 });
                let is_done = |it: &&String| it.starts_with("Done");
                let is_told = does == Does::PanicAfterParts && text == "done";
                assert_eq!(events.iter().filter(is_done).count(), usize::from(is_told));
            }
        }
    }
}

#[testkit::test]
fn a_part_of_an_attempt_runs_once_however_often_its_hook_calls_it() {
    for does in [Does::RunPartsTwice, Does::SkipParts] {
        for (text, outcome) in [("done", "Done"), ("bad", "Failed"), ("panic", "Panicked")] {
            let all = each_handler(&Recorder::doing(does), text);
            for events in all.iter().filter(|events| !events.is_empty()) {
                let ended = events.iter().filter(|it| it.starts_with(outcome));
                assert_eq!(ended.count(), if text == "done" { 1 } else { 2 });
            }
        }
    }
}

#[testkit::test]
fn an_attempt_whose_lease_was_lost_ends_as_lost() {
    let (time, recorder) = (Time::new(), Recorder::default());
    let queue = time
        .builder(time.sim())
        .hooks(recorder.clone())
        .heartbeat(false)
        .attempt_timeout(SECOND)
        .build()
        .unwrap();
    queue.push(job("a"), When::NOW).unwrap();
    let late = queue.take().unwrap();
    time.clock.advance(LEASE * 2);
    let again = queue.take().unwrap();
    assert_eq!(again.attempt(), 2);
    while !late.is_lost() {
        // Its extension tells this process.
        let _ = late.extend(SECOND);
    }
    assert!(late.ack().unwrap_err().is_stale());
    again.ack().unwrap();
    let events = recorder.take();
    assert_eq!(events[3], "Lost in 20s, None, None");
    assert_eq!(events[4], "Done in 0ns, None, None");
}

#[testkit::test]
fn an_attempt_that_a_cancel_ends_is_reported_as_cancelled() {
    type Settles = fn(Claimed<String>);
    let cases: [(Settles, &str); 5] = [
        (|job| job.ack().unwrap(), "Done in 0ns, None, None"),
        (
            |job| _ = job.retry("no").unwrap(),
            "Cancelled in 0ns, Some(Cancelled), Some(\"no\")",
        ),
        (|job| job.release().unwrap(), "Cancelled in 0ns, None, None"),
        (
            drop,
            "Cancelled in 0ns, Some(Cancelled), Some(\"the job was dropped without being settled\")",
        ),
        (
            |job| job.bury("bad").unwrap(),
            "Failed in 0ns, Some(Buried), Some(\"bad\")",
        ),
    ];
    for (settle, ended) in cases {
        let (time, recorder) = (Time::new(), Recorder::default());
        let queue = recorder.queue(&time);
        let id = queue.push(job("a"), When::NOW).unwrap();
        let taken = queue.take().unwrap();
        assert!(matches!(queue.cancel(id).unwrap(), Cancelled::Taken));
        block_on(taken.cancelled());
        settle(taken);
        assert_eq!(recorder.take()[2], ended);
    }
}

#[testkit::test]
fn an_attempt_that_its_time_limit_has_ended_is_lost() {
    let (time, recorder) = (Time::new(), Recorder::default());
    let queue = recorder.queue(&time);
    let limited = queue.with_policy(JobPolicy::new().time_limit(SECOND));
    limited.push(job("a"), When::NOW).unwrap();
    let taken = queue.take().unwrap();
    let lost = taken.lost();
    time.advance(SECOND);
    block_on(lost);
    assert_eq!(recorder.take().len(), 2, "its handler goes on");
    drop(taken);
    let events = recorder.take();
    assert_eq!(events.len(), 1);
    assert!(events[0].starts_with("Lost in 1s, "), "{events:?}");
}

#[testkit::test]
fn a_future_that_its_time_limit_drops_ends_its_hook_as_lost() {
    let (time, recorder) = (Time::new(), Recorder::default());
    let queue = time
        .builder(time.sim())
        .hooks(recorder.clone())
        .max_attempts(1)
        .build()
        .unwrap();
    let limited = queue.with_policy(JobPolicy::new().time_limit(SECOND));
    limited.push(job("a"), When::NOW).unwrap();
    let run =
        Worker::builder(queue.clone()).run_async(|_| std::future::pending::<io::Result<()>>());
    let thread = thread::spawn(move || block_on(run));
    // The push, the start, the call and a poll.
    while recorder.events.lock().unwrap().len() < 6 {
        thread::yield_now();
    }
    while queue.store_stats().unwrap().jobs > 0 {
        time.clock.advance(SECOND);
        thread::yield_now();
    }
    queue.close();
    assert!(matches!(thread.join().unwrap(), Ok(ShutDown::Finished)));
    let events = recorder.take();
    // The drop of the future.
    assert_eq!(events[6..8], ["enter", "leave"]);
    assert_eq!(events.len(), 9);
    assert!(events.last().unwrap().starts_with("Lost in "), "{events:?}");
}

#[testkit::test]
fn a_push_has_both_a_policy_and_the_text_of_the_hooks() {
    let (time, recorder) = (Time::new(), Recorder::default());
    let queue = recorder.queue(&time);
    *recorder.context.lock().unwrap() = Some(job("span"));
    let policy = JobPolicy::new().max_attempts(1);
    let once = queue.with_policy(policy);
    let pushes: [fn(&Queue); 5] = [
        |once| _ = once.push(job("a"), When::NOW).unwrap(),
        |once| {
            let jobs = vec![Push::new(job("a"), When::NOW)];
            once.push_many(jobs).unwrap();
        },
        |once| _ = once.push_batch(vec![(job("a"), When::NOW)]).unwrap(),
        |once| _ = block_on(once.push_async(job("a"), When::NOW)).unwrap(),
        |once| {
            let jobs = vec![Push::new(job("a"), When::NOW)];
            block_on(once.push_many_async(jobs)).unwrap();
        },
    ];
    for push in pushes {
        push(&once);
        let taken = queue.take().unwrap();
        assert_eq!(taken.retry("no").unwrap(), Retried::Buried);
        let events = recorder.take();
        assert_eq!(events[1], "started 1, 0ns late, Some(\"span\")");
        let dead = queue.dead(None, 10).unwrap();
        assert_eq!(dead[0].options.as_deref(), Some("attempts=1 context=span"));
        queue.delete_dead(&[dead[0].id]).unwrap();
    }
}

#[testkit::test]
fn the_text_of_a_push_reaches_each_attempt_of_its_job() {
    let (time, recorder) = (Time::new(), Recorder::default());
    let queue = recorder.queue(&time);
    let parent = "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01";
    let set = |context: Option<&str>| *recorder.context.lock().unwrap() = context.map(job);
    let context_of = |queue: &Queue| {
        let taken = queue.take().unwrap();
        let again = taken.retry("no").unwrap();
        assert!(matches!(again, Retried::Again(_)));
        time.clock.advance(SECOND);
        queue.take().unwrap().ack().unwrap();
        let started = recorder.take().into_iter();
        let started = started.filter(|it| it.starts_with("started"));
        let texts: Vec<_> = started
            .map(|it| it.split_once("late, ").unwrap().1.to_owned())
            .collect();
        assert_eq!(texts.len(), 2);
        assert_eq!(texts[0], texts[1], "of both attempts");
        texts[0].clone()
    };
    let some = format!("{:?}", Some(parent));
    set(Some(parent));
    queue.push(job("a"), When::NOW).unwrap();
    assert_eq!(context_of(&queue), some);
    queue
        .push_many(vec![Push::new(job("a"), When::NOW)])
        .unwrap();
    assert_eq!(context_of(&queue), some);
    block_on(queue.push_async(job("a"), When::NOW)).unwrap();
    assert_eq!(context_of(&queue), some);

    let long = "x".repeat(LONGEST_CONTEXT + 1);
    for unfit in [None, Some(""), Some("a b"), Some("a\0"), Some(&*long)] {
        set(unfit);
        queue.push(job("a"), When::NOW).unwrap();
        assert_eq!(context_of(&queue), "None");
    }
    set(Some(&long[1..]));
    queue.push(job("a"), When::NOW).unwrap();
    assert_eq!(context_of(&queue), format!("{:?}", Some(&long[1..])));
}

#[testkit::test]
fn texts_of_debug_omit_keys_and_errors() {
    struct Prints(Arc<Mutex<Vec<String>>>);
    struct PrintsEnd(Arc<Mutex<Vec<String>>>);
    impl Hooks for Prints {
        fn started(&self, attempt: &AttemptStart<'_>) -> Option<Box<dyn AttemptHook>> {
            assert_eq!(attempt.key, Some(&b"secret"[..]));
            self.0.lock().unwrap().push(format!("{attempt:?}"));
            Some(Box::new(PrintsEnd(Arc::clone(&self.0))))
        }
    }
    impl AttemptHook for PrintsEnd {
        fn ended(self: Box<Self>, end: &AttemptEnd<'_>) {
            assert_eq!((end.outcome, end.error), (Outcome::Failed, Some("secret")));
            self.0.lock().unwrap().push(format!("{end:?}"));
        }
    }
    let (time, texts) = (Time::new(), Arc::new(Mutex::new(Vec::new())));
    let hooks = Prints(Arc::clone(&texts));
    let queue = time.builder(time.sim()).hooks(hooks).build().unwrap();
    queue
        .push_keyed("secret", job("a"), StoreTime::from_micros(0), Merge::Keep)
        .unwrap();
    queue.take().unwrap().bury("secret").unwrap();
    let texts = texts.lock().unwrap();
    assert_eq!(texts.len(), 2);
    assert!(
        texts.iter().all(|text| !text.contains("secret")),
        "{texts:?}"
    );
}
