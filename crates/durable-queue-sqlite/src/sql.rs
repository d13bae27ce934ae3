//! The statements of the hot path, in one module, so that a test can check the query plan of each.
//!
//! `?1` is the queue, if the statement has one. Statements read `durable_job` by id, by key, or from the
//! start of the indexes `durable_job_due`, `durable_job_urgent`, `durable_job_free`, of a part of `durable_job_kind` or
//! of a group in `durable_job_group`.

pub(super) const BEGIN_CHANGE: &str = "BEGIN IMMEDIATE";
pub(super) const BEGIN_READ: &str = "BEGIN";
pub(super) const COMMIT: &str = "COMMIT";

pub(super) const QUEUE: &str = "SELECT id, paused, kind_limits, rule, rule_number, frees
    FROM durable_queue WHERE name = ?1";

pub(super) const PENDING: &str = "SELECT id, at, most, token FROM durable_job
    WHERE queue = ?1 AND key = ?2 AND run = 0";

/// The first job of a key: an open one, or else the one that was started first.
pub(super) const FIRST_OF_KEY: &str = "SELECT id FROM durable_job INDEXED BY durable_job_key
    WHERE queue = ?1 AND key = ?2 ORDER BY run LIMIT 1";

pub(super) const LAST_DONE: &str = "SELECT id FROM durable_done INDEXED BY durable_done_key
    WHERE queue = ?1 AND key = ?2 AND until > ?3 ORDER BY id DESC LIMIT 1";

pub(super) const INSERT: &str = "INSERT INTO durable_job
    (queue, due, at, most, key, payload, schedule, urgent, kind, options, job_group)
    VALUES (?1, ?2, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10)";

/// Like `INSERT`, for jobs that have only a payload and a time.
pub(super) const INSERT_PLAIN: &str = "INSERT INTO durable_job (queue, due, at, most, payload)
    VALUES (?1, ?2, ?2, 9223372036854775807, ?3)";

/// Also ends a claim ahead, and leaves the seat.
pub(super) const MERGE: &str = "UPDATE durable_job
    SET due = ?2, at = ?2, payload = ?3, schedule = coalesce(?4, schedule),
        most = CASE WHEN ?4 IS NULL THEN most ELSE 9223372036854775807 END,
        urgent = max(urgent, ?5), token = NULL, place = NULL, kind = ?6, options = ?7, job_group = ?8, seat = 0
    WHERE id = ?1";

/// A push in the caller's transaction. Returns the id, and 0 for a new job, 1 for a merged one, 2 for a kept
/// one. `RETURNING` is evaluated after the view's trigger, in which a new job gets the greatest id. `kept` is the
/// job into which the push is merged, or by which it is kept, by the time `?11` of the caller's clock.
pub(super) const PUSH: &str = "INSERT INTO durable_push
    (queue, payload, due, urgent, kind, options, job_group, key, merge, most, now, kept)
    SELECT ?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, coalesce(
        (SELECT j.id FROM durable_queue q JOIN durable_job j ON j.queue = q.id
            WHERE q.name = ?1 AND j.key = ?8 AND j.run <= CASE WHEN ?9 < 0 THEN 9223372036854775807 ELSE 0 END
            ORDER BY j.run LIMIT 1),
        CASE WHEN ?9 < -1 THEN (SELECT d.id FROM durable_queue q JOIN durable_done d ON d.queue = q.id
            WHERE q.name = ?1 AND d.key = ?8 AND d.until > ?11 ORDER BY d.id DESC LIMIT 1) END)
    RETURNING coalesce(kept, (SELECT max(id) FROM durable_job)) AS id,
        CASE WHEN kept IS NULL THEN 0 WHEN merge > 0 THEN 1 ELSE 2 END AS put";

/// A push in the caller's transaction, of a job without a key and a bound. Cheaper than [`PUSH`], because it
/// needs neither the view's trigger nor temporary tables. Inserts nothing if the queue does not exist.
pub(super) const PUSH_PLAIN: &str = "INSERT INTO durable_job
    (queue, due, at, most, payload, urgent, kind, options, job_group)
    SELECT q.id, ?3, ?3, 9223372036854775807, ?2, ?4, ?5, ?6, ?7 FROM durable_queue q WHERE q.name = ?1";

