//! The parties, their clock and their store.

use std::cell::Cell;
use std::num::{NonZeroU32, NonZeroUsize};
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::thread;
use std::time::Duration;

use durable_queue::{
    Cancelled, Claimed, DurableQueue, Limit, Retried, SettleError, StoreTime, TakeError,
};
use durable_queue_testing::{Call, Fault, SimStore};
use testkit::{Rng, block_on};

use super::ledger::{Holding, Ledger};
use super::program::{Fate, Program, REPEATING};
use crate::support::{SECOND, Time};

pub(super) type Queue = DurableQueue<String, SimStore>;

/// A lease longer than a run, except when everything else is done.
pub(super) const FOR_EVER: Duration = Duration::from_secs(10_000_000);
/// A lease that expires during many handlers.
const SHORT: Duration = Duration::from_secs(3);
/// Maximum step of time.
const STEP: Duration = Duration::from_millis(400);
/// Number of steps without progress before leases are allowed to expire.
const STILL: u32 = 300;
/// More steps than a run needs.
const MOST_STEPS: u32 = 300_000;

#[derive(Clone, Debug)]
pub(super) struct Process {
    confirm: bool,
    lease: Duration,
    takers: usize,
    prefetch: usize,
    limited: bool,
}

#[derive(Debug)]
pub(super) struct Setup {
    pub(super) processes: Vec<Process>,
    pub(super) max_attempts: u32,
    pub(super) ordered: bool,
}

pub(super) struct World {
    time: Time,
    pub(super) ledger: Ledger,
    faults: Arc<Faults>,
    pub(super) parties: Vec<(Process, Queue)>,
    pub(super) numbers: AtomicU64,
    /// Held while a key is pushed, so that pushes of a key are in the order of their numbers.
    pub(super) keys: Mutex<()>,
}

/// Injected faults.
struct Faults {
    calm: AtomicBool,
    /// Number of turns carried out twice. The second response may deny that a settle was carried out.
    twice: AtomicU64,
}

thread_local! {
    /// Fault of this thread's last call.
    pub(super) static LAST: Cell<Fault> = const { Cell::new(Fault::None) };
    /// Number of this thread's pushes that were carried out twice.
    pub(super) static DOUBLED: Cell<u64> = const { Cell::new(0) };
}

impl Process {
    pub(super) fn new(confirm: bool, lease: Duration, takers: usize) -> Self {
        Self {
            confirm,
            lease,
            takers,
            prefetch: 0,
            limited: false,
        }
    }
}

impl Setup {
    pub(super) fn random(rng: &mut Rng) -> Self {
        let process = |takers| Process {
            confirm: !rng.chance(3),
            lease: if rng.chance(3) { SHORT } else { FOR_EVER },
            takers,
            prefetch: rng.below(3),
            limited: rng.chance(5),
        };
        Self {
            processes: [2, 1, 1].map(process).into(),
            max_attempts: 2 + u32::try_from(rng.below(4)).unwrap(),
            ordered: rng.chance(2),
        }
    }

    pub(super) fn leases_last(&self) -> bool {
        self.processes.iter().all(|it| it.lease == FOR_EVER)
    }
}

impl World {
    pub(super) fn new(setup: &Setup, plan: impl FnMut(Call) -> Fault + Send + 'static) -> Self {
        let time = Time::new();
        let ledger = Ledger::new(&time.store, setup);
        let faults = Arc::new(Faults {
            calm: AtomicBool::new(false),
            twice: AtomicU64::new(0),
        });
        let store = {
            let (faults, doubles) = (Arc::clone(&faults), ledger.doubling());
            let plan = Mutex::new(plan);
            SimStore::with_faults(time.store.clone(), move |call| {
                let fault = if faults.calm.load(SeqCst) {
                    Fault::None
                } else {
                    (plan.lock().unwrap())(call)
                };
                match (call, fault) {
                    (Call::Enqueue, Fault::Twice) => {
                        doubles.store(true, SeqCst);
                        DOUBLED.set(DOUBLED.get() + 1);
                    }
                    (Call::Turn, Fault::Twice) => _ = faults.twice.fetch_add(1, SeqCst),
                    _ => {}
                }
                LAST.set(fault);
                fault
            })
        };
        let parties = setup.processes.iter().map(|process| {
            let mut builder = time
                .builder(store.clone())
                .confirm(process.confirm)
                .lease(process.lease)
                .prefetch(process.prefetch)
                .max_attempts(setup.max_attempts);
            if process.limited {
                builder = builder.rate(SECOND / 5, NonZeroU32::new(2).unwrap());
            }
            (process.clone(), builder.build().unwrap())
        });
        let parties: Vec<(Process, Queue)> = parties.collect();
        while setup.ordered && parties[0].1.limit(&Limit::ordered()).is_err() {}
        Self {
            parties,
            time,
            ledger,
            faults,
            numbers: AtomicU64::new(0),
            keys: Mutex::new(()),
        }
    }

