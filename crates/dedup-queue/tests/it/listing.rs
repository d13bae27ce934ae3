//! The list of keys with their states, read piece by piece.

use std::collections::BTreeMap;
use std::hash::{Hash, Hasher};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};
use std::time::Duration;

use dedup_queue::{Clock, DedupRetryQueue, Entry, ManualClock, Pending, Retrying};

use crate::support::{MS, Queue, get, plain, retrying};

/// More keys than one critical section reads.
const MANY: u32 = 1_000;

/// Whether the key is held, its pending delivery, and its number of failures.
type State = (bool, Option<Pending>, u32);

fn states(queue: &Queue<Retrying>) -> BTreeMap<&'static str, State> {
    let state = |entry: Entry<&'static str>| {
        let state = (entry.held, entry.pending, entry.failures);
        (entry.key, state)
    };
    queue.entries().map(state).collect()
}

#[test]
fn each_state_of_a_key_is_listed() {
    let (queue, clock) = retrying();
    queue.add("resting").unwrap();
    get(&queue).retry();
    queue.remove_delayed(&"resting");
    queue.add("failed").unwrap();
    get(&queue).retry();
    let mut guards = Vec::new();
    for key in ["held", "dirty", "held and delayed"] {
        queue.add(key).unwrap();
        guards.push(get(&queue));
    }
    queue.add("dirty").unwrap();
    queue.add_after("held and delayed", MS).unwrap();
    queue.add("ready").unwrap();
    let expected = BTreeMap::from([
        ("resting", (false, None, 1)),
        ("failed", (false, Some(Pending::Delayed), 1)),
        ("held", (true, None, 0)),
        ("dirty", (true, Some(Pending::Dirty), 0)),
        ("held and delayed", (true, Some(Pending::Delayed), 0)),
        ("ready", (false, Some(Pending::Ready), 0)),
    ]);
    assert_eq!(states(&queue), expected);

    // A key that has fallen due is listed as ready.
    clock.advance(MS);
    let dirty = (true, Some(Pending::Dirty), 0);
    assert_eq!(states(&queue)["held and delayed"], dirty);
}

#[test]
fn only_a_delayed_key_is_listed_with_a_due_time() {
    let (queue, clock) = retrying();
    queue.add_after("a", 7 * MS).unwrap();
    queue.add_after("never", Duration::MAX).unwrap();
    queue.add("b").unwrap();
    let due: BTreeMap<_, _> = queue
        .entries()
        .map(|entry| (entry.key, entry.due))
        .collect();
    let at = Some(clock.now() + 7 * MS);
    assert_eq!(
        due,
        BTreeMap::from([("a", at), ("b", None), ("never", None)])
    );
}

#[test]
fn a_queue_that_records_times_lists_the_age_of_pending_and_held_keys() {
    let clock = ManualClock::new();
    let start = clock.now();
    let builder = DedupRetryQueue::<&str>::builder().clock(clock.clone());
    let queue = builder.note_times(true).build();
    clock.advance(MS);
    queue.add("a").unwrap();
    clock.advance(MS);
    let held = queue.try_get().unwrap();
    let entry = queue.entries().next().unwrap();
    assert_eq!(
        (entry.pending_since, entry.held_since),
        (None, Some(start + 2 * MS))
    );
    clock.advance(MS);
    queue.add("a").unwrap();
    clock.advance(MS);
    let entry = queue.entries().next().unwrap();
    assert_eq!(
        (entry.pending_since, entry.held_since),
        (Some(start + 3 * MS), Some(start + 2 * MS))
    );
    drop(held);
    let entry = queue.entries().next().unwrap();
    assert_eq!(
        (entry.pending_since, entry.held_since),
        (Some(start + 3 * MS), None)
    );
}

#[test]
fn a_queue_that_records_no_times_lists_none() {
    let queue = plain();
    queue.add("a").unwrap();
    let _held = queue.try_get().unwrap();
    queue.add("a").unwrap();
    let entry = queue.entries().next().unwrap();
    assert_eq!((entry.pending_since, entry.held_since), (None, None));
}

/// Between two keys the queue is unlocked, also for the thread that iterates.
#[test]
fn keys_that_stay_are_listed_once_while_others_are_added_and_removed() {
    let queue = DedupRetryQueue::<u32>::new();
    for key in 0..MANY {
        queue.add(key).unwrap();
    }
    let mut listed = Vec::new();
    let mut guards = Vec::new();
    for (fresh, entry) in (MANY..).zip(queue.entries()) {
        if entry.key < MANY {
            listed.push(entry.key);
        }
        // One of the old keys is taken and stays; another one is added and removed.
        guards.extend(queue.try_get());
        queue.add(fresh).unwrap();
        queue.remove(&fresh);
    }
    listed.sort_unstable();
    assert_eq!(listed, (0..MANY).collect::<Vec<_>>());
}

#[test]
fn keys_returned_as_leftovers_are_not_listed() {
    let (queue, clock) = retrying();
    queue.add("held").unwrap();
    let held = get(&queue);
    queue.add("ready").unwrap();
    queue.drain_timeout(clock.now());
    assert_eq!(queue.entries().count(), 0);
    drop(held);
}

/// Counts its clones, and panics in them on request.
#[derive(Debug)]
struct Watched {
    number: u32,
    clones: Arc<AtomicUsize>,
    panics: Arc<AtomicBool>,
}

impl PartialEq for Watched {
    fn eq(&self, other: &Self) -> bool {
        self.number == other.number
    }
}

impl Eq for Watched {}

impl Hash for Watched {
    fn hash<H: Hasher>(&self, state: &mut H) {
        self.number.hash(state);
    }
}

impl Clone for Watched {
    fn clone(&self) -> Self {
        let clones = self.clones.fetch_add(1, Relaxed);
        assert!(clones % 3 != 2 || !self.panics.load(Relaxed), "as it is to");
        Self {
            number: self.number,
            clones: Arc::clone(&self.clones),
            panics: Arc::clone(&self.panics),
        }
    }
}

#[test]
fn a_listing_clones_a_few_keys_at_a_time_and_survives_a_panic_of_a_clone() {
    let queue = DedupRetryQueue::<Watched>::new();
    let (clones, panics) = (Arc::default(), Arc::default());
    for number in 0..MANY {
        let (clones, panics) = (Arc::clone(&clones), Arc::clone(&panics));
        queue
            .add(Watched {
                number,
                clones,
                panics,
            })
            .unwrap();
    }
    clones.store(0, Relaxed);
    let mut entries = queue.entries();
    let first = entries.next().unwrap();
    let piece = clones.load(Relaxed);
    assert!(piece < MANY as usize / 4, "{piece} keys in one section");
    let mut listed = vec![first.key.number];
    listed.extend(
        entries
            .by_ref()
            .take(piece - 1)
            .map(|entry| entry.key.number),
    );

    panics.store(true, Relaxed);
    assert!(catch_unwind(AssertUnwindSafe(|| entries.next())).is_err());
    panics.store(false, Relaxed);
    assert_eq!(
        queue.len(),
        MANY as usize,
        "the lock is free, and nothing is lost"
    );
    listed.extend(entries.map(|entry| entry.key.number));
    assert_eq!(listed, (0..MANY).collect::<Vec<_>>());
}
