//! Random programs on a store and on the simulated one: all results must be equal. [`rules`](crate::rules) states
//! what must hold in addition, whatever the simulated store returns.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering::SeqCst};
use std::time::Duration;

use durable_queue::store::{Act, Claim, Claimed, Keep, KindRoom, Lease, ListedJob, Settle};
use durable_queue::{
    JobId, Limit, Merge, NewJob, Store, StoreClock, StoreTime, Token, When, Which,
};
use durable_queue_testing::ManualStoreClock;
use testkit::Rng;

use crate::rules::{HORIZON, QUEUE, Rules, Sleeper};

const STEPS: usize = 80;
/// Maximum number of rounds in which all jobs of a program are done, once it has ended.
const ROUNDS: usize = 300;
const MANY: u32 = 1_000;
const KEYS: [&[u8]; 3] = [b"a", b"b", b"\0"];

/// Environment variable with the number of programs per test.
const VARIABLE: &str = "DURABLE_PROGRAMS";

/// Runs as many programs as the variable says, or `otherwise`. Prints the seed of each. A single program takes the
/// seed of the test.
pub fn each(otherwise: usize, mut run: impl FnMut(&mut Rng)) {
    let number = std::env::var(VARIABLE).map_or(otherwise, |number| number.parse().unwrap());
    let mut seeds = Rng::from_env();
    if number == 1 {
        return run(&mut seeds);
    }
    for _ in 0..number {
        let seed = seeds.next_u64();
        println!("{VARIABLE}=1 ANTHILL_SEED={seed}");
        run(&mut Rng::new(seed));
    }
}

/// A clock that the programs set forward and back, for stores without a clock of their own.
#[derive(Clone, Debug, Default)]
pub struct ProgramClock(Arc<AtomicI64>);

impl ProgramClock {
    /// Sets the clock forward or back by a number of microseconds.
    pub fn shift(&self, by: i64) {
        self.0.fetch_add(by, SeqCst);
    }
}

impl StoreClock for ProgramClock {
    fn now(&self) -> StoreTime {
        let start = ManualStoreClock::START.as_micros();
        StoreTime::from_micros(start + self.0.load(SeqCst))
    }
}

/// A store under test, and the simulated one.
pub type Both<'a> = [&'a dyn Store; 2];

/// Through which stores sleeping processes are notified.
pub struct Watched<'a> {
    pub stores: &'a [&'a dyn Store],
    /// Returns when all announcements of earlier calls have been heard.
    pub fence: &'a dyn Fn(),
}

/// A program in progress.
struct Program<'a> {
    rng: &'a mut Rng,
    stores: Both<'a>,
    /// Claimed jobs, also after they are settled.
    held: Vec<(JobId, Token)>,
    /// The greatest id.
    last: u64,
    rules: Rules,
    sleepers: Vec<Sleeper>,
    fence: &'a dyn Fn(),
}

fn after(rng: &mut Rng) -> When {
    When::After(Duration::from_secs(rng.below(6) as u64))
}

fn merge(rng: &mut Rng) -> Merge {
    match rng.below(5) {
        0 => Merge::Keep,
        1 => Merge::Earliest,
        2 => Merge::Latest,
        3 => Merge::Debounce,
        _ => Merge::DebounceUntil(after(rng)),
    }
}

/// Rarely one, so that most jobs are ordinary.
fn text(rng: &mut Rng) -> Option<&'static str> {
    rng.chance(4).then(|| ["one", "two"][rng.below(2)])
}

fn act(rng: &mut Rng) -> Act<'static> {
    let error = "no";
    let failures = text(rng);
    let lease = Duration::from_secs(3);
    match rng.below(13) {
        10 | 11 => Act::Keep(Keep {
            span: Duration::from_secs(rng.below(6) as u64),
            took: Duration::from_micros(rng.below(1_000_000) as u64),
            result: rng.chance(2).then_some(b"= \0\n"),
        }),
        number @ (6 | 9) => Act::Bury {
            error,
            failures,
            counts: number == 6,
        },
        8 => Act::Again { when: after(rng) },
        0 | 1 => Act::Start { lease },
        2 => Act::Extend { lease },
        3 => Act::Ack,
        number @ (4 | 5 | 12) => Act::Retry {
            when: after(rng),
            failures,
            counts: number != 12,
        },
        _ => Act::Release,
    }
}

fn count(rng: &mut Rng, below: usize) -> u32 {
    u32::try_from(rng.below(below)).unwrap()
}

fn kind_limit(rng: &mut Rng) -> Limit {
    let kind = ["one", "two"][rng.below(2)];
    let most = count(rng, 3) + 1;
    if rng.chance(3) {
        Limit::rate_of_kind(kind, most, Duration::from_secs(5))
    } else {
        Limit::per_kind(kind, most - count(rng, 2))
    }
}

/// The kinds that a process has handlers for, if it has handlers of kinds. Some are never pushed.
fn kinds(rng: &mut Rng) -> Option<Vec<KindRoom<'static>>> {
    let all = ["one", "three", "two", ""];
    let kinds = all.into_iter().filter_map(|kind| {
        let room = 1 + count(rng, 3);
        rng.chance(2).then_some(KindRoom { kind, room })
    });
    let kinds: Vec<_> = kinds.collect();
    (!kinds.is_empty()).then_some(kinds)
}

