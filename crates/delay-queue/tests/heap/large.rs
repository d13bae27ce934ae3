//! Many entries, in patterns that are hard for one heap structure or another.

use delay_queue::{DelayHeap, NEVER};
use testkit::{LIMIT, Rng, watchdog};

const MANY: u64 = 200_000;

/// Pushes at these times and pops all entries. A step linear in the number of entries would take
/// hours.
fn pushed_and_popped(due: impl FnMut(u64) -> u64 + Send + 'static) {
    watchdog(LIMIT, move || {
        let mut due = due;
        let mut heap = DelayHeap::new();
        for value in 0..MANY {
            heap.push(value, due(value));
        }
        let mut last = (0, 0);
        for _ in 0..MANY {
            let entry = heap.pop().expect("as many as were pushed");
            assert!((entry.due, entry.value) >= last);
            last = (entry.due, entry.value);
        }
        assert!(heap.is_empty());
    });
}

#[test]
fn rising_times() {
    pushed_and_popped(|value| value);
}

#[test]
fn falling_times() {
    pushed_and_popped(|value| MANY - value);
}

#[test]
fn equal_times() {
    pushed_and_popped(|_| 5);
}

#[test]
fn entries_that_never_fall_due() {
    pushed_and_popped(|_| NEVER);
}

#[test]
fn one_of_two_times() {
    pushed_and_popped(|value| if value % 2 == 0 { 1 } else { NEVER - 1 });
}

#[test]
fn scattered_times() {
    let mut rng = Rng::new(1);
    pushed_and_popped(move |_| rng.next_u64());
}

#[test]
fn times_of_every_magnitude() {
    let mut rng = Rng::new(2);
    pushed_and_popped(move |_| rng.next_u64() >> rng.below(64));
}

#[test]
fn one_cluster_with_an_outlier_at_either_end() {
    let mut rng = Rng::new(3);
    pushed_and_popped(move |value| match value {
        0 => 0,
        1 => NEVER - 1,
        _ => (1 << 50) + (rng.next_u64() >> 44),
    });
}

#[test]
fn each_time_half_way_to_the_first() {
    // The first pushes leave last, and every range is halved.
    pushed_and_popped(|value| (NEVER >> (value % 63)).saturating_sub(value / 63));
}

#[test]
fn sawtooth_times() {
    pushed_and_popped(|value| if value % 2 == 0 { value } else { MANY - value });
}

#[testkit::test]
fn pushes_due_in_the_past() {
    // The first take fixes a moment; all later pushes are due before it, in any order.
    let mut heap = DelayHeap::new();
    let mut rng = Rng::new(4);
    for value in 0..10_000 {
        heap.push(value, (1 << 40) + value * 1_000_003 % 10_007);
    }
    heap.pop();
    for value in 0..MANY {
        heap.push(value, rng.next_u64() >> 30);
    }
    let dues: Vec<_> = heap.into_iter().map(|entry| entry.due).collect();
    assert!(dues.is_sorted());
}

#[testkit::test]
fn an_entry_reset_repeatedly_uses_no_more_memory() {
    let mut heap = DelayHeap::with_capacity(1_000);
    let ids: Vec<_> = (0..1_000)
        .map(|peer| heap.push(peer, 30_000 + peer))
        .collect();
    // An entry that is never reset stays in front of all the others.
    for (now, id) in (0..MANY).zip(ids[1..].iter().cycle()) {
        assert!(heap.reset(*id, now + 30_000).is_some());
        assert_eq!(heap.peek_due(), Some(30_000));
    }
    assert_eq!(heap.len(), 1_000);
}

#[testkit::test]
fn counting_ready_entries_again_is_cheap() {
    // All entries are due; each round counts them and pushes one more.
    let mut heap = DelayHeap::new();
    let mut rng = Rng::new(5);
    for value in 0..3_000 {
        heap.push(value, rng.next_u64() >> 40);
    }
    for value in 0..3_000_usize {
        assert_eq!(heap.count_ready(NEVER, usize::MAX), 3_000 + value);
        heap.push(0, rng.next_u64() >> 40);
    }
}
