//! Adding, taking and releasing keys: which adds merge into one delivery.

use dedup_queue::{DedupQueue, Stats};

use crate::support::{MERGED, NEW, figures, get, is_empty, plain, take_all};

#[test]
fn a_key_that_is_added_twice_is_delivered_once() {
    let queue = plain();
    assert_eq!(queue.add("a"), Ok(NEW));
    assert_eq!(queue.add("a"), Ok(MERGED), "the second add is merged");
    assert_eq!(*get(&queue), "a");
    assert!(is_empty(&queue.try_get()));
    assert_eq!(
        figures(queue.stats()),
        [0; 5],
        "the queue keeps nothing of the key"
    );
}

#[test]
fn len_counts_each_ready_key_once() {
    let queue = plain();
    for key in ["a", "b", "a"] {
        queue.add(key).unwrap();
    }
    assert_eq!(queue.len(), 2);
    assert!(!queue.is_empty());
    let held = get(&queue);
    assert_eq!(queue.len(), 1, "a held key is not ready");
    queue.add("a").unwrap();
    assert_eq!(queue.len(), 1, "nor is a dirty one");
    drop(held);
    assert_eq!(queue.len(), 2);
}

#[test]
fn a_key_added_while_it_is_held_is_delivered_again_after_its_release() {
    let queue = plain();
    queue.add("a").unwrap();
    let held = get(&queue);
    assert_eq!(queue.add("a"), Ok(NEW));
    assert!(
        is_empty(&queue.try_get()),
        "no second worker gets it meanwhile"
    );
    held.done();
    let again = get(&queue);
    assert_eq!(again.key(), &"a");
    again.done();
    assert!(is_empty(&queue.try_get()));
}

#[test]
fn two_adds_of_a_held_key_are_one_delivery() {
    let queue = plain();
    queue.add("a").unwrap();
    let held = get(&queue);
    assert_eq!(queue.add("a"), Ok(NEW));
    assert_eq!(queue.add("a"), Ok(MERGED));
    assert_eq!(figures(queue.stats()), [0, 1, 1, 0, 0]);
    drop(held);
    assert_eq!(take_all(&queue), ["a"]);
}

#[test]
fn keys_are_delivered_in_the_order_in_which_they_become_ready() {
    let queue = plain();
    for key in ["a", "b", "c"] {
        queue.add(key).unwrap();
    }
    let held = get(&queue);
    queue.add("a").unwrap();
    queue.add("b").unwrap(); // Already ready, so it keeps its place.
    drop(held); // It is queued behind the keys that were ready before.
    assert_eq!(take_all(&queue), ["b", "c", "a"]);
}

#[test]
fn equal_keys_are_one_key_even_if_their_other_fields_differ() {
    #[derive(Clone, Debug)]
    struct Key(&'static str, u32);
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
    let queue = DedupQueue::<Key>::new();
    queue.add(Key("a", 1)).unwrap();
    queue.add(Key("a", 2)).unwrap();
    assert_eq!(queue.get().unwrap().1, 1, "the first to come is delivered");
}

#[test]
fn different_keys_with_the_same_hash_stay_different() {
    #[derive(Clone, Default)]
    struct Same;
    impl std::hash::Hasher for Same {
        fn finish(&self) -> u64 {
            7
        }
        fn write(&mut self, _: &[u8]) {}
    }
    let hasher = std::hash::BuildHasherDefault::<Same>::default();
    let queue = DedupQueue::<u32>::builder().hasher(hasher).build();
    for key in (0..100).chain(0..100) {
        queue.add(key).unwrap();
    }
    let first: Vec<_> = (0..50).map(|_| queue.get().unwrap()).collect();
    for key in 0..100 {
        queue.add(key).unwrap();
    }
    drop(first);
    let mut keys: Vec<_> = (0..100).map(|_| *queue.get().unwrap()).collect();
    keys.sort_unstable();
    assert_eq!(keys, (0..100).collect::<Vec<_>>());
    assert!(queue.is_empty());
}

#[test]
fn clones_share_the_queue_and_debug_prints_its_statistics() {
    let queue = DedupQueue::<_>::builder().name("pods").build();
    queue.clone().add("a").unwrap();
    assert_eq!(queue.name(), "pods");
    let held = queue.get().unwrap();
    queue.add("b").unwrap();
    let Stats {
        ready, held: count, ..
    } = queue.stats();
    assert_eq!((ready, count), (1, 1));
    let shown = format!("{queue:?} {held:?}");
    assert_eq!(
        shown,
        "KeyQueue { name: \"pods\", ready: 1, held: 1, delayed: 0, is_shut_down: false, .. } \
         Held(\"a\")"
    );
}
