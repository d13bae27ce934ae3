//! Tables of other versions, and names of schemas.

use std::str::FromStr as _;
use std::thread;
use std::time::Duration;

use ::postgres::Config;
use durable_queue::store::{Act, Lease};
use durable_queue::{ErrorKind, Limit, NewJob, SAFETY_LOOK, Store, Token};
use durable_queue_postgres::PostgresStore;
use durable_queue_postgres::{
    BUSY_TIMEOUT, POLL_EVERY, PROBE_ANSWER, PROBE_EVERY, SCHEMA, SESSIONS,
};
use testkit::{LIMIT, watchdog};

use super::{Database, options};
use crate::alike::{JOB, claim_of, count};

#[test]
fn tables_of_a_newer_version_are_rejected_and_unchanged() {
    let Some(database) = Database::new() else {
        return;
    };
    database.sql("UPDATE SCHEMA.version SET version = version + 1, oldest = version + 1");
    let error = database.options().open(&database.address).unwrap_err();
    let ErrorKind::Newer { found, known } = error.kind() else {
        panic!("{error}");
    };
    assert_eq!(found, known + 1);
    assert!(error.to_string().contains(&found.to_string()));
    assert_eq!(
        database.get::<i32>("SELECT version FROM SCHEMA.version"),
        found.cast_signed()
    );
}

/// As in a rolling upgrade, when processes of the previous version are restarted.
#[test]
fn compatible_tables_of_a_newer_version_are_used_unchanged() {
    let Some(database) = Database::new() else {
        return;
    };
    database.sql("UPDATE SCHEMA.version SET version = version + 1");
    let newer: i32 = database.get("SELECT version FROM SCHEMA.version");
    let store = database.another_store();
    store.enqueue("queue", &[JOB]).unwrap();
    assert_eq!(count(&store), 1);
    assert_eq!(
        database.get::<i32>("SELECT version FROM SCHEMA.version"),
        newer
    );
}

/// The additions of each version, and statements that remove them.
const ADDED: [(i32, &str); 9] = [
    (
        11,
        "DROP TABLE SCHEMA.kind_limit; DROP INDEX SCHEMA.job_place;
        ALTER TABLE SCHEMA.job DROP COLUMN place;
        ALTER TABLE SCHEMA.queue DROP COLUMN per_key, DROP COLUMN kind_limits",
    ),
    (
        10,
        "DROP TABLE SCHEMA.done; DROP INDEX SCHEMA.job_cancelled; ALTER TABLE SCHEMA.job
        DROP COLUMN kind, DROP COLUMN options, DROP COLUMN failures, DROP COLUMN cancelled",
    ),
    (
        9,
        "DROP INDEX SCHEMA.job_free; DROP INDEX SCHEMA.job_held;
        CREATE INDEX job_due ON SCHEMA.job (queue, due, id) WHERE due IS NOT NULL",
    ),
    (8, "ALTER TABLE SCHEMA.version DROP COLUMN oldest"),
    (7, "ALTER TABLE SCHEMA.queue DROP COLUMN serial_keys"),
    (
        6,
        "DROP INDEX SCHEMA.job_urgent; DROP INDEX SCHEMA.job_due;
        ALTER TABLE SCHEMA.job DROP COLUMN urgent;
        CREATE INDEX job_due ON SCHEMA.job (queue, due, id)",
    ),
    (5, "ALTER FUNCTION SCHEMA.named_5 RENAME TO named"),
    (3, "ALTER TABLE SCHEMA.job DROP COLUMN schedule"),
    (2, "DROP TABLE SCHEMA.dead"),
];

/// Makes the tables those of an older version.
fn downgrade(database: &Database, older: i32) {
    for (version, added) in ADDED {
        if version > older {
            database.sql(added);
        }
    }
    // Columns of dead letters that disappeared with the table, or are one of these.
    for (version, column) in [
        (10, "kind"),
        (10, "options"),
        (10, "failures"),
        (6, "urgent"),
        (3, "schedule"),
    ] {
        if (2..version).contains(&older) {
            database.sql(&format!("ALTER TABLE SCHEMA.dead DROP COLUMN {column}"));
        }
    }
    database.sql(&format!("UPDATE SCHEMA.version SET version = {older}"));
}

