//! Single sections, asked of states that take luck to get into from outside.

use std::sync::Arc;

use sync_shim::Parker;

use super::*;
use crate::capacity::Capacity;
use crate::sched::event::EventWait;
use crate::sched::load::LoadStats;
use crate::{Builder, Closures, Pool};

fn builder(capacity: usize, depth: usize) -> Builder<Closures> {
    Pool::builder().capacity(capacity).queue_depth(depth)
}

/// An open state without workers.
fn state_of(builder: Builder<Closures>) -> State<u32> {
    let pool = builder.build().expect("the settings are sound");
    State::new(&pool.core().config, None).expect("there is memory")
}

/// An open state with that many busy workers, each with a task.
fn busy(workers: usize, depth: usize) -> State<u32> {
    let mut state = state_of(builder(workers, depth));
    (state.live, state.in_flight) = (workers, workers);
    state
}

/// Runs a section and its effects. Also returns whether these included user code.
fn section<T>(run: impl FnOnce(&mut Effects<u32>) -> T) -> (T, bool) {
    let mut effects = Effects::new();
    let made = run(&mut effects);
    let has_user_code = effects.has_user_code();
    effects.wake_threads();
    effects.run_user_code();
    (made, has_user_code)
}

fn thread_entry(job: u32) -> Arc<WaiterEntry<u32>> {
    WaiterEntry::of_thread(Request::Task(job), Parker::new())
}

#[test]
fn waits_for_an_idle_pool_end_only_after_removed_and_admitted_tasks() {
    let mut event = EventWait::of_thread();
    let finish = |state: &mut State<u32>| {
        section(|effects| state.finish(Outcome::Completed, false, effects))
    };

    // What a `release_now` took out has not been dropped when the last running task ends.
    let mut state = busy(1, 1);
    state.disposing = 1;
    event.enter(&mut state.on_idle);
    finish(&mut state);
    assert!(!event.is_set());
    section(|effects| state.disposed(Outcome::Released, effects));
    assert!(event.is_set());

    // A task runs when the last of those has been dropped.
    let mut event = EventWait::of_thread();
    let mut state = busy(1, 1);
    state.disposing = 1;
    event.enter(&mut state.on_idle);
    section(|effects| state.disposed(Outcome::Released, effects));
    assert!(!event.is_set());
    finish(&mut state);
    assert!(event.is_set());

    // The wait queue's head is admitted by the end of the last task.
    let mut event = EventWait::of_thread();
    let mut state = busy(1, 0);
    event.enter(&mut state.on_idle);
    state.enqueue_waiter(thread_entry(5));
    let (next, _) = finish(&mut state);
    assert!(matches!(next, Next::Run(5)) && !event.is_set());
    finish(&mut state);
    assert!(event.is_set());
}

#[test]
fn an_empty_waiter_entry_takes_no_room_and_is_dropped_as_user_code() {
    let mut state = busy(1, 0);
    let [gone, waits] = [thread_entry(5), thread_entry(6)];
    state.enqueue_waiter(Arc::clone(&gone));
    state.enqueue_waiter(Arc::clone(&waits));
    assert!(gone.claim(1).is_some(), "another pool had room");
    let (next, runs_user_code) =
        section(|effects| state.finish(Outcome::Completed, false, effects));
    assert!(matches!(next, Next::RunUserCode) && runs_user_code);
    assert_eq!(
        (state.in_flight, state.queue.len(), state.wait_queue.len()),
        (1, 1, 0)
    );
    assert!(waits.is_done());
    let (next, runs_user_code) = section(|effects| state.go(true, effects));
    assert!(matches!(next, Next::Run(6)) && !runs_user_code);
}

#[test]
fn a_worker_takes_no_task_in_a_section_that_defers_user_code() {
    // Neither to its handle nor to the wait queue: it goes on.
    let mut state = busy(1, 4);
    state.queue.push(7);
    state.in_flight += 1;
    let (next, _) = section(|effects| state.finish(Outcome::Completed, false, effects));
    assert!(matches!(next, Next::Run(7)));

    // To its handle.
    state.queue.push(8);
    state.in_flight += 1;
    let (next, runs_user_code) = section(|effects| state.finish(Outcome::Completed, true, effects));
    assert!(matches!(next, Next::RunUserCode) && !runs_user_code);
    assert_eq!(
        (state.queue.len(), state.searching, state.leaving),
        (1, 0, 0)
    );

    // To a future in the wait queue.
    let mut state = busy(1, 0);
    let entry = WaiterEntry::of_future(Request::Task(9));
    assert!(entry.poll(std::task::Waker::noop()).is_none());
    state.enqueue_waiter(entry);
    let (next, runs_user_code) =
        section(|effects| state.finish(Outcome::Completed, false, effects));
    assert!(matches!(next, Next::RunUserCode) && runs_user_code);
    assert_eq!(state.queue.len(), 1);
}

