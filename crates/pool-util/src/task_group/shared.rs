//! State of a group, without the type of its values, which stay in the tasks' cells. Compiled once.
//!
//! Neither lock is held while a task is cancelled, a value is dropped or a waker is called, because these
//! may run user code. `taken` is locked before `state`.
//!
//! # Invariants, whenever the locks are free
//! 1. A task is in `members` until its end is moved to `taken` or skipped, or the group gives the task up.
//!    `pending` counts the tasks in `members` that are not in `ended`.
//! 2. While an owner waits, `ended` and `taken` are empty and `pending` is not 0. While an owner waits for
//!    the last end, `ended` may contain values whose drop runs no code.
//! 3. An owner takes a value from its cell only after the task is in `ended`.

use std::any::Any;
use std::collections::{BTreeMap, VecDeque};
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};

use pool_core::internals::{Joined, Listener, SpawnCell, TaskRef, TicketList};
use pool_core::{CancelToken, JoinError};
use sync_shim::atomic::Ordering::Relaxed;
use sync_shim::atomic::{AtomicBool, AtomicU8};
use sync_shim::foreign::{drop_quietly, wake};
use sync_shim::waiter::Waiter;
use sync_shim::{Mutex, MutexGuard};

use super::members::Members;

/// The end of a task of the group.
pub(super) enum Ended {
    /// The outcome is in the task's cell.
    Task(TaskRef),
    /// An error without a cell.
    Error(JoinError),
}

impl Ended {
    pub(super) fn take<T: 'static>(self) -> Joined<T> {
        match self {
            Self::Task(task) => task.take_value(),
            Self::Error(why) => Err(why),
        }
    }

    /// Panics if the value's destructor does.
    pub(super) fn drop_value(self) -> Result<(), JoinError> {
        match self {
            Self::Task(task) => task.drop_value(),
            Self::Error(why) => Err(why),
        }
    }

    fn drop_quietly(self) {
        if let Self::Task(task) = self {
            task.cell().detach();
        }
    }
}

/// An [`Ended`] in the list of a group.
enum End {
    Task(u32),
    /// A task that the group gave up.
    WouldDeadlock,
}

/// Errors of tasks that waits have taken and not returned.
#[derive(Default)]
struct Errors {
    /// The first error, or the first task whose value is an `Err`.
    first: Option<Ended>,
    /// The first error, if `first` is a task.
    error: Option<Ended>,
}

impl Errors {
    /// Returns `ended` if it is not the first.
    fn keep(&mut self, ended: Ended) -> Option<Ended> {
        let place = match (&self.first, &ended) {
            (None, _) => &mut self.first,
            (Some(Ended::Task(_)), Ended::Error(_)) if self.error.is_none() => &mut self.error,
            _ => return Some(ended),
        };
        place.replace(ended)
    }
}

/// The ends that wake an owner.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Until {
    /// Any value or error.
    Next,
    /// An error, [`ENOUGH`] values, or the end of the last task. For owners that drop values whose drop runs
    /// no code.
    End,
}

/// The ends that cancel the group.
#[derive(Clone, Copy)]
pub(super) enum Fails {
    Never,
    Errors,
    /// Errors, and values for which the function returns `true`.
    Values(IsFailure),
}

/// Whether a value is a failure. Runs no user code.
pub(super) type IsFailure = fn(&dyn Any) -> bool;

/// Number of values that wakes owners which wait for the last end. Bounds the number of values that are
/// kept.
const ENOUGH: usize = 256;

/// Most ends that an owner moves in one section.
const BATCH: usize = 64;

struct Owners {
    next: TicketList<Waiter>,
    end: TicketList<Waiter>,
    /// Wakers of `poll_next`, keyed by their data and vtable.
    polls: BTreeMap<(usize, usize), Waker>,
}

impl Owners {
    const fn new() -> Self {
        Self {
            next: TicketList::new(),
            end: TicketList::new(),
            polls: BTreeMap::new(),
        }
    }

    fn wait(&self) -> bool {
        self.next.len() + self.end.len() + self.polls.len() > 0
    }

    fn of(&mut self, until: Until) -> &mut TicketList<Waiter> {
        match until {
            Until::Next => &mut self.next,
            Until::End => &mut self.end,
        }
    }
}

