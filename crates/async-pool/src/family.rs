//! Families: a live task, the tasks that it has submitted to its own pool, and the room that it lends them.
//!
//! A task that waits for a queued task of its own full pool holds room that the other one needs. If all live tasks did so,
//! they would wait for ever. So a parent without live children lends its room to the first task that it waits for. The loan
//! ends with the child, and with the parent, whose room is then the child's. docs/decisions/loans.md has the argument.
//!
//! This is bookkeeping without locks and user code: the admission's lock protects it.
//!
//! # Invariants
//! 1. A family exists while its parent is live, and while it has children. `children` counts started tasks, and permits
//!    in the parent's room.
//! 2. A loan is counted in one family with a live parent, and in the sums. A room with a chain of holders has one loan less
//!    than holders: the end of any of them ends one loan. If it is a parent in the middle, its loans pass to the family
//!    from which it has borrowed (the *heir*), which then counts their borrowers as children, too.

use std::collections::BTreeSet;
use std::num::NonZeroU32;

use slab::Slab;

/// A family, as queued tasks refer to it. No later family has the same number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FamilyId {
    index: u32,
    pub(crate) number: u64,
}

/// The family in which a started task, or a permit in a parent's room, is counted, if any; and whether the room is the
/// parent's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct ChildOf(u32);

impl ChildOf {
    /// Of a task without a live parent, or a permit in a room of its own.
    pub(crate) const NONE: Self = Self(0);

    fn new(index: u32, is_lent: bool) -> Self {
        Self((index + 1) << 1 | u32::from(is_lent))
    }

    /// Of a task or a permit in the room of this family's parent.
    pub(crate) fn borrower(family: FamilyId) -> Self {
        Self::new(family.index, true)
    }

    pub(crate) fn into_raw(self) -> usize {
        self.0 as usize
    }

    /// The reverse of [`into_raw`](Self::into_raw).
    pub(crate) fn from_raw(raw: usize) -> Self {
        Self(u32::try_from(raw).expect("it was made of a loan"))
    }

    fn family(self) -> Option<usize> {
        (self.0 >> 1).checked_sub(1).map(|index| index as usize)
    }

    fn is_lent(self) -> bool {
        self.0 & 1 == 1
    }
}

/// The family whose parent a live task is. One more than its index.
#[derive(Clone, Copy, Debug)]
pub(crate) struct FamilyIndex(NonZeroU32);

/// A task or a request that a parent waits for. Stale once that has started or was taken back.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Want {
    /// Ticket of an accepted task.
    Pending(u64),
    /// Ticket of a caller in the wait queue.
    Waiting(u64),
}

struct Family {
    number: u64,
    /// Whether the parent is live.
    has_parent: bool,
    /// The family that has taken over the loans of a parent that has ended.
    heir: Option<u32>,
    children: u32,
    lent_tasks: u32,
    lent_permits: u32,
    wants: BTreeSet<Want>,
    /// Whether a child has started or ended since the last [`sample`](Families::sample), and the time of that.
    has_moved: bool,
    since: u64,
}

pub(crate) struct Families {
    all: Slab<Family>,
    next_number: u64,
    lent_tasks: usize,
    lent_permits: usize,
    /// Number of live parents whose room a task has.
    lenders: usize,
    /// Number of families with wants.
    wanting: usize,
}

impl Families {
    pub(crate) fn new() -> Self {
        Self {
            all: Slab::new(),
            next_number: 0,
            lent_tasks: 0,
            lent_permits: 0,
            lenders: 0,
            wanting: 0,
        }
    }

    /// Number of rooms with two holders.
    pub(crate) fn loans(&self) -> usize {
        self.lent_tasks + self.lent_permits
    }

    pub(crate) fn lent_tasks(&self) -> usize {
        self.lent_tasks
    }

    pub(crate) fn lenders(&self) -> usize {
        self.lenders
    }

