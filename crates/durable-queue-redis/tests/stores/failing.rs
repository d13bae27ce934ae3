//! Failures are reported correctly, without secrets.

use std::net::{SocketAddr, TcpListener, ToSocketAddrs as _};
use std::time::Duration;

use ::redis::cmd;
use durable_queue::{CarriedOut, DurableQueue, ErrorKind, NewJob, Notifier, Store};
use durable_queue_redis::RedisStore;

use super::Keys;
use crate::alike::{
    HOLD, JOB, a_forked_child_is_refused, a_lost_response_is_reported,
    a_silent_listening_session_is_probed, count, lost_responses_lose_no_job,
    sessions_cut_together_are_replaced, shown, what,
};
use crate::disturbed::a_disturbed_party_loses_nothing;
use crate::proxy::{Proxy, SilentAfter};

/// The parts of `redis://user:password@host:port/0`.
fn parts(keys: &Keys) -> (&str, &str) {
    let (login, host) = keys.address.rsplit_once('@').unwrap();
    (login, host.split('/').next().unwrap())
}

fn server(keys: &Keys) -> SocketAddr {
    parts(keys).1.to_socket_addrs().unwrap().next().unwrap()
}

fn through(keys: &Keys, address: SocketAddr) -> String {
    format!("{}@{address}", parts(keys).0)
}

/// Creates a user with these permissions. Returns its name and address.
fn user(keys: &Keys, name: &str, rights: &[&str]) -> (String, String) {
    let name = format!("{name}-{}", keys.prefix.replace(':', "-"));
    let mut set = cmd("ACL");
    set.arg("SETUSER")
        .arg(&name)
        .arg(&["reset", "on", ">hunter2"]);
    keys.run::<()>(set.arg(rights));
    let address = format!("redis://{name}:hunter2@{}", parts(keys).1);
    (name, address)
}

#[test]
fn the_error_of_a_wrong_password_shows_neither_it_nor_the_user() {
    let Some(keys) = Keys::new() else {
        return;
    };
    for login in ["secret-user:hunter2@", "default:hunter2@", ":hunter2@", ""] {
        let address = format!("redis://{login}{}", parts(&keys).1);
        let error = keys.options().open(&address).unwrap_err();
        assert_eq!(what(&error), (ErrorKind::Other, CarriedOut::No), "{login}");
        let shown = shown(&error);
        assert!(shown.contains("password"), "{shown}");
        assert!(
            !shown.contains("hunter2") && !shown.contains("secret"),
            "{shown}"
        );
    }
}

#[test]
fn no_debug_output_contains_an_address() {
    for address in [
        "redis://secret-user:secret-word@secret-host.invalid:1/0",
        "redis://secret-user:secret-word@secret-host.invalid:secret/0",
        "redis://127.0.0.1/secret",
        "rediss://secret-user:secret-word@secret-host.invalid:1/0",
        "redis+unix:///secret",
        "secret",
        "",
    ] {
        let error = RedisStore::open(address).unwrap_err();
        assert_eq!(error.carried_out(), CarriedOut::No);
        let shown = shown(&error);
        assert!(!shown.contains("secret"), "{shown}");
    }
    let Some(keys) = Keys::new() else {
        return;
    };
    let password = parts(&keys).0.rsplit(':').next().unwrap();
    let shown = format!(
        "{:?} {:?} {:?}",
        keys.store,
        keys.options(),
        DurableQueue::<Vec<u8>, _>::new("q", keys.store.clone())
    );
    assert!(!shown.contains(password), "{shown}");
}

#[test]
fn the_documented_permissions_suffice_and_are_necessary() {
    let Some(keys) = Keys::new() else {
        return;
    };
    let own_keys = format!("~{}", keys.key("*"));
    let own_channel = format!("&{}", keys.key("earlier"));
    let documented = [
        "+@read",
        "+@write",
        "+@connection",
        "+@scripting",
        "+@pubsub",
        "+info",
        "+time",
        &own_keys,
        &own_channel,
    ];
    let (name, address) = user(&keys, "full", &documented);
    let queue: DurableQueue<Vec<u8>, _> =
        DurableQueue::new("queue", keys.options().open(&address).unwrap());
    queue.push(b"job".to_vec(), Duration::ZERO).unwrap();
    let taken = queue.take_timeout(testkit::LIMIT).unwrap();
    taken.bury("no").unwrap();
    assert_eq!(queue.dead(None, 10).unwrap().len(), 1);
    queue.pause(true).unwrap();
    drop(queue);
    keys.run::<()>(cmd("ACL").arg("DELUSER").arg(&name));
    for missing in [
        "+@read",
        "+@write",
        "+time",
        "+@scripting",
        "+@pubsub",
        "+info",
        &own_keys,
        &own_channel,
    ] {
        let rest: Vec<_> = documented
            .iter()
            .copied()
            .filter(|it| *it != missing)
            .collect();
        let (name, address) = user(&keys, "secret", &rest);
        let refused = keys.options().open(&address);
        let refused = refused.and_then(|store| store.enqueue("queue", &[JOB]));
        let error = refused.expect_err(missing);
        assert_eq!(error.kind(), ErrorKind::Other, "{missing}");
        let shown = shown(&error);
        assert!(
            shown.contains("NOPERM") && !shown.contains("secret"),
            "{shown}"
        );
        keys.run::<()>(cmd("ACL").arg("DELUSER").arg(&name));
    }
}

