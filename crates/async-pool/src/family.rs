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
//! 2. `lent_tasks` and `lent_permits` are the sums over families whose parents are live: a loan has two holders of one
//!    room, and ends with the first of them.

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
    children: u32,
    lent_tasks: u32,
    lent_permits: u32,
    wants: BTreeSet<Want>,
}

pub(crate) struct Families {
    families: Slab<Family>,
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
            families: Slab::new(),
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
        let index = self.families.insert(Family {
            number,
            has_parent: true,
            children: 0,
            lent_tasks: 0,
            lent_permits: 0,
            wants: BTreeSet::new(),
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
        let number = self.families[index as usize].number;
        FamilyId { index, number }
    }

    /// The family, if its parent is live.
    fn living(&mut self, id: FamilyId) -> Option<&mut Family> {
        let family = self.families.get_mut(id.index as usize)?;
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
        ChildOf::new(id.index, false)
    }

    /// Counts a child that starts in the room of the live parent.
    pub(crate) fn lend_to_task(&mut self, id: FamilyId) -> ChildOf {
        let family = &mut self.families[id.index as usize];
        family.children += 1;
        self.lenders += usize::from(family.lent_tasks == 0);
        family.lent_tasks += 1;
        self.lent_tasks += 1;
        ChildOf::borrower(id)
    }

    /// Counts a permit in the room of the live parent.
    pub(crate) fn lend_to_permit(&mut self, family: FamilyId) {
        let family = &mut self.families[family.index as usize];
        family.children += 1;
        family.lent_permits += 1;
        self.lent_permits += 1;
    }

    /// Counts a permit out. Returns the family if its room is still a live parent's.
    pub(crate) fn return_permit(&mut self, child_of: ChildOf) -> Option<FamilyId> {
        let index = child_of.family()?;
        let family = &mut self.families[index];
        family.children -= 1;
        if family.has_parent {
            family.lent_permits -= 1;
            self.lent_permits -= 1;
        }
        self.parent_of(index)
    }

    /// Counts a started task out. Returns its parent's family if that is live.
    pub(crate) fn end_child(&mut self, child_of: ChildOf) -> Option<FamilyId> {
        let index = child_of.family()?;
        let family = &mut self.families[index];
        family.children -= 1;
        if family.has_parent && child_of.is_lent() {
            family.lent_tasks -= 1;
            self.lent_tasks -= 1;
            self.lenders -= usize::from(family.lent_tasks == 0);
        }
        self.parent_of(index)
    }

    fn parent_of(&mut self, index: usize) -> Option<FamilyId> {
        let Family {
            number,
            has_parent,
            children,
            ..
        } = self.families[index];
        if has_parent {
            // It was made of a `u32`.
            let index = u32::try_from(index).unwrap_or(u32::MAX);
            return Some(FamilyId { index, number });
        }
        if children == 0 {
            self.families.remove(index);
        }
        None
    }

    /// Ends the loans of a parent that has ended: its room is now that of its child.
    pub(crate) fn end_parent(&mut self, headed: FamilyIndex) {
        let index = headed.0.get() as usize - 1;
        let family = &mut self.families[index];
        family.has_parent = false;
        self.lent_tasks -= family.lent_tasks as usize;
        self.lent_permits -= family.lent_permits as usize;
        self.lenders -= usize::from(family.lent_tasks > 0);
        self.wanting -= usize::from(!family.wants.is_empty());
        family.wants = BTreeSet::new();
        self.parent_of(index);
    }

    /// Adds a task that the live parent waits for. Returns the number of these.
    pub(crate) fn want(&mut self, family: FamilyId, want: Want) -> usize {
        let wants = &mut self.families[family.index as usize].wants;
        self.wanting += usize::from(wants.is_empty());
        wants.insert(want);
        wants.len()
    }

    /// Removes stale wants of a live parent.
    pub(crate) fn forget(&mut self, family: FamilyId, is_queued: impl Fn(Want) -> bool) {
        let wants = &mut self.families[family.index as usize].wants;
        let had_wants = !wants.is_empty();
        wants.retain(|want| is_queued(*want));
        self.wanting -= usize::from(had_wants && wants.is_empty());
    }

    /// Takes the first task that the live parent waits for.
    pub(crate) fn next_want(&mut self, family: FamilyId) -> Option<Want> {
        let wants = &mut self.families[family.index as usize].wants;
        let want = wants.pop_first()?;
        self.wanting -= usize::from(wants.is_empty());
        Some(want)
    }

    /// Whether the parent is live and has no live child.
    pub(crate) fn may_lend(&mut self, family: FamilyId) -> bool {
        self.living(family)
            .is_some_and(|family| family.children == 0)
    }

    /// Families whose parents wait for tasks that may still be queued, and whether each has lent room.
    pub(crate) fn wanting(&self) -> Vec<(FamilyId, bool)> {
        let wanting = self.families.iter().filter(|(_, it)| !it.wants.is_empty());
        let wanting = wanting.map(|(index, family)| {
            let index = u32::try_from(index).unwrap_or(u32::MAX);
            let number = family.number;
            let has_lent = family.lent_tasks + family.lent_permits > 0;
            (FamilyId { index, number }, has_lent)
        });
        wanting.collect()
    }

    /// Frees the memory of a peak.
    pub(crate) fn shrink(&mut self) {
        self.families.shrink_to_fit();
    }
}
