//! A spawned task: closure, state and value in one shared allocation.
//!
//! The queue and the handle each hold a reference. The first claim decides what becomes of the
//! task: a worker or a joiner runs it, a cancel or a release drops what it captured. If the handle
//! was first, the entry in the queue is a *tombstone*.
//!
//! # Invariants
//! 1. A task is claimed at most once, and the body leaves the cell with that claim's owner.
//! 2. The value is laid aside as it arises. It is kept, which the handle sees, only after the
//!    pool's room and figures show the end.
//! 3. User code (the body, its destructor, wakers, the value's destructor) runs with no lock
//!    held.
//! 4. A value for which there is no handle is dropped as a part of its task. One whose handle goes
//!    later is dropped with the handle, on that thread.

use std::mem;
use std::sync::Arc;
use std::task::Waker;

use sync_shim::Mutex;
use sync_shim::atomic::{
    AtomicBool, AtomicU8,
    Ordering::{Acquire, Relaxed, Release},
};
use sync_shim::waiter::Waiter;

use crate::cancel::CancelToken;
use crate::current::{Frame, Running};
use crate::error::JoinError;
use crate::foreign::{Payload, drop_quietly, wake};
use crate::sched::ready::Priority;
use crate::task::promise::{End, Joined, Listener, Promise, Promised};
use crate::task::record::{Record, TaskRecord};
use crate::task::run::{Outcome, Resolve, TaskContext, TaskResult, Unrun};
use crate::task_hook::TaskOutcome;

/// What a spawned task does.
pub(crate) trait Body: Send + 'static {
    type Out: Send + 'static;
    /// What the task was given beside its closure: `()`, or a [`TaskRecord`].
    type Record: Record;
    fn call(self) -> Self::Out;
    /// The name that the panic hook gets.
    fn name() -> &'static str;
}

/// A body larger than this is put into the cell in a box. Taking it out moves it through a dozen
/// frames, which it would fill.
pub(crate) const LARGE: usize = 1024;

pub(crate) struct SpawnCell<B: Body> {
    claim: AtomicClaim,
    ended: AtomicBool,
    /// Its handle has asked it to stop. Relaxed: the token orders what is to be ordered.
    asked: AtomicBool,
    record: B::Record,
    slot: Mutex<Slot<B>>,
}

struct Slot<B: Body> {
    body: Place<B>,
    promise: Promise<B::Out>,
}

/// Where the body lies. A plain task's cell is no larger for the token: each spawn writes and reads
/// all of it.
enum Place<B> {
    Body(B),
    /// It was taken out by the one that has claimed it. A token that the handle cancels, from when
    /// the task asks for one.
    Taken(Option<CancelToken>),
}

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

/// Relaxed throughout: it says who may move the body, and nothing else is read because of it. The
/// body is moved under the slot's lock.
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

/// Whose affair a task's end is, as known when its value arises.
enum Interest {
    /// There is no handle.
    None,
    /// A handle that no future awaits: to show it the end runs no user code.
    Handle,
    /// A waker.
    Waker,
}

/// A cell as its handle sees it.
pub(crate) trait Joinable<R>: Resolve + Promised<R> {
    fn is_ended(&self) -> bool;
    /// Which party has claimed the task. `Unclaimed` may be out of date by now.
    fn claimed(&self) -> Claim;
    /// Claims it for the handle. `false` if it was claimed before.
    fn claim(&self) -> bool;
    /// Asks the task to stop, if it runs.
    fn ask_to_stop(&self);
    /// Drops what it captured. The handle has claimed it, and resolves it afterwards.
    fn drop_body(&self);
    /// Runs the body here. The handle has claimed it; it counts the outcome, then resolves.
    ///
    /// It is a part of the current task, and asked to stop with it: its own handle is waiting.
    /// `None`: it was given more than a closure, and is to be [run so](Self::run_recorded).
    fn run_body(&self, context: &TaskContext) -> Option<Outcome>;
    /// As [`run_body`](Self::run_body), for a task that was given more than a closure.
    fn run_recorded(self: Arc<Self>, context: &TaskContext) -> Outcome;
    fn detach(&self);
    /// Has the value go to a listener when the figures show the end; or takes it, as they do.
    fn listen(&self, listener: Arc<dyn Listener<R>>, number: u64) -> Option<Joined<R>>;
}

