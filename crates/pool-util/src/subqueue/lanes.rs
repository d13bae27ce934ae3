//! Counts the drain tasks of a sub-queue, per pool.
//!
//! Each member of a multi-pool has a *lane*. A drain task that waits for room at any member is counted in
//! an extra lane until it begins.
//!
//! # Invariants
//! 1. `drainers` and `starting` are the sums over all lanes; `limit` is the sum over the members.
//! 2. A lane's `starting` is at most its `drainers`.

/// The drain tasks of one pool.
#[derive(Clone, Copy, Default)]
struct Lane {
    /// Most drain tasks at a time: the pool's number of workers.
    limit: usize,
    /// Drain tasks that were reserved or submitted and have not ended.
    drainers: usize,
    /// Drain tasks that have not looked for a piece yet.
    starting: usize,
}

pub(super) struct Lanes {
    /// The first member's lane. Inline, so that a single pool needs no allocation.
    first: Lane,
    /// Lanes of the other members, then the extra one.
    others: Box<[Lane]>,
    drainers: usize,
    starting: usize,
    limit: usize,
    /// The member that the next reservation tries first.
    next: usize,
}

impl Lanes {
    /// `limits` has an item per member, at least one.
    pub(super) fn new(mut limits: impl Iterator<Item = usize>) -> Self {
        let with_limit = |limit| Lane {
            limit,
            ..Lane::default()
        };
        let first = with_limit(limits.next().unwrap_or(0));
        let mut others: Vec<Lane> = limits.map(with_limit).collect();
        if !others.is_empty() {
            others.push(Lane::default());
        }
        let mut lanes = Self {
            first,
            others: others.into(),
            drainers: 0,
            starting: 0,
            limit: 0,
            next: 0,
        };
        lanes.add_limits();
        lanes
    }

    fn lane(&self, lane: usize) -> &Lane {
        match lane.checked_sub(1) {
            None => &self.first,
            Some(other) => &self.others[other],
        }
    }

    fn lane_mut(&mut self, lane: usize) -> &mut Lane {
        match lane.checked_sub(1) {
            None => &mut self.first,
            Some(other) => &mut self.others[other],
        }
    }

    /// Saturates, because the limit of an unlimited pool is `usize::MAX`.
    fn add_limits(&mut self) {
        let others = self.others.iter().map(|lane| lane.limit);
        self.limit = others.fold(self.first.limit, usize::saturating_add);
    }

    pub(super) fn drainers(&self) -> usize {
        self.drainers
    }

    pub(super) fn starting(&self) -> usize {
        self.starting
    }

    pub(super) fn limit(&self) -> usize {
        self.limit
    }

    fn members(&self) -> usize {
        self.others.len().max(1)
    }

    fn has_space(&self, lane: usize) -> bool {
        let lane = self.lane(lane);
        lane.drainers < lane.limit
    }

    pub(super) fn have_space(&self) -> bool {
        (0..self.members()).any(|lane| self.has_space(lane))
    }

    /// Counts another drain task and returns its lane: that of a member with a free worker, or else with
    /// the fewest starting drain tasks. `None` if all members are at their limits.
    pub(super) fn reserve(&mut self, has_worker: impl Fn(usize) -> bool) -> Option<usize> {
        let members = self.members();
        if members == 1 {
            return self.has_space(0).then(|| self.reserve_at(0));
        }
        let others = (self.next..members).chain(0..self.next);
        let with_space = others.filter(|&lane| self.has_space(lane));
        let lane = with_space.min_by_key(|&lane| (!has_worker(lane), self.lane(lane).starting))?;
        self.next = (lane + 1) % members;
        Some(self.reserve_at(lane))
    }

    fn reserve_at(&mut self, lane: usize) -> usize {
        self.recount(lane);
        self.restart(lane);
        lane
    }

    /// Whether a drain task has begun.
    pub(super) fn is_live(&self) -> bool {
        self.drainers > self.starting
    }

    /// Lanes with starting drain tasks, the extra lane excluded.
    pub(super) fn starting_lanes(&self) -> impl Iterator<Item = usize> {
        (0..self.members()).filter(|&lane| self.lane(lane).starting > 0)
    }

    /// Whether some member is below its limit without a starting drain task while another has one.
    pub(super) fn has_idle_member(&self) -> bool {
        self.starting > 0 && (0..self.members()).any(|lane| self.is_idle(lane))
    }

    fn is_idle(&self, lane: usize) -> bool {
        self.lane(lane).starting == 0 && self.has_space(lane)
    }

    /// Counts a drain task at each member without a starting one, and returns their lanes.
    pub(super) fn reserve_at_idle_members(&mut self) -> Vec<usize> {
        let idle: Vec<usize> = (0..self.members())
            .filter(|&lane| self.is_idle(lane))
            .collect();
        for &lane in &idle {
            self.reserve_at(lane);
        }
        idle
    }

    /// Moves a reserved drain task to the extra lane, because it waits for room at any member.
    pub(super) fn reserved_anywhere(&mut self, lane: usize) -> usize {
        let anywhere = self.others.len();
        self.lane_mut(lane).starting -= 1;
        self.lane_mut(anywhere).starting += 1;
        self.relocate(lane, anywhere);
        anywhere
    }

    fn relocate(&mut self, from: usize, to: usize) {
        self.lane_mut(from).drainers -= 1;
        self.lane_mut(to).drainers += 1;
    }

    /// Called when a drain task of `lane` looks for its first piece, on a worker of `here`.
    pub(super) fn begin(&mut self, lane: usize, here: usize) {
        self.lane_mut(lane).starting -= 1;
        self.starting -= 1;
        self.relocate(lane, here);
    }

    /// Counts a drain task that has begun as starting again.
    pub(super) fn restart(&mut self, lane: usize) {
        self.lane_mut(lane).starting += 1;
        self.starting += 1;
    }

    /// Counts a drain task that goes on, although the one for its next turn was uncounted.
    pub(super) fn recount(&mut self, lane: usize) {
        self.lane_mut(lane).drainers += 1;
        self.drainers += 1;
    }

    /// Uncounts a drain task that has begun.
    pub(super) fn end(&mut self, lane: usize) {
        self.lane_mut(lane).drainers -= 1;
        self.drainers -= 1;
    }

    /// Uncounts a drain task that will not begin.
    pub(super) fn abandon(&mut self, lane: usize) {
        self.lane_mut(lane).starting -= 1;
        self.starting -= 1;
        self.end(lane);
    }

    pub(super) fn tune(&mut self, lane: usize, limit: usize) {
        if limit != self.lane(lane).limit {
            self.lane_mut(lane).limit = limit;
            self.add_limits();
        }
    }

    pub(super) fn has_too_many(&self, lane: usize) -> bool {
        let lane = self.lane(lane);
        lane.drainers > lane.limit
    }
}
