//! A store in memory, for tests.
//!
//! Its contents are lost with the process. Clones share them, as processes share a store.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use durable_queue::internals::ANYTHING;
use durable_queue::store::{
    Act, CANCEL_REQUEST_LIMIT, COUNT_LIMIT, Claim, Claimed, DeadJob, DoneJob, Fate, JobState,
    KindRoom, LOCKED_AGAIN, Lease, ListedJob, PARK_LIMIT, RECALL, Result, Settle, Store,
    StoreStats, Turn, Verdict, Watch, announced,
};
use durable_queue::{
    Cancelled, ErrorKind, Groups, JobId, Limit, Merge, NewJob, Notifier, Notifiers, Put,
    Registration, Reset, StartRate, StoreClock, StoreError, StoreTime, Token, When, Which,
};
use sync_shim::Mutex;

use super::faults::{Call, Fault, Plan};

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
    done: BTreeMap<JobId, DoneJob>,
    paused: bool,
    /// The rule of the groups, and how often it was changed.
    groups: Option<Groups>,
    rule: u64,
    /// Groups of which a job has left its seat since the last claim.
    left: BTreeSet<String>,
    /// By kind.
    limits: BTreeMap<String, KindLimit>,
    /// Jobs locked by another transaction: they are neither claimed nor started.
    locked: BTreeSet<JobId>,
}

/// Limits of a kind.
#[derive(Debug)]
struct KindLimit {
    most: Option<u32>,
    rate: Option<StartRate>,
    /// When the bucket of the rate is full.
    full: StoreTime,
}

impl Default for KindLimit {
    fn default() -> Self {
        let full = StoreTime::from_micros(i64::MIN);
        Self {
            most: None,
            rate: None,
            full,
        }
    }
}

/// A job's place under the limits of a kind.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Place {
    kind: String,
    /// It waits out of reach of claims. Otherwise it is held, or was called.
    is_parked: bool,
}

/// Whether a rule of the groups lets a job be claimed. A seat under a former rule is none.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Seat {
    /// No claim has looked at it, or it needs no seat.
    #[default]
    None,
    /// It has one of its group's seats under the rule of this number.
    Taken(u64),
    /// It waits for one.
    Awaited(u64),
}

#[derive(Clone)]
#[expect(
    clippy::struct_excessive_bools,
    reason = "the columns of a database's row"
)]
struct Job {
    place: Option<Place>,
    seat: Seat,
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
    group: Option<String>,
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

    /// The kind under whose limits it has a place, if it is parked, or if it is not.
    fn place_of(&self, is_parked: bool) -> Option<&str> {
        let place = self.place.as_ref()?;
        (place.is_parked == is_parked).then_some(&place.kind)
    }

    /// Its holder loses it. It can be claimed at the same time as before.
    fn fence_off(&mut self) {
        (self.token, self.started, self.place) = (None, false, None);
    }