#[test]
fn tables_of_an_older_version_are_migrated_and_keep_their_jobs() {
    let Some(database) = Database::new() else {
        return;
    };
    let version = "SELECT version FROM SCHEMA.version";
    let current: i32 = database.get(version);
    assert_eq!(current, ADDED[0].0);
    // Functions that processes of older versions call.
    database.sql(
        "CREATE FUNCTION SCHEMA.held_by(p_queue text, p_token uuid, p_lease bigint)
        RETURNS TABLE (o_id bigint) LANGUAGE sql AS 'SELECT 7::bigint'",
    );
    for (jobs, older) in (1..current).rev().enumerate() {
        database.store.enqueue("queue", &[JOB]).unwrap();
        downgrade(&database, older);
        let store = database.options().open(&database.address).unwrap();
        assert_eq!(count(&store) as usize, jobs + 1, "from version {older}");
        assert!(store.dead("queue", None, 1).unwrap().is_empty());
        assert_eq!(database.get::<i32>(version), current);
        let claim = claim_of(100);
        let claimed = store.turn("queue", &[], Some(claim)).unwrap().claimed;
        let leases = claimed.unwrap().leases;
        assert_eq!(leases.len(), jobs + 1);
        let texts =
            |lease: &Lease| [&lease.kind, &lease.options, &lease.failures].map(Clone::clone);
        assert!(leases.iter().flat_map(texts).all(|text| text.is_none()));
        assert!(!leases.iter().any(|lease| lease.cancelled));
        let release = leases.iter().map(|lease| lease.settle(Act::Release));
        let release: Vec<_> = release.collect();
        store.turn("queue", &release, None).unwrap();
    }
    let held = "SELECT o_id FROM SCHEMA.held_by('queue', gen_random_uuid(), 0)";
    assert_eq!(database.get::<i64>(held), 7);
}

/// Opens a store, which migrates the tables, while another session is in a transaction that begins with `first`. `then`
/// runs as soon as the migration waits, and gets a function that runs statements in the transaction.
fn open_during(database: &Database, first: &str, then: impl FnOnce(&mut dyn FnMut(&str))) {
    database.store.enqueue("queue", &[JOB]).unwrap();
    downgrade(database, 8);
    let name = format!("{}_opens", database.schema);
    let address = format!("{}?application_name={name}", database.address);
    let mut other = database.session();
    let mut run = |text: &str| {
        other
            .batch_execute(&text.replace("SCHEMA", &database.schema))
            .unwrap();
    };
    run("BEGIN");
    run(first);
    thread::scope(|scope| {
        let opened = scope.spawn(|| database.options().open(&address));
        watchdog(LIMIT, || {
            while database.waiting_for_locks(&name) == 0 {
                thread::yield_now();
            }
        });
        then(&mut run);
        run("COMMIT");
        assert_eq!(count(&opened.join().unwrap().unwrap()), 1);
    });
}

/// A migration that waited for a long transaction would stop all processes.
#[test]
fn a_migration_that_waits_for_a_transaction_lets_other_calls_pass() {
    let Some(database) = Database::new() else {
        return;
    };
    open_during(&database, "SELECT FROM SCHEMA.job", |_| {
        watchdog(LIMIT, || database.sql("SELECT FROM SCHEMA.queue"));
    });
}

/// They are a deadlock, which the other transaction never looks for.
#[test]
fn a_migration_and_a_transaction_that_wait_for_each_other_both_succeed() {
    let Some(database) = Database::new() else {
        return;
    };
    let first = "SET deadlock_timeout = '1d'; SELECT FROM SCHEMA.job";
    open_during(&database, first, |run| run("SELECT FROM SCHEMA.queue"));
}

/// It would fail if it had to wait for the migration.
#[test]
fn a_call_in_progress_ends_before_a_migration_begins() {
    let Some(database) = Database::new() else {
        return;
    };
    let turn = "SET lock_timeout = '1ms'; SELECT FROM SCHEMA.queue; SELECT FROM SCHEMA.job";
    open_during(&database, turn, |run| run("UPDATE SCHEMA.job SET at = at"));
}

