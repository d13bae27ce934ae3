//! User code: futures run by a thread, futures run in place by their waker, panics.

use std::future::Future;
use std::panic::resume_unwind;
use std::pin::{Pin, pin};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::task::{Context, Poll, Wake, Waker};

use anthill::ManualClock;
use sync_shim::model::{JoinHandle, spawn};
use sync_shim::thread::yield_now;
use sync_shim::{Condvar, Mutex, Parker};

use super::SECOND;

/// Panics without the panic hook, which would print the schedule as a failure.
pub(crate) fn raise() -> ! {
    resume_unwind(Box::new("meant to be"))
}

pub(crate) fn join_all(threads: Vec<JoinHandle<()>>) {
    for thread in threads {
        thread.join().unwrap();
    }
}

struct Unpark(Parker);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }
}

/// Runs a future on this thread.
pub(crate) fn block_on<F: Future>(future: F) -> F::Output {
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
pub(crate) fn poll_once<F: Future + Unpin>(future: &mut F) -> Poll<F::Output> {
    Pin::new(future).poll(&mut Context::from_waker(Waker::noop()))
}

/// Opens once. Threads wait for it.
#[derive(Clone)]
pub(crate) struct Latch(Arc<(Mutex<bool>, Condvar)>);

impl Latch {
    pub(crate) fn new() -> Self {
        Self(Arc::new((Mutex::new(false), Condvar::new())))
    }

    pub(crate) fn open(&self) {
        *self.0.0.lock() = true;
        self.0.1.notify_all();
    }

    pub(crate) fn wait(&self) {
        let mut open = self.0.0.lock();
        while !*open {
            self.0.1.wait(&mut open);
        }
    }
}

/// A thread that advances time until it is stopped.
pub(crate) struct Ticker(JoinHandle<()>, Arc<AtomicBool>);

impl Ticker {
    pub(crate) fn start(clock: ManualClock) -> Self {
        let over = Arc::new(AtomicBool::new(false));
        let stop = Arc::clone(&over);
        let thread = spawn(move || {
            while !stop.load(Relaxed) {
                clock.advance(SECOND);
                yield_now();
            }
        });
        Self(thread, over)
    }

    pub(crate) fn stop(self) {
        self.1.store(true, Relaxed);
        self.0.join().unwrap();
    }
}

/// A future that each wake-up polls inside the waker's call, as a naive executor or a continuation
/// does.
pub(crate) struct InPlace {
    state: Mutex<State>,
    over: Latch,
}

enum State {
    Waiting(Pin<Box<dyn Future<Output = ()> + Send>>),
    /// Being polled. The flag is set by a wake-up during the poll.
    Running(bool),
    Over,
}

impl InPlace {
    /// Polls `future` once here, and later wherever it is woken. The latch opens when it is ready.
    pub(crate) fn start(future: impl Future<Output = ()> + Send + 'static) -> Latch {
        let over = Latch::new();
        let this = Arc::new(Self {
            state: Mutex::new(State::Waiting(Box::pin(future))),
            over: over.clone(),
        });
        this.wake();
        over
    }
}

impl Wake for InPlace {
    fn wake(self: Arc<Self>) {
        let mut state = self.state.lock();
        let mut future = match std::mem::replace(&mut *state, State::Running(true)) {
            State::Waiting(future) => future,
            State::Running(_) => return,
            State::Over => {
                *state = State::Over;
                return;
            }
        };
        loop {
            *state = State::Running(false);
            drop(state);
            let waker = Waker::from(Arc::clone(&self));
            let polled = future.as_mut().poll(&mut Context::from_waker(&waker));
            drop(waker);
            if polled.is_ready() {
                drop(future);
                *self.state.lock() = State::Over;
                self.over.open();
                return;
            }
            state = self.state.lock();
            if matches!(*state, State::Running(false)) {
                *state = State::Waiting(future);
                return;
            }
        }
    }
}
