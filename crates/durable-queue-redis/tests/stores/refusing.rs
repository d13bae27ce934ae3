//! A server that rejects calls: errors are reported as they are, nothing is changed, and the store works
//! afterwards.

use std::fs;
use std::thread;
use std::time::Duration;

use ::redis::cmd;
use durable_queue::store::{Act, Claim, Lease, Settle, Verdict};
use durable_queue::{CarriedOut, ErrorKind, NewJob, Store, StoreError, Token};
use durable_queue_redis::PAYLOAD_LIMIT;
use durable_queue_redis::RedisStore;

use crate::OpenStore as _;
use crate::alike::{JOB, count, shown, what};
use crate::redis_server::Server;

const CLAIM: fn() -> Claim<'static> = || Claim {
    token: Token::random(),
    kinds: None,
    max: 2,
    start: 2,
    ahead: 0,
    horizon: Duration::ZERO,
    lease: Duration::from_secs(60),
    urgent_first: true,
};

#[test]
fn a_server_without_memory_rejects_pushes_and_existing_jobs_continue() {
    let Some(server) = Server::new(&[]) else {
        return;
    };
    let store = server.store();
    let large = vec![0; 1 << 20];
    let job = NewJob {
        payload: &large,
        ..JOB
    };
    store.enqueue("queue", &[job; 4]).unwrap();
    server.set("maxmemory", "1mb");
    let error = store.enqueue("queue", &[JOB]).unwrap_err();
    assert_eq!(what(&error), (ErrorKind::Full, CarriedOut::No));
    assert!(error.is_transient() && shown(&error).contains("OOM"));
    assert_eq!(count(&store), 4);
    // All other calls work; otherwise the server would stay full.
    let turn = store.turn("queue", &[], Some(CLAIM())).unwrap();
    let leases = turn.claimed.unwrap().leases;
    assert_eq!(leases.len(), 2);
    let acts = [Act::Ack, Act::bury("no")];
    let settles = leases.iter().zip(acts).map(|(lease, act)| Settle {
        id: lease.id,
        token: lease.token,
        act,
    });
    let settles: Vec<_> = settles.collect();
    let turn = store.turn("queue", &settles, Some(CLAIM())).unwrap();
    assert_eq!(turn.verdicts, [Verdict::Done; 2]);
    let [one, other] = &turn.claimed.unwrap().leases[..] else {
        panic!("two were left");
    };
    let settles = [one, other].map(|lease| Settle {
        id: lease.id,
        token: lease.token,
        act: Act::Release,
    });
    store.turn("queue", &settles, None).unwrap();
    assert!(store.cancel("queue", one.id.into()).unwrap().is_gone());
    assert!(store.cancel("queue", other.id.into()).unwrap().is_gone());
    assert_eq!(store.delete_dead("queue", &[leases[1].id]).unwrap(), 1);
    server.set("maxmemory", "0");
    store.enqueue("queue", &[JOB]).unwrap();
    assert_eq!(count(&store), 1);
}

#[test]
fn a_server_that_may_delete_jobs_is_rejected() {
    let Some(server) = Server::new(&[]) else {
        return;
    };
    for policy in ["allkeys-lru", "allkeys-lfu", "allkeys-random"] {
        server.set("maxmemory-policy", policy);
        let error = RedisStore::open(&server.address()).unwrap_err();
        assert_eq!(what(&error), (ErrorKind::Evicting, CarriedOut::No));
        assert!(!error.is_transient() && shown(&error).contains("noeviction"));
    }
    // The store's keys do not expire.
    for policy in ["volatile-lru", "volatile-ttl", "noeviction"] {
        server.set("maxmemory-policy", policy);
        server.store();
    }
}

