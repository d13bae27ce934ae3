//! What a task costs in the pool: empty tasks, the round trip, nested submits, the typed pool.
//!
//! For one's own changes: how it stands beside other pools is what `compare` is for. Compare rows of
//! one run only, and medians only.

use std::hint::black_box;
use std::thread;
use std::time::Instant;

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use pool_core::{Builder, Closures, FuncPool, Pool, QueueDepth};

/// Submits `tasks` from so many threads, and returns when all have run.
fn run(pool: &Pool, producers: u64, tasks: u64) {
    thread::scope(|scope| {
        for producer in 0..producers {
            let share = tasks / producers + u64::from(producer < tasks % producers);
            scope.spawn(move || {
                for number in 0..share {
                    pool.submit(move || _ = black_box(number)).expect("open");
                }
            });
        }
    });
    pool.wait_idle().expect("not on a worker");
}

fn pool(capacity: usize) -> Builder<Closures> {
    Pool::builder().capacity(capacity)
}

/// Empty tasks from several producers, from the first submit to rest.
fn empty_tasks(criterion: &mut Criterion) {
    let depths = [
        (QueueDepth::Unlimited, "unlimited"),
        (QueueDepth::Limited(1024), "1024"),
        (QueueDepth::Limited(0), "0"),
    ];
    for (depth, name) in depths {
        let mut group = criterion.benchmark_group(format!("empty_tasks_depth_{name}"));
        group.throughput(Throughput::Elements(1));
        for capacity in [2, 4] {
            for producers in [1, 4] {
                let id = format!("{capacity}_workers_{producers}_producers");
                let pool = pool(capacity).queue_depth(depth).build();
                let pool = pool.expect("valid settings");
                group.bench_function(BenchmarkId::from_parameter(id), |bencher| {
                    bencher.iter_custom(|tasks| {
                        let start = Instant::now();
                        run(&pool, producers, tasks);
                        start.elapsed()
                    });
                });
            }
        }
        group.finish();
    }
}

/// Spawn one task and wait for its value, over and over.
fn round_trip(criterion: &mut Criterion) {
    let pool = pool(2).build().expect("valid settings");
    criterion.bench_function("round_trip", |bencher| {
        bencher.iter(|| pool.spawn(|| 1).expect("open").join().expect("no panic"));
    });
}

/// A binary tree of tasks, each submitting two: workers feed their own pool.
fn nested(criterion: &mut Criterion) {
    fn grow(pool: &Pool, levels: u32) {
        if levels > 0 {
            for _ in 0..2 {
                let inner = pool.clone();
                pool.submit(move || grow(&inner, levels - 1)).expect("open");
            }
        }
    }
    let pool = pool(2).queue_depth(QueueDepth::Unlimited).build();
    let pool = pool.expect("valid settings");
    criterion.bench_function("nested_tree_of_8191", |bencher| {
        bencher.iter(|| {
            grow(&pool, 12);
            pool.wait_idle().expect("not on a worker");
        });
    });
}

/// The typed pool: an argument in the queue and nothing else.
fn typed(criterion: &mut Criterion) {
    let pool = FuncPool::builder(|numbers: [u64; 4]| _ = black_box(numbers))
        .capacity(2)
        .queue_depth(QueueDepth::Unlimited)
        .build()
        .expect("valid settings");
    criterion.bench_function("typed_pool_empty_task", |bencher| {
        bencher.iter_custom(|tasks| {
            let start = Instant::now();
            for number in 0..tasks {
                pool.submit([number; 4]).expect("open");
            }
            pool.wait_idle().expect("not on a worker");
            start.elapsed()
        });
    });
}

criterion_group!(benches, empty_tasks, round_trip, nested, typed);
criterion_main!(benches);
