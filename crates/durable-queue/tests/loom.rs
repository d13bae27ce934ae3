//! Models of the pump's protocol: each names the racing parties and the harm they must not do.
//!
//! The store is the simulated one, whose steps are those of any store: one lock, no waiting. Time is
//! moved by the model alone, for the queue and for the store. No job is rescued: whatever a model
//! waits for has come before anything is shut down, and time is not moved on for it.
//!
//! Run with `cargo xtask loom`.
#![cfg(anthill_loom)]
#![expect(clippy::unwrap_used, reason = "a model that fails is to panic")]

use std::convert::Infallible;
use std::future::Future;
use std::num::NonZeroUsize;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use durable_queue::store::{Claim, Turn};
use durable_queue::testing::{Call, Fault, ManualStoreClock, SimStore};
use durable_queue::{
    Builder, Cancelled, DurableQueue, ErrorKind, FIRST_PAUSE, HORIZON, LEASE, Merge, Put, Reset,
    SettleError, ShutDown, Store, TakeError, Token, When, Worker,
};
use sync_shim::model::{JoinHandle, check, spawn};
use sync_shim::{ManualClock, Parker};

type Queue = DurableQueue<Vec<u8>, SimStore>;

struct World {
    clock: ManualClock,
    queue: Queue,
}

fn world() -> World {
    world_with(|_| Fault::None)
}

/// Whose jobs are handed out at their times without asking the store.
fn world_without_confirmation() -> World {
    world_of(false, |_| Fault::None)
}

fn world_with(plan: impl Fn(Call) -> Fault + Send + Sync + 'static) -> World {
    world_of(true, plan)
}

fn world_of(confirm: bool, plan: impl Fn(Call) -> Fault + Send + Sync + 'static) -> World {
    // Renewals would be parties of their own.
    world_built(plan, |queue| queue.heartbeat(false).confirm(confirm))
}

fn world_built(
    plan: impl Fn(Call) -> Fault + Send + Sync + 'static,
    set: impl FnOnce(Builder<Vec<u8>, SimStore>) -> Builder<Vec<u8>, SimStore>,
) -> World {
    let clock = ManualClock::new();
    let store = SimStore::with_faults(ManualStoreClock::new(&clock), plan);
    let queue = set(Queue::builder("queue", store).clock(clock.clone()));
    World {
        clock,
        queue: queue.build().unwrap(),
    }
}

/// All ways in which a call fails.
const FAULTS: [Fault; 4] = [
    Fault::Before,
    Fault::After,
    Fault::Twice,
    Fault::Refused(ErrorKind::Busy),
];

/// The call of this kind with this number, from 0, fails.
fn fails(failing: Call, number: usize, fault: Fault) -> impl Fn(Call) -> Fault + Send + Sync {
    let count = AtomicUsize::new(0);
    // Relaxed: a number of its own for each call is all that is wanted.
    move |call| {
        if call == failing && count.fetch_add(1, Relaxed) == number {
            fault
        } else {
            Fault::None
        }
    }
}

/// The pump rests after it.
fn is_error(fault: Fault) -> bool {
    !matches!(fault, Fault::Twice)
}

impl World {
    fn push(&self, name: u8, when: impl Into<When>) -> durable_queue::JobId {
        self.queue.push(vec![name], when).unwrap()
    }

    /// Another thread with a handle of the queue.
    fn beside<R: Send + 'static>(
        &self,
        work: impl FnOnce(&Queue) -> R + Send + 'static,
    ) -> JoinHandle<R> {
        let queue = self.queue.clone();
        spawn(move || work(&queue))
    }

    /// Another thread takes a job and acknowledges it: which one.
    fn taker(&self) -> JoinHandle<u8> {
        self.beside(take_and_ack)
    }

    /// The same, if it has a lease.
    fn trier(&self) -> JoinHandle<(u8, Result<(), SettleError>)> {
        self.beside(|queue| {
            let taken = queue.take().unwrap();
            (taken[0], taken.ack())
        })
    }

    fn push_keyed(&self, name: u8, when: impl Into<When>) {
        assert!(matches!(push_keyed(&self.queue, name, when), Put::New(_)));
    }

    /// Ends the pump's rest after it has met this, if it rests.
    fn rest_after(&self, fault: Fault) {
        if is_error(fault) {
            self.clock.wait_for_sleepers(1);
            self.clock.advance(FIRST_PAUSE);
        }
    }

    /// The end, once all that the model waits for has come.
    fn end(self) {
        assert_eq!(self.queue.shutdown(LEASE), ShutDown::Finished);
    }

    fn left(&self) -> u32 {
        self.queue.store_stats().unwrap().jobs
    }
}

