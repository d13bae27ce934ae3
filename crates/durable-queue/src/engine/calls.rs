//! Calls that wait for jobs, first come, first served, and spare jobs.
//!
//! Waiters are not woken here: a section moves them into its wake list, and wakes them afterwards.
//!
//! # Invariants
//! 1. A call waits, is served, or is gone. It is served once, with at least one job.
//! 2. [`Lanes::most`] is the number of jobs that the waiting calls of the lanes want.
//! 3. No call waits while there is a spare job that it may run.

use std::collections::{BTreeMap, VecDeque};
use std::mem;
use std::time::{Duration, Instant};

use sync_shim::waiter::{Waiter, WakeList};

use crate::engine::command::Ready;
use crate::engine::lanes::{ANY, Lanes, LanesId};

/// Maximum demand of a call, so that the sum of all demands cannot overflow.
const MOST_WANTED: usize = 1 << 20;

/// Number of jobs that a call waits for.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Wanted {
    /// Up to this many, all for the call itself.
    Own(usize),
    /// Up to `own` for the call itself. The others, up to `most` in all, are spare jobs for any later call. If
    /// `patience` is set, they are released after it.
    Spare {
        own: usize,
        most: usize,
        patience: Option<Duration>,
    },
}

impl Wanted {
    /// Number of jobs to claim.
    fn most(self) -> usize {
        let (Self::Own(most) | Self::Spare { most, .. }) = self;
        most.min(MOST_WANTED)
    }

    /// Maximum number of jobs for the call itself.
    fn own(self) -> usize {
        let (Self::Own(own) | Self::Spare { own, .. }) = self;
        own.min(MOST_WANTED)
    }
}

/// Wish of a worker that takes spare jobs: so that its handlers need not wait for a claim, it is on its way before the last
/// spare job is taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Refill {
    /// Number of spare jobs that are left when it is time for a claim.
    pub(crate) low: usize,
    /// Number of jobs to claim.
    pub(crate) more: usize,
    /// When they are released.
    pub(crate) patience: Duration,
}

/// Identifies a call. Later calls have greater tickets.
pub(crate) type Ticket = u64;

#[derive(Debug)]
pub(crate) struct Calls {
    waiting: BTreeMap<Ticket, Waiting>,
    served: BTreeMap<Ticket, Vec<Ready>>,
    next: Ticket,
    /// By their ids, [`ANY`] first.
    lanes: Vec<Lanes>,
    spares: VecDeque<Spare>,
    /// The last wish that no claim has taken into account.
    refill: Option<Refill>,
    /// When to look at the spare jobs.
    look_at: Option<Instant>,
    changes: u64,
}

/// What the waiting calls want.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Demand {
    /// Number of jobs.
    pub(crate) jobs: usize,
    /// The kinds of these jobs, and the maximum of each. `None`: any.
    pub(crate) kinds: Option<Vec<(&'static str, usize)>>,
    /// A wish for spare jobs, which are among `jobs`.
    pub(crate) refill: Option<Refill>,
}

/// A started job without a call.
#[derive(Debug)]
struct Spare {
    job: Ready,
    /// When it is released.
    until: Option<Instant>,
}

#[derive(Debug)]
struct Waiting {
    lanes: LanesId,
    wanted: Wanted,
    waiter: Waiter,
    /// Jobs that it gets in the section that serves it.
    given: Vec<Ready>,
}

/// State of a call.
#[derive(Debug)]
pub(crate) enum Look {
    /// It waits. Contains its previous waiter, to be dropped after the section.
    Waits(Waiter),
    /// It was served with these jobs, and is gone.
    Served(Vec<Ready>),
    /// It is gone, because the queue was closed.
    Gone,
}

impl Calls {
    pub(crate) fn new() -> Self {
        Self {
            waiting: BTreeMap::new(),
            served: BTreeMap::new(),
            next: 0,
            lanes: vec![Lanes::any()],
            spares: VecDeque::new(),
            refill: None,
            look_at: None,
            changes: 0,
        }
    }

    /// Adds the lanes of a worker.
    pub(crate) fn add_lanes(&mut self, lanes: Lanes) -> LanesId {
        self.lanes.push(lanes);
        self.lanes.len() - 1
    }

    /// Returns the lanes of the handles of a kind.
    pub(crate) fn lanes_of(&mut self, kind: &'static str) -> LanesId {
        let known = self.lanes.iter().position(|lanes| lanes.is_handle(kind));
        known.unwrap_or_else(|| self.add_lanes(Lanes::handle(kind)))
    }

