//! A store in memory, for tests.
//!
//! Its contents are lost with the process. Clones share them, as processes share a store.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use sync_shim::Mutex;

use super::faults::{Call, Fault, Plan};
use crate::job::{Cancelled, JobId, Merge, NewJob, Put, Reset, Token, Which};
use crate::notify::{ANYTHING, Notifier, Notifiers, Registration};
use crate::store::{
    Act, CANCEL_REQUEST_LIMIT, COUNT_LIMIT, Claim, Claimed, DeadJob, JobState, LOCKED_AGAIN, Lease,
    ListedJob, RECALL, Result, SHORTLY, Settle, Store, StoreStats, Turn, Verdict, Watch, announced,
};
use crate::time::{StoreClock, StoreTime, When};

/// A store in memory whose calls can be made to fail. Clones are the same store.
#[derive(Clone, Debug)]
pub struct SimStore(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    queues: Mutex<BTreeMap<String, Queue>>,
    clock: Arc<dyn StoreClock>,
    notifiers: Notifiers,
    plan: Plan,
}

impl std::fmt::Debug for Queue {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Queue")
            .field("jobs", &self.jobs.len())
            .finish_non_exhaustive()
    }
}

/// Plain data: the simplest implementation of the trait's requirements.
#[derive(Default)]
struct Queue {
    next_id: u64,
    jobs: BTreeMap<JobId, Job>,
    dead: BTreeMap<JobId, DeadJob>,
    paused: bool,
    serial_keys: bool,
    /// Jobs locked by another transaction: they are neither claimed nor started.
    locked: BTreeSet<JobId>,
}

#[derive(Clone)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "the columns of a database's row"
)]
struct Job {
    /// Its due time.
    at: StoreTime,
    /// The latest due time that a debounce may set.
    most: StoreTime,
    /// The time from which it can be claimed.
    due: StoreTime,
    token: Option<Token>,
    started: bool,
    /// It was started since it was last open, so its key may have another open job.
    ran: bool,
    attempts: u32,
    key: Option<Vec<u8>>,
    payload: Vec<u8>,
    schedule: Option<String>,
    urgent: bool,
    kind: Option<String>,
    options: Option<String>,
    failures: Option<String>,
    /// A cancel was requested while a handler had it. It is not open.
    cancelled: bool,
}

impl Job {
    fn lease(&self, id: JobId, token: Token) -> Lease {
        Lease {
            id,
            token,
            due: self.at,
            started: self.started,
            attempts: self.attempts,
            key: self.key.clone(),
            payload: self.payload.clone(),
            schedule: self.schedule.clone(),
            urgent: self.urgent,
            kind: self.kind.clone(),
            options: self.options.clone(),
            failures: self.failures.clone(),
            cancelled: self.cancelled,
        }
    }

    /// Replaces what a merge replaces in any case.
    fn replace_contents(&mut self, job: &NewJob<'_>) {
        job.payload.clone_into(&mut self.payload);
        self.kind = job.kind.map(str::to_owned);
        self.options = job.options.map(str::to_owned);
        self.urgent |= job.urgent;
    }

    fn fail(&mut self, failures: Option<&str>) {
        if let Some(failures) = failures {
            self.failures = Some(failures.to_owned());
        }
    }

    fn start(&mut self, until: StoreTime) {
        if !self.started {
            self.attempts += 1;
        }
        self.started = true;
        self.ran = true;
        self.due = until;
    }

    /// A handler has it, or may have it because its holder does not confirm starts.
    fn is_taken(&self, now: StoreTime) -> bool {
        let may_be_out = self.is_unconfirmed() && self.at <= now;
        (self.started || may_be_out) && self.due > now
    }

    /// It is claimed ahead by a holder that does not confirm starts.
    fn is_unconfirmed(&self) -> bool {
        self.token.is_some_and(|token| token.is_unconfirmed())
    }

    /// Returns the announced time when the job is taken from its holder and becomes due at `at`.
    fn announced(&self, at: StoreTime) -> StoreTime {
        if self.is_unconfirmed() { RECALL } else { at }
    }

    fn free(&mut self, at: StoreTime) {
        self.token = None;
        self.started = false;
        self.at = at;
        self.due = at;
    }

    /// Like `free`. An explicitly requested time also moves the bound of a debounce.
    fn put_at(&mut self, at: StoreTime) {
        self.most = self.most.max(at);
        self.free(at);
    }
}

