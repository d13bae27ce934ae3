//! Full pools whose policy runs the task in the caller or discards a task.

use std::sync::{Arc, Mutex, OnceLock};
use std::thread;

use pool_core::{
    BuildError, Builder, Closures, DiscardedTask, FuncPool, JoinError, JoinHandle, OnFull, Pool,
    Spawn, Submit, SubmitError, WaitError, WithinWorker,
};
use pool_util::PoolExt;
use testkit::Gate;

use crate::support::{Journal, end, enter_line, hold, until};

/// A pool whose one worker is held, with a queue of this depth and a discard hook.
fn held(depth: usize, build: impl FnOnce(Builder<Closures>) -> Builder<Closures>) -> (Pool, Gate) {
    let builder = Pool::builder().capacity(1).queue_depth(depth);
    let builder = builder.discard_hook(|_| ());
    let pool = build(builder).build().unwrap();
    let gate = hold(&pool, 1);
    (pool, gate)
}

fn runs_in_caller(builder: Builder<Closures>) -> Builder<Closures> {
    builder.on_full(OnFull::RunInCaller)
}

#[testkit::test]
fn run_in_caller_runs_the_task_at_a_full_pool_and_its_handle_is_finished() {
    let (pool, gate) = held(1, runs_in_caller);
    pool.submit(|| ()).unwrap();
    let us = thread::current().id();
    let handle = pool.spawn(|| thread::current().id()).unwrap();
    assert!(handle.is_finished());
    assert_eq!(handle.join().unwrap(), us);
    let panics = pool.spawn(|| panic!("here")).unwrap();
    let panicked: Result<(), _> = panics.join();
    assert!(matches!(panicked, Err(JoinError::Panicked(it)) if it.message() == Some("here")));
    // Calls that name their own behaviour ignore the policy.
    assert!(matches!(pool.try_submit(|| ()), Err(SubmitError::Full(_))));
    let stats = pool.stats();
    assert_eq!(
        (stats.submitted, stats.completed, stats.panicked),
        (4, 1, 1)
    );
    assert_eq!((stats.in_flight, stats.refused), (2, 1));
    gate.open();
    pool.wait_idle().unwrap();
    end(&pool);
}

#[testkit::test]
fn a_task_run_in_its_caller_is_in_flight_and_delays_the_end() {
    let (pool, gate) = held(0, runs_in_caller);
    let ours = pool.clone();
    pool.submit(move || {
        gate.open();
        until(|| ours.in_flight() == 1);
        assert!(ours.release());
        assert_eq!(ours.wait_idle(), Err(WaitError::WouldDeadlock));
        assert_eq!(ours.wait_released(), Err(WaitError::WouldDeadlock));
        assert!(!ours.is_own_worker());
    })
    .unwrap();
    pool.wait_released().unwrap();
    let stats = pool.stats();
    assert_eq!(
        (stats.completed, stats.panicked, stats.in_flight),
        (2, 0, 0)
    );
    let refused = pool.submit(|| panic!("a released pool runs nothing"));
    assert!(refused.unwrap_err().is_released());
}

#[testkit::test]
fn tasks_run_in_their_callers_nest_to_the_limit_and_wait_beyond_it() {
    fn nest(pool: &Pool, depth: usize, journal: &Journal<usize>) {
        let (ours, entries) = (pool.clone(), journal.clone());
        let task = move || {
            entries.write(depth);
            if depth < 4 {
                nest(&ours, depth + 1, &entries);
            }
        };
        pool.submit(task).unwrap();
    }
    let (pool, gate) = held(0, |it| runs_in_caller(it).nesting_limit(3));
    let journal = Journal::new();
    let (ours, entries) = (pool.clone(), journal.clone());
    let waits = enter_line(&pool, move |_| nest(&ours, 0, &entries));
    assert_eq!(
        journal.entries(),
        [0, 1, 2],
        "and the next one waits for room"
    );
    gate.open();
    waits.join().unwrap();
    until(|| journal.len() == 5);
    pool.wait_idle().unwrap();
    end(&pool);
}

