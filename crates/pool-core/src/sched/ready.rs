//! The queue of tasks to be started; in a pool with priorities one queue per priority.
//!
//! A pool without priorities has one queue, and pays one comparison per call for the feature. Admission and
//! notification only see the total length.
//!
//! # The rule
//! The oldest task of the highest level is started, unless a lower level has a task and has been passed over
//! [`MOST_PASSED`] times since the last start of its own. Then the oldest task of that level is started; of
//! several such levels the lowest comes first.
//!
//! So while a level has tasks, at most [`MOST_PASSED`] tasks of higher levels are started between two of its own,
//! and a task that is preceded by `n` others in its level is started after at most `(n + 1) * MOST_PASSED` tasks
//! of higher levels. An entry whose task was removed by its handle does not count as a start.

use std::sync::Arc;

use sync_shim::atomic::{AtomicUsize, Ordering::Relaxed};

use crate::sched::queue::{Block, TaskQueue};

/// How many starts of higher levels a level lets pass.
pub(crate) const MOST_PASSED: u32 = 8;

/// The priority of a task, in a pool with [priorities](crate::Builder::priorities).
///
/// Tasks of one level are started in the order of their acceptance. A lower level is not starved: while it has
/// tasks, it gets at least one of nine starts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Priority {
    /// Started after the other levels.
    Low,
    /// The priority of tasks that specify none.
    #[default]
    Normal,
    /// Started before the other levels.
    High,
}

const LEVELS: usize = 3;

impl Priority {
    /// Index of the level. Level 0 is started first.
    fn level(self) -> usize {
        match self {
            Self::High => 0,
            Self::Normal => 1,
            Self::Low => 2,
        }
    }
}

pub(crate) struct ReadyQueue<J> {
    /// All tasks; with priorities, those of the middle level.
    normal: TaskQueue<J>,
    others: Option<Box<dyn OtherLevels<J>>>,
}

/// The part of a queue with levels that other pools do without. `normal` is the queue of the middle level.
// An object that the builder installs, so that a program without priorities does not contain it.
pub(crate) trait OtherLevels<J>: Send {
    /// The queues of the high and the low level.
    fn high_and_low(&self) -> [&TaskQueue<J>; 2];
    /// The same.
    fn high_and_low_mut(&mut self) -> [&mut TaskQueue<J>; 2];
    /// See [`ReadyQueue::has_next`].
    fn has_next(&self, normal: &TaskQueue<J>) -> bool;
    /// See [`ReadyQueue::push`].
    fn push(&mut self, normal: &mut TaskQueue<J>, job: J);
    /// See [`ReadyQueue::pop`].
    fn pop(&mut self, normal: &mut TaskQueue<J>) -> Option<J>;
    /// See [`ReadyQueue::pop_lowest`].
    fn pop_lowest(&mut self, normal: &mut TaskQueue<J>) -> Option<J>;
    /// See [`ReadyQueue::unpop`].
    fn unpop(&mut self, normal: &mut TaskQueue<J>, job: J);
    /// See [`ReadyQueue::unpop_lowest`].
    fn unpop_lowest(&mut self, normal: &mut TaskQueue<J>, job: J);
    /// Returns the queue to sweep.
    // Another one for each call, so that a call under the lock takes no longer than in a pool without priorities.
    fn next_to_sweep<'a>(&'a mut self, normal: &'a mut TaskQueue<J>) -> &'a mut TaskQueue<J>;
    /// Moves the tasks of the inbox to the end.
    fn append(&mut self, inlet: &mut Inlet<J>);
    /// See [`ReadyQueue::inlet`].
    fn inlet(&self) -> Box<Inlet<J>>;
}

/// How a queue with levels inspects a task.
pub(crate) struct Levels<J> {
    pub(crate) priority_of: fn(&J) -> Priority,
    /// Whether the handle has removed the task, so that only its entry is left.
    pub(crate) is_tombstone: fn(&J) -> bool,
}

