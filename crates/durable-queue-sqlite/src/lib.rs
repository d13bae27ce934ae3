//! Stores jobs in a `SQLite` file.
//!
//! Not for:
//! - files on a network file system, where `SQLite`'s locks are not reliable;
//! - forked children, if the parent had the same file open before: `SQLite`'s locks belong to processes.
//!   Stores opened before a fork return [`ErrorKind::Forked`] in the child;
//! - programs that link another version of `libsqlite3-sys`. Compatible clients: rusqlite 0.32 to 0.43, sqlx
//!   0.8 and 0.9, `SeaORM` 1, diesel 2.2 and 2.3.
//!
//! A job has less than a billion bytes, payload and key together: `SQLite`'s limit of a row, unless the
//! connection has a lower one. Larger jobs fail with [`ErrorKind::TooLarge`]. Batches have no further limit.
//!
//! # Guarantees
//! 1. Every change is one IMMEDIATE transaction, so data that it reads do not change until it commits.
//! 2. All answered calls are synced, except claims, starts, extensions and releases, which a power failure may
//!    undo. The file stays consistent in any case.
//! 3. No notifier is called while the connection is locked.
//! 4. On Unix, calls fail with [`ErrorKind::Unavailable`] while the file is not at its path.

#![forbid(unsafe_code)]

mod candidates;
mod claim;
mod enqueue;
mod groups;
mod kinds;
mod limits;
mod place;
mod push_in;
mod schema;
mod settle;
mod sql;
#[cfg(feature = "sqlx")]
mod sqlx;
mod statements;
mod watch;
#[cfg(target_os = "linux")]
mod writes;
#[cfg(not(target_os = "linux"))]
#[path = "no_writes.rs"]
mod writes;

pub use rusqlite;

pub use self::push_in::Prepared;

use std::path::Path;
use std::sync::{Arc, Weak};
use std::time::Duration;

use durable_queue::internals::{ANYTHING, Own, SharedClock};
use durable_queue::store::{
    CANCEL_REQUEST_LIMIT, COUNT_LIMIT, Claim, DeadJob, DoneJob, Fate, JobState, Lease, ListedJob,
    RECALL, Result, Settle, Store, StoreStats, Turn, Watch, announced,
};
use durable_queue::{
    Cancelled, ErrorKind, JobId, Limit, NewJob, Notifier, Notifiers, Put, Reset, StoreClock,
    StoreError, StoreTime, Threads, Token, WallClock, When, Which,
};
use rusqlite::{Connection, OpenFlags, Row, params};
use sync_shim::{Clock as _, Mutex, MutexGuard, Parker};

use self::candidates::lease_of;
use self::claim::claim;
use self::enqueue::enqueue;
use self::groups::{Rule, leave};
use self::kinds::due_of_kinds;
use self::limits::call_parked;
use self::place::Place;
use self::settle::settle_all;
use self::statements::{Transaction, all, append, execute, failure, find, id_of, number};
use self::watch::FileWatch;
use self::writes::Listening;

/// Default time for which a call waits for another writer.
pub const BUSY_TIMEOUT: Duration = Duration::from_secs(5);
/// Pause between retries of statements for which `SQLite` does not wait itself.
const BUSY_PAUSE: Duration = Duration::from_millis(2);
/// Default interval at which a watch polls for changes by other processes, on systems without file
/// notifications. A poll reads one number in shared memory.
pub const WATCH_EVERY: Duration = Duration::from_millis(25);
/// Number of prepared statements cached per connection: enough for all.
const STATEMENTS: usize = 96;

/// A store in a file, for all processes of one machine. Clones share the connection.
///
/// The file uses write-ahead mode. The tables are called `durable_..` and may be in the application's own
/// file, so that jobs can be pushed in its transactions: see
/// [`push_in`](durable_queue::DurableQueue::push_in).
#[derive(Clone, Debug)]
pub struct SqliteStore(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    link: Own<Mutex<Link>>,
    clock: Arc<dyn StoreClock>,
    notifiers: Notifiers,
    watching: Watching,
    /// Shared by all watches.
    listening: Mutex<Weak<Listening>>,
    threads: Threads,
}

