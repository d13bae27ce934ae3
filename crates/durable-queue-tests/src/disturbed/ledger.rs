//! What all parties saw, and what must hold of it: the oracle.
//!
//! Each thing is noted as soon as it is known. What contradicts the promises is a fault, and the run ends.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Mutex;
use std::time::{Duration, Instant, SystemTime};

use durable_queue::{Claimed, JobId, SettleError, Store, StoreTime};
use testkit::Rng;

use super::plan::Disturbing;

#[derive(Default)]
pub(crate) struct Ledger(Mutex<Known>);

#[derive(Default)]
struct Known {
    /// What was pushed, by its number, which is in its payload.
    pushed: BTreeMap<u64, Pushed>,
    /// What a push was answered with, or what was started.
    jobs: BTreeMap<JobId, Job>,
    /// Jobs that have come to no end, as far as is known.
    open: BTreeSet<JobId>,
    faults: Vec<String>,
    starts: u64,
    stale: u64,
    unknown: u64,
    /// How long after an outage each process had settled a job.
    back: Vec<Duration>,
}

#[derive(Default)]
struct Pushed {
    /// So many jobs it may be: one for each try that was, or may have been, carried out.
    copies: usize,
    jobs: BTreeSet<JobId>,
}

#[derive(Default)]
struct Job {
    attempts: BTreeSet<u32>,
    /// The attempt that was acknowledged.
    acked: Option<u32>,
    /// How many attempts were begun before a cancel won.
    gone: Option<u32>,
    /// So many cancels are under way, or had no answer.
    cancels: u32,
    buried: bool,
    perhaps_buried: bool,
}

pub(crate) fn now() -> StoreTime {
    StoreTime::from(SystemTime::now())
}

impl Ledger {
    pub(crate) fn fault(&self, text: String) {
        self.0.lock().unwrap().fault(text);
    }

    pub(crate) fn has_fault(&self) -> bool {
        !self.0.lock().unwrap().faults.is_empty()
    }

    /// How many jobs have come to no end.
    pub(crate) fn open(&self) -> usize {
        self.0.lock().unwrap().open.len()
    }

    pub(crate) fn one_of_the_open(&self, rng: &mut Rng) -> Option<JobId> {
        let known = self.0.lock().unwrap();
        let index = rng.below(known.open.len().max(1));
        known.open.iter().nth(index).copied()
    }

    /// A push, before it is tried: it may enter so many jobs in all.
    pub(crate) fn push(&self, number: u64, copies: usize) {
        let known = &mut *self.0.lock().unwrap();
        known.pushed.entry(number).or_default().copies = copies;
    }

    /// A push was answered for.
    pub(crate) fn pushed(&self, number: u64, id: JobId) {
        let known = &mut *self.0.lock().unwrap();
        if known.is_job_of(number, id) {
            known.open.insert(id);
        }
    }

    /// Says which attempt this is.
    pub(crate) fn started(&self, job: &Claimed<String>) -> (JobId, u32) {
        let (id, attempt, now) = (job.id(), job.attempt(), now());
        let mut words = job.split(' ').map(|word| word.parse::<i64>().unwrap());
        let number = words.next().unwrap().unsigned_abs();
        // The time that its push had meant, and that of the store.
        let due = StoreTime::from_micros(words.next().unwrap()).max(job.due());
        let known = &mut *self.0.lock().unwrap();
        known.starts += 1;
        if due > now {
            known.fault(format!("job {id} was early"));
        }
        known.is_job_of(number, id);
        let found = known.jobs.entry(id).or_default();
        let is_new = found.attempts.insert(attempt);
        let before = found.acked.max(found.gone);
        if !is_new {
            known.fault(format!("two holders had attempt {attempt} of job {id}"));
        } else if before.is_some_and(|before| before < attempt) {
            known.fault(format!(
                "job {id} was acknowledged or cancelled, and started"
            ));
        }
        (id, attempt)
    }

    /// An attempt came to an end, if it is the last of the job.
    pub(crate) fn acked(&self, (id, attempt): (JobId, u32)) {
        let known = &mut *self.0.lock().unwrap();
        known.open.remove(&id);
        let before = known.jobs.entry(id).or_default().acked.replace(attempt);
        if before.is_some() {
            known.fault(format!("job {id} was acknowledged twice"));
        }
    }

    pub(crate) fn buried(&self, (id, _): (JobId, u32)) {
        let known = &mut *self.0.lock().unwrap();
        known.open.remove(&id);
        known.jobs.entry(id).or_default().buried = true;
    }

    pub(crate) fn perhaps_buried(&self, (id, _): (JobId, u32)) {
        let known = &mut *self.0.lock().unwrap();
        known.jobs.entry(id).or_default().perhaps_buried = true;
    }

