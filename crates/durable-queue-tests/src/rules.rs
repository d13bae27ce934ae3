//! What must hold after each step of a random program, as far as it can be seen from outside a store: no limit is
//! exceeded, no job waits without a reason, and no process sleeps while there is a job for it.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering::SeqCst};
use std::sync::mpsc::{Receiver, channel};
use std::time::Duration;

use durable_queue::store::{Lease, ListedJob, Watch};
use durable_queue::{Groups, Limit, Notifier, Store, StoreTime};

pub(crate) const QUEUE: &str = "queue";
/// How long before their times jobs are claimed.
pub(crate) const HORIZON: Duration = Duration::from_secs(1);

/// What the program knows of the jobs' waits.
pub(crate) struct Rules {
    /// The rule of groups does not change within the program: otherwise more jobs may be held than have seats since then,
    /// and each is taken over.
    pub(crate) groups_stay: bool,
    /// No job changes its kind, so the list tells under which limit it is held.
    pub(crate) kinds_stay: bool,
    /// The clock is set back at times. Then jobs may wait for the end of a former lease, or for their own time.
    pub(crate) has_jumps: bool,
}

fn is_live(job: &ListedJob) -> bool {
    job.state.is_held()
}

fn is_parked(job: &ListedJob) -> bool {
    job.due == StoreTime::NEVER && job.at != StoreTime::NEVER
}

fn live<'a>(listed: &'a [ListedJob], is_meant: impl Fn(&ListedJob) -> bool + 'a) -> usize {
    let live = listed.iter().filter(|job| is_live(job) && is_meant(job));
    live.count()
}

fn rule_of_groups(limits: &[Limit]) -> Option<Groups> {
    limits.iter().find_map(|limit| match limit {
        Limit::Groups(rule) => Some(*rule),
        _ => None,
    })
}

impl Rules {
    /// After a claim: it has exceeded no limit, and has called as many parked jobs as there is room for.
    pub(crate) fn check_claim(
        &self,
        now: StoreTime,
        leases: &[Lease],
        listed: &[ListedJob],
        limits: &[Limit],
    ) {
        let rule = rule_of_groups(limits);
        if let Some(rule) = rule {
            self.check_groups(now, leases, listed, rule, limits);
        }
        if !self.kinds_stay {
            return;
        }
        let may_wait_for_group = |job: &ListedJob| rule.is_some() && job.group.is_some();
        for job in listed.iter().filter(|job| is_parked(job)) {
            let is_limited = limits.iter().any(|limit| match limit {
                Limit::PerKind { kind, .. } | Limit::RateOfKind { kind, .. } => {
                    job.kind.as_ref() == Some(kind)
                }
                _ => false,
            });
            assert!(
                is_limited || may_wait_for_group(job),
                "{job:?} is parked without a limit"
            );
        }
        for limit in limits {
            let Limit::PerKind { kind, most } = limit else {
                continue;
            };
            let (most, is_its) = (*most as usize, |job: &ListedJob| {
                job.kind.as_ref() == Some(kind)
            });
            let held = live(listed, is_its);
            let has_more = leases.iter().any(|lease| lease.kind.as_ref() == Some(kind));
            assert!(
                held <= most || !has_more,
                "{held} jobs of the kind {kind} are held: {listed:?}"
            );
            let has_rate = limits.iter().any(
                |limit| matches!(limit, Limit::RateOfKind { kind: other, .. } if other == kind),
            );
            let mut its = listed.iter().filter(|job| is_its(job));
            let may_start = |job: &&ListedJob| !is_live(job) && job.due <= now.after(HORIZON);
            let called = its.clone().filter(may_start).count();
            let waits_for_it = |job: &ListedJob| is_parked(job) && !may_wait_for_group(job);
            assert!(
                self.has_jumps || has_rate || held + called >= most || !its.any(waits_for_it),
                "jobs of the kind {kind} are parked, although there is room: {listed:?}"
            );
        }
    }