/// How watches learn about commits of other connections.
#[derive(Clone, Copy, Debug)]
enum Watching {
    /// By file notifications of the system, or by polling where there are none.
    Writes,
    /// By polling.
    Every(Duration),
    Never,
}

#[derive(Debug)]
struct Link {
    connection: Connection,
    place: Place,
    /// Whether commits are currently synced.
    synced: bool,
}

/// Options for opening a [`SqliteStore`]. Created by [`SqliteStore::options`].
#[derive(Clone, Debug)]
#[must_use = "options do nothing until `open` is called"]
pub struct SqliteOptions {
    clock: Arc<dyn StoreClock>,
    busy_timeout: Duration,
    watching: Watching,
}

impl SqliteOptions {
    /// Sets how long a call waits for another writer before it fails with [`ErrorKind::Busy`]. Default:
    /// [`BUSY_TIMEOUT`].
    ///
    /// Renewals of leases wait, too. If another connection holds the file's lock for two thirds of a
    /// [lease](durable_queue::Builder::lease) (by default for 6.7 of 10 seconds) or longer, the lease may
    /// expire and the job may run twice. The application's transactions on the file must be shorter.
    pub fn busy_timeout(mut self, timeout: Duration) -> Self {
        self.busy_timeout = timeout;
        self
    }

    /// Sets the interval at which the store polls for changes by other connections. Default: file
    /// notifications of the system or, where there are none, [`WATCH_EVERY`]. `None` disables polling and is
    /// correct only if this is the only connection.
    pub fn watch_every(mut self, period: Option<Duration>) -> Self {
        self.watching = period.map_or(Watching::Never, Watching::Every);
        self
    }

    /// Sets the clock that decides which jobs are due. All processes must use the same. Default:
    /// [`WallClock`].
    pub fn clock(mut self, clock: impl StoreClock) -> Self {
        self.clock = Arc::new(clock);
        self
    }

    /// Opens the file, and creates it, or its tables, if they do not exist.
    ///
    /// # Errors
    /// [`ErrorKind::Newer`] if a newer version of this crate has written the file, and `SQLite`'s errors.
    /// They do not contain the path.
    pub fn open(self, path: impl AsRef<Path>) -> Result<SqliteStore> {
        // SQLite's own mutex is not needed, because the connection is in one. Paths are not URIs.
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE
            | OpenFlags::SQLITE_OPEN_CREATE
            | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let connection = Connection::open_with_flags(path, flags).map_err(failure)?;
        self.adopt(connection)
    }

    /// Uses an open connection, for example one that the application has configured.
    ///
    /// # Errors
    /// Like [`open`](Self::open).
    pub fn adopt(self, mut connection: Connection) -> Result<SqliteStore> {
        let Self {
            clock,
            busy_timeout,
            watching,
        } = self;
        connection.busy_timeout(busy_timeout).map_err(failure)?;
        connection.set_prepared_statement_cache_capacity(STATEMENTS);
        // Fails on a read-only file, here or when tables are created below.
        write_ahead(&connection, busy_timeout)?;
        connection
            .execute_batch("PRAGMA synchronous = FULL")
            .map_err(failure)?;
        schema::create(&mut connection)?;
        Ok(SqliteStore(Arc::new(Shared {
            link: Own::new(Mutex::new(Link {
                place: Place::of(&connection),
                connection,
                synced: true,
            })),
            clock,
            notifiers: Notifiers::new(),
            watching,
            listening: Mutex::new(Weak::new()),
            threads: Threads::new(),
        })))
    }
}

impl SqliteStore {
    /// Returns the default options.
    pub fn options() -> SqliteOptions {
        SqliteOptions {
            clock: Arc::new(WallClock),
            busy_timeout: BUSY_TIMEOUT,
            watching: Watching::Writes,
        }
    }

    /// Opens a file with the default options.
    ///
    /// # Errors
    /// Like [`SqliteOptions::open`].
    pub fn open(path: impl AsRef<Path>) -> Result<Self> {
        Self::options().open(path)
    }

