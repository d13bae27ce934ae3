//! A process that will be killed: it pushes and claims jobs, and writes to its diary from when to when it
//! holds each of them.

use std::env;
use std::fs::{File, OpenOptions};
use std::io::Write;
use std::path::Path;
use std::thread;
use std::time::{Duration, SystemTime};

use durable_queue::store::{Act, Claim, Lease, Settle, Turn, Verdict};
use durable_queue::{CarriedOut, ErrorKind, Limit, Merge, NewJob, Store, StoreTime, Token, When};
use durable_queue_postgres::PostgresStore;
use durable_queue_redis::RedisStore;
use durable_queue_sqlite::SqliteStore;
use testkit::Rng;

/// The first argument of such a process.
pub(crate) const MODE: &str = "claim-until-killed";
/// Environment variable with the server's address, because all users can see arguments.
pub(crate) const SERVER: &str = "DURABLE_LIMITS_SERVER";
pub(crate) const QUEUE: &str = "limits";
/// The kind with a maximum.
pub(crate) const LIMITED: &str = "limited";
pub(crate) const MOST: u32 = 3;
/// The kind with a rate.
pub(crate) const RATED: &str = "rated";
pub(crate) const RATE: u32 = 10;
pub(crate) const PER: Duration = Duration::from_millis(200);
pub(crate) const MOST_OF_KEY: u32 = 2;
/// Short, so that places of dead processes are free soon.
pub(crate) const LEASE: Duration = Duration::from_millis(300);
const KEYS: [&str; 2] = ["a", "b"];
/// No jobs are pushed while there are more.
const BACKLOG: u32 = 100;
/// Maximum duration of a handler, in milliseconds.
const WORK: usize = 20;
/// One of this many jobs is not settled by its holder.
const FORGOTTEN: usize = 16;

/// Opens the store on the server with this address, or else the one in the folder.
pub(crate) fn open(server: Option<&str>, folder: &Path) -> Box<dyn Store> {
    // The test is about kills, not about the disk.
    let busy = Duration::from_secs(30);
    if let Some(address) = server {
        if address.starts_with("redis") {
            let options = RedisStore::options().sessions(1);
            return Box::new(options.open(address).unwrap());
        }
        let options = PostgresStore::options().busy_timeout(busy).sessions(1);
        return Box::new(options.open(address).unwrap());
    }
    let options = SqliteStore::options().busy_timeout(busy);
    Box::new(options.open(folder.join("jobs")).unwrap())
}

/// As each process does when it starts.
pub(crate) fn set_limits(store: &dyn Store) {
    let limits = [
        Limit::per_key(MOST_OF_KEY),
        Limit::per_kind(LIMITED, MOST),
        Limit::rate_of_kind(RATED, RATE, PER),
    ];
    for limit in &limits {
        store.limit(QUEUE, limit, true).unwrap();
    }
    assert_eq!(store.limits(QUEUE).unwrap(), limits);
}

fn push(store: &dyn Store, rng: &mut Rng) {
    let jobs: Vec<_> = (0..rng.below(10))
        .map(|_| NewJob {
            payload: b"job",
            when: When::NOW,
            key: rng.chance(2).then(|| KEYS[rng.below(2)].as_bytes()),
            merge: Merge::Keep,
            schedule: None,
            urgent: rng.chance(8),
            kind: [None, Some(LIMITED), Some(RATED)][rng.below(3)],
            options: None,
        })
        .collect();
    store.enqueue(QUEUE, &jobs).unwrap();
}

/// A turn, repeated while others hold locks for longer than the store waits for them: a fraction of the lease. The
/// sessions of killed processes carry out what they have begun, however busy the machine is.
pub(crate) fn turn(store: &dyn Store, settles: &[Settle<'_>], claim: Option<Claim<'_>>) -> Turn {
    loop {
        match store.turn(QUEUE, settles, claim) {
            Err(error)
                if error.kind() == ErrorKind::Busy && error.carried_out() == CarriedOut::No => {}
            turn => return turn.unwrap(),
        }
    }
}

pub(crate) fn turn_of(store: &dyn Store, most: u32) -> Turn {
    let claim = Claim {
        token: Token::random(),
        kinds: None,
        max: most,
        start: most,
        ahead: 0,
        horizon: Duration::ZERO,
        lease: LEASE,
        urgent_first: true,
    };
    turn(store, &[], Some(claim))
}

pub(crate) fn now() -> StoreTime {
    StoreTime::from(SystemTime::now())
}

struct Diary(File);

impl Diary {
    /// Writes a whole line with one system call, so that a kill leaves no partial line.
    fn write(&mut self, event: &str, lease: &Lease, time: StoreTime, until: StoreTime) {
        let key = lease.key.as_deref().map(String::from_utf8_lossy);
        let key = key.as_deref().unwrap_or("-");
        let kind = lease.kind.as_deref().unwrap_or("-");
        let (id, time, until) = (lease.id, time.as_micros(), until.as_micros());
        let line = format!("{event} {id} {kind} {key} {time} {until}\n");
        self.0.write_all(line.as_bytes()).unwrap();
    }
}

/// Works until it is killed.
pub(crate) fn work(folder: &Path, name: &str, seed: u64) -> ! {
    let mut file = OpenOptions::new();
    let file = file.create(true).append(true);
    let mut diary = Diary(file.open(folder.join(format!("{name}.diary"))).unwrap());
    let mut rng = Rng::new(seed);
    let store = open(env::var(SERVER).ok().as_deref(), folder);
    let store = &*store;
    set_limits(store);
    loop {
        if store.stats(QUEUE).unwrap().jobs < BACKLOG {
            push(store, &mut rng);
        }
        let claim = turn_of(store, u32::try_from(rng.below(5)).unwrap());
        let leases = claim.claimed.unwrap().leases;
        for lease in &leases {
            diary.write("claimed", lease, claim.now, claim.now.after(LEASE));
        }
        for lease in &leases {
            pause(rng.below(WORK));
            if rng.chance(4) {
                let extend = [lease.settle(Act::Extend { lease: LEASE })];
                let turn = turn(store, &extend, None);
                if turn.verdicts == [Verdict::Done] {
                    diary.write("extended", lease, turn.now, turn.now.after(LEASE));
                }
            }
            if rng.chance(FORGOTTEN) {
                continue;
            }
            // It holds the job at least until now.
            let now = now();
            diary.write("ends", lease, now, now);
            let act = match rng.below(3) {
                0 => Act::retry(When::NOW),
                1 => Act::Release,
                _ => Act::Ack,
            };
            turn(store, &[lease.settle(act)], None);
        }
        pause(rng.below(WORK));
    }
}

#[expect(
    clippy::disallowed_methods,
    reason = "the work is to take time, in which the process may be killed"
)]
pub(crate) fn pause(millis: usize) {
    thread::sleep(Duration::from_millis(millis as u64));
}
