//! One round: a pool, many callers, a thread that tunes, releases and reboots it, and the final
//! check.

use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::Relaxed};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};
use std::thread;
use std::time::Duration;

use pool_core::{Closures, Func, Stats, WorkerPool};
use testkit::Rng;

use crate::caller;
use crate::census::Census;
use crate::job::{Job, Out, World};
use crate::ledger::Ledger;
use crate::limits::{ALL, Limits, taking_out};
use crate::setup::{End, Setup, Threads};
use crate::subject::{Kind, Unstarted};

/// Threads that submit tasks.
const CALLERS: usize = 16;
/// The maximum number of calls of each caller in a phase.
const CALLS: usize = 20;
/// Phases of a round. The pool is idle between them.
const PHASES: usize = 6;

impl World {
    /// Records a failed expectation of a task, in which an assertion would only be a task's panic.
    pub(crate) fn expect(&self, holds: bool, what: impl FnOnce() -> String) {
        if !holds {
            let mut complaints = self
                .complaints
                .lock()
                .unwrap_or_else(PoisonError::into_inner);
            complaints.push(what());
        }
    }
}

/// Runs a round. `name` is unique, for the names of its threads.
pub(crate) fn run(setup: &Setup, name: &str, rng: &mut Rng) {
    if setup.typed {
        Round::<Func<Job, Out>>::run(setup, name, rng);
    } else {
        Round::<Closures>::run(setup, name, rng);
    }
}

struct Round<K: Kind> {
    pool: WorkerPool<K>,
    world: Arc<World>,
    limits: Limits,
    threads: Arc<Threads>,
    /// Tasks returned by `release_now`.
    released: AtomicU64,
    over: AtomicBool,
}

impl<K: Kind> Round<K> {
    fn run(setup: &Setup, name: &str, rng: &mut Rng) {
        let (mut census, mut threads) = (Census::random(rng), Arc::<Threads>::default());
        if rng.chance(4) {
            threads.change(rng);
        }
        let pool = loop {
            if let Ok(pool) = setup.build::<K>(name, &census, &threads) {
                break pool;
            }
            // A thread that was to be prestarted was refused, so the build failed. No thread may be
            // left.
            census.check(name);
            (census, threads) = (Census::random(rng), Arc::default());
        };
        let round = Self {
            world: Arc::new(World {
                ledger: Ledger::default(),
                port: OnceLock::new(),
                may_wait_within: setup.may_wait_within(),
                has_priorities: setup.priorities,
                complaints: Mutex::default(),
            }),
            limits: Limits::new(setup.capacity, setup.depth),
            threads,
            released: AtomicU64::new(0),
            over: AtomicBool::new(false),
            pool,
        };
        let port = Box::new(round.pool.downgrade());
        assert!(round.world.port.set(port).is_ok(), "set once");
        for _ in 0..PHASES {
            round.phase(rng);
            // No further call would wake a worker for a forgotten task. Threads may still be
            // refused.
            assert_eq!(round.pool.wait_idle(), Ok(()));
        }
        round.threads.give_all();
        let books = round.end(setup);
        books.check(name, &census);
    }

    /// Runs callers until they have made their calls, and the meddler meanwhile.
    fn phase(&self, rng: &mut Rng) {
        self.over.store(false, Relaxed);
        self.pool.reboot();
        thread::scope(|scope| {
            let meddlers = [Self::meddle, Self::sample].map(|meddler| {
                let mut rng = rng.split();
                scope.spawn(move || meddler(self, &mut rng))
            });
            let callers = [(); CALLERS].map(|()| {
                let mut rng = rng.split();
                scope.spawn(move || {
                    for _ in 0..rng.below(CALLS) {
                        caller::hand(&self.world, &self.pool, &mut rng);
                    }
                })
            });
            for caller in callers {
                caller.join().expect("callers do not panic");
            }
            self.over.store(true, Relaxed);
            for meddler in meddlers {
                meddler.join().expect("meddlers do not panic");
            }
        });
    }

