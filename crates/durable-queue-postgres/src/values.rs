//! Conversion of values to parameters.

use std::fmt;
use std::time::Duration;

use bytes::BytesMut;
use durable_queue::internals::Sizes;
use durable_queue::store::{
    Act, COUNT_LIMIT, Claim, DoneJob, Fate, JobState, Keep, Lease, ListedJob, Settle,
};
use durable_queue::{
    ErrorKind, Groups, JobId, Limit, Merge, NewJob, Put, StartRate, StoreError, StoreTime, Token,
    When,
};
use postgres::Row;
use postgres::types::{IsNull, ToSql, Type, accepts, to_sql_checked};

pub(super) type Failure = Box<dyn std::error::Error + Sync + Send>;

/// Maximum size of a payload in bytes. The server would accept more, but needs several times as much memory.
pub const PAYLOAD_LIMIT: usize = 64 << 20;
/// Maximum size in bytes of a key, a group, a schedule, a kind, the options of a job, or a queue's name. An index row has at most a third of a page,
/// 2,704 bytes in total.
pub const KEY_LIMIT: usize = 2 << 10;
/// Maximum size of a push in bytes. The server holds several copies of it.
pub const PUSH_LIMIT: usize = 256 << 20;

pub(super) const SIZES: Sizes = Sizes {
    payload: PAYLOAD_LIMIT,
    key: KEY_LIMIT,
    push: PUSH_LIMIT,
};

/// Checks the jobs of a push: their sizes, and that no kind, options or group contains NUL.
///
/// # Errors
/// [`ErrorKind::TooLarge`], [`ErrorKind::BadName`].
pub(super) fn check_jobs(queue: &str, jobs: &[NewJob<'_>]) -> durable_queue::store::Result<()> {
    let texts = jobs
        .iter()
        .flat_map(|job| [job.kind, job.options, job.group]);
    texts.flatten().try_for_each(check_name)?;
    check_name(queue)?;
    SIZES.check(queue, jobs)
}

/// Checks for NUL, which the server's texts cannot contain.
///
/// # Errors
/// [`ErrorKind::BadName`].
pub(super) fn check_name(queue: &str) -> durable_queue::store::Result<()> {
    if queue.contains('\0') {
        return Err(StoreError::new(ErrorKind::BadName));
    }
    Ok(())
}

/// A value that the client's log of parameters must not show: a payload, a key, an error.
pub(super) struct Hidden<T>(pub(super) T);

impl<T> fmt::Debug for Hidden<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("..")
    }
}

impl<T: ToSql> ToSql for Hidden<T> {
    fn to_sql(&self, kind: &Type, out: &mut BytesMut) -> Result<IsNull, Failure> {
        self.0.to_sql(kind, out)
    }

    fn accepts(kind: &Type) -> bool {
        T::accepts(kind)
    }

    to_sql_checked!();
}

/// A token, as a `uuid`.
#[derive(Debug)]
pub(super) struct Uuid(pub(super) Token);

impl ToSql for Uuid {
    fn to_sql(&self, _: &Type, out: &mut BytesMut) -> Result<IsNull, Failure> {
        out.extend_from_slice(self.0.as_bytes());
        Ok(IsNull::No)
    }

    accepts!(UUID);
    to_sql_checked!();
}

/// Converts a duration to microseconds, rounded up and saturating.
pub(super) fn micros(span: std::time::Duration) -> i64 {
    StoreTime::from_micros(0).after(span).as_micros()
}

/// Returns the time, and whether it is a delay.
pub(super) fn time(when: When) -> (i64, bool) {
    match when {
        When::After(delay) => (micros(delay), true),
        When::At(at) => (at.as_micros(), false),
    }
}

pub(super) fn number(id: JobId) -> i64 {
    id.as_u64().cast_signed()
}

pub(super) fn id_of(id: i64) -> JobId {
    JobId::from_u64(id.cast_unsigned())
}

/// Jobs as parameters of the functions `enqueue` and `enqueue_plain`: one array per field.
pub(super) struct NewJobs<'a> {
    pub(super) times: Vec<i64>,
    pub(super) delays: Vec<bool>,
    pub(super) payloads: Hidden<Vec<&'a [u8]>>,
    pub(super) keys: Hidden<Vec<Option<&'a [u8]>>>,
    pub(super) merges: Vec<i16>,
    pub(super) mosts: Vec<Option<i64>>,
    pub(super) most_delays: Vec<Option<bool>>,
    pub(super) schedules: Vec<Option<&'a str>>,
    pub(super) urgents: Vec<bool>,
    /// `None` if no job has any.
    pub(super) kinds: Option<Vec<Option<&'a str>>>,
    pub(super) options: Hidden<Option<Vec<Option<&'a str>>>>,
    pub(super) groups: Hidden<Option<Vec<Option<&'a str>>>>,
}

