//! User code that panics or calls back into its pool while the invariant of an `unsafe` block is
//! suspended (`src/UNSAFE.md`): in a task's body, and in the destructors of its captures, its value
//! and its payload. Each value must be dropped exactly once, and the pool must continue.

use std::fmt::Debug;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::thread;

use pool_core::{
    Accepts, CancelToken, Closures, Func, FuncPool, JoinHandle, OnFull, Pool, Runner, SubmitError,
    TaskBuilder, WorkerPool, current,
};
use pool_util::PoolExt;
use testkit::{Counted, DropCounter};

use crate::support::{Journal, poll, pool};

/// The place in which a task's user code acts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum At {
    Body,
    Capture,
    Value,
    Payload,
}

const PLACES: [At; 4] = [At::Body, At::Capture, At::Value, At::Payload];

/// The action of the user code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Act {
    Panic,
    /// Submits tasks to its own pool, joins one and cancels one.
    CallBack,
    ReleaseNow,
}

const ACTS: [Act; 3] = [Act::Panic, Act::CallBack, Act::ReleaseNow];

/// The place and action of one task, and a count of its live values.
struct Scenario {
    at: At,
    act: Box<dyn Fn() + Send + Sync>,
    acted: AtomicUsize,
    drops: DropCounter,
}

/// A capture, value, or panic payload of a task.
struct Part<const N: usize> {
    of: At,
    scenario: Arc<Scenario>,
    _counted: Counted,
    bulk: [u8; N],
}

/// The size of a capture that fits into the queue's entry.
const SMALL: usize = 0;
/// The size of a capture that is boxed.
const LARGE: usize = 100;

impl Scenario {
    fn new<const N: usize>(at: At, doing: Act, tasks: &impl Tasks<N>) -> Arc<Self> {
        Arc::new(Self {
            at,
            act: act(doing, tasks),
            acted: AtomicUsize::new(0),
            drops: DropCounter::new(),
        })
    }

    fn part<const N: usize>(self: &Arc<Self>, of: At) -> Part<N> {
        Part {
            of,
            scenario: Arc::clone(self),
            _counted: self.drops.token(),
            bulk: [7; N],
        }
    }

    fn reached(&self, place: At) {
        // A second panic on an unwinding thread would abort the process.
        if place == self.at && !thread::panicking() {
            self.acted.fetch_add(1, SeqCst);
            (self.act)();
        }
    }

    /// Checks that the user code acted once and that all values are dropped.
    fn check(&self, what: &dyn Debug) {
        let (acted, alive) = (self.acted.load(SeqCst), self.drops.alive());
        assert_eq!((acted, alive), (1, 0), "{what:?}");
    }
}

impl<const N: usize> Drop for Part<N> {
    fn drop(&mut self) {
        assert!(self.bulk.iter().all(|&byte| byte == 7), "it is whole");
        self.scenario.reached(self.of);
    }
}

/// The body of a task.
fn run<const N: usize>(capture: Part<N>) -> Part<N> {
    let scenario = Arc::clone(&capture.scenario);
    scenario.reached(At::Body);
    if scenario.at == At::Payload {
        resume_unwind(Box::new(scenario.part::<N>(At::Payload)));
    }
    // Not at the end of the function: a destructor that panics there leaks the return value
    // (rust-lang/rust#47949).
    drop(capture);
    scenario.part(At::Value)
}

/// The user code for an action on the pool that runs it.
fn act<const N: usize>(doing: Act, pool: &impl Tasks<N>) -> Box<dyn Fn() + Send + Sync> {
    let pool = pool.clone();
    Box::new(move || match doing {
        Act::Panic => resume_unwind(Box::new(PURPOSE)),
        Act::CallBack => pool.call_back(),
        Act::ReleaseNow => pool.release_now(),
    })
}

/// A pool whose tasks capture a [`Part`].
trait Tasks<const N: usize>: Clone + Send + Sync + 'static {
    type Runner: Runner;
    fn with_room(depth: usize) -> Self;
    fn pool(&self) -> &WorkerPool<Self::Runner>;
    /// Submits harmless tasks, joins one and cancels one. The pool may refuse each call.
    fn call_back(&self);
    fn release_now(&self);
    /// Called on a full pool.
    fn replace_oldest(&self);
}

fn call_back<R, T>(pool: &WorkerPool<R>, task: impl Fn() -> T)
where
    R: Accepts<T>,
{
    _ = (pool.stats(), current().is_cancelled());
    _ = pool.try_submit(task());
    if let Ok(handle) = pool.try_spawn(task()) {
        drop(handle.join()); // Runs it in place, on a worker.
    }
    if let Ok(handle) = pool.try_spawn(task()) {
        handle.cancel();
    }
}

