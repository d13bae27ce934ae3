//! A task hook is called for the tasks of scopes and mappings, and not for the drain tasks that run
//! them.

use std::time::Duration;

use pool_core::{ManualClock, Pool, TaskEnd, TaskHook};
use pool_util::PoolExt;

use crate::support::Journal;

const SECOND: Duration = Duration::from_secs(1);

/// Records the type name and the queue time of each ended task.
struct Ends(Journal<(&'static str, Option<Duration>)>);

impl TaskHook for Ends {
    fn after(&self, task: &TaskEnd<'_>) {
        self.0.write((task.task(), task.queued()));
    }
}

#[testkit::test]
fn a_task_hook_gets_the_queue_time_of_scoped_tasks() {
    let (clock, journal) = (ManualClock::new(), Journal::new());
    let pool = Pool::builder().capacity(1).keep_alive(None);
    let pool = pool
        .clock(clock.clone())
        .task_hook(Ends(journal.clone()))
        .start_paused(true);
    let pool = pool.build().unwrap();
    pool.scope(|scope| {
        scope.submit(|| ());
        let spawned = scope.spawn(|| 3);
        clock.advance(SECOND);
        pool.resume();
        assert_eq!(spawned.join().unwrap(), 3);
    });
    pool.wait_idle().unwrap();
    let entries = journal.entries();
    let waited = entries.iter().filter(|(_, queued)| *queued == Some(SECOND));
    assert!(waited.count() >= 2, "{entries:?}");
}

#[testkit::test]
fn a_task_hook_is_not_called_for_drain_tasks() {
    let journal = Journal::new();
    let pool = Pool::builder().capacity(2).task_hook(Ends(journal.clone()));
    let pool = pool.build().unwrap();
    let mapped: Result<Vec<_>, _> = pool.map(0..20, |n| n).collect();
    assert_eq!(mapped.unwrap().len(), 20);
    pool.scope(|scope| (0..10).for_each(|_| scope.submit(|| ())));
    pool.wait_idle().unwrap();
    let seen = journal.entries();
    assert_eq!(seen.len(), 30, "{seen:?}");
    assert_eq!(pool.stats().panicked, 0);
}
