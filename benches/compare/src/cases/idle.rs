//! What does an idle pool cost?

use std::thread;
use std::time::Duration;

use crate::gate;
use crate::meter::{Meter, own_time, resident_memory, sleeps, threads};
use crate::peer::{Elastic, ElasticJob, Job, Peer, Shape};
use crate::peers::{COMMON, QUICK, with, with_elastic, without};
use crate::report::Report;
use measure::case::{Case, Outcome, Run};

/// Threads that were busy shortly before.
struct Quiet<'a>(&'a Run);

const QUIET_THREADS: u32 = 16;

impl Job for Quiet<'_> {
    type Out = Report;

    fn run<P: Peer>(self, peer: &'static P) -> Report {
        gate::fill(peer, QUIET_THREADS);
        // Time for threads to stop spinning. The other pools of this case run at the same time.
        thread::sleep(Duration::from_millis(500));
        let time = Duration::from_millis(u64::from(self.0.choose(10_000, 10_000, 400)));
        // Read outside of the section, because reading files of the kernel costs more than a pool.
        let before = sleeps();
        let own = own_time();
        let meter = Meter::start();
        thread::sleep(time);
        let spent = meter.stop();
        let own = own_time().saturating_sub(own);
        let after = sleeps();
        let per_second = |value: f64| value / time.as_secs_f64();
        // Minus the time that this thread took to sleep and to wake up. It is read before the first
        // and after the second reading, so that the few microseconds in between are not attributed
        // to the pool.
        let cpu = per_second(spent.cpu.saturating_sub(own).as_secs_f64() * 1e6);
        let report = Report::new().with("cpu", "us/s", cpu);
        match after.zip(before) {
            // Minus the sleep of this thread. Threads that have ended are not counted.
            Some((after, before)) => report.with(
                "wake-ups",
                "per s",
                per_second((after - before - 1.0).max(0.0)),
            ),
            None => report,
        }
    }
}

/// Longer than any part of this case.
const KEEP_ALIVE: Duration = Duration::from_mins(1);

impl ElasticJob for Quiet<'_> {
    type Out = Report;

    fn run<P: Elastic>(self) -> Report {
        Job::run(
            self,
            &*Box::leak(Box::new(P::elastic(QUIET_THREADS, KEEP_ALIVE))),
        )
    }
}

/// Pools whose idle threads would end within the ten seconds are configured to keep them, because
/// this case does not measure the end of a thread.
fn quiet(run: &Run) -> Outcome {
    match run.pool.as_str() {
        "anthill" | "tokio spawn_blocking" => with_elastic(&run.pool, Quiet(run)),
        pool => with(pool, Shape::unlimited(QUIET_THREADS), Quiet(run)),
    }
}

/// Many sleeping threads, and the resident memory before the pool was built.
struct Resident {
    before: Option<f64>,
}

const RESIDENT_THREADS: u32 = 1_000;

impl Job for Resident {
    type Out = Option<Report>;

    fn run<P: Peer>(self, peer: &'static P) -> Option<Report> {
        let meter = Meter::start();
        gate::fill(peer, RESIDENT_THREADS);
        let spent = meter.stop();
        // All threads, because some pools have more than configured. Minus this one.
        let workers = threads()? - 1.0;
        let each = (resident_memory()? - self.before?) / 1024.0 / workers;
        Some(
            Report::new()
                .with("resident", "KiB/worker", each)
                .cpu(spent),
        )
    }
}

pub fn cases() -> Vec<Case> {
    let quiet = Case::new(
        "idle/quiet".into(),
        "An idle pool",
        "How much processor time do 16 idle workers use, and how often do they wake up?",
        COMMON,
        quiet,
    );
    let resident = Case::new(
        "idle/memory".into(),
        "An idle worker's memory",
        "How much resident memory does each of 1,000 idle workers use?",
        COMMON,
        |run| {
            let before = resident_memory();
            let shape = Shape::unlimited(RESIDENT_THREADS);
            let report = with(&run.pool, shape, Resident { before })?;
            report.ok_or_else(|| "the memory of a process can be read on Linux only".into())
        },
    );
    // A thousand threads of rayon search for seconds before they sleep.
    let few = without(QUICK, &["rayon"]);
    let quiet = quiet.quick(true, QUICK).together();
    vec![quiet, resident.quick(true, &few)]
}
