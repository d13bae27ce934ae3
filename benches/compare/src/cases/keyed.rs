//! What does it cost to run the tasks of each key one after the other?

use std::cell::Cell;
use std::collections::HashMap;

use parking_lot::Mutex;
use pool_core::Pool;
use pool_util::PoolExt;
use tokio::runtime::Builder;
use tokio::sync::mpsc::{UnboundedSender, unbounded_channel};

use crate::count::task;
use crate::peers::{Crossbeam, Mpmc, queue_depth, unknown};
use crate::throughput::measure;
use measure::case::{Case, Outcome, Run};

const THREADS: u32 = 4;

const KEYED: &str = "anthill keyed";
const PLAIN: &str = "anthill";
/// Keys are distributed over threads with a channel each, so no key has two workers. The tasks
/// behind a slow task are those of its thread, and an idle thread does not help another.
const BY_HAND: &str = "channel by key";
/// Each key has an async task, which receives the key's closures from an unbounded channel. The
/// tasks of unused keys stay, and nothing limits the waiting closures.
const TOKIO: &str = "tokio task by key";

type Task = Box<dyn FnOnce() + Send>;

thread_local! {
    static NEXT: Cell<u64> = const { Cell::new(0) };
}

/// The keys in turn, on each thread.
fn key(keys: u64) -> u64 {
    let next = NEXT.get();
    NEXT.set(next + 1);
    next % keys
}

fn spread(run: &Run, keys: u64, producers: u32) -> Outcome {
    let pool = || {
        Pool::builder()
            .capacity(THREADS as usize)
            .prestart(THREADS as usize)
            .queue_depth(queue_depth(None))
            .build()
    };
    let done = match run.pool.as_str() {
        KEYED => {
            let pool = pool()?.keyed();
            let submit = || pool.submit(key(keys), task()).expect("the pool is open");
            measure(producers, run.budget(), submit)
        }
        PLAIN => {
            let pool = pool()?;
            let submit = || {
                key(keys);
                pool.submit(task()).expect("the pool is open");
            };
            measure(producers, run.budget(), submit)
        }
        BY_HAND => {
            let threads: Vec<_> = (0..THREADS)
                .map(|_| {
                    let (sender, receiver) = Crossbeam::channel::<Task>(None);
                    std::thread::spawn(move || {
                        while let Some(task) = Crossbeam::receive(&receiver) {
                            task();
                        }
                    });
                    sender
                })
                .collect();
            let submit = || {
                let thread = key(keys) % u64::from(THREADS);
                let sender = &threads[usize::try_from(thread).expect("there are few")];
                Crossbeam::send(sender, Box::new(task()) as Task);
            };
            measure(producers, run.budget(), submit)
        }
        TOKIO => {
            let runtime = Builder::new_multi_thread()
                .worker_threads(THREADS as usize)
                .build()?;
            // As many shards as `Keyed` has, so that submitters contend equally rarely for a lock.
            let shards = [(); 8].map(|()| Mutex::new(HashMap::<u64, UnboundedSender<Task>>::new()));
            let submit = || {
                let key = key(keys);
                let mut shard = shards[usize::try_from(key % 8).expect("it is small")].lock();
                let sender = shard.entry(key).or_insert_with(|| {
                    let (sender, mut receiver) = unbounded_channel::<Task>();
                    runtime.spawn(async move {
                        while let Some(task) = receiver.recv().await {
                            task();
                        }
                    });
                    sender
                });
                let sent = sender.send(Box::new(task()));
                assert!(sent.is_ok(), "the task of a key does not end");
            };
            measure(producers, run.budget(), submit)
        }
        other => return Err(unknown(other)),
    };
    Ok(done.report())
}

pub fn cases() -> Vec<Case> {
    let mut cases = Vec::new();
    for keys in [1, 16, 1_000, 10_000] {
        for producers in [1, 4] {
            let case = Case::new(
                format!("keyed/{keys}/{producers}p"),
                "Keys",
                "What does an empty task cost that runs after earlier tasks of its key, with this many keys?",
                &[KEYED, PLAIN, BY_HAND, TOKIO],
                move |run| spread(run, keys, producers),
            );
            cases.push(case.quick(keys == 16 && producers == 1, &[KEYED, PLAIN, BY_HAND]));
        }
    }
    cases
}
