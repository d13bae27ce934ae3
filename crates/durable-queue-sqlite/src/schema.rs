//! The tables, and their migration from older versions.
//!
//! The version is in its own table, not in `user_version`, because the tables may be in an application's
//! file, which uses that.

use durable_queue::internals::Version;
use durable_queue::store::Result;
use durable_queue::{ErrorKind, StoreError};
use rusqlite::{Connection, OptionalExtension, TransactionBehavior};

use super::failure;

/// The current time in microseconds, with the resolution of `SQLite`'s clock, a millisecond.
macro_rules! now {
    () => {
        "CAST(round((julianday('now') - 2440587.5) * 86400000) AS INTEGER) * 1000"
    };
}

/// Step `i` migrates from version `i` to `i + 1`. Released steps never change.
const STEPS: [&str; 8] = [
    // `due` is the time from which the job can be claimed: its due time, or the end of its lease. So jobs of
    // dead holders fall due by themselves, and one index serves all hot queries. `at` is the job's own due
    // time, `most` the bound of a debounce. `run` is 0 while the job is pending, else the job's id: each key
    // has at most one pending job, and any number of running ones.
    "CREATE TABLE durable_queue (
        id INTEGER PRIMARY KEY,
        name TEXT NOT NULL UNIQUE,
        paused INTEGER NOT NULL DEFAULT 0
    ) STRICT;
    CREATE TABLE durable_job (
        id INTEGER PRIMARY KEY AUTOINCREMENT,
        queue INTEGER NOT NULL,
        due INTEGER NOT NULL,
        at INTEGER NOT NULL,
        most INTEGER NOT NULL,
        attempts INTEGER NOT NULL DEFAULT 0,
        started INTEGER NOT NULL DEFAULT 0,
        run INTEGER NOT NULL DEFAULT 0,
        token BLOB,
        key BLOB,
        payload BLOB NOT NULL
    ) STRICT;
    CREATE INDEX durable_job_due ON durable_job (queue, due, id);
    CREATE UNIQUE INDEX durable_job_key ON durable_job (queue, key, run) WHERE key IS NOT NULL;",
    "CREATE TABLE durable_dead (
        id INTEGER PRIMARY KEY,
        queue INTEGER NOT NULL,
        attempts INTEGER NOT NULL,
        buried INTEGER NOT NULL,
        key BLOB,
        payload BLOB NOT NULL,
        error TEXT NOT NULL
    ) STRICT;
    CREATE INDEX durable_dead_queue ON durable_dead (queue, id);",
    // The schedule of a repeating job.
    "ALTER TABLE durable_job ADD COLUMN schedule TEXT;
    ALTER TABLE durable_dead ADD COLUMN schedule TEXT;",
    // Without urgent jobs, each claim costs one lookup in an empty index.
    "ALTER TABLE durable_job ADD COLUMN urgent INTEGER NOT NULL DEFAULT 0;
    ALTER TABLE durable_dead ADD COLUMN urgent INTEGER NOT NULL DEFAULT 0;
    CREATE INDEX durable_job_urgent ON durable_job (queue, due, id) WHERE urgent = 1;",
    // Whether at most one job of each key runs at a time.
    "ALTER TABLE durable_queue ADD COLUMN serial_keys INTEGER NOT NULL DEFAULT 0;",
    // Jobs without a lease, so that claims ahead skip no leased ones. The version table now also has the
    // oldest version that may use the tables.
    "CREATE INDEX durable_job_free ON durable_job (queue, due, id) WHERE token IS NULL;",
    // Pushes by any client: an insert into a view without rows. Only `queue` and `payload` are required.
    // Without `due`, the job is due now. `merge`: 0 keep, 1 earliest, 2 latest, 3 debounce, up to `most`.
    // `open` is ignored: see `PUSH`. The first insert has no `OR IGNORE`, which the conflict clause of the
    // caller's own insert would replace.
    concat!(
        "CREATE VIEW durable_push (queue, payload, due, key, urgent, merge, most, open) AS
        SELECT NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL WHERE 0;
    CREATE TRIGGER durable_push_insert INSTEAD OF INSERT ON durable_push BEGIN
        INSERT INTO durable_queue (name) SELECT NEW.queue
            WHERE NOT EXISTS (SELECT 1 FROM durable_queue WHERE name = NEW.queue);
        INSERT INTO durable_job (queue, due, at, most, key, payload, urgent)
        SELECT q.id, min(t.at, t.most), min(t.at, t.most), t.most,
            CAST(NEW.key AS BLOB), CAST(NEW.payload AS BLOB), coalesce(NEW.urgent, 0)
        FROM durable_queue q, (SELECT coalesce(NEW.due, ",
        now!(),
        ") AS at, coalesce(NEW.most, 9223372036854775807) AS most) t
        WHERE q.name = NEW.queue
        ON CONFLICT (queue, key, run) WHERE key IS NOT NULL DO UPDATE SET
            (due, at) = (SELECT m.at, m.at FROM (SELECT CASE NEW.merge
                WHEN 1 THEN min(durable_job.at, excluded.at)
                WHEN 2 THEN max(durable_job.at, excluded.at)
                ELSE min(coalesce(NEW.due, ",
        now!(),
        "), durable_job.most) END AS at) m),
            payload = excluded.payload, urgent = max(urgent, excluded.urgent), token = NULL
            WHERE NEW.merge > 0;
    END;"
    ),
    // Kinds, options and failures, which only workers read, and `cancelled`: a cancel was requested while a
    // handler had the job. Without marked jobs, a look for them costs one lookup in an empty index. The view
    // is the one of step 7 with `kind` and `options`. A push replaces an open job that is marked: see `MERGE`.
    //
    // Limits of kinds. `place` is the number of the limit under which a job is held, or was called; negative
    // while it is parked. One index for both, without `due`, because each statement opens each index that it may have
    // to change, even if the job is in none.
    //
    // Done jobs that are kept, `until` a time.
    concat!(
        "ALTER TABLE durable_job ADD COLUMN kind TEXT;
    ALTER TABLE durable_job ADD COLUMN options TEXT;
    ALTER TABLE durable_job ADD COLUMN failures TEXT;
    ALTER TABLE durable_job ADD COLUMN cancelled INTEGER NOT NULL DEFAULT 0;
    ALTER TABLE durable_dead ADD COLUMN kind TEXT;
    ALTER TABLE durable_dead ADD COLUMN options TEXT;
    ALTER TABLE durable_dead ADD COLUMN failures TEXT;
    CREATE INDEX durable_job_cancelled ON durable_job (queue, id) WHERE cancelled = 1;
    CREATE TABLE durable_limit (
        id INTEGER PRIMARY KEY AUTOINCREMENT,
        queue INTEGER NOT NULL,
        kind TEXT NOT NULL,
        most INTEGER,
        jobs INTEGER,
        per INTEGER,
        full INTEGER NOT NULL,
        UNIQUE (queue, kind)
    ) STRICT;
    ALTER TABLE durable_queue ADD COLUMN kind_limits INTEGER NOT NULL DEFAULT 0;
    ALTER TABLE durable_job ADD COLUMN place INTEGER;
    CREATE INDEX durable_job_place ON durable_job (place, urgent DESC, at, id) WHERE place IS NOT NULL;
    CREATE TABLE durable_done (
        id INTEGER PRIMARY KEY,
        queue INTEGER NOT NULL,
        until INTEGER NOT NULL,
        finished INTEGER NOT NULL,
        took INTEGER NOT NULL,
        attempts INTEGER NOT NULL,
        key BLOB,
        kind TEXT,
        result BLOB
    ) STRICT;
    CREATE INDEX durable_done_until ON durable_done (queue, until);
    DROP VIEW durable_push;
    CREATE VIEW durable_push (queue, payload, due, key, urgent, merge, most, kind, options, open) AS
        SELECT NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL WHERE 0;
    CREATE TRIGGER durable_push_insert INSTEAD OF INSERT ON durable_push BEGIN
        INSERT INTO durable_queue (name) SELECT NEW.queue
            WHERE NOT EXISTS (SELECT 1 FROM durable_queue WHERE name = NEW.queue);
        -- A push that takes a claim ahead makes room for the postponed jobs of its key: `BRING_BACK`.
        UPDATE durable_job SET due = at
            WHERE queue = (SELECT id FROM durable_queue WHERE name = NEW.queue AND serial_keys > 0)
                AND key = CAST(NEW.key AS BLOB) AND token IS NULL AND due > at
                AND (place IS NULL OR place > 0) AND NEW.merge > 0 AND EXISTS (SELECT 1 FROM durable_job o
                    WHERE o.queue = durable_job.queue AND o.key = durable_job.key AND o.run = 0 AND o.token IS NOT NULL);
        INSERT INTO durable_job (queue, due, at, most, key, payload, urgent, kind, options)
        SELECT q.id, min(t.at, t.most), min(t.at, t.most), t.most,
            CAST(NEW.key AS BLOB), CAST(NEW.payload AS BLOB), coalesce(NEW.urgent, 0),
            CAST(NEW.kind AS TEXT), CAST(NEW.options AS TEXT)
        FROM durable_queue q, (SELECT coalesce(NEW.due, ",
        now!(),
        ") AS at, coalesce(NEW.most, 9223372036854775807) AS most) t
        WHERE q.name = NEW.queue
        ON CONFLICT (queue, key, run) WHERE key IS NOT NULL DO UPDATE SET
            (due, at) = (SELECT m.at, m.at FROM (SELECT CASE NEW.merge
                WHEN 1 THEN min(durable_job.at, excluded.at)
                WHEN 2 THEN max(durable_job.at, excluded.at)
                ELSE min(coalesce(NEW.due, ",
        now!(),
        "), durable_job.most) END AS at) m),
            payload = excluded.payload, urgent = max(urgent, excluded.urgent), token = NULL, place = NULL,
            kind = excluded.kind, options = excluded.options, cancelled = 0
            WHERE NEW.merge > 0 OR cancelled = 1;
    END;"
    ),
];

/// The version that this crate writes.
#[expect(clippy::cast_possible_truncation, reason = "there are few")]
pub(super) const VERSION: u32 = STEPS.len() as u32;

/// The oldest version that may use tables of this one.
///
/// Processes of versions 6 and 7 ignore the columns of version 8: their settles keep them, and so do their merges,
/// which replace the payload. They bury a job without its kind, options and failures. They hand out jobs of all
/// kinds to their only handler, and record no failed attempts. Their cancels mark no job; they do
/// not learn of marks, and may return a marked job to its key. Such a job may run again, unless a process of
/// version 8 claims it. They ignore limits of kinds, and know a maximum per key only as one.
const OLDEST: u32 = 6;

/// Creates the tables, or migrates those of an older version.
pub(super) fn migrate(connection: &mut Connection) -> Result<()> {
    // Read first, without a write transaction, so that a current file can be opened while another process
    // writes.
    if version(connection)?.is_usable(VERSION)? {
        return Ok(());
    }
    let transaction = connection
        .transaction_with_behavior(TransactionBehavior::Immediate)
        .map_err(failure)?;
    // Read again: another process may have migrated in the meantime.
    let found = version(&transaction)?;
    if found.is_usable(VERSION)? {
        return Ok(());
    }
    for step in &STEPS[found.number as usize..] {
        transaction.execute_batch(step).map_err(failure)?;
    }
    transaction
        .execute_batch(&format!(
            "DROP TABLE IF EXISTS durable_version;
            CREATE TABLE durable_version (version INTEGER NOT NULL, oldest INTEGER NOT NULL) STRICT;
            INSERT INTO durable_version VALUES ({VERSION}, {OLDEST});"
        ))
        .map_err(failure)?;
    transaction.commit().map_err(failure)
}

fn version(connection: &Connection) -> Result<Version> {
    let is_there = connection
        .query_row(
            "SELECT 1 FROM sqlite_schema WHERE type = 'table' AND name = 'durable_version'",
            [],
            |_| Ok(()),
        )
        .optional()
        .map_err(failure)?;
    if is_there.is_none() {
        return Ok(Version::NONE);
    }
    let version = connection
        .query_row("SELECT * FROM durable_version", [], |row| {
            let number = row.get("version")?;
            // Versions before 6 do not record it. None of them may use tables of another version.
            let oldest = row.get("oldest").unwrap_or(number);
            Ok(Version { number, oldest })
        })
        .optional()
        .map_err(failure)?;
    version.ok_or_else(|| StoreError::new(ErrorKind::Corrupt))
}

#[cfg(all(test, not(anthill_loom)))]
mod tests {
    use super::*;

    #[test]
    fn an_older_version_becomes_this_one_and_keeps_its_jobs() {
        let mut connection = Connection::open_in_memory().expect("memory");
        connection.execute_batch(STEPS[0]).expect("version 1");
        connection
            .execute_batch(
                "CREATE TABLE durable_version (version INTEGER NOT NULL) STRICT;
                INSERT INTO durable_version VALUES (1);
                INSERT INTO durable_queue (id, name) VALUES (1, 'q');
                INSERT INTO durable_job (queue, due, at, most, payload) VALUES (1, 5, 5, 5, x'01');",
            )
            .expect("a job");
        migrate(&mut connection).expect("a migration");
        assert_eq!(version(&connection).expect("a version").number, VERSION);
        let count = |table: &str| -> u32 {
            connection
                .query_row(&format!("SELECT count(*) FROM {table}"), [], |row| {
                    row.get(0)
                })
                .expect("a count")
        };
        assert_eq!((count("durable_job"), count("durable_dead")), (1, 0));
    }

    /// From each older version. No job becomes urgent or marked, or gets a kind, options or failures.
    #[test]
    fn each_older_version_becomes_this_one_and_its_jobs_are_as_they_were() {
        for older in 1..STEPS.len() {
            let mut connection = Connection::open_in_memory().expect("memory");
            for step in &STEPS[..older] {
                connection.execute_batch(step).expect("a step");
            }
            connection
                .execute_batch(&format!(
                    "CREATE TABLE durable_version (version INTEGER NOT NULL) STRICT;
                    INSERT INTO durable_version VALUES ({older});
                    INSERT INTO durable_queue (id, name) VALUES (1, 'q');
                    INSERT INTO durable_job (queue, due, at, most, payload) VALUES (1, 5, 5, 5, x'01');"
                ))
                .expect("a job");
            migrate(&mut connection).expect("a migration");
            let jobs: (u32, u32, u32) = connection
                .query_row(
                    "SELECT count(*), sum(urgent + cancelled), count(coalesce(kind, options, failures))
                    FROM durable_job",
                    [],
                    |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)),
                )
                .expect("a count");
            assert_eq!(jobs, (1, 0, 0), "version {older}");
        }
    }

    /// Opens tables that a newer version has written, and checks that they do not change.
    fn opened_by_an_older_one(oldest: u32) -> Result<()> {
        let mut connection = Connection::open_in_memory().expect("memory");
        migrate(&mut connection).expect("a migration");
        let newer = Version {
            number: VERSION + 1,
            oldest,
        };
        let write = "UPDATE durable_version SET version = ?1, oldest = ?2";
        connection
            .execute(write, [newer.number, newer.oldest])
            .expect("an update");
        let opened = migrate(&mut connection);
        assert_eq!(version(&connection).expect("a version"), newer);
        opened
    }

    #[test]
    fn a_newer_version_is_opened_if_it_says_that_this_one_may_work_on_it() {
        opened_by_an_older_one(VERSION).expect("it may");
        opened_by_an_older_one(1).expect("it may");
    }

    #[test]
    fn a_newer_version_is_refused_and_left_as_it_is_if_it_says_that_this_one_may_not() {
        let error = opened_by_an_older_one(VERSION + 1).expect_err("it is newer");
        assert_eq!(
            error.kind(),
            ErrorKind::Newer {
                found: VERSION + 1,
                known: VERSION
            }
        );
    }
}
