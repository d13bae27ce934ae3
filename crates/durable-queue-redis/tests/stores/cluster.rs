//! A Redis Cluster of three nodes: queues on all of them, and slots that move.

use std::fmt;
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering::Relaxed, Ordering::SeqCst};
use std::sync::mpsc::channel;
use std::thread;
use std::time::{Duration, SystemTime};

use ::redis::cmd;
use durable_queue::internals::ANYTHING;
use durable_queue::store::{Act, Settle, Verdict};
use durable_queue::{
    CarriedOut, DurableQueue, ErrorKind, NewJob, Notifier, Store, StoreTime, When,
};
use durable_queue_redis::{RedisOptions, RedisStore};
use durable_queue_testing::ManualStoreClock;
use durable_queue_testing::conformance::Fixture;
use testkit::Rng;

use super::losing::PARTS;
use super::options;
use crate::alike::{
    JOB, a_forked_child_is_refused, a_sleeping_queue_is_woken, claim_of, shown, what,
};
use crate::anywhere::works_on_any_thread;
use crate::disturbed::{Disturbance, QUEUE, a_party_loses_nothing};
use crate::redis_cluster::Cluster;

const NODES: usize = 3;

fn unique(name: &str) -> String {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    // Relaxed: only a unique number is needed.
    format!("{name}-{}", NEXT.fetch_add(1, Relaxed))
}

fn open(cluster: &Cluster, options: RedisOptions) -> RedisStore {
    options.open_cluster(cluster.addresses()).unwrap()
}

/// Returns the name of a new queue on this node.
pub(super) fn queue_on(cluster: &Cluster, node: usize) -> String {
    loop {
        let name = unique("queue");
        if cluster.owner(cluster.slot(&name)) == node {
            return name;
        }
    }
}

/// A separate prefix per test on the shared cluster, with a clock that the test moves.
struct Keys {
    cluster: &'static Cluster,
    store: RedisStore,
    prefix: String,
}

impl Keys {
    fn new() -> Option<Self> {
        let cluster = Cluster::shared()?;
        let prefix = unique("test");
        let key = format!("{prefix}:clock");
        let start = ManualStoreClock::START.as_micros();
        cluster.run::<()>(&key, cmd("SET").arg(&key).arg(start));
        Some(Self {
            cluster,
            store: open(cluster, options(&prefix, true)),
            prefix,
        })
    }
}

impl Fixture for Keys {
    type Store = RedisStore;

    fn store(&self) -> &RedisStore {
        &self.store
    }

    fn advance(&self, by: Duration) {
        let by = i64::try_from(by.as_micros()).unwrap();
        let key = format!("{}:clock", self.prefix);
        let mut add = cmd("INCRBY");
        self.cluster.run::<i64>(&key, add.arg(&key).arg(by));
    }

    fn another(&self) -> RedisStore {
        open(self.cluster, options(&self.prefix, true))
    }
}

mod conformance {
    use super::Keys;

    durable_queue_testing::conformance_tests!(if Keys::new());
    durable_queue_testing::conformance_tests!(limits if Keys::new());
}

#[test]
fn queues_are_spread_over_the_nodes_and_each_is_complete_on_one() {
    let Some(cluster) = Cluster::shared() else {
        return;
    };
    let prefix = unique("spread");
    let store = open(cluster, options(&prefix, false));
    for node in 0..NODES {
        for _ in 0..3 {
            let name = queue_on(cluster, node);
            store.enqueue(&name, &[JOB, JOB]).unwrap();
            let other = open(cluster, options(&prefix, false));
            let turn = other.turn(&name, &[], Some(claim_of(1))).unwrap();
            assert_eq!(turn.claimed.unwrap().leases.len(), 1);
            assert_eq!(store.stats(&name).unwrap().jobs, 2);
        }
        let server = &cluster.nodes[node].server;
        let keys: Vec<String> = server.run(cmd("KEYS").arg(format!("{prefix}:*:due")));
        assert_eq!(keys.len(), 3, "node {node}");
    }
}