impl<const N: usize> Tasks<N> for Pool {
    type Runner = Closures;
    fn with_room(depth: usize) -> Self {
        let pool = Self::builder().capacity(1).queue_depth(depth);
        let pool = pool.on_full(OnFull::DiscardOldest).discard_hook(|_| ());
        pool.build().unwrap()
    }
    fn pool(&self) -> &WorkerPool<Closures> {
        self
    }
    fn call_back(&self) {
        call_back(self, || || ());
    }
    fn release_now(&self) {
        Self::release_now(self);
    }
    fn replace_oldest(&self) {
        self.submit(|| ()).unwrap();
    }
}

type Function<const N: usize> = FuncPool<Option<Part<N>>, Option<Part<N>>>;

impl<const N: usize> Tasks<N> for Function<N> {
    type Runner = Func<Option<Part<N>>, Option<Part<N>>>;
    fn with_room(depth: usize) -> Self {
        let function = |part: Option<Part<N>>| part.map(run);
        let pool = Self::builder(function).capacity(1).queue_depth(depth);
        let pool = pool.on_full(OnFull::DiscardOldest).discard_hook(|_| ());
        pool.build().unwrap()
    }
    fn pool(&self) -> &WorkerPool<Self::Runner> {
        self
    }
    fn call_back(&self) {
        call_back(self, || None);
    }
    fn release_now(&self) {
        drop(Self::release_now(self));
    }
    fn replace_oldest(&self) {
        self.submit(None).unwrap();
    }
}

/// The payload of deliberate panics.
const PURPOSE: &str = "on purpose";

/// Runs a call in which the caller's own values may panic deliberately.
fn may_panic(call: impl FnOnce()) {
    if let Err(payload) = catch_unwind(AssertUnwindSafe(call)) {
        assert_eq!(payload.downcast_ref(), Some(&PURPOSE));
    }
}

/// For each place and action, has a pool with room run a task. Every value must be dropped once,
/// and the pool must continue.
fn each_place_and_act<P: Tasks<N>, const N: usize>(hand_over: impl Fn(&P, Part<N>)) {
    for (at, doing) in PLACES
        .into_iter()
        .flat_map(|at| ACTS.map(|doing| (at, doing)))
    {
        let tasks = P::with_room(8);
        let scenario = Scenario::new(at, doing, &tasks);
        // The caller drops the value that it joins.
        may_panic(|| hand_over(&tasks, scenario.part(At::Capture)));
        goes_on(&tasks);
        scenario.check(&(at, doing));
    }
}

/// Checks that all accepted tasks end and that the only worker takes another task.
fn goes_on<P: Tasks<N>, const N: usize>(tasks: &P) {
    let pool = tasks.pool();
    if pool.wait_idle().is_err() {
        pool.wait_released().unwrap();
        assert!(pool.reboot());
    }
    tasks.call_back();
    pool.wait_idle().unwrap();
    assert_eq!(pool.stats().threads_started, 1);
}

fn joined<T: Send + 'static, E>(spawned: Result<JoinHandle<T>, SubmitError<E>>) {
    if let Ok(handle) = spawned {
        drop(handle.join());
    }
}

fn each_way_of_a_closure<const N: usize>() {
    let task = |part: Part<N>| move || run(part);
    each_place_and_act(|pool: &Pool, part| _ = pool.submit(task(part)));
    each_place_and_act(|pool: &Pool, part| _ = pool.submit_batch([task(part)]));
    each_place_and_act(|pool: &Pool, part| _ = pool.task().name("named").submit(task(part)));
    each_place_and_act(|pool: &Pool, part| pool.reserve().unwrap().submit(task(part)));
    each_place_and_act(|pool: &Pool, part| _ = pool.keyed().submit(1, task(part)));
    each_place_and_act(|pool: &Pool, part| joined(pool.spawn(task(part))));
    each_place_and_act(|pool: &Pool, part| drop(pool.spawn(task(part))));
    each_place_and_act(|pool: &Pool, part| joined(pool.task().name("named").spawn(task(part))));
    each_place_and_act(|pool: &Pool, part| {
        let group = pool.group();
        _ = group.spawn(task(part));
        drop(group.next());
    });
}

#[testkit::test]
fn a_closure_that_panics_or_calls_back_where_it_runs_is_dropped_once() {
    each_way_of_a_closure::<SMALL>();
    each_way_of_a_closure::<LARGE>();
}

