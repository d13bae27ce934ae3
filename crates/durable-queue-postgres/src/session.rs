//! Sessions: how they start, who uses them, and when they end.
//!
//! # Invariants
//! 1. A call is repeated only if the server has reported that it was undone.
//! 2. A session that failed is not used again; the next call starts a new one.
//! 3. Starting a session ends within a time limit.
//! 4. After [`Sessions::end_lost`], no turn whose response was lost is in progress, unless the role may not
//!    terminate its sessions, or shares them with other clients through a pooler. Jobs that such a turn claims
//!    later are handed out when their leases end.
//! 5. A forked child neither uses nor closes the sessions.
//! 6. After a session has failed, others are checked before their next use, because the cause may have
//!    affected all.
//! 7. After a session has met a read-only database, it is discarded, as are all sessions that started before:
//!    the address may now lead to another server.
//! 8. A pump's call never waits for a call of the application, and ends before the lease would.

use std::collections::BTreeMap;
use std::fmt;
use std::future::poll_fn;
use std::pin::pin;
use std::sync::Arc;
use std::time::{Duration, Instant};

use durable_queue::internals::{Caller, SharedClock, Slots};
use durable_queue::store::{Result, call_limit};
use durable_queue::{ErrorKind, StoreError};
use futures_core::Stream as _;
use postgres::Row;
use postgres::types::ToSql;
use sync_shim::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};
use sync_shim::{Clock, Mutex};
use tokio_postgres::{Config, Statement};

use super::driver::{Connect, Driver, Limit, Link};
use super::failure::{
    bad_isolation, failure, failure_of_commit, is_conflict, is_over, is_read_only, no_session,
    pooled,
};
use super::schema::{PUSH_ONE, Schema, TURN, parameter_types};
use super::unreadable;

/// Parameters of a call.
pub(super) type Values<'a> = [&'a (dyn ToSql + Sync)];

/// A session idle for this long is checked before its next use. If the server has closed it, a call could not
/// tell whether it was carried out.
const IDLE: Duration = Duration::from_secs(1);
const IDLE_ANSWER: Duration = Duration::from_secs(5);
/// Maximum number of sessions to remember for termination.
const MOST_LOST: usize = 64;
/// Number of attempts of a call that concurrent calls undo.
const TRIES: usize = 5;

const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// Time after which a silent server is given up. The system's default is hours.
const SILENCE: Duration = Duration::from_secs(15);

/// A pump's call waits for locks for this fraction of its [limit](call_limit), so that the server reports
/// that the call was undone.
const PART_FOR_LOCKS: u32 = 2;

/// Statements use indexes whatever the statistics, so a plan made for empty tables also serves full ones.
const PLANNER: [(&str, &str); 7] = [
    ("plan_cache_mode", "force_generic_plan"),
    ("jit", "off"),
    ("enable_seqscan", "off"),
    ("enable_bitmapscan", "off"),
    ("enable_hashjoin", "off"),
    ("enable_mergejoin", "off"),
    ("enable_sort", "off"),
];

/// Statements that set up a session. Each of its statements sees all earlier commits.
fn settings() -> String {
    let planner = PLANNER.map(|(name, value)| format!("SET {name} = {value};"));
    format!(
        "SET default_transaction_isolation = 'read committed';
        {}
        SET client_min_messages = error;
        SELECT set_config('synchronous_commit', 'on', false)
            WHERE current_setting('synchronous_commit') = 'off'",
        planner.concat()
    )
}

/// Like [`settings`], for one transaction, as columns of a query. Behind a pooler the next transaction may be
/// another client's, or run on another connection of the server.
fn local_settings(lock_timeout: Duration) -> String {
    let timeout = millis(lock_timeout);
    let planner = PLANNER.map(|(name, value)| format!("set_config('{name}', '{value}', true),"));
    format!(
        "set_config('lock_timeout', '{timeout}', true),
        {}
        CASE WHEN current_setting('synchronous_commit') = 'off'
            THEN set_config('synchronous_commit', 'on', true) END",
        planner.concat()
    )
}

const ISOLATION: &str = "SELECT FROM (SELECT) one
    WHERE current_setting('transaction_isolation') = 'read committed'";

/// Also returns the session's server process.
const LOCK_TIMEOUT: &str = "SELECT set_config('lock_timeout', $1, false), pid,
        (extract(epoch FROM backend_start) * 1000000)::bigint
    FROM pg_stat_get_activity(pg_backend_pid())";