impl<'a> NewJobs<'a> {
    pub(super) fn new(jobs: &[NewJob<'a>]) -> Self {
        let (times, delays) = jobs.iter().map(|job| time(job.when)).unzip();
        let most = |job: &NewJob<'_>| match job.merge {
            Merge::DebounceUntil(most) => {
                let (most, delay) = time(most);
                (Some(most), Some(delay))
            }
            _ => (None, None),
        };
        let (mosts, most_delays) = jobs.iter().map(most).unzip();
        Self {
            times,
            delays,
            payloads: Hidden(jobs.iter().map(|job| job.payload).collect()),
            keys: Hidden(jobs.iter().map(|job| job.key).collect()),
            merges: jobs.iter().map(|job| merge(job.merge)).collect(),
            mosts,
            most_delays,
            schedules: jobs.iter().map(|job| job.schedule).collect(),
            urgents: jobs.iter().map(|job| job.urgent).collect(),
            kinds: texts(jobs, |job| job.kind),
            options: Hidden(texts(jobs, |job| job.options)),
            groups: Hidden(texts(jobs, |job| job.group)),
        }
    }
}

/// Returns a text of each job, or `None` if no job has any.
pub(super) fn texts<'a>(
    jobs: &[NewJob<'a>],
    text: impl Fn(&NewJob<'a>) -> Option<&'a str>,
) -> Option<Vec<Option<&'a str>>> {
    let texts: Vec<_> = jobs.iter().map(text).collect();
    texts.iter().any(Option::is_some).then_some(texts)
}

/// Returns whether the job has neither a key nor a schedule nor a debounce bound.
pub(super) fn is_plain(job: &NewJob<'_>) -> bool {
    let is_bounded = matches!(job.merge, Merge::DebounceUntil(_));
    job.key.is_none() && job.schedule.is_none() && !is_bounded
}

pub(super) fn merge(merge: Merge) -> i16 {
    match merge {
        Merge::Keep => 0,
        Merge::Earliest => 1,
        Merge::Latest => 2,
        Merge::Debounce | Merge::DebounceUntil(_) => 3,
        Merge::KeepUntilDone => 4,
        Merge::KeepDone => 5,
    }
}

/// Parses the outcome of a push, and the due time that was set.
pub(super) fn put(row: &Row) -> Result<(Put, StoreTime), postgres::Error> {
    let put = put_of(row.try_get(0)?, row.try_get(1)?);
    Ok((put, StoreTime::from_micros(row.try_get(2)?)))
}

pub(super) fn put_of(id: i64, put: i16) -> Put {
    let id = id_of(id);
    match put {
        0 => Put::New(id),
        1 => Put::Merged(id),
        _ => Put::Kept(id),
    }
}

const START: i16 = 0;
const EXTEND: i16 = 1;
const ACK: i16 = 2;
const RETRY: i16 = 3;
const BURY: i16 = 4;
const RELEASE: i16 = 5;
const AGAIN: i16 = 6;
const RETRY_UNCOUNTED: i16 = 7;
const KEEP: i16 = 8;

/// Settles as parameters of the function `turn`.
pub(super) struct Settles {
    pub(super) acts: Vec<i16>,
    pub(super) ids: Vec<i64>,
    pub(super) tokens: Vec<Uuid>,
    pub(super) times: Vec<i64>,
    pub(super) delays: Vec<bool>,
    pub(super) errors: Hidden<Vec<Option<String>>>,
    /// `None` if no settle has any.
    pub(super) failures: Hidden<Option<Vec<Option<String>>>>,
}