fn push_keyed(queue: &Queue, name: u8, when: impl Into<When>) -> Put {
    queue
        .push_keyed("key", vec![name], when, Merge::Latest)
        .unwrap()
}

fn take_and_ack(queue: &Queue) -> u8 {
    let taken = queue.take().unwrap();
    let name = taken[0];
    taken.ack().unwrap();
    name
}

/// Claims and starts what is due, as another process would.
fn steal(store: &SimStore) -> usize {
    let claim = Claim {
        token: Token::random(),
        max: 1,
        start: 1,
        ahead: 0,
        horizon: HORIZON,
        lease: LEASE,
        urgent_first: true,
    };
    let Turn { claimed, .. } = store.turn("queue", &[], Some(claim)).unwrap();
    claimed.unwrap().leases.len()
}

/// Wakes a thread that runs a future.
struct Unpark(Parker);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

fn block_on<F: Future>(future: F) -> F::Output {
    let parker = Parker::new();
    let waker = Waker::from(Arc::new(Unpark(parker.clone())));
    let mut future = pin!(future);
    loop {
        match future.as_mut().poll(&mut Context::from_waker(&waker)) {
            Poll::Ready(output) => return output,
            Poll::Pending => parker.park(),
        }
    }
}

/// The store is looked at, a job comes, and the pump goes to sleep: it must have heard.
#[testkit::model(preemptions = 3)]
fn a_push_racing_the_pumps_sleep_is_handed_out() {
    let world = world();
    let taker = world.taker();
    world.push(1, When::NOW);
    assert_eq!(taker.join().unwrap(), 1);
    world.end();
}

/// The job is far off when the pump looks, and is moved before it sleeps.
#[testkit::model(preemptions = 3)]
fn a_reset_racing_the_pumps_sleep_is_handed_out() {
    let world = world();
    let id = world.push(1, LEASE);
    let taker = world.taker();
    assert_eq!(world.queue.reset(id, When::NOW).unwrap(), Reset::Moved);
    assert_eq!(taker.join().unwrap(), 1);
    world.end();
}

/// The pump has learned that the queue is paused, and must not sleep over its resumption.
#[testkit::model(preemptions = 3)]
fn a_resumption_racing_the_pumps_sleep_is_not_slept_over() {
    let world = world();
    world.push(1, When::NOW);
    world.queue.pause(true).unwrap();
    let taker = world.taker();
    world.queue.pause(false).unwrap();
    assert_eq!(taker.join().unwrap(), 1);
    world.end();
}

/// The pump has gone to sleep for one call when the other asks.
#[testkit::model(preemptions = 2)]
fn two_calls_racing_two_pushes_both_end() {
    let world = world();
    let taker = world.taker();
    world.push(1, When::NOW);
    world.push(2, When::NOW);
    let mut names = [take_and_ack(&world.queue), taker.join().unwrap()];
    names.sort_unstable();
    assert_eq!(names, [1, 2]);
    world.end();
}

/// A job is claimed ahead, the tick comes, and a cancel: one of them has it.
#[testkit::model(preemptions = 2)]
fn a_cancel_racing_the_start_of_a_claim_ahead_has_one_winner() {
    let world = world();
    let id = world.push(1, HORIZON);
    world.push(2, HORIZON);
    let taker = world.taker();
    world.clock.wait_for_sleepers(1); // Both are claimed, and the pump waits for the tick.
    let canceller = world.beside(move |queue| queue.cancel(id).unwrap());
    world.clock.advance(HORIZON);
    let name = taker.join().unwrap();
    match canceller.join().unwrap() {
        Cancelled::Gone { .. } => assert_eq!((name, world.left()), (2, 0)),
        Cancelled::Taken | Cancelled::Never => assert_eq!((name, world.left()), (1, 1)),
    }
    world.end();
}

