//! Task options, and their effect on the queue: which task starts next, and which ones do not start
//! at all.

use std::collections::VecDeque;
use std::time::Duration;

use pool_core::Priority;

use super::figures::End;
use super::job::Id;

/// Tokens that a program can cancel. One more token is cancelled from the beginning.
pub(crate) const TOKENS: usize = 2;
pub(crate) const CANCELLED: usize = TOKENS;

/// The options in a program.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Given {
    pub(crate) priority: Priority,
    /// The index of the token.
    pub(crate) token: Option<usize>,
    /// The time within which the task must start.
    pub(crate) within: Option<Duration>,
}

impl Given {
    /// Uses three bits for the priority and the time, two for the token.
    pub(super) fn from_bits(bits: u8) -> Self {
        Self {
            priority: match bits % 4 {
                2 => Priority::High,
                3 => Priority::Low,
                _ => Priority::Normal,
            },
            within: (bits / 4 % 2 == 1).then_some(Duration::from_secs(6)),
            token: (bits / 8 % 4).checked_sub(1).map(usize::from),
        }
    }

    pub(crate) fn is_nothing(&self) -> bool {
        *self == Self::default()
    }
}

/// The model's record of a task.
#[derive(Clone, Copy, Debug)]
pub(super) struct Known {
    pub(super) priority: Priority,
    pub(super) token: Option<usize>,
    pub(super) cancelled: bool,
    pub(super) start_before: Option<Duration>,
}

impl Known {
    /// The task's end if a worker pops it at `now`. `None`: it runs.
    pub(super) fn unstarted(&self, now: Duration) -> Option<End> {
        if self.cancelled {
            Some(End::Cancelled)
        } else {
            let expired = self.start_before.is_some_and(|last| now >= last);
            expired.then_some(End::Expired)
        }
    }
}

/// The unstarted tasks, in the order of acceptance.
#[derive(Clone, Debug)]
pub(super) struct Ready {
    pub(super) tasks: VecDeque<(Id, Priority)>,
    has_levels: bool,
    /// How often each level was passed over, highest level first.
    passed: [u32; 3],
}

/// Highest first.
const LEVELS: [Priority; 3] = [Priority::High, Priority::Normal, Priority::Low];
/// Documented: every ninth start takes a task of a lower level, if there is one.
const MOST_PASSED: u32 = 8;

impl Ready {
    pub(super) fn new(has_levels: bool) -> Self {
        Self {
            tasks: VecDeque::new(),
            has_levels,
            passed: [0; 3],
        }
    }

    pub(super) fn push(&mut self, id: Id, priority: Priority) {
        let priority = if self.has_levels {
            priority
        } else {
            Priority::Normal
        };
        self.tasks.push_back((id, priority));
    }

    /// Removes the task that starts next.
    pub(super) fn pop(&mut self) -> Option<Id> {
        let level = self.next_level()?;
        for lower in level + 1..LEVELS.len() {
            self.passed[lower] += u32::from(self.oldest_of(lower).is_some());
        }
        self.passed[level] = 0;
        let at = self.oldest_of(level)?;
        self.tasks.remove(at).map(|(id, _)| id)
    }

    fn next_level(&self) -> Option<usize> {
        let has_tasks = |&level: &usize| self.oldest_of(level).is_some();
        let starves = |&level: &usize| self.passed[level] >= MOST_PASSED;
        let levels = || (0..LEVELS.len()).filter(has_tasks);
        levels().rev().find(starves).or_else(|| levels().next())
    }

    fn oldest_of(&self, level: usize) -> Option<usize> {
        self.tasks
            .iter()
            .position(|(_, priority)| *priority == LEVELS[level])
    }

    /// The task that is discarded first.
    pub(super) fn oldest_of_lowest(&self) -> Option<Id> {
        let mut levels = (0..LEVELS.len()).rev();
        let at = levels.find_map(|level| self.oldest_of(level))?;
        Some(self.tasks[at].0)
    }

    pub(super) fn remove(&mut self, gone: Id) {
        self.tasks.retain(|&(id, _)| id != gone);
    }

    /// Removes all tasks, higher levels first.
    pub(super) fn take_all(&mut self) -> Vec<Id> {
        let mut all = Vec::from(std::mem::take(&mut self.tasks));
        all.sort_by_key(|(_, priority)| std::cmp::Reverse(*priority)); // The sort is stable.
        all.into_iter().map(|(id, _)| id).collect()
    }

    pub(super) fn ids(&self) -> impl Iterator<Item = Id> {
        self.tasks.iter().map(|&(id, _)| id)
    }

    pub(super) fn len(&self) -> usize {
        self.tasks.len()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.tasks.is_empty()
    }
}
