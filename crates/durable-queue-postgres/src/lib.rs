//! Jobs in a database of `PostgreSQL`, 14 or later.
//!
//! The tables and functions lie in a schema of their own, so that jobs are entered in an
//! application's transactions: by [`EnqueueIn`], or from any language by
//! `SELECT durable.push('queue', 'payload')`. Each call of the trait is a call of one of those functions:
//! one round trip, one transaction.
//!
//! ```no_run
//! use std::time::Duration;
//! use durable_queue::DurableQueue;
//! use durable_queue_postgres::PostgresStore;
//!
//! let address = std::env::var("DATABASE_URL")?;
//! let mails: DurableQueue<String, _> = DurableQueue::new("mails", PostgresStore::open(&address)?);
//!
//! let mut client = postgres::Client::connect(&address, postgres::NoTls)?; // The application's.
//! let mut transaction = client.transaction()?;
//! transaction.execute("INSERT INTO users VALUES ($1)", &[&"ann"])?;
//! mails.push_in_transaction(&mut transaction, "ann".to_owned(), Duration::from_secs(60))?;
//! transaction.commit()?; // The user and the mail, or neither.
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! A payload has up to [`PAYLOAD_LIMIT`] bytes, a key or a queue's name up to [`KEY_LIMIT`], all jobs of a push up
//! to [`PUSH_LIMIT`]: else it is [`TooLarge`](ErrorKind::TooLarge), and the server is not asked. By
//! `durable.push`, what the server takes. A queue's name has no NUL: each call with such a name is
//! [`BadName`](ErrorKind::BadName), and the server is not asked.
//!
//! Not for:
//! - a pooler that gives each transaction another session: statements are prepared, and one session listens. A store
//!   that is opened through one is an error;
//! - a task of an async runtime, as far as a call that blocks holds up the other tasks of its thread. It does no other
//!   harm: no call and no drop panics there. But a `postgres::Client` of the application's own panics on a thread
//!   that runs tokio, and so does [`EnqueueIn`] with a transaction of it: that belongs on a thread which may block, such
//!   as `spawn_blocking` has;
//! - a forked child, if the parent has opened the store: each call is [`Forked`](durable_queue::ErrorKind::Forked)
//!   there.
//!
//! # What always holds
//! 1. What a call has answered for has been synced: all but claims, starts and extensions, which a
//!    crash of the server may undo.
//! 2. A process that listens is notified of a job that falls due earlier than what it waits for, by the
//!    process that has entered it, after the commit. A process that is killed between the two leaves
//!    it to the looks that all make ([`SAFETY_LOOK`](durable_queue::SAFETY_LOOK)).
//! 3. No notifier is called with a session in use.

#![forbid(unsafe_code)]

mod driver;
mod failure;
mod floors;
mod listen;
mod options;
mod outbox;
mod schema;
mod session;
mod values;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use durable_queue::internals::{ANYTHING, Hub};
use durable_queue::store::{
    COUNT_LIMIT, Claim, Claimed, DeadJob, EnqueueIn, Lease, ListedJob, Result, Settle, Store,
    StoreStats, Turn, Verdict, Watch, announced,
};
use durable_queue::{
    Cancelled, ErrorKind, JobId, NewJob, Notifier, Put, Reset, StoreError, StoreTime, Token, When,
    Which,
};
use postgres::Row;
use postgres::types::Type;

pub use durable_queue::internals::{PROBE_ANSWER, PROBE_EVERY};
pub use options::{BUSY_TIMEOUT, PostgresOptions, SCHEMA, SESSIONS};
pub use postgres;
pub use values::{KEY_LIMIT, PAYLOAD_LIMIT, PUSH_LIMIT};

