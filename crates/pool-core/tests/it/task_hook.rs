//! The hook around each task: its arguments, the order of its calls, and its panics.

use std::time::Duration;

use pool_core::{
    CancelToken, Clock, FuncPool, ManualClock, Pool, TaskEnd, TaskHook, TaskOutcome, TaskStart,
    current,
};
use pool_util::PoolExt;

use crate::support::{Journal, hold};

const SECOND: Duration = Duration::from_secs(1);

#[derive(Clone, Debug, PartialEq, Eq)]
enum Seen {
    Before(Option<String>, Option<Duration>),
    After(Option<String>, Option<Duration>, Duration, TaskOutcome),
    Ran,
}

struct Recorder(Journal<Seen>);

impl TaskHook for Recorder {
    fn before(&self, task: &TaskStart<'_>) {
        let name = task.name().map(str::to_owned);
        assert_eq!(current().pool(), Some(task.pool()));
        self.0.write(Seen::Before(name, task.queued()));
    }

    fn after(&self, task: &TaskEnd<'_>) {
        let name = task.name().map(str::to_owned);
        let seen = Seen::After(name, task.queued(), task.ran(), task.outcome());
        self.0.write(seen);
    }
}

fn name(text: &str) -> String {
    text.to_owned()
}

#[testkit::test]
fn a_hook_is_called_before_and_after_each_task_with_its_times() {
    let (clock, journal) = (ManualClock::new(), Journal::new());
    let pool = Pool::builder().capacity(1).queue_depth(9).keep_alive(None);
    let pool = pool
        .clock(clock.clone())
        .task_hook(Recorder(journal.clone()));
    let pool = pool.build().unwrap();
    let gate = hold(&pool, 1);
    let (ticks, ran) = (clock.clone(), journal.clone());
    let handle = pool.task().name("named").spawn(move || {
        ticks.advance(3 * SECOND);
        ran.write(Seen::Ran);
    });
    let plain = pool.submit(|| panic!("seen, too"));
    plain.unwrap();
    clock.advance(2 * SECOND);
    gate.open();
    handle.unwrap().join().unwrap();
    pool.wait_idle().unwrap();
    let (zero, returned) = (Duration::ZERO, TaskOutcome::Returned);
    let expected = [
        Seen::Before(None, Some(zero)),
        Seen::After(None, Some(zero), 2 * SECOND, returned),
        Seen::Before(Some(name("named")), Some(2 * SECOND)),
        Seen::Ran,
        Seen::After(Some(name("named")), Some(2 * SECOND), 3 * SECOND, returned),
        Seen::Before(None, Some(5 * SECOND)),
        Seen::After(None, Some(5 * SECOND), zero, TaskOutcome::Panicked),
    ];
    assert_eq!(journal.entries(), expected);
}

#[testkit::test]
fn a_hook_is_called_only_after_the_end_of_an_unstarted_task() {
    let (clock, journal) = (ManualClock::new(), Journal::new());
    let pool = Pool::builder().capacity(1).queue_depth(9).keep_alive(None);
    let pool = pool
        .clock(clock.clone())
        .task_hook(Recorder(journal.clone()));
    let pool = pool.build().unwrap();
    let (gate, token) = (hold(&pool, 1), CancelToken::new());
    let cancelled = pool.task().name("cancelled").cancelled_by(&token);
    cancelled.submit(|| ()).unwrap();
    let late = clock.now() + SECOND;
    let expired = pool.task().name("expired").start_before(late);
    expired.submit(|| ()).unwrap();
    let taken_back = pool.task().name("taken back").spawn(|| ()).unwrap();
    assert!(taken_back.cancel());
    token.cancel();
    clock.advance(SECOND);
    gate.open();
    pool.wait_idle().unwrap();
    let (queued, zero) = (Some(SECOND), Duration::ZERO);
    let expected = [
        Seen::After(
            Some(name("cancelled")),
            queued,
            zero,
            TaskOutcome::Cancelled,
        ),
        Seen::After(Some(name("expired")), queued, zero, TaskOutcome::Expired),
    ];
    assert_eq!(journal.entries()[2..], expected);
}

