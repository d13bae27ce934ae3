//! `parallelize_until`: each piece runs once; stops, panics, and skipped pieces.

use std::num::NonZeroUsize;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Barrier;
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};

use dedup_queue::{Report, parallelize_chunks, parallelize_until};
use testkit::{Gate, PanicOnDrop};

fn non_zero(n: usize) -> NonZeroUsize {
    NonZeroUsize::new(n).unwrap()
}

/// The first of each range, and the one after its last.
fn skipped(report: &Report) -> Vec<(usize, usize)> {
    let ranges = report.skipped.iter();
    ranges.map(|range| (range.start, range.end)).collect()
}

fn never() -> bool {
    false
}

#[test]
fn every_piece_runs_exactly_once() {
    for (pieces, workers, chunk) in [
        (1000, 10, 1),
        (1000, 10, 10),
        (1000, 10, 100),
        (999, 10, 13),
    ] {
        let seen: Vec<_> = (0..pieces).map(|_| AtomicUsize::new(0)).collect();
        let report =
            parallelize_chunks(non_zero(workers), pieces, non_zero(chunk), never, |piece| {
                seen[piece].fetch_add(1, Relaxed);
            });
        assert!(report.is_complete());
        assert_eq!(report.done, pieces);
        assert!(seen.iter().all(|times| times.load(Relaxed) == 1));
    }
}

#[test]
fn no_pieces_return_at_once_and_few_pieces_use_few_threads() {
    let report = parallelize_until(non_zero(10), 0, never, |_| unreachable!("no piece"));
    assert!(report.is_complete());
    let threads = std::sync::Mutex::new(std::collections::HashSet::new());
    let report = parallelize_until(non_zero(1_000_000), 2, never, |_| {
        threads.lock().unwrap().insert(std::thread::current().id());
    });
    assert_eq!(report.done, 2);
    assert!(threads.into_inner().unwrap().len() <= 2);
}

#[testkit::test]
fn as_many_pieces_run_at_a_time_as_there_are_workers() {
    let all = Barrier::new(4);
    let report = parallelize_until(non_zero(4), 4, never, |_| {
        all.wait();
    });
    assert_eq!(report.done, 4);
}

#[test]
fn the_stop_condition_is_checked_before_each_piece_and_the_rest_is_skipped() {
    let asked = AtomicUsize::new(0);
    let stop = || asked.fetch_add(1, Relaxed) >= 5;
    let report = parallelize_chunks(non_zero(1), 20, non_zero(4), stop, |_| {});
    assert_eq!(report.done, 5);
    assert_eq!(skipped(&report), [(5, 20)]);
    assert!(report.panics.is_empty() && !report.is_complete());
    let report = parallelize_until(non_zero(3), 10, || true, |_| unreachable!("stopped"));
    assert_eq!((report.done, skipped(&report)), (0, vec![(0, 10)]));
}

#[test]
fn a_panic_stops_further_pieces_and_is_reported() {
    let report = parallelize_until(non_zero(1), 10, never, |piece| {
        assert_ne!(piece, 3, "this one");
    });
    assert_eq!((report.done, skipped(&report)), (3, vec![(4, 10)]));
    assert_eq!(report.panics.len(), 1);
    assert_eq!(report.panics[0].piece, 3);
    let text = format!("{report:?}");
    assert_eq!(
        text,
        "Report { done: 3, skipped: [4..10], panics: [Panicked { piece: 3, .. }] }"
    );
    let raised = catch_unwind(AssertUnwindSafe(|| report.resume())).unwrap_err();
    assert!(
        raised
            .downcast_ref::<String>()
            .unwrap()
            .contains("this one")
    );
}

#[testkit::test]
fn running_pieces_finish_after_another_one_panics() {
    let gate = Gate::new();
    let report = parallelize_until(non_zero(2), 2, never, |piece| {
        if piece == 0 {
            gate.wait_for_arrivals(1);
            gate.open();
            panic!("the first");
        }
        gate.wait();
    });
    assert_eq!(
        (report.done, report.panics.len(), report.skipped.len()),
        (1, 1, 0)
    );
}

