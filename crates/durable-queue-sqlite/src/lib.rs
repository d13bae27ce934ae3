//! Jobs in a file of `SQLite`.
//!
//! Not for: a file on a network's file system, whose locks `SQLite` cannot trust; nor for a forked
//! child, if the parent had the same file open before: `SQLite` keeps locks by processes. What was
//! opened before a fork answers [`ErrorKind::Forked`] in the child.
//!
//! A job has less than a billion bytes, payload and key together: the limit of `SQLite` for a row, unless the
//! connection has a lower one. Else it is [`ErrorKind::TooLarge`]. A batch has no limit of its own.
//!
//! Nor for a program that links another `libsqlite3-sys`, of which there is one in a program: rusqlite from 0.32 to 0.43,
//! sqlx 0.8 and 0.9, `SeaORM` 1, and diesel 2.2 and 2.3 go together with this store.
//!
//! # What always holds
//! 1. Every change is one IMMEDIATE transaction, so what it reads stays true until it commits.
//! 2. What a call has answered for has been synced: all but claims, starts and
//!    extensions, which a loss of power may undo. The file stays consistent in any case.
//! 3. No notifier is called with the connection locked.
//! 4. On Unix no call is carried out in a file that is not at its path any more: it is
//!    [`ErrorKind::Unavailable`].

#![forbid(unsafe_code)]

mod claim;
mod place;
mod schema;
mod sql;
mod watch;
#[cfg(target_os = "linux")]
mod writes;
#[cfg(not(target_os = "linux"))]
#[path = "no_writes.rs"]
mod writes;

pub use rusqlite;

use std::path::Path;
use std::sync::{Arc, Weak};
use std::time::Duration;

use durable_queue::internals::{ANYTHING, Own, SharedClock};
use durable_queue::store::{
    Act, COUNT_LIMIT, Claim, DeadJob, EnqueueIn, JobState, Lease, ListedJob, RECALL, Result,
    Settle, Store, StoreStats, Turn, Verdict, Watch, announced,
};
use durable_queue::{
    Cancelled, ErrorKind, JobId, Merge, NewJob, Notifier, Notifiers, Put, Reset, StoreClock,
    StoreError, StoreTime, Token, WallClock, When, Which,
};
use rusqlite::{
    CachedStatement, Connection, ErrorCode, OpenFlags, OptionalExtension, Row, Transaction,
    TransactionBehavior, params,
};
use sync_shim::{Clock as _, Mutex, MutexGuard, Parker};

use self::claim::{claim, read_leases};
use self::place::Place;
use self::watch::FileWatch;
use self::writes::Listening;

/// How long a call waits for another process that writes, if not said.
pub const BUSY_TIMEOUT: Duration = Duration::from_secs(5);
/// Between two tries of what `SQLite` itself does not wait for.
const BUSY_PAUSE: Duration = Duration::from_millis(2);
/// How often a watch looks for what other processes have put in, where the system does not say when
/// a file is written. A look reads one number of the shared memory beside the file.
pub const WATCH_EVERY: Duration = Duration::from_millis(25);
/// Statements that a connection keeps prepared: all there are.
const STATEMENTS: usize = 64;

/// A store in a file, for all processes of one machine. Clones are the same connection.
///
/// The file is put into write-ahead mode. The tables are called `durable_..` and may lie beside
/// those of an application, so that jobs are entered in its own transactions: see [`EnqueueIn`].
#[derive(Clone, Debug)]
pub struct SqliteStore(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    link: Own<Mutex<Link>>,
    clock: Arc<dyn StoreClock>,
    notifiers: Notifiers,
    watching: Watching,
    /// Of all watches together.
    listening: Mutex<Weak<Listening>>,
}

/// How watches learn of what other connections commit.
#[derive(Clone, Copy, Debug)]
enum Watching {
    /// The system says when the log is written; or by looks, where it does not.
    Writes,
    /// By looks.
    Every(Duration),
    Never,
}

#[derive(Debug)]
struct Link {
    connection: Connection,
    place: Place,
    /// Whether commits are synced at present.
    synced: bool,
}

/// How a [`SqliteStore`] is opened. [`SqliteStore::options`] begins one.
#[derive(Clone, Debug)]
#[must_use = "options do nothing until `open` is called"]
pub struct SqliteOptions {
    clock: Arc<dyn StoreClock>,
    busy_timeout: Duration,
    watching: Watching,
}

