//! A pool and its model, compared step by step.
//!
//! Shared with the fuzz target of the same name. A task acts only as a step says, so after each step there is one state
//! in which nothing goes on. The walk waits until the pool is in that state.

mod model;
pub(crate) mod program;

use std::future::Future;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::pin::Pin;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::sync::{Arc, Mutex};
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use async_pool::{
    AsyncPool, Capacity, Clock, JoinError, JoinHandle, ManualClock, Permit, Sleep, SubmitError,
    sleep_until,
};

use model::{Asked, Figures, Model, Outcome, Place, Wait};
use program::{Act, How, Op, Settings};

/// Carries out each step on both, and compares their answers and states.
pub(crate) fn walk(settings: Settings, ops: &[Op]) {
    let clock = ManualClock::new();
    let pool = AsyncPool::builder()
        .workers(settings.workers)
        .capacity(settings.capacity)
        .queue_depth(settings.depth)
        .max_waiting(settings.max_waiting)
        .clock(clock.clone())
        .build()
        .unwrap();
    let mut pair = Pair {
        start: clock.now(),
        clock,
        pool,
        model: Model::new(settings),
        tasks: Vec::new(),
        permits: Vec::new(),
        waits: Vec::new(),
    };
    for op in ops {
        pair.step(*op);
        pair.compare(&format!("after {op:?}"));
    }
    pair.end();
}

/// State shared by a task's future and the walk.
#[derive(Default)]
struct Control {
    act: Mutex<(Option<Act>, Option<Waker>)>,
    drops: AtomicUsize,
}

impl Control {
    fn wake(&self, act: Option<Act>) {
        let waker = {
            let mut shared = self.act.lock().unwrap();
            shared.0 = act.or(shared.0);
            shared.1.take()
        };
        if let Some(waker) = waker {
            waker.wake();
        }
    }
}

struct Work {
    control: Arc<Control>,
    start: Instant,
    sleep: Option<Sleep>,
    panics_in_drop: bool,
}

impl Future for Work {
    type Output = u8;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<u8> {
        let act = {
            let mut shared = self.control.act.lock().unwrap();
            shared.1 = Some(context.waker().clone());
            shared.0.unwrap_or(Act::Wait)
        };
        match act {
            Act::Wait => Poll::Pending,
            Act::Finish => Poll::Ready(7),
            // Without the panic hook, which ends a fuzz target.
            Act::Panic => resume_unwind(Box::new("as told")),
            Act::SleepUntil(seconds) => {
                let when = self.start + Duration::from_secs(seconds);
                let sleep = self.sleep.get_or_insert_with(|| sleep_until(when));
                Pin::new(sleep).poll(context).map(|()| 7)
            }
        }
    }
}

impl Drop for Work {
    fn drop(&mut self) {
        self.control.drops.fetch_add(1, SeqCst);
        if self.panics_in_drop && !std::thread::panicking() {
            resume_unwind(Box::new("in drop, as told"));
        }
    }
}

type Refused = SubmitError<Work>;

/// A future that waits for room, with the task that it brings.
enum Waiting {
    Submit(Box<dyn Future<Output = Result<(), Refused>> + Unpin>, usize),
    Spawn(
        Box<dyn Future<Output = Result<JoinHandle<u8>, Refused>> + Unpin>,
        usize,
    ),
    Reserve(Box<dyn Future<Output = Result<Permit<async_pool::Futures>, SubmitError>> + Unpin>),
}

struct Pair {
    clock: ManualClock,
    start: Instant,
    pool: AsyncPool,
    model: Model,
    tasks: Vec<(Arc<Control>, Option<JoinHandle<u8>>)>,
    permits: Vec<Permit<async_pool::Futures>>,
    /// With their numbers in the model. `None` in place of a wait that is over.
    waits: Vec<(Waiting, usize)>,
}

fn poll<F: Future + Unpin>(future: &mut F) -> Poll<F::Output> {
    Pin::new(future).poll(&mut Context::from_waker(Waker::noop()))
}