struct State {
    members: Members,
    pending: usize,
    ended: VecDeque<End>,
    owners: Owners,
    fails: Fails,
    /// The group was dropped.
    is_closed: bool,
}

impl State {
    fn look(&self) -> Look {
        match (self.pending, self.ended.len()) {
            (0, _) => Look::Over,
            (1, 0) => Look::Last,
            (_, 0) => Look::Nothing,
            _ => Look::Some,
        }
    }
}

/// Hint for owners that spin.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
#[repr(u8)]
enum Look {
    Nothing,
    /// There is no end to take, and one task is left.
    Last,
    /// There is an end to take.
    Some,
    /// All tasks have ended.
    Over,
}

pub(super) struct Shared {
    /// Ends that owners moved out of `ended` in batches, to contend less for the lock of `state`.
    taken: Mutex<VecDeque<Ended>>,
    state: Mutex<State>,
    /// A [`Look`]. Relaxed: owners take the lock before they act on it.
    hint: AtomicU8,
    /// Whether the group was cancelled, or has failed and will be, so that it refuses tasks. Stored under the
    /// lock. Relaxed: no other memory is read because of it.
    is_cancelled: AtomicBool,
    /// Ends the waits for room. Cancelled after `is_cancelled` was stored.
    token: CancelToken,
    /// Locked alone.
    errors: Mutex<Errors>,
}

/// User code to run after a task's end, packed as a waker and called where wakers are.
struct AfterEnd {
    owners: Mutex<Vec<Waker>>,
    /// The group to cancel.
    cancels: Option<Arc<Shared>>,
}

impl Wake for AfterEnd {
    fn wake(self: Arc<Self>) {
        let owners = std::mem::take(&mut *self.owners.lock());
        // USER CODE: the wakers of the group's owners, on the worker of the task that ended. Panics end there.
        owners.into_iter().for_each(wake);
        if let Some(group) = &self.cancels {
            group.cancel();
        }
    }
}

impl Listener for Shared {
    fn ended(self: Arc<Self>, number: u32, is_error: bool, cell: &SpawnCell) -> Option<Waker> {
        let mut state = self.state.lock();
        if state.is_closed {
            return None;
        }
        state.pending -= 1;
        self.keep_task(state, number, is_error, cell)
    }
}

impl Shared {
    pub(super) fn new() -> Self {
        let state = State {
            members: Members::new(),
            pending: 0,
            ended: VecDeque::new(),
            owners: Owners::new(),
            fails: Fails::Never,
            is_closed: false,
        };
        Self {
            taken: Mutex::new(VecDeque::new()),
            state: Mutex::new(state),
            hint: AtomicU8::new(Look::Over as u8),
            is_cancelled: AtomicBool::new(false),
            token: CancelToken::new(),
            errors: Mutex::new(Errors::default()),
        }
    }

    pub(super) fn set_fails(&self, fails: Fails) {
        self.state.lock().fails = fails;
    }

    /// Number of tasks that have not ended, plus ends that were not taken.
    pub(super) fn len(&self) -> usize {
        let taken = self.taken.lock();
        let state = self.state.lock();
        taken.len() + state.ended.len() + state.pending
    }

    /// Whether an owner that spins should look. A hint.
    pub(super) fn seems_ready(&self, until: Until) -> bool {
        let least = match until {
            Until::Next => Look::Some,
            Until::End => Look::Over,
        };
        self.hint.load(Relaxed) >= least as u8
    }

    /// Whether the group refuses tasks.
    pub(super) fn is_cancelled(&self) -> bool {
        self.is_cancelled.load(Relaxed)
    }

    /// The token that ends the waits of submitters.
    pub(super) fn token(&self) -> &CancelToken {
        &self.token
    }

    /// The values that fail the group.
    pub(super) fn failures(&self) -> Option<IsFailure> {
        match self.state.lock().fails {
            Fails::Values(is) => Some(is),
            Fails::Never | Fails::Errors => None,
        }
    }

    /// Keeps the error of a task that a wait has taken, or a task whose value is an `Err`, until a wait
    /// returns it. Only the first is kept.
    pub(super) fn keep_for_wait(&self, ended: Ended) {
        let unneeded = self.errors.lock().keep(ended);
        // USER CODE: the drop of a value. After the unlock.
        unneeded.into_iter().for_each(Ended::drop_quietly);
    }

