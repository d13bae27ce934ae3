//! Each entry is dropped once, when its owner says so. Entries are clones of one `Rc`, whose count shows how
//! many are left.

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

/// The number of entries: all clones but the caller's.
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
fn drained_entries_live_until_the_caller_drops_them() {
    for (mut queue, entry) in filled() {
        let drained: Vec<_> = queue.drain_expired(3, usize::MAX).collect();
        assert_eq!(alive(&entry), 6);
        drop(drained);
        assert_eq!(alive(&entry), 2);
    }
}

#[test]
fn a_drain_dropped_halfway_drops_its_remaining_entries_only() {
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
fn a_drain_dropped_unread_still_removes_its_entries() {
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
fn remove_returns_the_entry_alive() {
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
fn a_refused_push_returns_the_entry_alive() {
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
fn a_panic_in_a_drop_during_clear_leaks_no_other_entry() {
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