    /// `lasts`: the lease cannot have ended.
    pub(crate) fn not_settled(
        &self,
        (id, attempt): (JobId, u32),
        error: &SettleError,
        lasts: bool,
    ) {
        let known = &mut *self.0.lock().unwrap();
        match error {
            SettleError::Unknown => {
                known.unknown += 1;
                known.open.remove(&id); // Most likely it is.
            }
            SettleError::Stale => known.stale += 1,
            SettleError::ShutDown | SettleError::Forked | _ => {
                known.fault(format!("attempt {attempt} of job {id}: {error}"));
            }
        }
        if lasts && error.is_stale() {
            known.fault(format!(
                "attempt {attempt} of job {id} lost a lease that lasts"
            ));
        }
    }

    pub(crate) fn gone(&self, id: JobId, attempts: u32) {
        let known = &mut *self.0.lock().unwrap();
        known.open.remove(&id);
        let job = known.jobs.entry(id).or_default();
        job.gone = Some(attempts);
        let last = job.attempts.last().copied();
        if job.acked.is_some() || last.is_some_and(|last| last > attempts) {
            known.fault(format!(
                "job {id} was cancelled after attempt {attempts}, and {last:?} was begun"
            ));
        }
    }

    /// A cancel, before it is tried.
    pub(crate) fn cancel(&self, id: JobId) {
        let known = &mut *self.0.lock().unwrap();
        known.jobs.entry(id).or_default().cancels += 1;
    }

    /// That one has lost.
    pub(crate) fn not_gone(&self, id: JobId) {
        let known = &mut *self.0.lock().unwrap();
        known.jobs.entry(id).or_default().cancels -= 1;
    }

    /// That one had no answer.
    pub(crate) fn perhaps_gone(&self, id: JobId) {
        self.0.lock().unwrap().open.remove(&id);
    }

    /// A job that cannot be started is not there.
    pub(crate) fn must_be_cancelled(&self, id: JobId) {
        let known = &mut *self.0.lock().unwrap();
        let job = known.jobs.entry(id).or_default();
        if job.gone.is_none() && job.cancels == 0 {
            known.fault(format!("job {id} is gone, and no cancel has won"));
        }
    }

    /// A process works again, so long after it could, if it was cut off.
    pub(crate) fn is_back(&self, after: Option<Duration>) {
        self.0.lock().unwrap().back.extend(after);
    }

    /// When all is over: nothing is there but dead letters.
    pub(crate) fn judge(&self, store: &impl Store, queue: &str) {
        let known = &mut *self.0.lock().unwrap();
        if !known.faults.is_empty() {
            return; // The run was given up.
        }
        let mut dead = BTreeSet::new();
        loop {
            let letters = store.dead(queue, dead.last().copied(), 100).unwrap();
            if letters.is_empty() {
                break;
            }
            dead.extend(letters.into_iter().map(|letter| letter.id));
        }
        let mut faults = Vec::new();
        for (id, job) in &known.jobs {
            if job.attempts.is_empty() && job.gone.is_none() && job.cancels == 0 {
                faults.push(format!("job {id} was pushed, and lost"));
            }
            let is_dead = dead.contains(id);
            if job.buried && !is_dead {
                faults.push(format!("job {id} was buried, and is no dead letter"));
            }
            if is_dead && !job.buried && !job.perhaps_buried {
                faults.push(format!("job {id} is a dead letter, and was not buried"));
            }
        }
        known.faults.append(&mut faults);
    }

    /// Panics if the promises were not kept.
    pub(crate) fn verdict(&self, plan: &Disturbing, begin: Instant) -> String {
        let known = self.0.lock().unwrap();
        assert!(known.faults.is_empty(), "after {plan}: {:#?}", known.faults);
        format!(
            "{plan} in {:.1?}: {known}; none lost, early, or done twice",
            begin.elapsed()
        )
    }
}

impl Known {
    fn fault(&mut self, text: String) {
        self.faults.push(text);
    }

    /// Notes that it is; false if it was known.
    fn is_job_of(&mut self, number: u64, id: JobId) -> bool {
        let pushed = self.pushed.entry(number).or_default();
        pushed.jobs.insert(id);
        if pushed.jobs.len() > pushed.copies {
            let (jobs, copies) = (pushed.jobs.len(), pushed.copies);
            self.fault(format!(
                "{number} was pushed {copies} times, and is {jobs} jobs"
            ));
        }
        let is_new = !self.jobs.contains_key(&id);
        self.jobs.entry(id).or_default();
        is_new
    }
}

impl fmt::Display for Known {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut back = self.back.clone();
        back.sort_unstable();
        write!(
            f,
            "{} pushed, {} starts, {} stale, {} without an answer; after an outage a process \
            worked again within {} ms, and half of {} times within {} ms",
            self.pushed.len(),
            self.starts,
            self.stale,
            self.unknown,
            back.last().map_or(0, Duration::as_millis),
            back.len(),
            back.get(back.len() / 2).map_or(0, Duration::as_millis),
        )
    }
}
