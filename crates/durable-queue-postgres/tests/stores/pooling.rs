//! Stores behind a connection pooler.

use std::fs;
use std::net::{SocketAddr, TcpListener};
use std::os::unix::fs::chown;
use std::os::unix::process::CommandExt as _;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::str::FromStr as _;
use std::sync::mpsc::channel;
use std::thread;
use std::time::Duration;

use ::postgres::config::SslMode;
use ::postgres::{Client, Config, NoTls};
use durable_queue::{
    CarriedOut, Claimed, DurableQueue, ErrorKind, Limit, Notifier, ShutDown, Store, Worker,
};
use durable_queue_postgres::{POLL_EVERY, PostgresOptions, PostgresStore};
use durable_queue_testing::conformance::Fixture;

use super::Database;
use super::failing::{server, through};
use crate::alike::{
    JOB, a_lost_response_is_reported, a_sleeping_queue_is_woken, all_calls, claim_of, count, shown,
    what,
};
use crate::disturbed::a_disturbed_party_loses_nothing;
use crate::proxy::Proxy;

/// A pooler in front of the test server, in its own folder.
struct Pooler {
    child: Child,
    folder: PathBuf,
    port: u16,
}

impl Pooler {
    /// Returns `None` if no pooler is installed. At most `size` connections to the server.
    fn start(database: &Database, mode: &str, size: u32) -> Option<Self> {
        let is_there = Command::new("pgbouncer")
            .arg("--version")
            .stdout(Stdio::null())
            .status();
        if is_there.is_err() {
            testkit::left_out("tests through a pooler", "there is no pgbouncer");
            return None;
        }
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
        fs::write(&file, "").unwrap();
        // SAFETY: `geteuid` has no preconditions and cannot fail.
        let is_root = unsafe { libc::geteuid() } == 0;
        let mut command = Command::new("pgbouncer");
        if is_root {
            // The pooler refuses to run as root.
            const NOBODY: u32 = 65_534;
            for path in [&folder, &users, &file] {
                chown(path, Some(NOBODY), Some(NOBODY)).unwrap();
            }
            command.uid(NOBODY).gid(NOBODY);
        }
        configure(database, &folder, (mode, size, port));
        let child = command
            .arg("-q")
            .arg(&file)
            .stdout(Stdio::null())
            .stderr(Stdio::null());
        let child = child.spawn().unwrap();
        let pooler = Self {
            child,
            folder,
            port,
        };
        // It accepts connections shortly after its start.
        testkit::watchdog(testkit::LIMIT, || {
            while pooler.config(database).connect(NoTls).is_err() {
                thread::yield_now();
            }
        });
        Some(pooler)
    }

    fn address(&self) -> SocketAddr {
        ([127, 0, 0, 1], self.port).into()
    }

    fn config(&self, database: &Database) -> Config {
        plain(through(database, self.address()))
    }

    /// A session through the pooler.
    fn session(&self, database: &Database) -> Client {
        self.config(database).connect(NoTls).unwrap()
    }

    /// Changes its mode while it runs.
    fn change(&self, database: &Database, mode: &str, size: u32) {
        configure(database, &self.folder, (mode, size, self.port));
        let mut console = self.config(database);
        let mut console = console.dbname("pgbouncer").connect(NoTls).unwrap();
        console.simple_query("RELOAD").unwrap();
    }
}

fn plain(mut config: Config) -> Config {
    config.ssl_mode(SslMode::Disable);
    config
}

fn configure(database: &Database, folder: &std::path::Path, (mode, size, port): (&str, u32, u16)) {
    let to = server(database);
    let config = Config::from_str(&database.address).unwrap();
    let settings = format!(
        "[databases]\n* = host={} port={}\n[pgbouncer]\nlisten_addr = 127.0.0.1\nlisten_port = {port}\n\
        unix_socket_dir =\nauth_type = plain\nauth_file = {}\nadmin_users = {}\npool_mode = {mode}\n\
        default_pool_size = {size}\n",
        to.ip(),
        to.port(),
        folder.join("users").display(),
        config.get_user().unwrap(),
    );
    fs::write(folder.join("pgbouncer.ini"), settings).unwrap();
}

