//! The oracle: records the observations of all parties, and checks them.
//!
//! Results are recorded as soon as they are known, and intentions before a call is made. So a fault does not
//! depend on which thread records first.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::sync::{Arc, Mutex};

use durable_queue::{Claimed, JobId, Put, SettleError, StoreClock, StoreTime};
use durable_queue_testing::ManualStoreClock;

use super::world::Setup;

/// Error of jobs whose holders died.
const SPENT: &str = "no attempt is left";

/// A job of a handler.
#[derive(Clone, Debug)]
pub(super) struct Holding {
    pub(super) id: JobId,
    pub(super) attempt: u32,
    pub(super) number: u64,
    pub(super) lineage: String,
    start: u64,
}

pub(super) struct Ledger {
    known: Mutex<Known>,
    time: ManualStoreClock,
    max_attempts: u32,
    ordered: bool,
    leases_last: bool,
    /// A push may have been carried out twice, and then is two jobs.
    doubled: Arc<AtomicBool>,
}

#[derive(Default)]
struct Known {
    pushes: BTreeMap<u64, Push>,
    /// Possible due times, by key, or by number for jobs without a key.
    times: BTreeMap<String, Times>,
    jobs: BTreeMap<JobId, Job>,
    starts: u64,
    given_back: BTreeSet<JobId>,
    /// Leases that were to last have expired.
    leases_ended: bool,
    /// Jobs that repeat, and jobs whose schedule has ended.
    repeating: BTreeSet<String>,
    may_not_repeat: BTreeSet<String>,
    /// Repeating jobs that may have been cancelled by a call without a response.
    perhaps_gone: BTreeSet<String>,
    /// Number of the last push that a cancel by this key may have marked.
    marked: BTreeMap<String, u64>,
    faults: Vec<String>,
}

#[derive(Default)]
struct Push {
    lineage: String,
    jobs: BTreeSet<JobId>,
    refused: bool,
    /// Number of attempts before its cancel.
    gone: Option<u32>,
}

#[derive(Default)]
struct Times {
    exact: BTreeSet<StoreTime>,
    from: Option<StoreTime>,
}

#[derive(Debug, Default)]
struct Job {
    lineage: String,
    /// The pushes that are known to have found it open: they created it, were merged into it, or left it as it was.
    numbers: BTreeSet<u64>,
    /// The push that was merged into it last, as far as is known.
    merged: u64,
    /// The start whose handler has not settled it yet, which excludes other holders.
    holder: Option<u64>,
    acked: Option<u32>,
    gone: Option<u32>,
    /// There was an acknowledgement or a cancel without a response, or a cancel during a run, after which the
    /// job ends when its holder returns it.
    perhaps_over: bool,
    buried: bool,
    redriven: bool,
    /// Possible errors of its dead letter.
    reasons: BTreeSet<String>,
}

impl Ledger {
    pub(super) fn new(time: &ManualStoreClock, setup: &Setup) -> Self {
        Self {
            known: Mutex::default(),
            time: time.clone(),
            max_attempts: setup.max_attempts,
            ordered: setup.ordered,
            leases_last: setup.leases_last(),
            doubled: Arc::default(),
        }
    }

    pub(super) fn now(&self) -> StoreTime {
        self.time.now()
    }

    fn known<R>(&self, note: impl FnOnce(&mut Known) -> R) -> R {
        note(&mut self.known.lock().unwrap())
    }

    pub(super) fn fault(&self, text: String) {
        self.known(|known| known.faults.push(text));
    }

    /// Returns whether jobs with this lineage repeat.
    pub(super) fn repeats(lineage: &str) -> bool {
        lineage.starts_with('r')
    }

    /// Called before a call after which jobs of this lineage may be due at `at`.
    pub(super) fn may_be_due(&self, lineage: &str, at: StoreTime) {
        self.known(|known| known.times(lineage).exact.insert(at));
    }

    /// Like `may_be_due`, from `from` on.
    pub(super) fn may_be_due_from(&self, lineage: &str, from: StoreTime) {
        self.known(|known| {
            let times = known.times(lineage);
            times.from = Some(times.from.map_or(from, |before| before.min(from)));
        });
    }

    /// Called before a push.
    pub(super) fn push(&self, number: u64, lineage: &str) {
        self.known(|known| {
            lineage.clone_into(&mut known.pushes.entry(number).or_default().lineage);
        });
    }