    /// Takes the first error that was kept. With `values`, this may be a task whose value is an `Err`.
    pub(super) fn take_kept(&self, values: bool) -> Option<Ended> {
        let Errors { first, error } = std::mem::take(&mut *self.errors.lock());
        let (taken, unneeded) = match first {
            Some(Ended::Task(task)) if !values => (error, Some(Ended::Task(task))),
            first => (first, error),
        };
        // USER CODE: the drop of a value. After the unlock.
        unneeded.into_iter().for_each(Ended::drop_quietly);
        taken
    }

    /// Whether one task is left. A hint: the owner then spins like a join, because no other task can end
    /// meanwhile.
    pub(super) fn has_one_left(&self) -> bool {
        self.hint.load(Relaxed) == Look::Last as u8
    }

    /// Adds a task that its submitter is about to run.
    pub(super) fn adopt_in_place(self: &Arc<Self>, task: &TaskRef, is_submitted: bool) {
        // Its job is not in the queue, so a cancel must leave the job and its count to the submitter.
        task.cell().keep_place();
        self.adopt(task.clone(), is_submitted);
    }

    /// Adds an accepted task.
    pub(super) fn adopt(self: &Arc<Self>, task: TaskRef, is_submitted: bool) {
        let listener: Arc<dyn Listener> = Arc::clone(self) as _;
        let mut state = self.state.lock();
        let number = state.members.next_number(is_submitted);
        // Under the lock, because the task may end at once, and its end has to find it counted.
        let ended = task.cell().listen(listener, number);
        let ended = ended.map(|is_error| (is_error, Arc::clone(task.cell())));
        state.members.insert(task);
        if let Some((is_error, cell)) = ended {
            let user_code = self.keep_task(state, number, is_error, &cell);
            return user_code.into_iter().for_each(wake);
        }
        state.pending += 1;
        self.show(&state);
        let cancelled = if self.is_cancelled() {
            state.members.task(number)
        } else {
            None
        };
        drop(state);
        if let Some(task) = cancelled {
            task.cancel();
        }
    }

    fn show(&self, state: &State) {
        let look = state.look() as u8;
        if self.hint.load(Relaxed) != look {
            self.hint.store(look, Relaxed);
        }
    }

    /// Records the end of a task.
    fn keep_task(
        self: &Arc<Self>,
        mut state: MutexGuard<'_, State>,
        number: u32,
        is_error: bool,
        cell: &SpawnCell,
    ) -> Option<Waker> {
        let fails = match state.fails {
            Fails::Never => false,
            Fails::Errors => is_error,
            Fails::Values(is) => is_error || cell.is_value(is),
        };
        let passed_over = if !is_error && Members::is_submitted(number) {
            state.members.remove(number)
        } else {
            state.ended.push_back(End::Task(number));
            None
        };
        let user_code = self.keep(state, is_error, fails);
        drop(passed_over); // A submitted task has no value, so this runs no user code.
        user_code
    }

    /// Records an error without a cell.
    fn keep_error(self: &Arc<Self>, mut state: MutexGuard<'_, State>, why: End) -> Option<Waker> {
        let fails = !matches!(state.fails, Fails::Never);
        state.ended.push_back(why);
        self.keep(state, true, fails)
    }

    /// Wakes the owners after an end was recorded. Returns the user code to run, as a waker.
    fn keep(
        self: &Arc<Self>,
        mut state: MutexGuard<'_, State>,
        is_error: bool,
        fails: bool,
    ) -> Option<Waker> {
        let fails = fails && !self.is_cancelled();
        if fails {
            self.is_cancelled.store(true, Relaxed);
        }
        self.show(&state);
        let mut wakers = Vec::new();
        let look = state.look();
        if look < Look::Some || !state.owners.wait() {
            drop(state); // More tasks will end, so the owners keep sleeping.
        } else {
            let ends = look == Look::Over || is_error || state.ended.len() >= ENOUGH;
            let owners = &mut state.owners;
            let end = ends.then(|| owners.end.take_all());
            let woken = owners.next.take_all().chain(end.into_iter().flatten());
            let polls = std::mem::take(&mut owners.polls);
            drop(state);
            for owner in woken {
                match owner {
                    Waiter::Thread(parker) => parker.unpark(),
                    Waiter::Task(waker) => wakers.push(waker),
                }
            }
            wakers.extend(polls.into_values());
        }
        if wakers.len() < 2 && !fails {
            return wakers.pop();
        }
        Some(Waker::from(Arc::new(AfterEnd {
            owners: Mutex::new(wakers),
            cancels: fails.then(|| Arc::clone(self)),
        })))
    }

