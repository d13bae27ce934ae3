//! The contents whose number grows.

use std::ops::Range;
use std::time::Duration;

use durable_queue::store::Act;
use durable_queue::{NewJob, Store};
use stores::{Needs, Outcome};

use super::NAME;
use super::calls::{Call, DELAY, Party, claim, held, job, settle};

/// Jobs pushed, claimed or settled per call.
const CHUNK: u32 = 1_000;

pub struct Contents {
    pub name: &'static str,
    /// Adds the items with these numbers.
    add: fn(&Party, Range<u32>) -> Outcome,
    sizes: [u32; 3],
    /// A claim finds some of them.
    are_due: bool,
    /// A transaction holds a snapshot from before they were added.
    pub holds_snapshot: bool,
}

const SIZES: [u32; 3] = [1_000, 10_000, 100_000];

/// Without due jobs, and without a held snapshot.
const PLAIN: Contents = Contents {
    name: "",
    add: |_, _| Ok(()),
    sizes: SIZES,
    are_due: false,
    holds_snapshot: false,
};

pub static ALL: [Contents; 8] = [
    Contents {
        name: "delayed jobs",
        add: |party, range| push(party, range, DELAY),
        ..PLAIN
    },
    Contents {
        name: "due jobs",
        add: |party, range| push(party, range, Duration::ZERO),
        are_due: true,
        ..PLAIN
    },
    Contents {
        name: "jobs held here",
        add: |party, range| {
            push(party, range.clone(), Duration::ZERO)?;
            in_chunks(range, |numbers| {
                party.queue.hold(u32::try_from(numbers.len())?)
            })
        },
        ..PLAIN
    },
    Contents {
        name: "jobs held elsewhere",
        add: |party, range| {
            push(party, range.clone(), Duration::ZERO)?;
            claim_all(&*party.elsewhere, range)
        },
        ..PLAIN
    },
    Contents {
        name: "jobs done under a snapshot",
        add: |party, range| {
            push(party, range.clone(), Duration::ZERO)?;
            end_all(party, range, Act::Ack)
        },
        holds_snapshot: true,
        ..PLAIN
    },
    Contents {
        name: "queues",
        add: |party, range| {
            range.into_iter().try_for_each(|number| {
                let queue = format!("queue {number}");
                Ok(party.elsewhere.enqueue(&queue, &[job(DELAY)]).map(drop)?)
            })
        },
        sizes: [1, 100, 10_000],
        ..PLAIN
    },
    Contents {
        name: "keys",
        add: |party, range| {
            in_chunks(range, |numbers| {
                let keys: Vec<String> = numbers.map(|number| format!("key {number}")).collect();
                let jobs = keys.iter().map(|key| NewJob {
                    key: Some(key.as_bytes()),
                    ..job(DELAY)
                });
                let jobs: Vec<NewJob<'_>> = jobs.collect();
                Ok(party.elsewhere.enqueue(NAME, &jobs).map(drop)?)
            })
        },
        ..PLAIN
    },
    Contents {
        name: "dead letters",
        add: |party, range| {
            push(party, range.clone(), Duration::ZERO)?;
            end_all(party, range, Act::bury("no"))
        },
        ..PLAIN
    },
];

impl Contents {
    /// A Redis server keeps no snapshots.
    pub fn can_be_in(&self, store: Needs) -> bool {
        !(self.holds_snapshot && store == Needs::Redis)
    }

    pub fn allows(&self, call: &Call) -> bool {
        !(self.are_due && call.finds_nothing)
    }

    pub fn sizes(&self, quick: bool) -> &[u32] {
        if quick { &[1, 2] } else { &self.sizes }
    }

    pub fn grow(&self, party: &Party, numbers: Range<u32>) -> Outcome {
        (self.add)(party, numbers)
    }
}

fn in_chunks(numbers: Range<u32>, mut each: impl FnMut(Range<u32>) -> Outcome) -> Outcome {
    numbers
        .clone()
        .step_by(CHUNK as usize)
        .try_for_each(|from| each(from..numbers.end.min(from + CHUNK)))
}

fn push(party: &Party, numbers: Range<u32>, delay: Duration) -> Outcome {
    in_chunks(numbers, |numbers| {
        let jobs = vec![job(delay); numbers.len()];
        Ok(party.elsewhere.enqueue(NAME, &jobs).map(drop)?)
    })
}

fn claim_all(store: &dyn Store, numbers: Range<u32>) -> Outcome {
    in_chunks(numbers, |numbers| {
        let count = claim(store, u32::try_from(numbers.len())?)?.leases.len();
        if count == numbers.len() {
            Ok(())
        } else {
            Err(format!("{count} of {} were due", numbers.len()).into())
        }
    })
}

fn end_all(party: &Party, numbers: Range<u32>, act: Act<'_>) -> Outcome {
    in_chunks(numbers, |numbers| {
        let claimed = claim(&*party.elsewhere, u32::try_from(numbers.len())?)?;
        settle(&*party.elsewhere, &held(&claimed), act)
    })
}
