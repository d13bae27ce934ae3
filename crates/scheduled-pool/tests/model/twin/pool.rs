//! A pool that runs one task per call, on the calling thread.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};

use pool_core::internals::{ScheduledTask, TaskContext};
use scheduled_pool::internals::{Core, Executor, Offer, QueueTicket};

/// A handle of the pool. Clones are the same pool.
#[derive(Clone)]
pub(crate) struct Pool(Arc<Mutex<State>>);

struct State {
    open: bool,
    room: usize,
    accepted: VecDeque<Arc<dyn ScheduledTask>>,
    line: VecDeque<(u64, Arc<dyn ScheduledTask>)>,
    next: u64,
    /// The next offer is a marker, which is not run.
    marked: bool,
}

pub(crate) struct Ticket(Pool, u64);

impl Executor for Pool {
    type Ticket = Ticket;

    fn offer(&self, task: Arc<dyn ScheduledTask>) -> Offer<Ticket> {
        let mut state = self.0.lock().unwrap();
        if std::mem::take(&mut state.marked) {
            return Offer::Accepted;
        }
        if !state.open {
            return Offer::Released;
        }
        if state.accepted.len() < state.room {
            state.accepted.push_back(task);
            return Offer::Accepted;
        }
        let number = state.next;
        state.next += 1;
        state.line.push_back((number, task));
        Offer::Queued(Ticket(self.clone(), number))
    }
}

impl QueueTicket for Ticket {
    fn is_returned(&self) -> bool {
        let state = self.0.0.lock().unwrap();
        !state.open && state.line.iter().any(|&(number, _)| number == self.1)
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        let mut state = self.0.0.lock().unwrap();
        let at = state.line.iter().position(|&(number, _)| number == self.1);
        let left = at.and_then(|at| state.line.remove(at));
        drop(state);
        drop(left);
    }
}

impl Pool {
    pub(crate) fn new(room: usize) -> Self {
        Self(Arc::new(Mutex::new(State {
            open: true,
            room,
            accepted: VecDeque::new(),
            line: VecDeque::new(),
            next: 0,
            marked: false,
        })))
    }

    /// Treats the next offer as a marker.
    pub(crate) fn mark(&self) {
        self.0.lock().unwrap().marked = true;
    }

    /// Whether the marker has been offered.
    pub(crate) fn is_marked(&self) -> bool {
        !self.0.lock().unwrap().marked
    }

    /// Runs the oldest accepted task, or the head of the wait queue. Returns `false` if there is
    /// none.
    pub(crate) fn run(&self) -> bool {
        let next = {
            let mut state = self.0.lock().unwrap();
            let next = state.accepted.pop_front();
            let head = if state.open {
                state.line.pop_front()
            } else {
                None
            };
            let head = head.map(|(_, task)| task);
            match next {
                None => head,
                next => {
                    state.accepted.extend(head);
                    next
                }
            }
        };
        let Some(task) = next else { return false };
        task.run(&TaskContext::bare()).resolve();
        true
    }

    /// The numbers of accepted and of waiting tasks.
    pub(crate) fn lengths(&self) -> (usize, usize) {
        let state = self.0.lock().unwrap();
        (state.accepted.len(), state.line.len())
    }

    /// As a pool's release: returns the waiting tasks, then calls the watch.
    pub(crate) fn release(&self, core: &Core<Self>) {
        self.0.lock().unwrap().open = false;
        core.executor_released();
    }
}
