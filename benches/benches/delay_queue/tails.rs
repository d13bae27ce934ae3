//! The longest single operations: an average says nothing of the one call that stands still.
//!
//! Each operation is timed alone, by the processor's time of its thread, so a thread that waits for
//! its core loses nothing by it. An interrupt still counts, and so does a host that takes the core
//! away. Hence the same program runs several times with the same numbers, and of each operation the
//! least time of all rounds is kept: what strikes at random strikes an operation once, and what the
//! container has to do it does in each round. The figures are of those least times. Every round
//! begins with a new container, so growing belongs to the operations; pages that the allocator has
//! kept from the round before do not come from the kernel again.
//!
//! A read of this clock is a system call. Each time contains about one, which the rows `clock` show,
//! and the caches are colder for it: compare these figures with each other, not with the averages.
//!
//! Of the bench of the heap too.

use std::cell::RefCell;
use std::collections::{BTreeMap, VecDeque};
use std::hint::black_box;

use testkit::Rng;

use crate::order::{SEED, scattered, shuffled};
use crate::rounds::Rounds;
use crate::stopwatch::Stopwatch;

/// All times lie within so much of one another.
const WINDOW: u64 = 1 << 36;
/// A step of the clock makes so many due, about.
const BATCH: u64 = 50;
/// Of the entries of the case `timeouts` this part falls due, all others are cancelled ..
const DUE: usize = 100;
/// .. after so many others have been pushed, or all that there are.
const LIVE: usize = 10_000;

/// More entries take more than a few seconds.
const QUICK: usize = 10_000;

/// A container that can be timed. Values are numbers that no two entries share.
pub trait Subject {
    type Id;
    fn new() -> Self;
    fn push(&mut self, value: u64, due: u64) -> Self::Id;
    /// The value of the earliest entry, if it is due.
    fn pop(&mut self) -> Option<u64>;
    fn advance(&mut self, now: u64);
}

/// One that knows its entries again.
pub trait Cancel: Subject {
    fn cancel(&mut self, id: Self::Id) -> Option<u64>;
    fn reset(&mut self, id: &mut Self::Id, due: u64);
}

/// A peer's name, and one round of what it can do.
pub type Peer = (&'static str, fn(usize, &mut Least));

/// What cannot cancel.
pub fn ordered<S: Subject>(entries: usize, least: &mut Least) {
    fill::<S>(entries, least);
    steady::<S>(entries, least);
}

/// What can.
pub fn cancelling<S: Cancel>(entries: usize, least: &mut Least) {
    ordered::<S>(entries, least);
    reset_and_cancel::<S>(entries, least);
    timeouts::<S>(entries, least);
}

/// The least times of one peer so far, by the kind of operation.
#[derive(Clone, Default)]
pub struct Least(BTreeMap<&'static str, Vec<u32>>);

impl Least {
    /// Keeps the least times of each operation, by its place in the order.
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

/// Nanoseconds of each operation, in their order.
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

/// Runs all peers, in turn, and prints a line for each kind of operation of each.
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
        // Few are left that random strikes have met in each of four rounds. Of a small container
        // each costs nothing.
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

/// An empty container is filled: in no order, and, as time-outs of one length do, each due after
/// the one before it.
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

/// Some fall due and are popped, as many are pushed: each entry once, two operations each.
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

/// Each is moved to another time, then each is cancelled, each time in random order.
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

/// Each is due one length of time after its push; most are cancelled while others are pushed, what
/// is left falls due. Pushes, cancels and pops together.
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
