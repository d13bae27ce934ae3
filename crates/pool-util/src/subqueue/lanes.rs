//! Where the drain tasks of a sub-queue are: how many each pool may have, has, and has on the way.
//!
//! A multi-pool's members each have a *lane*. A drain task that waits for room anywhere has not
//! chosen one; it is counted in an extra lane until it begins.
//!
//! # Invariants
//! 1. `drainers` and `starting` are the sums over the lanes, `limit` the sum over the members.
//! 2. A lane's `starting` is at most its `drainers`.

/// The drain tasks of one pool.
#[derive(Clone, Copy, Default)]
struct Lane {
    /// Drain tasks there may be at a time: as many as the pool has workers.
    limit: usize,
    /// Submitted, or about to be, and not ended.
    drainers: usize,
    /// Those of them that have not looked for a piece yet.
    starting: usize,
}

pub(super) struct Lanes {
    /// That of a single pool: with it none is allocated.
    first: Lane,
    /// Those of the other members, and behind them the extra one.
    others: Box<[Lane]>,
    drainers: usize,
    starting: usize,
    limit: usize,
    /// The member whose turn is next.
    next: usize,
}

impl Lanes {
    /// No drain tasks, and a limit for each member. There is one.
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

    /// A limit may be `usize::MAX`: as many as there are tasks.
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

    /// Drain tasks there may be in all.
    pub(super) fn limit(&self) -> usize {
        self.limit
    }

    /// Number of pools.
    fn members(&self) -> usize {
        self.others.len().max(1)
    }

    fn has_space(&self, lane: usize) -> bool {
        let lane = self.lane(lane);
        lane.drainers < lane.limit
    }

    /// Whether some pool may have another drain task.
    pub(super) fn have_space(&self) -> bool {
        (0..self.members()).any(|lane| self.has_space(lane))
    }

    /// Counts another drain task, at the pool that has the fewest on the way; one that has a worker
    /// free goes first. `None`: there are as many as there may be.
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
        self.lane_mut(lane).drainers += 1;
        self.drainers += 1;
        self.restart(lane);
        lane
    }

    /// Whether a pool may have a drain task and has none on the way, though others have.
    pub(super) fn has_idle_member(&self) -> bool {
        self.starting > 0 && (0..self.members()).any(|lane| self.is_idle(lane))
    }

    fn is_idle(&self, lane: usize) -> bool {
        self.lane(lane).starting == 0 && self.has_space(lane)
    }

    /// Counts a drain task at each such pool.
    pub(super) fn reserve_at_idle_members(&mut self) -> Vec<usize> {
        let idle: Vec<usize> = (0..self.members())
            .filter(|&lane| self.is_idle(lane))
            .collect();
        for &lane in &idle {
            self.reserve_at(lane);
        }
        idle
    }

    /// A drain task that was reserved will wait for room anywhere: its new lane.
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

    /// A drain task of that lane begins, on a worker of `here`.
    pub(super) fn begin(&mut self, lane: usize, here: usize) {
        self.lane_mut(lane).starting -= 1;
        self.starting -= 1;
        self.relocate(lane, here);
    }

    /// A drain task that has begun goes to the end of its pool's queue.
    pub(super) fn restart(&mut self, lane: usize) {
        self.lane_mut(lane).starting += 1;
        self.starting += 1;
    }

    /// A drain task that has begun ends.
    pub(super) fn end(&mut self, lane: usize) {
        self.lane_mut(lane).drainers -= 1;
        self.drainers -= 1;
    }

    /// A drain task will not begin.
    pub(super) fn abandon(&mut self, lane: usize) {
        self.lane_mut(lane).starting -= 1;
        self.starting -= 1;
        self.end(lane);
    }

    /// The pool has that many workers now.
    pub(super) fn tune(&mut self, lane: usize, limit: usize) {
        if limit != self.lane(lane).limit {
            self.lane_mut(lane).limit = limit;
            self.add_limits();
        }
    }

    /// Whether it has more drain tasks than it may have.
    pub(super) fn has_too_many(&self, lane: usize) -> bool {
        let lane = self.lane(lane);
        lane.drainers > lane.limit
    }
}
