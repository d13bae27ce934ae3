//! Limits of kinds: places and tokens of jobs, and jobs that wait for them.
//!
//! Requirements 13 to 19 of [`durable_queue::store`] define the terms. A job's `place` is the number of its
//! limit while it is held or called, and the negative number while it is parked.

use std::collections::VecDeque;
use std::time::Duration;

use durable_queue::store::{Lease, PARK_LIMIT, Result};
use durable_queue::{ErrorKind, JobId, Limit, StartRate, StoreError, StoreTime};
use rusqlite::{Connection, Row, params};

use super::kinds::Part;
use super::statements::{all, execute, find, number};
use super::{Queue, groups, sql};

/// The limits of a queue's kinds, read once per transaction.
pub(super) struct Limits {
    kinds: Vec<KindLimit>,
}

struct KindLimit {
    id: i64,
    kind: String,
    most: Option<u32>,
    rate: Option<StartRate>,
    /// When the bucket of the rate is full.
    full: StoreTime,
    is_changed: bool,
    /// Number of live leases, if there is a maximum.
    live: u32,
    /// Jobs whose leases have expired, if there is a maximum. Those that ended first come first.
    expired: VecDeque<i64>,
}

impl KindLimit {
    /// Number of jobs that may be held in addition to live leases.
    fn places(&self) -> u32 {
        self.most.unwrap_or(u32::MAX).saturating_sub(self.live)
    }

    /// Number of jobs that may be claimed for a start at `at`.
    fn room(&self, at: StoreTime) -> u32 {
        let tokens = self
            .rate
            .map_or(u32::MAX, |rate| rate.tokens(self.full, at));
        self.places().min(tokens)
    }

    fn is_parked(&self, connection: &Connection) -> Result<bool> {
        Ok(find(connection, sql::IS_PARKED, [-self.id], |_| Ok(()))?.is_some())
    }

    fn read_leases(&mut self, connection: &Connection, now: StoreTime) -> Result<()> {
        (self.live, self.expired) = (0, VecDeque::new());
        if self.most.is_none() {
            return Ok(());
        }
        let read = |row: &Row<'_>| Ok((row.get(0)?, StoreTime::from_micros(row.get(1)?)));
        let mut leases: Vec<(i64, StoreTime)> = all(connection, sql::LEASES, [self.id], read)?;
        leases.sort_unstable_by_key(|(id, end)| (*end, *id));
        for (id, end) in leases {
            if end > now {
                self.live += 1;
            } else {
                self.expired.push_back(id);
            }
        }
        Ok(())
    }
}

impl Limits {
    /// Reads nothing if the queue has no limits.
    pub(super) fn new(connection: &Connection, now: StoreTime, queue: Queue) -> Result<Self> {
        let mut kinds = Vec::new();
        if queue.has_limits {
            kinds = all(connection, sql::LIMITS, [queue.id], read)?;
        }
        for limit in &mut kinds {
            limit.read_leases(connection, now)?;
        }
        Ok(Self { kinds })
    }

    fn of(&self, lease: &Lease) -> Option<usize> {
        let kind = lease.kind.as_ref()?;
        self.kinds.iter().position(|limit| limit.kind == *kind)
    }

    pub(super) fn has_room(&self, now: StoreTime, lease: &Lease) -> bool {
        let at = lease.due.max(now);
        let limit = self.of(lease);
        limit.is_none_or(|limit| self.kinds[limit].room(at) > 0)
    }

    /// Parks a job whose kind has no room. `seat`: that of its group, which it keeps.
    pub(super) fn park(
        &mut self,
        connection: &Connection,
        lease: &Lease,
        seat: Option<i64>,
    ) -> Result<()> {
        self.forget(lease.id);
        if let Some(limit) = self.of(lease) {
            let place = -self.kinds[limit].id;
            execute(
                connection,
                sql::PARK,
                params![number(lease.id), place, seat],
            )?;
        }
        Ok(())
    }

    /// The job has no expired lease any more.
    pub(super) fn forget(&mut self, id: JobId) {
        let id = number(id);
        for limit in &mut self.kinds {
            limit.expired.retain(|other| *other != id);
        }
    }

    /// Gives a place to a job that is claimed, and fences off expired leases that are in its way.
    pub(super) fn take(
        &mut self,
        connection: &Connection,
        now: StoreTime,
        lease: &Lease,
    ) -> Result<()> {
        if self.kinds.is_empty() {
            return Ok(());
        }
        self.forget(lease.id);
        let id = number(lease.id);
        let Some(limit) = self.of(lease) else {
            // It may have been pushed with another kind during its last run.
            execute(connection, sql::TAKE_PLACE, params![id, None::<i64>])?;
            return Ok(());
        };
        let limit = &mut self.kinds[limit];
        if let Some(rate) = limit.rate {
            limit.full = rate.take(limit.full, lease.due.max(now));
            limit.is_changed = true;
        }
        if let Some(most) = limit.most {
            let held = |limit: &KindLimit| limit.live as usize + limit.expired.len();
            while held(limit) >= most as usize
                && let Some(expired) = limit.expired.pop_front()
            {
                execute(connection, sql::FENCE_OFF, [expired])?;
            }
            limit.live += 1;
        }
        execute(connection, sql::TAKE_PLACE, params![id, limit.id])?;
        Ok(())
    }

