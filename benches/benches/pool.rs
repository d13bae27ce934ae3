//! The cost of a task in the pool: empty tasks, round trips, nested submits, the typed pool.
//!
//! For the development of the pool; the program `compare` compares it with other pools. Compare
//! only rows of one run, and only medians.

use std::hint::black_box;
use std::thread;
use std::time::Instant;

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use pool_core::{Builder, Closures, FuncPool, Pool, QueueDepth};

/// Submits `tasks` from `producers` threads, and returns when all have run.
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

/// Empty tasks from several producers, from the first submit until the pool is idle.
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

/// Spawns a task and waits for its value, repeatedly.
fn round_trip(criterion: &mut Criterion) {
    let pool = pool(2).build().expect("valid settings");
    criterion.bench_function("round_trip", |bencher| {
        bencher.iter(|| pool.spawn(|| 1).expect("open").join().expect("no panic"));
    });
}

/// A binary tree of tasks, each of which submits two: workers feed their own pool.
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

/// A typed pool, whose queue contains only an argument per task.
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
