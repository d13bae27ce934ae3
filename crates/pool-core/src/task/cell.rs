//! A spawned task: closure, state and value in one shared allocation.
//!
//! The queue and the handle each hold a reference. A worker, a join, a cancellation and a release compete to claim the
//! task. The first claim decides who runs it or drops its captures. If the handle is first, the entry in the queue is a
//! *tombstone*.
//!
//! The type of a cell is erased when it is created. Only [`Content`], which calls the closure and moves the value, is
//! compiled per closure.
//!
//! # Invariants
//! 1. A task is claimed at most once.
//! 2. One party at a time accesses the content: the owner of the claim until it lays the outcome aside, then the owner
//!    of the [`Stored`] that the promise returned.
//! 3. The outcome is laid aside when it arises. It is kept, which makes it visible to the handle, only after the end of
//!    the task is included in the pool's room and figures.
//! 4. User code (the body, its destructor, wakers, the value's destructor) runs with no lock held.
//! 5. The value of a detached task is dropped as part of the task. If the handle is dropped later, the value is dropped
//!    with it, on that thread.

use std::any::Any;
use std::mem;
use std::sync::Arc;
use std::task::Waker;

use sync_shim::atomic::{
    AtomicBool, AtomicU8,
    Ordering::{Acquire, Relaxed, Release},
};
use sync_shim::cell::UnsafeCell;
use sync_shim::waiter::Waiter;
use sync_shim::{Mutex, MutexGuard};

use crate::cancel::CancelToken;
use crate::error::JoinError;
use crate::foreign::{Payload, drop_quietly, wake};
use crate::sched::load::Outcome;
use crate::sched::ready::Priority;
use crate::task::current::{Frame, Running};
use crate::task::large::is_large;
use crate::task::options::{TaskRecord, WaitLimits};
use crate::task::promise::{End, Joined, Listener, Promise, Promised};
use crate::task::run::{Resolver, TaskContext, TaskResult, Unrun};

/// The body of a spawned task.
pub trait Body: Send + 'static {
    /// Its value.
    type Out: Send + 'static;
    /// Runs it. May unwind.
    fn call(self, context: &TaskContext) -> Self::Out;
    /// The name passed to hooks.
    fn name() -> &'static str;
}

/// Takes the body out of a cell.
pub(crate) type Take<'a> = &'a mut dyn FnMut(&mut dyn Content);

/// The content of a cell: the body, then its value.
pub trait Content: Send {
    /// Calls the body and replaces it by its value.
    fn call(&mut self, context: &TaskContext);
    /// Moves the body or the value into `place`, an empty `Option` of its type. Does nothing if the type differs.
    fn take(&mut self, place: &mut dyn Any);
    /// Returns the value, if there is one.
    fn value(&self) -> Option<&dyn Any>;
    /// Drops the body or the value.
    fn clear(&mut self);
}

enum State<B: Body> {
    Body(B),
    Value(B::Out),
    Empty,
}

impl<B: Body> Content for State<B> {
    fn call(&mut self, context: &TaskContext) {
        // Emptied before the call, so that a panic of the body leaves nothing to be dropped twice.
        if let Self::Body(body) = mem::replace(self, Self::Empty) {
            *self = Self::Value(body.call(context));
        }
    }

    fn take(&mut self, place: &mut dyn Any) {
        if let Some(place) = place.downcast_mut::<Option<B::Out>>()
            && matches!(self, Self::Value(_))
            && let Self::Value(value) = mem::replace(self, Self::Empty)
        {
            *place = Some(value);
        } else if let Some(place) = place.downcast_mut::<Option<B>>()
            && matches!(self, Self::Body(_))
            && let Self::Body(body) = mem::replace(self, Self::Empty)
        {
            *place = Some(body);
        }
    }

    fn value(&self) -> Option<&dyn Any> {
        match self {
            Self::Value(value) => Some(value),
            Self::Body(_) | Self::Empty => None,
        }
    }

    fn clear(&mut self) {
        drop(mem::replace(self, Self::Empty));
    }
}

/// The content of a cell whose body is [large](is_large): the body's box, then its value.
enum LargeState<B: Body> {
    Body(Box<B>),
    Value(B::Out),
    Empty,
}

impl<B: Body> Content for LargeState<B> {
    fn call(&mut self, context: &TaskContext) {
        if let Self::Body(body) = mem::replace(self, Self::Empty) {
            *self = Self::Value(body.call(context));
        }
    }

