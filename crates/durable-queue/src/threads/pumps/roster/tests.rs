//! Single decisions, and random programs against the invariants.

use std::collections::{BTreeMap, BTreeSet};

use testkit::Rng;

use super::*;

/// Pumps and threads, stepped by the test. A pump is its own number; a thread is unparked by its number.
struct World {
    roster: Roster<PumpId, ThreadId>,
    start: Instant,
    now: Instant,
    /// Threads that park, each with its time.
    parked: BTreeMap<ThreadId, Option<Instant>>,
    tokens: BTreeSet<ThreadId>,
    busy: BTreeMap<ThreadId, PumpId>,
    /// Pumps that were woken, or added, after their last pass began.
    owed: BTreeSet<PumpId>,
    refuses: bool,
    /// The last start.
    was_refused: bool,
}

fn world() -> World {
    let now = Instant::now();
    World {
        roster: Roster::new(),
        start: now,
        now,
        parked: BTreeMap::new(),
        tokens: BTreeSet::new(),
        busy: BTreeMap::new(),
        owed: BTreeSet::new(),
        refuses: false,
        was_refused: false,
    }
}

fn seconds(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

impl World {
    fn rouse(&mut self, rouse: &Rouse<ThreadId>, is_ours: bool) {
        match *rouse {
            Rouse::Nothing => {}
            Rouse::Unpark(thread) => assert!(self.tokens.insert(thread), "it has a token"),
            Rouse::Start if self.refuses => {
                self.roster.refused(is_ours.then_some(self.now));
                self.was_refused = true;
            }
            Rouse::Start => {
                let thread = self.roster.new_id();
                self.roster.started(thread, thread);
                self.parked.insert(thread, None);
                self.tokens.insert(thread);
                self.was_refused = false;
            }
        }
        assert!(self.roster.live() <= PUMP_THREADS);
    }

    fn add(&mut self) -> PumpId {
        let id = self.roster.new_id();
        let rouse = self.roster.add(id, id);
        self.owed.insert(id);
        self.rouse(&rouse, false);
        id
    }

    fn wake(&mut self, id: PumpId) {
        let rouse = self.roster.wake(id);
        self.owed.insert(id);
        self.rouse(&rouse, false);
    }

    /// The thread ends its sleep or its pass, and looks for another pump.
    fn step(&mut self, thread: ThreadId, after: Option<After<PumpId>>) {
        let done = self.busy.remove(&thread).map(|id| Done {
            id,
            after: after.expect("it had a pump"),
        });
        self.parked.remove(&thread);
        self.tokens.remove(&thread);
        let (next, rouse) = self.roster.next(thread, &thread, done, Some(self.now));
        match next {
            Next::Run(id, pump) => {
                assert_eq!(id, pump);
                assert!(!self.busy.values().any(|other| *other == id), "two passes");
                self.owed.remove(&id);
                self.busy.insert(thread, id);
            }
            Next::Park(until) => _ = self.parked.insert(thread, until),
            Next::End => {
                for idle in self.roster.dismissed() {
                    self.tokens.insert(idle);
                }
            }
        }
        self.rouse(&rouse, true);
        self.check();
    }

    fn sleep(&mut self, thread: ThreadId, until: Option<u64>) {
        let until = until.map(|until| self.start + seconds(until));
        self.step(thread, Some(After::Sleep(self.busy[&thread], until)));
    }

    fn again(&mut self, thread: ThreadId) {
        self.step(thread, Some(After::Again(self.busy[&thread])));
    }

    /// The thread that has a token, if there is one.
    fn roused(&self) -> Option<ThreadId> {
        self.tokens.first().copied()
    }

    fn running(&self, id: PumpId) -> Option<ThreadId> {
        let mut busy = self.busy.iter();
        busy.find(|(_, pump)| **pump == id)
            .map(|(thread, _)| *thread)
    }

    /// Invariants 2 to 4.
    fn check(&self) {
        let roster = &self.roster;
        let is_attended = !self.tokens.is_empty() || (roster.idle.is_empty() && roster.busy > 0);
        if !roster.ready.is_empty() {
            assert!(is_attended, "no thread comes for a ready pump");
        }
        if let Some((first, _)) = roster.times.first() {
            let is_covered = self
                .parked
                .values()
                .any(|until| until.is_some_and(|until| until <= *first));
            assert!(is_covered || is_attended, "no thread watches the time");
        }
        if !roster.pumps.is_empty() {
            assert!(roster.live() > 0);
            let is_full = roster.live() == PUMP_THREADS || roster.pumps.len() <= roster.busy;
            let is_attended = !roster.idle.is_empty() || is_full || self.was_refused;
            assert!(is_attended, "a thread could have been started");
        }
        assert_eq!(roster.busy, self.busy.len());
    }
}

#[test]
fn a_pump_alone_stays_on_its_thread_without_a_wake_up() {
    let mut world = world();
    let pump = world.add();
    let thread = world.roused().expect("it is started");
    world.step(thread, None);
    for _ in 0..3 {
        world.again(thread);
        assert_eq!((world.running(pump), world.roused()), (Some(thread), None));
    }
    world.sleep(thread, Some(5));
    assert_eq!(world.parked[&thread], Some(world.now + seconds(5)));
    world.wake(pump);
    assert_eq!(world.roused(), Some(thread));
    world.step(thread, None);
    assert_eq!(world.running(pump), Some(thread));
    assert_eq!(world.roster.live(), 1);
    assert!(
        world.roster.times.is_empty(),
        "its time is no longer waited for"
    );
}

#[test]
fn a_wake_up_during_a_pass_is_not_lost() {
    let mut world = world();
    let pump = world.add();
    let thread = world.roused().expect("it is started");
    world.step(thread, None);
    world.wake(pump);
    world.sleep(thread, None);
    assert_eq!(world.running(pump), Some(thread), "it makes another pass");
    world.sleep(thread, None);
    assert_eq!(world.running(pump), None, "only one");
}

#[test]
fn wake_ups_of_a_pump_rouse_one_thread_once() {
    let mut world = world();
    let pumps = [world.add(), world.add()];
    let first = world.roused().expect("it is started");
    world.step(first, None);
    let second = world.roused().expect("it is started for the other pump");
    world.step(second, None);
    world.sleep(first, Some(9));
    world.sleep(second, None);
    world.wake(pumps[1]);
    let roused = world.roused();
    assert_eq!(roused, Some(second), "the other one watches the time");
    world.wake(pumps[1]); // `rouse` asserts that no token is given twice.
    assert_eq!(world.tokens.len(), 1);
}

#[test]
fn two_pumps_due_at_the_same_time_run_on_two_threads() {
    let mut world = world();
    let pumps = [world.add(), world.add()];
    let first = world.roused().expect("it is started");
    world.step(first, None);
    let second = world.roused().expect("it is started");
    world.step(second, None);
    world.sleep(first, Some(3));
    world.sleep(second, Some(3));
    assert_eq!(world.parked[&second], None, "one thread watches the time");
    world.now += seconds(3);
    world.step(first, None);
    assert_eq!(world.running(pumps[0]), Some(first));
    assert_eq!(world.roused(), Some(second));
    world.step(second, None);
    assert_eq!(world.running(pumps[1]), Some(second));
}

#[test]
fn a_thread_that_runs_a_pump_leaves_the_time_to_another_one() {
    let mut world = world();
    let pumps = [world.add(), world.add()];
    let first = world.roused().expect("it is started");
    world.step(first, None);
    let second = world.roused().expect("it is started");
    world.step(second, None);
    world.sleep(second, None);
    assert_eq!(world.parked[&second], None);
    world.sleep(first, Some(7)); // It watches its own time.
    world.wake(pumps[1]);
    assert_eq!(world.roused(), Some(second));
    world.now += seconds(7);
    world.step(first, None); // Its own pump is due, but another one is ready before it.
    world.step(second, None);
    assert_eq!(world.busy.len(), 2);
    world.sleep(first, None);
    world.sleep(second, Some(9));
    assert_eq!(world.parked.len(), 2);
    // The thread that watches the time is the only one that is free for its own pump.
    let watching = second;
    assert_eq!(world.parked[&watching], Some(world.start + seconds(9)));
    world.step(first, None); // A wake-up in vain.
    assert_eq!(world.parked[&first], None);
}

#[test]
fn with_all_threads_busy_a_ready_pump_gets_the_next_pass() {
    let mut world = world();
    let pumps = [world.add(), world.add(), world.add()];
    let first = world.roused().expect("it is started");
    world.step(first, None);
    let second = world.roused().expect("it is started");
    world.step(second, None);
    assert_eq!(world.running(pumps[2]), None);
    world.again(first);
    assert_eq!(world.running(pumps[2]), Some(first));
    world.again(second);
    assert_eq!(world.running(pumps[0]), Some(second), "in turn");
}

#[test]
fn a_refused_second_thread_is_tried_again_after_a_pause() {
    let mut world = world();
    let pumps = [world.add(), world.add()];
    world.refuses = true;
    let first = world.roused().expect("it is started");
    world.step(first, None);
    assert_eq!(world.roster.live(), 1);
    world.refuses = false;
    world.sleep(first, None);
    assert_eq!(world.running(pumps[1]), Some(first), "one thread runs both");
    assert_eq!(world.roster.live(), 1);
    world.now += START_AGAIN;
    world.again(first);
    assert_eq!(world.roster.live(), 2);
}

#[test]
fn all_threads_end_with_the_last_pump() {
    let mut world = world();
    world.add();
    world.add();
    let first = world.roused().expect("it is started");
    world.step(first, None);
    let second = world.roused().expect("it is started");
    world.step(second, None);
    world.step(first, Some(After::Ended));
    assert_eq!(world.roster.live(), 2);
    world.step(second, Some(After::Ended));
    assert_eq!(world.roster.live(), 0);
    assert_eq!(world.roused(), Some(first));
    world.add(); // Starts a thread, although the dismissed one has not ended yet.
    assert_eq!(world.roster.live(), 1);
    world.step(first, None);
    assert!(!world.parked.contains_key(&first), "it has ended");
}

#[test]
fn without_the_time_the_pump_with_the_earliest_time_is_run() {
    let mut world = world();
    let pumps = [world.add(), world.add()];
    let first = world.roused().expect("it is started");
    world.step(first, None);
    let second = world.roused().expect("it is started");
    world.step(second, None);
    world.sleep(first, Some(9));
    world.sleep(second, Some(7));
    let (next, _) = world.roster.next(second, &second, None, None);
    assert!(
        matches!(next, Next::Run(id, _) if id == pumps[1]),
        "{next:?}"
    );
}

/// Adds, wakes and ends pumps at random, while threads step in any order.
fn program(seed: u64) {
    let mut rng = Rng::new(seed);
    let mut world = world();
    let mut pumps = Vec::new();
    for _ in 0..300 {
        match rng.below(8) {
            0 if pumps.len() < 5 => {
                let pump = world.add();
                if world.roster.live() > 0 {
                    pumps.push(pump);
                } else {
                    assert_eq!(world.roster.remove(pump), Some(pump));
                    world.owed.clear();
                }
            }
            1 | 2 if !pumps.is_empty() => world.wake(pumps[rng.below(pumps.len())]),
            3 => world.now += seconds(1),
            4 => world.refuses = rng.chance(4),
            _ => random_step(&mut world, &mut pumps, &mut rng),
        }
        world.check();
    }
    world.refuses = false;
    // Passes end, and threads with a token or whose time has come go on: nothing is left to do.
    for _ in 0..100 {
        if let Some(&thread) = world.busy.keys().next() {
            world.sleep(thread, Some(1_000));
        } else if let Some(thread) = world.roused() {
            world.step(thread, None);
        } else if let Some(thread) = due(&world) {
            world.step(thread, None);
        }
    }
    assert!(world.owed.is_empty(), "{:?}", world.owed);
    let overdue = world
        .roster
        .times
        .first()
        .filter(|first| first.0 <= world.now);
    assert_eq!(overdue, None);
}

/// Returns a thread whose sleep ends by itself.
fn due(world: &World) -> Option<ThreadId> {
    let mut parked = world.parked.iter();
    let due = parked.find(|(_, until)| until.is_some_and(|until| until <= world.now));
    due.map(|(thread, _)| *thread)
}

fn random_step(world: &mut World, pumps: &mut Vec<PumpId>, rng: &mut Rng) {
    let busy: Vec<_> = world
        .busy
        .iter()
        .map(|(thread, id)| (*thread, *id))
        .collect();
    if !busy.is_empty() && rng.chance(2) {
        let (thread, id) = busy[rng.below(busy.len())];
        let soon = world.now + seconds(rng.below(4) as u64);
        let after = match rng.below(6) {
            0 => After::Ended,
            1 | 2 => After::Again(id),
            3 => After::Sleep(id, None),
            _ => After::Sleep(id, Some(soon)),
        };
        if matches!(after, After::Ended) {
            pumps.retain(|pump| *pump != id);
            world.owed.remove(&id);
        }
        return world.step(thread, Some(after));
    }
    let awake = world.roused().or_else(|| due(world));
    // Sometimes a thread wakes up without a reason.
    let any = world
        .parked
        .keys()
        .next()
        .copied()
        .filter(|_| rng.chance(8));
    if let Some(thread) = awake.or(any) {
        world.step(thread, None);
    }
}

#[test]
fn in_random_programs_no_pump_is_forgotten_and_no_two_passes_overlap() {
    for seed in 0..2_000 {
        program(seed);
    }
}
