//! Names, times and sizes at their limits, and names of keys.

use std::collections::BTreeSet;
use std::time::Duration;

use ::redis::{Value, cmd};
use durable_queue::store::{Act, Claim, Keep, Settle, Verdict};
use durable_queue::{
    Cancelled, CarriedOut, ErrorKind, Merge, NewJob, Put, Store, StoreTime, Token, When,
};
use durable_queue_redis::{KEY_LIMIT, PAYLOAD_LIMIT};
use durable_queue_testing::conformance::Fixture as _;

use super::Keys;
use crate::OpenStore as _;
use crate::alike::{JOB, claimed, count, settle, what};
use crate::redis_server::Server;

/// Names that could be confused with others, or with the end of the hash tag.
const NAMES: [&str; 12] = [
    "",
    "%",
    "{",
    "}",
    "{}",
    "a{b}c",
    "a}b",
    "%7B",
    "%7D",
    "%%",
    "queue",
    "'; FLUSHALL --\0\r\n",
];

fn claim() -> Claim<'static> {
    Claim {
        token: Token::random(),
        kinds: None,
        max: 10,
        start: 10,
        ahead: 0,
        horizon: Duration::ZERO,
        lease: Duration::from_secs(60),
        urgent_first: true,
    }
}

/// Makes all calls on a queue, and checks that `payload` is returned.
fn all_calls(store: &impl Store, name: &str) {
    let keyed = NewJob {
        payload: name.as_bytes(),
        key: Some(name.as_bytes()),
        schedule: Some(""),
        ..JOB
    };
    let put = store.enqueue(name, &[keyed, keyed]).unwrap();
    let id = put[0].id();
    assert_eq!(put, [Put::New(id), Put::Kept(id)]);
    let claim = claim();
    let leases = store
        .turn(name, &[], Some(claim))
        .unwrap()
        .claimed
        .unwrap()
        .leases;
    assert_eq!((leases.len(), &leases[0].payload[..]), (1, name.as_bytes()));
    assert_eq!(
        store.held_by(name, claim.token, claim.lease).unwrap(),
        leases
    );
    let bury = Settle {
        id,
        token: claim.token,
        act: Act::bury(name),
    };
    store.turn(name, &[bury], None).unwrap();
    assert_eq!(store.dead(name, None, 10).unwrap()[0].error, name);
    assert_eq!(store.redrive(name, &[id]).unwrap(), 1);
    let listed = store.list(name, None, 10).unwrap();
    assert_eq!(
        (listed.len(), listed[0].key.as_deref()),
        (1, Some(name.as_bytes()))
    );
    assert_eq!(listed[0].schedule.as_deref(), Some(""));
    assert_eq!(store.stats(name).unwrap().jobs, 1);
}

#[test]
fn queues_share_no_keys_whatever_their_names() {
    let Some(keys) = Keys::new() else {
        return;
    };
    let mut known = BTreeSet::new();
    for name in NAMES {
        all_calls(&keys.store, name);
        let all: BTreeSet<Vec<u8>> = keys.all_keys().into_iter().collect();
        let new = all.difference(&known).count();
        // Jobs, records, payloads, the pending key and the state; and once the version.
        assert_eq!(new, 5 + usize::from(known.is_empty()), "{name:?}");
        known = all;
    }
    for name in NAMES {
        let gone = keys.store.cancel(name, name.into()).unwrap();
        assert!(gone.is_gone(), "{name:?}");
    }
}

/// In a cluster of one node, which rejects scripts whose keys are in several slots.
#[test]
fn all_keys_of_a_queue_are_in_one_slot() {
    let Some(server) = Server::new(&["--cluster-enabled", "yes", "--port", "0"]) else {
        return;
    };
    server.run::<()>(cmd("CLUSTER").arg(&["ADDSLOTSRANGE", "0", "16383"]));
    server.wait(|_| {
        let info: String = server.run(cmd("CLUSTER").arg("INFO"));
        info.contains("cluster_state:ok")
    });
    let store = server.store();
    let mut slots = BTreeSet::new();
    for name in NAMES {
        all_calls(&store, name);
        let all: Vec<Vec<u8>> = server.run(cmd("KEYS").arg("durable:{*"));
        let of_all: BTreeSet<u32> = all
            .iter()
            .map(|key| server.run(cmd("CLUSTER").arg("KEYSLOT").arg(key)))
            .collect();
        slots = &slots | &of_all;
    }
    assert_eq!(slots.len(), NAMES.len());
}

