//! Pools behind one small face, and a body for their tasks that shares nothing.

use std::cell::Cell;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};
use std::thread;

use crossbeam_channel::Sender;
use pool_core::{Pool, QueueDepth};

/// One pool of the comparison.
pub trait Peer: Sync {
    fn name(&self) -> &'static str;
    /// Submits one task whose body is [`bump`].
    fn submit(&self);
}

/// One counter per thread, each on cache lines of its own.
#[repr(align(128))]
struct Slot(AtomicU64);

static SLOTS: [Slot; 1024] = [const { Slot(AtomicU64::new(0)) }; 1024];

/// The body of every task: counts itself without sharing a cache line with other threads.
pub fn bump() {
    static NEXT: AtomicUsize = AtomicUsize::new(0);
    thread_local! {
        static MINE: Cell<usize> = const { Cell::new(usize::MAX) };
    }
    let mut mine = MINE.get();
    if mine == usize::MAX {
        mine = NEXT.fetch_add(1, Relaxed) % SLOTS.len();
        MINE.set(mine);
    }
    SLOTS[mine].0.fetch_add(1, Relaxed);
}

fn bumps() -> u64 {
    SLOTS.iter().map(|slot| slot.0.load(Relaxed)).sum()
}

/// Submits `tasks` from so many threads, and returns when all have run.
pub fn run(peer: &dyn Peer, producers: u64, tasks: u64) {
    let target = bumps() + tasks;
    thread::scope(|scope| {
        for producer in 0..producers {
            let share = tasks / producers + u64::from(producer < tasks % producers);
            scope.spawn(move || (0..share).for_each(|_| peer.submit()));
        }
    });
    while bumps() < target {
        thread::yield_now();
    }
}

/// Every peer that can do it, with so many threads and so many tasks waiting at most.
pub fn all(threads: usize, depth: Option<usize>) -> Vec<Box<dyn Peer>> {
    let mut peers: Vec<Box<dyn Peer>> = vec![
        Box::new(Ours::new(threads, depth)),
        Box::new(Channel::new(threads, depth)),
    ];
    if depth.is_none() {
        peers.push(Box::new(Rayon::new(threads)));
    }
    peers
}

struct Ours(Pool);

impl Ours {
    fn new(threads: usize, depth: Option<usize>) -> Self {
        let depth = depth.map_or(QueueDepth::Unlimited, QueueDepth::Limited);
        let pool = Pool::builder().capacity(threads).queue_depth(depth).build();
        Self(pool.expect("valid settings"))
    }
}

impl Peer for Ours {
    fn name(&self) -> &'static str {
        "pool"
    }

    fn submit(&self) {
        self.0.submit(bump).expect("open");
    }
}

type Job = Box<dyn FnOnce() + Send>;

/// Threads that receive boxed closures from one channel.
pub struct Channel(Sender<Job>);

impl Channel {
    pub fn new(threads: usize, depth: Option<usize>) -> Self {
        let (sender, receiver) = match depth {
            Some(depth) => crossbeam_channel::bounded::<Job>(depth),
            None => crossbeam_channel::unbounded(),
        };
        for _ in 0..threads {
            let receiver = receiver.clone();
            // They end when the sender is dropped.
            thread::spawn(move || receiver.iter().for_each(|job| job()));
        }
        Self(sender)
    }

    pub fn submit_boxed(&self, job: Job) {
        self.0.send(job).expect("threads live");
    }
}

impl Peer for Channel {
    fn name(&self) -> &'static str {
        "crossbeam"
    }

    fn submit(&self) {
        self.submit_boxed(Box::new(bump));
    }
}

struct Rayon(rayon_core::ThreadPool);

impl Rayon {
    fn new(threads: usize) -> Self {
        let pool = rayon_core::ThreadPoolBuilder::new().num_threads(threads);
        Self(pool.build().expect("threads can be started"))
    }
}

impl Peer for Rayon {
    fn name(&self) -> &'static str {
        "rayon"
    }

    fn submit(&self) {
        self.0.spawn(bump);
    }
}
