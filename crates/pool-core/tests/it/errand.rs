//! Errands: tasks of a scheduler in the wait queue, which it may withdraw at any time.

use std::io;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::task::Poll;
use std::thread;

use pool_core::internals::{
    Entered, Outcome, PoolHandle, Queued, ReleaseListener, Resolve, ScheduledTask, TaskContext,
    TaskResult, plain_job,
};
use pool_core::{Pool, SubmitError};
use testkit::{Gate, PanicOnDrop};

use crate::support::{Journal, end, enter_line, hold, poll, pool, queueing, until, wait_in_line};

/// A closure as an errand.
struct Job {
    body: Mutex<Option<Box<dyn FnOnce() + Send>>>,
    resolved: AtomicUsize,
    released: AtomicBool,
}

impl Job {
    fn new(body: impl FnOnce() + Send + 'static) -> Arc<Self> {
        Arc::new(Self {
            body: Mutex::new(Some(Box::new(body))),
            resolved: AtomicUsize::new(0),
            released: AtomicBool::new(false),
        })
    }

    fn take(&self) -> Option<Box<dyn FnOnce() + Send>> {
        self.body.lock().unwrap().take()
    }

    fn resolved(&self) -> usize {
        self.resolved.load(SeqCst)
    }
}

impl ScheduledTask for Job {
    fn run(self: Arc<Self>, env: &TaskContext) -> TaskResult {
        let Some(body) = self.take() else {
            return TaskResult::new(Outcome::Cancelled, None);
        };
        let outcome = match env.execute("job", body) {
            Ok(()) => Outcome::Completed,
            Err(_) => Outcome::Panicked,
        };
        TaskResult::new(outcome, Some(self))
    }

    fn release(self: Arc<Self>) -> TaskResult {
        self.released.store(true, SeqCst);
        drop(self.take());
        TaskResult::new(Outcome::Released, Some(self))
    }
}

impl Resolve for Job {
    fn resolve(&self) {
        self.resolved.fetch_add(1, SeqCst);
    }
}

/// Enters the errand at a full pool.
fn enter(handle: &PoolHandle, job: &Arc<Job>) -> Queued {
    match handle.enter(Arc::clone(job) as _) {
        Entered::Waiting(ticket) => ticket,
        _ => panic!("the errand was not queued"),
    }
}

#[testkit::test]
fn an_errand_with_room_runs_and_is_resolved_once() {
    let pool = pool(1);
    let journal = Journal::new();
    let job = Job::new(journal.writer("job"));
    assert!(matches!(
        PoolHandle::of(&pool).enter(Arc::clone(&job) as _),
        Entered::Accepted
    ));
    pool.wait_idle().unwrap();
    until(|| job.resolved() == 1);
    assert_eq!(journal.entries(), ["job"]);
    assert_eq!((pool.stats().submitted, pool.stats().completed), (1, 1));
}

#[testkit::test]
fn the_figures_show_the_end_when_an_errand_is_resolved() {
    struct Looks(Pool, Mutex<Option<u64>>);
    impl ScheduledTask for Looks {
        fn run(self: Arc<Self>, env: &TaskContext) -> TaskResult {
            env.execute("looks", || {}).unwrap();
            TaskResult::new(Outcome::Completed, Some(self))
        }
        fn release(self: Arc<Self>) -> TaskResult {
            TaskResult::new(Outcome::Released, None)
        }
    }
    impl Resolve for Looks {
        fn resolve(&self) {
            *self.1.lock().unwrap() = Some(self.0.stats().completed);
        }
    }
    let pool = pool(1);
    let looks = Arc::new(Looks(pool.clone(), Mutex::new(None)));
    PoolHandle::of(&pool).enter(Arc::clone(&looks) as _);
    until(|| looks.1.lock().unwrap().is_some());
    assert_eq!(*looks.1.lock().unwrap(), Some(1));
    end(&pool);
}