impl Settles {
    pub(super) fn new(settles: &[Settle<'_>]) -> Self {
        let none = Self {
            acts: Vec::with_capacity(settles.len()),
            ids: settles.iter().map(|settle| number(settle.id)).collect(),
            tokens: settles.iter().map(|settle| Uuid(settle.token)).collect(),
            times: Vec::with_capacity(settles.len()),
            delays: Vec::with_capacity(settles.len()),
            errors: Hidden(Vec::with_capacity(settles.len())),
            failures: Hidden(failures(settles)),
        };
        settles.iter().fold(none, |mut all, settle| {
            let (act, (time, delay)) = match settle.act {
                Act::Start { lease } => (START, (micros(lease), true)),
                Act::Extend { lease } => (EXTEND, (micros(lease), true)),
                Act::Ack => (ACK, (0, true)),
                Act::Keep(keep) => (KEEP, (micros(keep.span), true)),
                Act::Retry { when, counts, .. } if counts => (RETRY, time(when)),
                Act::Retry { when, .. } => (RETRY_UNCOUNTED, time(when)),
                // The number of attempts to subtract.
                Act::Bury { counts, .. } => (BURY, (i64::from(!counts), counts)),
                Act::Release => (RELEASE, (0, true)),
                Act::Again { when } => (AGAIN, time(when)),
            };
            let error = match settle.act {
                Act::Bury { error, .. } => Some(storable(error)),
                Act::Keep(Keep { result, .. }) => result.map(hexadecimal),
                _ => None,
            };
            all.acts.push(act);
            all.times.push(time);
            all.delays.push(delay);
            all.errors.0.push(error);
            all
        })
    }

    /// Returns whether no two settles concern the same job, or a key that another one frees.
    pub(super) fn are_apart(&self) -> bool {
        let has = |acts: &[i16]| self.acts.iter().any(|act| acts.contains(act));
        if has(&[START]) && has(&[RETRY, RETRY_UNCOUNTED, RELEASE, AGAIN]) {
            return false;
        }
        let mut ids = self.ids.clone();
        ids.sort_unstable();
        ids.windows(2).all(|pair| pair[0] != pair[1])
    }
}

/// The list of a claim as parameters of the functions `turn` and `look`: one array per field, `None` without a list.
pub(super) struct Listed<'a> {
    pub(super) kinds: Option<Vec<&'a str>>,
    pub(super) rooms: Option<Vec<i64>>,
}

impl<'a> Listed<'a> {
    /// Leaves out kinds with NUL, which no job has.
    pub(super) fn of(claim: Option<Claim<'a>>) -> Self {
        let listed = claim.and_then(|claim| claim.kinds);
        let rooms = listed.map(|kinds| {
            let kinds = kinds.iter().filter(|it| check_name(it.kind).is_ok());
            kinds.map(|it| (it.kind, i64::from(it.room))).unzip()
        });
        let (kinds, rooms) = rooms.unzip();
        Self { kinds, rooms }
    }

    /// Takes the room of jobs that were claimed.
    pub(super) fn take(&mut self, leases: &[Lease]) {
        let (Some(kinds), Some(rooms)) = (&self.kinds, &mut self.rooms) else {
            return;
        };
        for (kind, room) in kinds.iter().zip(rooms) {
            let is_its = |lease: &&Lease| lease.kind.as_deref() == Some(kind);
            let taken = leases.iter().filter(is_its).count();
            *room -= i64::try_from(taken).unwrap_or(i64::MAX);
        }
    }
}

/// The server's texts cannot contain NUL.
fn storable(text: &str) -> String {
    text.replace('\0', "\u{fffd}")
}

fn hexadecimal(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let digit = |of: u8| char::from(DIGITS[usize::from(of)]);
    let digits = bytes.iter().flat_map(|byte| [byte >> 4, byte & 15]);
    digits.map(digit).collect()
}

