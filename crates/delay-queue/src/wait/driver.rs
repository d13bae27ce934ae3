//! The driver: sections and their deferred effects, blocking waits, futures' polls, and the alarm.
//!
//! A queue implements the required methods of [`Driver`] and [`Effects`]; the provided methods are
//! the same for all queues. Comments refer to steps of `PROTOCOL.md`.

use std::io;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::Instant;

use sync_shim::foreign::{discard, drop_quietly, guarded};
use sync_shim::{Alarm, Clock, Parker, Process, is_refused, pace};

use super::{AlarmRequest, Left, WaiterId, Waiters, WakeList};

/// The deferred effects of a section, which are run after the lock is released.
pub trait Effects: Default {
    /// Returns whether there are no effects.
    fn is_empty(&self) -> bool;

    /// Returns the waiters to wake.
    fn wakes(&mut self) -> &mut WakeList;

    /// Removes and returns the request for an alarm.
    fn take_alarm_request(&mut self) -> Option<AlarmRequest>;

    /// Appends the effects of a later section, whose alarm request has been removed.
    fn append(&mut self, later: Self);
}

/// Reason why a look found no entry.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unavailable {
    /// No entry will ever be ready.
    Closed,
    /// There is no entry.
    Empty,
    /// There are entries, but none is due.
    NotDue,
}

/// Reason why a wait ended without an entry.
#[derive(Clone, Debug)]
pub enum WaitError {
    /// No entry will ever be ready.
    Closed,
    /// The deadline has passed. Futures have no deadline.
    TimedOut,
    /// Only futures wait, and their clock has no alarms.
    NoAlarm(Arc<io::Error>),
    /// The call would wait in a forked child, which does not have the threads that share the queue.
    Forked,
}

/// A queue whose consumers wait.
pub trait Driver: Sized {
    /// The state that the lock protects.
    type State;
    /// The deferred effects of a section.
    type Effects: Effects;
    /// The source of time and alarms.
    type Clock: Clock;

    /// Returns the clock.
    fn clock(&self) -> &Self::Clock;

    /// Returns the process that created the queue.
    fn process(&self) -> Process;

    /// Returns the clock's time as a number. User code: no lock may be held, or the section must
    /// not have changed the state yet.
    fn now(&self) -> u64;

    /// Returns the waker that calls [`alarm_fired`](Self::alarm_fired).
    fn alarm_waker(&self) -> &Waker;

    /// Returns the time of an alarm for `due`, or `None` if it cannot be expressed.
    fn alarm_time(&self, due: u64) -> Option<Instant>;

    /// Returns when the leader wakes for an entry due at `due`, perhaps to [`spin`](Self::spin).
    fn leader_time(&self, due: u64) -> Option<Instant> {
        self.alarm_time(due)
    }

    /// Spins from the leader's time until the entry is due or the thread is woken. Returns `false`
    /// if the deadline passed first.
    fn spin(&self, _due: u64, _parker: &Parker, _deadline: Option<Instant>) -> bool {
        true
    }

    /// Runs a section under the lock, and appends its deferred effects to `effects`.
    fn locked<R>(
        &self,
        effects: &mut Self::Effects,
        change: impl FnOnce(&mut Self::State, &mut Self::Effects) -> R,
    ) -> R;

    /// Reads the time if an entry may have become ready. Called before a section changes the state,
    /// so that a panic of the clock does no harm.
    fn advance(&self, state: &mut Self::State);

    /// Records a reading of the clock.
    fn learn(state: &mut Self::State, now: u64);

    /// Returns the waiters. The section must settle after changing them.
    fn waiters(state: &mut Self::State) -> &mut Waiters;

    /// Returns when the next entry falls due, including ready ones; [`NEVER`](crate::NEVER) if none
    /// does.
    fn next_due(state: &mut Self::State) -> u64;

    /// Restores the invariants of the waiters: notifies the waiters that a change concerns.
    fn settle(state: &mut Self::State, effects: &mut Self::Effects);