impl Queue {
    fn of_key(&self, key: &[u8]) -> impl Iterator<Item = (JobId, &Job)> {
        let jobs = self.jobs.iter().map(|(id, job)| (*id, job));
        jobs.filter(move |(_, job)| job.key.as_deref() == Some(key))
    }

    fn open(&self, key: &[u8]) -> Option<JobId> {
        let mut jobs = self.of_key(key);
        jobs.find_map(|(id, job)| (!job.ran).then_some(id))
    }

    /// The key's open job, or else one that waits for its next attempt, or else a running one.
    fn named(&self, now: StoreTime, which: Which<'_>) -> Option<JobId> {
        match which {
            Which::Id(id) => self.jobs.contains_key(&id).then_some(id),
            Which::Key(key) => {
                let place = |job: &Job| (job.ran, job.is_taken(now));
                let first = self.of_key(key).min_by_key(|(id, job)| (place(job), *id));
                first.map(|(id, _)| id)
            }
        }
    }

    /// Opens a job that was started and is no longer held, unless another job of its key is open.
    fn reopen(&mut self, id: JobId) {
        let key = self.jobs.get(&id).and_then(|job| job.key.clone());
        let has_rival = key.is_some_and(|key| self.open(&key).is_some());
        if let Some(job) = self.jobs.get_mut(&id) {
            job.ran &= has_rival;
        }
    }

    fn put(&mut self, now: StoreTime, job: &NewJob<'_>) -> (Put, StoreTime) {
        let (new, merge) = (job.when.resolve(now), job.policy(now));
        let repeats = |(id, old): (JobId, &Job)| (old.ran && old.schedule.is_some()).then_some(id);
        let begun = job.key.filter(|_| job.schedule.is_some());
        if let Some(id) = begun.and_then(|key| self.of_key(key).find_map(repeats)) {
            if merge == Merge::Keep {
                return (Put::Kept(id), StoreTime::NEVER);
            }
            let old = self.jobs.get_mut(&id).expect("the job exists");
            old.replace_contents(job);
            old.schedule = job.schedule.map(str::to_owned);
            old.most = new;
            return (Put::Merged(id), StoreTime::NEVER);
        }
        if let Some(id) = job.key.and_then(|key| self.open(key)) {
            let old = self.jobs.get_mut(&id).expect("the job is pending");
            return match merge.merged(old.at, old.most, new) {
                None => (Put::Kept(id), StoreTime::NEVER),
                Some(at) => {
                    let announced = old.announced(at);
                    old.free(at);
                    old.replace_contents(job);
                    if let Some(schedule) = job.schedule {
                        old.schedule = Some(schedule.to_owned());
                        old.most = StoreTime::NEVER;
                    }
                    (Put::Merged(id), announced)
                }
            };
        }
        self.next_id += 1;
        let id = JobId::from_u64(self.next_id);
        let most = job.merge.most(now);
        let at = new.min(most);
        let job = Job {
            at,
            most,
            due: at,
            token: None,
            started: false,
            ran: false,
            attempts: 0,
            key: job.key.map(<[u8]>::to_vec),
            payload: job.payload.to_vec(),
            schedule: job.schedule.map(str::to_owned),
            urgent: job.urgent,
            kind: job.kind.map(str::to_owned),
            options: job.options.map(str::to_owned),
            failures: None,
            cancelled: false,
        };
        self.jobs.insert(id, job);
        (Put::New(id), at)
    }

    /// Settles in order. Also returns whether a job has waited for a key that is now free.
    fn settle_all(&mut self, now: StoreTime, settles: &[Settle<'_>]) -> (Vec<Verdict>, bool) {
        let mut frees_key = false;
        let settle = |each: &Settle<'_>| {
            let key = self.jobs.get(&each.id).and_then(|job| job.key.clone());
            let verdict = self.settle(now, each);
            if verdict == Verdict::Done && each.act.ends_lease() {
                frees_key |= self.bring_back(key.as_deref());
            }
            verdict
        };
        (settles.iter().map(settle).collect(), frees_key)
    }

    /// A job of a serial key is no longer held: restores the due times of jobs that a claim has postponed.
    fn bring_back(&mut self, key: Option<&[u8]>) -> bool {
        let of_key = |job: &&mut Job| key.is_some() && job.key.as_deref() == key;
        let is_put_off = |job: &&mut Job| job.token.is_none() && job.due > job.at;
        let mut put_off = self.jobs.values_mut().filter(of_key).filter(is_put_off);
        self.serial_keys && put_off.by_ref().map(|job| job.due = job.at).count() > 0
    }

