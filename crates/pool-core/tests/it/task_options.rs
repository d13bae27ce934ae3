//! Task options: cancel tokens, start deadlines, names.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::task::Poll;
use std::thread;
use std::time::Duration;

use pool_core::{
    Builder, CancelToken, Clock, Closures, FuncPool, JoinError, ManualClock, OnFull, Pool,
    SubmitError, TaskBuilder, current,
};
use pool_util::PoolExt;
use testkit::{CountingWaker, DropCounter, PanicOnDrop};

use crate::support::{Journal, end, enter_line, hold, poll, poll_with, pool, queueing, until};

const SECOND: Duration = Duration::from_secs(1);

#[testkit::test]
fn a_queued_task_cancelled_by_its_token_is_dropped_unrun_and_its_handle_ends() {
    let (pool, token, drops) = (queueing(9), CancelToken::new(), DropCounter::new());
    let gate = hold(&pool, 1);
    let held = drops.token();
    let spawned = pool.task().cancelled_by(&token).spawn(move || drop(held));
    let held = drops.token();
    let submitted = pool.task().cancelled_by(&token).submit(move || drop(held));
    submitted.unwrap();
    token.cancel();
    assert_eq!((pool.queued(), drops.dropped()), (2, 0));
    gate.open();
    let joined = spawned.unwrap().join();
    assert!(matches!(joined, Err(JoinError::Cancelled)), "{joined:?}");
    pool.wait_idle().unwrap();
    let stats = pool.stats();
    assert_eq!((stats.completed, stats.cancelled), (1, 2));
    assert_eq!(drops.alive(), 0);
    end(&pool);
}

#[testkit::test]
fn a_task_with_several_tokens_is_cancelled_by_each() {
    for which in 0..2 {
        let (pool, tokens) = (queueing(1), [CancelToken::new(), CancelToken::new()]);
        let gate = hold(&pool, 1);
        let task = pool
            .task()
            .cancelled_by(&tokens[0])
            .cancelled_by(&tokens[1]);
        let handle = task.spawn(|| ()).unwrap();
        tokens[which].cancel();
        assert!(!tokens[1 - which].is_cancelled());
        gate.open();
        assert!(matches!(handle.join(), Err(JoinError::Cancelled)));
    }
    let (pool, token) = (queueing(1), CancelToken::new());
    let gate = hold(&pool, 1);
    let handle = pool.task().cancelled_by(&token).spawn(|| ()).unwrap();
    assert!(handle.cancel() && !token.is_cancelled());
    gate.open();
}

#[testkit::test]
fn token_handle_group_and_release_now_ask_a_running_task_to_stop() {
    let (pool, token) = (pool(4), CancelToken::new());
    let until_asked = || {
        let current = current();
        until(|| current.is_cancelled());
        let token = current.token();
        token.wait();
        "asked"
    };
    let by_token = pool.task().cancelled_by(&token).spawn(until_asked).unwrap();
    let by_handle = pool.spawn(until_asked).unwrap();
    let group = pool.group();
    group.spawn(until_asked).unwrap();
    let by_release = pool.spawn(until_asked).unwrap();
    until(|| pool.queued() == 0);
    // The tasks that are accepted now are cancelled later.
    token.cancel();
    assert_eq!(by_token.join().unwrap(), "asked");
    assert!(!by_handle.cancel());
    assert_eq!(by_handle.join().unwrap(), "asked");
    assert_eq!(group.cancel(), 0);
    assert_eq!(group.next().unwrap().unwrap(), "asked");
    assert!(!by_release.is_finished());
    assert_eq!(pool.release_now(), 0);
    assert_eq!(by_release.join().unwrap(), "asked");
    pool.wait_released().unwrap();
    assert_eq!(pool.stats().completed, 4);
}

#[testkit::test]
fn cancelling_a_current_tasks_token_does_not_cancel_the_task() {
    for given in [false, true] {
        let (pool, token) = (pool(1), CancelToken::new());
        let (sender, receiver) = std::sync::mpsc::channel();
        let mut task = pool.task();
        if given {
            task = task.cancelled_by(&token);
        }
        let handle = task.spawn(move || {
            let current = current();
            let own = current.token();
            own.cancel();
            assert!(!current.is_cancelled() && !current.token().is_cancelled());
            let token = current.token();
            sender.send(()).unwrap();
            token.wait();
            assert!(current.is_cancelled() && current.token().is_cancelled());
        });
        let handle = handle.unwrap();
        receiver.recv().unwrap();
        if given {
            token.cancel();
        } else {
            assert!(!handle.cancel());
        }
        handle.join().unwrap();
    }
}

