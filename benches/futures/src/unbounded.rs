//! Cases without a maximum number of live tasks.

use std::time::{Duration, Instant};

use measure::case::{Case, Outcome, Run};
use measure::meter::{Meter, resident_memory};
use measure::percentiles::Percentiles;
use measure::report::Report;

use crate::count::{Count, OnDrop};
use crate::peer::Peer;
use crate::peers::{Ours, Smol, Tokio};

const HOUR: Duration = Duration::from_hours(1);
const NAMES: &[&str] = &["ours", "tokio", "async-executor"];

fn count(tasks: u32) -> &'static Count {
    Box::leak(Box::new(Count::new(tasks)))
}

fn empty<P: Peer>(run: &Run) -> Outcome {
    let tasks = run.choose(1_000_000, 1_000_000, 50_000);
    let peer = P::start(None);
    let count = count(tasks);
    let same = peer.clone();
    let meter = Meter::start();
    drop(peer.wait(peer.spawn(async move {
        for _ in 0..tasks {
            same.submit(async { count.down() }).await;
        }
        same
    })));
    count.wait();
    let spent = meter.stop();
    std::mem::forget(peer);
    Ok(Report::new().per_task(spent, tasks).headline("cpu"))
}

fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

/// Times of `ask`, for as long as is budgeted.
fn times(run: &Run, mut ask: impl FnMut()) -> Report {
    let end = Instant::now() + 5 * run.budget();
    let mut times = Vec::with_capacity(1 << 20);
    while times.len() < times.capacity() && Instant::now() < end {
        let begin = Instant::now();
        ask();
        times.push(nanos(begin.elapsed()));
    }
    Report::new().latency(&Percentiles::new(times))
}

fn ask_from_thread<P: Peer>(run: &Run) -> Outcome {
    let peer = P::start(None);
    let ask = || assert_eq!(peer.wait(peer.spawn(async { 7 })), 7);
    (0..1_000).for_each(|_| ask());
    let report = times(run, ask);
    std::mem::forget(peer);
    Ok(report)
}

/// Asks in a batch: a look at the clock would be a large part of one.
fn ask_from_task<P: Peer>(run: &Run) -> Outcome {
    const BATCH: u32 = 64;
    let batches = run.choose(20_000, 20_000, 500);
    let peer = P::start(None);
    let same = peer.clone();
    let times = peer.wait(peer.spawn(async move {
        let mut times = Vec::new();
        for _ in 0..batches {
            let begin = Instant::now();
            for _ in 0..BATCH {
                assert_eq!(P::join(same.spawn(async { 7 })).await, 7);
            }
            times.push(nanos(begin.elapsed() / BATCH));
        }
        std::mem::forget(same);
        times
    }));
    std::mem::forget(peer);
    Ok(Report::new().latency(&Percentiles::new(times)))
}

fn yields<P: Peer>(run: &Run) -> Outcome {
    const TASKS: u32 = 64;
    let each = run.choose(50_000, 50_000, 1_000);
    let peer = P::start(None);
    let meter = Meter::start();
    let tasks: Vec<_> = (0..TASKS)
        .map(|_| {
            peer.spawn(async move {
                for _ in 0..each {
                    P::yield_now().await;
                }
            })
        })
        .collect();
    for task in tasks {
        peer.wait(task);
    }
    let spent = meter.stop();
    std::mem::forget(peer);
    let count = TASKS * each;
    let each_yield = |time: Duration| time.as_secs_f64() * 1e9 / f64::from(count);
    Ok(Report::new()
        .with("cpu", "ns/yield", each_yield(spent.cpu))
        .with("wall", "ns/yield", each_yield(spent.wall)))
}

fn parked<P: Peer>(run: &Run) -> Outcome {
    let tasks = run.choose(200_000, 200_000, 20_000);
    let peer = P::start(None);
    let all_parked = count(tasks);
    let before = resident_memory();
    peer.feed(tasks, || async {
        all_parked.down();
        P::sleep(HOUR).await;
    });
    all_parked.wait();
    let bytes = resident_memory().zip(before);
    std::mem::forget(peer);
    let (after, before) = bytes.ok_or("the memory of a process is known on Linux only")?;
    let each = (after - before) / f64::from(tasks);
    Ok(Report::new().with("resident", "bytes/task", each))
}

fn cancel<P: Peer>(run: &Run) -> Outcome {
    let tasks = run.choose(200_000, 200_000, 20_000);
    let peer = P::start(None);
    let (all_parked, all_dropped) = (count(tasks), count(tasks));
    let handles: Vec<_> = (0..tasks)
        .map(|_| {
            peer.spawn(async {
                let _dropped = OnDrop(all_dropped);
                all_parked.down();
                P::sleep(HOUR).await;
            })
        })
        .collect();
    all_parked.wait();
    let meter = Meter::start();
    handles.into_iter().for_each(P::cancel);
    all_dropped.wait();
    let spent = meter.stop();
    std::mem::forget(peer);
    Ok(Report::new().per_task(spent, tasks).headline("cpu"))
}

/// A case of a function that is generic over the executor.
macro_rules! case {
    ($name:literal, $group:literal, $question:literal, $run:ident) => {
        Case::new(
            $name.to_owned(),
            $group,
            $question,
            NAMES,
            |run| match &*run.pool {
                "ours" => $run::<Ours>(run),
                "tokio" => $run::<Tokio>(run),
                _ => $run::<Smol>(run),
            },
        )
        .quick(true, NAMES)
    };
}

pub fn cases() -> Vec<Case> {
    vec![
        case!(
            "empty/unlimited",
            "Empty futures, no bound",
            "What does an empty task cost, submitted by a task?",
            empty
        ),
        case!(
            "ask/thread",
            "Spawn and await",
            "How long does the value of an empty task take, asked by a thread and by a task?",
            ask_from_thread
        ),
        case!(
            "ask/task",
            "Spawn and await",
            "How long does the value of an empty task take, asked by a thread and by a task?",
            ask_from_task
        ),
        case!(
            "yield",
            "Yield",
            "What does a yield cost, with 64 tasks that do nothing else?",
            yields
        ),
        case!(
            "parked",
            "Memory",
            "How much resident memory does a sleeping task take?",
            parked
        ),
        case!(
            "cancel",
            "Cancel",
            "What does it cost to cancel a sleeping task, until it has been dropped?",
            cancel
        ),
    ]
}
