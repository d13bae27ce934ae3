//! Cost of the de-duplicating queue, compared with a port of client-go's data structure.
//!
//! Criterion is not used, because two rows are comparable only if they alternate within seconds.
//! Each case runs both round by round, in changing order, and prints the minimum, the median and
//! the maximum of the rounds, and the port's median as a multiple of ours. `--quick` makes fewer
//! rounds, `--test` runs each case once with tiny sizes, and a word selects the cases whose names
//! contain it.

mod port;

use std::env;
use std::hint::black_box;
use std::num::NonZeroUsize;
use std::thread;
use std::time::{Duration, Instant};

use dedup_queue::{DedupDelayQueue, DedupQueue, DedupRetryQueue, Exponential};
use testkit::Rng;

/// Keys per round of the cases with several threads.
const KEYS: u64 = 1_000;
/// Shorter than any wait, because these cases measure the queue and not the delay.
const BASE: Duration = Duration::from_micros(1);
const MAX: Duration = Duration::from_micros(1);

fn main() {
    let bench = Bench::from_args();
    for threads in [1, 4] {
        bench.run(
            &format!("add_get_done/numbers/{threads}"),
            1_000_000,
            |peer, times| cycle(peer, threads, times, |n| n),
        );
        bench.run(
            &format!("add_get_done/text/{threads}"),
            200_000,
            |peer, times| cycle(peer, threads, times, |n| format!("namespace/name-{n}")),
        );
        bench.run(
            &format!("add_in_vain/numbers/{threads}"),
            1_000_000,
            |peer, times| collapse(peer, threads, times),
        );
        bench.run(&format!("retry/{threads}"), 200_000, |peer, times| {
            retry(peer, threads, times)
        });
    }
    bench.run("batch/numbers", 1_000_000, batch);
    bench.run("add_after/100000", 100_000, add_after);
}

#[derive(Clone, Copy)]
enum Peer {
    Ours,
    Port,
}

/// Each thread adds a key, gets one, and releases it. No key is added twice, so each add is a
/// delivery, to any thread.
fn cycle<K>(peer: Peer, threads: u64, times: u64, key: impl Fn(u64) -> K + Sync) -> Duration
where
    K: dedup_queue::Key + Sync + Ord,
{
    let share = times / threads;
    let keys = |thread: u64| (0..share).map(move |n| thread * share + n).map(&key);
    match peer {
        Peer::Ours => {
            let queue = DedupQueue::<K>::new();
            all(threads, |thread| {
                let keys: Vec<K> = keys(thread).collect();
                (keys, |key| {
                    queue.add(key).expect("it is open");
                    let held = queue.get().expect("it is open");
                    black_box(held.key());
                })
            })
        }
        Peer::Port => {
            let queue = port::Queue::new();
            all(threads, |thread| {
                let keys: Vec<K> = keys(thread).collect();
                (keys, |key| {
                    queue.add(key);
                    let key = queue.get().expect("it is open");
                    queue.done(black_box(&key));
                })
            })
        }
    }
}

/// Adds of a key that is already ready.
fn collapse(peer: Peer, threads: u64, times: u64) -> Duration {
    let share = times / threads;
    match peer {
        Peer::Ours => {
            let queue = DedupQueue::<u64>::new();
            all(threads, |_| {
                (0..share, |n| _ = black_box(queue.add(n % 64)))
            })
        }
        Peer::Port => {
            let queue = port::Queue::new();
            all(threads, |_| (0..share, |n| queue.add(n % 64)))
        }
    }
}

/// Adds sixty-four keys and takes as many, in one call if there is such a call.
fn batch(peer: Peer, times: u64) -> Duration {
    const MOST: NonZeroUsize = NonZeroUsize::new(64).expect("it is not zero");
    let start = Instant::now();
    match peer {
        Peer::Ours => {
            let queue = DedupQueue::<u64>::new();
            for _ in 0..times / 64 {
                (0..64).for_each(|n| _ = queue.add(n));
                drop(black_box(queue.get_batch(MOST)));
            }
        }
        Peer::Port => {
            let queue = port::Queue::new();
            for _ in 0..times / 64 {
                (0..64).for_each(|n| queue.add(n));
                for _ in 0..64 {
                    let key = queue.get().expect("it is open");
                    queue.done(black_box(&key));
                }
            }
        }
    }
    start.elapsed()
}

