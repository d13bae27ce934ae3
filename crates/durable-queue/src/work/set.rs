//! Futures that are polled by one task, each with a waker of its own.
//!
//! Not for: deciding when a future is added. A [`Run`](crate::Run) does that.
//!
//! # Invariants
//! 1. A number is in the list of woken ones at most once.
//! 2. A wake-up after the last [`begin`](FutureSet::begin) is in the list, and the task has been woken.
//! 3. Places are reused, and there are as many as futures have lived at a time. A waker of an earlier future
//!    may wake a later one of its place, which is then polled once too often.

use std::future::Future;
use std::mem;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};

use sync_shim::foreign::{drop_quietly, wake};
use sync_shim::{Mutex, Process};

pub(crate) struct FutureSet<A> {
    slots: Vec<Slot<A>>,
    free: Vec<usize>,
    woken: Arc<Woken>,
    /// The futures to poll.
    batch: Vec<usize>,
    event: Waker,
}

struct Slot<A> {
    future: Pin<Box<Option<A>>>,
    waker: Waker,
}

/// What wakers share with the task.
struct Woken {
    /// In a forked child nothing is woken, and the fork may have left the lock held.
    process: Process,
    state: Mutex<State>,
}

#[derive(Default)]
struct State {
    list: Vec<usize>,
    is_listed: Vec<bool>,
    has_event: bool,
    /// Waker of the task, unless it has been woken.
    task: Option<Waker>,
}

/// Waker of a future, by its number, or of events without one.
struct Member {
    woken: Arc<Woken>,
    number: Option<usize>,
}

impl Wake for Member {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        let Self { woken, number } = &**self;
        if !woken.process.is_current() {
            return;
        }
        let task = {
            let mut state = woken.state.lock();
            match *number {
                None => state.has_event = true,
                Some(number) if state.is_listed[number] => {}
                Some(number) => {
                    state.is_listed[number] = true;
                    state.list.push(number);
                }
            }
            state.task.take()
        };
        if let Some(task) = task {
            // USER CODE: the task's waker. After the unlock. A panic ends there.
            wake(task);
        }
    }
}

impl<A> FutureSet<A> {
    pub(crate) fn new() -> Self {
        let woken = Arc::new(Woken {
            process: Process::current(),
            state: Mutex::new(State::default()),
        });
        let event = Member {
            woken: Arc::clone(&woken),
            number: None,
        };
        Self {
            slots: Vec::new(),
            free: Vec::new(),
            woken,
            batch: Vec::new(),
            event: Waker::from(Arc::new(event)),
        }
    }

    /// Number of futures.
    pub(crate) fn len(&self) -> usize {
        self.slots.len() - self.free.len()
    }

    /// Returns a waker for everything but the futures. It stays the same.
    pub(crate) fn event(&self) -> Waker {
        self.event.clone()
    }

    /// Begins a poll of the task. Returns whether there was an event since the last one.
    pub(crate) fn begin(&mut self, context: &Context<'_>) -> bool {
        // USER CODE: the waker's clone. Before the lock is taken. A panic is the poller's, and changes nothing.
        let task = context.waker().clone();
        let (before, has_event) = {
            let mut state = self.woken.state.lock();
            mem::swap(&mut state.list, &mut self.batch);
            for &number in &self.batch {
                state.is_listed[number] = false; // Before the poll: a wake-up during it counts.
            }
            (state.task.replace(task), mem::take(&mut state.has_event))
        };
        // USER CODE: the drop of the task's previous waker.
        drop_quietly(before);
        has_event
    }

    /// Polls the futures that were woken before [`begin`](Self::begin). `ended` gets the number of a future and its
    /// result.
    pub(crate) fn poll_woken<R>(&mut self, mut ended: impl FnMut(usize, R))
    where
        A: Future<Output = R>,
    {
        let mut batch = mem::take(&mut self.batch);
        for number in batch.drain(..) {
            if let Some(result) = self.poll_one(number) {
                ended(number, result);
            }
        }
        self.batch = batch;
    }

    /// Adds a future and polls it. Returns its number and, if it has ended, its result.
    pub(crate) fn start<R>(&mut self, future: A) -> (usize, Option<R>)
    where
        A: Future<Output = R>,
    {
        let number = self.free.pop().unwrap_or_else(|| self.add_slot());
        self.slots[number].future.set(Some(future));
        (number, self.poll_one(number))
    }

    fn add_slot(&mut self) -> usize {
        let number = self.slots.len();
        self.woken.state.lock().is_listed.push(false);
        let member = Member {
            woken: Arc::clone(&self.woken),
            number: Some(number),
        };
        self.slots.push(Slot {
            future: Box::pin(None),
            waker: Waker::from(Arc::new(member)),
        });
        number
    }

    fn poll_one<R>(&mut self, number: usize) -> Option<R>
    where
        A: Future<Output = R>,
    {
        let Slot { future, waker } = &mut self.slots[number];
        let live = future.as_mut().as_pin_mut()?;
        let Poll::Ready(result) = live.poll(&mut Context::from_waker(waker)) else {
            return None;
        };
        future.set(None);
        self.free.push(number);
        Some(result)
    }

    /// Drops all futures.
    pub(crate) fn clear(&mut self) {
        for (number, slot) in self.slots.iter_mut().enumerate() {
            if slot.future.is_some() {
                slot.future.set(None);
                self.free.push(number);
            }
        }
    }
}

/// Forgets the task, which wakers that outlive the set would keep.
impl<A> Drop for FutureSet<A> {
    fn drop(&mut self) {
        if self.woken.process.is_current() {
            let task = self.woken.state.lock().task.take();
            // USER CODE: the drop of the task's waker.
            drop_quietly(task);
        }
    }
}