struct Others<J> {
    levels: Levels<J>,
    high: TaskQueue<J>,
    low: TaskQueue<J>,
    passed: Passed,
    /// The level that the next sweep visits.
    next_sweep: usize,
    /// Shared with the [`Inlet`].
    highest: Arc<AtomicUsize>,
}

/// The queues of the other levels in the inbox of a pool with priorities.
// Tasks are sorted as they enter, so that a drain moves whole blocks and not task by task.
pub(crate) struct Inlet<J> {
    priority_of: fn(&J) -> Priority,
    /// The highest level of the tasks in the inbox, or [`LEVELS`] if it is empty. Workers read it without the inbox's
    /// lock, and take the next task of the queue unless one of a higher level has entered since. Written under the
    /// lock of an inbox.
    // Relaxed: a thread that knows that a submit has returned sees its task's level, because the lock's release or
    // whatever told the thread orders the two.
    highest: Arc<AtomicUsize>,
    high: TaskQueue<J>,
    low: TaskQueue<J>,
}

impl<J> Inlet<J> {
    /// Sorts the task that has just entered `normal` into the queue of its level, and publishes the level.
    pub(crate) fn sort_last(&mut self, normal: &mut TaskQueue<J>) {
        let Some(last) = normal.last() else {
            return;
        };
        let level = (self.priority_of)(last).level();
        // Before the lock is released: a worker that finds the task's submit complete must find its level, too.
        if level < self.highest.load(Relaxed) {
            // The least, because submitters in other lanes write it, too.
            self.highest.fetch_min(level, Relaxed);
        }
        let queue = match level {
            0 => &mut self.high,
            1 => return,
            _ => &mut self.low,
        };
        if let Some(job) = normal.take_last() {
            queue.push(job);
        }
    }

    /// Number of tasks outside of the middle level.
    pub(crate) fn len(&self) -> usize {
        self.high.len() + self.low.len()
    }

    /// See [`TaskQueue::trim`].
    pub(crate) fn trim(&mut self) -> [Vec<Block<J>>; 2] {
        [self.high.trim(), self.low.trim()]
    }
}

/// How often each level was passed over since the last start of its own, while it had tasks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Passed {
    over: [u32; LEVELS],
    /// The value of `over` before the level's last start, to undo it.
    before: [u32; LEVELS],
}

impl Passed {
    /// Returns the level of the next start. `waiting` is the number of tasks of each level.
    fn next(&self, waiting: [usize; LEVELS]) -> Option<usize> {
        let aged = |&level: &usize| waiting[level] > 0 && self.over[level] >= MOST_PASSED;
        let highest = || (0..LEVELS).find(|&level| waiting[level] > 0);
        // Aged levels first and the lowest of these, so that its bound holds even while a middle level is aged as well.
        (0..LEVELS).rev().find(aged).or_else(highest)
    }

    /// Counts a start.
    fn started(&mut self, started: usize, waiting: [usize; LEVELS]) {
        self.before[started] = std::mem::take(&mut self.over[started]);
        // Only levels below are passed over; a level without tasks must not age, since it waits for nothing.
        for (passed, waiting) in self.over.iter_mut().zip(waiting).skip(started + 1) {
            *passed += u32::from(waiting > 0);
        }
    }

    /// Undoes a start: the level is next again.
    fn put_back(&mut self, level: usize, waiting: [usize; LEVELS]) {
        // Undone in step with `started`, so that a task that is put back does not age the levels below twice.
        self.over[level] = self.before[level];
        for (passed, waiting) in self.over.iter_mut().zip(waiting).skip(level + 1) {
            // Saturating, because a level may have got its first task since that start was counted.
            *passed = passed.saturating_sub(u32::from(waiting > 0));
        }
    }
}

impl<J> Levels<J> {
    /// Creates the queues of the other levels.
    pub(crate) fn queues(self) -> Box<dyn OtherLevels<J>>
    where
        J: Send + 'static,
    {
        Box::new(Others {
            levels: self,
            // A level below all, so that `has_next` needs no case for an empty inbox.
            highest: Arc::new(AtomicUsize::new(LEVELS)),
            high: TaskQueue::new(),
            low: TaskQueue::new(),
            passed: Passed::default(),
            next_sweep: 0,
        })
    }
}

