//! Behaviour that both containers and the enum share.

use worker_queue::IdleQueue;

type Queue = IdleQueue<u32, u64>;

const SLOTS: usize = 20;

fn either() -> [Queue; 2] {
    [Queue::stack(), Queue::ring(SLOTS).unwrap()]
}

/// A queue with the entries `n` of the range, each stamped `n`.
fn fill(queue: &mut Queue, range: std::ops::Range<u32>) {
    for entry in range {
        queue.push(entry, u64::from(entry)).unwrap();
    }
}

fn entries(queue: &Queue) -> Vec<u32> {
    queue.iter().map(|(&entry, _)| entry).collect()
}

fn stamps(queue: &Queue) -> Vec<u64> {
    queue.iter().map(|(_, stamp)| stamp).collect()
}

#[test]
fn six_old_entries_expire_and_six_new_ones_remain() {
    for mut queue in either() {
        fill(&mut queue, 0..6);
        fill(&mut queue, 100..106);
        let expired: Vec<_> = queue.drain_expired(50, usize::MAX).collect();
        assert_eq!(expired, [0, 1, 2, 3, 4, 5]);
        assert_eq!(entries(&queue), [100, 101, 102, 103, 104, 105]);
    }
}

#[test]
fn nothing_expires_before_the_oldest_stamp() {
    for mut queue in either() {
        fill(&mut queue, 10..14);
        assert_eq!(queue.drain_expired(9, usize::MAX).count(), 0);
        assert_eq!(queue.len(), 4);
    }
}

#[test]
fn an_entry_last_used_exactly_at_the_limit_has_expired() {
    for mut queue in either() {
        fill(&mut queue, 0..18);
        assert_eq!(queue.drain_expired(7, usize::MAX).count(), 8);
        assert_eq!(queue.oldest(), Some((&8, 8)));
    }
}

#[test]
fn all_entries_of_one_stamp_expire_together() {
    for mut queue in either() {
        for entry in 0..5 {
            queue.push(entry, 7).unwrap();
        }
        assert_eq!(queue.drain_expired(6, usize::MAX).len(), 0);
        assert_eq!(queue.drain_expired(7, usize::MAX).len(), 5);
    }
}

#[test]
fn draining_the_expired_stops_at_max_and_takes_the_oldest_first() {
    for mut queue in either() {
        fill(&mut queue, 0..10);
        assert!(queue.drain_expired(6, 3).eq(0..3));
        assert_eq!(queue.drain_expired(6, 0).count(), 0);
        assert!(queue.drain_expired(6, usize::MAX).eq(3..7));
        assert!(entries(&queue).into_iter().eq(7..10));
    }
}

#[test]
fn draining_an_empty_queue_yields_nothing() {
    for mut queue in either() {
        assert_eq!(queue.drain_expired(u64::MAX, usize::MAX).count(), 0);
        assert_eq!(queue.drain_oldest(usize::MAX).count(), 0);
    }
}

#[test]
fn draining_the_oldest_stops_at_the_end_of_the_queue() {
    for mut queue in either() {
        fill(&mut queue, 0..5);
        assert!(queue.drain_oldest(2).eq(0..2));
        assert!(queue.drain_oldest(usize::MAX).eq(2..5));
        assert!(queue.is_empty());
    }
}

#[test]
fn a_drain_has_an_exact_length() {
    for mut queue in either() {
        fill(&mut queue, 0..5);
        let mut drain = queue.drain_expired(3, usize::MAX);
        assert_eq!(drain.len(), 4);
        drain.next();
        assert_eq!(drain.len(), 3);
    }
}

#[test]
fn a_stamp_older_than_the_newest_is_raised_to_it_and_returned() {
    for mut queue in either() {
        assert_eq!(queue.push(0, 5), Ok(5));
        assert_eq!(queue.push(1, 3), Ok(5));
        assert_eq!(queue.push(2, 6), Ok(6));
        assert_eq!(queue.push(3, 0), Ok(6));
        assert_eq!(stamps(&queue), [5, 5, 6, 6]);
    }
}

#[test]
fn an_empty_queue_accepts_older_stamps_again() {
    for mut queue in either() {
        queue.push(0, 9).unwrap();
        queue.pop();
        assert_eq!(queue.push(1, 3), Ok(3));
    }
}

#[test]
fn oldest_and_newest_are_the_ends_of_the_iteration() {
    for mut queue in either() {
        assert_eq!((queue.oldest(), queue.newest()), (None, None));
        fill(&mut queue, 3..4);
        assert_eq!(queue.oldest(), queue.newest());
        fill(&mut queue, 4..7);
        assert_eq!(queue.oldest(), Some((&3, 3)));
        assert_eq!(queue.newest(), Some((&6, 6)));
        assert_eq!(queue.iter().len(), 4);
        assert!(queue.iter().rev().map(|(&entry, _)| entry).eq((3..7).rev()));
    }
}

#[test]
fn remove_takes_the_one_entry_and_keeps_the_order_and_stamps_of_the_others() {
    for mut queue in either() {
        fill(&mut queue, 0..5);
        assert_eq!(queue.remove(|&entry| entry == 2), Some(2));
        assert_eq!(entries(&queue), [0, 1, 3, 4]);
        assert_eq!(stamps(&queue), [0, 1, 3, 4]);
        assert_eq!(queue.remove(|&entry| entry == 2), None);
        assert_eq!(queue.len(), 4);
    }
}

#[test]
fn remove_takes_the_oldest_of_several_matches() {
    for mut queue in either() {
        fill(&mut queue, 0..6);
        assert_eq!(queue.remove(|&entry| entry % 2 == 1), Some(1));
        assert_eq!(entries(&queue), [0, 2, 3, 4, 5]);
    }
}

#[test]
fn a_predicate_that_panics_changes_nothing() {
    for mut queue in either() {
        fill(&mut queue, 0..3);
        let removal = std::panic::AssertUnwindSafe(|| queue.remove(|&entry| panic!("{entry}")));
        assert!(std::panic::catch_unwind(removal).is_err());
        assert_eq!(entries(&queue), [0, 1, 2]);
    }
}

#[test]
fn a_cleared_queue_behaves_like_a_new_one() {
    for mut queue in either() {
        fill(&mut queue, 10..20);
        let capacity = queue.capacity();
        queue.clear();
        assert!(queue.is_empty());
        assert_eq!(queue.capacity(), capacity);
        fill(&mut queue, 0..20);
        assert!(entries(&queue).into_iter().eq(0..20));
    }
}

#[test]
fn the_enum_reuses_in_the_order_of_its_container() {
    let [mut stack, mut ring] = either();
    fill(&mut stack, 0..3);
    fill(&mut ring, 0..3);
    assert_eq!((stack.pop(), ring.pop()), (Some(2), Some(0)));
    assert_eq!((stack.capacity(), ring.capacity()), (None, Some(SLOTS)));
}

#[test]
fn any_ordered_copy_type_is_a_stamp() {
    // A pool that keeps its workers need not read its clock.
    let mut queue = IdleQueue::<&str, Option<std::time::Instant>>::stack();
    queue
        .push("timed", Some(std::time::Instant::now()))
        .unwrap();
    queue.push("untimed", None).unwrap();
    assert!(queue.newest().unwrap().1.is_some());
}