/// Processes of version 9 call them, and know nothing of kinds, failures and marks.
#[test]
fn functions_of_version_9_settle_jobs_of_this_version() {
    let Some(database) = Database::new() else {
        return;
    };
    let store = &database.store;
    let turn = |what: &str, acts: &str, leases: &[Lease], claim: &str| {
        let ids = leases.iter().map(|lease| lease.id.to_string());
        let tokens = leases.iter().map(|lease| {
            let token = u128::from_be_bytes(*lease.token.as_bytes());
            format!("'{token:032x}'")
        });
        let (ids, tokens) = (ids.collect::<Vec<_>>(), tokens.collect::<Vec<_>>());
        let count = leases.len();
        format!(
            "SELECT {what} FROM SCHEMA.turn_9('queue', true, true,
                '{acts}', ARRAY[{}]::bigint[], ARRAY[{}]::uuid[], array_fill(0::bigint, ARRAY[{count}]),
                array_fill(true, ARRAY[{count}]), array_fill('no'::text, ARRAY[{count}]), {claim}, 1000000,
                30000000, false, NULL)",
            ids.join(","),
            tokens.join(",")
        )
    };
    database.sql("CALL SCHEMA.push_one_6('queue', 0, true, 'one', false, '', NULL, NULL)");
    database.sql("SELECT SCHEMA.enqueue_plain('queue', '{0}', '{t}', '{two}', false, false)");
    let enqueue =
        "SELECT o_id FROM SCHEMA.enqueue('queue', '{0}', '{t}', '{four}', '{key}', '{2}', '{NULL}',
        '{NULL}', '{NULL}', '{f}', false)";
    let kind = Some("mail");
    let keyed = NewJob {
        kind,
        key: Some(b"key"),
        ..JOB
    };
    let of_kind = NewJob { kind, ..JOB };
    let id = store.enqueue("queue", &[keyed, of_kind]).unwrap()[0].id();
    assert_eq!(database.get::<i64>(enqueue), id.as_u64().cast_signed());

    let started = || {
        let claimed = store.turn("queue", &[], Some(claim_of(9))).unwrap().claimed;
        let mut leases = claimed.unwrap().leases;
        leases.sort_by_key(|lease| lease.id);
        leases
    };
    let leases = started();
    let kinds = leases.iter().map(|lease| lease.kind.as_deref());
    assert_eq!(kinds.collect::<Vec<_>>(), [None, None, None, kind]);
    let held = "SELECT count(*) FROM SCHEMA.list_6('queue', 0, 0, 10) WHERE o_held";
    assert_eq!(database.get::<i64>(held), 4);
    let cancel = format!(
        "SELECT o_taken FROM SCHEMA.cancel('queue', {}, NULL)",
        leases[0].id
    );
    assert!(database.get::<bool>(&cancel));
    assert_eq!(store.cancel_requests("queue").unwrap().len(), 1);
    // A release of the marked job, and of others.
    let no_claim = "NULL, 0, 0, 0";
    let done = "max(cardinality(o_done))";
    let release = turn(done, "{5,5,5,5}", &leases, no_claim);
    assert_eq!(database.get::<i32>(&release), 4);
    let leases = started();
    assert_eq!(leases.len(), 3, "the marked job has ended");
    let bury = turn(done, "{4,4,4}", &leases, no_claim);
    assert_eq!(database.get::<i32>(&bury), 3);
    let dead = "SELECT count(*) FROM SCHEMA.dead_letters_6('queue', 0, 10) WHERE o_error = 'no'";
    assert_eq!(database.get::<i64>(dead), 3);
    let dead = store.dead("queue", None, 10).unwrap();
    let ids: Vec<_> = dead.iter().map(|dead| dead.id).collect();
    assert_eq!(store.redrive("queue", &ids).unwrap(), 3);
    let claim = turn("count(o_id)", "{}", &[], "gen_random_uuid(), 9, 9, 9");
    assert_eq!(database.get::<i64>(&claim), 3);
    let kinds = store.list("queue", None, 10).unwrap();
    assert_eq!(kinds.iter().filter(|job| job.kind.is_some()).count(), 1);
    let token = "SELECT count(*) FROM SCHEMA.held_by_6('queue', (SELECT token FROM SCHEMA.job LIMIT 1), 60000000)";
    assert_eq!(database.get::<i64>(token), 3);
}

/// So do those of version 10, which calls the functions of this version.
#[test]
fn functions_of_version_9_observe_limits() {
    let Some(database) = Database::new() else {
        return;
    };
    let store = &database.store;
    for limit in [Limit::per_kind("mail", 1), Limit::per_key(2)] {
        store.limit("queue", &limit, true).unwrap();
    }
    let mail = NewJob {
        kind: Some("mail"),
        ..JOB
    };
    store.enqueue("queue", &[mail, mail]).unwrap();
    let turn = |acts: &str, more: &str| {
        format!(
            "SELECT count(o_id) FROM SCHEMA.turn_9('queue', true, true, '{acts}', {more},
                gen_random_uuid(), 9, 9, 0, 0, 30000000, false, NULL)"
        )
    };
    let claim = turn("{}", "'{}', '{}', '{}', '{}', '{}'");
    assert_eq!(database.get::<i64>(&claim), 1);
    assert_eq!(database.get::<i64>(&claim), 0);
    let held = "(SELECT id FROM SCHEMA.job WHERE token IS NOT NULL)";
    let token = held.replace("id", "token");
    let retry = turn(
        "{3}",
        &format!("ARRAY[{held}], ARRAY[{token}], '{{3600000000}}', '{{t}}', '{{NULL}}'"),
    );
    assert_eq!(database.get::<i64>(&retry), 1, "the parked one");
}

