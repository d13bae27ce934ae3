//! The sessions with one server: who uses them, and when they end.

use std::time::{Duration, Instant};

use durable_queue::StoreError;
use durable_queue::internals::{Caller, SharedClock, Slots};
use durable_queue::store::Result;
use redis::{Connection, RedisError, RedisResult};
use sync_shim::atomic::{AtomicUsize, Ordering::Relaxed};
use sync_shim::{Clock as _, Mutex};

use crate::failure::{evicts, failure, is_over, no_session, no_time};
use crate::script::Need;
use crate::server::checks::may_evict;
use crate::server::connector::set_limit;

/// A session idle for this long is checked before a call that [must be sure](Need::Sure).
const IDLE: Duration = Duration::from_secs(1);
const IDLE_ANSWER: Duration = Duration::from_secs(5);
/// How often a store that pushes checks whether the server deletes keys. The policy may change at any time.
const POLICY_EVERY: Duration = Duration::from_secs(1);

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

/// Why a call has no answer.
pub(crate) enum Failed {
    /// Nothing was requested.
    NotSent(StoreError),
    /// The server's or the connection's error. The call may have been carried out.
    Sent(RedisError),
}

impl Failed {
    pub(crate) fn into_error(self) -> StoreError {
        match self {
            Self::NotSent(error) => error,
            Self::Sent(error) => failure(&error),
        }
    }
}

/// Time limits of a call.
#[derive(Clone, Copy)]
pub(crate) struct Limits {
    /// Of the call, including a new session.
    pub(crate) call: Duration,
    /// Of a response.
    pub(crate) response: Duration,
}

/// A small pool of sessions, each for one call at a time. Later ones start when the first are in use.
pub(crate) struct Pool {
    slots: Slots<Session>,
    failures: AtomicUsize,
    policy: Mutex<Option<Policy>>,
    clock: SharedClock,
}

impl Pool {
    /// `first`: a session that has just been checked, and its time limit.
    pub(crate) fn new(first: Option<(Connection, Duration)>, most: usize) -> Self {
        let clock = SharedClock::default();
        let now = clock.now();
        let policy = first.as_ref().map(|_| Policy {
            seen: now,
            evicts: false,
        });
        let first = first.map(|(connection, limit)| Session {
            connection,
            used: now,
            failures: 0,
            limit,
        });
        Self {
            slots: match first {
                Some(first) => Slots::new(first, most),
                None => Slots::empty(most),
            },
            failures: AtomicUsize::new(0),
            policy: Mutex::new(policy),
            clock,
        }
    }

    /// Makes one round trip on an existing session, or on a new one of `connect`, which gets its time limit.
    pub(crate) fn with<T>(
        &self,
        need: Need,
        limits: Limits,
        connect: impl FnOnce(Duration) -> Result<Connection>,
        call: impl FnOnce(&mut Connection) -> RedisResult<T>,
    ) -> std::result::Result<T, Failed> {
        let caller = match need {
            Need::Quick => Caller::Pump,
            Need::Nothing | Need::Sure | Need::Push => Caller::Application,
        };
        let mut slot = self.slots.slot(caller).map_err(Failed::NotSent)?;
        let now = self.clock.now();
        let limit = limits.call;
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
        let is_new = known.is_none();
        let mut session = match known {
            Some(session) => session,
            None => Session {
                connection: connect(limit).map_err(Failed::NotSent)?,
                used: self.clock.now(),
                failures,
                limit: Duration::ZERO, // Set below.
            },
        };
        let left = if is_new {
            limit.saturating_sub(self.clock.now() - now)
        } else {
            limit
        };
        if left.is_zero() {
            *slot = Some(session);
            return Err(Failed::NotSent(no_time()));
        }
        let answer = session
            .wait_for(limits.response.min(left))
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
                return Err(Failed::NotSent(no_session(&error)));
            }
        };
        if matches!(&answer, Some(Err(error)) if is_over(error)) {
            self.failures.fetch_add(1, Relaxed);
        } else {
            session.used = self.clock.now();
            session.failures = failures;
            *slot = Some(session);
        }
        let answer = answer.ok_or_else(|| Failed::NotSent(evicts()))?;
        answer.map_err(Failed::Sent)
    }

    /// Returns whether the server deletes no keys, as it has reported within [`POLICY_EVERY`]. Always asks a
    /// server that does, and on a new session.
    fn may_push(&self, connection: &mut Connection, is_new: bool) -> RedisResult<bool> {
        let now = self.clock.now();
        let is_known = {
            let policy = self.policy.lock();
            policy
                .as_ref()
                .is_some_and(|it| !it.evicts && now < it.seen + POLICY_EVERY)
        };
        if is_known && !is_new {
            return Ok(true);
        }
        let evicts = may_evict(connection)?;
        *self.policy.lock() = Some(Policy { seen: now, evicts });
        Ok(!evicts)
    }
}
