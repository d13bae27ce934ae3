//! Claims: deciding on each job that may be claimed, then writing the decision.

use durable_queue::StoreTime;
use durable_queue::store::{Claim, Claimed, Lease, PARK_LIMIT, Result};
use rusqlite::{Connection, params};

use super::candidates::Candidates;
use super::groups::{Seat, Seats, renew};
use super::limits::Limits;
use super::statements::{Repeated, find, number};
use super::{Queue, sql};

/// Claims due jobs, and jobs that fall due within the horizon. With `urgent_first`, due urgent jobs come
/// first. Also returns whether a job was called that this claim does not take, although other processes may.
pub(super) fn claim(
    connection: &Connection,
    now: StoreTime,
    queue: Queue,
    claim: &Claim<'_>,
) -> Result<(Claimed, bool)> {
    let mut limits = Limits::new(connection, now, queue)?;
    limits.call(connection, now)?;
    let has_more_to_free = renew(connection, now, queue)?;
    let mut seats = Seats::new(connection, now, queue);
    let mut candidates = Candidates::new(connection, now, queue, claim);
    let mut writer = Writer::new(connection, now, claim);
    let (mut parked, mut any_called, mut all_called) = (0, false, Vec::new());
    while parked < PARK_LIMIT {
        let Some(lease) = candidates.next()? else {
            // Jobs that were called may be among those that the claim has passed.
            if !std::mem::take(&mut any_called) {
                break;
            }
            candidates.begin_again();
            continue;
        };
        let has_room = |limits: &Limits| limits.has_room(now, lease);
        let called = match seats.find(lease)? {
            Seat::Awaited => {
                parked += 1;
                limits.forget(candidates.refuse().id);
                continue;
            }
            seat if !has_room(&limits) => {
                parked += 1;
                limits.park(connection, candidates.refuse(), seats.while_parked(&seat))?;
                match seat {
                    Seat::Of(sitter) => seats.park(sitter)?,
                    _ => continue,
                }
            }
            seat => {
                writer.take(&mut limits, candidates.take())?;
                match seat {
                    Seat::Of(sitter) => seats.take(sitter)?,
                    _ => continue,
                }
            }
        };
        any_called |= !called.is_empty();
        all_called.extend(called.iter().map(|called| called.id));
        for called in called.iter().filter(|called| called.is_moved) {
            candidates.pass(called.id);
        }
    }
    limits.call(connection, now)?;
    limits.save(connection)?;
    let [mut first, first_free] = candidates.first()?;
    if has_more_to_free {
        first = first.min(now);
    }
    let mut calls_others = false;
    for id in all_called.into_iter().filter(|_| claim.kinds.is_some()) {
        let kind: Option<Option<String>> =
            find(connection, sql::FREE_KIND, [number(id)], |row| row.get(0))?;
        let has_room = |kind: Option<String>| kind.is_some_and(|kind| candidates.has_room(&kind));
        calls_others |= kind.is_some_and(|kind| !has_room(kind));
    }
    let next_token = limits.next_token(connection, now, |kind| candidates.has_room(kind))?;
    let mut leases = candidates.into_taken();
    // By due time, not by the time from which they could be claimed.
    leases.sort_by_key(|lease| (lease.due, lease.id));
    let claimed = Claimed {
        leases,
        first: first.min(next_token),
        first_free,
    };
    Ok((claimed, calls_others))
}

/// Writes what is taken.
struct Writer<'c> {
    connection: &'c Connection,
    now: StoreTime,
    claim: &'c Claim<'c>,
    /// The end of the leases.
    until: i64,
    /// Starts of jobs without a key, and with one.
    plain: Repeated<'c>,
    keyed: Repeated<'c>,
    ahead: Repeated<'c>,
}

impl<'c> Writer<'c> {
    fn new(connection: &'c Connection, now: StoreTime, claim: &'c Claim<'c>) -> Self {
        let repeated = |text| Repeated::new(connection, text);
        Self {
            connection,
            now,
            claim,
            until: now.after(claim.lease).as_micros(),
            plain: repeated(sql::CLAIM_DUE),
            keyed: repeated(sql::CLAIM_DUE_KEYED),
            ahead: repeated(sql::CLAIM_AHEAD),
        }
    }

    /// Takes a job, and starts it or not.
    fn take(&mut self, limits: &mut Limits, (lease, starts): (&mut Lease, bool)) -> Result<()> {
        limits.take(self.connection, self.now, lease)?;
        let statement = match (starts, &lease.key) {
            (false, _) => &mut self.ahead,
            (true, None) => &mut self.plain,
            (true, Some(_)) => &mut self.keyed,
        };
        statement.execute_for(lease.id, params![self.claim.token.as_bytes(), self.until])?;
        lease.started = starts;
        lease.attempts += u32::from(starts);
        Ok(())
    }
}