/// A job as `lease_of` reads it. `$started`: whether a handler has it.
macro_rules! leases {
    ($started:literal) => {
        concat!(
            "SELECT id, at, ",
            $started,
            ", attempts, key, payload, schedule, urgent, kind, options, failures, cancelled "
        )
    };
}

/// Due urgent jobs, including those whose leases have expired. The index is named because statistics must not
/// select another one: there may be many jobs in front.
pub(super) const DUE_URGENT: &str = concat!(
    leases!("0"),
    "FROM durable_job INDEXED BY durable_job_urgent
    WHERE queue = ?1 AND urgent = 1 AND due <= ?2 ORDER BY due, id LIMIT ?3"
);

/// Due jobs, including those whose leases have expired.
pub(super) const DUE: &str = concat!(
    leases!("0"),
    "FROM durable_job
    WHERE queue = ?1 AND due <= ?2 ORDER BY due, id LIMIT ?3"
);

/// Jobs without a lease that fall due after `?4`, by `?2`. The index is named because statistics must not
/// select another one: there may be many leased jobs.
pub(super) const SOON: &str = concat!(
    leases!("0"),
    "FROM durable_job INDEXED BY durable_job_free
    WHERE queue = ?1 AND token IS NULL AND due > ?4 AND due <= ?2 ORDER BY due, id LIMIT ?3"
);

/// One that was found by its kind.
pub(super) const FOUND: &str = concat!(leases!("0"), "FROM durable_job WHERE id = ?1");

/// Clients may write any number to `urgent`.
macro_rules! is_urgent {
    () => {
        "(urgent = 1)"
    };
}
pub(super) use is_urgent;

/// The part of the index `durable_job_kind` that has a job: see `kinds.rs`.
macro_rules! part {
    () => {
        "((urgent = 1) * 2 + (token IS NULL))"
    };
}
pub(super) use part;

macro_rules! of_kind {
    () => {
        "FROM durable_job INDEXED BY durable_job_kind WHERE queue = ?1 AND kind = ?2 AND "
    };
}

/// The first part of a kind, from `?3` on, that is not empty, and its first time.
pub(super) const NEXT_PART: &str = concat!(
    "SELECT ",
    part!(),
    ", due ",
    of_kind!(),
    part!(),
    " >= ?3 ORDER BY ",
    part!(),
    ", due, id LIMIT 1"
);

/// The first jobs of a part that can be claimed by `?4`. Reads only the index.
pub(super) const OF_PART: &str = concat!(
    "SELECT due, id ",
    of_kind!(),
    part!(),
    " = ?3 AND due <= ?4 ORDER BY due, id LIMIT ?5"
);

/// Claims and starts. One statement per job, because a single one for all would collect ids and results in
/// temporary tables, which costs more instructions.
pub(super) const CLAIM_DUE: &str = "UPDATE durable_job
    SET token = ?2, due = ?3, started = 1, attempts = attempts + 1 WHERE id = ?1";

/// Like `CLAIM_DUE`, and frees the key.
pub(super) const CLAIM_DUE_KEYED: &str = "UPDATE durable_job
    SET token = ?2, due = ?3, started = 1, attempts = attempts + 1, run = id WHERE id = ?1";

/// Claims without starting.
pub(super) const CLAIM_AHEAD: &str = "UPDATE durable_job
    SET token = ?2, due = max(at, ?3), started = 0 WHERE id = ?1";

/// The earliest time at which any job can be claimed, and the earliest due time of a job without a lease. The index is
/// named for the reason of `SOON`.
pub(super) const FIRST: &str = "SELECT
    (SELECT due FROM durable_job WHERE queue = ?1 ORDER BY due, id LIMIT 1),
    (SELECT due FROM durable_job INDEXED BY durable_job_free
        WHERE queue = ?1 AND token IS NULL ORDER BY due, id LIMIT 1)";