/// Drops what may panic as told.
fn discard<T>(value: T) {
    _ = catch_unwind(AssertUnwindSafe(|| drop(value)));
}

fn answer<T>(result: &Result<T, Refused>) -> Asked {
    match result {
        Ok(_) => Asked::Accepted,
        Err(SubmitError::Full(_) | SubmitError::TimedOut(_)) => Asked::Full,
        Err(SubmitError::Released(_)) => Asked::Released,
        Err(other) => panic!("{other:?}"),
    }
}

impl Pair {
    fn step(&mut self, op: Op) {
        match op {
            Op::Put {
                how,
                has_handle,
                panics_in_drop,
            } => self.put(how, has_handle, panics_in_drop),
            Op::Reserve(how) => self.reserve(how),
            Op::UsePermit(at) => {
                if let Some(permit) = pick(&mut self.permits, at) {
                    let (task, work) = self.work(false);
                    self.tasks[task].1 = Some(permit.spawn(work));
                    self.model.use_permit(task);
                }
            }
            Op::DropPermit(at) => {
                if let Some(permit) = pick(&mut self.permits, at) {
                    drop(permit);
                    self.model.drop_permit();
                }
            }
            Op::PollWait(at) => self.poll_wait(at),
            Op::DropWait(at) => {
                if let Some((waiting, number)) = pick(&mut self.waits, at) {
                    let is_for_permit = matches!(waiting, Waiting::Reserve(_));
                    discard(waiting);
                    self.model.drop_wait(number, is_for_permit);
                }
            }
            Op::Act(at, act) => {
                if let Some(task) = index(at, self.tasks.len()) {
                    // A task that sleeps keeps doing so.
                    if self.model.tasks[task].act == Act::Wait {
                        self.model.tasks[task].act = act;
                        self.tasks[task].0.wake(Some(act));
                        self.model.settle();
                    }
                }
            }
            Op::Nudge(at) => {
                if let Some(task) = index(at, self.tasks.len()) {
                    self.tasks[task].0.wake(None);
                }
            }
            Op::Cancel(at) => {
                if let Some(task) = index(at, self.tasks.len())
                    && let Some(handle) = &self.tasks[task].1
                {
                    handle.cancel();
                    self.model.cancel(task);
                }
            }
            Op::DropHandle { at, cancels } => {
                if let Some(task) = index(at, self.tasks.len())
                    && let Some(handle) = self.tasks[task].1.take()
                {
                    if cancels {
                        drop(handle.cancel_on_drop());
                        self.model.cancel(task);
                    } else {
                        drop(handle);
                    }
                }
            }
            Op::Join(at) => {
                if let Some(task) = index(at, self.tasks.len()) {
                    self.join(task);
                }
            }
            Op::Advance(seconds) => {
                self.model.now += seconds;
                self.clock.advance(Duration::from_secs(seconds));
                self.model.settle();
            }
            Op::Tune(capacity) => {
                self.pool.tune(capacity).unwrap();
                self.model.tune(capacity);
            }
            Op::Release => assert_eq!(self.pool.release(), self.model.release()),
            Op::ReleaseNow => {
                self.pool.release_now();
                self.model.release_now();
            }
            Op::Reboot => assert_eq!(self.pool.reboot().unwrap(), self.model.reboot()),
        }
        self.model.settle();
    }

    fn work(&mut self, panics_in_drop: bool) -> (usize, Work) {
        let control = Arc::<Control>::default();
        self.tasks.push((Arc::clone(&control), None));
        let work = Work {
            control,
            start: self.start,
            sleep: None,
            panics_in_drop,
        };
        (self.model.add_task(panics_in_drop), work)
    }

