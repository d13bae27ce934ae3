//! Keys of other versions, and prefixes.

use std::thread;
use std::time::Duration;

use ::redis::cmd;
use durable_queue::store::{Act, ListedJob, Settle};
use durable_queue::{ErrorKind, Merge, NewJob, Put, Store};
use durable_queue_redis::RedisStore;
use durable_queue_redis::{
    CONNECT_TIMEOUT, PREFIX, PROBE_ANSWER, PROBE_EVERY, RESPONSE_TIMEOUT, SESSIONS,
};

use super::{Keys, options};
use crate::alike::{JOB, claim_of, count};

#[test]
fn keys_of_a_newer_version_are_rejected_and_unchanged() {
    let Some(keys) = Keys::new() else {
        return;
    };
    keys.store.enqueue("queue", &[JOB]).unwrap();
    let version = keys.key("version");
    let record: String = keys.run(cmd("GET").arg(&version));
    let found = number(&record) + 1;
    keys.run::<()>(cmd("SET").arg(&version).arg(found));
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

/// Returns the number of a version record.
fn number(record: &str) -> u32 {
    let (number, _) = record.split_once(':').unwrap_or((record, ""));
    number.parse().unwrap()
}

/// As in a rolling upgrade, when processes of the previous version are restarted.
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

/// Records of version 1 have no urgency.
#[test]
fn keys_of_version_1_are_migrated_and_keep_their_jobs() {
    let Some(keys) = Keys::new() else {
        return;
    };
    let store = &keys.store;
    let keyed = NewJob {
        key: Some(b"key"),
        ..JOB
    };
    store.enqueue("queue", &[JOB, JOB, keyed]).unwrap();
    let claim = claim_of(1);
    let turn = store.turn("queue", &[], Some(claim)).unwrap();
    let buried = turn.claimed.unwrap().leases[0].id;
    let bury = Settle {
        id: buried,
        token: claim.token,
        act: Act::bury("no"),
    };
    store.turn("queue", &[bury], None).unwrap();
    let cut = "for index, count in ipairs({ 8, 5 }) do
      local all = redis.call('HGETALL', KEYS[index])
      for at = 1, #all, 2 do
        local values = { cmsgpack.unpack(all[at + 1]) }
        redis.call('HSET', KEYS[index], all[at], cmsgpack.pack(unpack(values, 1, count)))
      end
    end";
    let [jobs, letters] = ["job", "letter"].map(|name| keys.key(&format!("{{queue}}:{name}")));
    keys.run::<()>(cmd("EVAL").arg(cut).arg(2).arg(jobs).arg(letters));
    let version = keys.key("version");
    keys.run::<()>(cmd("SET").arg(&version).arg(1));

    let store = keys.options().open(&keys.address).unwrap();
    assert_eq!(keys.run::<String>(cmd("GET").arg(&version)), "5:3");
    assert!(!store.dead("queue", None, 1).unwrap()[0].urgent);
    assert_eq!(store.redrive("queue", &[buried]).unwrap(), 1);
    let listed = store.list("queue", None, 10).unwrap();
    assert!(listed.len() == 3 && listed.iter().all(|job| !job.urgent));
    let is_plain = |job: &ListedJob| job.kind.is_none() && job.failures.is_none() && !job.cancelled;
    assert!(listed.iter().all(is_plain));
    let merge = NewJob {
        merge: Merge::Earliest,
        urgent: true,
        ..keyed
    };
    let id = store.enqueue("queue", &[merge]).unwrap()[0].id();
    let turn = store.turn("queue", &[], Some(claim_of(1))).unwrap();
    let first = &turn.claimed.unwrap().leases[0];
    assert_eq!((first.id, first.urgent), (id, true));
    let turn = store.turn("queue", &[], Some(claim_of(9))).unwrap();
    assert_eq!(turn.claimed.unwrap().leases.len(), 2);
}

/// Until its session ends, such a process moves and ends jobs, but leaves them in the set of urgent jobs.
#[test]
fn stale_entries_of_a_version_1_process_are_not_claimed() {
    let Some(keys) = Keys::new() else {
        return;
    };
    let store = &keys.store;
    let urgent = NewJob {
        urgent: true,
        ..JOB
    };
    let puts = store
        .enqueue("queue", &[JOB, urgent, urgent, urgent])
        .unwrap();
    let ids = puts[1..]
        .iter()
        .map(|put| format!("{:016}", put.id().as_u64()));
    let [moved, done, held] = ids.collect::<Vec<_>>().try_into().unwrap();
    let key = |name| keys.key(&format!("{{queue}}:{name}"));
    for id in [&moved, &done] {
        keys.run::<()>(cmd("HDEL").arg(key("job")).arg(id));
    }
    keys.run::<()>(cmd("ZREM").arg(key("due")).arg(&[&done, &held]));
    keys.run::<()>(cmd("HDEL").arg(key("payload")).arg(&done));
    let later = 8_000_000_000_000_000_u64;
    keys.run::<()>(cmd("ZADD").arg(key("due")).arg(later).arg(&moved));
    keys.run::<()>(cmd("ZADD").arg(key("lease")).arg(later).arg(&held));
    let record = "redis.call('HSET', KEYS[1], ARGV[1],
      cmsgpack.pack(string.rep('t', 16), true, false, 1, 1, 9007199254740992, false, false))";
    keys.run::<()>(cmd("EVAL").arg(record).arg(1).arg(key("job")).arg(&held));

    let turn = store.turn("queue", &[], Some(claim_of(9))).unwrap();
    let claimed = turn.claimed.unwrap().leases;
    assert_eq!((claimed.len(), claimed[0].id), (1, puts[0].id()));
    assert_eq!(keys.run::<u32>(cmd("ZCARD").arg(key("urgent"))), 0);
    assert_eq!(count(store), 3);
}