pub(super) const HELD_BY: &str = concat!(
    leases!("started"),
    "FROM durable_job
    WHERE queue = ?1 AND due <= ?2 AND token = ?3 ORDER BY due, id"
);

/// Only the first start of a claim counts, so it can be repeated.
pub(super) const START: &str = "UPDATE durable_job
    SET due = ?3, attempts = attempts + 1 - started, started = 1,
        run = CASE WHEN key IS NULL THEN 0 ELSE id END
    WHERE id = ?1 AND token = ?2 AND (started = 1 OR at <= ?4)";

pub(super) const IS_HELD: &str = "SELECT 1 FROM durable_job WHERE id = ?1 AND token = ?2";

pub(super) const EXTEND: &str =
    "UPDATE durable_job SET due = ?3 WHERE id = ?1 AND token = ?2 AND started = 1";

pub(super) const DELETE_STARTED: &str =
    "DELETE FROM durable_job WHERE id = ?1 AND token = ?2 AND started = 1";

/// The value of `run` for a job that is no longer held: open, unless another job of its key is.
macro_rules! reopened {
    () => {
        "CASE WHEN EXISTS (SELECT 1 FROM durable_job AS other INDEXED BY durable_job_key
            WHERE other.queue = durable_job.queue AND other.key = durable_job.key AND other.run = 0)
            THEN run ELSE 0 END"
    };
}

/// Only if it still has a schedule, which a cancel may have removed. `most` is the earliest time set by a
/// push during the run, or never (`?4`).
pub(super) const AGAIN: &str = concat!(
    "UPDATE durable_job
    SET due = min(?3, most), at = min(?3, most), most = ?4, attempts = 0, token = NULL, place = NULL, started = 0,
        failures = NULL, run = ",
    reopened!(),
    " WHERE id = ?1 AND token = ?2 AND started = 1 AND schedule IS NOT NULL AND cancelled = 0"
);

pub(super) const IS_DUE_BEFORE: &str = "SELECT 1 FROM durable_job WHERE id = ?1 AND due < ?2";

/// Marks a job that a handler has. It is no longer open, and has no schedule.
pub(super) const MARK: &str = "UPDATE durable_job
    SET schedule = NULL, cancelled = 1, run = CASE WHEN key IS NULL THEN 0 ELSE id END WHERE id = ?1";

/// Ends all schedules of a key.
pub(super) const END_SCHEDULES: &str = "UPDATE durable_job INDEXED BY durable_job_key
    SET schedule = NULL WHERE queue = ?1 AND key = ?2 AND schedule IS NOT NULL";

/// Ends a marked job instead of returning it. `?3`: even if it is not started.
pub(super) const DELETE_MARKED: &str = "DELETE FROM durable_job
    WHERE id = ?1 AND token = ?2 AND (started = 1 OR ?3) AND cancelled = 1";

pub(super) const CANCEL_REQUESTS: &str = "SELECT id, token
    FROM durable_job INDEXED BY durable_job_cancelled
    WHERE queue = ?1 AND cancelled = 1 AND token IS NOT NULL ORDER BY id LIMIT ?2";

/// The started repeating job of a key.
pub(super) const BEGUN_SCHEDULE: &str = "SELECT id, token IS NOT NULL, at
    FROM durable_job INDEXED BY durable_job_key
    WHERE queue = ?1 AND key = ?2 AND run > 0 AND schedule IS NOT NULL ORDER BY run LIMIT 1";

/// A push with a schedule during a run. `most`: the next due time. If no process has the job, its time is that of the
/// push, unless it is earlier.
pub(super) const RESCHEDULE: &str = "UPDATE durable_job
    SET payload = ?2, schedule = ?3, urgent = max(urgent, ?4), most = CASE WHEN token IS NULL THEN most ELSE ?5 END,
        due = CASE WHEN token IS NULL THEN min(at, ?5) ELSE due END,
        at = CASE WHEN token IS NULL THEN min(at, ?5) ELSE at END,
        place = CASE WHEN token IS NULL THEN NULL ELSE place END,
        seat = CASE WHEN token IS NULL THEN 0 ELSE seat END,
        kind = ?6, options = ?7 WHERE id = ?1";

