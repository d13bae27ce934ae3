//! State per worker: its creation, the calls that get it, and panics.

use std::cell::Cell;
use std::marker::PhantomData;
use std::rc::Rc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, OnceLock};
use std::thread::{self, ThreadId};
use std::time::Duration;

use pool_core::{Builder, Func, FuncPool, JoinError, JoinHandle, OnFull, WeakFuncPool, current};
use testkit::{Gate, PanicOnDrop};

use crate::support::{Journal, end, until};

/// An event in the life of a state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Step {
    Made,
    Dropped,
}
use Step::{Dropped, Made};

type Steps = Journal<(Step, usize, ThreadId)>;

/// A numbered state, of a type that is not `Send`.
struct Numbered {
    number: usize,
    calls: Cell<usize>,
    steps: Steps,
    stays_here: PhantomData<Rc<()>>,
}

impl Drop for Numbered {
    fn drop(&mut self) {
        let entry = (Dropped, self.number, thread::current().id());
        self.steps.write(entry);
    }
}

/// Creates states numbered from 0, and records each creation.
fn numbered(steps: &Steps) -> impl Fn() -> Numbered + Send + Sync + 'static {
    let (steps, made) = (steps.clone(), AtomicUsize::new(0));
    move || {
        let number = made.fetch_add(1, SeqCst);
        steps.write((Made, number, thread::current().id()));
        Numbered {
            number,
            calls: Cell::new(0),
            steps: steps.clone(),
            stays_here: PhantomData,
        }
    }
}

/// The recorded events, each with the number of its state.
fn states(steps: &Steps) -> Vec<(Step, usize)> {
    let entries = steps.entries().into_iter();
    entries.map(|(step, number, _)| (step, number)).collect()
}

/// A pool of one worker. A call returns the number of its state, and how many calls that state has
/// had.
fn counting(steps: &Steps) -> Builder<Func<bool, (usize, usize)>> {
    FuncPool::builder_with_state(numbered(steps), |state: &mut Numbered, panics: bool| {
        let calls = state.calls.replace(state.calls.get() + 1);
        assert!(!panics, "as asked");
        (state.number, calls)
    })
    .capacity(1)
    .queue_depth(10)
}

#[testkit::test]
fn a_workers_state_is_created_before_its_first_call_and_dropped_on_its_thread() {
    let steps = Journal::new();
    let pool = counting(&steps).build().unwrap();
    for call in 0..3 {
        assert_eq!(pool.spawn(false).unwrap().join().unwrap(), (0, call));
    }
    end(&pool);
    let entries = steps.entries();
    let [(Made, 0, made), (Dropped, 0, dropped)] = entries[..] else {
        panic!("{entries:?}");
    };
    assert_eq!(made, dropped);
    assert_ne!(made, thread::current().id());
    assert_eq!(pool.stats().hook_panics, 0);
}

#[testkit::test]
fn each_worker_has_its_own_state() {
    let (steps, gate) = (Journal::new(), Gate::new());
    let all = gate.clone();
    let pool = FuncPool::builder_with_state(numbered(&steps), move |state, ()| {
        all.wait();
        (state.number, current().worker())
    });
    let pool = pool.capacity(3).build().unwrap();
    let calls: Vec<_> = (0..3).map(|_| pool.spawn(()).unwrap()).collect();
    gate.wait_for_arrivals(3);
    gate.open();
    let mut got: Vec<_> = calls.into_iter().map(|call| call.join().unwrap()).collect();
    got.sort_unstable();
    let numbers: Vec<_> = got.iter().map(|(number, _)| *number).collect();
    assert_eq!(numbers, [0, 1, 2]);
    end(&pool);
    assert_eq!(steps.len(), 6, "all are gone when the pool has ended");
}

#[testkit::test]
fn the_state_is_created_after_the_start_hook_and_dropped_before_the_stop_hook() {
    let steps = Journal::new();
    let (at_start, at_stop) = (steps.clone(), steps.clone());
    let here = || thread::current().id();
    let pool = counting(&steps)
        .prestart(1)
        .start_hook(move || at_start.write((Made, 100, here())))
        .stop_hook(move || at_stop.write((Dropped, 100, here())));
    let pool = pool.build().unwrap();
    until(|| steps.len() == 2); // No task was submitted.
    end(&pool);
    assert_eq!(
        states(&steps),
        [(Made, 100), (Made, 0), (Dropped, 0), (Dropped, 100)]
    );
}

#[testkit::test]
fn a_task_submitted_while_a_worker_creates_its_state_gets_another_worker() {
    let (gate, makes) = (Gate::new(), AtomicUsize::new(0));
    let first = gate.clone();
    let make = move || {
        if makes.fetch_add(1, SeqCst) == 0 {
            first.wait();
        }
    };
    let pool = FuncPool::builder_with_state(make, |(), n: u32| n);
    let pool = pool.capacity(2).prestart(1).build().unwrap();
    gate.wait_for_arrivals(1);
    assert_eq!(pool.spawn(7).unwrap().join().unwrap(), 7);
    gate.open();
}