    pub(super) fn pushed(&self, number: u64, put: Put) {
        let id = put.id();
        self.known(|known| {
            if let Put::Kept(_) = put {
                let lineage = known.pushes[&number].lineage.clone();
                let job = known.jobs.entry(id).or_default();
                job.lineage = lineage;
                job.numbers.insert(number);
                return;
            }
            known.is_job_of(number, id, self.is_doubled());
            let job = known.jobs.get_mut(&id).unwrap();
            if let Put::Merged(_) = put {
                job.merged = job.merged.max(number);
            }
        });
    }

    /// The store has reported that the push was not carried out.
    pub(super) fn refused(&self, number: u64) {
        self.known(|known| {
            let push = known.pushes.get_mut(&number).unwrap();
            push.refused = true;
            if !push.jobs.is_empty() {
                known.fault(format!(
                    "{number} was started, but its push was reported as rejected"
                ));
            }
        });
    }

    /// To be set before a push is carried out twice.
    pub(super) fn doubling(&self) -> Arc<AtomicBool> {
        Arc::clone(&self.doubled)
    }

    fn is_doubled(&self) -> bool {
        self.doubled.load(SeqCst)
    }

    /// `lasts`: no other party can have the job before it is settled.
    pub(super) fn started(&self, job: &Claimed<String>, lasts: bool, confirms: bool) -> Holding {
        let now = self.now();
        let (id, attempt, due) = (job.id(), job.attempt(), job.due());
        let mut words = job.split(' ');
        let number = words.next().unwrap().parse().unwrap();
        let lineage = words.next().unwrap().to_owned();
        self.known(|known| {
            known.starts += 1;
            let start = known.starts;
            let name = format!("job {id} ({lineage}, {number}), attempt {attempt},");
            if due > now {
                known.fault(format!("{name} was early"));
            }
            if attempt > self.max_attempts {
                known.fault(format!("{name} exceeds the maximum"));
            }
            if !known.times(&lineage).allow(due) {
                known.fault(format!("{name} had an unrequested due time: {due:?}"));
            }
            known.is_job_of(number, id, self.is_doubled());
            let is_of_one_life = !Self::repeats(&lineage);
            let lasting = !known.leases_ended;
            let gone = known.pushes[&number].gone.filter(|_| !self.is_doubled());
            let is_rival = |(other, job): (&JobId, &Job)| {
                *other != id && job.lineage == lineage && job.holder.is_some()
            };
            let is_serial = self.ordered && job.key().is_some() && lasts && lasting;
            if is_serial && known.jobs.iter().any(is_rival) {
                known.fault(format!(
                    "{name} was started while another job of its group ran"
                ));
            }
            let job = known.jobs.get_mut(&id).unwrap();
            let is_of_one_life = is_of_one_life && !job.redriven;
            let gone = job.gone.or(gone);
            let (acked, holder) = (job.acked, job.holder);
            job.holder = lasts.then_some(start);
            // A party whose lease has expired may see its start late.
            if holder.is_some() && lasts && lasting {
                known.fault(format!("{name} was started while another holder had it"));
            }
            if is_of_one_life && acked.is_some_and(|before| before < attempt) {
                known.fault(format!("{name} came after it was acknowledged"));
            }
            if is_of_one_life && confirms && gone.is_some_and(|before| before < attempt) {
                known.fault(format!("{name} came after it was cancelled"));
            }
            Holding {
                id,
                attempt,
                number,
                lineage: lineage.clone(),
                start,
            }
        })
    }

    /// Called before a handler settles.
    pub(super) fn settles(&self, holding: &Holding) {
        self.known(|known| {
            let job = known.jobs.get_mut(&holding.id).unwrap();
            if job.holder == Some(holding.start) {
                job.holder = None;
            }
        });
    }

    pub(super) fn gives_back(&self, holding: &Holding) {
        self.known(|known| known.given_back.insert(holding.id));
        self.settles(holding);
    }

    pub(super) fn was_given_back(&self, id: JobId) -> bool {
        self.known(|known| known.given_back.contains(&id))
    }

    /// Called before a failed attempt is settled: it may be the last one.
    pub(super) fn fails(&self, holding: &Holding, reason: &str) {
        self.gives_back(holding);
        if holding.attempt >= self.max_attempts {
            self.may_be_buried(holding, reason);
        }
    }