    /// Returns whether a job can be claimed as far as its key is concerned. If not, postpones it until the
    /// end of another job's lease, or until the due time of a job that was started before. If so, fences off
    /// holders of other jobs of the key whose leases have expired.
    fn has_its_key(&mut self, id: JobId, now: StoreTime, claim: &Claim) -> bool {
        let key = self.jobs[&id].key.clone();
        if !self.serial_keys || key.is_none() {
            return true;
        }
        let is_open = !self.jobs[&id].ran;
        let is_other = |(other, job): &(&JobId, &mut Job)| **other != id && job.key == key;
        let others = self.jobs.iter_mut().filter(is_other).map(|(_, job)| job);
        let others: Vec<&mut Job> = others.collect();
        let held = others.iter().filter(|job| job.token.is_some());
        let lease = held.map(|job| job.due).max().filter(|end| *end > now);
        let begun = others.iter().filter(|job| is_open && job.ran);
        let begun = begun.map(|job| job.due.max(now.after(SHORTLY))).max();
        if let Some(end) = lease.or(begun) {
            let job = self.jobs.get_mut(&id).expect("the job exists");
            (job.token, job.started) = (None, false);
            job.due = job.at.max(end.after(claim.horizon));
            return false;
        }
        for other in others {
            (other.token, other.started) = (None, false);
        }
        true
    }

    fn settle(&mut self, now: StoreTime, settle: &Settle<'_>) -> Verdict {
        let Settle { id, token, act } = *settle;
        let is_held = |job: &&mut Job| job.token == Some(token);
        let Some(job) = self.jobs.get_mut(&id).filter(is_held) else {
            return Verdict::Stale;
        };
        match act {
            Act::Start { lease } => {
                if self.paused || self.locked.contains(&id) || !job.started && job.at > now {
                    return Verdict::NotDue;
                }
                job.start(now.after(lease));
            }
            Act::Release | Act::Postpone { .. } if job.cancelled => _ = self.jobs.remove(&id),
            Act::Release => {
                job.attempts -= u32::from(job.started);
                job.free(job.at);
                self.reopen(id);
            }
            Act::Postpone { when } => {
                job.attempts -= u32::from(job.started);
                job.free(job.at);
                job.due = job.at.max(when.resolve(now));
                self.reopen(id);
            }
            _ if !job.started => return Verdict::Stale,
            Act::Extend { lease } => job.due = now.after(lease),
            Act::Ack => _ = self.jobs.remove(&id),
            Act::Again { .. } | Act::Retry { .. } if job.cancelled => _ = self.jobs.remove(&id),
            Act::Again { .. } if job.schedule.is_none() => _ = self.jobs.remove(&id),
            Act::Again { when } => {
                // A push during the run may have set an earlier time.
                job.free(when.resolve(now).min(job.most));
                (job.attempts, job.most) = (0, StoreTime::NEVER);
                job.failures = None;
                self.reopen(id);
            }
            Act::Retry { when, failures } => {
                job.fail(failures);
                job.put_at(when.resolve(now));
                self.reopen(id);
            }
            Act::Bury { error, failures } | Act::Reject { error, failures } => {
                job.fail(failures);
                let job = self.jobs.remove(&id).expect("the job exists");
                let begun = u32::from(matches!(act, Act::Reject { .. }));
                let dead = DeadJob {
                    id,
                    key: job.key,
                    payload: job.payload,
                    attempts: job.attempts - begun,
                    buried: now,
                    error: error.to_owned(),
                    schedule: job.schedule,
                    urgent: job.urgent,
                    kind: job.kind,
                    options: job.options,
                    failures: job.failures,
                };
                self.dead.insert(id, dead);
            }
        }
        Verdict::Done
    }

