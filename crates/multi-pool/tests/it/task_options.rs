//! Task options and pool features over several pools: tokens, priorities, hooks, spans, worker
//! states, and extra workers for tasks that block. Each works in every pool as in a single one.

use pool_util::PoolExt;
use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::mpsc;

use multi_pool::{MultiBuilder, MultiPool, MultiPoolExt};
use pool_core::{
    CancelToken, FuncPool, JoinError, JoinHandle, Pool, Priority, QueueDepth, TaskEnd, TaskHook,
    blocking, current,
};
use testkit::Gate;

use crate::support::{Journal, end, here, hold_all};

/// Two pools of one worker and a queue.
fn queueing() -> MultiPool {
    let each = Pool::builder().capacity(1).queue_depth(10);
    MultiBuilder::new(each).pools(2).build().unwrap()
}

#[testkit::test]
fn cancelling_a_token_cancels_unstarted_tasks_of_all_pools() {
    let (pool, token, journal) = (queueing(), CancelToken::new(), Journal::new());
    let gates = hold_all(&pool, 2);
    let spawn = |n| {
        let task = pool.task().cancelled_by(&token);
        task.spawn(journal.writer(n)).unwrap()
    };
    let handles: Vec<_> = (0..4).map(spawn).collect();
    pool.submit(journal.writer(4)).unwrap();
    token.cancel();
    gates.iter().for_each(Gate::open);
    for handle in handles {
        assert!(matches!(handle.join(), Err(JoinError::Cancelled)));
    }
    end(&pool);
    let cancelled = [0, 1].map(|index| pool.stats_of(index).unwrap().cancelled);
    assert_eq!((cancelled, journal.entries()), ([2, 2], vec![4]));
}

#[testkit::test]
fn token_handle_group_and_release_now_ask_running_tasks_of_all_pools_to_stop() {
    let pool = queueing();
    let until_asked = |gate: &Gate| {
        let gate = gate.clone();
        move || {
            gate.wait(); // The gate is open, and only counts the running tasks.
            current().token().wait();
            here()
        }
    };
    let running = |spawn: &mut dyn FnMut(&Gate)| {
        let gate = Gate::new();
        gate.open();
        for count in 1..=2 {
            spawn(&gate);
            gate.wait_for_arrivals(count);
        }
    };
    let mut handles = Vec::new();

    let token = CancelToken::new();
    running(&mut |gate| {
        let task = pool.task().cancelled_by(&token);
        handles.push(task.spawn(until_asked(gate)).unwrap());
    });
    token.cancel();
    let ended = |handles: &mut Vec<JoinHandle<usize>>| {
        let mut pools: Vec<_> = handles.drain(..).map(|it| it.join().unwrap()).collect();
        pools.sort_unstable();
        assert_eq!(pools, [0, 1], "one ran in each");
    };
    ended(&mut handles);

    running(&mut |gate| handles.push(pool.spawn(until_asked(gate)).unwrap()));
    for handle in &handles {
        assert!(!handle.cancel(), "it runs");
    }
    ended(&mut handles);

    let group = pool.group();
    running(&mut |gate| group.spawn(until_asked(gate)).unwrap());
    assert_eq!(group.cancel(), 0);
    assert!(group.wait().is_ok());

    running(&mut |gate| handles.push(pool.spawn(until_asked(gate)).unwrap()));
    assert_eq!(pool.release_now(), 0);
    ended(&mut handles);
    pool.wait_released().unwrap();
}

#[testkit::test]
fn each_pool_starts_its_queued_tasks_by_priority() {
    let each = Pool::builder()
        .capacity(1)
        .queue_depth(QueueDepth::Unlimited);
    let each = each.priorities(true).start_paused(true);
    let pool = MultiBuilder::new(each).pools(2).build().unwrap();
    let journal = Journal::new();
    let all = [Priority::Low, Priority::Normal, Priority::High];
    for priority in all.into_iter().flat_map(|priority| [priority; 2]) {
        let journal = journal.clone();
        let task = pool.task().priority(priority);
        task.submit(move || journal.write((here(), priority)))
            .unwrap();
    }
    pool.resume();
    end(&pool);
    for pool in 0..2 {
        let entries = journal.entries();
        let here = entries.into_iter().filter(|entry| entry.0 == pool);
        let order: Vec<_> = here.map(|entry| entry.1).collect();
        assert_eq!(order, [Priority::High, Priority::Normal, Priority::Low]);
    }
}