#[test]
fn a_store_on_a_cluster_works_on_any_thread() {
    let Some(cluster) = Cluster::shared() else {
        return;
    };
    let prefix = unique("anywhere");
    works_on_any_thread(move || open(cluster, options(&prefix, false)));
}

#[test]
fn a_sleeping_queue_is_woken_by_pushes_of_other_processes_whatever_node_it_is_on() {
    let Some(cluster) = Cluster::shared() else {
        return;
    };
    let prefix = unique("woken");
    let store = open(cluster, options(&prefix, false));
    let other = open(cluster, options(&prefix, false));
    for node in 0..NODES {
        let name = queue_on(cluster, node);
        let queue = DurableQueue::new(&name, store.clone());
        let slot = cluster.slot(&name);
        a_sleeping_queue_is_woken(&queue, |number, payload| {
            if number == 3 {
                // Messages do not depend on the slot's owner.
                cluster.move_slot(slot, (node + 1) % NODES);
            }
            other.enqueue(&name, &[NewJob { payload, ..JOB }]).unwrap();
        });
    }
}

#[test]
fn a_lost_listening_session_is_replaced_by_one_with_any_node_and_all_notifiers_are_called() {
    let Some(cluster) = Cluster::new(NODES, 0, &[]) else {
        return;
    };
    let prefix = unique("listens");
    let store = open(&cluster, options(&prefix, false));
    let other = open(&cluster, options(&prefix, false));
    let name = queue_on(&cluster, 0);
    testkit::watchdog(testkit::LIMIT, || {
        let (sender, times) = channel();
        let notifier = Notifier::new(move |due| sender.send(due).unwrap());
        let watch = store.watch(&name, notifier).unwrap();
        for _ in 0..NODES {
            let listened_to = cluster.nodes.iter().filter(|node| {
                let mut count = cmd("PUBSUB");
                let channel = format!("{prefix}:earlier");
                let count: (String, u32) = node.server.run(count.arg("NUMSUB").arg(channel));
                count.1 > 0
            });
            let [node] = listened_to.collect::<Vec<_>>()[..] else {
                panic!("one node sends all messages");
            };
            let killed: u32 = node
                .server
                .run(cmd("CLIENT").arg(&["KILL", "TYPE", "pubsub"]));
            assert_eq!(killed, 1);
            assert_eq!(times.recv().unwrap(), ANYTHING);
            other.enqueue(&name, &[JOB]).unwrap();
            assert!(times.recv().unwrap() > ANYTHING);
            // Without a head, the next push is announced too.
            store.watch(&name, Notifier::new(|_| ())).unwrap();
        }
        drop(watch);
    });
}

/// Returns the number of the node from which the store receives messages.
fn sender_of_messages(cluster: &Cluster, prefix: &str) -> usize {
    let listened_to = (0..cluster.nodes.len()).filter(|node| {
        let mut count = cmd("PUBSUB");
        let channel = format!("{prefix}:earlier");
        let count = count.arg("NUMSUB").arg(channel);
        let (_, count): (String, u32) = cluster.nodes[*node].server.run(count);
        count > 0
    });
    let all: Vec<_> = listened_to.collect();
    assert_eq!(all.len(), 1, "one node sends all messages");
    all[0]
}

#[test]
fn messages_are_received_from_another_node_when_the_one_that_sent_them_has_failed() {
    // The others continue without it.
    let partial = ["--cluster-require-full-coverage", "no"];
    let Some(mut cluster) = Cluster::new(NODES, 0, &partial) else {
        return;
    };
    let prefix = unique("fails");
    let [store, other] = [(); 2].map(|()| open(&cluster, options(&prefix, false)));
    let names = [0, 1, 2].map(|node| queue_on(&cluster, node));
    for name in &names {
        // A new session may need the failed node, which may have the version.
        other.stats(name).unwrap();
    }
    let (sender, times) = channel();
    let watches = names.each_ref().map(|name| {
        let sender = sender.clone();
        store
            .watch(name, Notifier::new(move |due| _ = sender.send(due)))
            .unwrap()
    });
    let failed = sender_of_messages(&cluster, &prefix);
    cluster.nodes[failed].server.kill();
    testkit::watchdog(testkit::LIMIT, || {
        for _ in &names {
            assert_eq!(times.recv().unwrap(), ANYTHING);
        }
        let next = (failed + 1) % NODES;
        other.enqueue(&names[next], &[JOB]).unwrap();
        assert!(times.recv().unwrap() > ANYTHING);
    });
    drop(watches);
}

