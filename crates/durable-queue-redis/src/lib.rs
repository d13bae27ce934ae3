//! Jobs in the memory of Redis, 7 or later, or of Valkey.
//!
//! Each call of the trait is one script, so one round trip, and nothing is seen in between. What lasts
//! is what the server writes down: a call that was answered for survives a crash of the server if that
//! has `appendonly yes` and `appendfsync always`; with `everysec`, all but the last second does.
//!
//! ```no_run
//! use std::time::Duration;
//! use durable_queue::DurableQueue;
//! use durable_queue_redis::RedisStore;
//!
//! let store = RedisStore::open(&std::env::var("REDIS_URL")?)?;
//! let mails: DurableQueue<String, _> = DurableQueue::new("mails", store);
//! mails.push("ann".to_owned(), Duration::from_secs(60))?;
//! # Ok::<(), Box<dyn std::error::Error>>(())
//! ```
//!
//! There is no push in the caller's own transaction: the server has none that a job could be a part of, and
//! this store does not have the trait [`EnqueueIn`](durable_queue::EnqueueIn).
//!
//! ```compile_fail,E0277
//! fn takes<S: durable_queue::EnqueueIn>() {}
//! takes::<durable_queue_redis::RedisStore>();
//! ```
//!
//! Not for:
//! - jobs that do not fit into the server's memory, delayed ones and dead letters included. When it is
//!   full, pushes are [`Full`](durable_queue::ErrorKind::Full), and what is there goes on;
//! - a server that deletes keys to have memory (`maxmemory-policy allkeys-..`): it is refused at the opening, and
//!   pushes are [`Evicting`](durable_queue::ErrorKind::Evicting) once it is seen to have become one, within a second. Jobs of
//!   which it has deleted a part become dead letters when they fall due;
//! - a failover that must lose nothing: replicas follow later, so what was answered for may be gone, and what
//!   was acknowledged may come again;
//! - a cluster: the client talks to one server. All keys of a queue are in one slot;
//! - a forked child, if the parent has opened the store: each call is [`Forked`](durable_queue::ErrorKind::Forked)
//!   there.
//!
//! Times are whole microseconds up to the year 2255; later ones are "never". A payload has up to
//! [`PAYLOAD_LIMIT`] bytes, a key or a queue's name up to [`KEY_LIMIT`], all jobs of a push up to [`PUSH_LIMIT`]:
//! else it is [`TooLarge`](durable_queue::ErrorKind::TooLarge), and the server is not asked.
//!
//! A user of the server needs `+@read +@write +@connection +@scripting +@pubsub +info +time`, the keys
//! `PREFIX:*` and the channel `PREFIX:earlier`.
//!
//! # What always holds
//! 1. A call is carried out wholly or not at all, also if the server dies within it.
//! 2. A job that falls due earlier than what a listening process waits for is announced to it, by the
//!    script that enters the job.
//! 3. No notifier is called with a session in use.

#![forbid(unsafe_code)]

mod failure;
mod layout;
mod listen;
mod options;
mod script;
mod session;
mod values;

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use durable_queue::internals::{ANYTHING, Hub};
use durable_queue::store::{
    Act, COUNT_LIMIT, Claim, Claimed, DeadJob, Lease, ListedJob, Result, Settle, Store, StoreStats,
    Turn, Watch, announced,
};
use durable_queue::{
    Cancelled, ErrorKind, JobId, NewJob, Notifier, Put, Reset, StoreError, StoreTime, Token, When,
    Which,
};
use redis::{Cmd, Value};

pub use durable_queue::internals::{PROBE_ANSWER, PROBE_EVERY};
pub use options::{CONNECT_TIMEOUT, PREFIX, RESPONSE_TIMEOUT, RedisOptions, SESSIONS};
pub use redis;
pub use values::{KEY_LIMIT, PAYLOAD_LIMIT, PUSH_LIMIT};

use self::failure::no_thread;
use self::script::{Call, Need};
use self::session::Sessions;
use self::values::{
    Answer, SIZES, add_claim, add_held_by, add_job, add_settle, add_time, add_which, id_text, point,
};

