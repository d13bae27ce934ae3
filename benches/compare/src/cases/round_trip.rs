//! How long does it take to run a task and to get its value?

use std::thread;
use std::time::{Duration, Instant};

use crate::gate;
use crate::meter::{Meter, sleep_exactly};
use crate::peer::{Job, Peer, Shape};
use crate::peers::{ALL, QUICK, with, without};
use crate::percentiles::Percentiles;
use crate::report::Report;
use measure::case::{Case, Run};

const THREADS: u32 = 2;

struct Ask<'a> {
    run: &'a Run,
    pause: Option<Duration>,
}

impl Job for Ask<'_> {
    type Out = Report;

    fn run<P: Peer>(self, peer: &'static P) -> Report {
        gate::fill(peer, THREADS);
        sleep_exactly();
        let most = match self.pause {
            Some(_) => self.run.choose(800, 200, 200),
            None => 400_000,
        };
        let ask = || {
            if let Some(pause) = self.pause {
                thread::sleep(pause);
            }
            let start = Instant::now();
            assert_eq!(peer.ask(|| std::hint::black_box(7)), 7);
            u64::try_from(start.elapsed().as_nanos()).unwrap_or(u64::MAX)
        };
        let warm = self.run.choose(100, 20, 100);
        (0..warm).for_each(|_| _ = ask());
        let meter = Meter::start();
        let end = Instant::now() + self.run.budget();
        let mut trips = Vec::with_capacity(most as usize);
        // With pauses, limited by the number of trips; without, by time.
        while trips.len() < most as usize && (self.pause.is_some() || Instant::now() < end) {
            trips.push(ask());
        }
        let count = u32::try_from(trips.len()).expect("at most `most`");
        let cpu = meter.stop().cpu.as_secs_f64() * 1e6 / f64::from(count);
        let trips = Percentiles::new(trips);
        Report::new().latency(&trips).with("cpu", "us/task", cpu)
    }
}

pub fn cases() -> Vec<Case> {
    let case = |name: &str, pools: &[&'static str], question, pause| {
        Case::new(
            format!("round-trip/{name}"),
            "Round trip",
            question,
            pools,
            move |run| with(&run.pool, Shape::unlimited(THREADS), Ask { run, pause }),
        )
        .quick(true, QUICK)
    };
    let question =
        "How long does it take to spawn a task and get its value: back to back, and after a pause?";
    let pause = Duration::from_micros(300);
    vec![
        case("window", ALL, question, None),
        case(
            "paused",
            &without(ALL, &["thread per task"]),
            question,
            Some(pause),
        ),
    ]
}