const NUMBER: &str = "SELECT pg_backend_pid()";

/// Returns whether the process has ended. No row means that it ended earlier.
const END: &str = "SELECT pg_terminate_backend(pid, $3) FROM pg_stat_get_activity($1)
    WHERE (extract(epoch FROM backend_start) * 1000000)::bigint = $2";

/// Returns the transactions that have ended, and whether they are committed. The server forgets old ones.
const ENDED: &str = "SELECT i.number, s.status IS DISTINCT FROM 'aborted'
    FROM unnest($1::bigint[]) AS i(number), LATERAL pg_xact_status(i.number::text::xid8) AS s(status)
    WHERE s.status IS DISTINCT FROM 'in progress'";

/// A server process: its pid and its start time in microseconds, because pids are reused.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct Process {
    number: i32,
    begun: i64,
}

/// A session, and its process, if the role may see it.
pub(super) type Begun = (Link, Option<Process>);

/// Starts sessions.
#[derive(Clone)]
pub(super) struct Connector {
    pub(super) config: Config,
    pub(super) connect: Arc<Connect>,
    pub(super) busy_timeout: Duration,
    /// Whether sessions may lead through a pooler in transaction mode. They have no settings, no prepared
    /// statements and no process of their own.
    pub(super) is_pooled: bool,
}

/// Omits the address, which is confidential.
impl fmt::Debug for Connector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Connector(..)")
    }
}

impl Connector {
    /// Sets the defaults of options that the caller has not set.
    pub(super) fn set_defaults(&mut self) {
        let config = &mut self.config;
        if config.get_connect_timeout().is_none() {
            config.connect_timeout(CONNECT_TIMEOUT);
        }
        if config.get_tcp_user_timeout().is_none() {
            config.tcp_user_timeout(SILENCE);
        }
        if config.get_keepalives_interval().is_none() {
            config
                .keepalives_idle(SILENCE / 3)
                .keepalives_interval(SILENCE / 3);
            config.keepalives_retries(2);
        }
        if config.get_application_name().is_none() {
            config.application_name("durable-queue");
        }
    }

    /// Starts a session within its limit, or by `until`.
    pub(super) fn begin(
        &self,
        driver: &Driver,
        clock: &SharedClock,
        until: Option<Instant>,
    ) -> Result<Begun> {
        let now = clock.now();
        let limit = now + self.limit();
        let limit = until.map_or(limit, |until| until.min(limit));
        let wait = limit.saturating_duration_since(now);
        let mut link = driver.connect(&*self.connect, self.config.clone(), wait)?;
        if self.is_pooled {
            return Ok((link, None));
        }
        let millis = millis(self.busy_timeout);
        let process = link.call(Limit::until(Some(limit)), async |client| {
            client.batch_execute(&settings()).await?;
            let row = client.query_one(LOCK_TIMEOUT, &[&millis]).await?;
            let (number, begun): (_, Option<i64>) = (row.try_get(1)?, row.try_get(2)?);
            Ok(begun.map(|begun| Process { number, begun }))
        });
        let process = process.ok_or(StoreError::new(ErrorKind::Unavailable))?;
        Ok((link, process.map_err(|error| no_session(&error))?))
    }

    /// Checks that each of two sessions has its own server process. A pooler in transaction mode would have
    /// both share one while neither is in a transaction, or move one of them while the other is.
    ///
    /// # Errors
    /// The error of a pooler.
    pub(super) fn check_pooler(
        &self,
        driver: &Driver,
        clock: &SharedClock,
        first: &mut Begun,
    ) -> Result<()> {
        // A role may be limited to one connection, which suffices for pushes.
        let Ok((mut other, process)) = self.begin(driver, clock, None) else {
            return Ok(());
        };
        let (link, known) = first;
        if process.is_some() && process == *known {
            return Err(pooled());
        }
        let limit = Limit::until(Some(clock.now() + self.limit()));
        let begun = other.call(limit, async |client| {
            client.batch_execute("BEGIN; SELECT").await
        });
        let number = link.call(limit, async |client| {
            client.query_one(NUMBER, &[]).await?.try_get(0)
        });
        let answers = begun
            .zip(number)
            .ok_or(StoreError::new(ErrorKind::Unavailable))?;
        let number: i32 = answers
            .0
            .and(answers.1)
            .map_err(|error| no_session(&error))?;
        match known {
            Some(known) if known.number != number => Err(pooled()),
            _ => Ok(()),
        }
    }