    /// Cancels the tasks that have not started, the newest first, and returns their number. Asks running
    /// tasks to stop. Submitters that wait for room get their tasks back.
    pub(super) fn cancel(&self) -> usize {
        let state = self.state.lock();
        self.is_cancelled.store(true, Relaxed);
        let tasks = state.members.newest_first();
        drop(state);
        // USER CODE: wakers of futures that wait for room. After the unlock.
        self.token.cancel();
        tasks.into_iter().filter(TaskRef::cancel).count()
    }

    /// Takes an end, or `None` if all were taken. If tasks are left, calls `wait` to enter a waiter.
    fn take_or<R>(&self, wait: impl FnOnce(&mut State) -> R) -> Result<Option<Ended>, R> {
        let mut taken = self.taken.lock();
        if let Some(ended) = taken.pop_front() {
            return Ok(Some(ended));
        }
        let mut state = self.state.lock();
        if state.ended.is_empty() {
            if state.pending == 0 {
                return Ok(None);
            }
            return Err(wait(&mut state));
        }
        let State { members, ended, .. } = &mut *state;
        let batch = BATCH.min(ended.len());
        taken.extend(ended.drain(..batch).filter_map(|end| match end {
            End::Task(number) => members.remove(number).map(Ended::Task),
            End::WouldDeadlock => Some(Ended::Error(JoinError::WouldDeadlock)),
        }));
        self.show(&state);
        drop(state);
        Ok(taken.pop_front())
    }

    /// Takes an end if there is one.
    pub(super) fn take(&self) -> Poll<Option<Ended>> {
        self.take_or(|_| ()).map_or(Poll::Pending, Poll::Ready)
    }

    /// Takes an end, or enters the waiter and returns its ticket.
    pub(super) fn take_or_wait(&self, until: Until, waiter: Waiter) -> Result<Option<Ended>, u64> {
        let mut waiter = Some(waiter);
        let taken = self.take_or(|state| {
            let waiter = waiter.take();
            waiter.map_or(0, |waiter| state.owners.of(until).push(waiter))
        });
        // USER CODE: the drop of a waker that is not needed. A panic must not cost the caller the end.
        drop_quietly(waiter);
        taken
    }

    /// Removes the waiter with this ticket.
    pub(super) fn leave(&self, until: Until, ticket: u64) {
        let left = self.state.lock().owners.of(until).remove(ticket);
        // USER CODE: the drop of a waker. After the unlock.
        drop_quietly(left);
    }

    /// Takes an end, or enters the waker of `context`.
    pub(super) fn poll(&self, context: &Context<'_>) -> Poll<Option<Ended>> {
        // USER CODE: the waker's clone. Before the lock is taken. A panic is the poller's.
        let mut waker = Some(context.waker().clone());
        let taken = self.take_or(|state| {
            let waker = waker.take()?;
            let key = (
                waker.data() as usize,
                std::ptr::from_ref(waker.vtable()) as usize,
            );
            state.owners.polls.insert(key, waker)
        });
        let (taken, unneeded) = match taken {
            Ok(taken) => (Poll::Ready(taken), waker),
            Err(known) => (Poll::Pending, known),
        };
        // USER CODE: the drop of a waker that is stale or not needed.
        drop_quietly(unneeded);
        taken
    }

    /// Runs a task that has not started, or gives it up. Returns `false` if there is none.
    pub(super) fn help(self: &Arc<Self>) -> bool {
        loop {
            let unhelped = self.state.lock().members.next_unhelped();
            let Some((number, task)) = unhelped else {
                return false;
            };
            match task.help() {
                Some(true) => return true,
                Some(false) => {
                    self.give_up(number, &task);
                    return true;
                }
                None => {}
            }
        }
    }

