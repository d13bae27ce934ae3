//! Futures of calls that block, and the threads that make these calls.
//!
//! The calls of a store block on purpose. So an async call is made by a **call thread**: at most
//! [`CALL_THREADS`] for all queues with the same [`Threads`](crate::Threads), started on demand, ended after [`CALL_KEEP_ALIVE`] without a call.
//!
//! # Invariants
//! 1. While a job waits, a thread will look for it: each job wakes an idle thread or starts one, and each thread
//!    looks after each job, and before it sleeps or ends.
//! 2. Each job is called until it asks for no more, or withdrawn before its first call. If no thread exists and
//!    none can be started, it is called once with that error.
//! 3. After the last handle of the last queue is dropped, idle threads end at once.

use std::collections::BTreeMap;
use std::fmt;
use std::future::{Future, poll_fn};
use std::mem;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake};
use std::time::Duration;

use sync_shim::foreign::{discard, guarded};
use sync_shim::thread::{ThreadOptions, spawn_service};
use sync_shim::waiter::Waiter;
use sync_shim::{Clock, Mutex, Parker, Process};

use crate::error::{ErrorKind, Result, StoreError};
use crate::threads::clock::SharedClock;
use crate::threads::reply::Reply;

/// Maximum number of threads of a [`Threads`](crate::Threads) that make async calls. More than one, so that a call whose connection
/// hangs does not block all others.
pub const CALL_THREADS: usize = 2;

/// How long a thread for async calls waits for the next call before it ends.
pub const CALL_KEEP_ALIVE: Duration = Duration::from_secs(10);

/// Future of a call of the store: see [`DurableQueue::push_async`](crate::DurableQueue::push_async).
///
/// It can be polled by any runtime. The call is requested by the first poll: a future that is never polled does
/// nothing. A thread of the queue's [`Threads`](crate::Threads) makes the call, so no poll blocks. A panic of the store is an error of the
/// kind [`ErrorKind::Other`] which [may have been carried out](StoreError::carried_out).
///
/// Dropping the future before its call has started withdraws the call: nothing is pushed or changed. Afterwards
/// the call is carried out, and its result is lost. The caller cannot tell which. A program that drops futures,
/// for example by a timeout, and then repeats the push should use a key
/// ([`push_keyed_async`](crate::DurableQueue::push_keyed_async)), so that the repetition creates no second job.
///
/// It does not keep the queue open.
///
/// # Panics
/// If it is polled again after it was ready.
#[must_use = "a future does nothing until it is polled"]
pub struct CallFuture<T>(Pin<Box<dyn Future<Output = T> + Send>>);

impl<T> CallFuture<T> {
    pub(crate) fn new(call: impl Future<Output = T> + Send + 'static) -> Self {
        Self(Box::pin(call))
    }
}

impl<T> Future for CallFuture<T> {
    type Output = T;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<T> {
        self.0.as_mut().poll(context)
    }
}

impl<T> fmt::Debug for CallFuture<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CallFuture").finish_non_exhaustive()
    }
}

/// Identifies a queued call. Later calls have greater tickets.
pub(crate) type Ticket = u64;

/// Queued calls.
pub(crate) trait Line: Sync {
    /// Removes a call that has not been started.
    fn withdraw(&self, ticket: Ticket);
}

/// Waits for the answer to the queued call `ticket`. Dropped before that, it withdraws the call.
pub(crate) async fn answer_of<R: Clone>(
    reply: &Reply<Result<R>>,
    line: &dyn Line,
    ticket: Ticket,
) -> Result<R> {
    struct Withdraws<'a> {
        line: &'a dyn Line,
        ticket: Ticket,
        process: Process,
    }
    impl Drop for Withdraws<'_> {
        fn drop(&mut self) {
            if self.process.is_current() {
                self.line.withdraw(self.ticket);
            }
        }
    }
    let process = Process::current();
    let withdraws = Withdraws {
        line,
        ticket,
        process,
    };
    let answer = poll_fn(|context| {
        // In a forked child no answer comes, and the fork may have left the lock held.
        process.check(StoreError::new(ErrorKind::Forked))?;
        // USER CODE: the waker's clone. Before the lock is taken. A panic is the poller's, and withdraws the call.
        reply.look(Waiter::Task(context.waker().clone()))
    });
    let answer = answer.await;
    mem::forget(withdraws); // It has been started.
    answer
}