/// It may be older than the one that the failed node has answered with, and the sessions with other nodes
/// have not ended.
#[test]
fn a_push_is_announced_whatever_head_another_node_has_set() {
    let Some(cluster) = Cluster::shared() else {
        return;
    };
    let prefix = unique("heads");
    let [store, other] = [(); 2].map(|()| open(cluster, options(&prefix, false)));
    let name = queue_on(cluster, 0);
    let (sender, times) = channel();
    let notifier = Notifier::new(move |due| _ = sender.send(due));
    let watch = other.watch(&name, notifier).unwrap();
    let push = |hours| {
        let at = StoreTime::from(SystemTime::now()).after(Duration::from_secs(3_600) * hours);
        let when = When::At(at);
        store.enqueue(&name, &[NewJob { when, ..JOB }]).unwrap();
        at
    };
    testkit::watchdog(testkit::LIMIT, || {
        let first = push(1);
        assert_eq!(times.recv().unwrap(), first);
        push(2);
        let key = format!("{prefix}:{{{name}}}:state");
        let head: String = cluster.run(&key, cmd("HGET").arg(&key).arg("head"));
        let its = head.replace(&cluster.nodes[0].id, &cluster.nodes[1].id);
        assert_ne!(head, its);
        cluster.run::<()>(&key, cmd("HSET").arg(&key).arg("head").arg(its));
        let last = push(3);
        assert_eq!(times.recv().unwrap(), last, "and not the second");
    });
    drop(watch);
}

#[test]
fn a_call_follows_its_queue_to_the_new_owner() {
    let Some(cluster) = Cluster::shared() else {
        return;
    };
    let prefix = unique("moved");
    let store = open(cluster, options(&prefix, false));
    let name = queue_on(cluster, 0);
    let slot = cluster.slot(&name);
    for to in [1, 2, 0, 1] {
        store.enqueue(&name, &[JOB]).unwrap();
        cluster.move_slot(slot, to);
    }
    assert_eq!(store.stats(&name).unwrap().jobs, 4);
}

#[test]
fn a_command_with_one_key_is_served_by_the_importing_node_while_its_slot_is_being_moved() {
    let Some(cluster) = Cluster::shared() else {
        return;
    };
    // A version that exists, and one that does not exist yet.
    for exists in [true, false] {
        let prefix = unique("ask");
        let options = || options(&prefix, false);
        if exists {
            open(cluster, options());
        }
        let slot = cluster.slot(&format!("{prefix}:version"));
        let owner = cluster.owner(slot);
        let to = (owner + 1) % NODES;
        cluster.begin_move(slot, to);
        while cluster.move_key(slot, owner, to) {}
        let store = open(cluster, options());
        // ASK is for one call.
        assert_eq!(cluster.owner(slot), owner);
        cluster.end_move(slot, owner, to);
        let version = cmd("GET").arg(format!("{prefix}:version")).clone();
        let version: String = cluster.nodes[to].server.run(&version);
        assert!(!version.is_empty());
        drop(store);
    }
}

/// All of its keys exist. Without a key that does not, the old owner would start scripts, and stop those that
/// remove the last entry of a key.
#[test]
fn a_call_on_a_queue_whose_keys_are_being_moved_is_not_started() {
    let Some(cluster) = Cluster::shared() else {
        return;
    };
    testkit::watchdog(testkit::LIMIT, || calls_wait_for_moves(cluster));
}

