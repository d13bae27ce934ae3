//! Candidates of a claim: the jobs that it may take, in the order in which it takes them.
//!
//! A claim decides on each candidate, and writes its decision, before it asks for the next one. Whatever it decides,
//! the job is then due later than the claim looks, so that the same query finds the next ones.

use std::collections::{HashSet, VecDeque};

use durable_queue::store::{Claim, KindRoom, Lease, Result};
use durable_queue::{JobId, StoreTime, Token};
use rusqlite::{Connection, Row, params};

use super::kinds::{Kinds, Part};
use super::statements::{Repeated, append, failure, find, id_of};
use super::{Queue, sql};

/// How many more jobs a claim may take.
#[derive(Clone, Copy)]
struct Room {
    all: u32,
    start: u32,
    ahead: u32,
}

impl Room {
    fn of(claim: &Claim<'_>, queue: Queue) -> Self {
        Self {
            all: if queue.paused { 0 } else { claim.max },
            start: claim.start,
            ahead: claim.ahead,
        }
    }

    /// Whether the next job is started: a due one, as long as there is room.
    fn starts(self, is_due: bool) -> bool {
        is_due && self.start > 0
    }

    /// How many jobs may be taken in the same way as the next one.
    fn next(self, is_due: bool) -> u32 {
        let room = if self.starts(is_due) {
            self.start
        } else {
            self.ahead
        };
        room.min(self.all)
    }

    fn take(&mut self, starts: bool) {
        self.all -= 1;
        if starts {
            self.start -= 1;
        } else {
            self.ahead -= 1;
        }
    }
}

/// Where and until when a claim looks.
struct Search<'c> {
    connection: &'c Connection,
    queue: i64,
    token: Token,
    now: i64,
    /// Until when jobs may be claimed ahead.
    end: i64,
}

pub(super) struct Candidates<'c> {
    search: Search<'c>,
    room: Room,
    source: Source<'c>,
    /// Those that the claim has taken, then others that were found. Leases are large, so they are not moved.
    leases: Vec<Lease>,
    /// Number of those that the claim has taken.
    taken: usize,
    /// Index of the next one to decide on.
    next: usize,
    /// Whether that one is due, as are those that were found with it, or none of them.
    is_due: bool,
    /// Those that have been [passed](Self::pass).
    passed: HashSet<JobId>,
}

enum Source<'c> {
    Any(AnyKind),
    Listed(Box<Listed<'c>>),
}

impl<'c> Candidates<'c> {
    pub(super) fn new(
        connection: &'c Connection,
        now: StoreTime,
        queue: Queue,
        claim: &Claim<'c>,
    ) -> Self {
        Self {
            search: Search {
                connection,
                queue: queue.id,
                token: claim.token,
                now: now.as_micros(),
                end: now.after(claim.horizon).as_micros(),
            },
            room: Room::of(claim, queue),
            source: match claim.kinds {
                None => Source::Any(AnyKind::new(claim)),
                Some(kinds) => {
                    Source::Listed(Box::new(Listed::new(connection, queue, claim, kinds)))
                }
            },
            leases: Vec::new(),
            taken: 0,
            next: 0,
            is_due: false,
            passed: HashSet::new(),
        }
    }

    /// Finds the next candidate, if there is room for it, as if it was not started.
    pub(super) fn next(&mut self) -> Result<Option<&Lease>> {
        loop {
            if self.next == self.leases.len() {
                self.leases.truncate(self.taken);
                self.next = self.taken;
                let (search, room, into) = (&self.search, self.room, &mut self.leases);
                let passed = u32::try_from(self.passed.len()).unwrap_or(u32::MAX);
                let is_due = match &mut self.source {
                    Source::Any(any) => any.find(search, room, passed, into)?,
                    Source::Listed(listed) => listed.find(search, room, passed, into)?,
                };
                let Some(is_due) = is_due else {
                    return Ok(None);
                };
                self.is_due = is_due;
            }
            if self.passed.is_empty() || !self.passed.contains(&self.leases[self.next].id) {
                // More than there is room for are found because of passed ones.
                let has_room = self.room.next(self.is_due) > 0;
                return Ok(self.leases.get(self.next).filter(|_| has_room));
            }
            self.next += 1;
        }
    }

    /// The claim takes the candidate. Also returns whether it starts it.
    pub(super) fn take(&mut self) -> (&mut Lease, bool) {
        self.leases.swap(self.taken, self.next);
        let lease = &mut self.leases[self.taken];
        (self.taken, self.next) = (self.taken + 1, self.next + 1);
        let starts = self.room.starts(self.is_due);
        self.room.take(starts);
        if let Source::Listed(listed) = &mut self.source {
            listed.take(lease.kind.as_deref());
        }
        (lease, starts)
    }