    /// Grows with each change of the demand.
    pub(crate) fn changes(&self) -> u64 {
        self.changes
    }

    /// Calls for any jobs go first: what they leave is known to the next claim, which is for the kinds of the others.
    ///
    /// A wish for spare jobs is for one claim.
    pub(crate) fn demand(&mut self) -> Demand {
        let refill = self.refill.take();
        let any = self.lanes[ANY].most + refill.map_or(0, |refill| refill.more);
        if any > 0 {
            return Demand {
                jobs: any,
                kinds: None,
                refill,
            };
        }
        let mut demand = Demand::default();
        for lanes in self.lanes.iter().filter(|lanes| lanes.most > 0) {
            let all = demand.kinds.get_or_insert_default();
            let mut sum = 0_usize;
            for (kind, room) in lanes.rooms().into_iter().flatten() {
                sum = sum.saturating_add(room);
                match all.iter_mut().find(|(other, _)| *other == kind) {
                    Some((_, other)) => *other += room,
                    None => all.push((kind, room)),
                }
            }
            demand.jobs += sum.min(lanes.most);
        }
        demand
    }

    /// Adds a call. If there are spare jobs that it may run, it is served at once.
    pub(crate) fn enqueue(
        &mut self,
        lanes: LanesId,
        wanted: Wanted,
        waiter: Waiter,
        wakes: &mut WakeList,
    ) -> Ticket {
        let ticket = self.next;
        self.next += 1;
        let mut jobs = Vec::new();
        while jobs.len() < wanted.own()
            && let Some(job) = self.take_spare(lanes)
        {
            jobs.push(job);
        }
        if jobs.is_empty() {
            self.refill = None; // The call wants spare jobs, too.
            self.add_demand(lanes, wanted);
            let given = Vec::new();
            let call = Waiting {
                lanes,
                wanted,
                waiter,
                given,
            };
            self.waiting.insert(ticket, call);
        } else {
            self.served.insert(ticket, jobs);
            wakes.push(waiter);
        }
        ticket
    }

    fn add_demand(&mut self, lanes: LanesId, wanted: Wanted) {
        let lanes = &mut self.lanes[lanes];
        lanes.most += wanted.most();
        lanes.patience = match wanted {
            Wanted::Own(_) => Some(Duration::ZERO),
            Wanted::Spare { patience, .. } => patience,
        };
        self.changes += 1;
    }

    fn subtract_demand(&mut self, lanes: LanesId, wanted: Wanted) {
        self.lanes[lanes].most -= wanted.most();
        self.changes += 1;
    }

    /// Takes the spare job that has waited longest, of those that may run.
    pub(crate) fn take_spare(&mut self, lanes: LanesId) -> Option<Ready> {
        let lanes = &mut self.lanes[lanes];
        let find = |(place, spare): (usize, &Spare)| {
            let lane = lanes.find(spare.job.lease.kind.as_deref())?;
            Some((place, lane))
        };
        let (place, lane) = self.spares.iter().enumerate().find_map(find)?;
        lanes.begin(lane);
        let mut job = self.spares.remove(place)?.job;
        job.lane = lane;
        Some(job)
    }

    /// Asks for more spare jobs if few are left and no call waits. Returns whether it does. Jobs of a worker's kinds are not
    /// claimed in advance: its handlers may hang.
    pub(crate) fn refill(&mut self, lanes: LanesId, refill: Refill) -> bool {
        let is_low = lanes == ANY && self.waiting.is_empty() && self.spares.len() <= refill.low;
        if is_low {
            self.refill = Some(refill);
            self.changes += 1;
        }
        is_low
    }

    /// A job of a worker has ended, after `took`. Returns whether waiting calls may run more than before.
    pub(crate) fn ended(
        &mut self,
        lanes: LanesId,
        lane: usize,
        took: Duration,
        wakes: &mut WakeList,
    ) -> bool {
        let was_full = self.lanes[lanes].end(lane, took);
        if !was_full || self.lanes[lanes].most == 0 {
            return false;
        }
        self.changes += 1;
        for spare in mem::take(&mut self.spares) {
            let mut given = Given::default();
            let job = self.give(spare.job, &mut given, wakes);
            self.finish(&mut given, wakes);
            let until = spare.until;
            self.spares.extend(job.map(|job| Spare { job, until }));
        }
        true
    }

