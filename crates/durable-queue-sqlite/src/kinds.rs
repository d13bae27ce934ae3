//! Jobs by kind: the index `durable_job_kind`.
//!
//! It has the jobs of each kind in four [parts](Part), each in the order of claims. So a claim of listed kinds reads no
//! other jobs, skips no leased ones, and finds urgent ones behind others. Most parts are empty: those that are not are
//! found by one lookup each, and one more.

use durable_queue::StoreTime;
use durable_queue::store::{COUNT_LIMIT, Result};
use rusqlite::types::ToSqlOutput;
use rusqlite::{Connection, OptionalExtension, Row, ToSql, params};

use super::statements::{Repeated, failure, find};
use super::{Queue, sql};

/// The number of a part: `part!` in `sql.rs`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Part(u8);

impl Part {
    const COUNT: u8 = 4;
    /// Those of jobs with a lease.
    pub(super) const HELD: [Self; 2] = [Self(0), Self(2)];

    pub(super) fn is_free(self) -> bool {
        self.0 % 2 == 1
    }

    pub(super) fn is_urgent(self) -> bool {
        self.0 >= 2
    }
}

impl ToSql for Part {
    fn to_sql(&self) -> rusqlite::Result<ToSqlOutput<'_>> {
        self.0.to_sql()
    }
}

/// The parts of a kind that have jobs, each with its first time.
#[derive(Debug, Default)]
pub(super) struct Parts([Option<i64>; Part::COUNT as usize]);

impl Parts {
    pub(super) fn is_empty(&self) -> bool {
        self.iter().next().is_none()
    }

    pub(super) fn iter(&self) -> impl Iterator<Item = (Part, i64)> {
        let parts = (0..).map(Part).zip(self.0);
        parts.filter_map(|(part, first)| Some((part, first?)))
    }
}

/// The index, for one queue.
pub(super) struct Kinds<'c> {
    queue: i64,
    next_part: Repeated<'c>,
    of_part: Repeated<'c>,
}

impl<'c> Kinds<'c> {
    pub(super) fn new(connection: &'c Connection, queue: Queue) -> Self {
        Self {
            queue: queue.id,
            next_part: Repeated::new(connection, sql::NEXT_PART),
            of_part: Repeated::new(connection, sql::OF_PART),
        }
    }

    /// Finds the parts of a kind that have jobs.
    pub(super) fn parts(&mut self, kind: &str) -> Result<Parts> {
        let statement = self.next_part.statement()?;
        let read = |row: &Row<'_>| Ok((row.get::<_, u8>(0)?, row.get(1)?));
        let (mut parts, mut from) = (Parts::default(), 0);
        while from < Part::COUNT {
            let found = statement.query_row(params![self.queue, kind, from], read);
            let Some((number, first)) = found.optional().map_err(failure)? else {
                break;
            };
            parts.0[usize::from(number)] = Some(first);
            from = number + 1;
        }
        Ok(parts)
    }

    /// The first jobs of a part that can be claimed by `until`: times and ids.
    pub(super) fn jobs(
        &mut self,
        kind: &str,
        part: Part,
        until: i64,
        most: u32,
    ) -> Result<Vec<(i64, i64)>> {
        let values = params![self.queue, kind, part, until, most];
        let read = |row: &Row<'_>| Ok((row.get(0)?, row.get(1)?));
        let jobs = self.of_part.statement()?.query_map(values, read);
        let jobs = jobs.map_err(failure)?.collect::<rusqlite::Result<_>>();
        jobs.map_err(failure)
    }
}

/// Numbers of due jobs, by kind. Each kind costs a lookup more than its parts.
pub(super) fn due_of_kinds(
    connection: &Connection,
    now: StoreTime,
    queue: Queue,
) -> Result<Vec<(String, u32)>> {
    let mut index = Kinds::new(connection, queue);
    let mut counts = Vec::new();
    each_kind(connection, queue, |kind| {
        let mut count: u32 = 0;
        for (part, _) in index.parts(&kind)?.iter() {
            let due = params![queue.id, kind, part, now.as_micros(), COUNT_LIMIT];
            let found = find(connection, sql::COUNT_DUE_OF_PART, due, |row| row.get(0))?;
            count += found.unwrap_or(0);
        }
        if count > 0 {
            counts.push((kind, count.min(COUNT_LIMIT)));
        }
        Ok(())
    })?;
    // An application's file may be in UTF-16, and then `SQLite` has another order.
    counts.sort_unstable();
    Ok(counts)
}

/// Finds all kinds, by one lookup each.
pub(super) fn each_kind(
    connection: &Connection,
    queue: Queue,
    mut found: impl FnMut(String) -> Result<()>,
) -> Result<()> {
    let mut from = String::new();
    while let Some(kind) = next_kind(connection, queue, &from)? {
        // No text is between these two.
        from = format!("{kind}\0");
        found(kind)?;
    }
    Ok(())
}

/// The first kind that is `from` or later.
fn next_kind(connection: &Connection, queue: Queue, from: &str) -> Result<Option<String>> {
    let values = params![queue.id, from];
    Ok(find(connection, sql::NEXT_KIND, values, |row| row.get(0))?.flatten())
}
