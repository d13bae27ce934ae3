//! Calls read only what they return or change.

use ::redis::{Connection, Value, cmd};
use std::time::Duration;

use durable_queue::store::{Act, Claim, KindRoom, Lease};
use durable_queue::{Limit, NewJob, Reset, Store, StoreTime, When};

use crate::OpenStore as _;
use crate::alike::{self, JOB};
use crate::redis_server::Server;

const DELAYED: usize = 20_000;
const JOBS: usize = 60;

/// Receives all commands of a server, including those of scripts.
struct Monitor(Connection);

impl Monitor {
    fn new(server: &Server) -> Self {
        let mut session = server.session();
        cmd("MONITOR").query::<Value>(&mut session).unwrap();
        Self(session)
    }

    /// Returns the commands since the last call.
    fn commands(&mut self, server: &Server) -> Vec<String> {
        server.run::<()>(cmd("ECHO").arg("mark"));
        let mut commands = Vec::new();
        loop {
            let Value::SimpleString(line) = self.0.recv_response().unwrap() else {
                panic!("a line");
            };
            if line.contains("\"ECHO\"") {
                return commands;
            }
            commands.push(line);
        }
    }

    /// Returns the number of commands since the last call, and the maximum number of values that one asked
    /// for.
    fn counted(&mut self, server: &Server) -> (usize, usize) {
        let all = self.commands(server);
        let mut values = 0;
        for line in &all {
            let words: Vec<&str> = line.split('"').skip(1).step_by(2).collect();
            match words[0] {
                "ZRANGE" => values += span(words[2], words[3]),
                "ZRANGEBYSCORE" => {
                    let limit = words.iter().position(|word| *word == "LIMIT");
                    // Without a limit it reads the jobs of a claim, which are among the leased ones.
                    assert!(limit.is_some() || words[1].ends_with(":lease"), "{line}");
                    values += limit.map_or(JOBS, |at| words[at + 2].parse().unwrap());
                }
                "ZRANGEBYLEX" => {
                    let limit = words.iter().position(|word| *word == "LIMIT");
                    let is_of_all = [":kind", ":group"].iter().any(|it| words[1].ends_with(it));
                    assert!(limit.is_some() || !is_of_all, "{line}");
                    values += limit.map_or(1, |at| words[at + 2].parse().unwrap());
                }
                "HMGET" | "ZMSCORE" => values += words.len() - 2,
                "HGETALL" if words[1].ends_with(":limit") => values += 1,
                "HGETALL" | "HKEYS" | "HVALS" | "ZSCAN" | "HSCAN" | "SMEMBERS" => {
                    panic!("it reads all: {line}")
                }
                _ => {}
            }
        }
        (all.len(), values)
    }
}

fn span(first: &str, last: &str) -> usize {
    let [first, last] = [first, last].map(|word| word.parse::<usize>().unwrap());
    last + 1 - first
}

fn all_calls(store: &impl Store) {
    alike::all_calls(store, JOBS);
    store.stats("queue").unwrap();
    store.dead("queue", None, 10).unwrap();
}

/// Neither a look that finds an urgent job, nor one that finds none.
#[test]
fn other_due_jobs_do_not_slow_claims_of_urgent_ones() {
    const IN_FRONT: usize = 10_000;
    let Some(server) = Server::new(&["--appendfsync", "no"]) else {
        return;
    };
    let store = server.store();
    let mut monitor = Monitor::new(&server);
    let urgent = NewJob {
        urgent: true,
        ..JOB
    };
    let mut claims = || {
        [true, false].map(|is_there| {
            let put = is_there.then(|| store.enqueue("queue", &[urgent]).unwrap());
            monitor.counted(&server);
            let claim = alike::claim_of(1);
            let turn = store.turn("queue", &[], Some(claim)).unwrap();
            let leases = turn.claimed.unwrap().leases;
            assert_eq!((leases.len(), leases[0].urgent), (1, is_there));
            drop(put);
            monitor.counted(&server)
        })
    };
    store.enqueue("queue", &[JOB]).unwrap();
    let before = claims();
    store.enqueue("queue", &vec![JOB; IN_FRONT]).unwrap();
    for (after, before) in claims().into_iter().zip(before) {
        assert!(
            after.0 <= before.0 && after.1 <= before.1,
            "{after:?} {before:?}"
        );
    }
}