/// Every key fails at each delivery.
fn retry(peer: Peer, threads: u64, times: u64) -> Duration {
    let share = times / threads;
    match peer {
        Peer::Ours => {
            let limiter = Exponential::new(BASE, MAX);
            let queue = DedupRetryQueue::<u64>::builder().limiter(limiter).build();
            (0..KEYS).for_each(|key| _ = queue.add(key));
            all(threads, |_| {
                (0..share, |_| {
                    _ = black_box(queue.get().expect("it is open").retry())
                })
            })
        }
        Peer::Port => {
            let limited = port::Limited::new(BASE, MAX);
            (0..KEYS).for_each(|key| limited.queue.add(key));
            let spent = all(threads, |_| {
                (0..share, |_| {
                    let key = limited.queue.get().expect("it is open");
                    limited.add_rate_limited(key);
                    limited.queue.done(&key);
                })
            });
            limited.queue.shut_down();
            spent
        }
    }
}

/// Adds keys with delays of up to ten milliseconds, and takes them as they fall due, until the
/// last.
fn add_after(peer: Peer, times: u64) -> Duration {
    let mut rng = Rng::new(1);
    let mut delay = || Duration::from_nanos(rng.below(10_000_000) as u64);
    let start = Instant::now();
    match peer {
        Peer::Ours => {
            let queue = DedupDelayQueue::<u64>::new();
            (0..times).for_each(|key| _ = queue.add_after(key, delay()));
            for _ in 0..times {
                black_box(queue.get().expect("it is open")).done();
            }
        }
        Peer::Port => {
            let limited = port::Limited::new(BASE, MAX);
            (0..times).for_each(|key| limited.add_after(key, delay()));
            for _ in 0..times {
                let key = limited.queue.get().expect("it is open");
                limited.queue.done(black_box(&key));
            }
            limited.queue.shut_down();
        }
    }
    start.elapsed()
}

/// Runs the prepared inputs of each thread. Measures from the moment when all threads are ready
/// until all have ended.
fn all<I: IntoIterator, W: FnMut(I::Item)>(
    threads: u64,
    prepare: impl Fn(u64) -> (I, W) + Sync,
) -> Duration {
    let barrier = std::sync::Barrier::new(usize(threads));
    let work = |thread| {
        let (inputs, work) = prepare(thread);
        barrier.wait();
        let start = Instant::now();
        inputs.into_iter().for_each(work);
        (start, Instant::now())
    };
    thread::scope(|scope| {
        let work = &work;
        let spans: Vec<_> = (1..threads)
            .map(|thread| scope.spawn(move || work(thread)))
            .collect();
        let mine = work(0);
        let spans = spans
            .into_iter()
            .map(|span| span.join().expect("no thread panics"));
        let (first, last) = spans.fold(mine, |(first, last), (start, end)| {
            (first.min(start), last.max(end))
        });
        last - first
    })
}

fn usize(n: u64) -> usize {
    usize::try_from(n).expect("a small number")
}

struct Bench {
    rounds: usize,
    is_test: bool,
    only: Option<String>,
}

impl Bench {
    /// Ignores flags of other benchmarks.
    fn from_args() -> Self {
        let args: Vec<String> = env::args().skip(1).collect();
        let has = |flag: &str| args.iter().any(|arg| arg == flag);
        let is_word = |arg: &&String| !arg.starts_with('-') && arg.parse::<f64>().is_err();
        Self {
            rounds: match (has("--test"), has("--quick")) {
                (true, _) => 1,
                (_, true) => 5,
                _ => 15,
            },
            is_test: has("--test"),
            only: args.iter().find(is_word).cloned(),
        }
    }

    /// Runs a case of this many operations, and prints the time per operation.
    fn run(&self, case: &str, times: u64, run: impl Fn(Peer, u64) -> Duration) {
        let name = format!("dedup_queue/{case}");
        if self
            .only
            .as_ref()
            .is_some_and(|only| !name.contains(only.as_str()))
        {
            return;
        }
        let times = if self.is_test { 400 } else { times };
        let mut figures = [(Peer::Ours, "ours"), (Peer::Port, "port")]
            .map(|(peer, peer_name)| (peer, peer_name, Vec::new()));
        for round in 0..self.rounds {
            for turn in 0..figures.len() {
                let (peer, _, figures) = &mut figures[(round + turn) % 2];
                figures.push(run(*peer, times).as_secs_f64() * 1e9 / times as f64);
            }
        }
        let mut ours = None;
        for (_, peer, mut figures) in figures {
            figures.sort_by(f64::total_cmp);
            let (least, most) = (figures[0], figures[figures.len() - 1]);
            let median = figures[figures.len() / 2];
            let ratio = median / *ours.get_or_insert(median);
            let name = format!("{name}/{peer}");
            println!("{name:<50} time:   [{least:.1} ns {median:.1} ns {most:.1} ns] {ratio:.2}");
        }
    }
}