/// The type names of the tasks that are about to run, and of those that have ended.
#[derive(Clone)]
struct TypeNames([Journal<&'static str>; 2]);

impl TypeNames {
    fn new() -> Self {
        Self([Journal::new(), Journal::new()])
    }

    /// How often each list contains the task's name. The type name of a mapping's piece contains
    /// the name of its function.
    fn counts(&self, name: &str) -> [usize; 2] {
        let count = |journal: &Journal<&'static str>| {
            let entries = journal.entries().into_iter();
            entries.filter(|entry| entry.contains(name)).count()
        };
        self.0.each_ref().map(count)
    }
}

impl TaskHook for TypeNames {
    fn before(&self, task: &TaskStart<'_>) {
        self.0[0].write(task.task());
    }

    fn after(&self, task: &TaskEnd<'_>) {
        self.0[1].write(task.task());
    }
}

/// One task function for each call of the test below. No name is a prefix of another, because the
/// hook tells the tasks apart by name.
macro_rules! tasks {
    ($($name:ident)*) => {
        mod tasks {
            $(pub(super) fn $name() {})*
            pub(super) fn of_plain_map(_: u32) {}
            pub(super) fn of_unordered_map(_: u32) {}
            pub(super) fn of_try_map(_: u32) -> Result<(), ()> {
                Ok(())
            }
            pub(super) fn of_for_each(_: u32) {}
            pub(super) fn of_scoped_map(_: u32) {}

            pub(super) const NAMES: &[&str] = &[
                $(concat!("tasks::", stringify!($name)),)*
                "tasks::of_plain_map",
                "tasks::of_unordered_map",
                "tasks::of_try_map",
                "tasks::of_for_each",
                "tasks::of_scoped_map",
            ];
        }
    };
}

#[rustfmt::skip]
tasks! {
    by_plain_submit by_try_submit by_submit_in_time by_submit_as_future
    by_plain_spawn by_try_spawn by_spawn_in_time by_spawn_as_future
    by_builder_submit by_builder_spawn by_permit_submit by_permit_spawn by_batch
    by_key_submit by_key_spawn by_key_as_future
    by_group_spawn by_group_try by_group_builder
    by_scope_submit by_scope_spawn by_scope_builder
}

#[testkit::test]
fn a_hook_is_called_for_tasks_of_every_call() {
    let seen = TypeNames::new();
    let pool = Pool::builder().capacity(1).queue_depth(40);
    let pool = pool.task_hook(seen.clone()).build().unwrap();
    let (keyed, group) = (pool.keyed(), pool.group());
    // Makes each call twice.
    for _ in 0..2 {
        pool.submit(tasks::by_plain_submit).unwrap();
        pool.try_submit(tasks::by_try_submit).unwrap();
        pool.submit_timeout(tasks::by_submit_in_time, SECOND)
            .unwrap();
        drop(pool.spawn(tasks::by_plain_spawn).unwrap());
        drop(pool.try_spawn(tasks::by_try_spawn).unwrap());
        drop(pool.spawn_timeout(tasks::by_spawn_in_time, SECOND).unwrap());
        pool.task().submit(tasks::by_builder_submit).unwrap();
        drop(pool.task().spawn(tasks::by_builder_spawn).unwrap());
        pool.reserve().unwrap().submit(tasks::by_permit_submit);
        drop(pool.reserve().unwrap().spawn(tasks::by_permit_spawn));
        keyed.submit(1, tasks::by_key_submit).unwrap();
        drop(keyed.spawn(1, tasks::by_key_spawn).unwrap());
        testkit::block_on(async {
            pool.submit_async(tasks::by_submit_as_future).await.unwrap();
            drop(pool.spawn_async(tasks::by_spawn_as_future).await.unwrap());
            keyed
                .submit_async(1, tasks::by_key_as_future)
                .await
                .unwrap();
        });
        group.spawn(tasks::by_group_spawn).unwrap();
        group.try_spawn(tasks::by_group_try).unwrap();
        group.task().spawn(tasks::by_group_builder).unwrap();
        pool.wait_idle().unwrap();
        pool.scope(|scope| {
            scope.submit(tasks::by_scope_submit);
            scope.spawn(tasks::by_scope_spawn).join().unwrap();
            scope.task().submit(tasks::by_scope_builder);
        });
    }
    pool.submit_batch([tasks::by_batch; 2]).unwrap();
    assert_eq!(pool.map(0..2, tasks::of_plain_map).count(), 2);
    assert_eq!(pool.map_unordered(0..2, tasks::of_unordered_map).count(), 2);
    assert_eq!(pool.try_map(0..2, tasks::of_try_map).count(), 2);
    pool.for_each(0..2, tasks::of_for_each).unwrap();
    pool.scope(|scope| assert_eq!(scope.map(0..2, tasks::of_scoped_map).count(), 2));
    pool.wait_idle().unwrap();
    for name in tasks::NAMES {
        assert_eq!(seen.counts(name), [2, 2], "{name} of {:#?}", seen.0[1]);
    }

    let journal = Journal::new();
    let typed = FuncPool::builder(|n: u32| n).capacity(1);
    let typed = typed.task_hook(Recorder(journal.clone())).build().unwrap();
    assert_eq!(typed.spawn(3).unwrap().join().unwrap(), 3);
    typed.submit(4).unwrap();
    typed.wait_idle().unwrap();
    assert_eq!(journal.len(), 4);
}

#[testkit::test]
fn a_hook_gets_the_queue_time_of_tasks_of_every_call() {
    let (clock, journal) = (ManualClock::new(), Journal::new());
    let pool = Pool::builder().capacity(1).queue_depth(20).keep_alive(None);
    let pool = pool
        .clock(clock.clone())
        .task_hook(Recorder(journal.clone()))
        .start_paused(true);
    let pool = pool.build().unwrap();
    let keyed = pool.keyed();
    pool.submit_batch([|| (), || ()]).unwrap();
    pool.reserve().unwrap().submit(|| ());
    let spawned = pool.reserve().unwrap().spawn(|| ());
    keyed.submit(1, || ()).unwrap(); // Runs in its own turn.
    keyed.submit(1, || ()).unwrap(); // Waits in its lane.
    let of_key = keyed.spawn(1, || ()).unwrap();
    testkit::block_on(async {
        keyed.submit_async(2, || ()).await.unwrap();
        let _detached = keyed.spawn_async(2, || ()).await.unwrap();
    });
    clock.advance(SECOND);
    pool.resume();
    spawned.join().unwrap();
    of_key.join().unwrap();
    pool.wait_idle().unwrap();
    let began = |seen: &Seen| match seen {
        Seen::Before(_, queued) => Some(*queued),
        _ => None,
    };
    let queued: Vec<_> = journal.entries().iter().filter_map(began).collect();
    assert_eq!(queued, [Some(SECOND); 9]);
}

#[testkit::test]
fn a_panicking_task_hook_is_counted_and_its_task_runs() {
    struct Panics;
    impl TaskHook for Panics {
        fn before(&self, _: &TaskStart<'_>) {
            panic!("before");
        }
        fn after(&self, _: &TaskEnd<'_>) {
            panic!("after");
        }
    }
    let pool = Pool::builder()
        .capacity(1)
        .task_hook(Panics)
        .build()
        .unwrap();
    assert_eq!(pool.spawn(|| 7).unwrap().join().unwrap(), 7);
    pool.submit(|| ()).unwrap();
    pool.wait_idle().unwrap();
    let stats = pool.stats();
    assert_eq!((stats.hook_panics, stats.completed), (4, 2));
}

#[testkit::test]
fn a_full_or_released_pool_with_a_hook_returns_tasks() {
    let journal = Journal::new();
    let pool = Pool::builder().capacity(1);
    let pool = pool.task_hook(Recorder(journal.clone())).build().unwrap();
    let gate = hold(&pool, 1);
    let back = pool.try_submit(|| 7).unwrap_err();
    assert!(back.is_full() && back.into_task()() == 7);
    assert!(pool.try_spawn(|| ()).unwrap_err().is_full());
    assert_eq!(pool.stats().refused, 2);
    gate.open();
    pool.release();
    assert!(pool.submit(|| ()).unwrap_err().is_released());
}

#[cfg(feature = "tracing")]
mod tracing {
    use pool_util::PoolExt;
    use std::cell::RefCell;
    use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
    use std::sync::{Arc, Mutex};

    use pool_core::Pool;
    use tracing::span::{Attributes, Id, Record};
    use tracing::{Event, Metadata, Subscriber};
    use tracing_core::span::Current;

    /// A subscriber that knows the current span of each thread.
    #[derive(Clone, Default)]
    struct Spans(Arc<Mutex<Vec<&'static Metadata<'static>>>>, Arc<AtomicU64>);

    std::thread_local! {
        static ENTERED: RefCell<Vec<Id>> = const { RefCell::new(Vec::new()) };
    }

    impl Subscriber for Spans {
        fn enabled(&self, _: &Metadata<'_>) -> bool {
            true
        }
        fn new_span(&self, span: &Attributes<'_>) -> Id {
            let mut spans = self.0.lock().unwrap();
            spans.push(span.metadata());
            Id::from_u64(spans.len() as u64)
        }
        fn record(&self, _: &Id, _: &Record<'_>) {}
        fn record_follows_from(&self, _: &Id, _: &Id) {}
        fn event(&self, _: &Event<'_>) {
            self.1.fetch_add(1, SeqCst);
        }
        fn enter(&self, span: &Id) {
            ENTERED.with_borrow_mut(|entered| entered.push(span.clone()));
        }
        fn exit(&self, _: &Id) {
            ENTERED.with_borrow_mut(Vec::pop);
        }
        fn current_span(&self) -> Current {
            let Some(id) = ENTERED.with_borrow(|entered| entered.last().cloned()) else {
                return Current::none();
            };
            let at = usize::try_from(id.into_u64()).unwrap() - 1;
            let metadata = self.0.lock().unwrap()[at];
            Current::new(Id::from_u64(at as u64 + 1), metadata)
        }
    }

    #[testkit::test]
    fn tasks_of_every_call_run_in_the_callers_span() {
        let pool = Pool::builder().capacity(1).queue_depth(20);
        let pool = pool.carry_span(true).build().unwrap();
        let (keyed, group) = (pool.keyed(), pool.group());
        let (sender, seen) = std::sync::mpsc::channel();
        let tell = move || {
            let name = tracing::Span::current().metadata().map(Metadata::name);
            sender.send(name).unwrap();
        };
        let tell = || tell.clone();
        tracing::subscriber::with_default(Spans::default(), || {
            let outer = tracing::info_span!("request");
            outer.in_scope(|| {
                pool.submit_batch([tell(), tell()]).unwrap();
                pool.reserve().unwrap().submit(tell());
                pool.reserve().unwrap().spawn(tell()).join().unwrap();
                keyed.submit(1, tell()).unwrap();
                keyed.spawn(1, tell()).unwrap().join().unwrap();
                testkit::block_on(keyed.submit_async(1, tell())).unwrap();
                let spawned = testkit::block_on(keyed.spawn_async(1, tell())).unwrap();
                spawned.join().unwrap();
                group.spawn(tell()).unwrap();
                pool.scope(|scope| {
                    scope.submit(tell());
                    scope.spawn(tell()).join().unwrap();
                });
            });
            let one = tell();
            let mapping = outer.in_scope(|| pool.map(0..2, move |_| one()));
            assert_eq!(mapping.count(), 2);
        });
        pool.wait_idle().unwrap();
        let names: Vec<_> = seen.try_iter().collect();
        assert_eq!(names, [Some("request"); 13]);
    }

    #[testkit::test]
    fn a_task_runs_in_its_submitters_span_and_subscriber() {
        let spans = Spans::default();
        let pool = Pool::builder()
            .capacity(1)
            .carry_span(true)
            .build()
            .unwrap();
        let span_of = || tracing::Span::current().metadata().map(Metadata::name);
        tracing::subscriber::with_default(spans.clone(), || {
            let outer = tracing::info_span!("request");
            let handle = outer.in_scope(|| pool.spawn(span_of).unwrap());
            assert_eq!(handle.join().unwrap(), Some("request"));
            assert_eq!(pool.spawn(span_of).unwrap().join().unwrap(), None);
            assert!(pool.spawn(|| panic!("reported")).unwrap().join().is_err());
        });
        assert_eq!(
            spans.1.load(SeqCst),
            1,
            "the worker reports to the submitter's subscriber"
        );
        let plain = Pool::builder().capacity(1).build().unwrap();
        tracing::subscriber::with_default(spans, || {
            let outer = tracing::info_span!("request");
            let handle = outer.in_scope(|| plain.spawn(span_of).unwrap());
            assert_eq!(handle.join().unwrap(), None);
        });
    }
}
