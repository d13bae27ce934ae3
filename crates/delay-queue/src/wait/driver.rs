//! The driver: sections and their deferred effects, blocking waits, futures' polls, and the alarm.
//!
//! A queue implements the required methods of [`Driver`] and [`Effects`]; the provided ones are the
//! same for all queues. The steps that the comments name are those of `PROTOCOL.md`.

use std::io;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Instant;

use sync_shim::foreign::{discard, drop_quietly, guarded};
use sync_shim::{Alarm, Clock, Parker};

use super::{AlarmRequest, Left, WaiterId, Waiters, WakeList};

/// What a section leaves to be done when the lock is free.
pub trait Effects: Default {
    /// Whether there is nothing to do.
    fn is_empty(&self) -> bool;

    /// The waiters to wake.
    fn wakes(&mut self) -> &mut WakeList;

    /// Takes the request for an alarm out.
    fn take_alarm_request(&mut self) -> Option<AlarmRequest>;

    /// Adds those of a later section, whose request for an alarm has been taken out.
    fn append(&mut self, later: Self);
}

/// Why a look found nothing to take.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unavailable {
    /// Nothing will ever be ready.
    Closed,
    /// There is nothing yet.
    Empty,
    /// There is something, but it is not due, or never.
    NotDue,
}

/// Why a wait ended with nothing.
#[derive(Clone, Debug)]
pub enum WaitError {
    /// Nothing will ever be ready.
    Closed,
    /// The deadline passed. Futures have none.
    TimedOut,
    /// Only futures wait, and the alarm that would wake them could not be set.
    NoAlarm(Arc<io::Error>),
    /// The look found nothing, in a forked child: the threads that share the queue stayed behind.
    Forked,
}

/// A queue whose consumers wait.
pub trait Driver: Sized {
    /// What the lock protects.
    type State;
    /// What a section leaves to be done.
    type Effects: Effects;
    /// The source of time and alarms.
    type Clock: Clock;

    /// The clock.
    fn clock(&self) -> &Self::Clock;

    /// Whether this process was forked after the queue was made. Then nobody waits.
    fn is_forked(&self) -> bool;

    /// The clock's time as a number. User code, so no lock may be held, or nothing changed yet.
    fn now(&self) -> u64;

    /// Calls [`alarm_fired`](Self::alarm_fired).
    fn alarm_waker(&self) -> &Waker;

    /// When an alarm for `due` fires. `None` if there is no such point.
    fn alarm_time(&self, due: u64) -> Option<Instant>;

    /// When the leader wakes for what falls due at `due`, perhaps to [`spin`](Self::spin).
    fn leader_time(&self, due: u64) -> Option<Instant> {
        self.alarm_time(due)
    }

    /// Spins from the leader's time on until what it woke for is due, or until it is woken.
    /// `false` if the deadline passed first.
    fn spin(&self, _due: u64, _parker: &Parker, _deadline: Option<Instant>) -> bool {
        true
    }

    /// Runs a section under the lock. What it leaves to be done is added to `effects`.
    fn locked<R>(
        &self,
        effects: &mut Self::Effects,
        change: impl FnOnce(&mut Self::State, &mut Self::Effects) -> R,
    ) -> R;

    /// Reads the time, if anything can become ready by it. Called before a section changes
    /// anything, so that a clock that panics costs nothing.
    fn advance(&self, state: &mut Self::State);

    /// The time has been read.
    fn learn(state: &mut Self::State, now: u64);

    /// The waiters, to be changed. The section settles after it.
    fn waiters(state: &mut Self::State) -> &mut Waiters;

    /// When the next thing falls due, ready ones included; [`NEVER`](crate::NEVER) if none does.
    fn next_due(state: &mut Self::State) -> u64;

    /// Restores the invariants of the waiters: notifies what a change concerns.
    fn settle(state: &mut Self::State, effects: &mut Self::Effects);

    /// Whether what the section has left to be done includes user code that must not run while its
    /// thread counts as waiting.
    fn has_user_code(_state: &Self::State) -> bool {
        false
    }

    /// Step 3 of the deferred effects: the futures, then whatever else runs user code.
    fn run_user_code(&self, effects: &mut Self::Effects);

    /// Runs a section under the lock, then its deferred effects.
    #[inline]
    fn section<R>(&self, change: impl FnOnce(&mut Self::State, &mut Self::Effects) -> R) -> R {
        let mut effects = Self::Effects::default();
        let result = self.locked(&mut effects, change);
        if !effects.is_empty() {
            // Moved first: so what is mostly empty stays in a register until here.
            let mut effects = effects;
            self.run(&mut effects);
        }
        result
    }