#[testkit::test]
fn a_leaving_worker_that_stays_creates_a_new_state() {
    let (steps, gate) = (Journal::new(), Gate::new());
    let stopping = gate.clone();
    let pool = counting(&steps)
        .keep_alive(Duration::ZERO)
        .stop_hook(move || stopping.wait());
    let pool = pool.build().unwrap();
    assert_eq!(pool.spawn(false).unwrap().join().unwrap(), (0, 0));
    gate.wait_for_arrivals(1);
    let second = pool.try_spawn(false).unwrap();
    assert_eq!(states(&steps), [(Made, 0), (Dropped, 0)]);
    gate.open();
    assert_eq!(second.join().unwrap(), (1, 0));
    assert_eq!(pool.stats().threads_started, 1);
}

#[testkit::test]
fn a_panicking_call_drops_its_state_and_the_next_call_creates_another() {
    let steps = Journal::new();
    let pool = counting(&steps).build().unwrap();
    assert_eq!(pool.spawn(false).unwrap().join().unwrap(), (0, 0));
    let panicked = pool.spawn(true).unwrap().join();
    let Err(JoinError::Panicked(panic)) = panicked else {
        panic!("{panicked:?}");
    };
    assert_eq!(panic.message(), Some("as asked"));
    assert_eq!(states(&steps), [(Made, 0), (Dropped, 0)]);
    assert_eq!(pool.spawn(false).unwrap().join().unwrap(), (1, 0));
    assert_eq!(pool.spawn(false).unwrap().join().unwrap(), (1, 1));
    assert_eq!((pool.stats().panicked, pool.stats().hook_panics), (1, 0));
}

#[testkit::test]
fn each_call_retries_to_create_a_state_and_reports_the_panic() {
    let tries = AtomicUsize::new(0);
    let make = move || {
        let number = tries.fetch_add(1, SeqCst);
        assert!(number >= 2, "try {number}");
        number
    };
    let pool = FuncPool::builder_with_state(make, |state: &mut usize, ()| *state);
    let pool = pool.capacity(1).build().unwrap();
    let refused = pool.spawn(()).unwrap().join(); // The start of the worker has failed as well.
    assert_eq!(pool.stats().hook_panics, 1);
    let Err(JoinError::Panicked(panic)) = refused else {
        panic!("{refused:?}");
    };
    assert_eq!(panic.message(), Some("try 1"));
    assert_eq!(pool.spawn(()).unwrap().join().unwrap(), 2);
    assert_eq!(pool.spawn(()).unwrap().join().unwrap(), 2);
    assert_eq!(pool.stats().hook_panics, 1);
}

#[testkit::test]
fn a_panic_in_a_states_drop_is_counted_at_the_workers_end_and_ignored_after_a_panic() {
    let function = |_: &mut PanicOnDrop, panics: bool| assert!(!panics, "the task's");
    let pool = FuncPool::builder_with_state(|| PanicOnDrop::nested(2), function);
    let pool = pool.capacity(1).build().unwrap();
    pool.spawn(false).unwrap().join().unwrap();
    let panicked = pool.spawn(true).unwrap().join();
    let Err(JoinError::Panicked(panic)) = panicked else {
        panic!("{panicked:?}");
    };
    assert_eq!(panic.message(), Some("the task's"));
    assert_eq!(pool.stats().hook_panics, 0);
    pool.spawn(false).unwrap().join().unwrap();
    end(&pool);
    assert_eq!(pool.stats().hook_panics, 1);
}

/// A pool of one worker whose call of `n` joins a call of `n - 1`. Returns the numbers of the
/// states.
fn descending(steps: &Steps) -> FuncPool<u32, Vec<usize>> {
    let own = Arc::new(OnceLock::<WeakFuncPool<u32, Vec<usize>>>::new());
    let weak = Arc::clone(&own);
    let function = move |state: &mut Numbered, n: u32| {
        let mut numbers = vec![state.number];
        if n > 0 {
            let pool = weak.get().and_then(WeakFuncPool::upgrade).unwrap();
            numbers.extend(pool.spawn(n - 1).unwrap().join().unwrap());
        }
        numbers
    };
    let pool = FuncPool::builder_with_state(numbered(steps), function);
    let pool = pool.capacity(1).queue_depth(10).build().unwrap();
    own.set(pool.downgrade()).unwrap();
    pool
}

#[testkit::test]
fn a_nested_call_gets_a_second_state_which_the_worker_keeps() {
    let steps = Journal::new();
    let pool = descending(&steps);
    assert_eq!(pool.spawn(2).unwrap().join().unwrap(), [0, 1, 2]);
    let again = pool.spawn(2).unwrap().join().unwrap();
    assert_eq!(again.len(), 3);
    assert_eq!(states(&steps), [(Made, 0), (Made, 1), (Made, 2)]);
    end(&pool);
    let dropped = &steps.entries()[3..];
    let worker = steps.entries()[0].2;
    assert_eq!(dropped.len(), 3);
    assert!(
        dropped
            .iter()
            .all(|(step, _, at)| (*step, *at) == (Dropped, worker))
    );
}

