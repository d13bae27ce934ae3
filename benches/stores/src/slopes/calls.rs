//! The measured calls.

use std::collections::VecDeque;
use std::time::Duration;

use durable_queue::store::{Act, Claim, Claimed, KindRoom, Settle, Store, Verdict};
use durable_queue::{JobId, Merge, NewJob, Token, When, Which};
use stores::Outcome;

use super::NAME;
use super::queue::Queue;

/// Longer than a run and shorter than [`HORIZON`], so that all leases are within a claim's horizon.
pub const LEASE: Duration = Duration::from_mins(30);
const HORIZON: Duration = Duration::from_hours(1);
/// Delayed jobs are beyond the horizon.
pub const DELAY: Duration = Duration::from_hours(2);
/// The limit of a claim, and the size of a page.
const MANY: u32 = 100;
/// Jobs held here in every case. One call renews them.
const HELD: usize = MANY as usize;

/// Another process, a queue of this one, and the jobs held here outside of the queue.
pub struct Party {
    pub elsewhere: Box<dyn Store>,
    pub queue: Box<dyn Queue>,
    held: Vec<(JobId, Token)>,
    /// The number of generated keys.
    keys: u64,
    to_cancel: VecDeque<String>,
}

pub struct Call {
    pub name: &'static str,
    /// The call claims, and must find no due job.
    pub finds_nothing: bool,
    /// The call is made on the given connection.
    pub is_counted: bool,
    pub prepare: fn(&dyn Store, &mut Party) -> Outcome,
    pub make: fn(&dyn Store, &mut Party) -> Outcome,
}

pub const ALL: [Call; 11] = [
    Call {
        name: "push",
        make: |store, _| push(store, job(DELAY)),
        ..CALL
    },
    Call {
        name: "push with a key",
        make: |store, party| push_keyed(store, &party.key()),
        ..CALL
    },
    Call {
        name: "claim of nothing",
        finds_nothing: true,
        make: |store, _| {
            let claimed = claim(store, MANY)?;
            expect(claimed.leases.is_empty(), "nothing is due")
        },
        ..CALL
    },
    Call {
        name: "claim and ack of one",
        prepare: |store, _| push(store, job(Duration::ZERO)),
        make: |store, _| {
            let claimed = claim(store, 1)?;
            expect(claimed.leases.len() == 1, "one is due")?;
            settle(store, &held(&claimed), Act::Ack)
        },
        ..CALL
    },
    Call {
        name: "claim and ack of one, by a worker of 20 kinds",
        prepare: |store, _| {
            let kind = Some(KINDS[0].kind);
            push(
                store,
                NewJob {
                    kind,
                    ..job(Duration::ZERO)
                },
            )
        },
        make: |store, _| {
            let claimed = claim_of(store, 1, Some(&KINDS))?;
            expect(claimed.leases.len() == 1, "one is due")?;
            settle(store, &held(&claimed), Act::Ack)
        },
        ..CALL
    },
    Call {
        name: "renewal of 100",
        make: |store, party| settle(store, &party.held, Act::Extend { lease: LEASE }),
        ..CALL
    },
    Call {
        name: "extend",
        make: |store, party| settle(store, &party.held[..1], Act::Extend { lease: LEASE }),
        ..CALL
    },
    Call {
        name: "cancel by key",
        prepare: |store, party| {
            let key = party.key();
            push_keyed(store, &key)?;
            party.to_cancel.push_back(key);
            Ok(())
        },
        make: |store, party| {
            let key = party.to_cancel.pop_front().ok_or("it was pushed")?;
            let cancelled = store.cancel(NAME, Which::Key(key.as_bytes()))?;
            expect(cancelled.is_gone(), "it waits")
        },
        ..CALL
    },
    Call {
        name: "stats",
        make: |store, _| Ok(store.stats(NAME).map(drop)?),
        ..CALL
    },
    Call {
        name: "first page of the list",
        make: |store, _| {
            let page = store.list(NAME, None, MANY)?;
            expect(page.len() == HELD, "so many are there")
        },
        ..CALL
    },
    Call {
        name: "job through a queue",
        finds_nothing: true,
        is_counted: false,
        make: |_, party| party.queue.pass_one(),
        ..CALL
    },
];