/// Records the pool and the type name of each ended task.
struct Ends(Journal<(String, String)>);

impl TaskHook for Ends {
    fn after(&self, task: &TaskEnd<'_>) {
        let entry = (task.pool().to_owned(), task.task().to_owned());
        self.0.write(entry);
    }
}

/// One task function for each call of the test below. The hook tells them apart by name.
mod seen {
    pub(super) fn by_submit_at_once() {}
    pub(super) fn by_submit_async() {}
    pub(super) fn by_spawn() {}
    pub(super) fn by_permit() {}
    pub(super) fn by_batch() {}
    pub(super) fn by_key() {}
    pub(super) fn by_group() {}
    pub(super) fn by_scope() {}
    pub(super) fn by_map(_: u32) {}

    pub(super) const ALL: [&str; 9] = [
        "seen::by_submit_at_once",
        "seen::by_submit_async",
        "seen::by_spawn",
        "seen::by_permit",
        "seen::by_batch",
        "seen::by_key",
        "seen::by_group",
        "seen::by_scope",
        "seen::by_map",
    ];
}

#[testkit::test]
fn one_task_hook_is_called_for_every_call_in_all_pools() {
    let journal = Journal::new();
    let each = Pool::builder()
        .capacity(1)
        .queue_depth(20)
        .name("seen")
        .task_hook(Ends(journal.clone()));
    let pool = MultiBuilder::new(each).pools(2).build().unwrap();
    let (keyed, group) = (pool.keyed(), pool.group());
    for key in 0..2 {
        pool.submit(seen::by_submit_at_once).unwrap();
        testkit::block_on(pool.submit_async(seen::by_submit_async)).unwrap();
        pool.spawn(seen::by_spawn).unwrap().join().unwrap();
        pool.reserve().unwrap().submit(seen::by_permit);
        keyed.submit(key, seen::by_key).unwrap();
        group.spawn(seen::by_group).unwrap();
        pool.scope(|scope| scope.submit(seen::by_scope));
    }
    pool.submit_batch([seen::by_batch; 2]).unwrap();
    assert_eq!(pool.map(0..2, seen::by_map).count(), 2);
    end(&pool);
    let entries = journal.entries();
    for name in seen::ALL {
        // The type name of a mapping's piece contains the type name of its function.
        let of_name = entries.iter().filter(|(_, task)| task.contains(name));
        assert_eq!(of_name.count(), 2, "{name} of {entries:#?}");
    }
    let pools: BTreeSet<_> = entries.iter().map(|entry| entry.0.as_str()).collect();
    assert!(pools.into_iter().eq(["seen-0", "seen-1"]));
}

#[testkit::test]
fn a_task_that_blocks_in_any_pool_has_an_extra_worker_there() {
    let each = Pool::builder()
        .capacity(1)
        .queue_depth(1)
        .max_compensation(1)
        .keep_alive(None);
    let pool = MultiBuilder::new(each).pools(2).build().unwrap();
    let (mut waits, mut senders, gate) = (Vec::new(), Vec::new(), Gate::new());
    for _ in 0..2 {
        let ((sender, receiver), held) = (mpsc::channel(), gate.clone());
        let task = move || {
            held.wait();
            (here(), blocking(|| receiver.recv()))
        };
        waits.push(pool.spawn(task).unwrap());
        senders.push(sender);
    }
    // Each of these tasks is queued behind a task that waits for it.
    for sender in senders {
        pool.submit(move || sender.send(here())).unwrap();
    }
    gate.open();
    for waits in waits {
        let (at, received) = waits.join().unwrap();
        assert_eq!(received, Ok(at));
    }
    end(&pool);
    let most = [0, 1].map(|index| pool.stats_of(index).unwrap().peak_live);
    assert_eq!(most, [2, 2]);
}

