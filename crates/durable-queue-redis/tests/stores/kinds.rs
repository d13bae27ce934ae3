//! Claims that list kinds: the key of the kinds agrees with all others, also after a loss of part of the data.

use std::collections::BTreeSet;
use std::time::Duration;

use ::redis::cmd;
use durable_queue::store::{Act, Claim, Claimed, KindRoom, Settle};
use durable_queue::{JobId, Limit, Merge, NewJob, Reset, Store, StoreTime, Token, When};
use durable_queue_redis::KEY_LIMIT;
use durable_queue_testing::SimStore;
use durable_queue_testing::conformance::Fixture as _;
use testkit::Rng;

use super::Keys;
use crate::alike::{JOB, claim_of};
use crate::programs::{self, ProgramClock};

const A: NewJob<'_> = of_kind("a");
const KEYED_A: NewJob<'_> = NewJob {
    key: Some(b"key"),
    ..A
};

const fn of_kind(kind: &str) -> NewJob<'_> {
    NewJob {
        kind: Some(kind),
        ..JOB
    }
}

fn room(kind: &str, room: u32) -> KindRoom<'_> {
    KindRoom { kind, room }
}

/// Claims and starts up to `max` jobs of these kinds.
fn claimed_of(store: &impl Store, max: u32, kinds: &[KindRoom<'_>]) -> Claimed {
    let claim = Claim {
        kinds: Some(kinds),
        ..claim_of(max)
    };
    let turn = store.turn("queue", &[], Some(claim)).unwrap();
    turn.claimed.unwrap()
}

fn ids(claimed: &Claimed) -> Vec<JobId> {
    claimed.leases.iter().map(|lease| lease.id).collect()
}

fn pushed(store: &impl Store, jobs: &[NewJob<'_>]) -> Vec<JobId> {
    let puts = store.enqueue("queue", jobs).unwrap();
    puts.iter().map(|put| put.id()).collect()
}

fn part(keys: &Keys, name: &str) -> String {
    keys.key(&format!("{{queue}}:{name}"))
}

fn text(id: JobId) -> String {
    format!("{:016}", id.as_u64())
}

/// Returns the entries of the key of the kinds, as they follow from the list of jobs.
fn expected(keys: &Keys) -> BTreeSet<String> {
    const NEVER: i64 = 1 << 53;
    let held: BTreeSet<String> = keys.run(cmd("ZRANGE").arg(part(keys, "lease")).arg(0).arg(-1));
    let mut entries = BTreeSet::new();
    for job in keys.store.list("queue", None, 10_000).unwrap() {
        let (Some(kind), id) = (&job.kind, text(job.id)) else {
            continue;
        };
        let due = match job.due.as_micros().clamp(-NEVER, NEVER) {
            due @ ..0 => format!("0{:016}", due + NEVER),
            due => format!("1{due:016}"),
        };
        let state = if held.contains(&id) { 'h' } else { 'f' };
        for state in job.urgent.then_some('u').into_iter().chain([state]) {
            entries.insert(format!("{:010}{kind}{state}{due}{id}", kind.len()));
        }
    }
    entries
}

fn entries(keys: &Keys) -> BTreeSet<String> {
    keys.run(cmd("ZRANGE").arg(part(keys, "kind")).arg(0).arg(-1))
}

/// A program with many jobs of many kinds, on this store and on the simulated one.
struct Program<'a> {
    rng: &'a mut Rng,
    keys: &'a Keys,
    sim: SimStore,
    held: Vec<(JobId, Token)>,
}

const GROUPS: [&str; 4] = ["", "a", "ab", "b"];
const KINDS: [&str; 12] = ["", "a", "b", "c", "d", "e", "f", "g", "h", "i", "j", "aa"];

impl Program<'_> {
    fn both<R: PartialEq + std::fmt::Debug>(&self, call: impl Fn(&dyn Store) -> R) -> R {
        let ours = call(&self.keys.store);
        assert_eq!(ours, call(&self.sim));
        ours
    }

    fn below(&mut self, below: usize) -> u32 {
        u32::try_from(self.rng.below(below)).unwrap()
    }

    fn seconds(&mut self, below: usize) -> Duration {
        Duration::from_secs(self.rng.below(below).try_into().unwrap())
    }

    fn set_limits(&mut self) {
        for kind in ["a", "b", "c"] {
            let most = 1 + self.below(9);
            let limit = if self.rng.chance(3) {
                Limit::rate_of_kind(kind, most, Duration::from_secs(3))
            } else {
                Limit::per_kind(kind, most)
            };
            let is_set = self.rng.chance(2);
            self.both(|store| store.limit("queue", &limit, is_set).unwrap());
        }
        let rules = [Limit::ordered(), Limit::per_group(2), Limit::fair()];
        let rule = &rules[self.rng.below(rules.len())];
        let is_set = !self.rng.chance(4);
        self.both(|store| store.limit("queue", rule, is_set).unwrap());
    }

    fn push(&mut self) {
        // Most jobs are of the first kinds.
        let kinds = 1 + self.rng.below(KINDS.len());
        let jobs: Vec<_> = (0..self.rng.below(40))
            .map(|_| NewJob {
                when: When::After(self.seconds(4)),
                kind: (!self.rng.chance(6)).then(|| KINDS[self.rng.below(kinds)]),
                urgent: self.rng.chance(6),
                group: self.rng.chance(2).then(|| GROUPS[self.rng.below(4)]),
                key: self
                    .rng
                    .chance(5)
                    .then(|| [&b"k"[..], b"l"][self.rng.below(2)]),
                merge: [Merge::Keep, Merge::Earliest, Merge::Latest][self.rng.below(3)],
                ..JOB
            })
            .collect();
        if !jobs.is_empty() {
            self.both(|store| store.enqueue("queue", &jobs).unwrap());
        }
    }

    fn settle(&mut self) {
        let most = self.rng.below(40);
        let (mut settles, held) = (Vec::new(), std::mem::take(&mut self.held));
        for (id, token) in held {
            if settles.len() == most || self.rng.chance(3) {
                self.held.push((id, token));
                continue;
            }
            let when = When::After(self.seconds(3));
            let act = match self.rng.below(6) {
                0 => Act::Release,
                1 => Act::Retry {
                    when,
                    failures: self.rng.chance(2).then_some("no"),
                    counts: self.rng.chance(2),
                },
                2 => Act::bury("no"),
                3 => Act::Extend {
                    lease: self.seconds(5),
                },
                _ => Act::Ack,
            };
            settles.push(Settle { id, token, act });
        }
        self.both(|store| store.turn("queue", &settles, None).unwrap().verdicts);
        let id = settles.first().map_or(JobId::from_u64(1), |it| it.id);
        match self.rng.below(4) {
            0 => _ = self.both(|store| store.redrive("queue", &[id]).unwrap()),
            1 => _ = self.both(|store| store.cancel("queue", id.into()).unwrap()),
            2 => _ = self.both(|store| store.reset("queue", id.into(), When::NOW).unwrap()),
            _ => {}
        }
    }

    fn claim(&mut self) {
        let mut kinds = Vec::new();
        for kind in KINDS {
            let most = 1 + self.below(20);
            if !self.rng.chance(3) {
                kinds.push(room(kind, most));
            }
        }
        if self.rng.chance(2) {
            kinds.reverse();
        }
        let claim = Claim {
            token: Token::random(),
            kinds: (!self.rng.chance(5)).then_some(&kinds),
            max: self.below(40),
            start: self.below(40),
            ahead: self.below(20),
            horizon: Duration::from_secs(1),
            lease: Duration::from_secs(2),
            urgent_first: self.rng.chance(2),
        };
        let (leases, ..) = self.both(|store| {
            let claimed = store.turn("queue", &[], Some(claim)).unwrap().claimed;
            let claimed = claimed.unwrap();
            (claimed.leases, claimed.first, claimed.first_free)
        });
        self.held.extend(leases.iter().map(|it| (it.id, it.token)));
    }
}

