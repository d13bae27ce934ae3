//! The tables, and their version.
//!
//! The version is in its own table, not in `user_version`, because the tables may be in an application's
//! file, which uses that.

use durable_queue::internals::Version;
use durable_queue::store::Result;
use durable_queue::{ErrorKind, StoreError};
use rusqlite::{Connection, OptionalExtension, TransactionBehavior};

use super::failure;
use super::sql::{is_urgent, part};

/// The current time in microseconds, with the resolution of `SQLite`'s clock, a millisecond.
macro_rules! now {
    () => {
        "CAST(round((julianday('now') - 2440587.5) * 86400000) AS INTEGER) * 1000"
    };
}

/// Creates everything.
///
/// Jobs: `due` is the time from which the job can be claimed: its due time, or the end of its lease. So jobs of dead
/// holders fall due by themselves, and `durable_job_due` serves most hot queries. `at` is the job's own due time,
/// `most` the bound of a debounce. `run` is 0 while the job is pending, else the job's id: each key has at most one
/// pending job, and any number of running ones. `schedule` is that of a repeating job. Only workers read
/// `options` and `failures`. `cancelled`: a cancel was requested while a handler had the job. `place` is the number of
/// the limit under which a job is held, or was called; negative while it is parked. `seat` is for jobs of a group
/// (`job_group`, because GROUP is a keyword): see `groups.rs`.
///
/// `kind_limits`: whether kinds have limits. `rule`, `rule_number` and `frees`: see `groups.rs`. `durable_left` has
/// groups of which a job has left its seat, until the next claim. `durable_done` has the done jobs that are kept,
/// `until` a time.
///
/// Indexes: `durable_job_free` has the jobs without a lease, so that claims ahead skip no leased ones. Without urgent
/// or marked jobs, each look for them costs one lookup in an empty index. `durable_job_place` has held, called and
/// parked jobs. It and `durable_job_group` have no `due`, because each statement opens each index that it may have to
/// change, even if the job is in none. For the same reason `durable_job_kind` is one index: see `kinds.rs`. It has
/// the jobs that have a kind, and also those of a group, so that a rule finds the held ones.
///
/// `durable_push`: pushes by any client, as inserts into a view without rows. Only `queue` and `payload` are required.
/// Without `due`, the job is due now. `merge`: 0 keep, 1 earliest, 2 latest, 3 debounce, up to `most`; -1 keep until
/// done, -2 also while a done job is kept. `kept` and `now` are for `PUSH`. The first insert has no `OR IGNORE`, which
/// the conflict clause of the caller's own insert would replace.
const CREATION: &str = concat!(
    "CREATE TABLE durable_queue (
        id INTEGER PRIMARY KEY,
        name TEXT NOT NULL UNIQUE,
        paused INTEGER NOT NULL DEFAULT 0,
        kind_limits INTEGER NOT NULL DEFAULT 0,
        rule INTEGER NOT NULL DEFAULT 0,
        rule_number INTEGER NOT NULL DEFAULT 0,
        frees INTEGER NOT NULL DEFAULT 0
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
        payload BLOB NOT NULL,
        schedule TEXT,
        urgent INTEGER NOT NULL DEFAULT 0,
        kind TEXT,
        options TEXT,
        failures TEXT,
        cancelled INTEGER NOT NULL DEFAULT 0,
        place INTEGER,
        job_group TEXT,
        seat INTEGER DEFAULT 0
    ) STRICT;
    CREATE INDEX durable_job_due ON durable_job (queue, due, id);
    CREATE INDEX durable_job_free ON durable_job (queue, due, id) WHERE token IS NULL;
    CREATE INDEX durable_job_urgent ON durable_job (queue, due, id) WHERE urgent = 1;
    CREATE INDEX durable_job_kind ON durable_job (queue, kind, ",
    part!(),
    ", due, id) WHERE kind IS NOT NULL OR job_group IS NOT NULL;
    CREATE INDEX durable_job_cancelled ON durable_job (queue, id) WHERE cancelled = 1;
    CREATE INDEX durable_job_place ON durable_job (place, urgent DESC, at, id) WHERE place IS NOT NULL;
    CREATE INDEX durable_job_group ON durable_job (queue, seat, job_group, ",
    is_urgent!(),
    " DESC, at, id) WHERE job_group IS NOT NULL AND seat IS NOT NULL;
    CREATE UNIQUE INDEX durable_job_key ON durable_job (queue, key, run) WHERE key IS NOT NULL;
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
    CREATE TABLE durable_left (
        queue INTEGER NOT NULL,
        job_group TEXT NOT NULL,
        PRIMARY KEY (queue, job_group)
    ) STRICT, WITHOUT ROWID;
    CREATE TABLE durable_dead (
        id INTEGER PRIMARY KEY,
        queue INTEGER NOT NULL,
        attempts INTEGER NOT NULL,
        buried INTEGER NOT NULL,
        key BLOB,
        payload BLOB NOT NULL,
        error TEXT NOT NULL,
        schedule TEXT,
        urgent INTEGER NOT NULL DEFAULT 0,
        kind TEXT,
        options TEXT,
        failures TEXT,
        job_group TEXT
    ) STRICT;
    CREATE INDEX durable_dead_queue ON durable_dead (queue, id);
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
    CREATE INDEX durable_done_key ON durable_done (queue, key, id, until) WHERE key IS NOT NULL;
    CREATE TABLE durable_version (version INTEGER NOT NULL, oldest INTEGER NOT NULL) STRICT;
    CREATE VIEW durable_push (queue, payload, due, key, urgent, merge, most, kind, options, job_group, kept, now) AS
        SELECT NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL WHERE 0;
    CREATE TRIGGER durable_push_insert INSTEAD OF INSERT ON durable_push BEGIN
        INSERT INTO durable_queue (name) SELECT NEW.queue
            WHERE NOT EXISTS (SELECT 1 FROM durable_queue WHERE name = NEW.queue);
        -- A merged job leaves its seat: `LEAVE`.
        INSERT INTO durable_left (queue, job_group) SELECT j.queue, j.job_group
            FROM durable_queue q CROSS JOIN durable_job j ON j.queue = q.id
            WHERE q.name = NEW.queue AND j.key = CAST(NEW.key AS BLOB) AND j.run = 0 AND NEW.merge > 0
                AND q.rule <> 0 AND j.seat = q.rule_number AND j.job_group IS NOT NULL
                AND NOT EXISTS (SELECT 1 FROM durable_left l WHERE l.queue = j.queue AND l.job_group = j.job_group);
        INSERT INTO durable_job (queue, due, at, most, key, payload, urgent, kind, options, job_group)
        SELECT q.id, min(t.at, t.most), min(t.at, t.most), t.most,
            CAST(NEW.key AS BLOB), CAST(NEW.payload AS BLOB), coalesce(NEW.urgent, 0),
            CAST(NEW.kind AS TEXT), CAST(NEW.options AS TEXT), CAST(NEW.job_group AS TEXT)
        FROM durable_queue q, (SELECT coalesce(NEW.due, ",
    now!(),
    ") AS at, coalesce(NEW.most, 9223372036854775807) AS most) t
        WHERE q.name = NEW.queue AND NOT (coalesce(NEW.merge, 0) < 0 AND (
            EXISTS (SELECT 1 FROM durable_job j WHERE j.queue = q.id AND j.key = CAST(NEW.key AS BLOB))
            OR NEW.merge < -1 AND EXISTS (SELECT 1 FROM durable_done d
                WHERE d.queue = q.id AND d.key = CAST(NEW.key AS BLOB) AND d.until > coalesce(NEW.now, ",
    now!(),
    "))))
        ON CONFLICT (queue, key, run) WHERE key IS NOT NULL DO UPDATE SET
            (due, at) = (SELECT m.at, m.at FROM (SELECT CASE NEW.merge
                WHEN 1 THEN min(durable_job.at, excluded.at)
                WHEN 2 THEN max(durable_job.at, excluded.at)
                ELSE min(coalesce(NEW.due, ",
    now!(),
    "), durable_job.most) END AS at) m),
            payload = excluded.payload, urgent = max(urgent, excluded.urgent), token = NULL, place = NULL,
            kind = excluded.kind, options = excluded.options, job_group = excluded.job_group, seat = 0
            WHERE NEW.merge > 0;
    END;"
);

/// The version of the tables that this crate creates.
pub(super) const VERSION: u32 = 1;

/// The oldest version that may use them.
const OLDEST: u32 = 1;

/// Creates the tables, unless they exist.
pub(super) fn create(connection: &mut Connection) -> Result<()> {
    // Read first, without a write transaction, so that a file can be opened while another process writes.
    if version(connection)?.is_usable(VERSION)? {
        return Ok(());
    }
    let transaction = connection
        .transaction_with_behavior(TransactionBehavior::Immediate)
        .map_err(failure)?;
    // Read again: another process may have created them in the meantime.
    if version(&transaction)?.is_usable(VERSION)? {
        return Ok(());
    }
    let insert = format!("INSERT INTO durable_version VALUES ({VERSION}, {OLDEST})");
    for statements in [CREATION, &insert] {
        transaction.execute_batch(statements).map_err(failure)?;
    }
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
        .query_row("SELECT version, oldest FROM durable_version", [], |row| {
            Ok(Version {
                number: row.get(0)?,
                oldest: row.get(1)?,
            })
        })
        .optional()
        .map_err(failure)?;
    version.ok_or_else(|| StoreError::new(ErrorKind::Corrupt))
}

#[cfg(all(test, not(anthill_loom)))]
mod tests {
    use durable_queue_tests::support::Folder;

    use super::*;

    #[test]
    fn a_new_file_has_version_1_and_a_second_open_changes_nothing() {
        let folder = Folder::new();
        let open = || Connection::open(folder.file("jobs")).expect("a file");
        let (mut first, mut second) = (open(), open());
        create(&mut first).expect("new tables");
        let new = Version {
            number: 1,
            oldest: 1,
        };
        assert_eq!(version(&first).expect("a version"), new);
        let job = "INSERT INTO durable_push (queue, payload) VALUES ('queue', 'job')";
        first.execute(job, []).expect("a push");
        let changes = |connection: &Connection| -> u32 {
            connection
                .query_row("PRAGMA data_version", [], |row| row.get(0))
                .expect("a number")
        };
        let before = changes(&first);
        create(&mut second).expect("the tables exist");
        assert_eq!(changes(&first), before, "nothing is written");
        assert_eq!(version(&second).expect("a version"), new);
        first.execute(job, []).expect("a push");
        let jobs = "SELECT count(*) FROM durable_job";
        let jobs: u32 = second.query_row(jobs, [], |row| row.get(0)).expect("jobs");
        assert_eq!(jobs, 2);
    }

    /// Opens tables that a newer version has written, and checks that they do not change.
    fn opened_by_an_older_one(oldest: u32) -> Result<()> {
        let mut connection = Connection::open_in_memory().expect("memory");
        create(&mut connection).expect("new tables");
        let newer = Version {
            number: VERSION + 1,
            oldest,
        };
        let write = "UPDATE durable_version SET version = ?1, oldest = ?2";
        connection
            .execute(write, [newer.number, newer.oldest])
            .expect("an update");
        let opened = create(&mut connection);
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