    /// Tunes, releases and reboots the pool, and refuses threads.
    fn meddle(&self, rng: &mut Rng) {
        while !self.over.load(Relaxed) {
            match rng.below(16) {
                0..=5 => self.limits.tune(&self.pool, rng),
                6 => _ = self.pool.release(),
                7 => self.release_now(),
                8..=10 => _ = self.pool.reboot(),
                11..=13 => self.threads.change(rng),
                14 => _ = self.pool.wait_idle_timeout(some_time(rng)),
                _ => _ = self.pool.wait_released_timeout(some_time(rng)),
            }
            (0..rng.below(100)).for_each(|_| thread::yield_now());
        }
    }

    fn sample(&self, _: &mut Rng) {
        while !self.over.load(Relaxed) {
            let sampled = self.limits.sample(&self.pool);
            let wrong = sampled.err();
            self.world
                .expect(wrong.is_none(), || wrong.unwrap_or_default());
            thread::yield_now();
        }
    }

    fn release_now(&self) {
        let number = match taking_out(ALL, || K::release_now(&self.pool)) {
            Unstarted::Number(number) => number,
            Unstarted::Jobs(jobs) => jobs.len(),
        };
        self.released.fetch_add(number as u64, Relaxed);
    }

    fn end(self, setup: &Setup) -> Books {
        let mut stats = None;
        match setup.end {
            End::Drop => {}
            End::Release => _ = self.pool.release(),
            End::ReleaseNow => self.release_now(),
            End::RestThenRelease => {
                assert_eq!(self.pool.wait_idle(), Ok(()));
                assert_eq!(self.pool.in_flight(), 0);
                self.pool.release();
            }
        }
        if setup.end != End::Drop {
            thread::scope(|scope| {
                for _ in 0..3 {
                    scope.spawn(|| assert_eq!(self.pool.wait_released(), Ok(())));
                }
            });
            stats = Some(self.pool.stats());
        }
        let released = self.released.into_inner();
        let discards =
            setup.end == End::Drop && setup.drop_policy == pool_core::DropPolicy::Discard;
        drop(self.pool);
        Books {
            world: self.world,
            limits: self.limits,
            threads: self.threads,
            stats,
            released: (!discards).then_some(released),
        }
    }
}

/// The results of a round.
struct Books {
    world: Arc<World>,
    limits: Limits,
    threads: Arc<Threads>,
    /// Present if the end was waited for.
    stats: Option<Stats>,
    /// Present if the number is known.
    released: Option<u64>,
}

impl Books {
    fn check(&self, name: &str, census: &Census) {
        if self.stats.is_none() {
            // The last handle was dropped. The workers end once they have run all tasks.
            while !self.nobody_is_left(census) {
                thread::yield_now();
            }
        }
        census.check(name);
        let complaints = &self.world.complaints;
        let complaints = complaints.lock().unwrap_or_else(PoisonError::into_inner);
        assert!(complaints.is_empty(), "{complaints:#?}");
        self.world.ledger.check(self.stats.as_ref(), self.released);
        let given = self.threads.given.load(Relaxed);
        assert_eq!(census.threads.load(Relaxed), given, "each thread ran tasks");
        if let Some(stats) = &self.stats {
            self.limits.check(stats);
            assert_eq!((stats.live, stats.waiting, stats.queued), (0, 0, 0));
            assert_eq!(stats.threads_started, given);
            assert_eq!(stats.threads_retired, given);
            assert_eq!(stats.thread_failures, self.threads.refused.load(Relaxed));
            assert_eq!(stats.hook_panics, census.panics.load(Relaxed));
            assert!(census.most_serving.load(Relaxed) <= stats.peak_live as u64);
        }
    }
}

impl Books {
    /// Every started thread has ended, and none was started meanwhile.
    fn nobody_is_left(&self, census: &Census) -> bool {
        let given = self.threads.given.load(Relaxed);
        census.threads.load(Relaxed) == given
            && census.is_empty()
            && self.threads.given.load(Relaxed) == given
    }
}

/// A timeout that may or may not pass.
fn some_time(rng: &mut Rng) -> Duration {
    Duration::from_micros(rng.below(300) as u64)
}