/// The programs of all stores have few jobs at a time.
#[test]
fn many_jobs_of_many_kinds_are_claimed_as_in_the_simulated_store() {
    const PROGRAMS: usize = 6;
    const STEPS: usize = 20;
    let Some(keys) = Keys::with_manual_clock() else {
        return;
    };
    programs::each(PROGRAMS, |rng| {
        keys.delete_all();
        keys.set_clock();
        let clock = ProgramClock::default();
        let mut program = Program {
            rng,
            keys: &keys,
            sim: SimStore::new(clock.clone()),
            held: Vec::new(),
        };
        for _ in 0..STEPS {
            if program.rng.chance(4) {
                program.set_limits();
            }
            program.push();
            program.claim();
            assert_eq!(entries(&keys), expected(&keys));
            program.settle();
            assert_eq!(entries(&keys), expected(&keys));
            program.both(|store| store.stats("queue").unwrap());
            program.both(|store| store.list("queue", None, 10_000).unwrap());
            let by = program.seconds(3);
            clock.shift(i64::try_from(by.as_micros()).unwrap());
            keys.advance(by);
        }
    });
}

/// On a queue that had no job with a kind before.
#[test]
fn a_merge_replaces_the_kind_that_an_earlier_job_of_its_push_has_set() {
    let Some(keys) = Keys::new() else {
        return;
    };
    let store = &keys.store;
    let push = |kind| NewJob {
        kind,
        options: kind,
        merge: Merge::Earliest,
        ..KEYED_A
    };
    for (number, [first, last]) in [[Some("a"), None], [None, Some("a")], [Some("b"), Some("a")]]
        .into_iter()
        .enumerate()
    {
        let all = pushed(store, &[push(first), push(last)]);
        assert_eq!(entries(&keys), expected(&keys));
        let found = ids(&claimed_of(store, 2, &[room("a", 2), room("b", 2)]));
        assert_eq!(found.len(), usize::from(last.is_some()), "{number}");
        let turn = store.turn("queue", &[], Some(claim_of(1))).unwrap();
        let leases = turn.claimed.unwrap().leases;
        assert!(
            leases
                .iter()
                .all(|it| it.kind.is_none() && it.options.is_none())
        );
        assert_eq!(leases.len() + found.len(), 1);
        keys.delete_all();
        assert_eq!(all[0], all[1]);
    }
}