fn token(rng: &mut Rng) -> Token {
    let token = Token::random();
    if rng.chance(2) {
        token.without_confirmation()
    } else {
        token
    }
}

impl Program<'_> {
    /// Makes a call of both stores, whose results must be equal.
    fn both<R: PartialEq + std::fmt::Debug>(
        &self,
        call: impl Fn(&dyn Store) -> durable_queue::store::Result<R>,
    ) -> R {
        let [ours, twin] = self.stores.map(|store| call(store).unwrap());
        assert_eq!(ours, twin);
        ours
    }

    fn set(&self, limit: &Limit, is_set: bool) {
        self.both(|store| store.limit(QUEUE, limit, is_set));
        self.both(|store| store.limits(QUEUE));
    }

    /// Sets or removes the rule of groups.
    fn limit_groups(&mut self) {
        let rules = [
            Limit::ordered(),
            Limit::per_group(1),
            Limit::per_group(2),
            Limit::fair(),
        ];
        let rule = &rules[self.rng.below(rules.len())];
        let is_set = !self.rng.chance(5);
        self.set(rule, is_set);
    }

    fn limit_kinds(&mut self) {
        let limit = kind_limit(self.rng);
        let is_set = !self.rng.chance(3);
        self.set(&limit, is_set);
    }

    fn turn(&mut self) {
        let settles: Vec<Settle<'_>> = (0..self.rng.below(4))
            .filter_map(|_| {
                let at = self.rng.below(self.held.len().max(1));
                let &(id, token) = self.held.get(at)?;
                let act = act(self.rng);
                Some(Settle { id, token, act })
            })
            .collect();
        let rng = &mut *self.rng;
        let kinds = kinds(rng);
        let claim = rng.chance(2).then(|| Claim {
            token: token(rng),
            kinds: kinds.as_deref(),
            max: count(rng, 4),
            start: count(rng, 3),
            ahead: count(rng, 4),
            horizon: HORIZON,
            lease: Duration::from_secs(2),
            urgent_first: rng.chance(2),
        });
        self.turn_of(&settles, claim);
    }

    fn turn_of(&mut self, settles: &[Settle<'_>], claim: Option<Claim<'_>>) -> Option<Claimed> {
        let [turn, same] = self
            .stores
            .map(|store| store.turn(QUEUE, settles, claim).unwrap());
        assert_eq!((turn.now, turn.paused), (same.now, same.paused));
        assert_eq!(turn.verdicts, same.verdicts, "{settles:?}");
        let claimed = turn.claimed?;
        let same = same.claimed.unwrap();
        assert_eq!(claimed.leases, same.leases);
        assert_eq!(
            (claimed.first, claimed.first_free),
            (same.first, same.first_free)
        );
        let leases = claimed.leases.iter();
        self.held
            .extend(leases.map(|lease| (lease.id, lease.token)));
        let (listed, limits) = (self.list(), self.stores[0].limits(QUEUE).unwrap());
        self.rules
            .check_claim(turn.now, &claimed.leases, &listed, &limits);
        Some(claimed)
    }

    fn list(&self) -> Vec<ListedJob> {
        self.both(|store| store.list(QUEUE, None, MANY))
    }

    fn push(&mut self, key: usize) {
        let rng = &mut *self.rng;
        let payload = rng.next_u64().to_le_bytes();
        let keyed = rng.chance(2);
        // Limits apply to kinds.
        let kind = if keyed && self.rules.kinds_stay {
            [Some("one"), Some("two"), None][key]
        } else {
            text(rng).or_else(|| text(rng)).or_else(|| text(rng))
        };
        let job = NewJob {
            payload: &payload,
            when: after(rng),
            key: keyed.then_some(KEYS[key]),
            group: rng.chance(2).then(|| ["a", "b"][rng.below(2)]),
            merge: merge(rng),
            schedule: rng.chance(4).then_some(["hourly", "daily"][rng.below(2)]),
            urgent: rng.chance(3),
            kind,
            options: text(rng),
        };
        let puts = self.both(|store| store.enqueue(QUEUE, &[job]));
        self.last = self.last.max(puts[0].id().as_u64());
    }

    /// One step on both stores.
    fn step(&mut self) {
        let id = self.rng.below(usize::try_from(self.last).unwrap() + 2) as u64;
        let id = JobId::from_u64(id);
        let key = self.rng.below(3);
        let which = if self.rng.chance(2) {
            Which::Id(id)
        } else {
            Which::Key(KEYS[key])
        };
        match self.rng.below(14) {
            0..=3 => self.push(key),
            4..=7 => self.turn(),
            8 => _ = self.both(|store| store.cancel(QUEUE, which)),
            9 => {
                let when = after(self.rng);
                _ = self.both(|store| store.reset(QUEUE, which, when));
            }
            10 => _ = self.both(|store| store.redrive(QUEUE, &[id])),
            11 => {
                let most = count(self.rng, 4);
                self.both(|store| store.delete_done(QUEUE, most));
                if self.rng.chance(8) {
                    self.both(|store| store.delete_dead(QUEUE, &[id]));
                }
            }
            12 => {
                let paused = self.rng.chance(4);
                self.both(|store| store.pause(QUEUE, paused));
            }
            _ => {
                if self.rng.chance(2) {
                    self.limit_kinds();
                }
                if !self.rules.groups_stay {
                    self.limit_groups();
                }
            }
        }
        self.compare(id);
    }

    /// Compares all that the stores return about their jobs.
    fn compare(&mut self, id: JobId) {
        self.both(|store| store.fate(QUEUE, id));
        self.both(|store| store.stats(QUEUE));
        self.both(|store| store.dead(QUEUE, None, MANY));
        self.both(|store| store.cancel_requests(QUEUE));
        let most = count(self.rng, 4);
        let first = self.both(|store| store.list(QUEUE, None, most));
        let after = first.last().map(ListedJob::position);
        self.both(|store| store.list(QUEUE, after, MANY));
        if let Some(&(_, token)) = self.held.last() {
            let lease = Duration::from_secs(3);
            self.both(|store| {
                let mut held = store.held_by(QUEUE, token, lease)?;
                // The position is the end of the lease in one list, and the due time in the other.
                held.sort_by_key(|lease| lease.id);
                Ok(held)
            });
        }
    }

    /// The sleeping processes claim, if they are awake, or find no job, if they are not.
    fn look(&mut self) {
        if self.rng.chance(2) {
            return;
        }
        (self.fence)();
        let now = self.stores[0].turn(QUEUE, &[], None).unwrap().now;
        let asleep: Vec<bool> = self
            .sleepers
            .iter()
            .map(|it| it.falls_asleep(now))
            .collect();
        let claim = Claim {
            token: token(self.rng),
            kinds: None,
            max: 1,
            start: 1,
            ahead: 0,
            horizon: Duration::ZERO,
            lease: Duration::from_secs(2),
            urgent_first: self.rng.chance(2),
        };
        let claimed = self.turn_of(&[], Some(claim)).unwrap();
        assert!(
            claimed.leases.is_empty() || !asleep.contains(&true),
            "a job is claimed that no sleeping process knows of: {:?}",
            claimed.leases
        );
        for sleeper in &self.sleepers {
            sleeper.wakes_at(claimed.first);
        }
    }

    /// Ends all jobs. None of them waits forever.
    fn drain(&mut self, shift: &impl Fn(i64)) {
        self.both(|store| store.pause(QUEUE, false));
        let limits = self.stores[0].limits(QUEUE).unwrap();
        let stops = |limit: &&Limit| matches!(limit, Limit::PerKind { most: 0, .. });
        for limit in limits.iter().filter(stops) {
            self.set(limit, false);
        }
        for _ in 0..ROUNDS {
            let claim = Claim {
                token: token(self.rng),
                kinds: None,
                max: MANY,
                start: MANY,
                ahead: 0,
                horizon: Duration::ZERO,
                lease: Duration::from_secs(2),
                urgent_first: true,
            };
            let claimed = self.turn_of(&[], Some(claim)).unwrap();
            let act = |lease: &Lease| match lease.schedule {
                // A repeating job does not keep the others from running.
                Some(_) if self.stores[0].stats(QUEUE).unwrap().jobs > 1 => Act::Again {
                    when: Duration::from_secs(30).into(),
                },
                _ => Act::Ack,
            };
            let settles: Vec<_> = claimed.leases.iter().map(|it| it.settle(act(it))).collect();
            self.turn_of(&settles, None);
            let listed = self.list();
            if listed.iter().all(|job| job.schedule.is_some()) {
                return;
            }
            shift(3_000_000);
        }
        panic!("these jobs wait forever: {:?}", self.list());
    }
}

/// Runs one program on both stores. `shift` sets their clocks forward or back by a number of microseconds.
pub fn run(rng: &mut Rng, stores: &Both<'_>, watched: &Watched<'_>, shift: impl Fn(i64)) {
    let mut program = Program {
        stores: *stores,
        held: Vec::new(),
        last: 0,
        rules: Rules {
            groups_stay: rng.chance(2),
            kinds_stay: rng.chance(2),
            has_jumps: rng.chance(4),
        },
        sleepers: watched
            .stores
            .iter()
            .map(|store| Sleeper::of(*store))
            .collect(),
        fence: watched.fence,
        rng,
    };
    if !program.rng.chance(4) {
        program.limit_groups();
    }
    for _ in 0..program.rng.below(3) {
        program.limit_kinds();
    }
    for _ in 0..STEPS {
        program.step();
        program.look();
        if program.rules.has_jumps && program.rng.chance(10) {
            // Not before the first job's time.
            shift(-1_000_000);
            for sleeper in &program.sleepers {
                sleeper.wakes_at(StoreTime::from_micros(i64::MIN));
            }
        }
        shift(500_000 * i64::from(count(program.rng, 4)));
        program.look();
    }
    program.drain(&shift);
}
