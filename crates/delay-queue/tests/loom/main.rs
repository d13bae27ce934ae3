//! Models of the queue's protocol. Each names the racing parties and the harm that must not happen.
//!
//! Time is a `ManualClock` that one party advances, so a timeout may occur at any step of the
//! others. A model waits for the notification or the alarm that is its subject before it closes
//! anything or advances time further, so that nothing else can deliver the entry. A bound is the
//! number of pre-emptions per execution.
//!
//! Run with `cargo xtask loom`.
#![cfg(anthill_loom)]
#![expect(clippy::unwrap_used, reason = "a failing model must panic")]

mod alarm;
mod close;
mod feeder;
mod futures;
mod idle;
mod line;
mod watch;

use std::future::Future;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::time::Duration;

use delay_queue::{DelayQueue, Expired, ManualClock, TakeError};
use sync_shim::atomic::{AtomicUsize, Ordering::Relaxed};
use sync_shim::model::{JoinHandle, check, spawn};
use sync_shim::{Clock, Parker};

type Queue = DelayQueue<&'static str, ManualClock>;
type Taken = Result<&'static str, TakeError>;

const NOW: Duration = Duration::ZERO;

/// A number of steps of time.
const fn steps(count: u64) -> Duration {
    Duration::from_secs(count)
}

fn queue() -> (Queue, ManualClock) {
    let clock = ManualClock::new();
    (DelayQueue::with_clock(clock.clone()), clock)
}

fn value(taken: Result<Expired<&'static str>, TakeError>) -> Taken {
    taken.map(|expired| expired.value)
}

/// Spawns a thread with a handle of the queue.
fn beside<C: Clock, R: Send + 'static>(
    queue: &DelayQueue<&'static str, C>,
    work: impl FnOnce(&DelayQueue<&'static str, C>) -> R + Send + 'static,
) -> JoinHandle<R> {
    let queue = queue.clone();
    spawn(move || work(&queue))
}

/// Wakes a thread that runs a future.
struct Unpark(Parker);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

/// Runs a future on this thread.
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

/// Polls a future once, without an executor.
fn poll_once<F: Future + Unpin>(future: &mut F) -> Poll<F::Output> {
    Pin::new(future).poll(&mut Context::from_waker(Waker::noop()))
}

/// Counts events for one thread that waits for them.
#[derive(Clone)]
struct Tally(Arc<(AtomicUsize, Parker)>);

impl Tally {
    fn new() -> Self {
        Self(Arc::new((AtomicUsize::new(0), Parker::new())))
    }

    fn add(&self) {
        self.0.0.fetch_add(1, Relaxed); // The unpark token publishes the count.
        self.0.1.unpark();
    }

    fn wait_for(&self, count: usize) {
        while self.0.0.load(Relaxed) < count {
            self.0.1.park();
        }
    }
}