impl<J> Others<J> {
    fn waiting(&self, normal: &TaskQueue<J>) -> [usize; LEVELS] {
        [self.high.len(), normal.len(), self.low.len()]
    }

    fn queue<'a>(&'a mut self, normal: &'a mut TaskQueue<J>, level: usize) -> &'a mut TaskQueue<J> {
        match level {
            0 => &mut self.high,
            1 => normal,
            _ => &mut self.low,
        }
    }

    fn queue_of<'a>(&'a mut self, normal: &'a mut TaskQueue<J>, job: &J) -> &'a mut TaskQueue<J> {
        let level = (self.levels.priority_of)(job).level();
        self.queue(normal, level)
    }
}

impl<J: Send> OtherLevels<J> for Others<J> {
    fn high_and_low(&self) -> [&TaskQueue<J>; 2] {
        [&self.high, &self.low]
    }

    fn high_and_low_mut(&mut self) -> [&mut TaskQueue<J>; 2] {
        [&mut self.high, &mut self.low]
    }

    fn has_next(&self, normal: &TaskQueue<J>) -> bool {
        // Which level is next must be decided before the inbox is considered: an aged lower level goes before any task there.
        let next = self.passed.next(self.waiting(normal));
        next.is_some_and(|level| level <= self.highest.load(Relaxed))
    }

    fn push(&mut self, normal: &mut TaskQueue<J>, job: J) {
        self.queue_of(normal, &job).push(job);
    }

    fn pop(&mut self, normal: &mut TaskQueue<J>) -> Option<J> {
        let waiting = self.waiting(normal);
        let level = self.passed.next(waiting)?;
        let job = self.queue(normal, level).pop()?;
        // A tombstone is no start. If it counted as one, its level would have waited in vain.
        if !(self.levels.is_tombstone)(&job) {
            self.passed.started(level, waiting);
        }
        Some(job)
    }

    fn pop_lowest(&mut self, normal: &mut TaskQueue<J>) -> Option<J> {
        // Lowest first, because a discard must cost the least important task.
        (0..LEVELS)
            .rev()
            .find_map(|level| self.queue(normal, level).pop())
    }

    fn unpop(&mut self, normal: &mut TaskQueue<J>, job: J) {
        if !(self.levels.is_tombstone)(&job) {
            let level = (self.levels.priority_of)(&job).level();
            // Of a real start only: a tombstone was not counted as one, and must not be undone as one.
            self.passed.put_back(level, self.waiting(normal));
        }
        self.unpop_lowest(normal, job);
    }

    fn unpop_lowest(&mut self, normal: &mut TaskQueue<J>, job: J) {
        self.queue_of(normal, &job).unpop(job);
    }

    fn next_to_sweep<'a>(&'a mut self, normal: &'a mut TaskQueue<J>) -> &'a mut TaskQueue<J> {
        // One level per call, so that a call under the lock takes no longer than in a pool without priorities.
        self.next_sweep = (self.next_sweep + 1) % LEVELS;
        self.queue(normal, self.next_sweep)
    }

    fn append(&mut self, inlet: &mut Inlet<J>) {
        for (queue, entered) in [
            (&mut self.high, &mut inlet.high),
            (&mut self.low, &mut inlet.low),
        ] {
            // As in `ReadyQueue::append`: a drain must not write to a queue that gets nothing.
            if entered.len() > 0 {
                queue.append(entered);
            }
        }
        // After the move, under the inbox's lock: no task can enter in between and lose its level.
        self.highest.store(LEVELS, Relaxed);
    }

    fn inlet(&self) -> Box<Inlet<J>> {
        Box::new(Inlet {
            priority_of: self.levels.priority_of,
            highest: Arc::clone(&self.highest),
            high: TaskQueue::new(),
            low: TaskQueue::new(),
        })
    }
}

