//! Two simulated processes that are disturbed: by a proxy that cuts, half-closes, delays, hangs and rejects
//! connections, or by slots of a Redis Cluster that move. No answered push may be lost, no job may be early,
//! claims without a response must be found again, and each job must be done at least once.
//!
//! `cargo xtask crash --proxy 5000` runs it longer than the tests do. A seed reproduces the disturbances, but
//! not the races.

mod ledger;
mod plan;

use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::thread;
use std::time::{Duration, Instant};
use std::{env, fmt};

use durable_queue::internals::SAFETY_LOOK;
use durable_queue::{
    Cancelled, CarriedOut, DurableQueue, Merge, Payload, Reset, SettleError, Store, StoreError,
    TakeError, When,
};
use testkit::Rng;

use self::ledger::{Ledger, now};
use self::plan::Disturbing;
use crate::proxy::Proxy;
use crate::support::{Text, pause};

/// Environment variable with the number of disturbances.
const VARIABLE: &str = "DURABLE_DISTURBANCES";
const DISTURBANCES: u64 = 40;
/// Time limit of a disturbance and the work before it, on a busy machine.
const LONGEST: Duration = Duration::from_secs(3);

/// The queue of all processes.
pub const QUEUE: &str = "queue";
/// Leases of the first process do not end, so its claims without a response are found by their tokens or
/// never. Leases of the second one end during many outages.
const LEASES: [Duration; 2] = [Duration::from_secs(3_600), Duration::from_secs(1)];
const TAKERS: usize = 2;
/// Maximum number of unfinished jobs.
const OPEN: usize = 40;
/// Maximum delay of a job and of a handler, in milliseconds.
const DELAY: usize = 100;
const WORK: usize = 3;
/// After the end of the run, unless reset.
const LATER: Duration = Duration::from_secs(86_400);

type Queue<S> = DurableQueue<String, S>;

/// The disturbance of the processes.
pub trait Disturbance: fmt::Display + Sync {
    fn is_over(&self) -> bool;

    /// A process has worked. Returns the time since the last outage, if it is the first time.
    fn works(&self, process: usize) -> Option<Duration>;
}

struct Party<'a> {
    ledger: &'a Ledger,
    plan: &'a dyn Disturbance,
    numbers: AtomicU64,
}

/// `open` opens a store at the given address, which is the proxy's, if it can. `direct` is connected to the
/// server.
pub fn a_disturbed_party_loses_nothing<S: Store + 'static>(
    name: &str,
    server: SocketAddr,
    direct: &S,
    open: impl Fn(SocketAddr) -> Option<S>,
) {
    let disturbances = env::var(VARIABLE).ok();
    let disturbances = disturbances.map_or(DISTURBANCES, |number| number.parse().unwrap());
    let limit = LONGEST * u32::try_from(disturbances).unwrap() + testkit::LIMIT * 3;
    let mut rng = Rng::from_env();
    let plan = Disturbing::new(rng.split(), disturbances, LEASES.len());
    let proxy = Proxy::with(server, plan);
    let open = || open(proxy.address);
    a_party_loses_nothing(name, limit, proxy.plan(), direct, open, rng);
}

/// `open` opens a store that is disturbed, if it can. `direct` is one that is not, from the end of the plan.
pub fn a_party_loses_nothing<S: Store + 'static>(
    name: &str,
    limit: Duration,
    plan: &dyn Disturbance,
    direct: &S,
    open: impl Fn() -> Option<S>,
    mut rng: Rng,
) {
    let begin = Instant::now();
    let ledger = Ledger::default();
    let verdict = testkit::watchdog(limit, || {
        let party = Party {
            ledger: &ledger,
            plan,
            numbers: AtomicU64::new(0),
        };
        let queues = LEASES.map(|lease| {
            let queue = Queue::builder(QUEUE, until(&open)).lease(lease);
            queue.max_attempts(u32::MAX).build().unwrap()
        });
        party.meets(&queues, direct, &mut rng);
        ledger.judge(direct, QUEUE);
        ledger.verdict(plan, begin)
    });
    println!("{name}: {verdict}");
}

