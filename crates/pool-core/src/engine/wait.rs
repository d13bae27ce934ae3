//! Futures that wait for an idle pool or for the end of a pool.
//!
//! A future does not join threads, which would block: it is ready as soon as the last worker is gone, whose thread
//! may still be dropping its thread-locals. The blocking calls (`life.rs`) wait for that, too.
//!
//! # Invariants
//! 1. A waiting future has one event with the pool, which its drop removes.
//! 2. The condition is checked in the section that enters the event, so no change is missed.

use std::future::Future;
use std::mem;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Instant;

use sync_shim::Deadline;

use crate::cancel::Cancelled;
use crate::config::OnFull;
use crate::engine::core::Core;
use crate::error::{Closed, Reason, SubmitError, WaitError};
use crate::sched::decide::WhenFull;
use crate::sched::event::{EventFuture, Events};
use crate::sched::state::State;
use crate::sched::waiters::{Request, WaitResult, WaiterEntry};
use crate::task::erased::Task;
use crate::task::handle::PoolRef;

/// The condition that a caller waits for.
#[derive(Clone, Copy, Debug)]
pub enum Awaited {
    /// No task is in flight.
    Rest,
    /// The generation that is current at the first check has ended.
    End,
    /// Like `End`, and the first check releases the pool.
    Release,
    /// This generation has ended.
    EndOf(u64),
}

/// A wait for an idle pool or for its end.
pub(crate) struct WaitFuture {
    core: Arc<Core>,
    awaited: Awaited,
    event: Option<EventFuture>,
    deadline: Deadline,
}

impl WaitFuture {
    pub(crate) fn new(core: Arc<Core>, awaited: Awaited, deadline: Option<Instant>) -> Self {
        Self {
            core,
            awaited,
            event: None,
            deadline: Deadline::new(deadline),
        }
    }

    /// Checks the condition, and enters an event if it does not hold.
    fn look(&mut self) -> Option<Result<(), WaitError>> {
        if let Awaited::Release = self.awaited {
            let (_, generation) = self.core.release();
            self.awaited = Awaited::EndOf(generation);
        }
        let mut event = EventFuture::new();
        let (awaited, answer) = self.core.state.section(|state| {
            // The generation is fixed at the first check, so that a later reboot is reported and not waited through.
            let (awaited, answer) = match self.awaited {
                Awaited::Rest => (Awaited::Rest, (state.unfinished() == 0).then_some(Ok(()))),
                Awaited::EndOf(generation) => end_of(state, generation),
                Awaited::End | Awaited::Release => end_of(state, state.generation),
            };
            // A drop or hook of this thread's own disposal makes the poll: it would wait for itself.
            let answer = answer.or_else(|| {
                let deadlocks = state.is_disposed_of_here();
                deadlocks.then_some(Err(WaitError::WouldDeadlock))
            });
            if answer.is_none() {
                event.enter(events_of(awaited, state));
            }
            (awaited, answer)
        });
        self.awaited = awaited;
        self.event = answer.is_none().then_some(event);
        answer
    }

    /// Removes the event. Returns whether it was set.
    fn leave(&mut self) -> bool {
        let Some(event) = self.event.take() else {
            return false;
        };
        // The event is dropped after the section, because its waker is user code.
        self.core
            .state
            .section(|state| event.leave(events_of(self.awaited, state)))
    }
}

fn end_of<J>(state: &State<J>, generation: u64) -> (Awaited, Option<Result<(), WaitError>>) {
    let answer = if state.generation == generation {
        state.view().ended().then_some(Ok(()))
    } else {
        Some(Err(WaitError::Rebooted))
    };
    (Awaited::EndOf(generation), answer)
}

fn events_of<J>(awaited: Awaited, state: &mut State<J>) -> &mut Events {
    match awaited {
        Awaited::Rest => &mut state.on_idle,
        Awaited::End | Awaited::Release | Awaited::EndOf(_) => &mut state.on_end,
    }
}