    /// Checks that transactions see all earlier commits, which a statement cannot set for its own.
    ///
    /// # Errors
    /// The server's error, or that of another isolation.
    pub(super) fn check_isolation(&self, clock: &SharedClock, link: &mut Link) -> Result<()> {
        let limit = Limit::until(Some(clock.now() + self.limit()));
        let answer = link.call(limit, async |client| {
            client.query_typed(ISOLATION, &[]).await
        });
        let answer = answer.ok_or(StoreError::new(ErrorKind::Unavailable))?;
        let rows = answer.map_err(|error| no_session(&error))?;
        rows.first().map(drop).ok_or_else(bad_isolation)
    }

    /// Time limit for starting a session: connecting to any host, and the responses.
    fn limit(&self) -> Duration {
        let config = &self.config;
        let connect = config.get_connect_timeout().copied();
        let answers = config.get_tcp_user_timeout().copied();
        let hosts = u32::try_from(config.get_hosts().len().max(1)).unwrap_or(u32::MAX);
        connect
            .unwrap_or(CONNECT_TIMEOUT)
            .saturating_mul(hosts)
            .saturating_add(answers.unwrap_or(SILENCE))
    }
}

/// Formats a duration for the server.
fn millis(span: Duration) -> String {
    span.as_millis().clamp(1, i32::MAX as u128).to_string()
}

/// The origin of a call.
#[derive(Clone, Copy)]
pub(super) enum By {
    Application,
    /// Ends at `until`, unless bytes continue to arrive with pauses of up to `silence`.
    Pump {
        patience: Option<Duration>,
        until: Option<Instant>,
    },
}

impl By {
    fn until(self) -> Option<Instant> {
        match self {
            Self::Application => None,
            Self::Pump { until, .. } => until,
        }
    }

    fn limit(self) -> Limit {
        match self {
            Self::Application => Limit::default(),
            Self::Pump { patience, until } => Limit::until(until).or_silence(patience),
        }
    }

    /// How long the call waits for locks.
    fn lock_timeout(self, most: Duration) -> Duration {
        match self {
            Self::Pump {
                patience: Some(patience),
                ..
            } => most.min(patience / PART_FOR_LOCKS),
            _ => most,
        }
    }
}

struct Session {
    link: Link,
    process: Option<Process>,
    /// `None` if statements cannot be prepared, and contain their settings.
    statements: Option<BTreeMap<&'static str, Statement>>,
    lock_timeout: Duration,
    used: Instant,
    /// The number of failed sessions when this one was last used.
    failures: usize,
    /// The number of encounters with a read-only database when this one started.
    read_only: usize,
}

/// No response by the limit, or an error of the server or the connection.
enum Failed {
    Silent,
    Said(postgres::Error),
}

impl Session {
    fn new(
        (link, process): Begun,
        now: Instant,
        connector: &Connector,
        (failures, read_only): (usize, usize),
    ) -> Self {
        Self {
            link,
            process,
            statements: (!connector.is_pooled).then(BTreeMap::new),
            lock_timeout: connector.busy_timeout,
            used: now,
            failures,
            read_only,
        }
    }

    /// Returns the session, unless it was idle or another one has failed, and the server does not respond.
    fn asked(mut self, now: Instant, failures: usize, until: Option<Instant>) -> Option<Self> {
        let is_sure = self.used + IDLE > now && self.failures == failures;
        if is_sure {
            return Some(self);
        }
        let limit = now + IDLE_ANSWER;
        let limit = Limit::until(Some(until.map_or(limit, |until| until.min(limit))));
        let answer = self
            .link
            .call(limit, async |client| client.simple_query("").await);
        if matches!(answer, Some(Ok(_))) {
            Some(self)
        } else {
            self.link.cut();
            None
        }
    }