    /// Returns the violations.
    pub(super) fn run(self, programs: Vec<Program>, mut rng: Rng) -> Vec<String> {
        thread::scope(|scope| {
            let mut takers = Vec::new();
            for (process, queue) in &self.parties {
                for _ in 0..process.takers {
                    let rng = rng.split();
                    takers.push(scope.spawn(|| self.take(process, queue, rng)));
                }
            }
            let clients: Vec<_> = programs
                .into_iter()
                .map(|program| scope.spawn(|| self.put_in(program)))
                .collect();
            while clients.iter().any(|client| !client.is_finished()) {
                self.step(&mut rng);
            }
            self.faults.calm.store(true, SeqCst);
            self.drain(&mut rng);
            for (_, queue) in &self.parties {
                queue.close();
            }
            // A pump may pause after an earlier error, with a settle that a taker waits for.
            while takers.iter().any(|taker| !taker.is_finished()) {
                self.step(&mut rng);
            }
        });
        let queue = &self.parties[0].1;
        self.ledger.judge(&queue.dead(None, 1_000).unwrap())
    }

    /// Moves time, rarely while a handler works.
    fn step(&self, rng: &mut Rng) {
        let is_idle = self.time.clock.sleepers() > 0 && !self.ledger.is_any_held();
        if is_idle || rng.chance(8) {
            let step = STEP.mul_f64(f64::from(u32::try_from(rng.below(101)).unwrap()) / 100.0);
            self.time.clock.advance(step);
        }
        thread::yield_now();
    }

    /// Ends the faults, and runs all remaining jobs.
    fn drain(&self, rng: &mut Rng) {
        let queue = &self.parties[0].1;
        queue.pause(false).unwrap();
        for key in 0..REPEATING {
            self.ledger.must_repeat(&lineage('r', key), || {
                let key = lineage('r', key);
                !matches!(queue.cancel(&*key).unwrap(), Cancelled::Never)
            });
        }
        let (mut still, mut steps) = (0, 0);
        while queue.store_stats().unwrap().jobs > 0 {
            for key in 0..REPEATING {
                // A pending job may exist in addition to a running one.
                drop(queue.cancel(&*lineage('r', key)).unwrap());
            }
            self.step(rng);
            // A batch that was claimed twice has no known holder, and is handed out when its lease expires.
            // Nothing else waits for that.
            let far = self.ledger.now().after(FOR_EVER / 2);
            let listed = queue.list(None, 1).unwrap();
            let is_far = listed.iter().all(|job| job.due > far);
            if is_far && self.faults.twice.load(SeqCst) > 0 && !self.ledger.is_any_held() {
                still += 1;
            } else {
                still = 0;
            }
            steps += 1;
            if steps > MOST_STEPS {
                let (listed, held) = (queue.list(None, 100).unwrap(), self.ledger.held());
                return self
                    .ledger
                    .fault(format!("this does not end: {listed:#?}, held: {held:#?}"));
            }
            if still > STILL {
                self.ledger.leases_end();
                self.time.clock.advance(FOR_EVER);
                still = 0;
            }
        }
    }

    fn take(&self, process: &Process, queue: &Queue, mut rng: Rng) {
        let most = NonZeroUsize::new(3).unwrap();
        let mut done: Vec<Claimed<String>> = Vec::new();
        loop {
            let how = if done.is_empty() { rng.below(4) } else { 4 };
            let taken = match how {
                0 => queue.take().map(|job| vec![job]),
                1 => queue.take_timeout(SECOND).map(|job| vec![job]),
                2 => block_on(queue.take_async()).map(|job| vec![job]),
                3 => queue.take_many(most),
                _ => queue.ack_and_take_many(std::mem::take(&mut done), most),
            };
            let jobs = match taken {
                Ok(jobs) => jobs,
                Err(TakeError::TimedOut) => continue,
                Err(TakeError::ShutDown) => return,
                Err(error) => return self.ledger.fault(error.to_string()),
            };
            let lasts = process.confirm && process.lease == FOR_EVER;
            let started: Vec<_> = jobs
                .into_iter()
                .map(|job| (self.ledger.started(&job, lasts, process.confirm), job))
                .collect();
            for (holding, job) in started {
                done.extend(self.handle(&holding, job, lasts));
            }
        }
    }