/// The same for a reset, which leaves the job for later.
#[testkit::model(preemptions = 2)]
fn a_reset_racing_the_start_of_a_claim_ahead_has_one_winner() {
    let world = world();
    let id = world.push(1, HORIZON);
    world.push(2, HORIZON);
    let taker = world.taker();
    world.clock.wait_for_sleepers(1); // One is claimed, and the pump waits for the tick.
    let resetter = world.beside(move |queue| queue.reset(id, LEASE).unwrap());
    world.clock.advance(HORIZON);
    let name = taker.join().unwrap();
    match resetter.join().unwrap() {
        Reset::Moved => assert_eq!(name, 2),
        Reset::Taken | Reset::Never => assert_eq!(name, 1),
    }
    assert_eq!(world.left(), 1);
    world.end();
}

/// And for a push that is merged into it, or is a job of its own as a handler has that one.
#[testkit::model(preemptions = 2)]
fn a_merge_racing_the_start_of_a_claim_ahead_has_one_winner() {
    let world = world();
    world.push_keyed(1, HORIZON);
    world.push(2, HORIZON);
    let taker = world.taker();
    world.clock.wait_for_sleepers(1);
    let pusher = world.beside(|queue| push_keyed(queue, 3, LEASE));
    world.clock.advance(HORIZON);
    let name = taker.join().unwrap();
    match pusher.join().unwrap() {
        Put::Merged(_) => assert_eq!((name, world.left()), (2, 1)),
        Put::New(_) => assert_eq!((name, world.left()), (1, 2)),
        Put::Kept(_) => panic!("the later one counts"),
    }
    world.end();
}

/// The holder does not ask, and hears of the cancel before the tick or after it. In any case nothing else
/// is lost, and a handler that has the job all the same has no lease.
#[testkit::model(preemptions = 2)]
fn a_cancel_racing_a_start_without_confirmation_loses_nothing() {
    let world = world_without_confirmation();
    let id = world.push(1, HORIZON);
    world.push(2, HORIZON);
    let taker = world.beside(|queue| {
        let taken = queue.take().unwrap();
        (taken[0], taken.ack())
    });
    world.clock.wait_for_sleepers(1); // It is claimed, and the pump waits for the tick.
    let canceller = world.beside(move |queue| queue.cancel(id).unwrap());
    world.clock.advance(HORIZON);
    let (name, acked) = taker.join().unwrap();
    let cancelled = canceller.join().unwrap();
    match (cancelled.is_gone(), name) {
        (true, 2) => assert!(acked.is_ok() && world.left() == 0),
        (true, _) => assert!(acked.unwrap_err().is_stale() && world.left() == 1),
        (false, _) => assert!(acked.is_ok() && name == 1 && world.left() == 1),
    }
    world.end();
}

/// The same for a reset.
#[testkit::model(preemptions = 2)]
fn a_reset_racing_a_start_without_confirmation_loses_nothing() {
    let world = world_without_confirmation();
    let id = world.push(1, HORIZON);
    world.push(2, HORIZON);
    let taker = world.trier();
    world.clock.wait_for_sleepers(1);
    let resetter = world.beside(move |queue| queue.reset(id, LEASE).unwrap());
    world.clock.advance(HORIZON);
    let (name, acked) = taker.join().unwrap();
    match (resetter.join().unwrap(), name) {
        (Reset::Moved, 2) => assert!(acked.is_ok() && world.left() == 1),
        (Reset::Moved, _) => assert!(acked.unwrap_err().is_stale() && world.left() == 2),
        (_, _) => assert!(acked.is_ok() && name == 1 && world.left() == 1),
    }
    world.end();
}