    /// Runs a change in a transaction, whose commit is synced if `synced` is true.
    fn change<R>(
        &self,
        synced: bool,
        change: impl FnOnce(&Connection, StoreTime) -> Result<R>,
    ) -> Result<R> {
        let mut link = self.0.link()?;
        if link.synced != synced {
            // In write-ahead mode, NORMAL only omits the sync of the commit. The next FULL commit also syncs
            // earlier ones, because the log is a single file.
            let level = if synced { "FULL" } else { "NORMAL" };
            let pragma = format!("PRAGMA synchronous = {level}");
            link.connection.execute_batch(&pragma).map_err(failure)?;
            link.synced = synced;
        }
        let transaction = Transaction::begin(&link.connection, sql::BEGIN_CHANGE)?;
        // Read under the lock, so that later commits have later times.
        let result = change(transaction.0, self.0.clock.now())?;
        transaction.commit()?;
        Ok(result)
    }

    /// Called after a commit, with the connection unlocked.
    fn announce(&self, name: &str, due: StoreTime) {
        if due != StoreTime::NEVER {
            self.0.notifiers.notify(name, due);
        }
    }

    /// Runs a read on a consistent snapshot.
    fn read<R>(&self, read: impl FnOnce(&Connection, StoreTime) -> Result<R>) -> Result<R> {
        let link = self.0.link()?;
        let transaction = Transaction::begin(&link.connection, sql::BEGIN_READ)?;
        read(transaction.0, self.0.clock.now())
    }
}

/// Enables write-ahead mode. `SQLite` does not wait for locks needed by the switch itself, or by the recovery
/// of a dead process's log: it reports busy at once.
fn write_ahead(connection: &Connection, limit: Duration) -> Result<()> {
    let (clock, parker) = (SharedClock::default(), Parker::new());
    let begin = clock.now();
    loop {
        let mode = connection.query_row("PRAGMA journal_mode = WAL", [], |_| Ok(()));
        match mode.map_err(failure) {
            Err(error) if error.kind() == ErrorKind::Busy && clock.now() - begin < limit => {
                clock.park_until(&parker, clock.now() + BUSY_PAUSE);
            }
            mode => return mode,
        }
    }
}

/// A queue, identified by its row id.
#[derive(Clone, Copy)]
struct Queue {
    id: i64,
    paused: bool,
    /// Whether kinds have limits.
    has_limits: bool,
    rule: Rule,
}

fn queue_if_there(connection: &Connection, name: &str) -> Result<Option<Queue>> {
    let read = |row: &Row<'_>| {
        Ok(Queue {
            id: row.get(0)?,
            paused: row.get(1)?,
            has_limits: row.get(2)?,
            rule: Rule::new(row.get(3)?, row.get(4)?, row.get(5)?),
        })
    };
    find(connection, sql::QUEUE, [name], read)
}

fn queue(connection: &Connection, name: &str) -> Result<Queue> {
    if let Some(queue) = queue_if_there(connection, name)? {
        return Ok(queue);
    }
    execute(connection, sql::ADD_QUEUE, [name])?;
    Ok(Queue {
        id: connection.last_insert_rowid(),
        paused: false,
        has_limits: false,
        rule: Rule::NONE,
    })
}

/// Returns the token in this column, if the job is held.
fn token(row: &Row<'_>, column: usize) -> rusqlite::Result<Option<Token>> {
    let bytes: Option<[u8; 16]> = row.get(column)?;
    Ok(bytes.map(Token::from_bytes))
}

fn read_list(
    connection: &Connection,
    now: StoreTime,
    text: &str,
    values: impl rusqlite::Params,
    into: &mut Vec<ListedJob>,
) -> Result<()> {
    let read = |row: &Row<'_>| {
        let [due, at] = [row.get(1)?, row.get(2)?].map(StoreTime::from_micros);
        let attempts = row.get(5)?;
        Ok(ListedJob {
            id: id_of(row.get(0)?),
            due,
            at,
            state: JobState::of(row.get(3)?, row.get(4)?, due, at, attempts, now),
            attempts,
            key: row.get(6)?,
            group: row.get(12)?,
            schedule: row.get(7)?,
            urgent: row.get(8)?,
            kind: row.get(9)?,
            failures: row.get(10)?,
            cancelled: row.get(11)?,
        })
    };
    append(connection, text, values, read, into)
}

/// The job that a caller has identified.
struct Found {
    id: i64,
    queue: Queue,
    run: i64,
    /// A handler has it, or may have it because its holder does not confirm starts.
    taken: bool,
    /// Its holder must be recalled if the job is taken from it.
    is_unconfirmed: bool,
    attempts: u32,
    payload: Vec<u8>,
}

