//! Groups: seats of jobs, and jobs that wait for them.
//!
//! Requirements 16 to 23 of [`durable_queue::store`] define the terms. The rules of a queue are numbered. A job's
//! `seat` is
//! - 0 if it is fresh: no claim of this rule has looked at it;
//! - the number of the rule if it has a seat, and the negative number while it waits for one;
//! - none if it needs no seat and is not looked for: it is held in a fair group, or is parked for its kind without
//!   a seat.
//!
//! Seats of former rules have no effect, and their jobs become fresh, some in each claim, until the queue's `frees` is
//! zero. So a change of the rule reads only the held jobs, which get seats at once. Without a rule, no statement
//! reads or writes a seat for its own sake.
//!
//! A waiting job implies that all seats of its group are taken. Therefore a settle or a claim that takes a job from
//! its seat calls the next one in the same transaction. All others add the group to `durable_left`, which the next
//! claim empties.

use std::collections::HashMap;

use durable_queue::internals::ANYTHING;
use durable_queue::store::{Act, Lease, PARK_LIMIT, Result, Settle};
use durable_queue::{Groups, JobId, StoreTime};
use rusqlite::{Connection, Row, params};

use super::kinds::{Part, each_kind};
use super::statements::{all, execute, find, id_of, number};
use super::{Queue, sql};

/// The rule of a queue's groups, with its number.
#[derive(Clone, Copy)]
pub(super) struct Rule {
    groups: Option<Groups>,
    number: i64,
    /// Whether jobs may have, or wait for, seats of former rules.
    frees: bool,
}

impl Rule {
    pub(super) const NONE: Self = Self {
        groups: None,
        number: 0,
        frees: false,
    };

    /// `code`: the column `rule`. It is the number of seats, 0 without a rule, -1 for ordered and -2 for fair groups.
    pub(super) fn new(code: i64, number: i64, frees: bool) -> Self {
        let groups = match code {
            0 => None,
            -1 => Some(Groups::Ordered),
            -2 => Some(Groups::Fair),
            most => Some(Groups::Concurrency(u32::try_from(most).unwrap_or(u32::MAX))),
        };
        Self {
            groups,
            number,
            frees,
        }
    }

    fn code(groups: Option<Groups>) -> i64 {
        match groups {
            None => 0,
            Some(Groups::Ordered) => -1,
            Some(Groups::Fair) => -2,
            Some(Groups::Concurrency(most)) => i64::from(most.max(1)),
        }
    }

    pub(super) fn groups(self) -> Option<Groups> {
        self.groups
    }

    fn is(self, groups: Groups) -> bool {
        self.groups == Some(groups)
    }

    /// Returns the job's group if it has a seat of this rule.
    fn seated(self, group: Option<String>, seat: Option<i64>) -> Option<String> {
        group.filter(|_| self.groups.is_some() && seat == Some(self.number))
    }
}

/// Sets or removes the rule. An equal one has no effect.
pub(super) fn set(connection: &Connection, queue: Queue, groups: Option<Groups>) -> Result<()> {
    let code = Rule::code(groups);
    if code == Rule::code(queue.rule.groups) {
        return Ok(());
    }
    let number = queue.rule.number + 1;
    execute(connection, sql::SET_RULE, params![queue.id, code, number])?;
    let seat = match groups {
        None => Some(0),
        Some(Groups::Fair) => None,
        Some(_) => Some(number),
    };
    let seat_held = |kind: Option<&str>| {
        Part::HELD.iter().try_for_each(|part| {
            let held = params![queue.id, kind, part, seat];
            execute(connection, sql::SEAT_HELD, held).map(drop)
        })
    };
    seat_held(None)?;
    each_kind(connection, queue, |kind| seat_held(Some(&kind)))
}

/// At the start of a claim: frees jobs from former rules, and calls the next jobs of groups whose jobs have left their
/// seats. Returns whether there may be more jobs to free.
pub(super) fn renew(connection: &Connection, now: StoreTime, queue: Queue) -> Result<bool> {
    let Rule { groups, frees, .. } = queue.rule;
    if groups.is_none() && !frees {
        return Ok(false);
    }
    let has_more = frees && free(connection, queue)?;
    let left: Vec<String> = all(connection, sql::LEFT, [queue.id], |row| row.get(0))?;
    if !left.is_empty() {
        execute(connection, sql::DELETE_LEFT, [queue.id])?;
        call_all(connection, now, queue, left)?;
    }
    Ok(has_more)
}

/// Makes jobs fresh that have, or wait for, seats of former rules. Returns whether there may be more of them.
fn free(connection: &Connection, queue: Queue) -> Result<bool> {
    let number = queue.rule.number;
    let waiting = params![queue.id, -number, PARK_LIMIT];
    let mut freed = execute(connection, sql::FREE_WAITING, waiting)?;
    // Not all versions of the client convert `usize`.
    let left = i64::from(PARK_LIMIT) - i64::try_from(freed).unwrap_or(i64::MAX);
    freed += execute(
        connection,
        sql::FREE_SEATED,
        params![queue.id, number, left],
    )?;
    let has_more = freed >= PARK_LIMIT as usize;
    if !has_more {
        execute(connection, sql::ALL_FREE, [queue.id])?;
    }
    Ok(has_more)
}