    fn take(&mut self, place: &mut dyn Any) {
        if let Some(place) = place.downcast_mut::<Option<B::Out>>()
            && matches!(self, Self::Value(_))
            && let Self::Value(value) = mem::replace(self, Self::Empty)
        {
            *place = Some(value);
        } else if let Some(place) = place.downcast_mut::<Option<B>>()
            && matches!(self, Self::Body(_))
            && let Self::Body(body) = mem::replace(self, Self::Empty)
        {
            *place = Some(*body);
        }
    }

    fn value(&self) -> Option<&dyn Any> {
        match self {
            Self::Value(value) => Some(value),
            Self::Body(_) | Self::Empty => None,
        }
    }

    fn clear(&mut self) {
        drop(mem::replace(self, Self::Empty));
    }
}

/// Ownership of the value in a cell.
#[derive(Debug)]
pub struct Stored(());

/// A spawned task, from its acceptance until its value is taken.
#[expect(missing_debug_implementations, reason = "never leaves a sister crate")]
pub struct SpawnCell<C: ?Sized = dyn Content> {
    claim: AtomicClaim,
    ended: AtomicBool,
    /// Whether the handle has asked the task to stop.
    // Relaxed: the token orders everything that must be ordered.
    asked: AtomicBool,
    /// Whether the task keeps its place: its entry is not in the pool's queue.
    // Relaxed: written before the handle exists.
    keeps_place: AtomicBool,
    type_name: fn() -> &'static str,
    /// The options of the task, if it has any.
    record: Option<Box<TaskRecord>>,
    slot: Mutex<Slot>,
    content: UnsafeCell<C>,
}

struct Slot {
    /// The token that the handle cancels. Created when the task asks for one.
    token: Option<CancelToken>,
    promise: Promise<Stored>,
}

// SAFETY: one party at a time accesses the content (invariant 2), which is `Send`. The rest is `Sync`.
unsafe impl<C: ?Sized + Send> Sync for SpawnCell<C> {}

/// Which party has claimed a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Claim {
    Unclaimed,
    /// The holder of its entry: a worker, or a caller that runs it at a full pool.
    Entry,
    /// A `release_now`, which drops the captures.
    Release,
    /// A full pool, which drops the captures.
    Discard,
    /// The handle, which cancels the task or runs it in place. The section that made the claim has freed the room.
    Handle,
}

/// The claim of a task.
// Relaxed throughout, although it decides who owns the content: the content was written before the cell was sent to any
// of the parties, and sending the cell orders the two.
struct AtomicClaim(AtomicU8);

impl AtomicClaim {
    fn get(&self) -> Claim {
        let all = [Claim::Entry, Claim::Release, Claim::Discard, Claim::Handle];
        let value = self.0.load(Relaxed);
        let found = all.into_iter().find(|&claim| claim as u8 == value);
        found.unwrap_or(Claim::Unclaimed)
    }

    /// Returns `false` if another claim came first.
    fn set(&self, claim: Claim) -> bool {
        let unclaimed = Claim::Unclaimed as u8;
        let won = self
            .0
            .compare_exchange(unclaimed, claim as u8, Relaxed, Relaxed);
        won.is_ok()
    }
}

/// The parties interested in the end of a task, as known when its outcome arises.
enum Interest {
    /// Nobody: the task is detached.
    None,
    /// A handle without a waker: resolving it runs no user code.
    Handle,
    /// A handle with a waker, which is user code.
    Waker,
}

impl SpawnCell {
    #[inline]
    pub(crate) fn new<B: Body>(body: B, record: Option<Box<TaskRecord>>) -> Arc<Self> {
        if const { is_large::<B>() } {
            Self::large(Box::new(body), record)
        } else {
            Arc::new(SpawnCell::of(State::Body(body), B::name, record))
        }
    }

    #[inline(never)]
    fn large<B: Body>(body: Box<B>, record: Option<Box<TaskRecord>>) -> Arc<Self> {
        Arc::new(SpawnCell::of(LargeState::Body(body), B::name, record))
    }
}

impl<C: Content> SpawnCell<C> {
    #[inline]
    fn of(content: C, type_name: fn() -> &'static str, record: Option<Box<TaskRecord>>) -> Self {
        SpawnCell {
            claim: AtomicClaim(AtomicU8::new(Claim::Unclaimed as u8)),
            ended: AtomicBool::new(false),
            asked: AtomicBool::new(false),
            keeps_place: AtomicBool::new(false),
            type_name,
            record,
            slot: Mutex::new(Slot {
                token: None,
                promise: Promise::new(),
            }),
            content: UnsafeCell::new(content),
        }
    }
}

