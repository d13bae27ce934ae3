//! Cases with a maximum number of live tasks.

use std::sync::atomic::{AtomicU32, Ordering::Relaxed};
use std::time::{Duration, Instant};

use measure::case::{Case, Outcome, Run};
use measure::meter::{Meter, sleeps};
use measure::report::Report;

use crate::peer::Peer;
use crate::peers::{Ours, Smol, Tokio, compio, futures_buffered, join_set, may, monoio};

pub const NAP: Duration = Duration::from_millis(10);

/// Tasks of a run, and the bound of those that sleep at the same time.
#[derive(Clone, Copy)]
pub struct Load {
    pub tasks: u32,
    pub capacity: usize,
}

/// Runs a load on a named executor. Its threads are left behind.
type Runner = (&'static str, fn(Load));

const SLEEPS: &[Runner] = &[
    ("ours", sleep_on::<Ours>),
    ("tokio", sleep_on::<Tokio>),
    ("tokio JoinSet", join_set),
    ("async-executor", sleep_on::<Smol>),
    ("monoio", monoio),
    ("compio", compio),
    ("may", may),
    ("bare futures-buffered", futures_buffered),
];

const LATE: &[Runner] = &[
    ("ours", sleep_late_on::<Ours>),
    ("tokio", sleep_late_on::<Tokio>),
    ("async-executor", sleep_late_on::<Smol>),
];

const EMPTY_1: &[Runner] = &[
    ("ours", empty_on::<Ours, 1>),
    ("tokio", empty_on::<Tokio, 1>),
    ("async-executor", empty_on::<Smol, 1>),
];

const EMPTY_4: &[Runner] = &[
    ("ours", empty_on::<Ours, 4>),
    ("tokio", empty_on::<Tokio, 4>),
    ("async-executor", empty_on::<Smol, 4>),
];

const QUICK: &[&str] = &["ours", "tokio", "async-executor"];

fn run_on<P: Peer, F: Future<Output = ()> + Send + 'static>(load: Load, make: impl Fn() -> F) {
    let peer = P::start(Some(load.capacity));
    peer.feed(load.tasks, make);
    peer.wait_idle();
    std::mem::forget(peer);
}

fn sleep_on<P: Peer>(load: Load) {
    run_on::<P, _>(load, || P::sleep(NAP));
}

fn sleep_late_on<P: Peer>(load: Load) {
    run_on::<P, _>(load, || async {
        let due = Instant::now() + NAP;
        P::sleep(NAP).await;
        let late = Instant::now().saturating_duration_since(due).as_micros();
        let slot = usize::try_from(late / 10).unwrap_or(usize::MAX);
        LATENESS[slot.min(SLOTS - 1)].fetch_add(1, Relaxed); // Read after the tasks have ended.
    });
}

/// The tasks are submitted by `SUBMITTERS` tasks of the same executor.
fn empty_on<P: Peer, const SUBMITTERS: u32>(load: Load) {
    let peer = P::start(Some(load.capacity));
    let submitters: Vec<_> = (0..SUBMITTERS)
        .map(|_| {
            let same = peer.clone();
            peer.spawn(async move {
                for _ in 0..load.tasks / SUBMITTERS {
                    same.submit(async {}).await;
                }
            })
        })
        .collect();
    for submitter in submitters {
        peer.wait(submitter);
    }
    peer.wait_idle();
    std::mem::forget(peer);
}

/// Tasks by their lateness, in units of 10 us.
static LATENESS: [AtomicU32; SLOTS] = [const { AtomicU32::new(0) }; SLOTS];
const SLOTS: usize = 100_000;

/// The lateness in microseconds that a share of the tasks does not exceed, rounded up to 10 us.
fn lateness(percent: u64) -> f64 {
    let counts = || LATENESS.iter().map(|slot| u64::from(slot.load(Relaxed)));
    let all: u64 = counts().sum();
    let mut seen = 0;
    let slots = counts().take_while(|count| {
        seen += count;
        seen * 100 < all * percent
    });
    let slots = u32::try_from(slots.count() + 1).expect("there are fewer slots");
    f64::from(slots) * 10.0
}

fn find(runners: &[Runner], run: &Run) -> fn(Load) {
    let found = runners.iter().find(|(name, _)| *name == run.pool);
    found.expect("the case lists it").1
}

fn names(runners: &[Runner]) -> Vec<&'static str> {
    runners.iter().map(|(name, _)| *name).collect()
}

fn sleep_case(name: &str, capacity: usize) -> Case {
    let question = "How long do a million sleeps of 10 ms take, with this bound?";
    let run = move |run: &Run| {
        let tasks = run.choose(1_000_000, 1_000_000, 100_000);
        let runner = find(SLEEPS, run);
        let meter = Meter::start();
        runner(Load { tasks, capacity });
        let spent = meter.stop();
        let each = spent.cpu.as_secs_f64() * 1e9 / f64::from(tasks);
        let report = Report::new()
            .with("wall", "ms", spent.wall.as_secs_f64() * 1e3)
            .with("cpu", "ns/task", each);
        Ok(match sleeps() {
            Some(count) => report.with("switches", "", count),
            None => report,
        })
    };
    Case::new(
        format!("sleep/{name}"),
        "Sleeps",
        question,
        &names(SLEEPS),
        run,
    )
}

fn late(run: &Run) -> Outcome {
    let tasks = run.choose(1_000_000, 1_000_000, 100_000);
    find(LATE, run)(Load {
        tasks,
        capacity: 50_000,
    });
    Ok(Report::new()
        .with("p50", "us", lateness(50))
        .with("p99", "us", lateness(99)))
}

fn empty_case(submitters: u32, runners: &'static [Runner]) -> Case {
    let run = move |run: &Run| {
        let tasks = run.choose(1_000_000, 1_000_000, 50_000);
        let meter = Meter::start();
        find(runners, run)(Load {
            tasks,
            capacity: 1_024,
        });
        Ok(Report::new().per_task(meter.stop(), tasks).headline("cpu"))
    };
    Case::new(
        format!("empty/1024/{submitters}"),
        "Empty futures, at most 1,024",
        "What does an empty task cost, submitted by one task and by four?",
        &names(runners),
        run,
    )
}

pub fn cases() -> Vec<Case> {
    let late = Case::new(
        "late/50k".to_owned(),
        "Lateness",
        "How late do a million sleeps of 10 ms end, 50,000 at a time?",
        &names(LATE),
        late,
    );
    vec![
        sleep_case("50k", 50_000).quick(true, QUICK),
        sleep_case("200k", 200_000),
        late.quick(true, QUICK),
        empty_case(1, EMPTY_1).quick(true, QUICK),
        empty_case(4, EMPTY_4).quick(true, QUICK),
    ]
}