#[testkit::test]
fn errands_threads_and_futures_wait_in_one_queue_in_order() {
    let pool = pool(1);
    let (handle, gate) = (PoolHandle::of(&pool), hold(&pool, 1));
    let journal = Journal::new();
    let (mut threads, mut futures, mut tickets) = (Vec::new(), Vec::new(), Vec::new());
    for number in 0..9 {
        let task = journal.writer(number);
        match number % 3 {
            0 => threads.push(wait_in_line(&pool, task)),
            1 => tickets.push(enter(&handle, &Job::new(task))),
            _ => {
                let mut future = pool.submit_async(task);
                assert!(poll(&mut future).is_pending());
                futures.push(future);
            }
        }
        assert_eq!(pool.waiting(), number + 1);
    }
    gate.open();
    for thread in threads {
        thread.join().unwrap().unwrap();
    }
    pool.wait_idle().unwrap();
    assert!(journal.entries().into_iter().eq(0..9));
    assert!(tickets.iter().all(|ticket| !ticket.is_returned()));
    drop(tickets);
    assert_eq!((pool.waiting(), pool.stats().refused), (0, 0));
}

#[testkit::test]
fn an_errand_waits_even_if_submits_may_not_wait() {
    let builder = Pool::builder().capacity(1).nonblocking(true).max_waiting(0);
    let pool = builder.build().unwrap();
    let (handle, gate) = (PoolHandle::of(&pool), hold(&pool, 1));
    let journal = Journal::new();
    let tickets: Vec<_> = (0..3)
        .map(|number| enter(&handle, &Job::new(journal.writer(number))))
        .collect();
    assert_eq!(pool.waiting(), 3);
    gate.open();
    pool.wait_idle().unwrap();
    assert!(journal.entries().into_iter().eq(0..3));
    drop(tickets);
}

#[testkit::test]
fn waiting_errands_do_not_count_toward_the_limit_on_waiters() {
    let pool = Pool::builder().capacity(1).max_waiting(1).build().unwrap();
    let (handle, gate) = (PoolHandle::of(&pool), hold(&pool, 1));
    let journal = Journal::new();
    let first = enter(&handle, &Job::new(journal.writer("errand")));
    let gone = enter(&handle, &Job::new(journal.writer("gone")));
    let thread = wait_in_line(&pool, journal.writer("thread"));
    assert!(matches!(pool.submit(|| ()), Err(SubmitError::Full(_))));
    drop(gone); // A withdrawn errand does not change the count of waiters.
    assert!(matches!(pool.submit(|| ()), Err(SubmitError::Full(_))));
    let last = enter(&handle, &Job::new(journal.writer("last")));
    gate.open();
    thread.join().unwrap().unwrap();
    pool.wait_idle().unwrap();
    assert_eq!(journal.entries(), ["errand", "thread", "last"]);
    // No withdrawn errand is still counted.
    let gate = hold(&pool, 1);
    let thread = wait_in_line(&pool, || ());
    assert!(matches!(pool.submit(|| ()), Err(SubmitError::Full(_))));
    gate.open();
    thread.join().unwrap().unwrap();
    drop((first, last));
}

#[testkit::test]
fn dropping_a_ticket_withdraws_its_waiting_errand() {
    let pool = pool(1);
    let (handle, gate) = (PoolHandle::of(&pool), hold(&pool, 1));
    let journal = Journal::new();
    let before = wait_in_line(&pool, journal.writer("before"));
    let job = Job::new(journal.writer("errand"));
    let ticket = enter(&handle, &job);
    let after = wait_in_line(&pool, journal.writer("after"));
    assert_eq!((pool.waiting(), Arc::strong_count(&job)), (3, 2));
    drop(ticket);
    assert_eq!((pool.waiting(), Arc::strong_count(&job)), (2, 1));
    gate.open();
    before.join().unwrap().unwrap();
    after.join().unwrap().unwrap();
    pool.wait_idle().unwrap();
    assert_eq!(journal.entries(), ["before", "after"]);
    let stats = pool.stats();
    assert_eq!(
        (stats.submitted, stats.refused),
        (3, 0),
        "no call was refused"
    );
}

#[testkit::test]
fn dropping_a_ticket_whose_errand_was_accepted_changes_nothing() {
    let pool = pool(1);
    let (handle, first, second) = (PoolHandle::of(&pool), hold(&pool, 1), Gate::new());
    let held = second.clone();
    let ticket = enter(&handle, &Job::new(move || held.wait()));
    first.open();
    second.wait_for_arrivals(1);
    drop(ticket);
    second.open();
    pool.wait_idle().unwrap();
    assert_eq!((pool.stats().completed, pool.stats().refused), (2, 0));
}

