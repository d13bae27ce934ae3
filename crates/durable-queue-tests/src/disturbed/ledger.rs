//! The oracle: records the observations of all parties, and checks them.
//!
//! Each event is recorded as soon as it is known. A violation is a fault, and ends the run.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::sync::Mutex;
use std::time::{Duration, Instant, SystemTime};

use durable_queue::{Claimed, JobId, SettleError, Store, StoreTime};
use testkit::Rng;

#[derive(Default)]
pub(crate) struct Ledger(Mutex<Known>);

#[derive(Default)]
struct Known {
    /// Pushes by number, which is in the payload.
    pushed: BTreeMap<u64, Pushed>,
    /// Jobs known from the result of a push or from a start.
    jobs: BTreeMap<JobId, Job>,
    /// Jobs that are not known to have ended.
    open: BTreeSet<JobId>,
    faults: Vec<String>,
    starts: u64,
    stale: u64,
    unknown: u64,
    /// Times from the end of an outage to the first settle of each process.
    back: Vec<Duration>,
}

#[derive(Default)]
struct Pushed {
    /// Maximum number of jobs: one per attempted push that may have been carried out.
    copies: usize,
    jobs: BTreeSet<JobId>,
}

#[derive(Default)]
struct Job {
    attempts: BTreeSet<u32>,
    /// The acknowledged attempt.
    acked: Option<u32>,
    /// Number of attempts before a successful cancel.
    gone: Option<u32>,
    /// Number of cancels in progress or without a response.
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

    /// Returns the number of jobs that have not ended.
    pub(crate) fn open(&self) -> usize {
        self.0.lock().unwrap().open.len()
    }

    pub(crate) fn one_of_the_open(&self, rng: &mut Rng) -> Option<JobId> {
        let known = self.0.lock().unwrap();
        let index = rng.below(known.open.len().max(1));
        known.open.iter().nth(index).copied()
    }

    /// Called before a push, which may insert up to `copies` jobs in total.
    pub(crate) fn push(&self, number: u64, copies: usize) {
        let known = &mut *self.0.lock().unwrap();
        known.pushed.entry(number).or_default().copies = copies;
    }

    /// A push was answered.
    pub(crate) fn pushed(&self, number: u64, id: JobId) {
        let known = &mut *self.0.lock().unwrap();
        if known.is_job_of(number, id) {
            known.open.insert(id);
        }
    }

    /// Returns the number of the attempt.
    pub(crate) fn started<T: AsRef<str>>(&self, job: &Claimed<T>) -> (JobId, u32) {
        let (id, attempt, now) = (job.id(), job.attempt(), now());
        let mut words = job
            .as_ref()
            .split(' ')
            .map(|word| word.parse::<i64>().unwrap());
        let number = words.next().unwrap().unsigned_abs();
        // The time intended by the push, and that of the store.
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

    /// An attempt was acknowledged, which must be the job's last.
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
                known.open.remove(&id); // Most likely it was acknowledged.
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

    /// Called before a cancel.
    pub(crate) fn cancel(&self, id: JobId) {
        let known = &mut *self.0.lock().unwrap();
        known.jobs.entry(id).or_default().cancels += 1;
    }

    /// The cancel has failed.
    pub(crate) fn not_gone(&self, id: JobId) {
        let known = &mut *self.0.lock().unwrap();
        known.jobs.entry(id).or_default().cancels -= 1;
    }

    /// The cancel had no response, or has marked the job.
    pub(crate) fn perhaps_gone(&self, id: JobId) {
        self.0.lock().unwrap().open.remove(&id);
    }

    /// The cancel found no job. A job that cannot have been started must exist.
    pub(crate) fn must_be_cancelled(&self, id: JobId) {
        let known = &mut *self.0.lock().unwrap();
        let job = known.jobs.entry(id).or_default();
        if job.gone.is_none() && job.cancels == 0 {
            known.fault(format!("job {id} is gone without a successful cancel"));
        }
    }

    /// A process works again, this long after the end of an outage that has affected it.
    pub(crate) fn is_back(&self, after: Option<Duration>) {
        self.0.lock().unwrap().back.extend(after);
    }

    /// Called at the end: the queue must be empty except for dead letters.
    pub(crate) fn judge(&self, store: &impl Store, queue: &str) {
        let known = &mut *self.0.lock().unwrap();
        if !known.faults.is_empty() {
            return; // The run was aborted.
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

    /// Panics if a guarantee was violated.
    pub(crate) fn verdict(&self, plan: &dyn fmt::Display, begin: Instant) -> String {
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

    /// Records that the job belongs to the push. Returns false if that was known.
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
