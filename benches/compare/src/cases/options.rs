//! What do the options of a task cost?

use pool_core::{CancelToken, Pool};

use crate::count::task;
use crate::peers::{queue_depth, unknown};
use crate::throughput::measure;
use measure::case::{Case, Outcome, Run};

const THREADS: u32 = 4;

const SUBMIT: &str = "anthill";
const SPAWN: &str = "anthill spawn";
const NAMED: &str = "anthill named";
const CANCELLED: &str = "anthill cancelled by a token";
const NAMED_SPAWN: &str = "anthill spawn named";

fn empty(run: &Run, producers: u32) -> Outcome {
    let pool = Pool::builder()
        .capacity(THREADS as usize)
        .prestart(THREADS as usize)
        .queue_depth(queue_depth(None))
        .build()?;
    let token = CancelToken::new();
    let open = "the pool is open";
    let submit: &(dyn Fn() + Sync) = match run.pool.as_str() {
        SUBMIT => &|| pool.submit(task()).expect(open),
        SPAWN => &|| drop(pool.spawn(task()).expect(open)),
        NAMED => &|| pool.task().name("named").submit(task()).expect(open),
        CANCELLED => &|| {
            let cancelled = pool.task().cancelled_by(&token);
            cancelled.submit(task()).expect(open);
        },
        NAMED_SPAWN => &|| drop(pool.task().name("named").spawn(task()).expect(open)),
        other => return Err(unknown(other)),
    };
    Ok(measure(producers, run.budget(), submit).report())
}

pub fn cases() -> Vec<Case> {
    let pools = &[SUBMIT, SPAWN, NAMED, CANCELLED, NAMED_SPAWN];
    let case = |producers| {
        Case::new(
            format!("options/{producers}p"),
            "Options",
            "What does an empty task cost with a handle, and with options?",
            pools,
            move |run| empty(run, producers),
        )
        .quick(producers == 1, pools)
    };
    vec![case(1), case(4)]
}
