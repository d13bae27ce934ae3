//! Claims: finding jobs and leasing them.

use durable_queue::store::{Claim, Claimed, Lease, PARK_LIMIT, Result, SHORTLY};
use durable_queue::{StoreError, StoreTime, Token};
use rusqlite::{Connection, Row, params};

use super::limits::Limits;
use super::statements::{Repeated, all, execute, failure, find, id_of, number, statement};
use super::{Queue, sql};

/// Claims due jobs, and jobs that fall due within the horizon. With `urgent_first`, due urgent jobs come
/// first.
pub(super) fn claim(
    connection: &Connection,
    now: StoreTime,
    queue: Queue,
    claim: &Claim,
) -> Result<Claimed> {
    let Claim {
        token,
        start,
        ahead,
        urgent_first,
        ..
    } = *claim;
    let bytes = token.as_bytes();
    let until = now.after(claim.lease).as_micros();
    let end = now.after(claim.horizon).as_micros();
    let micros = now.as_micros();
    let max = if queue.paused { 0 } else { claim.max };
    let start = start.min(max);
    let repeated = |text| Repeated::new(connection, text);
    let mut plain = repeated(sql::CLAIM_DUE);
    let mut keyed = repeated(sql::CLAIM_DUE_KEYED);
    let mut later = repeated(sql::CLAIM_AHEAD);
    let mut begin = |lease: &mut Lease| {
        if !lease.started {
            lease.started = true;
            lease.attempts += 1;
        }
        let statement = match lease.key {
            None => &mut plain,
            Some(_) => &mut keyed,
        };
        statement.execute_for(lease.id, params![bytes, until])
    };
    let mut keep = |lease: &mut Lease| later.execute_for(lease.id, params![bytes, until]);
    let urgent = |room: u32, into: &mut Vec<Lease>| {
        let values = params![queue.id, micros, room];
        read_leases(connection, sql::DUE_URGENT, values, token, into)
    };
    let due = |room: u32, into: &mut Vec<Lease>| {
        let values = params![queue.id, micros, room];
        read_leases(connection, sql::DUE, values, token, into)
    };
    let due_ahead = |room: u32, into: &mut Vec<Lease>| {
        let values = params![queue.id, micros, room];
        read_leases(connection, sql::DUE_AHEAD, values, token, into)
    };
    let soon = |room: u32, into: &mut Vec<Lease>| {
        let values = params![queue.id, end, room, micros];
        read_leases(connection, sql::SOON, values, token, into)
    };
    let mut limits = Limits::new(connection, now, queue)?;
    limits.call(connection, now)?;
    // Leases jobs returned by `find` until there are `room` more in `into`.
    let mut take = |find: Find<'_>, hold: Hold<'_>, room: u32, into: &mut Vec<Lease>| loop {
        let from = into.len();
        let wanted = room - count(into);
        if wanted == 0 || limits.parked() >= PARK_LIMIT {
            return Ok(());
        }
        find(wanted, into)?;
        if queue.per_key == 0 && !queue.has_limits {
            return into[from..]
                .iter_mut()
                .try_for_each(|lease| hold(lease).map(drop));
        }
        let (found, mut is_put_off) = (into.split_off(from), false);
        for mut lease in found {
            if admits(connection, now, queue, claim, &mut limits, &lease)? {
                hold(&mut lease)?;
                into.push(lease);
            } else {
                is_put_off = true;
            }
        }
        // Postponing makes room in the index for later jobs.
        if !is_put_off {
            return Ok::<_, StoreError>(());
        }
    };
    let (mut leases, mut held) = (Vec::new(), Vec::new());
    if urgent_first {
        take(&urgent, &mut begin, start, &mut leases)?;
        // Otherwise there are no more urgent jobs.
        if count(&leases) == start {
            take(&urgent, &mut keep, ahead.min(max - start), &mut held)?;
        }
    }
    take(&due, &mut begin, start, &mut leases)?;
    let room = ahead.min(max - count(&leases));
    take(&due_ahead, &mut keep, room, &mut held)?;
    take(&soon, &mut keep, room, &mut held)?;
    leases.append(&mut held);
    limits.call(connection, now)?;
    limits.save(connection)?;
    // By due time, not by the time from which they could be claimed.
    leases.sort_by_key(|lease| (lease.due, lease.id));
    let times = |row: &Row<'_>| Ok([row.get(0)?, row.get(1)?]);
    let found: Option<[Option<i64>; 2]> = find(connection, sql::FIRST, [queue.id], times)?;
    let [first, first_free] = found
        .unwrap_or_default()
        .map(|time| time.map_or(StoreTime::NEVER, StoreTime::from_micros));
    Ok(Claimed {
        leases,
        first: first.min(limits.next_token(connection, now)?),
        first_free,
    })
}

