//! Keys of other versions, and names.

use std::thread;
use std::time::Duration;

use ::redis::cmd;
use durable_queue::redis::{PREFIX, PROBE_EVERY};
use durable_queue::{ErrorKind, RedisStore, Store};

use super::{Keys, options};
use crate::alike::{JOB, count};

#[test]
fn keys_of_a_newer_version_are_an_error_that_says_so_and_stay_as_they_are() {
    let Some(keys) = Keys::new() else {
        return;
    };
    keys.store.enqueue("queue", &[JOB]).unwrap();
    let version = keys.key("version");
    let found: u32 = keys.run(cmd("INCR").arg(&version));
    let error = keys.options().open(&keys.address).unwrap_err();
    let newer = ErrorKind::Newer {
        found,
        known: found - 1,
    };
    assert_eq!(error.kind(), newer);
    assert!(error.to_string().contains(&found.to_string()));
    assert_eq!(keys.run::<u32>(cmd("GET").arg(&version)), found);
    for nonsense in ["0", "", "one", "-1"] {
        keys.run::<()>(cmd("SET").arg(&version).arg(nonsense));
        let error = keys.options().open(&keys.address).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Corrupt, "{nonsense}");
    }
}

/// Its session may be older than that.
#[test]
fn a_store_that_was_open_sees_a_newer_version_with_its_next_session() {
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
    keys.run::<()>(cmd("INCR").arg(keys.key("version")));
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
fn processes_that_open_a_server_for_the_first_time_at_once_agree() {
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
}

#[test]
fn stores_of_several_prefixes_know_nothing_of_each_other() {
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
fn a_prefix_is_plain() {
    let long = "a".repeat(41);
    for prefix in ["", "a b", "{a}", "a}", "'", "\0", "\u{1F41C}", &long] {
        // Refused before anything is connected to.
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
fn the_readme_names_the_numbers_of_the_store() {
    let readme = include_str!("../../../README.md");
    assert!(readme.contains("one round trip every 30 seconds, and a claim each minute"));
    assert_eq!(PROBE_EVERY, Duration::from_secs(30));
    assert!(readme.contains(&format!("`{PREFIX}:`")));
}