/// And for a merge, which takes the job from a handler that has it and has not been confirmed.
#[testkit::model(preemptions = 2)]
fn a_merge_racing_a_start_without_confirmation_loses_nothing() {
    let world = world_without_confirmation();
    world.push_keyed(1, HORIZON);
    world.push(2, HORIZON);
    let taker = world.trier();
    world.clock.wait_for_sleepers(1);
    let pusher = world.beside(|queue| push_keyed(queue, 3, LEASE));
    world.clock.advance(HORIZON);
    let (name, acked) = taker.join().unwrap();
    match (pusher.join().unwrap(), name) {
        (Put::Merged(_), 2) => assert!(acked.is_ok() && world.left() == 1),
        (Put::Merged(_), _) => assert!(acked.unwrap_err().is_stale() && world.left() == 2),
        (_, _) => assert!(acked.is_ok() && name == 1 && world.left() == 2),
    }
    world.end();
}

/// The claim is on its way as the cancel comes, which has returned before the tick.
#[testkit::model(preemptions = 2)]
fn a_cancel_racing_a_claim_without_confirmation_recalls_the_job() {
    let world = world_without_confirmation();
    let id = world.push(1, HORIZON);
    world.push(2, HORIZON);
    let taker = world.taker();
    assert!(world.queue.cancel(id).unwrap().is_gone());
    world.clock.wait_for_sleepers(1);
    world.clock.advance(HORIZON);
    assert_eq!(taker.join().unwrap(), 2);
    assert_eq!(world.left(), 0);
    world.end();
}

/// A claimer steals the job as its lease ends, and its holder settles it: one of them has it.
#[testkit::model(preemptions = 3)]
fn an_ack_racing_the_end_of_the_lease_has_one_winner() {
    let world = world();
    world.push(1, When::NOW);
    let taken = world.queue.take().unwrap();
    world.clock.advance(LEASE);
    let thief = world.beside(|queue| steal(queue.store()));
    let acked = taken.ack();
    let stolen = thief.join().unwrap();
    match acked {
        Ok(()) => assert_eq!((stolen, world.left()), (0, 0)),
        Err(SettleError::Stale) => assert_eq!((stolen, world.left()), (1, 1)),
        Err(other) => panic!("{other}"),
    }
    world.end();
}

/// The same for an extension: the party whose answer says that it has the lease has it.
#[testkit::model(preemptions = 3)]
fn an_extension_racing_the_end_of_the_lease_has_one_winner() {
    let world = world();
    world.push(1, When::NOW);
    let taken = world.queue.take().unwrap();
    world.clock.advance(LEASE);
    let thief = world.beside(|queue| steal(queue.store()));
    let extended = taken.extend(LEASE).is_ok();
    let stolen = thief.join().unwrap();
    assert_eq!(stolen, usize::from(!extended));
    assert_eq!(taken.is_lost(), !extended);
    assert_eq!(taken.ack().is_ok(), extended);
    world.end();
}

/// The pump renews by itself, as the lease ends: it has it, or the handler is told.
#[testkit::model(preemptions = 2)]
fn a_renewal_racing_the_end_of_the_lease_has_one_winner() {
    let world = world_built(|_| Fault::None, |queue| queue);
    world.push(1, When::NOW);
    let taken = world.queue.take().unwrap();
    world.clock.wait_for_sleepers(1); // Until the renewal.
    let thief = {
        let clock = world.clock.clone();
        world.beside(move |queue| {
            clock.advance(LEASE);
            steal(queue.store())
        })
    };
    let stolen = thief.join().unwrap();
    let acked = taken.ack();
    match stolen {
        0 => assert!(acked.is_ok() && world.left() == 0),
        _ => assert!(acked.unwrap_err().is_stale() && world.left() == 1),
    }
    world.end();
}

/// Explores a model once with each fault.
fn each_fault(name: &str, bound: Option<usize>, body: fn(Fault)) {
    for fault in FAULTS {
        check(&format!("{name} ({fault:?})"), bound, move || body(fault));
    }
}

