//! The tasks of a group whose ends were not taken, in the order in which they were added.
//!
//! # Invariants
//! 1. Occupied slots form a list by `older` and `newer`, from `oldest` to `newest`. Free slots form a list
//!    by `newer`, from `free`.
//! 2. A task's number is its slot, plus the mark [`SUBMITTED`]. It is valid until the task is removed.
//! 3. [`next_unhelped`](Members::next_unhelped) has returned all tasks before `unhelped`.

use pool_core::internals::TaskRef;

/// Most slots that are kept allocated when the last task is removed.
const FEW: usize = 32;

/// Mark in the number of a task whose completion is skipped.
const SUBMITTED: u32 = 1 << 31;

/// No slot.
const NONE: u32 = u32::MAX;

struct Slot {
    older: u32,
    newer: u32,
    task: Option<TaskRef>,
}

pub(super) struct Members {
    slots: Vec<Slot>,
    free: u32,
    oldest: u32,
    newest: u32,
    unhelped: u32,
    len: usize,
}

impl Members {
    pub(super) const fn new() -> Self {
        Self {
            slots: Vec::new(),
            free: NONE,
            oldest: NONE,
            newest: NONE,
            unhelped: NONE,
            len: 0,
        }
    }

    /// Returns the number of the next task.
    #[inline]
    pub(super) fn next_number(&self, is_submitted: bool) -> u32 {
        let at = match self.free {
            NONE => u32::try_from(self.slots.len()).unwrap_or(NONE),
            free => free,
        };
        assert!(at < SUBMITTED, "memory ends before");
        if is_submitted { at | SUBMITTED } else { at }
    }

    #[inline]
    pub(super) fn is_submitted(number: u32) -> bool {
        number & SUBMITTED != 0
    }

    pub(super) fn insert(&mut self, task: TaskRef) {
        let at = self.next_number(false);
        let slot = Slot {
            older: self.newest,
            newer: NONE,
            task: Some(task),
        };
        match self.slots.get_mut(at as usize) {
            None => self.slots.push(slot),
            Some(free) => self.free = std::mem::replace(free, slot).newer,
        }
        match self.newest {
            NONE => self.oldest = at,
            newest => self.slots[newest as usize].newer = at,
        }
        self.newest = at;
        if self.unhelped == NONE {
            self.unhelped = at;
        }
        self.len += 1;
    }

    pub(super) fn task(&self, number: u32) -> Option<TaskRef> {
        let at = number & !SUBMITTED;
        self.slots.get(at as usize)?.task.clone()
    }

    pub(super) fn remove(&mut self, number: u32) -> Option<TaskRef> {
        let at = number & !SUBMITTED;
        let slot = self.slots.get_mut(at as usize)?;
        let task = slot.task.take()?;
        let (older, newer) = (slot.older, slot.newer);
        slot.newer = self.free;
        self.free = at;
        match older {
            NONE => self.oldest = newer,
            older => self.slots[older as usize].newer = newer,
        }
        match newer {
            NONE => self.newest = older,
            newer => self.slots[newer as usize].older = older,
        }
        if self.unhelped == at {
            self.unhelped = newer;
        }
        self.len -= 1;
        if self.len == 0 && self.slots.len() > FEW {
            (self.slots, self.free) = (Vec::new(), NONE);
        }
        Some(task)
    }

    /// Returns the oldest task that this function has not returned before, and its number.
    pub(super) fn next_unhelped(&mut self) -> Option<(u32, TaskRef)> {
        let at = self.unhelped;
        let slot = self.slots.get(at as usize)?;
        let task = slot.task.clone()?;
        self.unhelped = slot.newer;
        Some((at, task))
    }

    pub(super) fn newest_first(&self) -> Vec<TaskRef> {
        let mut at = self.newest;
        let tasks = std::iter::from_fn(|| {
            let slot = self.slots.get(at as usize)?;
            at = slot.older;
            slot.task.clone()
        });
        let mut all = Vec::with_capacity(self.len);
        all.extend(tasks);
        all
    }
}

#[cfg(all(test, not(anthill_loom)))]
impl Members {
    pub(super) fn is_empty(&self) -> bool {
        self.newest_first().is_empty() && self.len == 0
    }
}

#[cfg(all(test, not(anthill_loom)))]
mod tests {
    use std::sync::Arc;

    use super::*;
    use pool_core::{Pool, QueueDepth};

    /// Numbers and cells, the newest first.
    fn cells(members: &Members) -> Vec<*const ()> {
        let tasks = members.newest_first();
        let cells = tasks.iter().map(|task| Arc::as_ptr(task.cell()).cast());
        cells.collect()
    }

    #[testkit::test]
    fn tasks_leave_from_anywhere_and_the_others_keep_their_order() {
        let pool = Pool::builder().capacity(1).start_paused(true);
        let pool = pool.queue_depth(QueueDepth::Unlimited).build();
        let pool = pool.expect("it has a capacity");
        let (mut members, mut expected) = (Members::new(), Vec::new());
        let insert = |members: &mut Members, is_submitted| {
            let handle = pool.spawn(|| ()).expect("there is room").into_raw();
            let task = handle.into_task();
            let cell = Arc::as_ptr(task.cell()).cast::<()>();
            let number = members.next_number(is_submitted);
            assert_eq!(Members::is_submitted(number), is_submitted);
            members.insert(task);
            (number, cell)
        };
        for round in 0..3_usize {
            for n in 0..100 {
                expected.push(insert(&mut members, n % 2 == 0));
            }
            for _ in 0..70 {
                let (number, cell) = expected.remove(expected.len() * (round + 1) / 4);
                let removed = members.remove(number).expect("it is there");
                assert_eq!(Arc::as_ptr(removed.cell()).cast::<()>(), cell);
                assert!(members.remove(number).is_none());
                let newest_first = expected.iter().rev().map(|it| it.1);
                assert!(cells(&members).into_iter().eq(newest_first));
            }
            let unhelped: Vec<_> = std::iter::from_fn(|| members.next_unhelped()).collect();
            assert!(unhelped.len() <= 100 && members.next_unhelped().is_none());
        }
        assert!(members.slots.len() <= 160, "places are used again");
        for (number, _) in expected {
            assert!(members.remove(number).is_some());
        }
        assert!(
            members.is_empty() && members.slots.is_empty(),
            "memory is given back"
        );
        insert(&mut members, false);
        let mut helped = 0;
        while members.next_unhelped().is_some() {
            helped += 1;
        }
        assert_eq!(helped, 1);
    }
}