/// `?5`: the attempts that are taken back.
pub(super) const RETRY: &str = concat!(
    "UPDATE durable_job
    SET due = ?3, at = ?3, most = max(most, ?3), token = NULL, place = NULL, started = 0,
        failures = coalesce(?4, failures), attempts = attempts - ?5, run = ",
    reopened!(),
    " WHERE id = ?1 AND token = ?2 AND started = 1 AND cancelled = 0"
);

pub(super) const RELEASE: &str = concat!(
    "UPDATE durable_job
    SET due = at, attempts = attempts - started, token = NULL, place = NULL, started = 0, run = ",
    reopened!(),
    " WHERE id = ?1 AND token = ?2 AND cancelled = 0"
);

/// `?5`: the attempts that are taken back.
pub(super) const BURY: &str = "INSERT INTO durable_dead
    (id, queue, attempts, buried, key, payload, error, schedule, urgent, kind, options, failures, job_group)
    SELECT id, queue, attempts - ?5, ?3, key, payload, ?4, schedule, urgent, kind, options,
        coalesce(?6, failures), job_group
    FROM durable_job
    WHERE id = ?1 AND token = ?2 AND started = 1";

/// Keeps a job that is done. It has no earlier entry, because its id is never used again.
pub(super) const KEEP: &str = "INSERT INTO durable_done
    (id, queue, until, finished, took, attempts, key, kind, result)
    SELECT id, queue, ?3, ?4, ?5, attempts, key, kind, ?6
    FROM durable_job
    WHERE id = ?1 AND token = ?2 AND started = 1";

pub(super) const IS_OPEN: &str = "SELECT 1 FROM durable_job WHERE id = ?2 AND queue = ?1";

pub(super) const ERROR_OF: &str = "SELECT error FROM durable_dead WHERE id = ?2 AND queue = ?1";

pub(super) const DONE: &str = "SELECT key, kind, attempts, finished, took, until, result
    FROM durable_done WHERE id = ?2 AND queue = ?1 AND until > ?3";

pub(super) const DELETE_DONE: &str = "DELETE FROM durable_done WHERE id IN (
    SELECT id FROM durable_done INDEXED BY durable_done_until
    WHERE queue = ?1 AND until <= ?2 ORDER BY until LIMIT ?3)";

pub(super) const BY_ID: &str =
    "SELECT id, started, due, attempts, payload, at, token, run FROM durable_job
    WHERE id = ?2 AND queue = ?1";

/// The open job comes first.
pub(super) const BY_KEY: &str =
    "SELECT id, started, due, attempts, payload, at, token, run FROM durable_job
    WHERE queue = ?1 AND key = ?2 ORDER BY run";

pub(super) const DELETE: &str = "DELETE FROM durable_job WHERE id = ?1";

pub(super) const MOVE: &str = concat!(
    "UPDATE durable_job
    SET due = ?2, at = ?2, most = max(most, ?2), token = NULL, place = NULL, seat = 0, started = 0, cancelled = 0,
        run = ",
    reopened!(),
    " WHERE id = ?1"
);

/// Reads from a position in the hot index: first the rest of that moment, then all later ones. With one
/// comparison of pairs, `SQLite` would read the whole moment again for each page.
pub(super) const LIST_OF_MOMENT: &str = "SELECT
    id, due, at, token IS NOT NULL, started, attempts, key, schedule, urgent, kind, failures, cancelled, job_group
    FROM durable_job WHERE queue = ?1 AND due = ?2 AND id > ?3 ORDER BY due, id LIMIT ?4";

pub(super) const LIST_AFTER: &str = "SELECT
    id, due, at, token IS NOT NULL, started, attempts, key, schedule, urgent, kind, failures, cancelled, job_group
    FROM durable_job WHERE queue = ?1 AND due > ?2 ORDER BY due, id LIMIT ?3";