    /// When to call [`late`](Self::late).
    pub(crate) fn look_at(&self) -> Option<Instant> {
        self.look_at
    }

    /// Removes the spare jobs whose time has passed, or all.
    pub(crate) fn late(&mut self, now: Instant, all: bool) -> Vec<Ready> {
        let spares = mem::take(&mut self.spares).into_iter();
        let is_late = |spare: &Spare| all || spare.until.is_some_and(|until| until <= now);
        let (late, kept) = spares.partition::<VecDeque<_>, _>(is_late);
        if !late.is_empty() {
            self.refill = None; // The same turn would claim them again.
        }
        self.spares = kept;
        self.look_at = self.spares.iter().filter_map(|spare| spare.until).min();
        late.into_iter().map(|spare| spare.job).collect()
    }

    /// Returns the state of a call. If it still waits, its waiter is replaced.
    pub(crate) fn look(&mut self, ticket: Ticket, waiter: &mut Option<Waiter>) -> Look {
        if let Some(jobs) = self.served.remove(&ticket) {
            return Look::Served(jobs);
        }
        match self.waiting.get_mut(&ticket) {
            None => Look::Gone,
            Some(call) => {
                let new = waiter.take().expect("the caller passes a waiter");
                Look::Waits(mem::replace(&mut call.waiter, new))
            }
        }
    }

    /// Changes the number of jobs that a call waits for, if it still waits.
    pub(crate) fn change(&mut self, ticket: Ticket, wanted: Wanted) {
        if let Some(call) = self.waiting.get_mut(&ticket) {
            let (lanes, before) = (call.lanes, mem::replace(&mut call.wanted, wanted));
            self.subtract_demand(lanes, before);
            self.add_demand(lanes, wanted);
        }
    }

    /// Removes a call. Returns the jobs that it was given, and its waiter.
    pub(crate) fn leave(&mut self, ticket: Ticket) -> (Vec<Ready>, Option<Waiter>) {
        let jobs = self.served.remove(&ticket).unwrap_or_default();
        let waiter = self.waiting.remove(&ticket).map(|call| {
            self.subtract_demand(call.lanes, call.wanted);
            call.waiter
        });
        (jobs, waiter)
    }

    /// Gives jobs to the calls that have waited longest, as many as each may run and wants for itself, and keeps the
    /// spare jobs that they or `refill` want in addition. Returns the rest, whose calls are gone.
    pub(crate) fn serve(
        &mut self,
        jobs: Vec<Ready>,
        refill: Option<Refill>,
        now: Instant,
        wakes: &mut WakeList,
    ) -> Vec<Ready> {
        let mut given = Given {
            room: refill.map_or(0, |refill| refill.more),
            patience: refill.map(|refill| refill.patience),
            ..Given::default()
        };
        let jobs = jobs.into_iter();
        let rest: Vec<_> = jobs
            .filter_map(|job| self.give(job, &mut given, wakes))
            .collect();
        self.finish(&mut given, wakes);
        let mut rest = rest.into_iter();
        let until = given
            .patience
            .and_then(|patience| now.checked_add(patience));
        let spare = |job| Spare { job, until };
        self.spares
            .extend(rest.by_ref().take(given.room).map(spare));
        if !self.spares.is_empty() {
            self.look_at = self.look_at.or(until);
        }
        rest.collect()
    }

    /// Gives a job to the first call that may run it, or returns it. [`finish`](Self::finish) must follow.
    fn give(&mut self, mut job: Ready, given: &mut Given, wakes: &mut WakeList) -> Option<Ready> {
        let kind = job.lease.kind.as_deref();
        let taker = self.waiting.iter_mut().find_map(|(ticket, call)| {
            let lane = self.lanes[call.lanes].find(kind)?;
            Some((*ticket, call, lane))
        });
        let Some((ticket, call, lane)) = taker else {
            return Some(job);
        };
        self.lanes[call.lanes].begin(lane);
        job.lane = lane;
        call.given.push(job);
        if call.given.len() == call.wanted.own() {
            self.serve_one(ticket, given, wakes);
        } else if call.given.len() == 1 {
            given.partly.push(ticket);
        }
        None
    }

    /// Serves the calls that have got some jobs, but less than they want.
    fn finish(&mut self, given: &mut Given, wakes: &mut WakeList) {
        for ticket in mem::take(&mut given.partly) {
            self.serve_one(ticket, given, wakes);
        }
    }