fn each_way_of_an_argument<const N: usize>() {
    each_place_and_act(|pool: &Function<N>, part| _ = pool.submit(Some(part)));
    each_place_and_act(|pool: &Function<N>, part| _ = pool.submit_batch([Some(part)]));
    each_place_and_act(|pool: &Function<N>, part| {
        _ = pool.task().name("named").submit(Some(part));
    });
    each_place_and_act(|pool: &Function<N>, part| joined(pool.spawn(Some(part))));
    each_place_and_act(|pool: &Function<N>, part| drop(pool.spawn(Some(part))));
    each_place_and_act(|pool: &Function<N>, part| {
        joined(pool.task().name("named").spawn(Some(part)));
    });
}

#[testkit::test]
fn an_argument_that_panics_or_calls_back_where_it_is_used_is_dropped_once() {
    each_way_of_an_argument::<SMALL>();
    each_way_of_an_argument::<LARGE>();
}

/// The reason why a queued task does not run.
#[derive(Clone, Copy, Debug)]
enum Unrun {
    Cancelled,
    Released,
    Discarded,
    /// Its start deadline has passed.
    ForbiddenStart,
    /// Its future is dropped while it waits for room.
    Line,
}

const WAYS: [Unrun; 5] = [
    Unrun::Cancelled,
    Unrun::Released,
    Unrun::Discarded,
    Unrun::ForbiddenStart,
    Unrun::Line,
];

/// Has a task dropped unrun for each reason, with each action in the destructor of its capture.
fn each_way_out<P, T, const N: usize>(make: impl Fn(Part<N>) -> T)
where
    P: Tasks<N, Runner: Accepts<T>>,
    T: Send + 'static,
{
    for (way, doing) in WAYS
        .into_iter()
        .flat_map(|way| ACTS.map(|doing| (way, doing)))
    {
        for (spawned, named) in [(false, false), (false, true), (true, false), (true, true)] {
            let tasks = P::with_room(8);
            let pool = tasks.pool();
            pool.pause();
            let scenario = Scenario::new(At::Capture, doing, &tasks);
            let (task, token) = (make(scenario.part(At::Capture)), CancelToken::new());
            let reserve = |count| (0..count).map(|_| pool.reserve().unwrap());
            let mut permits: Vec<_> = reserve(8).collect();
            let out = || {
                if let Unrun::Line = way {
                    permits.extend(reserve(1));
                    let mut waits = pool.submit_async(task);
                    assert!(poll(&mut waits).is_pending());
                    return drop(waits);
                }
                let handle = match (spawned, named) {
                    (false, false) => pool.submit(task).ok().map(|()| None),
                    (false, true) => given(pool, &token).submit(task).ok().map(|()| None),
                    (true, false) => pool.spawn(task).ok().map(Some),
                    (true, true) => given(pool, &token).spawn(task).ok().map(Some),
                };
                let handle = handle.expect("there is room");
                match way {
                    Unrun::Cancelled => {
                        if let Some(handle) = handle {
                            assert!(handle.cancel());
                            // The call has dropped them, although the handle and the entry still
                            // exist.
                            assert_eq!(scenario.drops.alive(), 0);
                        }
                    }
                    Unrun::Released => tasks.release_now(),
                    Unrun::Discarded => tasks.replace_oldest(),
                    Unrun::ForbiddenStart => _ = token.cancel(),
                    Unrun::Line => unreachable!("it was not accepted"),
                }
            };
            // The owner of a future, or of the tasks that a release returns, drops its own values.
            may_panic(out);
            drop(permits);
            pool.resume();
            goes_on(&tasks);
            scenario.check(&(way, doing, spawned, named));
        }
    }
}

/// A task with a record.
fn given<'a, R: Runner>(
    pool: &'a WorkerPool<R>,
    token: &CancelToken,
) -> TaskBuilder<'a, WorkerPool<R>> {
    pool.task().name("named").cancelled_by(token)
}

#[testkit::test]
fn a_closure_that_panics_or_calls_back_as_it_is_dropped_unrun_is_dropped_once() {
    each_way_out::<Pool, _, SMALL>(|part| move || run(part));
    each_way_out::<Pool, _, LARGE>(|part| move || run(part));
}

#[testkit::test]
fn an_argument_that_panics_or_calls_back_as_it_is_dropped_unrun_is_dropped_once() {
    each_way_out::<Function<SMALL>, _, SMALL>(Some);
    each_way_out::<Function<LARGE>, _, LARGE>(Some);
}