    fn cancel(&mut self, now: StoreTime, which: Which<'_>) -> (Cancelled, StoreTime) {
        let never = StoreTime::NEVER;
        let Some(id) = self.named(now, which) else {
            return (Cancelled::Never, never);
        };
        let is_meant =
            |job: &Job| matches!(which, Which::Key(key) if job.key.as_deref() == Some(key));
        let is_taken = self.jobs[&id].is_taken(now);
        let mut marks = never;
        for (other, job) in &mut self.jobs {
            if *other == id && is_taken || is_meant(job) {
                job.schedule = None;
                if job.is_taken(now) {
                    (job.cancelled, job.ran) = (true, true);
                    marks = RECALL;
                }
            }
        }
        if is_taken {
            return (Cancelled::Taken, marks);
        }
        let job = self.jobs.remove(&id).expect("the job exists");
        let frees_key = self.bring_back(job.key.as_deref());
        let announced = job.announced(if frees_key { ANYTHING } else { never });
        let announced = announced.min(marks);
        let (payload, attempts) = (job.payload, job.attempts);
        (Cancelled::Gone { payload, attempts }, announced)
    }

    /// Jobs ordered by the time from which they can be claimed, then by id.
    fn in_order(&self) -> Vec<(StoreTime, JobId)> {
        let mut order: Vec<_> = self.jobs.iter().map(|(id, job)| (job.due, *id)).collect();
        order.sort_unstable();
        order
    }

    fn claim(&mut self, now: StoreTime, claim: &Claim) -> Claimed {
        let until = now.after(claim.lease);
        let end = now.after(claim.horizon);
        let max = if self.paused { 0 } else { claim.max };
        let (mut started, mut ahead) = (0, 0);
        let mut is_short = false;
        let mut leases: Vec<Lease> = Vec::new();
        let mut order = self.in_order();
        if claim.urgent_first {
            // The sort is stable, so the others keep their order.
            order.sort_by_key(|(due, id)| !(*due <= now && self.jobs[id].urgent));
        }
        for (due, id) in order {
            let job = &self.jobs[&id];
            let is_here = due <= now || due <= end && job.token.is_none();
            let is_locked = self.locked.contains(&id);
            is_short |= due <= now && is_locked;
            let may = is_here && !is_locked;
            let has_room = due <= now && started < claim.start || ahead < claim.ahead;
            if !may || started + ahead >= max || !has_room || !self.has_its_key(id, now, claim) {
                continue;
            }
            let job = self.jobs.get_mut(&id).expect("the job exists");
            if due <= now && started < claim.start {
                started += 1;
                job.started = false;
                job.start(until);
            } else {
                ahead += 1;
                job.started = false;
                job.due = until.max(job.at);
            }
            job.token = Some(claim.token);
            leases.push(job.lease(id, claim.token));
        }
        leases.sort_by_key(|lease| (lease.due, lease.id));
        let first =
            |dues: &mut dyn Iterator<Item = StoreTime>| dues.min().unwrap_or(StoreTime::NEVER);
        let free = self.jobs.values().filter(|job| job.token.is_none());
        let is_passed_over =
            |(id, job): &(&JobId, &Job)| is_short && job.due <= now && self.locked.contains(id);
        let others = self.jobs.iter().filter(|it| !is_passed_over(it));
        let again = is_short.then(|| now.after(LOCKED_AGAIN));
        Claimed {
            leases,
            first: first(&mut others.map(|(_, job)| job.due).chain(again)),
            first_free: first(&mut free.map(|job| job.due)),
        }
    }
}

impl SimStore {
    /// Creates an empty store that does not fail.
    pub fn new(clock: impl StoreClock) -> Self {
        Self::with_faults(clock, |_| Fault::None)
    }

    /// Creates an empty store. `plan` chooses the failure of each call. No lock is held while it runs.
    pub fn with_faults(
        clock: impl StoreClock,
        plan: impl Fn(Call) -> Fault + Send + Sync + 'static,
    ) -> Self {
        Self::with_plan(clock, Plan::new(plan))
    }