#[test]
fn a_step_that_is_put_off_is_undone_and_other_workers_are_notified() {
    let mut state = busy(1, 4);
    let cell = WorkerCell::new(0);
    state.live = 2;
    state.idle.push(&cell, None);
    state.queue.push(8);
    section(|effects| state.put_off(Next::Run(7), effects));
    assert_eq!(
        (state.searching, state.notified, state.idle.len()),
        (1, 1, 0)
    );
    assert_eq!([state.queue.pop(), state.queue.pop()], [Some(7), Some(8)]);

    let mut state = busy(1, 4);
    state.searching = 1;
    section(|effects| state.put_off(Next::Search, effects));
    assert_eq!(state.searching, 0);
    state.leaving = 1;
    section(|effects| state.put_off(Next::Leave, effects));
    assert_eq!(state.leaving, 0);
}

#[test]
fn a_worker_that_was_refused_a_thread_takes_the_task_and_does_not_ask_again() {
    let mut state = state_of(builder(4, 4).thread_gate(|| Ok(())));
    state.live = 1;
    (state.in_flight, state.open) = (2, true);
    state.queue.push(7);
    state.queue.push(8);
    let mut effects = Effects::new();
    assert!(matches!(state.go(true, &mut effects), Next::RunUserCode) && effects.start);
    assert_eq!(state.queue.len(), 2, "it asks with no task in its hand");
    state.started(false, &mut effects);
    let mut effects = Effects::new();
    assert!(matches!(state.go(false, &mut effects), Next::Run(7)) && !effects.start);
}

#[test]
fn each_figure_of_the_stats_shows_its_own_counter() {
    let mut state = busy(20, 30);
    let cells = [0, 1, 2].map(WorkerCell::new);
    for cell in &cells {
        state.idle.push(cell, None);
    }
    (state.searching, state.leaving) = (5, 4);
    (state.in_flight, state.disposing) = (11, 2);
    (0..6).for_each(|task| state.queue.push(task));
    (0..7).for_each(|task| _ = state.enqueue_waiter(thread_entry(task)));
    state.counts = Counts {
        submitted: 101,
        completed: 102,
        panicked: 103,
        expired: 112,
        cancelled: 104,
        released: 105,
        refused: 106,
        started: 107,
        retired: 108,
        start_failures: 109,
        peak_live: 110,
        discarded: 113,
    };
    let shown = state.stats(111);
    assert_eq!((shown.capacity, shown.live), (Capacity::Limited(20), 20));
    assert_eq!((shown.busy, shown.idle, shown.ending), (8, 12, 0));
    assert_eq!((shown.in_flight, shown.queued, shown.waiting), (13, 6, 7));
    assert_eq!((shown.submitted, shown.completed), (101, 102));
    assert_eq!(
        (shown.panicked, shown.cancelled, shown.released),
        (103, 104, 105)
    );
    assert_eq!((shown.refused, shown.threads_started), (106, 107));
    assert_eq!((shown.threads_retired, shown.thread_failures), (108, 109));
    assert_eq!((shown.peak_live, shown.hook_panics), (110, 111));
    assert_eq!(shown.expired, 112);
    assert_eq!(shown.discarded, 113);
}

#[test]
fn a_worker_that_ends_the_last_task_of_a_released_pool_searches_on_for_a_permit() {
    for (workers, reserved, searches) in [(1, 0, false), (1, 1, true), (2, 1, false), (2, 5, false)]
    {
        let mut state = busy(workers, 9);
        (state.open, state.reserved) = (false, reserved);
        let (next, _) = section(|effects| state.finish(Outcome::Completed, false, effects));
        assert_eq!(matches!(next, Next::Search), searches);
        assert_eq!(matches!(next, Next::Leave), !searches);
    }
}

/// The sections that end the last permit.
type Goes = fn(&mut State<u32>, &mut Effects<u32>);
const PERMIT_GOES: [(&str, Goes); 4] = [
    ("used", |state, effects| state.redeem(7, effects)),
    ("dropped", State::give_back_room),
    ("passed to the queue", |state, effects| {
        state.pass_to_queue(Outcome::Completed, 7, effects);
    }),
    ("discarded", |state, effects| {
        state.discard_reserved(1, effects);
    }),
];

#[test]
fn a_worker_kept_by_a_permit_is_timed_again_in_the_section_of_the_last_one() {
    for (how, goes) in PERMIT_GOES {
        let mut state = state_of(builder(1, 9));
        let (cell, since) = (WorkerCell::new(0), Some(Instant::now()));
        (state.live, state.reserved) = (1, 2);
        state.idle.push(&cell, since);
        state.keep(&cell, since);
        state.reserved -= 1; // Another permit has gone: this one keeps the worker.
        assert!(!state.is_timed(&cell, since), "{how}");
        let mut effects = Effects::new();
        goes(&mut state, &mut effects);
        assert!(state.untimed.is_empty() && !effects.is_empty(), "{how}");
        effects.wake_threads();
    }
}

#[test]
fn a_members_load_falls_with_each_permit_that_is_not_used() {
    for (how, goes) in PERMIT_GOES {
        let mut state = busy(1, 9);
        let load_stats = Arc::new(LoadStats::new(1, 9));
        state.load_stats = Some(Arc::clone(&load_stats));
        load_stats.enter(); // The running task.
        state.reserve();
        assert_eq!(load_stats.in_flight(), 2, "{how}");
        let ((), _) = section(|effects| goes(&mut state, effects));
        let left = state.in_flight + state.reserved;
        assert_eq!(load_stats.in_flight(), left, "{how}");
    }
}