impl Found {
    /// Returns the announced time when the job is taken from its holder and becomes due at `at`.
    fn announced(&self, at: StoreTime) -> StoreTime {
        if self.is_unconfirmed { RECALL } else { at }
    }
}

/// By key: all jobs of the key, first the open job, or else one that waits for its next attempt, or else a
/// running one.
fn named(
    connection: &Connection,
    now: StoreTime,
    name: &str,
    which: Which<'_>,
) -> Result<Vec<Found>> {
    let Some(queue) = queue_if_there(connection, name)? else {
        return Ok(Vec::new());
    };
    let read = |row: &Row<'_>| {
        let (started, due, at): (bool, i64, i64) = (row.get(1)?, row.get(2)?, row.get(5)?);
        let is_unconfirmed = token(row, 6)?.is_some_and(|token| token.is_unconfirmed());
        let now = now.as_micros();
        Ok(Found {
            id: row.get(0)?,
            queue,
            run: row.get(7)?,
            taken: (started || is_unconfirmed && at <= now) && due > now,
            is_unconfirmed,
            attempts: row.get(3)?,
            payload: row.get(4)?,
        })
    };
    let found = match which {
        Which::Id(id) => all(connection, sql::BY_ID, params![queue.id, number(id)], read),
        Which::Key(key) => all(connection, sql::BY_KEY, params![queue.id, key], read),
    };
    // Stable: `BY_KEY` is ordered by `run`.
    found.map(|mut found| {
        found.sort_by_key(|it| (it.run != 0, it.taken));
        found
    })
}