#[testkit::test]
fn release_now_asks_a_plain_task_to_stop_and_a_reboot_resets_it() {
    let (pool, journal) = (pool(1), Journal::new());
    let until_asked = {
        let journal = journal.clone();
        move || {
            let token = current().token();
            journal.write(token.is_cancelled());
            token.wait();
            assert!(current().is_cancelled());
        }
    };
    pool.submit(until_asked.clone()).unwrap();
    until(|| journal.len() == 1);
    pool.release_now();
    pool.wait_released().unwrap();
    pool.reboot();
    pool.submit(until_asked).unwrap();
    until(|| journal.len() == 2);
    pool.release_now();
    pool.wait_released().unwrap();
    assert_eq!(journal.entries(), [false, false]);
    assert_eq!(pool.stats().completed, 2);
}

#[testkit::test]
fn a_release_and_its_timeout_ask_no_task_to_stop() {
    let pool = pool(1);
    let gate = testkit::Gate::new();
    let held = gate.clone();
    let handle = pool.spawn(move || {
        held.wait();
        current().is_cancelled()
    });
    gate.wait_for_arrivals(1);
    assert!(pool.release_timeout(Duration::ZERO).is_err());
    gate.open();
    assert!(!handle.unwrap().join().unwrap());
}

#[testkit::test]
fn nothing_is_current_outside_of_a_pool() {
    let current = current();
    assert_eq!((current.name(), current.pool()), (None, None));
    assert!(!current.is_cancelled() && !current.token().is_cancelled());
}

#[testkit::test]
fn a_task_run_in_place_is_current_until_it_ends_or_panics() {
    let pool = queueing(9);
    let inner = pool.clone();
    let outer = pool.task().name("outer").spawn(move || {
        let name = || current().name().map(str::to_owned);
        let named = inner.task().name("inner").spawn(name).unwrap();
        assert_eq!(named.join().unwrap().as_deref(), Some("inner"));
        let panics = inner
            .task()
            .name("panics")
            .spawn(|| panic!("in place"))
            .unwrap();
        assert!(panics.join().is_err());
        assert_eq!(name().as_deref(), Some("outer"));
        // A task without options shares the token of the outer one.
        let plain = inner.spawn(name).unwrap();
        assert_eq!(plain.join().unwrap().as_deref(), Some("outer"));
    });
    outer.unwrap().join().unwrap();
    let after = pool.spawn(|| current().name().map(str::to_owned));
    assert_eq!(after.unwrap().join().unwrap(), None);
    let plain = Journal::new();
    let entry = plain.clone();
    let write = move || entry.write(current().name().is_none());
    pool.submit(write).unwrap();
    pool.wait_idle().unwrap();
    assert_eq!(plain.entries(), [true]);
}

#[testkit::test]
fn cancelling_the_token_of_a_waiting_submit_returns_its_task() {
    let (pool, token, journal) = (pool(1), CancelToken::new(), Journal::new());
    let gate = hold(&pool, 1);
    let (first, second) = (journal.writer("given up"), journal.writer("served"));
    let ours = token.clone();
    let given_up = enter_line(&pool, move |pool| {
        pool.task().cancelled_by(&ours).submit(first)
    });
    let served = enter_line(&pool, move |pool| pool.submit(second));
    token.cancel();
    let back = given_up.join().unwrap().unwrap_err();
    assert!(matches!(back, SubmitError::Cancelled(_)), "{back}");
    assert_eq!((pool.waiting(), pool.stats().refused), (1, 1));
    back.into_task()();
    gate.open();
    served.join().unwrap().unwrap();
    pool.wait_idle().unwrap();
    assert_eq!(journal.entries(), ["given up", "served"]);
    // A cancelled token refuses the call at once, even if there is room.
    let refused = pool.task().cancelled_by(&token).try_spawn(|| ());
    assert!(matches!(refused, Err(SubmitError::Cancelled(_))));
    assert_eq!(pool.stats().refused, 2);
}

