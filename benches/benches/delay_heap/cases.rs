//! The cost of each operation, at a thousand and at a million entries.

use std::hint::black_box;
use std::time::Duration;

use testkit::Rng;

use crate::order::{SEED, scattered, shuffled};
use crate::peers::{Cancel, Heap, Ours, Peer, Priority, Tree, Wheel};
use crate::rounds::{self, Rounds};
use crate::stopwatch::{Stopwatch, per};

/// The difference between the earliest and the latest time.
const WINDOW: u64 = 1 << 36;
/// A millisecond more, so that all entries are due even in a wheel that counts milliseconds.
const SPAN: u64 = WINDOW + (1 << 20);

/// The pattern of the due times.
#[derive(Clone, Copy)]
enum Dues {
    Scattered,
    /// Each later than the one before, as timeouts of one length.
    Rising,
}

/// Runs the measurement for each of these peers.
macro_rules! each {
    ([$($peer:ty),*], $measure:ident $arguments:tt) => {
        vec![$((
            <$peer>::NAME,
            Box::new(move || $measure::<$peer> $arguments.to_vec()) as Box<dyn FnMut() -> Vec<f64>>,
        )),*]
    };
}

macro_rules! all {
    ($($measure:tt)*) => {
        each!([Ours, Heap, Tree, Priority, Wheel], $($measure)*)
    };
}

macro_rules! cancelling {
    ($($measure:tt)*) => {
        each!([Ours, Tree, Priority, Wheel], $($measure)*)
    };
}

pub fn all(rounds: &Rounds) {
    for &entries in rounds.sizes() {
        // About the same total work for each size, so that small sizes can be measured.
        let times = if rounds.is_test {
            1
        } else {
            (400_000 / entries).clamp(1, 200)
        };
        let run = |names: &[&str], peers: Vec<rounds::Peer<'_>>| {
            let cases = names.iter().map(|name| (format!("{name}/{entries}"), "ns"));
            rounds.run(&cases.collect::<Vec<_>>(), peers);
        };
        run(
            &["push", "pop_when_due", "push_and_pop_when_due"],
            all!(fill_and_empty(entries, times, Dues::Scattered)),
        );
        run(
            &["rising_push", "rising_pop_when_due", "rising_push_and_pop"],
            all!(fill_and_empty(entries, times, Dues::Rising)),
        );
        run(
            &["push_and_pop_steadily"],
            all!(steadily(entries, times, Dues::Scattered)),
        );
        run(
            &["rising_push_and_pop_steadily"],
            all!(steadily(entries, times, Dues::Rising)),
        );
        run(
            &["reset", "cancel"],
            cancelling!(reset_and_cancel(entries, times)),
        );
        run(
            &["mixed_90_percent_cancelled"],
            cancelling!(mixed(entries, times)),
        );
    }
}

fn dues(entries: usize, dues: Dues) -> Vec<u64> {
    let mut all = scattered(entries, WINDOW);
    if let Dues::Rising = dues {
        all.sort_unstable();
    }
    all
}

/// Pushes all entries, lets them fall due, and pops them, repeatedly in the same container.
fn fill_and_empty<P: Peer>(entries: usize, times: usize, order: Dues) -> [f64; 3] {
    let dues = dues(entries, order);
    let (mut pushing, mut popping) = (Duration::ZERO, Duration::ZERO);
    let mut peer = P::new();
    for time in 0..times as u64 {
        let start = time * SPAN;
        let watch = Stopwatch::start();
        for (value, due) in (0..).zip(&dues) {
            black_box(peer.push(value, start + due));
        }
        pushing += watch.elapsed();
        let now = start + SPAN;
        peer.advance(now);
        let watch = Stopwatch::start();
        for _ in 0..entries {
            black_box(peer.pop(now)).expect("all are due");
        }
        popping += watch.elapsed();
        assert!(peer.pop(now).is_none());
    }
    [pushing, popping, pushing + popping].map(|spent| per(spent, entries * times))
}

/// Lets some entries fall due and pops them, then pushes as many.
fn steadily<P: Peer>(entries: usize, times: usize, order: Dues) -> [f64; 1] {
    let mut peer = P::new();
    for (value, due) in (0..).zip(dues(entries, order)) {
        peer.push(value, due);
    }
    // Each step makes about fifty entries due.
    let step = (50 * WINDOW / entries as u64).clamp(1 << 20, WINDOW);
    let mut rng = Rng::new(SEED + 2);
    let mut now = 0;
    let mut round = |least: usize| {
        // The time that a peer needs to advance its clock is not counted.
        let (mut popped, mut moving) = (0, Duration::ZERO);
        let watch = Stopwatch::start();
        while popped < least {
            now += step;
            if P::HAS_CLOCK {
                let watch = Stopwatch::start();
                peer.advance(now);
                moving += watch.elapsed();
            }
            let mut count = 0;
            while let Some(value) = peer.pop(now) {
                black_box(value);
                count += 1;
            }
            for index in 0..count {
                let delay = match order {
                    Dues::Scattered => 1 + rng.next_u64() % WINDOW,
                    Dues::Rising => WINDOW + index,
                };
                black_box(peer.push(now + index, now + delay));
            }
            popped += usize::try_from(count).expect("it fits into memory");
        }
        per(watch.elapsed().saturating_sub(moving), popped)
    };
    // The first round brings the container to its steady state.
    round(entries);
    [round(entries * times)]
}

/// Resets each entry, then cancels each, in random order.
fn reset_and_cancel<P: Cancel>(entries: usize, times: usize) -> [f64; 2] {
    let dues = dues(entries, Dues::Scattered);
    let (mut resetting, mut cancelling) = (Duration::ZERO, Duration::ZERO);
    let mut peer = P::new();
    for _ in 0..times {
        let ids = (0..).zip(&dues).map(|(value, due)| peer.push(value, *due));
        let mut ids = shuffled(ids.collect());
        let watch = Stopwatch::start();
        for (id, due) in ids.iter_mut().zip(&dues) {
            peer.reset(id, *due);
        }
        resetting += watch.elapsed();
        let ids = shuffled(ids);
        let watch = Stopwatch::start();
        for id in ids {
            black_box(peer.cancel(id)).expect("it is there");
        }
        cancelling += watch.elapsed();
    }
    [resetting, cancelling].map(|spent| per(spent, entries * times))
}

/// Pushes all entries, cancels nine of ten, and pops the others when they are due. The cost per
/// entry, of all its operations.
fn mixed<P: Cancel>(entries: usize, times: usize) -> [f64; 1] {
    let dues = dues(entries, Dues::Scattered);
    let order = shuffled((0..entries).collect());
    let mut ids = Vec::with_capacity(entries);
    let mut spent = Duration::ZERO;
    let mut peer = P::new();
    for time in 0..times as u64 {
        let start = time * SPAN;
        ids.clear();
        let watch = Stopwatch::start();
        for (value, due) in (0..).zip(&dues) {
            ids.push(peer.push(value, start + due));
        }
        for &index in &order[entries / 10..] {
            black_box(peer.cancel(ids[index])).expect("it is there");
        }
        spent += watch.elapsed();
        let now = start + SPAN;
        peer.advance(now);
        let watch = Stopwatch::start();
        while let Some(value) = peer.pop(now) {
            black_box(value);
        }
        spent += watch.elapsed();
    }
    [per(spent, entries * times)]
}