impl SqliteOptions {
    /// How long a call waits for another process that writes, before it is
    /// [`ErrorKind::Busy`]: [`BUSY_TIMEOUT`] if not said.
    ///
    /// Leases are renewed by such a call. So if another process holds the file's lock for two thirds of a
    /// [lease](durable_queue::Builder::lease) (of the default 10 seconds, for 6.7), or for longer than that, the lease may end
    /// and the job run twice: transactions of the application on this file are to be shorter than that.
    pub fn busy_timeout(mut self, timeout: Duration) -> Self {
        self.busy_timeout = timeout;
        self
    }

    /// Looks this often for what other connections have put in. If not said, the system says when
    /// the file is written, or, where it does not, a look is made each [`WATCH_EVERY`]. `None`: never,
    /// if this is the only connection.
    pub fn watch_every(mut self, period: Option<Duration>) -> Self {
        self.watching = period.map_or(Watching::Never, Watching::Every);
        self
    }

    /// The clock that says what is due; the same for all processes. [`WallClock`] if not said.
    pub fn clock(mut self, clock: impl StoreClock) -> Self {
        self.clock = Arc::new(clock);
        self
    }

    /// Opens the file, makes it if it is not there, and brings its tables to this version.
    ///
    /// # Errors
    /// [`ErrorKind::Newer`] for one that a newer version of this crate has written, and what `SQLite`
    /// says. The path is not shown.
    pub fn open(self, path: impl AsRef<Path>) -> Result<SqliteStore> {
        // Without SQLite's own lock around the connection: there is one here. Paths are no URIs.
        let flags = OpenFlags::SQLITE_OPEN_READ_WRITE
            | OpenFlags::SQLITE_OPEN_CREATE
            | OpenFlags::SQLITE_OPEN_NO_MUTEX;
        let connection = Connection::open_with_flags(path, flags).map_err(failure)?;
        self.adopt(connection)
    }

    /// Takes a connection over, as one that an application has configured.
    ///
    /// # Errors
    /// As [`open`](Self::open).
    pub fn adopt(self, mut connection: Connection) -> Result<SqliteStore> {
        let Self {
            clock,
            busy_timeout,
            watching,
        } = self;
        connection.busy_timeout(busy_timeout).map_err(failure)?;
        connection.set_prepared_statement_cache_capacity(STATEMENTS);
        // A read-only file refuses this, or the migration below.
        write_ahead(&connection, busy_timeout)?;
        connection
            .execute_batch("PRAGMA synchronous = FULL")
            .map_err(failure)?;
        schema::migrate(&mut connection)?;
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
        })))
    }
}

impl SqliteStore {
    /// Begins to say how a file is to be opened.
    pub fn options() -> SqliteOptions {
        SqliteOptions {
            clock: Arc::new(WallClock),
            busy_timeout: BUSY_TIMEOUT,
            watching: Watching::Writes,
        }
    }

    /// Opens a file with all options as they are.
    ///
    /// # Errors
    /// As [`SqliteOptions::open`].
    pub fn open(path: impl AsRef<Path>) -> Result<Self> {
        Self::options().open(path)
    }

