//! The longest single operations, which an average hides.
//!
//! Each operation is timed separately by the processor time of its thread, so time without a core
//! does not count. Interrupts, and a host that takes the core away, still do. Therefore the same
//! program runs several times with the same numbers, and the minimum time of each operation over
//! all rounds is kept: random disturbances rarely hit the same operation in every round, and the
//! work of the container itself is in each round. The figures are computed from these minima. Every
//! round begins with a new container, so its growth is included. Pages that the allocator has kept
//! from an earlier round do not come from the kernel again.
//!
//! Reading this clock is a system call. Each time includes about one, which the rows `clock` show,
//! and caches are colder because of it: compare these figures with each other, not with the
//! averages.
//!
//! Shared with the benchmark of the heap.

use std::cell::RefCell;
use std::collections::{BTreeMap, VecDeque};
use std::hint::black_box;

use testkit::Rng;

use crate::order::{SEED, scattered, shuffled};
use crate::rounds::Rounds;
use crate::stopwatch::Stopwatch;

/// The difference between the earliest and the latest time.
const WINDOW: u64 = 1 << 36;
/// About this many entries fall due per step of the clock.
const BATCH: u64 = 50;
/// In the case `timeouts`, one of this many entries falls due and the others are cancelled,
const DUE: usize = 100;
/// after this many others have been pushed, or all of them.
const LIVE: usize = 10_000;

/// With more entries, a run takes more than a few seconds.
const QUICK: usize = 10_000;

/// A container that can be timed. Values are unique numbers.
pub trait Subject {
    type Id;
    fn new() -> Self;
    fn push(&mut self, value: u64, due: u64) -> Self::Id;
    /// Removes the earliest entry if it is due.
    fn pop(&mut self) -> Option<u64>;
    fn advance(&mut self, now: u64);
}

/// A container that can find an entry by its id.
pub trait Cancel: Subject {
    fn cancel(&mut self, id: Self::Id) -> Option<u64>;
    fn reset(&mut self, id: &mut Self::Id, due: u64);
}