/// A store on a server, for all processes that reach it. Clones are the same sessions.
#[derive(Clone)]
pub struct RedisStore(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    sessions: Sessions,
    hub: Hub,
    /// Where announcements are sent.
    channel: String,
}

impl fmt::Debug for RedisStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("RedisStore").field(&self.0.sessions).finish()
    }
}

impl RedisStore {
    /// Begins to say how a server is to be opened.
    pub fn options() -> RedisOptions {
        RedisOptions::new()
    }

    /// Connects with all options as they are.
    ///
    /// # Errors
    /// As [`RedisOptions::open`].
    pub fn open(address: &str) -> Result<Self> {
        Self::options().open(address)
    }

    fn call(&self, call: Call, queue: &str, add: impl Fn(&mut Cmd)) -> Result<Value> {
        let Shared {
            sessions,
            hub,
            channel,
        } = &*self.0;
        sessions.call(call, queue, |command| {
            if call.announces() {
                command.arg(channel).arg(hub.origin()).arg(queue);
            }
            add(command);
        })
    }

    /// Calls the own notifiers: the script has announced it to other processes.
    fn notify(&self, queue: &str, due: StoreTime) {
        if due != StoreTime::NEVER {
            self.0.hub.notify(queue, due);
        }
    }

    fn count(&self, call: Call, queue: &str, ids: &[JobId]) -> Result<usize> {
        let counted = self.call(call, queue, |command| {
            for id in ids {
                command.arg(id_text(*id));
            }
        })?;
        match counted {
            Value::Int(count) => Ok(usize::try_from(count).unwrap_or(0)),
            _ => Err(StoreError::lost_answer(ErrorKind::Corrupt)),
        }
    }
}