use self::failure::{failure, no_thread};
use self::floors::Floors;
use self::listen::Queues;
use self::outbox::Outbox;
use self::schema::{PUSH_ONE, TURN};
use self::session::{By, Sessions, Values};
use self::values::{
    Hidden, NewJobs, SIZES, Settles, Uuid, attempts, check_name, id_of, is_plain, lease,
    lease_or_last, listed, micros, number, put, time,
};

/// A store in a database, for all processes that reach it. Clones are the same sessions.
#[derive(Clone)]
pub struct PostgresStore(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    sessions: Sessions,
    hub: Hub,
    queues: Queues,
    floors: Floors,
    outbox: Outbox,
}

impl Drop for Shared {
    fn drop(&mut self) {
        self.announce_last();
    }
}

impl fmt::Debug for PostgresStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("PostgresStore")
            .field(&self.0.sessions)
            .finish()
    }
}

impl PostgresStore {
    /// Begins to say how a database is to be opened.
    pub fn options() -> PostgresOptions {
        PostgresOptions::new()
    }

    /// Connects with all options as they are.
    ///
    /// # Errors
    /// As [`PostgresOptions::open`].
    pub fn open(address: &str) -> Result<Self> {
        Self::options().open(address)
    }

    /// Of the application, about the queue of this name.
    fn call(&self, name: &str, function: &'static str, values: &Values<'_>) -> Result<Vec<Row>> {
        check_name(name)?;
        self.0.sessions.call(By::Application, function, values)
    }

    /// The procedure announces it, too, after its commit.
    fn push_one(&self, queue: &str, job: &NewJob<'_>) -> Result<Put> {
        let (time, is_delay) = time(job.when);
        let origin = self.0.hub.origin();
        let payload = Hidden(job.payload);
        let values: &Values<'_> = &[&queue, &time, &is_delay, &payload, &job.urgent, &origin];
        let rows = self.call(queue, PUSH_ONE, values)?;
        let row = one(&rows)?;
        let read = || Ok((row.try_get(0)?, row.try_get(1)?));
        let (id, due) = read().map_err(unreadable)?;
        let due = StoreTime::from_micros(due);
        self.0.floors.lower(queue, due);
        self.0.hub.notify(queue, due);
        Ok(Put::New(id_of(id)))
    }
}

impl Shared {
    /// After a commit: to the own notifiers, and to other processes if it is `soon`.
    fn announce(&self, by: By, queue: &str, due: StoreTime, soon: bool) {
        self.floors.lower(queue, due);
        self.announce_turn(by, queue, due, soon);
    }

    /// As `announce`, of what a turn has brought back: its floor is not above that.
    fn announce_turn(&self, by: By, queue: &str, due: StoreTime, soon: bool) {
        if due == StoreTime::NEVER {
            return;
        }
        self.hub.notify(queue, due);
        if soon {
            let origin = self.hub.origin();
            let announce = || {
                let values: &Values<'_> = &[&queue, &due.as_micros(), &origin];
                self.sessions.call(by, "announce", values)
            };
            // What was asked for is done, and that is not taken back: if it cannot be announced, on a
            // new session neither, the looks of the others find it.
            if announce().is_err() {
                announce().ok();
            }
        }
    }
}

/// What one of our functions has answered is not what it answers.
fn unreadable(_: postgres::Error) -> StoreError {
    StoreError::lost_answer(ErrorKind::Corrupt)
}

fn one(rows: &[Row]) -> Result<&Row> {
    rows.first()
        .ok_or(StoreError::lost_answer(ErrorKind::Corrupt))
}