    /// Reads each row as it arrives, so that its memory is released: the driver's buffers are up to twice as
    /// large as their contents.
    fn call<R>(
        &mut self,
        name: &'static str,
        text: impl FnOnce() -> String,
        values: &Values<'_>,
        read: impl Fn(Row) -> R,
        (lock_timeout, limit): (Duration, Limit),
    ) -> std::result::Result<Vec<R>, Failed> {
        let Self {
            link,
            statements,
            lock_timeout: current,
            ..
        } = self;
        let answer = link.call(limit, async |client| {
            let values = values.iter().copied();
            let rows = if let Some(statements) = statements {
                if *current != lock_timeout {
                    let values: &Values<'_> = &[&millis(lock_timeout)];
                    client.query(LOCK_TIMEOUT, values).await?;
                    *current = lock_timeout;
                }
                let known = statements.get(name).cloned();
                let statement = if let Some(statement) = known {
                    statement
                } else {
                    let statement = client.prepare(&text()).await?;
                    statements.insert(name, statement.clone());
                    statement
                };
                client.query_raw(&statement, values).await?
            } else {
                let values = values.zip(parameter_types(name).iter().cloned());
                client.query_typed_raw(&text(), values).await?
            };
            let mut rows = pin!(rows);
            let mut found = Vec::new();
            while let Some(row) = poll_fn(|cx| rows.as_mut().poll_next(cx)).await {
                found.push(read(row?));
            }
            Ok(found)
        });
        answer.ok_or(Failed::Silent)?.map_err(Failed::Said)
    }
}

/// A small pool of sessions, each for one call at a time. Later ones start when the first are in use.
pub(super) struct Sessions {
    connector: Connector,
    driver: Driver,
    schema: Schema,
    slots: Slots<Session>,
    failures: AtomicUsize,
    read_only: AtomicUsize,
    /// The call limit of pumps in microseconds, from the shortest lease of any claim; 0 before the first
    /// claim.
    patience: AtomicU64,
    /// Processes of sessions whose turns had no response.
    lost: Mutex<Vec<Process>>,
    clock: SharedClock,
}

impl fmt::Debug for Sessions {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Sessions")
            .field("slots", &self.slots)
            .finish_non_exhaustive()
    }
}

impl Sessions {
    pub(super) fn new(
        connector: Connector,
        driver: Driver,
        schema: Schema,
        first: Begun,
        most: usize,
    ) -> Self {
        let clock = SharedClock::default();
        let first = Session::new(first, clock.now(), &connector, (0, 0));
        Self {
            connector,
            driver,
            schema,
            slots: Slots::new(first, most),
            failures: AtomicUsize::new(0),
            read_only: AtomicUsize::new(0),
            patience: AtomicU64::new(0),
            lost: Mutex::new(Vec::new()),
            clock,
        }
    }

    /// Starts a session for the listener, with the sessions' own address or a direct one.
    pub(super) fn begin(&self, direct: Option<&Connector>) -> Result<Link> {
        let connector = direct.unwrap_or(&self.connector);
        let mut begun = connector.begin(&self.driver, &self.clock, None)?;
        if direct.is_some() {
            connector.check_pooler(&self.driver, &self.clock, &mut begun)?;
        }
        Ok(begun.0)
    }

    pub(super) fn is_pooled(&self) -> bool {
        self.connector.is_pooled
    }

    pub(super) fn clock(&self) -> &SharedClock {
        &self.clock
    }

    /// Checks that the sessions belong to this process.
    ///
    /// # Errors
    /// In a forked child.
    pub(super) fn check_process(&self) -> Result<()> {
        self.slots.check_process()
    }

    pub(super) fn schema(&self) -> &Schema {
        &self.schema
    }

    /// Returns the limits of one or several calls of a pump, which leave time for a retry before a lease
    /// ends. `lease`: the claim's.
    pub(super) fn by_pump(&self, lease: Option<Duration>) -> By {
        let patience = lease.map_or(0, |lease| {
            u64::try_from(call_limit(lease).as_micros()).unwrap_or(u64::MAX)
        });
        // Relaxed: no other memory depends on it.
        let mut known = self.patience.load(Relaxed);
        if patience != 0 && (known == 0 || patience < known) {
            self.patience.store(patience, Relaxed);
            known = patience;
        }
        let patience = (known != 0).then(|| Duration::from_micros(known));
        By::Pump {
            patience,
            until: patience.and_then(|patience| self.clock.after(patience)),
        }
    }

    /// Returns the limits of the store's own calls, which share one time limit.
    pub(super) fn by_pump_within(&self, limit: Duration) -> By {
        By::Pump {
            patience: None,
            until: self.clock.after(limit),
        }
    }

    /// Returns which of the transactions have ended, and whether they are committed. Their changes are
    /// visible by then.
    pub(super) fn ended(&self, by: By, transactions: &[i64]) -> Result<Vec<(i64, bool)>> {
        let read = |row: Row| Ok((row.try_get(0)?, row.try_get(1)?));
        let ended = self.query(by, "ended", || ENDED.to_owned(), &[&transactions], read)?;
        let ended = ended.into_iter().collect::<std::result::Result<_, _>>();
        ended.map_err(unreadable)
    }

