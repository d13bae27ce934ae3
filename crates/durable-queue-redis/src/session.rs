//! Sessions: how they start, who uses them, and when they end.
//!
//! # Invariants
//! 1. A call is repeated only if the server has reported that it was not started.
//! 2. A session that failed is not used again; the next call starts a new one.
//! 3. Every call has a time limit for its response. A pump's call, including a new session, ends within a
//!    fraction of the shortest lease, so that leases can be renewed on another connection.
//! 4. A forked child neither uses nor closes the sessions.
//! 5. After a session has failed, others are checked before their next use, because the cause may have
//!    affected all. A pump has no time for that, and starts a new one.
//! 6. No job is pushed to a server that was seen, within [`POLICY_EVERY`], to delete keys.

use std::fmt;
use std::time::{Duration, Instant};

use durable_queue::internals::{Caller, SharedClock, Slots};
use durable_queue::store::{Result, call_limit};
use redis::{Client, Cmd, Connection, RedisError, RedisResult, Value};
use sync_shim::atomic::{AtomicU64, AtomicUsize, Ordering::Relaxed};
use sync_shim::{Clock, Mutex};

use super::failure::{evicts, failure, is_over, is_unknown_script, no_session, no_time};
use super::layout::{KEYS, Layout};
use super::options::may_evict;
use super::script::{Call, Need, Scripts};

/// A session idle for this long is checked before a call that [must be sure](Need::Sure).
const IDLE: Duration = Duration::from_secs(1);
const IDLE_ANSWER: Duration = Duration::from_secs(5);
/// How often a store that pushes checks whether the server deletes keys. The policy may change at any time.
const POLICY_EVERY: Duration = Duration::from_secs(1);
/// Starts sessions.
#[derive(Clone)]
pub(super) struct Connector {
    pub(super) client: Client,
    pub(super) connect_timeout: Duration,
    pub(super) response_timeout: Duration,
    pub(super) layout: Layout,
}

/// Omits the address, which is confidential.
impl fmt::Debug for Connector {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Connector(..)")
    }
}

impl Connector {
    /// Starts a session. `limit` applies to the start and to each response.
    pub(super) fn connect(&self, limit: Duration) -> Result<Connection> {
        let failed = |error: RedisError| no_session(&error);
        let timeout = self.connect_timeout.min(limit);
        let connection = self.client.get_connection_with_timeout(timeout);
        let mut connection = connection.map_err(failed)?;
        set_limit(&connection, self.response_timeout.min(limit)).map_err(failed)?;
        // Each time, because the server may have been replaced, or a newer version of this crate may have
        // written the keys.
        self.layout.check(&mut connection)?;
        Ok(connection)
    }
}

fn set_limit(connection: &Connection, limit: Duration) -> RedisResult<()> {
    connection.set_read_timeout(Some(limit))?;
    connection.set_write_timeout(Some(limit))
}

struct Session {
    connection: Connection,
    used: Instant,
    /// The number of failed sessions when this one was last used.
    failures: usize,
    /// Time limit of a response.
    limit: Duration,
}

impl Session {
    /// Returns the session, unless the server does not respond.
    fn asked(mut self) -> Option<Self> {
        self.wait_for(IDLE_ANSWER).ok()?;
        redis::cmd("PING").exec(&mut self.connection).ok()?;
        Some(self)
    }

    fn wait_for(&mut self, limit: Duration) -> RedisResult<()> {
        if self.limit != limit {
            set_limit(&self.connection, limit)?;
            self.limit = limit;
        }
        Ok(())
    }
}

/// The last known state of the server's policy.
struct Policy {
    seen: Instant,
    evicts: bool,
}