/// The policy can be changed at any time.
#[test]
fn pushes_are_rejected_while_the_server_may_delete_jobs_and_existing_jobs_continue() {
    let Some(server) = Server::new(&[]) else {
        return;
    };
    let store = server.store();
    store.enqueue("queue", &[JOB; 2]).unwrap();
    server.set("maxmemory-policy", "allkeys-random");
    let error = testkit::watchdog(testkit::LIMIT, || {
        loop {
            if let Err(error) = store.enqueue("other", &[JOB]) {
                return error;
            }
        }
    });
    assert_eq!(what(&error), (ErrorKind::Evicting, CarriedOut::No));
    assert!(shown(&error).contains("noeviction"));
    assert!(store.enqueue("other", &[JOB]).is_err());
    let turn = store.turn("queue", &[], Some(CLAIM())).unwrap();
    let leases = turn.claimed.unwrap().leases;
    let ack = |lease: &Lease| Settle {
        id: lease.id,
        token: lease.token,
        act: Act::Ack,
    };
    let acks: Vec<_> = leases.iter().map(ack).collect();
    let turn = store.turn("queue", &acks, None).unwrap();
    assert_eq!(turn.verdicts, [Verdict::Done; 2]);
    // Checked by each push until it is right, and then no more.
    server.set("maxmemory-policy", "noeviction");
    store.enqueue("queue", &[JOB]).unwrap();
    assert_eq!(count(&store), 1);
    // A new session checks in any case, because the server may have been replaced.
    server.run::<()>(cmd("CLIENT").arg(&["KILL", "TYPE", "normal"]));
    assert!(store.stats("queue").is_err());
    server.set("maxmemory-policy", "allkeys-lru");
    let error = store.enqueue("queue", &[JOB]).unwrap_err();
    assert_eq!(what(&error), (ErrorKind::Evicting, CarriedOut::No));
}

#[test]
fn a_replica_is_reported_as_read_only() {
    let Some(server) = Server::new(&[]) else {
        return;
    };
    let store = server.store();
    store.enqueue("queue", &[JOB]).unwrap();
    let of = |host: &str, port: &str| {
        server.run::<()>(cmd("REPLICAOF").arg(host).arg(port));
    };
    of("127.0.0.1", "1");
    for store in [&store, &server.store()] {
        for refused in [
            store.enqueue("queue", &[JOB]).unwrap_err(),
            store.turn("queue", &[], Some(CLAIM())).unwrap_err(),
        ] {
            assert_eq!(what(&refused), (ErrorKind::ReadOnly, CarriedOut::No));
            assert!(!refused.is_transient());
        }
        assert_eq!(count(store), 1, "it can be read");
        assert_eq!(store.list("queue", None, 10).unwrap().len(), 1);
        assert!(store.dead("queue", None, 10).unwrap().is_empty());
    }
    of("no", "one");
    store.enqueue("queue", &[JOB]).unwrap();
    assert_eq!(count(&store), 2);
}

#[test]
fn a_server_that_cannot_write_to_its_disk_carries_out_no_call() {
    let Some(server) = Server::new(&["--appendonly", "no"]) else {
        return;
    };
    let store = server.store();
    store.enqueue("queue", &[JOB]).unwrap();
    server.set("save", "3600 1");
    // The server's socket is in the folder, so the session starts before.
    let mut session = server.session();
    fs::remove_dir_all(server.folder()).unwrap();
    cmd("BGSAVE").exec(&mut session).unwrap();
    testkit::watchdog(testkit::LIMIT, || {
        loop {
            let info: String = cmd("INFO").query(&mut session).unwrap();
            if info.contains("rdb_last_bgsave_status:err") {
                break;
            }
        }
    });
    let error = store.enqueue("queue", &[JOB]).unwrap_err();
    assert_eq!(what(&error), (ErrorKind::Unavailable, CarriedOut::No));
    assert!(error.is_transient() && shown(&error).contains("MISCONF"));
    cmd("CONFIG")
        .arg(&["SET", "stop-writes-on-bgsave-error", "no"])
        .exec(&mut session)
        .unwrap();
    store.enqueue("queue", &[JOB]).unwrap();
    assert_eq!(count(&store), 2);
}

#[test]
fn a_server_that_is_loading_carries_out_no_call() {
    let Some(mut server) = Server::new(&["--appendonly", "no"]) else {
        return;
    };
    let store = server.store();
    for number in 0..2_000 {
        let name = format!("{number}");
        store.enqueue(&name, &[JOB]).unwrap();
    }
    server.run::<()>(&cmd("SAVE"));
    server.kill();
    // Slow enough for the test to observe it. The server accepts calls meanwhile.
    server.start(&[
        "--key-load-delay",
        "2000",
        "--loading-process-events-interval-bytes",
        "1024",
    ]);
    server.wait(|info| info.contains("\nloading:1"));
    let error = RedisStore::open(&server.address()).unwrap_err();
    assert_eq!(what(&error), (ErrorKind::Unavailable, CarriedOut::No));
    assert!(error.is_transient() && shown(&error).contains("LOADING"));
    server.run::<()>(cmd("CONFIG").arg(&["SET", "key-load-delay", "0"]));
    server.wait(|info| info.contains("\nloading:0"));
    // The existing session may have been lost silently.
    assert_eq!(server.store().stats("7").unwrap().jobs, 1);
}