    fn put(&mut self, how: How, has_handle: bool, panics_in_drop: bool) {
        let (task, work) = self.work(panics_in_drop);
        let asked = match (how, has_handle) {
            (How::Try, false) => answer_of(self.pool.try_submit(work)),
            (How::NoTime, false) => answer_of(self.pool.submit_timeout(work, self.start)),
            (How::Try, true) => self.keep(task, |pool| pool.try_spawn(work)),
            (How::NoTime, true) => {
                let start = self.start;
                self.keep(task, |pool| pool.spawn_timeout(work, start))
            }
            (How::Async, false) => {
                let mut wait = self.pool.submit_async(work);
                match poll(&mut wait) {
                    Poll::Ready(result) => answer_of(result),
                    Poll::Pending => return self.enter(Waiting::Submit(Box::new(wait), task)),
                }
            }
            (How::Async, true) => {
                let mut wait = self.pool.spawn_async(work);
                match poll(&mut wait) {
                    Poll::Ready(result) => self.keep(task, |_| result),
                    Poll::Pending => return self.enter(Waiting::Spawn(Box::new(wait), task)),
                }
            }
        };
        let expected = self.model.ask(Some(task));
        if how == How::Async && expected == Asked::Full {
            assert!(!self.model.has_queue_room());
        }
        if expected != Asked::Accepted {
            self.model.refuse();
        }
        assert_eq!(asked, expected);
    }

    fn keep(
        &mut self,
        task: usize,
        spawn: impl FnOnce(&AsyncPool) -> Result<JoinHandle<u8>, Refused>,
    ) -> Asked {
        let result = spawn(&self.pool);
        let asked = answer(&result);
        match result {
            Ok(handle) => self.tasks[task].1 = Some(handle),
            Err(refused) => discard(refused),
        }
        asked
    }

    fn enter(&mut self, waiting: Waiting) {
        let task = match &waiting {
            Waiting::Submit(_, task) | Waiting::Spawn(_, task) => Some(*task),
            Waiting::Reserve(_) => None,
        };
        assert_eq!(self.model.ask(task), Asked::Full);
        assert!(self.model.has_queue_room());
        let number = self.model.wait(task);
        self.waits.push((waiting, number));
    }

    fn reserve(&mut self, how: How) {
        let result = match how {
            How::Try => self.pool.try_reserve(),
            How::NoTime => self.pool.reserve_timeout(self.start),
            How::Async => {
                let mut wait = self.pool.reserve_async();
                match poll(&mut wait) {
                    Poll::Ready(result) => result,
                    Poll::Pending => return self.enter(Waiting::Reserve(Box::new(wait))),
                }
            }
        };
        let expected = self.model.ask(None);
        match result {
            Ok(permit) => {
                self.permits.push(permit);
                assert_eq!(expected, Asked::Accepted);
            }
            Err(refused) => {
                self.model.refuse();
                assert_eq!(refused.is_released(), expected == Asked::Released);
                assert_ne!(expected, Asked::Accepted);
            }
        }
    }

    fn poll_wait(&mut self, at: usize) {
        let Some(at) = index(at, self.waits.len()) else {
            return;
        };
        let (waiting, number) = &mut self.waits[at];
        let expected = self.model.waits[*number];
        let found = match waiting {
            Waiting::Submit(wait, _) => poll(wait).map(|result| {
                let is_accepted = result.is_ok();
                discard(result);
                is_accepted
            }),
            Waiting::Spawn(wait, task) => poll(wait).map(|result| match result {
                Ok(handle) => {
                    self.tasks[*task].1 = Some(handle);
                    true
                }
                Err(refused) => {
                    discard(refused);
                    false
                }
            }),
            Waiting::Reserve(wait) => poll(wait).map(|result| match result {
                Ok(permit) => {
                    self.permits.push(permit);
                    true
                }
                Err(_) => false,
            }),
        };
        match found {
            Poll::Pending => assert_eq!(expected, Wait::InQueue),
            Poll::Ready(true) => assert_eq!(expected, Wait::Served),
            Poll::Ready(false) => assert_eq!(expected, Wait::Returned),
        }
        if found.is_ready() {
            discard(self.waits.swap_remove(at));
        }
    }

