//! Sessions: how one begins, which call has one when, and when one is over.
//!
//! # What always holds
//! 1. A call is made again only if the server said that it was not begun.
//! 2. A session that failed is not used again; the next call has a new one.
//! 3. No call waits for an answer without a limit. One of a pump ends, with the session that is begun for it,
//!    within a part of the shortest lease: so there is time to renew leases on another connection.
//! 4. A forked child does not reach the sessions, nor does it end them.
//! 5. Once a session has failed, the others are asked first whether they are there still: what has cut
//!    one may have cut all. A pump has no time for that: it begins another.
//! 6. No job is put into a server that was seen, within [`POLICY_EVERY`], to delete keys.

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

/// A session that was not used for so long is asked first whether it is there still, for a call that
/// [must be sure](Need::Sure).
const IDLE: Duration = Duration::from_secs(1);
const IDLE_ANSWER: Duration = Duration::from_secs(5);
/// How often a store that pushes asks whether the server deletes keys: its policy may be changed at any time.
const POLICY_EVERY: Duration = Duration::from_secs(1);
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
    /// A session that waits no longer than `limit`, either to begin or for an answer.
    pub(super) fn connect(&self, limit: Duration) -> Result<Connection> {
        let failed = |error: RedisError| no_session(&error);
        let timeout = self.connect_timeout.min(limit);
        let connection = self.client.get_connection_with_timeout(timeout);
        let mut connection = connection.map_err(failed)?;
        set_limit(&connection, self.response_timeout.min(limit)).map_err(failed)?;
        // Each time: it may be another server by now, or another version of this crate has come.
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
    /// How many sessions had failed when it was used.
    failures: usize,
    /// How long it waits for an answer.
    limit: Duration,
}

impl Session {
    /// The session, unless the server says no more.
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

/// What was seen of the server's policy, and when.
struct Policy {
    seen: Instant,
    evicts: bool,
}

/// A few sessions, each for one call at a time. Later ones are begun when the first are in use.
pub(super) struct Sessions {
    connector: Connector,
    scripts: Scripts,
    slots: Slots<Session>,
    failures: AtomicUsize,
    policy: Mutex<Policy>,
    /// Of all queues, in microseconds.
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
            // It was asked when the first session began.
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

    /// A pump holds jobs by leases of this length.
    pub(super) fn learn_lease(&self, lease: Duration) {
        if self.scripts.has_own_clock() {
            return; // A test's leases last as long as the test says.
        }
        let micros = u64::try_from(lease.as_micros()).unwrap_or(u64::MAX);
        // Relaxed: the calls of a pump are made by one thread, and others need not know at once.
        self.shortest_lease.fetch_min(micros, Relaxed);
    }

    /// How long a call may take, a new session included.
    fn limit(&self, need: Need) -> Duration {
        match need {
            Need::Quick => {
                let lease = Duration::from_micros(self.shortest_lease.load(Relaxed)); // As above.
                call_limit(lease)
            }
            Need::Nothing | Need::Sure | Need::Push => Duration::MAX,
        }
    }

    /// One round trip, on a session that is there.
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
        // Relaxed, here and below: a hint. Another thread's failure may be seen too late, and then this
        // call fails as well.
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
            // Nothing was asked for yet.
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

    /// Whether the server deletes no keys, as it has said within [`POLICY_EVERY`]. One that does is asked each
    /// time, and a new session's.
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
        self.with(call.need(), |connection| {
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
