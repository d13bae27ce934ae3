//! Task groups: the owner takes values in the order in which the tasks end, or cancels the
//! unstarted tasks.
//!
//! Workers report the ends of their tasks in an order that no model can predict. So the model knows
//! which tasks have ended, and not which value comes next.

use std::collections::BTreeSet;

use pool_core::{Clock, JoinError, WaitError};

use super::figures::{End, Patience};
use super::given::{CANCELLED, Given};
use super::job::{Deliberate, Id, Out};
use super::model::{Model, Stage};
use super::patience::{lock, poll};
use super::program::Policy;
use super::subject::{How, answer, identify};
use super::twinned::Twinned;
use super::walk::{Walk, end_of};

#[derive(Clone, Copy, Debug)]
pub(crate) enum Step {
    /// Spawns a task in the group; `waits` as in a batch.
    Spawn {
        waits: bool,
    },
    /// Takes the value of an ended task, or checks that none has ended or that the group is empty.
    Next,
    Cancel,
    /// Drops the group. Later tasks belong to a new one.
    Drop,
}

/// The current group.
#[derive(Clone, Debug, Default)]
pub(super) struct Group {
    /// Accepted and unfinished.
    members: BTreeSet<Id>,
    /// Ended, and the value not taken.
    ended: Vec<(Id, End)>,
    /// Cancelled groups refuse tasks.
    is_cancelled: bool,
}

impl Group {
    pub(super) fn has(&self, id: Id) -> bool {
        self.members.contains(&id)
    }

    pub(super) fn end(&mut self, id: Id, end: End) {
        if self.members.remove(&id) {
            self.ended.push((id, end));
        }
    }
}

impl Model {
    fn group_spawn(&mut self, id: Id, patience: Patience) {
        self.group.members.insert(id);
        let before = self.counts.refused;
        let given = Given {
            token: self.group.is_cancelled.then_some(CANCELLED),
            ..Given::default()
        };
        self.hand(id, given, patience, false, None);
        if self.counts.refused > before {
            self.group.members.remove(&id);
        }
    }

    /// Otherwise a starting worker may take a task that is about to be cancelled, or a tombstone is
    /// left.
    fn may_cancel_group(&self) -> bool {
        let is_queued = |id: &Id| self.spawns[id] == Stage::Queued;
        let none = !self.group.members.iter().any(is_queued);
        let none_starts = self.paused || self.live >= self.capacity;
        none || none_starts && !self.settings.priorities
    }

    /// The drop of an untaken value is user code. Which worker would take the next task meanwhile
    /// is a race.
    fn may_drop_group(&self) -> bool {
        let mut members = self.group.members.iter();
        self.may_cancel_group() && members.all(|id| self.spawns[id] == Stage::Queued)
    }

    fn cancel_group(&mut self) -> usize {
        self.group.is_cancelled = true;
        let members: Vec<Id> = self.group.members.iter().rev().copied().collect();
        members.into_iter().filter(|&id| self.cancel(id)).count()
    }
}

impl<K: Twinned> Walk<K> {
    pub(super) fn group_step(&mut self, step: Step) {
        match step {
            Step::Spawn { waits } => self.group_spawn(waits),
            Step::Next => self.group_next(),
            Step::Cancel if !self.model.may_cancel_group() => {}
            Step::Cancel => self.group_cancel(),
            Step::Drop if !self.model.may_drop_group() => {}
            Step::Drop => self.group_drop(),
        }
    }

    fn group_spawn(&mut self, waits: bool) {
        if self.group.is_none() {
            self.group = K::group(&self.pool);
        }
        if self.group.is_none() {
            return;
        }
        let (how, patience) = match self.settings.on_full {
            Policy::DiscardOldest if waits => (How::Wait, Patience::DiscardOldest),
            Policy::DiscardNewest if waits => (How::Wait, Patience::DiscardNewest),
            Policy::Refuse if waits => (How::Wait, Patience::None),
            Policy::Wait if waits && self.model.has_room() => (How::Wait, Patience::None),
            _ => (How::Try, Patience::None),
        };
        let job = self.job();
        let id = self.last();
        self.model.group_spawn(id, patience);
        let group = self.group.as_ref().expect("it was just made");
        let task = move || job.run();
        let spawned = match how {
            How::Try => group.try_spawn(task),
            How::Wait | How::Timeout(_) => group.spawn(task),
        };
        let answer = answer(spawned.map(|()| None), identify);
        lock(&self.answers).insert(id, answer);
    }

    fn group_next(&mut self) {
        let Some(group) = &self.group else {
            return;
        };
        let (left, known) = (&self.model.group.members, &mut self.model.group.ended);
        assert_eq!(group.len(), left.len() + known.len());
        if known.is_empty() && left.is_empty() {
            assert!(group.next().is_none(), "nothing is left");
            return;
        }
        let now = self.clock.now();
        let next = || group.next_timeout(now);
        if known.is_empty() {
            let next = next();
            assert!(matches!(next, Err(WaitError::TimedOut)), "{next:?}");
            return;
        }
        let ended = poll(|| next().ok()).expect("one has ended");
        let mut ended = ended.expect("it is left");
        let whose = whose(&mut ended);
        let end = end_of(whose.unwrap_or_default(), ended);
        let is_it =
            |&(id, known): &(Id, End)| known == end && whose.is_none_or(|whose| whose == id);
        let at = known.iter().position(is_it);
        known.swap_remove(at.unwrap_or_else(|| panic!("{end:?} of {whose:?}, and not {known:?}")));
    }

    fn group_cancel(&mut self) {
        if let Some(group) = &self.group {
            let cancelled = self.model.cancel_group();
            assert_eq!(group.cancel(), cancelled);
        }
    }

    fn group_drop(&mut self) {
        self.model.cancel_group();
        self.model.group = Group::default();
        self.group = None;
    }

    /// All tasks of the group have ended, because the pool has.
    pub(super) fn group_ends(&mut self) {
        assert!(self.model.group.members.is_empty());
        while !self.model.group.ended.is_empty() {
            self.group_next();
        }
        self.group_next();
    }
}

/// The task that the value or the panic names.
fn whose(ended: &mut Result<Out, JoinError>) -> Option<Id> {
    match ended {
        Ok(value) => Some(*value),
        Err(JoinError::Panicked(panicked)) => {
            let payload = panicked.payload_mut().downcast_ref::<Deliberate>();
            payload.map(|deliberate| deliberate.0)
        }
        Err(_) => None,
    }
}
