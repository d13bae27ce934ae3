//! The cost of a pool's idle workers: their reuse, their expiry, and the removal of one from the
//! middle.

use std::hint::black_box;
use std::time::{Duration, Instant};

use criterion::{BenchmarkId, Criterion, Throughput, criterion_group, criterion_main};
use worker_queue::IdleQueue;

/// Entries of the size that a pool uses: a pointer and a time.
type Queue = IdleQueue<usize, u64>;

const SIZES: [usize; 2] = [1_000, 100_000];

criterion_group!(benches, reuse, nothing_expired, half_expired, removal);
criterion_main!(benches);

/// Takes a worker and returns it while the others idle.
fn reuse(c: &mut Criterion) {
    let mut group = c.benchmark_group("worker_queue/reuse");
    for len in SIZES {
        for (name, mut queue) in filled(len) {
            let mut now = len as u64;
            group.bench_function(BenchmarkId::new(name, len), |b| {
                b.iter(|| {
                    let worker = queue.pop().expect("all are idle");
                    now += 1;
                    queue.push(black_box(worker), now)
                });
            });
        }
    }
}

/// Only the search.
fn nothing_expired(c: &mut Criterion) {
    let mut group = c.benchmark_group("worker_queue/nothing_expired");
    for len in SIZES {
        for (name, mut queue) in filled(len) {
            group.bench_function(BenchmarkId::new(name, len), |b| {
                b.iter(|| queue.drain_expired(black_box(0), usize::MAX).len());
            });
        }
    }
}

/// Half of the workers expire, into an allocated buffer.
fn half_expired(c: &mut Criterion) {
    let mut group = c.benchmark_group("worker_queue/half_expired");
    for len in SIZES {
        for (name, mut queue) in filled(len) {
            let mut expired = Vec::with_capacity(len / 2);
            group.throughput(Throughput::Elements(len as u64 / 2));
            group.bench_function(BenchmarkId::new(name, len), |b| {
                b.iter_custom(|rounds| {
                    let mut spent = Duration::ZERO;
                    for _ in 0..rounds {
                        fill(&mut queue, len);
                        expired.clear();
                        let start = Instant::now();
                        expired.extend(queue.drain_expired(len as u64 / 2, usize::MAX));
                        spent += start.elapsed();
                        assert_eq!(expired.len(), len / 2);
                    }
                    spent
                });
            });
        }
    }
}

/// Finds the worker in the middle, removes it, and returns it as the newest.
fn removal(c: &mut Criterion) {
    let mut group = c.benchmark_group("worker_queue/remove_from_the_middle");
    for len in SIZES {
        for (name, mut queue) in filled(len) {
            group.bench_function(BenchmarkId::new(name, len), |b| {
                b.iter(|| {
                    let mut seen = 0;
                    let is_middle = |worker: &usize| {
                        seen += 1;
                        black_box(worker);
                        seen > len / 2
                    };
                    let worker = queue.remove(is_middle).expect("there is a middle");
                    queue.push(worker, len as u64)
                });
            });
        }
    }
}

/// Both containers with `len` workers.
fn filled(len: usize) -> [(&'static str, Queue); 2] {
    let ring = Queue::ring(len).expect("so many slots fit into memory");
    [("stack", Queue::stack()), ("ring", ring)].map(|(name, mut queue)| {
        fill(&mut queue, len);
        (name, queue)
    })
}

/// Adds `len` workers with stamps from 1 on.
fn fill(queue: &mut Queue, len: usize) {
    queue.clear();
    for (worker, stamp) in (0..len).zip(1..) {
        queue.push(worker, stamp).expect("there is room");
    }
}
