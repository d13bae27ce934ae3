//! Conversion of values to arguments, and of responses.

use std::time::Duration;

use durable_queue::internals::Sizes;
use durable_queue::store::{
    Act, COUNT_LIMIT, Claim, DeadJob, DoneJob, Fate, JobState, Keep, KindRoom, Lease, ListedJob,
    Result, Settle, Verdict,
};
use durable_queue::{
    ErrorKind, Groups, JobId, Limit, Merge, NewJob, Put, StartRate, StoreError, StoreTime, Token,
    When, Which,
};
use redis::{Cmd, Value};

/// "Never": the greatest integer up to which a double represents all integers.
const NEVER: i64 = 1 << 53;

/// The longest time in which the bucket of a rate is filled, in microseconds: 142 years. From now, it ends before
/// "never".
const LONGEST_RATE: u64 = 1 << 52;

/// Maximum size of a payload in bytes.
pub const PAYLOAD_LIMIT: usize = 64 << 20;
/// Maximum size in bytes of a key, a group, a schedule, a kind, the options of a job, or a queue's name.
pub const KEY_LIMIT: usize = 1 << 20;
/// Maximum size of a push in bytes. The server holds two copies of it.
pub const PUSH_LIMIT: usize = 256 << 20;

pub(crate) const SIZES: Sizes = Sizes {
    payload: PAYLOAD_LIMIT,
    key: KEY_LIMIT,
    push: PUSH_LIMIT,
};

fn clamped(time: i64) -> i64 {
    time.clamp(-NEVER, NEVER)
}

pub(crate) fn time_of(time: i64) -> StoreTime {
    StoreTime::from_micros(match time {
        time if time >= NEVER => return StoreTime::NEVER,
        time if time <= -NEVER => i64::MIN,
        time => time,
    })
}

/// Converts a duration to microseconds, rounded up and saturating.
fn micros(span: Duration) -> i64 {
    clamped(StoreTime::from_micros(0).after(span).as_micros())
}

pub(crate) fn point(time: StoreTime) -> i64 {
    clamped(time.as_micros())
}

/// Adds a time in the format of `resolve` in `lua/base.lua`.
pub(crate) fn add_time(call: &mut Cmd, when: When) {
    match when {
        When::After(delay) => call.arg(format!("+{}", micros(delay))),
        When::At(at) => call.arg(point(at)),
    };
}

/// Formats an id with leading zeros. A number with more digits is not the id of any job, and sorts after all
/// of them.
pub(crate) fn id_text(id: JobId) -> String {
    format!("{:016}", id.as_u64())
}

pub(crate) fn add_which(call: &mut Cmd, which: Which<'_>) {
    match which {
        Which::Id(id) => call.arg("id").arg(id_text(id)),
        Which::Key(key) => call.arg("key").arg(key),
    };
}

/// Adds a job in the format of `lua/enqueue.lua`.
pub(crate) fn add_job(call: &mut Cmd, job: &NewJob<'_>) {
    add_time(call, job.when);
    call.arg(job.payload);
    let has_texts = job.kind.or(job.options).or(job.group).is_some();
    let is_special = job.urgent || has_texts;
    if let (None, None, Merge::Keep, false) = (job.key, job.schedule, job.merge, is_special) {
        call.arg("");
        return;
    }
    call.arg(match job.merge {
        Merge::Keep => "keep",
        Merge::KeepUntilDone => "until-done",
        Merge::KeepDone => "done",
        Merge::Earliest => "earliest",
        Merge::Latest => "latest",
        Merge::Debounce | Merge::DebounceUntil(_) => "debounce",
    });
    match job.merge {
        Merge::DebounceUntil(most) => add_time(call, most),
        _ => _ = call.arg(""),
    }
    let mut add_part = |part: Option<&[u8]>| {
        let part = part.map(|part| [b"=", part].concat());
        call.arg(part.unwrap_or_default());
    };
    add_part(job.key);
    add_part(job.schedule.map(str::as_bytes));
    call.arg(u8::from(job.urgent) + 2 * u8::from(has_texts));
    if has_texts {
        for text in [job.kind, job.options, job.group] {
            call.arg(text.map(|text| ["=", text].concat()).unwrap_or_default());
        }
    }
}

