//! Claims: what is found, and held from then on.

use rusqlite::{Connection, Row, params};

use super::{Queue, execute, failure, find, id_of, number, sql, statement};
use crate::error::StoreError;
use crate::job::Token;
use crate::store::{Claim, Claimed, Lease, Result};
use crate::time::StoreTime;

/// Claims what is due and what falls due soon; first what is due and urgent, if it comes first.
pub(super) fn claim(
    connection: &Connection,
    now: StoreTime,
    queue: Queue,
    claim: &Claim,
) -> Result<Claimed> {
    let Claim {
        token,
        max,
        start,
        ahead,
        horizon,
        lease,
        urgent_first,
    } = *claim;
    let until = now.after(lease).as_micros();
    let [now, end] = [now, now.after(horizon)].map(StoreTime::as_micros);
    let bytes = token.as_bytes();
    let max = if queue.paused { 0 } else { max };
    let mut start = start.min(max);
    let begin = |lease: &Lease| {
        let text = match lease.key {
            None => sql::CLAIM_DUE,
            Some(_) => sql::CLAIM_DUE_KEYED,
        };
        execute(connection, text, params![number(lease.id), bytes, until])
    };
    let keep = |lease: &Lease| {
        let values = params![number(lease.id), bytes, until];
        execute(connection, sql::CLAIM_AHEAD, values)
    };
    let (mut leases, mut held) = (Vec::new(), Vec::new());
    let room = max.min(start.saturating_add(ahead));
    if urgent_first && room > 0 {
        let values = params![queue.id, now, room];
        read_leases(connection, sql::DUE_URGENT, values, token, &mut leases)?;
        held = leases.split_off(leases.len().min(start as usize));
        for lease in &mut leases {
            begin(lease)?;
            lease.started = true;
            lease.attempts += 1;
        }
        for lease in &held {
            keep(lease)?;
        }
        start -= count(&leases);
    }
    if start > 0 {
        let urgent = leases.len();
        let values = params![queue.id, now, start];
        read_leases(connection, sql::DUE, values, token, &mut leases)?;
        for lease in &leases[urgent..] {
            begin(lease)?;
        }
    }
    let ahead = ahead.min(max - count(&leases)) - count(&held);
    if ahead > 0 {
        let urgent = held.len();
        let values = params![queue.id, end, ahead, now];
        read_leases(connection, sql::SOON, values, token, &mut held)?;
        for lease in &held[urgent..] {
            keep(lease)?;
        }
    }
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