/// A peer's name, and a function that runs one round of all its cases.
pub type Peer = (&'static str, fn(usize, &mut Least));

/// The cases of containers that cannot cancel.
pub fn ordered<S: Subject>(entries: usize, least: &mut Least) {
    fill::<S>(entries, least);
    steady::<S>(entries, least);
}

/// The cases of containers that can cancel.
pub fn cancelling<S: Cancel>(entries: usize, least: &mut Least) {
    ordered::<S>(entries, least);
    reset_and_cancel::<S>(entries, least);
    timeouts::<S>(entries, least);
}

/// The minimum times of one peer so far, by the kind of operation.
#[derive(Clone, Default)]
pub struct Least(BTreeMap<&'static str, Vec<u32>>);

impl Least {
    /// Keeps the minimum times of each operation, by its index.
    fn keep(&mut self, kind: &'static str, times: Vec<u32>) {
        let least = self.0.entry(kind).or_default();
        if least.is_empty() {
            *least = times;
            return;
        }
        assert_eq!(least.len(), times.len(), "each round does the same");
        for (least, time) in least.iter_mut().zip(times) {
            *least = time.min(*least);
        }
    }
}

/// Nanoseconds per operation, in order.
struct Times(RefCell<Vec<u32>>);

impl Times {
    fn of(operations: usize) -> Self {
        Self(RefCell::new(Vec::with_capacity(operations)))
    }

    fn one<T>(&self, operation: impl FnOnce() -> T) -> T {
        let watch = Stopwatch::start();
        let result = black_box(operation());
        let nanos = watch.elapsed().as_nanos();
        self.0
            .borrow_mut()
            .push(u32::try_from(nanos).unwrap_or(u32::MAX));
        result
    }

    fn done(self) -> Vec<u32> {
        self.0.into_inner()
    }
}

/// Runs all peers in turn, and prints a line per peer and kind of operation.
pub fn run(rounds: &Rounds, peers: &[Peer]) {
    let bench = env!("CARGO_CRATE_NAME");
    let peers: Vec<&Peer> = peers.iter().filter(|peer| rounds.has(peer.0)).collect();
    for &entries in rounds.sizes() {
        let takes_long = entries > QUICK && rounds.is_quick;
        if takes_long || !rounds.wants(&format!("{bench}/tail/{entries}")) {
            continue;
        }
        let mut all = vec![Least::default(); peers.len()];
        let mut clock = Least::default();
        // Four rounds leave few operations that a disturbance hit in each. Further rounds of a
        // small container are cheap.
        let count = match rounds.count {
            few @ ..=3 => few,
            _ => (400_000 / entries).clamp(4, 20),
        };
        for round in 0..count {
            for turn in 0..peers.len() {
                let index = (round + turn) % peers.len();
                (peers[index].1)(entries, &mut all[index]);
            }
            let times = Times::of(entries);
            (0..entries).for_each(|_| times.one(|| ()));
            clock.keep("nothing", times.done());
        }
        let rows = peers.iter().map(|peer| peer.0).zip(all);
        for (peer, kinds) in rows.chain([("clock", clock)]) {
            for (kind, mut times) in kinds.0 {
                times.sort_unstable();
                let at = |per_mille: usize| {
                    f64::from(times[(times.len() - 1) * per_mille / 1_000]) / 1e3
                };
                let name = format!("{bench}/tail/{entries}/{kind}/{peer}");
                let [middle, rare, most] = [at(500), at(999), at(1_000)];
                println!(
                    "{name:<56} tail:   [{middle:.2} us {rare:.2} us {most:.2} us] of {count} rounds"
                );
            }
        }
    }
}

/// Fills an empty container: with unordered times, and with rising ones, as timeouts of one length.
fn fill<S: Subject>(entries: usize, least: &mut Least) {
    let mut dues = scattered(entries, WINDOW);
    for kind in ["fill_scattered", "fill_rising"] {
        let (mut subject, times) = (S::new(), Times::of(entries));
        for (value, due) in (0..).zip(&dues) {
            times.one(|| subject.push(value, *due));
        }
        least.keep(kind, times.done());
        dues.sort_unstable();
    }
}

/// Lets some entries fall due and pops them, then pushes as many. Each entry has two operations.
fn steady<S: Subject>(entries: usize, least: &mut Least) {
    let (mut subject, times) = (S::new(), Times::of(2 * entries));
    for (value, due) in (0..).zip(scattered(entries, WINDOW)) {
        subject.push(value, due);
    }
    let step = (BATCH * WINDOW / entries as u64).clamp(1 << 20, WINDOW);
    let mut rng = Rng::new(SEED + 2);
    let (mut now, mut popped) = (0, 0);
    while popped < entries {
        now += step;
        subject.advance(now);
        let mut values = Vec::new();
        while let Some(value) = times.one(|| subject.pop()) {
            values.push(value);
        }
        popped += values.len();
        for value in values {
            let due = now + 1 + rng.next_u64() % WINDOW;
            times.one(|| subject.push(value, due));
        }
    }
    least.keep("steady", times.done());
}

/// Resets each entry, then cancels each, in random order.
fn reset_and_cancel<S: Cancel>(entries: usize, least: &mut Least) {
    let dues = scattered(entries, WINDOW);
    let mut subject = S::new();
    let ids = (0..)
        .zip(&dues)
        .map(|(value, due)| subject.push(value, *due));
    let mut ids = shuffled(ids.collect());
    let times = Times::of(entries);
    for (id, due) in ids.iter_mut().zip(&dues) {
        times.one(|| subject.reset(id, *due));
    }
    least.keep("reset", times.done());
    let times = Times::of(entries);
    for id in shuffled(ids) {
        times.one(|| subject.cancel(id)).expect("it is there");
    }
    least.keep("cancel", times.done());
}

/// All entries have the same delay. Most are cancelled while others are pushed, and the rest fall
/// due. Measures pushes, cancels and pops together.
fn timeouts<S: Cancel>(entries: usize, least: &mut Least) {
    let (mut subject, times) = (S::new(), Times::of(3 * entries));
    let step = WINDOW / entries as u64;
    let live = LIVE.min(entries);
    let mut ids = VecDeque::with_capacity(live + 1);
    let mut left = 0;
    let mut end = |subject: &mut S, (value, id): (u64, S::Id)| {
        if usize::try_from(value).is_ok_and(|value| value.is_multiple_of(DUE)) {
            left += 1;
        } else {
            times.one(|| subject.cancel(id)).expect("it is there");
        }
    };
    for value in 0..entries as u64 {
        let id = times.one(|| subject.push(value, WINDOW + value * step));
        ids.push_back((value, id));
        if ids.len() > live {
            let oldest = ids.pop_front().expect("there are more");
            end(&mut subject, oldest);
        }
    }
    ids.into_iter().for_each(|id| end(&mut subject, id));
    subject.advance(3 * WINDOW);
    for _ in 0..left {
        times.one(|| subject.pop()).expect("it is due");
    }
    least.keep("timeouts", times.done());
}
