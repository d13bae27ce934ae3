//! Stores jobs in a `PostgreSQL` database, version 14 or later.
//!
//! The tables and functions are in their own schema. Applications push jobs in their transactions by
//! [`push_in`](durable_queue::DurableQueue::push_in), or in any language by `SELECT durable.push('queue', 'payload')`. Each call of the trait
//! calls one of these functions: one round trip, one transaction.
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
//! mails.push_in(&mut transaction, "ann".to_owned(), Duration::from_secs(60))?;
//! transaction.commit()?; // The user and the mail, or neither.
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! A payload has up to [`PAYLOAD_LIMIT`] bytes, a key, a group, a kind or a queue's name up to [`KEY_LIMIT`], all jobs of a
//! push up to [`PUSH_LIMIT`]. Larger pushes fail with [`TooLarge`](ErrorKind::TooLarge) before the server is
//! called. `durable.push` has only the server's limits. Each call of a queue whose name contains NUL fails
//! with [`BadName`](ErrorKind::BadName) before the server is called.
//!
//! Not for:
//! - poolers in statement mode, and poolers in transaction mode without
//!   [`pooler(true)`](PostgresOptions::pooler), because statements are prepared and one session listens.
//!   Opening a store through one fails with [`Pooled`](ErrorKind::Pooled);
//! - the application's own `postgres::Client`, on a thread that runs tokio: it panics there, and so does `push_in` with
//!   its transactions. Use `tokio_postgres`, `sqlx` or `spawn_blocking`. The store itself works on any thread;
//! - forked children, if the parent has opened the store: each call returns
//!   [`Forked`](durable_queue::ErrorKind::Forked).
//!
//! # Guarantees
//! 1. All answered calls are synced, except claims, starts, extensions and releases, which a crash of the server
//!    may undo.
//! 2. A listening process is notified of a job that is due earlier than the time for which it waits, by the
//!    process that has pushed it, after the commit. If that process is killed in between, others find the job
//!    by their regular looks ([`SAFETY_LOOK`](durable_queue::internals::SAFETY_LOOK)).
//! 3. No notifier is called while a session is locked.

#![forbid(unsafe_code)]

mod driver;
mod failure;
mod floors;
mod listen;
mod options;
mod outbox;
mod push_in;
mod schema;
mod session;
#[cfg(feature = "sqlx")]
mod sqlx;
mod values;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use durable_queue::internals::{ANYTHING, Hub};
use durable_queue::store::{
    CANCEL_REQUEST_LIMIT, COUNT_LIMIT, Claim, Claimed, DeadJob, Fate, Lease, ListedJob, RECALL,
    Result, Settle, Store, StoreStats, Turn, Verdict, Watch, announced,
};
use durable_queue::{
    Cancelled, ErrorKind, JobId, Limit, NewJob, Notifier, Put, Reset, StoreError, StoreTime,
    Threads, Token, When, Which,
};
use postgres::Row;

pub use durable_queue::internals::{PROBE_ANSWER, PROBE_EVERY};
pub use options::{BUSY_TIMEOUT, POLL_EVERY, PostgresOptions, SCHEMA, SESSIONS};
pub use postgres;
pub use push_in::Prepared;
pub use tokio_postgres;
pub use values::{KEY_LIMIT, PAYLOAD_LIMIT, PUSH_LIMIT};

use self::failure::no_thread;
use self::floors::Floors;
use self::listen::{Queues, Source};
use self::outbox::Outbox;
use self::schema::{PUSH_ONE, TURN};
use self::session::{By, Sessions, Values};
use self::values::{
    Hidden, Listed, NewJobs, Settles, Uuid, attempts, check_jobs, check_name, id_of, is_plain,
    lease, lease_or_last, listed, micros, number, put, time,
};