impl Drop for Pooler {
    fn drop(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
        fs::remove_dir_all(&self.folder).unwrap();
    }
}

/// A database, whose store is behind a pooler in transaction mode.
struct Pooled {
    store: PostgresStore,
    pooler: Pooler,
    database: Database,
}

impl Pooled {
    /// `size` connections to the server. The tables are created through the pooler.
    fn new(size: u32) -> Option<Self> {
        let database = Database::new()?;
        let pooler = Pooler::start(&database, "transaction", size)?;
        database.sql("DROP schema SCHEMA CASCADE");
        let options = database.options().pooler(true);
        let options = options.listen_url(&database.address);
        Some(Self {
            store: options.open_config(pooler.config(&database)).unwrap(),
            pooler,
            database,
        })
    }

    fn with_manual_clock() -> Option<Self> {
        let pooled = Self::new(2)?;
        pooled.database.use_manual_clock();
        Some(pooled)
    }

    fn options(&self) -> PostgresOptions {
        self.database.options().pooler(true)
    }

    fn open(&self, options: PostgresOptions) -> PostgresStore {
        let config = self.pooler.config(&self.database);
        options.open_config(config).unwrap()
    }

    /// Opens a store of another process that listens without the pooler.
    fn listening(&self) -> PostgresStore {
        self.open(self.options().listen_url(&self.database.address))
    }
}

impl Fixture for Pooled {
    type Store = PostgresStore;

    fn store(&self) -> &PostgresStore {
        &self.store
    }

    fn advance(&self, by: Duration) {
        self.database.advance(by);
    }

    fn another(&self) -> PostgresStore {
        self.listening()
    }
}

mod conformance {
    use super::Pooled;

    durable_queue_testing::conformance_tests!(if Pooled::with_manual_clock());
    durable_queue_testing::conformance_tests!(limits if Pooled::with_manual_clock());
}

