//! Pushes.

use durable_queue::internals::ANYTHING;
use durable_queue::store::{RECALL, Result};
use durable_queue::{Merge, NewJob, Put, StoreTime, Token};
use rusqlite::{Connection, Row, params};

use super::groups::leave;
use super::limits::call_parked;
use super::statements::{Repeated, execute, find, id_of};
use super::{Queue, queue, sql, token};

/// Inserts jobs. Also returns the time to announce: the earliest due time that was set, or a recall.
pub(super) fn enqueue(
    connection: &Connection,
    now: StoreTime,
    name: &str,
    jobs: &[NewJob<'_>],
) -> Result<(Vec<Put>, StoreTime)> {
    let queue = queue(connection, name)?;
    let mut pushes = Pushes {
        connection,
        now,
        queue,
        plain: Repeated::new(connection, sql::INSERT_PLAIN),
        insert: Repeated::new(connection, sql::INSERT),
    };
    let mut earliest = StoreTime::NEVER;
    let mut puts = Vec::with_capacity(jobs.len());
    for job in jobs {
        let (put, announced) = pushes.push(job)?;
        earliest = earliest.min(announced);
        puts.push(put);
    }
    let is_merged = |put: &Put| matches!(put, Put::Merged(_));
    if puts.iter().any(is_merged) && call_parked(connection, now, queue)? {
        earliest = earliest.min(ANYTHING);
    }
    Ok((puts, earliest))
}

/// A batch of pushes.
struct Pushes<'c> {
    connection: &'c Connection,
    now: StoreTime,
    queue: Queue,
    plain: Repeated<'c>,
    insert: Repeated<'c>,
}

/// The open job of a key.
struct Open {
    id: i64,
    at: StoreTime,
    most: StoreTime,
    token: Option<Token>,
}

/// The outcome of a push, and the time to announce.
type Pushed = (Put, StoreTime);

impl Pushes<'_> {
    fn push(&mut self, job: &NewJob<'_>) -> Result<Pushed> {
        let (at, merge) = (job.when.resolve(self.now), job.policy(self.now));
        if is_plain(job) {
            let values = params![self.queue.id, at.as_micros(), job.payload];
            self.plain.execute(values)?;
            return Ok((self.inserted(), at));
        }
        if let Some(pushed) = self.reschedule(job, merge, at)? {
            return Ok(pushed);
        }
        match self.open(job.key)? {
            None => match self.keeper(job.key, merge)? {
                Some(id) => Ok((Put::Kept(id_of(id)), StoreTime::NEVER)),
                None => self.insert(job, at),
            },
            Some(open) => match merge.merged(open.at, open.most, at) {
                None => Ok((Put::Kept(id_of(open.id)), StoreTime::NEVER)),
                Some(at) => self.merge(job, &open, at),
            },
        }
    }

    fn open(&self, key: Option<&[u8]>) -> Result<Option<Open>> {
        let Some(key) = key else {
            return Ok(None);
        };
        let of_key = params![self.queue.id, key];
        find(self.connection, sql::PENDING, of_key, |row| {
            Ok(Open {
                id: row.get(0)?,
                at: StoreTime::from_micros(row.get(1)?),
                most: StoreTime::from_micros(row.get(2)?),
                token: token(row, 3)?,
            })
        })
    }

    /// The job that keeps a push from creating another one, if none is open.
    fn keeper(&self, key: Option<&[u8]>, merge: Merge) -> Result<Option<i64>> {
        let is_asked = matches!(merge, Merge::KeepUntilDone | Merge::KeepDone);
        let Some(key) = key.filter(|_| is_asked) else {
            return Ok(None);
        };
        let of_key = params![self.queue.id, key];
        let started = find(self.connection, sql::FIRST_OF_KEY, of_key, |row| row.get(0))?;
        if started.is_some() || merge == Merge::KeepUntilDone {
            return Ok(started);
        }
        let kept = params![self.queue.id, key, self.now.as_micros()];
        find(self.connection, sql::LAST_DONE, kept, |row| row.get(0))
    }

    fn insert(&mut self, job: &NewJob<'_>, at: StoreTime) -> Result<Pushed> {
        let most = job.merge.most(self.now);
        let at = at.min(most);
        let values = params![
            self.queue.id,
            at.as_micros(),
            most.as_micros(),
            job.key,
            job.payload,
            job.schedule,
            job.urgent,
            job.kind,
            job.options,
            job.group
        ];
        self.insert.execute(values)?;
        Ok((self.inserted(), at))
    }

    fn inserted(&self) -> Put {
        Put::New(id_of(self.connection.last_insert_rowid()))
    }

    fn merge(&self, job: &NewJob<'_>, open: &Open, at: StoreTime) -> Result<Pushed> {
        let values = params![
            open.id,
            at.as_micros(),
            job.payload,
            job.schedule,
            job.urgent,
            job.kind,
            job.options,
            job.group
        ];
        let leaves = leave(self.connection, self.queue, open.id)?;
        execute(self.connection, sql::MERGE, values)?;
        let is_recalled = open.token.is_some_and(|token| token.is_unconfirmed());
        let announced = if is_recalled { RECALL } else { at };
        Ok((Put::Merged(id_of(open.id)), announced.min(leaves)))
    }

    /// A push with a schedule changes the started repeating job of its key, if there is one.
    fn reschedule(&self, job: &NewJob<'_>, merge: Merge, at: StoreTime) -> Result<Option<Pushed>> {
        let (Some(key), Some(schedule)) = (job.key, job.schedule) else {
            return Ok(None);
        };
        let (connection, queue) = (self.connection, self.queue);
        let of_key = params![queue.id, key];
        let read = |row: &Row<'_>| Ok((row.get(0)?, row.get(1)?, row.get(2)?));
        let found: Option<(i64, bool, i64)> = find(connection, sql::BEGUN_SCHEDULE, of_key, read)?;
        let Some((id, is_held, old_at)) = found else {
            return Ok(None);
        };
        let never = StoreTime::NEVER;
        if merge.keeps() {
            return Ok(Some((Put::Kept(id_of(id)), never)));
        }
        let leaves = if is_held {
            never
        } else {
            leave(connection, queue, id)?
        };
        let values = params![
            id,
            job.payload,
            schedule,
            job.urgent,
            at.as_micros(),
            job.kind,
            job.options
        ];
        execute(connection, sql::RESCHEDULE, values)?;
        let earlier = at.min(StoreTime::from_micros(old_at));
        let announced = if is_held { never } else { earlier };
        Ok(Some((Put::Merged(id_of(id)), announced.min(leaves))))
    }
}

/// Returns whether the job has only a payload and a time.
fn is_plain(job: &NewJob<'_>) -> bool {
    let NewJob {
        payload: _,
        when: _,
        key,
        group,
        merge,
        schedule,
        urgent,
        kind,
        options,
    } = job;
    let is_bounded = matches!(merge, Merge::DebounceUntil(_));
    let has_texts = schedule.or(*kind).or(*options).or(*group).is_some();
    !has_texts && key.is_none() && !is_bounded && !urgent
}