    /// The claim does not take the candidate.
    pub(super) fn refuse(&mut self) -> &Lease {
        self.next += 1;
        &self.leases[self.next - 1]
    }

    /// The claim has changed the time from which the job can be claimed. It comes after all others: once the claim
    /// [begins again](Self::begin_again).
    pub(super) fn pass(&mut self, id: JobId) {
        self.passed.insert(id);
    }

    /// Continues with the first ones that can be claimed.
    pub(super) fn begin_again(&mut self) {
        self.passed.clear();
        self.next = self.leases.len();
        match &mut self.source {
            Source::Any(any) => any.begin_again(),
            Source::Listed(listed) => listed.begin_again(),
        }
    }

    pub(super) fn into_taken(mut self) -> Vec<Lease> {
        self.leases.truncate(self.taken);
        self.leases
    }

    /// Whether the claim could take more jobs of the kind.
    pub(super) fn has_room(&self, kind: &str) -> bool {
        match &self.source {
            Source::Any(_) => true,
            Source::Listed(listed) => listed.has_room(kind),
        }
    }

    /// Returns the first time at which a job can be claimed, and that of a job without a lease. See
    /// [`Claimed`](durable_queue::store::Claimed).
    pub(super) fn first(&mut self) -> Result<[StoreTime; 2]> {
        let first = match &mut self.source {
            Source::Any(_) => {
                let times = |row: &Row<'_>| Ok([row.get(0)?, row.get(1)?]);
                let Search {
                    connection, queue, ..
                } = self.search;
                let found: Option<[Option<i64>; 2]> = find(connection, sql::FIRST, [queue], times)?;
                found.unwrap_or_default()
            }
            Source::Listed(listed) => listed.first()?,
        };
        Ok(first.map(|time| time.map_or(StoreTime::NEVER, StoreTime::from_micros)))
    }
}

/// Jobs of any kind, and without one.
struct AnyKind {
    all: &'static [Range],
    /// The rest of the ranges, the current one first.
    ranges: &'static [Range],
    /// Whether the current range has no more jobs than were found.
    is_last: bool,
}

/// A range of the jobs, which a statement reads in order.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Range {
    /// Urgent ones that are due.
    Urgent,
    Due,
    /// Those that fall due within the horizon, and are not leased.
    Soon,
}

impl AnyKind {
    fn new(claim: &Claim<'_>) -> Self {
        let ranges: &[Range] = &[Range::Urgent, Range::Due, Range::Soon];
        let all = &ranges[usize::from(!claim.urgent_first)..];
        Self {
            all,
            ranges: all,
            is_last: false,
        }
    }

    fn begin_again(&mut self) {
        (self.ranges, self.is_last) = (self.all, false);
    }

    /// Finds the next jobs that may be taken in the same way, next to those that are passed. Returns whether they are
    /// due.
    fn find(
        &mut self,
        search: &Search<'_>,
        room: Room,
        passed: u32,
        into: &mut Vec<Lease>,
    ) -> Result<Option<bool>> {
        while let Some((range, rest)) = self.ranges.split_first() {
            let is_due = *range != Range::Soon;
            let most = room.next(is_due);
            if self.is_last || most == 0 {
                (self.ranges, self.is_last) = (rest, false);
                continue;
            }
            let most = most.saturating_add(passed);
            let before = into.len();
            search.read(*range, most, into)?;
            let found = into.len() - before;
            self.is_last = found < most as usize;
            if found > 0 {
                return Ok(Some(is_due));
            }
        }
        Ok(None)
    }
}

impl Search<'_> {
    fn read(&self, range: Range, most: u32, into: &mut Vec<Lease>) -> Result<()> {
        let Self {
            connection,
            queue,
            token,
            now,
            end,
        } = *self;
        let read = |row: &Row<'_>| lease_of(row, token);
        let due = params![queue, now, most];
        let soon = params![queue, end, most, now];
        match range {
            Range::Urgent => append(connection, sql::DUE_URGENT, due, read, into),
            Range::Due => append(connection, sql::DUE, due, read, into),
            Range::Soon => append(connection, sql::SOON, soon, read, into),
        }
    }
}

/// Reads a row of a statement that begins with `leases!`.
pub(super) fn lease_of(row: &Row<'_>, token: Token) -> rusqlite::Result<Lease> {
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
}

/// Jobs of listed kinds: the order of each kind, merged. Payloads are read once it is a job's turn, because there may
/// be room for fewer jobs in all.
struct Listed<'c> {
    index: Kinds<'c>,
    kinds: Vec<OfKind<'c>>,
    is_urgent_first: bool,
    found: Repeated<'c>,
}

