//! What a task costs: empty tasks, the hand-off, the round trip, nested submits.
//!
//! Peers stand beside the pool where the question is "compared with what": a crossbeam channel
//! with threads, which is the plainest pool there is, and rayon's `spawn`. Compare rows of one
//! run only, and medians only.

mod peers;

use std::sync::Arc;
use std::time::Instant;

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use pool_core::{FuncPool, Pool, QueueDepth};

use peers::all;

/// Empty tasks from several producers, from the first submit to the last completion.
fn empty_tasks(criterion: &mut Criterion) {
    for (depth, name) in [(None, "unlimited"), (Some(1024), "1024"), (Some(0), "0")] {
        let mut group = criterion.benchmark_group(format!("empty_tasks_depth_{name}"));
        group.throughput(Throughput::Elements(1));
        for capacity in [2, 4] {
            for producers in [1, 4] {
                for peer in all(capacity, depth) {
                    let id = format!("{capacity}_workers_{producers}_producers");
                    group.bench_function(BenchmarkId::new(peer.name(), id), |bencher| {
                        bencher.iter_custom(|tasks| {
                            let start = Instant::now();
                            peers::run(&*peer, producers, tasks);
                            start.elapsed()
                        });
                    });
                }
            }
        }
        group.finish();
    }
}

/// Spawn one task and wait for its value, over and over.
fn round_trip(criterion: &mut Criterion) {
    let mut group = criterion.benchmark_group("round_trip");
    let pool = Pool::builder().capacity(2).build().expect("valid settings");
    group.bench_function("pool", |bencher| {
        bencher.iter(|| pool.spawn(|| 1).expect("open").join().expect("no panic"));
    });
    let (sender, receiver) = crossbeam_channel::bounded(1024);
    let peer = peers::Channel::new(2, Some(1024));
    group.bench_function("crossbeam", |bencher| {
        bencher.iter(|| {
            let sender = sender.clone();
            peer.submit_boxed(Box::new(move || sender.send(1).expect("receiver lives")));
            receiver.recv().expect("sender lives")
        });
    });
    group.finish();
}

/// A binary tree of tasks, each submitting two: workers feed their own pool.
fn nested(criterion: &mut Criterion) {
    fn grow(pool: &Arc<Pool>, levels: u32) {
        if levels > 0 {
            for _ in 0..2 {
                let inner = Arc::clone(pool);
                pool.submit(move || grow(&inner, levels - 1)).expect("open");
            }
        }
    }
    let pool = Pool::builder()
        .capacity(2)
        .queue_depth(QueueDepth::Unlimited)
        .build()
        .map(Arc::new)
        .expect("valid settings");
    criterion.bench_function("nested_tree_of_8191", |bencher| {
        bencher.iter(|| {
            grow(&pool, 12);
            pool.wait_idle().expect("not on a worker");
        });
    });
}

/// The typed pool: an argument in the queue and nothing else.
fn typed(criterion: &mut Criterion) {
    let pool = FuncPool::builder(|_: [u64; 4]| peers::bump())
        .capacity(2)
        .queue_depth(QueueDepth::Unlimited)
        .build()
        .expect("valid settings");
    criterion.bench_function("typed_pool_empty_task", |bencher| {
        bencher.iter_custom(|tasks| {
            let start = Instant::now();
            for _ in 0..tasks {
                pool.submit([0; 4]).expect("open");
            }
            pool.wait_idle().expect("not on a worker");
            start.elapsed()
        });
    });
}

criterion_group!(benches, empty_tasks, round_trip, nested, typed);
criterion_main!(benches);