fn calls_wait_for_moves(cluster: &Cluster) {
    let prefix = unique("waits");
    let name = queue_on(cluster, 0);
    let impatient = options(&prefix, false).response_timeout(Duration::from_millis(20));
    let (store, impatient) = (
        open(cluster, options(&prefix, false)),
        open(cluster, impatient),
    );
    let key = |key| NewJob {
        key: Some(key),
        urgent: true,
        ..JOB
    };
    // One job in each key: a dead letter, a started job with a key, an open one, and one that waits.
    let puts = store.enqueue(&name, &[JOB]).unwrap();
    let claim = claim_of(1);
    store.turn(&name, &[], Some(claim)).unwrap();
    let bury = Settle {
        id: puts[0].id(),
        token: claim.token,
        act: Act::Bury {
            error: "no",
            failures: None,
            counts: true,
        },
    };
    store.turn(&name, &[bury], None).unwrap();
    let started = store.enqueue(&name, &[key(b"1")]).unwrap()[0].id();
    let claim = claim_of(1);
    store.turn(&name, &[], Some(claim)).unwrap();
    store.enqueue(&name, &[key(b"2")]).unwrap();
    let mut count = cmd("CLUSTER");
    let slot = cluster.slot(&name);
    count.arg("COUNTKEYSINSLOT").arg(slot);
    let all: usize = cluster.nodes[0].server.run(&count);
    assert_eq!(all, PARTS.len(), "this queue has each of its keys");

    let from = cluster.begin_move(slot, 2);
    let ack = Settle {
        id: started,
        token: claim.token,
        act: Act::Ack,
    };
    for _ in 0..2 {
        let error = impatient.turn(&name, &[ack], None).unwrap_err();
        assert_eq!(what(&error), (ErrorKind::Unavailable, CarriedOut::No));
        assert!(shown(&error).contains("moving"), "{error:?}");
        // Also if some keys are elsewhere.
        cluster.move_key(slot, from, 2);
    }
    // Also if all are elsewhere, and the importing node is asked.
    let turn = thread::scope(|scope| {
        while cluster.move_key(slot, from, 2) {}
        let error = impatient.turn(&name, &[ack], None).unwrap_err();
        assert_eq!(what(&error), (ErrorKind::Unavailable, CarriedOut::No));
        // A patient call waits until the slot has moved.
        let turn = scope.spawn(|| store.turn(&name, &[ack], None).unwrap());
        cluster.end_move(slot, from, 2);
        turn.join().unwrap()
    });
    assert_eq!(turn.verdicts, [Verdict::Done]);
    let stats = store.stats(&name).unwrap();
    assert_eq!((stats.jobs, stats.dead), (1, 1));
}

/// Moves a slot again and again.
#[derive(Default)]
struct Moves {
    is_over: AtomicBool,
    done: AtomicU32,
    keys: AtomicU32,
}

impl fmt::Display for Moves {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [done, keys] = [&self.done, &self.keys].map(|it| it.load(SeqCst));
        write!(f, "{done} moves of a slot with {keys} keys")
    }
}

impl Disturbance for Moves {
    fn is_over(&self) -> bool {
        self.is_over.load(SeqCst)
    }

    fn works(&self, _: usize) -> Option<Duration> {
        None
    }
}

/// Ends the disturbance, also if it panics.
struct Over<'a>(&'a Moves);

impl Drop for Over<'_> {
    fn drop(&mut self) {
        self.0.is_over.store(true, SeqCst);
    }
}