#[testkit::test]
fn each_worker_of_each_pool_has_and_keeps_its_own_state() {
    let (made, gate) = (AtomicUsize::new(0), Gate::new());
    let all = gate.clone();
    let new_state = move || (made.fetch_add(1, SeqCst), 0);
    let each = FuncPool::builder_with_state(new_state, move |state: &mut (usize, u32), ()| {
        all.wait();
        state.1 += 1;
        (here(), *state)
    });
    let each = each.capacity(1).queue_depth(10);
    let pool = MultiBuilder::new(each).pools(2).build().unwrap();
    let calls: Vec<_> = (0..6).map(|_| pool.spawn(()).unwrap()).collect();
    gate.wait_for_arrivals(2);
    gate.open();
    let mut states = BTreeMap::new();
    for call in calls {
        let (at, (number, calls)) = call.join().unwrap();
        states.entry((at, number)).or_insert(0);
        assert!(states.insert((at, number), calls) < Some(calls));
    }
    let of: Vec<_> = states
        .iter()
        .map(|((at, _), calls)| (*at, *calls))
        .collect();
    assert_eq!(of, [(0, 3), (1, 3)], "{states:?}");
    end(&pool);
}

/// A subscriber that knows whether a thread is in its only span.
struct Spans;

std::thread_local! {
    static INSIDE: Cell<bool> = const { Cell::new(false) };
}

impl tracing::Subscriber for Spans {
    fn enabled(&self, _: &tracing::Metadata<'_>) -> bool {
        true
    }
    fn new_span(&self, _: &tracing::span::Attributes<'_>) -> tracing::span::Id {
        tracing::span::Id::from_u64(1)
    }
    fn record(&self, _: &tracing::span::Id, _: &tracing::span::Record<'_>) {}
    fn record_follows_from(&self, _: &tracing::span::Id, _: &tracing::span::Id) {}
    fn event(&self, _: &tracing::Event<'_>) {}
    fn enter(&self, _: &tracing::span::Id) {
        INSIDE.set(true);
    }
    fn exit(&self, _: &tracing::span::Id) {
        INSIDE.set(false);
    }
}

#[testkit::test]
fn tasks_of_every_call_in_any_pool_run_under_the_callers_subscriber() {
    let is_ours = || tracing::dispatcher::get_default(tracing::Dispatch::is::<Spans>);
    let each = Pool::builder().capacity(1).queue_depth(20).carry_span(true);
    let pool = MultiBuilder::new(each).pools(2).build().unwrap();
    let journal = Journal::new();
    let tell = || {
        let journal = journal.clone();
        move || journal.write((here(), is_ours()))
    };
    let (keyed, group) = (pool.keyed(), pool.group());
    let mapping = tracing::subscriber::with_default(Spans, || {
        for key in 0..2 {
            pool.submit(tell()).unwrap();
            pool.spawn(tell()).unwrap().join().unwrap();
            testkit::block_on(pool.submit_async(tell())).unwrap();
            pool.reserve().unwrap().submit(tell());
            keyed.submit(key, tell()).unwrap();
            group.spawn(tell()).unwrap();
        }
        pool.submit_batch([tell(), tell()]).unwrap();
        let one = tell();
        pool.map(0..2, move |_| one())
    });
    assert_eq!(mapping.count(), 2);
    pool.wait_idle().unwrap();
    pool.submit(tell()).unwrap();
    end(&pool);
    let mut entries = journal.entries();
    assert!(
        !entries.pop().unwrap().1,
        "it was submitted outside of the span"
    );
    assert_eq!(entries.len(), 16);
    assert!(entries.iter().all(|entry| entry.1));
    assert!((0..2).all(|pool| entries.iter().any(|entry| entry.0 == pool)));
}