#[testkit::test]
fn the_outer_task_is_current_again_after_one_that_panicked_in_place() {
    fn name() -> Option<String> {
        current().name().map(str::to_owned)
    }
    struct Tells(Journal<Option<String>>);
    impl Drop for Tells {
        fn drop(&mut self) {
            self.0.write(name());
        }
    }
    let (pool, journal) = (pool(1), Journal::new());
    let (inner, tells) = (pool.clone(), Tells(journal.clone()));
    let outer = pool.task().name("outer").spawn(move || {
        let captured = tells;
        let task = move || {
            let _captured = captured;
            resume_unwind(Box::new("on purpose"));
        };
        let handle = inner.task().name("inner").spawn(task).unwrap();
        assert!(handle.join().is_err());
        let kept = current();
        (name(), kept)
    });
    let (after, kept) = outer.unwrap().join().unwrap();
    assert_eq!(after.as_deref(), Some("outer"));
    assert_eq!(journal.entries(), [Some("inner".to_owned())]);
    // A record that a task keeps outlives the task.
    assert_eq!((kept.name(), name()), (Some("outer"), None));
    assert_eq!(pool.spawn(name).unwrap().join().unwrap(), None);
}

#[cfg(feature = "tracing")]
mod spans {
    use std::sync::OnceLock;

    use pool_core::JoinError;
    use testkit::PanicOnDrop;
    use tracing::span::{Attributes, Id, Record};
    use tracing::{Event, Metadata, Subscriber};
    use tracing_core::span::Current;

    use super::*;
    use crate::support::until;

    /// A subscriber whose every span is current. Panics when the span is entered on another thread
    /// than its own.
    struct PanicsAtTasks(thread::ThreadId, OnceLock<&'static Metadata<'static>>);

    impl Subscriber for PanicsAtTasks {
        fn enabled(&self, _: &Metadata<'_>) -> bool {
            true
        }
        fn new_span(&self, span: &Attributes<'_>) -> Id {
            self.1.get_or_init(|| span.metadata());
            Id::from_u64(1)
        }
        fn record(&self, _: &Id, _: &Record<'_>) {}
        fn record_follows_from(&self, _: &Id, _: &Id) {}
        fn event(&self, _: &Event<'_>) {}
        fn enter(&self, _: &Id) {
            if thread::current().id() != self.0 {
                resume_unwind(Box::new("on purpose"));
            }
        }
        fn exit(&self, _: &Id) {}
        fn current_span(&self) -> Current {
            let metadata = self.1.get().expect("there is a span");
            Current::new(Id::from_u64(1), metadata)
        }
    }

    /// The span panics before the task's body is called, and again while the captures are dropped.
    fn each_panics(hand_over: impl Fn(&Pool, (PanicOnDrop, Counted), &DropCounter)) {
        let pool = Pool::builder().capacity(1).queue_depth(8).carry_span(true);
        let (pool, drops) = (pool.build().unwrap(), DropCounter::new());
        let spans = PanicsAtTasks(thread::current().id(), OnceLock::new());
        tracing::subscriber::with_default(spans, || {
            tracing::info_span!("outer").in_scope(|| {
                hand_over(&pool, (PanicOnDrop::new(), drops.token()), &drops);
            });
        });
        pool.wait_idle().unwrap();
        assert_eq!((drops.alive(), pool.stats().panicked), (0, 1));
        assert_eq!(pool.spawn(|| 7).unwrap().join().unwrap(), 7);
        assert_eq!(pool.stats().threads_started, 1);
    }

    #[testkit::test]
    fn a_worker_survives_panics_of_a_tasks_span_and_captures() {
        each_panics(|pool, captured, _| pool.submit(|| drop(captured)).unwrap());
        each_panics(|pool, captured, _| pool.keyed().submit(1, || drop(captured)).unwrap());
        each_panics(|pool, captured, _| drop(pool.spawn(|| drop(captured)).unwrap()));
        each_panics(|pool, captured, _| {
            let joined = pool.spawn(|| drop(captured)).unwrap().join();
            assert!(matches!(joined, Err(JoinError::Panicked(_))));
        });
    }

    #[testkit::test]
    fn captures_are_dropped_before_the_end_of_a_task_whose_span_panics() {
        each_panics(|pool, captured, drops| {
            let handle = pool.spawn(|| drop(captured)).unwrap();
            until(|| handle.is_finished());
            assert_eq!(drops.alive(), 0);
        });
    }
}
