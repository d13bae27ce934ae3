//! Pushes.

use durable_queue::internals::ANYTHING;
use durable_queue::store::{RECALL, Result};
use durable_queue::{Merge, NewJob, Put, StoreTime, Token};
use rusqlite::{Connection, Row, params};

use super::limits::call_parked;
use super::statements::{Repeated, execute, find, id_of};
use super::{Queue, leave_key, queue, sql, token};

/// Inserts jobs. Also returns the time to announce: the earliest due time that was set, or a recall.
pub(super) fn enqueue(
    connection: &Connection,
    now: StoreTime,
    name: &str,
    jobs: &[NewJob<'_>],
) -> Result<(Vec<Put>, StoreTime)> {
    let queue = queue(connection, name)?;
    let mut earliest = StoreTime::NEVER;
    let mut puts = Vec::with_capacity(jobs.len());
    let mut plain = Repeated::new(connection, sql::INSERT_PLAIN);
    let mut insert = Repeated::new(connection, sql::INSERT);
    for job in jobs {
        let (at, merge) = (job.when.resolve(now), job.policy(now));
        if is_plain(job) {
            plain.execute(params![queue.id, at.as_micros(), job.payload])?;
            puts.push(Put::New(id_of(connection.last_insert_rowid())));
            earliest = earliest.min(at);
            continue;
        }
        if let Some((put, at)) = reschedule(connection, queue, job, merge, at)? {
            earliest = earliest.min(at);
            puts.push(put);
            continue;
        }
        let most = job.merge.most(now);
        let read = |row: &Row<'_>| Ok((row.get(0)?, row.get(1)?, row.get(2)?, token(row, 3)?));
        let pending: Option<(i64, i64, i64, Option<Token>)> = match job.key {
            Some(key) => find(connection, sql::PENDING, params![queue.id, key], read)?,
            None => None,
        };
        let (put, at) = match pending {
            None => {
                let at = at.min(most);
                let values = params![
                    queue.id,
                    at.as_micros(),
                    most.as_micros(),
                    job.key,
                    job.payload,
                    job.schedule,
                    job.urgent,
                    job.kind,
                    job.options
                ];
                insert.execute(values)?;
                (Put::New(id_of(connection.last_insert_rowid())), at)
            }
            Some((id, old_at, old_most, token)) => {
                let [old_at, old_most] = [old_at, old_most].map(StoreTime::from_micros);
                match merge.merged(old_at, old_most, at) {
                    None => (Put::Kept(id_of(id)), StoreTime::NEVER),
                    Some(at) => {
                        execute(
                            connection,
                            sql::MERGE,
                            params![
                                id,
                                at.as_micros(),
                                job.payload,
                                job.schedule,
                                job.urgent,
                                job.kind,
                                job.options
                            ],
                        )?;
                        let frees_key = token.is_some() && leave_key(connection, queue, job.key)?;
                        let is_recalled = token.is_some_and(|token| token.is_unconfirmed());
                        let at = if is_recalled { RECALL } else { at };
                        (
                            Put::Merged(id_of(id)),
                            if frees_key { ANYTHING } else { at },
                        )
                    }
                }
            }
        };
        earliest = earliest.min(at);
        puts.push(put);
    }
    let is_merged = |put: &Put| matches!(put, Put::Merged(_));
    if puts.iter().any(is_merged) && call_parked(connection, now, queue)? {
        earliest = earliest.min(ANYTHING);
    }
    Ok((puts, earliest))
}

/// Returns whether the job has only a payload and a time.
fn is_plain(job: &NewJob<'_>) -> bool {
    let NewJob {
        payload: _,
        when: _,
        key,
        merge,
        schedule,
        urgent,
        kind,
        options,
    } = job;
    let is_bounded = matches!(merge, Merge::DebounceUntil(_));
    let has_texts = schedule.or(*kind).or(*options).is_some();
    !has_texts && key.is_none() && !is_bounded && !urgent
}

/// A push with a schedule changes the started repeating job of its key. Also returns the time to announce.
fn reschedule(
    connection: &Connection,
    queue: Queue,
    job: &NewJob<'_>,
    merge: Merge,
    at: StoreTime,
) -> Result<Option<(Put, StoreTime)>> {
    let (Some(key), Some(schedule)) = (job.key, job.schedule) else {
        return Ok(None);
    };
    let of_key = params![queue.id, key];
    let read = |row: &Row<'_>| Ok((row.get(0)?, row.get(1)?, row.get(2)?));
    let found: Option<(i64, bool, i64)> = find(connection, sql::BEGUN_SCHEDULE, of_key, read)?;
    let Some((id, is_held, old_at)) = found else {
        return Ok(None);
    };
    let never = StoreTime::NEVER;
    if merge == Merge::Keep {
        return Ok(Some((Put::Kept(id_of(id)), never)));
    }
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
    Ok(Some((Put::Merged(id_of(id)), announced)))
}
