//! Keys of newer versions, and prefixes.

use std::thread;
use std::time::Duration;

use ::redis::cmd;
use durable_queue::{ErrorKind, Store};
use durable_queue_redis::RedisStore;
use durable_queue_redis::{
    CONNECT_TIMEOUT, PREFIX, PROBE_ANSWER, PROBE_EVERY, RESPONSE_TIMEOUT, SESSIONS,
};

use super::{Keys, options};
use crate::alike::{JOB, count};

#[test]
fn keys_of_a_newer_version_are_rejected_and_unchanged() {
    let Some(keys) = Keys::new() else {
        return;
    };
    keys.store.enqueue("queue", &[JOB]).unwrap();
    let version = keys.key("version");
    let record: String = keys.run(cmd("GET").arg(&version));
    let found = number(&record) + 1;
    let record = format!("{found}:{found}");
    keys.run::<()>(cmd("SET").arg(&version).arg(&record));
    let error = keys.options().open(&keys.address).unwrap_err();
    let newer = ErrorKind::Newer {
        found,
        known: found - 1,
    };
    assert_eq!(error.kind(), newer);
    assert!(error.to_string().contains(&found.to_string()));
    assert_eq!(keys.run::<String>(cmd("GET").arg(&version)), record);
    for nonsense in ["0:0", "", "1", "1:", ":1", "one:1", "1:one", "-1:1"] {
        keys.run::<()>(cmd("SET").arg(&version).arg(nonsense));
        let error = keys.options().open(&keys.address).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Corrupt, "{nonsense}");
    }
}

/// Returns the number of a version record.
fn number(record: &str) -> u32 {
    record.split_once(':').unwrap().0.parse().unwrap()
}

/// As in a rolling upgrade to that version.
#[test]
fn compatible_keys_of_a_newer_version_are_used_unchanged() {
    let Some(keys) = Keys::new() else {
        return;
    };
    let version = keys.key("version");
    let current = number(&keys.run::<String>(cmd("GET").arg(&version)));
    let newer = format!("{}:{current}", current + 1);
    keys.run::<()>(cmd("SET").arg(&version).arg(&newer));
    let store = keys.options().open(&keys.address).unwrap();
    store.enqueue("queue", &[JOB]).unwrap();
    assert_eq!(count(&store), 1);
    assert_eq!(keys.run::<String>(cmd("GET").arg(&version)), newer);

    let refused = format!("{}:{}", current + 2, current + 1);
    keys.run::<()>(cmd("SET").arg(&version).arg(&refused));
    let error = keys.options().open(&keys.address).unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::Newer { found, .. } if found == current + 2));
}

/// Its session may have started before.
#[test]
fn an_open_store_detects_a_newer_version_with_its_next_session() {
    let Some(keys) = Keys::new() else {
        return;
    };
    let name = format!("newer-{}", keys.prefix.replace(':', "-"));
    keys.run::<()>(cmd("ACL").arg(&["SETUSER", &name, "on", ">word", "~*", "&*", "+@all"]));
    let host = keys.address.rsplit_once('@').unwrap().1;
    let store = keys
        .options()
        .open(&format!("redis://{name}:word@{host}"))
        .unwrap();
    let version = keys.key("version");
    let record: String = keys.run(cmd("GET").arg(&version));
    let found = number(&record) + 1;
    keys.run::<()>(cmd("SET").arg(&version).arg(format!("{found}:{found}")));
    keys.run::<()>(cmd("CLIENT").arg(&["KILL", "USER", &name]));
    assert_eq!(
        store.stats("queue").unwrap_err().kind(),
        ErrorKind::Unavailable
    );
    let error = store.stats("queue").unwrap_err();
    assert!(matches!(error.kind(), ErrorKind::Newer { .. }), "{error}");
    keys.run::<()>(cmd("ACL").arg(&["DELUSER", &name]));
}

#[test]
fn concurrent_first_opens_agree_on_the_version() {
    let Some(keys) = Keys::new() else {
        return;
    };
    keys.delete_all();
    thread::scope(|scope| {
        let opened: Vec<_> = (0..4)
            .map(|_| scope.spawn(|| keys.another_store()))
            .collect();
        for store in opened {
            store.join().unwrap().enqueue("queue", &[JOB]).unwrap();
        }
    });
    assert_eq!(count(&keys.store), 4);
    let record: String = keys.run(cmd("GET").arg(keys.key("version")));
    assert_eq!(record, "1:1");
}

#[test]
fn stores_with_different_prefixes_are_independent() {
    let Some(keys) = Keys::new() else {
        return;
    };
    keys.store.enqueue("queue", &[JOB]).unwrap();
    let other = options(&keys.key("other"), false)
        .open(&keys.address)
        .unwrap();
    assert_eq!(count(&other), 0);
}

#[test]
fn only_plain_prefixes_are_accepted() {
    let long = "a".repeat(41);
    for prefix in ["", "a b", "{a}", "a}", "'", "\0", "\u{1F41C}", &long] {
        // Rejected before a connection is made.
        let error = options(prefix, false)
            .open("redis://nowhere.invalid")
            .unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Other, "{prefix}");
        assert!(
            format!("{error:?}").contains("prefix"),
            "{prefix} {error:?}"
        );
    }
    assert!(RedisStore::open("no address at all").is_err());
}

#[test]
fn the_readme_contains_the_numbers_of_the_store() {
    let readme = include_str!("../../README.md");
    assert!(readme.contains("one round trip every 30 seconds, and a claim each minute"));
    assert_eq!(PROBE_EVERY, Duration::from_secs(30));
    for row in [
        format!("| `sessions` | `SESSIONS`, {SESSIONS} |"),
        format!("| `RESPONSE_TIMEOUT`, {} s |", RESPONSE_TIMEOUT.as_secs()),
        format!("| `CONNECT_TIMEOUT`, {} s |", CONNECT_TIMEOUT.as_secs()),
        format!("within `PROBE_ANSWER` ({} s)", PROBE_ANSWER.as_secs()),
    ] {
        assert!(readme.contains(&row), "{row}");
    }
    assert!(readme.contains(&format!("`{PREFIX}:`")));
}