#[test]
fn no_call_reads_delayed_jobs() {
    let Some(server) = Server::new(&["--appendfsync", "no"]) else {
        return;
    };
    let store = server.store();
    all_calls(&store); // Loads the scripts.
    let mut monitor = Monitor::new(&server);
    all_calls(&store);
    let (commands, values) = monitor.counted(&server);
    assert!(commands > 50 && values > 5 * JOBS, "{commands} {values}");
    // All at the same time, which is the worst case for a list that starts among them.
    let hour = StoreTime::from_micros(8_000_000_000_000_000);
    let delayed = NewJob {
        when: When::At(hour),
        ..JOB
    };
    let puts = store.enqueue("queue", &vec![delayed; DELAYED]).unwrap();
    monitor.counted(&server);
    all_calls(&store);
    let (with_commands, with_values) = monitor.counted(&server);
    assert!(with_commands <= commands + 5, "{with_commands} {commands}");
    assert!(with_values <= values + 5, "{with_values} {values}");
    let middle = puts[DELAYED / 2].id();
    let page = store.list("queue", Some((hour, middle)), 2).unwrap();
    assert_eq!(page[0].id.as_u64(), middle.as_u64() + 1);
    let (commands, values) = monitor.counted(&server);
    let steps = usize::try_from(DELAYED.ilog2()).unwrap() + 1;
    assert!(
        commands <= 12 + steps && values <= 12 + steps,
        "{commands} {values}"
    );
}

const fn of_kind(kind: &str) -> NewJob<'_> {
    NewJob {
        kind: Some(kind),
        ..JOB
    }
}