/// A claim begins with few jobs of each kind.
#[test]
fn a_claim_reads_on_in_a_kind_with_more_jobs_than_others() {
    const MANY: u32 = 500;
    let Some(keys) = Keys::new() else {
        return;
    };
    let store = &keys.store;
    let kinds: Vec<String> = (0..20).map(|number| number.to_string()).collect();
    let kinds: Vec<_> = kinds.iter().map(|kind| room(kind, MANY)).collect();
    let many = pushed(store, &vec![of_kind("7"); MANY as usize]);
    let few = pushed(
        store,
        &kinds.iter().map(|it| of_kind(it.kind)).collect::<Vec<_>>(),
    );
    let claimed = claimed_of(store, MANY + 3, &kinds);
    assert_eq!(ids(&claimed), [&many[..], &few[..3]].concat());
}

/// The order of texts is that of times.
#[test]
fn jobs_of_a_kind_are_claimed_by_time_in_the_whole_range() {
    const LAST: i64 = (1 << 53) - 1;
    let Some(keys) = Keys::new() else {
        return;
    };
    let store = &keys.store;
    let now = store.turn("queue", &[], None).unwrap().now.as_micros();
    let past = [i64::MIN, -LAST, -LAST + 1, -2, -1, 0, 1, now - 1, now];
    let later = [LAST, i64::MAX];
    let times: Vec<i64> = [&past[..], &later].concat();
    let jobs: Vec<_> = times
        .iter()
        .rev()
        .map(|time| NewJob {
            when: When::At(StoreTime::from_micros(*time)),
            ..A
        })
        .collect();
    let mut all = pushed(store, &jobs);
    all.reverse();
    for (id, time) in all.iter().zip(past) {
        let claimed = claimed_of(store, 1, &[room("a", 1)]);
        assert_eq!(ids(&claimed), [*id]);
        assert_eq!(claimed.leases[0].due.as_micros(), time);
    }
    let claimed = claimed_of(store, 1, &[room("a", 1)]);
    assert_eq!(claimed.leases, []);
    assert_eq!(claimed.first_free.as_micros(), LAST);
}

/// Its claims find nothing, as no job can have such a kind.
#[test]
fn a_kind_longer_than_any_job_may_have_can_be_listed() {
    let Some(keys) = Keys::new() else {
        return;
    };
    let store = &keys.store;
    let longest = "k".repeat(KEY_LIMIT);
    let longer = "k".repeat(KEY_LIMIT + 1);
    let id = pushed(store, &[of_kind(&longest)]);
    let kinds = [room(&longer, 1), room(&longest, 1)];
    assert_eq!(ids(&claimed_of(store, 1, &kinds[..1])), []);
    assert_eq!(ids(&claimed_of(store, 1, &kinds)), id);
    assert_eq!(ids(&claimed_of(store, 1, &[])), []);
}