/// The turn that extends the lease fails as it ends. A cancel then takes the job from its holder.
#[testkit::model(preemptions = 2, check = each_fault)]
fn an_extension_that_fails_racing_the_end_of_the_lease_has_one_winner(fault: Fault) {
    let world = world_with(fails(Call::Turn, 1, fault));
    let id = world.push(1, When::NOW);
    let taken = world.queue.take().unwrap();
    world.clock.advance(LEASE);
    let canceller = {
        let clock = world.clock.clone();
        world.beside(move |queue| {
            let cancelled = queue.cancel(id).unwrap();
            if is_error(fault) {
                clock.wait_for_sleepers(1); // The pump, after the error.
                clock.advance(FIRST_PAUSE);
            }
            cancelled
        })
    };
    let extended = taken.extend(LEASE).is_ok();
    let is_gone = canceller.join().unwrap().is_gone();
    assert_eq!(is_gone, !extended);
    assert_eq!(taken.is_lost(), !extended);
    assert_eq!(taken.ack().is_ok(), extended);
    world.end();
}

/// The turn fails that starts what was claimed ahead, and a cancel comes.
#[testkit::model(preemptions = 2, check = each_fault)]
fn a_start_that_fails_racing_a_cancel_has_one_winner(fault: Fault) {
    let world = world_with(fails(Call::Turn, 1, fault));
    let id = world.push(1, HORIZON);
    world.push(2, HORIZON);
    let taker = world.taker();
    world.clock.wait_for_sleepers(1);
    let canceller = world.beside(move |queue| queue.cancel(id).unwrap());
    world.clock.advance(HORIZON);
    world.rest_after(fault);
    let name = taker.join().unwrap();
    match canceller.join().unwrap() {
        Cancelled::Gone { .. } => assert_eq!((name, world.left()), (2, 0)),
        Cancelled::Taken | Cancelled::Never => assert_eq!((name, world.left()), (1, 1)),
    }
    world.end();
}

/// The same, and a reset.
#[testkit::model(preemptions = 1, check = each_fault)]
fn a_start_that_fails_racing_a_reset_has_one_winner(fault: Fault) {
    let world = world_with(fails(Call::Turn, 1, fault));
    let id = world.push(1, HORIZON);
    world.push(2, HORIZON);
    let taker = world.taker();
    world.clock.wait_for_sleepers(1);
    let resetter = world.beside(move |queue| queue.reset(id, LEASE).unwrap());
    world.clock.advance(HORIZON);
    world.rest_after(fault);
    let name = taker.join().unwrap();
    match resetter.join().unwrap() {
        Reset::Moved => assert_eq!(name, 2),
        Reset::Taken | Reset::Never => assert_eq!(name, 1),
    }
    assert_eq!(world.left(), 1);
    world.end();
}

/// It is the cancel that fails. Who called does not know, and the job is there or is not.
#[testkit::model(preemptions = 1, check = each_fault)]
fn a_cancel_that_fails_racing_the_start_of_a_claim_ahead_has_one_winner(fault: Fault) {
    let world = world_with(fails(Call::Cancel, 0, fault));
    let id = world.push(1, HORIZON);
    world.push(2, HORIZON);
    let taker = world.taker();
    world.clock.wait_for_sleepers(1);
    let canceller = world.beside(move |queue| queue.cancel(id).is_err());
    world.clock.advance(HORIZON);
    let name = taker.join().unwrap();
    assert_eq!(canceller.join().unwrap(), is_error(fault));
    let is_gone = name == 2;
    assert_eq!(world.left(), u32::from(!is_gone));
    assert!(!is_gone || matches!(fault, Fault::After | Fault::Twice));
    world.end();
}

/// The answer to the claim is lost, and that to what it holds fails as well.
#[testkit::model(preemptions = 1, check = each_fault)]
fn a_claim_that_is_asked_for_in_vain_racing_a_push_loses_nothing(fault: Fault) {
    let [claim, asked] = [
        fails(Call::Turn, 0, Fault::After),
        fails(Call::HeldBy, 0, fault),
    ];
    let world = world_with(move |call| match claim(call) {
        Fault::None => asked(call),
        fault => fault,
    });
    world.push(1, When::NOW);
    let taker = world.beside(|queue| [take_and_ack(queue), take_and_ack(queue)]);
    world.push(2, When::NOW);
    world.rest_after(Fault::After);
    if is_error(fault) {
        world.clock.wait_for_sleepers(1);
        world.clock.advance(FIRST_PAUSE * 2);
    }
    let mut names = taker.join().unwrap();
    names.sort_unstable();
    assert_eq!(names, [1, 2]);
    assert_eq!(world.left(), 0);
    world.end();
}

