//! Random programs on a store and on the simulated one: all results must be equal.

use std::time::Duration;

use durable_queue::store::{Act, Claim, ListedJob, Settle};
use durable_queue::{ErrorKind, JobId, Limit, Merge, NewJob, Store, Token, When, Which};
use testkit::Rng;

const STEPS: usize = 60;
const QUEUE: &str = "queue";

fn after(rng: &mut Rng) -> When {
    When::After(Duration::from_secs(rng.below(6) as u64))
}

fn merge(rng: &mut Rng) -> Merge {
    match rng.below(5) {
        0 => Merge::Keep,
        1 => Merge::Earliest,
        2 => Merge::Latest,
        3 => Merge::Debounce,
        _ => Merge::DebounceUntil(after(rng)),
    }
}

/// Rarely one, so that most jobs are ordinary.
fn text(rng: &mut Rng) -> Option<&'static str> {
    rng.chance(4).then(|| ["one", "two"][rng.below(2)])
}

fn act(rng: &mut Rng) -> Act<'static> {
    let error = "no";
    let failures = text(rng);
    match rng.below(10) {
        9 => Act::Reject { error, failures },
        8 => Act::Again { when: after(rng) },
        0 | 1 => Act::Start {
            lease: Duration::from_secs(3),
        },
        2 => Act::Extend {
            lease: Duration::from_secs(3),
        },
        3 => Act::Ack,
        4 | 5 => Act::Retry {
            when: after(rng),
            failures,
        },
        6 => Act::Bury { error, failures },
        _ => Act::Release,
    }
}

fn limit(rng: &mut Rng) -> Limit {
    let kind = ["one", "two"][rng.below(2)];
    let most = u32::try_from(rng.below(3)).unwrap() + 1;
    match rng.below(4) {
        0 => Limit::per_key(most),
        1 | 2 => Limit::per_kind(kind, most),
        _ => Limit::rate_of_kind(kind, most, Duration::from_secs(5)),
    }
}

/// Sets or removes a limit, unless the store has none.
fn change_limit(rng: &mut Rng, [ours, twin]: &[&dyn Store; 2]) {
    let (limit, is_set) = (limit(rng), !rng.chance(3));
    match ours.limit(QUEUE, &limit, is_set) {
        Err(error) if error.kind() == ErrorKind::Unsupported => {}
        result => {
            result.unwrap();
            twin.limit(QUEUE, &limit, is_set).unwrap();
            assert_eq!(ours.limits(QUEUE).unwrap(), twin.limits(QUEUE).unwrap());
        }
    }
}

fn token(rng: &mut Rng) -> Token {
    let token = Token::random();
    if rng.chance(2) {
        token.without_confirmation()
    } else {
        token
    }
}

/// Remembers claimed jobs, also after they are settled.
fn turn(rng: &mut Rng, [ours, twin]: &[&dyn Store; 2], held: &mut Vec<(JobId, Token)>) {
    let settles: Vec<Settle<'_>> = (0..rng.below(4))
        .filter_map(|_| {
            let at = rng.below(held.len().max(1));
            let &(id, token) = held.get(at)?;
            Some(Settle {
                id,
                token,
                act: act(rng),
            })
        })
        .collect();
    let claim = rng.chance(2).then(|| Claim {
        token: token(rng),
        max: u32::try_from(rng.below(4)).unwrap(),
        start: u32::try_from(rng.below(3)).unwrap(),
        ahead: u32::try_from(rng.below(4)).unwrap(),
        horizon: Duration::from_secs(1),
        lease: Duration::from_secs(2),
        urgent_first: rng.chance(2),
    });
    let turn = ours.turn(QUEUE, &settles, claim).unwrap();
    let same = twin.turn(QUEUE, &settles, claim).unwrap();
    assert_eq!((turn.now, turn.paused), (same.now, same.paused));
    assert_eq!(turn.verdicts, same.verdicts, "{settles:?}");
    let leases = turn.claimed.map(|claimed| {
        let same = same.claimed.unwrap();
        assert_eq!(claimed.leases, same.leases);
        assert_eq!(
            (claimed.first, claimed.first_free),
            (same.first, same.first_free)
        );
        claimed.leases
    });
    let leases = leases.unwrap_or_default();
    held.extend(leases.iter().map(|lease| (lease.id, lease.token)));
}