/// Members of a sorted set contain the key's length.
#[test]
fn a_key_that_is_a_prefix_of_another_is_distinct() {
    let Some(keys) = Keys::new() else {
        return;
    };
    let store = &keys.store;
    for longer in ["key0000000000000001", "key0", "key:", "key\0"] {
        let job = NewJob {
            key: Some(longer.as_bytes()),
            ..JOB
        };
        store.enqueue("queue", &[job]).unwrap();
        store.turn("queue", &[], Some(claim())).unwrap();
        assert_eq!(
            store.cancel("queue", "key".into()).unwrap(),
            Cancelled::Never
        );
        assert_eq!(
            store.cancel("queue", longer.into()).unwrap(),
            Cancelled::Taken
        );
    }
}

#[test]
fn the_clock_is_that_of_the_server_to_the_microsecond() {
    let Some(keys) = Keys::new() else {
        return;
    };
    let time = || -> i64 {
        let [seconds, micros]: [i64; 2] = keys.run(&cmd("TIME"));
        seconds * 1_000_000 + micros
    };
    let (mut last, mut fractions) = (0, BTreeSet::new());
    for _ in 0..10 {
        let before = time();
        let now = keys.store.turn("queue", &[], None).unwrap().now.as_micros();
        assert!((before..=time()).contains(&now) && now >= last);
        last = now;
        fractions.insert(now % 1_000);
    }
    assert!(fractions.len() > 1, "{fractions:?}");
}

#[test]
fn times_are_exact_to_the_microsecond_up_to_the_year_2255() {
    const LAST: i64 = (1 << 53) - 1;
    let Some(keys) = Keys::new() else {
        return;
    };
    let store = &keys.store;
    let times = [LAST, LAST - 1, -LAST, LAST + 1, 0, i64::MIN, i64::MAX, 1];
    let jobs = times.map(|time| NewJob {
        when: When::At(StoreTime::from_micros(time)),
        ..JOB
    });
    store.enqueue("queue", &jobs).unwrap();
    let listed = store.list("queue", None, 10).unwrap();
    let listed: Vec<i64> = listed.iter().map(|job| job.at.as_micros()).collect();
    let never = i64::MAX;
    assert_eq!(
        listed,
        [i64::MIN, -LAST, 0, 1, LAST - 1, LAST, never, never]
    );
}

#[test]
fn jobs_of_the_maximum_size_are_returned_and_larger_ones_are_rejected() {
    let Some(keys) = Keys::new() else {
        return;
    };
    let store = &keys.store;
    let mut payload: Vec<u8> = (0..=255).cycle().take(PAYLOAD_LIMIT).collect();
    let key = vec![b'}'; KEY_LIMIT];
    let job = NewJob {
        payload: &payload,
        key: Some(&key),
        ..JOB
    };
    store.enqueue("queue", &[job]).unwrap();
    let claim = claim();
    let turn = store.turn("queue", &[], Some(claim)).unwrap();
    let lease = turn.claimed.unwrap().leases.remove(0);
    assert!(lease.payload == payload && lease.key.as_ref() == Some(&key));
    let [bury, ack] = [Act::bury(""), Act::Ack].map(|act| Settle {
        id: lease.id,
        token: claim.token,
        act,
    });
    store.turn("queue", &[bury, ack], None).unwrap();
    assert!(store.dead("queue", None, 1).unwrap()[0].payload == payload);
    store.delete_dead("queue", &[lease.id]).unwrap();
    payload.push(0);
    let key = [&key[..], b"}"].concat();
    let larger = NewJob {
        payload: &payload,
        ..JOB
    };
    let longer = NewJob {
        key: Some(&key),
        ..JOB
    };
    let full = NewJob {
        payload: &payload[1..],
        ..JOB
    };
    for jobs in [&[JOB, larger][..], &[longer], &[full; 5]] {
        let error = store.enqueue("queue", jobs).unwrap_err();
        assert_eq!(what(&error), (ErrorKind::TooLarge, CarriedOut::No));
    }
    assert_eq!(count(store), 0);
}