    pub(super) fn may_be_buried(&self, holding: &Holding, reason: &str) {
        self.settles(holding);
        self.known(|known| {
            let job = known.jobs.get_mut(&holding.id).unwrap();
            job.reasons.insert(reason.to_owned());
        });
    }

    pub(super) fn buried(&self, holding: &Holding) {
        self.known(|known| known.jobs.get_mut(&holding.id).unwrap().buried = true);
    }

    pub(super) fn acked(&self, holding: &Holding) {
        let Holding {
            id,
            attempt,
            number,
            ..
        } = *holding;
        self.known(|known| {
            let job = known.jobs.get_mut(&id).unwrap();
            let (merged, gone) = (job.merged, job.gone);
            let before = job.acked.replace(attempt);
            if Self::repeats(&holding.lineage) {
                return;
            }
            if before.is_some() || gone.is_some() {
                known.fault(format!(
                    "{holding:?} was acknowledged after an acknowledgement ({before:?}) or a cancel ({gone:?})"
                ));
            }
            if number < merged {
                known.fault(format!("{holding:?} is done, and what was merged into it is not"));
            }
        });
    }

    pub(super) fn perhaps_over(&self, id: JobId) {
        self.known(|known| known.jobs.get_mut(&id).unwrap().perhaps_over = true);
    }

    /// A lease that cannot have expired was reported as lost.
    pub(super) fn lost(&self, holding: &Holding, lasts: bool, error: &SettleError) {
        self.known(|known| {
            if lasts && !known.leases_ended {
                known.fault(format!("{holding:?} lost a lease that lasts: {error}"));
            }
        });
    }

    /// A cancel by key has succeeded, which returns only the payload.
    pub(super) fn number_is_gone(&self, number: u64, attempts: u32) {
        let jobs = self.known(|known| {
            let push = known.pushes.get_mut(&number).unwrap();
            push.gone = Some(attempts);
            push.jobs.clone()
        });
        if !self.is_doubled() {
            for id in jobs {
                self.gone(id, attempts);
            }
        }
    }

    /// A cancel has succeeded.
    pub(super) fn gone(&self, id: JobId, attempts: u32) {
        self.known(|known| {
            let job = known.jobs.get_mut(&id).unwrap();
            let acked = job.acked;
            let repeats = Self::repeats(&job.lineage);
            job.gone = Some(attempts);
            if acked.is_some() && !repeats {
                known.fault(format!("job {id} was cancelled, and had been acknowledged"));
            }
        });
    }

    pub(super) fn perhaps_gone(&self, lineage: &str) {
        self.known(|known| known.perhaps_gone.insert(lineage.to_owned()));
    }

    /// A cancel by key may have marked running jobs, which end when their holders return them: those of pushes
    /// up to this one.
    pub(super) fn may_be_marked(&self, lineage: &str, last: u64) {
        self.known(|known| {
            let before = known.marked.entry(lineage.to_owned()).or_default();
            *before = last.max(*before);
        });
    }

    pub(super) fn repeats_from_now(&self, lineage: &str) {
        self.known(|known| known.repeating.insert(lineage.to_owned()));
    }

    /// Called before a cancel or a burial.
    pub(super) fn may_not_repeat(&self, lineage: &str) {
        self.known(|known| known.may_not_repeat.insert(lineage.to_owned()));
    }

    /// A repeating job ends only by a cancel, which is this one. `cancel` returns whether the job existed.
    pub(super) fn must_repeat(&self, lineage: &str, cancel: impl FnOnce() -> bool) {
        self.perhaps_gone(lineage);
        let was_there = cancel();
        self.known(|known| {
            let must = known.repeating.contains(lineage) && !known.may_not_repeat.contains(lineage);
            if must && !was_there {
                known.fault(format!("{lineage} repeats no more"));
            }
        });
    }

    /// Returns a job to cancel or reset by id, and its lineage: recent ones that may still exist come first.
    pub(super) fn one_of(&self, number: usize) -> Option<(JobId, String)> {
        self.known(|known| {
            let is_open = |job: &Job| job.acked.is_none() && job.gone.is_none() && !job.buried;
            let open: Vec<_> = known.jobs.iter().filter(|(_, job)| is_open(job)).collect();
            let (id, job) = open.iter().nth_back(number % open.len().max(1))?;
            Some((**id, job.lineage.clone()))
        })
    }