    /// Runs deferred effects, in the one order of all queues. Runs user code, so no lock may be
    /// held.
    #[inline(never)]
    fn run(&self, effects: &mut Self::Effects) {
        // Step 1: threads, before any waker: they run no user code, and user code may wait for them.
        effects.wakes().wake_threads();
        // Step 2: the alarm, which later wakers may wait for.
        if let Some(request) = effects.take_alarm_request() {
            set_alarms(self, request, effects);
        }
        // Step 3: user code. By now all is done that it may wait for.
        self.run_user_code(effects);
    }

    /// An alarm of this queue has fired.
    fn alarm_fired(&self) {
        let now = self.now();
        let discarded = self.section(|state, effects| {
            Self::learn(state, now);
            let waiters = Self::waiters(state);
            let discarded = waiters.alarm_fired();
            // "The alarm fires while it is being set": it may be in the very call that sets it. The
            // party that does so settles next; until then no waker runs, for one may wait for the
            // alarm that follows.
            if !waiters.is_alarm_being_set() {
                Self::settle(state, effects);
            }
            discarded
        });
        // USER CODE: the drop of an alarm that fired and of the clock's error.
        drop_quietly(discarded);
    }

    /// Blocks until `look` finds something, or that nothing will come; or until the deadline.
    ///
    /// `look` runs in a section whose time is known: it reads no clock.
    ///
    /// # Errors
    /// [`WaitError::Closed`], [`WaitError::TimedOut`] and [`WaitError::Forked`].
    fn wait<R>(
        &self,
        parker: &Parker,
        deadline: Option<Instant>,
        mut look: impl FnMut(&mut Self::State, &mut Self::Effects) -> Result<R, Unavailable>,
    ) -> Result<R, WaitError> {
        let mut place = ThreadPlace {
            driver: self,
            id: None,
        };
        let mut timed_out = false;
        loop {
            let step = self.section(|state, effects| {
                self.advance(state);
                // Dequeue, look and enqueue again in one section: a push finds this thread either
                // before its look, or among the waiters.
                if let Some(id) = place.id.take() {
                    Self::waiters(state).dequeue_thread(id);
                }
                let step = match look(state, effects) {
                    Ok(found) => Step::Return(Ok(found)),
                    Err(Unavailable::Closed) => Step::Return(Err(WaitError::Closed)),
                    Err(_) if self.is_forked() => Step::Return(Err(WaitError::Forked)),
                    Err(_) if timed_out => Step::Return(Err(WaitError::TimedOut)),
                    Err(_) if Self::has_user_code(state) => Step::LookAgain,
                    Err(_) => {
                        let due = Self::next_due(state);
                        let waiters = Self::waiters(state);
                        let (id, leads_until) = waiters.enqueue_thread(parker.clone(), due);
                        place.id = Some(id);
                        Step::Sleep(leads_until)
                    }
                };
                // Also if this thread was the leader and returns: another takes over.
                Self::settle(state, effects);
                step
            });
            match step {
                Step::Return(result) => return result,
                Step::LookAgain => {}
                Step::Sleep(leads_until) => {
                    timed_out = !sleep(self, parker, leads_until, deadline);
                }
            }
        }
    }

    /// Polls for what `look` finds. `id` is the future's own, kept from poll to poll.
    fn poll_wait<R>(
        &self,
        id: &mut Option<WaiterId>,
        context: &mut Context<'_>,
        mut look: impl FnMut(&mut Self::State, &mut Self::Effects) -> Result<R, Unavailable>,
    ) -> Poll<Result<R, WaitError>> {
        // Cloned before the lock is taken and dropped after it is free, for both are user code.
        // USER CODE: the waker's clone. A panic is the caller's, and leaves the future as it was.
        let mut waker = Some(context.waker().clone());
        let (mut before, mut left) = (None, None);
        let polled = loop {
            let polled = self.section(|state, effects| {
                self.advance(state);
                // As in `wait`, one section: a push wakes the old waker before this look, or the
                // new one after it.
                if let Some(id) = id.take() {
                    before = Some(id);
                    left = Some(Self::waiters(state).dequeue_future(id));
                }
                let polled = match (look(state, effects), &left) {
                    (Ok(found), _) => Some(Poll::Ready(Ok(found))),
                    (Err(Unavailable::Closed), _) => Some(Poll::Ready(Err(WaitError::Closed))),
                    (Err(_), _) if self.is_forked() => Some(Poll::Ready(Err(WaitError::Forked))),
                    (Err(_), Some(Left::NoAlarm(error))) => {
                        Some(Poll::Ready(Err(WaitError::NoAlarm(Arc::clone(error)))))
                    }
                    // It runs before this future counts as waiting.
                    (Err(_), _) if Self::has_user_code(state) => None,
                    (Err(_), _) => {
                        let waker = waker.take().expect("a poll enqueues its future once");
                        *id = Some(Self::waiters(state).enqueue_future(waker, before));
                        Some(Poll::Pending)
                    }
                };
                Self::settle(state, effects);
                polled
            });
            if let Some(polled) = polled {
                break polled;
            }
        };
        // Quietly: what was taken must not be lost to a waker that panics. One by one: two panics
        // at once would abort the process.
        // USER CODE: the drop of the old waker, of a clone that is not needed, of the clock's error. Panics end here, or they would cost
        // the future its entry.
        drop_quietly(left);
        drop_quietly(waker);
        polled
    }