#[test]
fn resume_without_a_panic_returns_the_report() {
    let report = parallelize_until(non_zero(2), 7, never, |_| {}).resume();
    assert_eq!(report.done, 7);
}

#[testkit::test]
fn several_panics_are_kept_in_order_though_their_payloads_panic() {
    let barrier = std::sync::Barrier::new(3);
    let report = parallelize_until(non_zero(3), 3, never, |_| {
        barrier.wait();
        std::panic::panic_any(PanicOnDrop::nested(2));
    });
    let pieces: Vec<_> = report
        .panics
        .iter()
        .map(|panicked| panicked.piece)
        .collect();
    assert_eq!(pieces, [0, 1, 2]);
    let raised = catch_unwind(AssertUnwindSafe(|| report.resume())).unwrap_err();
    std::mem::forget(raised);
}

#[test]
fn a_panic_of_the_stop_condition_is_reported_with_its_piece() {
    let report = parallelize_until(non_zero(1), 3, || panic!("broken"), |_| {});
    assert_eq!((report.done, report.panics[0].piece), (0, 0));
    assert_eq!(skipped(&report), [(1, 3)]);
}

/// The rest is skipped as a range, not piece by piece, or these calls would not return for ages.
#[testkit::test]
fn a_stop_or_a_panic_skips_any_number_of_pieces_at_once() {
    for workers in [1, 3] {
        let left = |report: &Report| -> usize {
            let ranges = report.skipped.iter();
            ranges.map(|range| range.end - range.start).sum()
        };
        let report = parallelize_until(non_zero(workers), usize::MAX, || true, |_| {});
        assert_eq!((report.done, skipped(&report)), (0, vec![(0, usize::MAX)]));
        let begun = AtomicUsize::new(0);
        let report = parallelize_chunks(non_zero(workers), usize::MAX, non_zero(7), never, |_| {
            assert_ne!(begun.fetch_add(1, Relaxed), 20, "this one");
        });
        assert_eq!(report.panics.len(), 1);
        assert_eq!(report.done + 1 + left(&report), usize::MAX);
        assert!(report.skipped.len() <= 2 * workers, "{report:?}");
    }
}

/// Each piece is done, skipped or has panicked, whichever worker stops first.
#[test]
fn every_piece_is_reported_whichever_worker_stops_first() {
    let mut random = testkit::Rng::from_env();
    for _ in 0..200 {
        let (pieces, chunk) = (random.below(300), 1 + random.below(9));
        let (workers, last) = (1 + random.below(4), random.below(300));
        let seen: Vec<_> = (0..pieces).map(|_| AtomicUsize::new(0)).collect();
        let asked = AtomicUsize::new(0);
        let stop = || asked.fetch_add(1, Relaxed) >= last;
        let report =
            parallelize_chunks(non_zero(workers), pieces, non_zero(chunk), stop, |piece| {
                seen[piece].fetch_add(1, Relaxed);
                assert_ne!(piece, last / 2, "this one");
            });
        let mut state: Vec<_> = seen.iter().map(|times| times.load(Relaxed)).collect();
        assert_eq!(
            state.iter().sum::<usize>(),
            report.done + report.panics.len()
        );
        for range in &report.skipped {
            for times in &mut state[range.clone()] {
                assert_eq!(*times, 0, "skipped once, and not begun");
                *times += 1;
            }
        }
        assert!(state.iter().all(|&times| times == 1));
    }
}

/// The same on a pool's workers.
#[cfg(feature = "pool")]
mod on_a_pool {
    use std::thread;

    use dedup_queue::{parallelize_chunks_on, parallelize_until_on};
    use pool_core::Pool;

    use super::*;

    fn pool(capacity: usize) -> Pool {
        Pool::builder().capacity(capacity).build().unwrap()
    }