/// Adds a settle in the format of `lua/turn.lua`.
pub(crate) fn add_settle(call: &mut Cmd, settle: &Settle<'_>) {
    let mut begin = |act: &str| {
        let token = &settle.token.as_bytes()[..];
        call.arg(act).arg(id_text(settle.id)).arg(token);
    };
    match settle.act {
        Act::Start { lease } => {
            begin("start");
            call.arg(micros(lease));
        }
        Act::Extend { lease } => {
            begin("extend");
            call.arg(micros(lease));
        }
        Act::Ack => {
            begin("ack");
            call.arg("");
        }
        Act::Keep(Keep { span, took, result }) => {
            begin("keep");
            let mut value = format!("{} {}", micros(span), micros(took)).into_bytes();
            if let Some(result) = result {
                value.extend_from_slice(b" =");
                value.extend_from_slice(result);
            }
            call.arg(value);
        }
        Act::Again { when } => {
            begin("again");
            add_time(call, when);
        }
        Act::Retry { when, counts, .. } => {
            begin(if counts { "retry" } else { "defer" });
            add_time(call, when);
        }
        Act::Bury { error, counts, .. } => {
            begin(if counts { "bury" } else { "reject" });
            call.arg(error);
        }
        Act::Release => {
            begin("release");
            call.arg("");
        }
    }
}

/// Returns the history of failures that a settle stores.
pub(crate) fn failures<'a>(settle: &Settle<'a>) -> Option<&'a str> {
    match settle.act {
        Act::Retry { failures, .. } | Act::Bury { failures, .. } => failures,
        _ => None,
    }
}

