//! Where the jobs of one run lie: a database or folder that is there for it alone.

use std::env;
use std::fs;
use std::path::PathBuf;
use std::thread::sleep;
use std::time::{Duration, Instant};

use postgres::{Client, NoTls};

use crate::contender::Outcome;

/// Names the address of a server of `PostgreSQL`.
const POSTGRES: &str = "DURABLE_POSTGRES_URL";
/// Sessions of a run have ended by then.
const LIMIT: Duration = Duration::from_secs(10);
const LOOK_EVERY: Duration = Duration::from_millis(2);

/// What has to be there for a contender.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Needs {
    /// It is in memory.
    Nothing,
    /// On a disk: beside this program.
    Folder,
    Postgres,
}

impl Needs {
    pub fn are_there(self) -> bool {
        match self {
            Self::Nothing | Self::Folder => true,
            Self::Postgres => env::var_os(POSTGRES).is_some(),
        }
    }

    /// Makes a place for one run.
    pub fn place(self) -> Outcome<Place> {
        let name = format!("bench_{}", std::process::id());
        Ok(match self {
            Self::Nothing => Place::Nothing,
            Self::Folder => {
                let program = env::current_exe()?;
                let folder = program.parent().ok_or("it lies in a folder")?.join(name);
                fs::create_dir_all(&folder)?;
                Place::Folder(folder)
            }
            Self::Postgres => {
                let database = Database::create(&env::var(POSTGRES)?, name)?;
                Place::Postgres(Box::new(database))
            }
        })
    }
}

/// It is gone when this is dropped.
pub enum Place {
    Nothing,
    Folder(PathBuf),
    Postgres(Box<Database>),
}

impl Place {
    /// What a contender is opened with.
    pub fn address(&self) -> String {
        match self {
            Self::Nothing => String::new(),
            Self::Folder(folder) => folder.join("jobs").display().to_string(),
            Self::Postgres(database) => database.address.clone(),
        }
    }

    /// Waits until no session is left, so that all of them have handed in what they counted; then
    /// reads the counters.
    pub fn settled_counts(&mut self) -> Outcome<Counts> {
        match self {
            Self::Postgres(database) => {
                database.wait_for_sessions()?;
                database.counts()
            }
            _ => Ok(Counts::default()),
        }
    }

    /// As they are. Queries and the log are exact; syncs lack what open sessions have not handed in.
    pub fn counts(&mut self) -> Outcome<Counts> {
        match self {
            Self::Postgres(database) => database.counts(),
            _ => Ok(Counts::default()),
        }
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        // What is left then lies below the target directory, or goes with the server.
        match self {
            Self::Nothing => {}
            Self::Folder(folder) => drop(fs::remove_dir_all(folder)),
            Self::Postgres(database) => drop(database.remove()),
        }
    }
}

/// What a server has counted so far; none of what it does not count.
#[derive(Clone, Copy, Default)]
pub struct Counts {
    /// Statements of clients in this database: round trips, but for those that are sent together.
    pub queries: Option<f64>,
    /// Of the log, by all databases.
    pub syncs: Option<f64>,
    /// Bytes of the log, by all databases.
    pub log: Option<f64>,
}

impl Counts {
    pub fn since(self, earlier: Self) -> Self {
        let since = |now: Option<f64>, then: Option<f64>| Some(now? - then?);
        Self {
            queries: since(self.queries, earlier.queries),
            syncs: since(self.syncs, earlier.syncs),
            log: since(self.log, earlier.log),
        }
    }
}

/// A database of a server, and a session beside it.
pub struct Database {
    server: Client,
    name: String,
    address: String,
}

impl Database {
    fn create(server: &str, name: String) -> Outcome<Self> {
        let (before, _) = server
            .rsplit_once('/')
            .ok_or("the address names no database")?;
        let address = format!("{before}/{name}");
        let mut server = Client::connect(server, NoTls)?;
        server.batch_execute(&format!("CREATE DATABASE {name}"))?;
        // Several may do so at a time, and the server may not have it: then it counts no queries.
        drop(server.batch_execute("CREATE EXTENSION IF NOT EXISTS pg_stat_statements"));
        Ok(Self {
            server,
            name,
            address,
        })
    }

    /// Those that are left belong to what has been dropped, and would end by and by.
    fn wait_for_sessions(&mut self) -> Outcome {
        let begin = Instant::now();
        let end = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity
            WHERE datname = $1 AND state = 'idle'";
        self.server.execute(end, &[&self.name])?;
        let open = "SELECT count(*) FROM pg_stat_activity WHERE datname = $1";
        while self.server.query_one(open, &[&self.name])?.get::<_, i64>(0) > 0 {
            if begin.elapsed() > LIMIT {
                return Err("its sessions do not end".into());
            }
            sleep(LOOK_EVERY);
        }
        Ok(())
    }

    fn counts(&mut self) -> Outcome<Counts> {
        let log = "SELECT (pg_current_wal_insert_lsn() - '0/0')::float8";
        let queries = "SELECT coalesce(sum(calls), 0)::float8 FROM pg_stat_statements s
            JOIN pg_database d ON d.oid = s.dbid WHERE d.datname = $1 AND s.toplevel";
        // Its column has gone elsewhere in version 18.
        let syncs = "SELECT wal_sync::float8 FROM pg_stat_wal";
        let queries = self.server.query_one(queries, &[&self.name]);
        let syncs = self.server.query_one(syncs, &[]);
        Ok(Counts {
            queries: queries.ok().map(|row| row.get(0)),
            syncs: syncs.ok().map(|row| row.get(0)),
            log: Some(self.server.query_one(log, &[])?.get(0)),
        })
    }

    fn remove(&mut self) -> Outcome {
        let statement = format!("DROP DATABASE {} WITH (FORCE)", self.name);
        Ok(self.server.batch_execute(&statement)?)
    }
}