/// The queue closes while the pump has a claim under way.
#[testkit::model(preemptions = 3)]
fn a_shutdown_racing_a_claim_leaves_the_job_to_others() {
    let world = world();
    world.push(1, When::NOW);
    let taker = world.beside(|queue| match queue.take() {
        Ok(taken) => {
            taken.ack().unwrap();
            true
        }
        Err(TakeError::ShutDown) => false,
        Err(other) => panic!("{other}"),
    });
    assert_eq!(world.queue.shutdown(LEASE), ShutDown::Finished);
    let is_done = taker.join().unwrap();
    // Not held by a lease of the queue that is gone: it is free at once.
    assert_eq!(steal(world.queue.store()), usize::from(!is_done));
}

/// The pump goes on as long as a job is held: the call must not wait for its end.
#[testkit::model(preemptions = 3)]
fn a_close_racing_a_call_ends_it_while_a_handler_is_at_work() {
    let world = world();
    world.push(1, When::NOW);
    let taken = world.queue.take().unwrap();
    let taker = world.beside(|queue| queue.take().unwrap_err().is_shut_down());
    world.queue.close();
    assert!(taker.join().unwrap());
    taken.ack().unwrap();
    assert_eq!(world.left(), 0);
    world.end();
}

/// The handler waits for the call, and the call wants a job of the handler's batch: neither waits for ever.
#[testkit::model(preemptions = 2)]
fn a_call_racing_a_worker_with_a_batch_gets_the_rest_of_it_or_waits_for_none() {
    let world = world();
    world.push(1, When::NOW);
    world.push(2, When::NOW);
    let is_taken = Parker::new();
    let waits = is_taken.clone();
    let worker = Worker::builder(world.queue.clone())
        .batch(NonZeroUsize::new(2).unwrap())
        .start(move |_| {
            waits.park();
            Ok::<_, Infallible>(())
        })
        .unwrap();
    world.queue.take().unwrap().ack().unwrap();
    is_taken.unpark();
    assert_eq!(worker.shutdown(LEASE), ShutDown::Finished);
    // What the handler had not begun is given back: it is free at once.
    let left = usize::try_from(world.left()).unwrap();
    assert_eq!(steal(world.queue.store()), left);
}

/// The pump's time is up while a handler settles: the handler is answered, one way or the other.
#[testkit::model(preemptions = 3)]
fn an_ack_racing_the_end_of_the_pump_is_answered() {
    let world = world();
    world.push(1, When::NOW);
    let taken = world.queue.take().unwrap();
    let ender = world.beside(|queue| queue.shutdown(Duration::ZERO));
    let acked = taken.ack();
    let ended = ender.join().unwrap();
    match acked {
        Ok(()) => assert_eq!(world.left(), 0),
        Err(SettleError::ShutDown) => {
            assert_eq!((ended, world.left()), (ShutDown::TimedOut, 1));
        }
        Err(other) => panic!("{other}"),
    }
}

/// The call gives up as the pump serves it: the job is the call's, or the next one's.
#[testkit::model(preemptions = 2)]
fn a_call_that_times_out_racing_its_job_loses_nothing() {
    let world = world();
    let taker = world.beside(|queue| match queue.take_timeout(HORIZON) {
        Ok(taken) => {
            taken.ack().unwrap();
            true
        }
        Err(TakeError::TimedOut) => false,
        Err(other) => panic!("{other}"),
    });
    world.push(1, When::NOW);
    world.clock.advance(HORIZON);
    if !taker.join().unwrap() {
        let taken = world.queue.take().unwrap();
        assert_eq!(taken.attempt(), 1);
        taken.ack().unwrap();
    }
    assert_eq!(world.left(), 0);
    world.end();
}

/// The same for a future that is dropped.
#[testkit::model(preemptions = 3)]
fn a_dropped_future_racing_its_job_loses_nothing() {
    let world = world();
    world.push(1, When::NOW);
    {
        let mut future = world.queue.take_async();
        let mut context = Context::from_waker(Waker::noop());
        assert!(Pin::new(&mut future).poll(&mut context).is_pending());
    }
    let taken = block_on(world.queue.take_async()).unwrap();
    assert_eq!(taken.attempt(), 1);
    block_on(taken.ack_async()).unwrap();
    assert_eq!(world.left(), 0);
    world.end();
}

