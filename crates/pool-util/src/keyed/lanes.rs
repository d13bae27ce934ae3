//! Lanes by key: each key with an unfinished task has a lane, which holds the waiting tasks.
//!
//! Locks, and when a lane is opened and closed, are the caller's. A lane keeps part of its key's
//! hash, so that closing it calls neither the key's `Hash` nor its `Eq`.
//!
//! # Invariants
//! 1. A key is in the table exactly while its lane is open.
//! 2. No two open lanes have the same [`LaneId`].
//! 3. A lane has at least one turn and at most the limit. Each empty turn takes its task from the
//!    lane when it runs, so the number of waiting tasks without a permit is the number of empty
//!    turns.
//! 4. The table's memory is proportional to its open lanes, and there are at most [`FEW`] more
//!    spare queues than lanes. So memory of closed keys is freed, however many others stay open.

use std::collections::VecDeque;
use std::mem;

use hashbrown::HashTable;

/// Number of closed lanes whose memory is always kept, so that short-lived keys do not allocate.
const FEW: usize = 64;
/// Capacity, in tasks, up to which the queue of a closed lane is kept.
const SPARE_TASKS: usize = 4;

pub(super) struct Lanes<K, J> {
    /// Maximum number of turns of a lane.
    limit: u32,
    open: HashTable<Lane<K, J>>,
    /// Number of the next lane.
    next: u32,
    /// Whether `next` has wrapped around, so that a number may be in use.
    reuses_numbers: bool,
    /// Peak number of open lanes since the table was last shrunk.
    most_open: usize,
    /// Empty queues of closed lanes.
    spare: Vec<VecDeque<J>>,
}

struct Lane<K, J> {
    id: LaneId,
    key: K,
    turns: Turns,
    waiting: VecDeque<J>,
}

struct Turns {
    /// At least one, and at most the limit.
    all: u32,
    /// Turns that have not yet taken their next task out of the lane. Always zero with a limit of
    /// one, where a turn carries its next task.
    empty: u32,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct LaneId {
    hash: KeyHash,
    number: u32,
}

/// The part of a key's hash that a lane keeps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct KeyHash(u32);

impl KeyHash {
    #[expect(clippy::cast_possible_truncation, reason = "each half is a hash")]
    pub(super) fn new(hash: u64) -> Self {
        // Folds both halves, because a weak hasher may vary only one of them.
        let [low, high] = [hash as u32, (hash >> 32) as u32];
        Self(low ^ high)
    }

    /// The index of the key's shard, by bits of the hash that the table does not use.
    #[inline]
    pub(super) fn shard(self, shards: usize) -> usize {
        (self.spread() >> 40) as u32 as usize % shards
    }

    // Spreads 32 bits over 64, because the table uses the lowest and the highest bits of 64.
    #[inline]
    fn spread(self) -> u64 {
        u64::from(self.0).wrapping_mul(0x9e37_79b9_7f4a_7c15)
    }
}

/// An open lane, as found by its key.
pub(super) struct Found<'a, J> {
    id: LaneId,
    limit: u32,
    turns: &'a mut Turns,
    waiting: &'a mut VecDeque<J>,
    spare: &'a mut Vec<VecDeque<J>>,
}

impl<J> Found<'_, J> {
    /// Appends a task to the lane's queue.
    #[inline]
    pub(super) fn push(self, job: impl FnOnce() -> J) {
        if self.waiting.capacity() == 0
            && let Some(spare) = self.spare.pop()
        {
            *self.waiting = spare;
        }
        // Constructed in its final place: a copy would stall until the stores before it complete.
        let job = std::iter::once_with(job);
        self.waiting.extend(job);
    }

    pub(super) fn id(&self) -> LaneId {
        self.id
    }

    /// Whether the lane has fewer turns than the limit.
    #[inline]
    pub(super) fn is_below_limit(&self) -> bool {
        self.turns.all < self.limit
    }

    /// As [`push`](Self::push), for a task that adds a turn to the lane.
    pub(super) fn push_with_turn(self, job: impl FnOnce() -> J) {
        self.turns.all += 1;
        self.turns.empty += 1;
        self.push(job);
    }
}