/// Enters jobs by `call`. Answers with the earliest time that was set, and whether it is soon.
fn enqueue(
    name: &str,
    jobs: &[NewJob<'_>],
    in_transaction: bool,
    call: impl FnOnce(&'static str, &Values<'_>) -> Result<Vec<Row>>,
) -> Result<(Vec<Put>, StoreTime, bool)> {
    check_name(name)?;
    if jobs.is_empty() {
        return Ok((Vec::new(), StoreTime::NEVER, false));
    }
    let is_as_first = |job: &NewJob<'_>| job.urgent == jobs[0].urgent;
    let are_plain = jobs.iter().all(|job| is_plain(job) && is_as_first(job));
    let jobs = NewJobs::new(jobs);
    let rows = if are_plain {
        let values: &Values<'_> = &[
            &name,
            &jobs.times,
            &jobs.delays,
            &jobs.payloads,
            &jobs.urgents[0],
            &in_transaction,
        ];
        call("enqueue_plain", values)?
    } else {
        let values: &Values<'_> = &[
            &name,
            &jobs.times,
            &jobs.delays,
            &jobs.payloads,
            &jobs.keys,
            &jobs.merges,
            &jobs.mosts,
            &jobs.most_delays,
            &jobs.schedules,
            &jobs.urgents,
            &in_transaction,
        ];
        call("enqueue", values)?
    };
    let (mut earliest, mut soon) = (StoreTime::NEVER, false);
    let mut puts = Vec::with_capacity(rows.len());
    for row in &rows {
        let (put, due) = put(row).map_err(unreadable)?;
        earliest = earliest.min(due);
        soon |= row.try_get::<_, bool>(3).map_err(unreadable)?;
        puts.push(put);
    }
    if puts.len() != jobs.times.len() {
        return Err(StoreError::lost_answer(ErrorKind::Corrupt));
    }
    Ok((puts, earliest, soon))
}

/// Those of the parameters of a function that [`enqueue`] calls.
fn enqueue_types(function: &str) -> &'static [Type] {
    if function == "enqueue_plain" {
        &[
            Type::TEXT,
            Type::INT8_ARRAY,
            Type::BOOL_ARRAY,
            Type::BYTEA_ARRAY,
            Type::BOOL,
            Type::BOOL,
        ]
    } else {
        &[
            Type::TEXT,
            Type::INT8_ARRAY,
            Type::BOOL_ARRAY,
            Type::BYTEA_ARRAY,
            Type::BYTEA_ARRAY,
            Type::INT2_ARRAY,
            Type::INT8_ARRAY,
            Type::BOOL_ARRAY,
            Type::TEXT_ARRAY,
            Type::BOOL_ARRAY,
            Type::BOOL,
        ]
    }
}

/// By id, or else by key.
fn named(which: Which<'_>) -> (Option<i64>, Option<&[u8]>) {
    match which {
        Which::Id(id) => (Some(number(id)), None),
        Which::Key(key) => (None, Some(key)),
    }
}

/// The row of `turn_9` that is no lease; whether to look once more, and whether a job has waited for a key
/// that is free now.
fn summary(row: &Row, settles: usize) -> std::result::Result<(Turn, bool, bool), postgres::Error> {
    let mut verdicts = vec![Verdict::Stale; settles];
    for (column, verdict) in [(8, Verdict::Done), (9, Verdict::NotDue)] {
        for number in row.try_get::<_, Vec<i32>>(column)? {
            let index = usize::try_from(number - 1).ok();
            if let Some(place) = index.and_then(|index| verdicts.get_mut(index)) {
                *place = verdict;
            }
        }
    }
    let time = |column| row.try_get::<_, Option<i64>>(column);
    let claimed = time(10)?.zip(time(11)?).map(|(first, first_free)| Claimed {
        leases: Vec::new(),
        first: StoreTime::from_micros(first),
        first_free: StoreTime::from_micros(first_free),
    });
    let turn = Turn {
        now: StoreTime::from_micros(row.try_get(1)?),
        paused: row.try_get(2)?,
        verdicts,
        claimed,
    };
    let raised = row.try_get::<_, Option<bool>>(12)? == Some(true);
    Ok((turn, raised, row.try_get(13)?))
}