    fn serve_one(&mut self, ticket: Ticket, given: &mut Given, wakes: &mut WakeList) {
        let Some(call) = self.waiting.remove(&ticket) else {
            return; // It was served in full.
        };
        self.subtract_demand(call.lanes, call.wanted);
        if let Wanted::Spare { patience, .. } = call.wanted {
            given.room += call.wanted.most() - call.wanted.own();
            given.patience = given.patience.into_iter().chain(patience).min();
        }
        self.served.insert(ticket, call.given);
        wakes.push(call.waiter);
    }

    /// Ends all waiting calls. Served calls can still fetch their jobs.
    pub(crate) fn close(&mut self, wakes: &mut WakeList) {
        for call in mem::take(&mut self.waiting).into_values() {
            self.subtract_demand(call.lanes, call.wanted);
            wakes.push(call.waiter);
        }
    }
}

/// Effects of the calls that are served in a section.
#[derive(Default)]
struct Given {
    /// Calls that have got less than they want.
    partly: Vec<Ticket>,
    /// Number of spare jobs that the served calls want.
    room: usize,
    /// The shortest patience of these calls.
    patience: Option<Duration>,
}

#[cfg(all(test, not(anthill_loom)))]
mod tests {
    use sync_shim::Parker;

    use super::*;
    use crate::engine::signals::Signals;
    use crate::store::Lease;
    use crate::store::job::{JobId, Token};
    use crate::store::time::StoreTime;

    const MILLI: Duration = Duration::from_millis(1);

    fn job(id: u64, kind: Option<&str>) -> Ready {
        Ready {
            lease: Lease {
                id: JobId::from_u64(id),
                token: Token::random(),
                due: StoreTime::from_micros(0),
                started: true,
                attempts: 1,
                key: None,
                payload: Vec::new(),
                schedule: None,
                urgent: false,
                kind: kind.map(str::to_owned),
                options: None,
                failures: None,
                cancelled: false,
            },
            lane: 0,
            signals: Signals::new(),
            policy: None,
            limit: None,
            handed_out: None,
        }
    }

    /// Calls whose sections are run one by one.
    struct World(Calls);

    impl World {
        fn new() -> Self {
            Self(Calls::new())
        }

        fn ask(&mut self, lanes: LanesId, wanted: Wanted) -> Ticket {
            let waiter = Waiter::Thread(Parker::new());
            self.0.enqueue(lanes, wanted, waiter, &mut WakeList::new())
        }

        /// Returns the ids of the jobs that are not wanted.
        fn serve(&mut self, jobs: Vec<Ready>) -> Vec<u64> {
            let rest = self
                .0
                .serve(jobs, None, Instant::now(), &mut WakeList::new());
            ids(&rest)
        }

        /// Returns the lanes and ids of the jobs that a call was given.
        fn served(&mut self, ticket: Ticket) -> Option<Vec<(usize, u64)>> {
            let mut waiter = Some(Waiter::Thread(Parker::new()));
            match self.0.look(ticket, &mut waiter) {
                Look::Served(jobs) => {
                    let jobs = jobs.iter().map(|job| (job.lane, job.lease.id.as_u64()));
                    Some(jobs.collect())
                }
                Look::Waits(_) => None,
                Look::Gone => panic!("it is gone"),
            }
        }

        fn demand(&mut self) -> (usize, Option<Vec<(&'static str, usize)>>) {
            let Demand { jobs, kinds, .. } = self.0.demand();
            (jobs, kinds)
        }
    }

    fn ids(jobs: &[Ready]) -> Vec<u64> {
        jobs.iter().map(|job| job.lease.id.as_u64()).collect()
    }

    fn spare(own: usize, most: usize) -> Wanted {
        Wanted::Spare {
            own,
            most,
            patience: Some(MILLI * 10),
        }
    }

    const REFILL: Refill = Refill {
        low: 2,
        more: 6,
        patience: MILLI,
    };

    fn jobs(ids: std::ops::RangeInclusive<u64>) -> Vec<Ready> {
        ids.map(|id| job(id, None)).collect()
    }

    /// A world with four spare jobs.
    fn with_spares() -> World {
        let mut world = World::new();
        let call = world.ask(ANY, spare(1, 5));
        assert!(world.serve(jobs(1..=5)).is_empty());
        assert_eq!(world.served(call).map(|jobs| jobs.len()), Some(1));
        world
    }