impl SpawnCell {
    /// Accesses the content.
    ///
    /// # Safety
    /// The caller must own the content (invariant 2).
    #[inline]
    unsafe fn content<R>(&self, access: impl FnOnce(&mut (dyn Content + 'static)) -> R) -> R {
        self.content.with_mut(|content| {
            // SAFETY: the caller owns the content, so no other party accesses it.
            access(unsafe { &mut *content })
        })
    }

    /// Drops the body or the value. No lock may be held.
    ///
    /// # Safety
    /// As for [`content`](Self::content).
    unsafe fn drop_content(&self) {
        // SAFETY: the caller owns the content.
        let clear = || unsafe { self.content(Content::clear) };
        // USER CODE: the drop of a detached value, before the task's end is counted. A panic ends here.
        if let Err(payload) = crate::foreign::guarded(clear) {
            crate::foreign::discard(payload);
        }
    }

    /// Takes the body of a task that was refused.
    pub(crate) fn take_back<B: Body>(&self) -> B {
        // Claimed first, because only the owner of the claim may access the content (invariant 2).
        let ours = self.claim.set(Claim::Entry);
        assert!(ours, "a refused task is unrun, and has no handle yet");
        let mut place = None;
        // SAFETY: invariant 2: this call has just claimed the task.
        unsafe { self.content(|content| content.take(&mut place)) };
        place.expect("the task comes back to the call that made its cell")
    }

    /// Moves the value out if it is a `T`.
    #[expect(clippy::needless_pass_by_value, reason = "it can be taken once")]
    pub(crate) fn take_value<T: 'static>(&self, stored: Stored) -> Option<T> {
        let mut place = None;
        // SAFETY: invariant 2: the owner of `stored`, which ends here, owns the value.
        unsafe { self.content(|content| content.take(&mut place)) };
        let Stored(()) = stored;
        place
    }

    /// Drops the value. Panics if its destructor does.
    #[expect(clippy::needless_pass_by_value, reason = "who has it owns the value")]
    pub(crate) fn drop_value(&self, stored: Stored) {
        let Stored(()) = stored;
        // SAFETY: invariant 2: the owner of `stored`, which ends here, owned the value.
        unsafe { self.content(Content::clear) };
    }

    /// Drops an outcome that no handle takes, with its value.
    fn drop_outcome(&self, outcome: Joined<Stored>) {
        match outcome {
            // SAFETY: invariant 2: the owner of the `Stored` owns the value.
            Ok(Stored(())) => unsafe { self.drop_content() },
            // USER CODE: the drop of a panic's payload.
            Err(error) => _ = drop_quietly(error),
        }
    }

    /// Records why there will be no value.
    fn refuse_value(&self, why: JoinError) {
        let unwanted = self.slot.lock().promise.lay_aside(Err(why));
        drop(unwanted); // Runs no user code, because this error has no panic payload.
    }

    /// Claims the task for the section that removes its entry unstarted. Returns `false` if the entry is a tombstone, which
    /// holds no room.
    pub(crate) fn seize(&self, why: Unrun) -> bool {
        let claim = match why {
            Unrun::Released => Claim::Release,
            Unrun::Discarded => Claim::Discard,
        };
        // Only a handle's claim has freed the room, so any other entry must still be counted out.
        self.claim.set(claim) || !self.is_tombstone()
    }

    /// Returns the limits of the task's wait for room, if it has options.
    pub fn limits(&self) -> Option<WaitLimits<'static>> {
        self.record().map(TaskRecord::limits)
    }

    pub(crate) fn record(&self) -> Option<&TaskRecord> {
        self.record.as_deref()
    }

    pub(crate) fn priority(&self) -> Priority {
        let record = self.record();
        record.map_or(Priority::Normal, |record| record.priority)
    }

    /// Returns the name that the task was given.
    pub(crate) fn given_name(&self) -> Option<&str> {
        self.record()?.name.as_deref()
    }