impl<J> ReadyQueue<J> {
    /// Creates a queue. Tasks have priorities if there are `others`.
    pub(crate) fn new(others: Option<Box<dyn OtherLevels<J>>>) -> Self {
        Self {
            normal: TaskQueue::new(),
            others,
        }
    }

    #[inline]
    pub(crate) fn len(&self) -> usize {
        let mut len = self.normal.len();
        if let Some(others) = &self.others {
            len += others
                .high_and_low()
                .map(TaskQueue::len)
                .iter()
                .sum::<usize>();
        }
        len
    }

    #[inline]
    pub(crate) fn push(&mut self, job: J) {
        if self.others.is_some() {
            return self.push_by_level(job);
        }
        self.normal.push(job);
    }

    /// Whether tasks have priorities.
    #[inline]
    pub(crate) fn has_levels(&self) -> bool {
        self.others.is_some()
    }

    /// Creates the inbox's part, if tasks have priorities.
    pub(crate) fn inlet(&self) -> Option<Box<Inlet<J>>> {
        self.others.as_ref().map(|others| others.inlet())
    }

    /// Number of tasks, in a queue without levels.
    #[inline]
    pub(crate) fn len_only(&self) -> usize {
        self.normal.len()
    }

    /// Pops the next task, in a queue without levels.
    #[inline]
    pub(crate) fn pop_only(&mut self) -> Option<J> {
        self.normal.pop()
    }

    /// Whether a queue with levels has a task, and the inbox has none of a higher level.
    pub(crate) fn has_next(&self) -> bool {
        let others = self.others.as_ref();
        others.is_some_and(|others| others.has_next(&self.normal))
    }

    /// Pops the next task.
    #[inline]
    pub(crate) fn pop(&mut self) -> Option<J> {
        if self.others.is_some() {
            return self.pop_by_level();
        }
        self.normal.pop()
    }

    // Out of line, so that a pool without priorities pays one comparison and no space in its hot path.
    #[cold]
    #[inline(never)]
    fn push_by_level(&mut self, job: J) {
        if let Some(others) = &mut self.others {
            others.push(&mut self.normal, job);
        }
    }

    #[cold]
    #[inline(never)]
    fn pop_by_level(&mut self) -> Option<J> {
        self.others.as_mut()?.pop(&mut self.normal)
    }

    /// Pops the oldest task of the lowest level.
    pub(crate) fn pop_lowest(&mut self) -> Option<J> {
        match &mut self.others {
            None => self.normal.pop(),
            Some(others) => others.pop_lowest(&mut self.normal),
        }
    }

    /// Puts back a task from [`pop`](Self::pop). It is the next of its level again.
    #[cold]
    pub(crate) fn unpop(&mut self, job: J) {
        match &mut self.others {
            None => self.normal.unpop(job),
            Some(others) => others.unpop(&mut self.normal, job),
        }
    }

    /// Puts back a task from [`pop_lowest`](Self::pop_lowest).
    pub(crate) fn unpop_lowest(&mut self, job: J) {
        match &mut self.others {
            None => self.normal.unpop(job),
            Some(others) => others.unpop_lowest(&mut self.normal, job),
        }
    }

    /// Moves all tasks of the inbox to the end. The inbox's lock is held.
    #[inline]
    pub(crate) fn append(&mut self, entered: &mut TaskQueue<J>, inlet: Option<&mut Inlet<J>>) {
        // An empty inbox is the common case of a drain, and must not touch the queue's cache lines.
        if entered.len() > 0 {
            self.normal.append(entered);
        }
        if let (Some(inlet), Some(others)) = (inlet, &mut self.others) {
            others.append(inlet);
        }
    }

    /// All tasks. Those of one level come oldest first.
    pub(crate) fn iter(&self) -> impl Iterator<Item = &J> {
        let others = self.others.iter().flat_map(|others| others.high_and_low());
        self.normal.iter().chain(others.flat_map(TaskQueue::iter))
    }

    /// Like [`TaskQueue::sweep`], for one level per call.
    pub(crate) fn sweep(&mut self, goes: impl Fn(&J) -> bool) -> Block<J> {
        match &mut self.others {
            None => self.normal.sweep(goes),
            Some(others) => others.next_to_sweep(&mut self.normal).sweep(goes),
        }
    }