#[testkit::test]
fn cancelling_the_token_of_a_waiting_future_wakes_it_and_returns_its_task() {
    let (pool, token, drops) = (pool(1), CancelToken::new(), DropCounter::new());
    let gate = hold(&pool, 1);
    let (waker, held) = (CountingWaker::new(), drops.token());
    let mut future = pool
        .task()
        .cancelled_by(&token)
        .spawn_async(move || drop(held));
    assert!(poll_with(&mut future, &waker.waker()).is_pending());
    assert_eq!(pool.waiting(), 1);
    token.cancel();
    assert_eq!(waker.wakes(), 1);
    let Poll::Ready(Err(SubmitError::Cancelled(task))) = poll(&mut future) else {
        panic!("it is given up");
    };
    assert_eq!((pool.waiting(), drops.alive()), (0, 1));
    drop(task);
    drop(future);
    let mut late = pool.task().cancelled_by(&token).submit_async(|| ());
    assert!(matches!(
        poll(&mut late),
        Poll::Ready(Err(SubmitError::Cancelled(_)))
    ));
    gate.open();
    end(&pool);
    assert_eq!(pool.stats().refused, 2);
}

#[testkit::test]
fn a_task_past_its_start_deadline_is_not_run_and_counts_as_expired() {
    let clock = ManualClock::new();
    let pool = Pool::builder().capacity(1).queue_depth(9);
    let pool = pool.keep_alive(None).clock(clock.clone()).build().unwrap();
    let gate = hold(&pool, 1);
    let (drops, ran) = (DropCounter::new(), Arc::new(AtomicUsize::new(0)));
    let spawn = |seconds| {
        let (held, ran) = (drops.token(), Arc::clone(&ran));
        let task = pool.task().start_before(clock.now() + seconds * SECOND);
        let handle = task.spawn(move || {
            drop(held);
            ran.fetch_add(1, SeqCst)
        });
        handle.unwrap()
    };
    let (late, in_time) = (spawn(5), spawn(6));
    clock.advance(5 * SECOND);
    gate.open();
    let joined = late.join();
    assert!(matches!(joined, Err(JoinError::Expired)), "{joined:?}");
    assert_eq!(in_time.join().unwrap(), 0);
    pool.wait_idle().unwrap();
    let stats = pool.stats();
    assert_eq!((stats.expired, stats.completed, drops.alive()), (1, 2, 0));
    assert_eq!(stats.submitted, 3);
}

/// Makes a call at a full pool, for a task that must start within five seconds.
fn waits_for_five_seconds<T: Send + 'static>(
    set_up: impl FnOnce(Builder<Closures>) -> Builder<Closures> + Send + 'static,
    call: impl FnOnce(TaskBuilder<'_, Pool>) -> Result<T, SubmitError> + Send + 'static,
) {
    let clock = ManualClock::new();
    let pool = set_up(Pool::builder().capacity(1).keep_alive(None));
    let pool = pool.clock(clock.clone()).build().unwrap();
    let gate = hold(&pool, 1);
    let last = clock.now() + 5 * SECOND;
    let waits = enter_line(&pool, move |pool| call(pool.task().start_before(last)));
    clock.wait_for_sleepers(1);
    clock.advance(5 * SECOND);
    let waited = waits.join().unwrap();
    assert!(matches!(waited, Err(SubmitError::TimedOut(()))));
    gate.open();
}

#[testkit::test]
fn a_wait_for_room_ends_at_the_start_deadline_of_its_task() {
    waits_for_five_seconds(
        |pool| pool,
        |task| {
            let submitted = task.submit_timeout(|| (), 9 * SECOND);
            submitted.map_err(SubmitError::without_task)
        },
    );
}

/// At the nesting limit, a caller that may not run its task waits.
#[testkit::test]
fn a_caller_at_the_nesting_limit_waits_until_the_start_deadline() {
    waits_for_five_seconds(
        |pool| pool.on_full(OnFull::RunInCaller).nesting_limit(0),
        |task| task.spawn(|| ()).map_err(SubmitError::without_task),
    );
}

#[testkit::test]
fn a_panic_report_has_the_tasks_name() {
    let journal = Journal::new();
    let reports = journal.clone();
    let pool = Pool::builder().capacity(1).panic_hook(move |panic| {
        reports.write((panic.name().map(str::to_owned), panic.task()));
    });
    let pool = pool.build().unwrap();
    let failing = pool
        .task()
        .name(String::from("nightly"))
        .spawn(|| panic!("one"));
    assert!(failing.unwrap().join().is_err());
    pool.task().name("weekly").submit(|| panic!("two")).unwrap();
    pool.wait_idle().unwrap();
    assert!(pool.spawn(|| panic!("three")).unwrap().join().is_err());
    let called: Vec<_> = journal
        .entries()
        .into_iter()
        .map(|(name, _)| name)
        .collect();
    assert_eq!(
        called,
        [Some("nightly".into()), Some("weekly".into()), None]
    );
    assert!(journal.entries()[0].1.contains("a_panic_report"));
}