    /// The future is dropped: its notification, if it has one, goes to the next waiter.
    fn cancel_wait(&self, id: &mut Option<WaiterId>) {
        let Some(id) = id.take() else {
            return;
        };
        let left = self.section(|state, effects| {
            let left = Self::waiters(state).dequeue_future(id);
            Self::settle(state, effects);
            left
        });
        // USER CODE: the drop of the waker, after the future has left the queue.
        drop_quietly(left);
    }
}

/// What a thread does after it has looked.
enum Step<R> {
    Return(Result<R, WaitError>),
    /// The section's effects are user code. That is over now: a queued thread does nothing else
    /// before it sleeps.
    LookAgain,
    /// Sleep; the leader, no longer than until then.
    Sleep(Option<u64>),
}

/// A waiting thread's id while it is queued or notified. Given back also if the clock panics: a
/// thread that has gone must be neither notified nor the leader.
struct ThreadPlace<'d, D: Driver> {
    driver: &'d D,
    id: Option<WaiterId>,
}

impl<D: Driver> Drop for ThreadPlace<'_, D> {
    fn drop(&mut self) {
        if let Some(id) = self.id.take() {
            self.driver.section(|state, effects| {
                D::waiters(state).dequeue_thread(id);
                D::settle(state, effects);
            });
        }
    }
}

/// Sleeps until woken (or spuriously), until the leader's time, or until the deadline: then the
/// answer is `false`.
fn sleep<D: Driver>(
    driver: &D,
    parker: &Parker,
    leads_until: Option<u64>,
    deadline: Option<Instant>,
) -> bool {
    let leads = leads_until.and_then(|due| Some((due, driver.leader_time(due)?)));
    let leads = leads.filter(|&(_, wake)| deadline.is_none_or(|deadline| wake < deadline));
    match (leads, deadline) {
        // Whether the deadline has passed too is seen on the next sleep.
        (Some((due, wake)), _) => {
            // USER CODE: `Clock::park_until`, by an enqueued thread that may lead. A panic dequeues the thread and passes the lead on.
            driver.clock().park_until(parker, wake) || driver.spin(due, parker, deadline)
        }
        // USER CODE: `Clock::park_until`, as above.
        (None, Some(deadline)) => driver.clock().park_until(parker, deadline),
        (None, None) => {
            parker.park();
            true
        }
    }
}

/// Step 2 of the deferred effects: sets the alarm, and those that follow because it has fired
/// already. What their sections leave to be done joins `effects`.
///
/// One after the other, never one within the other: an alarm may fire before the call that sets it
/// returns, for a clock may look at the time first. That is noted, found by the section that reports
/// the outcome, and answered with the next request. So the stack is as deep for one thing that falls
/// due as for all that do meanwhile.
#[cold]
fn set_alarms<D: Driver>(driver: &D, first: AlarmRequest, effects: &mut D::Effects) {
    let mut next = Some(first);
    while let Some(request) = next {
        let alarm = set_alarm(driver, &request);
        let mut later = D::Effects::default();
        let discarded = driver.locked(&mut later, |state, effects| {
            let discarded = D::waiters(state).alarm_set(&request, alarm, effects.wakes());
            D::settle(state, effects);
            discarded
        });
        // USER CODE: the drop of alarms that were replaced and of the clock's error.
        drop_quietly(discarded);
        next = later.take_alarm_request();
        effects.append(later);
        effects.wakes().wake_threads(); // Step 1, of the section just run.
        // USER CODE: the drop of the alarm that this one replaces.
        drop_quietly(request);
    }
}

fn set_alarm<D: Driver>(driver: &D, request: &AlarmRequest) -> io::Result<Alarm> {
    let Some(when) = driver.alarm_time(request.at) else {
        return Err(io::Error::other("this time has no point on the clock"));
    };
    // USER CODE: `Clock::wake_at`, which may fire at once. While it blocks no later alarm of the queue is set; a panic counts as an error.
    let set = || driver.clock().wake_at(when, driver.alarm_waker().clone());
    guarded(set).unwrap_or_else(|payload| {
        discard(payload);
        Err(io::Error::other("the clock panicked"))
    })
}
