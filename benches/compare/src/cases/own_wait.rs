//! How long does a round trip take if the caller waits by means of its own?
//!
//! The pool does not see who waits: the task sends to a channel of the caller's, notifies a condition variable, or
//! writes to a pipe.

use std::io::{Read, Write, pipe};
use std::sync::{Arc, Condvar, Mutex, mpsc};
use std::thread;
use std::time::{Duration, Instant};

use measure::case::{Case, Run};

use crate::gate;
use crate::meter::{Meter, sleep_exactly};
use crate::peer::{Job, Peer, Shape};
use crate::peers::{COMMON, QUICK, with};
use crate::percentiles::Percentiles;
use crate::report::Report;
use crate::work::{Pace, steps};

const THREADS: u32 = 4;

/// Submits a task.
type Submit<'a> = &'a dyn Fn(Box<dyn FnOnce() + Send>);

/// Submits a task and waits until it has run.
type Trip = Box<dyn FnMut(Submit)>;

fn channel() -> Trip {
    let (sender, receiver) = mpsc::channel();
    Box::new(move |submit| {
        let sender = sender.clone();
        submit(Box::new(move || sender.send(()).expect("it is awaited")));
        receiver.recv().expect("the task sends");
    })
}

fn condvar() -> Trip {
    let ours = Arc::new((Mutex::new(false), Condvar::new()));
    Box::new(move |submit| {
        let theirs = Arc::clone(&ours);
        submit(Box::new(move || {
            *theirs.0.lock().expect("not poisoned") = true;
            theirs.1.notify_one();
        }));
        let done = ours.0.lock().expect("not poisoned");
        let done = ours.1.wait_while(done, |done| !*done);
        *done.expect("not poisoned") = false;
    })
}

fn oneshot() -> Trip {
    Box::new(|submit| {
        let (sender, receiver) = tokio::sync::oneshot::channel();
        submit(Box::new(|| sender.send(()).expect("it is awaited")));
        receiver.blocking_recv().expect("the task sends");
    })
}

fn file() -> Trip {
    let (mut reader, writer) = pipe().expect("descriptors are left");
    let writer = Arc::new(writer);
    Box::new(move |submit| {
        let writer = Arc::clone(&writer);
        submit(Box::new(move || {
            (&*writer).write_all(&[1]).expect("it is open");
        }));
        reader.read_exact(&mut [0]).expect("the task writes");
    })
}

struct Trips<'a> {
    run: &'a Run,
    way: fn() -> Trip,
    callers: u32,
    /// How many microseconds a caller computes before each trip, in turn.
    gaps: &'static [u64],
}

impl Trips<'_> {
    fn measure<P: Peer>(&self, peer: &P, budget: Duration, gaps: &[u32]) -> Vec<u64> {
        let mut trip = (self.way)();
        let mut gaps = gaps.iter().cycle();
        let mut trips = Vec::with_capacity(1 << 18);
        sleep_exactly();
        let end = Instant::now() + budget;
        while trips.len() < trips.capacity() && Instant::now() < end {
            steps(*gaps.next().expect("it is a cycle"));
            let start = Instant::now();
            trip(&|task| peer.submit(task));
            trips.push(u64::try_from(start.elapsed().as_nanos()).unwrap_or(u64::MAX));
        }
        trips
    }
}

impl Job for Trips<'_> {
    type Out = Report;

    fn run<P: Peer>(self, peer: &'static P) -> Report {
        let pace = Pace::measure(1);
        let steps = |&gap: &u64| pace.steps_of(Duration::from_micros(gap));
        let gaps: Vec<_> = self.gaps.iter().map(steps).collect();
        gate::fill(peer, THREADS);
        let measure = |budget| {
            thread::scope(|scope| {
                let caller = || self.measure(peer, budget, &gaps);
                let callers: Vec<_> = (0..self.callers).map(|_| scope.spawn(caller)).collect();
                let trips = callers.into_iter().map(thread::ScopedJoinHandle::join);
                let trips = trips.flat_map(|trips| trips.expect("no panic"));
                trips.collect::<Vec<_>>()
            })
        };
        measure(self.run.budget() / 4);
        let meter = Meter::start();
        let trips = measure(self.run.budget());
        let cpu = meter.stop().cpu.as_secs_f64() * 1e6
            / f64::from(u32::try_from(trips.len()).expect("few"));
        let report = Report::new().latency(&Percentiles::new(trips));
        report.with("cpu", "us/task", cpu)
    }
}

pub fn cases() -> Vec<Case> {
    let mut cases = Vec::new();
    let mut case = |name: &str, way, callers, gaps: &'static [u64]| {
        let case = Case::new(
            format!("own-wait/{name}/{callers}p"),
            "Round trip, the caller waits by its own means",
            "How long until a caller knows that its task has run, if the task tells it through a channel of its own, \
             a condition variable, a oneshot or a pipe?",
            COMMON,
            move |run| {
                let job = Trips {
                    run,
                    way,
                    callers,
                    gaps,
                };
                with(&run.pool, Shape::unlimited(THREADS), job)
            },
        );
        cases.push(case.quick(name == "channel" && callers == 1, QUICK));
    };
    for callers in [1, 4] {
        case("channel", channel, callers, &[0]);
        case("condvar", condvar, callers, &[0]);
        case("oneshot", oneshot, callers, &[0]);
        case("pipe", file, callers, &[0]);
        case("gaps", channel, callers, &[0, 3, 40, 1, 15, 90, 0, 7]);
    }
    cases
}
