//! Sessions: how one begins, which call has one when, and when one is over.
//!
//! # What always holds
//! 1. A call is made again only if the server said that it was not begun.
//! 2. A session that failed is not used again; the next call has a new one.
//! 3. No call waits for an answer without a limit.
//! 4. A forked child does not reach the sessions, nor does it end them.
//! 5. Once a session has failed, the others are asked first whether they are there still: what has cut
//!    one may have cut all.

use std::fmt;
use std::time::{Duration, Instant};

use redis::{Client, Cmd, Connection, RedisError, RedisResult, Value};
use sync_shim::Clock;
use sync_shim::atomic::{AtomicUsize, Ordering::Relaxed};

use super::failure::{failure, is_over, is_unknown_script, no_session};
use super::layout::{KEYS, Layout};
use super::script::{Call, Scripts};
use crate::clock::SharedClock;
use crate::slots::{Caller, Slots};
use crate::store::Result;

/// A session that was not used for so long is asked first whether it is there still, for a call that
/// [must be sure](Call::must_be_sure).
const IDLE: Duration = Duration::from_secs(1);
const IDLE_ANSWER: Duration = Duration::from_secs(5);

/// How a session begins.
#[derive(Clone)]
pub(super) struct Connector {
    pub(super) client: Client,
    pub(super) connect_timeout: Duration,
    pub(super) response_timeout: Duration,
    pub(super) layout: Layout,
}

/// The address is a secret.
impl fmt::Debug for Connector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Connector(..)")
    }
}

impl Connector {
    pub(super) fn connect(&self) -> Result<Connection> {
        let failed = |error: RedisError| no_session(&error);
        let timeout = self.connect_timeout;
        let connection = self.client.get_connection_with_timeout(timeout);
        let mut connection = connection.map_err(failed)?;
        let limit = Some(self.response_timeout);
        connection.set_read_timeout(limit).map_err(failed)?;
        connection.set_write_timeout(limit).map_err(failed)?;
        // Each time: it may be another server by now, or another version of this crate has come.
        self.layout.check(&mut connection)?;
        Ok(connection)
    }
}

struct Session {
    connection: Connection,
    used: Instant,
    /// How many sessions had failed when it was used.
    failures: usize,
}

impl Session {
    /// The session, unless the server says no more.
    fn asked(mut self, limit: Duration) -> Option<Self> {
        let connection = &mut self.connection;
        connection.set_read_timeout(Some(IDLE_ANSWER)).ok()?;
        redis::cmd("PING").exec(connection).ok()?;
        connection.set_read_timeout(Some(limit)).ok()?;
        Some(self)
    }
}

/// A few sessions, each for one call at a time. Later ones are begun when the first are in use.
pub(super) struct Sessions {
    connector: Connector,
    scripts: Scripts,
    slots: Slots<Session>,
    failures: AtomicUsize,
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
        scripts: Scripts,
        first: Connection,
        most: usize,
    ) -> Self {
        let clock = SharedClock::default();
        let first = Session {
            connection: first,
            used: clock.now(),
            failures: 0,
        };
        Self {
            connector,
            scripts,
            slots: Slots::new(first, most),
            failures: AtomicUsize::new(0),
            clock,
        }
    }

    pub(super) fn connector(&self) -> &Connector {
        &self.connector
    }

    pub(super) fn layout(&self) -> &Layout {
        &self.connector.layout
    }

    /// One round trip, on a session that is there.
    pub(super) fn with<T>(
        &self,
        caller: Caller,
        must_be_sure: bool,
        call: impl FnOnce(&mut Connection) -> RedisResult<T>,
    ) -> Result<T> {
        let mut slot = self.slots.slot(caller)?;
        let now = self.clock.now();
        let limit = self.connector.response_timeout;
        // Relaxed, here and below: a hint. Another thread's failure may be seen too late, and then this
        // call fails as well.
        let failures = self.failures.load(Relaxed);
        let known = slot.take().and_then(|session| {
            let was_idle = must_be_sure && session.used + IDLE <= now;
            if was_idle || session.failures != failures {
                session.asked(limit)
            } else {
                Some(session)
            }
        });
        let mut session = match known {
            Some(session) => session,
            None => Session {
                connection: self.connector.connect()?,
                used: now,
                failures,
            },
        };
        let answer = call(&mut session.connection);
        if answer.as_ref().is_err_and(is_over) {
            self.failures.fetch_add(1, Relaxed);
        } else {
            session.used = self.clock.now();
            session.failures = failures;
            *slot = Some(session);
        }
        answer.map_err(|error| failure(&error))
    }

    /// Calls a script on a queue. `add` adds what it takes.
    pub(super) fn call(&self, call: Call, queue: &str, add: impl Fn(&mut Cmd)) -> Result<Value> {
        let script = self.scripts.get(call);
        let named = |name: &str, script: &str| {
            let mut command = redis::cmd(name);
            command.arg(script).arg(KEYS.len());
            self.layout().add_keys(queue, &mut command);
            add(&mut command);
            command
        };
        self.with(call.caller(), call.must_be_sure(), |connection| {
            match named("EVALSHA", &script.hash).query(connection) {
                // The server was started anew, or its scripts were flushed: nothing was done.
                Err(error) if is_unknown_script(&error) => {
                    named("EVAL", &script.text).query(connection)
                }
                answer => answer,
            }
        })
    }
}