#[test]
fn concurrent_first_opens_create_the_tables_once() {
    let Some(database) = Database::new() else {
        return;
    };
    database.sql("DROP schema SCHEMA CASCADE");
    thread::scope(|scope| {
        let opened: Vec<_> = (0..4)
            .map(|_| scope.spawn(|| database.options().open(&database.address)))
            .collect();
        for store in opened {
            store
                .join()
                .unwrap()
                .unwrap()
                .enqueue("queue", &[JOB])
                .unwrap();
        }
    });
    assert_eq!(database.get::<i64>("SELECT count(*) FROM SCHEMA.job"), 4);
}

/// As when a backup is restored: a session's prepared statements refer to dropped tables.
#[test]
fn recreated_tables_are_used_by_open_stores() {
    let Some(database) = Database::new() else {
        return;
    };
    database.store.enqueue("queue", &[JOB]).unwrap();
    database.sql("DROP schema SCHEMA CASCADE");
    database.options().open(&database.address).unwrap();
    database.store.enqueue("queue", &[JOB]).unwrap();
    assert_eq!(count(&database.store), 1);
}

/// The server hides even the store's own session, which belongs to the login role.
#[test]
fn a_role_set_for_a_session_uses_the_tables() {
    let Some(database) = Database::new() else {
        return;
    };
    let role = format!("{}_role", database.schema);
    database.sql(&format!(
        "CREATE ROLE {role}; GRANT ALL ON schema SCHEMA TO {role};
        GRANT ALL ON ALL TABLES IN schema SCHEMA TO {role};
        GRANT ALL ON ALL SEQUENCES IN schema SCHEMA TO {role}"
    ));
    let mut config = Config::from_str(&database.address).unwrap();
    config.options(&format!("-c role={role}"));
    let opened = database.options().open_config(config);
    let used = opened.and_then(|store| {
        store.enqueue("queue", &[JOB])?;
        store.held_by("queue", Token::random(), Duration::from_secs(1))
    });
    database.sql(&format!("DROP OWNED BY {role}; DROP ROLE {role}"));
    assert!(used.is_ok(), "{used:?}");
}

#[test]
fn only_plain_schema_names_are_accepted() {
    for name in [
        "",
        "a b",
        "A",
        "1",
        "a\"; --",
        "schema.table",
        &"a".repeat(41),
    ] {
        // Rejected before a connection is made.
        let error = options(name).open("host=nowhere.invalid").unwrap_err();
        assert_eq!(error.kind(), ErrorKind::Other, "{name}");
        assert!(
            format!("{error:?}").contains("schema's name"),
            "{name} {error:?}"
        );
    }
    assert!(PostgresStore::open("no address at all").is_err());
}

#[test]
fn the_readme_contains_the_numbers_of_the_store() {
    let readme = include_str!("../../README.md");
    let minute = Duration::from_secs(60);
    for (text, value, meant) in [
        ("due in more than two minutes", SAFETY_LOOK * 2, minute * 2),
        ("due within two minutes", SAFETY_LOOK * 2, minute * 2),
        (
            "two round trips every 30 seconds, and a claim each minute",
            PROBE_EVERY,
            minute / 2,
        ),
    ] {
        assert!(readme.contains(text), "{text}");
        assert_eq!(value, meant, "{text}");
    }
    for row in [
        format!("| `sessions` | `SESSIONS`, {SESSIONS} |"),
        format!(
            "| `poll_every` | `POLL_EVERY`, {} s |",
            POLL_EVERY.as_secs()
        ),
        format!(
            "| `busy_timeout` | `BUSY_TIMEOUT`, {} s |",
            BUSY_TIMEOUT.as_secs()
        ),
        format!("within `PROBE_ANSWER` ({} s)", PROBE_ANSWER.as_secs()),
    ] {
        assert!(readme.contains(&row), "{row}");
    }
    assert!(readme.contains(&format!("a schema of their own, `{SCHEMA}`")));
    assert!(readme.contains(&format!("SELECT {SCHEMA}.push(")));
}
