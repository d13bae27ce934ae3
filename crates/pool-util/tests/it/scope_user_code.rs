//! User code that panics, blocks or calls back inside scopes and mappings: clocks, hooks, spans,
//! wakers, sources, destructors. A scope must outlast its tasks in every case.

use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::Ordering::SeqCst;
use std::sync::atomic::{AtomicBool, AtomicUsize};
use std::sync::{Arc, OnceLock};
use std::task::Waker;
use std::time::Instant;
use std::{io, thread};

use pool_core::{
    Builder, CancelToken, Clock, Closures, JoinError, ManualClock, Pool, TaskEnd, TaskHook,
    TaskStart,
};
use pool_util::{PoolExt, Scope, ScopedJoinHandle};
use sync_shim::{Alarm, Parker};
use testkit::{Gate, PanicOnDrop};

use crate::support::until;

/// A clock that calls `look` whenever it is read.
struct Asked<F> {
    clock: ManualClock,
    look: F,
}

impl<F> Asked<F> {
    fn new(look: F) -> Self {
        let clock = ManualClock::new();
        Self { clock, look }
    }
}

impl<F> std::fmt::Debug for Asked<F> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Asked(..)")
    }
}

impl<F: Fn() + Send + Sync + 'static> Clock for Asked<F> {
    fn now(&self) -> Instant {
        (self.look)();
        self.clock.now()
    }

    fn park_until(&self, parker: &Parker, when: Instant) -> bool {
        self.clock.park_until(parker, when)
    }

    fn wake_at(&self, when: Instant, waker: Waker) -> io::Result<Alarm> {
        self.clock.wake_at(when, waker)
    }
}

/// A hook that does nothing. It makes the pool read the clock before and after each task.
struct Quiet;

impl TaskHook for Quiet {
    fn before(&self, _: &TaskStart<'_>) {}
    fn after(&self, _: &TaskEnd<'_>) {}
}

std::thread_local! {
    /// Whether clocks and subscribers panic on this thread.
    static ARMED: Cell<bool> = const { Cell::new(false) };
    /// Whether they panic each time.
    static ALWAYS: Cell<bool> = const { Cell::new(false) };
}

fn arm(armed: bool) {
    ARMED.with(|cell| cell.set(armed));
}

/// Panics once per arming, and only on an armed thread.
fn panic_if_armed(what: &'static str) {
    if ALWAYS.with(Cell::get) || ARMED.with(|cell| cell.replace(false)) {
        std::panic::panic_any(what);
    }
}

fn clock_that_panics() -> impl Clock {
    Asked::new(|| panic_if_armed("the clock"))
}

/// The reasons for which a pool reads the clock for a task of a scope.
#[derive(Clone, Copy, Debug)]
enum Asks {
    /// Around a running task, for the hook.
    Hook,
    /// For a cancelled task, for the hook.
    NotRun,
    /// For the start deadline of a task.
    StartBefore,
}

const ALL: [Asks; 3] = [Asks::Hook, Asks::NotRun, Asks::StartBefore];

impl Asks {
    fn pool(self, builder: Builder<Closures>) -> Pool {
        let builder = builder.clock(clock_that_panics());
        match self {
            Self::StartBefore => builder.build().unwrap(),
            Self::Hook | Self::NotRun => builder.task_hook(Quiet).build().unwrap(),
        }
    }

    fn submit<'scope>(self, scope: &'scope Scope<'scope, '_>, task: impl FnOnce() + Send + 'scope) {
        match self {
            Self::Hook => scope.submit(task),
            Self::NotRun => {
                let token = CancelToken::new();
                token.cancel();
                scope.task().cancelled_by(&token).submit(task);
            }
            Self::StartBefore => scope.task().start_before(Instant::now()).submit(task),
        }
    }

    /// Checks that a task ended as it would have without the panic of the clock.
    fn check(self, joined: Result<(), JoinError>) {
        match self {
            Self::Hook | Self::StartBefore => joined.unwrap(),
            Self::NotRun => assert!(matches!(joined, Err(JoinError::Cancelled))),
        }
    }

    fn spawn<'scope>(
        self,
        scope: &'scope Scope<'scope, '_>,
        task: impl FnOnce() + Send + 'scope,
    ) -> ScopedJoinHandle<'scope, ()> {
        match self {
            Self::Hook => scope.spawn(task),
            Self::NotRun => {
                let token = CancelToken::new();
                token.cancel();
                scope.task().cancelled_by(&token).spawn(task)
            }
            Self::StartBefore => scope.task().start_before(Instant::now()).spawn(task),
        }
    }
}