/// A job is about to leave its seat, if it has one. Returns the time to announce.
pub(super) fn leave(connection: &Connection, queue: Queue, id: i64) -> Result<StoreTime> {
    let Rule { groups, number, .. } = queue.rule;
    let leaves = groups.is_some() && execute(connection, sql::LEAVE, [id, number])? > 0;
    Ok(if leaves { ANYTHING } else { StoreTime::NEVER })
}

/// A job that was called to a seat.
pub(super) struct Called {
    pub(super) id: JobId,
    /// Whether it can be claimed from another time on than before.
    pub(super) is_moved: bool,
}

/// Gives the free seats of a group to jobs that wait. In a fair group without one, to the first fresh job that is due.
/// Returns these jobs.
pub(super) fn call(
    connection: &Connection,
    now: StoreTime,
    queue: Queue,
    group: &str,
) -> Result<Vec<Called>> {
    let (Rule { number, .. }, mut called) = (queue.rule, Vec::new());
    let Some(groups) = queue.rule.groups else {
        return Ok(called);
    };
    let is_fair = groups == Groups::Fair;
    let next = || -> Result<Option<(i64, bool)>> {
        let waiting = params![queue.id, group, -number];
        let first = find(connection, sql::NEXT_WAITING, waiting, |row| row.get(0))?;
        let fresh = match groups {
            Groups::Concurrency(_) => None,
            Groups::Fair if first.is_some() => None,
            _ => first_fresh(connection, queue, group, now)?,
        };
        // In an ordered group, a fresh job may come before those that wait.
        if let (Some(first), Some((fresh, _))) = (first, fresh) {
            let before = params![first, fresh];
            let is_before = find(connection, sql::GOES_BEFORE, before, |_| Ok(()))?;
            return Ok(Some(if is_before.is_some() {
                (first, true)
            } else {
                (fresh, false)
            }));
        }
        Ok(first
            .map(|id| (id, true))
            .or_else(|| fresh.map(|(id, due)| (id, is_fair && due != now))))
    };
    let Some((mut id, mut is_moved)) = next()? else {
        return Ok(called);
    };
    // In a fair group behind those that are available already.
    let earliest = if is_fair { now.as_micros() } else { i64::MIN };
    for _ in 0..free_seats(connection, queue, groups, group)? {
        execute(connection, sql::CALL_TO_SEAT, params![id, number, earliest])?;
        called.push(Called {
            id: id_of(id),
            is_moved,
        });
        match next()? {
            Some(next) => (id, is_moved) = next,
            None => break,
        }
    }
    Ok(called)
}

/// Calls jobs of groups of which jobs have left their seats. Returns whether there were any.
pub(super) fn call_all(
    connection: &Connection,
    now: StoreTime,
    queue: Queue,
    mut groups: Vec<String>,
) -> Result<bool> {
    groups.sort_unstable();
    groups.dedup();
    let mut any = false;
    for group in groups {
        any |= !call(connection, now, queue, &group)?.is_empty();
    }
    Ok(any)
}

/// The first fresh job of a group that is due by `due`, and the time from which it can be claimed.
fn first_fresh(
    connection: &Connection,
    queue: Queue,
    group: &str,
    due: StoreTime,
) -> Result<Option<(i64, StoreTime)>> {
    let values = params![queue.id, group, due.as_micros()];
    find(connection, sql::FIRST_FRESH, values, |row| {
        Ok((row.get(0)?, StoreTime::from_micros(row.get(1)?)))
    })
}

fn free_seats(connection: &Connection, queue: Queue, groups: Groups, group: &str) -> Result<u32> {
    let seats = groups.seats();
    let values = params![queue.id, group, queue.rule.number, seats];
    let taken: Option<u32> = find(connection, sql::COUNT_SEATED, values, |row| row.get(0))?;
    Ok(seats.saturating_sub(taken.unwrap_or(0)))
}

/// A held job of a group, before a settle.
pub(super) struct Held {
    group: String,
    seat: Option<i64>,
    /// A settle that returns it deletes it.
    cancelled: bool,
}

impl Held {
    /// `None` if the settle does not end a lease of such a job, or there is no rule.
    pub(super) fn find(
        connection: &Connection,
        queue: Queue,
        settle: &Settle<'_>,
    ) -> Result<Option<Self>> {
        if queue.rule.groups.is_none() || !settle.act.ends_lease() {
            return Ok(None);
        }
        let held = params![number(settle.id), settle.token.as_bytes()];
        let found = find(connection, sql::HELD_SEAT, held, |row| {
            let group: Option<String> = row.get(0)?;
            let (seat, cancelled) = (row.get(1)?, row.get(2)?);
            Ok(group.map(|group| Self {
                group,
                seat,
                cancelled,
            }))
        });
        Ok(found?.flatten())
    }