impl Store for RedisStore {
    fn enqueue(&self, name: &str, jobs: &[NewJob<'_>]) -> Result<Vec<Put>> {
        if jobs.is_empty() {
            return Ok(Vec::new());
        }
        SIZES.check(name, jobs)?;
        let answer = self.call(Call::Enqueue, name, |command| {
            for job in jobs {
                add_job(command, job);
            }
        })?;
        let mut answer = Answer::of(answer)?;
        let (earliest, letters) = (answer.time()?, answer.bytes()?);
        let puts = answer.nested()?.puts(&letters)?;
        if puts.len() != jobs.len() {
            return Err(StoreError::lost_answer(ErrorKind::Corrupt));
        }
        self.notify(name, earliest);
        Ok(puts)
    }

    fn turn(&self, name: &str, settles: &[Settle<'_>], claim: Option<Claim>) -> Result<Turn> {
        let is_too_large = |settle: &Settle<'_>| matches!(settle.act, Act::Bury { error } | Act::Reject { error } if error.len() > PAYLOAD_LIMIT);
        if settles.iter().any(is_too_large) {
            return Err(StoreError::new(ErrorKind::TooLarge));
        }
        if let Some(claim) = claim {
            self.0.sessions.learn_lease(claim.lease);
        }
        let answer = self.call(Call::Turn, name, |command| {
            command.arg(settles.len());
            for settle in settles {
                add_settle(command, settle);
            }
            add_claim(command, claim);
        })?;
        let mut answer = Answer::of(answer)?;
        let (now, flags) = (answer.time()?, answer.number()?);
        let (paused, frees_key) = (flags & 1 != 0, flags & 2 != 0);
        let verdicts = answer.verdicts()?;
        if verdicts.len() != settles.len() {
            return Err(StoreError::lost_answer(ErrorKind::Corrupt));
        }
        let times = answer.maybe_time()?.zip(answer.maybe_time()?);
        let claimed = times.zip(claim).map(|((first, first_free), claim)| {
            Ok(Claimed {
                leases: answer.nested()?.leases(claim.token)?,
                first,
                first_free,
            })
        });
        let turn = Turn {
            now,
            paused,
            verdicts,
            claimed: claimed.transpose()?,
        };
        self.notify(name, announced(settles, now, frees_key));
        Ok(turn)
    }

    fn cancel(&self, name: &str, which: Which<'_>) -> Result<Cancelled> {
        let answer = self.call(Call::Cancel, name, |command| add_which(command, which))?;
        let mut answer = Answer::of(answer)?;
        Ok(if answer.is_at_end() {
            Cancelled::Never
        } else if answer.number()? == 0 {
            Cancelled::Taken
        } else {
            Cancelled::Gone {
                payload: answer.maybe_bytes()?.unwrap_or_default(),
                attempts: answer.count()?,
            }
        })
    }

    fn reset(&self, name: &str, which: Which<'_>, when: When) -> Result<Reset> {
        let answer = self.call(Call::Reset, name, |command| {
            add_which(command, which);
            add_time(command, when);
        })?;
        let mut answer = Answer::of(answer)?;
        if answer.is_at_end() {
            return Ok(Reset::Never);
        }
        if answer.number()? == 0 {
            return Ok(Reset::Taken);
        }
        self.notify(name, answer.time()?);
        Ok(Reset::Moved)
    }

    fn held_by(&self, name: &str, token: Token, lease: Duration) -> Result<Vec<Lease>> {
        let answer = self.call(Call::HeldBy, name, |command| {
            add_held_by(command, token, lease);
        })?;
        Answer::of(answer)?.leases(token)
    }

    fn watch(&self, name: &str, notifier: Notifier) -> Result<Box<dyn Watch>> {
        let watch = durable_queue::internals::watch(&self.0, name, notifier, no_thread)?;
        let sessions = &self.0.sessions;
        // What begins to listen knows nothing yet, so it waits for anything: without a head, all is
        // announced.
        let mut forget = redis::cmd("HDEL");
        forget.arg(sessions.layout().state(name)).arg("head");
        sessions.with(Need::Quick, |connection| forget.exec(connection))?;
        Ok(watch)
    }

    fn pause(&self, name: &str, paused: bool) -> Result<()> {
        self.call(Call::Pause, name, |command| {
            command.arg(u8::from(paused));
        })?;
        self.notify(name, ANYTHING);
        Ok(())
    }

    fn serialize_keys(&self, name: &str, serial: bool) -> Result<()> {
        self.call(Call::SerializeKeys, name, |command| {
            command.arg(u8::from(serial));
        })?;
        Ok(())
    }

    fn stats(&self, name: &str) -> Result<StoreStats> {
        let mut answer = Answer::of(self.call(Call::Stats, name, |_| {})?)?;
        let mut count = || Ok(answer.count()?.min(COUNT_LIMIT));
        Ok(StoreStats {
            jobs: count()?,
            due: count()?,
            dead: count()?,
            paused: count()? == 1,
            serial_keys: count()? == 1,
        })
    }

    fn list(
        &self,
        name: &str,
        after: Option<(StoreTime, JobId)>,
        most: u32,
    ) -> Result<Vec<ListedJob>> {
        let answer = self.call(Call::List, name, |command| {
            command.arg(most);
            if let Some((due, id)) = after {
                command.arg(point(due)).arg(id_text(id));
            }
        })?;
        let mut answer = Answer::of(answer)?;
        let now = answer.time()?;
        answer.nested()?.listed(now)
    }

    fn dead(&self, name: &str, after: Option<JobId>, most: u32) -> Result<Vec<DeadJob>> {
        let answer = self.call(Call::Dead, name, |command| {
            let after = after.map_or("-inf".to_owned(), id_text);
            command.arg(most).arg(after);
        })?;
        Answer::of(answer)?.dead()
    }

    fn redrive(&self, name: &str, ids: &[JobId]) -> Result<usize> {
        let count = self.count(Call::Redrive, name, ids)?;
        if count > 0 {
            self.notify(name, ANYTHING);
        }
        Ok(count)
    }

    fn delete_dead(&self, name: &str, ids: &[JobId]) -> Result<usize> {
        self.count(Call::DeleteDead, name, ids)
    }
}