    #[testkit::test]
    fn each_piece_runs_once_and_the_pool_starts_no_thread_beyond_its_capacity() {
        let pool = pool(3);
        for (workers, chunk) in [(1, 1), (2, 7), (10, 1), (10, 100), (10, 2000)] {
            let seen: Vec<_> = (0..1000).map(|_| AtomicUsize::new(0)).collect();
            let report = parallelize_chunks_on(
                &pool,
                non_zero(workers),
                seen.len(),
                non_zero(chunk),
                never,
                |piece| _ = seen[piece].fetch_add(1, Relaxed),
            );
            assert!(report.is_complete());
            assert_eq!(report.done, 1000);
            assert!(seen.iter().all(|times| times.load(Relaxed) == 1));
        }
        assert!(pool.stats().threads_started <= 3);
    }

    #[testkit::test]
    fn as_many_pieces_run_at_a_time_as_there_are_workers_including_the_caller() {
        let (pool, all) = (pool(3), Barrier::new(4));
        let report = parallelize_until_on(&pool, non_zero(4), 4, never, |_| {
            all.wait();
        });
        assert_eq!(report.done, 4);
    }

    #[testkit::test]
    fn pieces_running_at_a_time_are_limited_by_the_workers_and_not_by_the_pool() {
        let (pool, running) = (pool(4), AtomicUsize::new(0));
        let report = parallelize_until_on(&pool, non_zero(2), 200, never, |_| {
            assert!(running.fetch_add(1, Relaxed) < 2);
            thread::yield_now();
            running.fetch_sub(1, Relaxed);
        });
        assert_eq!(report.resume().done, 200);
    }

    #[testkit::test]
    fn a_stop_skips_the_pieces_that_have_not_started() {
        let (pool, begun) = (pool(2), AtomicUsize::new(0));
        let stop = || begun.load(Relaxed) >= 5;
        let report = parallelize_until_on(&pool, non_zero(3), 1000, stop, |_| {
            begun.fetch_add(1, Relaxed);
        });
        let skipped: usize = report.skipped.iter().map(ExactSizeIterator::len).sum();
        assert_eq!(report.done, begun.into_inner());
        assert!((5..=7).contains(&report.done), "{report:?}");
        assert_eq!((report.done + skipped, report.panics.len()), (1000, 0));
    }

    #[testkit::test]
    fn a_panic_of_a_piece_is_reported_and_not_counted_by_the_pool() {
        let pool = pool(2);
        let report = parallelize_until_on(&pool, non_zero(3), 1000, never, |piece| {
            assert_ne!(piece, 20, "this one");
        });
        let panicked: Vec<_> = report
            .panics
            .iter()
            .map(|panicked| panicked.piece)
            .collect();
        assert_eq!(panicked, [20]);
        assert!((20..1000).contains(&report.done), "{report:?}");
        assert_eq!(pool.stats().panicked, 0);
    }

    #[testkit::test]
    fn the_caller_runs_all_pieces_if_the_pool_is_full_or_released() {
        let (full, released) = (pool(1), pool(1));
        let gate = Gate::new();
        let held = gate.clone();
        full.submit(move || held.wait()).unwrap();
        gate.wait_for_arrivals(1);
        released.release();
        let us = thread::current().id();
        for pool in [&full, &released] {
            let report = parallelize_until_on(pool, non_zero(4), 50, never, |_| {
                assert_eq!(thread::current().id(), us);
            });
            assert_eq!(report.resume().done, 50);
        }
        gate.open();
    }

    #[testkit::test]
    fn a_task_on_the_only_worker_of_the_pool_may_run_pieces() {
        let pool = pool(1);
        let within = pool.clone();
        let call = move || parallelize_until_on(&within, non_zero(4), 50, never, |_| {}).done;
        assert_eq!(pool.spawn(call).unwrap().join().unwrap(), 50);
    }
}