/// The commands and values of a claim that finds nothing, of one that finds a job of each kind, and of one that settles
/// these and finds none.
fn steps_of_kinds(
    server: &Server,
    monitor: &mut Monitor,
    store: &impl Store,
    kinds: &[KindRoom<'_>],
) -> [(usize, usize); 3] {
    let claim = || Claim {
        kinds: Some(kinds),
        ..alike::claim_of(u32::try_from(kinds.len()).unwrap())
    };
    // Afterwards pushes are announced to this process.
    store.turn("queue", &[], Some(claim())).unwrap();
    let mut held = Vec::new();
    [0, kinds.len(), 0].map(|found| {
        let jobs: Vec<_> = kinds.iter().map(|it| of_kind(it.kind)).collect();
        if found > 0 {
            store.enqueue("queue", &jobs).unwrap();
        }
        let settles: Vec<_> = held
            .drain(..)
            .map(|it: Lease| it.settle(Act::Ack))
            .collect();
        monitor.commands(server);
        let turn = store.turn("queue", &settles, Some(claim())).unwrap();
        let leases = turn.claimed.unwrap().leases;
        assert_eq!(leases.len(), found);
        held = leases;
        monitor.counted(server)
    })
}

/// In front of those that the claims list: due ones, ones whose leases have expired, and others without a kind.
#[test]
fn jobs_of_other_kinds_do_not_slow_claims_that_list_kinds() {
    const OTHERS: usize = 3_000;
    let Some(server) = Server::new(&["--appendfsync", "no"]) else {
        return;
    };
    let store = server.store();
    let mut monitor = Monitor::new(&server);
    let kinds: Vec<String> = (0..20).map(|number| format!("kind {number}")).collect();
    let kinds = kinds.iter().map(|kind| KindRoom { kind, room: 8 });
    let kinds: Vec<KindRoom<'_>> = kinds.collect();
    let urgent = NewJob {
        urgent: true,
        ..of_kind("other")
    };
    let put_others = |count: usize| {
        store
            .enqueue("queue", &vec![of_kind("other"); count])
            .unwrap();
        // In parts, because a short lease limits the time of a call. What has expired comes after the rest.
        let mut left = u32::try_from(count).unwrap();
        while left > 0 {
            let part = left.min(100);
            let expired = Claim {
                lease: Duration::ZERO,
                ..alike::claim_of(part)
            };
            let turn = store.turn("queue", &[], Some(expired)).unwrap();
            assert_eq!(turn.claimed.unwrap().leases.len(), part as usize);
            left -= part;
        }
        for job in [of_kind("other"), urgent, JOB] {
            store.enqueue("queue", &vec![job; count]).unwrap();
        }
    };
    put_others(1);
    let mut steps = |kinds| steps_of_kinds(&server, &mut monitor, &store, kinds);
    steps(&kinds); // Loads the script.
    let few = [1, 20].map(|count| steps(&kinds[..count]));
    put_others(OTHERS);
    let many = [1, 20].map(|count| steps(&kinds[..count]));
    assert_eq!(few, many);
    for ([none, found, settled], count) in many.into_iter().zip([1, 20]) {
        // Free, leased and urgent jobs of each kind are looked for, and the next free and leased ones.
        let commands = [none.0, found.0, settled.0];
        assert_eq!(commands, [10, 20, 18].map(|others| others + 5 * count));
        // One more of each kind is asked for.
        let values = none.1.max(found.1).max(settled.1);
        assert!(values <= 20 + 12 * count, "{values}");
    }
}

/// Names of commands in the order of the alphabet: those of writes at the end of a script have no order of their own.
fn sorted_names(commands: &[String]) -> String {
    let name = |line: &String| line.split('"').nth(1).unwrap().to_owned();
    let mut names: Vec<_> = commands.iter().map(name).collect();
    names.sort_unstable();
    names.join(" ")
}

/// The commands of a claim of a job, and of its acknowledgement.
fn claim_and_ack(
    server: &Server,
    monitor: &mut Monitor,
    store: &impl Store,
    job: NewJob<'_>,
) -> (Vec<String>, Vec<String>) {
    store.enqueue("queue", &[job]).unwrap();
    monitor.commands(server);
    let lease = alike::claimed(store, 1).remove(0);
    let claim = monitor.commands(server);
    alike::settle(store, &lease, Act::Ack);
    (claim, monitor.commands(server))
}

/// Except that the command that looks for other texts of jobs also looks for kinds. Claims that list none run the same
/// commands for jobs with kinds, and two that move these between free and leased ones.
#[test]
fn jobs_without_a_kind_cost_no_command_because_of_kinds() {
    const CLAIM: &str = "EVALSHA EXISTS HGET HMGET HMGET HMGET HSET HSET TIME ZADD ZRANGE ZRANGE ZRANGEBYSCORE \
         ZRANGEBYSCORE ZREM";
    const ACK: &str = "EVALSHA EXISTS HDEL HDEL HMGET HMGET TIME ZREM";
    let Some(server) = Server::new(&["--appendfsync", "no"]) else {
        return;
    };
    let store = server.store();
    let mut monitor = Monitor::new(&server);
    all_calls(&store);
    let mut steps = |job| claim_and_ack(&server, &mut monitor, &store, job);
    let plain = steps(JOB);
    assert_eq!(
        [&plain.0, &plain.1].map(|it| sorted_names(it)),
        [CLAIM, ACK]
    );
    let with_options = NewJob {
        options: Some("some"),
        key: Some(b"key"),
        urgent: true,
        ..JOB
    };
    let others = steps(with_options);
    let mut of_kinds = [plain.0, plain.1, others.0, others.1].concat();
    of_kinds.retain(|it| it.contains(":kind\"") && !it.contains("\"EVALSHA"));
    assert!(
        of_kinds.iter().all(|it| it.contains("\"EXISTS\"")),
        "{of_kinds:?}"
    );
    assert_eq!(of_kinds.len(), 4);
    let (claim, ack) = steps(of_kind("a"));
    let expected = [
        "EVALSHA EXISTS HGET HMGET HMGET HMGET HMGET HSET HSET TIME ZADD ZADD ZRANGE ZRANGE ZRANGEBYSCORE \
         ZRANGEBYSCORE ZREM ZREM",
        "EVALSHA EXISTS HDEL HDEL HDEL HMGET HMGET TIME ZREM ZREM ZREM",
    ];
    assert_eq!([claim, ack].map(|it| sorted_names(&it)), expected);
}

/// Except that the command that looks for other texts of jobs also looks for groups. Without a rule, one command takes
/// the job of a group from those that no claim has looked at.
#[test]
fn jobs_without_a_group_cost_no_command_because_of_groups() {
    let Some(server) = Server::new(&["--appendfsync", "no"]) else {
        return;
    };
    let store = server.store();
    let mut monitor = Monitor::new(&server);
    all_calls(&store);
    let with_texts = NewJob {
        options: Some("some"),
        key: Some(b"key"),
        urgent: true,
        ..of_kind("a")
    };
    let of_groups = |commands: &[String]| {
        let mut commands = commands.to_vec();
        commands.retain(|it| it.contains(":group\"") && !it.contains("\"EVAL"));
        commands
    };
    // Also once the queue has had a rule.
    for _ in 0..2 {
        for job in [JOB, with_texts] {
            store.enqueue("queue", &[job; 2]).unwrap();
            let leases = alike::claimed(&store, 2);
            let acts = [Act::retry(When::NOW), Act::bury("no")];
            let settles = (leases.iter().zip(acts)).map(|(lease, act)| lease.settle(act));
            let settles: Vec<_> = settles.collect();
            store.turn("queue", &settles, None).unwrap();
            for lease in &leases {
                store.redrive("queue", &[lease.id]).unwrap();
                let moved = store.reset("queue", lease.id.into(), When::NOW).unwrap();
                assert_eq!(moved, Reset::Moved);
                assert!(store.cancel("queue", lease.id.into()).unwrap().is_gone());
            }
            let found = of_groups(&monitor.commands(&server));
            assert!(
                !found.is_empty() && found.iter().all(|it| it.contains("\"EXISTS\"")),
                "{found:?}"
            );
        }
        let rule = Limit::ordered();
        for is_set in [true, false] {
            store.limit("queue", &rule, is_set).unwrap();
            assert!(alike::claimed(&store, 1).is_empty());
        }
        monitor.commands(&server);
    }
    let with_options = NewJob {
        options: Some("some"),
        ..JOB
    };
    let of_a_group = NewJob {
        group: Some("a"),
        ..JOB
    };
    let plain = claim_and_ack(&server, &mut monitor, &store, with_options);
    let grouped = claim_and_ack(&server, &mut monitor, &store, of_a_group);
    assert_eq!(sorted_names(&grouped.1), sorted_names(&plain.1));
    let removed = format!("{} ZREM", sorted_names(&plain.0));
    assert_eq!(sorted_names(&grouped.0), removed);
}

/// Except that one command, which looks for kinds and other texts of jobs, also looks for limits.
#[test]
fn calls_of_queues_without_limits_run_no_command_because_of_limits() {
    let Some(server) = Server::new(&["--appendfsync", "no"]) else {
        return;
    };
    let store = server.store();
    let mut monitor = Monitor::new(&server);
    all_calls(&store);
    let kind = Some("mail");
    store
        .enqueue("queue", &[NewJob { kind, ..JOB }; 3])
        .unwrap();
    let turn = store.turn("queue", &[], Some(alike::claim_of(2)));
    let leases = turn.unwrap().claimed.unwrap().leases;
    let acts = [Act::retry(When::NOW), Act::bury("no")];
    let settles = [0, 1].map(|at| leases[at].settle(acts[at]));
    store.turn("queue", &settles, None).unwrap();
    store.redrive("queue", &[leases[1].id]).unwrap();
    for lease in &leases {
        let which = lease.id.into();
        let moved = store.reset("queue", which, When::NOW).unwrap();
        assert_eq!(moved, Reset::Moved);
        assert!(store.cancel("queue", which).unwrap().is_gone());
    }
    let commands = monitor.commands(&server);
    let names = |line: &&String| {
        [":limit\"", ":place\"", ":group\""]
            .iter()
            .any(|it| line.contains(it))
    };
    let of_limits = commands.iter().filter(names);
    let of_limits: Vec<&String> = of_limits.filter(|it| !it.contains("\"EVAL")).collect();
    assert!(
        of_limits.iter().all(|it| it.contains("\"EXISTS\"")),
        "{of_limits:?}"
    );
    let calls = commands.iter().filter(|it| it.contains("\"EVAL")).count();
    assert!(
        (10..=calls).contains(&of_limits.len()),
        "{}",
        of_limits.len()
    );
}

#[test]
fn parked_jobs_do_not_slow_claims() {
    const PARKED: u32 = 3_000;
    let Some(server) = Server::new(&["--appendfsync", "no"]) else {
        return;
    };
    let store = server.store();
    let mut monitor = Monitor::new(&server);
    let mail = NewJob {
        kind: Some("mail"),
        ..JOB
    };
    let limit = Limit::per_kind("mail", 2);
    store.limit("queue", &limit, true).unwrap();
    let mut steps = |parked: u32| {
        store
            .enqueue("queue", &vec![mail; parked as usize])
            .unwrap();
        let mut held = Vec::new();
        while store.stats("queue").unwrap().due > 0 {
            let turn = store.turn("queue", &[], Some(alike::claim_of(10)));
            held.extend(turn.unwrap().claimed.unwrap().leases);
        }
        monitor.commands(&server);
        // A claim that finds none, and a turn that ends a job and claims the next.
        let mut counted = Vec::new();
        for settles in [&[][..], &[held[0].settle(Act::Ack)]] {
            let turn = store.turn("queue", settles, Some(alike::claim_of(10)));
            let leases = turn.unwrap().claimed.unwrap().leases;
            assert_eq!(leases.len(), settles.len());
            held.extend(leases);
            counted.push(monitor.counted(&server));
        }
        for lease in &held {
            store
                .turn("queue", &[lease.settle(Act::Ack)], None)
                .unwrap();
        }
        counted
    };
    let few = steps(10);
    assert_eq!(few, steps(PARKED));
}

/// Nor do other groups.
#[test]
fn jobs_that_wait_for_their_groups_do_not_slow_turns() {
    const MANY: usize = 3_000;
    let Some(server) = Server::new(&["--appendfsync", "no"]) else {
        return;
    };
    let store = server.store();
    let mut monitor = Monitor::new(&server);
    let names: Vec<String> = (0..MANY).map(|number| number.to_string()).collect();
    let of_group = |group| NewJob {
        group: Some(group),
        ..JOB
    };
    for rule in [Limit::ordered(), Limit::per_group(2), Limit::fair()] {
        let mut steps = |count: usize| {
            store.limit("queue", &rule, true).unwrap();
            let others: Vec<_> = names[..count].iter().map(|it| of_group(it)).collect();
            store.enqueue("queue", &others).unwrap();
            let mut held = alike::claimed(&store, 9_999);
            assert_eq!(held.len(), count);
            let jobs = vec![of_group("group"); count];
            store.enqueue("queue", &jobs).unwrap();
            // In a fair group, one job is always available.
            while store.stats("queue").unwrap().due > 1 {
                held.extend(alike::claimed(&store, 1));
            }
            monitor.commands(&server);
            // A turn that ends a job and claims the next.
            let settle = held.pop().unwrap().settle(Act::Ack);
            let turn = store.turn("queue", &[settle], Some(alike::claim_of(1)));
            let next = turn.unwrap().claimed.unwrap().leases;
            assert_eq!(next.len(), 1);
            let counted = monitor.counted(&server);
            store.limit("queue", &rule, false).unwrap();
            held.extend(next);
            while !held.is_empty() {
                let settles = held.iter().map(|lease| lease.settle(Act::Ack));
                let settles: Vec<_> = settles.collect();
                store.turn("queue", &settles, None).unwrap();
                held = alike::claimed(&store, 9_999);
            }
            assert_eq!(alike::count(&store), 0);
            counted
        };
        let few = steps(10);
        assert_eq!(few, steps(MANY), "{rule:?}");
    }
}