#[test]
fn a_server_that_runs_a_long_script_is_busy() {
    let Some(server) = Server::new(&["--busy-reply-threshold", "1"]) else {
        return;
    };
    let store = server.store();
    thread::scope(|scope| {
        let endless = scope.spawn(|| {
            cmd("EVAL")
                .arg(&["while true do end", "0"])
                .exec(&mut server.session())
        });
        let error = testkit::watchdog(testkit::LIMIT, || {
            loop {
                if let Err(error) = store.stats("queue") {
                    return error;
                }
            }
        });
        assert_eq!(what(&error), (ErrorKind::Busy, CarriedOut::No));
        assert!(error.is_transient());
        server.run::<()>(cmd("SCRIPT").arg("KILL"));
        assert!(endless.join().unwrap().is_err());
    });
    store.enqueue("queue", &[JOB]).unwrap();
}

#[test]
fn a_silent_server_is_given_up_and_may_have_carried_out_the_call() {
    let Some(server) = Server::new(&[]) else {
        return;
    };
    // Only a stopped server takes this long.
    let options = RedisStore::options().response_timeout(Duration::from_secs(3));
    let store = options.open(&server.address()).unwrap();
    store.enqueue("queue", &[JOB]).unwrap();
    server.signal("STOP");
    let pushed = testkit::watchdog(testkit::LIMIT, || store.enqueue("queue", &[JOB]));
    let error = pushed.unwrap_err();
    assert_eq!(what(&error), (ErrorKind::Unavailable, CarriedOut::Perhaps));
    assert!(error.is_transient());
    server.signal("CONT");
    server.wait(|_| true);
    assert_eq!(count(&server.store()), 2, "it has");
}

/// Otherwise the leases that it renews would expire.
#[test]
fn a_turn_is_given_up_within_a_fraction_of_its_lease_however_long_other_calls_may_wait() {
    let Some(server) = Server::new(&[]) else {
        return;
    };
    let hour = Duration::from_secs(3_600);
    let options = RedisStore::options();
    let options = options.response_timeout(hour).connect_timeout(hour);
    let store = options.open(&server.address()).unwrap();
    let claim = Claim {
        lease: Duration::from_secs(8),
        ..CLAIM()
    };
    store.turn("queue", &[], Some(claim)).unwrap();
    server.signal("STOP");
    let give_up = |call: &dyn Fn() -> StoreError| testkit::watchdog(testkit::LIMIT, call);
    let error = give_up(&|| store.turn("queue", &[], None).unwrap_err());
    assert_eq!(what(&error), (ErrorKind::Unavailable, CarriedOut::Perhaps));
    // This call starts a new session.
    let error = give_up(&|| {
        let held = store.held_by("queue", claim.token, claim.lease);
        held.unwrap_err()
    });
    assert_eq!(what(&error), (ErrorKind::Unavailable, CarriedOut::No));
    server.signal("CONT");
    server.wait(|_| true);
    store.turn("queue", &[], Some(CLAIM())).unwrap();
}

#[test]
fn an_error_text_too_long_for_the_server_is_not_sent() {
    let Some(server) = Server::new(&[]) else {
        return;
    };
    let store = server.store();
    store.enqueue("queue", &[JOB]).unwrap();
    let turn = store.turn("queue", &[], Some(CLAIM())).unwrap();
    let lease = &turn.claimed.unwrap().leases[0];
    let long = "x".repeat(PAYLOAD_LIMIT + 1);
    let bury = |error| Settle {
        id: lease.id,
        token: lease.token,
        act: Act::bury(error),
    };
    let error = store.turn("queue", &[bury(&long)], None).unwrap_err();
    assert_eq!(what(&error), (ErrorKind::TooLarge, CarriedOut::No));
    let turn = store.turn("queue", &[bury(&long[1..])], None).unwrap();
    assert_eq!(turn.verdicts, [Verdict::Done]);
}

/// A server quotes an unknown command in its error.
#[test]
fn errors_do_not_show_what_the_server_quotes_of_a_call() {
    let Some(server) = Server::new(&["--rename-command", "EVALSHA", ""]) else {
        return;
    };
    let store = server.store();
    let secret = "secret-queue";
    let mut session = server.session();
    let said = cmd("EVALSHA").arg(secret).exec(&mut session).unwrap_err();
    assert!(said.to_string().contains(secret), "{said}");
    let error = store.enqueue(secret, &[JOB]).unwrap_err();
    assert_eq!(what(&error), (ErrorKind::Other, CarriedOut::No));
    let shown = shown(&error);
    assert!(shown.contains("ERR") && !shown.contains(secret), "{shown}");
}
