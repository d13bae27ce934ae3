//! A process that will be killed: it pushes and runs jobs, and writes each event to its diary as soon as it
//! is certain.

use std::fs::{File, OpenOptions};
use std::io::Write;
use std::path::Path;
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, SystemTime};

use durable_queue::{
    CarriedOut, DurableQueue, Payload, SettleError, Store, StoreError, StoreTime, When,
};
use durable_queue_tests::support::Text;
use testkit::Rng;

use crate::place::Role;

/// The first argument of such a process.
pub(crate) const MODE: &str = "work-until-killed";
pub(crate) const QUEUE: &str = "crash";
/// The key of the job that repeats every second.
pub(crate) const TICK: &str = "tick";
/// Marks starts of processes that do not confirm.
pub(crate) const UNASKED: &str = " unasked";
/// While this file exists, no jobs are pushed.
pub(crate) const QUIET: &str = "quiet";

/// Short, so that jobs of dead processes are handed out often.
pub(crate) const LEASE: Duration = Duration::from_millis(400);
const HORIZON: Duration = Duration::from_millis(100);
const TAKERS: u64 = 2;
/// Maximum delay of a job and duration of a handler. Some handlers outlive their leases, because the
/// heartbeat is off.
const DELAY: usize = 200;
const WORK: usize = 30;
/// One of this many batches is urgent.
const URGENT: usize = 4;
/// Maximum time between two pushes. Handlers are faster on average.
const PUSH_EVERY: usize = 150;

pub(crate) type Queue<S> = DurableQueue<String, S>;

/// `confirms`: whether takes confirm their starts.
pub(crate) fn open<S: Store>(store: S, confirms: bool) -> Queue<S> {
    let queue = Queue::builder(QUEUE, store).horizon(HORIZON).lease(LEASE);
    queue
        .heartbeat(false)
        .confirm(confirms)
        .max_attempts(u32::MAX)
        .build()
        .unwrap()
}

/// Writes whole lines, each with one system call, so that a kill leaves no partial line.
#[derive(Clone)]
pub(crate) struct Diary(Arc<Mutex<File>>);

impl Diary {
    /// Opens the diary of the process with this name.
    pub(crate) fn of(folder: &Path, name: &str) -> Self {
        let mut file = OpenOptions::new();
        let file = file.create(true).append(true);
        let file = file.open(folder.join(format!("{name}.diary"))).unwrap();
        Self(Arc::new(Mutex::new(file)))
    }

    pub(crate) fn write(&self, line: &str) {
        let line = format!("{line}\n");
        self.0.lock().unwrap().write_all(line.as_bytes()).unwrap();
    }
}

pub(crate) fn now() -> i64 {
    StoreTime::from(SystemTime::now()).as_micros()
}

/// The role of a process that works until it is killed.
pub(crate) struct Work<'a> {
    pub(crate) folder: &'a Path,
    /// Name of the process.
    pub(crate) name: &'a str,
    pub(crate) seed: u64,
}

impl Role for Work<'_> {
    fn play<S: Store + Clone>(self, store: S) {
        let Self { folder, name, seed } = self;
        let diary = Diary::of(folder, name);
        let mut rng = Rng::new(seed);
        let confirms = rng.chance(2);
        let queue = open(store, confirms);
        work(folder, &queue, &diary, rng, confirms);
    }
}

fn work<S: Store>(folder: &Path, queue: &Queue<S>, diary: &Diary, mut rng: Rng, confirms: bool) {
    let schedule = "* * * * * *".parse().unwrap();
    while let Err(failed) = queue.push_repeating(TICK, &schedule, TICK.to_owned()) {
        assert!(may_be_done(&failed.error), "{failed}");
    }
    let takers: Vec<_> = (0..TAKERS)
        .map(|taker| {
            let (queue, diary, rng) = (queue.clone(), diary.clone(), rng.split());
            thread::spawn(move || match taker {
                0 => take(&queue.kind::<Text>(), &diary, rng, confirms),
                _ => take(&queue, &diary, rng, confirms),
            })
        })
        .collect();
    while !folder.join(QUIET).exists() {
        let jobs = (0..=rng.below(5)).map(|_| {
            let delay = Duration::from_millis(rng.below(DELAY) as u64);
            // A job due now is due no earlier than this, because the store uses the same clock.
            (
                (now() + i64::try_from(delay.as_micros()).unwrap()).to_string(),
                delay.into(),
            )
        });
        let jobs: Vec<(String, When)> = jobs.collect();
        let queue = if rng.chance(URGENT) {
            queue.urgent()
        } else {
            queue.clone()
        };
        let pushed = if rng.chance(2) {
            let texts = jobs.into_iter().map(|(text, when)| (Text(text), when));
            let pushed = queue.kind().push_batch(texts.collect());
            pushed.map_err(|failed| failed.error)
        } else {
            queue.push_batch(jobs).map_err(|failed| failed.error)
        };
        match pushed {
            Ok(ids) => {
                for id in ids {
                    diary.write(&format!("pushed {id}"));
                }
            }
            Err(error) => assert!(may_be_done(&error), "{error}"),
        }
        pause(rng.below(PUSH_EVERY));
    }
    for taker in takers {
        taker.join().unwrap();
    }
}

/// After a stop, a process may continue without the response to its last call, because the Redis client does
/// not wait for it any longer.
fn may_be_done(error: &StoreError) -> bool {
    error.carried_out() == CarriedOut::Perhaps
}

fn take<S: Store, T: Payload + AsRef<str>>(
    queue: &DurableQueue<T, S>,
    diary: &Diary,
    mut rng: Rng,
    confirms: bool,
) {
    loop {
        let job = queue.take().unwrap();
        let (id, attempt) = (job.id(), job.attempt());
        if job.as_ref() == TICK {
            assert!(now() >= job.due().as_micros(), "a tick is early");
            job.ack().ok();
            continue;
        }
        // The time intended by the push, and that of the store.
        let due: i64 = job.as_ref().parse().unwrap();
        let now = now();
        let early = due.max(job.due().as_micros()) - now;
        let early = if early > 0 { " early" } else { "" };
        let unasked = if confirms { "" } else { UNASKED };
        diary.write(&format!("started {id} {attempt} {now}{early}{unasked}"));
        pause(rng.below(WORK));
        match job.ack() {
            Ok(()) => diary.write(&format!("acked {id} {attempt}")),
            Err(SettleError::Stale) => diary.write(&format!("stale {id} {attempt}")),
            Err(error) => diary.write(&format!("unknown {id} {attempt} {error}")),
        }
    }
}

#[expect(
    clippy::disallowed_methods,
    reason = "the work is to take time, in which the process may be killed"
)]
pub(crate) fn pause(millis: usize) {
    thread::sleep(Duration::from_millis(millis as u64));
}