    /// Returns the name of its type.
    pub(crate) fn type_name(&self) -> &'static str {
        (self.type_name)()
    }

    /// Whether the handle has claimed the task and freed its room.
    pub(crate) fn is_tombstone(&self) -> bool {
        self.claim.get() == Claim::Handle
    }

    /// Calls the body as the current task of this thread and lays its outcome aside. The caller has claimed the task.
    #[inline]
    fn call(self: &Arc<Self>, context: &TaskContext) -> (Outcome, Interest) {
        match &self.record {
            None => {
                let frame = Frame::of_cell(self);
                let ran = self.execute(context);
                drop(frame);
                self.ended(ran, context)
            }
            Some(record) => self.call_recorded(record, context),
        }
    }

    #[inline]
    fn execute(&self, context: &TaskContext) -> Result<(), Payload> {
        context.execute_by(self.type_name, || {
            // SAFETY: invariant 2: the caller has claimed the task.
            unsafe { self.content(|content| content.call(context)) }
        })
    }

    /// Like [`call`](Self::call), for a task with a record. Drops the body if the task is cancelled or too late.
    #[inline(never)]
    fn call_recorded(
        self: &Arc<Self>,
        record: &TaskRecord,
        context: &TaskContext,
    ) -> (Outcome, Interest) {
        if let Some(why) = record.forbids_start(context) {
            // SAFETY: invariant 2: the caller has claimed the task.
            unsafe { self.drop_content() };
            context.not_run(record.label(self.type_name()), why);
            let outcome = Outcome::not_run(why);
            let error = match outcome {
                Outcome::Expired => JoinError::Expired,
                _ => JoinError::Cancelled,
            };
            return (outcome, self.stash(Err(error)));
        }
        let frame = Frame::of_cell(self);
        let ran = record.execute(self.type_name(), context, || {
            // SAFETY: invariant 2: the caller has claimed the task.
            unsafe { self.content(|content| content.call(context)) }
        });
        drop(frame);
        self.ended(ran, context)
    }

    /// Stores the outcome of a called body.
    #[inline]
    fn ended(&self, ran: Result<(), Payload>, context: &TaskContext) -> (Outcome, Interest) {
        match ran {
            Ok(()) => (Outcome::Completed, self.stash(Ok(Stored(())))),
            Err(payload) => {
                // Of the value, too: a subscriber may have panicked after the body had returned.
                // SAFETY: invariant 2: the caller has claimed the task.
                unsafe { self.drop_content() };
                (
                    Outcome::Panicked,
                    self.stash(Err(context.panicked(payload))),
                )
            }
        }
    }

    /// Lays the outcome aside until the end of the task is counted. Drops it if the task is detached.
    fn stash(&self, outcome: Joined<Stored>) -> Interest {
        let mut slot = self.slot.lock();
        if let Some(unwanted) = slot.promise.lay_aside(outcome) {
            drop(slot);
            self.drop_outcome(unwanted); // After the unlock, as part of the task (invariants 4 and 5).
            return Interest::None;
        }
        // A waker that is registered after this is found when the handle is resolved (step W9).
        if slot.promise.has_waker() {
            Interest::Waker
        } else {
            Interest::Handle
        }
    }

    /// Runs the task for a worker that has popped its entry.
    pub(crate) fn run(self: Arc<Self>, context: &TaskContext) -> TaskResult {
        // The handle has won the race and freed the room; the entry is all that is left.
        if !self.claim.set(Claim::Entry) {
            return TaskResult::without_handle(Outcome::Withdrawn); // A tombstone.
        }
        let (outcome, interest) = self.call(context);
        TaskResult {
            outcome,
            runs_user_code: matches!(interest, Interest::Waker),
            resolve: (!matches!(interest, Interest::None)).then_some(Resolver::Cell(self)),
        }
    }

    /// Ends a task whose entry was removed unstarted. If the entry's holder had [seized](Self::seize) the task, its body is
    /// passed to `take`, or dropped.
    pub(crate) fn release(self: Arc<Self>, take: Option<Take<'_>>) -> TaskResult {
        let (why, outcome) = match self.claim.get() {
            Claim::Release => (JoinError::Released, Outcome::Released),
            Claim::Discard => (JoinError::Discarded, Outcome::Discarded),
            // A tombstone.
            _ => return TaskResult::without_handle(Outcome::Withdrawn),
        };
        match take {
            // SAFETY: invariant 2: the holder of the entry has the claim.
            Some(take) => unsafe { self.content(|content| take(content)) },
            // SAFETY: the same.
            None => unsafe { self.drop_content() },
        }
        self.refuse_value(why);
        TaskResult::with_resolver(outcome, Some(Resolver::Cell(self)))
    }

    /// Makes the outcome visible to the handle, after the end of the task was counted. The caller must call the returned
    /// waker.
    pub(crate) fn resolve_and_take_waker(&self) -> Option<Waker> {
        let mut slot = self.slot.lock();
        // The handle was dropped after the outcome was laid aside, and has dropped the value itself.
        if !slot.promise.keep() {
            return None;
        }
        let end = slot.promise.take_end();
        drop(slot);
        // After the outcome was kept: a thread that finds the flag set finds the outcome under the lock.
        self.ended.store(true, Release); // Pairs with the load in `is_ended`.
        match end? {
            End::Wake(Waiter::Thread(parker)) => {
                parker.unpark();
                None
            }
            End::Wake(Waiter::Task(waker)) => Some(waker),
            End::Tell(listener, number, is_error) => listener.ended(number, is_error, self),
        }
    }

    /// The same, and calls the waker.
    pub(crate) fn resolve(&self) {
        if let Some(waker) = self.resolve_and_take_waker() {
            wake(waker);
        }
    }
}

