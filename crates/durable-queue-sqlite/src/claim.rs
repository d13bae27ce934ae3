//! Claims: deciding on each job that may be claimed, then writing the decision.

use durable_queue::StoreTime;
use durable_queue::store::{Claim, Claimed, Lease, PARK_LIMIT, Result, SHORTLY};
use rusqlite::{Connection, Row, params};

use super::candidates::Candidates;
use super::limits::Limits;
use super::statements::{Repeated, all, execute, find, number};
use super::{Queue, sql};

/// Claims due jobs, and jobs that fall due within the horizon. With `urgent_first`, due urgent jobs come
/// first.
pub(super) fn claim(
    connection: &Connection,
    now: StoreTime,
    queue: Queue,
    claim: &Claim<'_>,
) -> Result<Claimed> {
    let terms = Terms {
        connection,
        now,
        queue,
        claim,
    };
    let mut limits = Limits::new(connection, now, queue)?;
    limits.call(connection, now)?;
    let mut candidates = Candidates::new(connection, now, queue, claim);
    let mut writer = Writer::new(terms);
    while limits.parked() < PARK_LIMIT
        && let Some(lease) = candidates.next()?
    {
        match terms.decide(&limits, lease)? {
            Decision::Take(fenced) => writer.take(&mut limits, fenced, candidates.take())?,
            Decision::Park => limits.park(connection, candidates.refuse())?,
            Decision::PutOff(until) => {
                writer.put_off(&mut limits, candidates.refuse(), until)?;
            }
        }
    }
    limits.call(connection, now)?;
    limits.save(connection)?;
    let [first, first_free] = candidates.first()?;
    let next_token = limits.next_token(connection, now, |kind| candidates.has_room(kind))?;
    let mut leases = candidates.into_taken();
    // By due time, not by the time from which they could be claimed.
    leases.sort_by_key(|lease| (lease.due, lease.id));
    Ok(Claimed {
        leases,
        first: first.min(next_token),
        first_free,
    })
}

/// What decides on jobs.
#[derive(Clone, Copy)]
struct Terms<'c> {
    connection: &'c Connection,
    now: StoreTime,
    queue: Queue,
    claim: &'c Claim<'c>,
}

/// What becomes of a job that may be claimed.
enum Decision {
    Take(Fenced),
    /// Its kind has no room.
    Park,
    /// Its key has no room, or another job comes first, at least until this time.
    PutOff(StoreTime),
}

/// Holders of other jobs of the key whose leases have expired, and who are in the way of the job.
enum Fenced {
    None,
    /// All of them.
    OfKey,
    Jobs(Vec<i64>),
}

/// These change nothing.
impl Terms<'_> {
    /// Decides by the limits of the job's kind and key.
    fn decide(self, limits: &Limits, lease: &Lease) -> Result<Decision> {
        if !limits.has_room(self.now, lease) {
            return Ok(Decision::Park);
        }
        match (&lease.key, self.queue.per_key) {
            (None, _) | (_, 0) => Ok(Decision::Take(Fenced::None)),
            (Some(key), 1) => self.decide_in_order(number(lease.id), key),
            (Some(key), most) => self.decide_by_room(number(lease.id), key, most as usize),
        }
    }

    /// A job of a serial key is taken if no live lease holds another job of the key and, if this job is open, no
    /// started job of the key waits.
    fn decide_in_order(self, id: i64, key: &[u8]) -> Result<Decision> {
        let Self {
            connection,
            now,
            queue,
            claim,
        } = self;
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
        Ok(match held.or(begun) {
            Some(until) => Decision::PutOff(until),
            None if lease.is_some() => Decision::Take(Fenced::OfKey),
            None => Decision::Take(Fenced::None),
        })
    }

    /// With a maximum above one, which keeps no order of a key.
    fn decide_by_room(self, id: i64, key: &[u8], most: usize) -> Result<Decision> {
        let read = |row: &Row<'_>| Ok((row.get(0)?, StoreTime::from_micros(row.get(1)?)));
        let others = params![self.queue.id, key, id];
        let mut others: Vec<(i64, StoreTime)> =
            all(self.connection, sql::KEY_LEASES, others, read)?;
        others.sort_unstable_by_key(|(id, end)| (*end, *id));
        let expired = others.iter().filter(|(_, end)| *end <= self.now).count();
        if others.len() - expired >= most {
            let (_, end) = others[others.len() - most];
            return Ok(Decision::PutOff(end));
        }
        let needed = (others.len() + 1).saturating_sub(most);
        let ids = others.iter().take(needed).map(|(id, _)| *id);
        Ok(Decision::Take(match needed {
            0 => Fenced::None,
            _ => Fenced::Jobs(ids.collect()),
        }))
    }
}

/// Writes decisions.
struct Writer<'c> {
    terms: Terms<'c>,
    /// The end of the leases.
    until: i64,
    /// Starts of jobs without a key, and with one.
    plain: Repeated<'c>,
    keyed: Repeated<'c>,
    ahead: Repeated<'c>,
}

impl<'c> Writer<'c> {
    fn new(terms: Terms<'c>) -> Self {
        let repeated = |text| Repeated::new(terms.connection, text);
        Self {
            terms,
            until: terms.now.after(terms.claim.lease).as_micros(),
            plain: repeated(sql::CLAIM_DUE),
            keyed: repeated(sql::CLAIM_DUE_KEYED),
            ahead: repeated(sql::CLAIM_AHEAD),
        }
    }

    /// Takes a job, and starts it or not.
    fn take(
        &mut self,
        limits: &mut Limits,
        fenced: Fenced,
        (lease, starts): (&mut Lease, bool),
    ) -> Result<()> {
        let Terms {
            connection,
            now,
            claim,
            ..
        } = self.terms;
        self.fence_off(limits, fenced, lease)?;
        limits.take(connection, now, lease)?;
        let statement = match (starts, &lease.key) {
            (false, _) => &mut self.ahead,
            (true, None) => &mut self.plain,
            (true, Some(_)) => &mut self.keyed,
        };
        statement.execute_for(lease.id, params![claim.token.as_bytes(), self.until])?;
        lease.started = starts;
        lease.attempts += u32::from(starts);
        Ok(())
    }

    fn fence_off(&self, limits: &mut Limits, fenced: Fenced, lease: &Lease) -> Result<()> {
        let Terms {
            connection,
            now,
            queue,
            ..
        } = self.terms;
        match fenced {
            Fenced::None => return Ok(()),
            Fenced::OfKey => {
                let others = params![queue.id, lease.key, number(lease.id)];
                execute(connection, sql::FENCE_OFF, others)?;
            }
            Fenced::Jobs(ids) => {
                for id in ids {
                    execute(connection, sql::FENCE_OFF_ONE, [id])?;
                }
            }
        }
        // They had places.
        limits.read_leases(connection, now)
    }

    fn put_off(&self, limits: &mut Limits, lease: &Lease, until: StoreTime) -> Result<()> {
        // A claim may take it the horizon before `due`, so this delays it until `until` and no longer.
        let due = until.after(self.terms.claim.horizon).as_micros();
        let id = number(lease.id);
        execute(self.terms.connection, sql::PUT_OFF, params![id, due])?;
        limits.forget(id);
        Ok(())
    }
}
