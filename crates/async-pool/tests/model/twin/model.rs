//! The plain model: lists, without threads, locks and wakers.

use std::collections::VecDeque;

use super::program::{Act, Settings};

/// How a task ended, as its handle says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Outcome {
    Value,
    Panicked,
    Cancelled,
    Released,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Place {
    /// With its caller: in a wait, or returned.
    Outside,
    Pending,
    Live,
    Ended(Outcome),
}

#[derive(Debug)]
pub(crate) struct Task {
    pub(crate) place: Place,
    pub(crate) act: Act,
    pub(crate) panics_in_drop: bool,
    is_cancelled: bool,
    is_released: bool,
}

/// A wait for room.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Wait {
    InQueue,
    Served,
    Returned,
}

#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Asked {
    Accepted,
    Full,
    Released,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Figures {
    pub(crate) capacity: usize,
    pub(crate) live: usize,
    pub(crate) queued: usize,
    pub(crate) reserved: usize,
    pub(crate) waiting: usize,
    pub(crate) submitted: u64,
    pub(crate) completed: u64,
    pub(crate) panicked: u64,
    pub(crate) cancelled: u64,
    pub(crate) released: u64,
    pub(crate) refused: u64,
}

#[derive(Debug)]
pub(crate) struct Model {
    depth: usize,
    max_waiting: usize,
    pub(crate) is_open: bool,
    is_discarding: bool,
    pub(crate) now: u64,
    pub(crate) tasks: Vec<Task>,
    pending: VecDeque<usize>,
    /// Numbers of waits, and of the tasks that they bring.
    queue: VecDeque<(usize, Option<usize>)>,
    pub(crate) waits: Vec<Wait>,
    pub(crate) figures: Figures,
    /// The highest capacity so far.
    pub(crate) most: usize,
}

impl Model {
    pub(crate) fn new(settings: Settings) -> Self {
        Self {
            depth: settings.depth,
            max_waiting: settings.max_waiting,
            is_open: true,
            is_discarding: false,
            now: 0,
            tasks: Vec::new(),
            pending: VecDeque::new(),
            queue: VecDeque::new(),
            waits: Vec::new(),
            figures: Figures {
                capacity: settings.capacity,
                ..Figures::default()
            },
            most: settings.capacity,
        }
    }

    pub(crate) fn add_task(&mut self, panics_in_drop: bool) -> usize {
        self.tasks.push(Task {
            place: Place::Outside,
            act: Act::Wait,
            panics_in_drop,
            is_cancelled: false,
            is_released: false,
        });
        self.tasks.len() - 1
    }

    fn has_room(&self) -> bool {
        let figures = &self.figures;
        figures.live + figures.queued + figures.reserved < figures.capacity + self.depth
    }

    /// A call with a task, or for a permit.
    pub(crate) fn ask(&mut self, task: Option<usize>) -> Asked {
        if !self.is_open {
            Asked::Released
        } else if self.has_room() {
            self.serve(task);
            self.settle();
            Asked::Accepted
        } else {
            Asked::Full
        }
    }

    pub(crate) fn refuse(&mut self) {
        self.figures.refused += 1;
    }

    pub(crate) fn has_queue_room(&self) -> bool {
        self.queue.len() < self.max_waiting
    }

    /// Enqueues a wait of a full pool. Returns its number.
    pub(crate) fn wait(&mut self, task: Option<usize>) -> usize {
        self.waits.push(Wait::InQueue);
        self.queue.push_back((self.waits.len() - 1, task));
        self.waits.len() - 1
    }

    pub(crate) fn drop_wait(&mut self, wait: usize, is_for_permit: bool) {
        self.queue.retain(|(queued, _)| *queued != wait);
        if self.waits[wait] == Wait::Served && is_for_permit {
            self.figures.reserved -= 1;
        }
        self.settle();
    }

    pub(crate) fn use_permit(&mut self, task: usize) {
        self.figures.reserved -= 1;
        self.serve(Some(task));
        self.settle();
    }

    pub(crate) fn drop_permit(&mut self) {
        self.figures.reserved -= 1;
        self.settle();
    }

    pub(crate) fn cancel(&mut self, task: usize) {
        self.tasks[task].is_cancelled = true;
        if self.tasks[task].place == Place::Pending {
            // A worker drops it, without waiting for room.
            self.pending.retain(|&pending| pending != task);
            self.figures.queued -= 1;
            self.end(task, Outcome::Cancelled);
        }
        self.settle();
    }

    pub(crate) fn tune(&mut self, capacity: usize) {
        self.figures.capacity = capacity;
        self.most = self.most.max(capacity);
        self.settle();
    }

    pub(crate) fn release(&mut self) -> bool {
        for (wait, _) in self.queue.drain(..) {
            self.waits[wait] = Wait::Returned;
        }
        std::mem::replace(&mut self.is_open, false)
    }

    pub(crate) fn release_now(&mut self) {
        self.release();
        self.is_discarding = true;
        for task in std::mem::take(&mut self.pending) {
            self.figures.queued -= 1;
            self.end(task, Outcome::Released);
        }
        let live = self
            .tasks
            .iter_mut()
            .filter(|task| task.place == Place::Live);
        live.for_each(|task| task.is_released = true);
        self.settle();
    }

    pub(crate) fn reboot(&mut self) -> bool {
        if self.is_open {
            return false;
        }
        self.is_discarding = false;
        self.is_open = true;
        true
    }

    fn serve(&mut self, task: Option<usize>) {
        let Some(task) = task else {
            self.figures.reserved += 1;
            return;
        };
        self.figures.submitted += 1;
        self.figures.queued += 1;
        self.tasks[task].place = Place::Pending;
        self.pending.push_back(task);
        self.start();
    }

    fn start(&mut self) {
        while self.figures.live < self.figures.capacity
            && let Some(task) = self.pending.pop_front()
        {
            self.figures.queued -= 1;
            self.figures.live += 1;
            self.tasks[task].place = Place::Live;
        }
    }

    /// Does all that workers do until no task can go on.
    pub(crate) fn settle(&mut self) {
        loop {
            self.start();
            while self.has_room()
                && let Some((wait, task)) = self.queue.pop_front()
            {
                self.waits[wait] = Wait::Served;
                self.serve(task);
            }
            let Some((task, outcome)) = (0..self.tasks.len())
                .find_map(|task| self.next_outcome(task).map(|outcome| (task, outcome)))
            else {
                break;
            };
            self.figures.live -= 1;
            self.end(task, outcome);
        }
        self.figures.waiting = self.queue.len();
    }

    fn next_outcome(&self, task: usize) -> Option<Outcome> {
        let task = &self.tasks[task];
        if task.place != Place::Live {
            return None;
        }
        if task.is_cancelled {
            return Some(Outcome::Cancelled);
        }
        if task.is_released || self.is_discarding {
            return Some(Outcome::Released);
        }
        match task.act {
            Act::Wait => None,
            Act::Finish => Some(Outcome::Value),
            Act::Panic => Some(Outcome::Panicked),
            Act::SleepUntil(when) => (when <= self.now).then_some(Outcome::Value),
        }
    }

    fn end(&mut self, task: usize, outcome: Outcome) {
        let figures = &mut self.figures;
        match outcome {
            // A destructor that panics counts, but the handle gets its value.
            _ if self.tasks[task].panics_in_drop => figures.panicked += 1,
            Outcome::Value => figures.completed += 1,
            Outcome::Panicked => figures.panicked += 1,
            Outcome::Cancelled => figures.cancelled += 1,
            Outcome::Released => figures.released += 1,
        }
        self.tasks[task].place = Place::Ended(outcome);
    }
}