    /// After a claim: it has given no more seats than there are, and no job waits for a seat that is free.
    fn check_groups(
        &self,
        now: StoreTime,
        leases: &[Lease],
        listed: &[ListedJob],
        rule: Groups,
        limits: &[Limit],
    ) {
        let groups: BTreeSet<&String> = listed.iter().filter_map(|it| it.group.as_ref()).collect();
        for group in groups {
            let of_group = || {
                listed
                    .iter()
                    .filter(|job| job.group.as_ref() == Some(group))
            };
            let held = of_group().filter(|job| is_live(job)).count();
            let is_new = |job: &ListedJob| leases.iter().any(|lease| lease.id == job.id);
            let seats = rule.seats() as usize;
            assert!(
                rule == Groups::Fair
                    || !self.groups_stay
                    || held <= seats
                    || !of_group().any(is_new),
                "{held} jobs of the group {group} are held: {listed:?}"
            );
            // A job of a limited kind may wait for that.
            let is_limited = |job: &&ListedJob| {
                limits.iter().any(|limit| match limit {
                    Limit::PerKind { kind, .. } | Limit::RateOfKind { kind, .. } => {
                        job.kind.as_ref() == Some(kind)
                    }
                    _ => false,
                })
            };
            if self.has_jumps || of_group().any(|job| is_limited(&job)) {
                continue;
            }
            let has_seat = |job: &&ListedJob| match rule {
                Groups::Ordered => !is_parked(job),
                Groups::Concurrency(_) => is_live(job) || job.due <= now.after(HORIZON),
                Groups::Fair => !is_live(job) && job.due <= now.after(HORIZON),
            };
            assert!(
                of_group().filter(has_seat).count() >= seats || !of_group().any(is_parked),
                "jobs of the group {group} wait for a free seat: {listed:?}"
            );
        }
    }
}

/// A process that has found no job, and sleeps until the time that its last claim has returned, or until it is
/// notified.
pub(crate) struct Sleeper {
    wakes: Arc<AtomicI64>,
    _watch: Box<dyn Watch>,
}

impl Sleeper {
    pub(crate) fn of(store: &dyn Store) -> Self {
        let wakes = Arc::new(AtomicI64::new(i64::MIN));
        let told = Arc::clone(&wakes);
        let notifier = Notifier::new(move |due| _ = told.fetch_min(due.as_micros(), SeqCst));
        Self {
            wakes,
            _watch: store.watch(QUEUE, notifier).unwrap(),
        }
    }

    /// Returns whether it sleeps. Forgets all announcements, because its next claim reads the store.
    pub(crate) fn falls_asleep(&self, now: StoreTime) -> bool {
        self.wakes.swap(i64::MAX, SeqCst) > now.as_micros()
    }

    pub(crate) fn wakes_at(&self, first: StoreTime) {
        self.wakes.fetch_min(first.as_micros(), SeqCst);
    }
}

/// Waits until a store has heard the announcements of other processes. They come in the order of the calls.
pub struct Fence<'a> {
    other: &'a dyn Store,
    heard: Receiver<StoreTime>,
    _watch: Box<dyn Watch>,
}

impl<'a> Fence<'a> {
    const NAME: &'static str = "fence";

    /// `listener`: the store that hears. `other`: another store of the same data.
    pub fn new(listener: &dyn Store, other: &'a dyn Store) -> Self {
        let (sender, heard) = channel();
        let notifier = Notifier::new(move |due| _ = sender.send(due));
        let watch = listener.watch(Self::NAME, notifier).unwrap();
        Self {
            other,
            heard,
            _watch: watch,
        }
    }

    pub fn wait(&self) {
        while self.heard.try_recv().is_ok() {}
        self.other.pause(Self::NAME, false).unwrap();
        self.heard.recv_timeout(testkit::LIMIT).unwrap();
    }
}