    /// Called before a redrive. Returns the dead letters that this party knows.
    pub(super) fn redrives(&self) -> Vec<JobId> {
        let now = self.now();
        self.known(|known| {
            let mut ids = Vec::new();
            let mut lineages = Vec::new();
            for (id, job) in &mut known.jobs {
                if !job.reasons.is_empty() {
                    job.redriven = true;
                    ids.push(*id);
                    lineages.push(job.lineage.clone());
                }
            }
            for lineage in lineages {
                let times = known.times(&lineage);
                times.from = Some(times.from.map_or(now, |before| before.min(now)));
            }
            ids
        })
    }

    /// Returns whether any handler has a job.
    pub(super) fn is_any_held(&self) -> bool {
        self.known(|known| known.jobs.values().any(|job| job.holder.is_some()))
    }

    /// Returns the handlers' jobs, for a message.
    pub(super) fn held(&self) -> Vec<String> {
        self.known(|known| {
            let held = known.jobs.iter().filter(|(_, job)| job.holder.is_some());
            held.map(|(id, job)| format!("{id}: {job:?}")).collect()
        })
    }

    pub(super) fn leases_end(&self) {
        self.known(|known| known.leases_ended = true);
    }

    /// Called at the end, when only these dead letters are left.
    pub(super) fn judge(&self, dead: &[durable_queue::store::DeadJob]) -> Vec<String> {
        self.known(|known| {
            let letters: BTreeMap<JobId, _> = dead.iter().map(|it| (it.id, it)).collect();
            for (id, job) in &known.jobs {
                let letter = letters.get(id);
                let mut pushes = known.pushes.values();
                let is_it = |push: &Push| {
                    self.is_doubled() || push.jobs.is_empty() || push.jobs.contains(id)
                };
                let is_gone = job.gone.is_some()
                    || known.perhaps_gone.contains(&job.lineage)
                    || pushes.any(|it| it.gone.is_some() && it.lineage == job.lineage && is_it(it));
                let marked = known.marked.get(&job.lineage);
                let is_marked = marked
                    .zip(job.numbers.first())
                    .is_some_and(|(last, first)| first <= last);
                let is_over = job.acked.is_some() || job.perhaps_over || is_gone || is_marked;
                if letter.is_none() && !is_over {
                    known.faults.push(format!("job {id} is lost: {job:?}"));
                }
                if letter.is_none() && job.buried && !job.redriven {
                    known
                        .faults
                        .push(format!("job {id} was buried, and is no dead letter"));
                }
                if let Some(letter) = letter {
                    // A claim counts as an attempt. If its lease ends before it has buried the job, so does the next.
                    let is_spent = letter.error.contains(SPENT)
                        && letter.attempts >= self.max_attempts
                        && (known.leases_ended || !self.leases_last);
                    if !is_spent && !job.reasons.contains(&letter.error) {
                        let (error, reasons) = (&letter.error, &job.reasons);
                        known.faults.push(format!(
                            "job {id} is dead of {error:?} after attempt {}, not of {reasons:?}",
                            letter.attempts
                        ));
                    }
                }
            }
            std::mem::take(&mut known.faults)
        })
    }
}

impl Known {
    fn fault(&mut self, text: String) {
        self.faults.push(text);
    }

    fn times(&mut self, lineage: &str) -> &mut Times {
        self.times.entry(lineage.to_owned()).or_default()
    }

    fn is_job_of(&mut self, number: u64, id: JobId, doubled: bool) {
        let Some(push) = self.pushes.get_mut(&number) else {
            return self.fault(format!("job {id} is of {number}, which was never pushed"));
        };
        push.jobs.insert(id);
        let (count, refused, lineage) = (push.jobs.len(), push.refused, push.lineage.clone());
        let job = self.jobs.entry(id).or_default();
        job.lineage = lineage;
        job.numbers.insert(number);
        if refused {
            self.fault(format!("{number} was refused, and is job {id}"));
        }
        if count > 1 + usize::from(doubled) {
            self.fault(format!("{number} was pushed once, and is {count} jobs"));
        }
    }
}

impl Times {
    fn allow(&self, due: StoreTime) -> bool {
        self.exact.contains(&due) || self.from.is_some_and(|from| from <= due)
    }
}