impl Future for WaitFuture {
    type Output = Result<(), WaitError>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let this = &mut *self;
        // Before the lock, which a thread of the parent may have held during the fork.
        this.core.process().check(WaitError::Forked)?;
        loop {
            let has_come = match &this.event {
                Some(event) => event.poll(context.waker()),
                None => match this.look() {
                    Some(answer) => return Poll::Ready(answer),
                    None => continue,
                },
            };
            if has_come {
                this.event = None;
                // The pool was idle, which is enough. The end may have been a reboot's, so check again.
                if let Awaited::Rest = this.awaited {
                    return Poll::Ready(Ok(()));
                }
                continue;
            }
            let clock = &*this.core.config.clock;
            // As in the blocking calls: the task that polls keeps its own pool from becoming idle, and from ending.
            let gives_up = if this.core.is_own_worker() {
                WaitError::WouldDeadlock
            } else if this.deadline.poll(clock, context.waker()).is_ready() {
                WaitError::TimedOut
            } else {
                return Poll::Pending;
            };
            // The event may have been set before the lock was taken.
            match (this.leave(), this.awaited) {
                (false, _) => return Poll::Ready(Err(gives_up)),
                (true, Awaited::Rest) => return Poll::Ready(Ok(())),
                (true, _) => {}
            }
        }
    }
}

impl Drop for WaitFuture {
    fn drop(&mut self) {
        if self.core.process().is_current() {
            self.leave(); // Otherwise events of dropped futures would pile up in an active pool.
        }
    }
}

/// Resolves once the job is accepted, or with the job and the reason why it was not.
///
/// A future in the wait queue need not be polled: the section that frees room takes the job from its entry. A future
/// dropped before that removes the job from the wait queue and drops it.
#[expect(missing_debug_implementations, reason = "never leaves the crate")]
pub struct SubmitFuture {
    core: Arc<Core>,
    stage: Stage<Task>,
    /// Ends the wait for room when a token is cancelled.
    cancelled: Option<Cancelled>,
}

/// Answer of a pool without room at the first poll.
enum AtPoll {
    Refused(Reason, Task),
    RunInPlace(Task),
    Waits(Stage<Task>),
}

enum Stage<J> {
    Outside(J),
    Waiting(Arc<WaiterEntry<J>>, u64),
    Over,
}

// Safe, because nothing is pinned: the job is moved and never borrowed.
impl Unpin for SubmitFuture {}

impl SubmitFuture {
    pub(crate) fn new(core: Arc<Core>, job: Task, cancelled: Option<Cancelled>) -> Self {
        Self {
            core,
            stage: Stage::Outside(job),
            cancelled,
        }
    }

    /// Gives up the wait and drops the job. Returns whether a section has accepted the job before.
    pub(crate) fn give_up(&mut self) -> bool {
        let Stage::Waiting(entry, ticket) = &self.stage else {
            return false;
        };
        if !self.core.process().is_current() {
            return false;
        }
        // The job is dropped here, after the section, because its drop is user code.
        drop(self.core.leave_wait_queue(entry, *ticket));
        // A job that a release has just returned is dropped here, too, and not by the releasing thread, which must
        // not be held up while it wakes others.
        let was_accepted = matches!(entry.outcome(), Some(Ok(_)));
        self.stage = Stage::Over;
        was_accepted
    }

    /// Handles the first poll. Returns `None` if the job is in the wait queue.
    fn enter(&mut self, job: Task) -> Option<WaitResult<Task>> {
        // Before the lock, which a thread of the parent may have held during the fork.
        if !self.core.process().is_current() {
            return Some(Err((Reason::Forked, job)));
        }
        let core = Arc::clone(&self.core);
        let admitted = core.admit(job, |state, why, job| {
            if !matches!(why, Closed::Full) {
                return AtPoll::Refused(state.refuse(why), job);
            }
            match state.view().when_full(core.asked(OnFull::Wait(None))) {
                WhenFull::Enqueue => {
                    let entry = WaiterEntry::of_future(Request::Task(job));
                    // Step Q1. In the section that found no room, so that room freed later finds the entry.
                    let ticket = state.enqueue_waiter(Arc::clone(&entry));
                    AtPoll::Waits(Stage::Waiting(entry, ticket))
                }
                WhenFull::RunInPlace => AtPoll::RunInPlace(job),
                _ => AtPoll::Refused(state.refuse(why), job),
            }
        });
        match admitted {
            Ok(()) => Some(Ok(())),
            Err(AtPoll::Refused(reason, job)) => Some(Err((reason, job))),
            Err(AtPoll::RunInPlace(job)) => {
                core.run_in_place(job);
                Some(Ok(()))
            }
            Err(AtPoll::Waits(waiting)) => {
                self.stage = waiting;
                None
            }
        }
    }