struct OfKind<'c> {
    kind: &'c str,
    room: u32,
    /// Its first jobs.
    found: VecDeque<Position>,
    /// Whether it may have more than these.
    has_more: bool,
    /// Whether it has no jobs, also later ones.
    is_empty: bool,
}

/// A job in the order of a claim.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Position {
    /// Due urgent jobs come first, if the claim says so.
    is_ordinary: bool,
    due: i64,
    id: i64,
}

impl<'c> Listed<'c> {
    fn new(
        connection: &'c Connection,
        queue: Queue,
        claim: &Claim<'c>,
        listed: &[KindRoom<'c>],
    ) -> Self {
        let of_kind = |it: &KindRoom<'c>| OfKind {
            kind: it.kind,
            room: it.room,
            found: VecDeque::new(),
            has_more: it.room > 0,
            is_empty: false,
        };
        Self {
            index: Kinds::new(connection, queue),
            kinds: listed.iter().map(of_kind).collect(),
            is_urgent_first: claim.urgent_first,
            found: Repeated::new(connection, sql::FOUND),
        }
    }

    /// Finds the next job. Returns whether it is due. If there is no room for it, there is none for later ones.
    fn find(
        &mut self,
        search: &Search<'_>,
        room: Room,
        passed: u32,
        into: &mut Vec<Lease>,
    ) -> Result<Option<bool>> {
        let most = room.all.min(room.start.saturating_add(room.ahead));
        if most == 0 {
            return Ok(None);
        }
        self.read(search, room.ahead > 0, most, passed)?;
        let firsts = self.kinds.iter_mut();
        let firsts = firsts.filter_map(|it| Some((*it.found.front()?, it)));
        let Some((first, of_kind)) = firsts.min_by_key(|(first, _)| *first) else {
            return Ok(None);
        };
        let is_due = first.due <= search.now;
        if room.next(is_due) == 0 {
            return Ok(None);
        }
        of_kind.found.pop_front();
        let statement = self.found.statement()?;
        let lease = statement.query_row([first.id], |row| lease_of(row, search.token));
        into.push(lease.map_err(failure)?);
        Ok(Some(is_due))
    }

    /// Finds the next jobs, at most this many next to those that are passed, of each kind of which no more are known.
    fn read(&mut self, search: &Search<'_>, is_ahead: bool, most: u32, passed: u32) -> Result<()> {
        let is_used_up = |it: &&mut OfKind<'_>| it.found.is_empty() && it.has_more;
        for of_kind in self.kinds.iter_mut().filter(is_used_up) {
            let most = most.min(of_kind.room).saturating_add(passed);
            let parts = self.index.parts(of_kind.kind)?;
            of_kind.is_empty = parts.is_empty();
            let mut found = Vec::new();
            for (part, first) in parts.iter() {
                let until = if is_ahead && part.is_free() {
                    search.end
                } else {
                    search.now
                };
                if first > until {
                    continue;
                }
                let is_first = self.is_urgent_first && part.is_urgent();
                let position = |(due, id)| Position {
                    is_ordinary: !is_first || due > search.now,
                    due,
                    id,
                };
                let jobs = self.index.jobs(of_kind.kind, part, until, most)?;
                found.extend(jobs.into_iter().map(position));
            }
            found.sort_unstable();
            found.truncate(most as usize);
            of_kind.has_more = found.len() == most as usize;
            of_kind.found = found.into();
        }
        Ok(())
    }

    fn take(&mut self, kind: Option<&str>) {
        let mut kinds = self.kinds.iter_mut();
        if let Some(of_kind) = kinds.find(|it| Some(it.kind) == kind) {
            of_kind.room -= 1;
            if of_kind.room == 0 {
                of_kind.has_more = false;
                of_kind.found.clear();
            }
        }
    }

    fn begin_again(&mut self) {
        for of_kind in &mut self.kinds {
            of_kind.found.clear();
            of_kind.has_more = of_kind.room > 0;
        }
    }

    fn has_room(&self, kind: &str) -> bool {
        let mut kinds = self.kinds.iter();
        kinds.any(|it| it.room > 0 && it.kind == kind)
    }

    /// The first time of all jobs, and that of those without a lease.
    fn first(&mut self) -> Result<[Option<i64>; 2]> {
        let mut times = Vec::new();
        let counts = |it: &&OfKind<'_>| it.room > 0 && !it.is_empty;
        for of_kind in self.kinds.iter().filter(counts) {
            times.extend(self.index.parts(of_kind.kind)?.iter());
        }
        let of = |is_meant: fn(Part) -> bool| {
            let times = times.iter().filter(|(part, _)| is_meant(*part));
            times.map(|(_, time)| *time).min()
        };
        Ok([of(|_| true), of(Part::is_free)])
    }
}