/// Runs a scope whose only worker holds a task, and in which `unwinds` submits tasks that make user
/// code panic on the owner's thread. The held task ends only after that. Returns the panic message
/// of the scope.
fn outlasts(
    pool: &Pool,
    unwinds: impl for<'scope, 'env> FnOnce(&'scope Scope<'scope, 'env>),
) -> Option<&'static str> {
    pool.wait_idle().unwrap(); // The worker may still be busy with an earlier scope.
    let (gate, left, late) = (Gate::new(), AtomicBool::new(false), AtomicUsize::new(0));
    let state = Arc::new((gate, left, late));
    let (held, opener) = (Arc::clone(&state), Arc::clone(&state));
    let ended = catch_unwind(AssertUnwindSafe(|| {
        pool.scope(|scope| {
            scope.submit(move || {
                held.0.wait();
                for _ in 0..1_000 {
                    thread::yield_now(); // An owner that does not wait has left the scope by now.
                }
                let late = held.1.load(SeqCst);
                held.2.store(1 + usize::from(late), SeqCst);
            });
            state.0.wait_for_arrivals(1);
            unwinds(scope);
            scope.submit(move || opener.0.open()); // Runs here, as the last task.
            arm(true); // From now on the owner only waits and runs tasks.
        });
    }));
    state.1.store(true, SeqCst);
    state.0.open(); // Opens the gate if the last task did not run.
    until(|| state.2.load(SeqCst) > 0);
    assert_eq!(state.2.load(SeqCst), 1, "the task ran on after its scope");
    arm(false);
    let payload = ended.err()?;
    Some(
        *payload
            .downcast::<&str>()
            .expect("the payload has the type that was thrown"),
    )
}

#[testkit::test]
fn a_scope_outlasts_its_tasks_if_the_clock_panics_on_its_owner() {
    for asks in ALL {
        let pool = asks.pool(Pool::builder().capacity(1));
        let thrown = outlasts(&pool, |scope| {
            asks.submit(scope, || ());
        });
        assert_eq!(thrown, None, "{asks:?}: no task has panicked");
        assert_eq!(pool.stats().hook_panics, 1, "{asks:?}");
    }
}

/// Arms the only worker of a pool, so that its next read of the clock panics.
fn arm_worker(pool: &Pool) {
    pool.spawn(|| arm(true)).unwrap().join().unwrap();
    pool.wait_idle().unwrap();
}

#[testkit::test]
fn a_panic_of_the_clock_on_a_worker_is_counted_and_ends_no_task() {
    for asks in [Asks::NotRun, Asks::StartBefore] {
        let pool = asks.pool(Pool::builder().capacity(1));
        let (gate, ran) = (Gate::new(), AtomicUsize::new(0));
        let wait = gate.clone();
        let ended = catch_unwind(AssertUnwindSafe(|| {
            pool.scope(|scope| {
                scope.submit(|| {
                    wait.wait();
                    ALWAYS.with(|cell| cell.set(true));
                    ran.fetch_add(1, SeqCst);
                });
                gate.wait_for_arrivals(1);
                asks.submit(scope, || ());
                let handle = asks.spawn(scope, || ());
                gate.open();
                until(|| handle.is_finished()); // On the worker.
                asks.check(handle.join());
                scope.submit(|| ran.fetch_add(1, SeqCst)); // Runs here, or on the worker.
            });
        }));
        assert!(ended.is_ok(), "{asks:?}");
        assert_eq!(ran.into_inner(), 2);
        assert!(pool.stats().hook_panics > 0);
    }
}

