//! Empty tasks through one pool and through several, from four producers.
//!
//! Each row has four workers and the same total queue depth. Compare only rows of one run. On few
//! cores, several locks gain nothing.

use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::thread;
use std::time::Instant;

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use multi_pool::{LeastTasks, MultiBuilder, RoundRobin};
use pool_core::{Pool, Submit};

const PRODUCERS: u64 = 4;
const WORKERS: usize = 4;

/// A task that only counts, in a counter of its worker.
fn empty() {
    thread_local! {
        static COUNT: AtomicU64 = const { AtomicU64::new(0) };
    }
    COUNT.with(|count| count.fetch_add(1, Relaxed));
}

fn several(pools: usize, depth: usize) -> multi_pool::MultiBuilder<pool_core::Closures> {
    let each = Pool::builder()
        .capacity(WORKERS / pools)
        .queue_depth(depth / pools);
    MultiBuilder::new(each).pools(pools)
}

fn run(pool: &impl Submit<fn()>, tasks: u64) {
    thread::scope(|scope| {
        for producer in 0..PRODUCERS {
            let share = tasks / PRODUCERS + u64::from(producer < tasks % PRODUCERS);
            scope.spawn(move || (0..share).for_each(|_| pool.submit(empty).expect("open")));
        }
    });
    pool.wait_idle().expect("not on a worker");
}

fn four_producers(criterion: &mut Criterion) {
    for depth in [0, 1024] {
        let mut group = criterion.benchmark_group(format!("four_producers_depth_{depth}"));
        group.throughput(Throughput::Elements(1));
        let one = Pool::builder().capacity(WORKERS).queue_depth(depth);
        let one = one.build().expect("valid settings");
        let mut bench = |id: BenchmarkId, run: &dyn Fn(u64)| {
            group.bench_function(id, |bencher| {
                bencher.iter_custom(|tasks| {
                    let start = Instant::now();
                    run(tasks);
                    start.elapsed()
                });
            });
        };
        bench(BenchmarkId::new("pool", 1), &|tasks| run(&one, tasks));
        for pools in [1, 2, 4] {
            let round = several(pools, depth).strategy(RoundRobin::new());
            let round = round.build().expect("valid settings");
            bench(BenchmarkId::new("round_robin", pools), &|tasks| {
                run(&round, tasks);
            });
            let least = several(pools, depth).strategy(LeastTasks);
            let least = least.build().expect("valid settings");
            bench(BenchmarkId::new("least_tasks", pools), &|tasks| {
                run(&least, tasks);
            });
        }
        group.finish();
    }
}

criterion_group!(benches, four_producers);
criterion_main!(benches);
