//! What do several pools behind one handle gain?

use multi_pool::{LeastTasks, MultiBuilder};
use pool_core::Pool;

use crate::count::task;
use crate::peers::{queue_depth, unknown};
use crate::throughput::measure;
use measure::case::{Case, Outcome, Run};

/// Workers of all pools together.
const THREADS: u32 = 4;

fn spread(run: &Run, pools: u32, producers: u32) -> Outcome {
    let threads = THREADS / pools;
    let each = Pool::builder()
        .capacity(threads as usize)
        .prestart(threads as usize)
        .queue_depth(queue_depth(None));
    if run.pool == "single pool" {
        let pool = each.build()?;
        let submit = || pool.submit(task()).expect("the pool is open");
        return Ok(measure(producers, run.budget(), submit).report());
    }
    let builder = MultiBuilder::new(each).pools(pools as usize);
    let builder = match run.pool.as_str() {
        "anthill" => builder,
        "anthill least tasks" => builder.strategy(LeastTasks),
        other => return Err(unknown(other)),
    };
    let pool = builder.build()?;
    let submit = || pool.submit(task()).expect("the pools are open");
    Ok(measure(producers, run.budget(), submit).report())
}

pub fn cases() -> Vec<Case> {
    let mut cases = Vec::new();
    for producers in [1, 4, 16] {
        for pools in [1, 2, 4] {
            let single: &[&str] = if pools == 1 { &["single pool"] } else { &[] };
            let names = [&["anthill", "anthill least tasks"], single].concat();
            let case = Case::new(
                format!("multi/{pools}/{producers}p"),
                "MultiPool",
                "What does an empty task cost over 1, 2 and 4 pools with 4 workers in total?",
                &names,
                move |run| spread(run, pools, producers),
            );
            cases.push(case);
        }
    }
    cases
}