#[testkit::test]
fn a_drain_task_whose_clock_panics_loses_no_piece() {
    let pool = Pool::builder().capacity(1).keep_alive(None);
    let pool = pool.clock(clock_that_panics()).build().unwrap();
    for n in 0..4_usize {
        arm_worker(&pool);
        let ran = AtomicUsize::new(0);
        pool.scope(|scope| {
            scope.submit(|| ran.fetch_add(1, SeqCst));
            until(|| ran.load(SeqCst) > 0); // On the worker.
            (0..n).for_each(|_| scope.submit(|| ran.fetch_add(1, SeqCst)));
        });
        assert_eq!(ran.into_inner(), n + 1);
        arm_worker(&pool);
        let results = pool.map(0..n, |n| n).collect::<Result<Vec<_>, _>>();
        assert_eq!(results.unwrap(), (0..n).collect::<Vec<_>>());
    }
    assert!(pool.stats().hook_panics > 0, "it is counted");
}

#[testkit::test]
fn a_panic_of_the_clock_during_a_join_in_place_is_counted_and_the_task_ends() {
    for asks in ALL {
        let pool = asks.pool(Pool::builder().capacity(1));
        pool.pause(); // All tasks run here.
        let joined = pool.scope(|scope| {
            let handle = asks.spawn(scope, || ());
            arm(true);
            handle.join()
        });
        asks.check(joined);
        assert_eq!(pool.stats().hook_panics, 1, "{asks:?}");
    }
}

#[testkit::test]
fn an_item_returns_its_result_although_the_clock_panics() {
    let pool = Asks::Hook.pool(Pool::builder().capacity(1));
    for unordered in [false, true] {
        let source = || (0..4).map(|n| (n, n == 1));
        // After the item, the hook is called with its duration.
        let call = |(n, armed): (usize, bool)| {
            arm(armed);
            n
        };
        let results: Vec<_> = if unordered {
            pool.map_unordered(source(), call).collect()
        } else {
            pool.map(source(), call).collect()
        };
        let results: Result<Vec<_>, _> = results.into_iter().collect();
        assert_eq!(results.unwrap(), [0, 1, 2, 3]);
        pool.for_each(source(), move |item| _ = call(item)).unwrap();
    }
    assert_eq!(pool.stats().hook_panics, 4);
}

#[testkit::test]
fn a_clock_may_call_the_pool_that_reads_it() {
    std::thread_local! {
        static INSIDE: Cell<bool> = const { Cell::new(false) };
    }
    let pool: Arc<OnceLock<Pool>> = Arc::default();
    let (inner, calls) = (Arc::clone(&pool), Arc::new(AtomicUsize::new(0)));
    let counter = Arc::clone(&calls);
    let clock = Asked::new(move || {
        let Some(pool) = inner.get() else { return };
        if INSIDE.with(|cell| cell.replace(true)) {
            return;
        }
        let sum = pool.scope(|scope| scope.spawn(|| 1).join().unwrap());
        let mapped = pool.map(0..3, |n| n).map(Result::unwrap).sum::<usize>();
        counter.fetch_add(sum + mapped, SeqCst);
        INSIDE.with(|cell| cell.set(false));
    });
    let built = Pool::builder().capacity(2).clock(clock).task_hook(Quiet);
    let pool = pool.get_or_init(|| built.build().unwrap());
    let sum = pool.scope(|scope| {
        let handles: Vec<_> = (0..10).map(|n| scope.spawn(move || n)).collect();
        handles
            .into_iter()
            .map(|handle| handle.join().unwrap())
            .sum::<i32>()
    });
    let mapped = pool.map(0..10, |n| n).map(Result::unwrap).sum::<i32>();
    assert_eq!((sum, mapped), (45, 45));
    assert!(calls.load(SeqCst) > 0);
    // The clock owns the pool, and the pool owns the clock.
    pool.release();
    pool.wait_released().unwrap();
}