#[testkit::test]
fn a_submitted_tasks_value_is_dropped_on_the_worker_as_part_of_the_task() {
    let (pool, drops) = (pool(1), DropCounter::new());
    let held = drops.token();
    pool.task().name("value").submit(move || held).unwrap();
    pool.wait_idle().unwrap();
    assert_eq!(drops.alive(), 0);
    pool.task().name("panics").submit(PanicOnDrop::new).unwrap();
    pool.wait_idle().unwrap();
    let stats = pool.stats();
    assert_eq!((stats.completed, stats.panicked), (1, 1));
}

#[testkit::test]
fn a_refused_task_with_options_of_any_size_is_returned() {
    let pool = pool(1);
    let gate = hold(&pool, 1);
    let large = [7_u8; 4096];
    let back = pool.task().name("large").try_spawn(move || large.len());
    assert_eq!(back.unwrap_err().into_task()(), 4096);
    let back = pool.task().try_submit(move || large.len());
    assert_eq!(back.unwrap_err().into_task()(), 4096);
    gate.open();

    let names = FuncPool::builder(|text: String| (text, current().name().map(str::to_owned)));
    let names = names.capacity(1).build().unwrap();
    let handle = names.task().name("typed").spawn("a".into()).unwrap();
    assert_eq!(handle.join().unwrap(), ("a".into(), Some("typed".into())));
    names.release();
    let back = names.task().spawn("b".into()).unwrap_err();
    assert!(matches!(&back, SubmitError::Released(text) if text == "b"));
}

#[testkit::test]
fn release_now_removes_tasks_with_options() {
    let numbers = FuncPool::builder(|n: u32| n).capacity(1).queue_depth(9);
    let numbers = numbers.build().unwrap();
    let gate = testkit::Gate::new();
    let busy = FuncPool::builder({
        let gate = gate.clone();
        move |n: u32| {
            gate.wait();
            n
        }
    });
    let busy = busy.capacity(1).queue_depth(9).build().unwrap();
    let first = busy.spawn(1).unwrap();
    gate.wait_for_arrivals(1);
    let second = busy.task().name("two").spawn(2).unwrap();
    assert_eq!(busy.release_now(), [2]);
    assert!(matches!(second.join(), Err(JoinError::Released)));
    gate.open();
    assert_eq!(first.join().unwrap(), 1);
    end(&numbers);
}

#[testkit::test]
fn a_million_tasks_of_one_token_use_no_memory_of_it_afterwards() {
    let (pool, token) = (queueing(1000), CancelToken::new());
    let ran = Arc::new(AtomicUsize::new(0));
    for _ in 0..100_000 {
        let ran = Arc::clone(&ran);
        let task = pool.task().cancelled_by(&token);
        task.submit(move || ran.fetch_add(1, SeqCst)).unwrap();
    }
    pool.wait_idle().unwrap();
    end(&pool);
    assert_eq!(ran.load(SeqCst), 100_000);
    let shown = format!("{token:?}");
    assert!(shown.contains("listeners: 0"), "{shown}");
}

#[testkit::test]
fn a_token_racing_the_hand_over_accepts_or_returns_the_task() {
    let pool = pool(1);
    let mut outcomes = [0; 3];
    for _ in 0..500 {
        let token = CancelToken::new();
        let gate = hold(&pool, 1);
        let ours = token.clone();
        let submitter = enter_line(&pool, move |pool| {
            pool.task().cancelled_by(&ours).spawn(|| ())
        });
        let canceller = thread::spawn(move || token.cancel());
        gate.open();
        outcomes[match submitter.join().unwrap() {
            Ok(handle) => usize::from(handle.join().is_err()),
            Err(SubmitError::Cancelled(_)) => 2,
            Err(other) => panic!("{other}"),
        }] += 1;
        canceller.join().unwrap();
        pool.wait_idle().unwrap();
    }
    assert_eq!(outcomes.iter().sum::<usize>(), 500);
    assert_eq!(pool.stats().refused, outcomes[2] as u64);
    assert_eq!(pool.stats().cancelled, outcomes[1] as u64);
}
