//! Entries leave when they are said to, each of them once. An entry is a clone of one `Rc`, whose
//! count is how many are still there.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::rc::Rc;

use worker_queue::{IdleQueue, LoopQueue};

type Entry = Rc<()>;

/// Both containers, each with six entries of stamps 0 to 5 and its own count.
fn filled() -> impl Iterator<Item = (IdleQueue<Entry, u64>, Entry)> {
    let empty = [IdleQueue::stack(), IdleQueue::ring(8).unwrap()];
    empty.into_iter().map(|mut queue| {
        let entry = Entry::new(());
        for stamp in 0..6 {
            queue.push(Rc::clone(&entry), stamp).unwrap();
        }
        (queue, entry)
    })
}

/// How many entries exist beside the one that counts.
fn alive(entry: &Entry) -> usize {
    Rc::strong_count(entry) - 1
}

#[test]
fn drops() {
    for (mut queue, entry) in filled() {
        let popped = queue.pop();
        assert_eq!(alive(&entry), 6);
        drop(popped);
        assert_eq!(alive(&entry), 5);
        drop(queue);
        assert_eq!(alive(&entry), 0);
    }
}

#[test]
fn drained_entries_live_until_the_caller_lets_them_go() {
    for (mut queue, entry) in filled() {
        let drained: Vec<_> = queue.drain_expired(3, usize::MAX).collect();
        assert_eq!(alive(&entry), 6);
        drop(drained);
        assert_eq!(alive(&entry), 2);
    }
}

#[test]
fn a_drain_dropped_half_way_drops_the_rest_and_nothing_else() {
    for (mut queue, entry) in filled() {
        let mut drain = queue.drain_expired(3, usize::MAX);
        let first = drain.next();
        drop(drain);
        assert_eq!((alive(&entry), queue.len()), (3, 2));
        drop(first);
        assert_eq!(alive(&entry), 2);
        assert_eq!(queue.oldest().unwrap().1, 4);
    }
}

#[test]
fn a_drain_never_asked_still_takes_its_entries_out() {
    for (mut queue, entry) in filled() {
        drop(queue.drain_oldest(4));
        assert_eq!((alive(&entry), queue.len()), (2, 2));
    }
}

#[test]
fn a_leaked_drain_leaves_a_queue_that_works() {
    for (mut queue, _) in filled() {
        std::mem::forget(queue.drain_oldest(2));
        queue.clear();
        queue.push(Entry::new(()), 0).unwrap();
        assert_eq!(queue.len(), 1);
    }
}

#[test]
fn a_removed_entry_is_handed_out_alive() {
    for (mut queue, entry) in filled() {
        let removed = queue.remove(|_| true);
        assert_eq!(alive(&entry), 6);
        drop(removed);
        assert_eq!(alive(&entry), 5);
    }
}

#[test]
fn clear_drops_every_entry_at_once() {
    for (mut queue, entry) in filled() {
        queue.clear();
        assert_eq!(alive(&entry), 0);
    }
}

#[test]
fn a_refused_entry_comes_back_alive() {
    let mut ring = LoopQueue::new(0).unwrap();
    let entry = Entry::new(());
    let refused = ring.push(Rc::clone(&entry), 0);
    assert_eq!(alive(&entry), 1);
    drop(refused);
    assert_eq!(alive(&entry), 0);
}

#[test]
fn resizing_drops_nothing() {
    let mut ring = LoopQueue::new(4).unwrap();
    let entry = Entry::new(());
    for _ in 0..4 {
        ring.push(Rc::clone(&entry), 0).unwrap();
    }
    let surplus = ring.resize(1).unwrap();
    assert_eq!((alive(&entry), surplus.len()), (4, 3));
}

#[test]
fn a_panic_in_one_drop_of_a_clear_loses_no_other_entry() {
    struct Bomb {
        armed: bool,
        _entry: Entry,
    }
    impl Drop for Bomb {
        fn drop(&mut self) {
            assert!(!self.armed, "a bomb went off");
        }
    }
    for mut queue in [IdleQueue::stack(), IdleQueue::ring(8).unwrap()] {
        let entry = Entry::new(());
        for stamp in 0..6 {
            let bomb = Bomb {
                armed: stamp == 2,
                _entry: Rc::clone(&entry),
            };
            assert!(queue.push(bomb, stamp).is_ok());
        }
        assert!(catch_unwind(AssertUnwindSafe(|| queue.clear())).is_err());
        assert_eq!((alive(&entry), queue.len()), (0, 0));
    }
}