#[testkit::test]
fn an_own_worker_follows_its_own_setting_under_each_policy() {
    let policies = [
        (WithinWorker::RunInPlace, true),
        (WithinWorker::Refuse, false),
        (WithinWorker::Block, true),
    ];
    for (within, runs) in policies {
        let pool = runs_in_caller(Pool::builder().capacity(1).within_worker(within));
        let pool = pool.build().unwrap();
        let inner = pool.clone();
        let outer = pool.spawn(move || inner.spawn(|| thread::current().id()));
        let worker = outer.unwrap().join().unwrap();
        assert_eq!(worker.is_ok(), runs, "{within:?}");
        pool.wait_idle().unwrap();
        end(&pool);
    }
}

#[testkit::test]
fn discarding_the_oldest_task_ends_its_handle_and_calls_the_hook() {
    let journal = Journal::new();
    let entries = journal.clone();
    let (pool, gate) = held(2, |it| {
        it.on_full(OnFull::DiscardOldest)
            .name("stale")
            .discard_hook(move |it| entries.write((it.pool().to_owned(), it.task())))
    });
    let ran = Journal::new();
    let handles: Vec<_> = (0..5).map(|n| pool.spawn(ran.writer(n)).unwrap()).collect();
    assert_eq!((pool.queued(), pool.stats().discarded), (2, 3));
    gate.open();
    pool.wait_idle().unwrap();
    assert_eq!(ran.entries(), [3, 4]);
    for (n, handle) in handles.into_iter().enumerate() {
        match handle.join() {
            Ok(()) => assert!(n >= 3),
            Err(JoinError::Discarded) => assert!(n < 3),
            Err(other) => panic!("{other}"),
        }
    }
    let hooked = journal.entries();
    assert!(
        hooked
            .iter()
            .all(|(pool, task)| pool == "stale" && task.contains("writer"))
    );
    let stats = pool.stats();
    assert_eq!((hooked.len(), stats.submitted, stats.completed), (3, 6, 3));
    end(&pool);
}

#[testkit::test]
fn the_new_task_is_discarded_if_none_is_queued_or_the_policy_is_discard_newest() {
    for policy in [OnFull::DiscardOldest, OnFull::DiscardNewest] {
        let (pool, gate) = held(0, |it| it.on_full(policy));
        let kept = Arc::new(());
        let held = Arc::clone(&kept);
        let handle = pool.spawn(move || drop(held)).unwrap();
        assert!(handle.is_finished() && Arc::strong_count(&kept) == 1);
        assert!(matches!(handle.join(), Err(JoinError::Discarded)));
        pool.submit(|| panic!("it is not run")).unwrap();
        assert_eq!(pool.stats().discarded, 2);
        gate.open();
        pool.wait_idle().unwrap();
        assert_eq!(pool.stats().panicked, 0);
        end(&pool);
    }
    let (pool, gate) = held(1, |it| it.on_full(OnFull::DiscardNewest));
    let first = pool.spawn(|| 1).unwrap();
    let second = pool.spawn(|| 2).unwrap();
    gate.open();
    assert_eq!(first.join().unwrap(), 1);
    assert!(matches!(second.join(), Err(JoinError::Discarded)));
    end(&pool);
}

#[testkit::test]
fn a_discard_skips_tombstones_and_internal_tasks() {
    let (pool, gate) = held(4, |it| it.on_full(OnFull::DiscardOldest));
    let (ran, keyed) = (Journal::new(), pool.keyed());
    keyed.submit('k', ran.writer(0)).unwrap();
    let cancelled = pool.spawn(ran.writer(1)).unwrap();
    pool.submit(ran.writer(2)).unwrap();
    assert!(cancelled.cancel());
    pool.submit(ran.writer(3)).unwrap();
    pool.submit(ran.writer(4)).unwrap();
    assert_eq!((pool.queued(), pool.stats().discarded), (4, 0));
    pool.submit(ran.writer(5)).unwrap();
    let stats = pool.stats();
    assert_eq!((stats.queued, stats.discarded, stats.cancelled), (4, 1, 1));
    gate.open();
    pool.wait_idle().unwrap();
    assert_eq!(ran.entries(), [0, 3, 4, 5]);
    end(&pool);
}

#[testkit::test]
fn a_discard_takes_no_room_from_waiters() {
    let (pool, gate) = held(1, |it| it);
    let ran = Journal::new();
    pool.submit(ran.writer(0)).unwrap();
    let later = ran.writer(1);
    let waits = enter_line(&pool, move |pool| pool.submit(later));
    pool.submit_with(ran.writer(2), OnFull::DiscardOldest)
        .unwrap();
    assert_eq!((pool.waiting(), pool.queued()), (1, 1));
    gate.open();
    waits.join().unwrap().unwrap();
    pool.wait_idle().unwrap();
    assert_eq!(ran.entries(), [2, 1]);
    end(&pool);
}