    /// Takes the job out of the wait queue on an own worker, which must not wait. Returns `None` if the worker may wait,
    /// or if the job has just left the queue.
    fn leave_on_worker(
        &self,
        entry: &WaiterEntry<Task>,
        ticket: u64,
    ) -> Option<WaitResult<Request<Task>>> {
        let asked = self.core.asked(OnFull::Wait(None));
        if asked == WhenFull::Enqueue {
            return None;
        }
        if asked != WhenFull::RunInPlace {
            let request = self.core.leave_wait_queue(entry, ticket)?;
            return Some(Err((Reason::Full, request)));
        }
        let request = self.core.leave_wait_queue_as(entry, ticket, false)?;
        self.core.run_in_place(request.into_task());
        Some(Ok(()))
    }
}

impl Future for SubmitFuture {
    type Output = Result<usize, SubmitError<Task>>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let mut result = None;
        // Before the look at the entry, so that a later cancellation wakes the future again.
        let is_cancelled = self
            .cancelled
            .as_mut()
            .is_some_and(|cancelled| Pin::new(cancelled).poll(context) == Poll::Ready(true));
        if let Stage::Outside(_) = self.stage
            && let Stage::Outside(job) = mem::replace(&mut self.stage, Stage::Over)
        {
            result = if is_cancelled {
                self.core.count_refused();
                Some(Err((Reason::Cancelled, job)))
            } else {
                self.enter(job)
            };
        }
        // Also right after it entered the queue, since the entry has no waker yet. If the waker's clone, which is user
        // code, panics, this future still owns the entry and its drop removes it.
        if let Stage::Waiting(entry, ticket) = &self.stage {
            let answer = if self.core.process().is_current() {
                let answer = entry.poll(context.waker());
                let answer = answer.map(|answer| answer.map(|_| ()));
                answer.or_else(|| {
                    let left = if is_cancelled {
                        // Step Q6: a job that was accepted before the cancellation stays accepted.
                        let left = self.core.leave_wait_queue(entry, *ticket);
                        left.map(|request| Err((Reason::Cancelled, request)))
                    } else {
                        self.leave_on_worker(entry, *ticket)
                    };
                    left.or_else(|| entry.outcome().map(|answer| answer.map(|_| ())))
                })
            } else {
                Some(entry.abandon())
            };
            let of_task = |(reason, request): (_, Request<_>)| (reason, request.into_task());
            result = answer.map(|answer| answer.map_err(of_task));
        }
        // A poll after the result stays pending for ever.
        let Some(result) = result else {
            return Poll::Pending;
        };
        self.stage = Stage::Over;
        Poll::Ready(match result {
            Ok(()) => Ok(0),
            Err((reason, job)) => Err(reason.with(job)),
        })
    }
}

impl Drop for SubmitFuture {
    fn drop(&mut self) {
        self.give_up();
    }
}

#[cfg(all(test, not(anthill_loom)))]
mod tests {
    use std::future::Future;
    use std::pin::{Pin, pin};
    use std::task::{Context, Poll, Waker};
    use std::time::{Duration, Instant};

    use sync_shim::{Clock, ManualClock};
    use testkit::CountingWaker;

    use crate::sched::waiters::steps;
    use crate::{Pool, WaitError};

    /// A pool whose only task runs until the gate is opened.
    fn held(clock: &ManualClock) -> (Pool, testkit::Gate) {
        let pool = Pool::builder()
            .capacity(1)
            .keep_alive(None)
            .clock(clock.clone());
        let pool = pool.build().expect("the settings are sound");
        let gate = testkit::Gate::new();
        let held = gate.clone();
        pool.try_submit(move || held.wait()).expect("there is room");
        (pool, gate)
    }