impl<K, J> Lanes<K, J> {
    pub(super) fn new(limit: u32) -> Self {
        Self {
            limit,
            open: HashTable::new(),
            next: 0,
            reuses_numbers: false,
            most_open: 0,
            spare: Vec::new(),
        }
    }

    /// Maximum number of turns of a lane.
    #[inline]
    pub(super) fn limit(&self) -> u32 {
        self.limit
    }

    /// Number of open lanes.
    pub(super) fn len(&self) -> usize {
        self.open.len()
    }

    #[inline]
    pub(super) fn find(&mut self, hash: KeyHash, key: &K) -> Option<Found<'_, J>>
    where
        K: Eq,
    {
        // The hash first, so that the user's `Eq` runs only for likely matches.
        let is_it = |lane: &Lane<K, J>| lane.id.hash == hash && lane.key == *key;
        let lane = self.open.find_mut(hash.spread(), is_it)?;
        Some(Found {
            id: lane.id,
            limit: self.limit,
            turns: &mut lane.turns,
            waiting: &mut lane.waiting,
            spare: &mut self.spare,
        })
    }

    /// Opens a lane for a key that has none.
    #[inline]
    pub(super) fn open(&mut self, hash: KeyHash, key: K) -> LaneId {
        let id = self.new_id(hash);
        let lane = Lane {
            id,
            key,
            turns: Turns { all: 1, empty: 0 },
            waiting: VecDeque::new(),
        };
        let rehash = |lane: &Lane<K, J>| lane.id.hash.spread();
        self.open.insert_unique(hash.spread(), lane, rehash);
        self.most_open = self.most_open.max(self.open.len());
        id
    }

    /// Opens a lane with a waiting task, for an empty turn.
    pub(super) fn open_with(&mut self, hash: KeyHash, key: K, job: J) -> LaneId {
        let id = self.open(hash, key);
        let is_it = |lane: &Lane<K, J>| lane.id == id;
        let lane = self.open.find_mut(hash.spread(), is_it);
        let lane = lane.expect("it was opened above");
        lane.turns.empty = 1;
        if let Some(spare) = self.spare.pop() {
            lane.waiting = spare;
        }
        lane.waiting.push_back(job);
        id
    }

    fn new_id(&mut self, hash: KeyHash) -> LaneId {
        loop {
            let number = self.next;
            self.next = number.wrapping_add(1);
            self.reuses_numbers |= self.next == 0;
            let id = LaneId { hash, number };
            let is_it = |lane: &Lane<K, J>| lane.id == id;
            // Invariant 2: after a wraparound, an older lane may still have this number.
            if !self.reuses_numbers || self.open.find(hash.spread(), is_it).is_none() {
                return id;
            }
        }
    }

    /// Swaps the lane's waiting tasks into `empty`. If there are none, closes the lane and returns
    /// its key. The caller must drop the key after unlocking, because its drop is user code.
    #[inline]
    pub(super) fn take_or_close(&mut self, id: LaneId, empty: &mut VecDeque<J>) -> Option<K> {
        debug_assert!(
            empty.is_empty(),
            "what is in it would come after its successors"
        );
        let is_it = |lane: &Lane<K, J>| lane.id == id;
        let mut entry = self.open.find_entry(id.hash.spread(), is_it).ok()?;
        let waiting = &mut entry.get_mut().waiting;
        if !waiting.is_empty() {
            if empty.capacity() > 4 * (waiting.len() + SPARE_TASKS) {
                *empty = VecDeque::new(); // Frees the memory of an earlier burst.
            }
            // Swapped instead of moved one by one, so that both queues keep their memory.
            mem::swap(waiting, empty);
            return None;
        }
        let (lane, _) = entry.remove();
        self.keep(lane.waiting);
        self.keep(mem::take(empty));
        self.tidy();
        Some(lane.key)
    }