/// A pool whose worker is held in a call until the gate opens, so that further calls run in their
/// callers. Each call returns the number of its state.
struct Busy {
    pool: FuncPool<bool, usize>,
    gate: Gate,
    holds: JoinHandle<usize>,
}

fn busy(steps: &Steps) -> Busy {
    let gate = Gate::new();
    let held = gate.clone();
    let function = move |state: &mut Numbered, waits| {
        if waits {
            held.wait();
        }
        state.number
    };
    let pool = FuncPool::builder_with_state(numbered(steps), function);
    let pool = pool.capacity(1).on_full(OnFull::RunInCaller);
    let pool = pool.build().unwrap();
    let holds = pool.spawn(true).unwrap();
    gate.wait_for_arrivals(1);
    Busy { pool, gate, holds }
}

#[testkit::test]
fn a_call_run_in_its_caller_creates_and_drops_a_state() {
    let steps = Journal::new();
    let Busy { pool, gate, holds } = busy(&steps);
    for number in 1..3 {
        let here = pool.spawn(false).unwrap();
        assert_eq!(here.join().unwrap(), number);
    }
    let ours = thread::current().id();
    let expected = [
        (Made, 1, ours),
        (Dropped, 1, ours),
        (Made, 2, ours),
        (Dropped, 2, ours),
    ];
    assert_eq!(steps.entries()[1..], expected);
    gate.open();
    assert_eq!(holds.join().unwrap(), 0);
}

#[testkit::test]
fn a_workers_state_is_not_used_by_calls_of_another_pool() {
    let steps = Journal::new();
    let Busy {
        pool: other,
        gate,
        holds,
    } = busy(&steps);
    // A pool of the same types, called from a worker that has one state in use and none free.
    let pool = {
        let other = other.clone();
        let own = Journal::new();
        FuncPool::builder_with_state(numbered(&own), move |_, ()| {
            other.spawn(false).unwrap().join().unwrap()
        })
    };
    let pool = pool.capacity(1).build().unwrap();
    for number in 1..3 {
        assert_eq!(pool.spawn(()).unwrap().join().unwrap(), number);
    }
    assert_eq!(steps.len(), 5, "each was dropped with its call");
    gate.open();
    holds.join().unwrap();
}

/// Calls a pool in its destructor. The call runs in the caller.
struct CallsAtDrop(FuncPool<bool, usize>, Journal<usize>);

impl Drop for CallsAtDrop {
    fn drop(&mut self) {
        let call = self.0.spawn(false).unwrap();
        self.1.write(call.join().unwrap());
    }
}

#[testkit::test]
fn a_workers_free_state_is_not_used_by_calls_of_another_pool() {
    let got = Journal::new();
    let Busy {
        pool: other,
        gate,
        holds,
    } = busy(&Journal::new());
    let pool = {
        let (other, got) = (other.clone(), got.clone());
        // The value is dropped on the worker, after the call.
        FuncPool::builder_with_state(numbered(&Journal::new()), move |_, ()| {
            CallsAtDrop(other.clone(), got.clone())
        })
    };
    let pool = pool.capacity(1).build().unwrap();
    pool.submit(()).unwrap();
    pool.wait_idle().unwrap();
    assert_eq!(got.entries(), [1]);
    gate.open();
    holds.join().unwrap();
}

#[testkit::test]
fn a_call_in_a_stop_hook_creates_and_drops_a_state() {
    let (steps, own) = (Journal::new(), OnceLock::<WeakFuncPool<_, _>>::new());
    let own = Arc::new(own);
    let (journal, weak) = (steps.clone(), Arc::clone(&own));
    let hook = move || {
        let Some(pool) = weak.get().and_then(WeakFuncPool::upgrade) else {
            return;
        };
        if journal.len() == 2 {
            let inside = pool.spawn(false).unwrap();
            assert_eq!(inside.join().unwrap(), (1, 0));
            journal.write((Made, 100, thread::current().id()));
        }
    };
    let pool = counting(&steps).keep_alive(Duration::ZERO).stop_hook(hook);
    let pool = pool.build().unwrap();
    own.set(pool.downgrade()).unwrap();
    assert_eq!(pool.spawn(false).unwrap().join().unwrap(), (0, 0));
    until(|| pool.running() == 0);
    assert_eq!(
        states(&steps),
        [
            (Made, 0),
            (Dropped, 0),
            (Made, 1),
            (Dropped, 1),
            (Made, 100)
        ]
    );
    assert_eq!(pool.stats().hook_panics, 0);
}