/// For each outcome of a job, also of a job with a kind and failures, and of one that was cancelled in its run.
#[test]
fn finished_jobs_leave_no_keys() {
    let Some(keys) = Keys::new() else {
        return;
    };
    for (number, act) in [
        Act::Ack,
        Act::Again { when: When::NOW },
        Act::retry(When::NOW),
        Act::Retry {
            when: When::NOW,
            failures: Some("no"),
            counts: true,
        },
        Act::Retry {
            when: When::NOW,
            failures: None,
            counts: false,
        },
        Act::bury(""),
        Act::Bury {
            error: "",
            failures: Some("no"),
            counts: true,
        },
        Act::Release,
    ]
    .into_iter()
    .enumerate()
    {
        let key = Some(&b"key"[..]);
        let cases = [(None, false), (key, false), (None, true), (key, true)];
        let cases = cases.into_iter().flat_map(|it| [(it, false), (it, true)]);
        let texts = [(None, None), (Some("kind"), None), (None, Some("group"))];
        let cases = cases.flat_map(|it| texts.map(|texts| (it, texts)));
        let cases = cases.flat_map(|it| [(it, false), (it, true)]);
        for ((((key, urgent), is_alone), (kind, group)), is_cancelled) in cases {
            let store = &keys.store;
            let job = NewJob {
                key,
                urgent,
                kind,
                group,
                ..JOB
            };
            store.enqueue("queue", &[job]).unwrap();
            let claim = claim();
            let turn = store.turn("queue", &[], Some(claim)).unwrap();
            let lease = turn.claimed.unwrap().leases.remove(0);
            if !is_alone {
                store.enqueue("queue", &[job]).unwrap();
            }
            if is_cancelled {
                let cancelled = store.cancel("queue", lease.id.into()).unwrap();
                assert!(!cancelled.is_gone());
            }
            let settle = Settle {
                id: lease.id,
                token: claim.token,
                act,
            };
            store.turn("queue", &[settle], None).unwrap();
            for job in store.list("queue", None, 10).unwrap() {
                assert!(store.cancel("queue", job.id.into()).unwrap().is_gone());
            }
            store.delete_dead("queue", &[lease.id]).unwrap();
            let left: BTreeSet<Vec<u8>> = keys.all_keys().into_iter().collect();
            let rest = ["{queue}:state", "version"].map(|rest| keys.key(rest).into_bytes());
            assert_eq!(
                left,
                BTreeSet::from(rest),
                "{number} {key:?} {urgent} {is_alone} {kind:?} {group:?} {is_cancelled}"
            );
        }
    }
    let state: Vec<Value> = keys.run(cmd("HKEYS").arg(keys.key("{queue}:state")));
    assert!(state.len() <= 2, "the last id, and the head");
}

/// Nor does a done job of a key whose time is over keep a push, before or after it is deleted.
#[test]
fn done_jobs_that_were_deleted_leave_no_keys() {
    let Some(keys) = Keys::with_manual_clock() else {
        return;
    };
    let store = &keys.store;
    let unique = NewJob {
        key: Some(b"key"),
        merge: Merge::KeepDone,
        ..JOB
    };
    let done = |span: u64| {
        let put = store.enqueue("queue", &[unique]).unwrap()[0];
        assert!(matches!(put, Put::New(_)));
        let lease = claimed(store, 1).remove(0);
        let keep = Act::Keep(Keep {
            span: Duration::from_secs(span),
            took: Duration::ZERO,
            result: None,
        });
        assert_eq!(settle(store, &lease, keep), Verdict::Done);
        lease.id
    };
    for span in [3, 2, 1] {
        let id = done(span);
        assert_eq!(store.enqueue("queue", &[unique]).unwrap(), [Put::Kept(id)]);
        keys.advance(Duration::from_secs(span));
    }
    assert_eq!(store.delete_done("queue", 2).unwrap(), 2);
    let id = done(1);
    assert_eq!(store.enqueue("queue", &[unique]).unwrap(), [Put::Kept(id)]);
    keys.advance(Duration::from_secs(1));
    assert_eq!(store.delete_done("queue", 9).unwrap(), 2);
    let left = keys.all_keys().len();
    assert_eq!(left, 3, "the state, the version and the clock");
}