    /// Returns whether the section's deferred effects include user code that must not run while its
    /// thread counts as waiting.
    fn has_user_code(_state: &Self::State) -> bool {
        false
    }

    /// Step 3 of the deferred effects: the futures, then all other user code.
    fn run_user_code(&self, effects: &mut Self::Effects);

    /// Runs a section under the lock, then its deferred effects.
    #[inline]
    fn section<R>(&self, change: impl FnOnce(&mut Self::State, &mut Self::Effects) -> R) -> R {
        let mut effects = Self::Effects::default();
        let result = self.locked(&mut effects, change);
        if !effects.is_empty() {
            // Moved here first, so that the usually empty value stays in a register until then.
            let mut effects = effects;
            self.run(&mut effects);
        }
        result
    }

    /// Runs deferred effects, in the same order for all queues. Runs user code, so no lock may be
    /// held.
    #[inline(never)]
    fn run(&self, effects: &mut Self::Effects) {
        // Step 1: threads, before any waker. They run no user code, and user code may wait for
        // them.
        effects.wakes().wake_threads();
        // Step 2: the alarm, which wakers called later may wait for.
        if let Some(request) = effects.take_alarm_request() {
            set_alarms(self, request, effects);
        }
        // Step 3: user code. Everything that it may wait for is done by now.
        self.run_user_code(effects);
    }

    /// Called when an alarm of this queue has fired.
    fn alarm_fired(&self) {
        let now = self.now();
        let discarded = self.section(|state, effects| {
            Self::learn(state, now);
            let waiters = Self::waiters(state);
            let discarded = waiters.alarm_fired();
            // "The alarm fires while it is being set": perhaps in the very call that sets it. The
            // thread that sets it settles next. Until then no waker runs, because a waker may wait
            // for the next alarm.
            if !waiters.is_alarm_being_set() {
                Self::settle(state, effects);
            }
            discarded
        });
        // USER CODE: the drop of an alarm that fired and of the clock's error.
        drop_quietly(discarded);
    }