/// Adds the histories of failures in the format of `lua/turn.lua`.
pub(crate) fn add_failures(call: &mut Cmd, settles: &[Settle<'_>]) {
    for (number, settle) in (1_usize..).zip(settles) {
        if let Some(failures) = failures(settle) {
            call.arg(number).arg(failures);
        }
    }
}

/// Returns a limit in the format of `lua/limit.lua`, or `None` if there is no such limit.
pub(crate) fn limit_arguments(limit: &Limit, is_set: bool) -> Option<Vec<String>> {
    let (begin, values) = match limit {
        Limit::Groups(rule) => {
            let rule = if is_set {
                rule_text(*rule)
            } else {
                NO_RULE.into()
            };
            return Some(vec!["groups".into(), rule]);
        }
        Limit::PerKind { kind, most } => (vec!["kind", kind], vec![u64::from(*most)]),
        Limit::RateOfKind { kind, rate } => {
            let per = u64::try_from(rate.per().as_micros()).unwrap_or(u64::MAX);
            let values = vec![u64::from(rate.jobs()), per, interval(*rate)];
            (vec!["rate", kind], values)
        }
        _ => return None,
    };
    let values = values.into_iter().filter(|_| is_set);
    let begin = begin.into_iter().map(str::to_owned);
    Some(begin.chain(values.map(|value| value.to_string())).collect())
}

const ORDERED: &str = "ordered";
const FAIR: &str = "fair";
const NO_RULE: &str = "none";

/// Returns a rule in the format of `lua/groups.lua`.
fn rule_text(rule: Groups) -> String {
    match rule {
        Groups::Ordered => ORDERED.into(),
        Groups::Fair => FAIR.into(),
        Groups::Concurrency(_) => rule.seats().to_string(),
    }
}

fn rule_of(text: &str) -> Result<Option<Groups>> {
    Ok(Some(match text {
        NO_RULE => return Ok(None),
        ORDERED => Groups::Ordered,
        FAIR => Groups::Fair,
        most => Groups::Concurrency(most.parse().map_err(|_| unreadable())?),
    }))
}

/// Returns the time of a token in microseconds. A bucket is filled in at most [`LONGEST_RATE`], so that times in
/// which it is filled are exact.
fn interval(rate: StartRate) -> u64 {
    let jobs = u128::from(rate.jobs());
    let exact = rate.per().as_micros().div_ceil(jobs);
    let most = u128::from(LONGEST_RATE / u64::from(rate.jobs()));
    u64::try_from(exact.min(most)).unwrap_or(LONGEST_RATE)
}

/// Adds an optional claim in the format of `lua/turn.lua`.
pub(crate) fn add_claim(call: &mut Cmd, claim: Option<Claim>) {
    let Some(claim) = claim else {
        call.arg("");
        return;
    };
    call.arg(&claim.token.as_bytes()[..])
        .arg(claim.max)
        .arg(claim.start)
        .arg(claim.ahead)
        .arg(micros(claim.horizon))
        .arg(micros(claim.lease))
        .arg(u8::from(claim.urgent_first));
    let Some(kinds) = claim.kinds else {
        call.arg("");
        return;
    };
    // No job has a longer one.
    let kinds = kinds.iter().filter(|it| it.kind.len() <= KEY_LIMIT);
    call.arg(kinds.clone().count());
    for KindRoom { kind, room } in kinds {
        call.arg(*kind).arg(*room);
    }
}

pub(crate) fn add_held_by(call: &mut Cmd, token: Token, lease: Duration) {
    call.arg(&token.as_bytes()[..]).arg(micros(lease));
}

/// A script's response, read value by value. An unexpected value is reported at the end, as an error of a
/// call that was carried out.
pub(crate) struct Answer(std::vec::IntoIter<Value>);

fn unreadable() -> StoreError {
    StoreError::lost_answer(ErrorKind::Corrupt)
}

impl Answer {
    pub(crate) fn of(value: Value) -> Result<Self> {
        match value {
            Value::Array(values) => Ok(Self(values.into_iter())),
            _ => Err(unreadable()),
        }
    }

    pub(crate) fn is_at_end(&self) -> bool {
        self.0.as_slice().is_empty()
    }

    fn next(&mut self) -> Result<Value> {
        self.0.next().ok_or_else(unreadable)
    }

    pub(crate) fn nested(&mut self) -> Result<Self> {
        Self::of(self.next()?)
    }

    pub(crate) fn number(&mut self) -> Result<i64> {
        match self.next()? {
            Value::Int(number) => Ok(number),
            _ => Err(unreadable()),
        }
    }

    pub(crate) fn count(&mut self) -> Result<u32> {
        Ok(u32::try_from(self.number()?).unwrap_or(u32::MAX))
    }

    pub(crate) fn time(&mut self) -> Result<StoreTime> {
        Ok(time_of(self.number()?))
    }

    pub(crate) fn maybe_time(&mut self) -> Result<Option<StoreTime>> {
        match self.next()? {
            Value::Nil => Ok(None),
            Value::Int(time) => Ok(Some(time_of(time))),
            _ => Err(unreadable()),
        }
    }

    fn id(&mut self) -> Result<JobId> {
        Ok(JobId::from_u64(self.number()?.unsigned_abs()))
    }

    pub(crate) fn maybe_bytes(&mut self) -> Result<Option<Vec<u8>>> {
        match self.next()? {
            Value::Nil => Ok(None),
            Value::BulkString(bytes) => Ok(Some(bytes)),
            _ => Err(unreadable()),
        }
    }

    pub(crate) fn bytes(&mut self) -> Result<Vec<u8>> {
        self.maybe_bytes()?.ok_or_else(unreadable)
    }

    fn maybe_text(&mut self) -> Result<Option<String>> {
        let bytes = self.maybe_bytes()?;
        bytes
            .map(|bytes| String::from_utf8(bytes).map_err(|_| unreadable()))
            .transpose()
    }

    /// Outcomes of pushes in the order of `letters`.
    pub(crate) fn puts(&mut self, letters: &[u8]) -> Result<Vec<Put>> {
        let put = |letter: &u8| {
            let id = self.id()?;
            match letter {
                b'n' => Ok(Put::New(id)),
                b'm' => Ok(Put::Merged(id)),
                b'k' => Ok(Put::Kept(id)),
                _ => Err(unreadable()),
            }
        };
        letters.iter().map(put).collect()
    }

    pub(crate) fn verdicts(&mut self) -> Result<Vec<Verdict>> {
        let verdict = |letter: &u8| match letter {
            b'd' => Ok(Verdict::Done),
            b's' => Ok(Verdict::Stale),
            b'n' => Ok(Verdict::NotDue),
            _ => Err(unreadable()),
        };
        self.bytes()?.iter().map(verdict).collect()
    }

    /// Kinds and numbers of their jobs, ordered by kind.
    pub(crate) fn counts(self) -> Result<Vec<(String, u32)>> {
        let mut counts = self.all(|answer| {
            let kind = answer.maybe_text()?.ok_or_else(unreadable)?;
            Ok((kind, answer.count()?.min(COUNT_LIMIT)))
        })?;
        counts.sort_unstable();
        Ok(counts)
    }

    fn all<T>(mut self, read: impl Fn(&mut Self) -> Result<T>) -> Result<Vec<T>> {
        let mut all = Vec::new();
        while !self.is_at_end() {
            all.push(read(&mut self)?);
        }
        Ok(all)
    }

    /// Marked jobs.
    pub(crate) fn requests(self) -> Result<Vec<(JobId, Token)>> {
        self.all(|answer| {
            let (id, token) = (answer.id()?, answer.bytes()?);
            let token = token.try_into().map_err(|_| unreadable())?;
            Ok((id, Token::from_bytes(token)))
        })
    }

    /// Limits of groups and kinds.
    pub(crate) fn limits(mut self) -> Result<Vec<Limit>> {
        let rule = self.maybe_text()?.ok_or_else(unreadable)?;
        let mut limits: Vec<_> = rule_of(&rule)?.map(Limit::Groups).into_iter().collect();
        let mut kinds = self.all(|answer| {
            let kind = answer.maybe_text()?.ok_or_else(unreadable)?;
            let (most, jobs) = (answer.maybe_count()?, answer.maybe_count()?);
            let per = answer.maybe_text()?;
            Ok((kind, most, jobs.zip(per)))
        })?;
        kinds.sort();
        for (kind, most, rate) in kinds {
            limits.extend(most.map(|most| Limit::per_kind(&*kind, most)));
            if let Some((jobs, per)) = rate {
                let per = per.parse().map_err(|_| unreadable())?;
                limits.push(Limit::rate_of_kind(kind, jobs, Duration::from_micros(per)));
            }
        }
        Ok(limits)
    }

    fn maybe_count(&mut self) -> Result<Option<u32>> {
        match self.next()? {
            Value::Nil => Ok(None),
            Value::Int(count) => Ok(Some(u32::try_from(count).unwrap_or(u32::MAX))),
            _ => Err(unreadable()),
        }
    }

    pub(crate) fn leases(self, token: Token) -> Result<Vec<Lease>> {
        let mut leases = self.all(|answer| {
            let (id, due) = (answer.id()?, answer.time()?);
            let flags = answer.number()?;
            let mut lease = Lease {
                id,
                token,
                due,
                started: flags & 1 != 0,
                urgent: flags & 2 != 0,
                attempts: answer.count()?,
                key: answer.maybe_bytes()?,
                payload: answer.bytes()?,
                schedule: answer.maybe_text()?,
                kind: None,
                options: None,
                failures: None,
                cancelled: flags & 4 != 0,
            };
            if flags & 8 != 0 {
                lease.kind = answer.maybe_text()?;
                lease.options = answer.maybe_text()?;
                lease.failures = answer.maybe_text()?;
            }
            Ok(lease)
        })?;
        leases.sort_by_key(|lease| (lease.due, lease.id));
        Ok(leases)
    }

    pub(crate) fn listed(self, now: StoreTime) -> Result<Vec<ListedJob>> {
        self.all(|answer| {
            let (id, due, at) = (answer.id()?, answer.time()?, answer.time()?);
            let (flags, attempts) = (answer.number()?, answer.count()?);
            let mut job = ListedJob {
                id,
                due,
                at,
                state: JobState::of(flags & 1 != 0, flags & 2 != 0, due, at, attempts, now),
                urgent: flags & 4 != 0,
                attempts,
                key: answer.maybe_bytes()?,
                group: None,
                schedule: answer.maybe_text()?,
                kind: None,
                failures: None,
                cancelled: flags & 8 != 0,
            };
            if flags & 16 != 0 {
                job.kind = answer.maybe_text()?;
                job.failures = answer.maybe_text()?;
                job.group = answer.maybe_text()?;
            }
            Ok(job)
        })
    }

    pub(crate) fn fate(mut self, id: JobId) -> Result<Fate> {
        if self.is_at_end() {
            return Ok(Fate::Gone);
        }
        Ok(match self.number()? {
            1 => Fate::Open,
            2 => Fate::Done(DoneJob {
                id,
                attempts: self.count()?,
                finished: self.time()?,
                took: Duration::from_micros(self.number()?.unsigned_abs()),
                until: self.time()?,
                key: self.maybe_bytes()?,
                kind: self.maybe_text()?,
                result: self.maybe_bytes()?,
            }),
            _ => Fate::Dead {
                error: self.maybe_text()?.ok_or_else(unreadable)?,
            },
        })
    }

    pub(crate) fn dead(self) -> Result<Vec<DeadJob>> {
        self.all(|answer| {
            let mut dead = DeadJob {
                id: answer.id()?,
                key: answer.maybe_bytes()?,
                group: None,
                // It may have been deleted.
                payload: answer.maybe_bytes()?.unwrap_or_default(),
                attempts: answer.count()?,
                buried: answer.time()?,
                error: answer.maybe_text()?.ok_or_else(unreadable)?,
                schedule: answer.maybe_text()?,
                urgent: false,
                kind: None,
                options: None,
                failures: None,
            };
            let flags = answer.number()?;
            dead.urgent = flags & 1 != 0;
            if flags & 2 != 0 {
                dead.kind = answer.maybe_text()?;
                dead.options = answer.maybe_text()?;
                dead.failures = answer.maybe_text()?;
                dead.group = answer.maybe_text()?;
            }
            Ok(dead)
        })
    }
}