impl<B: Body> SpawnCell<B> {
    pub(crate) fn new(body: B, record: B::Record) -> Arc<Self> {
        Arc::new(Self {
            claim: AtomicClaim(AtomicU8::new(Claim::Unclaimed as u8)),
            ended: AtomicBool::new(false),
            asked: AtomicBool::new(false),
            record,
            slot: Mutex::new(Slot {
                body: Place::Body(body),
                promise: Promise::new(),
            }),
        })
    }

    /// Moves the body out, for the one that has claimed it. With what else is to be done under the
    /// lock.
    fn take(&self, then: impl FnOnce(&mut Promise<B::Out>)) -> B {
        let mut slot = self.slot.lock();
        then(&mut slot.promise);
        match mem::replace(&mut slot.body, Place::Taken(None)) {
            Place::Body(body) => body,
            Place::Taken(_) => unreachable!("a body is taken by the one that has claimed it, once"),
        }
    }

    /// Moves the body out. There will be no value, for this reason.
    fn take_unrun(&self, why: JoinError) -> B {
        self.take(|promise| {
            let unwanted = promise.lay_aside(Err(why));
            drop(unwanted); // An error without a panic's payload: no user code.
        })
    }

    /// The body of a task that was never accepted.
    pub(crate) fn take_back(&self) -> B {
        let ours = self.claim.set(Claim::Entry);
        assert!(ours, "a refused task is unrun, and has no handle yet");
        self.take(|_| {})
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

    pub(crate) fn priority(&self) -> Priority {
        let record = self.record.record();
        record.map_or(Priority::Normal, |record| record.priority)
    }

    /// The name that the task was given.
    pub(crate) fn given_name(&self) -> Option<&str> {
        self.record.record()?.name.as_deref()
    }

    /// Whether the handle has taken the task out, and given its room back.
    pub(crate) fn is_tombstone(&self) -> bool {
        self.claim.get() == Claim::Handle
    }

    /// Runs the body, as what is current on this thread, and lays its value aside.
    fn call(self: Arc<Self>, context: &TaskContext) -> (Arc<Self>, Outcome, Interest) {
        if self.record.record().is_some() {
            let (outcome, interest) = self.call_recorded(context);
            return (self, outcome, interest);
        }
        let body = self.take(|_| {});
        // The reference moves there and back: to count another would cost more than all the rest.
        let frame = Frame::enter(self);
        let ran = context.execute(B::name(), || body.call());
        let cell = frame.leave();
        let (outcome, interest) = cell.ended(ran, context);
        (cell, outcome, interest)
    }

    /// As [`call`](Self::call), for a task with a record: runs the body if it is not too late.
    #[inline(never)]
    fn call_recorded(self: &Arc<Self>, context: &TaskContext) -> (Outcome, Interest) {
        let Some(record) = self.record.record() else {
            unreachable!("a task without a record is called without one")
        };
        if let Some(why) = record.forbids_start(context) {
            drop_quietly(self.take(|_| {}));
            context.not_run(record.label(B::name()), why);
            let (outcome, error) = match why {
                TaskOutcome::Expired => (Outcome::Expired, JoinError::Expired),
                _ => (Outcome::Cancelled, JoinError::Cancelled),
            };
            return (outcome, self.stash(Err(error)));
        }
        let body = self.take(|_| {});
        let frame = Frame::enter(Arc::clone(self));
        let ran = record.execute(B::name(), context, || {
            let value = body.call();
            if record.is_detached {
                drop(value);
                return None;
            }
            Some(value)
        });
        frame.leave();
        match ran.transpose() {
            Some(ran) => self.ended(ran, context),
            None => (Outcome::Completed, Interest::None),
        }
    }

    /// The body has been run.
    #[inline]
    fn ended(&self, ran: Result<B::Out, Payload>, context: &TaskContext) -> (Outcome, Interest) {
        let (value, outcome) = match ran {
            Ok(value) => (Ok(value), Outcome::Completed),
            Err(payload) => (Err(context.panicked(payload)), Outcome::Panicked),
        };
        (outcome, self.stash(value))
    }

    /// Lays the value aside until the figures show the end; or drops it, as there is no handle.
    fn stash(&self, value: Joined<B::Out>) -> Interest {
        let mut slot = self.slot.lock();
        if let Some(unwanted) = slot.promise.lay_aside(value) {
            drop(slot);
            drop_quietly(unwanted); // Still a part of the task (invariant 4).
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
        let (cell, outcome, interest) = self.call(context);
        TaskResult {
            outcome,
            runs_user_code: matches!(interest, Interest::Waker),
            resolve: (!matches!(interest, Interest::None)).then_some(cell as _),
        }
    }

    /// The entry left the queue and will not be run. A body that was [seized](Self::seize) with it
    /// comes back.
    pub(crate) fn release(self: Arc<Self>) -> (TaskResult, Option<B>) {
        let (why, outcome) = match self.claim.get() {
            Claim::Release => (JoinError::Released, Outcome::Released),
            Claim::Discard => (JoinError::Discarded, Outcome::Discarded),
            // A tombstone.
            _ => return (TaskResult::without_handle(Outcome::Withdrawn), None),
        };
        let body = self.take_unrun(why);
        (TaskResult::new(outcome, Some(self)), Some(body))
    }
}

impl<B: Body> Resolve for SpawnCell<B> {
    fn resolve(&self) {
        if let Some(waker) = self.resolve_and_take_waker() {
            wake(waker);
        }
    }

    fn resolve_and_take_waker(&self) -> Option<Waker> {
        let mut slot = self.slot.lock();
        if !slot.promise.keep() {
            return None;
        }
        let end = slot.promise.take_end();
        drop(slot);
        self.ended.store(true, Release); // Pairs with the load in `is_ended`.
        match end? {
            End::Wake(Waiter::Thread(parker)) => {
                parker.unpark();
                None
            }
            End::Wake(Waiter::Task(waker)) => Some(waker),
            End::Give(listener, number, value) => listener.ended(number, value),
        }
    }
}

impl<B: Body> Running for SpawnCell<B> {
    fn name(&self) -> Option<&str> {
        self.given_name()
    }

    fn is_cancelled(&self) -> bool {
        let record = self.record.record();
        self.asked.load(Relaxed) || record.is_some_and(TaskRecord::is_cancelled)
    }

    fn cancel_with_task(&self, token: &CancelToken) {
        let mut slot = self.slot.lock();
        let Place::Taken(ours) = &mut slot.body else {
            unreachable!("a task that runs has taken its body")
        };
        let ours = ours.get_or_insert_default().clone();
        drop(slot);
        if self.asked.load(Relaxed) {
            ours.cancel(); // Step T4: the handle may have found no token yet.
        }
        token.cancel_with(&ours);
        if let Some(given) = self
            .record
            .record()
            .and_then(|record| record.token.as_ref())
        {
            token.cancel_with(given);
        }
    }
}

impl<B: Body> Promised<B::Out> for SpawnCell<B> {
    fn take_or_wait(&self, waiter: Option<Waiter>) -> Option<Joined<B::Out>> {
        let (value, unneeded) = self.slot.lock().promise.take_or_wait(waiter);
        drop_quietly(unneeded); // Perhaps a waker: the lock is free.
        value
    }
}

impl<B: Body> Joinable<B::Out> for SpawnCell<B> {
    fn is_ended(&self) -> bool {
        self.ended.load(Acquire) // Pairs with the stores in `resolve`.
    }

    fn claimed(&self) -> Claim {
        self.claim.get()
    }

    fn claim(&self) -> bool {
        self.claim.set(Claim::Handle)
    }

    fn drop_body(&self) {
        drop_quietly(self.take_unrun(JoinError::Cancelled));
    }

    fn run_body(&self, context: &TaskContext) -> Option<Outcome> {
        if self.record.record().is_some() {
            return None;
        }
        let body = self.take(|_| {});
        let ran = context.execute(B::name(), || body.call());
        Some(self.ended(ran, context).0)
    }

    fn run_recorded(self: Arc<Self>, context: &TaskContext) -> Outcome {
        self.call_recorded(context).0
    }

    fn ask_to_stop(&self) {
        // Step T4: before the lock.
        self.asked.store(true, Relaxed);
        let token = match &self.slot.lock().body {
            Place::Taken(token) => token.clone(),
            Place::Body(_) => None, // It is about to be taken out.
        };
        if let Some(token) = token {
            token.cancel();
        }
    }

    fn listen(&self, listener: Arc<dyn Listener<B::Out>>, number: u64) -> Option<Joined<B::Out>> {
        self.slot.lock().promise.listen(listener, number)
    }

    fn detach(&self) {
        let (value, stale) = self.slot.lock().promise.detach();
        // A panic of theirs would end here or at the worker, by chance; and an owner that is
        // unwinding would abort.
        drop_quietly(stale);
        drop_quietly(value);
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
    use crate::{JoinHandle, Pool};

    struct Seven;

    impl Body for Seven {
        type Out = u32;
        type Record = ();
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
            let cell = SpawnCell::new(Seven, ());
            let handle = JoinHandle::new(Arc::clone(&cell) as _, Arc::clone(pool.core()) as _);
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

    #[test]
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
