//! What does it cost to grow to a thousand threads and to shrink again?

use std::sync::{Arc, Condvar, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use crate::meter::{Meter, resident_memory, threads};
use crate::peer::{Elastic, ElasticJob};
use crate::peers::{ELASTIC, with_elastic};
use crate::report::Report;
use measure::case::Case;

const THREADS: u32 = 1_000;
const KEEP_ALIVE: Duration = Duration::from_millis(100);

/// How long to wait for threads to end after their keep-alive.
const PATIENCE: Duration = Duration::from_secs(3);

struct UpAndDown;

/// Counts arriving tasks, and holds them until it is opened.
#[derive(Default)]
struct Hold {
    state: Mutex<(u32, bool)>,
    changed: Condvar,
}

impl Hold {
    fn enter(&self) {
        let mut state = self.state.lock().expect("not poisoned");
        state.0 += 1;
        if state.0 == THREADS {
            self.changed.notify_all();
        }
        let open = self.changed.wait_while(state, |state| !state.1);
        drop(open.expect("not poisoned"));
    }

    fn wait_for_all(&self) -> bool {
        let state = self.state.lock().expect("not poisoned");
        let all = self
            .changed
            .wait_timeout_while(state, PATIENCE, |state| state.0 < THREADS);
        !all.expect("not poisoned").1.timed_out()
    }

    fn open(&self) {
        self.state.lock().expect("not poisoned").1 = true;
        self.changed.notify_all();
    }
}

impl ElasticJob for UpAndDown {
    type Out = Result<Report, String>;

    fn run<P: Elastic>(self) -> Self::Out {
        let pool = P::elastic(THREADS, KEEP_ALIVE);
        let had = threads().ok_or("threads are counted on Linux only")?;
        let hold = Arc::new(Hold::default());
        let meter = Meter::start();
        for _ in 0..THREADS {
            let hold = Arc::clone(&hold);
            pool.submit(move || hold.enter());
        }
        if !hold.wait_for_all() {
            return Err("the pool did not start a thread for each of 1,000 tasks".into());
        }
        let grown = meter.stop();
        let peak = resident_memory().unwrap_or(0.0);
        hold.open();
        let freed = Instant::now();
        while threads().unwrap_or(0.0) > had + 0.5 {
            if freed.elapsed() > KEEP_ALIVE + PATIENCE {
                return Err("the threads did not end after their keep-alive".into());
            }
            thread::sleep(Duration::from_millis(1));
        }
        let shrunk = freed.elapsed().saturating_sub(KEEP_ALIVE);
        let all = meter.stop();
        std::mem::forget(pool);
        let each = |time: Duration| time.as_secs_f64() * 1e6 / f64::from(THREADS);
        let left = resident_memory().unwrap_or(0.0) / peak;
        Ok(Report::new()
            .with("grow", "us/thread", each(grown.wall))
            .with("shrink", "us/thread", each(shrunk))
            .with("cpu", "us/thread", each(all.cpu))
            .with("memory_left", "share", left))
    }
}

pub fn cases() -> Vec<Case> {
    vec![Case::new(
        "elastic/1000".into(),
        "Growth and shrink",
        "What does each thread cost when a pool grows from 0 to 1,000 and shrinks again?",
        ELASTIC,
        |run| Ok(with_elastic(&run.pool, UpAndDown)??),
    )]
}