/// The part of a cell that its handle uses.
impl SpawnCell {
    pub(crate) fn is_ended(&self) -> bool {
        self.ended.load(Acquire) // Pairs with the store in `resolve_and_take_waker`.
    }

    /// Returns the claim. `Unclaimed` may be out of date already.
    pub(crate) fn claimed(&self) -> Claim {
        self.claim.get()
    }

    pub(crate) fn keeps_place(&self) -> bool {
        self.keeps_place.load(Relaxed)
    }

    /// See [`RawHandle::keep_place`](crate::task::handle::RawHandle::keep_place).
    pub fn keep_place(&self) {
        self.keeps_place.store(true, Relaxed);
    }

    /// Claims the task for the handle. Returns `false` if it was claimed before.
    pub(crate) fn claim_for_handle(&self) -> bool {
        self.claim.set(Claim::Handle)
    }

    /// Drops the captures of a task that the handle has claimed. The handle resolves it afterwards.
    pub(crate) fn drop_claimed(&self) {
        // SAFETY: invariant 2: the handle has claimed the task.
        unsafe { self.drop_content() };
        self.refuse_value(JoinError::Cancelled);
    }

    /// Runs a task that the handle has claimed. The handle counts the outcome, then resolves it.
    // Without a frame of its own if it has no record: its own handle is waiting, so only the current task can be asked to
    // stop.
    pub(crate) fn run_claimed(self: &Arc<Self>, context: &TaskContext) -> Outcome {
        match &self.record {
            None => self.ended(self.execute(context), context).0,
            Some(record) => self.call_recorded(record, context).0,
        }
    }

    /// Asks a running task to stop.
    pub(crate) fn ask_to_stop(&self) {
        // Step T4: before the lock, so that a task that creates its token later sees the request.
        self.asked.store(true, Relaxed);
        // Cloned out, because cancelling wakes waiters, which must not happen under the lock.
        let token = self.slot.lock().token.clone();
        if let Some(token) = token {
            token.cancel();
        }
    }

    /// Registers a listener for the end of the task. If the end has been counted, returns whether it is an error instead.
    pub fn listen(&self, listener: Arc<dyn Listener>, number: u32) -> Option<bool> {
        self.slot.lock().promise.listen(listener, number)
    }

    /// Applies `is` to the value if it can be taken, without moving it.
    pub fn is_value(&self, is: fn(&dyn Any) -> bool) -> bool {
        let slot = self.slot.lock();
        if !matches!(slot.promise.kept(), Some(Ok(_))) {
            return false;
        }
        // SAFETY: invariant 2: a party that takes the value takes the outcome first, under the lock held here.
        unsafe { self.content(|content| content.value().is_some_and(is)) }
    }

    /// Detaches the task: the value is dropped here, or as part of the task.
    pub fn detach(&self) {
        self.detach_from(self.slot.lock());
    }

    /// Detaches the task if its listener has not been told of its end. The listener is never told then.
    pub fn detach_listener(&self) -> bool {
        let slot = self.slot.lock();
        let is_listened = slot.promise.is_listened();
        if is_listened {
            self.detach_from(slot);
        }
        is_listened
    }

    fn detach_from(&self, mut slot: MutexGuard<'_, Slot>) {
        let (outcome, stale) = slot.promise.detach();
        drop(slot);
        // Quietly: otherwise a panic would be caught here or at the worker, depending on a race, and an owner that is
        // already unwinding would abort.
        // USER CODE: the drop of a stale waker or of the value, on the owner's thread.
        drop_quietly(stale);
        if let Some(outcome) = outcome {
            self.drop_outcome(outcome);
        }
    }
}