impl Store for SqliteStore {
    fn enqueue(&self, name: &str, jobs: &[NewJob<'_>]) -> Result<Vec<Put>> {
        let (puts, earliest) = self.change(true, |tx, now| enqueue(tx, now, name, jobs))?;
        self.announce(name, earliest);
        Ok(puts)
    }

    fn turn(&self, name: &str, settles: &[Settle<'_>], claims: Option<Claim<'_>>) -> Result<Turn> {
        let synced = settles.iter().any(|settle| settle.act.is_durable());
        let (turn, calls) = self.change(synced, |tx, now| {
            let queue = queue(tx, name)?;
            let (verdicts, calls) = settle_all(tx, now, queue, settles)?;
            let claimed = claims
                .map(|claims| claim(tx, now, queue, &claims))
                .transpose()?;
            let (claimed, calls_others) = claimed.unzip();
            let calls = calls || calls_others == Some(true);
            let turn = Turn {
                now,
                paused: queue.paused,
                verdicts,
                claimed,
            };
            Ok((turn, calls))
        })?;
        self.announce(name, announced(settles, turn.now, calls));
        Ok(turn)
    }

    fn cancel(&self, name: &str, which: Which<'_>) -> Result<Cancelled> {
        let never = StoreTime::NEVER;
        let (cancelled, announced) = self.change(true, |tx, now| {
            let found = named(tx, now, name, which)?;
            let mut announced = never;
            for taken in found.iter().filter(|it| it.taken) {
                execute(tx, sql::MARK, [taken.id])?;
                announced = RECALL;
            }
            let Some(first) = found.into_iter().next() else {
                return Ok((Cancelled::Never, never));
            };
            if let Which::Key(key) = which {
                execute(tx, sql::END_SCHEDULES, params![first.queue.id, key])?;
            }
            if first.taken {
                return Ok((Cancelled::Taken, announced));
            }
            let leaves = leave(tx, first.queue, first.id)?;
            execute(tx, sql::DELETE, [first.id])?;
            let calls = call_parked(tx, now, first.queue)?;
            let calls = if calls { ANYTHING } else { leaves };
            announced = announced.min(first.announced(calls));
            let Found {
                attempts, payload, ..
            } = first;
            Ok((Cancelled::Gone { payload, attempts }, announced))
        })?;
        self.announce(name, announced);
        Ok(cancelled)
    }

    fn cancel_requests(&self, name: &str) -> Result<Vec<(JobId, Token)>> {
        self.read(|tx, _| {
            let Some(queue) = queue_if_there(tx, name)? else {
                return Ok(Vec::new());
            };
            let values = params![queue.id, CANCEL_REQUEST_LIMIT];
            all(tx, sql::CANCEL_REQUESTS, values, |row| {
                Ok((id_of(row.get(0)?), Token::from_bytes(row.get(1)?)))
            })
        })
    }

    fn reset(&self, name: &str, which: Which<'_>, when: When) -> Result<Reset> {
        let never = StoreTime::NEVER;
        let (reset, announced) = self.change(true, |tx, now| {
            Ok(match named(tx, now, name, which)?.into_iter().next() {
                None => (Reset::Never, never),
                Some(found) if found.taken => (Reset::Taken, never),
                Some(found) => {
                    let at = when.resolve(now);
                    let leaves = leave(tx, found.queue, found.id)?;
                    execute(tx, sql::MOVE, params![found.id, at.as_micros()])?;
                    let announced = found.announced(at).min(leaves);
                    if call_parked(tx, now, found.queue)? {
                        (Reset::Moved, announced.min(ANYTHING))
                    } else {
                        (Reset::Moved, announced)
                    }
                }
            })
        })?;
        self.announce(name, announced);
        Ok(reset)
    }

    fn held_by(&self, name: &str, token: Token, lease: Duration) -> Result<Vec<Lease>> {
        self.read(|tx, now| {
            let Some(queue) = queue_if_there(tx, name)? else {
                return Ok(Vec::new());
            };
            let values = params![queue.id, now.after(lease).as_micros(), token.as_bytes()];
            all(tx, sql::HELD_BY, values, |row| lease_of(row, token))
        })
    }

    fn watch(&self, name: &str, notifier: Notifier) -> Result<Box<dyn Watch>> {
        FileWatch::new(self, name, notifier).map(|watch| Box::new(watch) as _)
    }

    fn pause(&self, name: &str, paused: bool) -> Result<()> {
        self.change(true, |tx, _| {
            let queue = queue(tx, name)?;
            execute(tx, sql::PAUSE, params![queue.id, paused])
        })?;
        self.announce(name, ANYTHING);
        Ok(())
    }

    fn limit(&self, name: &str, limit: &Limit, is_set: bool) -> Result<()> {
        self.change(true, |tx, now| {
            let queue = queue(tx, name)?;
            limits::set(tx, now, queue, limit, is_set)
        })?;
        self.announce(name, ANYTHING);
        Ok(())
    }

    fn limits(&self, name: &str) -> Result<Vec<Limit>> {
        self.read(|tx, _| match queue_if_there(tx, name)? {
            Some(queue) => limits::list(tx, queue),
            None => Ok(Vec::new()),
        })
    }

    fn stats(&self, name: &str) -> Result<StoreStats> {
        self.read(|tx, now| {
            let Some(queue) = queue_if_there(tx, name)? else {
                return Ok(StoreStats::default());
            };
            let count = |text, values: &[&dyn rusqlite::ToSql]| {
                let found = find(tx, text, values, |row| row.get(0))?;
                Ok::<u32, StoreError>(found.unwrap_or(0))
            };
            let due = params![queue.id, COUNT_LIMIT, now.as_micros()];
            Ok(StoreStats {
                jobs: count(sql::COUNT_JOBS, params![queue.id, COUNT_LIMIT])?,
                due: count(sql::COUNT_DUE, due)?,
                dead: count(sql::COUNT_DEAD, params![queue.id, COUNT_LIMIT])?,
                due_of_kinds: due_of_kinds(tx, now, queue)?,
                paused: queue.paused,
            })
        })
    }

    fn list(
        &self,
        name: &str,
        after: Option<(StoreTime, JobId)>,
        most: u32,
    ) -> Result<Vec<ListedJob>> {
        self.read(|tx, now| {
            let Some(queue) = queue_if_there(tx, name)? else {
                return Ok(Vec::new());
            };
            let (due, id) = after.map_or((i64::MIN, i64::MIN), |(due, id)| {
                (due.as_micros(), number(id))
            });
            let mut jobs = Vec::new();
            let of_moment = params![queue.id, due, id, most];
            read_list(tx, now, sql::LIST_OF_MOMENT, of_moment, &mut jobs)?;
            let rest = most - u32::try_from(jobs.len()).unwrap_or(most);
            read_list(
                tx,
                now,
                sql::LIST_AFTER,
                params![queue.id, due, rest],
                &mut jobs,
            )?;
            Ok(jobs)
        })
    }

    fn dead(&self, name: &str, after: Option<JobId>, most: u32) -> Result<Vec<DeadJob>> {
        self.read(|tx, _| {
            let Some(queue) = queue_if_there(tx, name)? else {
                return Ok(Vec::new());
            };
            let values = params![queue.id, after.map_or(i64::MIN, number), most];
            all(tx, sql::DEAD, values, |row| {
                Ok(DeadJob {
                    id: id_of(row.get(0)?),
                    key: row.get(1)?,
                    payload: row.get(2)?,
                    attempts: row.get(3)?,
                    buried: StoreTime::from_micros(row.get(4)?),
                    error: row.get(5)?,
                    schedule: row.get(6)?,
                    urgent: row.get(7)?,
                    kind: row.get(8)?,
                    options: row.get(9)?,
                    failures: row.get(10)?,
                    group: row.get(11)?,
                })
            })
        })
    }

    fn redrive(&self, name: &str, ids: &[JobId]) -> Result<usize> {
        let count = self.change(true, |tx, now| {
            let queue = queue(tx, name)?;
            let mut count = 0;
            for id in ids {
                let id = number(*id);
                let never = StoreTime::NEVER.as_micros();
                let values = params![queue.id, id, now.as_micros(), never];
                if execute(tx, sql::REDRIVE, values)? != 0 {
                    execute(tx, sql::DELETE_DEAD, params![queue.id, id])?;
                    count += 1;
                }
            }
            Ok(count)
        })?;
        if count > 0 {
            self.announce(name, ANYTHING);
        }
        Ok(count)
    }

    fn delete_dead(&self, name: &str, ids: &[JobId]) -> Result<usize> {
        self.change(true, |tx, _| {
            let queue = queue(tx, name)?;
            let deleted = ids
                .iter()
                .map(|id| execute(tx, sql::DELETE_DEAD, params![queue.id, number(*id)]));
            deleted.sum()
        })
    }

    fn threads(&self) -> Option<Threads> {
        Some(self.0.threads.clone())
    }

    fn fate(&self, name: &str, id: JobId) -> Result<Fate> {
        self.read(|tx, now| {
            let Some(queue) = queue_if_there(tx, name)? else {
                return Ok(Fate::Gone);
            };
            let values = params![queue.id, number(id)];
            if find(tx, sql::IS_OPEN, values, |_| Ok(()))?.is_some() {
                return Ok(Fate::Open);
            }
            if let Some(error) = find(tx, sql::ERROR_OF, values, |row| row.get(0))? {
                return Ok(Fate::Dead { error });
            }
            let values = params![queue.id, number(id), now.as_micros()];
            let done = find(tx, sql::DONE, values, |row| {
                let took: i64 = row.get(4)?;
                Ok(DoneJob {
                    id,
                    key: row.get(0)?,
                    kind: row.get(1)?,
                    attempts: row.get(2)?,
                    finished: StoreTime::from_micros(row.get(3)?),
                    took: Duration::from_micros(took.unsigned_abs()),
                    until: StoreTime::from_micros(row.get(5)?),
                    result: row.get(6)?,
                })
            })?;
            Ok(done.map_or(Fate::Gone, Fate::Done))
        })
    }

    fn delete_done(&self, name: &str, most: u32) -> Result<usize> {
        // Not synced: rows that a power failure brings back are deleted again.
        self.change(false, |tx, now| {
            let Some(queue) = queue_if_there(tx, name)? else {
                return Ok(0);
            };
            let values = params![queue.id, now.as_micros(), most];
            execute(tx, sql::DELETE_DONE, values)
        })
    }
}

impl Shared {
    /// Locks the connection. Fails in a forked child, which must not access it: `SQLite`'s locks and memory
    /// belong to processes.
    fn link(&self) -> Result<MutexGuard<'_, Link>> {
        let link = self.link.get()?.lock();
        link.place.check()?;
        Ok(link)
    }
}

#[cfg(all(test, not(anthill_loom)))]
mod tests;