    #[test]
    fn more_spare_jobs_are_asked_for_once_before_the_last_one_is_taken() {
        let mut world = with_spares();
        for left in [3, 2, 1, 0] {
            assert!(world.0.take_spare(ANY).is_some());
            let before = world.0.changes();
            let asks = world.0.refill(ANY, REFILL);
            assert_eq!(asks, left <= REFILL.low, "{left} are left");
            assert_eq!(world.0.changes() > before, asks, "the pump looks again");
            let demand = world.0.demand();
            assert_eq!(demand.jobs, if asks { REFILL.more } else { 0 });
            assert_eq!(demand.refill.is_some(), asks);
            assert_eq!(world.demand(), (0, None), "it is for one claim");
        }
        let now = Instant::now();
        let rest = (world.0).serve(jobs(6..=13), Some(REFILL), now, &mut WakeList::new());
        assert_eq!(ids(&rest), [12, 13]);
        assert_eq!(world.serve(jobs(14..=14)), [14], "nobody has asked for it");
        let late = world.0.late(now + REFILL.patience, false);
        assert_eq!(ids(&late), [6, 7, 8, 9, 10, 11]);
    }

    #[test]
    fn no_spare_jobs_are_asked_for_while_a_call_waits_or_others_are_late() {
        let mut world = with_spares();
        assert_eq!(ids(&world.0.late(Instant::now(), true)), [2, 3, 4, 5]);
        assert!(world.0.refill(ANY, REFILL));
        world.ask(ANY, spare(1, 5));
        assert_eq!(world.demand(), (5, None), "the call asks for spare jobs");
        assert!(!world.0.refill(ANY, REFILL));

        let mut world = with_spares();
        world.0.take_spare(ANY);
        world.0.take_spare(ANY);
        assert!(world.0.refill(ANY, REFILL));
        assert_eq!(world.0.late(Instant::now(), true).len(), 2);
        assert_eq!(world.demand(), (0, None), "they would be claimed again");

        let lanes = world.0.add_lanes(Lanes::new([("a", 2)]));
        assert!(!world.0.refill(lanes, REFILL), "both handlers may hang");
    }

    #[test]
    fn the_demand_names_the_kinds_that_have_room() {
        let mut world = World::new();
        assert_eq!(world.demand(), (0, None));
        let lanes = world.0.add_lanes(Lanes::new([("a", 2), ("b", 9)]));
        assert_eq!(world.demand(), (0, None), "no call waits");
        let first = world.ask(lanes, Wanted::Own(5));
        assert_eq!(world.demand(), (5, Some(vec![("a", 2), ("b", 5)])));
        let second = world.ask(lanes, Wanted::Own(5));
        assert_eq!(world.demand(), (10, Some(vec![("a", 2), ("b", 9)])));
        assert!(
            world
                .serve(vec![job(1, Some("a")), job(2, Some("a"))])
                .is_empty()
        );
        assert_eq!(world.served(first), Some(vec![(0, 1), (0, 2)]));
        assert_eq!(world.demand(), (5, Some(vec![("b", 5)])), "a is full");
        let changes = world.0.changes();
        let ended = world.0.ended(lanes, 0, MILLI, &mut WakeList::new());
        assert!(ended && world.0.changes() > changes);
        assert_eq!(world.demand(), (5, Some(vec![("a", 1), ("b", 5)])));
        assert!(
            !world.0.ended(lanes, 0, MILLI, &mut WakeList::new()),
            "it was open"
        );
        assert_eq!(world.served(second), None);
    }

    #[test]
    fn a_full_kind_alone_is_no_demand() {
        let mut world = World::new();
        let lanes = world.0.add_lanes(Lanes::new([("a", 1)]));
        world.ask(lanes, Wanted::Own(1));
        assert!(world.serve(vec![job(1, Some("a"))]).is_empty());
        world.ask(lanes, Wanted::Own(1));
        assert_eq!(world.demand().0, 0);
    }