fn opened_through(mode: &str) -> Option<Result<PostgresStore, durable_queue::StoreError>> {
    let database = Database::new()?;
    let pooler = Pooler::start(&database, mode, 20)?;
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
fn a_pooler_in_transaction_mode_is_rejected_with_an_explanation_unless_the_option_is_set() {
    let Some(opened) = opened_through("transaction") else {
        return;
    };
    let error = opened.unwrap_err();
    assert_eq!(what(&error), (ErrorKind::Pooled, CarriedOut::No));
    assert!(!error.is_transient());
    let shown = shown(&error);
    assert!(shown.contains("set the option `pooler`"), "{shown}");
}

#[test]
fn a_pooler_in_session_mode_works() {
    let Some(opened) = opened_through("session") else {
        return;
    };
    opened.unwrap();
}

/// The statement was prepared on another connection of the server.
#[test]
fn a_pooler_whose_mode_changes_later_is_an_error_that_names_it() {
    let Some(database) = Database::new() else {
        return;
    };
    let Some(pooler) = Pooler::start(&database, "session", 2) else {
        return;
    };
    let config = pooler.config(&database);
    let store = database.options().sessions(1).open_config(config).unwrap();
    // The only session: the store has ended the other one, with which it looked for a pooler.
    assert_eq!(count(&store), 0);
    pooler.change(&database, "transaction", 2);
    assert_eq!(count(&store), 0);
    let mut other = pooler.session(&database);
    // Takes the connection that the store has used last.
    let mut transaction = other.transaction().unwrap();
    transaction.batch_execute("SELECT").unwrap();
    let error = store.stats("queue").unwrap_err();
    assert_eq!(what(&error), (ErrorKind::Pooled, CarriedOut::No));
}

/// A server's connection is shared: what one client leaves there, others find.
#[test]
fn calls_through_a_pooler_leave_no_statement_no_setting_and_no_lock_on_the_connection() {
    let Some(pooled) = Pooled::new(1) else {
        return;
    };
    let mut other = pooled.pooler.session(&pooled.database);
    let state = "SELECT (SELECT count(*) FROM pg_prepared_statements),
        (SELECT count(*) FROM pg_locks WHERE locktype = 'advisory' AND pid = pg_backend_pid()),
        (SELECT count(*) FROM pg_listening_channels()),
        (SELECT string_agg(name || setting, ',') FROM pg_settings WHERE source = 'session'),
        pg_backend_pid()";
    let state = |other: &mut Client| {
        let answer = other.simple_query(state).unwrap();
        let Some(::postgres::SimpleQueryMessage::Row(row)) = answer.into_iter().nth(1) else {
            panic!("a row");
        };
        [0, 1, 2, 3, 4].map(|column| row.get(column).map(str::to_owned))
    };
    let before = state(&mut other);
    assert_eq!(before[..3], ["0", "0", "0"].map(|it| Some(it.to_owned())));
    let store = pooled.open(pooled.options());
    drop(store.watch("queue", Notifier::new(|_| ())).unwrap());
    all_calls(&store, 10);
    store.pause("queue", true).unwrap();
    store.limit("queue", &Limit::ordered(), true).unwrap();
    assert_eq!(state(&mut other), before);
}

/// Without the settings, a call may scan tables, wait for locks without a limit, or not be synced.
#[test]
fn calls_through_a_pooler_have_the_settings_of_other_sessions() {
    let Some(pooled) = Pooled::new(2) else {
        return;
    };
    let Pooled { database, .. } = &pooled;
    database.sql(
        "CREATE TABLE SCHEMA.seen (lot text);
        CREATE OR REPLACE FUNCTION SCHEMA.clock() RETURNS bigint LANGUAGE plpgsql AS $$ BEGIN
            INSERT INTO SCHEMA.seen SELECT string_agg(name || ' ' || setting, ', ' ORDER BY name)
                FROM pg_settings WHERE name IN ('jit', 'lock_timeout', 'plan_cache_mode')
                OR name ~ '^(enable_|synchronous_commit|transaction_isolation)';
            RETURN 0;
        END $$",
    );
    let busy = Duration::from_millis(4_321);
    let direct = database.options().busy_timeout(busy);
    let through = pooled.open(pooled.options().busy_timeout(busy));
    let mut seen = Vec::new();
    for store in [direct.open(&database.address).unwrap(), through] {
        store.enqueue("queue", &[JOB, JOB]).unwrap();
        seen.push(database.get::<String>("SELECT lot FROM SCHEMA.seen"));
        database.sql("TRUNCATE SCHEMA.seen");
    }
    assert!(seen[0].contains("lock_timeout 4321"), "{}", seen[0]);
    assert_eq!(seen[0], seen[1]);
}

#[test]
fn a_store_through_a_pooler_is_not_opened_with_another_isolation() {
    let Some(pooled) = Pooled::new(1) else {
        return;
    };
    let Pooled { database, .. } = &pooled;
    let name = format!("{}_strict", database.schema);
    database.sql(&format!(
        "CREATE ROLE {name} LOGIN PASSWORD 'x'; ALTER ROLE {name} SET default_transaction_isolation = 'serializable'"
    ));
    // The option needs no pooler.
    let mut config = Config::from_str(&database.address).unwrap();
    config.user(&name).password("x");
    let opened = pooled.options().open_config(config);
    database.sql(&format!("DROP ROLE {name}"));
    let error = opened.unwrap_err();
    assert_eq!(what(&error), (ErrorKind::Other, CarriedOut::No));
    assert!(shown(&error).contains("read committed"), "{error:?}");
}

#[test]
fn a_call_through_a_pooler_whose_response_was_lost_may_have_been_carried_out() {
    let Some(pooled) = Pooled::new(2) else {
        return;
    };
    let proxy = Proxy::new(pooled.pooler.address());
    let config = plain(through(&pooled.database, proxy.address));
    let store = pooled.options().open_config(config).unwrap();
    a_lost_response_is_reported(&pooled.store, &store, &proxy);
}

#[test]
fn a_sleeping_queue_behind_a_pooler_is_woken_by_a_direct_session() {
    let Some(pooled) = Pooled::new(1) else {
        return;
    };
    let queue = DurableQueue::new("queue", pooled.listening());
    let other: DurableQueue<Vec<u8>, _> = DurableQueue::new("queue", pooled.another());
    a_sleeping_queue_is_woken(&queue, |_, payload| {
        other.push(payload.to_vec(), Duration::ZERO).unwrap();
    });
}

#[test]
fn a_sleeping_queue_behind_a_pooler_looks_for_jobs_at_its_interval() {
    let Some(pooled) = Pooled::new(1) else {
        return;
    };
    let often = pooled.options().poll_every(Duration::from_millis(1));
    let queue = DurableQueue::new("queue", pooled.open(often));
    let other: DurableQueue<Vec<u8>, _> = DurableQueue::new("queue", pooled.another());
    a_sleeping_queue_is_woken(&queue, |_, payload| {
        other.push(payload.to_vec(), Duration::ZERO).unwrap();
    });
    let store = pooled.open(pooled.options());
    let watch = store.watch("queue", Notifier::new(|_| ())).unwrap();
    assert_eq!(watch.every(), Some(POLL_EVERY));
}

#[test]
fn a_listen_url_that_leads_to_a_pooler_is_rejected() {
    let Some(pooled) = Pooled::new(2) else {
        return;
    };
    let config = pooled.pooler.config(&pooled.database);
    let password = config.get_password().unwrap();
    let url = format!(
        "postgres://{}:{}@{}/{}?sslmode=disable",
        config.get_user().unwrap(),
        std::str::from_utf8(password).unwrap(),
        pooled.pooler.address(),
        config.get_dbname().unwrap(),
    );
    let store = pooled.open(pooled.options().listen_url(&url));
    store.enqueue("queue", &[JOB]).unwrap();
    let watch = store.watch("queue", Notifier::new(|_| ()));
    let error = watch.map(drop).unwrap_err();
    assert_eq!(what(&error), (ErrorKind::Pooled, CarriedOut::No));
    let unreadable = pooled.options().listen_url("no address at all");
    let config = pooled.pooler.config(&pooled.database);
    assert!(unreadable.open_config(config).is_err());
}

/// More workers than connections of the server.
#[test]
fn workers_behind_a_pooler_run_each_job_once() {
    const JOBS: usize = 300;
    let Some(pooled) = Pooled::new(2) else {
        return;
    };
    testkit::watchdog(testkit::LIMIT, || {
        let (ran, runs) = channel();
        let worker = || {
            let queue = DurableQueue::new("queue", pooled.listening());
            let ran = ran.clone();
            let worker = Worker::builder(queue).start(move |job: &Claimed<Vec<u8>>| {
                ran.send(job.to_vec()).unwrap();
                Ok::<_, std::io::Error>(())
            });
            worker.unwrap()
        };
        let workers = [worker(), worker(), worker()];
        let pusher = DurableQueue::new("queue", pooled.another());
        let jobs: Vec<Vec<u8>> = (0..JOBS).map(|job| format!("{job:03}").into()).collect();
        for job in &jobs {
            pusher.push(job.clone(), Duration::ZERO).unwrap();
        }
        let mut all: Vec<Vec<u8>> = runs.iter().take(JOBS).collect();
        all.sort_unstable();
        assert_eq!(all, jobs);
        for worker in workers {
            assert_eq!(worker.shutdown(testkit::LIMIT), ShutDown::Finished);
        }
        assert!(runs.try_recv().is_err(), "no job runs twice");
        assert_eq!(count(&pooled.store), 0);
    });
}

#[test]
fn processes_behind_a_pooler_and_a_disturbing_proxy_lose_no_job() {
    let Some(pooled) = Pooled::new(3) else {
        return;
    };
    let Pooled {
        database, pooler, ..
    } = &pooled;
    a_disturbed_party_loses_nothing("pooled", pooler.address(), &database.store, |address| {
        let options = pooled.options().listen_url(&database.address);
        let config = plain(through(database, address));
        options.open_config(config).ok()
    });
}