#[test]
fn processes_whose_queue_moves_between_the_nodes_lose_no_job() {
    const MOVES: usize = 30;
    let Some(cluster) = Cluster::new(NODES, 0, &[]) else {
        return;
    };
    let prefix = unique("party");
    let open = || open(&cluster, options(&prefix, false));
    let direct = open();
    let plan = Moves::default();
    let mut rng = Rng::from_env();
    let its = rng.split();
    thread::scope(|scope| {
        scope.spawn(|| {
            let _over = Over(&plan);
            let slot = cluster.slot(QUEUE);
            for _ in 0..MOVES {
                let from = cluster.owner(slot);
                let to = (from + 1 + rng.below(NODES - 1)) % NODES;
                cluster.begin_move(slot, to);
                while cluster.move_key(slot, from, to) {
                    plan.keys.fetch_add(1, SeqCst);
                }
                // Lets calls be redirected to the importing node.
                let redirected = || errors(&cluster, "ASK");
                let before = redirected();
                for _ in 0..100 {
                    if redirected() > before {
                        break;
                    }
                    thread::yield_now();
                }
                cluster.end_move(slot, from, to);
                plan.done.fetch_add(1, SeqCst);
            }
        });
        let limit = testkit::LIMIT * 4;
        a_party_loses_nothing("cluster", limit, &plan, &direct, || Some(open()), its);
    });
    let [moved, asked] = ["MOVED", "ASK"].map(|code| errors(&cluster, code));
    println!("{moved} MOVED, {asked} ASK");
    assert!(moved > 0 && asked > 0);
}

/// Returns the number of answers with this error.
fn errors(cluster: &Cluster, code: &str) -> u64 {
    let count = |server: &crate::redis_server::Server| {
        let stats: String = server.run(cmd("INFO").arg("errorstats"));
        let prefix = format!("errorstat_{code}:count=");
        let line = stats.lines().find_map(|line| line.strip_prefix(&prefix));
        line.map_or(0, |count| count.trim().parse::<u64>().unwrap())
    };
    cluster.nodes.iter().map(|node| count(&node.server)).sum()
}

#[test]
fn a_node_that_returns_at_another_address_is_found_by_the_next_call() {
    let durable = ["--appendonly", "yes", "--appendfsync", "always"];
    let Some(mut cluster) = Cluster::new(NODES, 0, &durable) else {
        return;
    };
    let prefix = unique("returns");
    let store = open(&cluster, options(&prefix, false));
    let names = [0, 1, 2].map(|node| queue_on(&cluster, node));
    for name in &names {
        store.enqueue(name, &[JOB]).unwrap();
    }
    cluster.nodes[1].server.kill();
    let carried_out = [CarriedOut::Perhaps, CarriedOut::No, CarriedOut::No];
    for carried_out in carried_out {
        let error = store.stats(&names[1]).unwrap_err();
        assert_eq!(what(&error), (ErrorKind::Unavailable, carried_out));
    }
    cluster.nodes[1].start_at_other_ports();
    cluster.wait_until_ok();
    for name in &names {
        assert_eq!(store.stats(name).unwrap().jobs, 1);
    }
}

#[test]
fn a_version_that_another_process_raises_is_detected_on_every_node() {
    let Some(cluster) = Cluster::shared() else {
        return;
    };
    let prefix = unique("version");
    let store = open(cluster, options(&prefix, false));
    let key = format!("{prefix}:version");
    cluster.run::<()>(&key, cmd("SET").arg(&key).arg("100:100"));
    let refused = options(&prefix, false).open_cluster(cluster.addresses());
    assert!(matches!(
        refused.unwrap_err().kind(),
        ErrorKind::Newer { .. }
    ));
    let refused = (0..NODES).filter(|node| {
        let name = queue_on(cluster, *node);
        // The first session with a node was started by `open`, but is not kept.
        let error = store.enqueue(&name, &[JOB]).unwrap_err();
        matches!(error.kind(), ErrorKind::Newer { .. })
    });
    assert_eq!(refused.count(), NODES);
}