pub(super) const DEAD: &str = "SELECT
    id, key, payload, attempts, buried, error, schedule, urgent, kind, options, failures, job_group
    FROM durable_dead
    WHERE queue = ?1 AND id > ?2 ORDER BY id LIMIT ?3";

/// `OR IGNORE`: fails if the key has a pending job. A key has only one repeating job, which may have been started.
pub(super) const REDRIVE: &str = "INSERT OR IGNORE INTO durable_job
    (id, queue, due, at, most, key, payload, schedule, urgent, kind, options, failures, job_group)
    SELECT id, queue, ?3, ?3, ?4, key, payload, schedule, urgent, kind, options, failures, job_group
    FROM durable_dead WHERE id = ?2 AND queue = ?1 AND (schedule IS NULL OR NOT EXISTS (
        SELECT 1 FROM durable_job AS other INDEXED BY durable_job_key
        WHERE other.queue = ?1 AND other.key = durable_dead.key AND other.schedule IS NOT NULL))";

pub(super) const DELETE_DEAD: &str = "DELETE FROM durable_dead WHERE id = ?2 AND queue = ?1";

pub(super) const COUNT_JOBS: &str =
    "SELECT count(*) FROM (SELECT 1 FROM durable_job WHERE queue = ?1 LIMIT ?2)";

pub(super) const COUNT_DUE: &str =
    "SELECT count(*) FROM (SELECT 1 FROM durable_job WHERE queue = ?1 AND due <= ?3 LIMIT ?2)";

/// The first kind that is `?2` or later. One lookup, however many jobs it has.
pub(super) const NEXT_KIND: &str = "SELECT min(kind) FROM durable_job INDEXED BY durable_job_kind
    WHERE queue = ?1 AND kind >= ?2";

pub(super) const COUNT_DUE_OF_PART: &str = concat!(
    "SELECT count(*) FROM (SELECT 1 ",
    of_kind!(),
    part!(),
    " = ?3 AND due <= ?4 LIMIT ?5)"
);

pub(super) const COUNT_DEAD: &str =
    "SELECT count(*) FROM (SELECT 1 FROM durable_dead WHERE queue = ?1 LIMIT ?2)";

pub(super) const PAUSE: &str = "UPDATE durable_queue SET paused = ?2 WHERE id = ?1";

pub(super) const LIMITS: &str = "SELECT id, kind, most, jobs, per, full
    FROM durable_limit WHERE queue = ?1 ORDER BY kind";

pub(super) const SET_LIMIT: &str = "INSERT INTO durable_limit (queue, kind, most, jobs, per, full)
    VALUES (?1, ?2, ?3, ?4, ?5, ?6) ON CONFLICT (queue, kind) DO UPDATE
    SET most = excluded.most, jobs = excluded.jobs, per = excluded.per, full = excluded.full";

pub(super) const DELETE_LIMIT: &str = "DELETE FROM durable_limit WHERE id = ?1";

pub(super) const TAKE_TOKENS: &str = "UPDATE durable_limit SET full = ?2 WHERE id = ?1";

pub(super) const HAS_LIMITS: &str = "UPDATE durable_queue
    SET kind_limits = EXISTS (SELECT 1 FROM durable_limit WHERE queue = durable_queue.id) WHERE id = ?1";

/// Gives places to the jobs of a kind in a part, which are held when its first limit is set.
pub(super) const PLACE_HELD: &str = concat!(
    "UPDATE durable_job INDEXED BY durable_job_kind SET place = ?3
    WHERE queue = ?1 AND kind = ?2 AND ",
    part!(),
    " = ?4"
);

/// Places of held jobs.
pub(super) const LEASES: &str = "SELECT id, due FROM durable_job INDEXED BY durable_job_place
    WHERE place = ?1 AND token IS NOT NULL";

/// Places of called jobs.
pub(super) const CALLED: &str = "SELECT count(*) FROM durable_job INDEXED BY durable_job_place
    WHERE place = ?1 AND token IS NULL";

/// `?1` is the negative number of the limit.
pub(super) const IS_PARKED: &str = "SELECT 1 FROM durable_job INDEXED BY durable_job_place
    WHERE place = ?1 LIMIT 1";

