//! What sections cost, counted in keys that are looked at: a clock would only show it in the large.

use std::task::Waker;

use std::collections::{BTreeMap, btree_map::OccupiedEntry};

use testkit::Rng;

use super::{Effects, State};
use crate::heap::steps;
use crate::{DelayHeap, NEVER};

/// So many entries fall due, at the time `due` says for each, and one future more than that waits.
fn waiting(count: u32, due: impl Fn(u32) -> u64) -> State<u32> {
    let mut state = State::new(usize::MAX, 0);
    let mut effects = Effects::default();
    for _ in 0..=count {
        state.waiters.enqueue_future(Waker::noop().clone(), None);
        state.settle(&mut effects);
    }
    for n in 0..count {
        state.push(n, due(n), &mut effects);
    }
    state
}

/// Sections that each know the time and settle, as a poll or an alarm does.
fn run(state: &mut State<u32>, takes: u32, now: impl Fn(u32) -> u64) -> u64 {
    steps::take();
    let mut effects = Effects::default();
    for n in 0..takes {
        state.learn(now(n));
        state.settle(&mut effects);
        state.take(&mut effects).expect("it is due");
    }
    steps::take()
}

/// An alarm wakes all of them, and each comes and takes its own.
#[test]
fn taking_costs_the_same_however_many_are_called_and_have_not_come_yet() {
    for count in [500, 1_000, 2_000] {
        let mut state = waiting(count, |_| 7);
        let looked_at = run(&mut state, count, |_| 7);
        assert!(looked_at <= 3 * u64::from(count), "{looked_at} of {count}");
    }
}

/// Takers lag behind: half of all entries lie ready as the others fall due, one by one, and the
/// alarm must see to each of those.
#[test]
fn an_entry_that_falls_due_costs_the_same_however_many_lie_ready_before_it() {
    for count in [500_u32, 1_000, 2_000] {
        let half = count / 2;
        let mut state = waiting(count, |n| 10 + u64::from(n.saturating_sub(half)));
        let looked_at = run(&mut state, half, |n| 10 + u64::from(n));
        assert!(looked_at <= 3 * u64::from(count), "{looked_at} of {count}");
    }
}

/// Gathering changes nothing that can be seen but what it answers.
#[test]
fn what_is_gathered_leaves_in_order_and_is_counted_whatever_happens_to_it() {
    let mut rng = Rng::from_env();
    for _ in 0..200 {
        let mut heap = DelayHeap::beginning_with(u64::from(u32::MAX - 30), 0);
        let mut twin = BTreeMap::new();
        let mut order = 0;
        for _ in 0..200 {
            let due = rng.below(40) as u64;
            let pick = rng.below(twin.len().max(1));
            let picked = twin.iter().nth(pick).map(|(&key, &id)| (key, id));
            order += 1;
            match (rng.below(8), picked) {
                (0..=2, _) => _ = twin.insert((due, order), heap.push((), due)),
                (3, Some((key, id))) => {
                    assert_eq!(heap.reset(id, due), Some(key.0));
                    twin.remove(&key);
                    twin.insert((due, order), id);
                }
                (4, Some((key, id))) => {
                    assert!(heap.remove(id).is_some());
                    twin.remove(&key);
                }
                (5, _) => {
                    let popped = heap.pop_ready(due).map(|entry| entry.id);
                    let first = twin.first_entry().filter(|first| first.key().0 <= due);
                    assert_eq!(popped, first.map(OccupiedEntry::remove));
                }
                (6, _) => {
                    if let Some(out) = heap.check_out(due) {
                        assert!(heap.check_in(out).is_ok());
                    }
                }
                _ => {
                    let limit = rng.below(6);
                    let ready = twin.keys().take_while(|key| key.0 <= due).count();
                    let gathered = heap.gather(due, limit);
                    assert!(gathered >= ready.min(limit));
                    let next = twin.keys().nth(gathered).map_or(NEVER, |key| key.0);
                    assert_eq!(heap.next_ungathered(), next);
                    if rng.chance(9) {
                        heap.shrink_to(0);
                    }
                }
            }
        }
        let left = heap.into_iter().map(|entry| entry.id);
        assert!(left.eq(twin.into_values()));
    }
}