/// Returns whether the limits of its kind and its key admit the job, which then has its place. If not, it was
/// parked or postponed.
fn admits(
    connection: &Connection,
    now: StoreTime,
    queue: Queue,
    claim: &Claim,
    limits: &mut Limits,
    lease: &Lease,
) -> Result<bool> {
    if !limits.has_room(now, lease) {
        limits.park(connection, lease)?;
        return Ok(false);
    }
    match has_its_key(connection, now, queue, claim, lease)? {
        Access::Denied => {
            limits.forget(number(lease.id));
            return Ok(false);
        }
        Access::Taken => limits.read_leases(connection, now)?,
        Access::Free => {}
    }
    limits.take(connection, now, lease)?;
    Ok(true)
}

/// Of a job to its key.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Access {
    Free,
    /// Holders whose leases have expired were fenced off.
    Taken,
    /// The job was postponed.
    Denied,
}

type Find<'a> = &'a dyn Fn(u32, &mut Vec<Lease>) -> Result<()>;
type Hold<'a> = &'a mut dyn FnMut(&mut Lease) -> Result<usize>;

/// Returns whether the job can be claimed as far as its key is concerned: no live lease holds another job of
/// the key and, if this job is open, no started job of the key waits. If not, postpones the job; if so,
/// fences off holders of other jobs of the key whose leases have expired.
fn has_its_key(
    connection: &Connection,
    now: StoreTime,
    queue: Queue,
    claim: &Claim,
    lease: &Lease,
) -> Result<Access> {
    let Some(key) = lease.key.as_ref().filter(|_| queue.per_key > 0) else {
        return Ok(Access::Free);
    };
    if queue.per_key > 1 {
        return has_room_of_key(connection, now, queue, claim, lease);
    }
    let id = number(lease.id);
    let others = params![queue.id, key, id, now.as_micros()];
    let times = |row: &Row<'_>| Ok([row.get(0)?, row.get(1)?]);
    let found: Option<[Option<i64>; 2]> = find(connection, sql::OTHERS, others, times)?;
    let [lease, begun] = found
        .unwrap_or_default()
        .map(|it| it.map(StoreTime::from_micros));
    let held = lease.filter(|end| *end > now);
    // A parked job has no time.
    let begun = begun.map(|due| match due {
        StoreTime::NEVER => now.after(claim.lease),
        due => due.max(now.after(SHORTLY)),
    });
    let Some(until) = held.or(begun) else {
        if lease.is_some() {
            execute(connection, sql::FENCE_OFF, params![queue.id, key, id])?;
            return Ok(Access::Taken);
        }
        return Ok(Access::Free);
    };
    // A claim may take it the horizon before `due`, so this delays it until `until` and no longer.
    let due = until.after(claim.horizon).as_micros();
    execute(connection, sql::PUT_OFF, params![id, due])?;
    Ok(Access::Denied)
}

/// Like `has_its_key`, for a maximum above one, which keeps no order of a key.
fn has_room_of_key(
    connection: &Connection,
    now: StoreTime,
    queue: Queue,
    claim: &Claim,
    lease: &Lease,
) -> Result<Access> {
    let id = number(lease.id);
    let most = queue.per_key as usize;
    let read = |row: &Row<'_>| Ok((row.get(0)?, StoreTime::from_micros(row.get(1)?)));
    let others = params![queue.id, lease.key, id];
    let mut others: Vec<(i64, StoreTime)> = all(connection, sql::KEY_LEASES, others, read)?;
    others.sort_unstable_by_key(|(id, end)| (*end, *id));
    let expired = others.iter().filter(|(_, end)| *end <= now).count();
    if others.len() - expired >= most {
        let (_, end) = others[others.len() - most];
        let due = end.after(claim.horizon).as_micros();
        execute(connection, sql::PUT_OFF, params![id, due])?;
        return Ok(Access::Denied);
    }
    let needed = (others.len() + 1).saturating_sub(most);
    for (other, _) in &others[..needed] {
        execute(connection, sql::FENCE_OFF_ONE, [other])?;
    }
    Ok(if needed > 0 {
        Access::Taken
    } else {
        Access::Free
    })
}

/// At most as many as a claim asks for.
fn count(leases: &[Lease]) -> u32 {
    u32::try_from(leases.len()).unwrap_or(u32::MAX)
}

/// Appends the jobs found by a statement to `into`.
pub(super) fn read_leases(
    connection: &Connection,
    text: &str,
    values: impl rusqlite::Params,
    token: Token,
    into: &mut Vec<Lease>,
) -> Result<()> {
    let mut statement = statement(connection, text)?;
    let rows = statement.query_map(values, |row| {
        Ok(Lease {
            id: id_of(row.get(0)?),
            token,
            due: StoreTime::from_micros(row.get(1)?),
            started: row.get(2)?,
            attempts: row.get(3)?,
            key: row.get(4)?,
            payload: row.get(5)?,
            schedule: row.get(6)?,
            urgent: row.get(7)?,
            kind: row.get(8)?,
            options: row.get(9)?,
            failures: row.get(10)?,
            cancelled: row.get(11)?,
        })
    });
    for lease in rows.map_err(failure)? {
        into.push(lease.map_err(failure)?);
    }
    Ok(())
}