    fn events(pool: &Pool) -> (usize, usize) {
        let state = pool.core().state.lock();
        (state.on_idle.len(), state.on_end.len())
    }

    fn poll(
        future: Pin<&mut impl Future<Output = Result<(), WaitError>>>,
        waker: &Waker,
    ) -> Poll<Result<(), WaitError>> {
        future.poll(&mut Context::from_waker(waker))
    }

    #[testkit::test]
    fn a_wait_as_a_future_that_is_dropped_leaves_no_event_behind() {
        let (pool, gate) = held(&ManualClock::new());
        for _ in 0..100 {
            let mut rest = pin!(pool.wait_idle_async());
            let mut end = pin!(pool.wait_released_async());
            for _ in 0..2 {
                assert!(poll(rest.as_mut(), Waker::noop()).is_pending());
                assert!(poll(end.as_mut(), Waker::noop()).is_pending());
            }
            assert_eq!(events(&pool), (1, 1));
        }
        assert_eq!(events(&pool), (0, 0));
        gate.open();
    }

    #[testkit::test]
    fn a_future_dropped_in_any_state_leaves_neither_event_nor_alarm_nor_waker_behind() {
        const SECOND: Duration = Duration::from_secs(1);
        let clock = ManualClock::new();
        let (pool, gate) = held(&clock);
        let counter = CountingWaker::new();
        let waker = counter.waker();
        let limited = |deadline: Instant| pool.release_timeout_async(deadline);
        let deadline = clock.now() + SECOND;
        let is_clean = |state: &str| {
            assert_eq!(events(&pool), (0, 0), "{state}");
            assert_eq!((clock.sleepers(), counter.wakers()), (0, 1), "{state}");
        };

        drop((pool.wait_idle_async(), limited(deadline)));
        is_clean("not polled");
        {
            let (mut rest, mut end) = (pin!(pool.wait_idle_async()), pin!(limited(deadline)));
            assert!(poll(rest.as_mut(), &waker).is_pending());
            assert!(poll(end.as_mut(), &waker).is_pending());
            assert_eq!((events(&pool), clock.sleepers()), ((1, 1), 1));
        }
        is_clean("pending");
        {
            let mut end = pin!(limited(deadline));
            assert!(poll(end.as_mut(), &waker).is_pending());
            clock.advance(SECOND);
            assert_eq!(events(&pool), (0, 1), "not polled since");
        }
        is_clean("its time is up");
        {
            let mut end = pin!(limited(deadline));
            let ended = poll(end.as_mut(), &waker);
            assert_eq!(ended, Poll::Ready(Err(WaitError::TimedOut)));
            is_clean("timed out");
        }
        {
            let (mut rest, mut end) = (
                pin!(pool.wait_idle_async()),
                pin!(limited(deadline + SECOND)),
            );
            assert!(poll(rest.as_mut(), &waker).is_pending());
            assert!(poll(end.as_mut(), &waker).is_pending());
            gate.open();
            pool.wait_released().expect("it is no worker of the pool");
            assert_eq!(
                (events(&pool), clock.sleepers()),
                ((0, 0), 1),
                "both have come"
            );
        }
        is_clean("it has come");
    }

    #[testkit::test]
    fn the_steps_of_futures_that_are_dropped_grow_with_their_number() {
        const COUNT: usize = 80_000;
        let (pool, gate) = held(&ManualClock::new());
        let orders: [fn(usize) -> usize; 3] = [|n| n, |n| COUNT - 1 - n, |n| n * 10_007 % COUNT];
        for order in orders {
            let pending = || {
                let mut future = pool.wait_idle_async();
                assert!(poll(pin!(&mut future), Waker::noop()).is_pending());
                Some(future)
            };
            let mut futures: Vec<_> = (0..COUNT).map(|_| pending()).collect();
            assert_eq!(events(&pool), (COUNT, 0));
            let mut steps = 0;
            for n in 0..COUNT {
                steps += steps::of(|| futures[order(n)] = None);
                assert!(steps <= 24 * (n as u64 + 1), "{steps} for {}", n + 1);
            }
            assert_eq!(events(&pool), (0, 0));
        }
        gate.open();
    }
}