impl Party<'_> {
    fn meets<S: Store>(&self, queues: &[Queue<S>], direct: &S, rng: &mut Rng) {
        thread::scope(|scope| {
            let mut pushers = Vec::new();
            for (process, queue) in queues.iter().enumerate() {
                for taker in 0..TAKERS {
                    let rng = rng.split();
                    scope.spawn(move || match taker {
                        0 => self.take(&queue.kind::<Text>(), process, rng),
                        _ => self.take(queue, process, rng),
                    });
                }
                let (own, its) = (rng.split(), rng.split());
                pushers.push(scope.spawn(move || self.push(queue, own)));
                pushers.push(scope.spawn(move || self.cancel(queue, its)));
            }
            for pusher in pushers {
                pusher.join().unwrap();
            }
            self.wait_for_end(direct);
            for queue in queues {
                queue.close();
            }
        });
    }

    fn goes_on(&self) -> bool {
        !self.plan.is_over() && !self.ledger.has_fault()
    }

    /// Waits until the remaining jobs are done. The proxy no longer disturbs.
    fn wait_for_end(&self, direct: &impl Store) {
        let begin = Instant::now();
        while direct.stats(QUEUE).unwrap().jobs > 0 && !self.ledger.has_fault() {
            // A job that was not announced is found by a regular look.
            if begin.elapsed() > testkit::LIMIT + SAFETY_LOOK {
                let left = direct.list(QUEUE, None, 100).unwrap();
                self.ledger
                    .fault(format!("nothing disturbs, and this is left: {left:#?}"));
            }
            pause(5);
        }
    }

    fn take<S: Store, T: Payload + AsRef<str>>(
        &self,
        queue: &DurableQueue<T, S>,
        process: usize,
        mut rng: Rng,
    ) {
        loop {
            let job = match queue.take() {
                Ok(job) => job,
                Err(TakeError::ShutDown) => return,
                Err(error) => return self.ledger.fault(error.to_string()),
            };
            let attempt = self.ledger.started(&job);
            pause(rng.below(WORK));
            let settled = match rng.below(20) {
                0 => {
                    let settled = job.bury("no");
                    if matches!(settled, Err(SettleError::Unknown)) {
                        self.ledger.perhaps_buried(attempt);
                    }
                    settled.map(|()| self.ledger.buried(attempt))
                }
                1 | 2 => {
                    let when = Duration::from_millis(rng.below(DELAY) as u64);
                    job.retry_after(when, "again").map(drop)
                }
                3 => {
                    let extended = job.extend(LEASES[process]);
                    extended
                        .and_then(|()| job.ack())
                        .map(|()| self.ledger.acked(attempt))
                }
                _ => job.ack().map(|()| self.ledger.acked(attempt)),
            };
            match settled {
                Ok(()) => self.ledger.is_back(self.plan.works(process)),
                Err(error) => {
                    let lasts = process == 0;
                    self.ledger.not_settled(attempt, &error, lasts);
                }
            }
        }
    }

    fn push<S: Store>(&self, queue: &Queue<S>, mut rng: Rng) {
        while self.goes_on() {
            if self.ledger.open() >= OPEN {
                pause(1);
                continue;
            }
            match rng.below(6) {
                0 | 1 => self.push_keyed(queue, rng.chance(3)),
                number => self.push_some(queue, if number == 2 { 5 } else { 1 }, &mut rng),
            }
        }
    }

    /// Retries until there is a response. Each attempt without one may have inserted the jobs.
    fn push_some<S: Store>(&self, queue: &Queue<S>, count: usize, rng: &mut Rng) {
        let jobs = (0..count).map(|_| {
            // Relaxed: only a unique number is needed.
            let number = self.numbers.fetch_add(1, Relaxed);
            (number, Duration::from_millis(rng.below(DELAY) as u64))
        });
        let jobs: Vec<_> = jobs.collect();
        let mut copies = 0;
        let ids = until(|| {
            copies += 1;
            for (number, _) in &jobs {
                self.ledger.push(*number, copies);
            }
            let values = jobs.iter().map(|(number, delay)| {
                let due = now().after(*delay).as_micros();
                (format!("{number} {due}"), When::from(*delay))
            });
            let mut values: Vec<_> = values.collect();
            let pushed = if let [_] = &values[..] {
                let (value, when) = values.remove(0);
                let pushed = queue.kind().push(Text(value), when);
                pushed.map(|id| vec![id]).map_err(|error| error.error)
            } else {
                queue.push_batch(values).map_err(|error| error.error)
            };
            pushed
                .inspect_err(|error| copies -= usize::from(!is_perhaps(error)))
                .ok()
        });
        for ((number, _), id) in jobs.into_iter().zip(ids) {
            self.ledger.pushed(number, id);
        }
    }

    /// With a key, all attempts are one job. Another call makes it due or cancels it.
    fn push_keyed<S: Store>(&self, queue: &Queue<S>, is_cancelled: bool) {
        let number = self.numbers.fetch_add(1, Relaxed); // As above.
        self.ledger.push(number, 1);
        let key = number.to_string();
        let payload = format!("{number} 0");
        let push = || queue.push_keyed(&key, payload.clone(), LATER, Merge::Keep);
        let id = until(|| push().ok()).id();
        self.ledger.pushed(number, id);
        let mut perhaps = false;
        if is_cancelled {
            let cancelled = until(|| {
                let cancelled = queue.store().cancel(QUEUE, key[..].into());
                cancelled
                    .inspect_err(|error| perhaps |= is_perhaps(error))
                    .ok()
            });
            match cancelled {
                Cancelled::Gone { attempts, .. } => self.ledger.gone(id, attempts),
                Cancelled::Never if perhaps => self.ledger.gone(id, 0),
                // Other threads cancel open jobs.
                Cancelled::Never => self.ledger.must_be_cancelled(id),
                Cancelled::Taken => {
                    self.ledger
                        .fault(format!("job {id} was taken long before its time"));
                }
            }
        } else {
            let reset = until(|| {
                let reset = queue.reset(&key[..], Duration::ZERO);
                reset.inspect_err(|error| perhaps |= is_perhaps(error)).ok()
            });
            if reset != Reset::Moved && !perhaps {
                self.ledger.must_be_cancelled(id);
            }
        }
    }

    /// Cancels jobs that are about to be taken.
    fn cancel<S: Store>(&self, queue: &Queue<S>, mut rng: Rng) {
        while self.goes_on() {
            pause(rng.below(DELAY));
            let Some(id) = self.ledger.one_of_the_open(&mut rng) else {
                continue;
            };
            self.ledger.cancel(id);
            match queue.store().cancel(QUEUE, id.into()) {
                Ok(Cancelled::Gone { attempts, .. }) => self.ledger.gone(id, attempts),
                // The job may have been started by a claim without a response. It then ends without an attempt.
                Ok(Cancelled::Taken) => self.ledger.perhaps_gone(id),
                Err(error) if is_perhaps(&error) => self.ledger.perhaps_gone(id),
                Ok(Cancelled::Never) | Err(_) => self.ledger.not_gone(id),
            }
        }
    }
}

fn is_perhaps(error: &StoreError) -> bool {
    error.carried_out() == CarriedOut::Perhaps
}

/// Retries until there is a result.
fn until<R>(mut attempt: impl FnMut() -> Option<R>) -> R {
    loop {
        if let Some(result) = attempt() {
            return result;
        }
        pause(2);
    }
}
