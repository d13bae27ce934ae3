//! What does it cost to hand a task to a free thread if no task may be queued?

use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use crate::cases::empty::Empty;
use crate::count::bump;
use crate::gate;
use crate::mailbox::Mailbox;
use crate::meter::{Meter, sleep_exactly};
use crate::peer::{Job, Peer, Shape};
use crate::peers::{QUICK, RENDEZVOUS, and, with};
use crate::percentiles::Percentiles;
use crate::report::Report;
use crate::stamps::Stamps;
use crate::throughput;
use measure::case::{Case, Outcome, Run};

const MAILBOX: &str = "bare mailbox";

/// Longer than any pool spins or yields before it sleeps.
const PAUSE: Duration = Duration::from_micros(300);

/// A mailbox for each pair of a producer and a thread that can work at the same time. Further
/// threads would only sleep.
fn mailboxes(threads: u32, producers: u32, body: fn()) -> Vec<Arc<Mailbox>> {
    (0..threads.min(producers))
        .map(|_| Mailbox::start(body))
        .collect()
}

/// Submits back to back: the next task arrives while the threads still search.
fn window(run: &Run, threads: u32, producers: u32) -> Outcome {
    if run.pool != MAILBOX {
        let job = Empty {
            run,
            threads,
            producers,
        };
        return with(&run.pool, Shape::bounded(threads, 0), job);
    }
    let mailboxes = mailboxes(threads, producers, bump);
    let next = std::sync::atomic::AtomicUsize::new(0);
    let submit = || {
        thread_local! {
            static MINE: std::cell::OnceCell<usize> = const { std::cell::OnceCell::new() };
        }
        let relaxed = std::sync::atomic::Ordering::Relaxed; // A number of its own, which orders nothing.
        let mine = MINE.with(|mine| *mine.get_or_init(|| next.fetch_add(1, relaxed)));
        mailboxes[mine % mailboxes.len()].send();
    };
    Ok(throughput::measure(producers, run.budget(), submit).report())
}

/// Submits with pauses, in which every thread goes to sleep.
struct Paused<'a> {
    run: &'a Run,
    threads: u32,
    producers: u32,
}

impl Job for Paused<'_> {
    type Out = Report;

    fn run<P: Peer>(self, peer: &'static P) -> Report {
        gate::fill(peer, self.threads);
        self.measure(&|_, stamps| {
            let submitted = Instant::now();
            peer.submit(move || stamps.begin(submitted));
        })
    }
}

impl Paused<'_> {
    fn measure(&self, submit: &(impl Fn(u32, &'static Stamps) + Sync)) -> Report {
        let each = self.run.choose(600, 200, 200) / self.producers;
        let tasks = each * self.producers;
        let stamps = Stamps::of(tasks);
        let meter = Meter::start();
        let calls: Vec<u64> = thread::scope(|scope| {
            let producer = |number| {
                move || {
                    sleep_exactly();
                    let call = |_| {
                        thread::sleep(PAUSE);
                        let start = Instant::now();
                        submit(number, stamps);
                        u64::try_from(start.elapsed().as_nanos()).unwrap_or(u64::MAX)
                    };
                    (0..each).map(call).collect::<Vec<_>>()
                }
            };
            let producers: Vec<_> = (0..self.producers)
                .map(|number| scope.spawn(producer(number)))
                .collect();
            let calls = producers.into_iter().map(thread::ScopedJoinHandle::join);
            calls
                .flat_map(|calls| calls.expect("submits do not panic"))
                .collect()
        });
        let delays = stamps.wait(stamps.room());
        let cpu = meter.stop().cpu.as_secs_f64() * 1e9 / f64::from(tasks);
        Report::new()
            .latency(&delays)
            .with("call", "us", Percentiles::new(calls).micros(0.5))
            .with("cpu", "ns/task", cpu)
    }
}

fn paused(run: &Run, threads: u32, producers: u32) -> Outcome {
    let job = Paused {
        run,
        threads,
        producers,
    };
    if run.pool != MAILBOX {
        return with(&run.pool, Shape::bounded(threads, 0), job);
    }
    // The word cannot contain the time of the send, so each producer has its own mailbox.
    let boxes: Vec<_> = (0..producers).map(|_| Stamped::start()).collect();
    Ok(job.measure(&|number, stamps| boxes[number as usize].send(stamps)))
}

/// A mailbox with the time of the last send.
struct Stamped {
    mailbox: Arc<Mailbox>,
    letter: Arc<std::sync::Mutex<Option<(Instant, &'static Stamps)>>>,
}

impl Stamped {
    fn start() -> Self {
        let letter = Arc::new(std::sync::Mutex::new(None));
        let mine: Arc<std::sync::Mutex<Option<(Instant, &Stamps)>>> = Arc::clone(&letter);
        let mailbox = Mailbox::start(move || {
            let letter = mine.lock().expect("not poisoned").take();
            if let Some((sent, stamps)) = letter {
                stamps.begin(sent);
            }
        });
        Self { mailbox, letter }
    }

    /// Must not be called by several threads at once, because the last stamp would be read twice.
    fn send(&self, stamps: &'static Stamps) {
        let letter = Some((Instant::now(), stamps));
        // No other thread holds this lock now, so it costs as much as the stamp of a task.
        self.mailbox
            .send_with(|| *self.letter.lock().expect("not poisoned") = letter);
    }
}

pub fn cases() -> Vec<Case> {
    let pools = and(RENDEZVOUS, MAILBOX);
    let mut cases = Vec::new();
    for threads in [2, 4, 1000] {
        for producers in [1, 4, 16] {
            let case = Case::new(
                format!("handoff/window/{threads}w/{producers}p"),
                "Hand-off, back to back",
                "What does a hand-off cost while threads and submitters still spin (depth 0)?",
                &pools,
                move |run| window(run, threads, producers),
            );
            cases.push(case.quick(threads != 4 && producers == 1, QUICK));
        }
    }
    for threads in [2, 4, 1000] {
        for producers in [1, 4] {
            let case = Case::new(
                format!("handoff/paused/{threads}w/{producers}p"),
                "Hand-off, after a pause",
                "How long after its submit does a task start if every thread sleeps (depth 0)?",
                &pools,
                move |run| paused(run, threads, producers),
            );
            let quick = threads == 2 && producers == 1;
            cases.push(case.quick(quick, QUICK));
        }
    }
    cases
}