    /// Calls as many parked jobs as there is room for. Returns whether there were any.
    pub(super) fn call(&self, connection: &Connection, now: StoreTime) -> Result<bool> {
        let mut any = false;
        for limit in &self.kinds {
            let room = limit.room(now);
            if room == 0 || !limit.is_parked(connection)? {
                continue;
            }
            let called = find(connection, sql::CALLED, [limit.id], |row| row.get(0))?;
            let room = room.saturating_sub(called.unwrap_or(0)).min(PARK_LIMIT);
            any |= room > 0 && execute(connection, sql::CALL, params![-limit.id, room])? > 0;
        }
        Ok(any)
    }

    /// The next token of a rate whose kind counts and has parked jobs, or never. Also if they lack a place as well: a
    /// settle that makes room is not announced while there is no token.
    pub(super) fn next_token(
        &self,
        connection: &Connection,
        now: StoreTime,
        counts: impl Fn(&str) -> bool,
    ) -> Result<StoreTime> {
        let mut first = StoreTime::NEVER;
        for limit in self.kinds.iter().filter(|limit| counts(&limit.kind)) {
            let next = limit.rate.map(|rate| rate.next(limit.full));
            if let Some(next) = next.filter(|next| *next > now)
                && limit.is_parked(connection)?
            {
                first = first.min(next);
            }
        }
        Ok(first)
    }

    /// Stores the tokens that were taken.
    pub(super) fn save(&self, connection: &Connection) -> Result<()> {
        for limit in self.kinds.iter().filter(|limit| limit.is_changed) {
            let values = params![limit.id, limit.full.as_micros()];
            execute(connection, sql::TAKE_TOKENS, values)?;
        }
        Ok(())
    }
}

fn read(row: &Row<'_>) -> rusqlite::Result<KindLimit> {
    let (jobs, per): (Option<u32>, Option<i64>) = (row.get(3)?, row.get(4)?);
    let rate = jobs.zip(per);
    let rate =
        rate.map(|(jobs, per)| StartRate::new(jobs, Duration::from_micros(per.unsigned_abs())));
    Ok(KindLimit {
        id: row.get(0)?,
        kind: row.get(1)?,
        most: row.get(2)?,
        rate,
        full: StoreTime::from_micros(row.get(5)?),
        is_changed: false,
        live: 0,
        expired: VecDeque::new(),
    })
}

/// Calls parked jobs after a change that may have made room. Returns whether there were any.
pub(super) fn call_parked(connection: &Connection, now: StoreTime, queue: Queue) -> Result<bool> {
    Limits::new(connection, now, queue)?.call(connection, now)
}

/// Sets or removes a limit.
pub(super) fn set(
    connection: &Connection,
    now: StoreTime,
    queue: Queue,
    limit: &Limit,
    is_set: bool,
) -> Result<()> {
    let kind = match limit {
        Limit::Groups(rule) => return groups::set(connection, queue, is_set.then_some(*rule)),
        Limit::PerKind { kind, .. } | Limit::RateOfKind { kind, .. } => kind,
        _ => return Err(StoreError::new(ErrorKind::Unsupported)),
    };
    let limits: Vec<KindLimit> = all(connection, sql::LIMITS, [queue.id], read)?;
    let old = limits.into_iter().find(|old| old.kind == *kind);
    let old = old.as_ref();
    let (mut most, mut rate) = (old.and_then(|old| old.most), old.and_then(|old| old.rate));
    let mut full = old.map_or(StoreTime::from_micros(i64::MIN), |old| old.full);
    match limit {
        Limit::PerKind { most: new, .. } => most = is_set.then_some(*new),
        Limit::RateOfKind { rate: new, .. } if is_set => {
            if rate != Some(*new) {
                full = new.changed(full, now);
            }
            rate = Some(*new);
        }
        _ => rate = None,
    }
    if most.is_none() && rate.is_none() {
        if let Some(old) = old {
            execute(connection, sql::CALL_ALL, [-old.id])?;
            execute(connection, sql::LEAVE_PLACES, [old.id])?;
            execute(connection, sql::DELETE_LIMIT, [old.id])?;
        }
    } else {
        let jobs = rate.map(|rate| rate.jobs());
        let per = rate.map(|rate| i64::try_from(rate.per().as_micros()).unwrap_or(i64::MAX));
        let values = params![queue.id, kind, most, jobs, per, full.as_micros()];
        execute(connection, sql::SET_LIMIT, values)?;
        if old.is_none() {
            let id = connection.last_insert_rowid();
            for part in Part::HELD {
                let held = params![queue.id, kind, id, part];
                execute(connection, sql::PLACE_HELD, held)?;
            }
        }
    }
    execute(connection, sql::HAS_LIMITS, [queue.id])?;
    let has_limits = true;
    call_parked(
        connection,
        now,
        Queue {
            has_limits,
            ..queue
        },
    )
    .map(drop)
}

pub(super) fn list(connection: &Connection, queue: Queue) -> Result<Vec<Limit>> {
    let groups = queue.rule.groups().map(Limit::Groups);
    let mut limits: Vec<Limit> = groups.into_iter().collect();
    for limit in all(connection, sql::LIMITS, [queue.id], read)? {
        let KindLimit {
            kind, most, rate, ..
        } = limit;
        limits.extend(most.map(|most| Limit::per_kind(&*kind, most)));
        limits.extend(rate.map(|rate| Limit::RateOfKind { kind, rate }));
    }
    Ok(limits)
}
