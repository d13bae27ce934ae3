//! What does a typed pool save, in which only arguments are queued?

use std::sync::Arc;

use pool_core::FuncPool;

use crate::allocations;
use crate::cases::captures::per;
use crate::count::bump;
use crate::peer::Shape;
use crate::peers::{self, Crossbeam, Crossfire, Kanal, Mpmc};
use crate::report::Report;
use crate::throughput;
use measure::case::{Case, Outcome, Run};

/// The argument of every task.
type Argument = [u64; 4];

const SHAPE: Shape = Shape {
    threads: 4,
    depth: None,
};

/// Measures the calls of `submit`.
fn measure(run: &Run, producers: u32, submit: impl Fn(Argument) + Sync) -> Report {
    let submit = || submit([1; 4]);
    let done = throughput::measure(producers, run.budget(), submit);
    let tasks = run.choose(100_000, 40_000, 20_000);
    let count = allocations::during(|| {
        throughput::section(producers, tasks, &submit);
    });
    done.report()
        .with("allocations", "per task", per(count, tasks))
}

fn anthill(run: &Run, producers: u32) -> Report {
    let pool = FuncPool::builder(|argument: Argument| {
        std::hint::black_box(argument);
        bump();
    });
    let pool = pool
        .capacity(SHAPE.threads as usize)
        .queue_depth(peers::queue_depth(SHAPE.depth))
        .build()
        .expect("the settings are valid");
    measure(run, producers, |argument| {
        pool.submit(argument).expect("the pool is open");
    })
}

/// The usual code without a library: threads that receive arguments from a channel.
fn channel<C: Mpmc>(run: &Run, producers: u32) -> Report {
    let sender = Arc::new(C::feed(SHAPE, |argument: Argument| {
        std::hint::black_box(argument);
        bump();
    }));
    let report = measure(run, producers, |argument| C::send(&sender, argument));
    std::mem::forget(sender); // Its threads end with the process.
    report
}

fn run(run: &Run, producers: u32) -> Outcome {
    Ok(match run.pool.as_str() {
        "anthill" => anthill(run, producers),
        "crossbeam" => channel::<Crossbeam>(run, producers),
        "crossfire" => channel::<Crossfire>(run, producers),
        "kanal" => channel::<Kanal>(run, producers),
        other => return Err(peers::unknown(other)),
    })
}

pub fn cases() -> Vec<Case> {
    let case = |producers| {
        Case::new(
            format!("typed/{producers}p"),
            "The typed pool",
            "What does a task cost if only an argument of 32 bytes is queued?",
            peers::REFUSING, // The plain channels.
            move |asked| run(asked, producers),
        )
    };
    vec![case(1).quick(true, peers::QUICK), case(4)]
}