#[testkit::test]
fn a_panicking_hook_ends_neither_the_scope_nor_its_task() {
    struct Panics;
    impl TaskHook for Panics {
        fn before(&self, _: &TaskStart<'_>) {
            panic!("before");
        }
        fn after(&self, _: &TaskEnd<'_>) {
            panic!("after");
        }
    }
    let built = Pool::builder().capacity(1).task_hook(Panics);
    let built = built.panic_hook(|_| panic!("the panic hook")).build();
    let pool = built.unwrap();
    for paused in [false, true] {
        if paused {
            pool.pause();
        }
        let (ran, token) = (AtomicUsize::new(0), CancelToken::new());
        token.cancel();
        let joined = pool.scope(|scope| {
            scope.submit(|| ran.fetch_add(1, SeqCst));
            scope
                .task()
                .cancelled_by(&token)
                .submit(|| ran.fetch_add(1, SeqCst));
            let panics = scope.spawn(|| panic!("the task"));
            let joined = scope.spawn(|| ran.fetch_add(1, SeqCst)).join();
            (
                joined.is_ok(),
                matches!(panics.join(), Err::<(), _>(JoinError::Panicked(_))),
            )
        });
        assert_eq!((joined, ran.into_inner()), ((true, true), 2));
    }
}

#[testkit::test]
fn a_scope_ends_although_captures_and_values_panic_in_their_drops() {
    for paused in [false, true] {
        let pool = crate::support::pool(1);
        if paused {
            pool.pause();
        }
        let token = CancelToken::new();
        token.cancel();
        let ended = catch_unwind(AssertUnwindSafe(|| {
            pool.scope(|scope| {
                let held = PanicOnDrop::nested(3);
                scope.task().cancelled_by(&token).submit(move || drop(held));
                drop(scope.spawn(PanicOnDrop::new)); // Its value is dropped as a detached one.
                let held = PanicOnDrop::new();
                let joined = scope.spawn(move || _ = &held).join();
                assert!(matches!(joined, Err(JoinError::Panicked(_))));
                let held = PanicOnDrop::new();
                scope.submit(move || _ = &held);
            });
        }));
        assert!(ended.is_err(), "the scope propagates the last panic");
        assert_eq!(pool.scope(|scope| scope.spawn(|| 7).join().unwrap()), 7);
    }
}

#[testkit::test]
fn a_mappings_function_and_values_may_panic_when_dropped_on_a_worker() {
    let pool = crate::support::pool(1);
    let (gate, held) = (Gate::new(), PanicOnDrop::new());
    let wait = gate.clone();
    let mut results = pool.map(0..3, move |n| {
        let _held = &held;
        if n == 1 {
            wait.wait();
        }
        PanicOnDrop::new()
    });
    std::mem::forget(results.next().unwrap().unwrap());
    gate.wait_for_arrivals(1);
    let canceller = results.canceller();
    drop(results); // The worker drops the function and the second item's value.
    gate.open();
    pool.wait_idle().unwrap();
    canceller.cancel();
    assert_eq!(pool.spawn(|| 7).unwrap().join().unwrap(), 7);
    let stats = pool.stats();
    assert_eq!((stats.live, stats.panicked), (1, 0), "no thread was lost");
}

#[testkit::test]
fn a_panicking_source_inside_a_scope_leaves_its_tasks_to_the_scope() {
    let (pool, ran) = (crate::support::pool(2), AtomicUsize::new(0));
    let ended = catch_unwind(AssertUnwindSafe(|| {
        pool.scope(|scope| {
            let source = (0..10).inspect(|&n| assert!(n < 5, "the source"));
            let results = scope.map(source, |_| ran.fetch_add(1, SeqCst)).window(8);
            results.for_each(drop);
        });
    }));
    assert!(ended.is_err());
    assert!(ran.into_inner() <= 5);
}

