//! The memory that a queue keeps and releases.

use std::sync::{Arc, Weak};

use dedup_queue::{DedupDelayQueue, DedupQueue};
use testkit::{Counted, DropCounter};

use crate::support::{MERGED, MS, NEW, delaying, figures, retrying, take_all};

/// A key that counts the drops of itself and its clones.
#[derive(Clone, Debug)]
struct Key(
    u32,
    #[expect(dead_code, reason = "held for its Drop")] Arc<Counted>,
);

impl PartialEq for Key {
    fn eq(&self, other: &Self) -> bool {
        self.0 == other.0
    }
}
impl Eq for Key {}
impl std::hash::Hash for Key {
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        self.0.hash(state);
    }
}

#[test]
fn a_finished_key_is_freed_while_the_queue_lives() {
    let drops = DropCounter::new();
    let queue = DedupQueue::<Key>::new();
    let seen: Weak<Counted>;
    {
        let counted = Arc::new(drops.token());
        seen = Arc::downgrade(&counted);
        queue.add(Key(1, counted)).unwrap();
        let held = queue.get().unwrap();
        assert_eq!(seen.strong_count(), 2, "the queue's and the worker's");
        drop(held);
    }
    assert_eq!((seen.strong_count(), drops.alive()), (0, 0));
    queue.add(Key(2, Arc::new(drops.token()))).unwrap();
    queue.add(Key(2, Arc::new(drops.token()))).unwrap();
    assert_eq!(drops.alive(), 1, "a merged key is freed at once");
    queue.remove(&Key(2, Arc::new(drops.token())));
    assert_eq!(drops.alive(), 0);
}

#[test]
fn the_remaining_keys_are_dropped_with_the_queue() {
    let drops = DropCounter::new();
    let key = |n| Key(n, Arc::new(drops.token()));
    let queue = DedupDelayQueue::<Key>::new();
    queue.add(key(1)).unwrap();
    queue.add(key(2)).unwrap();
    queue.add_after(key(3), MS).unwrap();
    let held = queue.get().unwrap().into_owned();
    drop(queue);
    assert_eq!(drops.alive(), 3);
    drop(held);
    assert_eq!(drops.alive(), 0);
}

#[test]
fn slots_are_reused_and_memory_can_be_released() {
    let queue = DedupQueue::<u32>::new();
    for round in 0..3 {
        (0..1000).for_each(|key| _ = queue.add(key * 3 + round).unwrap());
        let most = queue.capacity();
        assert!(
            (1000..=1024).contains(&most),
            "{most}: each round uses what the last one left"
        );
        while queue.try_get().is_ok() {}
    }
    let most = queue.capacity();
    queue.add(7).unwrap();
    queue.shrink_to_fit();
    assert!(queue.capacity() <= most);
    assert_eq!(*queue.get().unwrap(), 7);
    queue.shrink_to_fit();
    assert_eq!(queue.capacity(), 0);
    queue.add(8).unwrap();
    assert_eq!(*queue.get().unwrap(), 8);
}

#[test]
fn shrinking_keeps_every_key_in_its_state() {
    let (queue, clock) = delaying();
    let keys: Vec<&'static str> = vec!["a", "b", "c", "d", "e", "f"];
    for &key in &keys[..3] {
        queue.add(key).unwrap();
    }
    let [first, second, third] = [(); 3].map(|()| queue.get().unwrap());
    for &key in &keys[3..] {
        queue.add_after(key, MS).unwrap();
    }
    drop((first, third));
    queue.remove(&"f");
    queue.shrink_to_fit();
    queue.add("g").unwrap();
    queue.add("b").unwrap();
    drop(second);
    clock.advance(MS);
    let all: Vec<_> = std::iter::from_fn(|| queue.try_get().ok())
        .map(|held| *held)
        .collect();
    assert_eq!(all, ["g", "b", "d", "e"]);
}

/// A few of many keys stay, held, ready, delayed or remembered. They were added last. They keep
/// their states when the memory of the others is freed.
#[test]
fn keys_keep_their_states_when_the_memory_of_many_others_is_freed() {
    const MANY: usize = 20_000;
    let (queue, clock) = retrying();
    let key = |n: usize| -> &'static str { Box::leak(n.to_string().into_boxed_str()) };
    for n in 0..MANY {
        queue.add(key(n)).unwrap();
    }
    queue.add("rests").unwrap();
    let gone: Vec<_> = (0..MANY).map(|_| queue.get().unwrap()).collect();
    queue.get().unwrap().retry();
    clock.advance(5 * MS);
    queue.get().unwrap().done();
    queue.add("held").unwrap();
    let held = queue.get().unwrap();
    queue.add("ready").unwrap();
    queue.low_priority().add("low").unwrap();
    queue.add_after("delayed", MS).unwrap();
    assert!(queue.capacity() > MANY);
    drop(gone);
    assert!(queue.capacity() < 2000, "{} are kept", queue.capacity());
    let mut listed: Vec<_> = queue.entries().map(|entry| entry.key).collect();
    listed.sort_unstable();
    assert_eq!(listed, ["delayed", "held", "low", "ready", "rests"]);
    assert_eq!(figures(queue.stats()), [2, 1, 0, 1, 1]);
    assert_eq!(queue.failures(&"rests"), 1);
    assert_eq!(queue.add("held").unwrap(), NEW);
    assert_eq!(queue.add("ready").unwrap(), MERGED);
    drop(held);
    clock.advance(MS);
    assert_eq!(take_all(&queue), ["ready", "held", "delayed", "low"]);
    queue.forget(&"rests");
    assert_eq!(figures(queue.stats()), [0; 5]);
    queue.shrink_to_fit();
    assert_eq!(queue.capacity(), 0);
    queue.add("a").unwrap();
    assert_eq!(take_all(&queue), ["a"]);
}