/// One step on both stores.
fn step(rng: &mut Rng, stores: &[&dyn Store; 2], held: &mut Vec<(JobId, Token)>, last: &mut u64) {
    let id = JobId::from_u64(rng.below(usize::try_from(*last).unwrap() + 2) as u64);
    let keys: [&[u8]; 3] = [b"a", b"b", b"\0"];
    let key = keys[rng.below(3)];
    let which = if rng.chance(2) {
        Which::Id(id)
    } else {
        Which::Key(key)
    };
    let [ours, twin] = stores;
    match rng.below(12) {
        0..=3 => {
            let payload = rng.next_u64().to_le_bytes();
            let keyed = rng.chance(2);
            let job = NewJob {
                payload: &payload,
                when: after(rng),
                key: keyed.then_some(key),
                merge: merge(rng),
                schedule: rng.chance(4).then_some(["hourly", "daily"][rng.below(2)]),
                urgent: rng.chance(3),
                // Limits apply to kinds.
                kind: text(rng).or_else(|| text(rng)).or_else(|| text(rng)),
                options: text(rng),
            };
            let puts = ours.enqueue(QUEUE, &[job]).unwrap();
            assert_eq!(puts, twin.enqueue(QUEUE, &[job]).unwrap());
            *last = (*last).max(puts[0].id().as_u64());
        }
        4..=7 => turn(rng, stores, held),
        8 => assert_eq!(
            ours.cancel(QUEUE, which).unwrap(),
            twin.cancel(QUEUE, which).unwrap()
        ),
        9 => {
            let when = after(rng);
            let reset = ours.reset(QUEUE, which, when).unwrap();
            assert_eq!(reset, twin.reset(QUEUE, which, when).unwrap());
        }
        10 => {
            let redriven = ours.redrive(QUEUE, &[id]).unwrap();
            assert_eq!(redriven, twin.redrive(QUEUE, &[id]).unwrap());
            let dead = ours.dead(QUEUE, None, 100).unwrap();
            assert_eq!(dead, twin.dead(QUEUE, None, 100).unwrap());
        }
        _ => {
            let paused = rng.chance(4);
            ours.pause(QUEUE, paused).unwrap();
            twin.pause(QUEUE, paused).unwrap();
            if rng.chance(2) {
                change_limit(rng, stores);
            }
            let serial = rng.chance(2);
            ours.serialize_keys(QUEUE, serial).unwrap();
            twin.serialize_keys(QUEUE, serial).unwrap();
            assert_eq!(ours.stats(QUEUE).unwrap(), twin.stats(QUEUE).unwrap());
            let most = u32::try_from(rng.below(4)).unwrap();
            let first = ours.list(QUEUE, None, most).unwrap();
            assert_eq!(first, twin.list(QUEUE, None, most).unwrap());
            let after = first.last().map(ListedJob::position);
            let rest = ours.list(QUEUE, after, 100).unwrap();
            assert_eq!(rest, twin.list(QUEUE, after, 100).unwrap());
        }
    }
    let marked = ours.cancel_requests(QUEUE).unwrap();
    assert_eq!(marked, twin.cancel_requests(QUEUE).unwrap());
    if let Some(&(_, token)) = held.last() {
        let lease = Duration::from_secs(3);
        let ours = ours.held_by(QUEUE, token, lease).unwrap();
        let mut twin = twin.held_by(QUEUE, token, lease).unwrap();
        // The position is the end of the lease in one list, and the due time in the other.
        let mut ours = ours;
        ours.sort_by_key(|lease| lease.id);
        twin.sort_by_key(|lease| lease.id);
        assert_eq!(ours, twin);
    }
}

/// Runs one program on both stores. `advance` moves their clocks.
pub fn run(rng: &mut Rng, stores: &[&dyn Store; 2], advance: impl Fn(Duration)) {
    let (mut held, mut last) = (Vec::new(), 0);
    let serial = rng.chance(2);
    for store in stores {
        store.serialize_keys(QUEUE, serial).unwrap();
    }
    for _ in 0..rng.below(3) {
        change_limit(rng, stores);
    }
    for _ in 0..STEPS {
        step(rng, stores, &mut held, &mut last);
        advance(Duration::from_millis(500 * rng.below(4) as u64));
    }
}