impl Promised<Stored> for SpawnCell {
    fn take_or_wait(&self, waiter: Option<Waiter>) -> Option<Joined<Stored>> {
        let (outcome, unneeded) = self.slot.lock().promise.take_or_wait(waiter);
        // USER CODE: the drop of a waker that is not needed.
        drop_quietly(unneeded);
        outcome
    }
}

impl Running for Arc<SpawnCell> {
    fn name(&self) -> Option<&str> {
        self.given_name()
    }

    fn is_cancelled(&self) -> bool {
        // The flag first: most tasks have no record.
        self.asked.load(Relaxed) || self.record().is_some_and(TaskRecord::is_cancelled)
    }

    fn cancel_with_task(&self, token: &CancelToken) {
        let ours = self.slot.lock().token.get_or_insert_default().clone();
        if self.asked.load(Relaxed) {
            // Step T4: the handle set the flag before it looked for a token, and may have found none.
            ours.cancel();
        }
        token.cancel_with(&ours);
        if let Some(record) = self.record() {
            record.cancel_with_task(token);
        }
    }
}

#[cfg(all(test, unix, not(anthill_loom)))]
mod tests {
    use std::future::Future;
    use std::panic::{AssertUnwindSafe, catch_unwind};
    use std::pin::Pin;
    use std::task::{Context, Poll};

    use testkit::in_child;

    use super::*;
    use crate::task::handle::RawHandle;
    use crate::{JoinHandle, Pool};

    struct Seven;

    impl Body for Seven {
        type Out = u32;
        fn call(self, _: &TaskContext) -> u32 {
            7
        }
        fn name() -> &'static str {
            "seven"
        }
    }

    /// Calls `action` in a forked child with a handle whose lock was held as the process forked.
    /// The child is ended by an alarm if it waits for that lock.
    fn in_forked_child(test: &str, action: impl FnOnce(JoinHandle<u32>)) {
        let ended = in_child(test, || {
            let pool = Pool::builder().capacity(1).build().expect("it has one");
            let cell = SpawnCell::new(Seven, None);
            let raw = RawHandle::new(Arc::clone(&cell), Arc::clone(pool.core()) as _);
            let handle = JoinHandle::of(raw);
            let held = cell.slot.lock();
            // SAFETY: there is no other thread; the child leaves by `_exit`.
            let child = unsafe { libc::fork() };
            assert!(child >= 0, "the system forks");
            if child == 0 {
                // SAFETY: ends this process in time, if nothing else does.
                unsafe { libc::alarm(30) };
                let done = catch_unwind(AssertUnwindSafe(|| action(handle)));
                // SAFETY: ends the process and nothing else.
                unsafe { libc::_exit(i32::from(done.is_err())) };
            }
            let mut status = -1;
            // SAFETY: `status` is ours to write.
            let waited = unsafe { libc::waitpid(child, &raw mut status, 0) };
            assert_eq!(
                (waited, status),
                (child, 0),
                "a signal: it waited for the lock"
            );
            drop(held);
            drop(handle);
        });
        assert!(ended.is_ok(), "{ended:?}");
    }

    #[testkit::test]
    fn a_handle_whose_lock_a_fork_left_held_says_so_instead_of_hanging() {
        let test =
            "task::cell::tests::a_handle_whose_lock_a_fork_left_held_says_so_instead_of_hanging";
        in_forked_child(test, |mut handle| {
            let mut context = Context::from_waker(Waker::noop());
            let polled = Pin::new(&mut handle).poll(&mut context);
            assert!(matches!(polled, Poll::Ready(Err(JoinError::Forked))));
            assert!(!handle.is_finished() && !handle.cancel());
            assert!(matches!(handle.join(), Err(JoinError::Forked)));
        });
    }

    #[test]
    fn a_try_on_an_inherited_handle_says_that_the_task_stayed_behind() {
        let test =
            "task::cell::tests::a_try_on_an_inherited_handle_says_that_the_task_stayed_behind";
        in_forked_child(test, |handle| {
            assert!(matches!(handle.try_join(), Ok(Err(JoinError::Forked))));
        });
    }

    #[test]
    fn dropping_an_inherited_handle_takes_no_lock() {
        let test = "task::cell::tests::dropping_an_inherited_handle_takes_no_lock";
        in_forked_child(test, drop);
    }
}