fn failures(settles: &[Settle<'_>]) -> Option<Vec<Option<String>>> {
    let failures = settles.iter().map(|settle| match settle.act {
        Act::Retry { failures, .. } | Act::Bury { failures, .. } => failures.map(storable),
        Act::Keep(keep) => Some(micros(keep.took).to_string()),
        _ => None,
    });
    let failures: Vec<_> = failures.collect();
    failures.iter().any(Option::is_some).then_some(failures)
}

/// Parses the row of `fate`.
pub(super) fn fate(row: &Row, id: JobId) -> Result<Fate, postgres::Error> {
    Ok(match row.try_get(0)? {
        1 => Fate::Open,
        2 => Fate::Done(DoneJob {
            id,
            key: row.try_get(2)?,
            kind: row.try_get(3)?,
            attempts: attempts(row.try_get(4)?),
            finished: StoreTime::from_micros(row.try_get(5)?),
            took: Duration::from_micros(row.try_get::<_, i64>(6)?.unsigned_abs()),
            until: StoreTime::from_micros(row.try_get(7)?),
            result: row.try_get(8)?,
        }),
        3 => Fate::Dead {
            error: row.try_get(1)?,
        },
        _ => Fate::Gone,
    })
}

/// Parses the last columns of `stats`: kinds, and the numbers of their jobs.
pub(super) fn counts(row: &Row) -> Result<Vec<(String, u32)>, postgres::Error> {
    let kinds: Vec<String> = row.try_get(4)?;
    let counts: Vec<i64> = row.try_get(5)?;
    let counts = counts
        .into_iter()
        .map(|count| u32::try_from(count).unwrap_or(COUNT_LIMIT));
    Ok(kinds.into_iter().zip(counts).collect())
}

/// Returns the sort of a rule, and the seats of each group. No rule has zero seats.
pub(super) fn rule(rule: Option<Groups>) -> (i64, i64) {
    let mode = match rule {
        None | Some(Groups::Ordered) => 0,
        Some(Groups::Concurrency(_)) => 1,
        Some(Groups::Fair) => 2,
    };
    (mode, rule.map_or(0, |rule| i64::from(rule.seats())))
}

/// Parses a row of `limits`: the rule of groups, or the limits of a kind.
pub(super) fn limits(row: &Row) -> Result<Vec<Limit>, postgres::Error> {
    let count = |column: usize| {
        let count: Option<i64> = row.try_get(column)?;
        Ok(count.map(|count| u32::try_from(count).unwrap_or(u32::MAX)))
    };
    let (most, jobs) = (count(1)?, count(2)?);
    let Some(kind) = row.try_get::<_, Option<String>>(0)? else {
        let rule = match most {
            Some(0) => Groups::Ordered,
            Some(1) => Groups::Concurrency(jobs.unwrap_or(1)),
            _ => Groups::Fair,
        };
        return Ok(vec![Limit::Groups(rule)]);
    };
    let per: Option<i64> = row.try_get(3)?;
    let span = |per: i64| Duration::from_micros(per.unsigned_abs());
    let rate = jobs.zip(per);
    let rate = rate.map(|(jobs, per)| StartRate::new(jobs, span(per)));
    let most = most.map(|most| Limit::per_kind(&*kind, most));
    let rate = rate.map(|rate| Limit::RateOfKind { kind, rate });
    Ok(most.into_iter().chain(rate).collect())
}

/// Parses the first columns of `turn` and `held_by`.
pub(super) fn lease(row: &Row, id: i64, token: Token) -> Result<Lease, postgres::Error> {
    Ok(Lease {
        id: id_of(id),
        token,
        due: StoreTime::from_micros(row.try_get(1)?),
        started: row.try_get(2)?,
        attempts: attempts(row.try_get(3)?),
        key: row.try_get(4)?,
        payload: row.try_get(5)?,
        schedule: row.try_get(6)?,
        urgent: row.try_get(7)?,
        kind: row.try_get(8)?,
        options: row.try_get(9)?,
        failures: row.try_get(10)?,
        cancelled: row.try_get(11)?,
    })
}

/// Parses a row of a turn: a lease, or the last one, which describes the turn.
pub(super) fn lease_or_last(row: Row, token: Token) -> Result<Result<Lease, postgres::Error>, Row> {
    match row.try_get(0) {
        Ok(Some(id)) => Ok(lease(&row, id, token)),
        _ => Err(row),
    }
}

pub(super) fn listed(row: &Row) -> Result<ListedJob, postgres::Error> {
    let due = StoreTime::from_micros(row.try_get(1)?);
    let now = StoreTime::from_micros(row.try_get(8)?);
    let at = StoreTime::from_micros(row.try_get(2)?);
    let attempts = attempts(row.try_get(5)?);
    Ok(ListedJob {
        id: id_of(row.try_get(0)?),
        due,
        at,
        state: JobState::of(row.try_get(3)?, row.try_get(4)?, due, at, attempts, now),
        attempts,
        key: row.try_get(6)?,
        group: row.try_get(13)?,
        schedule: row.try_get(7)?,
        urgent: row.try_get(9)?,
        kind: row.try_get(10)?,
        failures: row.try_get(11)?,
        cancelled: row.try_get(12)?,
    })
}

pub(super) fn attempts(number: i32) -> u32 {
    u32::try_from(number).unwrap_or(0)
}
