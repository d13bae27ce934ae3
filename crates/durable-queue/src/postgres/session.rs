//! Sessions: how they begin, who has one when, and when one is over.
//!
//! # What always holds
//! 1. A call is made again only if the server said that it was undone.
//! 2. A session that failed is not used again; the next call has a new one.
//! 3. A session begins within a limit, or not at all.
//! 4. Once [`Sessions::end_lost`] has answered, no turn whose answer was lost is under way: unless the role
//!    may not end what it has begun.
//! 5. A forked child does not reach the sessions, nor does it end them.
//! 6. Once a session has failed, the others are asked first whether they are there still: what has cut
//!    one may have cut all.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::Arc;
use std::sync::mpsc::channel;
use std::time::{Duration, Instant};

use postgres::types::ToSql;
use postgres::{Client, Config, Row, Statement};
use sync_shim::atomic::{AtomicUsize, Ordering::Relaxed};
use sync_shim::thread::{ThreadOptions, spawn_thread};
use sync_shim::{Clock, Mutex};

use super::failure::{failure, failure_of_commit, is_conflict, is_over, no_session};
use super::schema::{PUSH_ONE, Schema, TURN};
use crate::clock::SharedClock;
use crate::error::{ErrorKind, StoreError};
use crate::slots::Slots;
use crate::store::Result;

/// Parameters of a call.
pub(super) type Values<'a> = [&'a (dyn ToSql + Sync)];

/// A session that was not used for so long is asked first whether the server has ended it: or a call
/// on it could not say whether it was carried out.
const IDLE: Duration = Duration::from_secs(1);
const IDLE_ANSWER: Duration = Duration::from_secs(5);
/// So many sessions are remembered that the server may have to end.
const MOST_LOST: usize = 64;
/// So often a call is made that others undo.
const TRIES: usize = 5;

const CONNECT_TIMEOUT: Duration = Duration::from_secs(10);
/// A server that does not answer at all is given up after about so long. The system's default is
/// hours.
const SILENCE: Duration = Duration::from_secs(15);

/// Our statements find their rows by indexes whatever the statistics say: a plan that was made when
/// the tables were empty serves as well when they are full. And each statement sees what was
/// committed before it.
const SETTINGS: &str = "SET default_transaction_isolation = 'read committed';
    SET plan_cache_mode = force_generic_plan;
    SET jit = off;
    SET enable_seqscan = off;
    SET enable_bitmapscan = off;
    SET enable_hashjoin = off;
    SET enable_mergejoin = off;
    SET enable_sort = off;
    SET client_min_messages = error;
    SELECT set_config('synchronous_commit', 'on', false)
        WHERE current_setting('synchronous_commit') = 'off'";

/// Answers with the session's own process, too.
const LOCK_TIMEOUT: &str = "SELECT set_config('lock_timeout', $1, false), pid,
        (extract(epoch FROM backend_start) * 1000000)::bigint
    FROM pg_stat_get_activity(pg_backend_pid())";

/// Whether it has ended by then. It may have long since: then there is no row.
const END: &str = "SELECT pg_terminate_backend(pid, $3) FROM pg_stat_get_activity($1)
    WHERE (extract(epoch FROM backend_start) * 1000000)::bigint = $2";

/// A process of the server: its number, and when it began, in microseconds, for numbers come again.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) struct Process {
    number: i32,
    begun: i64,
}

/// A session, and its process, unless the role may not see it.
type Begun = (Client, Option<Process>);

type Connect = dyn Fn(&Config) -> std::result::Result<Client, postgres::Error> + Send + Sync;

/// How a session begins.
#[derive(Clone)]
pub(super) struct Connector {
    pub(super) config: Config,
    pub(super) connect: Arc<Connect>,
    pub(super) busy_timeout: Duration,
}

/// The address is a secret.
impl fmt::Debug for Connector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Connector(..)")
    }
}

impl Connector {
    /// What the caller has not set.
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

    pub(super) fn client(&self) -> Result<Begun> {
        let connector = self.clone();
        let begun = within(self.limit(), move || connector.begin());
        begun.unwrap_or(Err(StoreError::new(ErrorKind::Unavailable)))
    }

    /// Until a session has begun: that of the connection to any host, and of the answers on it.
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

    fn begin(&self) -> Result<Begun> {
        let failed = |error| no_session(&error);
        let mut client = (self.connect)(&self.config).map_err(failed)?;
        client.batch_execute(SETTINGS).map_err(failed)?;
        let millis = self
            .busy_timeout
            .as_millis()
            .clamp(1, i32::MAX as u128)
            .to_string();
        let row = client.query_one(LOCK_TIMEOUT, &[&millis]).map_err(failed)?;
        let process = || {
            let (number, begun): (_, Option<i64>) = (row.try_get(1)?, row.try_get(2)?);
            Ok(begun.map(|begun| Process { number, begun }))
        };
        let process = process().map_err(failed)?;
        Ok((client, process))
    }
}

/// Leaves a session that does not answer. The client's drop waits for all answers that are due: on a
/// connection that leads nowhere a thread does, until the system gives the connection up.
pub(super) fn abandon(client: Client) {
    if !client.is_closed() {
        beside("durable-abandon", move || drop(client)).ok();
    }
}

