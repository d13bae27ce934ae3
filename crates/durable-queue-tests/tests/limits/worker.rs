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
/// With limits of groups and kinds, and with ordered groups.
pub(crate) const QUEUES: [&str; 2] = ["limits", ORDERED];
pub(crate) const ORDERED: &str = "ordered";
/// The kind with a maximum.
pub(crate) const LIMITED: &str = "limited";
pub(crate) const MOST: u32 = 3;
/// The kind with a rate.
pub(crate) const RATED: &str = "rated";
pub(crate) const RATE: u32 = 10;
pub(crate) const PER: Duration = Duration::from_millis(200);
pub(crate) const MOST_OF_GROUP: u32 = 2;
/// Short, so that places of dead processes are free soon.
pub(crate) const LEASE: Duration = Duration::from_millis(300);
/// A job's payload is its group, or `-`.
const GROUPS: [&str; 2] = ["a", "b"];
/// No jobs are pushed while there are more.
const BACKLOG: u32 = 100;
/// Maximum duration of a handler, in milliseconds.
const WORK: usize = 20;
/// While a job waits for its next attempt, others of its ordered group must not go on.
const BACK_OFF: Duration = Duration::from_millis(20);
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
        Limit::per_group(MOST_OF_GROUP),
        Limit::per_kind(LIMITED, MOST),
        Limit::rate_of_kind(RATED, RATE, PER),
    ];
    for (queue, limits) in QUEUES.into_iter().zip([&limits[..], &[Limit::ordered()]]) {
        for limit in limits {
            store.limit(queue, limit, true).unwrap();
        }
        assert_eq!(store.limits(queue).unwrap(), limits);
    }
}

fn push(store: &dyn Store, queue: &str, rng: &mut Rng) {
    let jobs: Vec<_> = (0..rng.below(10))
        .map(|_| {
            let group = rng.chance(2).then(|| GROUPS[rng.below(2)]);
            NewJob {
                payload: group.unwrap_or("-").as_bytes(),
                when: When::NOW,
                key: None,
                group,
                merge: Merge::Keep,
                schedule: None,
                urgent: rng.chance(8),
                kind: [None, Some(LIMITED), Some(RATED)][rng.below(3)],
                options: None,
            }
        })
        .collect();
    store.enqueue(queue, &jobs).unwrap();
}

/// A turn, repeated while others hold locks for longer than the store waits for them: a fraction of the lease. The
/// sessions of killed processes carry out what they have begun, however busy the machine is.
pub(crate) fn turn(
    store: &dyn Store,
    queue: &str,
    settles: &[Settle<'_>],
    claim: Option<Claim<'_>>,
) -> Turn {
    loop {
        match store.turn(queue, settles, claim) {
            Err(error)
                if error.kind() == ErrorKind::Busy && error.carried_out() == CarriedOut::No => {}
            turn => return turn.unwrap(),
        }
    }
}

pub(crate) fn turn_of(store: &dyn Store, queue: &str, most: u32) -> Turn {
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
    turn(store, queue, &[], Some(claim))
}

pub(crate) fn now() -> StoreTime {
    StoreTime::from(SystemTime::now())
}

struct Diary(File);

impl Diary {
    /// Writes a whole line with one system call, so that a kill leaves no partial line.
    fn write(
        &mut self,
        event: &str,
        queue: &str,
        lease: &Lease,
        time: StoreTime,
        until: StoreTime,
    ) {
        let group = String::from_utf8_lossy(&lease.payload);
        let kind = lease.kind.as_deref().unwrap_or("-");
        let (id, time, until) = (lease.id, time.as_micros(), until.as_micros());
        let line = format!("{event} {queue}.{id} {kind} {queue}.{group} {time} {until}\n");
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
        let queue = QUEUES[rng.below(2)];
        if store.stats(queue).unwrap().jobs < BACKLOG {
            push(store, queue, &mut rng);
        }
        let claim = turn_of(store, queue, u32::try_from(rng.below(5)).unwrap());
        let leases = claim.claimed.unwrap().leases;
        for lease in &leases {
            diary.write("claimed", queue, lease, claim.now, claim.now.after(LEASE));
        }
        for lease in &leases {
            pause(rng.below(WORK));
            if rng.chance(4) {
                let extend = [lease.settle(Act::Extend { lease: LEASE })];
                let turn = turn(store, queue, &extend, None);
                if turn.verdicts == [Verdict::Done] {
                    diary.write("extended", queue, lease, turn.now, turn.now.after(LEASE));
                }
            }
            if rng.chance(FORGOTTEN) {
                continue;
            }
            // It holds the job at least until now.
            let now = now();
            diary.write("ends", queue, lease, now, now);
            let act = match rng.below(4) {
                0 => Act::retry(When::NOW),
                3 => Act::retry(When::After(BACK_OFF)),
                1 => Act::Release,
                _ => Act::Ack,
            };
            turn(store, queue, &[lease.settle(act)], None);
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
