//! Each id finds its own entry or none.

use std::time::Duration;

use sync_shim::Clock;
use testkit::DropCounter;

use crate::support::{NOW, SECOND, drain, queue};

#[test]
fn cancel_returns_the_value_once() {
    let (queue, clock) = queue();
    let id = queue.push("a", SECOND).unwrap();
    queue.push("b", SECOND).unwrap();
    assert_eq!(queue.cancel(id), Some("a"));
    assert_eq!(queue.cancel(id), None);
    assert!(!queue.reset(id, NOW));
    clock.advance(SECOND);
    assert_eq!(drain(&queue), ["b"]);
}

#[test]
fn cancelling_entries_in_any_order_keeps_their_neighbours() {
    let (queue, _clock) = queue();
    let ids: Vec<_> = (0..100)
        .map(|n| queue.push(n, n * SECOND).unwrap())
        .collect();
    for (n, &id) in (0..).zip(&ids).skip(1).step_by(2) {
        assert_eq!(queue.cancel(id), Some(n));
    }
    assert_eq!(queue.len(), 50);
    for (n, &id) in (0..)
        .zip(&ids)
        .step_by(2)
        .collect::<Vec<_>>()
        .into_iter()
        .rev()
    {
        assert_eq!(queue.cancel(id), Some(n));
        assert_eq!(queue.cancel(id), None);
    }
    assert!(queue.is_empty());
}

#[test]
fn a_due_entry_can_be_cancelled_until_it_is_taken() {
    let (queue, clock) = queue();
    let ids = [1, 2].map(|n| queue.push(n, SECOND).unwrap());
    clock.advance(SECOND);
    assert_eq!(queue.cancel(ids[0]), Some(1));
    assert_eq!(queue.try_take().unwrap().id, ids[1]);
    assert_eq!(queue.cancel(ids[1]), None);
}

#[test]
fn cancel_releases_the_value_at_once() {
    let (queue, _clock) = queue();
    let values = DropCounter::new();
    let id = queue.push(values.token(), Duration::MAX).unwrap();
    drop(queue.cancel(id));
    assert_eq!(values.alive(), 0);
}

#[test]
fn a_reset_moves_an_entry_under_its_id_and_behind_its_equals() {
    let (queue, clock) = queue();
    let id = queue.push("moved", SECOND).unwrap();
    queue.push("other", SECOND).unwrap();
    assert!(queue.reset(id, SECOND), "also to the same time");
    clock.advance(SECOND);
    assert_eq!(drain(&queue), ["other", "moved"]);

    let id = queue.push("moved", SECOND).unwrap();
    assert!(queue.reset_at(id, clock.now() + 3 * SECOND));
    clock.advance(2 * SECOND);
    assert!(queue.reset(id, NOW), "due from now on");
    let taken = queue.try_take().unwrap();
    assert_eq!((taken.value, taken.id), ("moved", id));
    assert!(!queue.reset(id, NOW));
    assert!(!queue.reset_at(id, clock.now()));
}

#[test]
fn a_due_entry_can_be_delayed() {
    let (queue, clock) = queue();
    let id = queue.push((), NOW).unwrap();
    clock.advance(SECOND);
    assert!(queue.reset(id, SECOND));
    assert!(queue.try_take().is_err());
    clock.advance(SECOND);
    assert!(queue.try_take().is_ok());
}

/// tokio-util's key is a bare index: an old key can find another entry, and a foreign one panics.
#[test]
fn an_old_id_finds_no_newer_entry() {
    let (queue, _clock) = queue();
    let mut old = Vec::new();
    for n in 0..1_000 {
        let id = queue.push(n, SECOND).unwrap();
        assert_eq!(queue.cancel(id), Some(n));
        old.push(id);
    }
    let last = queue.push(1_000, SECOND).unwrap();
    for id in old {
        assert_eq!(queue.cancel(id), None);
        assert!(!queue.reset(id, NOW));
    }
    assert_eq!(queue.cancel(last), Some(1_000));
}

#[test]
fn ids_of_one_queue_find_nothing_in_another() {
    let (one, _clock) = queue();
    let (two, _clock) = queue();
    let ids: Vec<_> = (0..10).map(|n| one.push(n, SECOND).unwrap()).collect();
    (0..10).for_each(|n| _ = two.push(n, SECOND).unwrap());
    for &id in &ids {
        assert_eq!(two.cancel(id), None);
        assert!(!two.reset(id, NOW));
    }
    assert_eq!((one.len(), two.len()), (10, 10));
    assert_eq!(one.cancel(ids[3]), Some(3));
}

#[test]
fn ids_stay_valid_while_other_entries_are_removed_and_memory_is_released() {
    let (queue, _clock) = queue();
    let kept: Vec<_> = (0..100).map(|n| queue.push(n, SECOND).unwrap()).collect();
    let others: Vec<_> = (0..10_000)
        .map(|n| queue.push(n, 2 * SECOND).unwrap())
        .collect();
    for id in &others {
        queue.cancel(*id);
    }
    queue.shrink_to(0);
    (0..10_000).for_each(|n| _ = queue.push(n, 2 * SECOND).unwrap());
    for id in others {
        assert_eq!(queue.cancel(id), None);
    }
    for (n, id) in (0..).zip(kept) {
        assert_eq!(queue.cancel(id), Some(n));
    }
}

#[test]
fn an_id_is_small_and_send_and_sync() {
    fn sharable<T: Copy + Eq + std::hash::Hash + std::fmt::Debug + Send + Sync + 'static>() {}
    sharable::<delay_queue::EntryId>();
    assert!(size_of::<delay_queue::EntryId>() <= 16);
}