#[testkit::test]
fn a_queued_errand_that_is_withdrawn_counts_as_cancelled() {
    let pool = queueing(1);
    let gate = hold(&pool, 1);
    let job = Job::new(|| unreachable!("it was taken back"));
    assert!(matches!(
        PoolHandle::of(&pool).enter(Arc::clone(&job) as _),
        Entered::Accepted
    ));
    drop(job.take());
    gate.open();
    pool.wait_idle().unwrap();
    assert_eq!((pool.stats().cancelled, pool.stats().completed), (1, 1));
    assert_eq!(job.resolved(), 0);
}

#[testkit::test]
fn a_panicking_errand_is_counted_and_reported_to_the_hook() {
    let journal = Journal::new();
    let hook = journal.clone();
    let pool = Pool::builder()
        .capacity(1)
        .panic_hook(move |panic| hook.write(panic.message().unwrap().to_owned()))
        .build()
        .unwrap();
    let job = Job::new(|| panic!("oh no"));
    PoolHandle::of(&pool).enter(Arc::clone(&job) as _);
    until(|| job.resolved() == 1);
    assert_eq!(journal.entries(), ["oh no"]);
    assert_eq!((pool.stats().panicked, pool.running()), (1, 1));
}

#[testkit::test]
fn a_release_returns_waiting_errands_and_runs_accepted_ones() {
    let pool = queueing(1);
    let (handle, gate) = (PoolHandle::of(&pool), hold(&pool, 1));
    let journal = Journal::new();
    handle.enter(Job::new(journal.writer("accepted")) as _);
    let waits = Job::new(journal.writer("waits"));
    let ticket = enter(&handle, &waits);
    pool.release();
    assert!(ticket.is_returned());
    drop(ticket);
    assert_eq!(Arc::strong_count(&waits), 1);
    let late = Job::new(journal.writer("late"));
    assert!(matches!(
        handle.enter(Arc::clone(&late) as _),
        Entered::Released
    ));
    assert_eq!(Arc::strong_count(&late), 1);
    gate.open();
    pool.wait_released().unwrap();
    assert_eq!(journal.entries(), ["accepted"]);
    assert_eq!(pool.stats().refused, 2);
}

#[testkit::test]
fn release_now_releases_accepted_errands() {
    let pool = queueing(1);
    let gate = hold(&pool, 1);
    let job = Job::new(|| unreachable!("it was released"));
    PoolHandle::of(&pool).enter(Arc::clone(&job) as _);
    assert_eq!(pool.release_now(), 1);
    assert!(job.released.load(SeqCst));
    assert_eq!((job.resolved(), pool.stats().released), (1, 1));
    gate.open();
}

#[testkit::test]
fn an_errand_is_refused_uncounted_if_there_is_no_worker_and_no_thread() {
    let refusals = AtomicUsize::new(1);
    let pool = Pool::builder()
        .capacity(1)
        .thread_gate(move || {
            let refused = refusals.fetch_update(SeqCst, SeqCst, |left| left.checked_sub(1));
            refused.map_or(Ok(()), |_| Err(io::Error::other("none left")))
        })
        .build()
        .unwrap();
    let journal = Journal::new();
    let job = Job::new(journal.writer("job"));
    let refused = PoolHandle::of(&pool).enter(Arc::clone(&job) as _);
    assert!(matches!(refused, Entered::NoThread(_)));
    assert_eq!((Arc::strong_count(&job), pool.stats().refused), (1, 0));
    assert_eq!(pool.stats().thread_failures, 1);
    assert!(matches!(
        PoolHandle::of(&pool).enter(job as _),
        Entered::Accepted
    ));
    pool.wait_idle().unwrap();
    assert_eq!(journal.entries(), ["job"]);
}

/// A watch that counts its calls and calls back.
struct Told(AtomicUsize, Box<dyn Fn() + Send + Sync>);

impl ReleaseListener for Told {
    fn released(&self) {
        self.0.fetch_add(1, SeqCst);
        (self.1)();
    }
}

fn watch(pool: &Pool, call: impl Fn() + Send + Sync + 'static) -> Arc<Told> {
    let told = Arc::new(Told(AtomicUsize::new(0), Box::new(call)));
    let watch = Arc::clone(&told) as Arc<dyn ReleaseListener>;
    let handle = PoolHandle::of(pool);
    assert!(handle.on_release(Arc::downgrade(&watch), handle.generation()));
    told
}

