//! Slopes: the cost of each call of a store over growing numbers of jobs, queues, keys or dead
//! letters.
//!
//! A case is one sort of contents (delayed jobs, jobs that other processes hold, ..). Its run
//! grows the contents from size to size. At each size it makes each call several times: first
//! between two reads of the counter, on a connection whose work is counted, and then timed, on an
//! ordinary connection. A figure's name is `call/size/unit`.
//!
//! Not for rates, because each call has the store to itself.
//!
//! # Invariants
//! 1. The calls are the same at each size, and leave the contents unchanged except for the jobs
//!    that they push.
//! 2. The preparation of a call is neither counted nor timed.

mod calls;
mod contents;
mod counter;
mod queue;

use std::error::Error;
use std::time::Instant;

use durable_queue::Store;
use durable_queue_postgres::PostgresStore;
use durable_queue_redis::RedisStore;
use durable_queue_sqlite::SqliteStore;
use measure::case::{Case, Run};
use measure::percentiles::Percentiles;
use measure::report::Report;
use stores::{Needs, Outcome, Place};

use calls::{Call, Party};
use contents::Contents;
use counter::Counter;
use queue::{Queue, queue};

/// The queue of all calls.
const NAME: &str = "bench";
const GROUP: &str = "Slopes";
const POOLS: [(&str, Needs); 3] = [
    ("ours, PostgreSQL", Needs::Postgres),
    ("ours, Redis", Needs::Redis),
    ("ours, SQLite", Needs::Folder),
];

/// The cases of the stores whose servers are available.
pub fn cases() -> Vec<Case> {
    let there = || POOLS.iter().filter(|(_, needs)| needs.are_there());
    let of = |contents: &'static Contents| {
        let able = there().filter(|(_, needs)| contents.can_be_in(*needs));
        let names: Vec<&'static str> = able.map(|(name, _)| *name).collect();
        let run = move |run: &Run| {
            let pool = POOLS.iter().find(|(name, _)| *name == run.pool);
            let (_, needs) = pool.ok_or("unknown store")?;
            measured(contents, *needs, run).map_err(|fault| -> Box<dyn Error> { fault })
        };
        let case = Case::new(
            format!("slope/{}", contents.name),
            GROUP,
            "What does each call cost with growing numbers of these?",
            &names,
            run,
        );
        case.quick(true, &names)
    };
    let mut cases: Vec<Case> = contents::ALL.iter().map(of).collect();
    cases.retain(|case| !case.pools.is_empty());
    cases
}

fn measured(contents: &Contents, needs: Needs, run: &Run) -> Outcome<Report> {
    let (few, many) = if run.quick { (1, 1) } else { (9, 41) };
    let place = needs.place()?;
    let mut counter = Counter::of(&place)?;
    let [here, counting] = [open(&place)?, counter::counted(&place)?];
    let mut party = Party::new(open(&place)?, open_queue(&place)?);
    party.hold(&*here)?;
    counter::tidy(&place)?;
    let snapshot = contents.holds_snapshot.then(|| counter::snapshot(&place));
    let snapshot = snapshot.transpose()?;
    let mut report = Report::new();
    let mut size = 0;
    for &next in contents.sizes(run.quick) {
        contents.grow(&party, size..next)?;
        size = next;
        // A job that was renewed under a snapshot has left a row version per renewal.
        party.hold(&*here)?;
        counter::tidy(&place)?;
        for call in calls::ALL.iter().filter(|call| contents.allows(call)) {
            let calls = Calls {
                call,
                store: &*counting,
            };
            let times = if counter.is_exact() { few } else { many };
            let count = calls.counted(&mut party, &mut counter, times)?;
            let calls = Calls {
                call,
                store: &*here,
            };
            let cpu = calls.cpu(&mut party, &mut counter, many)?;
            let figures = [
                (counter.unit(), count),
                ("cpu us", cpu),
                ("us", Some(calls.timed(&mut party, many)?)),
            ];
            for (unit, value) in figures {
                if let Some(value) = value {
                    report = report.with(format!("{}/{size}/{unit}", call.name), unit, value);
                }
            }
        }
    }
    drop(snapshot);
    Ok(report)
}

/// Repeats one call.
struct Calls<'a> {
    call: &'a Call,
    store: &'a dyn Store,
}

impl Calls<'_> {
    fn prepare(&self, party: &mut Party) -> Outcome {
        (self.call.prepare)(self.store, party)
    }

    fn make(&self, party: &mut Party) -> Outcome {
        (self.call.make)(self.store, party)
    }

    /// The median of the counts.
    fn counted(
        &self,
        party: &mut Party,
        counter: &mut Counter,
        times: u32,
    ) -> Outcome<Option<f64>> {
        // Lets plans be made, scripts be loaded, and dead rows be marked.
        for _ in 0..times.min(3) {
            self.prepare(party)?;
            self.make(party)?;
        }
        let mut counts = Vec::new();
        for _ in 0..if self.call.is_counted { times } else { 0 } {
            self.prepare(party)?;
            let before = counter.read()?;
            self.make(party)?;
            counts.extend(counter.read()?.since(before));
        }
        counts.sort_by(f64::total_cmp);
        Ok(counts.get(counts.len() / 2).copied())
    }

    /// The mean processor time of the server, if it reports it.
    fn cpu(&self, party: &mut Party, counter: &mut Counter, times: u32) -> Outcome<Option<f64>> {
        if !self.call.is_counted || counter.cpu()?.is_none() {
            return Ok(None);
        }
        for _ in 0..times {
            self.prepare(party)?;
        }
        let before = counter.cpu()?;
        for _ in 0..times {
            self.make(party)?;
        }
        let took = before.zip(counter.cpu()?).map(|(from, to)| to - from);
        Ok(took.map(|micros| micros / f64::from(times)))
    }

    /// The median in microseconds.
    fn timed(&self, party: &mut Party, times: u32) -> Outcome<f64> {
        let mut nanos = Vec::new();
        for _ in 0..times {
            self.prepare(party)?;
            let begin = Instant::now();
            self.make(party)?;
            nanos.push(u64::try_from(begin.elapsed().as_nanos())?);
        }
        Ok(Percentiles::new(nanos).micros(0.5))
    }
}

/// A connection as another process would have it.
fn open(place: &Place) -> Outcome<Box<dyn Store>> {
    let address = place.address();
    Ok(match place {
        Place::Postgres(_) => Box::new(PostgresStore::open(&address)?),
        Place::Redis(_) => Box::new(RedisStore::open(&address)?),
        Place::Folder(_) | Place::Nothing => Box::new(SqliteStore::open(&address)?),
    })
}

/// The same for a queue.
fn open_queue(place: &Place) -> Outcome<Box<dyn Queue>> {
    let address = place.address();
    match place {
        Place::Postgres(_) => queue(PostgresStore::open(&address)?),
        Place::Redis(_) => queue(RedisStore::open(&address)?),
        Place::Folder(_) | Place::Nothing => queue(SqliteStore::open(&address)?),
    }
}