#[test]
fn the_documented_permissions_suffice_on_a_cluster_and_are_necessary() {
    let Some(cluster) = Cluster::shared() else {
        return;
    };
    let prefix = unique("user");
    let (own_keys, own_channel) = (format!("~{prefix}:*"), format!("&{prefix}:earlier"));
    let documented = [
        "+@read",
        "+@write",
        "+@connection",
        "+@scripting",
        "+@pubsub",
        "+info",
        "+time",
        "+cluster|info",
        "+cluster|slots",
        "+cluster|myid",
        &own_keys,
        &own_channel,
    ];
    let open_as = |rights: &[&str]| {
        let mut set = cmd("ACL");
        set.arg("SETUSER").arg(&prefix);
        set.arg(&["reset", "on", ">hunter2"]).arg(rights);
        for node in &cluster.nodes {
            node.server.run::<()>(&set);
        }
        let port = cluster.nodes[0].port;
        let node = format!("redis://{prefix}:hunter2@127.0.0.1:{port}");
        options(&prefix, false)
            .wait_replicas(1, Duration::from_millis(1))
            .open_cluster([node])
    };
    let store = open_as(&documented).unwrap();
    let name = queue_on(cluster, 1);
    let slot = cluster.slot(&name);
    let error = store.enqueue(&name, &[JOB]).unwrap_err();
    assert_eq!(
        error.carried_out(),
        CarriedOut::Perhaps,
        "no replica: {error:?}"
    );
    let from = cluster.begin_move(slot, 2);
    while cluster.move_key(slot, from, 2) {}
    // Asks the importing node.
    drop(store.watch(&name, Notifier::new(|_| ())).unwrap());
    cluster.end_move(slot, from, 2);
    assert_eq!(store.stats(&name).unwrap().jobs, 1);
    for missing in ["+cluster|info", "+cluster|slots", "+info", &own_channel] {
        let rest = documented.into_iter().filter(|it| *it != missing);
        let error = open_as(&rest.collect::<Vec<_>>()).unwrap_err();
        let shown = shown(&error);
        assert!(
            shown.contains("NOPERM") && !shown.contains("hunter2"),
            "{shown}"
        );
    }
}

/// Responses would reach the wrong process.
#[test]
fn a_forked_child_is_rejected_and_the_parents_store_on_a_cluster_keeps_working() {
    let ended = testkit::in_child(
        "cluster::a_forked_child_is_rejected_and_the_parents_store_on_a_cluster_keeps_working",
        || {
            let Some(cluster) = Cluster::new(1, 0, &[]) else {
                return;
            };
            let store = open(&cluster, options(&unique("forks"), false));
            // The listener has its own session.
            drop(store.watch("queue", Notifier::new(|_| ())).unwrap());
            let store = a_forked_child_is_refused(store, |_| None);
            store.enqueue("queue", &[JOB]).unwrap();
        },
    );
    assert!(ended.is_ok(), "{ended:?}");
}

#[test]
fn addresses_that_cannot_be_those_of_a_cluster_are_rejected() {
    let none: [&str; 0] = [];
    let rejected = |nodes: &[&str]| {
        let error = RedisStore::options()
            .open_cluster(nodes.iter().copied())
            .unwrap_err();
        assert_eq!(
            what(&error),
            (ErrorKind::Other, CarriedOut::No),
            "{nodes:?}"
        );
        shown(&error)
    };
    assert!(rejected(&none).contains("at least one address"));
    assert!(rejected(&["redis://nowhere.invalid/1"]).contains("database 0"));
    assert!(rejected(&["no address at all"]).contains("address is invalid"));
    let Some(cluster) = Cluster::shared() else {
        return;
    };
    let alone = crate::redis_server::Server::new(&[]).unwrap();
    assert!(rejected(&[&alone.address()]).contains("use `open`"));
    // One that answers is enough.
    let nodes = ["redis://127.0.0.1:1".to_owned(), cluster.nodes[2].address()];
    options(&unique("seed"), false).open_cluster(nodes).unwrap();
    // A store for one server finds that it is not enough.
    let name = queue_on(cluster, 1);
    let version = format!("{}:version", unique("single"));
    let owner = &cluster.nodes[cluster.owner(cluster.slot(&version))];
    let prefix = version.strip_suffix(":version").unwrap();
    let store = options(prefix, false).open(&owner.address()).unwrap();
    let names = [0, 1, 2].map(|node| queue_on(cluster, node));
    let errors = names
        .iter()
        .filter_map(|name| store.enqueue(name, &[JOB]).err());
    let errors: Vec<_> = errors.map(|error| shown(&error)).collect();
    assert_eq!(errors.len(), 2);
    assert!(
        errors.iter().all(|it| it.contains("use `open_cluster`")),
        "{errors:?} {name}"
    );
}