    /// Runs a change. Its commit is synced if `synced` says so.
    fn change<R>(
        &self,
        synced: bool,
        change: impl FnOnce(&Transaction<'_>, StoreTime) -> Result<R>,
    ) -> Result<R> {
        let mut link = self.0.link()?;
        if link.synced != synced {
            // In write-ahead mode NORMAL leaves out the sync of a commit, and nothing else. The next
            // FULL one syncs what was left out, for the log is one file.
            let level = if synced { "FULL" } else { "NORMAL" };
            let pragma = format!("PRAGMA synchronous = {level}");
            link.connection.execute_batch(&pragma).map_err(failure)?;
            link.synced = synced;
        }
        let transaction = link
            .connection
            .transaction_with_behavior(TransactionBehavior::Immediate)
            .map_err(failure)?;
        // Once the lock is there: nothing that commits later has an earlier time.
        let result = change(&transaction, self.0.clock.now())?;
        transaction.commit().map_err(lost_commit)?;
        Ok(result)
    }

    /// After a commit, with the connection free.
    fn announce(&self, name: &str, due: StoreTime) {
        if due != StoreTime::NEVER {
            self.0.notifiers.notify(name, due);
        }
    }

    /// Reads, all of one state of the file.
    fn read<R>(&self, read: impl FnOnce(&Transaction<'_>, StoreTime) -> Result<R>) -> Result<R> {
        let mut link = self.0.link()?;
        let transaction = link.connection.transaction().map_err(failure)?;
        read(&transaction, self.0.clock.now())
    }
}

/// Write-ahead mode. `SQLite` does not wait for a lock that is wanted for the change itself, or by who
/// recovers the log of a process that died: it says at once that it is busy.
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

/// What `SQLite` says, in our words.
fn failure(error: rusqlite::Error) -> StoreError {
    let kind = match error.sqlite_error_code() {
        Some(ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked) => ErrorKind::Busy,
        Some(ErrorCode::DiskFull) => ErrorKind::Full,
        Some(ErrorCode::ReadOnly) => ErrorKind::ReadOnly,
        Some(ErrorCode::TooBig) => ErrorKind::TooLarge,
        Some(ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase) => ErrorKind::Corrupt,
        Some(ErrorCode::SystemIoFailure) => ErrorKind::Unavailable,
        _ => ErrorKind::Other,
    };
    StoreError::new(kind).with_source(error)
}

/// A commit that failed for lack of a lock or of space was rolled back. One that failed to sync may
/// have reached the file.
fn lost_commit(error: rusqlite::Error) -> StoreError {
    let error = failure(error);
    match error.kind() {
        ErrorKind::Busy | ErrorKind::Full | ErrorKind::ReadOnly => error,
        kind => StoreError::lost_answer(kind).with_source(error),
    }
}

fn statement<'c>(connection: &'c Connection, text: &str) -> Result<CachedStatement<'c>> {
    connection.prepare_cached(text).map_err(failure)
}

fn execute(connection: &Connection, text: &str, values: impl rusqlite::Params) -> Result<usize> {
    statement(connection, text)?
        .execute(values)
        .map_err(failure)
}