    /// For limits above one, called when a turn has ended a task. Returns whether the turn claims
    /// another one, to be taken with [`next_of`](Self::next_of); if all waiting tasks belong to
    /// other turns, the turn leaves. Returns the key of a closed lane, to be dropped after
    /// unlocking.
    pub(super) fn claim_or_leave(&mut self, id: LaneId) -> (bool, Option<K>) {
        let is_it = |lane: &Lane<K, J>| lane.id == id;
        let Ok(mut entry) = self.open.find_entry(id.hash.spread(), is_it) else {
            return (false, None);
        };
        let Lane { turns, waiting, .. } = entry.get_mut();
        if waiting.len() > turns.empty as usize {
            turns.empty += 1;
            return (true, None);
        }
        turns.all -= 1;
        if turns.all > 0 {
            return (false, None);
        }
        let (lane, _) = entry.remove();
        self.keep(lane.waiting);
        self.tidy();
        (false, Some(lane.key))
    }

    /// Takes the first waiting task, for an empty turn.
    pub(super) fn next_of(&mut self, id: LaneId) -> Option<J> {
        let is_it = |lane: &Lane<K, J>| lane.id == id;
        let lane = self.open.find_mut(id.hash.spread(), is_it)?;
        let next = lane.waiting.pop_front()?;
        lane.turns.empty -= 1;
        let left = lane.waiting.len() + SPARE_TASKS;
        if lane.waiting.capacity() > 4 * left {
            lane.waiting.shrink_to(2 * left); // Frees the memory of an earlier burst.
        }
        Some(next)
    }

    /// Removes a turn that will not run. Returns the waiting tasks that do not belong to other
    /// turns, and the key if this closes the lane. Both must be dropped after unlocking.
    pub(super) fn abandon(&mut self, id: LaneId) -> Option<(Option<K>, VecDeque<J>)> {
        let is_it = |lane: &Lane<K, J>| lane.id == id;
        let lane = self.open.find_mut(id.hash.spread(), is_it)?;
        if lane.turns.all > 1 {
            lane.turns.all -= 1;
            // One task per empty turn must stay, because that turn holds its room and will take it.
            let others = lane.waiting.split_off(lane.turns.empty as usize);
            return Some((None, others));
        }
        self.close(id).map(|(key, waiting)| (Some(key), waiting))
    }

    /// Closes a lane. Returns its key and its waiting tasks, to be dropped after unlocking.
    #[inline]
    pub(super) fn close(&mut self, id: LaneId) -> Option<(K, VecDeque<J>)> {
        let is_it = |lane: &Lane<K, J>| lane.id == id;
        let entry = self.open.find_entry(id.hash.spread(), is_it).ok()?;
        let (lane, _) = entry.remove();
        self.tidy();
        Some((lane.key, lane.waiting))
    }

    /// Keeps the memory of an empty queue for a later lane, if it is small.
    fn keep(&mut self, queue: VecDeque<J>) {
        if (1..=SPARE_TASKS).contains(&queue.capacity()) {
            self.spare.push(queue);
        }
    }

    /// Restores invariant 4 after a lane has been closed.
    #[inline]
    fn tidy(&mut self) {
        let open = self.open.len();
        self.spare.truncate(open + FEW);
        // Only after a fourfold fall since the peak, so that the cost is amortised.
        if self.most_open > 4 * (open + FEW) {
            self.shrink();
        }
    }