    /// Detaches a task that may not be run in place. A worker still runs it, and its value is dropped.
    fn give_up(self: &Arc<Self>, number: u32, task: &TaskRef) {
        if task.cell().detach_listener() {
            let mut state = self.state.lock();
            state.pending -= 1;
            let removed = state.members.remove(number);
            let user_code = self.keep_error(state, End::WouldDeadlock);
            drop(removed);
            user_code.into_iter().for_each(wake);
        }
    }

    /// Cancels and detaches all tasks when the group is dropped. Drops values and wakers on the calling
    /// thread, so that the worker of the last task does not.
    pub(super) fn close(&self) {
        self.cancel();
        let mut taken = self.taken.lock();
        let mut state = self.state.lock();
        state.is_closed = true;
        let members = std::mem::replace(&mut state.members, Members::new());
        let ended = std::mem::take(&mut *taken);
        let owners = std::mem::replace(&mut state.owners, Owners::new());
        drop(state);
        drop(taken);
        let errors = std::mem::take(&mut *self.errors.lock());
        // USER CODE: the drops of values, then of wakers. Panics end there, so all are dropped.
        for task in members.newest_first() {
            task.cell().detach();
        }
        let kept = errors.first.into_iter().chain(errors.error);
        ended.into_iter().chain(kept).for_each(Ended::drop_quietly);
        drop_quietly(owners);
    }
}

#[cfg(all(test, not(anthill_loom)))]
mod tests {
    use std::future::Future;
    use std::pin::Pin;
    use std::task::{Context, Waker};

    use pool_core::{Clock, ManualClock, Pool, QueueDepth};
    use testkit::{CountingWaker, Gate};

    use crate::PoolExt;

    fn pool(clock: &ManualClock) -> Pool {
        let pool = Pool::builder().capacity(1).clock(clock.clone());
        let pool = pool.queue_depth(QueueDepth::Unlimited).build();
        pool.expect("it has a capacity")
    }

    #[testkit::test]
    fn a_submitted_task_that_completes_leaves_nothing_in_the_group() {
        let pool = pool(&ManualClock::new());
        let group = pool.group::<()>();
        for _ in 0..100 {
            group.submit(|| [0_u8; 64]).expect("it waits for room");
        }
        let shared = &group.shared().state;
        while shared.lock().pending > 0 {
            std::thread::yield_now();
        }
        let state = shared.lock();
        assert!(state.members.is_empty() && state.ended.is_empty());
    }

    #[testkit::test]
    fn waits_that_give_up_leave_no_waiters_behind() {
        const WAITS: usize = 20_000;
        let clock = ManualClock::new();
        let (pool, gate) = (pool(&clock), Gate::new());
        let (group, held) = (pool.group::<()>(), gate.clone());
        group.spawn(move || held.wait()).expect("there is room");
        gate.wait_for_arrivals(1);
        let waiters = || {
            let state = group.shared().state.lock();
            let owners = &state.owners;
            (owners.next.len(), owners.end.len(), owners.polls.len())
        };
        let mut context = Context::from_waker(Waker::noop());
        let mut futures: Vec<Pin<Box<dyn Future<Output = _>>>> = Vec::new();
        for _ in 0..WAITS {
            futures.push(Box::pin(group.wait_async()));
        }
        // 10,007 is a prime that does not divide `WAITS`, so each future is polled twice.
        for n in 0..2 * WAITS {
            let future = &mut futures[n * 10_007 % WAITS];
            assert!(future.as_mut().poll(&mut context).is_pending());
        }
        for _ in 0..WAITS {
            assert!(group.wait_timeout(clock.now()).is_err());
            assert!(group.next_timeout(clock.now()).is_err());
        }
        assert_eq!(waiters(), (0, WAITS, 0));
        let mut futures: Vec<_> = futures.into_iter().map(Some).collect();
        for n in 0..WAITS {
            futures[n * 10_007 % WAITS] = None;
        }
        assert_eq!(waiters(), (0, 0, 0));
        for _ in 0..100 {
            assert!(group.poll_next(&mut context).is_pending());
        }
        assert_eq!(waiters(), (0, 0, 1), "a waker that is known");
        let other = CountingWaker::new().waker();
        assert!(
            group
                .poll_next(&mut Context::from_waker(&other))
                .is_pending()
        );
        assert_eq!(waiters(), (0, 0, 2));
        gate.open();
    }
}
