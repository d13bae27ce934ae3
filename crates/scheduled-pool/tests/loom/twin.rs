//! A simplified pool for the models of the timer.

use std::collections::VecDeque;
use std::sync::Arc;

use pool_core::internals::{ScheduledTask, TaskContext};
use scheduled_pool::internals::{Core, Executor, Joinable, Joined, Offer, QueueTicket, Waiter};
use sync_shim::model::{JoinHandle, spawn};
use sync_shim::{Mutex, Parker};

/// A pool of at most one worker, reduced to the interface that the timer uses.
#[derive(Clone)]
pub(crate) struct Twin(Arc<Shared>);

struct Shared {
    state: Mutex<Pool>,
    worker: Parker,
}

struct Pool {
    open: bool,
    offers: Offers,
    queue: VecDeque<Arc<dyn ScheduledTask>>,
    line: Vec<(u64, Arc<dyn ScheduledTask>)>,
    next: u64,
    stopped: bool,
}

/// Outcome of an offer to an open pool.
enum Offers {
    Accepted,
    Queued,
    RefusedForWantOfAThread,
}

pub(crate) struct Ticket(Twin, u64);

impl Executor for Twin {
    type Ticket = Ticket;

    fn offer(&self, task: Arc<dyn ScheduledTask>) -> Offer<Ticket> {
        let mut pool = self.0.state.lock();
        if !pool.open {
            return Offer::Released;
        }
        match pool.offers {
            Offers::Accepted => {
                pool.queue.push_back(task);
                drop(pool);
                self.0.worker.unpark();
                Offer::Accepted
            }
            Offers::Queued => {
                let number = pool.next;
                pool.next += 1;
                pool.line.push((number, task));
                Offer::Queued(Ticket(self.clone(), number))
            }
            Offers::RefusedForWantOfAThread => Offer::NoThread,
        }
    }
}

impl QueueTicket for Ticket {
    fn is_returned(&self) -> bool {
        let pool = self.0.0.state.lock();
        !pool.open && pool.line.iter().any(|&(number, _)| number == self.1)
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        let mut pool = self.0.0.state.lock();
        let at = pool.line.iter().position(|&(number, _)| number == self.1);
        let left = at.map(|at| pool.line.remove(at));
        drop(pool);
        drop(left);
    }
}

impl Twin {
    /// Creates a pool that accepts offers, or one whose offers wait in the wait queue.
    pub(crate) fn new(room: bool) -> Self {
        Self(Arc::new(Shared {
            state: Mutex::new(Pool {
                open: true,
                offers: if room {
                    Offers::Accepted
                } else {
                    Offers::Queued
                },
                queue: VecDeque::new(),
                line: Vec::new(),
                next: 0,
                stopped: false,
            }),
            worker: Parker::new(),
        }))
    }

    /// Runs accepted tasks until it is stopped.
    pub(crate) fn work(&self) {
        let env = TaskContext::bare();
        loop {
            let mut pool = self.0.state.lock();
            let Some(task) = pool.queue.pop_front() else {
                if pool.stopped {
                    return;
                }
                drop(pool);
                self.0.worker.park();
                continue;
            };
            drop(pool);
            task.run(&env).resolve();
        }
    }

    pub(crate) fn worker(&self) -> JoinHandle<()> {
        let twin = self.clone();
        spawn(move || twin.work())
    }

    pub(crate) fn stop(&self) {
        self.0.state.lock().stopped = true;
        self.0.worker.unpark();
    }

    /// Waits for one scheduled task and runs it on this thread.
    pub(crate) fn run_one(&self) {
        let env = TaskContext::bare();
        loop {
            let next = self.0.state.lock().queue.pop_front();
            if let Some(task) = next {
                task.run(&env).resolve();
                return;
            }
            self.0.worker.park();
        }
    }

    /// Admits the head of the wait queue.
    pub(crate) fn make_room(&self) {
        let mut pool = self.0.state.lock();
        pool.offers = Offers::Accepted;
        let line = std::mem::take(&mut pool.line);
        pool.queue.extend(line.into_iter().map(|(_, task)| task));
        drop(pool);
        self.0.worker.unpark();
    }

    pub(crate) fn waiting(&self) -> usize {
        self.0.state.lock().line.len()
    }

    /// As a pool's release: returns the waiting tasks, then calls the watch.
    pub(crate) fn release(&self, core: &Core<Self>) {
        self.0.state.lock().open = false;
        core.executor_released();
    }

    /// Refuses all further offers because no thread can be started.
    pub(crate) fn refuse_all(&self) {
        self.0.state.lock().offers = Offers::RefusedForWantOfAThread;
    }

    /// Returns the number of references to the pool. Each ticket holds one.
    pub(crate) fn references(&self) -> usize {
        Arc::strong_count(&self.0)
    }

    /// Worker and joiner in one thread: runs tasks until the handle has ended.
    pub(crate) fn work_until_ended<R>(&self, handle: &Arc<dyn Joinable<R>>) -> Joined<R> {
        loop {
            let waiter = Some(Waiter::Thread(self.0.worker.clone()));
            if let Some(joined) = handle.take_or_wait(waiter) {
                return joined;
            }
            self.work();
            self.0.worker.park();
        }
    }
}