/// The kinds of a worker, with one handler for each.
const KINDS: [KindRoom<'static>; 20] = {
    let names = [
        "a", "b", "c", "d", "e", "f", "g", "h", "i", "j", "k", "l", "m", "n", "o", "p", "q", "r",
        "s", "t",
    ];
    let mut kinds = [KindRoom { kind: "", room: 1 }; 20];
    let mut at = 0;
    while at < kinds.len() {
        kinds[at].kind = names[at];
        at += 1;
    }
    kinds
};

/// A call without requirements.
const CALL: Call = Call {
    name: "",
    finds_nothing: false,
    is_counted: true,
    prepare: |_, _| Ok(()),
    make: |_, _| Ok(()),
};

impl Party {
    pub fn new(elsewhere: Box<dyn Store>, queue: Box<dyn Queue>) -> Self {
        Self {
            elsewhere,
            queue,
            held: Vec::new(),
            keys: 0,
            to_cancel: VecDeque::new(),
        }
    }

    /// Settles the jobs held here, and claims others.
    pub fn hold(&mut self, store: &dyn Store) -> Outcome {
        settle(store, &self.held, Act::Ack)?;
        store.enqueue(NAME, &[job(Duration::ZERO); HELD])?;
        self.held = held(&claim(store, MANY)?);
        expect(self.held.len() == HELD, "so many are due")
    }

    /// Returns an unused key.
    fn key(&mut self) -> String {
        self.keys += 1;
        format!("a key of the calls {}", self.keys)
    }
}

fn push(store: &dyn Store, job: NewJob<'_>) -> Outcome {
    Ok(store.enqueue(NAME, &[job]).map(drop)?)
}

fn push_keyed(store: &dyn Store, key: &str) -> Outcome {
    let key = Some(key.as_bytes());
    push(store, NewJob { key, ..job(DELAY) })
}

/// A job without a key.
pub fn job(delay: Duration) -> NewJob<'static> {
    NewJob {
        payload: &[b'.'; 100],
        when: When::After(delay),
        key: None,
        group: None,
        merge: Merge::Keep,
        schedule: None,
        urgent: false,
        kind: None,
        options: None,
    }
}

/// A worker's claim: due jobs, and room for as many ahead.
pub fn claim(store: &dyn Store, most: u32) -> Outcome<Claimed> {
    claim_of(store, most, None)
}

fn claim_of(store: &dyn Store, most: u32, kinds: Option<&[KindRoom<'_>]>) -> Outcome<Claimed> {
    let claim = Claim {
        token: Token::random(),
        kinds,
        max: most,
        start: most,
        ahead: most,
        horizon: HORIZON,
        lease: LEASE,
        urgent_first: true,
    };
    Ok(store
        .turn(NAME, &[], Some(claim))?
        .claimed
        .ok_or("it was a claim")?)
}

/// Settles all of them in the same way, in one call.
pub fn settle(store: &dyn Store, held: &[(JobId, Token)], act: Act<'_>) -> Outcome {
    let settles: Vec<Settle<'_>> = held
        .iter()
        .map(|&(id, token)| Settle { id, token, act })
        .collect();
    let verdicts = store.turn(NAME, &settles, None)?.verdicts;
    expect(
        verdicts.iter().all(|it| *it == Verdict::Done),
        "they are held",
    )
}

/// The jobs of a claim.
pub fn held(claimed: &Claimed) -> Vec<(JobId, Token)> {
    let leases = claimed.leases.iter();
    leases.map(|lease| (lease.id, lease.token)).collect()
}

fn expect(holds: bool, what: &str) -> Outcome {
    if holds {
        Ok(())
    } else {
        Err(format!("expected: {what}").into())
    }
}
