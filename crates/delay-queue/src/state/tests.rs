//! What sections cost, counted in keys that are looked at: a clock would only show it in the large.

use std::task::Waker;

use super::{Owed, State};
use crate::heap::steps;

/// So many entries fall due, at the time `due` says for each, and one future more than that waits.
fn waiting(count: u32, due: impl Fn(u32) -> u64) -> State<u32> {
    let mut state = State::new(usize::MAX, 0);
    let mut owed = Owed::default();
    for _ in 0..=count {
        state.takers.enrol_future(Waker::noop().clone());
        state.settle(&mut owed);
    }
    for n in 0..count {
        state.push(n, due(n), &mut owed);
    }
    state
}

/// Sections that each know the time and settle, as a poll or an alarm does.
fn run(state: &mut State<u32>, takes: u32, now: impl Fn(u32) -> u64) -> u64 {
    steps::take();
    let mut owed = Owed::default();
    for n in 0..takes {
        state.learn(now(n));
        state.settle(&mut owed);
        state.take(|| now(n), &mut owed).expect("it is due");
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
