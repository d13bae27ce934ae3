//! Claims: what is found, and held from then on.

use durable_queue::store::{Claim, Claimed, Lease, Result, SHORTLY};
use durable_queue::{StoreError, StoreTime, Token};
use rusqlite::{Connection, Row, params};

use super::{Queue, execute, failure, find, id_of, number, sql, statement};

/// Claims what is due and what falls due soon; first what is due and urgent, if it comes first.
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
    let begin = |lease: &mut Lease| {
        if !lease.started {
            lease.started = true;
            lease.attempts += 1;
        }
        let text = match lease.key {
            None => sql::CLAIM_DUE,
            Some(_) => sql::CLAIM_DUE_KEYED,
        };
        execute(connection, text, params![number(lease.id), bytes, until])
    };
    let keep = |lease: &mut Lease| {
        let values = params![number(lease.id), bytes, until];
        execute(connection, sql::CLAIM_AHEAD, values)
    };
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
    // Holds what `find` finds until there are `room`, and so that this adds to what is there.
    let take = |find: Find<'_>, hold: Hold<'_>, room: u32, into: &mut Vec<Lease>| loop {
        let from = into.len();
        let wanted = room - count(into);
        if wanted == 0 {
            return Ok(());
        }
        find(wanted, into)?;
        if !queue.serial_keys {
            return into[from..]
                .iter_mut()
                .try_for_each(|lease| hold(lease).map(drop));
        }
        let (found, mut is_put_off) = (into.split_off(from), false);
        for mut lease in found {
            if has_its_key(connection, now, queue, claim, &lease)? {
                hold(&mut lease)?;
                into.push(lease);
            } else {
                is_put_off = true;
            }
        }
        // Which makes room for what comes after it.
        if !is_put_off {
            return Ok::<_, StoreError>(());
        }
    };
    let (mut leases, mut held) = (Vec::new(), Vec::new());
    if urgent_first {
        take(&urgent, &begin, start, &mut leases)?;
        // If there were fewer than there is room for, there are no more.
        if count(&leases) == start {
            take(&urgent, &keep, ahead.min(max - start), &mut held)?;
        }
    }
    take(&due, &begin, start, &mut leases)?;
    let room = ahead.min(max - count(&leases));
    take(&due_ahead, &keep, room, &mut held)?;
    take(&soon, &keep, room, &mut held)?;
    leases.append(&mut held);
    // By their own times, not by those at which they could be claimed.
    leases.sort_by_key(|lease| (lease.due, lease.id));
    let time = |row: &Row<'_>| row.get(0).map(StoreTime::from_micros);
    let first = |text| {
        let found = find(connection, text, [queue.id], time)?;
        Ok::<_, StoreError>(found.unwrap_or(StoreTime::NEVER))
    };
    Ok(Claimed {
        leases,
        first: first(sql::FIRST)?,
        first_free: first(sql::FIRST_FREE)?,
    })
}

type Find<'a> = &'a dyn Fn(u32, &mut Vec<Lease>) -> Result<()>;
type Hold<'a> = &'a dyn Fn(&mut Lease) -> Result<usize>;

/// Whether no lease that lives holds another job of the key, nor, if this one is open, another one waits that has
/// been started. If so, the job is put off; if not, who held another one, under a lease that has ended, is
/// fenced off.
fn has_its_key(
    connection: &Connection,
    now: StoreTime,
    queue: Queue,
    claim: &Claim,
    lease: &Lease,
) -> Result<bool> {
    let Some(key) = &lease.key else {
        return Ok(true);
    };
    let id = number(lease.id);
    let others = params![queue.id, key, id];
    let times = |row: &Row<'_>| Ok([row.get(0)?, row.get(1)?]);
    let found: Option<[Option<i64>; 2]> = find(connection, sql::OTHERS, others, times)?;
    let [lease, begun] = found
        .unwrap_or_default()
        .map(|it| it.map(StoreTime::from_micros));
    let held = lease.filter(|end| *end > now);
    let begun = begun.map(|due| due.max(now.after(SHORTLY)));
    let Some(until) = held.or(begun) else {
        if lease.is_some() {
            execute(connection, sql::FENCE_OFF, others)?;
        }
        return Ok(true);
    };
    // So that it is looked at again then, and not before: it may be claimed the horizon before it is due.
    let due = until.after(claim.horizon).as_micros();
    execute(connection, sql::PUT_OFF, params![id, due])?;
    Ok(false)
}

/// They are no more than a claim has asked for.
fn count(leases: &[Lease]) -> u32 {
    u32::try_from(leases.len()).unwrap_or(u32::MAX)
}

/// Adds what a statement finds to `into`.
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
        })
    });
    for lease in rows.map_err(failure)? {
        into.push(lease.map_err(failure)?);
    }
    Ok(())
}