/// As a waker, it gives the answer.
impl Wake for Reply<()> {
    fn wake(self: Arc<Self>) {
        self.give(());
    }
}

/// Called on a call thread, or with an error if no thread can be started. Returns whether it is to be called
/// again, after the other waiting jobs.
pub(crate) type Job = Box<dyn FnMut(Result<()>) -> bool + Send>;

/// The threads that make the async calls of queues.
pub(crate) struct CallThreads {
    process: Process,
    clock: SharedClock,
    state: Mutex<State>,
    #[cfg(test)]
    pub(crate) refuses: sync_shim::atomic::AtomicBool,
}

#[derive(Default)]
struct State {
    waiting: BTreeMap<Ticket, Job>,
    next: Ticket,
    /// Sleeping threads that were not woken, each with its number. The last one has slept for the shortest time.
    idle: Vec<(Ticket, Parker)>,
    /// Including threads that are being started.
    live: usize,
    /// Number of queues with handles.
    queues: usize,
}

/// A step of a call thread.
enum Step {
    Call(Job),
    Sleep,
    End,
}

impl CallThreads {
    pub(crate) fn new(clock: SharedClock) -> Arc<Self> {
        Arc::new(Self {
            process: Process::current(),
            clock,
            state: Mutex::new(State::default()),
            #[cfg(test)]
            refuses: sync_shim::atomic::AtomicBool::new(false),
        })
    }

    /// Adds a job, and wakes or starts a thread for it. No lock may be held, because the job is called here if no
    /// thread can be started.
    pub(crate) fn submit(self: &Arc<Self>, job: Job) -> Ticket {
        let (ticket, woken, starts) = {
            let mut state = self.state.lock();
            let ticket = state.enqueue(job);
            let woken = state.idle.pop();
            let starts = woken.is_none() && state.live < CALL_THREADS;
            state.live += usize::from(starts);
            (ticket, woken, starts)
        };
        if let Some((_, parker)) = woken {
            parker.unpark();
        }
        if starts && let Err(error) = self.start() {
            self.refuse(error);
        }
        ticket
    }

    fn start(self: &Arc<Self>) -> std::io::Result<()> {
        #[cfg(test)]
        if self.refuses.load(sync_shim::atomic::Ordering::SeqCst) {
            return Err(std::io::Error::other("the test allows no threads"));
        }
        let options = ThreadOptions {
            name: Some("durable-calls"),
            ..ThreadOptions::default()
        };
        let threads = Arc::clone(self);
        spawn_service(options, move || threads.serve()).map(drop)
    }

    /// A thread could not be started. If there is no other one, no waiting job would be called.
    fn refuse(&self, error: std::io::Error) {
        let refused = {
            let mut state = self.state.lock();
            state.live -= 1;
            if state.live > 0 {
                return;
            }
            mem::take(&mut state.waiting)
        };
        let error = StoreError::new(ErrorKind::NoThread).with_source(error);
        for mut job in refused.into_values() {
            job(Err(error.clone()));
        }
    }

    /// Body of a call thread.
    fn serve(&self) {
        let parker = Parker::new();
        let number = self.state.lock().ticket();
        let (mut again, mut is_late) = (None, false);
        loop {
            let step = self
                .state
                .lock()
                .step((number, &parker), again.take(), is_late);
            is_late = false;
            match step {
                Step::Call(mut job) => {
                    // USER CODE: the store, and the drop of its last handle. No lock is held.
                    let called = guarded(move || job(Ok(())).then_some(job));
                    again = called.unwrap_or_else(|payload| {
                        discard(payload);
                        None
                    });
                }
                Step::Sleep => {
                    // USER CODE: the clock. After a panic the thread ends, if no job waits.
                    is_late = guarded(|| self.sleep(&parker)).unwrap_or_else(|payload| {
                        discard(payload);
                        true
                    });
                }
                Step::End => return,
            }
        }
    }