/// A small pool of sessions, each for one call at a time. Later ones start when the first are in use.
pub(super) struct Sessions {
    connector: Connector,
    scripts: Scripts,
    slots: Slots<Session>,
    failures: AtomicUsize,
    policy: Mutex<Policy>,
    /// The shortest lease of all queues, in microseconds.
    shortest_lease: AtomicU64,
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
        let now = clock.now();
        let first = Session {
            connection: first,
            used: now,
            failures: 0,
            limit: connector.response_timeout,
        };
        Self {
            connector,
            scripts,
            slots: Slots::new(first, most),
            failures: AtomicUsize::new(0),
            // The first session has just checked it.
            policy: Mutex::new(Policy {
                seen: now,
                evicts: false,
            }),
            shortest_lease: AtomicU64::new(u64::MAX),
            clock,
        }
    }

    pub(super) fn connector(&self) -> &Connector {
        &self.connector
    }

    pub(super) fn layout(&self) -> &Layout {
        &self.connector.layout
    }

    /// Records that a pump holds jobs under leases of this length.
    pub(super) fn learn_lease(&self, lease: Duration) {
        if self.scripts.has_own_clock() {
            return; // In tests, time is moved manually.
        }
        let micros = u64::try_from(lease.as_micros()).unwrap_or(u64::MAX);
        // Relaxed: a pump's calls are made by one thread, and others need not know at once.
        self.shortest_lease.fetch_min(micros, Relaxed);
    }

    /// Returns the time limit of a call, including a new session.
    fn limit(&self, need: Need) -> Duration {
        match need {
            Need::Quick => {
                let lease = Duration::from_micros(self.shortest_lease.load(Relaxed)); // As above.
                call_limit(lease)
            }
            Need::Nothing | Need::Sure | Need::Push => Duration::MAX,
        }
    }

    /// Makes one round trip on an existing or a new session.
    pub(super) fn with<T>(
        &self,
        need: Need,
        call: impl FnOnce(&mut Connection) -> RedisResult<T>,
    ) -> Result<T> {
        let caller = match need {
            Need::Quick => Caller::Pump,
            Need::Nothing | Need::Sure | Need::Push => Caller::Application,
        };
        let mut slot = self.slots.slot(caller)?;
        let now = self.clock.now();
        let limit = self.limit(need);
        // Relaxed, here and below: a hint. If another thread's failure is seen too late, this call fails as
        // well.
        let failures = self.failures.load(Relaxed);
        let known = slot.take().and_then(|session| {
            let was_idle = need.is_sure() && session.used + IDLE <= now;
            match session.failures == failures {
                true if !was_idle => Some(session),
                false if need == Need::Quick => None,
                _ => session.asked(),
            }
        });
        let (mut session, is_new) = match known {
            Some(session) => (session, false),
            None => (self.begin(limit, failures)?, true),
        };
        let left = if is_new {
            limit.saturating_sub(self.clock.now() - now)
        } else {
            limit
        };
        if left.is_zero() {
            *slot = Some(session);
            return Err(no_time());
        }
        let answer = session
            .wait_for(self.connector.response_timeout.min(left))
            .and_then(|()| match need {
                Need::Push => self.may_push(&mut session.connection, is_new),
                _ => Ok(true),
            });
        let answer = match answer {
            Ok(true) => Some(call(&mut session.connection)),
            Ok(false) => None,
            // Nothing was requested yet.
            Err(error) => {
                self.failures.fetch_add(1, Relaxed);
                return Err(no_session(&error));
            }
        };
        if matches!(&answer, Some(Err(error)) if is_over(error)) {
            self.failures.fetch_add(1, Relaxed);
        } else {
            session.used = self.clock.now();
            session.failures = failures;
            *slot = Some(session);
        }
        answer.ok_or_else(evicts)?.map_err(|error| failure(&error))
    }

    fn begin(&self, limit: Duration, failures: usize) -> Result<Session> {
        Ok(Session {
            connection: self.connector.connect(limit)?,
            used: self.clock.now(),
            failures,
            limit: self.connector.response_timeout.min(limit),
        })
    }

    /// Returns whether the server deletes no keys, as it has reported within [`POLICY_EVERY`]. Always asks a
    /// server that does, and on a new session.
    fn may_push(&self, connection: &mut Connection, is_new: bool) -> RedisResult<bool> {
        let now = self.clock.now();
        let is_known = {
            let policy = self.policy.lock();
            !policy.evicts && now < policy.seen + POLICY_EVERY
        };
        if is_known && !is_new {
            return Ok(true);
        }
        let evicts = may_evict(connection)?;
        *self.policy.lock() = Policy { seen: now, evicts };
        Ok(!evicts)
    }

    /// Calls a script on a queue. `add` adds its arguments.
    pub(super) fn call(&self, call: Call, queue: &str, add: impl Fn(&mut Cmd)) -> Result<Value> {
        let script = self.scripts.get(call);
        let named = |name: &str, script: &str| {
            let mut command = redis::cmd(name);
            command.arg(script).arg(KEYS.len());
            self.layout().add_keys(queue, &mut command);
            add(&mut command);
            command
        };
        self.with(call.need(), |connection| {
            match named("EVALSHA", &script.hash).query(connection) {
                // The server was restarted, or its scripts were flushed: the call was not carried out.
                Err(error) if is_unknown_script(&error) => {
                    named("EVAL", &script.text).query(connection)
                }
                answer => answer,
            }
        })
    }
}