/// Restores the due times of the first parked jobs. `?1` is the negative number of the limit.
pub(super) const CALL: &str =
    "UPDATE durable_job SET due = at, place = -place, seat = coalesce(seat, 0)
    WHERE id IN (SELECT id FROM durable_job INDEXED BY durable_job_place
        WHERE place = ?1 ORDER BY urgent DESC, at, id LIMIT ?2)";

pub(super) const CALL_ALL: &str = "UPDATE durable_job INDEXED BY durable_job_place
    SET due = at, place = NULL, seat = coalesce(seat, 0) WHERE place = ?1";

pub(super) const LEAVE_PLACES: &str = "UPDATE durable_job INDEXED BY durable_job_place
    SET place = NULL WHERE place = ?1";

pub(super) const PARK: &str = "UPDATE durable_job
    SET due = 9223372036854775807, token = NULL, started = 0, place = ?2, seat = ?3 WHERE id = ?1";

pub(super) const TAKE_PLACE: &str = "UPDATE durable_job SET place = ?2 WHERE id = ?1";

/// Fences off an expired lease.
pub(super) const FENCE_OFF: &str = "UPDATE durable_job
    SET token = NULL, started = 0, place = NULL, seat = coalesce(seat, 0) WHERE id = ?1";

pub(super) const SET_RULE: &str =
    "UPDATE durable_queue SET rule = ?2, rule_number = ?3, frees = 1 WHERE id = ?1";

pub(super) const ALL_FREE: &str = "UPDATE durable_queue SET frees = 0 WHERE id = ?1";

/// Sets the seats of the jobs of groups in a part of a kind, which may be none.
pub(super) const SEAT_HELD: &str = concat!(
    "UPDATE durable_job INDEXED BY durable_job_kind SET seat = ?4
    WHERE queue = ?1 AND kind IS ?2 AND ",
    part!(),
    " = ?3 AND job_group IS NOT NULL"
);

macro_rules! of_groups {
    () => {
        "FROM durable_job INDEXED BY durable_job_group WHERE queue = ?1 AND job_group IS NOT NULL AND seat "
    };
}

/// Makes jobs fresh that wait for a former rule. `?2` is the negative number of the rule.
pub(super) const FREE_WAITING: &str = concat!(
    "UPDATE durable_job SET due = at, seat = 0 WHERE id IN (SELECT id ",
    of_groups!(),
    "> ?2 AND seat < 0 LIMIT ?3)"
);

/// Like `FREE_WAITING`, for jobs that have seats.
pub(super) const FREE_SEATED: &str = concat!(
    "UPDATE durable_job SET seat = CASE WHEN place < 0 THEN NULL ELSE 0 END WHERE id IN (SELECT id ",
    of_groups!(),
    "> 0 AND seat < ?2 LIMIT ?3)"
);

/// Notes the group of a job that is about to leave its seat, so that the next claim gives it to another one.
pub(super) const LEAVE: &str = "INSERT OR IGNORE INTO durable_left (queue, job_group)
    SELECT queue, job_group FROM durable_job WHERE id = ?1 AND seat = ?2 AND job_group IS NOT NULL";

pub(super) const LEFT: &str = "SELECT job_group FROM durable_left WHERE queue = ?1";

pub(super) const DELETE_LEFT: &str = "DELETE FROM durable_left WHERE queue = ?1";

pub(super) const SEAT_OF: &str =
    "SELECT job_group, seat, token IS NOT NULL FROM durable_job WHERE id = ?1";

/// The seat of a held job, and whether it ends when it is returned.
pub(super) const HELD_SEAT: &str =
    "SELECT job_group, seat, cancelled FROM durable_job WHERE id = ?1 AND token = ?2";

macro_rules! of_group {
    () => {
        "FROM durable_job INDEXED BY durable_job_group WHERE queue = ?1 AND job_group = ?2 AND seat = "
    };
}

/// At most `?4`.
pub(super) const COUNT_SEATED: &str = concat!(
    "SELECT count(*) FROM (SELECT 1 ",
    of_group!(),
    "?3 LIMIT ?4)"
);

