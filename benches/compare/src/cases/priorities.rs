//! What do priorities cost?

use pool_core::{Pool, Priority};

use crate::count::task;
use crate::peers::{queue_depth, unknown};
use crate::throughput::measure;
use measure::case::{Case, Outcome, Run};

const THREADS: u32 = 4;

const OFF: &str = "anthill";
/// Tasks without a priority, so all are normal.
const ON: &str = "anthill priorities";
/// Each task is given a priority, so it has a record, like every task with options.
const GIVEN: &str = "anthill priorities given";

fn spread(run: &Run, producers: u32) -> Outcome {
    let (has_priorities, are_given) = match run.pool.as_str() {
        OFF => (false, false),
        ON => (true, false),
        GIVEN => (true, true),
        other => return Err(unknown(other)),
    };
    let pool = Pool::builder()
        .capacity(THREADS as usize)
        .prestart(THREADS as usize)
        .queue_depth(queue_depth(None))
        .priorities(has_priorities)
        .build()?;
    let done = if are_given {
        let submit = || {
            let given = pool.task().priority(Priority::High);
            given.submit(task()).expect("the pool is open");
        };
        measure(producers, run.budget(), submit)
    } else {
        let submit = || pool.submit(task()).expect("the pool is open");
        measure(producers, run.budget(), submit)
    };
    Ok(done.report())
}

pub fn cases() -> Vec<Case> {
    let pools = &[OFF, ON, GIVEN];
    let case = |producers| {
        Case::new(
            format!("priorities/{producers}p"),
            "Priorities",
            "What does an empty task cost in a pool with priorities?",
            pools,
            move |run| spread(run, producers),
        )
        .quick(producers == 1, pools)
    };
    vec![case(1), case(4)]
}