    /// The settle has been carried out. Returns the group if the job has left its seat.
    pub(super) fn leave(
        self,
        connection: &Connection,
        queue: Queue,
        settle: &Settle<'_>,
    ) -> Result<Option<String>> {
        let is_repeated = matches!(settle.act, Act::Again { .. });
        let returns = is_repeated || matches!(settle.act, Act::Retry { .. } | Act::Release);
        let is_returned = returns && !self.cancelled;
        if is_returned && !is_repeated && queue.rule.is(Groups::Ordered) {
            return Ok(None);
        }
        if is_returned {
            execute(connection, sql::SIT, params![number(settle.id), 0])?;
        }
        Ok(queue.rule.seated(Some(self.group), self.seat))
    }
}

/// What a claim knows of the seats of a queue with a rule.
pub(super) struct Seats<'c> {
    connection: &'c Connection,
    now: StoreTime,
    queue: Queue,
    /// Numbers of free seats of groups, as far as they are known.
    free: HashMap<String, u32>,
}

/// A job of a group that may be claimed: it has a seat, or needs none, or may have a free one.
pub(super) struct Sitter {
    id: i64,
    group: String,
    /// Its seat, as it is stored.
    seat: Option<i64>,
}

/// Whether a claim may take a job.
pub(super) enum Seat {
    /// It has no group, or its group has no rule.
    Unneeded,
    Of(Sitter),
    /// It was made to wait.
    Awaited,
}

impl<'c> Seats<'c> {
    pub(super) fn new(connection: &'c Connection, now: StoreTime, queue: Queue) -> Self {
        Self {
            connection,
            now,
            queue,
            free: HashMap::new(),
        }
    }

    /// Decides whether a job may be claimed. If not, it waits.
    pub(super) fn find(&mut self, lease: &Lease) -> Result<Seat> {
        let (connection, queue) = (self.connection, self.queue);
        let Some(groups) = queue.rule.groups else {
            return Ok(Seat::Unneeded);
        };
        let id = number(lease.id);
        let read = |row: &Row<'_>| Ok((row.get(0)?, row.get(1)?, row.get(2)?));
        let found: Option<(_, _, bool)> = find(connection, sql::SEAT_OF, [id], read)?;
        let Some((Some(group), seat, is_held)) = found else {
            return Ok(Seat::Unneeded);
        };
        let sitter = Sitter { id, group, seat };
        if seat == Some(queue.rule.number) || is_held && groups == Groups::Fair {
            return Ok(Seat::Of(sitter));
        }
        let free = match self.free.get(&sitter.group) {
            Some(free) => *free,
            None => free_seats(connection, queue, groups, &sitter.group)?,
        };
        let first = match groups {
            Groups::Ordered if free > 0 => {
                let due = lease.due.max(self.now);
                first_fresh(connection, queue, &sitter.group, due)?.map_or(id, |(first, _)| first)
            }
            _ => id,
        };
        if free > 0 && first == id {
            self.free.insert(sitter.group.clone(), free);
            return Ok(Seat::Of(sitter));
        }
        if free > 0 {
            execute(connection, sql::SIT, params![first, queue.rule.number])?;
        }
        self.free.insert(sitter.group, 0);
        execute(connection, sql::WAIT, params![id, -queue.rule.number])?;
        Ok(Seat::Awaited)
    }

    /// The claim takes the job. Returns jobs that are called to its seat.
    pub(super) fn take(&mut self, sitter: Sitter) -> Result<Vec<Called>> {
        let is_fair = self.queue.rule.is(Groups::Fair);
        let seat = (!is_fair).then_some(self.queue.rule.number);
        if sitter.seat != seat {
            execute(self.connection, sql::SIT, params![sitter.id, seat])?;
        }
        if is_fair {
            return self.pass_on(sitter);
        }
        if sitter.seat != seat
            && let Some(free) = self.free.get_mut(&sitter.group)
        {
            *free -= 1;
        }
        Ok(Vec::new())
    }

    /// The seat of a job while it is parked for its kind.
    pub(super) fn while_parked(&self, seat: &Seat) -> Option<i64> {
        let keeps = matches!(seat, Seat::Of(_)) && self.queue.rule.is(Groups::Ordered);
        keeps.then_some(self.queue.rule.number)
    }

    /// The job was parked for its kind. Returns jobs that are called to its seat.
    pub(super) fn park(&mut self, sitter: Sitter) -> Result<Vec<Called>> {
        if self.queue.rule.is(Groups::Ordered) {
            self.free.insert(sitter.group, 0);
            return Ok(Vec::new());
        }
        self.pass_on(sitter)
    }

    fn pass_on(&mut self, Sitter { group, .. }: Sitter) -> Result<Vec<Called>> {
        self.free.remove(&group);
        call(self.connection, self.now, self.queue, &group)
    }
}