/// `?3` is the negative number of the rule.
pub(super) const NEXT_WAITING: &str = concat!(
    "SELECT id ",
    of_group!(),
    "?3 ORDER BY ",
    is_urgent!(),
    " DESC, at, id LIMIT 1"
);

/// Whether the job `?1` comes before `?2` in their ordered group.
pub(super) const GOES_BEFORE: &str = "SELECT 1 FROM durable_job one, durable_job other
    WHERE one.id = ?1 AND other.id = ?2
        AND (one.urgent IS NOT 1, one.at, one.id) < (other.urgent IS NOT 1, other.at, other.id)";

/// The kind of a job that nobody holds.
pub(super) const FREE_KIND: &str = "SELECT kind FROM durable_job WHERE id = ?1 AND token IS NULL";

/// The first fresh job of a group that is due by `?3`. Two lookups, so that urgent jobs that are due later are not
/// read.
pub(super) const FIRST_FRESH: &str = concat!(
    "SELECT id, due FROM durable_job WHERE id = coalesce((SELECT id ",
    of_group!(),
    "0 AND ",
    is_urgent!(),
    " = 1 AND at <= ?3 ORDER BY at, id LIMIT 1), (SELECT id ",
    of_group!(),
    "0 AND ",
    is_urgent!(),
    " = 0 AND at <= ?3 ORDER BY at, id LIMIT 1))"
);

/// Sets the seat of a job.
pub(super) const SIT: &str = "UPDATE durable_job SET seat = ?2 WHERE id = ?1";

/// Gives a seat to a job that waits, or is fresh. It can be claimed at its own due time, and no earlier than `?3`.
pub(super) const CALL_TO_SEAT: &str =
    "UPDATE durable_job SET seat = ?2, due = max(at, ?3) WHERE id = ?1";

/// `?2` is the negative number of the rule.
pub(super) const WAIT: &str = "UPDATE durable_job
    SET due = 9223372036854775807, token = NULL, started = 0, place = NULL, seat = ?2 WHERE id = ?1";

pub(super) const ADD_QUEUE: &str = "INSERT INTO durable_queue (name) VALUES (?1)";

/// All statements that read jobs, with their numbers of parameters.
#[cfg(all(test, not(anthill_loom)))]
pub(super) const READS: [&str; 68] = [
    PENDING,
    FIRST_OF_KEY,
    LAST_DONE,
    MERGE,
    DUE_URGENT,
    DUE,
    SOON,
    FOUND,
    NEXT_PART,
    OF_PART,
    CLAIM_DUE,
    CLAIM_DUE_KEYED,
    CLAIM_AHEAD,
    LEASES,
    CALLED,
    IS_PARKED,
    CALL,
    CALL_ALL,
    LEAVE_PLACES,
    PARK,
    TAKE_PLACE,
    FENCE_OFF,
    FIRST,
    HELD_BY,
    START,
    IS_HELD,
    EXTEND,
    DELETE_STARTED,
    END_SCHEDULES,
    BEGUN_SCHEDULE,
    RESCHEDULE,
    AGAIN,
    IS_DUE_BEFORE,
    MARK,
    DELETE_MARKED,
    CANCEL_REQUESTS,
    RETRY,
    RELEASE,
    BURY,
    KEEP,
    IS_OPEN,
    ERROR_OF,
    DONE,
    DELETE_DONE,
    BY_ID,
    BY_KEY,
    LIST_OF_MOMENT,
    LIST_AFTER,
    DELETE,
    COUNT_JOBS,
    COUNT_DUE,
    NEXT_KIND,
    COUNT_DUE_OF_PART,
    PLACE_HELD,
    SEAT_HELD,
    FREE_WAITING,
    FREE_SEATED,
    LEAVE,
    SEAT_OF,
    HELD_SEAT,
    COUNT_SEATED,
    NEXT_WAITING,
    FIRST_FRESH,
    GOES_BEFORE,
    FREE_KIND,
    SIT,
    CALL_TO_SEAT,
    WAIT,
];
