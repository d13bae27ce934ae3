//! What does a submit inside a task cost?

use std::time::Duration;

use rayon::Scope;

use crate::count::{bump, bumps, wait_for};
use crate::gate;
use crate::meter::Meter;
use crate::peer::{Job, Peer, Shape};
use crate::peers::{self, COMMON, QUICK, and, with};
use crate::report::Report;
use crate::throughput::Throughput;
use measure::case::{Case, Outcome, Run};

const THREADS: u32 = 4;
const SCOPE: &str = "rayon scope";

/// A binary tree of this many levels: each task submits two.
struct Tree<'a> {
    run: &'a Run,
    levels: u32,
}

fn grow<P: Peer>(inner: &P::Inner, levels: u32) {
    if levels > 0 {
        for _ in 0..2 {
            let pool = inner.clone();
            P::submit_inner(inner, move || grow::<P>(&pool, levels - 1));
        }
    }
    bump();
}

impl Job for Tree<'_> {
    type Out = Report;

    fn run<P: Peer>(self, peer: &'static P) -> Report {
        gate::fill(peer, THREADS);
        ever_larger(self.run, &heights(self.levels), |levels| {
            let inner = peer.inner();
            measure(tasks_of(levels), || {
                peer.submit(move || grow::<P>(&inner, levels));
            })
        })
    }
}

/// Trees of a sixteenth each time, up to the whole one.
fn heights(levels: u32) -> [u32; 3] {
    [levels - 8, levels - 4, levels]
}

fn tasks_of(levels: u32) -> u32 {
    (1 << (levels + 1)) - 1
}

/// A chain: each task submits the next.
struct Chain<'a> {
    run: &'a Run,
    tasks: u32,
}

fn link<P: Peer>(inner: &P::Inner, left: u32) {
    if left > 1 {
        let pool = inner.clone();
        P::submit_inner(inner, move || link::<P>(&pool, left - 1));
    }
    bump();
}

impl Job for Chain<'_> {
    type Out = Report;

    fn run<P: Peer>(self, peer: &'static P) -> Report {
        gate::fill(peer, THREADS);
        let lengths = [self.tasks / 100, self.tasks / 10, self.tasks];
        ever_larger(self.run, &lengths, |tasks| {
            let inner = peer.inner();
            measure(tasks, || peer.submit(move || link::<P>(&inner, tasks)))
        })
    }
}

/// Returns the figures of the last size. The others warm the pool. If a size takes several budgets,
/// it is the last one, because next to spinning neighbours some pools need a time slice of the
/// scheduler per task.
fn ever_larger(run: &Run, sizes: &[u32], measure: impl Fn(u32) -> Throughput) -> Report {
    let mut report = Report::new();
    for &size in sizes {
        let done = measure(size);
        report = done.report();
        if done.spent.wall > run.budget() * 4 {
            break;
        }
    }
    report
}

/// From the first submit to the end of the last task.
fn measure(tasks: u32, first: impl FnOnce()) -> Throughput {
    // The earlier tasks have ended, and idle threads are at rest.
    std::thread::sleep(Duration::from_millis(1));
    let target = bumps() + u64::from(tasks);
    let meter = Meter::start();
    first();
    wait_for(target);
    let spent = meter.stop();
    Throughput { spent, tasks }
}

fn grow_in_scope(scope: &Scope<'_>, levels: u32) {
    if levels > 0 {
        for _ in 0..2 {
            scope.spawn(move |scope| grow_in_scope(scope, levels - 1));
        }
    }
    bump();
}

/// As users of rayon write it: they wait for the whole tree anyway.
fn tree_in_scope(run: &Run, levels: u32) -> Report {
    let pool = peers::rayon_pool(THREADS);
    ever_larger(run, &heights(levels), |levels| {
        measure(tasks_of(levels), || {
            pool.scope(|scope| grow_in_scope(scope, levels));
        })
    })
}

fn tree(run: &Run, shape: Shape) -> Outcome {
    let levels = run.choose(19, 17, 16); // 2^20, 2^18 and 2^17 tasks, minus one.
    if run.pool == SCOPE {
        return Ok(tree_in_scope(run, levels));
    }
    with(&run.pool, shape, Tree { run, levels })
}

fn chain(run: &Run) -> Outcome {
    let tasks = run.choose(200_000, 50_000, 50_000);
    with(&run.pool, Shape::unlimited(THREADS), Chain { run, tasks })
}

pub fn cases() -> Vec<Case> {
    let pools = and(COMMON, "kanal");
    let tree = Case::new(
        "nested/tree".into(),
        "Nested submits",
        "What does a task cost where tasks submit tasks: a tree of 2^20, a chain of 200,000 \
         (oversubscribed a quarter of both)?",
        &and(&pools, SCOPE),
        |run| self::tree(run, Shape::unlimited(THREADS)),
    );
    let question = tree.question;
    // A peer's workers would wait for room that only they can make.
    let bounded = Case::new(
        "nested/tree/1024".into(),
        tree.group,
        question,
        &["anthill"],
        |run| self::tree(run, Shape::bounded(THREADS, 1024)),
    );
    let chain = Case::new("nested/chain".into(), tree.group, question, &pools, chain);
    vec![tree.quick(true, QUICK), bounded, chain.quick(true, QUICK)]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::meter::Spent;

    /// The number of tasks of the last size for a pool that takes this long per task.
    fn last_size(each: Duration) -> u32 {
        let run = Run {
            case: String::new(),
            pool: String::new(),
            quick: false,
            oversubscribed: false,
        };
        let last = std::cell::Cell::new(0);
        ever_larger(&run, &[10, 100, 1000], |tasks| {
            last.set(tasks);
            let spent = Spent {
                wall: each * tasks,
                cpu: Duration::ZERO,
            };
            Throughput { spent, tasks }
        });
        last.get()
    }

    #[test]
    fn a_slow_pool_gets_fewer_tasks() {
        assert_eq!(last_size(Duration::from_nanos(1)), 1000);
        assert_eq!(last_size(Duration::from_millis(5)), 100);
        assert_eq!(last_size(Duration::from_millis(500)), 10);
    }
}
