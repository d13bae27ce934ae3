//! A group's tasks that have not ended, in the order in which they were handed over.
//!
//! Not for: what they come to.
//!
//! # Invariants
//! 1. Occupied slots form one list by `older` and `newer`, from `oldest` to `newest`; free ones another
//!    by `newer`, from `free`.
//! 2. A number names one task ever: it has the slot, and how many tasks were entered before it.
//! 3. All tasks before `unhelped` were given out by [`next_unhelped`](Members::next_unhelped).

use crate::handle::TaskRef;

/// Slots that are kept once the last task has left.
const FEW: usize = 32;

/// No slot.
const NONE: u32 = u32::MAX;

pub(super) struct Member {
    pub(super) task: TaskRef,
    /// Its good end is passed over.
    pub(super) is_submitted: bool,
}

struct Slot {
    serial: u32,
    older: u32,
    newer: u32,
    member: Option<Member>,
}

/// See the [module](self).
pub(super) struct Members {
    slots: Vec<Slot>,
    free: u32,
    oldest: u32,
    newest: u32,
    unhelped: u32,
    next_serial: u32,
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
            next_serial: 0,
            len: 0,
        }
    }

    #[inline]
    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// The number that the next task gets.
    pub(super) fn next_number(&self) -> u64 {
        let at = match self.free {
            NONE => self.slots.len(),
            free => free as usize,
        };
        number(at as u32, self.next_serial)
    }

    pub(super) fn insert(&mut self, member: Member) {
        let slot = Slot {
            serial: self.next_serial,
            older: self.newest,
            newer: NONE,
            member: Some(member),
        };
        self.next_serial = self.next_serial.wrapping_add(1);
        let at = self.free;
        let at = if at == NONE {
            self.slots.push(slot);
            (self.slots.len() - 1) as u32
        } else {
            let free = std::mem::replace(&mut self.slots[at as usize], slot);
            self.free = free.newer;
            at
        };
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

    /// Takes a task out. `None` if it has left.
    pub(super) fn remove(&mut self, number: u64) -> Option<Member> {
        let at = number as u32;
        let slot = self.slots.get_mut(at as usize)?;
        if u64::from(slot.serial) != number >> 32 {
            return None;
        }
        let member = slot.member.take()?;
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
        Some(member)
    }

    /// The oldest task that this has not given out, and its number.
    pub(super) fn next_unhelped(&mut self) -> Option<(u64, TaskRef)> {
        let at = self.unhelped;
        let slot = self.slots.get(at as usize)?;
        let task = slot.member.as_ref()?.task.clone();
        self.unhelped = slot.newer;
        Some((number(at, slot.serial), task))
    }

    /// All of them, the newest first.
    pub(super) fn newest_first(&self) -> Vec<TaskRef> {
        let mut at = self.newest;
        let tasks = std::iter::from_fn(|| {
            let slot = self.slots.get(at as usize)?;
            at = slot.older;
            slot.member.as_ref().map(|member| member.task.clone())
        });
        let mut all = Vec::with_capacity(self.len);
        all.extend(tasks);
        all
    }
}

fn number(at: u32, serial: u32) -> u64 {
    u64::from(serial) << 32 | u64::from(at)
}