    /// Waits to be woken. Returns whether the keep-alive has passed.
    fn sleep(&self, parker: &Parker) -> bool {
        let Some(when) = self.clock.after(CALL_KEEP_ALIVE) else {
            parker.park();
            return false;
        };
        !self.clock.park_until(parker, when)
    }

    /// A queue has its first handle.
    pub(crate) fn enter(&self) {
        self.state.lock().queues += 1;
    }

    /// A queue has no handles any more. After the last one, idle threads end.
    pub(crate) fn leave(&self) {
        if !self.process.is_current() {
            return;
        }
        let idle = {
            let mut state = self.state.lock();
            state.queues -= 1;
            if state.queues > 0 {
                return;
            }
            mem::take(&mut state.idle)
        };
        for (_, parker) in idle {
            parker.unpark();
        }
    }
}

impl Line for CallThreads {
    fn withdraw(&self, ticket: Ticket) {
        let withdrawn = self.state.lock().waiting.remove(&ticket);
        // USER CODE: the drop of the last handle of the store. After the unlock.
        drop(withdrawn);
    }
}

impl State {
    fn ticket(&mut self) -> Ticket {
        self.next += 1;
        self.next
    }

    fn enqueue(&mut self, job: Job) -> Ticket {
        let ticket = self.ticket();
        self.waiting.insert(ticket, job);
        ticket
    }

    /// Decides what the thread does next: it is awake, and `is_late` if its sleep lasted for the keep-alive.
    fn step(&mut self, thread: (Ticket, &Parker), again: Option<Job>, is_late: bool) -> Step {
        let (number, parker) = thread;
        if let Some(job) = again {
            self.enqueue(job);
        }
        self.idle.retain(|(idle, _)| *idle != number);
        if let Some((_, job)) = self.waiting.pop_first() {
            return Step::Call(job);
        }
        if is_late || self.queues == 0 {
            self.live -= 1;
            return Step::End;
        }
        self.idle.push((number, parker.clone()));
        Step::Sleep
    }
}

#[cfg(all(test, not(anthill_loom)))]
mod tests {
    use std::sync::atomic::Ordering::SeqCst;
    use std::sync::mpsc::{Receiver, channel};
    use std::thread;

    use sync_shim::ManualClock;
    use testkit::Gate;

    use super::*;

    struct World {
        clock: ManualClock,
        threads: Arc<CallThreads>,
    }

    fn world() -> World {
        let clock = ManualClock::new();
        let threads = CallThreads::new(SharedClock::new(clock.clone()));
        threads.enter();
        World { clock, threads }
    }

    impl World {
        fn live(&self) -> usize {
            self.threads.state.lock().live
        }

        fn wait_for_live(&self, live: usize) {
            while self.live() != live {
                thread::yield_now();
            }
        }

        /// Submits a job that runs `body` and then reports how it was called.
        fn submit(&self, body: impl FnOnce() + Send + 'static) -> (Ticket, Receiver<Result<()>>) {
            let (sender, called) = channel();
            let mut body = Some(body);
            let ticket = self.threads.submit(Box::new(move |may| {
                body.take().expect("it is called once")();
                sender.send(may).expect("the test waits");
                false
            }));
            (ticket, called)
        }

        fn run(&self) {
            let (_, called) = self.submit(|| ());
            called.recv().expect("it is called").expect("by a thread");
        }
    }

    #[testkit::test]
    fn threads_start_on_demand_are_reused_and_end_after_the_keep_alive() {
        let world = world();
        assert_eq!(world.live(), 0);
        for _ in 0..3 {
            world.run();
            world.clock.wait_for_sleepers(1);
            assert_eq!(world.live(), 1, "the idle thread is used");
        }
        world.clock.advance(CALL_KEEP_ALIVE / 2);
        world.run();
        // Wait until it sleeps for another keep-alive.
        while world.clock.next_due() != world.clock.after(CALL_KEEP_ALIVE) {
            thread::yield_now();
        }
        world.clock.advance(CALL_KEEP_ALIVE / 2);
        world.clock.wait_for_sleepers(1);
        assert_eq!(world.live(), 1);
        world.clock.advance(CALL_KEEP_ALIVE / 2);
        world.wait_for_live(0);
        assert_eq!(world.threads.state.lock().idle.len(), 0);
        world.run();
    }

