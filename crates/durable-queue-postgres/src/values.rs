//! Values on their way to the server: parameters, never text of a statement.

use std::fmt;

use bytes::BytesMut;
use durable_queue::internals::Sizes;
use durable_queue::store::{Act, JobState, Lease, ListedJob, Settle};
use durable_queue::{ErrorKind, JobId, Merge, NewJob, Put, StoreError, StoreTime, Token, When};
use postgres::Row;
use postgres::types::{IsNull, ToSql, Type, accepts, to_sql_checked};

type Failure = Box<dyn std::error::Error + Sync + Send>;

/// The most bytes of a payload. The server would take some more, and its memory would be short of several times
/// as much.
pub const PAYLOAD_LIMIT: usize = 64 << 20;
/// The most bytes of a key, of a schedule, and of a queue's name: a row of an index has a third of a page, 2,704
/// bytes, with all that is in it.
pub const KEY_LIMIT: usize = 2 << 10;
/// The most bytes of one push, which the server holds several times while it takes it.
pub const PUSH_LIMIT: usize = 256 << 20;

pub(super) const SIZES: Sizes = Sizes {
    payload: PAYLOAD_LIMIT,
    key: KEY_LIMIT,
    push: PUSH_LIMIT,
};

/// The server's texts have no NUL.
///
/// # Errors
/// [`ErrorKind::BadName`].
pub(super) fn check_name(queue: &str) -> durable_queue::store::Result<()> {
    if queue.contains('\0') {
        return Err(StoreError::new(ErrorKind::BadName));
    }
    Ok(())
}

/// A value that the client's own log of parameters does not show: a payload, a key, an error.
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

/// A token, as the sixteen bytes of a `uuid`.
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

/// A duration in microseconds, rounded up, or as much as there is.
pub(super) fn micros(span: std::time::Duration) -> i64 {
    StoreTime::from_micros(0).after(span).as_micros()
}

/// A time, and whether it is a delay.
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

/// Jobs as the functions `enqueue` and `enqueue_plain` take them: an array of each field.
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
        }
    }
}

/// Whether it depends on no other job, and is as most are.
pub(super) fn is_plain(job: &NewJob<'_>) -> bool {
    let is_bounded = matches!(job.merge, Merge::DebounceUntil(_));
    job.key.is_none() && job.schedule.is_none() && !is_bounded
}

fn merge(merge: Merge) -> i16 {
    match merge {
        Merge::Keep => 0,
        Merge::Earliest => 1,
        Merge::Latest => 2,
        Merge::Debounce | Merge::DebounceUntil(_) => 3,
    }
}

/// What became of one job, and the time that was set.
pub(super) fn put(row: &Row) -> Result<(Put, StoreTime), postgres::Error> {
    let id = id_of(row.try_get(0)?);
    let put = match row.try_get::<_, i16>(1)? {
        0 => Put::New(id),
        1 => Put::Merged(id),
        _ => Put::Kept(id),
    };
    Ok((put, StoreTime::from_micros(row.try_get(2)?)))
}

const START: i16 = 0;
const EXTEND: i16 = 1;
const ACK: i16 = 2;
const RETRY: i16 = 3;
const BURY: i16 = 4;
const RELEASE: i16 = 5;
const AGAIN: i16 = 6;

/// Settles as the function `turn` takes them.
pub(super) struct Settles {
    pub(super) acts: Vec<i16>,
    pub(super) ids: Vec<i64>,
    pub(super) tokens: Vec<Uuid>,
    pub(super) times: Vec<i64>,
    pub(super) delays: Vec<bool>,
    pub(super) errors: Hidden<Vec<Option<String>>>,
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
        };
        settles.iter().fold(none, |mut all, settle| {
            let (act, (time, delay)) = match settle.act {
                Act::Start { lease } => (START, (micros(lease), true)),
                Act::Extend { lease } => (EXTEND, (micros(lease), true)),
                Act::Ack => (ACK, (0, true)),
                Act::Retry { when } => (RETRY, time(when)),
                Act::Bury { .. } => (BURY, (0, true)),
                // So many attempts less.
                Act::Reject { .. } => (BURY, (1, false)),
                Act::Release => (RELEASE, (0, true)),
                Act::Again { when } => (AGAIN, time(when)),
            };
            // The server's texts have no NUL.
            let error = match settle.act {
                Act::Bury { error } | Act::Reject { error } => {
                    Some(error.replace('\0', "\u{fffd}"))
                }
                _ => None,
            };
            all.acts.push(act);
            all.times.push(time);
            all.delays.push(delay);
            all.errors.0.push(error);
            all
        })
    }

    /// Whether those that are carried out together touch no job twice, nor a key that another frees.
    pub(super) fn are_apart(&self) -> bool {
        let has = |acts: &[i16]| self.acts.iter().any(|act| acts.contains(act));
        if has(&[START]) && has(&[RETRY, RELEASE, AGAIN]) {
            return false;
        }
        let mut ids = self.ids.clone();
        ids.sort_unstable();
        ids.windows(2).all(|pair| pair[0] != pair[1])
    }
}

/// The first columns of `turn_9` and `held_by_6`.
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
    })
}

/// A row of a turn: a lease, or the last one, which says how the turn went.
pub(super) fn lease_or_last(row: Row, token: Token) -> Result<Result<Lease, postgres::Error>, Row> {
    match row.try_get(0) {
        Ok(Some(id)) => Ok(lease(&row, id, token)),
        _ => Err(row),
    }
}

pub(super) fn listed(row: &Row) -> Result<ListedJob, postgres::Error> {
    let due = StoreTime::from_micros(row.try_get(1)?);
    let now = StoreTime::from_micros(row.try_get(8)?);
    Ok(ListedJob {
        id: id_of(row.try_get(0)?),
        due,
        at: StoreTime::from_micros(row.try_get(2)?),
        state: JobState::of(row.try_get(3)?, row.try_get(4)?, due, now),
        attempts: attempts(row.try_get(5)?),
        key: row.try_get(6)?,
        schedule: row.try_get(7)?,
        urgent: row.try_get(9)?,
    })
}

pub(super) fn attempts(number: i32) -> u32 {
    u32::try_from(number).unwrap_or(0)
}