/// What `work` comes to, if it is done within this: a call of the client has no limit of its own, and a
/// connection may be there and lead nowhere. What comes later is dropped by the thread that has done it.
pub(super) fn within<R: Send + 'static>(
    limit: Duration,
    work: impl FnOnce() -> R + Send + 'static,
) -> Option<R> {
    let (sender, done) = channel();
    beside("durable-limited", move || drop(sender.send(work()))).ok()?;
    done.recv_timeout(limit).ok()
}

fn beside(name: &'static str, work: impl FnOnce() + Send + 'static) -> std::io::Result<()> {
    let options = ThreadOptions {
        name: Some(name),
        ..ThreadOptions::default()
    };
    spawn_thread(options, work).map(drop)
}

struct Session {
    client: Client,
    process: Option<Process>,
    statements: BTreeMap<&'static str, Statement>,
    used: Instant,
    /// How many sessions had failed when it was used.
    failures: usize,
}

impl Session {
    fn new((client, process): Begun, now: Instant, failures: usize) -> Self {
        Self {
            client,
            process,
            statements: BTreeMap::new(),
            used: now,
            failures,
        }
    }

    /// The session, unless it was idle, or another has failed, and the server says no more.
    fn asked(mut self, now: Instant, failures: usize) -> Option<Self> {
        let is_sure = self.used + IDLE > now && self.failures == failures;
        if is_sure || self.client.is_valid(IDLE_ANSWER).is_ok() {
            Some(self)
        } else {
            abandon(self.client);
            None
        }
    }

    fn call(
        &mut self,
        name: &'static str,
        text: impl FnOnce() -> String,
        values: &Values<'_>,
    ) -> std::result::Result<Vec<Row>, postgres::Error> {
        let known = self.statements.get(name).cloned();
        let statement = if let Some(statement) = known {
            statement
        } else {
            let statement = self.client.prepare(&text())?;
            self.statements.insert(name, statement.clone());
            statement
        };
        self.client.query(&statement, values)
    }
}

/// A few sessions, each for one call at a time. Later ones are begun when the first are in use.
pub(super) struct Sessions {
    connector: Connector,
    schema: Schema,
    slots: Slots<Session>,
    failures: AtomicUsize,
    /// Of sessions whose turns had no answer.
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
    pub(super) fn new(connector: Connector, schema: Schema, first: Begun, most: usize) -> Self {
        let clock = SharedClock::default();
        let first = Session::new(first, clock.now(), 0);
        Self {
            connector,
            schema,
            slots: Slots::new(first, most),
            failures: AtomicUsize::new(0),
            lost: Mutex::new(Vec::new()),
            clock,
        }
    }

    pub(super) fn connector(&self) -> &Connector {
        &self.connector
    }

    /// # Errors
    /// In a forked child.
    pub(super) fn check_process(&self) -> Result<()> {
        self.slots.check_process()
    }

    pub(super) fn schema(&self) -> &Schema {
        &self.schema
    }

    /// Calls one of the schema's functions: one round trip, one transaction.
    pub(super) fn call(&self, function: &'static str, values: &Values<'_>) -> Result<Vec<Row>> {
        let text = || self.schema.call(function, values.len());
        self.query(function, text, values)
    }

    /// Has the server end the sessions whose turns had no answer: what such a turn was to claim, it has
    /// claimed by then, or never will. It may have waited for a lock, or for the disk, and would else be
    /// carried out after what asks for its claims has found none.
    pub(super) fn end_lost(&self) -> Result<()> {
        self.check_process()?;
        let limit = self.connector.busy_timeout.as_millis().max(1);
        let limit = i64::try_from(limit).unwrap_or(i64::MAX);
        let lost = self.lost.lock().clone();
        for process in lost {
            let Process { number, begun } = process;
            let ended = match self.query("end", || END.to_owned(), &[&number, &begun, &limit]) {
                Ok(rows) => rows
                    .first()
                    .is_none_or(|row| row.try_get(0).unwrap_or(true)),
                Err(error) if error.is_transient() => return Err(error),
                Err(_) => true, // This role may not end it, and that cannot be helped.
            };
            if !ended {
                return Err(StoreError::new(ErrorKind::Busy));
            }
            self.lost.lock().retain(|it| *it != process);
        }
        Ok(())
    }

    fn query(
        &self,
        name: &'static str,
        text: impl Fn() -> String,
        values: &Values<'_>,
    ) -> Result<Vec<Row>> {
        let mut slot = self.slots.slot()?;
        let known = slot.take().filter(|session| !session.client.is_closed());
        // Relaxed, here and below: a hint. Another thread's failure may be seen too late, and then this
        // call fails as well.
        let failures = self.failures.load(Relaxed);
        let known = known.and_then(|session| session.asked(self.clock.now(), failures));
        let mut session = match known {
            Some(session) => session,
            None => Session::new(self.connector.client()?, self.clock.now(), failures),
        };
        let mut tries = 1;
        let answer = loop {
            match session.call(name, &text, values) {
                Err(error) if tries < TRIES && is_conflict(&error) => tries += 1,
                answer => break answer,
            }
        };
        let is_over = answer.as_ref().is_err_and(is_over);
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
        answer.map_err(|error| match name {
            PUSH_ONE => failure_of_commit(&error),
            _ => failure(&error),
        })
    }
}
