//! A spawned task: closure, state and value in one shared allocation.
//!
//! The queue and the handle each hold a reference. The first claim decides which party runs the task
//! or drops its captures: a worker, a joiner, a cancel or a release. If the handle is first, the entry
//! in the queue is a *tombstone*.
//!
//! A cell's type is erased where it is made. Everything but [`Content`], which calls the closure and
//! moves the value, is compiled once, not for each closure that is spawned.
//!
//! # Invariants
//! 1. A task is claimed at most once.
//! 2. The content is reached by one party at a time: by the owner of the claim until it lays the
//!    outcome aside, then by the owner of the [`Stored`] that the promise gave out.
//! 3. The outcome is laid aside as it arises. It is kept, which the handle sees, only after the
//!    pool's room and figures show the end.
//! 4. User code (the body, its destructor, wakers, the value's destructor) runs with no lock held.
//! 5. A value without a handle is dropped as a part of its task. A value whose handle goes later is
//!    dropped with the handle, on that thread.

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

use crate::error::JoinError;
use crate::foreign::{Payload, drop_quietly, wake};
use crate::sched::join_spin::has_unparked_joiner;
use crate::sched::ready::Priority;
use crate::task::cancel::CancelToken;
use crate::task::current::{Frame, Running};
use crate::task::promise::{End, Joined, Listener, Promise, Promised};
use crate::task::record::TaskRecord;
use crate::task::run::{Outcome, Resolver, TaskContext, TaskResult, Unrun};

/// What a spawned task does.
pub(crate) trait Body: Send + 'static {
    type Out: Send + 'static;
    fn call(self) -> Self::Out;
    /// The name that hooks get.
    fn name() -> &'static str;
}