impl Store for PostgresStore {
    fn enqueue(&self, name: &str, jobs: &[NewJob<'_>]) -> Result<Vec<Put>> {
        SIZES.check(name, jobs)?;
        if let [job] = jobs
            && is_plain(job)
        {
            return self.push_one(name, job).map(|put| vec![put]);
        }
        let (puts, earliest, soon) = enqueue(name, jobs, false, |function, values| {
            self.call(name, function, values)
        })?;
        self.0.announce(By::Application, name, earliest, soon);
        Ok(puts)
    }

    fn turn(&self, name: &str, settles: &[Settle<'_>], claim: Option<Claim>) -> Result<Turn> {
        check_name(name)?;
        let all = Settles::new(settles);
        let token = claim.map(|claim| Uuid(claim.token));
        let count =
            |number: fn(&Claim) -> u32| claim.as_ref().map_or(0, |claim| i64::from(number(claim)));
        let span =
            |span: fn(&Claim) -> Duration| claim.as_ref().map_or(0, |claim| micros(span(claim)));
        let synced = settles.iter().any(|settle| settle.act.is_durable());
        let by = self.0.sessions.by_pump(claim.map(|claim| claim.lease));
        self.0.sessions.check_process()?; // Before any lock: the fork may have left it held.
        let floor = self.0.floors.begin(name);
        let rows = self.0.sessions.call_for(
            by,
            TURN,
            &[
                &name,
                &synced,
                &all.are_apart(),
                &all.acts,
                &all.ids,
                &all.tokens,
                &all.times,
                &all.delays,
                &all.errors,
                &token,
                &count(|claim| claim.max),
                &count(|claim| claim.start),
                &count(|claim| claim.ahead),
                &span(|claim| claim.horizon),
                &span(|claim| claim.lease),
                &claim.is_some_and(|claim| claim.urgent_first),
                &floor,
            ],
            |row| match claim {
                Some(claim) => lease_or_last(row, claim.token),
                None => Err(row),
            },
        );
        let mut rows = rows.inspect_err(|_| self.0.floors.lower(name, ANYTHING))?;
        let Some(Err(last)) = rows.pop() else {
            return Err(StoreError::lost_answer(ErrorKind::Corrupt));
        };
        let (mut turn, raised, frees_key) = summary(&last, settles.len()).map_err(unreadable)?;
        let floor: Option<Vec<i64>> = last.try_get(14).map_err(unreadable)?;
        let floor = self.0.floors.end(name, floor.as_deref());
        // The turn may have taken all of its time; what follows it has its own.
        let by = self.0.sessions.by_pump(None);
        if let (Some(claimed), Some(claim)) = (&mut turn.claimed, claim) {
            let leases = rows
                .into_iter()
                .map(|row| row.unwrap_or_else(|row| lease(&row, row.try_get(0)?, claim.token)));
            claimed.leases = leases
                .collect::<std::result::Result<_, _>>()
                .map_err(unreadable)?;
            claimed.leases.sort_by_key(|lease| (lease.due, lease.id));
            if raised {
                // What was entered before others could see the raised head: see `announce` there. If
                // that cannot be known, the next claim is to look for itself.
                let looked = self.0.sessions.call(by, "look_9", &[&name, &floor]);
                let looked = looked.and_then(|rows| {
                    let times = |row: &Row| Ok((row.try_get(0)?, row.try_get(1)?));
                    times(one(&rows)?).map_err(unreadable)
                });
                let (first, first_free) = looked.unwrap_or((i64::MIN, i64::MIN));
                let first = StoreTime::from_micros(first);
                // With a floor the turn has said by when to come again, whatever is seen from there on.
                let first = floor.map_or(first, |_| first.min(claimed.first));
                claimed.first = first;
                claimed.first_free = StoreTime::from_micros(first_free);
            }
        }
        let due = announced(settles, turn.now, frees_key);
        self.0.announce_turn(by, name, due, true);
        Ok(turn)
    }

    fn cancel(&self, name: &str, which: Which<'_>) -> Result<Cancelled> {
        let (id, key) = named(which);
        let rows = self.call(name, "cancel", &[&name, &id, &Hidden(key)])?;
        let Some(row) = rows.first() else {
            return Ok(Cancelled::Never);
        };
        let read = || {
            Ok(if row.try_get(0)? {
                Cancelled::Taken
            } else {
                Cancelled::Gone {
                    attempts: attempts(row.try_get(1)?),
                    payload: row.try_get(2)?,
                }
            })
        };
        read().map_err(unreadable)
    }

    fn reset(&self, name: &str, which: Which<'_>, when: When) -> Result<Reset> {
        let (id, key) = named(which);
        let (at, delay) = time(when);
        let rows = self.call(name, "reset", &[&name, &id, &Hidden(key), &at, &delay])?;
        let Some(row) = rows.first() else {
            return Ok(Reset::Never);
        };
        let read = || Ok((row.try_get(0)?, row.try_get(1)?, row.try_get(2)?));
        let (taken, due, soon) = read().map_err(unreadable)?;
        if taken {
            return Ok(Reset::Taken);
        }
        self.0
            .announce(By::Application, name, StoreTime::from_micros(due), soon);
        Ok(Reset::Moved)
    }

    fn held_by(&self, name: &str, token: Token, span: Duration) -> Result<Vec<Lease>> {
        check_name(name)?;
        let by = self.0.sessions.by_pump(Some(span));
        self.0.sessions.end_lost(by)?;
        let values: &Values<'_> = &[&name, &Uuid(token), &micros(span)];
        let read = |row: Row| lease(&row, row.try_get(0)?, token);
        let leases = self.0.sessions.call_for(by, "held_by_6", values, read)?;
        let leases = leases.into_iter().collect::<std::result::Result<_, _>>();
        leases.map_err(unreadable)
    }

    fn watch(&self, name: &str, notifier: Notifier) -> Result<Box<dyn Watch>> {
        check_name(name)?;
        let watch = durable_queue::internals::watch(&self.0, name, notifier, no_thread)?;
        let by = self.0.sessions.by_pump(None);
        let rows = self.0.sessions.call(by, "listen", &[&name])?;
        let id = one(&rows)?.try_get(0).map_err(unreadable)?;
        self.0.queues.add(id, name);
        Ok(watch)
    }

    fn pause(&self, name: &str, paused: bool) -> Result<()> {
        self.call(name, "pause", &[&name, &paused, &self.0.hub.origin()])?;
        self.0.hub.notify(name, ANYTHING);
        Ok(())
    }

    fn serialize_keys(&self, name: &str, serial: bool) -> Result<()> {
        self.call(name, "serialize_keys", &[&name, &serial])
            .map(drop)
    }

    fn stats(&self, name: &str) -> Result<StoreStats> {
        let rows = self.call(name, "stats_7", &[&name, &i64::from(COUNT_LIMIT)])?;
        let row = one(&rows)?;
        let count = |column: usize| {
            let count = row.try_get::<_, i64>(column)?;
            Ok(u32::try_from(count).unwrap_or(COUNT_LIMIT))
        };
        let read = || {
            Ok(StoreStats {
                jobs: count(0)?,
                due: count(1)?,
                dead: count(2)?,
                paused: row.try_get(3)?,
                serial_keys: row.try_get(4)?,
            })
        };
        read().map_err(unreadable)
    }

    fn list(
        &self,
        name: &str,
        after: Option<(StoreTime, JobId)>,
        most: u32,
    ) -> Result<Vec<ListedJob>> {
        let (due, id) = after.map_or((i64::MIN, i64::MIN), |(due, id)| {
            (due.as_micros(), number(id))
        });
        let rows = self.call(name, "list_6", &[&name, &due, &id, &i64::from(most)])?;
        let jobs = rows.iter().map(listed);
        jobs.collect::<std::result::Result<_, _>>()
            .map_err(unreadable)
    }

    fn dead(&self, name: &str, after: Option<JobId>, most: u32) -> Result<Vec<DeadJob>> {
        check_name(name)?;
        let after = after.map_or(i64::MIN, number);
        let read = |row: Row| {
            Ok(DeadJob {
                id: id_of(row.try_get(0)?),
                key: row.try_get(1)?,
                payload: row.try_get(2)?,
                attempts: attempts(row.try_get(3)?),
                buried: StoreTime::from_micros(row.try_get(4)?),
                error: row.try_get(5)?,
                schedule: row.try_get(6)?,
                urgent: row.try_get(7)?,
            })
        };
        let values: &Values<'_> = &[&name, &after, &i64::from(most)];
        let sessions = &self.0.sessions;
        let dead = sessions.call_for(By::Application, "dead_letters_6", values, read)?;
        let dead = dead.into_iter().collect::<std::result::Result<_, _>>();
        dead.map_err(unreadable)
    }

    fn redrive(&self, name: &str, ids: &[JobId]) -> Result<usize> {
        let count = self.count("redrive", name, ids)?;
        if count > 0 {
            self.0.announce(By::Application, name, ANYTHING, true);
        }
        Ok(count)
    }

    fn delete_dead(&self, name: &str, ids: &[JobId]) -> Result<usize> {
        self.count("delete_dead", name, ids)
    }
}

impl PostgresStore {
    /// Of dead letters, how many were changed.
    fn count(&self, function: &'static str, name: &str, ids: &[JobId]) -> Result<usize> {
        let ids: Vec<i64> = ids.iter().copied().map(number).collect();
        let rows = self.call(name, function, &[&name, &ids])?;
        let count = one(&rows)?.try_get::<_, i64>(0).map_err(unreadable)?;
        Ok(usize::try_from(count).unwrap_or(0))
    }
}

/// The schema must be in the database of the transaction. After an error of the server the transaction can only be
/// rolled back, as after any error of a statement; what is [`TooLarge`](ErrorKind::TooLarge) has not reached it.
///
/// A job that is due within two minutes is announced after the commit, by a thread of the store which asks the server
/// whether the transaction has ended: after 2 ms at first, and then after each eighth of the time that it has been open.
/// The drop of the last clone of a store announces what is committed by then, and waits a second for it at most. One push
/// in a second notifies inside its transaction instead, so that a process which pushes rarely may end at any time
/// after its commit. Other jobs whose process dies within these milliseconds, or whose store is dropped before the
/// commit, are found by the looks that all processes make ([`SAFETY_LOOK`](durable_queue::SAFETY_LOOK)).
impl EnqueueIn for PostgresStore {
    type Transaction<'t> = postgres::Transaction<'t>;

    fn enqueue_in(
        &self,
        transaction: &mut postgres::Transaction<'_>,
        name: &str,
        jobs: &[NewJob<'_>],
    ) -> Result<Vec<Put>> {
        self.0.sessions.check_process()?;
        SIZES.check(name, jobs)?;
        let notifies = self.0.outbox.notifies(&self.0);
        let mut number = None;
        let (puts, earliest, soon) = enqueue(name, jobs, notifies, |function, values| {
            let text = self.0.sessions.schema().enqueue_in(function, values.len());
            // One round trip: what is not typed is prepared first.
            let types = enqueue_types(function).iter().cloned();
            let values: Vec<_> = values.iter().copied().zip(types).collect();
            let rows = transaction
                .query_typed(&text, &values)
                .map_err(|error| failure(&error))?;
            let row = rows.first().map(|row| row.try_get::<_, i64>(4));
            number = row.transpose().map_err(unreadable)?;
            Ok(rows)
        })?;
        if let Some(number) = number.filter(|_| soon && !notifies) {
            self.0.outbox.add(number, name, earliest);
        }
        Ok(puts)
    }
}