/// Its entry tells the kind.
#[test]
fn a_job_whose_extras_were_lost_keeps_its_kind() {
    let Some(keys) = Keys::with_manual_clock() else {
        return;
    };
    let store = &keys.store;
    let all = pushed(store, &[A, A]);
    claimed_of(store, 1, &[room("a", 1)]);
    keys.run::<()>(cmd("UNLINK").arg(part(&keys, "extra")));
    keys.advance(Duration::from_secs(4_000)); // The lease has expired.
    let claimed = claimed_of(store, 9, &[room("a", 9)]);
    assert_eq!(ids(&claimed), all);
    let settles: Vec<_> = (claimed.leases.iter())
        .map(|lease| {
            assert_eq!(lease.kind.as_deref(), Some("a"));
            lease.settle(Act::Retry {
                when: When::NOW,
                failures: Some("no"),
                counts: true,
            })
        })
        .collect();
    store.turn("queue", &settles, None).unwrap();
    assert_eq!(claimed_of(store, 9, &[room("a", 9)]).leases.len(), 2);
    assert_eq!(entries(&keys), expected(&keys));
}

/// Entries of jobs that are gone, held or due at another time are removed by the claim that finds them.
#[test]
fn entries_that_contradict_other_keys_are_not_claimed() {
    let Some(keys) = Keys::new() else {
        return;
    };
    let store = &keys.store;
    let urgent = NewJob { urgent: true, ..A };
    let all = pushed(store, &[A, A, A, urgent, urgent, A]);
    let [gone, moved, held, gone_too, calm, last] = all[..] else {
        panic!("six jobs")
    };
    let due = part(&keys, "due");
    for id in [gone, gone_too] {
        keys.run::<()>(cmd("ZREM").arg(&due).arg(text(id)));
        keys.run::<()>(cmd("HDEL").arg(part(&keys, "payload")).arg(text(id)));
    }
    let later = 8_000_000_000_000_000_u64;
    keys.run::<()>(cmd("ZADD").arg(&due).arg(later).arg(text(moved)));
    keys.run::<()>(cmd("ZREM").arg(&due).arg(text(held)));
    let lease = part(&keys, "lease");
    keys.run::<()>(cmd("ZADD").arg(lease).arg(later).arg(text(held)));
    keys.run::<()>(cmd("HDEL").arg(part(&keys, "job")).arg(text(calm)));

    let claimed = claimed_of(store, 9, &[room("a", 9)]);
    assert_eq!(ids(&claimed), [calm, last]);
    assert_eq!(entries(&keys).len(), 2);
    assert!(store.dead("queue", None, 9).unwrap().is_empty());
}

/// As a claim of any jobs does.
#[test]
fn jobs_of_a_listed_kind_with_invalid_records_are_buried() {
    let Some(keys) = Keys::new() else {
        return;
    };
    let store = &keys.store;
    let all = pushed(store, &[KEYED_A, NewJob { urgent: true, ..A }, A]);
    for id in &all[..2] {
        let record = part(&keys, "job");
        keys.run::<()>(cmd("HSET").arg(record).arg(text(*id)).arg(b"\xc1"));
    }
    let claimed = claimed_of(store, 9, &[room("a", 9)]);
    assert_eq!(ids(&claimed), all[2..]);
    let dead = store.dead("queue", None, 9).unwrap();
    assert_eq!(dead.len(), 2);
    assert!(dead.iter().all(|dead| dead.kind.as_deref() == Some("a")));
    assert_eq!(entries(&keys), expected(&keys));
}

/// Claims that list no kinds find them all the same.
#[test]
fn jobs_whose_entries_were_lost_are_listed_again_when_they_change() {
    let Some(keys) = Keys::with_manual_clock() else {
        return;
    };
    let store = &keys.store;
    let all = pushed(store, &[A, A, A]);
    let held = claimed_of(store, 1, &[room("a", 1)]);
    keys.run::<()>(cmd("UNLINK").arg(part(&keys, "kind")));
    assert_eq!(ids(&claimed_of(store, 9, &[room("a", 9)])), []);
    keys.advance(Duration::from_micros(1));
    let reset = store.reset("queue", all[1].into(), When::NOW).unwrap();
    assert_eq!(reset, Reset::Moved);
    assert_eq!(ids(&claimed_of(store, 9, &[room("a", 9)])), [all[1]]);
    let again = held.leases[0].settle(Act::retry(When::NOW));
    store.turn("queue", &[again], None).unwrap();
    assert_eq!(ids(&claimed_of(store, 9, &[room("a", 9)])), [all[0]]);
    let turn = store.turn("queue", &[], Some(claim_of(9))).unwrap();
    assert_eq!(ids(&turn.claimed.unwrap()), [all[2]]);
    assert_eq!(entries(&keys), expected(&keys));
}
