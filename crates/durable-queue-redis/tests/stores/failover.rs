//! A replica takes over in the middle of a storm of pushes and workers: with sentinels, and in a cluster.

use std::collections::BTreeSet;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering::SeqCst};
use std::thread;
use std::time::Duration;

use ::redis::cmd;
use durable_queue::store::{Act, Settle};
use durable_queue::{CarriedOut, DurableQueue, ErrorKind, NewJob, Store, TakeError};
use durable_queue_redis::{RedisOptions, RedisStore};

use super::cluster::queue_on;
use crate::alike::{JOB, a_sleeping_queue_is_woken, claim_of, shown, what};
use crate::redis_cluster::Cluster;
use crate::redis_sentinel::{NAME, Watched};
use crate::support::pause;

const PUSHERS: usize = 3;
const TAKERS: usize = 3;
/// Answered pushes before and after the failover.
const PUSHES: usize = 300;
const LEASE: Duration = Duration::from_secs(4);
const CONFIRM: Duration = Duration::from_secs(1);

/// Findings of a storm.
#[derive(Debug, Default)]
struct Outcome {
    /// Pushes that were answered, and jobs of them that were never run.
    answered: BTreeSet<u64>,
    lost: BTreeSet<u64>,
    /// Pushes without an answer.
    perhaps: BTreeSet<u64>,
    /// Jobs that were run after their acknowledgement had been answered.
    repeated: BTreeSet<u64>,
    /// The number of the first push that began after the failure.
    first_after: u64,
}

#[derive(Default)]
struct Seen {
    outcome: Outcome,
    ran: BTreeSet<u64>,
    acked: BTreeSet<u64>,
}

/// Pushes and runs jobs, and calls `fail` in their midst.
fn storm(queue: &DurableQueue<String, RedisStore>, fail: impl FnOnce()) -> Outcome {
    let seen = Mutex::new(Seen::default());
    let (next, is_over) = (AtomicU64::new(0), AtomicBool::new(false));
    let answered = || seen.lock().unwrap().outcome.answered.len();
    let wait_for = |count: usize| {
        while answered() < count {
            pause(1);
        }
    };
    testkit::watchdog(testkit::LIMIT * 2, || {
        thread::scope(|scope| {
            let pusher = || {
                while !is_over.load(SeqCst) {
                    let number = next.fetch_add(1, SeqCst);
                    let pushed = queue.push(number.to_string(), Duration::ZERO);
                    let Err(error) = pushed else {
                        seen.lock().unwrap().outcome.answered.insert(number);
                        continue;
                    };
                    assert!(error.error.is_transient(), "{error}");
                    if error.error.carried_out() == CarriedOut::Perhaps {
                        seen.lock().unwrap().outcome.perhaps.insert(number);
                    }
                    pause(10);
                }
            };
            let taker = || {
                loop {
                    let job = match queue.take() {
                        Ok(job) => job,
                        Err(TakeError::ShutDown) => return,
                        Err(error) => panic!("{error}"),
                    };
                    let number: u64 = job.parse().unwrap();
                    let is_repeated = {
                        let seen = &mut *seen.lock().unwrap();
                        seen.ran.insert(number);
                        seen.acked.contains(&number)
                    };
                    if is_repeated {
                        seen.lock().unwrap().outcome.repeated.insert(number);
                    }
                    if job.ack().is_ok() {
                        seen.lock().unwrap().acked.insert(number);
                    }
                }
            };
            let pushers: Vec<_> = (0..PUSHERS).map(|_| scope.spawn(pusher)).collect();
            for _ in 0..TAKERS {
                scope.spawn(taker);
            }
            wait_for(PUSHES);
            fail();
            seen.lock().unwrap().outcome.first_after = next.load(SeqCst);
            wait_for(answered() + PUSHES);
            is_over.store(true, SeqCst);
            for pusher in pushers {
                pusher.join().unwrap();
            }
            let store = queue.store();
            while store.stats(queue.name()).map_or(1, |stats| stats.jobs) > 0 {
                pause(10);
            }
            queue.close();
        });
    });
    let Seen {
        mut outcome, ran, ..
    } = seen.into_inner().unwrap();
    outcome.lost = &outcome.answered - &ran;
    let known = &outcome.answered | &outcome.perhaps;
    assert!(ran.is_subset(&known), "a rejected push was carried out");
    println!(
        "{} pushes answered, {} of them lost; {} pushes without an answer; {} acknowledged jobs run again",
        outcome.answered.len(),
        outcome.lost.len(),
        outcome.perhaps.len(),
        outcome.repeated.len()
    );
    outcome
}