    fn free(&mut self, at: StoreTime) {
        self.place = None;
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

    /// The job that keeps a push of its key from creating another one, if none is open: the first one that was started,
    /// or the last one that is done.
    fn unique(&self, now: StoreTime, key: &[u8], merge: Merge) -> Option<JobId> {
        if !matches!(merge, Merge::KeepUntilDone | Merge::KeepDone) {
            return None;
        }
        let done = || {
            let kept = self.done.values().filter(|done| done.until > now);
            let of_key = kept.filter(|done| done.key.as_deref() == Some(key));
            of_key.max_by_key(|done| done.id)
        };
        let started = self.of_key(key).next().map(|(id, _)| id);
        match merge {
            Merge::KeepDone => started.or_else(|| done().map(|done| done.id)),
            _ => started,
        }
    }

    fn put(&mut self, now: StoreTime, job: &NewJob<'_>) -> (Put, StoreTime) {
        let (new, merge) = (job.when.resolve(now), job.policy(now));
        let repeats = |(id, old): (JobId, &Job)| (old.ran && old.schedule.is_some()).then_some(id);
        let begun = job.key.filter(|_| job.schedule.is_some());
        if let Some(id) = begun.and_then(|key| self.of_key(key).find_map(repeats)) {
            if merge.keeps() {
                return (Put::Kept(id), StoreTime::NEVER);
            }
            let old = self.jobs.get_mut(&id).expect("the job exists");
            old.replace_contents(job);
            old.schedule = job.schedule.map(str::to_owned);
            if old.token.is_some() {
                old.most = new;
                return (Put::Merged(id), StoreTime::NEVER);
            }
            let at = old.at.min(new);
            old.free(at);
            return (Put::Merged(id), at.min(self.leave_seat(id)));
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
                    let frees = self.leave_seat(id);
                    let group = job.group.map(str::to_owned);
                    self.jobs.get_mut(&id).expect("the job exists").group = group;
                    (Put::Merged(id), announced.min(frees))
                }
            };
        }
        if let Some(id) = job.key.and_then(|key| self.unique(now, key, merge)) {
            return (Put::Kept(id), StoreTime::NEVER);
        }
        self.next_id += 1;
        let id = JobId::from_u64(self.next_id);
        let most = job.merge.most(now);
        let at = new.min(most);
        let job = Job {
            at,
            most,
            due: at,
            place: None,
            seat: Seat::None,
            token: None,
            started: false,
            ran: false,
            attempts: 0,
            key: job.key.map(<[u8]>::to_vec),
            group: job.group.map(str::to_owned),
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

    /// Settles in order. Also returns whether a job that has waited can now be claimed.
    fn settle_all(&mut self, now: StoreTime, settles: &[Settle<'_>]) -> (Vec<Verdict>, bool) {
        let (mut calls, mut left) = (false, BTreeSet::new());
        let settle = |each: &Settle<'_>| {
            let before = self.jobs.get(&each.id).cloned();
            let verdict = self.settle(now, each);
            if verdict == Verdict::Done && each.act.ends_lease() {
                let before = before.expect("the job existed");
                let is_gone = !self.jobs.contains_key(&each.id);
                let keeps = self.groups == Some(Groups::Ordered)
                    && !is_gone
                    && !matches!(each.act, Act::Again { .. });
                if before.seat == Seat::Taken(self.rule) && !keeps {
                    if let Some(job) = self.jobs.get_mut(&each.id) {
                        job.seat = Seat::None;
                    }
                    left.extend(before.group);
                }
            }
            if let Act::Again { when } = each.act {
                // A push during the run has set an earlier time than the holder knows.
                let job = self.jobs.get(&each.id).filter(|_| verdict == Verdict::Done);
                calls |= job.is_some_and(|job| job.due < when.resolve(now));
            }
            verdict
        };
        let verdicts = settles.iter().map(settle).collect();
        for group in left {
            calls |= !self.call_group(Some(&group), now).is_empty();
        }
        if settles.iter().any(|settle| settle.act.ends_lease()) {
            calls |= self.call_parked(now);
        }
        (verdicts, calls)
    }

    /// A push, a cancel or a reset takes a job from its seat: the next claim gives it to another one. Returns what is
    /// announced.
    fn leave_seat(&mut self, id: JobId) -> StoreTime {
        let job = self.jobs.get_mut(&id).expect("the job exists");
        if std::mem::take(&mut job.seat) != Seat::Taken(self.rule) {
            return StoreTime::NEVER;
        }
        self.left.extend(job.group.clone());
        ANYTHING
    }

    fn of_group(&self, group: &str) -> impl Iterator<Item = (JobId, &Job)> {
        let jobs = self.jobs.iter().map(|(id, job)| (*id, job));
        jobs.filter(move |(_, job)| job.group.as_deref() == Some(group))
    }

    /// The first job of a group that is in this state, due by `due`, and not held.
    fn first_of_group(&self, group: &str, seat: Seat, due: StoreTime) -> Option<JobId> {
        let jobs = self.of_group(group);
        let first = jobs
            .filter(|(_, job)| job.seat == seat && job.token.is_none() && job.at <= due)
            .filter(|(_, job)| job.place_of(true).is_none())
            .min_by_key(|(id, _)| self.line(*id));
        first.map(|(id, _)| id)
    }

    /// Urgent jobs first, then by due time, then by id.
    fn line(&self, id: JobId) -> (bool, StoreTime, JobId) {
        let job = &self.jobs[&id];
        (!job.urgent, job.at, id)
    }

    fn has_free_seat(&self, rule: Groups, group: &str) -> bool {
        let seated = self
            .of_group(group)
            .filter(|(_, job)| job.seat == Seat::Taken(self.rule));
        seated.count() < rule.seats() as usize
    }

    /// Gives the free seats of a group to its next jobs. Returns these.
    fn call_group(&mut self, group: Option<&str>, now: StoreTime) -> Vec<JobId> {
        let mut called = Vec::new();
        let (Some(rule), Some(group)) = (self.groups, group) else {
            return called;
        };
        while self.has_free_seat(rule, group) {
            let is_fair = rule == Groups::Fair;
            let waiting = self.first_of_group(group, Seat::Awaited(self.rule), StoreTime::NEVER);
            let fresh = self.first_of_group(group, Seat::None, now);
            let first = match rule {
                // In order, whether or not a claim has looked at it.
                Groups::Ordered => waiting
                    .into_iter()
                    .chain(fresh)
                    .min_by_key(|id| self.line(*id)),
                Groups::Concurrency(_) => waiting,
                Groups::Fair => waiting.or(fresh),
            };
            let Some(id) = first else {
                break;
            };
            let job = self.jobs.get_mut(&id).expect("the job exists");
            job.seat = Seat::Taken(self.rule);
            // Behind those that are available already.
            job.due = if is_fair { job.at.max(now) } else { job.at };
            called.push(id);
        }
        called
    }

    /// Held jobs get seats. Claims free the others from the former rule.
    fn set_groups(&mut self, rule: Option<Groups>) {
        if self.groups == rule {
            return;
        }
        self.groups = rule;
        self.rule += 1;
        if rule.is_some_and(|rule| rule != Groups::Fair) {
            let is_held = |job: &&mut Job| job.token.is_some() && job.group.is_some();
            for job in self.jobs.values_mut().filter(is_held) {
                job.seat = Seat::Taken(self.rule);
            }
        }
    }

    /// At the start of a claim: frees jobs that a former rule has stopped, and gives away seats that were left by others
    /// than settles. Returns whether there may be more to free.
    fn renew_groups(&mut self, now: StoreTime) -> bool {
        let current = [Seat::None, Seat::Taken(self.rule), Seat::Awaited(self.rule)];
        let is_former = |job: &&mut Job| !current.contains(&job.seat);
        let former = self.jobs.values_mut().filter(is_former);
        let mut freed = 0;
        for job in former.take(PARK_LIMIT as usize) {
            freed += 1;
            if let Seat::Awaited(_) = std::mem::take(&mut job.seat) {
                job.due = job.at;
            }
        }
        for group in std::mem::take(&mut self.left) {
            self.call_group(Some(&group), now);
        }
        freed == PARK_LIMIT
    }

    /// Returns whether the rule of the groups lets a job be claimed. If not, it waits.
    fn has_seat(&mut self, id: JobId, now: StoreTime) -> bool {
        let job = &self.jobs[&id];
        let (Some(rule), Some(group)) = (self.groups, job.group.clone()) else {
            return true;
        };
        if job.seat == Seat::Taken(self.rule) || rule == Groups::Fair && job.token.is_some() {
            return true;
        }
        if self.has_free_seat(rule, &group) {
            let first = match rule {
                Groups::Ordered => self.first_of_group(&group, Seat::None, job.at.max(now)),
                _ => None,
            };
            let first = first.unwrap_or(id);
            if self.locked.contains(&first) {
                // Another transaction has locked the job that goes first: the next claim tries again.
                self.left.insert(group);
            } else {
                let first = self.jobs.get_mut(&first).expect("the job exists");
                first.seat = Seat::Taken(self.rule);
            }
            if first == id {
                return true;
            }
        }
        let job = self.jobs.get_mut(&id).expect("the job exists");
        job.fence_off();
        (job.seat, job.due) = (Seat::Awaited(self.rule), StoreTime::NEVER);
        false
    }

    /// A claim has taken a job, or parked it for its kind. Returns those of its group that are called to its seat.
    fn pass_seat_on(&mut self, id: JobId, now: StoreTime, is_parked: bool) -> Vec<JobId> {
        let leaves = match self.groups {
            None | Some(Groups::Ordered) => false,
            Some(Groups::Concurrency(_)) => is_parked,
            Some(Groups::Fair) => true,
        };
        if !leaves {
            return Vec::new();
        }
        let job = self.jobs.get_mut(&id).expect("the job exists");
        job.seat = Seat::None;
        let group = job.group.clone();
        self.call_group(group.as_deref(), now)
    }

    fn fence_off(&mut self, leases: &[(StoreTime, JobId)]) {
        for (_, id) in leases {
            self.jobs.get_mut(id).expect("the job exists").fence_off();
        }
    }

    /// Ends of the leases of a kind, in order.
    fn leases_of(&self, kind: &str) -> Vec<(StoreTime, JobId)> {
        let is_held = |job: &Job| job.token.is_some() && job.place_of(false) == Some(kind);
        let held = self.jobs.iter().filter(|(_, job)| is_held(job));
        let mut leases: Vec<_> = held.map(|(id, job)| (job.due, *id)).collect();
        leases.sort_unstable();
        leases
    }

    /// Number of jobs of a kind that may be held in addition to live leases.
    fn places(&self, kind: &str, now: StoreTime) -> u32 {
        let live = self
            .leases_of(kind)
            .into_iter()
            .filter(|(end, _)| *end > now);
        let live = u32::try_from(live.count()).unwrap_or(u32::MAX);
        let most = self.limits[kind].most.unwrap_or(u32::MAX);
        most.saturating_sub(live)
    }

    /// Number of jobs of a kind that may be claimed for a start at `at`.
    fn room(&self, kind: &str, now: StoreTime, at: StoreTime) -> u32 {
        let limit = &self.limits[kind];
        let tokens = limit
            .rate
            .map_or(u32::MAX, |rate| rate.tokens(limit.full, at));
        self.places(kind, now).min(tokens)
    }

    /// The kind of a job, if it has limits.
    fn limited(&self, id: JobId) -> Option<String> {
        let kind = self.jobs[&id].kind.as_ref()?;
        self.limits.contains_key(kind).then(|| kind.clone())
    }

    /// Parks a job if its kind has no room. Returns whether it has.
    fn has_room_of_kind(&mut self, id: JobId, now: StoreTime) -> bool {
        let Some(kind) = self.limited(id) else {
            return true;
        };
        let has_room = self.room(&kind, now, self.jobs[&id].at.max(now)) > 0;
        if !has_room {
            let job = self.jobs.get_mut(&id).expect("the job exists");
            job.fence_off();
            job.due = StoreTime::NEVER;
            job.place = Some(Place {
                kind,
                is_parked: true,
            });
        }
        has_room
    }

    /// Gives a place to a job that is claimed, and fences off expired leases that are in its way.
    fn take_place(&mut self, id: JobId, now: StoreTime) {
        let kind = self.limited(id);
        let job = self.jobs.get_mut(&id).expect("the job exists");
        let at = job.at.max(now);
        job.place = None;
        let Some(kind) = kind else { return };
        let mut leases = self.leases_of(&kind);
        leases.retain(|(_, other)| *other != id);
        let limit = self.limits.get_mut(&kind).expect("it has limits");
        if let Some(rate) = limit.rate {
            limit.full = rate.take(limit.full, at);
        }
        let expired = leases.iter().filter(|(end, _)| *end <= now).count();
        let most = limit.most.map_or(usize::MAX, |most| most as usize);
        let needed = (leases.len() + 1).saturating_sub(most).min(expired);
        self.fence_off(&leases[..needed]);
        let is_parked = false;
        let job = self.jobs.get_mut(&id).expect("the job exists");
        job.place = Some(Place { kind, is_parked });
    }

    /// Parked jobs of a kind, in the order in which they are called.
    fn parked(&self, kind: &str) -> Vec<JobId> {
        let parked = self
            .jobs
            .iter()
            .filter(|(_, job)| job.place_of(true) == Some(kind));
        let mut parked: Vec<_> = parked.collect();
        parked.sort_by_key(|(id, job)| (!job.urgent, job.at, **id));
        parked.into_iter().map(|(id, _)| *id).collect()
    }

    /// Calls as many parked jobs as there is room for. Returns whether there were any.
    fn call_parked(&mut self, now: StoreTime) -> bool {
        let mut any = false;
        let kinds: Vec<String> = self.limits.keys().cloned().collect();
        for kind in kinds {
            let is_called = |job: &&Job| job.token.is_none() && job.place_of(false) == Some(&kind);
            let called = self.jobs.values().filter(is_called).count();
            let room = self.room(&kind, now, now) as usize;
            let room = room.saturating_sub(called).min(PARK_LIMIT as usize);
            for id in self.parked(&kind).into_iter().take(room) {
                let job = self.jobs.get_mut(&id).expect("the job exists");
                job.due = job.at;
                job.place.as_mut().expect("it is parked").is_parked = false;
                any = true;
            }
        }
        any
    }

    /// The next token of a rate whose kind has parked jobs, also if they lack a place as well: a settle that makes room
    /// is not announced while there is no token.
    fn next_token(&self, now: StoreTime, rooms: &Rooms<'_>) -> Option<StoreTime> {
        let stopped = self
            .limits
            .iter()
            .filter(|(kind, _)| rooms.has_room(Some(kind)) && !self.parked(kind).is_empty());
        let tokens = stopped.filter_map(|(_, limit)| Some(limit.rate?.next(limit.full)));
        tokens.filter(|at| *at > now).min()
    }

    fn limit(&mut self, now: StoreTime, limit: &Limit, is_set: bool) -> Result<()> {
        let kind = match limit {
            Limit::Groups(rule) => {
                self.set_groups(is_set.then_some(*rule));
                return Ok(());
            }
            Limit::PerKind { kind, .. } | Limit::RateOfKind { kind, .. } => kind,
            _ => return Err(StoreError::new(ErrorKind::Unsupported)),
        };
        let is_new = is_set && !self.limits.contains_key(kind);
        if !is_set && !self.limits.contains_key(kind) {
            self.call_parked(now);
            return Ok(());
        }
        let limits = self.limits.entry(kind.clone()).or_default();
        match limit {
            Limit::PerKind { most, .. } => limits.most = is_set.then_some(*most),
            Limit::RateOfKind { rate, .. } if is_set => {
                if limits.rate != Some(*rate) {
                    limits.full = rate.changed(limits.full, now);
                }
                limits.rate = Some(*rate);
            }
            _ => limits.rate = None,
        }
        if is_new {
            let is_of = |job: &&mut Job| job.token.is_some() && job.kind.as_ref() == Some(kind);
            for job in self.jobs.values_mut().filter(is_of) {
                let (kind, is_parked) = (kind.clone(), false);
                job.place = Some(Place { kind, is_parked });
            }
        }
        if limits.most.is_none() && limits.rate.is_none() {
            self.limits.remove(kind);
            for job in self.jobs.values_mut() {
                if job.place_of(true) == Some(kind) {
                    job.due = job.at;
                }
                job.place = job.place.take().filter(|place| place.kind != *kind);
            }
        }
        self.call_parked(now);
        Ok(())
    }

    fn limits(&self) -> Vec<Limit> {
        let mut limits: Vec<_> = self.groups.map(Limit::Groups).into_iter().collect();
        for (kind, limit) in &self.limits {
            limits.extend(limit.most.map(|most| Limit::per_kind(kind, most)));
            let kind = || kind.clone();
            limits.extend(
                limit
                    .rate
                    .map(|rate| Limit::RateOfKind { kind: kind(), rate }),
            );
        }
        limits
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
            Act::Release if job.cancelled => _ = self.jobs.remove(&id),
            Act::Release => {
                job.attempts -= u32::from(job.started);
                job.free(job.at);
                self.reopen(id);
            }
            _ if !job.started => return Verdict::Stale,
            Act::Extend { lease } => job.due = now.after(lease),
            Act::Ack => _ = self.jobs.remove(&id),
            Act::Keep(keep) => {
                let job = self.jobs.remove(&id).expect("the job exists");
                let done = DoneJob {
                    id,
                    key: job.key,
                    kind: job.kind,
                    attempts: job.attempts,
                    finished: now,
                    took: keep.took,
                    until: now.after(keep.span),
                    result: keep.result.map(<[u8]>::to_vec),
                };
                self.done.insert(id, done);
            }
            Act::Again { .. } | Act::Retry { .. } if job.cancelled => _ = self.jobs.remove(&id),
            Act::Again { .. } if job.schedule.is_none() => _ = self.jobs.remove(&id),
            Act::Again { when } => {
                // A push during the run may have set an earlier time.
                job.free(when.resolve(now).min(job.most));
                (job.attempts, job.most) = (0, StoreTime::NEVER);
                job.failures = None;
                self.reopen(id);
            }
            Act::Retry {
                when,
                failures,
                counts,
            } => {
                job.fail(failures);
                job.attempts -= u32::from(!counts);
                job.put_at(when.resolve(now));
                self.reopen(id);
            }
            Act::Bury {
                error,
                failures,
                counts,
            } => {
                job.fail(failures);
                let job = self.jobs.remove(&id).expect("the job exists");
                let dead = DeadJob {
                    id,
                    key: job.key,
                    group: job.group,
                    payload: job.payload,
                    attempts: job.attempts - u32::from(!counts),
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
        let frees = self.leave_seat(id);
        let job = self.jobs.remove(&id).expect("the job exists");
        let calls = self.call_parked(now).then_some(ANYTHING);
        let announced = job.announced(calls.unwrap_or(never).min(frees));
        let announced = announced.min(marks);
        let (payload, attempts) = (job.payload, job.attempts);
        (Cancelled::Gone { payload, attempts }, announced)
    }

    fn due_of_kinds(&self, now: StoreTime) -> BTreeMap<&str, usize> {
        let mut counts = BTreeMap::new();
        let due = self.jobs.values().filter(|job| job.due <= now);
        for kind in due.filter_map(|job| job.kind.as_deref()) {
            *counts.entry(kind).or_default() += 1;
        }
        counts
    }

    /// Jobs ordered by the time from which they can be claimed, then by id.
    fn in_order(&self) -> Vec<(StoreTime, JobId)> {
        let mut order: Vec<_> = self.jobs.iter().map(|(id, job)| (job.due, *id)).collect();
        order.sort_unstable();
        order
    }

    /// Also returns whether a job was called that this claim does not take, although other processes may.
    fn claim(&mut self, now: StoreTime, claim: &Claim<'_>) -> (Claimed, bool) {
        let until = now.after(claim.lease);
        let end = now.after(claim.horizon);
        let max = if self.paused { 0 } else { claim.max };
        let (mut started, mut ahead) = (0, 0);
        let mut is_short = false;
        let mut leases: Vec<Lease> = Vec::new();
        let mut rooms = Rooms::of(claim);
        let mut parked = 0;
        self.call_parked(now);
        let frees_more = self.renew_groups(now);
        let mut called = Vec::new();
        let mut seen = None;
        while seen != Some(called.len()) {
            seen = Some(called.len());
            let mut order = self.in_order();
            if claim.urgent_first {
                // The sort is stable, so the others keep their order.
                order.sort_by_key(|(due, id)| !(*due <= now && self.jobs[id].urgent));
            }
            for (due, id) in order {
                let job = &self.jobs[&id];
                let is_here = due <= now || due <= end && job.token.is_none();
                let is_mine = job.token == Some(claim.token) || job.due != due;
                let is_locked = self.locked.contains(&id);
                is_short |= due <= now && is_locked && rooms.has(job);
                let may = is_here && !is_locked && !is_mine && rooms.has(job);
                let has_room = due <= now && started < claim.start || ahead < claim.ahead;
                if !may || started + ahead >= max || !has_room || parked >= PARK_LIMIT {
                    continue;
                }
                if !self.has_seat(id, now) {
                    parked += 1;
                    continue;
                }
                if !self.has_room_of_kind(id, now) {
                    parked += 1;
                    called.extend(self.pass_seat_on(id, now, true));
                    continue;
                }
                self.take_place(id, now);
                let job = self.jobs.get_mut(&id).expect("the job exists");
                rooms.take(job);
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
                called.extend(self.pass_seat_on(id, now, false));
            }
        }
        self.call_parked(now);
        let is_for_others = |id: &JobId| {
            let job = &self.jobs[id];
            job.token.is_none() && !rooms.has(job)
        };
        let calls = called.iter().any(is_for_others);
        is_short |= !self.left.is_empty();
        leases.sort_by_key(|lease| (lease.due, lease.id));
        let first =
            |dues: &mut dyn Iterator<Item = StoreTime>| dues.min().unwrap_or(StoreTime::NEVER);
        let known = || self.jobs.iter().filter(|(_, job)| rooms.has(job));
        let free = known().filter(|(_, job)| job.token.is_none());
        let is_passed_over =
            |(id, job): &(&JobId, &Job)| is_short && job.due <= now && self.locked.contains(id);
        let others = known().filter(|it| !is_passed_over(it));
        let again = is_short.then(|| now.after(LOCKED_AGAIN));
        let claimed = Claimed {
            leases,
            first: first(
                &mut others
                    .map(|(_, job)| job.due)
                    .chain(again)
                    .chain(frees_more.then_some(now))
                    .chain(self.next_token(now, &rooms)),
            ),
            first_free: first(&mut free.map(|(_, job)| job.due)),
        };
        (claimed, calls)
    }
}

/// How many more jobs of each kind a claim may take. `None`: any jobs.
struct Rooms<'a>(Option<BTreeMap<&'a str, u32>>);

impl<'a> Rooms<'a> {
    fn of(claim: &Claim<'a>) -> Self {
        let room = |it: &KindRoom<'a>| (it.kind, it.room);
        Self(claim.kinds.map(|kinds| kinds.iter().map(room).collect()))
    }

    fn has(&self, job: &Job) -> bool {
        self.has_room(job.kind.as_deref())
    }

    fn has_room(&self, kind: Option<&str>) -> bool {
        self.0.as_ref().is_none_or(|rooms| {
            let room = kind.and_then(|kind| rooms.get(kind));
            room.is_some_and(|room| *room > 0)
        })
    }

    fn take(&mut self, job: &Job) {
        if let (Some(rooms), Some(kind)) = (&mut self.0, &job.kind) {
            *rooms.get_mut(kind.as_str()).expect("it is listed") -= 1;
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
        plan: impl Fn(&[Settle<'_>], Option<&Claim<'_>>) -> Fault + Send + Sync + 'static,
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
            let (puts, frees): (Vec<(Put, StoreTime)>, bool) = self.step(name, |queue, now| {
                let puts: Vec<_> = jobs.iter().map(|job| queue.put(now, job)).collect();
                let is_merged = |(put, _): &(Put, StoreTime)| matches!(put, Put::Merged(_));
                let frees = puts.iter().any(is_merged) && queue.call_parked(now);
                (puts, frees)
            });
            let frees = frees.then_some(ANYTHING);
            let earliest = puts.iter().map(|(_, at)| *at).chain(frees).min();
            self.notify(heard, name, earliest.unwrap_or(StoreTime::NEVER));
            Ok(puts.into_iter().map(|(put, _)| put).collect())
        })
    }

    fn turn(&self, name: &str, settle: &[Settle<'_>], claim: Option<Claim<'_>>) -> Result<Turn> {
        self.0.plan.run_turn(settle, claim.as_ref(), |heard| {
            let (turn, calls) = self.step(name, |queue, now| {
                let (verdicts, mut calls) = queue.settle_all(now, settle);
                let claimed = claim.map(|claim| {
                    let (claimed, calls_others) = queue.claim(now, &claim);
                    calls |= calls_others;
                    claimed
                });
                let paused = queue.paused;
                let turn = Turn {
                    now,
                    paused,
                    verdicts,
                    claimed,
                };
                (turn, calls)
            });
            self.notify(heard, name, announced(settle, turn.now, calls));
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
                    let announced = announced.min(queue.leave_seat(id));
                    let frees = queue.call_parked(now).then_some(ANYTHING);
                    (Reset::Moved, announced.min(frees.unwrap_or(never)))
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

    fn limit(&self, name: &str, limit: &Limit, is_set: bool) -> Result<()> {
        self.0.plan.run(Call::Limit, |heard| {
            self.step(name, |queue, now| queue.limit(now, limit, is_set))?;
            self.notify(heard, name, ANYTHING);
            Ok(())
        })
    }

    fn limits(&self, name: &str) -> Result<Vec<Limit>> {
        self.0.plan.run(Call::Other, |_| {
            Ok(self.step(name, |queue, _| queue.limits()))
        })
    }

    fn stats(&self, name: &str) -> Result<StoreStats> {
        self.0.plan.run(Call::Other, |_| {
            let limited = |count: usize| u32::try_from(count).unwrap_or(u32::MAX).min(COUNT_LIMIT);
            Ok(self.step(name, |queue, now| StoreStats {
                jobs: limited(queue.jobs.len()),
                due: limited(queue.jobs.values().filter(|job| job.due <= now).count()),
                dead: limited(queue.dead.len()),
                due_of_kinds: queue
                    .due_of_kinds(now)
                    .into_iter()
                    .map(|(kind, count)| (kind.to_owned(), limited(count)))
                    .collect(),
                paused: queue.paused,
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
                        state: JobState::of(
                            job.token.is_some(),
                            job.started,
                            due,
                            job.at,
                            job.attempts,
                            now,
                        ),
                        attempts: job.attempts,
                        key: job.key.clone(),
                        group: job.group.clone(),
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
                    let is_free = |dead: &DeadJob| {
                        let repeats = dead.schedule.is_some();
                        let mut of_key = dead.key.iter().flat_map(|key| queue.of_key(key));
                        !of_key.any(|(_, job)| !job.ran || repeats && job.schedule.is_some())
                    };
                    if !queue.dead.get(id).is_some_and(is_free) {
                        continue;
                    }
                    let dead = queue.dead.remove(id).expect("the job exists");
                    let job = Job {
                        at: now,
                        most: StoreTime::NEVER,
                        due: now,
                        place: None,
                        seat: Seat::None,
                        token: None,
                        started: false,
                        ran: false,
                        attempts: 0,
                        key: dead.key,
                        group: dead.group,
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

    fn fate(&self, name: &str, id: JobId) -> Result<Fate> {
        self.0.plan.run(Call::Other, |_| {
            Ok(self.step(name, |queue, now| {
                let done = queue.done.get(&id).filter(|done| done.until > now);
                if queue.jobs.contains_key(&id) {
                    Fate::Open
                } else if let Some(dead) = queue.dead.get(&id) {
                    let error = dead.error.clone();
                    Fate::Dead { error }
                } else {
                    done.cloned().map_or(Fate::Gone, Fate::Done)
                }
            }))
        })
    }

    fn delete_done(&self, name: &str, most: u32) -> Result<usize> {
        self.0.plan.run(Call::DeleteDone, |_| {
            Ok(self.step(name, |queue, now| {
                let done = queue.done.values().filter(|done| done.until <= now);
                let mut ended: Vec<_> = done.map(|done| (done.until, done.id)).collect();
                ended.sort_unstable();
                ended.truncate(most as usize);
                for (_, id) in &ended {
                    queue.done.remove(id);
                }
                ended.len()
            }))
        })
    }
}