    /// Creates an empty store. `plan` chooses the failure of each turn by its settles and its claim. No other
    /// call fails.
    pub fn with_turn_faults(
        clock: impl StoreClock,
        plan: impl Fn(&[Settle<'_>], Option<&Claim>) -> Fault + Send + Sync + 'static,
    ) -> Self {
        Self::with_plan(clock, Plan::of_turns(plan))
    }

    fn with_plan(clock: impl StoreClock, plan: Plan) -> Self {
        Self(Arc::new(Shared {
            queues: Mutex::new(BTreeMap::new()),
            clock: Arc::new(clock),
            notifiers: Notifiers::new(),
            plan,
        }))
    }

    /// Simulates a lock of another transaction on the job, or its release. Claims skip locked jobs, and a
    /// start has to be retried, as with a database that skips locked rows.
    pub fn lock_job(&self, name: &str, id: JobId, locked: bool) {
        self.step(name, |queue, _| {
            if locked {
                queue.locked.insert(id);
            } else {
                queue.locked.remove(&id);
            }
        });
    }

    /// Runs one step on a queue, like a transaction of a database.
    fn step<R>(&self, name: &str, step: impl FnOnce(&mut Queue, StoreTime) -> R) -> R {
        let mut queues = self.0.queues.lock();
        // Read under the lock, so that the times of steps never decrease.
        let now = self.0.clock.now();
        step(queues.entry(name.to_owned()).or_default(), now)
    }

    fn notify(&self, heard: bool, name: &str, due: StoreTime) {
        if !heard || due == StoreTime::NEVER {
            return;
        }
        self.0.notifiers.notify(name, due);
    }
}

impl Store for SimStore {
    fn enqueue(&self, name: &str, jobs: &[NewJob<'_>]) -> Result<Vec<Put>> {
        self.0.plan.run(Call::Enqueue, |heard| {
            let puts: Vec<(Put, StoreTime)> = self.step(name, |queue, now| {
                jobs.iter().map(|job| queue.put(now, job)).collect()
            });
            let earliest = puts.iter().map(|(_, at)| *at).min();
            self.notify(heard, name, earliest.unwrap_or(StoreTime::NEVER));
            Ok(puts.into_iter().map(|(put, _)| put).collect())
        })
    }

    fn turn(&self, name: &str, settle: &[Settle<'_>], claim: Option<Claim>) -> Result<Turn> {
        self.0.plan.run_turn(settle, claim.as_ref(), |heard| {
            let (turn, frees_key) = self.step(name, |queue, now| {
                let (verdicts, frees_key) = queue.settle_all(now, settle);
                let claimed = claim.map(|claim| queue.claim(now, &claim));
                let paused = queue.paused;
                let turn = Turn {
                    now,
                    paused,
                    verdicts,
                    claimed,
                };
                (turn, frees_key)
            });
            self.notify(heard, name, announced(settle, turn.now, frees_key));
            Ok(turn)
        })
    }

    fn cancel(&self, name: &str, which: Which<'_>) -> Result<Cancelled> {
        self.0.plan.run(Call::Cancel, |heard| {
            let (cancelled, announced) = self.step(name, |queue, now| queue.cancel(now, which));
            self.notify(heard, name, announced);
            Ok(cancelled)
        })
    }

    fn cancel_requests(&self, name: &str) -> Result<Vec<(JobId, Token)>> {
        self.0.plan.run(Call::CancelRequests, |_| {
            Ok(self.step(name, |queue, _| {
                let marked = queue.jobs.iter().filter(|(_, job)| job.cancelled);
                let held = marked.filter_map(|(id, job)| Some((*id, job.token?)));
                held.take(CANCEL_REQUEST_LIMIT as usize).collect()
            }))
        })
    }

    fn reset(&self, name: &str, which: Which<'_>, when: When) -> Result<Reset> {
        self.0.plan.run(Call::Reset, |heard| {
            let never = StoreTime::NEVER;
            let (reset, announced) = self.step(name, |queue, now| match queue.named(now, which) {
                None => (Reset::Never, never),
                Some(id) if queue.jobs[&id].is_taken(now) => (Reset::Taken, never),
                Some(id) => {
                    let job = queue.jobs.get_mut(&id).expect("the job exists");
                    let at = when.resolve(now);
                    let announced = job.announced(at);
                    job.put_at(at);
                    job.cancelled = false;
                    queue.reopen(id);
                    (Reset::Moved, announced)
                }
            });
            self.notify(heard, name, announced);
            Ok(reset)
        })
    }

    fn held_by(&self, name: &str, token: Token, lease: Duration) -> Result<Vec<Lease>> {
        self.0.plan.run(Call::HeldBy, |_| {
            Ok(self.step(name, |queue, now| {
                let end = now.after(lease);
                let held = |job: &Job| job.token == Some(token) && job.due <= end;
                let jobs = queue.jobs.iter().filter(|(_, job)| held(job));
                let mut leases: Vec<_> = jobs.map(|(id, job)| job.lease(*id, token)).collect();
                leases.sort_by_key(|lease| (lease.due, lease.id));
                leases
            }))
        })
    }

    fn watch(&self, name: &str, notifier: Notifier) -> Result<Box<dyn Watch>> {
        struct Announced(#[expect(dead_code, reason = "held for its Drop")] Registration);
        impl Watch for Announced {
            fn every(&self) -> Option<Duration> {
                None
            }
            fn look(&mut self) -> Result<bool> {
                Ok(false)
            }
        }
        self.0.plan.run(Call::Watch, |_| {
            let registration = self.0.notifiers.add(name, notifier.clone());
            Ok(Box::new(Announced(registration)) as Box<dyn Watch>)
        })
    }

    fn pause(&self, name: &str, paused: bool) -> Result<()> {
        self.0.plan.run(Call::Pause, |heard| {
            self.step(name, |queue, _| queue.paused = paused);
            self.notify(heard, name, ANYTHING);
            Ok(())
        })
    }

    fn serialize_keys(&self, name: &str, serial: bool) -> Result<()> {
        self.0.plan.run(Call::SerializeKeys, |_| {
            self.step(name, |queue, _| queue.serial_keys = serial);
            Ok(())
        })
    }

    fn stats(&self, name: &str) -> Result<StoreStats> {
        self.0.plan.run(Call::Other, |_| {
            let limited = |count: usize| u32::try_from(count).unwrap_or(u32::MAX).min(COUNT_LIMIT);
            Ok(self.step(name, |queue, now| StoreStats {
                jobs: limited(queue.jobs.len()),
                due: limited(queue.jobs.values().filter(|job| job.due <= now).count()),
                dead: limited(queue.dead.len()),
                paused: queue.paused,
                serial_keys: queue.serial_keys,
            }))
        })
    }

    fn list(
        &self,
        name: &str,
        after: Option<(StoreTime, JobId)>,
        most: u32,
    ) -> Result<Vec<ListedJob>> {
        self.0.plan.run(Call::Other, |_| {
            Ok(self.step(name, |queue, now| {
                let order = queue.in_order().into_iter();
                let rest = order.filter(|position| Some(*position) > after);
                let listed = rest.map(|(due, id)| {
                    let job = &queue.jobs[&id];
                    ListedJob {
                        id,
                        due,
                        at: job.at,
                        state: JobState::of(job.token.is_some(), job.started, due, now),
                        attempts: job.attempts,
                        key: job.key.clone(),
                        schedule: job.schedule.clone(),
                        urgent: job.urgent,
                        kind: job.kind.clone(),
                        failures: job.failures.clone(),
                        cancelled: job.cancelled,
                    }
                });
                listed.take(most as usize).collect()
            }))
        })
    }

    fn dead(&self, name: &str, after: Option<JobId>, most: u32) -> Result<Vec<DeadJob>> {
        self.0.plan.run(Call::Other, |_| {
            Ok(self.step(name, |queue, _| {
                let dead = queue.dead.values().filter(|dead| Some(dead.id) > after);
                dead.take(most as usize).cloned().collect()
            }))
        })
    }

    fn redrive(&self, name: &str, ids: &[JobId]) -> Result<usize> {
        self.0.plan.run(Call::Redrive, |heard| {
            let count = self.step(name, |queue, now| {
                let mut count = 0;
                for id in ids {
                    let key = queue.dead.get(id).map(|dead| dead.key.clone());
                    let is_free =
                        |key: Option<Vec<u8>>| key.is_none_or(|key| queue.open(&key).is_none());
                    if !key.is_some_and(is_free) {
                        continue;
                    }
                    let dead = queue.dead.remove(id).expect("the job exists");
                    let job = Job {
                        at: now,
                        most: StoreTime::NEVER,
                        due: now,
                        token: None,
                        started: false,
                        ran: false,
                        attempts: 0,
                        key: dead.key,
                        payload: dead.payload,
                        schedule: dead.schedule,
                        urgent: dead.urgent,
                        kind: dead.kind,
                        options: dead.options,
                        failures: dead.failures,
                        cancelled: false,
                    };
                    queue.jobs.insert(*id, job);
                    count += 1;
                }
                count
            });
            self.notify(heard, name, ANYTHING);
            Ok(count)
        })
    }

    fn delete_dead(&self, name: &str, ids: &[JobId]) -> Result<usize> {
        self.0.plan.run(Call::DeleteDead, |_| {
            Ok(self.step(name, |queue, _| {
                ids.iter()
                    .filter(|id| queue.dead.remove(id).is_some())
                    .count()
            }))
        })
    }
}