fn queue(name: &str, store: RedisStore) -> DurableQueue<String, RedisStore> {
    let queue = DurableQueue::builder(name, store).lease(LEASE);
    queue.max_attempts(u32::MAX).build().unwrap()
}

fn master(name: &str) -> String {
    format!("redis://{name}/0")
}

fn open(watched: &Watched, options: RedisOptions) -> RedisStore {
    let opened = options.open_sentinel(master(NAME), watched.sentinels());
    opened.unwrap()
}

#[test]
fn a_failover_loses_no_push_that_a_replica_has_confirmed_and_repeats_no_confirmed_acknowledgement()
{
    // So that the new master has a replica too.
    let Some(mut watched) = Watched::new(2) else {
        return;
    };
    let confirmed = || RedisStore::options().wait_replicas(1, CONFIRM);
    let store = open(&watched, confirmed());
    let outcome = storm(&queue("queue", store.clone()), || {
        watched.servers[0].0.kill();
    });
    assert!(
        outcome.lost.is_empty() && outcome.repeated.is_empty(),
        "{outcome:?}"
    );
    assert_ne!(watched.master(), 0);
}

#[test]
fn a_failover_loses_answered_pushes_that_no_replica_has_and_no_others() {
    let Some(mut watched) = Watched::new(1) else {
        return;
    };
    let store = open(&watched, RedisStore::options());
    let outcome = storm(&queue("queue", store.clone()), || {
        let [(old, _), (replica, _)] = &mut watched.servers[..] else {
            unreachable!("there are two servers")
        };
        // Replication stops, and pushes go on.
        replica.signal("STOP");
        old.run::<u32>(cmd("CLIENT").arg(&["KILL", "TYPE", "replica"]));
        for _ in 0..100 {
            store.enqueue("other", &[JOB]).unwrap();
        }
        old.kill();
        replica.signal("CONT");
    });
    assert_eq!(
        store.stats("other").unwrap().jobs,
        0,
        "none of them was replicated"
    );
    assert!(
        outcome
            .lost
            .iter()
            .all(|number| *number < outcome.first_after),
        "{outcome:?}"
    );

    // Announcements of the new master are received.
    let name = "woken";
    let other = open(&watched, RedisStore::options());
    a_sleeping_queue_is_woken(&DurableQueue::new(name, store.clone()), |_, payload| {
        other.enqueue(name, &[NewJob { payload, ..JOB }]).unwrap();
    });
}

#[test]
fn a_push_that_too_few_replicas_confirm_fails_and_may_have_been_carried_out() {
    let Some(watched) = Watched::new(1) else {
        return;
    };
    let options = RedisStore::options().wait_replicas(2, Duration::from_millis(20));
    let store = open(&watched, options);
    let error = store.enqueue("queue", &[JOB]).unwrap_err();
    assert_eq!(what(&error), (ErrorKind::Unavailable, CarriedOut::Perhaps));
    assert!(shown(&error).contains("too few replicas"), "{error:?}");
    // Reading calls and claims need no replica.
    assert_eq!(store.stats("queue").unwrap().jobs, 1);
}