#[testkit::test]
fn the_drop_of_a_value_may_call_its_mapping() {
    struct Cancels(Arc<OnceLock<pool_util::MapCanceller>>);
    impl Drop for Cancels {
        fn drop(&mut self) {
            if let Some(canceller) = self.0.get() {
                canceller.cancel();
            }
        }
    }
    let pool = crate::support::pool(1);
    let canceller = Arc::new(OnceLock::new());
    let items = {
        let canceller = Arc::clone(&canceller);
        std::iter::repeat_with(move || Cancels(Arc::clone(&canceller)))
    };
    let mut results = pool.map(items, |item| item).window(8);
    std::mem::forget(results.next().unwrap().unwrap());
    assert!(canceller.set(results.canceller()).is_ok());
    drop(results.next().unwrap().unwrap());
    results.by_ref().for_each(drop);
    assert!(results.next().is_none());
    drop(results);
    pool.wait_idle().unwrap();
}

#[cfg(feature = "stream")]
mod streams {
    use std::pin::Pin;
    use std::task::{Context, Poll};

    use futures_lite::Stream;
    use testkit::{waker_fn, waker_whose_clone_panics};

    use super::*;

    /// Drops itself into the mapping that it waits for.
    struct OnDrop<F: Fn()>(F);

    impl<F: Fn()> Drop for OnDrop<F> {
        fn drop(&mut self) {
            (self.0)();
        }
    }

    #[testkit::test]
    fn a_waker_that_panics_when_cloned_woken_or_dropped_loses_no_result() {
        let (pool, gate) = (crate::support::pool(1), Gate::new());
        let held = gate.clone();
        let mut results = pool
            .map(0..3, move |n| {
                held.wait();
                n
            })
            .into_stream();
        let mut ask = |waker: &Waker| {
            let mut context = Context::from_waker(waker);
            catch_unwind(AssertUnwindSafe(|| {
                Pin::new(&mut results).poll_next(&mut context)
            }))
        };
        assert!(ask(&waker_whose_clone_panics()).is_err());
        let wake = OnDrop(|| {
            assert!(thread::panicking(), "the waker's drop");
        });
        let waker = waker_fn(move || {
            let _wake = &wake;
            panic!("the waker")
        });
        assert!(ask(&waker).is_ok_and(|polled| polled.is_pending()));
        assert!(catch_unwind(AssertUnwindSafe(|| drop(waker))).is_ok());
        // This waker replaces the other one, which is dropped.
        assert!(ask(Waker::noop()).is_ok_and(|polled| polled.is_pending()));
        assert!(ask(&waker_fn(|| panic!("the waker"))).is_ok());
        gate.open();
        let mut values = Vec::new();
        while values.len() < 3 {
            match ask(Waker::noop()).unwrap() {
                Poll::Ready(value) => values.push(value.unwrap().unwrap()),
                Poll::Pending => thread::yield_now(),
            }
        }
        assert_eq!(values, [0, 1, 2]);
    }

    #[testkit::test]
    fn a_waker_may_call_its_mapping() {
        let (pool, gate) = (crate::support::pool(1), Gate::new());
        let held = gate.clone();
        let results = pool.map(0.., move |n: u64| {
            held.wait();
            n
        });
        let canceller = results.canceller();
        let (again, woken) = (canceller.clone(), Arc::new(AtomicBool::new(false)));
        let (tell, mut results) = (Arc::clone(&woken), results.into_stream());
        let dropped = OnDrop(move || again.cancel());
        let waker = waker_fn(move || {
            let _held = &dropped;
            canceller.cancel();
            tell.store(true, SeqCst);
        });
        let polled = Pin::new(&mut results).poll_next(&mut Context::from_waker(&waker));
        assert!(polled.is_pending());
        drop(waker);
        gate.open();
        until(|| woken.load(SeqCst));
        let mut context = Context::from_waker(Waker::noop());
        while !matches!(
            Pin::new(&mut results).poll_next(&mut context),
            Poll::Ready(None)
        ) {
            thread::yield_now();
        }
    }
}