#[test]
fn keys_with_other_data_are_reported_as_corrupt_without_payloads() {
    let Some(keys) = Keys::new() else {
        return;
    };
    let secret = NewJob {
        payload: b"hunter2",
        key: Some(b"hunter2"),
        ..JOB
    };
    let store = &keys.store;
    let wrong_type = |name: &str| {
        let key = keys.key(&format!("{{{name}}}:due"));
        keys.run::<()>(cmd("SET").arg(key).arg("hunter2"));
        store.enqueue(name, &[secret]).unwrap_err()
    };
    for error in [wrong_type("other"), wrong_type("hunter2")] {
        assert_eq!(what(&error), (ErrorKind::Corrupt, CarriedOut::Perhaps));
        assert!(!shown(&error).contains("hunter2"), "{error:?}");
    }
}

#[test]
fn a_missing_server_is_an_error_of_a_call_that_was_not_carried_out() {
    let closed = TcpListener::bind("127.0.0.1:0")
        .unwrap()
        .local_addr()
        .unwrap();
    let error = RedisStore::open(&format!("redis://{closed}")).unwrap_err();
    assert_eq!(what(&error), (ErrorKind::Unavailable, CarriedOut::No));
    assert!(error.is_transient());
}

#[test]
fn scripts_that_the_server_has_lost_are_sent_again() {
    let Some(keys) = Keys::new() else {
        return;
    };
    for known in 0..5 {
        keys.run::<()>(cmd("SCRIPT").arg("FLUSH"));
        keys.store.enqueue("queue", &[JOB]).unwrap();
        keys.run::<()>(cmd("SCRIPT").arg("FLUSH"));
        assert_eq!(count(&keys.store), known + 1);
    }
}

/// As a server does at its shutdown.
#[test]
fn a_session_closed_by_the_server_is_replaced() {
    let Some(keys) = Keys::new() else {
        return;
    };
    let (name, address) = user(&keys, "cut", &["+@all", "~*", "&*"]);
    let store = keys.options().open(&address).unwrap();
    for known in 0..5 {
        store.enqueue("queue", &[JOB]).unwrap();
        assert_eq!(count(&store), known + 1);
        let killed: u32 = keys.run(cmd("CLIENT").arg(&["KILL", "USER", &name]));
        assert_eq!(killed, 1);
        // Whether it was carried out is unknown.
        let error = store.stats("queue").unwrap_err();
        assert_eq!(what(&error), (ErrorKind::Unavailable, CarriedOut::Perhaps));
    }
    assert_eq!(count(&store), 5);
    keys.run::<()>(cmd("ACL").arg("DELUSER").arg(&name));
}

#[test]
fn a_call_whose_response_was_lost_may_have_been_carried_out() {
    let Some(keys) = Keys::new() else {
        return;
    };
    let proxy = Proxy::new(server(&keys));
    let store = keys.options().open(&through(&keys, proxy.address)).unwrap();
    a_lost_response_is_reported(&keys.store, &store, &proxy);
}

#[test]
fn a_queue_whose_connections_are_cut_repeatedly_loses_no_job() {
    let Some(keys) = Keys::new() else {
        return;
    };
    testkit::watchdog(testkit::LIMIT, || {
        let proxy = Proxy::new(server(&keys));
        let store = keys.options().open(&through(&keys, proxy.address)).unwrap();
        // Starting a session takes a few responses.
        lost_responses_lose_no_job(&keys.store, store, &proxy, 7);
    });
}

#[test]
fn processes_behind_a_disturbing_proxy_lose_no_job() {
    let Some(keys) = Keys::new() else {
        return;
    };
    a_disturbed_party_loses_nothing("redis", server(&keys), &keys.store, |address| {
        keys.options().open(&through(&keys, address)).ok()
    });
}

#[test]
fn sessions_cut_together_fail_only_one_call() {
    let Some(keys) = Keys::new() else {
        return;
    };
    let proxy = Proxy::with(server(&keys), SilentAfter::new(HOLD));
    let store = keys.options().open(&through(&keys, proxy.address)).unwrap();
    sessions_cut_together_are_replaced(&proxy, &store);
}

/// Responses would reach the wrong process.
#[test]
fn a_forked_child_is_rejected_and_the_parents_store_keeps_working() {
    let ended = testkit::in_child(
        "failing::a_forked_child_is_rejected_and_the_parents_store_keeps_working",
        || {
            let Some(keys) = Keys::new() else {
                return;
            };
            keys.store.enqueue("queue", &[JOB]).unwrap();
            let store = keys.another_store();
            // The listener has its own session.
            drop(store.watch("queue", Notifier::new(|_| ())).unwrap());
            let store = a_forked_child_is_refused(store, |_| None);
            assert_eq!(count(&store), 1);
        },
    );
    assert!(ended.is_ok(), "{ended:?}");
}

#[test]
fn a_silent_listening_session_is_probed_and_replaced_if_it_does_not_answer() {
    let Some(keys) = Keys::new() else {
        return;
    };
    let proxy = Proxy::new(server(&keys));
    a_silent_listening_session_is_probed(&proxy, |every, answer| {
        let options = keys.options().probe(every, answer);
        options.open(&through(&keys, proxy.address)).unwrap()
    });
}
