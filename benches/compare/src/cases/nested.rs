//! What does a submit from inside a task cost?

use std::time::Duration;

use rayon::Scope;

use crate::case::{Case, Outcome, Run};
use crate::count::{bump, bumps, wait_for};
use crate::gate;
use crate::meter::Meter;
use crate::peer::{Job, Peer, Shape};
use crate::peers::{self, COMMON, QUICK, and, with};
use crate::report::Report;

const THREADS: u32 = 4;
const SCOPE: &str = "rayon scope";

/// A binary tree of so many levels: each task submits two.
struct Tree {
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

impl Job for Tree {
    type Out = Report;

    fn run<P: Peer>(self, peer: &'static P) -> Report {
        gate::fill(peer, THREADS);
        let plant = |levels| {
            let inner = peer.inner();
            measure(tasks_of(levels), || {
                peer.submit(move || grow::<P>(&inner, levels));
            })
        };
        plant(self.levels - 4);
        plant(self.levels)
    }
}

fn tasks_of(levels: u32) -> u32 {
    (1 << (levels + 1)) - 1
}

/// One after the other: each task submits the next.
struct Chain {
    tasks: u32,
}

fn link<P: Peer>(inner: &P::Inner, left: u32) {
    if left > 1 {
        let pool = inner.clone();
        P::submit_inner(inner, move || link::<P>(&pool, left - 1));
    }
    bump();
}

impl Job for Chain {
    type Out = Report;

    fn run<P: Peer>(self, peer: &'static P) -> Report {
        gate::fill(peer, THREADS);
        let pull = |tasks| {
            let inner = peer.inner();
            measure(tasks, || peer.submit(move || link::<P>(&inner, tasks)))
        };
        pull(self.tasks / 10);
        pull(self.tasks)
    }
}

/// From the first submit to the end of the last task.
fn measure(tasks: u32, first: impl FnOnce()) -> Report {
    // What was before is over, and its threads are where idle threads are.
    std::thread::sleep(Duration::from_millis(1));
    let target = bumps() + u64::from(tasks);
    let meter = Meter::start();
    first();
    wait_for(target);
    Report::new().per_task(meter.stop(), tasks)
}

fn grow_in_scope(scope: &Scope<'_>, levels: u32) {
    if levels > 0 {
        for _ in 0..2 {
            scope.spawn(move |scope| grow_in_scope(scope, levels - 1));
        }
    }
    bump();
}

/// What users of rayon write, who wait for the whole tree anyway.
fn tree_in_scope(levels: u32) -> Report {
    let pool = peers::rayon_pool(THREADS);
    let plant = |levels| {
        measure(tasks_of(levels), || {
            pool.scope(|scope| grow_in_scope(scope, levels));
        })
    };
    plant(levels - 4);
    plant(levels)
}

fn tree(run: &Run) -> Outcome {
    let levels = run.choose(19, 16); // 2^20 and 2^17 tasks, less one.
    if run.pool == SCOPE {
        return Ok(tree_in_scope(levels));
    }
    with(&run.pool, Shape::unlimited(THREADS), Tree { levels })
}

fn chain(run: &Run) -> Outcome {
    let tasks = run.choose(200_000, 50_000);
    with(&run.pool, Shape::unlimited(THREADS), Chain { tasks })
}

pub fn cases() -> Vec<Case> {
    let pools = and(COMMON, "kanal");
    let tree = Case::new(
        "nested/tree".into(),
        "Nested submits",
        "What does a task cost where tasks submit tasks: a tree of 2^20, a chain of 200,000?",
        &and(&pools, SCOPE),
        tree,
    );
    let question = tree.question;
    let chain = Case::new("nested/chain".into(), tree.group, question, &pools, chain);
    vec![tree.quick(true, QUICK), chain.quick(true, QUICK)]
}