/// What lies in a cell: the body, then its value.
pub trait Content: Send {
    /// Calls the body, and leaves its value in its place.
    fn call(&mut self);
    /// Moves the body or the value into `place`, an empty `Option` of its type. Of another type,
    /// nothing happens.
    fn take(&mut self, place: &mut dyn Any);
    /// The value, if it is there.
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
    fn call(&mut self) {
        if let Self::Body(body) = mem::replace(self, Self::Empty) {
            *self = Self::Value(body.call());
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

/// The value lies in the cell, and belongs to the owner of this.
#[derive(Debug)]
pub struct Stored(());

/// A spawned task, from its acceptance until its value is taken.
#[expect(missing_debug_implementations, reason = "never leaves a sister crate")]
pub struct SpawnCell<C: ?Sized = dyn Content> {
    claim: AtomicClaim,
    ended: AtomicBool,
    /// Its handle has asked it to stop. Relaxed: the token orders what is to be ordered.
    asked: AtomicBool,
    type_name: fn() -> &'static str,
    /// What the task was given in addition to its closure, if anything.
    record: Option<Box<TaskRecord>>,
    slot: Mutex<Slot>,
    content: UnsafeCell<C>,
}

struct Slot {
    /// A token that the handle cancels, from when the task asks for one.
    token: Option<CancelToken>,
    promise: Promise<Stored>,
}

// SAFETY: the content is reached by one party at a time (invariant 2), and may be sent. The rest is
// `Sync`.
unsafe impl<C: ?Sized + Send> Sync for SpawnCell<C> {}

/// Which party has claimed a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Claim {
    Unclaimed,
    /// The holder of its entry: a worker, or a caller that runs it in place at a full pool.
    Entry,
    /// A `release_now`, which will drop what the task captured.
    Release,
    /// A full pool, which will.
    Discard,
    /// Its handle, to cancel it or to run it in place, in a section of the pool that has its entry:
    /// its room is given back.
    Handle,
}

/// Relaxed throughout: it says which party owns the content. The content reaches the winner with the
/// cell, which was sent to it after the content was written and before any claim.
struct AtomicClaim(AtomicU8);

impl AtomicClaim {
    fn get(&self) -> Claim {
        let all = [Claim::Entry, Claim::Release, Claim::Discard, Claim::Handle];
        let value = self.0.load(Relaxed);
        let found = all.into_iter().find(|&claim| claim as u8 == value);
        found.unwrap_or(Claim::Unclaimed)
    }

    /// `false` if another claim came first.
    fn set(&self, claim: Claim) -> bool {
        let unclaimed = Claim::Unclaimed as u8;
        let won = self
            .0
            .compare_exchange(unclaimed, claim as u8, Relaxed, Relaxed);
        won.is_ok()
    }
}

/// Whose affair a task's end is, as known when its outcome arises.
enum Interest {
    /// There is no handle.
    None,
    /// A handle that no future awaits: to show it the end runs no user code.
    Handle,
    /// A waker.
    Waker,
}

impl SpawnCell {
    #[inline]
    pub(crate) fn new<B: Body>(body: B, record: Option<Box<TaskRecord>>) -> Arc<Self> {
        Arc::new(SpawnCell {
            claim: AtomicClaim(AtomicU8::new(Claim::Unclaimed as u8)),
            ended: AtomicBool::new(false),
            asked: AtomicBool::new(false),
            type_name: B::name,
            record,
            slot: Mutex::new(Slot {
                token: None,
                promise: Promise::new(),
            }),
            content: UnsafeCell::new(State::Body(body)),
        })
    }

    /// Reaches the content.
    ///
    /// # Safety
    /// The caller owns it (invariant 2).
    #[inline]
    unsafe fn content<R>(&self, access: impl FnOnce(&mut (dyn Content + 'static)) -> R) -> R {
        self.content.with_mut(|content| {
            // SAFETY: no other party reaches it, says the caller.
            access(unsafe { &mut *content })
        })
    }

    /// Drops body or value, with no lock held.
    ///
    /// # Safety
    /// As for [`content`](Self::content).
    unsafe fn drop_content(&self) {
        // SAFETY: the caller's.
        let clear = || unsafe { self.content(Content::clear) };
        // USER CODE: the drop of a detached value, before the task's end is counted. A panic ends here.
        if let Err(payload) = crate::foreign::guarded(clear) {
            crate::foreign::discard(payload);
        }
    }

    /// The body of a task that was never accepted.
    pub(crate) fn take_back<B: Body>(&self) -> B {
        let ours = self.claim.set(Claim::Entry);
        assert!(ours, "a refused task is unrun, and has no handle yet");
        let mut place = None;
        // SAFETY: invariant 2: the claim is ours.
        unsafe { self.content(|content| content.take(&mut place)) };
        place.expect("the task comes back to the call that made its cell")
    }

    /// Moves the value out, if it is a `T`.
    #[expect(clippy::needless_pass_by_value, reason = "it can be taken once")]
    pub fn take_value<T: 'static>(&self, stored: Stored) -> Option<T> {
        let mut place = None;
        // SAFETY: invariant 2: the value is the owner's of `stored`, which ends here.
        unsafe { self.content(|content| content.take(&mut place)) };
        let Stored(()) = stored;
        place
    }

    /// Drops the value. Panics if its destructor does.
    #[expect(clippy::needless_pass_by_value, reason = "who has it owns the value")]
    pub fn drop_value(&self, stored: Stored) {
        let Stored(()) = stored;
        // SAFETY: invariant 2: the value was the owner's of `stored`, which ends here.
        unsafe { self.content(Content::clear) };
    }

    /// Drops an outcome that nobody takes, and its value with it.
    fn drop_outcome(&self, outcome: Joined<Stored>) {
        match outcome {
            // SAFETY: invariant 2: the value is the owner's of the `Stored`.
            Ok(Stored(())) => unsafe { self.drop_content() },
            // USER CODE: the drop of a panic's payload.
            Err(error) => _ = drop_quietly(error),
        }
    }

    /// There will be no value, for this reason.
    fn refuse_value(&self, why: JoinError) {
        let unwanted = self.slot.lock().promise.lay_aside(Err(why));
        drop(unwanted); // An error without a panic's payload: no user code.
    }

    /// Claims the task in the section that takes its entry out unrun. `false` if it is a tombstone
    /// that holds no room.
    pub(crate) fn seize(&self, why: Unrun) -> bool {
        let claim = match why {
            Unrun::Released => Claim::Release,
            Unrun::Discarded => Claim::Discard,
        };
        self.claim.set(claim) || !self.is_tombstone()
    }

    pub(crate) fn record(&self) -> Option<&TaskRecord> {
        self.record.as_deref()
    }

    pub(crate) fn priority(&self) -> Priority {
        let record = self.record();
        record.map_or(Priority::Normal, |record| record.priority)
    }

    /// The name that the task was given.
    pub(crate) fn given_name(&self) -> Option<&str> {
        self.record()?.name.as_deref()
    }

    /// The name of its type.
    pub(crate) fn type_name(&self) -> &'static str {
        (self.type_name)()
    }

    /// Whether the handle has taken the task out, and given its room back.
    pub(crate) fn is_tombstone(&self) -> bool {
        self.claim.get() == Claim::Handle
    }

    /// Calls the body, as what is current on this thread, and lays its outcome aside. The caller has
    /// claimed the task.
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
            unsafe { self.content(Content::call) }
        })
    }

    /// As [`call`](Self::call), for a task with a record: calls the body if it is not too late.
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
            unsafe { self.content(Content::call) }
        });
        drop(frame);
        self.ended(ran, context)
    }

    /// The body has been called.
    #[inline]
    fn ended(&self, ran: Result<(), Payload>, context: &TaskContext) -> (Outcome, Interest) {
        match ran {
            Ok(()) => (Outcome::Completed, self.stash(Ok(Stored(())))),
            Err(payload) => {
                // A subscriber may have panicked after the body had returned.
                // SAFETY: invariant 2: the caller has claimed the task.
                unsafe { self.drop_content() };
                (
                    Outcome::Panicked,
                    self.stash(Err(context.panicked(payload))),
                )
            }
        }
    }

    /// Lays the outcome aside until the figures show the end; or drops it, as there is no handle.
    fn stash(&self, outcome: Joined<Stored>) -> Interest {
        let mut slot = self.slot.lock();
        if let Some(unwanted) = slot.promise.lay_aside(outcome) {
            drop(slot);
            self.drop_outcome(unwanted); // Still a part of the task (invariant 5).
            return Interest::None;
        }
        if slot.promise.has_waker() {
            Interest::Waker
        } else {
            Interest::Handle
        }
    }

    /// A worker has popped the entry.
    pub(crate) fn run(self: Arc<Self>, context: &TaskContext) -> TaskResult {
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

    /// The entry left the queue and will not be run. If the task was [seized](Self::seize) with it,
    /// its body goes to `place`, an empty `Option` of its type, or is dropped without one.
    pub(crate) fn release(self: Arc<Self>, place: Option<&mut dyn Any>) -> TaskResult {
        let (why, outcome) = match self.claim.get() {
            Claim::Release => (JoinError::Released, Outcome::Released),
            Claim::Discard => (JoinError::Discarded, Outcome::Discarded),
            // A tombstone.
            _ => return TaskResult::without_handle(Outcome::Withdrawn),
        };
        match place {
            // SAFETY: invariant 2: the claim is that of the holder of the entry.
            Some(place) => unsafe { self.content(|content| content.take(place)) },
            // SAFETY: the same.
            None => unsafe { self.drop_content() },
        }
        self.refuse_value(why);
        TaskResult::with_resolver(outcome, Some(Resolver::Cell(self)))
    }

    /// Shows the outcome to the handle, now that room and figures show the end. A waker is left to
    /// the caller.
    pub(crate) fn resolve_and_take_waker(&self) -> Option<Waker> {
        let mut slot = self.slot.lock();
        if !slot.promise.keep() {
            return None;
        }
        let end = slot.promise.take_end();
        drop(slot);
        self.ended.store(true, Release); // Pairs with the load in `is_ended`.
        match end? {
            End::Wake(Waiter::Thread(parker)) => {
                has_unparked_joiner(parker.unpark_sleeper());
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

/// A cell as its handle sees it.
impl SpawnCell {
    pub(crate) fn is_ended(&self) -> bool {
        self.ended.load(Acquire) // Pairs with the store in `resolve_and_take_waker`.
    }

    /// Which party has claimed the task. `Unclaimed` may be out of date by now.
    pub(crate) fn claimed(&self) -> Claim {
        self.claim.get()
    }

    /// Claims it for the handle. `false` if it was claimed before.
    pub(crate) fn claim_for_handle(&self) -> bool {
        self.claim.set(Claim::Handle)
    }

    /// Drops what it captured. The handle has claimed it, and resolves it afterwards.
    pub(crate) fn drop_claimed(&self) {
        // SAFETY: invariant 2: the handle has claimed the task.
        unsafe { self.drop_content() };
        self.refuse_value(JoinError::Cancelled);
    }

    /// Runs the body here. The handle has claimed it; it counts the outcome, then resolves.
    ///
    /// A task without a record is a part of the current task, and asked to stop with it: its own
    /// handle is waiting.
    pub(crate) fn run_claimed(self: &Arc<Self>, context: &TaskContext) -> Outcome {
        match &self.record {
            None => self.ended(self.execute(context), context).0,
            Some(record) => self.call_recorded(record, context).0,
        }
    }

    /// Asks the task to stop, if it runs.
    pub(crate) fn ask_to_stop(&self) {
        // Step T4: before the lock.
        self.asked.store(true, Relaxed);
        let token = self.slot.lock().token.clone();
        if let Some(token) = token {
            token.cancel();
        }
    }

    /// Has a listener told when the figures show the end; or says, as they do, whether it is an error.
    pub fn listen(&self, listener: Arc<dyn Listener>, number: u32) -> Option<bool> {
        self.slot.lock().promise.listen(listener, number)
    }

    /// Whether `is` says so of the value, if that can be taken. It stays where it is.
    pub fn is_value(&self, is: fn(&dyn Any) -> bool) -> bool {
        let slot = self.slot.lock();
        if !matches!(slot.promise.kept(), Some(Ok(_))) {
            return false;
        }
        // SAFETY: invariant 2: whoever takes the value takes the outcome first, under the lock.
        unsafe { self.content(|content| content.value().is_some_and(is)) }
    }

    /// Gives the value up: it is dropped here, or as a part of the task.
    pub fn detach(&self) {
        self.detach_from(self.slot.lock());
    }

    /// Detaches it if its listener has not been told of its end, and never will be then.
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
        // A panic of theirs would end here or at the worker, by chance; and an owner that is
        // unwinding would abort.
        // USER CODE: the drop of a stale waker or of the value, on the owner's thread. A panic ends here.
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
        self.asked.load(Relaxed) || self.record().is_some_and(TaskRecord::is_cancelled)
    }

    fn cancel_with_task(&self, token: &CancelToken) {
        let ours = self.slot.lock().token.get_or_insert_default().clone();
        if self.asked.load(Relaxed) {
            ours.cancel(); // Step T4: the handle may have found no token yet.
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
        fn call(self) -> u32 {
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
