//! Models of the pump's protocol. Each names the racing parties and the harm that must not happen.
//!
//! The store is the simulated one, whose steps are those of any store: one lock, no waiting. Only the model
//! moves time, for the queue and the store. No safety net hides a lost job: everything that a model waits for
//! happens before a shutdown, and without a move of time.
//!
//! Run with `cargo xtask loom`.
#![cfg(anthill_loom)]
#![expect(clippy::unwrap_used, reason = "a model that fails is to panic")]

mod ahead;
mod calls;
mod cancels;
mod close;
mod futures;
mod handlers;
mod kinds;
mod leases;
mod lost;
mod sleep;
mod threads;

use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::task::{Context, Poll, Wake, Waker};

use durable_queue::internals::FIRST_PAUSE;
use durable_queue::store::{Claim, Turn};
use durable_queue::{
    Builder, DurableQueue, ErrorKind, HORIZON, LEASE, Merge, Put, SettleError, ShutDown, Store,
    Token, When,
};
use durable_queue_testing::{Call, Fault, ManualStoreClock, SimStore};
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

/// Its jobs are handed out at their due times without asking the store.
fn world_without_confirmation() -> World {
    world_of(false, |_| Fault::None)
}

fn world_with(plan: impl Fn(Call) -> Fault + Send + Sync + 'static) -> World {
    world_of(true, plan)
}

fn world_of(confirm: bool, plan: impl Fn(Call) -> Fault + Send + Sync + 'static) -> World {
    // Without renewals, which would be further parties.
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

/// All kinds of failures.
const FAULTS: [Fault; 4] = [
    Fault::Before,
    Fault::After,
    Fault::Twice,
    Fault::Refused(ErrorKind::Busy),
];

/// Makes the call of this kind with this number, from 0, fail.
fn fails(failing: Call, number: usize, fault: Fault) -> impl Fn(Call) -> Fault + Send + Sync {
    let count = AtomicUsize::new(0);
    // Relaxed: each call only needs a distinct number.
    move |call| {
        if call == failing && count.fetch_add(1, Relaxed) == number {
            fault
        } else {
            Fault::None
        }
    }
}

/// Returns whether the pump pauses after it.
fn is_error(fault: Fault) -> bool {
    !matches!(fault, Fault::Twice)
}

impl World {
    fn push(&self, name: u8, when: impl Into<When>) -> durable_queue::JobId {
        self.queue.push(vec![name], when).unwrap()
    }

    /// Runs a task on another thread with a handle of the queue.
    fn on_thread<R: Send + 'static>(
        &self,
        work: impl FnOnce(&Queue) -> R + Send + 'static,
    ) -> JoinHandle<R> {
        let queue = self.queue.clone();
        spawn(move || work(&queue))
    }

    /// Takes a job on another thread, acknowledges it, and returns its payload.
    fn taker(&self) -> JoinHandle<u8> {
        self.on_thread(take_and_ack)
    }

    /// Like `taker`, also returns whether the lease was lost.
    fn trier(&self) -> JoinHandle<(u8, Result<(), SettleError>)> {
        self.on_thread(|queue| {
            let taken = queue.take().unwrap();
            (taken[0], taken.ack())
        })
    }

    fn push_keyed(&self, name: u8, when: impl Into<When>) {
        assert!(matches!(push_keyed(&self.queue, name, when), Put::New(_)));
    }

    /// Ends the pump's pause after this fault, if it pauses.
    fn rest_after(&self, fault: Fault) {
        if is_error(fault) {
            self.clock.wait_for_sleepers(1);
            self.clock.advance(FIRST_PAUSE);
        }
    }

    /// The end, after everything that the model waits for.
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

/// Claims and starts due jobs, as another process would.
fn steal(store: &SimStore) -> usize {
    let claim = Claim {
        token: Token::random(),
        kinds: None,
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
