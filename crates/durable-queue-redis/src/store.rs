//! The calls of the trait: each is one script.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use durable_queue::internals::ANYTHING;
use durable_queue::store::{
    Act, CANCEL_REQUEST_LIMIT, COUNT_LIMIT, Claim, Claimed, DeadJob, Fate, Lease, ListedJob,
    RECALL, Result, Settle, Store, StoreStats, Turn, Watch, announced,
};
use durable_queue::{
    Cancelled, ErrorKind, JobId, Limit, NewJob, Notifier, Put, Reset, StoreError, StoreTime,
    Threads, Token, When, Which,
};
use redis::{Cmd, Value};

use crate::failure::no_thread;
use crate::script::{Call, Need};
use crate::shared::Shared;
use crate::values::{
    Answer, KEY_LIMIT, PAYLOAD_LIMIT, SIZES, add_claim, add_failures, add_held_by, add_job,
    add_settle, add_time, add_which, failures, id_text, limit_arguments, point,
};

/// A store on a server or a cluster, for all processes that can reach it. Clones share the sessions.
#[derive(Clone)]
pub struct RedisStore(pub(crate) Arc<Shared>);

impl fmt::Debug for RedisStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("RedisStore").field(&self.0.sessions).finish()
    }
}

impl RedisStore {
    fn call(&self, call: Call, queue: &str, add: impl Fn(&mut Cmd)) -> Result<Value> {
        self.call_with(call, queue, call.need().is_sure(), add)
    }

    /// `is_durable`: whether the answer means that replicas have the change, if the options require it.
    fn call_with(
        &self,
        call: Call,
        queue: &str,
        is_durable: bool,
        add: impl Fn(&mut Cmd),
    ) -> Result<Value> {
        let Shared {
            sessions,
            hub,
            channel,
            ..
        } = &*self.0;
        sessions.call(call, queue, is_durable, |command| {
            if call.announces() {
                command.arg(channel).arg(hub.origin()).arg(queue);
            }
            add(command);
        })
    }

    /// Calls this process's notifiers. The script has notified other processes.
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
        self::counted(&counted)
    }
}

fn counted(answer: &Value) -> Result<usize> {
    match answer {
        Value::Int(count) => Ok(usize::try_from(*count).unwrap_or(0)),
        _ => Err(StoreError::lost_answer(ErrorKind::Corrupt)),
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
        let is_too_large = |settle: &Settle<'_>| {
            let error = match settle.act {
                Act::Bury { error, .. } => Some(error),
                _ => None,
            };
            let mut texts = error.into_iter().chain(failures(settle));
            texts.any(|text| text.len() > PAYLOAD_LIMIT)
        };
        if settles.iter().any(is_too_large) {
            return Err(StoreError::new(ErrorKind::TooLarge));
        }
        if let Some(claim) = claim {
            self.0.sessions.learn_lease(claim.lease);
        }
        // A lost claim makes its jobs claimable again, so only settles are worth waiting for.
        let is_durable = !settles.is_empty();
        let answer = self.call_with(Call::Turn, name, is_durable, |command| {
            command.arg(settles.len());
            for settle in settles {
                add_settle(command, settle);
            }
            add_claim(command, claim);
            add_failures(command, settles);
        })?;
        let mut answer = Answer::of(answer)?;
        let (now, flags) = (answer.time()?, answer.number()?);
        let (paused, calls) = (flags & 1 != 0, flags & 2 != 0);
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
        self.notify(name, announced(settles, now, calls));
        Ok(turn)
    }

    fn cancel(&self, name: &str, which: Which<'_>) -> Result<Cancelled> {
        let answer = self.call(Call::Cancel, name, |command| add_which(command, which))?;
        let mut answer = Answer::of(answer)?;
        Ok(if answer.is_at_end() {
            Cancelled::Never
        } else if answer.number()? == 0 {
            self.notify(name, RECALL);
            Cancelled::Taken
        } else {
            Cancelled::Gone {
                payload: answer.maybe_bytes()?.unwrap_or_default(),
                attempts: answer.count()?,
            }
        })
    }

    fn cancel_requests(&self, name: &str) -> Result<Vec<(JobId, Token)>> {
        let answer = self.call(Call::CancelRequests, name, |command| {
            command.arg(CANCEL_REQUEST_LIMIT);
        })?;
        Answer::of(answer)?.requests()
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
        // A new listener has no knowledge, so it waits for any job: without a head, all pushes are announced.
        let mut forget = redis::cmd("HDEL");
        forget.arg(sessions.layout().state(name)).arg("head");
        sessions.with(Need::Quick, name, |connection, way| {
            way.prepare(connection)?;
            forget.exec(connection)
        })?;
        Ok(watch)
    }

    fn pause(&self, name: &str, paused: bool) -> Result<()> {
        self.call(Call::Pause, name, |command| {
            command.arg(u8::from(paused));
        })?;
        self.notify(name, ANYTHING);
        Ok(())
    }

    fn limit(&self, name: &str, limit: &Limit, is_set: bool) -> Result<()> {
        let arguments = limit_arguments(limit, is_set);
        let arguments = arguments.ok_or(StoreError::new(ErrorKind::Unsupported))?;
        if arguments.iter().any(|argument| argument.len() > KEY_LIMIT) {
            return Err(StoreError::new(ErrorKind::TooLarge));
        }
        self.call(Call::Limit, name, |command| _ = command.arg(&arguments))?;
        self.notify(name, ANYTHING);
        Ok(())
    }

    fn limits(&self, name: &str) -> Result<Vec<Limit>> {
        Answer::of(self.call(Call::ListLimits, name, |_| {})?)?.limits()
    }

    fn stats(&self, name: &str) -> Result<StoreStats> {
        let mut answer = Answer::of(self.call(Call::Stats, name, |_| {})?)?;
        let mut count = || Ok(answer.count()?.min(COUNT_LIMIT));
        Ok(StoreStats {
            jobs: count()?,
            due: count()?,
            dead: count()?,
            paused: count()? == 1,
            due_of_kinds: answer.nested()?.counts()?,
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

    fn threads(&self) -> Option<Threads> {
        Some(self.0.threads.clone())
    }

    fn fate(&self, name: &str, id: JobId) -> Result<Fate> {
        let answer = self.call(Call::Fate, name, |command| {
            command.arg(id_text(id));
        })?;
        Answer::of(answer)?.fate(id)
    }

    fn delete_done(&self, name: &str, most: u32) -> Result<usize> {
        let deleted = self.call(Call::DeleteDone, name, |command| {
            command.arg(most);
        })?;
        counted(&deleted)
    }
}
