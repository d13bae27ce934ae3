//! The model's rules: admission, dispatch, time.

use std::collections::VecDeque;
use std::time::Duration;

use super::figures::{End, Expected};
use super::given::{Given, Known};
use super::job::Id;
use super::model::{Idle, Model, Placed, Stage, Waiter, innermost};
use super::permits::Request;
use super::subject::Why;

impl Model {
    pub(crate) fn has_room(&self) -> bool {
        self.holding_room() < self.capacity.saturating_add(self.depth)
    }

    pub(super) fn know(&mut self, id: Id, given: Given) {
        let known = Known {
            priority: given.priority,
            token: given.token,
            cancelled: false,
            start_before: given.within.map(|within| self.now + within),
        };
        self.known.insert(id, known);
    }

    /// Admits a task that has room. Returns `false` if there is no worker and none can be started.
    pub(super) fn enter(&mut self, gets_in: impl FnOnce(&mut Self)) -> bool {
        let starts = self.live == 0;
        if starts && !self.start() {
            return false;
        }
        gets_in(self);
        if starts {
            self.work();
        }
        true
    }

    pub(super) fn accept(&mut self, id: Id, spawn: bool) {
        self.counts.submitted += 1;
        self.queue.push(id, self.known[&id].priority);
        if spawn || self.group.has(id) {
            self.spawns.insert(id, Stage::Queued);
        }
        let expected = Expected::Accepted { spawn };
        self.answers.push((id, expected));
    }

    pub(super) fn refuse(&mut self, id: Id, why: Why) {
        self.counts.refused += 1;
        self.answers.push((id, Expected::Refused(why, id)));
    }

    pub(super) fn turn_away(&mut self, waiter: Waiter, why: Why) {
        self.refuse(waiter.id, why);
        self.unblock(waiter);
    }

    fn unblock(&mut self, waiter: Waiter) {
        if let Some(task) = waiter.within {
            self.blocked.remove(&task);
        }
    }

    /// Accepts the heads of the wait queue while there is room. Returns whether a future is woken.
    pub(super) fn admit(&mut self) -> bool {
        let mut wakes = false;
        while self.has_room()
            && let Some(waiter) = self.line.pop_front()
        {
            match waiter.request {
                Request::Task { spawn } => self.accept(waiter.id, spawn),
                Request::Permit => self.grant(waiter.id),
            }
            wakes |= waiter.is_future;
            self.unblock(waiter);
        }
        wakes
    }

    /// A worker's task has ended. While that worker wakes a future, another one takes the queued
    /// tasks.
    pub(super) fn free_room(&mut self) {
        if self.admit() {
            self.rouse();
        }
    }

    /// If futures are woken while workers may be started for several queued tasks, or while tasks
    /// that will not start leave the queue, the number of started workers is a race.
    pub(crate) fn may_finish(&self) -> bool {
        let wakes = self.line.iter().any(|waiter| waiter.is_future);
        let first = self.line.front();
        let is_spoilt = first.is_some_and(|it| self.known[&it.id].unstarted(self.now).is_some());
        let several = !self.queue.is_empty() || is_spoilt && self.line.len() > 1;
        let starts = !self.paused && several && self.live < self.capacity;
        !(wakes && starts)
    }

    /// Idle workers, then new ones, take the queued tasks.
    pub(super) fn rouse(&mut self) {
        while !self.paused && !self.queue.is_empty() {
            if let Some(at) = self.next_idle() {
                self.idle.remove(at);
            } else if self.live >= self.capacity || !self.start() {
                break;
            }
            self.work();
        }
    }

    fn next_idle(&self) -> Option<usize> {
        let newest = self.idle.len().checked_sub(1)?;
        Some(if self.settings.preallocate { 0 } else { newest })
    }

    pub(super) fn start(&mut self) -> bool {
        if !self.threads_refused {
            self.live += 1;
            self.counts.started += 1;
        }
        !self.threads_refused
    }

    /// A worker without a task looks for one.
    pub(super) fn work(&mut self) {
        while !self.paused
            && self.live <= self.capacity
            && let Some(id) = self.queue.pop()
        {
            if let Some(end) = self.unstarted(id) {
                self.count(end);
                self.show_end(id, end);
                self.free_room();
                continue;
            }
            self.workers.insert(id, Vec::new());
            if let Some(stage) = self.spawns.get_mut(&id) {
                *stage = Stage::Started;
            }
            return;
        }
        let stays = self.open || self.live <= self.kept_for_permits();
        if stays && self.live <= self.capacity {
            self.idle.push(Idle {
                since: self.now,
                timed: self.settings.keep_alive.is_some() && self.live > self.settings.min_workers,
            });
        } else {
            self.live -= 1;
        }
    }

    /// Publishes the end of a task to its handle or group.
    pub(super) fn show_end(&mut self, id: Id, end: End) {
        if let Some(stage) = self.spawns.get_mut(&id) {
            *stage = Stage::Ended(end);
        }
        self.group.end(id, end);
    }

    /// How a queued task ends if it will not start.
    pub(super) fn unstarted(&self, id: Id) -> Option<End> {
        self.known[&id].unstarted(self.now)
    }

    pub(super) fn count(&mut self, end: End) {
        match end {
            End::Cancelled => self.counts.cancelled += 1,
            End::Expired => self.counts.expired += 1,
            other => unreachable!("{other:?} is not the end of an unstarted task"),
        }
    }

    /// Handles all due expiries and timeouts.
    pub(super) fn settle(&mut self) {
        let now = self.now;
        let is_due = |waiter: &Waiter| waiter.deadline.is_some_and(|when| when <= now);
        let (due, rest): (VecDeque<_>, _) = self.line.drain(..).partition(is_due);
        self.line = rest;
        for waiter in due {
            self.turn_away(waiter, Why::TimedOut);
        }
        match self.settings.keep_alive {
            Some(Duration::ZERO) if self.is_coarse() => self.retire_above_floor(),
            Some(keep_alive) if !self.is_coarse() => self.expire(keep_alive),
            _ => {}
        }
    }

    fn expire(&mut self, keep_alive: Duration) {
        let now = self.now;
        let is_stale = |idle: &Idle| idle.since + keep_alive <= now;
        let stale = self.idle.iter().filter(|idle| is_stale(idle)).count();
        self.retire_oldest(stale);
    }

    pub(super) fn retire_above_floor(&mut self) {
        let above = self.live.saturating_sub(self.settings.min_workers);
        self.retire_oldest(above.min(self.idle.len()));
    }

    pub(super) fn retire_oldest(&mut self, count: usize) {
        self.idle.drain(..count);
        self.live -= count;
    }

    /// The worker or caller on whose stack the task is innermost, and the tasks nested there.
    pub(super) fn stack_of(&mut self, id: Id) -> (Id, &mut Vec<Placed>) {
        let mut stacks = self.workers.iter_mut().chain(&mut self.callers);
        let found = stacks.find(|(outer, nested)| innermost((outer, nested)) == id);
        let (&outer, nested) = found.expect("the task stands at its gate");
        (outer, nested)
    }
}