/// Processes of version 3 still use the keys.
#[test]
fn each_older_version_becomes_this_one() {
    let Some(keys) = Keys::new() else {
        return;
    };
    let version = keys.key("version");
    for older in 1..5 {
        keys.run::<()>(cmd("SET").arg(&version).arg(older));
        keys.options().open(&keys.address).unwrap();
        assert_eq!(keys.run::<String>(cmd("GET").arg(&version)), "5:3");
    }
}

/// Its retry returns a marked job to its key, and its acknowledgement leaves the mark. A push after the cancel
/// is not represented by such a job.
#[test]
fn marks_left_by_a_version_3_process_have_no_effect() {
    let Some(keys) = Keys::new() else {
        return;
    };
    let store = &keys.store;
    let keyed = NewJob {
        key: Some(b"key"),
        ..JOB
    };
    let key = |name| keys.key(&format!("{{queue}}:{name}"));
    let id = store.enqueue("queue", &[keyed]).unwrap()[0].id();
    let mark = "redis.call('HSET', KEYS[1], ARGV[1], cmsgpack.pack(false, false, false, true))
      redis.call('ZADD', KEYS[2], 0, ARGV[1])
      redis.call('ZADD', KEYS[2], 0, ARGV[2])";
    let [open, ended] = [id.as_u64(), id.as_u64() + 1].map(|id| format!("{id:016}"));
    let mut call = cmd("EVAL");
    call.arg(mark).arg(2).arg(key("extra")).arg(key("marked"));
    keys.run::<()>(call.arg(open).arg(ended));
    assert!(store.list("queue", None, 1).unwrap()[0].cancelled);
    assert!(store.cancel_requests("queue").unwrap().is_empty());
    assert_eq!(keys.run::<u32>(cmd("ZCARD").arg(key("marked"))), 1);
    let new = NewJob {
        payload: b"new",
        ..keyed
    };
    assert_eq!(store.enqueue("queue", &[new]).unwrap(), [Put::Merged(id)]);
    let turn = store.turn("queue", &[], Some(claim_of(1))).unwrap();
    let lease = &turn.claimed.unwrap().leases[0];
    assert_eq!((&lease.payload[..], lease.cancelled), (&b"new"[..], false));
    for name in ["extra", "marked"] {
        assert!(!keys.run::<bool>(cmd("EXISTS").arg(key(name))), "{name}");
    }
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
    keys.run::<()>(cmd("SET").arg(&version).arg(number(&record) + 1));
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