    #[testkit::test]
    fn no_more_threads_start_than_allowed_and_waiting_jobs_are_called_in_order() {
        let world = world();
        let gate = Gate::new();
        let mut calls = Vec::new();
        for index in 1..=CALL_THREADS {
            let gate = gate.clone();
            calls.push(world.submit(move || gate.wait()).1);
            assert_eq!(world.live(), index);
        }
        gate.wait_for_arrivals(CALL_THREADS);
        let (sender, order) = channel();
        for index in 0..5 {
            let sender = sender.clone();
            calls.push(
                world
                    .submit(move || sender.send(index).expect("the test waits"))
                    .1,
            );
        }
        assert_eq!(world.live(), CALL_THREADS);
        gate.open();
        for call in calls {
            call.recv().expect("it is called").expect("by a thread");
        }
        let mut order: Vec<_> = order.try_iter().collect();
        order.sort_unstable(); // Two threads may send in any order.
        assert_eq!(order, [0, 1, 2, 3, 4]);
    }

    #[testkit::test]
    fn a_job_that_asks_for_more_is_called_after_those_that_wait() {
        let world = world();
        let (sender, order) = channel();
        let gates = [(); CALL_THREADS].map(|()| Gate::new());
        // All threads are busy while the jobs are added.
        for gate in &gates {
            let gate = gate.clone();
            drop(world.submit(move || gate.wait()));
        }
        for gate in &gates {
            gate.wait_for_arrivals(1);
        }
        let mut left = 3;
        let again = sender.clone();
        world.threads.submit(Box::new(move |_| {
            left -= 1;
            again.send("again").expect("the test waits");
            left > 0
        }));
        drop(world.submit(move || sender.send("other").expect("the test waits")));
        gates[0].open(); // One thread makes all calls.
        let order: Vec<_> = [(); 4].map(|()| order.recv().expect("it is called")).into();
        assert_eq!(order, ["again", "other", "again", "again"]);
        gates[1].open();
    }

    #[testkit::test]
    fn a_job_that_is_withdrawn_before_its_call_is_dropped_and_not_called() {
        let world = world();
        let gate = Gate::new();
        for _ in 0..CALL_THREADS {
            let gate = gate.clone();
            drop(world.submit(move || gate.wait()));
        }
        gate.wait_for_arrivals(CALL_THREADS);
        let (ticket, called) = world.submit(|| ());
        world.threads.withdraw(ticket);
        assert!(called.recv().is_err(), "it is gone, and so is its sender");
        gate.open();
        world.run();
    }

    #[testkit::test]
    fn a_panic_of_a_job_ends_no_thread() {
        let world = world();
        drop(world.submit(|| panic!("a job panics")));
        world.run();
        world.clock.wait_for_sleepers(1);
        assert!(world.live() >= 1);
    }

    #[testkit::test]
    fn without_any_thread_a_job_gets_the_error_and_with_one_it_waits_for_it() {
        let world = world();
        world.threads.refuses.store(true, SeqCst);
        let (_, called) = world.submit(|| ());
        let error = called.recv().expect("it is called").expect_err("no thread");
        assert_eq!(error.kind(), ErrorKind::NoThread);
        assert_eq!(world.live(), 0);

        world.threads.refuses.store(false, SeqCst);
        let gate = Gate::new();
        let first = world.submit({
            let gate = gate.clone();
            move || gate.wait()
        });
        gate.wait_for_arrivals(1);
        world.threads.refuses.store(true, SeqCst);
        let (_, second) = world.submit(|| ());
        assert!(second.try_recv().is_err(), "the live thread will call it");
        gate.open();
        first.1.recv().expect("it is called").expect("by a thread");
        second.recv().expect("it is called").expect("by a thread");
    }

    #[testkit::test]
    fn idle_threads_end_when_the_queue_has_no_handles_and_later_jobs_are_still_called() {
        let world = world();
        world.run();
        world.clock.wait_for_sleepers(1);
        world.threads.leave();
        world.wait_for_live(0);
        world.run();
        world.wait_for_live(0);
    }
}
