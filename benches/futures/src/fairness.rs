//! Cases in which tasks occupy the workers: how long do other tasks, timers and callers wait?

use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use std::thread;
use std::time::{Duration, Instant};

use measure::case::{Case, Outcome, Run};
use measure::percentiles::Percentiles;
use measure::report::Report;

use crate::peer::Peer;
use crate::peers::{Ours, Smol, Tokio};

const NAMES: &[&str] = &["ours", "tokio", "async-executor"];
const POLL: Duration = Duration::from_millis(1);
const BURNERS: u32 = 100;

fn burn() {
    let begin = Instant::now();
    while begin.elapsed() < POLL {
        std::hint::spin_loop();
    }
}

/// Starts tasks that burn a poll's time, and yield, for as long as the process runs.
fn occupy<P: Peer>(peer: &P, tasks: u32) {
    for _ in 0..tasks {
        drop(peer.spawn(async {
            loop {
                burn();
                P::yield_now().await;
            }
        }));
    }
    thread::sleep(Duration::from_millis(100));
}

fn nanos(time: Duration) -> u64 {
    u64::try_from(time.as_nanos()).unwrap_or(u64::MAX)
}

fn report(times: Vec<u64>) -> Outcome {
    Ok(Report::new().latency(&Percentiles::new(times)))
}

/// From a thread's spawn of an empty task to its value.
fn spawn<P: Peer>(run: &Run) -> Outcome {
    let peer = P::start(None);
    occupy(&peer, BURNERS);
    let times = (0..run.choose(300, 300, 3)).map(|_| {
        let begin = Instant::now();
        peer.wait(peer.spawn(async {}));
        nanos(begin.elapsed())
    });
    let times = times.collect();
    std::mem::forget(peer);
    report(times)
}

/// How late sleeps end. Returns the lateness of each.
async fn naps<P: Peer>(count: u32, nap: Duration) -> Vec<u64> {
    let mut late = Vec::new();
    for _ in 0..count {
        let due = Instant::now() + nap;
        P::sleep(nap).await;
        late.push(nanos(due.elapsed()));
    }
    late
}

fn timers<P: Peer>(run: &Run) -> Outcome {
    let peer = P::start(None);
    occupy(&peer, BURNERS);
    let each = run.choose(50, 50, 1);
    let sleepers: Vec<_> = (0..20)
        .map(|n| peer.spawn(naps::<P>(each, Duration::from_millis(10 + n))))
        .collect();
    let late = sleepers.into_iter().flat_map(|sleeper| peer.wait(sleeper));
    let late = late.collect();
    std::mem::forget(peer);
    report(late)
}

/// From the drop of a future to the return of a submit that waits for its room.
fn room<P: Peer>(run: &Run) -> Outcome {
    static DROPPED: AtomicU64 = AtomicU64::new(0);
    let epoch = Instant::now();
    let peer = P::start(Some(BURNERS as usize));
    let ends = || async move {
        for _ in 0..2 {
            burn();
            P::yield_now().await;
        }
        DROPPED.store(nanos(epoch.elapsed()), SeqCst);
    };
    peer.feed(BURNERS - 1, || async {
        loop {
            burn();
            P::yield_now().await;
        }
    });
    let times = (0..run.choose(30, 30, 2)).map(|_| {
        peer.feed(1, ends);
        // Waits for the room of the one before.
        peer.feed(1, ends);
        nanos(epoch.elapsed()).saturating_sub(DROPPED.load(SeqCst))
    });
    let times = times.collect();
    std::mem::forget(peer);
    report(times)
}

/// How late timers are whose worker does not return from a poll, while the other worker is busy.
fn stuck<P: Peer>(run: &Run) -> Outcome {
    let peer = P::start(None);
    let sleepers: Vec<_> = (0..50)
        .map(|n| peer.spawn(naps::<P>(1, Duration::from_millis(200 + 10 * n))))
        .collect();
    occupy(&peer, 10);
    let time = Duration::from_millis(u64::from(run.choose(2_000, 2_000, 20)));
    drop(peer.spawn(async move { thread::sleep(time) }));
    let late = sleepers.into_iter().flat_map(|sleeper| peer.wait(sleeper));
    let late = late.collect();
    std::mem::forget(peer);
    report(late)
}

/// A case of a function that is generic over the executor.
macro_rules! case {
    ($name:literal, $question:literal, $run:ident) => {
        Case::new(
            concat!("fairness/", $name).to_owned(),
            "Fairness",
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
            "spawn",
            "100 tasks burn 1 ms per poll: how long does a thread's empty task take?",
            spawn
        ),
        case!(
            "timers",
            "100 tasks burn 1 ms per poll: how late do 1,000 sleeps of 10 to 30 ms end?",
            timers
        ),
        case!(
            "room",
            "The same, and the pool is full: when does a caller get the room of a future that was dropped?",
            room
        ),
        case!(
            "stuck",
            "A poll blocks for 2 s, and the other worker is busy: how late are 50 timers?",
            stuck
        ),
    ]
}