    /// See [`TaskQueue::give_back`].
    pub(crate) fn give_back(&mut self, block: Block<J>) {
        // To the middle level whatever queue it is from, because blocks are all alike.
        self.normal.give_back(block);
    }

    /// See [`TaskQueue::trim`].
    pub(crate) fn trim(&mut self) -> Vec<Block<J>> {
        let mut spare = self.normal.trim();
        if let Some(others) = &mut self.others {
            for queue in others.high_and_low_mut() {
                spare.extend(queue.trim());
            }
        }
        spare
    }

    /// Removes all tasks, higher levels first, and all memory.
    pub(crate) fn take_all(&mut self) -> impl Iterator<Item = J> + use<J> {
        // Taken out at once, so that the caller can drop the tasks after the unlock.
        let others = self.others.as_mut();
        let others = others.map(|others| others.high_and_low_mut().map(TaskQueue::take_all));
        let [high, low] = others.map_or([None, None], |others| others.map(Some));
        let normal = self.normal.take_all();
        let high = high.into_iter().flatten();
        high.chain(normal).chain(low.into_iter().flatten())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Jobs with their priority.
    type Job = (Priority, u32);

    /// The number of a job that its handle took out.
    const TOMBSTONE: u32 = u32::MAX;

    fn queue() -> ReadyQueue<Job> {
        let levels = Levels {
            priority_of: |job: &Job| job.0,
            is_tombstone: |job: &Job| job.1 == TOMBSTONE,
        };
        ReadyQueue::new(Some(levels.queues()))
    }

    #[test]
    fn a_task_that_is_put_back_keeps_its_levels_turn() {
        let mut queue = queue();
        for n in 0..30 {
            for priority in [Priority::Low, Priority::Normal, Priority::High] {
                queue.push((priority, n));
            }
        }
        while let Some(first) = queue.pop() {
            queue.unpop(first);
            assert_eq!(queue.pop(), Some(first), "with {} left", queue.len());
        }
    }

    #[test]
    fn a_task_that_its_handle_took_out_costs_its_level_no_start() {
        let mut queue = queue();
        for job in [TOMBSTONE, TOMBSTONE, 1] {
            queue.push((Priority::Low, job));
        }
        let highest = MOST_PASSED + 2;
        (0..highest).for_each(|n| queue.push((Priority::High, n)));
        let order: Vec<_> = std::iter::from_fn(|| queue.pop()).collect();
        let low = order
            .iter()
            .position(|&job| job == (Priority::Low, 1))
            .expect("it was queued");
        let higher = order[..low].iter().filter(|job| job.0 == Priority::High);
        assert_eq!(higher.count(), MOST_PASSED as usize, "{order:?}");
    }

    #[test]
    fn levels_are_started_from_the_highest_and_each_in_its_order() {
        let mut queue = queue();
        for n in 0..2 {
            for priority in [Priority::Low, Priority::High, Priority::Normal] {
                queue.push((priority, n));
            }
        }
        let first = queue.pop().expect("six wait");
        queue.unpop(first);
        assert_eq!((queue.len(), queue.iter().count()), (6, 6));
        let order: Vec<_> = std::iter::from_fn(|| queue.pop()).collect();
        let expected = [Priority::High, Priority::Normal, Priority::Low];
        let expected = expected.map(|priority| [(priority, 0), (priority, 1)]);
        assert_eq!(order, expected.as_flattened());
        assert_eq!(queue.len(), 0);
    }

    /// Every way in which levels may have tasks, step by step, from every count that may be: no
    /// level with a task is passed over more often than the rule says, and a level is only passed
    /// over by higher ones or by lower ones that have aged.
    #[test]
    fn no_level_with_a_task_is_passed_over_more_often_than_the_rule_says() {
        let mut states = vec![Passed::default()];
        let mut seen = Vec::new();
        while let Some(passed) = states.pop() {
            if seen.contains(&passed) {
                continue;
            }
            seen.push(passed);
            for ways in 1..1 << LEVELS {
                let waiting = [0, 1, 2].map(|level| usize::from(ways >> level & 1 == 1));
                let next = passed.next(waiting).expect("some level has a task");
                assert!(waiting[next] > 0);
                for level in 0..next {
                    let aged = passed.over[next] >= MOST_PASSED;
                    assert!(waiting[level] == 0 || aged, "{passed:?}, {waiting:?}");
                }
                let mut after = passed;
                after.started(next, waiting);
                let most = after.over.into_iter().max();
                assert!(most <= Some(MOST_PASSED), "{passed:?}, {waiting:?}");
                states.push(after);
            }
        }
        assert!(seen.len() > 50, "{}", seen.len());
    }

    #[test]
    fn a_task_waits_for_one_of_a_higher_level_in_the_inbox_but_not_for_one_of_its_own() {
        let (mut queue, mut inbox) = (queue(), TaskQueue::new());
        let mut inlet = queue.inlet().expect("there are levels");
        queue.push((Priority::Normal, 0));
        for (entered, has_next) in [
            (Priority::Low, true),
            (Priority::Normal, true),
            (Priority::High, false),
        ] {
            inbox.push((entered, 1));
            inlet.sort_last(&mut inbox);
            assert_eq!(queue.has_next(), has_next, "{entered:?} entered");
        }
        queue.append(&mut inbox, Some(&mut inlet));
        assert!(queue.has_next());
        let order: Vec<_> = std::iter::from_fn(|| queue.pop()).collect();
        assert_eq!(order.len(), 4);
        assert_eq!(order[0], (Priority::High, 1));
        assert_eq!(order[1..3], [(Priority::Normal, 0), (Priority::Normal, 1)]);
    }

    #[test]
    fn the_first_task_of_a_level_starts_after_at_most_max_passed_tasks_of_higher_levels() {
        for (low, higher) in [
            (Priority::Low, [Priority::High, Priority::Normal]),
            (Priority::Normal, [Priority::High, Priority::High]),
        ] {
            let mut queue = queue();
            queue.push((low, 0));
            for n in 0..1000 {
                for priority in higher {
                    queue.push((priority, n));
                }
            }
            let before = std::iter::from_fn(|| queue.pop()).take_while(|job| job.0 != low);
            assert_eq!(before.count(), MOST_PASSED as usize);
        }
    }

    #[test]
    fn pop_lowest_takes_the_oldest_task_of_the_lowest_level() {
        let mut queue = queue();
        queue.push((Priority::High, 0));
        queue.push((Priority::Normal, 1));
        queue.push((Priority::Low, 2));
        queue.push((Priority::Low, 3));
        let order: Vec<_> = std::iter::from_fn(|| queue.pop_lowest())
            .map(|job| job.1)
            .collect();
        assert_eq!(order, [2, 3, 1, 0]);
    }

    #[test]
    fn sweeps_reach_every_level_and_drained_tasks_are_sorted() {
        let (mut queue, mut inbox) = (queue(), TaskQueue::new());
        let all = [Priority::Low, Priority::High, Priority::Normal];
        let mut inlet = queue.inlet().expect("there are levels");
        for n in 0..300 {
            inbox.push((all[n as usize % 3], n));
            inlet.sort_last(&mut inbox);
        }
        assert!(!queue.has_next(), "it is in the inbox");
        queue.append(&mut inbox, Some(&mut inlet));
        assert!(queue.has_next());
        assert_eq!((queue.len(), inbox.len(), inlet.len()), (300, 0, 0));
        let swept: usize = (0..2 * LEVELS)
            .map(|_| queue.sweep(|job| job.1 % 2 == 0).len())
            .sum();
        assert_eq!((swept, queue.len()), (150, 150));
        let left: Vec<_> = queue.take_all().collect();
        assert_eq!(left.len(), 150);
        assert!(left.is_sorted_by_key(|job| (job.0.level(), job.1)));
        assert_eq!(queue.len(), 0);
    }
}
