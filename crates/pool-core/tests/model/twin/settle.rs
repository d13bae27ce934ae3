//! Compares the pool with the model, after each step and at the end.

use std::fmt::Debug;
use std::mem;
use std::task::{Context, Poll};
use std::thread;
use std::time::Instant;

use super::figures::{Counts, Expected, Figures};
use super::job::Id;
use super::patience::{is_over, lock, poll};
use super::program::Op;
use super::subject::Answer;
use super::twinned::Twinned;
use super::walk::{Walk, pick};

impl<K: Twinned> Walk<K> {
    /// Waits until the pool is in the model's state, and compares the answers. `ages`: the step
    /// advanced the time.
    pub(super) fn settle(&mut self, after: &impl Debug, ages: bool) {
        self.model.check();
        let began = Instant::now();
        loop {
            let seen = self.figures();
            if self.model.figures() == seen {
                break;
            }
            assert!(
                !is_over(began),
                "after {after:?} the pool does not come to where the model is\n\
                 model: {:?}\n pool: {seen:?}",
                self.model.figures(),
            );
            if ages {
                self.age();
            }
            thread::yield_now();
        }
        for (id, expected) in self.model.take_answers() {
            let answer = self.answer(id, after);
            assert_eq!(answer, expected, "of {id} after {after:?}");
            match answer {
                Answer::Accepted(_) if expected == Expected::Reserved => {}
                Answer::Accepted(handle) => {
                    self.accepted[id as usize] = Some(true);
                    self.handles.extend(handle.map(|handle| (id, handle)));
                }
                Answer::Refused(..) => {
                    self.accepted[id as usize] = Some(false);
                    self.planned.remove(&id);
                }
            }
        }
        for (id, end) in self.model.take_joins() {
            let joined = poll(|| lock(&self.joins).remove(&id));
            assert_eq!(joined, Some(end), "of {id}, joined by a task");
        }
        if self.model.in_flight() == 0 {
            for idler in self.idlers.drain(..) {
                assert_eq!(idler.soon("an idle pool"), Ok(()));
            }
        }
    }

    /// If the pool does not show whether its workers have parked, some may have parked after the
    /// time was advanced and need more of it. No waiter with a timeout is left.
    fn age(&self) {
        if self.model.is_coarse() && self.model.figures().live < self.pool.running() {
            let keep_alive = self.settings.keep_alive.expect("coarse ones have it");
            self.clock.advance(keep_alive);
        }
    }

    fn answer(&mut self, id: Id, after: &impl Debug) -> Answer {
        if let Some((mut future, bell)) = self.futures.remove(&id) {
            poll(|| (bell.wakes() > 0).then_some(()))
                .unwrap_or_else(|| panic!("the future of {id} was not woken after {after:?}"));
            let polled = future
                .as_mut()
                .poll(&mut Context::from_waker(&bell.waker()));
            let Poll::Ready(answer) = polled else {
                panic!("the future of {id} was woken and is not ready");
            };
            return answer;
        }
        poll(|| lock(&self.answers).remove(&id))
            .unwrap_or_else(|| panic!("no answer to the caller of {id} after {after:?}"))
    }

    fn figures(&self) -> Figures {
        let stats = self.pool.stats();
        Figures {
            open: !self.pool.is_released(),
            paused: self.pool.is_paused(),
            capacity: stats.capacity.limit().unwrap_or(usize::MAX),
            live: stats.live,
            busy: stats.busy,
            in_flight: stats.in_flight,
            reserved: stats.reserved,
            queued: stats.queued,
            waiting: stats.waiting,
            counts: Counts {
                submitted: stats.submitted,
                completed: stats.completed,
                panicked: stats.panicked,
                cancelled: stats.cancelled,
                released: stats.released,
                discarded: stats.discarded,
                expired: stats.expired,
                refused: stats.refused,
                started: stats.threads_started,
            },
            retired: stats.threads_retired,
            at_gates: self.board.at_gates(),
            sleepers: (!self.model.is_coarse()).then(|| self.clock.sleepers()),
        }
    }

    /// Ends all tasks, and the pool.
    pub(super) fn finale(&mut self) {
        self.step(Op::Threads { refused: false });
        self.step(Op::Release);
        self.settle(&"the release", false);
        while let Some(id) = pick(self.model.at_gates(), 0) {
            self.finish(id, false);
            self.settle(&"the release, while tasks end", false);
        }
        while let Some(id) = self.pick_permit(0) {
            self.drop_permit(id);
            self.settle(&"the release, while permits go", false);
        }
        assert!(self.model.has_ended());
        self.wait_released();
        self.group_ends();
        assert!(self.idlers.is_empty() && self.futures.is_empty());
        for caller in mem::take(&mut self.callers) {
            caller.soon("the return of a caller");
        }
        for id in self.handles.keys().copied().collect::<Vec<_>>() {
            self.join(id);
        }
        for (id, accepted) in (0..).zip(&self.accepted) {
            let fate = self.board.fate(id);
            let accepted = accepted.expect("every call has been answered");
            assert_eq!(fate.drops, 1, "of {id}");
            assert!(fate.runs <= u32::from(accepted), "{id} ran {fate:?}");
        }
        let ran: u64 = (0..self.last_id())
            .map(|id| u64::from(self.board.fate(id).runs))
            .sum();
        let stats = self.pool.stats();
        assert_eq!(ran, stats.completed + stats.panicked);
        let unrun = stats.cancelled + stats.released + stats.discarded + stats.expired;
        assert_eq!(stats.submitted, ran + unrun);
        assert_eq!(self.clock.sleepers(), 0, "no sleeper is left on the clock");
    }
}