fn find<R>(
    connection: &Connection,
    text: &str,
    values: impl rusqlite::Params,
    read: impl FnOnce(&Row<'_>) -> rusqlite::Result<R>,
) -> Result<Option<R>> {
    let mut statement = statement(connection, text)?;
    statement
        .query_row(values, read)
        .optional()
        .map_err(failure)
}

fn id_of(id: i64) -> JobId {
    JobId::from_u64(id.cast_unsigned())
}

fn number(id: JobId) -> i64 {
    id.as_u64().cast_signed()
}

/// A queue, by its number in the file.
#[derive(Clone, Copy)]
struct Queue {
    id: i64,
    paused: bool,
    /// One job of each key runs at a time.
    serial_keys: bool,
}

fn queue_if_there(connection: &Connection, name: &str) -> Result<Option<Queue>> {
    let read = |row: &Row<'_>| {
        Ok(Queue {
            id: row.get(0)?,
            paused: row.get(1)?,
            serial_keys: row.get(2)?,
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
        serial_keys: false,
    })
}

/// Whether the token of this column is that of a holder which does not ask before it hands out.
fn is_unconfirmed(row: &Row<'_>, column: usize) -> rusqlite::Result<bool> {
    let token: Option<[u8; 16]> = row.get(column)?;
    Ok(token.is_some_and(|bytes| Token::from_bytes(bytes).is_unconfirmed()))
}

/// Enters jobs; answers with what is to be announced: the earliest time that was set, or a recall.
fn enqueue(
    connection: &Connection,
    now: StoreTime,
    name: &str,
    jobs: &[NewJob<'_>],
) -> Result<(Vec<Put>, StoreTime)> {
    let queue = queue(connection, name)?;
    let mut earliest = StoreTime::NEVER;
    let mut puts = Vec::with_capacity(jobs.len());
    for job in jobs {
        let (at, merge) = (job.when.resolve(now), job.policy(now));
        if let Some(put) = reschedule(connection, queue, job, merge, at)? {
            puts.push(put);
            continue;
        }
        let most = job.merge.most(now);
        let read = |row: &Row<'_>| {
            Ok((
                row.get(0)?,
                row.get(1)?,
                row.get(2)?,
                is_unconfirmed(row, 3)?,
            ))
        };
        let pending: Option<(i64, i64, i64, bool)> = match job.key {
            Some(key) => find(connection, sql::PENDING, params![queue.id, key], read)?,
            None => None,
        };
        let (put, at) = match pending {
            None => {
                let at = at.min(most);
                let values = params![
                    queue.id,
                    at.as_micros(),
                    most.as_micros(),
                    job.key,
                    job.payload,
                    job.schedule,
                    job.urgent
                ];
                execute(connection, sql::INSERT, values)?;
                (Put::New(id_of(connection.last_insert_rowid())), at)
            }
            Some((id, old_at, old_most, is_unconfirmed)) => {
                let [old_at, old_most] = [old_at, old_most].map(StoreTime::from_micros);
                match merge.merged(old_at, old_most, at) {
                    None => (Put::Kept(id_of(id)), StoreTime::NEVER),
                    Some(at) => {
                        execute(
                            connection,
                            sql::MERGE,
                            params![id, at.as_micros(), job.payload, job.schedule, job.urgent],
                        )?;
                        (
                            Put::Merged(id_of(id)),
                            if is_unconfirmed { RECALL } else { at },
                        )
                    }
                }
            }
        };
        earliest = earliest.min(at);
        puts.push(put);
    }
    Ok((puts, earliest))
}

/// A push that repeats, of a key whose job repeats and has been started, changes that one.
fn reschedule(
    connection: &Connection,
    queue: Queue,
    job: &NewJob<'_>,
    merge: Merge,
    at: StoreTime,
) -> Result<Option<Put>> {
    let (Some(key), Some(schedule)) = (job.key, job.schedule) else {
        return Ok(None);
    };
    let of_key = params![queue.id, key];
    let found = find(connection, sql::BEGUN_SCHEDULE, of_key, |row| {
        row.get::<_, i64>(0)
    })?;
    let Some(id) = found else { return Ok(None) };
    if merge == Merge::Keep {
        return Ok(Some(Put::Kept(id_of(id))));
    }
    let values = params![id, job.payload, schedule, job.urgent, at.as_micros()];
    execute(connection, sql::RESCHEDULE, values)?;
    Ok(Some(Put::Merged(id_of(id))))
}

/// Settles in order. And whether a job has waited for a key that is free now.
fn settle_all(
    connection: &Connection,
    now: StoreTime,
    queue: Queue,
    settles: &[Settle<'_>],
) -> Result<(Vec<Verdict>, bool)> {
    let mut frees_key = false;
    let mut verdicts = Vec::with_capacity(settles.len());
    for each in settles {
        let key: Option<Vec<u8>> = if queue.serial_keys && each.act.ends_lease() {
            let held = params![number(each.id), each.token.as_bytes()];
            find(connection, sql::KEY_OF, held, |row| row.get(0))?.flatten()
        } else {
            None
        };
        let verdict = settle(connection, now, queue.paused, each)?;
        // The token was valid for a job that has a key, so this is done, or the act wants it started.
        if let Some(key) = key.filter(|_| verdict == Verdict::Done) {
            frees_key |= execute(connection, sql::BRING_BACK, params![queue.id, key])? > 0;
        }
        verdicts.push(verdict);
    }
    Ok((verdicts, frees_key))
}

/// Settles one job.
fn settle(
    connection: &Connection,
    now: StoreTime,
    paused: bool,
    settle: &Settle<'_>,
) -> Result<Verdict> {
    let id = number(settle.id);
    let token = settle.token.as_bytes();
    let held = params![id, token];
    let is_held =
        || Ok::<_, StoreError>(find(connection, sql::IS_HELD, held, |_| Ok(()))?.is_some());
    let changed = match settle.act {
        Act::Start { .. } if paused => 0,
        Act::Start { lease } => {
            let until = now.after(lease).as_micros();
            execute(
                connection,
                sql::START,
                params![id, token, until, now.as_micros()],
            )?
        }
        Act::Extend { lease } => {
            let until = now.after(lease).as_micros();
            execute(connection, sql::EXTEND, params![id, token, until])?
        }
        Act::Ack => execute(connection, sql::DELETE_STARTED, held)?,
        Act::Again { when } => {
            let [at, most] = [when.resolve(now), StoreTime::NEVER].map(StoreTime::as_micros);
            match execute(connection, sql::AGAIN, params![id, token, at, most])? {
                0 => execute(connection, sql::DELETE_STARTED, held)?,
                changed => changed,
            }
        }
        Act::Retry { when } => {
            let at = when.resolve(now).as_micros();
            execute(connection, sql::RETRY, params![id, token, at])?
        }
        Act::Bury { error } | Act::Reject { error } => {
            let begun = matches!(settle.act, Act::Reject { .. });
            let buried = params![id, token, now.as_micros(), error, begun];
            execute(connection, sql::BURY, buried)?;
            execute(connection, sql::DELETE_STARTED, held)?
        }
        Act::Release => execute(connection, sql::RELEASE, held)?,
    };
    if changed != 0 {
        return Ok(Verdict::Done);
    }
    let is_early = matches!(settle.act, Act::Start { .. }) && is_held()?;
    Ok(if is_early {
        Verdict::NotDue
    } else {
        Verdict::Stale
    })
}

fn read_list(
    connection: &Connection,
    now: StoreTime,
    text: &str,
    values: impl rusqlite::Params,
    into: &mut Vec<ListedJob>,
) -> Result<()> {
    let mut statement = statement(connection, text)?;
    let rows = statement.query_map(values, |row| {
        let due = StoreTime::from_micros(row.get(1)?);
        Ok(ListedJob {
            id: id_of(row.get(0)?),
            due,
            at: StoreTime::from_micros(row.get(2)?),
            state: JobState::of(row.get(3)?, row.get(4)?, due, now),
            attempts: row.get(5)?,
            key: row.get(6)?,
            schedule: row.get(7)?,
            urgent: row.get(8)?,
        })
    });
    for job in rows.map_err(failure)? {
        into.push(job.map_err(failure)?);
    }
    Ok(())
}

/// A job that a caller has named.
struct Found {
    id: i64,
    queue: i64,
    /// If the keys of the queue are serial.
    serial_key: Option<Vec<u8>>,
    run: i64,
    /// A handler has it, or may have it: its holder does not ask first.
    taken: bool,
    /// Its holder is to be recalled if it loses it.
    is_unconfirmed: bool,
    attempts: u32,
    payload: Vec<u8>,
}

impl Found {
    /// What is announced once it is taken from its holder, and due at `at`.
    fn announced(&self, at: StoreTime) -> StoreTime {
        if self.is_unconfirmed { RECALL } else { at }
    }
}

/// By a key: the open job of it, or else one that waits, or else one that runs.
fn named(
    connection: &Connection,
    now: StoreTime,
    name: &str,
    which: Which<'_>,
) -> Result<Option<Found>> {
    let Some(queue) = queue_if_there(connection, name)? else {
        return Ok(None);
    };
    let read = |row: &Row<'_>| {
        let (started, due, at): (bool, i64, i64) = (row.get(1)?, row.get(2)?, row.get(5)?);
        let is_unconfirmed = is_unconfirmed(row, 6)?;
        let now = now.as_micros();
        let key: Option<Vec<u8>> = row.get(7)?;
        Ok(Found {
            id: row.get(0)?,
            queue: queue.id,
            serial_key: key.filter(|_| queue.serial_keys),
            run: row.get(8)?,
            taken: (started || is_unconfirmed && at <= now) && due > now,
            is_unconfirmed,
            attempts: row.get(3)?,
            payload: row.get(4)?,
        })
    };
    match which {
        Which::Id(id) => find(connection, sql::BY_ID, params![queue.id, number(id)], read),
        Which::Key(key) => {
            let mut statement = statement(connection, sql::BY_KEY)?;
            let found = statement.query_map(params![queue.id, key], read);
            let found: rusqlite::Result<Vec<Found>> = found.map_err(failure)?.collect();
            // In the order of `run`, so that the open one is the first.
            Ok(found
                .map_err(failure)?
                .into_iter()
                .min_by_key(|it| (it.run != 0, it.taken)))
        }
    }
}

impl Store for SqliteStore {
    fn enqueue(&self, name: &str, jobs: &[NewJob<'_>]) -> Result<Vec<Put>> {
        let (puts, earliest) = self.change(true, |tx, now| enqueue(tx, now, name, jobs))?;
        self.announce(name, earliest);
        Ok(puts)
    }

    fn turn(&self, name: &str, settles: &[Settle<'_>], claims: Option<Claim>) -> Result<Turn> {
        let synced = settles.iter().any(|settle| settle.act.is_durable());
        let (turn, frees_key) = self.change(synced, |tx, now| {
            let queue = queue(tx, name)?;
            let (verdicts, frees_key) = settle_all(tx, now, queue, settles)?;
            let claimed = claims
                .map(|claims| claim(tx, now, queue, &claims))
                .transpose()?;
            let turn = Turn {
                now,
                paused: queue.paused,
                verdicts,
                claimed,
            };
            Ok((turn, frees_key))
        })?;
        self.announce(name, announced(settles, turn.now, frees_key));
        Ok(turn)
    }

    fn cancel(&self, name: &str, which: Which<'_>) -> Result<Cancelled> {
        let never = StoreTime::NEVER;
        let (cancelled, announced) = self.change(true, |tx, now| {
            let found = named(tx, now, name, which)?;
            if let (Which::Key(key), Some(found)) = (which, &found) {
                execute(tx, sql::END_SCHEDULES, params![found.queue, key])?;
            }
            Ok(match found {
                None => (Cancelled::Never, never),
                Some(found) if found.taken => {
                    execute(tx, sql::END_SCHEDULE, [found.id])?;
                    (Cancelled::Taken, never)
                }
                Some(found) => {
                    execute(tx, sql::DELETE, [found.id])?;
                    let frees_key = match &found.serial_key {
                        Some(key) => execute(tx, sql::BRING_BACK, params![found.queue, key])? > 0,
                        None => false,
                    };
                    let announced = found.announced(if frees_key { ANYTHING } else { never });
                    let Found {
                        attempts, payload, ..
                    } = found;
                    (Cancelled::Gone { payload, attempts }, announced)
                }
            })
        })?;
        self.announce(name, announced);
        Ok(cancelled)
    }

    fn reset(&self, name: &str, which: Which<'_>, when: When) -> Result<Reset> {
        let never = StoreTime::NEVER;
        let (reset, announced) = self.change(true, |tx, now| {
            Ok(match named(tx, now, name, which)? {
                None => (Reset::Never, never),
                Some(found) if found.taken => (Reset::Taken, never),
                Some(found) => {
                    let at = when.resolve(now);
                    execute(tx, sql::MOVE, params![found.id, at.as_micros()])?;
                    (Reset::Moved, found.announced(at))
                }
            })
        })?;
        self.announce(name, announced);
        Ok(reset)
    }

    fn held_by(&self, name: &str, token: Token, lease: Duration) -> Result<Vec<Lease>> {
        self.read(|tx, now| {
            let mut leases = Vec::new();
            if let Some(queue) = queue_if_there(tx, name)? {
                let values = params![queue.id, now.after(lease).as_micros(), token.as_bytes()];
                read_leases(tx, sql::HELD_BY, values, token, &mut leases)?;
            }
            Ok(leases)
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

    fn serialize_keys(&self, name: &str, serial: bool) -> Result<()> {
        self.change(true, |tx, _| {
            let queue = queue(tx, name)?;
            execute(tx, sql::SERIALIZE_KEYS, params![queue.id, serial])
        })?;
        Ok(())
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
            let now = now.as_micros();
            Ok(StoreStats {
                jobs: count(sql::COUNT_JOBS, params![queue.id, COUNT_LIMIT])?,
                due: count(sql::COUNT_DUE, params![queue.id, COUNT_LIMIT, now])?,
                dead: count(sql::COUNT_DEAD, params![queue.id, COUNT_LIMIT])?,
                paused: queue.paused,
                serial_keys: queue.serial_keys,
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
            let mut statement = statement(tx, sql::DEAD)?;
            let values = params![queue.id, after.map_or(i64::MIN, number), most];
            let rows = statement.query_map(values, |row| {
                Ok(DeadJob {
                    id: id_of(row.get(0)?),
                    key: row.get(1)?,
                    payload: row.get(2)?,
                    attempts: row.get(3)?,
                    buried: StoreTime::from_micros(row.get(4)?),
                    error: row.get(5)?,
                    schedule: row.get(6)?,
                    urgent: row.get(7)?,
                })
            });
            rows.map_err(failure)?
                .collect::<Result<_, _>>()
                .map_err(failure)
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
}

/// A deferred transaction that reads first may be refused its first write. Begin it as IMMEDIATE.
impl EnqueueIn for SqliteStore {
    type Transaction<'t> = Transaction<'t>;

    fn enqueue_in(
        &self,
        transaction: &mut Transaction<'_>,
        name: &str,
        jobs: &[NewJob<'_>],
    ) -> Result<Vec<Put>> {
        self.0.link.get()?; // In a forked child the store is none.
        // All or none, also if the caller goes on after an error.
        let savepoint = transaction.savepoint().map_err(failure)?;
        let (puts, _) = enqueue(&savepoint, self.0.clock.now(), name, jobs)?;
        savepoint.commit().map_err(failure)?;
        Ok(puts)
    }
}

impl Shared {
    /// The connection, if this is the process that made it. Another one must not so much as look at
    /// it: `SQLite` holds locks and memory by processes.
    fn link(&self) -> Result<MutexGuard<'_, Link>> {
        let link = self.link.get()?.lock();
        link.place.check()?;
        Ok(link)
    }
}

#[cfg(all(test, not(anthill_loom)))]
mod tests;