    // Amortised by the lanes closed since the last call.
    #[cold]
    fn shrink(&mut self) {
        let room = 2 * (self.open.len() + FEW);
        self.open.shrink_to(room, |lane| lane.id.hash.spread());
        self.spare.shrink_to(room);
        self.most_open = room;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    impl<K, J> Lanes<K, J> {
        /// Lanes and queues for which there is memory.
        fn room(&self) -> (usize, usize) {
            let lane = size_of::<Lane<K, J>>();
            (self.open.allocation_size() / lane, self.spare.capacity())
        }
    }

    fn hash(of: u64) -> KeyHash {
        KeyHash::new(of)
    }

    #[test]
    fn a_lane_is_found_by_its_key_while_it_is_open_also_where_hashes_are_equal() {
        let mut lanes = Lanes::<&str, u32>::new(1);
        let (a, b) = (lanes.open(hash(7), "a"), lanes.open(hash(7), "b"));
        assert_eq!(lanes.len(), 2);
        assert!(lanes.find(hash(7), &"c").is_none());
        for job in [1, 2] {
            lanes.find(hash(7), &"a").expect("it is open").push(|| job);
        }
        lanes.find(hash(7), &"b").expect("it is open").push(|| 3);
        let mut taken = VecDeque::new();
        assert_eq!(lanes.take_or_close(a, &mut taken), None);
        assert_eq!(taken, [1, 2]);
        taken.clear();
        assert_eq!(lanes.take_or_close(a, &mut taken), Some("a"));
        assert_eq!(
            (lanes.take_or_close(a, &mut taken), lanes.close(a)),
            (None, None)
        );
        assert!(lanes.find(hash(7), &"a").is_none());
        let again = lanes.open(hash(7), "a");
        assert_ne!(again, a);
        assert_eq!(lanes.close(b), Some(("b", VecDeque::from([3]))));
        assert_eq!((lanes.close(b), lanes.len()), (None, 1));
    }

    #[test]
    fn a_lane_that_outlives_all_numbers_keeps_its_own() {
        let mut lanes = Lanes::<&str, u32>::new(1);
        let old = lanes.open(hash(7), "old");
        lanes.next = u32::MAX;
        let (last, new) = (lanes.open(hash(7), "last"), lanes.open(hash(7), "new"));
        assert_eq!([old.number, last.number, new.number], [0, u32::MAX, 1]);
        assert_eq!(lanes.close(new), Some(("new", VecDeque::new())));
        assert_eq!(lanes.close(old), Some(("old", VecDeque::new())));
    }

    /// A short-lived key: its lane opens, one task waits in it, the lane closes.
    fn pass(lanes: &mut Lanes<u64, u64>, key: u64) {
        let lane = lanes.open(hash(key << 24 | key), key);
        lanes.find(lane.hash, &key).expect("it is open").push(|| 1);
        let mut taken = VecDeque::new();
        assert_eq!(lanes.take_or_close(lane, &mut taken), None);
        taken.clear();
        assert_eq!(lanes.take_or_close(lane, &mut taken), Some(key));
    }

    #[test]
    fn keys_that_are_gone_leave_no_memory_behind_while_others_stay() {
        const GONE: u64 = 200_000;
        const BUSY: usize = 64;
        let mut lanes = Lanes::<u64, u64>::new(1);
        let mut open: VecDeque<_> = (0..GONE)
            .map(|key| {
                let lane = lanes.open(hash(key), key);
                for job in [1, 2] {
                    lanes
                        .find(lane.hash, &key)
                        .expect("it is open")
                        .push(|| job);
                }
                lane
            })
            .collect();
        // The busy ones were opened among the others.
        open.rotate_left(100_000);
        let busy: Vec<_> = open.drain(..BUSY).collect();
        for lane in open {
            let mut taken = VecDeque::new();
            assert_eq!(lanes.take_or_close(lane, &mut taken), None);
            taken.clear();
            assert!(lanes.take_or_close(lane, &mut taken).is_some());
        }
        let most = 8 * (BUSY + FEW);
        let (places, queues) = lanes.room();
        assert!(places <= most && queues <= most, "{places}, {queues}");
        assert!(lanes.spare.len() <= BUSY + FEW);
        for lane in busy {
            let mut taken = VecDeque::new();
            assert_eq!(lanes.take_or_close(lane, &mut taken), None);
            assert_eq!(taken, [1, 2]);
            taken.clear();
            assert!(lanes.take_or_close(lane, &mut taken).is_some());
        }
        assert_eq!(lanes.len(), 0);
        assert!(lanes.room().0 <= 8 * FEW && lanes.spare.len() <= FEW);
    }

    #[test]
    fn an_empty_turn_finds_the_first_task_whichever_turn_ends_before() {
        let mut lanes = Lanes::<&str, u32>::new(2);
        let lane = lanes.open(hash(7), "a");
        let at_limit = |lanes: &mut Lanes<_, _>| {
            let found = lanes.find(hash(7), &"a").expect("it is open");
            !found.is_below_limit()
        };
        assert!(!at_limit(&mut lanes));
        let found = lanes.find(hash(7), &"a").expect("it is open");
        assert_eq!(found.id(), lane);
        found.push_with_turn(|| 1);
        assert!(at_limit(&mut lanes));
        // All that waits is for the other turn.
        assert_eq!(lanes.claim_or_leave(lane), (false, None));
        assert!(!at_limit(&mut lanes));
        let found = lanes.find(hash(7), &"a").expect("it is open");
        found.push_with_turn(|| 2);
        let found = lanes.find(hash(7), &"a").expect("it is open");
        found.push(|| 3);
        assert_eq!(lanes.next_of(lane), Some(1));
        assert_eq!(lanes.claim_or_leave(lane), (true, None));
        assert_eq!([2, 3].map(|_| lanes.next_of(lane)), [Some(2), Some(3)]);
        assert_eq!(lanes.claim_or_leave(lane), (false, None));
        assert_eq!(lanes.claim_or_leave(lane), (false, Some("a")));
        assert_eq!(
            (lanes.claim_or_leave(lane), lanes.len()),
            ((false, None), 0)
        );
    }

    #[test]
    fn a_turn_that_is_abandoned_leaves_the_tasks_of_other_turns() {
        let mut lanes = Lanes::<&str, u32>::new(3);
        let lane = lanes.open(hash(7), "a");
        for job in [1, 2] {
            let found = lanes.find(hash(7), &"a").expect("it is open");
            found.push_with_turn(|| job);
        }
        for job in [3, 4] {
            lanes.find(hash(7), &"a").expect("it is open").push(|| job);
        }
        assert_eq!(lanes.next_of(lane), Some(1));
        assert_eq!(lanes.abandon(lane), Some((None, VecDeque::from([3, 4]))));
        assert_eq!(lanes.next_of(lane), Some(2));
        assert_eq!(lanes.abandon(lane), Some((None, VecDeque::new())));
        assert_eq!(lanes.abandon(lane), Some((Some("a"), VecDeque::new())));
        assert_eq!((lanes.abandon(lane), lanes.len()), (None, 0));
    }

    #[test]
    fn a_lane_of_several_turns_keeps_no_memory_of_a_burst_that_is_over() {
        let mut lanes = Lanes::<u64, u64>::new(2);
        let lane = lanes.open(hash(7), 7);
        for job in 0..100_000 {
            lanes.find(lane.hash, &7).expect("it is open").push(|| job);
        }
        for job in 0..100_000 {
            assert_eq!(lanes.claim_or_leave(lane), (true, None));
            assert_eq!(lanes.next_of(lane), Some(job));
        }
        let found = lanes.find(lane.hash, &7).expect("it is open");
        let kept = found.waiting.capacity();
        assert!(kept <= 8 * SPARE_TASKS, "{kept}");
    }

    #[test]
    fn a_lane_that_stays_open_keeps_no_memory_of_a_burst_that_is_over() {
        let mut lanes = Lanes::<u64, u64>::new(1);
        let lane = lanes.open(hash(7), 7);
        let mut taken = VecDeque::new();
        for tasks in [100_000, 3, 3, 3] {
            for job in 0..tasks {
                lanes.find(lane.hash, &7).expect("it is open").push(|| job);
            }
            assert_eq!(lanes.take_or_close(lane, &mut taken), None);
            taken.clear();
        }
        let found = lanes.find(lane.hash, &7).expect("it is open");
        let kept = found.waiting.capacity() + taken.capacity();
        assert!(kept <= 8 * SPARE_TASKS, "{kept}");
    }

    #[test]
    fn keys_that_come_and_go_use_the_same_memory() {
        let mut lanes = Lanes::new(1);
        pass(&mut lanes, 0);
        let room = lanes.room();
        assert!(lanes.spare.len() == 1 && lanes.spare[0].capacity() > 0);
        let queue = lanes.spare[0].as_slices().0.as_ptr();
        for key in 1..10_000 {
            pass(&mut lanes, key);
            assert_eq!((lanes.room(), lanes.spare.len()), (room, 1));
        }
        assert_eq!(lanes.spare[0].as_slices().0.as_ptr(), queue);
    }
}