    #[test]
    fn calls_for_any_jobs_go_first_and_several_workers_and_handles_are_added_up() {
        let mut world = World::new();
        let workers = ["b", "c"].map(|other| {
            let lanes = Lanes::new([("a", 2), (other, 1)]);
            world.0.add_lanes(lanes)
        });
        let handle = world.0.lanes_of("c");
        assert_eq!(world.0.lanes_of("c"), handle);
        assert_ne!(world.0.lanes_of("d"), handle);
        for lanes in [workers[0], workers[1], handle] {
            world.ask(lanes, Wanted::Own(2));
        }
        let kinds = vec![("a", 4), ("b", 1), ("c", 3)];
        assert_eq!(world.demand(), (6, Some(kinds)));
        let any = world.ask(ANY, Wanted::Own(1));
        assert_eq!(world.demand(), (1, None));
        // But those that have waited longer are served first.
        assert!(world.serve(vec![job(1, Some("a"))]).is_empty());
        assert_eq!(world.served(any), None);
        assert!(world.serve(vec![job(2, None)]).is_empty());
        assert_eq!(world.served(any), Some(vec![(0, 2)]));
        assert!(world.demand().1.is_some());
    }

    #[test]
    fn each_job_goes_to_the_first_call_that_may_run_it() {
        let mut world = World::new();
        let lanes = world.0.add_lanes(Lanes::new([("a", 1), ("b", 9)]));
        let c = world.0.lanes_of("c");
        let first = world.ask(lanes, Wanted::Own(3));
        let second = world.ask(c, Wanted::Own(1));
        let third = world.ask(lanes, Wanted::Own(1));
        let kinds = ["c", "a", "a", "b", "x", "b", "b", "c"];
        let jobs = kinds.into_iter().zip(1..);
        let jobs = jobs.map(|(kind, id)| job(id, Some(kind))).collect();
        assert_eq!(world.serve(jobs), [3, 5, 8], "full, unknown, no call");
        assert_eq!(world.served(first), Some(vec![(0, 2), (1, 4), (1, 6)]));
        assert_eq!(world.served(second), Some(vec![(0, 1)]));
        assert_eq!(world.served(third), Some(vec![(1, 7)]));
        assert_eq!(world.demand(), (0, None));
    }

    #[test]
    fn spare_jobs_go_to_calls_that_may_run_them_as_soon_as_they_may() {
        let mut world = World::new();
        let lanes = world.0.add_lanes(Lanes::new([("a", 1), ("b", 9)]));
        let first = world.ask(lanes, spare(1, 3));
        let jobs = (1..=4).map(|id| job(id, Some("a"))).collect();
        assert_eq!(world.serve(jobs), [4]);
        assert_eq!(world.served(first), Some(vec![(0, 1)]));
        // The lane is full.
        assert!(world.0.take_spare(lanes).is_none());
        let second = world.ask(lanes, Wanted::Own(2));
        assert_eq!(world.served(second), None);
        assert!(world.0.ended(lanes, 0, MILLI, &mut WakeList::new()));
        assert_eq!(world.served(second), Some(vec![(0, 2)]));
        assert!(
            !world.0.ended(lanes, 0, MILLI, &mut WakeList::new()),
            "no call waits"
        );
        let spare = world.0.take_spare(lanes).expect("the last one");
        assert_eq!((spare.lane, spare.lease.id.as_u64()), (0, 3));
        let any = world.ask(ANY, Wanted::Own(1));
        assert_eq!(world.served(any), None);
    }

    /// As many as start within the patience, by the time that the last ones have taken.
    #[test]
    fn a_lane_claims_more_than_it_runs_only_if_its_jobs_are_short() {
        let mut world = World::new();
        let lanes = world.0.add_lanes(Lanes::new([("a", 2)]));
        let room = |world: &mut World| world.demand().1.map(|kinds| kinds[0].1);
        let first = world.ask(lanes, spare(2, 100));
        assert_eq!(room(&mut world), Some(2), "nothing is known");
        assert!(
            world
                .serve(vec![job(1, Some("a")), job(2, Some("a"))])
                .is_empty()
        );
        assert!(world.served(first).is_some());
        let waits = world.ask(lanes, spare(1, 100));
        assert_eq!(world.demand().0, 0, "both may hang");
        world.0.ended(lanes, 0, MILLI, &mut WakeList::new());
        assert_eq!(room(&mut world), Some(1 + 2 * 10));
        world.0.ended(lanes, 0, Duration::MAX, &mut WakeList::new());
        assert_eq!(room(&mut world), Some(2));
        // A fixed batch is claimed in full.
        let batch = Wanted::Spare {
            own: 1,
            most: 50,
            patience: None,
        };
        world.0.change(waits, batch);
        assert_eq!(world.demand(), (50, Some(vec![("a", 50)])));
    }
}