    /// Takes the outcome of a task that has ended in the model.
    fn join(&mut self, task: usize) {
        let Place::Ended(outcome) = self.model.tasks[task].place else {
            return;
        };
        let Some(handle) = self.tasks[task].1.take() else {
            return;
        };
        let joined = handle.join();
        let is_expected = match &joined {
            Ok(value) => outcome == Outcome::Value && *value == 7,
            Err(JoinError::Panicked(_)) => outcome == Outcome::Panicked,
            Err(JoinError::Cancelled) => outcome == Outcome::Cancelled,
            Err(JoinError::Released) => outcome == Outcome::Released,
            Err(_) => false,
        };
        assert!(is_expected, "{joined:?} instead of {outcome:?}");
    }

    fn figures(&self) -> Figures {
        let stats = self.pool.stats();
        assert!(stats.peak_live <= self.model.most, "{stats:?}");
        assert!(stats.live <= self.model.most, "{stats:?}");
        Figures {
            capacity: match stats.capacity {
                Capacity::Limited(capacity) => capacity,
                Capacity::Unlimited => usize::MAX,
            },
            live: stats.live,
            queued: stats.queued,
            reserved: stats.reserved,
            waiting: stats.waiting,
            submitted: stats.submitted,
            completed: stats.completed,
            panicked: stats.panicked,
            cancelled: stats.cancelled,
            released: stats.released,
            refused: stats.refused,
        }
    }

    /// Waits until the pool is in the state of the model.
    fn compare(&self, when: &str) {
        let begin = Instant::now();
        while self.figures() != self.model.figures {
            if begin.elapsed() > Duration::from_secs(10) {
                assert_eq!(self.figures(), self.model.figures, "{when}");
            }
            std::thread::yield_now();
        }
        for (task, (control, handle)) in self.tasks.iter().enumerate() {
            let (place, drops) = (self.model.tasks[task].place, control.drops.load(SeqCst));
            match place {
                Place::Ended(_) => assert_eq!(drops, 1, "task {task} {when}"),
                Place::Pending | Place::Live => assert_eq!(drops, 0, "task {task} {when}"),
                Place::Outside => assert!(drops <= 1, "task {task} {when}"),
            }
            if let Some(handle) = handle
                && !matches!(place, Place::Ended(_))
            {
                assert!(!handle.is_finished(), "task {task} {when}");
            }
        }
    }

    /// Ends the pool. Nothing is left of any task.
    fn end(mut self) {
        while let Some((waiting, number)) = self.waits.pop() {
            let is_for_permit = matches!(waiting, Waiting::Reserve(_));
            discard(waiting);
            self.model.drop_wait(number, is_for_permit);
            self.compare("after a wait was dropped");
        }
        while self.permits.pop().is_some() {
            self.model.drop_permit();
            self.compare("after a permit was dropped");
        }
        self.pool.release_now();
        self.model.release_now();
        self.pool.wait_released().unwrap();
        self.compare("at the end");
        for task in 0..self.tasks.len() {
            self.join(task);
        }
        for (control, _) in &self.tasks {
            assert_eq!(control.drops.load(SeqCst), 1);
            assert_eq!(Arc::strong_count(control), 1, "a cycle keeps a future");
        }
        let figures = self.model.figures;
        let ended = figures.completed + figures.panicked + figures.cancelled + figures.released;
        assert_eq!((figures.submitted, figures.live), (ended, 0));
    }
}

fn answer_of<T>(result: Result<T, Refused>) -> Asked {
    let asked = answer(&result);
    discard(result);
    asked
}

fn index(at: usize, len: usize) -> Option<usize> {
    at.checked_rem(len)
}

fn pick<T>(list: &mut Vec<T>, at: usize) -> Option<T> {
    index(at, list.len()).map(|at| list.swap_remove(at))
}