    /// Calls one of the schema's functions: one round trip, one transaction.
    pub(super) fn call(
        &self,
        by: By,
        function: &'static str,
        values: &Values<'_>,
    ) -> Result<Vec<Row>> {
        self.call_for(by, function, values, |row| row)
    }

    /// Like `call`, with a function that reads each row.
    pub(super) fn call_for<R>(
        &self,
        by: By,
        function: &'static str,
        values: &Values<'_>,
        read: impl Fn(Row) -> R,
    ) -> Result<Vec<R>> {
        let text = || {
            if self.is_pooled() {
                let settings = local_settings(by.lock_timeout(self.connector.busy_timeout));
                self.schema.call_with(&settings, function, values.len())
            } else {
                self.schema.call(function, values.len())
            }
        };
        self.query(by, function, text, values, read)
    }

    /// Terminates the sessions whose turns had no response. After that, such a turn has made its claim or
    /// never will. Otherwise, a turn that waited for a lock or the disk could claim jobs after the search for
    /// its claims has found none.
    pub(super) fn end_lost(&self, by: By) -> Result<()> {
        self.check_process()?;
        let limit = by
            .lock_timeout(self.connector.busy_timeout)
            .as_millis()
            .max(1);
        let limit = i64::try_from(limit).unwrap_or(i64::MAX);
        let lost = self.lost.lock().clone();
        for process in lost {
            let Process { number, begun } = process;
            let ended = match self.query(
                by,
                "end",
                || END.to_owned(),
                &[&number, &begun, &limit],
                |row| row,
            ) {
                Ok(rows) => rows
                    .first()
                    .is_none_or(|row| row.try_get(0).unwrap_or(true)),
                Err(error) if error.is_transient() => return Err(error),
                Err(_) => true, // The role may not terminate it.
            };
            if !ended {
                return Err(StoreError::new(ErrorKind::Busy));
            }
            self.lost.lock().retain(|it| *it != process);
        }
        Ok(())
    }

    fn query<R>(
        &self,
        by: By,
        name: &'static str,
        text: impl Fn() -> String,
        values: &Values<'_>,
        read: impl Fn(Row) -> R,
    ) -> Result<Vec<R>> {
        let until = by.until();
        let mut slot = self.slots.slot(match by {
            By::Application => Caller::Application,
            By::Pump { .. } => Caller::Pump,
        })?;
        // Relaxed, here and below: a hint. If another thread's failure is seen too late, this call fails as
        // well.
        let failures = self.failures.load(Relaxed);
        let read_only = self.read_only.load(Relaxed);
        let known = slot
            .take()
            .filter(|session| !session.link.is_closed() && session.read_only == read_only);
        let known = known.and_then(|session| session.asked(self.clock.now(), failures, until));
        let mut session = if let Some(session) = known {
            session
        } else {
            let begun = self.connector.begin(&self.driver, &self.clock, until)?;
            let failures = (failures, read_only);
            Session::new(begun, self.clock.now(), &self.connector, failures)
        };
        let lock_timeout = by.lock_timeout(self.connector.busy_timeout);
        let mut tries = 1;
        let answer = loop {
            match session.call(name, &text, values, &read, (lock_timeout, by.limit())) {
                Err(Failed::Said(error)) if tries < TRIES && is_conflict(&error) => tries += 1,
                answer => break answer,
            }
        };
        let is_over = match &answer {
            Ok(_) => false,
            Err(Failed::Silent) => true,
            Err(Failed::Said(error)) => is_over(error),
        };
        if let Err(Failed::Said(error)) = &answer
            && is_read_only(error)
        {
            self.read_only.fetch_add(1, Relaxed);
        }
        if is_over {
            self.failures.fetch_add(1, Relaxed);
            if name == TURN {
                let mut lost = self.lost.lock();
                if lost.len() == MOST_LOST {
                    lost.remove(0);
                }
                lost.extend(session.process);
            }
        } else {
            session.used = self.clock.now();
            session.failures = failures;
            *slot = Some(session);
        }
        answer.map_err(|failed| match failed {
            Failed::Silent => StoreError::lost_answer(ErrorKind::Unavailable),
            Failed::Said(error) if name == PUSH_ONE => failure_of_commit(&error),
            Failed::Said(error) => failure(&error),
        })
    }
}