    /// Whether a parent waits for tasks that may still be queued.
    pub(crate) fn is_wanting(&self) -> bool {
        self.wanting > 0
    }

    /// Makes a family for a live task.
    pub(crate) fn create(&mut self) -> FamilyIndex {
        let number = self.next_number;
        self.next_number += 1;
        let index = self.all.insert(Family {
            number,
            has_parent: true,
            children: 0,
            lent_tasks: 0,
            lent_permits: 0,
            wants: BTreeSet::new(),
            heir: None,
            has_moved: true,
            since: 0,
        });
        let index = u32::try_from(index + 1).ok();
        FamilyIndex(
            index
                .and_then(NonZeroU32::new)
                .expect("there are fewer live tasks"),
        )
    }

    pub(crate) fn family(&self, headed: FamilyIndex) -> FamilyId {
        let index = headed.0.get() - 1;
        let number = self.all[index as usize].number;
        FamilyId { index, number }
    }

    /// The family, if its parent is live.
    fn living(&mut self, id: FamilyId) -> Option<&mut Family> {
        let family = self.all.get_mut(id.index as usize)?;
        (family.number == id.number && family.has_parent).then_some(family)
    }

    /// Counts a child that starts in a room of its own.
    pub(crate) fn count_child(&mut self, id: Option<FamilyId>) -> ChildOf {
        let Some(id) = id else {
            return ChildOf::NONE;
        };
        let Some(family) = self.living(id) else {
            return ChildOf::NONE;
        };
        family.children += 1;
        family.has_moved = true;
        ChildOf::new(id.index, false)
    }

    /// Counts a child that starts in the room of the live parent.
    pub(crate) fn lend_to_task(&mut self, id: FamilyId) -> ChildOf {
        let family = &mut self.all[id.index as usize];
        family.children += 1;
        family.has_moved = true;
        self.lenders += usize::from(family.lent_tasks == 0);
        family.lent_tasks += 1;
        self.lent_tasks += 1;
        ChildOf::borrower(id)
    }

    /// Counts a permit in the room of the live parent.
    pub(crate) fn lend_to_permit(&mut self, id: FamilyId) {
        let family = &mut self.all[id.index as usize];
        family.children += 1;
        family.has_moved = true;
        family.lent_permits += 1;
        self.lent_permits += 1;
    }

    /// Counts a permit out. Returns the family if its room is still a live parent's.
    pub(crate) fn return_permit(&mut self, child_of: ChildOf) -> Option<FamilyId> {
        let id = self.count_out(child_of)?;
        self.all[id.index as usize].lent_permits -= 1;
        self.lent_permits -= 1;
        Some(id)
    }

    /// Counts a started task out. Returns its parent's family, or its heir, if that has a live parent.
    pub(crate) fn end_child(&mut self, child_of: ChildOf) -> Option<FamilyId> {
        let id = self.count_out(child_of)?;
        if child_of.is_lent() {
            let family = &mut self.all[id.index as usize];
            family.lent_tasks -= 1;
            self.lent_tasks -= 1;
            self.lenders -= usize::from(family.lent_tasks == 0);
        }
        Some(id)
    }

    /// Counts a child out of its family, and a borrower out of the heirs of that. Returns the first family with a live parent.
    fn count_out(&mut self, child_of: ChildOf) -> Option<FamilyId> {
        let mut next = child_of.family();
        while let Some(index) = next {
            let family = &mut self.all[index];
            family.children -= 1;
            family.has_moved = true;
            if family.has_parent {
                return Some(self.id(index));
            }
            next = family
                .heir
                .filter(|_| child_of.is_lent())
                .map(|heir| heir as usize);
            if family.children == 0 {
                self.all.remove(index);
            }
        }
        None
    }

    fn id(&self, index: usize) -> FamilyId {
        FamilyId {
            // It was made of a `u32`.
            index: u32::try_from(index).unwrap_or(u32::MAX),
            number: self.all[index].number,
        }
    }