#[testkit::test]
fn a_watch_is_called_once_per_release_and_without_locks() {
    let pool = pool(1);
    let inside = pool.clone();
    let told = watch(&pool, move || assert!(inside.is_released()));
    let gone = watch(&pool, || ());
    drop(gone);
    assert_eq!(told.0.load(SeqCst), 0);
    assert!(pool.release());
    assert!(!pool.release());
    assert_eq!(told.0.load(SeqCst), 1);
    let late = Arc::clone(&told) as Arc<dyn ReleaseListener>;
    let handle = PoolHandle::of(&pool);
    assert!(!handle.on_release(Arc::downgrade(&late), handle.generation()));
    assert!(pool.reboot());
    pool.release_now();
    assert_eq!(told.0.load(SeqCst), 1, "it asked for one release");
}

#[testkit::test]
fn the_drop_of_the_last_handle_calls_watches() {
    let pool = pool(1);
    let told = watch(&pool, || ());
    drop(pool);
    assert_eq!(told.0.load(SeqCst), 1);
}

#[testkit::test]
fn a_panicking_watch_does_not_affect_the_release_or_other_watches() {
    let pool = pool(1);
    let first = watch(&pool, || drop(PanicOnDrop::new()));
    let second = watch(&pool, || ());
    pool.submit(|| ()).unwrap();
    pool.release();
    assert_eq!((first.0.load(SeqCst), second.0.load(SeqCst)), (1, 1));
    pool.wait_released().unwrap();
}

#[testkit::test]
fn a_submit_behind_a_withdrawn_errand_gets_the_errands_room() {
    let pool = pool(1);
    for _ in 0..100 {
        let gate = hold(&pool, 1);
        let ticket = enter(&PoolHandle::of(&pool), &Job::new(|| ()));
        let thread = enter_line(&pool, |pool| pool.submit(|| ()));
        let dropper = thread::spawn(move || drop(ticket));
        gate.open();
        thread.join().unwrap().unwrap();
        dropper.join().unwrap();
        pool.wait_idle().unwrap();
        assert_eq!(pool.waiting(), 0);
    }
    assert!(matches!(
        poll(&mut pool.submit_async(|| ())),
        Poll::Ready(Ok(()))
    ));
}

#[testkit::test]
fn jobs_that_line_up_wait_in_order_and_are_no_callers() {
    let (pool, journal) = (pool(1), Journal::new());
    let (handle, gate) = (PoolHandle::of(&pool), hold(&pool, 1));
    handle.line_up(plain_job(journal.writer("first"))).unwrap();
    let second = wait_in_line(&pool, journal.writer("second"));
    handle.line_up(plain_job(journal.writer("third"))).unwrap();
    assert_eq!(pool.waiting(), 3);
    gate.open();
    second.join().unwrap().unwrap();
    pool.wait_idle().unwrap();
    assert_eq!(journal.entries(), ["first", "second", "third"]);
    assert_eq!(pool.stats().refused, 0);
}

#[testkit::test]
fn a_release_accepts_the_waiting_jobs_that_continue_tasks() {
    let (pool, journal) = (pool(1), Journal::new());
    let (handle, gate) = (PoolHandle::of(&pool), hold(&pool, 1));
    handle.line_up(plain_job(journal.writer("next"))).unwrap();
    pool.release();
    gate.open();
    pool.wait_released().unwrap();
    assert_eq!(journal.entries(), ["next"]);
    assert_eq!(pool.stats().refused, 0, "it is no call");
}

#[testkit::test]
fn a_released_pool_accepts_what_continues_a_task_until_it_discards_or_has_ended() {
    let (pool, journal) = (pool(1), Journal::new());
    let handle = PoolHandle::of(&pool);
    let lines_up = |handle: &PoolHandle| match handle.line_up(plain_job(journal.writer("runs"))) {
        Ok(()) => true,
        Err(SubmitError::Released(())) => false,
        Err(other) => panic!("{other:?}"),
    };
    let gate = hold(&pool, 1);
    pool.release();
    assert!(lines_up(&handle));
    gate.open();
    pool.wait_released().unwrap();
    assert_eq!(journal.entries(), ["runs"]);
    assert!(!lines_up(&handle), "it has ended");
    assert!(pool.reboot());
    let gate = hold(&pool, 1);
    pool.release_now();
    assert!(!lines_up(&handle), "it drops tasks that have not started");
    gate.open();
    pool.wait_released().unwrap();
    assert_eq!(journal.entries(), ["runs"]);
}