/// A store in a database, for all processes that can reach it. Clones share the sessions.
#[derive(Clone)]
pub struct PostgresStore(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    sessions: Sessions,
    hub: Hub,
    source: Source,
    queues: Queues,
    floors: Floors,
    outbox: Outbox,
    threads: Threads,
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
    /// Returns the default options.
    pub fn options() -> PostgresOptions {
        PostgresOptions::new()
    }

    /// Connects with the default options.
    ///
    /// # Errors
    /// Like [`PostgresOptions::open`].
    pub fn open(address: &str) -> Result<Self> {
        Self::options().open(address)
    }

    /// Makes a call of the application about the queue `name`.
    fn call(&self, name: &str, function: &'static str, values: &Values<'_>) -> Result<Vec<Row>> {
        check_name(name)?;
        self.0.sessions.call(By::Application, function, values)
    }

    /// The procedure also announces the job, after its commit.
    fn push_one(&self, queue: &str, job: &NewJob<'_>) -> Result<Put> {
        let (time, is_delay) = time(job.when);
        let origin = self.0.hub.origin();
        let payload = Hidden(job.payload);
        let values: &Values<'_> = &[
            &queue,
            &time,
            &is_delay,
            &payload,
            &job.urgent,
            &job.kind,
            &Hidden(job.options),
            &Hidden(job.group),
            &origin,
        ];
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
    /// Called after a commit: notifies this process, and other processes if the job is `soon`.
    fn announce(&self, by: By, queue: &str, due: StoreTime, soon: bool) {
        self.floors.lower(queue, due);
        self.announce_turn(by, queue, due, soon);
    }

    /// Like `announce`, for jobs that a turn has returned to the queue: also lowers the floor.
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
            // The change is committed. If it cannot be announced, not even on a new session, other processes
            // find it by their regular looks.
            if announce().is_err() {
                announce().ok();
            }
        }
    }
}

/// A function returned an unexpected result.
fn unreadable(_: postgres::Error) -> StoreError {
    StoreError::lost_answer(ErrorKind::Corrupt)
}

fn one(rows: &[Row]) -> Result<&Row> {
    rows.first()
        .ok_or(StoreError::lost_answer(ErrorKind::Corrupt))
}

