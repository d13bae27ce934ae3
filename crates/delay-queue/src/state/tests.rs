//! The cost of sections, counted in heap keys that are compared: a clock would show it only at
//! scale.

use std::io;
use std::task::Waker;

use std::collections::{BTreeMap, btree_map::OccupiedEntry};

use testkit::Rng;

use sync_shim::Parker;

use super::{Effects, State};
use crate::heap::steps;
use crate::wait::{Effects as _, Waiter, WaiterId};
use crate::wait_queue::{Pusher, Wait};
use crate::{DelayHeap, NEVER};

/// Creates a state with `count` entries, due at the times that `due` returns, and `count + 1`
/// waiting futures.
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

/// Takes entries in sections that each read the time and settle, as a poll or an alarm does.
fn run(state: &mut State<u32>, takes: u32, now: impl Fn(u32) -> u64) -> u64 {
    steps::take();
    let mut effects = Effects::default();
    for n in 0..takes {
        state.learn(now(n));
        state.settle(&mut effects);
        state.take(&mut effects).expect("the entry is due");
    }
    steps::take()
}

/// An alarm notifies all of them, and each returns and takes its own entry.
#[test]
fn a_take_costs_the_same_for_any_number_of_notified_takers() {
    for count in [500, 1_000, 2_000] {
        let mut state = waiting(count, |_| 7);
        let looked_at = run(&mut state, count, |_| 7);
        assert!(looked_at <= 4 * u64::from(count), "{looked_at} of {count}");
    }
}

/// Takers lag behind: half of all entries are ready while the others fall due, one by one, and the
/// alarm must handle each of those.
#[test]
fn a_due_entry_costs_the_same_for_any_number_of_ready_entries() {
    for count in [500_u32, 1_000, 2_000] {
        let half = count / 2;
        let mut state = waiting(count, |n| 10 + u64::from(n.saturating_sub(half)));
        let looked_at = run(&mut state, half, |n| 10 + u64::from(n));
        assert!(looked_at <= 4 * u64::from(count), "{looked_at} of {count}");
    }
}

/// Threads and futures wait, some of them notified, and all of them leave, in three orders. A
/// leader or notified waiter that leaves passes its role on.
#[test]
fn takers_give_up_at_the_same_cost_for_any_number_of_waiters() {
    for (count, ready) in [500, 1_000, 2_000].into_iter().flat_map(|count| {
        let ready = [0, 1, count / 2, 2 * count];
        ready.map(|ready| (count, ready))
    }) {
        for order in [in_order, backwards, from_the_middle] {
            let mut state = State::new(usize::MAX, 0);
            let mut effects = Effects::default();
            state.push(0, 50, &mut effects);
            let threads: Vec<_> = (0..count)
                .map(|_| {
                    let due = state.earliest();
                    let (id, _) = state.waiters.enqueue_thread(Parker::new(), due);
                    state.settle(&mut effects);
                    id
                })
                .collect();
            let futures = (0..count).map(|_| enqueue_future(&mut state, &mut effects));
            let futures: Vec<_> = futures.collect();
            for _ in 0..ready {
                state.push(1, 0, &mut effects);
            }
            steps::take();
            for id in order(threads) {
                state.waiters.dequeue_thread(id);
                state.settle(&mut effects);
            }
            for id in order(futures) {
                let _ = state.waiters.dequeue_future(id);
                state.settle(&mut effects);
            }
            let looked_at = steps::take();
            assert!(looked_at <= 8 * count, "{looked_at} of {count}, {ready}");
            assert!(state.waiters.is_forgotten());
        }
    }
}

/// No alarm can be set. All futures are notified of the error, and leave with it or without.
#[test]
fn futures_without_an_alarm_end_at_the_same_cost_and_leave_no_waiter_behind() {
    for count in [500, 1_000, 2_000] {
        let mut state = State::new(usize::MAX, 0);
        let mut effects = Effects::default();
        state.push(0, 50, &mut effects);
        let futures = (0..count).map(|_| enqueue_future(&mut state, &mut effects));
        let futures: Vec<_> = futures.collect();
        let request = effects.take_alarm_request().expect("only futures wait");
        steps::take();
        let error = Err(io::Error::other("there is none"));
        let discarded = state.waiters.alarm_set(&request, error, effects.wakes());
        drop(discarded);
        for id in from_the_middle(futures) {
            let _ = state.waiters.dequeue_future(id);
            state.settle(&mut effects);
        }
        let looked_at = steps::take();
        assert!(looked_at <= 2 * count, "{looked_at} of {count}");
        assert!(state.waiters.is_forgotten());
    }
}

/// Half of the pushers withdraw, some are served, the others are rejected.
#[test]
fn pushers_that_give_up_leave_no_waiter_behind() {
    let mut state = State::new(1, 0);
    let mut effects = Effects::default();
    state.push(0, 0, &mut effects);
    let pushers = (0..1_000).map(|value| {
        let waiter = Waiter::Task(Waker::noop().clone());
        let due = 0;
        state.pushers.enqueue(Pusher { value, due, waiter })
    });
    let pushers = from_the_middle(pushers.collect());
    for id in &pushers[..500] {
        assert!(state.pushers.leave(*id).is_some());
    }
    state.take(&mut effects).expect("the entry is due");
    state.close(&mut effects);
    let answers = pushers[500..].iter().map(|id| state.pushers.look(*id));
    let entered = answers.filter(|answer| matches!(answer, Wait::Entered(_)));
    assert_eq!(entered.count(), 1);
    assert!(state.pushers.is_forgotten());
}

fn enqueue_future<T>(state: &mut State<T>, effects: &mut Effects) -> WaiterId {
    let id = state.waiters.enqueue_future(Waker::noop().clone(), None);
    state.settle(effects);
    id
}

fn in_order(ids: Vec<WaiterId>) -> Vec<WaiterId> {
    ids
}

fn backwards(mut ids: Vec<WaiterId>) -> Vec<WaiterId> {
    ids.reverse();
    ids
}

fn from_the_middle(mut ids: Vec<WaiterId>) -> Vec<WaiterId> {
    let middle = ids.len() / 2;
    ids.rotate_left(middle);
    ids
}

/// Feeders that each hold an entry return it, or deliver it.
#[cfg(feature = "channel")]
#[test]
fn feeders_that_end_leave_nothing() {
    use super::Leased;

    let mut state = State::new(usize::MAX, 0);
    let mut effects = Effects::default();
    let entries = (0..1_000).map(|value| {
        state.push(value, 0, &mut effects);
        match state.check_out(Waker::noop(), &mut Effects::default()) {
            Ok(Leased::Now(out)) => out,
            _ => panic!("it is due, and nothing waits"),
        }
    });
    let entries: Vec<_> = entries.collect();
    assert_eq!((state.len(), state.leases.len()), (0, 1_000));
    for (at, out) in entries.into_iter().enumerate() {
        if at % 2 == 0 {
            assert!(state.check_in(out, &mut effects).is_none());
        } else {
            state.gone(out.split().1, &mut effects);
        }
    }
    assert_eq!((state.len(), state.leases.len()), (500, 0));
}

/// Gathering has no visible effect but its result.
#[test]
fn gathered_entries_leave_in_order_and_are_counted() {
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
