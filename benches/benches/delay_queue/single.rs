//! The cost of each operation on one thread without waiting, at a thousand and at a million
//! entries.
//!
//! The caller holds the ids in the order of their use, as the owner of a timer would, so that
//! finding an id costs nothing.

use std::collections::VecDeque;
use std::hint::black_box;

use testkit::Rng;

use crate::order::{SEED, scattered, shuffled};
use crate::peers::{Cancel, MutexHeap, MutexPriority, MutexTree, Ours, Peer, Published, Wheel};
use crate::rounds::{self, Rounds};
use crate::stopwatch::{Stopwatch, per};

/// All times are within four seconds, as timeouts are.
const WINDOW: u64 = 1 << 32;
/// Longer by enough that all entries are due, even in a wheel that counts milliseconds.
const SPAN: u64 = WINDOW + (1 << 22);

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
        each!([Ours, MutexHeap, MutexTree, MutexPriority, Wheel, Published], $($measure)*)
    };
}

macro_rules! cancelling {
    ($($measure:tt)*) => {
        each!([Ours, MutexTree, MutexPriority, Wheel], $($measure)*)
    };
}

pub fn all(rounds: &mut Rounds) {
    for &entries in rounds.sizes() {
        // About the same total work for each size, so that small sizes can be measured.
        let times = if rounds.is_test {
            1
        } else {
            let work = if rounds.is_quick { 100_000 } else { 400_000 };
            (work / entries).clamp(1, 200)
        };
        let run = |names: &[&str], peers: Vec<rounds::Peer<'_>>| {
            let cases = names.iter().map(|name| (format!("{name}/{entries}"), "ns"));
            rounds.run(&cases.collect::<Vec<_>>(), peers);
        };
        run(
            &["push", "pop_when_due", "push_and_pop_when_due"],
            all!(fill_and_empty(entries, times, false)),
        );
        run(
            &[
                "same_delay_push",
                "same_delay_pop",
                "same_delay_push_and_pop",
            ],
            all!(fill_and_empty(entries, times, true)),
        );
        run(&["push_and_pop_steadily"], all!(steadily(entries, times)));
        run(
            &["cancel", "reset"],
            cancelling!(cancel_and_reset(entries, times)),
        );
        run(
            &["mixed_90_percent_cancelled"],
            cancelling!(mixed(entries, times)),
        );
    }
    let entries = *rounds.sizes().last().expect("there are sizes");
    let cases = [(String::from("memory_per_entry"), "bytes")];
    rounds.run(&cases, all!(memory(entries)));
}

/// Pushes all entries, lets them fall due, and takes them.
fn fill_and_empty<P: Peer>(entries: usize, times: usize, same_delay: bool) -> [f64; 3] {
    let mut dues = scattered(entries, WINDOW);
    if same_delay {
        dues.sort_unstable();
    }
    let mut peer = P::new();
    let mut spent = [0.0; 3];
    for time in 0..times as u64 {
        let start = time * SPAN;
        let push = Stopwatch::start();
        for (number, due) in (0..).zip(&dues) {
            black_box(peer.push(number, start + due));
        }
        spent[0] += per(push.elapsed(), entries * times);
        peer.advance(start + SPAN);
        let pop = Stopwatch::start();
        for _ in 0..entries {
            black_box(peer.take()).expect("all are due");
        }
        spent[1] += per(pop.elapsed(), entries * times);
        assert!(peer.take().is_none());
    }
    spent[2] = spent[0] + spent[1];
    spent
}

/// Takes each entry when it is due, and pushes it again.
fn steadily<P: Peer>(entries: usize, times: usize) -> [f64; 1] {
    let mut peer = P::new();
    for (number, due) in (0..).zip(scattered(entries, WINDOW)) {
        peer.push(number, due);
    }
    let mut rng = Rng::new(SEED + 2);
    // Each step makes about twenty entries due.
    let step = (20 * WINDOW / entries as u64).clamp(2_000_000, WINDOW);
    let (mut now, mut taken) = (0, 0);
    let target = (entries * times).max(2 * entries);
    let watch = Stopwatch::start();
    while taken < target {
        while let Some(number) = peer.take() {
            peer.push(number, now + 1 + rng.next_u64() % WINDOW);
            taken += 1;
            if taken == target {
                break; // For the peer in which every entry is due.
            }
        }
        now += step;
        peer.advance(now);
    }
    [per(watch.elapsed(), taken)]
}

/// Resets each entry once, then cancels each, in random order.
fn cancel_and_reset<P: Cancel>(entries: usize, times: usize) -> [f64; 2] {
    let dues = scattered(entries, WINDOW);
    let mut peer = P::new();
    let mut spent = [0.0; 2];
    for _ in 0..times {
        let ids = (0..)
            .zip(&dues)
            .map(|(number, due)| peer.push(number, *due));
        let mut ids = shuffled(ids.collect());
        let reset = Stopwatch::start();
        for (id, due) in ids.iter_mut().zip(&dues) {
            peer.reset(id, *due);
        }
        spent[1] += per(reset.elapsed(), entries * times);
        let ids = shuffled(ids);
        let cancel = Stopwatch::start();
        for id in ids {
            black_box(peer.cancel(id)).expect("it is there");
        }
        spent[0] += per(cancel.elapsed(), entries * times);
    }
    spent
}

/// Typical timeouts: nine of ten are cancelled long before they are due, the tenth is taken. The
/// cost per entry, of all its operations.
fn mixed<P: Cancel>(entries: usize, times: usize) -> [f64; 1] {
    let mut peer = P::new();
    let mut rng = Rng::new(SEED + 3);
    let mut free: VecDeque<u64> = shuffled((0..entries as u64).collect()).into();
    let mut pending = VecDeque::new();
    // Each entry is cancelled within twelve steps, or falls due after sixteen.
    let step = WINDOW / 32;
    let (mut now, mut over) = (0, 0);
    let target = (entries * times).max(2 * entries);
    let watch = Stopwatch::start();
    while over < target {
        while let Some(number) = free.pop_front() {
            let id = peer.push(number, now + WINDOW / 2 + rng.next_u64() % WINDOW);
            if !rng.chance(10) {
                pending.push_back(id);
            }
        }
        for _ in 0..(entries / 12).max(1) {
            if let Some(id) = pending.pop_front() {
                free.push_back(peer.cancel(id).expect("it is there"));
                over += 1;
            }
        }
        while let Some(number) = peer.take() {
            free.push_back(number);
            over += 1;
        }
        now += step;
        peer.advance(now);
    }
    [per(watch.elapsed(), over)]
}

/// Allocated bytes per entry, without the eight bytes of the value.
#[expect(clippy::cast_precision_loss, reason = "a figure for people")]
fn memory<P: Peer>(entries: usize) -> [f64; 1] {
    let dues = scattered(entries, WINDOW);
    let mut peer = P::new();
    let before = allocated();
    for (number, due) in (0..).zip(&dues) {
        peer.push(number, *due);
    }
    let bytes = allocated() - before;
    [bytes as f64 / entries as f64 - 8.0]
}

/// The allocated bytes of the process.
fn allocated() -> usize {
    // SAFETY: `mallinfo2` only reads the statistics of the allocator.
    let figures = unsafe { libc::mallinfo2() };
    figures.uordblks + figures.hblkhd
}