    /// Blocks until `look` finds an entry or reports that none will come, or until the deadline.
    ///
    /// `look` runs in a section with a recent reading of the clock: it must not read the clock.
    ///
    /// # Errors
    /// [`WaitError::Closed`], [`WaitError::TimedOut`] and [`WaitError::Forked`].
    fn wait<R>(
        &self,
        parker: &Parker,
        deadline: Option<Instant>,
        mut look: impl FnMut(&mut Self::State, &mut Self::Effects) -> Result<R, Unavailable>,
    ) -> Result<R, WaitError> {
        self.process().check(WaitError::Forked)?;
        let mut place = ThreadPlace {
            driver: self,
            id: None,
        };
        let mut timed_out = false;
        loop {
            let step = self.section(|state, effects| {
                self.advance(state);
                // Dequeue, look and enqueue again in one section: a push comes either before this
                // thread's look, or finds this thread among the waiters.
                if let Some(id) = place.id.take() {
                    Self::waiters(state).dequeue_thread(id);
                }
                let step = match look(state, effects) {
                    Ok(found) => Step::Return(Ok(found)),
                    Err(Unavailable::Closed) => Step::Return(Err(WaitError::Closed)),
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
                // Needed even if this thread is the leader and returns: another thread takes over.
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

    /// Polls for an entry. `id` belongs to the future, and is kept between polls.
    fn poll_wait<R>(
        &self,
        id: &mut Option<WaiterId>,
        context: &mut Context<'_>,
        mut look: impl FnMut(&mut Self::State, &mut Self::Effects) -> Result<R, Unavailable>,
    ) -> Poll<Result<R, WaitError>> {
        self.process().check(WaitError::Forked)?;
        // Cloned before the lock is taken and dropped after it is released: both are user code.
        // USER CODE: the waker's clone. A panic is the caller's, and leaves the future as it was.
        let mut waker = Some(context.waker().clone());
        let (mut before, mut left) = (None, None);
        let mut looks_again_by = None;
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
                    (Err(_), Some(Left::NoAlarm(error))) if !is_refused(error) => {
                        Some(Poll::Ready(Err(WaitError::NoAlarm(Arc::clone(error)))))
                    }
                    // The user code runs before this future counts as waiting.
                    (Err(_), _) if Self::has_user_code(state) => None,
                    (Err(_), _) => {
                        let waker = waker.take().expect("a poll enqueues its future once");
                        *id = Some(Self::waiters(state).enqueue_future(waker, before));
                        if let Some(Left::NoAlarm(_)) = left {
                            looks_again_by = Some(Self::next_due(state));
                        }
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
        // Quietly: a waker that panics must not lose the entry. One by one: two panics at once
        // would abort the process.
        // USER CODE: the drop of the old waker, of a clone that is not needed, of the clock's error. Panics end here, or they would cost
        // the future its entry.
        drop_quietly(left);
        drop_quietly(waker);
        if let Some(due) = looks_again_by {
            self.pace(due, context);
        }
        polled
    }

    /// Ends a poll that is pending because the operating system refused the alarm thread: the poll keeps
    /// the time itself. The section before it has tried again to start the thread.
    #[cold]
    fn pace(&self, due: u64, context: &Context<'_>) {
        if let Some(when) = self.alarm_time(due) {
            pace(self.clock(), when);
        }
        // USER CODE: the poll's own waker. A panic is the poller's, who has lost no entry.
        context.waker().wake_by_ref();
    }

    /// Called when the future is dropped: its notification, if it has one, goes to the next waiter.
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

/// The next step of a thread that has looked.
enum Step<R> {
    Return(Result<R, WaitError>),
    /// Run the section's effects, which are user code, and look again: a thread must not run user
    /// code between enqueueing and sleeping.
    LookAgain,
    /// Sleep. The leader sleeps at most until the given time.
    Sleep(Option<u64>),
}

/// A waiting thread's id while it is queued or notified. Also given up if the clock panics: a
/// thread that is gone must neither be notified nor lead.
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

/// Sleeps until woken (possibly spuriously), until the leader's time, or until the deadline.
/// Returns `false` if the deadline has passed.
fn sleep<D: Driver>(
    driver: &D,
    parker: &Parker,
    leads_until: Option<u64>,
    deadline: Option<Instant>,
) -> bool {
    let leads = leads_until.and_then(|due| Some((due, driver.leader_time(due)?)));
    let leads = leads.filter(|&(_, wake)| deadline.is_none_or(|deadline| wake < deadline));
    match (leads, deadline) {
        // If the deadline has passed too, the next sleep notices.
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

/// Step 2 of the deferred effects: sets the alarm, and any further alarms that are requested
/// because it has already fired. Appends the effects of their sections to `effects`.
///
/// A loop, not a recursion. An alarm may fire before the call that sets it returns, because a clock
/// may check the time first. That is recorded, found by the section that reports the outcome, and
/// answered with the next request. So the stack depth does not depend on how many entries fall due
/// in the meantime.
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
        effects.wakes().wake_threads(); // Step 1, for the section just run.
        // USER CODE: the drop of the alarm that this one replaces.
        drop_quietly(request); // Drops the replaced alarm too: the clock's code again.
    }
}

fn set_alarm<D: Driver>(driver: &D, request: &AlarmRequest) -> io::Result<Alarm> {
    let Some(when) = driver.alarm_time(request.at) else {
        return Err(io::Error::other("the clock cannot express this time"));
    };
    // USER CODE: `Clock::wake_at`, which may fire at once. While it blocks no later alarm of the queue is set; a panic counts as an error.
    let set = || driver.clock().wake_at(when, driver.alarm_waker().clone());
    guarded(set).unwrap_or_else(|payload| {
        discard(payload);
        Err(io::Error::other("the clock panicked"))
    })
}