/// Inserts jobs by `call`. Also returns the earliest due time that was set, and whether it is soon.
fn enqueue(
    name: &str,
    jobs: &[NewJob<'_>],
    call: impl FnOnce(&'static str, &Values<'_>) -> Result<Vec<Row>>,
) -> Result<(Vec<Put>, StoreTime, bool)> {
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
            &jobs.kinds,
            &jobs.options,
            &jobs.groups,
            &false,
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
            &jobs.kinds,
            &jobs.options,
            &jobs.groups,
            // The transaction ends with the call.
            &None::<bool>,
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

/// Returns the id or the key.
fn named(which: Which<'_>) -> (Option<i64>, Option<&[u8]>) {
    match which {
        Which::Id(id) => (Some(number(id)), None),
        Which::Key(key) => (None, Some(key)),
    }
}

/// Parses the last row of `turn`, which is not a lease. Also returns whether to look once more, and whether
/// a job that has waited can now be claimed.
fn summary(row: &Row, settles: usize) -> std::result::Result<(Turn, bool, bool), postgres::Error> {
    let mut verdicts = vec![Verdict::Stale; settles];
    for (column, verdict) in [(12, Verdict::Done), (13, Verdict::NotDue)] {
        for number in row.try_get::<_, Vec<i32>>(column)? {
            let index = usize::try_from(number - 1).ok();
            if let Some(place) = index.and_then(|index| verdicts.get_mut(index)) {
                *place = verdict;
            }
        }
    }
    let time = |column| row.try_get::<_, Option<i64>>(column);
    let claimed = time(14)?.zip(time(15)?).map(|(first, first_free)| Claimed {
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
    let raised = row.try_get::<_, Option<bool>>(16)? == Some(true);
    Ok((turn, raised, row.try_get(17)?))
}

impl Store for PostgresStore {
    fn enqueue(&self, name: &str, jobs: &[NewJob<'_>]) -> Result<Vec<Put>> {
        check_jobs(name, jobs)?;
        if let [job] = jobs
            && is_plain(job)
            && !self.0.sessions.is_pooled()
        {
            return self.push_one(name, job).map(|put| vec![put]);
        }
        let (puts, earliest, soon) = enqueue(name, jobs, |function, values| {
            self.call(name, function, values)
        })?;
        self.0.announce(By::Application, name, earliest, soon);
        Ok(puts)
    }

    fn turn(&self, name: &str, settles: &[Settle<'_>], claim: Option<Claim<'_>>) -> Result<Turn> {
        check_name(name)?;
        let all = Settles::new(settles);
        let mut listed = Listed::of(claim);
        let token = claim.map(|claim| Uuid(claim.token));
        let count = |number: fn(&Claim<'_>) -> u32| {
            claim.as_ref().map_or(0, |claim| i64::from(number(claim)))
        };
        let span = |span: fn(&Claim<'_>) -> Duration| {
            claim.as_ref().map_or(0, |claim| micros(span(claim)))
        };
        let synced = settles.iter().any(|settle| settle.act.is_durable());
        let by = self.0.sessions.by_pump(claim.map(|claim| claim.lease));
        self.0.sessions.check_process()?; // Before any lock, which the fork may have left held.
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
                &all.failures,
                &token,
                &count(|claim| claim.max),
                &count(|claim| claim.start),
                &count(|claim| claim.ahead),
                &span(|claim| claim.horizon),
                &span(|claim| claim.lease),
                &claim.is_some_and(|claim| claim.urgent_first),
                &floor,
                &listed.kinds,
                &listed.rooms,
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
        let (mut turn, raised, calls) = summary(&last, settles.len()).map_err(unreadable)?;
        let floor: Option<Vec<i64>> = last.try_get(18).map_err(unreadable)?;
        let floor = self.0.floors.end(name, floor.as_deref());
        if listed.kinds.is_some() {
            // The next claim of all jobs seeks.
            self.0.floors.lower(name, ANYTHING);
        }
        // The turn may have used all of its time, so the look has its own limit.
        let by = self.0.sessions.by_pump(None);
        if let (Some(claimed), Some(claim)) = (&mut turn.claimed, claim) {
            let leases = rows
                .into_iter()
                .map(|row| row.unwrap_or_else(|row| lease(&row, row.try_get(0)?, claim.token)));
            claimed.leases = leases
                .collect::<std::result::Result<_, _>>()
                .map_err(unreadable)?;
            claimed.leases.sort_by_key(|lease| (lease.due, lease.id));
            listed.take(&claimed.leases);
            if raised {
                // Finds jobs inserted before other processes could see the raised head: see `announce` in
                // `enqueue.sql`. If the look fails, the next claim has to look.
                let values: &Values<'_> = &[&name, &floor, &listed.kinds, &listed.rooms];
                let looked = self.0.sessions.call(by, "look", values);
                let looked = looked.and_then(|rows| {
                    let times = |row: &Row| Ok((row.try_get(0)?, row.try_get(1)?));
                    times(one(&rows)?).map_err(unreadable)
                });
                let (first, first_free) = looked.unwrap_or((i64::MIN, i64::MIN));
                let first = StoreTime::from_micros(first);
                // The turn may have found an earlier reason for the next claim than a job.
                claimed.first = first.min(claimed.first);
                claimed.first_free = StoreTime::from_micros(first_free);
            }
        }
        let due = announced(settles, turn.now, calls);
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
            let cancelled = if row.try_get(0)? {
                Cancelled::Taken
            } else {
                Cancelled::Gone {
                    attempts: attempts(row.try_get(1)?),
                    payload: row.try_get(2)?,
                }
            };
            Ok((cancelled, row.try_get(3)?))
        };
        let (cancelled, is_marked) = read().map_err(unreadable)?;
        if is_marked {
            // Other processes are notified by the function.
            self.0.hub.notify(name, RECALL);
        }
        Ok(cancelled)
    }

    fn cancel_requests(&self, name: &str) -> Result<Vec<(JobId, Token)>> {
        check_name(name)?;
        let by = self.0.sessions.by_pump(None);
        let values: &Values<'_> = &[&name, &i64::from(CANCEL_REQUEST_LIMIT)];
        let read = |row: Row| {
            let token: Vec<u8> = row.try_get(1)?;
            Ok((id_of(row.try_get(0)?), token))
        };
        let found = self
            .0
            .sessions
            .call_for(by, "cancel_requests", values, read)?;
        let requests = found.into_iter().map(|request| {
            let (id, token) = request.map_err(unreadable)?;
            let token = token.try_into();
            let token = token.map_err(|_| StoreError::lost_answer(ErrorKind::Corrupt))?;
            Ok((id, Token::from_bytes(token)))
        });
        requests.collect()
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
        let leases = self.0.sessions.call_for(by, "held_by", values, read)?;
        let leases = leases.into_iter().collect::<std::result::Result<_, _>>();
        leases.map_err(unreadable)
    }

    fn watch(&self, name: &str, notifier: Notifier) -> Result<Box<dyn Watch>> {
        check_name(name)?;
        if let Source::Polls(every) = self.0.source {
            return durable_queue::internals::poll(&self.0.hub, name, notifier, every);
        }
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

    fn limit(&self, name: &str, limit: &Limit, is_set: bool) -> Result<()> {
        match limit {
            Limit::Groups(rule) => {
                let (mode, most) = values::rule(is_set.then_some(*rule));
                self.call(name, "limit_groups", &[&name, &mode, &most])?;
            }
            Limit::PerKind { kind, most } => {
                let most = is_set.then_some(i64::from(*most));
                self.limit_kind(name, kind, false, most, 0)?;
            }
            Limit::RateOfKind { kind, rate } => {
                let jobs = is_set.then_some(i64::from(rate.jobs()));
                self.limit_kind(name, kind, true, jobs, micros(rate.per()))?;
            }
            _ => return Err(StoreError::new(ErrorKind::Unsupported)),
        }
        self.0.announce(By::Application, name, ANYTHING, true);
        Ok(())
    }

    fn limits(&self, name: &str) -> Result<Vec<Limit>> {
        let rows = self.call(name, "limits", &[&name])?;
        let mut limits = Vec::new();
        for row in &rows {
            limits.extend(values::limits(row).map_err(unreadable)?);
        }
        Ok(limits)
    }

    fn stats(&self, name: &str) -> Result<StoreStats> {
        let rows = self.call(name, "stats", &[&name, &i64::from(COUNT_LIMIT)])?;
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
                due_of_kinds: values::counts(row)?,
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
        let rows = self.call(name, "list", &[&name, &due, &id, &i64::from(most)])?;
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
                kind: row.try_get(8)?,
                options: row.try_get(9)?,
                failures: row.try_get(10)?,
                group: row.try_get(11)?,
            })
        };
        let values: &Values<'_> = &[&name, &after, &i64::from(most)];
        let sessions = &self.0.sessions;
        let dead = sessions.call_for(By::Application, "dead_letters", values, read)?;
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

    fn threads(&self) -> Option<Threads> {
        Some(self.0.threads.clone())
    }

    fn fate(&self, name: &str, id: JobId) -> Result<Fate> {
        let rows = self.call(name, "fate", &[&name, &number(id)])?;
        let fate = rows.first().map(|row| values::fate(row, id));
        fate.unwrap_or(Ok(Fate::Gone)).map_err(unreadable)
    }

    fn delete_done(&self, name: &str, most: u32) -> Result<usize> {
        check_name(name)?;
        let by = self.0.sessions.by_pump(None);
        let values: &Values<'_> = &[&name, &i64::from(most)];
        let rows = self.0.sessions.call(by, "delete_done", values)?;
        let count = one(&rows)?.try_get::<_, i64>(0).map_err(unreadable)?;
        Ok(usize::try_from(count).unwrap_or(0))
    }
}

impl PostgresStore {
    /// Sets the maximum of a kind, or the number of its jobs per span of time. `None` removes it.
    fn limit_kind(
        &self,
        name: &str,
        kind: &str,
        is_rate: bool,
        most: Option<i64>,
        per: i64,
    ) -> Result<()> {
        check_name(kind)?;
        let values: &Values<'_> = &[&name, &kind, &is_rate, &most, &per];
        self.call(name, "limit_kind", values).map(drop)
    }

    /// Returns the number of dead letters that were changed.
    fn count(&self, function: &'static str, name: &str, ids: &[JobId]) -> Result<usize> {
        let ids: Vec<i64> = ids.iter().copied().map(number).collect();
        let rows = self.call(name, function, &[&name, &ids])?;
        let count = one(&rows)?.try_get::<_, i64>(0).map_err(unreadable)?;
        Ok(usize::try_from(count).unwrap_or(0))
    }
}