mod spans {
    use std::sync::atomic::AtomicU64;

    use tracing::span::{Attributes, Id, Record};
    use tracing::{Event, Metadata, Subscriber};
    use tracing_core::span::Current;

    use super::*;

    /// A subscriber whose every span is current, and whose calls panic on an armed thread.
    struct Spans(
        &'static str,
        AtomicU64,
        OnceLock<&'static Metadata<'static>>,
    );

    impl Spans {
        fn that_panic(call: &'static str) -> Self {
            Self(call, AtomicU64::new(0), OnceLock::new())
        }

        fn at(&self, call: &'static str) {
            if self.0 == call {
                panic_if_armed("the subscriber");
            }
        }
    }

    impl Subscriber for Spans {
        fn enabled(&self, _: &Metadata<'_>) -> bool {
            true
        }
        fn new_span(&self, span: &Attributes<'_>) -> Id {
            self.2.get_or_init(|| span.metadata());
            Id::from_u64(1 + self.1.fetch_add(1, SeqCst))
        }
        fn record(&self, _: &Id, _: &Record<'_>) {}
        fn record_follows_from(&self, _: &Id, _: &Id) {}
        fn event(&self, _: &Event<'_>) {}
        fn enter(&self, _: &Id) {
            self.at("enter");
        }
        fn exit(&self, _: &Id) {
            self.at("exit");
        }
        fn try_close(&self, _: Id) -> bool {
            self.at("close");
            false
        }
        fn current_span(&self) -> Current {
            let metadata = self.2.get().expect("there is a span");
            Current::new(Id::from_u64(1), metadata)
        }
    }

    const CALLS: [&str; 3] = ["enter", "exit", "close"];

    fn carrying(call: &'static str, test: impl FnOnce(&Pool)) {
        let pool = Pool::builder().capacity(1).carry_span(true);
        let pool = pool.build().unwrap();
        tracing::subscriber::with_default(Spans::that_panic(call), || {
            tracing::info_span!("outer").in_scope(|| test(&pool));
        });
    }

    #[testkit::test]
    fn a_scope_outlasts_its_tasks_if_a_span_panics_on_its_owner() {
        for call in CALLS {
            carrying(call, |pool| {
                let thrown = outlasts(pool, |scope| scope.submit(|| ()));
                let expected = (call != "close").then_some("the subscriber");
                assert_eq!(thrown, expected, "{call}");
                let thrown = outlasts(pool, |scope| drop(scope.spawn(|| ())));
                assert_eq!(thrown, None, "{call}: the handle returns the panic");
            });
        }
    }

    #[testkit::test]
    fn a_task_whose_span_panics_counts_as_panicked_unless_the_span_only_closes() {
        for call in CALLS {
            carrying(call, |pool| {
                let panicked = |joined| matches!(joined, Err(JoinError::Panicked(_)));
                let mut seen = None;
                let ended = || {
                    pool.scope(|scope| {
                        let gate = Gate::new();
                        let wait = gate.clone();
                        scope.submit(move || {
                            wait.wait();
                            ALWAYS.with(|cell| cell.set(true));
                        });
                        gate.wait_for_arrivals(1);
                        let handle = scope.spawn(|| ());
                        arm(true);
                        let here = panicked(handle.join());
                        let handle = scope.spawn(|| ());
                        gate.open();
                        until(|| handle.is_finished());
                        seen = Some((here, panicked(handle.join())));
                    });
                };
                // The first task's span may have ended the scope already.
                let _ = catch_unwind(AssertUnwindSafe(ended));
                let expected = call != "close";
                let both = Some((expected, expected));
                assert_eq!(seen, both, "{call}, here and on the worker");
            });
        }
    }
}