/// Joins its own task. A discard hook or the destructor of a discarded capture may try that.
struct JoinsItself(Arc<OnceLock<Mutex<Option<JoinHandle<()>>>>>, Journal<bool>);

impl Drop for JoinsItself {
    fn drop(&mut self) {
        let handle = self.0.get().and_then(|slot| slot.lock().unwrap().take());
        if let Some(handle) = handle {
            self.1
                .write(matches!(handle.join(), Err(JoinError::Discarded)));
        }
    }
}

#[testkit::test]
fn user_code_of_a_discard_may_use_the_pool_but_not_wait_for_itself() {
    let (slot, journal) = (Arc::new(OnceLock::new()), Journal::new());
    let (pool, gate) = held(1, |it| {
        it.on_full(OnFull::DiscardOldest)
            .discard_hook(|_| panic!("it is counted"))
    });
    let itself = JoinsItself(Arc::clone(&slot), journal.clone());
    let handle = pool.spawn(move || drop(itself)).unwrap();
    assert!(slot.set(Mutex::new(Some(handle))).is_ok());
    pool.submit(|| ()).unwrap();
    assert_eq!(journal.entries(), [true]);
    assert_eq!((pool.stats().discarded, pool.stats().hook_panics), (1, 1));
    gate.open();
    pool.wait_idle().unwrap();
    end(&pool);
}

/// Submits to a full pool in its destructor.
struct SubmitsAgain(Pool, Journal<bool>);

impl Drop for SubmitsAgain {
    fn drop(&mut self) {
        let again = Self(self.0.clone(), self.1.clone());
        if let Err(refused) = self.0.submit(move || drop(again)) {
            self.1.write(matches!(refused, SubmitError::Full(_)));
            std::mem::forget(refused); // Its destructor would submit without end.
        }
    }
}

#[testkit::test]
fn a_discard_hook_or_a_destructor_that_submits_again_is_refused_at_the_nesting_limit() {
    for policy in [OnFull::DiscardOldest, OnFull::DiscardNewest] {
        let slot = Arc::new(OnceLock::<Pool>::new());
        let (ours, refusals) = (Arc::clone(&slot), Journal::new());
        let entries = refusals.clone();
        let hook = move |_: &DiscardedTask<'_>| {
            if let Some(Err(refused)) = ours.get().map(|pool| pool.submit(|| ())) {
                entries.write(matches!(refused, SubmitError::Full(_)));
            }
        };
        let (pool, gate) = held(1, |it| {
            it.on_full(policy).nesting_limit(5).discard_hook(hook)
        });
        pool.submit(|| ()).unwrap();
        assert!(slot.set(pool.clone()).is_ok());
        pool.submit(|| ()).unwrap();
        assert_eq!(
            (refusals.entries(), pool.stats().discarded),
            (vec![true], 6)
        );
        gate.open();
        pool.wait_idle().unwrap();
    }
    let (pool, gate) = held(0, |it| it.on_full(OnFull::DiscardNewest).nesting_limit(5));
    let refusals = Journal::new();
    let again = SubmitsAgain(pool.clone(), refusals.clone());
    pool.submit(move || drop(again)).unwrap();
    assert_eq!(
        (refusals.entries(), pool.stats().discarded),
        (vec![true], 6)
    );
    gate.open();
}