    /// Returns the job if it is to be acknowledged with the next call.
    fn handle(
        &self,
        holding: &Holding,
        job: Claimed<String>,
        lasts: bool,
    ) -> Option<Claimed<String>> {
        let fate = Fate::of(job.split(' ').nth(2).unwrap());
        // A released job is at its first attempt again.
        let is_again = self.ledger.was_given_back(holding.id);
        let fate = match fate {
            // One such job uses up its attempts, the others succeed at the second.
            Fate::Retry | Fate::RetryAt | Fate::Panic if holding.number.is_multiple_of(3) => fate,
            fate if holding.attempt > 1 || fate == Fate::Drop && is_again => Fate::Ack,
            fate => fate,
        };
        let ledger = &self.ledger;
        let last = format!("attempt {}", holding.attempt);
        let twice = self.faults.twice.load(SeqCst);
        let is_told = |settled: Result<(), SettleError>| {
            let Err(error) = settled else { return true };
            let doubled = self.faults.twice.load(SeqCst) > twice;
            if !matches!(error, SettleError::Unknown) && !doubled {
                ledger.lost(holding, lasts, &error);
            }
            false
        };
        match fate {
            Fate::Ack | Fate::ExtendAndAck | Fate::WaitAndAck => {
                if fate == Fate::ExtendAndAck {
                    is_told(job.extend(if lasts { FOR_EVER } else { SHORT * 2 }));
                }
                if fate == Fate::WaitAndAck {
                    let until = ledger.now().after(SECOND);
                    self.wait(until, || job.is_lost());
                }
                ledger.settles(holding);
                let acked = job.ack();
                let is_perhaps = acked.is_err();
                if is_told(acked) {
                    ledger.acked(holding);
                } else if is_perhaps {
                    ledger.perhaps_over(holding.id);
                }
            }
            Fate::AckLater => {
                ledger.settles(holding);
                ledger.perhaps_over(holding.id);
                job.ack_later();
            }
            Fate::AckWithNext => {
                ledger.settles(holding);
                ledger.perhaps_over(holding.id);
                return Some(job);
            }
            Fate::Retry | Fate::RetryAt => {
                ledger.fails(holding, &last);
                let retried = if fate == Fate::Retry {
                    ledger.may_be_due_from(&holding.lineage, ledger.now().after(SECOND));
                    job.retry(last)
                } else {
                    job.retry_after(self.at(&holding.lineage, SECOND * 2), last)
                };
                let is_buried = matches!(retried, Ok(Retried::Buried));
                if is_told(retried.map(|_| ())) && is_buried {
                    ledger.buried(holding);
                }
            }
            Fate::Bury => {
                let reason = format!("{} has no use", holding.number);
                ledger.may_be_buried(holding, &reason);
                if is_told(job.bury(reason)) {
                    ledger.buried(holding);
                }
            }
            Fate::Drop => {
                ledger.gives_back(holding);
                if holding.number.is_multiple_of(2) {
                    drop(job.release_async());
                } else {
                    // Released if the queue is closed; otherwise a failed attempt.
                    ledger.may_be_due_from(&holding.lineage, ledger.now().after(SECOND));
                    ledger.fails(holding, "the job was dropped without being settled");
                    drop(job);
                }
            }
            Fate::Panic => {
                ledger.may_be_due_from(&holding.lineage, ledger.now().after(SECOND));
                ledger.fails(holding, "the handler panicked");
                let unwound = catch_unwind(AssertUnwindSafe(|| {
                    let _job = job;
                    resume_unwind(Box::new(()));
                }));
                assert!(unwound.is_err());
            }
        }
        None
    }

    pub(super) fn wait(&self, until: StoreTime, is_over: impl Fn() -> bool) {
        while self.ledger.now() < until && !is_over() {
            thread::yield_now();
        }
    }
}

pub(super) fn lineage(sort: char, number: usize) -> String {
    format!("{sort}{number}")
}