/// The answer to the claim is lost: the pump finds by its token what it holds.
#[testkit::model(preemptions = 2)]
fn a_claim_whose_answer_is_lost_racing_a_push_loses_nothing() {
    let turns = AtomicUsize::new(0);
    // Relaxed: only the pump makes turns.
    let plan = move |call| match call {
        Call::Turn if turns.fetch_add(1, Relaxed) == 0 => Fault::After,
        _ => Fault::None,
    };
    let world = world_with(plan);
    world.push(1, When::NOW);
    let taker = world.beside(|queue| [take_and_ack(queue), take_and_ack(queue)]);
    world.push(2, When::NOW);
    world.clock.wait_for_sleepers(1); // The pump rests after the error.
    world.clock.advance(FIRST_PAUSE);
    let mut names = taker.join().unwrap();
    names.sort_unstable();
    assert_eq!(names, [1, 2]);
    assert_eq!(world.left(), 0);
    world.end();
}

/// The queue closes as a call acknowledges one job and asks for the next: the pump finds both, or the
/// acknowledgement alone.
#[testkit::model(preemptions = 2)]
fn an_ack_with_a_take_racing_a_shutdown_is_carried_out() {
    let world = world();
    world.push(1, When::NOW);
    world.push(2, When::NOW);
    let done = world.queue.take_many(NonZeroUsize::MIN).unwrap();
    let ender = world.beside(|queue| queue.shutdown(LEASE));
    let taken = world.queue.ack_and_take_many(done, NonZeroUsize::MIN);
    let expected = match taken {
        Ok(taken) => {
            let acked = taken.into_iter().map(|job| job.ack().is_ok());
            assert!(acked.eq([true]));
            0
        }
        Err(error) => {
            assert!(error.is_shut_down());
            1
        }
    };
    assert_eq!(ender.join().unwrap(), ShutDown::Finished);
    assert_eq!(world.left(), expected);
}

/// The answer to the ack is lost, and the queue shuts down: the job is done, and said to be unknown.
#[testkit::model(preemptions = 2)]
fn an_ack_whose_answer_is_lost_racing_a_shutdown_is_not_said_to_be_stale() {
    let turns = AtomicUsize::new(0);
    let is_lost = Parker::new();
    let lost = is_lost.clone();
    // Relaxed: only the pump makes turns.
    let plan = move |call| match call {
        Call::Turn if turns.fetch_add(1, Relaxed) == 1 => {
            lost.unpark();
            Fault::After
        }
        _ => Fault::None,
    };
    let world = world_with(plan);
    world.push(1, When::NOW);
    let taken = world.queue.take().unwrap();
    let ender = world.beside(|queue| queue.shutdown(LEASE));
    let mover = {
        let clock = world.clock.clone();
        spawn(move || {
            is_lost.park();
            clock.wait_for_sleepers(2); // The pump after the error, and the shutdown.
            clock.advance(FIRST_PAUSE);
        })
    };
    assert!(matches!(taken.ack(), Err(SettleError::Unknown)));
    assert_eq!(ender.join().unwrap(), ShutDown::Finished);
    mover.join().unwrap();
    assert_eq!(world.left(), 0);
}

/// Two calls are under way, and a third push waits in the line: for a leader that takes it along, or for
/// the lead.
#[testkit::model(preemptions = 3)]
fn pushes_that_meet_are_all_entered_and_each_has_its_own_answer() {
    let world = world();
    let push = |name| world.beside(move |queue| queue.push(vec![name], LEASE).unwrap());
    let others = [push(1), push(2)];
    let own = (3, world.push(3, LEASE));
    let [one, two] = others.map(|other| other.join().unwrap());
    for (name, id) in [(1, one), (2, two), own] {
        let cancelled = world.queue.cancel(id).unwrap();
        assert!(
            matches!(&cancelled, Cancelled::Gone { payload, .. } if *payload == [name]),
            "{name}: {cancelled:?}"
        );
    }
    assert_eq!(world.left(), 0);
    world.end();
}