    /// The family with a live parent from which a task has borrowed its room.
    fn lender(&self, child_of: ChildOf) -> Option<usize> {
        let mut index = child_of.family().filter(|_| child_of.is_lent())?;
        while !self.all[index].has_parent {
            index = self.all[index].heir? as usize;
        }
        Some(index)
    }

    /// Passes on the loans of a parent that has ended, and was a child itself: to the family that has lent it the room, or to
    /// nobody if the room was its own. That is then its child's.
    pub(crate) fn end_parent(&mut self, headed: FamilyIndex, child_of: ChildOf) {
        let index = headed.0.get() as usize - 1;
        let heir = self.lender(child_of);
        let family = &mut self.all[index];
        family.has_parent = false;
        let tasks = std::mem::take(&mut family.lent_tasks);
        let permits = std::mem::take(&mut family.lent_permits);
        let wants = std::mem::take(&mut family.wants);
        let is_childless = family.children == 0;
        self.lenders -= usize::from(tasks > 0);
        self.wanting -= usize::from(!wants.is_empty());
        if is_childless {
            self.all.remove(index);
        } else if let Some(heir) = heir {
            family.heir = u32::try_from(heir).ok();
            let heir = &mut self.all[heir];
            heir.children += tasks + permits;
            self.lenders += usize::from(heir.lent_tasks == 0 && tasks > 0);
            heir.lent_tasks += tasks;
            heir.lent_permits += permits;
        } else {
            self.lent_tasks -= tasks as usize;
            self.lent_permits -= permits as usize;
        }
    }

    /// Adds a task that the live parent waits for. Returns the number of these.
    pub(crate) fn want(&mut self, id: FamilyId, want: Want) -> usize {
        let family = &mut self.all[id.index as usize];
        // The time of the wait begins with its first want.
        family.has_moved |= family.wants.is_empty();
        let wants = &mut family.wants;
        self.wanting += usize::from(wants.is_empty());
        wants.insert(want);
        wants.len()
    }

    /// Removes stale wants of a live parent.
    pub(crate) fn forget(&mut self, family: FamilyId, is_queued: impl Fn(Want) -> bool) {
        let wants = &mut self.all[family.index as usize].wants;
        let had_wants = !wants.is_empty();
        wants.retain(|want| is_queued(*want));
        self.wanting -= usize::from(had_wants && wants.is_empty());
    }

    /// Takes the first task that the live parent waits for.
    pub(crate) fn next_want(&mut self, family: FamilyId) -> Option<Want> {
        let wants = &mut self.all[family.index as usize].wants;
        let want = wants.pop_first()?;
        self.wanting -= usize::from(wants.is_empty());
        Some(want)
    }

    /// Whether the parent is live and has no live child.
    pub(crate) fn may_lend(&mut self, family: FamilyId) -> bool {
        self.living(family)
            .is_some_and(|family| family.children == 0)
    }

    /// Families whose parents wait for tasks that may still be queued, and in which nothing has started or ended for `patience`;
    /// and whether each has lent room. To be called repeatedly.
    pub(crate) fn sample(&mut self, now: u64, patience: u64) -> Vec<(FamilyId, bool)> {
        let mut stuck = Vec::new();
        for (index, family) in &mut self.all {
            if family.wants.is_empty() || std::mem::take(&mut family.has_moved) {
                family.since = now;
            } else if now.saturating_sub(family.since) >= patience {
                let index = u32::try_from(index).unwrap_or(u32::MAX);
                let number = family.number;
                let has_lent = family.lent_tasks + family.lent_permits > 0;
                stuck.push((FamilyId { index, number }, has_lent));
            }
        }
        stuck
    }

    /// Frees the memory of a peak.
    pub(crate) fn shrink(&mut self) {
        self.all.shrink_to_fit();
    }
}
