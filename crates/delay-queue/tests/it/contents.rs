//! The contents of a queue, as lookups and drains see them.

use delay_queue::Due;
use sync_shim::Clock;

use crate::support::{NOW, SECOND, drain, queue};

#[test]
fn len_counts_due_and_later_entries_through_every_change() {
    let (queue, clock) = queue();
    assert!(queue.is_empty());
    let ids: Vec<_> = (0..20)
        .map(|n| queue.push(n, n * SECOND).unwrap())
        .collect();
    assert_eq!((queue.len(), queue.is_empty()), (20, false));
    clock.advance(9 * SECOND);
    assert_eq!(queue.len(), 20, "due entries are still in the queue");
    queue.try_take().unwrap();
    assert_eq!(queue.len(), 19);
    queue.cancel(ids[5]);
    assert_eq!(queue.len(), 18);
    queue.reset(ids[6], NOW);
    assert_eq!(queue.len(), 18);
    queue.drain_ready(3);
    assert_eq!(queue.len(), 15);
    queue.clear();
    assert_eq!((queue.len(), queue.is_empty()), (0, true));
    let stats = queue.stats();
    assert_eq!((stats.pushed, stats.taken, stats.cancelled), (20, 4, 1));
}

#[test]
fn peek_returns_the_earliest_time_and_tells_never_from_empty() {
    let (queue, clock) = queue();
    assert_eq!(queue.peek_due(), None);
    queue.push("never", std::time::Duration::MAX).unwrap();
    assert_eq!(queue.peek_due(), Some(Due::Never));
    let due = clock.now() + SECOND;
    queue.push("later", 2 * SECOND).unwrap();
    queue.push("soon", SECOND).unwrap();
    assert_eq!(queue.peek_due(), Some(Due::At(due)));
    clock.advance(5 * SECOND);
    assert_eq!(queue.peek_due(), Some(Due::At(due)));
    assert_eq!(queue.len(), 3);
}

/// tokio-util's `peek` once returned another key than the next to expire.
#[test]
fn peek_returns_the_entry_taken_next_for_all_pairs_of_times() {
    for first in 1..=90 {
        for second in 1..=90 {
            let (queue, clock) = queue();
            queue
                .push((), first * std::time::Duration::from_millis(1))
                .unwrap();
            queue
                .push((), second * std::time::Duration::from_millis(1))
                .unwrap();
            let Some(Due::At(next)) = queue.peek_due() else {
                panic!("it holds two");
            };
            clock.advance(SECOND);
            assert_eq!(queue.try_take().unwrap().due, next, "{first} and {second}");
        }
    }
}

#[test]
fn a_drain_takes_the_due_entries_in_order_up_to_its_limit() {
    let (queue, clock) = queue();
    for n in (0..10).rev() {
        queue.push(n, n * SECOND).unwrap();
    }
    clock.advance(5 * SECOND);
    assert!(queue.drain_ready(0).is_empty());
    let values = |max| {
        let drained = queue.drain_ready(max);
        drained.iter().map(|taken| taken.value).collect::<Vec<_>>()
    };
    assert_eq!(values(4), [0, 1, 2, 3]);
    assert_eq!(values(usize::MAX), [4, 5]);
    assert!(values(usize::MAX).is_empty());
    clock.advance(100 * SECOND);
    assert_eq!(values(usize::MAX), [6, 7, 8, 9]);
    queue.push(1, NOW).unwrap();
    assert_eq!(values(1), [1], "the queue is still usable");
}

#[testkit::test]
fn a_drain_during_pushes_loses_no_entry() {
    let (queue, _clock) = queue();
    let pusher = {
        let queue = queue.clone();
        std::thread::spawn(move || (0..1_000).for_each(|n| _ = queue.push(n, NOW).unwrap()))
    };
    let mut drained = Vec::new();
    while drained.len() < 1_000 {
        drained.extend(drain(&queue));
    }
    pusher.join().unwrap();
    assert!(drained.into_iter().eq(0..1_000));
}

#[test]
fn a_cleared_queue_is_usable_and_finds_no_old_id() {
    let (queue, clock) = queue();
    let old = queue.push(1, SECOND).unwrap();
    queue.clear();
    queue.clear();
    let new = queue.push(2, SECOND).unwrap();
    assert_ne!(old, new);
    assert_eq!(queue.cancel(old), None);
    clock.advance(SECOND);
    assert_eq!(drain(&queue), [2]);
}

#[test]
fn an_id_finds_the_due_time_of_its_entry_until_that_is_removed() {
    let (queue, clock) = queue();
    let at = |delay| Some(Due::At(clock.now() + delay));
    let (soon, late) = (
        queue.push(1, SECOND).unwrap(),
        queue.push(2, 9 * SECOND).unwrap(),
    );
    let never = queue.push(3, std::time::Duration::MAX).unwrap();
    assert_eq!(
        (queue.due(soon), queue.due(late)),
        (at(SECOND), at(9 * SECOND))
    );
    assert_eq!(queue.due(never), Some(Due::Never));
    assert_eq!(queue.due(never).and_then(Due::instant), None);
    assert_eq!(
        queue.due(late).and_then(Due::instant),
        Some(clock.now() + 9 * SECOND)
    );
    queue.reset(late, 3 * SECOND);
    assert_eq!(queue.due(late), at(3 * SECOND));
    let due = queue.due(soon);
    clock.advance(SECOND);
    assert_eq!(queue.due(soon), due, "it is due, and still here");
    queue.try_take().unwrap();
    queue.cancel(late);
    assert_eq!(
        [soon, late, never].map(|id| queue.contains(id)),
        [false, false, true]
    );
    assert_eq!((queue.due(soon), queue.due(late)), (None, None));
    let (other, _clock) = crate::support::queue::<u8>();
    assert!(!other.contains(never), "it is of another queue");
}

#[test]
fn peek_returns_the_id_of_the_entry_taken_next() {
    let (queue, clock) = queue();
    assert_eq!(queue.peek(), None);
    let late = queue.push("late", 5 * SECOND).unwrap();
    let soon = queue.push("soon", SECOND).unwrap();
    let next = |queue: &delay_queue::DelayQueue<_, _>| queue.peek().map(|next| next.id);
    assert_eq!(next(&queue), Some(soon));
    queue.reset(soon, 5 * SECOND);
    assert_eq!(next(&queue), Some(late), "the other entry is behind it now");
    clock.advance(9 * SECOND);
    assert_eq!(
        queue.peek().map(|next| (next.id, Some(next.due))),
        Some((late, queue.peek_due()))
    );
    assert_eq!(queue.try_take().unwrap().id, late);
    assert_eq!(next(&queue), Some(soon));
}
