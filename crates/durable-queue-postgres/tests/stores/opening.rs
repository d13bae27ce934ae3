//! Tables of other versions, and names of schemas.

use std::str::FromStr as _;
use std::thread;
use std::time::Duration;

use ::postgres::Config;
use durable_queue::internals::SAFETY_LOOK;
use durable_queue::{ErrorKind, Store, Token};
use durable_queue_postgres::PostgresStore;
use durable_queue_postgres::{
    BUSY_TIMEOUT, POLL_EVERY, PROBE_ANSWER, PROBE_EVERY, SCHEMA, SESSIONS,
};

use super::{Database, options};
use crate::alike::{JOB, count};

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