#[testkit::test]
fn batches_groups_and_typed_pools_follow_the_policy_while_mappings_and_permits_wait() {
    let (pool, gate) = held(1, |it| it.on_full(OnFull::DiscardNewest));
    let ran = Journal::new();
    let count = pool.submit_batch((0..4).map(|n| ran.writer(n)));
    assert_eq!((count.unwrap(), pool.stats().discarded), (4, 3));
    let group = pool.group();
    group.spawn(|| ()).unwrap();
    assert!(matches!(group.next(), Some(Err(JoinError::Discarded))));
    let mapped = {
        let pool = pool.clone();
        thread::spawn(move || {
            pool.map(0..100, |n| n + 1)
                .filter_map(Result::ok)
                .sum::<i32>()
        })
    };
    let permit = enter_line(&pool, |pool| {
        pool.reserve().map(|permit| permit.submit(|| ()))
    });
    gate.open();
    assert_eq!(mapped.join().unwrap(), 5050);
    permit.join().unwrap().unwrap();
    pool.wait_idle().unwrap();
    assert_eq!((ran.entries(), pool.stats().discarded), (vec![0], 4));
    end(&pool);

    let (gate, seen) = (Gate::new(), Journal::new());
    let (wait, entries) = (gate.clone(), seen.clone());
    let pool = FuncPool::builder(move |n: u32| {
        wait.wait();
        entries.write(n);
    });
    let back = Journal::new();
    let entries = back.clone();
    let pool = pool
        .capacity(1)
        .queue_depth(1)
        .on_full(OnFull::DiscardOldest)
        .discard_hook(move |task| entries.write((task.task(), task.name().map(str::to_owned))));
    let pool = pool.build().unwrap();
    pool.submit(0).unwrap();
    gate.wait_for_arrivals(1);
    (1..5).for_each(|n| pool.task().name(n.to_string()).submit(n).unwrap());
    let discarded = ["1", "2", "3"].map(|n| ("u32", Some(n.to_owned())));
    assert_eq!(back.entries(), discarded);
    gate.open();
    pool.wait_idle().unwrap();
    assert_eq!(seen.entries(), [0, 4]);
    end(&pool);
}

#[testkit::test]
fn a_discarding_pool_without_a_hook_is_not_built() {
    for policy in [OnFull::DiscardOldest, OnFull::DiscardNewest] {
        let deaf = Pool::builder().capacity(1).on_full(policy);
        let hooked = deaf.clone().discard_hook(|_| ());
        assert!(matches!(deaf.build(), Err(BuildError::NoDiscardHook)));
        assert!(hooked.build().is_ok());
        let deaf = FuncPool::builder(drop::<u8>).capacity(1).on_full(policy);
        let hooked = deaf.clone().discard_hook(|_| ());
        let refused = deaf.build().unwrap_err().to_string();
        assert_eq!(refused, "a pool that discards tasks needs a discard hook");
        assert!(hooked.build().is_ok());
    }
}

#[testkit::test]
fn a_call_that_would_discard_without_a_hook_returns_its_task() {
    let pool = FuncPool::builder(drop::<u8>).capacity(1).start_paused(true);
    let pool = pool.build().unwrap();
    for policy in [OnFull::DiscardOldest, OnFull::DiscardNewest] {
        let refused = pool.submit_with(7, policy).unwrap_err();
        assert!(
            matches!(refused, SubmitError::NoDiscardHook(7)),
            "{refused:?}"
        );
        let refused = pool.spawn_with(8, policy).unwrap_err();
        assert!(
            matches!(refused, SubmitError::NoDiscardHook(8)),
            "{refused:?}"
        );
        let reason = refused.without_task().to_string();
        assert_eq!(
            reason,
            "the pool has no discard hook, so it cannot discard tasks"
        );
    }
    let stats = pool.stats();
    assert_eq!((stats.submitted, stats.refused, stats.discarded), (0, 4, 0));
}

#[testkit::test]
fn the_discard_hook_gets_the_name_of_the_task() {
    let journal = Journal::new();
    let entries = journal.clone();
    let (pool, gate) = held(1, |it| {
        let hook = move |it: &DiscardedTask<'_>| entries.write(it.name().map(str::to_owned));
        it.on_full(OnFull::DiscardOldest).discard_hook(hook)
    });
    pool.task().name("first").submit(|| ()).unwrap();
    let second = pool.task().name("second").spawn(|| ()).unwrap();
    pool.submit(|| ()).unwrap();
    pool.submit(|| ()).unwrap();
    assert!(second.join().is_err());
    let names = ["first", "second"].map(|name| Some(name.to_owned()));
    assert_eq!(journal.entries(), [&names[..], &[None]].concat());
    gate.open();

    let journal = Journal::new();
    let entries = journal.clone();
    let typed = FuncPool::builder(|n: u32| n)
        .capacity(1)
        .start_paused(true)
        .on_full(OnFull::DiscardNewest)
        .discard_hook(move |it| entries.write(it.name().map(str::to_owned)));
    let typed = typed.build().unwrap();
    typed.submit(1).unwrap();
    typed.task().name("typed").submit(2).unwrap();
    typed.submit(3).unwrap();
    assert_eq!(journal.entries(), [Some("typed".to_owned()), None]);
}