#[test]
fn a_settle_that_too_few_replicas_confirm_may_have_been_carried_out() {
    let Some(watched) = Watched::new(0) else {
        return;
    };
    let direct = open(&watched, RedisStore::options());
    let options = RedisStore::options().wait_replicas(1, Duration::from_millis(20));
    let store = open(&watched, options);
    let id = direct.enqueue("queue", &[JOB]).unwrap()[0].id();
    let claim = claim_of(1);
    // A claim without settles needs no replica: if it is lost, the job can be claimed again.
    store.turn("queue", &[], Some(claim)).unwrap();
    let ack = Settle {
        id,
        token: claim.token,
        act: Act::Ack,
    };
    let error = store.turn("queue", &[ack], None).unwrap_err();
    assert_eq!(what(&error), (ErrorKind::Unavailable, CarriedOut::Perhaps));
    assert_eq!(direct.stats("queue").unwrap().jobs, 0);
}

#[test]
fn a_server_that_is_no_longer_the_master_is_not_used() {
    let Some(watched) = Watched::new(1) else {
        return;
    };
    let [(old, _), (new, port)] = &watched.servers[..] else {
        unreachable!("there are two servers")
    };
    // The sentinels do not know it yet.
    new.run::<()>(cmd("REPLICAOF").arg(&["NO", "ONE"]));
    old.run::<()>(cmd("REPLICAOF").arg("127.0.0.1").arg(*port));
    let opened = RedisStore::options().open_sentinel(master(NAME), watched.sentinels());
    let error = opened.unwrap_err();
    assert_eq!(what(&error), (ErrorKind::Unavailable, CarriedOut::No));
    assert!(shown(&error).contains("not the master"), "{error:?}");
}

#[test]
fn a_master_that_the_sentinels_do_not_know_is_an_error() {
    let rejected = |name: &str, sentinels: &[String]| {
        let opened = RedisStore::options().open_sentinel(name, sentinels.iter().map(|it| &**it));
        let error = opened.unwrap_err();
        assert_eq!(error.carried_out(), CarriedOut::No);
        (error.kind(), shown(&error))
    };
    let none = rejected("redis://mymaster/0", &[]);
    assert!(
        none.0 == ErrorKind::Other && none.1.contains("at least one"),
        "{none:?}"
    );
    let socket = rejected(
        "redis+unix:///tmp/socket",
        &["redis://127.0.0.1:1".to_owned()],
    );
    assert!(socket.1.contains("name of the master"), "{socket:?}");
    let down = rejected("redis://mymaster/0", &["redis://127.0.0.1:1".to_owned()]);
    assert_eq!(down.0, ErrorKind::Unavailable);
    let Some(watched) = Watched::new(1) else {
        return;
    };
    let mut sentinels = watched.sentinels();
    let unknown = rejected("redis://other/0", &sentinels);
    assert!(
        unknown.0 == ErrorKind::Other && unknown.1.contains("monitor no master"),
        "{unknown:?}"
    );
    // Two of them may be down.
    sentinels[..2].fill("redis://127.0.0.1:1".to_owned());
    let store = RedisStore::options().open_sentinel(master(NAME), sentinels);
    store.unwrap().enqueue("queue", &[JOB]).unwrap();
}

#[test]
fn a_replica_takes_over_the_slots_of_a_failed_node_with_all_confirmed_pushes() {
    let Some(mut cluster) = Cluster::new(3, 2, &["--cluster-node-timeout", "1500"]) else {
        return;
    };
    // The first node has both replicas.
    let name = queue_on(&cluster, 0);
    let slot = cluster.slot(&name);
    let options = RedisStore::options().wait_replicas(1, CONFIRM);
    let store = options.open_cluster(cluster.addresses()).unwrap();
    let outcome = storm(&queue(&name, store), || cluster.nodes[0].server.kill());
    assert!(
        outcome.lost.is_empty() && outcome.repeated.is_empty(),
        "{outcome:?}"
    );
    assert!(cluster.owner_by(1, slot) >= 3);
}
