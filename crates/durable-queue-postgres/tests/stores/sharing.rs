//! Shared sessions: by the pump and the application, by processes behind a pooler, and by servers that
//! replace each other.

use std::fs;
use std::net::TcpListener;
use std::os::unix::fs::chown;
use std::os::unix::process::CommandExt as _;
use std::process::{Child, Command, Stdio};
use std::str::FromStr as _;
use std::thread;
use std::time::Duration;

use ::postgres::config::SslMode;
use ::postgres::{Config, NoTls};
use durable_queue::store::{Act, Claim, Settle};
use durable_queue::{CarriedOut, ErrorKind, Merge, NewJob, PushIn, Store};
use durable_queue_postgres::PostgresStore;

use super::Database;
use super::failing::{server, through};
use crate::alike::{HOLD, JOB, claim_of, shown, what};
use crate::proxy::{Proxy, SilentAfter};

const LONG: Duration = Duration::from_secs(3_600);

/// A claim with a minimal lease.
fn short_claim() -> Claim {
    Claim {
        lease: Duration::from_secs(4),
        ..claim_of(1)
    }
}

#[test]
fn a_turn_does_not_wait_when_the_application_uses_all_its_sessions() {
    let Some(database) = Database::new() else {
        return;
    };
    let keyed = NewJob {
        key: Some(b"key"),
        merge: Merge::Latest,
        ..JOB
    };
    let name = format!("{}_app", database.schema);
    let address = format!("{}?application_name={name}", database.address);
    let store = database
        .options()
        .busy_timeout(LONG)
        .open(&address)
        .unwrap();
    // The queue exists, so calls do not wait for its creation.
    store.enqueue("queue", &[JOB]).unwrap();
    testkit::watchdog(testkit::LIMIT, || {
        let mut own = database.session();
        let mut transaction = own.transaction().unwrap();
        store
            .enqueue_in(&mut transaction, "queue", &[keyed])
            .unwrap();
        thread::scope(|scope| {
            for _ in 0..4 {
                scope.spawn(|| store.enqueue("queue", &[keyed]).unwrap());
            }
            let waiting = format!(
                "SELECT count(*) FROM pg_stat_activity WHERE application_name = '{name}' AND wait_event_type = 'Lock'"
            );
            // Two of the four use the two sessions, the others wait for them.
            while database.get::<i64>(&waiting) < 2 {
                thread::yield_now();
            }
            store.turn("queue", &[], None).unwrap();
            let claim = claim_of(1);
            store.turn("queue", &[], Some(claim)).unwrap();
            store.held_by("queue", claim.token, claim.lease).unwrap();
            transaction.rollback().unwrap();
        });
    });
}

#[test]
fn a_turn_that_waits_for_a_lock_ends_before_the_lease() {
    let Some(database) = Database::new() else {
        return;
    };
    let store = database
        .options()
        .busy_timeout(LONG)
        .open(&database.address)
        .unwrap();
    store.enqueue("queue", &[JOB]).unwrap();
    let claim = short_claim();
    let turn = store.turn("queue", &[], Some(claim)).unwrap();
    let held = turn.claimed.unwrap().leases.remove(0);
    let ack = Settle {
        id: held.id,
        token: held.token,
        act: Act::Ack,
    };
    testkit::watchdog(testkit::LIMIT, || {
        let mut own = database.session();
        let mut transaction = own.transaction().unwrap();
        let lock = format!("SELECT FROM {}.job FOR UPDATE", database.schema);
        transaction.execute(&lock, &[]).unwrap();
        let error = store.turn("queue", &[ack], None).unwrap_err();
        assert_eq!(what(&error), (ErrorKind::Busy, CarriedOut::No));
        transaction.rollback().unwrap();
        store.turn("queue", &[ack], None).unwrap();
    });
}

/// The network acknowledges all data, so no limit of the network ends the call.
#[test]
fn a_turn_without_a_response_ends_before_the_lease() {
    let Some(database) = Database::new() else {
        return;
    };
    let proxy = Proxy::with(server(&database), SilentAfter::new(HOLD));
    let store = database
        .options()
        .open_config(through(&database, proxy.address))
        .unwrap();
    let claim = short_claim();
    testkit::watchdog(testkit::LIMIT, || {
        store.turn("queue", &[], Some(claim)).unwrap();
        let error = String::from_utf8(HOLD.to_vec()).unwrap();
        let bury = Settle {
            id: durable_queue::JobId::from_u64(1),
            token: claim.token,
            act: Act::Bury { error: &error },
        };
        let error = store.turn("queue", &[bury], None).unwrap_err();
        assert_eq!(what(&error), (ErrorKind::Unavailable, CarriedOut::Perhaps));
    });
}

/// Like a server that became a standby, or whose disk was full: new connections can write again.
#[test]
fn sessions_older_than_the_detection_of_a_read_only_database_are_replaced() {
    let Some(database) = Database::new() else {
        return;
    };
    let role = format!("{}_writer", database.schema);
    database.sql(&format!(
        "CREATE ROLE {role} LOGIN PASSWORD 'x' SUPERUSER; ALTER ROLE {role} SET default_transaction_read_only = on"
    ));
    let mut config = through(&database, server(&database));
    config.user(&role).password("x");
    let opened = database.options().open_config(config);
    let claim = || Some(claim_of(1));
    let answers = opened.map(|store| {
        // One session is the application's, the other one the pump's.
        let read = store.stats("queue").map(drop);
        let refused = [
            store.turn("queue", &[], claim()).err(),
            store.turn("queue", &[], claim()).err(),
        ];
        database.sql(&format!(
            "ALTER ROLE {role} RESET default_transaction_read_only"
        ));
        let written = store.enqueue("queue", &[JOB]).map(drop);
        let claimed = store.turn("queue", &[], claim()).map(drop);
        drop(store);
        (read, refused, written, claimed)
    });
    let end = "SELECT count(pg_terminate_backend(pid, 60000)) FROM pg_stat_activity WHERE usename";
    database.get::<i64>(&format!("{end} = '{role}'"));
    database.sql(&format!("DROP OWNED BY {role}; DROP ROLE {role}"));
    let (read, refused, written, claimed) = answers.unwrap();
    read.unwrap();
    for error in refused {
        assert_eq!(what(&error.unwrap()), (ErrorKind::ReadOnly, CarriedOut::No));
    }
    written.unwrap();
    claimed.unwrap();
}

/// A pooler in front of the test server, in its own folder.
struct Pooler {
    child: Child,
    folder: std::path::PathBuf,
    port: u16,
}

impl Pooler {
    /// Returns `None` if no pooler is installed.
    fn start(database: &Database, mode: &str) -> Option<Self> {
        let is_there = Command::new("pgbouncer")
            .arg("--version")
            .stdout(Stdio::null())
            .status();
        if is_there.is_err() {
            testkit::left_out("tests through a pooler", "there is no pgbouncer");
            return None;
        }
        let to = server(database);
        let config = Config::from_str(&database.address).unwrap();
        let (user, password) = (config.get_user().unwrap(), config.get_password().unwrap());
        let password = std::str::from_utf8(password).unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        drop(listener);
        let folder = std::env::temp_dir().join(format!("{}_{mode}", database.schema));
        fs::create_dir_all(&folder).unwrap();
        let users = folder.join("users");
        fs::write(&users, format!("\"{user}\" \"{password}\"\n")).unwrap();
        let file = folder.join("pgbouncer.ini");
        let settings = format!(
            "[databases]\n* = host={} port={}\n[pgbouncer]\nlisten_addr = 127.0.0.1\nlisten_port = {port}\n\
            unix_socket_dir =\nauth_type = plain\nauth_file = {}\npool_mode = {mode}\n",
            to.ip(),
            to.port(),
            users.display()
        );
        fs::write(&file, settings).unwrap();
        let mut command = Command::new("pgbouncer");
        // SAFETY: `geteuid` has no preconditions and cannot fail.
        if unsafe { libc::geteuid() } == 0 {
            // The pooler refuses to run as root.
            const NOBODY: u32 = 65_534;
            for path in [&folder, &users, &file] {
                chown(path, Some(NOBODY), Some(NOBODY)).unwrap();
            }
            command.uid(NOBODY).gid(NOBODY);
        }
        let child = command
            .arg("-q")
            .arg(&file)
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        let child = child.spawn().unwrap();
        Some(Self {
            child,
            folder,
            port,
        })
    }

    fn config(&self, database: &Database) -> Config {
        let mut config = through(database, ([127, 0, 0, 1], self.port).into());
        config.ssl_mode(SslMode::Disable);
        // It accepts connections shortly after its start.
        while config.connect(NoTls).is_err() {
            thread::yield_now();
        }
        config
    }
}

impl Drop for Pooler {
    fn drop(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
        fs::remove_dir_all(&self.folder).unwrap();
    }
}

fn opened_through(mode: &str) -> Option<Result<PostgresStore, durable_queue::StoreError>> {
    let database = Database::new()?;
    let pooler = Pooler::start(&database, mode)?;
    let opened = testkit::watchdog(testkit::LIMIT, || {
        let config = pooler.config(&database);
        let opened = database.options().open_config(config)?;
        opened.enqueue("queue", &[JOB])?;
        opened.turn("queue", &[], Some(claim_of(1)))?;
        Ok(opened)
    });
    Some(opened)
}

#[test]
fn a_pooler_in_transaction_mode_is_rejected_with_an_explanation() {
    let Some(opened) = opened_through("transaction") else {
        return;
    };
    let error = opened.unwrap_err();
    assert_eq!(what(&error), (ErrorKind::Other, CarriedOut::No));
    assert!(shown(&error).contains("pooler"), "{}", shown(&error));
}

#[test]
fn a_pooler_in_session_mode_works() {
    let Some(opened) = opened_through("session") else {
        return;
    };
    opened.unwrap();
}
